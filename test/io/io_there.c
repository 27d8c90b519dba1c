/* SPDX-License-Identifier: MIT */
/* io_there: a read never waits for what is there; no wait ends without cause. */
/* VARIANTS: RR LL WS */

/*
 * All kinds of descriptors take the same number in turn, by close(), u_close()
 * or dup2(), and copies of the old files live on and still report. Bytes that
 * poll() shows are read at once, also after a short read: no other thread runs
 * in between. Bytes that come later end a wait, which has no other end here, so
 * that a lost event hangs. Bytes in an old file end no wait for its number.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "either.h"
#include "uio.h"
#include "unet.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define NUMBER	200		/* all descriptors that are waited for */
#define TURNS	300		/* or STORM in the environment */

/* d_in is read, and d_out is what put() needs. */
struct both {
	int d_in;
	int d_out;
	int d_kind;
};

struct kind {
	const char *k_name;
	void      (*k_open)(struct both *d);
	void      (*k_put)(const struct both *d);
	bool        k_no_read;	/* read() does not take what is there */
};

static long ran;		/* turns of watches() */
static bool over;
static unsigned seed;
static char file[] = "/tmp/s_io_there.XXXXXX";

static int any(void)
{
	return (int)(check_random(&seed) >> 1);
}

static void put_bytes(const struct both *d)
{
	CHECK_IS(write(d->d_out, "abc", 3), 3);
}

static void opens(struct both *d, const int fd[2])
{
	d->d_in  = fd[0];
	d->d_out = fd[1];
}

static void open_pipe(struct both *d)
{
	int fd[2];

	CHECK_IS(pipe(fd), 0);
	opens(d, fd);
}

static void open_packets(struct both *d)
{
	int fd[2];

	CHECK_IS(pipe2(fd, O_DIRECT), 0);
	opens(d, fd);
}

static void open_stream(struct both *d)
{
	int fd[2];

	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	opens(d, fd);
}

static void open_datagrams(struct both *d)
{
	int fd[2];

	CHECK_IS(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), 0);
	opens(d, fd);
}

static void put_descriptor(const struct both *d)
{
	CHECK_IS(u_send_fd(d->d_out, d->d_out, UNEVER), 0);
}

/* Bytes of a sender that is told are read apart from others. */
static void open_told(struct both *d)
{
	int on = 1;

	open_stream(d);
	CHECK_IS(setsockopt(d->d_in, SOL_SOCKET, SO_PASSCRED, &on, sizeof on),
		 0);
}

static void open_tcp(struct both *d)
{
	int at = u_listen_tcp("127.0.0.1", 0, 0, 0);

	CHECK_THAT(at, >=, 0);
	d->d_out = u_dial_tcp("127.0.0.1", u_port(at), UNEVER);
	d->d_in  = u_accept(at, NULL, NULL, 0, UNEVER);
	CHECK(d->d_out >= 0 && d->d_in >= 0 && close(at) == 0);
}

static void put_urgent(const struct both *d)
{
	CHECK_IS(send(d->d_out, "ab", 2, 0), 2);
	CHECK_IS(send(d->d_out, "!", 1, MSG_OOB), 1);
	CHECK_IS(send(d->d_out, "cd", 2, 0), 2);
}

static void open_terminal(struct both *d)
{
	d->d_out = posix_openpt(O_RDWR | O_NOCTTY);
	CHECK(d->d_out >= 0 && grantpt(d->d_out) == 0 &&
	      unlockpt(d->d_out) == 0);
	d->d_in = open(ptsname(d->d_out), O_RDWR | O_NOCTTY);
	CHECK_THAT(d->d_in, >=, 0);
}

static void put_line(const struct both *d)
{
	char echo[64];

	CHECK_IS(write(d->d_out, "a\nb\n", 4), 4);
	CHECK_IS(fcntl(d->d_out, F_SETFL, O_NONBLOCK), 0);
	while (read(d->d_out, echo, sizeof echo) > 0)
		;
}

