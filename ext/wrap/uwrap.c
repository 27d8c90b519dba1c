/* SPDX-License-Identifier: MIT */
/* uwrap.c: calls of libc that block, for threads that may wait. */

/*
 * OVERVIEW
 *
 * Each function here stands before a function of libc: the real function. It
 * asks who calls. A native thread, and a thread whose dispatcher cannot wait,
 * get the real function, and nothing else.
 *
 *	recv()  ---->  hook_recv()  ---->  the real recv(), MSG_DONTWAIT
 *	                   |                  ^
 *	                   | EAGAIN           | again
 *	                   v                  |
 *	            is fd blocking?  --->  u_wait_fd()
 *
 * For our threads a hook tries without blocking. If that would block, and the
 * descriptor is blocking, the thread waits, and tries again. So a non-blocking
 * descriptor costs what it costs without hooks: the first try is the call that
 * the caller wanted. A sleep is u_sleep(), poll() is u_poll(), and a name is
 * looked up by a native thread. An epoll is a descriptor, too, which can be read while it
 * has events: epoll_wait() without a time is the try.
 *
 * Nothing is kept of a descriptor between two calls. So there is no hook for
 * close(), dup(), fcntl() or epoll_ctl(), and others may do with the descriptor what
 * they like. A descriptor that waits here is owned no more (owned.h): libraries
 * close by close(), and what is known of the file would stay with the number.
 *
 * PARTS
 *
 *	real.h		the names of the hooks, and the functions of libc
 *	hook.h		who calls, results, errno, waits
 *	transfer.h	reads and writes
 *	accept.h	tries of accept()
 *	sets.h		many descriptors
 *
 * HOW A TRY DOES NOT BLOCK
 *
 *	sockets			MSG_DONTWAIT
 *	regular files, folders	the real call: they are always ready
 *	pipes and others	RWF_NOWAIT. If the system has none for the file:
 *				poll(), and then the real call
 *	accept()		O_NONBLOCK around each try, under accept_lock
 *	connect()		O_NONBLOCK during the call (u_connect())
 *	epoll_wait()		a time-out of 0
 *
 * INVARIANTS
 *
 * H1. A try that succeeds calls no function that waits. So a signal handler
 *     may call write() or send() if the descriptor has room. Reads and accepts
 *     give way after READS in a row.
 * H2. The library itself calls poll() and epoll_wait() with time-out 0, sockets with
 *     MSG_DONTWAIT, connect() and accept() on non-blocking descriptors, and
 *     all else by native threads. For these a hook makes the real call, so
 *     hooks never call themselves without an end. With --wrap a static libc
 *     calls hooks, too: accept4() of musl calls accept(), if it has no flags.
 *     So a real call is that which libc would come to in the end.
 * H3. No function that waits reads or writes errno, since compilers keep its
 *     address, and a thread of ws may go on in another native thread.
 *
 * COST
 *
 * A message by read() and write() with hooks takes longer than by u_read() and
 * u_write() (README.md). A hook has no hints, so it tries in vain before each wait,
 * and it asks for the flags and the time-out. With the hooks linked, u_read() and
 * u_write() take what they take without.
 *
 * REJECTED
 *
 * Making descriptors non-blocking when they appear, as many do: then O_NONBLOCK,
 * time-outs, dup() and close() have to be kept and faked.
 */

#undef _FORTIFY_SOURCE		/* the hooks have the plain names */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* RTLD_NEXT, accept4(), preadv2() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "accept.h"
#include "sets.h"
#include "transfer.h"
#include "ufork.h"

UPREEMPT_NEVER;

/* For usched_is_wrapped(). */
extern const char uwrap_linked[];
const char uwrap_linked[1] = "";

static void in_child(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	accept_lock = unlocked;
	forked = LINKED ? ustack_self() : NULL;
}

static struct ufork at_fork = { .f_rank = UFORK_ACCEPT, .f_child = in_child };
UFORK(at_fork)

/* Reads and writes. */

/* With MSG_DONTWAIT the real call is the only try: H2, and non-blocking code. */
static bool may_wait(int flags)
{
	return !(flags & MSG_DONTWAIT) && begin();
}

