/* SPDX-License-Identifier: MIT */
/* choose.h: which thread a worker runs: the call-backs. A part of ws.c. */

#ifndef WS_CHOOSE_H
#define WS_CHOOSE_H

/*
 * The dispatcher calls next(), or quick() while s_quick is set. Both take the
 * thread in the slot if nothing is special: that is the hot path. If there is
 * none, next_slow() takes the newest of the deque, and next_choose() does the
 * rest: the queues, messages, thefts, sleep.
 *
 * quick() runs on the stack of the thread that blocks. The worker stays inside
 * its section until that stack has been left. Otherwise a thief could take the
 * lane, and another worker run in it.
 *
 * A worker that has threads of its own takes from stuck workers only. But a
 * worker with nothing but one thread, which yields again and again, takes from
 * all workers, as an idle worker does.
 *
 * When a worker is late (rounds.h), it looks for events and messages. The
 * order stays, but for W5: by age, tasks would run breadth first.
 *
 * W5. Of the oldest threads in the deque, the queue and the pinned queue, one
 *     runs at least each WS_RUN + 1 switches of its worker, in turn.
 *
 * REJECTED. Taking from workers that are not stuck while there are two threads
 * to run: two workers with two threads each that yield would take them to and
 * fro.
 */

#include "search.h"

/* Ends the pin of t, which was preempted, and runs again. */
static void preempt_end(struct ws_worker *w, struct uproc_thread *t)
{
	mark_set(t, t->t_stack.u_mark & ~PREEMPTED);
	unpin(w, t);
}

/* Chooses a lane for t, or w for good: then t has a home. */
static void thread_begin(struct ws_worker *w, struct uproc_thread *t)
{
	if (!set->set_on_native) {
		lane_set(t, lane_get(w, t));
		if (t->t_stack.u_mark & PINNED)
			pins_add(t, 1);
		return;
	}
	/* First: a waker that sees the mark may ask for the home. */
	sched_set(w, t);
	mark_set(t, t->t_stack.u_mark | BEGUN);
}

/*
 * Takes the oldest thread of the deque, the queue or the pinned queue, in turn
 * (W5). NULL: all are empty.
 */
static struct uproc_thread *oldest(struct ws_worker *w)
{
	struct uproc_thread *t;
	int i;

	for (i = 0; i < 3; i++) {
		w->w_next_kind = (w->w_next_kind + 1) % 3;
		switch (w->w_next_kind) {
		case 0:
			t = thread_for(w, ws_deque_steal_alone(&w->w_deque));
			break;
		case 1:
			t = queue_get(&w->w_proc.p_queue);
			break;
		default:
			t = ws_pinned_get(&w->w_pinned);
		}
		if (t != NULL) {
			note_if_drained(w);
			return t;
		}
	}
	return NULL;
}

/* Takes a thread in the usual order. NULL: all places are empty. */
static struct uproc_thread *newest(struct ws_worker *w)
{
	struct uproc_thread *t = slot_take(w);

	if (t != NULL)
		return t;
	t = thread_for(w, ws_deque_pop(&w->w_deque));
	if (t == NULL)
		t = queue_get(&w->w_proc.p_queue);
	if (t == NULL)
		return ws_pinned_get(&w->w_pinned);
	note_if_drained(w);
	return t;
}

/*
 * Looks for stuck workers, if a look is due, whatever else w has to run. A
 * worker with one thread, which yields again and again until something has
 * happened, counts as idle: the thread that makes it happen may need a worker.
 */
static struct uproc_thread *steal_while_running(struct ws_worker *w)
{
	bool idle = ws_deque_size(&w->w_deque) == 0 &&
		uproc_queue_len(&w->w_proc.p_queue) +
		ws_pinned_len(&w->w_pinned) <= 1;
	bool due = set->set_nr > 1 && !ws_is_watched(&all.s_watch) &&	/* watch U5 */
		ws_watch_due(&all.s_watch);				/* watch U6 */
	struct uproc_thread *t;

	if (set->set_nr == 1 || (!idle && !due))
		return NULL;
	ws_leave(w);
	t = steal_round(w, due ? STUCK_ALL : STUCK_NONE, idle);		/* watch U7 */
	if (due)
		remember_switches();					/* watch U8 */
	ws_enter(w);
	return t;
}

/* Called by a worker that runs again: while others sleep, one must watch. */
static void ensure_watch(void)
{
	if (ws_seek_parked(&all.s_seek) > 0 && !ws_is_watched(&all.s_watch))
		wake_sleeper();
}

