/* SPDX-License-Identifier: MIT */
/* pr.c: a scheduler with priorities: the most urgent thread runs first. */

/*
 * A thread that becomes able to run, in any way, is put in p_queue, which has
 * room for all threads. next() moves threads from there to lists, one for each
 * priority, linked through the threads, and takes a thread from a list.
 *
 * Q1. A thread that can run, and does not, is in p_queue or in one list, once.
 * Q2. Bit i of pp_can is set exactly if list i is not empty.
 * Q3. When next() chooses, p_queue is empty. So it chooses the first thread of
 *     a list: of the highest priority present, except for one switch in
 *     PR_FAIR.
 * Q4. That switch serves the lists in turn, without empty lists.
 */

#define USCHED_PREEMPT	1
#define PR_INLINE	__attribute__((noinline))
#include "pr.h"

#include <errno.h>
#include <limits.h>

UPREEMPT_NEVER;

struct pr_proc {
	struct uproc      pp_proc;	/* first: s_next() casts */
	struct pr_thread *pp_first[PR_NR];
	struct pr_thread *pp_last[PR_NR];
	unsigned          pp_can;	/* pr Q2 */
	unsigned          pp_fair;	/* modulo PR_NR: pr Q4 */
};

static struct uproc_set *set;
static long stuck;

static void put(struct pr_proc *r, struct pr_thread *t)
{
	int i = t->pt_thread.t_stack.u_mark / UPROC_OWN;

	t->pt_next = NULL;
	if (r->pp_can & 1u << i)
		r->pp_last[i]->pt_next = t;
	else
		r->pp_first[i] = t;
	r->pp_last[i] = t;
	r->pp_can |= 1u << i;
}

static struct ustack *get(struct pr_proc *r, int i)
{
	struct pr_thread *t = r->pp_first[i];

	r->pp_first[i] = t->pt_next;
	if (t->pt_next == NULL)
		r->pp_can &= ~(1u << i);
	return &t->pt_thread.t_stack;
}

/* Sorts the threads in p_queue, in the order in which they came. */
static void sort(struct pr_proc *r)
{
	while (!uproc_queue_empty(&r->pp_proc.p_queue))
		put(r, (struct pr_thread *)uproc_queue_get(&r->pp_proc.p_queue));
}

static int highest(const struct pr_proc *r)
{
	return sizeof r->pp_can * CHAR_BIT - 1 - __builtin_clz(r->pp_can);
}

static int in_turn(struct pr_proc *r)
{
	while (!(r->pp_can >> r->pp_fair++ % PR_NR & 1))
		;
	return (r->pp_fair - 1) % PR_NR;
}

static struct ustack *next(struct usched *s)
{
	struct pr_proc *r = (struct pr_proc *)s;
	unsigned switches = ++r->pp_proc.p_switches;

	if (!UPROC_SINGLE && uproc_is_late(&r->pp_proc, switches))
		uproc_drain(&r->pp_proc);
	sort(r);
	if (r->pp_can == 0) {
		if (!uproc_look(&r->pp_proc))
			return NULL;
		sort(r);
	}
	return get(r, switches % PR_FAIR != 0 ? highest(r) : in_turn(r));
}

/* Yields if other threads can run: next() says to which. See upreempt.h. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)s;

	if (u == NULL) {
		p->p_queue.q_tail--;
		return 0;
	}
	uproc_drain(p);
	sort((struct pr_proc *)p);
	if (((struct pr_proc *)p)->pp_can == 0)
		return 0;
	uproc_queue_put(&p->p_queue, (struct uproc_thread *)u);
	return 1;
}

static const struct uproc_ops ops = {
	.op_sched  = { .s_next = next, .s_preempt = preempt },
	.op_size   = sizeof(struct pr_proc),
	.op_thread = sizeof(struct pr_thread),
	.op_name   = "pr_"
};

#define SCHED(name)	pr_##name
#define THREAD		struct pr_thread
#include <usched/uproc_api.h>

struct pr_thread *pr_thread_init(void (*f)(void *), void *arg, int proc,
				 unsigned priority)
{
	return make(proc, priority < PR_NR ? f : NULL, arg,
		    priority * UPROC_OWN);
}

struct pr_thread *pr_thread_joinable(void (*f)(void *), void *arg, int proc,
				     unsigned priority)
{
	return make(proc, priority < PR_NR ? f : NULL, arg,
		    priority * UPROC_OWN | UPROC_JOIN);
}

int pr_set(unsigned priority)
{
	struct ustack *u = (struct ustack *)pr_self();

	if (u == NULL || priority >= PR_NR)
		return -EINVAL;
	/* Atomic, since its joiner may read UPROC_JOIN. */
	__atomic_store_n(&u->u_mark, (u->u_mark & UPROC_JOIN) |
			 priority * UPROC_OWN, __ATOMIC_RELAXED);
	return 0;
}
