/* SPDX-License-Identifier: MIT */
/* uio.c: sockets, pipes and other descriptors, for threads that may wait. */

/*
 * Each call tries, and if it would block, waits until the descriptor may be
 * ready, and tries again. So no thread needs to know who else reads or writes.
 *
 * A try must not block. Sockets have MSG_DONTWAIT for that; other descriptors
 * have RWF_NOWAIT, or are non-blocking anyway. accept() and connect() have
 * neither, so O_NONBLOCK is set.
 *
 * Each read tries before it waits, also after a short read: packets in a pipe,
 * bytes that came with descriptors, and urgent bytes make a read short while more
 * is there. So no read waits for bytes that are there. But a read of an owned stream
 * (owned.h) waits first, if the last has left nothing: bytes that came since are an
 * event, which the next look finds. Each read tries a last time at its deadline, so
 * that bytes which came before it are not lost behind threads that compute.
 *
 * The tries are functions of their own, out of line: errno belongs to the native
 * thread, and after a wait the thread may run on another.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* accept4(), preadv2() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uio.h"
#include "park.h"
#include "upoll.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/sendfile.h>
#endif

UPREEMPT_NEVER;

#define NAP		(2 * UTIME_MS)	/* where no event tells */
#define VAIN		8		/* waits in vain, before naps */

static bool again(ssize_t rc)
{
	return rc == -EAGAIN || rc == -EWOULDBLOCK;
}

/* Repeats a call that a signal has interrupted. */
#define UNINTERRUPTED(rc, call) do {					\
	rc = upoll_result(call);					\
} while (unlikely(rc == -EINTR))

#if defined(POLLRDHUP)
/*
 * Returns whether the reading side of a socket is shut. Then datagram sockets,
 * and listeners of AF_UNIX, stay ready, and yet say EAGAIN.
 */
static NOINLINE bool is_shut(int fd)
{
	struct pollfd f = { .fd = fd, .events = POLLRDHUP };

	return upoll_is_last(fd) && poll(&f, 1, 0) > 0 &&
		f.revents & POLLRDHUP;
}
#else
static bool is_shut(int fd)
{
	return (void)fd, false;
}
#endif

/*
 * Waits for another attempt to read. last: the result of the wait before, or
 * UPOLL_FIRST. 1: also if fd is shut, so it is the last; UPOLL_AGAIN.
 */
static NOINLINE int wait_to_read(int fd, utime_ns until, int last)
{
	return is_shut(fd) ? 1 : upoll_wait(fd, UREAD, until, last);
}

/* Returns the result of a read that was the last attempt. */
static ssize_t ended(ssize_t rc)
{
	return again(rc) ? 0 : rc;
}

/* Lets time pass before another attempt. 0 or -errno. */
static NOINLINE int nap(utime_ns until)
{
	utime_ns then = uafter(NAP);

	if (until == UNOW)
		return -EAGAIN;
	if (unow() >= until)
		return -ETIMEDOUT;
	return u_sleep(then < until ? then : until);
}

/*
 * Waits for another attempt to write. 0; 1: fd is always ready; or -errno. A datagram
 * socket is ready, and yet refuses, if the receiver that is named has no room; so
 * does a pipe of gVisor with room for a part.
 */
static NOINLINE int wait_to_write(int fd, utime_ns until, unsigned nth)
{
	return nth < VAIN ? upoll_wait(fd, UWRITE, until, 0) : nap(until);
}

/*
 * Is the result of an attempt to read, after as many attempts and waits as it
 * takes. If fd is shut or always ready, an attempt that may block is the last. If it
 * may wait first, an owned stream that is empty is not tried before. At its deadline it
 * tries once more.
 */
