/* SPDX-License-Identifier: MIT */
/* m_lock.c: scenarios of lock.h. */

#include "model.h"
#include "lock.h"

/*
 * Each holder increments a plain number, so two at once are a race. Or the
 * last holder, which it knows by this number, frees the lock: a write to its
 * memory that is a race with any later access of the holder before.
 */
static struct {
	struct ulock lock;
	int          nr;		/* plain */
	int          last;		/* frees the lock; 0: it stays */
} s;

static void init(void)
{
	NAME(s.lock.l_state);
	NAME(s.nr);
}

static void init_two_free(void)		{ init(); s.last = 2; }
static void init_three_free(void)	{ init(); s.last = 3; }

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

static void done_two(void)	{ MUST(s.nr == 2); }
static void done_three(void)	{ MUST(s.nr == 3); }

static void done_four(void)
{
	MUST(s.nr == 4 && s.lock.l_state == 0);
}

const struct model_scenario scenarios[] = {
	{ "lock: two, and the last frees it", MODEL_ANY, MODEL_ANY, 1,
	  &s, sizeof s, init_two_free, { holds, holds }, done_two },
	{ "lock: two, twice each", MODEL_ANY, MODEL_ANY, 1,
	  &s, sizeof s, init, { holds_twice, holds_twice }, done_four },
	{ "lock: three", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { holds, holds, holds }, done_three },
	{ "lock: three, and the last frees it", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_three_free, { holds, holds, holds }, done_three },
	{ 0 }
};
