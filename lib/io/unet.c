/* SPDX-License-Identifier: MIT */
/* unet.c: sockets that listen and connect, in a line each. */

/*
 * Nothing here keeps state. Addresses lie on the stack of the caller: the
 * kernel reads them only while the caller runs (uio.h).
 *
 * Sockets of TCP have TCP_NODELAY, and a listener hands it on to what it
 * accepts. Else the second of two short writes waits for the answer to the
 * first, for up to 40 ms.
 *
 * A filter that drops the first segment of a connection keeps newcomers from a
 * listener. Where that is refused (EPERM: Linux 6.18 asks for CAP_NET_ADMIN, but
 * not for sockets of UDP), the listener is bound to a device that does not exist.
 * The kernel looks at the device of a listener when it looks for the listener of
 * a newcomer, and each handshake has a device of its own from its first segment.
 * So a handshake that has begun ends as ever, and the backlog stays. Any user may
 * do that since Linux 5.7.
 *
 * REJECTED: getaddrinfo() with AI_NUMERICHOST, which never asks a server, but
 * makes the linker warn about each static program. The second way alone: it
 * refuses newcomers, who then do not find the next program that listens. To stop
 * newcomers by shutdown(): that resets the backlog. By listen(fd, 0): each accept
 * makes room for a newcomer. By IP_MINTTL or TCP_MD5SIG: connections inherit these,
 * or handshakes that have begun do not end.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1
#include "unet.h"
#include "upoll.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

UPREEMPT_NEVER;

union address {
	struct sockaddr     any;
	struct sockaddr_in  v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un  local;
};

static int error(void)
{
	return -errno;
}

/* Closes fd, and returns rc. */
static int drop(int fd, int rc)
{
	(void)u_close(fd);
	return rc;
}

/* Makes a socket, non-blocking and closed by exec. */
static int make(int family, int type)
{
#if !defined(UIO_PLAIN_SOCKETS)
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd >= 0 ? fd : error();
#else
	int fd = socket(family, type, 0);

	if (fd < 0)
		return error();
	return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
		fcntl(fd, F_SETFL, O_NONBLOCK) == 0 ? fd : drop(fd, error());
#endif
}

static int option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 :
		error();
}

/* Returns an option of a socket, which is not negative, or -errno. */
static int option_get(int fd, int name)
{
	int value = 0;
	socklen_t len = sizeof value;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value :
		error();
}

static bool is_inet(const struct sockaddr *a)
{
	return a->sa_family == AF_INET || a->sa_family == AF_INET6;
}

/* Makes a socket at an address. */
static int make_at(const struct sockaddr *a, socklen_t len, int type, int flags)
{
	int fd = flags & ~UNET_REUSEPORT ? -EINVAL : make(a->sa_family, type);
	int rc = 0;

	if (fd < 0)
		return fd;
	if (is_inet(a) && type == SOCK_STREAM &&
	    (rc = option(fd, SOL_SOCKET, SO_REUSEADDR, 1)) == 0)
		rc = option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (rc == 0 && a->sa_family == AF_INET6)
		rc = option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (rc == 0 && flags & UNET_REUSEPORT)
		rc = option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (rc == 0 && bind(fd, a, len) != 0)
		rc = error();
	return rc == 0 ? fd : drop(fd, rc);
}

int u_listen(const struct sockaddr *addr, socklen_t len, int backlog,
	     int flags)
{
	int fd = make_at(addr, len, SOCK_STREAM, flags);

	if (fd < 0)
		return fd;
	return listen(fd, backlog > 0 ? backlog : 1 << 20) == 0 ? fd :
		drop(fd, error());
}

#if defined(__linux__)
/* Those of <linux/filter.h>, which not every compiler finds. */
struct filter_step { uint16_t code; uint8_t yes, no; uint32_t k; };
struct filter { unsigned short nr; const struct filter_step *step; };

/* Drops segments that open a connection: with SYN, and without ACK. */
static int drop_openings(int fd)
{
	static const struct filter_step step[] = {
		{ 0x30, 0, 0, 13 },		/* load a byte: the flags */
		{ 0x54, 0, 0, 0x12 },		/* and: SYN, ACK */
		{ 0x15, 0, 1, 0x02 },		/* is equal: SYN alone */
		{ 0x06, 0, 0, 0 },		/* return: drop */
		{ 0x06, 0, 0, ~0u }		/* return: take all of it */
	};
	struct filter f = { sizeof step / sizeof step[0], step };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof f) == 0 ?
		0 : error();
}

/*
 * Binds to a device that does not exist: newcomers do not find the socket. Only
 * CAP_NET_RAW may bind again what is bound.
 */
static int bind_to_none(int fd)
{
#if defined(SO_BINDTOIFINDEX)
	return option_get(fd, SO_BINDTOIFINDEX) == INT_MAX ? 0 :
		option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, INT_MAX);
#else
	return (void)fd, -ENOSYS;
#endif
}

static int keep_off(int fd)
{
	int rc = drop_openings(fd);

	return rc == -EPERM && bind_to_none(fd) == 0 ? 0 : rc;
}
#else
static int keep_off(int fd)
{
	return (void)fd, -ENOSYS;
}
#endif

int u_unlisten(int fd)
{
	union address a;
	socklen_t len = sizeof a;
	int listens = option_get(fd, SO_ACCEPTCONN);

	if (listens <= 0)
		return listens < 0 ? listens : -EINVAL;
	if (getsockname(fd, &a.any, &len) != 0)
		return error();
	if (is_inet(&a.any))
		return keep_off(fd);
	return shutdown(fd, SHUT_RD) == 0 ? 0 : error();
}

