/* SPDX-License-Identifier: MIT */
/* uproc.h: processors: the part that schedulers share. */

#ifndef UPROC_H
#define UPROC_H

/*
 * A processor (struct uproc) is a native thread, which may be pinned to a cpu.
 * It has a dispatcher, a queue of threads that can run, an inbox for remote
 * wakes and memory of its own. A scheduler starts and stops a set of processors
 * (struct uproc_set), to which it adds an order. It gives uproc_init() the
 * call-back s_next(), which takes threads from the queue or from queues of the
 * scheduler. doc/scheduler.md writes a scheduler, step by step.
 *
 * Waits and wakes are counted (wakes.h): a wake before the wait is kept.
 *
 * WHO MAY CALL WHAT
 *
 * Functions with a struct uproc * argument: the native thread of that
 * processor. uproc_post(): any thread, on Linux also a signal handler.
 * Functions with a set: the native thread that made the set, unless their
 * comment names more callers. The inline functions: threads.
 */

#include "usched.h"
#include "umem.h"
#include "uwait.h"
#include "private/wakes.h"
#if defined(USCHED_HARD)
#include "uhard.h"
#endif

#include <limits.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UPROC_MOST	4096	/* processors of a set */

struct uproc;
struct uproc_set;

/* A thread. A single cache line on 64-bit machines: cold threads miss less. */
struct uproc_thread {
	struct ustack t_stack;
#if defined(USCHED_HARD)
	struct uhard_object t_object;
#endif
	struct uwakes t_wakes;
};

/* The runs of threads between two looks: rounds.h. */
struct uproc_round {
	unsigned r_ask;		/* the switch at which the clock is asked */
	unsigned r_began;	/* the switch at which the round began */
	unsigned r_asked;	/* the switch at which the clock was asked */
	utime_ns r_at;		/* what the clock said then */
	utime_ns r_run;		/* ns that threads run at the longest, as learnt */
	int      r_came;	/* wakes by others came with the last look */
};

/* Private lanes of threads that wait for long: rest.h. */
struct uproc_cool {
	utime_ns c_due;		/* when the next are looked at */
	int      c_at;		/* the last that was looked at in this pass */
	unsigned c_looks;	/* of the processor, that asked no clock */
	int      c_more;	/* the next pass will give back memory */
};

struct uproc {
	/* The owner's. */
	struct usched       p_sched;	/* first: s_next() casts */
	struct usched_queue p_queue;	/* can run; there is room for all */
	struct uproc_round  p_round;
	struct uproc_cool   p_cool;
	unsigned            p_switches;	/* the scheduler counts them */
	int                 p_prepared;	/* prepared threads: uproc_count() counts them */
	int                 p_nr;	/* 0 .. processors - 1 */
	char                p_pinned;	/* to its cpu */
	char                p_private;	/* flags of new threads (atomic) */
	unsigned            p_random;	/* draws the order; 0: it is as usual */
	struct umem_pool    p_pool;
#if defined(USCHED_HARD)
	struct uhard_graves  p_graves;	/* threads that have ended */
#endif
	/*
	 * Written by others. On cache lines of its own, so that these writes do
	 * not evict the lines above from the owner's cache.
	 */
	struct uinbox       p_inbox;
	/* Changes seldom: a waker reads it, and has the line. */
	int                 p_asleep __attribute__((aligned(64))); /* park.h */
	unsigned            p_room;	/* of p_queue or p_ring (atomic) */
	struct uproc_set   *p_set;
	struct ustack *const *p_runs;	/* where its thread stands, once it runs
					 * (atomic) */
	struct ustack     **p_ring;	/* a larger ring for p_queue, or NULL */
	struct uwait_base   p_waits;	/* deadlines, records from elsewhere; from
					 * wb_timers on it is on the next line */
	unsigned            p_threads;	/* alive, or being made (atomic) */
	unsigned            p_made;	/* in ws: by other makers (atomic) */
	int                 p_promised;	/* private stacks: lanes.h */
	struct umem_pool    p_outer;	/* for makers that run elsewhere */
};

/* Flags for uproc_make(). All are kept in u_mark. */
enum {
	UPROC_JOIN = 1,		/* lives until it is joined */
	UPROC_PRIVATE = 2,	/* has a private stack */
	UPROC_OWN  = 4		/* this bit and all above are the scheduler's */
};

