/* SPDX-License-Identifier: MIT */
/* uproc.h: processors: the part that schedulers share. */

#ifndef UPROC_H
#define UPROC_H

/*
 * A processor (struct uproc) is a native thread, which may be pinned to a cpu,
 * with a dispatcher, a queue of threads that can run, an inbox for wakes from
 * elsewhere and memory of its own. A set of processors (struct uproc_set) is
 * what a scheduler starts and stops. A scheduler adds an order: it gives
 * uproc_init() its s_next(), which takes threads from the queue, or from
 * wherever it likes. doc/scheduler.md makes one, step by step.
 *
 * Waits and wakes are counted (wakes.h): a wake before the wait is kept.
 *
 * WHO MAY CALL WHAT
 *
 * Functions with a struct uproc * argument: its own native thread.
 * uproc_post(): anyone, also (on Linux) a signal handler. Those of the set: the
 * native thread that made it, unless they say more. The inline functions:
 * threads.
 */

#include "usched.h"
#include "umem.h"
#include "wakes.h"
#if defined(USCHED_HARD)
#include "uhard.h"
#endif

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UPROC_MOST	4096	/* processors of a set */

struct uproc;
struct uproc_set;

/* A thread. One cache line on 64-bit machines: a cold one costs a miss less. */
struct uproc_thread {
	struct ustack t_stack;
	struct wakes  t_wakes;
};

struct uproc {
	/* The owner's. */
	struct usched       p_sched;	/* first: s_next() casts */
	struct usched_queue p_queue;	/* can run; there is room for all */
	unsigned            p_turn;	/* for the scheduler */
	struct uproc_set   *p_set;
	int                 p_nr;	/* 0 .. processors - 1 */
	bool                p_pinned;	/* to its cpu */
	struct umem_pool    p_pool;
#if defined(USCHED_HARD)
	struct uhard_kept   p_kept;	/* threads that have ended */
#endif
	/*
	 * The others': on lines of their own, so that their writes do not take
	 * away those above.
	 */
	struct inbox        p_inbox;
	int                 p_asleep __attribute__((aligned(64))); /* park.h */
	unsigned            p_threads;	/* alive, or being made (atomic) */
	unsigned            p_made;	/* of these, by others; some kinds (atomic) */
	unsigned            p_room;	/* that p_queue or p_ring hold (atomic) */
	struct ustack     **p_ring;	/* a larger ring for p_queue, or NULL */
	struct umem_pool    p_outer;	/* for those who make threads for us */
};

/* Flags for uproc_make(). All are kept in u_mark. */
enum {
	UPROC_JOIN = 1,		/* lives until it is joined */
	UPROC_OWN  = 2		/* this, and what is above, is the scheduler's */
};

/* For schedulers whose threads move. Members left out: as rr does. */
struct uproc_move_ops {
	/* At the start; maybe again. 0 or -errno; -ENOSYS: there are none. */
	int  (*mv_lanes)(struct uproc_set *set);
	void (*mv_done)(struct usched *s, struct ustack *u);
	int  (*mv_again)(struct usched *s, struct ustack *u);	/* or never */
	int  (*mv_wait)(void);
	/* Here is the processor that calls; NULL: another native thread. */
	void (*mv_wake)(struct uproc *here, struct uproc_thread *t);
	/* Takes the wakes that have come to the running thread of p. */
	void (*mv_drain)(struct uproc *p);
	/* In the child of its thread: later calls must not wait; or NULL. */
	void (*mv_forked)(struct uproc *p);
};

/*
 * A scheduler over processors: op_next says which thread runs next. The rest may
 * be left out. All but mv_wake are called by the processor.
 */
struct uproc_ops {
	struct ustack *(*op_next)(struct usched *s);
	int  (*op_preempt)(struct usched *s, struct ustack *u);
	size_t op_size;		/* of a processor, which begins with struct uproc */
	size_t op_thread;	/* of a thread; the scheduler's part is not set */
	int  (*op_init)(struct uproc *p);	/* 0 or -errno */
	void (*op_fini)(struct uproc *p);	/* also if op_init() failed */
	struct uproc_move_ops op_move;
};

/*
 * Makes a set of proc_nr processors, 1 to UPROC_MOST, with room for thread_nr
 * threads to begin with. The ops are copied. -EINVAL, -ENOMEM, -EAGAIN; -EBUSY:
 * *set is not NULL, and no ancestor of the process has started it. For a set
 * that an ancestor has started the functions below return -ECHILD: see FORK in
 * rr.h.
 */
int uproc_init(struct uproc_set **set, int proc_nr, int thread_nr,
	       const struct uproc_ops *ops);

