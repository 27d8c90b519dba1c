/* SPDX-License-Identifier: MIT */
/* spawn.c: callers submit tasks, within limits. */

/*
 * A caller beyond a limit waits in e_room, and its task has a slot already. The
 * thread that makes room takes callers out there, the longest wait first, and
 * queues their tasks. So the order is kept even while a caller is on its way,
 * with its wait over: it cannot be overtaken. All is done under the lock. A
 * caller goes on if it is no longer in e_room, whatever has ended its wait;
 * otherwise it gives up, or looks and waits again with a new record in the same
 * place. Newcomers stand behind all.
 *
 * A runner gives room only if e_spare places are free, which is a part of the
 * limit, so that not each task costs a wake and a sleep. Fewer places may stay
 * free as long as running tasks last, and perhaps these wait for the caller. So
 * the first in e_room looks by itself, too: after NAP, and each time twice as
 * long. If the first is taken out, the next is woken, and begins to nap.
 *
 * REJECTED
 *
 * Callers that are woken, and queue their tasks themselves. If the first keeps
 * its place until it runs, each task costs a wake, and 4 native threads queue an
 * eighth as many. If not, newcomers overtake.
 */

#include "inside.h"

#include <stdlib.h>

#define NAP		UTIME_MS

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
 * Returns 0 if j may be queued now; -EAGAIN if it has to wait. Caller holds the
 * lock.
 */
static ALWAYS_INLINE int admit(const struct engine_job *j)
{
	size_t size = e->e_amount != 0 ? bytes_of(j) : 0;

	if (e->e_state != OPEN)
		return e->e_state <= MAKING ? -ENODEV : -ESHUTDOWN;
	if (j->j_batch != 0 && engine_batch_find(j->j_batch) == NULL)
		return -EINVAL;
	if (j->j_flags & ENGINE_C_ONLY && e->e_c_workers == 0)
		return -ENOTSUP;
	if (size > e->e_amount)
		return -E2BIG;
	return e->e_room == NULL && engine_has_room(size) ? 0 : -EAGAIN;
}

int engine_room(size_t bytes)
{
	struct engine_job j = { .j_bytes = bytes };
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = admit(&j);
	engine_unlock();
	return rc == 0 ? 1 : rc == -EAGAIN ? 0 : rc;
}

/* A call that queues jobs. */
struct submit {
	utime_ns       su_until;
	utime_ns       su_now;		/* exact, or su_near */
	utime_ns       su_near;		/* the near clock, of a single task */
	int            su_nr;		/* jobs */
	int            su_series;	/* number of the next task: TIME */
	int            su_weight;	/* of the next task */
	int            su_cpu;		/* of the caller, if su_now is exact */
	struct waiter *su_waiter;	/* for a wait, or NULL */
	struct waiter *su_old;		/* to be freed, without the lock */
	struct claimed su_claimed;
};

/* Returns how many tasks number nr of a series stands for; 0: it is not timed. */
static int weight_of(int nr)
{
	if (nr > ENGINE_EXACT)
		return nr % ENGINE_EXACT == 0 ? ENGINE_EXACT : 0;
	return (nr & (nr - 1)) == 0 ? (nr + 1) / 2 : 0;
}

/* Returns the number of a single task in its series, at a near time. */
static int series_at(utime_ns near)
{
	return __atomic_load_n(&e->e_queued, __ATOMIC_RELAXED) == 0 ||
		__atomic_load_n(&e->e_tick, __ATOMIC_RELAXED) != near ? 1 :
		__atomic_load_n(&e->e_series, __ATOMIC_RELAXED);
}

/* Reads the exact clock. Caller does not hold the lock. */
static void read_exact(struct submit *s)
{
	s->su_now = unow();
	s->su_cpu = engine_cpu();
}

