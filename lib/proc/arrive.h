/* SPDX-License-Identifier: MIT */
/* arrive.h: wakes, and ends of waits, that come to a processor. A part of uproc.c. */

#ifndef UPROC_ARRIVE_H
#define UPROC_ARRIVE_H

/*
 * A wake by the thread's own processor puts the thread into the queue. A wake by
 * another goes to the inbox (wakes.h). The end of a wait is a wake, too, if the
 * thread's own processor ends it. Another puts the record into the list of p_waits
 * (uwait.h). drain() takes from the inbox and from this list.
 *
 * P2. w_count >= -1. It is -1 exactly while the thread waits or is new.
 * P3. The node of a thread is in an inbox exactly while w_posted counts wakes
 *     or has POSTED set. (Between the two changes a moment passes.)
 *
 * REJECTED
 *
 * A message of its own for each remote wake: it needs memory, and can fail.
 */

#include "blocks.h"
#include "idle.h"
#include "room.h"

#define RUNS_MOST	8		/* processors: else it takes too long */

_Static_assert(sizeof(void *) != 8 ||
	       offsetof(struct uproc, p_waits.wb_timers) % 64 == 0,
	       "what wakers read is on another line than what changes");

static void ready(struct uproc *p, struct uproc_thread *t, int wakes)
{
	if (uwakes_add(&t->t_wakes, wakes))
		uproc_queue_put(&p->p_queue, t);
}

/* Sends a wake to t: uproc_post(), but not told to tracers. */
static void wake_send(struct uproc_thread *t)
{
	struct uproc *p;

	uproc_live(t, "post");
	if (UWAIT_WATCHED)
		uwait_watch_posted(&t->t_stack, false);
	p = uproc_of(t);
	if (uwakes_post(&t->t_wakes, &p->p_inbox))	/* t may be freed */
		uidle_wake(&p->p_set->set_idle, &p->p_asleep);
}

/* Wakes t, which then sees what the waker has written before: wakes R3. */
void uproc_post(struct uproc_thread *t)
{
	USCHED_PROBE_THREAD(wake, &t->t_stack);
	wake_send(t);
}

/* The s_wake() of rr and ll. Any native thread. */
static void wake(struct usched *s, struct ustack *u)
{
	struct uproc_thread *t = (struct uproc_thread *)u;

	(void)s;
	USCHED_PROBE_THREAD(wake, u);
	if (uproc_of(t) == uproc_native())
		ready(uproc_of(t), t, 1);
	else
		wake_send(t);
}

/* Takes what has come to p, except for events from outside. */
static void drain(struct uproc *p)
{
	struct uwakes *w;
	int nr;

	while ((w = uwakes_take(&p->p_inbox, &nr)) != NULL) {
		struct uproc_thread *t = (struct uproc_thread *)((char *)w -
			offsetof(struct uproc_thread, t_wakes));

		if (likely(nr > 0)) {
			ring_move(p);
			ready(p, t, nr);
		} else if (nr == UWAKES_FREE)
			uproc_free(p, t);
	}
	if (uwait_must_look(&p->p_waits))
		uwait_look(&p->p_waits);
	p->p_sched.s_ahead = __atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) >
		UPROC_LANE_NR ? UPROC_AHEAD : 0;
}

/* For uwait.h. */

static void waits_post(struct uwait_base *b, struct uwait *w)
{
	struct uproc *p = (struct uproc *)b->wb_sched;

	uwait_post(b, w);					/* park W1 */
	USCHED_RACE(proc_wake);
	uidle_wake(&p->p_set->set_idle, &p->p_asleep);
}

static void waits_complete(struct uwait_base *here, struct uwait *w)
{
	struct uproc_thread *t = (struct uproc_thread *)w->w_stack;
	struct uproc *p = uproc_of(t);

	if (here != &p->p_waits && (here != NULL || p != uproc_native())) {
		if (UWAIT_WATCHED)
			uwait_watch_posted(w->w_stack, true);
		waits_post(&p->p_waits, w);
		return;
	}
	uwait_arrived(w);
	/* In s_next() the queue is what the scheduler looks at. */
	if (p->p_set->set_ops.op_soon == NULL || ustack_self() == NULL)
		ready(p, t, 1);
	else if (uwakes_add(&t->t_wakes, 1))
		p->p_set->set_ops.op_soon(p, t);
}

void uproc_waits_back(struct ustack *u, int nr)
{
	uwakes_back(&((struct uproc_thread *)u)->t_wakes, nr);
}

static void waits_drain(struct ustack *u)
{
	uproc_drain((struct uproc *)u->u_sched);
}

/* No event from outside is a wake, so this does not look there. */
static int waits_try(struct ustack *u)
{
	struct uproc_thread *t = (struct uproc_thread *)u;

	drain(uproc_of(t));
	if (t->t_wakes.w_count <= 0)
		return false;
	t->t_wakes.w_count--;
	return true;
}

/* Reads what the thread's processor may be changing: see ulist.c. */
__attribute__((no_sanitize("thread")))
int uproc_waits(const struct ustack *u)
{
	const struct uwakes *k = &((const struct uproc_thread *)u)->t_wakes;

	return __atomic_load_n(&k->w_count, __ATOMIC_RELAXED) < 0 &&
	       __atomic_load_n(&k->w_posted, __ATOMIC_RELAXED) < UWAKES_ONE;
}

/*
 * Looks at the processors of the set, unless they have to share cpus. There u may
 * run soon, if it is awake and runs no thread. Of more than RUNS_MOST any may run
 * u. Reads what they may be changing.
 */
__attribute__((no_sanitize("thread")))
int uproc_runs(const struct uwait_base *b, const void *u)
{
	const struct uproc *p = (const struct uproc *)b->wb_sched;
	const struct uproc_set *set = p->p_set;
	int i;

	for (i = 1; set->set_spare && i < set->set_nr; i++) {
		const struct uproc *q = uproc_nth(set, (p->p_nr + i) % set->set_nr);
		struct ustack *const *at = __atomic_load_n(&q->p_runs,
							   __ATOMIC_RELAXED);
		struct ustack *runs = at != NULL ?
			__atomic_load_n(at, __ATOMIC_RELAXED) : NULL;

		if (__atomic_load_n(&q->p_asleep, __ATOMIC_RELAXED) == 0 &&
		    (u == NULL || runs == u || runs == NULL))
			return true;
		if (i == RUNS_MOST)
			return true;
	}
	return false;
}

/* A processor has its wheel to itself. */
static void waits_enter(struct uwait_base *b)
{
	(void)b;
}

static void waits_source(struct uwait_base *b, struct uwait_source *o)
{
	o->o_next = b->wb_source;
	__atomic_store_n(&b->wb_source, o, __ATOMIC_RELEASE);
}

/* The caller, a thread, is awake: the end of its hold tells no sleeper. */
void uproc_waits_hold(struct uwait_base *b, int on)
{
	int *idle = &((struct uproc *)b->wb_sched)->p_set->set_idle;

	if (on)
		uidle_hold(idle);
	else
		uidle_unhold(idle);
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
	.o_leave    = waits_enter,
	.o_source   = waits_source,
	.o_hold     = uproc_waits_hold
};

#endif /* UPROC_ARRIVE_H */
