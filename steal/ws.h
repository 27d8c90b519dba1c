/* SPDX-License-Identifier: MIT */
/* ws.h: a work-stealing scheduler, whose threads go where there is time. */

#ifndef WS_H
#define WS_H

/*
 * There is a worker on each processor. A worker runs the thread that was woken
 * last, if there is one; else the one that was made last; and one that has
 * nothing to run takes the oldest from another: any thread that can run, also
 * one that has run there before. So threads need not be dealt out by hand, and
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
 * Once in WS_RUN + 1 switches of a worker the oldest of its threads runs: of
 * those that were made or woken, of those that have yielded or were woken from
 * elsewhere, and of those that must stay, in turn. So the n-th of one sort runs
 * after 3 * n * (WS_RUN + 1) switches, or before; and a thread that was just
 * woken cannot keep the others from running. A thread that had to stay, and
 * need not any more, joins those that have yielded, as the last of them.
 *
 * While a thread computes, those that wait behind it are taken away by another
 * worker, within some milliseconds (W6 in ws.c): by any that sleeps, or that
 * switches. Only if all workers compute do they wait. Threads that run for
 * nanoseconds between waits stay where they are: moving them would cost more.
 *
 * MIGRATION
 *
 * Whatever a thread has on its stack stays at its address. But after a call
 * that may block it may go on in another native thread. So what is local to
 * native threads is not to be relied on across such a call: the address of a
 * __thread variable, also errno, of which the compiler may keep the old one in
 * a function that uses it before and after; pthread_self(); a native mutex must
 * be unlocked by who has locked it. ws_pin() keeps a thread where it is.
 * ustack_self() and all functions of this header are safe.
 *
 * The stacks of threads lie in lanes (usched.h). Those of one lane move
 * together: while there are few threads each has its own, else some hundred or
 * thousand share one. A thread in the lane of one that runs has to wait for
 * that, if there are other workers or not.
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
 * worker, until it is taken away. It is freed when it ends: its maker must know
 * that it has not before waking it. NULL: ENOMEM, EINVAL. ws_spawn() is the
 * same for those that the maker need not know: 0, -ENOMEM, -EINVAL. By a thread
 * it costs two words until the new one begins, and less time.
 */
struct ws_thread *ws_thread_init(void (*f)(void *), void *arg);
int ws_spawn(void (*f)(void *), void *arg);

/* The same, to begin with on worker proc modulo their number; it may move. */
struct ws_thread *ws_thread_on(int proc, void (*f)(void *), void *arg);

/* The same, and it stays there until ws_unpin(), if that is ever called. */
struct ws_thread *ws_thread_pinned(int proc, void (*f)(void *), void *arg);

/* It lives until ws_join(). These are as in rr.h. */
struct ws_thread *ws_thread_joinable(void (*f)(void *), void *arg);
int ws_join(struct ws_thread *t);

/*
 * The running thread stays with the worker that runs it, until it is unpinned.
 * Twice is as once. So do all other threads of its lane: not for long, if there
 * are many.
 */
void ws_pin(void);
void ws_unpin(void);

/* The number of the worker that runs the calling thread; -1: no thread of ws. */
int ws_proc(void);

/* Lets others run, then goes on. 0, or -ENOMEM: it goes on at once. */
int ws_yield(void);

/* The running thread of this scheduler, or NULL. */
struct ws_thread *ws_self(void);

/* A wake from a signal handler (on Linux), or from anywhere else. */
void ws_post(struct ws_thread *t);

/* Not needed: does nothing. */
void ws_done(void);

/* Not API. What follows is here so that a wake is inline. */

