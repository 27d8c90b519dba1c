/* SPDX-License-Identifier: MIT */
/* queue.c: a producer that has to wait while four jobs wait. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *jobs;

static int work(void *arg)
{
	int n, rc;

	(void)arg;
	while ((rc = uchan_recv(jobs, &n, UNEVER)) == 0)
		if ((rc = u_sleep(uafter(10 * UTIME_MS))) != 0)
			break;
	return rc == -EPIPE ? 0 : rc;		/* closed, and empty */
}

static int run(void *arg)
{
	struct uscope *s;
	unsigned most = 0;
	int e, rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, work, NULL);
	for (int i = 0; rc == 0 && i < 100; i++) {
		rc = uchan_send(jobs, &i, UNEVER);	/* UNOW: -EAGAIN if full */
		if (uchan_count(jobs) > most)
			most = uchan_count(jobs);
	}
	uchan_close(jobs);
	e = uscope_end(&s);
	printf("at most %u jobs wait\n", most);
	return e != 0 ? e : rc;
}

int main(void)
{
	jobs = uchan_make(sizeof(int), 4);
	return jobs == NULL || usched_main(run, NULL);
}
