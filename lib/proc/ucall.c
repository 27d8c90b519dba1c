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
 * ca_coming counts the native threads that are about to look at the queue. They
 * have been made or woken, or are done with their f(). A caller adds its job to
 * the queue. If the queue then has more jobs than ca_coming counts, the caller
 * wakes an idle native thread, or makes a native thread. If it can do neither,
 * it leaves the job to the native threads that are in their f(). So a thread
 * that makes call after call keeps a single native thread awake. The native
 * thread that went idle last is woken first. Its cache is warm, and the idle
 * time of superfluous native threads runs out.
 *
 * A job is a function behind a wait record (uwait.h), on the heap, since no
 * native thread may use a pointer to the stack of a thread that waits. A native
 * thread takes it out of ca_queue, calls f(), claims the record, and completes
 * it. After that it does not touch the job.
 *
 * The caller reserves all memory for its wait before its job is in the queue
 * (uwait_reserve()), since a job that has begun cannot be taken back.
 *
 * JOBS WITH A DEADLINE
 *
 * For ucall_until() the native thread claims the record before it calls f(). So
 * a deadline or a cancellation ends the wait only as long as the job is in the
 * queue. The native thread passes over a job whose record was claimed already.
 *
 * LOOK-UPS
 *
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
 * PLAIN DISPATCHERS
 *
 * A set has a pool from its first call on, and so has each plain dispatcher. The
 * pool of a plain dispatcher is a source of events (uwait.h), which keeps the
 * dispatcher from its end while a thread calls, and joins the native threads
 * when it ends. A native thread posts the record to the base of the dispatcher,
 * which wakes the dispatcher out of any sleep, also that of another source. So
 * there is nothing to look at, and nothing to sleep in.
 *
 * NATIVE THREADS
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
 * B3. A caller that waits holds the set. The hold begins before its job is in
 *     the queue, and ends after the completion. The hold of a plain dispatcher
 *     is a wait of the pool as a source, and its caller ends it.
 * B4. A caller whose job was in the queue does not return before that was
 *     completed, or taken out of the queue under ca_lock, or is ABANDONED.
 * B5. After a native thread has posted a record, it uses nothing of a plain
 *     dispatcher but its base, and what that sleeps by. Both outlive the pool.
 * B6. A native thread in an abandoned f() uses nothing of the caller, of its set
 *     or dispatcher. The pool lives until all of these have come back.
 *
 * REJECTED
 *
 * A list of ended calls in the pool of a plain dispatcher, which o_look takes,
 * and a futex in o_sleep: while the dispatcher sleeps for descriptors, it would
 * have to look now and then.
 *
 * Native threads that are processors, each with a thread of its own: the slice
 * would have to be on the native stack. Condition variables: see park.h.
 * Handing the job to a native thread directly: this is a second way besides the
 * queue, and a native thread that becomes busy late would keep its job from
 * idle native threads. Detached native threads: they may run our code after
 * ucall_pool_free(). Those of abandoned look-ups do: nothing can end them. So a
 * plug-in that was linked with the library must not be unloaded meanwhile.
 *
 * One pool of look-ups for the process: it has no end at which its native
 * threads could be joined. A lock around look-ups that a fork takes: it would
 * wait for a deaf server.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "ucall.h"
#include "park.h"
#include "ufork.h"
#include "uproc_set.h"
#include "compiler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

UPREEMPT_NEVER;

/* An idle native thread ends after this time: longer than pauses in bursts. */
#if !defined(UCALL_IDLE_MS)
#define UCALL_IDLE_MS	5000
#endif

/* A member of a ring, or its head. lk_next is NULL: in no ring. */
struct link {
	struct link *lk_next;
	struct link *lk_prev;
};

enum job_state { QUEUED, BEGUN, ENDED, ABANDONED };

struct job {
	struct link          jb_link;	/* in ca_queue, or in no ring */
	void               (*jb_f)(void *);
	void                *jb_arg;
	void               (*jb_drop)(void *);	/* NULL: it is no look-up */
	enum job_state       jb_state;	/* under ca_lock */
	bool                 jb_sure;	/* no deadline: claimed after f() */
	struct uwait        *jb_wait;	/* not if it is ABANDONED */
	const struct ustack *jb_stack;	/* the caller, maybe of an earlier time */
	struct uproc_set    *jb_set;	/* of the caller; NULL: it is plain */
};

/* The wait and the job of a call that is no look-up. */
struct call {
	struct uwait cl_wait;		/* first */
	struct job   cl_job;
};

struct native {
	struct link na_link;		/* in ca_idle: first */
	int         na_asleep;		/* park.h */
	bool        na_joins;		/* it ends, and joins na_before */
	bool        na_alone;		/* its pool has ended before its f() */
	pthread_t   na_before;
};

