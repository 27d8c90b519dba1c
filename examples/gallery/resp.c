/* SPDX-License-Identifier: MIT */
/* resp.c: reads a request of RESP2. */

/*
 *	*2 CR LF $3 CR LF GET CR LF $1 CR LF k CR LF
 *
 * Nothing is allocated here, so an announced length costs nothing. A request
 * that is not complete is read again from its start when r_need bytes are there:
 * that is a step for each argument, as strings are leapt over.
 */
#include "resp.h"

#include <string.h>

enum { NUMBER = 9 };		/* characters of a number, at most */

static long error(struct resp *r, const char *text)
{
	r->r_error = text;
	return -1;
}

static long more(struct resp *r, size_t need)
{
	r->r_need = need;
	return need > RESP_REQUEST ? error(r, "request too long") : 0;
}

/*
 * Reads a mark, a number up to most, and CR LF. Returns the length of the line,
 * as resp_read().
 */
static long line(struct resp *r, const char *at, size_t nr, char mark, long most,
		 const char *what, long *number)
{
	size_t i = 1;

	if (nr > 0 && *at != mark)
		return error(r, mark == '*' ? "expected '*'" : "expected '$'");
	for (*number = 0; i < nr && i <= NUMBER && (unsigned)(at[i] - '0') < 10;
	     i++)
		*number = *number * 10 + (at[i] - '0');
	if ((i < nr && (i == 1 || at[i] != '\r')) ||
	    (i + 1 < nr && at[i + 1] != '\n') || *number > most)
		return error(r, what);
	return i + 1 < nr ? (long)i + 2 : 0;
}

long resp_read(struct resp *r, const char *at, size_t nr)
{
	long length, used = line(r, at, nr, '*', RESP_ARGS,
				 "invalid multibulk length", &length), n;
	size_t done = used;
	int args = length, i;

	if (used <= 0)
		return used < 0 ? -1 : more(r, nr + 1);
	for (i = 0; i < args; i++, done += length + 2) {
		n = line(r, at + done, nr - done, '$', RESP_BULK,
			 "invalid bulk length", &length);
		if (n < 0)
			return -1;
		if (n == 0)
			return more(r, nr + 1);
		done += n;
		if (nr < done + length + 2)
			return more(r, done + length + 2);
		if (memcmp(at + done + length, "\r\n", 2) != 0)
			return error(r, "expected CR LF after a string");
		r->r_arg[i] = (struct resp_arg){ at + done, length };
	}
	r->r_nr = args;
	return done;
}
