/* SPDX-License-Identifier: MIT */
/* steal_back: what a bad theft took comes back, and nothing is lost. */
/* VARIANTS: once */

/*
 * Tokens go round in a ring of threads, a hop at each wake. In between threads yield,
 * are pinned for a while, and make others, which end at once. Each hop makes the next
 * look of its worker end the trial of its last theft as a failure
 * (steal_policy J7). So threads are taken and given back all the time: those
 * that run, that wait, that have not begun, in lanes of their own and in shared
 * ones. Each token makes all of its hops.
 */
#include "steal.h"
#include <stdlib.h>

#define HOPS	40000		/* of all tokens */

static thread **ring;
static int  threads, tokens;
static long hops, most, made, ended, given, over;
static thread *director;

/* Touches only the worker of the caller, which does not change meanwhile. */
static void doubt(void)
{
	struct ws_thief *h = &worker_at(ws_proc())->w_thief;

	if (h->h_gives) {
		add(&given, 1);
		h->h_gives = false;
	}
	h->h_patience = WS_POLICY_PATIENCE;
	h->h_greed    = WS_POLICY_GREED;
	if (h->h_owner >= 0) {
		h->h_run = 1;
		h->h_at -= WS_POLICY_TRIAL;
	}
}

static void ends(void *arg)
{
	add(&ended, 1);
}

static void passes(void *arg)
{
	int i = (int)(intptr_t)arg;
	unsigned state = check_seed + (unsigned)i;
	int here;
	long nr;

	for (;;) {
		wait_one();
		if (get(&over) != 0)
			break;
		doubt();
		switch (check_random(&state) % 32) {
		case 0:
			CHECK_IS(ws_yield(), 0);
			break;
		case 1:
			ws_pin();
			here = ws_proc();
			CHECK_IS(ws_yield(), 0);
			CHECK_IS(ws_proc(), here);
			ws_unpin();
			break;
		case 2:
			add(&made, 1);
			CHECK_IS(ws_spawn(ends, NULL), 0);
			break;
		case 3:
			add(&made, 1);
			make(0, ends, NULL);
			break;
		default:
			break;
		}
		nr = add(&hops, 1);
		if (nr <= most - tokens)
			SCHED(wake)(ring[(i + 1) % threads]);
		else if (nr == most)
			SCHED(wake)(director);
	}
	add(&ended, 1);
}

static void directs(void *arg)
{
	int i;

	director = SCHED(self)();
	for (i = 0; i < threads; i++)
		ring[i] = make(i, passes, (void *)(intptr_t)i);
	for (i = 0; i < tokens; i++)
		SCHED(wake)(ring[i * (threads / tokens)]);
	wait_one();
	CHECK_IS(get(&hops), most);
	set(&over, 1);
	for (i = 0; i < threads; i++)
		SCHED(wake)(ring[i]);
}

static void round_trip(int p, int nr, int of)
{
	threads = nr;
	tokens  = of;
	most    = HOPS;
	hops = made = ended = over = 0;
	ring = malloc((size_t)nr * sizeof *ring);
	CHECK(ring != NULL);
	begin(p, nr);
	make(0, directs, NULL);
	start_and_finish();
	CHECK_IS(ended, made + threads);
	free(ring);
}

int main(int argc, char **argv)
{
	int p, nr = 0;

	check_start(argc, argv);
	need_moves();
	do {
		for (p = 2; p <= 4; p++) {
			round_trip(p, 40, 20);
			round_trip(p, 3000, 100);
		}
	} while (get(&given) == 0 && ++nr < 20);
	CHECK_THAT(given, >, 0);
	return 0;
}
