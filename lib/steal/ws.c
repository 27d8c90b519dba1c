/* SPDX-License-Identifier: MIT */
/* ws.c: a work-stealing scheduler, whose threads go where there is time. */

/*
 * OVERVIEW
 *
 *	worker W				worker V, a thief
 *	+-----------------------------+		+--------------
 *	| slot    woken last          | <------ | 3 if W is stuck
 *	| deque   new, or displaced   | <------ | 1
 *	| queue   yielded, from inbox | <------ | 2
 *	| pinned queue                |		|
 *	| inbox   wakes from others   | <------ | 3, and all workers post
 *	+-----------------------------+		+--------------
 *
 * A thread that can run is in exactly one of these places, or held by a worker
 * on the way from one to another. A worker takes from them in the order above.
 * But once in WS_RUN + 1 switches it takes a thread that has waited for long:
 * see ws.h.
 *
 * PARTS
 *
 * This file makes threads, and has what programs and other modules call. It
 * includes its parts, because a switch runs through four of them, and the
 * compiler makes one function of that. For the same reason their names are
 * static. Each part includes the part below, and calls only what is below:
 *
 *	choose.h	which thread runs next: the call-backs, the hot path
 *	search.h	what a worker without threads does, until it sleeps
 *	theft.h		taking threads from another worker
 *	messages.h	wakes and ends of waits that come from elsewhere
 *	runnable.h	the slot, the deque, both queues; tasks; pins
 *	homes.h		lanes, and the workers at which they are at home
 *	ws_inside.h	the set of workers, and how one worker wakes another
 *
 * Structures that can be understood alone have headers of their own: deque.h,
 * pinned_queue.h, stop.h, mail.h, seek.h, watch.h, steal_policy.h. A worker is
 * in worker.h.
 *
 * INVARIANTS
 *
 * W1. A thread that can run is in one place, or held by one worker.
 *
 * The others are where they are kept: homes W2, W3, W4 and W9, choose W5,
 * search W6, runnable W7 and W8.
 *
 * REJECTED
 *
 * An atomic count for waits and wakes, and a lock for each lane: an atomic
 * instruction for each, 23 ns a message in a prototype, where this takes about
 * 5. Homes of threads instead of lanes: two workers would take turns in a lane.
 */

#define USCHED_PREEMPT	1
#define WS_INLINE	__attribute__((noinline))
#define UPROC_PROBES	1
#include "ws.h"
#include "choose.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define ROOM_MIN	64

static long stuck;

/* Waking. */

/* Returns the worker that runs the thread self. NULL: self is none of ws. */
static ALWAYS_INLINE struct ws_worker *worker_of(const struct ustack *self)
{
	return self != NULL && self->u_sched->s_done == done ?
		(struct ws_worker *)self->u_sched : NULL;
}

/* Returns whether an ancestor made t. Then ws_homes may be of another set. */
static inline bool inherited(const struct uproc_thread *t)
{
	return unlikely(uproc_forks != 0) &&
	       uproc_inherited(uproc_of(t)->p_set);
}

/* ws_mail_post() returns true only for a thread that has a home. */
void ws_post(struct ws_thread *thread)
{
	struct uproc_thread *t = &thread->s_thread;
	struct ws_worker *from = worker_of(ustack_self());

	uproc_live(t, "post");
	USCHED_PROBE_THREAD(wake, &t->t_stack);
	if (UWAIT_WATCHED)
		uwait_watch_posted(&t->t_stack, false);
	if (inherited(t) || !ws_mail_post(&t->t_wakes))
		return;
	if (from != NULL)
		lane_from(t, from);
	post_node(ws_home(t), t);
}

/* Returns the worker of the native thread that calls. NULL: it has none. */
static struct ws_worker *native_worker(void)
{
	struct uproc *p = uproc_native();

	return p != NULL && p->p_set == set ? (struct ws_worker *)p : NULL;
}

