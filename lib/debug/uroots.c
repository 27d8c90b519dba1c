/* SPDX-License-Identifier: MIT */
/* uroots.c: gives a garbage collector all that it has to scan for our threads. */

/*
 * OVERVIEW
 *
 * A collector stops native threads wherever they are, as each may be what another
 * waits for: a thread in an allocation holds the lock of the collector, or wants it.
 * So a processor cannot be asked to come to its s_next() first, as for a census. It
 * is stopped within a copy of a slice, too, and the walk has to be right there.
 *
 * It is, with no word said by a dispatcher at its switches: a copy leaves what it
 * reads as it is, so at each instruction all bytes of a slice are in the lane, in the
 * buffer, or in registers. The walk gives the buffer of each thread that is AWAY, and
 * the place in the lane of each thread that is not, or owns the lane. All that is too
 * much is what was on that stack a moment ago.
 *
 *	given by uroots_each()			found by
 *
 *	slices, arguments, records		the walk over the memory of each set
 *						(uproc_walk()), as a census does
 *	stack around a call of usched_run()	a list of runs: hooks (core/leave.h)
 *	stacks of coroutines			the same
 *	tasks of ws				op_kept (uproc.h)
 *	values in channels			a table: v_queue (uwait.h)
 *
 * The collector gives the rest: stack pointers, registers, native stacks.
 *
 * PROOF
 *
 * Each native thread is stopped between two instructions. Its registers are on the
 * stack on which it runs, above the stack pointer of the handler. A thread of a
 * set, with its lane L, is in one of these states:
 *
 *	E1  It is new, and no processor has taken it: its argument is u_arg, or in a
 *	    shell to which that points. Both are given.
 *	E2  It runs: its processor has set usched_current, and the stack pointer is in
 *	    L. The collector scans from there to the bottom of L (uroots_bottom()), with
 *	    the registers. If it has just begun, its argument may still be in u_arg
 *	    alone, or in a shell; so they are given for each thread that runs. A
 *	    thread of s_again() looks as if it had blocked before: it is covered by this.
 *	E3  It blocks. From E2 until the stack pointer leaves L, that is above which its
 *	    slice begins; and before it leaves, u_top is that place, without AWAY
 *	    (usched_blocked() and all that it calls set it). From then on E4 holds.
 *	E4  It is blocked, not AWAY: its slice is in L, from u_top on, untouched (usched I3).
 *	    That is given.
 *	E5  It is blocked and AWAY, and L has another owner or none: the slice is in the
 *	    buffer, which is given.
 *	E6  It is copied out. evict() changes no byte of L, and sets AWAY behind the
 *	    last byte of the buffer: E4 before, E5 after. (The copy may alias u_top, so no
 *	    compiler moves that store.) swap() sets AWAY first; then the bytes that are
 *	    not in the buffer are still in L or in registers. The owner of L is the
 *	    thread that comes, whose place is the same. That place is given.
 *	E7  It is copied in. The owner of L is set before the first byte, AWAY stays set,
 *	    and the buffer is not touched: that is given until the next block.
 *	E8  It is resumed, and not AWAY: E4 until the stack pointer is in L, E2 then. Some
 *	    registers are popped first, from u_top on. After a check of the law u_top is a
 *	    word too high, so each place is given from a word below.
 *
 * The buffer changes in E3 and E4 only (buffer_get()), where it is not needed. There
 * u_len may be that of another buffer, so no more is read than the block has
 * (umem_size_at()). Threads that move (ws) do so in E1, E4 and E5, which a change of
 * u_sched does not touch, as all dispatchers have the same lanes.
 *
 * A lane that cannot be accessed has no owner, and all its threads are AWAY or have
 * ended; with the hard mode it is shut while a thread that ends is still its owner. So
 * no place in such a lane is given (law F5, ushut S2).
 *
 * Memory is walked under m_lock (uroots_hold()), which no native thread that is stopped
 * can have; lists and tables of this file, under lock. Free blocks begin with a link,
 * and no thread that has ended is found (u_top), so what was freed is not given.
 *
 * A SHELL is freed by its thread, at its end, before that can be seen; and u_f of a
 * thread that is being made may be set before u_arg. So it is read by a system call,
 * which fails if nothing is there, unless the thread has begun, and its processor runs
 * another thread or sleeps: then the thread has not ended.
 *
 * RUNS. Around a call of usched_run() or usched_step() is the stack of the caller,
 * which no stack pointer tells while a thread of that run is on its lane. From the
 * frame of the hook on, it is given. A step in place ends on the lane of its thread,
 * some instructions after the hook of the end: uroots_bottom() sees that.
 *
 * REJECTED
 *
 *   - A word that each dispatcher sets around a switch, for which the collector waits
 *     before it stops native threads. Nothing of ours runs between the last byte that
 *     is copied and the thread's own code, so each switch would be longer by that.
 *   - A gate as that of the census: a processor that waits for the lock of the collector
 *     in a thread's own code does not come there.
 *   - All of the memory of a set: threads that have ended would keep their objects.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uroots.h"
#include "compiler.h"
#include "lock.h"
#include "ufork.h"
#include "ulook.h"
#include "uproc_set.h"
#include "uself.h"
#include "uslice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define BELOW		512	/* of the frame of a hook: registers may be saved there */
#define SHELLS		8	/* in each other */
#define TABLE_MIN	64u

