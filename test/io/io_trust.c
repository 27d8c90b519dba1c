/* SPDX-License-Identifier: MIT */
/* io_trust: a thread that waits for a trusted descriptor misses nothing. */
/* VARIANTS: RR LL WS */

/*
 * Writers send bytes in pieces, some of which are longer than the room of a
 * reader, so that reads are short, or leave bytes. Between pieces they yield. Half
 * of them send a piece only when all before has been read, so that an event that
 * is missed has no successor; for the others the last piece and the end of the
 * stream come together. Half of the writers are a native thread. Readers wait,
 * and read as long as they like before they wait again. A wait that has ended by
 * itself has found bytes, since there is no other reader: no event of a time
 * before the wait ends it. Some waits have deadlines that pass. Between reads some
 * readers compute, so that in ws thieves take them together with others, whose
 * descriptors stay where they were armed.
 *
 * A number is used again after u_close(), and is trusted again, while a copy by
 * dup() keeps the old file open. Threads wait in u_poll() for trusted descriptors,
 * too, and to write, beside another that reads. Connections to a trusted listener
 * are all accepted.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"

#include <sys/socket.h>

#define PAIRS	24
#define PIECES	40
#define ROOM	16
#define LONG	40		/* bytes of a piece, at most */
#define PROCS	3
#define CALLS	40
#define UNUSED_FD	900	/* a number of which nothing is known */

static struct pair {
	int      p_fd[2];
	unsigned p_seed;
	long     p_sent;	/* bytes, by the writer */
	long     p_got;		/* by the reader (atomic) */
} pairs[PAIRS];

static long ended;

extern utime_ns upoll_second;	/* upoll.h, which is broken for a test */

static char byte_of(const struct pair *p, long i)
{
	return (char)check_hash(p->p_seed, (unsigned)i);
}

/* Writers. */

/* Fills a piece. Returns its length. */
static int piece(struct pair *p, char *b, unsigned *r)
{
	int nr = 1 + (int)(check_random(r) % LONG);
	int i;

	for (i = 0; i < nr; i++)
		b[i] = byte_of(p, p->p_sent + i);
	p->p_sent += nr;
	return nr;
}

static void writes(void *arg)
{
	struct pair *p = arg;
	unsigned r = p->p_seed;
	char b[LONG];
	int i, nr;

	for (i = 0; i < PIECES; i++) {
		nr = piece(p, b, &r);
		CHECK_IS(u_write_all(p->p_fd[1], b, nr, UNEVER), nr);
		if (p->p_seed % 2 == 0)
			yield_until(&p->p_got, p->p_sent);
		while (i + 1 < PIECES && check_random(&r) % 3 == 0)
			yield();
	}
	CHECK_IS(u_close(p->p_fd[1]), 0);
}

static void *writes_all(void *arg)
{
	char b[LONG];
	unsigned r[PAIRS];
	int i, k, nr;

	(void)arg;
	for (k = 0; k < PIECES; k++)
		for (i = 1; i < PAIRS; i += 2) {
			struct pair *p = &pairs[i];

			r[i] = k == 0 ? p->p_seed : r[i];
			nr = piece(p, b, &r[i]);
			CHECK_IS(write(p->p_fd[1], b, nr), nr);
			if (p->p_seed % 2 == 0)
				until(&p->p_got, p->p_sent);
			if (check_random(&r[i]) % 16 == 0)
				usleep(50);
			if (k + 1 == PIECES)
				CHECK_IS(close(p->p_fd[1]), 0);
		}
	return NULL;
}

/* Readers. */

static void computes(unsigned *r)
{
	volatile int i;

	for (i = (int)(check_random(r) % 20000); i > 0; i--)
		;
}

