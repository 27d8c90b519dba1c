/* SPDX-License-Identifier: MIT */
/* burst.c: a server looks each 5 ms whether there are questions, and answers all at once. */

#include <stdio.h>
#include <usched/all.h>

#define CLIENTS	8

static struct uchan *questions;		/* of their clients */
static _Atomic int open = CLIENTS;
static utime_ns closing;
static long answered;

static void client(void *arg)
{
	struct uchan *answer = uchan_make(sizeof(long), 1);
	long price;

	(void)arg;
	while (answer != NULL && unow() < closing) {
		if (uchan_send(questions, &answer, UNEVER) != 0 ||
		    uchan_recv(answer, &price, UNEVER) != 0)
			break;
		u_sleep(uafter(200 * UTIME_US));
	}
	uchan_free(answer);
	if (--open == 0)
		uchan_close(questions);
}

/* Answers the next question, if it comes until then. */
static int answer(utime_ns until)
{
	struct uchan *client;
	int rc = uchan_recv(questions, &client, until);

	if (rc == 0) {
		uchan_send(client, &answered, UNEVER);
		answered++;
	}
	return rc;
}

static void server(void *arg)
{
	(void)arg;
#ifdef CURED
	while (answer(UNEVER) == 0)		/* waits for each question */
		;
#else
	for (; open > 0; u_sleep(uafter(5 * UTIME_MS)))
		while (answer(UNOW) == 0)
			;
#endif
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	questions = uchan_make(sizeof(struct uchan *), CLIENTS);
	for (i = 0; i < CLIENTS && rc == 0; i++)
		rc = rr_thread_init(client, NULL) ? 0 : -1;
	closing = uafter(400 * UTIME_MS);
	if (rc != 0 || questions == NULL || !rr_thread_init(server, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld answers\n", answered);
	uchan_free(questions);
	return 0;
}
