/* SPDX-License-Identifier: MIT */
/* forked.h: a child that fork() has made. A part of uproc.c. */

#ifndef UPROC_FORKED_H
#define UPROC_FORKED_H

/*
 * The child of fork() has a copy of each set, but only the native thread that
 * called. In this copy locks may stay taken, lists half changed, and posts
 * half-way. So the child neither uses nor frees a set that an ancestor has
 * started. uproc_forks counts the forks, and set_forks is their number when the
 * set was started. If there are more by now, calls that would need the
 * processors return -ECHILD. uproc_init() puts a new set in the place of such a
 * set.
 *
 * In the child, a thread that has forked is still on its lane. It may go on
 * there, but its processor cannot run other threads. in_child() gives the
 * dispatcher call-backs that name the contract, so waits and wakes pay nothing
 * for this check.
 *
 * The locks of the whole library are whole in the child: ufork.h. A prepare
 * handler that takes set_lock, too, would make the whole set usable in the
 * child, except for half-way posts. Rejected: a signal handler may fork while
 * its native thread holds the lock.
 */

#include "pinning.h"
#include "ufork.h"

int uproc_forks;

/* Call-backs of the dispatcher in the child that one of its threads forked. */

static __attribute__((noreturn, cold)) void lost(void)
{
	usched_fail("fork: the child of a thread cannot wait, yield or end as "
		    "that thread: it must exec, _exit, or start a scheduler "
		    "of its own");
}

static struct ustack *lost_next(struct usched *s)
{
	(void)s;
	lost();
}

static void *lost_alloc(struct usched *s, int size)
{
	(void)s;
	(void)size;
	lost();
}

bool uproc_lost(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL && u->u_sched->s_next == lost_next;
}

void uproc_fail(const char *misuse)
{
	if (uproc_lost())
		lost();
	usched_fail(misuse);
}

/* Called in the child, by the native thread that has called fork(). */
static void in_child(void)
{
	struct uproc *p = mine;

	uproc_forks++;
	if (p == NULL)
		return;
	(void)uproc_pin(false);
	mine = NULL;
	p->p_sched.s_next    = lost_next;
	p->p_sched.s_alloc   = lost_alloc;
	p->p_sched.s_done    = NULL;
	p->p_sched.s_again   = NULL;
	p->p_sched.s_preempt = NULL;
	p->p_waits.wb_looked = 0;	/* calls do not give way */
	if (p->p_set->set_ops.op_move.mv_forked != NULL)
		p->p_set->set_ops.op_move.mv_forked(p);
}

static struct ufork at_fork = {
	.f_rank = UFORK_PROCESSORS, .f_child = in_child
};
UFORK(at_fork)

#endif /* UPROC_FORKED_H */
