/* SPDX-License-Identifier: MIT */
/* stress: slow readers and datagrams at many sockets hold up no thread, and lose no byte. */
/* VARIANTS: RR LL WS PR */

/*
 * Clients ask for a megabyte each, read a little, and wait until as many others have
 * been served as they like. Meanwhile threads of slow clients wait in u_write_all(),
 * with a deadline that does not expire. Then they read all, as it was sent. A client that
 * never reads is ended by the deadline of the write.
 *
 * A thousand sockets of UDP have a thread each. A client sends to all of them, a few at
 * a time, and gets each answer from the socket that it asked. On one processor and on
 * two.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "userve.h"

#include <netinet/in.h>
#include <sys/resource.h>

#define SOON	uafter(60 * UTIME_S)
#define ANSWER	((size_t)1 << 20)
#define SLOW	10
#define QUICK	20
#define ASKS	50
#define SOCKETS	1000
#define AT_ONCE	16		/* datagrams on their way: no buffer is full */
#define SPARE	50		/* other descriptors */

static struct userve server;
static int port;
static long begun, quick_done, slow_done, cut;

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

/* 's': sends a megabyte; 'n': to a client that never reads; others: sends it back. */
static void answer(int fd, void *arg)
{
	unsigned char *all = malloc(ANSWER);
	size_t i;
	char c;

	CHECK(all != NULL);
	for (i = 0; i < ANSWER; i++)
		all[i] = byte_at(i);
	while (u_read(fd, &c, 1, SOON) == 1) {
		if (c == 's')
			CHECK_IS(u_write_all(fd, all, ANSWER, SOON), ANSWER);
		else if (c != 'n')
			CHECK_IS(u_write_all(fd, &c, 1, SOON), 1);
		else {
			while (u_write_all(fd, all, ANSWER, uafter(20 * UTIME_MS)) ==
			       (ssize_t)ANSWER)
				;	/* the kernel takes some megabytes */
			add(&cut, 1);
		}
	}
	free(all);
	(void)arg;
}

static int serve(void *arg)
{
	CHECK_IS(userve(arg), -ECANCELED);
	return 0;
}

static int dial(char what)
{
	int fd = u_dial_tcp(NULL, port, SOON);

	CHECK_THAT(fd, >=, 0);
	CHECK_IS(u_write_all(fd, &what, 1, SOON), 1);
	return fd;
}

static int slow(void *arg)
{
	int fd = dial('s');
	unsigned char part[5000];
	size_t at = 0;
	ssize_t n, i;

	while (at < ANSWER) {
		n = u_read(fd, part, sizeof part, SOON);
		CHECK_THAT(n, >, 0);
		for (i = 0; i < n; i++)
			CHECK_IS(part[i], byte_at(at++));
		if (at == (size_t)n)
			add(&begun, 1);
		while (get(&quick_done) < QUICK)
			CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	}
	CHECK_IS(u_close(fd), 0);
	add(&slow_done, 1);
	return (void)arg, 0;
}

/* Is served while others do not read. */
static int quick(void *arg)
{
	int fd, i;
	char c;

	while (get(&begun) < SLOW)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	fd = dial('q');
	for (i = 0; i < ASKS; i++) {
		CHECK(u_read(fd, &c, 1, SOON) == 1 && c == 'q');
		CHECK_IS(u_write_all(fd, &c, 1, SOON), 1);
	}
	CHECK_IS(get(&slow_done), 0);
	CHECK(u_read(fd, &c, 1, SOON) == 1 && u_close(fd) == 0);
	add(&quick_done, 1);
	return (void)arg, 0;
}

