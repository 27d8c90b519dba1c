/* SPDX-License-Identifier: MIT */
/* timer.c: a timer that each sign of life sets back; else it fires after 100 ms. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *signs;		/* of life; closed: no timer any more */

static int watch(void *arg)
{
	utime_ns begun = unow();
	int rc;

	(void)arg;
	while ((rc = uchan_recv(signs, NULL, uafter(100 * UTIME_MS))) == 0)
		;
	if (rc == -ETIMEDOUT)
		printf("fires after %d ms\n", (int)((unow() - begun) / UTIME_MS));
	return rc == -EPIPE || rc == -ETIMEDOUT ? 0 : rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, watch, NULL);
	for (int i = 0; rc == 0 && i < 4; i++)
		if ((rc = u_sleep(uafter(60 * UTIME_MS))) == 0)
			uchan_send(signs, NULL, UNOW);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	signs = uchan_make(0, 1);
	return signs == NULL || usched_main(run, NULL);
}
