/* SPDX-License-Identifier: MIT */
/* odd_time.h: signals and times in scripts of odd arguments (odd.c). */

/*
 * The handler notes each signal with its code, whether it says that it comes from this
 * process, and how deep handlers are nested. Now and then it raises another.
 */

#ifndef ODD_TIME_H
#define ODD_TIME_H

#include "odd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static const int signals[] = { SIGUSR1, SIGUSR2, SIGCHLD, SIGURG, 34, 35 };
static int depth, raises[2];		/* that handlers are to do */

static int signal_of(void)
{
	return ONE_OF(signals) == 34 ? SIGRTMIN : ONE_OF(signals) == 35 ? SIGRTMIN + 1 :
		signals[below(4)];
}

static void noted(int signo, siginfo_t *info, void *context)
{
	size_t nr = strlen(came);
	int next = raises[0];

	(void)context;
	snprintf(came + nr, sizeof came - nr, ", %d %d %d %d", signo, info->si_code,
		 info->si_pid == getpid(), ++depth);
	raises[0] = raises[1];
	raises[1] = 0;
	if (next != 0)
		raise(next);
	nr = strlen(came);
	snprintf(came + nr, sizeof came - nr, " .");
	depth--;
}

static void handler_set(int signo, int flags, int masked)
{
	struct sigaction a = { .sa_flags = flags };

	a.sa_sigaction = noted;
	sigemptyset(&a.sa_mask);
	if (masked != 0)
		sigaddset(&a.sa_mask, masked);
	said("sigaction", sigaction(signo, &a, NULL));
}

static void signals_begin(void)
{
	int i;

	for (i = 0; i < 4; i++)
		handler_set(signals[i], SA_SIGINFO, 0);
	handler_set(SIGRTMIN, SA_SIGINFO, 0);
	handler_set(SIGRTMIN + 1, SA_SIGINFO, 0);
	handler_set(SIGPIPE, SA_SIGINFO, 0);
	handler_set(SIGALRM, SA_SIGINFO, 0);
}

/* Waits with a mask, for no time or a short one. */
static long wait_masked(const sigset_t *mask)
{
	struct timespec t = { 0, seldom(2) ? 0 : 100000 };
	struct epoll_event e;
	int ep, error;
	long rc;

	switch (below(3)) {
	case 0:
		return ppoll(NULL, 0, &t, mask);
	case 1:
		return pselect(0, NULL, NULL, NULL, &t, mask);
	default:
		ep = epoll_create1(0);
		rc = epoll_pwait(ep, &e, 1, t.tv_nsec > 0, mask);
		error = errno;
		close(ep);
		errno = error;
		return rc;
	}
}

/* Signals are pending, some of them twice, and the mask of a wait lets some in. */
static void call_masked(const sigset_t *mask)
{
	sigset_t all, before, left;
	int i;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < 4; i++) {
		int signo = signal_of();

		(void)!(below(2) ? kill(getpid(), signo) : raise(signo));
	}
	raises[0] = seldom(3) ? signal_of() : 0;
	said("masked", wait_masked(mask));
	if (seldom(2))
		said("masked", wait_masked(mask));
	sigpending(&left);
	sigprocmask(SIG_SETMASK, &before, &all);
	for (i = 1; i <= 64; i++)
		printf("%d", sigismember(&left, i) + 2 * sigismember(&all, i));
	putchar('\n');
	said("unmasked", 0);
}

