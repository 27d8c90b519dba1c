/* SPDX-License-Identifier: MIT */
/* upoll.h: where threads wait for descriptors. For the modules of this folder. */

#ifndef UPOLL_H
#define UPOLL_H

#include "uio.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A wait that has begun: the caller, a thread, calls uwait_for(b_wait, b_until),
 * once. Or b_wait is NULL and b_rc tells why: -errno, or 1: a descriptor is always
 * ready.
 */
struct upoll_begun {
	struct uwait *b_wait;
	int           b_rc;
	utime_ns      b_until;
};

/*
 * How a wait begins: 0; UPOLL_FIRST: the caller has not tried before. UPOLL_AGAIN is
 * the result of a wait that the second look has ended (owned.h), as it had begun
 * without arming or trying: the caller tries, and then waits with UPOLL_AGAIN as how,
 * which is sure to arm.
 */
enum { UPOLL_AGAIN = 2, UPOLL_FIRST };

/* Until a wait that did not arm is ended, at the latest; in ns. Tests change it. */
extern HIDDEN utime_ns upoll_second;

/* Begins to wait until fd may be ready: UREAD, UWRITE or both. Threads only. */
struct upoll_begun upoll_begin(int fd, int what, utime_ns until, int how);

/* Begins to wait until one of nr descriptors may be ready. Threads only. */
struct upoll_begun upoll_begin_any(const struct pollfd *fds, nfds_t nr);

/* Waits until fd may be ready, as u_wait_fd(). Native threads only. */
int upoll_natively(int fd, int what, utime_ns until);

/*
 * Waits until fd may be ready, as u_wait_fd(). But 1: fd is always ready; UPOLL_AGAIN.
 * And with UNOW a thread gets -EAGAIN without a look. The frame of the caller need
 * not stay: the last call is a wait.
 */
static inline int upoll_wait(int fd, int what, utime_ns until, int how)
{
	struct upoll_begun b;

	if (ustack_self() == NULL)
		return upoll_natively(fd, what, until);
	if (until == UNOW)
		return -EAGAIN;
	b = upoll_begin(fd, what, until, how);
	return b.b_wait != NULL ? uwait_for(b.b_wait, b.b_until) : b.b_rc;
}

/* Returns whether an event may have told that no more bytes will come. */
bool upoll_is_last(int fd);

/*
 * Returns rc, the result of a call of POSIX, or -errno. In functions that do not
 * wait: errno belongs to the native thread.
 */
static inline ssize_t upoll_result(ssize_t rc)
{
	return rc >= 0 ? rc : -errno;
}

/* Closes fd, and ends all waits for it with -EBADF. As u_close(). */
int upoll_close(int fd);

/*
 * Returns how often the number was closed so far. If that has changed, a call in
 * between may have met another file.
 */
unsigned upoll_closes(int fd);

/* As u_trust(). */
int upoll_trust(int fd);

/*
 * Notes that fd was just made by the library. If it is a stream, it is owned: see
 * owned.h. Any thread.
 */
void upoll_made(int fd);

/* Notes that others read fd, and may close it: then it is owned no more. */
void upoll_share(int fd);

/* Returns whether a thread that reads fd waits before it tries. */
bool upoll_waits_first(int fd, utime_ns until);

/* A read of a stream that is owned; r_entry is NULL for others. */
struct upoll_read {
	struct entry *r_entry;
	unsigned      r_events;
	bool          r_unix;	/* of AF_UNIX: the flags of the message count */
};

/* Called before an attempt to read, without a wait in between. */
struct upoll_read upoll_read_begin(int fd);

/* Notes that the attempt has left nothing. r_entry is not NULL. */
void upoll_read_empty(struct upoll_read r);

/* Ends upoll_read_begin(): rc, of an attempt to read size bytes. */
static inline void upoll_read_end(struct upoll_read r, ssize_t rc, size_t size)
{
	if (r.r_entry != NULL && (rc == -EAGAIN ||
				  (rc > 0 && (size_t)rc < size)))
		upoll_read_empty(r);
}

/*
 * For uloop.c: finds or makes the poller of b, which does not run, as a source. Returns
 * a descriptor that can be read while the poller has events, or a waker has come;
 * -errno; -ENOTSUP: there is none. Native threads only.
 */
int upoll_source(struct uwait_base *b, struct uwait_source **o);

/* Returns when o, such a source, wants to be looked at, or UNEVER. */
utime_ns upoll_again(const struct uwait_source *o);

/*
 * Called first by each call. 0; -ECANCELED, -EINVAL. Gives way now and then, if
 * threads call and call without a wait.
 */
int upoll_enter(utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UPOLL_H */
