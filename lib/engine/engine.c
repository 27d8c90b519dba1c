/* SPDX-License-Identifier: MIT */
/* engine.c: runs C functions on workers, by priority, within limits. */

/*
 * OVERVIEW
 *
 *	engine_spawn()        the queue, by level             ws
 *	                 7  [t]->[t]->[t]            +---------------------+
 *	 limits of       6                           | runner: takes, runs,|
 *	 tasks and  -->  :                   ----->  | ends; again         |
 *	 of bytes        1  [t]                      +---------------------+
 *	                 0  [t]->[t]                 | runner that parks   |
 *	                                             +---------------------+
 *	                                     ----->  engine_help()
 *
 * A task waits in the queue until a runner takes it, so until then it can be
 * cancelled, and moved to another level. A runner is a thread of ws. It runs
 * one task after another on its own stack, so an empty task costs no thread. If
 * the task waits, the runner waits with it, and another runner goes on with the
 * queue. Runners are made when they are missing, up to a limit. A runner that
 * finds the queue empty parks, or ends if there is a parked runner for each
 * worker.
 *
 * A single lock protects the queue, the tasks and all counts. It is held for
 * some ten nanoseconds, and a runner takes it once for the end of a task and
 * the start of the next. It is held longer for the descriptor of a batch, and
 * for the walk of a stack.
 *
 * TIME
 *
 * To read the exact clock takes 17 ns on a Xeon (model 167), for submission and
 * end a third of an empty task. The near clock (CLOCK_MONOTONIC_COARSE) takes 4
 * ns, but stands still for some milliseconds between two ticks. It tells
 * whether a tick has passed.
 *
 * The tasks of a call are a series. Calls for a single task make a series
 * together, until a tick passes, or the queue is empty. In a series, tasks 1, 2,
 * 4, 8 and 16 are timed exactly, and then each ENGINE_EXACT-th. A timed task
 * stands for all since the timed task before (t_weight): the mean latency counts
 * it so often. Tasks after the last timed task of a series do not count.
 *
 * A runner reads the exact clock at the end of a timed task, if the queue is
 * empty, after a tick, and after r_skip other ends. It doubles r_skip while so
 * many tasks take little of a SLICE. So after a series of short tasks, a long
 * task delays other threads of its worker by a tick more.
 *
 * Gaps between tasks (runner.c, "Spin") are exact, because a submission into an
 * empty queue and an end that leaves it empty are. Other times are up to a tick
 * too early: those of the last end on a worker, and since when a task is in its
 * stage. People read them. Virtual time is always exact.
 *
 * REJECTED. The time-stamp counter of the processor takes 8 ns, so it would be
 * read as rarely, and on some machines it stops, or differs between sockets. A
 * mean by the near clock alone is true for millions of tasks, but a hundred
 * tasks between two ticks would take no time.
 *
 * INVARIANTS
 *
 * EN1. If tasks are queued and starts are not paused, then e_coming > 0,
 *	unless e_limit runners live (EN6) and none of them is parked. There is an
 *	exception: a live runner has found no memory for another. It tries again
 *	as its task ends, or waits, if the runner has a scope. A wait that would
 *	break this returns -ENOMEM.
 * EN2. e_alive is the number of tasks that were queued and have not ended, and
 *	e_bytes is the sum of their bytes (engine_bytes()).
 * EN3. A slot with waiters is in use. The end of its task takes all of them
 *	out, under the same lock.
 * EN4. A runner is in the ring of all from its making to its end, and r_task
 *	changes only under the lock.
 * EN5. No call-back of the program is called under the lock.
 * EN6. e_limit runners live at most, beside those whose tasks wait for a task
 *	or for room: another runner may take what they wait for. If they go on
 *	and make too many runners, a runner ends after its task.
 */

#include "inside.h"
#include "ufork.h"
#include "uproc_set.h"
#include "ws.h"

#include <stdlib.h>

#define PER_THREAD	100
#define TASKS		1000000L

/* Tasks. */

/*
 * Returns 1, and sets *result, if the task has ended; 0: not yet; or an error.
 * Caller holds the lock.
 */
