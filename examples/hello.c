/* SPDX-License-Identifier: MIT */
/* hello.c: two threads take turns. The scheduler is a queue. */

#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

static struct ustack hello, world;
static struct ustack *queue[2] = { &hello, &world };
static unsigned head, tail = 2;

static struct ustack *next(struct usched *s)
{
	return (void)s, head < tail ? queue[head++ % 2] : NULL;
}

static void *alloc(struct usched *s, int size)
{
	return (void)s, malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	(void)s, (void)size, free(buf);
}

static void speak(void *word)
{
	int i;

	for (i = 1; i <= 3; i++) {
		printf("%s %d\n", (char *)word, i);
		queue[tail++ % 2] = ustack_self();
		if (ustack_block() != 0)
			abort();	/* out of memory */
	}
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };

	ustack_init(&hello, &s, speak, "hello", NULL, 0);
	ustack_init(&world, &s, speak, "world", NULL, 0);
	usched_run(&s);
	free(hello.u_stack);
	free(world.u_stack);
	return 0;
}
