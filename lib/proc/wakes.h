/* SPDX-License-Identifier: MIT */
/* wakes.h: counts the wakes of a thread, and brings them to its processor. */

#ifndef UWAKES_H
#define UWAKES_H

/*
 * w_count is the number of wakes that have come, less the number of waits that
 * have begun. While the thread waits it is -1. So a wake before the wait is
 * kept, and n wakes let n waits through. Only the thread's own processor
 * touches w_count, so local waits and wakes need no atomic instruction.
 *
 * Remote wakes are counted in w_posted. The first of them puts the thread in
 * the inbox of its processor. This message needs no memory, and a thread has at
 * most one message under way.
 *
 *	w_posted:  0 ----> 1 ----> 2 ----> 3 ----> 0	(times UWAKES_ONE)
 *	             C1      C1      C1      T2
 *	w_node:       |<--- in the inbox --->|
 *	             C2                     T1
 *
 * A remote waker:                       The processor of the thread:
 *
 *	C1 add 1 to w_posted;		T1 take the node from the inbox
 *	   if it was not 0: done	T2 exchange w_posted for 0
 *	C2 post the node to the inbox	T3 add the number to w_count; if that
 *	C3 wake the processor (park.h)	   was -1, the thread can run
 *
 * In the order of w_posted each C1 is before or after T2. If it is before, T2
 * counts it. Of those after, the first finds 0 and posts. After T2 a waker that
 * finds 0 may post the node, so the processor must have taken it before: T1.
 *
 * THE END
 *
 * A wake may still be under way when its thread ends, and a joinable thread may
 * be woken until it has been joined. The memory of a thread can be used again
 * when its node is in no inbox and its joiner, if it has one, has left.
 *
 *	E1 the thread ends: its processor sets GONE and clears the number; if
 *	   the number was not 0, it sets POSTED: the node is in the inbox, or
 *	   will be
 *	E2 the joiner leaves: it sets LEFT; if POSTED is not set, it frees. A
 *	   thread without a joiner has LEFT set in E1
 *	T4 instead of T2 and T3, if GONE is set: the processor clears POSTED; if
 *	   LEFT is set, it frees
 *
 * A C1 that finds GONE does not post, because w_posted was not 0. So after E1
 * the node is posted at most once. The later of E2 and T4 frees.
 *
 *	operation      who may call		against uwakes_post() at the
 *						same time
 *	uwakes_init    its maker		-
 *	uwakes_wait    the thread		nothing shared
 *	uwakes_back    the thread		nothing shared
 *	uwakes_add     its processor		nothing shared
 *	uwakes_post    any thread, also a	each is counted; the first
 *		       signal handler		between two takes posts
 *	uwakes_take    its processor		counted now, or posted again
 *	uwakes_close   its processor, E1	counted and dropped, or dropped
 *	uwakes_leave   its joiner, E2		must happen before
 *
 * When uwakes_post() returns true, the processor may be asleep. The waker must
 * wake it, and must not touch the thread, which may be freed by then.
 *
 * No wake misses a thread that has counted its wait but not yet blocked. A
 * local wake cannot happen between the count and the switch. A remote wake is
 * taken only by the dispatcher, after the switch, or by the thread itself while
 * it joins.
 *
 * A new thread is a thread that waits, woken once by its maker.
 *
 * Neither number wraps. The program ends in usched_fail() if 2^31 wakes come
 * that no wait has taken, or 3 * 2^25 that the processor has not taken.
 *
 * ORDERS
 *
 *	R3  each C1 releases what its waker did before
 *	A3  T2 acquires that from all these wakers, because all changes
 *	    between are additions
 *	R4  T2 releases the node
 *	A4  the C1 that finds 0 acquires it, so the link is used again only
 *	    after its last use
 *	R5  E2 and T4 release their last use of the thread, and the later of
 *	    the two acquires it
 */

#include "inbox.h"	/* the includer has usched.h */

/* Flags of w_posted. The bits between LEFT and ONE are those of mail.h. */
#define UWAKES_POSTED	1u	/* the node is in an inbox, or about to be */
#define UWAKES_GONE	2u	/* the thread has ended */
#define UWAKES_LEFT	4u	/* nothing but its node refers to it */
#define UWAKES_ONE	32u	/* a wake */
/* Bounds posts not taken. Above is room for wakers that have not looked yet. */
#define UWAKES_MOST	(3u << 30)

/* Results of uwakes_take() for a thread that has ended. */
#define UWAKES_NONE	(-2)	/* it must not be touched */
#define UWAKES_FREE	(-1)	/* the caller frees it */

struct uwakes {
	int                w_count;	/* wakes less waits; the processor's */
	unsigned           w_posted;	/* remote wakes, flags (atomic) */
	struct uinbox_node w_node;	/* belongs to the waker that finds 0 in
					 * w_posted, until it is taken */
};

