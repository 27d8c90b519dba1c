/* SPDX-License-Identifier: MIT */
/* urw.c: read-write locks. */

/*
 * The state counts readers, and has a bit for a writer. Readers wait in the ring of
 * the object, and writers in rw_writers.
 *
 * R1. A reader waits if there is a writer, or if a writer waits. The last
 *     reader lets the first writer in, a writer all readers that wait. So a
 *     reader waits for at most a phase of readers and one writer.
 * R2. A writer that gives up lets the readers in that waited only for it.
 * R3. The last reader has acquired what the readers before it released, since the
 *     writer that it lets in sees only what that reader has seen.
 * R4. While QUEUED is set without WOKEN, a thread comes only under the lock, as
 *     the last reader passes the lock on by a plain store.
 * R5. If the next is a writer at home on the processor of the caller, it cannot
 *     run before the caller waits, which then would be at its next call. So the
 *     lock stays free: the writer is woken, WOKEN is set, and URW_BYPASS
 *     newcomers may pass all that wait. The woken writer clears WOKEN, and takes
 *     the lock, or goes to the head of its ring. It is not woken so again. Nor is
 *     a writer with a deadline, as another wait may need memory. Nor is a reader:
 *     the readers elsewhere would wait for its processor, though all may read.
 * R6. If QUEUED is set, the lock is held, or WOKEN is set.
 *
 * REJECTED
 *
 * A reader's change that adds and cannot fail, as two counts of readers have it: the
 * last reader would touch the object after its change, and usync N1 would not
 * hold. It would not be faster: two native threads that do no more than add and
 * subtract 1 on two cpus take 27 ns for both, and a read-write lock of rr takes
 * 29.
 */

#include "usync_inside.h"

static int see_rw(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct urw *)v->vs_object)->rw_owner;
	return w->w_state == UWAIT_WAITS;
}

struct uwait_kind UWAIT_READ[1]  = USYNC_KIND("read", "urw_read", see_rw);
struct uwait_kind UWAIT_WRITE[1] = USYNC_KIND("write", "urw_write", see_rw);

/*
 * Passes the lock on, and then releases the lock of the rings. The caller was the
 * last to hold it: a writer if readers go first.
 */
static void rw_pass(struct urw *l, struct ulock *lock, bool readers)
{
	struct usync *y = &l->rw_sync;
	struct usync_wait *all = NULL;
	struct usync_wait *z = NULL;
	unsigned nr = 0;

	if (readers)
		all = usync_take_all(&y->y_first, &nr);
	if (nr == 0)
		z = usync_take_first(&l->rw_writers);
	if (z == NULL && !readers)
		all = usync_take_all(&y->y_first, &nr);
	if (z != NULL)
		usync_own(&l->rw_owner, z->z_self);
	usync_set(y, nr * URW_READER | (z != NULL ? URW_WRITER : 0) |
		  usync_queued(y->y_first) | usync_queued(l->rw_writers));
	usync_lock_put(lock);
	usync_complete_all(all, 0);
	if (z != NULL)
		uwait_complete(&z->z_wait, 0);
}

/*
 * Passes the lock on, as rw_pass(), or wakes the first writer to take it, if that
 * is next and could not run before the caller waited: R5.
 */
static void rw_next(struct urw *l, struct ulock *lock, bool readers)
{
	struct usync *y = &l->rw_sync;
	struct usync_wait *z = l->rw_writers;

	if (z == NULL || (readers && y->y_first != NULL) || z->z_first ||
	    !usync_is_here(z) || usync_is_local(y) || utime_is_virtual() ||
	    !uwait_claim(&z->z_wait)) {
		rw_pass(l, lock, readers);
		return;
	}
	usync_take_out(&l->rw_writers, z);
	__atomic_store_n(&y->y_skip, URW_BYPASS, __ATOMIC_RELAXED);
	usync_set(y, URW_WOKEN | usync_queued(y->y_first) |
	    usync_queued(l->rw_writers));
	usync_lock_put(lock);
	uwait_complete(&z->z_wait, RETRY);
}

