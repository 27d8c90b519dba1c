/* SPDX-License-Identifier: MIT */
/* http.h: the contract of the servers, and how clients read their answers. */

#ifndef HTTP_H
#define HTTP_H

/*
 * A server is started as
 *
 *	server -p 0 -r ROOT -n P -c CONNECTIONS
 *
 * -p	the port of 127.0.0.1; 0: any that is free
 * -r	the folder of the files, named from its top: /4k is ROOT/4k
 * -n	native threads that serve
 * -c	how many connections it must be able to hold
 *
 * When connections are accepted, the server prints
 *
 *	listening on 127.0.0.1:PORT
 *
 * It serves HTTP/1.1 with connections that stay and requests that are
 * pipelined, until a signal ends it. GET /plaintext is answered from memory,
 * with a few bytes of text. All other paths are files, which are opened for
 * each request and sent by sendfile. Each answer has a date and the length of
 * its body. No access is logged.
 *
 * The caller of a server has raised the limit of descriptors.
 */

#include "../io/io.h"

#include <strings.h>

#define HTTP_PLAIN	"/plaintext"

enum { HTTP_HEAD = 4096 };		/* most bytes of the head of an answer */

/* What the head of an answer says. */
struct http_head {
	int  h_status;
	long h_length;			/* of the body; -1: not told */
	bool h_close;			/* the server closes after the body */
};

/* Returns whether the line begins with the name, which ends in a colon. */
static inline bool http_is(const char *line, const char *end, const char *name)
{
	size_t n = strlen(name);

	return (size_t)(end - line) >= n && strncasecmp(line, name, n) == 0;
}

static inline void http_field(struct http_head *h, const char *line,
			      const char *end)
{
	if ((*line | 32) != 'c')
		return;
	if (http_is(line, end, "content-length:"))
		h->h_length = strtol(line + 15, NULL, 10);
	else if (http_is(line, end, "connection: close"))
		h->h_close = true;
}

/*
 * Reads the head of an answer. Returns its length; 0: the end is missing; -1:
 * this is no answer of HTTP/1.1.
 */
static inline ssize_t http_head(struct http_head *h, const char *text, size_t n)
{
	const char *end = memmem(text, n, "\r\n\r\n", 4), *line, *next;

	if (memcmp(text, "HTTP/1.1 ", n < 9 ? n : 9) != 0)
		return -1;
	if (end == NULL)
		return n < HTTP_HEAD ? 0 : -1;
	h->h_status = (int)strtol(text + 9, NULL, 10);
	h->h_length = -1;
	h->h_close = false;
	for (line = text; line < end; line = next + 1) {
		next = memchr(line, '\n', end + 2 - line);
		http_field(h, line, next);
	}
	return end + 4 - text;
}

#endif /* HTTP_H */
