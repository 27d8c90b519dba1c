/* SPDX-License-Identifier: MIT */
/* cxx_gen: generators in C++; cxx.sh builds it. */

/*
 * Values are moved, exceptions arrive in the consumer, destructors run in a
 * generator that is left half-way, wherever its consumer is: in main, in a
 * generator, in a catch handler, while an exception unwinds, in threads that
 * block between two values. No value, frame or capture is lost or destroyed
 * twice. Wrong use ends with the name of the contract.
 */

#include "either.h"
#include "ugen.hpp"
#include <algorithm>
#include <numeric>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define NR	40

using ucxx::generator;

static void rest()		/* lets others run, if there are any */
{
	if (SCHED(self)() != NULL)
		yield();
}

/* Counts those that are alive. */
struct counted {
	static long alive;
	int c_nr;

	explicit counted(int nr = 0) : c_nr(nr) { add(&alive, 1); }
	counted(const counted &c) : c_nr(c.c_nr) { add(&alive, 1); }
	counted(counted &&c) : c_nr(c.c_nr) { c.c_nr = -1; add(&alive, 1); }
	counted &operator=(const counted &) = default;
	~counted() { c_nr = -2; add(&alive, -1); }
};

long counted::alive;

struct oops {
	counted o_c;
	explicit oops(int nr) : o_c(nr) { }
};

static bool none()
{
	return std::current_exception() == nullptr &&
		std::uncaught_exceptions() == 0;
}

/* Yields from and through frames with objects. */
static NOINLINE void down(int from, int nr, ucxx::yield<counted> &give)
{
	counted here(from);
	std::string text(30 + from, 'x');

	if (nr == 0)
		throw oops(from);
	give(counted(from));
	CHECK(here.c_nr == from && text.size() == 30u + from);
	down(from + 1, nr - 1, give);
}

static generator<counted> counts(int nr)
{
	return [nr, c = counted()](auto &give) {
		(void)c;
		down(0, nr, give);
	};
}

static generator<int> upto(int nr)
{
	return [nr](auto &give) {
		for (int i = 0; i < nr; i++)
			give(i);
	};
}

static void values()
{
	int i = 0;

	for (int x : upto(10)) {
		CHECK(x == i++);
		rest();
	}
	CHECK(i == 10);
	for (int x : upto(0))
		CHECK(x == -1);
	for (std::unique_ptr<std::string> p : generator<
	     std::unique_ptr<std::string>>([](auto &give) {
		for (int j = 0; j < 5; j++) {
			auto mine = std::make_unique<std::string>(100, 'a' + j);

			give(std::move(mine));
			CHECK(mine == nullptr);
		}
	     })) {
		CHECK(*p == std::string(100, 'a' + i++ - 10));
		rest();
	}
	CHECK(i == 15);
	generator<std::pair<int, std::string>> g([](auto &give) {
		give({ 1, "one" });
		give({ 2, std::string(50, '2') });
	});
	CHECK(g.next()->second == "one");
	CHECK(g.begin()->second.size() == 50);
	CHECK(g.next() == nullptr && g.begin() == g.end());
}

struct alignas(32) wide {
	double w[4];
};

static void types()
{
	auto unique = std::make_unique<int>(7);
	generator<wide> g([u = std::move(unique)](auto &give) {
		wide w = { { 1, 2, 3, double(*u) } };

		give(w);
	});
	wide *w = g.next();

	CHECK(w->w[3] == 7 && reinterpret_cast<uintptr_t>(w) % 32 == 0);
	generator<std::string> s([](auto &give) {
		const char *cs = "const";
		const std::string name("name");

		give(cs);
		give(name);
		CHECK(name == "name");
	});
	CHECK(*s.next() == "const" && *s.next() == "name");
}

static void algorithms()
{
	auto g = upto(20);
	std::vector<int> v(g.begin(), g.end());

	CHECK(v.size() == 20 && v[19] == 19);
	g = upto(20);
	CHECK(*std::find(g.begin(), g.end(), 12) == 12);
	CHECK(std::accumulate(g.begin(), g.end(), 0) == 7 * 16);
	g = upto(3);
	auto i = g.begin();
	CHECK(*i++ == 0 && *i == 1 && *i.operator->() == 1);
	for (int x : g)
		CHECK(x == 2);
}

/* Exceptions. */

