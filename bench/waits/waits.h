/* SPDX-License-Identifier: MIT */
/* waits.h: the questions that programs of the benchmark of waits answer. */

#ifndef WAITS_H
#define WAITS_H

/*
 * Each program, ours and the peers, is asked
 *
 *	NAME[:M] N P
 *
 * with P native threads, and answers by lines of NAME[:M], perhaps a suffix,
 * and a number: nanoseconds of one of N, unless the suffix says otherwise. It
 * exits with 77 if it has no counterpart. Any other problem is told on stderr,
 * and the exit status is another.
 *
 * Time goes from before the first thread is made to when the last has ended,
 * unless this is said otherwise. N are dealt to the threads in equal shares.
 * To work is to compute for about 50 ns.
 *
 * TIME
 *	churn-random:M	of M timers a random one is stopped and started again, to
 *			end in 10 to 70 s; no timer expires while this is measured
 *	churn-same:M	the same, but to end in 60 s
 *	timed:M		sync, where the receivers wait for 60 s at most; beside
 *			M other timers
 *	sleepers:M	N threads are made, and sleep until one of a thousand
 *			times within M to M + 1 s. Lines:
 *	  .make_ns	to make a thread, until it sleeps
 *	  .bytes	resident, of a sleeping thread
 *	  .idle_cpu_percent	of one processor, used in 2 s in which all sleep
 *	  .late_median_us, .late_99_us, .late_max_us
 *			by how much they overslept
 *
 * CHANNELS of 8 bytes. As Go's runtime/chan_test.go has them, but an operation
 * is always a message: a send and a receive.
 *	sync		two threads, no room; messages go to and fro, N / 2
 *			each way
 *	flag		what sync is at least, if P = 2: two native threads that
 *			spin, each on a flag of the other
 *	wake		sync, by rr_wake() and rr_wait() in place of a channel: ours only
 *	asleep:M	sync, but who has received computes for M us, so that the other's
 *			processor sleeps. The time from before a message is sent to
 *			after it was received
 *	futex:M		what asleep is at least: two native threads, and futex(2)
 *	buffer:M	room for M, P senders and P receivers
 *	uncontended	each of P threads fills its channel, of 100, and drains it
 *	contended	the same, but they share one channel, of 100 * P
 *	fanin		100 * P senders, 1 receiver, room for 10
 *	sem		P threads, a semaphore of P, or channel with room for P
 *	select		each of P threads has two channels of 1. It selects the
 *			channel that has a value, and sends to the other
 *	select-sync	P threads select from which of three channels without room
 *			to receive; P others to which of these to send, or to stop
 *	select-buffer:M	as buffer, but each thread selects: the channel, a timer
 *			of an hour, and a channel that says to stop; and works
 *
 * LOCKS. As Go's sync/mutex_test.go has them; an operation is a lock and unlock.
 *	mutex-own	each of P threads has its mutex
 *	mutex		P threads share one
 *	mutex-slack	10 * P threads share one
 *	mutex-work	P threads share one, and work outside of it
 *	mutex-hold	10 * P threads share one, and yield while they hold it; it
 *			ends after the N-th time
 *	  .most_to_least	how often the luckiest got it, to the unluckiest
 *	skew		the first of two threads holds a mutex while it sleeps
 *			100 us, and locks it again at once; the second sleeps
 *			100 us, then locks and unlocks, N times. The time is the
 *			second's
 *	  .most_to_least	how often the first got it, to the second
 *	rw-own		each of P threads has a read-write lock, and takes it for
 *			reading twice at once, then for writing: one operation
 *	rw-write:M	P threads share one; each M-th operation of a thread
 *			writes, the others read
 *
 * PROGRAMS
 *	sieve		a filter is a thread, channels have no room; until the
 *			N-th prime is known
 *	powser		N coefficients of the tangent, as in wfine.c, but an ask
 *			and an answer are messages in channels without room, and
 *			who copies a series selects
 *	pool:M		M threads take N jobs, to work, from a channel with room
 *			for 1,000; making and ending them is included
 *
 * In sieve and powser what still runs or waits at the end of the time ends with
 * the program.
 *
 * The header is for the sources of one program, in C or C++.
 */

#include "../figures.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAITS_FAILED = 1, WAITS_USAGE = 2, WAITS_NONE = 77 };

enum {
	WAITS_BATCH  = 100,		/* room, and messages at once */
	WAITS_SLACK  = 10,		/* threads for each processor */
	WAITS_FAN    = 100,		/* threads for each processor */
	WAITS_STEPS  = 30,		/* of work */
	WAITS_QUEUE  = 1000,		/* room for jobs */
	WAITS_BURSTS = 1000		/* times of sleepers, a millisecond apart */
};

#define WAITS_S		1000000000L
#define WAITS_AHEAD	(60 * WAITS_S)
#define WAITS_HOLD	100000L
#define WAITS_BEFORE	(2300 * WAITS_S / 1000)	/* of the burst, all are idle */
#define WAITS_IDLE	(2 * WAITS_S)

#define WAITS_MODULUS	2147483647UL

/* A question. */
struct waits {
	const char *w_asked;		/* with M */
	long        w_m;
	long        w_n;
	int         w_p;
};

extern struct waits waits;

/* The table of a program's benchmarks ends with an empty name. */
struct waits_bench {
	const char *b_name;
	void      (*b_run)(void);
};

static inline __attribute__((noreturn)) void waits_die(const char *why)
{
	fprintf(stderr, "%s: %s\n", waits.w_asked, why);
	_exit(WAITS_FAILED);
}

static inline __attribute__((noreturn)) void waits_none(void)
{
	_exit(WAITS_NONE);
}

