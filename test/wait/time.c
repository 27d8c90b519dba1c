/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS */
/* time: waits end by their event or their deadline, never early, and lose
 * nothing. */
/* LIBS: -Wl,--wrap=clock_gettime,--wrap=syscall */

/*
 * Under virtual time (one part in real time). Threads sleep until deadlines
 * drawn at random; each wakes at its deadline exactly, since nothing else
 * passes time. Timed waits race with wakes: each wake lets one wait through,
 * and a wait without one ends at its deadline. Joins end by the end of the
 * thread or by their deadline, and can be asked again. Threads move (ws) while
 * their timers run. A jump of the clock asks the system for little, whatever other
 * processors do, which is nothing. A set whose threads all sleep does not end; a set whose
 * threads all wait without a deadline does.
 */
#include "either.h"
#include "uwait.h"
#if defined(__linux__)
#include "system_call.h"
#endif

#define THREADS	400
#define ROUNDS	20
#define JUMPS	2000
#define CALLS	(20 * JUMPS)	/* of the system, at most; a search makes more */

static long done;

static utime_ns drawn(unsigned *r, utime_ns most)
{
	return (utime_ns)(check_random(r) % (unsigned long)most);
}

/* Sleeping. */

static void sleeper(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = uafter(drawn(&r, UTIME_S));

		if (i % 4 == 0)
			yield();
		CHECK_IS(u_sleep(until), 0);
		CHECK_IS(unow(), until);
	}
	add(&done, 1);
}

static void sleepers(int p)
{
	utime_ns from = unow();
	intptr_t i;

	done = 0;
	begin(p, 0);
	for (i = 0; i < THREADS; i++)
		make((int)i, sleeper, (void *)i);
	start_and_finish();
	CHECK(done == THREADS && unow() > from);
}

/* Waits for wakes. */

static thread *waiter_of[2];
static long got, sent, late;

static void waits(void *arg)
{
	unsigned r = check_hash(check_seed, 77);
	int i;

	for (i = 0; i < THREADS; i++) {
		utime_ns until = uafter(drawn(&r, 20) + 1);
		int rc = u_wait_until(until);

		CHECK(rc == 0 || rc == -ETIMEDOUT);
		if (rc == 0)
			got++;
		else
			CHECK(++late > 0 && unow() >= until);
	}
	while (u_wait_until(UNOW) == 0)
		got++;
	while (u_wait_until(uafter(100)) == 0)
		got++;
	add(&done, 1);
}

static void wakes(void *arg)
{
	unsigned r = check_hash(check_seed, 78);
	int i;

	for (i = 0; i < THREADS / 2; i++) {
		CHECK_IS(u_sleep(uafter(drawn(&r, 30))), 0);
		SCHED(wake)(waiter_of[0]);
		sent++;
	}
	add(&done, 1);
}

static void wakes_and_deadlines(int p)
{
	done = got = sent = late = 0;
	begin(p, 0);
	waiter_of[0] = make(0, waits, NULL);
	make(1, wakes, NULL);
	start_and_finish();
	CHECK(done == 2 && late > 0 && sent == THREADS / 2);
	CHECK_THAT(got, <=, sent);
}

/*
 * In real time: a wake that was sent before the deadline wins, even if the
 * waiter runs only after the deadline. Each 64th time the processor looks for
 * deadlines in between.
 */

enum { IDLE, WAITS, WOKEN, OVER };

static int stage;
static utime_ns limit;

static void waits_briefly(void *arg)
{
	int i;

	for (i = 0; i < 300; i++) {
		limit = uafter(20 * UTIME_US);
		stage = WAITS;
		CHECK_IS(u_wait_until(limit), stage == WOKEN ? 0 : -ETIMEDOUT);
		stage = IDLE;
	}
	stage = OVER;
}

static void wakes_and_computes(void *arg)
{
	for (; stage != OVER; yield()) {
		if (stage != WAITS || unow() >= limit)
			continue;
		stage = WOKEN;
		SCHED(wake)(waiter_of[0]);
		while (unow() < limit + 100 * UTIME_US)
			;
	}
}

static void late_waiter(void)
{
	begin(1, 0);
	waiter_of[0] = make(0, waits_briefly, NULL);
	make(0, wakes_and_computes, NULL);
	start_and_finish();
}

/* Joins. */

static void sleeps_long(void *arg)
{
	CHECK_IS(u_sleep((utime_ns)(intptr_t)arg), 0);
	add(&done, 1);
}

