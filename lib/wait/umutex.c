/* SPDX-License-Identifier: MIT */
/* umutex.c: mutexes. */

/*
 * An unlock does not give the mutex to the first waiter, because all others
 * would then wait until that waiter runs, perhaps on a processor that sleeps.
 * The mutex is left free, and the first waiter is woken to try again.
 *
 *	TAKEN	a thread holds the mutex
 *	WOKEN	a waiter has left the ring, and is on its way to try again
 *	RESERVED the mutex is free, but only such a waiter may take it
 *
 * M1. If QUEUED is set, then so is TAKEN or WOKEN. So there is an unlock to
 *     come that looks at the ring.
 * M2. While WOKEN is set, unlocks wake no other waiter.
 * M3. A woken waiter clears WOKEN: as it takes the mutex, or as it goes to the
 *     head of the ring. Then the next unlock gives the mutex to it, so it loses
 *     at most once.
 * M4. While WOKEN is set, UMUTEX_BYPASS unlocks leave the mutex to all. The
 *     next sets RESERVED. So a thread that never waits between its locks has to,
 *     and the woken waiter runs. If the waiter is at home elsewhere, it comes
 *     by itself, unless its cpu has other work: then all would wait for that.
 *     So it may be passed over longer, up to about a millisecond.
 *
 * REJECTED
 *
 * An unlock that gives the mutex to the first that waits, where spins have been
 * in vain: if ten threads yield while they hold it, there is a wait for each
 * lock either way. Newcomers lock without a wait as often as waiters lose.
 */

#define UMUTEX_INLINE		/* functions for files with USCHED_PREEMPT */
#include "usync_inside.h"

static int see_mutex(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct umutex *)v->vs_object)->mx_owner;
	return w->w_state == UWAIT_WAITS;
}

struct uwait_kind UWAIT_MUTEX[1] = USYNC_KIND("mutex", "umutex_lock", see_mutex);

/* Bits that keep a caller from taking a mutex, and those that it clears. */
#define BARS(woken)	((woken) ? UMUTEX_TAKEN : UMUTEX_TAKEN | UMUTEX_RESERVED)
#define CLEARS(woken)	((woken) ? UMUTEX_WOKEN | UMUTEX_RESERVED : 0u)

/*
 * Puts z into the ring of m, and returns true; or takes m for the caller. If
 * the caller was woken, it goes first, and is no longer on its way: M3. z may
 * be NULL then.
 */
bool umutex_put(struct umutex *m, struct usync_wait *z, bool woken)
{
	struct usync *y = &m->mx_sync;
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	unsigned more;

	do {
		more = !(now & BARS(woken)) ? UMUTEX_TAKEN :
			z != NULL ? USYNC_QUEUED : 0;
	} while (!usync_change(y, &now, (now & ~CLEARS(woken)) | more));
	if (woken || usync_hint(y) == 0)
		usync_hint_set(y, (now | more) & USYNC_QUEUED);
	if (more == UMUTEX_TAKEN)
		usync_own(&m->mx_owner, usync_self());
	else if (woken && z != NULL) {
		z->z_first = true;
		usync_put_first(&y->y_first, z);
	} else if (z != NULL)
		usync_put_last(&y->y_first, z);
	usync_lock_put(lock);
	return more != UMUTEX_TAKEN;
}

/* Takes m if it is free or, if the caller may spin, gets free. */
bool umutex_take(struct umutex *m, bool woken, bool may_spin)
{
	struct usync *y = &m->mx_sync;
	unsigned now;

	for (;;) {
		now = usync_state(y);
		while (!(now & BARS(woken))) {
			if (!usync_change(y, &now, (now & ~CLEARS(woken)) |
					  UMUTEX_TAKEN))
				continue;
			usync_own(&m->mx_owner, usync_self());
			if (woken || now == 0)
				usync_hint_set(y, now & USYNC_QUEUED);
			return true;
		}
		if (!may_spin || usync_owner(&m->mx_owner) == usync_self() ||
		    !usync_spin(y, BARS(woken), &m->mx_owner))
			return false;
	}
}

/* Returns a record for another wait like that of z, which it is or replaces. */
static struct usync_wait *again(struct usync_wait *z, const struct usync *y,
				utime_ns until)
{
	struct usync_wait *other = z;
	int rc;

	if (z->z_wait.w_base == NULL) {
		z->z_wait.w_state  = UWAIT_WAITS;
		z->z_wait.w_at.object = y;
	} else if ((other = usync_wait_make(y, UWAIT_MUTEX, until, &rc)) != NULL)
		uwait_free(z);
	return other;
}

