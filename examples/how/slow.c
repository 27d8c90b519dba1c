/* SPDX-License-Identifier: MIT */
/* slow.c: sends 10 MB to two clients, and gives up that which does not read. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

enum { SIZE = 10 << 20 };
static char text[SIZE];
static struct usem served;

/* u_write() waits while the kernel's buffer is full; each part has 0.5 s. */
static void serve(int fd, void *arg)
{
	ssize_t n = 0;
	size_t at;

	(void)arg;
	for (at = 0; at < SIZE && n >= 0; at += n > 0 ? n : 0)
		n = u_write(fd, text + at, SIZE - at, uafter(500 * UTIME_MS));
	printf("%s\n", at == SIZE ? "a client has all" : n == -ETIMEDOUT ?
	       "a client does not read: given up" : "a client has gone");
	usem_post(&served);
}

static struct userve server = { .sv_f = serve };

static long take(int fd)
{
	static char part[65536];
	ssize_t n;
	long all = 0;

	while ((n = u_read(fd, part, sizeof part, uafter(10 * UTIME_S))) > 0)
		all += n;
	return all;
}

static int run(void *arg)
{
	struct uscope *s;
	int reads, deaf, rc;

	(void)arg;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	if ((rc = uscope_begin(&s, UNEVER)) != 0)
		return rc;
	rc = uscope_go(s, userve, &server);
	deaf = u_dial_tcp("127.0.0.1", u_port(server.sv_fd), uafter(UTIME_S));
	reads = u_dial_tcp("127.0.0.1", u_port(server.sv_fd), uafter(UTIME_S));
	take(reads);
	u_close(reads);
	for (int i = 0; rc == 0 && i < 2; i++)
		rc = usem_wait(&served, uafter(5 * UTIME_S));
	u_close(deaf);
	uscope_cancel(s);
	uscope_end(&s);
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
