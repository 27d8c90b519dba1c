/* SPDX-License-Identifier: MIT */
/* rr.h: a fair scheduler: first in, first out on each processor. */

#ifndef RR_H
#define RR_H

/*
 * Threads are dealt to processors when they are made, and stay there. On each
 * processor those that can run take turns: first in, first out. Any thread and
 * any native thread may wake any thread. A wake within a processor costs no
 * atomic instruction; one from elsewhere is a message.
 *
 * SHORTEST USE
 *
 *	rr_init(2, 0);
 *	rr_thread_init(f, arg);
 *	rr_start();
 *	rr_fini();		returns when all threads have ended
 *
 * FORK
 *
 * The child of fork() has only the native thread that called it, so a scheduler
 * that an ancestor has started cannot be used there:
 *
 *	wakes, holds and releases do nothing;
 *	functions that can fail return -ECHILD, or NULL and ECHILD;
 *	rr_self() returns NULL;
 *	the child of a thread is no thread any more: its next wait that has to
 *	block, its yield or the end of its function ends the program.
 *
 * The child may exec, exit, or call rr_init() for a scheduler of its own, which
 * takes the place of the other. The memory of that stays as it was. A scheduler
 * that was not started yet works in both processes, unless another native
 * thread was about to make a thread of it. Where no handlers of
 * pthread_atfork() are called (_Fork(), clone()), and in a signal handler, the
 * child must exec or _exit. vfork(), posix_spawn() and system() work as ever.
 *
 * RETURN VALUES: 0 or a negative errno; a pointer, or NULL and errno. There is
 * one scheduler of this kind in a process at a time.
 *
 * CAVEATS: those of usched.h. Threads of different processors run at the same
 * time.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rr_thread {
	struct uproc_thread r_thread;
};

/*
 * Makes the scheduler: proc_nr processors, 1 to UPROC_MOST (4096), and about
 * thread_nr threads: a hint. With a hint, threads that are made one after
 * another before rr_start() share a processor, in chunks: see rr_thread_init().
 * Processors are native threads, and two or more are pinned to cpus: see
 * rr_pinning(). -EINVAL, -ENOMEM, -EAGAIN, -EBUSY: there is one.
 */
int rr_init(int proc_nr, int thread_nr);

/*
 * Between rr_init() and rr_start(), optional: bytes of stack for each thread,
 * 256 KiB if not set, 16 KiB at least. Some KiB of them are for signal
 * handlers, and for malloc() when a block needs a large buffer. -EINVAL,
 * -EBUSY.
 */
int rr_stack_size(size_t size);

/*
 * The dispatcher of processor proc modulo proc_nr, for usched_stats() before
 * rr_start(); NULL before rr_init().
 */
struct usched *rr_sched(int proc);

/*
 * Between rr_init() and rr_start(), optional: threads that run for long are
 * preempted when others can run, after upreempt_start() (upreempt.h). All files
 * that include this one must be compiled with -DUSCHED_PREEMPT then, else
 * -ENOTSUP. -EINVAL, -EBUSY.
 */
int rr_preempt(void);

/*
 * Between rr_init() and rr_start(), optional: each processor is pinned to a cpu
 * (on is not 0), in turn, or may run on all. If that is not called, two or more
 * are pinned; one alone is not. USCHED_PIN=0 in the environment of rr_start()
 * pins none, USCHED_PIN=1 all, whatever the program says. The cpus are those
 * that the caller of rr_init() may use. If a thread of any scheduler calls
 * that, they are the cpus of its own scheduler.
 *
 * By a thread of rr: its processor may run on all cpus from now on (on is 0),
 * or is pinned again if it was. pthread_create(), system() and posix_spawn()
 * give the mask of the processor to their child. So they belong between the
 * two, without a block, or into ucall() (ucall.h), where nothing is pinned.
 * Children of fork() are not pinned.
 *
 * -EINVAL: there is no rr. -EBUSY: it was started; by none of its threads.
 */
int rr_pinning(int on);

/*
 * Threads begin to run. -EAGAIN: the system refuses native threads, -ENOMEM:
 * memory, or mappings for lanes. Then no thread runs, and it may be called
 * again. Up to 1,000 processors have been tried.
 */
int rr_start(void);

/*
 * Waits for the end of all threads, and frees everything. -EDEADLK: those that
 * were left could never be woken, and were dropped: rr_stuck() says how many.
 * Native threads that may still wake some hold it: see rr_hold(). Not to be
 * called by a thread, nor by a function that a thread has given to ucall().
 */
int rr_fini(void);
long rr_stuck(void);

/*
 * Makes a thread: by a native thread, at any time between rr_init() and
 * rr_fini(), or by a thread. It is freed when it ends: its maker must know
 * that it has not before waking it. NULL: ENOMEM, EINVAL.
 *
 * Each processor gets one in turn. But before rr_start(), with a hint, it gets
 * neighbours, in the order in which they are made: 32 or, if that is less, its
 * part of the hint; in each round after that twice as many, until each has its
 * part of the hint; and then as from the beginning. So say how many threads
 * there will be if neighbours wake each other, and 0 if each works alone.
 */
struct rr_thread *rr_thread_init(void (*f)(void *), void *arg);

/* The same, on processor proc modulo proc_nr. */
struct rr_thread *rr_thread_on(int proc, void (*f)(void *), void *arg);

/*
 * The same as rr_thread_init(), but it lives until rr_join(), which waits for
 * its end and frees it, so it is called once. Wakes of the caller are kept. It
 * may be woken until it is joined; after its end that changes nothing.
 * -EINVAL: not joinable, or the caller is no thread of rr, or another one waits
 * for it; -EDEADLK: by itself; -ENOMEM.
 */
struct rr_thread *rr_thread_joinable(void (*f)(void *), void *arg);
int rr_join(struct rr_thread *t);

/*
 * While at least one native thread holds the scheduler, rr_fini() does not
 * take waiting for a dead lock. For those that wake threads, or make them, from
 * outside, or by a signal handler.
 */
void rr_hold(void);
void rr_release(void);

/* To the end of the queue. 0, or -ENOMEM: it goes on at once. */
int rr_yield(void);

/* The running thread of this scheduler, or NULL. */
struct rr_thread *rr_self(void);

/* A wake from a signal handler (on Linux), or from anywhere else. */
void rr_post(struct rr_thread *t);

/* Not needed any more: the end of a thread is seen. Does nothing. */
void rr_done(void);

/* With USCHED_PREEMPT, or in the hard mode, these are not inline. */
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(RR_INLINE)
int  rr_wait(void);
void rr_wake(struct rr_thread *t);
#else
#if !defined(RR_INLINE)		/* rr.c makes functions of them */
#define RR_INLINE	static __inline__
#endif

/* Waits for a wake, or takes one that is there. 0 or -ENOMEM. Threads of rr. */
RR_INLINE int rr_wait(void)
{
	return uproc_wait();
}

/*
 * Wakes t, or its next wait. Anyone but a signal handler. 2^31 wakes that no
 * wait has taken, or 3 * 2^25 from elsewhere while the processor of t does not
 * look, end in usched_fail().
 */
RR_INLINE void rr_wake(struct rr_thread *t)
{
	struct uproc_thread *u = &t->r_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p))
		uproc_post(u);
	else if (wakes_add(&u->t_wakes, 1))
		uproc_queue_put(&p->p_queue, u);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* RR_H */
