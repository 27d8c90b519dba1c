/* SPDX-License-Identifier: MIT */
/* pool_threads.h: the native threads of a pool. A part of ucall.c. */

#ifndef UCALL_POOL_THREADS_H
#define UCALL_POOL_THREADS_H

/*
 * ca_coming counts the native threads that are about to look at the queue. They
 * have been made or woken, or are done with their f(). A caller adds its job to
 * the queue. If the queue then has more jobs than ca_coming counts, the caller
 * wakes an idle native thread, or makes a native thread. If it can do neither,
 * it leaves the job to the native threads that are in their f(). So a thread
 * that makes call after call keeps a single native thread awake. The native
 * thread that went idle last is woken first. Its cache is warm, and the idle
 * time of superfluous native threads runs out.
 *
 * A caller makes a native thread under ca_lock. This takes some 20 us, but is
 * rare, and the caller knows at once whether its job will be taken. A native
 * thread that ends joins the native thread that ended before it, which is at
 * its last steps. So at most one native thread is left unjoined, for the next
 * or for ucall_pool_free().
 *
 * An idle native thread sleeps by park.h, and its struct native is on its own
 * stack. The waker first takes the struct from ca_idle, then wakes. So a native
 * thread that was taken must not end before it is woken, even if its idle time
 * is over.
 *
 * INVARIANTS
 *
 * B1. Each native thread that ca_coming counts will look at ca_queue before it
 *     goes idle or ends. They are at least as many as the jobs in the queue. If
 *     no more could be made, there is at least one native thread, which looks
 *     at the queue after its f().
 * B2. No more than ca_limit native threads run f(), abandoned or not. Jobs begin
 *     in the order in which they were put in the queue.
 *
 * REJECTED
 *
 * Native threads that are processors, each with a thread of its own: the slice
 * would have to be on the native stack. Condition variables: see park.h.
 * Handing the job to a native thread directly: this is a second way besides the
 * queue, and a native thread that becomes busy late would keep its job from
 * idle native threads. Detached native threads: they may run our code after
 * ucall_pool_free(). Those of abandoned look-ups do: nothing can end them. So a
 * plug-in that was linked with the library must not be unloaded meanwhile.
 */

#include "lookup.h"

#include <signal.h>

/* An idle native thread ends after this time: longer than pauses in bursts. */
#if !defined(UCALL_IDLE_MS)
#define UCALL_IDLE_MS	5000
#endif

/* Sleep. */

/* Sleeps until *asleep is 0. False: the idle time is over. */
static bool nap(int *asleep)
{
	utime_ns until = uafter(UCALL_IDLE_MS * UTIME_MS);
	utime_ns left;

	while (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 1) {
		left = until - unow();
		if (left <= 0)
			return false;
		upark_futex_wait_for(asleep, 1, left);
	}
	return true;
}

/*
 * Puts n, the caller, to sleep until it is woken. Caller holds ca_lock, which
 * is released during the sleep. False: the idle time is over.
 */
static bool idle(struct ucall_pool *c, struct native *n)
{
	coming(c, -1);
	upark_prepare(&n->na_asleep);
	link_first(&c->ca_idle, &n->na_link);
	pthread_mutex_unlock(&c->ca_lock);
	USCHED_RACE(call_nap);
	if (!nap(&n->na_asleep)) {
		USCHED_RACE(call_woken);
		pthread_mutex_lock(&c->ca_lock);
		if (n->na_link.lk_next != NULL) {
			link_out(&n->na_link);
			coming(c, 1);
			return false;
		}
		pthread_mutex_unlock(&c->ca_lock);
		upark_sleep(&n->na_asleep);	/* n was chosen: see above */
	}
	pthread_mutex_lock(&c->ca_lock);
	return true;
}

/* Life. */

/* Notes that n ends. Caller holds ca_lock. */
static void native_leave(struct ucall_pool *c, struct native *n)
{
	coming(c, -1);
	n->na_joins  = c->ca_ended;
	n->na_before = c->ca_last;
	c->ca_ended  = true;
	c->ca_last   = pthread_self();
	natives(c, -1);
}

/* Returns the first job, as soon as there is a job. NULL: n has to end. */
static struct job *job_next(struct ucall_pool *c, struct native *n)
{
	bool more = true;
	struct job *j;

	pthread_mutex_lock(&c->ca_lock);
	while ((j = job_take(c)) == NULL && more && !c->ca_stop)
		more = idle(c, n);
	if (j == NULL)
		native_leave(c, n);
	else
		coming(c, -1);
	pthread_mutex_unlock(&c->ca_lock);
	return j;
}