/* Returns the flags of a thread that s_make() is asked for with this lane. */
static __inline__ int uproc_flags(int lane)
{
	return lane == USCHED_PRIVATE ? UPROC_PRIVATE : 0;
}

/* For schedulers whose threads move. A member that is NULL: as in rr. */
struct uproc_move_ops {
	/* At the start; maybe again. 0 or -errno; -ENOSYS: there are none. */
	int  (*mv_lanes)(struct uproc_set *set);
	/* For uwait.h; NULL: as in rr. */
	const struct uwait_ops *mv_waits;
	/* In the child that a thread of p has forked: later calls must not
	 * wait. Or NULL. */
	void (*mv_forked)(struct uproc *p);
	/* Returns whether p alone runs the threads of a lane, and has some if it is a
	 * private one. NULL: of all lanes, or of none if mv_lanes is not NULL.
	 * Called in s_next(). */
	int  (*mv_has)(const struct uproc *p, int lane);
};

/* What op_fresh has seen. */
struct uproc_mark {
	const void   *mk_thread;
	unsigned long mk_at[3];
};

/* Is told of a thread; or, if t is NULL, that tasks threads can be made. */
typedef void uproc_fresh(void *arg, const struct ustack *t, unsigned tasks);

/* Is told of a thread that is not made yet: its function, and where its argument is. */
typedef void uproc_kept(void *arg, void (*f)(void *), void *const *at);

/*
 * A scheduler over processors. s_next() of op_sched returns the thread that runs next;
 * all other members may be left out.
 */
struct uproc_ops {
	/* The call-backs of each dispatcher (usched.h). If NULL, it is as in rr;
	 * s_alloc and s_free are always those of uproc.c. s_done and s_again count
	 * and free threads: only schedulers of this library have their own. */
	struct usched op_sched;
	/* Puts t, which can run, where it runs soon; NULL: in the queue. */
	void (*op_soon)(struct uproc *p, struct uproc_thread *t);
	size_t op_size;		/* of a processor; begins with struct uproc */
	size_t op_thread;	/* of a thread; the scheduler sets its part */
	int  (*op_init)(struct uproc *p);	/* 0 or -errno */
	void (*op_fini)(struct uproc *p);	/* also if op_init() failed */
	struct uproc_move_ops op_move;
	const char *op_name;	/* its functions begin with it: "rr_"; or NULL */
	/*
	 * For uview.h: calls f for each thread that was put where it will run
	 * at p since *m was set, and sets *m. outside: not by a thread. Returns
	 * how many threads wait there. Owner only, before and after s_next().
	 * NULL: they are in s_hot or p_queue.
	 */
	unsigned (*op_fresh)(struct uproc *p, struct uproc_mark *m, int outside,
			     uproc_fresh *f, void *arg);
	/*
	 * For uroots.h: calls f for each thread of p that is not made yet, and maybe for
	 * threads that were. NULL: there are no such. p may have been stopped at any
	 * instruction.
	 */
	void (*op_kept)(const struct uproc *p, uproc_kept *f, void *arg);
};

/*
 * Makes a set of proc_nr processors, up to UPROC_MOST (0: as many as the caller
 * may use cpus), with room for thread_nr threads to begin with. The ops are
 * copied. 0, -EINVAL, -ENOMEM, -EAGAIN;
 * -EBUSY: *set is not NULL, and no ancestor of the process has started it. For
 * a set that an ancestor has started the functions below return -ECHILD: see
 * FORK in rr.h.
 */
USCHED_MUST int uproc_init(struct uproc_set **set, const struct uproc_ops *ops,
			   int proc_nr, int thread_nr);

/*
 * Says that a call of a scheduler with these ops needs its init() first. For
 * functions that find no set. Returns -EINVAL.
 */
int uproc_none(const struct uproc_ops *ops, const char *call);

/*
 * Sets how many bytes of stack each thread can use, at least 16 KiB. Before
 * uproc_start(). 0, -EINVAL, -EBUSY.
 */
int uproc_stack_size(struct uproc_set *set, size_t size);

/*
 * Lets threads be preempted (upreempt.h) while others can run. Before
 * uproc_start(). 0, -EINVAL, -EBUSY; -ENOTSUP: a file of the program was
 * compiled without USCHED_PREEMPT.
 */
int uproc_preempt(struct uproc_set *set);

