/* SPDX-License-Identifier: MIT */
/* inside.h: shared by the files of the engine, lowest layer first. Private. */

#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* first: park.h calls syscall() */
#endif
#define USCHED_PREEMPT	1	/* no file here leaves a mark: see uproc.h */
#include "uengine.h"
/* A sleep costs a system call for all cpus; with 8, each 80th task made one. */
#define ULOCK_SPINS	32
#include "lock.h"
#include "uscope.h"
#include "compiler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

UPREEMPT_NEVER;

/*
 * A task, two cache lines: a million of them wait in the queue. The second line
 * is all 0 unless t_more is set. So few tasks need it.
 */
struct task {
	struct task   *t_next;		/* in a level, a batch, or free */
	union {
		struct task   *t_prev;	/* ENGINE_QUEUED: in a level */
		struct runner *t_runner; /* ENGINE_RUNS: runs it */
	};
	union {
		int  (*t_f)(void *arg);	/* before ENGINE_ENDED */
		int    t_result;	/* from ENGINE_ENDED on */
	};
	void          *t_arg;
	struct waiter *t_waiters;	/* the last */
	utime_ns       t_time;		/* of its submission, then of its end;
					 * nearly, if t_weight is 0 */
	unsigned       t_nr;		/* slot */
	unsigned       t_generation;	/* of the slot; odd: in use */
	signed char    t_batch;		/* place in the table, or -1 */
	unsigned char  t_level;
	unsigned char  t_stage;
	unsigned char  t_flags;
	unsigned char  t_weight;	/* tasks that its latency stands for */
	bool           t_ending;	/* cancelled, and not yet ENGINE_ENDED */
	bool           t_more;		/* the second line is not 0 */

	void          *t_copy;		/* of the argument, or NULL */
	void         (*t_end)(engine_id id, void *arg, int result);
	struct pin    *t_pins;		/* of named memory: bus.c */
	size_t         t_bytes;		/* of the job, against the limit */
	char           t_name[ENGINE_NAME];
} __attribute__((aligned(64)));

/* A thread of ws that runs tasks; or a native thread in engine_help(). */
struct runner {
	struct runner *r_next, *r_prev;	/* ring of all */
	struct task   *r_task;		/* or NULL */
	struct uscope *r_scope;		/* or NULL: a helper, or no memory */
	struct ustack *r_stack;		/* NULL: a helper */
	const struct uself_ops *r_base;	/* of its scope */
	const struct usched *r_sched;	/* the worker of r_thread */
	utime_ns       r_begun;		/* its task, nearly */
	utime_ns       r_slice;		/* last let others run */
	utime_ns       r_near;		/* the near clock, at the last end */
	utime_ns       r_exact;		/* the exact clock was read */
	int            r_skip;		/* ends between two exact times */
	int            r_left;		/* ends until the next exact time */
	utime_ns       r_since;		/* when its wait began (atomic) */
	const struct uwait_kind *r_kind; /* for what it waits, or NULL (atomic) */
	int            r_thread;	/* place in e_native, or -1 (atomic) */
	bool           r_stopped;	/* its task was asked to stop (atomic) */
};

/* A wait of a caller, or of an idle runner, in a ring. */
struct waiter {
	struct uwait   a_wait;		/* first */
	struct waiter *a_next, *a_prev;
	struct waiter *a_claimed;	/* the next in struct claimed */
	struct runner *a_runner;	/* the runner that is parked, or NULL */
	struct task   *a_task;		/* the task for which there is no room, or NULL */
	struct uproc_set *a_set;	/* held; NULL: of no scheduler */
	bool           a_in;		/* is in a ring */
	bool           a_aside;		/* its runner does not count */
	int            a_result;
};

struct batch {
	int          b_bell[2];		/* upark_bell(); [0] is read */
	int          b_generation;	/* odd: in use */
	long         b_tasks;		/* not taken */
	bool         b_readable;	/* b_bell[0] is */
	struct task *b_first, **b_end;	/* ended */
};

