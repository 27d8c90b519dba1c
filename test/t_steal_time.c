/* SPDX-License-Identifier: MIT */
/*
 * t_steal_time: deadlines of a worker whose thread computes are kept by others.
 */

/*
 * In each round a thread begins to sleep on worker 0. Then another thread
 * computes there until the first has gone on. So some other worker must run the
 * wheel of worker 0. Also, waits begun on one worker and ended on another leave
 * no timer behind: the set ends at once, although the deadlines are far.
 */
#include "check.h"
#include "uwait.h"
#include "ws.h"

#define ROUNDS	20
#define FAR	300		/* s: longer than the watchdog waits */

static long awake, round_nr;

static void sleeps(void *arg)
{
	utime_ns until = uafter((intptr_t)arg * UTIME_MS);

	CHECK(u_sleep(until) == 0);
	CHECK(unow() >= until);
	__atomic_store_n(&awake, 1, __ATOMIC_RELEASE);
}

static void computes(void *arg)
{
	while (!__atomic_load_n(&awake, __ATOMIC_ACQUIRE))
		;
}

static void rounds(void *arg)
{
	struct ws_thread *t;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		awake = 0;
		CHECK(ws_thread_on(0, sleeps, (void *)(intptr_t)(i % 5)) !=
		      NULL);
		CHECK(ws_yield() == 0);
		t = ws_thread_joinable(computes, NULL);
		CHECK(t != NULL && ws_join(t) == 0);
		round_nr++;
	}
}

/* Waits with far deadlines that end elsewhere. */

static struct ws_thread *far_of[64];
static long ended;

static void far(void *arg)
{
	int i;

	for (i = 0; i < 50; i++)
		CHECK(u_wait_until(uafter(FAR * UTIME_S)) == 0);
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
}

static void wakes(void *arg)
{
	int i, j;

	for (i = 0; i < 50; i++) {
		for (j = 0; j < 64; j++)
			ws_wake(far_of[j]);
		CHECK(ws_yield() == 0);
	}
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	CHECK(ws_init(2, 0) == 0);
	CHECK(ws_thread_pinned(0, rounds, NULL) != NULL);
	CHECK(ws_start() == 0 && ws_fini() == 0);
	CHECK(round_nr == ROUNDS);

	CHECK(ws_init(3, 0) == 0);
	for (i = 0; i < 64; i++)
		CHECK((far_of[i] = ws_thread_on(i, far, NULL)) != NULL);
	CHECK(ws_thread_on(1, wakes, NULL) != NULL);
	CHECK(ws_start() == 0 && ws_fini() == 0);
	CHECK(ended == 64);
	return 0;
}
