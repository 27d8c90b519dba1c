/* SPDX-License-Identifier: MIT */
/*
 * block.c: calls that wait do in a host what they do on Linux. A script has many
 * rounds. In each a thread makes a call on one end of a connection, and after a
 * while another thread does something at the other end. Both programs print whether
 * the call has waited until then, whether it has ended then, and its result.
 *
 * In other rounds the program's first thread makes the call, and a timer interrupts
 * it, with SA_RESTART and without. The second tick does something at the other end.
 * Printed are the result and the ticks that have come by then.
 *
 *	block SEED ROUNDS US	on this machine, with so many microseconds for a while
 *	block --seed SEED	in a host; ROUNDS are in the environment
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#if defined(SIMULATED)
#include <usched/usim.h>
#endif

enum { LARGE = 3000000 };

enum kind { TCP, LOCAL, PACKETS, LOCAL_DATAGRAMS, DATAGRAMS, PIPE, COUNTER, FILES,
	    LISTENER, LOCAL_LISTENER, FULL_LISTENER, FULL_TCP, KINDS };

static const char *const kind_names[KINDS] = {
	"tcp", "unix", "seqpacket", "unix datagrams", "udp", "pipe", "eventfd",
	"flock", "listener", "unix listener", "full unix listener",
	"full listener"
};

enum call { READ, ALL, PEEK, POLL, POLL_TIME, SELECT, EPOLL, MESSAGE, READ_TIME,
	    LINGER, WRITE, WRITE_TIME, CALLS };

static const char *const call_names[CALLS] = {
	"read", "recv all", "peek", "poll", "poll for a time", "select", "epoll",
	"recvmsg", "read for a time", "close with a lot to send", "write",
	"write for a time"
};

enum act { SOME, TWICE, NO_MORE, NO_READ, CLOSE, RESET, DRAIN, ACTS };

static const char *const act_names[ACTS] = {
	"sends", "sends twice", "shuts for writes", "shuts for reads", "closes",
	"resets", "reads"
};

/* Calls that wait for a time or a signal. */
enum wait { NAP, NAP_UNTIL, DOZE, SLEEP, PAUSE, SUSPEND, SIGWAIT, SIGWAIT_OTHER,
	    POLL_MASK, POLL_BLOCKED, SELECT_MASK, EPOLL_MASK, POLL_LATE, SELECT_LATE,
	    EPOLL_LATE, ALARM, LEFT, WAITS };

static const char *const wait_names[WAITS] = {
	"nanosleep", "clock_nanosleep", "usleep", "sleep", "pause", "sigsuspend",
	"sigtimedwait", "sigtimedwait for another", "ppoll", "ppoll, blocked",
	"pselect", "epoll_pwait", "ppoll, late", "pselect, late",
	"epoll_pwait, late", "alarm", "getitimer"
};

/* A round. Not on a stack, since two threads have it. */
struct round {
	enum kind kind;
	enum call call;
	enum act  act;
	int       own, other;
	long      rc;
	int       error;
	int       done;
	char      data[LARGE];
};

static uint64_t state;
static useconds_t moment = 25000;	/* us, until the other end acts */
static unsigned fifths = 2;		/* of this, until a call's time is over */

static unsigned below(unsigned nr)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((state >> 33) % nr);
}

/* The call. */

static long wait_by_epoll(int fd)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP }, got = { 0, { 0 } };
	int ep = epoll_create1(0);
	long rc = epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0 ? -1 :
		epoll_wait(ep, &got, 1, -1);

	close(ep);
	return rc < 0 ? rc : rc << 16 | got.events;
}

static long wait_by_select(int fd)
{
	fd_set in;
	int rc;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	rc = select(fd + 1, &in, NULL, NULL, NULL);
	return rc < 0 ? rc : rc << 8 | FD_ISSET(fd, &in);
}

static long wait_by_poll(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };
	int rc = poll(&p, 1, ms);

	return rc < 0 ? rc : rc << 16 | p.revents;
}

