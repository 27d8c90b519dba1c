/* SPDX-License-Identifier: MIT */
/* ustats.h: counters of a dispatcher. */

#ifndef USTATS_H
#define USTATS_H

/*
 *	static struct usched_stats st;
 *
 *	usched_stats(&s, &st);
 *	usched_run(&s);
 *	printf("%ld switches, %ld without a copy\n", st.dispatches, st.hits);
 *
 * Before usched_stats() and after usched_stats_end() counting costs nothing,
 * because this module puts its call-backs in front of the scheduler's only in
 * between.
 *
 * Each processor of rr, ll and ws is counted separately, from before
 * rr_start():
 *
 *	for (i = 0; i < proc_nr; i++)
 *		usched_stats(rr_sched(i), &st[i]);
 *
 * Threads of ws move, so its thefts and the threads that they took are counted,
 * too, in moves. If two workers have many stops for few switches, their work is
 * too fine for two workers.
 *
 * The records stay readable after rr_fini(). usched_stats_sum() adds them up at
 * any time.
 *
 * WHAT ADDS UP
 *
 *	dispatches = starts + hits + copies_in
 *	copies_out = copies_in + threads that are in their buffers now, or were
 *		     there when ustack_fini() forgot them
 *
 * if no thread was blocked when counting began.
 *
 * CAVEATS
 *
 * - In the hard mode (USCHED_HARD) more slices move. An eviction by the hard
 *   mode itself is counted only if the thread has just blocked.
 * - s_next, s_alloc, s_free and s_again of the dispatcher must not be set while
 *   it is counted. s_again is not called, so new threads of ws start more
 *   slowly.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The user owns the memory, and must only read it until usched_stats_end(). The
 * native thread that runs the dispatcher writes it; others read it by
 * usched_stats_sum(). All counts begin at 0.
 */
struct usched_stats {
	long dispatches;	/* threads that s_next() has returned */
	long starts;		/* dispatches of new threads */
	long hits;		/* dispatches of threads in their lanes: no copy */
	long copies_in;		/* dispatches of threads in their buffers */
	long copies_in_bytes;
	long copies_out;	/* slices copied to buffers: at each eviction; on
				 * the native stack at each block */
	long copies_out_bytes;
	long rests;		/* s_next() returned NULL */
	long allocs;		/* buffers that s_alloc() has returned */
	long alloc_bytes;
	long alloc_fails;	/* s_alloc() returned NULL */
	long frees;		/* buffers given to s_free(), but not the last of
				 * a thread, which s_done() frees */
	long free_bytes;
	struct usched_moves moves;	/* by schedulers that move threads: ws */

	/* Private. */
	struct usched_link st_link;
	void          *(*st_alloc)(struct usched *s, int size);
	void           (*st_free) (struct usched *s, void *buf, int size);
	struct ustack  *st_last;	/* the thread that runs, or ran last */
	int             st_lane;	/* the lane of st_last */
	int             st_bound;	/* threads of st_lane, as st_last was noted */
	int             st_forgotten_nr; /* s_forgotten_nr as st_last was noted */
	char            st_line[64];	/* so no cache line is shared */
};

/*
 * Sets all of st to 0 and begins to count there what s does. By the native
 * thread that runs s, also in a thread of s; by any native thread while s does
 * not run. -EBUSY: s is counted already; -EINVAL: its call-backs are not set
 * yet.
 */
int usched_stats(struct usched *s, struct usched_stats *st);

/* Ends the count; st keeps the numbers. Callers as of usched_stats(). */
void usched_stats_end(struct usched *s);

/* Adds the numbers of st to those of sum. Any native thread. */
void usched_stats_sum(struct usched_stats *sum, const struct usched_stats *st);

#ifdef __cplusplus
}
#endif

#endif /* USTATS_H */
