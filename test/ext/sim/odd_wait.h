/* SPDX-License-Identifier: MIT */
/* odd_wait.h: calls that wait for several files, in scripts of odd arguments (odd.c). */

/* They are told not to wait. Epolls ask each other, too. */

#ifndef ODD_WAIT_H
#define ODD_WAIT_H

#include "odd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#if !defined(EPOLLEXCLUSIVE)
#define EPOLLEXCLUSIVE	(1u << 28)
#endif

static void call_poll(void)
{
	static const int asked[] = { POLLIN, POLLOUT, POLLPRI, POLLRDNORM, POLLRDBAND, POLLWRNORM,
				     POLLWRBAND, POLLRDHUP, POLLHUP, POLLERR, POLLNVAL, POLLMSG };
	struct timespec t = { 0, 0 };
	struct pollfd p[5];
	int i, rc, nr = seldom(16) ? 0 : 5;

	for (i = 0; i < 5; i++)
		p[i] = (struct pollfd) { any(), (short)BITS(asked, 3, 0x800), 0x55 };
	if (seldom(8))
		t = (struct timespec) { below(2) ? -1 : 0, below(2) ? 1000000000 : -1 };
	if (seldom(12))
		rc = poll((struct pollfd *)data, 100000, 0);
	else if (below(2) == 0)
		rc = poll(seldom(12) ? (struct pollfd *)null : p, (nfds_t)nr, 0);
	else
		rc = ppoll(p, (nfds_t)nr, &t, NULL);
	for (i = 0; i < 5; i++)
		printf(" %d: %#x %#x", p[i].fd, (unsigned short)p[i].events,
		       (unsigned short)p[i].revents);
	putchar('\n');
	said("poll", rc);
}

static void call_select(void)
{
	static const struct timeval times[] = { { 0, 0 }, { 0, 100 }, { 0, -1 }, { -1, 0 },
						{ 0, 1000000 }, { 1, 0 } };
	struct timeval t = ONE_OF(times), before = t;
	int i, fd, rc, nr = FD_MOST + 1;
	fd_set in, out, odd;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&odd);
	for (i = 0; i < 4; i++) {
		fd = any();
		if (fd < 0 || (fd >= FD_MOST && below(2)))
			continue;
		fd = fd >= FD_MOST ? 230 : fd;
		if (fcntl(fd, F_GETFL) & O_PATH && fcntl(fd, F_GETFL) >= 0)
			continue;
		FD_SET(fd, &in);
		if (below(2))
			FD_SET(fd, &out);
		if (seldom(3))
			FD_SET(fd, &odd);
	}
	if (t.tv_sec > 0 || t.tv_usec >= 1000000)
		nr = 0, t.tv_sec = 0, t.tv_usec = 300, before = t;
	rc = select(seldom(12) ? -1 : nr, &in, &out, &odd, &t);
	/* What is left; unless the time is over, the machine decides. */
	printf("	%d", t.tv_sec < 0 || t.tv_usec < 0 ? -1 : t.tv_usec <= before.tv_usec);
	if (rc == 0)
		printf(" %d", (int)t.tv_usec);
	for (i = 3; rc >= 0 && i < FD_MOST; i++)
		if (FD_ISSET(i, &in) || FD_ISSET(i, &out) || FD_ISSET(i, &odd))
			printf(" %d: %d%d%d", i, !!FD_ISSET(i, &in), !!FD_ISSET(i, &out),
			       !!FD_ISSET(i, &odd));
	putchar('\n');
	said("select", rc);
}

