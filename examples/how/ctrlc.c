/* SPDX-License-Identifier: MIT */
/* ctrlc.c: at SIGINT or SIGTERM takes no more jobs, but ends what has begun. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static int work(void *arg)
{
	struct uscope *job;
	int rc;

	(void)arg;
	while (!u_canceled()) {
		rc = uscope_shield(&job, uafter(5 * UTIME_S));	/* 5 s for a job */
		if (rc != 0)
			return rc;
		rc = u_sleep(uafter(50 * UTIME_MS));		/* the job */
		if (rc == 0)
			printf("a job is done\n");
		uscope_end(&job);
		if (rc == 0)
			kill(getpid(), SIGTERM);		/* as a user would */
		u_sleep(uafter(UTIME_S));			/* until the next job */
	}
	return 0;
}

static int until_term(void *arg)
{
	return usignal_until(SIGTERM, work, arg);
}

static int run(void *arg)
{
	int rc = usignal_until(SIGINT, until_term, arg);

	if (rc == 0)
		printf("ends in good order\n");
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
