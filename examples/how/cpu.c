/* SPDX-License-Identifier: MIT */
/* cpu.c: a long computation, beside which others are in time. */
#include <stdio.h>
#include <usched/all.h>

static _Atomic int end, ticks;

static void compute(void *arg)
{
	utime_ns until = uafter(100 * UTIME_MS);

	(void)arg;
	while (unow() < until)
		;
}

static void tick(void *arg)
{
	(void)arg;
	while (!end && u_sleep(uafter(5 * UTIME_MS)) == 0)
		ticks++;
}

static int run(void *arg)
{
	int rc = usched_go(tick, NULL);

	if (rc == 0)
		rc = ucall(compute, arg);	/* on a native thread, at most 64 */
	end = 1;
	printf("meanwhile others %s\n", ticks > 0 ? "go on" : "wait");
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
