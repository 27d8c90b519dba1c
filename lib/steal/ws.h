/* SPDX-License-Identifier: MIT */
/* ws.h: a work-stealing scheduler, whose threads go where there is time. */

#ifndef WS_H
#define WS_H

/*
 * There is a worker on each processor. A worker runs the thread that was woken
 * last, if any was, or else the thread that was made last. A worker with
 * nothing to run takes the oldest from another: any thread that can run,
 * whether it has begun or not. So threads need not be dealt out by hand, and
 * trees of threads are walked depth first, in little memory.
 *
 * SHORTEST USE
 *
 *	if (ws_init(0, 0) != 0 || ws_thread_init(f, arg) == NULL ||
 *	    ws_start() != 0)
 *		return 1;
 *	return ws_fini() != 0;	returns when all threads have ended
 *
 * 0 processors are as many as for rr_init().
 *
 * ORDER
 *
 * The threads of a worker that can run are of three sorts: threads made or
 * woken there; threads that have yielded, or were woken from elsewhere, or
 * while very many could run; and threads that must stay. Once in WS_RUN + 1
 * switches the oldest of a sort runs, each sort in turn. So the n-th thread of
 * a sort runs after at most 3 * n * (WS_RUN + 1) switches, and threads that
 * were just woken cannot keep the others from running. A thread that need not
 * stay any more becomes the last of the second sort.
 *
 * While a thread computes, another worker takes away the threads that wait
 * behind it, within some milliseconds (search W6). Any worker does so that
 * sleeps or switches. Only if all workers compute do these threads wait.
 * Threads that run for nanoseconds between waits stay: moving them would cost
 * more.
 *
 * MIGRATION
 *
 * Whatever a thread has on its stack stays at its address. But after a call
 * that may block it may go on in another native thread. So a thread cannot rely
 * across such a call on what belongs to native threads:
 *
 *	the address of a __thread variable, also of errno, which the compiler
 *	may keep in a function that uses the variable before and after;
 *	pthread_self();
 *	a native mutex, which the native thread that has locked it must unlock.
 *
 * ws_pin() keeps a thread where it is. ustack_self() and all functions of this
 * header are safe.
 *
 * The stacks of threads lie in lanes (usched.h). The threads of a lane move
 * together. While there are few threads, each has a lane to itself. Of very
 * many threads, some hundred or thousand share a lane, and only one of these
 * runs at a time, whatever other workers do.
 *
 * On machines without lanes (USCHED_PORTABLE) only threads that have not begun
 * move.
 *
 * RETURN VALUES: 0 or a negative errno; a pointer, or NULL and errno. There is
 * one scheduler of this kind in a process at a time.
 *
 * CAVEATS: those of usched.h. In the child of fork() it is as in rr.h: see FORK
 * there.
 */

#include "uproc.h"
#include "private/mail.h"
#include "private/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The oldest runs once in WS_RUN + 1 switches: ORDER above. */
#define WS_RUN	63

/* A thread of ws. Its fields belong to the library. */
struct ws_thread {
	struct uproc_thread s_thread;
};

/*
 * Makes the scheduler, of proc_nr workers, up to UPROC_MOST (4096): native
 * threads, two or more of them pinned to cpus: see ws_pinning(). 0: a worker
 * for each cpu that the caller may use; if the caller is a thread, that its own
 * scheduler may use. Of more workers than cpus as many are awake as there are
 * cpus, but for those with messages and pinned threads. The hint thread_nr says
 * how many threads there will be, about; 0: no hint. 0, -EINVAL (see rr_init()),
 * -ENOMEM, -EAGAIN; -EBUSY: there is a scheduler of ws.
 */
USCHED_MUST int ws_init(int proc_nr, int thread_nr);

/*
 * Sets how much stack each thread of ws can use: see rr_stack_size(). Optional,
 * between ws_init() and ws_start(). 0, -EINVAL, -EBUSY.
 */
int ws_stack_size(size_t size);

/*
 * Returns the dispatcher of worker proc modulo their number, to give it to
 * usched_stats() before ws_start(). NULL: ws_init() was not called.
 */
struct usched *ws_sched(int proc);

/*
 * Lets threads of ws be preempted: see rr_preempt(). Optional, between
 * ws_init() and ws_start(). 0, -EINVAL, -EBUSY; -ENOTSUP: a file that includes
 * ws.h was compiled without -DUSCHED_PREEMPT.
 */
int ws_preempt(void);

