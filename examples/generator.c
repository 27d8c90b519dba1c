/* SPDX-License-Identifier: MIT */
/* generator.c: a tree is walked by recursion, one key for each pull. */

#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

static const char tree[] = " dbfaceg";	/* below node i: 2i and 2i + 1 */
static struct ustack walker;
static char key;			/* where the walk is; 0: on its way */

static struct ustack *next(struct usched *s)
{
	(void)s;
	return key == 0 ? &walker : NULL;
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

static void walk(size_t node)
{
	if (node >= sizeof tree - 1)
		return;
	walk(2 * node);
	key = tree[node];
	if (ustack_block() != 0)
		abort();	/* out of memory */
	walk(2 * node + 1);
}

static void generate(void *end)
{
	walk(1);
	key = *(char *)end;
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };

	ustack_init(&walker, &s, generate, "\n", NULL, 0);
	do {
		key = 0;
		usched_run(&s);		/* until there is a key */
		putchar(key);
	} while (key != '\n');
	free(walker.u_stack);
	return 0;
}
