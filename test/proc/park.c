/* SPDX-License-Identifier: MIT */
/* park: each sleep is ended by exactly one call, and no work is missed. */
/* VARIANTS: once */

/*
 * A sleeper and two wakers do the steps of park.h. For each prepare exactly one
 * of the cancel and the wakes returns true. All are delayed at random between
 * their steps.
 */
#include "window.h"
#include "park.h"
#include <pthread.h>
#include <sched.h>

#define ROUNDS	200000		/* of each waker */
#define WAKERS	2

static long work __attribute__((aligned(64)));		/* work given */
static int  asleep __attribute__((aligned(64)));
static long sleeps __attribute__((aligned(64)));	/* prepares */
static long cancels, missed;
static long wakes __attribute__((aligned(64)));		/* returned true */

static void *waker(void *arg)
{
	unsigned state = check_seed + (unsigned)(uintptr_t)arg;
	long mine = 0;
	long i;

	for (i = 0; i < ROUNDS; i++) {
		volatile int spin;

		__atomic_add_fetch(&work, 1, __ATOMIC_SEQ_CST);	/* park W1, W2 */
		mine += upark_wake(&asleep);			/* park W3 */
		for (spin = (int)(check_random(&state) % 64); spin > 0; spin--)
			;
	}
	__atomic_add_fetch(&wakes, mine, __ATOMIC_SEQ_CST);
	return NULL;
}

static long given(void)
{
	return __atomic_load_n(&work, __ATOMIC_SEQ_CST);
}

static void sleeper(void)
{
	long taken = 0;

	while (taken < (long)WAKERS * ROUNDS) {
		if (given() > taken) {
			taken++;
			continue;
		}
		sleeps++;
		USCHED_RACE(park_S1);
		upark_prepare(&asleep);			/* park S1, S2 */
		USCHED_RACE(park_S3);
		if (given() > taken) {			/* park S3 */
			if (upark_cancel(&asleep)) {
				cancels++;
				continue;
			}
			missed++;
		}
		upark_sleep(&asleep);			/* park S4 */
		CHECK_IS(__atomic_load_n(&asleep, __ATOMIC_RELAXED), 0);
	}
}

/* By turns: each sleeps until the other wakes it. */

static int turns[2] __attribute__((aligned(64)));
static long at;

static void *by_turns(void *arg)
{
	long me = (long)(intptr_t)arg;
	long i;

	for (i = me; i < 100000; i += 2) {
		while (__atomic_load_n(&at, __ATOMIC_SEQ_CST) != i) {
			USCHED_RACE(park_S1);
			upark_prepare(&turns[me]);
			if (__atomic_load_n(&at, __ATOMIC_SEQ_CST) == i &&
			    upark_cancel(&turns[me]))
				break;
			upark_sleep(&turns[me]);
		}
		__atomic_store_n(&at, i + 1, __ATOMIC_SEQ_CST);
		(void)upark_wake(&turns[!me]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t id[WAKERS];
	intptr_t i;

	check_start(argc, argv);
	CHECK(!upark_wake(&asleep));
	upark_prepare(&asleep);
	CHECK(upark_wake(&asleep) && !upark_wake(&asleep));
	CHECK(!upark_cancel(&asleep));
	upark_sleep(&asleep);
	for (i = 0; i < WAKERS; i++)
		CHECK_IS(pthread_create(&id[i], NULL, waker, (void *)i), 0);
	sleeper();
	for (i = 0; i < WAKERS; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK_IS(sleeps, cancels + wakes);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_create(&id[i], NULL, by_turns, (void *)i), 0);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK_IS(at, 100000);
	window_check("park_S4 park_W3 park_wake");
	return 0;
}
