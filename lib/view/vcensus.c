/* SPDX-License-Identifier: MIT */
/* vcensus.c: all threads of a process by stack. A part of the recorder. */

/*
 * A ring does not know threads that have waited for longer than it reaches back.
 * So threads are looked for in the memory of each set of processors, by the walk of
 * lib/proc/stuck.h, and counted by function, stack and wait.
 *
 * THE STOP. A thread that moves has no stack to look at, so no dispatcher may
 * begin a thread meanwhile:
 *
 *	the maker of a census			a dispatcher, in uview_next()
 *
 *	G1 v_gate = 1				L1 state = INSIDE (release)
 *	G2 ufence_heavy()			L2 s_next() of the scheduler, sleep
 *	G3 wait until the state is INSIDE	L3 state = RUNNING
 *	G4 look at threads			L4 ufence_light()
 *	G5 v_gate = 0 (release)			L5 v_gate is 0? else back to L1
 *
 * Either L5 sees G1, or G3 sees L3. A dispatcher that is still RUNNING when
 * patience is over has run the same thread since G1. That thread is counted, but
 * has no stack, and so is the thread whose place it may be taking (w_victim). Its
 * function is w_function, from its start: it may change u_f, u_arg and its shell,
 * and free that. It may wake others: whether a thread can run is a hint.
 *
 * KINDS OF WAITS are in records, which know their thread; but a thread does not
 * know its record. So all threads that are blocked are counted without a kind, and
 * each record moves its thread to the row of its kind: one more there, one less
 * here, in whatever order both are found.
 *
 * A million threads are more than a cache holds, so what will be looked at is
 * fetched some threads before (AHEAD).
 *
 * Threads of plain dispatchers are nowhere, so they are not counted.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vcensus.h"
#include "vclock.h"
#include "vnames.h"
#include "vstack.h"
#include "compiler.h"
#include "lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define TABLE		4096		/* a power of two, more than UVIEW_ROWS */
#define WALKS		2000		/* unwindings of a census */
#define AHEAD		16		/* threads */
#define LINE		64		/* bytes of a cache line */

/* All is protected by v_lock. */
static struct {
	const struct uproc_set *c_set;
	struct uview_tap  c_tap;	/* caches only */
	struct uview_row  c_row[UVIEW_ROWS];
	const void *const *c_owner[UVIEW_ROWS];
	uint16_t          c_table[TABLE];	/* number of a row, plus 1 */
	unsigned          c_rows, c_threads, c_left_out;
	const struct ustack *c_next[AHEAD];	/* a ring: not counted so far */
	unsigned          c_seen, c_running;
} census;

/* Returns the view in which u runs, if it runs. */
static const struct uview_view *runs_in(const struct ustack *u)
{
	const struct uview_view *v;

	for (v = uview_all.v_first; v != NULL; v = v->w_next)
		if (v->w_thread == u && v->w_state == UVIEW_RUNNING)
			return v;
	return NULL;
}

/* Returns whether the slice of u may be moving. */
static bool is_victim(const struct ustack *u)
{
	const struct uview_view *v;

	for (v = uview_all.v_first; v != NULL; v = v->w_next)
		if (v->w_victim == u && v->w_state == UVIEW_RUNNING)
			return true;
	return false;
}

static bool is_same(const struct uview_row *a, const struct uview_row *b,
		    bool by_object)
{
	return a->vw_f == b->vw_f && a->vw_stack == b->vw_stack &&
	       a->vw_kind == b->vw_kind && a->vw_reason == b->vw_reason &&
	       (!by_object || a->vw_object == b->vw_object);
}

/* Returns the row that is like r, added if need be. NULL: there is no room. */
static struct uview_row *row_of(const struct uview_row *r, bool by_object)
{
	unsigned i = r->vw_f * 31u + r->vw_stack * 1009u + r->vw_kind * 7u +
		r->vw_reason + (by_object ? (unsigned)(r->vw_object >> 4) : 0);
	struct uview_row *at;

