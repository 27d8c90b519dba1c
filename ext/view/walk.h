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
 * Turns of threads that give way to each other (format.h, TURNS) are given to w_run()
 * when they are over: one run a thread, with a count, one behind the other.
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
	bool     wt_due;	/* wt_woken is its deadline */
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
	bool     wr_due;	/* that is its deadline */
	bool     wr_gave_way;	/* or when it gave way, and nobody woke it */
	unsigned wr_wakes;	/* threads that it has woken */
	int      wr_by_ring;
	uint64_t wr_by;
	double   wr_by_at;	/* when that did so; its run has not ended then */
	unsigned wr_ready, wr_reason, wr_stack, wr_kind;
	uint64_t wr_object, wr_holder;
	double   wr_until;
	unsigned wr_lost;
	double   wr_off;	/* for how long there was no cpu; WALK_NEVER: unknown */
	unsigned wr_sleeps;	/* in the kernel */
	uint64_t wr_turns;	/* 1, or how many runs this stands for */
	double   wr_turns_from, wr_turns_to;	/* when they went on; 0: no turns */
	bool     wr_open;
	bool     wr_moved;	/* it ran elsewhere before its STOP was noted */
};

#define WALK_DEPTH	8	/* dispatchers in dispatchers */

#define WALK_TAKERS	64	/* threads that take turns */

/* Turns of a thread that go on. */
struct walk_turns {
	uint64_t wu_at;
	unsigned wu_f;
	uint64_t wu_nr;
	double   wu_from, wu_ran, wu_last;
};

struct walk_ring {
	const struct uview_record *wl_at;
	uint64_t        wl_nr, wl_next;
	int             wl_depth;
	struct walk_run wl_run[WALK_DEPTH];
	bool            wl_parked;
	double          wl_park, wl_until;	/* WALK_NEVER: until woken */
	unsigned        wl_ready;	/* threads that can run: of the last RUN */
	int             wl_takers;
	struct walk_turns wl_turns[WALK_TAKERS];
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
