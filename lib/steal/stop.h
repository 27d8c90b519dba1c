/* SPDX-License-Identifier: MIT */
/* stop.h: a lock that is nearly free for its owner, and dear for all others. */

#ifndef WS_STOP_H
#define WS_STOP_H

/*
 * A native thread, the owner, touches its own structs only inside its section:
 * while it is in. To go in takes two stores and a load. Other native threads,
 * thieves, touch these structs while they have stopped the owner. If the owner
 * comes by, it answers the thief. Otherwise a stop costs the thief a system
 * call, and the owner an interrupt. After D. Dice, H. Huang and M. Yang,
 * "Asymmetric Dekker Synchronization" (2001); compare biased locks.
 *
 *	The owner:				A thief:
 *
 *	K1 in = 1				K3 stop: the next number, and
 *	   ufence_light()			   ASKED; or give up
 *	K2 ASKED? then in = 0,			K9 answer = stop? then K6 in the
 *	K8    answer = stop, again and		   end; look for a while
 *	      again until it is not,		K4 ufence_heavy()
 *	      and back to K1			K5 wait until in is 0; or give
 *	...					   up: K6
 *	K7 in = 0				...
 *						K6 stop: clear ASKED
 *
 * K2 and K5 cannot both miss the other side. If the light fence is before the
 * heavy fence, K5 sees that the owner is in, or has left since. Otherwise K2
 * sees ASKED. So if K5 sees 0, the next light fence of the owner is after the
 * heavy fence, and the owner stays out until K6.
 *
 * An answer needs no fence. The thief finds in K9 the number that it wrote in
 * K3, and no other stop has this number. So the owner has read the number, and
 * waits. It goes on only when it has read that ASKED is not set, and that is
 * after K6. Without numbers, a late answer to an earlier stop could confirm a
 * stop of which the owner knows nothing. On a machine of 32 bits numbers repeat
 * after 2^29 stops. All of these would have to be forced, while the owner runs
 * the same thread.
 *
 * An owner that switches often answers soon, and the wait for that costs both
 * sides a few cache lines. An owner whose thread computes does not answer. The
 * caller chooses how long the thief looks before it pays for a fence. If it
 * looks for as long as a fence takes, it loses at most a factor of two.
 *
 * Two more bits of the word save the owner a look at other words. FENCE says
 * that light fences are not free. LOOK is for the caller: something that the
 * owner takes for granted holds no longer. ws_stop_quick() is true if none of
 * the three bits is set.
 *
 *	operation      who may call		against others
 *	ws_stop_init   the owner, after		forbidden
 *	               ufence_init()
 *	ws_stop_enter  the owner, not in	waits while it is stopped
 *	ws_stop_leave  the owner, in or not	-
 *	ws_stop_in     the owner, not in	true: it is in; false: call
 *	               			ws_stop_enter() or ws_stop_leave() now
 *	ws_stop_quick  the owner, not in	true: it is in, and LOOK is not
 *	               			set; false: as ws_stop_in(), which it
 *	               			may call, too
 *	ws_stop_look   the owner, in, or the	the next ws_stop_quick sees it
 *	               thief that has stopped
 *	               it
 *	ws_stop_ask    a thief that is not	this stop's number; 0: another
 *	               in anywhere		thief was first
 *	ws_stop_answered  it, having asked	true: the owner is not in, until
 *						ws_stop_end()
 *	ws_stop_force  the same, instead	the same; false: it has given up
 *	ws_stop_end    the thief that has	-
 *	               stopped the owner
 *
 * A thief is not in itself, so no two can wait for each other. If the system
 * preempts the native thread of the thief, the owner yields to it.
 *
 * ORDERS
 *
 *	T1  K7 releases what the owner wrote, and K5 acquires it. This is also
 *	    so if the owner leaves only to wait (K2), since K5 may see that 0
 *	    instead
 *	T2  K6 releases what the thief wrote, and K2 acquires it. K2 may also
 *	    read it from the number of the next thief, since K3 is a
 *	    read-modify-write. That thief has acquired it by K3 and the fence
 *	    in K4, and passes it on by the same fence, even if it gives up; or
 *	    by T3. So K3 itself need not acquire
 *	T3  K8 releases what the owner acquired by T2, and wrote before; K9
 *	    acquires it
 */

#include "fence.h"	/* the includer has uproc.h */

#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)	/* a test puts delays there */
#endif

/* How often the owner, or a thief, looks before it yields or gives up. */
#if !defined(WS_STOP_PATIENCE)
#define WS_STOP_PATIENCE	200
#endif