/* A member of the table, by the address of what it is about. */
struct known {
	const void   *k_at;
	struct known *k_next;
	bool          k_is_queue;
};

/* A run of a dispatcher; or a coroutine that has begun, and runs or waits. */
struct run {
	struct known         r_known;	/* of a coroutine: first */
	struct run          *r_next, **r_at;	/* in runs */
	struct run          *r_outer;	/* the run around it, on this native thread */
	const struct usched *r_sched;
	const struct ustack *r_step;	/* the coroutine, or NULL */
	const struct ustack *r_caller;	/* a thread, or NULL */
	const char          *r_frame;	/* in the stack of the caller */
	const char          *r_native;	/* the bottom of that, if no thread calls */
	struct ustack *const *r_current; /* where the native thread has what it runs */
	bool                 r_runs;
	bool                 r_entered;	/* a native thread is in its lane */
};

struct queue {
	struct known       q_known;	/* first */
	struct uwait_queue q_is;
};

/* All is protected by lock. */
static struct ulock lock;
static struct uproc_set *sets;
static struct run *runs;
static struct {
	struct known **t_line;
	unsigned       t_mask, t_nr;
} table;

static const void *(*native_begin)(void);	/* NULL: there was no start */
static void (*native_end)(void);
static bool can_copy;			/* ulook_copy() works */

/* The innermost run of this native thread, and the bottom of its own stack. */
static __thread struct {
	struct run *h_run;
	const char *h_bottom;
} here;

/* The table. Caller holds lock. */

static struct known **line_of(const void *at)
{
	return &table.t_line[((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15u >> 32) &
			     table.t_mask];
}

/* Returns where the member about `at` is linked; *result is NULL: there is none. */
static struct known **place_of(const void *at)
{
	struct known **p = line_of(at);

	while (*p != NULL && (*p)->k_at != at)
		p = &(*p)->k_next;
	return p;
}

static void line_add(struct known *k)
{
	struct known **p = line_of(k->k_at);

	k->k_next = *p;
	*p = k;
}

/* Doubles the table, if there is memory for that. */
static void table_grow(void)
{
	struct known **old = table.t_line, *k, *next;
	unsigned i, nr = old != NULL ? table.t_mask + 1 : 0;
	struct known **line = calloc(nr != 0 ? nr * 2 : TABLE_MIN, sizeof *line);

	if (line == NULL)
		return;
	table.t_line = line;
	table.t_mask = (nr != 0 ? nr * 2 : TABLE_MIN) - 1;
	for (i = 0; i < nr; i++) {
		for (k = old[i]; k != NULL; k = next) {
			next = k->k_next;
			line_add(k);
		}
	}
	free(old);
}

static void known_add(struct known *k, const void *at)
{
	k->k_at = at;
	if (table.t_nr++ > table.t_mask)
		table_grow();
	line_add(k);
}

/* Takes out and returns what is known of `at`, or NULL. */
static void *known_take(const void *at)
{
	struct known **p = place_of(at);
	struct known *k = *p;

	if (k != NULL) {
		*p = k->k_next;
		table.t_nr--;
	}
	return k;
}

/* Runs. */

static void run_in(struct run *r)
{
	r->r_next = runs;
	r->r_at   = &runs;
	if (runs != NULL)
		runs->r_at = &r->r_next;
	runs = r;
}

/* Caller holds lock. */
static void run_drop(struct run *r)
{
	*r->r_at = r->r_next;
	if (r->r_next != NULL)
		r->r_next->r_at = r->r_at;
	if (r->r_step != NULL)
		(void)known_take(r->r_step);
	free(r);
}

/* Returns the run of step, or a new run. Caller holds lock. */
static struct run *run_of(const struct ustack *step)
{
	struct run *r = step != NULL ? (struct run *)*place_of(step) : NULL;

