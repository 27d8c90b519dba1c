/* SPDX-License-Identifier: MIT */
/* modules_fail: a call of a module that fails has done nothing. */
/* VARIANTS: RR LL WS PR */
/* LIBS: @test/run/fail.wrap -Wl,--wrap=epoll_ctl */

/*
 * For each module, threads use it while the n-th call to the system fails, once
 * or from then on, for each n (fail.h). A call of the module that returns an
 * error has done nothing, so the thread calls again:
 *
 *	channels	No value is lost or doubled. Channels may be freed
 *			before all waits have left them.
 *	files		Nothing is lost of files, signals and children.
 *	connections	Streams of bytes and datagrams arrive whole and in
 *			order. Polls and accepts wait again. epoll_ctl() fails,
 *			too, as it needs memory.
 *
 * At the end all memory was given back, and the next descriptor has the number
 * that it had before. A module is a row of the table at the end.
 *
 * A number beyond the others needs a table of its own. While there is no room
 * for a descriptor, the first wait of a processor returns -EMFILE. So does
 * u_accept(), and the connection stays in the backlog. Both work as soon as
 * there is room. Later waits need no descriptor.
 */
#include "either.h"
#include "fail.h"
#include "uchan.h"
#include "uchild.h"
#include "ufile.h"
#include "uio.h"
#include "usignal.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#if defined(__linux__)
#include <sys/epoll.h>
#endif

static const struct module {
	void   (*m_init)(void);		/* before the scheduler is made */
	void   (*m_fini)(void);		/* after its end */
	unsigned m_kinds[FAIL_KINDS];	/* kinds of calls that fail together */
	int      m_sample;		/* fail_sample */
	int      m_errors[2];		/* after which to call again */
	bool     m_together;		/* threads are on one processor */
	struct {
		void (*t_f)(void *);
		int    t_nr;		/* threads, with 0, 1, ... */
	}        m_threads[12];
} *now;

/* Whether a call has failed, and has to be repeated. */
static bool again(ssize_t rc)
{
	if (rc >= 0 || (rc != now->m_errors[0] && rc != now->m_errors[1]))
		return false;
	fail_repeat();
	return true;
}

static int next_fd(void)
{
	int fd = dup(2);

	CHECK(fd >= 0 && close(fd) == 0);
	return fd;
}

/* Channels. */

#define NR	15
#define PARTIES	3

static struct uchan *c, *d, *two[2];
static long sent, got, open_senders;

static void last_closes(void)
{
	if (add(&open_senders, -1) == 0) {
		CHECK_IS(uchan_close(c), 0);
		CHECK_IS(uchan_close(d), 0);
	}
}

static void sender(void *arg)
{
	long i, v = (long)(intptr_t)arg;
	int rc;

	for (i = 0; i < NR; i++, v += PARTIES) {
		struct ucase k[2] = { UCASE_SEND(c, &v), UCASE_SEND(d, &v) };

		do
			rc = i % 3 == 0 ? uselect(k, 2, UNEVER) :
				uchan_send(c, &v, UNEVER);
		while (again(rc));
		CHECK(rc == 0 || rc == 1);
		add(&sent, v);
	}
	last_closes();
}

static void receiver(void *arg)
{
	long v = 0, w = 0;
	struct ucase k[2] = { UCASE_RECV(c, &v), UCASE_RECV(d, &w) };
	int rc, nr = 0;

	while (k[0].cs_chan != NULL || k[1].cs_chan != NULL) {
		rc = uselect(k, 2, nr++ % 4 ? UNEVER : uafter(UTIME_US));
		if (rc == -ETIMEDOUT || again(rc))
			continue;
		CHECK(rc == 0 || rc == 1);
		if (k[rc].cs_result == 0)
			add(&got, rc ? w : v);
		else
			k[rc].cs_chan = NULL;
	}
}

/* Waits for two channels, of which the sender to one frees both. */

