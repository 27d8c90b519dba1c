/* SPDX-License-Identifier: MIT */
/* procs.c: two threads that compute at the same time, on two processors. */
#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

static _Atomic int here;

/* Computes until the other is here, too, for a while at most. */
static int compute(void *arg)
{
	utime_ns until = uafter(3 * UTIME_S);

	(void)arg;
	here++;
	while (here < 2 && unow() < until)
		;
	return here == 2 ? 0 : -1;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 2; i++)
		rc = uscope_go(s, compute, NULL);
	e = uscope_end(&s);
	printf("%s\n", e == 0 ? "both at the same time" : "one after the other");
	return rc;
}

int main(void)
{
	/* Or in the environment. Threads of ws go where there is time. */
	if (setenv("USCHED", "ws:2", 1) != 0)
		return 1;
	return usched_main(run, NULL);
}
