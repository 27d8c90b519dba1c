/* SPDX-License-Identifier: MIT */
/* steal_answer: an owner that switches is stopped without a barrier. */
/* VARIANTS: once */

/*
 * stop K8 and K9, within ws. The threads of worker 0 yield, so there is a
 * surplus, and the owner passes its checks all the time. The thief would wait
 * for seconds for an answer before it uses force. So if it has taken something
 * in the end, without force, it was answered.
 *
 * Then an owner computes: it does not answer, and is stopped by force.
 */
#include "steal.h"
#include "ustats.h"

#define THREADS	64
#define THEFTS	20
#define LONG	3000000000u		/* ns, the longest that fits */

static struct usched_stats each[2];
static long came, over;

static void start(void)
{
	int i;

	begin(2, 0);
	came = over = 0;
	for (i = 0; i < 2; i++)
		CHECK_IS(usched_stats(ws_sched(i), &each[i]), 0);
}

/* Returns the sum over both workers. */
static struct usched_moves all(void)
{
	struct usched_stats sum = { 0 };
	int i;

	for (i = 0; i < 2; i++)
		usched_stats_sum(&sum, &each[i]);
	return sum.moves;
}

/*
 * Lets others run, and makes its successor on worker 0, until enough have come.
 */
static void yields(void *arg)
{
	yield();
	if (ws_proc() != 0)
		add(&came, 1);
	if (get(&came) < THEFTS)
		make(0, yields, arg);
}

static void answered(void)
{
	int i;

	start();
	for (i = 0; i < 2; i++)
		worker_at(i)->w_thief.h_fence = LONG;
	for (i = 0; i < THREADS; i++)
		make(0, yields, NULL);
	start_and_finish();
	CHECK(all().thefts > 0 && all().stolen >= all().thefts);
	CHECK_THAT(all().stops, >=, all().thefts);
	CHECK_THAT(all().forced, <, all().stops);
	CHECK_THAT(all().fences, >=, all().forced);
}

static void ends(void *arg)
{
	add(&over, 1);
}

/* Keeps its worker until the other worker has run what waits behind it. */
static void computes(void *arg)
{
	make(0, ends, NULL);
	hold_until(&over, 1);
}

static void forced(void)
{
	start();
	make_pinned(0, computes, NULL);
	start_and_finish();
	CHECK(all().thefts > 0 && all().forced > 0);
	CHECK_THAT(all().fences, >=, all().forced);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	answered();
	forced();
	return 0;
}
