/* SPDX-License-Identifier: MIT */
/* window.h: random delays at the race windows of the headers that follow. */

#ifndef WINDOW_H
#define WINDOW_H

/*
 * To be included before inbox.h, park.h, wakes.h, idle.h, uproc.c. Between the
 * steps of an operation others get the time to do theirs: mostly there is no
 * delay, often one of a few operations, at times the cpu is given away, and
 * rarely the thread sleeps. So all kinds of neighbours meet in a window. There
 * is no locked instruction here: it would be a barrier, and hide a missing one.
 */
#include "check.h"
#include <errno.h>
#include <sched.h>
#include <time.h>

#define WINDOW_NR	48		/* and one: they are numbered from 1 */
#define WINDOW_RARE	4000		/* so long, delays are frequent */
#define RACE_WINDOW(n)	window(n)

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

/* The test did what it claims: all windows from first to last were passed. */
static UNUSED void window_check(int first, int last)
{
	for (; first <= last; first++) {
		if (window_passed[first] == 0)
			fprintf(stderr, "window %d was never passed\n", first);
		CHECK(window_passed[first] != 0);
	}
}

#endif /* WINDOW_H */
