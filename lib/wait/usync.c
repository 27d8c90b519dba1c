/* SPDX-License-Identifier: MIT */
/* usync.c: the base of mutexes, conditions, semaphores and the like. */

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
 *	file		object			in the ring, besides
 *
 *	umutex.c	a mutex
 *	ucond.c		a condition		then in that of its lock
 *	usem.c		a semaphore
 *	urw.c		a read-write lock	readers; writers have another
 *	ugroup.c	a wait group
 *	ubarrier.c	a barrier		all that have come
 *	uonce.c		what is done once
 *
 * This file has what all objects share: the locks of the rings, records of waits,
 * and spins. The rest, inlined into operations, is in usync_inside.h.
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
 *				counts the locks of newcomers: umutex M4
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
 *     under the lock, so a record that was found there exists until
 *     usync_lock_put().
 * N4. No thread holds two of the locks, and no holder calls what may wait.
 * N5. QUEUED says, under the lock, whether the rings of the object are empty.
 * N6. Each call that returns has acquired what the calls before it released,
 *     by a change of the state or an acquire. So it may be followed by a free.
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
 * A guess in each lock and unlock, also while WOKEN or QUEUED is set: ws, whose
 * waiters mostly are on their way, took 30 ns instead of 17.
 *
 * Who holds a lock read from the holder: it may have ended, and been freed.
 */

#include "usync_inside.h"
#include "ufork.h"

#include <pthread.h>

#if !defined(LOOKS)
#define LOOKS	4		/* of a spin */
#endif
#define LOOK_NS	2400		/* from a look to the next */
#define PROBE	31		/* from this penalty on, one look at most */
#define COLLISION_NS	1000

/* Locks. */

#if !defined(USYNC_LOCKS)
struct usync_lock usync_locks[1 << USYNC_LOCKS_LOG];

static struct ufork at_fork = {
	.f_rank = UFORK_SYNC, .f_lock = &usync_locks[0].s_lock,
	.f_nr = 1 << USYNC_LOCKS_LOG, .f_step = sizeof usync_locks[0]
};
UFORK(at_fork)
#endif

__thread char usync_here[2] __attribute__((aligned(2)));

const void *usync_native(void)
{
	return usync_here + USYNC_NATIVE;
}

const void *usync_caller(void)
{
	return usync_self();
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

/* Rings. */

/* Takes all out. Returns those that still wait, claimed, linked by z_next. */
struct usync_wait *usync_take_all(struct usync_wait **first, unsigned *nr)
{
	struct usync_wait *list = NULL;
	struct usync_wait **end = &list;
	struct usync_wait *z;

	for (*nr = 0; (z = usync_take_first(first)) != NULL; ++*nr) {
		*end = z;
		end = &z->z_next;
	}
	*end = NULL;
	return list;
}

/* Says whether threads wait. Caller holds the lock. */
void usync_set_queued(struct usync *y)
{
	unsigned now = usync_state(y);

	while (!usync_change(y, &now, (now & ~(unsigned)USYNC_QUEUED) |
			     usync_queued(y->y_first)))
		;
}

/* Waits. */

struct usync_wait *usync_wait_make(const struct usync *y,
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
		usync_wait_init(z, y);
	return z;
}

/* Takes z out if it still is in the ring of y; y exists only then: N2. */
void usync_give_up(struct usync *y, struct usync_wait *z)
{
	usync_lock_get(z->z_lock);
	if (z->z_prev != NULL) {
		usync_take_out(&y->y_first, z);
		usync_set_queued(y);
	}
	usync_lock_put(z->z_lock);
}

/* Spins. */

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
	if (b == NULL || b->wb_ops->o_runs == NULL ||
	    (uintptr_t)owner & USYNC_NATIVE)
		return true;
	return b->wb_ops->o_runs(b, owner);
}

/*
 * Spins while another processor may clear these bits. Returns whether they are
 * clear. Does so seldom if that was in vain before.
 */
bool usync_spin(struct usync *y, unsigned bits, const void *const *owner)
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
unsigned usync_collide(const struct usync *y)
{
	if (LOOKS != 0 && !usync_is_local(y) && !utime_is_virtual())
		ulock_pass(COLLISION_NS);
	return usync_state(y);
}
