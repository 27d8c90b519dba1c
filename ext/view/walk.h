/* SPDX-License-Identifier: MIT */
/* walk.h: what the records of a copy mean, in the order of time. For the tools. */

#ifndef UVIEW_WALK_H
#define UVIEW_WALK_H

/*
 * All rings are merged by time. Each thread has a state, which its records
 * change, so that the end of a run or of a wait knows all about it:
 *
 *	RUN ------------ STOP ------------ WAKE or POST ------- RUN
 *	    w_run(slice)      w_wait(wait)              latency
 *
 * A thread may be woken, and run elsewhere, before the processor that it has left
 * has noted its STOP. Then its run ends where the next begins.
 *
 * Times are in ns from the zero of the copy. Numbers of names and stacks may be
 * wrong in a file that is: uview_name_text() then returns "".
 */

#include "vcopy.h"

#define WALK_NEVER	(-1.0)

struct walk_thread {
	uint64_t wt_at;		/* its address; 0: a free place in the table */
	unsigned wt_nr;		/* in the order in which they were met, from 1 */
	unsigned wt_f, wt_name;	/* names */
	int      wt_ring;	/* the ring on which it runs; -1: it does not */
	double   wt_off;	/* when it stopped; WALK_NEVER: it runs, or is new */
	double   wt_woken;	/* when it was woken; WALK_NEVER: not so far */
	int      wt_by_ring;	/* ring of its waker; -1: none */
	uint64_t wt_by;		/* its waker, if that is a thread */
	double   wt_by_at;	/* when its waker woke it */
	int      wt_early;	/* ring of a waker that came before the stop; -1: none */
	uint64_t wt_early_by;	/* the waker that came before the stop */
	double   wt_early_at;
	bool     wt_given;	/* its wait was given to w_wait() */
	double   wt_until;	/* deadline of its wait; WALK_NEVER: none */
	/* The wait that it is in, or was. */
	unsigned wt_reason, wt_stack, wt_kind;
	uint64_t wt_object, wt_holder;
};

/* A run, whose end was recorded, or not so far (open). */
struct walk_run {
	struct walk_thread *wr_thread;	/* as it was before the stop */
	uint64_t wr_at;
	unsigned wr_f;
	int      wr_ring, wr_depth;
	double   wr_from, wr_to;
	double   wr_latency;	/* from its wake; WALK_NEVER: unknown */
	double   wr_woken;
	int      wr_by_ring;
	uint64_t wr_by;
	double   wr_by_at;	/* when that did so; its run has not ended then */
	unsigned wr_ready, wr_reason, wr_stack, wr_kind;
	uint64_t wr_object, wr_holder;
	double   wr_until;
	unsigned wr_lost;
	bool     wr_open;
	bool     wr_moved;	/* it ran elsewhere before its STOP was noted */
};

#define WALK_DEPTH	8	/* dispatchers in dispatchers */

struct walk_ring {
	const struct uview_record *wl_at;
	uint64_t        wl_nr, wl_next;
	int             wl_depth;
	struct walk_run wl_run[WALK_DEPTH];
	bool            wl_parked;
	double          wl_park, wl_until;	/* WALK_NEVER: until woken */
};

struct walk {
	/* Set by the caller; each may be NULL. */
	void (*w_run) (struct walk *w, const struct walk_run *r);
	/* t has waited from wt_off to a time, or still does (open). */
	void (*w_wait)(struct walk *w, const struct walk_thread *t, double to,
		       bool open);
	/* A record that is neither run nor wait. */
	void (*w_note)(struct walk *w, int ring, double time,
		       const struct uview_record *e);
	void  *w_arg;

	const struct uview_file *w_copy;
	const struct uview_ring *w_rings;
	int                w_ring_nr;
	struct walk_ring   w_ring[UVIEW_RINGS];
	struct walk_thread *w_thread;	/* a table */
	size_t             w_room, w_threads;
	unsigned           w_last_nr;
	double             w_end;	/* of the copy */
};

/* Walks through the copy. False: there is no memory. */
bool walk(struct walk *w, const struct uview_file *copy);

/* Returns the thread at this address, or NULL. */
struct walk_thread *walk_thread(const struct walk *w, uint64_t at);

/* Frees what walk() has allocated. */
void walk_end(struct walk *w);

/* Parts of a record. */
static inline unsigned walk_kind(const struct uview_record *e)
{
	return e->ve_word[0] >> 12 & 15;
}

static inline unsigned walk_arg(const struct uview_record *e)
{
	return e->ve_word[0] & 0xfff;
}

static inline uint64_t walk_at(const struct uview_record *e)
{
	return e->ve_word[1] & 0xffffffffffffu;
}

static inline unsigned walk_id(const struct uview_record *e)
{
	return (unsigned)(e->ve_word[1] >> 48);
}

#endif /* UVIEW_WALK_H */
