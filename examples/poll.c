/* SPDX-License-Identifier: MIT */
/* poll.c: two threads play ping-pong, inside another program's poll() loop. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "usched.h"

static struct ustack player[2];
static struct pollfd table[2];		/* player[i] waits for table[i] */

static struct ustack *next(struct usched *s)
{
	return (void)s, table[0].revents ? &player[0] :
			table[1].revents ? &player[1] : NULL;
}

static void *alloc(struct usched *s, int size)
{
	return (void)s, malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	(void)s, (void)size, free(buf);
}

static void play(void *arg)
{
	struct pollfd *t = arg;
	char ball;

	while (read(t->fd, &ball, 1) == 1 && ball < '7') {
		printf("player %d: %c\n", (int)(t - table), ball++);
		t->revents = 0;
		if (write(t->fd, &ball, 1) != 1 || ustack_block() != 0)
			abort();
	}
	close(t->fd);
	*t = (struct pollfd){ .fd = -1 };	/* poll() skips it */
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };
	int fd[2], i;

	usched_lanes(&s, 2, 1 << 16);	/* else run only from one depth */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) || write(fd[1], "1", 1) < 1)
		return 1;
	for (i = 0; i < 2; i++) {
		table[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
		ustack_init(&player[i], &s, play, &table[i], NULL, 0);
	}
	while (poll(table, 2, 100) > 0)
		usched_run(&s);
	usched_fini(&s), free(player[0].u_stack), free(player[1].u_stack);
}
