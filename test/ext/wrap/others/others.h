/* SPDX-License-Identifier: MIT */
/* others.h: runs the same threads under rr and under the bare dispatcher. */

#ifndef OTHERS_H
#define OTHERS_H

/*
 * A test has an array of jobs, each of which begins with a struct other. First
 * the test calls o_f() on each job without threads: this is the plain run, in
 * which others_block() does nothing. Then others_run() repeats it in threads,
 * with a thread for each job, once for each way: under rr (uproc.h) with 1 and
 * 2 processors; and under the bare dispatcher with the first in, first out
 * scheduler of tiny.h, with so few lanes that each slice is copied, or with
 * none.
 *
 * A call-back of the library does not know for which job it works. It asks the
 * thread that runs: others_self().
 */

#include "tiny.h"
#include "rr.h"
#include <stdbool.h>

struct other {
	struct tiny_thread o_thread;	/* first; for the bare dispatcher */
	void             (*o_f)(struct other *o);
	unsigned           o_random;	/* the same at each start of o_f() */
	long               o_blocks;	/* times that it has blocked */
	long               o_copies;	/* times that its slice was copied in */
	long               o_done;	/* times that o_f() has returned */
};

struct way {
	const char *w_name;
	int         w_procs;		/* of rr; 0: the bare dispatcher */
	int         w_lanes;		/* of the bare dispatcher */
};

static const struct way ways[] = {
	{ "rr, 1 processor",  1, 0 },
	{ "rr, 2 processors", 2, 0 },
	{ "bare, no lanes",   0, 0 },
	{ "bare, 1 lane",     0, 1 },
	{ "bare, 2 lanes",    0, 2 },
};

static const struct way *way;		/* NULL: the plain run */

/* The job of the running thread; NULL in the plain run. */
static UNUSED struct other *others_self(void)
{
	struct ustack *u = ustack_self();

	return u != NULL ? u->u_arg : NULL;
}

/* Lets all other threads run. In the plain run there are none. */
static UNUSED void others_block(void)
{
	struct other *o = others_self();

	CHECK_IS(o == NULL, way == NULL);
	if (o == NULL)
		return;
	o->o_blocks++;
	if (way->w_procs == 0)
		tiny_yield();
	else
		CHECK_IS(rr_yield(), 0);
	CHECK_IS(others_self(), o);
}

static void others_entry(void *arg)
{
	struct other *o = arg;

	o->o_f(o);
	o->o_done++;
}

/* Counts a copy if the slice was stored and is not in its lane. */
static struct ustack *others_next(struct usched *s)
{
	struct ustack *u = tiny_next(s);
	struct other *o;

	if (u != NULL && u->u_stack != NULL &&
	    s->s_lane[u->u_lane].l_owner != u) {
		o = u->u_arg;
		o->o_copies++;
	}
	return u;
}

static struct other *others_at(void *jobs, int i, size_t size)
{
	return (struct other *)((char *)jobs + i * size);
}

static void others_rr(void *jobs, int nr, size_t size)
{
	int i;

	CHECK_IS(rr_init(way->w_procs, nr), 0);
	for (i = 0; i < nr; i++)
		CHECK(rr_thread_on(i, others_entry,
				   others_at(jobs, i, size)) != NULL);
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
}

/* False: no lanes in a portable build. */
static bool others_bare(void *jobs, int nr, size_t size)
{
	static struct tiny t;
	struct other *o;
	int i, rc;

	tiny_shares = 1;		/* deep threads are copied, too */
	rc = tiny_init(&t, way->w_lanes);
	if (rc == -ENOSYS)
		return false;
	CHECK_IS(rc, 0);
	t.t_sched.s_next = others_next;
	for (i = 0; i < nr; i++) {
		o = others_at(jobs, i, size);
		tiny_start(&t, &o->o_thread, others_entry, o);
	}
	tiny_run(&t);
	tiny_fini(&t);
	return true;
}

/*
 * Runs the threads in this way. Each must have blocked at least this often, and
 * must have been copied, except under rr, where each has a lane. False: this
 * build does not have this way.
 */
static UNUSED bool others_run(const struct way *w, void *jobs, int nr,
			      size_t size, long least)
{
	long blocks = 0, copies = 0;
	struct other *o;
	bool done = true;
	int i;

	way = w;
	doing("%s", w->w_name);
	for (i = 0; i < nr; i++) {
		o = others_at(jobs, i, size);
		o->o_blocks = o->o_copies = o->o_done = 0;
	}
	if (w->w_procs != 0)
		others_rr(jobs, nr, size);
	else
		done = others_bare(jobs, nr, size);
	way = NULL;
	for (i = 0; i < nr && done; i++) {
		o = others_at(jobs, i, size);
		CHECK_IS(o->o_done, 1);
		CHECK_THAT(o->o_blocks, >=, least);
		CHECK(o->o_copies > 0 || w->w_procs != 0);
		blocks += o->o_blocks;
		copies += o->o_copies;
	}
	if (done && w->w_procs != 0)
		printf("%s: %d threads, %ld blocks\n", w->w_name, nr, blocks);
	else if (done)
		printf("%s: %d threads, %ld blocks, %ld copies\n", w->w_name,
		       nr, blocks, copies);
	return done;
}

#endif /* OTHERS_H */