/*
 * Gives threads that are made from now on private stacks (on is not 0), or lets
 * them share lanes (on is 0): see rr_private(). Any thread, any native thread.
 * 0, -EINVAL.
 */
int uproc_private(struct uproc_set *set, int on);

/*
 * Pins each processor to a cpu (on is not 0), or lets all run on all cpus (on
 * is 0): by a native thread before uproc_start(). If not called, two or more
 * processors are pinned, and a single processor is not. USCHED_PIN in the
 * environment of uproc_start(), 0 or 1, overrides both. If the program asks for
 * 0, a cpu is counted for its other native threads, too: processors look for
 * work before they sleep only if there are more cpus than processors.
 *
 * By a thread of the set: its processor may run on all cpus from now on (on is
 * 0), or is pinned again, if the set is. pthread_create(), system() and
 * posix_spawn() give the mask of the processor to their child. So threads call
 * them between the two, and do not block there.
 *
 * The cpus are those that the caller of uproc_init() could use. If that caller
 * was a thread, they are the cpus of its own set. 0, -EINVAL; -EBUSY: the set
 * was started, and the caller is none of its threads.
 */
int uproc_pinning(struct uproc_set *set, int on);

/*
 * Starts the native threads. 0; -EAGAIN: the system refuses native threads;
 * -ENOMEM: no memory or mappings, even with a single lane for each processor.
 * After an error no native thread runs, and the caller may try again, or call
 * uproc_fini().
 *
 * A process on Linux has 65530 mappings. There are fewer lanes if they would
 * leave less than 4 mappings for each processor, and 320 for ucall(), malloc()
 * and the like. Two processors can start with some 20 mappings.
 */
USCHED_MUST int uproc_start(struct uproc_set *set);

/*
 * Waits until all threads have ended, or can never be woken. The latter is so
 * if all threads that are left wait, and no hold is left. Then
 * stops the native threads, frees everything, and sets *set to NULL. Sets *left
 * to the number of threads that were left; left must not be NULL. 0, -EINVAL;
 * -EDEADLK: *left is not 0. A thread of the set must not call it, nor a
 * function that a thread has given to ucall().
 */
int uproc_fini(struct uproc_set **set, long *left);

/*
 * Holds the set: until the release, native threads that are not its processors,
 * and threads of other sets, may wake its threads. Any thread, while the set
 * cannot end: before uproc_start(), within another hold, or as a thread of the
 * set.
 */
void uproc_hold(struct uproc_set *set);

/* Ends an uproc_hold(). Any thread or native thread. */
void uproc_release(struct uproc_set *set);

/*
 * Returns the processor nr modulo the number of processors; NULL if set is
 * NULL. uproc_make(NULL, ...) fails with EINVAL, so callers need not check.
 */
struct uproc *uproc_at(struct uproc_set *set, unsigned nr);

/* Returns the number of the next processor in turn. Any thread. */
unsigned uproc_next_nr(struct uproc_set *set);

/*
 * Returns the number of the processor for a new thread. Any thread. Mostly this
 * is uproc_next_nr(). But before uproc_start(), if uproc_init() was given a
 * thread_nr, threads that are made one after another share a processor, in
 * chunks. Chunks are 32 threads in the first round, and double in each round
 * after that, until each processor has its part of thread_nr. Then it begins
 * again.
 */
unsigned uproc_deal(struct uproc_set *set);

/*
 * Makes a thread on p. NULL and errno: ENOMEM, EINVAL, ECHILD; EAGAIN: there is
 * no further private stack. Any thread.
 */
USCHED_MUST struct uproc_thread *uproc_make(struct uproc *p, void (*f)(void *),
					    void *arg, int flags);

/*
 * Waits until t, made with UPROC_JOIN, has ended, and frees it. Wakes of the
 * caller that come meanwhile are kept. Until it is joined t may be woken; after
 * its end a wake changes nothing. 0, -ENOMEM; -EDEADLK: t is the caller;
 * -EINVAL: t is not joinable, the caller is no thread of its set, or another
 * thread waits for t; -ECANCELED: a scope around the caller was cancelled
 * (uscope.h), and t can still be joined.
 */
int uproc_join(struct uproc_thread *t);

/*
 * Waits as uproc_join() does, until a deadline (uwait.h). A native thread may
 * wait, too, except for a processor of any set; the set must not end meanwhile.
 * As uproc_join(); -ETIMEDOUT, -ECANCELED, -EAGAIN: t can still be joined.
 */
