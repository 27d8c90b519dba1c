/* SPDX-License-Identifier: MIT */
/* serve.c: a connection: requests in, answers out. */

/*
 * answer() reads what there is, answers all requests in it, and sends with a
 * single call. Its buffers are on its stack, and it only waits for a client
 * that does not take its answers. All else waits in serve(), whose frame is
 * small: an idle connection has no buffer, and a slow request has its bytes on
 * the heap.
 */
#include "httpd.h"

#include <ctype.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NOINLINE	__attribute__((noinline))

enum {
	OUTPUT = 16384,
	REPLY  = 2048,			/* the longest answer but a file */
	RATE   = 16 * 1024,		/* bytes a second, at least */
	LINGER = 2			/* seconds, but half of -g at most */
};

/* glibc 2.31 has no name for it. */
#if !defined(SYS_openat2)
#define SYS_openat2	437
#endif

/* Flags for openat2(2). */
enum { NO_LINKS = 4, BENEATH = 8 };

/* For answer(): read more; answer the rest; the request is too late. */
enum { READ, AGAIN, LATE };

struct conn {
	struct http c_http;		/* the request that comes */
	char    *c_in;			/* bytes of it, while it is slow */
	int      c_in_nr;
	int      c_skip;		/* bytes of a body that will come */
	int      c_fd, c_file;		/* the latter: to be sent, or -1 */
	off_t    c_sent, c_left;	/* of c_file */
	utime_ns c_until;		/* for the request; 0: none is set */
	bool     c_close, c_linger;
	/* In the frame of answer(). */
	char    *c_at, *c_end;		/* what has come, and is not answered */
	char    *c_out, *c_to;		/* answers */
};

/* Which descriptors wait for a request: a cache line for each (atomic). */
static int idle[FDS][16];

static const char *const reason[STATUSES] = {
	[200] = "OK", [400] = "Bad Request", [403] = "Forbidden",
	[404] = "Not Found", [405] = "Method Not Allowed",
	[408] = "Request Timeout", [411] = "Length Required",
	[413] = "Content Too Large", [414] = "URI Too Long",
	[431] = "Request Header Fields Too Large",
	[503] = "Service Unavailable", [505] = "HTTP Version Not Supported"
};

/* Out of line: its variables belong to the native thread. */
static NOINLINE const char *date(void)
{
	static __thread char s[64];
	static __thread time_t when;
	time_t now = time(NULL);
	struct tm tm;

	if (now != when)
		strftime(s, sizeof s, "%a, %d %b %Y %T GMT",
			 gmtime_r(&now, &tm));
	when = now;
	return s;
}

/* Puts the head of an answer with a body of len bytes, and notes it. */
static void put_head(struct conn *c, int status, const char *type, long len)
{
	struct http_span line = c->c_http.h_start;

	c->c_to += sprintf(c->c_to, "HTTP/1.1 %d %s\r\nServer: usched\r\n"
			   "Date: %s\r\nContent-Type: %s\r\n"
			   "Content-Length: %ld\r\n%s%s\r\n", status,
			   reason[status], date(), type, len,
			   status == 405 ? "Allow: GET, HEAD\r\n" : "",
			   c->c_close ? "Connection: close\r\n" : "");
	len = c->c_http.h_method == HTTP_ONLY_HEAD ? 0 : len;
	count(status, 1);
	count(BYTES, len);
	if (*text[LOG] != 0)
		log_answer(c->c_fd, status, len, c->c_at + line.s_at,
			   line.s_len);
}

/* Answers with a text; NULL: with the meaning of the status. */
static void reply(struct conn *c, int status, const char *body)
{
	body = body != NULL ? body : reason[status];
	put_head(c, status, "text/plain", strlen(body));
	if (c->c_http.h_method != HTTP_ONLY_HEAD)
		c->c_to = stpcpy(c->c_to, body);
}

/* Answers, and ends the connection. */
static bool fail(struct conn *c, int status)
{
	c->c_close = c->c_linger = true;
	reply(c, status, NULL);
	return false;
}

static void reply_metrics(struct conn *c)
{
	char s[REPLY], *to = s;
	int i;

	for (i = 0; i < STATUSES; i++)
		if (reason[i] != NULL)
			to += sprintf(to, "httpd_answers{status=\"%d\"} %ld\n",
				      i, count(i, 0));
	sprintf(to, "httpd_body_bytes %ld\nhttpd_connections %ld\n"
		"httpd_connections_accepted %ld\nhttpd_log_lines_lost %ld\n",
		count(BYTES, 0), count(CONNECTIONS, 0), count(ACCEPTED, 0),
		count(LOST, 0));
	reply(c, 200, s);
}