/* Looks for events and messages, and at a theft. Owner, inside its section. */
static void look(struct ws_worker *w)
{
	uproc_round_end(&w->w_proc, w->w_switches);
	uproc_cool_in_time(&w->w_proc);
	try_theft(w);
	if (uwait_outside(&w->w_proc.p_waits))
		uwait_look_outside(&w->w_proc.p_waits);
	take_messages(w, w);
	uproc_round_begin(&w->w_proc, w->w_switches);
}

/*
 * Chooses a thread to run, and sleeps if need be. Owner, inside its section.
 * NULL: the set is stopped.
 */
static struct uproc_thread *choose(struct ws_worker *w, bool late)
{
	struct uproc_thread *t = NULL;
	struct uproc_rests rests = { 0, 0 };
	unsigned vain = 0;
	bool sought = false;

	w->w_running_lane = NONE;
	if (late)
		look(w);
	if (late && w->w_switches % (WS_RUN + 1) == 0) {
		t = slot_take(w);
		if (t != NULL)
			make_stealable(w, t);
		t = steal_while_running(w);
		if (t == NULL)
			t = oldest(w);
	}
	while (t == NULL && (t = newest(w)) == NULL) {
		take_messages(w, w);
		t = newest(w);
		if (t != NULL || uproc_stopped(set))
			break;
		ws_leave(w);
		uproc_round_end(&w->w_proc, w->w_switches);
		t = seek(w, &vain, &rests);
		uproc_round_begin(&w->w_proc, w->w_switches);
		sought = true;
		ws_enter(w);
	}
	if (sought && t != NULL)
		ensure_watch();
	return t;
}

/* Ends next() and the section of w: t will run. */
static inline struct ustack *go(struct ws_worker *w, struct uproc_thread *t)
{
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	ws_leave(w);
	return &t->t_stack;
}

/*
 * Runs t if w is its home, or else a thread that choose() gives. Owner, inside
 * its section, which ends.
 */
static NOINLINE struct ustack *next_choose(struct ws_worker *w,
					   struct uproc_thread *t, bool late)
{
	struct ws_worker *home;

	for (;; t = NULL) {
		if (t == NULL && (t = choose(w, late)) == NULL) {
			ws_leave(w);
			return NULL;
		}
		home = ws_home(t);
		if (home == w)
			break;
		if (home == NULL) {
			thread_begin(w, t);
			break;
		}
		lane_from(t, w);
		send_to(home, t);		/* its lane was taken */
	}
	if (t->t_stack.u_mark & PREEMPTED)
		preempt_end(w, t);
	return go(w, t);
}

/* Takes from the slot, then from the deque. Owner, outside its section. */
static NOINLINE struct ustack *next_slow(struct ws_worker *w)
{
	struct uproc_thread *t;

	ws_enter(w);
	if (uproc_is_late(&w->w_proc, w->w_switches))
		return next_choose(w, NULL, true);
	t = slot_take(w);
	if (t == NULL) {
		t = thread_for(w, ws_deque_pop(&w->w_deque));
		if (t == NULL)
			return next_choose(w, NULL, false);
		note_if_drained(w);
	}
	if (t->t_stack.u_lane == 0 && w->w_free != 0 &&
	    !(t->t_stack.u_mark & PINNED))
		lane_set(t, lane_get(w, t));
	else if (unlikely(ws_home(t) != w))
		return next_choose(w, t, false);
	return go(w, t);
}

/*
 * Takes the thread in the slot; NULL: next() has to choose. Called on the stack
 * of the thread that blocks. So w stays inside its section, and no thief takes
 * the lane of that thread, until the dispatcher clears s_gate.
 */
static struct ustack *quick(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned switches = w->w_switches + 1;
	bool sure = ws_stop_quick(&w->w_gate.g_stop);		/* homes W9 */
	struct uproc_thread *t;

	if (unlikely(!sure && !ws_stop_in(&w->w_gate.g_stop))) {
		ws_leave(w);
		return NULL;
	}
	t = w->w_gate.g_slot;
	if (t == NULL || uproc_must_ask(&w->w_proc, switches) ||
	    unlikely(!sure && !ws_is_home(w, t)) ||
	    (uintptr_t)t->t_stack.u_top & USCHED_NOT_READY ||
	    t->t_stack.u_mark & PREEMPTED) {
		ws_leave(w);
		return NULL;
	}
	ws_slot_set(&w->w_gate, NULL);
	__atomic_store_n(&w->w_switches, switches, __ATOMIC_RELAXED);
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	return &t->t_stack;
}

