/* SPDX-License-Identifier: MIT */
/* deadline.c: a second for all that a function does, and for all whom it asks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usched/all.h>

static int ask(void *server)
{
	int rc = u_sleep((long)server < 2 ? uafter(300 * UTIME_MS) : UNEVER);

	printf("server %ld: %s\n", (long)server, rc == 0 ? "answered" : "cancelled");
	return rc;
}

/* Knows nothing of the deadline. */
static int ask_all(void)
{
	int rc = 0;

	for (long i = 0; rc == 0 && i < 3; i++)
		rc = ask((void *)i);
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, uafter(UTIME_S));

	(void)arg;
	if (rc != 0)
		return rc;
	ask_all();			/* each wait in here ends in time */
	rc = uscope_end(&s);
	printf("in all: %s\n", strerror(-rc));
	return rc == -ETIMEDOUT ? 0 : rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