/* A native thread that runs tasks: a worker of ws (C worker), or of a host. */
struct native {
	struct runner *nt_current;	/* (atomic) */
	long           nt_completed;
	utime_ns       nt_last;		/* 0: never */
	clockid_t      nt_clock;	/* its cpu time */
	bool           nt_clocked;	/* nt_clock is set (atomic) */
	int            nt_yields;	/* a runner here lets others run (atomic) */
	bool           nt_attached;	/* a host worker */
	char           nt_task[ENGINE_NAME]; /* of a host worker */
};

struct level {
	struct task *l_first;		/* oldest */
	struct task *l_last;		/* newest */
};

enum { NONE, MAKING, OPEN, CLOSING, STOPPING, ENDED };

#define ENGINE_OUTSIDE	(ENGINE_ENDED + 1)	/* t_stage: waits for room */

#define ENGINE_TOGETHER 32		/* tasks under one lock, at most */
#define ENGINE_EXACT	32		/* see TIME in engine.c; a power of 2 */
#define ENGINE_CHUNK	512		/* tasks */
#define ENGINE_CHUNKS	((ENGINE_TASKS + ENGINE_CHUNK - 1) / ENGINE_CHUNK)

struct engine {
	struct ulock   e_lock;		/* protects all but atomics */
	int            e_forked;	/* (atomic) */
	int            e_virtual;	/* time is (atomic) */
	int            e_state;
	int            e_c_workers;
	int            e_host_workers;
	int            e_cpus;		/* of the process */
	int            e_limit;		/* runners */
	long           e_tasks;		/* limit of queued tasks */
	long           e_spare;		/* free places, before a runner gives room */
	size_t         e_amount;	/* limit of bytes; 0: none */
	enum engine_policy e_policy;
	int            e_paused;
	utime_ns       e_began;

	struct level   e_level[ENGINE_LEVELS];
	unsigned       e_mask;		/* levels that are not empty */
	unsigned       e_picks[2];	/* picks by C workers, by helpers */
	long           e_queued;	/* (atomic) */
	long           e_alive;		/* not ended */
	size_t         e_bytes;
	struct runner  e_ring;		/* runners; the head */
	int            e_runners;	/* threads of ws */
	int            e_aside;		/* runners that wait for a task or for room */
	int            e_parked;	/* runners that wait in e_idlers */
	int            e_coming;	/* on their way: woken, made or spin, and
					 * have not looked yet (atomic) */
	int            e_busy;		/* runners that have a task */
	int            e_waiting;	/* runners whose task waits (atomic) */
	int            e_helping;	/* helpers have a task */
	int            e_from;		/* cpu of the last submission, or -1 */
	utime_ns       e_last;		/* end of a task */
	utime_ns       e_gap;		/* mean time without tasks, lately */
	struct waiter *e_idlers;	/* parked: the last of a ring */
	struct waiter *e_helpers;	/* wait for a task */
	struct waiter *e_room;		/* wait for room */
	struct waiter *e_drain;		/* wait for all */

	struct task   *e_free;
	struct task   *e_chunk[ENGINE_CHUNKS];
	unsigned       e_slots;
	unsigned       e_generation;	/* of a new slot, even */
	struct batch   e_batch[ENGINE_BATCHES];
	struct native  e_native[ENGINE_WORKERS]; /* C, then host workers */
	void         (*e_run)(void *arg); /* engine_runner() (atomic) */

	int            e_series;	/* number of the next single task (atomic) */
	utime_ns       e_tick;		/* near time for which e_series counts (atomic) */
	long           e_submitted, e_completed, e_failed, e_canceled;
	long           e_helped, e_contended;
	double         e_latency;	/* ns, of all that e_timed counts */
	long           e_timed;		/* weights of tasks that have ended */
};

HIDDEN extern struct engine engine_all;

static struct engine *const e = &engine_all;	/* the only one */

/* Waits that a caller has claimed, and completes without the lock. */
struct claimed {
	struct waiter *cl_first;
};

