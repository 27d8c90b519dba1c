/* SPDX-License-Identifier: MIT */
/*
 * work.c: the C functions that all columns call, and two plain native threads,
 * which are the most that two cpus give.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int empty(int unused)
{
	(void)unused;
	return 0;
}

/* Spins on the clock: two threads of a core do not slow each other down. */
int spin(int ns)
{
	int64_t end = now() + ns;

	while (now() < end)
		;
	return 0;
}

/*
 * Computes: 24 chains that do not wait for each other, so that a thread
 * leaves little of its core to another hyperthread.
 */
int sums(int nr)
{
	volatile double start = 0.5;
	double a[24], sum = 0;

	for (int i = 0; i < 24; i++)
		a[i] = start / (i + 1);
	for (; nr > 0; nr--)
		for (int i = 0; i < 24; i++)
			a[i] = a[i] * 0.999 + 0.001;
	for (int i = 0; i < 24; i++)
		sum += a[i];
	return sum > 100;
}

struct share {
	int      (*s_f)(int);
	int        s_arg;
	atomic_int s_left;
};

static void *work(void *arg)
{
	struct share *s = arg;

	while (atomic_fetch_sub(&s->s_left, 1) > 0)
		s->s_f(s->s_arg);
	return NULL;
}

/* Calls f(arg) nr times in 1 to 16 threads. Returns microseconds a call. */
double threads(int (*f)(int), int arg, int nr, int nr_threads)
{
	struct share s = { f, arg, nr };
	pthread_t thread[16];
	int64_t begin = now();

	for (int i = 1; i < nr_threads; i++)
		if (pthread_create(&thread[i], NULL, work, &s) != 0)
			return -1;
	work(&s);
	for (int i = 1; i < nr_threads; i++)
		pthread_join(thread[i], NULL);
	return (now() - begin) / 1000.0 / nr;
}
