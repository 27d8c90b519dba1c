/* SPDX-License-Identifier: MIT */
/* ubarrier.c: barriers. */

/*
 * The ring has those that have come, and the state counts them. The last to come
 * takes all out, and does not wait.
 *
 * B1. A waiter in the ring of a barrier has come. A waiter that was taken out
 *     has been counted, and gets 0, even if its deadline was first.
 */

#include "usync_inside.h"

struct uwait_kind UWAIT_BARRIER[1] =
	USYNC_KIND("barrier", "ubarrier_wait", NULL);

enum { CAME = 4 };

/* Takes z out. True: the last has come, and has counted z. */
static bool barrier_give_up(struct usync *y, struct usync_wait *z)
{
	bool counted;

	usync_lock_get(z->z_lock);
	counted = z->z_prev == NULL;			/* B1 */
	if (!counted) {
		usync_take_out(&y->y_first, z);
		usync_set(y, usync_state(y) - CAME);
	}
	usync_lock_put(z->z_lock);
	return counted;
}

/* Lets all go on if the caller is the last. Else puts z, or NULL, in. */
static bool barrier_last(struct ubarrier *b, struct usync_wait *z)
{
	struct usync *y = &b->br_sync;
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	struct usync_wait *all = NULL;
	bool last = now / CAME + 1 == b->br_nr;
	unsigned nr;

	if (last) {
		all = usync_take_all(&y->y_first, &nr);
		usync_set(y, 0);
	} else if (z != NULL) {
		usync_put_last(&y->y_first, z);
		usync_set(y, now + CAME);
	}
	usync_lock_put(lock);
	usync_complete_all(all, 0);
	return last;
}

int ubarrier_wait(struct ubarrier *b, utime_ns until)
{
	struct usync *y = &b->br_sync;
	struct usync_wait *z;
	int rc;

	USYNC_CALL(y, UHARD_BARRIER, "ubarrier_wait");
	if (b->br_nr < 1 || b->br_nr > USYNC_MOST)
		return -EINVAL;
	if (usync_state(y) / CAME + 1 == b->br_nr && barrier_last(b, NULL))
		return 1;
	z = usync_wait_make(y, UWAIT_BARRIER, until, &rc);
	if (z == NULL)
		return rc;
	if (barrier_last(b, z))
		rc = 1;
	else {
		rc = uwait_for(&z->z_wait, until);
		if (rc < 0 && barrier_give_up(y, z))
			rc = 0;
	}
	uwait_free(z);
	return rc;
}

void ubarrier_init(struct ubarrier *b, unsigned nr)
{
	*b = (struct ubarrier)UBARRIER(nr);
}

int ubarrier_busy(const struct ubarrier *b)
{
	USYNC_LOOK(&b->br_sync, UHARD_BARRIER, "ubarrier_busy");
	return usync_busy(&b->br_sync);
}
