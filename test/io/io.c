/* SPDX-License-Identifier: MIT */
/* io: calls on descriptors block only their thread, and lose no byte. */
/* VARIANTS: RR LL WS PR */

/*
 * Sockets, pipes and files; streams and datagrams; deadlines, closes and
 * cancellations. Many readers of one socket get each datagram once. Threads of
 * all processors, and native threads.
 */
#include "either.h"
#include "uio.h"
#include "uscope.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOON	uafter(2 * UTIME_MS)
#define BIG	(1 << 20)

static long done;

/* What a single thread sees. */

static void results(void *arg)
{
	int s[2], p[2], f;
	char b[8] = "";
	struct iovec v[2] = { { b, 2 }, { b + 2, 6 } };

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(p) == 0);
	CHECK_IS(u_read(s[0], b, sizeof b, UNOW), -EAGAIN);
	CHECK_IS(u_read(p[0], b, sizeof b, UNOW), -EAGAIN);
	CHECK_IS(u_read(s[0], b, sizeof b, SOON), -ETIMEDOUT);
	CHECK_IS(u_read(p[0], b, sizeof b, SOON), -ETIMEDOUT);
	CHECK_IS(u_read(s[0], b, sizeof b, -1), -EINVAL);
	CHECK_IS(u_read(-1, b, sizeof b, SOON), -EBADF);
	CHECK_IS(u_read(1 << 23, b, sizeof b, SOON), -EBADF);
	CHECK_IS(u_wait_fd(s[0], 0, UNEVER), -EINVAL);
	CHECK_IS(u_wait_fd(s[0], 4, UNEVER), -EINVAL);
	CHECK_IS(u_wait_fd(-1, UREAD, SOON), -EBADF);
	CHECK_IS(u_wait_fd(s[0], UREAD, UNOW), -EAGAIN);
	CHECK_IS(u_wait_fd(s[0], UREAD, SOON), -ETIMEDOUT);
	CHECK_IS(u_wait_fd(s[0], UREAD | UWRITE, UNEVER), 0);
	CHECK_IS(u_wait_fd(s[0], UWRITE, UNOW), 0);
	CHECK_IS(u_write(s[1], "ab", 2, UNEVER), 2);
	CHECK_IS(u_write(s[1], "cd", 2, UNEVER), 2);
	CHECK_IS(u_wait_fd(s[0], UREAD, UNEVER), 0);
	CHECK(u_read(s[0], b, 3, UNEVER) == 3 && memcmp(b, "abc", 3) == 0);
	CHECK(u_readv(s[0], v, 2, UNEVER) == 1 && b[0] == 'd');
	CHECK_IS(u_readv(s[0], v, 2, SOON), -ETIMEDOUT);
	CHECK_IS(u_readv(s[0], v, 0, SOON), -EINVAL);
	CHECK_IS(u_writev(p[1], v, 2, UNEVER), 8);
	CHECK_IS(u_wait_fd(p[0], UREAD, UNEVER), 0);
	CHECK_IS(u_readv(p[0], v, 2, UNEVER), 8);
	CHECK_IS(u_read(p[0], b, sizeof b, SOON), -ETIMEDOUT);
	CHECK_IS(u_send(p[1], b, 1, 0, UNEVER), -ENOTSOCK);
	CHECK(u_close(s[1]) == 0 && u_close(p[1]) == 0);
	CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 0);
	CHECK_IS(u_read(p[0], b, sizeof b, UNEVER), 0);
	CHECK_IS(u_write(s[0], b, sizeof b, UNEVER), -EPIPE);
	CHECK(u_close(s[0]) == 0 && u_close(p[0]) == 0);
	CHECK(u_close(s[0]) == -EBADF && u_close(-1) == -EBADF);
	f = open("/dev/zero", O_RDONLY);
	CHECK_IS(u_read(f, b, sizeof b, UNEVER), sizeof b);
	CHECK_IS(u_close(f), 0);
	f = open("/proc/self/exe", O_RDONLY);
	CHECK(u_read(f, b, 4, UNEVER) == 4 && memcmp(b, "\177ELF", 4) == 0);
	CHECK_IS(u_wait_fd(f, UREAD, UNEVER), 0);
	CHECK_IS(u_close(f), 0);
}

