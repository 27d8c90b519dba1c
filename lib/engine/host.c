/* SPDX-License-Identifier: MIT */
/* host.c: host workers, which report their own work, and may run tasks. */

#include "inside.h"

/* Host workers. */

int engine_host_attach(void)
{
	int i, rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = -EAGAIN;
	for (i = 0; rc < 0 && i < e->e_host_workers; i++) {
		struct native *k = &e->e_native[e->e_c_workers + i];

		if (k->nt_attached)
			continue;
		k->nt_attached = true;
		engine_clock_note(k);
		rc = i;
	}
	engine_unlock();
	return rc;
}

/* Takes the lock, returns a host worker. NULL: *rc is set, lock not taken. */
static struct native *host_enter(int host, int *rc)
{
	*rc = engine_enter();
	if (*rc != 0)
		return NULL;
	if (host >= 0 && host < e->e_host_workers &&
	    e->e_native[e->e_c_workers + host].nt_attached)
		return &e->e_native[e->e_c_workers + host];
	*rc = -EINVAL;
	engine_unlock();
	return NULL;
}

int engine_host_report(int host, const char *task)
{
	struct native *k;
	int rc;

	k = host_enter(host, &rc);
	if (k == NULL)
		return rc;
	if ((task == NULL || task[0] == '\0') && k->nt_task[0] != '\0') {
		k->nt_completed++;
		k->nt_last = unow();
	}
	engine_name(k->nt_task, task);
	engine_unlock();
	return 0;
}

int engine_host_detach(int host)
{
	struct native *k;
	int rc;

	k = host_enter(host, &rc);
	if (k == NULL)
		return rc;
	k->nt_attached = k->nt_clocked = false;
	k->nt_task[0]  = '\0';
	engine_unlock();
	return 0;
}

/* Helpers. */

/* Takes a task for the helper r. Caller holds the lock. */
static bool help_take(struct runner *r, struct claimed *l)
{
	struct task *t = engine_dequeue(true);
	struct native *k = engine_native_of(r);

	if (t == NULL)
		return false;
	engine_begin(t, r);
	r->r_begun = unow();
	e->e_helping++;
	engine_runner_in(r);
	if (k != NULL)
		__atomic_store_n(&k->nt_current, r, __ATOMIC_RELAXED);
	engine_give_room(l);
	(void)engine_send_for(l);
	return true;
}

/* Runs the task of the helper r. Caller holds the lock; released. */
static void help_run(struct runner *r, struct claimed *l)
{
	engine_helper_set(r);
	engine_run(r, l);
	engine_gone(r);
	engine_helper_set(NULL);
	e->e_helping--;
	e->e_helped++;
	engine_runner_out(r);
	r->r_stopped = false;
	engine_give_room(l);
	engine_complete(l);
}

/*
 * Waits for a task of the helper r. 1: it has begun, and the lock is held; 0:
 * the deadline has passed; or an error.
 */
static int help_get(struct runner *r, utime_ns until, struct claimed *l)
{
	struct waiter *a = NULL;
	int rc;

	for (;;) {
		rc = engine_enter();
		if (rc == 0 && e->e_state == OPEN && help_take(r, l))
			rc = 1;
		else if (rc == 0 && a != NULL && e->e_state == OPEN) {
			(void)engine_wait_in(&e->e_helpers, a, until, l,
					     &rc);
			a = NULL;
		} else if (rc == 0) {
			rc = e->e_state == OPEN ? 0 : -ESHUTDOWN;
			engine_complete(l);
			if (rc == 0)
				a = engine_waiter(until, &rc);
		}
		if (rc != 0)
			break;
	}
	if (a != NULL)
		uwait_free(a);
	return rc == -EAGAIN || rc == -ETIMEDOUT ? 0 : rc;
}

int engine_help(int host, int nr, utime_ns until)
{
	struct runner r = { .r_thread = -1 };
	struct claimed l = { NULL };
	struct native *k;
	int rc, done = 0;

	if (nr < 1 || until < 0)
		return -EINVAL;
	if (engine_here() != NULL)
		return -EDEADLK;
	if (ustack_self() != NULL)
		return -EINVAL;
	if (host != -1) {
		k = host_enter(host, &rc);
		if (k == NULL)
			return rc;
		r.r_thread = (int)(k - e->e_native);
		engine_unlock();
	}
	while (done < nr) {
		rc = help_get(&r, done > 0 ? UNOW : until, &l);
		if (rc != 1)
			break;
		help_run(&r, &l);
		done++;
	}
	return done > 0 ? done : rc;
}
