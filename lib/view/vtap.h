/* SPDX-License-Identifier: MIT */
/* vtap.h: what the parts of a recorder share. Not API. */

#ifndef UVIEW_TAP_H
#define UVIEW_TAP_H

/*
 * A tap is what a native thread records with: its ring, and caches. A view is a
 * dispatcher that runs. Views of one native thread nest, and share its tap.
 */

#include "lock.h"
#include "vring.h"
#include "uslice.h"
#include "uproc_set.h"

#define UVIEW_CACHE	64	/* functions, objects */
#define UVIEW_HASHES	2048	/* stacks */

struct uview_tap {
	struct uring  a_ring;
	volatile char a_busy;	/* a signal handler records nothing now */
	bool          a_noted;	/* s_next has put a record with its own time */
	unsigned char a_half;	/* half of the ring has 2^a_half records */
	int           a_runs;	/* dispatchers, or calls: 0: it is free */
	const void   *a_owner;	/* a word of its native thread */
	uint64_t      a_clock;	/* time of the last CLOCK */
	uint64_t      a_quiet;	/* from one CLOCK to the next */
	uint64_t      a_due;	/* when the next CLOCK is due */
	struct { void (*f)(void *); unsigned nr; } a_name[UVIEW_CACHE];
	const void   *a_object[UVIEW_CACHE];	/* seen lately */
	struct { uint64_t hash; unsigned nr; } a_stack[UVIEW_HASHES];
	long          a_credit;	/* for unwinding: see STACKS in uview.c */
};

/* A dispatcher is INSIDE while none of its threads runs or moves. */
enum { UVIEW_INSIDE, UVIEW_RUNNING };

struct uview_view {
	struct usched_link w_link;	/* first */
	struct uview_view *w_next;	/* in the list of all */
	struct usched     *w_sched;
	struct uview_tap  *w_tap;
	struct uproc      *w_proc;	/* NULL: it is plain */
	const struct usched_queue *w_queue;	/* all that can run, but for
					 * s_hot; NULL: ask op_fresh */
	struct uwait_source *const *w_source;	/* *NULL: s_next() looks at
					 * nothing while threads can run */
	int                w_state;	/* (atomic) */
	struct ustack     *w_thread;	/* that runs, or NULL */
	unsigned           w_function;	/* its name */
	const void        *w_victim;	/* whose place it has taken */
	const struct usched_lane *w_lane;	/* where it runs */
	int                w_bound;	/* as in ustats.c */
	unsigned           w_lane_nr;	/* lanes that there are, at least */
	unsigned           w_reason;	/* of its stop, so far */
	unsigned           w_ready;	/* threads that can run */
	uint64_t           w_time;	/* of the records that follow */
	uint64_t           w_since;	/* it runs */
	struct uproc_mark  w_mark;
	struct usched_moves w_moves;	/* if none else counts */
	struct usched_moves *w_counted;
	long               w_stolen;
	long               w_preempted;	/* by the kernel */
};

/* What there is once in a process. */
struct uview_all {
	struct uview_file *v_file;	/* NULL: there is no recorder */
	size_t             v_size;
	bool               v_stacks;
	int                v_gate;	/* a census stops dispatchers (atomic) */
	const uint32_t    *v_ask;	/* vf_ask; in a child of fork() it is 0 */
	unsigned           v_asked;	/* the last vf_ask that was answered */
	struct ulock       v_lock;	/* protects v_first; held by a census */
	struct uview_view *v_first;
	uint64_t           v_tick, v_ns;	/* where both clocks began */
};

extern USLICE_HIDDEN struct uview_all uview_all;

/* Returns the stack of u, which is blocked, 0: unknown. may_walk: not only if it
 * was seen before. Owner of the tap only. */
USLICE_HIDDEN unsigned uview_stack_of(struct uview_tap *a,
		const struct usched *s, const struct ustack *u, bool may_walk);

USLICE_HIDDEN unsigned uview_function_of(struct uview_tap *a,
					 const struct ustack *u);

/* The clock of records, and ns of CLOCK_MONOTONIC. */
USLICE_HIDDEN uint64_t uview_tick(void);
USLICE_HIDDEN uint64_t uview_ns(void);

/*
 * Takes a census. self: the view that calls, or NULL. patience: ns until threads
 * that run must have given way. Any native thread.
 */
USLICE_HIDDEN void uview_census_take(struct uview_view *self, long patience);

#endif /* UVIEW_TAP_H */
