/* SPDX-License-Identifier: MIT */
/* client.c: the client of the benchmark of web servers, which measures them. */

/*
 *	client WHAT ADDRESS PID[,PID...] CONNECTIONS REQUESTS PATH BYTES NUMBER
 *
 * The PIDs are the server, whose processor time is looked at. A request asks
 * for PATH, whose answer has BYTES bytes. WHAT:
 *
 * closed	a connection sends NUMBER requests after the answers to its last
 * open		request i is due i / NUMBER s after the start, at connection i
 *		modulo CONNECTIONS. It is sent then, also if answers are still
 *		missing. Its latency is counted from when it was due. The client
 *		never sleeps
 * open-sleep	the same, but the client sleeps until the next is due: for a
 *		server that has the client's cpu, too
 *
 * First, all connections are opened and get one answer each. This is not
 * measured. Each answer must have status 200, and the same bytes as the first.
 *
 * The answer is one line: WHAT, then pairs of a name and a number:
 *
 *	connections, messages	as they were asked; requests answered
 *	errors		requests that were not answered, connections that ended
 *			early or had a wrong answer, which ends them
 *	seconds		from the first request to the last answer
 *	cpu_us		the server's processor time, for a request
 *	p50_us, p99_us, p999_us, max_us		latency (open)
 *	late_99_us	by how much the client itself was late to send (open)
 *
 * The exit status is 0, or 1 if there were errors, 2 if the question is wrong,
 * and 77 if there are not enough descriptors.
 */
#include "../http.h"
#include "client.h"

struct client client;

enum { PIDS = 8, ROOM = 1 << 16, SPARE_FILES = 50, DEPTH = 64, REQUEST = 256,
       PART = 1024 };

/* A connection is open if c_fd >= 0. */
struct conn {
	int      c_fd;
	int      c_part;	/* bytes of c_text: the begin of a head */
	uint64_t c_due, c_sent;	/* bytes of requests */
	long     c_asked, c_answered;	/* requests */
	long     c_at;		/* in the body; < 0: before it */
	char     c_text[PART];
};

static struct conn *conns;
static int epoll;
static long pids[PIDS], pid_nr;
static long begun, answered;	/* requests */
static long bytes, depth = 1;
static uint32_t *latency, *late;	/* by request */
static char requests[DEPTH * REQUEST];	/* one request, repeated */
static size_t request_size;
static char *body;		/* of the first answer */
static long body_at;		/* bytes of it that have come */
static char room[ROOM];

static int64_t cpu_of_all(void)
{
	int64_t ns = 0;
	long i;

	for (i = 0; i < pid_nr; i++) {
		client.k_pid = pids[i];
		ns += cpu_of();
	}
	return ns;
}

static void fails(struct conn *c)
{
	client.k_errors++;
	close(c->c_fd);
	c->c_fd = -1;
}

/* Makes close() and exit() reset fd, which leaves no port in TIME_WAIT. */
static void reset_at_close(int fd)
{
	struct linger reset = { 1, 0 };

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0)
		io_die("SO_LINGER");
}

static void dial(struct conn *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	c->c_at = -1;
	c->c_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->c_fd < 0)
		io_die("socket");
	io_nodelay(c->c_fd, AF_INET);
	reset_at_close(c->c_fd);
	if (connect(c->c_fd, &client.k_at.a_any, client.k_len) != 0)
		io_die("connect");
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->c_fd, &e) != 0)
		io_die("epoll_ctl");
}

/* Sends what is due, as far as there is room. An answer makes room. */
static void push(struct conn *c)
{
	size_t from, n;
	ssize_t did;

	while (c->c_sent < c->c_due) {
		from = c->c_sent % request_size;
		n = c->c_due - c->c_sent;
		if (n > depth * request_size - from)
			n = depth * request_size - from;
		did = send(c->c_fd, requests + from, n,
			   MSG_DONTWAIT | MSG_NOSIGNAL);
		if (did < 0 && errno == EAGAIN)
			return;
		if (did < 0) {
			fails(c);
			return;
		}
		c->c_sent += did;
	}
}

static void ask(struct conn *c, long nr)
{
	c->c_asked += nr;
	c->c_due += nr * request_size;
	begun += nr;
	push(c);
}

/* Returns whether n bytes at a place of the body are right. */
static bool right(const char *text, long at, size_t n)
{
	if (at < body_at)
		return memcmp(text, body + at, n) == 0;
	memcpy(body + at, text, n);
	body_at = at + n;
	return true;
}

