/* SPDX-License-Identifier: MIT */
/*
 * fuzz.c: http_parse() gives the same result for a head that comes at once, in
 * two pieces cut anywhere, and byte by byte. It reads no byte behind those that
 * have come. It finds heads only where they end in an empty line.
 *
 *	fuzz SECONDS [SEED]	random changes to the heads below, for so much cpu time
 *
 * With -DENTRY it has no main(), and an entry point for libFuzzer: test/whole/entry.sh.
 *
 * Each piece is in a block of exactly its size, so the address sanitizer sees
 * what is read behind it.
 */
#include "check.h"
#include "http.h"

#ifndef ENTRY
static const struct {
	const char *h_text;
	int         h_rc;
} head[] = {
	{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27 },
	{ "\r\nHEAD /b?c HTTP/1.0\r\nConnection: x, keep-alive\r\n\r\n",
	  51 },
	{ "POST /%41 HTTP/1.1\r\nHost:a\r\nContent-Length: 12\r\n"
	  "Expect: 100-continue\r\n\r\nHello", 72 },
	{ "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	  -411 },
	{ "GET http://[::1]:80?x HTTP/1.1\r\nHost: a:8\r\n\r\n", 45 },
	{ "HEAD HTTP://a/b HTTP/1.1\r\nhost:\r\n\r\n", 35 },
	{ "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", -400 },
	{ "GET / HTTP/2.0\r\nhost: a\r\nCONNECTION: close\r\n\r\n", -505 },
	{ "GET /a HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Mon, 1\r\n"
	  "X: \t y \t\r\nContent-Length: 0\r\n\r\nGET /b", 84 },
};
static const char *const word[] = {
	"\r\n", "\n", "\r", " ", "\t", ":", "\r\n\r\n", "\r\n ", "HTTP/1.1",
	"HTTP/9.9", "Host: b\r\n", "Content-Length: 5\r\n", "chunked", "99999",
	"Transfer-Encoding: gzip\r\n", "Content-Length : 1\r\n", "?", "%00",
	"http://", "http://a", "[::", "]:8", ",", "close"
};
#endif

/* What a head was read as. Bytes that were looked at are of no interest. */
struct result {
	int         r_rc;
	struct http r_http;
};

static struct result result(int rc, const struct http *h)
{
	struct result r;

	memset(&r, 0, sizeof r);
	r.r_rc = rc;
	if (rc <= 0)
		return r;
	r.r_http.h_body   = h->h_body;
	r.r_http.h_method = h->h_method;
	r.r_http.h_start  = h->h_start;
	r.r_http.h_path   = h->h_path;
	r.r_http.h_minor  = h->h_minor;
	r.r_http.h_close  = h->h_close;
	return r;
}

/* Lets the parser read n bytes in a block of their own. */
static int feed(struct http *h, const char *text, int n)
{
	char *copy = malloc(n > 0 ? n : 1);
	int rc;

	CHECK(copy != NULL);
	memcpy(copy, text, n);
	rc = http_parse(h, copy, n);
	free(copy);
	return rc;
}

/* Reads a text after at bytes, and every step bytes from there on. */
static struct result read_by(const char *text, int n, int at, int step)
{
	struct http h;
	int rc = 0;

	memset(&h, 0, sizeof h);
	for (; rc == 0 && at < n; at += step)
		rc = feed(&h, text, at);
	if (rc == 0)
		rc = feed(&h, text, n);
	return result(rc, &h);
}

static void check_span(struct http_span s, int rc)
{
	CHECK_THAT(s.s_at + s.s_len, <=, rc);
}

/* Checks what must hold for each head that was accepted. */
static void check_head(const char *text, const struct result *r)
{
	int i;

	if (r->r_rc <= 0) {
		CHECK(r->r_rc == 0 || (r->r_rc <= -400 && r->r_rc >= -505));
		return;
	}
	CHECK(r->r_rc >= 4 && r->r_rc <= HTTP_HEAD);
	CHECK(memcmp(text + r->r_rc - 4, "\r\n\r\n", 4) == 0);
	for (i = 0; i < r->r_rc; i++) {
		CHECK(text[i] != 0);
		CHECK_IS(text[i] == '\n', i > 0 && text[i - 1] == '\r');
		CHECK(text[i] != '\n' || i + 1 == r->r_rc ||
		      (text[i + 1] != ' ' && text[i + 1] != '\t'));
	}
	check_span(r->r_http.h_start, r->r_rc);
	check_span(r->r_http.h_path, r->r_rc);
}

static void check_text(const char *text, int n, int step)
{
	struct result all = read_by(text, n, n, 1), cut;
	int at;

	check_head(text, &all);
	cut = read_by(text, n, 0, 1);
	CHECK(memcmp(&all, &cut, sizeof all) == 0);
	for (at = 0; at < n; at += step) {
		cut = read_by(text, n, at, n);
		CHECK(memcmp(&all, &cut, sizeof all) == 0);
	}
}

enum { ROOM = 3 * HTTP_HEAD };

#ifdef ENTRY
int LLVMFuzzerTestOneInput(const unsigned char *text, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *text, size_t n)
{
	if (n <= ROOM)
		check_text((const char *)text, n, n < 600 ? 1 : n / 32);
	return 0;
}
#else

/* Checks a head of n bytes, with a request line of this length. */
static void check_length(int line, int n, int rc)
{
	static const char first[] = "GET /", last[] = " HTTP/1.1\r\n",
		more[] = "Host: a\r\nX: ";
	char text[HTTP_HEAD + 1];
	struct result r;

	memset(text, 'a', n);
	memcpy(text, first, sizeof first - 1);
	memcpy(text + line - sizeof last + 1, last, sizeof last - 1);
	memcpy(text + line, more, sizeof more - 1);
	memcpy(text + n - 4, "\r\n\r\n", 4);
	check_text(text, n, n / 64);
	r = read_by(text, n, n - 1, 1);
	CHECK_IS(r.r_rc, rc);
	r = read_by(text, n, line - 1, 1);
	CHECK_IS(r.r_rc, rc);
}

/* Puts bytes into a text of n bytes, in place of `out` of them. */
static int edit(char *text, int n, int at, int out, const char *in, int nr)
{
	out = out < n - at ? out : n - at;
	if (n - out + nr > ROOM)
		return n;
	memmove(text + at + nr, text + at + out, n - at - out);
	memcpy(text + at, in, nr);
	return n - out + nr;
}

static int mutate(char *text, int n, unsigned *seed)
{
	const char *w = word[check_random(seed) % COUNT(word)];
	int at = check_random(seed) % (n + 1);
	char fill[HTTP_HEAD];

	switch (check_random(seed) % 8) {
	case 0: case 1: case 2:
		return edit(text, n, at, 0, w, strlen(w));
	case 3: case 4:
		fill[0] = check_random(seed);
		return edit(text, n, at, 1, fill, 1);
	case 5:
		return edit(text, n, at, check_random(seed) % 9, "", 0);
	case 6:
		return edit(text, n, at, strlen(w), w, strlen(w));
	}
	if (check_random(seed) % 16 != 0)
		return n;
	memset(fill, 'a', sizeof fill);		/* about as long as may be */
	return edit(text, n, at, 0, fill, (check_random(seed) % 2 ?
		HTTP_LINE : HTTP_HEAD) - check_random(seed) % 80);
}

int main(int argc, char **argv)
{
	long until, nr = 0;
	static char text[ROOM];
	unsigned seed;
	int i, n;

	check_start(argc > 2 ? 2 : 1, argc > 2 ? argv + 1 : argv);
	check_again("%s %s %u", argv[0], argc > 1 ? argv[1] : "1", check_seed);
	until = check_cpu() + (argc > 1 ? atol(argv[1]) : 1) * 1000000;
	for (i = 0; i < COUNT(head); i++) {
		n = strlen(head[i].h_text);
		check_text(head[i].h_text, n, 1);
		CHECK_IS(read_by(head[i].h_text, n, n, 1).r_rc, head[i].h_rc);
	}
	check_length(HTTP_LINE, HTTP_HEAD, HTTP_HEAD);
	check_length(HTTP_LINE + 1, HTTP_HEAD, -414);
	check_length(HTTP_LINE, HTTP_HEAD + 1, -431);
	for (; nr % 16 != 0 || check_cpu() < until; nr++) {
		seed = check_seed + nr;
		n = strlen(head[nr % COUNT(head)].h_text);
		memcpy(text, head[nr % COUNT(head)].h_text, n);
		doing("case %ld", nr);
		for (i = check_random(&seed) % 6; i >= 0; i--)
			n = mutate(text, n, &seed);
		check_text(text, n, n < 600 ? 1 : n / 32);
	}
	printf("%ld heads\n", nr);
	return 0;
}
#endif
