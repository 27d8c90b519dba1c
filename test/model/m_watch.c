/* SPDX-License-Identifier: MIT */
/* m_watch.c: scenarios of watch.h, with seek.h, park.h and idle.h as in ws.c. */

/*
 * One worker computes until a thread has run that waits in its slot, where no
 * search finds it: only a look for workers that do not switch. So all workers
 * sleep or wait, which the checker reports, unless one of the others
 * looks twice. These sleep, and keep watch; or are woken, and compute as well;
 * or run threads that yield, so that they never sleep. (X1, X2.)
 *
 * Real are the four headers. Copies of what is in ws.c, in its words, are:
 * look_around(), seek(), park(), doze(), is_stuck(), remember_turns(). Time is
 * no part of the model: a period has passed whenever a worker asks, or a futex
 * wait returns for no reason, as often as the scenario says (m_spurious). So a
 * worker is stuck if its turn is the same at two looks.
 */
#include "model.h"
#define FENCE_MODEL
#include "seek.h"
#include "idle.h"

/* Always another time than the last, and far from it. */
#define WATCH_NOW(v)	\
	(__atomic_load_n(&(v)->v_looked, __ATOMIC_RELAXED) ^ (1u << 30))
#include "watch.h"

#define LOOKS	6

static struct {
	struct watch watch;
	struct seek seek;
	int idle;			/* see idle.h */
	int asleep;			/* the worker that sleeps */
	int message;			/* atomic: in its inbox */
	int turn, watched;		/* atomic: of the worker that computes */
	int slot;			/* atomic: the thread waits there */
	int data;			/* plain: written by its waker */
	int ran;			/* atomic: it has run */
	int looks[2];			/* turns of the workers that yield */
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
	return __atomic_load_n(&s.turn, __ATOMIC_RELAXED) ==
	       __atomic_load_n(&s.watched, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&s.slot, __ATOMIC_RELAXED) != 0;
}

static void remember_turns(void)
{
	__atomic_store_n(&s.watched, __atomic_load_n(&s.turn,
			__ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* For stop.h, an exchange. */
static bool take(void)
{
	if (!is_stuck() || __atomic_exchange_n(&s.slot, 0, __ATOMIC_ACQUIRE) == 0)
		return false;
	MUST(s.data++ == 5);
	set(&s.ran, 1);
	return true;
}

/* Two threads yield by turns: there is always another thread to run. */
static void look_around(void)
{
	if (watch_kept(&s.watch) || !watch_due(&s.watch))	/* U5 U6 */
		return;
	(void)take();						/* U7 */
	remember_turns();					/* U8 */
}

/* Sleeping. */

static bool called(void)
{
	return get(&s.message) != 0 || get(&s.ran) != 0;
}

static void doze(void)
{
	remember_turns();					/* U2 */
	if (!idle_doze(&s.idle, 3, &s.asleep, 1))		/* U3 */
		(void)watch_due(&s.watch);
	watch_end(&s.watch);					/* U4 */
}

static void park(void)
{
	park_prepare(&s.asleep);
	seek_park(&s.seek);
	if (called() && park_cancel(&s.asleep))
		;
	else if (watch_begin(&s.watch))				/* U1 */
		doze();
	else
		idle_sleep(&s.idle, 3, &s.asleep);
	seek_unpark(&s.seek);
}

static void seek(void)
{
	bool got;

	seek_begin(&s.seek);
	got = take();						/* U4 */
	if (!got)
		remember_turns();
	(void)seek_end(&s.seek);
	if (!got && !called())
		park();
}

/* Workers. */

static void until_it_has_run(void)
{
	while (get(&s.ran) == 0)
		model_pause(1);
	(void)park_wake(&s.asleep);	/* the end */
}

/* It switches, and then the thread that it runs wakes the other. */
static void computes(void)
{
	__atomic_store_n(&s.turn, 1, __ATOMIC_RELAXED);
	s.data = 5;
	__atomic_store_n(&s.slot, 1, __ATOMIC_RELEASE);
	until_it_has_run();
}

/* Computes since before the others begin. */
static void computes_on(void)
{
	until_it_has_run();
}

/*
 * Looks before there is something to see leave behind no more than the first
 * does. Others may write what they remembered long ago, or be faster to find
 * that a look is due: so some turns are in vain, but not many.
 */
static void yields(int nr)
{
	look_around();
	while (get(&s.ran) == 0) {
		if (get(&s.slot) == 0 || watch_kept(&s.watch))
			model_pause(2);
		else {
			look_around();
			MUST(++s.looks[nr] <= LOOKS);
		}
	}
}

static void zero_yields(void)	{ yields(0); }
static void one_yields(void)	{ yields(1); }

/* Each message is soon dealt with. */
static void sleeps(void)
{
	while (get(&s.ran) == 0) {
		model_turn(3);
		seek();
		set(&s.message, 0);
	}
}

/* A message is a thread that computes, too. */
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
	idle_wake(&s.idle, &s.asleep);
}

/* Wakes again when the message has been dealt with. */
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
#if defined(FENCE_MEMBARRIER)
	fence_mode = FENCE_BOTH_FULL;
#endif
	s.idle = -1;
	NAME(s.watch.v_kept);
	NAME(s.watch.v_looked);
	NAME(s.asleep);
	NAME(s.message);
	NAME(s.turn);
	NAME(s.watched);
	NAME(s.slot);
	NAME(s.ran);
}

static void waits_already(void)
{
	init();
	s.turn = 1;
	s.data = 5;
	s.slot = 1;
}

static void done(void)
{
	MUST(s.ran == 1 && s.slot == 0 && s.data == 6);
	MUST(s.seek.m_parked == 0 && s.seek.m_seeking == 0);
	MUST(s.watch.v_kept == 0);
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
	{ 0 }
};
