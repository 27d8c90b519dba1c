/* SPDX-License-Identifier: MIT */
/* http.c: reads the head of a request (RFC 9112). */

/*
 * A head is read line by line, and no byte twice, however it is cut in pieces.
 * This is strict, so that no proxy takes another view of where a request ends:
 * lines end in CR LF, no space stands before a colon, no line is folded, a
 * length is a number that stands once, and there are no transfer codings.
 */
#include "http.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define IS_DIGIT(c)	((unsigned)((c) - '0') < 10)

enum { TOKEN = 1, TARGET = 2, VALUE = 4, MOST = 6, ALL = 7, HOST = 8 };

/* What a byte may be a part of. */
static const unsigned char kind[256] = {
	['\t'] = VALUE, [' '] = VALUE, ['!'] = ALL | HOST, ['"'] = VALUE,
	['#'] = ALL, ['$' ... '\''] = ALL | HOST, ['(' ... ')'] = MOST | HOST,
	['*' ... '+'] = ALL | HOST, [','] = MOST | HOST,
	['-' ... '.'] = ALL | HOST, ['/'] = MOST, ['0' ... '9'] = ALL | HOST,
	[':'] = MOST, [';'] = MOST | HOST, ['<'] = MOST, ['='] = MOST | HOST,
	['>' ... '@'] = MOST, ['A' ... 'Z'] = ALL | HOST, ['['] = MOST,
	['\\'] = VALUE, [']'] = MOST, ['^'] = ALL, ['_'] = ALL | HOST,
	['`'] = ALL, ['a' ... 'z'] = ALL | HOST, ['{'] = MOST, ['|'] = ALL,
	['}'] = MOST, ['~'] = ALL | HOST, [0x80 ... 0xff] = VALUE
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

/* Reads the host of a URI, and its port, if any. Returns its end, or NULL. */
static const char *host(const char *p, const char *end)
{
	const char *q = p;

	if (p < end && *p == '[') {			/* an address of IPv6 */
		do
			q++;
		while (q < end && (isxdigit((unsigned char)*q) || *q == ':' ||
				   *q == '.'));
		if (q == end || *q++ != ']' || q - p < 4)
			return NULL;
	} else
		for (; q < end && kind[(unsigned char)*q] & HOST; q++)
			if (*q == '%' && (end - q < 3 ||
			    !isxdigit((unsigned char)q[1]) ||
			    !isxdigit((unsigned char)q[2])))
				return NULL;
	if (q < end && *q == ':')
		do
			q++;
		while (q < end && IS_DIGIT(*q));
	return q;
}

/*
 * Goes past http://host, which a proxy's request has before its path. Returns
 * where the path begins, which may be empty then; NULL: it is no such target.
 */
static const char *past_host(const char *p, const char *end)
{
	const char *q = p + strlen("http://");

	if (*p == '/')
		return p;
	if (end - q < 1 || strncasecmp(p, "http://", q - p) != 0 || *q == ':')
		return NULL;
	p = host(q, end);
	return p != NULL && p > q && (p == end || *p == '/' || *p == '?') ? p :
		NULL;
}

/* Reads METHOD [http://host]/path?query HTTP/1.x. */
static int request_line(struct http *h, const char *buf, const char *p,
			const char *end)
{
	const char *t = past(p, end, TOKEN) + 1, *v = t, *query;

	h->h_begun = true;
	if (t - 1 > p && t <= end && t[-1] == ' ')
		v = past(t, end, TARGET) + 1;
	if (v - 1 <= t || v[-1] != ' ' || end - v != 8 ||
	    memcmp(v, "HTTP/", 5) != 0 || !IS_DIGIT(v[5]) || v[6] != '.' ||
	    !IS_DIGIT(v[7]))
		return -400;
	h->h_minor  = v[7] != '0';
	h->h_method = memcmp(p, "GET ", 4) == 0 ? HTTP_GET :
		memcmp(p, "HEAD ", 5) == 0 ? HTTP_ONLY_HEAD : HTTP_OTHER;
	h->h_start = (struct http_span){ p - buf, end - p };
	if (h->h_method != HTTP_OTHER && (t = past_host(t, v - 1)) == NULL)
		return -400;
	query = memchr(t, '?', v - 1 - t);
	query = query != NULL ? query : v - 1;
	h->h_path  = (struct http_span){ t - buf, query - t };
	return v[5] == '1' ? 0 : -505;
}

static int length(struct http *h, const char *p, const char *end)
{
	if (h->h_lengths++ > 0 || p == end)
		return -400;
	for (; p < end && IS_DIGIT(*p); p++) {
		if (h->h_body > HTTP_BODY / 10)
			return -413;
		h->h_body = h->h_body * 10 + (*p - '0');
	}
	return p == end ? 0 : -400;
}

/* Looks at the words of a list. */
static int connection(struct http *h, const char *p, const char *end)
{
	const char *q;

	for (; p < end; p = q + 1) {
		q = past(p, end, TOKEN);
		h->h_close |= is(p, q, "close");
	}
	return 0;
}

/* Reads a field whose name ends at colon, and whose value is v to end. */
static int field(struct http *h, const char *name, const char *colon,
		 const char *v, const char *end)
{
	if (is(name, colon, "host"))
		return h->h_hosts++ == 0 && host(v, end) == end ? 0 : -400;
	if (is(name, colon, "content-length"))
		return length(h, v, end);
	if (is(name, colon, "transfer-encoding"))
		return h->h_codings++ == 0 ? 0 : -400;
	h->h_expects |= is(name, colon, "expect") && is(v, end, "100-continue");
	return is(name, colon, "connection") ? connection(h, v, end) : 0;
}

static int field_line(struct http *h, const char *p, const char *end)
{
	const char *q = past(p, end, TOKEN), *v = q + 1;

	if (q == p || q == end || *q != ':' || past(v, end, VALUE) != end)
		return -400;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (v < end && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return field(h, p, q, v, end);
}

/* Looks at a complete head. Returns its length, or what is wrong with it. */
static int complete(const struct http *h)
{
	if ((h->h_minor && h->h_hosts == 0) ||
	    (h->h_codings > 0 && (h->h_lengths > 0 || !h->h_minor)))
		return -400;
	return h->h_codings > 0 ? -411 : h->h_seen;
}

/* Reads the line from p to the LF at q. CR LF may stand before the first. */
static int line(struct http *h, const char *buf, const char *p, const char *q)
{
	if (q == p || *--q != '\r')
		return -400;
	if (h->h_begun)
		return q == p ? complete(h) : field_line(h, p, q);
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
	if (rc != 0)
		return rc;
	h->h_seen = n;
	return too_far(h, n + 1);
}
