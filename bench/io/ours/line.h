/* SPDX-License-Identifier: MIT */
/* line.h: a connection of mode line, as users write it. */

#ifndef LINE_H
#define LINE_H

#include "../io.h"

#include <usched/all.h>

/* A buffer on the stack of the thread, which waits with all of it. */
struct reader {
	int    r_fd;
	size_t r_at, r_end;	/* what was read, and is not yet taken */
	char   r_bytes[IO_LINE];
};

/*
 * Sets *line to the next line, in the buffer. Returns its length, with its
 * newline; 0 at the end; or an error, -EMSGSIZE if the line is too long.
 */
static __attribute__((noinline)) ssize_t get_line(struct reader *r, char **line)
{
	char *end;
	ssize_t n;

	while ((end = memchr(r->r_bytes + r->r_at, '\n',
			     r->r_end - r->r_at)) == NULL) {
		r->r_end -= r->r_at;
		memmove(r->r_bytes, r->r_bytes + r->r_at, r->r_end);
		r->r_at = 0;
		if (r->r_end == sizeof r->r_bytes)
			return -EMSGSIZE;
		n = u_read(r->r_fd, r->r_bytes + r->r_end,
			   sizeof r->r_bytes - r->r_end, uafter(60 * UTIME_S));
		if (n <= 0)
			return n;
		r->r_end += n;
	}
	*line = r->r_bytes + r->r_at;
	r->r_at = end + 1 - r->r_bytes;
	return end + 1 - *line;
}

static void talk(int fd, void *arg)
{
	struct reader r;
	char *line;
	ssize_t n;

	(void)arg;
	r.r_fd = fd;
	r.r_at = r.r_end = 0;
	while ((n = get_line(&r, &line)) > 0 &&
	       u_write_all(fd, IO_OK, IO_OK_SIZE, uafter(10 * UTIME_S)) ==
			IO_OK_SIZE &&
	       u_write_all(fd, line, n, uafter(10 * UTIME_S)) == n)
		;
}

#endif /* LINE_H */
