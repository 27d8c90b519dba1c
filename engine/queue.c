/* SPDX-License-Identifier: MIT */
/* queue.c: tasks that have not begun: limits, levels, and choice. */

/*
 * CHOICE
 *
 * A pick takes from the highest level that is not empty. But each FAIR-th pick
 * takes the oldest task of the level whose turn it is, or else of the next
 * below. In FAIR * ENGINE_LEVELS picks each level has its turn. So the n-th
 * oldest task of a level begins after n * ENGINE_BOUND picks by C workers.
 *
 * A helper passes over tasks with ENGINE_C_ONLY, LOOK of a level at most: the
 * lock is held meanwhile.
 *
 * LIMITS
 *
 * A caller beyond a limit waits in e_room. If e_spare places are free, and
 * callers wait, the first of them was told, or comes: each caller that has been
 * in e_room, and has places for all its jobs or an error, tells the next. New
 * callers stand behind them.
 *
 * e_spare is an eighth of the limit, so that not each task costs a wake and a
 * sleep. Fewer places may stay free as long as running tasks last, and perhaps
 * these wait for the caller. So the first in e_room looks by itself, too: after
 * NAP, and each time twice as long.
 *
 * REJECTED
 *
 * Lists without a lock: a priority can change while a task is queued, a level
 * needs both ends, and the limit must be exact. bus_contention_count tells how
 * often the lock was taken.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define e engine_all		/* in this file */
#define FAIR		(ENGINE_BOUND / ENGINE_LEVELS)
#define NAP		UTIME_MS
#define LOOK		32		/* tasks that a helper passes over */

/* Levels. */

static void count_queued(int nr)
{
	__atomic_store_n(&e.e_queued, e.e_queued + nr, __ATOMIC_RELAXED);
}

static void level_add(struct task *t, int nr)
{
	struct level *l = &e.e_level[nr];

	t->t_level = (unsigned char)nr;
	t->t_next  = NULL;
	t->t_prev  = l->l_last;
	if (l->l_last != NULL)
		l->l_last->t_next = t;
	else
		l->l_first = t;
	l->l_last = t;
	e.e_mask |= 1u << nr;
}

static void level_out(struct task *t)
{
	struct level *l = &e.e_level[t->t_level];

	*(t->t_prev != NULL ? &t->t_prev->t_next : &l->l_first) = t->t_next;
	*(t->t_next != NULL ? &t->t_next->t_prev : &l->l_last) = t->t_prev;
	if (l->l_first == NULL)
		e.e_mask &= ~(1u << t->t_level);
}

/* Returns the highest level of the mask, which is not 0. */
static int highest(unsigned mask)
{
	return 31 - __builtin_clz(mask);
}

/* Returns the level that a fair pick serves: nr, or the next below. */
static int fair(unsigned nr)
{
	unsigned below = e.e_mask & ((2u << nr) - 1);

	return highest(below != 0 ? below : e.e_mask);
}

/* Returns a task that may run, of t and LOOK tasks behind it, or NULL. */
static struct task *allowed(struct task *t, bool newer, bool host)
{
	int n;

	for (n = 0; n <= LOOK && t != NULL; n++) {
		if (!host || !(t->t_flags & ENGINE_C_ONLY))
			return t;
		t = newer ? t->t_next : t->t_prev;
	}
	return NULL;
}

/* Returns the task to run next, or NULL. Caller holds the lock. */
static struct task *pick(bool host)
{
	unsigned turn = e.e_turn[host]++;
	unsigned mask = e.e_mask;
	bool oldest = e.e_policy != ENGINE_LIFO;
	struct task *t = NULL;
	struct level *l;

	if (mask != 0 && turn % FAIR == FAIR - 1) {
		l = &e.e_level[fair(turn / FAIR % ENGINE_LEVELS)];
		t = allowed(l->l_first, true, host);
	}
	while (t == NULL && mask != 0) {
		l = &e.e_level[highest(mask)];
		t = allowed(oldest ? l->l_first : l->l_last, oldest, host);
		mask &= ~(1u << (l - e.e_level));
	}
	return t;
}

struct task *engine_dequeue(bool host, struct tell *l)
{
	struct task *t;

	if (e.e_queued == 0 || e.e_paused & ENGINE_START)
		return NULL;
	t = pick(host);
	if (t == NULL)
		return NULL;
	level_out(t);
	count_queued(-1);
	if (e.e_room != NULL && e.e_tasks - e.e_queued >= e.e_spare)
		(void)engine_claim_first(&e.e_room, 0, l);
	return t;
}

/* Submission. */

