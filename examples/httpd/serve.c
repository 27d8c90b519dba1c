/* SPDX-License-Identifier: MIT */
/* serve.c: a connection: requests in, answers out. */

/*
 * answer() reads what there is, answers all requests in it, and sends with a
 * single call. It has a buffer for answers on its stack, and never waits. serve()
 * waits, and its frame is small. So an idle connection has no buffer. A slow one
 * has the bytes of its request so far, or of answers that are left.
 */
#include "httpd.h"

#include <ctype.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define NOINLINE	__attribute__((noinline))

enum {
	SMALL  = 4096,			/* files that are read, not sent */
	REPLY  = SMALL + 512,		/* and their heads */
	INPUT  = HTTP_HEAD,
	OUTPUT = 16384,
	PIECE  = 1 << 20,		/* of a file */
	RATE   = 16 * 1024,		/* bytes a second, at least */
	LINGER = 2			/* seconds */
};

/* What has come. The request that is not answered begins at i_at. */
struct in {
	struct http i_http;
	int         i_at, i_nr;
	char        i_bytes[];
};

struct conn {
	struct in *c_in;		/* NULL: nothing */
	char      *c_out, *c_end;	/* answers, in the frame of answer() */
	char      *c_rest;		/* answers that the client has to take */
	int        c_rest_nr;
	int        c_fd, c_file;	/* the latter: to be sent, or -1 */
	off_t      c_sent, c_left;	/* of c_file */
	utime_ns   c_until;		/* for the request; 0: none is set */
	int        c_skip;		/* bytes of a body that will come */
	bool       c_more;		/* c_in may be complete */
	bool       c_asked, c_close, c_linger;
};

/* Descriptors that wait for their first request (2), or another (1) (atomic). */
static struct {
	int s_idle;
} __attribute__((aligned(64))) slot[DESCRIPTORS];

/* Answers. */

static void put(struct conn *c, const char *s)
{
	c->c_end = stpcpy(c->c_end, s);
}

static const char *date(char *to, time_t when)
{
	struct tm tm;

	strftime(to, 64, "%a, %d %b %Y %T GMT", gmtime_r(&when, &tm));
	return to;
}

/* Out of line: its variables belong to the native thread. */
static NOINLINE void put_date(struct conn *c)
{
	static __thread char s[64];
	static __thread time_t when;
	time_t now = time(NULL);

	put(c, now == when ? s : date(s, when = now));
}

/* Puts the head of an answer with a body of len bytes, and notes it. */
static void put_head(struct conn *c, int status, const char *type, long len,
		     const char *modified)
{
	const struct http *h = &c->c_in->i_http;

	put(c, "HTTP/1.1 ");
	put(c, reason(status));
	put(c, "\r\nServer: usched\r\nDate: ");
	put_date(c);
	put(c, status == 405 ? "\r\nAllow: GET, HEAD" : "");
	put(c, modified != NULL ? "\r\nLast-Modified: " : "");
	put(c, modified != NULL ? modified : "");
	if (status != 304)
		c->c_end += sprintf(c->c_end, "\r\nContent-Type: %s\r\n"
				    "Content-Length: %ld", type, len);
	put(c, c->c_close ? "\r\nConnection: close\r\n\r\n" :
	    h->h_minor ? "\r\n\r\n" : "\r\nConnection: keep-alive\r\n\r\n");
	note(c->c_fd, status, h->h_method == HTTP_ONLY_HEAD ? 0 : len,
	     c->c_in->i_bytes + c->c_in->i_at + h->h_start.s_at,
	     h->h_start.s_len);
}

static void reply(struct conn *c, int status, const char *body)
{
	put_head(c, status, "text/plain", strlen(body), NULL);
	if (c->c_in->i_http.h_method != HTTP_ONLY_HEAD)
		put(c, body);
}

/* Answers, and ends the connection. */
static bool fail(struct conn *c, int status)
{
	c->c_close = c->c_linger = true;
	reply(c, status, reason(status));
	return false;
}

static bool same(const struct in *i, struct http_span s, const char *word)
{
	return s.s_len == strlen(word) &&
		memcmp(i->i_bytes + i->i_at + s.s_at, word, s.s_len) == 0;
}

/* Files. */

/* Decodes a path. 0; -EINVAL: it is none. */
static int decode(char *to, const char *p, int len)
{
	char *first = to, hex[3] = "";
	const char *end = p + len;

	for (; p < end; p++, to++) {
		*to = *p;
		if (*p == '%') {
			if (end - p < 3 || !isxdigit((unsigned char)p[1]) ||
			    !isxdigit((unsigned char)p[2]))
				return -EINVAL;
			*to = strtol(memcpy(hex, p + 1, 2), NULL, 16);
			p += 2;
		}
		if (*to == 0)
			return -EINVAL;
	}
	strcpy(to, to == first ? "/index.html" :
	       to[-1] == '/' ? "index.html" : "");
	return 0;
}

