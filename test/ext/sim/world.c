/* SPDX-License-Identifier: MIT */
/*
 * world.c: time, threads, faults and the end of hosts are as usim.h says. The
 * hosts of one world each check a claim, under faults of all kinds. FAILURE in
 * the environment asks for a failure of the run, by name.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <usched/usim.h>
#include <usched/uchan.h>
#include <usched/uscope.h>
#include <usched/usync.h>
#include <usched/uthread.h>
#include "dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 9, ROUNDS = 40, DATAGRAMS = 2000 };

static volatile int *poked;

static void *nothing(void *arg)
{
	return arg;
}

/* What is simulated in part fails beyond that. */
static void fails_in_part(const char *how)
{
	int fd = open("file", O_RDWR | O_CREAT, 0644), fds[2];

	if (strcmp(how, "mapped") == 0 &&
	    mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED)
		(void)!write(fd, how, 1);
	if (strcmp(how, "writable") == 0)
		(void)mmap(NULL, 1, PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(how, "alarm") == 0)
		alarm(1), pause();
	if (strcmp(how, "pipe") == 0 && pipe(fds) == 0 && close(fds[0]) == 0)
		(void)!write(fds[1], how, 1);
	close(fd);
}

/* Writes to the stack of a thread that waits. */
static void *poke(void *unused)
{
	*poked = 1;
	return unused;
}

static int breaks_law(void)
{
	volatile int word = 0;

	poked = &word;
	USIM_CHECK(uthread_make(NULL, poke, NULL, "poke") == 0);
	usleep(1000);
	return 0;
}

/* Fails as it was asked to. */
static int fails(const char *how)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	fails_in_part(how);
	if (strcmp(how, "fork") == 0)
		return fork() != 0;
	if (strcmp(how, "option") == 0)
		return setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one);
	if (strcmp(how, "threads") == 0)
		return pthread_create(&(pthread_t) { 0 }, NULL, nothing, NULL);
	if (strcmp(how, "outside") == 0)	/* libc's own call, which no flag leads */
		return umount("nothing");
	while (strcmp(how, "loop") == 0)
		(void)time(NULL);
	while (strcmp(how, "stuck") == 0)
		sleep(1);
	if (strcmp(how, "spin") == 0)
		for (sleep(1);;)
			(void)getenv("FAILURE");
	if (strcmp(how, "status") == 0)
		exit(3);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "law") == 0)
		return breaks_law();
	if (strcmp(how, "check") == 0)
		USIM_CHECK(1 == 2);
	if (strcmp(how, "name") == 0)
		usim_sometimes(1, "a name that is too long for all tables here: "
			       "80 characters, and 79 are the most.");
	usim_sometimes(0, "never");
	return 0;
}

/* Time: sleeps take what they say, by each clock. */

static long long now_of(clockid_t clock)
{
	struct timespec t;

	USIM_CHECK(clock_gettime(clock, &t) == 0);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A wait that is over before it begins takes no time. */
static void canceled(void)
{
	long long at = now_of(CLOCK_MONOTONIC);
	struct uscope *s;

	USIM_CHECK(uscope_begin(&s, UNEVER) == 0);
	uscope_cancel(s);
	USIM_CHECK(u_wait_until(UNEVER) == -ECANCELED);
	USIM_CHECK(u_sleep(uafter(UTIME_S)) == -ECANCELED);
	(void)uscope_end(&s);
	USIM_CHECK(now_of(CLOCK_MONOTONIC) == at);
}

/* Loops that do not wait go on in time, and not far. */

static void sleeps_not(void)
{
	usleep(0);
}

static void yields(void)
{
	sched_yield();
}

static void polls(void)
{
	struct pollfd none = { -1, 0, 0 };

	USIM_CHECK(poll(&none, 1, 0) == 0);
}

static void asks(void)
{
	static int fd;
	struct epoll_event e;

	fd = fd == 0 ? epoll_create1(0) : fd;
	USIM_CHECK(epoll_wait(fd, &e, 1, 0) == 0);
}

static void spins(void)
{
	static void (*const list[])(void) = { sleeps_not, yields, polls, asks };
	unsigned i;

	for (i = 0; i < sizeof list / sizeof list[0]; i++) {
		long long at = now_of(CLOCK_MONOTONIC);

		while (now_of(CLOCK_MONOTONIC) < at + 5000000)
			list[i]();
		USIM_CHECK(now_of(CLOCK_MONOTONIC) <= at + 6000000);
	}
}

static int sleeper(void *unused)
{
	const char *how = getenv("FAILURE");
	struct timespec t = { 3600, 5 };
	long long at = now_of(CLOCK_MONOTONIC), wall = now_of(CLOCK_REALTIME);
	struct pollfd none = { -1, 0, 0 };

	(void)unused;
	if (how != NULL)
		return fails(how);
	canceled();
	usleep(1500);
	USIM_CHECK(now_of(CLOCK_MONOTONIC) == at + 1500000);
	USIM_CHECK(poll(&none, 1, 250) == 0);
	USIM_CHECK(now_of(CLOCK_MONOTONIC) == at + 251500000);
	USIM_CHECK(now_of(CLOCK_REALTIME) == wall + 251500000);
	t.tv_sec = (at + 1000000000) / 1000000000;
	t.tv_nsec = 7;
	USIM_CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0);
	USIM_CHECK(now_of(CLOCK_MONOTONIC) == t.tv_sec * 1000000000LL + 7);
	USIM_CHECK(usim_self() == 1 && usim_boot() == 1);
	spins();
	return 0;
}

