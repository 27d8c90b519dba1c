/* SPDX-License-Identifier: MIT */
/* kitchen.c: guests order, cooks cook, and each meal is noted in a book. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define GUESTS	24
#define COOKS	6
#define MEALS	60

static struct uchan *orders;
static struct umutex book;
static int cooked, eating = GUESTS;

/* Computes for so long. */
static void work(utime_ns ns)
{
	utime_ns end = unow() + ns;

	while (unow() < end)
		;
}

static void guest(void *arg)
{
	int i;

	for (i = 0; i < MEALS && uchan_send(orders, &arg, UNEVER) == 0; i++)
		u_sleep(uafter(3 * UTIME_MS));
	if (__atomic_sub_fetch(&eating, 1, __ATOMIC_RELAXED) == 0)
		uchan_close(orders);
}

static void cook(void *arg)
{
	while (uchan_recv(orders, &arg, UNEVER) == 0) {
		work(40 * UTIME_US);
		if (umutex_lock(&book, UNEVER) != 0)
			abort();
		cooked++;
		umutex_unlock(&book);
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	orders = uchan_make(sizeof(void *), 16);
	for (i = 0; i < GUESTS + COOKS && rc == 0; i++)
		rc = rr_thread_init(i < COOKS ? cook : guest, NULL) ? 0 : -1;
	if (orders == NULL || rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%d meals\n", cooked);
	return 0;
}
