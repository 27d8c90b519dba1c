/* SPDX-License-Identifier: MIT */
/* vcensus.h: all threads of a process by stack. Not API. */

#ifndef UVIEW_CENSUS_H
#define UVIEW_CENSUS_H

#include "vtap.h"
#include "compiler.h"

/*
 * Takes a census. self: the view that calls, or NULL. patience: ns until threads
 * that run must have given way. Any native thread.
 */
HIDDEN void uview_census_take(struct uview_view *self, long patience);

/* Answers a reader that has asked for a census. */
HIDDEN void uview_census_answer(struct uview_view *v, unsigned ask);

/* Does so, if a reader has asked since. */
static inline void uview_census_ask(struct uview_view *v)
{
	unsigned ask = __atomic_load_n(uview_all.v_ask, __ATOMIC_RELAXED);

	if (unlikely(ask != uview_all.v_asked))
		uview_census_answer(v, ask);
}

#endif /* UVIEW_CENSUS_H */
