/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* io_storm: connections that come and go at random never mix up their bytes,
 * and leave nothing behind. */

/*
 * Connections are pairs of unix sockets, or come over a listener: of a unix
 * socket, or of TCP over loopback. Each end has a scope, with a thread that
 * reads and a thread that writes, at any processor. A plan says how an end
 * behaves:
 *
 *	CLEAN	sends all, closes its half, and reads up to the end
 *	HASTY	the same, with deadlines that pass
 *	CANCEL	cancels its scope
 *	LATE	its scope has a deadline that passes
 *	CLOSE	calls u_close() while the reader and the writer wait
 *	RESET	cancels, and resets the connection (SO_LINGER)
 *	DROP	the reader leaves with an error, and leaves bytes behind
 *
 * Each byte is a function of the connection, the direction and the position. If
 * both ends are clean or hasty, all bytes come. All errors are errors that the
 * plan explains. Between calls threads yield, compute, sleep, or ask for a wake
 * by a thread of another processor. Some connections are reset before they are
 * accepted. In the end there are as many descriptors and native threads as
 * before. In ws some threads go on at another worker than where they waited. Half
 * of the ends are trusted.
 *
 * STORM in the environment: how many connections, 400 if it is not set.
 */
#include "either.h"
#include "lock.h"
#include "uio.h"
#include "unet.h"
#include "uscope.h"

#include <dirent.h>

#define QUICK	400
#define CALLERS	500		/* at most; each has a connection at a time */
#define SPARE	100		/* descriptors for all else */
#define SLOTS	8
#define LONG	200000		/* bytes */

enum kind { PAIR, UNIX, TCP, KINDS };
enum plan { CLEAN, HASTY, CANCEL, LATE, CLOSE, RESET, DROP, PLANS };

struct end {
	struct conn *e_conn;
	int          e_side;
	int          e_fd;
	enum plan    e_plan;
	struct ulock e_lock;		/* protects e_closed */
	bool         e_closed;
};

static struct conn {
	enum kind  c_kind;
	struct end c_end[2];
} *conns;

static long conn_nr;
static long next_conn;			/* atomic, as all that follow */
static long left;			/* ends */
static long over;
static long waited, moved;
static long lanes;			/* threads that have begun may move */
static thread *slots[SLOTS];		/* threads that ask for a wake */
static int  listener[KINDS];
static int  port;
static char path[64];

/* Plans, sizes and bytes, which follow from the seed. */

static unsigned id_of(const struct end *e)
{
	return (unsigned)(e->e_conn - conns);
}

static unsigned drawn(unsigned id, unsigned what)
{
	return check_hash(check_hash(check_seed, id), what);
}

static size_t size_of(const struct conn *c, int side)
{
	unsigned r = drawn((unsigned)(c - conns), 10 + side);
	const unsigned most[] = { 1, 100, 100, 100, 10000, 10000, 10000, LONG };

	return (r >> 3) % most[r % COUNT(most)];
}

static unsigned char byte_at(unsigned key, size_t at)
{
	return (unsigned char)((((unsigned)at ^ key) * 2654435761u) >> 17);
}

static void conn_init(struct conn *c, unsigned id)
{
	int i;

	memset(c, 0, sizeof *c);
	c->c_kind = (enum kind)(drawn(id, 1) % KINDS);
	for (i = 0; i < 2; i++) {
		c->c_end[i].e_conn = c;
		c->c_end[i].e_side = i;
		if (drawn(id, 2) % 2 == 0)
			c->c_end[i].e_plan =
				drawn(id, 3 + i) % 2 != 0 ? HASTY : CLEAN;
		else
			c->c_end[i].e_plan =
				(enum plan)(drawn(id, 3 + i) % PLANS);
	}
}

static bool all_comes(const struct end *e)
{
	return e->e_conn->c_end[0].e_plan <= HASTY &&
	       e->e_conn->c_end[1].e_plan <= HASTY;
}

/* Returns whether the plans of a connection explain the end of a stream. */
static bool explained(const struct end *e, ssize_t rc)
{
	switch (rc) {
	case 0: case -EPIPE: case -ECONNRESET:
		return !all_comes(e);
	case -ECANCELED:
		return e->e_plan != CLOSE && e->e_plan > HASTY;
	case -EBADF:
		return e->e_plan == CLOSE;
	default:
		return false;
	}
}

/* Between calls. */

