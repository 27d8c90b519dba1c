/* SPDX-License-Identifier: MIT */
/* echo.c: a TCP server, with a thread for each connection; and a client. */

#include <stdio.h>
#include <usched/all.h>

static void echo(int fd, void *arg)
{
	char buf[512];
	ssize_t n;

	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, uafter(60 * UTIME_S))) > 0)
		u_write_all(fd, buf, n, uafter(10 * UTIME_S));
}

static struct userve server = { .sv_f = echo, .sv_limit = 10000 };

static void run(void *arg)
{
	struct uscope *s;
	char reply[32] = "nothing\n";
	int fd;

	(void)arg;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);	/* any port */
	if (uscope_begin(&s, UNEVER) != 0)
		return;
	if (uscope_go(s, userve, &server) != 0)
		uscope_cancel(s);	/* all waits below end at once */
	fd = u_dial_tcp("127.0.0.1", u_port(server.sv_fd), uafter(UTIME_S));
	u_write_all(fd, "hello, echo\n", 12, UNEVER);
	u_read_all(fd, reply, 12, uafter(UTIME_S));
	printf("%s", reply);
	u_close(fd);
	uscope_cancel(s);		/* userve() returns when all have ended */
	uscope_end(&s);
}

int main(void)
{
	return rr_init(2, 0) || !rr_thread_init(run, NULL) || rr_start() ||
		rr_fini();
}
