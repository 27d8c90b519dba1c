/* SPDX-License-Identifier: MIT */
/*
 * interrupt.c: a signal interrupts calls that wait in a host as on Linux. Each call of a
 * list waits, once without SA_RESTART and once with it, while a timer ticks. The second
 * tick lets the call end. Printed are its result, and the ticks that came by then: so
 * signal(7) says which calls end with EINTR, which go on, and which never do.
 *
 * Of a signal that is pending three times, a call with a mask lets one in, unless another
 * comes with it, or SA_NODEFER lets in all. A handler that leaves such a call by siglongjmp()
 * puts back the mask of sigsetjmp(), if that has saved it.
 *
 *	interrupt US		on this machine, with so many microseconds for a tick
 *	interrupt --seed 1	in a host
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(SIMULATED)
#include <usched/usim.h>
#endif

enum { LARGE = 1 << 20 };

static long tick_us = 25000;
static int own, other;			/* two ends */
static volatile int ticks;
static void (*let)(void);		/* lets the call end */
static char data[LARGE];

/* How calls are let end. */

static void give(void)
{
	uint64_t value = 1;

	(void)!write(other, &value, sizeof value);
}

static void take(void)
{
	ssize_t nr;

	fcntl(other, F_SETFL, O_NONBLOCK);
	do
		nr = read(other, data, LARGE);
	while (nr > 0);
}

static void tick_once(void)
{
	struct itimerspec now = { { 0, 0 }, { 0, 1 } };

	timerfd_settime(own, 0, &now, NULL);
}

static void unlock(void)
{
	flock(other, LOCK_UN);
}

static void dial(void)
{
	struct sockaddr_un a;
	socklen_t n = sizeof a;

	getsockname(own, (struct sockaddr *)&a, &n);
	(void)!connect(other, (struct sockaddr *)&a, n);
}

static void admit(void)
{
	close(accept(other, NULL, NULL));
}

static void nothing(void)
{
}

/* Ends, and calls that wait for them. */

static void ends(int a, int b, void (*f)(void))
{
	own = a;
	other = b;
	let = f;
}

static void pipe_ends(int writes)
{
	int fds[2];

	(void)!pipe(fds);
	ends(fds[writes], fds[!writes], writes ? take : give);
}

static void pair_ends(int type, int writes)
{
	int fds[2];

	(void)!socketpair(AF_UNIX, type, 0, fds);
	ends(fds[0], fds[1], writes ? take : give);
}

static void time_set(int option)
{
	struct timeval t = { 5, 0 };

	setsockopt(own, SOL_SOCKET, option, &t, sizeof t);
}

/* Fills an end, so that the next byte waits. */
static void fill(void)
{
	fcntl(own, F_SETFL, O_NONBLOCK);
	while (write(own, data, 4096) > 0)
		;
	fcntl(own, F_SETFL, 0);
}

/* A listener and a socket; full: no further socket may connect. */
static void listener_ends(int full, struct sockaddr_un *a)
{
	static int nr;
	int l = socket(AF_UNIX, SOCK_STREAM, 0), s = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	snprintf(a->sun_path + 1, 50, "interrupt %d %d", (int)getpid(), nr++);
	bind(l, (struct sockaddr *)a, sizeof *a);
	listen(l, full ? 0 : 3);
	if (!full) {
		ends(l, s, dial);
		return;
	}
	(void)!connect(s, (struct sockaddr *)a, sizeof *a);
	ends(socket(AF_UNIX, SOCK_STREAM, 0), l, admit);
}

static long read_by(ssize_t (*f)(int, const struct iovec *, int), int writes)
{
	struct iovec v[2] = { { data, 3 }, { data + 3, 2 } };

	pipe_ends(writes);
	if (writes)
		fill();
	return f(own, v, 2);
}

static long read_timer(void)
{
	uint64_t value;

	ends(timerfd_create(CLOCK_MONOTONIC, 0), -1, tick_once);
	return read(own, &value, sizeof value);
}

static long read_counter(void)
{
	uint64_t value;

	ends(eventfd(0, 0), -1, give);
	other = dup(own);
	return read(own, &value, sizeof value);
}

static long write_counter(void)
{
	uint64_t most = UINT64_MAX - 1;

	ends(eventfd(0, 0), -1, take);
	other = dup(own);
	(void)!write(own, &most, sizeof most);
	most = 1;
	return write(own, &most, sizeof most);
}

static long read_parts(void)
{
	return read_by(readv, 0);
}

static long write_parts(void)
{
	return read_by(writev, 1);
}