static void slow_readers(void *arg)
{
	struct uscope *s, *clients;
	int i, never;

	begun = quick_done = slow_done = cut = 0;
	server = (struct userve){ .sv_f = answer };
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	port = u_port(server.sv_fd);
	CHECK_THAT(port, >, 0);
	CHECK(uscope_begin(&s, UNEVER) == 0 && uscope_go(s, serve, &server) == 0);
	never = dial('n');
	CHECK_IS(uscope_begin(&clients, UNEVER), 0);
	for (i = 0; i < SLOW; i++)
		CHECK_IS(uscope_go(clients, slow, NULL), 0);
	for (i = 0; i < QUICK; i++)
		CHECK_IS(uscope_go(clients, quick, NULL), 0);
	CHECK_IS(uscope_end(&clients), 0);
	while (get(&cut) == 0)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(u_close(never), 0);
	uscope_cancel(s);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	(void)arg;
}

/* Datagrams. */

static struct sockaddr_in at[SOCKETS];
static int sockets[SOCKETS];

/* Sends back each datagram, until one is empty. */
static int answers(void *arg)
{
	int fd = *(int *)arg;
	struct sockaddr_in from;
	socklen_t len;
	char b[64];
	ssize_t n;

	do {
		len = sizeof from;
		n = u_recvfrom(fd, b, sizeof b, 0, (struct sockaddr *)&from, &len,
			       SOON);
		CHECK_THAT(n, >=, 0);
		CHECK_IS(u_sendto(fd, b, (size_t)n, 0, (struct sockaddr *)&from,
				  len, SOON), n);
	} while (n > 0);
	CHECK_IS(u_close(fd), 0);
	return 0;
}

static int bound(struct sockaddr_in *where)
{
	socklen_t len = sizeof *where;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memset(where, 0, sizeof *where);
	where->sin_family = AF_INET;
	where->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)where, len) == 0 &&
	      getsockname(fd, (struct sockaddr *)where, &len) == 0);
	return fd;
}

/* Asks all, and counts the answers of each. */
static void ask_all(int fd, int nr, size_t nob)
{
	static int heard[SOCKETS];
	struct sockaddr_in from;
	socklen_t len;
	char b[64] = "";
	int i, sent = 0;

	memset(heard, 0, sizeof heard);
	for (i = 0; i < nr; i++) {
		for (; sent < nr && sent < i + AT_ONCE; sent++) {
			memcpy(b, &sent, sizeof sent);
			CHECK_IS(u_sendto(fd, b, nob, 0, (struct sockaddr *)&at[sent],
					  sizeof at[sent], SOON), nob);
		}
		len = sizeof from;
		CHECK_IS(u_recvfrom(fd, b, sizeof b, 0, (struct sockaddr *)&from,
				    &len, SOON), nob);
		if (nob > 0) {
			int who;

			memcpy(&who, b, sizeof who);
			CHECK(who < nr && heard[who]++ == 0);
			CHECK_IS(from.sin_port, at[who].sin_port);
		}
	}
}

static void datagrams(void *arg)
{
	int nr = *(int *)arg, i, fd;
	struct sockaddr_in ours;
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (i = 0; i < nr; i++) {
		sockets[i] = bound(&at[i]);
		CHECK_IS(uscope_go(s, answers, &sockets[i]), 0);
	}
	fd = bound(&ours);
	for (i = 0; i < 5; i++)
		ask_all(fd, nr, 50);
	ask_all(fd, nr, 0);
	CHECK_IS(uscope_end(&s), 0);
	CHECK_IS(u_close(fd), 0);
}

/* Returns for how many sockets the system has descriptors. */
static int room(void)
{
	struct rlimit l;

	CHECK_IS(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	CHECK_IS(getrlimit(RLIMIT_NOFILE, &l), 0);
	CHECK_THAT(l.rlim_cur, >, 4 * SPARE);
	return l.rlim_cur < SOCKETS + SPARE ? (int)l.rlim_cur - SPARE : SOCKETS;
}

int main(int argc, char **argv)
{
	int p, nr;

	check_start(argc, argv);
	nr = room();
	for (p = 1; p <= 2; p++) {
		one_thread(p, slow_readers, NULL);
		one_thread(p, datagrams, &nr);
	}
	return 0;
}
