/* SPDX-License-Identifier: MIT */
/* ustats.h: what a dispatcher does, in numbers. */

#ifndef USTATS_H
#define USTATS_H

/*
 *	static struct usched_stats st;
 *
 *	usched_stats(&s, &st);
 *	usched_run(&s);
 *	printf("%ld switches, %ld without a copy\n", st.dispatches, st.hits);
 *
 * Before usched_stats() and after usched_stats_end() counting costs nothing: a
 * dispatcher that counts has call-backs of this module in front of the
 * scheduler's, and others have not.
 *
 * Processors of rr, ll and ws are counted each for itself, from before
 * rr_start():
 *
 *	for (i = 0; i < proc_nr; i++)
 *		usched_stats(rr_sched(i), &st[i]);
 *
 * Of ws, whose threads move, thefts and what they took are counted besides, in
 * moves: two workers with many stops for few switches have work that is too fine
 * for two.
 *
 * The records stay readable after rr_fini(), and usched_stats_sum() adds them
 * up at any time.
 *
 * WHAT ADDS UP
 *
 *	dispatches = starts + hits + copies_in
 *	copies_out = copies_in + threads that are in their buffers now, or were
 *		     when they were forgotten (ustack_fini())
 *
 * if no thread was blocked when counting began.
 *
 * CAVEATS
 *
 * - In the hard mode (USCHED_HARD) slices move that else would not. Of what it
 *   evicts by itself only that of the thread which has just blocked is counted.
 * - s_next, s_alloc, s_free and s_again of the dispatcher are not to be set
 *   meanwhile. s_again is not called, so new threads of ws take the long way.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Belongs to the user, who only reads it, until usched_stats_end(). Written by
 * the native thread that runs the dispatcher; others read it by
 * usched_stats_sum(). Counts begin at 0.
 */
struct usched_stats {
	long dispatches;	/* threads that s_next() has returned: */
	long starts;		/* those of them that were new, */
	long hits;		/* still in their lanes: nothing was copied, */
	long copies_in;		/* or came back from their buffers */
	long copies_in_bytes;
	long copies_out;	/* slices that went to a buffer: evictions, */
	long copies_out_bytes;	/* and on the native stack each block */
	long rests;		/* s_next() returned NULL */
	long allocs;		/* buffers had from s_alloc() */
	long alloc_bytes;
	long alloc_fails;	/* s_alloc() returned NULL */
	long frees;		/* buffers given back by s_free(); not counted: */
	long free_bytes;	/* the last of a thread, which s_done() frees */
	struct usched_moves moves;	/* by schedulers that move threads: ws */

	/* The module's own. */
	struct ustack *(*st_next) (struct usched *s);
	void          *(*st_alloc)(struct usched *s, int size);
	void           (*st_free) (struct usched *s, void *buf, int size);
	int            (*st_again)(struct usched *s, struct ustack *u);
	struct ustack  *st_last;	/* who runs, or ran last */
	int             st_lane;	/* where */
	int             st_bound;	/* threads bound to that lane then */
	int             st_forgot;	/* s_forgot then */
	char            st_line[64];	/* the next record is on other lines */
};

/*
 * Sets all of st to 0 and begins to count in it what s does. By the native
 * thread that runs s, also in a thread of it, or while it does not run. -EBUSY:
 * it is counted already; -EINVAL: its call-backs are not set yet.
 */
int usched_stats(struct usched *s, struct usched_stats *st);

/* Ends it; st keeps the numbers. From where usched_stats() may be called. */
void usched_stats_end(struct usched *s);

/* Adds the numbers of st to those of sum. Any native thread. */
void usched_stats_sum(struct usched_stats *sum, const struct usched_stats *st);

#ifdef __cplusplus
}
#endif

#endif /* USTATS_H */
