/* SPDX-License-Identifier: MIT */
/* gen.cc: generators of ugen.hpp; with -DIN_C those of ugen.h. */

#include "gen.h"
#include "ugen.hpp"

#if defined(IN_C)

static void counts(void *)
{
	for (long i = 0; ugen_yield(&i) == 0; i++)
		;
}

static void walk(const node *n)
{
	if (n == NULL)
		return;
	walk(n->left);
	(void)ugen_yield(&n->key);
	walk(n->right);
}

static void keys(void *root)
{
	walk(static_cast<node *>(root));
}

static void gives(void *value)
{
	(void)ugen_yield(value);
}

/* Takes values, nr at most, and drops the rest. */
static long take(struct ugen *g, long nr)
{
	long sum = 0, i;

	for (i = 0; i < nr; i++) {
		const long *value = static_cast<long *>(ugen_next(g));

		if (value == NULL)
			break;
		sum += *value;
	}
	if (ugen_free(g) != 0)
		abort();
	return sum;
}

static long count(long nr)
{
	return take(ugen_make(counts, NULL, sizeof(long)), nr);
}

static long tree(const node *root)
{
	return take(ugen_make(keys, const_cast<node *>(root), sizeof(long)),
		    TREE + 1);
}

static long brief(long key)
{
	return take(ugen_make(gives, &key, sizeof(long)), 2);
}

#else

static void walk(const node *n, ucxx::yield<long> &yield)
{
	if (n == NULL)
		return;
	walk(n->left, yield);
	yield(n->key);
	walk(n->right, yield);
}

static long count(long nr)
{
	long sum = 0;

	for (long value : ucxx::generator<long>([](auto &yield) {
		for (long i = 0; ; i++)
			yield(i);
	})) {
		sum += value;
		if (--nr == 0)
			break;
	}
	return sum;
}

static long tree(const node *root)
{
	long sum = 0;

	for (long key : ucxx::generator<long>([root](auto &yield) {
		walk(root, yield);
	}))
		sum += key;
	return sum;
}

static long brief(long key)
{
	long sum = 0;

	for (long value : ucxx::generator<long>([key](auto &yield) {
		yield(key);
	}))
		sum += value;
	return sum;
}

#endif