#define UNTIL_READ(fd, may, until, attempt, blocking) __extension__({	\
	int last = upoll_enter(until);					\
	ssize_t rc = -EAGAIN;						\
									\
	if (last == 0 && upoll_waits_first(fd, until) && (may))		\
		last = wait_to_read(fd, until, UPOLL_FIRST);		\
	while (last == 0 || last == UPOLL_AGAIN || last == -ETIMEDOUT) { \
		rc = attempt;						\
		if (!again(rc) || last == -ETIMEDOUT)			\
			break;						\
		last = wait_to_read(fd, until, last);			\
	}								\
	if (again(rc))							\
		rc = last == 1 ? ended(blocking) : last;		\
	rc;								\
})

/* Is the same to write. */
#define UNTIL_WRITE(fd, until, attempt, blocking) __extension__({	\
	ssize_t rc = upoll_enter(until);				\
	unsigned nth = 0;						\
									\
	while (rc == 0 && again(rc = attempt)) {			\
		rc = wait_to_write(fd, until, nth++);			\
		if (rc > 0) {						\
			rc = blocking;					\
			break;						\
		}							\
	}								\
	rc;								\
})

int u_wait_fd(int fd, int what, utime_ns until)
{
	struct upoll_begun b;
	int rc = upoll_enter(until);

	if (rc != 0)
		return rc;
	if (what < UREAD || what > (UREAD | UWRITE))
		return -EINVAL;
	if (ustack_self() == NULL || until == UNOW)
		return upoll_natively(fd, what, until);
	do {
		b = upoll_begin(fd, what, until, rc);
		if (b.b_wait == NULL)
			return b.b_rc < 0 ? b.b_rc : 0;
		rc = uwait_for(b.b_wait, b.b_until);
	} while (rc == UPOLL_AGAIN);
	return rc == -ETIMEDOUT && upoll_natively(fd, what, UNOW) == 0 ? 0 : rc;
}

/* Descriptors that are no sockets. */

static NOINLINE ssize_t blocking_readv(int fd, const struct iovec *v, int nr)
{
	ssize_t rc;

	UNINTERRUPTED(rc, readv(fd, v, nr));
	return rc;
}

static NOINLINE ssize_t blocking_writev(int fd, const struct iovec *v, int nr)
{
	ssize_t rc;

	UNINTERRUPTED(rc, writev(fd, v, nr));
	return rc;
}

#if defined(RWF_NOWAIT)
/*
 * Returns whether the system has no RWF_NOWAIT for a file. EINVAL is the file's
 * own answer: a counter, for instance, refuses less than eight bytes.
 */
static bool no_nowait(ssize_t rc)
{
	return rc == -EOPNOTSUPP || rc == -ENOSYS;
}

/* Asks a pipe that has a byte, without hooks: does the system look at flags? */
static bool heeds_flags(void)
{
	struct iovec v = { &(char){ 0 }, 1 };
	int fd[2] = { -1, -1 };
	bool heeds = pipe(fd) == 0 &&
		UPARK_WRITE(fd[1], "", 1) == 1 &&
		preadv2(fd[0], &v, 1, -1, 1 << 30) < 0;

	(void)close(fd[0]);
	(void)close(fd[1]);
	return heeds;
}

/*
 * Returns whether a read of an empty pipe with RWF_NOWAIT does not block: in
 * gVisor it does. -1 and 1 are known.
 */
static bool has_nowait(void)
{
	static int known;		/* atomic */
	int has = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (has == 0) {
		has = heeds_flags() ? 1 : -1;
		__atomic_store_n(&known, has, __ATOMIC_RELAXED);
	}
	return has > 0;
}
#endif

static bool is_ready(int fd, short what)
{
	struct pollfd f = { .fd = fd, .events = what };

	return poll(&f, 1, 0) != 0;
}

static ssize_t try_readv(int fd, const struct iovec *v, int nr)
{
#if defined(RWF_NOWAIT)
	ssize_t rc;

	if (has_nowait()) {
		UNINTERRUPTED(rc, preadv2(fd, v, nr, -1, RWF_NOWAIT));
		if (!no_nowait(rc))
			return rc;
	}
#endif
	return is_ready(fd, POLLIN) ? blocking_readv(fd, v, nr) : -EAGAIN;
}

