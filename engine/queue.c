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
 * LIMITS
 *
 * A caller beyond a limit waits in e_room. While there is room, and callers
 * wait, the first of them was told, or comes: each caller that leaves e_room,
 * with a place or with an error, tells the next. New callers stand behind them.
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
#define TOGETHER	32		/* jobs queued under one lock */

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

/* Returns the task to run next, or NULL. Caller holds the lock. */
static struct task *pick(bool host)
{
	unsigned turn = e.e_turn[host]++;
	unsigned mask = e.e_mask;
	struct task *t;
	int nr;

	if (mask != 0 && turn % FAIR == FAIR - 1) {
		t = e.e_level[fair(turn / FAIR % ENGINE_LEVELS)].l_first;
		if (!host || !(t->t_flags & ENGINE_C_ONLY))
			return t;
	}
	for (; mask != 0; mask &= ~(1u << nr)) {
		nr = highest(mask);
		t = e.e_policy == ENGINE_LIFO ? e.e_level[nr].l_last :
			e.e_level[nr].l_first;
		if (!host || !(t->t_flags & ENGINE_C_ONLY))
			return t;
	}
	return NULL;
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
	if (e.e_room != NULL)
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

static void fill(struct task *t, const struct engine_job *j, void *copy)
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
	t->t_time   = unow();
	length = length < ENGINE_NAME ? length : ENGINE_NAME - 1;
	memcpy(t->t_name, j->j_name != NULL ? j->j_name : "", length);
	t->t_name[length] = '\0';
	if (b != NULL)
		b->b_tasks++;
}

/*
 * Queues j, in a free slot. 0, -ENOMEM: nothing has changed. Caller holds the
 * lock.
 */
static int put(const struct engine_job *j, void *copy, engine_id *id,
	       struct tell *l)
{
	struct task *t = e.e_free;
	struct task *free_next = t->t_next;
	int rc;

	level_add(t, j->j_priority);
	count_queued(1);
	rc = engine_send_for(l);
	if (rc != 0) {
		level_out(t);
		count_queued(-1);
		t->t_next = free_next;
		return rc;
	}
	e.e_free = free_next;
	t->t_turn++;
	fill(t, j, copy);
	e.e_submitted++;
	e.e_from = engine_cpu();
	e.e_alive++;
	e.e_bytes += t->t_bytes;
	if (id != NULL)
		*id = engine_number(t);
	return 0;
}

/* Waits until j may be queued. 0: the caller is the first. */
static int room_wait(const struct engine_job *j, bool first, utime_ns until)
{
	struct waiter *a;
	int rc;

	a = engine_waiter(until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && admit(j, first) == -EAGAIN) {
		(void)engine_wait_in(&e.e_room, a, first, until, &rc);
		return rc;
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
		  utime_ns until, struct tell *l)
{
	bool first = false;
	int rc;

	for (;;) {
		rc = admit(j, first);
		if (rc == 0 && e.e_free == NULL) {
			rc = engine_slots_more();
			if (rc == 0)
				continue;
		} else if (rc == 0)
			rc = put(j, copy, id, l);
		if (rc != -EAGAIN || until == UNOW)
			break;
		engine_tell(l);
		rc = room_wait(j, first, until);
		engine_relock();
		if (rc != 0)
			break;
		first = true;
	}
	if (first && e.e_room != NULL)
		(void)engine_claim_first(&e.e_room, 0, l);
	return rc;
}

/* Queues jobs. Returns how many; sets *rc. Caller holds no lock. */
static int submit_all(const struct engine_job *j, int nr, engine_id *ids,
		      utime_ns until, int *rc)
{
	struct tell l = { NULL };
	void *copy = NULL;
	int n;

	for (n = 0; n < nr; n++) {
		if (j[n].j_size != 0 || n % TOGETHER == TOGETHER - 1) {
			engine_tell(&l);
			*rc = copy_arg(&j[n], &copy);
			engine_relock();
		}
		if (*rc == 0)
			*rc = submit(&j[n], copy, ids != NULL ? &ids[n] : NULL,
				     until, &l);
		if (*rc != 0)
			break;
		copy = NULL;
	}
	engine_tell(&l);
	free(copy);
	return n;
}

int engine_spawn_many(const struct engine_job *j, int nr, engine_id *ids,
		      utime_ns until)
{
	int i, n, rc = j == NULL || nr < 1 || until < 0 ? -EINVAL : 0;

	for (i = 0; rc == 0 && i < nr; i++)
		rc = check(&j[i], ids);
	if (rc == 0)
		rc = engine_enter();
	if (rc != 0)
		return rc;
	n = submit_all(j, nr, ids, until, &rc);
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
	level_out(t);
	count_queued(-1);
	t->t_ending = true;
	engine_tell(l);
	engine_finish_outside(t, -ECANCELED);
	engine_relock();
	e.e_canceled++;
	engine_finish(t, -ECANCELED, l);
	if (e.e_room != NULL)
		(void)engine_claim_first(&e.e_room, 0, l);
}

void engine_cancel_queue(struct tell *l)
{
	while (e.e_mask != 0)
		engine_cancel_queued(e.e_level[highest(e.e_mask)].l_first, l);
}
