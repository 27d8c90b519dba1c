/* SPDX-License-Identifier: MIT */
/* workers.c: 10,000 threads, and a group that waits for all. */
#include <stdio.h>
#include <usched/all.h>
static struct ugroup all;
static _Atomic long sum, slept;
static void worker(void *nr)
{
	slept += u_sleep(uafter(10 * UTIME_MS)) == 0;	/* or any other wait */
	sum += (long)nr;
	ugroup_done(&all);
}
static int run(void *nr)
{
	for (long i = 0; i < (long)nr; i++)
		if (ugroup_add(&all, 1) != 0 || usched_go(worker, (void *)i) != 0)
			return fprintf(stderr, "no memory for worker %ld\n", i);
	if (ugroup_wait(&all, UNEVER) != 0 || slept != (long)nr)
		return fprintf(stderr, "only %ld workers slept\n", slept);
	return printf("%ld\n", sum) < 0;
}
int main(void) { return usched_main(run, (void *)10000L); }
