/* SPDX-License-Identifier: MIT */
/* usync_inside.h: rings, locks and states of objects, for their files. Private. */

#ifndef USYNC_INSIDE_H
#define USYNC_INSIDE_H

/*
 * Each kind of objects has a file of its own. These files share what is here, and
 * the hidden functions of usync.c, whose essay explains both. The inline functions
 * are for operations under the lock, the others for waits.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* first: park.h calls syscall() */
#endif
#define USCHED_PREEMPT	1	/* no file here leaves a mark: see uproc.h */
#if !defined(USYNC_INLINE)
#define USYNC_INLINE	static __inline__	/* but in the file of an object */
#endif
#include "usync.h"
#include "lock.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>

UPREEMPT_NEVER;

#if !defined(USYNC_LOCKS_LOG)
#define USYNC_LOCKS_LOG	8
#endif

#define USYNC_NATIVE	1u	/* a bit of an owner */

/* The address of this is what stands for the native thread. */
extern __thread char usync_here[2] HIDDEN;

/* Does what the function in usync.c does, without a call. */
extern inline __attribute__((gnu_inline)) const void *usync_native(void)
{
	return usync_here + USYNC_NATIVE;
}

/* Results of waits. */
enum { GIVEN, RETRY };

struct usync_wait {
	struct uwait       z_wait;	/* first */
	struct usync_wait *z_next;
	struct usync_wait *z_prev;	/* NULL: in no ring */
	struct ulock      *z_lock;	/* of the object; NULL: it is local */
	const void        *z_self;	/* an owner */
	bool               z_first;	/* is given the lock: umutex M3, urw R5 */
	bool               z_claimed;	/* by the signal that moved it: ucond C2 */
};

/*
 * A kind of waits. see notes the holder, for messages. The address of an object
 * is that of its usync.
 */
#define USYNC_KIND(name, call, see)	\
	{ { .wk_name = (name), .wk_call = (call), .wk_see = (see) } }

/* Locks. */

#if !defined(USYNC_LOCKS)	/* a test has them elsewhere */
struct usync_lock {
	struct ulock s_lock;
} __attribute__((aligned(64)));
extern struct usync_lock usync_locks[1 << USYNC_LOCKS_LOG] HIDDEN;
#else
#define usync_locks	USYNC_LOCKS
#endif

static inline struct ulock *usync_lock_of(const struct usync *y)
{
	unsigned key = (unsigned)((uintptr_t)y / 16) * 0x9e3779b1u;

	return usync_is_local(y) ? NULL :
		&usync_locks[key >> (32 - USYNC_LOCKS_LOG)].s_lock;
}

static inline void usync_lock_get(struct ulock *lock)
{
	if (lock != NULL)
		ulock_get(lock);
}

static inline void usync_lock_put(struct ulock *lock)
{
	if (lock != NULL)
		ulock_put(lock);
}

/* Begins a change of the rings of y. */
static inline struct ulock *usync_enter(struct usync *y)
{
	struct ulock *lock = usync_lock_of(y);

	usync_check(y, "usync");
	usync_lock_get(lock);
	return lock;
}

/* Rings. Caller holds the lock. */

/* Appends z to a ring. */
static inline void usync_put_last(struct usync_wait **first, struct usync_wait *z)
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

static inline void usync_put_first(struct usync_wait **first, struct usync_wait *z)
{
	usync_put_last(first, z);
	*first = z;
}

static inline void usync_take_out(struct usync_wait **first, struct usync_wait *z)
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
static inline struct usync_wait *usync_take_first(struct usync_wait **first)
{
	struct usync_wait *z;

	while ((z = *first) != NULL) {
		usync_take_out(first, z);
		if (z->z_claimed || uwait_claim(&z->z_wait))
			break;
	}
	return z;
}

/* Takes all out. Returns those that still wait, claimed, linked by z_next. */
HIDDEN struct usync_wait *usync_take_all(struct usync_wait **first,
					 unsigned *nr);

static inline void usync_complete_all(struct usync_wait *list, int result)
{
	struct usync_wait *next;

	for (; list != NULL; list = next) {
		next = list->z_next;
		uwait_complete(&list->z_wait, result);
	}
}

