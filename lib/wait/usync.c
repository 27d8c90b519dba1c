/* SPDX-License-Identifier: MIT */
/* usync.c: mutexes, conditions, semaphores and the like. */

/*
 * OVERVIEW
 *
 * An object has a word of state. Where no thread has to wait, an operation is
 * a single compare-and-swap of it. Threads that wait leave records (uwait.h) in
 * a ring, under a lock. Whoever ends a wait takes the record out of the ring,
 * claims it, releases the lock, and completes it.
 *
 *	   y_state                        y_first
 *	+-----------------+---+             |
 *	| units, readers, | Q |             v
 *	| TAKEN ...       |   |          record <-> record <-> record
 *	+-----------------+---+             ^                    |
 *	    QUEUED: the ring is not empty   +--------------------+
 *
 * Fast paths change the state without the lock, but none of them applies while
 * QUEUED is set, except those that leave the object held by others.
 *
 * GUESSES
 *
 * A load of a word that an atomic instruction has just changed waits for the
 * end of that: 3 ns of 17 for a lock, and again for its unlock. If another
 * processor has changed the word, the load fetches the line, and the change
 * fetches it a second time, to write. So mutexes and read-write locks guess the
 * state first, and let the compare-and-swap look. A load of another word of
 * the line costs nothing, and the guess comes from there: y_hint. For the same
 * reason it is y_penalty, and no bit of the state, that says that an object is
 * local.
 *
 *	of a mutex		0: the state may be 0, or TAKEN alone. Else a
 *				guess would be wrong; while WOKEN is set, y_hint
 *				counts the locks of newcomers: M4
 *	of a read-write lock	what the readers among the state may be
 *
 * Any thread that has a part in the object may write y_hint, before the last
 * change of its call: N1. A guess that is wrong costs an atomic instruction.
 *
 * SPINS
 *
 * Before a thread waits for a lock, it spins for a moment, since critical
 * sections are mostly short and the holder may run elsewhere. It looks LOOKS
 * times, LOOK_NS apart. Each look fetches the line from the holder, which then
 * fetches it back. That takes 50 ns between two hyperthreads, and 200 to 500
 * between two cores. So looks are far apart, and the holder may lock again
 * many times between them. A pause takes 11 ns in one processor, and ten times
 * as long in another, so a clock says how long. It costs nothing, as it is
 * part of the time that has to pass.
 *
 * H1. A thread spins only while the holder can let the lock go: if it runs on
 *     another processor of the set, or on a processor that is awake, and may
 *     run it next (o_runs in uwait.h). So there is no spin if the set has one
 *     processor, or fewer cpus than processors, if the other processors sleep,
 *     or if they run other threads. Nor is there under virtual time.
 * H2. Readers are not known. They may be on any processor that is awake.
 * H3. Native threads, and threads of plain dispatchers, always spin, as it is
 *     not known what runs. So do all if a native thread holds the lock.
 * H4. If spins are in vain, the next attempts do not spin: 1, 3, 7 and so on,
 *     up to 127.
 *
 * A reader, or a user of a semaphore, whose change fails although it need not
 * wait, leaves the object to the others for COLLISION_NS. Else the line would
 * move for each change.
 *
 * FREEING
 *
 * A program may free an object as soon as the call has returned that ends its
 * use, while other calls are still under way. So the locks of the rings do not
 * lie in the objects, but in an array, where the address of the object names
 * the lock. A thread that waits for such a lock, or releases it, does not touch
 * the object any more.
 *
 * N1. The last touch of an object is the change of its state that lets others
 *     go on. After that come only claimed records, and the lock.
 * N2. A waiter that gives up looks at its record first, under the lock. If the
 *     record was taken out of the ring, the object may be gone.
 * N3. While a record is in a ring, its object exists. A record leaves its ring
 *     under the lock, so a record that was found there exists up to lock_put().
 * N4. No thread holds two of the locks, and no holder calls what may wait.
 * N5. QUEUED says, under the lock, whether the rings of the object are empty.
 * N6. Each call that returns has acquired what the calls before it released,
 *     by a change of the state or an acquire. So it may be followed by a free.
 *
 * MUTEXES
 *
 * An unlock does not give the mutex to the first waiter, because all others
 * would then wait until that waiter runs, perhaps on a processor that sleeps.
 * The mutex is left free, and the first waiter is woken to try again.
 *
 *	TAKEN	a thread holds the mutex
 *	WOKEN	a waiter has left the ring, and is on its way to try again
 *	KEPT	the mutex is free, but only such a waiter may take it
 *
 * M1. If QUEUED is set, then so is TAKEN or WOKEN. So there is an unlock to
 *     come that looks at the ring.
 * M2. While WOKEN is set, unlocks wake no other waiter.
 * M3. A woken waiter clears WOKEN: as it takes the mutex, or as it goes to the
 *     head of the ring. Then the next unlock gives the mutex to it, so it loses
 *     at most once.
 * M4. While WOKEN is set, UMUTEX_BYPASS unlocks leave the mutex to all. The
 *     next sets KEPT. So a thread that never waits between its locks has to,
 *     and the woken waiter runs. If the waiter is at home elsewhere, it comes
 *     by itself, unless its cpu has other work: then all would wait for that.
 *     So it may be passed over longer, up to about a millisecond.
 *
 * CONDITIONS
 *
 * C1. The record enters the ring before the mutex is unlocked.
 * C2. A signal claims the record, so neither deadline nor cancellation can take
 *     the signal away. If the mutex is taken, the record changes over to the
 *     ring of the mutex, as it is. Otherwise the waiter is woken as by M2.
 * C3. The wait for the mutex has a record of its own, since a wheel may still
 *     have a deadline of the first. They are allocated together. All else that
 *     the two waits need is reserved before the mutex is unlocked, because the
 *     second must not fail, also if the first has not blocked.
 * C4. A waiter that has had a read-write lock is woken by its signal, and then
 *     comes to the lock as a newcomer does.
 *
 * THE OTHERS
 *
 * S1. A unit goes to the first that waits, or, if the ring is empty, to the
 *     state. So while a semaphore has units, its ring is empty.
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
 * G1. With waiters, the count becomes 0 under the lock, as the last touch.
 * B1. A waiter in the ring of a barrier has come. A waiter that was taken out
 *     has been counted, and gets 0, even if its deadline was first.
 * O1. Either a thread runs the function, or it is done, or no thread waits.
 *
 * REJECTED
 *
 * Locks in the objects: a waiter whose deadline has passed takes the lock of an
 * object that the last wake has made free to go. Rings in a table by address,
 * as in a parking lot: a million waits are chains of thousands, and the table
 * cannot grow without memory.
 *
 * No spin: with two processors and short sections a read-write lock took 34 ns
 * instead of 18, a mutex 35 instead of 26, or with 50 ns of work outside 65
 * instead of 44.
 *
 * Looks 30 pauses apart: with two cores a mutex takes 34 ns instead of 14. A
 * fetch of the line to write (prefetchw) before the state is loaded: no gain.
 * Longer pauses of a reader whose change has failed: with 4,000 ns a read-write
 * lock takes as long, with 10,000 ns longer.
 *
 * A reader's change that adds and cannot fail, as two counts of readers have it: the
 * last reader would touch the object after its change, and N1 would not hold. It
 * would not be faster: two native threads that do no more than add and subtract 1 on
 * two cpus take 27 ns for both, and a read-write lock of rr takes 29.
 *
 * A guess in each lock and unlock, also while WOKEN or QUEUED is set: ws, whose
 * waiters mostly are on their way, took 30 ns instead of 17.
 *
 * Who holds a lock read from the holder: it may have ended, and been freed.
 *
 * An unlock that gives the mutex to the first that waits, where spins have been
 * in vain: if ten threads yield while they hold it, there is a wait for each
 * lock either way. Newcomers lock without a wait as often as waiters lose.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#if !defined(USYNC_INLINE)
#define USYNC_INLINE		/* functions for files with USCHED_PREEMPT */
#endif
#include "usync.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

