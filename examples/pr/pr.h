/* SPDX-License-Identifier: MIT */
/* pr.h: a scheduler with priorities: the most urgent thread runs first. */

#ifndef PR_H
#define PR_H

/*
 * Each thread has a priority, 0 to PR_NR - 1. When a thread blocks, yields or
 * ends, its processor runs a thread of the highest priority that can run.
 * Threads of the same priority take turns, first in, first out. A wake does not
 * take the processor away from the waker.
 *
 * So that no thread starves, once in PR_FAIR switches the next priority in turn
 * is served, from 0 up to the highest, whatever else can run. The n-th thread
 * of its priority on its processor runs after at most n * PR_NR * PR_FAIR
 * switches.
 *
 * Otherwise this scheduler is used like rr.h, and its functions do the same.
 */

#include <usched/uproc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PR_NR	8
#define PR_FAIR	64	/* a power of two: switches are counted modulo 2^32 */

struct pr_thread {
	struct uproc_thread pt_thread;	/* first */
	struct pr_thread   *pt_next;	/* in the list of its priority */
};

int  pr_init(int proc_nr, int thread_nr);	/* proc_nr 0: all cpus */
int  pr_stack_size(size_t size);
struct usched *pr_sched(int proc);
int  pr_preempt(void);
int  pr_pinning(int on);
int  pr_private(int on);
int  pr_start(void);
int  pr_fini(void);
long pr_stuck(void);
void pr_hold(void);
void pr_release(void);

/*
 * Makes a thread on processor proc modulo their number. EINVAL also if there is
 * no such priority.
 */
struct pr_thread *pr_thread_init(void (*f)(void *), void *arg, int proc,
				 unsigned priority);
struct pr_thread *pr_thread_joinable(void (*f)(void *), void *arg, int proc,
				     unsigned priority);
int pr_join(struct pr_thread *t);

/*
 * Sets the priority of the running thread, which goes on: it must yield if
 * others are to go first. 0; -EINVAL: no such priority, or not called by a
 * thread.
 */
int pr_set(unsigned priority);

int  pr_yield(void);
struct pr_thread *pr_self(void);
void pr_post(struct pr_thread *t);
void pr_done(void);

/* With USCHED_PREEMPT, or in the hard mode, these are not inline. */
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(PR_INLINE)
int  pr_wait(void);
void pr_wake(struct pr_thread *t);
#else
#if !defined(PR_INLINE)		/* pr.c makes functions of them */
#define PR_INLINE	static __inline__
#endif

/*
 * Waits for a wake, or takes a wake that has come. 0 or -ENOMEM. Threads only.
 */
PR_INLINE int pr_wait(void)
{
	return uproc_wait();
}

/* Wakes t, or lets its next wait through. Any thread; not a signal handler. */
PR_INLINE void pr_wake(struct pr_thread *t)
{
	struct uproc_thread *u = &t->pt_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p))
		uproc_post(u);
	else if (uwakes_add(&u->t_wakes, 1))
		uproc_queue_put(&p->p_queue, u);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* PR_H */
