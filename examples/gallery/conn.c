/* SPDX-License-Identifier: MIT */
/* conn.c: reads requests, and sends answers. */

#include "conn.h"

#include <usched/all.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define NOINLINE	__attribute__((noinline))

static void send_all(struct conn *c, const char *at, size_t nr)
{
	utime_ns until = uafter(CONN_TIME);
	ssize_t n;

	for (; nr > 0 && !c->c_gone; at += n, nr -= n) {
		n = u_send(c->c_fd, at, nr, 0, until);
		c->c_gone = n < 0;
		n = n < 0 ? 0 : n;
	}
}

static void flush(struct conn *c)
{
	size_t nr = c->c_out_nr;

	c->c_out_nr = 0;
	send_all(c, c->c_out, nr);
}

void conn_put(struct conn *c, const void *bytes, size_t nr)
{
	if (c->c_out != NULL && nr > CONN_OUT - c->c_out_nr)
		flush(c);
	if (c->c_out == NULL || nr > CONN_OUT)
		send_all(c, bytes, nr);
	else {
		memcpy(c->c_out + c->c_out_nr, bytes, nr);
		c->c_out_nr += nr;
	}
}

void conn_print(struct conn *c, const char *format, ...)
{
	char text[256];
	va_list more;
	int nr;

	va_start(more, format);
	nr = vsnprintf(text, sizeof text, format, more);
	va_end(more);
	conn_put(c, text, nr < (int)sizeof text ? nr : (int)sizeof text - 1);
}

/* Returns whether no more bytes will come, though some may be left to read. */
static bool has_ended(int fd)
{
	struct pollfd f = { .fd = fd, .events = POLLRDHUP };

	return u_poll(&f, 1, UNOW) > 0;
}

/*
 * Requests that have come meanwhile are left where they are, so this client makes
 * no event any more, and is looked at each second.
 */
int conn_ended(struct conn *c, utime_ns until)
{
	int rc = u_wait_fd(c->c_fd, UREAD, until);
	utime_ns then;

	while (rc == 0 && !has_ended(c->c_fd)) {
		then = uafter(UTIME_S);
		rc = u_sleep(then < until ? then : until);
		if (rc == 0 && then >= until)
			rc = -ETIMEDOUT;
	}
	return rc;
}

/* Makes room for more of a request. It grows with what has come. */
static bool grow(struct conn *c)
{
	char *in;

	if (c->c_nr < c->c_room)
		return true;
	in = realloc(c->c_in, 2 * c->c_room);
	if (in == NULL)
		return false;
	c->c_in   = in;
	c->c_room = 2 * c->c_room;
	return true;
}

/* Keeps what has no answer yet: nr bytes, which may lie in c_in. */
static bool keep(struct conn *c, const char *at, size_t nr)
{
	char *old = c->c_in;

	c->c_nr = nr;
	if (old != NULL && nr >= CONN_IN / 2) {
		memmove(old, at, nr);
		return true;
	}
	c->c_in = NULL;
	if (nr > 0) {
		c->c_room = nr < CONN_IN / 2 ? nr : CONN_IN;
		c->c_in = malloc(c->c_room);
		if (c->c_in != NULL)
			memcpy(c->c_in, at, nr);
	}
	free(old);
	return nr == 0 || c->c_in != NULL;
}

/* Answers requests until one is not complete, or has to wait. */
static bool answer_all(struct conn *c, const char *at, size_t nr)
{
	long n = 1;
	bool kept;

	while (nr > 0 && nr >= c->c_need && !c->c_gone && !c->c_later) {
		c->c_need = 0;
		n = c->c_program->p_answer(c, at, nr);
		if (n <= 0)
			break;
		at += n;
		nr -= n;
		c->c_until = 0;
	}
	c->c_lingers = n == CONN_END;
	kept = keep(c, at, nr);
	flush(c);
	if (c->c_until == 0 && nr > 0)
		c->c_until = uafter(CONN_TIME);
	return kept && n != CONN_END && !c->c_gone;
}

/*
 * Reads what there is, and answers. A short part of a request moves from the
 * heap to this frame; a long part stays on the heap.
 */
static NOINLINE bool answer(struct conn *c, bool reads)
{
	char in[CONN_IN], out[CONN_OUT], *at = in;
	size_t room = sizeof in;
	bool goes_on;
	ssize_t n = 0;

	if (c->c_nr >= CONN_IN / 2) {
		if (!grow(c))
			return false;
		at   = c->c_in;
		room = c->c_room;
	} else if (c->c_nr > 0) {
		memcpy(in, c->c_in, c->c_nr);
		free(c->c_in);
		c->c_in = NULL;
	}
	if (reads)
		n = u_read(c->c_fd, at + c->c_nr, room - c->c_nr, UNOW);
	if (reads && n <= 0 && n != -EAGAIN)
		return false;
	c->c_out = out;
	goes_on  = answer_all(c, at, c->c_nr + (n > 0 ? n : 0));
	c->c_out = NULL;
	return goes_on;
}

/* Waits for requests, and answers. False: the end. */
static bool await(struct conn *c)
{
	bool goes_on;

	if (u_wait_fd(c->c_fd, UREAD, c->c_until != 0 ? c->c_until : UNEVER) != 0)
		return false;
	goes_on = answer(c, true);
	while (goes_on && c->c_later) {
		c->c_later = false;
		c->c_program->p_later(c);
		goes_on = !c->c_gone && answer(c, false);
	}
	return goes_on;
}

/*
 * Lets the client read the last answer: a close while bytes come resets the
 * connection. It has two seconds, and 4 MiB.
 */
static NOINLINE void linger(int fd)
{
	utime_ns until = uafter(2 * UTIME_S);
	char bytes[CONN_IN];
	int i = 0;

	(void)shutdown(fd, SHUT_WR);
	while (i++ < 256 && u_wait_fd(fd, UREAD, until) == 0 &&
	       u_read(fd, bytes, sizeof bytes, UNOW) > 0)
		;
}

void conn_serve(int fd, const struct program *p)
{
	struct conn c = { .c_program = p, .c_fd = fd };

	while (await(&c))
		;
	if (p->p_end != NULL)
		p->p_end(&c);
	free(c.c_in);
	if (c.c_lingers && !c.c_gone)
		linger(fd);
}
