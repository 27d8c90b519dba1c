/* SPDX-License-Identifier: MIT */
/* office.c: clerks answer letters as they come, while a report is written. */

#include <stdio.h>
#include <usched/all.h>

#define CLERKS	8
#define LETTERS	100
#define PAGES	15

static int answered, written;

/* Computes for so long. */
static void work(utime_ns ns)
{
	utime_ns end = unow() + ns;

	while (unow() < end)
		;
}

static void clerk(void *arg)
{
	struct uticker letters = uticker(2 * UTIME_MS);

	(void)arg;
	for (int i = 0; i < LETTERS; i++) {
		uticker_wait(&letters, NULL);
		work(20 * UTIME_US);
		answered++;
	}
}

static void report(void *arg)
{
	(void)arg;
	for (int i = 0; i < PAGES; i++) {
		u_sleep(uafter(4 * UTIME_MS));
		work(9 * UTIME_MS);
		written++;
	}
}

int main(void)
{
	int i, rc = rr_init(1, 0);

	for (i = 0; i < CLERKS && rc == 0; i++)
		rc = rr_thread_init(clerk, NULL) ? 0 : -1;
	if (rc != 0 || !rr_thread_init(report, NULL) || rr_start() != 0 ||
	    rr_fini() != 0)
		return 1;
	printf("%d letters, %d pages\n", answered, written);
	return 0;
}
