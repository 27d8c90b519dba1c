/* SPDX-License-Identifier: MIT */
/* floor.c: the server as a bare loop over epoll: the least that it can cost. */

/*
 * A message costs a recv() and a send(), and a share of an epoll_wait().
 * Nothing is kept of a connection, but its file and its registration.
 *
 * In mode once, a request that is there when its connection is accepted is
 * answered without a registration.
 *
 * A registration is edge-triggered, and made once. After a short read the
 * socket is empty, so that the next bytes are a new edge: no further read asks
 * for them. The end of the stream is read after its own event, EPOLLRDHUP.
 *
 * If a client does not read, the rest of an answer waits in struct rest, and
 * the connection is not read until all has been sent. In mode line, a line that
 * has not come whole, or cannot be answered yet, waits in struct part.
 *
 * With P > 1, each native thread has an epoll of its own. The first accepts,
 * and deals connections out. With K > 0 a slice of computing stands between two
 * looks into the epoll, whatever K is: a program that is written by hand would
 * do so.
 *
 * REJECTED, with us of the server a message, each the least of 7 to 9 rounds:
 *
 * Level-triggered registrations: 2.33 instead of 2.23 with 1,000 unix sockets.
 * After each event epoll_wait() keeps the socket in its list, and asks the
 * socket again at the next call. read() and write(): 2.85. Mode once without
 * at_once(): 21.7 instead of 19.0 on TCP.
 */
#include "../io.h"

#include <pthread.h>

enum { FILES = 20000 };

struct rest {			/* could not be sent yet */
	size_t r_at, r_end;
	char   r_bytes[IO_OK_SIZE + IO_LINE];
};

struct part {			/* could not be answered yet */
	size_t p_nr;
	char   p_bytes[IO_LINE];
};

struct loop {
	pthread_t l_thread;
	int       l_epoll;
};

static struct io_ask ask;
static struct loop loops[IO_MOST];
static int listener;

/* By descriptor. */
static struct rest *rests[FILES];
static struct part *parts[FILES];
static unsigned char served[FILES];	/* bytes, of mode once */

static void watch(int epoll, int op, int fd, unsigned events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll, op, fd, &e) != 0)
		io_die("epoll_ctl");
}

static void drop(int fd)
{
	free(rests[fd]);
	rests[fd] = NULL;
	free(parts[fd]);
	parts[fd] = NULL;
	served[fd] = 0;
	close(fd);
}

