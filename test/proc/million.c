/* SPDX-License-Identifier: MIT */
/* million: a million threads are blocked at once, and each goes on. */
/* VARIANTS: RR LL WS PR */

#include "either.h"

#define MILLION	1000000

static thread **threads;
static long blocked, sum[4];

/* Adds its own number, which it knows only from its stack. */
static void one(void *arg)
{
	volatile long me = (thread **)arg - threads;
	long slot = me % 2;

	blocked++;			/* one processor; two() has slots */
	wait_one();
	sum[slot] += me;
}

static void wakes_all(void *arg)
{
	long i;

	while (blocked < MILLION)
		yield();
	for (i = 0; i < MILLION; i++)
		SCHED(wake)(threads[i]);
}

static void one_processor(void)
{
	long i;

	begin(1, MILLION);
	for (i = 0; i < MILLION; i++)
		threads[i] = make(0, one, &threads[i]);
	make(0, wakes_all, NULL);
	start_and_finish();
	CHECK_IS(blocked, MILLION);
	CHECK_IS(sum[0] + sum[1], (long)MILLION * (MILLION - 1) / 2);
}

/* There are two processors, and each wakes the threads of the other. */

static void two(void *arg)
{
	volatile long me = (thread **)arg - threads;

	add(&blocked, 1);
	wait_one();
	add(&sum[2 + me % 2], me);	/* in ws it may have moved */
}

static void wakes_half(void *arg)
{
	long i;

	yield_until(&blocked, MILLION);
	for (i = !(intptr_t)arg; i < MILLION; i += 2)
		SCHED(wake)(threads[i]);
}

static void two_processors(void)
{
	long i;

	set(&blocked, 0);
	begin(2, 0);
	for (i = 0; i < MILLION; i++)
		threads[i] = make((int)i, two, &threads[i]);
	make(0, wakes_half, (void *)0);
	make(1, wakes_half, (void *)1);
	start_and_finish();
	CHECK_IS(sum[2] + sum[3], (long)MILLION * (MILLION - 1) / 2);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	threads = malloc(MILLION * sizeof threads[0]);
	if (threads == NULL)
		check_skip("no memory for a million pointers");
	one_processor();
	two_processors();
	free(threads);
	return 0;
}
