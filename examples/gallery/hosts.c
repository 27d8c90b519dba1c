/* SPDX-License-Identifier: MIT */
/* hosts.c: the cache and the jobs on a simulated network, with their clients. */

/*
 * Both servers crash, and links to them are cut. They keep nothing over a crash, so
 * a client knows what it may see:
 *
 *	cache	the client has set the value that is there, or there is none, as a
 *		cache forgets. Once its end has come, it is not seen again
 *	jobs	no job comes before it is due. A job that was taken can be done
 */
#include "conn.h"
#include <usched/all.h>
#include <usched/usim.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 7379, ROUNDS = 60 };

/* A server. */

struct client {
	int                   l_fd;
	const struct program *l_program;
};

static void *serve(void *arg)
{
	struct client l = *(struct client *)arg;

	free(arg);
	conn_serve(l.l_fd, l.l_program);
	close(l.l_fd);
	return NULL;
}

static int server(void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	const struct program *p = arg;
	struct client *l;

	if (p->p_start(1 << 20) != 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 8) != 0)
		usim_fail("no server");
	for (;;) {
		l = malloc(sizeof *l);
		if (l == NULL)
			usim_fail("no memory");
		*l = (struct client){ accept4(fd, NULL, NULL, SOCK_NONBLOCK), p };
		if (l->l_fd < 0 || uthread_make(NULL, serve, l, "client") != 0)
			usim_fail("no client");
	}
}

/* A client. */

static int dial(const char *name)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	struct timeval patience = { 1, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (getaddrinfo(name, "7379", &hints, &at) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
		       sizeof patience) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
		       sizeof patience) != 0)
		usim_fail("no %s", name);
	if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(at);
	return fd;
}

/*
 * Sends a request in pieces, and reads a line, or, if the answer is a string of
 * RESP, two. Returns whether it has come.
 */
static bool ask(int *fd, const char *name, const char *text, char *answer,
		size_t room)
{
	size_t nr = strlen(text), cut = usim_random(nr) + 1, got = 0;
	int lines = 1;

	if (*fd < 0)
		*fd = dial(name);
	if (*fd >= 0 && write(*fd, text, cut) == (ssize_t)cut &&
	    (nr == cut || write(*fd, text + cut, nr - cut) == (ssize_t)(nr - cut)))
		while (got + 1 < room && read(*fd, answer + got, 1) == 1) {
			lines += got == 1 && *answer == '$' && answer[1] != '-';
			if (answer[got++] == '\n' && --lines == 0) {
				answer[got] = 0;
				return true;
			}
		}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	usleep(50000 + usim_random(200000));
	return false;
}

/* Sets a number that grows, for some time, and looks which is there. */
static int cache_client(void *unused)
{
	int fd = -1, sent = 0, sure = 0, ms = 0, i, value;
	char text[80], answer[80];
	utime_ns end = 0, longest = 0, now;

	(void)unused;
	for (i = 0; i < ROUNDS; i++) {
		ms = 100 + usim_random(3000);
		snprintf(text, sizeof text, "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n"
			 "%04d\r\n$2\r\nPX\r\n$4\r\n%04d\r\n", ++sent, ms);
		if (ask(&fd, "cache", text, answer, sizeof answer)) {
			USIM_CHECK(strcmp(answer, "+OK\r\n") == 0);
			sure = sent;
		} else {	/* it may come to the server at any time */
			longest = UNEVER - 2 * UTIME_S;
		}
		end = usim_time() + ms * UTIME_MS;
		longest = longest > end ? longest : end;
		usleep(usim_random(i % 4 == 0 ? 8000000 : 1000000));
		now = usim_time();
		if (!ask(&fd, "cache", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", answer,
			 sizeof answer))
			continue;
		usim_sometimes(answer[1] == '-', "a value is gone");
		usim_sometimes(answer[1] != '-', "a value is there");
		if (strcmp(answer, "$-1\r\n") == 0)
			continue;
		USIM_CHECK(sscanf(answer, "$4\r\n%d\r\n", &value) == 1);
		if (value > sent)
			usim_fail("%d was never set", value);
		if (now > longest + 2 * UTIME_S)
			usim_fail("%d lives too long", value);
		usim_sometimes(value == sure, "the last that was acknowledged");
	}
	return 0;
}

/* Puts jobs with their due time as their text, and takes them. */
static int jobs_client(void *unused)
{
	char text[80], answer[80];
	long long id, due, last = 0;
	int fd = -1, i, ms;

	(void)unused;
	for (i = 0; i < ROUNDS; i++) {
		ms = usim_random(2000);
		snprintf(text, sizeof text, "put %d %lld\n", ms, (long long)
			 (usim_time() / UTIME_MS + ms));
		if (ask(&fd, "jobs", text, answer, sizeof answer))
			USIM_CHECK(sscanf(answer, "put %lld", &id) == 1);
		if (!ask(&fd, "jobs", "take 500\n", answer, sizeof answer))
			continue;
		usim_sometimes(strcmp(answer, "none\n") == 0, "no job is due");
		if (sscanf(answer, "job %lld %lld", &id, &due) != 2)
			continue;
		if (usim_time() / UTIME_MS + 1 < due)
			usim_fail("job %lld comes early", id);
		usim_sometimes(id < last, "the order is that of due times");
		last = id;
		if (!usim_maybe("goes without done") &&
		    ask(&fd, "jobs", "done\n", answer, sizeof answer))
			USIM_CHECK(sscanf(answer, "done %lld", &due) == 1 &&
				   due == id);
		else if (fd >= 0) {
			close(fd);
			fd = -1;
		}
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_run = 60 * UTIME_S;
	w->w_quiet = 400 * UTIME_S;
	usim_host("cache", server, (void *)&cache);
	usim_host("jobs", server, (void *)&jobs);
	usim_client("reader", cache_client, NULL);
	usim_client("worker", jobs_client, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
