/* SPDX-License-Identifier: MIT */
/* wakes.h: how many wakes a thread has got, and how they reach it. */

#ifndef WAKES_H
#define WAKES_H

/*
 * w_count is the number of wakes that came, less the waits that were begun. It
 * is -1 while the thread waits. So a wake before the wait is kept, and n wakes
 * let n waits through. Only the thread's own processor touches w_count, so none
 * of this needs atomic instructions. Wakes from elsewhere are counted in
 * w_posted, and the first of them puts the thread in the inbox of its
 * processor: a message that needs no memory, and there is one at most.
 *
 *	w_posted:  0 ----> 1 ----> 2 ----> 3 ----> 0	(times WAKES_ONE)
 *	             C1      C1      C1      T2
 *	w_node:       |<--- in the inbox --->|
 *	             C2                     T1
 *
 * A wake from elsewhere:                The processor of the thread:
 *
 *	C1 add 1 to w_posted;		T1 take the node from the inbox
 *	   if it was not 0: done	T2 exchange w_posted for 0
 *	C2 post the node to the inbox	T3 add the number to w_count; if that
 *	C3 wake the processor (park.h)	   was -1, the thread can run
 *
 * A C1 is either before T2 in the order of w_posted, and counted by it; or
 * after, and then the first after it finds 0 and posts. T1 comes before T2
 * because the waker that finds 0 may post the node, so the node must have been
 * taken.
 *
 * THE END
 *
 * A wake may still be under way when its thread ends, and a joinable thread may
 * be woken until it has been joined. The memory of a thread can be used again
 * when its node is in no inbox and the joiner, if there is one, has left.
 *
 *	E1 the thread ends: its processor sets GONE and clears the number; if
 *	   that was not 0, it sets POSTED: the node is in the inbox, or will be
 *	E2 the joiner leaves: it sets LEFT; if POSTED is not set, it frees. A
 *	   thread without a joiner has LEFT set in E1
 *	T4 instead of T2 and T3, if GONE is set: the processor clears POSTED; if
 *	   LEFT is set, it frees
 *
 * A C1 that finds GONE does not post: w_posted was not 0. So after E1 there is
 * one node at most, and of E2 and T4 the later of the two frees.
 *
 *	operation      who may call		against wakes_post() at the same
 *						time
 *	wakes_init     its maker		-
 *	wakes_wait     the thread		nothing shared
 *	wakes_back     the thread		nothing shared
 *	wakes_add      its processor		nothing shared
 *	wakes_post     any thread, also a	each is counted; the first
 *		       signal handler		between two takes posts
 *	wakes_take     its processor		counted now, or posted again
 *	wakes_close    its processor, E1	counted and dropped, or dropped
 *	wakes_leave    its joiner, E2		must happen before
 *
 * The caller must do: when wakes_post() returns true, the processor may sleep,
 * and has to be woken; but the thread may be gone by then.
 *
 * A thread that has not quite blocked cannot be missed: a wake from its own
 * processor cannot happen between the count and the switch, and a wake from
 * elsewhere is taken only by the dispatcher, after the switch, or by the thread
 * itself as it joins.
 *
 * A new thread is a thread that waits, woken once by its maker.
 *
 * Neither number wraps: 2^31 wakes that no wait has taken, or 3 * 2^25 posted
 * wakes that the processor has not taken, end the program in usched_fail().
 *
 * Orders. R3: each C1 releases what its caller did before the wake, and A3: T2
 * acquires it from all of them, since what is between them are additions. R4:
 * T2 releases the node, and A4: the C1 that finds 0 acquires it, so that the
 * link is used again only after its last use. R5: E2 and T4 release their last
 * use of the thread, and the later of the two acquires it.
 */

#include "inbox.h"
#include "usched.h"

/* Flags of w_posted. The bits between LEFT and ONE are those of mail.h. */
#define WAKES_POSTED	1u	/* the node is in an inbox, or about to be */
#define WAKES_GONE	2u	/* the thread has ended */
#define WAKES_LEFT	4u	/* and nothing but its node refers to it */
#define WAKES_ONE	32u	/* a wake */
/* Bounds posts that are not taken. Beyond is room for other posters. */
#define WAKES_MOST	(3u << 30)

/* What wakes_take() says of a thread that has ended. */
#define WAKES_NONE	(-2)	/* it must not be touched */
#define WAKES_FREE	(-1)	/* the caller frees it */