static long receive(int fd, char *data)
{
	struct iovec v = { data, 40 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	long rc = recvmsg(fd, &m, 0);

	return rc < 0 ? rc : rc << 16 | m.msg_flags;
}

static void time_set(int fd, int option)
{
	struct timeval t = { 0, (suseconds_t)(moment * fifths / 5) };

	setsockopt(fd, SOL_SOCKET, option, &t, sizeof t);
}

/* What is written in part depends on the memory of sockets. */
static long put(int fd, char *data, size_t size)
{
	long rc = write(fd, data, size);

	return rc <= 0 || rc == (long)size ? rc : 1;
}

/* Closes an end whose other end takes no more. */
static long linger(struct round *r)
{
	struct linger l = { 1, 3 };
	int fd = r->own;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, r->data, LARGE) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
	r->own = -1;
	return close(fd);
}

static long make_call(struct round *r)
{
	char *data = r->data;
	int fd = r->own;

	if (r->kind == FILES)
		return flock(fd, LOCK_EX);
	if (r->kind == FULL_LISTENER)
		return connect(fd, (struct sockaddr *)data, sizeof(struct sockaddr_un));
	if (r->kind == FULL_TCP)
		return connect(fd, (struct sockaddr *)data, sizeof(struct sockaddr_in));
	if (r->kind >= LISTENER && r->call != POLL && r->call != SELECT) {
		fd = accept(fd, NULL, NULL);
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : 0;
	}
	switch (r->call) {
	case READ:	return read(fd, data, 8);
	case ALL:	return recv(fd, data, 8, MSG_WAITALL);
	case PEEK:	return recv(fd, data, 8, MSG_PEEK);
	case POLL:	return wait_by_poll(fd, -1);
	case POLL_TIME:	return wait_by_poll(fd, (int)(moment / 1000 * fifths / 5));
	case SELECT:	return wait_by_select(fd);
	case EPOLL:	return wait_by_epoll(fd);
	case MESSAGE:	return receive(fd, data);
	case LINGER:	return linger(r);
	case READ_TIME:
		time_set(fd, SO_RCVTIMEO);
		return read(fd, data, 8);
	case WRITE_TIME:
		time_set(fd, SO_SNDTIMEO);
		return put(fd, data, LARGE);
	default:
		return put(fd, data, LARGE);
	}
}

static void *caller(void *arg)
{
	struct round *r = arg;

	r->rc = make_call(r);
	r->error = errno;
	__atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* What is done at the other end. */

static void some(struct round *r)
{
	uint64_t value = 3;

	(void)!write(r->other, &value, r->kind == COUNTER ? sizeof value : 5);
}

static void drain(struct round *r)
{
	static char data[65536];
	int end;

	fcntl(r->other, F_SETFL, O_NONBLOCK);
	for (end = 0; end < 20; end++) {
		while (read(r->other, data, sizeof data) > 0)
			end = 0;
		usleep(500);
	}
}

static void act(struct round *r)
{
	struct linger l = { 1, 0 };

	switch (r->act) {
	case TWICE:
		some(r);
		usleep(moment / 5);
		some(r);
		break;
	case SOME:
		some(r);
		break;
	case NO_MORE:
		shutdown(r->other, SHUT_WR);
		break;
	case NO_READ:
		shutdown(r->other, SHUT_RD);
		break;
	case DRAIN:
		drain(r);
		break;
	case RESET:
		setsockopt(r->other, SOL_SOCKET, SO_LINGER, &l, sizeof l);
		/* fall through */
	default:
		close(r->other);
		r->other = -1;
	}
}

/* At a listener it is a client, or its end; at a lock, its release. */
static void act_apart(struct round *r)
{
	struct sockaddr_un a;
	socklen_t n = sizeof a;
	int fd;

	if (r->kind == FILES) {
		if (r->act == CLOSE)
			act(r);
		else
			flock(r->other, LOCK_UN);
	} else if (r->kind == FULL_LISTENER || r->kind == FULL_TCP) {
		fd = accept(r->other, NULL, NULL);
		close(fd);
	} else if (r->act == NO_READ || r->act == CLOSE) {
		shutdown(r->own, SHUT_RD);
	} else {
		getsockname(r->own, (struct sockaddr *)&a, &n);
		(void)!connect(r->other, (struct sockaddr *)&a, n);
	}
}

/* Two ends. */

/* Linux takes all of a large write, unless it is told not to. */
static void small(int fd)
{
	int size = 65536;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static int tcp_listener(struct sockaddr_in *a, int backlog)
{
	socklen_t n = sizeof *a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in) { .sin_family = AF_INET };
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	small(fd);
	bind(fd, (struct sockaddr *)a, n);
	listen(fd, backlog);
	getsockname(fd, (struct sockaddr *)a, &n);
	return fd;
}

static void connected(struct round *r)
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 3), on = 1;

	r->own = socket(AF_INET, SOCK_STREAM, 0);
	small(r->own);
	(void)!connect(r->own, (struct sockaddr *)&a, sizeof a);
	r->other = accept(l, NULL, NULL);
	setsockopt(r->other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	close(l);
}

