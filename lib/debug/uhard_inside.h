/* SPDX-License-Identifier: MIT */
/* uhard_inside.h: records and names, for the parts of uhard.c. */

#ifndef UHARD_INSIDE_H
#define UHARD_INSIDE_H

/*
 * RECORDS
 *
 * The record of a lane, struct uhard_lane, is a part of the lane. The record of
 * a thread is struct uhard_stack. It repeats the thread's function and
 * argument, because the thread may be gone when a message needs them.
 * usched_run() cannot report an error, so a new thread runs with a record of
 * the dispatcher that is always there (d_first). The thread gets its own record
 * when it blocks, where -ENOMEM can be returned. For the same reason the first
 * few dispatchers have static records.
 *
 * The record of a dispatcher is dropped as soon as neither lanes nor threads
 * nor usched_run() need it, because a dispatcher without lanes may never reach
 * usched_fini().
 *
 * INVARIANTS
 *
 * H1. A thread that is blocked has a record of its own in d_list. If checksums
 *     are taken, the record has the checksum of its slice.
 */

#include "uhard.h"
#include "compiler.h"
#include "ufault.h"
#include "ufork.h"
#include "usan.h"
#include "uslice.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Records of dispatchers that need no malloc(). */
#define FEW		16
/* Threads that a message names: the others, it counts. */
#define NAMES		3

/* A thread that may be gone. */
struct name {
	const struct ustack *w_stack;	/* NULL: no thread */
	void               (*w_f)(void *);
	void                *w_arg;
};

/* Returns the name of u; of a shell that of the function inside. */
static struct name name_of_thread(const struct ustack *u)
{
	return (struct name) { u, ustack_f(u->u_f, u->u_arg),
			       ustack_arg(u->u_f, u->u_arg) };
}

/*
 * What the C++ library, if there is one, knows about exceptions on this native
 * thread: see ucxx.cc.
 */
struct handled {
	void    *z_caught;
	unsigned z_thrown;
};

enum where { RUNS, STAYS, IS_AWAY };

/* The record of a thread. */
struct uhard_stack {
	struct usan          h_san;
	struct name          h_name;
	struct uhard_stack  *h_next;	/* in d_list */
	struct uhard_stack **h_at;	/* what points to us there */
	enum where           h_where;
	int                  h_lane;
	char                *h_slice;	/* while it is blocked */
	char                *h_deep;	/* lowest frame at a block, ever */
	uint64_t             h_sum;	/* while it is blocked */
	char                *h_buf;	/* buffer that is poisoned, or NULL */
	ptrdiff_t            h_buf_nob;
};

/* The record of a dispatcher. */
struct uhard_sched {
	struct usan         d_san;
	struct ustack      *d_left;	/* left last; NULL after at_base */
	int                 d_ended;	/* d_left has ended */
	struct uhard_stack  d_first;	/* of a thread that has not blocked */
	struct uhard_stack *d_list;	/* threads that have blocked */
	struct name         d_ran;	/* the thread that was run last */
	unsigned            d_evict;	/* random states */
	unsigned            d_yield;
	struct handled      d_handled;	/* when usched_run() began */
	bool                d_busy;	/* in use */
	struct usched_lane *d_lane;	/* for the handler, as s may be gone */
	int                 d_lane_nr;
	struct usched_private *d_private;
	struct uhard_sched *d_next;
};

/* The words of USCHED_DEBUG. */
static struct {
	bool     m_known;		/* it was read */
	enum { NEVER, ALWAYS, RANDOM } m_evict;
	bool     m_poison;
	bool     m_fault;
	bool     m_check;
	bool     m_yield;
	unsigned m_evict_seed;
	unsigned m_yield_seed;
	unsigned m_nr;			/* dispatchers so far */
	size_t   m_page;
	struct sigaction m_before[2];	/* SIGSEGV, SIGBUS */
} mode;

static struct uhard_sched few[FEW];
static struct uhard_sched *all;		/* dispatchers */
/* Protects all, d_list, and mode until m_known. */
static struct ulock all_lock;
static const void  *holder;		/* its &depth, or NULL (atomic) */

/* How many usched_run()s of this native thread are nested. */
static __thread int depth;

static bool lock_try(void)
{
	if (!ulock_try(&all_lock))
		return false;
	__atomic_store_n(&holder, &depth, __ATOMIC_RELAXED);
	return true;
}

static void lock(void)
{
	while (!lock_try())
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&holder, NULL, __ATOMIC_RELAXED);
	ulock_put(&all_lock);
}

static void in_child(void)
{
	holder = NULL;
}

static struct ufork at_fork = {
	.f_rank = UFORK_HARD, .f_lock = &all_lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

static inline char *slice_of(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)USLICE_LOW);
}

/* Sets h_where, which the handler reads, too. */
static inline UNCHECKED void where_set(struct uhard_stack *h, enum where where)
{
	__atomic_store_n(&h->h_where, where, __ATOMIC_RELEASE);
}

