/* SPDX-License-Identifier: MIT */
/* events.h: how a poller asks the system. A part of upoll.c. */

#ifndef UEVENTS_H
#define UEVENTS_H

/*
 * A descriptor that is armed for a mask is reported as soon as it is ready or in
 * error. uevents_arm() looks at once whether it is, so nothing is lost between
 * two of them. It knows a file by its number and by itself: a number that is
 * used again is another file. If UEVENTS_STAY is 1, the descriptor stays armed,
 * and each later change to ready is reported. Otherwise it is reported once.
 *
 *	operation	who may call
 *	uevents_init	the maker. 0 or -errno
 *	uevents_fini	the last user
 *	uevents_arm	any thread, a single one for each descriptor at a time.
 *			UEVENTS_NEW in the mask makes no difference but in
 *			cost. 0; 1: armed, and it is another file than was armed
 *			before, or never was; -EPERM: always ready; -EBADF,
 *			-ENOMEM, -ENOSPC
 *	uevents_disarm	any thread, as uevents_arm(). It may be armed no more
 *	uevents_wait	a single thread at a time. Reports at most most
 *			descriptors by event(arg, fd, mask, generation), with the
 *			generation of uevents_arm(). Sleeps for ns at
 *			most, until a descriptor is ready or v_wake is written.
 *			Returns how many it has reported
 *	uevents_fd	any thread. Returns a descriptor that can be read while
 *			uevents_wait() would not sleep; -ENOTSUP: there is none
 *
 * On Linux this is epoll(7), edge-triggered; on macOS and the BSDs kqueue(2)
 * (kqueue.h); elsewhere, and with UIO_POLL, poll(2), which costs time for each
 * descriptor that is armed (polled.h).
 */

#include "uwait.h"
#include "upoll.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UEVENTS_MOST	256	/* events of a wait */
#define UEVENTS_LAST	4	/* in a mask: no more bytes will come */
#define UEVENTS_OTHER	8	/* alone in a mask: fd is another file now */
#define UEVENTS_URGENT	16	/* armed with UREAD, and reported with it */
#define UEVENTS_NEW	32	/* it is probably not armed */
#define UEVENTS_FD_BITS	24	/* of a number: upoll.c knows no larger */
/* Mask of a generation, which fits into a pointer. */
#define UEVENTS_GENERATIONS	((1ULL << (sizeof(void *) < 8 ? 32 : 39)) - 1)

/* Returns what poll(2) calls a mask of UREAD and UWRITE. */
static inline short uevents_poll(int mask)
{
	return (short)((mask & UREAD ? POLLIN : 0) |
		       (mask & UEVENTS_URGENT ? POLLPRI : 0) |
		       (mask & UWRITE ? POLLOUT : 0));
}

/* Rounds up: a sleep that is too short would be repeated. */
static inline int uevents_ms(utime_ns ns)
{
	if (ns == UNEVER)
		return -1;
	return ns < (utime_ns)INT_MAX * UTIME_MS - UTIME_MS ?
		(int)((ns + UTIME_MS - 1) / UTIME_MS) : INT_MAX;
}

#if defined(__linux__) && !defined(UIO_POLL)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#define UEVENTS_STAY	1
#define UEVENTS_WOKEN	(~0ULL)	/* the eventfd */

struct uevents {
	int v_epoll;
	int v_wake;		/* for wakers, as park.h says */
};

static inline void uevents_close(struct uevents *v)
{
	if (v->v_epoll >= 0)
		close(v->v_epoll);
	if (v->v_wake >= 0)
		close(v->v_wake);
}

static inline void uevents_fini(struct uevents *v)
{
	uevents_close(v);
}

static inline int uevents_fd(const struct uevents *v)
{
	return v->v_epoll;
}

