/* SPDX-License-Identifier: MIT */
/* ctrlc.c: at SIGINT or SIGTERM takes no more jobs, but ends what has begun. */
#include <errno.h>
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

static int run(void *arg)
{
	struct uscope *s;
	int signo, rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	if ((rc = usignal_watch(SIGINT)) == 0 && (rc = usignal_watch(SIGTERM)) == 0)
		rc = uscope_go(s, work, NULL);
	signo = rc == 0 ? usignal_wait(UNEVER) : rc;
	uscope_cancel(s);
	e = uscope_end(&s);
	if (signo > 0)
		printf("ends in good order\n");
	return rc != 0 ? rc : e == -ECANCELED ? 0 : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
