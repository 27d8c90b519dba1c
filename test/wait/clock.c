/* SPDX-License-Identifier: MIT */
/* clock: virtual time stands still under a hold, and goes on after it. */
/* VARIANTS: RR LL WS */

/*
 * All processors sleep, and some threads wait with a deadline. While a native
 * thread holds the scheduler, or runs a call, the clock stands still. When the
 * last hold ends, no processor may be awake that could let the clock jump. Calls
 * and deadlines are mixed, so holds end before, after and while the last
 * processor goes to sleep. The end of a hold is also the end of the set if
 * nothing but dead threads is left.
 */
#include "either.h"
#include "ucall.h"
#include "uwait.h"

#define ROUNDS	100
#define SPAN	1000		/* ns of virtual time */

static long done;

static void sleeps(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = uafter(SPAN);

		CHECK(u_sleep(until) == 0 && unow() == until);
	}
	add(&done, 1);
}

static void naps(void *arg)
{
	utime_ns from = unow();

	usleep((unsigned)(uintptr_t)arg);
	CHECK_IS(unow(), from);
}

static void calls(void *arg)
{
	uintptr_t i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK_IS(ucall(naps, (void *)(i % 50)), 0);
		if (i % 4 == 0)
			CHECK_IS(u_sleep(uafter((intptr_t)arg)), 0);
	}
	add(&done, 1);
}

static void calls_and_deadlines(int p)
{
	doing("calls");
	done = 0;
	begin(p, 0);
	make(0, sleeps, NULL);
	make(1, calls, (void *)7);
	make(2, calls, (void *)(SPAN / 2));
	start_and_finish();
	CHECK_IS(done, 3);
}

/* Only the end of the hold can let the clock jump. */
static void hold(int p)
{
	utime_ns from = unow();

	doing("hold");
	done = 0;
	begin(p, 0);
	SCHED(hold)();
	SCHED(hold)();
	make(0, sleeps, NULL);
	make(1, sleeps, NULL);
	CHECK_IS(SCHED(start)(), 0);
	usleep(20000);
	SCHED(release)();
	usleep(1000);
	CHECK(done == 0 && unow() == from);
	SCHED(release)();
	until(&done, 2);
	finish();
	CHECK_IS(unow(), from + ROUNDS * SPAN);
}

static void waits_forever(void *arg)
{
	(void)SCHED(wait)();
	CHECK(0);
}

static void *releases(void *arg)
{
	usleep(2000);
	SCHED(release)();
	return NULL;
}

/* The end of the hold lets the clock jump, and later it is over. */
static void hold_and_end(int p)
{
	pthread_t id;

	doing("end");
	done = 0;
	begin(p, 0);
	SCHED(hold)();
	make(0, waits_forever, NULL);
	make(1, sleeps, NULL);
	CHECK_IS(SCHED(start)(), 0);
	id = native(releases, NULL);
	CHECK(SCHED(fini)() == -EDEADLK && SCHED(stuck)() == 1);
	CHECK_IS(done, 1);
	native_join(id);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	check_quiet();
	utime_virtual(0);
	for (p = 1; p <= 3; p++) {
		calls_and_deadlines(p);
		hold(p);
		hold_and_end(p);
	}
	return 0;
}
