/* SPDX-License-Identifier: MIT */
/* jobs.h: the queue of a pool, and the wait for a job. A part of ucall.c. */

#ifndef UCALL_JOBS_H
#define UCALL_JOBS_H

/*
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
 * INVARIANTS
 *
 * B3. A caller that waits holds the set. The hold begins before its job is in
 *     the queue, and ends after the completion. The hold of a plain dispatcher
 *     is a wait of the pool as a source, and its caller ends it.
 * B4. A caller whose job was in the queue does not return before that was
 *     completed, or taken out of the queue under ca_lock, or is ABANDONED.
 * B5. After a native thread has posted a record, it uses nothing of a plain
 *     dispatcher but its base, and what that sleeps by. Both outlive the pool.
 */

#include "ucall.h"
#include "compiler.h"
#include "park.h"
#include "uproc_set.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

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

struct native {
	struct link na_link;		/* in ca_idle: first */
	int         na_asleep;		/* park.h */
	bool        na_joins;		/* it ends, and joins na_before */
	bool        na_alone;		/* its pool has ended before its f() */
	pthread_t   na_before;
};

struct ucall_pool {
	struct uwait_source     ca_source;	/* first; of a plain dispatcher */
	int                     ca_limit;
	int                     ca_forks;	/* uproc_forks when made */
	struct ucall_pool      *ca_names;	/* for look-ups, or NULL (atomic) */
	struct ucall_pool      *ca_main;	/* whose ca_names it is, or itself */
	pthread_mutex_t         ca_lock;	/* protects what follows */
	struct link             ca_queue;	/* jobs to be run */
	int                     ca_queued;
	int                     ca_coming;	/* see pool_threads.h (atomic) */
	struct link             ca_idle;	/* native threads */
	int                     ca_nr;		/* native threads (atomic) */
	int                     ca_abandoned;	/* native threads in f(), not in ca_nr */
	bool                    ca_stop;
	bool                    ca_over;	/* the last native thread frees it */
	bool                    ca_ended;	/* ca_last is to be joined */
	pthread_t               ca_last;
};

/* Where the running thread calls: its pool, and its set, or NULL if it is plain. */
struct place {
	struct ucall_pool *pl_pool;
	struct uproc_set  *pl_set;
};

/* Look-ups in their f() whose caller has gone, of the process (atomic). */
static int looks_abandoned;

static int native_start(struct ucall_pool *c);

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

/* The queue. */

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

/* Adds nr to ca_nr. Caller holds ca_lock. */
static void natives(struct ucall_pool *c, int nr)
{
	__atomic_store_n(&c->ca_nr, c->ca_nr + nr, __ATOMIC_RELEASE);
}

/* Takes j out of the queue. Caller holds ca_lock. */
static void queue_out(struct ucall_pool *c, struct job *j)
{
	link_out(&j->jb_link);
	c->ca_queued--;
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

/* Callers. */

/* Puts j in the queue, and wakes a native thread for it: pool_threads B1. 0, -EAGAIN. */
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

#endif /* UCALL_JOBS_H */