/* Waits until m is the caller's, whose record is in the ring of m. */
int umutex_wait(struct umutex *m, struct usync_wait **at, utime_ns until)
{
	struct usync_wait *z = *at;
	int rc;

	while ((rc = uwait_for(&z->z_wait, until)) != GIVEN) {
		if (rc < 0) {
			usync_give_up(&m->mx_sync, z);
			return rc;
		}
		if (umutex_take(m, true, true))
			break;
		z = again(z, &m->mx_sync, until);
		if (z != NULL)
			*at = z;
		if (!umutex_put(m, z, true))
			break;
		if (z == NULL)
			return -ENOMEM;
	}
	return 0;
}

int umutex_lock_slow(struct umutex *m, utime_ns until)
{
	struct usync *y = &m->mx_sync;
	struct usync_wait *z;
	int rc;

	if (umutex_take(m, false, until > UNOW)) {
		UHARD(hold(m, UHARD_MUTEX));
		return 0;
	}
	if (usync_owner(&m->mx_owner) == usync_self())
		return -EDEADLK;
	z = usync_wait_make(y, UWAIT_MUTEX, until, &rc);
	if (z == NULL)
		return rc;
	rc = umutex_put(m, z, false) ? umutex_wait(m, &z, until) : 0;
	uwait_free(z);
	if (rc == 0)
		UHARD(hold(m, UHARD_MUTEX));
	return rc;
}

/* Gives m, which is the caller's, to the first that waits, or wakes it. */
static void mutex_pass(struct umutex *m)
{
	struct usync *y = &m->mx_sync;
	struct ulock *lock = usync_enter(y);
	struct usync_wait *z = usync_take_first(&y->y_first);
	unsigned to = 0;
	int result = RETRY;

	if (z != NULL && z->z_first) {			/* M3 */
		result = GIVEN;
		usync_own(&m->mx_owner, z->z_self);
		to |= UMUTEX_TAKEN;
		usync_hint_set(y, usync_queued(y->y_first));
	} else if (z != NULL) {
		usync_hint_set(y, usync_passes(z));
		to |= UMUTEX_WOKEN;
	} else
		usync_hint_set(y, 0);
	usync_set(y, to | usync_queued(y->y_first));
	usync_lock_put(lock);
	if (z != NULL)
		uwait_complete(&z->z_wait, result);
}

void umutex_unlock_slow(struct umutex *m)
{
	struct usync *y = &m->mx_sync;
	unsigned now = usync_state(y);
	unsigned passed, to;

	if (!(now & UMUTEX_TAKEN))
		usched_fail("umutex_unlock: the caller does not hold it: it is "
			    "not locked");
	if (usync_owner(&m->mx_owner) != usync_self())
		usched_fail("umutex_unlock: the caller does not hold it, but "
			    "another thread");
	usync_own(&m->mx_owner, NULL);
	do {
		if ((now & (USYNC_QUEUED | UMUTEX_WOKEN)) == USYNC_QUEUED) {
			mutex_pass(m);			/* M2 */
			return;
		}
		to = now - UMUTEX_TAKEN;
		passed = now & UMUTEX_WOKEN ? usync_hint(y) + 1 : 0;
		usync_hint_set(y, passed);
		if (passed > UMUTEX_BYPASS_FAR)
			to |= UMUTEX_RESERVED;		/* M4 */
	} while (!usync_change(y, &now, to));
}

const void *umutex_owner(const struct umutex *m)
{
	const void *owner = usync_owner(&m->mx_owner);

	USYNC_LOOK(&m->mx_sync, UHARD_MUTEX, "umutex_owner");
	return owner != m ? owner : NULL;
}

/* An address that no thread has stands for no owner. */
void umutex_disown(struct umutex *m)
{
	USYNC_CALL(&m->mx_sync, UHARD_MUTEX, "umutex_disown");
	if (usync_owner(&m->mx_owner) != usync_self())
		usched_fail("umutex_disown: the caller does not hold the mutex");
	UHARD(unhold(m));
	usync_own(&m->mx_owner, m);
}

int umutex_adopt(struct umutex *m)
{
	const void *none = m;

	USYNC_CALL(&m->mx_sync, UHARD_MUTEX, "umutex_adopt");
	if (!__atomic_compare_exchange_n(&m->mx_owner, &none, usync_self(), false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return -EPERM;
	UHARD(hold(m, UHARD_MUTEX));
	return 0;
}

int umutex_busy(const struct umutex *m)
{
	USYNC_LOOK(&m->mx_sync, UHARD_MUTEX, "umutex_busy");
	return usync_busy(&m->mx_sync);
}
