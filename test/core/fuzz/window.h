/* SPDX-License-Identifier: MIT */
/* window.h: delays at the race windows of inbox.h, wakes.h and so on. */

/* FUZZ_FLAGS='-include test/core/fuzz/window.h' test/core/fuzz.sh */

#ifndef FUZZ_WINDOW_H
#define FUZZ_WINDOW_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <sched.h>

static __inline__ void fuzz_window(void)
{
	static __thread unsigned state = 1;
	volatile int i;

	state = state * 1664525u + 1013904223u;
	if (state >> 28 == 0)
		sched_yield();
	else if (state >> 30 == 1)
		for (i = 0; i < 500; i++)
			;
}

#define USCHED_RACE(step)	fuzz_window()

#endif /* FUZZ_WINDOW_H */
