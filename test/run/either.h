/* SPDX-License-Identifier: MIT */
/* either.h: one name for rr, ll and ws, so that a test can be built for all. */

#ifndef EITHER_H
#define EITHER_H

#include "counts.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#if defined(LL)
#include "ll.h"
#define SCHED(name)	ll_##name
#define NAME		"ll"
#define STRUCT(t)	(&(t)->l_thread)
#elif defined(WS)
#include "ws.h"
#define SCHED(name)	ws_##name
#define NAME		"ws"
#define STRUCT(t)	(&(t)->s_thread)
#elif defined(PR)			/* examples/pr; see test/house/scheduler.sh */
#include "pr.h"
#define SCHED(name)	pr_##name
#define NAME		"pr"
#define STRUCT(t)	(&(t)->pt_thread)
#else
#include "rr.h"
#define SCHED(name)	rr_##name
#define NAME		"rr"
#define STRUCT(t)	(&(t)->r_thread)
#endif

typedef struct SCHED(thread) thread;

/* Makes a thread on processor p modulo all, or returns NULL. */
static UNUSED thread *try_make(int p, void (*f)(void *), void *arg)
{
#if defined(LL)
	return ll_thread_init(f, arg, p);
#elif defined(WS)
	return ws_thread_on(p, f, arg);
#elif defined(PR)
	return pr_thread_init(f, arg, p, PR);
#else
	return rr_thread_on(p, f, arg);
#endif
}

static UNUSED thread *make(int p, void (*f)(void *), void *arg)
{
	thread *t = try_make(p, f, arg);

	CHECK(t != NULL);
	return t;
}

/* Makes a thread that stays on processor p, in ws, too. */
static UNUSED thread *make_pinned(int p, void (*f)(void *), void *arg)
{
#if defined(WS)
	thread *t = ws_thread_pinned(p, f, arg);

	CHECK(t != NULL);
	return t;
#else
	return make(p, f, arg);
#endif
}

/* In rr, joinable threads are dealt in turn, so p does not matter. */
static UNUSED thread *try_make_joinable(int p, void (*f)(void *), void *arg)
{
#if defined(LL)
	return ll_thread_joinable(f, arg, p);
#elif defined(PR)
	return pr_thread_joinable(f, arg, p, PR);
#else
	return SCHED(thread_joinable)(f, arg);
#endif
}

static UNUSED thread *make_joinable(int p, void (*f)(void *), void *arg)
{
	thread *t = try_make_joinable(p, f, arg);

	CHECK(t != NULL);
	return t;
}

static UNUSED void wait_one(void)
{
	CHECK_IS(SCHED(wait)(), 0);
}

static UNUSED void yield(void)
{
	CHECK_IS(SCHED(yield)(), 0);
}

/* Lets other threads run here until *at is nr. */
static UNUSED void yield_until(long *at, long nr)
{
	while (get(at) < nr)
		yield();
}

static UNUSED void begin(int proc_nr, int thread_nr)
{
	CHECK_IS(SCHED(init)(proc_nr, thread_nr), 0);
}

/* Checks that all threads have ended. */
static UNUSED void finish(void)
{
	int rc = SCHED(fini)();

	if (rc != 0)
		fprintf(stderr, "fini: %d, stuck: %ld\n", rc, SCHED(stuck)());
	CHECK_IS(rc, 0);
	CHECK_IS(SCHED(stuck)(), 0);
}

static UNUSED void start_and_finish(void)
{
	CHECK_IS(SCHED(start)(), 0);
	finish();
}

/* Runs f(arg) as the only first thread, on p processors. */
static UNUSED void one_thread(int p, void (*f)(void *), void *arg)
{
	begin(p, 0);
	make(0, f, arg);
	start_and_finish();
}

static UNUSED pthread_t native(void *(*f)(void *), void *arg)
{
	pthread_t id;

	CHECK_IS(pthread_create(&id, NULL, f, arg), 0);
	return id;
}

static UNUSED void native_join(pthread_t id)
{
	CHECK_IS(pthread_join(id, NULL), 0);
}

/* Starts, while a native thread does f(arg), which must release its hold. */
static UNUSED void start_and_finish_with(void *(*f)(void *), void *arg)
{
	pthread_t id;

	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	id = native(f, arg);
	finish();
	native_join(id);
}

#endif /* EITHER_H */
