/* SPDX-License-Identifier: MIT */
/* gc.c: lists of threads that wait, in memory that a collector frees: libgc. */
/* LIBS: -lgc */
#include "collector.h"
#include <usched/all.h>
#include <stdio.h>

#define THREADS	100
#define LENGTH	200

struct cell {
	struct cell *next;
	long         value;
};

static struct cell *cons(long value, struct cell *next)
{
	struct cell *c = GC_MALLOC(sizeof *c);

	*c = (struct cell) { next, value };
	return c;
}

/* Makes a list, waits now and then, and sends the list, which nothing else holds. */
static void maker(void *arg)
{
	struct uchan *lists = arg;
	struct cell *c = NULL;
	long i;

	for (i = 1; i <= LENGTH; i++) {
		c = cons(i, c);
		GC_MALLOC(2000);			/* garbage */
		if (i % 10 == 0)
			u_sleep(uafter(UTIME_MS));
	}
	uchan_send(lists, &c, UNEVER);
}

static int run(void *arg)
{
	struct uchan *lists = uchan_make(sizeof(struct cell *), 10);
	long sum = 0;
	struct cell *c;
	int i;

	(void)arg;
	for (i = 0; i < THREADS; i++)
		if (usched_go(maker, lists) != 0)
			return 1;
	for (i = 0; i < THREADS; i++)
		for (uchan_recv(lists, &c, UNEVER); c != NULL; c = c->next)
			sum += c->value;
	uchan_free(lists);
	printf("sum %ld\n", sum);
	printf("it was collected: %s\n", GC_get_gc_no() > 0 ? "yes" : "no");
	printf("memory stays small: %s\n", GC_get_heap_size() < 16 << 20 ? "yes" : "no");
	return 0;
}

int main(void)
{
	return collector_start() != 0 ? 1 : usched_main(run, NULL);
}
