/* SPDX-License-Identifier: MIT */
/* steal.h: common parts of tests of threads that move. */

#ifndef STEAL_H
#define STEAL_H

#define WS
#include "either.h"

/*
 * Tells whether, in this build, threads that have begun may move. By a thread.
 */
static UNUSED bool moves(void)
{
	return ustack_self()->u_lane != 0;
}

static UNUSED bool moves_here;

static UNUSED void asks_whether(void *arg)
{
	(void)arg;
	moves_here = moves();
}

/* Skips the test if threads do not move. There must be no set yet. */
static UNUSED void need_moves(void)
{
	begin(1, 0);
	make(0, asks_whether, NULL);
	start_and_finish();
	if (!moves_here)
		check_skip("no lanes: threads that have begun do not move");
}

/*
 * Keeps the caller's worker busy until *at is nr, so that other workers do it.
 */
static UNUSED void hold_until(long *at, long nr)
{
	int here = ws_proc();

	until(at, nr);
	CHECK(ws_proc() == here);
}

/* Lets other threads run here until *at is nr. */
static UNUSED void yield_until(long *at, long nr)
{
	while (get(at) < nr)
		yield();
}

/* Starts, while a native thread does f(arg), which must release its hold. */
static UNUSED void start_and_finish_with(void *(*f)(void *), void *arg)
{
	pthread_t id;

	SCHED(hold)();
	CHECK(SCHED(start)() == 0);
	id = native(f, arg);
	finish();
	native_join(id);
}

/* Returns a number from the environment, or the usual number. */
static UNUSED long how_many(const char *name, long usual)
{
	const char *env = getenv(name);

	return env != NULL && atol(env) > 0 ? atol(env) : usual;
}

#endif /* STEAL_H */
