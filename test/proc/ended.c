/* SPDX-License-Identifier: MIT */
/* ended: a joinable thread may be woken until it is joined, from anywhere. */
/* VARIANTS: RR LL WS PR */

/*
 * When the thread is joined, such a wake may have found the thread ended and be
 * in no inbox; it may be under way; or it may be in the inbox of a processor
 * that computes. The wake has no effect. The memory of the thread is used again
 * only when no inbox refers to it (join P5): new threads check the data on their
 * stacks.
 */
#include "either.h"
#include <stdbool.h>

#define NEW	8		/* threads that may get that memory */
#define ROUNDS	300
#define POOL	64
#define CROWD	24
#define WAKES	40

static long ended, computes, joined, served;

static void child(void *arg)
{
	wait_one();
	add(&ended, 1);
}

/* Runs in the memory of a thread that was joined, and is woken once. */
static void newcomer(void *arg)
{
	volatile intptr_t mine = (intptr_t)arg;

	wait_one();
	CHECK_IS(mine, (intptr_t)arg);
	add(&served, 1);
}

/* Keeps the processor of child from its inbox until child was joined. */
static void hog(void *arg)
{
	yield_until(&ended, 1);
	yield();
	yield();
	set(&computes, 1);
	until(&joined, 1);
}

/* In rr, joinable threads are dealt in turn: makes some until one is on p. */
static thread *joinable_on(int p, void (*f)(void *))
{
	thread *t[2];
	int i;

	for (i = 0; i < 2; i++) {
		t[i] = make_joinable(p, f, NULL);
#if defined(RR)
		if (STRUCT(t[i])->t_stack.u_sched != rr_sched(p))
			continue;
#endif
		while (i-- > 0) {
			SCHED(wake)(t[i]);
			CHECK_IS(SCHED(join)(t[i]), 0);
			add(&ended, -1);
			t[i] = t[i + 1];
		}
		return t[0];
	}
	CHECK(!"dealt to each processor");
	return NULL;
}

static void joins_late(void *arg)
{
	thread *t = joinable_on(1, child), *fresh[NEW];
	int i;

	make(1, hog, NULL);
	SCHED(wake)(t);
	until(&computes, 1);
	SCHED(wake)(t);			/* child has ended */
	SCHED(wake)(t);
	CHECK_IS(SCHED(join)(t), 0);
	for (i = 0; i < NEW; i++)
		fresh[i] = make_joinable(0, newcomer, (void *)(intptr_t)i);
	for (i = 0; i < 4; i++)
		yield();
	set(&joined, 1);
	for (i = 0; i < 1000; i++)
		yield();
	CHECK_IS(get(&served), 0);
	for (i = 0; i < NEW; i++)
		SCHED(wake)(fresh[i]);
	for (i = 0; i < NEW; i++)
		CHECK_IS(SCHED(join)(fresh[i]), 0);
	CHECK_IS(get(&served), NEW);
}

/* The wakes are in an inbox when the thread is joined. */
static UNUSED void late(void)
{
	doing("in late");
	ended = computes = joined = served = 0;
	one_thread(2, joins_late, NULL);
}

/* The wakes come from its own processor, another processor, and a handler. */

static thread *posted;

static void posts(int signo)
{
	SCHED(post)(posted);
}

static void joins_at_once(void *arg)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		thread *t = posted = make_joinable((int)(i % 2), child, NULL);
		int times = (int)(i % 5);

		SCHED(wake)(t);
		while (get(&ended) == i)
			yield();
		while (times-- > 0)
			SCHED(wake)(t);
		raise(SIGUSR1);
		if (i % 3 == 0)
			yield();
		CHECK_IS(SCHED(join)(t), 0);
		for (times = 0; times < 2; times++)
			SCHED(wake)(make(times, newcomer, (void *)i));
	}
}

static void at_once(void)
{
	doing("in at_once");
	ended = served = 0;
	signal(SIGUSR1, posts);
	one_thread(2, joins_at_once, NULL);
	CHECK_IS(served, 2 * ROUNDS);
}

/* A native thread tells each thread of a pool to stop, some threads twice. */

static thread *pool[POOL];
static long told;

static void joins_pool(void *arg)
{
	int i;

	yield_until(&told, 1);
	for (i = 0; i < POOL; i++) {
		CHECK_IS(SCHED(join)(pool[i]), 0);
		SCHED(wake)(make(i, newcomer, (void *)(intptr_t)i));
	}
}

static void *stops(void *arg)
{
	int i;

	for (i = 0; i < 2 * POOL; i++)
		SCHED(wake)(pool[i / 2]);
	set(&told, 1);
	SCHED(release)();
	return arg;
}

static void pools(void)
{
	int i, round;

	doing("in pools");
	for (round = 0; round < 50; round++) {
		ended = served = told = 0;
		begin(2, 0);
		for (i = 0; i < POOL; i++)
			pool[i] = make_joinable(i, child, NULL);
		make(0, joins_pool, NULL);
		start_and_finish_with(stops, NULL);
		CHECK(ended == POOL && served == POOL);
	}
}

/*
 * At random: each thread wakes many others, ends after some waits, and is
 * joined.
 */

static thread *crowd[CROWD];
static long sent;

static void one_of_many(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i;

	wait_one();		/* until all threads are there */
	for (i = 0; i < WAKES; i++) {
		SCHED(wake)(crowd[check_random(&state) % CROWD]);
		if (check_random(&state) % 8 == 0)
			yield();
	}
	add(&sent, 1);
}

static void joins_crowd(void *arg)
{
	int i, round;

	for (round = 0; round < ROUNDS / 10; round++) {
		sent = 0;
		for (i = 0; i < CROWD; i++)
			crowd[i] = make_joinable(i, one_of_many,
						 (void *)(intptr_t)i);
		for (i = 0; i < CROWD; i++)
			SCHED(wake)(crowd[i]);
		yield_until(&sent, CROWD);
		for (i = 0; i < CROWD; i++)
			CHECK_IS(SCHED(join)(crowd[i]), 0);
		for (i = 0; i < CROWD; i++)
			SCHED(wake)(make(i, newcomer, (void *)(intptr_t)i));
	}
}

static void crowds(void)
{
	doing("in crowds");
	served = 0;
	one_thread(3, joins_crowd, NULL);
	CHECK_IS(served, ROUNDS / 10 * CROWD);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
#if !defined(WS)		/* see steal_told: there, threads move */
	late();
#endif
	at_once();
	pools();
	crowds();
	return 0;
}
