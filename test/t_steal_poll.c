/* SPDX-License-Identifier: MIT */
/* t_steal_poll: threads behind a thread that computes run (W6, X1). */

/*
 * A thread keeps worker 0 until another thread has run that is at home there:
 * in the slot, in the inbox, in the queue, or not begun. All other workers have
 * threads of their own that run until then, so none of these workers ever
 * sleeps. These threads yield, pinned or not, wake each other, or make tasks.
 * Each part would hang if no worker that switches looked for hostages.
 */
#include "steal.h"

#define ROUNDS	3
#define MOST	5		/* pollers on a worker */

static long ran, polling, here, holding;
static long pollers;		/* pollers on all workers */
static thread *hostage, *pair[16];
static long over[COUNT(pair) / 2];	/* of each pair, how many have ended */
static bool native_lanes;

/* Kinds of threads that run until the hostage has run. */

static void yields_on(void *arg)
{
	(void)arg;
	add(&polling, 1);
	yield_until(&ran, 1);
}

/* Two threads wake each other. The argument is the number of the other. */
static void plays_on(void *arg)
{
	thread **other = &pair[(intptr_t)arg];

	add(&polling, 1);
	while (get(&ran) < 1) {
		SCHED(wake)(*other);
		wait_one();
	}
	if (add(&over[(intptr_t)arg / 2], 1) == 1)
		SCHED(wake)(*other);	/* that still waits */
}

static void nothing(void *arg)
{
	(void)arg;
}

static void makes_on(void *arg)
{
	(void)arg;
	add(&polling, 1);
	while (get(&ran) < 1) {
		CHECK(ws_spawn(nothing, NULL) == 0);
		yield();
	}
}

enum { YIELD, YIELD_PINNED, PLAY, MAKE, MIXED, KINDS };

static void pollers_yield(int p, int nr, bool pins)
{
	pollers += nr;
	while (nr-- > 0) {
		if (pins)
			make_pinned(p, yields_on, NULL);
		else
			make(p, yields_on, NULL);
	}
}

/* Two pairs play. */
static void pollers_play(int p)
{
	intptr_t a;

	pollers += 4;
	for (a = 4 * (p - 1); a < 4 * p; a++)
		pair[a] = make_pinned(p, plays_on, (void *)(a ^ 1));
}

static void pollers_make(int p)
{
	pollers++;
	make_pinned(p, makes_on, NULL);
}

/*
 * Starts pollers on worker p; nr of them, if the kind leaves the number open.
 */
static void poll_on(int p, int kind, int nr)
{
	switch (kind) {
	case YIELD:
	case YIELD_PINNED:
		pollers_yield(p, nr, kind == YIELD_PINNED);
		break;
	case PLAY:
		pollers_play(p);
		break;
	case MAKE:
		pollers_make(p);
		break;
	default:
		pollers_yield(p, nr, true);
		pollers_yield(p, nr, false);
		pollers_play(p);
		pollers_make(p);
	}
}

/* The place of the hostage. */

enum { SLOT, INBOX, QUEUE, DEQUE, PLACES };

static void is_woken(void *arg)
{
	(void)arg;
	add(&here, 1);
	wait_one();
	add(&ran, 1);
}

static void is_queued(void *arg)
{
	(void)arg;
	add(&here, 1);
	while (get(&holding) == 0)
		yield();
	add(&ran, 1);
}

static void tells(void *arg)
{
	(void)arg;
	add(&ran, 1);
}

static void holds(void *arg)
{
	intptr_t place = (intptr_t)arg;

	yield_until(&polling, pollers);
	if (place != DEQUE)
		yield_until(&here, 1);
	if (place == SLOT)
		SCHED(wake)(hostage);
	else if (place == DEQUE)
		make(0, tells, NULL);
	set(&holding, 1);
	hold_until(&ran, 1);
}

static void *posts(void *arg)
{
	until(&holding, 1);
	if ((intptr_t)arg == INBOX)
		SCHED(wake)(hostage);
	SCHED(release)();
	return NULL;
}

static void part(int procs, int place, int kind, int nr)
{
	int p;

	snprintf(check_doing, sizeof check_doing,
		 "in place %d, kind %d, %d on each of %d ", place, kind, nr,
		 procs - 1);
	ran = polling = here = holding = pollers = 0;
	memset(over, 0, sizeof over);
	begin(procs, 0);
	if (place == SLOT || place == INBOX)
		hostage = make(0, is_woken, NULL);
	else if (place == QUEUE)
		make(0, is_queued, NULL);
	for (p = 1; p < procs; p++)
		poll_on(p, kind, nr);
	make_pinned(0, holds, (void *)(intptr_t)place);
	start_and_finish_with(posts, (void *)(intptr_t)place);
	CHECK(ran == 1);
}

static void is_native(void *arg)
{
	(void)arg;
	native_lanes = !moves();
}

int main(int argc, char **argv)
{
	int i, place, kind;

	check_start(argc, argv);
	begin(1, 0);
	make(0, is_native, NULL);
	start_and_finish();
	for (i = 0; i < ROUNDS; i++)
		for (place = native_lanes ? DEQUE : SLOT; place < PLACES; place++)
			for (kind = 0; kind < KINDS; kind++)
				part(2 + i, place, kind, 1 + (i + kind) % MOST);
	return 0;
}