static void open_counter(struct both *d)
{
	d->d_in = eventfd(0, EFD_SEMAPHORE);
	CHECK_THAT(d->d_in, >=, 0);
	d->d_out = dup(d->d_in);
}

static void put_count(const struct both *d)
{
	CHECK_IS(eventfd_write(d->d_out, 2), 0);
}

static void open_timer(struct both *d)
{
	d->d_in = timerfd_create(CLOCK_MONOTONIC, 0);
	CHECK_THAT(d->d_in, >=, 0);
	d->d_out = dup(d->d_in);
}

static void put_time(const struct both *d)
{
	struct itimerspec t = { { 0, 0 }, { 0, 1 } };

	CHECK_IS(timerfd_settime(d->d_out, 0, &t, NULL), 0);
}

static void open_signals(struct both *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	d->d_in = signalfd(-1, &set, 0);
	CHECK_THAT(d->d_in, >=, 0);
	d->d_out = dup(d->d_in);
}

static void put_signal(const struct both *d)
{
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
}

static void open_watch(struct both *d)
{
	d->d_in  = inotify_init1(0);
	d->d_out = open(file, O_WRONLY | O_APPEND);
	CHECK(d->d_in >= 0 && d->d_out >= 0);
	CHECK_THAT(inotify_add_watch(d->d_in, file, IN_MODIFY), >=, 0);
}

/* An epoll with a counter. */
static void open_epoll(struct both *d)
{
	struct epoll_event e = { .events = EPOLLIN };

	d->d_in  = epoll_create1(0);
	d->d_out = eventfd(0, EFD_NONBLOCK);
	CHECK(d->d_in >= 0 && d->d_out >= 0);
	CHECK_IS(epoll_ctl(d->d_in, EPOLL_CTL_ADD, d->d_out, &e), 0);
}

static const struct kind kinds[] = {
	{ "pipe", open_pipe, put_bytes, false },
	{ "packets in a pipe", open_packets, put_bytes, false },
	{ "stream", open_stream, put_bytes, false },
	{ "descriptors", open_stream, put_descriptor, false },
	{ "senders", open_told, put_bytes, false },
	{ "datagrams", open_datagrams, put_bytes, false },
	{ "TCP", open_tcp, put_bytes, false },
	{ "urgent bytes", open_tcp, put_urgent, false },
	{ "terminal", open_terminal, put_line, false },
	{ "counter", open_counter, put_count, false },
	{ "timer", open_timer, put_time, false },
	{ "signals", open_signals, put_signal, false },
	{ "watch", open_watch, put_bytes, false },
	{ "epoll in epoll", open_epoll, put_count, true },
};

static bool is_there(void)
{
	struct pollfd f = { .fd = NUMBER, .events = POLLIN };

	return poll(&f, 1, 0) > 0;
}

static void put(const struct both *d)
{
	kinds[d->d_kind].k_put(d);
}

static void at_once(const struct both *d)
{
	put(d);
	while (!is_there())
		;
}

static void late(void *d)
{
	int i;

	for (i = 0; i < 5; i++)
		yield();
	put(d);
}

/* Runs whenever the other thread waits or gives way. */
static void watches(void *arg)
{
	while (!over) {
		ran++;
		yield();
	}
}

/* Takes a part. Nothing else runs meanwhile. */
static void take(const struct both *d)
{
	long before = ran;
	eventfd_t count;
	char b[512];

	/* It does not give way because it is late: see upoll_enter(). */
	ustack_self()->u_sched->s_waits->wb_looked = 0;
	if (kinds[d->d_kind].k_no_read)
		CHECK_IS(eventfd_read(d->d_out, &count), 0);
	else
		CHECK_THAT(u_read(NUMBER, b, sizeof b, UNEVER), >, 0);
	CHECK_IS(ran, before);
}

