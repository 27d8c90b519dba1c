/* SPDX-License-Identifier: MIT */
/* uproc_set.h: a set, for uproc.c and schedulers that move threads. Not API. */

#ifndef UPROC_SET_H
#define UPROC_SET_H

#include "uproc.h"

#include <pthread.h>
#include <stdbool.h>

#define UPROC_HIDDEN	__attribute__((visibility("hidden")))

/*
 * Lanes. A processor has UPROC_LANE_NR, unless all processors together would have
 * more than UPROC_LANE_ALL. Then it has fewer, but at least UPROC_LANE_FEW, unless
 * all would have more than UPROC_LANE_MOST.
 */
#define UPROC_LANE_NR	256
#define UPROC_LANE_ALL	8192
#define UPROC_LANE_FEW	16
#define UPROC_LANE_MOST	16384	/* half of all mappings */
#define UPROC_SPIN	500	/* looks before a sleep, with a spare cpu */
/* Cache lines are fetched in pairs. */
#define UPROC_LINE	((size_t)128)

struct ucpus;
struct ucall_pool;

struct uproc_set {
	struct uproc_ops set_ops;
	char           *set_proc;	/* set_nr of set_ops.op_size bytes */
	int             set_nr;
	unsigned        set_next_nr;	/* atomic */
	unsigned        set_share;	/* hint: threads of each (atomic) */
	size_t          set_stack;
	pthread_t      *set_native;
	int             set_running;
	int             set_forks;	/* uproc_forks at start, or INT_MAX */
	struct ucpus   *set_cpus;	/* cpus of the thread that made the set */
	int             set_cpu_nr;	/* cpus in set_cpus; 0: unknown */
	int             set_pins;	/* asked for: 0, 1; -1: by default */
	bool            set_pinned;	/* processors are pinned, if possible */
	bool            set_spare;	/* there is a cpu for each processor, and
					 * for the program: uproc_pinning(0) */
	int             set_lane_nr;	/* lanes of a processor: mv_lanes() */
	bool            set_on_native;	/* no lanes: all on native stacks */
	bool            set_few;	/* few threads have lanes: lanes.h */
	int             set_private;	/* USCHED_STACKS: 0, 1; -1: not set */
	bool            set_sized;	/* USCHED_STACK_SIZE overrides */
	bool            set_promising;	/* there are lanes: lanes.h */
	struct uproc_drive *set_drive;	/* a driven set: driven.h; or NULL (atomic) */
	struct uproc_set *set_next;	/* uroots.c */
	struct ucall_pool *set_calls;	/* ucall.h, or NULL (atomic) */
	void          (*set_calls_fini)(struct ucall_pool *);

	struct umem     set_mem;
	pthread_mutex_t set_lock;	/* protects p_ring, p_room, p_promised */

	/* Atomic; seldom written. */
	int             set_idle __attribute__((aligned(64)));
	int             set_go;		/* 0 wait, 1 run, -1 give up */
	int             set_stop;
	int             set_fini;	/* fini waits for the end */
#if defined(USCHED_HARD)
	int             set_holds;	/* by uproc_hold() */
#endif
};

/*
 * Moves the threads of q to a ring of mask + 1 places, which hold them all.
 * Returns the old ring. Owner only.
 */
static inline struct ustack **uproc_queue_move(struct usched_queue *q,
					       struct ustack **ring,
					       unsigned mask)
{
	struct ustack **old = q->q_ring;
	unsigned i;

	for (i = q->q_head; i != q->q_tail; i++)
		ring[i & mask] = old[i & q->q_mask];
	q->q_ring = ring;
	q->q_mask = mask;
	return old;
}

/* Returns the first place of q since its tail was from that is not overwritten. */
static inline unsigned uproc_fresh_from(const struct usched_queue *q,
					unsigned from)
{
	return q->q_tail - from > q->q_mask + 1 ? q->q_tail - q->q_mask - 1 :
		from;
}

/*
 * For op_fresh: tells of the threads that were put into q since its tail was
 * from, but for known. Owner only.
 */
static inline void uproc_fresh_queue(const struct usched_queue *q, unsigned from,
				     const void *known, uproc_fresh *f, void *arg)
{
	for (from = uproc_fresh_from(q, from); from != q->q_tail; from++) {
		const struct ustack *u = q->q_ring[from & q->q_mask];

		if (u != known)
			f(arg, u, 0);
	}
}

/*
 * forked.h: how many times an ancestor has forked to make this
 * process, as far as pthread_atfork() tells.
 */
