/* SPDX-License-Identifier: MIT */
/* uwork.c: jobs for a number of workers: bounded, by priority, with an end. */

/*
 * Each level is a channel of jobs. After the number of jobs was 0, a token is in
 * k_idle: a drainer takes it, looks at the number, and passes it on. The workers
 * and the maker hold k; the last frees it.
 */

#define USCHED_PREEMPT	1
#include "uwork.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

UPREEMPT_NEVER;

struct job {
	void (*j_f)(void *);
	void  *j_arg;
};

struct uwork {
#if defined(USCHED_HARD)
	struct uhard_object k_object;
#endif
	int           k_levels;
	int           k_workers;	/* that have not ended (atomic) */
	int           k_holders;	/* (atomic) */
	long          k_jobs;		/* waiting or running (atomic) */
	struct uchan *k_idle;
	struct uchan *k_level[UWORK_LEVELS];
};

/* Checks k at the beginning of a call. In the hard mode only. */
#define CALL(k, call)	\
	UHARD(object((k), &(k)->k_object.o_magic, UHARD_WORK, (call)))

static void job_ends(struct uwork *k)
{
	if (__atomic_sub_fetch(&k->k_jobs, 1, __ATOMIC_ACQ_REL) == 0)
		(void)uchan_send(k->k_idle, NULL, UNOW);
}

/* Takes a job. -EPIPE: there will be none; -ENOMEM. */
static int job_take(struct uwork *k, struct job *j)
{
	struct ucase a[UWORK_LEVELS];
	int i, rc;

	for (i = 0; i < k->k_levels; i++)
		a[i] = (struct ucase)UCASE_RECV(k->k_level[i], j);
	for (i = 0; i < k->k_levels; i++) {
		rc = uselect_ordered(a, k->k_levels, UNEVER);
		if (rc < 0 || a[rc].cs_result == 0)
			return rc < 0 ? rc : 0;
		a[rc].cs_chan = NULL;			/* closed */
	}
	return -EPIPE;
}

static void close_all(struct uwork *k)
{
	int i;

	for (i = 0; i < k->k_levels; i++)
		(void)uchan_close(k->k_level[i]);
}

/* Ends the part of nr holders. */
static void let_go(struct uwork *k, int nr)
{
	int i;

	if (__atomic_sub_fetch(&k->k_holders, nr, __ATOMIC_ACQ_REL) != 0)
		return;
	for (i = 0; i < k->k_levels; i++)
		uchan_free(k->k_level[i]);
	uchan_free(k->k_idle);
#if defined(USCHED_HARD)
	uhard_free(&k->k_object, k, sizeof *k);
#else
	free(k);
#endif
}

static void worker(void *arg)
{
	struct uwork *k = arg;
	struct job j;

	while ((k->k_levels > 1 ? job_take(k, &j) :
		uchan_recv(k->k_level[0], &j, UNEVER)) == 0) {
		j.j_f(j.j_arg);
		job_ends(k);
	}
	if (__atomic_sub_fetch(&k->k_workers, 1, __ATOMIC_ACQ_REL) == 0) {
		close_all(k);
		(void)uchan_close(k->k_idle);
	}
	let_go(k, 1);
}

/* Makes the channels of k. 0, -errno. */
static int channels_make(struct uwork *k, int levels, unsigned room)
{
	k->k_idle = uchan_make(0, 1);
	if (k->k_idle == NULL)
		return -errno;
	for (; k->k_levels < levels; k->k_levels++) {
		k->k_level[k->k_levels] = uchan_make(sizeof(struct job), room);
		if (k->k_level[k->k_levels] == NULL)
			return -errno;
	}
	return 0;
}

/* Returns what uwork_make() refuses, or 0. */
static int wrong(const struct ustack *u, int workers, int levels)
{
	if (workers < 1 || workers == INT_MAX || levels < 1 ||
	    levels > UWORK_LEVELS || u == NULL)
		return EINVAL;
	return u->u_sched->s_make == NULL ? ENOSYS : 0;
}

struct uwork *uwork_make(int workers, int levels, unsigned room)
{
	const struct ustack *u = ustack_self();
	struct uwork *k;
	int made = 0, rc;

	errno = wrong(u, workers, levels);
	if (errno != 0 || (k = calloc(1, sizeof *k)) == NULL)
		return NULL;
	k->k_workers = workers;
	k->k_holders = workers + 1;
	rc = channels_make(k, levels, room);
	while (rc == 0 && made < workers) {
		rc = u->u_sched->s_make(u->u_sched, worker, k, 0);
		made += rc == 0;
	}
	if (rc == 0)
		return k;
	close_all(k);
	UHARD(ends(&k->k_object, UHARD_WORK, "uwork_make"));
	let_go(k, workers + 1 - made);
	errno = -rc;
	return NULL;
}

int uwork_put(struct uwork *k, void (*f)(void *), void *arg, int level,
	      utime_ns until)
{
	struct job j = { f, arg };
	int rc;

	CALL(k, "uwork_put");
	if (f == NULL || level < 0 || level >= k->k_levels)
		return -EINVAL;
	__atomic_add_fetch(&k->k_jobs, 1, __ATOMIC_RELAXED);
	rc = uchan_send(k->k_level[level], &j, until);
	if (rc != 0)
		job_ends(k);
	return rc;
}

static int drain(struct uwork *k, utime_ns until)
{
	int rc;

	while (__atomic_load_n(&k->k_jobs, __ATOMIC_ACQUIRE) != 0) {
		rc = uchan_recv(k->k_idle, NULL, until);
		if (rc != 0 && __atomic_load_n(&k->k_jobs, __ATOMIC_ACQUIRE))
			return rc;
	}
	(void)uchan_send(k->k_idle, NULL, UNOW);	/* for others */
	return 0;
}

int uwork_drain(struct uwork *k, utime_ns until)
{
	CALL(k, "uwork_drain");
	return drain(k, until);
}

int uwork_free(struct uwork *k, utime_ns until)
{
	int rc;

	CALL(k, "uwork_free");
	close_all(k);
	rc = drain(k, until);
	if (rc != 0 && rc != -EPIPE)
		return rc;
	UHARD(ends(&k->k_object, UHARD_WORK, "uwork_free"));
	let_go(k, 1);
	return rc;
}
