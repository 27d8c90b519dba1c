/* SPDX-License-Identifier: MIT */
/* chan.cpp: channels, and select. */

#include "cxx.h"
#include "loop.h"

static task sends(chan &c, long n)
{
	for (; n > 0; n--)
		co_await c.send(n);
}

static task receives(chan &c, long n)
{
	uint64_t v;

	for (; n > 0; n--)
		co_await c.recv(v);
}

static task to_and_fro(chan &c, bool begins)
{
	uint64_t v = 0;

	for (long i = waits.w_n / 2; i > 0; i--) {
		if (begins)
			co_await c.send(v);
		co_await c.recv(v);
		if (!begins)
			co_await c.send(v);
	}
}

void chan_sync()
{
	chan c(0);
	int64_t start = waits_now();

	if (waits.w_p > 1) {
		native_sync();
		return;
	}
	to_and_fro(c, true);
	to_and_fro(c, false);
	run();
	waits_took(start);
}

void chan_buffer()
{
	chan c(waits.w_m);
	int64_t start = waits_now();

	if (waits.w_p > 1) {
		native_buffer();
		return;
	}
	sends(c, waits.w_n);
	receives(c, waits.w_n);
	run();
	waits_took(start);
}

static task fill_and_drain(chan &c)
{
	uint64_t v;

	for (long n = 0; n < waits.w_n; n += WAITS_BATCH) {
		for (int i = 0; i < WAITS_BATCH; i++)
			co_await c.send(i);
		for (int i = 0; i < WAITS_BATCH; i++)
			co_await c.recv(v);
	}
}

void uncontended()
{
	chan c(WAITS_BATCH);
	int64_t start = waits_now();

	fill_and_drain(c);
	run();
	waits_took(start);
}

void fanin()
{
	chan c(10);
	int64_t start = waits_now();

	receives(c, waits.w_n);
	for (int i = 0; i < WAITS_FAN; i++)
		sends(c, waits_share(waits.w_n, WAITS_FAN, i));
	run();
	waits_took(start);
}

static task sem_user(chan &c)
{
	uint64_t v = 0;

	for (long n = waits.w_n; n > 0; n--) {
		co_await c.send(v);
		co_await c.recv(v);
	}
}

void sem()
{
	chan c(1);
	int64_t start = waits_now();

	sem_user(c);
	run();
	waits_took(start);
}

static task selector(chan &a, chan &b)
{
	uint64_t v = 0;

	co_await a.send(v);
	for (long n = waits.w_n; n > 0; n--) {
		int i = co_await choose(from(a, v), from(b, v));

		co_await (i == 0 ? b : a).send(v);
	}
}

void select_own()
{
	chan a(1), b(1);
	int64_t start = waits_now();

	selector(a, b);
	run();
	waits_took(start);
}

static task select_sends(chan *c)
{
	uint64_t v = 0;

	int i;

	do
		i = co_await choose(to(c[0], v), to(c[1], v), to(c[2], v),
				    from(c[3], v));
	while (i != 3);
}

static task select_receives(chan *c)
{
	uint64_t v;

	for (long n = waits.w_n; n > 0; n--)
		co_await choose(from(c[0], v), from(c[1], v), from(c[2], v));
	co_await c[3].send(0);
}

void select_sync()
{
	chan c[4] = { chan(0), chan(0), chan(0), chan(0) };
	int64_t start = waits_now();

	select_sends(c);
	select_receives(c);
	run();
	waits_took(start);
}

/* The channel of the timer is one in which nothing is sent, as in Go. */
static task select_and_work(chan &c, chan &hour, chan &stop, bool send)
{
	uint64_t x = waits.w_n, v = 0, none;

	for (long n = waits.w_n; n > 0; n--) {
		if (send)
			x = waits_work(x);
		co_await choose(choice{ &c, &v, send }, from(hour, none),
				from(stop, none));
		if (!send)
			x = waits_work(x);
	}
	waits_worked(x);
}

void select_buffer()
{
	chan c(waits.w_m), hour(0), stop(0);
	int64_t start = waits_now();

	select_and_work(c, hour, stop, true);
	select_and_work(c, hour, stop, false);
	run();
	waits_took(start);
}
