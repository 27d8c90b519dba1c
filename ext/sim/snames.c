/* SPDX-License-Identifier: MIT */
/* snames.c: the names of libc, as hosts call them. */

/*
 * sim.flags gives the linker --wrap for each name here, in a step that links the
 * program's own objects to one (-r). So a call of read() there comes to
 * __wrap_read(), below. Libraries keep libc's names, and so does this. A thread of
 * a host gets the simulated kernel. Any other caller gets libc.
 *
 * Calls that wait do so in scalls.c. Results are -errno there, and become errno
 * here.
 *
 * Names that a host must not call are in srefused.c. Names that compute go to libc, and
 * sim.names lists them. syscall() is in snfile.c.
 */

#define _GNU_SOURCE		/* POLLRDHUP, accept4(), pipe2() */
#include "snames.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define SOCK_KINDS	15	/* the bits that are no flags */
#define PROTOCOLS	263
#define MPTCP		262

/* Reads and writes. */

NAME(ssize_t, read, (int fd, void *buf, size_t size))
{
	struct sim_boot *b = enter_point();
	int rc;

	if (b != NULL && size == 0 && sim_socket_of(b, fd, &rc) != NULL)
		return pointed(0);	/* recv() would wait */
	return b == NULL ? read(fd, buf, size) :
		pointed(sim_read(b, fd, buf, size, 0, NULL, NULL, SIM_BY_FILE));
}

NAME(ssize_t, write, (int fd, const void *buf, size_t size))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? write(fd, buf, size) :
		pointed(sim_write(b, fd, buf, size, 0, NULL, 0, SIM_BY_FILE));
}

NAME(ssize_t, recvfrom, (int fd, void *buf, size_t size, int flags,
			 struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter_point();
	ssize_t rc;

	if (b != NULL)
		return pointed(sim_receive(b, fd, buf, size, flags, a, n,
					  SIM_BY_FILE));
	rc = recvfrom(fd, buf, size, flags, a, n);
	if (rc >= 0)
		sim_real_answer(a, n);
	return rc;
}

NAME(ssize_t, recv, (int fd, void *buf, size_t size, int flags))
{
	return wrap_recvfrom(fd, buf, size, flags, NULL, NULL);
}

NAME(ssize_t, sendto, (int fd, const void *buf, size_t size, int flags,
		       const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter_point();
	struct sockaddr_in room;

	if (b == NULL && a != NULL)
		(void)sim_real_bind(fd);
	return b == NULL ? sendto(fd, buf, size, flags,
				  sim_real_address(a, n, &room), n) :
		pointed(sim_send(b, fd, buf, size, flags, a, n, SIM_BY_FILE));
}

NAME(ssize_t, send, (int fd, const void *buf, size_t size, int flags))
{
	return wrap_sendto(fd, buf, size, flags, NULL, 0);
}

NAME(ssize_t, writev, (int fd, const struct iovec *v, int nr))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? writev(fd, v, nr) :
		pointed(sim_writev(b, fd, v, nr, SIM_BY_FILE));
}

NAME(ssize_t, readv, (int fd, const struct iovec *v, int nr))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? readv(fd, v, nr) :
		pointed(sim_readv(b, fd, v, nr, SIM_BY_FILE));
}

NAME(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags))
{
	struct sim_boot *b = enter_point();

	if (b == NULL && m->msg_name != NULL && sim_is_real)
		usim_fail("sendmsg() to an address has no form for --real: see "
			  "ext/sim/README.md");
	return b == NULL ? sendmsg(fd, m, flags) :
		pointed(sim_send_message(b, fd, m, flags, SIM_BY_FILE));
}

NAME(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags))
{
	struct sim_boot *b = enter_point();
	ssize_t rc;

	if (b != NULL)
		return pointed(sim_receive_message(b, fd, m, flags, SIM_BY_FILE));
	rc = recvmsg(fd, m, flags);
	if (rc >= 0)
		sim_real_answer(m->msg_name, &m->msg_namelen);
	return rc;
}

NAME(ssize_t, sendfile, (int out, int in, off_t *offset, size_t size))
{
	struct sim_boot *b = enter();

	return b == NULL ? sendfile(out, in, offset, size) :
		answer(sim_send_file(b, out, in, offset, size, SIM_BY_FILE));
}

ALIAS(ssize_t, sendfile64, (int out, int in, off_t *offset, size_t size), sendfile)

/* Sockets. */

/*
 * Returns 0 if Linux has such a socket, and it is simulated. A host has no IPv6. Most
 * programs then go on with IPv4.
 */