/* Threads of a host, with locks and channels; and that no thread of a boot runs
 * after its crash. */

static int lives[USIM_HOSTS + 1];	/* the boot whose threads may run */

static void alive(void)
{
	USIM_CHECK(lives[usim_self()] == usim_boot());
}

struct group {
	struct umutex lock;
	struct uchan *channel;
	int           fds[2];
};

static void *by_lock(void *arg)
{
	struct group *g = arg;

	for (;;) {
		alive();
		if (umutex_lock(&g->lock, UNEVER) != 0)
			return NULL;
		alive();
		usleep(700);
		alive();
		umutex_unlock(&g->lock);
		usleep(100);
	}
}

static void *by_channel(void *arg)
{
	struct group *g = arg;
	int value = 1;

	for (;;) {
		alive();
		if (uchan_send(g->channel, &value, UNEVER) != 0)
			return NULL;
		alive();
		usleep(333);
	}
}

static void *by_pipe(void *arg)
{
	struct group *g = arg;
	char byte;

	for (;;) {
		alive();
		USIM_CHECK(read(g->fds[0], &byte, 1) == 1);
	}
}

static int mortal(void *unused)
{
	struct group *g = malloc(sizeof *g);
	struct uthread *t;
	int value, round;

	(void)unused;
	lives[usim_self()] = usim_boot();
	memset(&g->lock, 0, sizeof g->lock);
	g->channel = uchan_make(sizeof value, 0);
	USIM_CHECK(g->channel != NULL && pipe(g->fds) == 0);
	USIM_CHECK(uthread_make(&t, by_lock, g, "lock") == 0);
	USIM_CHECK(uthread_make(NULL, by_lock, g, "lock") == 0);
	USIM_CHECK(uthread_make(NULL, by_channel, g, "channel") == 0);
	USIM_CHECK(uthread_make(NULL, by_pipe, g, "pipe") == 0);
	usim_sometimes(usim_boot() > 1, "a host boots again");
	for (round = 0; round < 5000; round++) {
		alive();
		USIM_CHECK(uchan_recv(g->channel, &value, UNEVER) == 0);
		USIM_CHECK(write(g->fds[1], "", 1) == 1);
		usleep(1000);
	}
	lives[usim_self()] = 0;		/* its threads end with it */
	return usim_random(2) == 0 ? 0 : 7;
}

/* An echo by epoll and edges, and a client that sends more than a window. */

static void answer(int fd, int *open)
{
	char data[5000];
	ssize_t nr, at, put;

	while ((nr = read(fd, data, sizeof data)) > 0)
		for (at = 0; at < nr; at += put > 0 ? put : 0) {
			put = write(fd, data + at, (size_t)(nr - at));
			if (put < 0 && errno == EAGAIN)
				usleep(1000);
			else if (put < 0)
				break;
		}
	usim_sometimes(nr < 0 && errno == ECONNRESET, "a reset");
	if (nr == 0 || errno != EAGAIN) {
		close(fd);
		--*open;
	}
}

static int echo(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), open = 0, fd;
	int ep = epoll_create1(0), nr, i;
	struct epoll_event e = { .events = EPOLLIN, .data.fd = l }, got[4];

	(void)unused;
	USIM_CHECK(bind(l, (struct sockaddr *)&at, sizeof at) == 0 &&
		   listen(l, 4) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, l, &e) == 0);
	for (;;) {
		nr = epoll_wait(ep, got, 4, -1);
		USIM_CHECK(nr > 0);
		for (i = 0; i < nr; i++) {
			if (got[i].data.fd != l) {
				answer(got[i].data.fd, &open);
				continue;
			}
			fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
			USIM_CHECK(fd >= 0 || errno == EAGAIN);
			e = (struct epoll_event) { EPOLLIN | EPOLLET, { .fd = fd } };
			if (fd >= 0)
				USIM_CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
			open += fd >= 0;
		}
	}
}

