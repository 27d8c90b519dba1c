/* SPDX-License-Identifier: MIT */
/* sio.c: the calls of lib/io/, in hosts. */

/*
 * sim.flags leads u_read() and its like here. A thread of a host gets the
 * simulated kernel, with the results and the deadlines of uio.h: a call waits
 * until its deadline, even if the descriptor is non-blocking. Any other caller
 * gets lib/io/. Only programs that call one of these link this file, and so lib/io/.
 *
 * Calls for processes are refused: REFUSED below. Servers of userve.h are in
 * sserve.c, signals in ssignal.c.
 */

#define _GNU_SOURCE		/* struct ucred */
#include "snames.h"
#include "ufile.h"
#include "unet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define REFUSED(X)							\
	X(u_waitpid)

REFUSED(REFUSE)

/*
 * Refuses what --real does not translate: addresses and paths of these calls would
 * be those of the machine.
 */
static void outside(const char *call)
{
	static const char *const placed[] = {
		"u_connect", "u_dial", "u_dial_tcp", "u_dial_unix", "u_listen",
		"u_listen_tcp", "u_listen_unix", "u_bind_udp", "u_accept",
		"u_sendto", "u_recvfrom", "u_sendmsg", "u_recvmsg", "u_open",
		"u_stat", "u_rename", "u_unlink", "u_getaddrinfo", "u_getnameinfo"
	};
	size_t i;

	for (i = 0; sim_is_real && i < sizeof placed / sizeof placed[0]; i++)
		if (strcmp(call, placed[i]) == 0)
			usim_fail("%s() has no form for --real: see ext/sim/README.md",
				  call);
}

/* Defines a call: lib/io/'s outside of hosts; `call` in them, which may use b and at. */
#define CALL(type, name, args, values, call)				\
	NAME(type, name, args)						\
	{								\
		struct sim_boot *b = enter();				\
		utime_ns at = time_of(until);				\
									\
		if (b == NULL)						\
			outside(#name);					\
		if (b == NULL)						\
			return name values;				\
		return until < 0 ? (type)-EINVAL : (type)(call);	\
	}

CALL(ssize_t, u_read, (int fd, void *buf, size_t size, utime_ns until),
     (fd, buf, size, until), sim_read(b, fd, buf, size, 0, NULL, NULL, at))
CALL(ssize_t, u_write, (int fd, const void *buf, size_t size, utime_ns until),
     (fd, buf, size, until), sim_write(b, fd, buf, size, 0, NULL, 0, at))
CALL(ssize_t, u_readv, (int fd, const struct iovec *v, int nr, utime_ns until),
     (fd, v, nr, until), sim_readv(b, fd, v, nr, at))
CALL(ssize_t, u_writev, (int fd, const struct iovec *v, int nr, utime_ns until),
     (fd, v, nr, until), sim_writev(b, fd, v, nr, at))
CALL(ssize_t, u_recv, (int fd, void *buf, size_t size, int flags, utime_ns until),
     (fd, buf, size, flags, until),
     sim_receive(b, fd, buf, size, flags, NULL, NULL, at))
CALL(ssize_t, u_send, (int fd, const void *buf, size_t size, int flags,
		       utime_ns until),
     (fd, buf, size, flags, until),
     sim_send(b, fd, buf, size, flags, NULL, 0, at))
CALL(ssize_t, u_recvfrom, (int fd, void *buf, size_t size, int flags,
			   struct sockaddr *from, socklen_t *len, utime_ns until),
     (fd, buf, size, flags, from, len, until),
     sim_receive(b, fd, buf, size, flags, from, len, at))
CALL(ssize_t, u_sendto, (int fd, const void *buf, size_t size, int flags,
			 const struct sockaddr *to, socklen_t len, utime_ns until),
     (fd, buf, size, flags, to, len, until),
     sim_send(b, fd, buf, size, flags, to, len, at))
CALL(ssize_t, u_recvmsg, (int fd, struct msghdr *m, int flags, utime_ns until),
     (fd, m, flags, until), sim_receive_message(b, fd, m, flags, at))
CALL(ssize_t, u_sendmsg, (int fd, const struct msghdr *m, int flags, utime_ns until),
     (fd, m, flags, until), sim_send_message(b, fd, m, flags, at))

/* Reads or writes until all is done, nothing more comes, or an error ends it. */
static ssize_t do_all(struct sim_boot *b, bool writes, int fd, char *buf, size_t size,
		      utime_ns at)
{
	size_t all = 0;
	ssize_t nr = 1;

	for (; all < size && nr > 0; all += nr > 0 ? (size_t)nr : 0)
		nr = writes ? sim_write(b, fd, buf + all, size - all, 0, NULL, 0, at) :
			sim_read(b, fd, buf + all, size - all, 0, NULL, NULL, at);
	return all > 0 || nr >= 0 ? (ssize_t)all : nr;
}

CALL(ssize_t, u_read_all, (int fd, void *buf, size_t size, utime_ns until),
     (fd, buf, size, until), do_all(b, false, fd, buf, size, at))
CALL(ssize_t, u_write_all, (int fd, const void *buf, size_t size, utime_ns until),
     (fd, buf, size, until), do_all(b, true, fd, (char *)buf, size, at))

CALL(ssize_t, u_sendfile, (int out, int in, off_t *offset, size_t size,
			   utime_ns until),
     (out, in, offset, size, until),
     sim_send_file(b, out, in, offset, size, at))

/* Waits. */

static int poll_by(struct sim_boot *b, struct pollfd *fds, size_t nr, utime_ns at)
{
	int rc;

	do
		rc = sim_poll(b, fds, nr, at);
	while (rc == -EINTR);
	return rc == 0 && at != 0 ? -ETIMEDOUT : rc;
}

static int wait_by(struct sim_boot *b, int fd, int what, utime_ns at)
{
	struct pollfd p = { fd, (short)((what & UREAD ? POLLIN : 0) |
					(what & UWRITE ? POLLOUT : 0)), 0 };
	int rc;

	if (what < UREAD || what > (UREAD | UWRITE))
		return -EINVAL;
	rc = fd < 0 ? -EBADF : poll_by(b, &p, 1, at);
	if (rc > 0)
		return p.revents & POLLNVAL ? -EBADF : 0;
	return rc == 0 ? -EAGAIN : rc;
}

CALL(int, u_poll, (struct pollfd *fds, nfds_t nr, utime_ns until),
     (fds, nr, until), poll_by(b, fds, nr, at))
CALL(int, u_wait_fd, (int fd, int what, utime_ns until),
     (fd, what, until), wait_by(b, fd, what, at))

/* Threads that wait for the file look again, and find that it is gone. */
NAME(int, u_close, (int fd))
{
	struct sim_boot *b = enter();
	struct sim_file *f;

	if (b == NULL)
		return u_close(fd);
	f = sim_file(b, fd);
	if (f != NULL)
		sim_changed(f, POLLIN | POLLOUT);
	return sim_close_slow(b, fd);
}

NAME(int, u_trust, (int fd))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return u_trust(fd);
	return sim_file(b, fd) == NULL ? -EBADF : 0;
}