UPREEMPT_NEVER;

#if !defined(LOCKS_LOG)
#define LOCKS_LOG	8
#endif
#if !defined(LOOKS)
#define LOOKS	4		/* of a spin */
#endif
#define LOOK_NS	2400		/* from a look to the next */
#define PROBE	31		/* from this penalty on, one look at most */
#define COLLISION_NS	1000

#define NATIVE	1u		/* a bit of an owner */

/* Results of waits. */
enum { GIVEN, RETRY };

struct usync_wait {
	struct uwait       z_wait;	/* first */
	struct usync_wait *z_next;
	struct usync_wait *z_prev;	/* NULL: in no ring */
	struct ulock      *z_lock;	/* of the object; NULL: it is local */
	const void        *z_self;	/* an owner */
	bool               z_first;	/* is given the lock: M3, R5 */
	bool               z_claimed;	/* by the signal that moved it */
};

/* The record of ucond_wait(). */
struct pair {
	struct usync_wait  pr_signal;	/* first */
	struct usync_wait  pr_lock;	/* for the new lock */
	struct umutex     *pr_mutex;	/* NULL: of ucond_wait_rw() */
};

/* Holders, for messages. The address of an object is that of its usync. */

static int see_mutex(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct umutex *)v->vs_object)->mx_owner;
	return w->w_state == UWAIT_WAITS;
}

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

static int see_rw(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct urw *)v->vs_object)->rw_owner;
	return w->w_state == UWAIT_WAITS;
}

