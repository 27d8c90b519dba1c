/* SPDX-License-Identifier: MIT */
/* theft.h: taking threads from another worker. A part of ws.c. */

#ifndef WS_THEFT_H
#define WS_THEFT_H

/*
 * A thief stops the owner first (stop.h); the thief itself is outside of its
 * own section then. It stops once, and takes half of the deque, or of the
 * queue. An owner that switches answers the thief, and waits until the thief
 * has ended. An owner whose thread computes is outside of its section, and does
 * not answer. The thief waits for an answer for as long as a forced stop takes
 * by its own measurements, and then uses force.
 *
 * A theft costs more than a thread is worth that runs for nanoseconds. So
 * steal_policy.h says when a theft pays: the surplus of the owner must have
 * lasted, or the owner must not have switched for a while. Thieves learn from
 * each theft, also how many threads they may move (steal_policy J6). A lane
 * moves with all of its threads, which count. From a stuck worker a thief takes
 * what it can.
 *
 * A thread in the slot, or with a message in the inbox, runs as soon as the
 * running thread blocks. If that thread computes for long, the worker is stuck:
 * it has not switched for longer than a forced stop takes (steal_policy J3).
 * Then all that waits there can be taken.
 *
 * Nor does a stuck worker look at its local sources (source.h). The thief looks
 * there first, which ends waits of threads that it can take then.
 *
 * What was taken goes to the deque of the thief, which has reserved memory for
 * the tasks among it (runnable W7).
 */

#include "messages.h"

#define STEAL_MOST	256	/* items that are taken at once */

/* What was taken in a theft, oldest first. */
struct stolen {
	struct ws_deque_item o_item[STEAL_MOST];
	int                  o_nr;
	int                  o_tasks;	/* that there is memory for */
	unsigned             o_greed;	/* threads that may be moved yet */
};

/* Adds x, for which there is room. */
static void stolen_add(struct stolen *o, struct ws_deque_item x)
{
	o->o_item[o->o_nr++] = x;
}

/* Counts nr threads that are to be moved. False: they are too many (steal_policy J6). */
static bool steal_count(struct stolen *o, unsigned nr)
{
	bool ok = nr <= o->o_greed;

	o->o_greed = ok ? o->o_greed - nr : 0;
	return ok;
}

/* Takes t, which can run, from v for w, or sends t home. False: t stays. */
static bool steal_thread(struct ws_worker *w, struct ws_worker *v,
			 struct uproc_thread *t, struct stolen *o)
{
	struct ws_worker *home = ws_home(t);

	if (home == v) {
		if (!can_go(v, t) || !steal_count(o, lane_bound(v, t)))
			return false;
		lane_move_of(v, t, w);
	} else if (home != NULL && home != w) {
		send_to(home, t);
		return true;
	} else if (home == NULL) {
		if (!can_go(v, t) || !steal_count(o, 1))
			return false;
		sched_set(w, t);
	}
	stolen_add(o, thread_item(t));
	return true;
}

/*
 * Takes the older half of the queue of v, as far as its threads can go. Called,
 * as the next function, while v is stopped.
 */
static void steal_queue(struct ws_worker *w, struct ws_worker *v,
			struct stolen *o)
{
	struct usched_queue *q = &v->w_proc.p_queue;
	unsigned left = (uproc_queue_len(q) + 1) / 2;
	unsigned from, to;

	if (left > (unsigned)(STEAL_MOST - o->o_nr))
		left = STEAL_MOST - o->o_nr;
	for (from = q->q_head; from != q->q_tail && left > 0 && o->o_greed > 0;
	     from++) {
		struct ustack **at = &q->q_ring[from & q->q_mask];

		if (steal_thread(w, v, (struct uproc_thread *)*at, o)) {
			*at = NULL;
			left--;
		}
	}
	for (to = from; from-- != q->q_head; ) {
		struct ustack *t = q->q_ring[from & q->q_mask];

		if (t != NULL)
			q->q_ring[--to & q->q_mask] = t;
	}
	__atomic_store_n(&q->q_head, to, __ATOMIC_RELAXED);
	/* If no thread could go, the next look waits for another thread. */
	__atomic_store_n(&v->w_looked, q->q_tail - (o->o_nr > 0),
			 __ATOMIC_RELAXED);
}

/* Takes the older half of the deque of v, as far as its items can go. */
static void steal_deque(struct ws_worker *w, struct ws_worker *v,
			struct stolen *o)
{
	long most = (ws_deque_size(&v->w_deque) + 1) / 2;

	while (most-- > 0 && o->o_nr < o->o_tasks && o->o_greed > 0) {
		struct ws_deque_item x = ws_deque_steal_alone(&v->w_deque);

		if (x.i_what == NULL)
			return;
		if (is_task(x)) {
			(void)steal_count(o, 1);
			stolen_add(o, x);
		} else if (is_thread(x) && !steal_thread(w, v, x.i_arg, o) &&
			 !enqueue(v, x.i_arg))
			send_to(v, x.i_arg);
	}
}

