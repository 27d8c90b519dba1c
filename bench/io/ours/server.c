/* SPDX-License-Identifier: MIT */
/* server.c: the server on rr, ll or ws: a thread for each connection. */

/*
 * A connection waits in serve(), which has no buffer. So an idle connection
 * keeps none: see "A buffer for each waiting thread" in uio.h.
 *
 * rr deals new threads to its processors in turn, and ll is told to do so. In
 * ws a thread begins where it was made, and an idle worker takes it. In mode once
 * threads of rr stay with the acceptor, as the requests of the floor do: a message
 * to another processor costs as much as a request.
 *
 * Connections and the listener are trusted: nothing but u_close() closes them. As
 * doc/servers.md advises, processors are not pinned: the client has one of the cpus.
 */
#include "../io.h"
#include "uio.h"

#if defined(RR)
#include "rr.h"
#define SCHED(name)	rr_##name
#elif defined(LL)
#include "ll.h"
#define SCHED(name)	ll_##name
#else
#include "ws.h"
#define SCHED(name)	ws_##name
#endif

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
#if defined(RR)
	int rc = ask.a_once && ustack_self() != NULL ?
		rr_make_here(ustack_self()->u_sched, f,
			     (void *)arg) :
		rr_thread_init(f, (void *)arg) != NULL ? 0 : -ENOMEM;
#elif defined(LL)
	static int turn;
	int rc = ll_thread_init(f, (void *)arg, turn++) != NULL ? 0 : -ENOMEM;
#else
	int rc = ws_spawn(f, (void *)arg);
#endif
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

static void compute(void *arg)
{
	(void)arg;
	for (;;) {
		io_compute();
		ok("yield", SCHED(yield)());
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
		make(ask.a_once ? serve_once : serve, fd);
	}
}

int main(int argc, char **argv)
{
	io_server(&ask, argc, argv);
	listener = io_listen(&ask);
	ok("init", SCHED(init)(ask.a_p, 0));
	ok("pinning", SCHED(pinning)(0));
	make(acceptor, 0);
	ok("start", SCHED(start)());
	ok("fini", SCHED(fini)());
	return 0;
}
