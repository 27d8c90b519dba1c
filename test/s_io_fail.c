/* SPDX-License-Identifier: MIT */
/* s_io_fail: without memory or descriptors a wait fails, and loses nothing. */
/* VARIANTS: RR LL */
/* LIBS: @test/fail.wrap -Wl,--wrap=epoll_ctl */

/*
 * The n-th call for memory fails, once or from then on, for each n (fail.h); so
 * does epoll_ctl(), which needs memory, too. A call that gets -ENOMEM has read
 * and written nothing, and can be repeated. Streams of bytes and datagrams
 * arrive whole and in order, polls and accepts wait again, and all memory and
 * descriptors are given back. A number beyond the others needs a table of its
 * own.
 *
 * While there is no room for a descriptor, the first wait of a processor returns
 * -EMFILE. So does u_accept(), and the connection stays in the backlog. Both
 * work as soon as there is room. Later waits need no descriptor.
 */
#include "either.h"
#include "fail.h"
#include "uio.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#if defined(__linux__)
#include <sys/epoll.h>

FAIL_WRAP(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *e)
{
	if (op != EPOLL_CTL_DEL && fail_now(FAIL_MEMORY))
		return fail_errno(FAIL_ANY(ENOMEM, ENOSPC));
	return __real_epoll_ctl(epoll, op, fd, e);
}
#endif

#define MESSAGES	6
#define BIG		300000
#define OTHERS		11		/* threads */
#define SOON		uafter(5 * UTIME_MS)
#define FAR		1024		/* numbers of a table: see upoll.c */

/* Whether a call has to be repeated. */
static bool again(ssize_t rc)
{
	if (rc != -ENOMEM && rc != -ENOSPC)
		return false;
	CHECK(fail_told() > 0);
	if (fail.f_all)
		fail_rest();
	return true;
}

static int next_fd(void)
{
	int fd = dup(2);

	CHECK(fd >= 0 && close(fd) == 0);
	return fd;
}

static void pair(int type, int s[2])
{
	CHECK(socketpair(AF_UNIX, type, 0, s) == 0);
}

/* What threads do. */

static int small[2], big[2], shared[2], polled[3][2], listener;
static struct sockaddr_un address;
static socklen_t address_len;
static long done;

static void must_read(int fd, char c)
{
	char b[8];
	ssize_t rc;

	while (again(rc = u_read(fd, b, sizeof b, UNEVER)))
		;
	CHECK(rc == 1 && b[0] == c);
}

static void must_write(int fd, char c)
{
	ssize_t rc;

	while (again(rc = u_write(fd, &c, 1, UNEVER)))
		;
	CHECK(rc == 1);
}

static void pings(void *arg)
{
	char i;

	(void)arg;
	for (i = 0; i < MESSAGES; i++) {
		must_write(small[0], i);
		must_read(small[0], i);
	}
	add(&done, 1);
}

static void pongs(void *arg)
{
	char i;

	(void)arg;
	for (i = 0; i < MESSAGES; i++) {
		must_read(small[1], i);
		must_write(small[1], i);
	}
	add(&done, 1);
}

static void writes_big(void *arg)
{
	static char b[BIG];
	size_t i, at = 0;
	ssize_t rc;

	(void)arg;
	for (i = 0; i < BIG; i++)
		b[i] = (char)check_hash((unsigned)i, 7);
	while (at < BIG) {
		rc = u_write_all(big[1], b + at, BIG - at, UNEVER);
		CHECK(rc > 0 || again(rc));
		at += (size_t)(rc > 0 ? rc : 0);
	}
	add(&done, 1);
}

static void reads_big(void *arg)
{
	static char b[BIG];
	size_t i, at = 0;
	ssize_t rc;

	(void)arg;
	while (at < BIG) {
		rc = u_read(big[0], b + at, BIG - at, UNEVER);
		CHECK(rc > 0 || again(rc));
		at += (size_t)(rc > 0 ? rc : 0);
	}
	for (i = 0; i < BIG; i++)
		CHECK(b[i] == (char)check_hash((unsigned)i, 7));
	add(&done, 1);
}

/* Two threads wait for the same datagrams. */
static void shares(void *arg)
{
	ssize_t rc;
	char b[8];
	int i;

	(void)arg;
	for (i = 0; i < MESSAGES; i++) {
		while (again(rc = u_read(shared[0], b, sizeof b, UNEVER)))
			;
		CHECK(rc == 1 && b[0] == 's');
	}
	add(&done, 1);
}

static void sends(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 2 * MESSAGES; i++) {
		must_write(shared[1], 's');
		yield();
	}
	add(&done, 1);
}

