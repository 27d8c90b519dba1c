/* SPDX-License-Identifier: MIT */
/* limit.c: ten downloads, of which three run at a time. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct usem places = USEM(3);

static int download(void *arg)
{
	int rc = u_sleep(uafter(100 * UTIME_MS));	/* the work */

	(void)arg;
	usem_post(&places);
	return rc;
}

static int run(void *arg)
{
	utime_ns begun = unow();
	struct uscope *s;
	int e, rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 10; i++) {
		rc = usem_wait(&places, UNEVER);	/* before there is a thread */
		if (rc == 0)
			rc = uscope_go(s, download, NULL);
	}
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);				/* waits for all */
	printf("ten took %d ms\n", (int)((unow() - begun) / UTIME_MS));
	return e == -ECANCELED && rc != 0 ? rc : e;	/* the first error */
}

int main(void)
{
	return usched_main(run, NULL);
}
