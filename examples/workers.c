/* SPDX-License-Identifier: MIT */
/* workers.c: ten thousand workers take jobs from a queue with room for 100. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define WORKERS	10000
#define JOBS	1000000

static struct uchan *jobs, *sums;

static void worker(void *arg)
{
	long n, sum = 0;

	(void)arg;
	while (uchan_recv(jobs, &n, UNEVER) == 0)	/* until closed */
		sum += n;
	uchan_send(sums, &sum, UNEVER);
}

static void boss(void *arg)
{
	long i, sum, all = 0;

	(void)arg;
	for (i = 0; i < WORKERS; i++)
		if (!rr_thread_init(worker, NULL))
			abort();
	for (i = 1; i <= JOBS; i++)
		uchan_send(jobs, &i, UNEVER);		/* waits if full */
	uchan_close(jobs);
	for (i = 0; i < WORKERS && uchan_recv(sums, &sum, UNEVER) == 0; i++)
		all += sum;
	printf("%ld workers, sum %ld\n", i, all);
}

int main(void)
{
	jobs = uchan_make(sizeof(long), 100);
	sums = uchan_make(sizeof(long), 0);
	return rr_init(2, 0) || !rr_thread_init(boss, NULL) ||
		rr_start() || rr_fini();
}
