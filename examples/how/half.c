/* SPDX-License-Identifier: MIT */
/* half.c: ends what it sends, and still reads the answer to its end. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

/* Answers when it has all, which only the end of the stream tells. */
static void count(int fd, void *arg)
{
	char buf[100], answer[20];
	int len, all = 0;
	ssize_t n;

	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, uafter(10 * UTIME_S))) > 0)
		all += n;
	len = snprintf(answer, sizeof answer, "%d bytes", all);
	if (n == 0)
		u_write_all(fd, answer, len, uafter(10 * UTIME_S));
}

static struct userve server = { .sv_f = count };

static int ask(void)
{
	int fd = u_dial_tcp("127.0.0.1", u_port(server.sv_fd), uafter(UTIME_S));
	char answer[20];
	ssize_t n;

	if (fd < 0)
		return fd;
	u_write_all(fd, "a text without a length", 23, uafter(UTIME_S));
	shutdown(fd, SHUT_WR);			/* u_close() would end both ways */
	n = u_read_all(fd, answer, sizeof answer, uafter(3 * UTIME_S));
	printf("%.*s\n", n > 0 ? (int)n : 9, n > 0 ? answer : "no answer");
	return u_close(fd);
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	rc = uscope_go(s, userve, &server);
	if (rc == 0)
		rc = ask();
	uscope_cancel(s);
	uscope_end(&s);
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
