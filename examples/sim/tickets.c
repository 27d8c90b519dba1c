/* SPDX-License-Identifier: MIT */
/* tickets.c: a client library that asks again, and a server of tickets. */

/*
 * A server hands out tickets: 1, 2, 3 and so on. A client calls, and has a ticket.
 * Each call should draw one, however often it is sent.
 *
 * THE LIBRARY asks until an answer comes. When none has come in time, the request
 * may be lost, or the answer, or both are late. So a call has a number, and each
 * try has the same. An answer has it, too, so a late answer is not taken for that
 * of another call. After a time-out the library asks again by the same connection,
 * after an error or three time-outs by a new connection.
 *
 * THE SERVER remembers the last call of each client, with its ticket. This memory
 * and the number of tickets are one file, which rename() puts in place before the
 * answer is sent. An error of its disk ends the server, and it starts again.
 *
 * What is checked: no ticket has two owners, and in the end each has one.
 * TICKETS_BUG in the environment plants an error, as people have made it:
 *
 *	1	each try has a new number
 *	2	the memory of calls is not stored, so a crash loses it
 *	3	any answer is taken for the answer to this call
 *	4	the number of tickets is stored first, and then the memory
 *
 *	TICKETS_BUG=1 ./tickets --seeds 2000
 */

#include <usched/usim.h>
#include <usched/usync.h>
#include <usched/uthread.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PORT = 7000, CLIENTS = 3, CALLS = 25, TICKETS = 1000, TRIES = 3 };

/* A request. The answer is the same with a ticket. */
struct call {
	uint32_t client;	/* from 0 on */
	uint32_t number;	/* of the client's call, from 1 on */
	uint32_t ticket;
};

static int bug(void)
{
	const char *text = getenv("TICKETS_BUG");

	return text != NULL ? atoi(text) : 0;
}

static void patience(int fd, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) == 0);
}

/* The library. */

struct caller {
	uint32_t client;
	uint32_t number;
	int      fd;		/* -1: there is no connection */
};

static void hang_up(struct caller *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void dial(struct caller *c)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;

	USIM_CHECK(getaddrinfo("server", "7000", &hints, &at) == 0);
	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	patience(c->fd, 400);
	if (connect(c->fd, at->ai_addr, at->ai_addrlen) != 0)
		hang_up(c);
	freeaddrinfo(at);
}

/* Waits for the answer to this call. 1; 0: none has come in time; -1: an error. */
static int answer_get(struct caller *c, struct call *answer)
{
	ssize_t nr;

	do {
		nr = recv(c->fd, answer, sizeof *answer, MSG_WAITALL);
		if (nr != (ssize_t)sizeof *answer)
			return nr < 0 && errno == EAGAIN ? 0 : -1;
		usim_sometimes(answer->number != c->number, "a late answer");
	} while (answer->number != c->number && bug() != 3);
	return 1;
}

/* Asks by this connection, some times. Returns whether an answer has come. */
static int ask(struct caller *c, struct call *answer)
{
	struct call question = { c->client, c->number, 0 };
	int tries, rc = 0;

	for (tries = 0; rc == 0 && tries < TRIES; tries++) {
		if (bug() == 1)
			question.number = ++c->number;
		if (write(c->fd, &question, sizeof question) !=
		    (ssize_t)sizeof question)
			return 0;
		rc = answer_get(c, answer);
	}
	return rc == 1;
}

/* Returns a ticket. */
static uint32_t ticket_draw(struct caller *c)
{
	unsigned pause = 20;
	struct call answer;

	for (c->number++; ; pause = pause < 300 ? pause * 2 : pause) {
		if (c->fd < 0)
			dial(c);
		if (c->fd >= 0 && ask(c, &answer))
			return answer.ticket;
		hang_up(c);
		usleep((pause + usim_random(pause)) * 1000);
	}
}

/* The server. */

struct state {
	uint32_t    tickets;		/* handed out */
	struct call last[CLIENTS];
};

struct server {
	struct umutex lock;		/* also while it waits for the disk */
	struct state  state;
};

struct connection {
	struct server *server;
	int            fd;
};

static void must(int ok, const char *what)
{
	if (ok)
		return;
	usim_sometimes(1, "the disk of the server fails");
	usim_log("%s", what);
	exit(1);
}

