/* SPDX-License-Identifier: MIT */
/* coro.cpp: generators as C++20 coroutines, by hand. */

/*
 * As std::generator of C++23: a recursive generator yields another generator,
 * which is then resumed directly, at any depth, and goes back to its parent by
 * symmetric transfer. -DPLAIN: each level takes the values of the next in a
 * loop, and yields them again, as most programs do that have no such class.
 */

#include "../../gen.h"

#include <coroutine>
#include <exception>
#include <utility>

struct generator {
	struct promise_type;
	using handle = std::coroutine_handle<promise_type>;

	struct promise_type {
		const long   *value;
		promise_type *root = this;
		handle        leaf = handle::from_promise(*this); /* of root */
		handle        parent;

		generator get_return_object()
		{
			return generator(handle::from_promise(*this));
		}

		std::suspend_always initial_suspend() { return {}; }

		struct back {
			bool await_ready() noexcept { return false; }

			std::coroutine_handle<> await_suspend(handle h) noexcept
			{
				promise_type &p = h.promise();

				if (!p.parent)
					return std::noop_coroutine();
				p.root->leaf = p.parent;
				return p.parent;
			}

			void await_resume() noexcept { }
		};

		back final_suspend() noexcept { return {}; }

		std::suspend_always yield_value(const long &v)
		{
			root->value = &v;
			return {};
		}

		struct nested {
			handle n_child;

			bool await_ready() { return !n_child; }

			handle await_suspend(handle h)
			{
				promise_type &p = n_child.promise();

				p.root   = h.promise().root;
				p.parent = h;
				p.root->leaf = n_child;
				return n_child;
			}

			void await_resume() { }
		};

		nested yield_value(generator &&g) { return { g.h }; }

		void return_void() { }
		void unhandled_exception() { std::terminate(); }
	};

	explicit generator(handle of) : h(of) { }
	generator(generator &&g) : h(std::exchange(g.h, nullptr)) { }
	~generator() { if (h) h.destroy(); }

	const long *next()
	{
		h.promise().leaf.resume();
		return h.done() ? NULL : h.promise().value;
	}

	handle h;
};

static __attribute__((noinline)) generator counts()
{
	for (long i = 0; ; i++)
		co_yield i;
}

static generator walk(const node *n)
{
	if (n == NULL)
		co_return;
#if defined(PLAIN)
	for (generator g = walk(n->left); const long *key = g.next(); )
		co_yield *key;
	co_yield n->key;
	for (generator g = walk(n->right); const long *key = g.next(); )
		co_yield *key;
#else
	if (n->left != NULL)
		co_yield walk(n->left);
	co_yield n->key;
	if (n->right != NULL)
		co_yield walk(n->right);
#endif
}

static __attribute__((noinline)) generator gives(long key)
{
	co_yield key;
}

static long take(generator g, long nr)
{
	long sum = 0;

	for (; nr > 0; nr--) {
		const long *value = g.next();

		if (value == NULL)
			break;
		sum += *value;
	}
	return sum;
}

static long count(long nr)
{
	return take(counts(), nr);
}

static long tree(const node *root)
{
	return take(walk(root), TREE + 1);
}

static long brief(long key)
{
	return take(gives(key), 2);
}
