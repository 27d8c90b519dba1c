/* SPDX-License-Identifier: MIT */
/* odd_socket.h: sockets, in scripts of odd arguments (odd.c). */

/* No stream between hosts is connected: its bytes take time. truth.c has those. */

#ifndef ODD_SOCKET_H
#define ODD_SOCKET_H

#include "odd.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static void call_address(int fd)
{
	union {
		struct sockaddr     any;
		struct sockaddr_in  in;
		struct sockaddr_un  un;
		char                room[200];
	} a;
	static const sa_family_t families[] = { AF_INET, AF_UNIX, AF_UNIX, AF_UNSPEC, 77 };
	static const socklen_t sizes[] = { 0, 1, 2, 3, 16, sizeof a.un, 129, (socklen_t)-1 };
	socklen_t n;
	int type = 0, rc;

	memset(&a, 0, sizeof a);
	a.any.sa_family = ONE_OF(families);
	n = a.any.sa_family == AF_INET ? sizeof a.in : sizeof a.un;
	if (a.any.sa_family == AF_UNIX)
		strcpy(a.un.sun_path, below(2) ? "m" : "no/m");
	if (seldom(3))
		n = ONE_OF(sizes);
	/* A name that the kernel chooses is not compared. */
	if (n == 2 && a.any.sa_family == AF_UNIX)
		n = 3;
	printf("	%d %d\n", a.any.sa_family, (int)n);
	switch (below(4)) {
	case 0:
		said("bind", bind(fd, seldom(12) ? (struct sockaddr *)null : &a.any, n));
		return;
	case 1:
		/* Who connects to a port that is closed hears of it late. */
		n = sizeof type;
		if (a.any.sa_family == AF_INET &&
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0)
			return;
		said("connect", connect(fd, &a.any, a.any.sa_family == AF_UNSPEC ?
					sizeof a.in : sizeof a.un));
		return;
	case 2:
		n = seldom(3) ? ONE_OF(sizes) : sizeof a;
		rc = getsockname(fd, data_odd(&a), seldom(12) ? (socklen_t *)null : &n);
		said("getsockname", rc);
		break;
	default:
		n = seldom(3) ? ONE_OF(sizes) : sizeof a;
		rc = getpeername(fd, data_odd(&a), seldom(12) ? (socklen_t *)null : &n);
		said("getpeername", rc);
	}
	printf("	%d\n", rc == 0 ? (int)n : 0);
}

static void call_accept(int fd)
{
	static const int flags[] = { SOCK_NONBLOCK, SOCK_CLOEXEC };
	int rc;

	if (below(3) == 0)
		said("listen", listen(fd, (int)below(4) - 1));
	else if (below(2) == 0)
		said("shutdown", shutdown(fd, (int)below(6) - 1));
	else if (fd >= 0 && fd != 200 && fd < FD_MOST)
		keep(rc = accept4(fd, NULL, NULL, BITS(flags, 2, 0x10))), said("accept4", rc);
}

static bool is_unix(int fd)
{
	int domain = 0;
	socklen_t n = sizeof domain;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

static void call_option(int fd)
{
	static const int names[] = { SO_RCVBUF, SO_SNDBUF, SO_RCVBUF, SO_REUSEADDR, SO_KEEPALIVE,
				     SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SO_ERROR, SO_DOMAIN,
				     SO_ACCEPTCONN, SO_PROTOCOL, SO_LINGER };
	static const int values[] = { 0, 1, 1000, 3000, 65536, 300000, -1, INT32_MAX };
	static const socklen_t sizes[] = { 0, 1, 3, 4, 16, 100, (socklen_t)-1 };
	int option = ONE_OF(names), value[32] = { ONE_OF(values) }, rc;
	struct timeval t = { below(3), seldom(4) ? 1000000 : 0 };
	socklen_t n = seldom(3) ? ONE_OF(sizes) : 16;

	/* The machine decides how large a buffer may be, and when a small buffer is full. */
	if ((option == SO_RCVBUF && (unsigned)value[0] > 65536) || option == SO_SNDBUF)
		value[0] = option == SO_RCVBUF || is_unix(fd) ? 65536 : 1000;
	printf("	%d %d %d\n", option, value[0], (int)n);
	if (option == SO_RCVTIMEO || option == SO_SNDTIMEO)
		memcpy(value, &t, sizeof t);
	if (below(2) == 0) {
		rc = setsockopt(fd, SOL_SOCKET, option, data_odd(value), n);
		said("setsockopt", rc);
		n = sizeof value;
		if (rc == 0 && getsockopt(fd, SOL_SOCKET, option, value, &n) == 0)
			printf("	is %d\n", value[0]);
		return;
	}
	value[0] = 77;
	rc = getsockopt(fd, SOL_SOCKET, option, data_odd(value), seldom(20) ?
			(socklen_t *)null : &n);
	if (rc == 0)
		printf("	%d %d\n", value[0], (int)n);
	said("getsockopt", rc);
}

static void call_send(int fd)
{
	static const int flags[] = { MSG_DONTWAIT, MSG_NOSIGNAL, MSG_EOR, MSG_CONFIRM };
	static const int parts[] = { 0, 1, 1, 2, 1025 };
	struct iovec v[2] = { { data, below(60) }, { data, below(60) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)ONE_OF(parts) };
	int with = MSG_NOSIGNAL | BITS(flags, 4, 0);

	memset(data, (int)below(256), 400);
	if (below(2) == 0)
		said("send", send(fd, data_odd(data), below(400), with));
	else
		said("sendmsg", sendmsg(fd, seldom(20) ? (struct msghdr *)null : &m, with));
}

static void call_receive(int fd)
{
	static const int flags[] = { MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC };
	static const socklen_t sizes[] = { 0, 1, 128, (socklen_t)-1 };
	struct sockaddr_storage a;
	struct iovec v = { data, below(60) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	socklen_t n = ONE_OF(sizes);
	int with = BITS(flags, 4, MSG_NOSIGNAL);
	long rc;

	memset(data, 0, 500);
	switch (below(3)) {
	case 0:
		rc = recv(fd, data_odd(data), below(400), with);
		break;
	case 1:
		rc = recvfrom(fd, data, below(400), with, (struct sockaddr *)&a, &n);
		break;
	default:
		rc = recvmsg(fd, seldom(20) ? (struct msghdr *)null : &m, with);
	}
	printf("	%d %#x %d\n", fd, (unsigned)with, (int)n);
	said("receive", rc);
	show(data, with & MSG_TRUNC ? 0 : 500);
}

#endif /* ODD_SOCKET_H */