/* The eventfd is never read: each write to it is an edge. */
static inline int uevents_init(struct uevents *v)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET,
				 .data.u64 = UEVENTS_WOKEN };
	int rc;

	v->v_epoll = epoll_create1(EPOLL_CLOEXEC);
	v->v_wake  = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (v->v_epoll >= 0 && v->v_wake >= 0 &&
	    epoll_ctl(v->v_epoll, EPOLL_CTL_ADD, v->v_wake, &e) == 0)
		return 0;
	rc = -errno;
	uevents_close(v);
	return rc;
}

static inline int uevents_arm(struct uevents *v, int fd, int mask,
			      uint64_t generation)
{
	struct epoll_event e = { .events = EPOLLET | EPOLLRDHUP |
				 (mask & UREAD ? EPOLLIN : 0) |
				 (mask & UEVENTS_URGENT ? EPOLLPRI : 0) |
				 (mask & UWRITE ? EPOLLOUT : 0),
				 .data.u64 = generation << UEVENTS_FD_BITS |
					     (uint64_t)fd };

	if (mask & UEVENTS_NEW &&
	    epoll_ctl(v->v_epoll, EPOLL_CTL_ADD, fd, &e) == 0)
		return 1;
	if (epoll_ctl(v->v_epoll, EPOLL_CTL_MOD, fd, &e) == 0)
		return 0;
	if (errno == ENOENT &&
	    epoll_ctl(v->v_epoll, EPOLL_CTL_ADD, fd, &e) == 0)
		return 1;
	return -errno;
}

static inline void uevents_disarm(struct uevents *v, int fd)
{
	(void)epoll_ctl(v->v_epoll, EPOLL_CTL_DEL, fd, NULL);
}

static inline int uevents_pwait(struct uevents *v, struct epoll_event *list,
				int most, utime_ns ns)
{
#if defined(SYS_epoll_pwait2) && __SIZEOF_LONG__ == 8
	static int missing;		/* atomic: the system has none */
	struct timespec t = { ns / UTIME_S, ns % UTIME_S };

	if (ns > 0 && ns != UNEVER &&
	    !__atomic_load_n(&missing, __ATOMIC_RELAXED)) {
		int nr = (int)syscall(SYS_epoll_pwait2, v->v_epoll, list, most,
				      &t, NULL, (size_t)0);

		if (nr >= 0 || (errno != ENOSYS && errno != EPERM))
			return nr;
		__atomic_store_n(&missing, 1, __ATOMIC_RELAXED);
	}
#endif
	return epoll_wait(v->v_epoll, list, most, uevents_ms(ns));
}

static inline int uevents_wait(struct uevents *v, int most, utime_ns ns,
			       void (*event)(void *arg, int fd, int mask,
					     uint64_t generation),
			       void *arg)
{
	struct epoll_event list[UEVENTS_MOST];
	int nr = uevents_pwait(v, list, most, ns);
	int i;

	for (i = 0; i < nr; i++) {
		unsigned e = list[i].events;
		unsigned any = EPOLLHUP | EPOLLERR;
		unsigned in = EPOLLIN | EPOLLPRI | EPOLLRDHUP | any;

		if (list[i].data.u64 == UEVENTS_WOKEN)
			continue;
		event(arg, (int)(list[i].data.u64 &
				 ((1 << UEVENTS_FD_BITS) - 1)),
		      (e & in ? UREAD : 0) |
		      (e & (EPOLLOUT | any) ? UWRITE : 0) |
		      (e & EPOLLPRI ? UEVENTS_URGENT : 0) |
		      (e & (EPOLLRDHUP | any) ? UEVENTS_LAST : 0),
		      list[i].data.u64 >> UEVENTS_FD_BITS);
	}
	return nr;
}

#elif !defined(UIO_POLL) && (defined(UIO_KQUEUE) ||			\
	defined(__APPLE__) || defined(__FreeBSD__) ||			\
	defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__))
#include "kqueue.h"
#else
#include "polled.h"
#endif

#endif /* UEVENTS_H */
