/* SPDX-License-Identifier: MIT */
/* steal_hostage: threads behind a thread that computes run, in time. */
/* VARIANTS: once */

/*
 * A thread keeps its worker until other threads have run that are at home
 * there: woken by it, in the slot; woken from outside, in the inbox; in the
 * queue, after a yield; or not begun. Meanwhile the other workers sleep, or
 * have just found nothing (search W6). Or they have threads of their own that
 * run until then, so none of these workers ever sleeps (watch X1): threads that
 * yield, pinned or not, wake each other, or make tasks. Or there is a chain of
 * such threads, as long as there are workers. Or a thread sleeps, and another
 * worker must run the wheel of its worker. Each part would hang if no worker
 * came.
 */
#include "steal.h"
#include "uwait.h"

#define ROUNDS	20		/* fewer, if they take long */
#define LEAST	2		/* the fewest rounds */
#define POLLED	3		/* rounds while others poll */
#define MOST	5		/* pollers on a worker */

static long ran, here, holding;
static long wanted;		/* so many hostages are to run */
static thread *hostage[16];

/* At times the others are asleep already. This only adds variety. */
static void doze(int round)
{
	if (round % 3 == 0)
		usleep((useconds_t)(round % 5) * 300);
}

/* Pollers, which run until the hostages have run. */

enum { NONE, YIELD, YIELD_PINNED, PLAY, MAKE, MIXED, KINDS };

static long polling, pollers;		/* on all workers */
static thread *pair[16];
static long over[COUNT(pair) / 2];	/* of each pair, how many have ended */

static void yields_on(void *arg)
{
	add(&polling, 1);
	yield_until(&ran, wanted);
}

/* Two threads wake each other. The argument is the number of the other. */
static void plays_on(void *arg)
{
	thread **other = &pair[(intptr_t)arg];

	add(&polling, 1);
	while (get(&ran) < wanted) {
		SCHED(wake)(*other);
		wait_one();
	}
	if (add(&over[(intptr_t)arg / 2], 1) == 1)
		SCHED(wake)(*other);	/* that still waits */
}

static void nothing(void *arg)
{
}

static void makes_on(void *arg)
{
	add(&polling, 1);
	while (get(&ran) < wanted) {
		CHECK_IS(ws_spawn(nothing, NULL), 0);
		yield();
	}
}

static void pollers_yield(int p, int nr, bool pins)
{
	pollers += nr;
	while (nr-- > 0)
		(pins ? make_pinned : make)(p, yields_on, NULL);
}

/* Two pairs play. */
static void pollers_play(int p)
{
	intptr_t a;

	pollers += 4;
	for (a = 4 * (p - 1); a < 4 * p; a++)
		pair[a] = make_pinned(p, plays_on, (void *)(a ^ 1));
}

/* Starts pollers on worker p; nr of them, if the kind leaves that open. */
static void poll_on(int p, int kind, int nr)
{
	if (kind == YIELD_PINNED || kind == MIXED)
		pollers_yield(p, nr, true);
	if (kind == YIELD || kind == MIXED)
		pollers_yield(p, nr, false);
	if (kind == PLAY || kind == MIXED)
		pollers_play(p);
	if (kind == MAKE || kind == MIXED) {
		pollers++;
		make_pinned(p, makes_on, NULL);
	}
}

/* Hostages, and the places in which they wait. */

enum { SLOT, INBOX, QUEUE, DEQUE, MADE, PLACES };
static const char *const names[] = {
	"slot", "inbox", "queue", "deque", "deque and inbox"
};

static struct part {
	int p_procs;
	int p_place;
	int p_nr;		/* hostages */
	int p_kind;		/* of pollers */
	int p_polled;		/* workers with pollers */
	int p_each;		/* pollers on each */
	int p_round;
} part;

static void is_woken(void *arg)
{
	add(&here, 1);
	wait_one();
	add(&ran, 1);
}

static void is_queued(void *arg)
{
	add(&here, 1);
	yield_until(&holding, 1);
	add(&ran, 1);
}

static void is_new(void *arg)
{
	add(&ran, 1);
}

static void make_new(void)
{
	int i;

	for (i = 0; i < part.p_nr; i++)
		make(0, is_new, NULL);
}

static void holds(void *arg)
{
	const struct part *p = &part;

	yield_until(&polling, pollers);
	if (p->p_place < DEQUE)
		yield_until(&here, p->p_nr);
	doze(p->p_round);
	if (p->p_place == SLOT)
		SCHED(wake)(hostage[0]);
	if (p->p_place == DEQUE)
		make_new();
	set(&holding, 1);
	if (p->p_place == MADE)
		make_new();
	hold_until(&ran, wanted);
}

/* While the holder computes, from outside. */
static void *posts(void *arg)
{
	int i;

	until(&holding, 1);
	for (i = 0; i < part.p_nr && part.p_place == INBOX; i++)
		SCHED(wake)(hostage[i]);
	if (part.p_place == MADE)
		make_new();
	SCHED(release)();
	return arg;
}

