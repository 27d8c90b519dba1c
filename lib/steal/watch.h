/* SPDX-License-Identifier: MIT */
/* watch.h: which worker looks for threads behind a thread that computes. */

#ifndef WS_WATCH_H
#define WS_WATCH_H

/*
 * A thread that waits for the running thread of its worker is not announced to
 * other workers: it nearly always runs soon, so that would cost too much. So
 * some worker must look, each WS_WATCH milliseconds, for workers that have not
 * switched since the last look. That worker is the watch. If a worker sleeps,
 * it is the watch, and sleeps for that time only (uproc_sleep()). While none
 * sleeps, each worker that switches asks now and then whether a look is due.
 *
 *	A sleeper:				A worker that runs threads:
 *
 *	U1 ws_watch_begin(); false: there is	U5 ws_is_watched()? Then the
 *	   a watch, so sleep until woken;	   watch will look
 *	   or ws_watch_join()
 *	U2 remember the switches of all	U6 ws_watch_due(); false: go on
 *	U3 sleep for WS_WATCH at most		U7 look for what is stuck
 *	U4 is the time over, or		U8 remember the switches of all
 *	   ws_watch_due()? Then look for
 *	   what is stuck, so others need
 *	   not; ws_watch_end() in any case
 *
 * X1. While some worker switches, and another does not, looks take place,
 *     whatever other workers do. The first worker is the watch itself, or U5
 *     finds a watch, which will look (U4), or U6 becomes true in time.
 * X2. If several workers ask at the same time, U6 is true for a single worker.
 *
 * Workers to which events come sleep and wake often. If only one of them were the
 * watch, each of its events would wake another worker to watch instead. So such
 * workers join: several are the watch, until all of them end.
 *
 * A watch that is woken before the time is over looks, too, if a look is due (U4).
 * Numbers of switches are remembered with the time at which each was first seen
 * (steal_policy.h), also by a look. So wakes cannot delay the moment at which a worker
 * is found to be stuck. A watch to which events come leaves out U2, which would be a
 * look at all workers for each event.
 *
 * These words publish nothing. A worker that loses a race looks once more in a
 * period, or once less. If the numbers that it remembers are old, the look
 * finds nothing.
 *
 *	operation	who may call
 *	ws_watch_begin	a worker about to sleep. True: it is the watch
 *	ws_watch_join	a worker about to sleep: it is a watch, too
 *	ws_watch_end	the same, awake
 *	ws_is_watched	any worker. True: a sleeper is a watch
 *	ws_watch_due	any worker. True: it has to look now, alone
 *	ws_watch_now	any worker: milliseconds, modulo 2^32
 */

#include <stdbool.h>
#include <time.h>

#define WS_WATCH	5	/* milliseconds */

struct ws_watch {
	int      v_watches;	/* sleepers that watch */
	unsigned v_looked;	/* when a worker looked last */
};

#if !defined(WS_WATCH_NOW)
/* A clock that needs no device, if there is any: it may be 10 ms late. */
#if defined(CLOCK_MONOTONIC_COARSE)
#define WS_WATCH_CLOCK	CLOCK_MONOTONIC_COARSE
#else
#define WS_WATCH_CLOCK	CLOCK_MONOTONIC
#endif
#define WS_WATCH_NOW(v)	((void)(v), ws_watch_now())

static inline unsigned ws_watch_now(void)
{
	struct timespec now;

	(void)clock_gettime(WS_WATCH_CLOCK, &now);
	return (unsigned)now.tv_sec * 1000 + (unsigned)now.tv_nsec / 1000000;
}
#endif

static inline bool ws_watch_begin(struct ws_watch *v)
{
	int no = 0;

	return __atomic_compare_exchange_n(&v->v_watches, &no, 1, false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	/* U1 */
}

static inline void ws_watch_join(struct ws_watch *v)
{
	__atomic_fetch_add(&v->v_watches, 1, __ATOMIC_SEQ_CST);	/* U1 */
}

static inline void ws_watch_end(struct ws_watch *v)
{
	__atomic_fetch_sub(&v->v_watches, 1, __ATOMIC_SEQ_CST);	/* U4 */
}

static inline bool ws_is_watched(const struct ws_watch *v)
{
	return __atomic_load_n(&v->v_watches, __ATOMIC_SEQ_CST) != 0; /* U5 */
}

static inline bool ws_watch_due(struct ws_watch *v)
{
	unsigned last = __atomic_load_n(&v->v_looked, __ATOMIC_RELAXED);
	unsigned now = WS_WATCH_NOW(v);

	return now - last >= WS_WATCH &&
	       __atomic_compare_exchange_n(&v->v_looked, &last, now, false,
			__ATOMIC_RELAXED, __ATOMIC_RELAXED);	/* U4 U6 */
}

#endif /* WS_WATCH_H */