static void job_run(struct ucall_pool *c, struct native *n, struct job *j)
{
	bool look = j->jb_drop != NULL;

	uproc_serves = j->jb_set;
	if (UWAIT_WATCHED)
		uwait_watch_calls(j->jb_stack, j->jb_f, true);
	if (look)
		look_f(j->jb_f, j->jb_arg);
	else
		j->jb_f(j->jb_arg);
	if (inherited(c))
		usched_fail("call: the function has returned in the child of a "
			    "fork(): it must exec or _exit there");
	if (UWAIT_WATCHED)
		uwait_watch_calls(j->jb_stack, j->jb_f, false);
	if (look) {
		look_end(c, n, j);
		return;
	}
	coming(c, 1);		/* before the next call of the caller */
	USCHED_RACE(call_claim);
	(void)uwait_claim(j->jb_wait);
	USCHED_RACE(call_complete);
	job_end(j);
}

/* Fails if rc, of a join or of our own detach, says that f() has detached it. */
static void native_detached(int rc)
{
	if (rc != 0)
		usched_fail("call: the function has detached its native thread");
}

static void native_reap(pthread_t id)
{
	native_detached(pthread_join(id, NULL));
}

/* Fails: after pthread_exit() or cancellation the caller would never wake. */
static void left(void *arg)
{
	(void)arg;
	usched_fail("call: the function has ended its native thread");
}

static void native_run(struct ucall_pool *c, struct native *n)
{
	struct job *j;

	while (!n->na_alone && (j = job_next(c, n)) != NULL)
		job_run(c, n, j);
}

/* Runs jobs under a cleanup handler. Not inline: the handler is a setjmp(). */
static NOINLINE void native_guard(struct ucall_pool *c, struct native *n)
{
	pthread_cleanup_push(left, NULL);
	native_run(c, n);
	pthread_cleanup_pop(0);
}

static void *native_main(void *arg)
{
	struct ucall_pool *c = arg;
	struct native me = { .na_joins = false };

	native_guard(c, &me);
	if (me.na_alone) {
		native_detached(pthread_detach(pthread_self()));
		return NULL;
	}
	if (me.na_joins)
		native_reap(me.na_before);
	upark_futex_wake(&c->ca_nr);	/* c lives until we are joined */
	return NULL;
}

/* Sets *set to all signals, but for those that the running code causes. */
static void signals(sigset_t *set)
{
	static const int own[] = {
		SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS
	};
	unsigned i;

	sigfillset(set);
	for (i = 0; i < sizeof own / sizeof own[0]; i++)
		sigdelset(set, own[i]);
}

/*
 * Makes a native thread, with its signals blocked, and not pinned. Caller holds
 * ca_lock.
 */
static int native_start(struct ucall_pool *c)
{
	sigset_t block, old;
	pthread_t id;
	bool pinned;
	int rc;

	signals(&block);
	(void)pthread_sigmask(SIG_SETMASK, &block, &old);
	pinned = uproc_pin(false);
	rc = pthread_create(&id, NULL, native_main, c);
	(void)uproc_pin(pinned);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return -EAGAIN;
	natives(c, 1);
	coming(c, 1);
	return 0;
}

/* Pools, from the beginning to the end. */

struct ucall_pool *ucall_pool_make(void)
{
	struct ucall_pool *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	errno = -ufork_watch();
	if (errno == 0)
		errno = pthread_mutex_init(&c->ca_lock, NULL);
	if (errno != 0) {
		free(c);
		return NULL;
	}
	c->ca_limit = UCALL_LIMIT;
	c->ca_forks = uproc_forks;
	c->ca_main  = c;
	link_init(&c->ca_queue);
	link_init(&c->ca_idle);
	return c;
}

int ucall_pool_limit(struct ucall_pool *c, int nr)
{
	if (c == NULL || nr < 1)
		return -EINVAL;
	c->ca_limit = nr;
	return 0;
}

/*
 * Joins all native threads. No thread calls, so each native thread that is not
 * idle is at its last steps, and will see ca_stop.
 */
static void native_stop(struct ucall_pool *c)
{
	int nr;

	pthread_mutex_lock(&c->ca_lock);
	c->ca_stop = true;
	while (!link_empty(&c->ca_idle)) {
		struct link *l = link_out(c->ca_idle.lk_next);

		upark_wake(&((struct native *)l)->na_asleep);
	}
	pthread_mutex_unlock(&c->ca_lock);
	while ((nr = __atomic_load_n(&c->ca_nr, __ATOMIC_ACQUIRE)) > 0)
		upark_futex_wait(&c->ca_nr, nr);
	if (c->ca_ended)
		native_reap(c->ca_last);
}

static void pool_destroy(struct ucall_pool *c)
{
	pthread_mutex_destroy(&c->ca_lock);
	free(c);
}

void ucall_pool_free(struct ucall_pool *c)
{
	bool last;

	if (c == NULL || inherited(c))
		return;
	ucall_pool_free(c->ca_names);
	native_stop(c);
	pthread_mutex_lock(&c->ca_lock);
	c->ca_over = true;					/* lookup B6 */
	last = c->ca_abandoned == 0;
	pthread_mutex_unlock(&c->ca_lock);
	if (last)
		pool_destroy(c);
}

#endif /* UCALL_POOL_THREADS_H */
