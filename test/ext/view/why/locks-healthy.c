/* SPDX-License-Identifier: MIT */
/* locks-healthy.c: 0.85 threads wait for a printer on average, limit 1.0. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define TILLS		3
#define CUSTOMERS	100	/* one each 20 ms */

static struct umutex printer;
static utime_ns opened;
static int printed;

/* Feeds the printer, and waits 5.6 ms until the paper is out. */
__attribute__((noinline)) static void print(void)
{
	if (umutex_lock(&printer, UNEVER) != 0)
		abort();
	printed++;
	u_sleep(uafter(5600 * UTIME_US));
	umutex_unlock(&printer);
}

static void till(void *arg)
{
	(void)arg;
	for (int i = 1; i <= CUSTOMERS; i++) {
		if (u_sleep(opened + i * 20 * UTIME_MS) != 0)
			break;
		print();
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < TILLS && rc == 0; i++)
		rc = rr_thread_init(till, NULL) ? 0 : -1;
	opened = unow();
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%d receipts\n", printed);
	return 0;
}
