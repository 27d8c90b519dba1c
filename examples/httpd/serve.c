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
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NOINLINE	__attribute__((noinline))

enum {
	OUTPUT = 16384,
	REPLY  = 2048,			/* the longest answer but a file */
	RATE   = 16 * 1024,		/* bytes a second, in each -t: see pace() */
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
	int      c_goal;		/* what c_skip must be by then */
	bool     c_close, c_linger;
	/* In the frame of answer(). */
	char    *c_at, *c_end;		/* what has come, and is not answered */
	char    *c_out, *c_to;		/* answers */
};

/* How fast a client takes what is sent to it. All is 0 before it has to wait. */
struct pace {
	utime_ns p_until;		/* the next look */
	off_t    p_left;		/* bytes that it had not taken at the last */
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
 * Returns whether a part of a path is "..". Clients resolve such parts before they
 * ask, and a proxy in front may have judged the path by how it begins.
 */
static bool climbs(const char *path)
{
	for (; (path = strstr(path, "/..")) != NULL; path++)
		if (path[3] == '/' || path[3] == 0)
			return true;
	return false;
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
	else if (climbs(path))
		reply(c, 404, NULL);
	else
		reply_file(c, path);
}

static bool stops(void)
{
	return __atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

/*
 * Returns whether the client asks before it sends a body, of which no byte has
 * come. No answer depends on a body, so the client is not told to go on. It may
 * send the body or not. As this leaves open where the next request would begin,
 * the connection ends after the answer (RFC 9110, 10.1.1).
 */
static bool asks_first(const struct http *h, bool has_more)
{
	return h->h_expects && h->h_minor && h->h_body > 0 && !has_more;
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
	c->c_until = nr > 0 && c->c_skip <= c->c_goal ? 0 : c->c_until;
	if (c->c_skip > 0 || c->c_at == c->c_end)
		return false;
	rc = http_parse(h, c->c_at, c->c_end - c->c_at);
	if (rc < 0 || (rc > 0 && h->h_body > number[BODY]))
		return fail(c, rc < 0 ? -rc : 413);
	if (rc == 0)
		return false;
	c->c_close = h->h_close || !h->h_minor ||
		asks_first(h, c->c_at + rc < c->c_end);
	if (!c->c_close && stops() && c->c_at + rc + h->h_body >= c->c_end)
		c->c_close = c->c_linger = true;
	respond(c);
	c->c_at += rc;
	c->c_skip  = h->h_body;
	c->c_until = 0;
	memset(h, 0, sizeof *h);
	return !c->c_close;
}

/*
 * Waits until the client may take more; left bytes are still to be sent. False:
 * it is too slow. In each -t seconds it has to take RATE * -t bytes. Such bytes
 * were acknowledged by its kernel. To count what this kernel takes would not do:
 * it takes more only when a third of its buffer is free, which may be megabytes.
 */
static bool pace(const struct conn *c, struct pace *p, off_t left)
{
	bool first = p->p_until == 0;
	int rc = first ? -ETIMEDOUT : u_wait_fd(c->c_fd, UWRITE, p->p_until);
	int queued = 0;
	off_t before = p->p_left;

	if (rc != -ETIMEDOUT)
		return rc == 0;
	(void)ioctl(c->c_fd, TIOCOUTQ, &queued);
	p->p_left  = left + queued;
	p->p_until = uafter(number[TIME] * UTIME_S);
	return first || before - p->p_left >= RATE * number[TIME];
}

/* Sends the answers. False: the client does not take them. */
static bool flush(struct conn *c)
{
	int flags = c->c_left > 0 ? MSG_MORE : 0;
	struct pace p = { 0, 0 };
	char *at = c->c_out;
	ssize_t n = 0;

	for (; n >= 0 && at < c->c_to; at += n) {
		n = u_send(c->c_fd, at, c->c_to - at, flags, UNOW);
		if (n == -EAGAIN && pace(c, &p, c->c_to - at))
			n = 0;
	}
	c->c_to = c->c_out;
	return n >= 0;
}

/*
 * Gives -t seconds for a head, or a body. Of a long body RATE * -t bytes must come
 * by then, so a client that sends a byte now and then is not waited for.
 */
static void start_period(struct conn *c)
{
	long goal = c->c_skip - RATE * number[TIME];

	c->c_goal  = goal > 0 ? goal : 0;
	c->c_until = uafter(number[TIME] * UTIME_S);
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
		start_period(c);
	c->c_linger |= c->c_close && (c->c_in_nr > 0 || c->c_skip > 0);
	if (c->c_in_nr > 0)
		c->c_in = malloc(c->c_in_nr);
	return sent && (c->c_in_nr == 0 ||
		(c->c_in != NULL && memcpy(c->c_in, c->c_at, c->c_in_nr)));
}

/* Sends a file. False: the client does not take it. */
static bool send_file(struct conn *c)
{
	struct pace p = { 0, 0 };
	ssize_t n = 1;

	while (n > 0 && c->c_left > 0) {
		n = u_sendfile(c->c_fd, c->c_file, &c->c_sent, c->c_left, UNOW);
		c->c_left -= n > 0 ? n : 0;
		if (n == -EAGAIN && pace(c, &p, c->c_left))
			n = 1;
	}
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