static void take_all(const struct both *d)
{
	while (is_there())
		take(d);
}

/* What comes later ends a wait. */
static void comes_late(struct both *d)
{
	char b[512];

	make(0, late, d);
	if (kinds[d->d_kind].k_no_read)
		CHECK_IS(u_wait_fd(NUMBER, UREAD, UNEVER), 0);
	else
		CHECK_THAT(u_read(NUMBER, b, sizeof b, UNEVER), >, 0);
	yield();
	take_all(d);
}

static void stays_empty(void)
{
	CHECK(!is_there());
	CHECK_IS(u_wait_fd(NUMBER, UREAD, uafter(UTIME_MS)), -ETIMEDOUT);
}

static void new_file(struct both *d, int how)
{
	d->d_kind = any() % COUNT(kinds);
	doing("%s", kinds[d->d_kind].k_name);
	if (how == 0)
		(void)u_close(NUMBER);
	else if (how == 1)
		(void)close(NUMBER);
	kinds[d->d_kind].k_open(d);
	CHECK_IS(dup2(d->d_in, NUMBER), NUMBER);
	CHECK_IS(u_close(d->d_in), 0);
	CHECK_IS(fcntl(NUMBER, F_SETFL, O_NONBLOCK), 0);
}

/* Whether what old has would be told of any other file, too. */
static bool is_shared(const struct both *old, const struct both *d)
{
	return old->d_kind == d->d_kind ||
		kinds[old->d_kind].k_put == put_signal;
}

static void uses(struct both *d)
{
	int i;

	for (i = any() % 3; i >= 0; i--) {
		comes_late(d);
		at_once(d);
		at_once(d);
		take(d);
		CHECK(!is_there() || u_wait_fd(NUMBER, UREAD, UNEVER) == 0);
		take_all(d);
		stays_empty();
	}
}

static void reuses(void *arg)
{
	const char *env = getenv("STORM");
	int turns = env != NULL ? atoi(env) : TURNS;
	static struct both d;	/* late() reads it */
	struct both old;
	int i, copy;

	new_file(&d, 2);
	for (i = 0; i < turns; i++) {
		uses(&d);
		old  = d;
		copy = dup(NUMBER);
		CHECK_THAT(copy, >=, 0);
		new_file(&d, any() % 3);
		if (!is_shared(&old, &d)) {
			put(&old);
			stays_empty();
			comes_late(&d);
			put(&old);
			stays_empty();
		}
		CHECK(close(copy) == 0 && u_close(old.d_out) == 0);
	}
	CHECK(u_close(NUMBER) == 0 && u_close(d.d_out) == 0);
	over = true;
}

/* Two processors. */

static int  ends[2];
static long blocked;

static void waits(void *arg)
{
	char c;

	CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
}

/* Runs after waits(), on the same processor. */
static void has_blocked(void *arg)
{
	int i;

	for (i = 0; i < 5; i++)
		yield();
	add(&blocked, 1);
}

/* Arms at its own poller in between, after the first arming. */
static void gives_up(void *arg)
{
	yield_until(&blocked, 1);
	CHECK_IS(u_wait_fd(ends[0], UREAD, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(write(ends[1], "c", 1), 1);
}

static void armed_at_both(void)
{
	doing("two pollers");
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	begin(2, 0);
	make_pinned(0, waits, NULL);
	make_pinned(0, has_blocked, NULL);
	make_pinned(1, gives_up, NULL);
	start_and_finish();
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

int main(int argc, char **argv)
{
	sigset_t set;
	int fd;

	check_start(argc, argv);
	seed = check_seed;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	fd = mkstemp(file);
	CHECK(fd >= 0 && close(fd) == 0);
	begin(1, 0);
	make(0, watches, NULL);
	make(0, reuses, NULL);
	start_and_finish();
	CHECK_IS(unlink(file), 0);
	armed_at_both();
	return 0;
}
