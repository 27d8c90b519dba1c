/* SPDX-License-Identifier: MIT */
/* call: ucall() runs a function elsewhere, and its processor goes on. */
/* VARIANTS: RR LL WS PR */

/*
 * One call can only return after another thread of the same processor has run,
 * so the processor must go on. Wakes that come meanwhile are kept. call_once tests
 * the rest, with a scheduler of its own.
 */

#include "either.h"
#include "ucall.h"

#define MANY	100

static long gate, inside, most, ended;

/* Runs on a native thread. */
static void pass(void *arg)
{
	long now = add(&inside, 1);

	CHECK_IS(ustack_self(), NULL);
	if (now > get(&most))
		set(&most, now);
	until(&gate, 1);
	SCHED(wake)(*(thread **)arg);
	add(&inside, -1);
}

static thread *threads[MANY];

static void caller(void *arg)
{
	thread **me = arg;

	CHECK_IS(ucall(pass, me), 0);
	wait_one();			/* the wake by pass() was kept */
	CHECK_IS(SCHED(self)(), *me);
	add(&ended, 1);
}

/* While this runs, other threads of its processor are in their calls. */
static void opens(void *arg)
{
	yield_until(&inside, 1);
	set(&gate, 1);
}

static void calls(int proc_nr, int limit)
{
	int i;

	set(&gate, 0);
	set(&most, 0);
	set(&ended, 0);
	CHECK_IS(ucall_limit(limit), 0);
	begin(proc_nr, 0);
	for (i = 0; i < MANY; i++)
		threads[i] = make(i, caller, &threads[i]);
	make(0, opens, NULL);
	start_and_finish();
	CHECK(ended == MANY && inside == 0);
	CHECK(most >= 1 && most <= limit);
}

static void nothing(void *arg)
{
}

static void wrong(void *arg)
{
	CHECK_IS(ucall(NULL, NULL), -EINVAL);
	add(&ended, 1);
}

static void errors(void)
{
	CHECK_IS(ucall(nothing, NULL), -EINVAL);
	CHECK(ucall_limit(0) == -EINVAL && ucall_limit(-1) == -EINVAL);
	set(&ended, 0);
	one_thread(1, wrong, NULL);
	CHECK_IS(ended, 1);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	errors();
	calls(1, 1);
	calls(1, 8);
	calls(2, 3);
	calls(2, UCALL_LIMIT);
	return 0;
}
