/* SPDX-License-Identifier: MIT */
/* lookup.h: calls that are abandoned at their deadline. A part of ucall.c. */

#ifndef UCALL_LOOKUP_H
#define UCALL_LOOKUP_H

/*
 * A look-up that has begun is abandoned at its deadline. Its job is from malloc(),
 * and apart from the record, which goes with the caller. After f() the native
 * thread looks at the state, under ca_lock:
 *
 *	jb_state	the caller			the native thread
 *
 *	QUEUED		in or out of the queue		has not begun f()
 *	BEGUN		waits, or was claimed		is in f()
 *	ENDED		completed, or finds the result	does not touch the job
 *	ABANDONED	has gone			drops the result, frees the job
 *
 * Look-ups have a pool of their own, ca_names of the other, so no file waits for
 * a name. A native thread in an abandoned f() still counts for the limit of the
 * pool, but ca_nr does not count it. So the end of the pool does not wait for it.
 * If it comes back before, it goes on as before. If it comes back later, it
 * detaches itself and ends, and the last such native thread frees the pool.
 *
 * A look-up may hold a lock of libc. In the child of a fork() meanwhile nothing
 * releases that. So looks_begun counts the native threads in f(), before they
 * take any lock, and until they have released all. The system copies memory so that
 * writes of a native thread arrive in their order: if the child has the lock
 * taken, it also has the count. The fork takes no lock for that, and does not
 * wait.
 *
 * INVARIANTS
 *
 * B6. A native thread in an abandoned f() uses nothing of the caller, of its set
 *     or dispatcher. The pool lives until all of these have come back.
 *
 * REJECTED
 *
 * One pool of look-ups for the process: it has no end at which its native
 * threads could be joined. A lock around look-ups that a fork takes: it would
 * wait for a deaf server.
 */

#include "jobs.h"
#include "ufork.h"

/* Look-ups of the process. */
static int looks_begun;		/* native threads in their f() (atomic) */
static bool looks_lost;		/* an ancestor has forked meanwhile */

static void pool_destroy(struct ucall_pool *c);

static struct uwait_kind look_kind = { .wk_name = "look-up" };

/* Calls f(arg), and counts that. Native threads. */
static void look_f(void (*f)(void *), void *arg)
{
	__atomic_add_fetch(&looks_begun, 1, __ATOMIC_SEQ_CST);
	f(arg);
	__atomic_sub_fetch(&looks_begun, 1, __ATOMIC_SEQ_CST);
}

/* Called in the child of fork(). */
static void in_child(void)
{
	looks_lost |= looks_begun > 0;
	looks_begun = looks_abandoned = 0;
}

static struct ufork at_fork = {
	.f_rank = UFORK_LOOKUPS, .f_child = in_child
};
UFORK(at_fork)

/* The ends of look-ups, by native threads. */

/*
 * Comes back from an abandoned f(): to c, or else n is alone. Returns whether it
 * frees c. Caller holds ca_lock.
 */
static bool native_back(struct ucall_pool *c, struct native *n)
{
	c->ca_abandoned--;
	__atomic_sub_fetch(&looks_abandoned, 1, __ATOMIC_RELAXED);
	n->na_alone = c->ca_stop;
	if (!n->na_alone)
		natives(c, 1);
	return c->ca_over && c->ca_abandoned == 0;
}

/* Ends j, a look-up, whose f() has returned. */
static void look_end(struct ucall_pool *c, struct native *n, struct job *j)
{
	bool claimed = false, gone, last = false;

	pthread_mutex_lock(&c->ca_lock);
	gone = j->jb_state == ABANDONED;
	if (gone)
		last = native_back(c, n);
	else {
		j->jb_state = ENDED;
		claimed = uwait_claim(j->jb_wait);
	}
	coming(c, 1);
	pthread_mutex_unlock(&c->ca_lock);
	USCHED_RACE(call_complete);
	if (claimed)
		job_end(j);
	if (gone) {
		j->jb_drop(j->jb_arg);
		free(j);
	}
	if (last)
		pool_destroy(c);
}

/* Their callers. */

/* Returns the pool of look-ups beside c, made for the first. NULL: no memory. */
static struct ucall_pool *names_of(struct ucall_pool *c)
{
	struct ucall_pool *n = __atomic_load_n(&c->ca_names, __ATOMIC_ACQUIRE);

	if (n != NULL)
		return n;
	pthread_mutex_lock(&c->ca_lock);
	n = c->ca_names;
	if (n == NULL && (n = ucall_pool_make()) != NULL) {
		n->ca_limit = UCALL_LOOKUPS;
		n->ca_main  = c;
		__atomic_store_n(&c->ca_names, n, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&c->ca_lock);
	return n;
}

/* Waits for w, with a job in c. After an error *arg is NULL if it is abandoned. */
static int look_wait(struct ucall_pool *c, struct uwait *w, struct job look,
		     void **arg, utime_ns until)
{
	struct job *j = malloc(sizeof *j);
	int rc = j != NULL ? uwait_reserve(until) : -ENOMEM;

	if (rc == 0) {
		*j = look;
		j->jb_wait  = w;
		j->jb_stack = w->w_stack;
		rc = job_wait(c, &j, until);
		if (j == NULL)
			*arg = NULL;
	}
	free(j);
	return rc;
}

/* Has a look-up made for the running thread. As look_wait(). */
static int look_by(struct place at, void (*f)(void *), void (*drop)(void *),
		   void **arg, utime_ns until)
{
	struct job look = {
		.jb_f = f, .jb_arg = *arg, .jb_drop = drop, .jb_set = at.pl_set
	};
	struct ucall_pool *c;
	struct uwait *w;
	int rc;

	if (inherited(at.pl_pool))
		return -ECHILD;
	UHARD(yield());
	c = names_of(at.pl_pool);
	w = c != NULL ? uwait_make(&look_kind, f, sizeof *w) : NULL;
	if (w == NULL)
		return c != NULL ? -errno : -ENOMEM;
	rc = look_wait(c, w, look, arg, until);
	uwait_free(w);
	return rc;
}

#endif /* UCALL_LOOKUP_H */
