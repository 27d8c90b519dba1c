/* SPDX-License-Identifier: MIT */
/* vswitch.c: a record of each switch of a dispatcher. A part of the recorder. */

/*
 * What a switch records is known in s_next(), where a view links itself in:
 *
 *	uview_next()
 *		N1 the thread that ran has stopped: STOP, and why
 *		N2 what it has put into the queues meanwhile: WAKE
 *		N3 s_next() of the scheduler
 *		N4 what that has put into the queues: WAKE, from outside
 *		N5 a thread will run: RUN
 *
 * N2 is written before N1, since both have the time of the stop.
 *
 * Why a thread stops: it has ended if its lane has lost a thread (l_bound, as in
 * ustats.c). It has yielded if it is in the queue itself. It waits by a record
 * if uwait.c has reported a wait that has not ended. If neither a wait began nor
 * ended while it ran, that may be the same wait as before, and the reader knows.
 *
 * A thread that gives way again and again has one record with a count: vturn.h.
 *
 * COST
 *
 * A clock is read once for a STOP and the RUN that follows, because it takes about
 * as long as all else that the recorder does at a switch. Stores to the ring are
 * plain moves on x86-64 (release), and do not stall.
 *
 * INVARIANT
 *
 * V3. A view is INSIDE from the STOP to the RUN. It leaves that state only while
 *     v_gate is 0: see vcensus.c.
 *
 * REJECTED
 *
 * Heads of rings that are published once a switch: a reader would have to drop
 * more than one record, and it saves two moves.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vswitch.h"
#include "vcensus.h"
#include "vclock.h"
#include "vnames.h"
#include "vqueue.h"
#include "vstack.h"
#include "vturn.h"
#include "compiler.h"
#include "lock.h"
#include "uchain.h"
#include "uself.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

UPREEMPT_NEVER;

#define OFF_LEAST	50e3	/* ns without a cpu: what the kernel tells is as exact */
#define OFF_MOST	1.25	/* of a run: else others had no cpu, too */
#define DUE		25	/* times UVIEW_LONG_RUN: 5 ms */

/* What is in the queues. */

/* The thread that stops can run again. */
static void yielded(struct uview_view *v, uint64_t head)
{
	v->w_reason = UVIEW_YIELDED;
	taker_see(v->w_tap, head, uring_word(v->w_thread, v->w_function));
}

/* A thread, or tasks, were put where they will run. */
static void fresh(void *arg, const struct ustack *u, unsigned tasks)
{
	struct uview_view *v = arg;

	if (u == NULL)
		uview_put(v->w_tap, v->w_time, UVIEW_WAKE, UVIEW_TASKS,
		    (const void *)(uintptr_t)tasks, 0);
	else if (u == v->w_thread)
		yielded(v, v->w_tap->a_ring.g_head);
	else
		uview_put(v->w_tap, v->w_time, UVIEW_WAKE, v->w_thread != NULL ?
		    UVIEW_BY_THREAD : UVIEW_OUTSIDE, u, 0);
}

/* Looks there, and returns how many threads can run. */
static NOINLINE unsigned queues_ask(struct uview_view *v)
{
	struct uproc *p = v->w_proc;

	return p == NULL ? 0 : p->p_set->set_ops.op_fresh(p, &v->w_mark,
				v->w_thread == NULL, fresh, v);
}

/*
 * Does the same where all is in one queue. u: the thread that stops, or NULL.
 */
static ALWAYS_INLINE unsigned queue_see(struct uview_view *v,
				       struct uring_writer *n,
				       const struct ustack *u)
{
	const struct usched_queue *q = v->w_queue;
	const struct ustack *hot = v->w_sched->s_hot, *known = v->w_mark.mk_thread;
	unsigned at = (unsigned)v->w_mark.mk_at[0], tail = q->q_tail;
	unsigned how = u != NULL ? UVIEW_BY_THREAD : UVIEW_OUTSIDE;
	struct ustack *const *ring = q->q_ring;
	unsigned mask = q->q_mask;

	if (at != tail) {
		v->w_mark.mk_at[0] = tail;
		for (at = uproc_fresh_from(q, at); at != tail; at++) {
			const struct ustack *t = ring[at & mask];

			if (t == u)
				yielded(v, n->n_head);
			else if (t != known)
				uring_write(n, v->w_time, UVIEW_WAKE, how,
					    uring_word(t, 0));
		}
	}
	if (hot != known) {
		v->w_mark.mk_thread = hot;
		if (hot != NULL && hot == u)
			yielded(v, n->n_head);
		else if (hot != NULL)
			uring_write(n, v->w_time, UVIEW_WAKE, how,
				    uring_word(hot, 0));
	}
	return tail - q->q_head + (hot != NULL);
}

