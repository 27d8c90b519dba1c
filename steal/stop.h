/* SPDX-License-Identifier: MIT */
/* stop.h: how others stop one who need not lock what is his. */

#ifndef STOP_H
#define STOP_H

/*
 * What belongs to a native thread it touches only while it is in, and to be in
 * takes it two stores and a load. Others may touch it while they have stopped
 * the owner, which costs them a system call. After D. Dice, H. Huang and M.
 * Yang, "Asymmetric Dekker Synchronization" (2001); compare biased locks.
 *
 *	The owner:				Another one:
 *
 *	K1 in = 1				K3 stop: from 0 to 1, or give up
 *	   fence_light()			K4 fence_heavy()
 *	K2 stop? then in = 0, wait until	K5 wait until in is 0; or not any
 *	   it is not, and go back to K1		   longer: stop = 0, and give up
 *	...					...
 *	K7 in = 0				K6 stop = 0
 *
 * K2 and K5 cannot both miss the other: if the light fence is before the heavy
 * one, K5 sees that the owner is in, or has left since; else K2 sees that it
 * shall stop. So when K5 sees 0, the next light fence of the owner is after the
 * heavy one, and it stays out until K6.
 *
 *	operation     who may call		against others
 *	stop_enter    the owner, who is not in	waits while it is stopped
 *	stop_leave    the owner, who is in	-
 *	stop_begin    anyone else, who is not	true: the owner is not in, and
 *	              in anything of his own	nobody else has stopped it
 *	stop_end      who has stopped it	-
 *
 * That one who stops another is not in himself is why two cannot wait for each
 * other. If the native thread of one who has stopped another is preempted, the
 * owner gives way to it.
 *
 * Orders. T1: K7 releases what the owner wrote, and K5 acquires it; also when
 * the owner goes out again to wait (K2), since K5 may see that 0 instead. T2:
 * K6 releases what the other wrote, and K2 acquires it. The next who stops the
 * owner has it by K3 and the fence in K4, and passes it on, by the same fence,
 * even if he gives up; so K3 itself need not acquire.
 */

#include "fence.h"

#include <stdbool.h>

#if !defined(RACE_WINDOW)
#define RACE_WINDOW(n)	((void)0)	/* a test puts delays there */
#endif

/* Looks at the other before one gives up. */
#if !defined(STOP_PATIENCE)
#define STOP_PATIENCE	200
#endif

/* A moment of a wait for another native thread; and a longer one, the nr-th. */
#if !defined(STOP_RELAX)
#include "uproc.h"
#define STOP_RELAX()	uproc_relax()
#define STOP_GIVE_WAY(nr)	uproc_give_way(nr)
#endif

struct stop {
	int k_in;	/* by the owner */
	int k_stop;	/* by others */
};

static __inline__ int stop_in(struct stop *k)
{
	__atomic_store_n(&k->k_in, 1, __ATOMIC_RELAXED);	/* K1 */
	RACE_WINDOW(30);
	fence_light();
	return !__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE);	/* K2 T2 */
}

static __inline__ void stop_leave(struct stop *k)
{
	__atomic_store_n(&k->k_in, 0, __ATOMIC_RELEASE);	/* K7 T1 */
}

static __attribute__((noinline, cold, unused)) void stop_wait(struct stop *k)
{
	unsigned turns = 0;

	do {
		stop_leave(k);
		while (__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE)) {
			STOP_RELAX();
			if (++turns % STOP_PATIENCE == 0)
				STOP_GIVE_WAY(turns / STOP_PATIENCE);
		}
	} while (!stop_in(k));
}

static __inline__ void stop_enter(struct stop *k)
{
	if (__builtin_expect(!stop_in(k), 0))
		stop_wait(k);
}

static __inline__ void stop_end(struct stop *k)
{
	__atomic_store_n(&k->k_stop, 0, __ATOMIC_RELEASE);	/* K6 T2 */
}

static __attribute__((unused)) bool stop_begin(struct stop *k)
{
	int no = 0;
	int i;

	if (!__atomic_compare_exchange_n(&k->k_stop, &no, 1, false,
				__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))	/* K3 */
		return false;
	RACE_WINDOW(31);
	fence_heavy();							/* K4 */
	for (i = 0; i < STOP_PATIENCE; i++) {
		if (!__atomic_load_n(&k->k_in, __ATOMIC_ACQUIRE)) /* K5 T1 */
			return true;
		STOP_RELAX();
	}
	stop_end(k);
	return false;
}

#endif /* STOP_H */