static int check(const struct engine_job *j, const engine_id *ids)
{
	if (j->j_f == NULL || j->j_priority < 0 ||
	    j->j_priority >= ENGINE_LEVELS || j->j_batch < 0 ||
	    j->j_flags & ~(unsigned)(ENGINE_DETACHED | ENGINE_C_ONLY) ||
	    (j->j_size != 0 && j->j_arg == NULL))
		return -EINVAL;
	return ids == NULL && !(j->j_flags & ENGINE_DETACHED) &&
		j->j_batch == 0 ? -EINVAL : 0;
}

static size_t bytes_of(const struct engine_job *j)
{
	size_t sum = sizeof(struct task);

	return __builtin_add_overflow(sum, j->j_size, &sum) ||
		__builtin_add_overflow(sum, j->j_bytes, &sum) ? SIZE_MAX : sum;
}

/*
 * Returns 0 if j may be queued now; -EAGAIN if it has to wait. mine: the caller
 * has waited, and is the first. Caller holds the lock.
 */
static int admit(const struct engine_job *j, bool mine)
{
	size_t size = bytes_of(j);

	if (e.e_state <= MAKING)
		return -ENODEV;
	if (e.e_state != OPEN)
		return -ESHUTDOWN;
	if (j->j_batch != 0 && engine_batch_find(j->j_batch) == NULL)
		return -EINVAL;
	if (j->j_flags & ENGINE_C_ONLY && e.e_workers == 0)
		return -ENOTSUP;
	if (e.e_amount != 0 && size > e.e_amount)
		return -E2BIG;
	if (e.e_paused & ENGINE_INTAKE || e.e_queued >= e.e_tasks ||
	    (e.e_amount != 0 && size > e.e_amount - e.e_bytes) ||
	    (e.e_room != NULL && !mine))
		return -EAGAIN;
	return 0;
}

int engine_room(size_t bytes)
{
	struct engine_job j = { .j_bytes = bytes };
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = admit(&j, false);
	engine_leave();
	return rc == 0 ? 1 : rc == -EAGAIN ? 0 : rc;
}

static void fill(struct task *t, const struct engine_job *j, void *copy,
		 utime_ns now)
{
	struct batch *b = engine_batch_find(j->j_batch);
	size_t length = j->j_name != NULL ? strlen(j->j_name) : 0;

	t->t_f      = j->j_f;
	t->t_arg    = j->j_arg;
	t->t_copy   = copy;
	t->t_end    = j->j_end;
	t->t_bytes  = bytes_of(j);
	t->t_batch  = (short)(b != NULL ? b - e.e_batch : -1);
	t->t_flags  = (unsigned char)j->j_flags;
	t->t_stage  = ENGINE_QUEUED;
	t->t_ending = false;
	t->t_runner = NULL;
	t->t_pins   = NULL;
	t->t_time   = now;
	length = length < ENGINE_NAME ? length : ENGINE_NAME - 1;
	memcpy(t->t_name, j->j_name != NULL ? j->j_name : "", length);
	t->t_name[length] = '\0';
	if (b != NULL)
		b->b_tasks++;
}

/* A call that queues jobs. */
struct call {
	utime_ns    c_until;
	utime_ns    c_now;		/* nearly */
	utime_ns    c_nap;
	bool        c_waited;		/* tells the next in e_room, in the end */
	bool        c_first;		/* no caller in e_room is before it */
	struct tell c_tell;
};

/*
 * Queues j, in a free slot. 0, -ENOMEM: nothing has changed. Caller holds the
 * lock.
 */
static int put(const struct engine_job *j, void *copy, engine_id *id,
	       struct call *c)
{
	struct task *t = e.e_free;
	int rc;

	count_queued(1);
	rc = engine_send_for(&c->c_tell);
	if (rc != 0) {
		count_queued(-1);
		return rc;
	}
	e.e_free = t->t_next;
	level_add(t, j->j_priority);
	t->t_turn++;
	fill(t, j, copy, c->c_now);
	e.e_submitted++;
	e.e_from = engine_cpu();
	e.e_alive++;
	e.e_bytes += t->t_bytes;
	if (id != NULL)
		*id = engine_number(t);
	return 0;
}

/* Returns when a caller that waits for room looks. Caller holds the lock. */
static utime_ns look_again(struct call *c)
{
	utime_ns look;

	if (e.e_spare == 1 || (e.e_room != NULL && !c->c_first))
		return c->c_until;
	look = uafter(c->c_nap);
	c->c_nap *= 2;
	return look < c->c_until ? look : c->c_until;
}

