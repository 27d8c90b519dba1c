/* SPDX-License-Identifier: MIT */
/* ugroup.c: wait groups. */

/*
 * The state counts what is under way. The ring has those that wait for its end.
 *
 * G1. With waiters, the count becomes 0 under the lock, as the last touch.
 */

#include "usync_inside.h"

struct uwait_kind UWAIT_GROUP[1] = USYNC_KIND("group", "ugroup_wait", NULL);

/* Makes the count of y 0, while threads wait. False: *now has changed. */
static bool group_end(struct usync *y, unsigned *now)
{
	struct ulock *lock = usync_enter(y);
	struct usync_wait *first = y->y_first;
	struct usync_wait *all = NULL;
	unsigned nr;
	bool ended;

	y->y_first = NULL;
	ended = usync_change(y, now, 0);
	if (ended)			/* y may be free: G1 */
		all = usync_take_all(&first, &nr);
	else
		y->y_first = first;
	usync_lock_put(lock);
	usync_complete_all(all, 0);
	return ended;
}

static int group_add(struct ugroup *g, int nr)
{
	struct usync *y = &g->gr_sync;
	unsigned now = usync_state(y);
	bool done;

	do {
		long long sum = (long long)(now / UGROUP_UNIT) + nr;

		if (sum < 0 || sum > USYNC_MOST)
			return sum < 0 ? -EINVAL : -EOVERFLOW;
		if (sum == 0 && now & USYNC_QUEUED)
			done = group_end(y, &now);
		else
			done = usync_change(y, &now,
					    now + (unsigned)nr * UGROUP_UNIT);
	} while (!done);
	return 0;
}

int ugroup_add(struct ugroup *g, int nr)
{
	USYNC_CALL(&g->gr_sync, UHARD_GROUP, "ugroup_add");
	return group_add(g, nr);
}

void ugroup_done(struct ugroup *g)
{
	USYNC_CALL(&g->gr_sync, UHARD_GROUP, "ugroup_done");
	if (group_add(g, -1) != 0)
		usched_fail("ugroup_done: the count is 0");
}

int ugroup_wait(struct ugroup *g, utime_ns until)
{
	struct usync *y = &g->gr_sync;
	struct usync_wait *z;
	struct ulock *lock;
	unsigned now;
	int rc;

	USYNC_CALL(y, UHARD_GROUP, "ugroup_wait");
	if (usync_acquired(y) < UGROUP_UNIT)
		return 0;
	z = usync_wait_make(y, UWAIT_GROUP, until, &rc);
	if (z == NULL)
		return rc;
	lock = usync_enter(y);
	now = usync_acquired(y);
	while (now >= UGROUP_UNIT && !usync_change(y, &now, now | USYNC_QUEUED))
		;
	if (now >= UGROUP_UNIT)
		usync_put_last(&y->y_first, z);
	usync_lock_put(lock);
	if (now >= UGROUP_UNIT)
		return usync_wait_for(y, z, until);
	uwait_free(z);
	return 0;
}

int ugroup_busy(const struct ugroup *g)
{
	USYNC_LOOK(&g->gr_sync, UHARD_GROUP, "ugroup_busy");
	return usync_busy(&g->gr_sync);
}
