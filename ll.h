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
 * group. A remote wake, by a thread of another processor or by a native thread,
 * is a message, as in rr.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LL_RUN	63

struct ll_thread {
	struct uproc_thread l_thread;
};

int  ll_init(int proc_nr, int thread_nr);
int  ll_stack_size(size_t size);
struct usched *ll_sched(int proc);
int  ll_preempt(void);
int  ll_pinning(int on);
int  ll_start(void);
int  ll_fini(void);
long ll_stuck(void);
void ll_hold(void);
void ll_release(void);

/* Makes a thread of this group. It runs on processor group modulo proc_nr. */
struct ll_thread *ll_thread_init(void (*f)(void *), void *arg, int group);
/* Makes a joinable thread of this group: see rr_thread_joinable(). */
struct ll_thread *ll_thread_joinable(void (*f)(void *), void *arg, int group);

int  ll_join(struct ll_thread *t);
int  ll_join_until(struct ll_thread *t, utime_ns until);
int  ll_yield(void);
struct ll_thread *ll_self(void);
void ll_post(struct ll_thread *t);
void ll_done(void);

/* With USCHED_PREEMPT, or in the hard mode, these are not inline. */
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(LL_INLINE)
int  ll_wait(void);
void ll_wake(struct ll_thread *t);
#else
#if !defined(LL_INLINE)		/* ll.c makes functions of them */
#define LL_INLINE	static __inline__
#endif

/* Waits for a wake, or takes a wake that has come. 0, -ENOMEM. Threads only. */
LL_INLINE int ll_wait(void)
{
	return uproc_wait();
}

/*
 * Wakes t; if t does not wait, its next wait returns at once. Any thread, not a
 * signal handler.
 */
LL_INLINE void ll_wake(struct ll_thread *t)
{
	struct uproc_thread *u = &t->l_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p))
		uproc_post(u);
	else if (uwakes_add(&u->t_wakes, 1)) {
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
