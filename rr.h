/* SPDX-License-Identifier: MIT */
/* rr.h: a fair scheduler: first in, first out on each processor. */

#ifndef RR_H
#define RR_H

/*
 * Threads are dealt to processors when they are made, and stay there. On each
 * processor the threads that can run take turns: first in, first out. Any
 * thread and any native thread may wake any thread. A wake within a processor
 * costs no atomic instruction. A remote wake is a message.
 *
 * SHORTEST USE
 *
 *	if (rr_init(2, 0) != 0 || rr_thread_init(f, arg) == NULL ||
 *	    rr_start() != 0)
 *		return 1;
 *	return rr_fini() != 0;	returns when all threads have ended
 *
 * FORK
 *
 * The child of fork() has only the native thread that called it, so a scheduler
 * that an ancestor has started cannot be used there:
 *
 *	wakes, holds and releases do nothing;
 *	functions that can fail return -ECHILD, or NULL and ECHILD;
 *	rr_self() returns NULL;
 *	a thread that has forked is no thread in the child: there its next wait
 *	that has to block, its yield or the end of its function ends the
 *	program.
 *
 * The child may exec, exit, or call rr_init(). The new scheduler takes the
 * place of the old, whose memory is neither used nor freed. A scheduler that
 * was not started before the fork works in both processes, unless another
 * native thread was just making a thread of it. The child must exec or _exit if
 * the handlers of pthread_atfork() were not called (_Fork(), clone()), or if a
 * signal handler has forked. vfork(), posix_spawn() and system() work as usual.
 *
 * RETURN VALUES: 0 or a negative errno; a pointer, or NULL and errno. A process
 * has at most one scheduler of this kind at a time.
 *
 * CAVEATS: those of usched.h. Threads of different processors run at the same
 * time, so data that they share needs atomics or locks.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A thread of rr. Its fields belong to the library. */
struct rr_thread {
	struct uproc_thread r_thread;
};

/*
 * Makes the scheduler with proc_nr processors, up to UPROC_MOST (4096); 0: as
 * many as the caller may use cpus, or as its control groups allow if that is
 * less. The hint thread_nr says how many threads there will be, about; 0: no
 * hint. With a hint, threads that are made one after another before rr_start()
 * share a processor, in chunks: see rr_thread_init(). Each processor is a native
 * thread, and two or more are pinned to cpus: see rr_pinning(). 0; -EINVAL,
 * also if a variable of the environment has an unknown word, after a line;
 * -ENOMEM, -EAGAIN; -EBUSY: there is a scheduler of rr.
 */
USCHED_MUST int rr_init(int proc_nr, int thread_nr);

/*
 * Sets how many bytes of stack each thread can use, at least 16 KiB; 256 KiB if
 * not called. Optional, between rr_init() and rr_start(). Some KiB of these
 * must be left for signal handlers, and for malloc() when a block needs a large
 * buffer. 0, -EINVAL, -EBUSY.
 */
int rr_stack_size(size_t size);

/*
 * Returns the dispatcher of processor proc modulo proc_nr, to give it to
 * usched_stats() before rr_start(). NULL: rr_init() was not called.
 */
struct usched *rr_sched(int proc);

/*
 * Lets threads be preempted that run for long while others can run, after
 * upreempt_start() (upreempt.h). Optional, between rr_init() and rr_start().
 * All files that include rr.h must be compiled with -DUSCHED_PREEMPT, or the
 * result is -ENOTSUP. 0, -EINVAL, -EBUSY.
 */
int rr_preempt(void);

/*
 * Gives threads that are made from now on private stacks (on is not 0), or lets
 * them share lanes (on is 0), as they do if this is not called. A private stack
 * is never moved, so while a thread waits others may use what lies there, as
 * with pthreads. Such a thread takes 4 KiB of memory at least, 0.7 KB of page
 * tables, and some 330 KB of addresses.
 *
 * There are 64 private stacks for each lane, 16,384 for a processor with 256
 * lanes. Before Linux 6.13, and in the hard mode, guards allow 4,095 in a
 * process (of vm.max_map_count, one part in 8, for two each). Then, and if there are
 * no lanes (portable builds, Valgrind), makers fail with EAGAIN; if no more can
 * be mapped, with ENOMEM. For threads made before rr_start(), that may say so
 * instead. No thread ever shares a lane against its maker's wish.
 *
 * USCHED_STACKS in the environment of rr_init() overrides the program: private,
 * shared.
 * Any thread, any native thread; after rr_init(). 0, -EINVAL; -ECHILD.
 */
int rr_private(int on);

/*
 * Pins each processor to a cpu, in turn (on is not 0), or lets all run on all
 * cpus (on is 0). Optional, between rr_init() and rr_start(). If not called,
 * two or more processors are pinned, and a single processor is not. USCHED_PIN
 * in the environment of rr_start() overrides the program: 0 pins none, 1 all.
 * The cpus are those that the caller of rr_init() may use. If that caller was a
 * thread of any scheduler, they are the cpus of its own scheduler.
 *
 * A thread of rr may call it too. With on = 0 its processor may run on all cpus
 * from now on. Otherwise the processor is pinned again, if it was at the start.
 * pthread_create(), system() and posix_spawn() give the mask of the processor
 * to their child. So call them between rr_pinning(0) and rr_pinning(1), with no
 * block between the two, or within ucall() (ucall.h), where nothing is pinned.
 * Children of fork() are not pinned.
 *
 * 0; -EINVAL: there is no scheduler. -EBUSY: it was started, and the caller is
 * none of its threads.
 */
int rr_pinning(int on);

