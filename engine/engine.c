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
 * the start of the next.
 *
 * TASKS lie in slots, which are made in chunks, and stay until engine_fini().
 * The number of a task is its slot and the turn of the slot, which is odd while
 * the slot is in use. So an old number is found out.
 *
 * THE NEXT RUNNER
 *
 * While tasks are queued, a runner is on its way: it was woken or made, and has
 * not looked into the queue yet (e_coming). If a worker is idle, it runs there.
 * Otherwise it waits in the queues of ws, and gets a worker as soon as a task
 * waits, for whatever reason: the engine need not know. When it takes a task it
 * sends for the next, so all idle workers are woken in turn.
 *
 * A runner between tasks lets others run that ws has, such as tasks whose wait
 * has ended, each SLICE. A runner on its way that is switched to then goes back
 * (k_yields): it waits for a worker with nothing to do.
 *
 * CHOICE
 *
 * A pick takes from the highest level that is not empty. But each FAIR-th pick
 * takes the oldest task of the level whose turn it is, or else of the next
 * below. In FAIR * ENGINE_LEVELS picks each level has its turn. So the n-th
 * oldest task of a level begins after n * ENGINE_BOUND picks by C workers.
 *
 * STOPPING A TASK
 *
 * A runner begins a scope (uscope.h), and runs its tasks in that. To stop a task
 * is to cancel this scope. Its canceller holds the scope, and cancels it without
 * the lock. After the task the runner sees r_stopped, ends the scope, which
 * waits for the hold, and begins another. So the cancellation cannot reach the
 * next task.
 *
 * The runner puts its own call-backs in front of those of the scope. They tell
 * which worker runs what, and what a task waits for.
 *
 * INVARIANTS
 *
 * E1. If tasks are queued, starts are not paused, and less than e_limit runners
 *     live, then e_coming > 0. There are two exceptions: engine_spawn() has
 *     returned -ENOMEM, or a live runner has found no memory for another. It
 *     tries again as its task waits or ends. A wait that would break this
 *     returns -ENOMEM.
 * E2. e_alive is the number of tasks that were queued and have not ended, and
 *     e_bytes is the sum of their t_bytes.
 * E3. A slot with waiters is in use. Whoever ends the task takes all of them
 *     out, under the same lock.
 * E4. A runner is in the ring of all from its making to its end, and r_task
 *     changes only under the lock.
 * E5. No call-back of the program is called under the lock.
 *
 * REJECTED
 *
 * A thread of ws for each task, and a pump that keeps twice as many of them as
 * there are workers: if those wait, the queue stands still, and if they do not
 * count, no limit holds. A runner on its way only when a wait is known: ucall()
 * and ws_wait() are not seen, and their workers would idle.
 *
 * Lists without a lock: a priority can change while a task is queued, a level
 * needs both ends, and the limit must be exact. bus_contention_count tells how
 * often the lock was taken.
 *
 * A scope for each task: it costs more than all else of an empty task.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h; eventfd() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"
#include "uproc_set.h"
#include "ws.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define NOINLINE	__attribute__((noinline))
#define FAIR		(ENGINE_BOUND / ENGINE_LEVELS)
#define SLICE		(50 * UTIME_US)
#define PER_THREAD	100
#define TASKS		1000000L
#define TOGETHER	32		/* jobs queued under one lock */

struct engine engine_all;
#define e engine_all		/* in this file */

/* What a caller does after it has put the lock. */
struct tell {
	struct waiter *l_first;	/* claimed, by a_next */
};

static __thread struct runner *helping;	/* of a native thread */

static void run(void *arg);

/* Entering. */

int engine_enter(void)
{
	if (__atomic_load_n(&e.e_forked, __ATOMIC_RELAXED))
		return -ECHILD;
	if (!ulock_try(&e.e_lock)) {
		ulock_get(&e.e_lock);
		e.e_contended++;
	}
	if (e.e_state > MAKING)
		return 0;
	engine_leave();
	return -ENODEV;
}