/* Copies a name, which is cut; NULL: "". */
static inline void engine_name(char to[ENGINE_NAME], const char *from)
{
	size_t length = from != NULL ? strnlen(from, ENGINE_NAME - 1) : 0;

	if (length != 0)
		memcpy(to, from, length);
	to[length] = '\0';
}

/*
 * The functions stand here by the file that has them, the lowest layer first.
 * A file calls no file that comes later (test/house/layers.sh).
 *
 * "Released meanwhile": the function releases the lock, and takes it again, so
 * what the caller has read may have changed. "Released": it only releases.
 */

/* state.c */

/* Takes the lock, which another caller has. */
HIDDEN void engine_lock_slow(void);

/* Takes the lock. There is an engine: the caller knows. */
static inline void engine_lock(void)
{
	if (!ulock_try(&e->e_lock))
		engine_lock_slow();
}

/* Releases the lock. Caller holds the lock. */
static inline void engine_unlock(void)
{
	ulock_put(&e->e_lock);
}

/* Takes the lock. 0; -ECHILD, -ENODEV: the lock is not taken. */
static inline int engine_enter(void)
{
	if (__atomic_load_n(&e->e_forked, __ATOMIC_RELAXED))
		return -ECHILD;
	engine_lock();
	if (e->e_state > MAKING)
		return 0;
	engine_unlock();
	return -ENODEV;
}

/* Changes a count that others read without the lock. Caller holds the lock. */
static inline void engine_add(int *at, int nr)
{
	__atomic_store_n(at, *at + nr, __ATOMIC_RELAXED);
}

