/* SPDX-License-Identifier: MIT */
/* stop.h: how others stop one who need not lock what is his. */

#ifndef STOP_H
#define STOP_H

/*
 * What belongs to a native thread it touches only while it is in, and to be in
 * takes it two stores and a load. Others may touch it while they have stopped
 * the owner. That costs them a system call, and the owner an interrupt, unless
 * the owner comes by and answers. After D. Dice, H. Huang and M. Yang,
 * "Asymmetric Dekker Synchronization" (2001); compare biased locks.
 *
 *	The owner:				A thief:
 *
 *	K1 in = 1				K3 stop: next number, ASKED; or give
 *	   fence_light()			   up
 *	K2 ASKED? then in = 0,			K9 answer = stop? then go on to K6
 *	K8    answer = stop, again and		   in the end; look for a while
 *	      again until it is not,		K4 fence_heavy()
 *	      and back to K1			K5 wait until in is 0; or not any
 *	...					   longer: go on to K6, and give up
 *	K7 in = 0				...
 *						K6 stop: not ASKED
 *
 * K2 and K5 cannot both miss the other: if the light fence is before the heavy
 * one, K5 sees that the owner is in, or has left since; else K2 sees that it
 * shall stop. So when K5 sees 0, the next light fence of the owner is after the
 * heavy one, and it stays out until K6.
 *
 * An answer needs no fence. The thief finds in K9 the number that it wrote in
 * K3, and no other stop has that number. So the owner has read it, waits, and
 * goes on only when it has read, later, that it is not ASKED. Until K6 it is.
 * If stops had no numbers, an answer to an earlier stop could come late,
 * and confirm one of which the owner knows nothing. On a machine of 32 bits a
 * number is used again after 2^29 stops; then all of these would have to be
 * forced, within one run of one thread.
 *
 * An owner that switches often answers soon, and a wait for that costs both of
 * them a few cache lines. An owner whose thread computes does not answer. How
 * long a thief looks before it pays for a fence is for the caller to say: as
 * long as the fence takes, and it never takes more than twice the better way.
 *
 * Two bits of the same word save the owner a look at other words. FENCE: light
 * fences are not free. LOOK is for the caller: something holds no longer that
 * the owner took for granted. stop_quick() is true if no bit is set.
 *
 *	operation      who may call		against others
 *	stop_init      the owner, alone,	forbidden
 *	               after fence_init()
 *	stop_quick     the owner, not in	true: as stop_in(), and LOOK is not
 *	               			set; false: call stop_in(), stop_enter()
 *	               			or stop_leave()
 *	stop_look      the owner, in, or who	from the next stop_quick() on, LOOK is
 *	               has stopped it		set
 *	stop_enter     the owner, not in	waits while it is stopped
 *	stop_leave     the owner, in		-
 *	stop_ask       a thief, which is not	the number of this stop; 0: another
 *	               in anything of its own	thief has stopped the owner
 *	stop_answered  the thief that has	true: the owner is not in, until
 *	               asked			stop_end()
 *	stop_force     the same, instead	the same; false: it has given up
 *	stop_end       the thief that has	-
 *	               stopped the owner
 *
 * That a thief is not in itself is why two cannot wait for each other. If the
 * native thread of the thief is preempted, the owner gives way to it.
 *
 * Orders. T1: K7 releases what the owner wrote, and K5 acquires it; also when
 * the owner goes out again to wait (K2), since K5 may see that 0 instead. T2:
 * K6 releases what the thief wrote, and K2 acquires it; also from the number of
 * the next thief, since K3 is a read-modify-write. That thief has it by K3 and
 * the fence in K4, and passes it on, by the same fence, even if it gives up; or
 * by T3. So K3 itself need not acquire. T3: K8 releases what the owner has got
 * by T2, and wrote before; K9 acquires it.
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

/* In k_stop, below the number. */
enum {
	STOP_ASKED = 1,
	STOP_FENCE = 2,
	STOP_LOOK  = 4,
	STOP_NEXT  = 8		/* from a number to the next */
};

struct stop {
	int           k_in;	/* by the owner */
	unsigned long k_stop;	/* by thieves */
	unsigned long k_answer;	/* by the owner: a k_stop for which it waits */
};

static __inline__ int stop_in(struct stop *k)
{
	__atomic_store_n(&k->k_in, 1, __ATOMIC_RELAXED);	/* K1 */
	RACE_WINDOW(30);
	fence_light();
	return !(__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE) &
		 STOP_ASKED);					/* K2 T2 */
}

static __inline__ void stop_init(struct stop *k)
{
	k->k_stop = fence_free() ? 0 : STOP_FENCE;
}

static __inline__ int stop_quick(struct stop *k)
{
	__atomic_store_n(&k->k_in, 1, __ATOMIC_RELAXED);	/* K1 */
	RACE_WINDOW(30);
	__asm__ volatile("" : : : "memory");	/* free, or false */
	return !(__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE) &
		 (STOP_NEXT - 1));				/* K2 T2 */
}

static __inline__ void stop_look(struct stop *k)
{
	__atomic_fetch_or(&k->k_stop, STOP_LOOK, __ATOMIC_RELAXED);
}

static __inline__ void stop_leave(struct stop *k)
{
	__atomic_store_n(&k->k_in, 0, __ATOMIC_RELEASE);	/* K7 T1 */
}

/* Answers, and waits. Owner only. */
static __attribute__((noinline, cold, unused)) void stop_wait(struct stop *k)
{
	unsigned long stop;
	unsigned turns = 0;

	do {
		stop_leave(k);
		while ((stop = __atomic_load_n(&k->k_stop,
					       __ATOMIC_ACQUIRE)) &
		       STOP_ASKED) {				/* T2 */
			__atomic_store_n(&k->k_answer, stop,
					 __ATOMIC_RELEASE);	/* K8 T3 */
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
	__atomic_fetch_and(&k->k_stop, ~(unsigned long)STOP_ASKED,
			   __ATOMIC_RELEASE);			/* K6 T2 */
}

static __attribute__((unused)) unsigned long stop_ask(struct stop *k)
{
	unsigned long was = __atomic_load_n(&k->k_stop, __ATOMIC_RELAXED);
	unsigned long stop = (was + STOP_NEXT) | STOP_ASKED;

	if (was & STOP_ASKED || !__atomic_compare_exchange_n(&k->k_stop, &was,
			stop, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;						/* K3 */
	RACE_WINDOW(31);
	return stop;
}

static __inline__ bool stop_answered(const struct stop *k, unsigned long stop)
{
	return __atomic_load_n(&k->k_answer, __ATOMIC_ACQUIRE) ==
		stop;							/* K9 T3 */
}

static __attribute__((unused)) bool stop_force(struct stop *k)
{
	int i;

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
