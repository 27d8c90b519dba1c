/* SPDX-License-Identifier: MIT */
/* pubsub.c: each message for each subscriber; a slow subscriber loses some. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

#define NR	3

static struct subscriber {
	struct uchan *box;
	int           ms;		/* that it takes for a message */
	int           got, lost;
} all[NR] = { { .ms = 1 }, { .ms = 2 }, { .ms = 50 } };

static void publish(int message)
{
	for (int i = 0; i < NR; i++)	/* never waits */
		all[i].lost += uchan_send(all[i].box, &message, UNOW) == -EAGAIN;
}

static int subscriber(void *arg)
{
	struct subscriber *s = arg;
	int message, rc;

	while ((rc = uchan_recv(s->box, &message, UNEVER)) == 0) {
		s->got++;
		if ((rc = u_sleep(uafter(s->ms * UTIME_MS))) != 0)
			break;
	}
	return rc == -EPIPE ? 0 : rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < NR; i++)
		rc = (all[i].box = uchan_make(sizeof(int), 10)) == NULL ? -ENOMEM :
			uscope_go(s, subscriber, &all[i]);
	for (int i = 0; rc == 0 && i < 100; i++) {
		publish(i);
		rc = u_sleep(uafter(5 * UTIME_MS));
	}
	for (int i = 0; i < NR && all[i].box != NULL; i++)
		uchan_close(all[i].box);
	e = uscope_end(&s);
	for (int i = 0; i < NR; i++)
		printf("subscriber %d: %d, %s\n", i, all[i].got + all[i].lost,
		       all[i].lost == 0 ? "all of them" : "but lost some");
	return e != 0 ? e : rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
