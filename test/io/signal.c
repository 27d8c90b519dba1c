/* SPDX-License-Identifier: MIT */
/* signal: each signal is returned once, to a single thread that waits. */
/* VARIANTS: RR LL WS PR */

/*
 * Signals of several numbers, from SIGRTMIN on, which the kernel does not
 * merge, come from threads, native threads and a child. Threads of all
 * processors, of another scheduler, and a native thread wait for them, some
 * with deadlines, and others are cancelled. All numbers are returned as often
 * as they were sent.
 */

#include "either.h"
#include "usignal.h"
#include "uscope.h"

/* On macOS the kernel merges all signals. */
#if !defined(SIGRTMIN)
#define SIGRTMIN	(check_skip("no signals that are not merged"), 0)
#endif

#define KINDS	3
#define WAITERS	6
#define NR	300		/* by each sender; a sender for each kind */

#if defined(LL)
#include "rr.h"
#define OTHER(name)	rr_##name
#define other_make(f, arg)	rr_thread_init(f, arg)
#else
#include "ll.h"
#define OTHER(name)	ll_##name
#define other_make(f, arg)	ll_thread_init(f, arg, 0)
#endif

static long sent[KINDS], got[KINDS], running, ended, by_hand;

static int number(int kind)
{
	return SIGRTMIN + 1 + kind;
}

/* Sends a signal of its own number, as all senders do. */
static void sends(int kind)
{
	while (kill(getpid(), number(kind)) != 0) {
		CHECK_IS(errno, EAGAIN);	/* too many are pending */
		check_yield();
	}
	add(&sent[kind], 1);
}

static void takes(int signo)
{
	CHECK(signo >= number(0) && signo < number(KINDS));
	add(&got[signo - number(0)], 1);
}

static void *native_sender(void *arg)
{
	int i;

	for (i = 0; i < NR; i++) {
		sends(1);
		if (i % 30 == 0)
			usleep(100);		/* let all fall asleep */
	}
	add(&running, -1);
	return arg;
}

static void sender(void *arg)
{
	int i;

	for (i = 0; i < NR; i++) {
		sends(2);
		if (i % 8 == 0)
			yield();
	}
	add(&running, -1);
}

/* Sends in the name of another process. */
static void child(void *arg)
{
	pid_t pid, parent = getpid();
	int i, status;

	add(&sent[0], NR);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		for (i = 0; i < NR; i++)
			while (kill(parent, number(0)) != 0)
				sched_yield();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	add(&running, -1);
}

/* Whether signals may still come. */
static bool more(void)
{
	int i;

	if (get(&running) > 0)
		return true;
	for (i = 0; i < KINDS; i++)
		if (get(&got[i]) != get(&sent[i]))
			return true;
	return false;
}

/* Until all is sent and taken: waits, with a deadline now and then. */
static void waits(int me)
{
	int i, rc;

	for (i = 0; more(); i++) {
		rc = usignal_wait(i % 3 == 1 && me > 0 ? UNOW :
				  uafter(i % 3 == 2 ? UTIME_US : UTIME_MS));
		if (rc > 0)
			takes(rc);
		else
			CHECK(rc == -ETIMEDOUT || rc == -EAGAIN);
	}
	add(&ended, 1);
}

static void waiter(void *arg)
{
	waits((int)(intptr_t)arg);
}

/* Waits in scopes that are cancelled. */

static int in_scope(void *arg)
{
	int rc = usignal_wait(UNEVER);

	if (rc > 0)
		takes(rc);
	else
		CHECK_IS(rc, -ECANCELED);
	return 0;
}

static void cancels(void *arg)
{
	struct uscope *s;
	int rc;

	while (more()) {
		CHECK_IS(uscope_begin(&s, UNEVER), 0);
		CHECK_IS(uscope_go(s, in_scope, NULL), 0);
		CHECK_IS(u_sleep(uafter(50 * UTIME_US)), 0);
		uscope_cancel(s);
		rc = uscope_end(&s);
		CHECK_IS(rc, -ECANCELED);
	}
	add(&ended, 1);
}