static int socket_check(const char *call, int domain, int type, int protocol)
{
	int kind = type & SOCK_KINDS;
	bool is_stream = kind == SOCK_STREAM;

	if (type & ~(SOCK_KINDS | SOCK_NONBLOCK | SOCK_CLOEXEC))
		return -EINVAL;
	if (domain < 0 || domain >= AF_MAX || domain == AF_INET6 || domain == AF_UNSPEC)
		return -EAFNOSUPPORT;
	if (kind > SOCK_PACKET)
		return -EINVAL;
	if (domain == AF_UNIX && protocol != 0 && protocol != AF_UNIX)
		return -EPROTONOSUPPORT;
	if (domain == AF_INET && (protocol < 0 || protocol >= PROTOCOLS))
		return -EINVAL;
	if (kind == SOCK_RDM || kind == 0 || (domain == AF_INET && kind == SOCK_SEQPACKET))
		return -ESOCKTNOSUPPORT;
	if (domain == AF_INET && is_stream && protocol != 0 && protocol != IPPROTO_TCP &&
	    protocol != IPPROTO_SCTP && protocol != MPTCP)
		return -EPROTONOSUPPORT;
	if (domain == AF_INET && kind == SOCK_DGRAM && protocol != 0 &&
	    protocol != IPPROTO_UDP && protocol != IPPROTO_ICMP && protocol != IPPROTO_UDPLITE)
		return -EPROTONOSUPPORT;
	if ((domain != AF_INET && domain != AF_UNIX) ||
	    (kind != SOCK_STREAM && kind != SOCK_DGRAM && kind != SOCK_SEQPACKET) ||
	    (domain == AF_INET && protocol != 0 && protocol != IPPROTO_TCP &&
	     protocol != IPPROTO_UDP))
		usim_fail("%s(%d, %d, %d) is not simulated", call, domain, kind, protocol);
	return 0;
}

static int socket_by(struct sim_boot *b, int domain, int type, int protocol)
{
	int kind = type & SOCK_KINDS, flags = type & (O_NONBLOCK | O_CLOEXEC);
	int rc = socket_check("socket", domain, type, protocol);

	if (rc != 0)
		return rc;
	return sim_fd(b, domain == AF_UNIX ? sim_unix(b, kind, flags) :
		      sim_socket(b, kind, flags));
}

NAME(int, socket, (int domain, int type, int protocol))
{
	struct sim_boot *b = enter();

	return b == NULL ? socket(domain, type, protocol) :
		(int)answer(socket_by(b, domain, type, protocol));
}

NAME(int, socketpair, (int domain, int type, int protocol, int fds[2]))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return socketpair(domain, type, protocol, fds);
	if (type & ~(SOCK_KINDS | SOCK_NONBLOCK | SOCK_CLOEXEC))
		return (int)answer(-EINVAL);
	if (fds == NULL)
		return (int)answer(-EFAULT);
	rc = socket_check("socketpair", domain, type, protocol);
	if (rc != 0 || domain != AF_UNIX)
		return (int)answer(rc != 0 ? rc : -EOPNOTSUPP);
	return (int)answer(sim_unix_pair(b, type & SOCK_KINDS,
					 type & (O_NONBLOCK | O_CLOEXEC), fds));
}

NAME(int, bind, (int fd, const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter();
	struct sockaddr_in room;
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return bind(fd, sim_real_address(a, n, &room), n);
	f = sim_socket_of(b, fd, &rc);
	if (f != NULL)
		rc = sim_address_check(a, n);
	return (int)answer(rc != 0 ? rc : f->f_ops->o_socket->s_bind(f, a, n));
}

NAME(int, listen, (int fd, int backlog))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return listen(fd, backlog);
	f = sim_socket_of(b, fd, &rc);
	return (int)answer(f == NULL ? rc : f->f_ops->o_socket->s_listen(f, backlog));
}

NAME(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags))
{
	struct sim_boot *b = enter_point();
	int rc;

	if (b != NULL)
		return (int)pointed(sim_accept(b, fd, flags, a, n, SIM_BY_FILE));
	rc = accept4(fd, a, n, flags);
	if (rc >= 0)
		sim_real_answer(a, n);
	return rc;
}

NAME(int, accept, (int fd, struct sockaddr *a, socklen_t *n))
{
	return wrap_accept4(fd, a, n, 0);
}

NAME(int, connect, (int fd, const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter_point();
	struct sockaddr_in room;

	return b == NULL ? connect(sim_real_bind(fd),
				   sim_real_address(a, n, &room), n) :
		(int)pointed(sim_connect(b, fd, a, n, SIM_BY_FILE));
}

NAME(int, shutdown, (int fd, int how))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return shutdown(fd, how);
	f = sim_socket_of(b, fd, &rc);
	return (int)answer(f == NULL ? rc : f->f_ops->o_socket->s_shutdown(f, how));
}

