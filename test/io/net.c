/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* net: sockets listen and connect at addresses of each kind, and descriptors
 * pass through unix sockets. After an error no descriptor is left. */
#include "either.h"
#include "uio.h"
#include "unet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#define SOON	uafter(20 * UTIME_S)

static int lowest_free(void)
{
	int fd = dup(0);

	CHECK(fd >= 0 && close(fd) == 0);
	return fd;
}

static bool is_set(int fd, int level, int name)
{
	socklen_t len = sizeof name;
	int is = 0;

	CHECK_IS(getsockopt(fd, level, name, &is, &len), 0);
	return is != 0;
}

static void close_all(const int *fd, int nr)
{
	while (nr-- > 0)
		CHECK_IS(u_close(fd[nr]), 0);
}

/* Sends a byte from fd[0], which has connected to fd[1]. Closes all. */
static void passes(int dialed, int listener)
{
	int fd[3] = { dialed, u_accept(listener, NULL, NULL, 0, SOON),
		      listener };
	char c = 0;

	CHECK(fd[0] >= 0 && fd[1] >= 0);
	CHECK(fcntl(fd[0], F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(fd[0], F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(fd[2], F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(fd[2], F_GETFD) & FD_CLOEXEC);
	CHECK_IS(u_write(fd[0], "x", 1, SOON), 1);
	CHECK(u_read(fd[1], &c, 1, SOON) == 1 && c == 'x');
	close_all(fd, 3);
}

static void tcp(void)
{
	int fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	int port = u_port(fd);
	int to;

	CHECK(fd >= 0 && port > 0);
	CHECK_IS(u_listen_tcp("127.0.0.1", port, 0, 0), -EADDRINUSE);
	CHECK_IS(u_listen_tcp("127.0.0.1", port, 0, UNET_REUSEPORT),
		 -EADDRINUSE);
	to = u_dial_tcp("127.0.0.1", port, SOON);
	CHECK(is_set(to, IPPROTO_TCP, TCP_NODELAY));
	passes(to, fd);
	CHECK_IS(u_dial_tcp("127.0.0.1", port, SOON), -ECONNREFUSED);
	/* The port can be used again at once. */
	CHECK_IS(u_close(u_listen_tcp("127.0.0.1", port, 1, 0)), 0);
	fd = u_listen_tcp(NULL, 0, 0, 0);
	passes(u_dial_tcp(NULL, u_port(fd), SOON), fd);
	fd = u_listen_tcp("::1", 0, 0, 0);
	if (fd >= 0)
		passes(u_dial_tcp("::1", u_port(fd), SOON), fd);
	else
		CHECK(fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL);
	CHECK_IS(u_listen_tcp("localhost", 0, 0, 0), -EINVAL);
	CHECK_IS(u_dial_tcp("1.2.3", 1, SOON), -EINVAL);
	CHECK_IS(u_dial_tcp(NULL, -1, SOON), -EINVAL);
	CHECK_IS(u_dial_tcp(NULL, 65536, SOON), -EINVAL);
	CHECK_IS(u_dial_tcp(NULL, 1, -1), -EINVAL);
	CHECK(u_port(-1) == -EBADF && u_port(0) < 0);
}

static void reuseport(void)
{
	int fd[2] = { u_listen_tcp("127.0.0.1", 0, 0, UNET_REUSEPORT) };
	int port = u_port(fd[0]);

	fd[1] = u_listen_tcp("127.0.0.1", port, 0, UNET_REUSEPORT);
	CHECK(fd[1] >= 0 && u_port(fd[1]) == port);
	close_all(fd, 2);
}

static void udp(void)
{
	int fd[2] = { u_bind_udp("127.0.0.1", 0, 0), u_bind_udp(NULL, 0, 0) };
	struct sockaddr_in to = { .sin_family = AF_INET };
	char c;

	CHECK(fd[0] >= 0 && fd[1] >= 0);
	to.sin_port        = htons((uint16_t)u_port(fd[1]));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_IS(u_sendto(fd[0], "y", 1, 0, (struct sockaddr *)&to, sizeof to,
		 SOON), 1);
	CHECK(u_recv(fd[1], &c, 1, 0, SOON) == 1 && c == 'y');
	CHECK_IS(u_bind_udp("127.0.0.1", u_port(fd[0]), 0), -EADDRINUSE);
	close_all(fd, 2);
}

static void local(void)
{
	char path[sizeof ((struct sockaddr_un *)0)->sun_path + 1];
	int fd;

	snprintf(path, sizeof path, "/tmp/s_net.%d." NAME, (int)getpid());
	fd = u_listen_unix(path, 0);
	CHECK(fd >= 0 && u_port(fd) == -EINVAL);
	CHECK_IS(u_listen_unix(path, 0), -EADDRINUSE);
	passes(u_dial_unix(path, SOON), fd);
	CHECK(u_dial_unix(path, SOON) == -ECONNREFUSED && unlink(path) == 0);
	CHECK_IS(u_dial_unix(path, SOON), -ENOENT);
#if defined(__linux__)
	path[0] = '@';
	fd = u_listen_unix(path, 0);
	CHECK_THAT(fd, >=, 0);
	passes(u_dial_unix(path, SOON), fd);
	CHECK_IS(u_dial_unix(path, SOON), -ECONNREFUSED);
#endif
	memset(path, 'a', sizeof path);
	path[sizeof path - 1] = 0;
	CHECK_IS(u_listen_unix(path, 0), -ENAMETOOLONG);
	CHECK_IS(u_dial_unix(path, SOON), -ENAMETOOLONG);
	CHECK_IS(u_listen_unix("", 0), -EINVAL);
	CHECK_IS(u_dial_unix("", SOON), -EINVAL);
	CHECK_IS(u_listen_unix(NULL, 0), -EINVAL);
	CHECK_IS(u_dial_unix(NULL, SOON), -EINVAL);
	CHECK_IS(u_listen_tcp("127.0.0.1", 0, 0, UNET_REUSEPORT << 1), -EINVAL);
}

/* Descriptors that pass. */

static int ends[2];

static void sends_late(void *arg)
{
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(u_send_fd(ends[0], *(int *)arg, SOON), 0);
}

static void without_room(int fd)
{
	struct rlimit was, less;

	CHECK_IS(getrlimit(RLIMIT_NOFILE, &was), 0);
	less = was;
	less.rlim_cur = 3;
	CHECK_IS(u_send_fd(ends[0], fd, SOON), 0);
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &less), 0);
	CHECK_IS(u_recv_fd(ends[1], SOON), -EMFILE);
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* Checks that the second descriptor of a message is closed. */
static void two_at_once(int fd)
{
	union {
		struct cmsghdr head;
		char           room[CMSG_SPACE(2 * sizeof(int))];
	} u;
	struct iovec v = { "t", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof u };
	int two[2] = { fd, fd };
	int first = dup(0), second = dup(0);

	memset(&u, 0, sizeof u);
	u.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof two),
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&u.head), two, sizeof two);
	CHECK_IS(u_sendmsg(ends[0], &m, 0, SOON), 1);
	CHECK(close(second) == 0 && close(first) == 0);
	CHECK(u_recv_fd(ends[1], SOON) == first && u_close(first) == 0);
	CHECK_IS(fcntl(second, F_GETFD), -1);
}