/*
 * Gives threads of ws that are made from now on private stacks: see
 * rr_private(). There are 64 for each lane of all workers, but with these no
 * more than 32,767. Any thread; after ws_init(). 0, -EINVAL, -ECHILD.
 */
int ws_private(int on);

/*
 * Pins workers to cpus (on is not 0), or lets them run on all: see
 * rr_pinning(). ws_pin() pins a thread to a worker. Between ws_init() and
 * ws_start(), and by threads of ws. 0, -EINVAL, -EBUSY.
 */
int ws_pinning(int on);

/*
 * Starts the workers, so threads begin to run: see rr_start(). 0; -EAGAIN: the
 * system refuses native threads; -ENOMEM: no memory, or no mappings for lanes.
 */
USCHED_MUST int ws_start(void);

/*
 * Waits for the end of all threads of ws, and frees everything: see rr_fini().
 * Native threads only. 0, -EINVAL; -EDEADLK: the threads that were left could
 * never be woken, and were dropped; ws_stuck() says how many.
 */
int ws_fini(void);

/* Returns how many threads the last ws_fini() has dropped. */
long ws_stuck(void);

/*
 * Holds the scheduler against ws_fini(): see rr_hold(). For native threads, and
 * threads of other schedulers, that may still wake threads of ws. Before
 * ws_start(), within another hold, or by a thread of ws.
 */
void ws_hold(void);

/* Ends a ws_hold(). Any thread or native thread. */
void ws_release(void);

/*
 * Makes a thread of ws that runs f(arg). A thread of ws makes it on its own
 * worker, until it is taken away. Any native thread between ws_init() and
 * ws_fini() deals it to a worker, in turn. The thread is freed when it ends, so
 * a waker must know that it has not ended. NULL: ENOMEM, EINVAL; EAGAIN: see
 * ws_private().
 */
USCHED_MUST struct ws_thread *ws_thread_init(void (*f)(void *), void *arg);

/*
 * Makes a thread as ws_thread_init(), to which the maker needs no pointer. By a
 * thread of ws it takes less time, and two words until the new thread begins.
 * 0, -ENOMEM, -EINVAL; -EAGAIN: see ws_private().
 */
int ws_spawn(void (*f)(void *), void *arg);

/*
 * Makes a thread as ws_thread_init(), but it begins on worker proc modulo their
 * number, unless it is taken away before.
 */
USCHED_MUST struct ws_thread *ws_thread_on(int proc, void (*f)(void *), void *arg);

/*
 * Makes a thread as ws_thread_on(), which stays with that worker until it calls
 * ws_unpin(), if ever.
 */
USCHED_MUST struct ws_thread *ws_thread_pinned(int proc, void (*f)(void *), void *arg);

/*
 * Makes a thread as ws_thread_init(), which lives until ws_join() frees it: see
 * rr_thread_joinable().
 */
USCHED_MUST struct ws_thread *ws_thread_joinable(void (*f)(void *), void *arg);

/*
 * Waits until t, a joinable thread of ws, has ended, and frees it: see
 * rr_join(). Threads of ws, once for each t. 0, -ENOMEM, -EINVAL, -EDEADLK,
 * -ECANCELED.
 */
int ws_join(struct ws_thread *t);

/*
 * Joins t until a deadline: see rr_join_until(). Threads of ws, and native
 * threads that are no worker. As ws_join(); -ETIMEDOUT, -ECANCELED, -EAGAIN: t
 * can be joined again.
 */
USCHED_MUST int ws_join_until(struct ws_thread *t, utime_ns until);

/*
 * Pins the running thread: it stays with the worker that runs it until it calls
 * ws_unpin(). Two pins count as a single pin. All other threads of its lane
 * stay as well. So pins should be short if there are many threads. Threads of
 * ws; by any other caller the program ends in usched_fail().
 */
void ws_pin(void);

/* Ends the pin of the running thread, if it is pinned. Threads of ws. */
void ws_unpin(void);

/*
 * Returns the number of the worker that runs the calling thread, or -1: the
 * caller is no thread of ws. It may be old after the next call that may block.
 */
int ws_proc(void);

/*
 * Puts the caller at the end of the queue of its worker. 0; -ENOMEM: it goes on
 * at once. Threads of ws; by any other caller the program ends in
 * usched_fail().
 */
int ws_yield(void);

/* Returns the running thread if it is a thread of ws, else NULL. */
struct ws_thread *ws_self(void);

/* Wakes t, as ws_wake() does. Any thread; on Linux also a signal handler. */
void ws_post(struct ws_thread *t);

