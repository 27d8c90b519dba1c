/* SPDX-License-Identifier: MIT */
/* io_reuse: no thread gets bytes of a file that took the number of its own. */
/* VARIANTS: RR LL WS PR */

/*
 * A number is closed by close() and used again: behind a thread that waits for
 * it, which gets -EBADF as soon as another waits there, or waits on; or between
 * waits, also after a short read. Bytes of the new file arrive in any
 * case. A copy by dup() or fork() may keep the old file open, so that its events
 * go on. Threads of several processors wait for the same descriptor in turn.
 * The child of fork() waits for descriptors of its parent under a scheduler of
 * its own, and closes them; the parent does not notice.
 */
#include "either.h"
#include "uio.h"

#include <poll.h>
#include <sys/socket.h>

#define SOON	uafter(20 * UTIME_MS)
#define ROUNDS	6
#define TURNS	50

static void pair(int s[2])
{
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
}

static void put(int fd, char c)
{
	CHECK_IS(write(fd, &c, 1), 1);
}

/* Reads one byte, with room for more, so a stream is drained by it. */
static void must_read(int fd, char c)
{
	char b[8];

	CHECK(u_read(fd, b, sizeof b, UNEVER) == 1 && b[0] == c);
}

static void puts_late(void *arg)
{
	int i;

	for (i = 0; i < 5; i++)
		yield();
	put((int)(intptr_t)arg, 'l');
}

static void reads_late(int fd, int from)
{
	make(0, puts_late, (void *)(intptr_t)from);
	must_read(fd, 'l');
}

/* Closes fd, and makes another stream there. Returns the other end. */
static int replace(int fd)
{
	int s[2];

	CHECK_IS(close(fd), 0);
	pair(s);
	if (s[0] != fd) {
		CHECK(dup2(s[0], fd) == fd && close(s[0]) == 0);
	}
	return s[1];
}

static void close_all(const int *s, int nr)
{
	while (nr-- > 0)
		CHECK_IS(close(s[nr]), 0);
}

/* Waiters whose descriptor is closed. */

enum { READS, AGAIN, WRITES, POLLS, KINDS };

static int  ends[2], quiet[2], new_end;
static int  kind, procs;
static long blocked, done;

/* Runs after the thread that was made before it for this processor. */
static void has_blocked(void *arg)
{
	int i;

	for (i = 0; i < 5; i++)
		yield();
	add(arg, 1);
}

static void await(long *at)
{
	while (get(at) == 0)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
}

static int waits_as_kind(utime_ns until)
{
	struct pollfd f[2] = { { quiet[0], POLLIN, 0 }, { ends[0], POLLIN, 0 } };
	char b[4096] = "";

	switch (kind) {
	case POLLS:
		return u_poll(f, 2, until);
	case WRITES:
		while (write(ends[0], b, sizeof b) > 0)
			;
		return (int)u_write(ends[0], b, 1, until);
	default:
		return (int)u_read(ends[0], b, sizeof b, until);
	}
}

static void old_waiter(void *arg)
{
	int rc;

	if (kind == AGAIN)
		reads_late(ends[0], ends[1]);
	rc = waits_as_kind(procs == 1 ? UNEVER : SOON);
	CHECK(rc == -EBADF || (procs > 1 && rc == -ETIMEDOUT));
	add(&done, 1);
}

static void new_waiter(void *arg)
{
	must_read(ends[0], 'n');
	add(&done, 1);
}

static void closes_behind(void *arg)
{
	make_pinned(0, old_waiter, NULL);
	make_pinned(0, has_blocked, &blocked);
	await(&blocked);
	if (kind == AGAIN)		/* the byte has come */
		CHECK_IS(u_sleep(uafter(2 * UTIME_MS)), 0);
	new_end = replace(ends[0]);
	make_pinned(procs - 1, new_waiter, NULL);
	set(&blocked, 0);
	make_pinned(procs - 1, has_blocked, &blocked);
	await(&blocked);
	while (procs > 1 && get(&done) == 0)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	put(new_end, 'n');
}

static void closed_behind(void)
{
	doing("closed behind a waiter");
	blocked = done = 0;
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	one_thread(procs, closes_behind, NULL);
	CHECK_IS(done, 2);
	close_all(ends, 2);
	close_all(&new_end, 1);
}

static int all_closed_behind(void)
{
	int failed = 0;

	for (procs = 1; procs <= 2; procs++)
		for (kind = 0; kind < KINDS; kind++) {
			if (kind == AGAIN && procs > 1)
				continue;	/* may take the new file's */
#if defined(USCHED_HARD)
			if (procs > 1)
				continue;
			failed += check_dies("close", closed_behind,
					     "close: threads wait for");
#else
			closed_behind();
#endif
		}
	return failed;
}

/* Numbers that are used again between waits. */

/* Whether bytes come before the wait, and whether the last read was short. */
static void used_again(void *arg)
{
	int i, s[2], end;
	char c;

	pair(s);
	for (i = 0; i < 4 * ROUNDS; i++) {
		reads_late(s[0], s[1]);
		put(s[1], 'm');
		if (i & 1)
			must_read(s[0], 'm');
		else
			CHECK(u_read(s[0], &c, 1, UNEVER) == 1 && c == 'm');
		end = replace(s[0]);
		CHECK_IS(close(s[1]), 0);
		s[1] = end;
		if (i & 2) {
			put(end, 'e');
			must_read(s[0], 'e');
		} else
			reads_late(s[0], end);
		CHECK_IS(u_wait_fd(s[0], UREAD | UWRITE, UNEVER), 0);
		CHECK_IS(u_wait_fd(s[0], UREAD, uafter(UTIME_MS)), -ETIMEDOUT);
	}
	close_all(s, 2);
}

