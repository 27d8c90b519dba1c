/* SPDX-License-Identifier: MIT */
/*
 * faults.c: each kind of fault does what usim.h says, and nothing else. FAULT in
 * the environment is the kind, alone in its world, or "bandwidth".
 */

#include "sim.h"
#include <usched/usim.h>
#include <usched/uthread.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 9, SEGMENTS = 30, SEGMENT = 1000, SERVERS = 4 };

static long long now_of(clockid_t clock)
{
	struct timespec t;

	USIM_CHECK(clock_gettime(clock, &t) == 0);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in address(int host)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	at.sin_addr.s_addr = htonl(host == 0 ? 0 : 0x0a000000u + (unsigned)host);
	return at;
}

static int bound(int type)
{
	struct sockaddr_in at = address(0);
	int fd = socket(AF_INET, type, 0);

	USIM_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	if (type == SOCK_STREAM)
		USIM_CHECK(listen(fd, 16) == 0);
	return fd;
}

/* Connects to host 1, and reads for two seconds at most. -1: it does not answer. */
static int dial(void)
{
	struct sockaddr_in at = address(1);
	struct timeval patience = { 2, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			      sizeof patience) == 0);
	if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	close(fd);
	return -1;
}

/* drift: sleeps are as long as the host's clocks say, and not as the true time. */
static void wakes(int signo)
{
	(void)signo;
}

static void waits_for_timer(void)
{
	struct itimerval by = { { 0, 0 }, { 0, 50000 } };

	USIM_CHECK(setitimer(ITIMER_REAL, &by, NULL) == 0);
	USIM_CHECK(pause() == -1 && errno == EINTR);
}

static int drifts(void *unused)
{
	struct pollfd none = { -1, 0, 0 };
	struct timespec t = { 0, 50000000 };
	sigset_t set;
	int i;

	(void)unused;
	sigemptyset(&set);
	signal(SIGALRM, wakes);
	for (i = 0; i < 300; i++) {
		long long steady = now_of(CLOCK_MONOTONIC), wall = now_of(CLOCK_REALTIME);
		utime_ns past = usim_time();

		if (i % 4 == 0)
			usleep(50000);
		else if (i % 4 == 1)
			poll(&none, 1, 50);
		else if (i % 4 == 2)
			USIM_CHECK(sigtimedwait(&set, NULL, &t) == -1);
		else
			waits_for_timer();
		past = usim_time() - past - 50 * UTIME_MS;
		steady = now_of(CLOCK_MONOTONIC) - steady - 50000000;
		wall = now_of(CLOCK_REALTIME) - wall - 50000000;
		USIM_CHECK(steady >= 0 && steady < 3 && wall >= 0 && wall < 3);
		USIM_CHECK(past > -4 * UTIME_MS && past < 4 * UTIME_MS);
		usim_sometimes(past > UTIME_MS, "a clock is slow");
		usim_sometimes(past < -UTIME_MS, "a clock is fast");
		usim_sometimes(past == 0, "a clock is right");
	}
	return 0;
}

/* pause: no thread of a host runs, and then all go on. */

static int waits(void *unused);

static int ticks;

static void *ticker(void *unused)
{
	for (;;) {
		usleep(300);
		ticks++;
	}
	return unused;
}

static int pauses(void *unused)
{
	int i, before;
	utime_ns at;

	(void)unused;
	USIM_CHECK(uthread_make(NULL, ticker, NULL, "ticker") == 0);
	for (i = 0; i < 15000; i++) {
		before = ticks;
		at = usim_time();
		usleep(1000);
		USIM_CHECK(ticks - before < 7);
		usim_sometimes(usim_time() - at > 5 * UTIME_MS, "a host stands still");
	}
	return 0;
}

/*
 * stop: a pause that begins at a step stops the thread there, while its clocks go on,
 * and maybe jump. What was looked at before is old when the thread goes on.
 */

