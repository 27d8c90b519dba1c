/* SPDX-License-Identifier: MIT */
/* ustats.c: counters of a dispatcher. */

/*
 * All that a dispatcher does follows from the thread that s_next() returns. The
 * thread is new, or in its lane, or in its buffer; and if another thread owns
 * the lane, that is evicted. So all is counted in s_next(), before it happens,
 * and the dispatcher itself has no instruction for it.
 *
 * On the native stack (and in the hard mode) a thread is copied out when it
 * blocks, though no other thread needs the place. The next s_next() looks
 * whether that has happened, but only if the thread has not ended, since the
 * memory of an ended thread may be gone. It has not ended if as many threads
 * are bound to its lane as before.
 */

#include "ustats.h"
#include "uchain.h"
#include "uslice.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

UPREEMPT_NEVER;

static struct ustack *next(struct usched *s, struct usched_link *k);
static void *alloc(struct usched *s, int size);
static void  release(struct usched *s, void *buf, int size);
static void  keep(struct usched *s, struct usched_stats *st, struct ustack *u,
		  int lane, int bound);
static void  count_last(struct usched *s, struct usched_stats *st);
static void  count(struct usched *s, struct usched_stats *st, struct ustack *u);

/* Returns what counts s, or NULL. */
static struct usched_stats *stats_of(const struct usched *s)
{
	void *k = uchain_of(s, next);

	return k == NULL ? NULL : (struct usched_stats *)
		((char *)k - offsetof(struct usched_stats, st_link));
}

int usched_stats(struct usched *s, struct usched_stats *st)
{
	struct ustack *u = ustack_self();

	if (s == NULL || s->s_next == NULL || s->s_alloc == NULL ||
	    s->s_free == NULL)
		return -EINVAL;
	if (stats_of(s) != NULL)
		return -EBUSY;
	memset(st, 0, sizeof *st);
	st->st_alloc = s->s_alloc;
	st->st_free  = s->s_free;
	s->s_alloc = alloc;
	s->s_free  = release;
	s->s_moves = &st->moves;
	uchain_add(s, &st->st_link, next);
	if (u != NULL && u->u_sched == s)
		keep(s, st, u, u->u_lane, s->s_lane[u->u_lane].l_bound);
	return 0;
}

void usched_stats_end(struct usched *s)
{
	struct usched_stats *st = stats_of(s);

	if (st == NULL)
		return;
	uchain_remove(s, &st->st_link);
	s->s_alloc = st->st_alloc;
	s->s_free  = st->st_free;
	s->s_moves = NULL;
}

/* One native thread writes while others may read, so by one instruction. */
static inline void add(long *at, long nr)
{
	__atomic_store_n(at, *at + nr, __ATOMIC_RELAXED);
}

static struct ustack *next(struct usched *s, struct usched_link *k)
{
	struct usched_stats *st = (struct usched_stats *)
		((char *)k - offsetof(struct usched_stats, st_link));
	struct ustack *u;

	count_last(s, st);
	u = uchain_next(s, k);
	if (u == NULL)
		add(&st->rests, 1);
	else if (uchain_of(s, next) == k)	/* else s_next() has ended it */
		count(s, st, u);
	return u;
}

static void count_out(struct usched_stats *st, const struct ustack *u)
{
	add(&st->copies_out, 1);
	add(&st->copies_out_bytes, usched_stored(u));
}

/* Remembers u, which will run with this many threads bound to its lane. */
static void keep(struct usched *s, struct usched_stats *st, struct ustack *u,
		 int lane, int bound)
{
	st->st_last   = u;
	st->st_lane   = lane;
	st->st_bound  = bound;
	st->st_forgotten_nr = s->s_forgotten_nr;
}

/* Counts the copy if the thread that ran last was copied out by its block. */
static void count_last(struct usched *s, struct usched_stats *st)
{
	const struct ustack *u = st->st_last;
	int forgotten = s->s_forgotten_nr - st->st_forgotten_nr;

	st->st_last = NULL;
	if (u == NULL || (s->s_lane_nr > 0 && forgotten != 0) ||
	    s->s_lane[st->st_lane].l_bound != st->st_bound - forgotten)
		return;		/* it has ended, or may have */
	if ((uintptr_t)u->u_top & USLICE_AWAY)
		count_out(st, u);
}

/* Counts what switch_in() in usched.c is about to do. Nothing if u is not of s. */
static void count(struct usched *s, struct usched_stats *st, struct ustack *u)
{
	bool new = uslice_is_new(u);
	const struct usched_lane *l;
	int lane;

	if (u->u_sched != s || u->u_top == USLICE_ENDED || u->u_lane < (new ? USCHED_PRIVATE : 0) ||
	    u->u_lane > s->s_lane_nr + usched_private_nr(s->s_private))
		return;
	if (new)
		uslice_lane(s, u);
	lane = new && u->u_lane == 0 ? usched_lane_next(s) : u->u_lane;
	l = &s->s_lane[lane];
	add(&st->dispatches, 1);
	if (l->l_owner != NULL && l->l_owner != u)
		count_out(st, l->l_owner);
	if (new)
		add(&st->starts, 1);
	else if ((uintptr_t)u->u_top & USLICE_AWAY) {
		add(&st->copies_in, 1);
		add(&st->copies_in_bytes, usched_stored(u));
	} else
		add(&st->hits, 1);
	keep(s, st, u, lane, l->l_bound + new);
}

static void *alloc(struct usched *s, int size)
{
	struct usched_stats *st = stats_of(s);
	void *buf = st->st_alloc(s, size);

	if (buf != NULL) {
		add(&st->allocs, 1);
		add(&st->alloc_bytes, size);
	} else
		add(&st->alloc_fails, 1);
	return buf;
}

static void release(struct usched *s, void *buf, int size)
{
	struct usched_stats *st = stats_of(s);

	add(&st->frees, 1);
	add(&st->free_bytes, size);
	st->st_free(s, buf, size);
}

void usched_stats_sum(struct usched_stats *sum, const struct usched_stats *st)
{
#define SUM(field)							\
	(sum->field += __atomic_load_n(&st->field, __ATOMIC_RELAXED))
	SUM(dispatches);
	SUM(starts);
	SUM(hits);
	SUM(copies_in);
	SUM(copies_in_bytes);
	SUM(copies_out);
	SUM(copies_out_bytes);
	SUM(rests);
	SUM(allocs);
	SUM(alloc_bytes);
	SUM(alloc_fails);
	SUM(frees);
	SUM(free_bytes);
	SUM(moves.thefts);
	SUM(moves.stolen);
	SUM(moves.stops);
	SUM(moves.forced);
	SUM(moves.fences);
#undef SUM
}
