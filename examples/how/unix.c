/* SPDX-License-Identifier: MIT */
/* unix.c: a server at a unix socket, which gives its client a descriptor. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <usched/all.h>

static char path[40];
static int ends[2];			/* of a pipe, which the client shall read */

static void give(int fd, void *arg)
{
	(void)arg;
	u_send_fd(fd, ends[0], uafter(UTIME_S));
}

static struct userve server = { .sv_f = give };

static int take(void)
{
	char text[20];
	ssize_t n;
	int fd, sock = u_dial_unix(path, uafter(UTIME_S));

	if (sock < 0)
		return sock;
	fd = u_recv_fd(sock, uafter(UTIME_S));
	u_close(sock);
	if (fd < 0)
		return fd;
	n = u_read(fd, text, sizeof text, uafter(UTIME_S));
	printf("%.*s\n", n > 0 ? (int)n : 0, text);
	return u_close(fd);
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	server.sv_fd = u_listen_unix(path, 0);
	rc = uscope_go(s, userve, &server);
	if (rc == 0)
		rc = take();
	uscope_cancel(s);
	uscope_end(&s);
	unlink(path);
	return rc;
}

int main(void)
{
	snprintf(path, sizeof path, "/tmp/how-%ld", (long)getpid());
	return pipe(ends) != 0 || write(ends[1], "from the pipe", 13) != 13 ||
		usched_main(run, NULL);
}
