/* SPDX-License-Identifier: MIT */
/* cache.c: a cache that clients of Redis can use. */

/*
 * A command is a row of the table below and a function, which puts its answer.
 * Between a request and the end of its command no thread waits, but to send a
 * long value: arguments are dead by then, and the value has a reference. So all
 * connections share one struct resp. A command must not look beyond r_nr: there
 * are arguments of others, on the stacks of threads that wait.
 */
#include "conn.h"
#include "resp.h"
#include "store.h"

#include <usched/all.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>

static struct resp request;

#define ARG(n)		request.r_arg[n].a_at, request.r_arg[n].a_len

static bool is(int n, const char *word)
{
	const struct resp_arg *a = &request.r_arg[n];

	return a->a_len == strlen(word) &&
		strncasecmp(a->a_at, word, a->a_len) == 0;
}

static void put(struct conn *c, const char *text)
{
	conn_put(c, text, strlen(text));
}

/* An integer; or, with '$', the head of a string of that length. */
static void put_number(struct conn *c, char mark, long long nr)
{
	char text[24], *at = text + sizeof text;
	unsigned long long left = nr;

	if (nr < 0)
		left = -left;
	*--at = '\n';
	*--at = '\r';
	do
		*--at = '0' + left % 10;
	while ((left /= 10) > 0);
	if (nr < 0)
		*--at = '-';
	*--at = mark;
	conn_put(c, at, text + sizeof text - at);
}

static void put_string(struct conn *c, const char *at, size_t len)
{
	put_number(c, '$', len);
	conn_put(c, at, len);
	put(c, "\r\n");
}

/* Reads a number. False: it is none, or does not fit. */
static bool number(int n, long long *to)
{
	const struct resp_arg *a = &request.r_arg[n];
	const char *at = a->a_at, *end = at + a->a_len;
	bool minus = at < end && *at == '-';
	unsigned long long nr = 0, most = (unsigned long long)LLONG_MAX + minus;
	unsigned digit;

	for (at += minus; at < end; at++) {
		digit = (unsigned)(*at - '0');
		if (digit > 9 || nr > (most - digit) / 10)
			return false;
		nr = nr * 10 + digit;
	}
	*to = (long long)(minus ? -nr : nr);
	return a->a_len > minus;
}

/*
 * Makes a point in time of a length in units. False: it is too far, or lies so far
 * back that it has no number of ms, which Redis refuses, too.
 */
static bool from_now(long long length, utime_ns unit, utime_ns *end)
{
	utime_ns now = unow();

	if (length > (UNEVER - 1 - now) / unit ||
	    length < LLONG_MIN / (unit / UTIME_MS))
		return false;
	*end = length > 0 ? now + length * unit : now;
	return true;
}

static void ping(struct conn *c)
{
	if (request.r_nr > 1)
		put_string(c, ARG(1));
	else
		put(c, "+PONG\r\n");
}

static void get(struct conn *c)
{
	struct value *v = store_get(ARG(1));

	if (v == NULL) {
		put(c, "$-1\r\n");
		return;
	}
	v->v_refs++;
	put_string(c, v->v_bytes, v->v_len);
	value_put(v);
}

static void set(struct conn *c)
{
	bool ends = request.r_nr > 3, in_s = ends && is(3, "EX");
	utime_ns end = UNEVER, unit = in_s ? UTIME_S : UTIME_MS;
	long long length;

	if (ends && (request.r_nr == 4 || (!in_s && !is(3, "PX"))))
		put(c, "-ERR syntax error\r\n");
	else if (ends && !number(4, &length))
		put(c, "-ERR value is not an integer or out of range\r\n");
	else if (ends && (length <= 0 || !from_now(length, unit, &end)))
		put(c, "-ERR invalid expire time in 'set' command\r\n");
	else if (store_set(ARG(1), ARG(2), end) != 0)
		put(c, "-OOM command not allowed when used memory > 'maxmemory'."
		    "\r\n");
	else
		put(c, "+OK\r\n");
}

/* A key whose end is now is gone. */
static void expire(struct conn *c)
{
	long long length;
	utime_ns end;

	if (!number(2, &length))
		put(c, "-ERR value is not an integer or out of range\r\n");
	else if (!from_now(length, UTIME_S, &end))
		put(c, "-ERR invalid expire time in 'expire' command\r\n");
	else
		put_number(c, ':', length > 0 ? store_expire(ARG(1), end) :
			   store_delete(ARG(1)));
}

/* Puts the time that a key has left; -1: for ever; -2: there is no such key. */
static void left(struct conn *c, utime_ns unit)
{
	utime_ns end = 0;
	bool is_there = store_end(ARG(1), &end);

	put_number(c, ':', !is_there ? -2 : end == UNEVER ? -1 :
		   (end - unow() + unit / 2) / unit);
}

static void ttl(struct conn *c)
{
	left(c, UTIME_S);
}

static void pttl(struct conn *c)
{
	left(c, UTIME_MS);
}

static void del(struct conn *c)
{
	int i, nr = 0;

	for (i = 1; i < request.r_nr; i++)
		nr += store_delete(ARG(i));
	put_number(c, ':', nr);
}

static void dbsize(struct conn *c)
{
	put_number(c, ':', store_keys());
}

static const struct command {
	const char *m_name;
	int         m_least, m_most;	/* arguments, with the name */
	void      (*m_f)(struct conn *c);
} commands[] = {
	{ "GET",    2, 2,         get },
	{ "SET",    3, 5,         set },
	{ "DEL",    2, RESP_ARGS, del },
	{ "EXPIRE", 3, 3,         expire },
	{ "TTL",    2, 2,         ttl },
	{ "PTTL",   2, 2,         pttl },
	{ "PING",   1, 2,         ping },
	{ "DBSIZE", 1, 1,         dbsize },
	{ NULL,     0, 0,         NULL }
};

static void run(struct conn *c)
{
	const struct command *m = commands;

	while (m->m_name != NULL && !is(0, m->m_name))
		m++;
	if (m->m_name == NULL)
		put(c, "-ERR unknown command\r\n");
	else if (request.r_nr < m->m_least || request.r_nr > m->m_most)
		conn_print(c, "-ERR wrong number of arguments for '%s' command\r\n",
			   m->m_name);
	else
		m->m_f(c);
}

static long answer(struct conn *c, const char *at, size_t nr)
{
	long n = resp_read(&request, at, nr);

	if (n < 0) {
		conn_print(c, "-ERR Protocol error: %s\r\n", request.r_error);
		return CONN_END;
	}
	if (n == 0)
		c->c_need = request.r_need;
	else if (request.r_nr > 0)
		run(c);
	return n;
}

/* Removes keys that have ended: all are looked at in some ten seconds. */
static void sweep(void *arg)
{
	long i;

	(void)arg;
	for (;;) {
		(void)u_sleep(uafter(UTIME_S / 10));
		for (i = store_keys() / 100; i >= 0 && store_sweep(256); i -= 256)
			(void)u_sleep(UNOW);
	}
}

static int start(size_t bytes)
{
	int rc = store_start(bytes);

	return rc != 0 ? rc : usched_go(sweep, NULL);
}

const struct program cache = { "cache", start, answer, NULL, NULL };
