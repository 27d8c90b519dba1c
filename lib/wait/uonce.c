/* SPDX-License-Identifier: MIT */
/* uonce.c: something that is done once. */

/*
 * The state says whether a thread runs the function, or has done so. The ring has
 * those that came meanwhile. If the function fails, the first of them runs its own.
 *
 * O1. Either a thread runs the function, or it is done, or no thread waits.
 */

#include "usync_inside.h"

static int see_once(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct uonce *)v->vs_object)->on_owner;
	return w->w_state == UWAIT_WAITS;
}

struct uwait_kind UWAIT_ONCE[1] = USYNC_KIND("once", "uonce", see_once);

/* Ends the caller's run of f, which was not the last: lets another begin. */
static void once_next(struct uonce *o, struct ulock *lock)
{
	struct usync *y = &o->on_sync;
	struct usync_wait *z = usync_take_first(&y->y_first);

	if (z != NULL)
		usync_own(&o->on_owner, z->z_self);
	usync_set(y, (z != NULL ? UONCE_RUNS : 0) | usync_queued(y->y_first));
	usync_lock_put(lock);
	if (z != NULL)
		uwait_complete(&z->z_wait, RETRY);
}

static void once_done(struct usync *y, struct ulock *lock)
{
	unsigned nr;
	struct usync_wait *all = usync_take_all(&y->y_first, &nr);

	usync_set(y, UONCE_DONE);
	usync_lock_put(lock);
	usync_complete_all(all, 0);
}

static int once_run(struct uonce *o, int (*f)(void *), void *arg)
{
	struct usync *y = &o->on_sync;
	int rc = f(arg);
	unsigned now = usync_state(y);

	usync_own(&o->on_owner, NULL);
	while (!(now & USYNC_QUEUED)) {
		if (usync_change(y, &now, rc == 0 ? UONCE_DONE : 0))
			return rc;
	}
	if (rc == 0)
		once_done(y, usync_enter(y));
	else
		once_next(o, usync_enter(y));
	return rc;
}

/* Waits for the end of another's run. RETRY: the caller is the next. */
static int once_wait(struct uonce *o, utime_ns until)
{
	struct usync *y = &o->on_sync;
	struct usync_wait *z;
	struct ulock *lock;
	unsigned now, more;
	int rc;

	z = usync_wait_make(y, UWAIT_ONCE, until, &rc);
	if (z == NULL)
		return rc;
	lock = usync_enter(y);
	now = usync_state(y);
	do
		more = now & UONCE_DONE ? 0 :
			now & UONCE_RUNS ? USYNC_QUEUED : UONCE_RUNS;
	while (!usync_change(y, &now, now | more));
	if (more == USYNC_QUEUED)
		usync_put_last(&y->y_first, z);
	else if (more == UONCE_RUNS)
		usync_own(&o->on_owner, z->z_self);
	usync_lock_put(lock);
	if (more == USYNC_QUEUED)
		return usync_wait_for(y, z, until);
	uwait_free(z);
	return more == UONCE_RUNS ? RETRY : 0;
}

int uonce(struct uonce *o, int (*f)(void *arg), void *arg, utime_ns until)
{
	struct usync *y = &o->on_sync;
	unsigned now;
	int rc;

	USYNC_CALL(y, UHARD_ONCE, "uonce");
	now = usync_acquired(y);
	while (!(now & (UONCE_RUNS | UONCE_DONE))) {
		if (usync_change(y, &now, now | UONCE_RUNS)) {
			usync_own(&o->on_owner, usync_self());
			return once_run(o, f, arg);
		}
	}
	if (now & UONCE_DONE)
		return 0;
	if (usync_owner(&o->on_owner) == usync_self())
		return -EDEADLK;
	rc = once_wait(o, until);
	return rc == RETRY ? once_run(o, f, arg) : rc;
}