/*
 * Notes who waits. Readers that do not wait for a writer go on: R2. Caller holds
 * the lock, which is released.
 */
static void rw_note(struct urw *l, struct ulock *lock)
{
	struct usync *y = &l->rw_sync;
	struct usync_wait *all = NULL;
	unsigned now = usync_state(y), nr = 0;

	if (l->rw_writers == NULL && !(now & (URW_WRITER | URW_WOKEN)))
		all = usync_take_all(&y->y_first, &nr);
	while (!usync_change(y, &now, ((now & ~(unsigned)USYNC_QUEUED) |
			     usync_queued(y->y_first) |
			     usync_queued(l->rw_writers))
			     + nr * URW_READER))
		;
	usync_lock_put(lock);
	usync_complete_all(all, 0);
}

/* Takes z out if it still is in the ring. */
static void rw_give_up(struct urw *l, struct usync_wait *z,
		       struct usync_wait **first)
{
	usync_lock_get(z->z_lock);
	if (z->z_prev != NULL) {
		usync_take_out(first, z);
		rw_note(l, z->z_lock);
	} else
		usync_lock_put(z->z_lock);
}

/*
 * Writes, if l is free; else puts z, which was woken, first again, and returns
 * false.
 */
static bool rw_come(struct urw *l, struct usync_wait *z)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	bool got;

	__atomic_store_n(&y->y_skip, 0, __ATOMIC_RELAXED);
	do
		got = now < URW_WRITER;
	while (!usync_change(y, &now, (now & ~(unsigned)URW_WOKEN) |
			     (got ? URW_WRITER : USYNC_QUEUED)));
	if (got)
		usync_own(&l->rw_owner, z->z_self);
	else {
		z->z_first = true;
		z->z_wait.w_state  = UWAIT_WAITS;
		z->z_wait.w_at.object = y;
		usync_put_first(&l->rw_writers, z);
	}
	usync_lock_put(lock);
	return got;
}

/* Waits until l is the caller's. z, in a ring, stays the caller's. */
int urw_wait_for(struct urw *l, struct usync_wait *z, utime_ns until,
		       struct usync_wait **first)
{
	int rc;

	while ((rc = uwait_for(&z->z_wait, until)) == RETRY)
		if (rw_come(l, z))
			return 0;
	if (rc < 0)
		rw_give_up(l, z, first);
	return rc;
}

static int rw_wait(struct urw *l, struct usync_wait *z, utime_ns until,
		   struct usync_wait **first)
{
	int rc = urw_wait_for(l, z, until, first);

	uwait_free(z);
	return rc;
}

/* Returns whether a newcomer may not pass those that wait: R1, R5. */
static bool rw_is_closed(struct usync *y, unsigned now)
{
	unsigned char left;

	if (!(now & URW_WOKEN))
		return now & USYNC_QUEUED;
	left = __atomic_load_n(&y->y_skip, __ATOMIC_RELAXED);
	if (left > 0)
		__atomic_store_n(&y->y_skip, left - 1, __ATOMIC_RELAXED);
	return left == 0;
}

/* Returns the state after a reader has come; or now: it has to wait. */
static unsigned rw_reads(unsigned now, bool writer_waits)
{
	return now & URW_WRITER || writer_waits ? now : now + URW_READER;
}

/* Notes what the state will be, or what the readers among it will be. */
static void rw_hint(struct usync *y, unsigned to)
{
	usync_hint_set(y, to & URW_WOKEN ? to : to & ~(URW_READER - 1u));
}

/*
 * Puts z, unless it is NULL, into the ring of readers, and returns true; or reads.
 * again: the caller passes writers that wait: R4.
 */
