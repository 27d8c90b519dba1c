/* SPDX-License-Identifier: MIT */
/* quit.c: three threads work until a fourth ends all of them. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uscope *all;		/* in static storage, for each thread to cancel */
static _Atomic int working;

static int work(void *arg)
{
	int rc;

	(void)arg;
	working++;
	do
		rc = u_sleep(uafter(10 * UTIME_MS));	/* the work */
	while (rc == 0);
	working--;
	return rc;
}

static int input(void *arg)
{
	int rc = u_sleep(uafter(100 * UTIME_MS));	/* for a line of input */

	(void)arg;
	printf("the input says: end, %d work\n", working);
	uscope_cancel(all);			/* or: return an error, which cancels, too */
	return rc;
}

static int run(void *arg)
{
	int rc = uscope_begin(&all, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = uscope_go(all, work, NULL);
	if (rc == 0)
		rc = uscope_go(all, input, NULL);
	if (rc != 0)
		uscope_cancel(all);
	e = uscope_end(&all);			/* waits for the last of them */
	printf("the clean-up: %d work\n", working);
	return rc != 0 ? rc : e == -ECANCELED ? 0 : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
