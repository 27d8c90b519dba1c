/* SPDX-License-Identifier: MIT */
/* usem.c: semaphores. */

/*
 * The state counts the units that are free. A thread that finds none waits in
 * the ring.
 *
 * S1. A unit goes to the first that waits, or, if the ring is empty, to the
 *     state. So while a semaphore has units, its ring is empty.
 */

#define USEM_INLINE		/* functions for files with USCHED_PREEMPT */
#include "usync_inside.h"

struct uwait_kind UWAIT_SEM[1] = USYNC_KIND("sem", "usem_wait", NULL);

/* Takes a unit, or puts z into the ring. Returns whether it did the latter. */
static bool sem_put(struct usync *y, struct usync_wait *z)
{
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	bool has;

	do
		has = now >= USEM_UNIT;
	while (!usync_change(y, &now, has ? now - USEM_UNIT :
			     now | USYNC_QUEUED));
	if (!has)
		usync_put_last(&y->y_first, z);
	usync_lock_put(lock);
	return !has;
}

int usem_wait_slow(struct usem *s, utime_ns until)
{
	struct usync *y = &s->sm_sync;
	unsigned now = usync_state(y);
	struct usync_wait *z;
	int rc;

	while (now >= USEM_UNIT) {
		if (usync_change(y, &now, now - USEM_UNIT))
			return 0;
		now = usync_collide(y);
	}
	z = usync_wait_make(y, UWAIT_SEM, until, &rc);
	if (z == NULL)
		return rc;
	if (sem_put(y, z))
		return usync_wait_for(y, z, until);
	uwait_free(z);
	return 0;
}

/* Gives a unit while threads wait, or the count is full. */
static int sem_pass(struct usync *y)
{
	struct ulock *lock = usync_enter(y);
	struct usync_wait *z = usync_take_first(&y->y_first);
	unsigned now = usync_state(y);
	unsigned more = z == NULL ? USEM_UNIT : 0;
	int rc = 0;

	do {
		if (more != 0 && now / USEM_UNIT >= USYNC_MOST) {
			rc = -EOVERFLOW;
			break;
		}
	} while (!usync_change(y, &now, ((now & ~(unsigned)USYNC_QUEUED) |
					 usync_queued(y->y_first)) + more));
	usync_lock_put(lock);
	if (z != NULL)
		uwait_complete(&z->z_wait, 0);
	return rc;
}

int usem_post_slow(struct usem *s)
{
	struct usync *y = &s->sm_sync;
	unsigned now = usync_state(y);

	while (!(now & USYNC_QUEUED) && now / USEM_UNIT < USYNC_MOST) {
		if (usync_change(y, &now, now + USEM_UNIT))
			return 0;
		now = usync_collide(y);
	}
	return sem_pass(y);
}

unsigned usem_value(const struct usem *s)
{
	USYNC_LOOK(&s->sm_sync, UHARD_SEM, "usem_value");
	return usync_state(&s->sm_sync) / USEM_UNIT;
}

int usem_busy(const struct usem *s)
{
	USYNC_LOOK(&s->sm_sync, UHARD_SEM, "usem_busy");
	return usync_state(&s->sm_sync) & USYNC_QUEUED ? -EBUSY : 0;
}