static void thrown()
{
	int i = 0, id = -1;

	try {
		for (counted c : counts(5)) {
			CHECK(c.c_nr == i++);
			rest();
		}
		CHECK(!"there is an exception");
	} catch (const oops &o) {
		id = o.o_c.c_nr;
	}
	CHECK(i == 5 && id == 5 && none());
	generator<int> g([](auto &) { throw oops(1); });
	try {
		(void)g.next();
		CHECK(!"there is an exception");
	} catch (const oops &) {
		CHECK(g.next() == nullptr && g.begin() == g.end());
	}
	CHECK(none());
}

/* Catches between yields, and throws through a generator of its own. */
static void inner()
{
	auto outer = [](auto &give) {
		for (int i = 1; i < 4; i++) {
			int what = 0;

			try {
				for (auto &&c : counts(i))
					give(c.c_nr);
			} catch (const oops &o) {
				what = o.o_c.c_nr;
			}
			CHECK(what == i && none());
			give(100 + i);
		}
		for (counted c : counts(0))
			give(c.c_nr);
	};
	std::vector<int> got;
	bool caught = false;

	try {
		for (int x : generator<int>(outer)) {
			got.push_back(x);
			rest();
		}
	} catch (const oops &) {
		caught = true;
	}
	CHECK(caught && none());
	CHECK((got == std::vector<int> { 0, 101, 0, 1, 102, 0, 1, 2, 103 }));
}

struct refuses {
	int r_nr;
	explicit refuses(int nr) : r_nr(nr)
	{
		if (nr % 2 != 0)
			throw oops(nr);
	}
};

/* The constructor of the value throws: in the generator. */
static void refused()
{
	generator<refuses> g([](auto &give) {
		for (int i = 0; i < 4; i++) {
			bool odd = false;

			try {
				give(i);
			} catch (const oops &) {
				odd = true;
			}
			CHECK(odd == (i % 2 != 0));
		}
	});
	CHECK(g.next()->r_nr == 0 && g.next()->r_nr == 2);
	CHECK(g.next() == nullptr);
}

/* Left half-way. */

static void dropped()
{
	for (int stop = 0; stop < 6; stop++) {
		auto g = counts(10);

		for (int i = 0; i < stop; i++)
			CHECK(g.next()->c_nr == i);
	}
	for (counted c : counts(10)) {
		if (c.c_nr == 4)
			break;
		rest();
	}
	CHECK(none());
	generator<counted> a = counts(10), b = counts(3);
	CHECK(a.next()->c_nr == 0 && b.next()->c_nr == 0);
	a = std::move(b);
	CHECK(b.next() == nullptr && b.begin() == b.end());
	CHECK(a.next()->c_nr == 1);
	std::vector<generator<counted>> all;
	for (int i = 0; i < 50; i++) {
		all.push_back(counts(10));
		CHECK(all[i / 2].next()->c_nr == (i % 2 == 0 ? 0 : 1));
	}
}

static void throws_with(int nr)
{
	auto g = counts(10);

	for (int i = 0; i <= nr; i++)
		(void)g.next();
	throw oops(nr);
}

static void while_unwinding()
{
	for (int i = 0; i < 4; i++) {
		bool caught = false;

		try {
			throws_with(i);
		} catch (const oops &o) {
			CHECK(o.o_c.c_nr == i);
			/* The consumer may be in a handler. */
			for (counted c : counts(10)) {
				if (c.c_nr == i)
					break;
			}
			try {
				throw;
			} catch (const oops &p) {
				CHECK(&p == &o);
			}
			caught = true;
		}
		CHECK(caught && none());
	}
}

/* Catches what destroys it, and goes on for a while, or throws another. */
static void stubborn()
{
	int tries = 0;
	auto g = std::make_unique<generator<int>>([&tries](auto &give) {
		for (int i = 0; i < 10; i++) {
			try {
				give(i);
			} catch (...) {
				tries++;
			}
		}
	});
	CHECK(*g->next() == 0);
	g.reset();
	CHECK(tries == 10 && none());

	auto other = [](auto &give) {
		try {
			give(1);
		} catch (...) {
		}
		throw oops(3);
	};
	generator<int> one(other);
	CHECK(*one.next() == 1);
	{
		generator<int> two(other);
		CHECK(*two.next() == 1);
	}
	bool caught = false;
	try {
		one.close();
	} catch (const oops &) {
		caught = true;
	}
	CHECK(caught && one.next() == nullptr);
	one.close();
}

static void everything(void *)
{
	CHECK(none());
	values();
	types();
	algorithms();
	thrown();
	inner();
	refused();
	dropped();
	while_unwinding();
	stubborn();
	CHECK(none());
}

