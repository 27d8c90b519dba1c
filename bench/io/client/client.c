/* SPDX-License-Identifier: MIT */
/* client.c: the client of the benchmark of I/O, which measures the server. */

/*
 *	client WHAT ADDRESS PID CONNECTIONS MESSAGES [RATE]
 *
 * PID is the server, whose processor time and memory are looked at. WHAT:
 *
 * closed	a connection sends its next message after the echo of its last
 * line		the same, of a server in mode line: an answer is IO_OK and an echo
 * open		message i is due i / RATE s after the start, at connection i
 *		modulo CONNECTIONS. It is sent then, also if echoes are still
 *		missing. Its latency is counted from when it was due. The client
 *		never sleeps
 * open-sleep	the same, but the client sleeps until the next is due: for a
 *		server that has the client's cpu, too
 * once		a message has a connection of its own, CONNECTIONS at a time
 * idle		connections are opened, and each gets one echo; MESSAGES is 0.
 *		IDLE_FIRST others are open before: neither they are counted, nor
 *		the memory to serve as many at once
 *
 * First, all connections are opened and get one echo each, but for once. This
 * is not measured. Messages are lines of IO_MESSAGE bytes. A byte depends on its
 * connection and its place, and each is checked.
 *
 * The answer is one line: WHAT, then pairs of a name and a number:
 *
 *	connections, messages	as they were asked; messages echoed
 *	errors		messages that were not echoed, connections that ended
 *			early or had a wrong byte, which ends them
 *	seconds		from the first message to the last echo
 *	cpu_us		the server's processor time, for a message
 *	p50_us, p99_us, max_us	latency (open)
 *	late_99_us	by how much the client itself was late to send (open)
 *	bytes		resident, of the server, for a connection (idle)
 *	kernel_bytes	slabs, for a connection with both ends (idle); or none
 *
 * The exit status is 0, or 1 if there were errors, 2 if the question is wrong,
 * and 77 if there are not enough descriptors.
 */
#include "client.h"


struct client client;

/* A connection is open if c_fd >= 0. All counts are bytes. */
struct conn {
	int      c_fd;
	unsigned c_salt;	/* bytes of two connections differ */
	uint64_t c_due;		/* should be sent */
	uint64_t c_sent;
	uint64_t c_got;
};

static struct conn *conns;
static int epoll;
static long begun, echoed;	/* messages */
static uint32_t *latency, *late;	/* by message */

enum { CHUNK = 4096, SPARE_FILES = 50, IDLE_FIRST = IO_EVENTS };

/*
 * What goes one way: LINES lines, again and again. A connection begins with the
 * line of its c_salt. Their letters repeat after LETTERS, and then the newlines
 * stand elsewhere.
 */
enum { LETTERS = 89, LINES = LETTERS };
struct text {
	unsigned      x_line;		/* bytes of each */
	unsigned char x_bytes[LINES * (IO_OK_SIZE + IO_MESSAGE) + CHUNK];
};
static struct text asked, answered;

static unsigned char letter(int place)
{
	return place % IO_MESSAGE == IO_MESSAGE - 1 ? '\n' :
		'!' + place % LETTERS;
}

/* Makes lines that begin with a head. */
static void make_text(struct text *x, const char *head)
{
	int i, at, len = strlen(head);

	x->x_line = len + IO_MESSAGE;
	for (i = 0; i < (int)sizeof x->x_bytes; i++) {
		at = i % x->x_line;
		x->x_bytes[i] = at < len ? head[at] : letter(
			i / x->x_line % LINES * IO_MESSAGE + at - len);
	}
}

static const unsigned char *bytes_of(struct text *x, struct conn *c,
				     uint64_t place)
{
	return &x->x_bytes[((uint64_t)c->c_salt * x->x_line + place) %
			   (LINES * x->x_line)];
}

static void drop(struct conn *c)
{
	close(c->c_fd);
	c->c_fd = -1;
}

static void fails(struct conn *c)
{
	client.k_errors++;
	drop(c);
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
	int family = client.k_at.a_any.sa_family;
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	c->c_due = c->c_sent = c->c_got = 0;
	c->c_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->c_fd < 0)
		io_die("socket");
	io_nodelay(c->c_fd, family);
	reset_at_close(c->c_fd);
	if (connect(c->c_fd, &client.k_at.a_any, client.k_len) != 0)
		io_die("connect");
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->c_fd, &e) != 0)
		io_die("epoll_ctl");
}

