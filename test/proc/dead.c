/* SPDX-License-Identifier: MIT */
/* dead: fini returns -EDEADLK exactly if threads can never be woken. */
/* VARIANTS: RR LL WS PR */

/*
 * stuck() returns how many are left. fini() never hangs. It never gives up
 * while a thread runs, which could still wake another, or while a native thread
 * has a hold.
 */
#include "either.h"

static long ended;

static void waits(void *arg)
{
	wait_one();
	add(&ended, 1);
}

static void ends(void *arg)
{
	add(&ended, 1);
}

static void yields(void *arg)
{
	int i;

	for (i = 0; i < (intptr_t)arg; i++)
		yield();
	add(&ended, 1);
}

static void dead(long stuck)
{
	int rc = SCHED(fini)();

	CHECK_IS(rc, stuck != 0 ? -EDEADLK : 0);
	CHECK_IS(SCHED(stuck)(), stuck);
}

/* Some threads end, and some wait forever. */
static void some(int proc_nr, unsigned *state)
{
	int end = (int)(check_random(state) % 50);
	int dead_nr = (int)(check_random(state) % 300);
	int i;

	set(&ended, 0);
	begin(proc_nr, (int)(check_random(state) % 200));
	for (i = 0; i < dead_nr; i++)
		make((int)check_random(state) & 7, waits, NULL);
	for (i = 0; i < end; i++)
		make(i, i % 2 ? ends : yields, (void *)(intptr_t)i);
	CHECK_IS(SCHED(start)(), 0);
	dead(dead_nr);
	CHECK_IS(ended, end);
}

static void never_started(void)
{
	int i;

	begin(3, 0);
	for (i = 0; i < 500; i++)
		make(i, ends, NULL);
	dead(500);
	begin(2, 0);
	dead(0);
	begin(2, 0);
	start_and_finish();
}

/*
 * Joinable threads that have ended are not stuck; a thread that joins forever
 * is.
 */

static thread *joined;

static void joins(void *arg)
{
	CHECK_IS(SCHED(join)(joined), 0);
	add(&ended, 1);
}

static void joinable(void)
{
	int i;

	begin(2, 0);
	for (i = 0; i < 100; i++)
		make_joinable(i, ends, NULL);
	start_and_finish();

	begin(2, 0);
	joined = make_joinable(0, waits, NULL);
	make(1, joins, NULL);
	CHECK_IS(SCHED(start)(), 0);
	dead(2);

	begin(2, 0);
	for (i = 0; i < 10; i++)
		make_joinable(i, waits, NULL);
	CHECK_IS(SCHED(start)(), 0);
	dead(10);
}

/* A chain over all processors: each wakes the next, and ends. */

static thread *chain[64];

static void link_run(void *arg)
{
	intptr_t i = (intptr_t)arg;

	wait_one();
	add(&ended, 1);
	if (i + 1 < COUNT(chain) && chain[i + 1] != NULL)
		SCHED(wake)(chain[i + 1]);
}

static void run_chain(int proc_nr, int nr, int stuck)
{
	intptr_t i;

	set(&ended, 0);
	memset(chain, 0, sizeof chain);
	begin(proc_nr, 0);
	for (i = 0; i < nr; i++)
		chain[i] = make((int)i, link_run, (void *)i);
	for (i = 0; i < stuck; i++)
		make((int)i, waits, NULL);
	SCHED(wake)(chain[0]);
	CHECK_IS(SCHED(start)(), 0);
	dead(stuck);
	CHECK_IS(ended, nr);
}

/*
 * The waker goes on after its peer has gone to sleep again: a processor that
 * has just woken another counts as running, even if that was fast.
 */
static void wakes_and_goes_on(void *arg)
{
	thread **peer = arg;
	int i;

	for (i = 0; i < 200; i++) {
		SCHED(wake)(*peer);
		wait_one();
	}
	add(&ended, 1);
}

static thread *quick_thread, *slow_thread;

static void quick(void *arg)
{
	int i;

	for (i = 0; i < 200; i++) {
		wait_one();
		SCHED(wake)(slow_thread);
	}
	add(&ended, 1);
}

static void late_waker(int proc_nr, int from, int to)
{
	set(&ended, 0);
	begin(proc_nr, 0);
	quick_thread = make(to, quick, NULL);
	slow_thread = make(from, wakes_and_goes_on, &quick_thread);
	CHECK_IS(SCHED(start)(), 0);
	dead(0);
	CHECK_IS(ended, 2);
}

