/* SPDX-License-Identifier: MIT */
/* facts.h: what a copy says of runs, waits, sleeps and queues, in tables. */

#ifndef UVIEW_FACTS_H
#define UVIEW_FACTS_H

/*
 * walk.h gives runs and waits as they end. Who looks for the cause of something has to
 * look before and behind, so they are kept here:
 *
 *	f_run		by ring and time: the runs of ring r are those from f_ring[r]
 *			to f_ring[r + 1]. Dispatchers in threads are left out
 *	f_of_thread	numbers of runs, by thread and time; run.of_thread is the place
 *	f_wait		by what it is for, and time
 *	f_sleep		of native threads that had nothing to run
 *	f_look		at queues, by queue and time
 *
 * Times are in ns of the copy. Only what ends after f_from is here. What an address
 * names may change, so two threads one behind the other may count as one.
 */

#include "walk.h"

struct fact_run {
	double   from, to;
	double   could;		/* since when it could run; WALK_NEVER: unknown */
	double   off;		/* without a cpu; WALK_NEVER: unknown */
	double   by_at;		/* when it was woken by that thread */
	double   turns_from, turns_to;	/* 0: it is a single run */
	uint64_t turns;
	uint64_t at, by, object;
	unsigned f, kind, reason, stack, ready, lost, sleeps, wakes;
	int      ring, by_ring;
	bool     due, gave_way, open;
	size_t   of_thread;
};

struct fact_wait {
	double   from, to;
	uint64_t at, by, object, holder;
	unsigned f, kind, stack;
	bool     open, due, timed;
};

struct fact_sleep {
	double from, to, until;	/* WALK_NEVER: until it is woken */
	int    ring;
};

struct fact_look {
	double   at;
	uint64_t object;
	uint32_t length, taken;
};

struct facts {
	struct walk         f_walk;
	const struct uview_file *f_copy;
	double              f_from, f_to;	/* of what is looked at */
	struct fact_run    *f_run;
	struct fact_wait   *f_wait;
	struct fact_sleep  *f_sleep;
	struct fact_look   *f_look;
	size_t              f_runs, f_waits, f_sleeps, f_looks;
	size_t              f_ring[UVIEW_RINGS + 1];
	size_t             *f_of_thread;
	double              f_all;	/* time of all processors */
	double              f_busy;	/* in which they ran threads */
	double              f_taken;	/* in which the kernel gave their cpus to others
					 * during runs */
	double              f_own;	/* f_all without that */
	bool                f_knows_cpu, f_knows_wakes;
	bool                f_full;	/* there was no memory */
};

/* Reads a copy, from a time on. False: there is no memory. */
bool facts_read(struct facts *f, const struct uview_file *copy, double from);

/* Frees what facts_read() has allocated. */
void facts_end(struct facts *f);

/* Returns the run of a thread that goes on, or is the last before a time; or NULL. */
const struct fact_run *facts_run_at(const struct facts *f, uint64_t at, double time);

/* Returns the runs of the same thread behind r, and before it; or NULL. */
const struct fact_run *facts_next(const struct facts *f, const struct fact_run *r);
const struct fact_run *facts_before(const struct facts *f, const struct fact_run *r);

/* Returns whether r ended by a wait, and until when it lasted. */
static inline bool facts_waits(const struct fact_run *r)
{
	return r->reason == UVIEW_BLOCKED || r->reason == UVIEW_WAITS;
}
double facts_wait_end(const struct facts *f, const struct fact_run *r);

/* Returns where the waits end that are for the same object as wait number i. */
size_t facts_waits_end(const struct facts *f, size_t i);

/*
 * Returns whether an object has a holder. A semaphore is a lock only if those who wake
 * its waiters wait for it, too; else it counts events.
 */
bool facts_is_lock(const struct facts *f, unsigned kind, uint64_t object);

/* Returns for how long the kernel gave the cpu of a run to others. */
static inline double facts_taken(const struct fact_run *r)
{
	return r->off > 0 && r->sleeps == 0 ? r->off : 0;
}

/* Returns what the name with this number is, cut to what a sentence bears. */
const char *facts_name(const struct facts *f, unsigned nr);

/* Returns whether the name with this number is that. */
bool facts_is(const struct facts *f, unsigned nr, const char *text);

/* Returns "mutex book", "recv 0x5500"; without a kind "book". */
const char *facts_object(const struct facts *f, unsigned kind, uint64_t object);

/* Returns the innermost place of a stack outside of the library: "note+0xe9", or "". */
const char *facts_place(const struct facts *f, unsigned stack);

/* A sum of intervals that may overlap, each of which begins after those before. */
struct fact_union {
	double u_to, u_sum;
};

static inline void facts_add(struct fact_union *u, double from, double to)
{
	if (from < u->u_to)
		from = u->u_to;
	if (to <= from)
		return;
	u->u_sum += to - from;
	u->u_to = to;
}

#endif /* UVIEW_FACTS_H */