static void *native_waiter(void *arg)
{
	waits(0);
	return arg;
}

/* Another scheduler, whose processors sleep in pollers of their own. */
static void *other_waiters(void *arg)
{
	CHECK_IS(OTHER(init)(2, 0), 0);
	CHECK(other_make(waiter, (void *)1) != NULL);
	CHECK(other_make(waiter, (void *)0) != NULL);
	CHECK(OTHER(start)() == 0 && OTHER(fini)() == 0);
	return arg;
}

static void all(int proc_nr)
{
	pthread_t from, to, other;
	int i;

	ended = 0;
	running = 3;
	for (i = 0; i < KINDS; i++)
		sent[i] = got[i] = 0;
	begin(proc_nr, 0);
	make(0, child, NULL);
	make(1, sender, NULL);
	for (i = 0; i < WAITERS; i++)
		make(i, waiter, (void *)(intptr_t)i);
	make(0, cancels, NULL);
	from = native(native_sender, NULL);
	to = native(native_waiter, NULL);
	other = native(other_waiters, NULL);
	start_and_finish();
	native_join(from);
	native_join(to);
	native_join(other);
	CHECK_IS(ended, WAITERS + 4);
	CHECK_IS(usignal_wait(UNOW), -EAGAIN);
}

/* All threads wait, and a processor sleeps: the signal alone goes on. */

static void *kills(void *arg)
{
	until(&running, 2);
	usleep(2000);
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
	until(&ended, 1);
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
	return arg;
}

static void last_waiter(void *arg)
{
	add(&running, 1);
	CHECK_IS(usignal_wait(UNEVER), SIGUSR1);
	add(&ended, 1);
}

static void asleep(int proc_nr)
{
	pthread_t id;

	running = ended = 0;
	begin(proc_nr, 0);
	make(0, last_waiter, NULL);
	make(1, last_waiter, NULL);
	id = native(kills, NULL);
	start_and_finish();
	native_join(id);
	CHECK_IS(ended, 2);
}

/* Many come before the first waiter runs, which then reads the whole bell. */

static void bursts(void *arg)
{
	int i;

	yield_until(&running, WAITERS);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	for (i = 0; i < WAITERS; i++)
		CHECK_IS(raise(number(0)), 0);
}

static void burst_waiter(void *arg)
{
	add(&running, 1);
	CHECK_IS(usignal_wait(UNEVER), number(0));
	add(&ended, 1);
}

static void burst(int proc_nr)
{
	int i;

	running = ended = 0;
	begin(proc_nr, 0);
	for (i = 0; i < WAITERS; i++)
		make(i, burst_waiter, NULL);
	make(0, bursts, NULL);
	start_and_finish();
	CHECK_IS(ended, WAITERS);
}

static void in_turn(void)
{
	int i, first;

	for (i = 0; i < 3; i++)
		CHECK_IS(raise(number(0)), 0);
	CHECK_IS(raise(number(1)), 0);
	first = usignal_wait(UNEVER);
	CHECK(first == number(0) || first == number(1));
	CHECK_IS(usignal_wait(UNEVER), number(0) + number(1) - first);
	CHECK_IS(usignal_wait(UNOW), number(0));
	if (first == number(0))
		CHECK_IS(usignal_wait(UNOW), number(0));
	while (usignal_wait(UNOW) > 0)
		;
}

/* Watches. */

static void hand(int signo)
{
	add(&by_hand, 1);
}

