/* SPDX-License-Identifier: MIT */
/* stream.h: reads, writes and threads of these servers, by io/ or the simulator. */

#ifndef STREAM_H
#define STREAM_H

/*
 * The simulator (sim/) knows the names of libc, and refuses calls of io/. So with
 * GALLERY_SIM these are made of poll(), read() and send(). Descriptors are
 * non-blocking.
 */

#include <usched/all.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#if defined(GALLERY_SIM)
#include <poll.h>
#include <unistd.h>

static inline int stream_ready(int fd, short events, utime_ns until)
{
	struct pollfd p = { fd, events, 0 };
	utime_ns now = unow();
	int ms = until == UNEVER ? -1 : until <= now ? 0 :
		(int)((until - now + UTIME_MS - 1) / UTIME_MS);
	int n = poll(&p, 1, ms);

	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

static inline int stream_wait(int fd, utime_ns until)
{
	return stream_ready(fd, POLLIN, until);
}

static inline ssize_t stream_read(int fd, void *buf, size_t size)
{
	ssize_t n = read(fd, buf, size);

	return n >= 0 ? n : -errno;
}

static inline ssize_t stream_write(int fd, const void *buf, size_t size,
				   utime_ns until)
{
	int rc = stream_ready(fd, POLLOUT, until);
	ssize_t n = rc != 0 ? rc : send(fd, buf, size, MSG_NOSIGNAL);

	return rc != 0 || n >= 0 ? n : errno == EAGAIN ? 0 : -errno;
}

struct stream_thread { void (*t_f)(void *); void *t_arg; };

static inline void *stream_run(void *arg)
{
	struct stream_thread t = *(struct stream_thread *)arg;

	free(arg);
	t.t_f(t.t_arg);
	return NULL;
}

static inline int stream_go(void (*f)(void *), void *arg)
{
	struct stream_thread *t = malloc(sizeof *t);

	if (t == NULL)
		return -ENOMEM;
	*t = (struct stream_thread){ f, arg };
	return uthread_make(NULL, stream_run, t, "gallery");
}

#else

static inline int stream_wait(int fd, utime_ns until)
{
	return u_wait_fd(fd, UREAD, until);
}

static inline ssize_t stream_read(int fd, void *buf, size_t size)
{
	return u_read(fd, buf, size, UNOW);
}

static inline ssize_t stream_write(int fd, const void *buf, size_t size,
				   utime_ns until)
{
	return u_send(fd, buf, size, 0, until);
}

static inline int stream_go(void (*f)(void *), void *arg)
{
	return usched_go(f, arg);
}

#endif
#endif /* STREAM_H */