bool urw_read_put(struct urw *l, struct usync_wait *z, bool again)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	unsigned to;

	do
		to = rw_reads(now, !again && (l->rw_writers != NULL ||
					      now & URW_WOKEN));
	while (!usync_change(y, &now, to == now && z != NULL ?
			     now | USYNC_QUEUED : to));
	if (to == now && z != NULL)
		usync_put_last(&y->y_first, z);
	usync_lock_put(lock);
	return to == now;
}

/* Reads, if neither a writer nor a waiter is there. 0, -EAGAIN, -EOVERFLOW. */
static int read_take(struct urw *l)
{
	struct usync *y = &l->rw_sync;
	unsigned now = usync_hint(y);
	bool guessed = true;
	unsigned to;

	for (;;) {
		to = rw_reads(now, rw_is_closed(y, now));
		if (to == now && !guessed)
			return -EAGAIN;
		if (to == now) {
			guessed = false;
			now = usync_state(y);
			continue;
		}
		if (now / URW_READER >= USYNC_MOST)
			return -EOVERFLOW;
		rw_hint(y, to);
		if (usync_change(y, &now, to))
			return 0;
		if (!guessed)
			now = usync_collide(y);
		guessed = false;
	}
}

static int rw_read(struct urw *l, utime_ns until, bool again)
{
	struct usync *y = &l->rw_sync;
	struct usync_wait *z;
	int rc;

	do {
		rc = read_take(l);
		if (rc != -EAGAIN)
			return rc;
		if (usync_owner(&l->rw_owner) == usync_self())
			return -EDEADLK;
		if (again && !urw_read_put(l, NULL, true))
			return 0;
	} while (until > UNOW && !(usync_state(y) & URW_WOKEN) &&
		 usync_spin(y, URW_WRITER | USYNC_QUEUED, &l->rw_owner));
	z = usync_wait_make(y, UWAIT_READ, until, &rc);
	if (z == NULL)
		return rc;
	z->z_first = until != UNEVER;
	if (urw_read_put(l, z, again))
		return rw_wait(l, z, until, &y->y_first);
	uwait_free(z);
	return 0;
}

/* Puts z into the ring of writers, and returns true; or writes. */
bool urw_write_put(struct urw *l, struct usync_wait *z)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = usync_enter(y);
	unsigned now = usync_state(y);
	bool got;

	do
		got = now == 0;
	while (!usync_change(y, &now, now | (got ? URW_WRITER : USYNC_QUEUED)));
	if (got)
		usync_own(&l->rw_owner, z->z_self);
	else
		usync_put_last(&l->rw_writers, z);
	usync_lock_put(lock);
	return !got;
}

/* Guesses the state of a lock that is free. */
static unsigned rw_hint_free(const struct usync *y)
{
	unsigned now = usync_hint(y);

	return now & URW_WOKEN && now < URW_WRITER ? now : 0;
}

/* Writes, if l is free, and the caller may pass those that wait. */
static bool write_take(struct urw *l)
{
	struct usync *y = &l->rw_sync;
	unsigned now = rw_hint_free(y);
	bool guessed = now != 0;

	for (;;) {
		if (now >= URW_WRITER || rw_is_closed(y, now)) {
			if (!guessed)
				return false;
			now = usync_state(y);
		} else if (usync_change(y, &now, now | URW_WRITER)) {
			usync_own(&l->rw_owner, usync_self());
			return true;
		}
		guessed = false;
	}
}

static int rw_write(struct urw *l, utime_ns until)
{
	struct usync *y = &l->rw_sync;
	struct usync_wait *z;
	int rc;

	do {
		if (write_take(l))
			return 0;
		if (usync_owner(&l->rw_owner) == usync_self())
			return -EDEADLK;
	} while (until > UNOW && !(usync_state(y) & URW_WOKEN) &&
		 usync_spin(y, ~0u, &l->rw_owner));
	z = usync_wait_make(y, UWAIT_WRITE, until, &rc);
	if (z == NULL)
		return rc;
	z->z_first = until != UNEVER;
	if (urw_write_put(l, z))
		return rw_wait(l, z, until, &l->rw_writers);
	uwait_free(z);
	return 0;
}

