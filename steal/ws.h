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
 *	ws_init(0, 0);		as many workers as there are cpus
 *	ws_thread_init(f, arg);
 *	ws_start();
 *	ws_fini();		returns when all threads have ended
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
 * behind it, within some milliseconds (W6 in ws.c). Any worker does so that
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
#include "deque.h"
#include "kept.h"
#include "mail.h"
#include "stop.h"
#include "worth.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WS_RUN	63

struct ws_thread {
	struct uproc_thread s_thread;
};

/*
 * Makes the scheduler, of proc_nr workers, up to UPROC_MOST (4096): native
 * threads, two or more of them pinned to cpus (see rr_pinning()). 0: a worker
 * for each cpu that the caller may use; if the caller is a thread, that its own
 * scheduler may use. There will be about thread_nr threads: a hint. -EINVAL,
 * -ENOMEM, -EAGAIN, -EBUSY: there is one.
 */
int ws_init(int proc_nr, int thread_nr);

/* These are as in rr.h: see there. */
int  ws_stack_size(size_t size);
struct usched *ws_sched(int proc);
int  ws_preempt(void);
int  ws_pinning(int on);	/* workers; ws_pin() is about threads */
int  ws_start(void);
int  ws_fini(void);
long ws_stuck(void);
void ws_hold(void);
void ws_release(void);

/*
 * Makes a thread: by a native thread, at any time between ws_init() and
 * ws_fini(), which deals it to a worker, in turn; or by a thread, on its own
 * worker, until it is taken away. It is freed when it ends: before waking it,
 * the waker must know that it has not ended. NULL: ENOMEM, EINVAL.
 *
 * ws_spawn() makes a thread to which the maker needs no pointer: 0, -ENOMEM,
 * -EINVAL. Called by a thread it costs two words until the new thread begins,
 * and less time.
 */
struct ws_thread *ws_thread_init(void (*f)(void *), void *arg);
int ws_spawn(void (*f)(void *), void *arg);

/* Makes a thread that begins on worker proc modulo their number. */
struct ws_thread *ws_thread_on(int proc, void (*f)(void *), void *arg);

/* Makes a thread that stays there until it calls ws_unpin(), if ever. */
struct ws_thread *ws_thread_pinned(int proc, void (*f)(void *), void *arg);

/* Makes a thread that lives until ws_join(). These are as in rr.h. */
struct ws_thread *ws_thread_joinable(void (*f)(void *), void *arg);
int ws_join(struct ws_thread *t);
int  ws_join_until(struct ws_thread *t, utime_ns until);

/*
 * Pins the running thread: it stays with the worker that runs it until it calls
 * ws_unpin(). Two pins count as a single pin. All other threads of its lane
 * stay as well. So pins should be short if there are many threads.
 */
void ws_pin(void);
void ws_unpin(void);

/* Returns which worker runs the calling thread; -1: it is no thread of ws. */
int ws_proc(void);

/* Lets others run, then goes on. 0, or -ENOMEM: it goes on at once. */
int ws_yield(void);

/* Returns the running thread of this scheduler, or NULL. */
struct ws_thread *ws_self(void);

/* Wakes t: from a signal handler (on Linux), or from anywhere else. */
void ws_post(struct ws_thread *t);

/* Does nothing: it is not needed. */
void ws_done(void);

/* Not API. The rest of this file is here so that a wake can be inline. */

/* A processor. */
struct ws_worker {
	struct uproc         w_proc;	/* first */
	/* The owner, in, or a thief that has stopped it, uses these. */
	struct uproc_thread *w_slot;	/* woken last, or NULL */
	int                  w_running_lane;	/* of the thread that it runs */
	int                 *w_lane;	/* lanes that are at home here, */
	int                  w_lane_nr;	/* and may move */
	struct ws_kept       w_kept;	/* threads that must stay, by lane */
	/* The owner uses these, in or not. */
	unsigned             w_turn;	/* switches (atomic) */
	int                  w_free;	/* first lane without threads, or 0 */
	unsigned             w_share;	/* the shared lane given out last */
	int                  w_fixed;	/* first of the lanes that stay */
	int                  w_fixed_nr;
	unsigned             w_random;
	unsigned             w_fair_turn;	/* see oldest() in ws.c */
	unsigned             w_dry;	/* w_turn of the last note (atomic) */
	unsigned             w_mail;	/* messages that it has taken, */
	unsigned             w_mail_at;	/* when, not counting */
	unsigned             w_idle;	/* ns in which it had nothing to do, */
	bool                 w_dense;	/* and the last came fast */
	struct ws_thief      w_thief;
	/* Memory for tasks: see "Tasks" in ws.c. */
	struct umem_stock    w_stock;
	/* Written by thieves (atomic). */
	unsigned             w_looked;	/* end of the queue at the last look */
	struct ws_sight      w_sight;
	struct ws_stop       w_stop __attribute__((aligned(64)));
	struct ws_deque      w_deque;	/* threads that can run, tasks */
};

