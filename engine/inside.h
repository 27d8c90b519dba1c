/* SPDX-License-Identifier: MIT */
/* inside.h: shared by the files of the engine. Private. */

#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include "engine.h"
/* A sleep costs a system call for all cpus; with 8, each 80th task made one. */
#define ULOCK_SPINS	32
#include "lock.h"
#include "uscope.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define HIDDEN	__attribute__((visibility("hidden")))

/* A task. Two cache lines: a million of them wait in the queue. */
struct task {
	struct task   *t_next;		/* in a level, a batch, or free */
	struct task   *t_prev;		/* in a level */
	int          (*t_f)(void *arg);
	void          *t_arg;
	void          *t_copy;		/* of the argument, or NULL */
	void         (*t_end)(engine_id id, void *arg, int result);
	struct waiter *t_waiters;	/* the last */
	struct runner *t_runner;	/* runs it, or NULL */
	struct pin    *t_pins;		/* bus.c */
	utime_ns       t_time;		/* submitted, begun, ended */
	size_t         t_bytes;		/* that count against the limit */
	unsigned       t_nr;		/* slot */
	unsigned       t_turn;		/* odd: in use */
	int            t_result;
	short          t_batch;		/* place in the table, or -1 */
	unsigned char  t_level;
	unsigned char  t_stage;
	unsigned char  t_flags;
	bool           t_ending;	/* ended, but not told yet */
	char           t_name[ENGINE_NAME];
};

/* A thread of ws that runs tasks; or a native thread in engine_help(). */
struct runner {
	struct runner *r_next, *r_prev;	/* ring of all */
	struct task   *r_task;		/* or NULL */
	struct uscope *r_scope;		/* or NULL: a helper, or no memory */
	struct ustack *r_stack;		/* NULL: a helper */
	const struct uself_ops *r_base;	/* of its scope */
	utime_ns       r_begun;		/* its task, nearly */
	utime_ns       r_slice;		/* last let others run */
	utime_ns       r_since;		/* waits since then */
	int            r_kind;		/* for this; 0: not (both atomic) */
	int            r_thread;	/* worker (atomic) */
	bool           r_stopped;	/* its task was asked to stop (atomic) */
};

/* A wait of a caller, or of an idle runner, in a ring. */
struct waiter {
	struct uwait   a_wait;		/* first */
	struct waiter *a_next, *a_prev;
	struct runner *a_runner;	/* is parked, or NULL */
	struct uproc_set *a_set;	/* held; NULL: of no scheduler */
	bool           a_in;		/* is in a ring */
	bool           a_aside;		/* of a task, which does not count */
	int            a_result;
};

struct batch {
	int          b_fd;		/* -1: there is none */
	int          b_write;		/* the same, or the end of a pipe */
	int          b_turn;		/* numbers differ */
	long         b_tasks;		/* not taken */
	bool         b_told;		/* can be read */
	struct task *b_first, **b_end;	/* ended */
};

struct worker {
	struct runner *k_current;	/* (atomic) */
	long           k_completed;
	utime_ns       k_last;		/* 0: never */
	clockid_t      k_clock;		/* cpu time of its native thread */
	bool           k_known;		/* k_clock is set (atomic) */
	int            k_yields;	/* a runner here lets others run (atomic) */
	bool           k_attached;	/* a host worker */
	char           k_task[ENGINE_NAME]; /* of a host worker */
};

struct level {
	struct task *l_first;		/* oldest */
	struct task *l_last;		/* newest */
};

enum { NONE, MAKING, OPEN, CLOSING, STOPPING, ENDED };

#define TOGETHER 32			/* tasks under one lock, at most */
#define CHUNK	512			/* tasks */
#define CHUNKS	((ENGINE_TASKS + CHUNK - 1) / CHUNK)

struct engine {
	struct ulock   e_lock;		/* protects all but atomics */
	int            e_forked;	/* (atomic) */
	bool           e_watched;	/* forks are */
	int            e_state;
	int            e_workers;	/* C */
	int            e_hosts;
	int            e_cpus;		/* of the process */
	int            e_limit;		/* runners */
	long           e_tasks;		/* limit of queued tasks */
	long           e_spare;		/* callers are told of so much room */
	size_t         e_amount;	/* limit of bytes; 0: none */
	enum engine_policy e_policy;
	int            e_paused;
	utime_ns       e_began;

