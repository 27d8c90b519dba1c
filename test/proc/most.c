/* SPDX-License-Identifier: MIT */
/* most: wakes that no wait takes are counted, or refused; no count wraps. */
/* VARIANTS: RR LL WS PR */

/*
 * The test sets a count to a value near its bound; then some wakes come. Up to
 * the bound each lets a wait through. The first wake beyond it ends the program
 * with the name of the contract. So does a wake by a native thread, if the
 * processor of the thread does not look at its inbox. So does a hold.
 */
#include "either.h"
#include "uproc_set.h"
#include <limits.h>

#define FEW	5

static thread *target;
static long ready, sent, beyond;

static struct uwakes *wakes_of(thread *t)
{
	return &STRUCT(t)->t_wakes;
}

/* Wakes by the thread itself: w_count. */

static void wakes_itself(void *arg)
{
	int i;

	target = SCHED(self)();
	wakes_of(target)->w_count = INT_MAX - FEW;
	for (i = 0; i < FEW; i++)
		SCHED(wake)(target);
	CHECK_IS(wakes_of(target)->w_count, INT_MAX);
	if (beyond)
		SCHED(wake)(target);
	wakes_of(target)->w_count = FEW;
	for (i = 0; i < FEW; i++)
		wait_one();
	CHECK_IS(wakes_of(target)->w_count, 0);
}

static void by_itself(void)
{
	one_thread(1, wakes_itself, NULL);
}

/* Wakes from elsewhere, while the processor does not look: w_posted. */

static void computes(void *arg)
{
	set(&ready, 1);
	until(&sent, 1);
}

static void is_woken(void *arg)
{
	int i;

	wait_one();			/* from now on it has blocked */
	make(0, computes, NULL);
	for (i = 0; i <= FEW; i++)
		wait_one();
}

static void *wakes_it(void *arg)
{
	int i;

	until(&ready, 1);
	SCHED(wake)(target);		/* the first posts the node */
	__atomic_fetch_add(&wakes_of(target)->w_posted,
			   UWAKES_MOST - (FEW + 1) * UWAKES_ONE,
			   __ATOMIC_RELAXED);
	for (i = 0; i < FEW + beyond; i++)
		SCHED(wake)(target);
	__atomic_fetch_sub(&wakes_of(target)->w_posted,
			   UWAKES_MOST - (FEW + 1) * UWAKES_ONE,
			   __ATOMIC_RELAXED);
	set(&sent, 1);
	SCHED(release)();
	return NULL;
}

static void from_elsewhere(void)
{
	ready = sent = 0;
	begin(1, 0);
	target = make(0, is_woken, NULL);
	SCHED(wake)(target);
	start_and_finish_with(wakes_it, NULL);
}

/* Holds. */

static void ends_at_once(void *arg)
{
}

static void holds(void)
{
	int *idle;
	int i;

	begin(1, 0);
	make(0, ends_at_once, NULL);
	idle = &((struct uproc *)SCHED(sched)(0))->p_set->set_idle;
	CHECK_IS(*idle, 0);
	*idle = 2 - (1 << 30);
	for (i = 0; i < 2 + beyond; i++)
		SCHED(hold)();
	CHECK_IS(*idle, -(1 << 30));
	for (i = 0; i < 2; i++)
		SCHED(release)();
	*idle = 0;
	start_and_finish();
}

int main(int argc, char **argv)
{
	int bad;

	check_start(argc, argv);
	holds();
	by_itself();
	from_elsewhere();
	beyond = 1;
	bad = check_dies("count", by_itself, "2^31 wakes that no wait") +
		check_dies("posted", from_elsewhere, "wakes posted to a thread") +
		check_dies("holds", holds, "2^30 holds");
	return bad != 0;
}