/* Returns how many bytes nr buffers have. */
static size_t bytes_of(const struct iovec *v, int nr)
{
	size_t sum = 0;

	for (; nr > 0; nr--, v++)
		sum += v->iov_len;
	return sum;
}

/*
 * Returns whether what is ready takes nr bytes, at most PIPE_BUF, without a block. In
 * gVisor a pipe is ready if it has room for one.
 */
static bool has_room(int fd, size_t nr)
{
#if defined(F_GETPIPE_SZ)
	int size = fcntl(fd, F_GETPIPE_SZ), in;

	return size < 0 || ioctl(fd, FIONREAD, &in) != 0 ||
		nr <= (size_t)(size - in);
#else
	return (void)fd, (void)nr, true;
#endif
}

/* Writes at most PIPE_BUF bytes where more might block. */
static ssize_t try_writev(int fd, const struct iovec *v, int nr)
{
	struct iovec one;
	size_t sum;
#if defined(RWF_NOWAIT)
	ssize_t rc;

	if (has_nowait()) {
		UNINTERRUPTED(rc, pwritev2(fd, v, nr, -1, RWF_NOWAIT));
		if (!no_nowait(rc))
			return rc;
	}
#endif
	if (!is_ready(fd, POLLOUT))
		return -EAGAIN;
	if (fcntl(fd, F_GETFL) & O_NONBLOCK)
		return blocking_writev(fd, v, nr);
	sum = bytes_of(v, nr);
	if (!has_room(fd, sum < PIPE_BUF ? sum : PIPE_BUF))
		return -EAGAIN;
	if (sum <= PIPE_BUF)
		return blocking_writev(fd, v, nr);
	for (; nr > 1 && v->iov_len == 0; nr--)
		v++;
	one = *v;
	if (one.iov_len > PIPE_BUF)
		one.iov_len = PIPE_BUF;
	return blocking_writev(fd, &one, 1);
}

/*
 * A call has returned EFAULT. Reports a buffer that is on the stack of a thread
 * that waits. Returns -EFAULT.
 */
static NOINLINE ssize_t fault(const char *what, const struct iovec *v, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		if (usched_shut(v[i].iov_base))
			usched_law(what, v[i].iov_base);
	}
	return -EFAULT;
}

/* Streams. */

/*
 * Receives, and notes for an owned stream whether something may be left: a message
 * that had descriptors or credentials, or precedes an urgent byte, ends a read.
 */
static ssize_t recv_noted(struct upoll_read r, int fd, const struct iovec *v,
			  int nr)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v,
			    .msg_iovlen = nr };
	ssize_t rc;

	UNINTERRUPTED(rc, recvmsg(fd, &m, MSG_DONTWAIT));
	upoll_read_end(r, rc, m.msg_flags & (MSG_CTRUNC | MSG_OOB) ? 0 :
		       bytes_of(v, nr));
	return rc;
}

static ssize_t blocking_read(int fd, void *buf, size_t size)
{
	struct iovec v = { buf, size };

	return blocking_readv(fd, &v, 1);
}

static ssize_t blocking_write(int fd, const void *buf, size_t size)
{
	struct iovec v = { (void *)(uintptr_t)buf, size };

	return blocking_writev(fd, &v, 1);
}

static NOINLINE ssize_t try_recvfrom(int fd, void *buf, size_t size, int flags,
				     struct sockaddr *from, socklen_t *len)
{
	struct upoll_read r = upoll_read_begin(flags == 0 ? fd : -1);
	struct iovec v = { buf, size };
	ssize_t rc;

	if (r.r_unix && from == NULL)
		return recv_noted(r, fd, &v, 1);
	UNINTERRUPTED(rc, recvfrom(fd, buf, size, flags | MSG_DONTWAIT, from,
				   len));
	upoll_read_end(r, rc, r.r_unix ? 0 : size);
	return rc;
}

