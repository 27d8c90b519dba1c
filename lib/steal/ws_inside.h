/* SPDX-License-Identifier: MIT */
/* ws_inside.h: the set of workers, and its waking. A part of ws.c. */

#ifndef WS_INSIDE_H
#define WS_INSIDE_H

/*
 * There is one set of workers in a process. A worker that has work for others
 * wakes a sleeper, or posts a message to the worker that it knows. This is the
 * lowest part of ws.c: see PARTS there.
 */

#include "worker.h"
#include "idle.h"
#include "seek.h"
#include "uproc_set.h"
#include "watch.h"
#include "compiler.h"

#include <time.h>

#define NONE		(-1)	/* in w_running_lane: it runs no thread */

static struct uproc_set *set;

/* Words of all workers, which are seldom written. */
static struct {
	struct ws_seek  s_seek;
	struct ws_watch s_watch;
} all __attribute__((aligned(64)));

int ws_unwatched __attribute__((aligned(64)));

/* Returns worker nr of the set. */
static inline struct ws_worker *worker(int nr)
{
	return (struct ws_worker *)uproc_nth(set, nr);
}

/* Returns *at, sequentially consistent: for looks before a sleep. */
static int load(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

/* Adds to the threads that live: w's part of the sum. Owner only. */
static inline void threads_add(struct ws_worker *w, unsigned more)
{
	unsigned *at = &w->w_proc.p_threads;

	__atomic_store_n(at, *at + more, __ATOMIC_RELAXED);
}

/* Adds nr to a number of usched_stats(), if the program asks for these. */
#define TALLY(w, field, nr)	do {					\
	struct usched_moves *to = (w)->w_proc.p_sched.s_moves;		\
									\
	if (unlikely(to != NULL))					\
		__atomic_store_n(&to->field, to->field + (nr),		\
				 __ATOMIC_RELAXED);			\
} while (0)

/* Returns the time, as steal_policy.h counts it. */
static unsigned now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)now.tv_sec * 1000000000u + (unsigned)now.tv_nsec;
}

/* Wakes a sleeping worker, if there is any, for work that it can take. */
static NOINLINE void wake_sleeper(void)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		int *asleep = &uproc_nth(set, i)->p_asleep;

		if (load(asleep)) {
			uidle_wake(&set->set_idle, asleep);
			return;
		}
	}
}

/* Called by a giver: work was put where a thief can take it (seek.h). */
static inline void announce(void)
{
	if (ws_seek_must_wake(&all.s_seek))
		wake_sleeper();
}

/* Called when something waits for a running thread: ends ws_unwatched. */
static void end_unwatched(void)
{
	if (unlikely(__atomic_load_n(&ws_unwatched, __ATOMIC_RELAXED)) &&
	    __atomic_exchange_n(&ws_unwatched, 0, __ATOMIC_SEQ_CST))
		wake_sleeper();
}

/* Posts the node of t to w. Any thread. */
static void post_node(struct ws_worker *w, struct uproc_thread *t)
{
	uinbox_post(&w->w_proc.p_inbox, &t->t_wakes.w_node);
	uidle_wake(&set->set_idle, &w->w_proc.p_asleep);
	end_unwatched();
}

/* Sends t, which can run and is held by the caller, to w. Any thread. */
static void send_to(struct ws_worker *w, struct uproc_thread *t)
{
	if (ws_mail_give(&t->t_wakes))
		post_node(w, t);
}

#endif /* WS_INSIDE_H */
