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
 * A job is a wait record (uwait.h) with a function behind it, since no native
 * thread may use a pointer to the stack of a thread that waits. A native thread
 * takes it out of ca_queue, calls f(), claims the record, and completes it.
 * After that it does not touch the job.
 *
 * The caller reserves all memory for its wait before its job is in the queue
 * (uwait_reserve()), since a job that has begun cannot be taken back.
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
 * B2. No more than ca_limit native threads run f(). Jobs begin in the order in
 *     which they were put in the queue.
 * B3. A caller that waits holds the set. The hold begins before its job is in
 *     the queue, and ends after the completion. The hold of a plain dispatcher
 *     is a wait of the pool as a source, and its caller ends it.
 * B4. A caller whose job was in the queue does not return before that was
 *     completed.
 * B5. After a native thread has posted a record, it uses nothing of a plain
 *     dispatcher but its base, and what that sleeps by. Both outlive the pool.
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
 * ucall_pool_free().
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

static struct uwait_kind call_kind = { .wk_name = "call" };

struct job {
	struct uwait       jb_wait;	/* first */
	struct link        jb_link;	/* in ca_queue, or in no ring */
	void             (*jb_f)(void *);
	void              *jb_arg;
	struct ucall_pool *jb_pool;
	struct uproc_set  *jb_set;	/* of the caller; NULL: it is plain, */
	struct uwait_base *jb_base;	/* and this is its base */
};

struct native {
	struct link na_link;		/* in ca_idle: first */
	int         na_asleep;		/* park.h */
	bool        na_joins;		/* it ends, and joins na_before */
	pthread_t   na_before;
};

struct ucall_pool {
	struct uwait_source     ca_source;	/* first; for plain ones */
	int                     ca_limit;
	int                     ca_forks;	/* uproc_forks when made */
	pthread_mutex_t         ca_lock;	/* protects what follows */
	struct link             ca_queue;	/* jobs to be run */
	int                     ca_queued;
	int                     ca_coming;	/* see above (atomic) */
	struct link             ca_idle;	/* native threads */
	int                     ca_nr;		/* native threads (atomic) */
	bool                    ca_stop;
	bool                    ca_ended;	/* ca_last is to be joined */
	pthread_t               ca_last;
};

static int          queue_put(struct ucall_pool *c, struct job *j,
			      struct native **chosen);
static void         queue_out(struct ucall_pool *c, struct job *j);
static int          native_start(struct ucall_pool *c);
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

static void hold(const struct job *j)
{
	if (j->jb_set != NULL)
		uproc_hold(j->jb_set);
	else
		uwait_source_begin(&j->jb_pool->ca_source);
}

static void release(const struct job *j)
{
	if (j->jb_set != NULL)
		uproc_release(j->jb_set);
	else
		uwait_source_end(&j->jb_pool->ca_source);
}

/* Waits for the end of j, for whose wait memory is reserved. 0, -EAGAIN. */
static int job_wait(struct ucall_pool *c, struct job *j)
{
	int rc;

	hold(j);						/* B3 */
	rc = job_begin(c, j);
	if (rc == 0)
		rc = uwait_for(&j->jb_wait, UNEVER);		/* B4 */
	if (rc != 0 || j->jb_set == NULL)
		release(j);
	return rc;
}

/* Has f(arg) called for the running thread, whose set is NULL if it is plain. */
static int call_by(struct ucall_pool *c, struct uproc_set *set,
		   void (*f)(void *), void *arg)
{
	struct job *j;
	int rc;

	if (inherited(c))
		return -ECHILD;
	ustack_lawful("ucall: the argument", arg);
	usched_point();
	j = uwait_make(&call_kind, f, sizeof *j);
	if (j == NULL)
		return -errno;
	j->jb_f    = f;
	j->jb_arg  = arg;
	j->jb_pool = c;
	j->jb_set  = set;
	j->jb_base = j->jb_wait.w_stack->u_sched->s_waits;
	j->jb_wait.w_flags |= UWAIT_SURE;
	rc = uwait_reserve(UNEVER);
	if (rc == 0)
		rc = job_wait(c, j);
	uwait_free(j);
	return rc;
}

