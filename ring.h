/* SPDX-License-Identifier: MIT */
/* ring.h: the ring ping-pong benchmark, over the scheduler of the includer. */

/*
 * R rings of N threads, M rounds. In round i the thread with index i modulo N
 * starts: it wakes its right neighbour and waits. The others wait, then wake
 * theirs. So N * R * M messages are sent, and each is a wake and a wait. Wakes
 * count, so a thread need not block for each: rounds overlap, and in a ring of
 * N a thread blocks about once in N messages.
 *
 * The rings are dealt to the P processors in equal parts, and stay there. Each
 * thread has D more bytes on its stack. The time is taken from the start of the native threads to the end of
 * the last thread; making the threads is not in it.
 *
 * The includer defines SCHED(name), which gives the names of its scheduler, and
 * MAKE(f, arg, p), which makes a thread on processor p.
 */

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAILED = 1, USAGE = 2 };

/* Stack that a thread may use beside D. */
#define STACK_MORE	(256 << 10)

typedef struct SCHED(thread) ring_thread;

static int  N;
static int  R;
static long M;
static int  D;
static int  P;

static ring_thread **threads;	/* ring 0, ring 1, ... */

/* What the threads of one processor have done. Written by these only. */
static struct score {
	long            c_received;
	long            c_alive;
	struct timespec c_end;
} __attribute__((aligned(64))) *scores;

/* Neighbours in memory run on the same processor. */
static int processor(long ring)
{
	return ring * P / R;
}

/*
 * In one place it waits, so that one who goes on need not find out where he
 * was. Each of the two below has this, with its frame, to itself.
 */
static inline __attribute__((always_inline)) void member_run(ring_thread **me)
{
	int  turn = (me - threads) % N;
	long left;
	struct score *score;
	ring_thread *right = turn == N - 1 ? me[1 - N] : me[1];

	for (left = M; left > 0; left--, turn--) {
		bool starts = turn == 0;

		if (starts) {
			SCHED(wake)(right);
			turn = N;
		}
		if (SCHED(wait)() != 0)
			break;
		if (!starts)
			SCHED(wake)(right);
	}
	score = &scores[processor((me - threads) / N)];
	score->c_received += M - left;
	if (--score->c_alive == 0)
		clock_gettime(CLOCK_MONOTONIC, &score->c_end);
}

static void member(void *arg)
{
	member_run(arg);
}

/* The same with D more bytes on the stack, which should keep their value. */
static void member_deep(void *arg)
{
	volatile char space[D];

	memset((char *)space, 'D', D);
	member_run(arg);
	if (space[0] != 'D' || space[D - 1] != 'D')
		usched_fail("ring: the stack of a thread was changed");
}

static int failed(const char *what, int rc)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-rc));
	return FAILED;
}

static double since(const struct timespec *from, const struct timespec *to)
{
	return to->tv_sec - from->tv_sec + (to->tv_nsec - from->tv_nsec) * 1e-9;
}

static int make_all(void)
{
	long nr;

	for (nr = 0; nr < (long)N * R; nr++) {
		int p = processor(nr / N);

		threads[nr] = MAKE(D == 0 ? member : member_deep, &threads[nr],
				   p);
		if (threads[nr] == NULL)
			return -ENOMEM;
		scores[p].c_alive++;
	}
	return 0;
}

/* Prints the seconds, if all messages were received. */
static int report(const struct timespec *start)
{
	double seconds = 0;
	long received = 0;
	int p;

	for (p = 0; p < P; p++) {
		double s = since(start, &scores[p].c_end);

		received += scores[p].c_received;
		if (s > seconds)
			seconds = s;
	}
	if (received != (long)N * R * M) {
		fprintf(stderr, "%ld of %ld messages were received\n",
			received, (long)N * R * M);
		return FAILED;
	}
	printf("%f\n", seconds);
	return 0;
}

static int run(void)
{
	struct timespec start;
	int rc;

	rc = SCHED(init)(P, (long)N * R > INT_MAX ? INT_MAX : N * R);
	if (rc == 0 && D > 0)
		rc = SCHED(stack_size)((size_t)D + STACK_MORE);
	if (rc != 0)
		return failed("init", rc);
	threads = malloc((size_t)N * R * sizeof threads[0]);
	if (threads == NULL ||
	    posix_memalign((void **)&scores, 64, P * sizeof scores[0]) != 0)
		return failed("memory for the threads", -ENOMEM);
	memset(scores, 0, P * sizeof scores[0]);
	rc = make_all();
	if (rc != 0)
		return failed("making the threads", rc);
	clock_gettime(CLOCK_MONOTONIC, &start);
	rc = SCHED(start)();
	if (rc != 0)
		return failed("start", rc);
	rc = SCHED(fini)();
	if (rc != 0)
		fprintf(stderr, "%ld threads wait for ever\n", SCHED(stuck)());
	return report(&start) == 0 && rc == 0 ? 0 : FAILED;
}

/* A decimal number from min to max. */
static int number(const char *text, long min, long max, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	return errno == 0 && text[0] >= '0' && text[0] <= '9' &&
		*end == '\0' && *value >= min && *value <= max;
}

static int usage(const char *name, const char *why)
{
	fprintf(stderr, "%s\nusage: %s N R M D P\n"
		"  N  threads in a ring, 1 or more\n"
		"  R  rings, 1 or more\n"
		"  M  rounds, 1 or more\n"
		"  D  more bytes on the stack of each thread, 0 to %d\n"
		"  P  processors, 1 or more\n", why, name, INT_MAX - STACK_MORE);
	return USAGE;
}

int main(int argc, char **argv)
{
	long n, r, d, p, all;

	if (argc != 6)
		return usage(argv[0], "five numbers are needed");
	if (!number(argv[1], 1, INT_MAX, &n) ||
	    !number(argv[2], 1, INT_MAX, &r) ||
	    !number(argv[3], 1, LONG_MAX, &M) ||
	    !number(argv[4], 0, INT_MAX - STACK_MORE, &d) ||
	    !number(argv[5], 1, INT_MAX, &p))
		return usage(argv[0], "not a number, or out of range");
	if (__builtin_mul_overflow(n, r, &all) ||
	    all > (long)(SIZE_MAX / sizeof threads[0]))
		return usage(argv[0], "N * R is too large");
	if (__builtin_mul_overflow(all, M, &all))
		return usage(argv[0], "N * R * M is too large");
	N = n;
	R = r;
	D = d;
	P = p;
	return run();
}
