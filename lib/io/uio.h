/* SPDX-License-Identifier: MIT */
/* uio.h: sockets, pipes and other descriptors, for threads that may wait. */

#ifndef UIO_H
#define UIO_H

/*
 * These calls read like those of POSIX, and block only the thread that calls.
 * Its processor goes on with other threads.
 *
 * SHORTEST USE
 *
 *	while ((n = u_read(fd, buf, sizeof buf, UNEVER)) > 0)
 *		u_write_all(fd, buf, n, UNEVER);
 *	u_close(fd);
 *
 * RESULTS
 *
 * 0 or a count, or the negative of an error number: errno is not used, since it
 * belongs to the native thread. All errors of the POSIX call may come, except
 * for EINTR. Each call has a deadline (uwait.h), and may also return:
 *
 *	-EAGAIN		the deadline was UNOW, and the caller would have to wait
 *	-ETIMEDOUT	the deadline has passed; nothing was read or written
 *	-ECANCELED	a scope around the caller was cancelled (uscope.h)
 *	-EBADF		also: u_close() was called meanwhile
 *	-EINVAL		also: the deadline is negative
 *	-ENOMEM		no memory for the wait; nothing was read or written
 *	-ENOSYS		the dispatcher of the caller has no s_wait
 *
 * Bytes that come before the deadline are read, so none are lost: a read tries
 * once more before it returns -ETIMEDOUT.
 *
 * WHO MAY CALL WHAT
 *
 * Threads of any dispatcher that has the call-backs of uwait.h, and native
 * threads, which block in the system. Any number of threads may wait for the
 * same descriptor, and each event wakes one of them.
 *
 * DESCRIPTORS
 *
 * Buffers may lie on the stack of the caller: the kernel touches them only
 * while the caller runs. Sockets need not be non-blocking. Pipes need not,
 * either, on Linux. Other descriptors that can wait, such as terminals, should
 * be non-blocking, or reads and writes stop the processor. Regular files are
 * always ready, so reading them stops the processor for as long as the disk
 * takes: see ufile.h.
 *
 * A descriptor for which threads wait is closed by u_close(). If it is closed
 * by close(), they go on waiting until their deadline, UNEVER for ever, and no
 * message says so. If its number is then used again, and another
 * thread waits for that, they get -EBADF; with USCHED_HARD the program ends in
 * usched_fail().
 *
 * A stream that u_accept(), userve() or u_dial_*() has made is closed by u_close(),
 * also if no thread waits: it is owned, stays armed, and most waits to read it make no
 * system call. Another file in its place, by close() or dup2(), is found
 * within a second; with USCHED_HARD the program ends in usched_fail().
 *
 * A BUFFER FOR EACH WAITING THREAD
 *
 * While a thread waits in u_read(), a buffer of 4 KiB on its stack is a part of
 * what is kept of the thread. If many connections are idle, the function that waits
 * has no such buffer, and calls the function that has it:
 *
 *	while (u_wait_fd(fd, UREAD, until) == 0 && serve(fd) > 0)
 *		;
 */

#include "uwait.h"

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For u_accept(), on systems whose sockets know no such flags. */
#if !defined(SOCK_NONBLOCK)
#define SOCK_NONBLOCK	0x20000000
#define SOCK_CLOEXEC	0x10000000
#define UIO_PLAIN_SOCKETS
#endif

/* What to wait for. */
enum { UREAD = 1, UWRITE = 2 };

/*
 * Waits until fd may be read (UREAD), written (UWRITE), or either (both). 0, or
 * an error as above. 0: fd was ready after this call began. Others may have taken
 * what was there since, so what follows must not block: the calls below, or those
 * of POSIX if fd is non-blocking. A regular
 * file is always ready.
 */
int u_wait_fd(int fd, int what, utime_ns until);

/* Reads, as read(2) does. */
ssize_t u_read(int fd, void *buf, size_t size, utime_ns until);

/* Writes, as write(2) does. A socket raises no SIGPIPE. */
ssize_t u_write(int fd, const void *buf, size_t size, utime_ns until);

