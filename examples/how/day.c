/* SPDX-License-Identifier: MIT */
/* day.c: tests a time-out of a day, in no time. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

#define DAY	(24 * 3600 * UTIME_S)

static struct uchan *orders;

/* What is tested. */
static int await_order(void)
{
	return uchan_recv(orders, NULL, uafter(DAY));
}

static void late(void *arg)
{
	u_sleep(uafter(2 * DAY));
	uchan_send(orders, arg, UNEVER);
}

static int run(void *arg)
{
	utime_ns begun = unow();
	int first, second, rc = usched_go(late, arg);

	if (rc != 0)
		return rc;
	first = await_order();
	second = uchan_recv(orders, NULL, UNEVER);
	printf("first: %s, second: %s, after %d days\n",
	       first == -ETIMEDOUT ? "too late" : "?", second == 0 ? "there" : "?",
	       (int)((unow() - begun) / DAY));
	return 0;
}

int main(void)
{
	utime_virtual(0);	/* the clock jumps when all threads wait */
	orders = uchan_make(0, 1);
	return orders == NULL || usched_main(run, NULL);
}
