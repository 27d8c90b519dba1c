/* SPDX-License-Identifier: MIT */
/* poll.c: a program with a poll() loop of its own runs threads in it. */

/*
 * The loop waits for a pipe of its own and for the descriptor of the threads, until their
 * deadline. Its callback is no thread: it may make and wake threads, and must not wait.
 */

#include <poll.h>
#include <unistd.h>
#include "common.h"

static int own[2];			/* the loop reads it */
static int line[2];			/* a thread reads it */
static struct usem answer = USEM(0);

static void writes(void *unused)
{
	char c;

	(void)unused;
	for (c = 'a'; c < 'd'; c++) {
		u_sleep(uafter(5 * UTIME_MS));
		u_write(line[1], &c, 1, UNEVER);
	}
	u_close(line[1]);
}

static void reads(void *unused)
{
	char c;

	(void)unused;
	while (u_read(line[0], &c, 1, UNEVER) == 1) {
		printf("thread: %c\n", c);
		u_write(own[1], &c, 1, UNEVER);
		take(&answer);
	}
	silence();
}

static void callback(void)
{
	char c;

	if (read(own[0], &c, 1) != 1)
		abort();
	printf("loop: %c\n", c);
	usem_post(&answer);
}

int main(void)
{
	struct usched *s = scheduler();
	struct pollfd p[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pipe(own) != 0 || pipe(line) != 0)
		return 1;
	make(reads, NULL);
	make(writes, NULL);
	p[0] = (struct pollfd){ .fd = uloop_start(s), .events = POLLIN };
	p[1] = (struct pollfd){ .fd = own[0], .events = POLLIN };
	while (uloop_run(s) > 0) {
		if (poll(p, 2, uloop_ms(uloop_until(s))) < 0)
			return 1;
		if (p[1].revents != 0)
			callback();
	}
	return SCHED(fini)() != 0;
}
