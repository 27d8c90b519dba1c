/* SPDX-License-Identifier: MIT */
/* list.c: lists all threads, and what they wait for. */
#include <stdio.h>
#include <usched/all.h>
#include <usched/ulist.h>

static struct uchan *mail;

static int reader(void *arg)
{
	(void)arg;
	return uchan_recv(mail, NULL, UNEVER);
}

static int cleaner(void *arg)
{
	(void)arg;
	return u_sleep(uafter(3600 * UTIME_S));
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = uscope_go(s, reader, NULL);
	if (rc == 0)
		rc = uscope_go(s, cleaner, NULL);
	if (rc == 0)
		rc = u_sleep(uafter(50 * UTIME_MS));
	ulist_print("what goes on?");
	uscope_cancel(s);
	uscope_end(&s);
	return rc;
}

int main(void)
{
	if (ulist_start() != 0)		/* or USCHED_LIST=signal, and kill -QUIT */
		return 1;
	mail = uchan_make(0, 0);
	return mail == NULL || usched_main(run, NULL);
}
