/* SPDX-License-Identifier: MIT */
/* window.h: random delays at the race windows of the headers that follow. */

#ifndef WINDOW_H
#define WINDOW_H

/*
 * Included before inbox.h, park.h, wakes.h, idle.h and uproc.c. Between the
 * steps of an operation other threads get time for their steps. Mostly there is
 * no delay, often a delay of a few operations; at times the cpu is given away,
 * and rarely the thread sleeps. So each pair of operations meets in each
 * window. There is no locked instruction here but for the first pass, since
 * that would be a barrier, and hide a missing barrier.
 */
#include "check.h"
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define WINDOW_RARE	4000		/* before that, delays are frequent */
#define USCHED_RACE(step)						\
	do {								\
		static struct window here_ = { #step, 0, NULL };	\
		window(&here_);						\
	} while (0)

/* A place in a source; some steps have several. */
struct window {
	const char    *w_step;
	long           w_passed;
	struct window *w_next;
};

static struct window *windows;		/* that were passed */

static UNUSED void window_add(struct window *w)
{
	w->w_next = __atomic_load_n(&windows, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&windows, &w->w_next, w, false,
			__ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static UNUSED NOINLINE void window(struct window *w)
{
	static __thread unsigned state;
	const struct timespec nap = { 0, 1000 };
	int saved = errno;
	volatile unsigned spin;
	long passed;
	unsigned r;

	if (state == 0)
		state = check_hash(check_seed, (unsigned)(uintptr_t)&state);
	passed = __atomic_load_n(&w->w_passed, __ATOMIC_RELAXED);
	if (passed == 0)
		passed = __atomic_fetch_add(&w->w_passed, 1, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&w->w_passed, passed + 1, __ATOMIC_RELAXED);
	if (passed == 0)
		window_add(w);
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

static UNUSED bool window_passed(const char *step, size_t len)
{
	const struct window *w = __atomic_load_n(&windows, __ATOMIC_ACQUIRE);

	while (w != NULL && (strncmp(w->w_step, step, len) != 0 ||
			     w->w_step[len] != 0))
		w = w->w_next;
	return w != NULL;
}

/*
 * Checks that these steps, with blanks between, were passed, so the claim was
 * tested.
 */
static UNUSED void window_check(const char *steps)
{
	for (; *steps != 0; steps += *steps == ' ') {
		size_t len = strcspn(steps, " ");
		bool passed = window_passed(steps, len);

		if (!passed)
			fprintf(stderr, "%.*s was never passed\n", (int)len,
				steps);
		CHECK(passed);
		steps += len;
	}
}

#endif /* WINDOW_H */
