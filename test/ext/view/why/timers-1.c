/* SPDX-License-Identifier: MIT */
/* timers-1.c: 3,000 sessions were opened in one moment, so their pings fall due together. */

#include <stdio.h>
#include <usched/all.h>

#define SESSIONS	3000
#define PERIOD		(200 * UTIME_MS)
#define PERIODS		10

static utime_ns opened;
static _Atomic long pings;

/* Builds a frame, which takes 40 us, and sends it. */
__attribute__((noinline)) static void ping(void)
{
	utime_ns end = unow() + 40 * UTIME_US;

	while (unow() < end)
		;
	pings++;
}

static void session(void *arg)
{
	(void)arg;
	for (int i = 1; i <= PERIODS; i++) {
		if (u_sleep(opened + i * PERIOD) != 0)
			break;
		ping();
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < SESSIONS && rc == 0; i++)
		rc = rr_thread_init(session, NULL) ? 0 : -1;
	opened = unow();
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld pings\n", pings);
	return 0;
}
