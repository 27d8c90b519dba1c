/* SPDX-License-Identifier: MIT */
/* join: join returns once, after the end, and takes no wake of the caller. */
/* VARIANTS: RR LL WS PR */

/*
 * Join may be called before the end or after it, by a thread of any processor.
 * All wakes that the caller gets meanwhile are kept. Misuse returns -EINVAL or
 * -EDEADLK.
 */
#include "either.h"

#define MANY	100000
#define GROUP	100

static long ended, joins, result[MANY];
static int proc_nr;

static thread *joinable(int p, void (*f)(void *), void *arg)
{
	return make_joinable(p, f, arg);
}

static void join(thread *t)
{
	CHECK_IS(SCHED(join)(t), 0);
	add(&joins, 1);
}

/*
 * The result of each thread is written before its end, and read after the join.
 */

static void writes(void *arg)
{
	long i = (long)(intptr_t)arg;

	if (i % 3 == 0)
		yield();
	if (i % 64 == 0)
		yield();
	result[i] = i + 1;	/* not atomic: join must order it */
}

static void parent(void *arg)
{
	long first = (long)(intptr_t)arg;
	thread **t = malloc(GROUP * sizeof t[0]);
	long i;

	CHECK(t != NULL);
	for (i = 0; i < GROUP; i++)
		t[i] = joinable((int)(first / GROUP + i), writes,
				(void *)(first + i));
	if (first % (2 * GROUP) == 0)
		yield();
	for (i = 0; i < GROUP; i++) {
		long j = first % 3 ? i : GROUP - 1 - i;

		join(t[j]);
		CHECK_IS(result[first + j], first + j + 1);
	}
	free(t);
}

static void many(int p)
{
	long i;

	proc_nr = p;
	set(&joins, 0);
	memset(result, 0, sizeof result);
	begin(p, 0);
	for (i = 0; i < MANY; i += GROUP)
		make((int)i, parent, (void *)i);
	start_and_finish();
	CHECK_IS(joins, MANY);
}

/* All threads are alive at once, or all have ended at once. */

static thread **all;

static void one_for_all(void *arg)
{
	long i;

	for (i = 0; i < MANY; i++)
		all[i] = joinable((int)i, writes, (void *)i);
	for (i = 0; i < 3 && arg != NULL; i++)
		yield();
	for (i = MANY; i-- > 0; ) {
		join(all[i]);
		CHECK_IS(result[i], i + 1);
	}
}

static void at_once(int p, int late)
{
	set(&joins, 0);
	memset(result, 0, sizeof result);
	all = malloc(MANY * sizeof all[0]);
	CHECK(all != NULL);
	one_thread(p, one_for_all, late ? all : NULL);
	CHECK_IS(joins, MANY);
	free(all);
}

/*
 * Wakes during a join. A pesterer wakes the joiner just when the joined thread
 * ends. The joiner waits for all these wakes after the join, or ends with any
 * number of them left. It ends at once after the join, when no part of the join
 * may still be under way to it.
 */

#define PESTER	8

static thread *joiner;
static long go;

static void short_life(void *arg)
{
	yield_until(&go, 1);
	add(&ended, 1);
}

static void pesters(void *arg)
{
	int i;

	for (i = 0; i < PESTER; i++) {
		SCHED(wake)(joiner);
		if (i == PESTER / 2)
			set(&go, 1);
	}
	add(&ended, 1);
}

static void joins_and_ends(void *arg)
{
	thread *t = joinable((int)(intptr_t)arg, short_life, NULL);
	int i;

	make((int)(intptr_t)arg + 1, pesters, NULL);
	join(t);
	for (i = 0; i < PESTER; i++)
		wait_one();
	add(&ended, 1);
}

static void pestered(int p, intptr_t at)
{
	set(&ended, 0);
	set(&go, 0);
	begin(p, 0);
	joiner = make(0, joins_and_ends, (void *)at);
	start_and_finish();
	CHECK_IS(ended, 3);
}

