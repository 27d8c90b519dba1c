/* SPDX-License-Identifier: MIT */
/* deadlock.c: two transfers, each of which holds the account that the other asks for. */

#include <stdio.h>
#include <usched/all.h>

static struct account {
	struct umutex lock;
	long          cents;
} savings, purse;

static void transfer(struct account *from, struct account *to, long cents)
{
	struct account *first = from, *second = to;

#ifdef CURED
	if (first > second)		/* all threads lock in the same order */
		first = to, second = from;
#endif
	if (umutex_lock(&first->lock, UNEVER) != 0)
		return;
	u_sleep(uafter(50 * UTIME_MS));		/* asks the bank */
	if (umutex_lock(&second->lock, UNEVER) == 0) {
		from->cents -= cents;
		to->cents += cents;
		umutex_unlock(&second->lock);
	}
	umutex_unlock(&first->lock);
}

static void save(void *arg)
{
	(void)arg;
	transfer(&purse, &savings, 5000);
}

static void spend(void *arg)
{
	(void)arg;
	transfer(&savings, &purse, 2000);
}

int main(void)
{
	if (rr_init(2, 0) != 0 || !rr_thread_init(save, NULL) ||
	    !rr_thread_init(spend, NULL) || rr_start() != 0)
		return 1;
	if (rr_fini() != 0)
		printf("%ld threads wait for ever\n", rr_stuck());
	else
		printf("%ld cents saved\n", savings.cents);
	return 0;
}