/* Takes the lock again. Caller knows that the engine is there. */
static void relock(void)
{
	if (!ulock_try(&e.e_lock)) {
		ulock_get(&e.e_lock);
		e.e_contended++;
	}
}

/* Changes a count that others read without the lock. Caller holds the lock. */
static void add(int *at, int nr)
{
	__atomic_store_n(at, *at + nr, __ATOMIC_RELAXED);
}

static void count_queued(int nr)
{
	__atomic_store_n(&e.e_queued, e.e_queued + nr, __ATOMIC_RELAXED);
}

static void in_child(void)
{
	__atomic_store_n(&e.e_forked, 1, __ATOMIC_RELAXED);
}

/* Not inline: a thread may go on in another native thread. */
static NOINLINE struct runner *helper(void)
{
	return helping;
}

struct runner *engine_here(void)
{
	const struct ustack *u = ustack_self();

	if (u == NULL)
		return helper();
	if (ustack_f(u->u_f, u->u_arg) != run)
		return NULL;
	return u->u_f == ustack_shell ? ustack_shell_of(u->u_arg)->h_arg :
		u->u_arg;
}

/* Rings of waiters. */

static void ring_add(struct waiter **last, struct waiter *a)
{
	if (*last == NULL)
		a->a_next = a->a_prev = a;
	else {
		a->a_prev = *last;
		a->a_next = (*last)->a_next;
		a->a_prev->a_next = a->a_next->a_prev = a;
	}
	*last = a;
	a->a_in = true;
}

static void ring_out(struct waiter **last, struct waiter *a)
{
	if (*last == a)
		*last = a->a_prev != a ? a->a_prev : NULL;
	a->a_prev->a_next = a->a_next;
	a->a_next->a_prev = a->a_prev;
	a->a_in = false;
}

/* Takes a out, and claims it to be told of result. False: its wait has ended. */
static bool claim(struct waiter **last, struct waiter *a, int result,
		  struct tell *l)
{
	ring_out(last, a);
	if (!uwait_claim(&a->a_wait))
		return false;
	a->a_result = result;
	a->a_next   = l->l_first;
	l->l_first  = a;
	return true;
}

static bool claim_first(struct waiter **last, int result, struct tell *l)
{
	while (*last != NULL)
		if (claim(last, (*last)->a_next, result, l))
			return true;
	return false;
}

static void claim_all(struct waiter **last, int result, struct tell *l)
{
	while (claim_first(last, result, l))
		;
}

/* Tells the claimed. Caller holds no lock. */
static void told(struct tell *l)
{
	struct waiter *a, *next;

	for (a = l->l_first; a != NULL; a = next) {
		next = a->a_next;
		uwait_tell(&a->a_wait, 0);
	}
	l->l_first = NULL;
}

/* Puts the lock, and tells. Caller holds the lock. */
static void leave_and_tell(struct tell *l)
{
	engine_leave();
	told(l);
}

/*
 * Waits in a ring. Caller holds the lock, which is put. Returns the a_result
 * that it was told, or sets *rc to an error of the wait. front: before others.
 */
static int await(struct waiter **last, struct waiter *a, bool front,
		 utime_ns until, int *rc)
{
	int result;

	ring_add(last, a);
	if (front)
		*last = a->a_prev;
	engine_leave();
	*rc = uwait_for(&a->a_wait, until);
	if (*rc != 0) {
		relock();
		if (a->a_in)
			ring_out(last, a);
		engine_leave();
	}
	result = a->a_result;
	uwait_free(a);
	return result;
}

/* Makes what await() needs. NULL: see *rc. Caller holds no lock. */
static struct waiter *waiter(utime_ns until, int *rc)
{
	struct waiter *a;

	*rc = until < 0 ? -EINVAL : until == UNOW ? -EAGAIN : 0;
	if (*rc != 0)
		return NULL;
	a = uwait_new(sizeof *a, UWAIT_OTHER, &e, rc);
	if (a != NULL) {
		a->a_runner = NULL;
		a->a_result = 0;
		a->a_in     = false;
	}
	return a;
}

