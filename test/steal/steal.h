/* SPDX-License-Identifier: MIT */
/* steal.h: common parts of tests of threads that move. */

#ifndef STEAL_H
#define STEAL_H

#define WS
#include "either.h"
#include "worker.h"

/*
 * Tells whether, in this build, threads that have begun may move. By a thread.
 */
static UNUSED bool moves(void)
{
	return ustack_self()->u_lane != 0;
}

static UNUSED void asks_whether(void *may_move)
{
	*(int *)may_move = moves();
}

/* The same, by the main program. At the first call there must be no set. */
static UNUSED bool threads_move(void)
{
	static int may_move = -1;

	if (may_move < 0) {
		begin(1, 0);
		make(0, asks_whether, &may_move);
		start_and_finish();
	}
	return may_move;
}

/* Skips the test if threads do not move. There must be no set yet. */
static UNUSED void need_moves(void)
{
	if (!threads_move())
		check_skip("no lanes: threads that have begun do not move");
}

static UNUSED struct ws_worker *worker_at(int p)
{
	return (struct ws_worker *)ws_sched(p);
}

/*
 * Keeps the caller's worker busy until *at is nr, so that other workers do it.
 */
static UNUSED void hold_until(long *at, long nr)
{
	int here = ws_proc();

	until(at, nr);
	CHECK_IS(ws_proc(), here);
}

/* Returns a number from the environment, or the usual number. */
static UNUSED long how_many(const char *name, long usual)
{
	const char *env = getenv(name);

	return env != NULL && atol(env) > 0 ? atol(env) : usual;
}

#endif /* STEAL_H */