/* Waits for a wake by a thread of any processor. */
static void ask_for_wake(unsigned *r)
{
	thread *none = NULL;

	if (__atomic_compare_exchange_n(&slots[check_random(r) % SLOTS], &none,
			(thread *)ustack_self(), false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		wait_one();
}

static void wakes(void *arg)
{
	thread *t;
	int i;

	while (!get(&over)) {
		for (i = 0; i < SLOTS; i++) {
			t = __atomic_exchange_n(&slots[i], NULL,
						__ATOMIC_SEQ_CST);
			if (t != NULL)
				SCHED(wake)(t);
		}
		CHECK_IS(u_sleep(uafter(100 * UTIME_US)), 0);
	}
}

static void compute(unsigned *r)
{
	unsigned nr = check_random(r) % 5000;

	while (nr-- > 0)
		(void)check_random(r);
}

static void dawdle(unsigned *r)
{
	switch (check_random(r) % 16) {
	case 0:
		yield();
		break;
	case 1:
		compute(r);
		break;
	case 2:
		ask_for_wake(r);
		break;
	case 3:
		(void)u_sleep(uafter(check_random(r) % 200 * UTIME_US));
		break;
	}
}

/* Calls. */

static int proc(void)
{
#if defined(WS)
	return ws_proc();
#else
	return 0;
#endif
}

static int wait_for(const struct end *e, int what, utime_ns until)
{
	int before = proc();
	int rc = u_wait_fd(e->e_fd, what, until);

	add(&waited, 1);
	if (proc() != before)
		add(&moved, 1);
	return rc;
}

/* Apart, since errno must not be used on both sides of a wait. */
static NOINLINE ssize_t try_now(int fd, int what, void *buf, size_t size)
{
	ssize_t n = what == UREAD ?
		recv(fd, buf, size, MSG_DONTWAIT) :
		send(fd, buf, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n >= 0 ? n : -errno;
}

/*
 * Reads or writes e, which may be closed meanwhile, and its number used again.
 * So the wait may be for another file, but bytes are taken only under e_lock.
 */
static ssize_t guarded(struct end *e, int what, void *buf, size_t size)
{
	bool closed;
	ssize_t n;
	int rc;

	do {
		rc = wait_for(e, what, uafter(20 * UTIME_MS));
		ulock_get(&e->e_lock);
		closed = e->e_closed;
		n = closed ? -EBADF : try_now(e->e_fd, what, buf, size);
		ulock_put(&e->e_lock);
		CHECK(rc == 0 || rc == -ETIMEDOUT || closed);
	} while (n == -EAGAIN);
	return n;
}

static utime_ns deadline(const struct end *e, unsigned *r)
{
	if (e->e_plan != HASTY)
		return UNEVER;
	return uafter(check_random(r) % 300 * UTIME_US);
}

/* Reads or writes. -ETIMEDOUT: of a hasty end, which tries again. */
static ssize_t transfer(struct end *e, int what, void *buf, size_t size,
			unsigned *r)
{
	int rc;

	if (e->e_plan == CLOSE)
		return guarded(e, what, buf, size);
	if (check_random(r) % 2 == 0) {
		rc = wait_for(e, what, deadline(e, r));
		if (rc != 0)
			return rc;
	}
	return what == UREAD ? u_read(e->e_fd, buf, size, deadline(e, r)) :
			       u_write(e->e_fd, buf, size, deadline(e, r));
}

static bool again(const struct end *e, ssize_t n)
{
	return n == -ETIMEDOUT && e->e_plan == HASTY;
}

static void check_bytes(unsigned key, size_t at, const unsigned char *buf,
			ssize_t nr)
{
	ssize_t i;

	for (i = 0; i < nr; i++)
		CHECK_IS(buf[i], byte_at(key, at + i));
}

static int reads(void *arg)
{
	struct end *e = arg;
	unsigned r = drawn(id_of(e), 20 + e->e_side);
	unsigned key = drawn(id_of(e), 30 + !e->e_side);
	size_t size = size_of(e->e_conn, !e->e_side);
	unsigned char buf[2000];
	size_t at = 0;
	ssize_t n;

	while ((n = transfer(e, UREAD, buf, 1 + check_random(&r) % sizeof buf,
			     &r)) > 0 || again(e, n)) {
		check_bytes(key, at, buf, n);
		at += n > 0 ? n : 0;
		if (e->e_plan == DROP && check_random(&r) % 8 == 0)
			return -EPROTO;
		dawdle(&r);
	}
	CHECK_THAT(at, <=, size);
	CHECK(explained(e, n) || (n == 0 && at == size));
	return 0;
}

/* Closes the half of e that sends. */
static void end_half(struct end *e)
{
	int rc = 0;

	ulock_get(&e->e_lock);
	if (!e->e_closed)
		rc = shutdown(e->e_fd, SHUT_WR);
	ulock_put(&e->e_lock);
	CHECK(rc == 0 || !all_comes(e));
}

static int writes(void *arg)
{
	struct end *e = arg;
	unsigned r = drawn(id_of(e), 40 + e->e_side);
	unsigned key = drawn(id_of(e), 30 + e->e_side);
	size_t size = size_of(e->e_conn, e->e_side);
	unsigned char buf[2000];
	size_t at = 0, nr, i;
	ssize_t n;

	while (at < size) {
		nr = 1 + check_random(&r) % sizeof buf;
		nr = nr < size - at ? nr : size - at;
		for (i = 0; i < nr; i++)
			buf[i] = byte_at(key, at + i);
		n = transfer(e, UWRITE, buf, nr, &r);
		if (n <= 0 && !again(e, n)) {
			CHECK(n < 0 && explained(e, n));
			return 0;
		}
		at += n > 0 ? n : 0;
		dawdle(&r);
	}
	end_half(e);
	return 0;
}

/* Ends. */

static int make_anywhere(struct usched *s, void (*f)(void *), void *arg)
{
	static long turn;

	return try_make((int)(add(&turn, 1) & 1023), f, arg) != NULL ?
		0 : -ENOMEM;
}

static void go(struct uscope *s, int (*f)(void *), struct end *e)
{
	int rc = uscope_go_by(s, f, e, make_anywhere);

	CHECK(rc == 0 || (rc == -ECANCELED && explained(e, rc)));
}

static void close_now(struct end *e)
{
	ulock_get(&e->e_lock);
	e->e_closed = true;
	ulock_put(&e->e_lock);
	CHECK_IS(u_close(e->e_fd), 0);
}

static void reset(int fd)
{
	const struct linger now = { 1, 0 };

	CHECK_IS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	CHECK_IS(u_close(fd), 0);
}

/* Disturbs the threads of e after a while, as its plan says. */
static void disturb(struct end *e, struct uscope *s, utime_ns until)
{
	if (e->e_plan != CANCEL && e->e_plan != CLOSE && e->e_plan != RESET)
		return;
	CHECK_IS(u_sleep(until), 0);
	if (e->e_plan == CLOSE)
		close_now(e);
	else
		uscope_cancel(s);
}

static void end_scope(const struct end *e, struct uscope **s)
{
	int rc = uscope_end(s);

	CHECK(rc == 0 || (e->e_plan == LATE && rc == -ETIMEDOUT) ||
	      (e->e_plan == DROP && rc == -EPROTO) ||
	      (explained(e, -ECANCELED) && rc == -ECANCELED));
}

static void run_end(struct end *e, int fd)
{
	utime_ns until = uafter(drawn(id_of(e), 50 + e->e_side) % 4000 *
				UTIME_US);
	struct uscope *s;

	e->e_fd = fd;
	CHECK(drawn(id_of(e), 60 + e->e_side) % 2 == 0 || u_trust(fd) == 0);
	CHECK_IS(uscope_begin(&s, e->e_plan == LATE ? until : UNEVER), 0);
	go(s, reads, e);
	go(s, writes, e);
	disturb(e, s, until);
	end_scope(e, &s);
	if (e->e_plan == RESET)
		reset(fd);
	else if (!e->e_closed)
		CHECK_IS(u_close(fd), 0);
	if (add(&left, -1) != 0)
		return;
	set(&over, 1);
	CHECK(u_close(listener[TCP]) == 0 && u_close(listener[UNIX]) == 0);
}

/* Connections. */

static void serves_pair(void *arg)
{
	struct end *e = arg;

	run_end(e, e->e_fd);
}

/* Serves a connection, which says its number unless it was reset. */
static void serves(void *arg)
{
	int fd = (int)(intptr_t)arg;
	unsigned id;
	ssize_t n = u_read_all(fd, &id, sizeof id, UNEVER);

	if (n != sizeof id) {
		CHECK(n == 0 || n == -ECONNRESET);
		CHECK_IS(u_close(fd), 0);
		return;
	}
	CHECK(id < conn_nr && u_write_all(fd, "", 1, UNEVER) == 1);
	run_end(&conns[id].c_end[1], fd);
}

static void accepts(void *arg)
{
	const int *from = arg;
	int fd;

	while ((fd = u_accept(*from, NULL, NULL, 0, UNEVER)) >= 0)
		make(fd, serves, (void *)(intptr_t)fd);
	CHECK_IS(fd, -EBADF);
}

static int dial(enum kind kind)
{
	int fd = kind == TCP ? u_dial_tcp("127.0.0.1", port, UNEVER) :
			       u_dial_unix(path, UNEVER);

	CHECK_THAT(fd, >=, 0);
	return fd;
}

static int introduced(enum kind kind, unsigned id)
{
	int fd = dial(kind);
	char c;

	CHECK_IS(u_write_all(fd, &id, sizeof id, UNEVER), sizeof id);
	CHECK_IS(u_read_all(fd, &c, 1, UNEVER), 1);
	return fd;
}

static void call(struct conn *c, unsigned id)
{
	int fd[2];

	if (c->c_kind == PAIR) {
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		c->c_end[1].e_fd = fd[1];
		make((int)(drawn(id, 60) % 1024), serves_pair, &c->c_end[1]);
	} else {
		if (drawn(id, 61) % 8 == 0)
			reset(dial(c->c_kind));
		fd[0] = introduced(c->c_kind, id);
	}
	run_end(&c->c_end[0], fd[0]);
}

static void calls(void *arg)
{
	long id;

	while ((id = add(&next_conn, 1) - 1) < conn_nr)
		call(&conns[id], (unsigned)id);
}

static void starts(void *arg)
{
	long callers = conn_nr < CALLERS ? conn_nr : CALLERS;
	int i;

	lanes = ustack_self()->u_lane != 0;
	for (i = 0; i < 4; i++) {
		make(i, accepts, &listener[i % 2 ? TCP : UNIX]);
		make(i, wakes, NULL);
	}
	for (i = 0; i < callers; i++)
		make(i, calls, NULL);
}

/* What is left behind. */

static long entries(const char *folder)
{
	DIR *d = opendir(folder);
	long nr = 0;

	while (d != NULL && readdir(d) != NULL)
		nr++;
	if (d != NULL)
		closedir(d);
	return nr;
}

static void listen_all(void)
{
	snprintf(path, sizeof path, "/tmp/s_io_storm.%d", (int)getpid());
	unlink(path);
	listener[UNIX] = u_listen_unix(path, 0);
	listener[TCP]  = u_listen_tcp("127.0.0.1", 0, 0, 0);
	port = u_port(listener[TCP]);
	CHECK(listener[UNIX] >= 0 && port > 0);
}

static void storm(int procs, long nr)
{
	long files = entries("/proc/self/fd");
	long natives = entries("/proc/self/task");
	long i;

	doing("%d processors", procs);
	conns = calloc(nr, sizeof *conns);
	CHECK(conns != NULL);
	for (i = 0; i < nr; i++)
		conn_init(&conns[i], (unsigned)i);
	conn_nr = nr;
	left = 2 * nr;
	next_conn = over = waited = moved = 0;
	listen_all();
	one_thread(procs, starts, NULL);
	CHECK_IS(unlink(path), 0);
	CHECK_IS(entries("/proc/self/fd"), files);
	while (entries("/proc/self/task") != natives)
		check_yield();			/* the last is ending */
	printf("%d processors: %ld connections, %ld of %ld waits moved\n",
	       procs, nr, moved, waited);
#if defined(WS)
	CHECK(procs == 1 || !lanes || moved > 0);
#endif
	free(conns);
}

static void more_descriptors(long nr)
{
	long callers = nr < CALLERS ? nr : CALLERS;
	struct rlimit most;

	CHECK_IS(getrlimit(RLIMIT_NOFILE, &most), 0);
	most.rlim_cur = most.rlim_max;
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &most), 0);
	if (most.rlim_cur < (rlim_t)(3 * callers + SPARE))
		check_skip("RLIMIT_NOFILE is too small");
}

static void *nothing(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	const char *env = getenv("STORM");
	long nr = env != NULL && atol(env) >= 4 ? atol(env) : QUICK;

	check_start(argc, argv);
	more_descriptors(nr / 2);
	native_join(native(nothing, NULL));	/* tools make theirs then */
	storm(1, nr / 4);
	storm(2, nr / 2);
	storm(3, nr - nr / 4 - nr / 2);
	return 0;
}
