/* SPDX-License-Identifier: MIT */
/* ll.c: a local scheduler: threads of a group share a processor. */

/*
 * The thread woken last is prepared (s_hot), and runs next. Two threads that
 * wake each other in turn never touch the queue, and with lanes their slices
 * are never copied. The same holds for a ring in which a single thread at a
 * time can run.
 *
 * A pair that never stops would starve the queue. So once in LL_RUN + 1 switches,
 * to whatever threads, s_hot goes to the end of the queue, and the first thread of
 * the queue runs. A look at what comes from outside (rounds.h) does not
 * change the order, except in a driven set (uloop.h): the loop of the program gets its
 * turn where the queue is asked.
 *
 * L1. A thread is s_hot or in the queue at most once. It is put there when its
 *     wake count goes from -1 to 0, by its own yield, and when it is preempted.
 * L2. In LL_RUN + 1 switches at least one thread is taken from the queue, if
 *     any is in it. So the n-th thread of the queue runs after at most
 *     n * (LL_RUN + 1) switches.
 */

#define USCHED_PREEMPT	1
#define LL_INLINE	__attribute__((noinline))
#define UPROC_PROBES	1
#include "ll.h"

#include <errno.h>
#include <stdbool.h>

UPREEMPT_NEVER;

static struct uproc_set *set;
static long stuck;

/* Looks, while t runs next. Returns t; NULL: p is driven, so t waits in the queue. */
static __attribute__((noinline)) struct ustack *look_late(struct uproc *p,
							  struct ustack *t)
{
	if (!uproc_is_driven(p)) {
		uproc_drain(p);
		return t;
	}
	uproc_queue_put(&p->p_queue, (struct uproc_thread *)t);
	return NULL;
}

static struct ustack *next(struct usched *s)
{
	struct uproc *p = (struct uproc *)s;
	unsigned switches = uproc_count(p);
	bool late = uproc_is_late(p, switches);
	struct ustack *t = s->s_hot;

	s->s_hot = NULL;
	if (t != NULL && (switches % (LL_RUN + 1) == 0 || p->p_random != 0)) {
		uproc_queue_put(&p->p_queue, (struct uproc_thread *)t);
		t = NULL;
	}
	if (t != NULL && late)
		t = look_late(p, t);
	if (t == NULL && (late || uproc_queue_empty(&p->p_queue)) &&
	    !uproc_look(p))
		return NULL;
	uproc_prepare(p, next);
	return t != NULL ? t : &uproc_queue_get(&p->p_queue)->t_stack;
}

/* Puts t where a wake by the running thread puts it: L1. */
static void soon(struct uproc *p, struct uproc_thread *t)
{
	struct ustack *before = p->p_sched.s_hot;

	p->p_sched.s_hot = &t->t_stack;
	if (before != NULL)
		uproc_queue_put(&p->p_queue, (struct uproc_thread *)before);
}

/* A thread made by another stays with it, as in a group. */
static int make_here(struct usched *s, void (*f)(void *), void *arg, int lane)
{
	return uproc_make((struct uproc *)s, f, arg, uproc_flags(lane)) != NULL ?
		0 : -errno;
}

static const struct uproc_ops ops = {
	.op_sched = { .s_next = next, .s_make = make_here },
	.op_soon = soon, .op_name = "ll_"
};

#define SCHED(name)	ll_##name
#define THREAD		struct ll_thread
#include "uproc_api.h"

struct ll_thread *ll_thread_init(void (*f)(void *), void *arg, int group)
{
	return make(group, f, arg, 0);
}

struct ll_thread *ll_thread_joinable(void (*f)(void *), void *arg, int group)
{
	return make(group, f, arg, UPROC_JOIN);
}
