/* SPDX-License-Identifier: MIT */
/* mail.h: wakes from elsewhere, for threads that move between processors. */

#ifndef WS_MAIL_H
#define WS_MAIL_H

/*
 * As in wakes.h, only a single processor touches w_count: the home of the
 * thread. Other wakers count in w_posted, and the first of them posts the node
 * of the thread to the inbox of its home. But the home may change at any time.
 * So w_posted says more than how many:
 *
 *	POSTED   the node is in an inbox, or about to be
 *	GONE     the thread has ended; its node is posted no more
 *	LEFT     and nothing but its node refers to it: the taker frees it
 *	RUN      the thread can run, and the taker of the node has it
 *	SETTLED  the thread has blocked before, so it has a home
 *	n * ONE  so many wakes
 *
 *	operation     who may call		when it returns true
 *	ws_mail_post  any thread, also a	post the node, to the home as it
 *	              signal handler		is read after this
 *	ws_mail_give  the holder of a thread	the same
 *	              that can run, to give
 *	              it away
 *	ws_mail_open  the taker of the node,	(returns w_posted as it was,
 *	              if it is the home, has	without SETTLED)
 *	              stopped the home, or
 *	              sees GONE
 *	ws_mail_settle the thread, when it is	there was a wake: it need not
 *	              about to block for the	block
 *	              first time
 *	ws_mail_collect the thread, while it	-
 *	              runs
 *	ws_mail_close its home, when it has	its node is in no inbox, and
 *	              ended			never will be
 *	ws_mail_gone  the taker of the node	it has ended
 *
 * The taker of a node whose thread is at home elsewhere posts the node there,
 * and changes nothing else. So a node finds its thread by way of all former
 * homes, if need be.
 *
 * A thread that has not blocked yet may not have a home: perhaps it has not
 * even begun, and lies in a queue where thieves take. It needs no message. Its
 * wakes are only counted, and it looks before it blocks for the first time.
 * That look and a post are both read-modify-writes of w_posted. So either the
 * thread sees the wake, or the poster sees SETTLED and (by M1) the home.
 *
 * THE END
 *
 * The taker that opens the node of a live thread goes on to use its count and
 * its home. So only the home may close it. A joinable thread may be woken until
 * it has been joined. The joiner learns of the end at once, even if the node
 * is under way, because the taker may compute for long. The joiner leaves by
 * uwakes_leave(). The thread is freed by uwakes_leave() or by the last
 * ws_mail_open(), whichever is later: wakes E1, E2, T4. A post that finds GONE
 * changes nothing.
 *
 * For a thread without a joiner ws_mail_close() also sets LEFT. A waker has to
 * know that the thread has not ended. So each ws_mail_post() happens before
 * ws_mail_close(), but the node may arrive later.
 *
 * ORDERS
 *
 *	M1  ws_mail_settle() releases what has been written of the home;
 *	    pairs with the acquire in ws_mail_post()
 *	M2  a post releases what its caller did; pairs with the acquire in
 *	    ws_mail_open(), ws_mail_settle() and ws_mail_collect()
 *	M3  ws_mail_open() releases the node, so that its link is used again
 *	    only after its last use; pairs with the acquire in ws_mail_post()
 *	    and ws_mail_give(). It also releases its last use of a thread that
 *	    has ended: wakes R5
 *	M4  the former home releases what it knows as it gives the lane away,
 *	    and the reader of the new home acquires it. A waker that knows the
 *	    new home by that alone may post the node there
 */

#include "wakes.h"

#define WS_MAIL_RUN	8u
#define WS_MAIL_SETTLED	16u

/* Adds more, and sets POSTED if it must be. True: POSTED was not set before. */
static __inline__ int ws_mail_put(struct uwakes *w, unsigned more, int settled)
{
	unsigned was = __atomic_load_n(&w->w_posted, __ATOMIC_RELAXED);
	unsigned now;

	do {
		if (was & UWAKES_GONE)
			return 0;
		uwakes_bound(was);
		now = was + more;
		if (settled || (was & WS_MAIL_SETTLED))
			now |= UWAKES_POSTED;
	} while (!__atomic_compare_exchange_n(&w->w_posted, &was, now, 0,
				__ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return (now & ~was & UWAKES_POSTED) != 0;		/* M1 M2 M3 */
}

static __inline__ int ws_mail_post(struct uwakes *w)
{
	return ws_mail_put(w, UWAKES_ONE, 0);
}

static __inline__ int ws_mail_give(struct uwakes *w)
{
	return ws_mail_put(w, WS_MAIL_RUN, 1);
}

static __inline__ unsigned ws_mail_open(struct uwakes *w)
{
	return __atomic_fetch_and(&w->w_posted,			/* M2 M3 */
				  WS_MAIL_SETTLED | UWAKES_GONE | UWAKES_LEFT,
				  __ATOMIC_ACQ_REL) & ~WS_MAIL_SETTLED;
}

/* Returns the number of wakes among what ws_mail_open() has returned. */
static __inline__ int ws_mail_wakes(unsigned bits)
{
	return (int)(bits / UWAKES_ONE);
}

static __inline__ int ws_mail_settled(const struct uwakes *w)
{
	return (__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) &
		WS_MAIL_SETTLED) != 0;
}

static __inline__ int ws_mail_gone(const struct uwakes *w)
{
	return (__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) &
		UWAKES_GONE) != 0;
}

/* Called after the first uwakes_wait(): no node is under way until now. */
static __inline__ int ws_mail_settle(struct uwakes *w)
{
	unsigned was = __atomic_exchange_n(&w->w_posted, WS_MAIL_SETTLED,
					   __ATOMIC_ACQ_REL);	/* M1 M2 */

	uwakes_back(w, ws_mail_wakes(was));
	return w->w_count >= 0;
}

/* Takes the wakes that were counted, wherever the node is. */
static __inline__ void ws_mail_collect(struct uwakes *w)
{
	unsigned was = __atomic_fetch_and(&w->w_posted, UWAKES_ONE - 1,
					  __ATOMIC_ACQUIRE);	/* M2 */

	uwakes_back(w, ws_mail_wakes(was));
}

/* Closes a thread that has ended; with flags UWAKES_LEFT it has no joiner. */
static __inline__ int ws_mail_close(struct uwakes *w, unsigned flags)
{
	return !ws_mail_settled(w) ||	/* it never got a message */
	       !(__atomic_fetch_or(&w->w_posted, UWAKES_GONE | flags,
				    __ATOMIC_ACQ_REL) & UWAKES_POSTED);
}

#endif /* WS_MAIL_H */