/* Makes *w ready for a new thread, which waits for its first wake. */
static __inline__ void uwakes_init(struct uwakes *w)
{
	w->w_count  = -1;
	w->w_posted = 0;
}

/* Begins a wait of the caller. True: no wake has come, so it has to block. */
static __inline__ int uwakes_wait(struct uwakes *w)
{
	return --w->w_count < 0;
}

/* Not API. */
static __inline__ void uwakes_many(void)
{
	usched_fail("wake: 2^31 wakes that no wait has taken");
}

/* Takes back nr waits of the running thread, or gives nr wakes. */
static __inline__ void uwakes_back(struct uwakes *w, int nr)
{
	if (__builtin_expect(__builtin_add_overflow(w->w_count, nr,
						    &w->w_count), 0))
		uwakes_many();
}

/*
 * Adds nr wakes, 1 or more. True: the thread was waiting, and can run now. A
 * wake of a thread that does not wait is a single comparison: the number, which
 * was -1 at least, is less than nr only if it was -1, or has wrapped.
 */
static __inline__ int uwakes_add(struct uwakes *w, int nr)
{
	int now = (int)((unsigned)w->w_count + (unsigned)nr);

	w->w_count = now;
	if (now >= nr)
		return 0;
	if (__builtin_expect(now != nr - 1, 0))
		uwakes_many();
	return 1;						/* T3 */
}

/* Not API. */
static __inline__ void uwakes_bound(unsigned posted)
{
	if (__builtin_expect(posted >= UWAKES_MOST, 0))
		usched_fail("wake: 3 * 2^25 wakes posted to a thread whose "
			    "processor does not take them");
}

/* Counts a remote wake. True: it was posted to inbox, so wake its owner. */
static __inline__ int uwakes_post(struct uwakes *w, struct uinbox *inbox)
{
	unsigned was = __atomic_fetch_add(&w->w_posted, UWAKES_ONE,
					  __ATOMIC_ACQ_REL);	/* C1 R3 A4 */

	if (was != 0) {
		uwakes_bound(was);
		return 0;
	}
	USCHED_RACE(wakes_C2);
	uinbox_post(inbox, &w->w_node);				/* C2 */
	return 1;
}

/*
 * Takes the number of remote wakes. Caller is the processor, and has the node.
 * This is T2.
 */
static __inline__ int uwakes_clear(struct uwakes *w)
{
	unsigned was = __atomic_exchange_n(&w->w_posted, 0, __ATOMIC_ACQ_REL);

	return (int)(was / UWAKES_ONE);				/* A3 R4 */
}

/*
 * Notes that the node is in no inbox any more. Caller is the processor, in T4.
 * Nonzero: the joiner has left, so the caller frees the thread.
 */
static __inline__ int uwakes_end(struct uwakes *w)
{
	return __atomic_fetch_and(&w->w_posted, ~UWAKES_POSTED,	/* R5 */
				  __ATOMIC_ACQ_REL) & UWAKES_LEFT ?
		UWAKES_FREE : UWAKES_NONE;
}

/*
 * Takes the first node of the inbox, or returns NULL. Sets *nr to the number of
 * wakes for uwakes_add(); if the thread has ended, to UWAKES_NONE or
 * UWAKES_FREE.
 */
static __inline__ struct uwakes *uwakes_take(struct uinbox *inbox, int *nr)
{
	struct uinbox_node *n = uinbox_take(inbox);		/* T1 */
	struct uwakes *w;

	if (n == NULL)
		return NULL;
	w = (struct uwakes *)((char *)n - offsetof(struct uwakes, w_node));
	USCHED_RACE(wakes_T2);
	/* Relaxed: only the caller sets GONE. */
	if (__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) & UWAKES_GONE)
		*nr = uwakes_end(w);
	else
		*nr = uwakes_clear(w);
	return w;
}

/*
 * Notes that the thread has ended. With flags UWAKES_LEFT it has no joiner.
 * True: its node is in no inbox, and never will be. This is E1.
 */
static __inline__ int uwakes_close(struct uwakes *w, unsigned flags)
{
	unsigned was = __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED);
	unsigned now;

	/* Without a joiner all posts happen before; mostly w_posted is 0. */
	if (was == 0 && flags == UWAKES_LEFT)
		return 1;
	do
		now = UWAKES_GONE | flags | (was != 0 ? UWAKES_POSTED : 0);
	while (!__atomic_compare_exchange_n(&w->w_posted, &was, now, 0,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return was == 0;
}

/* Notes that the joiner has left. True: the caller frees the thread. This is E2. */
static __inline__ int uwakes_leave(struct uwakes *w)
{
	return !(__atomic_fetch_or(&w->w_posted, UWAKES_LEFT,	/* R5 */
				   __ATOMIC_ACQ_REL) & UWAKES_POSTED);
}

#endif /* UWAKES_H */
