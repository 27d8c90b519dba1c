/* SPDX-License-Identifier: MIT */
/* io_owned: a read of an owned stream misses nothing, whatever the program does. */
/* VARIANTS: RR LL WS */
/* LIBS: -Wl,--wrap=epoll_wait,--wrap=epoll_ctl */

/*
 * Writers send plain bytes, bytes with descriptors, urgent bytes, and bytes below
 * SO_RCVLOWAT; readers of streams that u_accept() or u_dial_*() has made take them
 * by all calls, also by those of POSIX in between, with deadlines that pass beside
 * threads that compute. No byte is lost, and no read hangs. The second look of a wait
 * comes after an hour here, and soon only in the tests of second looks.
 *
 * After a read that was short, bytes that came are found by the next look. A wait
 * of an owned stream makes no call of epoll_ctl(), and an idle processor sleeps on
 * after the second looks. Bytes that came before a deadline are read. A number that
 * the program has closed, or given to another file, is told by the second look, and
 * the hard mode names the close.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "upoll.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <sys/wait.h>
#if defined(__has_include)
#if __has_include(<linux/tls.h>)
#include <linux/tls.h>
#endif
#endif

#define HOUR	(3600 * UTIME_S)
#define SOON	(20 * UTIME_MS)
#define PIECES	60
#define TURNS	100

static char name[64];		/* of a socket */
static long looks, arms;
static unsigned seed;

WRAP(int, epoll_wait, int fd, struct epoll_event *e, int nr, int ms)
{
	add(&looks, 1);
	return __real_epoll_wait(fd, e, nr, ms);
}

WRAP(int, epoll_ctl, int at, int op, int fd, struct epoll_event *e)
{
	add(&arms, 1);
	return __real_epoll_ctl(at, op, fd, e);
}

/* Makes a stream of two owned ends: s[0] was accepted, s[1] has dialled. */
static void owned(int s[2], bool tcp)
{
	int at = tcp ? u_listen_tcp("127.0.0.1", 0, 0, 0) :
		u_listen_unix(name, 0);

	CHECK_THAT(at, >=, 0);
	s[1] = tcp ? u_dial_tcp("127.0.0.1", u_port(at), UNEVER) :
		u_dial_unix(name, UNEVER);
	s[0] = u_accept(at, NULL, NULL, 0, UNEVER);
	CHECK(s[0] >= 0 && s[1] >= 0 && close(at) == 0);
}

static void closes(int s[2])
{
	CHECK_IS(u_close(s[0]), 0);
	CHECK_IS(u_close(s[1]), 0);
}

static void puts_bytes(int fd, const char *text)
{
	CHECK_IS(write(fd, text, strlen(text)), (int)strlen(text));
}

/* Reads what is there, so that the stream is known to be empty. */
static void empties(int s[2])
{
	char b[64];

	puts_bytes(s[1], "abc");
	CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 3);
}

/* Arms s[0]: a close() can be seen from then on. */
static void arms_it(int s[2])
{
	char c;

	empties(s);
	CHECK_IS(u_read(s[0], &c, 1, uafter(UTIME_MS)), -ETIMEDOUT);
}

/* Counts: looks, arms, and turns of others. */

static long turns;
static bool over;

static void takes_turns(void *arg)
{
	(void)arg;
	while (!over) {
		turns++;
		yield();
	}
}

static void counts(void *arg)
{
	bool tcp = arg != NULL;
	int i, s[2];
	char b[64];

	owned(s, tcp);
	empties(s);
	empties(s);
	over = false;
	make(0, takes_turns, NULL);
	arms = 0;
	for (i = 0; i < TURNS; i++) {
		long looked = looks, ran = turns;

		puts_bytes(s[1], "abc");
		CHECK_IS(u_read(s[0], b, sizeof b, uafter(60 * UTIME_S)), 3);
		CHECK_THAT(looks - looked, <=, 2);
		CHECK_THAT(turns - ran, <=, 2 * 64 + 1);
	}
#if !defined(USCHED_HARD)
	CHECK_IS(arms, 0);
#endif
	puts_bytes(s[1], "abc");		/* UNOW always tries */
	CHECK_IS(u_read(s[0], b, sizeof b, UNOW), 3);
	over = true;
	closes(s);
}

/* Bytes that came before the deadline, beside threads that compute. */

static void computes(void *arg)
{
	(void)arg;
	while (!over) {
		utime_ns end = unow() + 50 * UTIME_US;

		while (unow() < end)
			;
		yield();
	}
}