/*
 * Bytes of stack that each thread can use, 16 KiB or more; before
 * uproc_start(). 0, -EINVAL, -EBUSY.
 */
int uproc_stack_size(struct uproc_set *set, size_t size);

/*
 * Threads may be preempted (upreempt.h), when others can run; before
 * uproc_start(). 0, -EINVAL, -EBUSY. -ENOTSUP: some file of the program was
 * compiled without USCHED_PREEMPT.
 */
int uproc_preempt(struct uproc_set *set);

/*
 * Before uproc_start(), by a native thread: each processor is pinned to a cpu
 * (on is not 0), or may run on all. If that is not called, they are pinned if
 * they are two or more. USCHED_PIN in the environment of uproc_start(), 0 or 1,
 * overrides both.
 *
 * By a thread of the set: its processor may run on all cpus from now on (on is
 * 0), or is pinned again, if the set is. pthread_create(), system() and
 * posix_spawn() give the mask of the processor to their child, so they belong
 * between the two, without a block.
 *
 * The cpus are those that the caller of uproc_init() could use; if that was a
 * thread, those of its own set. 0, -EINVAL; -EBUSY: it was started, and the
 * caller is not one of its threads.
 */
int uproc_pinning(struct uproc_set *set, int on);

/*
 * Starts the native threads: 0, or -errno, and none runs. -EAGAIN: the system
 * refuses native threads, -ENOMEM: memory or mappings, even with a single lane
 * for each processor. It may be called again, or uproc_fini() instead.
 *
 * Lanes are fewer where they would leave less than 4 mappings for each
 * processor, and 320 for ucall(), malloc() and the like; Linux allows 65530 in
 * a process. With two processors all goes well from some 20 on.
 */
int uproc_start(struct uproc_set *set);

/*
 * Waits until all threads have ended, or all that are left wait, nobody is
 * left to wake them, and no native thread holds the set. Then stops the native
 * threads, frees everything, and sets *set to NULL. 0, -EINVAL, -EDEADLK. *left
 * is the number of threads that were left. Neither a thread of the set may call
 * it nor a function that a thread has given to ucall().
 */
int uproc_fini(struct uproc_set **set, long *left);

/* A native thread, not of the set, may still wake threads: between these. */
void uproc_hold(struct uproc_set *set);
void uproc_release(struct uproc_set *set);

/*
 * The processor with this number, modulo how many there are. These and
 * uproc_make() pass on that there is no set, or no processor, as EINVAL.
 */
struct uproc *uproc_at(struct uproc_set *set, unsigned nr);

/* Each call gives the number of the next processor in turn. Anyone. */
unsigned uproc_turn(struct uproc_set *set);

/*
 * The same, but before uproc_start(), if uproc_init() was given a thread_nr,
 * threads that are made one after another share a processor, in chunks: 32 for
 * each, then twice as many in each round, until each has its part of thread_nr.
 * Then it begins again. Any native thread, and threads.
 */
unsigned uproc_deal(struct uproc_set *set);

/* Makes a thread on p. NULL and errno: ENOMEM, EINVAL, ECHILD. Anyone. */
struct uproc_thread *uproc_make(struct uproc *p, void (*f)(void *), void *arg,
				int flags);

/*
 * Waits until t, made with UPROC_JOIN, has ended, and frees it. Wakes that
 * come meanwhile are kept. Until then t may be woken: after its end that
 * changes nothing. 0, -ENOMEM; -EDEADLK: by itself; -EINVAL: not to be
 * joined, or by no thread of its set, or while another one does.
 */
int uproc_join(struct uproc_thread *t);

/* Lets the others run, then goes on. 0 or -ENOMEM: nobody was let run. */
int uproc_yield(void);

/* A wake from anywhere. 3 * 2^25 that are not taken end in usched_fail(). */
void uproc_post(struct uproc_thread *t);

/*
 * For s_next(), when the queue is empty, and now and then: takes what has come
 * from elsewhere; if there is nothing to run, sleeps until there is. False: the
 * set is being stopped.
 */
bool uproc_look(struct uproc *p);

/* The same, but never sleeps: for schedulers with queues of their own. */
void uproc_drain(struct uproc *p);

/*
 * Not API, but called by inline functions of ws.h. For a wait on another native
 * thread that is about to take a few steps: gives it the cpu, the nr-th time in
 * a row, from 1 on. The first times yield; then each sleeps for longer than the
 * last did, 1 ms at most. Yields alone would not do, since they never let a
 * lower priority run.
 */
void uproc_give_way(unsigned nr);