static int see_once(const struct uwait *w, struct uwait_seen *v)
{
	v->vs_owner = &((const struct uonce *)v->vs_object)->on_owner;
	return w->w_state == UWAIT_WAITS;
}

#define KIND(name, call, see)	\
	{ { .wk_name = (name), .wk_call = (call), .wk_see = (see) } }

struct uwait_kind UWAIT_MUTEX[1]   = KIND("mutex", "umutex_lock", see_mutex);
struct uwait_kind UWAIT_COND[1]    = KIND("cond", "ucond_wait", see_cond);
struct uwait_kind UWAIT_SEM[1]     = KIND("sem", "usem_wait", NULL);
struct uwait_kind UWAIT_READ[1]    = KIND("read", "urw_read", see_rw);
struct uwait_kind UWAIT_WRITE[1]   = KIND("write", "urw_write", see_rw);
struct uwait_kind UWAIT_GROUP[1]   = KIND("group", "ugroup_wait", NULL);
struct uwait_kind UWAIT_BARRIER[1] = KIND("barrier", "ubarrier_wait", NULL);
struct uwait_kind UWAIT_ONCE[1]    = KIND("once", "uonce", see_once);

/* Locks. */

#if !defined(USYNC_LOCKS)	/* a test has them elsewhere */
static struct {
	struct ulock s_lock;
} __attribute__((aligned(64))) locks[1 << LOCKS_LOG];

static struct ufork at_fork = {
	.f_rank = UFORK_SYNC, .f_lock = &locks[0].s_lock,
	.f_nr = 1 << LOCKS_LOG, .f_step = sizeof locks[0]
};
UFORK(at_fork)
#else
#define locks	USYNC_LOCKS
#endif

static struct ulock *lock_of(const struct usync *y)
{
	unsigned key = (unsigned)((uintptr_t)y / 16) * 0x9e3779b1u;

	return usync_is_local(y) ? NULL :
		&locks[key >> (32 - LOCKS_LOG)].s_lock;
}

static void lock_get(struct ulock *lock)
{
	if (lock != NULL)
		ulock_get(lock);
}

static void lock_put(struct ulock *lock)
{
	if (lock != NULL)
		ulock_put(lock);
}

/* Begins a change of the rings of y. */
static struct ulock *enter(struct usync *y)
{
	struct ulock *lock = lock_of(y);

	usync_check(y, "usync");
	lock_get(lock);
	return lock;
}

const void *usync_native(void)
{
	static __thread char here[2] __attribute__((aligned(2)));

	return here + NATIVE;
}

#if defined(USCHED_HARD)
void usync_check(struct usync *y, const char *call)
{
	unsigned here = (unsigned)((uintptr_t)usched_self() / 16);

	if (!usync_is_local(y))
		return;
	if (y->y_home == 0)
		y->y_home = here;
	if (here == 0 || here != y->y_home)
		uhard_fail("", call, "the object is local to a processor, and is "
			   "used by another");
}
#endif

/* Rings. Caller holds the lock. */

/* Appends z to a ring. */
static void put_last(struct usync_wait **first, struct usync_wait *z)
{
	struct usync_wait *next = *first;

	if (next == NULL) {
		z->z_next = z->z_prev = *first = z;
		return;
	}
	z->z_next = next;
	z->z_prev = next->z_prev;
	z->z_prev->z_next = next->z_prev = z;
}

static void put_first(struct usync_wait **first, struct usync_wait *z)
{
	put_last(first, z);
	*first = z;
}

static void take_out(struct usync_wait **first, struct usync_wait *z)
{
	if (z->z_next == z)
		*first = NULL;
	else if (*first == z)
		*first = z->z_next;
	z->z_next->z_prev = z->z_prev;
	z->z_prev->z_next = z->z_next;
	z->z_prev = NULL;
}

/* Takes the first that still waits out, claimed. NULL: there is none. */
static struct usync_wait *take_first(struct usync_wait **first)
{
	struct usync_wait *z;

	while ((z = *first) != NULL) {
		take_out(first, z);
		if (z->z_claimed || uwait_claim(&z->z_wait))
			break;
	}
	return z;
}

/* Takes all out. Returns those that still wait, claimed, linked by z_next. */
static struct usync_wait *take_all(struct usync_wait **first, unsigned *nr)
{
	struct usync_wait *list = NULL;
	struct usync_wait **end = &list;
	struct usync_wait *z;

	for (*nr = 0; (z = take_first(first)) != NULL; ++*nr) {
		*end = z;
		end = &z->z_next;
	}
	*end = NULL;
	return list;
}

static void complete_all(struct usync_wait *list, int result)
{
	struct usync_wait *next;

	for (; list != NULL; list = next) {
		next = list->z_next;
		uwait_complete(&list->z_wait, result);
	}
}

/* States. */

