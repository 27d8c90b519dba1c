/* SPDX-License-Identifier: MIT */
/* pool.c: a pool of threads, by functions of pthreads alone. */

/*
 * The queue is a ring, under a lock that a worker releases while it runs a job.
 * Workers wait for a job, callers of pool_add() for room, callers of
 * pool_wait() until no job is left.
 *
 * The pool is on the heap, not on the stack of its maker. So a port needs no
 * change here: see pthreads.h.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "pool.h"

struct job {
	void (*j_f)(void *arg);
	void  *j_arg;
};

struct pool {
	pthread_mutex_t p_lock;		/* protects the fields up to p_end */
	pthread_cond_t  p_more;		/* a job has come, or the end */
	pthread_cond_t  p_space;	/* the queue is no longer full */
	pthread_cond_t  p_done;		/* no job is left */
	struct job     *p_job;		/* a ring */
	int             p_room;
	int             p_first;
	int             p_nr;		/* jobs in the ring */
	int             p_left;		/* jobs in the ring, and jobs that run */
	bool            p_end;
	int             p_workers;	/* the maker's */
	pthread_t       p_worker[];
};

static void must(int rc)
{
	if (rc != 0)
		abort();
}

static void lock(struct pool *p)
{
	must(pthread_mutex_lock(&p->p_lock));
}

static void unlock(struct pool *p)
{
	must(pthread_mutex_unlock(&p->p_lock));
}

/* Waits for a signal. Caller holds the lock. */
static void await(struct pool *p, pthread_cond_t *c)
{
	must(pthread_cond_wait(c, &p->p_lock));
}

/* Takes a job, or waits for a job. False: the end. Caller holds the lock. */
static bool take(struct pool *p, struct job *job)
{
	while (p->p_nr == 0 && !p->p_end)
		await(p, &p->p_more);
	if (p->p_nr == 0)
		return false;
	*job = p->p_job[p->p_first];
	p->p_first = (p->p_first + 1) % p->p_room;
	p->p_nr--;
	must(pthread_cond_signal(&p->p_space));
	return true;
}

static void *work(void *arg)
{
	struct pool *p = arg;
	struct job job;

	lock(p);
	while (take(p, &job)) {
		unlock(p);
		job.j_f(job.j_arg);
		lock(p);
		if (--p->p_left == 0)
			must(pthread_cond_broadcast(&p->p_done));
	}
	unlock(p);
	return NULL;
}

void pool_add(struct pool *p, void (*f)(void *arg), void *arg)
{
	lock(p);
	while (p->p_nr == p->p_room)
		await(p, &p->p_space);
	p->p_job[(p->p_first + p->p_nr++) % p->p_room] =
		(struct job) { f, arg };
	p->p_left++;
	must(pthread_cond_signal(&p->p_more));
	unlock(p);
}

void pool_wait(struct pool *p)
{
	lock(p);
	while (p->p_left > 0)
		await(p, &p->p_done);
	unlock(p);
}

struct pool *pool_make(int workers, int room)
{
	size_t size = sizeof(struct pool) + workers * sizeof(pthread_t);
	struct pool *p = workers < 1 || room < 1 ? NULL : calloc(1, size);

	if (p == NULL || (p->p_job = calloc(room, sizeof(struct job))) == NULL) {
		free(p);
		return NULL;
	}
	p->p_room = room;
	must(pthread_mutex_init(&p->p_lock, NULL));
	must(pthread_cond_init(&p->p_more, NULL));
	must(pthread_cond_init(&p->p_space, NULL));
	must(pthread_cond_init(&p->p_done, NULL));
	for (; p->p_workers < workers; p->p_workers++) {
		if (pthread_create(&p->p_worker[p->p_workers], NULL, work, p)) {
			pool_free(p);
			return NULL;
		}
	}
	return p;
}

void pool_free(struct pool *p)
{
	int i;

	if (p == NULL)
		return;
	lock(p);
	p->p_end = true;
	must(pthread_cond_broadcast(&p->p_more));
	unlock(p);
	for (i = 0; i < p->p_workers; i++)
		must(pthread_join(p->p_worker[i], NULL));
	must(pthread_cond_destroy(&p->p_done));
	must(pthread_cond_destroy(&p->p_space));
	must(pthread_cond_destroy(&p->p_more));
	must(pthread_mutex_destroy(&p->p_lock));
	free(p->p_job);
	free(p);
}