static int look(engine_id id, int *result)
{
	const struct runner *r = engine_here();
	const struct task *t = engine_find(id);

	if (t == NULL)
		return -ESRCH;
	if (t->t_stage == ENGINE_ENDED) {
		*result = t->t_result;
		return 1;
	}
	return r != NULL && r->r_task == t ? -EDEADLK : 0;
}

int engine_wait(engine_id id, int *result, utime_ns until)
{
	struct claimed l = { NULL };
	struct waiter *a;
	int none, ended, rc = engine_enter();

	if (result == NULL)
		result = &none;
	if (rc != 0)
		return rc;
	rc = look(id, result);
	engine_unlock();
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	USCHED_RACE(engine_join);
	a = engine_waiter(until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && (rc = look(id, result)) == 0) {
		engine_aside_begin(a, &l);
		ended = engine_wait_in(&engine_find(id)->t_waiters, a, until,
				       &l, &rc);
		if (rc == 0)
			*result = ended;
		return rc;
	}
	if (rc != -ECHILD && rc != -ENODEV)
		engine_unlock();
	uwait_free(a);
	return rc > 0 ? 0 : rc;
}

int engine_cancel(engine_id id)
{
	struct claimed l = { NULL };
	struct task *t;
	int rc = engine_enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (engine_is_ending(t) || t->t_stage == ENGINE_ENDED)
		rc = -EALREADY;
	else if (t->t_stage == ENGINE_QUEUED) {
		engine_cancel_queued(t, &l);
		engine_give_room(&l);
	} else {
		rc = 1;
		if (!t->t_runner->r_stopped)
			engine_stop(t->t_runner);
	}
	engine_complete(&l);
	return rc;
}

/* Lifecycle. */

/* Takes the lock, if `what` can be paused. */
static int enter_pause(int what)
{
	return what < 1 || what > (ENGINE_INTAKE | ENGINE_START) ? -EINVAL :
		engine_enter();
}

int engine_pause(int what)
{
	int rc = enter_pause(what);

	if (rc != 0)
		return rc;
	e->e_paused |= what;
	engine_unlock();
	return 0;
}

int engine_resume(int what)
{
	struct claimed l = { NULL };
	int was, rc = enter_pause(what);

	if (rc != 0)
		return rc;
	was = e->e_paused;
	e->e_paused &= ~what;
	rc = engine_send_for(&l);
	if (rc != 0)
		e->e_paused = was;
	else
		engine_give_room(&l);
	engine_complete(&l);
	return rc;
}

/* Waits until enough(). Caller does not hold the lock. */
static int drain(bool (*enough)(void), utime_ns until)
{
	struct claimed l = { NULL };
	struct waiter *a;
	int rc, error;

	for (;;) {
		a  = engine_waiter(until, &error);
		rc = engine_enter();
		if (rc == 0 && a != NULL && !enough()) {
			(void)engine_wait_in(&e->e_drain, a, until, &l, &rc);
			if (rc != 0)
				return rc;
			continue;
		}
		if (rc == 0) {
			rc = enough() ? 0 : error;
			engine_unlock();
		}
		if (a != NULL)
			uwait_free(a);
		return rc;
	}
}

static bool all_ended(void)
{
	return e->e_alive == 0;
}

static bool all_over(void)
{
	return e->e_state == ENDED;
}

int engine_wait_all(utime_ns until)
{
	return engine_here() != NULL ? -EDEADLK : drain(all_ended, until);
}

/* Refuses, cancels, asks to stop. Caller holds the lock; released meanwhile. */
static void stop_all(struct claimed *l)
{
	struct runner *r;

	e->e_state = CLOSING;
	while (e->e_room != NULL)
		engine_refuse(e->e_room, -ESHUTDOWN, l);
	engine_claim_all(&e->e_helpers, 0, l);
	engine_cancel_queue(l);
	r = e->e_ring.r_next;
	while (r != &e->e_ring) {
		if (r->r_task == NULL || r->r_stopped)
			r = r->r_next;
		else {
			engine_stop(r);
			r = e->e_ring.r_next;
		}
	}
}

/*
 * Ends the runners and ws. The first caller works, and others wait for it until
 * their deadline. ws is held until all waits were completed and all tasks
 * cancelled (waiter.c, engine_stop()). Caller does not hold the lock.
 */
