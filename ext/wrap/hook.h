/* SPDX-License-Identifier: MIT */
/* hook.h: who calls, results and waits of a hook. A part of uwrap.c. */

#ifndef UWRAP_HOOK_H
#define UWRAP_HOOK_H

#include "real.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>

#define READS		64		/* calls before a thread gives way */
#define VAIN		8		/* tries in vain before it naps */
#define NAP		UTIME_MS

static const struct ustack *forked;	/* the thread that has forked us */

/*
 * Returns whether the caller is a thread that can wait. In the child of fork()
 * the thread that has forked is none: FORK in rr.h.
 */
static bool ours(void)
{
	const struct ustack *u;

	if (!LINKED)
		return false;
	u = ustack_self();
	return u != NULL && u != forked && u->u_sched->s_wait != NULL;
}

/*
 * With the pthread face, hooks are cancellation points (pface.h): these do not
 * return if the caller was cancelled. NULL: the face is not linked.
 */
void pface_point(void) __attribute__((weak));
void pface_pointed(int rc) __attribute__((weak));

/*
 * Begins a hook, whose last call is finish(). False: the caller gets the real
 * function.
 */
static bool begin(void)
{
	if (!ours())
		return false;
	if (pface_point != NULL)
		pface_point();
	return true;
}

/* Results are -errno inside: uwrap H3. */

static NOINLINE ssize_t result(ssize_t rc)
{
	return rc >= 0 ? rc : -errno;
}

static NOINLINE int errno_now(void)
{
	return errno;
}

/* Returns what libc would: rc, or -1 and errno, which success leaves as kept. */
static NOINLINE ssize_t answer(ssize_t rc, int kept)
{
	errno = rc < 0 ? (int)-rc : kept;
	return rc < 0 ? -1 : rc;
}

/* Ends a hook that begin() has begun. */
static void end(ssize_t rc)
{
	if (pface_pointed != NULL)
		pface_pointed(rc < 0 ? (int)rc : 0);
}

static ssize_t finish(ssize_t rc, int kept)
{
	end(rc);
	return answer(rc, kept);
}

static __thread unsigned in_a_row;	/* reads and accepts without a wait */

static NOINLINE bool is_due(void)
{
	return ++in_a_row >= READS;
}

static NOINLINE void has_waited(void)
{
	in_a_row = 0;
}

/* Lets others run now and then: uwrap H1. */
static void fair(void)
{
	if (is_due()) {
		has_waited();
		(void)uwait_give_way();
	}
}

/* Waits. */

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

/* Returns the deadline of a call that begins now: SO_RCVTIMEO, SO_SNDTIMEO. */
static utime_ns deadline(int fd, int option)
{
	struct timeval t = { 0, 0 };
	socklen_t size = sizeof t;

	if (getsockopt(fd, SOL_SOCKET, option, &t, &size) != 0 ||
	    (t.tv_sec == 0 && t.tv_usec == 0))
		return UNEVER;
	return t.tv_sec < UNEVER / UTIME_S - 1 ?
		uafter(t.tv_sec * UTIME_S + t.tv_usec * UTIME_US) : UNEVER;
}

/*
 * Returns whether the reading side of a socket is shut. Then datagram sockets,
 * and listeners of AF_UNIX, stay ready, and yet say EAGAIN to a try.
 */
static bool is_shut(int fd)
{
	struct pollfd f = { .fd = fd, .events = POLLRDHUP };

	return REAL(poll)(&f, 1, 0) > 0 && f.revents & POLLRDHUP;
}

/*
 * Waits for another try. 0 or -errno; -EAGAIN: until has passed. Tries in vain
 * make it nap: some descriptors are ready, but not for this caller, such as a
 * datagram socket whose receiver is full.
 */
static int wait_for(int fd, int what, utime_ns until, unsigned vain)
{
	utime_ns nap;
	int rc = 0;

	has_waited();
	if (vain > VAIN) {
		nap = uafter(NAP);
		rc  = u_sleep(nap < until ? nap : until);
	}
	upoll_share(fd);
	if (rc == 0)
		rc = u_wait_fd(fd, what, until);
	return rc == -ETIMEDOUT ? -EAGAIN : rc;
}

#endif /* UWRAP_HOOK_H */
