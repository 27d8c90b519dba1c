/* SPDX-License-Identifier: MIT */
/* uchain.c: modules in front of the s_next() of a dispatcher. */

#include "uchain.h"

UPREEMPT_NEVER;

static struct ustack *first(struct usched *s)
{
	return s->s_links->k_next(s, s->s_links);
}

void uchain_add(struct usched *s, struct usched_link *k,
		struct ustack *(*next)(struct usched *s, struct usched_link *k))
{
	struct usched_link *below = s->s_links;

	k->k_next      = next;
	k->k_below     = below;
	k->k_own_next  = below != NULL ? below->k_own_next : s->s_next;
	k->k_own_again = below != NULL ? below->k_own_again : s->s_again;
	s->s_links = k;
	if (below != NULL)
		return;
	s->s_next  = first;
	s->s_again = NULL;
	s->s_left  = 0;
	s->s_quick = NULL;
}

void uchain_remove(struct usched *s, struct usched_link *k)
{
	struct usched_link **at = &s->s_links;

	while (*at != k)
		at = &(*at)->k_below;
	*at = k->k_below;
	if (s->s_links != NULL || s->s_next != first)
		return;
	s->s_next  = k->k_own_next;
	s->s_again = k->k_own_again;
}
