/* SPDX-License-Identifier: MIT */
/* worker.h: a worker, and the homes of lanes. Not for programs. */

#ifndef WS_WORKER_H
#define WS_WORKER_H

/*
 * Fields of a worker are grouped by the threads that may touch them. ws.c says
 * what they are for, homes.h what homes are. Programs need only the beginning
 * of a worker, which is in ws.h (struct ws_front).
 */

#include "ws.h"
#include "deque.h"
#include "pinned_queue.h"
#include "steal_policy.h"
#include "compiler.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ws_worker {
	struct uproc         w_proc;	/* must be first */
	struct ws_gate       w_gate;	/* must be second: struct ws_front */
	/* The owner, inside its section, or a thief that has stopped it. */
	int                  w_running_lane;	/* of the thread that it runs */
	int                 *w_lane;	/* lanes at home here that may move */
	int                  w_lane_nr;	/* how many are in w_lane */
	struct ws_pinned_queue w_pinned; /* threads that must stay, by lane */
	/* The owner, inside its section or not. */
	unsigned             w_switches;	/* how many (atomic) */
	int                  w_free;	/* first lane without threads, or 0 */
	unsigned             w_next_lane;	/* of lanes shared in turn */
	int                  w_fixed;	/* first of the lanes that stay */
	int                  w_fixed_nr;
	unsigned             w_random;
	unsigned             w_next_kind;	/* see oldest() in choose.h */
	unsigned             w_drained;	/* w_switches of the note (atomic) */
	unsigned             w_mail;	/* messages that it has taken */
	unsigned             w_mail_at;	/* when it last took one, in ns without w_idle */
	unsigned             w_idle;	/* ns in which it had nothing to do */
	bool                 w_dense;	/* the last messages came fast */
	bool                 w_quiet;	/* nothing came in its last sleep */
	bool                 w_due;	/* as a watch it shall look at all */
	struct ws_thief      w_thief;
	struct umem_stock    w_stock;	/* for tasks: TASKS in runnable.h */
	/* Thieves (atomic). */
	unsigned             w_looked	/* end of the queue at the last look */
				__attribute__((aligned(64)));
	struct ws_observation w_observed;
	/* The owner, and thieves by compare-and-swap. */
	struct ws_deque      w_deque;
};

/* The home of each lane, by number (atomic). [0]: NULL. */
extern struct ws_worker **ws_homes;

/* Returns the home of t if there are no lanes: where t has begun, or NULL. */
struct ws_worker *ws_home_native(const struct uproc_thread *t);

/* Begins the section of w, after a thief if need be. Owner, outside of it. */
static inline void ws_enter(struct ws_worker *w)
{
	ws_stop_enter(&w->w_gate.g_stop);
}

/* Ends the section of w. Owner, inside or outside. */
static inline void ws_leave(struct ws_worker *w)
{
	ws_stop_leave(&w->w_gate.g_stop);
}

/* Returns the home of t; NULL while it has not begun. Any thread. */
static inline struct ws_worker *ws_home(const struct uproc_thread *t)
{
	/* Pairs with lane_set(): the caller may know t from before it began. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_ACQUIRE);

	return likely(lane != 0) ?
		__atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) :
		ws_home_native(t);
}

/* Returns whether t has a lane at home at w. Owner, inside its section. */
static inline bool ws_is_home(const struct ws_worker *w,
			      const struct uproc_thread *t)
{
	/* Relaxed: if the home is w, w has set the lane, or has acquired it. */
	int lane = __atomic_load_n(&t->t_stack.u_lane, __ATOMIC_RELAXED);

	return __atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) == w;
}

#ifdef __cplusplus
}
#endif

#endif /* WS_WORKER_H */
