/* SPDX-License-Identifier: MIT */
/* m_stop.c: scenarios of stop.h, with both kinds of fences (fence.h). */

/*
 * The data that owners and thieves access are plain. So if two threads are
 * inside at once, or a thread does not see what another did, the checker
 * reports a data race.
 *
 * A thief asks, and looks for an answer a few times, or not at all. Then it
 * uses force, and looks twice before it gives up. An owner that waits pauses at
 * each second look, so the number of looks need not be in the data. If patience
 * is unlimited, each look is a pause, and all waits end.
 */
#include "model.h"

#include <limits.h>

static bool patient;			/* set by the scenario, */
static int looks;			/* as is this: for the answer */

#define WS_STOP_PATIENCE	(patient ? INT_MAX : 2)
#define WS_STOP_RELAX()		(patient ? model_pause(1) : (void)0)
#define WS_STOP_GIVE_WAY(nr)	model_pause(2)
#define UFENCE_MODEL
#include "stop.h"

#define OWNERS	2

static struct {
	struct owner {
		struct ws_stop o_stop;
		int            o_data;	/* plain: visits of any thread */
		int            o_taken;	/* plain: ws_stop_look() was called */
	} owner[OWNERS];
	int times[MODEL_THREADS];	/* how often each thread was inside */
	int gave_up[MODEL_THREADS];
} s;

static void init(void)
{
	NAME(s.owner[0].o_stop.k_in);
	NAME(s.owner[0].o_stop.k_stop);
	NAME(s.owner[0].o_data);
	NAME(s.owner[1].o_stop.k_in);
	NAME(s.owner[1].o_stop.k_stop);
	NAME(s.owner[1].o_data);
}

/* Thread who is inside. The checker reports if it is not alone. */
static void there(int who, struct owner *o)
{
	o->o_data++;
	s.times[who]++;
}

static void enter(int who, struct owner *o)
{
	ws_stop_enter(&o->o_stop);
	there(who, o);
	ws_stop_leave(&o->o_stop);
}

/* As a wake in ws does: what it takes for granted holds, if ws_stop_quick(). */
static void owner_quick(void)
{
	struct owner *o = &s.owner[0];

	if (ws_stop_quick(&o->o_stop)) {
		MUST(!o->o_taken);
		there(0, o);
		ws_stop_leave(&o->o_stop);
	} else {
		ws_stop_leave(&o->o_stop);
		enter(0, o);
	}
}

static bool answered(struct ws_stop *k, unsigned long stop)
{
	int i;

	for (i = 0; i < looks; i++)
		if (ws_stop_answered(k, stop))
			return true;
	return false;
}

static bool stopped(struct ws_stop *k)
{
	unsigned long stop = ws_stop_ask(k);

	return stop != 0 && (answered(k, stop) || ws_stop_force(k));
}

static void stop(int who, struct owner *o)
{
	if (stopped(&o->o_stop)) {
		there(who, o);
		ws_stop_end(&o->o_stop);
	} else {
		s.gave_up[who]++;
	}
}

static void take(void)
{
	struct owner *o = &s.owner[0];

	if (!stopped(&o->o_stop))
		return;
	o->o_taken = 1;
	ws_stop_look(&o->o_stop);
	there(1, o);
	ws_stop_end(&o->o_stop);
}

/* By the owner itself, while a thief may ask, or give up. */
static void give(void)
{
	struct owner *o = &s.owner[0];

	ws_stop_enter(&o->o_stop);
	o->o_taken = 1;
	ws_stop_look(&o->o_stop);
	there(0, o);
	ws_stop_leave(&o->o_stop);
	owner_quick();
}

static void quick_twice(void)	{ owner_quick(); owner_quick(); }
static void owner(void)		{ enter(0, &s.owner[0]); }
static void owner_twice(void)	{ owner(); owner(); }
static void one(void)		{ stop(1, &s.owner[0]); }
static void two(void)		{ stop(2, &s.owner[0]); }
static void three(void)		{ stop(3, &s.owner[0]); }
static void one_twice(void)	{ one(); one(); }

/* Each is an owner, and also stops the other while that is not inside. */

static void stop_and_enter(int who)
{
	stop(who, &s.owner[!who]);
	enter(who, &s.owner[who]);
}

static void enter_and_stop(int who)
{
	enter(who, &s.owner[who]);
	stop_and_enter(who);
}

static void zero_both(void)	{ stop_and_enter(0); }
static void one_both(void)	{ stop_and_enter(1); }
static void zero_all(void)	{ enter_and_stop(0); }
static void one_all(void)	{ enter_and_stop(1); }

