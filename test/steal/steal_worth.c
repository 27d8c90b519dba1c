/* SPDX-License-Identifier: MIT */
/* steal_worth: a thief takes lasting work, learns from thefts, forgets. */
/* VARIANTS: once */

/*
 * steal_policy J1 to J7, and the price, one after another, with a clock of the
 * test's own. An owner is its note (drained), its switches, and the time. In
 * some rounds numbers and times wrap.
 */
#include "check.h"

#include "steal_policy.h"

#define PRICE	1000u

static unsigned now;
static struct ws_thief h;
static struct ws_observation g;
static unsigned drained, switches;

static void begin(unsigned at)
{
	now = at;
	drained = switches = at * 5;
	memset(&g, 0, sizeof g);
	g.g_ran    = now;
	g.g_ran_nr = switches;
	memset(&h, 0, sizeof h);
	ws_policy_init(&h);
	h.h_since = now - 1000000000;
}

static bool takes(void)
{
	return ws_policy_surplus(&h, &g, drained, switches, now);
}

static bool stuck(void)
{
	return ws_policy_stuck(&h, &g, switches, now);
}

/* Time passes, and the owner switches: so often that its threads are fine. */
static void passes(unsigned ns)
{
	now += ns;
	switches += 1 + ns / 100;
}

/* steal_policy J1: as long as the note is the same, and there is something to take. */
static void lasts(unsigned at)
{
	begin(at);
	CHECK(!takes());
	passes(WS_POLICY_PATIENCE - 1);
	CHECK(!takes());
	passes(1);
	CHECK(takes());
	drained++;
	CHECK(!takes());
	passes(WS_POLICY_PATIENCE / 2);
	ws_policy_none(&g, drained);		/* then there is something again */
	passes(WS_POLICY_PATIENCE / 2);
	CHECK(!takes());
	passes(WS_POLICY_PATIENCE);
	CHECK(takes());
}

/* steal_policy J2, J3: the owner does not switch. */
static void stands(unsigned at)
{
	begin(at);
	h.h_patience = WS_POLICY_MOST;
	CHECK(!takes() && !stuck());
	now += WS_POLICY_PATIENCE;
	CHECK(takes() && !stuck());	/* a stop with a fence needs longer */
	switches++;
	CHECK(!takes() && !stuck());
	now += WS_POLICY_FENCE;
	CHECK(takes() && stuck());
	h.h_still = 2 * WS_POLICY_FENCE;
	CHECK(!takes() && !stuck());
	now += WS_POLICY_FENCE;
	CHECK(takes() && stuck());
}

/*
 * After a theft in vain, the same number of switches is tried again only after a long time.
 */
static void in_vain(unsigned at)
{
	begin(at);
	CHECK(!stuck());
	now += WS_POLICY_FENCE;
	CHECK(stuck());
	ws_policy_vain(&h, &g, switches, now);
	now += WS_POLICY_MOST;
	CHECK(!stuck());
	now += WS_POLICY_AGAIN;
	CHECK(stuck());
	ws_policy_vain(&h, &g, switches, now);
	switches++;
	CHECK(!stuck());
	now += WS_POLICY_MOST;
	CHECK(stuck());
}

/* A theft takes 1 us, which is the price, keeps the thief busy, and brings messages. */
static void theft(unsigned busy, unsigned mail)
{
	h.h_price = PRICE;
	ws_policy_stole(&h, now, now + 1000, 7);
	now += 1000 + busy;
	ws_policy_judge(&h, now, 7 + mail);
}