int uproc_join_until(struct uproc_thread *t, utime_ns until);

/* Lets the other threads run, then returns 0. -ENOMEM: no other was let run. */
int uproc_yield(void);

/*
 * Wakes t. Any thread; on Linux also a signal handler. If 3 * 2^25 such wakes
 * of a thread are not taken, the program ends in usched_fail().
 */
void uproc_post(struct uproc_thread *t);

/*
 * Takes the wakes that have come to the inbox; if no thread can run, sleeps
 * until a thread can. s_next() calls it when the queue is empty, and when
 * uproc_is_late(). False: the set is being stopped; or it is driven (uloop.h), and
 * sleeps now or has run for long enough.
 */
int uproc_look(struct uproc *p);

/*
 * Takes the wakes that have come to the inbox, and never sleeps. For schedulers
 * with queues of their own, when uproc_is_late().
 */
void uproc_drain(struct uproc *p);

/* Not API: a part of uproc_is_late(). */
int uproc_ask(struct uproc *p, unsigned switches);

/* Not API. Returns whether p has to ask at this switch whether it is late. */
static __inline__ int uproc_must_ask(const struct uproc *p, unsigned switches)
{
	return __builtin_expect((int)(p->p_round.r_ask - switches) <= 0, 0);
}

/*
 * Returns whether p, which has threads to run, has to look first for what comes
 * from outside. s_next() asks at each switch; switches counts them.
 */
static __inline__ int uproc_is_late(struct uproc *p, unsigned switches)
{
	return uproc_must_ask(p, switches) && uproc_ask(p, switches);
}

/* Returns whether a loop of the program drives p (uloop.h). */
int uproc_is_driven(const struct uproc *p);

/* Not API. Ends a round, before a look or a sleep of ws. Owner only. */
void uproc_round_end(struct uproc *p, unsigned switches);

/* Not API. Begins a round, after that. Owner only. */
void uproc_round_begin(struct uproc *p, unsigned switches);

/*
 * Not API, but called by inline functions of ws.h. Lets another native thread
 * take the few steps that the caller waits for. nr says how often the caller
 * has called in a row, from 1 on. The first calls yield, then each call sleeps
 * longer than the last, 1 ms at most. Yields alone are not enough, because they
 * never let a lower priority run.
 */
void uproc_give_way(unsigned nr);

/* Not API. Passes a moment of such a wait, between calls that give way. */
static __inline__ void uproc_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Returns the running thread if it belongs to the set, else NULL. */
struct uproc_thread *uproc_self(struct uproc_set *set);

/*
 * A thread must not be preempted within a function of this header, also where
 * it was inlined into the thread's own. With USCHED_PREEMPT, schedulers compile
 * their waits and wakes out of line. A file without it leaves a mark, which
 * uproc_preempt() looks for.
 */
#if !defined(USCHED_PREEMPT) && !defined(USCHED_HARD) && defined(__ELF__) && \
	!defined(UPROC_INLINED)
#define UPROC_INLINED			/* usync.h does it, too */
__attribute__((weak)) char uproc_inlined;
#endif

/* Returns the processor that t belongs to. */
static __inline__ struct uproc *uproc_of(const struct uproc_thread *t)
{
	/* Atomic: some schedulers move threads. */
	return (struct uproc *)__atomic_load_n(&t->t_stack.u_sched,
					       __ATOMIC_RELAXED);
}

/*
 * With USCHED_SINGLE a set has a single processor, and only its own threads
 * wake its threads. This measures how much remote wakes cost where none come.
 */
#if defined(USCHED_SINGLE)
#define UPROC_SINGLE	1
#else
#define UPROC_SINGLE	0
#endif

/* Checks, in the hard mode, that t was not freed. Caller wakes or joins t. */
#if defined(USCHED_HARD)
void uproc_live(const struct uproc_thread *t, const char *call);
#else
static __inline__ void uproc_live(const struct uproc_thread *t,
				  const char *call)
{
	(void)t, (void)call;
}
#endif

/*
 * Tells tracers of a wake of t, where a function of the library is made of what
 * programs inline.
 */
#if defined(UPROC_PROBES)
#define UPROC_WOKEN(t)	USCHED_PROBE_THREAD(wake, &(t)->t_stack)
#else
#define UPROC_WOKEN(t)	((void)0)
#endif

