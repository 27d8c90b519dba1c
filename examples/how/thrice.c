/* SPDX-License-Identifier: MIT */
/* thrice.c: ends at the third SIGINT only. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

/* Presses Ctrl-C: signals that come at once may be merged. */
static int user(void *arg)
{
	int rc;

	(void)arg;
	while ((rc = u_sleep(uafter(50 * UTIME_MS))) == 0)
		kill(getpid(), SIGINT);
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int nr = 0, rc = usignal_watch(SIGINT), e;

	(void)arg;
	if (rc != 0 || (rc = uscope_begin(&s, UNEVER)) != 0)
		return rc;
	rc = uscope_go(s, user, NULL);
	while (rc == 0 && nr < 3 && (rc = usignal_wait(UNEVER)) == SIGINT) {
		rc = 0;
		printf("Ctrl-C, %d\n", ++nr);
	}
	uscope_cancel(s);
	e = uscope_end(&s);
	usignal_unwatch(SIGINT);		/* from now on it ends the program */
	return rc != 0 ? rc : e == -ECANCELED ? 0 : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