/* A thread stops. */

/* Returns from how many ticks on a run is long. */
static inline uint64_t long_run(void)
{
	return __atomic_load_n(&uview_all.v_long_run, __ATOMIC_RELAXED);
}

/*
 * Notes for how long the native thread had no cpu since it was last asked: that was
 * in this run, or nothing is known. While no thread ran it may have slept, too.
 */
static void off_see(struct uview_view *v, const struct uview_cpu *was,
		    const struct uview_cpu *now)
{
	double ns_each = UVIEW_LONG_RUN / (double)long_run();
	double run = (double)(v->w_time - v->w_since) * ns_each;
	double off = (double)(now->c_at - was->c_at) -
		(double)was->c_idle * ns_each - (double)(now->c_ran - was->c_ran);
	long sleeps = now->c_sleeps - was->c_sleeps - was->c_parks;
	uint64_t word = UVIEW_OFF_UNKNOWN;

	if (off < OFF_LEAST)
		return;
	if (off < run * OFF_MOST)
		word = (uint64_t)(off < run ? off : run) |
			(uint64_t)(sleeps < 0 ? 0 : sleeps & 0xffff) << 48;
	uview_put(v->w_tap, v->w_time, UVIEW_NOTE, UVIEW_OFF,
		  (const void *)(uintptr_t)word, (unsigned)(word >> 48));
}

/* It has run for long: did the native thread have the cpu all that time? */
static void long_run_see(struct uview_view *v)
{
	struct uview_tap *a = v->w_tap;
	struct uview_cpu was = a->a_cpu;

	if (!uview_cpu_ask(&a->a_cpu)) {
		if (uview_all.v_knows_cpu)	/* and now it does not */
			uview_put(a, v->w_time, UVIEW_NOTE, UVIEW_OFF, (const void *)
				  (uintptr_t)UVIEW_OFF_UNKNOWN, 0);
		return;
	}
	if (a->a_cpu.c_taken != was.c_taken)
		uview_put(a, v->w_time, UVIEW_LOST,
		    (unsigned)(a->a_cpu.c_taken - was.c_taken) & 0xfff,
		    v->w_thread, 0);
	if (uview_all.v_knows_cpu)
		off_see(v, &was, &a->a_cpu);
}

/* Returns whether u is all that has come to the queue. As queue_see(), if so. */
static bool queue_has_only(struct uview_view *v, const struct ustack *u)
{
	const struct usched_queue *q = v->w_queue;
	const struct ustack *hot = v->w_sched->s_hot;
	unsigned at = (unsigned)v->w_mark.mk_at[0], tail = q->q_tail;

	if (hot == v->w_mark.mk_thread && tail - at == 1 &&
	    q->q_ring[at & q->q_mask] == u)
		v->w_mark.mk_at[0] = tail;
	else if (hot == u && tail == at)
		v->w_mark.mk_thread = hot;
	else
		return false;
	v->w_ready = tail - q->q_head + (hot != NULL);
	return true;
}

/* Ends a turn, if u, which stops, does nothing but give way (vturn K4). */
static bool turn_goes_on(struct uview_view *v, const struct ustack *u)
{
	if (v->w_queue == NULL)
		v->w_ready = queues_ask(v);		/* vturn K3, if others come */
	if (v->w_tap->a_turns.b_now < 0 || v->w_lane->l_bound != v->w_bound ||
	    !(v->w_queue != NULL ? queue_has_only(v, u) :
	      v->w_reason == UVIEW_YIELDED))
		return false;
	turn_ends(v->w_tap, v->w_time);
	v->w_thread = NULL;
	return true;
}

/*
 * A run has taken long, or is a turn, or was (then w_since is 0). Returns whether it
 * is one to the end.
 */
static NOINLINE bool odd_run_see(struct uview_view *v, const struct ustack *u)
{
	struct uview_tap *a = v->w_tap;

	if (v->w_since == 0) {
		v->w_since = a->a_turns.b_since;
		if (v->w_time - v->w_since <= long_run() &&
		    turn_goes_on(v, u))
			return true;
		if (a->a_turns.b_now >= 0)
			uview_turn_breaks(a);
	}
	if (v->w_time - v->w_since > long_run())
		long_run_see(v);
	return false;
}

