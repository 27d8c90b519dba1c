/* SPDX-License-Identifier: MIT */
/* sets.h: waits for many descriptors: poll(), select(), epoll. A part of uwrap.c. */

#ifndef UWRAP_SETS_H
#define UWRAP_SETS_H

#include "hook.h"

#include <stdlib.h>

/* With no descriptor poll() is a sleep. 0: the deadline has passed. */
static int poll_until(struct pollfd *fds, nfds_t nr, utime_ns until)
{
	int rc = nr > 0 ? u_poll(fds, nr, until) : u_sleep(until);

	return rc == -ETIMEDOUT ? 0 : rc;
}

/* Sets of descriptors may be larger than an fd_set, so no FD_ISSET() here. */

enum { BITS = 8 * sizeof(unsigned long) };

static bool has(const fd_set *set, int fd)
{
	return set != NULL && ((const unsigned long *)set)[fd / BITS] >>
		fd % BITS & 1;
}

static void take_out(fd_set *set, int fd)
{
	((unsigned long *)set)[fd / BITS] &= ~(1ul << fd % BITS);
}

#define READ_BITS	(POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define WRITE_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)

struct sets {
	int            s_nr;
	fd_set        *s_set[3];	/* of select(): read, write, except */
	struct pollfd *s_fds;		/* each descriptor of a set */
	nfds_t         s_fds_nr;
};

static const short asked[] = { POLLIN, POLLOUT, POLLPRI };
static const short found[] = { READ_BITS, WRITE_BITS, POLLPRI };

static int sets_begin(struct sets *s)
{
	struct pollfd f = { .revents = 0 };
	int i;

	s->s_fds = malloc(((size_t)s->s_nr + 1) * sizeof f);
	if (s->s_fds == NULL)
		return -ENOMEM;
	for (f.fd = 0; f.fd < s->s_nr; f.fd++) {
		for (f.events = i = 0; i < 3; i++)
			if (has(s->s_set[i], f.fd))
				f.events = (short)(f.events | asked[i]);
		if (f.events != 0)
			s->s_fds[s->s_fds_nr++] = f;
	}
	return 0;
}

/* Returns how many bits of the sets are ready, or -EBADF. */
static int sets_count(const struct sets *s)
{
	nfds_t k;
	int i, nr = 0;

	for (k = 0; k < s->s_fds_nr; k++) {
		const struct pollfd *f = &s->s_fds[k];

		if (f->revents & POLLNVAL)
			return -EBADF;
		for (i = 0; i < 3; i++)
			nr += has(s->s_set[i], f->fd) && f->revents & found[i];
	}
	return nr;
}

static void sets_leave(struct sets *s)
{
	nfds_t k;
	int i;

	for (k = 0; k < s->s_fds_nr; k++)
		for (i = 0; i < 3; i++)
			if (has(s->s_set[i], s->s_fds[k].fd) &&
			    !(s->s_fds[k].revents & found[i]))
				take_out(s->s_set[i], s->s_fds[k].fd);
}

/* poll() may report what select() would not: then this naps, and asks again. */
static int sets_wait(struct sets *s, utime_ns until)
{
	utime_ns nap;
	int rc;

	for (;;) {
		rc = poll_until(s->s_fds, s->s_fds_nr, until);
		if (rc > 0)
			rc = sets_count(s);
		else if (rc == 0 || rc == -ETIMEDOUT)
			return 0;
		if (rc != 0 || unow() >= until)
			return rc;
		nap = uafter(NAP);
		rc  = u_sleep(nap < until ? nap : until);
		if (rc < 0)
			return rc;
	}
}

static int select_until(int nr, fd_set *r, fd_set *w, fd_set *e, utime_ns until)
{
	struct sets s = { .s_nr = nr, .s_set = { r, w, e } };
	int rc = sets_begin(&s);

	if (rc == 0)
		rc = sets_wait(&s, until);
	if (rc >= 0)
		sets_leave(&s);
	free(s.s_fds);
	return rc;
}

/* epoll. */

#if defined(__linux__)
/*
 * Waits for events of an epoll, as epoll_wait(). The list may lie on the stack of the
 * caller: only the try writes it, while the thread runs.
 */
static int epoll_until(int epoll, struct epoll_event *list, int nr, utime_ns until)
{
	unsigned vain = 0;
	int rc;

	for (;;) {
		rc = (int)result(REAL(epoll_wait)(epoll, list, nr, 0));
		if (rc != 0)
			break;
		rc = wait_for(epoll, UREAD, until, vain++);
		if (rc != 0)
			return rc == -EAGAIN ? 0 : rc;
	}
	fair();
	return rc;
}
#endif

#endif /* UWRAP_SETS_H */
