/* SPDX-License-Identifier: MIT */
/* io_late: events, deadlines and wakes are seen in time, beside threads that compute. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=epoll_wait,--wrap=clock_gettime */

/*
 * Threads compute for a time and give way, again and again. The clock is the
 * test's own, and moves only while they compute, so all is counted and nothing
 * is timed. A byte, a deadline and a wake from elsewhere come at any point of a
 * run. The processor fetches the byte UWAIT_LATE after it came, or a run of one
 * thread if that is longer, and the others run after each thread before them has
 * run once more. Runs of a kind that is new may be late, for one round; and in a
 * random mix a run that is longer than those of late, once in fifty rounds. A
 * thread that reads what is always there gives way by the same clock.
 */
#include "either.h"
#include "uio.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>

#define THREADS		4
#define TURNS		300
#define TICK		(70 * UTIME_US)	/* of the wheel of deadlines */

static utime_ns clock_ns = 1000 * UTIME_S;
static unsigned state;
static utime_ns shortest, longest;	/* runs */

static int      ends[2];
static utime_ns came;		/* the byte; 0: there is none */
static utime_ns most_late;	/* from then to its fetch */
static long     done, nr_done;
static int      skip;		/* rounds of a new kind */
static thread  *sleeper;
static utime_ns posted;		/* the wake; 0: there is none */
static bool     reads, waits;

WRAP(int, clock_gettime, clockid_t id, struct timespec *t)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, t);
	t->tv_sec  = (time_t)(clock_ns / UTIME_S);
	t->tv_nsec = (long)(clock_ns % UTIME_S);
	return 0;
}

struct epoll_event;

WRAP(int, epoll_wait, int fd, struct epoll_event *e, int nr, int ms)
{
	int rc = __real_epoll_wait(fd, e, nr, ms);

	if (rc > 0 && came != 0) {
		if (clock_ns - came > most_late)
			most_late = clock_ns - came;
		came = 0;
	}
	return rc;
}

/* What comes by others, in the midst of a run. */
static void something_comes(void)
{
	if (reads && check_random(&state) % 16 == 0) {
		reads = false;
		came = clock_ns;
		CHECK_IS(write(ends[1], "", 1), 1);
	}
	if (waits && check_random(&state) % 16 == 0) {
		waits = false;
		posted = clock_ns;
		SCHED(post)(sleeper);
	}
}

static void computes(void *arg)
{
	(void)arg;
	while (get(&done) < nr_done) {
		utime_ns run = check_random(&state) % 2 ? shortest : longest;
		utime_ns part = check_random(&state) % run;

		clock_ns += part;
		something_comes();
		clock_ns += run - part;
		yield();
	}
}

static void done_one(void)
{
	set(&done, get(&done) + 1);
}

static utime_ns bound(void)
{
	return longest > UWAIT_LATE ? longest : UWAIT_LATE;
}

static void gets_bytes(void *arg)
{
	int late = 0;
	int i;
	char c;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		reads = true;
		CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
		if (i < skip)
			most_late = 0;
		CHECK_THAT(most_late, <=, bound() + longest);
		late += most_late > bound();
		most_late = 0;
	}
	CHECK_THAT(late, <=, TURNS / 50);
	done_one();
}

/* Others run before it, which are as many as threads; they run once. */
static utime_ns bound_run(void)
{
	return bound() + (THREADS + 3) * longest;
}

static void gets_wakes(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		waits = true;
		wait_one();
		if (i >= skip)
			CHECK_THAT(clock_ns - posted, <=, bound_run());
	}
	done_one();
}

static void sleeps(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		utime_ns due = uafter(1 + check_random(&state) % UTIME_MS);

		CHECK_IS(u_sleep(due), 0);
		if (i >= skip)
			CHECK_THAT(clock_ns - due, <=, TICK + bound_run());
	}
	done_one();
}

/* Runs what waits beside threads that compute for either time. */
static void beside(utime_ns one, utime_ns other, bool byte, bool wake,
		   bool deadline)
{
	int i;

	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	shortest = one;
	longest = other;
	skip = 2;
	done = 0;
	came = most_late = 0;
	reads = waits = false;
	nr_done = byte + wake + deadline;
	begin(1, 0);
	if (byte)
		make(0, gets_bytes, NULL);
	if (wake)
		sleeper = make(0, gets_wakes, NULL);
	if (deadline)
		make(0, sleeps, NULL);
	for (i = 0; i < THREADS; i++)
		make(0, computes, NULL);
	start_and_finish();
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* A thread whose descriptor is always ready gives way in time. */

#define READ		(20 * UTIME_US)
#define CALLS		4	/* from one question to the next, as in upoll.c */

static void reads_zeros(void *arg)
{
	char c;

	while (get(&done) < nr_done) {
		CHECK_IS(u_read(*(int *)arg, &c, 1, UNEVER), 1);
		clock_ns += READ;
	}
}

static void takes_turns(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < TURNS; i++) {
		utime_ns before = clock_ns;

		yield();
		if (i >= skip)
			CHECK_THAT(clock_ns - before, <=,
				   UWAIT_LATE + CALLS * READ);
	}
	done_one();
}

static void always_ready(void)
{
	int zero = open("/dev/zero", O_RDONLY);

	doing("always ready");
	done = 0;
	nr_done = 1;
	CHECK_THAT(zero, >=, 0);
	begin(1, 0);
	make(0, reads_zeros, &zero);
	make(0, takes_turns, NULL);
	start_and_finish();
	CHECK_IS(close(zero), 0);
}

static void all(const char *what, utime_ns one, utime_ns other)
{
	doing("%s", what);
	beside(one, other, true, false, false);
	beside(one, other, false, true, false);
	beside(one, other, false, false, true);
	beside(one, other, true, true, true);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	state = check_seed;
	all("runs of 50 us", 50 * UTIME_US, 50 * UTIME_US);
	all("runs of 1 or 50 us", UTIME_US, 50 * UTIME_US);
	all("runs of 20 or 30 us", 20 * UTIME_US, 30 * UTIME_US);
	all("runs of 300 us", 300 * UTIME_US, 300 * UTIME_US);
	all("runs of 1 us", UTIME_US, UTIME_US);
	all("runs of 100 ns", 100, 100);
	always_ready();
	return 0;
}
