/* SPDX-License-Identifier: MIT */
/* messages.h: messages that have come to a worker. A part of ws.c. */

#ifndef WS_MESSAGES_H
#define WS_MESSAGES_H

/*
 * A worker takes its messages inside its section, or a thief takes them that
 * has stopped the worker (mail.h). The thread of a message may have another
 * home by now: then the message is posted there.
 *
 * LANES THAT FOLLOW MESSAGES
 *
 * Threads that wake each other should have the same home. So when wakes come
 * from another worker, the home of the lane now and then hands the lane over to
 * the waker. Messages are dense if the worker has less work for each than a
 * message costs (the price, steal_policy.h). Where they are dense, and the
 * worker has not plenty to run, the lane goes at once to a waker that has plenty,
 * or has the lower number. Without this rule a group of threads that is
 * split stays split: for each lane that comes another goes. A thread that is sent
 * because its lane was taken counts as woken, so the lane goes back where most of
 * its threads are.
 *
 * Events from outside do not count, though another worker may fetch them: lanes
 * would go back to workers from which they were stolen, together with all
 * threads of the lane. The descriptors follow the threads instead (upoll.c).
 *
 * DEADLINES
 *
 * Each worker has a wheel (uwait.h), which it touches inside its section. A
 * deadline stays in the wheel of the worker where its wait began, also if the
 * thread goes elsewhere. The home of the thread learns of the end of a wait by
 * a list beside the inbox. If a worker is stuck, a thief takes what is due
 * there, as it takes messages.
 *
 * REJECTED
 *
 * A lane that goes to any waker at each fourth message, also where messages are
 * dense: a group that is split took up to 6 s instead of 0.1 s to come
 * together. A lane that stays, though messages are dense, where the waker has
 * plenty to run and the worker has not: it would be work for an idle worker, but less
 * than its messages cost (a pipeline of 2,000 fine threads took 1.7 times as long
 * on two workers as on one). Density by time instead of work: two workers of which each waits
 * for the other have few messages in a second.
 */

#include "runnable.h"

#include <stddef.h>

#define MOVE_EACH	4	/* wakes from elsewhere: then a lane moves */
#define DENSE_NR	16	/* messages, and less work than these cost */
#define PLENTY		4096u	/* switches since w_drained */

/* Returns whether w has had other threads to run for long. */
static bool has_plenty(const struct ws_worker *w)
{
	return __atomic_load_n(&w->w_switches, __ATOMIC_RELAXED) -
	       __atomic_load_n(&w->w_drained, __ATOMIC_RELAXED) > PLENTY &&
	       (ws_deque_size(&w->w_deque) != 0 ||
		uproc_queue_len(&w->w_proc.p_queue) != 0);
}

/*
 * Counts a message, and notes whether messages are dense. Time without work is
 * left out: two workers that wait for each other have few messages, and still
 * less work.
 */
static void message_came(struct ws_worker *w)
{
	unsigned now;

	if (++w->w_mail % DENSE_NR != 0)
		return;
	now = now_ns() - w->w_idle;
	w->w_dense   = now - w->w_mail_at < DENSE_NR * w->w_thief.h_price;
	w->w_mail_at = now;
}

/* Returns whether e should move from w to a worker that woke a thread in it. */
static bool should_move(struct ws_worker *w, struct ws_lane *e,
			struct ws_worker *from)
{
	bool plenty = has_plenty(w);
	bool there = has_plenty(from);

	if (w->w_thief.h_gives && ws_policy_gives(&w->w_thief, now_ns()))
		return true;				/* steal_policy J7 */
	if (!plenty && w->w_dense)
		return there || from->w_proc.p_nr < w->w_proc.p_nr;
	if (!plenty && there)
		return false;
	return ++e->e_wakes % MOVE_EACH == 0;
}

/*
 * Moves the lane of t to the worker that woke t, now and then, so that threads
 * that wake each other come together. The home w, inside its section.
 */
static bool move_to_waker(struct ws_worker *w, struct uproc_thread *t)
{
	struct ws_lane *e = lane_of(t);
	struct ws_worker *from;

	from = __atomic_load_n(&e->e_from, __ATOMIC_RELAXED);
	if (!can_go(w, t) || t->t_stack.u_lane == 0 || from == NULL ||
	    from == w || !should_move(w, e, from))
		return false;
	lane_move_of(w, t, from);
	send_to(from, t);
	return true;
}

/*
 * Opens the node of t, whose home is w, and puts t where it belongs. Caller
 * is inside the section of w, or has stopped w. False: no memory, for now.
 */