/* Decodes a path, and completes it. An empty path is "/". False: it is none. */
static bool decode(char *to, const char *p, int len)
{
	const char *end = p + len;
	char hex[3] = "";

	if (len == 0)
		*to++ = '/';

	for (; p < end; p++, to++) {
		*to = *p;
		if (*p == '%') {
			if (end - p < 3 || !isxdigit((unsigned char)p[1]) ||
			    !isxdigit((unsigned char)p[2]))
				return false;
			*to = strtol(memcpy(hex, p + 1, 2), NULL, 16);
			p += 2;
		}
		if (*to == 0)
			return false;
	}
	strcpy(to, to[-1] == '/' ? "index.html" : "");
	return true;
}

static const char *type_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot == NULL ? "application/octet-stream" :
		strcmp(dot, ".html") == 0 ? "text/html; charset=utf-8" :
		strcmp(dot, ".css") == 0 ? "text/css" :
		strcmp(dot, ".js") == 0 ? "text/javascript" :
		strcmp(dot, ".txt") == 0 ? "text/plain" :
		"application/octet-stream";
}

/*
 * Answers with a file, and leaves it open to be sent. The kernel lets no part
 * of the path be a link, or lead out of the root.
 */
static void reply_file(struct conn *c, const char *path)
{
	unsigned long long how[3] = {
		O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, BENEATH | NO_LINKS
	};
	struct stat st;

	c->c_file = syscall(SYS_openat2, root, path + strspn(path, "/"), how,
			    sizeof how);
	if (c->c_file < 0)
		reply(c, errno == EACCES ? 403 : errno == EMFILE ||
		      errno == ENFILE || errno == ENOMEM ? 503 : 404, NULL);
	else if (fstat(c->c_file, &st) != 0 || !S_ISREG(st.st_mode))
		reply(c, 404, NULL);
	else {
		put_head(c, 200, type_of(path), st.st_size);
		c->c_sent = 0;
		c->c_left = c->c_http.h_method == HTTP_GET ? st.st_size : 0;
	}
}

/* Out of line, as the path would be in each frame. */
static NOINLINE void respond(struct conn *c)
{
	struct http_span s = c->c_http.h_path;
	char path[HTTP_LINE + 16];

	if (c->c_http.h_method == HTTP_OTHER)
		reply(c, 405, NULL);
	else if (!decode(path, c->c_at + s.s_at, s.s_len))
		reply(c, 400, NULL);
	else if (strcmp(path, "/plaintext") == 0)
		reply(c, 200, "Hello, World!");
	else if (strcmp(path, "/metrics") == 0)
		reply_metrics(c);
	else
		reply_file(c, path);
}