/* A read of no byte never blocks, and takes no datagram. A recv() does both. */
static NOINLINE ssize_t try_read(int fd, void *buf, size_t size)
{
	struct iovec v = { buf, size };
	ssize_t rc;

	if (size == 0)
		return blocking_read(fd, buf, 0);
	rc = try_recvfrom(fd, buf, size, 0, NULL, NULL);
	if (rc == -ENOTSOCK)
		rc = try_readv(fd, &v, 1);
	return rc != -EFAULT ? rc : fault("u_read: the buffer", &v, 1);
}

static NOINLINE ssize_t try_write(int fd, const void *buf, size_t size)
{
	struct iovec v = { (void *)(uintptr_t)buf, size };
	ssize_t rc;

	UNINTERRUPTED(rc, send(fd, buf, size, MSG_DONTWAIT | MSG_NOSIGNAL));
	if (rc == -ENOTSOCK)
		rc = try_writev(fd, &v, 1);
	return rc != -EFAULT ? rc : fault("u_write: the buffer", &v, 1);
}

ssize_t u_read(int fd, void *buf, size_t size, utime_ns until)
{
	return UNTIL_READ(fd, size > 0, until, try_read(fd, buf, size),
			  blocking_read(fd, buf, size));
}

ssize_t u_write(int fd, const void *buf, size_t size, utime_ns until)
{
	return UNTIL_WRITE(fd, until, try_write(fd, buf, size),
			   blocking_write(fd, buf, size));
}

/* Returns whether nr buffers have no byte. */
static bool is_empty(const struct iovec *v, int nr)
{
	for (; nr > 0 && v->iov_len == 0; nr--, v++)
		;
	return nr == 0;
}

static NOINLINE ssize_t try_recvv(int fd, const struct iovec *v, int nr)
{
	ssize_t rc;

	if (is_empty(v, nr))		/* see try_read() */
		return blocking_readv(fd, v, nr);
	rc = recv_noted(upoll_read_begin(fd), fd, v, nr);
	if (rc == -ENOTSOCK)
		rc = try_readv(fd, v, nr);
	return rc != -EFAULT ? rc : fault("u_readv: the buffer", v, nr);
}

static NOINLINE ssize_t try_sendv(int fd, const struct iovec *v, int nr)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v,
			    .msg_iovlen = nr };
	ssize_t rc;

	UNINTERRUPTED(rc, sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL));
	if (rc == -ENOTSOCK)
		rc = try_writev(fd, v, nr);
	return rc != -EFAULT ? rc : fault("u_writev: the buffer", v, nr);
}

ssize_t u_readv(int fd, const struct iovec *v, int nr, utime_ns until)
{
	if (nr < 1 || nr > IOV_MAX)
		return -EINVAL;
	return UNTIL_READ(fd, !is_empty(v, nr), until, try_recvv(fd, v, nr),
			  blocking_readv(fd, v, nr));
}

ssize_t u_writev(int fd, const struct iovec *v, int nr, utime_ns until)
{
	if (nr < 1 || nr > IOV_MAX)
		return -EINVAL;
	return UNTIL_WRITE(fd, until, try_sendv(fd, v, nr),
			   blocking_writev(fd, v, nr));
}

ssize_t u_read_all(int fd, void *buf, size_t size, utime_ns until)
{
	size_t done = 0;

	do {
		ssize_t rc = u_read(fd, (char *)buf + done, size - done, until);

		if (rc <= 0)
			return done > 0 ? (ssize_t)done : rc;
		done += rc;
	} while (done < size);
	return done;
}

ssize_t u_write_all(int fd, const void *buf, size_t size, utime_ns until)
{
	size_t done = 0;

	do {
		ssize_t rc = u_write(fd, (const char *)buf + done, size - done,
				     until);

		if (rc < 0 || (rc == 0 && size > 0))
			return done > 0 ? (ssize_t)done : rc;
		done += rc;
	} while (done < size);
	return done;
}

/* Sockets. */