extern UPROC_HIDDEN int uproc_forks;

/* Returns whether an ancestor has started the set: it cannot be used then. */
static inline bool uproc_inherited(const struct uproc_set *set)
{
	return __builtin_expect(uproc_forks != 0, 0) &&
	       set->set_forks < uproc_forks;
}

/* Returns whether the caller runs on the stack of a thread that has forked. */
UPROC_HIDDEN bool uproc_lost(void);

/* Names the broken contract and aborts; in the child of a thread, fork's. */
UPROC_HIDDEN void uproc_fail(const char *misuse)
	__attribute__((noreturn, cold));

/* The set whose calls (ucall.h) this native thread makes, or NULL. */
extern UPROC_HIDDEN __thread const struct uproc_set *uproc_serves;

#define UPROC_PATIENCE	50	/* turns of a wait from a yield to the next */

/*
 * Passes a turn of a wait that another native thread ends by a few steps, most
 * often at once: a post that is half-way, for example. That native thread may
 * have lost its cpu to the caller, so some tries give way. *tries is 0 before
 * the first turn.
 */
static inline void uproc_pause(unsigned *tries)
{
	if (++*tries % UPROC_PATIENCE == 0)
		uproc_give_way(*tries / UPROC_PATIENCE);
	else
		uproc_relax();
}

/* Returns what a driven set has besides; NULL: it is not driven. Any thread. */
static inline struct uproc_drive *uproc_drive_of(const struct uproc_set *set)
{
	return __atomic_load_n(&set->set_drive, __ATOMIC_ACQUIRE);
}

/* Returns the processor with this number, 0 to set_nr - 1. */
static inline struct uproc *uproc_nth(const struct uproc_set *set, int nr)
{
	return (struct uproc *)(set->set_proc + nr * set->set_ops.op_size);
}

/* Returns whether uproc_fini() is stopping the processors. Any thread. */
static inline bool uproc_stopped(const struct uproc_set *set)
{
	return __atomic_load_n(&set->set_stop, __ATOMIC_SEQ_CST) != 0;
}

/*
 * For uloop.h, which tells what they do. Returns 0 if the caller may start s by
 * uproc_drive_start(), else -errno.
 */
UPROC_HIDDEN int uproc_drive_may(const struct usched *s);

/* Starts s, whose sleeps are sleeps of o, its first source. 0 or -errno. */
UPROC_HIDDEN int uproc_drive_start(struct usched *s, struct uwait_source *o);

/* Runs threads of s until none is ready. 1, 0 or -errno. */
UPROC_HIDDEN int uproc_drive_run(struct usched *s);

/*
 * Returns until when the caller may sleep, and sets *o to the source in which it then
 * sleeps, or to NULL.
 */
UPROC_HIDDEN utime_ns uproc_drive_until(const struct usched *s,
					struct uwait_source **o);

/*
 * Puts p, the caller, to sleep until it is woken, has a deadline, or ns have
 * passed, after upark_prepare() and a look in vain. ns may be UNEVER. Returns
 * whether another has woken it, or time has jumped.
 */
UPROC_HIDDEN bool uproc_sleep(struct uproc *p, utime_ns ns);

/*
 * How often a processor with nothing to run has rested, and when it does so again; 0:
 * not known so far. Starts as zeros. See rest.h.
 */
struct uproc_rests {
	int      r_nr;
	utime_ns r_due;
};

/* Returns how many ns p may sleep until its next rest, or UNEVER. Owner only. */
UPROC_HIDDEN utime_ns uproc_rest_in(const struct uproc *p, struct uproc_rests *r);

/* Rests, if that is due: gives back memory of lanes that p has. As s_next(). */
UPROC_HIDDEN void uproc_rest(struct uproc *p, struct uproc_rests *r);

/* Looks at some private lanes, if that is due, in s_next(), at a look. */
UPROC_HIDDEN void uproc_cool_in_time(struct uproc *p);

/*
 * Returns whether virtual time may jump, if p, the caller, has nothing to run
 * either: all others sleep, there is no hold, and a thread has a deadline. If so,
 * p must look at its inbox once more before uproc_jump().
 */
UPROC_HIDDEN bool uproc_may_jump(struct uproc *p);

/*
 * Lets virtual time jump to the next deadline, and wakes the processors that have
 * it. p, the caller, is awake, and uproc_may_jump() was true.
 */
UPROC_HIDDEN void uproc_jump(struct uproc *p);