/* Sends what is due, as far as there is room. An echo makes room. */
static void push(struct conn *c)
{
	size_t n;
	ssize_t did;

	while (c->c_sent < c->c_due) {
		n = c->c_due - c->c_sent;
		if (n > CHUNK)
			n = CHUNK;
		did = send(c->c_fd, bytes_of(&asked, c, c->c_sent), n,
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

static void ask(struct conn *c)
{
	c->c_due += IO_MESSAGE;
	begun++;
	push(c);
}

/* Returns the most bytes that can have come. */
static uint64_t most(struct conn *c)
{
	return c->c_sent * answered.x_line / asked.x_line;
}

/* Takes an answer. Returns its length, 0 at the end, or less: there is none. */
static ssize_t take(struct conn *c)
{
	char room[CHUNK];
	ssize_t n = recv(c->c_fd, room, sizeof room, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return n;
	if (n < 0 || c->c_got + n > most(c) ||
	    memcmp(room, bytes_of(&answered, c, c->c_got), n) != 0) {
		fails(c);
		return -1;
	}
	c->c_got += n;
	return n;
}

static int wait_events(struct epoll_event *all, int64_t ns)
{
	struct timespec t = { ns / IO_S, ns % IO_S };
	int n = epoll_pwait2(epoll, all, IO_EVENTS, &t, NULL);

	if (n < 0 && errno != EINTR)
		io_die("epoll_pwait2");
	return n;
}

/* Serves events until done(), or there is no more time. */
static void run(void (*event)(struct conn *), bool (*done)(void),
		int64_t (*sleep)(void))
{
	struct epoll_event all[IO_EVENTS];
	int64_t end = io_now() + CLIENT_PATIENCE * IO_S;
	int i, n;

	while (!done()) {
		n = wait_events(all, sleep());
		for (i = 0; i < n; i++)
			if (((struct conn *)all[i].data.ptr)->c_fd >= 0)
				event(all[i].data.ptr);
		if (io_now() > end)
			break;
	}
}

static int64_t long_sleep(void)
{
	return IO_S;
}

/* closed */

static bool closed_done(void)
{
	return echoed >= client.k_messages ||
		client.k_errors >= client.k_connections;
}

/* Counts the messages that were completed with the last n bytes. */
static int completed(struct conn *c, ssize_t n)
{
	return c->c_got / answered.x_line - (c->c_got - n) / answered.x_line;
}

static void closed_event(struct conn *c)
{
	ssize_t n = take(c);

	if (n == 0)
		fails(c);
	if (n <= 0 || completed(c, n) == 0)
		return;
	echoed++;
	if (begun < client.k_messages)
		ask(c);
}

/*
 * Opens connections from first up to end, IO_EVENTS at a time, and waits for an
 * echo from each.
 */
static void open_some(int first, int end)
{
	long wanted = client.k_messages;
	int i;

	for (i = first; i < end; i++) {
		conns[i].c_salt = i;
		dial(&conns[i]);
		client.k_messages = i - first + 1;
		ask(&conns[i]);
		if (client.k_messages % IO_EVENTS == 0 || i + 1 == end)
			run(closed_event, closed_done, long_sleep);
	}
	client.k_messages = wanted;
	begun = echoed = 0;
}

static void closed(void)
{
	int i;

	for (i = 0; i < client.k_connections && begun < client.k_messages; i++)
		if (conns[i].c_fd >= 0)
			ask(&conns[i]);
	run(closed_event, closed_done, long_sleep);
}

/* open */

static int64_t open_sleep(void)
{
	int64_t left = begun < client.k_messages ? due(begun) - io_now() : IO_S;

	return client.k_sleeps && left > 0 ? left : 0;
}

/* Sends all messages that are due. */
static bool open_done(void)
{
	struct conn *c;

	while (begun < client.k_messages && due(begun) <= io_now()) {
		c = &conns[begun % client.k_connections];
		late[begun] = since(due(begun));
		if (c->c_fd >= 0)
			ask(c);
		else
			begun++;
	}
	return closed_done();
}

/* The first echo was that of open_some(). */
static void open_event(struct conn *c)
{
	long place = c - conns, nr;
	ssize_t n = take(c);
	int i;

	if (n == 0)
		fails(c);
	if (n <= 0)
		return;
	for (i = completed(c, n); i > 0; i--) {
		nr = c->c_got / answered.x_line - 1 - i;
		nr = nr * client.k_connections + place;
		latency[nr] = since(due(nr));
		echoed++;
	}
	push(c);
}

static void open_loop(void)
{
	run(open_event, open_done, open_sleep);
}

/* once */

static bool once_done(void)
{
	return echoed + client.k_errors >= client.k_messages;
}

static void once_next(struct conn *c)
{
	if (c->c_fd < 0 && begun < client.k_messages) {
		c->c_salt = begun;
		dial(c);
		ask(c);
	}
}

static void once_event(struct conn *c)
{
	ssize_t n = take(c);

	if (n == 0 && c->c_got == IO_MESSAGE) {
		echoed++;
		drop(c);
	} else if (n == 0) {
		fails(c);
	}
	once_next(c);
}

static void once(void)
{
	int i;

	for (i = 0; i < client.k_connections; i++) {
		conns[i].c_fd = -1;
		once_next(&conns[i]);
	}
	run(once_event, once_done, long_sleep);
}

/* idle */

static void idle(void)
{
	open_some(0, IDLE_FIRST);
	memory_start();
	open_some(IDLE_FIRST, IDLE_FIRST + client.k_connections);
	memory_end();
}

static void answer(const char *what, double seconds, double cpu)
{
	long n = client.k_messages > 0 ? client.k_messages : 1;

	client.k_errors += client.k_messages - echoed;
	printf("%s connections %d messages %ld errors %ld seconds %.6f", what,
	       client.k_connections, echoed, client.k_errors, seconds);
	if (client.k_messages > 0)
		printf(" cpu_us %.4f", cpu / 1000 / n);
	if (client.k_rate > 0) {
		printf(" p50_us %.2f p99_us %.2f max_us %.2f",
		       rank_us(latency, n, 0.50), rank_us(latency, n, 0.99),
		       rank_us(latency, n, 1));
		printf(" late_99_us %.2f", rank_us(late, n, 0.99));
	}
	if (client.k_messages == 0)
		memory_say();
	printf("\n");
}

struct what {
	const char *w_name;
	void      (*w_run)(void);
	const char *w_head;		/* of each answer */
	bool        w_opens, w_sleeps, w_rate, w_messages;
};

static const struct what table[] = {
	{ "closed",     closed,    "",    true,  true,  false, true  },
	{ "line",       closed,    IO_OK, true,  true,  false, true  },
	{ "open",       open_loop, "",    true,  false, true,  true  },
	{ "open-sleep", open_loop, "",    true,  true,  true,  true  },
	{ "once",       once,      "",    false, true,  false, true  },
	{ "idle",       idle,      "",    false, true,  false, false },
	{ NULL,         NULL,      NULL,  false, false, false, false }
};

static const struct what *question(int argc, char **argv)
{
	const struct what *w = table;
	long connections, pid;

	if (argc < 6)
		return NULL;
	while (w->w_name != NULL && strcmp(w->w_name, argv[1]) != 0)
		w++;
	if (w->w_name == NULL || argc != 6 + w->w_rate ||
	    (client.k_len = io_address(&client.k_at, argv[2])) == 0 ||
	    !io_number(argv[3], 1, 1L << 22, &pid) ||
	    !io_number(argv[4], 1, 1L << 20, &connections) ||
	    !io_number(argv[5], w->w_messages, w->w_messages ?
		       100 * 1000 * 1000 : 0, &client.k_messages) ||
	    (w->w_rate && !io_number(argv[6], 1, IO_S, &client.k_rate)))
		return NULL;
	client.k_pid = pid;
	client.k_connections = connections;
	client.k_sleeps = w->w_sleeps;
	return w;
}

static void prepare(const struct what *w)
{
	int all = client.k_connections + (client.k_messages > 0 ? 0 :
					  IDLE_FIRST);

	if (raise_files() < all + SPARE_FILES) {
		fprintf(stderr, "client: %d connections: not enough files\n",
			client.k_connections);
		exit(IO_NONE);
	}
	alarm(3 * CLIENT_PATIENCE);
	make_text(&asked, "");
	make_text(&answered, w->w_head);
	conns = calloc(all, sizeof *conns);
	latency = calloc(client.k_messages + 1, sizeof *latency);
	late = calloc(client.k_messages + 1, sizeof *late);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (conns == NULL || latency == NULL || late == NULL || epoll < 0)
		io_die("client");
}

int main(int argc, char **argv)
{
	const struct what *w = question(argc, argv);
	int64_t cpu;

	if (w == NULL) {
		fprintf(stderr, "usage: client closed|line|open|open-sleep|"
			"once|idle ADDRESS PID CONNECTIONS MESSAGES [RATE]\n");
		return IO_USAGE;
	}
	prepare(w);
	cpu_of();
	if (w->w_opens)
		open_some(0, client.k_connections);
	client.k_start = io_now();
	cpu = cpu_of();
	w->w_run();
	cpu = cpu_of() - cpu;
	answer(w->w_name, (io_now() - client.k_start) / 1e9, cpu);
	return client.k_errors > 0 ? IO_FAILED : 0;
}
