/* SPDX-License-Identifier: MIT */
/* force.c: at SIGTERM tells all to end, and ends by force after 0.2 s, or a second signal. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

/* In no scope, so no cancellation ends its wait, but only uthread_interrupt(). */
static void *force(void *arg)
{
	int rc = usignal_wait(uafter(200 * UTIME_MS));

	if (rc == -ECANCELED)
		return arg;			/* all have ended */
	printf("%s: ends by force\n", rc > 0 ? "a second signal" : "they do not end");
	fflush(NULL);
	_exit(1);
}

static int worker(void *arg)
{
	int rc;

	do
		rc = u_sleep(uafter(10 * UTIME_MS));	/* the work */
	while (rc == 0);
	printf("worker %ld ends\n", (long)arg);
	return rc;
}

/* Takes no notice of a cancellation for 3 s. */
static int deaf(void *arg)
{
	struct uscope *shield;
	int rc = uscope_shield(&shield, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	rc = u_sleep(uafter(3 * UTIME_S));
	uscope_end(&shield);
	return rc;
}

static int run(void *arg)
{
	struct uthread *t;
	struct uscope *s;
	int rc = usignal_watch(SIGTERM), e;

	(void)arg;
	if (rc != 0 || (rc = uscope_begin(&s, UNEVER)) != 0)
		return rc;
	if ((rc = uscope_go(s, worker, (void *)1L)) == 0)
		rc = uscope_go(s, deaf, NULL);
	kill(getpid(), SIGTERM);		/* as a user would */
	if (rc == 0 && (rc = usignal_wait(UNEVER)) > 0)
		rc = uthread_make(&t, force, NULL, "force");
	uscope_cancel(s);
	e = uscope_end(&s);			/* has no deadline */
	printf("all have ended\n");
	if (rc != 0)
		return rc;
	uthread_interrupt(t);
	rc = uthread_join(t, NULL, UNEVER);
	return rc != 0 ? rc : e == -ECANCELED ? 0 : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