static void run(struct part p)
{
	bool begins = p.p_place == SLOT || p.p_place == INBOX;
	bool pins = p.p_place >= DEQUE || p.p_kind != NONE;
	int i;

	part = p;
	doing("in %s, kind %d, %d on each of %d of %d", names[p.p_place],
	      p.p_kind, p.p_each, p.p_polled, p.p_procs);
	wanted = p.p_place == MADE ? 2 * p.p_nr : p.p_nr;
	ran = here = holding = polling = pollers = 0;
	memset(over, 0, sizeof over);
	begin(p.p_procs, 0);
	for (i = 0; i < p.p_nr && begins; i++)
		hostage[i] = make(0, is_woken, NULL);
	for (i = 0; i < p.p_nr && p.p_place == QUEUE; i++)
		make(0, is_queued, NULL);
	for (i = 1; i <= p.p_polled; i++)
		poll_on(i, p.p_kind, p.p_each);
	(pins ? make_pinned : make)(0, holds, NULL);
	start_and_finish_with(posts, NULL);
	CHECK_IS(ran, wanted);
}

/*
 * All workers sleep. Then two wakes come at once to one of them, and the first
 * thread that they wake waits for the second.
 */

static void first_or_second(void *arg)
{
	add(&here, 1);
	wait_one();
	if (add(&ran, 1) == 1)
		hold_until(&ran, 2);
}

static void *posts_two(void *arg)
{
	until(&here, 2);
	usleep((useconds_t)(intptr_t)arg);
	SCHED(wake)(hostage[0]);
	SCHED(wake)(hostage[1]);
	SCHED(release)();
	return NULL;
}

static void two_at_once(int p, intptr_t us)
{
	ran = here = 0;
	begin(p, 0);
	hostage[0] = make(0, first_or_second, NULL);
	hostage[1] = make(0, first_or_second, NULL);
	start_and_finish_with(posts_two, (void *)us);
	CHECK_IS(ran, 2);
}

/*
 * A chain with a thread on each worker. The first wakes the second, and waits
 * natively until that has run; the second wakes the third, and so on. The last
 * thread is reached only if a worker that has taken a hostage makes another
 * worker look for the hostages of this worker itself.
 */

static long links;

static void link_run(void *arg)
{
	intptr_t me = (intptr_t)arg;

	add(&here, 1);
	wait_one();
	if (me + 1 < links) {
		SCHED(wake)(hostage[me + 1]);
		hold_until(&ran, links - me - 1);
	}
	add(&ran, 1);
}

static void starts_chain(void *arg)
{
	yield_until(&here, links);
	doze((int)(intptr_t)arg);
	SCHED(wake)(hostage[0]);
}

static void chain(int p, intptr_t round)
{
	intptr_t i;

	ran = here = 0;
	links = p;
	begin(p, 0);
	for (i = 0; i < links; i++)
		hostage[i] = make(0, link_run, (void *)i);
	make(0, starts_chain, (void *)round);
	start_and_finish();
	CHECK_IS(ran, links);
}

/* A thread sleeps, and another computes there until the first has gone on. */

static void sleeps(void *arg)
{
	utime_ns until = uafter((intptr_t)arg * UTIME_MS);

	CHECK(u_sleep(until) == 0 && unow() >= until);
	set(&ran, 1);
}

static void computes(void *arg)
{
	hold_until(&ran, 1);
}

static void sleepers(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ran = 0;
		make(0, sleeps, (void *)(intptr_t)(i % 5));
		yield();
		CHECK_IS(SCHED(join)(make_joinable(0, computes, NULL)), 0);
	}
}

static void deadlines(void)
{
	doing("in deadlines");
	begin(2, 0);
	make_pinned(0, sleepers, NULL);
	start_and_finish();
	CHECK_IS(ran, 1);
}

/* All of it. */

static bool more(int round, int most)
{
	return round < LEAST || (round < most && check_time(12));
}

static int hostages(int place, int round)
{
	return place == SLOT ? 1 : place == INBOX ? 1 + round % COUNT(hostage) :
		place == QUEUE ? 1 + round % 70 : 1 + round * 7;
}

static void others_sleep(int p)
{
	int i, place;

	for (place = threads_move() ? SLOT : DEQUE; place < PLACES; place++)
		for (i = 0; more(i, ROUNDS); i++)
			run((struct part){ p, place, hostages(place, i),
				NONE, 0, 0, i });
	if (!threads_move())
		return;
	doing("in two_at_once");
	for (i = 0; more(i, 5 * ROUNDS); i++)
		two_at_once(p, i % 50 * 10);
	doing("in chain");
	for (i = 0; more(i, ROUNDS); i++)
		chain(p, i);
	for (i = 0; i < LEAST; i++)	/* all but one sleep; none sleeps */
		run((struct part){ p, SLOT, 1, YIELD_PINNED,
			i ? p - 1 : 1, 1, i });
}

static void others_poll(int p)
{
	int place, kind;

	for (place = threads_move() ? SLOT : DEQUE; place < PLACES; place++)
		for (kind = YIELD; kind < KINDS; kind++)
			run((struct part){ p, place, 1, kind, p - 1,
				1 + (p + kind) % MOST, p });
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 2; p <= 4; p++)
		others_sleep(p);
	for (p = 2; p < 2 + POLLED; p++)
		others_poll(p);
	deadlines();
	return 0;
}
