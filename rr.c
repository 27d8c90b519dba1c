/* SPDX-License-Identifier: MIT */
/* rr.c: a fair scheduler: first in, first out on each processor. */

/*
 * The order is that of the queue of the processor (uproc.h), into which wakes,
 * yields and new threads are put in the order in which they come. Those from
 * elsewhere come when the inbox is looked at: each RR_LOOK switches, and when
 * the queue is empty. There is nothing else to this scheduler.
 *
 * R1. A thread is in the queue at most once: it is put there when its wake
 *     count goes from -1 to 0, by its own yield, and when it is
 *     preempted.
 * R2. Of two threads in the queue of a processor, the one that was put there
 *     first runs first.
 */

#define USCHED_PREEMPT	1
#define RR_INLINE	__attribute__((noinline))
#include "rr.h"

UPREEMPT_NEVER;

#define RR_LOOK	16

static struct uproc_set *set;
static long stuck;

/* Not inline: its frame is not on the way of the others. */
static __attribute__((noinline)) struct ustack *look(struct uproc *p)
{
	return uproc_look(p) ? &uproc_queue_get(p)->t_stack : NULL;
}

static struct ustack *next(struct usched *s)
{
	struct uproc *p = (struct uproc *)s;

	if (uproc_queue_empty(&p->p_queue) ||
	    (!UPROC_SINGLE && ++p->p_turn % RR_LOOK == 0))
		return look(p);
	return &uproc_queue_get(p)->t_stack;
}

static const struct uproc_kind kind = { .k_next = next };

#define SCHED(name)	rr_##name
#define THREAD		struct rr_thread
#include "uproc_api.h"

struct rr_thread *rr_thread_init(void (*f)(void *), void *arg)
{
	return make(uproc_deal(set), f, arg, 0);
}

struct rr_thread *rr_thread_on(int proc, void (*f)(void *), void *arg)
{
	return make(proc, f, arg, 0);
}

struct rr_thread *rr_thread_joinable(void (*f)(void *), void *arg)
{
	return make(uproc_deal(set), f, arg, UPROC_JOIN);
}
