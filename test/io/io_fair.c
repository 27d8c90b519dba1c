/* SPDX-License-Identifier: MIT */
/* io_fair: descriptors and threads do not keep each other from their turn. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=epoll_wait,--wrap=syscall,--wrap=poll,--wrap=sendto */

/*
 * Threads that read descriptors that are always ready give way after 64 calls. A
 * processor whose threads only yield still takes events within 64 switches, and
 * a pass through its queue. A descriptor that is ready, but not for the call,
 * is asked now and then. Signals that interrupt a sleeping processor lose no
 * byte. While all threads wait, processors make no system calls, so they sleep.
 * All this is counted, not timed.
 */
#include "either.h"
#include "system_call.h"
#include "uio.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define IN_A_ROW	64	/* as in upoll.c */
#define UNSEEN		64	/* ROUND of rounds.h */
#define TURNS		200
#define LEAST		(40 * IN_A_ROW)
#define MOST		100	/* threads that yield */

static long done;

static void pair(int s[2])
{
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
}

/* Counts what processors ask of the system. */

static long asked;

struct epoll_event;

WRAP(int, epoll_wait, int fd, struct epoll_event *e, int nr, int ms)
{
	add(&asked, 1);
	return __real_epoll_wait(fd, e, nr, ms);
}

WRAP(int, poll, struct pollfd *fds, nfds_t nr, int ms)
{
	add(&asked, 1);
	return __real_poll(fds, nr, ms);
}

static long system_call(long nr, long a[6])
{
	add(&asked, 1);
	return really_call(nr, a);
}

/* Descriptors that are always ready. */

static int  flood[2];
static long calls;

static void *floods(void *arg)
{
	char b[512] = "";

	while (send(flood[1], b, sizeof b, MSG_NOSIGNAL) > 0)
		;
	return arg;
}

static void greedy(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char c;

	while (get(&done) == 0) {
		CHECK_IS(u_read(fd, &c, 1, UNEVER), 1);
		calls++;
	}
}

static void takes_turns(void *arg)
{
	int nr = (int)(intptr_t)arg;
	long before;

	while (calls < LEAST) {
		before = calls;

		yield();
		CHECK_THAT(calls - before, <=, nr * IN_A_ROW);
	}
	set(&done, 1);
}

static void always_ready(int nr)
{
	int zero = open("/dev/zero", O_RDONLY);
	pthread_t id;
	int i;

	doing("always ready");
	pair(flood);
	done = calls = 0;
	id = native(floods, NULL);
	begin(1, 0);
	for (i = 0; i < nr; i++)
		make(0, greedy, (void *)(intptr_t)(i % 2 ? flood[0] : zero));
	make(0, takes_turns, (void *)(intptr_t)nr);
	start_and_finish();
	CHECK(close(zero) == 0 && close(flood[0]) == 0);
	native_join(id);
	CHECK_IS(close(flood[1]), 0);
}

/* Descriptors that are ready, but not for the call. */

#define SOON		(20 * UTIME_MS)
#define FEW		200		/* calls; a spin makes thousands */

static void polls_for_errors(void *arg)
{
	struct pollfd f = { .fd = *(int *)arg };
	long before = get(&asked);

	CHECK(u_poll(&f, 1, uafter(SOON)) == -ETIMEDOUT && f.revents == 0);
	CHECK_THAT(get(&asked) - before, <, FEW);
}

static long sends;

/* Counts sendto() by the library. */
WRAP(ssize_t, sendto, int fd, const void *b, size_t nob, int flags,
	const struct sockaddr *to, socklen_t len)
{
	add(&sends, 1);
	return __real_sendto(fd, b, nob, flags, to, len);
}

static void sends_to_full(void *arg)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int to = *(int *)arg;
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	int rc = 0;

	snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "usched.%d",
		 (int)getpid());
	CHECK_IS(bind(to, (struct sockaddr *)&at, sizeof at), 0);
	while (rc >= 0)
		rc = sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&at,
			    sizeof at);
	sends = 0;
	CHECK_IS(u_sendto(fd, "", 1, 0, (struct sockaddr *)&at, sizeof at,
		 uafter(SOON)), -ETIMEDOUT);
	CHECK_THAT(get(&sends), <, FEW);
	CHECK_IS(close(fd), 0);
}

static void ready_in_vain(void)
{
	int to = socket(AF_UNIX, SOCK_DGRAM, 0);
	int s[2];

	doing("ready in vain");
	pair(s);
	CHECK(write(s[1], "x", 1) == 1 && to >= 0);
	begin(1, 0);
	make(0, polls_for_errors, &s[0]);
	make(0, sends_to_full, &to);
	start_and_finish();
	CHECK(close(to) == 0 && close(s[0]) == 0 && close(s[1]) == 0);
}

/* A processor whose threads only yield. */

static int  ends[2];
static bool waits;
static long switches, sent_at;
static int  yielders;

/* One call in IN_A_ROW gives way first, for a time that is no count. */
static void is_served(void *arg)
{
	int late = 0;
	int i;
	char c;

	for (i = 0; i < TURNS; i++) {
		waits = true;
		CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
		if (switches - sent_at > UNSEEN + 2 * (yielders + 1))
			late++;
	}
	CHECK_THAT(late, <=, TURNS / IN_A_ROW + 1);
	set(&done, 1);
}