/* steal_policy J4: bad thefts increase patience, up to a bound; good thefts reduce it. */
static void judged(unsigned at)
{
	unsigned before;
	int i;

	begin(at);
	theft(WS_POLICY_TIMES * 1000 - 1, 0);
	CHECK_IS(h.h_patience, 4 * WS_POLICY_PATIENCE);
	CHECK_IS(h.h_still, 4 * WS_POLICY_PATIENCE);
	theft(WS_POLICY_TIMES * 1000, 0);
	CHECK_IS(h.h_patience, 2 * WS_POLICY_PATIENCE);
	CHECK_IS(h.h_still, WS_POLICY_PATIENCE);
	theft(10 * WS_POLICY_MAIL * PRICE - 1, 10);
	CHECK_IS(h.h_patience, 8 * WS_POLICY_PATIENCE);
	theft(10 * WS_POLICY_MAIL * PRICE, 10);
	CHECK_IS(h.h_patience, 4 * WS_POLICY_PATIENCE);
	for (i = 0; i < 20; i++)
		theft(0, 0);
	CHECK(h.h_patience == WS_POLICY_MOST && h.h_still == WS_POLICY_STILL);
	before = h.h_patience;
	ws_policy_judge(&h, now, 0);	/* already judged */
	CHECK_IS(h.h_patience, before);
	for (i = 0; i < 20; i++)
		theft(WS_POLICY_MOST, 0);
	CHECK(h.h_patience == WS_POLICY_PATIENCE &&
	      h.h_still == WS_POLICY_PATIENCE);
}

/* After a bad theft, a surplus that lasts is left alone for as long. */
static void left_alone(unsigned at)
{
	begin(at);
	CHECK(!takes());
	passes(WS_POLICY_MOST);
	CHECK(takes());
	theft(0, 0);
	passes(4 * WS_POLICY_PATIENCE - 1);
	CHECK(!takes());
	passes(1);
	CHECK(takes());
	theft(WS_POLICY_MOST, 0);
	CHECK(takes());
}

/*
 * steal_policy J5: naps become longer, and patience shorter. When all is calm,
 * both are as at first.
 */
static void naps(unsigned at)
{
	unsigned last = 0;
	int i;

	begin(at);
	theft(0, 0);
	theft(0, 0);
	CHECK_IS(ws_policy_nap(&h), WS_POLICY_NAP);
	for (i = 0; i < 100; i++) {
		unsigned nap = ws_policy_nap(&h);

		CHECK(nap > last || nap == WS_POLICY_NAP_MOST);
		CHECK_THAT(nap, <=, WS_POLICY_NAP_MOST);
		last = nap;
	}
	CHECK_IS(last, WS_POLICY_NAP_MOST);
	CHECK(h.h_patience == WS_POLICY_PATIENCE &&
	      h.h_still == WS_POLICY_PATIENCE);
	theft(0, 0);
	ws_policy_calm(&h);
	CHECK(h.h_patience == WS_POLICY_PATIENCE &&
	      h.h_still == WS_POLICY_PATIENCE);
	CHECK_IS(ws_policy_nap(&h), WS_POLICY_NAP);
	for (i = 0; i < 3; i++)
		theft(0, 0);
	ws_policy_calm(&h);			/* forgets one of them */
	CHECK_IS(h.h_patience, 16 * WS_POLICY_PATIENCE);
	CHECK_IS(h.h_still, WS_POLICY_PATIENCE);
}

/* A window, in which the owner switches nr times. */
static void window(unsigned nr)
{
	g.g_ran    = now;
	g.g_ran_nr = switches;
	now += WS_POLICY_WINDOW;
	switches += nr;
	(void)ws_policy_stands(&g, switches, now);
}

/*
 * steal_policy J1, J6: patience and greed are for threads that are fine, as the
 * last window says.
 */
static void coarse(unsigned at)
{
	unsigned most = WS_POLICY_WINDOW / (WS_POLICY_TIMES * PRICE);

	begin(at);
	h.h_price = PRICE;
	CHECK_IS(ws_policy_greed(&h, &g), UINT_MAX);	/* at first */
	theft(0, 0);
	h.h_price = PRICE;
	window(most + 1);
	CHECK_IS(ws_policy_greed(&h, &g), WS_POLICY_GREED / 4);
	h.h_patience = WS_POLICY_MOST;
	CHECK(!takes());
	passes(WS_POLICY_PATIENCE);
	CHECK(!takes());
	window(most);
	CHECK_IS(ws_policy_greed(&h, &g), UINT_MAX);
	drained++;
	CHECK(!takes());
	passes(WS_POLICY_PATIENCE);
	CHECK(takes());
	window(0);				/* it does not switch at all */
	CHECK(ws_policy_coarse(&h, &g));
}

