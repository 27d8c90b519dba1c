/* SPDX-License-Identifier: MIT */
/* server.c: the server as users write it, on rr, ll or ws, by default settings. */

/*
 * echo() is that of examples/first/echo.c, word for word, and talk() of line.h is
 * as plain: nothing is done for the benchmark. Each read and write has a deadline,
 * which the peers do not have. userve() makes the threads where it does so by
 * default: rr deals them to its processors, ll keeps them with the acceptor, and
 * workers of ws take them from each other. With two processors or more, native
 * threads are pinned.
 *
 * The first thread runs userve(). SCHED names the scheduler.
 */
#include "line.h"

static struct io_ask ask;

static void echo(int fd, void *arg)
{
	char buf[512];
	ssize_t n;
	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, uafter(60 * UTIME_S))) > 0 &&
	       u_write_all(fd, buf, n, uafter(10 * UTIME_S)) == n)
		;
}

static void once(int fd, void *arg)
{
	char buf[IO_MESSAGE];

	(void)arg;
	if (u_read_all(fd, buf, sizeof buf, uafter(60 * UTIME_S)) == sizeof buf)
		u_write_all(fd, buf, sizeof buf, uafter(10 * UTIME_S));
}

static void compute(void *arg)
{
	(void)arg;
	for (;;) {
		io_compute();
		u_sleep(UNOW);
	}
}

static int serve(void *server)
{
	int i, rc;

	for (i = 0; i < ask.a_k; i++)
		if ((rc = usched_go(compute, NULL)) != 0)
			return rc;
	io_ready(((struct userve *)server)->sv_fd);
	return userve(server);
}

int main(int argc, char **argv)
{
	static struct userve server;
	char sched[16];

	io_server(&ask, argc, argv);
	snprintf(sched, sizeof sched, SCHED ":%d", ask.a_p);
	if (setenv("USCHED", sched, 1) != 0)
		io_die("USCHED");
	server.sv_f = ask.a_once ? once : ask.a_line ? talk : echo;
	server.sv_fd = strncmp(argv[2], "unix:", 5) == 0 ?
		u_listen_unix(argv[2] + 5, 0) :
		u_listen_tcp("127.0.0.1", 0, 0, 0);
	if (server.sv_fd < 0) {
		errno = -server.sv_fd;
		io_die("listen");
	}
	return usched_main(serve, &server) == 0 ? 0 : IO_FAILED;
}
