/* SPDX-License-Identifier: MIT */
/* fail: if a call that starts, wakes or sleeps fails, nothing is lost. */
/* VARIANTS: RR LL WS PR */
/* LIBS: @test/run/fail.wrap */

/*
 * Threads of one to three processors wake each other by turns, so that
 * processors sleep and are woken all the time. A native thread wakes threads,
 * too; one thread joins another; and some threads wait forever. The n-th call
 * to the system fails, once or from then on, for each n, of each kind alone and
 * of all kinds (see fail.h). If init() or start() fails, there is no native
 * thread and nothing has run, and the function works as soon as the calls do.
 * Clocks, affinity and futexes may fail at any time: no caller notices, each
 * wake arrives, and exactly the threads that wait forever are left.
 * test/whole/nolinux.sh runs this without futexes.
 */
#include "either.h"
#include "fail.h"

#define PAIRS	2
#define TRIPS	8
#define POSTS	6
#define STUCK	3
#define TRIES	3

static long wakes, posted, ran;
static thread *partner[2 * PAIRS], *sleeper;

/* Calls f() until it works. After some tries there is memory again. */
static void again(int (*f)(void))
{
	int tries, rc;

	for (tries = 0; (rc = f()) != 0; tries++) {
		CHECK(rc == -ENOMEM && fail_told() > 0);
		if (tries == TRIES)
			fail_rest();
	}
}

static void waits(void)
{
	again(SCHED(wait));
}

/* The first and second thread of a pair are on neighbouring processors. */
static void turns(void *arg)
{
	long i, me = (thread **)arg - partner;

	for (i = 0; i < TRIPS; i++) {
		if (me % 2 == 0)
			SCHED(wake)(partner[me + 1]);
		waits();
		add(&wakes, 1);
		if (me % 2 != 0)
			SCHED(wake)(partner[me - 1]);
	}
	add(&ran, 1);
}

static void sleeps(void *arg)
{
	int i;

	for (i = 0; i < POSTS; i++) {
		waits();
		set(&posted, i + 1);
	}
	add(&ran, 1);
}

/* Sends each wake after the wake before has arrived. */
static void *posts(void *arg)
{
	int i;

	for (i = 0; i < POSTS; i++) {
		until(&posted, i);
		if (i % 2 == 0)
			SCHED(post)(sleeper);
		else
			SCHED(wake)(sleeper);
	}
	SCHED(release)();
	return NULL;
}

/* Waits forever, with a buffer that is too large for the segments of umem.c. */
static void waits_for_ever(void *arg)
{
	volatile char space[530000];

	space[0] = space[sizeof space - 1] = 1;
	waits();
	CHECK(0 && "nobody wakes it");
}

static void child(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		again(SCHED(yield));
	add(&ran, 1);
}

static thread *made(thread *t)
{
	CHECK(t != NULL || (errno == ENOMEM && fail_told() > 0));
	if (t == NULL && fail.f_all)
		fail_rest();
	return t;
}

static thread *joined;

static int join_it(void)
{
	return SCHED(join)(joined);
}

static void parent(void *arg)
{
	do {
		joined = made(try_make_joinable(1, child, NULL));
	} while (joined == NULL);
	again(join_it);
	add(&ran, 1);
}

static thread *make_one(int p, void (*f)(void *), void *arg)
{
	thread *t;

	do {
		t = made(try_make(p, f, arg));
	} while (t == NULL);
	return t;
}

/*
 * Calls f() until it works. Each failure is reported, and leaves nothing
 * behind.
 */
static void insist(int (*f)(void), int tries)
{
	int rc;

	while ((rc = f()) != 0) {
		CHECK(rc == -ENOMEM || rc == -EAGAIN || rc == -EINVAL);
		CHECK(fail_told() > 0 && fail_natives == 0 && get(&ran) == 0);
		CHECK_THAT(tries--, >, 0);
		if (tries == 0)
			fail_rest();
	}
}

static int proc_nr;

static int init(void)
{
	return SCHED(init)(proc_nr, 0);
}

static void scenario(int p)
{
	pthread_t id;
	int i;

	wakes = posted = ran = 0;
	proc_nr = p;
	insist(init, TRIES);
	CHECK_IS(SCHED(stack_size)(640 << 10), 0);
	for (i = 0; i < 2 * PAIRS; i++)
		partner[i] = make_one(i, turns, &partner[i]);
	for (i = 0; i < STUCK; i++)
		make_one(i, waits_for_ever, NULL);
	sleeper = make_one(p - 1, sleeps, NULL);
	make_one(0, parent, NULL);
	insist(SCHED(start), TRIES);
	SCHED(hold)();
	fail_exempt++;
	id = native(posts, NULL);
	fail_exempt--;
	CHECK_IS(SCHED(fini)(), -EDEADLK);
	CHECK_IS(SCHED(stuck)(), STUCK);
	native_join(id);
	CHECK(wakes == 2 * PAIRS * TRIPS && posted == POSTS);
	CHECK_IS(ran, 2 * PAIRS + 3);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	check_quiet();
	fail_sample = 31;		/* each processor makes 256 calls */
	for (p = 1; p <= 3; p++)
		fail_all(scenario, p);
	return 0;
}
