/* SPDX-License-Identifier: MIT */
/* ll.h: a local scheduler: threads of a group share a processor. */

#ifndef LL_H
#define LL_H

/*
 * Threads that wake each other belong in one group; all threads of a group run
 * on one processor. There, no lock and no atomic instruction is on the way of
 * a wait or a wake.
 *
 * The thread that was woken last runs next: what it needs is in the cache. It
 * takes the place of the one woken before it, which goes to the end of a queue
 * (first in, first out). The queue is served when nobody was just woken, and
 * at least once in LL_RUN + 1 switches: a thread that is n-th in the queue
 * runs after at most n * (LL_RUN + 1) switches.
 *
 * Otherwise it is used like rr.h, and its functions do the same as theirs, also
 * in the child of fork(). Only ll_init()'s hint does not deal threads: the
 * maker chooses the group. A thread of another processor or a native thread may
 * wake a thread, too, but then that is a message, as in rr.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LL_RUN	128

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

/* Group g runs on processor g modulo proc_nr. */
struct ll_thread *ll_thread_init(void (*f)(void *), void *arg, int group);
struct ll_thread *ll_thread_joinable(void (*f)(void *), void *arg, int group);
int ll_join(struct ll_thread *t);

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

/* Waits for a wake, or takes one that is there. 0 or -ENOMEM. Threads only. */
LL_INLINE int ll_wait(void)
{
	return uproc_wait();
}

/* Wakes t, or its next wait. Anyone but a signal handler. */
LL_INLINE void ll_wake(struct ll_thread *t)
{
	struct uproc_thread *u = &t->l_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p))
		uproc_post(u);
	else if (wakes_add(&u->t_wakes, 1)) {
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