/* A read of no byte does not wait, as a body without bytes may follow a head. */
static void reads_none(void *arg)
{
	int s[2], d[2], p[2];
	char b[4];
	struct iovec none[2] = { { b, 0 }, { b, 0 } };

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(p) == 0);
	CHECK_IS(socketpair(AF_UNIX, SOCK_DGRAM, 0, d), 0);
	CHECK(u_read(s[0], b, 0, SOON) == 0 && u_read(p[0], b, 0, SOON) == 0);
	CHECK_IS(u_read_all(s[0], b, 0, SOON), 0);
	CHECK_IS(u_readv(s[0], none, 2, SOON), 0);
	CHECK_IS(u_write_all(s[0], b, 0, SOON), 0);
	CHECK_IS(u_write(d[1], "ab", 2, UNEVER), 2);
	CHECK_IS(u_read(d[0], b, 0, SOON), 0);
	CHECK_IS(u_readv(d[0], none, 2, SOON), 0);
	CHECK_IS(u_read(d[0], b, sizeof b, SOON), 2);
	CHECK(u_close(s[0]) == 0 && u_close(s[1]) == 0);
	CHECK(u_close(d[0]) == 0 && u_close(d[1]) == 0);
	CHECK(u_close(p[0]) == 0 && u_close(p[1]) == 0);
}

/* Streams: all bytes come, in order. */

/* A file goes to a socket; when the reader has gone, no signal comes. */
static void sends_file(void *arg)
{
	char b[8], path[] = "/tmp/s_io.XXXXXX";
	int s[2], f = mkstemp(path);
	sigset_t pending;
	off_t at = 2;

	CHECK(f >= 0 && unlink(path) == 0 && write(f, "abcdef", 6) == 6);
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	CHECK(u_sendfile(s[1], f, &at, 3, UNEVER) == 3 && at == 5);
	CHECK(u_read(s[0], b, sizeof b, UNEVER) == 3 && !memcmp(b, "cde", 3));
	CHECK_IS(u_close(s[0]), 0);
	CHECK_IS(u_sendfile(s[1], f, &at, 1, UNEVER), -EPIPE);
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &pending) == 0 &&
	      !sigismember(&pending, SIGPIPE));
	CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
	CHECK(u_close(s[1]) == 0 && u_close(f) == 0);
}

static int ends[2];

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

static void writes_big(void *arg)
{
	unsigned char *b = malloc(BIG);
	size_t i;

	for (i = 0; i < BIG; i++)
		b[i] = byte_at(i);
	CHECK_IS(u_write_all(ends[1], b, BIG, UNEVER), BIG);
	CHECK_IS(u_close(ends[1]), 0);
	free(b);
}

static void reads_big(void *arg)
{
	unsigned char b[777];
	size_t at = 0;
	ssize_t n, i;

	make(1, writes_big, NULL);
	while ((n = u_read(ends[0], b, sizeof b, UNEVER)) > 0)
		for (i = 0; i < n; i++)
			CHECK_IS(b[i], byte_at(at++));
	CHECK(n == 0 && at == BIG && u_close(ends[0]) == 0);
}

static void streams(int p)
{
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	one_thread(p, reads_big, NULL);
	CHECK_IS(pipe(ends), 0);
	one_thread(p, reads_big, NULL);
}

/* Many threads read one socket: each datagram comes once. */

#define READERS	20
#define DATAGRAMS 2000

static int seen[DATAGRAMS];

static void reads_some(void *arg)
{
	int i;

	while (u_recv(ends[0], &i, sizeof i, 0, UNEVER) == sizeof i && i >= 0)
		__atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
}

