/* SPDX-License-Identifier: MIT */
/* t_steal_worth: a thief takes lasting work, learns from thefts, forgets. */

/*
 * J1 to J5 of worth.h, one after another, with a clock of the test's own. An
 * owner is its note (dry), its turn, and the time. In some rounds numbers and
 * times wrap.
 */
#include "check.h"

#include "worth.h"

static unsigned now;
static struct ws_thief h;
static struct ws_sight g;
static unsigned dry, turn;

static void begin(unsigned at)
{
	now = at;
	dry = turn = at * 5;
	memset(&g, 0, sizeof g);
	memset(&h, 0, sizeof h);
	ws_worth_init(&h);
	h.h_since = now - 1000000000;
}

static bool takes(void)
{
	return ws_worth_surplus(&h, &g, dry, turn, now);
}

static bool stuck(void)
{
	return ws_worth_stuck(&h, &g, turn, now);
}

/* Time passes, and the owner switches. */
static void passes(unsigned ns)
{
	now += ns;
	turn++;
}

/* J1: as long as the note is the same, and there is something to take. */
static void lasts(unsigned at)
{
	begin(at);
	CHECK(!takes());
	passes(WS_WORTH_PATIENCE - 1);
	CHECK(!takes());
	passes(1);
	CHECK(takes());
	dry++;
	CHECK(!takes());
	passes(WS_WORTH_PATIENCE / 2);
	ws_worth_none(&g, dry);		/* then there is something again */
	passes(WS_WORTH_PATIENCE / 2);
	CHECK(!takes());
	passes(WS_WORTH_PATIENCE);
	CHECK(takes());
}

/* J2, J3: the owner does not switch. */
static void stands(unsigned at)
{
	begin(at);
	h.h_patience = WS_WORTH_MOST;
	CHECK(!takes() && !stuck());
	now += WS_WORTH_PATIENCE;
	CHECK(takes() && !stuck());	/* a stop with a fence needs longer */
	turn++;
	CHECK(!takes() && !stuck());
	now += WS_WORTH_FENCE;
	CHECK(takes() && stuck());
	h.h_still = 2 * WS_WORTH_FENCE;
	CHECK(!takes() && !stuck());
	now += WS_WORTH_FENCE;
	CHECK(takes() && stuck());
}

/*
 * After a theft in vain, the same turn is tried again only after a long time.
 */
static void in_vain(unsigned at)
{
	begin(at);
	CHECK(!stuck());
	now += WS_WORTH_FENCE;
	CHECK(stuck());
	ws_worth_vain(&h, &g, turn, now);
	now += WS_WORTH_MOST;
	CHECK(!stuck());
	now += WS_WORTH_AGAIN;
	CHECK(stuck());
	ws_worth_vain(&h, &g, turn, now);
	turn++;
	CHECK(!stuck());
	now += WS_WORTH_MOST;
	CHECK(stuck());
}

/* A theft takes 1 us, keeps the thief busy, and brings messages. */
static void theft(unsigned busy, unsigned mail)
{
	ws_worth_stole(&h, now, now + 1000, 7);
	now += 1000 + busy;
	ws_worth_judge(&h, now, 7 + mail);
}

/* J4: bad thefts increase patience, up to a bound; good thefts reduce it. */
static void judged(unsigned at)
{
	unsigned before;
	int i;

	begin(at);
	theft(WS_WORTH_TIMES * 1000 - 1, 0);
	CHECK(h.h_patience == 4 * WS_WORTH_PATIENCE);
	CHECK(h.h_still == 4 * WS_WORTH_PATIENCE);
	theft(WS_WORTH_TIMES * 1000, 0);
	CHECK(h.h_patience == 2 * WS_WORTH_PATIENCE);
	CHECK(h.h_still == WS_WORTH_PATIENCE);
	theft(10 * WS_WORTH_MAIL - 1, 10);
	CHECK(h.h_patience == 8 * WS_WORTH_PATIENCE);
	theft(10 * WS_WORTH_MAIL, 10);
	CHECK(h.h_patience == 4 * WS_WORTH_PATIENCE);
	for (i = 0; i < 20; i++)
		theft(0, 0);
	CHECK(h.h_patience == WS_WORTH_MOST && h.h_still == WS_WORTH_STILL);
	before = h.h_patience;
	ws_worth_judge(&h, now, 0);	/* already judged */
	CHECK(h.h_patience == before);
	for (i = 0; i < 20; i++)
		theft(WS_WORTH_MOST, 0);
	CHECK(h.h_patience == WS_WORTH_PATIENCE &&
	      h.h_still == WS_WORTH_PATIENCE);
}

/* After a bad theft, a surplus that lasts is left alone for as long. */
static void left_alone(unsigned at)
{
	begin(at);
	CHECK(!takes());
	passes(WS_WORTH_MOST);
	CHECK(takes());
	theft(0, 0);
	passes(4 * WS_WORTH_PATIENCE - 1);
	CHECK(!takes());
	passes(1);
	CHECK(takes());
	theft(WS_WORTH_MOST, 0);
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
	CHECK(ws_worth_nap(&h) == WS_WORTH_NAP);
	for (i = 0; i < 100; i++) {
		unsigned nap = ws_worth_nap(&h);

		CHECK(nap > last || nap == WS_WORTH_NAP_MOST);
		CHECK(nap <= WS_WORTH_NAP_MOST);
		last = nap;
	}
	CHECK(last == WS_WORTH_NAP_MOST);
	CHECK(h.h_patience == WS_WORTH_PATIENCE &&
	      h.h_still == WS_WORTH_PATIENCE);
	theft(0, 0);
	ws_worth_calm(&h);
	CHECK(h.h_patience == WS_WORTH_PATIENCE &&
	      h.h_still == WS_WORTH_PATIENCE);
	CHECK(ws_worth_nap(&h) == WS_WORTH_NAP);
}

/* Clocks of two cpus differ: a time in the future is now. */
static void skew(unsigned at)
{
	begin(at);
	CHECK(!takes());
	now -= 1000;
	CHECK(!takes() && !stuck());
	CHECK(ws_worth_age(at, at + 1000) == 0 && ws_worth_age(at + 1000,
							       at) == 1000);
}

/* A single stop of an owner that was preempted says little. */
static void fence(void)
{
	int i;

	begin(0);
	ws_worth_fence(&h, 0);
	CHECK(h.h_fence > WS_WORTH_FENCE * 9 / 10);
	ws_worth_fence(&h, 4000000000u);
	CHECK(h.h_fence < WS_WORTH_FENCE_MOST);
	for (i = 0; i < 1000; i++)
		ws_worth_fence(&h, 500);
	CHECK(h.h_fence >= 500 && h.h_fence < 600);
	for (i = 0; i < 1000; i++)
		ws_worth_fence(&h, 20000);
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
			0u - check_random(&state) % WS_WORTH_MOST;

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
