/* SPDX-License-Identifier: MIT */
/* tree.c: cancels threads that made threads, which all clean up before they end. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static _Atomic int clean;

/* Also waits if its scope is cancelled. */
static void clean_up(void)
{
	struct uscope *shield;

	if (uscope_shield(&shield, uafter(UTIME_S)) != 0)
		return;
	if (u_sleep(uafter(10 * UTIME_MS)) == 0)	/* says goodbye */
		clean++;
	uscope_end(&shield);
}

static int node(void *arg)
{
	long depth = (long)arg;
	struct uscope *s;
	int e, rc = uscope_begin(&s, UNEVER);

	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 2 && depth > 0; i++)
		rc = uscope_go(s, node, (void *)(depth - 1));
	if (rc == 0)
		rc = u_sleep(uafter(3600 * UTIME_S));
	clean_up();
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

static int run(void *arg)
{
	utime_ns begun = unow();
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, node, (void *)2L);
	if (rc == 0)
		rc = u_sleep(uafter(100 * UTIME_MS));
	uscope_cancel(s);			/* the node, and all below */
	uscope_end(&s);				/* waits for the last of them */
	printf("%d of 7 clean within a second: %s\n", clean,
	       unow() - begun < UTIME_S ? "yes" : "no");
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
