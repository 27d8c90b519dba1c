/* SPDX-License-Identifier: MIT */
/* accept.h: tries of accept() that do not block. A part of uwrap.c. */

#ifndef UWRAP_ACCEPT_H
#define UWRAP_ACCEPT_H

/*
 * A1. O_NONBLOCK that a hook has set on a listener is never read by another
 *     hook: both hold accept_lock.
 *
 * REJECTED: accept() by a native thread. A thread that waits for connections
 * would keep a native thread, and could not be cancelled.
 */

#include "hook.h"

#include <pthread.h>

/* Protects O_NONBLOCK of listeners: A1. Never held over a wait. */
static pthread_mutex_t accept_lock = PTHREAD_MUTEX_INITIALIZER;

static int call_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return (int)result(flags == 0 ? REAL(accept)(fd, addr, len) :
			   REAL(accept4)(fd, addr, len, flags));
}

/* Tries without blocking. *blocks: -EAGAIN means that libc would block. */
static NOINLINE int try_accept(int fd, struct sockaddr *addr, socklen_t *len,
			       int flags, bool *blocks)
{
	int rc = -EAGAIN, was;

	pthread_mutex_lock(&accept_lock);			/* A1 */
	was = fcntl(fd, F_GETFL);
	*blocks = was >= 0 && !(was & O_NONBLOCK) &&
		fcntl(fd, F_SETFL, was | O_NONBLOCK) == 0;
	if (*blocks) {
		rc = call_accept(fd, addr, len, flags);
		(void)fcntl(fd, F_SETFL, was);
	}
	pthread_mutex_unlock(&accept_lock);
	return *blocks ? rc : call_accept(fd, addr, len, flags);
}

static int wait_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	utime_ns until = deadline(fd, SO_RCVTIMEO);
	unsigned vain = 0;
	bool blocks, shut;
	int rc;

	do {
		rc = wait_for(fd, UREAD, until, vain++);
		if (rc != 0)
			return rc;
		shut = is_shut(fd);
		rc = try_accept(fd, addr, len, flags, &blocks);
	} while (rc == -EAGAIN && blocks && !shut);
	return rc == -EAGAIN && blocks ? -EINVAL : rc;
}

#endif /* UWRAP_ACCEPT_H */