/* Enters the section of w, the caller's, where t stays at home, if it is. */
static ALWAYS_INLINE bool enter_home(struct ws_worker *w, const struct uproc_thread *t)
{
	ws_enter(w);
	if (ws_home(t) == w)
		return true;
	ws_leave(w);
	return false;
}

/* Adds a wake of t, after enter_home(), and leaves the section. */
static ALWAYS_INLINE void wake_home(struct ws_worker *w, struct uproc_thread *t)
{
	if (uwakes_add(&t->t_wakes, 1))
		slot_put(w, t);
	else
		ws_leave(w);
}

/* Wakes t. w: the worker of the caller, outside of its section, or NULL. */
static void wake_from(struct ws_worker *w, struct uproc_thread *t)
{
	if (w != NULL && ws_home(t) == w && enter_home(w, t)) {
		USCHED_PROBE_THREAD(wake, &t->t_stack);
		wake_home(w, t);
	} else
		ws_post((struct ws_thread *)t);
}

/* The s_wake(). A worker may be inside its section: in s_next(), where timers fire. */
static void wake(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = native_worker();

	(void)s;
	if (w != NULL && w->w_gate.g_stop.k_in)
		w = NULL;
	wake_from(w, (struct uproc_thread *)u);
}

/* The worker may still be inside its section. */
void ws_wake_slow(struct ws_thread *t)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w != NULL)
		ws_leave(w);
	if (!inherited(&t->s_thread))
		wake_from(w, &t->s_thread);
}

/* Making threads. */

/* Puts t, which is new, into the deque. Its maker runs on w. */
static ALWAYS_INLINE void enqueue_new(struct ws_worker *w,
				      struct uproc_thread *t)
{
	threads_add(w, 1);
	if (likely(!(t->t_stack.u_mark & PINNED)) &&
	    likely(ws_deque_push(&w->w_deque, thread_item(t)) == 0)) {
		announce();
		return;
	}
	ws_enter(w);
	if (!enqueue(w, t))
		send_to(w, t);
	ws_leave(w);
}

static const struct uproc_ops ops;

/* Makes a thread on worker nr, modulo all; -1: on the caller's, or on any. */
static NOINLINE struct uproc_thread *create_slow(int nr, void (*f)(void *),
						 void *arg, int flags)
{
	struct uproc *here = uproc_here(set);
	struct uproc *p = here;
	struct uproc_thread *t;

	if (nr >= 0 || here == NULL)
		p = uproc_at(set, nr >= 0 ? (unsigned)nr : uproc_next_nr(set));
	t = uproc_alloc(here, p, f, arg, flags);
	if (t == NULL && p == NULL)
		(void)uproc_none(&ops, "thread_init");
	if (t == NULL)
		return NULL;
	wakes_none(&t->t_wakes);
	if (p == here) {
		enqueue_new((struct ws_worker *)p, t);
		return t;
	}
	__atomic_fetch_add(&p->p_made, 1, __ATOMIC_RELAXED);
	send_to((struct ws_worker *)p, t);
	return t;
}

/* Returns whether threads made by those of w have private stacks. */
static inline bool is_private(const struct ws_worker *w)
{
	return unlikely(__atomic_load_n(&w->w_proc.p_private,
					__ATOMIC_RELAXED));
}

/* Makes a thread on the caller's worker, if that has memory in its pool. */
static inline struct uproc_thread *create(void (*f)(void *), void *arg)
{
	struct ws_worker *w = worker_of(ustack_self());
	struct uproc_thread *t;

	if (w == NULL || f == NULL || is_private(w))
		return create_slow(-1, f, arg, 0);
	t = umem_pop(&w->w_proc.p_pool, umem_class(BLOCK));
	if (t == NULL)
		return create_slow(-1, f, arg, 0);
	ustack_lawful("ws_thread_init: the argument", arg);
	ustack_init(&t->t_stack, &w->w_proc.p_sched, f, arg, NULL, 0);
	UHARD(begins(&t->t_object));
	wakes_none(&t->t_wakes);
	enqueue_new(w, t);
	return t;
}

