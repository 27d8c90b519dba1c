/* SPDX-License-Identifier: MIT */
/* start.c: five threads wait for one event, and all see it. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *ready;		/* carries nothing: its close is the event */
static _Atomic int going;

static int runner(void *arg)
{
	int rc = uchan_recv(ready, NULL, uafter(10 * UTIME_S));

	(void)arg;
	going += rc == -EPIPE;		/* also for those that come late */
	return rc == -EPIPE ? 0 : rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 5; i++) {
		if (i == 4) {
			rc = u_sleep(uafter(10 * UTIME_MS));
			printf("%d before\n", going);
			uchan_close(ready);
		}
		if (rc == 0)
			rc = uscope_go(s, runner, NULL);
	}
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	printf("%d after\n", going);
	return e != 0 ? e : rc;
}

int main(void)
{
	ready = uchan_make(0, 0);
	return ready == NULL || usched_main(run, NULL);
}