/* An iovec and a struct msghdr for a buffer. */
#define MESSAGE(m, buf, size)						\
	struct iovec m##_v = { (void *)(uintptr_t)(buf), size };		\
	struct msghdr m = { .msg_iov = &m##_v, .msg_iovlen = 1 }

/* A struct msghdr for the arguments of readv() and writev(). */
#define MESSAGE_V(m, v, nr)						\
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)(v),	\
			    .msg_iovlen = (size_t)(nr) }

ssize_t hook_read(int fd, void *buf, size_t size)
{
	MESSAGE(m, buf, size);

	if (size == 0 || !begin())
		return REAL(read)(fd, buf, size);
	return receive(fd, &m, 0, true);
}

ssize_t hook_readv(int fd, const struct iovec *v, int nr)
{
	MESSAGE_V(m, v, nr);

	if (nr < 1 || nr > IOV_MAX || size_of(&m) == 0 || !begin())
		return REAL(readv)(fd, v, nr);
	return receive(fd, &m, 0, true);
}

ssize_t hook_recv(int fd, void *buf, size_t size, int flags)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(recv)(fd, buf, size, flags);
	return receive(fd, &m, flags, false);
}

ssize_t hook_recvfrom(int fd, void *buf, size_t size, int flags,
		      struct sockaddr *from, socklen_t *len)
{
	MESSAGE(m, buf, size);
	ssize_t rc;

	if (!may_wait(flags))
		return REAL(recvfrom)(fd, buf, size, flags, from, len);
	m.msg_name    = from;
	m.msg_namelen = from != NULL ? *len : 0;
	rc = receive(fd, &m, flags, false);
	if (rc >= 0 && from != NULL)
		*len = m.msg_namelen;
	return rc;
}

ssize_t hook_recvmsg(int fd, struct msghdr *m, int flags)
{
	if (!may_wait(flags))
		return REAL(recvmsg)(fd, m, flags);
	return receive(fd, m, flags, false);
}

ssize_t hook_write(int fd, const void *buf, size_t size)
{
	MESSAGE(m, buf, size);

	if (!begin())
		return REAL(write)(fd, buf, size);
	return transmit(fd, &m, 0, true);
}

ssize_t hook_writev(int fd, const struct iovec *v, int nr)
{
	MESSAGE_V(m, v, nr);

	if (nr < 1 || nr > IOV_MAX || size_of(&m) == 0 || !begin())
		return REAL(writev)(fd, v, nr);
	return transmit(fd, &m, 0, true);
}

ssize_t hook_send(int fd, const void *buf, size_t size, int flags)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(send)(fd, buf, size, flags);
	return transmit(fd, &m, flags, false);
}

ssize_t hook_sendto(int fd, const void *buf, size_t size, int flags,
		    const struct sockaddr *to, socklen_t len)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(sendto)(fd, buf, size, flags, to, len);
	m.msg_name    = (void *)(uintptr_t)to;
	m.msg_namelen = to != NULL ? len : 0;
	return transmit(fd, &m, flags, false);
}

ssize_t hook_sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (!may_wait(flags))
		return REAL(sendmsg)(fd, m, flags);
	return transmit(fd, m, flags, false);
}

/* Connections. */

int hook_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int kept = errno_now();
	bool blocks;
	int rc;

	if (!begin())
		return REAL(accept4)(fd, addr, len, flags);
	rc = try_accept(fd, addr, len, flags, &blocks);
	if (rc == -EAGAIN && blocks)
		rc = wait_accept(fd, addr, len, flags);
	fair();
	return (int)finish(rc, kept);
}

int hook_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return ours() ? hook_accept4(fd, addr, len, 0) :
		REAL(accept)(fd, addr, len);
}

/* A deadline of its own ends connect() as SO_SNDTIMEO does in libc. */
int hook_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int kept = errno_now();
	utime_ns until;
	int rc;

	if (!ours() || is_nonblocking(fd) || !begin())
		return REAL(connect)(fd, addr, len);
	until = deadline(fd, SO_SNDTIMEO);
	rc = u_connect(fd, addr, len, until);
	if (rc == -ETIMEDOUT && unow() >= until)
		rc = addr->sa_family == AF_UNIX ? -EAGAIN : -EINPROGRESS;
	return (int)finish(rc, kept);
}

/* Many descriptors. */

static bool is_valid(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < UTIME_S;
}

/* Returns a length in ns, or UNEVER if it is too long. */
static utime_ns length(time_t s, long ns)
{
	return s < UNEVER / UTIME_S - 1 ? s * UTIME_S + ns : UNEVER;
}

