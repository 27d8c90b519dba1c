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
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Functions of threads, handlers and call-backs leave parameters alone. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WATCHDOG	60		/* seconds of cpu, unless WATCHDOG is set */
#define WATCHDOGS_MOST	20		/* watchdogs: the longest test, on the wall */
#define ASLEEP		2000		/* less than this part of a cpu: asleep */
#define UNUSED		__attribute__((unused))
#define NOINLINE	__attribute__((noinline))
#define COUNT(array)	((int)(sizeof(array) / sizeof((array)[0])))

/*
 * Begins a function that the linker calls for name(), with -Wl,--wrap=name. The
 * real function is __real_name(). Used: compilers may drop what only the linker
 * refers to.
 */
#define WRAP(type, name, ...)						\
	type __real_##name(__VA_ARGS__);				\
	type __wrap_##name(__VA_ARGS__);				\
	__attribute__((used)) type __wrap_##name(__VA_ARGS__)

/* Never compiled out. */
#define CHECK(cond)							\
	do {								\
		if (!(cond))						\
			check_fail(__FILE__, __LINE__, #cond);		\
	} while (0)

static unsigned check_seed;
static long check_begun;		/* us */
static int  check_limit = WATCHDOG;	/* seconds, of the watchdog: */
static long check_since;		/* us, of the wall and of cpu, when it */
static long check_cpu_since;		/* was set, */
static long check_cpu_seen;		/* and when it last looked */
static char check_doing[64];		/* which part of the test runs */

static NOINLINE void check_fail(const char *file, int line, const char *what)
{
	char text[512];
	int nob;

	nob = snprintf(text, sizeof text,
		       "%s:%d: CHECK(%s) failed %s%s(seed %u)\n", file, line,
		       what, check_doing, *check_doing != 0 ? " " : "",
		       check_seed);
	(void)!write(STDERR_FILENO, text, nob < 512 ? nob : 511);
	_exit(1);
}

/* Says which part of the test runs from now on. */
static UNUSED __attribute__((format(printf, 1, 2)))
void doing(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(check_doing, sizeof check_doing, format, args);
	va_end(args);
}

static UNUSED void check_skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

/*
 * Tells whether a sanitizer holds locks of its own over fork(), or forbids
 * threads after it.
 */
static UNUSED int check_sanitized(void)
{
	int is_sanitized = 0;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	is_sanitized = 1;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	is_sanitized = 1;
#endif
	return is_sanitized;
}

/* Skips a test that forks under such a sanitizer. */
static UNUSED void check_forks(void)
{
	if (check_sanitized())
		check_skip("ASan and TSan have locks that outlive fork()");
}

static UNUSED long check_us(void)
{
	struct timeval now;

	gettimeofday(&now, NULL);	/* fail.h wraps clock_gettime() */
	return now.tv_sec * 1000000l + now.tv_usec;
}

/*
 * True until this many percent of a minute are over, or of CHECK_MINUTES. For
 * tests that repeat something as often as they can, after a minimum of
 * repetitions.
 */
static UNUSED int check_time(int percent)
{
	const char *env = getenv("CHECK_MINUTES");
	int minutes = env != NULL && atoi(env) > 0 ? atoi(env) : 1;

	return check_us() - check_begun < minutes * 600000l * percent;
}

/* Returns the cpu time of this process, and of its children that have ended. */
static long check_cpu(void)
{
	const int who[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
	struct rusage used;
	long us = 0;
	int i;

	for (i = 0; i < COUNT(who); i++) {
		getrusage(who[i], &used);
		us += (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000l +
			used.ru_utime.tv_usec + used.ru_stime.tv_usec;
	}
	return us;
}

/*
 * Looks whether the test hangs; called about every check_limit seconds. Beside
 * other programs it gets only a part of a cpu. So it fails if it has used these
 * seconds of cpu, if it has slept since the last look, or if it never ends.
 */
static UNUSED void check_look(void)
{
	long limit = check_limit * 1000000l, cpu = check_cpu();

	if (cpu - check_cpu_since >= limit)
		check_fail(__FILE__, __LINE__, "the watchdog: it runs on");
	if (cpu - check_cpu_seen < limit / ASLEEP)
		check_fail(__FILE__, __LINE__, "the watchdog: it sleeps on");
	if (check_us() - check_since >= limit * WATCHDOGS_MOST)
		check_fail(__FILE__, __LINE__, "the watchdog: it has no end");
	check_cpu_seen = cpu;
}

static void check_alarm(int signo)
{
	int saved = errno;

	check_look();
	alarm((unsigned)check_limit);
	errno = saved;
}

/*
 * Starts the watchdog again: for a part of a long test, or in a child, which
 * inherits no alarm. The watchdog first looks after so many times its seconds.
 */
static UNUSED void check_watch(int times)
{
	check_since = check_us();
	check_cpu_since = check_cpu_seen = check_cpu();
	alarm((unsigned)(times * check_limit));
}

/*
 * Begins each main(). The seed is argv[1], or SEED in the environment, or any.
 */
static UNUSED void check_start(int argc, char **argv)
{
	const char *env = argc > 1 ? argv[1] : getenv("SEED");
	const char *watchdog = getenv("WATCHDOG");

	check_seed = env != NULL && *env != 0 ?
		(unsigned)strtoul(env, NULL, 0) : (unsigned)getpid() * 7919u;
	check_limit = watchdog != NULL && atoi(watchdog) > 0 ?
		atoi(watchdog) : WATCHDOG;
	check_begun = check_us();
	signal(SIGALRM, check_alarm);
	check_watch(1);
}

/* For tests whose mistakes have messages, after which a program goes on. */
static UNUSED void check_quiet(void)
{
	setenv("USCHED_QUIET", "1", 1);
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

/* Keeps all of an array in its frame. Clang keeps only the bytes in use. */
static UNUSED void check_used(volatile void *array)
{
	__asm__ volatile("" : : "r"(array) : "memory");
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

/* Is text one line with this in it; NULL: no line? */
static UNUSED bool check_line(const char *text, const char *what)
{
	const char *end = strchr(text, '\n');

	return what == NULL ? text[0] == 0 :
		end != NULL && end[1] == 0 && strstr(text, what) != NULL;
}

/* f(), in a child, must go on, after such a line. Returns 0 or 1. */
static UNUSED int check_says(const char *name, void (*f)(void),
			     const char *what)
{
	char text[4096];
	int status = check_child(f, text, sizeof text);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
	    check_line(text, what))
		return 0;
	fprintf(stderr, "%s: wanted status 0 and \"%s\", got status %#x and "
		"\"%s\"\n", name, what != NULL ? what : "", (unsigned)status,
		text);
	return 1;
}

#endif /* CHECK_H */
