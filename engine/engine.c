/* SPDX-License-Identifier: MIT */
/* engine.c: runs C functions on workers, by priority, within limits. */

/*
 * OVERVIEW
 *
 *	engine_spawn()        the queue, by level             ws
 *	                 7  [t]->[t]->[t]            +---------------------+
 *	 limits of       6                           | runner: takes, runs,|
 *	 tasks and  -->  :                   ----->  | tells; again        |
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
 * INVARIANTS
 *
 * E1. If tasks are queued and starts are not paused, then e_coming > 0, unless
 *     e_limit runners live (E6) and none of them is parked. There is an
 *     exception: a live runner has found no memory for another. It tries again
 *     as its task ends, or waits, if the runner has a scope. A wait that would
 *     break this returns -ENOMEM.
 * E2. e_alive is the number of tasks that were queued and have not ended, and
 *     e_bytes is the sum of their t_bytes.
 * E3. A slot with waiters is in use. Whoever ends the task takes all of them
 *     out, under the same lock.
 * E4. A runner is in the ring of all from its making to its end, and r_task
 *     changes only under the lock.
 * E5. No call-back of the program is called under the lock.
 * E6. e_limit runners live at most, beside those whose tasks wait for a task or
 *     for room: then another runner may take what they wait for. A runner that
 *     is too many when they go on ends after its task.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"
#include "uproc_set.h"
#include "ws.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define e engine_all		/* in this file */
#define PER_THREAD	100
#define TASKS		1000000L

struct engine engine_all;

/* Entering. */

void engine_relock(void)
{
	if (!ulock_try(&e.e_lock)) {
		ulock_get(&e.e_lock);
		e.e_contended++;
	}
}

int engine_enter(void)
{
	if (__atomic_load_n(&e.e_forked, __ATOMIC_RELAXED))
		return -ECHILD;
	engine_relock();
	if (e.e_state > MAKING)
		return 0;
	engine_leave();
	return -ENODEV;
}

static void in_child(void)
{
	__atomic_store_n(&e.e_forked, 1, __ATOMIC_RELAXED);
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
	e.e_paused |= what;
	engine_leave();
	return 0;
}

int engine_resume(int what)
{
	struct tell l = { NULL };
	int was, rc = enter_pause(what);

	if (rc != 0)
		return rc;
	was = e.e_paused;
	e.e_paused &= ~what;
	rc = engine_send_for(&l);
	if (rc != 0)
		e.e_paused = was;
	else
		(void)engine_claim_first(&e.e_room, 0, &l);
	engine_tell(&l);
	return rc;
}

/* Waits until enough(). Caller holds no lock. */
static int drain(bool (*enough)(void), utime_ns until)
{
	struct waiter *a;
	int rc, error;

	for (;;) {
		a  = engine_waiter(false, until, &error);
		rc = engine_enter();
		if (rc == 0 && a != NULL && !enough()) {
			(void)engine_wait_in(&e.e_drain, a, false, until, &rc);
			if (rc != 0)
				return rc;
			continue;
		}
		if (rc == 0) {
			rc = enough() ? 0 : error;
			engine_leave();
		}
		if (a != NULL)
			uwait_free(a);
		return rc;
	}
}

static bool all_ended(void)
{
	return e.e_alive == 0;
}

static bool all_over(void)
{
	return e.e_state == ENDED;
}

int engine_wait_all(utime_ns until)
{
	return engine_here() != NULL ? -EDEADLK : drain(all_ended, until);
}

/* Refuses, cancels, asks to stop. Caller holds the lock, put meanwhile. */
static void stop_all(struct tell *l)
{
	struct runner *r;

	e.e_state = CLOSING;
	engine_claim_all(&e.e_room, 0, l);
	engine_claim_all(&e.e_helpers, 0, l);
	engine_cancel_queue(l);
	r = e.e_ring.r_next;
	while (r != &e.e_ring) {
		if (r->r_task == NULL || r->r_stopped)
			r = r->r_next;
		else {
			engine_stop(r);
			r = e.e_ring.r_next;
		}
	}
}

/*
 * Ends the runners and ws, once. ws holds itself until all have been told and
 * cancelled (waiter.c, engine_stop()). Caller holds no lock.
 */
static int stop_workers(void)
{
	struct tell l = { NULL };
	bool first;

	engine_relock();
	first = e.e_state == CLOSING;
	if (first)
		e.e_state = STOPPING;
	engine_claim_all(&e.e_idlers, 1, &l);
	engine_tell(&l);
	if (!first)
		return drain(all_over, UNEVER);
	if (e.e_workers > 0) {
		ws_release();
		(void)ws_fini();	/* threads that tasks have left */
	}
	engine_relock();
	e.e_state = ENDED;
	engine_claim_all(&e.e_drain, 0, &l);
	engine_tell(&l);
	return 0;
}

int engine_shutdown(utime_ns until)
{
	struct tell l = { NULL };
	int rc;

	if (until < 0)
		return -EINVAL;
	if (engine_here() != NULL || ustack_self() != NULL)
		return -EDEADLK;
	rc = engine_enter();
	if (rc != 0)
		return rc;
	if (e.e_state == OPEN || e.e_state == CLOSING)
		stop_all(&l);
	rc = e.e_state == ENDED;
	engine_tell(&l);
	if (rc != 0)
		return 0;
	rc = drain(all_ended, until);
	return rc != 0 ? rc : stop_workers();
}

static void batches_end(void)
{
	int i;

	for (i = 0; i < ENGINE_BATCHES; i++)
		if (e.e_batch[i].b_turn % 2 == 1)
			engine_batch_close(&e.e_batch[i]);
}