static NOINLINE ssize_t try_sendto(int fd, const void *buf, size_t size,
				   int flags, const struct sockaddr *to,
				   socklen_t len)
{
	ssize_t rc;

	UNINTERRUPTED(rc, sendto(fd, buf, size,
				 flags | MSG_DONTWAIT | MSG_NOSIGNAL, to, len));
	return rc;
}

static NOINLINE ssize_t try_recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t rc;

	UNINTERRUPTED(rc, recvmsg(fd, m, flags | MSG_DONTWAIT));
	return rc;
}

static NOINLINE ssize_t try_sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t rc;

	UNINTERRUPTED(rc, sendmsg(fd, m, flags | MSG_DONTWAIT | MSG_NOSIGNAL));
	return rc;
}

ssize_t u_recvfrom(int fd, void *buf, size_t size, int flags,
		   struct sockaddr *from, socklen_t *len, utime_ns until)
{
	return UNTIL_READ(fd, flags == 0, until,
			  try_recvfrom(fd, buf, size, flags, from, len),
			  try_recvfrom(fd, buf, size, flags, from, len));
}

ssize_t u_recv(int fd, void *buf, size_t size, int flags, utime_ns until)
{
	return u_recvfrom(fd, buf, size, flags, NULL, NULL, until);
}

ssize_t u_sendto(int fd, const void *buf, size_t size, int flags,
		 const struct sockaddr *to, socklen_t len, utime_ns until)
{
	return UNTIL_WRITE(fd, until, try_sendto(fd, buf, size, flags, to, len), -EAGAIN);
}

ssize_t u_send(int fd, const void *buf, size_t size, int flags, utime_ns until)
{
	return u_sendto(fd, buf, size, flags, NULL, 0, until);
}

ssize_t u_recvmsg(int fd, struct msghdr *m, int flags, utime_ns until)
{
	return UNTIL_READ(fd, flags == 0, until, try_recvmsg(fd, m, flags),
			  try_recvmsg(fd, m, flags));
}

ssize_t u_sendmsg(int fd, const struct msghdr *m, int flags, utime_ns until)
{
	return UNTIL_WRITE(fd, until, try_sendmsg(fd, m, flags), -EAGAIN);
}

/* Makes fd non-blocking. Returns its flags before, or -errno. */
static NOINLINE int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (!(flags & O_NONBLOCK) &&
			  fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0))
		return -errno;
	return flags;
}

#if defined(UIO_PLAIN_SOCKETS)
static int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int rc = accept(fd, addr, len);

	if (rc >= 0)
		(void)fcntl(rc, F_SETFD, flags & SOCK_CLOEXEC ? FD_CLOEXEC : 0);
	if (rc >= 0)
		(void)fcntl(rc, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	return rc;
}
#endif

static NOINLINE int try_accept(int fd, struct sockaddr *addr, socklen_t *len,
			       int flags)
{
	struct upoll_read r = upoll_read_begin(fd);
	int rc;

	do {
		UNINTERRUPTED(rc, accept4(fd, addr, len, flags));
	} while (rc == -ECONNABORTED);
	upoll_read_end(r, rc, 0);
	if (rc >= 0)
		upoll_made(rc);
	return rc;
}

/* Tries for the last time: fd is shut. */
static int last_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int rc = try_accept(fd, addr, len, flags);

	return again(rc) ? -EINVAL : rc;
}

static ALWAYS_INLINE int accept_by(int fd, struct sockaddr *addr,
				   socklen_t *len, int flags, utime_ns until)
{
	int rc = unblock(fd);

	if (rc < 0)
		return rc;
	return UNTIL_READ(fd, true, until, try_accept(fd, addr, len, flags),
			  last_accept(fd, addr, len, flags));
}

/* After u_close() the number may be that of a socket that accepts nothing. */
int u_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags,
	     utime_ns until)
{
	unsigned closes = upoll_closes(fd);
	int rc = accept_by(fd, addr, len, flags, until);

	return rc >= 0 || closes == upoll_closes(fd) ? rc : -EBADF;
}

