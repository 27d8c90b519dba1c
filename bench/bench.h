/* SPDX-License-Identifier: MIT */
/* bench.h: what a program of the benchmark is asked, and how it answers. */

#ifndef BENCH_H
#define BENCH_H

/*
 * Each program, ours and those in peers/, is asked one of four things:
 *
 *	N R M D P		seconds, for R rings of N threads and M rounds
 *	blocks N R M D P	how often threads blocked in the same rings
 *	empty NR P		seconds, to make and run NR empty threads
 *	blocked NR D P		bytes, of NR threads that are blocked at once
 *
 * and answers with one number on stdout; or it says on stderr what went wrong,
 * and exits with 1, or with 2 if it was asked something else.
 *
 * RING. In round i the thread with index i modulo N starts: it wakes its right
 * neighbour and waits. The others wait, then wake theirs. That makes N * R * M
 * messages, each a wake and a wait, and all must have been received. A wake
 * that comes before its wait is kept. Each thread has D more bytes on its
 * stack, and writes to them when it begins. There are P native threads, or
 * processors where each thread is a native one. The time goes from when all
 * threads are made, and the native ones run, to when the last has ended.
 *
 * BLOCKS. A thread blocks when it stops in the middle and another one, or
 * nobody, runs on its native thread. This is counted in a run of its own, so
 * that counting does not cost in the one that is timed.
 *
 * EMPTY. The threads are made by P threads in equal parts, all at once: none is
 * waited for before the last is made, though some may have ended. Each does
 * nothing but count itself, and all must have been counted. The time goes from
 * before the first is made to when the last has ended.
 *
 * BLOCKED. NR threads with D more bytes each block. When all have, which is
 * checked, they are woken and end. The bytes are the most that were resident at
 * any time, less what was before the first thread was made. What the kernel
 * keeps of a thread is not among them.
 *
 * What is in this header is for one source file of a program, in C or C++.
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

/* What is asked. NR threads are as many rings of one; b_m is 1 then. */
struct bench {
	enum bench_what b_what;
	int             b_n;		/* threads in a ring */
	int             b_r;		/* rings */
	int             b_m;		/* rounds */
	int             b_d;		/* more bytes */
	int             b_p;		/* native threads */
	const char     *b_name;		/* of the program */
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

/* A decimal number from min on. */
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

/* 0; or BENCH_USAGE, to exit with: why has been said. */
static inline int bench_args(struct bench *b, int argc, char **argv)
{
	/* Where the numbers of each form go. */
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

/* Ends the program, at once: some of its threads may run. */
static inline __attribute__((noreturn))
void bench_die(const struct bench *b, const char *what, int err)
{
	_exit(bench_failed(b, what, err));
}

/* Of nr things that are dealt out to b_p, how many has number id? */
static inline int bench_share(const struct bench *b, int nr, int id)
{
	return nr / b->b_p + (id < nr % b->b_p);
}

/* Seconds, since some time. */
static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Resident bytes: the most so far, or, where that can be had, now. */
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
	long   e_received;	/* messages; rings only */
	long   e_ended;		/* threads that ended in order */
	long   e_blocks;	/* for BENCH_BLOCKS */
	long   e_resident;	/* for BENCH_BLOCKED: before the first thread */
};

/* Prints what was asked, if all is in order. The exit status. */
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