static void deadlines(void *arg)
{
	int i, s[2];
	char b[64];

	owned(s, arg != NULL);
	empties(s);
	over = false;
	for (i = 0; i < 4; i++)
		make(0, computes, NULL);
	for (i = 0; i < 1000; i++) {
		puts_bytes(s[1], "a");
		CHECK_IS(u_read(s[0], b, sizeof b, uafter(50 * UTIME_US)), 1);
		puts_bytes(s[1], "a");
		CHECK_IS(u_wait_fd(s[0], UREAD, uafter(50 * UTIME_US)), 0);
		CHECK_IS(u_recv(s[0], b, sizeof b, 0, UNOW), 1);
	}
	over = true;
	closes(s);
}

/* What makes no event, and what the program does to the number. */

/* arg: the second look comes soon. */
static void low_water(void *arg)
{
	int s[2], low = 100;
	char b[200];

	owned(s, true);
	empties(s);
	CHECK_IS(setsockopt(s[0], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low), 0);
	puts_bytes(s[1], "012345678901234567890123456789");
	CHECK_IS(u_read(s[0], b, sizeof b, uafter(SOON)), 30);
	if (arg != NULL) {
		empties(s);
		puts_bytes(s[1], "0123456789");
		CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 10);
	}
	closes(s);
}

static void replaced(void *arg)
{
	int s[2], p[2], old = -1, i;
	char b[64];

	(void)arg;
	for (i = 0; i < 4; i++) {
		owned(s, i < 2);
		arms_it(s);
		if (i % 2)
			old = dup(s[0]);
		CHECK_IS(pipe(p), 0);
		puts_bytes(p[1], "hello");
		CHECK_IS(dup2(p[0], s[0]), s[0]);
		CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 5);
		puts_bytes(p[1], "hello");
		CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 5);
		puts_bytes(p[1], "hello");	/* a pipe is not owned */
		CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), 5);
		if (i % 2)
			CHECK_IS(close(old), 0);
		closes(s);
		CHECK(close(p[0]) == 0 && close(p[1]) == 0);
	}
}

static void closed(void *arg)
{
	int s[2];
	char b[64];

	(void)arg;
	owned(s, true);
	arms_it(s);
	CHECK_IS(close(s[0]), 0);
	CHECK_IS(u_read(s[0], b, sizeof b, UNEVER), -EBADF);
	CHECK_IS(u_wait_fd(s[0], UREAD, UNEVER), -EBADF);
	CHECK_IS(u_close(s[1]), 0);
	owned(s, true);			/* the same numbers */
	empties(s);
	closes(s);
}

/* A deadline is kept also if it has no timer at first. */
static void waits_long(void *arg)
{
	int s[2];
	char b[64];
	utime_ns until;

	(void)arg;
	owned(s, true);
	empties(s);
	until = uafter(3 * SOON);
	CHECK_IS(u_read(s[0], b, sizeof b, until), -ETIMEDOUT);
	CHECK_THAT(unow(), >=, until);
	until = uafter(SOON / 4);
	CHECK_IS(u_read(s[0], b, sizeof b, until), -ETIMEDOUT);
	CHECK_THAT(unow(), >=, until);
	closes(s);
}

/* Threads that wait are no reason to wake, once they have looked again. */

#define IDLE	100

static int  idle[IDLE][2];
static long waiting;

static void idles(void *arg)
{
	int *s = arg;
	char c;

	empties(s);
	add(&waiting, 1);
	CHECK_IS(u_read(s[0], &c, 1, uafter(60 * UTIME_S)), 1);
	closes(s);
}

static void *watches(void *arg)
{
	long before = -1;
	int i;

	while (get(&waiting) < IDLE)
		usleep(1000);
	usleep(8 * SOON / UTIME_US);		/* the second looks */
	for (i = 0; i < 3 && before != get(&looks); i++) {
		before = get(&looks);		/* again, on a slow machine */
		usleep(10 * SOON / UTIME_US);
	}
	CHECK_IS(get(&looks), before);
	for (i = 0; i < IDLE; i++)
		puts_bytes(idle[i][1], "x");
	return arg;
}

static void begin_idle(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < IDLE; i++) {
		owned(idle[i], i % 2);
		make(0, idles, idle[i]);
	}
}

static void stays_idle(void)
{
	pthread_t id = native(watches, NULL);

	waiting = 0;
	one_thread(1, begin_idle, NULL);
	native_join(id);
}

#if defined(USCHED_HARD)
static void alone_closed(void)		{ one_thread(1, closed, NULL); }
static void alone_replaced(void)	{ one_thread(1, replaced, NULL); }
#endif

