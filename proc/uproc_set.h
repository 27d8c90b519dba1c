/* SPDX-License-Identifier: MIT */
/* uproc_set.h: what schedulers that move threads know of their set. Not API. */

#ifndef UPROC_SET_H
#define UPROC_SET_H

#include "uproc.h"

#include <pthread.h>

#define UPROC_HIDDEN	__attribute__((visibility("hidden")))

#define UPROC_LANE_NR	256	/* of a processor, */
#define UPROC_LANE_ALL	8192	/* and of all together, */
#define UPROC_LANE_FEW	16	/* or so many of each, up to */
#define UPROC_LANE_MOST	16384	/* of all together: half of all mappings */
#define UPROC_SPIN	500	/* looks before sleeping, if there is a spare cpu */
/* Cache lines are fetched in pairs. */
#define UPROC_LINE	((size_t)128)

struct cpus;
struct ucalls;

struct uproc_set {
	struct uproc_ops set_ops;
	char           *set_proc;	/* set_nr of set_ops.op_size bytes */
	int             set_nr;
	unsigned        set_turn;	/* atomic */
	unsigned        set_share;	/* threads of each, a hint (atomic) */
	size_t          set_stack;
	pthread_t      *set_native;
	int             set_running;
	int             set_forks;	/* before the start; till then INT_MAX */
	struct cpus    *set_cpus;	/* of the native thread that made it */
	int             set_pins;	/* asked for: 0, 1; -1: by default */
	bool            set_pinned;	/* processors are, if they can */
	bool            set_spare;	/* a cpu for each processor */
	int             set_lane_nr;	/* lanes of a processor: mv_lanes() */
	bool            set_on_native;	/* no lanes: threads use native stacks */
	struct ucalls  *set_calls;	/* ucall.h, or NULL (atomic) */
	void          (*set_calls_fini)(struct ucalls *);

	struct umem     set_mem;
	pthread_mutex_t set_lock;	/* protects p_ring and p_room */

	/* Atomic; seldom written. */
	int             set_idle __attribute__((aligned(64)));
	int             set_go;		/* 0 wait, 1 run, -1 give up */
	int             set_stop;
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

/*
 * FORK: see uproc.c. How many times an ancestor has forked to make this
 * process, as far as pthread_atfork() tells.
 */
extern UPROC_HIDDEN int uproc_forks;

/* An ancestor has started the set, so none of its native threads is here. */
static inline bool uproc_inherited(const struct uproc_set *set)
{
	return __builtin_expect(uproc_forks != 0, 0) &&
	       set->set_forks < uproc_forks;
}

/* Is the caller the child of a thread, on the stack of that? */
UPROC_HIDDEN bool uproc_lost(void);

/* Counts forks from now on. 0, or -ENOMEM. */
UPROC_HIDDEN int uproc_forks_watch(void);

/* Ends the program by this contract; in the child of a thread by fork's. */
UPROC_HIDDEN void uproc_fail(const char *misuse)
	__attribute__((noreturn, cold));

/* The set of which the native thread makes the calls (ucall.h), or NULL. */
extern UPROC_HIDDEN __thread const struct uproc_set *uproc_serves;

#define UPROC_PATIENCE	50	/* of these turns of a wait one gives way */

/*
 * A turn of a wait that another native thread ends by a few steps, most often
 * at once: a post that is half-way, say. It may have lost its cpu to the
 * caller, so the wait gives way now and then. *turns is 0 before the first.
 */
static inline void uproc_pause(unsigned *turns)
{
	if (++*turns % UPROC_PATIENCE == 0)
		uproc_give_way(*turns / UPROC_PATIENCE);
	else
		uproc_relax();
}

/* The processor with this number, 0 to set_nr - 1. */
static inline struct uproc *uproc_nth(const struct uproc_set *set, int nr)
{
	return (struct uproc *)(set->set_proc + nr * set->set_ops.op_size);
}

static inline bool uproc_stopped(const struct uproc_set *set)
{
	return __atomic_load_n(&set->set_stop, __ATOMIC_SEQ_CST) != 0;
}

/* The set of the thread that calls; NULL: it belongs to none. */
UPROC_HIDDEN struct uproc_set *uproc_running(void);

/* The processor of the set on which the caller, a thread, runs; else NULL. */
UPROC_HIDDEN struct uproc *uproc_here(const struct uproc_set *set);

/*
 * A thread for p that waits, and nothing else. From the memory of p if p is the
 * caller (here), else from what p keeps for others. NULL: ENOMEM, EINVAL.
 */
UPROC_HIDDEN struct uproc_thread *uproc_new(struct uproc *here, struct uproc *p,
		void (*f)(void *), void *arg, int flags);

/*
 * Tells the joiner of t, joinable, that t has ended on p, the caller. The joiner
 * may free t as soon as this returns.
 */
UPROC_HIDDEN void uproc_end(struct uproc *p, struct uproc_thread *t);

/* The buffer of t, which has ended on p, the caller, if it has one. */
UPROC_HIDDEN void uproc_slice_free(struct uproc *p, struct uproc_thread *t);

/* Gives the memory of a thread to p, the caller. */
UPROC_HIDDEN void uproc_free(struct uproc *p, struct uproc_thread *t);

/*
 * Returns how many cpus a set may use that the caller makes; 1 if that cannot
 * be found out. -ENOMEM.
 */
UPROC_HIDDEN int uproc_cpus(void);

/*
 * Pins the processor that calls, if its set is pinned, or gives it all cpus of
 * the set. Returns what it was before. Any native thread: if it is no
 * processor, nothing happens.
 */
UPROC_HIDDEN bool uproc_pin(bool on);

#endif /* UPROC_SET_H */