/* Takes the thread in the slot, or calls next_slow(). */
static struct ustack *next(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned switches = w->w_switches + 1;
	bool sure = ws_stop_quick(&w->w_gate.g_stop);		/* homes W9 */
	struct uproc_thread *t;

	s->s_quick = s->s_next == next ? quick : NULL;
	__atomic_store_n(&w->w_switches, switches, __ATOMIC_RELAXED);
	if (unlikely(!sure && !ws_stop_in(&w->w_gate.g_stop)))
		return next_slow(w);		/* and wait there */
	t = w->w_gate.g_slot;
	if (t == NULL || uproc_must_ask(&w->w_proc, switches) ||
	    unlikely(sure ? t->t_stack.u_lane == 0 : !ws_is_home(w, t)))
		return next_slow(w);
	ws_slot_set(&w->w_gate, NULL);
	return go(w, t);
}

/* Moves all that can run at w to the queue, and draws a thread. NULL: none. */
static struct uproc_thread *drawn(struct ws_worker *w)
{
	struct usched_queue *q = &w->w_proc.p_queue;
	struct uproc_thread *t;

	while ((t = w->w_gate.g_slot) != NULL && queue_room(q)) {
		ws_slot_set(&w->w_gate, NULL);
		uproc_queue_put(q, t);
	}
	while (queue_room(q) &&
	       (t = thread_for(w, ws_deque_pop(&w->w_deque))) != NULL)
		uproc_queue_put(q, t);
	while (ws_pinned_len(&w->w_pinned) > 0 && queue_room(q))
		uproc_queue_put(q, ws_pinned_get(&w->w_pinned));
	if (uproc_queue_empty(q))
		return NULL;
	uproc_shuffle(&w->w_proc);
	return uproc_queue_get(q);
}

/* Chooses at random: see utime_virtual(). Stands in the place of next(). */
static struct ustack *next_drawn(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;

	__atomic_store_n(&w->w_switches, w->w_switches + 1, __ATOMIC_RELAXED);
	ws_enter(w);
	take_messages(w, w);
	return next_choose(w, drawn(w), false);
}

/* Ends the pin of t, which has ended. Owner, outside its section. */
static NOINLINE void unpin_ended(struct ws_worker *w, struct uproc_thread *t)
{
	ws_enter(w);
	unpin(w, t);
	ws_leave(w);
}

/*
 * Frees the memory of a thread without a joiner, unless its node is in an
 * inbox: then the taker of the node frees it. Notifies a joiner now (mail.h).
 */
static void done(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;
	int lane = u->u_lane;

	if (u->u_mark & PINNED)
		unpin_ended(w, t);
	if (lane != 0 && s->s_lane[lane].l_bound == 0 && !is_fixed(w, lane) &&
	    lane <= s->s_lane_nr) {
		lane_list[lane].e_next = w->w_free;
		w->w_free = lane;
	}
	threads_add(w, -1);
	uproc_slice_free(&w->w_proc, t);
	if (u->u_mark & UPROC_JOIN) {
		(void)ws_mail_close(&t->t_wakes, 0);
		uproc_end(&w->w_proc, t);
	} else if (likely(ws_mail_close(&t->t_wakes, UWAKES_LEFT)))
		thread_free(w, t);
}

/*
 * Lets a thread that has ended, and has never blocked, go on as the next task:
 * nothing is left of what it was. Not in a lane that must stay, where no thief
 * could take the new thread. Nor in a lane for one thread alone, where it may
 * have blocked without a buffer. A task that will have such a lane needs a
 * thread of its own, too.
 */
static int again(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;
	unsigned switches = w->w_switches + 1;
	struct ws_deque_item x = ws_deque_none(NULL);
	int lane;

	if (uproc_must_ask(&w->w_proc, switches) || s->s_next != next ||
	    u->u_stack != NULL || u->u_mark != 0 || u->u_f == ustack_shell ||
	    ws_mail_settled(&t->t_wakes) || lane_stays(t) ||
	    u->u_lane > s->s_lane_nr)
		return 0;
	ws_enter(w);
	if (w->w_gate.g_slot == NULL)
		x = ws_deque_pop(&w->w_deque);
	if (is_task(x) && (lane = lane_private(w, ustack_f(task_f(x),
							 x.i_arg))) != 0) {
		x = thread_item(thread_for(w, x));
		lane_set(x.i_arg, lane);
	}
	if (likely(is_task(x))) {
		__atomic_store_n(&w->w_switches, switches, __ATOMIC_RELAXED);
		note_if_drained(w);
		task_begin(t, x);
	} else if (is_thread(x))
		ws_slot_set(&w->w_gate, x.i_arg);
	ws_leave(w);
	return is_task(x);
}

#endif /* WS_CHOOSE_H */