int ucall_pool_call(struct ucall_pool *c, struct uproc_thread *self,
		    void (*f)(void *), void *arg)
{
	if (c == NULL || self == NULL || f == NULL)
		return -EINVAL;
	return call_by(c, uproc_of(self)->p_set, f, arg);
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
	} else if (c->ca_nr < c->ca_limit)
		rc = native_start(c);
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
	__atomic_store_n(&c->ca_nr, c->ca_nr - 1, __ATOMIC_RELEASE);
}

static struct job *job_of(struct link *l)
{
	return (struct job *)((char *)l - offsetof(struct job, jb_link));
}

/* Returns the first job, as soon as there is a job. NULL: n has to end. */
static struct job *job_next(struct ucall_pool *c, struct native *n)
{
	struct job *j = NULL;
	bool more = true;

	pthread_mutex_lock(&c->ca_lock);
	while (link_empty(&c->ca_queue) && more && !c->ca_stop)
		more = idle(c, n);
	if (link_empty(&c->ca_queue))
		native_leave(c, n);
	else {
		j = job_of(c->ca_queue.lk_next);
		queue_out(c, j);
		coming(c, -1);
	}
	pthread_mutex_unlock(&c->ca_lock);
	return j;
}

/* Posts or completes j, whose record is claimed. Then j may be freed. */
static void job_end(struct job *j)
{
	struct uproc_set *set = j->jb_set;
	struct uwait_base *b = j->jb_base;

	if (set == NULL) {
		j->jb_wait.w_result = 0;
		b->wb_ops->o_post(b, &j->jb_wait);		/* B5 */
		return;
	}
	uwait_complete(&j->jb_wait, 0);
	USCHED_RACE(call_release);
	uproc_release(set);
}

static void job_run(struct ucall_pool *c, struct job *j)
{
	uproc_serves = j->jb_set;
	UPROC_WATCH(pw_calls(j->jb_wait.w_stack, j->jb_f, true));
	j->jb_f(j->jb_arg);
	if (inherited(c))
		usched_fail("call: the function has returned in the child of a "
			    "fork(): it must exec or _exit there");
	UPROC_WATCH(pw_calls(j->jb_wait.w_stack, j->jb_f, false));
	coming(c, 1);		/* before the next call of the caller */
	USCHED_RACE(call_claim);
	(void)uwait_claim(&j->jb_wait);
	USCHED_RACE(call_complete);
	job_end(j);
}

static void native_reap(pthread_t id)
{
	if (pthread_join(id, NULL) != 0)
		usched_fail("call: the function has detached its native thread");
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

	while ((j = job_next(c, n)) != NULL)
		job_run(c, j);
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
	__atomic_store_n(&c->ca_nr, c->ca_nr + 1, __ATOMIC_RELAXED);
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

void ucall_pool_free(struct ucall_pool *c)
{
	if (c == NULL || inherited(c))
		return;
	native_stop(c);
	pthread_mutex_destroy(&c->ca_lock);
	free(c);
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

/* Does what ucall() does, in a thread of a plain dispatcher. */
static int call_plain(void (*f)(void *), void *arg)
{
	struct ucall_pool *c;

	if (ustack_self()->u_sched->s_wait == NULL)
		return -ENOSYS;
	c = (struct ucall_pool *)uwait_source_of(pool_look);
	if (c == NULL)
		c = pool_add();
	return c == NULL ? -ENOMEM : call_by(c, NULL, f, arg);
}

int ucall(void (*f)(void *), void *arg)
{
	struct uproc_set *set = uproc_running();
	struct ucall_pool *c;

	if (uproc_lost())
		return -ECHILD;
	if (f == NULL || ustack_self() == NULL)
		return -EINVAL;
	if (set == NULL)
		return call_plain(f, arg);
	c = pool_of(set);
	return c == NULL ? -ENOMEM : call_by(c, set, f, arg);
}

int ucall_limit(int nr)
{
	if (nr < 1)
		return -EINVAL;
	__atomic_store_n(&most, nr, __ATOMIC_RELAXED);
	return 0;
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