/* Makes a thread as create_slow(). */
static struct ws_thread *created(int nr, void (*f)(void *), void *arg,
				 int flags)
{
	return (struct ws_thread *)create_slow(nr, f, arg, flags);
}

struct ws_thread *ws_thread_init(void (*f)(void *), void *arg)
{
	return (struct ws_thread *)create(f, arg);
}

/* Called if the caller is no thread of ws, or w_stock may be too small. */
static NOINLINE int spawn_slow(void (*f)(void *), void *arg)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w == NULL || f == NULL || is_private(w))
		return create_slow(-1, f, arg, 0) != NULL ? 0 : -errno;
	return stock_reserve(w, ws_deque_look(&w->w_deque) + 1) ?
		ws_spawn(f, arg) : -ENOMEM;
}

int ws_spawn(void (*f)(void *), void *arg)
{
	struct ws_worker *w = worker_of(ustack_self());
	struct ws_deque_item task = { (void *)f, arg };

	if (w == NULL || f == NULL || is_private(w))
		return spawn_slow(f, arg);
	if (unlikely(ws_deque_most(&w->w_deque) >= w->w_stock.k_nr))
		return spawn_slow(f, arg);
	ustack_lawful("ws_spawn: the argument", arg);
	if (unlikely(ws_deque_push(&w->w_deque, task) != 0))
		return -ENOMEM;
	announce();
	return 0;
}

struct ws_thread *ws_thread_on(int proc, void (*f)(void *), void *arg)
{
	return created(proc & INT_MAX, f, arg, 0);
}

struct ws_thread *ws_thread_pinned(int proc, void (*f)(void *), void *arg)
{
	return created(proc & INT_MAX, f, arg, PINNED);
}

struct ws_thread *ws_thread_joinable(void (*f)(void *), void *arg)
{
	return created(-1, f, arg, UPROC_JOIN);
}

/* Calls of running threads. */

/* Returns the worker of the caller, or fails. */
static struct ws_worker *here(const char *misuse)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w == NULL)
		uproc_fail(misuse);
	return w;
}

int ws_wait_first(struct uproc_thread *t)
{
	/* A generator fails at its block, for any scheduler. */
	if (worker_of(&t->t_stack) == NULL && !t->t_stack.u_sched->s_coroutine)
		uproc_fail("wait: called in a thread of another scheduler than "
			   "ws; u_wait_until(UNEVER) waits in all");
	return ws_mail_settle(&t->t_wakes);
}

/*
 * Returns whether t, which was just put into the queue, is work for another worker: if
 * nothing else can run here, it goes on at once. Owner, inside its section.
 */
static bool is_surplus(const struct ws_worker *w, const struct uproc_thread *t)
{
	return !stays(w, t) && (w->w_gate.g_slot != NULL ||
				ws_deque_size(&w->w_deque) > 0 ||
				uproc_queue_len(&w->w_proc.p_queue) > 1 ||
				ws_pinned_len(&w->w_pinned) > 0);
}

int ws_yield(void)
{
	struct ws_worker *w = here("yield: called outside of a thread of ws; "
				  "u_sleep(UNOW) gives way in all");
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	bool surplus;
	int rc;

	UHARD(yield());
	ws_enter(w);
	rc = enqueue(w, t) ? 0 : -ENOMEM;
	surplus = rc == 0 && is_surplus(w, t);
	ws_leave(w);
	if (rc != 0)
		return rc;
	if (surplus)
		announce();
	rc = ustack_block();
	if (rc != 0) {
		ws_enter(w);
		enqueue_undo(w, t);
		ws_leave(w);
	}
	return rc;
}

/* Outside the section: no thief moves the lane in which a thread runs. */
void ws_pin(void)
{
	struct uproc_thread *t;

	(void)here("pin: called outside of a thread");
	t = (struct uproc_thread *)ustack_self();
	if (t->t_stack.u_mark & PINNED)
		return;
	mark_set(t, t->t_stack.u_mark | PINNED);
	pins_add(t, 1);
}