NAME(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL) {
		rc = getsockname(fd, a, n);
		if (rc == 0)
			sim_real_answer(a, n);
		return rc;
	}
	f = sim_socket_of(b, fd, &rc);
	if (f != NULL)
		rc = sim_room_check(a, n);
	if (rc == 0)
		f->f_ops->o_socket->s_name(f, a, n);
	return (int)answer(rc);
}

NAME(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL) {
		rc = getpeername(fd, a, n);
		if (rc == 0)
			sim_real_answer(a, n);
		return rc;
	}
	f = sim_socket_of(b, fd, &rc);
	if (f != NULL)
		rc = f->f_ops->o_socket->s_peer(f, NULL, NULL);
	if (rc == 0)
		rc = sim_room_check(a, n);
	return (int)answer(rc != 0 ? rc : f->f_ops->o_socket->s_peer(f, a, n));
}

NAME(int, setsockopt, (int fd, int level, int name, const void *value,
		       socklen_t n))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return setsockopt(fd, level, name, value, n);
	f = sim_socket_of(b, fd, &rc);
	return (int)answer(f == NULL ? rc : sim_option(f, level, name, value, n));
}

NAME(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *n))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return getsockopt(fd, level, name, value, n);
	f = sim_socket_of(b, fd, &rc);
	return (int)answer(f == NULL ? rc : sim_option_get(f, level, name, value, n));
}

/* Waits for several files. */

/* Returns whether a call may have this length; NULL: it has none. */
static bool is_spec(const struct timespec *t)
{
	return t == NULL || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < UTIME_S);
}

static utime_ns until_of(const struct sim_boot *b, const struct timespec *t)
{
	return t == NULL ? UNEVER :
		sim_after(b->b_host, sim_ns_of(t));
}

static utime_ns until_ms(const struct sim_boot *b, int ms)
{
	return ms < 0 ? UNEVER : sim_after(b->b_host, ms * UTIME_MS);
}

NAME(int, poll, (struct pollfd *fds, nfds_t nr, int ms))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? poll(fds, nr, ms) :
		(int)pointed(sim_poll(b, fds, nr, until_ms(b, ms)));
}

/* A signal that is pending, and that the mask lets through, ends a call at once. */
static int poll_masked(struct sim_boot *b, struct pollfd *fds, size_t nr,
		       utime_ns until, const sigset_t *mask)
{
	struct sim_mask *q = sim_mask_begin(b, mask);
	int rc = sim_poll(b, fds, nr, until);

	if (rc == 0 && mask != NULL && sim_signals_handle(b) != 0)
		rc = -EINTR;
	sim_mask_end(b, q);
	return rc;
}

NAME(int, ppoll, (struct pollfd *fds, nfds_t nr, const struct timespec *t,
		  const sigset_t *mask))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? ppoll(fds, nr, t, mask) :
		(int)pointed(!is_spec(t) ? -EINVAL :
			    poll_masked(b, fds, nr, until_of(b, t), mask));
}

/* Returns what poll() is asked for a descriptor of select(). */
static short asked(int fd, const fd_set *in, const fd_set *out, const fd_set *odd)
{
	return (short)((in != NULL && FD_ISSET(fd, in) ? POLLIN : 0) |
		       (out != NULL && FD_ISSET(fd, out) ? POLLOUT : 0) |
		       (odd != NULL && FD_ISSET(fd, odd) ? POLLPRI : 0));
}

/* Leaves fd in a set if one of its bits has come. Returns 1, or 0. */
static int keep(int fd, fd_set *set, int has)
{
	if (set == NULL || !FD_ISSET(fd, set))
		return 0;
	if (!has)
		FD_CLR(fd, set);
	return has != 0;
}

static int select_by(struct sim_boot *b, int nr, fd_set *in, fd_set *out,
		     fd_set *odd, utime_ns until, const sigset_t *mask)
{
	struct pollfd fds[SIM_FDS];
	int i, ready = 0, rc;

	if (nr < 0)
		return -EINVAL;
	nr = nr < SIM_FDS ? nr : SIM_FDS;
	for (i = 0; i < nr; i++) {
		fds[i] = (struct pollfd) { i, asked(i, in, out, odd), 0 };
		if (fds[i].events == 0)
			fds[i].fd = -1;
		else if (sim_file_any(b, i) == NULL)
			return -EBADF;
	}
	rc = poll_masked(b, fds, (size_t)nr, until, mask);
	for (i = 0; rc >= 0 && i < nr; i++) {
		ready += keep(i, in, fds[i].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL));
		ready += keep(i, out, fds[i].revents & (POLLOUT | POLLERR | POLLNVAL));
		ready += keep(i, odd, fds[i].revents & (POLLPRI | POLLNVAL));
	}
	return rc < 0 ? rc : ready;
}

NAME(int, pselect, (int nr, fd_set *in, fd_set *out, fd_set *odd,
		    const struct timespec *t, const sigset_t *mask))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? pselect(nr, in, out, odd, t, mask) :
		(int)pointed(!is_spec(t) ? -EINVAL :
			    select_by(b, nr, in, out, odd, until_of(b, t), mask));
}