/* A copy keeps the old file open: its events come under the new number. */

static void reads_new(void *arg)
{
	must_read((int)(intptr_t)arg, 'n');
	add(&done, 1);
}

static void left_behind(void *arg)
{
	int i, s[2], copy, end;

	pair(s);
	reads_late(s[0], s[1]);
	copy = dup(s[0]);
	end = replace(s[0]);
	done = 0;
	make(0, reads_new, (void *)(intptr_t)s[0]);
	for (i = 0; i < TURNS; i++) {
		put(s[1], 'o');
		yield();
		must_read(copy, 'o');
		CHECK_IS(get(&done), 0);
	}
	put(end, 'n');
	await(&done);
	put(s[1], 'p');
	must_read(copy, 'p');
	close_all(s, 2);
	close_all(&copy, 1);
	close_all(&end, 1);
}

static void is_closed(void *arg)
{
	char c;

	CHECK_IS(u_read((int)(intptr_t)arg, &c, 1, UNEVER), -EBADF);
	add(&done, 1);
}

/* u_close() ends a wait, also if the number is used before the waiter runs. */
static void closed_rightly(void *arg)
{
	int s[2], copy;

	pair(s);
	copy = dup(s[0]);
	set(&done, 0);
	blocked = 0;
	make_pinned(0, is_closed, (void *)(intptr_t)copy);
	make_pinned(0, has_blocked, &blocked);
	await(&blocked);
	CHECK_IS(u_close(copy), 0);
	CHECK_IS(dup2(s[0], copy), copy);
	put(s[1], 'x');			/* for the next waiter */
	await(&done);
	must_read(copy, 'x');
	CHECK_IS(close(copy), 0);
	reads_late(s[0], s[1]);
	close_all(s, 2);
}

/* Descriptors that pass from processor to processor. */

static long turn;

static void takes_turns(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	for (i = me; i < TURNS; i += 2) {
		yield_until(&turn, i);
		reads_late(ends[0], ends[1]);
		put(ends[1], 'm');
		must_read(ends[0], 'm');
		add(&turn, 1);
	}
}

/* Waits, and leaves the descriptor armed at its poller. */
static void waits_first(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		reads_late(ends[0], ends[1]);
	set(&turn, 1);
}

static void waits_second(void *arg)
{
	int i, end;

	yield_until(&turn, 1);
	for (i = 0; i < 3; i++) {
		put(ends[1], 'x');
		must_read(ends[0], 'x');
	}
	CHECK_IS(u_wait_fd(ends[0], UREAD, uafter(UTIME_MS)), -ETIMEDOUT);
	put(ends[1], 'y');
	must_read(ends[0], 'y');
	end = replace(ends[0]);
	close_all(&ends[1], 1);
	ends[1] = end;
	put(end, 'z');
	must_read(ends[0], 'z');
}

static void passed_on(void (*first)(void *), void (*second)(void *))
{
	turn = 0;
	pair(ends);
	begin(2, 0);
	make_pinned(0, first, (void *)0);
	make_pinned(1, second, (void *)1);
	start_and_finish();
	close_all(ends, 2);
}

/* The child of fork(). */

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

static int other[2];

static void child_echoes(void *arg)
{
	char b[8];
	ssize_t n;

	CHECK_IS(u_read(ends[0], b, sizeof b, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(u_close(ends[0]), 0);
	while ((n = u_read(other[0], b, sizeof b, UNEVER)) > 0 && b[0] != 'q')
		CHECK_IS(u_write_all(other[0], b, n, UNEVER), n);
	CHECK_IS(n, 1);
}

static void in_child(int nr)
{
	char b[8];

	check_watch(1);
	CHECK_IS(u_read(ends[0], b, sizeof b, SOON), -ECHILD);
	if (nr % 2 == 0) {
		one_thread(2, child_echoes, NULL);
		_exit(0);
	}
	while (read(other[0], b, sizeof b) == 1 && b[0] != 'q')
		put(other[0], b[0]);
	_exit(0);
}

static void reads_once(void *arg)
{
	must_read(ends[0], 'o');
	add(&done, 1);
}

static void forks(void *arg)
{
	int i, k, status;
	pid_t pid;

	for (i = 0; i < ROUNDS; i++) {
		done = 0;
		make(0, reads_once, NULL);
		reads_late(other[0], other[1]);
		pid = fork();
		CHECK_THAT(pid, >=, 0);
		if (pid == 0)
			in_child(i);
		for (k = 0; k < 10; k++) {
			put(other[1], (char)('0' + k));
			must_read(other[1], (char)('0' + k));
		}
		put(other[1], 'q');
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		CHECK_IS(get(&done), 0);
		put(ends[1], 'o');
		await(&done);
		reads_late(other[0], other[1]);
	}
}

static void forked(void)
{
	doing("fork");
	pair(ends);
	pair(other);
	one_thread(1, forks, NULL);
	close_all(ends, 2);
	close_all(other, 2);
}

#else

static void forked(void)
{
}

#endif

int main(int argc, char **argv)
{
	int failed, p;

	check_start(argc, argv);
	pair(quiet);
	failed = all_closed_behind();
	for (p = 1; p <= 2; p++) {
		doing("used again");
		one_thread(p, used_again, NULL);
		doing("left behind");
		one_thread(p, left_behind, NULL);
		one_thread(p, closed_rightly, NULL);
	}
	doing("passed on");
	passed_on(takes_turns, takes_turns);
	passed_on(waits_first, waits_second);
	forked();
	return failed != 0;
}
