/* SPDX-License-Identifier: MIT */
/* ucall.c: calls that block, made while other threads go on. */

/*
 * OVERVIEW
 *
 *	threads                     struct ucall_pool            native threads
 *
 *	ucall_pool_call() --job--> ca_queue: first in, --job--> job_run(): f(arg)
 *	   waits                    first out                         |
 *	     ^                      ca_idle: sleepers,                |
 *	     |                      last in, first out                |
 *	     +------------------------------ a wake ------------------+
 *
 * PARTS
 *
 * This file has the calls of threads, and finds the pool of each caller. It includes
 * its parts, whose names are static. Each includes the part below:
 *
 *	pool_threads.h	native threads, and the pools to which they belong
 *	lookup.h	look-ups, which are abandoned at their deadline
 *	jobs.h		the queue of a pool, and the wait for a job
 *
 * PLAIN DISPATCHERS
 *
 * A set has a pool from its first call on, and so has each plain dispatcher. The
 * pool of a plain dispatcher is a source of events (uwait.h), which keeps the
 * dispatcher from its end while a thread calls, and joins the native threads
 * when it ends. A native thread posts the record to the base of the dispatcher,
 * which wakes the dispatcher out of any sleep, also that of another source. So
 * there is nothing to look at, and nothing to sleep in.
 *
 * INVARIANTS
 *
 * They are where they are kept: pool_threads B1 and B2, jobs B3 to B5,
 * lookup B6.
 *
 * REJECTED
 *
 * A list of ended calls in the pool of a plain dispatcher, which o_look takes,
 * and a futex in o_sleep: while the dispatcher sleeps for descriptors, it would
 * have to look now and then.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "ucall.h"
#include "pool_threads.h"

UPREEMPT_NEVER;

/* The wait and the job of a call that is no look-up. */
struct call {
	struct uwait cl_wait;		/* first */
	struct job   cl_job;
};

/*
 * Tells for what a thread waits: its f(). With ucall_until() the record is claimed
 * before that, so it may already have a link in place of its object.
 */
static int call_see(const struct uwait *w, struct uwait_seen *v)
{
	const struct call *a = (const struct call *)w;

	if (w->w_size * UWAIT_UNIT < sizeof *a || w->w_state == UWAIT_ARRIVED)
		return false;
	v->vs_object = (const void *)(uintptr_t)a->cl_job.jb_f;
	return true;
}

static struct uwait_kind call_kind = {
	.wk_name = "call", .wk_see = call_see
};

/* Calls. */

/* Has f(arg) called for the running thread. sure: only its end ends the wait. */
static int call_by(struct place at, void (*f)(void *), void *arg,
		   utime_ns until, bool sure)
{
	struct call *a;
	struct job *j;
	int rc;

	if (inherited(at.pl_pool))
		return -ECHILD;
	ustack_lawful("ucall: the argument", arg);
	UHARD(yield());
	a = uwait_make(&call_kind, f, sizeof *a);
	if (a == NULL)
		return -errno;
	a->cl_job = (struct job) {
		.jb_f = f, .jb_arg = arg, .jb_wait = &a->cl_wait,
		.jb_stack = a->cl_wait.w_stack, .jb_set = at.pl_set,
		.jb_sure = sure
	};
	if (sure)
		a->cl_wait.w_flags |= UWAIT_SURE;
	j  = &a->cl_job;
	rc = uwait_reserve(until);
	if (rc == 0)
		rc = job_wait(at.pl_pool, &j, until);
	uwait_free(a);
	return rc;
}

int ucall_pool_call(struct ucall_pool *c, struct uproc_thread *self,
		    void (*f)(void *), void *arg)
{
	struct place at = { c, NULL };

	if (c == NULL || self == NULL || f == NULL)
		return -EINVAL;
	at.pl_set = uproc_of(self)->p_set;
	return call_by(at, f, arg, UNEVER, true);
}