static void joins(void *arg)
{
	utime_ns until = uafter(1000);
	thread *t = make_joinable(1, sleeps_long, (void *)(intptr_t)until);

	CHECK_IS(SCHED(join_until)(t, -1), -EINVAL);
	CHECK_IS(SCHED(join_until)(t, UNOW), -EAGAIN);
	CHECK_IS(SCHED(join_until)(t, until - 500), -ETIMEDOUT);
	CHECK_IS(unow(), until - 500);
	CHECK_IS(SCHED(join_until)(t, until + 500), 0);
	CHECK(unow() >= until && unow() < until + 500);
	CHECK_IS(u_wait_until(UNOW), -EAGAIN);
	add(&done, 1);
}

static void joiners(int p)
{
	int i;

	done = 0;
	begin(p, 0);
	for (i = 0; i < 20; i++)
		make(i, joins, NULL);
	start_and_finish();
	CHECK_IS(done, 40);
}

/* Tickers, wrong arguments, far deadlines. */

static void ticks(void *arg)
{
	struct uticker k = uticker(10);
	struct uticker none = uticker(0);
	utime_ns from = unow();
	long missed = -1;
	int i;

	for (i = 1; i <= 10; i++)
		CHECK(uticker_wait(&k, &missed) == 0 && missed == 0 &&
		      unow() == from + 10 * i);
	CHECK_IS(u_sleep(uafter(35)), 0);
	CHECK(uticker_wait(&k, &missed) == 0 && missed == 2 &&
	      unow() == from + 135);
	CHECK(uticker_wait(&k, NULL) == 0 && unow() == from + 140);
	CHECK_IS(uticker_wait(&none, NULL), -EINVAL);
	CHECK(u_sleep(-1) == -EINVAL && u_wait_until(-5) == -EINVAL);
	CHECK(u_sleep(UNOW) == 0 && u_sleep(1) == 0);
	CHECK(uafter(UNEVER) == UNEVER && uafter(-3) == unow());
	CHECK_IS(u_wait_until(1), -ETIMEDOUT);
	from = unow();
	CHECK(u_sleep(uafter(1000000 * UTIME_S)) == 0 &&
	      unow() == from + 1000000 * UTIME_S);
	add(&done, 1);
}

static void ticker(int p)
{
	done = 0;
	one_thread(p, ticks, NULL);
	CHECK_IS(done, 1);
}

/* Jumps: calls are counted that a search for work makes, or a wake. */

static long asked;

#if defined(__linux__)
static long system_call(long nr, long a[6])
{
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	return really_call(nr, a);
}
#endif

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

__attribute__((used)) int __wrap_clock_gettime(clockid_t clock,
					       struct timespec *t)
{
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	return __real_clock_gettime(clock, t);
}

static void jumps(void *arg)
{
	utime_ns from = unow();
	long before = __atomic_load_n(&asked, __ATOMIC_RELAXED);
	int i;

	for (i = 0; i < JUMPS; i++)
		CHECK_IS(u_sleep(uafter(UTIME_S)), 0);
	CHECK_IS(unow(), from + JUMPS * UTIME_S);
	before = __atomic_load_n(&asked, __ATOMIC_RELAXED) - before;
	doing("%ld calls of the system", before);
	CHECK_THAT(before, <, CALLS);
	add(&done, 1);
}

static void jumper(int p)
{
	done = 0;
	one_thread(p, jumps, NULL);
	CHECK_IS(done, 1);
}

/* Threads that wait for ever are dropped; meanwhile others sleep. */

static void waits_forever(void *arg)
{
	(void)SCHED(wait)();
	CHECK(0);
}

static void dead(int p)
{
	done = 0;
	begin(p, 0);
	make(0, waits_forever, NULL);
	make(1, sleeper, (void *)1);
	CHECK_IS(SCHED(start)(), 0);
	CHECK(SCHED(fini)() == -EDEADLK && SCHED(stuck)() == 1);
	CHECK_IS(done, 1);
}

/* Native threads. */

static void *native_joins(void *arg)
{
	thread *t = arg;

	CHECK_IS(SCHED(join_until)(t, UNEVER), 0);
	return NULL;
}

static void natives(int p)
{
	pthread_t id;
	thread *t;

	done = 0;
	CHECK_IS(u_wait_until(UNEVER), -EINVAL);
	begin(p, 0);
	t = make_joinable(0, sleeper, (void *)3);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(pthread_create(&id, NULL, native_joins, t), 0);
	CHECK_IS(pthread_join(id, NULL), 0);
	CHECK_IS(done, 1);
	CHECK_IS(SCHED(fini)(), 0);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	check_quiet();
	late_waiter();
	utime_virtual(0);
	for (p = 1; p <= 3; p++) {
		sleepers(p);
		wakes_and_deadlines(p);
		joiners(p);
		ticker(p);
		jumper(p);
		dead(p);
		natives(p);
	}
	return 0;
}
