/* SPDX-License-Identifier: MIT */
/*
 * redis.c: libhiredis of Debian, unmodified, against a small server that is
 * written with the calls of lib/io/. The server keeps a number for each name, and a
 * client raises its own. Each reply is whole and belongs to its request. Faults
 * break connections, and the client connects again. So a request of an older
 * connection may come late; a crash makes the server forget.
 */

#include <usched/usim.h>
#include <usched/uio.h>
#include <usched/unet.h>
#include <usched/uthread.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 6379, ROUNDS = 60 };

struct store {
	long numbers[8];
	int  boot;
};

struct session {
	struct store *store;
	int           fd;
	char          data[512];
	size_t        size;
};

/* Takes "$len\r\ntext\r\n" from at. Returns what follows; NULL: more must come. */
static char *word(char *at, char *end, char *to, size_t room)
{
	char *line = memchr(at, '\n', (size_t)(end - at));
	long size;

	if (line == NULL)
		return NULL;
	USIM_CHECK(*at == '$');
	size = strtol(at + 1, NULL, 10);
	USIM_CHECK(size >= 0 && (size_t)size < room);
	if (end - line - 1 < size + 2)
		return NULL;
	memcpy(to, line + 1, (size_t)size);
	to[size] = 0;
	return line + 1 + size + 2;
}

static int reply(const struct session *s, const char *words, long value)
{
	char text[60];
	int size = snprintf(text, sizeof text, words, value);

	return u_write_all(s->fd, text, (size_t)size, uafter(5 * UTIME_S)) == size;
}

/* Answers the first request in the buffer. 0: there is no whole one. */
static int serve_one(struct session *s)
{
	char command[20], name[20], value[20], *end = s->data + s->size, *at;
	int nr, ok;
	long *number;

	at = memchr(s->data, '\n', s->size);
	if (at == NULL)
		return 0;
	nr = atoi(s->data + 1);
	USIM_CHECK(s->data[0] == '*' && (nr == 2 || nr == 3));
	at = word(at + 1, end, command, sizeof command);
	at = at == NULL ? NULL : word(at, end, name, sizeof name);
	if (at != NULL && nr == 3)
		at = word(at, end, value, sizeof value);
	if (at == NULL)
		return 0;
	s->size = (size_t)(end - at);
	memmove(s->data, at, s->size);
	number = &s->store->numbers[atoi(name) % 8];
	if (nr == 3)
		*number = atol(value);
	ok = reply(s, nr == 3 ? "+OK\r\n" : ":%ld\r\n", *number);
	return ok ? 1 : -1;
}

static void *session(void *arg)
{
	struct session *s = arg;
	ssize_t nr = 1;
	int rc = 0;

	while (nr > 0 && rc >= 0) {
		nr = u_read(s->fd, s->data + s->size, sizeof s->data - s->size,
			    uafter(20 * UTIME_S));
		s->size += nr > 0 ? (size_t)nr : 0;
		while ((rc = serve_one(s)) > 0)
			;
	}
	u_close(s->fd);
	free(s);
	return NULL;
}

static int store(void *unused)
{
	struct store *store = calloc(1, sizeof *store);
	int listener = u_listen_tcp(NULL, PORT, 16, 0), fd;
	struct session *s;

	(void)unused;
	USIM_CHECK(store != NULL && listener >= 0);
	while ((fd = u_accept(listener, NULL, NULL, 0, UNEVER)) >= 0) {
		s = calloc(1, sizeof *s);
		USIM_CHECK(s != NULL);
		s->store = store;
		s->fd = fd;
		USIM_CHECK(uthread_make(NULL, session, s, "session") == 0);
	}
	return 1;
}

/* A client. Returns the reply, or NULL after an error, and then connects again. */
static redisReply *ask(redisContext **c, const char *command, long name, long value)
{
	struct timeval patience = { 2, 0 };
	redisReply *r = NULL;

	if (*c == NULL) {
		*c = redisConnectWithTimeout("store", PORT, patience);
		USIM_CHECK(*c != NULL);
		if ((*c)->err == 0)
			redisSetTimeout(*c, patience);
	}
	if ((*c)->err == 0)
		r = redisCommand(*c, command, name, value);
	if (r != NULL)
		return r;
	redisFree(*c);
	*c = NULL;
	usim_sometimes(1, "a client connects again");
	usleep(200000);
	return NULL;
}

static int client(void *unused)
{
	redisContext *c = NULL;
	redisReply *r;
	long value, name = usim_self();

	(void)unused;
	for (value = 1; value <= ROUNDS; value++) {
		while ((r = ask(&c, "SET %ld %ld", name, value)) == NULL)
			;
		USIM_CHECK(r->type == REDIS_REPLY_STATUS && strcmp(r->str, "OK") == 0);
		freeReplyObject(r);
		while ((r = ask(&c, "GET %ld", name, 0)) == NULL)
			;
		USIM_CHECK(r->type == REDIS_REPLY_INTEGER);
		USIM_CHECK(r->integer >= 0 && r->integer <= value);
		freeReplyObject(r);
		usleep(300000);
	}
	redisFree(c);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 20;
	usim_host("store", store, NULL);
	usim_client("ann", client, NULL);
	usim_client("bob", client, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