/* Connections. */

static int connect_by(struct sim_boot *b, int fd, const struct sockaddr *a,
		      socklen_t n, utime_ns at)
{
	int rc = sim_connect(b, fd, a, n, at);

	return rc == -EINPROGRESS || rc == -EALREADY ? -EAGAIN : rc;
}

CALL(int, u_accept, (int fd, struct sockaddr *a, socklen_t *n, int flags,
		     utime_ns until),
     (fd, a, n, flags, until), sim_accept(b, fd, flags, a, n, at))
CALL(int, u_connect, (int fd, const struct sockaddr *a, socklen_t n, utime_ns until),
     (fd, a, n, until), connect_by(b, fd, a, n, at))

/* Makes a socket of a kind. A descriptor or an error. */
static int socket_for(struct sim_boot *b, const struct sockaddr *a, int type)
{
	return a->sa_family == AF_UNIX ? sim_fd(b, sim_unix(b, type, O_NONBLOCK)) :
		a->sa_family != AF_INET ? -EAFNOSUPPORT :
		sim_fd(b, sim_socket(b, type, O_NONBLOCK));
}

/* Closes fd if rc is an error. Returns fd, or the error. */
static int unless(struct sim_boot *b, int fd, int rc)
{
	if (rc != 0)
		(void)sim_close(b, fd);
	return rc != 0 ? rc : fd;
}

static int bound(struct sim_boot *b, const struct sockaddr *a, socklen_t n, int type)
{
	int fd = socket_for(b, a, type), on = 1, rc;
	struct sim_file *f;

	if (fd < 0)
		return fd;
	f = sim_file(b, fd);
	rc = a->sa_family == AF_UNIX || type == SOCK_DGRAM ? 0 :
		f->f_ops->o_socket->s_option(f, SOL_SOCKET, SO_REUSEADDR, &on,
					     sizeof on);
	if (rc == 0)
		rc = f->f_ops->o_socket->s_bind(f, a, n);
	return unless(b, fd, rc);
}

