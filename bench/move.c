/* SPDX-License-Identifier: MIT */
/*
 * move.c: moves threads with a kilobyte of stack (ext/move/).
 *
 *	move [THREADS [FILE]]
 *
 * Microseconds of cpu for each thread that leaves, and that arrives and ends,
 * without and with a heap; seconds for THREADS to FILE and back. Built as the
 * program of ext/move/README.md
 */

#include <usched/all.h>
#include "umove.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOVES	10000
#define RUNS	5
#define PAD	800	/* of the stack of each thread */

struct message {
	char  *at;
	size_t nob;
};

static struct message message[MOVES];
static long threads = 100000, taken, ended;
static int wrong, with_heap, stop;
static const char *path = "move.save";

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int keep(void *arg, const void *bytes, size_t nob)
{
	struct message *m = &message[taken];

	(void)arg;
	m->at = malloc(nob);
	if (m->at == NULL)
		return -ENOMEM;
	memcpy(m->at, bytes, nob);
	m->nob = nob;
	taken++;
	return 0;
}

static void mover(void *arg)
{
	volatile char pad[PAD];
	long *heap = with_heap ? umove_alloc(sizeof *heap) : NULL;

	pad[0] = 1;
	if (heap != NULL)
		*heap = (long)arg;
	if (umove_to(keep, NULL) != 1 || pad[0] != 1 ||
	    (heap != NULL && *heap != (long)arg))
		wrong++;
	ended++;
}

static void stayer(void *arg)
{
	volatile char pad[PAD];
	int rc = 0;

	pad[0] = (char)(long)arg;
	while (rc == 0 && !stop) {
		rc = umove_point();
		(void)rr_yield();
	}
	if (rc < 0 || pad[0] != (char)(long)arg)
		wrong++;
	ended++;
}

static void make(void (*f)(void *), long nr)
{
	long i;

	taken = ended = 0;
	for (i = 0; i < nr; i++)
		wrong += umove_make(f, (void *)i) < 0;
}

static void wait_for(const long *count, long nr)
{
	while (*count < nr && wrong == 0)
		(void)rr_yield();
}

static void moves(void)
{
	double begin, out, in;
	size_t nob = 0;
	int i;

	make(mover, MOVES);
	begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
	wait_for(&taken, MOVES);
	out = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (i = 0; i < MOVES && wrong == 0; i++) {
		wrong += umove_import(message[i].at, message[i].nob) != 0;
		nob += message[i].nob;
	}
	wait_for(&ended, MOVES);
	in = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (i = 0; i < taken; i++)
		free(message[i].at);
	printf("%s: leaves %.2f us, arrives and ends %.2f us, %zu bytes\n",
	       with_heap ? "with a heap" : "without a heap",
	       (out - begin) / MOVES * 1e6, (in - out) / MOVES * 1e6, nob / MOVES);
}

static void saves(void)
{
	double begin, saved, from, loaded, all;

	stop = 0;
	make(stayer, threads);
	(void)rr_yield();
	begin = seconds(CLOCK_MONOTONIC);
	wrong += umove_save(path) != 0;
	saved = seconds(CLOCK_MONOTONIC);
	stop  = 1;
	wait_for(&ended, threads);
	ended = stop = 0;
	from = seconds(CLOCK_MONOTONIC);
	wrong += umove_load(path) != threads;
	loaded = seconds(CLOCK_MONOTONIC);
	wait_for(&ended, threads);
	all = seconds(CLOCK_MONOTONIC);
	printf("%ld threads: saved in %.3f s, loaded in %.3f s, all have ended "
	       "after %.3f s\n", threads, saved - begin, loaded - from, all - from);
}

static void first(void *arg)
{
	int i;

	for (i = 0; i < 2 * RUNS && wrong == 0; i++) {
		with_heap = i >= RUNS;
		moves();
	}
	for (i = 0; i < RUNS && wrong == 0; i++)
		saves();
	(void)arg;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		threads = atol(argv[1]);
	if (argc > 2)
		path = argv[2];
	if (rr_init(1, 0) != 0 || umove_init(rr_sched(0), 0, 1, 4096) != 0)
		return 1;
	if (rr_thread_init(first, NULL) == NULL || rr_start() != 0 ||
	    rr_fini() != 0)
		return 1;
	umove_fini();
	return wrong != 0;
}
