/* SPDX-License-Identifier: MIT */
/* server.c: the server as call-backs of libuv, a peer. */

/*
 * WHAT IT IS ASKED: see io.h. A connection is a handle with call-backs. In modes
 * echo and once a buffer is allocated for each read, and goes with its write, as
 * libuv's guide does it; so an idle connection has none. In mode line a connection
 * has a buffer for lines, and a write copies what it sends.
 *
 * A write that the socket takes at once calls back from the next turn of the loop.
 * If a client does not read, libuv queues what was written, and reads on: the
 * client of this benchmark reads.
 *
 * A loop has one native thread, so with P > 1 there are P loops. Each listens at
 * the same socket, and accepts what it is the first to see: libuv cannot hand a
 * connection to another loop. So loops may have more or fewer connections. A
 * thread that computes is an idle handle of the first loop or of the next: it
 * computes for a slice between two looks at the sockets.
 */
#include "../io.h"

#include <signal.h>
#include <uv.h>

union stream {
	uv_stream_t s_any;
	uv_tcp_t    s_tcp;
	uv_pipe_t   s_pipe;
};

struct conn {
	union stream c_stream;		/* first */
	size_t       c_served;		/* bytes */
	size_t       c_nr;		/* of what was read, of mode line */
	char         c_bytes[];		/* IO_LINE of these */
};

/* What is written, and its bytes. */
struct write {
	uv_write_t w_req;		/* first */
	uv_buf_t   w_buf;
	char       w_bytes[];		/* in mode line */
};

static struct io_ask ask;

static void ok(const char *what, int rc)
{
	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", what, uv_strerror(rc));
		exit(IO_FAILED);
	}
}

static void *must(void *memory)
{
	if (memory == NULL)
		io_die("malloc");
	return memory;
}

static void closed(uv_handle_t *h)
{
	free(h);
}

static void drop(struct conn *c)
{
	if (!uv_is_closing((uv_handle_t *)c))
		uv_close((uv_handle_t *)c, closed);
}

static void room(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	(void)h, (void)size;
	*buf = uv_buf_init(must(malloc(IO_ROOM)), IO_ROOM);
}

static void echoed(uv_write_t *req, int status)
{
	struct write *w = (struct write *)req;
	struct conn *c = (struct conn *)req->handle;

	c->c_served += w->w_buf.len;
	if (status != 0 || (ask.a_once && c->c_served >= IO_MESSAGE))
		drop(c);
	free(w->w_buf.base);
	free(w);
}

static void echo(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = (struct conn *)s;
	struct write *w;

	if (n <= 0) {
		free(buf->base);
		if (n < 0)
			drop(c);
		return;
	}
	w = must(malloc(sizeof *w));
	w->w_buf = uv_buf_init(buf->base, n);
	ok("write", uv_write(&w->w_req, s, &w->w_buf, 1, echoed));
}

static void line_room(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct conn *c = (struct conn *)h;

	(void)size;
	*buf = uv_buf_init(c->c_bytes + c->c_nr, IO_LINE - c->c_nr);
}

static void answered(uv_write_t *req, int status)
{
	if (status != 0)
		drop((struct conn *)req->handle);
	free(req);
}

static void say(struct conn *c, const char *bytes, size_t n)
{
	struct write *w = must(malloc(sizeof *w + n));

	memcpy(w->w_bytes, bytes, n);
	w->w_buf = uv_buf_init(w->w_bytes, n);
	ok("write", uv_write(&w->w_req, &c->c_stream.s_any, &w->w_buf, 1,
			     answered));
}

/* A line that is too long leaves no room, which libuv tells as UV_ENOBUFS. */
static void talk(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = (struct conn *)s;
	char *at = c->c_bytes, *end;

	(void)buf;
	if (n < 0) {
		drop(c);
		return;
	}
	c->c_nr += n;
	while ((end = memchr(at, '\n', c->c_bytes + c->c_nr - at)) != NULL) {
		say(c, IO_OK, IO_OK_SIZE);
		say(c, at, end + 1 - at);
		at = end + 1;
	}
	c->c_nr -= at - c->c_bytes;
	memmove(c->c_bytes, at, c->c_nr);
}

static void init(uv_loop_t *loop, union stream *s)
{
	if (ask.a_at.a_any.sa_family == AF_UNIX)
		ok("pipe", uv_pipe_init(loop, &s->s_pipe, 0));
	else
		ok("tcp", uv_tcp_init(loop, &s->s_tcp));
}

static void connected(uv_stream_t *listener, int status)
{
	struct conn *c = must(malloc(sizeof *c + (ask.a_line ? IO_LINE : 0)));

	ok("connection", status);
	c->c_served = c->c_nr = 0;
	init(listener->loop, &c->c_stream);
	ok("accept", uv_accept(listener, &c->c_stream.s_any));
	if (ask.a_at.a_any.sa_family != AF_UNIX)
		ok("nodelay", uv_tcp_nodelay(&c->c_stream.s_tcp, 1));
	if (ask.a_line)
		ok("read", uv_read_start(&c->c_stream.s_any, line_room, talk));
	else
		ok("read", uv_read_start(&c->c_stream.s_any, room, echo));
}

static void compute(uv_idle_t *idle)
{
	(void)idle;
	io_compute();
}

/* Serves what loop number nr accepts. */
static void serve(int nr, int fd)
{
	uv_loop_t *loop = must(malloc(sizeof *loop));
	union stream *listener = must(malloc(sizeof *listener));
	uv_idle_t *idle = must(calloc(ask.a_k + 1, sizeof *idle));
	int i;

	ok("loop", uv_loop_init(loop));
	init(loop, listener);
	if (ask.a_at.a_any.sa_family == AF_UNIX)
		ok("open", uv_pipe_open(&listener->s_pipe, fd));
	else
		ok("open", uv_tcp_open(&listener->s_tcp, fd));
	ok("listen", uv_listen(&listener->s_any, IO_BACKLOG, connected));
	for (i = nr; i < ask.a_k; i += ask.a_p) {
		ok("idle", uv_idle_init(loop, &idle[i]));
		ok("idle", uv_idle_start(&idle[i], compute));
	}
	uv_run(loop, UV_RUN_DEFAULT);
}

static int listener;

static void further(void *nr)
{
	int fd = dup(listener);

	if (fd < 0)
		io_die("dup");
	serve((intptr_t)nr, fd);
}

int main(int argc, char **argv)
{
	uv_thread_t thread;
	intptr_t i;

	io_server(&ask, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	listener = io_listen(&ask);
	for (i = 1; i < ask.a_p; i++)
		ok("thread", uv_thread_create(&thread, further, (void *)i));
	io_ready(listener);
	serve(0, listener);
	return 0;
}
