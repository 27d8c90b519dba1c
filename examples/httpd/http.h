/* SPDX-License-Identifier: MIT */
/* http.h: reads the head of a request (RFC 9112). */

#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>

enum {
	HTTP_LINE = 4096,	/* longest request line, with CR LF */
	HTTP_HEAD = 8192,	/* longest head, with the empty line */
	HTTP_BODY = 999999999	/* longest body that a length can say */
};

enum http_method { HTTP_GET, HTTP_ONLY_HEAD, HTTP_OTHER };

/* Bytes of the head: no pointer, because the buffer may move. */
struct http_span { unsigned short s_at, s_len; };

/* A request. All is 0 before its first byte. */
struct http {
	int              h_line, h_seen; /* the line that comes; looked at */
	int              h_body;	/* bytes of the body */
	enum http_method h_method;
	struct http_span h_start, h_path; /* the request line; no host, query */
	unsigned char    h_hosts, h_lengths, h_codings;
	bool             h_minor;	/* HTTP/1.1, not 1.0 */
	bool             h_begun, h_close;
	bool             h_expects;	/* the body waits for a 100 (Continue) */
};

/*
 * Reads on in a buffer that begins with the head. Returns the length of a head
 * that is complete; 0: more bytes must come; or the negative of a status, after
 * which the connection has to end.
 */
int http_parse(struct http *h, const char *buf, int n);

#endif /* HTTP_H */