static long message(int timed)
{
	struct iovec v = { data, 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	pair_ends(SOCK_STREAM, 0);
	if (timed)
		time_set(SO_RCVTIMEO);
	return recvmsg(own, &m, 0);
}

static long receive_message(void)
{
	return message(0);
}

static long receive_message_timed(void)
{
	return message(1);
}

static long receive_datagram(void)
{
	pair_ends(SOCK_DGRAM, 0);
	return recvfrom(own, data, 4, MSG_TRUNC, NULL, NULL);
}

/* The address is put after the wait. */
static long receive_from(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET }, from = { .sin_family = 0 };
	socklen_t n = sizeof a;
	long rc;
	int error;

	ends(socket(AF_INET, SOCK_DGRAM, 0), -1, give);
	other = socket(AF_INET, SOCK_DGRAM, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bind(own, (struct sockaddr *)&a, n);
	getsockname(own, (struct sockaddr *)&a, &n);
	(void)!connect(other, (struct sockaddr *)&a, n);
	rc = recvfrom(own, data, 10, 0, (struct sockaddr *)&from, &n);
	error = errno;
	printf("	%d %d\n", rc < 0 ? 0 : (int)n, from.sin_family);
	errno = error;
	return rc;
}

static long send_timed(void)
{
	pair_ends(SOCK_STREAM, 1);
	fill();
	time_set(SO_SNDTIMEO);
	return send(own, data, 10, 0);
}

static long send_file(void)
{
	int fd = open("file", O_RDWR | O_CREAT, 0644);
	off_t at = 0;
	long rc;

	(void)!write(fd, data, 100);
	pair_ends(SOCK_STREAM, 1);
	fill();
	rc = sendfile(own, fd, &at, 50);
	close(fd);
	return rc;
}

static long accepts(int timed)
{
	struct sockaddr_un a;
	int fd;

	listener_ends(0, &a);
	if (timed)
		time_set(SO_RCVTIMEO);
	fd = accept4(own, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static long accept_any(void)
{
	return accepts(0);
}

static long accept_timed(void)
{
	return accepts(1);
}

static long connects(int timed)
{
	struct sockaddr_un a;

	listener_ends(1, &a);
	if (timed)
		time_set(SO_SNDTIMEO);
	return connect(own, (struct sockaddr *)&a, sizeof a);
}

static long connect_any(void)
{
	return connects(0);
}

static long connect_timed(void)
{
	return connects(1);
}

static long poll_nested(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int in = epoll_create1(0), out = epoll_create1(0);
	long rc;

	pipe_ends(0);
	epoll_ctl(out, EPOLL_CTL_ADD, in, &e);
	epoll_ctl(in, EPOLL_CTL_ADD, own, &e);
	rc = epoll_wait(out, &e, 1, -1);
	close(in);
	close(out);
	return rc;
}

static long poll_any(void)
{
	struct pollfd p;

	pipe_ends(0);
	p = (struct pollfd) { own, POLLIN, 0 };
	return poll(&p, 1, -1);
}

/* What is left is less, also when a signal has come. */
static long select_left(void)
{
	struct timeval t = { 5, 0 };
	fd_set in;
	long rc;
	int error;

	pipe_ends(0);
	FD_ZERO(&in);
	FD_SET(own, &in);
	rc = select(own + 1, &in, NULL, NULL, &t);
	error = errno;
	printf("	%d left\n", t.tv_sec == 4 && t.tv_usec > 0);
	errno = error;
	return rc;
}

static long lock(void)
{
	int fd = open("lock", O_RDWR | O_CREAT, 0644);

	ends(fd, open("lock", O_RDWR), unlock);
	flock(other, LOCK_EX);
	return flock(own, LOCK_SH);
}

static long wait_signal(void)
{
	siginfo_t info = { .si_signo = 0 };
	sigset_t set;
	long rc;
	int error;

	ends(-1, -1, nothing);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	rc = sigwaitinfo(&set, &info);
	error = errno;
	printf("	%d\n", info.si_signo);
	errno = error;
	return rc;
}

/* The signal is blocked: it is the timer's, by no process. */
static long take_signal(void)
{
	siginfo_t info = { .si_signo = 0 };
	sigset_t set;
	long rc;

	ends(-1, -1, nothing);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	rc = sigwaitinfo(&set, &info);
	printf("	%d %d\n", info.si_code, (int)info.si_pid);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return rc;
}

static const struct {
	const char *name;
	long      (*f)(void);
} list[] = {
	{ "read a timer", read_timer }, { "read a counter", read_counter },
	{ "write a counter", write_counter }, { "readv", read_parts },
	{ "writev", write_parts }, { "recvmsg", receive_message },
	{ "recvmsg with a time", receive_message_timed },
	{ "recvfrom a host", receive_from }, { "recvfrom", receive_datagram },
	{ "send with a time", send_timed }, { "sendfile", send_file },
	{ "accept4", accept_any }, { "accept4 with a time", accept_timed },
	{ "connect", connect_any }, { "connect with a time", connect_timed },
	{ "epoll in epoll", poll_nested }, { "poll", poll_any }, { "select", select_left },
	{ "flock", lock }, { "sigwaitinfo", wait_signal },
	{ "sigwaitinfo, blocked", take_signal },
};

static void tick(int signo)
{
	int error = errno;

	(void)signo;
	if (++ticks == 2)
		let();
	errno = error;
}

static void play(unsigned i, int restart)
{
	struct sigaction a = { .sa_handler = tick, .sa_flags = restart ? SA_RESTART : 0 };
	struct itimerval t = { { 0, tick_us }, { 0, tick_us } }, none = { { 0, 0 }, { 0, 0 } };
	long rc;
	int error, nr;

	ticks = 0;
	let = nothing;
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	rc = list[i].f();
	error = errno;
	nr = ticks;
	setitimer(ITIMER_REAL, &none, NULL);
	printf("%s, %s: %ld %s, %d ticks\n", list[i].name, restart ? "restarted" :
	       "interrupted", rc, rc < 0 ? strerror(error) : "", nr < 3 ? nr : 3);
	if (own >= 0)
		close(own);
	if (other >= 0)
		close(other);
}

/* Calls with a mask. */

static volatile int queued, others;

static void count(int signo)
{
	if (signo == SIGUSR1)
		others++;
	else
		queued++;
}

static long wait_masked(int how, const sigset_t *mask)
{
	struct timespec t = { 0, 1000 };
	struct epoll_event e;
	long rc;
	int ep;

	switch (how) {
	case 0:
		return sigsuspend(mask);
	case 1:
		return ppoll(NULL, 0, &t, mask);
	case 2:
		return pselect(0, NULL, NULL, NULL, &t, mask);
	default:
		ep = epoll_create1(0);
		rc = epoll_pwait(ep, &e, 1, 1, mask);
		close(ep);
		return rc;
	}
}

static void masked(int how, int flags, int two)
{
	struct sigaction a = { .sa_handler = count, .sa_flags = flags };
	sigset_t all, none, now;
	int i;

	queued = others = 0;
	sigemptyset(&none);
	sigfillset(&all);
	sigaction(SIGUSR1, &a, NULL);
	sigaction(SIGRTMIN, &a, NULL);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (i = 0; i < 3; i++) {
		kill(getpid(), SIGRTMIN);
		if (two)
			kill(getpid(), SIGUSR1);
	}
	while (sigpending(&now) == 0 && sigismember(&now, SIGRTMIN)) {
		long rc = wait_masked(how, &none);

		sigprocmask(SIG_BLOCK, NULL, &now);
		printf("masked %d, %#x: %ld, %d %d, %d\n", how, (unsigned)flags, rc, queued,
		       others, sigismember(&now, SIGRTMIN));
	}
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static sigjmp_buf before;

static void leave(int signo)
{
	if (signo == SIGRTMIN)
		raise(SIGUSR1);
	siglongjmp(before, signo == SIGUSR1 ? 1 : 2);
}

static void left(int how, int saves)
{
	struct sigaction a = { .sa_handler = leave };
	sigset_t blocked, none, now;

	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigaddset(&a.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &a, NULL);
	sigaction(SIGRTMIN, &a, NULL);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	kill(getpid(), SIGRTMIN);
	if (sigsetjmp(before, saves) == 0)
		(void)wait_masked(how, &none);
	sigprocmask(SIG_BLOCK, NULL, &now);
	printf("left %d, %d: %d %d %d\n", how, saves, sigismember(&now, SIGRTMIN),
	       sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2));
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void script(void)
{
	unsigned i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 16; i++)
		masked((int)i / 4, i % 2 ? SA_NODEFER : 0, i / 2 % 2);
	for (i = 0; i < 8; i++)
		left((int)i / 2, i % 2);
	for (i = 0; i < sizeof list / sizeof list[0]; i++) {
		play(i, 0);
		play(i, 1);
	}
	fflush(stdout);
}

#if defined(SIMULATED)
static int host(void *unused)
{
	(void)unused;
	script();
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 0;
	usim_client("host", host, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
#else
int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	tick_us = atol(argv[1]);
	script();
	return 0;
}
#endif