/* Waits until j may be queued, or it is time to look. 0: the caller is first. */
static int room_wait(const struct engine_job *j, struct call *c)
{
	struct waiter *a;
	utime_ns look;
	int rc;

	c->c_waited = true;
	USCHED_RACE(76);
	a = engine_waiter(true, c->c_until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && admit(j, c->c_first) == -EAGAIN) {
		look = look_again(c);
		(void)engine_wait_in(&e.e_room, a, c->c_first, look, &rc);
		return rc == -ETIMEDOUT && look < c->c_until ? 0 : rc;
	}
	if (rc == 0)
		engine_leave();
	uwait_free(a);
	return rc;
}

/* Copies the argument. 0, -ENOMEM. Caller holds no lock. */
static int copy_arg(const struct engine_job *j, void **copy)
{
	*copy = j->j_size != 0 ? malloc(j->j_size) : NULL;
	if (j->j_size == 0)
		return 0;
	if (*copy == NULL)
		return -ENOMEM;
	memcpy(*copy, j->j_arg, j->j_size);
	return 0;
}

/* Queues j, or waits for room. Caller holds the lock, put meanwhile. */
static int submit(const struct engine_job *j, void *copy, engine_id *id,
		  struct call *c)
{
	int rc;

	c->c_nap = NAP;
	for (;;) {
		rc = admit(j, c->c_first);
		if (rc == 0 && e.e_free == NULL) {
			rc = engine_slots_more();
			if (rc == 0)
				continue;
		} else if (rc == 0)
			rc = put(j, copy, id, c);
		if (rc != -EAGAIN || c->c_until == UNOW)
			return rc;
		engine_tell(&c->c_tell);
		rc = room_wait(j, c);
		c->c_now = unow();
		engine_relock();
		if (rc != 0)
			return rc;
		c->c_first = true;
	}
}

/* Queues jobs. Returns how many; sets *rc. Caller holds the lock, put then. */
static int submit_all(const struct engine_job *j, int nr, engine_id *ids,
		      struct call *c, int *rc)
{
	void *copy = NULL;
	int n;

	for (n = 0; n < nr; n++) {
		if (j[n].j_size != 0 || n % TOGETHER == TOGETHER - 1) {
			engine_tell(&c->c_tell);
			*rc = copy_arg(&j[n], &copy);
			c->c_now = unow();
			engine_relock();
		}
		if (*rc == 0)
			*rc = submit(&j[n], copy, ids != NULL ? &ids[n] : NULL,
				     c);
		if (*rc != 0)
			break;
		copy = NULL;
	}
	if (c->c_waited && e.e_room != NULL)
		(void)engine_claim_first(&e.e_room, 0, &c->c_tell);
	engine_tell(&c->c_tell);
	free(copy);
	return n;
}

int engine_spawn_many(const struct engine_job *j, int nr, engine_id *ids,
		      utime_ns until)
{
	struct call c = { .c_until = until, .c_now = unow() };
	int i, n, rc = j == NULL || nr < 1 || until < 0 ? -EINVAL : 0;

	for (i = 0; rc == 0 && i < nr; i++)
		rc = check(&j[i], ids);
	if (rc == 0)
		rc = engine_enter();
	if (rc != 0)
		return rc;
	n = submit_all(j, nr, ids, &c, &rc);
	return n > 0 ? n : rc;
}

int engine_spawn(const struct engine_job *j, engine_id *id, utime_ns until)
{
	int rc = engine_spawn_many(j, 1, id, until);

	return rc > 0 ? 0 : rc;
}

/* Changes in the queue. */

int engine_set_priority(engine_id id, int priority)
{
	struct task *t;
	int rc = engine_enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (priority < 0 || priority >= ENGINE_LEVELS)
		rc = -EINVAL;
	else if (t->t_ending || t->t_stage != ENGINE_QUEUED)
		rc = -EALREADY;
	else {
		level_out(t);
		level_add(t, priority);
	}
	engine_leave();
	return rc;
}

void engine_cancel_queued(struct task *t, struct tell *l)
{
	utime_ns now;

	level_out(t);
	count_queued(-1);
	t->t_ending = true;
	engine_tell(l);
	engine_finish_outside(t, -ECANCELED);
	now = unow();
	engine_relock();
	e.e_canceled++;
	engine_finish(t, -ECANCELED, now, l);
	if (e.e_room != NULL)
		(void)engine_claim_first(&e.e_room, 0, l);
}

void engine_cancel_queue(struct tell *l)
{
	while (e.e_mask != 0)
		engine_cancel_queued(e.e_level[highest(e.e_mask)].l_first, l);
}
