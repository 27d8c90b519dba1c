/* SPDX-License-Identifier: MIT */
/* ll.h: a local scheduler: threads of a group share a processor. */

#ifndef LL_H
#define LL_H

/*
 * Put threads that wake each other into one group: all threads of a group run
 * on the same processor. Waits and wakes within a processor use no lock and no
 * atomic instruction.
 *
 * The thread that was woken last runs next, while its data is in the cache. It
 * takes the place of the thread woken before it, which goes to the end of a
 * queue (first in, first out). The processor serves the queue when no thread
 * was just woken, and at least once in LL_RUN + 1 switches. So the n-th thread
 * of the queue runs after at most n * (LL_RUN + 1) switches.
 *
 * Apart from that ll is used like rr. A function ll_x() does what rr_x() does
 * (rr.h), with the same callers and errors, also in the child of fork(). Only
 * the hint of ll_init() does not deal threads, because the maker chooses the
 * group. ll_init(0, 0) makes a processor for each cpu. A remote wake, by a
 * thread of another processor or by a native thread, is a message, as in rr. A
 * native thread, or a thread of another scheduler, that may still wake threads
 * of ll must hold it: ll_hold().
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LL_RUN	63

struct ll_thread {
	struct uproc_thread l_thread;
};

/* Makes the scheduler as rr_init(); thread_nr is a hint for memory only. */
USCHED_MUST int  ll_init(int proc_nr, int thread_nr);

/* Sets the size of stacks as rr_stack_size(). */
int  ll_stack_size(size_t size);

/* Returns the dispatcher of a processor, or NULL, as rr_sched(). */
struct usched *ll_sched(int proc);

/* Permits preemption of threads of ll, as rr_preempt(). */
int  ll_preempt(void);

/* Gives threads of ll made from now on private stacks, as rr_private(). */
int  ll_private(int on);

/* Pins the processors of ll, or lets them run on all cpus, as rr_pinning(). */
int  ll_pinning(int on);

/* Starts the processors as rr_start(). */
USCHED_MUST int  ll_start(void);

/* Waits for the end of all threads of ll, as rr_fini(). */
int  ll_fini(void);

/* Returns how many threads the last ll_fini() has dropped. */
long ll_stuck(void);

/* Holds the scheduler against ll_fini(), as rr_hold(). */
void ll_hold(void);

/* Ends an ll_hold(). Any thread or native thread. */
void ll_release(void);

/*
 * Makes a thread of this group, as rr_thread_init(). It runs on processor group
 * modulo proc_nr.
 */
USCHED_MUST struct ll_thread *ll_thread_init(void (*f)(void *), void *arg, int group);

/* Makes a joinable thread of this group: see rr_thread_joinable(). */
USCHED_MUST struct ll_thread *ll_thread_joinable(void (*f)(void *), void *arg, int group);

/* Waits until t, a joinable thread of ll, has ended; frees it: rr_join(). */
int  ll_join(struct ll_thread *t);

/* Joins t until a deadline, as rr_join_until(). Also native threads. */
USCHED_MUST int  ll_join_until(struct ll_thread *t, utime_ns until);

/* Puts the caller at the end of its processor's queue, as rr_yield(). */
int  ll_yield(void);

/* Returns the running thread if it is a thread of ll, else NULL. */
struct ll_thread *ll_self(void);

/* Wakes t, as ll_wake() does. Any thread; on Linux also a signal handler. */
void ll_post(struct ll_thread *t);

/* Does nothing, as rr_done(). */
void ll_done(void);

/* With USCHED_PREEMPT or USCHED_CALL, or in the hard mode, these are not inline. */

#if !defined(LL_INLINE) && (defined(USCHED_PREEMPT) ||		\
	defined(USCHED_HARD) || defined(USCHED_CALL))
int  ll_wait(void);
void ll_wake(struct ll_thread *t);
#else
#if !defined(LL_INLINE)		/* ll.c makes functions of them */
#define LL_INLINE	static __inline__
#endif

/* Waits for a wake, or takes a wake that has come: rr_wait(). Threads of ll. */
LL_INLINE int ll_wait(void)
{
	return uproc_wait();
}

/*
 * Wakes t, which then runs next, as rr_wake(); if t does not wait, its next wait
 * returns at once. Any thread, not a signal handler.
 */
LL_INLINE void ll_wake(struct ll_thread *t)
{
	struct uproc_thread *u = &t->l_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p)) {
		uproc_post(u);
		return;
	}
	UPROC_WOKEN(u);
	if (uwakes_add(&u->t_wakes, 1)) {
		if (p->p_sched.s_hot != NULL)
			uproc_queue_put(&p->p_queue, (struct uproc_thread *)
					p->p_sched.s_hot);
		p->p_sched.s_hot = &u->t_stack;
	}
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* LL_H */
