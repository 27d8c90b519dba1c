/* SPDX-License-Identifier: MIT */
/*
 * pq.c: libpq of Debian, unmodified, against a small server that speaks version 3
 * of PostgreSQL's protocol by the calls of lib/io/: a start with a password, simple
 * questions, questions with parameters. "rows N" asks for N rows, and "error" for an
 * error. Each result is whole and belongs to its question, or the connection is bad.
 */

#include <usched/usim.h>
#include <usched/uio.h>
#include <usched/unet.h>
#include <usched/userve.h>

#include <arpa/inet.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

enum { PORT = 5432, ROUNDS = 60, IN = 1000, OUT = 100000, SSL = 80877103,
       VERSION = 196608 };

#define PATIENCE	(5 * UTIME_S)

/* A session of the server. */
struct session {
	int    fd;
	char   in[IN];
	int    size;			/* of the message in it */
	char   asked[IN], value[100];	/* of Parse and Bind */
	char   out[OUT];
	size_t out_size, at;		/* at: of the message that is being made */
};

static void put_bytes(struct session *s, const void *data, size_t size)
{
	USIM_CHECK(s->out_size + size <= OUT);
	memcpy(s->out + s->out_size, data, size);
	s->out_size += size;
}

static void put_number(struct session *s, int value, size_t size)
{
	uint32_t all = htonl((uint32_t)value);

	put_bytes(s, (char *)&all + 4 - size, size);
}

static void put_text(struct session *s, const char *text)
{
	put_bytes(s, text, strlen(text) + 1);
}

static void begin(struct session *s, char type)
{
	put_bytes(s, &type, 1);
	s->at = s->out_size;
	put_number(s, 0, 4);
}

static void end(struct session *s)
{
	uint32_t size = htonl((uint32_t)(s->out_size - s->at));

	memcpy(s->out + s->at, &size, 4);
}

static void empty(struct session *s, char type)
{
	begin(s, type);
	end(s);
}

static int flush(struct session *s)
{
	size_t size = s->out_size;

	s->out_size = 0;
	if (usim_maybe("the server ends within an answer")) {
		(void)u_write_all(s->fd, s->out, usim_random((unsigned)size),
				  uafter(PATIENCE));
		return 0;
	}
	return u_write_all(s->fd, s->out, size, uafter(PATIENCE)) == (ssize_t)size;
}

static void ready(struct session *s)
{
	begin(s, 'Z');
	put_bytes(s, "I", 1);
	end(s);
}

/* Reads a message. Returns its type; 0: the end. At the start there is no type. */
static int receive(struct session *s, int has_type)
{
	char type = 1;
	uint32_t size;

	if ((has_type && u_read_all(s->fd, &type, 1, uafter(20 * UTIME_S)) != 1) ||
	    u_read_all(s->fd, &size, 4, uafter(PATIENCE)) != 4)
		return 0;
	s->size = (int)ntohl(size) - 4;
	USIM_CHECK(s->size >= 0 && s->size < IN);
	memset(s->in, 0, IN);
	return u_read_all(s->fd, s->in, (size_t)s->size, uafter(PATIENCE)) ==
		s->size ? type : 0;
}

static void column(struct session *s, const char *name)
{
	put_text(s, name);
	put_number(s, 0, 4);
	put_number(s, 0, 2);
	put_number(s, 25, 4);		/* text */
	put_number(s, -1, 2);
	put_number(s, -1, 4);
	put_number(s, 0, 2);
}

static void describe(struct session *s)
{
	begin(s, 'T');
	put_number(s, 2, 2);
	column(s, "place");
	column(s, "asked");
	end(s);
}

static void error(struct session *s)
{
	begin(s, 'E');
	put_text(s, "SERROR");
	put_text(s, "C42601");
	put_text(s, "Myou asked for it");
	put_bytes(s, "", 1);
	end(s);
}

static void row(struct session *s, int place, const char *text)
{
	char number[20];

	snprintf(number, sizeof number, "%d", place);
	begin(s, 'D');
	put_number(s, 2, 2);
	put_number(s, (int)strlen(number), 4);
	put_bytes(s, number, strlen(number));
	put_number(s, (int)strlen(text), 4);
	put_bytes(s, text, strlen(text));
	end(s);
}

/* Puts the rows that a question asks for, each with the text. */
static void rows(struct session *s, const char *question, const char *text)
{
	int nr = atoi(question + 5), i;

	USIM_CHECK(strncmp(question, "rows ", 5) == 0);
	for (i = 0; i < nr; i++)
		row(s, i, text);
	begin(s, 'C');
	put_text(s, "SELECT");
	end(s);
}

/* A simple question. */
static void question(struct session *s)
{
	if (strcmp(s->in, "error") == 0) {
		error(s);
	} else {
		describe(s);
		rows(s, s->in, s->in);
	}
	ready(s);
}

/* Keeps the first value of Bind, which follows two names and the formats. */
static void bind_value(struct session *s)
{
	const char *at = s->in;
	uint32_t size;

	at += strlen(at) + 1;
	at += strlen(at) + 1;
	at += 2 + 2 * at[1] + 2;
	memcpy(&size, at, 4);
	USIM_CHECK(ntohl(size) < sizeof s->value);
	memcpy(s->value, at + 4, ntohl(size));
	s->value[ntohl(size)] = 0;
}

