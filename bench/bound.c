/* SPDX-License-Identifier: MIT */
/* bound.c: loops by hand, which no library can do faster. */

/*
 *	bound [ROUNDS]
 *
 * prints nanoseconds of an operation, of all threads: medians of ROUNDS rounds in
 * turn, the least and the most. One native thread, then one on each of two cpus.
 *
 *	own	a lock of its own: a word is exchanged from 0 to 1, and back
 *	owner	the same, and who holds it is noted and checked
 *	add	both add 1 to one word and subtract it, as readers of a lock
 *	task	a task of 64 bytes is filled and linked
 *	copy	115 bytes of each 256 are copied, in memory that no cache holds
 *
 * doc/benchmark.md compares ours with these.
 */
#define _GNU_SOURCE		/* cpu_set_t */
#include "figures.h"
#include "uwait.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST	100
#define TASKS	1000
#define BYTES	(64L << 20)

struct lock {
	unsigned    l_word;
	const void *l_owner;
} __attribute__((aligned(128)));

struct task {
	struct task  *t_next, *t_prev;
	void        (*t_f)(void *);
	void         *t_arg;
	long          t_time;
	unsigned      t_number;
	int           t_batch;
	char          t_level, t_state;
} __attribute__((aligned(64)));

struct thread {
	struct lock  h_lock;
	utime_ns     h_begin, h_end;
	struct task *h_tasks;
	char        *h_bytes;
};

static struct lock shared;
static struct thread threads[2];

static int take(struct lock *l)
{
	unsigned was = 0;

	return __atomic_compare_exchange_n(&l->l_word, &was, 1, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void put(struct lock *l)
{
	unsigned was = 1;

	if (!__atomic_compare_exchange_n(&l->l_word, &was, 0, 0,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		abort();
}

static void own(struct thread *h, long nr)
{
	while (nr-- > 0) {
		if (!take(&h->h_lock))
			abort();
		put(&h->h_lock);
	}
}

static void owner(struct thread *h, long nr)
{
	struct lock *l = &h->h_lock;

	while (nr-- > 0) {
		if (!take(l))
			abort();
		__atomic_store_n(&l->l_owner, h, __ATOMIC_RELAXED);
		if (__atomic_load_n(&l->l_owner, __ATOMIC_RELAXED) != h)
			abort();
		__atomic_store_n(&l->l_owner, NULL, __ATOMIC_RELAXED);
		put(l);
	}
}

static void add(struct thread *h, long nr)
{
	(void)h;
	while (nr-- > 0) {
		__atomic_fetch_add(&shared.l_word, 1, __ATOMIC_ACQ_REL);
		__atomic_fetch_sub(&shared.l_word, 1, __ATOMIC_ACQ_REL);
	}
}

static void task(struct thread *h, long nr)
{
	struct task *t, *last = NULL;

	while (nr-- > 0) {
		t = &h->h_tasks[nr % TASKS];
		t->t_number++;
		t->t_f     = free;
		t->t_arg   = h;
		t->t_time  = nr;
		t->t_batch = 1;
		t->t_level = 2;
		t->t_state = 3;
		t->t_prev  = last;
		if (last != NULL)
			last->t_next = t;
		last = t;
		__asm__ volatile("" ::: "memory");
	}
}

static void copy(struct thread *h, long nr)
{
	long at = 0;

	for (; nr-- > 0; at = (at + 256) % BYTES) {
		memcpy(h->h_bytes + at + 128, h->h_bytes + at, 115);
		__asm__ volatile("" ::: "memory");
	}
}

static const struct bound {
	const char *b_name;
	void      (*b_f)(struct thread *, long nr);
	long        b_nr;
} bounds[] = {
	{ "own", own, 2000000 }, { "owner", owner, 2000000 },
	{ "add", add, 1000000 }, { "task", task, 2000000 }, { "copy", copy, 500000 },
};

#define BOUNDS	(int)(sizeof bounds / sizeof bounds[0])

static const struct bound *now;
static pthread_barrier_t gate;
static double took[BOUNDS][2][MOST];

static void *run(void *thread)
{
	struct thread *h = thread;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET((int)(h - threads), &cpu);
	if (sched_setaffinity(0, sizeof cpu, &cpu) != 0)
		exit(1);
	pthread_barrier_wait(&gate);
	h->h_begin = unow();
	now->b_f(h, now->b_nr);
	h->h_end = unow();
	return NULL;
}

static double measure(const struct bound *b, int nr)
{
	utime_ns begin = UNEVER, end = 0;
	pthread_t t[2];
	int i;

	now = b;
	pthread_barrier_init(&gate, NULL, nr);
	for (i = 0; i < nr; i++)
		if (pthread_create(&t[i], NULL, run, &threads[i]) != 0)
			exit(1);
	for (i = 0; i < nr; i++) {
		pthread_join(t[i], NULL);
		if (threads[i].h_begin < begin)
			begin = threads[i].h_begin;
		if (threads[i].h_end > end)
			end = threads[i].h_end;
	}
	pthread_barrier_destroy(&gate);
	return (double)(end - begin) / b->b_nr / nr;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9, i, k, nr;

	if (argc > 2 || rounds < 1 || rounds > MOST) {
		fprintf(stderr, "usage: bound [ROUNDS], 1 to %d\n", MOST);
		return 2;
	}
	for (i = 0; i < 2; i++) {
		threads[i].h_tasks = aligned_alloc(64, TASKS * sizeof(struct task));
		threads[i].h_bytes = malloc(BYTES + 256);
		if (threads[i].h_tasks == NULL || threads[i].h_bytes == NULL)
			return 1;
		memset(threads[i].h_tasks, 0, TASKS * sizeof(struct task));
		memset(threads[i].h_bytes, 1, BYTES + 256);
	}
	for (k = 0; k < rounds; k++)
		for (i = 0; i < BOUNDS; i++)
			for (nr = 1; nr <= 2; nr++)
				took[i][nr - 1][k] = measure(&bounds[i], nr);
	for (i = 0; i < BOUNDS; i++)
		for (nr = 1; nr <= 2; nr++) {
			double *t = took[i][nr - 1];

			figures_sort(t, rounds);
			printf("%-8s%d  %.2f [%.2f, %.2f]\n", bounds[i].b_name, nr,
			       t[rounds / 2], t[0], t[rounds - 1]);
		}
	return 0;
}