void engine_leave_to(struct waiter **ring)
{
	struct tell l = { NULL };

	claim_all(ring, 0, &l);
	leave_and_tell(&l);
}

int engine_await(struct waiter **ring, const bool *done, utime_ns until)
{
	struct waiter *a;
	int rc;

	a = waiter(until, &rc);
	if (a == NULL)
		return rc;
	relock();
	if (!*done) {
		(void)await(ring, a, false, until, &rc);
		return rc;
	}
	engine_leave();
	uwait_free(a);
	return 0;
}

/* Slots. */

struct task *engine_find(engine_id id)
{
	unsigned nr = (unsigned)id - 1, turn = (unsigned)(id >> 32);
	struct task *t;

	if (nr >= e.e_slots)
		return NULL;
	t = &e.e_chunk[nr / CHUNK][nr % CHUNK];
	return t->t_turn == turn && turn % 2 == 1 ? t : NULL;
}

/* Adds a chunk of slots. 0, -ENOMEM. Caller holds the lock, put meanwhile. */
static int slots_more(void)
{
	struct task *t;
	unsigned i;

	if (e.e_slots / CHUNK == CHUNKS)
		return -ENOMEM;
	engine_leave();
	t = calloc(CHUNK, sizeof *t);
	relock();
	if (t == NULL)
		return -ENOMEM;
	if (e.e_free != NULL || e.e_slots / CHUNK == CHUNKS ||
	    e.e_state != OPEN) {
		free(t);		/* another caller was faster */
		return 0;
	}
	e.e_chunk[e.e_slots / CHUNK] = t;
	for (i = CHUNK; i-- > 0; ) {
		t[i].t_nr   = e.e_slots + i;
		t[i].t_next = e.e_free;
		e.e_free = &t[i];
	}
	e.e_slots += CHUNK;
	return 0;
}

void engine_slot_free(struct task *t)
{
	t->t_turn++;
	t->t_next = e.e_free;
	e.e_free  = t;
}

/* Levels. */

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

/* Takes a task out of the queue, which makes room. Caller holds the lock. */
static struct task *take(bool host, struct tell *l)
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
		(void)claim_first(&e.e_room, 0, l);
	return t;
}

/* Runners. */

static struct worker *worker_of(const struct runner *r)
{
	int nr = __atomic_load_n(&r->r_thread, __ATOMIC_RELAXED);

	return nr >= 0 ? &e.e_worker[nr] : NULL;
}

static struct runner *current(const struct worker *k)
{
	return __atomic_load_n(&k->k_current, __ATOMIC_RELAXED);
}

/* Notes that r runs on its worker. */
static void is_here(struct runner *r)
{
	struct worker *k = &e.e_worker[ws_proc()];

	__atomic_store_n(&r->r_thread, (int)(k - e.e_worker), __ATOMIC_RELAXED);
	__atomic_store_n(&k->k_current, r, __ATOMIC_RELAXED);
	if (!k->k_known)
		engine_worker_known(k);
}