	for (i %= TABLE; census.c_table[i] != 0; i = (i + 1) % TABLE) {
		at = &census.c_row[census.c_table[i] - 1];
		if (is_same(at, r, by_object))
			return at;
	}
	if (census.c_rows == UVIEW_ROWS)
		return NULL;
	census.c_table[i] = (uint16_t)++census.c_rows;
	at  = &census.c_row[census.c_rows - 1];
	*at = *r;
	census.c_owner[census.c_rows - 1] = NULL;
	return at;
}

/* Sets what a row says of u, but for its wait. */
static void describe(struct uview_row *r, const struct ustack *u)
{
	const struct uproc *p = (const struct uproc *)u->u_sched;
	const struct uwait_ops *ops = p->p_waits.wb_ops;
	const struct uview_view *v = runs_in(u);

	memset(r, 0, sizeof *r);
	r->vw_example = (uintptr_t)u;
	if (v != NULL) {
		r->vw_f = (uint16_t)v->w_function;
		r->vw_reason = UVIEW_RUNS;
		return;
	}
	r->vw_f = (uint16_t)uview_function_of(&census.c_tap, u);
	if (uslice_is_new(u) || u->u_lane < 0) {
		r->vw_reason = UVIEW_NEW;
		return;
	}
	r->vw_reason = ops->o_waits != NULL && !ops->o_waits(u) ?
		UVIEW_YIELDED : UVIEW_BLOCKED;
	if (!is_victim(u))
		r->vw_stack = (uint16_t)uview_stack_of(&census.c_tap,
						&p->p_sched, u, true);
}

static void count_thread(const struct ustack *u)
{
	struct uview_row r, *at;

	describe(&r, u);
	census.c_threads++;
	at = row_of(&r, false);
	if (at != NULL)
		at->vw_nr++;
	else
		census.c_left_out++;
}

/* Fetches what will be hashed of u, and counts the thread before. */
static void see_thread(const struct ustack *u)
{
	const struct ustack **at = &census.c_next[census.c_seen++ % AHEAD];
	const char *top = u->u_stack != NULL ? u->u_stack : uslice_place(u);

	__builtin_prefetch(top);
	__builtin_prefetch(top + LINE);
	if (*at != NULL)
		count_thread(*at);
	*at = u;
}

/* Counts those that are left. */
static void see_rest(void)
{
	unsigned i;

	for (i = 0; i < AHEAD; i++) {
		if (census.c_next[i] != NULL)
			count_thread(census.c_next[i]);
		census.c_next[i] = NULL;
	}
}

/* Moves the thread of a record to the row of its kind. */
static void see_record(const struct uwait *w, const struct uwait_seen *v)
{
	struct uwait_seen seen = *v;
	struct uview_row r, *from, *to;
	bool owned = seen.vs_owner != NULL;

	describe(&r, w->w_stack);
	from = row_of(&r, false);
	if (r.vw_reason != UVIEW_BLOCKED || from == NULL)
		return;
	r.vw_reason = UVIEW_WAITS;
	r.vw_kind   = (uint16_t)uview_text(seen.vs_kind->wk_name);
	r.vw_object = (uintptr_t)seen.vs_object;
	to = row_of(&r, owned);
	if (to == NULL)
		return;
	from->vw_nr--;
	to->vw_nr++;
	if (to->vw_object != r.vw_object)
		to->vw_object = 0;		/* several */
	if (owned)
		census.c_owner[to - census.c_row] = seen.vs_owner;
}

/*
 * Called by the walk. Passes over u if u_stack is not as long as u says: then the
 * block looks like a thread by chance, and u_len is one half of an address.
 */
static void thread_seen(void *arg, const struct ustack *u)
{
	size_t size = umem_size_at(&census.c_set->set_mem, u->u_stack);

	(void)arg;
	if (size == 0 || (size_t)u->u_len <= size + USLICE_LOW)
		see_thread(u);
}

static void record_seen(void *arg, const struct uwait *w, size_t size)
{
	struct uwait_seen seen;

	(void)arg;
	if (uproc_is_record(census.c_set, w, size, &seen))
		see_record(w, &seen);
}

static void count_set(struct uproc_set *set)
{
	static const struct uproc_walk walk = { thread_seen, record_seen, NULL };

	census.c_set = set;
	umem_hold(&set->set_mem);
	uproc_walk(set, &walk);
	umem_release(&set->set_mem);
	see_rest();
}

