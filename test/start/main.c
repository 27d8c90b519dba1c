/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * main: usched_main() runs a function as the first thread of the scheduler
 * that USCHED names, waits for all threads, and returns the function's result;
 * it does so again and again. Any other USCHED, a call by a thread, and threads
 * that nothing can wake give 125 and a message. So do all but one of several calls
 * at the same time. usched_go() makes threads of the
 * caller's scheduler, by any depth, and says -ENOSYS to all others, with a line
 * to those that are no threads. A result that seems to be an error has a line.
 * libc's pthread_exit() in a thread ends the program, with the thread's name,
 * whatever USCHED_QUIET says.
 * In the child of a fork() it works as in its parent, whoever has forked:
 * a native thread, a thread, or a call, and whatever locks of the loader another
 * native thread had. Messages name the function and argument
 * of the first thread, not what is around it.
 */
#include "check.h"
#include <usched/all.h>
#if defined(__ELF__)
#include <link.h>
#endif
#include <pthread.h>

#define WORKERS	1000

static struct ugroup all;
static struct usem   never;
static long sum;
static int  messages, asking;
static char first[512], last[512];

static void note(const char *line)
{
	if (messages++ == 0)
		snprintf(first, sizeof first, "%s", line);
	snprintf(last, sizeof last, "%s", line);
}

static void worker(void *arg)
{
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	__atomic_add_fetch(&sum, (long)arg, __ATOMIC_RELAXED);
	ugroup_done(&all);
}

/* Makes the second half of the workers. */
static void maker(void *arg)
{
	long i;

	for (i = WORKERS / 2; i < WORKERS; i++)
		CHECK_IS(usched_go(worker, (void *)i), 0);
	CHECK_IS(arg, NULL);
}

static int work(void *arg)
{
	long i;

	CHECK(arg == &all && ustack_self() != NULL);
	sum = 0;
	ugroup_add(&all, WORKERS);
	CHECK_IS(usched_go(maker, NULL), 0);
	for (i = 0; i < WORKERS / 2; i++)
		CHECK_IS(usched_go(worker, (void *)i), 0);
	CHECK_IS(ugroup_wait(&all, UNEVER), 0);
	CHECK_IS(sum, (long)WORKERS * (WORKERS - 1) / 2);
	return 42;
}

/* Which scheduler runs, and with how many processors: rr_sched() is shared. */
static int which(void *arg)
{
	return rr_self() != NULL ? 1 : ll_self() != NULL ? 2 :
		ws_self() != NULL ? 3 : arg == NULL;
}

static void late(void *arg)
{
	CHECK_IS(u_sleep(uafter(5 * UTIME_MS)), 0);
	*(int *)arg = 1;
}

static int returns_first(void *arg)
{
	CHECK_IS(usched_go(late, arg), 0);
	return 7;
}

static int stays(void *arg)
{
	return usem_wait(&never, UNEVER);
}

static int running;		/* atomic */

static int stays_a_while(void *arg)
{
	CHECK_IS(__atomic_add_fetch(&running, 1, __ATOMIC_RELAXED), 1);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	__atomic_sub_fetch(&running, 1, __ATOMIC_RELAXED);
	return 6;
}

static int as_it_is(void *rc)
{
	return *(int *)rc;
}

/* A result that seems to be an error has a line, and stays as it is. */
static void results(void)
{
	static int rc[] = { 0, 1, 125, -1, -4096, -2, -EADDRINUSE };
	int i;

	for (i = 0; i < COUNT(rc); i++) {
		messages = 0;
		CHECK_IS(usched_main(as_it_is, &rc[i]), rc[i]);
		CHECK_IS(messages, rc[i] < -1 && rc[i] > -4096);
	}
	CHECK(strstr(last, strerror(EADDRINUSE)) != NULL);
}

static int within(void *arg)
{
	CHECK_IS(usched_main(which, arg), USCHED_FAILED);
	return 5;
}

/* If calls come at the same time, all but one fail, and that runs as if alone. */
static void *at_once(void *arg)
{
	return (void *)(intptr_t)usched_main(stays_a_while, arg);
}

static void several(const char *how)
{
	pthread_t native[8];
	void *rc;
	int i, ran = 0;

	CHECK_IS(setenv("USCHED", how, 1), 0);
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	for (i = 0; i < COUNT(native); i++)
		CHECK_IS(pthread_create(&native[i], NULL, at_once, NULL), 0);
	for (i = 0; i < COUNT(native); i++) {
		CHECK_IS(pthread_join(native[i], &rc), 0);
		CHECK((intptr_t)rc == 6 || (intptr_t)rc == USCHED_FAILED);
		ran += (intptr_t)rc == 6;
	}
	CHECK_THAT(ran, >=, 1);
}

static int fails(const char *how, const char *says)
{
	messages = 0;
	CHECK_IS(setenv("USCHED", how, 1), 0);
	return usched_main(which, NULL) == USCHED_FAILED && messages == 1 &&
		strstr(last, says) != NULL && strstr(last, "rr:1-4096") != NULL;
}

/* libc's pthread_exit() would end the processor, for which all would wait. */

static void exits(void *arg)
{
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	pthread_exit(arg);
}

static int waits_for_exit(void *arg)
{
	CHECK_IS(usched_go(exits, arg), 0);
	return u_sleep(UNEVER);
}

