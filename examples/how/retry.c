/* SPDX-License-Identifier: MIT */
/* retry.c: asks again after 100, 200, 400 ms ..., less up to half of that at random. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static utime_ns begun;

static int ask(void)			/* a server that comes up after a while */
{
	return unow() - begun < 310 * UTIME_MS ? -ECONNREFUSED : 0;
}

/* Tries until a success, or an error of the last try. */
static int retry(int (*f)(void), int tries, utime_ns until)
{
	utime_ns pause = 100 * UTIME_MS;
	int rc = f();

	for (int i = 1; rc != 0 && i < tries && unow() < until; i++) {
		utime_ns ns = pause / 2 + uwait_random((unsigned)pause / 2);
		int e = u_sleep(ns < until - unow() ? uafter(ns) : until);

		if (e != 0)
			return e;	/* cancelled */
		rc = f();
		printf("try %d: %s\n", i + 1, rc == 0 ? "answered" : "refused");
		if (pause < 2 * UTIME_S)
			pause *= 2;
	}
	return rc;
}

static int run(void *arg)
{
	(void)arg;
	begun = unow();
	return retry(ask, 5, uafter(10 * UTIME_S));
}

int main(void)
{
	return usched_main(run, NULL);
}
