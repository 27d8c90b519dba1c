/* SPDX-License-Identifier: MIT */
/* timers.c: the timers of all sessions are due in the same moment, each 100 ms. */

#include <stdio.h>
#include <usched/all.h>

#define SESSIONS	1000
#define PERIOD		(100 * UTIME_MS)
#define PERIODS		5

static utime_ns opened;
static _Atomic long pings;

/* Makes a message, which takes 40 us. */
static void ping(void)
{
	utime_ns end = uafter(40 * UTIME_US);

	while (unow() < end)
		;
	pings++;
}

static void session(void *arg)
{
	utime_ns first = opened;

#ifdef CURED
	first += (long)arg * PERIOD / SESSIONS;	/* spread over the period */
#else
	(void)arg;
#endif
	for (int i = 0; i < PERIODS && u_sleep(first + i * PERIOD) == 0; i++)
		ping();
}

int main(void)
{
	int rc = rr_init(2, 0);

	for (long i = 0; i < SESSIONS && rc == 0; i++)
		rc = rr_thread_init(session, (void *)i) ? 0 : -1;
	opened = uafter(PERIOD);
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld pings\n", pings);
	return 0;
}
