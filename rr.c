/* SPDX-License-Identifier: MIT */
/* rr.c: a fair scheduler: first in, first out on each processor. */

/*
 * Threads run in the order of the processor's queue (uproc.h). A thread goes to
 * the end of the queue when it is made, woken or preempted, or yields. Remote
 * wakes, and threads made elsewhere, come to the inbox first. The processor
 * looks there when it is late (rounds.h), and whenever the queue is empty.
 * Between these looks the dispatcher takes the threads from the queue itself.
 * There is nothing else to this scheduler.
 *
 * R1. A thread is in the queue at most once. It is put there when its wake
 *     count goes from -1 to 0, by its own yield, and when it is preempted.
 * R2. Of two threads in the queue of a processor, the thread that was put there
 *     first runs first.
 */

#define USCHED_PREEMPT	1
#define RR_INLINE	__attribute__((noinline))
#define UPROC_PROBES	1
#include "rr.h"

#include <errno.h>

UPREEMPT_NEVER;

static struct uproc_set *set;
static long stuck;

static struct ustack *next(struct usched *s)
{
	struct uproc *p = (struct uproc *)s;
	unsigned switches = uproc_count(p);

	if ((uproc_queue_empty(&p->p_queue) || uproc_is_late(p, switches)) &&
	    !uproc_look(p))
		return NULL;
	uproc_prepare(p, next);
	return &uproc_queue_get(&p->p_queue)->t_stack;
}

static const struct uproc_ops ops = { .op_sched.s_next = next, .op_name = "rr_" };

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

int rr_make_here(struct usched *d, void (*f)(void *), void *arg)
{
	return uproc_make((struct uproc *)d, f, arg, 0) != NULL ? 0 : -errno;
}

struct rr_thread *rr_thread_joinable(void (*f)(void *), void *arg)
{
	return make(uproc_deal(set), f, arg, UPROC_JOIN);
}
