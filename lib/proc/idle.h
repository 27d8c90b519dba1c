/* SPDX-License-Identifier: MIT */
/* idle.h: termination detection for a set of native threads that park. */

#ifndef UIDLE_H
#define UIDLE_H

/*
 * A processor with nothing to run parks. park.h says why no wake is lost. The
 * idle count is the number of parked processors less the number of holds. With
 * a hold a native thread outside of the set says that it may still give work.
 *
 * The sleeper:                          A waker:
 *
 *	S1 publish   upark_prepare()		W1 give work
 *	S3 look again for work		W3 look: is it asleep?
 *	D1 add 1 to the count		D2 take 1 from the count
 *	   if all are idle, say so	W4 wake it
 *	S4 sleep			D3 give the 1 back, if another waker
 *					   was faster in W4
 *
 * D1 comes after the sleeper has looked in vain. D2 comes before the sleeper
 * can go on, let alone sleep again. Otherwise the sleeper could be counted
 * twice, which would hide that the waker is awake. So the additions by and for
 * a processor sum up to 1 only while it sleeps and no waker has begun to wake
 * it. At all other times their sum is 0 or less.
 *
 * Let the count reach the number of processors. At that moment each processor
 * had looked again in vain, and no waker had begun to wake it. No processor was
 * awake and no hold was left, so there was no waker. Then no message is under
 * way, and nothing will ever change.
 *
 *	operation      who may call
 *	uidle_enter    a processor, after upark_prepare() and a look in vain: it
 *		       sleeps now, as does the caller of _enter_unless_last
 *	uidle_awake    the same processor, at the end of its sleep
 *	uidle_stay     the same, without a sleep, if it has not entered
 *	uidle_sleep, uidle_doze
 *		       enter, a sleep and its end in one call: for models
 *	uidle_wake     any thread or signal handler, after it has given work
 *	uidle_hold     any thread, while the count cannot reach the number of
 *		       processors: before the start, or while there is a hold
 *	uidle_release  the holder; touches nothing but the count
 *	uidle_wait     a single native thread outside of the set
 *
 * Orders: all are sequentially consistent, like those of park.h, of which they
 * are a part. The caller of uidle_wait() acquires what all others did.
 */

#include "park.h"

static inline void uidle_hold(int *idle)
{
	__atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);
}

/* Adds 1 to the count. After that nothing but *idle is touched, if that. */
static inline void uidle_release(int *idle)
{
	__atomic_fetch_add(idle, 1, __ATOMIC_SEQ_CST);
	upark_futex_wake(idle);
}

/* Adds the caller to the count: D1. True: all nr are idle. */
static inline bool uidle_enter(int *idle, int nr)
{
	bool all;

	USCHED_RACE(idle_D1);
	all = __atomic_add_fetch(idle, 1, __ATOMIC_SEQ_CST) == nr; /* D1 */
	if (all)
		upark_futex_wake(idle);
	USCHED_RACE(idle_S4);
	return all;
}

/*
 * Adds 1 to the count, but not if all nr would be idle then: for a processor
 * that wants to sleep, as uidle_enter(), or a hold that ends. False: all others
 * are idle, and stay so until the caller wakes them.
 */
static inline bool uidle_enter_unless_last(int *idle, int nr)
{
	int now = __atomic_load_n(idle, __ATOMIC_SEQ_CST);

	do {
		if (now == nr - 1)
			return false;
	} while (!__atomic_compare_exchange_n(idle, &now, now + 1, false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return true;
}

/* Ends upark_prepare() of the caller, which is not counted, without a sleep. */
static inline void uidle_stay(int *idle, int *asleep)
{
	if (!upark_cancel(asleep))	/* a waker has come: undo its D2 */
		__atomic_fetch_add(idle, 1, __ATOMIC_SEQ_CST);
}

/* Puts the caller, a processor of a set of nr, to sleep until it is woken. */
static inline void uidle_sleep(int *idle, int nr, int *asleep)
{
	(void)uidle_enter(idle, nr);
	upark_sleep(asleep);					/* S4 */
}

/* Wakes the processor whose park word is *asleep. Caller has given it work. */
static inline void uidle_wake(int *idle, int *asleep)
{
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)	/* W3 */
		return;
	USCHED_RACE(idle_D2);
	__atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);		/* D2 */
	USCHED_RACE(idle_W4);
	if (!upark_wake(asleep)) {				/* W4 */
		USCHED_RACE(idle_D3);
		uidle_release(idle);				/* D3 */
	}
}

/*
 * Ends a sleep after uidle_enter() that need not have ended by a wake. False: no
 * other waker has ended it, so the sleeper wakes itself, in the same steps.
 */
static inline bool uidle_awake(int *idle, int *asleep)
{
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)
		return true;
	USCHED_RACE(idle_D2);
	__atomic_fetch_sub(idle, 1, __ATOMIC_SEQ_CST);		/* D2 */
	USCHED_RACE(idle_W4);
	uidle_stay(idle, asleep);				/* W4 D3 */
	return false;
}

/* Sleeps after uidle_enter(), but for at most ns nanoseconds: see above. */
static inline bool uidle_doze_entered(int *idle, int *asleep, long ns)
{
	upark_futex_wait_for(asleep, 1, ns);
	return uidle_awake(idle, asleep);
}

/* Sleeps like uidle_sleep(), but for at most ns nanoseconds: see above. */
static inline bool uidle_doze(int *idle, int nr, int *asleep, long ns)
{
	(void)uidle_enter(idle, nr);
	return uidle_doze_entered(idle, asleep, ns);
}

/*
 * Ends a hold of a processor that is awake, so that this is no reason to end a
 * wait. With a hold of its own a processor sleeps that will have work by itself:
 * a deadline.
 */
static inline void uidle_unhold(int *idle)
{
	__atomic_fetch_add(idle, 1, __ATOMIC_SEQ_CST);
}

/* Returns when all nr processors sleep, and no waker and no hold is left. */
static inline void uidle_wait(int *idle, int nr)
{
	int now;

	while ((now = __atomic_load_n(idle, __ATOMIC_SEQ_CST)) != nr)
		upark_futex_wait(idle, now);
}

#endif /* UIDLE_H */