	if (r != NULL)
		return r;
	r = calloc(1, sizeof *r);
	if (r == NULL)
		usched_fail("uroots: no memory for a run of a dispatcher");
	run_in(r);
	if (step != NULL)
		known_add(&r->r_known, step);
	r->r_step = step;
	return r;
}

/* Called as a dispatcher begins to run. */
static NOINLINE void begin(struct usched *s)
{
	struct run *r;

	if (here.h_run == NULL)
		here.h_bottom = native_begin();
	ulock_get(&lock);
	r = run_of(s->s_steps != 0 ? s->s_step : NULL);
	r->r_outer   = here.h_run;
	r->r_sched   = s;
	r->r_caller  = s->s_frame.f_self;
	r->r_frame   = __builtin_frame_address(0);
	r->r_native  = here.h_bottom;
	r->r_current = usched_current_at();
	r->r_runs    = true;
	here.h_run   = r;
	ulock_put(&lock);
}

/*
 * Called as it ends. A coroutine that has only blocked stays known. If a
 * longjmp() has left it, it is still the thread that runs.
 */
static void end(struct usched *s)
{
	struct run *r = here.h_run;

	if (r == NULL || r->r_sched != s)
		return;				/* it began before the start */
	ulock_get(&lock);
	here.h_run = r->r_outer;
	r->r_runs  = false;
	if (r->r_step == NULL || s->s_steps & USLICE_STEP_ENDED ||
	    *r->r_current == r->r_step)
		run_drop(r);
	ulock_put(&lock);
	if (here.h_run == NULL)
		native_end();
}

/* Called before ustack_fini() takes u from its lane. */
static void gone(struct ustack *u)
{
	struct run *r;

	ulock_get(&lock);
	r = (struct run *)*place_of(u);
	if (r != NULL)
		run_drop(r);
	ulock_put(&lock);
}

static struct usched_hook hook = { .h_begin = begin, .h_end = end, .h_gone = gone };

/* Sets and channels. */

static void set_known(struct uproc_set *set, bool begins)
{
	struct uproc_set **at = &sets;

	ulock_get(&lock);
	if (begins) {
		set->set_next = sets;
		sets = set;
	} else {
		while (*at != NULL && *at != set)
			at = &(*at)->set_next;
		if (*at != NULL)
			*at = set->set_next;
	}
	ulock_put(&lock);
}

static void queue_known(const struct uwait_queue *q, int begins)
{
	struct queue *k = NULL;

	ulock_get(&lock);
	if (!begins)
		free(known_take(q->uq_at));
	else if ((k = malloc(sizeof *k)) == NULL)
		usched_fail("uroots: no memory for a channel");
	else {
		k->q_is = *q;
		k->q_known.k_is_queue = true;
		known_add(&k->q_known, q->uq_at);
	}
	ulock_put(&lock);
}

static struct uwait_watch watch = { .v_queue = queue_known };

/* Runs of other native threads do not go on. The channels of the parent are there. */
static void in_child(void)
{
	struct run *r, *next;

	sets = NULL;
	for (r = runs; r != NULL; r = next) {
		next = r->r_next;
		if (r->r_runs && r->r_current != usched_current_at())
			run_drop(r);
	}
}

static struct ufork at_fork = {
	.f_rank = UFORK_ROOTS, .f_lock = &lock, .f_nr = 1, .f_child = in_child
};
UFORK(at_fork)

int uroots_start(const void *(*begins)(void), void (*ends)(void))
{
	int rc = ufork_watch();

#if defined(USCHED_PORTABLE)
	if (rc == 0)
		rc = -ENOSYS;
#endif
	if (begins == NULL || ends == NULL)
		rc = -EINVAL;
	if (native_begin != NULL)
		rc = -EBUSY;
	if (rc != 0)
		return rc;
	table_grow();
	if (table.t_line == NULL)
		return -ENOMEM;
	can_copy = ulook_copy(&rc, &table.t_mask, sizeof rc) == sizeof rc;
	native_begin = begins;
	native_end   = ends;
	usched_hook(&hook);
	uproc_watch_sets(set_known);
	uwait_watch_add(&watch);
	return 0;
}

void uroots_hold(void)
{
	struct uproc_set *set;

	ulock_get(&lock);
	for (set = sets; set != NULL; set = set->set_next)
		umem_hold(&set->set_mem);
}

void uroots_release(void)
{
	struct uproc_set *set;
	struct run *r;

	for (r = runs; r != NULL; r = r->r_next)
		r->r_entered = false;
	for (set = sets; set != NULL; set = set->set_next)
		umem_release(&set->set_mem);
	ulock_put(&lock);
}

/* Lanes. */

/* Returns the lane of s in which at lies, or NULL. */
static const struct usched_lane *lane_at(const struct usched *s, const char *at)
{
	int nr = s->s_lane_nr + usched_private_nr(s->s_private);
	const struct usched_lane *l;
	int i;

	for (i = 1; i <= nr; i++) {
		l = &s->s_lane[i];
		if (at >= l->l_low && at < l->l_bottom)
			return l;
	}
	return NULL;
}

/* Marks the coroutine that has lane l. */
static void enter(const struct usched_lane *l)
{
	struct run *r;

	for (r = runs; r != NULL; r = r->r_next)
		if (r->r_step != NULL && r->r_step->u_lane > 0 &&
		    &r->r_sched->s_lane[r->r_step->u_lane] == l)
			r->r_entered = true;
}

const void *uroots_bottom(const void *sp)
{
	const struct usched_lane *l = NULL, *seen = NULL;
	const struct run *r;

	for (r = runs; r != NULL && l == NULL; r = r->r_next) {
		if (r->r_sched->s_lane == seen)
			continue;
		seen = r->r_sched->s_lane;
		l = lane_at(r->r_sched, sp);
	}
	if (l == NULL)
		return NULL;
	enter(l);
	return l->l_bottom;
}

static bool is_shut(const struct usched_lane *l)
{
#if defined(USCHED_HARD)
	if (__atomic_load_n(&l->l_hard.k_shut, __ATOMIC_RELAXED))
		return true;
#endif
	return l->l_shut;
}

/* What is given. */

/* To whom: f(arg). */
struct giver {
	uroots_f *g_f;
	void     *g_arg;
};

static void give(const struct giver *g, const void *from, size_t nob)
{
	if (from != NULL && nob != 0)
		g->g_f(g->g_arg, from, (const char *)from + nob);
}

/* Gives a block of the memory of any set. */
static void give_block(const struct giver *g, const void *block)
{
	const struct uproc_set *set;

	for (set = sets; set != NULL && block != NULL; set = set->set_next)
		give(g, block, umem_size_at(&set->set_mem, block));
}

/* Copies nob bytes. Returns whether they were there; sure: they are. */
static bool copied(void *to, const void *from, size_t nob, bool sure)
{
	if (!sure && can_copy)
		return ulook_copy(to, from, nob) == nob;
	memcpy(to, from, nob);
	return true;
}

/* Gives an argument of f, and that of its shells. As copied(). */
static void give_args(const struct giver *g, void (*f)(void *), void *const *arg,
		      bool sure)
{
	const void *at = *arg;
	struct ushell h;
	int i;

	give(g, arg, sizeof *arg);
	for (i = 0; f == ustack_shell && i < SHELLS; i++) {
		if (!copied(&h, at, sizeof h, sure))
			return;
		give(g, &h.h_arg, sizeof h.h_arg);
		f  = h.h_f;
		at = h.h_arg;
	}
}

/* Gives the data and keys of u, if it has a shell that keeps them. As copied(). */
static void give_self(const struct giver *g, const struct ustack *u, bool sure)
{
	struct uself_block b;

	if (u->u_f != ustack_shell ||
	    !copied(&b, u->u_arg, sizeof(struct ushell), sure) ||
	    ((const struct ushell *)&b)->h_run != uwait_run ||
	    !copied(&b, u->u_arg, sizeof b, sure))
		return;
	give(g, &b.b_data, sizeof b.b_data);
	give_block(g, b.b_keys);
}

/* Gives the buffer of u, which has room for most bytes: E5 to E7. */
static void give_buffer(const struct giver *g, const struct ustack *u, size_t most)
{
	size_t nob;
	const char *at = uslice_bytes(u->u_sched, u, &nob);

	if ((uintptr_t)u->u_top & USLICE_AWAY)
		give(g, at, nob < most ? nob : most);
}

/* Gives the place of u in its lane: E4, E6 to E8. */
static void give_place(const struct giver *g, const struct ustack *u)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];
	const char *at = uslice_place(u) - (USLICE_LOW + 1);		/* E8 */

	if (l->l_owner != u && (uintptr_t)u->u_top & USLICE_AWAY)
		return;
	if (at < l->l_low)
		at = l->l_low;
	if (!is_shut(l))
		give(g, at, (size_t)(l->l_bottom - at));
}