/*
 * Not API, down to ws_wait(): the beginning of a worker, and functions that an
 * inline wake calls.
 */
struct ws_worker;			/* worker.h */

/* In a cache line: the owner touches both at each wake, thieves seldom. */
struct ws_gate {
	struct ws_stop       g_stop;	/* around the section of the owner */
	struct uproc_thread *g_slot;	/* woken last, or NULL */
} __attribute__((aligned(64)));

/* A worker begins so. */
struct ws_front {
	struct uproc   f_proc;
	struct ws_gate f_gate;
};

/* All workers sleep, and none would see a thread in a slot (atomic). */
extern int ws_unwatched;

/* Not API. Wakes t where ws_wake() cannot. Caller may be inside its section. */
void ws_wake_slow(struct ws_thread *t);

/*
 * Not API. Does the rest of a wake: before, if not NULL, was in the slot.
 * Owner, inside its section, which ends.
 */
void ws_displaced(struct ws_worker *w, struct uproc_thread *before);

/*
 * Not API. Gives t, the caller, which waits for the first time, its home.
 * Nonzero: a wake has come, so it need not wait.
 */
int ws_wait_first(struct uproc_thread *t);

/* Not API. Returns the gate of the worker s. */
static __inline__ struct ws_gate *ws_gate_of(struct usched *s)
{
	return &((struct ws_front *)s)->f_gate;
}

/* Not API. Sets the slot. Atomic: thieves look whether there is something. */
static __inline__ void ws_slot_set(struct ws_gate *g, struct uproc_thread *t)
{
	__atomic_store_n(&g->g_slot, t, __ATOMIC_RELAXED);
}

/*
 * Not API. Returns whether t is at home at s, if WS_STOP_LOOK is not set
 * (homes W9). Owner, inside its section. Acquires what the last home has done.
 */
static __inline__ int ws_is_hint(const struct uproc_thread *t,
				 const struct usched *s)
{
	return __atomic_load_n(&t->t_stack.u_sched, __ATOMIC_ACQUIRE) == s;
}

/* With USCHED_PREEMPT or USCHED_CALL, or in the hard mode, these are not inline. */
#if !defined(WS_INLINE) && (defined(USCHED_PREEMPT) ||		\
	defined(USCHED_HARD) || defined(USCHED_CALL))
int  ws_wait(void);
void ws_wake(struct ws_thread *t);
#else
#if !defined(WS_INLINE)		/* ws.c makes functions of them */
#define WS_INLINE	static __inline__
#endif

/*
 * Waits for a wake of the caller, or takes one wake that has come. 0, -ENOMEM.
 * Threads of ws; threads of others end the program at their first such wait.
 */
WS_INLINE int ws_wait(void)
{
	struct uproc_thread *t = uproc_waiter();

	if (__builtin_expect(!uwakes_wait(&t->t_wakes), 1))
		return 0;
	if (__builtin_expect(!ws_mail_settled(&t->t_wakes), 0) &&
	    ws_wait_first(t))
		return 0;
	return uproc_wait_block();
}

/*
 * Wakes t, wherever it is; if t does not wait, its next wait returns at once.
 * Any thread, not a signal handler. The program ends in usched_fail() if 2^31
 * wakes come that no wait has taken, or 3 * 2^25 remote wakes that no worker
 * has taken.
 */
WS_INLINE void ws_wake(struct ws_thread *t)
{
	struct uproc_thread *u = &t->s_thread;
	struct usched *s = usched_self();
	struct uproc_thread *before;
	struct ws_gate *g;

	uproc_live(u, "wake");
	/* The first look tells that s is of ws. Before stop K1 t may be stolen. */
	if (__builtin_expect(s != (struct usched *)uproc_of(u), 0) ||
	    __builtin_expect(!ws_stop_quick(&ws_gate_of(s)->g_stop), 0) ||
	    __builtin_expect(!ws_is_hint(u, s), 0)) {
		ws_wake_slow(t);
		return;
	}
	UPROC_WOKEN(u);
	g = ws_gate_of(s);
	if (uwakes_add(&u->t_wakes, 1)) {
		before = g->g_slot;
		ws_slot_set(g, u);
		if (before != NULL || __builtin_expect(__atomic_load_n(
				&ws_unwatched, __ATOMIC_RELAXED), 0)) {
			ws_displaced((struct ws_worker *)s, before);
			return;
		}
	}
	ws_stop_leave(&g->g_stop);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* WS_H */