static void call_epoll(void)
{
	static const int asked[] = { EPOLLIN, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDNORM, EPOLLRDBAND,
				     EPOLLWRNORM, EPOLLRDHUP, EPOLLHUP, EPOLLERR,
				     (int)EPOLLET, EPOLLONESHOT };
	static const int ops[] = { EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD,
				   EPOLL_CTL_DEL, 0, 9, -1 };
	struct epoll_event e = { .data.u32 = 0 };
	int set = any_set(), fd = seldom(4) ? any_set() : any(), op = ONE_OF(ops);

	e.events = (uint32_t)BITS(asked, 3, 0x20);
	e.data.u32 = fd >= 0 && fd < FD_MOST ? (unsigned)fd : 0;
	if (seldom(5))
		e.events = EPOLLEXCLUSIVE | (seldom(3) ? e.events : EPOLLIN);
	printf("	%d in %d: %d %#x\n", fd, set, op, e.events);
	said("epoll_ctl", epoll_ctl(set, op, fd, seldom(16) ? (struct epoll_event *)null : &e));
}

static int by_data(const void *a, const void *b)
{
	uint32_t x = ((const struct epoll_event *)a)->data.u32;
	uint32_t y = ((const struct epoll_event *)b)->data.u32;

	return x < y ? -1 : x > y;
}

static void call_epoll_wait(void)
{
	struct epoll_event e[FDS * 4];
	int fd = any_set(), most = seldom(8) ? -(int)below(2) : FDS * 4, i;
	int rc = fd >= 0 && fd != 200 && fd < FD_MOST ? epoll_wait(fd, e, most, 0) :
		epoll_wait(fd, e, 4, 0);

	if (rc > 0)
		qsort(e, (size_t)rc, sizeof *e, by_data);
	printf("	%d:", fd);
	for (i = 0; i < rc; i++)
		printf(" %u %#x", e[i].data.u32, e[i].events);
	putchar('\n');
	said("epoll_wait", rc);
}

/* Makes each set ask for descriptors, as few random calls do. */
static void call_watch(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int i, rc = 0;

	e.events |= below(2) ? EPOLLET : 0;
	for (i = 0; i < 12; i++) {
		int set = any_set(), fd = seldom(3) ? any_set() : any();

		e.data.u32 = (uint32_t)fd % FD_MOST;
		if (seldom(3))
			e.events = EPOLLIN | (below(2) ? EPOLLEXCLUSIVE : EPOLLET);
		rc += epoll_ctl(set, below(3) ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e) == 0;
	}
	said("watch", rc);
}

/*
 * Edges of an epoll in an epoll in an epoll, which random calls seldom reach: items that
 * ask for nothing but ends, changes of what is ready, an end.
 */
static void call_nested(void)
{
	static const uint32_t asked[] = {
		EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLET, 0, EPOLLET, EPOLLOUT,
		EPOLLOUT | EPOLLET, EPOLLIN | EPOLLONESHOT
	};
	int nested[3], ends[2], i, k, lower;
	struct epoll_event e, got[4];

	(void)!pipe2(ends, O_NONBLOCK);
	for (i = 0; i < 3; i++)
		nested[i] = epoll_create1(0);
	for (k = 0; k < 25; k++) {
		i = (int)below(3);
		lower = i < 2 && below(2) ? nested[i + 1] : ends[seldom(4)];
		e.events = k < 2 ? EPOLLIN | EPOLLET : ONE_OF(asked);
		e.data.u32 = (uint32_t)k;
		if (k < 2)
			said("epoll_ctl", epoll_ctl(nested[k], EPOLL_CTL_ADD, nested[k + 1], &e));
		else if (k < 4 || seldom(3))
			said("epoll_ctl", epoll_ctl(nested[i], seldom(3) ? EPOLL_CTL_MOD :
						    EPOLL_CTL_ADD, lower, &e));
		if (seldom(3))
			said("write", write(ends[1], data, 1));
		if (seldom(4))
			said("read", read(ends[0], data, 1));
		if (k > 8 && seldom(9))
			close(ends[1]);
		i = epoll_wait(nested[i], got, 4, 0);
		if (i == 1)
			printf("	%u %#x\n", got[0].data.u32, got[0].events);
		said("epoll_wait", i);
	}
	close(ends[0]);
	close(ends[1]);
	for (i = 0; i < 3; i++)
		close(nested[i]);
}

#endif /* ODD_WAIT_H */