static int stops(void *unused)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i;
	int file = open("file", O_WRONLY | O_CREAT, 0644);
	struct sockaddr_in at = address(2);
	long long steady, wall;

	(void)unused;
	for (i = 0; usim_time() < 20 * UTIME_S; i++) {
		steady = now_of(CLOCK_MONOTONIC);
		wall = now_of(CLOCK_REALTIME);
		if (i % 3 == 0)
			(void)sendto(fd, "", 1, 0, (struct sockaddr *)&at, sizeof at);
		else if (i % 3 == 1)
			USIM_CHECK(pwrite(file, "", 1, 0) == 1);
		else
			usim_sometimes(1, "a state");
		steady = now_of(CLOCK_MONOTONIC) - steady;
		wall = now_of(CLOCK_REALTIME) - wall - steady;
		usim_sometimes(steady > UTIME_S && i % 3 == 0, "a send is old");
		usim_sometimes(steady > UTIME_S && i % 3 == 1, "a write is old");
		usim_sometimes(steady > UTIME_S && i % 3 == 2, "a state is old");
		usim_sometimes(steady > 10 * UTIME_S, "longer than half of the run");
		usim_sometimes(steady > UTIME_S && wall > UTIME_S, "and the clock is fast");
		usim_sometimes(steady > UTIME_S && wall < -UTIME_S, "and the clock is slow");
		usleep(20000);
	}
	return 0;
}

/* late, and jumps while a host is down: see the clock in a file. */

static int boots_late(void *unused)
{
	int file = open("file", O_RDWR | O_CREAT | O_SYNC, 0644);
	long long then[2], now[2];

	(void)unused;
	usim_sometimes(usim_boot() == 1 && usim_time() > UTIME_S, "a host boots late");
	usim_sometimes(usim_boot() == 1 && usim_time() == 0, "a host boots at once");
	USIM_CHECK(usim_time() <= 20 * UTIME_S);
	USIM_CHECK(now_of(CLOCK_MONOTONIC) < 3600 * UTIME_S);
	for (;;) {
		now[0] = now_of(CLOCK_REALTIME);
		now[1] = usim_time();
		if (pread(file, then, sizeof then, 0) == sizeof then &&
		    usim_boot() > 1 && now[1] - then[1] > UTIME_S)
			usim_sometimes(now[0] - then[0] != now[1] - then[1],
				       "a clock jumps while its host is down");
		USIM_CHECK(pwrite(file, now, sizeof now, 0) == sizeof now);
		usleep(50000);
	}
}

/* narrow, and w_bandwidth: segments come one after another. */

static int sends(void *unused)
{
	int listener = bound(SOCK_STREAM), fd, i;
	char data[SEGMENT] = { 0 };

	(void)unused;
	for (;;) {
		fd = accept(listener, NULL, NULL);
		for (i = 0; i < SEGMENTS; i++)
			USIM_CHECK(write(fd, data, SEGMENT) == SEGMENT);
		close(fd);
	}
}

static int measures(void *bandwidth)
{
	char data[SEGMENTS * SEGMENT];
	utime_ns first;
	int i, fd;

	for (i = 0; i < 30; i++) {
		fd = dial();
		USIM_CHECK(fd >= 0 && recv(fd, data, 1, 0) == 1);
		first = usim_time();
		/* 4 KB/s, the least, take 8 s. */
		USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO,
			&(struct timeval) { 20, 0 }, sizeof(struct timeval)) == 0);
		USIM_CHECK(recv(fd, data, sizeof data - 1, MSG_WAITALL) ==
			   sizeof data - 1);
		first = usim_time() - first;
		if (bandwidth != NULL)
			USIM_CHECK(first > 2800 * UTIME_MS && first < 3400 * UTIME_MS);
		usim_sometimes(first > 20 * UTIME_MS, "a line is narrow");
		close(fd);
		usleep(300000);
	}
	return 0;
}

/*
 * forget, crash: a connection whose ends do not know that it is over. A write is
 * answered by RST.
 */

static int echoes;		/* threads that wait for the other end */

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	char byte;

	free(arg);
	echoes++;
	while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
		;
	echoes--;
	close(fd);
	return NULL;
}

static int echo_server(void *unused)
{
	int listener = bound(SOCK_STREAM), *fd;

	(void)unused;
	for (echoes = 0; ; ) {
		fd = malloc(sizeof *fd);
		*fd = accept(listener, NULL, NULL);
		USIM_CHECK(uthread_make(NULL, echo, fd, "echo") == 0);
	}
}

static void talk(int fd)
{
	char byte = 0;
	ssize_t nr;

	do {
		usleep(20000);
		if (write(fd, &byte, 1) != 1)
			return;
		nr = read(fd, &byte, 1);
	} while (nr == 1 && usim_time() < 20 * UTIME_S);
	if (nr == 1)
		return;
	usim_sometimes(errno == EAGAIN, "this end has heard nothing");
	if (errno == EAGAIN) {
		while (write(fd, &byte, 1) == 1 && read(fd, &byte, 1) < 0 &&
		       errno == EAGAIN)
			;
		USIM_CHECK(errno == ECONNRESET || errno == EPIPE);
		return;
	}
	USIM_CHECK(errno == ECONNRESET);
	if (strcmp(getenv("FAULT"), "forget") != 0)
		return;
	sleep(1);
	usim_sometimes(echoes > 0, "the other end has heard nothing");
}