NAME(int, select, (int nr, fd_set *in, fd_set *out, fd_set *odd,
		   struct timeval *t))
{
	struct sim_boot *b = enter_point();
	utime_ns until = UNEVER;
	int rc;

	if (b == NULL)
		return select(nr, in, out, odd, t);
	if (t != NULL && (t->tv_sec < 0 || t->tv_usec < 0))
		return (int)pointed(-EINVAL);
	if (t != NULL)
		until = sim_after(b->b_host, sim_ns_of_timeval(t));
	rc = select_by(b, nr, in, out, odd, until, NULL);
	if (t != NULL)		/* Linux says what is left */
		*t = sim_timeval_of(until <= sim_now() ? 0 :
				    sim_drifted(b->b_host, until - sim_now()));
	return (int)pointed(rc);
}

NAME(int, epoll_create1, (int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? epoll_create1(flags) :
		(int)answer(flags & ~O_CLOEXEC ? -EINVAL : sim_epoll(b, flags));
}

NAME(int, epoll_create, (int size))
{
	return size <= 0 ? (int)answer(-EINVAL) : wrap_epoll_create1(0);
}

NAME(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *e))
{
	struct sim_boot *b = enter();

	return b == NULL ? epoll_ctl(epfd, op, fd, e) :
		(int)answer(sim_epoll_change(b, epfd, op, fd, e));
}

NAME(int, epoll_wait, (int epfd, struct epoll_event *e, int nr, int ms))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? epoll_wait(epfd, e, nr, ms) :
		(int)pointed(sim_epoll_wait(b, epfd, e, nr, until_ms(b, ms)));
}

static int epoll_masked(struct sim_boot *b, int epfd, struct epoll_event *e, int nr,
			utime_ns until, const sigset_t *mask)
{
	struct sim_mask *q = sim_mask_begin(b, mask);
	int rc = sim_epoll_wait(b, epfd, e, nr, until);

	sim_mask_end(b, q);
	return rc;
}

NAME(int, epoll_pwait, (int epfd, struct epoll_event *e, int nr, int ms,
			const sigset_t *mask))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? epoll_pwait(epfd, e, nr, ms, mask) :
		(int)pointed(epoll_masked(b, epfd, e, nr, until_ms(b, ms), mask));
}

NAME(int, epoll_pwait2, (int epfd, struct epoll_event *e, int nr,
			 const struct timespec *t, const sigset_t *mask))
{
	struct sim_boot *b = enter_point();

	if (b == NULL)
		usim_fail("epoll_pwait2() outside of a host is not simulated");
	return (int)pointed(!is_spec(t) ? -EINVAL :
			   epoll_masked(b, epfd, e, nr, until_of(b, t), mask));
}

/* Counters and timers. */

NAME(int, eventfd, (unsigned count, int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? eventfd(count, flags) :
		(int)answer(sim_eventfd(b, count, flags));
}

NAME(int, eventfd_read, (int fd, eventfd_t *value))
{
	return wrap_read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

NAME(int, eventfd_write, (int fd, eventfd_t value))
{
	return wrap_write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

NAME(int, timerfd_create, (int clock, int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? timerfd_create(clock, flags) :
		(int)answer(sim_timerfd(b, clock, flags));
}

NAME(int, timerfd_settime, (int fd, int flags, const struct itimerspec *by,
			    struct itimerspec *old))
{
	struct sim_boot *b = enter();

	return b == NULL ? timerfd_settime(fd, flags, by, old) :
		(int)answer(sim_timer_set(b, fd, flags, by, old));
}

NAME(int, timerfd_gettime, (int fd, struct itimerspec *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? timerfd_gettime(fd, to) :
		(int)answer(sim_timer_get(b, fd, to));
}

NAME(int, sockatmark, (int fd))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sockatmark(fd);
	return sim_socket_of(b, fd, &rc) == NULL ? (int)answer(rc) : 0;
}

NAME(ssize_t, __read_chk, (int fd, void *buf, size_t size, size_t room))
{
	return (void)room, wrap_read(fd, buf, size);
}

NAME(ssize_t, __recv_chk, (int fd, void *buf, size_t size, size_t room, int flags))
{
	return (void)room, wrap_recv(fd, buf, size, flags);
}

NAME(ssize_t, __recvfrom_chk, (int fd, void *buf, size_t size, size_t room,
			       int flags, struct sockaddr *a, socklen_t *n))
{
	return (void)room, wrap_recvfrom(fd, buf, size, flags, a, n);
}

NAME(int, __poll_chk, (struct pollfd *fds, nfds_t nr, int ms, size_t room))
{
	return (void)room, wrap_poll(fds, nr, ms);
}
