/* SPDX-License-Identifier: MIT */
/* seeds.c: a bug that shows in one order of threads only, found by seeds. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static int port, bugs;

static int load(void *arg)
{
	int rc = u_sleep(uafter(10 * UTIME_MS));	/* reads a file, say */

	(void)arg;
	port = 80;
	return rc;
}

/* WRONG: hopes that the port was loaded. */
static int serve(void *arg)
{
	int rc = u_sleep(uafter(10 * UTIME_MS));	/* opens a log */

	(void)arg;
	bugs += port == 0;
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	port = 0;
	if ((rc = uscope_go(s, load, NULL)) == 0)
		rc = uscope_go(s, serve, NULL);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	int rc = 0;

	for (int seed = 1; rc == 0 && bugs == 0 && seed <= 100; seed++) {
		utime_virtual(seed);		/* alone: USCHED_SEED=7 ./a.out */
		rc = usched_main(run, NULL);
		if (bugs != 0)
			fprintf(stderr, "seed %d\n", seed);
	}
	printf("a bug: %s\n", bugs != 0 ? "found" : "not found");
	return rc;
}