/* Sets the holders, as far as they can be read: an object may be unmapped. */
static void holders_set(void)
{
	const void *holder;
	unsigned i;
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) != 0)
		return;
	for (i = 0; i < census.c_rows; i++) {
		const void *at = census.c_owner[i];

		if (at != NULL && write(fd[1], at, sizeof holder) ==
		    (ssize_t)sizeof holder &&
		    read(fd[0], &holder, sizeof holder) ==
		    (ssize_t)sizeof holder)
			census.c_row[i].vw_holder = (uintptr_t)holder;
	}
	close(fd[0]);
	close(fd[1]);
}

static int larger(const void *a, const void *b)
{
	const struct uview_row *x = a, *y = b;

	return (x->vw_nr < y->vw_nr) - (x->vw_nr > y->vw_nr);
}

/* Counts the threads of all sets. */
static void count(void)
{
	const struct uview_view *v, *w;

	for (v = uview_all.v_first; v != NULL; v = v->w_next) {
		if (v->w_proc == NULL)
			continue;
		for (w = uview_all.v_first; w != v; w = w->w_next)
			if (w->w_proc != NULL &&
			    w->w_proc->p_set == v->w_proc->p_set)
				break;
		if (w == v)			/* else it was counted */
			count_set(v->w_proc->p_set);
	}
}

/* Writes the census to the file. */
static void publish(uint64_t tick, uint64_t ns)
{
	struct uview_file *f = uview_all.v_file;
	uint32_t nr = f->vf_census + 1;
	struct uview_census *c = (struct uview_census *)((char *)f +
		f->vf_part[UVIEW_PART_CENSUS].vp_at) + (nr & 1);
	unsigned i;

	c->vc_nr = 0;
	for (i = 0; i < census.c_rows; i++)
		if ((int32_t)census.c_row[i].vw_nr > 0)
			c->vc_row[c->vc_nr++] = census.c_row[i];
	qsort(c->vc_row, c->vc_nr, sizeof c->vc_row[0], larger);
	c->vc_tick     = tick;
	c->vc_ns       = ns;
	c->vc_threads  = census.c_threads;
	c->vc_left_out = census.c_left_out;
	c->vc_running  = census.c_running;
	c->vc_took     = uview_ns() - ns;
	__atomic_store_n(&f->vf_part[UVIEW_PART_CENSUS].vp_nr, 2,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&f->vf_census, nr, __ATOMIC_RELEASE);
}

/* Returns how many dispatchers of other native threads run a thread. */
static unsigned running(const struct uview_tap *own)
{
	const struct uview_view *v;
	unsigned nr = 0;

	for (v = uview_all.v_first; v != NULL; v = v->w_next)
		nr += v->w_tap != own && __atomic_load_n(&v->w_state,
				__ATOMIC_ACQUIRE) == UVIEW_RUNNING;
	return nr;
}

void uview_census_take(struct uview_view *self, long patience)
{
	const struct uview_tap *own = self != NULL ? self->w_tap : NULL;
	const struct timespec nap = { 0, 50000 };
	uint64_t tick, ns;

	ulock_get(&uview_all.v_lock);
	tick = uview_tick();
	ns   = uview_ns();
	__atomic_store_n(&uview_all.v_gate, 1, __ATOMIC_SEQ_CST);	/* G1 */
	ufence_heavy();							/* G2 */
	while ((census.c_running = running(own)) != 0 &&		/* G3 */
	       uview_ns() - ns < (uint64_t)patience)
		(void)nanosleep(&nap, NULL);
	census.c_rows = census.c_threads = census.c_left_out = 0;
	census.c_tap.a_credit = WALKS * (long)UVIEW_UNWIND;
	memset(census.c_table, 0, sizeof census.c_table);
	count();							/* G4 */
	__atomic_store_n(&uview_all.v_gate, 0, __ATOMIC_RELEASE);	/* G5 */
	holders_set();
	publish(tick, ns);
	ulock_put(&uview_all.v_lock);
}

void uview_census_answer(struct uview_view *v, unsigned ask)
{
	if (__atomic_exchange_n(&uview_all.v_asked, ask, __ATOMIC_RELAXED) !=
	    ask)
		uview_census_take(v, 100000000);
}

#endif