static void run_exits(void)
{
	usched_on_message(NULL);
	check_quiet();			/* both lines come all the same */
	check_watch(1);
	(void)usched_main(waits_for_exit, NULL);
}

/* Names of functions are read from the program's file. */
static bool names(void)
{
	return access("/proc/self/exe", R_OK) == 0;
}

static int pthread_exits(const char *how)
{
	const char *ended = names() ? "exits() has ended the native" :
		" has ended the native";

	CHECK_IS(setenv("USCHED", how, 1), 0);
	return check_dies(how, run_exits, "pthread_exit: thread") +
		check_dies(how, run_exits, ended);
}

/* The child of fork(). */

/* Uses what is on the stack of its caller, which waits for its end. */
static int in_child(void *arg)
{
	CHECK(*(int *)arg == 3 && work(&all) == 42);
	return 9;
}

static int forks(void *arg)
{
	int status, three = 3;
	pid_t pid = fork();

	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		check_watch(1);
		CHECK_IS(usched_main(in_child, &three), 9);
		_exit(usched_main(in_child, &three) != 9 || messages != 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return arg != NULL;
}

static void forks_in_call(void *arg)
{
	CHECK_IS(forks(arg), 0);
}

static int forks_by_call(void *arg)
{
	return ucall(forks_in_call, arg);
}

/* The child of a child: each is made by a thread that has no scheduler left. */
static int forks_again(void *arg)
{
	int status;
	pid_t pid = fork();

	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		_exit(usched_main(forks, arg));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

#if defined(__ELF__)
static int sees(struct dl_phdr_info *o, size_t size, void *arg)
{
	return 0;
}

static void ask_loader(void)
{
	(void)dl_iterate_phdr(sees, NULL);
}
#else
static void ask_loader(void)
{
}
#endif

static void *forks_beside(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		CHECK_IS(forks(NULL), 0);
	__atomic_store_n(&asking, 0, __ATOMIC_RELAXED);
	return arg;
}

/* The loader's lock stays taken in most of the children. */
static void forks_beside_loader(void)
{
	pthread_t id;

	asking = 1;
	CHECK_IS(pthread_create(&id, NULL, forks_beside, NULL), 0);
	while (__atomic_load_n(&asking, __ATOMIC_RELAXED))
		ask_loader();
	CHECK_IS(pthread_join(id, NULL), 0);
}

static void children(const char *how)
{
	messages = 0;
	CHECK_IS(setenv("USCHED", how, 1), 0);
	CHECK_IS(forks(NULL), 0);
	forks_beside_loader();
	CHECK_IS(usched_main(forks, NULL), 0);
	CHECK_IS(usched_main(forks_by_call, NULL), 0);
	CHECK_IS(usched_main(forks_again, NULL), 0);
	CHECK_IS(messages, 0);
}

int main(int argc, char **argv)
{
	static const char *const right[] = {
		"", "rr", "rr:1", "rr:3", "ll", "ll:2", "ws", "ws:1", "ws:3"
	};
	static const char *const wrong[] = {
		"r", "rrr", "RR", "rr:", "rr:0", "rr:-1", "rr:+1", "rr: 1", "rr:1 ",
		"rr:1x", "rr:4097", "rr:99999999999999999999", ":2", "2", "rr,2",
		" rr", "ws:0", "ll:x", "none"
	};
	static int done;
	int i;

	check_start(argc, argv);
	usched_on_message(note);
	CHECK(usched_go(late, &done) == -ENOSYS && messages == 1);
	CHECK(strstr(last, "usched_go: called outside of a thread") != NULL);
	messages = 0;
	for (i = 0; i < COUNT(right); i++) {
		CHECK_IS(setenv("USCHED", right[i], 1), 0);
		CHECK_IS(usched_main(work, &all), 42);
		CHECK_IS(usched_main(which, NULL), strncmp(right[i], "ll", 2) ==
			 0 ? 2 : strncmp(right[i], "ws", 2) == 0 ? 3 : 1);
		done = 0;
		CHECK(usched_main(returns_first, &done) == 7 && done);
	}
	CHECK_IS(unsetenv("USCHED"), 0);
	CHECK_IS(usched_main(which, NULL), 1);
	CHECK_IS(messages, 0);
	for (i = 0; i < COUNT(wrong); i++)
		CHECK(fails(wrong[i], wrong[i]));

	/* By a thread; and then the program goes on. */
	messages = 0;
	CHECK_IS(setenv("USCHED", "rr:2", 1), 0);
	CHECK(usched_main(within, NULL) == 5 && messages == 1);
	CHECK(strstr(last, "usched_go()") != NULL);

	results();
	for (i = 0; i < 100; i++)
		several(right[i % COUNT(right)]);

	for (i = 0; i < COUNT(right) && !check_sanitized(); i++) {
		CHECK_IS(pthread_exits(right[i]), 0);
		children(right[i]);
	}

	/* How many are stuck, and who. */
	for (i = 0; i < COUNT(right); i++) {
		messages = 0;
		CHECK_IS(setenv("USCHED", right[i], 1), 0);
		CHECK_IS(usched_main(stays, NULL), USCHED_FAILED);
		CHECK(messages >= 1 && strstr(first, "1 thread") != NULL);
		CHECK(messages == 1 || !names() ||
		      strstr(last, ", stays() waits") != NULL);
		never = (struct usem){ 0 };
	}
	return 0;
}
