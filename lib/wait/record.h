/* SPDX-License-Identifier: MIT */
/* record.h: steps of wait records that race. A part of uwait.c. */

#ifndef URECORD_H
#define URECORD_H

/*
 * With the inline functions of uwait.h these are all steps at which native
 * threads meet. They are here so that test/whole/model can run them alone. The essay
 * of uwait.c explains them.
 *
 * ORDERS
 *
 *	O1  a post (uwait H2) releases what the claimer has written, and the
 *	    taker (uwait H3) acquires that
 *	O2  ARRIVED releases this to a waiter on another native thread, which
 *	    acquires it with the state
 *	O3  a post is sequentially consistent, and so is the look before a
 *	    sleep: park W1 and S3
 *
 * A claim is an atomic exchange, and no order hangs on it: a claimer knows the
 * record from the lock of an object, or from its wheel.
 */

#include "uwait.h"
#include "park.h"

#include <errno.h>

/* Returns the state of w, and acquires what its claimer has written: O2. */
static inline int uwait_state(const struct uwait *w)
{
	return __atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE);
}

/* Ends the wait of w, the caller's own. False: it was claimed before. */
static inline bool uwait_withdraw(struct uwait *w, int result)
{
	USCHED_RACE(record_H1);
	if (!uwait_claim(w))					/* uwait H1 */
		return false;
	w->w_result = result;
	uwait_arrived(w);
	return true;
}

/* Tells the native thread that waits for w: only its address is used last. */
static inline void uwait_complete_native(struct uwait *w)
{
	int *word = &w->w_state;

	uwait_arrived(w);
	USCHED_RACE(record_wake);
	upark_futex_wake(word);
}

/* Waits natively until w has arrived, or the deadline has passed. */
static inline void uwait_native_block(struct uwait *w, utime_ns until)
{
	int state;

	while ((state = uwait_state(w)) != UWAIT_ARRIVED) {
		utime_ns left = until != UNEVER ? until - unow() : UNEVER;

		USCHED_RACE(record_sleep);
		if (left == UNEVER)
			upark_futex_wait(&w->w_state, state);
		else if (left > 0)
			upark_futex_wait_for(&w->w_state, state,
				left < UTIME_S ? left : UTIME_S - 1);
		else if (!uwait_withdraw(w, -ETIMEDOUT))
			until = UNEVER;		/* it is being completed */
	}
}

/* Takes the list of b, first in first out, linked by w_at.link: uwait H3. */
static inline struct uwait *uwait_take_list(struct uwait_base *b)
{
	struct uwait *list = NULL;
	struct uwait *w, *next;

	if (__atomic_load_n(&b->wb_posted, __ATOMIC_RELAXED) == NULL)
		return NULL;
	USCHED_RACE(record_A3);
	w = __atomic_exchange_n(&b->wb_posted, NULL, __ATOMIC_ACQUIRE); /* O1 */
	for (; w != NULL; w = next) {
		next = w->w_at.link;
		w->w_at.link = list;
		list = w;
	}
	return list;
}

#endif /* URECORD_H */
