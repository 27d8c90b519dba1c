/* SPDX-License-Identifier: MIT */
/* hog.c: a report computes for 20 ms at a time, while clients of its processor are due. */

#include <stdio.h>
#include <usched/all.h>

#define CLIENTS	8
#define LINES	1000

static utime_ns closing;
static _Atomic long answered;
static long reports;

/* Computes a line of the report: 20 us. */
static void compute(void)
{
	utime_ns end = uafter(20 * UTIME_US);

	while (unow() < end)
		;
}

static void report(void *arg)
{
	(void)arg;
	for (; unow() < closing; reports++) {
		for (int line = 0; line < LINES; line++) {
			compute();
#ifdef CURED
			rr_yield();		/* others run between two lines */
#endif
		}
		u_sleep(uafter(UTIME_MS));
	}
}

static void client(void *arg)
{
	struct uticker letters = uticker(5 * UTIME_MS);

	(void)arg;
	while (unow() < closing && uticker_wait(&letters, NULL) == 0)
		answered++;
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < CLIENTS && rc == 0; i++)
		rc = rr_thread_init(client, NULL) ? 0 : -1;
	closing = uafter(400 * UTIME_MS);
	if (rc != 0 || !rr_thread_init(report, NULL) || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld answers, %ld reports\n", answered, reports);
	return 0;
}