static int stop_workers(utime_ns until)
{
	struct claimed l = { NULL };
	bool first;

	engine_lock();
	first = e->e_state == CLOSING;
	if (first)
		e->e_state = STOPPING;
	engine_claim_all(&e->e_idlers, 1, &l);
	engine_complete(&l);
	if (!first)
		return drain(all_over, until);
	if (e->e_c_workers > 0) {
		ws_release();
		(void)ws_fini();	/* threads that tasks have left */
	}
	engine_lock();
	e->e_state = ENDED;
	engine_claim_all(&e->e_drain, 0, &l);
	engine_complete(&l);
	return 0;
}

int engine_shutdown(utime_ns until)
{
	struct claimed l = { NULL };
	int rc;

	if (until < 0)
		return -EINVAL;
	if (engine_here() != NULL || ustack_self() != NULL)
		return -EDEADLK;
	rc = engine_enter();
	if (rc != 0)
		return rc;
	if (e->e_state == OPEN || e->e_state == CLOSING)
		stop_all(&l);
	rc = e->e_state == ENDED;
	engine_complete(&l);
	if (rc != 0)
		return 0;
	rc = drain(all_ended, until);
	if (rc == 0)
		rc = stop_workers(until);
	return rc == -ENODEV ? 0 : rc;	/* another caller ended and freed it */
}

int engine_fini(void)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = e->e_state != ENDED ? -EBUSY : 0;
	engine_unlock();
	if (rc == 0)
		rc = engine_bus_end();
	if (rc != 0)
		return rc;
	engine_lock();
	if (e->e_state == ENDED) {
		engine_batches_end();
		engine_slots_end();
		e->e_state = NONE;
	}
	engine_unlock();
	return 0;
}

/* Setup. */

/* Fills in what is 0. 0, -EINVAL, -ENOMEM. */
static int defaults(struct engine_config *c)
{
	int cpus = uproc_cpus();

	if (cpus < 0)
		return cpus;
	if (c->c_workers == 0)
		c->c_workers = cpus > c->c_host_workers ? cpus :
			c->c_host_workers;
	if (c->c_workers > cpus && !(c->c_flags & ENGINE_MORE_WORKERS))
		c->c_workers = c->c_host_workers > cpus ? c->c_host_workers :
			cpus;
	if (c->c_tasks_per_thread == 0)
		c->c_tasks_per_thread = PER_THREAD;
	if (c->c_tasks == 0)
		c->c_tasks = TASKS;
	return c->c_workers < 1 || c->c_workers > ENGINE_WORKERS ||
		c->c_host_workers < 0 || c->c_host_workers > c->c_workers ||
		c->c_tasks_per_thread < 1 || c->c_tasks < 1 ||
		c->c_tasks_per_thread > ENGINE_TASKS / ENGINE_WORKERS ||
		c->c_tasks > ENGINE_TASKS ||
		(c->c_policy != ENGINE_LIFO && c->c_policy != ENGINE_FIFO) ||
		c->c_flags & ~(unsigned)ENGINE_MORE_WORKERS ? -EINVAL : 0;
}

/* Starts ws, held. 0 or an error. */
static int workers_start(const struct engine_config *c)
{
	int nr = c->c_workers - c->c_host_workers;
	int rc = nr > 0 ? ws_init(nr, 0) : 0;

	if (rc != 0 || nr == 0)
		return rc;
	rc = c->c_stack != 0 ? ws_stack_size(c->c_stack) : 0;
	if (rc == 0)
		rc = ws_pinning(0);		/* the program needs a cpu, too */
	ws_hold();
	if (rc == 0)
		rc = ws_start();
	if (rc == 0)
		return 0;
	ws_release();
	(void)ws_fini();
	return rc;
}

