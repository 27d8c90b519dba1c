/* SPDX-License-Identifier: MIT */
/* dispatcher.h: call-backs of the dispatcher, and yields. A part of uproc.c. */

#ifndef UPROC_DISPATCHER_H
#define UPROC_DISPATCHER_H

/*
 * Call-backs of struct usched (usched.h) that do not depend on the order of threads: a
 * thread ends, is preempted, waits or makes a thread by calls that work in any scheduler.
 * What rr and ll give way by is here, too.
 */

#include "deal.h"
#include "join.h"
#include "looks.h"
#include "make.h"

static int wait_here(struct usched *s)
{
	(void)s;
	return uproc_wait();
}

/* Makes a thread as rr_thread_init() does. */
static int make_dealt(struct usched *s, void (*f)(void *), void *arg, int lane)
{
	struct uproc_set *set = ((struct uproc *)s)->p_set;

	return uproc_make(uproc_at(set, uproc_deal(set)), f, arg,
			  uproc_flags(lane)) != NULL ? 0 : -errno;
}

static void thread_done(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;

	__atomic_fetch_sub(&p->p_threads, 1, __ATOMIC_RELAXED);
	slice_free(p, t);
	if (u->u_mark & UPROC_JOIN) {
		(void)uwakes_close(&t->t_wakes, 0);
		uproc_end(p, t);
	} else if (likely(uwakes_close(&t->t_wakes, UWAKES_LEFT)))
		uproc_free(p, t);
}

/* Puts u at the end of the queue, as after a yield, if others can run. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)s;

	if (u == NULL) {
		p->p_queue.q_tail--;
		return 0;
	}
	uproc_drain(p);
	if (uproc_queue_empty(&p->p_queue) && p->p_sched.s_hot == NULL)
		return 0;
	uproc_queue_put(&p->p_queue, (struct uproc_thread *)u);
	return 1;
}

#if defined(USCHED_HARD)
void uproc_stays(const struct uproc_thread *t)
{
	/* A generator fails at its block, for any scheduler. */
	if (t->t_stack.u_sched->s_done != thread_done &&
	    !t->t_stack.u_sched->s_coroutine)
		uproc_fail("wait: called in a thread of another scheduler; "
			   "u_wait_until(UNEVER) waits in all");
}
#endif

int uproc_yield(void)
{
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	struct uproc *p;
	int rc;

	if (t == NULL || t->t_stack.u_sched->s_done != thread_done)
		uproc_fail("yield: called outside of a thread of this scheduler; "
			   "u_sleep(UNOW) gives way in all");
	UHARD(yield());
	p = uproc_of(t);
	uproc_queue_put(&p->p_queue, t);
	rc = ustack_block();
	if (rc != 0)
		p->p_queue.q_tail--;
	return rc;
}

#endif /* UPROC_DISPATCHER_H */