static bool has_slice(const struct ustack *u)
{
	return u->u_top != NULL && !((uintptr_t)u->u_top & USLICE_NONE);
}

void uroots_of(const struct ustack *u, uroots_f *f, void *arg)
{
	const struct giver g = { f, arg };

	if (uslice_is_new(u))
		give_args(&g, u->u_f, &u->u_arg, true);
	else if (has_slice(u)) {
		give_buffer(&g, u, SIZE_MAX);
		give_place(&g, u);
	}
}

/*
 * Returns whether u, a thread of a set, can neither run nor be about to end: its
 * processor sleeps, or runs another.
 */
static bool is_settled(const struct ustack *u)
{
	const struct uproc *p = (const struct uproc *)u->u_sched;
	struct ustack *const *current = __atomic_load_n(&p->p_runs, __ATOMIC_RELAXED);

	if (current == NULL || __atomic_load_n(&p->p_asleep, __ATOMIC_RELAXED))
		return true;
	return *current != NULL && *current != u;
}

static void task_kept(void *arg, void (*f)(void *), void *const *at)
{
	give_args(arg, f, at, false);
}

/* In whose memory the walk is. */
struct in_set {
	const struct giver     *i_giver;
	const struct uproc_set *i_set;
};

static void thread_seen(void *arg, const struct ustack *u)
{
	const struct in_set *in = arg;

	if (uslice_is_new(u))
		give_args(in->i_giver, u->u_f, &u->u_arg, false);
	if (u->u_f == ustack_shell)
		give_self(in->i_giver, u, has_slice(u) && is_settled(u));
	if (!has_slice(u))
		return;
	give_buffer(in->i_giver, u, umem_size_at(&in->i_set->set_mem, u->u_stack));
	give_place(in->i_giver, u);
}

