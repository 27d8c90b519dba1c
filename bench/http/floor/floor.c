/* SPDX-License-Identifier: MIT */
/* floor.c: a web server as a bare loop over epoll: the least that it costs. */

/*
 * A request costs a recv() and a send(), and a share of an epoll_wait(). A file
 * also costs an open, an fstat(), a sendfile() and a close(). Requests that
 * came with the same recv() are answered by the same send().
 *
 * A request is parsed as far as the server needs: the method, the path, the
 * version, and each field up to its colon. It must name a host. Bodies are
 * refused.
 *
 * Input and output use buffers of the loop. Only bytes that wait are kept by a
 * connection: a part of a request, or answers for which the socket has no room.
 * While answers wait, nothing is read.
 *
 * Registrations are edge-triggered, and made once. A short read shows that the
 * socket is empty. With P > 1 each native thread has an epoll of its own; the
 * first accepts, and deals connections out.
 */
#include "../http.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { FILES = 20000, ROOM = 32768, PATH = 1024, ANSWER = 512 };

struct conn {			/* of a descriptor */
	char  *c_in, *c_out;	/* bytes that wait, or NULL */
	size_t c_in_nr, c_out_nr;
	off_t  c_at, c_end;	/* of the file */
	int    c_file;		/* 0: none */
	bool   c_waits;		/* for room in the socket */
	bool   c_last;		/* closes after its answers */
};

struct loop {
	pthread_t l_thread;
	int       l_epoll;
	time_t    l_second;
	char      l_date[40];
	size_t    l_in_nr, l_out_nr;
	char      l_in[ROOM], l_out[ROOM];
};

struct request {
	char r_path[PATH];
	bool r_host, r_last;
};

static struct conn conns[FILES];
static struct loop loops[IO_MOST];
static long loop_nr = 1;
static int listener, root;

static void watch(int epoll, int op, int fd, unsigned events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll, op, fd, &e) != 0)
		io_die("epoll_ctl");
}

static void drop(int fd)
{
	struct conn *c = &conns[fd];

	free(c->c_in);
	free(c->c_out);
	if (c->c_file > 0)
		close(c->c_file);
	memset(c, 0, sizeof *c);
	close(fd);
}

static char *copy(const char *bytes, size_t n)
{
	char *p = malloc(n);

	if (p == NULL)
		io_die("malloc");
	return memcpy(p, bytes, n);
}

/* The parser. Statuses of errors are negative. */

static int parse_field(struct request *r, const char *line, const char *end)
{
	const char *colon = memchr(line, ':', end - line);

	if (colon == NULL || colon == line || *line == ' ')
		return -400;
	switch (colon - line) {
	case 4:
		r->r_host |= strncasecmp(line, "host", 4) == 0;
		return 0;
	case 10:
		r->r_last |= strncasecmp(line, "connection", 10) == 0 &&
			memmem(colon, end - colon, "close", 5) != NULL;
		return 0;
	case 14:
		return strncasecmp(line, "content-length", 14) == 0 ? -413 : 0;
	case 17:
		return strncasecmp(line, "transfer-encoding", 17) == 0 ? -501 :
			0;
	}
	return 0;
}

/* Reads "GET /PATH HTTP/1.1". */
static int parse_first(struct request *r, const char *line, const char *end)
{
	const char *space;
	size_t n;

	if (end - line < 14 || memcmp(line, "GET /", 5) != 0)
		return -405;
	line += 4;
	space = memchr(line, ' ', end - line);
	if (space == NULL || end - space != 9 ||
	    memcmp(space, " HTTP/1.1", 9) != 0)
		return -400;
	n = space - line;
	if (n >= PATH)
		return -414;
	memcpy(r->r_path, line, n);
	r->r_path[n] = 0;
	return 0;
}

/* Returns the length of the first request; 0: the end is missing; an error. */
static int parse(struct request *r, const char *text, size_t n)
{
	const char *line, *next;
	int rc = 0;

	r->r_host = r->r_last = false;
	for (line = text; rc == 0; line = next + 1) {
		next = memchr(line, '\n', text + n - line);
		if (next == NULL)
			return n < ROOM ? 0 : -431;
		if (next == line || next[-1] != '\r')
			return -400;
		if (next - 1 == line)
			break;
		if (line == text)
			rc = parse_first(r, line, next - 1);
		else
			rc = parse_field(r, line, next - 1);
	}
	if (rc == 0 && (line == text || !r->r_host))
		rc = -400;
	return rc < 0 ? rc : (int)(next + 1 - text);
}

/* Answers. */

