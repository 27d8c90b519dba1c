/* SPDX-License-Identifier: MIT */
/* usignal.c: signals, for threads that may wait. */

/*
 *	handler, anywhere		waiter
 *
 *	H1 add 1 to the count		W1 take 1 from a count that is not 0.
 *	   of the signal		   If it was found, go to W4
 *	H2 write to the bell		W2 nothing is watched? go to W4
 *					W3 read the bell, which may wait; W1
 *					W4 if another waiter has something to
 *					   find: write to the bell
 *
 * The bell only says "look". After H2 there is something in the bell until some
 * waiter reads it, and this waiter then finds the count, or finds that another
 * has taken it. A waiter that reads the bell may have read for several signals,
 * or for several waiters, so it rings again if there is more: W4. So nothing is
 * lost if the bell is full, and a bell without cause only costs a look.
 *
 * INVARIANTS
 *
 * G1. While a count of a watched signal is not 0, the bell has something to
 *     read, or a handler is before H2, or a waiter is between W3 and W4.
 * G2. The handler uses the counts and the bell only, both atomic. All else is
 *     under lock, which no handler takes.
 *
 * REJECTED: signalfd(), since all native threads, also those of libraries,
 * would have to block the signal. Wakes by the handler itself: a list of
 * waiters needs a lock. Calls of the earlier handler: after them nothing is
 * known of the process, and it may jump.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "usignal.h"
#include "lock.h"
#include "park.h"
#include "ufork.h"
#include "uio.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define MOST		(NSIG - 1)

/* What is kept of a signal. */
struct watch {
	unsigned         sg_came;	/* signals that were not taken (atomic) */
	int              sg_watches;	/* (atomic) */
	struct sigaction sg_before;
};

enum { READ, WRITE };

static struct ulock lock;
static struct watch watch[MOST + 1];	/* by number */
static int          watches;		/* of all signals (atomic) */
static int          last;		/* taken (atomic) */
static int          bell[] = { -1, -1 };	/* (atomic) */

static int load(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static int add(int *at, int nr)
{
	return __atomic_add_fetch(at, nr, __ATOMIC_SEQ_CST);
}

/* Calls no hook (uwrap.c), which would end a thread that was cancelled. */
static NOINLINE void ring(void)
{
	upark_write(load(&bell[WRITE]));
}

static void handler(int signo)
{
	int saved = errno;

	__atomic_add_fetch(&watch[signo].sg_came, 1, __ATOMIC_SEQ_CST); /* H1 */
	ring();							/* H2 */
	errno = saved;
}

/* In the child of fork(): the bell belongs to the parent. */
static void in_child(void)
{
	int i;

	if (bell[READ] >= 0)
		upark_bell_close(bell);
	bell[READ] = bell[WRITE] = -1;
	for (i = 0; i <= MOST; i++)
		watch[i].sg_came = 0;
}

static struct ufork at_fork = {
	.f_rank = UFORK_SIGNALS, .f_lock = &lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

/* Makes the bell, if there is none. 0 or -errno. Caller holds lock. */
static NOINLINE int bell_make(void)
{
	int fd[2];
	int rc;

	if (load(&bell[READ]) >= 0)
		return 0;
	if (ufork_watch() != 0)
		return -ENOMEM;
	rc = upark_bell(fd);
	if (rc != 0)
		return rc;
	__atomic_store_n(&bell[WRITE], fd[WRITE], __ATOMIC_RELEASE);
	__atomic_store_n(&bell[READ], fd[READ], __ATOMIC_RELEASE);
	return 0;
}

/* Returns whether a handler that returns would end up in the error again. */
static bool is_error(int signo)
{
	switch (signo) {
	case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL:
	case SIGTRAP: case SIGSYS: case SIGABRT:
		return true;
	}
	return false;
}

/* Sets the handler. 0 or -errno. Caller holds lock. */
static NOINLINE int watch_begin(int signo)
{
	struct watch *g = &watch[signo];
	struct sigaction ours = { .sa_handler = handler,
				  .sa_flags = SA_RESTART | SA_ONSTACK };

	__atomic_store_n(&g->sg_came, 0, __ATOMIC_SEQ_CST);
	return sigaction(signo, &ours, &g->sg_before) == 0 ? 0 : -errno;
}

/* Restores the handler, unless the program has set another. As above. */
static void watch_end(int signo)
{
	struct sigaction now;

	if (sigaction(signo, NULL, &now) == 0 && now.sa_handler == handler)
		(void)sigaction(signo, &watch[signo].sg_before, NULL);
}

int usignal_watch(int signo)
{
	int rc;

	if (signo < 1 || signo > MOST || is_error(signo))
		return -EINVAL;
	ulock_get(&lock);
	rc = bell_make();
	if (rc == 0 && watch[signo].sg_watches == 0)
		rc = watch_begin(signo);
	if (rc == 0) {
		add(&watch[signo].sg_watches, 1);
		add(&watches, 1);
	}
	ulock_put(&lock);
	return rc;
}

int usignal_unwatch(int signo)
{
	int rc = -EINVAL;

	if (signo < 1 || signo > MOST)
		return rc;
	ulock_get(&lock);
	if (watch[signo].sg_watches > 0) {
		rc = 0;
		if (add(&watch[signo].sg_watches, -1) == 0)
			watch_end(signo);
		if (add(&watches, -1) == 0)
			ring();		/* for those who wait */
	}
	ulock_put(&lock);
	return rc;
}

static bool came(int signo)
{
	return __atomic_load_n(&watch[signo].sg_came, __ATOMIC_SEQ_CST) > 0 &&
		load(&watch[signo].sg_watches) > 0;
}

/* Returns the first signal after `after` that came; 0: there is none. */
static int first_after(int after)
{
	int i, signo;

	for (i = 0; i < MOST; i++) {
		signo = (after + i) % MOST + 1;
		if (came(signo))
			return signo;
	}
	return 0;
}

/* Takes a signal that came, in turn. 0: there is none. */
static int take(void)
{
	int signo;
	unsigned *at, was;

	while ((signo = first_after(load(&last))) > 0) {
		at  = &watch[signo].sg_came;
		was = __atomic_load_n(at, __ATOMIC_RELAXED);
		if (was > 0 && __atomic_compare_exchange_n(at, &was, was - 1,
				false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			break;
	}
	if (signo > 0)
		__atomic_store_n(&last, signo, __ATOMIC_RELAXED);
	return signo;
}

/* Reads the bell, as soon as it can be read. 0, or an error as of u_read(). */
static int bell_wait(utime_ns until)
{
	char bytes[16];
	ssize_t rc = 0;

	if (load(&bell[READ]) < 0) {
		ulock_get(&lock);
		rc = bell_make();		/* in the child of fork() */
		ulock_put(&lock);
	}
	if (rc == 0)
		rc = u_read(load(&bell[READ]), bytes, sizeof bytes, until);
	return rc < 0 ? (int)rc : 0;
}

int usignal_wait(utime_ns until)
{
	int rc, signo;

	if (until < 0)
		return -EINVAL;
	while ((signo = take()) == 0) {				/* W1 */
		if (load(&watches) == 0) {			/* W2 */
			ring();
			return -EINVAL;
		}
		rc = bell_wait(until);				/* W3 */
		if (rc != 0)
			return rc;
	}
	if (first_after(signo) != 0)
		ring();						/* W4 */
	return signo;
}