int hook_poll(struct pollfd *fds, nfds_t nr, int ms)
{
	int kept = errno_now();

	if (ms == 0 || !begin())
		return REAL(poll)(fds, nr, ms);
	return (int)finish(poll_until(fds, nr, ms < 0 ? UNEVER :
				      uafter(ms * UTIME_MS)), kept);
}

/* A mask belongs to the native thread: such a call is libc's. */
int hook_ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *t,
	       const sigset_t *mask)
{
	int kept = errno_now();

	if (mask != NULL || (t != NULL && !is_valid(t)) || !begin())
		return REAL(ppoll)(fds, nr, t, mask);
	return (int)finish(poll_until(fds, nr, t == NULL ? UNEVER :
			uafter(length(t->tv_sec, t->tv_nsec))), kept);
}

int hook_select(int nr, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	int kept = errno_now();
	utime_ns until, left;
	int rc;

	if (nr < 0 || (t != NULL && (t->tv_sec < 0 || t->tv_usec < 0 ||
	    (t->tv_sec == 0 && t->tv_usec == 0))) || !begin())
		return REAL(select)(nr, r, w, e, t);
	until = t == NULL ? UNEVER :
		uafter(length(t->tv_sec, t->tv_usec * 1000l));
	rc = select_until(nr, r, w, e, until);
	if (t != NULL) {
		left = until - unow();
		t->tv_sec  = left > 0 ? left / UTIME_S : 0;
		t->tv_usec = left > 0 ? left % UTIME_S / UTIME_US : 0;
	}
	return (int)finish(rc, kept);
}

int hook_pselect(int nr, fd_set *r, fd_set *w, fd_set *e,
		 const struct timespec *t, const sigset_t *mask)
{
	int kept = errno_now();

	if (mask != NULL || nr < 0 || (t != NULL && !is_valid(t)) || !begin())
		return REAL(pselect)(nr, r, w, e, t, mask);
	return (int)finish(select_until(nr, r, w, e, t == NULL ? UNEVER :
			uafter(length(t->tv_sec, t->tv_nsec))), kept);
}

#if defined(__linux__)
int hook_epoll_wait(int epoll, struct epoll_event *list, int nr, int ms)
{
	int kept = errno_now();

	if (ms == 0 || !begin())
		return REAL(epoll_wait)(epoll, list, nr, ms);
	return (int)finish(epoll_until(epoll, list, nr, ms < 0 ? UNEVER :
				       uafter(ms * UTIME_MS)), kept);
}

int hook_epoll_pwait(int epoll, struct epoll_event *list, int nr, int ms,
		     const sigset_t *mask)
{
	return mask != NULL || !ours() ? REAL(epoll_pwait)(epoll, list, nr, ms, mask) :
		hook_epoll_wait(epoll, list, nr, ms);
}

#if HAS_EPOLL2
int hook_epoll_pwait2(int epoll, struct epoll_event *list, int nr,
		      const struct timespec *t, const sigset_t *mask)
{
	int kept = errno_now();

	if (mask != NULL || (t != NULL && (!is_valid(t) ||
	    (t->tv_sec == 0 && t->tv_nsec == 0))) || !begin())
		return REAL(epoll_pwait2)(epoll, list, nr, t, mask);
	return (int)finish(epoll_until(epoll, list, nr, t == NULL ? UNEVER :
			uafter(length(t->tv_sec, t->tv_nsec))), kept);
}
#endif
#endif

/* Time and names. */

/* Sleeps. Returns 0 or -errno, and what is left. */
static int sleep_for(utime_ns ns, utime_ns *left)
{
	utime_ns until = uafter(ns);
	int rc = u_sleep(until);

	*left = until - unow();
	if (rc == 0 || *left < 0)
		*left = 0;
	return rc;
}

/* Whole seconds that are left are fewer with each call, so loops end. */
unsigned hook_sleep(unsigned seconds)
{
	int kept = errno_now();
	utime_ns left;
	int rc;

	if (!begin())
		return REAL(sleep)(seconds);
	rc = sleep_for(seconds * UTIME_S, &left);
	(void)finish(rc, kept);
	return (unsigned)(left / UTIME_S);
}

int hook_usleep(useconds_t us)
{
	int kept = errno_now();
	utime_ns left;

	if (!begin())
		return REAL(usleep)(us);
	return (int)finish(sleep_for(us * UTIME_US, &left), kept);
}