/* The home of each lane, by number (atomic). [0]: NULL. */
extern struct ws_worker **ws_homes;
/* All workers sleep, and none would see a thread in a slot (atomic). */
extern int ws_unwatched;

/* Not API, but called by the inline functions below. */
void ws_wake_slow(struct ws_thread *t);
void ws_displaced(struct ws_worker *w, struct uproc_thread *before);
struct ws_worker *ws_home_native(const struct uproc_thread *t);

/* Not API. Returns the home of t; NULL while it has not begun. */
static __inline__ struct ws_worker *ws_home(const struct uproc_thread *t)
{
	/* Pairs with lane_set(): the caller may know t from before it began. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_ACQUIRE);

	return UPROC_LIKELY(lane != 0) ?
		__atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) :
		ws_home_native(t);
}

/* Not API. Returns whether t has a lane at home at w. Caller is in w. */
static __inline__ bool ws_is_home(const struct ws_worker *w,
				  const struct uproc_thread *t)
{
	/* Relaxed: if the home is w, w has set the lane, or has acquired it. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_RELAXED);

	return __atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) == w;
}

/*
 * Not API. Returns whether t is at home at s, if WS_STOP_LOOK is not set (W9).
 * Caller is in s. Acquires what the last home has done.
 */
static __inline__ bool ws_is_hint(const struct uproc_thread *t,
				  const struct usched *s)
{
	return __atomic_load_n(&t->t_stack.u_sched, __ATOMIC_ACQUIRE) == s;
}

/* Not API. Sets the slot. Atomic: thieves look whether there is something. */
static __inline__ void ws_slot_set(struct ws_worker *w, struct uproc_thread *t)
{
	__atomic_store_n(&w->w_slot, t, __ATOMIC_RELAXED);
}

/* With USCHED_PREEMPT, and in the hard mode, these are not inline. */
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(WS_INLINE)
int  ws_wait(void);
void ws_wake(struct ws_thread *t);
#else
#if !defined(WS_INLINE)		/* ws.c makes functions of them */
#define WS_INLINE	static __inline__
#endif

/* Waits for a wake, unless there is one. 0 or -ENOMEM. Threads of ws. */
WS_INLINE int ws_wait(void)
{
	struct uproc_thread *t = uproc_waiter();

	if (UPROC_LIKELY(!uwakes_wait(&t->t_wakes)))
		return 0;
	if (__builtin_expect(!ws_mail_settled(&t->t_wakes), 0) &&
	    ws_mail_settle(&t->t_wakes))
		return 0;
	return uproc_wait_block();
}

/* Wakes t, or lets its next wait through. Any thread, but no signal handler. */
WS_INLINE void ws_wake(struct ws_thread *t)
{
	struct uproc_thread *u = &t->s_thread;
	struct usched *s = usched_self();
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *before;

	uproc_live(u, "wake");
	/* The first look tells that s is of ws. Before K1 t may be stolen. */
	if (!UPROC_LIKELY(s == (struct usched *)uproc_of(u)) ||
	    !UPROC_LIKELY(ws_stop_quick(&w->w_stop)) ||
	    !UPROC_LIKELY(ws_is_hint(u, s))) {
		ws_wake_slow(t);
		return;
	}
	if (uwakes_add(&u->t_wakes, 1)) {
		before = w->w_slot;
		ws_slot_set(w, u);
		if (before != NULL || __builtin_expect(__atomic_load_n(
				&ws_unwatched, __ATOMIC_RELAXED), 0)) {
			ws_displaced(w, before);
			return;
		}
	}
	ws_stop_leave(&w->w_stop);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* WS_H */
