/* SPDX-License-Identifier: MIT */
/* bench.h: the questions that programs of the benchmark answer. */

#ifndef BENCH_H
#define BENCH_H

/*
 * Each program, ours and those in peers/, answers one of four questions:
 *
 *	N R M D P		seconds, for R rings of N threads and M rounds
 *	blocks N R M D P	how often threads blocked in the same rings
 *	empty NR P		seconds, to make and run NR empty threads
 *	blocked NR D P		bytes, of NR threads that are blocked at once
 *
 * The answer is one number on stdout. If something goes wrong, the program says
 * so on stderr, and exits with 1; or with 2 if it was asked anything else.
 *
 * RING. In round i the thread with index i modulo N starts: it wakes its right
 * neighbour and waits. Each other thread waits, then wakes its right neighbour.
 * That makes N * R * M messages, each a wake and a wait, and all must have been
 * received. A wake that comes before its wait is kept. Each thread has D more
 * bytes on its stack, and writes to them when it begins. There are P native
 * threads; if each thread is a native thread, there are P processors. The time
 * begins when all threads are made, and the native threads run; it ends when
 * the last thread has ended.
 *
 * BLOCKS. A thread blocks when it stops in the middle, and another thread, or
 * no thread, runs on its native thread. Blocks are counted in a separate run,
 * so that counting does not slow down the run that is timed.
 *
 * EMPTY. P threads make the threads, in equal parts and all at once: the first
 * wait comes after the last thread is made, though some threads may have ended
 * by then. Each thread only counts itself, and all must have been counted. The
 * time goes from before the first thread is made to when the last has ended.
 *
 * BLOCKED. NR threads with D more bytes each block. When all have blocked,
 * which is checked, they are woken and end. The answer is the largest number of
 * resident bytes at any time, less the number before the first thread was made.
 * What the kernel keeps for a thread is not included.
 *
 * This header is for one source file of a program, in C or C++.
 */

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/resource.h>

enum bench_what { BENCH_RING, BENCH_BLOCKS, BENCH_EMPTY, BENCH_BLOCKED };

enum { BENCH_FAILED = 1, BENCH_USAGE = 2 };

/*
 * A question. NR threads are stored as NR rings of one thread; b_m is 1 then.
 */
struct bench {
	enum bench_what b_what;
	int             b_n;		/* threads in a ring */
	int             b_r;		/* rings */
	int             b_m;		/* rounds */
	int             b_d;		/* more bytes */
	int             b_p;		/* native threads */
	const char     *b_name;		/* name of the program */
};

static inline long bench_threads(const struct bench *b)
{
	return (long)b->b_n * b->b_r;
}

static inline long bench_messages(const struct bench *b)
{
	return bench_threads(b) * b->b_m;
}

static inline int bench_usage(const char *name, const char *why)
{
	fprintf(stderr, "%s: %s\nusage:\n"
		"  %s N R M D P         seconds, for rings\n"
		"  %s blocks N R M D P  how often threads blocked in them\n"
		"  %s empty NR P        seconds, to make and run threads\n"
		"  %s blocked NR D P    bytes, of threads that are blocked\n"
		"N threads in a ring, R rings, M rounds, D more bytes on each "
		"stack (0 or more),\nP native threads, NR threads\n",
		name, why, name, name, name, name);
	return BENCH_USAGE;
}

/* Reads a decimal number of at least min. Returns whether it is valid. */
static inline int bench_number(const char *text, int min, int *value)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	*value = (int)v;
	return errno == 0 && text[0] >= '0' && text[0] <= '9' &&
		*end == '\0' && v >= min && v <= INT_MAX;
}

