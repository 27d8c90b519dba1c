/* SPDX-License-Identifier: MIT */
/* closing.c: ends a connection that another thread reads, which then closes it. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static int ends[2];

static int reader(void *arg)
{
	char buf[100];
	ssize_t n;

	(void)arg;
	while ((n = u_read(ends[0], buf, sizeof buf, uafter(3 * UTIME_S))) > 0)
		printf("reads: %.*s\n", (int)n, buf);
	printf("%s\n", n == 0 ? "reads the end" : "reads no more");
	return u_close(ends[0]);		/* by the only thread that reads it */
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, reader, NULL);
	u_write_all(ends[1], "hello", 5, uafter(UTIME_S));
	u_sleep(uafter(100 * UTIME_MS));	/* the reader waits */
	shutdown(ends[0], SHUT_RDWR);		/* safe also if it does not */
	e = uscope_end(&s);
	u_close(ends[1]);
	return rc != 0 ? rc : e;
}

int main(void)
{
	return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || usched_main(run, NULL);
}
