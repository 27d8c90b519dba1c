/* SPDX-License-Identifier: MIT */
/* real.h: the names of the hooks, and the functions of libc. A part of uwrap.c. */

#ifndef UWRAP_REAL_H
#define UWRAP_REAL_H

/*
 * TWO FORMS
 *
 * With UWRAP_LINK the hooks are called __wrap_poll and so on, for the linker's
 * option --wrap. Otherwise they have the names of libc, for a program or a
 * shared object that comes before libc. With UWRAP_WEAK a program without the
 * library can be loaded, too: its calls are libc's.
 *
 * R1. The real function is known before main(), since dlsym() is not for signal
 *     handlers. A call before that looks it up itself.
 *
 * REJECTED: system calls instead of dlsym(). They are no cancellation points for
 * native threads.
 */

#include "ufile.h"
#include "uio.h"
#include "upoll.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#if defined(__linux__)
#include <sys/epoll.h>
#endif
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* All hooks: result, name, arguments. wrap.flags has the same names. */
#define PLAIN(X)							\
	X(ssize_t, read, (int fd, void *buf, size_t size))		\
	X(ssize_t, readv, (int fd, const struct iovec *v, int nr))	\
	X(ssize_t, recv, (int fd, void *buf, size_t size, int flags))	\
	X(ssize_t, recvfrom, (int fd, void *buf, size_t size, int flags, \
			      struct sockaddr *from, socklen_t *len))	\
	X(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags))	\
	X(ssize_t, write, (int fd, const void *buf, size_t size))	\
	X(ssize_t, writev, (int fd, const struct iovec *v, int nr))	\
	X(ssize_t, send, (int fd, const void *buf, size_t size, int flags)) \
	X(ssize_t, sendto, (int fd, const void *buf, size_t size, int flags, \
			    const struct sockaddr *to, socklen_t len))	\
	X(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags)) \
	X(int, accept, (int fd, struct sockaddr *addr, socklen_t *len))	\
	X(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len,	\
			 int flags))					\
	X(int, connect, (int fd, const struct sockaddr *addr, socklen_t len)) \
	X(int, poll, (struct pollfd *fds, nfds_t nr, int ms))		\
	X(int, ppoll, (struct pollfd *fds, nfds_t nr,			\
		       const struct timespec *t, const sigset_t *mask))	\
	X(int, select, (int nr, fd_set *r, fd_set *w, fd_set *e,	\
			struct timeval *t))				\
	X(int, pselect, (int nr, fd_set *r, fd_set *w, fd_set *e,	\
			 const struct timespec *t, const sigset_t *mask)) \
	X(unsigned, sleep, (unsigned seconds))				\
	X(int, usleep, (useconds_t us))					\
	X(int, nanosleep, (const struct timespec *t, struct timespec *left)) \
	X(int, clock_nanosleep, (clockid_t clock, int flags,		\
				 const struct timespec *t,		\
				 struct timespec *left))		\
	X(int, getaddrinfo, (const char *host, const char *service,	\
			     const struct addrinfo *hints,		\
			     struct addrinfo **list))

/* epoll: Linux's. glibc has epoll_pwait2() since 2.35. */
#if defined(__linux__)
#define EPOLL(X)							\
	X(int, epoll_wait, (int epoll, struct epoll_event *list, int nr, \
			    int ms))					\
	X(int, epoll_pwait, (int epoll, struct epoll_event *list, int nr, \
			     int ms, const sigset_t *mask))
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#define HAS_EPOLL2	1
#define EPOLL2(X)							\
	X(int, epoll_pwait2, (int epoll, struct epoll_event *list, int nr, \
			      const struct timespec *t, const sigset_t *mask))
#else
#define HAS_EPOLL2	0
#define EPOLL2(X)
#endif
#else
#define EPOLL(X)
#define EPOLL2(X)
#endif
#define ALL(X)		PLAIN(X) EPOLL(X) EPOLL2(X) CHECKED(X)

/* What headers of glibc make of some of them, with _FORTIFY_SOURCE. */
#if defined(__GLIBC__)
#define CHECKED(X)							\
	X(ssize_t, __read_chk, (int fd, void *buf, size_t size, size_t room)) \
	X(ssize_t, __recv_chk, (int fd, void *buf, size_t size, size_t room, \
				int flags))				\
	X(ssize_t, __recvfrom_chk, (int fd, void *buf, size_t size,	\
				    size_t room, int flags,		\
				    struct sockaddr *from, socklen_t *len)) \
	X(int, __poll_chk, (struct pollfd *fds, nfds_t nr, int ms,	\
			    size_t room))				\
	X(int, __ppoll_chk, (struct pollfd *fds, nfds_t nr,		\
			     const struct timespec *t,			\
			     const sigset_t *mask, size_t room))
#else
#define CHECKED(X)
#endif

#if defined(UWRAP_LINK)
#define DECLARE(type, name, args)					\
	type real_##name args __asm__("__real_" #name);			\
	type hook_##name args __asm__("__wrap_" #name);
#define REAL(name)	real_##name
ALL(DECLARE)

#else
#define DECLARE(type, name, args)					\
	__attribute__((visibility("default")))				\
	type hook_##name args __asm__(#name);
#define REAL(name)	((__typeof__(&hook_##name))next(NEXT_##name))
ALL(DECLARE)

#define NEXT(type, name, args)	NEXT_##name,
#define NAME(type, name, args)	#name,
enum { ALL(NEXT) NEXT_ALL };

/* Returns the function of libc with the same name; NULL: it has none. */
static void *look(int nr)
{
	static const char *const names[] = { ALL(NAME) };
	static void *known[NEXT_ALL];		/* atomic */
	void *f = __atomic_load_n(&known[nr], __ATOMIC_RELAXED);

	if (f == NULL) {
		f = dlsym(RTLD_NEXT, names[nr]);
		__atomic_store_n(&known[nr], f, __ATOMIC_RELAXED);
	}
	return f;
}

static void *next(int nr)
{
	void *f = look(nr);

	if (f == NULL)
		usched_fail("wrap: a static program needs uwrap_link.o and "
			    "wrap.flags");
	return f;
}

static __attribute__((constructor)) void next_all(void)		/* R1 */
{
	int i;

	for (i = 0; i < NEXT_ALL; i++)
		(void)look(i);
}
#endif

/* It looks into no struct, and so serves each kind of library. */
#define WEAK(name)	WEAK_NAMED(name)
#define WEAK_NAMED(name) __asm__(".weak " #name);
WEAK(USCHED_KIND_HARD)

#if defined(UWRAP_WEAK)
#pragma weak u_wait_fd
#pragma weak upoll_share
#pragma weak u_connect
#pragma weak u_poll
#pragma weak u_sleep
#pragma weak u_getaddrinfo
#pragma weak uafter
#pragma weak unow
#pragma weak uwait_give_way
/* Nor does it need a library. */
WEAK(USCHED_KIND_SINGLE)
#if defined(__x86_64__) && defined(__LP64__)
WEAK(usched_current)
#else
#pragma weak ustack_self
#endif
#define LINKED		(u_wait_fd != NULL)
#else
#define LINKED		true
#endif

#endif /* UWRAP_REAL_H */