	struct level   e_level[ENGINE_LEVELS];
	unsigned       e_mask;		/* levels that are not empty */
	unsigned       e_turn[2];	/* picks by C workers, by helpers */
	long           e_queued;	/* (atomic) */
	long           e_alive;		/* not ended */
	size_t         e_bytes;
	struct runner  e_ring;		/* runners; the head */
	int            e_runners;	/* threads of ws */
	int            e_aside;		/* their tasks wait for the engine */
	int            e_parked;	/* of them, without a task */
	int            e_coming;	/* 1: woken, made or spins, and has not
					 * looked yet (atomic) */
	int            e_busy;		/* have a task */
	int            e_waiting;	/* of these, wait (atomic) */
	int            e_helping;	/* helpers have a task */
	int            e_from;		/* cpu of the last submission, or -1 */
	utime_ns       e_last;		/* end of a task */
	utime_ns       e_gap;		/* mean time without tasks, lately */
	struct waiter *e_idlers;	/* parked: the last of a ring */
	struct waiter *e_helpers;	/* wait for a task */
	struct waiter *e_room;		/* wait for room */
	struct waiter *e_drain;		/* wait for all */

	struct task   *e_free;
	struct task   *e_chunk[CHUNKS];
	unsigned       e_slots;
	unsigned       e_turns;		/* turn of a new slot, even */
	struct batch   e_batch[ENGINE_BATCHES];
	struct worker  e_worker[ENGINE_WORKERS];

	long           e_submitted, e_completed, e_failed, e_canceled;
	long           e_helped, e_contended;
	double         e_latency;	/* ns, of all that have ended */
};

HIDDEN extern struct engine engine_all;

/* Returns the cpu of the caller, or -1. */
static inline int engine_cpu(void)
{
#if defined(__linux__)
	return sched_getcpu();
#else
	return -1;
#endif
}

/* Waiters that a caller tells, once it has put the lock. */
struct tell {
	struct waiter *l_first;		/* claimed, by a_next */
};

/* engine.c: takes the lock. 0, -ECHILD, -ENODEV: it is not taken. */
HIDDEN int engine_enter(void);

/* Takes the lock. Caller knows that the engine is there. */
HIDDEN void engine_relock(void);

static inline void engine_leave(void)
{
	ulock_put(&engine_all.e_lock);
}

/* Changes a count that others read without the lock. Caller holds the lock. */
static inline void engine_add(int *at, int nr)
{
	__atomic_store_n(at, *at + nr, __ATOMIC_RELAXED);
}

/*
 * waiter.c: takes a out of its ring, and claims it to be told of result. False:
 * its wait has ended. Claims the first; all. Caller holds the lock.
 */
HIDDEN bool engine_claim(struct waiter **last, struct waiter *a, int result,
			 struct tell *l);
HIDDEN bool engine_claim_first(struct waiter **last, int result,
			       struct tell *l);
HIDDEN void engine_claim_all(struct waiter **last, int result, struct tell *l);

/* Puts the lock, and tells the claimed. Caller holds the lock. */
HIDDEN void engine_tell(struct tell *l);

/*
 * Makes what engine_wait_in() needs. aside: a task that waits makes room for
 * another runner: E6. NULL: see *rc. Caller holds no lock.
 */
HIDDEN struct waiter *engine_waiter(bool aside, utime_ns until, int *rc);

/*
 * Waits in a ring. Caller holds the lock, which is put. Returns the a_result
 * that it was told, or sets *rc to an error of the wait. front: before others.
 */
HIDDEN int engine_wait_in(struct waiter **last, struct waiter *a, bool front,
			  utime_ns until, int *rc);

/* Waits in a ring until *done, which is set under the lock. 0 or an error. */
HIDDEN int engine_await(struct waiter **last, const bool *done, utime_ns until);

/* task.c: returns the task, or NULL. Caller holds the lock. */
HIDDEN struct task *engine_find(engine_id id);

