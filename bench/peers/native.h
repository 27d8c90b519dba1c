/* SPDX-License-Identifier: MIT */
/* native.h: for peers, P native threads that begin together. */

#ifndef NATIVE_H
#define NATIVE_H

/*
 * For peers whose threads each live on one native thread. Ring r belongs to
 * native thread r modulo P. The main thread is the first. Each is pinned to a
 * different processor of those that the process may use.
 *
 * Included first, with _GNU_SOURCE.
 */

#include "../bench.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

/* The argument of each native thread's function, on cache lines of its own. */
struct native {
	int              w_id;
	struct bench_end w_end;		/* set by w_f(), but e_resident */
	void           (*w_f)(struct native *);
	pthread_t        w_native;
} __attribute__((aligned(64)));

static struct bench bench;
static cpu_set_t native_may;
static pthread_barrier_t native_gate;

/* Waits for all native threads, between phases. */
static inline void native_together(void)
{
	int rc = bench.b_p > 1 ? pthread_barrier_wait(&native_gate) : 0;

	if (rc != 0 && rc != PTHREAD_BARRIER_SERIAL_THREAD)
		bench_die(&bench, "pthread_barrier_wait", rc);
}

/* Pins the caller to the allowed processor number id, modulo their number. */
static inline void native_pin(int id)
{
	int       skip = id % CPU_COUNT(&native_may);
	int       cpu  = 0;
	cpu_set_t one;

	while (!CPU_ISSET(cpu, &native_may) || skip-- > 0)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		bench_die(&bench, "cannot pin a native thread", errno);
}

/* Returns zeroed bytes. Asks for huge pages if all bytes will be used. */
static inline void *native_map(size_t size, int all)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		bench_die(&bench, "memory for the threads", errno);
	if (all)
		madvise(p, size, MADV_HUGEPAGE);	/* may fail */
	return p;
}

static inline void *native_main(void *arg)
{
	struct native *w = (struct native *)arg;

	native_pin(w->w_id);
	w->w_f(w);
	return NULL;
}

/* Calls f on bench.b_p native threads, and sums up their w_end. */
static inline struct bench_end native_run(void (*f)(struct native *))
{
	size_t size = bench.b_p * sizeof(struct native);
	struct native *w = (struct native *)aligned_alloc(64, size);
	long resident = bench_resident(0);
	struct bench_end sum;
	int i;
	int rc;

	if (w == NULL)
		bench_die(&bench, "memory for the native threads", ENOMEM);
	memset(w, 0, size);
	if (sched_getaffinity(0, sizeof native_may, &native_may) != 0)
		bench_die(&bench, "sched_getaffinity", errno);
	rc = pthread_barrier_init(&native_gate, NULL, bench.b_p);
	if (rc != 0)
		bench_die(&bench, "pthread_barrier_init", rc);
	for (i = 0; i < bench.b_p; i++) {
		w[i].w_id = i;
		w[i].w_f  = f;
	}
	for (i = 1; i < bench.b_p; i++) {
		rc = pthread_create(&w[i].w_native, NULL, native_main, &w[i]);
		if (rc != 0)
			bench_die(&bench, "cannot start a native thread", rc);
	}
	native_main(&w[0]);
	sum = w[0].w_end;
	sum.e_resident = resident;
	for (i = 1; i < bench.b_p; i++) {
		struct bench_end *e = &w[i].w_end;

		rc = pthread_join(w[i].w_native, NULL);
		if (rc != 0)
			bench_die(&bench, "cannot join a native thread", rc);
		sum.e_received += e->e_received;
		sum.e_ended    += e->e_ended;
		sum.e_blocks   += e->e_blocks;
		sum.e_start = e->e_start < sum.e_start ?
			e->e_start : sum.e_start;
		sum.e_end = e->e_end > sum.e_end ? e->e_end : sum.e_end;
	}
	free(w);
	return sum;
}

#endif /* NATIVE_H */
