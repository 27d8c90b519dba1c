/* SPDX-License-Identifier: MIT */
/* select.c: waits for the first of two channels, or for the time to pass. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *orders, *prices;

static int trade(void *arg)
{
	int order = 0, price = 0, which;
	struct ucase cases[] = { UCASE_RECV(orders, &order), UCASE_RECV(prices, &price) };

	(void)arg;
	while ((which = uselect(cases, 2, uafter(100 * UTIME_MS))) >= 0) {
		if (cases[which].cs_result != 0)
			return cases[which].cs_result;		/* -EPIPE: it is closed */
		if (which == 0)
			printf("order %d\n", order);
		else
			printf("price %d\n", price);
	}
	printf("silence\n");
	return which == -ETIMEDOUT ? 0 : which;
}

static int run(void *arg)
{
	struct uscope *s;
	int v = 7, e, rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, trade, NULL);
	for (int i = 0; rc == 0 && i < 2; i++, v += 100)
		if ((rc = u_sleep(uafter(10 * UTIME_MS))) == 0)
			rc = uchan_send(i == 0 ? prices : orders, &v, UNEVER);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	orders = uchan_make(sizeof(int), 0);
	prices = uchan_make(sizeof(int), 0);
	return orders == NULL || prices == NULL || usched_main(run, NULL);
}
