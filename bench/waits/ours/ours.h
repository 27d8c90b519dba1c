/* SPDX-License-Identifier: MIT */
/* ours.h: one name for rr, ll and ws in the benchmarks of waits. */

#ifndef OURS_H
#define OURS_H

#include "../waits.h"

#if defined(RR)
#include "rr.h"
#define SCHED(name)		rr_##name
#define MAKE(p, f, arg)		rr_thread_on(p, f, arg)
#elif defined(LL)
#include "ll.h"
#define SCHED(name)		ll_##name
#define MAKE(p, f, arg)		ll_thread_init(f, arg, p)
#else
#include "ws.h"
#define SCHED(name)		ws_##name
#define MAKE(p, f, arg)		((void)(p), ws_thread_init(f, arg))
#endif
#include "uchan.h"
#include "usync.h"
#include "uwait.h"
#include <stdbool.h>

/* time.c, chan.c, lock.c, flow.c. */
void churn_random(void), churn_same(void), timed(void), sleepers(void);
void chan_sync(void), chan_wake(void), chan_asleep(void), chan_buffer(void);
void uncontended(void), contended(void);
void fanin(void), sem(void), select_own(void), select_sync(void);
void select_buffer(void);
void mutex_own(void), mutex(void), mutex_slack(void), mutex_work(void);
void mutex_hold(void), skew(void), rw_own(void), rw_write(void);
void sieve(void), powser(void), pool(void);

/* Makes a thread, on processor p modulo P if the scheduler lets us choose. */
void make(int p, void (*f)(void *), void *arg);

/*
 * Begins nr threads that run f(id, n), each with its share n of N. Thread id is
 * on processor id / together. members_end() waits until all have ended. The
 * benchmark's own thread only, which runs all functions above.
 */
void members(int nr, int together, void (*f)(int id, long n));
void members_end(void);

/* Does both, and prints the time. */
void each(int nr, void (*f)(int id, long n));

static inline void ok(int rc)
{
	if (rc != 0)
		waits_die(strerror(-rc));
}

static inline struct uchan *channel(unsigned room)
{
#if defined(LOCAL)
	struct uchan *c = uchan_make_local(sizeof(uint64_t), room);
#else
	struct uchan *c = uchan_make(sizeof(uint64_t), room);
#endif
	if (c == NULL)
		waits_die("out of memory");
	return c;
}

static inline void put(struct uchan *c, uint64_t v)
{
	ok(uchan_send(c, &v, UNEVER));
}

static inline uint64_t get(struct uchan *c)
{
	uint64_t v;

	ok(uchan_recv(c, &v, UNEVER));
	return v;
}

#endif /* OURS_H */