/* One-sided: the woken thread sleeps again at once, while the waker is busy. */

static void sink(void *arg)
{
	intptr_t i;

	for (i = 0; i < (intptr_t)arg; i++)
		wait_one();
	add(&ended, 1);
}

static void source(void *arg)
{
	volatile int spin;
	int i;

	for (i = 0; i < (intptr_t)arg; i++) {
		SCHED(wake)(quick_thread);
		for (spin = 0; spin < 300; spin++)
			;
	}
	add(&ended, 1);
}

static void one_sided(int proc_nr, int from, int to, intptr_t nr)
{
	set(&ended, 0);
	begin(proc_nr, 0);
	quick_thread = make(to, sink, (void *)nr);
	make(from, source, (void *)nr);
	CHECK_IS(SCHED(start)(), 0);
	dead(0);
	CHECK_IS(ended, 2);
}

/* A native thread has a hold. */

static void *wakes_later(void *arg)
{
	usleep(20000);
	SCHED(wake)(arg);
	SCHED(release)();
	return NULL;
}

static void held(void)
{
	pthread_t id;
	thread *t;

	set(&ended, 0);
	begin(2, 0);
	t = make(1, waits, NULL);
	CHECK_IS(SCHED(start)(), 0);
	SCHED(hold)();
	id = native(wakes_later, t);
	dead(0);
	CHECK_IS(ended, 1);
	native_join(id);
}

/* A thread that hands work to a native thread takes a hold on its behalf. */

static thread *job;		/* the thread to wake */
static long stop;

static void *worker(void *arg)
{
	thread *t;

	while (get(&stop) == 0) {
		t = __atomic_exchange_n(&job, NULL, __ATOMIC_SEQ_CST);
		if (t == NULL)
			continue;
		SCHED(wake)(t);
		SCHED(release)();
	}
	return NULL;
}

static void hands_out(void *arg)
{
	int i;

	for (i = 0; i < (intptr_t)arg; i++) {
		SCHED(hold)();
		__atomic_store_n(&job, SCHED(self)(), __ATOMIC_SEQ_CST);
		wait_one();
	}
	add(&ended, 1);
}

/* Ends with a deadlock, so that fini() looks all the time. */
static void held_by_thread(int runs, int nr)
{
	pthread_t id;
	int i;

	set(&stop, 0);
	id = native(worker, NULL);
	for (i = 0; i < runs; i++) {
		set(&ended, 0);
		begin(1 + i % 2, 0);
		make(0, hands_out, (void *)(intptr_t)nr);
		make(1, waits, NULL);
		CHECK_IS(SCHED(start)(), 0);
		dead(1);
		CHECK_IS(ended, 1);
	}
	set(&stop, 1);
	native_join(id);
}

/* The last release comes just when fini() frees everything. */

static void *releases(void *arg)
{
	volatile int spin;

	for (spin = 0; spin < (intptr_t)arg; spin++)
		;
	SCHED(release)();
	return NULL;
}

static void release_race(int proc_nr, intptr_t delay)
{
	pthread_t id;

	begin(proc_nr, 0);
	SCHED(hold)();
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	id = native(releases, (void *)delay);
	SCHED(release)();
	dead(0);
	native_join(id);
}

int main(int argc, char **argv)
{
	unsigned state;
	int i;

	check_start(argc, argv);
	check_quiet();
	state = check_seed;
	doing("in some");
	for (i = 0; i < 100; i++)
		some(1 + i % 4, &state);
	never_started();
	joinable();
	doing("in run_chain");
	for (i = 0; i < 100; i++)
		run_chain(1 + i % 5, 1 + i % COUNT(chain), i % 3);
	doing("in late_waker");
	for (i = 0; i < 60; i++)
		late_waker(2 + i % 4, i, i / 4);
	doing("in one_sided");
	for (i = 0; i < 100; i++)
		one_sided(2 + i % 4, 0, i % 2 ? 1 : 2, 1000);
	doing("in held");
	held();
	held_by_thread(30, 50);
	doing("in release_race");
	for (i = 0; i < 200; i++)
		release_race(1 + i % 2, i * 15);
	return 0;
}