/* Returns whether the queue of v has more than was left at the last look. */
static bool queue_has(const struct ws_worker *v)
{
	const struct usched_queue *q = &v->w_proc.p_queue;

	return uproc_queue_len(q) != 0 &&
	       __atomic_load_n(&q->q_tail, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&v->w_looked, __ATOMIC_RELAXED);
}

/* Returns whether something waits for the thread that v runs. */
static bool is_behind(const struct ws_worker *v)
{
	return !load(&v->w_proc.p_asleep) &&
	       (__atomic_load_n(&v->w_gate.g_slot, __ATOMIC_RELAXED) != NULL ||
		ws_deque_size(&v->w_deque) != 0 ||
		uproc_queue_len(&v->w_proc.p_queue) != 0 ||
		!uinbox_empty((struct uinbox *)&v->w_proc.p_inbox) ||
		uwait_posted(&v->w_proc.p_waits) || uproc_is_due(&v->w_proc));
}

/* Returns how many switches v has made. Any worker. */
static unsigned switches_of(const struct ws_worker *v)
{
	return __atomic_load_n(&v->w_switches, __ATOMIC_RELAXED);
}

/*
 * Returns whether v computes, and something waits for that (steal_policy J3).
 * Events may have come to its sources, at which it does not look meanwhile.
 */
static bool is_stuck(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	if (!ws_policy_stuck(&w->w_thief, &v->w_observed, switches_of(v), now))
		return false;
	if (!load(&v->w_proc.p_asleep))
		uwait_look_local(&v->w_proc.p_waits, w);
	return is_behind(v);
}

/* Returns whether w should take what v has (steal_policy J1, J2). */
static bool has_surplus(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	unsigned drained = __atomic_load_n(&v->w_drained, __ATOMIC_RELAXED);

	if (ws_deque_size(&v->w_deque) != 0 || queue_has(v))
		return ws_policy_surplus(&w->w_thief, &v->w_observed, drained,
					 switches_of(v), now);
	ws_policy_none(&v->w_observed, drained);
	return false;
}

/* Moves threads in the slot and the inbox of v to its queue. v is stopped. */
static void enqueue_stuck(struct ws_worker *w, struct ws_worker *v)
{
	struct uproc_thread *t = v->w_gate.g_slot;

	take_messages(v, w);
	if (t != NULL && enqueue(v, t))
		ws_slot_set(&v->w_gate, NULL);
}

/* Stops v: asks and waits, then uses force; at_once: force only. */
static bool stop_worker(struct ws_worker *w, struct ws_worker *v, bool at_once)
{
	unsigned long ticket = ws_stop_ask(&v->w_gate.g_stop);
	unsigned from = now_ns();
	bool stopped;

	if (ticket == 0)
		return false;
	TALLY(w, stops, 1);
	while (!at_once && ws_policy_age(now_ns(), from) < w->w_thief.h_fence) {
		if (ws_stop_answered(&v->w_gate.g_stop, ticket))
			return true;
		uproc_relax();
	}
	from = now_ns();
	TALLY(w, forced, 1);
	TALLY(w, fences, 1);
	stopped = ws_stop_force(&v->w_gate.g_stop);
	ws_policy_fence(&w->w_thief, ws_policy_age(now_ns(), from));
	return stopped;
}

/* Takes threads and tasks from v, another worker. w is outside its section. */
static void steal_from(struct ws_worker *w, struct ws_worker *v,
		       struct stolen *o, bool stuck_now)
{
	if (!stop_worker(w, v, stuck_now)) {
		ws_policy_vain(&w->w_thief, &v->w_observed, switches_of(v),
			       now_ns());
		return;
	}
	o->o_greed = stuck_now ? UINT_MAX :
		ws_policy_greed(&w->w_thief, &v->w_observed);
	steal_deque(w, v, o);
	if (stuck_now && v->w_running_lane != NONE)
		enqueue_stuck(w, v);		/* for the queue below */
	if (o->o_nr == 0)
		steal_queue(w, v, o);
	ws_stop_end(&v->w_gate.g_stop);
	if (o->o_nr == 0)
		ws_policy_vain(&w->w_thief, &v->w_observed, switches_of(v),
			       now_ns());
	else {
		USCHED_PROBE(steal, USCHED_PROBE_INT "%0 " USCHED_PROBE_INT "%1 "
			     USCHED_PROBE_INT "%2", "m"(w->w_proc.p_nr),
			     "m"(v->w_proc.p_nr), "m"(o->o_nr));
		ws_policy_try(&w->w_thief, &v->w_observed, v->w_proc.p_nr,
			      switches_of(v) + switches_of(w));
	}
}

/* Puts x, which was taken, where it can be taken again. */
static void adopt(struct ws_worker *w, struct ws_deque_item x)
{
	struct uproc_thread *t;

	if (is_task(x) && likely(ws_deque_push(&w->w_deque, x) == 0)) {
		announce();
		return;
	}
	t = thread_for(w, x);
	lane_note(w, lane_of(t));
	make_stealable(w, t);
}