/* Notes that r runs no longer. */
static void is_gone(struct runner *r)
{
	struct worker *k = worker_of(r);
	struct runner *mine = r;

	if (k != NULL)
		(void)__atomic_compare_exchange_n(&k->k_current, &mine, NULL,
				false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static int waiting(void)
{
	return __atomic_load_n(&e.e_waiting, __ATOMIC_RELAXED);
}

/* Returns an idle C worker, or -1. */
static int idle_worker(void)
{
	int i;

	if (e.e_busy - waiting() >= e.e_workers)
		return -1;
	for (i = 0; i < e.e_workers; i++)
		if (current(&e.e_worker[i]) == NULL)
			return i;
	return -1;
}

static void runner_in(struct runner *r)
{
	r->r_next = &e.e_ring;
	r->r_prev = e.e_ring.r_prev;
	r->r_prev->r_next = r->r_next->r_prev = r;
}

static void runner_out(struct runner *r)
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
		rc = ws_spawn(run, r);
	else
		rc = ws_thread_on(nr, run, r) != NULL ? 0 : -ENOMEM;
	if (rc != 0) {
		free(r);
		return rc;
	}
	runner_in(r);
	e.e_runners++;
	add(&e.e_coming, 1);
	return 0;
}

/* Wakes a parked runner, best at home on worker nr. False: there is none. */
static bool runner_wake(int nr, struct tell *l)
{
	struct waiter *a;

	while ((a = e.e_idlers) != NULL) {
		do {
			if (nr >= 0 && a->a_runner->r_thread == nr)
				break;
			a = a->a_prev;
		} while (a != e.e_idlers);
		if (claim(&e.e_idlers, a, 0, l)) {
			add(&e.e_coming, 1);
			return true;
		}
	}
	return false;
}

/*
 * Sends for a runner if the queue needs one: E1. 0, -ENOMEM. Caller holds the
 * lock.
 */
static int send_for(struct tell *l)
{
	int nr;

	if (e.e_queued == 0 || e.e_paused & ENGINE_START)
		return 0;
	if (e.e_helpers != NULL && e.e_busy - waiting() >= e.e_workers)
		(void)claim_first(&e.e_helpers, 0, l);
	if (e.e_coming > 0 || e.e_workers == 0)
		return 0;
	nr = idle_worker();
	if (runner_wake(nr, l) || e.e_runners >= e.e_limit)
		return 0;
	return runner_make(nr);
}

/* Waits of tasks. */

/* Notes that r waits. -ENOMEM: nothing would run the queue meanwhile. */
static int begins_wait(struct runner *r, const struct uwait *w)
{
	struct tell l = { NULL };
	int rc = 0;

	if (__atomic_load_n(&e.e_queued, __ATOMIC_RELAXED) > 0 &&
	    __atomic_load_n(&e.e_coming, __ATOMIC_RELAXED) == 0) {
		relock();
		rc = send_for(&l);
		leave_and_tell(&l);
	}
	if (rc != 0)
		return rc;
	__atomic_store_n(&r->r_since, unow(), __ATOMIC_RELAXED);
	__atomic_store_n(&r->r_kind, w->w_kind, __ATOMIC_RELAXED);
	__atomic_add_fetch(&e.e_waiting, 1, __ATOMIC_RELAXED);
	is_gone(r);
	return 0;
}

static void ends_wait(struct runner *r)
{
	if (__atomic_load_n(&r->r_kind, __ATOMIC_RELAXED) == 0)
		return;
	__atomic_store_n(&r->r_kind, 0, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&e.e_waiting, 1, __ATOMIC_RELAXED);
	is_here(r);
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

/* Tasks. */

/* Calls what is called at the end of t. Caller holds no lock. */
static void finish_outside(struct task *t, int result)
{
	if (t->t_end != NULL)
		t->t_end(engine_number(t), t->t_arg, result);
	free(t->t_copy);
	engine_bus_drop(t);
}

/* Ends t: tells all that wait for it. Caller holds the lock. */
static void finish(struct task *t, int result, struct tell *l)
{
	utime_ns now = unow();

	e.e_latency += (double)(now - t->t_time);
	e.e_alive--;
	e.e_bytes -= t->t_bytes;
	t->t_time   = now;
	t->t_result = result;
	t->t_stage  = ENGINE_ENDED;
	t->t_runner = NULL;
	claim_all(&t->t_waiters, result, l);
	if (t->t_batch >= 0)
		engine_batch_add(t);
	else if (t->t_flags & ENGINE_DETACHED)
		engine_slot_free(t);
	if (e.e_room != NULL && e.e_amount != 0)
		(void)claim_first(&e.e_room, 0, l);
	if (e.e_alive == 0)
		claim_all(&e.e_drain, 0, l);
}

/* Begins t on r. Caller holds the lock. */
static void begin(struct task *t, struct runner *r)
{
	t->t_stage  = ENGINE_RUNS;
	t->t_runner = r;
	r->r_task   = t;
}

/* Counts the end of the task of r, of a worker or a helper. Caller holds the lock. */
static void count(struct runner *r, int result, struct tell *l)
{
	struct worker *k = worker_of(r);
	struct task *t = r->r_task;

	e.e_completed++;
	e.e_failed += result < 0;
	r->r_task = NULL;
	finish(t, result, l);
	r->r_begun = t->t_time;			/* of the next, nearly */
	if (k == NULL)
		return;
	k->k_completed++;
	k->k_last = t->t_time;
}

/* Runs the task of r. Caller holds no lock. */
static int call(struct runner *r)
{
	struct task *t = r->r_task;
	int result = t->t_f(t->t_copy != NULL ? t->t_copy : t->t_arg);

	finish_outside(t, result);
	return result;
}

/* Runners: see "The next runner". */

/* Lets other threads of the worker run. Caller holds no lock. */
static void give_turn(struct runner *r)
{
	int *yields = &e.e_worker[ws_proc()].k_yields;

	__atomic_add_fetch(yields, 1, __ATOMIC_RELAXED);
	(void)ws_yield();
	__atomic_sub_fetch(yields, 1, __ATOMIC_RELAXED);
	r->r_slice = unow();
}

/* Goes back while a runner of the worker only lets others run. */
static void keep_off(struct runner *r)
{
	while (__atomic_load_n(&e.e_worker[ws_proc()].k_yields,
			       __ATOMIC_RELAXED) > 0 && ws_yield() == 0)
		;
	r->r_slice = r->r_begun = unow();
}

/* Returns whether another runner takes the place of the caller. */
static bool surplus(void)
{
	return e.e_coming > 0 && e.e_busy - waiting() >= e.e_workers;
}

/* Returns whether a runner should look into the queue. */
static bool is_work(void)
{
	return e.e_queued > 0 && !(e.e_paused & ENGINE_START);
}

/*
 * Parks r. False: it shall end. Caller holds the lock, which is put meanwhile.
 */
static bool park(struct runner *r, struct tell *l)
{
	struct waiter *a;
	int rc, stop;

	is_gone(r);
	leave_and_tell(l);
	a = waiter(UNEVER, &rc);
	relock();
	if (a == NULL || e.e_state >= STOPPING || e.e_parked >= e.e_workers ||
	    (is_work() && !surplus())) {
		if (a != NULL)
			uwait_free(a);
		return e.e_state < STOPPING && is_work() && !surplus();
	}
	a->a_runner = r;
	e.e_parked++;
	stop = await(&e.e_idlers, a, false, UNEVER, &rc);
	if (rc == 0)
		keep_off(r);
	relock();
	e.e_parked--;
	if (rc == 0 && !stop)
		add(&e.e_coming, -1);
	return e.e_state < STOPPING && (rc == 0 || is_work());
}

/* Returns the next task of r, begun, or NULL. Caller holds the lock. */
static struct task *next(struct runner *r, struct tell *l)
{
	struct task *t;

	do {
		t = surplus() ? NULL : take(false, l);
	} while (t == NULL && park(r, l));
	if (t == NULL)
		return NULL;
	begin(t, r);
	e.e_busy++;
	is_here(r);
	(void)send_for(l);			/* E1 */
	return t;
}

/* Makes r ready for another task. Caller holds the lock, put meanwhile. */
static void between(struct runner *r, struct tell *l)
{
	bool stopped = r->r_stopped;
	bool turn = r->r_begun - r->r_slice > SLICE;

	if (!stopped && !turn && r->r_scope != NULL && !u_canceled())
		return;
	leave_and_tell(l);
	if (stopped || u_canceled())
		scope_end(r);
	scope_begin(r);
	if (turn)
		give_turn(r);
	relock();
	r->r_stopped = false;
}

/* What a thread of ws runs. */
static void run(void *arg)
{
	struct runner *r = arg;
	struct tell l = { NULL };
	int result;

	r->r_stack = ustack_self();
	keep_off(r);
	scope_begin(r);
	relock();
	add(&e.e_coming, -1);
	while (next(r, &l) != NULL) {
		leave_and_tell(&l);
		result = call(r);
		relock();
		e.e_busy--;
		count(r, result, &l);
		is_gone(r);
		between(r, &l);
	}
	runner_out(r);
	is_gone(r);
	if (--e.e_runners == 0)
		claim_all(&e.e_drain, 0, &l);
	leave_and_tell(&l);
	scope_end(r);
	free(r);
}

/* Helpers. */

/* Takes a task for the helper r. Caller holds the lock. */
static bool help_take(struct runner *r, struct tell *l)
{
	struct task *t = take(true, l);

	if (t == NULL)
		return false;
	begin(t, r);
	e.e_helping++;
	runner_in(r);
	if (worker_of(r) != NULL)
		__atomic_store_n(&worker_of(r)->k_current, r, __ATOMIC_RELAXED);
	(void)send_for(l);
	return true;
}

/* Runs the task of the helper r. Caller holds the lock, which is put. */
static void help_run(struct runner *r, struct tell *l)
{
	int result;

	leave_and_tell(l);
	helping = r;
	result = call(r);
	helping = NULL;
	relock();
	e.e_helping--;
	e.e_helped++;
	is_gone(r);
	runner_out(r);
	r->r_stopped = false;
	count(r, result, l);
	leave_and_tell(l);
}

/*
 * Waits for a task of the helper r. 1: it has begun, and the lock is held; 0:
 * the deadline has passed; or an error.
 */
static int help_get(struct runner *r, utime_ns until, struct tell *l)
{
	struct waiter *a = NULL;
	int rc;

	for (;;) {
		rc = engine_enter();
		if (rc == 0 && e.e_state == OPEN && help_take(r, l))
			rc = 1;
		else if (rc == 0 && a != NULL && e.e_state == OPEN) {
			(void)await(&e.e_helpers, a, false, until, &rc);
			a = NULL;
		} else if (rc == 0) {
			rc = e.e_state == OPEN ? 0 : -ESHUTDOWN;
			leave_and_tell(l);
			if (rc == 0)
				a = waiter(until, &rc);
		}
		if (rc != 0)
			break;
	}
	if (a != NULL)
		uwait_free(a);
	return rc == -EAGAIN || rc == -ETIMEDOUT ? 0 : rc;
}

/* Sets r_thread of a helper. 0, -EINVAL. */
static int help_host(struct runner *r, int host)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	if (host >= 0 && host < e.e_hosts &&
	    e.e_worker[e.e_workers + host].k_attached)
		r->r_thread = e.e_workers + host;
	else if (host != -1)
		rc = -EINVAL;
	engine_leave();
	return rc;
}

int engine_help(int host, int nr, utime_ns until)
{
	struct runner r = { .r_thread = -1 };
	struct tell l = { NULL };
	int rc, done = 0;

	if (nr < 1 || until < 0 || ustack_self() != NULL)
		return -EINVAL;
	rc = helping != NULL ? -EDEADLK : help_host(&r, host);
	if (rc != 0)
		return rc;
	while (done < nr) {
		rc = help_get(&r, done > 0 ? UNOW : until, &l);
		if (rc != 1)
			break;
		help_run(&r, &l);
		done++;
	}
	return done > 0 ? done : rc;
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
	rc = send_for(l);
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
	e.e_alive++;
	e.e_bytes += t->t_bytes;
	if (id != NULL)
		*id = engine_number(t);
	return 0;
}

/* Waits until j may be queued. 0: the caller is the first. Caller holds no lock. */
static int room_wait(const struct engine_job *j, bool first, utime_ns until)
{
	struct waiter *a;
	int rc;

	a = waiter(until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && admit(j, first) == -EAGAIN) {
		(void)await(&e.e_room, a, first, until, &rc);
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
			rc = slots_more();
			if (rc == 0)
				continue;
		} else if (rc == 0)
			rc = put(j, copy, id, l);
		if (rc != -EAGAIN || until == UNOW)
			break;
		leave_and_tell(l);
		rc = room_wait(j, first, until);
		relock();
		if (rc != 0)
			break;
		first = true;
	}
	if (first && e.e_room != NULL)
		(void)claim_first(&e.e_room, 0, l);
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
			leave_and_tell(&l);
			*rc = copy_arg(&j[n], &copy);
			relock();
		}
		if (*rc == 0)
			*rc = submit(&j[n], copy, ids != NULL ? &ids[n] : NULL,
				     until, &l);
		if (*rc != 0)
			break;
		copy = NULL;
	}
	leave_and_tell(&l);
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