static void waits_late(void *arg)
{
	long v = 0;
	struct ucase k[2] = { UCASE_RECV(two[0], &v), UCASE_RECV(two[1], &v) };
	int rc;

	while (again(rc = uselect(k, 2, UNEVER)))
		;
	CHECK(rc == 0 && v == 9);
}

static void frees_early(void *arg)
{
	int rc;

	while (again(rc = uchan_send(two[0], &(long){ 9 }, UNEVER)))
		;
	CHECK_IS(rc, 0);
	uchan_free(two[1]);
	uchan_free(two[0]);
}

static struct uchan *made(int size, unsigned room)
{
	struct uchan *made = uchan_make(size, room);

	if (made == NULL) {
		CHECK_THAT(fail_told(), >, 0);
		fail_rest();
		made = uchan_make(size, room);
	}
	CHECK(made != NULL);
	return made;
}

static void chan_init(void)
{
	c = made(sizeof(long), 0);
	d = made(sizeof(long), 2);
	two[0] = made(sizeof(long), 0);
	two[1] = made(8, 1);
	sent = got = 0;
	open_senders = PARTIES;
}

static void chan_fini(void)
{
	CHECK(got == sent && sent == (long)PARTIES * NR * (PARTIES * NR - 1) / 2);
	uchan_free(c);
	uchan_free(d);
}

/* Files, signals and children. */

#define SIZE	(UFILE_PART + 100)

static char path[64];
static char data[SIZE], back[SIZE];

static void moves(int fd)
{
	size_t done;
	ssize_t rc;

	for (done = 0; done < SIZE; done += (size_t)(rc > 0 ? rc : 0)) {
		rc = u_pwrite(fd, data + done, SIZE - done, (off_t)done,
			      UNEVER);
		CHECK(rc > 0 || again(rc));
	}
	for (done = 0; done < SIZE; done += (size_t)(rc > 0 ? rc : 0)) {
		rc = u_pread(fd, back + done, SIZE - done, (off_t)done,
			     UNEVER);
		CHECK(rc > 0 || again(rc));
	}
	CHECK(memcmp(data, back, SIZE) == 0);
}

static void uses(void *arg)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *list;
	int fd, rc;

	do
		fd = u_open(path, O_CREAT | O_EXCL | O_RDWR, 0600, UNEVER);
	while (again(fd));
	CHECK_THAT(fd, >=, 0);
	moves(fd);
	CHECK_IS(u_close(fd), 0);
	while (again(rc = u_unlink(path, UNEVER)))
		;
	CHECK_IS(rc, 0);
	while (again(rc = u_getaddrinfo("::1", NULL, &hints, &list, UNEVER)))
		;
	CHECK_IS(rc, 0);
	freeaddrinfo(list);
}

static void raises(void *arg)
{
	CHECK_IS(raise(SIGUSR1), 0);
}

static void awaits(void *arg)
{
	int rc, status;
	pid_t pid;

	while (again(rc = usignal_wait(UNEVER)))
		;
	CHECK_IS(rc, SIGUSR1);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		fail_rest();		/* make cover writes its counts here */
		_exit(7);
	}
	while (again(rc = u_waitpid(pid, &status, UNEVER)))
		;
	CHECK(rc == pid && WEXITSTATUS(status) == 7);
}

/* Connections. */

#if defined(__linux__)
WRAP(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *e)
{
	if (op != EPOLL_CTL_DEL && now->m_errors[1] == -ENOSPC &&
	    fail_now(FAIL_MEMORY))
		return fail_errno(FAIL_ANY(ENOMEM, ENOSPC));
	return __real_epoll_ctl(epoll, op, fd, e);
}
#endif

#define MESSAGES	6
#define BIG		300000
#define OTHERS		11		/* threads but recovers() */
#define SOON		uafter(5 * UTIME_MS)
#define FAR		1024		/* numbers of a table: see table.h */

static void pair(int type, int s[2])
{
	CHECK_IS(socketpair(AF_UNIX, type, 0, s), 0);
}

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
	CHECK_IS(rc, 1);
}