/* Records N2 and N1. */
static ALWAYS_INLINE void stopped(struct uview_view *v, struct usched *s)
{
	struct ustack *u = v->w_thread;
	struct uview_tap *a = v->w_tap;
	bool ended = v->w_lane->l_bound != v->w_bound;
	unsigned stack = 0;
	struct uring_writer n;

	if (unlikely(v->w_time - v->w_since > long_run()) && odd_run_see(v, u))
		return;
	if (unlikely(v->w_queue == NULL))
		v->w_ready = queues_ask(v);
	if (uview_all.v_stacks && !ended) {
		a->a_credit += a->a_credit < UVIEW_CREDIT;
		stack = uview_stack_of(a, s, u, true);
	}
	n = uring_open(&a->a_ring);
	if (likely(v->w_queue != NULL))
		v->w_ready = queue_see(v, &n, u);
	uring_write(&n, v->w_time, UVIEW_STOP, ended ? UVIEW_ENDED : v->w_reason,
		    uring_word(u, stack));
	uring_close(&a->a_ring, &n);
	v->w_thread = NULL;
}

/* A thread begins to run. */

/*
 * Sets where u will run. False: usched.c will not run u, but end in usched_fail().
 */
static NOINLINE bool place_see(struct uview_view *v, const struct usched *s,
			       struct ustack *u, int *lane)
{
	int nr = s->s_lane_nr + usched_private_nr(s->s_private);
	bool is_new = uslice_is_new(u);

	if (u->u_sched != s || u->u_top == USLICE_ENDED || u->u_lane > nr ||
	    u->u_lane < (is_new ? USCHED_PRIVATE : 0))
		return false;
	if (is_new)
		uslice_lane(v->w_sched, u);
	*lane = is_new && u->u_lane == 0 ? usched_lane_next(s) : u->u_lane;
	v->w_lane_nr = (unsigned)nr;
	v->w_bound   = s->s_lane[*lane].l_bound + is_new;
	return true;
}

/* Does the same. Most threads run where they ran before. */
static ALWAYS_INLINE bool place(struct uview_view *v, const struct usched *s,
			 struct ustack *u)
{
	int lane = u->u_lane;

	if (likely(u->u_sched == s && (uintptr_t)u->u_top > USLICE_LOW &&
		   (unsigned)lane <= v->w_lane_nr))
		v->w_bound = s->s_lane[lane].l_bound;
	else if (!place_see(v, s, u, &lane))
		return false;
	v->w_lane   = &s->s_lane[lane];
	v->w_victim = v->w_lane->l_owner;
	return true;
}

NOINLINE void uview_named(struct uview_tap *a, uint64_t time,
			  const struct ustack *u, const struct uself_block *b)
{
	uview_put(a, time, UVIEW_NOTE, UVIEW_NAMED, u, uview_text(b->b_name));
}

/* Records the name of u, which will run, once in each half of the ring. */
static inline void name_see(struct uview_tap *a, uint64_t time,
			    const struct ustack *u)
{
	struct uself_block *b = uself_of(u);
	unsigned half;

	if (likely(b == NULL) || b->b_name[0] == 0)
		return;
	half = (unsigned)(a->a_ring.g_head >> a->a_half) * UVIEW_RINGS +
		(unsigned)(a->a_ring.g_ring - uview_ring_nth(0)) + 1;
	if (b->b_noted != half) {
		b->b_noted = half;
		uview_named(a, time, u, b);
	}
}

/* Records N5. */
static ALWAYS_INLINE void started(struct uview_view *v, struct uring_writer *n,
			   struct ustack *u)
{
	struct uview_tap *a = v->w_tap;
	uint64_t word;

	v->w_function = uview_function_of(a, u);
	word = uring_word(u, v->w_function);
	if (likely(a->a_turns.b_head != n->n_head) ||			/* vturn K1 */
	    !turn_begins(a, n, v->w_time, word, v->w_ready)) {
		uring_write(n, v->w_time, UVIEW_RUN,
			    likely(v->w_ready < 0x800) ? v->w_ready :
			    uview_ready_code(v->w_ready), word);
		uring_close(&a->a_ring, n);
		name_see(a, v->w_time, u);
		v->w_since = v->w_time;
	} else {
		uring_close(&a->a_ring, n);
		v->w_since = 0;			/* odd_run_see() */
	}
	v->w_thread = u;
	v->w_reason = UVIEW_AGAIN;
}