void ws_unpin(void)
{
	struct ws_worker *w = here("unpin: called outside of a thread");
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();

	if (!(t->t_stack.u_mark & PINNED))
		return;
	ws_enter(w);
	mark_set(t, t->t_stack.u_mark & ~PINNED);
	unpin(w, t);
	ws_leave(w);
}

int ws_proc(void)
{
	struct uproc *p = uproc_here(__atomic_load_n(&set, __ATOMIC_RELAXED));

	return p != NULL ? p->p_nr : -1;
}

/* Pins t, which is preempted, until it runs again: it may hold anything. */
static bool preempt_begin(struct ws_worker *w, struct uproc_thread *t)
{
	mark_set(t, t->t_stack.u_mark | PREEMPTED);
	pins_add(t, 1);
	return enqueue(w, t);
}

/* Preempts u if w has other threads; NULL: undoes that. See upreempt.h. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	int rc = 0;

	ws_enter(w);
	if (u == NULL) {
		enqueue_undo(w, t);
		preempt_end(w, t);
		ws_leave(w);
		return 0;
	}
	if (uwait_outside(&w->w_proc.p_waits))
		uwait_look_outside(&w->w_proc.p_waits);
	if (uwait_must_look(&w->w_proc.p_waits))
		take_waits(w, true);
	if (!has_nothing(w)) {
		rc = preempt_begin(w, t);
		if (rc == 0)
			preempt_end(w, t);
	}
	ws_leave(w);
	return rc;
}

/* For uwait.h. */

/* Ends the wait of r here, if its thread is at home at w, the caller's. */
static int complete_here(struct ws_worker *w, struct uwait *r)
{
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;

	if (!enter_home(w, t))
		return false;
	uwait_arrived(r);
	wake_home(w, t);
	return true;
}

/* Ends the wait of r, which the caller has claimed. Any thread. */
static void waits_complete(struct uwait_base *here, struct uwait *r)
{
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;
	struct ws_worker *w, *home;

	if (here != NULL && complete_here((struct ws_worker *)here->wb_sched, r))
		return;
	if (inherited(t))
		return;
	w = native_worker();
	if (uproc_here(set) != NULL && !w->w_gate.g_stop.k_in &&
	    complete_here(w, r))
		return;
	home = ws_home(t);
	if (w != NULL && w != home)	/* an event makes no lane move */
		lane_from(t, uproc_here(set) != NULL ? w : home);
	if (UWAIT_WATCHED)
		uwait_watch_posted(&t->t_stack, true);
	USCHED_RACE(ws_complete);
	/* In a source the caller sleeps, and must not wake itself. */
	if (w != NULL && home == w) {
		uwait_post(&home->w_proc.p_waits, r);
		end_unwatched();
	} else
		waits_post(&home->w_proc.p_waits, r);
}

/* Takes a wake, also if its node lies in the inbox of a former home. */
static int waits_try(struct ustack *u)
{
	struct uwakes *k = &((struct uproc_thread *)u)->t_wakes;

	ws_mail_collect(k);
	if (k->w_count <= 0)
		return false;
	k->w_count--;
	return true;
}

/* Begins the section. In the child of fork() there is no thief to wait for. */
static void waits_enter(struct uwait_base *b)
{
	struct ws_worker *w = (struct ws_worker *)b->wb_sched;

	if (!uproc_inherited(w->w_proc.p_set))
		ws_enter(w);
}

static void waits_leave(struct uwait_base *b)
{
	ws_leave((struct ws_worker *)b->wb_sched);
}

/* Takes all messages that have come. */
static void waits_drain(struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)u->u_sched;

	ws_mail_collect(&((struct uproc_thread *)u)->t_wakes);
	ws_enter(w);
	take_messages(w, w);
	ws_leave(w);
}

/* Returns where the sources of b begin that all workers share. */
static struct uwait_source **shared_sources(struct uwait_base *b)
{
	struct uwait_source **at = &b->wb_source;

