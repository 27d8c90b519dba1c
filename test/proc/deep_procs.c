/* SPDX-License-Identifier: MIT */
/* deep_procs: deep threads of all processors keep their stacks, on private lanes */
/* VARIANTS: RR LL WS PR */

/*
 * Thousands of threads, most of them deep, wake each other across processors,
 * make more threads, move (ws), and are joined. No thread finds another thread
 * on its private lane, and each finds its frames where they were. From the second
 * generation on all deep threads have private lanes. In ws this includes tasks
 * (ws_spawn()) that begin where another thread has ended.
 */
#include "either.h"
#include "grind.h"
#include <limits.h>

#define PROCS	2
#define NR	1600			/* threads; lanes are a third */
#define TRIPS	4
#define TASKS	300

/* By processor: with rr and ll each processor has its private lanes. */
static long used[PROCS][SHRT_MAX + 1];
static thread *threads[NR];
static long owners, sharers, ended, lanes;

static long *lane_of_self(void)
{
	const struct ustack *u = ustack_self();
	int p = 0;

#if !defined(WS)
	p = u->u_sched == SCHED(sched)(1);
#endif
	return u->u_lane > get(&lanes) ? &used[p][u->u_lane] : NULL;
}

static NOINLINE void spin(unsigned nr)
{
	volatile unsigned i;

	for (i = 0; i < nr; i++)
		;
}

static NOINLINE void down(int levels, unsigned tag, int waits)
{
	volatile char frame[1000];
	volatile char *at = frame;

	memset((char *)frame, (int)tag, sizeof frame);
	check_used(frame);
	if (levels > 0)
		down(levels - 1, tag * 3 + 1, waits);
	else if (waits)
		wait_one();
	else
		yield();
	CHECK(at == frame && frame[0] == (char)tag && frame[999] == (char)tag);
}

static void enter(long **mine)
{
	set(&lanes, ustack_self()->u_sched->s_lane_nr);
	*mine = lane_of_self();
	if (*mine == NULL) {
		add(&sharers, 1);
		return;
	}
	add(&owners, 1);
	CHECK_IS(add(*mine, 1), 1);
}

static void leave(long *mine)
{
	CHECK_IS(mine, lane_of_self());
	if (mine != NULL)
		CHECK_IS(add(mine, -1), 0);
	add(&ended, 1);
}

/* All threads are made before any begins. Each wakes its neighbour in turn. */
static void deep(void *arg)
{
	thread **me = arg;
	long nr = me - threads, *mine;
	unsigned state = check_seed + (unsigned)nr;
	int i;

	enter(&mine);
	for (i = 0; i < TRIPS; i++) {
		unsigned r = check_random(&state) >> 8;

		SCHED(wake)(threads[(nr + 1) % NR]);
		spin(r % 500);
		if (i == 0)		/* the waits may never block */
			down((int)(3 + r % 20), r, 0);
		down((int)(3 + r % 20), r, 1);
	}
	leave(mine);
}

static void task(void *arg)
{
	long *mine;

	enter(&mine);
	down(5, 7, 0);
	leave(mine);
}

static void spawns(void *arg)
{
	int i;

	for (i = 0; i < TASKS; i++) {
#if defined(WS)
		CHECK_IS(ws_spawn(task, NULL), 0);
#else
		make(i, task, NULL);
#endif
		if (i % 10 == 0)
			yield();
	}
}

static void joins(void *arg)
{
	long last = get(&ended);
	thread *t[20];
	int i, j;

	for (i = 0; i < 20; i++) {
		for (j = 0; j < COUNT(t); j++)
			t[j] = make_joinable(j, task, NULL);
		for (j = 0; j < COUNT(t); j++)
			CHECK_IS(SCHED(join)(t[j]), 0);
	}
	CHECK_THAT(get(&ended), >=, last + i * j);
}

/* Waits at little depth, so all threads can be made before any runs. */
static void waits(void *arg)
{
	wait_one();
	deep(arg);
}

static void generations(void *arg)
{
	int round, i;

	for (round = 0; round < 3; round++) {
		set(&ended, 0);
		set(&owners, 0);
		set(&sharers, 0);
		for (i = 0; i < NR; i++)
			threads[i] = make(i, waits, &threads[i]);
		for (i = 0; i < NR; i++)
			SCHED(wake)(threads[i]);
		yield_until(&ended, NR);
		CHECK_IS(get(&owners) + get(&sharers), NR);
	}
	CHECK(RUNNING_ON_VALGRIND || get(&owners) >= NR / 2);
}

static void of_all_kinds(void *arg)
{
	generations(arg);
	set(&ended, 0);
	spawns(NULL);
	yield_until(&ended, TASKS);
	set(&owners, 0);
	set(&sharers, 0);
	spawns(NULL);
	joins(NULL);
	yield_until(&ended, 2 * TASKS + 400);
	CHECK(RUNNING_ON_VALGRIND || get(&owners) == TASKS + 400);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 1; p <= PROCS; p++) {
		one_thread(p, of_all_kinds, NULL);
	}
	return 0;
}
