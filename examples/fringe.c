/* SPDX-License-Identifier: MIT */
/* fringe.c: do two trees have the same leaves? Walks only as far as needed. */

#include <stdio.h>
#include <stdlib.h>
#include "usched.h"

static struct ustack walker[2];
static char leaf[2];		/* where each walk is; 0: on its way */

static struct ustack *next(struct usched *s)
{
	(void)s;
	return !leaf[0] ? &walker[0] : !leaf[1] ? &walker[1] : NULL;
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

static const char *walk(const char *tree)
{
	if (*tree == '(')		/* two trees and a parenthesis */
		return walk(walk(tree + 1)) + 1;
	leaf[ustack_self() - walker] = *tree;
	if (ustack_block() != 0)
		abort();		/* out of memory */
	return tree + 1;
}

static void fringe(void *tree)
{
	walk(walk(tree));		/* the second leaf is the full stop */
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };

	ustack_init(&walker[0], &s, fringe, "((ab)(cd)).", NULL, 0);
	ustack_init(&walker[1], &s, fringe, "(a((bd)c)).", NULL, 0);
	do {
		leaf[0] = leaf[1] = 0;
		usched_run(&s);		/* until both are at a leaf */
		printf("%c %c\n", leaf[0], leaf[1]);
	} while (leaf[0] == leaf[1] && leaf[0] != '.');
	ustack_fini(&walker[0]);
	ustack_fini(&walker[1]);
	free(walker[0].u_stack);
	free(walker[1].u_stack);
	return 0;
}