static inline struct usched_lane *lane_of(const struct ustack *u)
{
	/* It may be moving; each of its dispatchers has the same lanes. */
	return &__atomic_load_n(&u->u_sched, __ATOMIC_RELAXED)->s_lane[u->u_lane];
}

/* Records. */

static unsigned seed(unsigned from, unsigned nr)
{
	return (from * 2654435761u ^ nr * 2246822519u) | 1;
}

/* usched_run() cannot report that memory has run out, so it must need none. */
static struct uhard_sched *sched_make(struct usched *s)
{
	struct uhard_sched *d = NULL;
	int i;

	lock();
	for (i = 0; i < FEW && d == NULL; i++) {
		if (!few[i].d_busy)
			d = &few[i];
	}
	if (d == NULL)
		d = malloc(sizeof *d);
	if (d == NULL)
		usched_fail("usched_run: no memory for the hard mode");
	memset(d, 0, sizeof *d);
	d->d_busy    = true;
	d->d_evict   = seed(mode.m_evict_seed, mode.m_nr);
	d->d_yield   = seed(mode.m_yield_seed, mode.m_nr);
	d->d_lane    = s->s_lane;
	d->d_lane_nr = s->s_lane_nr;
	d->d_private = s->s_private;
	d->d_next    = all;
	all = d;
	mode.m_nr++;
	unlock();
	s->s_hard = d;
	return d;
}

static UNCHECKED void sched_drop(struct usched *s)
{
	struct uhard_sched *d = s->s_hard;
	struct uhard_sched **at;
	struct uhard_stack *h;
	struct uhard_stack *list;

	lock();
	for (at = &all; *at != d; at = &(*at)->d_next)
		;
	*at  = d->d_next;
	list = d->d_list;
	d->d_busy = false;
	unlock();
	s->s_hard = NULL;
	while ((h = list) != NULL) {
		list = h->h_next;
		usan_end(&h->h_san);
		free(h);
	}
	if (d < few || d >= few + FEW)
		free(d);
}

/* Gives u a record of its own, with the contents of d_first. H1. */
static int own_record(struct uhard_sched *d, struct ustack *u)
{
	struct uhard_stack *h;

	if (u->u_hard != &d->d_first)
		return 0;
	h = malloc(sizeof *h);
	if (h == NULL)
		return -ENOMEM;
	*h = d->d_first;
	u->u_hard = h;
	lock();
	h->h_next = d->d_list;
	h->h_at   = &d->d_list;
	if (h->h_next != NULL)
		h->h_next->h_at = &h->h_next;
	d->d_list = h;
	unlock();
	return 0;
}

/* Returns the number of the lane that contains the address, or 0. */
static int lane_at(const struct uhard_sched *d, const char *at)
{
	const struct usched_lane *l;
	int i;

	for (i = 1; i <= d->d_lane_nr + usched_private_nr(d->d_private); i++) {
		l = &d->d_lane[i];
		if (at >= l->l_low &&
		    at < (char *)(((uintptr_t)l->l_bottom + mode.m_page - 1) &
				  -mode.m_page))
			return i;
	}
	return 0;
}

/* Messages: see ufault.h. */

static void put_name(struct text *x, struct name w)
{
	if (w.w_stack == NULL) {
		put(x, "no thread");
		return;
	}
	put_thread(x, w.w_stack, w.w_f, w.w_arg);
}

static void put_place(struct text *x, const char *at, int lane)
{
	put_number(x, (uintptr_t)at, 16);
	put(x, " in lane ");
	put_number(x, lane, 10);
}

static struct name last_of(const struct usched_lane *l)
{
	return (struct name) { l->l_hard.k_last, l->l_hard.k_f,
			       l->l_hard.k_arg };
}

/* Tells whether e runs on the lanes of d. */
static bool shares(const struct uhard_sched *e, const struct uhard_sched *d)
{
	return e == d || (e->d_lane_nr > 0 && e->d_lane == d->d_lane);
}

/*
 * Writes to x the names of the first threads that are blocked and have this
 * address in their slices: STAYS, or only if they are away: IS_AWAY. Copies one
 * to *victim, and returns how many there are. Caller holds the lock.
 */
static int put_blocked(struct text *x, const struct uhard_sched *d, int lane,
		       const char *at, struct name *victim, enum where least)
{
	const struct uhard_sched *e;
	const struct uhard_stack *h;
	int nr = 0;

	for (e = all; e != NULL; e = e->d_next) {
		for (h = shares(e, d) ? e->d_list : NULL; h; h = h->h_next) {
			if (h->h_lane != lane || __atomic_load_n(&h->h_where,
					__ATOMIC_ACQUIRE) < least ||
			    at < h->h_slice || at >= d->d_lane[lane].l_bottom)
				continue;
			*victim = h->h_name;
			if (nr++ >= NAMES)
				continue;
			if (nr > 1)
				put(x, " or of ");
			put_name(x, *victim);
		}
	}
	if (nr > NAMES) {
		put(x, " or of ");
		put_number(x, (uintptr_t)(nr - NAMES), 10);
		put(x, " others");
	}
	return nr;
}

#endif /* UHARD_INSIDE_H */