/* Sets all that begins at 0. Caller holds the lock. */
static void clear(const struct engine_config *c)
{
	memset(e->e_level, 0, sizeof e->e_level);
	memset(e->e_native, 0, sizeof e->e_native);
	e->e_c_workers = c->c_workers - c->c_host_workers;
	e->e_host_workers   = c->c_host_workers;
	e->e_cpus    = uproc_cpus();
	e->e_limit   = e->e_c_workers * c->c_tasks_per_thread;
	e->e_tasks   = c->c_tasks;
	e->e_spare   = utime_is_virtual() || c->c_tasks < 8 ||
		c->c_shared_amount != 0 ? 1 : c->c_tasks / 8;
	e->e_amount  = c->c_shared_amount;
	e->e_policy  = c->c_policy;
	e->e_paused  = e->e_runners = e->e_parked = e->e_coming = 0;
	e->e_busy    = e->e_waiting = e->e_helping = e->e_aside = 0;
	e->e_mask    = e->e_picks[0] = e->e_picks[1] = 0;
	e->e_queued  = e->e_alive = 0;
	e->e_bytes   = 0;
	e->e_idlers  = e->e_helpers = e->e_room = e->e_drain = NULL;
	e->e_submitted = e->e_completed = e->e_failed = e->e_canceled = 0;
	e->e_helped  = e->e_contended = 0;
	e->e_latency = 0;
	e->e_timed   = 0;
	__atomic_store_n(&e->e_series, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&e->e_tick, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&e->e_virtual, utime_is_virtual(), __ATOMIC_RELAXED);
	e->e_last    = e->e_gap = 0;
	e->e_from    = -1;
	e->e_ring.r_next = e->e_ring.r_prev = &e->e_ring;
	__atomic_store_n(&e->e_run, engine_runner, __ATOMIC_RELAXED);
	e->e_began   = unow();
	engine_bus_begin(c->c_shared_memory);
}

/* Forgets, in a child of fork(), the engine of the parent. */
static void forget_parent(void)
{
	memset(e->e_batch, 0, sizeof e->e_batch);
	engine_helper_set(NULL);
	engine_bus_forked();
	e->e_slots = 0;
	e->e_free  = NULL;
	e->e_generation += 1u << 30;			/* no number of the parent */
	e->e_state = NONE;
	__atomic_store_n(&e->e_forked, 0, __ATOMIC_RELAXED);
}

/* Claims the engine. 0, -EBUSY, -ENOMEM: forks cannot be watched. */
static int claim_engine(void)
{
	int rc = ufork_watch();

	if (rc != 0)
		return rc;
	if (__atomic_load_n(&e->e_forked, __ATOMIC_RELAXED))
		forget_parent();
	engine_lock();
	rc = e->e_state != NONE ? -EBUSY : 0;
	if (rc == 0)
		e->e_state = MAKING;
	engine_unlock();
	return rc;
}

int engine_init(const struct engine_config *config)
{
	struct engine_config c;
	int rc;

	if (config == NULL || ustack_self() != NULL)
		return -EINVAL;
	c = *config;
	rc = defaults(&c);
	if (rc == 0)
		rc = claim_engine();
	if (rc != 0)
		return rc;
	rc = workers_start(&c);
	engine_lock();
	if (rc == 0)
		clear(&c);
	e->e_state = rc == 0 ? OPEN : NONE;
	engine_unlock();
	return rc;
}

const char *engine_error(int error)
{
	switch (error < 0 ? -error : error) {
	case 0:		return "no error";
	case EINVAL:	return "an argument is out of range, or no such number";
	case ENODEV:	return "there is no engine: call engine_init() first";
	case ECHILD:	return "the process has forked since engine_init()";
	case ENOMEM:	return "there is no memory";
	case EBUSY:	return "it is in use: an engine, ws, a batch, or pins";
	case EAGAIN:	return "it would have to wait: full, paused, or none is left";
	case ETIMEDOUT:	return "the deadline has passed";
	case ECANCELED:	return "it was cancelled";
	case ESHUTDOWN:	return "the engine shuts down, and takes no more work";
	case E2BIG:	return "it is larger than the limit of all tasks";
	case ENOTSUP:	return "the task needs a C worker, and there is none";
	case ESRCH:	return "no such task, worker or pin, or it was given back";
	case EDEADLK:	return "the caller would wait for itself";
	case EALREADY:	return "the task has begun or ended";
	case EMFILE:	return "there are too many batches or descriptors";
	case ENFILE:	return "the system has no more descriptors";
	case EEXIST:	return "the name is taken";
	case ENOENT:	return "no memory has this name";
	case EOVERFLOW:	return "there are too many pins";
	case ENOSPC:	return "the limit of named memory is reached";
	case ENOSYS:	return "the caller cannot wait, or this build cannot do it";
	default:	return "an error of the task";
	}
}
