/* SPDX-License-Identifier: MIT */
/* stdin.c: reads lines of standard input, or none for a second; other threads go on. */
#include <errno.h>
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

static char buf[200];
static size_t len, used;

/*
 * Returns the length of a line at buf; 0: the end. After -ETIMEDOUT what came of a line
 * stays. A terminal, a pipe or a file: first waits for bytes, so the read does not block.
 */
static ssize_t next_line(utime_ns until)
{
	char *end;
	ssize_t n;

	memmove(buf, buf + used, len -= used);
	used = 0;
	while ((end = memchr(buf, '\n', len)) == NULL) {
		if (len == sizeof buf)
			return -EMSGSIZE;
		if ((n = u_wait_fd(STDIN_FILENO, UREAD, until)) != 0)
			return n;
		if ((n = u_read(STDIN_FILENO, buf + len, sizeof buf - len, UNEVER)) <= 0)
			return n;
		len += n;
	}
	return used = end + 1 - buf;
}

static int run(void *arg)
{
	int late = 0, rc = usched_go(tick, NULL);
	ssize_t n;

	(void)arg;
	if (rc != 0)
		return rc;
	while ((n = next_line(uafter(UTIME_S))) > 0 || n == -ETIMEDOUT)
		if (n > 0)
			printf("a line: %.*s", (int)n, buf);
		else if (late++ == 0)
			printf("none for a second\n");
	end = 1;
	printf("meanwhile others %s\n", ticks > 0 ? "go on" : "wait");
	return n;
}

int main(void)
{
	return usched_main(run, NULL);
}