static int start(struct session *s)
{
	uint32_t code = 0;

	while (receive(s, 0)) {
		memcpy(&code, s->in, 4);
		if (ntohl(code) == VERSION)
			break;
		USIM_CHECK(ntohl(code) == SSL || ntohl(code) == SSL + 1);
		if (u_write_all(s->fd, "N", 1, uafter(PATIENCE)) != 1)
			return 0;
	}
	if (ntohl(code) != VERSION)
		return 0;
	begin(s, 'R');
	put_number(s, 3, 4);		/* a password, as it is */
	end(s);
	if (!flush(s) || receive(s, 1) != 'p')
		return 0;
	USIM_CHECK(strcmp(s->in, "secret") == 0);
	begin(s, 'R');
	put_number(s, 0, 4);
	end(s);
	begin(s, 'S');
	put_text(s, "server_version");
	put_text(s, "15.0");
	end(s);
	ready(s);
	return flush(s);
}

static int answer(struct session *s, int type)
{
	switch (type) {
	case 'Q':
		question(s);
		return flush(s);
	case 'P':
		strcpy(s->asked, s->in + strlen(s->in) + 1);
		empty(s, '1');
		return 1;
	case 'B':
		bind_value(s);
		empty(s, '2');
		return 1;
	case 'D':
		describe(s);
		return 1;
	case 'E':
		rows(s, s->asked, s->value);
		return 1;
	case 'S':
		ready(s);
		return flush(s);
	default:
		return 0;
	}
}

static void serve(int fd, void *unused)
{
	struct session *s = calloc(1, sizeof *s);
	int type;

	(void)unused;
	USIM_CHECK(s != NULL);
	s->fd = fd;
	if (start(s))
		while ((type = receive(s, 1)) != 0 && answer(s, type))
			;
	free(s);
}

static int server(void *unused)
{
	static struct userve u;

	(void)unused;
	u = (struct userve) { .sv_f = serve, .sv_fd = u_listen_tcp(NULL, PORT, 0, 0) };
	return userve(&u);
}

/* A client. */

static int right(const PGresult *r, int nr, const char *text)
{
	char number[20];
	int i;

	USIM_CHECK(PQntuples(r) == nr && PQnfields(r) == 2);
	USIM_CHECK(strcmp(PQfname(r, 1), "asked") == 0);
	for (i = 0; i < nr; i++) {
		snprintf(number, sizeof number, "%d", i);
		USIM_CHECK(strcmp(PQgetvalue(r, i, 0), number) == 0);
		USIM_CHECK(strcmp(PQgetvalue(r, i, 1), text) == 0);
	}
	return 1;
}

/* Returns the result of what was asked; NULL: it does not come. */
static PGresult *result(PGconn *c)
{
	PGresult *r, *last = NULL;
	struct timeval patience;
	fd_set in;
	int fd;

	for (;;) {
		while (!PQisBusy(c)) {
			r = PQgetResult(c);
			if (r == NULL)
				return last;
			PQclear(last);
			last = r;
		}
		fd = PQsocket(c);
		patience = (struct timeval) { 3, 0 };
		FD_ZERO(&in);
		FD_SET(fd, &in);
		if (select(fd + 1, &in, NULL, NULL, &patience) == 1 &&
		    PQconsumeInput(c))
			continue;
		PQclear(last);
		return NULL;
	}
}

/* Asks. Returns whether the answer has come. */
static int asks(PGconn *c, int round)
{
	char text[100], value[40];
	const char *values[] = { value };
	int nr = (int)usim_random(1000), kind = (int)usim_random(3), ok;
	PGresult *r = NULL;

	snprintf(text, sizeof text, "rows %d %d of %d", nr, round, usim_self());
	snprintf(value, sizeof value, "%d by %d", round, usim_self());
	ok = kind == 0 ? PQsendQuery(c, text) : kind == 1 ?
		PQsendQueryParams(c, text, 1, NULL, values, NULL, NULL, 0) :
		PQsendQuery(c, "error");
	if (ok)
		r = result(c);
	if (kind < 2) {
		ok = PQresultStatus(r) == PGRES_TUPLES_OK &&
			right(r, nr, kind == 0 ? text : value);
	} else {
		ok = r != NULL && PQstatus(c) == CONNECTION_OK;
		USIM_CHECK(!ok || PQresultStatus(r) == PGRES_FATAL_ERROR);
		USIM_CHECK(!ok || strcmp(PQresultErrorField(r, PG_DIAG_SQLSTATE),
					 "42601") == 0);
	}
	USIM_CHECK(ok || r == NULL || PQstatus(c) == CONNECTION_BAD);
	PQclear(r);
	return ok;
}

static int client(void *unused)
{
	PGconn *c = NULL;
	int round = 0;

	(void)unused;
	while (round < ROUNDS) {
		if (c == NULL)
			c = PQconnectdb("host=store user=ann password=secret "
				"dbname=d gssencmode=disable connect_timeout=3 "
				"tcp_user_timeout=4000");
		if (PQstatus(c) == CONNECTION_OK && asks(c, round)) {
			round++;
		} else {
			usim_sometimes(1, "a client connects again");
			PQfinish(c);
			c = NULL;
		}
		usleep(usim_random(300000));
	}
	PQfinish(c);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 20;
	usim_host("store", server, NULL);
	usim_client("ann", client, NULL);
	usim_client("bob", client, NULL);
}

int main(int argc, char **argv)
{
	PQinitSSL(0);
	return usim_main(argc, argv, setup);
}
