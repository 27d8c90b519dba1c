/* SPDX-License-Identifier: MIT */
/* timed.c: threads sleep. The scheduler is a queue, and two lines for waits. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define NR	3

static struct ustack sleeper[NR], *queue[NR];	/* can run */
static unsigned head, tail;

/* The two lines: the running thread waits; u, which waits, can run again. */
static int block(struct usched *s) { return (void)s, ustack_block(); }
static void ready(struct usched *s, struct ustack *u)
{ (void)s, queue[tail++ % NR] = u; }

static struct ustack *next(struct usched *s)
{
	utime_run(s);			/* if no thread sleeps, a load */
	while (head == tail)
		if (!utime_idle(s))
			return NULL;
	return queue[head++ % NR];
}

static void *alloc(struct usched *s, int size)
{
	return (void)s, malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	(void)s, (void)size, free(buf);
}

static void tick(void *ms)
{
	struct uticker k = uticker((long)ms * UTIME_MS);
	int i;

	for (i = 1; i <= 3 && uticker_wait(&k, NULL) == 0; i++)
		printf("after %ld ms\n", i * (long)ms);
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop,
			    .s_wait = block, .s_wake = ready };
	long i;

	utime_virtual(0);	/* or this takes a second and a half */
	for (i = 0; i < NR; i++, tail++)
		ustack_init(queue[i] = &sleeper[i], &s, tick,
			    (void *)(100 + 170 * i), NULL, 0);
	usched_run(&s);
	utime_fini(&s);
	for (i = 0; i < NR; i++)
		free(sleeper[i].u_stack);
}