	while (*at != NULL && (*at)->o_local)
		at = &(*at)->o_next;
	return at;
}

/*
 * Adds o: to those of b if it is local, or else to all, since a thread may go on
 * at another worker.
 */
static void waits_source(struct uwait_base *b, struct uwait_source *o)
{
	int i;

	ws_seek_full(&all.s_seek);
	pthread_mutex_lock(&set->set_lock);
	o->o_group = set;
	o->o_next  = o->o_local ? b->wb_source : *shared_sources(b);
	if (o->o_local)
		__atomic_store_n(&b->wb_source, o, __ATOMIC_RELEASE);
	for (i = 0; i < set->set_nr && !o->o_local; i++)
		__atomic_store_n(shared_sources(&worker(i)->w_proc.p_waits), o,
				 __ATOMIC_RELEASE);
	pthread_mutex_unlock(&set->set_lock);
}

static const struct uwait_ops wait_ops = {
	.o_complete = waits_complete,
	.o_post     = waits_post,
	.o_back     = uproc_waits_back,
	.o_try      = waits_try,
	.o_waits    = uproc_waits,
	.o_runs     = uproc_runs,
	.o_drain    = waits_drain,
	.o_enter    = waits_enter,
	.o_leave    = waits_leave,
	.o_source   = waits_source,
	.o_hold     = uproc_waits_hold
};

static int wait_here(struct usched *s)
{
	(void)s;
	return ws_wait();
}

static int make_here(struct usched *s, void (*f)(void *), void *arg, int lane)
{
	(void)s;
	if (lane == 0)
		return ws_spawn(f, arg);
	return create_slow(-1, f, arg, uproc_flags(lane)) != NULL ? 0 : -errno;
}

/* For uview.h. */

/* Tells of what was pushed on the deque since *at. */
static void fresh_items(struct ws_worker *w, unsigned long *at,
			const void *known, uproc_fresh *f, void *arg)
{
	unsigned long i = *at, end = w->w_deque.d_bottom;
	unsigned tasks = 0;

	if (ws_deque_span(end, i) > w->w_deque.d_array->a_room)
		i = end - w->w_deque.d_array->a_room;
	for (; ws_deque_span(end, i) > 0; i++) {
		struct ws_deque_item x = ws_deque_get(w->w_deque.d_array, i);

		if (!is_thread(x))
			tasks += is_task(x);
		else if (x.i_arg != known)
			f(arg, x.i_arg, 0);
	}
	if (tasks != 0)
		f(arg, NULL, tasks);
}

static void fresh_pinned(struct ws_worker *w, unsigned from, uproc_fresh *f,
			 void *arg)
{
	const struct ws_pinned_queue *k = &w->w_pinned;

	if (k->kq_tail - from > k->kq_mask + 1)
		from = k->kq_tail - k->kq_mask - 1;
	for (; from != k->kq_tail; from++) {
		const void *t = ws_pinned_at(k, from)->kp_item;

		if (t != NULL)
			f(arg, t, 0);
	}
}

/*
 * In the section, since a thief that has stopped w may make its queue longer.
 * Outside of threads, w pushes only what it has taken from elsewhere.
 */
static unsigned fresh(struct uproc *p, struct uproc_mark *m, int outside,
		      uproc_fresh *f, void *arg)
{
	struct ws_worker *w = (struct ws_worker *)p;
	const struct uproc_thread *slot;
	unsigned nr;

	ws_enter(w);
	slot = w->w_gate.g_slot;
	if (!outside && w->w_deque.d_bottom != m->mk_at[0])
		fresh_items(w, &m->mk_at[0], m->mk_thread, f, arg);
	if (p->p_queue.q_tail != m->mk_at[1])
		uproc_fresh_queue(&p->p_queue, (unsigned)m->mk_at[1],
				  m->mk_thread, f, arg);
	if (w->w_pinned.kq_tail != m->mk_at[2])
		fresh_pinned(w, (unsigned)m->mk_at[2], f, arg);
	if (slot != NULL && slot != m->mk_thread)
		f(arg, &slot->t_stack, 0);
	m->mk_thread = slot;
	m->mk_at[0]  = w->w_deque.d_bottom;
	m->mk_at[1]  = p->p_queue.q_tail;
	m->mk_at[2]  = w->w_pinned.kq_tail;
	nr = (slot != NULL) + uproc_queue_len(&p->p_queue) +
	     (unsigned)ws_deque_size(&w->w_deque) + ws_pinned_len(&w->w_pinned);
	ws_leave(w);
	return nr;
}