static bool stops(void)
{
	return __atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

/*
 * Answers a request. False: it is not complete, or the connection ends. At a
 * stop the last answer says so; the client may have sent a request meanwhile,
 * and must be able to read this answer, so the connection lingers.
 */
static bool next(struct conn *c)
{
	struct http *h = &c->c_http;
	int nr = c->c_end - c->c_at, rc;

	nr = nr < c->c_skip ? nr : c->c_skip;
	c->c_at   += nr;
	c->c_skip -= nr;
	c->c_until = nr > 0 ? 0 : c->c_until;
	if (c->c_skip > 0 || c->c_at == c->c_end)
		return false;
	rc = http_parse(h, c->c_at, c->c_end - c->c_at);
	if (rc < 0 || (rc > 0 && h->h_body > number[BODY]))
		return fail(c, rc < 0 ? -rc : 413);
	if (rc == 0)
		return false;
	c->c_close = h->h_close || !h->h_minor;
	if (!c->c_close && stops() && c->c_at + rc + h->h_body >= c->c_end)
		c->c_close = c->c_linger = true;
	respond(c);
	c->c_at += rc;
	c->c_skip  = h->h_body;
	c->c_until = 0;
	memset(h, 0, sizeof *h);
	return !c->c_close;
}

/* Sends the answers. False: the client does not take them. */
static bool flush(struct conn *c)
{
	int flags = c->c_left > 0 ? MSG_MORE : 0;
	utime_ns until = uafter(number[TIME] * UTIME_S);
	char *at = c->c_out;
	ssize_t n = 0;

	for (; n >= 0 && at < c->c_to; at += n)
		n = u_send(c->c_fd, at, c->c_to - at, flags, until);
	c->c_to = c->c_out;
	return n >= 0;
}

/* Answers what has come, as far as the next file. False: the end. */
static NOINLINE bool answer(struct conn *c, int what)
{
	char in[HTTP_HEAD], out[OUTPUT];
	bool sent = true;
	ssize_t n = -EAGAIN;

	c->c_out = c->c_to = out;
	c->c_at  = in;
	c->c_end = in + c->c_in_nr;
	if (c->c_in != NULL)
		memcpy(in, c->c_in, c->c_in_nr);
	free(c->c_in);
	c->c_in = NULL;
	if (what == LATE)
		return fail(c, 408) || flush(c);
	if (what == READ)
		n = u_read(c->c_fd, c->c_end, in + HTTP_HEAD - c->c_end, UNOW);
	if (n <= 0 && n != -EAGAIN)
		return false;
	c->c_end += n > 0 ? n : 0;
	while (sent && next(c) && c->c_file < 0)
		sent = c->c_to <= out + OUTPUT - REPLY || flush(c);
	sent = sent && flush(c);
	c->c_in_nr = c->c_end - c->c_at;
	if (c->c_in_nr == 0 && c->c_skip == 0)
		c->c_until = 0;
	else if (c->c_until == 0)
		c->c_until = uafter(number[TIME] * UTIME_S);
	c->c_linger |= c->c_close && (c->c_in_nr > 0 || c->c_skip > 0);
	if (c->c_in_nr > 0)
		c->c_in = malloc(c->c_in_nr);
	return sent && (c->c_in_nr == 0 ||
		(c->c_in != NULL && memcpy(c->c_in, c->c_at, c->c_in_nr)));
}

/* Sends a file. False: the client does not take it. */
static bool send_file(struct conn *c)
{
	utime_ns until = uafter((number[TIME] + c->c_left / RATE) * UTIME_S);
	ssize_t n = 1;

	for (; n > 0 && c->c_left > 0; c->c_left -= n > 0 ? n : 0)
		n = u_sendfile(c->c_fd, c->c_file, &c->c_sent, c->c_left,
			       until);
	close(c->c_file);
	c->c_file = -1;
	return n > 0;					/* 0: it was cut */
}

/*
 * Waits for a request, or the rest of it, and answers. False: the end. At a stop
 * a request has a moment to begin, and close_idle() leaves it that.
 */
static bool await(struct conn *c)
{
	bool begun = c->c_until != 0, last = stops(), goes_on;
	int rc;

	__atomic_store_n(idle[c->c_fd], !begun && !last, __ATOMIC_RELAXED);
	rc = u_wait_fd(c->c_fd, UREAD, begun ? c->c_until : uafter(last ?
		       MOMENT : number[IDLE] * UTIME_S));
	__atomic_store_n(idle[c->c_fd], 0, __ATOMIC_RELAXED);
	goes_on = rc == 0 ? answer(c, READ) : rc == -ETIMEDOUT &&
		c->c_in != NULL && answer(c, LATE);
	while (goes_on && c->c_file >= 0)
		goes_on = send_file(c) && (c->c_close || answer(c, AGAIN));
	return goes_on && !c->c_close;
}

/*
 * Lets the client read the last answer. A close while bytes come would reset
 * the connection, and the answer could be lost.
 */
static void linger(int fd)
{
	utime_ns half = number[GRACE] * UTIME_S / 2;
	utime_ns until = uafter(stops() && half < LINGER * UTIME_S ? half :
				LINGER * UTIME_S);
	int i = 0;

	(void)shutdown(fd, SHUT_WR);
	while (i++ < 256 && u_recv(fd, NULL, HTTP_HEAD, MSG_TRUNC, until) > 0)
		;
}

void serve(int fd, void *arg)
{
	struct conn c = { .c_fd = fd, .c_file = -1 };

	(void)arg;
	count(CONNECTIONS, 1);
	count(ACCEPTED, 1);
	while (await(&c))
		;
	if (c.c_linger)
		linger(fd);
	if (c.c_file >= 0)
		close(c.c_file);
	free(c.c_in);
	count(CONNECTIONS, -1);
}

void close_idle(void)
{
	int fd;

	for (fd = 0; fd < descriptors(); fd++)
		if (__atomic_load_n(idle[fd], __ATOMIC_RELAXED))
			(void)shutdown(fd, SHUT_RD);
}
