/* SPDX-License-Identifier: MIT */
/*
 * t_steal_self: a thread of ws that has migrated in a wait gets its new
 * processor in the same function: the compiler must not keep the old processor.
 * usched_self(), ws_proc() and ustack_self()->u_sched agree. Its wakes go to
 * the new processor's queue: all come, and each comes once.
 */
#include "steal.h"

#define TRIPS	100
#define NR	8			/* threads that the traveller wakes */

static thread *helper[2], *dummy[2], *woken[NR], *traveller;
static long  helped, arrived, over, wakes;

static void is_woken(void *arg)
{
	long *nr = (long *)arg;

	for (;;) {
		wait_one();
		if (get(&over))
			break;
		if (nr != NULL)
			add(nr, 1);
	}
}

/* Pinned, and keeps its worker: the traveller must go to the other. */
static void helps(void *arg)
{
	int me = (int)(intptr_t)arg;

	add(&helped, 1);
	for (;;) {
		wait_one();
		if (get(&over))
			break;
		SCHED(wake)(traveller);
		SCHED(wake)(dummy[me]);		/* displaces it */
		until(&arrived, 1);
		set(&arrived, 0);
	}
}

/* Goes to the other worker. */
static inline __attribute__((always_inline)) void go(void)
{
	SCHED(wake)(helper[ws_proc()]);
	CHECK(SCHED(wait)() == 0);
	set(&arrived, 1);
	while (get(&arrived))
		check_yield();
}

/* All in one function, with wakes in between. */
static NOINLINE int travel(int i)
{
	struct usched *before = usched_self();
	int p = ws_proc(), moved = 0, k;

	CHECK(before == ws_sched(p) && before == ustack_self()->u_sched);
	for (k = 0; k < 3; k++) {
		SCHED(wake)(woken[(i + k) % NR]);
		go();
		CHECK(usched_self() == ws_sched(ws_proc()));
		CHECK(usched_self() == ustack_self()->u_sched);
		SCHED(wake)(woken[(i + k) % NR]);
		moved += usched_self() != before;
		before = usched_self();
	}
	return moved;
}

static long migrations;

static void travels(void *arg)
{
	int i;

	(void)arg;
	traveller = SCHED(self)();
	while (get(&helped) < 2)
		yield();
	for (i = 0; i < TRIPS; i++)
		migrations += travel(i);
	while (get(&wakes) < TRIPS * 6)
		yield();
	for (i = 0; i < 100; i++)
		yield();
	CHECK(get(&wakes) == TRIPS * 6);
	set(&over, 1);
	for (i = 0; i < NR; i++)
		SCHED(wake)(woken[i]);
	for (i = 0; i < 2; i++) {
		SCHED(wake)(helper[i]);
		SCHED(wake)(dummy[i]);
	}
}

int main(int argc, char **argv)
{
	intptr_t i;

	check_start(argc, argv);
	need_moves();
	begin(2, 0);
	for (i = 0; i < 2; i++) {
		helper[i] = make_pinned((int)i, helps, (void *)i);
		dummy[i]  = make_pinned((int)i, is_woken, NULL);
	}
	for (i = 0; i < NR; i++)
		woken[i] = make((int)i, is_woken, &wakes);
	make(0, travels, NULL);
	start_and_finish();
	CHECK(migrations > TRIPS / 10);
	return 0;
}
