/* SPDX-License-Identifier: MIT */
/*
 * httpd.c: the server of examples/httpd, unmodified, among hostile clients and
 * faults. A good client is answered rightly all the time, but for faults. Hostile
 * clients send nonsense, send slowly, do not read, reset, hold connections. When
 * they have gone, the server has no connection and no descriptor more than at its
 * start. Then SIGTERM ends it, with status 0.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "sim.h"
#include <usched/usim.h>
#include <usched/uthread.h>
#include "dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { BIG = 300000, SMALL = 77, HOSTILE = 3 };

#define RUN	(20 * UTIME_S)
#define GONE	(RUN + 5 * UTIME_S)	/* hostile clients have gone */
#define CALM	(GONE + 40 * UTIME_S)	/* so have their connections */
#define STOP	(CALM + 3 * UTIME_S)

/* The server has these. */
int         httpd_main(int argc, char **argv);
extern long counter[];
extern int  stopping;

/* Byte i of a file. */
static char byte_of(size_t i)
{
	return (char)('a' + i % 23);
}

/* Returns whether it is there: a disk may be full, or fail. */
static int file_make(const char *name, size_t size)
{
	char *data = malloc(size);
	size_t i;
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644), done;

	for (i = 0; i < size; i++)
		data[i] = byte_of(i);
	done = fd >= 0 && write(fd, data, size) == (ssize_t)size && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	free(data);
	return done;
}

static int descriptors(void)
{
	int fd, nr = 0;

	for (fd = 0; fd < SIM_FDS; fd++)
		nr += sim_self()->b_fds[fd] != NULL;
	return nr;
}

/* Looks at the server from within its host, and stops it. */
static void *watch(void *unused)
{
	if (usim_time() < CALM)
		usleep((useconds_t)((CALM - usim_time()) / UTIME_US));
	/* The root, the listener, the log; the good client, and a file for it. */
	USIM_CHECK(descriptors() <= 5);
	if (usim_time() < STOP)
		usleep((useconds_t)((STOP - usim_time()) / UTIME_US));
	USIM_CHECK(kill(getpid(), SIGTERM) == 0);
	return unused;
}

static int server(void *unused)
{
	static char *argv[] = { "httpd", "-a", "0.0.0.0", "-p", "80", "-n", "1",
		"-r", "/www", "-l", "/log", "-c", "20", "-k", "8", "-t", "3",
		"-b", "5000", "-g", "5", NULL };

	(void)unused;
	/* A crash leaves static variables as they were. */
	memset(counter, 0, 604 * sizeof *counter);
	stopping = 0;
	optind = 1;
	while ((mkdir("/www", 0755) != 0 && errno != EEXIST) ||
	       !file_make("/www/small.txt", SMALL) ||
	       !file_make("/www/big.html", BIG) || !file_make("/secret", SMALL) ||
	       (symlink("/secret", "/www/link") != 0 && errno != EEXIST))
		sleep(1);
	USIM_CHECK(uthread_make(NULL, watch, NULL, "watch") == 0);
	return httpd_main(sizeof argv / sizeof *argv - 1, argv);
}

/* Clients. */

/* Reads an answer. Returns its status, and the body in *body; 0: it did not come. */
static int answer(int fd, char *data, size_t room, int is_head, char **body,
		  size_t *size)
{
	size_t nr = 0, all = 0;
	ssize_t got = 1;
	char *end = NULL, *length;

	while (got > 0 && (end == NULL || nr < all) && nr + 1 < room) {
		got = read(fd, data + nr, end == NULL ? room - 1 - nr : all - nr);
		nr += got > 0 ? (size_t)got : 0;
		data[nr] = 0;
		if (end != NULL || (end = strstr(data, "\r\n\r\n")) == NULL)
			continue;
		length = strstr(data, "Content-Length: ");
		USIM_CHECK(strncmp(data, "HTTP/1.1 ", 9) == 0 && length != NULL);
		all = (size_t)(end + 4 - data) + (is_head ? 0 :
			strtoul(length + 16, NULL, 10));
	}
	if (end == NULL || nr < all)
		return 0;
	*body = end + 4;
	*size = nr - (size_t)(*body - data);
	return atoi(data + 9);
}

static int asks(int fd, const char *method, const char *path)
{
	char text[200];
	int size = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: web\r\n\r\n",
			    method, path);

	return send(fd, text, (size_t)size, MSG_NOSIGNAL) == size;
}

static const struct page {
	const char *method, *path;
	int         status;
	size_t      size;	/* of a file; 0: not compared */
} pages[] = {
	{ "GET", "/plaintext", 200, 0 },
	{ "GET", "/small.txt", 200, SMALL },
	{ "GET", "/big.html", 200, BIG },
	{ "HEAD", "/big.html", 200, 0 },
	{ "GET", "/no", 404, 0 },
	{ "GET", "/../secret", 404, 0 },
	{ "GET", "/%2e%2e/secret", 404, 0 },
	{ "GET", "/link", 404, 0 },
	{ "POST", "/plaintext", 405, 0 },
	{ "GET", "/sm%61ll.txt?query", 200, SMALL },
	{ "GET", "/%zz", 400, 0 },
	{ "GET", "/metrics", 200, 0 },
};

enum { PAGES = sizeof pages / sizeof *pages };

/* Asks for a page. Returns whether the answer has come. It is right if it comes. */
static int page_right(int fd, const struct page *p, char *data, size_t room)
{
	char *body;
	size_t size = 0, i;
	int status;

	if (!asks(fd, p->method, p->path))
		return 0;
	status = answer(fd, data, room, strcmp(p->method, "HEAD") == 0, &body, &size);
	if (status == 0)
		return 0;
	if (status != p->status)
		usim_fail("%s %s: %d", p->method, p->path, status);
	USIM_CHECK(p->size == 0 || size == p->size);
	for (i = 0; p->size > 0 && i < size; i++)
		USIM_CHECK(body[i] == byte_of(i));
	return 1;
}