static int talks(void *unused)
{
	int fd;

	(void)unused;
	while (usim_time() < 20 * UTIME_S) {
		fd = dial();
		if (fd >= 0)
			talk(fd);
		if (fd >= 0)
			close(fd);
		usleep(100000);
	}
	return 0;
}

/*
 * dial, dial-reset, dial-forget: an answer to a SYN that is lost with its end lets
 * SYN be sent again. So a connect() without a time-out ends.
 */

static int takes(void *unused)
{
	int listener = bound(SOCK_STREAM), fd;
	char byte;

	(void)unused;
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		USIM_CHECK(read(fd, &byte, 1) <= 0);
		close(fd);
	}
	return 1;
}

static int connects(void *unused)
{
	struct sockaddr_in at = address(1);
	utime_ns began;
	int fd, rc;

	(void)unused;
	while (usim_time() < 21 * UTIME_S) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		began = usim_time();
		rc = connect(fd, (struct sockaddr *)&at, sizeof at);
		USIM_CHECK(rc == 0 || (errno == ECONNREFUSED &&
				       strcmp(getenv("FAULT"), "dial") == 0));
		usim_sometimes(rc == 0 && usim_time() - began > 400 * UTIME_MS,
			       "a SYN or its answer is lost");
		close(fd);
	}
	return 0;
}

/* swizzle, lost: each server says each 5 ms that it is there. */

static int casts(void *unused)
{
	struct sockaddr_in at = address(SERVERS + 1);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), me = usim_self();

	for (;;) {
		(void)sendto(fd, &me, sizeof me, 0, (struct sockaddr *)&at, sizeof at);
		usleep(5000);
	}
	return unused != NULL;
}

static utime_ns heard[SERVERS + 1], silent[SERVERS + 1];
static utime_ns down[SERVERS + 1], up[SERVERS + 1];	/* the last silence */

/* A server is heard again. Compares its silence with those that it has overlapped. */
static void back(int host)
{
	const utime_ns clear = 20 * UTIME_MS;
	bool sooner;
	int i;

	for (i = 1; i <= SERVERS; i++) {
		sooner = up[i] > silent[host] && heard[host] - up[i] > clear;
		usim_sometimes(sooner && down[i] < silent[host] - clear,
			       "what was cut sooner comes back sooner");
		usim_sometimes(sooner && down[i] > silent[host] + clear,
			       "what was cut later comes back sooner");
	}
	down[host] = silent[host];
	up[host] = heard[host];
	silent[host] = 0;
}

static int listens(void *core)
{
	int fd = bound(SOCK_DGRAM), host, i, there = 0;
	struct pollfd p = { fd, POLLIN, 0 };

	while (usim_time() < 21 * UTIME_S) {
		host = 0;
		if (poll(&p, 1, 1) > 0)
			USIM_CHECK(read(fd, &host, sizeof host) == sizeof host);
		heard[host] = usim_time();
		if (silent[host] > 0)
			back(host);
		for (i = 1; i <= SERVERS; i++)
			if (silent[i] == 0 && usim_time() - heard[i] > 12 * UTIME_MS)
				silent[i] = heard[i] + 1;
	}
	for (i = 1; i <= SERVERS; i++)
		there += silent[i] == 0;
	USIM_CHECK(there == SERVERS || core != NULL);
	USIM_CHECK(there >= SERVERS - 1);
	usim_sometimes(there < SERVERS || core == NULL, "a server is lost");
	return 0;
}

/*
 * split: each of five servers and two clients says each 5 ms to all others that it is
 * there. One client looks at who hears whom, and finds each shape.
 */

enum { CIRCLE = 5, ALL = CIRCLE + 2 };

#define SHORT	(5 * UTIME_S)		/* w_run */

static utime_ns last_heard[ALL + 1][ALL + 1];

static void *hears_all(void *unused)
{
	int fd = bound(SOCK_DGRAM), me = usim_self(), from;

	while (read(fd, &from, sizeof from) == sizeof from)
		last_heard[me][from] = usim_time();
	return unused;
}