/* The child of fork() owns nothing. */
static void forks(void *arg)
{
	int s[2], status;
	pid_t child;

	(void)arg;
	owned(s, false);
	empties(s);
	child = fork();
	if (child == 0) {
		char b[64];

		puts_bytes(s[1], "x");
		_exit(u_read(s[0], b, sizeof b, UNOW) == 1 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	empties(s);
	closes(s);
}

/* Streams of anything: each piece ends with bytes that are counted. */

struct stream {
	int      m_fd[2];
	bool     m_tcp;
	bool     m_is_urgent;	/* will have an urgent byte */
	unsigned m_seed;
	long     m_sent;	/* bytes, without urgent bytes */
	long     m_got;
};

static char byte_of(const struct stream *m, long i)
{
	return (char)check_hash(m->m_seed, (unsigned)i);
}

static int piece(struct stream *m, char *b, int most, unsigned *r)
{
	int nr = 1 + (int)(check_random(r) % (unsigned)most);
	int i;

	for (i = 0; i < nr; i++)
		b[i] = byte_of(m, m->m_sent + i);
	return nr;
}

/* Sends bytes with a descriptor. Returns how many. */
static ssize_t send_with(int fd, char *b, int nr)
{
	union {
		struct cmsghdr c;
		char           space[CMSG_SPACE(sizeof(int))];
	} u = { .c = { .cmsg_len = CMSG_LEN(sizeof(int)),
		       .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec v = { b, (size_t)nr };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof u };

	memcpy(CMSG_DATA(&u.c), &fd, sizeof fd);
	return sendmsg(fd, &h, MSG_NOSIGNAL);
}

static void sends(void *arg)
{
	struct stream *m = arg;
	unsigned r = m->m_seed;
	char b[64];
	int i, nr;

	for (i = 0; i < PIECES; i++) {
		nr = piece(m, b, 40, &r);
		switch (check_random(&r) % 4) {
		case 0:
			CHECK_IS(m->m_tcp ? send(m->m_fd[1], b, (size_t)nr, 0) :
				 send_with(m->m_fd[1], b, nr), nr);
			break;
		case 1:
			if (m->m_is_urgent && i >= PIECES / 2) {
				m->m_is_urgent = false;	/* two would be one */
				CHECK_IS(send(m->m_fd[1], "!", 1, MSG_OOB),
					 1);
			}
			/* fall through */
		default:
			CHECK_IS(u_write_all(m->m_fd[1], b, (size_t)nr, UNEVER),
				 nr);
		}
		__atomic_store_n(&m->m_sent, m->m_sent + nr, __ATOMIC_RELEASE);
		if (check_random(&r) % 2)
			while (__atomic_load_n(&m->m_got, __ATOMIC_ACQUIRE) <
			       m->m_sent)
				CHECK_IS(u_sleep(uafter(10 * UTIME_US)), 0);
		else if (check_random(&r) % 3)
			CHECK_IS(u_sleep(uafter(check_random(&r) % 200 *
						UTIME_US)), 0);
	}
	if (check_random(&r) % 2)
		CHECK_IS(shutdown(m->m_fd[1], SHUT_WR), 0);
	else
		CHECK_IS(u_close(m->m_fd[1]), 0);
}

/* Reads by one of the calls. A count, 0 at the end, or an error. */
static ssize_t reads_somehow(struct stream *m, char *b, int room, unsigned *r)
{
	utime_ns until = check_random(r) % 3 ? UNEVER :
		uafter(check_random(r) % 100 * UTIME_US);
	struct iovec v[2] = { { b, 1 }, { b + 1, (size_t)room - 1 } };
	int fd = m->m_fd[0];
	ssize_t rc;

	switch (check_random(r) % 9) {
	case 0:
		return u_readv(fd, v, room > 1 ? 2 : 1, until);
	case 1:
		rc = u_recv(fd, b, (size_t)room, MSG_PEEK, until);
		return rc > 0 ? u_recv(fd, b, (size_t)room, 0, UNOW) : rc;
	case 2:
		rc = recv(fd, b, (size_t)room, MSG_DONTWAIT);
		return rc < 0 ? -errno : rc;
	case 3:
		rc = u_wait_fd(fd, UREAD, until);
		return rc == 0 ? u_read(fd, b, (size_t)room, UNEVER) : rc;
	case 4:
		return u_recv(fd, b, (size_t)room, 0, until);
	case 5:
		return u_recv(fd, b, (size_t)room, MSG_WAITALL, until);
	default:
		return u_read(fd, b, (size_t)room, until);
	}
}

static void gets_all(void *arg)
{
	struct stream *m = arg;
	unsigned r = ~m->m_seed;
	char b[64];
	ssize_t rc = -EAGAIN;
	int i, copy = dup(m->m_fd[0]);

	while (rc != 0) {
		rc = reads_somehow(m, b, 1 + (int)(check_random(&r) %
						   sizeof b), &r);
		CHECK(rc >= 0 || rc == -EAGAIN || rc == -ETIMEDOUT ||
		      rc == -EINTR);
		for (i = 0; i < rc; i++)
			CHECK_IS(b[i], byte_of(m, m->m_got + i));
		if (rc > 0)
			__atomic_store_n(&m->m_got, m->m_got + rc,
					 __ATOMIC_RELEASE);
		else if (rc == -EAGAIN)
			yield();
	}
	CHECK_IS(m->m_got, m->m_sent);
	CHECK_IS(u_close(m->m_fd[0]), 0);
	CHECK_IS(close(copy), 0);
}

static void has_streams(void *arg)
{
	static struct stream m[4];
	int on = 1, i;

	(void)arg;
	memset(m, 0, sizeof m);
	for (i = 0; i < COUNT(m); i++) {
		m[i].m_tcp  = i % 2;
		m[i].m_seed = check_random(&seed);
		m[i].m_is_urgent = m[i].m_tcp && check_random(&seed) % 2;
		owned(m[i].m_fd, m[i].m_tcp);
		if (!m[i].m_tcp && check_random(&seed) % 3 == 0)
			CHECK_IS(setsockopt(m[i].m_fd[0], SOL_SOCKET,
					    SO_PASSCRED, &on, sizeof on), 0);
		make(i, gets_all, &m[i]);
		make(i, sends, &m[i]);
	}
	if (check_random(&seed) % 2)
		make(0, computes, NULL);
	over = false;
	while (__atomic_load_n(&m[0].m_got, __ATOMIC_ACQUIRE) == 0)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	over = true;
}

/* Urgent bytes in line: those after them are read. */
static void in_line(void *arg)
{
	int s[2], on = 1;
	long got = 0;
	char b[64];

	(void)arg;
	owned(s, true);
	CHECK_IS(setsockopt(s[0], SOL_SOCKET, SO_OOBINLINE, &on, sizeof on), 0);
	empties(s);
	puts_bytes(s[1], "ab");
	CHECK_IS(send(s[1], "!", 1, MSG_OOB), 1);
	puts_bytes(s[1], "cd");
	while (got < 5) {
		ssize_t rc = u_read(s[0], b, sizeof b, UNEVER);

		CHECK_THAT(rc, >, 0);
		got += rc;
	}
	closes(s);
}

#if defined(TLS_1_2_VERSION) && defined(TCP_ULP)
/* Gives fd keys for records of TLS. False: the system has none. */
static bool records(int fd, int way)
{
	struct tls12_crypto_info_aes_gcm_128 k = {
		.info = { TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128 }
	};

	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 4) == 0 &&
		setsockopt(fd, 282 /* SOL_TLS */, way, &k, sizeof k) == 0;
}

static void tls(void *arg)
{
	int s[2], i;
	char b[64];

	(void)arg;
	owned(s, true);
	empties(s);
	if (records(s[0], TLS_RX) && records(s[1], TLS_TX)) {
		for (i = 0; i < 20; i++) {
			long got = 0;

			puts_bytes(s[1], "abc");
			puts_bytes(s[1], "defg");
			while (got < 7) {
				ssize_t rc = u_read(s[0], b, 2 + i % 5, UNEVER);

				CHECK_THAT(rc, >, 0);
				got += rc;
			}
		}
	}
	closes(s);
}
#endif

static void second_looks(void)
{
	upoll_second = SOON;
	doing("low water, second look");
	one_thread(1, low_water, &seed);
	doing("idle");
	stays_idle();
	doing("long waits");
	one_thread(1, waits_long, NULL);
#if defined(USCHED_HARD)
	CHECK_IS(check_dies("closed", alone_closed, "only u_close()"), 0);
	CHECK_IS(check_dies("replaced", alone_replaced, "only u_close()"), 0);
#else
	doing("replaced");
	one_thread(1, replaced, NULL);
	doing("closed");
	one_thread(1, closed, NULL);
#endif
#if defined(TLS_1_2_VERSION) && defined(TCP_ULP)
	doing("tls");
	one_thread(1, tls, NULL);
#endif
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	seed = check_seed;
	upoll_second = HOUR;
	snprintf(name, sizeof name, "@io_owned.%d", (int)getpid());
	for (i = 0; i < 2; i++) {
		doing("counts %d", i);
		one_thread(1, counts, i ? &seed : NULL);
		doing("deadlines %d", i);
		one_thread(1, deadlines, i ? &seed : NULL);
	}
	doing("low water");
	one_thread(1, low_water, NULL);
	doing("fork");
	one_thread(1, forks, NULL);
	doing("in line");
	one_thread(1, in_line, NULL);
	for (i = 0; i < 30; i++) {
		doing("streams %d", i);
		one_thread(1 + i % 3, has_streams, NULL);
	}
	second_looks();
	return 0;
}