static NOINLINE void stolen(struct uview_view *v)
{
	long now = v->w_counted->stolen;

	if (v->w_counted != v->w_sched->s_moves) {	/* ustats.h came or went */
		if (v->w_sched->s_moves == NULL)
			v->w_sched->s_moves = &v->w_moves;
		v->w_counted = v->w_sched->s_moves;
		now = v->w_counted->stolen;
	} else
		uview_put(v->w_tap, v->w_time, UVIEW_STEAL,
		    (unsigned)(now - v->w_stolen) & 0xfff, NULL, 0);
	v->w_stolen = now;
}

/* Waits while a census looks at what does not move. */
static NOINLINE void gate_wait(struct uview_view *v)
{
	const struct timespec t = { 0, 20000 };

	do {
		__atomic_store_n(&v->w_state, UVIEW_INSIDE, __ATOMIC_RELEASE);
		while (__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE))
			(void)nanosleep(&t, NULL);
		__atomic_store_n(&v->w_state, UVIEW_RUNNING, __ATOMIC_RELAXED);
		ufence_light();
	} while (__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE));
}

/* Leaves the state INSIDE. */
static ALWAYS_INLINE void gate_pass(struct uview_view *v)
{
	__atomic_store_n(&v->w_state, UVIEW_RUNNING, __ATOMIC_RELAXED);
	ufence_light();
	if (unlikely(__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE)))
		gate_wait(v);
}

/* The dispatcher has looked for threads, and perhaps slept, until now. */
static inline void idle_see(struct uview_view *v, uint64_t now)
{
	struct uview_cpu *c = &v->w_tap->a_cpu;

	c->c_idle += now - v->w_time;
	if (now - v->w_time > uview_all.v_long_run)
		(void)uview_cpu_ask(c);		/* forgets all sleeps so far */
	v->w_time = now;
}

/* Does each DUE what need not be done at each switch. */
static NOINLINE void due(struct uview_tap *a, uint64_t time)
{
	uview_queues_look(a, time);
	if (time > a->a_clock_due)	/* behind what has this time */
		uview_clock_put(a);
	a->a_timed = true;
	a->a_due = time + DUE * long_run();
}

/* Adds what has gone by since a time to what recording takes; nr: switches. */
static void cost_add(struct uview_ring *r, uint64_t since, unsigned nr)
{
	__atomic_store_n(&r->vr_cost, r->vr_cost + uview_tick() - since,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&r->vr_costs, r->vr_costs + nr, __ATOMIC_RELAXED);
}

/* is_timed, which is so after due(): measures what recording takes. */
static ALWAYS_INLINE struct ustack *next(struct usched *s, struct usched_link *k,
					 bool is_timed)
{
	struct uview_view *v = (struct uview_view *)k;
	struct uview_tap *a = v->w_tap;
	struct uring_writer n;
	struct ustack *u;
	uint64_t since;

	uview_busy(a);
	if (likely(v->w_thread != NULL)) {
		v->w_time = uview_tick();
		stopped(v, s);
	} else
		idle_see(v, uview_tick());
	__atomic_store_n(&v->w_state, UVIEW_INSIDE, __ATOMIC_RELEASE);
	if (is_timed) {
		cost_add(a->a_ring.g_ring, v->w_time, 0);
		uview_census_ask(v);
	}
	a->a_noted = false;
	uview_idle(a);
	u = uchain_next(s, k);						/* N3 */
	since = is_timed ? uview_tick() : 0;
	uview_busy(a);
	if (v->w_ready == 0 || a->a_noted ||
	    __atomic_load_n(v->w_source, __ATOMIC_RELAXED) != NULL)
		idle_see(v, uview_tick());
	if (unlikely(v->w_queue == NULL)) {				/* N4 */
		v->w_ready = queues_ask(v);
		if (unlikely(v->w_counted->stolen != v->w_stolen))
			stolen(v);
	}
	n = uring_open(&a->a_ring);
	if (likely(v->w_queue != NULL))
		v->w_ready = queue_see(v, &n, NULL);
	if (likely(u != NULL && place(v, s, u))) {
		started(v, &n, u);
		gate_pass(v);
		if (unlikely(v->w_time > a->a_due))
			due(a, v->w_time);
	} else
		uring_close(&a->a_ring, &n);
	uview_idle(a);
	if (is_timed) {
		cost_add(a->a_ring.g_ring, since, 1);
		a->a_timed = false;
	}
	return u;
}

static NOINLINE struct ustack *next_timed(struct usched *s, struct usched_link *k)
{
	return next(s, k, true);
}

