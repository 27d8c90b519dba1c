/* SPDX-License-Identifier: MIT */
/* tick.c: works each 100 ms, whatever the work takes. */
#include <stdio.h>
#include <usched/all.h>

static int run(void *arg)
{
	struct uticker ticker = uticker(100 * UTIME_MS);
	utime_ns begun = unow();
	long missed;
	int rc = 0;

	(void)arg;
	for (int i = 0; rc == 0 && i < 4; i++) {
		rc = uticker_wait(&ticker, &missed);
		printf("at %d ms, %ld missed\n", (int)((unow() - begun) / UTIME_MS), missed);
		if (rc == 0)
			rc = u_sleep(uafter((i == 1 ? 250 : 30) * UTIME_MS));	/* the work */
	}
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
