/* SPDX-License-Identifier: MIT */
/* hello.c: two threads take turns. The scheduler is a queue. */

#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

static struct ustack hello, world;
static struct ustack *queue[2] = { &hello, &world };	/* can run */
static unsigned head, tail = 2;

/* Returns the thread that runs next. NULL ends usched_run(). */
static struct ustack *next(struct usched *s)
{
	(void)s;
	if (head == tail)
		return NULL;
	return queue[head++ % 2];
}

static void *alloc(struct usched *s, int size)
{
	(void)s;
	return malloc(size);
}

static void release(struct usched *s, void *buffer, int size)
{
	(void)s;
	(void)size;
	free(buffer);
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
	struct usched s = {
		.s_next = next, .s_alloc = alloc, .s_free = release
	};

	ustack_init(&hello, &s, speak, "hello", NULL, 0);
	ustack_init(&world, &s, speak, "world", NULL, 0);
	usched_run(&s);
	free(hello.u_stack);
	free(world.u_stack);
	return 0;
}