static inline void waits_say(const char *suffix, double value)
{
	printf("%s%s %.2f\n", waits.w_asked, suffix, value);
	fflush(stdout);
}

/* Returns nanoseconds, from any start. */
static inline int64_t waits_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * WAITS_S + t.tv_nsec;
}

/* Computes until us microseconds have passed. */
static inline void waits_compute(long us)
{
	int64_t end = waits_now() + us * 1000;

	while (waits_now() < end)
		;
}

/* Prints the answer: the time of one of N. */
static inline void waits_took(int64_t start)
{
	waits_say("", (double)(waits_now() - start) / waits.w_n);
}

/* Returns how many of n things number id gets, if nr share them. */
static inline long waits_share(long n, int nr, int id)
{
	return n / nr + (id < n % nr);
}

static inline uint64_t waits_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Returns a random time, in nanoseconds from now. */
static inline int64_t waits_deadline(uint64_t *x)
{
	return 10 * WAITS_S + (int64_t)(waits_random(x) % WAITS_AHEAD);
}

static inline uint64_t waits_work(uint64_t x)
{
	int i;

	for (i = 0; i < WAITS_STEPS; i++)
		x = (x ^ x >> 31) * 6364136223846793005UL;
	return x;
}

/* Lets the compiler believe that x is used. */
static inline void waits_worked(uint64_t x)
{
	__asm__ volatile("" : : "r" (x));
}

static inline double waits_resident(void)
{
	double bytes = figures_resident();

	if (bytes == 0)
		waits_die("/proc/self/status");
	return bytes;
}

/* Returns the nanoseconds that processors have spent. */
static inline int64_t waits_used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * WAITS_S + t.tv_nsec;
}

/* Returns zeroed memory, which is resident. */
static inline void *waits_memory(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		waits_die("out of memory");
	memset(p, 1, size);
	return memset(p, 0, size);
}

/* What the sleepers have told: late[i] is set by number i. */
static inline void waits_late(int64_t *late)
{
	long n = waits.w_n;

	figures_sort_times(late, n);
	if (late[0] < 0)
		waits_die("a sleeper was woken too early");
	waits_say(".late_median_us", late[n / 2] / 1e3);
	waits_say(".late_99_us", late[n - 1 - n / 100] / 1e3);
	waits_say(".late_max_us", late[n - 1] / 1e3);
}

/* Prints how unlike the shares are. */
static inline void waits_shares(const long *got, int nr)
{
	long least = waits.w_n, most = 0;
	int i;

	for (i = 0; i < nr; i++) {
		least = got[i] < least ? got[i] : least;
		most = got[i] > most ? got[i] : most;
	}
	waits_say(".most_to_least", (double)most / (least > 0 ? least : 1));
}

/* Checks the answer of the sieve. */
static inline void waits_is_prime(uint64_t prime)
{
	bool *no = (bool *)waits_memory(prime + 1);
	uint64_t i, j;
	long nr = 0;

	for (i = 2; i <= prime; i++) {
		nr += !no[i];
		for (j = i; !no[i] && j <= prime / i; j++)
			no[i * j] = true;
	}
	if (no[prime] || nr != waits.w_n)
		waits_die("that is not the prime");
	free(no);
}

/* Returns 1 / x. */
static inline uint64_t waits_inverse(uint64_t x)
{
	uint64_t r = 1;
	uint64_t n;

	for (n = WAITS_MODULUS - 2; n > 0; n /= 2) {
		if (n % 2 == 1)
			r = r * x % WAITS_MODULUS;
		x = x * x % WAITS_MODULUS;
	}
	return r;
}

/* Checks that t are coefficients of the tangent: T' = 1 + T * T. */
static inline void waits_is_tangent(const uint64_t *t)
{
	long i, j;

	for (i = 0; i + 1 < waits.w_n; i++) {
		uint64_t sum = i == 0;

		for (j = 0; j <= i; j++)
			sum = (sum + t[j] * t[i - j]) % WAITS_MODULUS;
		if (t[0] != 0 || t[i + 1] * (i + 1) % WAITS_MODULUS != sum)
			waits_die("that is not the tangent");
	}
}

/* Returns the number in text, or -1 if it is none, or below least. */
static inline long waits_number(const char *text, long least)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || v < least ||
	    v > INT32_MAX)
		return -1;
	return v;
}

static inline int waits_usage(const char *program, const char *why)
{
	fprintf(stderr, "%s: %s\nusage: %s NAME[:M] N P\n", program, why,
		program);
	return WAITS_USAGE;
}

/*
 * Answers the question of the command line: run() calls its function. Returns
 * the exit status.
 */
static inline int waits_main(const struct waits_bench *table,
			     void (*run)(void (*f)(void)), int argc,
			     char **argv)
{
	size_t length;

	if (argc != 4)
		return waits_usage(argv[0], "too few or too many arguments");
	length = strcspn(argv[1], ":");
	waits.w_asked = argv[1];
	if (argv[1][length] == ':')
		waits.w_m = waits_number(argv[1] + length + 1, 0);
	waits.w_n = waits_number(argv[2], 1);
	waits.w_p = waits_number(argv[3], 1);
	if (waits.w_m < 0 || waits.w_n < 0 || waits.w_p < 0)
		return waits_usage(argv[0], "not a number, or out of range");
	for (; table->b_name != NULL; table++) {
		if (strlen(table->b_name) == length &&
		    strncmp(table->b_name, argv[1], length) == 0) {
			run(table->b_run);
			return 0;
		}
	}
	return WAITS_NONE;
}

#endif /* WAITS_H */
