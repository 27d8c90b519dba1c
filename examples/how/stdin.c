/* SPDX-License-Identifier: MIT */
/* stdin.c: reads lines of standard input, while other threads go on. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <usched/all.h>

static _Atomic int end, ticks;

static void tick(void *arg)
{
	(void)arg;
	while (!end && u_sleep(uafter(10 * UTIME_MS)) == 0)
		ticks++;
}

/* A terminal, a pipe or a file: first waits for bytes, so the read does not block. */
static ssize_t fill(char *buf, size_t size)
{
	int rc = u_wait_fd(STDIN_FILENO, UREAD, UNEVER);

	return rc != 0 ? rc : u_read(STDIN_FILENO, buf, size, UNEVER);
}

static int run(void *arg)
{
	char buf[200], *line;
	size_t len = 0;
	ssize_t n;
	int rc = usched_go(tick, NULL);

	(void)arg;
	while (rc == 0 && (n = fill(buf + len, sizeof buf - len)) > 0) {
		len += n;
		while ((line = memchr(buf, '\n', len)) != NULL) {
			printf("a line: %.*s\n", (int)(line - buf), buf);
			len -= ++line - buf;
			memmove(buf, line, len);
		}
		if (len == sizeof buf)
			len = 0;			/* too long a line */
	}
	end = 1;
	printf("meanwhile others %s\n", ticks > 0 ? "go on" : "wait");
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