struct ucall_pool {
	struct uwait_source     ca_source;	/* first; for plain ones */
	int                     ca_limit;
	int                     ca_forks;	/* uproc_forks when made */
	struct ucall_pool      *ca_names;	/* for look-ups, or NULL (atomic) */
	struct ucall_pool      *ca_main;	/* whose ca_names it is, or itself */
	pthread_mutex_t         ca_lock;	/* protects what follows */
	struct link             ca_queue;	/* jobs to be run */
	int                     ca_queued;
	int                     ca_coming;	/* see above (atomic) */
	struct link             ca_idle;	/* native threads */
	int                     ca_nr;		/* native threads (atomic) */
	int                     ca_abandoned;	/* native threads in f(), not in ca_nr */
	bool                    ca_stop;
	bool                    ca_over;	/* the last native thread frees it */
	bool                    ca_ended;	/* ca_last is to be joined */
	pthread_t               ca_last;
};

/* Look-ups of the process (atomic). */
static int looks_begun;		/* native threads in their f() */
static int looks_abandoned;	/* of looks_begun, those whose caller has gone */
static bool looks_lost;		/* an ancestor has forked meanwhile */

static int          queue_put(struct ucall_pool *c, struct job *j,
			      struct native **chosen);
static void         queue_out(struct ucall_pool *c, struct job *j);
static int          native_start(struct ucall_pool *c);
static void         pool_destroy(struct ucall_pool *c);
static void         look_f(void (*f)(void *), void *arg);
static void         link_init(struct link *head);
static bool         link_empty(const struct link *head);
static void         link_first(struct link *head, struct link *l);
static void         link_last(struct link *head, struct link *l);
static struct link *link_out(struct link *l);

/* Adds nr to ca_coming, and returns it. To subtract, caller holds ca_lock. */
static int coming(struct ucall_pool *c, int nr)
{
	return __atomic_add_fetch(&c->ca_coming, nr, __ATOMIC_RELAXED);
}

/* Returns whether an ancestor has made c, so its native threads are gone. */
static bool inherited(const struct ucall_pool *c)
{
	return c->ca_forks < uproc_forks;
}

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
static struct uwait_kind look_kind = { .wk_name = "look-up" };

/* Calls, by threads. */

/* Puts j in the queue, and wakes a native thread for it (B1). 0, -EAGAIN. */
static int job_begin(struct ucall_pool *c, struct job *j)
{
	struct native *chosen = NULL;
	int rc;

	pthread_mutex_lock(&c->ca_lock);
	rc = queue_put(c, j, &chosen);
	pthread_mutex_unlock(&c->ca_lock);
	USCHED_RACE(call_wake);
	if (chosen != NULL)
		upark_wake(&chosen->na_asleep);
	return rc;
}

static void hold(struct ucall_pool *c, struct uproc_set *set)
{
	if (set != NULL)
		uproc_hold(set);
	else
		uwait_source_begin(&c->ca_main->ca_source);
}

static void release(struct ucall_pool *c, struct uproc_set *set)
{
	if (set != NULL)
		uproc_release(set);
	else
		uwait_source_end(&c->ca_main->ca_source);
}

/* Adds nr to ca_nr. Caller holds ca_lock. */
static void natives(struct ucall_pool *c, int nr)
{
	__atomic_store_n(&c->ca_nr, c->ca_nr + nr, __ATOMIC_RELEASE);
}

/*
 * Leaves *j, whose wait has ended with rc, but not by a native thread. Returns rc;
 * 0: f() has returned meanwhile. *j becomes NULL if it is ABANDONED.
 */
static NOINLINE int job_leave(struct ucall_pool *c, struct job **j, int rc)
{
	struct job *it = *j;

	USCHED_RACE(call_leave);
	pthread_mutex_lock(&c->ca_lock);
	if (it->jb_state == ENDED)
		rc = 0;
	else if (it->jb_state == BEGUN) {
		it->jb_state = ABANDONED;
		natives(c, -1);
		c->ca_abandoned++;
		__atomic_add_fetch(&looks_abandoned, 1, __ATOMIC_RELAXED);
		*j = NULL;
	} else if (it->jb_link.lk_next != NULL)
		queue_out(c, it);
	pthread_mutex_unlock(&c->ca_lock);
	return rc;
}

/*
 * Waits for the end of *j, for whose wait memory is reserved. 0, -EAGAIN; else
 * the result of a wait that has ended otherwise: job_leave().
 */
static int job_wait(struct ucall_pool *c, struct job **j, utime_ns until)
{
	struct uproc_set *set = (*j)->jb_set;
	bool completed = false;
	int rc;

	hold(c, set);						/* B3 */
	rc = job_begin(c, *j);
	if (rc == 0) {
		rc = uwait_for((*j)->jb_wait, until);
		completed = rc == 0;
		if (!completed)
			rc = job_leave(c, j, rc);		/* B4 */
	}
	if (!completed || set == NULL)
		release(c, set);
	return rc;
}

