/* SPDX-License-Identifier: MIT */
/* steal_leave: a yield without memory takes the thread out of its queue. */
/* VARIANTS: once */

/*
 * There are so many threads, on one worker or two, that some share a lane. They
 * pin and unpin themselves and yield, and at times an allocation fails. Then
 * the yield returns an error, and the thread runs on. If it were still in a
 * queue, it would run twice; if another thread had been taken out in its place,
 * that thread would never end. In the hard mode a thread may be preempted as it
 * enters the yield. Then others may pin its lane, or unpin it, so the yield
 * must look up the thread's queue after that.
 */
#include "steal.h"

#define CROWD	400
#define TURNS	20
#define EVERY	5

static long allocs, failed, ended, turns;
static void *(*real_alloc)(struct usched *s, int size);

static void *fails_at_times(struct usched *s, int size)
{
	return add(&allocs, 1) % EVERY == 0 ? NULL : real_alloc(s, size);
}

static void gives_way(void)
{
	int rc = SCHED(yield)();

	CHECK(rc == 0 || rc == -ENOMEM);
	if (rc != 0)
		add(&failed, 1);
}

/* The slice grows with each turn, so the buffer is soon too small. */
static NOINLINE void deeper(unsigned *state, int turn)
{
	volatile char room[4000];

	room[0] = (char)turn;
	gives_way();
	if (turn % 8 != 0)
		deeper(state, turn + 1);
	CHECK_IS(room[0], (char)turn);
}

static void lives(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i;

	for (i = 0; i < TURNS; i++) {
		unsigned r = check_random(&state);

		if (r % 128 == 0)
			ws_pin();
		else if (r % 128 < 64)
			ws_unpin();
		deeper(&state, 1 + (int)(r / 128 % 8));
		add(&turns, 1);
	}
	add(&ended, 1);
}

static void together(int p)
{
	intptr_t i;

	ended = turns = 0;
	begin(p, 0);
	real_alloc = ws_sched(0)->s_alloc;
	for (i = 0; i < p; i++)
		ws_sched((int)i)->s_alloc = fails_at_times;
	for (i = 0; i < CROWD; i++)
		make((int)i, lives, (void *)i);
	start_and_finish();
	CHECK(ended == CROWD && turns == CROWD * TURNS);
}

int main(int argc, char **argv)
{
#if defined(USCHED_HARD)
	CHECK_IS(setenv("USCHED_DEBUG", "evict=always,yield=1", 1), 0);
#endif
	check_start(argc, argv);
	together(1);
	together(2);
	CHECK_THAT(failed, >, 0);
	return 0;
}
