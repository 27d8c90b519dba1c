/* SPDX-License-Identifier: MIT */
/* plain.h: tiny.h with the call-backs for waits, deadlines and new threads. */

#ifndef PLAIN_H
#define PLAIN_H

/*
 * Wakes are counted, so a wake that comes before its wait is not lost.
 * Threads are made by plain_make(), which fails if calloc() does.
 */
#include "tiny.h"
#include "uwait.h"

struct plain_thread {
	struct tiny_thread pt_tiny;	/* first */
	int                pt_wakes;	/* less waits; -1: it waits */
};

static UNUSED int plain_wait(struct usched *s)
{
	struct plain_thread *me = (struct plain_thread *)ustack_self();
	int rc = 0;

	CHECK_IS(me->pt_tiny.tt_stack.u_sched, s);
	if (--me->pt_wakes < 0 && (rc = ustack_block()) != 0)
		me->pt_wakes++;
	return rc;
}

static UNUSED void plain_wake(struct usched *s, struct ustack *u)
{
	struct plain_thread *t = (struct plain_thread *)u;

	CHECK_IS(u->u_sched, s);
	if (t->pt_wakes++ < 0)
		tiny_wake(&t->pt_tiny);
}

static UNUSED int plain_made(struct usched *s, void (*f)(void *), void *arg,
			     int lane)
{
	struct plain_thread *t = calloc(1, sizeof *t);

	if (t == NULL)
		return -ENOMEM;
	if (lane == USCHED_PRIVATE && usched_private(s, 1) != 0) {
		free(t);
		return -EAGAIN;
	}
	tiny_start((struct tiny *)s, &t->pt_tiny, f, arg);
	if (lane == USCHED_PRIVATE)
		t->pt_tiny.tt_stack.u_lane = USCHED_PRIVATE;
	return 0;
}

static UNUSED int plain_make(struct usched *s, void (*f)(void *), void *arg)
{
	return plain_made(s, f, arg, 0);
}

static UNUSED void plain_done(struct usched *s, struct ustack *u)
{
	tiny_done(s, u);
	free(u);
}

static UNUSED struct ustack *plain_next(struct usched *s)
{
	struct ustack *u;

	utime_run(s);
	while ((u = tiny_next(s)) == NULL && utime_idle(s))
		;
	return u;
}

/* lanes: as for tiny_init(). */
static UNUSED int plain_init(struct tiny *t, int lanes)
{
	int rc = tiny_init(t, lanes);

	t->t_sched.s_next = plain_next;
	t->t_sched.s_done = plain_done;
	t->t_sched.s_wait = plain_wait;
	t->t_sched.s_wake = plain_wake;
	t->t_sched.s_make = plain_made;
	return rc;
}

/* Checks that all threads have ended, and that all buffers were freed. */
static UNUSED void plain_fini(struct tiny *t)
{
	utime_fini(&t->t_sched);
	CHECK(t->t_live == 0 && t->t_held == 0 && t->t_bytes == 0);
	usched_fini(&t->t_sched);
}

#endif /* PLAIN_H */
