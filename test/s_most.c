/* SPDX-License-Identifier: MIT */
/* s_most: wakes that no wait takes are counted, or refused, and never wrap. */
/* VARIANTS: RR LL */

/*
 * A count is brought near its bound by hand; then some wakes come. Up to the
 * bound each lets a wait through. The first beyond ends the program, and names
 * the contract; so does a wake from a native thread to a thread whose processor
 * does not look at its inbox.
 */
#include "either.h"
#include <limits.h>

#define FEW	5

static thread *target;
static long ready, sent, beyond;

static struct wakes *wakes_of(thread *t)
{
	return &STRUCT(t)->t_wakes;
}

/* Wakes of its own thread: w_count. */

static void wakes_itself(void *arg)
{
	int i;

	(void)arg;
	target = SCHED(self)();
	wakes_of(target)->w_count = INT_MAX - FEW;
	for (i = 0; i < FEW; i++)
		SCHED(wake)(target);
	CHECK(wakes_of(target)->w_count == INT_MAX);
	if (beyond)
		SCHED(wake)(target);
	wakes_of(target)->w_count = FEW;
	for (i = 0; i < FEW; i++)
		wait_one();
	CHECK(wakes_of(target)->w_count == 0);
}

static void by_itself(void)
{
	begin(1, 0);
	make(0, wakes_itself, NULL);
	start_and_finish();
}

/* Wakes from elsewhere: w_posted, while the processor does not look. */

static void computes(void *arg)
{
	(void)arg;
	set(&ready, 1);
	until(&sent, 1);
}

static void is_woken(void *arg)
{
	int i;

	wait_one();			/* it has blocked before */
	make(0, computes, NULL);
	for (i = 0; i <= FEW; i++)
		wait_one();
	(void)arg;
}

static void *wakes_it(void *arg)
{
	int i;

	(void)arg;
	until(&ready, 1);
	SCHED(wake)(target);		/* the first: its node is posted */
	__atomic_fetch_add(&wakes_of(target)->w_posted,
			   WAKES_MOST - (FEW + 1) * WAKES_ONE, __ATOMIC_RELAXED);
	for (i = 0; i < FEW + beyond; i++)
		SCHED(wake)(target);
	__atomic_fetch_sub(&wakes_of(target)->w_posted,
			   WAKES_MOST - (FEW + 1) * WAKES_ONE, __ATOMIC_RELAXED);
	set(&sent, 1);
	SCHED(release)();
	return NULL;
}

static void from_elsewhere(void)
{
	pthread_t id;

	ready = sent = 0;
	begin(1, 0);
	target = make(0, is_woken, NULL);
	SCHED(hold)();
	SCHED(wake)(target);
	CHECK(SCHED(start)() == 0);
	id = native(wakes_it, NULL);
	finish();
	native_join(id);
}

int main(int argc, char **argv)
{
	int bad;

	check_start(argc, argv);
	by_itself();
	from_elsewhere();
	beyond = 1;
	bad = check_dies("count", by_itself, "2^31 wakes that no wait") +
		check_dies("posted", from_elsewhere, "wakes posted to a thread");
	return bad != 0;
}
