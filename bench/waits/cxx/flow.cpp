/* SPDX-License-Identifier: MIT */
/* flow.cpp: the prime sieve, power series, and a queue with workers. */

#include "cxx.h"
#include "loop.h"

static task numbers(chan *to)
{
	for (uint64_t i = 2;; i++)
		co_await to->send(i);
}

static task filter(uint64_t prime, chan *from, chan *to)
{
	uint64_t i;

	for (;;) {
		co_await from->recv(i);
		if (i % prime != 0)
			co_await to->send(i);
	}
}

static task primes(uint64_t &prime, bool &done)
{
	chan *from = new chan(0);

	numbers(from);
	for (long i = 0; i < waits.w_n; i++) {
		chan *to = new chan(0);

		co_await from->recv(prime);
		filter(prime, from, to);
		from = to;
	}
	done = true;
}

void sieve()
{
	int64_t start = waits_now();
	uint64_t prime;
	bool done = false;

	primes(prime, done);
	run(&done);
	waits_took(start);
	waits_is_prime(prime);
}

/* A series answers each ask with a coefficient. */
struct series {
	chan ask{ 0 }, value{ 0 };
};

/* One of two copies: how much it has got, and whether it waits for more. */
struct branch {
	series *s;
	size_t  at = 0;
	bool    waits = false;

	bool ready(const std::vector<uint64_t> &known) const
	{
		return waits && at < known.size();
	}
};

/*
 * Makes two copies, each of which may be ahead of the other. While one
 * coefficient is under way, the series may ask again.
 */
static task splitter(series *s, series *to0, series *to1)
{
	branch b[2] = { { to0 }, { to1 } };
	std::vector<uint64_t> known;
	uint64_t v = 0;
	bool under = false;

	for (;;) {
		int i = co_await choose(from(to0->ask, v), from(to1->ask, v),
					from(s->value, v));

		if (i < 2) {
			b[i].waits = true;
		} else {
			known.push_back(v);
			under = false;
		}
		for (branch &x : b) {
			if (!x.ready(known))
				continue;
			x.waits = false;
			co_await x.s->value.send(known[x.at++]);
		}
		if ((b[0].waits || b[1].waits) && !under) {
			under = true;
			co_await s->ask.send(0);
		}
	}
}

struct pair {
	series *a = new series, *b = new series;

	explicit pair(series *s) { splitter(s, a, b); }
};

/* (f + xF)(g + xG) = fg + x(fG + gF) + x * x * FG. */
static task product(series *f, series *g, series *to)
{
	uint64_t f0, g0, f1, g1, sum, v;
	series *rest = nullptr;

	co_await to->ask.recv(v);
	co_await f->ask.send(0);
	co_await f->value.recv(f0);
	co_await g->ask.send(0);
	co_await g->value.recv(g0);
	co_await to->value.send(f0 * g0 % WAITS_MODULUS);
	co_await to->ask.recv(v);
	pair fs(f), gs(g);
	for (;;) {
		co_await gs.a->ask.send(0);
		co_await gs.a->value.recv(g1);
		co_await fs.a->ask.send(0);
		co_await fs.a->value.recv(f1);
		sum = f0 * g1 % WAITS_MODULUS + g0 * f1 % WAITS_MODULUS;
		if (rest != nullptr) {
			co_await rest->ask.send(0);
			co_await rest->value.recv(v);
			sum += v;
		}
		co_await to->value.send(sum % WAITS_MODULUS);
		co_await to->ask.recv(v);
		if (rest == nullptr)
			product(fs.b, gs.b, rest = new series);
	}
}

/* Integrates 1 plus a series, from 0. */
static task integral(series *s, series *to)
{
	uint64_t v;

	co_await to->ask.recv(v);
	co_await to->value.send(0);
	for (uint64_t i = 1;; i++) {
		co_await to->ask.recv(v);
		co_await s->ask.send(0);
		co_await s->value.recv(v);
		v = (v + (i == 1)) % WAITS_MODULUS * waits_inverse(i);
		co_await to->value.send(v % WAITS_MODULUS);
	}
}

static task coefficients(series *s, uint64_t *got, bool &done)
{
	for (long i = 0; i < waits.w_n; i++) {
		co_await s->ask.send(0);
		co_await s->value.recv(got[i]);
	}
	done = true;
}

void powser()
{
	uint64_t *got = (uint64_t *)waits_memory(waits.w_n * sizeof *got);
	int64_t start = waits_now();
	series *tangent = new series, *square = new series;
	pair all(tangent), factors(all.b);
	bool done = false;

	product(factors.a, factors.b, square);
	integral(square, tangent);
	coefficients(all.a, got, done);
	run(&done);
	waits_took(start);
	waits_is_tangent(got);
}

static task worker(chan &jobs, long &done)
{
	uint64_t x = 0, job;

	while (co_await jobs.recv(job)) {
		x += waits_work(job);
		done++;
	}
	waits_worked(x);
}

static task maker(chan &jobs)
{
	for (long i = 0; i < waits.w_n; i++)
		co_await jobs.send(i);
	jobs.close();
}

void pool()
{
	int64_t start = waits_now();
	chan jobs(WAITS_QUEUE);
	long done = 0;

	for (long i = 0; i < waits.w_m; i++)
		worker(jobs, done);
	maker(jobs);
	run();
	waits_took(start);
	if (done != waits.w_n)
		waits_die("a job was lost");
}