static void record_seen(void *arg, const struct uwait *w, size_t size)
{
	give(((const struct in_set *)arg)->i_giver, w, size);
}

static void each_in_set(const struct giver *g, const struct uproc_set *set)
{
	struct in_set in = { g, set };
	struct uproc_walk walk = { thread_seen, record_seen, &in };
	int i;

	uproc_walk(set, &walk);
	for (i = 0; i < set->set_nr && set->set_proc != NULL; i++)
		if (set->set_ops.op_kept != NULL)
			set->set_ops.op_kept(uproc_nth(set, i), task_kept, (void *)g);
}

/* Gives the stack around a run, and the arguments of the thread that runs: E2. */
static void give_run(const struct giver *g, const struct run *r)
{
	const struct ustack *caller = r->r_caller, *u = *r->r_current;
	const struct usched_lane *l = caller != NULL ?
		&caller->u_sched->s_lane[caller->u_lane] : NULL;
	const char *bottom = l != NULL ? l->l_bottom : r->r_native;
	const char *from = (const char *)((uintptr_t)(r->r_frame - BELOW) &
					  -sizeof(uintptr_t));

	if (l != NULL && from < l->l_low)
		from = l->l_low;
	if (from < bottom)
		give(g, from, (size_t)(bottom - from));
	if (u != NULL) {
		give_args(g, u->u_f, &u->u_arg, false);
		give_self(g, u, false);
	}
}

/* Gives the slice of a coroutine. While its lane is entered, its buffer may change. */
static void give_step(const struct giver *g, const struct run *r)
{
	const struct ustack *u = r->r_step;

	if (!r->r_entered)
		uroots_of(u, g->g_f, g->g_arg);
	else if (has_slice(u))
		give_place(g, u);
}

/* Gives the values of a ring: as long as one is put or got, one too many. */
static void give_queue(const struct giver *g, const struct uwait_queue *q)
{
	unsigned first = *q->uq_first, nr = *q->uq_length;
	unsigned high = nr < q->uq_room - first ? nr : q->uq_room - first;

	give(g, q->uq_ring + (size_t)first * q->uq_size, (size_t)high * q->uq_size);
	give(g, q->uq_ring, (size_t)(nr - high) * q->uq_size);
}

static void give_queues(const struct giver *g)
{
	const struct known *k;
	unsigned i;

	for (i = 0; i <= table.t_mask; i++)
		for (k = table.t_line[i]; k != NULL; k = k->k_next)
			if (k->k_is_queue)
				give_queue(g, &((const struct queue *)k)->q_is);
}

void uroots_each(uroots_f *f, void *arg)
{
	const struct giver g = { f, arg };
	const struct uproc_set *set;
	const struct run *r;

	for (set = sets; set != NULL; set = set->set_next)
		each_in_set(&g, set);
	for (r = runs; r != NULL; r = r->r_next) {
		if (r->r_runs || r->r_entered)
			give_run(&g, r);
		if (r->r_step != NULL)
			give_step(&g, r);
	}
	give_queues(&g);
}
