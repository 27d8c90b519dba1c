/* SPDX-License-Identifier: MIT */
/* few: few threads of rr have a lane each; many, and those of ll and ws, share. */
/* VARIANTS: RR LL WS PR */

/*
 * More threads than lanes wait at the same time, then go on. If they are few, in
 * rr no two have the same lane, unless addresses are limited. If they are many,
 * nearly all share lanes, also after there were few. All find their frames as they were.
 */
#include "either.h"
#include <limits.h>
#include <sys/resource.h>

#define FEW	700
#define MANY	3000
#define LATE	64		/* threads that begin before rr looks again */

static thread *threads[MANY];
static int bound[SHRT_MAX + 1];	/* threads of each lane */
static long here, gone;
static bool has_limit;

/* A thread that was promised no lane may not lend its stack: see core/law.h. */
static NOINLINE int lends(const volatile char *at)
{
	return !ustack_moves((const char *)at);
}

static void waiter(void *arg)
{
	volatile char frame[100];

	memset((char *)frame, (int)(long)arg, sizeof frame);
	bound[ustack_self()->u_lane]++;
	CHECK(!lends(frame));
	add(&here, 1);
	wait_one();
	CHECK(frame[0] == (char)(long)arg && frame[99] == (char)(long)arg);
	add(&gone, 1);
}

/* Returns how many lanes nr threads have that wait. */
static int lanes_of(int nr)
{
	int i, lanes = 0;

	set(&here, 0);
	set(&gone, 0);
	memset(bound, 0, sizeof bound);
	for (i = 0; i < nr; i++)
		threads[i] = make(0, waiter, (void *)(long)i);
	yield_until(&here, nr);
	for (i = 0; i <= SHRT_MAX; i++)
		lanes += bound[i] > 0;
	for (i = 0; i < nr; i++)
		SCHED(wake)(threads[i]);
	yield_until(&gone, nr);
	return lanes;
}

static void both(void *arg)
{
	int shared = ustack_self()->u_sched->s_lane_nr;
	int few = lanes_of(FEW);
	int many = lanes_of(MANY);

	if (shared == 0)		/* threads run on the native stack */
		return;
	CHECK_THAT(shared, <, FEW);
#if defined(LL) || defined(WS)
	CHECK(few <= shared && many <= shared);
#elif defined(PR)		/* it may look later */
	CHECK(few >= shared && many >= shared);
#else
	CHECK(has_limit ? few <= shared : few == FEW);
	CHECK_THAT(many, <=, shared + LATE);
#endif
	CHECK_IS(lanes_of(1), 1);
}

int main(int argc, char **argv)
{
	struct rlimit most;

	check_start(argc, argv);
	CHECK_IS(getrlimit(RLIMIT_AS, &most), 0);
	has_limit = most.rlim_cur != RLIM_INFINITY;
	one_thread(1, both, NULL);
	if (has_limit)
		return 0;
	has_limit = true;
	most.rlim_cur = RLIM_INFINITY - 1;	/* of no effect, but for us */
	CHECK_IS(setrlimit(RLIMIT_AS, &most), 0);
	one_thread(1, both, NULL);
	return 0;
}
