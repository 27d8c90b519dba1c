/* SPDX-License-Identifier: MIT */
/* window.h: random delays at the race windows of the headers that follow. */

#ifndef WINDOW_H
#define WINDOW_H

/*
 * Included before inbox.h, park.h, wakes.h, idle.h and uproc.c. Between the
 * steps of an operation other threads get time for their steps. Mostly there is
 * no delay, often a delay of a few operations; at times the cpu is given away,
 * and rarely the thread sleeps. So each pair of operations meets in each
 * window. There is no locked instruction here, since that would be a barrier,
 * and hide a missing barrier.
 */
#include "check.h"
#include <errno.h>
#include <sched.h>
#include <time.h>

#define WINDOW_NR	64		/* numbers 1 to 63 */
#define WINDOW_RARE	4000		/* before that, delays are frequent */
#define USCHED_RACE(n)	window(n)

static long window_passed[WINDOW_NR];

static UNUSED NOINLINE void window(int nr)
{
	static __thread unsigned state;
	const struct timespec nap = { 0, 1000 };
	int saved = errno;
	volatile unsigned spin;
	long passed;
	unsigned r;

	if (state == 0)
		state = check_hash(check_seed, (unsigned)(uintptr_t)&state);
	passed = __atomic_load_n(&window_passed[nr], __ATOMIC_RELAXED);
	__atomic_store_n(&window_passed[nr], passed + 1, __ATOMIC_RELAXED);
	r = check_random(&state) % (passed < WINDOW_RARE ? 1024 : 8192);
	if (r == 0)
		nanosleep(&nap, NULL);
	else if (r < 24)
		check_yield();
	else if (r < 2048)
		for (spin = r / 16; spin > 0; spin--)
			;
	errno = saved;
}

/*
 * Checks that all windows from first to last were passed, so the claim was
 * tested.
 */
static UNUSED void window_check(int first, int last)
{
	for (; first <= last; first++) {
		if (window_passed[first] == 0)
			fprintf(stderr, "window %d was never passed\n", first);
		CHECK(window_passed[first] != 0);
	}
}

#endif /* WINDOW_H */
