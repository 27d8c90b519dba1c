/* SPDX-License-Identifier: MIT */
/* inside.h: what the files of the engine share. Private. */

#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include "engine.h"
#include "lock.h"
#include "uscope.h"

#include <errno.h>
#include <pthread.h>

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
	bool           a_in;		/* is in a ring */
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

#define CHUNK	512			/* tasks */
#define CHUNKS	((ENGINE_TASKS + CHUNK - 1) / CHUNK)

struct engine {
	struct ulock   e_lock;		/* protects all but atomics */
	int            e_forked;	/* (atomic) */
	bool           e_watched;	/* forks are */
	int            e_state;
	int            e_workers;	/* C */
	int            e_hosts;
	int            e_limit;		/* runners */
	long           e_tasks;		/* limit of queued tasks */
	size_t         e_amount;	/* limit of bytes; 0: none */
	enum engine_policy e_policy;
	int            e_paused;
	utime_ns       e_began;

	struct level   e_level[ENGINE_LEVELS];
	unsigned       e_mask;		/* levels that are not empty */
	unsigned       e_turn[2];	/* picks by C workers, by helpers */
	long           e_queued;
	long           e_alive;		/* not ended */
	size_t         e_bytes;
	struct runner  e_ring;		/* runners; the head */
	int            e_runners;	/* threads of ws */
	int            e_parked;	/* of them, without a task */
	int            e_coming;	/* woken or made, have not looked yet */
	int            e_busy;		/* have a task */
	int            e_waiting;	/* of these, wait (atomic) */
	int            e_helping;	/* helpers have a task */
	struct waiter *e_idlers;	/* parked: the last of a ring */
	struct waiter *e_helpers;	/* wait for a task */
	struct waiter *e_room;		/* wait for room */
	struct waiter *e_drain;		/* wait for all */

	struct task   *e_free;
	struct task   *e_chunk[CHUNKS];
	unsigned       e_slots;
	struct batch   e_batch[ENGINE_BATCHES];
	struct worker  e_worker[ENGINE_WORKERS];

	long           e_submitted, e_completed, e_failed, e_canceled;
	long           e_helped, e_contended;
	double         e_latency;	/* ns, of all that have ended */
};

HIDDEN extern struct engine engine_all;

/* Takes the lock. 0, -ECHILD, -ENODEV: it is not taken. */
HIDDEN int engine_enter(void);

static inline void engine_leave(void)
{
	ulock_put(&engine_all.e_lock);
}

/* Returns the task, or NULL. Caller has entered. */
HIDDEN struct task *engine_find(engine_id id);

static inline engine_id engine_number(const struct task *t)
{
	return (engine_id)t->t_turn << 32 | (t->t_nr + 1);
}

/* Frees the slot of t, which has ended. Caller has entered. */
HIDDEN void engine_slot_free(struct task *t);

/*
 * batch.c: returns the batch of a number, or NULL; adds t, which has ended, to
 * its batch; closes a batch. Caller has entered.
 */
HIDDEN struct batch *engine_batch_find(int batch);
HIDDEN void engine_batch_add(struct task *t);
HIDDEN void engine_batch_close(struct batch *b);

/* Returns the runner of the calling task, or NULL. */
HIDDEN struct runner *engine_here(void);

/* bus.c: sets the limit; ends the pins of t, whose task calls; frees all. */
HIDDEN void engine_bus_begin(size_t limit);
HIDDEN void engine_bus_drop(struct task *t);
HIDDEN int  engine_bus_end(void);
HIDDEN void engine_bus_forked(void);
HIDDEN void engine_bus_count(struct engine_stats *s);
HIDDEN void engine_bus_pinned(const struct task *t, size_t *size, int *nr);

/* Puts the lock, and ends the waits of a ring. Caller has entered. */
HIDDEN void engine_leave_to(struct waiter **ring);

/* Waits in a ring until *done, which is set under the lock. 0 or an error. */
HIDDEN int engine_await(struct waiter **ring, const bool *done, utime_ns until);

/* see.c: notes the native thread of k, the caller. */
HIDDEN void engine_worker_known(struct worker *k);

#endif /* ENGINE_INSIDE_H */
