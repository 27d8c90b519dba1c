/* SPDX-License-Identifier: MIT */
/* walk.c: generators as in Python: loops over a tree, filtered, zipped, cut. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

struct node {
	int key;
	const struct node *left, *right;
};

static const struct node one = { 1, NULL, NULL }, three = { 3, NULL, NULL },
	five = { 5, NULL, NULL }, two = { 2, &one, &three },
	six = { 6, &five, NULL }, four = { 4, &two, &six };

static void walk(const struct node *n)
{
	if (n == NULL)
		return;
	walk(n->left);
	ugen_yield(&n->key);		/* from any depth of plain calls */
	walk(n->right);
}

static void keys(void *root)
{
	walk(root);
}

/* Yields the odd values of another generator, whose consumer it is. */
static void odd(void *from)
{
	for (int *key; (key = ugen_next(from)) != NULL; ) {
		if (*key % 2 != 0 && ugen_yield(key) != 0)
			break;
	}
	ugen_free(from);
}

static void letters(void *unused)
{
	(void)unused;
	for (char c = 'a'; ugen_yield(&c) == 0; c++)
		;				/* until it is dropped */
}

int main(void)
{
	struct ugen *all = ugen_make(keys, (void *)&four, sizeof(int));
	struct ugen *some = ugen_make(odd, all, sizeof(int));
	struct ugen *names = ugen_make(letters, NULL, sizeof(char));

	for (int *key; (key = ugen_next(some)) != NULL; )
		printf("%c %d\n", *(char *)ugen_next(names), *key);
	ugen_free(names);
	return ugen_free(some) != 0;		/* out of memory, anywhere? */
}
