/* SPDX-License-Identifier: MIT */
/*
 * check.h: common parts of test programs. Exit: 0 passed, 1 failed, 77 skipped.
 */

#ifndef CHECK_H
#define CHECK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* so include this file, or tiny.h, first */
#endif
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCHDOG	60		/* seconds, unless WATCHDOG is set */
#define UNUSED		__attribute__((unused))
#define NOINLINE	__attribute__((noinline))
#define COUNT(array)	((int)(sizeof(array) / sizeof((array)[0])))

/* Never compiled out. */
#define CHECK(cond)							\
	do {								\
		if (!(cond))						\
			check_fail(__FILE__, __LINE__, #cond);		\
	} while (0)

static unsigned check_seed;
static long check_begun;		/* us */
static char check_doing[64];		/* which part of the test runs */

static NOINLINE void check_fail(const char *file, int line, const char *what)
{
	char text[512];
	int nob;

	nob = snprintf(text, sizeof text,
		       "%s:%d: CHECK(%s) failed %s(seed %u)\n",
		       file, line, what, check_doing, check_seed);
	(void)!write(STDERR_FILENO, text, nob < 512 ? nob : 511);
	_exit(1);
}

static void check_hang(int signo)
{
	(void)signo;
	check_fail(__FILE__, __LINE__, "the watchdog");
}

static UNUSED void check_skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

static UNUSED int check_watchdog(void)
{
	const char *env = getenv("WATCHDOG");

	return env != NULL && atoi(env) > 0 ? atoi(env) : WATCHDOG;
}

static UNUSED long check_us(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);	/* fail.h wraps clock_gettime() */
	return now.tv_sec * 1000000l + now.tv_usec;
}

/*
 * True until this many percent of the watchdog's time are over. For tests that
 * repeat something as often as they can, after a minimum of repetitions.
 */
static UNUSED int check_time(int percent)
{
	return check_us() - check_begun < check_watchdog() * 10000l * percent;
}

/*
 * Begins each main(). The seed is argv[1], or SEED in the environment, or any.
 */
static UNUSED void check_start(int argc, char **argv)
{
	const char *env = argc > 1 ? argv[1] : getenv("SEED");

	check_seed = env != NULL && *env != 0 ?
		(unsigned)strtoul(env, NULL, 0) : (unsigned)getpid() * 7919u;
	check_begun = check_us();
	signal(SIGALRM, check_hang);
	alarm((unsigned)check_watchdog());
}

/*
 * Gives the cpu away, mostly in a loop that waits for another native thread. If
 * other programs only compute, a sched_yield() lets each of them run for its
 * whole time slice. On Linux 6.18 a hand-over took 4100 us, but 43 us with a
 * sleep. So when yields turn out to be slow, the caller sleeps instead.
 */
#define CHECK_SLOW	1000		/* us: a yield that is slow */
#define CHECK_SLOW_NR	8		/* slow yields, then sleep */

static UNUSED NOINLINE void check_yield(void)
{
	static int slow;
	int saved = errno;
	long begun;

	if (__atomic_load_n(&slow, __ATOMIC_RELAXED) >= CHECK_SLOW_NR) {
		usleep(1);
		errno = saved;
		return;
	}
	begun = check_us();
	sched_yield();
	if (check_us() - begun > CHECK_SLOW)
		__atomic_fetch_add(&slow, 1, __ATOMIC_RELAXED);
}

/* xorshift. Gives the same numbers on all machines. */
static UNUSED unsigned check_random(unsigned *state)
{
	unsigned x = *state != 0 ? *state : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

/* Returns a value that the compiler cannot know. */
static UNUSED NOINLINE unsigned check_hash(unsigned a, unsigned b)
{
	__asm__ volatile("" : "+r"(a));
	a = (a ^ b * 2654435761u) * 2246822519u;
	return a ^ a >> 15;
}

/*
 * Runs f() in a child. Returns its wait status; text is what it wrote to
 * stderr.
 */
static UNUSED int check_child(void (*f)(void), char *text, int len)
{
	const struct rlimit none = { 0, 0 };
	int fd[2], status, at = 0;
	ssize_t nob;
	pid_t pid;

	CHECK(pipe(fd) == 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		f();
		_exit(0);
	}
	close(fd[1]);
	while (at < len - 1 && (nob = read(fd[0], text + at, len - 1 - at)) > 0)
		at += (int)nob;
	text[at] = 0;
	close(fd[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Checks that f() dies by usched_fail(), with the name of the contract. */
static UNUSED int check_dies(const char *name, void (*f)(void),
			     const char *contract)
{
	char text[4096];
	int status = check_child(f, text, sizeof text);

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(text, "usched: ") != NULL && strstr(text, contract) != NULL)
		return 0;
	fprintf(stderr, "%s: wanted SIGABRT and \"%s\", got status %#x and "
		"\"%s\"\n", name, contract, (unsigned)status, text);
	return 1;
}

#endif /* CHECK_H */