static int listen_by(struct sim_boot *b, const struct sockaddr *a, socklen_t n,
		     int backlog, int flags)
{
	int fd = bound(b, a, n, SOCK_STREAM);
	struct sim_file *f = sim_file(b, fd);

	if (flags != 0)
		usim_fail("UNET_REUSEPORT is not simulated");
	return f == NULL ? fd : unless(b, fd,
		f->f_ops->o_socket->s_listen(f, backlog == 0 ? 4096 : backlog));
}

static int dial_by(struct sim_boot *b, const struct sockaddr *a, socklen_t n,
		   utime_ns at)
{
	int fd = socket_for(b, a, SOCK_STREAM);

	return fd < 0 ? fd : unless(b, fd, connect_by(b, fd, a, n, at));
}

NAME(int, u_listen, (const struct sockaddr *a, socklen_t n, int backlog, int flags))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		outside("u_listen");
	return b == NULL ? u_listen(a, n, backlog, flags) :
		listen_by(b, a, n, backlog, flags);
}

CALL(int, u_dial, (const struct sockaddr *a, socklen_t n, utime_ns until),
     (a, n, until), dial_by(b, a, n, at))

/* Makes an address of IPv4. IPv6 and names: -EINVAL. */
static int address(const char *host, int port, uint32_t none, struct sockaddr_in *to)
{
	*to = (struct sockaddr_in) { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port) };
	to->sin_addr.s_addr = htonl(none);
	if (port < 0 || port > 65535)
		return -EINVAL;
	return host == NULL || inet_pton(AF_INET, host, &to->sin_addr) == 1 ? 0 :
		-EINVAL;
}

static int path_address(const char *path, struct sockaddr_un *to, socklen_t *n)
{
	size_t size = strlen(path);

	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	if (size == 0)
		return -EINVAL;
	if (size >= sizeof to->sun_path)
		return -ENAMETOOLONG;
	memcpy(to->sun_path, path, size + 1);
	*n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
	if (path[0] == '@') {
		to->sun_path[0] = 0;
		--*n;
	}
	return 0;
}

NAME(int, u_listen_tcp, (const char *host, int port, int backlog, int flags))
{
	struct sim_boot *b = enter();
	struct sockaddr_in a;
	int rc;

	if (b == NULL)
		outside("u_listen_tcp");
	if (b == NULL)
		return u_listen_tcp(host, port, backlog, flags);
	rc = address(host, port, INADDR_ANY, &a);
	return rc != 0 ? rc :
		listen_by(b, (struct sockaddr *)&a, sizeof a, backlog, flags);
}

NAME(int, u_listen_unix, (const char *path, int backlog))
{
	struct sim_boot *b = enter();
	struct sockaddr_un a;
	socklen_t n;
	int rc;

	if (b == NULL)
		outside("u_listen_unix");
	if (b == NULL)
		return u_listen_unix(path, backlog);
	rc = path_address(path, &a, &n);
	return rc != 0 ? rc : listen_by(b, (struct sockaddr *)&a, n, backlog, 0);
}

static int dial_tcp(struct sim_boot *b, const char *host, int port, utime_ns at)
{
	struct sockaddr_in a;
	int rc = address(host, port, INADDR_LOOPBACK, &a);

	return rc != 0 ? rc : dial_by(b, (struct sockaddr *)&a, sizeof a, at);
}

static int dial_unix(struct sim_boot *b, const char *path, utime_ns at)
{
	struct sockaddr_un a;
	socklen_t n;
	int rc = path_address(path, &a, &n);

	return rc != 0 ? rc : dial_by(b, (struct sockaddr *)&a, n, at);
}

CALL(int, u_dial_tcp, (const char *host, int port, utime_ns until),
     (host, port, until), dial_tcp(b, host, port, at))
CALL(int, u_dial_unix, (const char *path, utime_ns until),
     (path, until), dial_unix(b, path, at))

NAME(int, u_bind_udp, (const char *host, int port, int flags))
{
	struct sim_boot *b = enter();
	struct sockaddr_in a;
	int rc;

	if (b == NULL)
		outside("u_bind_udp");
	if (b == NULL)
		return u_bind_udp(host, port, flags);
	if (flags != 0)
		usim_fail("UNET_REUSEPORT is not simulated");
	rc = address(host, port, INADDR_ANY, &a);
	return rc != 0 ? rc : bound(b, (struct sockaddr *)&a, sizeof a, SOCK_DGRAM);
}

NAME(int, u_unlisten, (int fd))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return u_unlisten(fd);
	f = sim_socket_of(b, fd, &rc);
	if (f != NULL)
		rc = f->f_ops->o_socket->s_unlisten(f);
	return rc;
}

