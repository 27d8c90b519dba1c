/* SPDX-License-Identifier: MIT */
/* callback.cpp: no generators: the values are given to a function. */

#include "../../gen.h"

struct sum {
	long s_sum;
	long s_left;
};

/* Returns whether more are wanted. */
typedef bool taker(sum *s, long value);

static __attribute__((noinline)) bool take(sum *s, long value)
{
	s->s_sum += value;
	return --s->s_left > 0;
}

static __attribute__((noinline)) void counts(taker *f, sum *s)
{
	for (long i = 0; f(s, i); i++)
		;
}

static __attribute__((noinline)) bool walk(const node *n, taker *f, sum *s)
{
	return n == NULL || (walk(n->left, f, s) && f(s, n->key) &&
			     walk(n->right, f, s));
}

static taker *volatile chosen = take;

static long count(long nr)
{
	sum s = { 0, nr };

	counts(chosen, &s);
	return s.s_sum;
}

static long tree(const node *root)
{
	sum s = { 0, TREE + 1 };

	(void)walk(root, chosen, &s);
	return s.s_sum;
}

static long brief(long key)
{
	sum s = { 0, 2 };

	(void)chosen(&s, key);
	return s.s_sum;
}
