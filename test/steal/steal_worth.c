/* SPDX-License-Identifier: MIT */
/* steal_worth: a thief takes lasting work, learns from thefts, forgets. */
/* VARIANTS: once */

/*
 * J1 to J5 of steal_policy.h, one after another, with a clock of the test's own. An
 * owner is its note (drained), its switches, and the time. In some rounds numbers and
 * times wrap.
 */
#include "check.h"

#include "steal_policy.h"

static unsigned now;
static struct ws_thief h;
static struct ws_observation g;
static unsigned drained, switches;

static void begin(unsigned at)
{
	now = at;
	drained = switches = at * 5;
	memset(&g, 0, sizeof g);
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

/* Time passes, and the owner switches. */
static void passes(unsigned ns)
{
	now += ns;
	switches++;
}

/* J1: as long as the note is the same, and there is something to take. */
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

/* J2, J3: the owner does not switch. */
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

/* A theft takes 1 us, keeps the thief busy, and brings messages. */
static void theft(unsigned busy, unsigned mail)
{
	ws_policy_stole(&h, now, now + 1000, 7);
	now += 1000 + busy;
	ws_policy_judge(&h, now, 7 + mail);
}

/* J4: bad thefts increase patience, up to a bound; good thefts reduce it. */
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
	theft(10 * WS_POLICY_MAIL - 1, 10);
	CHECK_IS(h.h_patience, 8 * WS_POLICY_PATIENCE);
	theft(10 * WS_POLICY_MAIL, 10);
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
 * J5: naps become longer, and patience shorter. When all is calm, both are as
 * at first.
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
	}
	fence();
	return 0;
}