/* Not API. A moment of such a wait, between those that give way. */
static __inline__ void uproc_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* The running thread if it belongs to the set, else NULL. */
struct uproc_thread *uproc_self(struct uproc_set *set);

/*
 * A thread must not be preempted in functions of this header that are inline in
 * its own. With USCHED_PREEMPT, schedulers keep theirs out of line. Files
 * without it leave a mark, which uproc_preempt() looks for.
 */
#if !defined(USCHED_PREEMPT) && !defined(USCHED_HARD) && defined(__ELF__)
__attribute__((weak)) char uproc_inlined;
#endif

#define UPROC_LIKELY(x)		__builtin_expect(!!(x), 1)

/* Returns the processor that t belongs to. */
static __inline__ struct uproc *uproc_of(const struct uproc_thread *t)
{
	/* Atomic: some schedulers move threads. */
	return (struct uproc *)__atomic_load_n(&t->t_stack.u_sched,
					       __ATOMIC_RELAXED);
}

/*
 * Built with SINGLE_THREAD, a set has one processor, and while its threads live
 * only they wake each other: for the measurement of what the others cost.
 */
#if defined(SINGLE_THREAD)
#define UPROC_SINGLE	1
#else
#define UPROC_SINGLE	0
#endif

/* In the hard mode: t, which the caller wakes or joins, must not be freed. */
static __inline__ void uproc_live(const struct uproc_thread *t,
				  const char *call)
{
#if defined(USCHED_HARD)
	uhard_live(&t->t_stack, call);
#else
	(void)t, (void)call;
#endif
}

/* Does the caller run on the processor of t, which is about to be woken? *p. */
static __inline__ bool uproc_is_here(const struct uproc_thread *t,
				     struct uproc **p)
{
	struct usched *s = UPROC_SINGLE ? t->t_stack.u_sched : usched_self();

	uproc_live(t, "wake");
	*p = (struct uproc *)s;
	return UPROC_LIKELY(s == t->t_stack.u_sched);
}

/* Appends t. Owner of the queue only. */
static __inline__ void uproc_queue_put(struct usched_queue *q,
				       struct uproc_thread *t)
{
	unsigned tail = q->q_tail;

	q->q_ring[tail & q->q_mask] = &t->t_stack;
	__atomic_store_n(&q->q_tail, tail + 1, __ATOMIC_RELAXED);
}

/* How many. Others, too, may ask. */
static __inline__ unsigned uproc_queue_len(const struct usched_queue *q)
{
	return __atomic_load_n(&q->q_tail, __ATOMIC_RELAXED) -
	       __atomic_load_n(&q->q_head, __ATOMIC_RELAXED);
}

/* Returns whether no thread is queued. */
static __inline__ bool uproc_queue_empty(const struct usched_queue *q)
{
	return q->q_head == q->q_tail;
}

/* How far ahead: enough for some misses in a row, few enough to stay cached. */
#define UPROC_AHEAD	48

/*
 * For s_next(), if it is that of the ops, with no other in front of
 * it: so many prepared threads (usched.h) may run before it is called again.
 */
static __inline__ int uproc_hand(struct uproc *p,
				 struct ustack *(*next)(struct usched *), int nr)
{
	struct usched *s = &p->p_sched;

	s->s_queue = &p->p_queue;
	return s->s_left = s->s_next == next ? nr : 0;
}

/* The first. */
static __inline__ struct uproc_thread *uproc_queue_get(struct usched_queue *q)
{
	unsigned head = q->q_head;

	__atomic_store_n(&q->q_head, head + 1, __ATOMIC_RELAXED);
	return (struct uproc_thread *)q->q_ring[head & q->q_mask];
}

/* The thread that calls, which is about to wait. */
static __inline__ struct uproc_thread *uproc_waiter(void)
{
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();

	usched_point();
	if (__builtin_expect(t == NULL, 0))
		usched_fail("wait: called outside of a thread");
	return t;
}

/* The block of one that wakes_wait() has counted. 0, or -ENOMEM: undone. */
static __inline__ int uproc_wait_block(void)
{
	int rc = usched_block();

	if (__builtin_expect(rc != 0, 0))
		wakes_back(&((struct uproc_thread *)ustack_self())->t_wakes, 1);
	return rc;
}

/* Waits for a wake. 0, or -ENOMEM: it has not waited. */
static __inline__ int uproc_wait(void)
{
	struct uproc_thread *t = uproc_waiter();

	return UPROC_LIKELY(!wakes_wait(&t->t_wakes)) ? 0 : uproc_wait_block();
}

#ifdef __cplusplus
}
#endif

#endif /* UPROC_H */