/* Takes the lock, and finds a task. 0; or an error: the lock is not taken. */
HIDDEN int engine_enter_task(engine_id id, struct task **t);

static inline engine_id engine_number(const struct task *t)
{
	return (engine_id)t->t_turn << 32 | (t->t_nr + 1);
}

/* Adds a chunk of slots. 0, -ENOMEM. Caller holds the lock, put meanwhile. */
HIDDEN int engine_slots_more(void);

/* Frees the slot of t, which has ended; all slots. Caller holds the lock. */
HIDDEN void engine_slot_free(struct task *t);
HIDDEN void engine_slots_end(void);

/* Calls what is called at the end of t. Caller holds no lock. */
HIDDEN void engine_finish_outside(struct task *t, int result);

/* Ends t: tells all that wait for it. Caller holds the lock. */
HIDDEN void engine_finish(struct task *t, int result, utime_ns now,
			  struct tell *l);

/*
 * queue.c: takes the next task out of the queue, which makes room. NULL: there
 * is none for the caller. Caller holds the lock.
 */
HIDDEN struct task *engine_dequeue(bool host, struct tell *l);

/* Ends t, which is queued; ends all. Caller holds the lock, put meanwhile. */
HIDDEN void engine_cancel_queued(struct task *t, struct tell *l);
HIDDEN void engine_cancel_queue(struct tell *l);

/* runner.c: returns the runner of the calling task, or NULL. */
HIDDEN struct runner *engine_here(void);

/*
 * Sends for a runner, or a helper, if the queue needs it: E1. 0, -ENOMEM. Caller
 * holds the lock.
 */
HIDDEN int engine_send_for(struct tell *l);

/* Begins t on r. Caller holds the lock. */
HIDDEN void engine_begin(struct task *t, struct runner *r);

/* Runs the task of r, and ends it. Caller holds the lock, put meanwhile. */
HIDDEN void engine_run(struct runner *r, struct tell *l);

/* Asks the task of r to stop. Caller holds the lock, put meanwhile. */
HIDDEN void engine_stop(struct runner *r);

static inline void engine_runner_in(struct runner *r)
{
	r->r_next = &engine_all.e_ring;
	r->r_prev = engine_all.e_ring.r_prev;
	r->r_prev->r_next = r->r_next->r_prev = r;
}

static inline void engine_runner_out(struct runner *r)
{
	r->r_prev->r_next = r->r_next;
	r->r_next->r_prev = r->r_prev;
}

/* Returns the worker of r, or NULL. */
static inline struct worker *engine_worker_of(const struct runner *r)
{
	int nr = __atomic_load_n(&r->r_thread, __ATOMIC_RELAXED);

	return nr >= 0 ? &engine_all.e_worker[nr] : NULL;
}

/* Returns what runs on k, or NULL. */
static inline struct runner *engine_current(const struct worker *k)
{
	return __atomic_load_n(&k->k_current, __ATOMIC_RELAXED);
}

/* Returns how many tasks on workers wait. */
static inline int engine_waiting(void)
{
	return __atomic_load_n(&engine_all.e_waiting, __ATOMIC_RELAXED);
}

/* host.c: returns the helper whose task calls, or NULL; forgets it. */
HIDDEN struct runner *engine_helper(void);
HIDDEN void engine_host_forked(void);

/*
 * batch.c: returns the batch of a number, or NULL; adds t, which has ended, to
 * its batch; closes a batch. Caller holds the lock.
 */
HIDDEN struct batch *engine_batch_find(int batch);
HIDDEN void engine_batch_add(struct task *t);
HIDDEN void engine_batch_close(struct batch *b);

/* bus.c: sets the limit; ends the pins of t, whose task calls; frees all. */
HIDDEN void engine_bus_begin(size_t limit);
HIDDEN void engine_bus_drop(struct task *t);
HIDDEN int  engine_bus_end(void);
HIDDEN void engine_bus_forked(void);
HIDDEN void engine_bus_count(struct engine_stats *s);
HIDDEN void engine_bus_pinned(const struct task *t, size_t *size, int *nr);

/* see.c: notes the native thread of k, the caller. */
HIDDEN void engine_worker_known(struct worker *k);

#endif /* ENGINE_INSIDE_H */