/* Puts what was stolen into the deque of w, and returns the first thread. */
static struct uproc_thread *adopt_stolen(struct ws_worker *w, struct stolen *o)
{
	struct uproc_thread *t;
	int i;

	ws_enter(w);
	for (i = o->o_nr; --i > 0; )
		adopt(w, o->o_item[i]);
	t = thread_for(w, o->o_item[0]);
	lane_note(w, lane_of(t));
	ws_leave(w);
	return t;
}

/* Gives t, which can run, to v, if it can leave w. Owner, inside its section. */
static void give_to(struct ws_worker *w, struct ws_worker *v, struct uproc_thread *t)
{
	struct ws_worker *home = ws_home(t);

	if (home == w && t->t_stack.u_lane != 0 && can_go(w, t)) {
		lane_move_of(w, t, v);
		send_to(v, t);
	} else if (home != NULL && home != w)
		send_to(home, t);
	else if (!enqueue(w, t))
		send_to(w, t);
}

/* Gives threads that can run back to v. Tasks stay. Owner, inside its section. */
static NOINLINE void give_back(struct ws_worker *w, struct ws_worker *v)
{
	long items = ws_deque_size(&w->w_deque);
	unsigned nr = uproc_queue_len(&w->w_proc.p_queue);
	struct uproc_thread *t = slot_take(w);

	if (t != NULL)
		give_to(w, v, t);
	while (items-- > 0) {
		struct ws_deque_item x = ws_deque_steal_alone(&w->w_deque);

		if (is_thread(x))
			give_to(w, v, x.i_arg);
		else if (is_task(x))		/* there is room for it */
			(void)ws_deque_push(&w->w_deque, x);
	}
	while (nr-- > 0 && (t = queue_get(&w->w_proc.p_queue)) != NULL)
		give_to(w, v, t);
	note_if_drained(w);
}

/* Ends the trial of the last theft, if that is due (steal_policy J7). As give_back(). */
static void try_theft(struct ws_worker *w)
{
	struct ws_thief *h = &w->w_thief;
	struct ws_worker *v;
	unsigned now;

	if (h->h_owner < 0)
		return;
	v   = worker(h->h_owner);
	now = now_ns();
	if (ws_policy_age(now, h->h_at) >= WS_POLICY_TRIAL &&
	    ws_policy_fails(h, switches_of(v) + switches_of(w), now))
		give_back(w, v);
}

/*
 * Returns how many workers a search looks at: as many as workers have bits, and some.
 * A search comes again soon, at others.
 */
static int few_workers(void)
{
	int nr = 4, of;

	for (of = set->set_nr; of > 1; of /= 2)
		nr++;
	return nr < set->set_nr ? nr : set->set_nr;
}

/* Returns the i-th worker from that of the last random number of w on. */
static struct ws_worker *random_worker(const struct ws_worker *w, int i)
{
	return worker((w->w_random % set->set_nr + i) % set->set_nr);
}

/*
 * Tries nr workers once, from a random worker on (xorshift: G. Marsaglia, 2003), until
 * something is taken.
 */
static void steal_from_any(struct ws_worker *w, struct stolen *o,
			   bool stuck_only, unsigned now, int nr)
{
	int i;

	w->w_random ^= w->w_random << 13;
	w->w_random ^= w->w_random >> 17;
	w->w_random ^= w->w_random << 5;
	for (i = 0; i < nr && o->o_nr == 0; i++) {
		struct ws_worker *v = random_worker(w, i);
		bool stuck_now = v != w && is_stuck(w, v, now);

		if (stuck_now || (v != w && !stuck_only &&
				  has_surplus(w, v, now)))
			steal_from(w, v, o, stuck_now);
	}
}

/* Which stuck workers a round tries before others. */
enum stuck { STUCK_NONE, STUCK_FEW, STUCK_ALL };

/* Tries stuck workers first; then some workers, if w is idle. */
static struct uproc_thread *steal_round(struct ws_worker *w, enum stuck stuck,
					bool idle)
{
	long tasks = ws_deque_look(&w->w_deque);
	unsigned now = now_ns();
	struct uproc_thread *t;
	struct stolen o;

	o.o_nr = 0;
	o.o_tasks = stock_reserve(w, tasks + STEAL_MOST) ?	/* runnable W7 */
		STEAL_MOST : (int)(w->w_stock.k_nr - tasks);
	if (stuck != STUCK_NONE)
		steal_from_any(w, &o, true, now, stuck == STUCK_ALL ?
			       set->set_nr : few_workers());
	if (o.o_nr == 0 && idle)
		steal_from_any(w, &o, false, now, few_workers());
	if (o.o_nr == 0)
		return NULL;
	t = adopt_stolen(w, &o);
	ws_policy_stole(&w->w_thief, now, now_ns(), w->w_mail);
	TALLY(w, thefts, 1);
	TALLY(w, stolen, o.o_nr);
	return t;
}

#endif /* WS_THEFT_H */
