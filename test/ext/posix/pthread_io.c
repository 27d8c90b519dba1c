/* SPDX-License-Identifier: MIT */
/* pthread_io: with the hooks, calls of libc are cancellation points. */
/* VARIANTS: RR LL WS */
/* LIBS: -Wl,--wrap=main -ldl */

/*
 * A thread that waits in a call ends if it is cancelled, and its clean-up
 * handlers run. One that was cancelled before ends at the call, which has no
 * effect: bytes stay where they are. In a thread that disables cancellation
 * calls do what they always do. No wait for a lock ends. No byte is lost,
 * whenever the cancellation comes.
 */
#include "usched/pthreads.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#if defined(LL)
#define SCHEDULER "ll"
#elif defined(WS)
#define SCHEDULER "ws"
#else
#define SCHEDULER "rr"
#endif

/* Before main() becomes a thread. Half of the runs have two processors. */
__attribute__((constructor)) static void choose(void)
{
#if defined(USCHED_PORTABLE)
	puts("skipped: a portable build has no private stacks");
	exit(77);
#endif
	(void)setenv("USCHED", getpid() % 2 ? SCHEDULER ":2" : SCHEDULER ":1",
		     0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pair[2], listener, stage, released;
static char room[1 << 20];
static struct sockaddr_in address = { .sin_family = AF_INET };

static int  get(int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void set(int *p, int to) { __atomic_store_n(p, to, __ATOMIC_RELEASE); }

static void until(int *p, int is)
{
	while (get(p) != is)
		CHECK_IS(usleep(100), 0);
}

static pthread_t start(void *(*f)(void *), intptr_t arg)
{
	pthread_t t;

	CHECK_IS(pthread_create(&t, NULL, f, (void *)arg), 0);
	return t;
}

static void *end(pthread_t t)
{
	void *result = &result;

	CHECK_IS(pthread_join(t, &result), 0);
	return result;
}

static void release(void *arg)
{
	(void)arg;
	released++;
}

/* The calls. Those from WRITES on wait while the socket is full. */

enum {
	READ, READV, RECV, RECVFROM, RECVMSG, POLL, PPOLL, SELECT, PSELECT,
	ACCEPT, ACCEPT4, SLEEP, NANOSLEEP, CLOCK_NANOSLEEP, NO_POLL,
	WRITES, WRITE = WRITES, WRITEV, SEND, SENDTO, SENDMSG, CALLS
};

static ssize_t by_poll(int which, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (which) {
	case POLL:	return poll(&p, 1, -1);
	case PPOLL:	return ppoll(&p, 1, NULL, NULL);
	case SELECT:	return select(fd + 1, &set, NULL, NULL, NULL);
	case PSELECT:	return pselect(fd + 1, &set, NULL, NULL, NULL, NULL);
	default:	return poll(NULL, 0, -1);
	}
}

static ssize_t call(int which)
{
	static const struct timespec minute = { 60, 0 };
	struct iovec v = { room, which < WRITES ? 1 : sizeof room };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int fd = pair[0];

	switch (which) {
	case READ:	return read(fd, room, 1);
	case READV:	return readv(fd, &v, 1);
	case RECV:	return recv(fd, room, 1, 0);
	case RECVFROM:	return recvfrom(fd, room, 1, 0, NULL, NULL);
	case RECVMSG:	return recvmsg(fd, &m, 0);
	case ACCEPT:	return accept(listener, NULL, NULL);
	case ACCEPT4:	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	case SLEEP:	return sleep(60);
	case NANOSLEEP:	return nanosleep(&minute, NULL);
	case CLOCK_NANOSLEEP:
		return clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL);
	case WRITE:	return write(fd, room, sizeof room);
	case WRITEV:	return writev(fd, &v, 1);
	case SEND:	return send(fd, room, sizeof room, 0);
	case SENDTO:	return sendto(fd, room, sizeof room, 0, NULL, 0);
	case SENDMSG:	return sendmsg(fd, &m, 0);
	default:	return by_poll(which, fd);
	}
}

/* Is cancelled while it waits, or before the call if main() sets the stage. */
static void *f_canceled(void *arg)
{
	int first = get(&stage);

	pthread_cleanup_push(release, NULL);
	set(&stage, 1);
	if (first != 0)
		until(&stage, 2);		/* usleep() is a point, too */
	(void)call((int)(intptr_t)arg);
	CHECK(!"the cancellation has come");
	pthread_cleanup_pop(0);
	return NULL;
}

static void fill(void)
{
	ssize_t rc;

	do
		rc = send(pair[0], room, sizeof room, MSG_DONTWAIT);
	while (rc > 0);
}

static void sockets(void)
{
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void sockets_close(void)
{
	CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
}

static void try_waits(int which)
{
	pthread_t t;

	sockets();
	if (which >= WRITES)
		fill();
	released = 0;
	set(&stage, 0);
	t = start(f_canceled, which);
	until(&stage, 1);
	CHECK(usleep(2000) == 0 && pthread_cancel(t) == 0);
	CHECK(end(t) == PTHREAD_CANCELED && released == 1);
	sockets_close();
}

/* Is cancelled before the call, which would not wait. */
static void *f_before(void *arg)
{
	int was;

	CHECK_IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was), 0);
	set(&stage, 1);
	until(&stage, 2);
	CHECK_IS(pthread_setcancelstate(was, NULL), 0);
	pthread_cleanup_push(release, NULL);
	(void)call((int)(intptr_t)arg);
	CHECK(!"the cancellation has come");
	pthread_cleanup_pop(0);
	return NULL;
}

static void try_before(int which)
{
	pthread_t t;

	sockets();
	CHECK_IS(write(pair[1], "x", 1), 1);
	released = 0;
	set(&stage, 0);
	t = start(f_before, which);
	until(&stage, 1);
	CHECK_IS(pthread_cancel(t), 0);
	set(&stage, 2);
	CHECK(end(t) == PTHREAD_CANCELED && released == 1);
	CHECK_IS(recv(pair[0], room, 2, MSG_DONTWAIT), 1);
	CHECK_IS(recv(pair[1], room, 1, MSG_DONTWAIT), -1);
	sockets_close();
}

/* Reads while it may not be cancelled, and waits for a lock after it may. */
static void *f_disabled(void *arg)
{
	char byte = 0;

	CHECK_IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	set(&stage, 1);
	CHECK(read(pair[0], &byte, 1) == 1 && byte == 'a');
	CHECK_IS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	set(&stage, 2);
	CHECK_IS(pthread_mutex_lock(&lock), 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	set(&stage, 3);
	(void)read(pair[0], &byte, 1);
	CHECK(!"the cancellation has come");
	return arg;
}

static void try_disabled(void)
{
	pthread_t t;

	sockets();
	set(&stage, 0);
	CHECK_IS(pthread_mutex_lock(&lock), 0);
	t = start(f_disabled, 0);
	until(&stage, 1);
	CHECK(pthread_cancel(t) == 0 && usleep(2000) == 0);
	CHECK(get(&stage) == 1 && write(pair[1], "ab", 2) == 2);
	until(&stage, 2);
	CHECK(pthread_cancel(t) == 0 && usleep(2000) == 0);
	CHECK(get(&stage) == 2 && pthread_mutex_unlock(&lock) == 0);
	CHECK(end(t) == PTHREAD_CANCELED && get(&stage) == 3);
	CHECK(read(pair[0], room, 2) == 1 && room[0] == 'b');
	sockets_close();
}

/* Counts what it reads, until it is cancelled. */
static void *f_counts(void *arg)
{
	char bytes[7];
	ssize_t rc;

	while ((rc = read(pair[0], bytes, sizeof bytes)) > 0)
		*(long *)arg += rc;
	CHECK(!"the end has come");
	return NULL;
}

static void try_bytes(int us)
{
	static long came;
	long sent = 0;
	pthread_t t;
	ssize_t rc;

	sockets();
	came = 0;
	t = start(f_counts, (intptr_t)&came);
	while (sent < 500) {
		if (sent == 300)
			CHECK(usleep(us) == 0 && pthread_cancel(t) == 0);
		CHECK_IS(write(pair[1], room, 10), 10);
		sent += 10;
	}
	CHECK_IS(end(t), PTHREAD_CANCELED);
	while ((rc = recv(pair[0], room, 100, MSG_DONTWAIT)) > 0)
		came += rc;
	CHECK_IS(came, sent);
	sockets_close();
}

/* A part of a write has gone: the caller learns how much. */
static void *f_part(void *arg)
{
	ssize_t nr = write(pair[0], room, sizeof room);

	CHECK(nr > 0 && nr < (ssize_t)sizeof room);
	*(ssize_t *)arg = nr;
	pthread_testcancel();
	CHECK(!"the cancellation has come");
	return NULL;
}

static void try_part(void)
{
	static ssize_t nr;
	pthread_t t;
	ssize_t rc;

	sockets();
	nr = 0;
	t = start(f_part, (intptr_t)&nr);
	CHECK(usleep(2000) == 0 && pthread_cancel(t) == 0);
	CHECK_IS(end(t), PTHREAD_CANCELED);
	while (nr > 0 && (rc = recv(pair[1], room, sizeof room,
				    MSG_DONTWAIT)) > 0)
		nr -= rc;
	CHECK_IS(nr, 0);
	sockets_close();
}

int main(int argc, char **argv)
{
	socklen_t size = sizeof address;
	int i;

	check_start(argc, argv);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_IS(bind(listener, (struct sockaddr *)&address, size), 0);
	CHECK_IS(listen(listener, 1), 0);
	for (i = 0; i < CALLS; i++) {
		try_waits(i);
		try_before(i);
	}
	try_disabled();
	for (i = 0; i < 10; i++)
		try_bytes(i * 20);
	try_part();
	return 0;
}
