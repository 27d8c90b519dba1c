/* SPDX-License-Identifier: MIT */
/* count: a wake before a wait is kept, and n wakes let n waits through. */
/* VARIANTS: RR LL WS PR */

/*
 * Threads can be made before the start; by threads, for their own and for other
 * processors; and by native threads. thread_nr is only a hint, so queues grow
 * while they are in use (room P1).
 */
#include "either.h"

#define WAITERS	20
#define WAKERS	10
#define EACH	200
#define MANY	5000

static long stage, total;

/* Wakes before the wait. */

static void three(void *arg)
{
	wait_one();
	wait_one();
	wait_one();
	set(&stage, 1);
	wait_one();
	set(&stage, 2);
}

static void fourth(void *arg)
{
	yield_until(&stage, 1);
	yield();
	yield();
	CHECK_IS(get(&stage), 1);	/* there is no fourth wake */
	SCHED(wake)(arg);
}

static void kept(int proc_nr)
{
	thread *t;

	set(&stage, 0);
	begin(proc_nr, 0);
	t = make(0, three, NULL);
	SCHED(wake)(t);
	SCHED(wake)(t);
	SCHED(wake)(t);
	make(proc_nr - 1, fourth, t);
	start_and_finish();
	CHECK_IS(stage, 2);
}

/* A thread may wake itself any number of times. */
static void own(void *arg)
{
	int i;

	for (i = 0; i < 1000; i++)
		SCHED(wake)(SCHED(self)());
	for (i = 0; i < 1000; i++)
		wait_one();
	add(&total, 1);
}

/* Each waker gives EACH wakes to each waiter, in any order. */

static thread *waiter[WAITERS];

static void waits(void *arg)
{
	int i;

	for (i = 0; i < WAKERS * EACH; i++)
		wait_one();
	add(&total, 1);
}

static void wakes(void *arg)
{
	unsigned state = check_seed + (unsigned)(uintptr_t)arg;
	int left[WAITERS];
	int nr = WAITERS * EACH;
	int i;

	for (i = 0; i < WAITERS; i++)
		left[i] = EACH;
	while (nr > 0) {
		i = (int)(check_random(&state) % WAITERS);
		if (left[i] == 0)
			continue;
		left[i]--;
		nr--;
		SCHED(wake)(waiter[i]);
		if (check_random(&state) % 4 == 0)
			yield();
	}
	add(&total, 1);
}

static void random_wakes(int proc_nr)
{
	long i;

	set(&total, 0);
	begin(proc_nr, 0);
	for (i = 0; i < WAITERS; i++)
		waiter[i] = make((int)i, waits, NULL);
	for (i = 0; i < WAKERS; i++)
		make((int)i / 2, wakes, (void *)(i + 1));
	make(0, own, NULL);
	start_and_finish();
	CHECK_IS(total, WAITERS + WAKERS + 1);
}

/* A tree: each thread makes two, and waits until they say that they live. */

struct node {
	thread *n_parent;
	int     n_depth;
	int     n_proc;
};

static void tree(void *arg)
{
	struct node *n = arg;
	int i;

	for (i = 0; i < 2 && n->n_depth > 0; i++) {
		struct node *child = malloc(sizeof *child);

		CHECK(child != NULL);
		child->n_parent = SCHED(self)();
		child->n_depth  = n->n_depth - 1;
		child->n_proc   = n->n_proc + i;
		make(child->n_proc, tree, child);
	}
	for (; i > 0; i--)
		wait_one();
	if (n->n_parent != NULL)
		SCHED(wake)(n->n_parent);
	free(n);
	add(&total, 1);
}

static void hint(int proc_nr, int thread_nr)
{
	int i;

	set(&total, 0);
	begin(proc_nr, thread_nr);
	for (i = 0; i < 20; i++) {
		struct node *n = calloc(1, sizeof *n);

		CHECK(n != NULL);
		n->n_depth = 6;
		n->n_proc  = i;
		make(i, tree, n);
	}
	start_and_finish();
	CHECK_IS(total, 20 * 127);
}

/* Queues grow while they are in use. */

static long made;

static void child(void *arg)
{
	volatile long tag = (long)(intptr_t)arg;

	yield();
	yield();
	CHECK_IS(tag, (long)(intptr_t)arg);
	add(&total, 1);
}

static void mother(void *arg)
{
	long to = (long)(intptr_t)arg;
	int i;

	for (i = 0; i < MANY; i++) {
		make(to < 0 ? i : (int)to, child, (void *)(intptr_t)i);
		add(&made, 1);
		if (i % 97 == 0)
			yield();
	}
}

/* Like mother(), but must not yield. */
static void *native_makes(void *arg)
{
	int i;

	for (i = 0; i < MANY; i++) {
		make(i, child, arg);
		add(&made, 1);
	}
	SCHED(release)();
	return NULL;
}

static void growth(int proc_nr)
{
	pthread_t id[2];
	long p;
	int i;

	set(&total, 0);
	set(&made, 0);
	begin(proc_nr, 0);
	for (p = 0; p < proc_nr; p++) {
		make((int)p, mother, (void *)p);
		make((int)p, mother, (void *)-1L);
	}
	CHECK_IS(SCHED(start)(), 0);
	for (i = 0; i < 2; i++) {
		SCHED(hold)();
		id[i] = native(native_makes, NULL);
	}
	finish();
	for (i = 0; i < 2; i++)
		native_join(id[i]);
	CHECK_IS(made, (2L * proc_nr + 2) * MANY);
	CHECK_IS(total, made);
}

int main(int argc, char **argv)
{
	static const int hints[] = { 0, 1, 63, 64, 65, 3000, 1000000 };
	int p, i;

	check_start(argc, argv);
	for (p = 1; p <= 4; p++) {
		for (i = 0; i < 20; i++) {
			kept(p);
			random_wakes(p);
		}
		for (i = 0; i < COUNT(hints); i++)
			hint(p, hints[i]);
		growth(p);
		growth(p);
	}
	return 0;
}
