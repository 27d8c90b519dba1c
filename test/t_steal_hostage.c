/* SPDX-License-Identifier: MIT */
/* t_steal_hostage: threads behind a thread that computes run elsewhere (W6). */

/*
 * A thread keeps its worker until another thread has run that is at home there.
 * That thread was woken by it, and is in the slot; was woken from outside, and
 * is in the inbox; has yielded, and is in the queue; or has not begun. Or there
 * is a chain of such threads, as long as there are workers. Meanwhile the other
 * workers sleep, or have just found nothing, or one of them has a thread that
 * only yields. Each part would hang if no worker came.
 */
#include "steal.h"

#define ROUNDS	20		/* fewer, if they take long, */
#define LEAST	2		/* but at least this many */

static long ran, here;
static thread *peer[16];
static bool native_lanes;	/* threads that have begun never move */

/* Waits, runs, and ends. */
static void runs(void *arg)
{
	(void)arg;
	add(&here, 1);
	wait_one();
	add(&ran, 1);
}

static void tells(void *arg)
{
	(void)arg;
	add(&ran, 1);
}

static void is_native(void *arg)
{
	(void)arg;
	native_lanes = !moves();
}

static void probe(void)
{
	begin(1, 0);
	make(0, is_native, NULL);
	start_and_finish();
}

/* At times the others are asleep already. This only adds variety. */
static void doze(int round)
{
	if (round % 3 == 0)
		usleep((useconds_t)(round % 5) * 300);
}

/* Woken by the thread that computes: in the slot. */

static void wakes_and_holds(void *arg)
{
	yield_until(&here, 1);
	doze((int)(intptr_t)arg);
	SCHED(wake)(peer[0]);
	hold_until(&ran, 1);
}

static void in_slot(int p, intptr_t round)
{
	ran = here = 0;
	begin(p, 0);
	peer[0] = make(0, runs, NULL);
	make(0, wakes_and_holds, (void *)round);
	start_and_finish();
	CHECK(ran == 1);
}

/* Woken by a native thread while its home computes: in the inbox. */

static long holding;

static void holds(void *arg)
{
	yield_until(&here, (long)(intptr_t)arg);
	set(&holding, 1);
	hold_until(&ran, (long)(intptr_t)arg);
}

static void *posts(void *arg)
{
	int i;

	until(&holding, 1);
	for (i = 0; i < (intptr_t)arg; i++)
		SCHED(wake)(peer[i]);
	SCHED(release)();
	return NULL;
}

static void in_inbox(int p, intptr_t nr)
{
	int i;

	ran = here = holding = 0;
	begin(p, 0);
	for (i = 0; i < nr; i++)
		peer[i] = make(0, runs, NULL);
	make(0, holds, (void *)nr);
	start_and_finish_with(posts, (void *)nr);
	CHECK(ran == nr);
}

/*
 * All workers sleep. Then two wakes come at once to one of them, and the first
 * thread that they wake waits for the second.
 */

static void first_or_second(void *arg)
{
	(void)arg;
	add(&here, 1);
	wait_one();
	if (add(&ran, 1) == 1)
		hold_until(&ran, 2);
}

static void *posts_two(void *arg)
{
	until(&here, 2);
	usleep((useconds_t)(intptr_t)arg);
	SCHED(wake)(peer[0]);
	SCHED(wake)(peer[1]);
	SCHED(release)();
	return NULL;
}

static void two_at_once(int p, intptr_t us)
{
	ran = here = 0;
	begin(p, 0);
	peer[0] = make(0, first_or_second, NULL);
	peer[1] = make(0, first_or_second, NULL);
	start_and_finish_with(posts_two, (void *)us);
	CHECK(ran == 2);
}

/* Has yielded: in the queue. */

static void yields(void *arg)
{
	(void)arg;
	add(&here, 1);
	while (get(&holding) == 0)
		yield();
	add(&ran, 1);
}