static void descriptors(void)
{
	static int tube[2];
	int copy;
	char c;

	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_IS(pipe(tube), 0);
	CHECK_IS(u_recv_fd(ends[1], UNOW), -EAGAIN);
	CHECK_IS(u_send_fd(ends[0], -1, SOON), -EBADF);
	CHECK_IS(u_send_fd(tube[1], 0, SOON), -ENOTSOCK);
	make(1, sends_late, &tube[1]);
	copy = u_recv_fd(ends[1], SOON);
	CHECK(copy >= 0 && copy != tube[1]);
	CHECK(fcntl(copy, F_GETFD) & FD_CLOEXEC);
	CHECK_IS(u_write(copy, "z", 1, SOON), 1);
	CHECK(u_read(tube[0], &c, 1, SOON) == 1 && c == 'z');
	without_room(copy);
	two_at_once(copy);
	CHECK_IS(u_write(ends[0], "b", 1, SOON), 1);
	CHECK_IS(u_recv_fd(ends[1], SOON), -EBADMSG);
	CHECK(u_close(ends[0]) == 0 && u_recv_fd(ends[1], SOON) == -EPIPE);
	CHECK(u_close(ends[1]) == 0 && u_close(copy) == 0);
	close_all(tube, 2);
}

static void all(void *arg)
{
	int free = lowest_free(), i;
	void (*part[])(void) = { tcp, reuseport, udp, local, descriptors };

	(void)u_wait_fd(0, UWRITE, uafter(0));	/* makes the poller */
	free = lowest_free();
	for (i = 0; i < COUNT(part); i++) {
		doing("part %d", i);
		part[i]();
		CHECK_IS(lowest_free(), free);
	}
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 1; p <= 2; p++) {
		one_thread(p, all, NULL);
	}
	return 0;
}
