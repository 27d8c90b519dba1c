/* SPDX-License-Identifier: MIT */
/* ucond.c: conditions. */

/*
 * The state says only whether threads wait. A wait has two parts: for the signal, in
 * the ring of the condition, and then for the lock.
 *
 * C1. The record enters the ring before the mutex is unlocked.
 * C2. A signal claims the record, so neither deadline nor cancellation can take
 *     the signal away. If the mutex is taken, the record changes over to the
 *     ring of the mutex, as it is. Otherwise the waiter is woken as by
 *     umutex M2.
 * C3. The wait for the mutex has a record of its own, since a wheel may still
 *     have a deadline of the first. They are allocated together. All else that
 *     the two waits need is reserved before the mutex is unlocked, because the
 *     second must not fail, also if the first has not blocked.
 * C4. A waiter that has had a read-write lock is woken by its signal, and then
 *     comes to the lock as a newcomer does.
 */

#include "usync_inside.h"

/* The record of ucond_wait(). */
struct pair {
	struct usync_wait  pr_signal;	/* first */
	struct usync_wait  pr_lock;	/* for the new lock */
	struct umutex     *pr_mutex;	/* NULL: of ucond_wait_rw() */
};

/* After its signal a thread waits for its lock, by either record: C2, C3. */
static int see_cond(const struct uwait *w, struct uwait_seen *v)
{
	const struct uwait *lock = &((const struct pair *)w)->pr_lock.z_wait;

	if (w->w_state == UWAIT_WAITS)
		return 1;
	v->vs_kind   = uwait_kind(lock);
	v->vs_object = lock->w_at.object;
	return v->vs_kind->wk_see(lock, v);
}

struct uwait_kind UWAIT_COND[1] = USYNC_KIND("cond", "ucond_wait", see_cond);

/*
 * Makes a record for a wait for c and then for a lock, and gets all else that
 * these need: C3. NULL and *rc.
 */
static struct pair *pair_make(struct ucond *c, const struct usync *lock,
			      struct uwait_kind *kind, utime_ns until, int *rc)
{
	struct pair *p;

	*rc = until < 0 ? -EINVAL : -EAGAIN;
	if (until <= UNOW)
		return NULL;
	p = uwait_make(UWAIT_COND, &c->cd_sync, sizeof *p);
	if (p == NULL) {
		*rc = -errno;
		return NULL;
	}
	usync_wait_init(&p->pr_signal, &c->cd_sync);
	usync_wait_init(&p->pr_lock, lock);
	p->pr_lock.z_wait = p->pr_signal.z_wait;
	p->pr_lock.z_wait.w_kind   = uwait_id(kind);
	p->pr_lock.z_wait.w_flags |= UWAIT_SURE;
	p->pr_lock.z_wait.w_at.object = lock;
	p->pr_mutex = NULL;
	*rc = uwait_reserve(until);
	if (*rc == 0)
		return p;
	(void)uwait_claim(&p->pr_signal.z_wait);
	uwait_free(p);
	return NULL;
}

/* Puts z into the ring of c. */
static void cond_put(struct ucond *c, struct usync_wait *z)
{
	struct ulock *lock = usync_enter(&c->cd_sync);

	usync_put_last(&c->cd_sync.y_first, z);
	usync_set_queued(&c->cd_sync);
	usync_lock_put(lock);
}

int ucond_wait(struct ucond *c, struct umutex *m, utime_ns until)
{
	struct usync_wait *z;
	struct pair *p;
	int rc;

	USYNC_CALL(&c->cd_sync, UHARD_COND, "ucond_wait");
	USYNC_CALL(&m->mx_sync, UHARD_MUTEX, "ucond_wait");
	if (usync_owner(&m->mx_owner) != usync_self())
		return -EPERM;
	p = pair_make(c, &m->mx_sync, UWAIT_MUTEX, until, &rc);
	if (p == NULL)
		return rc;
	p->pr_mutex = m;
	cond_put(c, &p->pr_signal);
	umutex_unlock(m);				/* C1 */
	rc = uwait_for(&p->pr_signal.z_wait, until);
	if (rc < 0)
		usync_give_up(&c->cd_sync, &p->pr_signal);
	z = &p->pr_lock;
	if (rc != GIVEN && (rc < 0 || !umutex_take(m, true, true)) &&
	    umutex_put(m, z, rc == RETRY))
		(void)umutex_wait(m, &z, UNEVER);	/* C3 */
	UHARD(hold(m, UHARD_MUTEX));
	uwait_free(p);
	return rc < 0 ? rc : 0;
}

