/* SPDX-License-Identifier: MIT */
/* uproc.c: processors: the part that schedulers share. */

/*
 * OVERVIEW
 *
 *	struct uproc_set
 *	  set_proc[0]      set_proc[1]
 *	+--------------+ +--------------+
 *	| dispatcher   | | dispatcher   |   one native thread each
 *	| queue        | | queue        |   threads that can run
 *	| inbox        | | inbox        |   remote wakes
 *	| park         | | park         |   where it sleeps
 *	| pool         | | pool         |   free memory
 *	+------+-------+ +-------+------+
 *	       |                 |
 *	    +--+-----------------+--+
 *	    | set_mem               |       in batches: see umem.c
 *	    +-----------------------+
 *
 * A thread stays on the processor that it was made for, except in ws. As ws has
 * queues of its own, room P1 does not apply to it.
 *
 * PARTS
 *
 * This file makes a set, starts it and ends it. It includes its parts, because a wake, a
 * look and a sleep run through several of them, and the compiler makes few functions of
 * those. For the same reason their names are static. Each part includes those whose
 * functions it calls, and these stand below it:
 *
 *	driver.h		the native thread that drives a set
 *	native_threads.h	the native threads of processors
 *	maps.h			mappings that lanes leave for all else
 *	forked.h		a child that fork() has made
 *
 *	dispatcher.h		call-backs of the dispatcher; yields
 *	make.h			making threads
 *	looks.h			looks for threads to run, and sleeps
 *	driven.h		sleeps of a processor that a loop of the program drives
 *	sleep.h			sleep, deadlines, virtual time, holds: the end of a set
 *	rest.h			memory that goes back in a long sleep
 *	rounds.h		when a processor with threads to run looks outside
 *	arrive.h		wakes and ends of waits: the inbox
 *	join.h			waiting for the end of a thread
 *
 *	blocks.h		memory of threads and slices
 *	stuck.h			a walk over all threads; names those that wait for ever
 *	room.h			room in the queue
 *	lanes.h			lanes, and promises of private lanes
 *	deal.h			which processor is given a new thread
 *	pinning.h		which cpus processors run on
 *	uproc_inside.h		names, sizes, and who runs here
 *
 * Structures that can be understood alone have headers of their own: inbox.h, idle.h,
 * cpus.h, wakes.h, park.h.
 *
 * INVARIANTS
 *
 * They stand where they are kept: room P1, arrive P2 and P3, pinning P4,
 * join P5, maps P6, sleep P7 to P9, looks P10, driven N9 to N12. So do the designs
 * that were rejected.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* cpus.h, MAP_ANONYMOUS */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uproc_set.h"
#include "dispatcher.h"
#include "driver.h"
#include "forked.h"
#include "maps.h"
#include "native_threads.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define LANE_SIZE	((size_t)256 << 10)
#define LANE_MIN	((size_t)16 << 10)
#define RING_MIN	64u
#define ROOM_HINT	(1u << 20)	/* a hint is believed up to here */

/* Variables of the environment. */

static struct usched_env env_stacks = {
	.e_name = "USCHED_STACKS", .e_known = "private, shared"
};
/* From LANE_MIN to INT_MAX. */
static struct usched_env env_size = {
	.e_name  = "USCHED_STACK_SIZE",
	.e_known = "16384-2147483647, 16k-2097151k, 1M-2047M"
};
_Static_assert(LANE_MIN == 16384 && INT_MAX == 2147483647,
	       "env_size has other numbers");

static __attribute__((constructor)) void env_set_load(void)
{
	(void)usched_env_add(&env_stacks);
	(void)usched_env_add(&env_size);
}

/* Reads USCHED_STACKS and USCHED_STACK_SIZE. */
static void stacks_init(struct uproc_set *set)
{
	static const int shift[] = { 0, 10, 20 };
	const char *value = usched_env(&env_stacks);
	unsigned long long nr;
	int i = usched_env_word(&env_stacks, &value, &nr);

	set->set_private = i < 0 ? -1 : i == 0;
	value = usched_env(&env_size);
	i = usched_env_word(&env_size, &value, &nr);
	if (i < 0)
		return;
	set->set_stack = (size_t)nr << shift[i];
	set->set_sized = true;
}

/* What can be set before the start. */