static const char *date(struct loop *l)
{
	struct timespec t;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME_COARSE, &t);
	if (t.tv_sec != l->l_second) {
		l->l_second = t.tv_sec;
		strftime(l->l_date, sizeof l->l_date,
			 "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t.tv_sec, &tm));
	}
	return l->l_date;
}

/* Appends text. The caller has left room for ANSWER bytes. */
static void put(struct loop *l, const char *text)
{
	size_t n = strlen(text);

	memcpy(l->l_out + l->l_out_nr, text, n);
	l->l_out_nr += n;
}

static void put_head(struct loop *l, const char *status, long length)
{
	char number[24], *p = number + sizeof number - 1;

	*p = 0;
	do
		*--p = '0' + length % 10;
	while ((length /= 10) > 0);
	put(l, "HTTP/1.1 ");
	put(l, status);
	put(l, "\r\nServer: floor\r\nDate: ");
	put(l, date(l));
	put(l, "\r\nContent-Type: text/plain\r\nContent-Length: ");
	put(l, p);
	put(l, "\r\n\r\n");
}

static void put_plain(struct loop *l)
{
	put_head(l, "200 OK", 13);
	put(l, "Hello, World!");
}

static void put_error(struct loop *l, struct conn *c, int error)
{
	char status[48];

	snprintf(status, sizeof status, "%d Error\r\nConnection: close",
		 -error);
	put_head(l, status, 0);
	c->c_last = true;
}

/* Opens a file, and appends the head of its answer. */
static void put_file(struct loop *l, struct conn *c, const char *path)
{
	struct stat s;
	int fd = -1;

	if (path[1] != '/' && strstr(path, "/..") == NULL)
		fd = openat(root, path + 1, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode)) {
		put_head(l, "200 OK", s.st_size);
		c->c_file = fd;
		c->c_at = 0;
		c->c_end = s.st_size;
		return;
	}
	if (fd >= 0)
		close(fd);
	put_head(l, "404 Not Found", 0);
}

/*
 * Sends n bytes. Keeps those for which there is no room. Returns whether all
 * were sent; -1: the connection has failed.
 */
static int send_bytes(struct conn *c, int fd, const char *bytes, size_t n)
{
	ssize_t did = 0;
	char *old = c->c_out;

	if (n > 0)
		did = send(fd, bytes, n, MSG_NOSIGNAL |
			   (c->c_file > 0 ? MSG_MORE : 0));
	if (did < 0 && errno != EAGAIN)
		return -1;
	if (did < 0)
		did = 0;
	c->c_out_nr = n - did;
	c->c_out = c->c_out_nr > 0 ? copy(bytes + did, c->c_out_nr) : NULL;
	free(old);
	return c->c_out == NULL;
}

/* Sends the rest of the file. Returns as send_bytes(). */
static int send_rest(struct conn *c, int fd)
{
	ssize_t did;

	while (c->c_file > 0 && c->c_at < c->c_end) {
		did = sendfile(fd, c->c_file, &c->c_at, c->c_end - c->c_at);
		if (did < 0 && errno == EAGAIN)
			return 0;
		if (did <= 0)
			return -1;
	}
	if (c->c_file > 0)
		close(c->c_file);
	c->c_file = 0;
	return 1;
}

/* Sends the loop's answers, and a file. */
static int flush(struct loop *l, struct conn *c, int fd)
{
	size_t n = l->l_out_nr;
	int rc;

	l->l_out_nr = 0;
	rc = send_bytes(c, fd, l->l_out, n);
	return rc > 0 ? send_rest(c, fd) : rc;
}

/*
 * Answers all requests of the loop's input, and removes them from it. Returns
 * as send_bytes(); -1 also after the last answer of a connection.
 */
static int answer(struct loop *l, struct conn *c, int fd)
{
	struct request r;
	size_t at = 0;
	int n, rc = 1;

	while (rc > 0 && !c->c_last && at < l->l_in_nr) {
		n = parse(&r, l->l_in + at, l->l_in_nr - at);
		if (n == 0)
			break;
		at += n > 0 ? (size_t)n : 0;
		c->c_last = n < 0 || r.r_last;
		if (n < 0)
			put_error(l, c, n);
		else if (strcmp(r.r_path, HTTP_PLAIN) == 0)
			put_plain(l);
		else
			put_file(l, c, r.r_path);
		if (c->c_file > 0 || l->l_out_nr + ANSWER > ROOM)
			rc = flush(l, c, fd);
	}
	l->l_in_nr -= at;
	memmove(l->l_in, l->l_in + at, l->l_in_nr);
	if (rc > 0)
		rc = flush(l, c, fd);
	return rc > 0 && c->c_last ? -1 : rc;
}