/* ucall(), for threads of any dispatcher. */

static int most = UCALL_LIMIT;		/* atomic */

/* Makes a pool for ucall(). NULL and errno. */
static struct ucall_pool *pool_make(void)
{
	struct ucall_pool *c = ucall_pool_make();

	if (c != NULL)
		(void)ucall_pool_limit(c, __atomic_load_n(&most,
						      __ATOMIC_RELAXED));
	return c;
}

/* Returns the pool of set, made for its first caller. NULL: no memory. */
static struct ucall_pool *pool_of(struct uproc_set *set)
{
	struct ucall_pool *c = __atomic_load_n(&set->set_calls, __ATOMIC_ACQUIRE);

	if (c != NULL)
		return c;
	pthread_mutex_lock(&set->set_lock);
	c = set->set_calls;
	if (c == NULL && (c = pool_make()) != NULL) {
		set->set_calls_fini = ucall_pool_free;
		__atomic_store_n(&set->set_calls, c, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&set->set_lock);
	return c;
}

static void pool_look(struct uwait_source *o)
{
	(void)o;			/* all comes by posts */
}

static void pool_fini(struct uwait_source *o)
{
	ucall_pool_free((struct ucall_pool *)o);
}

/* Makes the pool of the caller's dispatcher, which is plain. NULL: no memory. */
static struct ucall_pool *pool_add(void)
{
	struct ucall_pool *c = pool_make();

	if (c == NULL)
		return NULL;
	c->ca_source.o_look = pool_look;
	c->ca_source.o_fini = pool_fini;
	c->ca_source.o_nap  = UNEVER;
	if (uwait_source_add(&c->ca_source) == 0)
		return c;
	ucall_pool_free(c);
	return NULL;
}

/* Returns the pool of the caller's dispatcher, which is plain. NULL: no memory. */
static struct ucall_pool *pool_plain(void)
{
	struct ucall_pool *c = (struct ucall_pool *)uwait_source_of(pool_look);

	return c != NULL ? c : pool_add();
}

/* Sets *at for the caller. 0; -EINVAL: it is no thread; -ENOSYS, -ECHILD, -ENOMEM. */
static int place_of(struct place *at)
{
	if (uproc_lost())
		return -ECHILD;
	if (ustack_self() == NULL)
		return -EINVAL;
	at->pl_set = uproc_running();
	if (at->pl_set == NULL && ustack_self()->u_sched->s_wait == NULL)
		return -ENOSYS;
	at->pl_pool = at->pl_set != NULL ? pool_of(at->pl_set) : pool_plain();
	return at->pl_pool != NULL ? 0 : -ENOMEM;
}

int ucall(void (*f)(void *), void *arg)
{
	struct place at;
	int rc = f != NULL || uproc_lost() ? place_of(&at) : -EINVAL;

	return rc == 0 ? call_by(at, f, arg, UNEVER, true) : rc;
}

int ucall_until(void (*f)(void *), void *arg, utime_ns until)
{
	struct place at;
	int rc = place_of(&at);

	return rc == 0 ? call_by(at, f, arg, until, false) : rc;
}

int ucall_limit(int nr)
{
	if (nr < 1)
		return -EINVAL;
	__atomic_store_n(&most, nr, __ATOMIC_RELAXED);
	return 0;
}

int ucall_lookup(void (*f)(void *), void (*drop)(void *), void *arg,
		 utime_ns until)
{
	struct place at;
	int rc = 0;

	if (looks_lost)
		rc = -ECHILD;
	else if (ustack_self() == NULL)
		look_f(f, arg);
	else if (__atomic_load_n(&looks_abandoned, __ATOMIC_RELAXED) >=
		 UCALL_LOOKUPS)
		rc = -EAGAIN;
	else if ((rc = place_of(&at)) == 0)
		rc = look_by(at, f, drop, &arg, until);
	if (rc != 0 && arg != NULL)
		drop(arg);
	return rc;
}