int u_dial(const struct sockaddr *addr, socklen_t len, utime_ns until)
{
	int fd = make(addr->sa_family, SOCK_STREAM);
	int rc;

	if (fd < 0)
		return fd;
	rc = is_inet(addr) ? option(fd, IPPROTO_TCP, TCP_NODELAY, 1) : 0;
	if (rc == 0)
		rc = u_connect(fd, addr, len, until);
	if (rc != 0)
		return drop(fd, rc);
	upoll_made(fd);
	return fd;
}

/* Sets *a to the address of a host. Returns its length, or -EINVAL. */
static int host_address(union address *a, const char *host, int port)
{
	memset(a, 0, sizeof *a);
	if (port < 0 || port > 65535)
		return -EINVAL;
	if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port   = htons((uint16_t)port);
		return sizeof a->v4;
	}
	if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1)
		return -EINVAL;
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port   = htons((uint16_t)port);
	return sizeof a->v6;
}

/* Makes a socket at a host. NULL: all addresses, also if there is no IPv6. */
static int open_at(const char *host, int port, int flags,
		   int (*open)(const union address *a, int len, int what,
			       int flags), int what)
{
	union address a;
	int len = host_address(&a, host != NULL ? host : "::", port);
	int fd = len > 0 ? open(&a, len, what, flags) : len;

	if (host == NULL && fd == -EAFNOSUPPORT)
		return open_at("0.0.0.0", port, flags, open, what);
	return fd;
}

static int open_tcp(const union address *a, int len, int backlog, int flags)
{
	return u_listen(&a->any, (socklen_t)len, backlog, flags);
}

static int open_udp(const union address *a, int len, int type, int flags)
{
	return make_at(&a->any, (socklen_t)len, type, flags);
}

int u_listen_tcp(const char *host, int port, int backlog, int flags)
{
	return open_at(host, port, flags, open_tcp, backlog);
}

int u_bind_udp(const char *host, int port, int flags)
{
	return open_at(host, port, flags, open_udp, SOCK_DGRAM);
}

int u_dial_tcp(const char *host, int port, utime_ns until)
{
	union address a;
	int len = host_address(&a, host != NULL ? host : "127.0.0.1", port);

	return len > 0 ? u_dial(&a.any, (socklen_t)len, until) : len;
}

/* Sets *a to the address of a path. Returns its length, or an error. */
static int path_address(union address *a, const char *path)
{
	size_t len = path != NULL ? strlen(path) : 0;

	memset(a, 0, sizeof *a);
	if (len == 0)			/* bind() would choose a name */
		return -EINVAL;
	if (len >= sizeof a->local.sun_path)
		return -ENAMETOOLONG;
	a->local.sun_family = AF_UNIX;
	memcpy(a->local.sun_path, path, len);
	if (path[0] != '@')
		return sizeof a->local;
	a->local.sun_path[0] = 0;
	return (int)(offsetof(struct sockaddr_un, sun_path) + len);
}

int u_listen_unix(const char *path, int backlog)
{
	union address a;
	int len = path_address(&a, path);

	return len > 0 ? u_listen(&a.any, (socklen_t)len, backlog, 0) : len;
}

int u_dial_unix(const char *path, utime_ns until)
{
	union address a;
	int len = path_address(&a, path);

	return len > 0 ? u_dial(&a.any, (socklen_t)len, until) : len;
}

int u_port(int fd)
{
	union address a;
	socklen_t len = sizeof a;

	if (getsockname(fd, &a.any, &len) != 0)
		return error();
	if (!is_inet(&a.any))
		return -EINVAL;
	return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port :
		     a.v6.sin6_port);
}

/*
 * A message of a byte, with room for one descriptor. CMSG_SPACE would have room
 * for two, and the second would be lost, but open.
 */
struct letter {
	struct msghdr m;
	struct iovec  v;
	char          byte;
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(sizeof(int))];
	} u;
};

static void letter_init(struct letter *l)
{
	memset(l, 0, sizeof *l);
	l->v.iov_base       = &l->byte;
	l->v.iov_len        = 1;
	l->m.msg_iov        = &l->v;
	l->m.msg_iovlen     = 1;
	l->m.msg_control    = &l->u;
	l->m.msg_controllen = CMSG_LEN(sizeof(int));
}

int u_send_fd(int sock, int fd, utime_ns until)
{
	struct letter l;
	ssize_t n;

	letter_init(&l);
	l.u.head.cmsg_level = SOL_SOCKET;
	l.u.head.cmsg_type  = SCM_RIGHTS;
	l.u.head.cmsg_len   = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(&l.u.head), &fd, sizeof fd);
	n = u_sendmsg(sock, &l.m, 0, until);
	return n < 0 ? (int)n : 0;
}

int u_recv_fd(int sock, utime_ns until)
{
#if defined(MSG_CMSG_CLOEXEC)
	int flags = MSG_CMSG_CLOEXEC;
#else
	int flags = 0;
#endif
	struct letter l;
	ssize_t n;
	int fd;

	letter_init(&l);
	n = u_recvmsg(sock, &l.m, flags, until);
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	if (l.m.msg_controllen < CMSG_LEN(sizeof fd))
		return l.m.msg_flags & MSG_CTRUNC ? -EMFILE : -EBADMSG;
	memcpy(&fd, CMSG_DATA(&l.u.head), sizeof fd);
#if !defined(MSG_CMSG_CLOEXEC)
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
	return fd;
}
