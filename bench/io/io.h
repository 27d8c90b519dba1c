/* SPDX-License-Identifier: MIT */
/* io.h: the contract between the servers and the client of this benchmark. */

#ifndef IO_H
#define IO_H

/*
 * A server is asked
 *
 *	MODE ADDRESS P K
 *
 * MODE		echo: each connection has a thread (goroutine, task), which
 *		sends back all bytes, until the client closes.
 *		line: it answers each line by two writes: IO_OK, and the line.
 *		Lines may come in parts, or several at once; up to IO_LINE bytes.
 *		A longer line ends the connection.
 *		once: the thread sends back IO_MESSAGE bytes, then closes and
 *		ends.
 * ADDRESS	tcp: a free port of 127.0.0.1. unix:PATH: a socket that the
 *		server makes.
 * P		native threads that serve.
 * K		threads that compute for IO_SLICE, yield, and so on.
 *
 * When connections are accepted, the server prints
 *
 *	ready ADDRESS PID
 *
 * with its port, as 127.0.0.1:PORT. It runs until a signal ends it. Its exit
 * status is 2 if it does not understand the question, and 1 if it fails, with
 * a reason on stderr; 77: it has no counterpart.
 *
 * All servers do the same for a connection: the socket does not block and has
 * no delay (TCP_NODELAY). A read has room for IO_ROOM bytes, or for IO_LINE, of
 * lines: a message and some more, so that a short read shows that the socket is
 * empty. The caller of the server has raised the limit of descriptors.
 *
 * The header is for the sources of one program.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { IO_FAILED = 1, IO_USAGE = 2, IO_NONE = 77 };

enum {
	IO_MESSAGE = 100,	/* with its newline, which only lines need */
	IO_ROOM    = 512,
	IO_LINE    = 4096,
	IO_OK_SIZE = 3,
	IO_SLICE   = 50000,	/* ns */
	IO_BACKLOG = 4096,
	IO_EVENTS  = 256,	/* of an epoll_wait() */
	IO_MOST    = 64		/* P, K */
};

#define IO_S	1000000000L
#define IO_OK	"ok\n"

static inline __attribute__((noreturn)) void io_die(const char *why)
{
	fprintf(stderr, "%s: %s\n", why, strerror(errno));
	exit(IO_FAILED);
}

static inline int64_t io_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * IO_S + t.tv_nsec;
}

/* Computes for a slice. */
static inline void io_compute(void)
{
	int64_t end = io_now() + IO_SLICE;
	uint64_t x = end;
	int i;

	do {
		for (i = 0; i < 300; i++)
			x = (x ^ x >> 31) * 6364136223846793005UL;
		__asm__ volatile("" : : "r" (x));
	} while (io_now() < end);
}

union io_address {
	struct sockaddr     a_any;
	struct sockaddr_in  a_in;
	struct sockaddr_un  a_un;
};

/*
 * Reads tcp, 127.0.0.1:PORT or unix:PATH. Returns the length of the address, or
 * 0 if text is none of these.
 */
static inline socklen_t io_address(union io_address *a, const char *text)
{
	unsigned port = 0;
	char more;

	memset(a, 0, sizeof *a);
	if (strncmp(text, "unix:", 5) == 0) {
		if (strlen(text + 5) >= sizeof a->a_un.sun_path)
			return 0;
		a->a_un.sun_family = AF_UNIX;
		strcpy(a->a_un.sun_path, text + 5);
		return sizeof a->a_un;
	}
	if (strcmp(text, "tcp") != 0 && (sscanf(text, "127.0.0.1:%u%c", &port,
	    &more) != 1 || port == 0 || port > 65535))
		return 0;
	a->a_in.sin_family = AF_INET;
	a->a_in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a->a_in.sin_port = htons(port);
	return sizeof a->a_in;
}

static inline void io_nodelay(int fd, int family)
{
	int on = 1;

	if (family == AF_INET &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
		io_die("TCP_NODELAY");
}

/* A question to a server: echo, if no mode is set. */
struct io_ask {
	bool             a_once, a_line;
	union io_address a_at;
	socklen_t        a_len;
	int              a_p, a_k;
};

/* Returns whether text is a number from least to most. */
static inline bool io_number(const char *text, long least, long most, long *v)
{
	char *end;

	*v = strtol(text, &end, 10);
	return end != text && *end == 0 && *v >= least && *v <= most;
}

static inline void io_server(struct io_ask *ask, int argc, char **argv)
{
	long p, k;

	if (argc == 5 && io_number(argv[3], 1, IO_MOST, &p) &&
	    io_number(argv[4], 0, IO_MOST, &k) &&
	    (ask->a_len = io_address(&ask->a_at, argv[2])) != 0) {
		ask->a_p = p;
		ask->a_k = k;
		ask->a_once = strcmp(argv[1], "once") == 0;
		ask->a_line = strcmp(argv[1], "line") == 0;
		if (ask->a_once || ask->a_line || strcmp(argv[1], "echo") == 0)
			return;
	}
	fprintf(stderr, "usage: %s echo|line|once tcp|unix:PATH P K\n",
		argv[0]);
	exit(IO_USAGE);
}

/* Returns a socket that listens at ask's address, and does not block. */
static inline int io_listen(struct io_ask *ask)
{
	int on = 1;
	int fd = socket(ask->a_at.a_any.sa_family, SOCK_STREAM | SOCK_NONBLOCK |
		SOCK_CLOEXEC, 0);

	if (fd < 0)
		io_die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
		io_die("SO_REUSEADDR");
	if (bind(fd, &ask->a_at.a_any, ask->a_len) != 0)
		io_die("bind");
	if (listen(fd, IO_BACKLOG) != 0)
		io_die("listen");
	return fd;
}

/* Tells the client where it can connect: to listener. */
static inline void io_ready(int listener)
{
	union io_address a;
	socklen_t len = sizeof a;

	memset(&a, 0, sizeof a);
	if (getsockname(listener, &a.a_any, &len) != 0)
		io_die("getsockname");
	if (a.a_any.sa_family == AF_UNIX)
		printf("ready unix:%s", a.a_un.sun_path);
	else
		printf("ready 127.0.0.1:%u", ntohs(a.a_in.sin_port));
	printf(" %ld\n", (long)getpid());
	fflush(stdout);
}

#endif /* IO_H */