/* A moment of a wait for another native thread; and the nr-th longer wait. */
#if !defined(WS_STOP_RELAX)
#define WS_STOP_RELAX()	uproc_relax()
#define WS_STOP_GIVE_WAY(nr)	uproc_give_way(nr)
#endif

/* In k_stop, below the number. */
enum {
	WS_STOP_ASKED = 1,
	WS_STOP_FENCE = 2,
	WS_STOP_LOOK = 4,
	WS_STOP_NEXT = 8	/* from a number to the next */
};

struct ws_stop {
	int           k_in;	/* by the owner */
	unsigned long k_stop;	/* by thieves */
	unsigned long k_answer;	/* by the owner: a k_stop for which it waits */
};

static __inline__ int ws_stop_in(struct ws_stop *k)
{
	__atomic_store_n(&k->k_in, 1, __ATOMIC_RELAXED);	/* K1 */
	USCHED_RACE(stop_K2);
	ufence_light();
	return !(__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE) &
		 WS_STOP_ASKED);				/* K2 T2 */
}

static __inline__ void ws_stop_init(struct ws_stop *k)
{
	k->k_stop = ufence_free() ? 0 : WS_STOP_FENCE;
}

static __inline__ int ws_stop_quick(struct ws_stop *k)
{
	__atomic_store_n(&k->k_in, 1, __ATOMIC_RELAXED);	/* K1 */
	USCHED_RACE(stop_K2);
	__asm__ volatile("" : : : "memory");	/* free, or false */
	return !(__atomic_load_n(&k->k_stop, __ATOMIC_ACQUIRE) &
		 (WS_STOP_NEXT - 1));				/* K2 T2 */
}

static __inline__ void ws_stop_look(struct ws_stop *k)
{
	__atomic_fetch_or(&k->k_stop, WS_STOP_LOOK, __ATOMIC_RELAXED);
}

static __inline__ void ws_stop_leave(struct ws_stop *k)
{
	__atomic_store_n(&k->k_in, 0, __ATOMIC_RELEASE);	/* K7 T1 */
}

/* Answers the thief, and waits for its end. Owner only. */
static __attribute__((noinline, cold, unused))
void ws_stop_wait(struct ws_stop *k)
{
	unsigned long stop;
	unsigned looks = 0;

	do {
		ws_stop_leave(k);
		while ((stop = __atomic_load_n(&k->k_stop,
					       __ATOMIC_ACQUIRE)) &
		       WS_STOP_ASKED) {				/* T2 */
			__atomic_store_n(&k->k_answer, stop,
					 __ATOMIC_RELEASE);	/* K8 T3 */
			WS_STOP_RELAX();
			if (++looks % WS_STOP_PATIENCE == 0)
				WS_STOP_GIVE_WAY(looks / WS_STOP_PATIENCE);
		}
	} while (!ws_stop_in(k));
}

static __inline__ void ws_stop_enter(struct ws_stop *k)
{
	if (__builtin_expect(!ws_stop_in(k), 0))
		ws_stop_wait(k);
}

static __inline__ void ws_stop_end(struct ws_stop *k)
{
	__atomic_fetch_and(&k->k_stop, ~(unsigned long)WS_STOP_ASKED,
			   __ATOMIC_RELEASE);			/* K6 T2 */
}

static __attribute__((unused)) unsigned long ws_stop_ask(struct ws_stop *k)
{
	unsigned long was = __atomic_load_n(&k->k_stop, __ATOMIC_RELAXED);
	unsigned long stop = (was + WS_STOP_NEXT) | WS_STOP_ASKED;

	if (was & WS_STOP_ASKED || !__atomic_compare_exchange_n(&k->k_stop,
								&was,
			stop, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;						/* K3 */
	USCHED_RACE(stop_K4);
	return stop;
}

static __inline__ int ws_stop_answered(const struct ws_stop *k,
					unsigned long stop)
{
	return __atomic_load_n(&k->k_answer, __ATOMIC_ACQUIRE) ==
		stop;						/* K9 T3 */
}

static __attribute__((unused)) int ws_stop_force(struct ws_stop *k)
{
	int i;

	ufence_heavy();							/* K4 */
	for (i = 0; i < WS_STOP_PATIENCE; i++) {
		if (!__atomic_load_n(&k->k_in, __ATOMIC_ACQUIRE)) /* K5 T1 */
			return 1;
		WS_STOP_RELAX();
	}
	ws_stop_end(k);
	return 0;
}

#endif /* WS_STOP_H */
