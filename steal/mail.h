/* SPDX-License-Identifier: MIT */
/* mail.h: wakes from elsewhere, for threads that move between processors. */

#ifndef MAIL_H
#define MAIL_H

/*
 * As in wakes.h, w_count is touched by one processor only, here: by the one
 * where the thread is at home. Others count in w_posted, and the first of them
 * posts the node of the thread to the inbox of its home. But the home may
 * change at any time, so w_posted says more than how many:
 *
 *	POSTED   the node is in an inbox, or about to be
 *	RUN      the thread can run, and whoever takes the node has it
 *	GONE     the thread has ended: whoever takes the node does the rest
 *	SETTLED  the thread has blocked before, so it has a home
 *	n * ONE  so many wakes
 *
 *	operation     who may call		when it returns true
 *	mail_post     anyone, also a signal	post the node, to the home as it
 *	              handler			is read after this
 *	mail_hand     who has the thread, that	the same
 *	              can run, and gives it away
 *	mail_open     who has taken the node,	(returns w_posted as it was,
 *	              and is the home		without SETTLED)
 *	mail_settle   the thread, when it is	there was a wake: it need not
 *	              about to block for the	block
 *	              first time
 *	mail_close    its home, when it has	nobody touches it any more; else
 *	              ended			who takes the node does what is
 *						to be done at its end
 *	mail_gone     who has stopped the home	it has ended, and the home has to
 *						open the node
 *
 * The taker of a node whose thread is at home elsewhere posts the node there,
 * and changes nothing else: so a node finds its thread by way of all its former
 * homes, if need be.
 *
 * A thread that has not blocked yet may not have a home (it may not even have
 * begun, and lie in a queue that others steal from). It needs no message: its
 * wakes are only counted, and it looks before it blocks for the first time.
 * That look and a post are both read-modify-writes of w_posted, so either the
 * thread sees the wake; or the poster sees SETTLED, and (by M1) the home.
 *
 * Who has opened the node goes on to use the thread: its count, its home. So
 * only the home may close it; and others, who may free it then, are told that
 * the thread has ended after that: by who closed it, or by who took the node
 * and found GONE. Each mail_post() happens before mail_close(), though its node
 * may arrive later: who wakes a thread has to know that it has not ended.
 *
 * Orders. M1: mail_settle() releases what has been written of the home; pairs
 * with the acquire in mail_post(). M2: a post releases what its caller did;
 * pairs with the acquire in mail_open() and mail_settle(). M3: mail_open()
 * releases the node, so that the next life of its link comes after the last
 * one; pairs with the acquire in mail_post() and mail_hand(). M4: who gives the
 * home away releases it, and who reads where it is acquires it: the node may
 * come to the new home from one who knows of it by that alone. mail_close()
 * needs no order.
 */

#include "wakes.h"

#define MAIL_POSTED	1
#define MAIL_RUN	2
#define MAIL_GONE	4
#define MAIL_SETTLED	8
#define MAIL_ONE	16

/* Sets bits, and POSTED if it must be. True: it was not set before. */
static __inline__ int mail_put(struct wakes *w, int more, int settled)
{
	int was = __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED);
	int now;

	do {
		now = was + more;
		if (settled || (was & MAIL_SETTLED))
			now |= MAIL_POSTED;
	} while (!__atomic_compare_exchange_n(&w->w_posted, &was, now, 0,
				__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return (now & ~was & MAIL_POSTED) != 0;		/* M1 M2 M3 */
}

static __inline__ int mail_post(struct wakes *w)
{
	return mail_put(w, MAIL_ONE, 0);
}

static __inline__ int mail_hand(struct wakes *w)
{
	return mail_put(w, MAIL_RUN, 1);
}

static __inline__ int mail_open(struct wakes *w)
{
	return __atomic_fetch_and(&w->w_posted, MAIL_SETTLED,	/* M2 M3 */
				  __ATOMIC_ACQ_REL) & ~MAIL_SETTLED;
}

/* The wakes among what mail_open() has returned. */
static __inline__ int mail_wakes(int bits)
{
	return (int)((unsigned)bits / MAIL_ONE);
}

static __inline__ int mail_settled(const struct wakes *w)
{
	return __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) & MAIL_SETTLED;
}

/* Exact for the home, and who has stopped it. */
static __inline__ int mail_gone(const struct wakes *w)
{
	return __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) & MAIL_GONE;
}

/* After wakes_wait(). No node is under way before the first time. */
static __inline__ int mail_settle(struct wakes *w)
{
	int was = __atomic_exchange_n(&w->w_posted, MAIL_SETTLED,
				      __ATOMIC_ACQ_REL);	/* M1 M2 */

	wakes_back(w, mail_wakes(was));
	return w->w_count >= 0;
}

static __inline__ int mail_close(struct wakes *w)
{
	return !mail_settled(w) ||	/* it never got a message */
	       !(__atomic_fetch_or(&w->w_posted, MAIL_GONE,
				    __ATOMIC_ACQ_REL) & MAIL_POSTED);
}

#endif /* MAIL_H */