/* Numbers. */

/* Sets *result if the task has ended: 1. 0: not yet; or an error. */
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
	struct waiter *a;
	int none, rc = engine_enter();

	if (result == NULL)
		result = &none;
	if (rc != 0)
		return rc;
	rc = look(id, result);
	engine_leave();
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	a = waiter(until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && (rc = look(id, result)) == 0) {
		int told = await(&engine_find(id)->t_waiters, a, false, until,
				 &rc);

		if (rc == 0)
			*result = told;
		return rc;
	}
	if (rc != -ECHILD && rc != -ENODEV)
		engine_leave();
	uwait_free(a);
	return rc > 0 ? 0 : rc;
}

/* Takes the lock, and finds a task. 0; or an error: the lock is not taken. */
static int enter_task(engine_id id, struct task **t)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	*t = engine_find(id);
	if (*t != NULL)
		return 0;
	engine_leave();
	return -ESRCH;
}

int engine_free(engine_id id)
{
	struct task *t;
	int rc = enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (t->t_batch >= 0)
		rc = -EINVAL;
	else if (t->t_stage == ENGINE_ENDED)
		engine_slot_free(t);
	else
		t->t_flags |= ENGINE_DETACHED;
	engine_leave();
	return rc;
}

/* Ends t, which is queued. Caller holds the lock, put meanwhile. */
static void cancel_queued(struct task *t, struct tell *l)
{
	level_out(t);
	count_queued(-1);
	t->t_ending = true;
	leave_and_tell(l);
	finish_outside(t, -ECANCELED);
	relock();
	e.e_canceled++;
	finish(t, -ECANCELED, l);
	if (e.e_room != NULL)
		(void)claim_first(&e.e_room, 0, l);
}

