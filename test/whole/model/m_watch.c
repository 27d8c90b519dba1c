/* SPDX-License-Identifier: MIT */
/* m_watch.c: scenarios of watch.h, with seek.h, park.h, idle.h as in ws.c. */

/*
 * One worker computes until a certain thread has run. That thread waits in the
 * worker's slot, which no search covers: only a look for workers that do not
 * switch finds it. So unless another worker looks twice, all workers sleep or
 * wait forever, which the checker reports. The others sleep, and keep watch; or
 * are woken, and compute as well; or run threads that yield, so that they never
 * sleep. (watch X1, X2.)
 *
 * The four headers are the real code. look_around(), seek(), park(), doze(),
 * is_stuck() and remember_switches() repeat what ws.c does. Time is not part of
 * the model: a period has passed whenever a worker asks, or a futex wait
 * returns for no reason, as often as the scenario says (m_spurious). So a
 * worker counts as stuck if its switches are as many at two looks.
 */
#include "model.h"
#define UFENCE_MODEL
#include "seek.h"
#include "idle.h"

/* Never the time of the last look, nor close to it. */
#define WS_WATCH_NOW(v)	\
	(__atomic_load_n(&(v)->v_looked, __ATOMIC_RELAXED) ^ (1u << 30))
#include "watch.h"

#define LOOKS	6

static struct {
	struct ws_watch watch;
	struct ws_seek seek;
	int idle;			/* see idle.h */
	int asleep;			/* the worker that sleeps */
	int message;			/* atomic: in its inbox */
	int switches, watched;		/* atomic: of the worker that computes */
	int slot;			/* atomic: the thread waits there */
	int data;			/* plain: written by its waker */
	int ran;			/* atomic: the thread has run */
	int looks[2];			/* by the workers that yield */
	int joins;			/* the sleeper watches beside others */
} s;

