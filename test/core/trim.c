/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * trim: usched_trim() gives back the memory that threads have touched in
 * their lanes below the slices, and nothing of the slices, at any depth.
 * usched_spare() counts this memory. The bytes that are kept are next to the
 * slice. Both functions refuse to run while a thread of the dispatcher runs,
 * also below another dispatcher.
 */
#include "tiny.h"

#define NR	20
#define LANES	5			/* and some threads get their own */
#define DEEP	150000
#define KEPT	20000
#define ROUNDS	6

static struct tiny t, other;
static struct tiny_thread tt[NR], inner;
static int ended;

/* The thread goes deep without a block, then waits where it was. */
static NOINLINE void touch(int nob)
{
	volatile char frame[1000];

	frame[0] = frame[999] = 1;
	__asm__ volatile("" : : "r"(frame) : "memory");	/* the frame is used */
	if (nob > 1000)
		touch(nob - 1000);
	CHECK_IS(frame[0], 1);
}

static NOINLINE void wait_at(int nob, int tag)
{
	volatile char frame[500];
	int i;

	for (i = 0; i < 500; i++)
		frame[i] = (char)(tag + i);
	if (nob > 500)
		wait_at(nob - 500, tag + 1);
	else {
		touch(DEEP);
		tiny_wait();
	}
	for (i = 0; i < 500; i++)
		CHECK_IS(frame[i], (char)(tag + i));
}

static void worker(void *arg)
{
	int me = (int)((struct tiny_thread *)arg - tt);
	int i;

	for (i = 0; i < ROUNDS; i++)
		wait_at(1 + (me * 37 + i * 11) % 40 * 1000, me + i);
	ended++;
}

/* Called between two runs: all threads wait. */
static void look(size_t kept)
{
	CHECK_THAT(usched_spare(&t.t_sched), >=, (size_t)LANES * (DEEP / 2));
	usched_trim(&t.t_sched, kept);
#if !defined(USCHED_HARD)
	CHECK_THAT(usched_spare(&t.t_sched), <=, (LANES + NR) * (kept + 8192));
	CHECK(kept == 0 || usched_spare(&t.t_sched) >= LANES * (kept / 2));
#endif
}

static void rounds(void)
{
	int i, j;

	CHECK_IS(tiny_init(&t, LANES), 0);
	for (i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], worker, &tt[i]);
	for (i = 0; i < ROUNDS; i++) {
		tiny_run(&t);
		look(i % 2 ? KEPT : 0);
		for (j = 0; j < NR; j++)
			tiny_wake(&tt[j]);
	}
	tiny_run(&t);
	CHECK_IS(ended, NR);
	usched_trim(&t.t_sched, 0);	/* lanes without an owner */
#if !defined(USCHED_HARD)
	CHECK_THAT(usched_spare(&t.t_sched), <=, (LANES + NR) * 8192);
#endif
	tiny_fini(&t);
}

static void trims(void *arg)
{
	usched_trim(arg, 0);
}

static void runs_other(void *arg)
{
	CHECK_IS(tiny_init(&other, 1), 0);
	tiny_start(&other, &inner, trims, &t.t_sched);
	tiny_run(&other);
}

static void dies(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	tiny_start(&t, &tt[0], trims, &t.t_sched);
	tiny_run(&t);
}

static void dies_below(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	tiny_start(&t, &tt[0], runs_other, NULL);
	tiny_run(&t);
}

int main(int argc, char **argv)
{
	int bad;

	check_start(argc, argv);
	if (!tiny_has_lanes())
		check_skip("no lanes in this build");
	rounds();
	bad = check_dies("a thread", dies, "usched_trim") +
	      check_dies("below another", dies_below, "usched_trim");
	return bad;
}
