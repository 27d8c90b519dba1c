/* SPDX-License-Identifier: MIT */
/* uchain.h: modules in front of the s_next() of a dispatcher. Not API. */

#ifndef UCHAIN_H
#define UCHAIN_H

/*
 * All that a dispatcher does follows from what s_next() returns. So modules that
 * count, list or record put a call-back of their own in front of it:
 *
 *	s_next --> the link added last --> ... --> s_next of the scheduler
 *
 * They come and go in any order. While there is a link, s_again() and s_quick()
 * are not called, and no thread is prepared, since these would begin threads
 * unseen. The last link to go restores the call-backs, unless others were set
 * meanwhile (in a child of fork(), by forked.h).
 *
 * By the native thread that runs s, or while s does not run.
 */

#include "uslice.h"

/* Puts k, with its call-back, in front of all others. s_next is set. */
HIDDEN void uchain_add(struct usched *s, struct usched_link *k,
		       struct ustack *(*next)(struct usched *s,
					      struct usched_link *k));

/* Takes k out. */
HIDDEN void uchain_remove(struct usched *s, struct usched_link *k);

/* Returns the link of s with this call-back, or NULL. */
static inline void *uchain_of(const struct usched *s,
			      struct ustack *(*next)(struct usched *s,
						     struct usched_link *k))
{
	struct usched_link *k = s->s_links;

	while (k != NULL && k->k_next != next)
		k = k->k_below;
	return k;
}

/* Calls what is behind k. k may have gone when it returns. */
static inline struct ustack *uchain_next(struct usched *s,
					 struct usched_link *k)
{
	return k->k_below != NULL ? k->k_below->k_next(s, k->k_below) :
		k->k_own_next(s);
}

#endif /* UCHAIN_H */