static void sends_all(void *arg)
{
	int i, last = -1;

	for (i = 0; i < READERS; i++)
		make(i, reads_some, NULL);
	for (i = 0; i < DATAGRAMS; i++)
		CHECK_IS(u_send(ends[1], &i, sizeof i, 0, UNEVER), sizeof i);
	for (i = 0; i < READERS; i++)
		CHECK_IS(u_send(ends[1], &last, sizeof i, 0, UNEVER), sizeof i);
}

static void many_readers(int p)
{
	int i;

	done = 0;
	memset(seen, 0, sizeof seen);
	CHECK_IS(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	one_thread(p, sends_all, NULL);
	for (i = 0; i < DATAGRAMS; i++)
		CHECK_IS(seen[i], 1);
	CHECK_IS(done, READERS);
	close(ends[0]), close(ends[1]);
}

/* A close wakes all that wait, whatever for. */

static long begun;

static void waits_for_close(void *arg)
{
	struct pollfd f[2] = { { ends[0], POLLIN, 0 }, { ends[1], POLLIN, 0 } };
	char c;
	int rc;

	__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	switch ((intptr_t)arg % 3) {
	case 0:
		CHECK_IS(u_read(ends[0], &c, 1, UNEVER), -EBADF);
		break;
	case 1:
		CHECK_IS(u_wait_fd(ends[0], UREAD, uafter(100 * UTIME_S)),
			 -EBADF);
		break;
	default:
		rc = u_poll(f, 2, UNEVER);
		CHECK(rc == -EBADF || (rc > 0 && f[0].revents == POLLNVAL));
	}
	__atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
}

static void closes(void *arg)
{
	int i;

	for (i = 0; i < 9; i++)
		make(i, waits_for_close, (void *)(intptr_t)i);
	do {
		CHECK_IS(u_sleep(uafter(5 * UTIME_MS)), 0);
	} while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 9);
	CHECK_IS(u_close(ends[0]), 0);
	CHECK_IS(u_close(ends[1]), 0);
}

/* TCP, with a thread for each connection, and an end of the listener. */

#define CLIENTS	50

static int listener;
static struct sockaddr_in address;

static void echoes(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char b[64];
	ssize_t n;

	while ((n = u_read(fd, b, sizeof b, UNEVER)) > 0)
		CHECK_IS(u_write_all(fd, b, n, UNEVER), n);
	CHECK(n == 0 && u_close(fd) == 0);
}

static void accepts(void *arg)
{
	int fd;

	while ((fd = u_accept(listener, NULL, NULL, 0, UNEVER)) >= 0)
		make(fd, echoes, (void *)(intptr_t)fd);
	CHECK_IS(fd, -EBADF);
}

static void calls(void *arg)
{
	char b[16], c[16];
	int i, fd;

	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(u_connect(fd, (struct sockaddr *)&address, sizeof address,
		 UNEVER), 0);
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK_IS(u_connect(fd, (struct sockaddr *)&address, sizeof address,
		 UNEVER), -EISCONN);
	for (i = 0; i < 20; i++) {
		memset(b, (int)(intptr_t)arg + i, sizeof b);
		CHECK_IS(u_write_all(fd, b, sizeof b, UNEVER), sizeof b);
		CHECK_IS(u_read_all(fd, c, sizeof c, UNEVER), sizeof c);
		CHECK(memcmp(b, c, sizeof c) == 0);
	}
	CHECK_IS(u_close(fd), 0);
	if (__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED) == CLIENTS)
		CHECK_IS(u_close(listener), 0);
}

static void serve(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		make(i, accepts, NULL);
	for (i = 0; i < CLIENTS; i++)
		make(i, calls, (void *)(intptr_t)i);
}