static void call_signal(void)
{
	static const int flags[] = { SA_NODEFER, SA_RESTART, SA_ONSTACK };
	static const int none[] = { 0, -1, 65, SIGKILL, SIGSTOP, 1000 };
	static const int hows[] = { SIG_BLOCK, SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK, 9 };
	struct sigaction a = { .sa_handler = SIG_IGN }, old = { .sa_flags = 0 };
	struct timespec now = { 0, seldom(6) ? 1000000000 : 0 };
	int signo = signal_of(), i;
	siginfo_t info;
	sigset_t set;
	long rc;

	sigemptyset(&set);
	for (i = 0; i < 3; i++)
		sigaddset(&set, signal_of());
	switch (below(10)) {
	case 0:
		handler_set(signo, SA_SIGINFO | BITS(flags, 2, 0), seldom(2) ? signal_of() : 0);
		break;
	case 1:
		rc = sigaction(seldom(2) ? ONE_OF(none) : signo, seldom(2) ? &a : NULL, &old);
		printf("	%#x\n", (unsigned)old.sa_flags & 0xd0000007);
		said("sigaction", rc);
		break;
	case 2:
		said("sigaction", sigaction(ONE_OF(none), &a, NULL));
		break;
	case 3:
	case 4:
		rc = sigprocmask(ONE_OF(hows), seldom(8) ? NULL : &set, NULL);
		said("sigprocmask", rc);
		break;
	case 5:
		memset(&info, 0, sizeof info);
		rc = sigtimedwait(&set, &info, &now);
		if (rc > 0)
			printf("	%d %d %d\n", info.si_signo, info.si_code,
			       info.si_pid == getpid());
		said("sigtimedwait", rc);
		break;
	case 6:
		said("kill", kill(getpid(), seldom(4) ? (int)below(2) * 65 : signo));
		break;
	case 7:
		call_masked(&set);
		break;
	default:
		raises[0] = below(2) ? signo : 0;
		raises[1] = below(2) ? signal_of() : 0;
		said("raise", raise(seldom(12) ? 65 : signal_of()));
	}
}

static void call_timer(void)
{
	static const struct timespec times[] = { { 0, 0 }, { 0, 1 }, { 0, 1 }, { 1000000, 0 },
						 { 0, 1000000000 }, { -1, 0 } };
	static const int flags[] = { 0, 0, TFD_TIMER_ABSTIME, TFD_TIMER_ABSTIME, 4, -1 };
	struct itimerspec by = { .it_interval = { seldom(4) ? 1000000 : 0, 0 },
		.it_value = ONE_OF(times) }, old;
	int fd = any(), with = ONE_OF(flags);
	long rc;

	/* How long the machine is up is not compared. */
	if (by.it_value.tv_sec == 1000000)
		with = 0;
	if (below(3) == 0) {
		memset(&old, 0, sizeof old);
		rc = timerfd_gettime(fd, data_odd(&old));
		printf("	%d %d\n", (int)(old.it_value.tv_sec > 0),
		       (int)old.it_interval.tv_sec);
		said("timerfd_gettime", rc);
		return;
	}
	printf("	%d %#x %ld %ld\n", fd, (unsigned)with, (long)by.it_value.tv_sec,
	       by.it_value.tv_nsec);
	said("timerfd_settime", timerfd_settime(fd, with, data_odd(&by), NULL));
}

static void call_clock(void)
{
	static const struct timespec times[] = { { 0, 0 }, { 0, 1 }, { 0, 1000000000 }, { 0, -1 },
						 { -1, 0 } };
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME, 99 };
	struct itimerval by = { { 0, 0 }, { 100, seldom(3) ? 1000000 : 0 } };
	struct itimerval old = { { 0, 0 }, { 0, 0 } };
	struct timespec t = ONE_OF(times);
	char random[300];
	long rc;

	switch (below(7)) {
	case 0:
		said("nanosleep", nanosleep(data_odd(&t), NULL));
		break;
	case 1:
		rc = clock_nanosleep(ONE_OF(clocks), below(2) ? TIMER_ABSTIME : 0, &t, NULL);
		said("clock_nanosleep", rc);
		break;
	case 2:
		rc = clock_gettime(ONE_OF(clocks), &t);
		said("clock_gettime", rc);
		break;
	case 3:
		said("setitimer", setitimer(seldom(2) ? 7 : ITIMER_REAL, &by, &old));
		break;
	case 4:
		said("getitimer", getitimer(seldom(2) ? 7 : ITIMER_REAL, &old));
		printf("	%d\n", old.it_value.tv_sec > 50);
		break;
	case 5:
		said("getrandom", getrandom(data_odd(random), below(300),
					    seldom(3) ? 0x100 : 0));
		break;
	default:
		said("getentropy", getentropy(random, below(2) ? 300 : 200));
	}
}

static void call_time(void)
{
	int i;

	switch (below(4)) {
	case 0:
		call_timer();
		break;
	case 1:
		call_clock();
		break;
	default:
		for (i = 0; i < 5; i++)
			call_signal();
	}
}

#endif /* ODD_TIME_H */