int uproc_none(const struct uproc_ops *o, const char *call)
{
	usched_message("%s%s: %sinit() was not called before, or failed",
		       ops_name(o), call, ops_name(o));
	return -EINVAL;
}

int uproc_stack_size(struct uproc_set *set, size_t size)
{
	int rc = size < LANE_MIN || size > INT_MAX ? -EINVAL : is_new(set);

	if (rc == 0 && !set->set_sized)
		set->set_stack = size;
	return rc;
}

/* Defined by files that were compiled without USCHED_PREEMPT. */
#if defined(__ELF__)
extern __attribute__((weak)) char uproc_inlined;
#define INLINED		(&uproc_inlined != NULL)
#else
#define INLINED		true
#endif

int uproc_preempt(struct uproc_set *set)
{
	int rc = is_new(set);
	int i;

	if (rc != 0)
		return rc;
	if (INLINED)
		return -ENOTSUP;
	for (i = 0; i < set->set_nr; i++)
		uproc_nth(set, i)->p_sched.s_preempt =
			set->set_ops.op_sched.s_preempt;
	return 0;
}

/* From the beginning to the end. */

static int proc_init(struct uproc *p, struct uproc_set *set, int nr,
		     unsigned room)
{
	const struct uproc_ops *o = &set->set_ops;

	p->p_set   = set;
	p->p_nr    = nr;
	p->p_room  = room;
	p->p_private = set->set_private > 0 ? UPROC_PRIVATE : 0;
	p->p_sched = o->op_sched;
	p->p_sched.s_alloc = buf_alloc;
	p->p_sched.s_free  = buf_free;
	p->p_sched.s_waits = &p->p_waits;
#if !defined(USCHED_HARD)
	p->p_sched.s_preempt = NULL;	/* uproc_preempt() sets it */
#endif
	uwait_base_init(&p->p_waits, &p->p_sched, o->op_move.mv_waits);
	p->p_round.r_run = UWAIT_LATE;
	if (utime_seed() != 0)		/* 0 is no state of the generator */
		p->p_random = (unsigned)(utime_seed() + nr) * 2654435769u | 1;
	umem_pool_init(&p->p_pool, &set->set_mem);
	umem_pool_init(&p->p_outer, &set->set_mem);
	uinbox_init(&p->p_inbox);
	p->p_queue.q_mask = room - 1;
	p->p_queue.q_ring = umem_array(room);
	if (p->p_queue.q_ring == NULL)
		return -ENOMEM;
	return o->op_init != NULL ? o->op_init(p) : 0;
}

/* Frees the sources of events. All processors share them, or none do. */
static void sources_free(struct uproc_set *set)
{
	struct uwait_base locals = { .wb_source = NULL };
	const struct uwait_source *shared;
	int i;

	for (i = 0; i < set->set_nr; i++)
		uwait_locals_move(&uproc_nth(set, i)->p_waits, &locals);
	shared = uproc_nth(set, 0)->p_waits.wb_source;
	for (i = 1; i < set->set_nr; i++)
		if (uproc_nth(set, i)->p_waits.wb_source != shared)
			uwait_sources_fini(&uproc_nth(set, i)->p_waits);
	uwait_sources_fini(&uproc_nth(set, 0)->p_waits);
	uwait_sources_fini(&locals);	/* last: see there */
}

/* Is told of each set, or NULL. */
static void (*watch_set)(struct uproc_set *set, bool begins);

void uproc_watch_sets(void (*f)(struct uproc_set *set, bool begins))
{
	watch_set = f;
}

static void set_known(struct uproc_set *set, bool begins)
{
	if (watch_set != NULL)
		watch_set(set, begins);
}

static void set_free(struct uproc_set *set)
{
	int i;

	set_known(set, false);
	if (set->set_proc != NULL)
		sources_free(set);
	if (set->set_calls != NULL)
		set->set_calls_fini(set->set_calls);
	for (i = 0; set->set_proc != NULL && i < set->set_nr; i++) {
		struct uproc *p = uproc_nth(set, i);

		graves_drop(p);
		usched_fini(&p->p_sched);
		free(p->p_queue.q_ring);
		free(p->p_ring);
		if (set->set_ops.op_fini != NULL)
			set->set_ops.op_fini(p);
	}
	umem_fini(&set->set_mem);
	free(set->set_proc);
	free(set->set_native);
	free(set->set_cpus);
	free(set->set_drive);
	pthread_mutex_destroy(&set->set_lock);
	free(set);
}