NAME(int, u_port, (int fd))
{
	struct sim_boot *b = enter();
	struct sockaddr_in a = { .sin_family = 0 };
	socklen_t n = sizeof a;
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return u_port(fd);
	f = sim_socket_of(b, fd, &rc);
	if (f == NULL)
		return rc;
	f->f_ops->o_socket->s_name(f, (struct sockaddr *)&a, &n);
	return a.sin_family == AF_INET ? ntohs(a.sin_port) : -EAFNOSUPPORT;
}

/* Descriptors in messages. */

union control {
	struct cmsghdr header;
	char           room[CMSG_SPACE(sizeof(int))];
};

static int send_fd(struct sim_boot *b, int sock, int fd, utime_ns at)
{
	union control c = { .room = { 0 } };
	char byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = &c, .msg_controllen = sizeof c };
	ssize_t rc;

	c.header = (struct cmsghdr) { .cmsg_len = CMSG_LEN(sizeof fd),
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&c.header), &fd, sizeof fd);
	rc = sim_send_message(b, sock, &m, 0, at);
	return rc < 0 ? (int)rc : 0;
}

static int recv_fd(struct sim_boot *b, int sock, utime_ns at)
{
	union control c = { .room = { 0 } };
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = &c, .msg_controllen = sizeof c };
	ssize_t rc = sim_receive_message(b, sock, &m, 0, at);
	int fd;

	if (rc <= 0)
		return rc == 0 ? -EPIPE : (int)rc;
	if (m.msg_controllen == 0)
		return m.msg_flags & MSG_CTRUNC ? -EMFILE : -EBADMSG;
	memcpy(&fd, CMSG_DATA(&c.header), sizeof fd);
	return fd;
}

CALL(int, u_send_fd, (int sock, int fd, utime_ns until),
     (sock, fd, until), send_fd(b, sock, fd, at))
CALL(int, u_recv_fd, (int sock, utime_ns until), (sock, until),
     recv_fd(b, sock, at))

/*
 * Files. A call that has begun is neither cancelled nor ended by its deadline;
 * one whose deadline has passed does not begin.
 */

static int may_begin(utime_ns at)
{
	return at == 0 ? -EAGAIN : at <= sim_now() ? -ETIMEDOUT : 0;
}

#define FILE_CALL(type, name, args, values, call)			\
	CALL(type, name, args, values, may_begin(at) != 0 ?		\
	     (ssize_t)may_begin(at) : (ssize_t)(call))

FILE_CALL(int, u_open, (const char *path, int flags, mode_t mode, utime_ns until),
	  (path, flags, mode, until), sim_open(b, path, flags, mode))
FILE_CALL(ssize_t, u_pread, (int fd, void *buf, size_t size, off_t place,
			     utime_ns until),
	  (fd, buf, size, place, until), sim_read_at(b, fd, buf, size, place))
FILE_CALL(ssize_t, u_pwrite, (int fd, const void *buf, size_t size, off_t place,
			      utime_ns until),
	  (fd, buf, size, place, until), sim_write_at(b, fd, buf, size, place))
FILE_CALL(int, u_fsync, (int fd, utime_ns until), (fd, until),
	  sim_sync_at(b, fd))
FILE_CALL(int, u_stat, (const char *path, struct stat *to, utime_ns until),
	  (path, to, until), sim_stat(b, path, true, to))
FILE_CALL(int, u_rename, (const char *from, const char *to, utime_ns until),
	  (from, to, until), sim_rename(b, from, to, true))
FILE_CALL(int, u_unlink, (const char *path, utime_ns until), (path, until),
	  sim_unlink(b, path, false))

/* Names. Errors EAI_... become positive: U_EAI(). */

int sim_getaddrinfo(const char *name, const char *service,
		    const struct addrinfo *hints, struct addrinfo **list)
	__asm__("__wrap_getaddrinfo");
int sim_getnameinfo(const struct sockaddr *a, socklen_t n, char *host,
		    socklen_t host_size, char *service, socklen_t service_size,
		    int flags) __asm__("__wrap_getnameinfo");

static int positive(int rc)
{
	return rc < 0 ? -rc : rc;
}

FILE_CALL(int, u_getaddrinfo, (const char *host, const char *service,
			       const struct addrinfo *hints,
			       struct addrinfo **list, utime_ns until),
	  (host, service, hints, list, until),
	  positive(sim_getaddrinfo(host, service, hints, list)))
FILE_CALL(int, u_getnameinfo, (const struct sockaddr *a, socklen_t n, char *host,
			       socklen_t host_size, char *service,
			       socklen_t service_size, int flags, utime_ns until),
	  (a, n, host, host_size, service, service_size, flags, until),
	  positive(sim_getnameinfo(a, n, host, host_size, service, service_size,
				   flags)))
