/* SPDX-License-Identifier: MIT */
/* watch.h: which worker looks for threads behind a thread that computes. */

#ifndef WATCH_H
#define WATCH_H

/*
 * A thread that waits for the running thread of its worker is not announced to
 * other workers: that would cost too much, since it nearly always runs soon. So
 * some worker must look, each WATCH milliseconds, for workers that have not
 * switched since the last look. This is the watch. A worker that sleeps keeps
 * it, if there is one: it sleeps for that time only (idle_doze()). While none
 * does, each worker that switches asks now and then if a look is due.
 *
 *	A sleeper:				A worker that runs threads:
 *
 *	U1 watch_begin(); false: another	U5 watch_kept()? Then the rest
 *	   one keeps it: sleep until woken	   is not for it
 *	U2 remember the turns of all		U6 watch_due(); false: go on
 *	U3 sleep for WATCH at most		U7 look for what is stuck
 *	U4 is the time over? Then		U8 remember the turns of all
 *	   watch_due(): others need not
 *	   look; watch_end(); look for
 *	   what is stuck
 *
 * X1. While a worker switches, and at least one other does not, a look takes
 *     place, whoever else sleeps, or runs any number of threads. The worker is
 *     the watch itself, or U5 finds a watch, that will look (U4), or U6 comes
 *     true in time.
 * X2. Of those that ask at the same time, one finds that a look is due.
 *
 * A sleeper that is woken before the time is over looks, too (U4). Turns are
 * remembered with the time at which each was seen first (worth.h), so wakes
 * cannot put off the moment at which a worker is found to be stuck.
 *
 * Nothing is published by these words. A worker that loses a race looks once
 * more, or once less in a period. The turns that it remembers are counts of
 * switches: if they are old, the look finds nothing.
 *
 *	operation	who may call
 *	watch_begin	a worker about to sleep. True: it has to look in time
 *	watch_end	the same, awake
 *	watch_kept	any worker: a sleeper keeps watch
 *	watch_due	any worker. True: it has to look now, others need not
 *	watch_now	any worker: milliseconds, modulo 2^32
 */

#include <stdbool.h>
#include <time.h>

#define WATCH	5		/* milliseconds */

struct watch {
	int      v_kept;	/* a sleeper keeps watch */
	unsigned v_looked;	/* when a worker looked last */
};

#if !defined(WATCH_NOW)
/* Reads no device where that can be helped: it may be 10 ms late. */
#if defined(CLOCK_MONOTONIC_COARSE)
#define WATCH_CLOCK	CLOCK_MONOTONIC_COARSE
#else
#define WATCH_CLOCK	CLOCK_MONOTONIC
#endif
#define WATCH_NOW(v)	((void)(v), watch_now())

static __inline__ unsigned watch_now(void)
{
	struct timespec now;

	(void)clock_gettime(WATCH_CLOCK, &now);
	return (unsigned)now.tv_sec * 1000 + (unsigned)now.tv_nsec / 1000000;
}
#endif

static __inline__ bool watch_begin(struct watch *v)
{
	int no = 0;

	return __atomic_compare_exchange_n(&v->v_kept, &no, 1, false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	/* U1 */
}

static __inline__ void watch_end(struct watch *v)
{
	__atomic_store_n(&v->v_kept, 0, __ATOMIC_SEQ_CST);	/* U4 */
}

static __inline__ bool watch_kept(const struct watch *v)
{
	return __atomic_load_n(&v->v_kept, __ATOMIC_SEQ_CST);	/* U5 */
}

static __inline__ bool watch_due(struct watch *v)
{
	unsigned last = __atomic_load_n(&v->v_looked, __ATOMIC_RELAXED);
	unsigned now = WATCH_NOW(v);

	return now - last >= WATCH &&
	       __atomic_compare_exchange_n(&v->v_looked, &last, now, false,
			__ATOMIC_RELAXED, __ATOMIC_RELAXED);	/* U4 U6 */
}

#endif /* WATCH_H */