/*
 * Takes the head of an answer, or a part of its body. Returns how many bytes;
 * 0: the head is not complete; -1: it is wrong. *done: the answer is complete.
 */
static ssize_t take(struct conn *c, const char *text, size_t n, bool *done)
{
	struct http_head h;
	ssize_t took;

	if (c->c_at < 0) {
		took = http_head(&h, text, n);
		if (took <= 0)
			return took;
		if (h.h_status != 200 || h.h_length != bytes || h.h_close)
			return -1;
		c->c_at = 0;
	} else {
		took = n < (size_t)(bytes - c->c_at) ? (long)n :
			bytes - c->c_at;
		if (!right(text, c->c_at, took))
			return -1;
		c->c_at += took;
	}
	*done = c->c_at == bytes;
	if (*done)
		c->c_at = -1;
	return took;
}

/* Reads answers. Returns how many were completed; -1: the connection failed. */
static int read_answers(struct conn *c)
{
	size_t at = 0, n = c->c_part;
	ssize_t did;
	bool done;
	int nr = 0;

	memcpy(room, c->c_text, n);
	did = recv(c->c_fd, room + n, ROOM - n, MSG_DONTWAIT);
	if (did < 0 && errno == EAGAIN)
		return 0;
	if (did <= 0)
		return -1;
	for (n += did; at < n; at += did) {
		done = false;
		did = take(c, room + at, n - at, &done);
		if (did <= 0)
			break;
		nr += done;
	}
	if (did < 0 || n - at > PART)
		return -1;
	c->c_part = n - at;
	memcpy(c->c_text, room + at, c->c_part);
	c->c_answered += nr;
	return c->c_answered <= c->c_asked ? nr : -1;
}

static int wait_events(struct epoll_event *all, int64_t ns)
{
	struct timespec t = { ns / IO_S, ns % IO_S };
	int n = epoll_pwait2(epoll, all, IO_EVENTS, &t, NULL);

	if (n < 0 && errno != EINTR)
		io_die("epoll_pwait2");
	return n;
}

static bool all_done(void)
{
	return answered >= client.k_messages ||
		client.k_errors >= client.k_connections;
}

/* Serves answers until done(), or there is no more time. */
static void run(void (*event)(struct conn *, int), bool (*done)(void),
		int64_t (*sleep)(void))
{
	struct epoll_event all[IO_EVENTS];
	int64_t end = io_now() + CLIENT_PATIENCE * IO_S;
	struct conn *c;
	int i, n, nr;

	while (!done() && io_now() < end) {
		n = wait_events(all, sleep());
		for (i = 0; i < n; i++) {
			c = all[i].data.ptr;
			if (c->c_fd < 0)
				continue;
			nr = read_answers(c);
			if (nr < 0)
				fails(c);
			else if (nr > 0)
				event(c, nr);
		}
	}
}

static int64_t long_sleep(void)
{
	return IO_S;
}

/* closed */

static void closed_event(struct conn *c, int nr)
{
	answered += nr;
	if (c->c_answered == c->c_asked && begun < client.k_messages)
		ask(c, depth);
}

static bool opened(void)
{
	return answered >= client.k_messages || client.k_errors > 0;
}

/* Opens connections, IO_EVENTS at a time, with an answer for each. */
static void open_all(void)
{
	long wanted = client.k_messages;
	int i;

	for (i = 0; i < client.k_connections && client.k_errors == 0; i++) {
		dial(&conns[i]);
		client.k_messages = i + 1;
		ask(&conns[i], 1);
		if (i == 0 || client.k_messages % IO_EVENTS == 0 ||
		    client.k_messages == client.k_connections)
			run(closed_event, opened, long_sleep);
	}
	client.k_messages = wanted;
	for (i = 0; i < client.k_connections; i++)
		conns[i].c_asked = conns[i].c_answered = 0;
	begun = answered = 0;
}

static void closed(void)
{
	int i;

	for (i = 0; i < client.k_connections && begun < client.k_messages; i++)
		if (conns[i].c_fd >= 0)
			ask(&conns[i], depth);
	run(closed_event, all_done, long_sleep);
}

/* open */

static int64_t open_sleep(void)
{
	int64_t left = begun < client.k_messages ? due(begun) - io_now() : IO_S;

	return client.k_sleeps && left > 0 ? left : 0;
}

/* Sends all requests that are due. */
static bool open_done(void)
{
	struct conn *c;

	while (begun < client.k_messages && due(begun) <= io_now()) {
		c = &conns[begun % client.k_connections];
		late[begun] = since(due(begun));
		if (c->c_fd >= 0)
			ask(c, 1);
		else
			begun++;
	}
	return all_done();
}

