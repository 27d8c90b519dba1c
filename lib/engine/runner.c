/* SPDX-License-Identifier: MIT */
/* runner.c: threads of ws, which run tasks. */

/*
 * THE NEXT RUNNER
 *
 * While tasks are queued, a runner is on its way: it was woken or made, and has
 * not looked into the queue yet (e_coming). If a worker is idle, it runs there.
 * Otherwise it waits in the queues of ws, and gets a worker as soon as a task
 * waits, for whatever reason: the engine need not know. When it takes a task it
 * sends for the next, so all idle workers are woken in turn. It takes none if
 * tasks that run occupy all workers: then the runner on its way gets the first
 * worker that is free (surplus()).
 *
 * A runner between tasks lets others run that ws has, such as tasks whose wait
 * has ended, each SLICE. A runner on its way that is switched to then goes back
 * (nt_yields): it waits for a worker with nothing to do.
 *
 * SPIN
 *
 * A wake of a sleeping worker takes some ten microseconds, where an empty task
 * takes less than one. So a runner that finds the queue empty looks at it for
 * SPIN before it parks. Meanwhile it is on its way (e_coming), so a submission
 * makes no system call. These are the conditions for a spin.
 *
 *   - The mean time without tasks was less than SPIN lately (e_gap). If a spin
 *     finds a task whose submission began before the last end, the caller does
 *     not wait for ends. It only waits for the lock, after each task, and a
 *     queue would serve both better. So that counts as a long time.
 *   - No other runner is on its way.
 *   - No task waits, because the worker would not see its wake meanwhile.
 *   - There is a cpu for each task that runs, for the caller, and for this
 *     runner.
 *   - The last caller was on another cpu. On the same cpu the spin would delay
 *     the caller.
 *
 * While the queue is empty after each task, a runner lets others run each
 * SERIES instead of SLICE, because that may wake a sleeping worker, for which
 * there mostly is nothing to do.
 *
 * A task of Python that is awaited at once, alone, with a worker for each of two
 * cpus, takes 4 us with a spin, and 42 without. If other programs leave a single
 * cpu to worker and caller, it takes 10 us. Without the comparison of cpus it
 * takes 25 there. If idle workers of ws search for work, too, it takes 43: so
 * ws_pinning(0) says to ws that the program needs a cpu. A caller that submits
 * empty tasks, and does not wait for them, gets 7.5 million a second on a
 * worker. If a spin follows each of them, it gets 2.3.
 *
 * STOPPING A TASK
 *
 * A runner begins a scope (uscope.h), and runs its tasks in that. To stop a task
 * is to cancel this scope. Its canceller holds the scope, and cancels it without
 * the lock. After the task the runner sees r_stopped, ends the scope, which
 * waits for the hold, and begins another. So the cancellation cannot reach the
 * next task.
 *
 * The runner puts its own call-backs in front of those of the scope. They note
 * which worker runs what, and what a task waits for.
 *
 * REJECTED
 *
 * A thread of ws for each task, and a pump that keeps twice as many of them as
 * there are workers: if those wait, the queue stands still, and if they do not
 * count, no limit holds. A runner on its way only when a wait is known: ucall()
 * and ws_wait() are not seen, and their workers would idle.
 *
 * A scope for each task: it costs more than all else of an empty task.
 */

#include "inside.h"
#include "ws.h"

#include <stdlib.h>
#include <unistd.h>

#define SLICE		(50 * UTIME_US)
#define SERIES		UTIME_MS	/* SLICE, while the queue is empty */
#define SPIN		(100 * UTIME_US)
#define SHORT		(SLICE / 8)	/* between two exact times */

/* Native threads. */

void engine_clock_note(struct native *k)
{
#if _POSIX_THREAD_CPUTIME >= 0		/* others cannot ask */
	if (pthread_getcpuclockid(pthread_self(), &k->nt_clock) == 0)
		__atomic_store_n(&k->nt_clocked, true, __ATOMIC_RELEASE);
#else
	(void)k;
#endif
}