struct wakes {
	int               w_count;	/* wakes less waits; the processor's */
	unsigned          w_posted;	/* wakes in the inbox, flags; atomic */
	struct inbox_node w_node;	/* of the waker that has found 0 in
					 * w_posted, until it is taken */
};

/* Makes *w ready for a new thread. */
static __inline__ void wakes_init(struct wakes *w)
{
	w->w_count  = -1;
	w->w_posted = 0;
}

/* Begins a wait. True: there is no wake, it has to block. */
static __inline__ int wakes_wait(struct wakes *w)
{
	return --w->w_count < 0;
}

/* Takes back nr waits of the running thread; or gives it so many wakes. */
static __inline__ void wakes_back(struct wakes *w, int nr)
{
	if (__builtin_expect(__builtin_add_overflow(w->w_count, nr,
						    &w->w_count), 0))
		usched_fail("wake: 2^31 wakes that no wait has taken");
}

/* Adds nr wakes, 1 or more. True: the thread has waited, and can run now. */
static __inline__ int wakes_add(struct wakes *w, int nr)
{
	int was = w->w_count;

	wakes_back(w, nr);
	return was < 0;						/* T3 */
}

/* Not API. */
static __inline__ void wakes_bound(unsigned posted)
{
	if (__builtin_expect(posted >= WAKES_MOST, 0))
		usched_fail("wake: 3 * 2^25 wakes posted to a thread whose "
			    "processor does not take them");
}

/* Counts a wake from elsewhere. True: inbox was posted to, wake its owner. */
static __inline__ int wakes_post(struct wakes *w, struct inbox *inbox)
{
	unsigned was = __atomic_fetch_add(&w->w_posted, WAKES_ONE,
					  __ATOMIC_ACQ_REL);	/* C1 R3 A4 */

	if (was != 0) {
		wakes_bound(was);
		return 0;
	}
	RACE_WINDOW(9);
	inbox_post(inbox, &w->w_node);				/* C2 */
	return 1;
}

/* T2. Its processor has taken the node. */
static __inline__ int wakes_clear(struct wakes *w)
{
	unsigned was = __atomic_exchange_n(&w->w_posted, 0, __ATOMIC_ACQ_REL);

	return (int)(was / WAKES_ONE);				/* A3 R4 */
}

/* T4. Its processor has taken the node; GONE is set. */
static __inline__ int wakes_end(struct wakes *w)
{
	return __atomic_fetch_and(&w->w_posted, ~WAKES_POSTED,	/* R5 */
				  __ATOMIC_ACQ_REL) & WAKES_LEFT ?
		WAKES_FREE : WAKES_NONE;
}

/*
 * Takes the first node of the inbox, or returns NULL. *nr is the number of
 * wakes for wakes_add(), or, if the thread has ended, WAKES_NONE or WAKES_FREE.
 */
static __inline__ struct wakes *wakes_take(struct inbox *inbox, int *nr)
{
	struct inbox_node *n = inbox_take(inbox);		/* T1 */
	struct wakes *w;

	if (n == NULL)
		return NULL;
	w = (struct wakes *)((char *)n - offsetof(struct wakes, w_node));
	RACE_WINDOW(10);
	/* Relaxed: only the caller sets GONE. */
	if (__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) & WAKES_GONE)
		*nr = wakes_end(w);
	else
		*nr = wakes_clear(w);
	return w;
}

/*
 * E1: the thread has ended. With flags WAKES_LEFT it has no joiner. True: its
 * node is in no inbox, and never will be.
 */
static __inline__ int wakes_close(struct wakes *w, unsigned flags)
{
	unsigned was = __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED);
	unsigned now;

	/* All posts happen before, if there is no joiner: mostly it is 0. */
	if (was == 0 && flags == WAKES_LEFT)
		return 1;
	do
		now = WAKES_GONE | flags | (was != 0 ? WAKES_POSTED : 0);
	while (!__atomic_compare_exchange_n(&w->w_posted, &was, now, 0,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return was == 0;
}

/* E2: the joiner uses the thread no more. True: the caller frees it. */
static __inline__ int wakes_leave(struct wakes *w)
{
	return !(__atomic_fetch_or(&w->w_posted, WAKES_LEFT,	/* R5 */
				   __ATOMIC_ACQ_REL) & WAKES_POSTED);
}

#endif /* WAKES_H */