/*
 * Starts the processors, so threads begin to run. 0; -EAGAIN: the system
 * refuses native threads, or there are too few private stacks (rr_private());
 * -ENOMEM: no memory, or no mappings for lanes; -EINVAL: rr_init() was not
 * called, or a variable of the environment has an unknown word, after a line;
 * -EBUSY: it was called before. After another error no thread runs, and
 * rr_start() may be called again. Up to 1,000 processors have been tried.
 */
USCHED_MUST int rr_start(void);

/*
 * Waits for the end of all threads, and frees everything. Native threads only;
 * not by a function that a thread has given to ucall(). -EDEADLK: the threads
 * that were left could never be woken, and were dropped; rr_stuck() says how
 * many. A native thread, or a thread of another scheduler, that may still wake
 * some must hold the scheduler: see rr_hold(). 0, -EINVAL.
 */
int rr_fini(void);

/* Returns how many threads the last rr_fini() has dropped. */
long rr_stuck(void);

/*
 * Makes a thread that runs f(arg). Any thread; any native thread between
 * rr_init() and rr_fini(). The thread is freed when it ends, so a waker must
 * know that it has not ended. NULL: ENOMEM, EINVAL; EAGAIN: see rr_private().
 *
 * Without a hint, and after rr_start(), each processor gets one thread in turn.
 * Before rr_start(), with a hint, a processor gets a chunk of threads that are
 * made one after another: 32 or, if that is less, its part of the hint. Each
 * round after that has chunks twice as long, until each processor has its part
 * of the hint. Then it begins again. So give a hint if neighbours wake each
 * other, and 0 if each thread works alone.
 */
USCHED_MUST struct rr_thread *rr_thread_init(void (*f)(void *), void *arg);

/* Makes a thread as rr_thread_init(), on processor proc modulo proc_nr. */
USCHED_MUST struct rr_thread *rr_thread_on(int proc, void (*f)(void *), void *arg);

/*
 * Makes a thread of rr on the processor of the caller, a thread of rr whose
 * dispatcher is d. For uscope_go_by(), and sv_make (userve.h). 0, -ENOMEM,
 * -EAGAIN: see rr_private().
 */
int rr_make_here(struct usched *d, void (*f)(void *), void *arg);

/*
 * Makes a thread as rr_thread_init(), which lives until rr_join() frees it. It
 * may be woken until it is joined; after its end a wake changes nothing.
 */
USCHED_MUST struct rr_thread *rr_thread_joinable(void (*f)(void *), void *arg);

/*
 * Waits until t, a joinable thread, has ended, and frees it. Threads of rr,
 * once for each t. Wakes of the caller that come meanwhile are kept. 0,
 * -ENOMEM; -EINVAL: t is not joinable, the caller is no thread of rr, or
 * another thread waits for t; -EDEADLK: t is the caller; -ECANCELED: a scope
 * around the caller was cancelled (uscope.h), and t can still be joined.
 */
int rr_join(struct rr_thread *t);

/*
 * Joins until a deadline (uwait.h). Native threads may call it, too, while they
 * are no processor, and know that the scheduler does not end meanwhile. As
 * rr_join(); -ETIMEDOUT, -ECANCELED, -EAGAIN: t can be joined again.
 */
USCHED_MUST int rr_join_until(struct rr_thread *t, utime_ns until);

/*
 * Holds the scheduler: rr_fini() does not return before the release, even if
 * all threads wait. For native threads that wake or make threads, and for
 * programs whose signal handlers wake threads. Also for threads of another
 * scheduler that wake threads of rr, by whatever call: a lock, a channel. Call
 * it before rr_start(), within another hold, or as a thread of rr. 2^30 holds
 * may be left; the next ends the program in usched_fail().
 */
void rr_hold(void);

/* Ends an rr_hold(). Any thread or native thread. */
void rr_release(void);

/* Puts the caller at the end of the queue. 0; -ENOMEM: it goes on at once. */
int rr_yield(void);

/* Returns the running thread if it is a thread of this scheduler, else NULL. */
struct rr_thread *rr_self(void);

/* Wakes t, as rr_wake() does. Any thread; on Linux also a signal handler. */
void rr_post(struct rr_thread *t);

/* Does nothing. Programs no longer need to say that a thread has ended. */
void rr_done(void);

/* With USCHED_PREEMPT or USCHED_CALL, or in the hard mode, these are not inline. */

#if !defined(RR_INLINE) && (defined(USCHED_PREEMPT) ||		\
	defined(USCHED_HARD) || defined(USCHED_CALL))
int  rr_wait(void);
void rr_wake(struct rr_thread *t);
#else
#if !defined(RR_INLINE)		/* rr.c makes functions of them */
#define RR_INLINE	static __inline__
#endif

/*
 * Waits for a wake, or takes a wake that has come. 0, -ENOMEM. Threads of rr or
 * ll. A thread of ws would miss wakes, and a thread of a plain dispatcher has
 * none: the hard mode finds that, and ws_fini() says which thread was woken in
 * vain. u_wait_until(UNEVER) waits in all.
 */
RR_INLINE int rr_wait(void)
{
	return uproc_wait();
}

/*
 * Wakes t; if t does not wait, its next wait returns at once. Any thread, not a
 * signal handler. The program ends in usched_fail() if 2^31 wakes come that no
 * wait has taken, or 3 * 2^25 remote wakes that the processor has not taken.
 */
RR_INLINE void rr_wake(struct rr_thread *t)
{
	struct uproc_thread *u = &t->r_thread;
	struct uproc *p;

	if (!uproc_is_here(u, &p)) {
		uproc_post(u);
		return;
	}
	UPROC_WOKEN(u);
	if (uwakes_add(&u->t_wakes, 1))
		uproc_queue_put(&p->p_queue, u);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* RR_H */