static void only_yields(void *arg)
{
	bool sends = arg != NULL;

	while (get(&done) == 0) {
		if (sends && waits) {
			waits = false;
			sent_at = switches;
			CHECK_IS(write(ends[1], "", 1), 1);
		}
		switches++;
		yield();
	}
}

static void beside_yields(int procs, int nr)
{
	int i;

	doing("beside threads that yield");
	pair(ends);
	done = switches = 0;
	waits = false;
	yielders = nr;
	begin(procs, 0);
	make_pinned(procs - 1, is_served, NULL);
	for (i = 0; i < nr; i++)
		make_pinned(procs - 1, only_yields, i == 0 ? &done : NULL);
	start_and_finish();
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* Signals. */

#define PROCS	2

static pthread_t sleeper[PROCS];
static int       link_to[PROCS][2];
static long      ready, handled;

static void handles(int signo)
{
	add(&handled, 1);
}

static void echoes(void *arg)
{
	int me = (int)(intptr_t)arg;
	unsigned char b[8];
	int i;

	sleeper[me] = pthread_self();
	add(&ready, 1);
	for (i = 0; i < TURNS; i++) {
		CHECK_IS(u_read(link_to[me][0], b, sizeof b, UNEVER), 1);
		CHECK_IS(b[0], (unsigned char)i);
		CHECK_IS(u_write(link_to[me][0], b, 1, UNEVER), 1);
	}
}

static void *asks(void *arg)
{
	int fd = link_to[(intptr_t)arg][1];
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	unsigned char c;
	int i;

	until(&ready, PROCS);
	for (i = 0; i < TURNS; i++) {
		usleep(check_random(&r) % 500);
		c = (unsigned char)i;
		CHECK_IS(write(fd, &c, 1), 1);
		CHECK(read(fd, &c, 1) == 1 && c == (unsigned char)i);
	}
	add(&done, 1);
	return arg;
}

static void *interrupts(void *arg)
{
	int i;

	until(&ready, PROCS);
	for (i = 0; get(&done) < PROCS; i++) {
		CHECK_IS(pthread_kill(sleeper[i % PROCS], SIGUSR1), 0);
		usleep(50);
	}
	SCHED(release)();
	return arg;
}

/* Held until no signal will come: native threads end with the scheduler. */
static void signals(void)
{
	struct sigaction a = { .sa_handler = handles };
	pthread_t id[PROCS + 1];
	int i;

	doing("signals");
	CHECK_IS(sigaction(SIGUSR1, &a, NULL), 0);
	done = ready = handled = 0;
	begin(PROCS, 0);
	SCHED(hold)();
	for (i = 0; i < PROCS; i++) {
		pair(link_to[i]);
		make_pinned(i, echoes, (void *)(intptr_t)i);
		id[i] = native(asks, (void *)(intptr_t)i);
	}
	id[PROCS] = native(interrupts, NULL);
	start_and_finish();
	for (i = 0; i <= PROCS; i++)
		native_join(id[i]);
	for (i = 0; i < PROCS; i++)
		CHECK(close(link_to[i][0]) == 0 && close(link_to[i][1]) == 0);
	CHECK_THAT(handled, >, 0);
}

/* Idle processors. */

#define IDLE_MS		150
#define CALLS		12	/* of a processor: to go to sleep, and rest */

static long seen;

static void idles(void *arg)
{
	int me = (int)(intptr_t)arg;
	char b[8];
	int i;

	for (i = 0; i < 3; i++) {
		CHECK_IS(u_read(link_to[me][0], b, sizeof b, UNEVER), 1);
		add(&seen, 1);
	}
}

static void *watches(void *arg)
{
	int procs = (int)(intptr_t)arg;
	long before, calls;
	int i, k;

	for (i = 0; i < 3; i++) {
		usleep(50000);
		do {		/* beside other programs it may come late */
			before = get(&asked);
			usleep(IDLE_MS * 1000);
			calls = get(&asked) - before;
		} while (calls > CALLS * procs && check_time(50));
		CHECK_THAT(calls, <=, CALLS * procs);
		for (k = 0; k < procs; k++)
			CHECK_IS(write(link_to[k][1], "", 1), 1);
		until(&seen, (i + 1) * procs);
	}
	return arg;
}

static void idle(int procs)
{
	pthread_t id;
	int i;

	doing("idle");
	seen = 0;
	begin(procs, 0);
	for (i = 0; i < procs; i++) {
		pair(link_to[i]);
		make_pinned(i, idles, (void *)(intptr_t)i);
	}
	id = native(watches, (void *)(intptr_t)procs);
	start_and_finish();
	native_join(id);
	for (i = 0; i < procs; i++)
		CHECK(close(link_to[i][0]) == 0 && close(link_to[i][1]) == 0);
}

int main(int argc, char **argv)
{
	static const int nr[] = { 1, 2, 7, MOST };
	int i;

	check_start(argc, argv);
	for (i = 1; i <= 3; i++)
		always_ready(i);
	for (i = 0; i < COUNT(nr); i++) {
		beside_yields(1, nr[i]);
#if !defined(WS)			/* the other worker may take the event */
		beside_yields(2, nr[i]);
#endif
	}
	ready_in_vain();
	signals();
	for (i = 1; i <= PROCS; i++)
		idle(i);
	return 0;
}
