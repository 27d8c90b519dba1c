/* SPDX-License-Identifier: MIT */
/* idle.h: how a set of native threads that park finds out that all is over. */

#ifndef IDLE_H
#define IDLE_H

/*
 * A processor with nothing to run parks: see park.h for why no wake is lost.
 * The idle count is the number of the parked ones, less that of the native
 * threads from outside that may still give work (holds).
 *
 * The sleeper:                          A waker:
 *
 *	S1 publish   park_prepare()		W1 give work
 *	S3 look again for work		W3 look: is it asleep?
 *	D1 add 1 to the count		D2 take 1 from the count
 *	   if all are idle, tell it	W4 wake it; if another was faster,
 *	S4 sleep			   D3 give the 1 back
 *
 * D1 comes after the look in vain, and D2 before the sleeper can go on, let
 * alone sleep again: else it could be counted twice, and the waker, who is
 * awake, be overlooked. So the additions by and for a processor sum up to 1
 * only while it sleeps and nobody has begun to wake it; else to 0 or less. When
 * the count is the number of processors, then at that moment each had looked
 * again in vain and was not being woken, and nobody was there who could wake
 * another: no message is under way, and nothing will ever change.
 *
 *	operation      who may call
 *	idle_sleep     a processor, after park_prepare() and a look in vain
 *	idle_doze      the same; may wake itself
 *	idle_wake      anyone, also a signal handler, after work was given
 *	idle_hold      anyone, while the count cannot reach the number: before
 *		       the start, or while another one holds
 *	idle_release   who holds; touches nothing but the count
 *	idle_wait      one, outside of the processors
 *
 * Orders: all are sequentially consistent, as those of park.h, of which they
 * are a part. Who waits acquires what all others did.
 */

#include "park.h"

#if !defined(RACE_WINDOW)
#define RACE_WINDOW(n)	((void)0)	/* a test puts delays there */
#endif

static inline void idle_hold(int *idle)
{
	__atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);
}

/* One more is idle, or one less busy. Only *idle is touched then, if at all. */
static inline void idle_release(int *idle)
{
	__atomic_fetch_add(idle, 1, __ATOMIC_SEQ_CST);
	park_futex_wake(idle);
}

/* One of nr processors sleeps until it is woken. */
static inline void idle_sleep(int *idle, int nr, int *asleep)
{
	RACE_WINDOW(11);
	if (__atomic_add_fetch(idle, 1, __ATOMIC_SEQ_CST) == nr) /* D1 */
		park_futex_wake(idle);
	RACE_WINDOW(12);
	park_sleep(asleep);					/* S4 */
}

/* Work was given to the processor that has this asleep. */
static inline void idle_wake(int *idle, int *asleep)
{
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)	/* W3 */
		return;
	RACE_WINDOW(13);
	__atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);		/* D2 */
	RACE_WINDOW(14);
	if (!park_wake(asleep)) {				/* W4 */
		RACE_WINDOW(15);
		idle_release(idle);				/* D3 */
	}
}

/*
 * As idle_sleep(), for so many nanoseconds at most. False: nobody else has
 * ended it. It wakes itself then, as any other waker would.
 */
static inline bool idle_doze(int *idle, int nr, int *asleep, long ns)
{
	RACE_WINDOW(11);
	if (__atomic_add_fetch(idle, 1, __ATOMIC_SEQ_CST) == nr) /* D1 */
		park_futex_wake(idle);
	RACE_WINDOW(12);
	park_futex_wait_for(asleep, 1, ns);
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)
		return true;
	idle_wake(idle, asleep);
	return false;
}

/* Returns when all nr processors sleep for ever, and nobody holds. */
static inline void idle_wait(int *idle, int nr)
{
	int now;

	while ((now = __atomic_load_n(idle, __ATOMIC_SEQ_CST)) != nr)
		park_futex_wait(idle, now);
}

#endif /* IDLE_H */
