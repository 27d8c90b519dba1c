/* SPDX-License-Identifier: MIT */
/* shop.c: clerks take orders, and note each in a book that they share. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define CLERKS	16
#define ORDERS	300

static struct umutex book;
static int noted;

/* Computes for so long. */
static void work(utime_ns ns)
{
	utime_ns end = unow() + ns;

	while (unow() < end)
		;
}

/* Each eighth note fills a page, which is sent away. */
__attribute__((noinline)) static void note(void)
{
	if (umutex_lock(&book, UNEVER) != 0)
		abort();
	work(4 * UTIME_US);
	if (++noted % 8 == 0)
		u_sleep(uafter(300 * UTIME_US));
	umutex_unlock(&book);
}

static void clerk(void *arg)
{
	(void)arg;
	for (int i = 0; i < ORDERS; i++) {
		work(20 * UTIME_US);
		note();
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < CLERKS && rc == 0; i++)
		rc = rr_thread_init(clerk, NULL) ? 0 : -1;
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%d orders\n", noted);
	return 0;
}