static void says_to_all(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), me = usim_self(), i;

	USIM_CHECK(uthread_make(NULL, hears_all, NULL, "hears") == 0);
	while (usim_time() < SHORT + UTIME_S || me <= CIRCLE) {
		for (i = 1; i <= ALL; i++) {
			struct sockaddr_in at = address(i);

			if (i != me)
				(void)sendto(fd, &me, sizeof me, 0,
					     (struct sockaddr *)&at, sizeof at);
		}
		usleep(5000);
	}
}

static int speaks(void *unused)
{
	(void)unused;
	says_to_all();
	return 0;
}

static int hears(int to, int from)
{
	return to == from || usim_time() - last_heard[to][from] < 8 * UTIME_MS;
}

/* Returns how many servers hear this, and are heard by it. */
static int degree(int host)
{
	int i, nr = 0;

	for (i = 1; i <= CIRCLE; i++)
		nr += i != host && hears(host, i) && hears(i, host);
	return nr;
}

static void shapes(int *changes, int *was)
{
	int degrees[CIRCLE] = { 0 }, i, j, clients = 0, one_way = 0, links = 0;

	for (i = 1; i <= CIRCLE; i++)
		degrees[degree(i)]++;
	for (i = 1; i <= ALL; i++)
		for (j = 1; j <= ALL; j++) {
			one_way += hears(i, j) && !hears(j, i);
			links = 2 * links % 1000003 + hears(i, j);
		}
	for (i = 1; i <= CIRCLE; i++)
		clients += degree(i) == 0 && (hears(i, ALL) || hears(i, ALL - 1));
	USIM_CHECK(hears(ALL, ALL - 1) && hears(ALL - 1, ALL));
	*changes += links != *was;
	*was = links;
	usim_sometimes(one_way > 0, "one way");
	usim_sometimes(degrees[2] == 3 && degrees[1] == 2, "halves");
	usim_sometimes(degrees[3] == 4 && degrees[0] == 1 && clients == 1,
		       "one alone with a client");
	usim_sometimes(degrees[4] == 1 && degrees[3] + degrees[2] + degrees[1] == 4,
		       "a bridge");
	usim_sometimes(degrees[2] == 5, "a ring of majorities");
	usim_sometimes(*changes > 5, "a split that flaps");
}

static void *looks(void *unused)
{
	int changes = 0, was = 0, i, j;

	usleep(20000);
	while (usim_time() < SHORT) {
		shapes(&changes, &was);
		usleep(5000);
	}
	usleep(500000);
	for (i = 1; i <= ALL; i++)
		for (j = 1; j <= ALL; j++)
			USIM_CHECK(hears(i, j));
	return unused;
}

static int watches(void *unused)
{
	(void)unused;
	if (usim_self() == ALL)
		USIM_CHECK(uthread_make(NULL, looks, NULL, "looks") == 0);
	says_to_all();
	return 0;
}

/*
 * crash, at steps. No time passes between the two notes, so nothing else can
 * come between them.
 */

static int begun[USIM_HOSTS + 1], done[USIM_HOSTS + 1], what[USIM_HOSTS + 1];

static int steps(void *unused)
{
	struct sockaddr_in at = address(SERVERS + 1);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), me = usim_self();
	int file = open("file", O_WRONLY | O_CREAT, 0644);

	(void)unused;
	if (begun[me] > done[me]) {
		usim_sometimes(what[me] == 0, "a crash at a send");
		usim_sometimes(what[me] == 1, "a crash at a state");
		usim_sometimes(what[me] == 2, "a crash at a write");
		begun[me] = done[me];
	}
	for (;;) {
		what[me] = (int)usim_random(3);
		begun[me]++;
		if (what[me] == 0)
			(void)sendto(fd, &me, sizeof me, 0, (struct sockaddr *)&at,
				     sizeof at);
		else if (what[me] == 1)
			usim_sometimes(1, "a state");
		else
			USIM_CHECK(pwrite(file, &me, sizeof me, 0) == sizeof me);
		done[me]++;
		usleep(10000);
	}
}

static int waits(void *unused)
{
	(void)unused;
	sleep(21);
	return 0;
}

/*
 * bound: a crash comes after the fault before it, to the same host or to another, and
 * hosts see that: a boot soon after a boot, or soon after that of another.
 */

static utime_ns booted[USIM_HOSTS + 1];
static bool named_rare, named_often;

static int rises(void *unused)
{
	int me = usim_self(), i;

	(void)unused;
	usim_sometimes(booted[me] > 0 && usim_time() - booted[me] < 20 * UTIME_MS,
		       "a host crashes again soon");
	booted[me] = usim_time();
	for (i = 0; ; i++) {
		usim_sometimes(1, "often");
		usim_sometimes(i == 20, "rare");
		usleep(50000);
	}
	return 0;
}