/* Returns a time that may be a tick too early. Any thread. */
static inline utime_ns engine_near(void)
{
#if defined(CLOCK_MONOTONIC_COARSE)
	struct timespec t;

	if (!__atomic_load_n(&e->e_virtual, __ATOMIC_RELAXED)) {
		(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
		return t.tv_sec * UTIME_S + t.tv_nsec;
	}
#endif
	return unow();
}

/* Returns the cpu of the caller, or -1. Any thread. */
static inline int engine_cpu(void)
{
#if defined(__linux__)
	return sched_getcpu();
#else
	return -1;
#endif
}

/*
 * Returns t_ending. Atomic, else a compiler that reads it together with t_stage
 * reads t_more, too, which the task sets while it runs.
 */
static inline bool engine_is_ending(const struct task *t)
{
	return __atomic_load_n(&t->t_ending, __ATOMIC_RELAXED);
}

/* Returns the bytes of t, which count against the limit. */
static inline size_t engine_bytes(const struct task *t)
{
	return sizeof *t + (t->t_more ? t->t_bytes : 0);
}

/* Returns what runs t, or NULL. Caller holds the lock. */
static inline struct runner *engine_runner_of(const struct task *t)
{
	return t->t_stage == ENGINE_RUNS ? t->t_runner : NULL;
}

/* Returns the number of t. Caller holds the lock, or runs t. */
static inline engine_id engine_number(const struct task *t)
{
	return (engine_id)t->t_generation << 32 | (t->t_nr + 1);
}

/* Returns the native thread of r, or NULL. Any thread. */
static inline struct native *engine_native_of(const struct runner *r)
{
	int nr = __atomic_load_n(&r->r_thread, __ATOMIC_RELAXED);

	return nr >= 0 ? &e->e_native[nr] : NULL;
}

/* Returns what runs on k, or NULL. Any thread. */
static inline struct runner *engine_current(const struct native *k)
{
	return __atomic_load_n(&k->nt_current, __ATOMIC_RELAXED);
}

/* Returns the runner of the calling task, or NULL. Any thread. */
HIDDEN struct runner *engine_here(void);

/* Notes that the calling native thread runs the task of r; or none. */
HIDDEN void engine_helper_set(struct runner *r);

/* waiter.c */

/*
 * Takes a out of its ring, sets its result, and claims it. False: its wait has
 * ended. Caller holds the lock, and completes the claimed.
 */
HIDDEN bool engine_claim(struct waiter **last, struct waiter *a, int result,
			 struct claimed *l);

/* Claims the first of a ring whose wait goes on. Caller holds the lock. */
HIDDEN bool engine_claim_first(struct waiter **last, int result,
			       struct claimed *l);

/* Claims all of a ring. Caller holds the lock. */
HIDDEN void engine_claim_all(struct waiter **last, int result,
			     struct claimed *l);

/* Claims the first of a ring, which stays there. Caller holds the lock. */
HIDDEN void engine_wake_first(struct waiter *last, struct claimed *l);

/* As engine_complete(), if there are any. */
HIDDEN void engine_complete_claimed(struct claimed *l);

/* Completes the waits that were claimed. Caller holds the lock; released. */
static inline void engine_complete(struct claimed *l)
{
	if (l->cl_first != NULL)
		engine_complete_claimed(l);
	else
		engine_unlock();
	USCHED_RACE(engine_complete);
}

/* Makes what a wait needs. NULL: see *rc. Caller does not hold the lock. */
HIDDEN struct waiter *engine_waiter(utime_ns until, int *rc);

/* Adds a to a ring, behind another waiter or the last. Caller holds the lock. */
HIDDEN void engine_ring_add(struct waiter **last, struct waiter *a,
			    struct waiter *before);

/* Takes a out of its ring. Caller holds the lock. */
HIDDEN void engine_ring_out(struct waiter **last, struct waiter *a);

/*
 * Waits in the ring to which a was added. An error: a is still there, unless a
 * waker has taken it out. Caller does not hold the lock.
 */
HIDDEN int engine_ring_wait(struct waiter *a, utime_ns until);

/*
 * Adds a to a ring, completes the waits that were claimed, waits, and frees a.
 * Returns the result that the waker has set, or sets *rc to an error of the
 * wait. Caller holds the lock; released.
 */
HIDDEN int engine_wait_in(struct waiter **last, struct waiter *a,
			  utime_ns until, struct claimed *l, int *rc);

/* Counts the runner of a again. Caller holds the lock. */
HIDDEN void engine_aside_end(struct waiter *a);

/* task.c */

/* Returns the task, or NULL. Caller holds the lock. */
HIDDEN struct task *engine_find(engine_id id);

/* Takes the lock, and finds a task. 0; or an error: the lock is not taken. */
HIDDEN int engine_enter_task(engine_id id, struct task **t);

/* Adds a chunk of slots. -ENOMEM. Caller holds the lock; released meanwhile. */
HIDDEN int engine_slots_more(void);

/* Frees the slot of t, which has ended. Caller holds the lock. */
HIDDEN void engine_slot_free(struct task *t);

/* Frees all slots. Caller holds the lock. */
HIDDEN void engine_slots_end(void);

/* batch.c */

/* Returns the place of a batch in the table. */
static inline int engine_batch_place(int batch)
{
	return (int)((unsigned)batch % ENGINE_BATCHES);
}

/* Returns the batch of a number, or NULL. Caller holds the lock. */
HIDDEN struct batch *engine_batch_find(int batch);

/* Adds t, which has ended, to its batch. Caller holds the lock. */
HIDDEN void engine_batch_add(struct task *t);

/* Closes all batches. Caller holds the lock. */
HIDDEN void engine_batches_end(void);

/* bus.c */

/* Sets the limit. Caller holds the lock. */
HIDDEN void engine_bus_begin(size_t limit);

/* Frees all, or returns -EBUSY. No other caller uses the bus. */
HIDDEN int engine_bus_end(void);

/* Forgets all, in a child of fork(). No other caller uses the bus. */
HIDDEN void engine_bus_forked(void);

/* Ends the pins of t, which is ending. Caller does not hold the lock. */
HIDDEN void engine_bus_drop(struct task *t);

/* Fills in the statistics of the bus. Caller holds the lock. */
HIDDEN void engine_bus_count(struct engine_stats *s);

/* Sums up the bytes and the number of pins of t. Caller holds the lock. */
HIDDEN void engine_bus_pinned(const struct task *t, size_t *size, int *nr);

/* Returns how many records were looked at, for tests. Any thread. */
HIDDEN long engine_bus_steps(void);

/* end.c */

/* Calls j_end, frees the copy, ends the pins. Caller does not hold the lock. */
HIDDEN void engine_finish_outside(struct task *t, int result);

/* Ends t, and claims all that wait for the end. Caller holds the lock. */
HIDDEN void engine_finish(struct task *t, int result, utime_ns now,
			  struct claimed *l);

/* queue.c */

/* Changes the number of queued tasks. Caller holds the lock. */
static inline void engine_count_queued(int nr)
{
	__atomic_store_n(&e->e_queued, e->e_queued + nr, __ATOMIC_RELAXED);
}

/* Returns whether there is room for a task. Caller holds the lock. */
static inline bool engine_has_room(size_t bytes)
{
	return e->e_queued < e->e_tasks && !(e->e_paused & ENGINE_INTAKE) &&
		(e->e_amount == 0 || bytes <= e->e_amount - e->e_bytes);
}

/* Queues t, as the newest of its level. Caller holds the lock, and counts. */
HIDDEN void engine_enqueue(struct task *t);

/*
 * Queues tasks whose callers wait for room, while there is some. Caller holds
 * the lock, and sends for a runner.
 */
HIDDEN void engine_let_in(struct claimed *l);

/* Ends the wait of a for room, without it. Caller holds the lock. */
HIDDEN void engine_refuse(struct waiter *a, int result, struct claimed *l);

/*
 * Takes the next task out of the queue, which makes room. NULL: there is none
 * for the caller. Caller holds the lock.
 */
HIDDEN struct task *engine_dequeue(bool host);

/* Ends t, which is queued. Caller holds the lock; released meanwhile. */
HIDDEN void engine_cancel_queued(struct task *t, struct claimed *l);

/* Ends all queued tasks. Caller holds the lock; released meanwhile. */
HIDDEN void engine_cancel_queue(struct claimed *l);

/* runner.c */

/* What a thread of ws runs: a runner. */
HIDDEN void engine_runner(void *arg);

/* As engine_send_for(), if a runner or a helper may be missing. */
HIDDEN int engine_send(struct claimed *l);

/*
 * Sends for a runner, or a helper, if the queue needs it: engine EN1. 0,
 * -ENOMEM. Caller holds the lock.
 */
static inline int engine_send_for(struct claimed *l)
{
	return e->e_queued == 0 || e->e_paused & ENGINE_START ||
		(e->e_coming > 0 && e->e_helpers == NULL) ? 0 : engine_send(l);
}

/*
 * Queues tasks whose callers wait for room, and sends for a runner. If there is
 * no memory for that, the first caller gets -ENOMEM. Caller holds the lock.
 */
HIDDEN void engine_give_room(struct claimed *l);

/*
 * a is about to wait. If a task calls, another runner may begin meanwhile:
 * engine EN6. Caller holds the lock.
 */
HIDDEN void engine_aside_begin(struct waiter *a, struct claimed *l);

/* Begins t on r. Caller holds the lock. */
HIDDEN void engine_begin(struct task *t, struct runner *r);

/* Runs and ends the task of r. Caller holds the lock; released meanwhile. */
HIDDEN void engine_run(struct runner *r, struct claimed *l);

/* Asks the task of r to stop. Caller holds the lock; released meanwhile. */
HIDDEN void engine_stop(struct runner *r);

/* Adds r to the ring of all. Caller holds the lock. */
HIDDEN void engine_runner_in(struct runner *r);

/* Takes r out of the ring of all. Caller holds the lock. */
HIDDEN void engine_runner_out(struct runner *r);

/* Notes that r runs on no native thread. Caller holds the lock, or is r. */
HIDDEN void engine_gone(struct runner *r);

/* Notes the clock of k, the calling native thread. */
HIDDEN void engine_clock_note(struct native *k);

#endif /* ENGINE_INSIDE_H */