/* In a generator. */
static void in_generator()
{
	for (int x : generator<int>([](auto &give) {
		everything(NULL);
		give(1);
		everything(NULL);
	}))
		CHECK(x == 1);
}

/* Memory. */

#if !defined(USCHED_SANITIZED) && defined(__linux__)

static void limit(long more)
{
	static struct rlimit before;
	struct rlimit now;
	long pages = 0;
	FILE *f;

	if (more < 0) {
		setrlimit(RLIMIT_AS, &before);
		return;
	}
	f = fopen("/proc/self/statm", "r");
	CHECK(f != NULL && fscanf(f, "%ld", &pages) == 1);
	fclose(f);
	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	now = before;
	now.rlim_cur = pages * sysconf(_SC_PAGESIZE) + more;
	CHECK(setrlimit(RLIMIT_AS, &now) == 0);
}

static NOINLINE void yields_below(ucxx::yield<int> &give, bool large)
{
	volatile char array[160 << 10];

	array[large ? 1 : sizeof array - 1] = 1;
	give(1);
	CHECK(array[large ? 1 : sizeof array - 1] == 1);
}

/* Lets the native stack grow, which it cannot do below a limit. */
static NOINLINE void grow()
{
	volatile char array[1 << 20];

	for (size_t i = 0; i < sizeof array; i += 1024)
		array[i] = 0;
}

static bool has_lanes()
{
	static struct usched s;
	int rc = usched_lanes(&s, 1, 4096);

	usched_fini(&s);
	return rc != -ENOSYS;
}

static void many_until(bool limited)
{
	std::vector<generator<int>> all;
	bool caught = false;

	all.reserve(1000);
	if (limited)
		limit(1 << 20);
	try {
		while (all.size() < 100 || (limited && all.size() < 1000))
			all.push_back(upto(1));
	} catch (const std::bad_alloc &) {
		caught = true;
	}
	if (limited)
		limit(-1);
	CHECK(caught == limited);
}

/* Copies of slices need memory at a yield; returns whether it was refused. */
static bool yield_refused(bool limited)
{
	generator<int> g([](auto &give) {
		bool told = false;

		for (int i = 0; i < 2; i++) {
			try {
				yields_below(give, i == 0);
			} catch (const std::bad_alloc &) {
				told = true;
			}
			give(told ? -1 : 0);
			if (told)
				throw std::bad_alloc();
		}
	});
	struct block { block *next; } *all = NULL, *b;
	bool caught = false;

	if (limited)
		limit(0);
	while (limited && (b = (block *)malloc(100 << 10)) != NULL) {
		b->next = all;
		all = b;
	}
	try {
		while (g.next() != nullptr)
			;
	} catch (const std::bad_alloc &) {
		caught = true;
	}
	while ((b = all) != NULL) {
		all = b->next;
		free(b);
	}
	if (limited)
		limit(-1);
	return caught;
}

static void without_memory()
{
	bool copies = !has_lanes();

#if defined(USCHED_HARD)
	copies = true;
#endif
	if (has_lanes()) {
		many_until(false);
		ugen_trim();
		many_until(true);
	}
	grow();
	CHECK(!yield_refused(false));
	CHECK(yield_refused(true) == copies && none());
}

#else

static void without_memory()
{
}

#endif

/* Wrong use. */

static void goes_on()
{
	generator<int> g([](auto &give) {
		for (;;) {
			try {
				give(1);
			} catch (...) {
			}
		}
	});
	(void)g.next();
}

static void other_yields()
{
	ucxx::yield<int> *at = NULL;
	generator<int> g([&at](auto &give) { at = &give; give(1); });

	(void)g.next();
	(*at)(2);
}

static void c_yields()
{
	generator<int> g([](auto &) { (void)ugen_yield(&errno); });

	(void)g.next();
}

static void itself()
{
	static generator<int> *me;
	generator<int> g([](auto &) { (void)me->next(); });

	me = &g;
	(void)g.next();
}

static int deaths()
{
	return check_dies("goes on", goes_on, "catches all and goes on") +
		check_dies("other", other_yields, "outside of its generator") +
		check_dies("C", c_yields, "has to use its ucxx::yield") +
		check_dies("itself", itself, "the generator runs: it");
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	everything(NULL);
	in_generator();
	CHECK(counted::alive == 0);
	begin(2, 0);
	for (int i = 0; i < NR; i++)
		make(i, everything, NULL);
	start_and_finish();
	CHECK(counted::alive == 0);
	without_memory();
	CHECK(deaths() == 0 && counted::alive == 0);
	ugen_trim();
	return 0;
}