/* Sets *p to the caller's processor, and returns whether t belongs to it. */
static __inline__ int uproc_is_here(const struct uproc_thread *t,
				     struct uproc **p)
{
	struct usched *s = UPROC_SINGLE ? t->t_stack.u_sched : usched_self();

	uproc_live(t, "wake");
	*p = (struct uproc *)s;
	return __builtin_expect(s == t->t_stack.u_sched, 1);
}

/* Appends t. Owner of the queue only. */
static __inline__ void uproc_queue_put(struct usched_queue *q,
				       struct uproc_thread *t)
{
	unsigned tail = q->q_tail;

	q->q_ring[tail & q->q_mask] = &t->t_stack;
	__atomic_store_n(&q->q_tail, tail + 1, __ATOMIC_RELAXED);
}

/* Returns how many threads are queued. Any thread; exact only for the owner. */
static __inline__ unsigned uproc_queue_len(const struct usched_queue *q)
{
	return __atomic_load_n(&q->q_tail, __ATOMIC_RELAXED) -
	       __atomic_load_n(&q->q_head, __ATOMIC_RELAXED);
}

/* Returns whether no thread is queued. */
static __inline__ int uproc_queue_empty(const struct usched_queue *q)
{
	return q->q_head == q->q_tail;
}

/*
 * Not API. Swaps the first thread of the queue, which is not empty, for one
 * drawn at random: see utime_virtual().
 */
void uproc_shuffle(struct uproc *p);

/* Threads to fetch ahead: enough for some misses, few enough to stay cached. */
#define UPROC_AHEAD	48

/* Counts the switches to prepared threads since s_next() was called. */
static __inline__ unsigned uproc_count(struct uproc *p)
{
	return p->p_switches += p->p_prepared - p->p_sched.s_left;
}

/*
 * Counts the switch to the thread that s_next() is about to return, and lets
 * prepared threads (usched.h) run after it, until p has to ask whether it is late.
 * But if s_next is not next, because another call-back stands in front, lets none
 * run. s_next() calls it.
 */
static __inline__ void uproc_prepare(struct uproc *p,
				     struct ustack *(*next)(struct usched *))
{
	struct usched *s = &p->p_sched;
	int nr = UPROC_SINGLE ? INT_MAX : (int)(p->p_round.r_ask -
						++p->p_switches);

	s->s_queue = &p->p_queue;
	if (__builtin_expect(p->p_random != 0, 0)) {
		if (!uproc_queue_empty(&p->p_queue))
			uproc_shuffle(p);
		nr = 0;
	}
	p->p_prepared = s->s_left = s->s_next == next && nr > 0 ? nr : 0;
}

/* Takes the first thread. The queue is not empty. Owner of the queue only. */
static __inline__ struct uproc_thread *uproc_queue_get(struct usched_queue *q)
{
	unsigned head = q->q_head;

	__atomic_store_n(&q->q_head, head + 1, __ATOMIC_RELAXED);
	return (struct uproc_thread *)q->q_ring[head & q->q_mask];
}

/* Returns the thread that calls, which is about to wait. */
static __inline__ struct uproc_thread *uproc_waiter(void)
{
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();

	UHARD(yield());
	if (__builtin_expect(t == NULL, 0)) {
		usched_other_copy("wait");
		usched_fail("wait: called outside of a thread");
	}
	return t;
}

/* Blocks the caller, whose wait is counted. 0; -ENOMEM: the count is undone. */
static __inline__ int uproc_wait_block(void)
{
	int rc = usched_block();

	if (__builtin_expect(rc != 0, 0))
		uwakes_back(&((struct uproc_thread *)ustack_self())->t_wakes,
			    1);
	return rc;
}

/* Checks, in the hard mode, that t, which waits, is of a set that moves none. */
#if defined(USCHED_HARD)
void uproc_stays(const struct uproc_thread *t);
#else
static __inline__ void uproc_stays(const struct uproc_thread *t)
{
	(void)t;
}
#endif

/*
 * Waits for a wake. 0, or -ENOMEM: the caller has not waited. Threads of a set
 * without op_move.
 */
static __inline__ int uproc_wait(void)
{
	struct uproc_thread *t = uproc_waiter();

	uproc_stays(t);
	return __builtin_expect(!uwakes_wait(&t->t_wakes), 1) ?
		0 : uproc_wait_block();
}

#ifdef __cplusplus
}
#endif

#endif /* UPROC_H */