static void *zeroed(size_t size)
{
	void *mem = NULL;

	if (posix_memalign(&mem, UPROC_LINE, size) != 0)
		return NULL;
	return memset(mem, 0, size);
}

/* Copies *given, and fills in the members that rr and ll leave out. */
static void ops_init(struct uproc_ops *o, const struct uproc_ops *given)
{
	struct uproc_move_ops *m = &o->op_move;
	struct usched *s = &o->op_sched;

	*o = *given;
	if (o->op_size == 0)
		o->op_size = sizeof(struct uproc);
	if (o->op_thread == 0)
		o->op_thread = sizeof(struct uproc_thread);
	if (s->s_preempt == NULL)
		s->s_preempt = preempt;
	if (s->s_done == NULL)
		s->s_done = thread_done;
	if (s->s_wait == NULL)
		s->s_wait = wait_here;
	if (s->s_wake == NULL)
		s->s_wake = wake;
	if (s->s_make == NULL)
		s->s_make = make_dealt;
	if (m->mv_lanes == NULL)
		m->mv_lanes = lanes_each;
	if (m->mv_waits == NULL)
		m->mv_waits = &wait_ops;
}

/* Makes a set without processors. 0 or -errno. */
static int set_make(struct uproc_set **out, int proc_nr,
		    const struct uproc_ops *ops)
{
	struct uproc_set *set = zeroed(sizeof *set);
	int rc;

	if (set == NULL)
		return -ENOMEM;
	rc = umem_init(&set->set_mem);
	if (rc != 0) {
		free(set);
		return rc;
	}
	rc = pthread_mutex_init(&set->set_lock, NULL);
	if (rc != 0) {
		umem_fini(&set->set_mem);
		free(set);
		return -rc;
	}
	ops_init(&set->set_ops, ops);
	set->set_nr    = proc_nr;
	set->set_forks = INT_MAX;
	set->set_stack = LANE_SIZE;
	set->set_pins  = -1;
	if (STUCK_NAMES)
		usched_name_by(usymbol_function);
	*out = set;
	stacks_init(set);
	set_known(set, true);
	return 0;
}

/*
 * Makes the processors of a new set. 0, or -errno: the caller calls set_free(),
 * which frees all that was made.
 */
static int procs_init(struct uproc_set *set, int thread_nr)
{
	int nr = set->set_nr;
	unsigned room;
	int rc = 0;
	int i;

	set->set_share  = thread_nr / nr + (thread_nr % nr != 0);
	set->set_proc   = zeroed(nr * set->set_ops.op_size);
	set->set_native = calloc(nr, sizeof *set->set_native);
	set->set_cpus   = cpus_of_caller();
	if (set->set_proc == NULL || set->set_native == NULL ||
	    set->set_cpus == NULL)
		return -ENOMEM;
	for (room = RING_MIN; room < (unsigned)thread_nr / nr &&
	     room < ROOM_HINT; )
		room *= 2;
	for (i = 0; i < nr && rc == 0; i++)
		rc = proc_init(uproc_nth(set, i), set, i, room);
	return rc;
}

/* Refuses a second scheduler of a kind. */
static NOINLINE int second(const struct uproc_ops *ops)
{
	usched_message("%sinit: there is a scheduler already, until %sfini()",
		       ops_name(ops), ops_name(ops));
	return -EBUSY;
}

/*
 * Makes a set in the place of was, unless another caller is faster. A child that
 * was forked meanwhile finds a set of its parent.
 */
static int make_in_place(struct uproc_set **out, struct uproc_set *was,
			 const struct uproc_ops *ops, int proc_nr,
			 int thread_nr)
{
	struct uproc_set *set = NULL;
	int rc = set_make(&set, proc_nr, ops);

	if (rc != 0)
		return rc;
	set->set_forks = uproc_forks;
	if (!__atomic_compare_exchange_n(out, &was, set, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED)) {
		set_free(set);
		return second(ops);
	}
	rc = procs_init(set, thread_nr);
	if (rc == 0)
		set->set_forks = INT_MAX;
	else {
		__atomic_store_n(out, was, __ATOMIC_RELEASE);
		set_free(set);
	}
	return rc;
}

