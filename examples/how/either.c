/* SPDX-License-Identifier: MIT */
/* either.c: a connection waits for bytes of its client, and for messages of others. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <usched/all.h>

static struct uchan *events;		/* 'm': a message; others: a byte */
static int ends[2];

/* Makes events of bytes, so there is a single thing to wait for. */
static int reader(void *arg)
{
	char c;
	ssize_t n;
	int rc = 0;

	(void)arg;
	while (rc == 0 && (n = u_read(ends[0], &c, 1, UNEVER)) > 0)
		rc = uchan_send(events, &c, UNEVER);
	uchan_close(events);
	return rc;
}

static int others(void *arg)
{
	int rc = uchan_send(events, "m", UNEVER);

	(void)arg;
	if (rc == 0 && (rc = u_sleep(uafter(10 * UTIME_MS))) == 0)
		rc = u_write_all(ends[1], "b", 1, UNEVER) == 1 ? 0 : -EIO;
	u_close(ends[1]);
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	char event;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	if ((rc = uscope_go(s, reader, NULL)) == 0)
		rc = uscope_go(s, others, NULL);
	while (rc == 0 && (rc = uchan_recv(events, &event, uafter(3 * UTIME_S))) == 0)
		printf("%s\n", event == 'm' ? "a message" : "a byte");
	printf("the client has gone\n");
	if (rc != -EPIPE)
		uscope_cancel(s);
	e = uscope_end(&s);
	u_close(ends[0]);
	return rc == -EPIPE ? e : rc;
}

int main(void)
{
	events = uchan_make(1, 0);
	return events == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
		usched_main(run, NULL);
}