struct job {
	int  fd, good;
	char data[50000];
};

static void *sender(void *arg)
{
	struct job *j = arg;
	size_t at = 0;
	ssize_t nr;

	while (at < sizeof j->data) {
		nr = write(j->fd, j->data + at, sizeof j->data - at);
		if (nr <= 0)
			break;
		at += (size_t)nr;
	}
	return NULL;
}

/* All bytes come back as they were, or the connection has an error. */
static void talk(struct job *j)
{
	char data[7000];
	struct uthread *t;
	ssize_t nr, at = 0;

	USIM_CHECK(getrandom(j->data, sizeof j->data, 0) == sizeof j->data);
	j->fd = dial("echo", "9", 3);
	if (j->fd < 0)
		return;
	USIM_CHECK(uthread_make(&t, sender, j, "sender") == 0);
	while (at < (ssize_t)sizeof j->data &&
	       (nr = read(j->fd, data, sizeof data)) > 0) {
		USIM_CHECK(memcmp(data, j->data + at, (size_t)nr) == 0);
		at += nr;
	}
	(void)shutdown(j->fd, SHUT_RDWR);
	USIM_CHECK(uthread_join(t, NULL, UNEVER) == 0);
	close(j->fd);
	usim_sometimes(at < (ssize_t)sizeof j->data, "a connection breaks");
	j->good += at == (ssize_t)sizeof j->data;
}

static int talker(void *unused)
{
	struct job *j = malloc(sizeof *j);

	(void)unused;
	for (j->good = 0; j->good < ROUNDS; usleep(400000))
		talk(j);
	free(j);
	return 0;
}

/* Datagrams: each that comes was sent; some are lost, doubled or overtaken. */

static int collector(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), number, last = 0;
	char seen[DATAGRAMS + 1] = { 0 };

	(void)unused;
	USIM_CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	for (;;) {
		USIM_CHECK(recv(fd, &number, sizeof number, 0) == sizeof number);
		USIM_CHECK(number > 0 && number <= DATAGRAMS);
		usim_sometimes(seen[number], "a datagram comes twice");
		usim_sometimes(number < last, "a datagram is overtaken");
		usim_sometimes(number > last + 1, "a datagram is lost");
		seen[number] = 1;
		last = number;
	}
}

static int caster(void *unused)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), number;

	(void)unused;
	USIM_CHECK(inet_pton(AF_INET, "10.0.0.5", &at.sin_addr) == 1);
	for (number = 1; number <= DATAGRAMS; number++) {
		USIM_CHECK(sendto(fd, &number, sizeof number, 0,
				  (struct sockaddr *)&at, sizeof at) ==
			   sizeof number || errno == ECONNREFUSED);
		usleep(10000);
	}
	return 0;
}

/* The wall clock may jump; the other does not. */
static int watch(void *unused)
{
	long long wall, steady;
	int i;

	(void)unused;
	for (i = 0; i < 1000; i++) {
		wall = now_of(CLOCK_REALTIME);
		steady = now_of(CLOCK_MONOTONIC);
		usleep(20000);
		steady = now_of(CLOCK_MONOTONIC) - steady - 20000000;
		USIM_CHECK(steady >= 0);
		usim_sometimes(now_of(CLOCK_REALTIME) < wall, "a clock goes back");
	}
	return 0;
}

static void setup(struct usim_world *w)
{
	const char *how = getenv("FAILURE");
	int i;

	w->w_faults = 40;
	if (how != NULL && strcmp(how, "alone") == 0)
		return;
	if (how != NULL && strcmp(how, "function") == 0)
		usim_host("nothing", NULL, NULL);
	USIM_CHECK(usim_client("sleeper", sleeper, NULL) == 1);
	for (i = 0; how != NULL && strcmp(how, "many") == 0 && i < USIM_HOSTS; i++)
		usim_client("another", sleeper, NULL);
	if (how != NULL && strcmp(how, "spin") != 0)
		return;
	USIM_CHECK(usim_host("mortal", mortal, NULL) == 2);
	usim_host("echo", echo, NULL);
	usim_client("talker", talker, NULL);
	USIM_CHECK(usim_host("collector", collector, NULL) == 5);
	usim_client("caster", caster, NULL);
	usim_host("watch", watch, NULL);
}

int main(int argc, char **argv)
{
	/* Outside of a run these do nothing, and libc is libc. */
	if (usim_maybe("x") || usim_self() != 0 || getpid() < 2 ||
	    usim_host("x", sleeper, NULL) != -EINVAL)
		return 3;
	usim_sometimes(0, "x");
	return usim_main(argc, argv, setup);
}