/* Keeps n bytes, until the socket has room. */
static void keep(int epoll, int fd, const char *bytes, size_t n)
{
	struct rest *r = malloc(sizeof *r);

	if (r == NULL)
		io_die("malloc");
	r->r_at = 0;
	r->r_end = n;
	memcpy(r->r_bytes, bytes, n);
	rests[fd] = r;
	watch(epoll, EPOLL_CTL_MOD, fd,
	      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

/* All was sent. Returns whether the connection goes on. */
static bool goes_on(int fd)
{
	if (served[fd] < IO_MESSAGE)
		return true;
	drop(fd);
	return false;
}

/* Returns whether all was sent, so that the connection can be read. */
static bool answer(int epoll, int fd, const char *bytes, size_t n)
{
	ssize_t did = send(fd, bytes, n, MSG_NOSIGNAL);

	if (did < 0 && errno != EAGAIN) {
		drop(fd);
		return false;
	}
	if (did < 0)
		did = 0;
	if (ask.a_once)
		served[fd] += n;
	if ((size_t)did < n) {
		keep(epoll, fd, bytes + did, n - did);
		return false;
	}
	return goes_on(fd);
}

/* Sends the bytes that were kept. Returns whether that was all. */
static bool flush(int epoll, int fd)
{
	struct rest *r = rests[fd];
	ssize_t did = send(fd, r->r_bytes + r->r_at, r->r_end - r->r_at,
			   MSG_NOSIGNAL);

	if (did < 0) {
		if (errno != EAGAIN)
			drop(fd);
		return false;
	}
	r->r_at += did;
	if (r->r_at < r->r_end)
		return false;
	rests[fd] = NULL;
	free(r);
	watch(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
	return goes_on(fd);
}

/* Called with end set if the stream has ended, so must be read to its end. */
static void serve(int epoll, int fd, bool end)
{
	char room[IO_ROOM];
	ssize_t n;

	if (rests[fd] != NULL && !flush(epoll, fd))
		return;
	do {
		n = recv(fd, room, sizeof room, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			drop(fd);
			return;
		}
		if (!answer(epoll, fd, room, n))
			return;
	} while (end || n == sizeof room);
}

/* Returns whether all was sent, as answer() does. */
static bool answer_line(int epoll, int fd, const char *line, size_t n)
{
	struct rest *r;

	if (answer(epoll, fd, IO_OK, IO_OK_SIZE))
		return answer(epoll, fd, line, n);
	r = rests[fd];
	if (r != NULL) {
		memcpy(r->r_bytes + r->r_end, line, n);
		r->r_end += n;
	}
	return false;
}

/* Moves to room what was kept of lines. Returns how much that was. */
static size_t unkeep_part(int fd, char *room)
{
	struct part *p = parts[fd];
	size_t n = p != NULL ? p->p_nr : 0;

	if (p != NULL)
		memcpy(room, p->p_bytes, n);
	free(p);
	parts[fd] = NULL;
	return n;
}

static void keep_part(int fd, const char *bytes, size_t n)
{
	struct part *p = n > 0 ? malloc(sizeof *p) : NULL;

	if (n > 0 && p == NULL)
		io_die("malloc");
	if (p != NULL)
		memcpy(p->p_bytes, bytes, p->p_nr = n);
	parts[fd] = p;
}

/*
 * Answers the lines of room, and leaves there what is no line, of *n bytes.
 * Returns whether the connection can be read; if not, it may have ended.
 */
static bool answer_lines(int epoll, int fd, char *room, size_t *n)
{
	char *at = room, *end;
	bool sent = true;

	while (sent && (end = memchr(at, '\n', room + *n - at)) != NULL) {
		sent = answer_line(epoll, fd, at, end + 1 - at);
		at = end + 1;
	}
	*n -= at - room;
	memmove(room, at, *n);
	if (sent && *n == IO_LINE)
		drop(fd);
	return sent && *n < IO_LINE;
}

/* Called as serve(), in mode line. */
static void serve_lines(int epoll, int fd, bool end)
{
	char room[IO_LINE];
	bool sent, more = true;
	size_t n, space;
	ssize_t did;

	if (rests[fd] != NULL && !flush(epoll, fd))
		return;
	n = unkeep_part(fd, room);
	while ((sent = answer_lines(epoll, fd, room, &n)) && more) {
		space = sizeof room - n;
		did = recv(fd, room + n, space, 0);
		if (did < 0 && errno == EAGAIN)
			break;
		if (did <= 0) {
			drop(fd);
			return;
		}
		n += did;
		more = end || (size_t)did == space;
	}
	if (sent || rests[fd] != NULL)
		keep_part(fd, room, n);
}

/* Answers a request that came with its connection. False: it is not there. */
static bool at_once(int fd)
{
	char room[IO_MESSAGE];
	ssize_t n = recv(fd, room, sizeof room, 0);

	if (n < 0)
		return false;
	served[fd] = n;
	if (n > 0 && send(fd, room, n, MSG_NOSIGNAL) == n && n < IO_MESSAGE)
		return false;
	drop(fd);
	return true;
}

static void admit(void)
{
	static unsigned turn;
	int epoll, fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK |
			     SOCK_CLOEXEC)) >= 0) {
		if (fd >= FILES)
			io_die("too many files");
		io_nodelay(fd, ask.a_at.a_any.sa_family);
		if (ask.a_once && at_once(fd))
			continue;
		epoll = loops[turn++ % ask.a_p].l_epoll;
		watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
	}
	if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		io_die("accept");
}

static void *loop(void *arg)
{
	struct epoll_event all[IO_EVENTS];
	void (*f)(int, int, bool) = ask.a_line ? serve_lines : serve;
	int epoll = ((struct loop *)arg)->l_epoll;
	int i, n;

	for (;;) {
		n = epoll_wait(epoll, all, IO_EVENTS, ask.a_k > 0 ? 0 : -1);
		for (i = 0; i < n; i++) {
			if (all[i].data.fd == listener)
				admit();
			else
				f(epoll, all[i].data.fd, all[i].events &
				  (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
		}
		if (ask.a_k > 0)
			io_compute();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int i;

	io_server(&ask, argc, argv);
	listener = io_listen(&ask);
	for (i = 0; i < ask.a_p; i++)
		if ((loops[i].l_epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
			io_die("epoll_create1");
	watch(loops[0].l_epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
	for (i = 1; i < ask.a_p; i++)
		if ((errno = pthread_create(&loops[i].l_thread, NULL, loop,
					    &loops[i])) != 0)
			io_die("pthread_create");
	io_ready(listener);
	loop(&loops[0]);
	return 0;
}