/* Returns the state, for callers that may go on without a change of it: N6. */
static unsigned acquired(const struct usync *y)
{
	return __atomic_load_n(&y->y_state, __ATOMIC_ACQUIRE);
}

static unsigned queued(const struct usync_wait *first)
{
	return first != NULL ? USYNC_QUEUED : 0;
}

/* Sets the state. For callers that know that nothing else changes the state. */
static void set(struct usync *y, unsigned to)
{
	usync_check(y, "usync");
	__atomic_store_n(&y->y_state, to, __ATOMIC_RELEASE);
}

/* Notes what the state will be. */
static void hint(struct usync *y, unsigned of)
{
	__atomic_store_n(&y->y_hint, (unsigned short)of, __ATOMIC_RELAXED);
}

/* Says whether threads wait. Caller holds the lock. */
static void set_queued(struct usync *y)
{
	unsigned now = usync_state(y);

	while (!usync_change(y, &now, (now & ~(unsigned)USYNC_QUEUED) |
			     queued(y->y_first)))
		;
}

/* Waits. */

static void wait_init(struct usync_wait *z, const struct usync *y)
{
	z->z_prev    = NULL;
	z->z_lock    = lock_of(y);
	z->z_self    = usync_self();
	z->z_first   = false;
	z->z_claimed = false;
}

/*
 * Makes a record for a wait that is necessary, or sets *rc. Out of line, as
 * callers try again after a wait: they must not keep the address of errno.
 */
static NOINLINE struct usync_wait *wait_make(const struct usync *y,
					     struct uwait_kind *kind,
					     utime_ns until, int *rc)
{
	struct usync_wait *z;

	*rc = until < 0 ? -EINVAL : -EAGAIN;
	if (until <= UNOW)
		return NULL;
	z = uwait_make(kind, y, sizeof *z);
	*rc = z != NULL ? 0 : -errno;
	if (z != NULL)
		wait_init(z, y);
	return z;
}

/* Takes z out if it still is in the ring of y; y exists only then: N2. */
static void give_up(struct usync *y, struct usync_wait *z)
{
	lock_get(z->z_lock);
	if (z->z_prev != NULL) {
		take_out(&y->y_first, z);
		set_queued(y);
	}
	lock_put(z->z_lock);
}

/* Waits until z, in the ring of y, is completed. Frees z. */
static int wait_for(struct usync *y, struct usync_wait *z, utime_ns until)
{
	int rc = uwait_for(&z->z_wait, until);

	if (rc < 0)
		give_up(y, z);
	uwait_free(z);
	return rc;
}

/*
 * Returns whether the holder of an object, which may be a reader (NULL), can let
 * it go while the caller spins: H1 to H3.
 */
static bool runs_elsewhere(const void *owner)
{
	const struct usched *d = usched_self();
	const struct uwait_base *b = d != NULL ? d->s_waits : NULL;

	if (utime_is_virtual())
		return false;
	if (b == NULL || b->wb_ops->o_runs == NULL || (uintptr_t)owner & NATIVE)
		return true;
	return b->wb_ops->o_runs(b, owner);
}

/*
 * Spins while another processor may clear these bits. Returns whether they are
 * clear. Does so seldom if that was in vain before.
 */
static bool spin(struct usync *y, unsigned bits, const void *const *owner)
{
	unsigned char skip, penalty;
	int i;

	if (LOOKS == 0 || usync_is_local(y))
		return false;
	skip = __atomic_load_n(&y->y_skip, __ATOMIC_RELAXED);
	if (skip > 0) {
		__atomic_store_n(&y->y_skip, skip - 1, __ATOMIC_RELAXED);
		return false;
	}
	penalty = __atomic_load_n(&y->y_penalty, __ATOMIC_RELAXED);
	for (i = penalty < PROBE ? 0 : LOOKS - 1; usync_state(y) & bits; i++) {
		if (!runs_elsewhere(usync_owner(owner)))
			return false;
		if (i == LOOKS)
			break;
		ulock_pass(LOOK_NS);
	}
	penalty = i < LOOKS ? 0 : penalty < 64 ? 2 * penalty + 1 : penalty;
	__atomic_store_n(&y->y_penalty, penalty, __ATOMIC_RELAXED);
	__atomic_store_n(&y->y_skip, penalty, __ATOMIC_RELAXED);
	return i < LOOKS;
}

/* Leaves y to the others, as they were faster, and returns its state. */
static unsigned collide(const struct usync *y)
{
	if (LOOKS != 0 && !usync_is_local(y) && !utime_is_virtual())
		ulock_pass(COLLISION_NS);
	return usync_state(y);
}

/* Checks an object that this call does not change. In the hard mode only. */
#define LOOK(y, kind, call)	\
	UHARD(object((y), (unsigned *)(uintptr_t)&(y)->y_magic, (kind), (call)))

