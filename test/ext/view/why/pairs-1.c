/* SPDX-License-Identifier: MIT */
/* pairs-1.c: a page asks the store, on the other processor, price by price. */

#include <stdio.h>
#include <usched/all.h>

#define PRICES	40		/* on a page */

static struct uchan *questions, *answers;
static utime_ns closing;
static long pages, cents;

/* Asks for the price of an article. */
__attribute__((noinline)) static long price(long article)
{
	long p = 0;

	if (uchan_send(questions, &article, UNEVER) != 0 ||
	    uchan_recv(answers, &p, UNEVER) != 0)
		return 0;
	return p;
}

static void page(void *arg)
{
	(void)arg;
	for (; unow() < closing; pages++)
		for (long i = 0; i < PRICES; i++)
			cents += price(pages + i);
	uchan_close(questions);
}

static void store(void *arg)
{
	static long prices[4096];
	long article;

	(void)arg;
	for (long i = 0; i < 4096; i++)
		prices[i] = 100 + i % 900;
	while (uchan_recv(questions, &article, UNEVER) == 0)
		if (uchan_send(answers, &prices[article % 4096], UNEVER) != 0)
			break;
}

int main(void)
{
	int rc = rr_init(2, 0);

	questions = uchan_make(sizeof(long), 1);
	answers = uchan_make(sizeof(long), 1);
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || questions == NULL || answers == NULL ||
	    !rr_thread_init(page, NULL) || !rr_thread_init(store, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld pages, %ld\n", pages, cents);
	uchan_free(questions);
	uchan_free(answers);
	return 0;
}
