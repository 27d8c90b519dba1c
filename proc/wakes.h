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
 *	w_posted:  0 ----> 1 ----> 2 ----> 3 ----> 0
 *	             C1      C1      C1      T2
 *	w_node:       |<--- in the inbox --->|
 *	             C2                     T1
 *
 * Who wakes from elsewhere:             The processor of the thread:
 *
 *	C1 add 1 to w_posted;		T1 take the node from the inbox
 *	   if it was not 0: done	T2 exchange w_posted for 0
 *	C2 post the node to the inbox	T3 add what it was to w_count; if that
 *	C3 wake the processor (park.h)	   was -1, the thread can run
 *
 * A C1 is either before T2 in the order of w_posted, and counted by it; or
 * after, and then the first after it finds 0 and posts. That is why T1 comes
 * before T2: who finds 0 may post the node, so it must have been taken.
 *
 *	operation      who may call		against wakes_post() at the same
 *						time
 *	wakes_init     one, before the others	-
 *	wakes_wait     the thread		nothing shared
 *	wakes_back     the thread		nothing shared
 *	wakes_add      its processor		nothing shared
 *	wakes_post     anyone, also a signal	each is counted; one of those
 *		       handler			between two takes posts
 *	wakes_take     its processor		counted now, or posted again
 *	wakes_pending  its processor		exact for posts that happen
 *						before
 *
 * The caller must do: when wakes_post() returns true, the processor may sleep,
 * and has to be woken; but the thread may be gone by then. The thread must not
 * be freed while wakes_pending().
 *
 * A thread that has not quite blocked cannot be missed: a wake from its own
 * processor cannot happen between the count and the switch, and one from
 * elsewhere is taken only by the dispatcher, after the switch, or by the thread
 * itself as it ends or joins.
 *
 * A new thread is a thread that waits, woken once by its maker.
 *
 * Orders. R3: each C1 releases what its caller did before the wake, and A3: T2
 * acquires it from all of them, since what is between them are additions. R4:
 * T2 releases the node, and A4: the C1 that finds 0 acquires it, so that the
 * next life of its link comes after the last one.
 */

#include "inbox.h"

struct wakes {
	int               w_count;	/* wakes less waits; the processor's */
	int               w_posted;	/* wakes in the inbox; atomic */
	struct inbox_node w_node;	/* of who has brought w_posted from 0 to
					 * 1, until it is taken */
};

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
	w->w_count += nr;
}

/* nr wakes, 1 or more. True: it has waited, and can run now. */
static __inline__ int wakes_add(struct wakes *w, int nr)
{
	int was = w->w_count;

	w->w_count = was + nr;
	return was < 0;						/* T3 */
}

/* A wake from elsewhere. True: inbox was posted to, wake who sleeps at it. */
static __inline__ int wakes_post(struct wakes *w, struct inbox *inbox)
{
	if (__atomic_fetch_add(&w->w_posted, 1, __ATOMIC_ACQ_REL) != 0)
		return 0;					/* C1 R3 A4 */
	RACE_WINDOW(9);
	inbox_post(inbox, &w->w_node);				/* C2 */
	return 1;
}

/* Of the first in the inbox: how many came (*nr), for wakes_add(). Or NULL. */
static __inline__ struct wakes *wakes_take(struct inbox *inbox, int *nr)
{
	struct inbox_node *n = inbox_take(inbox);		/* T1 */
	struct wakes *w;

	if (n == NULL)
		return NULL;
	w = (struct wakes *)((char *)n - offsetof(struct wakes, w_node));
	RACE_WINDOW(10);
	*nr = __atomic_exchange_n(&w->w_posted, 0, __ATOMIC_ACQ_REL);
	return w;						/* T2 A3 R4 */
}

/* It is in the inbox, or about to be. */
static __inline__ int wakes_pending(const struct wakes *w)
{
	return __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) != 0;
}

#endif /* WAKES_H */