/* From the beginning to the end. */

/* Forgets, in the child of fork(), all that is left of the parent's workers. */
static void forget_parent(void)
{
	memset(&all, 0, sizeof all);
	ws_unwatched = 0;
	lane_list    = NULL;
	ws_homes     = NULL;
}

/* Initializes what is of ws. 0, -ENOMEM. */
static int worker_init(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	if (p->p_nr == 0)
		forget_parent();
	w->w_running_lane = NONE;
	ws_stop_init(&w->w_gate.g_stop);
	p->p_sched.s_gate = &w->w_gate.g_stop.k_in;
	if (p->p_random != 0)
		p->p_sched.s_next = next_drawn;
	ws_policy_init(&w->w_thief);
	w->w_random = p->p_nr * 2654435769u + 1;
	return ws_pinned_init(&w->w_pinned, ROOM_MIN) ?
		ws_deque_init(&w->w_deque, p->p_room) : -ENOMEM;
}

static void worker_fini(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	ws_deque_fini(&w->w_deque);
	umem_stock_fini(&w->w_stock);
	ws_pinned_fini(&w->w_pinned);
	free(w->w_lane);
	/* Unless worker_init() was not called. */
	if (p->p_nr == 0 && p->p_sched.s_gate != NULL)
		lanes_fini();
}

/* Called in the child of a thread of p: makes each wake take the slow path. */
static void in_child(struct uproc *p)
{
	((struct ws_worker *)p)->w_gate.g_stop.k_stop |= WS_STOP_ASKED;
}

/*
 * The op_kept: tasks. The owner may be in a pop, and has not read the item yet: then it
 * has moved one end of the deque, or for the last item both (deque Q2).
 */
static void kept(const struct uproc *p, uproc_kept *f, void *arg)
{
	const struct ws_deque *d = &((const struct ws_worker *)p)->w_deque;
	struct ws_deque_array *a = __atomic_load_n(&d->d_array, __ATOMIC_ACQUIRE);
	unsigned long i = __atomic_load_n(&d->d_top, __ATOMIC_RELAXED) - 1;
	long nr = ws_deque_span(__atomic_load_n(&d->d_bottom, __ATOMIC_RELAXED), i);

	for (nr++; a != NULL && nr > 0; i++, nr--) {
		const struct ws_deque_item *x = ws_deque_slot(a, i);

		if (is_task(*x))
			f(arg, task_f(*x), &x->i_arg);
	}
}

static const struct uproc_ops ops = {
	.op_sched   = {
		.s_next    = next,
		.s_done    = done,
		.s_again   = again,
		.s_preempt = preempt,
		.s_wait    = wait_here,
		.s_wake    = wake,
		.s_make    = make_here
	},
	.op_name    = "ws_",
	.op_size    = sizeof(struct ws_worker),
	.op_init    = worker_init,
	.op_fini    = worker_fini,
	.op_fresh   = fresh,
	.op_kept    = kept,
	.op_move    = {
		.mv_lanes    = lanes_init,
		.mv_waits    = &wait_ops,
		.mv_forked   = in_child,
		.mv_has      = has_lane
	}
};

int ws_init(int proc_nr, int thread_nr)
{
	return uproc_init(&set, &ops, proc_nr, thread_nr);
}

#define SCHED(name)	ws_##name
#define THREAD		struct ws_thread
#define SCHED_MOVES
#include "uproc_api.h"