static int get(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static void set(int *at, int value)
{
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

/* Looking. */

static bool is_stuck(void)
{
	return __atomic_load_n(&s.switches, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&s.watched, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&s.slot, __ATOMIC_RELAXED) != 0;
}

static void remember_switches(void)
{
	__atomic_store_n(&s.watched, __atomic_load_n(&s.switches,
			__ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* An exchange takes the place of stop.h. */
static bool take(void)
{
	if (!is_stuck() || __atomic_exchange_n(&s.slot, 0, __ATOMIC_ACQUIRE) == 0)
		return false;
	MUST(s.data++ == 5);
	set(&s.ran, 1);
	return true;
}

/* The worker runs two threads that yield by turns, so it never searches. */
static void look_around(void)
{
	if (ws_is_watched(&s.watch) || !ws_watch_due(&s.watch))	/* watch U5, U6 */
		return;
	(void)take();						/* watch U7 */
	remember_switches();					/* watch U8 */
}

/* Sleeping. */

static bool called(void)
{
	return get(&s.message) != 0 || get(&s.ran) != 0;
}

static void doze(void)
{
	remember_switches();					/* watch U2 */
	if (!uidle_doze(&s.idle, 3, &s.asleep, 1))		/* watch U3 */
		(void)ws_watch_due(&s.watch);
	ws_watch_end(&s.watch);					/* watch U4 */
}

static void park(void)
{
	upark_prepare(&s.asleep);
	ws_seek_park(&s.seek);
	if (called() && upark_cancel(&s.asleep))
		;
	else if (s.joins) {
		ws_watch_join(&s.watch);			/* watch U1 */
		doze();
	} else if (ws_watch_begin(&s.watch))			/* watch U1 */
		doze();
	else
		uidle_sleep(&s.idle, 3, &s.asleep);
	ws_seek_unpark(&s.seek);
}

static void seek(void)
{
	bool got;

	ws_seek_begin(&s.seek);
	got = take();						/* watch U4 */
	if (!got)
		remember_switches();
	(void)ws_seek_end(&s.seek);
	if (!got && !called())
		park();
}

/* Workers. */

static void until_it_has_run(void)
{
	while (get(&s.ran) == 0)
		model_pause(1);
	(void)upark_wake(&s.asleep);	/* the end */
}

/* Switches; then the thread that it runs wakes the other. */
static void computes(void)
{
	__atomic_store_n(&s.switches, 1, __ATOMIC_RELAXED);
	s.data = 5;
	__atomic_store_n(&s.slot, 1, __ATOMIC_RELEASE);
	until_it_has_run();
}

/* Has computed since before the others begin. */
static void computes_on(void)
{
	until_it_has_run();
}

/*
 * Looks, while the thread waits in the slot, are bounded. (Before that, a
 * second look leaves the same data as the first.) A look may be in vain, if
 * another worker writes switches that it remembered long ago, or is faster to find
 * that a look is due. There are few of these.
 */
static void yields(int nr)
{
	look_around();
	while (get(&s.ran) == 0) {
		if (get(&s.slot) == 0 || ws_is_watched(&s.watch))
			model_pause(2);
		else {
			look_around();
			MUST(++s.looks[nr] <= LOOKS);
		}
	}
}

static void zero_yields(void)	{ yields(0); }
static void one_yields(void)	{ yields(1); }

/* Sleeps again and again; each message is dealt with soon. */
static void sleeps(void)
{
	while (get(&s.ran) == 0) {
		model_turn(3);
		seek();
		set(&s.message, 0);
	}
}

/*
 * Sleeps until a message comes, which stands for a thread that computes, too.
 */
static void sleeps_and_computes(void)
{
	while (get(&s.ran) == 0 && get(&s.message) == 0) {
		model_turn(4);
		seek();
	}
	until_it_has_run();
}

static void wakes(void)
{
	set(&s.message, 1);
	uidle_wake(&s.idle, &s.asleep);
}

/* Wakes three times, each time after the last message has been dealt with. */
static void wakes_thrice(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		wakes();
		while (get(&s.message) != 0 && get(&s.ran) == 0)
			model_pause(5);
	}
}

static void init(void)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = UFENCE_BOTH_FULL;
#endif
	s.idle = -1;
	NAME(s.watch.v_watches);
	NAME(s.watch.v_looked);
	NAME(s.asleep);
	NAME(s.message);
	NAME(s.switches);
	NAME(s.watched);
	NAME(s.slot);
	NAME(s.ran);
}

static void waits_already(void)
{
	init();
	s.switches = 1;
	s.data = 5;
	s.slot = 1;
}

/* Another worker watches, too, and is woken at any time. */
static void joins(void)
{
	waits_already();
	s.joins = 1;
	s.watch.v_watches = 1;
}

static void other_ends(void)
{
	ws_watch_end(&s.watch);
}

static void done(void)
{
	MUST(s.ran == 1 && s.slot == 0 && s.data == 6);
	MUST(s.seek.m_parked == 0 && s.seek.m_seeking == 0);
	MUST(s.watch.v_watches == 0);
}

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

#define WITH(name, quick, most, spurious, init, ...)			\
	{ "watch: " name, quick, most, spurious, &s, sizeof s, init,	\
	  { __VA_ARGS__ }, done }

const struct model_scenario scenarios[] = {
	WITH("one yields", ANY, ANY, 0, init, computes, zero_yields),
	WITH("two yield", NOT, 1, 0, init, computes, zero_yields,
	     one_yields),
	WITH("one sleeps", 2, ANY, 1, waits_already, computes_on, sleeps),
	WITH("one sleeps, one yields", 1, 2, 1, waits_already, computes_on,
	     sleeps, zero_yields),
	WITH("one sleeps, is woken, and computes; one yields", 1, 2, 1,
	     waits_already, computes_on, sleeps_and_computes, zero_yields, wakes),
	WITH("one sleeps, and never for as long as it wants", 1, 2, 0,
	     waits_already, computes_on, sleeps, wakes_thrice),
	WITH("one watches, another stops, one yields", 1, 2, 1, joins,
	     computes_on, sleeps, zero_yields, other_ends),
	{ 0 }
};
