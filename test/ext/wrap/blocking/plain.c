/* SPDX-License-Identifier: MIT */
/*
 * Plain blocking calls of libc block only the thread that calls, and do all else
 * as libc does. Each test runs on one processor, with a partner that can make
 * the call return. So a call that blocked the processor would never return.
 */
#include "either.h"
#include "ucall.h"
#include "uscope.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

#define BIG	(1 << 20)

static int fd[2];		/* static: threads share it */
static char big[BIG];
static long ran, deaf;
static int listener;
static struct sockaddr_un at;
static struct iovec vec[3];
static struct uscope *scope;

static void call(void *f)
{
	((void (*)(void))(uintptr_t)f)();
	add(&ran, 1);
}

/* Lets f() run as soon as the caller blocks, or at the end. */
static void meanwhile(void (*f)(void))
{
	set(&ran, 0);
	make(0, call, (void *)(uintptr_t)f);
}

static void nothing(void)
{
}

static void pair(int type)
{
	CHECK_IS(socketpair(AF_UNIX, type, 0, fd), 0);
}

static void close_both(void)
{
	CHECK(close(fd[0]) == 0 && close(fd[1]) == 0);
}

static void one_byte(void)
{
	CHECK_IS(write(fd[1], "x", 1), 1);
}

static void no_byte(void)
{
	close(fd[1]);
}

/* Each call that reads, on a socket or a pipe. */
static ssize_t receive(int how, char *buf)
{
	struct sockaddr_un from;
	socklen_t len = sizeof from;
	struct iovec v = { buf, 8 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	switch (how) {
	case 0:		return read(fd[0], buf, check_hash(0, 0) % 7 + 1);
	case 1:		return readv(fd[0], &v, 1);
	case 2:		return recv(fd[0], buf, check_hash(0, 0) % 7 + 1, 0);
	case 3:		return recvfrom(fd[0], buf, 8, 0, (void *)&from, &len);
	default:	return recvmsg(fd[0], &m, 0);
	}
}

static void reads(void)
{
	char buf[8];		/* on the stack of the thread */
	int how, type;

	doing("reads");
	for (type = 0; type < 3; type++)
		for (how = 0; how < (type == 2 ? 2 : 5); how++) {
			if (type == 2)
				CHECK_IS(pipe(fd), 0);
			else
				pair(type ? SOCK_DGRAM : SOCK_STREAM);
			buf[0] = 0;
			meanwhile(one_byte);
			errno = EDOM;
			CHECK(receive(how, buf) == 1 && buf[0] == 'x');
			CHECK_IS(errno, EDOM);
			if (type != 1) {
				meanwhile(no_byte);
				CHECK_IS(receive(how, buf), 0);
				close(fd[0]);
			} else
				close_both();
		}
}

static void read_all(void)
{
	static char buf[3000];
	long got = 0;
	ssize_t n;
	int i;

	while (got < BIG && (n = read(fd[0], buf, sizeof buf)) > 0)
		for (i = 0; i < n; i++, got++)
			CHECK_IS(buf[i], big[got]);
	CHECK_IS(got, BIG);
}

/* The descriptor comes with the first byte, and only there. */
static void take_descriptor(void)
{
	long rest = BIG - 1;
	ssize_t n;

	char control[CMSG_SPACE(sizeof(int))], buf[1];
	struct iovec v = { buf, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof control };
	struct cmsghdr *c;
	int got;

	CHECK(recvmsg(fd[0], &m, 0) == 1 && buf[0] == big[0]);
	c = CMSG_FIRSTHDR(&m);
	CHECK(c != NULL && c->cmsg_type == SCM_RIGHTS);
	memcpy(&got, CMSG_DATA(c), sizeof got);
	CHECK_IS(close(got), 0);
	for (v.iov_base = big, v.iov_len = BIG; rest > 0; rest -= n) {
		m.msg_controllen = sizeof control;
		CHECK_THAT((n = recvmsg(fd[0], &m, 0)), >, 0);
		CHECK_IS(m.msg_controllen, 0);
	}
}

static ssize_t send_descriptor(void)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr m = { .msg_iov = vec, .msg_iovlen = 3,
		.msg_control = control, .msg_controllen = sizeof control };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type  = SCM_RIGHTS;
	c->cmsg_len   = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd[1], sizeof(int));
	return sendmsg(fd[1], &m, 0);
}