static void datagrams(struct round *r)
{
	struct sockaddr_in a[2];
	int fds[2], i;

	for (i = 0; i < 2; i++) {
		socklen_t n = sizeof a[i];

		fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
		a[i] = (struct sockaddr_in) { .sin_family = AF_INET };
		a[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		bind(fds[i], (struct sockaddr *)&a[i], n);
		getsockname(fds[i], (struct sockaddr *)&a[i], &n);
	}
	(void)!connect(fds[0], (struct sockaddr *)&a[1], sizeof a[1]);
	(void)!connect(fds[1], (struct sockaddr *)&a[0], sizeof a[0]);
	r->own = fds[0];
	r->other = fds[1];
}

/* A listener with a name of this process; full: it takes no more. */
static int unix_listener(struct round *r, int full)
{
	struct sockaddr_un *a = (struct sockaddr_un *)r->data;
	static int nr;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	snprintf(a->sun_path + 1, 50, "block %d %d", (int)getpid(), nr++);
	bind(fd, (struct sockaddr *)a, sizeof *a);
	listen(fd, full ? 0 : 3);
	return fd;
}

static void ends_make(struct round *r)
{
	struct sockaddr_in a;
	int fds[2] = { -1, -1 };

	switch (r->kind) {
	case TCP:
		connected(r);
		return;
	case DATAGRAMS:
		datagrams(r);
		return;
	case LOCAL:
	case PACKETS:
	case LOCAL_DATAGRAMS:
		(void)!socketpair(AF_UNIX, r->kind == LOCAL ? SOCK_STREAM :
			r->kind == PACKETS ? SOCK_SEQPACKET : SOCK_DGRAM, 0, fds);
		break;
	case PIPE:
		(void)!pipe(fds);
		break;
	case COUNTER:
		fds[0] = eventfd(0, 0);
		fds[1] = dup(fds[0]);
		break;
	case FILES:
		fds[0] = open("lock", O_RDWR | O_CREAT, 0644);
		fds[1] = open("lock", O_RDWR);
		flock(fds[1], below(2) ? LOCK_EX : LOCK_SH);
		break;
	case LISTENER:
		fds[0] = tcp_listener(&a, 3);
		fds[1] = socket(AF_INET, SOCK_STREAM, 0);
		break;
	case LOCAL_LISTENER:
		fds[0] = unix_listener(r, 0);
		fds[1] = socket(AF_UNIX, SOCK_STREAM, 0);
		break;
	case FULL_TCP:
		fds[1] = tcp_listener((struct sockaddr_in *)r->data, 0);
		fds[0] = socket(AF_INET, SOCK_STREAM, 0);
		(void)!connect(fds[0], (struct sockaddr *)r->data, sizeof a);
		fds[0] = socket(AF_INET, SOCK_STREAM, 0);
		break;
	default:
		fds[1] = unix_listener(r, 1);
		fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
		(void)!connect(fds[0], (struct sockaddr *)r->data,
			       sizeof(struct sockaddr_un));
		fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	}
	/* A pipe is written at one end only. */
	r->own = r->kind == PIPE && r->call >= WRITE ? fds[1] : fds[0];
	r->other = r->own == fds[0] ? fds[1] : fds[0];
}

/* Returns whether a round says something: not all calls fit all kinds. */
static int fits(const struct round *r)
{
	int socket = r->kind <= DATAGRAMS;

	if (r->kind >= FILES)
		return r->act < DRAIN;
	if (r->kind == COUNTER && (r->act > TWICE || r->call >= WRITE))
		return 0;
	if (r->call == LINGER)
		return r->kind == TCP;
	if (!socket && (r->call == ALL || r->call == PEEK || r->call == MESSAGE ||
			r->call == READ_TIME || r->call == WRITE_TIME ||
			r->act == NO_MORE || r->act == NO_READ || r->act == RESET))
		return 0;
	/* Written are streams: a datagram of this size is too large. */
	if (r->call >= WRITE && r->kind != TCP && r->kind != LOCAL && r->kind != PIPE)
		return 0;
	return r->kind != PIPE || (r->call < WRITE) == (r->act != DRAIN);
}

static int is_done(struct round *r)
{
	return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE);
}