static void handlers(void)
{
	static const int bad[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,
				   SIGILL, SIGTRAP, SIGSYS, SIGABRT, 0, -1,
				   NSIG, 1000 };
	struct sigaction a;
	int i;

	for (i = 0; i < COUNT(bad); i++) {
		CHECK_IS(usignal_watch(bad[i]), -EINVAL);
		CHECK_IS(usignal_unwatch(bad[i]), -EINVAL);
	}
	CHECK_IS(usignal_wait(UNEVER), -EINVAL);
	CHECK_IS(usignal_wait(-1), -EINVAL);
	CHECK_IS(signal(SIGUSR2, hand), SIG_DFL);
	CHECK(usignal_watch(SIGUSR2) == 0 && usignal_watch(SIGUSR2) == 0);
	CHECK(raise(SIGUSR2) == 0 && by_hand == 0);
	CHECK_IS(usignal_unwatch(SIGUSR2), 0);
	CHECK_IS(usignal_wait(UNEVER), SIGUSR2);
	CHECK_IS(usignal_wait(UNOW), -EAGAIN);
	CHECK(raise(SIGUSR2) == 0 && by_hand == 0);
	CHECK_IS(usignal_unwatch(SIGUSR2), 0);		/* drops it */
	CHECK_IS(usignal_wait(UNOW), -EINVAL);
	CHECK(raise(SIGUSR2) == 0 && by_hand == 1);
	CHECK_IS(usignal_watch(SIGUSR2), 0);
	CHECK_IS(usignal_wait(UNOW), -EAGAIN);
	/* The program's own. */
	CHECK_THAT(signal(SIGUSR2, SIG_IGN), !=, SIG_ERR);
	CHECK_IS(usignal_unwatch(SIGUSR2), 0);
	CHECK(sigaction(SIGUSR2, NULL, &a) == 0 && a.sa_handler == SIG_IGN);
	CHECK_IS(usignal_unwatch(SIGUSR2), -EINVAL);
}

/* The end of all watches ends all waits. */

static void finds_nothing(void *arg)
{
	add(&running, 1);
	CHECK_IS(usignal_wait(UNEVER), -EINVAL);
	add(&ended, 1);
}

static void unwatches(void *arg)
{
	yield_until(&running, WAITERS);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(usignal_unwatch(SIGUSR1), 0);
}

static void end_of_watches(int proc_nr)
{
	int i;

	running = ended = 0;
	CHECK_IS(usignal_watch(SIGUSR1), 0);
	begin(proc_nr, 0);
	for (i = 0; i < WAITERS; i++)
		make(i, finds_nothing, NULL);
	make(0, unwatches, NULL);
	start_and_finish();
	CHECK_IS(ended, WAITERS);
}

/* Waits for signals of a timer, while the parent waits, too. */
static void times(void)
{
	struct itimerval soon = { .it_value.tv_usec = 500 };
	int i;

	CHECK_IS(usignal_watch(SIGALRM), 0);
	for (i = 0; i < 20; i++) {
		CHECK_IS(setitimer(ITIMER_REAL, &soon, NULL), 0);
		CHECK_IS(usignal_wait(uafter(10 * UTIME_S)), SIGALRM);
	}
	CHECK_IS(kill(getppid(), SIGUSR1), 0);
}

/* A child has signals of its own, and takes none of its parent's. */
static void forks(void)
{
	pid_t pid;
	int status;

	CHECK_IS(usignal_watch(SIGUSR1), 0);
	CHECK_IS(raise(SIGUSR1), 0);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		CHECK_IS(usignal_wait(UNOW), -EAGAIN);
		CHECK_IS(raise(SIGUSR1), 0);
		CHECK_IS(usignal_wait(UNEVER), SIGUSR1);
		CHECK_IS(usignal_wait(UNOW), -EAGAIN);
		times();
		_exit(0);
	}
	CHECK_IS(usignal_wait(UNEVER), SIGUSR1);
	CHECK_IS(usignal_wait(UNEVER), SIGUSR1);	/* from the child */
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_IS(usignal_wait(UNOW), -EAGAIN);
	CHECK_IS(usignal_unwatch(SIGUSR1), 0);
}

int main(int argc, char **argv)
{
	int i, p;

	check_start(argc, argv);
	handlers();
	forks();
	for (p = 1; p <= 2; p++)
		end_of_watches(p);
	for (i = 0; i < KINDS; i++)
		CHECK_IS(usignal_watch(number(i)), 0);
	in_turn();
	for (p = 1; p <= 3; p++) {
		all(p);
		burst(p);
	}
	CHECK_IS(usignal_watch(SIGUSR1), 0);
	for (p = 1; p <= 2; p++)
		asleep(p);
	return 0;
}