/* Reads into nr buffers, as readv(2) does. */
ssize_t u_readv(int fd, const struct iovec *v, int nr, utime_ns until);

/* Writes from nr buffers, as writev(2) does. A socket raises no SIGPIPE. */
ssize_t u_writev(int fd, const struct iovec *v, int nr, utime_ns until);

/*
 * Reads size bytes, or returns fewer if the stream ends or an error comes after
 * some bytes. The next call returns that error. An error: nothing was read.
 */
ssize_t u_read_all(int fd, void *buf, size_t size, utime_ns until);

/*
 * Writes size bytes, or returns fewer if an error, such as -ETIMEDOUT, comes after
 * some bytes. The next call returns that error. An error: nothing was written.
 */
ssize_t u_write_all(int fd, const void *buf, size_t size, utime_ns until);

/* Receives from a socket, as recv(2) does. */
ssize_t u_recv(int fd, void *buf, size_t size, int flags, utime_ns until);

/* Sends on a socket, as send(2) does, but raises no SIGPIPE. */
ssize_t u_send(int fd, const void *buf, size_t size, int flags, utime_ns until);

/* Receives, and stores the sender's address, as recvfrom(2) does. */
ssize_t u_recvfrom(int fd, void *buf, size_t size, int flags,
		   struct sockaddr *from, socklen_t *len, utime_ns until);

/* Sends to an address, as sendto(2) does, but raises no SIGPIPE. */
ssize_t u_sendto(int fd, const void *buf, size_t size, int flags,
		 const struct sockaddr *to, socklen_t len, utime_ns until);

/* Receives a message with control data, as recvmsg(2) does. */
ssize_t u_recvmsg(int fd, struct msghdr *m, int flags, utime_ns until);

/* Sends a message with control data, as sendmsg(2), but raises no SIGPIPE. */
ssize_t u_sendmsg(int fd, const struct msghdr *m, int flags, utime_ns until);

/*
 * Accepts a connection, as accept4(2) of Linux does, on each system. Makes
 * fd non-blocking, for all who share it: otherwise a connection that was reset
 * meanwhile would stop the processor. -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: the
 * connection stays in the backlog. See userve.h for a server that goes on after
 * that.
 */
int u_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags,
	     utime_ns until);

/*
 * Connects a socket, as connect(2) does. fd is non-blocking during the call.
 * After -ETIMEDOUT or -ECANCELED the socket is still connecting, and is good
 * only for u_close().
 */
int u_connect(int fd, const struct sockaddr *addr, socklen_t len,
	      utime_ns until);

/*
 * Waits for any of nr descriptors, as poll(2) does, but with a deadline. Returns
 * how many are ready. -ETIMEDOUT: none was, at the deadline. UNOW: looks only,
 * and returns 0 if none is ready.
 */
int u_poll(struct pollfd *fds, nfds_t nr, utime_ns until);

/*
 * Sends a part of a file, as sendfile(2) of Linux, but raises no SIGPIPE. Reads
 * of `in` may stop the processor. Sends no more than the socket takes, so it may
 * send less than size.
 */
ssize_t u_sendfile(int out, int in, off_t *offset, size_t size, utime_ns until);

/*
 * Closes fd. Threads that wait for it get -EBADF. Other threads must not use fd
 * any more: between two calls they cannot know that the number may be used
 * again. 0, -EBADF, -EIO and so on: after each of them fd is closed, unless it
 * was none.
 */
int u_close(int fd);

/*
 * Makes fd owned, as what u_accept() has made. It goes with the next release. The
 * caller promises that until u_close(fd)
 *
 *   - nothing else closes fd, or puts another file in its place (dup2());
 *   - fd is a listener, or a stream of TCP or AF_UNIX; its messages carry no
 *     descriptors, credentials or urgent bytes. So a read that gets less than it
 *     has asked for has left nothing.
 *
 * If that does not hold, a wait may last a second, though bytes are there. The
 * child of fork() makes the promise anew. 0;
 * -EBADF: fd is out of range; -ENOMEM. Any thread or native thread.
 */
int u_trust(int fd);

#ifdef __cplusplus
}
#endif

#endif /* UIO_H */
