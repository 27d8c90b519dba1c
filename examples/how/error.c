/* SPDX-License-Identifier: MIT */
/* error.c: the first error ends the other threads, and is the result of all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usched/all.h>

static _Atomic int done;

static int store(void *arg)
{
	long n = (long)arg;
	int rc = u_sleep(uafter(n * 10 * UTIME_MS));

	if (rc == 0 && n == 3)
		return -ENOSPC;
	done += rc == 0;
	return rc;			/* -ECANCELED is no error here */
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (long i = 1; rc == 0 && i <= 9; i++)
		rc = uscope_go(s, store, (void *)i);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	printf("%d done, then: %s\n", done, strerror(-e));
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