static int busy(const struct usync *y)
{
	return usync_state(y) != 0 ? -EBUSY : 0;
}

/* Mutexes. */

/* Bits that keep a caller from taking a mutex, and those that it clears. */
#define BARS(woken)	((woken) ? UMUTEX_TAKEN : UMUTEX_TAKEN | UMUTEX_RESERVED)
#define CLEARS(woken)	((woken) ? UMUTEX_WOKEN | UMUTEX_RESERVED : 0u)

/*
 * Puts z into the ring of m, and returns true; or takes m for the caller. If
 * the caller was woken, it goes first, and is no longer on its way: M3. z may
 * be NULL then.
 */
static bool mutex_put(struct umutex *m, struct usync_wait *z, bool woken)
{
	struct usync *y = &m->mx_sync;
	struct ulock *lock = enter(y);
	unsigned now = usync_state(y);
	unsigned more;

	do {
		more = !(now & BARS(woken)) ? UMUTEX_TAKEN :
			z != NULL ? USYNC_QUEUED : 0;
	} while (!usync_change(y, &now, (now & ~CLEARS(woken)) | more));
	if (woken || usync_hint(y) == 0)
		hint(y, (now | more) & USYNC_QUEUED);
	if (more == UMUTEX_TAKEN)
		usync_own(&m->mx_owner, usync_self());
	else if (woken && z != NULL) {
		z->z_first = true;
		put_first(&y->y_first, z);
	} else if (z != NULL)
		put_last(&y->y_first, z);
	lock_put(lock);
	return more != UMUTEX_TAKEN;
}

/* Takes m if it is free or, if the caller may spin, gets free. */
static bool mutex_take(struct umutex *m, bool woken, bool may_spin)
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
				hint(y, now & USYNC_QUEUED);
			return true;
		}
		if (!may_spin || usync_owner(&m->mx_owner) == usync_self() ||
		    !spin(y, BARS(woken), &m->mx_owner))
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
	} else if ((other = wait_make(y, UWAIT_MUTEX, until, &rc)) != NULL)
		uwait_free(z);
	return other;
}

/* Waits until m is the caller's, whose record is in the ring of m. */
static int mutex_wait(struct umutex *m, struct usync_wait **at, utime_ns until)
{
	struct usync_wait *z = *at;
	int rc;

	while ((rc = uwait_for(&z->z_wait, until)) != GIVEN) {
		if (rc < 0) {
			give_up(&m->mx_sync, z);
			return rc;
		}
		if (mutex_take(m, true, true))
			break;
		z = again(z, &m->mx_sync, until);
		if (z != NULL)
			*at = z;
		if (!mutex_put(m, z, true))
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

	if (mutex_take(m, false, until > UNOW)) {
		UHARD(hold(m, UHARD_MUTEX));
		return 0;
	}
	if (usync_owner(&m->mx_owner) == usync_self())
		return -EDEADLK;
	z = wait_make(y, UWAIT_MUTEX, until, &rc);
	if (z == NULL)
		return rc;
	rc = mutex_put(m, z, false) ? mutex_wait(m, &z, until) : 0;
	uwait_free(z);
	if (rc == 0)
		UHARD(hold(m, UHARD_MUTEX));
	return rc;
}

/* Returns whether the thread of z runs on the caller's processor. A hint. */
static bool is_here(const struct usync_wait *z)
{
	const struct ustack *u = z->z_wait.w_stack;

	return u != NULL && __atomic_load_n(&u->u_sched, __ATOMIC_RELAXED) ==
			    usched_self();
}

/* Returns the first y_hint while z, which is woken, is on its way: M4. */
static unsigned passes(const struct usync_wait *z)
{
	return is_here(z) ? UMUTEX_BYPASS_FAR - UMUTEX_BYPASS : 1;
}

/* Gives m, which is the caller's, to the first that waits, or wakes it. */
static void mutex_pass(struct umutex *m)
{
	struct usync *y = &m->mx_sync;
	struct ulock *lock = enter(y);
	struct usync_wait *z = take_first(&y->y_first);
	unsigned to = 0;
	int result = RETRY;

	if (z != NULL && z->z_first) {			/* M3 */
		result = GIVEN;
		usync_own(&m->mx_owner, z->z_self);
		to |= UMUTEX_TAKEN;
		hint(y, queued(y->y_first));
	} else if (z != NULL) {
		hint(y, passes(z));
		to |= UMUTEX_WOKEN;
	} else
		hint(y, 0);
	set(y, to | queued(y->y_first));
	lock_put(lock);
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
		hint(y, passed);
		if (passed > UMUTEX_BYPASS_FAR)
			to |= UMUTEX_RESERVED;		/* M4 */
	} while (!usync_change(y, &now, to));
}

