/* SPDX-License-Identifier: MIT */
/* vswitch.h: the records of switches: which thread runs, and since when. Not API. */

#ifndef UVIEW_SWITCH_H
#define UVIEW_SWITCH_H

#include "vtap.h"

struct uself_block;

/* Lets all dispatchers that begin from now on have a view. */
HIDDEN void uview_switches_start(void);

/* The link of a view, by which uchain_of() finds it. */
HIDDEN struct ustack *uview_next(struct usched *s, struct usched_link *k);

/* Records the name of u, whose block b is. */
HIDDEN void uview_named(struct uview_tap *a, uint64_t time,
		const struct ustack *u, const struct uself_block *b);

#endif /* UVIEW_SWITCH_H */