/* What still waits ends with its end, or is given what it waits for. */
static void give_up(struct round *r)
{
	if (r->kind >= FILES)
		return;
	shutdown(r->own, SHUT_RDWR);
	if (r->other >= 0)
		some(r);
	usleep(100);			/* that arrives */
	if (r->other >= 0)
		close(r->other);
	r->other = -1;
}

static void say(const struct round *r)
{
	printf("%s, %s, %s: ", kind_names[r->kind],
	       r->kind < FILES || r->call == POLL || r->call == SELECT ?
	       call_names[r->call] : "itself", act_names[r->act]);
}

static void play(struct round *r)
{
	pthread_t t;
	int before, after;

	ends_make(r);
	r->done = 0;
	pthread_create(&t, NULL, caller, r);
	usleep(moment);
	before = is_done(r);
	if (r->kind >= FILES)
		act_apart(r);
	else
		act(r);
	usleep(moment);
	after = is_done(r);
	if (!after)
		give_up(r);
	pthread_join(t, NULL);
	say(r);
	printf("%s, ", before ? "at once" : "waits");
	if (after)
		printf("%ld %s\n", r->rc, r->rc < 0 ? strerror(r->error) : "");
	else
		puts("waits on");
	close(r->own);
	if (r->other >= 0)
		close(r->other);
}

/* Rounds with signals. */

static struct round *interrupted;	/* or NULL */
static volatile int ticks;

static void tick(int signo)
{
	struct round *r = interrupted;
	int error = errno;

	(void)signo;
	ticks++;
	if (r != NULL && ticks == 2 && r->kind >= FILES)
		act_apart(r);
	else if (r != NULL && ticks == 2)
		act(r);
	else if (r != NULL && ticks == 4)
		give_up(r);
	usleep(100);			/* that arrives */
	errno = error;
}

/* Lets ticks come; 0: none more. */
static void ticks_set(useconds_t us, int restart)
{
	struct sigaction a = { .sa_handler = tick, .sa_flags = restart ? SA_RESTART : 0 };
	struct itimerval t = { { 0, us }, { 0, us } };

	sigaction(SIGALRM, &a, NULL);
	ticks = 0;
	setitimer(ITIMER_REAL, &t, NULL);
}

static void ticks_say(long rc, int error, int nr)
{
	printf("%ld %s, %d ticks\n", rc, rc < 0 ? strerror(error) : "",
	       nr < 3 ? nr : 3);
}

static void play_interrupted(struct round *r)
{
	int restart = below(2) == 0, nr;

	fifths = below(2) == 0 ? 2 : 8;
	ends_make(r);
	interrupted = r;
	ticks_set(moment, restart);
	r->rc = make_call(r);
	r->error = errno;
	nr = ticks;
	interrupted = NULL;
	ticks_set(0, restart);
	say(r);
	printf("%s, ", restart ? "restarted" : "interrupted");
	ticks_say(r->rc, r->error, nr);
	close(r->own);
	if (r->other >= 0)
		close(r->other);
	fifths = 2;
}

static struct timespec part_of(useconds_t us)
{
	return (struct timespec) { us / 1000000, us % 1000000 * 1000 };
}

static long nap(void)
{
	struct timespec t = part_of(moment * 8 / 5), left = { 9, 0 };
	long rc = nanosleep(&t, &left);

	return rc == 0 ? 0 : left.tv_sec == 0 && left.tv_nsec > 0 &&
		left.tv_nsec < moment * 800L ? -1 : -2;
}

static long nap_until(void)
{
	struct timespec t, part = part_of(moment * 8 / 5);

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (t.tv_nsec + part.tv_nsec) / 1000000000 + part.tv_sec;
	t.tv_nsec = (t.tv_nsec + part.tv_nsec) % 1000000000;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	return errno == 0 ? 0 : -1;
}

static long sigwait_by(int signo)
{
	struct timespec t = part_of(moment * 8 / 5);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	return sigtimedwait(&set, NULL, &t);
}

