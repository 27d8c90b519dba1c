/* SPDX-License-Identifier: MIT */
/* queue.c: tasks that have not begun: levels, and choice of the next. */

/*
 * CHOICE
 *
 * A pick takes from the highest level that is not empty. But each FAIR-th pick
 * takes the oldest task of one level after the other, or of the next below that
 * is not empty. FAIR * ENGINE_LEVELS picks serve each level. So the n-th oldest
 * task of a level begins after n * ENGINE_BOUND picks by C workers.
 *
 * A helper passes over tasks with ENGINE_C_ONLY, LOOK of a level at most: the
 * lock is held meanwhile.
 *
 * REJECTED
 *
 * Lists without a lock: a priority can change while a task is queued, a level
 * needs both ends, and the limit must be exact. bus_contention_count tells how
 * often the lock was taken.
 */

#include "inside.h"

#define FAIR		(ENGINE_BOUND / ENGINE_LEVELS)
#define LOOK		32		/* tasks that a helper passes over */

static void level_add(struct task *t, int nr)
{
	struct level *l = &e->e_level[nr];

	t->t_level = (unsigned char)nr;
	t->t_next  = NULL;
	t->t_prev  = l->l_last;
	if (l->l_last != NULL)
		l->l_last->t_next = t;
	else
		l->l_first = t;
	l->l_last = t;
	e->e_mask |= 1u << nr;
}

static ALWAYS_INLINE void level_out(struct task *t)
{
	struct level *l = &e->e_level[t->t_level];

	*(t->t_prev != NULL ? &t->t_prev->t_next : &l->l_first) = t->t_next;
	*(t->t_next != NULL ? &t->t_next->t_prev : &l->l_last) = t->t_prev;
	if (l->l_first == NULL)
		e->e_mask &= ~(1u << t->t_level);
}

void engine_enqueue(struct task *t)
{
	level_add(t, t->t_level);
	t->t_stage = ENGINE_QUEUED;
	e->e_submitted++;
	e->e_alive++;
	e->e_bytes += engine_bytes(t);
}

void engine_let_in(struct claimed *l)
{
	struct waiter *a;
	int n = 0;

	while (e->e_room != NULL && n < ENGINE_TOGETHER) {
		a = e->e_room->a_next;
		if (!engine_has_room(engine_bytes(a->a_task)))
			break;
		engine_count_queued(1);
		engine_enqueue(a->a_task);
		(void)engine_claim(&e->e_room, a, 0, l);
		n++;
	}
	if (n == ENGINE_TOGETHER || (n > 0 && e->e_spare > 1))
		engine_wake_first(e->e_room, l);
}

void engine_refuse(struct waiter *a, int result, struct claimed *l)
{
	struct task *t = a->a_task;

	if (t->t_batch >= 0)
		e->e_batch[t->t_batch].b_tasks--;
	engine_slot_free(t);
	(void)engine_claim(&e->e_room, a, result, l);
}

/* Returns the highest level of the mask, which is not 0. */
static int highest(unsigned mask)
{
	return 31 - __builtin_clz(mask);
}

/* Returns the level that a fair pick serves: nr, or the next below. */
static int fair(unsigned nr)
{
	unsigned below = e->e_mask & ((2u << nr) - 1);

	return highest(below != 0 ? below : e->e_mask);
}

/* Returns a task for a helper, of t and LOOK tasks behind it, or NULL. */
static struct task *for_helper(struct task *t, bool newer)
{
	int n;

	for (n = 0; n <= LOOK && t != NULL; n++) {
		if (!(t->t_flags & ENGINE_C_ONLY))
			return t;
		t = newer ? t->t_next : t->t_prev;
	}
	return NULL;
}

/* Returns the task of a level to run next, or NULL. Caller holds the lock. */
static inline struct task *pick_of(int nr, bool oldest, bool host)
{
	struct level *l = &e->e_level[nr];
	struct task *t = oldest ? l->l_first : l->l_last;

	return host ? for_helper(t, oldest) : t;
}

/* Returns the task to run next, or NULL. Caller holds the lock. */
static inline struct task *pick(bool host)
{
	unsigned nr = e->e_picks[host]++;
	unsigned mask = e->e_mask;
	struct task *t = NULL;

	if (nr % FAIR == FAIR - 1 && mask != 0)
		t = pick_of(fair(nr / FAIR % ENGINE_LEVELS), true, host);
	for (; t == NULL && mask != 0; mask &= ~(1u << nr)) {
		nr = (unsigned)highest(mask);
		t  = pick_of((int)nr, e->e_policy != ENGINE_LIFO, host);
	}
	return t;
}

struct task *engine_dequeue(bool host)
{
	struct task *t;

	if (e->e_queued == 0 || e->e_paused & ENGINE_START)
		return NULL;
	t = host ? pick(true) : pick(false);
	if (t == NULL)
		return NULL;
	level_out(t);
	engine_count_queued(-1);
	__builtin_prefetch(e->e_policy == ENGINE_LIFO ? t->t_prev : t->t_next, 1);
	return t;
}

int engine_set_priority(engine_id id, int priority)
{
	struct task *t;
	int rc = engine_enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (priority < 0 || priority >= ENGINE_LEVELS)
		rc = -EINVAL;
	else if (engine_is_ending(t) || t->t_stage != ENGINE_QUEUED)
		rc = -EALREADY;
	else {
		level_out(t);
		level_add(t, priority);
	}
	engine_unlock();
	return rc;
}

void engine_cancel_queued(struct task *t, struct claimed *l)
{
	utime_ns now;

	level_out(t);
	engine_count_queued(-1);
	t->t_ending = true;
	engine_complete(l);
	engine_finish_outside(t, -ECANCELED);
	now = unow();
	engine_lock();
	e->e_canceled++;
	engine_finish(t, -ECANCELED, now, l);
}

void engine_cancel_queue(struct claimed *l)
{
	while (e->e_mask != 0)
		engine_cancel_queued(e->e_level[highest(e->e_mask)].l_first, l);
}
