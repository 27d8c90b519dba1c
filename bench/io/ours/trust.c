/* SPDX-License-Identifier: MIT */
/* trust.c: the server on rr, with u_trust() and what else a benchmark can do. */

/*
 * A column of its own beside server.c, so that what these calls bring is seen:
 *
 * - The listener and connections are trusted: nothing but u_close() closes them.
 * - A connection waits before it reads, in serve(), which has no buffer. So an idle
 *   connection keeps none: see "A buffer for each waiting thread" in uio.h. In mode
 *   line it is as in server.c, but trusted.
 * - No read and no write of these has a deadline.
 * - In mode once a thread stays with the acceptor, as the requests of the floor do:
 *   a message to another processor costs as much as a request.
 * - As doc/servers.md advises, processors are not pinned: the client has one of the
 *   cpus.
 */
#include "line.h"

static struct io_ask ask;
static int listener;

static void ok(const char *what, int rc)
{
	if (rc < 0) {
		errno = -rc;
		io_die(what);
	}
}

static void make(void (*f)(void *), intptr_t arg)
{
	int rc = ask.a_once && ustack_self() != NULL ?
		rr_make_here(ustack_self()->u_sched, f, (void *)arg) :
		rr_thread_init(f, (void *)arg) != NULL ? 0 : -ENOMEM;

	ok("thread", rc);
}

/* Sends back what there is. Returns its length, 0 at the end, or an error. */
static __attribute__((noinline)) ssize_t echo(int fd)
{
	char room[IO_ROOM];
	ssize_t n = u_recv(fd, room, sizeof room, 0, UNOW);

	if (n == -EAGAIN)
		return 1;
	return n > 0 ? u_write_all(fd, room, n, UNEVER) : n;
}

static void serve(void *arg)
{
	int fd = (intptr_t)arg;

	while (u_wait_fd(fd, UREAD, UNEVER) == 0 && echo(fd) > 0)
		;
	u_close(fd);
}

static void serve_once(void *arg)
{
	int fd = (intptr_t)arg;
	char room[IO_MESSAGE];

	if (u_read_all(fd, room, sizeof room, UNEVER) == sizeof room)
		u_write_all(fd, room, sizeof room, UNEVER);
	u_close(fd);
}

static void serve_lines(void *arg)
{
	talk((intptr_t)arg, NULL);
	u_close((intptr_t)arg);
}

static void compute(void *arg)
{
	(void)arg;
	for (;;) {
		io_compute();
		ok("yield", rr_yield());
	}
}

static void acceptor(void *arg)
{
	int i, fd;

	(void)arg;
	for (i = 0; i < ask.a_k; i++)
		make(compute, 0);
	ok("trust", u_trust(listener));
	io_ready(listener);
	for (;;) {
		fd = u_accept(listener, NULL, NULL, SOCK_NONBLOCK |
			      SOCK_CLOEXEC, UNEVER);
		ok("accept", fd);
		io_nodelay(fd, ask.a_at.a_any.sa_family);
		ok("trust", u_trust(fd));
		make(ask.a_once ? serve_once : ask.a_line ? serve_lines : serve,
		     fd);
	}
}

int main(int argc, char **argv)
{
	io_server(&ask, argc, argv);
	listener = io_listen(&ask);
	ok("init", rr_init(ask.a_p, 0));
	ok("pinning", rr_pinning(0));
	make(acceptor, 0);
	ok("start", rr_start());
	ok("fini", rr_fini());
	return 0;
}
