/* SPDX-License-Identifier: MIT */
/* serve.c: a connection: requests in, answers out. */

/*
 * answer() has buffers of 28 KiB on its stack, and never waits. It reads what
 * there is, answers all requests in it, and sends with a single call. What is
 * left, of input or of output, goes to the heap. serve() waits, and its frame is
 * small. So a connection that is idle, or slow, keeps only what it needs.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "httpd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE	__attribute__((noinline))

enum {
	SMALL  = 4096,			/* files that are read, not sent */
	REPLY  = SMALL + 512,		/* and their heads */
	INPUT  = HTTP_HEAD + 4096,
	OUTPUT = 16384,
	PIECE  = 256 * 1024,		/* of a file */
	RATE   = 16 * 1024,		/* bytes a second, at least */
	LINGER = 2			/* seconds */
};

/* Bytes that wait: a part of a request, or of answers. */
struct rest {
	struct http r_http;
	int         r_nr;
	char        r_bytes[];
};

struct conn {
	struct rest *c_in, *c_out;
	utime_ns     c_until;		/* for c_in, or c_skip */
	off_t        c_sent;		/* of c_file */
	off_t        c_left;
	int          c_fd, c_file;
	int          c_skip;		/* bytes of a body */
	bool         c_more;		/* c_in may be complete */
	bool         c_close, c_linger;
};

/* What answer() works on. */
struct work {
	struct conn *w_c;
	struct http  w_http;		/* its head begins at w_at */
	int  w_at, w_nr;		/* of w_in */
	int  w_out_nr;
	bool w_fresh;			/* w_http needs a deadline */
	char w_in[INPUT], w_out[OUTPUT];
};

/* Which descriptors wait for a request (atomic); a cache line for each. */
static struct {
	int s_idle;
} __attribute__((aligned(64))) slot[CONNS];

/* Answers. */

static void put(struct work *w, const char *text, int len)
{
	memcpy(w->w_out + w->w_out_nr, text, len);
	w->w_out_nr += len;
}

static void put_text(struct work *w, const char *text)
{
	put(w, text, strlen(text));
}

static void put_number(struct work *w, long nr)
{
	char digits[24], *p = digits + sizeof digits;

	do
		*--p = '0' + nr % 10;
	while (nr /= 10);
	put(w, p, digits + sizeof digits - p);
}

static void date(char *to, int size, time_t when)
{
	struct tm tm;

	strftime(to, size, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&when, &tm));
}

/* Out of line: its variables belong to the native thread. */
static NOINLINE void put_date(struct work *w)
{
	static __thread char text[64];
	static __thread time_t when;
	time_t now = time(NULL);

	if (now != when)
		date(text, sizeof text, when = now);
	put_text(w, text);
}

/* Puts the head of an answer with a body of len bytes, and notes it. */
static void put_head(struct work *w, int status, const char *type, long len,
		     const char *modified)
{
	const struct http *h = &w->w_http;

	put_text(w, "HTTP/1.1 ");
	put_text(w, reason(status));
	put_text(w, "\r\nServer: usched\r\nDate: ");
	put_date(w);
	if (modified != NULL) {
		put_text(w, "\r\nLast-Modified: ");
		put_text(w, modified);
	}
	if (status != 304) {
		put_text(w, "\r\nContent-Type: ");
		put_text(w, type);
		put_text(w, "\r\nContent-Length: ");
		put_number(w, len);
	}
	put_text(w, status == 405 ? "\r\nAllow: GET, HEAD" : "");
	put_text(w, w->w_c->c_close ? "\r\nConnection: close\r\n\r\n" :
		 h->h_minor ? "\r\n\r\n" :
		 "\r\nConnection: keep-alive\r\n\r\n");
	note(w->w_c->c_fd, status, h->h_method == HTTP_ONLY_HEAD ? 0 : len,
	     w->w_in + w->w_at + h->h_start.s_at, h->h_start.s_len);
}

static void reply(struct work *w, int status, const char *body, int len)
{
	put_head(w, status, "text/plain", len, NULL);
	if (w->w_http.h_method != HTTP_ONLY_HEAD)
		put(w, body, len);
}

