/* SPDX-License-Identifier: MIT */
/* io_event: each event of poll(2) ends a wait, and so does shutdown(2). */
/* VARIANTS: RR LL WS PR */

/*
 * A partner makes the event while the thread waits: normal and urgent bytes,
 * room to write, an end. Sockets whose reading side is shut, and that still say
 * EAGAIN, have ended. Calls that can never succeed do not wait. u_accept() says
 * that its listener was closed meanwhile, also if the number is another socket's.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOON	uafter(2 * UTIME_MS)
#define LATE	uafter(20 * UTIME_S)

static int ends[2];
static char much[1 << 16];

static void meanwhile(void (*f)(void *))
{
	make(0, f, NULL);
}

static void close_both(void)
{
	CHECK(u_close(ends[0]) == 0 && u_close(ends[1]) == 0);
}

static void connected(void)
{
	int l = u_listen_tcp("127.0.0.1", 0, 1, 0);

	CHECK_THAT((ends[1] = u_dial_tcp("127.0.0.1", u_port(l), LATE)), >=, 0);
	CHECK_THAT((ends[0] = u_accept(l, NULL, NULL, 0, LATE)), >=, 0);
	CHECK_IS(u_close(l), 0);
}

static void fill(void)
{
	while (u_write(ends[0], much, sizeof much, UNOW) > 0)
		;
}

static int closing = -1;

/* In place of the C library's: closes a listener, whose number is used again. */
int accept4(int fd, struct sockaddr *restrict a, socklen_t *restrict len,
	    int flags)
{
	if (fd == closing) {
		CHECK_IS(u_close(fd), 0);
		CHECK_IS(socket(AF_INET, SOCK_STREAM, 0), fd);
		closing = -1;
	}
	return (int)syscall(SYS_accept4, fd, a, len, flags);
}

static void closed_meanwhile(void)
{
	int l = u_listen_tcp("127.0.0.1", 0, 1, 0);

	closing = l;
	CHECK(u_accept(l, NULL, NULL, 0, LATE) == -EBADF && closing == -1);
	CHECK_IS(u_accept(l, NULL, NULL, 0, LATE), -EINVAL);
	CHECK_IS(u_close(l), 0);
}

static void sends(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	CHECK_IS(u_write(ends[1], "x", 1, UNEVER), 1);
}

static void sends_urgent(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	CHECK_IS(u_send(ends[1], "u", 1, MSG_OOB, UNEVER), 1);
}

static void drains(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	while (u_read(ends[1], much, sizeof much, UNOW) > 0)
		;
}

static void ends_it(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	CHECK_IS(shutdown(ends[1], SHUT_WR), 0);
}

/* Waits for events, and checks what comes. */
static void sees(void (*f)(void *), int events, int found)
{
	struct pollfd p = { .fd = ends[0], .events = (short)events };

	meanwhile(f);
	CHECK(u_poll(&p, 1, LATE) == 1 && p.revents == found);
}

static void events(void *arg)
{
	char c;

	connected();
	sees(sends, POLLRDNORM, POLLRDNORM);
	CHECK_IS(u_read(ends[0], &c, 1, LATE), 1);
	fill();
	sees(sends, POLLRDNORM | POLLOUT, POLLRDNORM);
	sees(drains, POLLWRNORM, POLLWRNORM);
	close_both();
	connected();
	sees(sends_urgent, POLLPRI, POLLPRI);
	CHECK(u_recv(ends[0], &c, 1, MSG_OOB, UNOW) == 1 && c == 'u');
	sees(sends_urgent, POLLPRI | POLLIN, POLLPRI);
	CHECK(u_recv(ends[0], &c, 1, MSG_OOB, UNOW) == 1 && c == 'u');
	fill();
	sees(ends_it, POLLRDHUP | POLLOUT, POLLRDHUP);
	close_both();
}

/* An urgent byte may wake a reader, too, which then waits again. */
static void reads_beside(void *arg)
{
	char c;

	CHECK(u_read(ends[0], &c, 1, LATE) == 1 && c == 'x');
}