/* Each visit was counted, and all is open again. */
static void done(void)
{
	int there = 0;
	int i;

	for (i = 0; i < MODEL_THREADS; i++)
		there += s.times[i];
	MUST(s.owner[0].o_data + s.owner[1].o_data == there);
	for (i = 0; i < OWNERS; i++) {
		MUST(s.owner[i].o_stop.k_in == 0);
		MUST(!(s.owner[i].o_stop.k_stop & WS_STOP_ASKED));
	}
}

/* No ws_stop_look() is lost. */
static void done_look(void)
{
	done();
	MUST(!s.owner[0].o_taken == !(s.owner[0].o_stop.k_stop & WS_STOP_LOOK));
}

/* A patient thread that is the only one to stop an owner succeeds. */
static void done_patient(void)
{
	done();
	MUST(s.gave_up[0] + s.gave_up[1] == 0);
}

static void fences(bool free)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = free ? UFENCE_UNDECIDED : UFENCE_BOTH_FULL;
	MUST(!free || ufence_init() == 0);
#else
	(void)free;
#endif
	ws_stop_init(&s.owner[0].o_stop);
	ws_stop_init(&s.owner[1].o_stop);
	init();
}

static void is(bool p, int nr, bool free)
{
	patient = p;
	looks   = nr;
	fences(free);
}

static void full(void)		{ is(false, 0, false); }
static void one_free(void)	{ is(false, 0, true); }
static void full_asks(void)	{ is(false, 1, false); }
static void one_free_asks(void)	{ is(false, 1, true); }
static void full_patient(void)	{ is(true, 0, false); }
static void one_free_patient(void)	{ is(true, 0, true); }

#define WITH(name, quick, most, init, done, ...)			\
	{ "stop" name, quick, most, 0,					\
	  &s, sizeof s, init, { __VA_ARGS__ }, done }

#define TWICE(name, quick, most, membarrier, all, ...)			\
	WITH(": " name, quick, most, full, done, __VA_ARGS__),		\
	WITH(", membarrier: " name, membarrier, all, one_free, done,	\
	     __VA_ARGS__)

#define LOOKS(name, quick, most, membarrier, all, ...)			\
	WITH(": " name, quick, most, full, done_look, __VA_ARGS__),	\
	WITH(", membarrier: " name, membarrier, all, one_free,		\
	     done_look, __VA_ARGS__)

#define PATIENT(name, quick, most, membarrier, all, ...)		\
	WITH(", patient: " name, quick, most, full_patient,		\
	     done_patient, __VA_ARGS__),				\
	WITH(", patient, membarrier: " name, membarrier, all,		\
	     one_free_patient, done_patient, __VA_ARGS__)

#define ASKS(name, quick, most, membarrier, all, ...)			\
	WITH(", asks: " name, quick, most, full_asks, done,		\
	     __VA_ARGS__),						\
	WITH(", asks, membarrier: " name, membarrier, all,		\
	     one_free_asks, done, __VA_ARGS__)

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	TWICE("once each", ANY, ANY, ANY, ANY, owner, one),
	TWICE("twice each", ANY, ANY, ANY, ANY, owner_twice, one_twice),
	LOOKS("quick", ANY, ANY, ANY, ANY, quick_twice, take),
	LOOKS("gives, then quick", ANY, ANY, ANY, ANY, give, one),
	TWICE("two who stop", ANY, ANY, ANY, ANY, owner, one, two),
	TWICE("each other", ANY, ANY, ANY, ANY, zero_both, one_both),
	PATIENT("twice each", ANY, ANY, ANY, ANY, owner_twice, one_twice),
	ASKS("once each", ANY, ANY, ANY, ANY, owner, one),
	ASKS("twice each", ANY, ANY, ANY, ANY, owner_twice, one_twice),
	ASKS("owner twice, two who stop", 2, ANY, 2, 3,
	     owner_twice, one, two),
	PATIENT("each other", ANY, ANY, ANY, ANY, zero_both, one_both),
	TWICE("owner twice, two who stop", ANY, ANY, 2, ANY,
	      owner_twice, one, two),
	TWICE("in, then each other", NOT, ANY, NOT, ANY, zero_all, one_all),
	PATIENT("in, then each other", NOT, ANY, NOT, ANY, zero_all, one_all),
	TWICE("three who stop", NOT, ANY, NOT, 3, owner, one, two, three),
	TWICE("each other, and a third", NOT, ANY, NOT, 3,
	      zero_both, one_both, two),
	{ 0 }
};
