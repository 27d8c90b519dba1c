/* SPDX-License-Identifier: MIT */
/* timers.h: deadlines of waits: the timers of a base. A part of uwait.c. */

#ifndef UTIMERS_H
#define UTIMERS_H

/*
 * Each base has a wheel (wheel.h). The record is its own timer, so a deadline
 * needs no memory but the wheel, which is made once. A timer belongs to the
 * base that started it, also if its thread then moves to another (ws). The
 * thread that ends its wait elsewhere posts the record back as an orphan, and
 * the owner of the base takes the timer out and frees the record. An orphan has
 * arrived already, so if its deadline passes first, the claim fails.
 *
 * The owner of a base claims what is due while it has the wheel to itself, by
 * uwait_claim_due(), and completes it afterwards, by uwait_complete_due(). Between the two
 * steps the records exist, since they have not arrived. Processors do so in
 * drain() of arrive.h and take_waits() of lib/steal/messages.h, plain dispatchers in
 * utime_run() and utime_idle().
 *
 * D1. A timer is touched only by who has its base to itself (o_enter).
 * D2. wb_timers is the number of nodes in the wheel. wb_due is not later than
 *     the first deadline, and UNEVER exactly if wb_timers is 0.
 * D3. No timer fires before its deadline. It fires at the first look after the
 *     tick that holds its deadline, or is the next.
 *
 * REJECTED
 *
 * A heap of timers: at a million timers 150 to 222 ns for a stop and a start,
 * where the wheel takes 109 to 139. And its array may fail to grow.
 */

#include "uwait_inside.h"

#define TICK_SHIFT	16	/* real time: 65.5 us */

/* Returns how messages name the call that waits. */
static const char *call_of(const struct uwait_kind *kind)
{
	return kind->wk_call != NULL ? kind->wk_call : kind->wk_name;
}

static NOINLINE void deadline_see(const struct uwait *w, utime_ns until)
{
	if (uwait_kind(w) != UWAIT_TIMER)
		uwait_deadline(until, call_of(uwait_kind(w)));
}

static void enter(struct uwait_base *b)
{
	b->wb_ops->o_enter(b);
}

static void leave(struct uwait_base *b)
{
	b->wb_ops->o_leave(b);
}

/* Makes the wheel of b, the caller's. False: no memory. */
static bool wheel_make(struct uwait_base *b)
{
	struct uwheel *wheel = b->wb_sched->s_alloc(b->wb_sched, sizeof *wheel);

	if (wheel == NULL)
		return false;
	uwheel_init(wheel, unow(), utime_clock.c_virtual ? 0 : TICK_SHIFT);
	enter(b);
	b->wb_wheel = wheel;
	leave(b);
	return true;
}

/* Returns when to look at the wheel. Virtual time should not stop in between. */
static uint64_t next_look(const struct uwheel *wheel)
{
	return utime_clock.c_virtual ? uwheel_next_exact(wheel) : uwheel_next(wheel);
}

/* Sets wb_due (D2). Caller has b to itself. */
static void due_set(struct uwait_base *b)
{
	uint64_t next = b->wb_timers != 0 ? next_look(b->wb_wheel) : UNEVER;

	if (next >= UNEVER && b->wb_timers != 0)
		next = UNEVER - 1;
	__atomic_store_n(&b->wb_due, (utime_ns)next, __ATOMIC_RELAXED);
}

/* Does the same for a timer that was started, whose deadline is the first. */
static void due_set_first(struct uwait_base *b, utime_ns until)
{
	if (utime_clock.c_virtual)
		__atomic_store_n(&b->wb_due, until, __ATOMIC_RELAXED);
	else
		due_set(b);
}

static void timers_add(struct uwait_base *b, long nr)
{
	__atomic_store_n(&b->wb_timers, b->wb_timers + nr, __ATOMIC_RELAXED);
}

/* Returns the base of s, the caller's, with a wheel. NULL: no memory. */
static struct uwait_base *timed_base_of(struct usched *s)
{
	struct uwait_base *b = uwait_base_of(s);

	return b != NULL && (b->wb_wheel != NULL || wheel_make(b)) ? b : NULL;
}

/* Starts the deadline of w, whose thread is the caller. 0, -ENOMEM. */
static int timer_start(struct uwait *w, struct usched *s, utime_ns until)
{
	struct uwait_base *b = timed_base_of(s);

	if (b == NULL)
		return -ENOMEM;
	w->w_base = b;
	enter(b);
	uwheel_start(b->wb_wheel, &w->w_node, (uint64_t)until);
	timers_add(b, 1);
	if (until < b->wb_due)
		due_set_first(b, until);
	leave(b);
	if (unlikely(until < utime_earliest))
		deadline_see(w, until);
	return 0;
}

/* Takes the timer of w out. Caller has b, its base, to itself. */
static void timer_out(struct uwait_base *b, struct uwait *w)
{
	if (w->w_node.n_prev == NULL)
		return;
	uwheel_stop(b->wb_wheel, &w->w_node);
	timers_add(b, -1);
	if (b->wb_timers == 0)
		__atomic_store_n(&b->wb_due, UNEVER, __ATOMIC_RELAXED);
}

/* Takes the timer of w out, unless another base than that of s has it. */
static void timer_stop(struct uwait *w, const struct usched *s)
{
	struct uwait_base *b = w->w_base;

	if (b == NULL || b != s->s_waits)
		return;
	enter(b);
	timer_out(b, w);
	leave(b);
	w->w_base = NULL;
}

#endif /* UTIMERS_H */