/* Where the running thread calls: its pool, and its set, or NULL if it is plain. */
struct place {
	struct ucall_pool *pl_pool;
	struct uproc_set  *pl_set;
};

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
	usched_point();
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

/*
 * Puts j in the queue, and sets *chosen to the native thread to wake, if any.
 * Caller holds ca_lock. -EAGAIN: j is not in the queue.
 */
static int queue_put(struct ucall_pool *c, struct job *j, struct native **chosen)
{
	int rc = 0;

	link_last(&c->ca_queue, &j->jb_link);
	if (++c->ca_queued <= coming(c, 0))
		return 0;
	if (!link_empty(&c->ca_idle)) {
		*chosen = (struct native *)link_out(c->ca_idle.lk_next);
		coming(c, 1);
	} else
		rc = c->ca_nr + c->ca_abandoned < c->ca_limit ?
			native_start(c) : -EAGAIN;
	if (rc == 0 || c->ca_nr > 0)
		return 0;
	queue_out(c, j);
	return rc;
}

/* Takes j out of the queue. Caller holds ca_lock. */
static void queue_out(struct ucall_pool *c, struct job *j)
{
	link_out(&j->jb_link);
	c->ca_queued--;
}

/* Native threads. */

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

static struct job *job_of(struct link *l)
{
	return (struct job *)((char *)l - offsetof(struct job, jb_link));
}

/* Returns whether j, the first job, is to be run. Caller holds ca_lock. */
static bool is_wanted(const struct job *j)
{
	struct uwait *w = j->jb_wait;

	if (j->jb_drop != NULL)
		return __atomic_load_n(&w->w_state, __ATOMIC_RELAXED) ==
			UWAIT_WAITS;
	return j->jb_sure || uwait_claim(w);
}

/* Takes a job out of the queue, which begins. NULL: none. Caller holds ca_lock. */
static struct job *job_take(struct ucall_pool *c)
{
	struct job *j;

	while (!link_empty(&c->ca_queue)) {
		j = job_of(c->ca_queue.lk_next);
		queue_out(c, j);
		if (is_wanted(j)) {
			j->jb_state = BEGUN;
			return j;
		}
	}
	return NULL;
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

/* Posts or completes j, whose record is claimed. Then j may be freed. */
static void job_end(struct job *j)
{
	struct uproc_set *set = j->jb_set;
	struct uwait_base *b;

	if (set == NULL) {
		b = j->jb_stack->u_sched->s_waits;
		j->jb_wait->w_result = 0;
		b->wb_ops->o_post(b, j->jb_wait);		/* B5 */
		return;
	}
	uwait_complete(j->jb_wait, 0);
	USCHED_RACE(call_release);
	uproc_release(set);
}

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

static void job_run(struct ucall_pool *c, struct native *n, struct job *j)
{
	bool look = j->jb_drop != NULL;

	uproc_serves = j->jb_set;
	UPROC_WATCH(pw_calls(j->jb_stack, j->jb_f, true));
	if (look)
		look_f(j->jb_f, j->jb_arg);
	else
		j->jb_f(j->jb_arg);
	if (inherited(c))
		usched_fail("call: the function has returned in the child of a "
			    "fork(): it must exec or _exit there");
	UPROC_WATCH(pw_calls(j->jb_stack, j->jb_f, false));
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

/* From the beginning to the end. */

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
	c->ca_over = true;					/* B6 */
	last = c->ca_abandoned == 0;
	pthread_mutex_unlock(&c->ca_lock);
	if (last)
		pool_destroy(c);
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

/* Look-ups. */

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
	usched_point();
	c = names_of(at.pl_pool);
	w = c != NULL ? uwait_make(&look_kind, f, sizeof *w) : NULL;
	if (w == NULL)
		return c != NULL ? -errno : -ENOMEM;
	rc = look_wait(c, w, look, arg, until);
	uwait_free(w);
	return rc;
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

/* Links. */

static void link_init(struct link *head)
{
	head->lk_next = head->lk_prev = head;
}

static bool link_empty(const struct link *head)
{
	return head->lk_next == head;
}

/* Puts l between two neighbours. */
static void link_in(struct link *l, struct link *prev, struct link *next)
{
	l->lk_next = next;
	l->lk_prev = prev;
	prev->lk_next = next->lk_prev = l;
}

static void link_first(struct link *head, struct link *l)
{
	link_in(l, head, head->lk_next);
}

static void link_last(struct link *head, struct link *l)
{
	link_in(l, head->lk_prev, head);
}

static struct link *link_out(struct link *l)
{
	l->lk_next->lk_prev = l->lk_prev;
	l->lk_prev->lk_next = l->lk_next;
	l->lk_next = NULL;
	return l;
}