/* Waits until there is something to read. */
static void waits(int fd, unsigned *r)
{
	struct pollfd f = { .fd = fd, .events = POLLIN };
	int rc;

	do {
		if (check_random(r) % 8 == 0)
			rc = u_poll(&f, 1, UNEVER) - 1;
		else
			rc = u_wait_fd(fd, UREAD, check_random(r) % 8 == 0 ?
				       uafter(20 * UTIME_US) : UNEVER);
	} while (rc == -ETIMEDOUT);
	CHECK_IS(rc, 0);
}

/* Reads once. Returns how many bytes; 0: the end, or there are none. */
static int reads_once(struct pair *p, bool *end)
{
	char b[ROOM];
	ssize_t n = u_recv(p->p_fd[0], b, sizeof b, 0, UNOW);
	int i;

	CHECK(n >= 0 || n == -EAGAIN);
	*end = n == 0;
	for (i = 0; i < n; i++)
		CHECK_IS(b[i], byte_of(p, get(&p->p_got) + i));
	add(&p->p_got, n > 0 ? n : 0);
	return n > 0 ? (int)n : 0;
}

static void reads(void *arg)
{
	struct pair *p = arg;
	unsigned r = ~p->p_seed;
	bool end = false;

	while (!end) {
		waits(p->p_fd[0], &r);
		CHECK(reads_once(p, &end) > 0 || end);
		while (!end && check_random(&r) % 3 == 0)
			(void)reads_once(p, &end);
		if (check_random(&r) % 4 == 0)
			computes(&r);
	}
	CHECK_IS(p->p_got, p->p_sent);
	CHECK_IS(u_close(p->p_fd[0]), 0);
	add(&ended, 1);
}

static void all_comes(int procs)
{
	pthread_t id;
	int i;

	doing("%d processors", procs);
	ended = 0;
	for (i = 0; i < PAIRS; i++) {
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i].p_fd), 0);
		CHECK_IS(u_trust(pairs[i].p_fd[0]), 0);
		pairs[i].p_seed = check_hash(check_seed, (unsigned)i);
		pairs[i].p_sent = pairs[i].p_got = 0;
	}
	begin(procs, 0);
	for (i = 0; i < PAIRS; i++) {
		make(i, reads, &pairs[i]);
		if (i % 2 == 0)
			make(i + 1, writes, &pairs[i]);
	}
	id = native(writes_all, NULL);
	start_and_finish();
	native_join(id);
	CHECK_IS(ended, PAIRS);
}

/* A thread waits to write, and another to read, and both have to. */

static int two[2];

static void writes_later(void *arg)
{
	(void)arg;
	CHECK_IS(u_wait_fd(two[0], UWRITE, UNEVER), 0);
	add(&ended, 1);
}

static void reads_later(void *arg)
{
	char b[ROOM];

	(void)arg;
	CHECK_IS(u_recv(two[0], b, ROOM, 0, UNOW), -EAGAIN);
	CHECK_IS(u_wait_fd(two[0], UREAD, UNEVER), 0);
	CHECK_IS(u_recv(two[0], b, ROOM, 0, UNOW), 1);
	add(&ended, 1);
}

static void both(void *arg)
{
	static char b[4096];

	(void)arg;
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
	CHECK_IS(u_trust(two[0]), 0);
	while (u_send(two[0], b, sizeof b, 0, UNOW) > 0)
		;
	ended = 0;
	make(0, writes_later, NULL);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	make(0, reads_later, NULL);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(write(two[1], "", 1), 1);
	yield_until(&ended, 1);
	while (u_recv(two[1], b, sizeof b, 0, UNOW) > 0)
		;
	yield_until(&ended, 2);
	u_close(two[0]);
	u_close(two[1]);
}

/* Numbers that are used again. */

static void puts_late(void *arg)
{
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(write((int)(intptr_t)arg, "c", 1), 1);
}