static void polls(void *arg)
{
	struct pollfd f[3];
	int i, rc;
	char c;

	(void)arg;
	for (i = 0; i < 3; i++)
		f[i] = (struct pollfd){ polled[i][0], POLLIN, 0 };
	for (i = 0; i < 3; i++) {
		while (again(rc = u_poll(f, 3, UNEVER)))
			;
		CHECK(rc == 1 && f[i].revents == POLLIN);
		CHECK(read(polled[i][0], &c, 1) == 1 && c == 'p');
		must_write(polled[0][0], 'q');
	}
	add(&done, 1);
}

static void is_polled(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		must_write(polled[i][1], 'p');
		must_read(polled[0][1], 'q');
	}
	add(&done, 1);
}

static void accepts(void *arg)
{
	int fd;

	(void)arg;
	while (again(fd = u_accept(listener, NULL, NULL, 0, UNEVER)))
		;
	CHECK(fd >= 0);
	must_read(fd, 'c');
	CHECK(u_close(fd) == 0);
	add(&done, 1);
}

static void connects(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int rc;

	(void)arg;
	do
		rc = u_connect(fd, (struct sockaddr *)&address, address_len,
			       UNEVER);
	while (again(rc));
	CHECK(rc == 0);
	must_write(fd, 'c');
	CHECK(u_close(fd) == 0);
	add(&done, 1);
}

#if !defined(__linux__) || defined(UIO_POLL)
/*
 * Ends the failures if all others wait. With poll() a poller without memory
 * tells no thread, but looks again and again.
 */
static void recovers(void *arg)
{
	int rc;

	(void)arg;
	while (get(&done) < OTHERS) {
		rc = u_sleep(uafter(10 * UTIME_MS));
		if (!again(rc) && fail_failed() > 0 && fail.f_all)
			fail_rest();
	}
}

#endif

/* All of them, while calls fail. */

static void listens(void)
{
	address_len = sizeof address;

	address.sun_family = AF_UNIX;
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t))
	      == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address,
			  &address_len) == 0);
	CHECK(listen(listener, 10) == 0);
}

static void opens(void)
{
	int i;

	pair(SOCK_STREAM, small);
	pair(SOCK_STREAM, big);
	pair(SOCK_DGRAM, shared);
	for (i = 0; i < 3; i++)
		pair(SOCK_DGRAM, polled[i]);
	listens();
}

static void close_two(const int s[2])
{
	CHECK(u_close(s[0]) == 0 && u_close(s[1]) == 0);
}

static void closes(void)
{
	int i;

	close_two(small);
	close_two(big);
	close_two(shared);
	for (i = 0; i < 3; i++)
		close_two(polled[i]);
	CHECK(u_close(listener) == 0);
}

/* False: the scheduler could not be made. */
static bool try_all(int p)
{
	static void (*const f[])(void *) = {
		pongs, pings, reads_big, writes_big, polls, is_polled,
		accepts, connects, shares, shares, sends,
#if !defined(__linux__) || defined(UIO_POLL)
		recovers,
#endif
	};
	int i, rc = SCHED(init)(p, 0);

	if (rc != 0)
		return false;
	done = 0;
	for (i = 0; i < COUNT(f); i++)
		while (try_make(i / 2 + i, f[i], NULL) == NULL)
			CHECK(again(-ENOMEM));
	while ((rc = SCHED(start)()) != 0) {
		CHECK(fail_told() > 0);
		fail_rest();
	}
	rc = SCHED(fini)();
	CHECK(rc == 0 && SCHED(stuck)() == 0 && done == OTHERS);
	return true;
}

static void run(int p)
{
	int fd = next_fd();

	opens();
	if (!try_all(p)) {
		CHECK(fail_told() > 0);
		fail_rest();
		CHECK(try_all(p));
	}
	closes();
	CHECK(next_fd() == fd);
}

/* Numbers whose table does not exist. */

static void far_away(void *arg)
{
	int s[2], fd, nr = 0;
	ssize_t rc;
	char c;
#if defined(USCHED_HARD)
	bool may_pass = true;		/* malloc() does not fail */
#else
	bool may_pass = false;
#endif

	(void)arg;
	pair(SOCK_STREAM, s);
	do {
		fail_rest();
		fd = dup2(s[0], ++nr * FAR);
		if (fd < 0)
			break;
		fail_arm(FAIL_MEMORY, 1, true);
		rc = u_read(fd, &c, 1, SOON);
		CHECK(rc == -ENOMEM || rc == -ENOSPC ||
		      (rc == -ETIMEDOUT && may_pass));
		fail_arm(FAIL_MEMORY, nr, false);
		rc = u_read(fd, &c, 1, SOON);
		CHECK(rc == (fail_failed() > 0 ? rc : -ETIMEDOUT));
		fail_rest();
		must_write(s[1], 'f');
		must_read(fd, 'f');
		CHECK(u_close(fd) == 0);
	} while (fail_failed() > 0);
	CHECK(u_close(s[0]) == 0 && u_close(s[1]) == 0);
}