int uproc_init(struct uproc_set **out, const struct uproc_ops *ops,
	       int proc_nr, int thread_nr)
{
	struct uproc_set *was = __atomic_load_n(out, __ATOMIC_ACQUIRE);
	int rc;

	if (was != NULL && !uproc_inherited(was))
		return second(ops);
	if (usched_env_check() != 0)
		return -EINVAL;
	if (proc_nr == 0)
		proc_nr = UPROC_SINGLE ? 1 : uproc_cpus();
	if (proc_nr == -ENOMEM)
		return proc_nr;
	if (proc_nr < 1 || thread_nr < 0 || (UPROC_SINGLE && proc_nr > 1) ||
	    proc_nr > UPROC_MOST)
		return -EINVAL;
	(void)ufence_init();		/* if it fails, it is only slower */
	rc = ufork_watch();
	return rc != 0 ? rc : make_in_place(out, was, ops, proc_nr, thread_nr);
}

int uproc_start(struct uproc_set *set)
{
	int rc = is_new(set);

	if (rc == -EBUSY)
		usched_message("%sstart: it was called before", name_of(set));
	if (rc == 0)
		rc = usched_env_check();
	if (rc != 0)
		return rc;
	set->set_forks = uproc_forks;	/* first: another may fork meanwhile */
	set->set_cpu_nr = ucpus_nr(set->set_cpus);
	set->set_spare  = set->set_nr + (set->set_pins == 0) <= set->set_cpu_nr &&
		set->set_drive == NULL;
	pinned_init(set);
	set->set_lane_nr = lane_nr(set);
	set->set_few = set->set_ops.op_soon == NULL && !has_limit();
	do {
		rc = lanes_reserving(set);
		if (rc == 0)
			rc = promises(set, true);
		if (rc == 0)
			rc = set->set_drive != NULL ? driver_start(set) :
				native_start(set);
		if (rc != 0) {
			(void)promises(set, false);
			lanes_free(set);
		}
	} while (fewer_lanes(set, rc));
	if (rc != 0) {
		set->set_forks = INT_MAX;
		return rc;
	}
	__atomic_store_n(&set->set_share, 0, __ATOMIC_RELAXED);
	go(set, 1);
	return 0;
}

/* Stands for a set that is being freed: a child of fork() looks into it. */
static struct uproc_set ending = { .set_nr = 1 };

/* Says why threads are left, of which none will ever run. */
static NOINLINE void left_over(struct uproc_set *set, long left)
{
	const char *name = name_of(set);

	if (set->set_running == 0)
		usched_message("%sfini: %sstart() was not called, or failed: %ld "
			       "thread%s dropped", name, name, left,
			       left == 1 ? " was" : "s were");
	else if (!uwait_watch_stuck(&uproc_nth(set, 0)->p_sched,
				    set->set_ops.op_size, set->set_nr, left))
		stuck_report(set, name, left);
}

/* Waits until no thread of set will ever run again. 0, or -errno: it was refused. */
static int end_wait(struct uproc_set *set)
{
	int rc = set->set_drive != NULL ? is_driver(set, name_of(set), "fini") : 0;

	if (rc != 0)
		return rc;
	__atomic_store_n(&set->set_fini, 1, __ATOMIC_SEQ_CST);	/* driven M5 */
	if (set->set_drive != NULL)
		driver_ends(set);
	else
		uidle_wait(&set->set_idle, set->set_running);
	return 0;
}

int uproc_fini(struct uproc_set **out, long *left)
{
	struct uproc_set *set = *out;
	int i, rc;

	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	if (uproc_here(set) != NULL)
		usched_fail("fini: called by a thread");
	if (uproc_serves == set)
		usched_fail("fini: called by a function that a thread of the "
			    "set has given to ucall()");
	rc = end_wait(set);
	if (rc != 0)
		return rc;
	*left = threads_left(set);
	if (*left != 0)
		left_over(set, *left);
	USCHED_RACE(proc_stop);
	__atomic_store_n(&set->set_stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < set->set_nr; i++)
		upark_wake(&uproc_nth(set, i)->p_asleep);
	native_join(set);
	__atomic_store_n(&ending.set_forks, uproc_forks, __ATOMIC_RELAXED);
	__atomic_store_n(out, &ending, __ATOMIC_RELAXED);
	set_free(set);
	__atomic_store_n(out, NULL, __ATOMIC_RELEASE);
	return *left == 0 ? 0 : -EDEADLK;
}