/* Reads the question. Returns 0, or BENCH_USAGE, having printed why. */
static inline int bench_args(struct bench *b, int argc, char **argv)
{
	/* The numbers of each form, in order. */
	int *form[][5] = {
		{ &b->b_n, &b->b_r, &b->b_m, &b->b_d, &b->b_p },
		{ &b->b_n, &b->b_r, &b->b_m, &b->b_d, &b->b_p },
		{ &b->b_r, &b->b_p },
		{ &b->b_r, &b->b_d, &b->b_p }
	};
	static const char *const word[] = { "", "blocks", "empty", "blocked" };
	static const int nr[] = { 5, 5, 2, 3 };
	int what = BENCH_RING;
	int i;

	for (i = BENCH_BLOCKS; i <= BENCH_BLOCKED; i++)
		if (argc > 1 && strcmp(argv[1], word[i]) == 0)
			what = i;
	b->b_what = (enum bench_what)what;
	b->b_name = argv[0];
	b->b_n = b->b_r = b->b_m = b->b_p = 1;
	b->b_d = 0;
	argv += what == BENCH_RING ? 1 : 2;
	argc -= what == BENCH_RING ? 1 : 2;
	if (argc != nr[what])
		return bench_usage(b->b_name, "too few or too many arguments");
	for (i = 0; i < nr[what]; i++)
		if (!bench_number(argv[i], form[what][i] != &b->b_d,
				  form[what][i]))
			return bench_usage(b->b_name,
					   "not a number, or out of range");
	if (bench_threads(b) > INT_MAX)
		return bench_usage(b->b_name, "too many threads");
	return 0;
}

static inline int bench_failed(const struct bench *b, const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", b->b_name, what, strerror(err));
	return BENCH_FAILED;
}

/* Ends the program at once, since some of its threads may run. */
static inline __attribute__((noreturn))
void bench_die(const struct bench *b, const char *what, int err)
{
	_exit(bench_failed(b, what, err));
}

/* Returns how many of nr things number id gets, if b_p share them. */
static inline int bench_share(const struct bench *b, int nr, int id)
{
	return nr / b->b_p + (id < nr % b->b_p);
}

/* Returns the time in seconds, from any start. */
static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns resident bytes: the most so far, or now, if the system tells that. */
static inline long bench_resident(int most)
{
	FILE *status = fopen("/proc/self/status", "r");
	const char *key = most ? "VmHWM:" : "VmRSS:";
	struct rusage usage;
	char line[128];
	long kib = 0;

	while (status != NULL && fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, key, 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	if (status != NULL)
		fclose(status);
	if (kib == 0) {
		getrusage(RUSAGE_SELF, &usage);
		kib = usage.ru_maxrss;
	}
	return kib * 1024;
}

/* How a run ended. */
struct bench_end {
	double e_start;		/* for all but BENCH_BLOCKED */
	double e_end;
	long   e_received;	/* messages, for rings */
	long   e_ended;		/* threads that ended properly */
	long   e_blocks;	/* for BENCH_BLOCKS */
	long   e_resident;	/* for BENCH_BLOCKED: before the first thread */
};

/* Prints the answer, if the run was correct. Returns the exit status. */
static inline int bench_report(const struct bench *b, const struct bench_end *e)
{
	int ring = b->b_what == BENCH_RING || b->b_what == BENCH_BLOCKS;

	if (ring && e->e_received != bench_messages(b)) {
		fprintf(stderr, "%s: %ld of %ld messages were received\n",
			b->b_name, e->e_received, bench_messages(b));
		return BENCH_FAILED;
	}
	if (e->e_ended != bench_threads(b)) {
		fprintf(stderr, "%s: %ld of %ld threads ended in order\n",
			b->b_name, e->e_ended, bench_threads(b));
		return BENCH_FAILED;
	}
	if (b->b_what == BENCH_BLOCKS)
		printf("%ld\n", e->e_blocks);
	else if (b->b_what == BENCH_BLOCKED)
		printf("%ld\n", bench_resident(1) - e->e_resident);
	else
		printf("%f\n", e->e_end - e->e_start);
	return 0;
}

#endif /* BENCH_H */