static void tcp(int p)
{
	socklen_t len = sizeof address;

	done = 0;
	memset(&address, 0, sizeof address);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(bind(listener, (struct sockaddr *)&address, len), 0);
	CHECK_IS(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	CHECK_IS(listen(listener, 1000), 0);
	one_thread(p, serve, NULL);
	CHECK_IS(done, CLIENTS);
}

static void refused(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_IS(u_connect(fd, (struct sockaddr *)&address, sizeof address,
		 UNEVER), -ECONNREFUSED);
	CHECK_IS(u_close(fd), 0);
}

/* Scopes. */

static int waits_canceled(void *arg)
{
	char c;

	CHECK_IS(u_read(ends[0], &c, 1, UNEVER), -ECANCELED);
	CHECK_IS(u_write(ends[0], &c, 1, UNEVER), -ECANCELED);
	done++;
	return 0;
}

static void cancels(void *arg)
{
	struct uscope *s;

	done = 0;
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_IS(uscope_begin(&s, uafter(100 * UTIME_MS)), 0);
	CHECK_IS(uscope_go(s, waits_canceled, NULL), 0);
	CHECK(uscope_end(&s) == -ETIMEDOUT && done == 1);
	CHECK(u_close(ends[0]) == 0 && u_close(ends[1]) == 0);
}

/* Polls see what is there, and what comes. */

static void writes_late(void *arg)
{
	CHECK_IS(u_sleep(SOON), 0);
	CHECK_IS(u_write((int)(intptr_t)arg, "x", 1, UNEVER), 1);
}

static void polls(void *arg)
{
	int s[10][2];
	struct pollfd f[10];
	char c;
	int i;

	for (i = 0; i < 10; i++) {
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s[i]), 0);
		f[i] = (struct pollfd){ s[i][0], POLLIN, 0 };
	}
	CHECK_IS(u_poll(f, 10, UNOW), 0);
	CHECK_IS(u_poll(f, 10, SOON), -ETIMEDOUT);
	CHECK_IS(u_poll(NULL, 0, SOON), -ETIMEDOUT);
	make(1, writes_late, (void *)(intptr_t)s[7][1]);
	CHECK(u_poll(f, 10, UNEVER) == 1 && f[7].revents == POLLIN);
	CHECK_IS(u_read(s[7][0], &c, 1, UNOW), 1);
	CHECK_IS(u_poll(f, 10, SOON), -ETIMEDOUT);
	f[3].events = POLLOUT;
	CHECK(u_poll(f, 10, UNEVER) == 1 && f[3].revents == POLLOUT);
	f[2].fd = -1, f[3].fd = 999999;
	CHECK(u_poll(f, 10, UNEVER) == 1 && f[3].revents == POLLNVAL);
	for (i = 0; i < 10; i++)
		CHECK(u_close(s[i][0]) == 0 && u_close(s[i][1]) == 0);
}

/* Native threads. */

static void *natively(void *arg)
{
	char c = 0;

	CHECK_IS(u_read(ends[0], &c, 1, SOON), -ETIMEDOUT);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	CHECK(u_read(ends[0], &c, 1, UNEVER) == 1 && c == 'x');
	CHECK_IS(u_write(ends[0], "y", 1, UNEVER), 1);
	return NULL;
}

static void with_native(void *arg)
{
	pthread_t native;
	char c;

	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	done = 0;
	CHECK_IS(pthread_create(&native, NULL, natively, NULL), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		CHECK_IS(u_sleep(SOON), 0);
	CHECK_IS(u_write(ends[1], "x", 1, UNEVER), 1);
	CHECK(u_read(ends[1], &c, 1, UNEVER) == 1 && c == 'y');
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK(u_close(ends[0]) == 0 && u_close(ends[1]) == 0);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 1; p <= 2; p++) {
		one_thread(p, results, NULL);
		one_thread(p, reads_none, NULL);
		one_thread(p, sends_file, NULL);
		streams(p);
		many_readers(p);
		done = begun = 0;
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		one_thread(p, closes, NULL);
		CHECK_IS(done, 9);
		tcp(p);
		one_thread(p, refused, NULL);
		one_thread(p, cancels, NULL);
		one_thread(p, polls, NULL);
		one_thread(p, with_native, NULL);
	}
	return 0;
}