/* The joiner has wakes in store, so it only spins in join. */

static void ends_at_once(void *arg)
{
	volatile int spin;

	for (spin = 0; spin < (intptr_t)arg; spin++)
		;
}

static void stored(void *arg)
{
	long i = (long)(intptr_t)arg;
	thread *t;
	long j;

	for (j = 0; j < 500; j++)
		SCHED(wake)(SCHED(self)());
	t = joinable(1 - (int)(i & 1), ends_at_once, (void *)(i % 50 * 10));
	yield();
	join(t);
	for (j = 0; j < 500; j++)
		wait_one();
	add(&ended, 1);
}

static void in_store(int p, int nr)
{
	intptr_t i;

	set(&ended, 0);
	begin(p, 0);
	for (i = 0; i < nr; i++)
		make((int)i, stored, (void *)i);
	start_and_finish();
	CHECK_IS(ended, nr);
}

/*
 * The joiner ends at once after the join, with wakes left, and another thread
 * takes its memory. The wake of the joined thread's end may still be under way.
 */

static long left_nr, allowed_nr;

static void leaver(void *arg)
{
	thread *t;
	int i;

	for (i = 0; i < 2000; i++)
		SCHED(wake)(SCHED(self)());
	t = joinable(1, ends_at_once, arg);
	join(t);
	add(&left_nr, 1);
}

static void waits_for_leave(void *arg)
{
	wait_one();
	CHECK_THAT(get(&allowed_nr), >, (long)(intptr_t)arg);
}

static void nurse(void *arg)
{
	long i, j;

	for (i = 0; i < (intptr_t)arg; i++) {
		thread *t;

		make(0, leaver, (void *)(i % 20 * 20));
		while (get(&left_nr) <= i)
			yield();
		t = make(0, waits_for_leave, (void *)i);
		for (j = 0; j < 20; j++)
			yield();
		set(&allowed_nr, i + 1);
		SCHED(wake)(t);
		yield();
	}
}

static void leaves(int p, intptr_t nr)
{
	set(&left_nr, 0);
	set(&allowed_nr, 0);
	one_thread(p, nurse, (void *)nr);
	CHECK_IS(left_nr, nr);
}

/* Misuse. */

static thread *shared, *plain_thread;

static void waits(void *arg)
{
	wait_one();
}

static void joins_itself(void *arg)
{
	CHECK_IS(SCHED(join)(SCHED(self)()), arg != NULL ? -EDEADLK : -EINVAL);
}

static void first_joins(void *arg)
{
	join(shared);
	add(&ended, 1);
}

static void second_joins(void *arg)
{
	thread *self = joinable(0, joins_itself, &shared);

	yield();
	yield();
	CHECK_IS(SCHED(join)(plain_thread), -EINVAL);
	CHECK_IS(SCHED(join)(shared), -EINVAL);
	SCHED(wake)(plain_thread);
	SCHED(wake)(shared);
	join(self);
	add(&ended, 1);
}

static void misuse(void)
{
	set(&ended, 0);
	begin(1, 0);
	shared = joinable(0, waits, NULL);
	plain_thread = make(0, waits, NULL);
	make(0, joins_itself, NULL);
	make(0, first_joins, NULL);
	make(0, second_joins, NULL);
	CHECK_IS(SCHED(join)(shared), -EINVAL);	/* called by a native thread */
	start_and_finish();
	CHECK_IS(ended, 2);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	check_quiet();
	misuse();
	for (i = 1; i <= 3; i++) {
		doing("in many");
		many(i);
		doing("in at_once");
		at_once(i, i % 2);
	}
	doing("in pestered");
	for (i = 0; i < 300; i++)
		pestered(1 + i % 4, i % 3);
	doing("in in_store");
	for (i = 0; i < 20; i++)
		in_store(2 + i % 3, 400);
	doing("in leaves");
	for (i = 2; i <= 4; i++)
		leaves(i, 5000);
	return 0;
}