/* Asks for all pages, again and again, by connections that last. */
static int good(void *unused)
{
	char *data = malloc(BIG + 1000);
	int fd = -1, i = 0, rounds = 0;

	(void)unused;
	while (rounds < 4 || usim_time() < CALM) {
		if (fd < 0)
			fd = dial("web", "80", 4);
		if (fd >= 0 && page_right(fd, &pages[i], data, BIG + 1000)) {
			i = (i + 1) % PAGES;
			rounds += i == 0;
		} else {
			usim_sometimes(1, "an answer does not come");
			if (fd >= 0)
				close(fd);
			fd = -1;
		}
		usleep(50000);
	}
	/* It is the only client now. */
	USIM_CHECK(fd < 0 || page_right(fd, &pages[PAGES - 1], data, BIG + 1000));
	USIM_CHECK(fd < 0 || strstr(data, "httpd_connections 1\n") != NULL);
	if (fd >= 0)
		close(fd);
	while (usim_time() < STOP + 10 * UTIME_S)
		sleep(1);
	USIM_CHECK(dial("web", "80", 4) < 0);
	free(data);
	return 0;
}

/* Hostile clients. */

static void say(int fd, const char *text)
{
	(void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Reads until the end, or until nothing comes. Returns the first status, or 0. */
static int drain(int fd)
{
	char data[4000] = "";
	size_t nr = 0;
	ssize_t got;

	while ((got = recv(fd, data + (nr < 13 ? nr : 13), 2000, 0)) > 0)
		nr += (size_t)got;
	data[12] = 0;
	return nr >= 12 ? atoi(data + 9) : 0;
}

/* A request that faults delay has 408. */
static void expect(int fd, int status)
{
	int is = drain(fd);

	if (is != 0 && is != status && is != 408)
		usim_fail("%d, and not %d", is, status);
}

static void nonsense(int fd)
{
	char data[300];
	size_t i;

	for (i = 0; i < sizeof data; i++)
		data[i] = (char)usim_random(256);
	(void)send(fd, data, sizeof data, MSG_NOSIGNAL);
	say(fd, "\r\n\r\n");
	expect(fd, 400);
}

static void two_lengths(int fd)
{
	say(fd, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
	    "Content-Length: 2\r\n\r\nab");
	expect(fd, 400);
}

static void bare_lines(int fd)
{
	say(fd, "GET /plaintext HTTP/1.1\nHost: a\n\n");
	expect(fd, 400);
}

static void long_head(int fd)
{
	int i;

	say(fd, "GET /plaintext HTTP/1.1\r\nHost: a\r\n");
	for (i = 0; i < 400; i++)
		say(fd, "X-More: 0123456789012345678901234567890123456789\r\n");
	expect(fd, 431);
}

static void long_body(int fd)
{
	say(fd, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5001\r\n\r\n");
	expect(fd, 413);
}

static void slow_head(int fd)
{
	const char *text = "GET /plaintext HTTP/1.1\r\nHost: a\r\nX-Slow: ";

	for (; *text != 0; text++) {
		(void)send(fd, text, 1, MSG_NOSIGNAL);
		usleep(usim_random(400000));
	}
	(void)drain(fd);
}

static void silent(int fd)
{
	say(fd, "GET /plain");
	expect(fd, 408);
}

static void idle(int fd)
{
	sleep(usim_random(20));
	(void)drain(fd);
}

/* Asks for much, and reads nothing, or a little. */
static void reads_not(int fd)
{
	char byte;
	int i;

	for (i = 0; i < 40; i++)
		say(fd, "GET /big.html HTTP/1.1\r\nHost: a\r\n\r\n");
	for (i = 0; i < (int)usim_random(20); i++) {
		if (recv(fd, &byte, 1, 0) != 1)
			return;
		usleep(300000);
	}
}

static void resets(int fd)
{
	struct linger l = { 1, 0 };

	say(fd, "GET /big.html HTTP/1.1\r\nHost: a\r\n\r\n");
	usleep(usim_random(50000));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
}

static void half_closes(int fd)
{
	say(fd, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
	shutdown(fd, SHUT_WR);
	expect(fd, 200);
}

static void pipelines(int fd)
{
	int i;

	for (i = 0; i < 100; i++)
		say(fd, i % 3 ? "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n" :
		    "HEAD /big.html HTTP/1.1\r\nHost: a\r\n\r\n");
	say(fd, "GET /no HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	expect(fd, 200);
}

static void (*const attacks[])(int) = {
	nonsense, two_lengths, bare_lines, long_head, long_body, slow_head, silent, idle,
	reads_not, resets, half_closes, pipelines
};

enum { ATTACKS = sizeof attacks / sizeof *attacks };

static void *attacker(void *unused)
{
	int fd;

	while (usim_time() < GONE) {
		fd = dial("web", "80", 4);
		if (fd >= 0) {
			attacks[usim_random(ATTACKS)](fd);
			close(fd);
		}
		usleep(usim_random(300000));
	}
	return unused;
}

static int hostile(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < 8; i++)
		USIM_CHECK(uthread_make(NULL, attacker, NULL, "attacker") == 0);
	while (usim_time() < GONE + 30 * UTIME_S)
		sleep(1);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_run = RUN;
	w->w_quiet = 3 * 60 * UTIME_S;
	w->w_faults = 12;
	usim_host("web", server, NULL);
	usim_client("good", good, NULL);
	usim_client("bad", hostile, NULL);
	usim_client("worse", hostile, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