struct ustack *uview_next(struct usched *s, struct usched_link *k)
{
	return unlikely(((struct uview_view *)k)->w_tap->a_timed) ?
		next_timed(s, k) : next(s, k, false);
}

/* Dispatchers. */

/* Returns the name of the scheduler, in *number the number of the processor. */
static unsigned scheduler_of(const struct uview_view *v, unsigned *number)
{
	const char *name = v->w_proc != NULL ?
		v->w_proc->p_set->set_ops.op_name : "plain";
	char text[16];

	*number = v->w_proc != NULL ? (unsigned)v->w_proc->p_nr : 0;
	(void)snprintf(text, sizeof text, "%s", name != NULL ? name : "other");
	text[strcspn(text, "_")] = 0;
	return uview_text(text);
}

static void view_add(struct uview_view *v)
{
	ulock_get(&uview_all.v_lock);
	v->w_next = uview_all.v_first;
	uview_all.v_first = v;
	ulock_put(&uview_all.v_lock);
}

static void view_remove(struct uview_view *v)
{
	struct uview_view **at = &uview_all.v_first;

	ulock_get(&uview_all.v_lock);
	while (*at != v)
		at = &(*at)->w_next;
	*at = v->w_next;
	ulock_put(&uview_all.v_lock);
}

/* A plain dispatcher may look for what it likes. */
static struct uwait_source *no_source = (struct uwait_source *)&no_source;

/* Called as a dispatcher begins to run. */
static void begin(struct usched *s)
{
	struct uproc *p = uproc_native();
	struct uview_view *v;
	struct uring_writer n;
	unsigned number, name;

	if (uview_all.v_file == NULL || s->s_steps != 0 ||
	    uchain_of(s, uview_next) != NULL)		/* USCHED_PAUSES */
		return;
	v = calloc(1, sizeof *v);
	if (v == NULL || (v->w_tap = uview_tap_begin(uview_all.v_log)) == NULL) {
		free(v);
		return;
	}
	v->w_sched = s;
	v->w_proc  = p != NULL && &p->p_sched == s ? p : NULL;
	if (v->w_proc != NULL && v->w_proc->p_set->set_ops.op_fresh == NULL)
		v->w_queue = &v->w_proc->p_queue;
	v->w_source = v->w_proc != NULL ? &v->w_proc->p_waits.wb_source :
		&no_source;
	if (s->s_moves == NULL)
		s->s_moves = &v->w_moves;
	v->w_counted = s->s_moves;
	v->w_stolen  = v->w_counted->stolen;
	name = scheduler_of(v, &number);
	if (v->w_tap->a_runs == 1) {
		v->w_tap->a_ring.g_ring->vr_scheduler = (uint16_t)name;
		v->w_tap->a_ring.g_ring->vr_number = (uint16_t)number;
	}
	uview_busy(v->w_tap);
	v->w_time = uview_tick();
	uview_put(v->w_tap, v->w_time, UVIEW_BEGIN, number & 0xfff, s, name);
	if (v->w_queue == NULL)
		v->w_ready = queues_ask(v);
	n = uring_open(&v->w_tap->a_ring);
	if (v->w_queue != NULL)
		v->w_ready = queue_see(v, &n, NULL);
	uring_close(&v->w_tap->a_ring, &n);
	uview_idle(v->w_tap);
	uchain_add(s, &v->w_link, uview_next);
	view_add(v);
}

/* Called before it stops, or after a longjmp() has left it. */
static void end(struct usched *s)
{
	struct uview_view *v = uchain_of(s, uview_next);
	struct uview_tap *a;

	if (v == NULL || s->s_steps != 0)
		return;
	a = v->w_tap;
	view_remove(v);
	uchain_remove(s, &v->w_link);
	if (s->s_moves == &v->w_moves)
		s->s_moves = NULL;
	uview_busy(a);
	uview_put(a, uview_tick(), UVIEW_END, 0, s, 0);
	uview_idle(a);
	uview_tap_end(a);
	free(v);
}

/* Called before ustack_fini() takes u, which is blocked, from its lane. */
static void gone(struct ustack *u)
{
	struct uview_view *v = uchain_of(u->u_sched, uview_next);

	if (v != NULL && &u->u_sched->s_lane[u->u_lane] == v->w_lane)
		v->w_bound--;
}

static struct usched_hook hook = {
	.h_begin = begin, .h_end = end, .h_gone = gone
};

void uview_switches_start(void)
{
	usched_hook(&hook);
}

#endif
