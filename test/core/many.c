/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * many: 200,000 threads are blocked at once, each several times, and all of
 * them go on with the data that they had (usched I1, I7). The memory of each is
 * small.
 */
#include "tiny.h"

#define NR	200000
#define TRIPS	3
#define MOST	400			/* bytes of buffer for a thread */

static struct tiny t;
static struct tiny_thread *tt;
static uint64_t sum;
static long blocked_most, blocked_now;

static NOINLINE unsigned trips(unsigned me, unsigned acc)
{
	int i;

	for (i = 0; i < TRIPS; i++) {
		if (++blocked_now > blocked_most)
			blocked_most = blocked_now;
		tiny_yield();
		blocked_now--;
		acc += me * (i + 1);
	}
	return acc;
}

static void thread(void *arg)
{
	unsigned me = (unsigned)((struct tiny_thread *)arg - tt);

	sum += trips(me, 1);
}

static void with_lanes(int lanes)
{
	uint64_t want = 0;
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	sum = blocked_most = blocked_now = 0;
	t.t_keep = 1;
	for (i = 0; i < NR; i++) {
		tiny_start(&t, &tt[i], thread, &tt[i]);
		want += 1 + (uint64_t)i * (TRIPS * (TRIPS + 1) / 2);
	}
	tiny_run(&t);
	CHECK_IS(sum, want);
	CHECK_IS(blocked_most, NR);
	for (i = 0; i < NR; i++) {
		CHECK_IS(tt[i].tt_done, 1);
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(USCHED_PORTABLE)
		CHECK_THAT(tt[i].tt_stack.u_len, <=, MOST);
#endif
		tiny_drop(&tt[i].tt_stack);
	}
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	tt = (struct tiny_thread *)calloc(NR, sizeof *tt);
	CHECK(tt != NULL);
	with_lanes(0);
	with_lanes(16);
	with_lanes(300);
	free(tt);
	return 0;
}
