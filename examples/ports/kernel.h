/* SPDX-License-Identifier: MIT */
/* kernel.h: threads that meet at a barrier: for radix.c, fft.c, lu.c. */

#ifndef KERNEL_H
#define KERNEL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS	64

static pthread_barrier_t barrier;
static void (*kernel)(int me);
static int rounds;

/* Waits until all threads have come. */
static void meet(void)
{
	int rc = pthread_barrier_wait(&barrier);

	if (rc != 0 && rc != PTHREAD_BARRIER_SERIAL_THREAD)
		abort();
}

/* Returns where the part of thread me begins, if there are nr of something. */
static inline int part(int me, int nr)
{
	return (int)((long)nr * me / THREADS);
}

static inline unsigned draw(void)
{
	static unsigned x = 1;

	return (x = x * 1664525u + 1013904223u) >> 8;
}

static void *begin(void *arg)
{
	int i;

	for (i = 0; i < rounds; i++) {
		kernel((int)(intptr_t)arg);
		meet();
	}
	return NULL;
}

/* Runs f(0) to f(THREADS - 1), each in a thread, and all argv[1] times. */
static void run(void (*f)(int me), int argc, char **argv)
{
	pthread_t thread[THREADS];
	intptr_t i;

	kernel = f;
	rounds = argc > 1 ? atoi(argv[1]) : 1;
	if (pthread_barrier_init(&barrier, NULL, THREADS) != 0)
		abort();
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, begin, (void *)i) != 0)
			abort();
	for (i = 0; i < THREADS; i++)
		if (pthread_join(thread[i], NULL) != 0)
			abort();
	if (pthread_barrier_destroy(&barrier) != 0)
		abort();
}

/* Says whether the results are equal, to the bit. Returns what main() does. */
static int compare(const char *name, const void *a, const void *b, size_t size)
{
	int differ = memcmp(a, b, size) != 0;

	printf("%s: the results of %d threads and of one %s\n", name, THREADS,
	       differ ? "differ" : "are equal");
	return differ;
}

#endif /* KERNEL_H */
