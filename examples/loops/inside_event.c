/* SPDX-License-Identifier: MIT */
/* inside_event.c: libevent's loop in a thread of ours, which alone it blocks. */
/* LIBS: libevent */

/*
 * With the hooks of ext/wrap/ the epoll_wait() of event_base_dispatch() is a wait of its
 * thread. The callbacks run in this thread, and may wait.
 */

#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>
#include <usched/all.h>

static int line[2];

static void on_byte(evutil_socket_t fd, short what, void *base)
{
	char c;

	(void)what;
	if (u_read((int)fd, &c, 1, UNEVER) != 1) {
		event_base_loopbreak(base);
		return;
	}
	printf("loop: %c\n", c);
	u_sleep(uafter(2 * UTIME_MS));	/* a wait in a callback */
	u_write((int)fd, &c, 1, UNEVER);
}

static void runs_the_loop(void *unused)
{
	struct event_base *base = event_base_new();
	struct event *e = event_new(base, line[0], EV_READ | EV_PERSIST, on_byte, base);

	(void)unused;
	event_add(e, NULL);
	event_base_dispatch(base);
	event_free(e);
	event_base_free(base);
	printf("the loop has ended\n");
}

static int first(void *unused)
{
	char c, back;

	(void)unused;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, line) != 0 ||
	    usched_go(runs_the_loop, NULL) != 0)
		return 1;
	for (c = 'a'; c < 'd'; c++) {
		u_sleep(uafter(3 * UTIME_MS));
		u_write(line[1], &c, 1, UNEVER);
		if (u_read(line[1], &back, 1, UNEVER) != 1)
			return 1;
		printf("thread: %c\n", back);
	}
	return u_close(line[1]);
}

int main(void)
{
	return usched_main(first, NULL);
}
