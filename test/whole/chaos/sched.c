/* SPDX-License-Identifier: MIT */
/* sched.c: rr, ll and ws under one name, and the start of their indices. */

#include "chaos.h"
#include "ll.h"
#include "rr.h"
#include "uproc_set.h"
#include "worker.h"

/* Sets indices so that they wrap soon. Nothing is in the queues yet. */
static void proc_wrap(struct usched *s, unsigned at)
{
	struct uproc *p = (struct uproc *)s;

	p->p_queue.q_head = p->p_queue.q_tail = 0u - at;
	p->p_switches = 0u - at;
	p->p_set->set_next_nr = 0u - at;
}

static void rr_wrap(int procs, unsigned at)
{
	while (procs-- > 0)
		proc_wrap(rr_sched(procs), at);
}

static void ll_wrap(int procs, unsigned at)
{
	while (procs-- > 0)
		proc_wrap(ll_sched(procs), at);
}

static void ws_wrap(int procs, unsigned at)
{
	while (procs-- > 0) {
		struct ws_worker *w = (struct ws_worker *)ws_sched(procs);
		struct ws_deque *d = &w->w_deque;

		proc_wrap(ws_sched(procs), at);
		w->w_switches = w->w_drained = 0u - at;
		w->w_looked = w->w_next_kind = 0u - at;
		w->w_next_lane = 0u - at;
		d->d_bottom = d->d_top = d->d_seen = at % 2 ? 0ul - at :
			~0ul / 2 - at;
	}
}

static void *rr_on(int p, void (*f)(void *), void *arg)
{
	return arg != NULL && p % 5 == 4 ? rr_thread_init(f, arg) :
		rr_thread_on(p, f, arg);
}

static void *rr_stays(int p, void (*f)(void *), void *arg)
{
	return rr_thread_on(p, f, arg);
}

static void *rr_joinable(int p, void (*f)(void *), void *arg)
{
	return rr_thread_joinable(f, arg);
}

static int rr_spawn(void (*f)(void *), void *arg)
{
	return rr_thread_init(f, arg) != NULL ? 0 : -errno;
}

static void *ll_on(int p, void (*f)(void *), void *arg)
{
	return ll_thread_init(f, arg, p);
}

static void *ll_joinable(int p, void (*f)(void *), void *arg)
{
	return ll_thread_joinable(f, arg, p);
}

static int ll_spawn(void (*f)(void *), void *arg)
{
	return ll_thread_init(f, arg, 1) != NULL ? 0 : -errno;
}

static void *ws_on(int p, void (*f)(void *), void *arg)
{
	return p % 2 ? ws_thread_on(p, f, arg) : ws_thread_init(f, arg);
}

static void *ws_stays(int p, void (*f)(void *), void *arg)
{
	return ws_thread_pinned(p, f, arg);
}

static void *ws_joinable(int p, void (*f)(void *), void *arg)
{
	return ws_thread_joinable(f, arg);
}

/* Casts: arguments and results have types of their own in each scheduler. */
#define CASTS(x)								\
static int x##_joins(void *t)						\
{									\
	return x##_join((struct x##_thread *)t);			\
}									\
									\
static int x##_waits(void)						\
{									\
	return x##_wait();						\
}									\
									\
static void x##_wakes(void *t)						\
{									\
	x##_wake((struct x##_thread *)t);				\
}									\
									\
static void x##_posts(void *t)						\
{									\
	x##_post((struct x##_thread *)t);				\
}									\
									\
static void *x##_is(void)						\
{									\
	return x##_self();						\
}

CASTS(rr)
CASTS(ll)
CASTS(ws)

#define SCHED(x, stays)							\
	{ #x, x##_init, x##_preempt, x##_start, x##_fini, x##_stuck,	\
	  x##_hold, x##_release, x##_sched, x##_on, stays, x##_joinable,	\
	  x##_spawn, x##_joins, x##_waits, x##_yield, x##_wakes,	\
	  x##_posts, x##_is, x##_wrap }

const struct sched sched[SETS] = {
	SCHED(rr, rr_stays), SCHED(ll, ll_on), SCHED(ws, ws_stays)
};