static void reply_status(struct work *w, int status)
{
	char body[64];

	reply(w, status, body, sprintf(body, "%s\n", reason(status)));
}

/* Answers, and ends the connection. */
static bool fail(struct work *w, int status)
{
	w->w_c->c_close = w->w_c->c_linger = true;
	reply_status(w, status);
	return false;
}

static bool same(const struct work *w, struct http_span s, const char *text)
{
	return s.s_len == strlen(text) &&
		memcmp(w->w_in + w->w_at + s.s_at, text, s.s_len) == 0;
}

/* Files. */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
		(c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes a path, to room for some more bytes. 0, or the negative of a status. */
static int decode(char *to, const char *p, int len)
{
	const char *first = to, *end = p + len;

	for (; p < end; p++, to++) {
		*to = *p;
		if (*p == '%') {
			if (end - p < 3 || digit(p[1]) < 0 || digit(p[2]) < 0)
				return -400;
			*to = digit(p[1]) * 16 + digit(p[2]);
			p += 2;
		}
		if (*to == 0)
			return -400;
	}
	strcpy(to, to == first ? "/index.html" : to[-1] == '/' ? "index.html" :
	       "");
	return 0;
}

/*
 * Opens a file below the root. No part of the path may be a link, or dot-dot:
 * so there is no way out. Returns a descriptor, or -errno.
 */
static int open_below(char *path)
{
	int dir = root, fd;
	char *slash;

	for (; *path == '/'; path++)
		;
	do {
		slash = strchr(path, '/');
		if (slash != NULL)
			*slash = 0;
		fd = strcmp(path, "..") == 0 ? -ENOENT :
			openat(dir, *path != 0 ? path : ".", O_NOFOLLOW |
			       O_CLOEXEC | (slash != NULL ? O_PATH | O_DIRECTORY
					    : O_RDONLY | O_NONBLOCK));
		if (fd == -1)
			fd = -errno;
		if (dir != root)
			close(dir);
		dir = fd;
		path = slash + 1;
	} while (fd >= 0 && slash != NULL);
	return fd;
}

static const char *type_of(const char *path)
{
	static const char *const type[][2] = {
		{ ".html", "text/html; charset=utf-8" }, { ".css", "text/css" },
		{ ".js", "text/javascript" }, { ".json", "application/json" },
		{ ".svg", "image/svg+xml" }, { ".png", "image/png" },
		{ ".jpg", "image/jpeg" }, { ".txt", "text/plain" }
	};
	const char *dot = strrchr(path, '.');
	unsigned i;

	for (i = 0; dot != NULL && i < sizeof type / sizeof *type; i++)
		if (strcmp(dot, type[i][0]) == 0)
			return type[i][1];
	return "application/octet-stream";
}

/* Puts a small file, or leaves it to be sent. Returns whether it is done. */
static bool put_file(struct work *w, int fd, off_t size)
{
	struct conn *c = w->w_c;

	if (size > SMALL) {
		c->c_file = fd;
		c->c_sent = 0;
		c->c_left = size;
		return false;
	}
	if (pread(fd, w->w_out + w->w_out_nr, size, 0) == size)
		w->w_out_nr += size;
	else
		c->c_close = true;		/* it has just been cut */
	return true;
}

/* Answers with a file, which it closes. */
static void reply_file(struct work *w, int fd, const char *type)
{
	struct stat st;
	char modified[64];
	bool done = true;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		reply_status(w, 404);
	else {
		date(modified, sizeof modified, st.st_mtime);
		if (same(w, w->w_http.h_since, modified))
			put_head(w, 304, type, 0, modified);
		else {
			put_head(w, 200, type, st.st_size, modified);
			if (w->w_http.h_method == HTTP_GET)
				done = put_file(w, fd, st.st_size);
		}
	}
	if (done)
		close(fd);
}

/* Out of line, as the path would be in each frame. */
static NOINLINE void find_file(struct work *w)
{
	struct http_span s = w->w_http.h_path;
	char path[HTTP_LINE + 16];
	int rc = decode(path, w->w_in + w->w_at + s.s_at, s.s_len);
	const char *type = type_of(path);

	if (rc == 0)
		rc = open_below(path);
	if (rc >= 0)
		reply_file(w, rc, type);
	else
		reply_status(w, rc == -400 ? 400 : rc == -EACCES ? 403 :
			     rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM ?
			     503 : 404);
}

/* Requests. */

static void respond(struct work *w)
{
	char text[2048];

	if (w->w_http.h_method == HTTP_OTHER)
		reply_status(w, 405);
	else if (same(w, w->w_http.h_path, "/plaintext"))
		reply(w, 200, "Hello, World!", 13);
	else if (same(w, w->w_http.h_path, "/metrics"))
		reply(w, 200, text, metrics(text, sizeof text));
	else
		find_file(w);
}

/* Skips what has come of a body. Returns whether that is all of it. */
static bool skip(struct work *w)
{
	int nr = w->w_nr - w->w_at;

	nr = nr < w->w_c->c_skip ? nr : w->w_c->c_skip;
	w->w_at += nr;
	return (w->w_c->c_skip -= nr) == 0;
}

/* Answers a request. False: it is not complete, or the connection ends. */
static bool next(struct work *w)
{
	struct http *h = &w->w_http;
	struct conn *c = w->w_c;
	int rc;

	if (!skip(w) || w->w_at == w->w_nr)
		return false;
	rc = http_parse(h, w->w_in + w->w_at, w->w_nr - w->w_at);
	if (rc < 0 || (rc > 0 && h->h_body > o_body))
		return fail(w, rc < 0 ? -rc : 413);
	if (rc == 0)
		return false;
	c->c_close = h->h_close || (!h->h_minor && !h->h_keep) ||
		(h->h_expect && h->h_body > 0) ||
		(w->w_at + rc + h->h_body >= w->w_nr &&
		 __atomic_load_n(&stopping, __ATOMIC_RELAXED));
	respond(w);
	w->w_at  += rc;
	c->c_skip = h->h_body;
	w->w_fresh = true;
	memset(h, 0, sizeof *h);
	return true;
}

static struct rest *rest_new(const char *from, int nr)
{
	struct rest *r = malloc(sizeof *r + nr);

	if (r != NULL) {
		memcpy(r->r_bytes, from, nr);
		r->r_nr = nr;
	}
	return r;
}

/* Goes on with what was kept. */
static void load(struct work *w, struct conn *c)
{
	struct rest *r = c->c_in;

	w->w_c = c;
	w->w_at = w->w_nr = w->w_out_nr = 0;
	w->w_fresh = r == NULL && c->c_skip == 0;
	memset(&w->w_http, 0, sizeof w->w_http);
	if (r == NULL)
		return;
	w->w_http = r->r_http;
	w->w_nr   = r->r_nr;
	memcpy(w->w_in, r->r_bytes, r->r_nr);
	free(r);
	c->c_in = NULL;
}

/* Keeps what is left of the input. False: there is no memory. */
static bool keep(struct work *w)
{
	struct conn *c = w->w_c;
	int nr = w->w_nr - w->w_at;

	c->c_linger |= c->c_close && (nr > 0 || c->c_skip > 0);
	if (c->c_close || (nr == 0 && c->c_skip == 0))
		return true;
	if (w->w_fresh)
		c->c_until = uafter(o_time * UTIME_S);
	if (nr == 0)
		return true;
	c->c_in = rest_new(w->w_in + w->w_at, nr);
	if (c->c_in != NULL)
		c->c_in->r_http = w->w_http;
	return c->c_in != NULL;
}

/* Sends the answers, or keeps what the client does not take now. */
static bool flush(struct work *w)
{
	struct conn *c = w->w_c;
	int nr = w->w_out_nr;
	ssize_t n = nr == 0 ? 0 : u_send(c->c_fd, w->w_out, nr,
					 c->c_left > 0 ? MSG_MORE : 0, UNOW);

	n = n == -EAGAIN ? 0 : n;
	w->w_out_nr = 0;
	if (n >= 0 && n < nr)
		c->c_out = rest_new(w->w_out + n, nr - n);
	return n == nr || (n >= 0 && c->c_out != NULL);
}

/* Returns whether there is room for an answer. */
static bool room(struct work *w)
{
	if (w->w_c->c_close || w->w_c->c_left > 0)
		return false;
	return w->w_out_nr <= OUTPUT - REPLY ||
		(flush(w) && w->w_c->c_out == NULL);
}

/* Reads, and answers. False: the connection has ended. */
static NOINLINE bool answer(struct conn *c)
{
	struct work w;
	ssize_t n;

	load(&w, c);
	if (!c->c_more) {
		n = u_read(c->c_fd, w.w_in + w.w_nr, INPUT - w.w_nr, UNOW);
		if (n <= 0 && n != -EAGAIN)
			return false;
		w.w_nr += n > 0 ? n : 0;
	}
	while ((c->c_more = !room(&w)) == false && next(&w))
		;
	return keep(&w) && flush(&w);
}

/* Answers that a request took too long. */
static NOINLINE bool late(struct conn *c)
{
	struct work w;

	load(&w, c);
	(void)fail(&w, 408);
	return flush(&w) && false;
}

/* Waiting. */

static NOINLINE ssize_t send_piece(struct conn *c)
{
	ssize_t n = sendfile(c->c_fd, c->c_file, &c->c_sent,
			     c->c_left < PIECE ? c->c_left : PIECE);

	return n > 0 ? n : n < 0 ? -errno : -EPIPE;	/* it was cut */
}

/* Sends what is left of the answers. False: the client does not take it. */
static bool drain(struct conn *c)
{
	utime_ns until = uafter((o_time + c->c_left / RATE) * UTIME_S);
	ssize_t n = 0;

	if (c->c_out != NULL) {
		n = u_write_all(c->c_fd, c->c_out->r_bytes, c->c_out->r_nr,
				until) - c->c_out->r_nr;
		free(c->c_out);
		c->c_out = NULL;
	}
	while (n == 0 && c->c_left > 0) {
		n = send_piece(c);
		if (n > 0)
			c->c_left -= n;
		n = n > 0 ? 0 : n != -EAGAIN ? n :
			u_wait_fd(c->c_fd, UWRITE, until);
	}
	if (c->c_file >= 0)
		close(c->c_file);
	c->c_file = -1;
	return n == 0;
}

/* Waits for a request, or the rest of a request. False: none comes. */
static bool await(struct conn *c)
{
	bool idle = c->c_in == NULL && c->c_skip == 0;
	int rc;

	if (c->c_more)
		return true;
	__atomic_store_n(&slot[c->c_fd].s_idle, idle, __ATOMIC_RELAXED);
	rc = u_wait_fd(c->c_fd, UREAD, idle ? uafter(o_idle * UTIME_S) :
		       c->c_until);
	__atomic_store_n(&slot[c->c_fd].s_idle, 0, __ATOMIC_RELAXED);
	return rc == 0 ||
		(rc == -ETIMEDOUT && c->c_in != NULL && late(c));
}

static NOINLINE ssize_t drop(int fd)
{
	char buf[4096];
	ssize_t n = u_read(fd, buf, sizeof buf, UNOW);

	return n == -EAGAIN ? 1 : n;
}

/*
 * Lets the client read the last answer. A close while bytes come would reset the
 * connection, and the answer could be lost.
 */
static void linger(int fd)
{
	utime_ns until = uafter(LINGER * UTIME_S);
	int i = 0;

	(void)shutdown(fd, SHUT_WR);
	while (i++ < 256 && u_wait_fd(fd, UREAD, until) == 0 && drop(fd) > 0)
		;
}

void serve(int fd, void *arg)
{
	struct conn c = { .c_fd = fd, .c_file = -1 };

	(void)arg;
	count_connection(1);
	while (await(&c) && answer(&c) && ((c.c_out == NULL && c.c_left == 0)
					   || drain(&c)) && !c.c_close)
		;
	if (c.c_linger)
		linger(fd);
	if (c.c_file >= 0)
		close(c.c_file);
	free(c.c_in);
	free(c.c_out);
	count_connection(-1);
}

void close_idle(void)
{
	int fd;

	for (fd = 0; fd < CONNS; fd++)
		if (__atomic_load_n(&slot[fd].s_idle, __ATOMIC_RELAXED))
			(void)shutdown(fd, SHUT_RD);
}
