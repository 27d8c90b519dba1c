/* SPDX-License-Identifier: MIT */
/* host.c: host workers, which tell what they do, and may run tasks. */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"

#include <string.h>

UPREEMPT_NEVER;

#define e engine_all		/* in this file */

#define NOINLINE	__attribute__((noinline))

static __thread struct runner *helping;	/* of a native thread */

/* Not inline: a thread may go on in another native thread. */
NOINLINE struct runner *engine_helper(void)
{
	return helping;
}

void engine_host_forked(void)
{
	helping = NULL;
}

/* Host workers. */

int engine_host_attach(void)
{
	int i, rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = -EAGAIN;
	for (i = 0; rc < 0 && i < e.e_hosts; i++) {
		struct worker *k = &e.e_worker[e.e_workers + i];

		if (k->k_attached)
			continue;
		k->k_attached = true;
		engine_worker_known(k);
		rc = i;
	}
	engine_leave();
	return rc;
}

/* Returns a host worker, and takes the lock. NULL: *rc is set, no lock. */
static struct worker *host_enter(int host, int *rc)
{
	*rc = engine_enter();
	if (*rc != 0)
		return NULL;
	if (host >= 0 && host < e.e_hosts &&
	    e.e_worker[e.e_workers + host].k_attached)
		return &e.e_worker[e.e_workers + host];
	*rc = -EINVAL;
	engine_leave();
	return NULL;
}

int engine_host_tell(int host, const char *task)
{
	size_t length = task != NULL ? strlen(task) : 0;
	struct worker *k;
	int rc;

	k = host_enter(host, &rc);
	if (k == NULL)
		return rc;
	length = length < ENGINE_NAME ? length : ENGINE_NAME - 1;
	if (length != 0)
		memcpy(k->k_task, task, length);
	else if (k->k_task[0] != '\0') {
		k->k_completed++;
		k->k_last = unow();
	}
	k->k_task[length] = '\0';
	engine_leave();
	return 0;
}

int engine_host_detach(int host)
{
	struct worker *k;
	int rc;

	k = host_enter(host, &rc);
	if (k == NULL)
		return rc;
	k->k_attached = k->k_known = false;
	k->k_task[0]  = '\0';
	engine_leave();
	return 0;
}

/* Helpers. */

/* Takes a task for the helper r. Caller holds the lock. */
static bool help_take(struct runner *r, struct tell *l)
{
	struct task *t = engine_dequeue(true, l);
	struct worker *k = engine_worker_of(r);

	if (t == NULL)
		return false;
	engine_begin(t, r);
	r->r_begun = unow();
	e.e_helping++;
	engine_runner_in(r);
	if (k != NULL)
		__atomic_store_n(&k->k_current, r, __ATOMIC_RELAXED);
	(void)engine_send_for(l);
	return true;
}

/* Runs the task of the helper r. Caller holds the lock, which is put. */
static void help_run(struct runner *r, struct tell *l)
{
	helping = r;
	engine_run(r, l);
	helping = NULL;
	e.e_helping--;
	e.e_helped++;
	engine_runner_out(r);
	r->r_stopped = false;
	engine_tell(l);
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
			(void)engine_wait_in(&e.e_helpers, a, false, until,
					     &rc);
			a = NULL;
		} else if (rc == 0) {
			rc = e.e_state == OPEN ? 0 : -ESHUTDOWN;
			engine_tell(l);
			if (rc == 0)
				a = engine_waiter(false, until, &rc);
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

	if (nr < 1 || until < 0)
		return -EINVAL;
	if (engine_here() != NULL)
		return -EDEADLK;
	rc = ustack_self() != NULL ? -EINVAL : help_host(&r, host);
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