static void bond(const struct sim_fault *f)
{
	utime_ns from = f[-1].f_begin + (f->f_from_end ? f[-1].f_length : 0);

	USIM_CHECK((f->f_met == f[-1].f_met) == (f->f_bound == SAME));
	USIM_CHECK(f->f_begin >= from + f->f_gap);
	USIM_CHECK(f->f_step != AT_TIME || f->f_begin == from + f->f_gap);
	usim_sometimes(f->f_bound == SAME && f->f_from_end, "the same, after its end");
	usim_sometimes(f->f_bound == OTHER && !f->f_from_end, "another, meanwhile");
	usim_sometimes(f->f_bound == OTHER && f->f_step == AT_STATE, "another, at a state");
}

static int sees_bonds(void *unused)
{
	const struct sim_fault *f;

	waits(unused);
	for (f = sim_report->p_faults; f < sim_report->p_faults + sim_report->p_fault_nr; f++) {
		if (f->f_begin > 0 && f->f_bound != FREE)
			bond(f);
		named_rare |= f->f_state != NULL && strcmp(f->f_state, "rare") == 0;
		named_often |= f->f_state != NULL && f->f_names &&
			strcmp(f->f_state, "often") == 0;
	}
	usim_sometimes(named_rare, "a fault at a state that is rare");
	usim_sometimes(named_often, "a fault at a state that is often");
	return 0;
}

/* slow: a sync takes longer than it does on any other disk. */
static int syncs(void *unused)
{
	int file = open("file", O_WRONLY | O_CREAT, 0644), i;
	utime_ns at;

	(void)unused;
	for (i = 0; i < 200; i++) {
		USIM_CHECK(write(file, "x", 1) == 1);
		at = usim_time();
		USIM_CHECK(fsync(file) == 0);
		usim_sometimes(usim_time() - at > 5 * UTIME_MS, "a sync is slow");
		usleep(50000);
	}
	return 0;
}

static const struct world {
	const char *name, *only;
	int       (*server)(void *), (*client)(void *);
	int         servers;
} worlds[] = {
	{ "drift",	"drift",	drifts,		waits,		SERVERS },
	{ "pause",	"pause",	pauses,		waits,		1 },
	{ "stop",	"pause clock",	stops,		waits,		1 },
	{ "late",	"late crash clock",	boots_late,	waits,	2 },
	{ "narrow",	"narrow",	sends,		measures,	1 },
	{ "bandwidth",	"crash",	sends,		measures,	1 },
	{ "forget",	"forget",	echo_server,	talks,		1 },
	{ "open",	"crash",	echo_server,	talks,		1 },
	{ "dial",		"crash cut",	takes,		connects,	1 },
	{ "dial-reset", "reset",	takes,		connects,	1 },
	{ "dial-forget", "forget",	takes,		connects,	1 },
	{ "swizzle",	"swizzle",	casts,		listens,	SERVERS },
	{ "lost",	"lost",		casts,		listens,	SERVERS },
	{ "split",	"split",	speaks,		watches,	CIRCLE },
	{ "step",	"crash",	steps,		waits,		SERVERS },
	{ "bound",	"crash pause",	rises,	sees_bonds,	SERVERS },
	{ "slow",	"slow",		syncs,		waits,		1 },
};

static void setup(struct usim_world *w)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	const char *name = getenv("FAULT");
	const struct world *p = worlds;
	int i;

	while (strcmp(p->name, name) != 0)
		p++;
	w->w_only = p->only;
	w->w_faults = 20;
	w->w_latency_min = w->w_latency_max = UTIME_MS;
	if (p->client == connects)
		w->w_latency_min = w->w_latency_max = 200 * UTIME_MS;
	if (strcmp(name, "swizzle") == 0 || strcmp(name, "split") == 0)
		w->w_faults = 1;
	if (strcmp(name, "lost") == 0)
		w->w_core = SERVERS - 1;
	if (strcmp(name, "bandwidth") == 0) {
		w->w_bandwidth = SEGMENT / 3 * SEGMENTS;
		w->w_quiet = 200 * UTIME_S;
		w->w_faults = 0;
	}
	for (i = 0; i < p->servers; i++)
		usim_host(names[i], p->server, NULL);
	if (p->client == watches)
		w->w_run = SHORT;
	if (p->client == watches)
		usim_client("other", watches, NULL);
	usim_client("client", p->client, w->w_core > 0 || w->w_bandwidth > 0 ? w : NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
