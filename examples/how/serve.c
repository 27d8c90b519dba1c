/* SPDX-License-Identifier: MIT */
/* serve.c: serves two clients at a time; the third waits, and loses nothing. */
#include <stdio.h>
#include <usched/all.h>

static void echo(int fd, void *arg)
{
	char buf[100];
	ssize_t n;

	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, uafter(60 * UTIME_S))) > 0 &&
	       u_write_all(fd, buf, n, uafter(10 * UTIME_S)) == n)
		;
}

static struct userve server = { .sv_f = echo, .sv_limit = 2 };

static int dial(void)
{
	int fd = u_dial_tcp("127.0.0.1", u_port(server.sv_fd), uafter(UTIME_S));

	if (fd >= 0)
		u_write_all(fd, "hello", 5, uafter(UTIME_S));
	return fd;
}

static void answer(int nr, int fd, utime_ns until)
{
	char buf[5];

	printf("client %d %s\n", nr, fd >= 0 && u_read_all(fd, buf, 5, until) == 5 ?
	       "is served" : "waits");
}

static int run(void *arg)
{
	int fd[3], i, rc;
	struct uscope *s;

	(void)arg;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	if ((rc = uscope_begin(&s, UNEVER)) != 0)
		return rc;
	rc = uscope_go(s, userve, &server);
	for (i = 0; i < 3; i++)
		answer(i + 1, fd[i] = dial(), uafter((i < 2 ? 10000 : 200) * UTIME_MS));
	u_close(fd[0]);
	answer(3, fd[2], uafter(10 * UTIME_S));
	u_close(fd[1]);
	u_close(fd[2]);
	uscope_cancel(s);		/* accepts no more, and ends in good order */
	uscope_end(&s);
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