/* Reads a clock: TIME. Caller does not hold the lock. */
static void read_clock(struct submit *s)
{
	if (s->su_nr == 1) {
		s->su_now = s->su_near = engine_near();
		s->su_series = series_at(s->su_near);
		s->su_weight = weight_of(s->su_series);
	}
	if (s->su_weight != 0 || s->su_nr > 1)
		read_exact(s);
}

/* Notes that a task of s was queued. Caller holds the lock. */
static void note_series(struct submit *s)
{
	s->su_series = s->su_series < 2 * ENGINE_EXACT ? s->su_series + 1 :
		ENGINE_EXACT + 1;
	if (s->su_nr == 1) {
		__atomic_store_n(&e->e_series, s->su_series, __ATOMIC_RELAXED);
		__atomic_store_n(&e->e_tick, s->su_near, __ATOMIC_RELAXED);
	} else
		s->su_weight = weight_of(s->su_series);
	if (s->su_now != s->su_near)
		e->e_from = s->su_cpu;
}

/* Returns whether j has what few jobs have. */
static ALWAYS_INLINE bool has_more(const struct engine_job *j)
{
	return j->j_end != NULL || j->j_name != NULL || j->j_bytes != 0;
}

/* Fills in what few jobs have. Caller holds the lock. */
static void fill_more(struct task *t, const struct engine_job *j, void *copy)
{
	t->t_more  = true;
	t->t_copy  = copy;
	t->t_end   = j->j_end;
	t->t_bytes = bytes_of(j) - sizeof *t;
	engine_name(t->t_name, j->j_name);
}

/* Returns the place of the batch of j, or -1. */
static ALWAYS_INLINE int place_of(const struct engine_job *j)
{
	return j->j_batch != 0 ? engine_batch_place(j->j_batch) : -1;
}

/* Fills in what all jobs have. Caller holds the lock. */
static ALWAYS_INLINE void fill(struct task *t, const struct engine_job *j,
			       int batch, int stage, const struct submit *s)
{
	t->t_generation++;
	t->t_f      = j->j_f;
	t->t_arg    = j->j_arg;
	t->t_time   = s->su_now;
	t->t_batch  = (signed char)batch;
	t->t_level  = (unsigned char)j->j_priority;
	t->t_stage  = (unsigned char)stage;
	t->t_flags  = (unsigned char)j->j_flags;
	t->t_weight = (unsigned char)s->su_weight;
	t->t_ending = false;
}

/* Takes a free slot for j, which has been admitted. Caller holds the lock. */
static ALWAYS_INLINE struct task *slot_take(const struct engine_job *j,
					    void *copy, const struct submit *s)
{
	int batch = place_of(j);
	struct task *t = e->e_free;

	e->e_free = t->t_next;
	__builtin_prefetch(e->e_free, 1);
	fill(t, j, batch, ENGINE_OUTSIDE, s);
	if (copy != NULL || has_more(j))
		fill_more(t, j, copy);
	if (batch >= 0)
		e->e_batch[batch].b_tasks++;
	return t;
}

/* Completes and frees. Caller holds the lock; released. */
static void release(struct submit *s)
{
	engine_complete(&s->su_claimed);
	if (s->su_old != NULL)
		uwait_free(s->su_old);
	s->su_old = NULL;
}

/*
 * Queues j, in a free slot. 0, -ENOMEM: nothing has changed. Caller holds the
 * lock.
 */
static int put(const struct engine_job *j, void *copy, engine_id *id,
	       struct submit *s)
{
	struct task *t;
	int rc;

	engine_count_queued(1);
	rc = engine_send_for(&s->su_claimed);
	if (rc != 0) {
		engine_count_queued(-1);
		return rc;
	}
	t = slot_take(j, copy, s);
	engine_enqueue(t);
	note_series(s);
	if (id != NULL)
		*id = engine_number(t);
	return 0;
}

/*
 * Looks for room. If there is none, the caller gets another record, in the same
 * place. 0, -ENOMEM. Caller holds the lock; released meanwhile.
 */
