/* SPDX-License-Identifier: MIT */
/* boost.cpp: generators by Boost.Coroutine2, on stacks of their own. */

#include "../../gen.h"

#include <boost/coroutine2/coroutine.hpp>
#include <boost/coroutine2/pooled_fixedsize_stack.hpp>

using coroutine = boost::coroutines2::coroutine<long>;

static boost::coroutines2::pooled_fixedsize_stack stacks(64 << 10);

static void walk(const node *n, coroutine::push_type &yield)
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

	coroutine::pull_type g(stacks, [](coroutine::push_type &yield) {
		for (long i = 0; ; i++)
			yield(i);
	});
	for (;;) {
		sum += g.get();
		if (--nr == 0)
			return sum;
		g();
	}
}

static long tree(const node *root)
{
	long sum = 0;

	coroutine::pull_type g(stacks, [root](coroutine::push_type &yield) {
		walk(root, yield);
	});
	for (; g; g())
		sum += g.get();
	return sum;
}

static long brief(long key)
{
	long sum = 0;

	coroutine::pull_type g(stacks, [key](coroutine::push_type &yield) {
		yield(key);
	});
	for (; g; g())
		sum += g.get();
	return sum;
}