static void far_numbers(void)
{
	begin(1, 0);
	make(0, far_away, NULL);
	start_and_finish();
	fail_held_nr = 0;
}

/*
 * Trust that cannot be noted is none: the byte of another file at the number
 * arrives. Trust begins with a wait that a byte ends.
 */
static void puts_late(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		yield();
	CHECK(write((int)(intptr_t)arg, "l", 1) == 1);
}

static void trusts(void *arg)
{
	int s[2], new[2];

	(void)arg;
	pair(SOCK_STREAM, s);
	pair(SOCK_STREAM, new);
	make(0, puts_late, (void *)(intptr_t)s[1]);
	must_read(s[0], 'l');
	CHECK(dup2(new[0], s[0]) == s[0]);
	CHECK(write(new[1], "n", 1) == 1);
	fail_arm(FAIL_MEMORY, 1, true);
	must_read(s[0], 'n');
	fail_rest();
	CHECK(close(s[0]) == 0 && close(s[1]) == 0);
	CHECK(close(new[0]) == 0 && close(new[1]) == 0);
}

static void without_notes(void)
{
	doing("trust");
	begin(1, 0);
	make(0, trusts, NULL);
	start_and_finish();
}

/* Descriptors. */

/* There is room for nr more descriptors; less than 0: for as many as before. */
static void room(int nr)
{
	static struct rlimit before;
	struct rlimit now;

	if (before.rlim_cur == 0)
		CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	now = before;
	if (nr >= 0)
		now.rlim_cur = (rlim_t)(next_fd() + nr);
	CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
}

/* Nothing waits: the bytes are there. */
static void at_once(const int s[2])
{
	must_write(s[1], 'a');
	must_read(s[0], 'a');
}

/* In ws, processors share what the first wait has opened. */
static void no_room(const int s[2])
{
	struct pollfd f = { s[0], POLLIN, 0 };
	int nr;
	char c;

	for (nr = 0; nr < 2; nr++) {
		room(nr);
		CHECK(u_read(s[0], &c, 1, SOON) == -EMFILE);
		CHECK(u_wait_fd(s[0], UREAD, SOON) == -EMFILE);
		CHECK(u_wait_fd(s[0], UREAD | UWRITE, UNEVER) == -EMFILE);
		CHECK(u_poll(&f, 1, SOON) == -EMFILE);
		CHECK(u_accept(listener, NULL, NULL, 0, SOON) == -EMFILE);
		at_once(s);
		room(-1);
	}
}

static void full(void *arg)
{
	int s[2], fd, next;
	char c;

	(void)arg;
	pair(SOCK_STREAM, s);
	next = next_fd();
	no_room(s);
	CHECK(next_fd() == next);
	CHECK(u_read(s[0], &c, 1, SOON) == -ETIMEDOUT);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	room(0);
	CHECK(u_wait_fd(s[0], UREAD, SOON) == -ETIMEDOUT);
	CHECK(u_connect(fd, (struct sockaddr *)&address, address_len,
			UNEVER) == 0);
	at_once(s);
	CHECK(u_accept(listener, NULL, NULL, 0, UNEVER) == -EMFILE);
	must_write(fd, 'c');
	CHECK(u_accept(listener, NULL, NULL, 0, SOON) == -EMFILE);
	room(-1);
	accepts(NULL);
	CHECK(u_close(fd) == 0 && u_close(s[0]) == 0 && u_close(s[1]) == 0);
}

/* The last processor waits first, and then each. */
static void all_full(int p)
{
	int fd = next_fd();

	listens();
	begin(p, 0);
	make(p - 1, full, NULL);
	start_and_finish();
	CHECK(close(listener) == 0 && next_fd() == fd);
}

int main(int argc, char **argv)
{
	int p, all;

	check_start(argc, argv);
	run(1);
	fail_held_nr = 0;		/* upoll.c keeps its tables */
	for (p = 1; p <= 2; p++)
		for (all = 0; all < 2; all++) {
			(void)fail_each(FAIL_MEMORY | FAIL_MMAP, all, run, p);
			(void)fail_each(FAIL_THREAD | FAIL_INIT, all, run, p);
		}
	far_numbers();
	without_notes();
	for (p = 1; p <= 2; p++)
		all_full(p);
	return 0;
}
