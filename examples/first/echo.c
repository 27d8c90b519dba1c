/* SPDX-License-Identifier: MIT */
/* echo.c: a thread for each connection: sends back what comes. */
#include <usched/all.h>
static void echo(int fd, void *arg)
{
	char buf[512];
	ssize_t n;
	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, uafter(60 * UTIME_S))) > 0 &&
	       u_write_all(fd, buf, n, uafter(10 * UTIME_S)) == n)
		;
}
int main(void)
{
	static struct userve server = { .sv_f = echo, .sv_limit = 10000 };
	server.sv_fd = u_listen_tcp("127.0.0.1", 7777, 0, 0);
	return usched_main(userve, &server);
}