/* Asks the task of r to stop. Caller holds the lock, put meanwhile. */
static void cancel_running(struct runner *r)
{
	struct uscope *s = r->r_scope;

	__atomic_store_n(&r->r_stopped, true, __ATOMIC_RELAXED);
	if (s == NULL)
		return;
	uscope_hold(s);
	engine_leave();
	uscope_cancel(s);
	uscope_release(s);
	relock();
}

int engine_cancel(engine_id id)
{
	struct tell l = { NULL };
	struct task *t;
	int rc = enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (t->t_ending || t->t_stage == ENGINE_ENDED)
		rc = -EALREADY;
	else if (t->t_stage == ENGINE_QUEUED)
		cancel_queued(t, &l);
	else {
		rc = 1;
		if (!t->t_runner->r_stopped)
			cancel_running(t->t_runner);
	}
	leave_and_tell(&l);
	return rc;
}

bool engine_stopping(void)
{
	const struct runner *r = engine_here();

	return r != NULL && __atomic_load_n(&r->r_stopped, __ATOMIC_RELAXED);
}

engine_id engine_self(void)
{
	const struct runner *r = engine_here();

	return r != NULL && r->r_task != NULL ? engine_number(r->r_task) : 0;
}

int engine_set_priority(engine_id id, int priority)
{
	struct task *t;
	int rc = enter_task(id, &t);

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
	int rc = enter_pause(what);

	if (rc != 0)
		return rc;
	e.e_paused &= ~what;
	rc = send_for(&l);
	if (rc != 0)
		e.e_paused |= what;
	else
		(void)claim_first(&e.e_room, 0, &l);
	leave_and_tell(&l);
	return rc;
}