static void in_queue(int p, int nr)
{
	int i;

	ran = here = holding = 0;
	begin(p, 0);
	for (i = 0; i < nr; i++)
		make(0, yields, NULL);
	make(0, holds, (void *)(intptr_t)nr);
	start_and_finish();
	CHECK(ran == nr);
}

/* Has not begun: made by the thread that computes, or by a native thread. */

static void makes_and_holds(void *arg)
{
	intptr_t i;

	set(&holding, 1);
	for (i = 0; i < (intptr_t)arg; i++)
		make(0, tells, NULL);
	hold_until(&ran, 2 * (intptr_t)arg);
}

static void *makes(void *arg)
{
	intptr_t i;

	until(&holding, 1);
	for (i = 0; i < (intptr_t)arg; i++)
		make(0, tells, NULL);
	SCHED(release)();
	return NULL;
}

static void not_begun(int p, intptr_t nr)
{
	ran = holding = 0;
	begin(p, 0);
	make_pinned(0, makes_and_holds, (void *)nr);
	start_and_finish_with(makes, (void *)nr);
	CHECK(ran == 2 * nr);
}

/*
 * A chain with a thread on each worker. The first wakes the second, and waits
 * natively until that has run; the second wakes the third, and so on. The last
 * thread is reached only if a worker that has taken a hostage makes another
 * worker look for the hostages of this worker itself.
 */

static long links;

static void link_run(void *arg)
{
	intptr_t me = (intptr_t)arg;

	add(&here, 1);
	wait_one();
	if (me + 1 < links) {
		SCHED(wake)(peer[me + 1]);
		hold_until(&ran, links - me - 1);
	}
	add(&ran, 1);
}

static void starts_chain(void *arg)
{
	yield_until(&here, links);
	doze((int)(intptr_t)arg);
	SCHED(wake)(peer[0]);
}

static void chain(int p, intptr_t round)
{
	intptr_t i;

	ran = here = 0;
	links = p;
	begin(p, 0);
	for (i = 0; i < links; i++)
		peer[i] = make(0, link_run, (void *)i);
	make(0, starts_chain, (void *)round);
	start_and_finish();
	CHECK(ran == links);
}

/* Other threads yield again and again until the hostage has run. */

static void yields_on(void *arg)
{
	(void)arg;
	add(&here, 1);
	yield_until(&ran, 1);
}

static void polled(int p, int yielders, int round)
{
	int i;

	ran = here = 0;
	begin(p, 0);
	for (i = 0; i < yielders; i++)
		make_pinned(1 + i % (p - 1), yields_on, NULL);
	peer[0] = make(0, runs, NULL);
	make(0, wakes_and_holds, (void *)(intptr_t)round);
	start_and_finish();
	CHECK(ran == 1);
}

static void part(const char *name, int p)
{
	snprintf(check_doing, sizeof check_doing, "in %s, %d workers ", name, p);
}

static bool more(int round, int most)
{
	return round < LEAST || (round < most && check_time(30));
}

static void all(int p)
{
	int i;

	part("not_begun", p);
	for (i = 0; more(i, ROUNDS); i++)
		not_begun(p, 1 + i * 7);
	if (native_lanes)
		return;
	part("in_slot", p);
	for (i = 0; more(i, ROUNDS); i++)
		in_slot(p, i);
	part("in_inbox", p);
	for (i = 0; more(i, ROUNDS); i++)
		in_inbox(p, 1 + i % COUNT(peer));
	part("in_queue", p);
	for (i = 0; more(i, ROUNDS); i++)
		in_queue(p, 1 + i % 70);
	part("two_at_once", p);
	for (i = 0; more(i, 5 * ROUNDS); i++)
		two_at_once(p, i % 50 * 10);
	part("chain", p);
	for (i = 0; more(i, ROUNDS); i++)
		chain(p, i);
	part("polled", p);
	for (i = 0; more(i, ROUNDS / 10); i++)
		polled(p, 1, i);
	for (i = 0; more(i, ROUNDS / 10); i++)
		polled(p, p - 1, i);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	probe();
	for (p = 2; p <= 4; p++)
		all(p);
	return 0;
}