static int look(struct submit *s)
{
	struct waiter *a = s->su_waiter, *b;
	int rc;

	engine_give_room(&s->su_claimed);
	if (!a->a_in)
		return 0;
	release(s);
	USCHED_RACE(engine_room);
	b = engine_waiter(s->su_until, &rc);
	engine_lock();
	if (b == NULL)
		return rc;
	if (!a->a_in) {
		uwait_free(b);
		return 0;
	}
	b->a_task = a->a_task;
	engine_ring_add(&e->e_room, b, a);
	engine_ring_out(&e->e_room, a);
	s->su_waiter = b;
	s->su_old    = a;
	return 0;
}

/* Returns when the caller looks by itself. Caller holds the lock. */
static utime_ns look_at(const struct submit *s, utime_ns nap)
{
	utime_ns at;

	if (e->e_spare == 1 || e->e_room->a_next != s->su_waiter)
		return s->su_until;
	at = uafter(nap);
	return at < s->su_until ? at : s->su_until;
}

/* Waits in e_room, and looks. Caller holds the lock; released meanwhile. */
static int room_wait(struct submit *s, utime_ns nap)
{
	struct waiter *a = s->su_waiter;
	utime_ns until = look_at(s, nap);
	int rc;

	engine_aside_begin(a, &s->su_claimed);
	release(s);
	rc = engine_ring_wait(a, until);
	read_exact(s);
	engine_lock();
	engine_aside_end(a);
	if (!a->a_in)
		return 0;
	if (rc != 0 && (rc != -ETIMEDOUT || until == s->su_until))
		return rc;
	return look(s);
}

/* Waits until t is queued. Caller holds the lock; released meanwhile. */
static int stand(struct task *t, struct submit *s)
{
	utime_ns nap = NAP;
	int rc = 0;

	s->su_waiter->a_task = t;
	engine_ring_add(&e->e_room, s->su_waiter, e->e_room);
	while (rc == 0 && s->su_waiter->a_in) {
		rc = room_wait(s, nap);
		nap *= 2;
	}
	if (s->su_waiter->a_in) {
		engine_refuse(s->su_waiter, rc, &s->su_claimed);
		engine_give_room(&s->su_claimed);
		engine_wake_first(e->e_room, &s->su_claimed);
	}
	s->su_old    = s->su_waiter;
	s->su_waiter = NULL;
	return s->su_old->a_result;
}

/* Copies the argument. 0, -ENOMEM. Caller does not hold the lock. */
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

/* Makes a record for the caller. Caller holds the lock; released meanwhile. */
static int get_ready(struct submit *s)
{
	int rc;

	release(s);
	USCHED_RACE(engine_stand);
	s->su_waiter = engine_waiter(s->su_until, &rc);
	read_exact(s);
	engine_lock();
	return s->su_waiter != NULL ? 0 : rc;
}

/* Queues j, or waits for room. Caller holds the lock; released meanwhile. */
static int submit(const struct engine_job *j, void *copy, engine_id *id,
		  struct submit *s)
{
	struct task *t;
	engine_id number;
	int rc;

	for (;;) {
		rc = admit(j);
		if (rc != 0 && (rc != -EAGAIN || s->su_until == UNOW))
			return rc;
		if (e->e_free == NULL)
			rc = engine_slots_more();
		else if (rc == 0)
			return put(j, copy, id, s);
		else if (s->su_waiter == NULL)
			rc = get_ready(s);
		else
			break;
		if (rc != 0)
			return rc;
	}
	t = slot_take(j, copy, s);
	number = engine_number(t);
	rc = stand(t, s);
	if (rc == 0 && id != NULL)
		*id = number;
	return rc;
}

/* Returns whether j differs from the job before only by f and its argument. */
static ALWAYS_INLINE bool is_same(const struct engine_job *j)
{
	return j->j_size == 0 && !has_more(j) && j->j_batch == j[-1].j_batch &&
		j->j_priority == j[-1].j_priority && j->j_flags == j[-1].j_flags;
}

