/* SPDX-License-Identifier: MIT */
/* yields.c: workers look again and again whether there is a job, and give way between. */

#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

#define WORKERS	4
#define JOBS	200

static struct uchan *jobs;
static _Atomic long done;

/* Takes the next job: 0; -EPIPE: there are no more. */
static int take(long *job)
{
#ifdef CURED
	return uchan_recv(jobs, job, UNEVER);	/* waits until there is a job */
#else
	int rc;

	while ((rc = uchan_recv(jobs, job, UNOW)) == -EAGAIN)
		rr_yield();
	return rc;
#endif
}

static void worker(void *arg)
{
	long job;

	(void)arg;
	while (take(&job) == 0)
		done++;
}

static void maker(void *arg)
{
	(void)arg;
	for (long job = 0; job < JOBS; job++) {
		u_sleep(uafter(2 * UTIME_MS));
		if (uchan_send(jobs, &job, UNEVER) != 0)
			break;
	}
	uchan_close(jobs);
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	jobs = uchan_make(sizeof(long), 16);
	for (i = 0; i < WORKERS && rc == 0; i++)
		rc = rr_thread_init(worker, NULL) ? 0 : -1;
	if (rc != 0 || jobs == NULL || !rr_thread_init(maker, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld jobs\n", done);
	uchan_free(jobs);
	return 0;
}
