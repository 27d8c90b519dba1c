/* SPDX-License-Identifier: MIT */
/* trees.cc: generators in C++: do two trees have the same keys, in order? */

#include <iostream>
#include <stdexcept>
#include <string>
#include <usched/all.hpp>

struct node {
	std::string key;
	const node *left, *right;
};

static const node ash { "ash", NULL, NULL }, fir { "fir", NULL, NULL },
	oak { "oak", NULL, NULL }, elm { "elm", &ash, &fir },
	root { "larch", &elm, &oak },
	tall { "fir", &elm, NULL };

static void walk(const node *n, ucxx::yield<std::string> &yield)
{
	if (n == nullptr)
		return;
	walk(n->left, yield);
	yield(n->key);
	walk(n->right, yield);
}

static ucxx::generator<std::string> keys(const node &top)
{
	return [&top](auto &yield) { walk(&top, yield); };
}

/* Yields the keys of both trees, while they are the same. */
static ucxx::generator<std::string> common(const node &a, const node &b)
{
	return [&a, &b](auto &yield) {
		auto others = keys(b);

		for (std::string key : keys(a)) {
			const std::string *other = others.next();

			if (other == nullptr || *other != key)
				throw std::runtime_error("not " + key);
			yield(std::move(key));
		}
	};
}

int main()
{
	try {
		for (const std::string &key : common(root, tall))
			std::cout << key << '\n';
	} catch (const std::runtime_error &e) {
		std::cout << e.what() << '\n';
	}
}
