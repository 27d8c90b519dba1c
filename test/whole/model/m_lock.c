/* SPDX-License-Identifier: MIT */
/* m_lock.c: scenarios of lock.h, with both kinds of fences (fence.h). */

#include "model.h"
#define UFENCE_MODEL
#define ULOCK_PLACE(l)	place_of(l)
struct ulock;
static int *place_of(const struct ulock *l);
#include "lock.h"

/*
 * Each holder increments a plain number, so two at once are a race. Or the
 * last holder, which it knows by this number, frees the lock: a write to its
 * memory that is a race with any later access of the holder before.
 */
static struct {
	struct ulock lock;
	struct ulock other;
	struct ulock outer;
	int          place;		/* of all locks */
	int          nr;		/* plain */
	int          nr_other;		/* plain */
	int          last;		/* frees the lock; 0: it stays */
} s;

static int *place_of(const struct ulock *l)
{
	(void)l;
	return &s.place;
}

static void init(int last, bool free)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = free ? UFENCE_UNDECIDED : UFENCE_BOTH_FULL;
	MUST(!free || ufence_init() == 0);
#else
	(void)free;
#endif
	s.last = last;
	NAME(s.lock.l_state);
	NAME(s.other.l_state);
	NAME(s.place);
	NAME(s.nr);
}

static void full(void)			{ init(0, false); }
static void full_two(void)		{ init(2, false); }
static void full_three(void)		{ init(3, false); }
static void light(void)			{ init(0, true); }
static void light_two(void)		{ init(2, true); }
static void light_three(void)		{ init(3, true); }

static void holds(void)
{
	int nr;

	ulock_get(&s.lock);
	nr = ++s.nr;
	ulock_put(&s.lock);
	if (nr == s.last)
		s.lock.l_state = 77;
}

static void holds_twice(void)
{
	holds();
	holds();
}

static void holds_both(void)
{
	ulock_get(&s.other);
	s.nr_other++;
	ulock_put(&s.other);
	holds();
}

/* A caller that sleeps with a lock delays those that want this lock. */
static void holds_within(void)
{
	ulock_get(&s.outer);
	holds();
	ulock_put(&s.outer);
}

static void holds_then_within(void)
{
	holds();
	ulock_get(&s.other);
	ulock_get(&s.outer);
	ulock_put(&s.outer);
	ulock_put(&s.other);
}

static void holds_other(void)
{
	ulock_get(&s.other);
	ulock_put(&s.other);
}

static void holds_other_twice(void)	{ holds_other(); holds_other(); }

static void done(void)
{
	MUST(s.last != 0 || s.lock.l_state == 0);
}

static void done_two(void)	{ done(); MUST(s.nr == 2 && s.nr_other == 2); }
static void done_three(void)	{ done(); MUST(s.nr == 3); }
static void done_four(void)	{ done(); MUST(s.nr == 4); }
static void done_free(void)	{ done(); MUST(s.nr == 2); }

/* A scenario with each kind of fences. Preemptions: quick, most. */
#define TWICE(name, quick, most, how, done, ...)			\
	{ "lock: " name ", full fences", quick, most, 1, &s, sizeof s,	\
	  full##how, { __VA_ARGS__ }, done },				\
	{ "lock: " name, quick, most, 1, &s, sizeof s,			\
	  light##how, { __VA_ARGS__ }, done }

const struct model_scenario scenarios[] = {
	TWICE("two, and the last frees it", MODEL_ANY, MODEL_ANY, _two,
	      done_free, holds, holds),
	TWICE("two, twice each", MODEL_ANY, MODEL_ANY, , done_four,
	      holds_twice, holds_twice),
	TWICE("two locks", MODEL_ANY, MODEL_ANY, , done_two,
	      holds_both, holds_both),
	TWICE("three", 2, MODEL_ANY, , done_three, holds, holds, holds),
	TWICE("three, and the last frees it", 2, MODEL_ANY, _three,
	      done_three, holds, holds, holds),
	{ "lock: one within another", 3, 4, 0, &s, sizeof s, full,
	  { holds_within, holds_then_within, holds_other_twice }, done_free },
	{ 0 }
};