static bool open_message(struct ws_worker *w, struct uproc_thread *t,
			 bool owner)
{
	unsigned bits = ws_mail_open(&t->t_wakes);
	bool can_run = bits & WS_MAIL_RUN;

	if (owner)
		message_came(w);
	if (ws_mail_wakes(bits) > 0 && uwakes_add(&t->t_wakes,
						  ws_mail_wakes(bits)))
		can_run = true;
	if (can_run && owner && move_to_waker(w, t))
		return true;
	lane_note(w, lane_of(t));
	if (!can_run || enqueue(w, t))
		return true;
	if (w->w_gate.g_slot == NULL) {
		ws_slot_set(&w->w_gate, t);
		return true;
	}
	send_to(w, t);
	return false;
}

/* Returns the thread of a node. */
static struct uproc_thread *thread_of(struct uinbox_node *n)
{
	struct uwakes *w;

	w = (struct uwakes *)((char *)n - offsetof(struct uwakes, w_node));
	return (struct uproc_thread *)((char *)w -
				       offsetof(struct uproc_thread, t_wakes));
}

/*
 * Ends the wait of r, whose thread is at home at w. Caller is inside the
 * section of w (owner), or has stopped w.
 */
static void arrive(struct ws_worker *w, struct uwait *r, bool owner)
{
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;

	uwait_arrived(r);
	if (owner)
		message_came(w);
	if (!uwakes_add(&t->t_wakes, 1) || (owner && move_to_waker(w, t)))
		return;
	lane_note(w, lane_of(t));
	if (enqueue(w, t))
		return;
	if (w->w_gate.g_slot == NULL)
		ws_slot_set(&w->w_gate, t);
	else
		send_to(w, t);
}

/* Posts r to w, whose list is taken at the next look. Any thread. */
static void waits_post(struct uwait_base *b, struct uwait *r)
{
	struct uproc *p = (struct uproc *)b->wb_sched;

	uwait_post(b, r);
	USCHED_RACE(proc_wake);
	uidle_wake(&p->p_set->set_idle, &p->p_asleep);
	end_unwatched();
}

/* Handles r, which was posted to w. False: r stays, for w itself. */
static bool take_wait(struct ws_worker *w, struct uwait *r, bool owner)
{
	const struct uproc_thread *t = (struct uproc_thread *)r->w_stack;
	struct ws_worker *home;

	if (__atomic_load_n(&r->w_state, __ATOMIC_RELAXED) == UWAIT_ARRIVED)
		return owner && uwait_orphan(&w->w_proc.p_waits, r);
	home = ws_home(t);
	USCHED_RACE(ws_take);
	if (home != w)
		waits_post(&home->w_proc.p_waits, r);
	else if (!owner && t->t_stack.u_lane == w->w_running_lane)
		return false;
	else
		arrive(w, r, owner);
	return true;
}

/*
 * Ends the waits of w whose deadline has passed, or whose end was posted.
 * Caller is inside the section of w (owner), or has stopped w.
 */
static NOINLINE void take_waits(struct ws_worker *w, bool owner)
{
	struct uwait_base *b = &w->w_proc.p_waits;
	struct uwait *left = NULL;
	struct uwait **end = &left;
	struct uwait *r, *more;

	if (uproc_is_due(&w->w_proc))
		uwait_complete_due(uwait_claim_due(b));	/* posts them to homes */
	for (r = uwait_take(b); r != NULL; r = more) {
		more = r->w_at.link;
		if (take_wait(w, r, owner))
			continue;
		*end = r;
		end = &r->w_at.link;
	}
	for (*end = NULL; left != NULL; left = more) {
		more = left->w_at.link;
		uwait_post(b, left);
	}
}

/*
 * Takes the messages of w. Caller is the worker me: w itself, inside its
 * section, or a thief that has stopped w.
 */
static void take_messages(struct ws_worker *w, struct ws_worker *me)
{
	bool owner = me == w;
	struct uinbox_node *last = NULL;
	struct uinbox_node *n;

	while ((n = uinbox_take(&w->w_proc.p_inbox)) != NULL) {
		struct uproc_thread *t = thread_of(n);
		struct ws_worker *home;

		if (ws_mail_gone(&t->t_wakes)) {
			if (ws_mail_open(&t->t_wakes) & UWAKES_LEFT)
				uproc_free(&me->w_proc, t);
			continue;
		}
		home = ws_home(t);
		if (home != w && home != NULL) {
			post_node(home, t);
			continue;
		}
		/* A thread of the lane of t runs: the count of t is in use. */
		if (!owner && home == w &&
		    t->t_stack.u_lane == w->w_running_lane) {
			n->n_next = last;
			last = n;
			continue;
		}
		if (!open_message(w, t, owner))
			break;
	}
	while ((n = last) != NULL) {
		last = n->n_next;
		uinbox_post(&w->w_proc.p_inbox, n);
	}
	if (uwait_must_look(&w->w_proc.p_waits))
		take_waits(w, owner);
}

#endif /* WS_MESSAGES_H */