/* A processor. */
struct ws_worker {
	struct uproc         w_proc;	/* first */
	/* The owner's while he is in, or of who has stopped him (stop.h). */
	struct uproc_thread *w_slot;	/* woken last, or NULL */
	int                  w_running_lane;	/* the lane in which it runs a thread */
	int                 *w_lane;	/* lanes that are at home here, */
	int                  w_lane_nr;	/* and may go */
	struct kept          w_kept;	/* threads that cannot go, by lane */
	/* The owner's, in or not. */
	unsigned             w_turn;	/* switches (atomic) */
	int                  w_free;	/* first lane without threads, or 0 */
	unsigned             w_share;	/* the shared lane given out last */
	int                  w_fixed;	/* first of those that stay */
	int                  w_fixed_nr;
	unsigned             w_random;
	unsigned             w_fair_turn;	/* see oldest() in ws.c */
	unsigned             w_dry;	/* w_turn when nothing was left (atomic) */
	unsigned             w_mail;	/* messages that it has taken, */
	unsigned             w_mail_at;	/* when, not counting */
	unsigned             w_idle;	/* ns in which it had nothing to do, */
	bool                 w_dense;	/* and the last came fast */
	struct thief         w_thief;
	/* Memory for tasks, the owner's, too: see "Tasks" in ws.c. */
	struct umem_stock    w_stock;
	/* By others (atomic). */
	unsigned             w_looked;	/* end of the queue when a thief looked */
	struct sight         w_sight;
	struct stop          w_stop __attribute__((aligned(64)));
	struct deque         w_deque;	/* threads that can run, tasks */
};

/* Where lanes are at home, by number (atomic). [0]: NULL. */
extern struct ws_worker **ws_homes;
/* Somebody sleeps, and nobody sees what waits in a slot (atomic). */
extern int ws_unwatched;

void ws_wake_slow(struct ws_thread *t);
void ws_displaced(struct ws_worker *w, struct uproc_thread *before);
struct ws_worker *ws_home_native(const struct uproc_thread *t);

/* Where t is at home; NULL while it has not begun. */
static __inline__ struct ws_worker *ws_home(const struct uproc_thread *t)
{
	/* Pairs with lane_set(): who calls may have been there before the start. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_ACQUIRE);

	return UPROC_LIKELY(lane != 0) ?
		__atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) :
		ws_home_native(t);
}

/* Is t at home at w, in a lane? Asked by w, who is in. Lane 0 is nobody's. */
static __inline__ bool ws_is_home(const struct ws_worker *w,
				  const struct uproc_thread *t)
{
	/* Relaxed: if the home is w, it has set the lane, or got it so. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_RELAXED);

	return __atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) == w;
}

/* Atomic: others look whether there is something. */
static __inline__ void ws_slot_set(struct ws_worker *w, struct uproc_thread *t)
{
	__atomic_store_n(&w->w_slot, t, __ATOMIC_RELAXED);
}

/* With USCHED_PREEMPT, or in the hard mode, these are not inline. */
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(WS_INLINE)
int  ws_wait(void);
void ws_wake(struct ws_thread *t);
#else
#if !defined(WS_INLINE)		/* ws.c makes functions of them */
#define WS_INLINE	static __inline__
#endif

/* Waits for a wake, or takes one that is there. 0 or -ENOMEM. Threads of ws. */
WS_INLINE int ws_wait(void)
{
	struct uproc_thread *t = uproc_waiter();

	if (UPROC_LIKELY(!wakes_wait(&t->t_wakes)))
		return 0;
	if (__builtin_expect(!mail_settled(&t->t_wakes), 0) &&
	    mail_settle(&t->t_wakes))
		return 0;
	return uproc_wait_block();
}

/* Wakes t, or its next wait. Anyone but a signal handler. */
WS_INLINE void ws_wake(struct ws_thread *t)
{
	struct uproc_thread *u = &t->s_thread;
	struct usched *s = usched_self();
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *before;

	uproc_live(u, "wake");
	/* W9; and we are of ws. Acquires the count from the home before. */
	if (!UPROC_LIKELY(s == __atomic_load_n(&u->t_stack.u_sched,
					       __ATOMIC_ACQUIRE)) ||
	    !UPROC_LIKELY(stop_quick(&w->w_stop))) {
		ws_wake_slow(t);
		return;
	}
	if (wakes_add(&u->t_wakes, 1)) {
		before = w->w_slot;
		ws_slot_set(w, u);
		if (before != NULL || __builtin_expect(__atomic_load_n(
				&ws_unwatched, __ATOMIC_RELAXED), 0)) {
			ws_displaced(w, before);
			return;
		}
	}
	stop_leave(&w->w_stop);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* WS_H */
