/* SPDX-License-Identifier: MIT */
/*
 * evhttp.c: the event loop of Debian's libevent.a and its server of HTTP,
 * unmodified, relinked with sim.flags. A client asks for pages, by blocking
 * calls. Each answer is whole and its own, or the connection has an error.
 */

#include <usched/usim.h>
#include "dial.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PORT = 80, ROUNDS = 60, LINES = 3000 };

/* "/n": LINES lines with n, more than a window; or one line, if n is odd. */
static void page(struct evhttp_request *r, void *unused)
{
	struct evbuffer *b = evbuffer_new();
	int n = atoi(evhttp_request_get_uri(r) + 1), i;

	(void)unused;
	USIM_CHECK(b != NULL);
	for (i = 0; i < (n % 2 ? 1 : LINES); i++)
		evbuffer_add_printf(b, "line %d of page %d\n", i, n);
	evhttp_send_reply(r, HTTP_OK, "OK", b);
	evbuffer_free(b);
}

static void tick(evutil_socket_t fd, short what, void *ticks)
{
	(void)fd, (void)what;
	++*(int *)ticks;
}

static int server(void *unused)
{
	struct event_base *base = event_base_new();
	struct evhttp *http = evhttp_new(base);
	struct timeval second = { 1, 0 };
	int ticks = 0;
	struct event *timer = event_new(base, -1, EV_PERSIST, tick, &ticks);

	(void)unused;
	USIM_CHECK(strcmp(event_base_get_method(base), "epoll") == 0);
	evhttp_set_gencb(http, page, NULL);
	USIM_CHECK(evhttp_bind_socket(http, "0.0.0.0", PORT) == 0);
	USIM_CHECK(event_add(timer, &second) == 0);
	event_base_dispatch(base);
	return 1;
}

/* Reads the answer for page n. Returns whether all of it has come. */
static int answer(int fd, int n)
{
	static char data[200000];	/* only one client runs at a time, see below */
	char line[60], *body;
	size_t size = 0;
	ssize_t nr;
	int last = n % 2 ? 0 : LINES - 1;

	while ((nr = read(fd, data + size, sizeof data - 1 - size)) > 0)
		size += (size_t)nr;
	data[size] = 0;
	body = strstr(data, "\r\n\r\n");
	if (nr < 0 || body == NULL)
		return 0;
	USIM_CHECK(strncmp(data, "HTTP/1.1 200 OK", 15) == 0);
	snprintf(line, sizeof line, "line %d of page %d\n", last, n);
	if (strstr(body, line) == NULL)
		return 0;
	snprintf(line, sizeof line, "line 0 of page %d\n", n);
	USIM_CHECK(strncmp(body + 4, line, strlen(line)) == 0);
	return 1;
}

static int client(void *unused)
{
	char text[100];
	int n = 1, fd, size;

	(void)unused;
	while (n <= ROUNDS) {
		fd = dial("web", "80", 3);
		size = snprintf(text, sizeof text, "GET /%d HTTP/1.1\r\nHost: web\r\n"
				"Connection: close\r\n\r\n", n);
		if (fd >= 0 && write(fd, text, (size_t)size) == size && answer(fd, n))
			n++;
		else
			usim_sometimes(1, "a page does not come");
		if (fd >= 0)
			close(fd);
		usleep(100000);
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 20;
	usim_host("web", server, NULL);
	usim_client("reader", client, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