static void open_event(struct conn *c, int nr)
{
	long place = c - conns, request;

	for (; nr > 0; nr--) {
		request = (c->c_answered - nr) * client.k_connections + place;
		latency[request] = since(due(request));
		answered++;
	}
	push(c);
}

static void open_loop(void)
{
	run(open_event, open_done, open_sleep);
}

static void answer(const char *what, double seconds, double cpu)
{
	long n = client.k_messages;

	client.k_errors += answered < n ? n - answered : 0;
	printf("%s connections %d messages %ld errors %ld seconds %.6f "
	       "cpu_us %.4f", what, client.k_connections, answered,
	       client.k_errors, seconds, cpu / 1000 / (answered + !answered));
	if (client.k_rate > 0) {
		printf(" p50_us %.2f p99_us %.2f p999_us %.2f max_us %.2f",
		       rank_us(latency, n, 0.50), rank_us(latency, n, 0.99),
		       rank_us(latency, n, 0.999), rank_us(latency, n, 1));
		printf(" late_99_us %.2f", rank_us(late, n, 0.99));
	}
	printf("\n");
}

static bool read_pids(const char *text)
{
	char *end;

	do {
		if (pid_nr == PIDS)
			return false;
		pids[pid_nr++] = strtol(text, &end, 10);
		if (end == text || pids[pid_nr - 1] <= 0)
			return false;
		text = end + 1;
	} while (*end == ',');
	return *end == 0;
}

static bool make_request(const char *path)
{
	int i, n = snprintf(requests, REQUEST,
			    "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);

	if (n >= REQUEST || *path != '/')
		return false;
	for (i = 1; i < DEPTH; i++)
		memcpy(requests + i * n, requests, n);
	request_size = n;
	return true;
}

static bool question(int argc, char **argv)
{
	long connections, number;
	bool open;

	if (argc != 9)
		return false;
	open = strncmp(argv[1], "open", 4) == 0;
	client.k_sleeps = strcmp(argv[1], "open") != 0;
	if ((strcmp(argv[1], "closed") != 0 && strcmp(argv[1], "open") != 0 &&
	     strcmp(argv[1], "open-sleep") != 0) ||
	    (client.k_len = io_address(&client.k_at, argv[2])) == 0 ||
	    !read_pids(argv[3]) ||
	    !io_number(argv[4], 1, 1L << 20, &connections) ||
	    !io_number(argv[5], 1, 100 * 1000 * 1000, &client.k_messages) ||
	    !make_request(argv[6]) || !io_number(argv[7], 1, IO_S, &bytes) ||
	    !io_number(argv[8], 1, open ? IO_S : DEPTH, &number))
		return false;
	client.k_connections = connections;
	*(open ? &client.k_rate : &depth) = number;
	/* The last requests of connections are whole. */
	client.k_messages += depth - 1 - (client.k_messages - 1) % depth;
	return true;
}

static void prepare(void)
{
	if (raise_files() < client.k_connections + SPARE_FILES) {
		fprintf(stderr, "client: %d connections: not enough files\n",
			client.k_connections);
		exit(IO_NONE);
	}
	alarm(3 * CLIENT_PATIENCE);
	conns = calloc(client.k_connections, sizeof *conns);
	latency = calloc(client.k_messages + 1, sizeof *latency);
	late = calloc(client.k_messages + 1, sizeof *late);
	body = malloc(bytes);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (conns == NULL || latency == NULL || late == NULL || body == NULL ||
	    epoll < 0)
		io_die("client");
}

int main(int argc, char **argv)
{
	int64_t cpu;

	if (!question(argc, argv)) {
		fprintf(stderr, "usage: client closed|open|open-sleep ADDRESS "
			"PID[,PID...] CONNECTIONS REQUESTS PATH BYTES NUMBER\n"
			);
		return IO_USAGE;
	}
	prepare();
	cpu_of_all();
	open_all();
	if (client.k_errors > 0) {
		fprintf(stderr, "client: a first answer is wrong, or missing\n");
		return IO_FAILED;
	}
	client.k_start = io_now();
	cpu = cpu_of_all();
	(client.k_rate > 0 ? open_loop : closed)();
	cpu = cpu_of_all() - cpu;
	answer(argv[1], (io_now() - client.k_start) / 1e9, cpu);
	return client.k_errors > 0 ? IO_FAILED : 0;
}