/* Moves the bytes that a connection has kept to the loop's input. */
static void recall(struct loop *l, struct conn *c)
{
	l->l_in_nr = c->c_in_nr;
	if (c->c_in == NULL)
		return;
	memcpy(l->l_in, c->c_in, c->c_in_nr);
	free(c->c_in);
	c->c_in = NULL;
	c->c_in_nr = 0;
}

/* Keeps the loop's input, and waits for room if the socket has none. */
static void keep(struct loop *l, struct conn *c, int fd, bool waits)
{
	if (l->l_in_nr > 0)
		c->c_in = copy(l->l_in, l->l_in_nr);
	c->c_in_nr = l->l_in_nr;
	if (waits != c->c_waits)
		watch(l->l_epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP |
		      EPOLLET | (waits ? EPOLLOUT : 0));
	c->c_waits = waits;
}

/*
 * Called with end set if the stream has ended, so must be read to its end.
 * Answers what was kept before, since its answers may have waited for room.
 */
static void serve(struct loop *l, int fd, bool end)
{
	struct conn *c = &conns[fd];
	ssize_t n = 0;
	size_t room;
	int rc = send_bytes(c, fd, c->c_out, c->c_out_nr);

	if (rc > 0)
		rc = send_rest(c, fd);
	recall(l, c);
	if (rc > 0 && c->c_last)
		rc = -1;
	else if (rc > 0 && c->c_waits)
		rc = answer(l, c, fd);
	do {
		room = ROOM - l->l_in_nr;
		if (rc <= 0 || room == 0)
			break;
		n = recv(fd, l->l_in + l->l_in_nr, room, 0);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			rc = -1;
			break;
		}
		l->l_in_nr += n;
		rc = answer(l, c, fd);
	} while (end || (size_t)n == room);
	if (rc < 0)
		drop(fd);
	else
		keep(l, c, fd, rc == 0);
}

static void admit(void)
{
	static unsigned turn;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK |
			     SOCK_CLOEXEC)) >= 0) {
		if (fd >= FILES)
			io_die("too many files");
		io_nodelay(fd, AF_INET);
		watch(loops[turn++ % loop_nr].l_epoll, EPOLL_CTL_ADD, fd,
		      EPOLLIN | EPOLLRDHUP | EPOLLET);
	}
	if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		io_die("accept");
}

static void *loop(void *arg)
{
	struct epoll_event all[IO_EVENTS];
	struct loop *l = arg;
	int i, n;

	for (;;) {
		n = epoll_wait(l->l_epoll, all, IO_EVENTS, -1);
		for (i = 0; i < n; i++) {
			if (all[i].data.fd == listener)
				admit();
			else
				serve(l, all[i].data.fd, all[i].events &
				      (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
		}
	}
	return NULL;
}

static void usage(void)
{
	fprintf(stderr, "usage: server -p PORT -r ROOT -n P -c CONNECTIONS\n");
	exit(IO_USAGE);
}

static void options(int argc, char **argv, struct io_ask *ask)
{
	long v;
	int o;

	ask->a_len = io_address(&ask->a_at, "tcp");
	root = open(".", O_PATH | O_CLOEXEC);
	while ((o = getopt(argc, argv, "p:r:n:c:")) >= 0) {
		if (o == 'r' && (root = open(optarg, O_PATH | O_CLOEXEC)) < 0)
			io_die(optarg);
		if (o == 'p' && io_number(optarg, 0, 65535, &v))
			ask->a_at.a_in.sin_port = htons(v);
		else if (o == 'n' && io_number(optarg, 1, IO_MOST, &loop_nr))
			;
		else if (o == 'c' && io_number(optarg, 1, FILES, &v))
			;
		else if (o != 'r')
			usage();
	}
	if (optind != argc)
		usage();
}

int main(int argc, char **argv)
{
	struct io_ask ask = { 0 };
	union io_address a;
	socklen_t len = sizeof a;
	int i;

	options(argc, argv, &ask);
	signal(SIGPIPE, SIG_IGN);	/* of sendfile() */
	listener = io_listen(&ask);
	for (i = 0; i < loop_nr; i++)
		if ((loops[i].l_epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
			io_die("epoll_create1");
	watch(loops[0].l_epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
	for (i = 1; i < loop_nr; i++)
		if ((errno = pthread_create(&loops[i].l_thread, NULL, loop,
					    &loops[i])) != 0)
			io_die("pthread_create");
	if (getsockname(listener, &a.a_any, &len) != 0)
		io_die("getsockname");
	printf("listening on 127.0.0.1:%u\n", ntohs(a.a_in.sin_port));
	fflush(stdout);
	loop(&loops[0]);
	return 0;
}