static void pings(void *arg)
{
	char i;

	for (i = 0; i < MESSAGES; i++) {
		must_write(small[0], i);
		must_read(small[0], i);
	}
	add(&done, 1);
}

static void pongs(void *arg)
{
	char i;

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

	while (at < BIG) {
		rc = u_read(big[0], b + at, BIG - at, UNEVER);
		CHECK(rc > 0 || again(rc));
		at += (size_t)(rc > 0 ? rc : 0);
	}
	for (i = 0; i < BIG; i++)
		CHECK_IS(b[i], (char)check_hash((unsigned)i, 7));
	add(&done, 1);
}

/* Two threads wait for the same datagrams. */
static void shares(void *arg)
{
	ssize_t rc;
	char b[8];
	int i;

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

	for (i = 0; i < 3; i++) {
		must_write(polled[i][1], 'p');
		must_read(polled[0][1], 'q');
	}
	add(&done, 1);
}

static void accepts(void *arg)
{
	int fd;

	while (again(fd = u_accept(listener, NULL, NULL, 0, UNEVER)))
		;
	CHECK_THAT(fd, >=, 0);
	must_read(fd, 'c');
	CHECK_IS(u_close(fd), 0);
	add(&done, 1);
}

static void connects(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int rc;

	do
		rc = u_connect(fd, (struct sockaddr *)&address, address_len,
			       UNEVER);
	while (again(rc));
	CHECK_IS(rc, 0);
	must_write(fd, 'c');
	CHECK_IS(u_close(fd), 0);
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

	while (get(&done) < OTHERS) {
		rc = u_sleep(uafter(10 * UTIME_MS));
		if (!again(rc) && fail_failed() > 0 && fail.f_all)
			fail_rest();
	}
}

#endif

static void listens(void)
{
	address_len = sizeof address;

	address.sun_family = AF_UNIX;
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_IS(bind(listener, (struct sockaddr *)&address,
		 sizeof(sa_family_t)), 0);
	CHECK_IS(getsockname(listener, (struct sockaddr *)&address,
		 &address_len), 0);
	CHECK_IS(listen(listener, 10), 0);
}

static void io_init(void)
{
	int i;

	done = 0;
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

static void io_fini(void)
{
	int i;

	CHECK_IS(done, OTHERS);
	close_two(small);
	close_two(big);
	close_two(shared);
	for (i = 0; i < 3; i++)
		close_two(polled[i]);
	CHECK_IS(u_close(listener), 0);
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
		CHECK_IS(rc, fail_failed() > 0 ? rc : -ETIMEDOUT);
		fail_rest();
		must_write(s[1], 'f');
		must_read(fd, 'f');
		CHECK_IS(u_close(fd), 0);
	} while (fail_failed() > 0);
	CHECK(u_close(s[0]) == 0 && u_close(s[1]) == 0);
}

static void far_numbers(void)
{
	one_thread(1, far_away, NULL);
	fail_held_nr = 0;
}

/* Descriptors. */

/* There is room for nr more descriptors; less than 0: for as many as before. */
static void room(int nr)
{
	static struct rlimit before;
	struct rlimit now;

	if (before.rlim_cur == 0)
		CHECK_IS(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = before;
	if (nr >= 0)
		now.rlim_cur = (rlim_t)(next_fd() + nr);
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &now), 0);
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
		CHECK_IS(u_read(s[0], &c, 1, SOON), -EMFILE);
		CHECK_IS(u_wait_fd(s[0], UREAD, SOON), -EMFILE);
		CHECK_IS(u_wait_fd(s[0], UREAD | UWRITE, UNEVER), -EMFILE);
		CHECK_IS(u_poll(&f, 1, SOON), -EMFILE);
		CHECK_IS(u_accept(listener, NULL, NULL, 0, SOON), -EMFILE);
		at_once(s);
		room(-1);
	}
}