const void *umutex_owner(const struct umutex *m)
{
	const void *owner = usync_owner(&m->mx_owner);

	LOOK(&m->mx_sync, UHARD_MUTEX, "umutex_owner");
	return owner != m ? owner : NULL;
}

const void *urw_owner(const struct urw *l)
{
	LOOK(&l->rw_sync, UHARD_RW, "urw_owner");
	return usync_owner(&l->rw_owner);
}

const void *usync_caller(void)
{
	return usync_self();
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
	LOOK(&m->mx_sync, UHARD_MUTEX, "umutex_busy");
	return busy(&m->mx_sync);
}

/* Conditions. */

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
	wait_init(&p->pr_signal, &c->cd_sync);
	wait_init(&p->pr_lock, lock);
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
	struct ulock *lock = enter(&c->cd_sync);

	put_last(&c->cd_sync.y_first, z);
	set_queued(&c->cd_sync);
	lock_put(lock);
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
		give_up(&c->cd_sync, &p->pr_signal);
	z = &p->pr_lock;
	if (rc != GIVEN && (rc < 0 || !mutex_take(m, true, true)) &&
	    mutex_put(m, z, rc == RETRY))
		(void)mutex_wait(m, &z, UNEVER);	/* C3 */
	UHARD(hold(m, UHARD_MUTEX));
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
	lock = enter(y);
	now = usync_state(y);
	do {
		more = now & (UMUTEX_TAKEN | UMUTEX_WOKEN) ? USYNC_QUEUED :
			UMUTEX_WOKEN;
	} while (!usync_change(y, &now, now | more));
	if (more == USYNC_QUEUED) {			/* C2 */
		z->z_claimed = true;
		put_last(&y->y_first, z);
	} else
		hint(y, passes(z));
	lock_put(lock);
	if (more != USYNC_QUEUED)
		uwait_complete(&z->z_wait, RETRY);
}

void ucond_signal(struct ucond *c)
{
	struct usync *y = &c->cd_sync;
	struct usync_wait *z;
	struct ulock *lock;

	USYNC_CALL(y, UHARD_COND, "ucond_signal");
	if (!(acquired(y) & USYNC_QUEUED))		/* N6 */
		return;
	lock = enter(y);
	z = take_first(&y->y_first);
	set_queued(y);
	lock_put(lock);
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
	if (!(acquired(y) & USYNC_QUEUED))		/* N6 */
		return;
	lock = enter(y);
	z = take_all(&y->y_first, &nr);
	set_queued(y);
	lock_put(lock);
	for (; z != NULL; z = next) {
		next = z->z_next;
		cond_pass(z);
	}
}

int ucond_busy(const struct ucond *c)
{
	LOOK(&c->cd_sync, UHARD_COND, "ucond_busy");
	return busy(&c->cd_sync);
}

/* Semaphores. */

/* Takes a unit, or puts z into the ring. Returns whether it did the latter. */
static bool sem_put(struct usync *y, struct usync_wait *z)
{
	struct ulock *lock = enter(y);
	unsigned now = usync_state(y);
	bool has;

	do
		has = now >= USEM_UNIT;
	while (!usync_change(y, &now, has ? now - USEM_UNIT :
			     now | USYNC_QUEUED));
	if (!has)
		put_last(&y->y_first, z);
	lock_put(lock);
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
		now = collide(y);
	}
	z = wait_make(y, UWAIT_SEM, until, &rc);
	if (z == NULL)
		return rc;
	if (sem_put(y, z))
		return wait_for(y, z, until);
	uwait_free(z);
	return 0;
}

/* Gives a unit while threads wait, or the count is full. */
static int sem_pass(struct usync *y)
{
	struct ulock *lock = enter(y);
	struct usync_wait *z = take_first(&y->y_first);
	unsigned now = usync_state(y);
	unsigned more = z == NULL ? USEM_UNIT : 0;
	int rc = 0;

	do {
		if (more != 0 && now / USEM_UNIT >= USYNC_MOST) {
			rc = -EOVERFLOW;
			break;
		}
	} while (!usync_change(y, &now, ((now & ~(unsigned)USYNC_QUEUED) |
					 queued(y->y_first)) + more));
	lock_put(lock);
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
		now = collide(y);
	}
	return sem_pass(y);
}

unsigned usem_value(const struct usem *s)
{
	LOOK(&s->sm_sync, UHARD_SEM, "usem_value");
	return usync_state(&s->sm_sync) / USEM_UNIT;
}

int usem_busy(const struct usem *s)
{
	LOOK(&s->sm_sync, UHARD_SEM, "usem_busy");
	return usync_state(&s->sm_sync) & USYNC_QUEUED ? -EBUSY : 0;
}