static void save(const struct server *s)
{
	struct state state = s->state;
	int fd = open("state.new", O_WRONLY | O_CREAT | O_TRUNC, 0644), i;

	for (i = 0; bug() == 2 && i < CLIENTS; i++)
		state.last[i] = (struct call) { 0, 0, 0 };
	must(fd >= 0 && write(fd, &state, sizeof state) == (ssize_t)sizeof state &&
	     fsync(fd) == 0 && close(fd) == 0 &&
	     rename("state.new", "state") == 0, "the state cannot be saved");
	fd = open(".", O_RDONLY | O_DIRECTORY);
	must(fd >= 0 && fsync(fd) == 0 && close(fd) == 0, "no folder");
}

/*
 * Takes the state from its file. If a sync has failed before, this may be in memory
 * only. So it is saved again.
 */
static void recover(struct server *s)
{
	int fd = open("state", O_RDONLY);

	if (fd >= 0) {
		must(read(fd, &s->state, sizeof s->state) ==
		     (ssize_t)sizeof s->state, "the state cannot be read");
		close(fd);
	}
	save(s);
	usim_log("has handed out %u", s->state.tickets);
}

/* Fills in the ticket of a call. Returns 0 if a later call of its client has come. */
static int ticket_put(struct server *s, struct call *c)
{
	struct call *last = &s->state.last[c->client];

	usim_sometimes(c->number == last->number, "a call comes again");
	if (c->number > last->number) {
		c->ticket = ++s->state.tickets;
		if (bug() == 4)
			save(s);
		*last = *c;
		save(s);
		usim_log("ticket %u for call %u of %u", c->ticket, c->number,
			 c->client);
	}
	c->ticket = last->ticket;
	return c->number == last->number;
}

static void *serve(void *arg)
{
	struct connection k = *(struct connection *)arg;
	struct call c;
	int is_last;

	free(arg);
	patience(k.fd, 5000);
	while (recv(k.fd, &c, sizeof c, MSG_WAITALL) == (ssize_t)sizeof c &&
	       c.client < CLIENTS) {
		USIM_CHECK(umutex_lock(&k.server->lock, UNEVER) == 0);
		is_last = ticket_put(k.server, &c);
		umutex_unlock(&k.server->lock);
		if (!is_last || write(k.fd, &c, sizeof c) != (ssize_t)sizeof c)
			break;
	}
	close(k.fd);
	return NULL;
}

static int server(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct server *s = calloc(1, sizeof *s);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	struct connection *k;

	(void)unused;
	USIM_CHECK(s != NULL);
	recover(s);
	USIM_CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
	USIM_CHECK(listen(listener, 8) == 0);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		k = malloc(sizeof *k);
		USIM_CHECK(k != NULL);
		*k = (struct connection) { s, fd };
		USIM_CHECK(uthread_make(NULL, serve, k, "serve") == 0);
	}
	return 1;
}

/* Clients. The test itself has its state in variables that all hosts of a run share. */

static int owners[TICKETS + 1];
static int clients_left;

static int client(void *number)
{
	struct caller c = { (uint32_t)(uintptr_t)number, 0, -1 };
	uint32_t ticket;
	int i;

	for (i = 0; i < CALLS; i++) {
		ticket = ticket_draw(&c);
		if (ticket == 0 || ticket > TICKETS || owners[ticket] != 0)
			usim_fail("ticket %u has an owner", ticket);
		owners[ticket] = usim_self();
		usim_log("has ticket %u", ticket);
		usleep(usim_random(1000000));
	}
	clients_left--;
	for (i = 1; clients_left == 0 && i <= CLIENTS * CALLS; i++)
		if (owners[i] == 0)
			usim_fail("ticket %d was drawn, and no client has it", i);
	return 0;
}

static void setup(struct usim_world *w)
{
	static const char *const names[] = { "anna", "bert", "carl" };
	uintptr_t i;

	w->w_run = 20 * UTIME_S;
	clients_left = CLIENTS;
	usim_host("server", server, NULL);
	for (i = 0; i < CLIENTS; i++)
		usim_client(names[i], client, (void *)i);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);	/* a connection may be gone: write() says so */
	return usim_main(argc, argv, setup);
}