/* Waits with a mask, for a time or not at all. */
static long masked(enum wait wait, const struct timespec *t, const sigset_t *mask)
{
	struct epoll_event e;
	int ep = epoll_create1(0), error;
	long rc;

	rc = wait == SELECT_MASK || wait == SELECT_LATE ?
		pselect(0, NULL, NULL, NULL, t, mask) :
		wait == EPOLL_MASK || wait == EPOLL_LATE ?
		epoll_pwait(ep, &e, 1, t->tv_nsec == 0 ? 0 :
			    (int)(moment * 8 / 5000), mask) :
		ppoll(NULL, 0, t, mask);
	error = errno;
	close(ep);
	errno = error;
	return rc;
}

static long late(enum wait wait, const sigset_t *mask)
{
	struct timespec t = part_of(moment * 6 / 5), none = { 0, 0 };

	nanosleep(&t, NULL);
	return masked(wait, &none, mask);
}

/* The timer is the same as that of the ticks. */
static long alarms(void)
{
	struct itimerval t;

	alarm(5);
	usleep(moment / 10);
	getitimer(ITIMER_REAL, &t);
	return alarm(0) * 100 + (unsigned)t.it_value.tv_sec * 10 + alarm(0);
}

static long left(void)
{
	struct itimerval t = { { 7, 0 }, { 9, 0 } }, was;

	setitimer(ITIMER_REAL, &t, &was);
	usleep(moment / 10);
	getitimer(ITIMER_REAL, &t);
	return (was.it_value.tv_sec == 0 && was.it_value.tv_usec <= (long)moment) * 100 +
		t.it_value.tv_sec * 10 + t.it_interval.tv_sec +
		(was.it_interval.tv_usec == (long)moment);
}

static long make_wait(enum wait wait, const sigset_t *mask)
{
	struct timespec t = part_of(moment * 8 / 5);

	switch (wait) {
	case NAP:		return nap();
	case NAP_UNTIL:		return nap_until();
	case DOZE:		return usleep(moment * 8 / 5);
	case SLEEP:		return sleep(2);
	case PAUSE:		return pause();
	case SUSPEND:		return sigsuspend(mask);
	case SIGWAIT:		return sigwait_by(SIGALRM);
	case SIGWAIT_OTHER:	return sigwait_by(SIGUSR1);
	case POLL_BLOCKED:	return masked(wait, &t, NULL);
	case POLL_LATE:
	case SELECT_LATE:
	case EPOLL_LATE:	return late(wait, mask);
	case ALARM:		return alarms();
	case LEFT:		return left();
	default:		return masked(wait, &t, mask);
	}
}

/* In some calls the signal is blocked before, and not meanwhile. */
static void play_wait(void)
{
	enum wait wait = (enum wait)below(WAITS);
	int restart = below(2) == 0, error, nr;
	int blocks = wait >= SUSPEND && wait <= EPOLL_LATE && wait != SIGWAIT_OTHER;
	sigset_t set, before;
	long rc;

	sigemptyset(&set);
	sigaddset(&set, blocks ? SIGALRM : SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &before);
	ticks_set(moment, restart);
	rc = make_wait(wait, &before);
	error = errno;
	nr = ticks;
	setitimer(ITIMER_REAL, &(struct itimerval) { { 0, 0 }, { 0, 0 } }, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	printf("%s, %s, then %d: ", wait_names[wait],
	       restart ? "restarted" : "interrupted", ticks - nr);
	ticks_say(rc, error, nr);
}

static void script(int rounds)
{
	static struct round r;

	signal(SIGPIPE, SIG_IGN);
	while (rounds > 0) {
		if (below(8) == 0) {
			play_wait();
			rounds--;
			continue;
		}
		r.kind = (enum kind)below(KINDS);
		r.call = (enum call)below(CALLS);
		r.act = (enum act)below(ACTS);
		if (!fits(&r))
			continue;
		if (below(2) == 0)
			play_interrupted(&r);
		else
			play(&r);
		rounds--;
	}
	fflush(stdout);
}

#if defined(SIMULATED)
static int host(void *unused)
{
	(void)unused;
	script(atoi(getenv("ROUNDS")));
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_faults = 0;
	w->w_latency_max = w->w_latency_min;
	usim_client("host", host, NULL);
}

int main(int argc, char **argv)
{
	state = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	return usim_main(argc, argv, setup);
}
#else
int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	moment = (useconds_t)atoi(argv[3]);
	state = strtoull(argv[1], NULL, 10);
	script(atoi(argv[2]));
	return 0;
}
#endif
