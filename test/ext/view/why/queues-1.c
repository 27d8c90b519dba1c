/* SPDX-License-Identifier: MIT */
/* queues-1.c: 2,000 orders come a second; the one cashier waits 1 ms for each. */

#include <stdio.h>
#include <usched/all.h>

#define SHOPS	8

static struct uchan *orders;
static struct ugroup open;
static utime_ns closing;
static long paid, taken;

/* Asks the bank, which answers after 1 ms. */
__attribute__((noinline)) static int charge(long order)
{
	paid += order;
	return u_sleep(uafter(UTIME_MS));
}

static void shop(void *arg)
{
	struct uticker customers = uticker(4 * UTIME_MS);
	long order = (long)arg;

	while (unow() < closing && uticker_wait(&customers, NULL) == 0)
		if (uchan_send(orders, &order, UNEVER) != 0)
			break;
	ugroup_done(&open);
}

/* Takes orders until the shops have closed; the rest waits for tomorrow. */
static void cashier(void *arg)
{
	long order;

	(void)arg;
	while (unow() < closing && uchan_recv(orders, &order, UNEVER) == 0 &&
	       charge(order) == 0)
		taken++;
	if (ugroup_wait(&open, UNEVER) == 0)
		uchan_close(orders);
}

int main(void)
{
	int rc = ll_init(2, 0);

	orders = uchan_make(sizeof(long), 10000);
	for (long i = 0; i < SHOPS && rc == 0; i++)
		rc = ugroup_add(&open, 1) == 0 &&
			ll_thread_init(shop, (void *)i, i) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || orders == NULL || !ll_thread_init(cashier, NULL, 0) ||
	    ll_start() != 0 || ll_fini() != 0)
		return 1;
	printf("%ld orders, %u left\n", taken, uchan_count(orders));
	uchan_free(orders);
	return 0;
}