/* Read-write locks. */

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
		all = take_all(&y->y_first, &nr);
	if (nr == 0)
		z = take_first(&l->rw_writers);
	if (z == NULL && !readers)
		all = take_all(&y->y_first, &nr);
	if (z != NULL)
		usync_own(&l->rw_owner, z->z_self);
	set(y, nr * URW_READER | (z != NULL ? URW_WRITER : 0) |
	    queued(y->y_first) | queued(l->rw_writers));
	lock_put(lock);
	complete_all(all, 0);
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
	    !is_here(z) || usync_is_local(y) || utime_is_virtual() ||
	    !uwait_claim(&z->z_wait)) {
		rw_pass(l, lock, readers);
		return;
	}
	take_out(&l->rw_writers, z);
	__atomic_store_n(&y->y_skip, URW_BYPASS, __ATOMIC_RELAXED);
	set(y, URW_WOKEN | queued(y->y_first) | queued(l->rw_writers));
	lock_put(lock);
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
		all = take_all(&y->y_first, &nr);
	while (!usync_change(y, &now, ((now & ~(unsigned)USYNC_QUEUED) |
			     queued(y->y_first) | queued(l->rw_writers))
			     + nr * URW_READER))
		;
	lock_put(lock);
	complete_all(all, 0);
}

/* Takes z out if it still is in the ring. */
static void rw_give_up(struct urw *l, struct usync_wait *z,
		       struct usync_wait **first)
{
	lock_get(z->z_lock);
	if (z->z_prev != NULL) {
		take_out(first, z);
		rw_note(l, z->z_lock);
	} else
		lock_put(z->z_lock);
}

/*
 * Writes, if l is free; else puts z, which was woken, first again, and returns
 * false.
 */
static bool rw_come(struct urw *l, struct usync_wait *z)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = enter(y);
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
		put_first(&l->rw_writers, z);
	}
	lock_put(lock);
	return got;
}

/* Waits until l is the caller's. z, in a ring, stays the caller's. */
static int rw_wait_for(struct urw *l, struct usync_wait *z, utime_ns until,
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
	int rc = rw_wait_for(l, z, until, first);

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
	hint(y, to & URW_WOKEN ? to : to & ~(URW_READER - 1u));
}

/*
 * Puts z, unless it is NULL, into the ring of readers, and returns true; or reads.
 * again: the caller passes writers that wait: R4.
 */
static bool read_put(struct urw *l, struct usync_wait *z, bool again)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = enter(y);
	unsigned now = usync_state(y);
	unsigned to;

	do
		to = rw_reads(now, !again && (l->rw_writers != NULL ||
					      now & URW_WOKEN));
	while (!usync_change(y, &now, to == now && z != NULL ?
			     now | USYNC_QUEUED : to));
	if (to == now && z != NULL)
		put_last(&y->y_first, z);
	lock_put(lock);
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
			now = collide(y);
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
		if (again && !read_put(l, NULL, true))
			return 0;
	} while (until > UNOW && !(usync_state(y) & URW_WOKEN) &&
		 spin(y, URW_WRITER | USYNC_QUEUED, &l->rw_owner));
	z = wait_make(y, UWAIT_READ, until, &rc);
	if (z == NULL)
		return rc;
	z->z_first = until != UNEVER;
	if (read_put(l, z, again))
		return rw_wait(l, z, until, &y->y_first);
	uwait_free(z);
	return 0;
}

/* Puts z into the ring of writers, and returns true; or writes. */
static bool write_put(struct urw *l, struct usync_wait *z)
{
	struct usync *y = &l->rw_sync;
	struct ulock *lock = enter(y);
	unsigned now = usync_state(y);
	bool got;

	do
		got = now == 0;
	while (!usync_change(y, &now, now | (got ? URW_WRITER : USYNC_QUEUED)));
	if (got)
		usync_own(&l->rw_owner, z->z_self);
	else
		put_last(&l->rw_writers, z);
	lock_put(lock);
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
		 spin(y, ~0u, &l->rw_owner));
	z = wait_make(y, UWAIT_WRITE, until, &rc);
	if (z == NULL)
		return rc;
	z->z_first = until != UNEVER;
	if (write_put(l, z))
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
			rw_next(l, enter(y), true);
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
				now = collide(y);
			guessed = false;
			continue;
		}
		lock = enter(y);
		now = acquired(y);		/* from other readers: R3 */
		if (now < 2 * URW_READER && rw_has_next(now)) {
			rw_next(l, lock, false);
			return;
		}
		lock_put(lock);
	}
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
		give_up(&c->cd_sync, &p->pr_signal);
	z = &p->pr_lock;
	if (writes ? write_put(l, z) : read_put(l, z, false))
		(void)rw_wait_for(l, z, UNEVER, writes ? &l->rw_writers :
				  &l->rw_sync.y_first);	/* C3 */
	UHARD(hold(l, UHARD_RW));
	uwait_free(p);
	return rc < 0 ? rc : 0;
}