static void urgent_beside(void *arg)
{
	struct pollfd p = { .fd = (connected(), ends[0]), .events = POLLPRI };

	meanwhile(reads_beside);
	meanwhile(sends_urgent);
	CHECK(u_poll(&p, 1, LATE) == 1 && p.revents == POLLPRI);
	CHECK_IS(u_write(ends[1], "x", 1, UNEVER), 1);
	CHECK_IS(u_sleep(SOON), 0);
}

static void shuts(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	(void)shutdown(ends[0], SHUT_RDWR);	/* ENOTCONN, but it is shut */
}

static void shut(void *arg)
{
	struct msghdr m = { .msg_iovlen = 0 };
	struct iovec v;
	char b[8];
	int how;

	v = (struct iovec){ b, sizeof b };
	for (how = 0; how < 8; how++) {
		if (how % 2 == 0)
			CHECK_THAT((ends[0] = u_bind_udp("127.0.0.1", 0, 0)),
				   >=, 0);
		else
			CHECK_IS(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
		meanwhile(shuts);
		switch (how / 2) {
		case 0:	CHECK_IS(u_recv(ends[0], b, 8, 0, LATE), 0); break;
		case 1:	CHECK_IS(u_read(ends[0], b, 8, LATE), 0); break;
		case 2:	CHECK_IS(u_readv(ends[0], &v, 1, LATE), 0); break;
		case 3:	CHECK_IS(u_recvmsg(ends[0], &m, 0, LATE), 0); break;
		}
		CHECK_IS(u_close(ends[0]), 0);
		CHECK(how % 2 == 0 || u_close(ends[1]) == 0);
	}
	snprintf(b, sizeof b, "@%d", getpid() % 100000);
	CHECK_THAT((ends[0] = u_listen_unix(b, 1)), >=, 0);
	meanwhile(shuts);
	CHECK_IS(u_accept(ends[0], NULL, NULL, 0, LATE), -EINVAL);
	CHECK_IS(u_close(ends[0]), 0);
	closed_meanwhile();
}

/* EINVAL comes at once, and an empty part does not hide the next. */
static void files(void *arg)
{
	struct iovec v[2] = { { much, 0 }, { much, 3 } };
	char b[8];
	int f, p;

	CHECK_THAT((f = eventfd(0, 0)), >=, 0);
	CHECK_IS(u_read(f, b, 8, SOON), -ETIMEDOUT);
#if defined(RWF_NOWAIT)		/* else the wait comes first */
	CHECK_IS(u_read(f, b, 4, LATE), -EINVAL);
	CHECK(u_close(f) == 0 && (f = epoll_create1(0)) >= 0);
	CHECK_IS(u_read(f, b, 8, LATE), -EINVAL);
#endif
	CHECK_IS(u_close(f), 0);
	CHECK_THAT((p = posix_openpt(O_RDWR | O_NOCTTY)), >=, 0);
	CHECK(grantpt(p) == 0 && unlockpt(p) == 0);
	CHECK_THAT((f = open(ptsname(p), O_RDWR | O_NOCTTY)), >=, 0);
	CHECK_IS(u_writev(f, v, 2, LATE), 3);
	CHECK(u_close(f) == 0 && u_close(p) == 0);
}

/* More descriptors than a wait can have: it naps. */
static void many(void *arg)
{
	static struct pollfd f[17000];
	int i;

	connected();
	for (i = 0; i < COUNT(f); i++)
		f[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	f[i - 1].fd = ends[0];
	meanwhile(sends);
	CHECK(u_poll(f, COUNT(f), LATE) == 1 && f[i - 1].revents == POLLIN);
	close_both();
}

static void alone(const char *what, void (*f)(void *))
{
	doing("%s", what);
	one_thread(1, f, NULL);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	alone("events", events);
	alone("urgent beside", urgent_beside);
	alone("shut", shut);
	alone("files", files);
	alone("many", many);
	return 0;
}
