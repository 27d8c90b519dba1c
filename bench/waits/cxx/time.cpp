/* SPDX-License-Identifier: MIT */
/* time.cpp: timers, and waits with deadlines. */

#include "cxx.h"
#include "loop.h"

static std::vector<timer> outstanding()
{
	std::vector<timer> all(waits.w_m);
	int64_t now = waits_now();
	uint64_t r = 1;

	for (timer &t : all)
		timers.add(&t, now + waits_deadline(&r));
	return all;
}

template <bool random> static void churn()
{
	std::vector<timer> all = outstanding();
	int64_t start = waits_now();
	uint64_t r = 2;

	for (long i = 0; i < waits.w_n; i++) {
		timer *t = &all[waits_random(&r) % waits.w_m];
		int64_t d = random ? waits_deadline(&r) : WAITS_AHEAD;

		timers.move(t, waits_now() + d);
	}
	waits_took(start);
}

void churn_random()
{
	churn<true>();
}

void churn_same()
{
	churn<false>();
}

static task first(chan &there, chan &back, bool &done)
{
	uint64_t v;

	for (long i = 0; i < waits.w_n / 2; i++) {
		co_await there.send(0);
		if (!co_await back.recv(v, waits_now() + WAITS_AHEAD))
			waits_die("too early");
	}
	done = true;
}

static task second(chan &there, chan &back)
{
	uint64_t v;

	for (long i = 0; i < waits.w_n / 2; i++) {
		if (!co_await there.recv(v, waits_now() + WAITS_AHEAD))
			waits_die("too early");
		co_await back.send(0);
	}
}

void timed()
{
	std::vector<timer> all = outstanding();
	chan there(0), back(0);
	bool done = false;
	int64_t start = waits_now();

	first(there, back, done);
	second(there, back);
	run(&done);
	waits_took(start);
}

static task sleeper(int64_t until, int64_t *late)
{
	co_await sleep_until{ until };
	*late = waits_now() - until;
}

static task observer(int64_t start, int64_t burst, double before)
{
	int64_t cpu, then;

	waits_say(".make_ns", (double)(waits_now() - start) / waits.w_n);
	if (burst - waits_now() < WAITS_BEFORE)
		waits_die("making took too long to see the sleepers idle");
	co_await sleep_until{ burst - WAITS_BEFORE };
	waits_say(".bytes", (waits_resident() - before) / waits.w_n);
	cpu = waits_used();
	then = waits_now();
	co_await sleep_until{ then + WAITS_IDLE };
	waits_say(".idle_cpu_percent",
		  100.0 * (waits_used() - cpu) / (waits_now() - then));
}

void sleepers()
{
	size_t size = waits.w_n * sizeof(int64_t);
	int64_t *late = (int64_t *)waits_memory(size);
	double before = waits_resident();
	int64_t start = waits_now();
	int64_t burst = start + waits.w_m * WAITS_S;

	memset(late, -1, size);
	for (long i = 0; i < waits.w_n; i++)
		sleeper(burst + i % WAITS_BURSTS * (WAITS_S / WAITS_BURSTS),
			&late[i]);
	observer(start, burst, before);
	run();
	waits_late(late);
}
