/* SPDX-License-Identifier: MIT */
/* uchild.c: child processes, for threads that may wait. */

/*
 * A pidfd is readable once its process has ended. waitpid() with WNOHANG then
 * takes the status, so nothing is lost if the wait ends before. If the system
 * gives no pidfd, the thread sleeps between two looks.
 *
 * P1. Only waitpid() of this child takes a status, and only while the caller
 *     runs.
 * P2. The pidfd is opened before a look that finds the child. So it does not
 *     belong to a stranger that got the number after another had waited for the
 *     child.
 *
 * REJECTED: SIGCHLD, which belongs to the program, and of which several are
 * merged, so each waiter would have to look at each. waitpid() on a native
 * thread, which cannot be ended at the deadline. waitpid(-1) takes the children
 * of others.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uchild.h"
#include "uio.h"
#include "upoll.h"
#include "compiler.h"

#include <errno.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

UPREEMPT_NEVER;

#define NAP_FIRST	(UTIME_MS / 2)
#define NAP_MOST	(16 * UTIME_MS)

/* Takes the status of a child. Returns pid; 0: it has not ended; -ECHILD. */
static NOINLINE pid_t reap(pid_t pid, int *status)
{
	int taken;
	pid_t rc;

	do
		rc = waitpid(pid, &taken, WNOHANG);
	while (rc < 0 && errno == EINTR);
	if (rc > 0 && status != NULL)
		*status = taken;
	return rc >= 0 ? rc : -errno;
}

/* Returns a descriptor, or -1. */
static NOINLINE int pidfd(pid_t pid)
{
#if defined(SYS_pidfd_open)
	return (int)syscall(SYS_pidfd_open, pid, 0);
#else
	(void)pid;
	return -1;
#endif
}

static pid_t wait_by_fd(int fd, pid_t pid, int *status, utime_ns until)
{
	pid_t rc;

	while ((rc = reap(pid, status)) == 0) {			/* P2 */
		rc = u_wait_fd(fd, UREAD, until);
		if (rc != 0)
			break;
	}
	(void)u_close(fd);
	return rc;
}

static pid_t wait_by_naps(pid_t pid, int *status, utime_ns until)
{
	utime_ns nap = NAP_FIRST;
	pid_t rc;

	while ((rc = reap(pid, status)) == 0) {
		utime_ns now = unow();

		if (now >= until)
			return -ETIMEDOUT;
		rc = u_sleep(until - now < nap ? until : now + nap);
		if (rc != 0)
			break;
		nap = nap < NAP_MOST ? 2 * nap : NAP_MOST;
	}
	return rc;
}

pid_t u_waitpid(pid_t pid, int *status, utime_ns until)
{
	pid_t rc;
	int fd;

	if (pid <= 0)
		return -EINVAL;
	rc = upoll_enter(until);
	if (rc == 0)
		rc = reap(pid, status);
	if (rc != 0)
		return rc;
	if (until == UNOW)
		return -EAGAIN;
	fd = pidfd(pid);
	return fd >= 0 ? wait_by_fd(fd, pid, status, until) :
		wait_by_naps(pid, status, until);
}