/* -EINPROGRESS: to be called again when fd may be written. */
static NOINLINE int try_connect(int fd, const struct sockaddr *addr,
				socklen_t len, bool first)
{
	int rc = upoll_result(connect(fd, addr, len));

	if (rc == -EINTR || (rc == -EALREADY && !first))
		return -EINPROGRESS;
	return rc == -EISCONN && !first ? 0 : rc;
}

/* Waits for another attempt to connect. A full backlog makes no event. */
static int wait_connect(int fd, int rc, utime_ns until)
{
	return rc == -EINPROGRESS ? upoll_wait(fd, UWRITE, until, 0) : nap(until);
}

int u_connect(int fd, const struct sockaddr *addr, socklen_t len,
	      utime_ns until)
{
	int flags = upoll_enter(until);
	bool first = true;
	int rc;

	if (flags == 0)
		flags = unblock(fd);
	if (flags < 0)
		return flags;
	for (;; first = false) {
		rc = try_connect(fd, addr, len, first);
		if (rc != -EINPROGRESS && !again(rc))
			break;
		rc = wait_connect(fd, rc, until);
		if (rc < 0)
			break;
	}
	if (!(flags & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, flags);
	return rc;
}

static NOINLINE int wait_any(struct pollfd *fds, nfds_t nr, utime_ns until)
{
	struct upoll_begun b = upoll_begin_any(fds, nr);

	return b.b_wait != NULL ? uwait_for(b.b_wait, until) : b.b_rc;
}

/* Naps if descriptors are ready, but not for what the caller asks. */
int u_poll(struct pollfd *fds, nfds_t nr, utime_ns until)
{
	int rc = upoll_enter(until);
	unsigned vain = 0;
	int ready;

	while (rc >= 0) {
		UNINTERRUPTED(ready, poll(fds, nr, 0));
		if (ready != 0 || until == UNOW)
			return ready;
		rc = vain++ < VAIN ? wait_any(fds, nr, until) : nap(until);
	}
	return rc;
}

#if defined(__linux__)
/*
 * Sends, but raises no SIGPIPE. sendfile() has no flag for that, so the signal is
 * blocked meanwhile, and taken: it is for the native thread that has called. It
 * may also come with a count, if the peer has closed after these bytes.
 */
static NOINLINE ssize_t try_sendfile(int out, int in, off_t *offset,
				     size_t size)
{
	const struct timespec none = { 0, 0 };
	sigset_t pipes, old;
	ssize_t rc;

	sigemptyset(&pipes);
	sigaddset(&pipes, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipes, &old);
	UNINTERRUPTED(rc, sendfile(out, in, offset, size));
	if ((rc < 0 || (size_t)rc < size) && !again(rc) &&
	    !sigismember(&old, SIGPIPE))
		(void)sigtimedwait(&pipes, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
#else
/* Copies a part. What could not be written is left in the file. */
static NOINLINE ssize_t try_sendfile(int out, int in, off_t *offset,
				     size_t size)
{
	char part[4096];
	off_t at = offset != NULL ? *offset : lseek(in, 0, SEEK_CUR);
	ssize_t rc;

	if (at < 0)
		return -errno;
	UNINTERRUPTED(rc, pread(in, part, size < sizeof part ? size :
				sizeof part, at));
	if (rc <= 0)
		return rc;
	rc = try_write(out, part, rc);
	if (rc > 0 && offset != NULL)
		*offset = at + rc;
	else if (rc > 0 && lseek(in, at + rc, SEEK_SET) < 0)
		return -errno;
	return rc;
}
#endif

ssize_t u_sendfile(int out, int in, off_t *offset, size_t size, utime_ns until)
{
	int rc = unblock(out);

	if (rc < 0)
		return rc;
	return UNTIL_WRITE(out, until, try_sendfile(out, in, offset, size),
			   -EAGAIN);
}

int u_trust(int fd)
{
	return upoll_trust(fd);
}

int u_close(int fd)
{
	return upoll_close(fd);
}
