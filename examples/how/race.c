/* SPDX-License-Identifier: MIT */
/* race.c: asks three servers, takes the first answer, and cancels the others. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *answers;
static _Atomic int cancelled;

static int ask(void *server)
{
	int ms[] = { 300, 100, 200 };
	int rc = u_sleep(uafter(ms[(long)server] * UTIME_MS));

	if (rc == 0)
		rc = uchan_send(answers, &server, UNEVER);
	cancelled += rc == -ECANCELED;
	return rc;
}

static int run(void *arg)
{
	utime_ns begun = unow();
	struct uscope *s;
	long first;
	int e, rc = uscope_begin(&s, uafter(10 * UTIME_S));

	(void)arg;
	if (rc != 0)
		return rc;
	for (long i = 0; rc == 0 && i < 3; i++)
		rc = uscope_go(s, ask, (void *)i);
	if (rc == 0)
		rc = uchan_recv(answers, &first, UNEVER);
	uscope_cancel(s);
	e = uscope_end(&s);
	if (rc == 0)
		printf("server %ld after %d ms, %d cancelled\n", first,
		       (int)((unow() - begun) / UTIME_MS), cancelled);
	return e == -ECANCELED ? rc : e;
}

int main(void)
{
	answers = uchan_make(sizeof(long), 3);	/* room for all: none waits */
	return answers == NULL || usched_main(run, NULL);
}