/* Returns whether a deadline of p has passed. Owner only. */
static inline bool uproc_is_due(const struct uproc *p)
{
	utime_ns due = uwait_due(&p->p_waits);

	return due != UNEVER && due <= unow();
}

/*
 * Returns whether a block of the memory of set, of size bytes, is a thread that
 * has not ended. Reads what its processor may be changing: a hint then.
 */
UPROC_HIDDEN bool uproc_is_thread(const struct uproc_set *set, const void *block,
				  size_t size);

/*
 * Returns whether such a block is the record of a wait of a thread of set, which
 * still waits, and notes for what in *v. As above.
 */
UPROC_HIDDEN bool uproc_is_record(const struct uproc_set *set, const void *block,
				  size_t size, struct uwait_seen *v);

/* What a walk finds. A member may be NULL. */
struct uproc_walk {
	void (*wa_thread)(void *arg, const struct ustack *u);
	/* A block of size bytes that begins with the address of a thread. */
	void (*wa_record)(void *arg, const struct uwait *w, size_t size);
	void  *wa_arg;
};

/*
 * Walks over the threads of set that have not ended, and over the records of their
 * waits, in the order of their addresses. Of a thread that has begun, u_lane is a lane
 * of its dispatcher, and u_top is in that; its other fields are as its processor
 * leaves them at this moment. Caller holds set_mem: umem_hold().
 */
UPROC_HIDDEN void uproc_walk(const struct uproc_set *set, const struct uproc_walk *w);

/*
 * For uroots.c: lets f be told of each set from now on, before its first thread is made,
 * and before it is freed. Once, before any set is made.
 */
UPROC_HIDDEN void uproc_watch_sets(void (*f)(struct uproc_set *set, bool begins));

/* Returns whether u, which is blocked, waits for a wake. A hint: uwait.h. */
UPROC_HIDDEN int uproc_waits(const struct ustack *u);

/* Of usched.c: where the caller, a native thread, has the thread that it runs. */
UPROC_HIDDEN struct ustack *const *usched_current_at(void);

/* For uwait.h: returns whether u runs on another processor. */
UPROC_HIDDEN int uproc_runs(const struct uwait_base *b, const void *u);

/* For uwait.h: gives nr wakes to u, the caller, which has taken too many. */
UPROC_HIDDEN void uproc_waits_back(struct ustack *u, int nr);

/* For uwait.h: holds the set of b, the caller's processor, or ends a hold. */
UPROC_HIDDEN void uproc_waits_hold(struct uwait_base *b, int on);

/* Returns the processor that this native thread is, or NULL. Any thread. */
UPROC_HIDDEN struct uproc *uproc_native(void);

/* Returns the set of the thread that calls; NULL: it belongs to none. */
UPROC_HIDDEN struct uproc_set *uproc_running(void);

/* Returns the processor of set on which the caller, a thread, runs, or NULL. */
UPROC_HIDDEN struct uproc *uproc_here(const struct uproc_set *set);

/*
 * Allocates a thread of p. The thread waits, and p_threads does not count it
 * yet. Its memory is from p_pool if p is the caller (here), else from p_outer.
 * NULL and errno: ENOMEM, EINVAL, ECHILD, EAGAIN.
 */
UPROC_HIDDEN struct uproc_thread *uproc_alloc(struct uproc *here,
		struct uproc *p, void (*f)(void *), void *arg, int flags);

/*
 * Tells the joiner of t, a joinable thread, that t has ended on p, the caller.
 * Once this has returned, the joiner may have freed t.
 */
UPROC_HIDDEN void uproc_end(struct uproc *p, struct uproc_thread *t);

/* Frees the buffer of t, if it has one. t has ended on p, the caller. */
UPROC_HIDDEN void uproc_slice_free(struct uproc *p, struct uproc_thread *t);

/* Gives the memory of t, which has ended, to p, the caller. */
UPROC_HIDDEN void uproc_free(struct uproc *p, struct uproc_thread *t);

/*
 * Returns how many cpus a set that the caller makes may use; 1 if the system
 * does not tell. -ENOMEM.
 */
UPROC_HIDDEN int uproc_cpus(void);

/*
 * Pins the processor that calls, if its set is pinned (on), or lets it run on
 * all cpus of the set. Returns whether it was pinned before. Any native thread;
 * does nothing if the caller is no processor.
 */
UPROC_HIDDEN bool uproc_pin(bool on);

#endif /* UPROC_SET_H */
