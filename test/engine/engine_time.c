/* SPDX-License-Identifier: MIT */
/* engine_time: the mean latency is of all tasks, though few are timed. */
/* VARIANTS: once */

/*
 * Time is virtual, and moves only here. Tasks are queued while starts are
 * paused, for a known time. The tasks of each series weigh as many as they are,
 * if that is a power of 2, or else as many as were timed or stand before one
 * that was. So the mean is exact to the last bits of a double.
 */
#include "tasks.h"

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Queues nr tasks, one by one or at once, which end s seconds later. */
static void last(int nr, bool at_once, int s)
{
	struct engine_job j[512];
	int i;

	for (i = 0; i < nr; i++)
		j[i] = (struct engine_job){ .j_f = nothing,
					    .j_flags = ENGINE_DETACHED };
	CHECK_IS(engine_pause(ENGINE_START), 0);
	if (at_once)
		CHECK_IS(engine_spawn_many(j, nr, NULL, UNEVER), nr);
	for (i = 0; !at_once && i < nr; i++)
		CHECK_IS(engine_spawn(&j[i], NULL, UNEVER), 0);
	utime_jump(uafter(s * UTIME_S));
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
}

/* Checks the mean of a and b tasks: they lasted 1 and 3 seconds. */
static void mean(int a, bool a_at_once, int b, bool b_at_once)
{
	double ms, want = 1000.0 * (a + 3.0 * b) / (a + b);

	begin((struct engine_config){ .c_workers = 1 });
	CHECK_IS(stats().avg_task_latency_ms, 0);
	last(a, a_at_once, 1);
	CHECK_IS(stats().avg_task_latency_ms, 1000);
	last(b, b_at_once, 3);
	ms = stats().avg_task_latency_ms;
	CHECK(ms > want - 1e-6 && ms < want + 1e-6);
	CHECK_IS(stats().tasks_completed, a + b);
	finish();
}

int main(int argc, char **argv)
{
	int a, b;

	check_start(argc, argv);
	utime_virtual(0);
	for (a = 1; a <= 512; a *= 2)
		for (b = 1; b <= 512; b *= 2) {
			mean(a, false, b, false);
			mean(a, true, b, false);
			mean(a, true, b, true);
		}
	mean(320, false, 96, true);
	return 0;
}
