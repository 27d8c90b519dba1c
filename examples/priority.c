/* SPDX-License-Identifier: MIT */
/* priority.c: your own scheduler: the most urgent thread runs first. */

#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

enum { NR = 3 };

static struct ustack thread[NR]; /* most urgent first; u_mark: it can run */

static struct ustack *next(struct usched *s)
{
	struct ustack *u = thread;

	(void)s;
	while (u < thread + NR && !u->u_mark)
		u++;
	return u < thread + NR ? u : NULL;
}

static void *alloc(struct usched *s, int size)
{
	(void)s;
	return malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	(void)s, (void)size;
	free(buf);
}

static void work(void *name)
{
	struct ustack *u = ustack_self();

	printf("%s starts\n", (char *)name);
	if (u > thread)
		u[-1].u_mark = 1;	/* wakes a more urgent thread */
	if (ustack_block() != 0)	/* lets the more urgent go first */
		abort();
	printf("%s ends\n", (char *)name);
	u->u_mark = 0;
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };
	static char *name[NR] = { "alarm", "mail", "idle" };
	int i;

	for (i = 0; i < NR; i++)
		ustack_init(&thread[i], &s, work, name[i], NULL, 0);
	thread[NR - 1].u_mark = 1;
	usched_run(&s);
	for (i = 0; i < NR; i++)
		free(thread[i].u_stack);
	return 0;
}