/*
 * Opens a file below the root. No part of the path may be a link, or dot-dot: so
 * there is no way out. Returns a descriptor, or -errno.
 */
static int open_below(const char *path)
{
	char part[NAME_MAX + 1];
	int dir = root, fd, len;
	bool last;

	do {
		path += strspn(path, "/");
		len  = strcspn(path, "/");
		last = path[len] == 0;
		snprintf(part, sizeof part, "%.*s", len, path);
		fd = len > NAME_MAX || strcmp(part, "..") == 0 ? -ENOENT :
			openat(dir, part, O_NOFOLLOW | O_CLOEXEC | (last ?
				O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY));
		fd = fd == -1 ? -errno : fd;
		if (dir != root)
			close(dir);
		dir = fd;
		path += len;
	} while (fd >= 0 && !last);
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

/* Answers with a file, which it closes, or leaves open to be sent. */
static void reply_file(struct conn *c, int fd, const char *type)
{
	const struct http *h = &c->c_in->i_http;
	char modified[64];
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		reply(c, 404, reason(404));
	else if (same(c->c_in, h->h_since, date(modified, st.st_mtime)))
		put_head(c, 304, type, 0, modified);
	else {
		put_head(c, 200, type, st.st_size, modified);
		if (h->h_method == HTTP_GET && st.st_size > SMALL) {
			c->c_file = fd;
			c->c_sent = 0;
			c->c_left = st.st_size;
			return;
		}
		if (h->h_method == HTTP_GET) {
			ssize_t n = pread(fd, c->c_end, st.st_size, 0);

			c->c_close |= n != st.st_size;	/* it has changed */
			c->c_end += n > 0 ? n : 0;
		}
	}
	close(fd);
}

/* Out of line, as the path would be in each frame. */
static NOINLINE void find_file(struct conn *c)
{
	struct http_span s = c->c_in->i_http.h_path;
	char path[HTTP_LINE + 16];
	int rc = decode(path, c->c_in->i_bytes + c->c_in->i_at + s.s_at,
			s.s_len);

	if (rc == 0 && (rc = open_below(path)) >= 0)
		return reply_file(c, rc, type_of(path));
	rc = rc == -EINVAL ? 400 : rc == -EACCES ? 403 : rc == -EMFILE ||
		rc == -ENFILE || rc == -ENOMEM ? 503 : 404;
	reply(c, rc, reason(rc));
}

/* Requests. */

static void respond(struct conn *c)
{
	const struct http *h = &c->c_in->i_http;
	char s[2048];

	if (h->h_method == HTTP_OTHER)
		reply(c, 405, reason(405));
	else if (same(c->c_in, h->h_path, "/plaintext"))
		reply(c, 200, "Hello, World!");
	else if (same(c->c_in, h->h_path, "/metrics"))
		metrics(s), reply(c, 200, s);
	else
		find_file(c);
}

/* Answers a request. False: it is not complete, or the connection ends. */
static bool next(struct conn *c)
{
	struct in *i = c->c_in;
	struct http *h = &i->i_http;
	int nr = i->i_nr - i->i_at < c->c_skip ? i->i_nr - i->i_at : c->c_skip;
	int rc;

	i->i_at   += nr;
	c->c_skip -= nr;
	c->c_until = nr > 0 ? 0 : c->c_until;
	if (c->c_skip > 0 || i->i_at == i->i_nr)
		return false;
	rc = http_parse(h, i->i_bytes + i->i_at, i->i_nr - i->i_at);
	if (rc < 0 || (rc > 0 && h->h_body > number[BODY]))
		return fail(c, rc < 0 ? -rc : 413);
	if (rc == 0)
		return false;
	c->c_close = h->h_close || (!h->h_minor && !h->h_keep) ||
		(h->h_expect && h->h_body > 0) ||
		(__atomic_load_n(&stopping, __ATOMIC_RELAXED) &&
		 i->i_at + rc + h->h_body >= i->i_nr);
	respond(c);
	i->i_at  += rc;
	c->c_skip = h->h_body;
	c->c_until = 0;
	c->c_asked = true;
	memset(h, 0, sizeof *h);
	return true;
}

/* Sends the answers, or keeps what the client does not take now. */
static bool flush(struct conn *c)
{
	int nr = c->c_end - c->c_out;
	ssize_t n = nr == 0 ? 0 : u_send(c->c_fd, c->c_out, nr,
					 c->c_left > 0 ? MSG_MORE : 0, UNOW);

	n = n == -EAGAIN ? 0 : n;
	c->c_end = c->c_out;
	if (n < 0 || n == nr)
		return n == nr;
	c->c_rest_nr = nr - n;
	c->c_rest = malloc(nr - n);
	return c->c_rest != NULL && memcpy(c->c_rest, c->c_out + n, nr - n);
}

/* Returns whether there is room for an answer. */
static bool room(struct conn *c)
{
	if (c->c_close || c->c_left > 0)
		return false;
	return c->c_end <= c->c_out + OUTPUT - REPLY ||
		(flush(c) && c->c_rest == NULL);
}

/* Makes the buffer for input as large as it can be. False: no memory. */
static bool grow(struct conn *c)
{
	struct in *i = realloc(c->c_in, sizeof *i + INPUT);

	if (i == NULL)
		return false;
	if (c->c_in == NULL)
		memset(i, 0, sizeof *i);
	c->c_in = i;
	return true;
}

/* Makes it as small as it can be. False: no memory. */
static bool shrink(struct conn *c)
{
	struct in *i = c->c_in;
	int left = i->i_nr - i->i_at;

	if (left == 0 && c->c_skip == 0)
		c->c_until = 0;
	else if (c->c_until == 0)
		c->c_until = uafter(number[TIME] * UTIME_S);
	c->c_linger |= c->c_close && (left > 0 || c->c_skip > 0);
	memmove(i->i_bytes, i->i_bytes + i->i_at, left);
	i->i_at = 0;
	i->i_nr = left;
	c->c_in = left > 0 ? realloc(i, sizeof *i + left) : NULL;
	if (c->c_in == NULL)
		free(i);
	return left == 0 || c->c_in != NULL;
}

/* Reads, and answers; or answers that the request is late. False: the end. */
static NOINLINE bool answer(struct conn *c, bool late)
{
	char out[OUTPUT];
	ssize_t n;

	c->c_out = c->c_end = out;
	if (!grow(c))
		return false;
	if (late)
		(void)fail(c, 408);
	else if (!c->c_more) {
		n = u_read(c->c_fd, c->c_in->i_bytes + c->c_in->i_nr,
			   INPUT - c->c_in->i_nr, UNOW);
		if (n <= 0 && n != -EAGAIN)
			return false;
		c->c_in->i_nr += n > 0 ? n : 0;
	}
	while ((c->c_more = room(c)) && next(c))
		;
	c->c_more = !c->c_more;
	return shrink(c) && flush(c);
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
	utime_ns until = uafter((number[TIME] + c->c_left / RATE) * UTIME_S);
	ssize_t n = c->c_rest == NULL ? 0 : c->c_rest_nr -
		u_write_all(c->c_fd, c->c_rest, c->c_rest_nr, until);

	free(c->c_rest);
	c->c_rest = NULL;
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

/* Waits for a request, or the rest of it, and answers. False: the end. */
static bool await(struct conn *c)
{
	int idle = c->c_until != 0 ? 0 : c->c_asked ? 1 : 2;
	int rc;

	if (c->c_more)
		return answer(c, false);
	__atomic_store_n(&slot[c->c_fd].s_idle, idle, __ATOMIC_RELAXED);
	rc = u_wait_fd(c->c_fd, UREAD, !idle ? c->c_until :
		       uafter(number[IDLE] * UTIME_S));
	__atomic_store_n(&slot[c->c_fd].s_idle, 0, __ATOMIC_RELAXED);
	return rc == 0 ? answer(c, false) :
		rc == -ETIMEDOUT && c->c_in != NULL && answer(c, true);
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
	while (i++ < 256 && u_recv(fd, NULL, INPUT, MSG_TRUNC, until) > 0)
		;
}

void serve(int fd, void *arg)
{
	struct conn c = { .c_fd = fd, .c_file = -1 };

	(void)arg;
	note_connection(1);
	while (await(&c) && ((c.c_rest == NULL && c.c_left == 0) || drain(&c))
	       && !c.c_close)
		;
	if (c.c_linger)
		linger(fd);
	if (c.c_file >= 0)
		close(c.c_file);
	free(c.c_in);
	free(c.c_rest);
	note_connection(-1);
}

void close_idle(bool all)
{
	int fd, idle, end = 2 * number[CONNS] + RESERVE;

	for (fd = 0; fd < end; fd++) {
		idle = __atomic_load_n(&slot[fd].s_idle, __ATOMIC_RELAXED);
		if (idle == 1 || (idle == 2 && all))
			(void)shutdown(fd, SHUT_RD);
	}
}
