/* SPDX-License-Identifier: MIT */
/* chan.c: channels, and select. */

#include "ours.h"

static struct uchan *c[4];

static void to_and_fro(int id, long n)
{
	for (n = waits.w_n / 2; n > 0; n--) {
		if (id == 0)
			put(c[0], 0);
		(void)get(c[0]);
		if (id == 1)
			put(c[0], 0);
	}
}

void chan_sync(void)
{
	c[0] = channel(0);
	each(2, to_and_fro);
}

static struct SCHED(thread) *both[2];

static void by_wakes(int id, long n)
{
	both[id] = SCHED(self)();
	put(c[id], 0);
	(void)get(c[!id]);
	for (n = waits.w_n / 2; n > 0; n--) {
		if (id == 0)
			SCHED(wake)(both[1]);
		ok(SCHED(wait)());
		if (id == 1)
			SCHED(wake)(both[0]);
	}
}

void chan_wake(void)
{
	c[0] = channel(1);
	c[1] = channel(1);
	each(2, by_wakes);
}

static int64_t late[2];			/* of all that each has received */

static void asleep(int id, long n)
{
	for (n = waits.w_n / 2; n > 0; n--) {
		if (id == 0) {
			waits_compute(waits.w_m);
			put(c[0], (uint64_t)waits_now());
		}
		late[id] -= (int64_t)get(c[0]);
		late[id] += waits_now();
		if (id == 1) {
			waits_compute(waits.w_m);
			put(c[0], (uint64_t)waits_now());
		}
	}
}

void chan_asleep(void)
{
	c[0] = channel(0);
	members(2, 1, asleep);
	members_end();
	waits_say("", (double)(late[0] + late[1]) / (waits.w_n / 2 * 2));
}

/* Runs P pairs, each with its share of N; a pair is on the same processor. */
static void pairs(void (*f)(int id, long n))
{
	int64_t start = waits_now();

	members(2 * waits.w_p, 2, f);
	members_end();
	waits_took(start);
}

static void sends_or_receives(int id, long n)
{
	for (n = waits_share(waits.w_n, waits.w_p, id / 2); n > 0; n--) {
		if (id % 2 == 0)
			put(c[0], n);
		else
			(void)get(c[0]);
	}
}

void chan_buffer(void)
{
	c[0] = channel(waits.w_m);
	pairs(sends_or_receives);
}

static void fill_and_drain(struct uchan *mine, long n)
{
	int i;

	for (; n > 0; n -= WAITS_BATCH) {
		for (i = 0; i < WAITS_BATCH; i++)
			put(mine, i);
		for (i = 0; i < WAITS_BATCH; i++)
			(void)get(mine);
	}
}

static void fill_own(int id, long n)
{
	(void)id;
	fill_and_drain(channel(WAITS_BATCH), n);
}

void uncontended(void)
{
	each(waits.w_p, fill_own);
}

static void fill_shared(int id, long n)
{
	(void)id;
	fill_and_drain(c[0], n);
}

void contended(void)
{
	c[0] = channel(WAITS_BATCH * waits.w_p);
	each(waits.w_p, fill_shared);
}

/* The first receives what the others send. */
static void funnel(int id, long n)
{
	if (id > 0)
		n = waits_share(waits.w_n, WAITS_FAN * waits.w_p, id - 1);
	else
		n = waits.w_n;
	for (; n > 0; n--) {
		if (id > 0)
			put(c[0], n);
		else
			(void)get(c[0]);
	}
}

void fanin(void)
{
	c[0] = channel(10);
	each(1 + WAITS_FAN * waits.w_p, funnel);
}

static void alternate(int id, long n)
{
	struct uchan *a = channel(1), *b = channel(1);
	uint64_t v;

	(void)id;
	put(a, 0);
	for (; n > 0; n--) {
		struct ucase cases[] = { UCASE_RECV(a, &v), UCASE_RECV(b, &v) };

		put(uselect(cases, 2, UNEVER) == 0 ? b : a, v);
	}
}

void select_own(void)
{
	each(waits.w_p, alternate);
}

/* Sends to either of three channels, until the fourth is closed. */
static void select_sends(void *arg)
{
	uint64_t v = 0;
	int i;

	(void)arg;
	do {
		struct ucase cases[] = {
			UCASE_SEND(c[0], &v), UCASE_SEND(c[1], &v),
			UCASE_SEND(c[2], &v), UCASE_RECV(c[3], &v)
		};

		i = uselect(cases, 4, UNEVER);
		if (i < 0)
			ok(i);
	} while (i != 3);
}

static void select_receives(int id, long n)
{
	uint64_t v;

	(void)id;
	for (; n > 0; n--) {
		struct ucase cases[] = {
			UCASE_RECV(c[0], &v), UCASE_RECV(c[1], &v),
			UCASE_RECV(c[2], &v)
		};
		int i = uselect(cases, 3, UNEVER);

		if (i < 0)
			ok(i);
	}
}

void select_sync(void)
{
	int i;

	for (i = 0; i < 4; i++)
		c[i] = channel(0);
	for (i = 0; i < waits.w_p; i++)
		make(i, select_sends, NULL);
	each(waits.w_p, select_receives);
	ok(uchan_close(c[3]));
}

/* The timer of an hour is the deadline. */
static void select_and_work(int id, long n)
{
	int64_t hour = uafter(3600 * WAITS_S);
	bool send = id % 2 == 0;
	uint64_t x = id, v = 0, none;

	for (n = waits_share(waits.w_n, waits.w_p, id / 2); n > 0; n--) {
		struct ucase cases[] = {
			{ .cs_chan = c[0], .cs_value = &v, .cs_send = send },
			UCASE_RECV(c[1], &none)
		};

		if (send)
			x = waits_work(x);
		ok(uselect(cases, 2, hour));
		if (!send)
			x = waits_work(x);
	}
	waits_worked(x);
}

void select_buffer(void)
{
	c[0] = channel(waits.w_m);
	c[1] = channel(0);
	pairs(select_and_work);
}