/* States. */

/* Returns the state. So the caller may go on without a change of it: usync N6. */
static inline unsigned usync_acquired(const struct usync *y)
{
	return __atomic_load_n(&y->y_state, __ATOMIC_ACQUIRE);
}

static inline unsigned usync_queued(const struct usync_wait *first)
{
	return first != NULL ? USYNC_QUEUED : 0;
}

/* Sets the state. For callers that know that nothing else changes the state. */
static inline void usync_set(struct usync *y, unsigned to)
{
	usync_check(y, "usync");
	__atomic_store_n(&y->y_state, to, __ATOMIC_RELEASE);
}

/* Notes what the state will be. */
static inline void usync_hint_set(struct usync *y, unsigned of)
{
	__atomic_store_n(&y->y_hint, (unsigned short)of, __ATOMIC_RELAXED);
}

/* Says whether threads wait. Caller holds the lock. */
HIDDEN void usync_set_queued(struct usync *y);

static inline int usync_busy(const struct usync *y)
{
	return usync_state(y) != 0 ? -EBUSY : 0;
}

/* Checks an object that this call does not change. In the hard mode only. */
#define USYNC_LOOK(y, kind, call)	\
	UHARD(object((y), (unsigned *)(uintptr_t)&(y)->y_magic, (kind), (call)))

/* Waits. */

static inline void usync_wait_init(struct usync_wait *z, const struct usync *y)
{
	z->z_prev    = NULL;
	z->z_lock    = usync_lock_of(y);
	z->z_self    = usync_self();
	z->z_first   = false;
	z->z_claimed = false;
}

/*
 * Makes a record for a wait that is necessary, or sets *rc. Out of line, as
 * callers try again after a wait: they must not keep the address of errno.
 */
HIDDEN struct usync_wait *usync_wait_make(const struct usync *y,
					  struct uwait_kind *kind,
					  utime_ns until, int *rc);

/* Takes z out if it still is in the ring of y; y exists only then: usync N2. */
HIDDEN void usync_give_up(struct usync *y, struct usync_wait *z);

/* Waits until z, in the ring of y, is completed. Frees z. */
static inline int usync_wait_for(struct usync *y, struct usync_wait *z,
				 utime_ns until)
{
	int rc = uwait_for(&z->z_wait, until);

	if (rc < 0)
		usync_give_up(y, z);
	uwait_free(z);
	return rc;
}

/* Returns whether the thread of z runs on the caller's processor. A hint. */
static inline bool usync_is_here(const struct usync_wait *z)
{
	const struct ustack *u = z->z_wait.w_stack;

	return u != NULL && __atomic_load_n(&u->u_sched, __ATOMIC_RELAXED) ==
			    usched_self();
}

/* Returns the first y_hint of a mutex while z, which is woken, is on its way. */
static inline unsigned usync_passes(const struct usync_wait *z)
{
	return usync_is_here(z) ? UMUTEX_BYPASS_FAR - UMUTEX_BYPASS : 1;
}

/*
 * Spins while another processor may clear these bits. Returns whether they are
 * clear. Does so seldom if that was in vain before.
 */
HIDDEN bool usync_spin(struct usync *y, unsigned bits,
		       const void *const *owner);

/* Leaves y to the others, as they were faster, and returns its state. */
HIDDEN unsigned usync_collide(const struct usync *y);

/* umutex.c describes these steps, which waits for a condition take, too. */
HIDDEN bool umutex_take(struct umutex *m, bool woken, bool may_spin);
HIDDEN bool umutex_put(struct umutex *m, struct usync_wait *z, bool woken);
HIDDEN int  umutex_wait(struct umutex *m, struct usync_wait **at,
			utime_ns until);

/* urw.c describes these. */
HIDDEN bool urw_read_put(struct urw *l, struct usync_wait *z, bool again);
HIDDEN bool urw_write_put(struct urw *l, struct usync_wait *z);
HIDDEN int  urw_wait_for(struct urw *l, struct usync_wait *z,
			 utime_ns until, struct usync_wait **first);

#endif /* USYNC_INSIDE_H */
