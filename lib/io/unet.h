/* SPDX-License-Identifier: MIT */
/* unet.h: sockets that listen and connect, in a line each. */

#ifndef UNET_H
#define UNET_H

/*
 *	int fd = u_listen_tcp(NULL, 7000, 0, 0);	all addresses
 *	int fd = u_dial_tcp("127.0.0.1", 7000, uafter(UTIME_S));
 *
 * RESULTS: a descriptor, which is non-blocking and is closed by exec; or the
 * negative of an error number: errors of socket(2), bind(2), listen(2) and
 * connect(2), and those of uio.h where a deadline is given.
 *
 * host is a number: "127.0.0.1", "::1". NULL is all addresses of the machine
 * for listeners, else the machine itself. -EINVAL: host is no number, or port
 * is none. For names, u_getaddrinfo() (ufile.h) makes a list of addresses. It
 * ends at its deadline, too, so one deadline holds for both:
 *
 *	int fd = -1;
 *
 *	if (u_getaddrinfo(host, "80", &hints, &list, until) == 0) {
 *		for (a = list; a != NULL && fd < 0; a = a->ai_next)
 *			fd = u_dial(a->ai_addr, a->ai_addrlen, until);
 *		freeaddrinfo(list);
 *	}
 *
 * path is the path of a unix socket. "@name" is a name without a file (Linux).
 * -EADDRINUSE: there is such a file, maybe of a server that has ended.
 * -ENAMETOOLONG; -EINVAL: it is NULL or empty. Flags that are unknown are -EINVAL.
 *
 * WHO MAY CALL WHAT: threads and native threads. Functions without a deadline
 * never wait.
 */

#include "uio.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * More sockets may listen at the same port, with this flag each: those of the
 * processors of a server, or of several processes of a user. The system deals
 * connections to them, and datagrams: at random, but the same sender has always
 * the same listener.
 */
#define UNET_REUSEPORT	1

/*
 * Makes a socket that listens at an address. Returns the descriptor, or an error.
 * backlog 0: as many as the system allows, as for the next two.
 */
int u_listen(const struct sockaddr *addr, socklen_t len, int backlog,
	     int flags);

/* Makes a socket that listens at a port of TCP. */
int u_listen_tcp(const char *host, int port, int backlog, int flags);

/* Makes a socket that listens at a path. */
int u_listen_unix(const char *path, int backlog);

/*
 * Lets the kernel take no more clients for a listener. Those that it has taken
 * can be accepted, and handshakes that have begun end as ever. Newcomers of TCP
 * are not answered: they ask again after a second, and then find the socket
 * closed, or another that listens. Newcomers of a unix socket are refused. So
 * no connection is lost if a program calls this, lets a moment pass for the
 * handshakes, accepts what is there, and closes: see doc/servers.md.
 *
 * New kernels (seen: Linux 6.18) keep silence for programs with CAP_NET_ADMIN.
 * There other programs have newcomers of TCP refused at once; or, while sockets
 * listen at the port by UNET_REUSEPORT, not answered, as above.
 *
 * It lasts, and is for all who share the socket: so not for a listener that
 * another process goes on with. 0, as by each later call; -EINVAL: the socket does
 * not listen, and is as before; -ENOTSOCK and so on; -EPERM: the caller lacks
 * CAP_NET_ADMIN, and the socket is bound to a device, or this is Linux before 5.7;
 * -ENOSYS: the system has no such thing (Linux has).
 */
int u_unlisten(int fd);

/*
 * Makes a socket that is connected to an address. Returns the descriptor, or an
 * error, after which no socket is left, as do the next two.
 */
int u_dial(const struct sockaddr *addr, socklen_t len, utime_ns until);

/* Makes a socket that is connected to a port of TCP. */
int u_dial_tcp(const char *host, int port, utime_ns until);

/* Makes a socket that is connected to a path. */
int u_dial_unix(const char *path, utime_ns until);

/* Makes a socket for datagrams. port 0: any that is free. */
int u_bind_udp(const char *host, int port, int flags);

/* Returns the port of a socket of TCP or UDP, or an error. */
int u_port(int fd);

/*
 * Sends a copy of fd over a unix socket, with a byte. The caller still has fd.
 * 0, or an error of u_sendmsg().
 */
int u_send_fd(int sock, int fd, utime_ns until);

/*
 * Receives a descriptor, which is closed by exec. An error of u_recvmsg();
 * -EPIPE: the other end has closed; -EBADMSG: a byte came without a descriptor;
 * -EMFILE: there is no number for it, and it is lost.
 */
int u_recv_fd(int sock, utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UNET_H */
