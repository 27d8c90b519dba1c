/* SPDX-License-Identifier: MIT */
/* gather.c: waits for all, and has the result or the error of each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usched/all.h>

#define NR	4

static struct job {			/* not on the stack: threads write there */
	int n, result, rc;
} jobs[NR] = { { .n = 1 }, { .n = 2 }, { .n = -1 }, { .n = 4 } };

static int square(void *arg)
{
	struct job *j = arg;

	j->rc = u_sleep(uafter(j->n < 0 ? UNOW : j->n * UTIME_MS));
	if (j->rc == 0 && j->n < 0)
		j->rc = -EDOM;
	j->result = j->n * j->n;
	return 0;			/* an error here would end the others */
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < NR; i++)
		rc = uscope_go(s, square, &jobs[i]);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	for (int i = 0; rc == 0 && i < NR; i++)
		if (jobs[i].rc == 0)
			printf("%d: %d\n", jobs[i].n, jobs[i].result);
		else
			printf("%d: %s\n", jobs[i].n, strerror(-jobs[i].rc));
	return rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
