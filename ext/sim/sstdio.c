/* SPDX-License-Identifier: MIT */
/* sstdio.c: stdio on files and sockets of a host. */

/*
 * A stream is libc's, made by fopencookie(): its buffer, formats and lines are
 * those of libc, and its reads and writes come here. A cookie keeps the boot
 * and the descriptor. Streams of a host that ends are flushed, as by exit();
 * those of a host that crashes are not, and what they held is lost.
 *
 * libc locks a stream by native thread, and here is only one. So two threads of
 * a host must not use the same stream at the same time, if it can wait.
 */

#define _GNU_SOURCE		/* fopencookie() */
#include "snames.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream {
	struct stream   *r_next;
	FILE            *r_stream;
	struct sim_boot *r_boot;
	int              r_fd;
};

static struct stream *streams;

off_t sim_lseek(int fd, off_t at, int whence) __asm__("__wrap_lseek");

static struct stream *stream_of(FILE *f)
{
	struct stream *r;

	for (r = streams; r != NULL && r->r_stream != f; r = r->r_next)
		;
	return r;
}

/* A stream of another host is none of the caller's. */
static bool is_dead(const struct stream *r)
{
	return r->r_boot != sim_self();
}

static ssize_t stream_read(void *cookie, char *buf, size_t size)
{
	struct stream *r = cookie;

	return is_dead(r) ? answer(-EBADF) :
		answer(sim_read(r->r_boot, r->r_fd, buf, size, 0, NULL, NULL,
				SIM_BY_FILE));
}

static ssize_t stream_write(void *cookie, const char *buf, size_t size)
{
	struct stream *r = cookie;

	return is_dead(r) ? answer(-EBADF) :
		answer(sim_write(r->r_boot, r->r_fd, buf, size, 0, NULL, 0,
				 SIM_BY_FILE));
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
	struct stream *r = cookie;
	off_t to = is_dead(r) ? answer(-EBADF) : sim_lseek(r->r_fd, *at, whence);

	if (to < 0)
		return -1;
	*at = to;
	return 0;
}

static int stream_close(void *cookie)
{
	struct stream *r = cookie, **at;
	int rc = is_dead(r) ? -EBADF : sim_close_slow(r->r_boot, r->r_fd);

	for (at = &streams; *at != r; at = &(*at)->r_next)
		;
	*at = r->r_next;
	free(r);
	return (int)answer(rc);
}

static FILE *stream_make(struct sim_boot *b, int fd, const char *mode)
{
	struct stream *r = sim_alloc(sizeof *r);

	r->r_boot = b;
	r->r_fd = fd;
	r->r_stream = fopencookie(r, mode, (cookie_io_functions_t) {
		stream_read, stream_write, stream_seek, stream_close });
	if (r->r_stream == NULL)
		usim_fail("no memory for a stream");
	r->r_next = streams;
	streams = r;
	return r->r_stream;
}

/* Flushes the streams of a host that ends. */
void sim_streams_end(const struct sim_boot *b)
{
	struct stream *r;

	for (r = streams; r != NULL; r = r->r_next)
		if (r->r_boot == b)
			(void)fflush(r->r_stream);
}

/* Returns the flags of open() that a mode means; -1: it is none. */
static int flags_of(const char *mode)
{
	bool both = strchr(mode, '+') != NULL;
	int more = strchr(mode, 'x') != NULL ? O_EXCL : 0;

	switch (mode[0]) {
	case 'r':	return both ? O_RDWR : O_RDONLY;
	case 'w':	return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC | more;
	case 'a':	return (both ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | more;
	default:	return -1;
	}
}

NAME(FILE *, fopen, (const char *path, const char *mode))
{
	struct sim_boot *b = enter();
	int flags = flags_of(mode), fd;

	if (b == NULL)
		return fopen(path, mode);
	if (flags < 0)
		return (void)answer(-EINVAL), NULL;
	fd = sim_open_name(path, flags, 0666);
	return fd < 0 ? NULL : stream_make(b, fd, mode);
}

ALIAS(FILE *, fopen64, (const char *path, const char *mode), fopen)

/* Returns whether a file is open for a way to use it. */
static bool may(const struct sim_file *f, int way)
{
	return f->f_is_path ? way == O_RDONLY :
		(way == O_WRONLY || sim_may_read(f)) && (way == O_RDONLY || sim_may_write(f));
}

NAME(FILE *, fdopen, (int fd, const char *mode))
{
	struct sim_boot *b = enter();
	int flags = flags_of(mode);
	struct sim_file *f;

	if (b == NULL)
		return fdopen(fd, mode);
	f = sim_file_any(b, fd);
	if (f == NULL || flags < 0 || !may(f, flags & O_ACCMODE))
		return (void)answer(flags < 0 || f != NULL ? -EINVAL : -EBADF), NULL;
	if (mode[0] == 'a')
		f->f_flags |= O_APPEND;
	return stream_make(b, fd, mode);
}

NAME(int, fileno, (FILE *f))
{
	struct stream *r = stream_of(f);

	return r != NULL ? r->r_fd : fileno(f);
}

ALIAS(int, fileno_unlocked, (FILE *f), fileno)

/* Text for a descriptor, all at once. */
NAME(int, vdprintf, (int fd, const char *format, va_list args))
{
	struct sim_boot *b = enter();
	ssize_t rc;
	char *text;
	int size;

	if (b == NULL)
		return vdprintf(fd, format, args);
	size = vasprintf(&text, format, args);
	if (size < 0)
		return -1;
	rc = sim_write(b, fd, text, (size_t)size, 0, NULL, 0, SIM_BY_FILE);
	free(text);
	return (int)answer(rc);
}

NAME(int, dprintf, (int fd, const char *format, ...))
{
	va_list args;
	int rc;

	va_start(args, format);
	rc = wrap_vdprintf(fd, format, args);
	va_end(args);
	return rc;
}

NAME(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list args))
{
	return (void)flag, wrap_vdprintf(fd, format, args);
}

NAME(int, __dprintf_chk, (int fd, int flag, const char *format, ...))
{
	va_list args;
	int rc;

	(void)flag;
	va_start(args, format);
	rc = wrap_vdprintf(fd, format, args);
	va_end(args);
	return rc;
}