int engine_fini(void)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = e.e_state != ENDED ? -EBUSY : 0;
	engine_leave();
	if (rc == 0)
		rc = engine_bus_end();
	if (rc != 0)
		return rc;
	engine_relock();
	if (e.e_state == ENDED) {
		batches_end();
		engine_slots_end();
		e.e_state = NONE;
	}
	engine_leave();
	return 0;
}

/* Setup. */

/* Fills in what is 0. 0, -EINVAL, -ENOMEM. */
static int complete(struct engine_config *c)
{
	int cpus = uproc_cpus();

	if (cpus < 0)
		return cpus;
	if (c->c_workers == 0)
		c->c_workers = cpus > c->c_gil_threads ? cpus :
			c->c_gil_threads;
	if (c->c_workers > cpus && !(c->c_flags & ENGINE_MORE_WORKERS))
		c->c_workers = c->c_gil_threads > cpus ? c->c_gil_threads :
			cpus;
	if (c->c_tasks_per_thread == 0)
		c->c_tasks_per_thread = PER_THREAD;
	if (c->c_tasks == 0)
		c->c_tasks = TASKS;
	return c->c_workers < 1 || c->c_workers > ENGINE_WORKERS ||
		c->c_gil_threads < 0 || c->c_gil_threads > c->c_workers ||
		c->c_tasks_per_thread < 1 || c->c_tasks < 1 ||
		c->c_tasks_per_thread > ENGINE_TASKS / ENGINE_WORKERS ||
		c->c_tasks > ENGINE_TASKS ||
		(c->c_policy != ENGINE_LIFO && c->c_policy != ENGINE_FIFO) ||
		c->c_flags & ~(unsigned)ENGINE_MORE_WORKERS ? -EINVAL : 0;
}

/* Starts ws, held. 0 or an error. */
static int workers_start(const struct engine_config *c)
{
	int nr = c->c_workers - c->c_gil_threads;
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
	memset(e.e_level, 0, sizeof e.e_level);
	memset(e.e_worker, 0, sizeof e.e_worker);
	e.e_workers = c->c_workers - c->c_gil_threads;
	e.e_hosts   = c->c_gil_threads;
	e.e_cpus    = uproc_cpus();
	e.e_limit   = e.e_workers * c->c_tasks_per_thread;
	e.e_tasks   = c->c_tasks;
	e.e_spare   = utime_is_virtual() || c->c_tasks < 8 ? 1 : c->c_tasks / 8;
	e.e_amount  = c->c_shared_amount;
	e.e_policy  = c->c_policy;
	e.e_paused  = e.e_runners = e.e_parked = e.e_coming = 0;
	e.e_busy    = e.e_waiting = e.e_helping = e.e_aside = 0;
	e.e_mask    = e.e_turn[0] = e.e_turn[1] = 0;
	e.e_queued  = e.e_alive = 0;
	e.e_bytes   = 0;
	e.e_idlers  = e.e_helpers = e.e_room = e.e_drain = NULL;
	e.e_submitted = e.e_completed = e.e_failed = e.e_canceled = 0;
	e.e_helped  = e.e_contended = 0;
	e.e_latency = 0;
	e.e_last    = e.e_gap = 0;
	e.e_from    = -1;
	e.e_ring.r_next = e.e_ring.r_prev = &e.e_ring;
	e.e_began   = unow();
	engine_bus_begin(c->c_shared_memory);
}

/* Forgets, in a child of fork(), the engine of the parent. */
static void forget_parent(void)
{
	memset(&e.e_lock, 0, sizeof e.e_lock);
	memset(e.e_batch, 0, sizeof e.e_batch);
	engine_host_forked();
	engine_bus_forked();
	e.e_slots = 0;
	e.e_free  = NULL;
	e.e_turns += 1u << 30;			/* no number of the parent */
	e.e_state = NONE;
	__atomic_store_n(&e.e_forked, 0, __ATOMIC_RELAXED);
}

/* Claims the engine. 0, -EBUSY, -EAGAIN: forks cannot be watched. */
static int claim_engine(void)
{
	int rc;

	if (__atomic_load_n(&e.e_forked, __ATOMIC_RELAXED))
		forget_parent();
	ulock_get(&e.e_lock);
	rc = e.e_state != NONE ? -EBUSY : 0;
	if (rc == 0 && !e.e_watched)
		rc = -pthread_atfork(NULL, NULL, in_child);
	if (rc == 0) {
		e.e_watched = true;
		e.e_state = MAKING;
	}
	engine_leave();
	return rc;
}

int engine_setup(const struct engine_config *config)
{
	struct engine_config c;
	int rc;

	if (config == NULL || ustack_self() != NULL)
		return -EINVAL;
	c = *config;
	rc = complete(&c);
	if (rc == 0)
		rc = claim_engine();
	if (rc != 0)
		return rc;
	rc = workers_start(&c);
	ulock_get(&e.e_lock);
	if (rc == 0)
		clear(&c);
	e.e_state = rc == 0 ? OPEN : NONE;
	engine_leave();
	return rc;
}

const char *engine_error(int error)
{
	switch (error < 0 ? -error : error) {
	case 0:		return "no error";
	case EINVAL:	return "an argument is out of range, or no such number";
	case ENODEV:	return "there is no engine: call engine_setup() first";
	case ECHILD:	return "the process has forked since engine_setup()";
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
	case ENOSPC:	return "the limit of named memory is reached";
	case ENOSYS:	return "the caller cannot wait, or this build cannot do it";
	default:	return "an error of the task";
	}
}