static void full(void *arg)
{
	int s[2], fd, next;
	char c;

	pair(SOCK_STREAM, s);
	next = next_fd();
	no_room(s);
	CHECK_IS(next_fd(), next);
	CHECK_IS(u_read(s[0], &c, 1, SOON), -ETIMEDOUT);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	room(0);
	CHECK_IS(u_wait_fd(s[0], UREAD, SOON), -ETIMEDOUT);
	CHECK_IS(u_connect(fd, (struct sockaddr *)&address, address_len,
		 UNEVER), 0);
	at_once(s);
	CHECK_IS(u_accept(listener, NULL, NULL, 0, UNEVER), -EMFILE);
	must_write(fd, 'c');
	CHECK_IS(u_accept(listener, NULL, NULL, 0, SOON), -EMFILE);
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

/* Modules, one after another. */

static const struct module modules[] = { {
	.m_init    = chan_init,
	.m_fini    = chan_fini,
	.m_sample  = 16,
	.m_errors  = { -ENOMEM },
	.m_threads = { { sender, PARTIES }, { receiver, PARTIES },
		       { waits_late, 1 }, { frees_early, 1 } }
}, {
	.m_kinds   = { FAIL_MEMORY | FAIL_THREAD },
	.m_errors  = { -ENOMEM, -EAGAIN },
	.m_together = true,		/* one forks, in the test's own locks */
	.m_threads = { { uses, 1 }, { awaits, 1 }, { raises, 1 } }
}, {
	.m_init    = io_init,
	.m_fini    = io_fini,
	.m_kinds   = { FAIL_MEMORY | FAIL_MMAP, FAIL_THREAD | FAIL_INIT },
	.m_errors  = { -ENOMEM, -ENOSPC },
	.m_threads = { { pongs, 1 }, { pings, 1 }, { reads_big, 1 },
		       { writes_big, 1 }, { polls, 1 }, { is_polled, 1 },
		       { accepts, 1 }, { connects, 1 }, { shares, 2 },
		       { sends, 1 },
#if !defined(__linux__) || defined(UIO_POLL)
		       { recovers, 1 },
#endif
	}
} };

/* False: the scheduler could not be made. */
static bool try_all(int p)
{
	int i, rc, nr = 0;
	intptr_t arg;

	if (SCHED(init)(p, 0) != 0)
		return false;
	for (i = 0; i < COUNT(now->m_threads); i++)
		for (arg = 0; arg < now->m_threads[i].t_nr; arg++, nr++)
			while (try_make(now->m_together ? 0 : nr,
					now->m_threads[i].t_f,
					(void *)arg) == NULL)
				CHECK(again(-ENOMEM));
	while (SCHED(start)() != 0) {
		CHECK_THAT(fail_told(), >, 0);
		fail_rest();
	}
	rc = SCHED(fini)();
	CHECK(rc == 0 && SCHED(stuck)() == 0);
	return true;
}

static void run(int p)
{
	int fd = next_fd();

	if (now->m_init != NULL)
		now->m_init();
	if (!try_all(p)) {
		CHECK_THAT(fail_told(), >, 0);
		fail_rest();
		CHECK(try_all(p));
	}
	if (now->m_fini != NULL)
		now->m_fini();
	CHECK_IS(next_fd(), fd);
}

/* Without failures, then with all. upoll.c keeps tables from the first run. */
static void module(void)
{
	int p, i, all;

	run(1);
	fail_held_nr = 0;
	fail_sample = now->m_sample > 0 ? now->m_sample : 1;
	for (p = 1; p <= 2; p++) {
		if (now->m_kinds[0] == 0)
			fail_all(run, p);
		for (i = 0; now->m_kinds[i] != 0; i++)
			for (all = 0; all < 2; all++)
				(void)fail_each(now->m_kinds[i], all, run, p);
	}
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	sprintf(path, "/tmp/s_modules_fail-%d", (int)getpid());
	memset(data, 'x', SIZE);
	CHECK_IS(usignal_watch(SIGUSR1), 0);
	for (now = modules; now < modules + COUNT(modules); now++)
		module();
	now = &modules[COUNT(modules) - 1];
	far_numbers();
	for (p = 1; p <= 2; p++)
		all_full(p);
	return 0;
}
