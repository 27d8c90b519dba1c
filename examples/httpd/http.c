/* SPDX-License-Identifier: MIT */
/* http.c: reads the head of a request (RFC 9112). */

/*
 * A head is read line by line, and no byte twice, however it is cut in pieces.
 * Where the RFC lets a recipient choose, this is strict, so that no proxy takes
 * another view of where a request ends: lines end in CR LF, no space stands
 * before a colon, no line is folded, and a length is a number that stands once.
 * A body with a transfer coding is refused: 411, or 501 if it is not chunked.
 */
#include "http.h"

#include <string.h>
#include <strings.h>

enum { TOKEN = 1, TARGET = 2, VALUE = 4, MOST = 6, ALL = 7 };

/* What a byte may be a part of. */
static const unsigned char kind[256] = {
	['\t'] = VALUE, [' '] = VALUE, ['!'] = ALL, ['"'] = VALUE,
	['#' ... '\''] = ALL, ['(' ... ')'] = MOST, ['*' ... '+'] = ALL,
	[','] = MOST, ['-' ... '.'] = ALL, ['/'] = MOST, ['0' ... '9'] = ALL,
	[':' ... '@'] = MOST, ['A' ... 'Z'] = ALL, ['['] = MOST,
	['\\'] = VALUE, [']'] = MOST, ['^' ... 'z'] = ALL, ['{'] = MOST,
	['|'] = ALL, ['}'] = MOST, ['~'] = ALL, [0x80 ... 0xff] = VALUE
};

/* Returns the first byte that is not of this kind. */
static const char *past(const char *p, const char *end, int what)
{
	while (p < end && kind[(unsigned char)*p] & what)
		p++;
	return p;
}

static bool is(const char *p, const char *end, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(end - p) == len && strncasecmp(p, word, len) == 0;
}

static struct http_span span(const char *buf, const char *p, const char *end)
{
	return (struct http_span){ p - buf, end - p };
}

static int version(struct http *h, const char *p, const char *end)
{
	if (end - p != 8 || memcmp(p, "HTTP/", 5) != 0 || p[6] != '.' ||
	    p[5] < '0' || p[5] > '9' || p[7] < '0' || p[7] > '9')
		return -400;
	h->h_minor = p[7] != '0';
	return p[5] == '1' ? 0 : -505;
}

/* Finds the path in a target: /path?query, or http://host/path?query. */
static int path(struct http *h, const char *buf, const char *p, const char *end)
{
	const char *query = memchr(p, '?', end - p);

	end = query != NULL ? query : end;
	if (end - p >= 7 && is(p, p + 7, "http://")) {
		p = memchr(p + 7, '/', end - p - 7);
		p = p != NULL ? p : end;
	} else if (p == end || *p != '/')
		return h->h_method == HTTP_OTHER ? 0 : -400;
	h->h_path = span(buf, p, end);
	return 0;
}

static int request_line(struct http *h, const char *buf, const char *p,
			const char *end)
{
	const char *q = past(p, end, TOKEN), *t = q + 1;
	int rc;

	h->h_begun = true;
	if (q == p || q == end || *q != ' ')
		return -400;
	h->h_method = q - p == 3 && memcmp(p, "GET", 3) == 0 ? HTTP_GET :
		q - p == 4 && memcmp(p, "HEAD", 4) == 0 ? HTTP_ONLY_HEAD :
		HTTP_OTHER;
	q = past(t, end, TARGET);
	if (q == t || q == end || *q != ' ')
		return -400;
	rc = version(h, q + 1, end);
	if (rc == 0)
		rc = path(h, buf, t, q);
	if (rc == 0)
		h->h_start = span(buf, p, end);
	return rc;
}

static int length(struct http *h, const char *p, const char *end)
{
	if (h->h_lengths++ > 0 || p == end)
		return -400;
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (h->h_body > HTTP_BODY / 10)
			return -413;
		h->h_body = h->h_body * 10 + (*p - '0');
	}
	return p == end ? 0 : -400;
}

/* Looks at the words of a list. */
static void connection(struct http *h, const char *p, const char *end)
{
	const char *q;

	for (; p < end; p = q + 1) {
		q = past(p, end, TOKEN);
		h->h_close |= is(p, q, "close");
		h->h_keep  |= is(p, q, "keep-alive");
	}
}

/* Reads a field whose name ends at colon, and whose value is v to end. */
static int field(struct http *h, const char *buf, const char *name,
		 const char *colon, const char *v, const char *end)
{
	if (is(name, colon, "host"))
		return h->h_hosts++ == 0 ? 0 : -400;
	if (is(name, colon, "content-length"))
		return length(h, v, end);
	if (is(name, colon, "transfer-encoding"))
		return h->h_codings++ > 0 ? -400 :
			is(v, end, "chunked") ? 0 : -501;
	if (is(name, colon, "connection"))
		connection(h, v, end);
	else if (is(name, colon, "expect"))
		h->h_expect = true;
	else if (is(name, colon, "if-modified-since"))
		h->h_since = span(buf, v, end);
	return 0;
}

static int field_line(struct http *h, const char *buf, const char *p,
		      const char *end)
{
	const char *q = past(p, end, TOKEN), *v = q + 1;

	if (q == p || q == end || *q != ':' || past(v, end, VALUE) != end)
		return -400;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (v < end && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return field(h, buf, p, q, v, end);
}

/* Looks at a complete head. Returns its length, or what is wrong with it. */
static int complete(const struct http *h)
{
	if (h->h_hosts == 0 && h->h_minor)
		return -400;
	if (h->h_codings > 0)
		return h->h_lengths > 0 || !h->h_minor ? -400 : -411;
	return h->h_seen;
}

/* Reads the line from p to the LF at q. CR LF may stand before the first. */
static int line(struct http *h, const char *buf, const char *p, const char *q)
{
	if (q == p || *--q != '\r')
		return -400;
	if (h->h_begun)
		return q == p ? complete(h) : field_line(h, buf, p, q);
	return q == p && p == buf ? 0 : request_line(h, buf, p, q);
}

/* Returns the status if a line that ends before end is too far, or 0. */
static int too_far(const struct http *h, int end)
{
	return !h->h_begun && end - h->h_line > HTTP_LINE ? -414 :
		end > HTTP_HEAD ? -431 : 0;
}

int http_parse(struct http *h, const char *buf, int n)
{
	int rc = n > 0 && *buf != '\r' && past(buf, buf + 1, TOKEN) == buf ?
		-400 : 0;
	const char *q;

	while (rc == 0 && (q = memchr(buf + h->h_seen, '\n', n - h->h_seen))) {
		h->h_seen = (int)(q - buf) + 1;
		rc = too_far(h, h->h_seen);
		if (rc == 0)
			rc = line(h, buf, buf + h->h_line, q);
		h->h_line = h->h_seen;
	}
	if (rc == 0) {
		h->h_seen = n;
		rc = too_far(h, n + 1);
	}
	return rc;
}