/* Returns whether the caller holds l, as far as that is known of readers. */
static bool rw_is_held(const struct urw *l)
{
	const void *writer = usync_owner(&l->rw_owner);

	return writer != NULL ? writer == usync_self() :
		usync_state(&l->rw_sync) >= URW_READER;
}

int ucond_wait_rw(struct ucond *c, struct urw *l, utime_ns until)
{
	struct usync_wait *z;
	struct pair *p;
	bool writes;
	int rc;

	USYNC_CALL(&c->cd_sync, UHARD_COND, "ucond_wait_rw");
	USYNC_CALL(&l->rw_sync, UHARD_RW, "ucond_wait_rw");
	if (!rw_is_held(l))
		return -EPERM;
	writes = usync_owner(&l->rw_owner) != NULL;
	p = pair_make(c, &l->rw_sync, writes ? UWAIT_WRITE : UWAIT_READ, until,
		     &rc);
	if (p == NULL)
		return rc;
	cond_put(c, &p->pr_signal);
	urw_unlock(l);					/* C1 */
	rc = uwait_for(&p->pr_signal.z_wait, until);
	if (rc < 0)
		usync_give_up(&c->cd_sync, &p->pr_signal);
	z = &p->pr_lock;
	if (writes ? urw_write_put(l, z) : urw_read_put(l, z, false))
		(void)urw_wait_for(l, z, UNEVER, writes ? &l->rw_writers :
				  &l->rw_sync.y_first);	/* C3 */
	UHARD(hold(l, UHARD_RW));
	uwait_free(p);
	return rc < 0 ? rc : 0;
}

/* Lets z, which has its signal, lock its mutex, or wait for that. */
static void cond_pass(struct usync_wait *z)
{
	struct umutex *m = ((struct pair *)z)->pr_mutex;
	struct ulock *lock;
	struct usync *y;
	unsigned now, more;

	if (m == NULL) {				/* C4 */
		uwait_complete(&z->z_wait, RETRY);
		return;
	}
	y = &m->mx_sync;
	lock = usync_enter(y);
	now = usync_state(y);
	do {
		more = now & (UMUTEX_TAKEN | UMUTEX_WOKEN) ? USYNC_QUEUED :
			UMUTEX_WOKEN;
	} while (!usync_change(y, &now, now | more));
	if (more == USYNC_QUEUED) {			/* C2 */
		z->z_claimed = true;
		usync_put_last(&y->y_first, z);
	} else
		usync_hint_set(y, usync_passes(z));
	usync_lock_put(lock);
	if (more != USYNC_QUEUED)
		uwait_complete(&z->z_wait, RETRY);
}

void ucond_signal(struct ucond *c)
{
	struct usync *y = &c->cd_sync;
	struct usync_wait *z;
	struct ulock *lock;

	USYNC_CALL(y, UHARD_COND, "ucond_signal");
	if (!(usync_acquired(y) & USYNC_QUEUED))	/* usync N6 */
		return;
	lock = usync_enter(y);
	z = usync_take_first(&y->y_first);
	usync_set_queued(y);
	usync_lock_put(lock);
	if (z != NULL)
		cond_pass(z);
}

void ucond_broadcast(struct ucond *c)
{
	struct usync *y = &c->cd_sync;
	struct usync_wait *z, *next;
	struct ulock *lock;
	unsigned nr;

	USYNC_CALL(y, UHARD_COND, "ucond_broadcast");
	if (!(usync_acquired(y) & USYNC_QUEUED))	/* usync N6 */
		return;
	lock = usync_enter(y);
	z = usync_take_all(&y->y_first, &nr);
	usync_set_queued(y);
	usync_lock_put(lock);
	for (; z != NULL; z = next) {
		next = z->z_next;
		cond_pass(z);
	}
}

int ucond_busy(const struct ucond *c)
{
	USYNC_LOOK(&c->cd_sync, UHARD_COND, "ucond_busy");
	return usync_busy(&c->cd_sync);
}