static void again(void *arg)
{
	char b[ROOM];
	int s[2], old, i;

	(void)arg;
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	for (i = 0; i < 5; i++) {
		int t[2], fd = s[0];

		CHECK_IS(u_trust(s[0]), 0);
		CHECK_IS(u_read(s[0], b, 1, uafter(UTIME_MS)), -ETIMEDOUT);
		CHECK_IS(write(s[1], "ab", 2), 2);
		CHECK(u_read(s[0], b, 1, UNEVER) == 1 && b[0] == 'a');
		CHECK_IS(u_wait_fd(s[0], UREAD | UWRITE, UNEVER), 0);
		CHECK(u_read(s[0], b, ROOM, UNEVER) == 1 && b[0] == 'b');
		CHECK(i % 2 || u_wait_fd(s[0], UWRITE, UNEVER) == 0);
		old = dup(s[0]);
		CHECK(old >= 0 && u_close(s[0]) == 0);
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, t), 0);
		if (t[0] != fd) {
			CHECK_IS(dup2(t[0], fd), fd);
			close(t[0]);
			t[0] = fd;
		}
		CHECK_IS(write(s[1], "old", 3), 3);
		CHECK_IS(u_trust(fd), 0);
		make(0, puts_late, (void *)(intptr_t)t[1]);
		CHECK(u_read(fd, b, ROOM, UNEVER) == 1 && b[0] == 'c');
		CHECK_IS(u_wait_fd(fd, UREAD, uafter(UTIME_MS)), -ETIMEDOUT);
		close(old);
		close(s[1]);
		s[0] = t[0];
		s[1] = t[1];
	}
	CHECK_IS(u_trust(-1), -EBADF);
	u_close(s[0]);
	u_close(s[1]);
}

/* An event has come before the trust. */
static void trusts_late(void *arg)
{
	char b[ROOM];
	int s[2];

	(void)arg;
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	CHECK_IS(dup2(s[0], UNUSED_FD), UNUSED_FD);
	CHECK_IS(write(s[1], "x", 1), 1);
	CHECK_IS(u_wait_fd(UNUSED_FD, UREAD, UNEVER), 0);
	CHECK_IS(u_trust(UNUSED_FD), 0);
	CHECK_IS(u_wait_fd(UNUSED_FD, UREAD, UNEVER), 0);
	CHECK_IS(u_read(UNUSED_FD, b, ROOM, UNEVER), 1);
	CHECK(u_close(UNUSED_FD) == 0 && close(s[0]) == 0 && close(s[1]) == 0);
}

/* A trusted listener. */

static int listener;

static void accepts(void *arg)
{
	int i, fd;

	(void)arg;
	for (i = 0; i < CALLS; i++) {
		fd = u_accept(listener, NULL, NULL, 0, UNEVER);
		CHECK(fd >= 0 && u_close(fd) == 0);
	}
	CHECK_IS(u_close(listener), 0);
}

static void *calls(void *arg)
{
	unsigned r = check_seed;
	int i;

	for (i = 0; i < CALLS; i++) {
		CHECK_IS(u_close(u_dial_tcp("127.0.0.1", *(int *)arg, UNEVER)),
			 0);
		if (check_random(&r) % 4 == 0)
			usleep(check_random(&r) % 300);
	}
	return NULL;
}

static void all_call(void)
{
	int port;
	pthread_t id;

	doing("a listener");
	listener = u_listen_tcp("127.0.0.1", 0, 0, 0);
	CHECK(listener >= 0 && u_trust(listener) == 0);
	port = u_port(listener);
	begin(2, 0);
	make(0, accepts, NULL);
	id = native(calls, &port);
	start_and_finish();
	native_join(id);
}

int main(int argc, char **argv)
{
	int procs;

	check_start(argc, argv);
	upoll_second = 3600 * UTIME_S;	/* what is missed hangs */
	for (procs = 1; procs <= PROCS; procs++)
		all_comes(procs);
	doing("both");
	one_thread(1, both, NULL);
	doing("trusts late");
	one_thread(1, trusts_late, NULL);
	doing("again");
	one_thread(1, again, NULL);
	all_call();
	return 0;
}