static int sleep_rest(const struct timespec *t, struct timespec *rest)
{
	utime_ns left;
	int rc = sleep_for(length(t->tv_sec, t->tv_nsec), &left);

	if (rc < 0 && rest != NULL) {
		rest->tv_sec  = left / UTIME_S;
		rest->tv_nsec = left % UTIME_S;
	}
	return rc;
}

int hook_nanosleep(const struct timespec *t, struct timespec *left)
{
	int kept = errno_now();

	if (!is_valid(t) || !begin())
		return REAL(nanosleep)(t, left);
	return (int)finish(sleep_rest(t, left), kept);
}

/* Sleeps until CLOCK_REALTIME shows t, also if it is set meanwhile. */
static int sleep_realtime(const struct timespec *t)
{
	utime_ns until = length(t->tv_sec, t->tv_nsec);
	struct timespec now;
	utime_ns left;
	int rc = 0;

	while (rc == 0) {
		(void)clock_gettime(CLOCK_REALTIME, &now);
		left = until - (now.tv_sec * UTIME_S + now.tv_nsec);
		if (left <= 0)
			break;
		rc = u_sleep(uafter(left < UTIME_S ? left : UTIME_S));
	}
	return rc;
}

/* Returns a positive error number, as libc does. Other clocks are libc's. */
int hook_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
			 struct timespec *left)
{
	int kept = errno_now();
	int rc;

	if (!is_valid(t) || (flags & ~TIMER_ABSTIME) ||
	    (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME) || !begin())
		return REAL(clock_nanosleep)(clock, flags, t, left);
	if (!(flags & TIMER_ABSTIME))
		rc = sleep_rest(t, left);
	else if (clock == CLOCK_MONOTONIC)
		rc = u_sleep(length(t->tv_sec, t->tv_nsec));
	else
		rc = sleep_realtime(t);
	end(rc);
	(void)answer(0, kept);
	return -rc;
}

/*
 * Lets a native thread look. Never looks here: a server that is deaf would stop
 * all threads of the processor. EAI_AGAIN: UCALL_LOOKUPS are abandoned, or the
 * system refuses a native thread. EAI_SYSTEM and ECHILD: at the fork of this
 * process a look-up was in libc.
 */
int hook_getaddrinfo(const char *host, const char *service,
		     const struct addrinfo *hints, struct addrinfo **list)
{
	int kept = errno_now();
	int rc = -ENOSYS;

	if (begin()) {
		rc = u_getaddrinfo(host, service, hints, list, UNEVER);
		end(rc);
	}
	if (rc == -ENOSYS)
		return REAL(getaddrinfo)(host, service, hints, list);
	(void)answer(rc, kept);
	if (rc == -EAGAIN)
		return EAI_AGAIN;
	if (rc == -ENOMEM)
		return EAI_MEMORY;
	return rc < 0 ? EAI_SYSTEM : U_EAI(rc);
}

/* What _FORTIFY_SOURCE has made of them: libc ends the program. */

#if defined(__GLIBC__)
ssize_t hook___read_chk(int fd, void *buf, size_t size, size_t room)
{
	return size > room ? REAL(__read_chk)(fd, buf, size, room) :
		hook_read(fd, buf, size);
}

ssize_t hook___recv_chk(int fd, void *buf, size_t size, size_t room, int flags)
{
	return size > room ? REAL(__recv_chk)(fd, buf, size, room, flags) :
		hook_recv(fd, buf, size, flags);
}

ssize_t hook___recvfrom_chk(int fd, void *buf, size_t size, size_t room,
			    int flags, struct sockaddr *from, socklen_t *len)
{
	return size > room ?
		REAL(__recvfrom_chk)(fd, buf, size, room, flags, from, len) :
		hook_recvfrom(fd, buf, size, flags, from, len);
}

int hook___poll_chk(struct pollfd *fds, nfds_t nr, int ms, size_t room)
{
	return nr > room / sizeof *fds ? REAL(__poll_chk)(fds, nr, ms, room) :
		hook_poll(fds, nr, ms);
}

int hook___ppoll_chk(struct pollfd *fds, nfds_t nr, const struct timespec *t,
		     const sigset_t *mask, size_t room)
{
	return nr > room / sizeof *fds ?
		REAL(__ppoll_chk)(fds, nr, t, mask, room) :
		hook_ppoll(fds, nr, t, mask);
}
#endif
