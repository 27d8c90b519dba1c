/* SPDX-License-Identifier: MIT */
/* slow.c: holds connections to a web server that say next to nothing. */

/*
 *	slow ADDRESS CONNECTIONS MS
 *
 * Connections are of four kinds, in turn: they send nothing; a head whose end
 * never comes, a byte every MS milliseconds; the same, but only the first line;
 * a request, whose answer they never read.
 *
 * If the server ends a connection, another takes its place at once. When
 * all were open once, the program prints
 *
 *	holding CONNECTIONS
 *
 * At SIGTERM it prints "ended N", the number that the server has ended, and its
 * exit status is 0. 77: there are not enough descriptors.
 */
#include "../http.h"

#include <signal.h>
#include <sys/resource.h>

enum { SILENT, HEAD, LINE, UNREAD, KINDS, SPARE_FILES = 50, SLICES = 100 };

struct conn {
	int  c_fd;
	bool c_open;		/* it is open, and counted */
	long c_sent;
};

static struct conn *conns;
static union io_address where;
static socklen_t where_len;
static long conn_nr, open_nr, ended;
static int epoll;
static volatile sig_atomic_t stops;

static void stop(int signo)
{
	(void)signo;
	stops = 1;
}

static void dial(struct conn *c)
{
	struct linger reset = { 1, 0 };
	struct epoll_event e = { .events = EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = c };
	int small = 1;

	c->c_open = false;
	c->c_sent = 0;
	c->c_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->c_fd < 0)
		io_die("socket");
	setsockopt(c->c_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	setsockopt(c->c_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	if (connect(c->c_fd, &where.a_any, where_len) != 0 &&
	    errno != EINPROGRESS)
		io_die("connect");
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->c_fd, &e) != 0)
		io_die("epoll_ctl");
}

/* Sends the next byte, or all that there is for the first time. */
static void dribble(struct conn *c)
{
	static const char line[] = "GET /a";
	static const char head[] = "GET /4k HTTP/1.1\r\nHost: a\r\n";
	static const char whole[] = "GET /4k HTTP/1.1\r\nHost: a\r\n\r\n";
	const char *text = "a";
	size_t n = 1;
	int kind = (c - conns) % KINDS;

	if (kind == SILENT || (kind == UNREAD && c->c_sent > 0))
		return;
	if (c->c_sent == 0) {
		text = kind == LINE ? line : kind == HEAD ? head : whole;
		n = strlen(text);
	}
	if (send(c->c_fd, text, n, MSG_NOSIGNAL) > 0)
		c->c_sent += n;
}

static void event(struct conn *c, unsigned events)
{
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		ended++;
		close(c->c_fd);
		dial(c);
		return;
	}
	if (c->c_open)
		return;
	c->c_open = true;
	dribble(c);
	if (++open_nr == conn_nr) {
		printf("holding %ld\n", conn_nr);
		fflush(stdout);
	}
}

/* Serves events for a time. */
static void serve(int64_t ns)
{
	struct epoll_event all[IO_EVENTS];
	int64_t end = io_now() + ns, left;
	int i, n;

	while (!stops && (left = end - io_now()) > 0) {
		n = epoll_wait(epoll, all, IO_EVENTS, left / 1000000 + 1);
		for (i = 0; i < n; i++)
			event(all[i].data.ptr, all[i].events);
	}
}

static void files(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if ((long)r.rlim_cur < conn_nr + SPARE_FILES) {
		fprintf(stderr, "slow: %ld connections: not enough files\n",
			conn_nr);
		exit(IO_NONE);
	}
}

int main(int argc, char **argv)
{
	long i, turn, ms;

	if (argc != 4 || (where_len = io_address(&where, argv[1])) == 0 ||
	    !io_number(argv[2], 1, 1L << 20, &conn_nr) ||
	    !io_number(argv[3], 1, 1000 * 1000, &ms)) {
		fprintf(stderr, "usage: slow ADDRESS CONNECTIONS MS\n");
		return IO_USAGE;
	}
	files();
	signal(SIGTERM, stop);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	conns = calloc(conn_nr, sizeof *conns);
	if (epoll < 0 || conns == NULL)
		io_die("slow");
	for (i = 0; i < conn_nr; i++) {
		dial(&conns[i]);
		if (i % IO_EVENTS == 0)
			serve(1000000);
	}
	for (turn = 0; !stops; turn++) {
		for (i = turn % SLICES; i < conn_nr; i += SLICES)
			if (conns[i].c_open)
				dribble(&conns[i]);
		serve(ms * 1000000 / SLICES);
	}
	printf("ended %ld\n", ended);
	return 0;
}
