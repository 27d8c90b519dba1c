// SPDX-License-Identifier: MIT
// throws.cc: frames that catch, frames that clean up, and exceptions.

/*
 * Blocks happen on the way down, between try and throw; but not in a handler or
 * a destructor, which is not supported (usched.h, caveats).
 *
 * Only shape_try() catches everything, so it alone counts in l_tries. A longjmp
 * over the frames here would be undefined, so they hide l_leap.
 */

#include "fuzz.h"

#include <stdexcept>
#include <string>

extern "C" { extern const int fuzz_cxx = 1; }

namespace {

struct payload {
	uint64_t at[25];
};

struct base {
	uint64_t what;
	explicit base(uint64_t w) : what(w) { }
	virtual ~base() { }
	virtual uint64_t value() const { return what; }
};

struct derived : base {
	uint64_t more;
	explicit derived(uint64_t w) : base(w), more(w * 3) { }
	uint64_t value() const override { return mix(what, more); }
};

uint64_t sum(const payload &p)
{
	uint64_t h = 0;

	for (uint64_t word : p.at)
		h = mix(h, word);
	return h;
}

/* An object whose destructor is noticed, in its order. */
struct guard {
	struct life *g_life;
	uint64_t     g_word;

	explicit guard(struct life *l, uint64_t word)
		: g_life(l), g_word(word) { }
	~guard() { g_life->l_sofar = mix(g_life->l_sofar, g_word); }
	guard(const guard &) = delete;
	guard &operator=(const guard &) = delete;
};

}

extern "C" int fuzz_throw(struct life *l, unsigned how)
{
	uint64_t s = mix(l->l_seed, how);
	guard g(l, s);

	switch (how % 4) {
	case 0:
		throw (int)s;
	case 1: {
		payload p;

		for (int i = 0; i < 25; i++)
			p.at[i] = mix(s, i);
		throw p;
	}
	case 2:
		throw std::runtime_error("a text of some length, and a number: " +
					 std::to_string(s));
	default:
		throw derived(s);
	}
}

extern "C" uint64_t shape_try(struct life *l)
{
	uint64_t was = get(l) + l->l_seed, a = mix(was, 1), b = mix(was, 2);
	struct link k;
	struct mark m;

	enter(l, &k);
	mark(l, &m);
	l->l_tries++;
	l->l_leap = nullptr;
	try {
		guard g(l, a);

		was = mix(was, under(l));
	} catch (int i) {
		was = mix(was, i);
	} catch (const payload &p) {
		was = mix(was, sum(p));
	} catch (const std::exception &e) {
		for (const char *at = e.what(); *at != 0; at++)
			was = mix(was, *at);
	} catch (const base &x) {
		was = mix(was, x.value());
	}
	back_to(l, &m);
	was = mix(was, under(l));
	return leave(l, &k, mix(was, a - b));
}

/* Lets some exceptions pass, and throws others again after catching them. */
extern "C" uint64_t shape_filter(struct life *l)
{
	uint64_t was = get(l) + l->l_seed, a = mix(was, 1);
	struct link k;
	struct mark m;

	enter(l, &k);
	mark(l, &m);
	l->l_leap = nullptr;
	try {
		guard g(l, a);

		was = mix(was, under(l));
	} catch (const payload &p) {
		was = mix(was, sum(p));
		if (a % 2 == 0)
			throw;
	} catch (const derived &d) {
		was = mix(was, d.value());
		if (a % 3 == 0)
			throw base(was);
	}
	back_to(l, &m);
	was = mix(was, under(l));
	return leave(l, &k, mix(was, a));
}

extern "C" uint64_t shape_guard(struct life *l)
{
	uint64_t was = get(l) + l->l_seed;
	guard one(l, mix(was, 1));
	struct link k;
	struct mark m;

	enter(l, &k);
	mark(l, &m);
	l->l_leap = nullptr;
	{
		guard two(l, mix(was, 2));

		was = mix(was, under(l));
	}
	l->l_leap = m.m_leap;
	return leave(l, &k, was);
}