int urw_read(struct urw *l, utime_ns until)
{
	int rc;

	USYNC_CALL(&l->rw_sync, UHARD_RW, "urw_read");
	rc = rw_read(l, until, false);
	if (rc == 0)
		UHARD(hold(l, UHARD_RW));
	return rc;
}

int urw_read_again(struct urw *l, utime_ns until)
{
	int rc;

	USYNC_CALL(&l->rw_sync, UHARD_RW, "urw_read_again");
	rc = rw_read(l, until, true);
	if (rc == 0)
		UHARD(hold(l, UHARD_RW));
	return rc;
}

int urw_write(struct urw *l, utime_ns until)
{
	int rc;

	USYNC_CALL(&l->rw_sync, UHARD_RW, "urw_write");
	rc = rw_write(l, until);
	if (rc == 0)
		UHARD(hold(l, UHARD_RW));
	return rc;
}

/* Fails if the caller has no part in l, which is held. In the hard mode. */
#if defined(USCHED_HARD)
static void rw_held(const struct urw *l)
{
	if (!uhard_unhold(l) && usync_state(&l->rw_sync) >= URW_WRITER)
		uhard_fail("", "urw_unlock", "the caller does not hold the lock");
}
#define RW_HELD(l)		rw_held(l)
#else
#define RW_HELD(l)		((void)0)
#endif

/* Fails if no reader has the lock, whose state is now. */
static void rw_is_read(unsigned now)
{
	if (now & URW_WRITER)
		usched_fail("urw_unlock: the caller does not hold the lock: "
			    "another thread writes");
	if (now < URW_READER)
		usched_fail("urw_unlock: the lock is free");
}

/* Returns whether who lets the lock go passes it on. */
static bool rw_has_next(unsigned now)
{
	return (now & (USYNC_QUEUED | URW_WOKEN)) == USYNC_QUEUED;
}

static void rw_write_unlock(struct urw *l)
{
	struct usync *y = &l->rw_sync;
	unsigned now = rw_hint_free(y) | URW_WRITER;

	usync_own(&l->rw_owner, NULL);
	do {
		rw_hint(y, now - URW_WRITER);
		if (rw_has_next(now)) {
			rw_next(l, usync_enter(y), true);
			return;
		}
	} while (!usync_change(y, &now, now - URW_WRITER));
}

void urw_unlock(struct urw *l)
{
	struct usync *y = &l->rw_sync;
	unsigned now = usync_hint(y);
	bool guessed = true;
	struct ulock *lock;

	USYNC_CALL(y, UHARD_RW, "urw_unlock");
	RW_HELD(l);
	if (usync_owner(&l->rw_owner) == usync_self()) {
		rw_write_unlock(l);
		return;
	}
	if (now < URW_READER)
		now = usync_state(y);
	for (;;) {
		rw_is_read(now);
		if (now >= 2 * URW_READER || !rw_has_next(now)) {
			rw_hint(y, now - URW_READER);
			if (usync_change(y, &now, now - URW_READER))
				return;
			if (!guessed)
				now = usync_collide(y);
			guessed = false;
			continue;
		}
		lock = usync_enter(y);
		now = usync_acquired(y);	/* from other readers: R3 */
		if (now < 2 * URW_READER && rw_has_next(now)) {
			rw_next(l, lock, false);
			return;
		}
		usync_lock_put(lock);
	}
}

const void *urw_owner(const struct urw *l)
{
	USYNC_LOOK(&l->rw_sync, UHARD_RW, "urw_owner");
	return usync_owner(&l->rw_owner);
}

int urw_busy(const struct urw *l)
{
	USYNC_LOOK(&l->rw_sync, UHARD_RW, "urw_busy");
	return usync_busy(&l->rw_sync);
}
