/* SPDX-License-Identifier: MIT */
/* yields-healthy.c: a robot yields until a scale rests: 17 % of the time, limit 20. */

#include <stdio.h>
#include <usched/all.h>

#define BELTS	4

static utime_ns closing, laid;
static _Atomic long moved;
static long weighed;

/* The scale rests 3.6 ms after a parcel was laid on it. */
static int rests(void)
{
	return unow() >= laid + 3600 * UTIME_US;
}

/* Weighs a parcel each 10 ms. */
static void robot(void *arg)
{
	struct uticker parcels = uticker(10 * UTIME_MS);

	(void)arg;
	while (unow() < closing && uticker_wait(&parcels, NULL) == 0) {
		laid = unow();
		while (!rests())
			if (rr_yield() != 0)
				return;
		weighed++;
	}
}

static void belt(void *arg)
{
	struct uticker steps = uticker(3 * UTIME_MS);
	utime_ns end;

	(void)arg;
	while (unow() < closing && uticker_wait(&steps, NULL) == 0) {
		end = unow() + 50 * UTIME_US;
		while (unow() < end)
			;
		moved++;
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < BELTS && rc == 0; i++)
		rc = rr_thread_init(belt, NULL) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || !rr_thread_init(robot, NULL) || rr_start() != 0 ||
	    rr_fini() != 0)
		return 1;
	printf("%ld parcels, %ld steps\n", weighed, moved);
	return 0;
}
