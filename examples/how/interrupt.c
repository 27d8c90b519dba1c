/* SPDX-License-Identifier: MIT */
/* interrupt.c: ends the wait of a single thread, which then ends in good order. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static void *serve(void *arg)
{
	int rc;

	do
		rc = u_sleep(uafter(UTIME_S));		/* or any other wait */
	while (rc == 0);
	printf("%s: %s\n", (char *)arg, rc == -ECANCELED ? "is told to end" : "?");
	return "clean";
}

static int run(void *arg)
{
	struct uthread *t;
	void *result;
	int rc = uthread_make(&t, serve, "server", "server");

	(void)arg;
	if (rc != 0)
		return rc;
	rc = u_sleep(uafter(2500 * UTIME_MS));
	uthread_interrupt(t);
	if (rc == 0)
		rc = uthread_join(t, &result, uafter(60 * UTIME_S));
	if (rc == 0)
		printf("its end: %s\n", (char *)result);
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