/* Each call writes all, since the descriptor is blocking. */
static void writes(void)
{
	int i;

	doing("writes");
	for (i = 0; i < BIG; i++)
		big[i] = (char)(i * 7 + i / 1000);
	vec[0] = (struct iovec){ big, 1 };
	vec[1] = (struct iovec){ big + 1, 70001 };
	vec[2] = (struct iovec){ big + 70002, BIG - 70002 };
	for (i = 0; i < 7; i++) {
		if (i < 2)
			CHECK_IS(pipe(fd), 0);
		else
			pair(SOCK_STREAM);
		meanwhile(i < 6 ? read_all : take_descriptor);
		if (i == 6)
			CHECK_IS(send_descriptor(), BIG);
		else if (i == 3)
			CHECK_IS(send(fd[1], big, BIG, 0), BIG);
		else if (i == 5)
			CHECK_IS(sendto(fd[1], big, BIG, 0, NULL, 0), BIG);
		else if (i % 2 == 0)
			CHECK_IS(write(fd[1], big, BIG), BIG);
		else
			CHECK_IS(writev(fd[1], vec, 3), BIG);
		while (get(&ran) == 0)
			yield();
		close_both();
	}
}

/* What does not block in libc does not wait here. */
static void straight(void)
{
	struct timespec bad = { 0, -1 };
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd p;
	char buf[8];
	FILE *f;

	doing("straight");
	pair(SOCK_STREAM);
	p = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	meanwhile(nothing);
	CHECK(recv(fd[0], buf, 8, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	CHECK(recv(udp, buf, 8, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
	close(udp);
	CHECK_IS(poll(&p, 1, 0), 0);
	CHECK_IS(read(fd[0], buf, 0), 0);
	CHECK_IS(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_IS(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
	CHECK(read(fd[0], buf, 8) == -1 && errno == EAGAIN);
	CHECK(accept(fd[0], NULL, NULL) == -1 && errno != EAGAIN);
	CHECK_THAT(write(fd[1], big, BIG), <, BIG);
	CHECK(send(fd[1], big, BIG, 0) == -1 && errno == EAGAIN);
	CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
	CHECK(read(-1, buf, 8) == -1 && errno == EBADF);
	CHECK(connect(-1, (void *)&at, sizeof at) == -1 && errno == EBADF);
	close_both();
	CHECK((f = tmpfile()) != NULL);
	CHECK(write(fileno(f), "file", 4) == 4 && lseek(fileno(f), 0, 0) == 0);
	CHECK(read(fileno(f), buf, 8) == 4 && buf[3] == 'e');
	CHECK_IS(read(fileno(f), buf, 8), 0);
	CHECK(recv(fileno(f), buf, 8, 0) == -1 && errno == ENOTSOCK);
	fclose(f);
	CHECK_THAT((fd[0] = open("/dev/null", O_RDWR)), >=, 0);
	CHECK(read(fd[0], buf, 8) == 0 && write(fd[0], buf, 8) == 8);
	close(fd[0]);
	CHECK_IS(get(&ran), 0);
	CHECK_IS(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
		 &(struct timespec){ 0, 0 }, NULL), 0);
}

static void three_bytes(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		CHECK_IS(write(fd[1], &"abc"[i], 1), 1);
		yield();
	}
}

static void whole(void)
{
	char buf[4] = "";

	doing("MSG_WAITALL");
	pair(SOCK_STREAM);
	meanwhile(three_bytes);
	CHECK_IS(recv(fd[0], buf, 3, MSG_WAITALL), 3);
	CHECK_STR(buf, "abc");
	meanwhile(one_byte);
	CHECK_IS(recv(fd[0], buf, 3, MSG_PEEK), 1);
	meanwhile(no_byte);
	CHECK_IS(recv(fd[0], buf, 3, MSG_WAITALL), 1);
	close(fd[0]);
}

/* Sends four bytes, and a descriptor with the second. */
static void with_descriptor(void)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec v = { big, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int i;

	for (i = 0; i < 4; i++) {
		m.msg_control    = i == 1 ? control : NULL;
		m.msg_controllen = i == 1 ? sizeof control : 0;
		if (i == 1) {
			memset(control, 0, sizeof control);
			CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
			CMSG_FIRSTHDR(&m)->cmsg_type  = SCM_RIGHTS;
			CMSG_FIRSTHDR(&m)->cmsg_len   = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd[1], sizeof(int));
		}
		CHECK_IS(sendmsg(fd[1], &m, 0), 1);
		yield();
	}
}

/* A message with a descriptor ends also a call that wants all. */
static void whole_until(void)
{
	char control[CMSG_SPACE(sizeof(int))], buf[8];
	struct iovec v = { buf, 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof control };
	int got;

	doing("MSG_WAITALL and a descriptor");
	pair(SOCK_STREAM);
	meanwhile(with_descriptor);
	CHECK_IS(recvmsg(fd[0], &m, MSG_WAITALL), 2);
	CHECK_THAT(m.msg_controllen, >=, CMSG_LEN(sizeof(int)));
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
	CHECK_IS(close(got), 0);
	CHECK_IS(recv(fd[0], buf, 2, MSG_WAITALL), 2);
	meanwhile(with_descriptor);
	CHECK_IS(recv(fd[0], buf, 4, MSG_WAITALL), 2);
	CHECK_IS(recv(fd[0], buf, 2, MSG_WAITALL), 2);
	close_both();
}

static void shut(void)
{
	(void)shutdown(fd[0], SHUT_RDWR);
}

/* What libc ends with 0 or EINVAL waits no longer here. */
static void ended(void)
{
	char name[32], buf[8];
	struct iovec parts[2] = { { big, 0 }, { big, 3 } };
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	doing("ended");
	CHECK_THAT((fd[0] = socket(AF_INET, SOCK_DGRAM, 0)), >=, 0);
	meanwhile(shut);
	CHECK_IS(recv(fd[0], buf, 8, 0), 0);
	close(fd[0]);
	pair(SOCK_DGRAM);
	meanwhile(shut);
	CHECK_IS(read(fd[0], buf, 8), 0);
	close_both();
	CHECK_THAT((fd[0] = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "e%d", getpid());
	CHECK_IS(bind(fd[0], (void *)&un, sizeof un), 0);
	CHECK_IS(listen(fd[0], 1), 0);
	meanwhile(shut);
	CHECK(accept(fd[0], NULL, NULL) == -1 && errno == EINVAL);
	close(fd[0]);
	CHECK_THAT((fd[0] = eventfd(0, 0)), >=, 0);
#if defined(RWF_NOWAIT)		/* else the wait comes first */
	CHECK(read(fd[0], buf, 4) == -1 && errno == EINVAL);
#endif
	close(fd[0]);
	CHECK_THAT((fd[0] = posix_openpt(O_RDWR | O_NOCTTY)), >=, 0);
	CHECK(grantpt(fd[0]) == 0 && unlockpt(fd[0]) == 0);
	CHECK_IS(ptsname_r(fd[0], name, sizeof name), 0);
	CHECK_THAT((fd[1] = open(name, O_RDWR | O_NOCTTY)), >=, 0);
	CHECK_IS(writev(fd[1], parts, 2), 3);
	close_both();
	pair(SOCK_DGRAM);
	CHECK_IS(writev(fd[1], parts, 1), 0);
	CHECK(recv(fd[0], buf, 8, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	close_both();
}

static void accepts_fast(void)
{
	char buf[8];
	int s = accept(fd[0], NULL, NULL);

	CHECK(recv(s, buf, 3, MSG_WAITALL) == 3 && close(s) == 0);
}

/* The first try only begins to connect. */
static void fast_open(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;

	doing("MSG_FASTOPEN");
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_THAT((fd[0] = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK_THAT((fd[1] = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK(bind(fd[0], (void *)&in, len) == 0 && listen(fd[0], 1) == 0);
	CHECK_IS(getsockname(fd[0], (void *)&in, &len), 0);
	meanwhile(accepts_fast);
	errno = 0;
	if (sendto(fd[1], "abc", 3, MSG_FASTOPEN, (void *)&in, len) != 3) {
		CHECK_IS(errno, EOPNOTSUPP);	/* the system has none */
		CHECK_IS(connect(fd[1], (void *)&in, len), 0);
		CHECK_IS(write(fd[1], "abc", 3), 3);
	}
	while (get(&ran) == 0)
		yield();
	close_both();
}

static void limit(int socket, int option)
{
	struct timeval t = { 0, 20000 };

	CHECK_IS(setsockopt(socket, SOL_SOCKET, option, &t, sizeof t), 0);
}

/* SO_RCVTIMEO and SO_SNDTIMEO end calls, and others run meanwhile. */
static void timeouts(void)
{
	char buf[8];
	int i, s[3];

	doing("timeouts");
	pair(SOCK_STREAM);
	limit(fd[0], SO_RCVTIMEO);
	limit(fd[1], SO_SNDTIMEO);
	meanwhile(nothing);
	CHECK(read(fd[0], buf, 8) == -1 && errno == EAGAIN && get(&ran) == 1);
	meanwhile(nothing);
	CHECK(write(fd[1], big, BIG) < BIG && get(&ran) == 1);
	meanwhile(nothing);
	CHECK(send(fd[1], big, BIG, 0) == -1 && errno == EAGAIN);
	CHECK_IS(get(&ran), 1);
	close_both();
	limit(listener, SO_RCVTIMEO);
	meanwhile(nothing);
	CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
	CHECK(get(&ran) == 1 && !(fcntl(listener, F_GETFL) & O_NONBLOCK));
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO,
		   &(struct timeval){ 0, 0 }, sizeof(struct timeval));
	for (i = 0; i < 3; i++)
		CHECK_THAT((s[i] = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	limit(s[2], SO_SNDTIMEO);
	meanwhile(nothing);
	CHECK_IS(connect(s[0], (void *)&at, sizeof at), 0);
	CHECK_IS(connect(s[1], (void *)&at, sizeof at), 0);
	CHECK(connect(s[2], (void *)&at, sizeof at) == -1 && errno == EAGAIN);
	CHECK_IS(get(&ran), 1);
	for (i = 0; i < 3; i++) {
		CHECK(i == 2 || close(accept(listener, NULL, NULL)) == 0);
		close(s[i]);
	}
}

static void connect_to(int *to)
{
	CHECK_THAT((*to = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(connect(*to, (void *)&at, sizeof at), 0);
	CHECK(!(fcntl(*to, F_GETFL) & O_NONBLOCK));
}

static void connect_one(void)
{
	connect_to(&fd[1]);
}

static int queued[8];

static void accept_all(void)
{
	int i;

	for (i = 0; i < COUNT(queued); i++)
		CHECK_IS(close(accept(listener, NULL, NULL)), 0);
}

static void connections(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;
	int i;

	doing("connections");
	meanwhile(connect_one);
	CHECK_THAT((fd[0] = accept(listener, NULL, NULL)), >=, 0);
	CHECK(!(fcntl(fd[0], F_GETFL) & O_NONBLOCK));
	close_both();
	meanwhile(connect_one);
	CHECK_THAT((fd[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK)), >=,
		   0);
	CHECK(fcntl(fd[0], F_GETFL) & O_NONBLOCK);
	CHECK(!(fcntl(listener, F_GETFL) & O_NONBLOCK));
	close_both();
	/* The backlog is full after some. */
	meanwhile(accept_all);
	for (i = 0; i < COUNT(queued); i++)
		connect_to(&queued[i]);
	for (i = 0; i < COUNT(queued); i++)
		close(queued[i]);
	while (get(&ran) == 0)
		yield();
	/* A port that is bound, and does not listen. */
	CHECK_THAT((fd[0] = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	CHECK_THAT((fd[1] = socket(AF_INET, SOCK_STREAM, 0)), >=, 0);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_IS(bind(fd[0], (void *)&in, sizeof in), 0);
	CHECK_IS(getsockname(fd[0], (void *)&in, &len), 0);
	CHECK_IS(connect(fd[1], (void *)&in, sizeof in), -1);
	CHECK(errno == ECONNREFUSED && !(fcntl(fd[1], F_GETFL) & O_NONBLOCK));
	close_both();
}

static void drain(void)
{
	struct sockaddr_un from;
	socklen_t len;
	char buf[64];
	int i;

	for (i = 0; i < 1000; i++) {
		len = sizeof from;
		CHECK_IS(recvfrom(fd[1], buf, 64, 0, (void *)&from, &len), 8);
		CHECK(len == sizeof from && from.sun_path[1] == 's');
	}
}

/* The receiver is full, but the sender's socket is ready to write. */
static void datagrams(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX }, own = to;
	int i;

	doing("datagrams");
	CHECK_THAT((fd[0] = socket(AF_UNIX, SOCK_DGRAM, 0)), >=, 0);
	CHECK_THAT((fd[1] = socket(AF_UNIX, SOCK_DGRAM, 0)), >=, 0);
	snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "d%d", getpid());
	CHECK_IS(bind(fd[1], (void *)&to, sizeof to), 0);
	snprintf(own.sun_path + 1, sizeof own.sun_path - 1, "s%d", getpid());
	CHECK_IS(bind(fd[0], (void *)&own, sizeof own), 0);
	meanwhile(drain);
	for (i = 0; i < 1000; i++)
		CHECK_IS(sendto(fd[0], "datagram", 8, 0, (void *)&to,
			 sizeof to), 8);
	while (get(&ran) == 0)
		yield();
	close_both();
}

static void polls(void)
{
	struct pollfd p[3];
	struct timespec ten = { 10, 0 }, little = { 0, 1000000 };
	struct timeval tv = { 10, 0 };
	fd_set r, w;
	int nr = 3;

	doing("polls");
	__asm__("" : "+r"(nr));
	pair(SOCK_STREAM);
	p[0] = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = fd[0], .events = POLLPRI };
	meanwhile(one_byte);
	CHECK(poll(p, nr, -1) == 1 && p[0].revents == POLLIN);
	CHECK_IS(read(fd[0], big, 1), 1);
	meanwhile(one_byte);
	CHECK(ppoll(p, nr, &ten, NULL) == 1 && p[1].revents == 0);
	CHECK_IS(read(fd[0], big, 1), 1);
	meanwhile(nothing);
	CHECK(poll(p, 1, 1) == 0 && get(&ran) == 1);
	meanwhile(nothing);
	CHECK(poll(NULL, 0, 1) == 0 && get(&ran) == 1);
	p[2].fd = 1000;
	CHECK(poll(p, nr, -1) == 1 && p[2].revents == POLLNVAL);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(fd[0], &r);
	FD_SET(fd[1], &r);
	meanwhile(one_byte);
	CHECK_IS(select(fd[1] + 1, &r, NULL, NULL, &tv), 1);
	CHECK(FD_ISSET(fd[0], &r) && !FD_ISSET(fd[1], &r));
	CHECK(tv.tv_sec < 10 && tv.tv_sec > 0);
	FD_SET(fd[0], &w);
	CHECK_IS(select(fd[0] + 1, &r, &w, NULL, NULL), 2);
	CHECK_IS(read(fd[0], big, 1), 1);
	meanwhile(nothing);
	CHECK_IS(pselect(fd[0] + 1, &r, NULL, NULL, &little, NULL), 0);
	CHECK(get(&ran) == 1 && !FD_ISSET(fd[0], &r));
	tv = (struct timeval){ 0, 1000 };
	meanwhile(nothing);
	CHECK(select(0, NULL, NULL, NULL, &tv) == 0 && get(&ran) == 1);
	CHECK(tv.tv_sec == 0 && tv.tv_usec == 0);
	/* An end is always reported by poll(), and not by select(). */
	CHECK(shutdown(fd[1], SHUT_RDWR) == 0 && shutdown(fd[0], SHUT_RDWR) == 0);
	FD_ZERO(&w);
	FD_SET(fd[0], &w);
	tv = (struct timeval){ 0, 3000 };
	meanwhile(nothing);
	CHECK(select(fd[0] + 1, NULL, NULL, &w, &tv) == 0 && get(&ran) == 1);
	FD_SET(fd[0], &r);
	close_both();
	CHECK(select(fd[0] + 1, &r, NULL, NULL, NULL) == -1 && errno == EBADF);
}

static int set_of_events;		/* an epoll */

/* Waits for an event, by each call that does. Returns how many have come. */
static int epoll_any(int how, struct epoll_event *e, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	switch (how) {
	case 0:	return epoll_wait(set_of_events, e, 1, ms);
	case 1:	return epoll_pwait(set_of_events, e, 1, ms, NULL);
	}
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
	return epoll_pwait2(set_of_events, e, 1, ms >= 0 ? &t : NULL, NULL);
#else
	(void)t;
	return epoll_wait(set_of_events, e, 1, ms);
#endif
}

/* Waits for one of two bytes that come at once: others may take the second. */
static void takes_one(void)
{
	struct epoll_event e;
	char c;

	CHECK_IS(epoll_wait(set_of_events, &e, 1, -1), 1);
	CHECK_IS(read(e.data.fd, &c, 1), 1);
}

static void two_bytes(void)
{
	CHECK_IS(write(fd[1], "x", 1), 1);
	CHECK_IS(write(fd[0], "y", 1), 1);
}

static void epolls(void)
{
	struct epoll_event e;
	char c;
	int how, i;

	doing("epolls");
	pair(SOCK_STREAM);
	CHECK_THAT((set_of_events = epoll_create1(0)), >=, 0);
	for (i = 0; i < 2; i++) {
		e = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd[i] };
		CHECK_IS(epoll_ctl(set_of_events, EPOLL_CTL_ADD, fd[i], &e), 0);
	}
	for (how = 0; how < 3; how++) {
		meanwhile(nothing);
		CHECK(epoll_any(how, &e, 1) == 0 && get(&ran) == 1);
		CHECK_IS(epoll_any(how, &e, 0), 0);
		meanwhile(one_byte);
		CHECK(epoll_any(how, &e, how ? -1 : 10000) == 1 && get(&ran) == 1);
		CHECK(e.data.fd == fd[0] && e.events == EPOLLIN);
		CHECK(epoll_any(how, &e, -1) == 1);	/* it is still there */
		CHECK_IS(read(fd[0], &c, 1), 1);
		CHECK_IS(epoll_any(how, &e, 0), 0);
		/* two threads wait for two events, each of which one of them takes */
		meanwhile(takes_one);
		make(0, call, (void *)(uintptr_t)two_bytes);
		takes_one();
		while (get(&ran) < 2)
			yield();
		/* an edge is reported once, and the next edge again */
		e = (struct epoll_event){ .events = EPOLLIN | EPOLLET };
		CHECK_IS(epoll_ctl(set_of_events, EPOLL_CTL_MOD, fd[0], &e), 0);
		for (i = 0; i < 3; i++) {
			meanwhile(one_byte);
			CHECK(epoll_any(how, &e, -1) == 1 && get(&ran) == 1);
			CHECK_IS(epoll_any(how, &e, 1), 0);
		}
		CHECK_IS(read(fd[0], big, 8), 3);
		e = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd[0] };
		CHECK_IS(epoll_ctl(set_of_events, EPOLL_CTL_MOD, fd[0], &e), 0);
	}
	CHECK(epoll_wait(set_of_events, &e, 0, -1) == -1 && errno == EINVAL);
	close(set_of_events);
	CHECK(epoll_wait(set_of_events, &e, 1, -1) == -1 && errno == EBADF);
	CHECK(epoll_wait(fd[0], &e, 1, -1) == -1 && errno == EINVAL);
	close_both();
}

static void sleeps(void)
{
	struct timespec t = { 0, 1000000 };

	doing("sleeps");
	meanwhile(nothing);
	CHECK(nanosleep(&t, NULL) == 0 && get(&ran) == 1);
	meanwhile(nothing);
	CHECK(usleep(1000) == 0 && get(&ran) == 1);
	meanwhile(nothing);
	CHECK(sleep(1) == 0 && get(&ran) == 1);
	meanwhile(nothing);
	CHECK_IS(clock_nanosleep(CLOCK_REALTIME, 0, &t, NULL), 0);
	CHECK_IS(get(&ran), 1);
	clock_gettime(CLOCK_REALTIME, &t);
	if ((t.tv_nsec += 20000000) >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	meanwhile(nothing);
	CHECK_IS(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL), 0);
	CHECK_IS(get(&ran), 1);
}

/* The timer starts when the reader has blocked, however late that is. */
static void soon(void)
{
	struct itimerspec t = { .it_value = { 0, 1000000 } };

	CHECK_IS(timerfd_settime(fd[0], 0, &t, NULL), 0);
}

static void others(void)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICSERV }, *list;
	uint64_t count = 0;

	doing("others");
	meanwhile(nothing);
	CHECK_IS(getaddrinfo("127.0.0.1", "7", &hints, &list), 0);
	CHECK(get(&ran) == 1 && list->ai_family == AF_INET);
	freeaddrinfo(list);
	CHECK_IS(getaddrinfo("127.0.0.1", "no", &hints, &list), EAI_NONAME);
	CHECK_THAT((fd[0] = timerfd_create(CLOCK_MONOTONIC, 0)), >=, 0);
	meanwhile(soon);
	CHECK(read(fd[0], &count, 8) == 8 && count == 1 && get(&ran) == 1);
	close(fd[0]);
	CHECK_THAT((fd[0] = fd[1] = eventfd(0, 0)), >=, 0);
	close(fd[0]);
}

/* Stays in its native thread, as a look-up does while no server answers. */
static void is_deaf(void *arg)
{
	while (get(&deaf))
		usleep(2000);
}

static void nothing_left(void *arg)
{
}

/* Once as many look-ups are abandoned as may be, libc is not asked here. */
static void abandoned(void)
{
	struct addrinfo *list = NULL;
	int rc;

	doing("abandoned");
	set(&deaf, 1);
	while ((rc = ucall_lookup(is_deaf, nothing_left, NULL,
				  uafter(UTIME_MS))) == -ETIMEDOUT)
		;
	CHECK_IS(rc, -EAGAIN);
	CHECK_IS(getaddrinfo("127.0.0.1", "7", NULL, &list), EAI_AGAIN);
	set(&deaf, 0);
	while (getaddrinfo("127.0.0.1", "7", NULL, &list) == EAI_AGAIN)
		usleep(1000);
	freeaddrinfo(list);
}

static void cancel(void)
{
	uscope_cancel(scope);
}

static void in_scope(int how)
{
	struct timespec t = { 100, 0 }, left = { 0, 0 };
	struct pollfd p = { .fd = fd[0], .events = POLLIN };
	struct epoll_event e;
	char buf[8];
	int i;

	meanwhile(cancel);
	switch (how) {
	case 0:	CHECK(read(fd[0], buf, 8) == -1 && errno == ECANCELED); break;
	case 1:	CHECK(poll(&p, 1, -1) == -1 && errno == ECANCELED); break;
	case 2:	CHECK(accept(listener, 0, 0) == -1 && errno == ECANCELED); break;
	case 3:	CHECK(nanosleep(&t, &left) == -1 && errno == ECANCELED);
		CHECK_IS(left.tv_sec, 99); break;
	case 4:	CHECK(sleep(3) == 2 && sleep(2) == 1 && sleep(1) == 0); break;
	case 5:	i = epoll_create1(0);
		CHECK(epoll_wait(i, &e, 1, -1) == -1 && errno == ECANCELED);
		close(i); break;
	}
	CHECK_IS(get(&ran), 1);
	one_byte();			/* what need not wait goes on */
	CHECK_IS(read(fd[0], buf, 1), 1);
}

/* The error is not EINTR, after which a library would call again. */
static void cancelled(void)
{
	int how;

	doing("cancelled");
	for (how = 0; how < 7; how++) {
		pair(SOCK_STREAM);
		if (how == 6)
			fcntl(fd[1], F_SETFL, 0);
		CHECK_IS(uscope_begin(&scope, INT64_MAX), 0);
		if (how < 6)
			in_scope(how);
		else {
			meanwhile(cancel);
			CHECK_THAT(write(fd[1], big, BIG), <, BIG);
		}
		CHECK_IS(uscope_end(&scope), -ECANCELED);
		close_both();
	}
}

static void forks(void)
{
	struct timespec t = { 0, 1000000 };
	char buf[8];
	int status;
	pid_t pid;

	doing("forks");
	CHECK_IS(pipe(fd), 0);
	CHECK_THAT((pid = fork()), >=, 0);
	if (pid == 0) {
		close(fd[1]);
		_exit(read(fd[0], buf, 8) != 1 || nanosleep(&t, NULL) != 0);
	}
	CHECK(nanosleep(&t, NULL) == 0 && write(fd[1], "x", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close_both();
}

static void on_signal(int signo)
{
	int i;

	for (i = 0; i < 200; i++)
		CHECK_IS(write(fd[1], "x", 1), 1);
}

static void signals(void)
{
	doing("signals");
	meanwhile(nothing);
	CHECK_IS(pipe(fd), 0);
	signal(SIGUSR1, on_signal);
	CHECK(raise(SIGUSR1) == 0 && get(&ran) == 0);
	close_both();
	pair(SOCK_STREAM);
	CHECK(raise(SIGUSR1) == 0 && get(&ran) == 0);
	close(fd[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK(write(fd[1], "x", 1) == -1 && errno == EPIPE);
	close(fd[1]);
}

static void each(void *arg)
{
	reads();
	writes();
	straight();
	whole();
	whole_until();
	ended();
	fast_open();
	timeouts();
	connections();
	datagrams();
	polls();
	epolls();
	sleeps();
	others();
	abandoned();
	cancelled();
	forks();
	signals();
}

/* Threads of two processors, and a native thread, share descriptors. */

#define EACH	200

static void *connector(void *arg)
{
	int i, s;

	for (i = 0; i < 2 * EACH; i++) {
		connect_to(&s);
		CHECK(write(s, "x", 1) == 1 && close(s) == 0);
	}
	return arg;
}

static void acceptor(void *arg)
{
	char buf[8];
	int i, s;

	for (i = 0; i < EACH; i++) {
		CHECK_THAT((s = accept(listener, NULL, NULL)), >=, 0);
		CHECK(read(s, buf, 8) == 1 && close(s) == 0);
		CHECK_IS(read(fd[0], buf, 1), 1);
	}
}

static void writer(void *arg)
{
	int i;

	for (i = 0; i < 4 * EACH; i++)
		CHECK_IS(write(fd[1], "x", 1), 1);
}

static void shared(void)
{
	pthread_t id;
	int i;

	doing("shared");
	CHECK_IS(pipe(fd), 0);
	begin(2, 0);
	for (i = 0; i < 4; i++)
		make(i, acceptor, NULL);
	make(0, (void (*)(void *))(uintptr_t)connector, NULL);
	make(1, writer, NULL);
	id = native(connector, NULL);
	start_and_finish();
	native_join(id);
	close_both();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	at.sun_family = AF_UNIX;
	snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "w%d", getpid());
	CHECK_THAT((listener = socket(AF_UNIX, SOCK_STREAM, 0)), >=, 0);
	CHECK_IS(bind(listener, (void *)&at, sizeof at), 0);
	CHECK_IS(listen(listener, 1), 0);
	begin(1, 0);
	make(0, each, NULL);
	start_and_finish();
	shared();
	return 0;
}
