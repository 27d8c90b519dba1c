/* SPDX-License-Identifier: MIT */
/* pingpong.c: a page asks a store for prices, and each question wakes another processor. */

#include <stdio.h>
#include <usched/all.h>

#ifdef CURED
#define PROC	0		/* the store runs where the page does */
#else
#define PROC	1
#endif

static struct uchan *questions, *answers;
static utime_ns closing;
static long asked, cents;

static void page(void *arg)
{
	long price;

	(void)arg;
	for (; unow() < closing; asked++) {
		if (uchan_send(questions, &asked, UNEVER) != 0 ||
		    uchan_recv(answers, &price, UNEVER) != 0)
			break;
		cents += price;
	}
	uchan_close(questions);
}

static void store(void *arg)
{
	long article;

	(void)arg;
	while (uchan_recv(questions, &article, UNEVER) == 0) {
		article = 100 + article % 900;
		if (uchan_send(answers, &article, UNEVER) != 0)
			break;
	}
}

int main(void)
{
	int rc = rr_init(2, 0);

	questions = uchan_make(sizeof(long), 1);
	answers = uchan_make(sizeof(long), 1);
	closing = uafter(300 * UTIME_MS);
	if (rc != 0 || questions == NULL || answers == NULL ||
	    !rr_thread_on(0, page, NULL) || !rr_thread_on(PROC, store, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld prices, %ld cents\n", asked, cents);
	uchan_free(questions);
	uchan_free(answers);
	return 0;
}