/* steal_policy J6: greed has bounds. */
static void greed(unsigned at)
{
	int i;

	begin(at);
	for (i = 0; i < 20; i++)
		theft(0, 0);
	CHECK_IS(h.h_greed, WS_POLICY_GREED_LEAST);
	theft(WS_POLICY_MOST, 0);
	CHECK_IS(h.h_greed, 2 * WS_POLICY_GREED_LEAST);
	for (i = 0; i < 20; i++)
		theft(WS_POLICY_MOST, 0);
	CHECK_IS(h.h_greed, WS_POLICY_GREED);
}

/*
 * steal_policy J7: a theft that makes both slower than the owner alone is bad,
 * though lasting.
 */
static void trial(unsigned at)
{
	int nr;

	for (nr = 89; nr <= 90; nr++) {
		begin(at);
		window(10000);				/* 100 ns each */
		ws_policy_try(&h, &g, 1, switches);
		ws_policy_stole(&h, now, now, 0);
		CHECK_IS(h.h_owner, 1);
		now += 10000;
		CHECK(ws_policy_fails(&h, switches + (unsigned)nr, now) == (nr < 90));
		CHECK(h.h_owner == -1 && h.h_stole == (nr == 90));
		CHECK_IS(h.h_patience, (nr < 90 ? 4 : 1) * WS_POLICY_PATIENCE);
		CHECK(ws_policy_gives(&h, now) == (nr < 90));
		now += h.h_patience - 1;
		CHECK(ws_policy_gives(&h, now) == (nr < 90));
		CHECK(!ws_policy_gives(&h, now + 1) && !ws_policy_gives(&h, now));
	}
	window(1);
	ws_policy_try(&h, &g, 1, switches);		/* coarse: there is none */
	CHECK_IS(h.h_owner, -1);
}

/* What preempts a thief makes the price little dearer. */
static void price(void)
{
	int i;

	begin(0);
	ws_policy_price(&h, 4000000000u);
	CHECK(h.h_price > WS_POLICY_PRICE && h.h_price < 2 * WS_POLICY_PRICE);
	for (i = 0; i < 1000; i++)
		ws_policy_price(&h, 4000000000u);
	CHECK(h.h_price > WS_POLICY_PRICE_MOST * 9 / 10 &&
	      h.h_price <= WS_POLICY_PRICE_MOST);
	for (i = 0; i < 20; i++)
		ws_policy_price(&h, 0);
	CHECK(h.h_price >= WS_POLICY_PRICE_LEAST &&
	      h.h_price < WS_POLICY_PRICE_LEAST * 11 / 10);
}

/* Clocks of two cpus differ: a time in the future is now. */
static void skew(unsigned at)
{
	begin(at);
	CHECK(!takes());
	now -= 1000;
	CHECK(!takes() && !stuck());
	CHECK(ws_policy_age(at, at + 1000) == 0 && ws_policy_age(at + 1000,
							       at) == 1000);
}

/* A single stop of an owner that was preempted says little. */
static void fence(void)
{
	int i;

	begin(0);
	ws_policy_fence(&h, 0);
	CHECK_THAT(h.h_fence, >, WS_POLICY_FENCE * 9 / 10);
	ws_policy_fence(&h, 4000000000u);
	CHECK_THAT(h.h_fence, <, WS_POLICY_FENCE_MOST);
	for (i = 0; i < 1000; i++)
		ws_policy_fence(&h, 500);
	CHECK(h.h_fence >= 500 && h.h_fence < 600);
	for (i = 0; i < 1000; i++)
		ws_policy_fence(&h, 20000);
	CHECK(h.h_fence <= 20000 && h.h_fence > 19000);
}

int main(int argc, char **argv)
{
	unsigned state;
	int i;

	check_start(argc, argv);
	state = check_seed;
	for (i = 0; i < 1000; i++) {
		unsigned at = i % 2 ? check_random(&state) :
			0u - check_random(&state) % WS_POLICY_MOST;

		lasts(at);
		stands(at);
		in_vain(at);
		judged(at);
		left_alone(at);
		naps(at);
		skew(at);
		coarse(at);
		greed(at);
		trial(at);
	}
	price();
	fence();
	return 0;
}