int urw_busy(const struct urw *l)
{
	LOOK(&l->rw_sync, UHARD_RW, "urw_busy");
	return busy(&l->rw_sync);
}

/* Wait groups. */

/* Makes the count of y 0, while threads wait. False: *now has changed. */
static bool group_end(struct usync *y, unsigned *now)
{
	struct ulock *lock = enter(y);
	struct usync_wait *first = y->y_first;
	struct usync_wait *all = NULL;
	unsigned nr;
	bool ended;

	y->y_first = NULL;
	ended = usync_change(y, now, 0);
	if (ended)			/* y may be free: G1 */
		all = take_all(&first, &nr);
	else
		y->y_first = first;
	lock_put(lock);
	complete_all(all, 0);
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
	if (acquired(y) < UGROUP_UNIT)
		return 0;
	z = wait_make(y, UWAIT_GROUP, until, &rc);
	if (z == NULL)
		return rc;
	lock = enter(y);
	now = acquired(y);
	while (now >= UGROUP_UNIT && !usync_change(y, &now, now | USYNC_QUEUED))
		;
	if (now >= UGROUP_UNIT)
		put_last(&y->y_first, z);
	lock_put(lock);
	if (now >= UGROUP_UNIT)
		return wait_for(y, z, until);
	uwait_free(z);
	return 0;
}

int ugroup_busy(const struct ugroup *g)
{
	LOOK(&g->gr_sync, UHARD_GROUP, "ugroup_busy");
	return busy(&g->gr_sync);
}

/* Barriers: the ring has those that have come, and y_state counts them. */

enum { CAME = 4 };

/* Takes z out. True: the last has come, and has counted z. */
static bool barrier_give_up(struct usync *y, struct usync_wait *z)
{
	bool counted;

	lock_get(z->z_lock);
	counted = z->z_prev == NULL;			/* B1 */
	if (!counted) {
		take_out(&y->y_first, z);
		set(y, usync_state(y) - CAME);
	}
	lock_put(z->z_lock);
	return counted;
}

/* Lets all go on if the caller is the last. Else puts z, or NULL, in. */
static bool barrier_last(struct ubarrier *b, struct usync_wait *z)
{
	struct usync *y = &b->br_sync;
	struct ulock *lock = enter(y);
	unsigned now = usync_state(y);
	struct usync_wait *all = NULL;
	bool last = now / CAME + 1 == b->br_nr;
	unsigned nr;

	if (last) {
		all = take_all(&y->y_first, &nr);
		set(y, 0);
	} else if (z != NULL) {
		put_last(&y->y_first, z);
		set(y, now + CAME);
	}
	lock_put(lock);
	complete_all(all, 0);
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
	z = wait_make(y, UWAIT_BARRIER, until, &rc);
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
	LOOK(&b->br_sync, UHARD_BARRIER, "ubarrier_busy");
	return busy(&b->br_sync);
}

/* Once. */

/* Ends the caller's run of f, which was not the last: lets another begin. */
static void once_next(struct uonce *o, struct ulock *lock)
{
	struct usync *y = &o->on_sync;
	struct usync_wait *z = take_first(&y->y_first);

	if (z != NULL)
		usync_own(&o->on_owner, z->z_self);
	set(y, (z != NULL ? UONCE_RUNS : 0) | queued(y->y_first));
	lock_put(lock);
	if (z != NULL)
		uwait_complete(&z->z_wait, RETRY);
}

static void once_done(struct usync *y, struct ulock *lock)
{
	unsigned nr;
	struct usync_wait *all = take_all(&y->y_first, &nr);

	set(y, UONCE_DONE);
	lock_put(lock);
	complete_all(all, 0);
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
		once_done(y, enter(y));
	else
		once_next(o, enter(y));
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

	z = wait_make(y, UWAIT_ONCE, until, &rc);
	if (z == NULL)
		return rc;
	lock = enter(y);
	now = usync_state(y);
	do
		more = now & UONCE_DONE ? 0 :
			now & UONCE_RUNS ? USYNC_QUEUED : UONCE_RUNS;
	while (!usync_change(y, &now, now | more));
	if (more == USYNC_QUEUED)
		put_last(&y->y_first, z);
	else if (more == UONCE_RUNS)
		usync_own(&o->on_owner, z->z_self);
	lock_put(lock);
	if (more == USYNC_QUEUED)
		return wait_for(y, z, until);
	uwait_free(z);
	return more == UONCE_RUNS ? RETRY : 0;
}

int uonce(struct uonce *o, int (*f)(void *arg), void *arg, utime_ns until)
{
	struct usync *y = &o->on_sync;
	unsigned now;
	int rc;

	USYNC_CALL(y, UHARD_ONCE, "uonce");
	now = acquired(y);
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
