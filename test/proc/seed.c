/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS */
/* seed: with one processor a seed replays a program; another seed gives
 * another run. */

/*
 * Threads wake each other, sleep, wait with deadlines, yield, make and join
 * threads, as random numbers say. The trace of all they do, with the time of
 * each step, is the same in each run with a seed: twice in this process, and in
 * a child that has the seed from the environment. The traces of 20 seeds all
 * differ. Without a seed the order of threads is that of real time, also for a
 * second run. Of four threads that can run, each of the 24 orders is drawn by
 * some seed. With more processors the program still ends.
 */
#include "either.h"
#include "uwait.h"

#define THREADS	60
#define STEPS	25
#define SEEDS	20

static thread *all[THREADS];
static bool alone;		/* a single processor */
static uint64_t trace;
static long steps, made, done;

static void note(long who, long what, long result)
{
	if (!alone)
		return;
	steps++;
	trace = (trace ^ (uint64_t)(who << 40 ^ what << 32 ^ result)) *
		0x9e3779b97f4a7c15u;
	trace = (trace ^ trace >> 29 ^ (uint64_t)unow()) * 0xbf58476d1ce4e5b9u;
}

static utime_ns soon(void)
{
	return uafter((utime_ns)uwait_random(1000) + 1);
}

static void child(void *arg)
{
	CHECK_IS(u_sleep(soon()), 0);
	note((long)(intptr_t)arg, 7, 0);
	yield();
}

static void make_and_join(long me)
{
	thread *t = make_joinable(0, child, (void *)me);
	int rc = SCHED(join_until)(t, soon());

	note(me, 6, rc);
	if (rc == -ETIMEDOUT)
		CHECK_IS(SCHED(join)(t), 0);
}

static void step(long me)
{
	unsigned what = uwait_random(6);

	switch (what) {
	case 0:
		yield();
		break;
	case 1:
		CHECK_IS(u_sleep(soon()), 0);
		break;
	case 2:
		note(me, 5, u_wait_until(soon()));
		break;
	case 3:
		make_and_join(me);
		break;
	default:
		SCHED(wake)(all[uwait_random(THREADS)]);
	}
	note(me, what, 0);
}

static void act(void *arg)
{
	int i;

	while (get(&made) == 0)		/* on another processor */
		yield();
	for (i = 0; i < STEPS; i++)
		step((long)(intptr_t)arg);
	add(&done, 1);
}

static void make_all(void *arg)
{
	long i;

	for (i = 0; i < THREADS; i++)
		all[i] = make_joinable(0, act, (void *)i);
	set(&made, 1);
	while (get(&done) < THREADS)	/* they may be woken until then */
		CHECK_IS(u_sleep(soon()), 0);
	for (i = 0; i < THREADS; i++)
		CHECK_IS(SCHED(join)(all[i]), 0);
}

/*
 * Runs the program, and returns the hash of its trace. The library gets memory
 * at other addresses each time.
 */
static uint64_t run(int p, uint64_t seed)
{
	static void *before;
	static size_t size = 1000;

	free(before);
	before = malloc(size += 1000);
	utime_virtual(seed);
	alone = p == 1;
	trace = uwait_random(1u << 31);		/* of the native thread */
	steps = made = done = 0;
	one_thread(p, make_all, NULL);
	CHECK(p > 1 || steps > THREADS * STEPS);
	return trace;
}

static void in_child(void)
{
	char seed[32];

	snprintf(seed, sizeof seed, "%u", check_seed);
	CHECK_IS(setenv("USCHED_SEED", seed, 1), 0);
	fprintf(stderr, "%llx", (unsigned long long)run(1, 0));
}

static void replays(void)
{
	char text[200], own[32];
	int i;

	for (i = 0; i < 2; i++) {
		CHECK_IS(check_child(in_child, text, sizeof text), 0);
		snprintf(own, sizeof own, "%llx",
			 (unsigned long long)run(1, check_seed));
		CHECK_STR(text, own);
	}
}

static void seeds_differ(void)
{
	uint64_t of[SEEDS];
	int i, k;

	for (i = 0; i < SEEDS; i++) {
		of[i] = run(1, check_seed + (unsigned)i);
		for (k = 0; k < i; k++)
			CHECK_THAT(of[i], !=, of[k]);
	}
	CHECK_IS(run(1, check_seed), of[0]);
}

/* The order of threads that can all run. */

static unsigned order;

static void digit(void *arg)
{
	order = order * 4 + (unsigned)(intptr_t)arg;
	yield();
	order = order * 4 + (unsigned)(intptr_t)arg;
}

static unsigned order_now(void)
{
	intptr_t i;

	order = 0;
	begin(1, 0);
	for (i = 0; i < 4; i++)
		make(0, digit, (void *)i);
	start_and_finish();
	return order;
}

static void orders(unsigned usual)
{
	static bool seen[256];
	int i, nr = 0;

	utime_virtual(0);
	CHECK(utime_seed() == 0 && order_now() == usual);
	CHECK_IS(order_now(), usual);
	for (i = 1; nr < 24; i++) {
		CHECK_THAT(i, <, 500);
		utime_virtual((uint64_t)i);
		order = order_now() >> 8;
		nr += !seen[order];
		seen[order] = true;
	}
}

int main(int argc, char **argv)
{
	unsigned usual;

	check_start(argc, argv);
	check_seed |= 1;			/* 0: no seed */
	CHECK_IS(unsetenv("USCHED_SEED"), 0);
	usual = order_now();
	replays();
	orders(usual);
	seeds_differ();
	run(2, check_seed);
	run(3, 0);
	return 0;
}