/*
 * Returns how many of nr jobs may be queued behind a task of the level of j, as
 * long as they are alike. The queue has sent for a runner: engine EN1. Caller
 * holds the lock.
 */
static int room_behind(const struct engine_job *j, int nr)
{
	long room = e->e_tasks - e->e_queued;

	if (admit(j) != 0 || e->e_amount != 0 || e->e_helpers != NULL ||
	    e->e_level[j->j_priority].l_last == NULL)
		return 0;
	return room < nr ? (int)room : nr;
}

/* Counts nr tasks that were queued with j. Caller holds the lock. */
static void count_same(const struct engine_job *j, int nr)
{
	int batch = place_of(j);

	engine_count_queued(nr);
	e->e_submitted += nr;
	e->e_alive += nr;
	e->e_bytes += (size_t)nr * sizeof(struct task);
	if (batch >= 0)
		e->e_batch[batch].b_tasks += nr;
}

/*
 * Queues up to nr jobs that are like the job before. The list of free slots, as
 * it is, becomes the end of the level. Returns how many. Caller holds the lock.
 */
static NOINLINE int put_same(const struct engine_job *j, int nr, engine_id *ids,
			     struct submit *s)
{
	struct level *l = &e->e_level[j->j_priority];
	struct task *last = l->l_last, *t = e->e_free;
	int n, batch = place_of(j), most = room_behind(j, nr);

	if (most == 0)
		return 0;
	last->t_next = t;
	for (n = 0; n < most && t != NULL && is_same(&j[n]); n++) {
		fill(t, &j[n], batch, ENGINE_QUEUED, s);
		note_series(s);
		if (ids != NULL)
			ids[n] = engine_number(t);
		t->t_prev = last;
		last = t;
		t = t->t_next;
		__builtin_prefetch(t, 1);
	}
	last->t_next = NULL;
	l->l_last = last;
	e->e_free = t;
	count_same(j, n);
	return n;
}

/* Queues jobs. Returns how many; sets *rc. Caller holds the lock; released. */
static int submit_all(const struct engine_job *j, int nr, engine_id *ids,
		      struct submit *s, int *rc)
{
	void *copy = NULL;
	int n, more, left = ENGINE_TOGETHER - 1;	/* under this lock */

	for (n = 0; n < nr; n++) {
		if (j[n].j_size != 0 || left-- == 0) {
			release(s);
			*rc = copy_arg(&j[n], &copy);
			read_clock(s);
			left = ENGINE_TOGETHER - 1;
			engine_lock();
		}
		if (*rc == 0)
			*rc = submit(&j[n], copy, ids != NULL ? &ids[n] : NULL,
				     s);
		if (*rc != 0)
			break;
		copy = NULL;
		more = nr - n - 1 < left ? nr - n - 1 : left;
		if (more > 0)
			more = put_same(&j[n + 1], more, ids != NULL ?
					&ids[n + 1] : NULL, s);
		n += more;
		left -= more;
	}
	release(s);
	if (s->su_waiter != NULL)
		uwait_free(s->su_waiter);
	free(copy);
	return n;
}

int engine_spawn_many(const struct engine_job *j, int nr, engine_id *ids,
		      utime_ns until)
{
	struct submit s = {
		.su_until = until, .su_nr = nr, .su_series = 1, .su_weight = 1
	};
	int i, n, rc = j == NULL || nr < 1 || until < 0 ? -EINVAL : 0;

	for (i = 0; rc == 0 && i < nr; i++)
		rc = check(&j[i], ids);
	if (rc != 0)
		return rc;
	read_clock(&s);
	rc = engine_enter();
	if (rc != 0)
		return rc;
	n = submit_all(j, nr, ids, &s, &rc);
	return n > 0 ? n : rc;
}

int engine_spawn(const struct engine_job *j, engine_id *id, utime_ns until)
{
	int rc = engine_spawn_many(j, 1, id, until);

	return rc > 0 ? 0 : rc;
}