/* Waits until enough(). Caller holds no lock. */
static int drain(bool (*enough)(void), utime_ns until)
{
	struct waiter *a;
	bool done = false;
	int rc = 0;

	while (!done && (rc = engine_enter()) == 0) {
		done = enough();
		engine_leave();
		if (done)
			break;
		a = waiter(until, &rc);
		if (a == NULL)
			break;
		relock();
		if (!enough())
			(void)await(&e.e_drain, a, false, until, &rc);
		else {
			engine_leave();
			uwait_free(a);
		}
		if (rc != 0)
			break;
	}
	return rc;
}

static bool all_ended(void)
{
	return e.e_alive == 0;
}

static bool all_gone(void)
{
	return e.e_runners == 0;
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
	claim_all(&e.e_room, 0, l);
	claim_all(&e.e_helpers, 0, l);
	while (e.e_mask != 0)
		cancel_queued(e.e_level[highest(e.e_mask)].l_first, l);
	r = e.e_ring.r_next;
	while (r != &e.e_ring) {
		if (r->r_task == NULL || r->r_stopped)
			r = r->r_next;
		else {
			cancel_running(r);
			r = e.e_ring.r_next;
		}
	}
}

/* Ends the workers, once. Caller holds no lock. */
static int stop_workers(void)
{
	struct tell l = { NULL };
	bool first;
	int rc;

	relock();
	first = e.e_state == CLOSING;
	if (first)
		e.e_state = STOPPING;
	claim_all(&e.e_idlers, 1, &l);
	leave_and_tell(&l);
	if (!first)
		return drain(all_over, UNEVER);
	rc = drain(all_gone, UNEVER);
	if (e.e_workers > 0) {
		ws_release();
		(void)ws_fini();	/* threads that tasks have left */
	}
	relock();
	e.e_state = ENDED;
	claim_all(&e.e_drain, 0, &l);
	leave_and_tell(&l);
	return rc;
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
	leave_and_tell(&l);
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
	unsigned i;
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = e.e_state != ENDED ? -EBUSY : 0;
	engine_leave();
	if (rc == 0)
		rc = engine_bus_end();
	if (rc != 0)
		return rc;
	relock();
	if (e.e_state == ENDED) {
		batches_end();
		for (i = 0; i < e.e_slots / CHUNK; i++)
			free(e.e_chunk[i]);
		e.e_slots = 0;
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
		rc = ws_pinning(0);		/* the program has cpus, too */
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
	e.e_limit   = e.e_workers * c->c_tasks_per_thread;
	e.e_tasks   = c->c_tasks;
	e.e_amount  = c->c_shared_amount;
	e.e_policy  = c->c_policy;
	e.e_paused  = e.e_runners = e.e_parked = e.e_coming = 0;
	e.e_busy    = e.e_waiting = e.e_helping = 0;
	e.e_mask    = e.e_turn[0] = e.e_turn[1] = 0;
	e.e_queued  = e.e_alive = 0;
	e.e_bytes   = 0;
	e.e_idlers  = e.e_helpers = e.e_room = e.e_drain = NULL;
	e.e_free    = NULL;
	e.e_slots   = 0;
	e.e_submitted = e.e_completed = e.e_failed = e.e_canceled = 0;
	e.e_helped  = e.e_contended = 0;
	e.e_latency = 0;
	e.e_ring.r_next = e.e_ring.r_prev = &e.e_ring;
	e.e_began   = unow();
	engine_bus_begin(c->c_shared_memory);
}

/* Forgets, in a child of fork(), the engine of the parent. */
static void forget_parent(void)
{
	memset(&e.e_lock, 0, sizeof e.e_lock);
	memset(e.e_batch, 0, sizeof e.e_batch);
	helping = NULL;
	engine_bus_forked();
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