void engine_gone(struct runner *r)
{
	struct native *k = engine_native_of(r);
	struct runner *mine = r;

	if (k != NULL)
		(void)__atomic_compare_exchange_n(&k->nt_current, &mine, NULL,
				false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Notes that r runs on its worker. The runner itself. */
static ALWAYS_INLINE void note_here(struct runner *r)
{
	struct native *k = engine_native_of(r);

	if (r->r_sched != usched_self()) {
		engine_gone(r);
		r->r_sched = usched_self();
		k = &e->e_native[ws_proc()];
		__atomic_store_n(&r->r_thread, (int)(k - e->e_native),
				 __ATOMIC_RELAXED);
		if (!k->nt_clocked)
			engine_clock_note(k);
	}
	__atomic_store_n(&k->nt_current, r, __ATOMIC_RELAXED);
}

/* Returns how many tasks on C workers wait. */
static int waiting(void)
{
	return __atomic_load_n(&e->e_waiting, __ATOMIC_RELAXED);
}

/* Returns an idle C worker, or -1. */
static int idle_worker(void)
{
	int i;

	if (e->e_busy - waiting() >= e->e_c_workers)
		return -1;
	for (i = 0; i < e->e_c_workers; i++)
		if (engine_current(&e->e_native[i]) == NULL)
			return i;
	return -1;
}

/* Runners. */

void engine_runner_in(struct runner *r)
{
	r->r_next = &e->e_ring;
	r->r_prev = e->e_ring.r_prev;
	r->r_prev->r_next = r->r_next->r_prev = r;
}

void engine_runner_out(struct runner *r)
{
	r->r_prev->r_next = r->r_next;
	r->r_next->r_prev = r->r_prev;
}

/* Makes a runner, on worker nr if that is not -1. 0, -ENOMEM. */
static int runner_make(int nr)
{
	struct runner *r = calloc(1, sizeof *r);
	int rc;

	if (r == NULL)
		return -ENOMEM;
	r->r_thread = -1;
	if (nr < 0)
		rc = ws_spawn(engine_runner, r);
	else
		rc = ws_thread_on(nr, engine_runner, r) != NULL ? 0 : -ENOMEM;
	if (rc != 0) {
		free(r);
		return rc;
	}
	engine_runner_in(r);
	e->e_runners++;
	engine_add(&e->e_coming, 1);
	return 0;
}

/* Wakes a parked runner, best at home on worker nr. False: there is none. */
static bool runner_wake(int nr, struct claimed *l)
{
	struct waiter *a;

	while ((a = e->e_idlers) != NULL) {
		do {
			if (nr >= 0 && a->a_runner->r_thread == nr)
				break;
			a = a->a_prev;
		} while (a != e->e_idlers);
		if (engine_claim(&e->e_idlers, a, 0, l)) {
			engine_add(&e->e_coming, 1);
			return true;
		}
	}
	return false;
}

int engine_send(struct claimed *l)
{
	bool full = e->e_runners - e->e_aside >= e->e_limit;
	int nr;

	if (e->e_helpers != NULL &&
	    (full || e->e_busy - waiting() >= e->e_c_workers))
		(void)engine_claim_first(&e->e_helpers, 0, l);
	if (e->e_coming > 0 || e->e_c_workers == 0)
		return 0;
	nr = idle_worker();
	return runner_wake(nr, l) || full ? 0 : runner_make(nr);
}

void engine_give_room(struct claimed *l)
{
	int rc;

	if (e->e_room == NULL ||
	    !engine_has_room(engine_bytes(e->e_room->a_next->a_task)))
		return;
	engine_count_queued(1);
	rc = engine_send_for(l);
	engine_count_queued(-1);
	if (rc == 0)
		engine_let_in(l);
	else
		engine_refuse(e->e_room->a_next, rc, l);
}

/* Waits of tasks. */

void engine_aside_begin(struct waiter *a, struct claimed *l)
{
	const struct runner *r = engine_here();

	if (r == NULL || r->r_stack == NULL)
		return;
	a->a_aside = true;
	e->e_aside++;
	(void)engine_send_for(l);			/* engine EN1, EN6 */
}

/* Notes that r waits. -ENOMEM: nothing would run the queue meanwhile. */
static int begins_wait(struct runner *r, const struct uwait *w)
{
	struct claimed l = { NULL };
	int rc = 0;

	if (__atomic_load_n(&e->e_queued, __ATOMIC_RELAXED) > 0 &&
	    __atomic_load_n(&e->e_coming, __ATOMIC_RELAXED) == 0) {
		engine_lock();
		rc = engine_send_for(&l);
		engine_complete(&l);
	}
	if (rc != 0)
		return rc;
	USCHED_RACE(engine_begins_wait);
	__atomic_store_n(&r->r_since, unow(), __ATOMIC_RELAXED);
	__atomic_store_n(&r->r_kind, uwait_kind(w), __ATOMIC_RELAXED);
	__atomic_add_fetch(&e->e_waiting, 1, __ATOMIC_RELAXED);
	engine_gone(r);
	return 0;
}

static void ends_wait(struct runner *r)
{
	if (__atomic_load_n(&r->r_kind, __ATOMIC_RELAXED) == NULL)
		return;
	__atomic_store_n(&r->r_kind, NULL, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&e->e_waiting, 1, __ATOMIC_RELAXED);
	note_here(r);
}

static int enter(struct uself *s, struct uwait *w)
{
	struct runner *r = s->e_shell.h_arg;
	int rc = r->r_base->eo_enter(s, w);

	if (rc != 0 || r->r_task == NULL)
		return rc;
	rc = begins_wait(r, w);
	if (rc != 0)
		r->r_base->eo_leave(s, w);
	return rc;
}

static void leave(struct uself *s, struct uwait *w)
{
	struct runner *r = s->e_shell.h_arg;

	r->r_base->eo_leave(s, w);
	ends_wait(r);
}

static const struct uself_ops hooks = {
	.eo_enter = enter, .eo_leave = leave
};

/* Begins the scope of r, the caller, if it has none and there is memory. */
static void scope_begin(struct runner *r)
{
	struct uself *s;

	if (r->r_scope != NULL || uscope_begin(&r->r_scope, UNEVER) != 0)
		return;
	s = (struct uself *)ustack_self()->u_arg;
	r->r_base = s->e_ops;
	s->e_ops  = &hooks;
}

static void scope_end(struct runner *r)
{
	while (r->r_scope != NULL && uscope_end(&r->r_scope) == -ENOMEM &&
	       r->r_scope != NULL)
		(void)ws_yield();
}

/* The task of a runner. */

void engine_begin(struct task *t, struct runner *r)
{
	t->t_stage  = ENGINE_RUNS;
	t->t_runner = r;
	r->r_task   = t;
}

/* Counts the end of the task of r, of a worker or a helper. */
static void count(struct runner *r, int result, utime_ns now, struct claimed *l)
{
	struct native *k = engine_native_of(r);
	struct task *t = r->r_task;

	e->e_completed++;
	e->e_failed += result < 0;
	r->r_task = NULL;
	engine_finish(t, result, now, l);
	r->r_begun = e->e_last = now;		/* of the next, nearly */
	if (k == NULL)
		return;
	k->nt_completed++;
	k->nt_last = now;
}

/* Runs the task of r. Caller does not hold the lock. */
static int call(struct runner *r)
{
	struct task *t = r->r_task;
	bool copied = t->t_more && t->t_copy != NULL;
	int result = t->t_f(copied ? t->t_copy : t->t_arg);

	engine_finish_outside(t, result);
	return result;
}

/* Returns whether the end of the task of r is timed: TIME. */
static bool exactly(struct runner *r, utime_ns near)
{
	bool tick = r->r_near != near;

	r->r_near = near;
	return r->r_left-- <= 0 || tick || r->r_task->t_weight != 0 ||
		__atomic_load_n(&e->e_queued, __ATOMIC_RELAXED) == 0;
}

/* Returns the time of the end of the task of r. Without the lock. */
static utime_ns end_time(struct runner *r)
{
	utime_ns now = engine_near();

	if (!exactly(r, now))
		return now;
	now = unow();
	if (now - r->r_exact > SHORT)
		r->r_skip = 0;
	else if (r->r_left < 0 && r->r_skip < ENGINE_EXACT - 1)
		r->r_skip = 2 * r->r_skip + 1;
	r->r_left  = r->r_skip;
	r->r_exact = now;
	return now;
}

void engine_run(struct runner *r, struct claimed *l)
{
	utime_ns now;
	int result;

	engine_complete(l);
	result = call(r);
	now = end_time(r);		/* no clock is read under the lock */
	engine_lock();
	count(r, result, now, l);
}

/* Runners: see "The next runner". */

/* Lets other threads of the worker run. Caller does not hold the lock. */
static void yield_worker(struct runner *r)
{
	int *yields = &e->e_native[ws_proc()].nt_yields;

	__atomic_add_fetch(yields, 1, __ATOMIC_RELAXED);
	(void)ws_yield();
	__atomic_sub_fetch(yields, 1, __ATOMIC_RELAXED);
	r->r_slice = unow();
}

/* Goes back while a runner of the worker only lets others run. */
static void keep_off(struct runner *r)
{
	while (__atomic_load_n(&e->e_native[ws_proc()].nt_yields,
			       __ATOMIC_RELAXED) > 0 && ws_yield() == 0)
		;
	r->r_slice = r->r_begun = unow();
}

/*
 * Returns whether another runner takes the place of the caller. Caller holds the
 * lock.
 */
static bool surplus(void)
{
	return e->e_coming > 0 && e->e_busy - waiting() >= e->e_c_workers;
}

/* Returns whether there are too many runners: engine EN6. Caller holds the lock. */
static bool too_many(void)
{
	return e->e_runners - e->e_aside > e->e_limit;
}

/* Returns whether there is a task to begin. Caller holds the lock. */
static bool is_work(void)
{
	return e->e_queued > 0 && !(e->e_paused & ENGINE_START);
}

/* Parks r. False: r must end. Caller holds the lock; released meanwhile. */
static bool park(struct runner *r, struct claimed *l)
{
	struct waiter *a;
	int rc, stop;
	bool wanted;

	engine_gone(r);
	engine_complete(l);
	a = engine_waiter(UNEVER, &rc);
	USCHED_RACE(engine_park);
	engine_lock();
	wanted = is_work() && !surplus();
	if (a == NULL || wanted || e->e_state >= STOPPING ||
	    e->e_parked >= e->e_c_workers) {
		if (a != NULL)
			uwait_free(a);
		return wanted;
	}
	a->a_runner = r;
	e->e_parked++;
	stop = engine_wait_in(&e->e_idlers, a, UNEVER, l, &rc);
	if (rc == 0)
		keep_off(r);
	engine_lock();
	e->e_parked--;
	if (rc == 0 && !stop)
		engine_add(&e->e_coming, -1);
	return e->e_state < STOPPING && (rc == 0 || is_work());
}

/*
 * Notes how long there was nothing to do before t. spun: the caller found it by
 * a spin. Caller holds the lock.
 */
static void note_gap(const struct task *t, bool spun)
{
	utime_ns gap = t->t_time - e->e_last;

	if (gap > 4 * SPIN || (gap <= 0 && spun))
		gap = 4 * SPIN;
	if (gap > 0)
		e->e_gap += (gap - e->e_gap) / 4;
}

/*
 * Returns whether a runner should spin: see "Spin". Caller holds the lock, and
 * the queue is empty, or paused.
 */
static bool may_spin(void)
{
	int cpu = engine_cpu();

	return !is_work() && e->e_coming == 0 && waiting() == 0 &&
		e->e_busy + 2 <= e->e_cpus && e->e_gap < SPIN &&
		(cpu < 0 || cpu != e->e_from) &&
		e->e_state == OPEN && !utime_is_virtual();
}

/* Waits until a task is queued. True: the lock is taken. */
static bool spin_until(utime_ns until)
{
	do {
		if (__atomic_load_n(&e->e_queued, __ATOMIC_RELAXED) > 0 &&
		    ulock_try(&e->e_lock))
			return true;
		ulock_relax();
	} while (unow() < until);
	return false;
}

/*
 * Waits a little for a task. Returns whether a runner should look into the
 * queue. Caller holds the lock; released meanwhile.
 */
static bool spin(struct runner *r, struct claimed *l)
{
	if (!may_spin())
		return false;
	engine_gone(r);
	engine_add(&e->e_coming, 1);
	engine_complete(l);
	if (!spin_until(uafter(SPIN)))
		engine_lock();
	engine_add(&e->e_coming, -1);
	return is_work();
}

/* Gives room to callers, if enough is free. Caller holds the lock. */
static void let_in(struct claimed *l)
{
	if (e->e_room != NULL && e->e_tasks - e->e_queued >= e->e_spare)
		engine_let_in(l);
}

/* Returns the next task of r, begun, or NULL. Caller holds the lock. */
static struct task *next(struct runner *r, struct claimed *l)
{
	struct task *t;
	bool spun = false;

	do {
		if (too_many())
			return NULL;
		let_in(l);				/* bytes of an end */
		t = surplus() ? NULL : engine_dequeue(false);
	} while (t == NULL && ((spun = spin(r, l)) || park(r, l)));
	if (t == NULL)
		return NULL;
	note_gap(t, spun);
	engine_begin(t, r);
	e->e_busy++;
	note_here(r);
	let_in(l);
	(void)engine_send_for(l);			/* engine EN1 */
	return t;
}

/* Makes r ready for another task. Caller holds the lock; released meanwhile. */
static void between(struct runner *r, struct claimed *l)
{
	bool stopped = r->r_stopped;
	bool yields = r->r_begun - r->r_slice > (is_work() ? SLICE : SERIES);

	if (!stopped && !yields && r->r_scope != NULL && !u_canceled())
		return;
	engine_gone(r);
	engine_complete(l);
	if (stopped || u_canceled())
		scope_end(r);
	scope_begin(r);
	if (yields)
		yield_worker(r);
	engine_lock();
	r->r_stopped = false;
}

void engine_runner(void *arg)
{
	struct runner *r = arg;
	struct claimed l = { NULL };

	USCHED_RACE(engine_run);
	r->r_stack = ustack_self();
	keep_off(r);
	scope_begin(r);
	engine_lock();
	engine_add(&e->e_coming, -1);
	while (next(r, &l) != NULL) {
		engine_run(r, &l);
		e->e_busy--;
		between(r, &l);
	}
	engine_gone(r);
	engine_runner_out(r);
	e->e_runners--;
	engine_give_room(&l);
	(void)engine_send_for(&l);			/* engine EN1 */
	engine_complete(&l);
	scope_end(r);
	free(r);
}

void engine_stop(struct runner *r)
{
	struct uscope *s = r->r_scope;

	__atomic_store_n(&r->r_stopped, true, __ATOMIC_RELAXED);
	if (s == NULL)
		return;
	uscope_hold(s);
	ws_hold();			/* while a canceller wakes its threads */
	engine_unlock();
	USCHED_RACE(engine_cancel);
	uscope_cancel(s);
	USCHED_RACE(engine_canceled);
	uscope_release(s);
	ws_release();
	engine_lock();
}
