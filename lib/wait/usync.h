/* SPDX-License-Identifier: MIT */
/* usync.h: mutexes, conditions, semaphores and the like. */

#ifndef USYNC_H
#define USYNC_H

/*
 * For threads of all schedulers, also between threads of different schedulers,
 * and for native threads. A thread that waits lets others run; a native thread
 * that waits blocks in the system.
 *
 * SHORTEST USE
 *
 *	static struct umutex lock;
 *
 *	int rc = umutex_lock(&lock, UNEVER);
 *
 *	if (rc != 0)
 *		return rc;
 *	...				may also wait
 *	umutex_unlock(&lock);
 *
 * OBJECTS
 *
 *	object		it is			zeroed, it is ready, and
 *	umutex		a lock			free
 *	ucond		a condition		-
 *	usem		a semaphore		0; USEM(nr)
 *	urw		a read-write lock	free
 *	ugroup		counts what is under	0
 *			way; a wait group
 *	ubarrier	lets nr meet		only by UBARRIER(nr)
 *	uonce		does something once	not done
 *
 * RESULTS of waits are those of uwait.h: 0, -ETIMEDOUT, -ECANCELED, -EAGAIN
 * (until was UNOW), -ENOMEM, -EINVAL, -ENOSYS. If the result is not 0, nothing
 * has changed. until is only looked at if the caller has to wait, and only then
 * does a cancellation count. More results:
 *
 *	-EDEADLK	the caller holds the lock, or runs the function, already
 *	-EPERM		the caller does not hold the lock
 *	-EOVERFLOW	the count would be above USYNC_MOST
 *
 * IN A CANCELLED SCOPE a wait for a lock that is taken returns -ECANCELED at
 * once, each time. So a loop around it computes until the lock is free.
 * Return the error, or, for a lock that clean-up must have, begin a shield:
 *
 *	struct uscope *shield;
 *
 *	if (uscope_shield(&shield, UNEVER) != 0)
 *		return;
 *	if (umutex_lock(&lock, UNEVER) == 0) {
 *		...
 *		umutex_unlock(&lock);
 *	}
 *	uscope_end(&shield);
 *
 * Unlock has no result, so it ends the program in usched_fail() if the caller
 * does not hold the lock. Unlock, signal, post and done need no memory. The new
 * lock at the end of ucond_wait() and ucond_wait_rw() has its memory before the
 * lock is released. So they cannot fail.
 *
 * WHO MAY CALL WHAT
 *
 * All functions: threads and native threads. Not a signal handler, nor a
 * call-back of a dispatcher. While a native thread, or a thread of another
 * scheduler, may still wake threads of a scheduler, the program must hold that
 * scheduler: rr_hold(). Else it may end, since its last thread has run, and be
 * freed while the wake still looks for a processor that sleeps.
 *
 * Nothing is given back for a caller that never returns. So pthread_cancel()
 * must not end a native thread in one of these functions, nor in the function
 * of uonce().
 *
 * ORDER
 *
 * Waiters are served first in, first out. A mutex that is free may also be
 * taken by a thread that just comes, which saves the switch. A waiter that was
 * woken and finds the mutex taken again becomes the first, and is given the
 * mutex by the next unlock. While a waiter is on its way, newcomers get at most
 * UMUTEX_BYPASS locks, or UMUTEX_BYPASS_FAR if it comes from elsewhere. If the
 * holder runs on another processor, a thread looks for up to 10 us whether it
 * lets the lock go, before it becomes a waiter. Others may lock any number of
 * times meanwhile.
 *
 * A semaphore's units go to waiters in order. A read-write lock alternates:
 * after a writer all readers that wait, after the readers the next writer, also
 * if they came in another order. A next writer on the processor of the caller
 * can run only after the caller. Then up to URW_BYPASS newcomers pass all that
 * wait, once for that writer.
 * Priorities of native threads do not count, as POSIX would have it. A thread
 * that reads, and reads again before it unlocks, does so by urw_read_again(): a
 * writer may wait between the two.
 *
 * MEMORY
 *
 * An object can be freed as soon as no thread waits or will wait: as soon as
 * the call that ends its use has returned. Other calls that have had their
 * effect, such as the unlock before, may still be running. The functions
 * ..._busy() tell in a test whether an object could be freed.
 *
 * A mutex or read-write lock is unlocked before its memory is freed or reused,
 * also by the last thread that knows it.
 *
 * A THREAD THAT ENDS WITH A LOCK leaves the lock taken. The hard mode, and so the
 * debug library, notes what each thread holds, and ends the program at the end
 * of the thread. A plain build says nothing then: it would have to count in each
 * lock and unlock. Nor can the next caller tell, since the memory of the thread
 * goes to the next thread that is made. That thread gets -EDEADLK from the lock,
 * as if it held the lock. Only if the scheduler ends while threads wait for the
 * lock, rr_fini() and its like name the lock, and the holder if its memory was
 * not used again.
 *
 * LOCAL OBJECTS, from the macros ..._LOCAL, are for threads of a single
 * processor, such as all threads of rr_init(1, 0). As long as no thread has to
 * wait, no atomic instruction is used. In the hard mode another processor that
 * uses the object ends the program in usched_fail().
 */

#include "uwait.h"

#if defined(__FreeBSD__)
/* The system has a struct umutex and a struct ucond, too, in some headers. */
#include <sys/_umtx.h>
#define umutex	usched_umutex
#define ucond	usched_ucond
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define USYNC_MOST	0xfffffff	/* units, readers, counts: 2^28 - 1 */
#define UMUTEX_BYPASS	1000	/* while a waiter of this processor comes */
#define UMUTEX_BYPASS_FAR 50000	/* while a waiter comes from elsewhere */
#define URW_BYPASS	255	/* while the next writer cannot run */

struct usync_wait;

/* The kinds of the waits for them. */
extern struct uwait_kind UWAIT_MUTEX[1];
extern struct uwait_kind UWAIT_COND[1];
extern struct uwait_kind UWAIT_SEM[1];
extern struct uwait_kind UWAIT_READ[1];
extern struct uwait_kind UWAIT_WRITE[1];
extern struct uwait_kind UWAIT_GROUP[1];
extern struct uwait_kind UWAIT_BARRIER[1];
extern struct uwait_kind UWAIT_ONCE[1];

/* What all objects begin with. The fields belong to the library. */
struct usync {
	unsigned           y_state;	/* atomic: see the enum */
	unsigned short     y_hint;	/* what y_state may be (atomic) */
	unsigned char      y_skip;	/* do not spin, that many times */
	unsigned char      y_penalty;	/* y_skip after a spin in vain; or
					 * USYNC_LOCAL (atomic) */
	struct usync_wait *y_first;	/* of those that wait, in a ring */
#if defined(USCHED_HARD)
	unsigned           y_home;	/* of a local object: usync_check() */
	unsigned           y_magic;	/* what it is: uhard.h (atomic) */
#endif
};

struct umutex   { struct usync mx_sync; const void *mx_owner; };
struct ucond    { struct usync cd_sync; };
struct usem     { struct usync sm_sync; };
struct ugroup   { struct usync gr_sync; };
struct ubarrier { struct usync br_sync; unsigned br_nr; };
struct uonce    { struct usync on_sync; const void *on_owner; };
struct urw {
	struct usync       rw_sync;	/* its ring: readers */
	struct usync_wait *rw_writers;
	const void        *rw_owner;	/* which writes, or NULL */
};

/* Not API. y_penalty of an object that is local: its callers never spin. */
#define USYNC_LOCAL	255

/* Not API. Bits of y_state. */
enum {
	URW_WOKEN    = 1,	/* a writer is on its way to take the lock */
	USYNC_QUEUED = 2,	/* threads wait */
	UMUTEX_TAKEN = 4,
	UMUTEX_WOKEN = 8,	/* a waiter is on its way to try again */
	UMUTEX_RESERVED  = 16,	/* only the woken waiter may take the mutex */
	USEM_UNIT    = 4,	/* a unit of a semaphore in y_state */
	UGROUP_UNIT  = 4,
	URW_WRITER   = 4,
	URW_READER   = 8,
	UONCE_RUNS   = 4,
	UONCE_DONE   = 8
};

#define USYNC_INIT_LOCAL(state)	\
	{ .y_state = (state), .y_penalty = USYNC_LOCAL }
#define UMUTEX_LOCAL	{ .mx_sync = USYNC_INIT_LOCAL(0) }
#define UCOND_LOCAL	{ .cd_sync = USYNC_INIT_LOCAL(0) }
#define URW_LOCAL	{ .rw_sync = USYNC_INIT_LOCAL(0) }
#define UGROUP_LOCAL	{ .gr_sync = USYNC_INIT_LOCAL(0) }
#define UONCE_LOCAL	{ .on_sync = USYNC_INIT_LOCAL(0) }
/* nr: 0 to USYNC_MOST. */
#define USEM(nr)	{ .sm_sync = { .y_state = (unsigned)(nr) * USEM_UNIT } }
#define USEM_LOCAL(nr)	\
	{ .sm_sync = USYNC_INIT_LOCAL((unsigned)(nr) * USEM_UNIT) }
/* nr: 1 to USYNC_MOST. */
#define UBARRIER(nr)	{ .br_nr = (nr) }
#define UBARRIER_LOCAL(nr) \
	{ .br_sync = USYNC_INIT_LOCAL(0), .br_nr = (nr) }

/*
 * Waits for c: unlocks m, which the caller holds, waits for a signal, and locks
 * m again, also if the result is not 0. A cancellation or the deadline ends
 * only the wait for the signal. As there may be other reasons for a return of
 * 0 than the caller's, the caller looks at its condition in a loop. -EPERM;
 * -ENOMEM: nothing has changed, and m was held all the time.
 */
USCHED_MUST int ucond_wait(struct ucond *c, struct umutex *m, utime_ns until);

/*
 * Waits for c as ucond_wait(), with a read-write lock, which the caller holds
 * for reading or for writing, and then locks in the same way. -EPERM.
 */
USCHED_MUST int ucond_wait_rw(struct ucond *c, struct urw *l, utime_ns until);

/*
 * Ends the first wait for c. If the mutex is taken, the waiter changes over to
 * the waiters of the mutex, and does not run in vain. The caller need not hold
 * the mutex.
 */
void ucond_signal(struct ucond *c);

/* Ends all waits for c, as ucond_signal() does. */
void ucond_broadcast(struct ucond *c);

/* Locks l for reading, beside other readers. -EDEADLK, -EOVERFLOW. */
USCHED_MUST int urw_read(struct urw *l, utime_ns until);

/*
 * Locks l for reading as urw_read(), also if a writer waits: for a caller that
 * reads already, and so would wait for that writer, which waits for it.
 */
int urw_read_again(struct urw *l, utime_ns until);

/* Locks l for writing, alone. -EDEADLK. */
USCHED_MUST int urw_write(struct urw *l, utime_ns until);

/* Unlocks what the caller holds, for reading or for writing. */
void urw_unlock(struct urw *l);

/*
 * Adds nr, which may be negative, to the count. If that makes it 0, all that
 * wait go on. 0; -EINVAL: the count would be negative; -EOVERFLOW.
 */
int ugroup_add(struct ugroup *g, int nr);

/* Takes 1 from the count, which must not be 0. */
void ugroup_done(struct ugroup *g);

/* Waits until the count is 0. */
USCHED_MUST int ugroup_wait(struct ugroup *g, utime_ns until);

/*
 * Waits until nr callers have come. The last gets 1, the others 0. A wait that
 * ends otherwise does not count as come. -EINVAL, also if nr is 0, or above
 * USYNC_MOST.
 */
USCHED_MUST int ubarrier_wait(struct ubarrier *b, utime_ns until);

/*
 * Calls f(arg), unless a call for o has returned 0 before. If a call is under
 * way, waits for its end; unless that returns 0, calls f(arg) next. So after an
 * error each waiter calls its f, one after the other: to compute an error only
 * once, note it in arg, and return 0. Returns 0, the result of f, or of a wait.
 * -EDEADLK: o's own f calls it.
 */
USCHED_MUST int uonce(struct uonce *o, int (*f)(void *arg), void *arg, utime_ns until);

/*
 * A MUTEX WITHOUT AN OWNER is locked, and no thread holds it. So any thread can
 * adopt and then unlock it, and a caller that locks it a second time waits.
 */

/*
 * Returns what stands for the owner of m: the struct ustack of a thread, or
 * else an address that stands for a native thread; NULL: m is free, or has no
 * owner. Not exact while others use m.
 */
const void *umutex_owner(const struct umutex *m);

/* Returns what stands for the writer of l, as umutex_owner(); NULL: none. */
const void *urw_owner(const struct urw *l);

/* Returns what stands for the caller as an owner. */
const void *usync_caller(void);

/* Gives up the ownership of m, which the caller holds, and leaves m locked. */
void umutex_disown(struct umutex *m);

/* Makes the caller the owner of m. 0; -EPERM: m is free, or has an owner. */
int umutex_adopt(struct umutex *m);

/* Returns how many units s has. Not exact while others use s. */
unsigned usem_value(const struct usem *s);

/*
 * Returns 0; -EBUSY: m is locked, or threads wait. Not exact while others use
 * the object, as the next five.
 */
int umutex_busy(const struct umutex *m);

/* Returns 0; -EBUSY: threads wait for c. */
int ucond_busy(const struct ucond *c);

/* Returns 0; -EBUSY: threads wait for units of s. */
int usem_busy(const struct usem *s);

/* Returns 0; -EBUSY: l is locked, or threads wait. */
int urw_busy(const struct urw *l);

/* Returns 0; -EBUSY: the count of g is not 0, or threads wait. */
int ugroup_busy(const struct ugroup *g);

/* Returns 0; -EBUSY: callers wait at b for others. */
int ubarrier_busy(const struct ubarrier *b);

/* Not API. */
int  umutex_lock_slow(struct umutex *m, utime_ns until);
void umutex_unlock_slow(struct umutex *m);
int  usem_wait_slow(struct usem *s, utime_ns until);
int  usem_post_slow(struct usem *s);
const void *usync_native(void);
void ubarrier_init(struct ubarrier *b, unsigned nr);

/*
 * Not API. Check an object at the beginning of each call, and that a local
 * object is not used by another processor. In the hard mode only.
 */
#if defined(USCHED_HARD)
void usync_check(struct usync *y, const char *call);
#define USYNC_CALL(y, kind, call)					\
	do {								\
		uhard_object((y), &(y)->y_magic, (kind), (call));	\
		usync_check((y), (call));				\
	} while (0)
#else
#define usync_check(y, call)		((void)0)
#define USYNC_CALL(y, kind, call)	((void)0)
#endif

/*
 * With USCHED_PREEMPT, or in the hard mode, these are not inline. Other files
 * leave the mark that uproc.h tells about, since a thread must not be preempted
 * within the functions for local objects.
 */
#if !defined(USCHED_PREEMPT) && !defined(USCHED_HARD) && defined(__ELF__) && \
	!defined(UPROC_INLINED)
#define UPROC_INLINED
__attribute__((weak)) char uproc_inlined;
#endif
#if (defined(USCHED_PREEMPT) || defined(USCHED_HARD)) && !defined(USYNC_INLINE)
USCHED_MUST int umutex_lock(struct umutex *m, utime_ns until);
void umutex_unlock(struct umutex *m);
USCHED_MUST int usem_wait(struct usem *s, utime_ns until);
int  usem_post(struct usem *s);
#else
#if !defined(USYNC_INLINE)
#define USYNC_INLINE	static __inline__
#endif
/* umutex.c and usem.c make functions of theirs. */
#if !defined(UMUTEX_INLINE)
#define UMUTEX_INLINE	static __inline__
#endif
#if !defined(USEM_INLINE)
#define USEM_INLINE	static __inline__
#endif

/* Not API. Returns what stands for the caller as an owner. */
static __inline__ const void *usync_self(void)
{
	const struct ustack *u = ustack_self();

	return __builtin_expect(u != NULL, 1) ? (const void *)u :
		usync_native();
}

/* Not API. */
static __inline__ unsigned usync_state(const struct usync *y)
{
	return __atomic_load_n(&y->y_state, __ATOMIC_RELAXED);
}

/* Not API. */
static __inline__ unsigned usync_hint(const struct usync *y)
{
	return __atomic_load_n(&y->y_hint, __ATOMIC_RELAXED);
}

/* Not API. */
static __inline__ int usync_is_local(const struct usync *y)
{
	return __builtin_expect(__atomic_load_n(&y->y_penalty,
				__ATOMIC_RELAXED) == USYNC_LOCAL, 0);
}

/*
 * Not API. Sets the state from *s, which may be a guess (usync.c), to a state;
 * else updates *s.
 */
static __inline__ int usync_change(struct usync *y, unsigned *s, unsigned to)
{
	unsigned now;

	usync_check(y, "usync");
	if (usync_is_local(y)) {
		now = y->y_state;
		if (now == *s)
			y->y_state = to;
		return now == *s || (*s = now, 0);
	}
	return __atomic_compare_exchange_n(&y->y_state, s, to, 0,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Not API. */
static __inline__ void usync_own(const void **at, const void *owner)
{
	__atomic_store_n(at, owner, __ATOMIC_RELAXED);
}

/* Not API. */
static __inline__ const void *usync_owner(const void *const *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* Locks m, or waits until m is the caller's. -EDEADLK. */
USCHED_MUST UMUTEX_INLINE int umutex_lock(struct umutex *m, utime_ns until)
{
	unsigned s = 0;

	USYNC_CALL(&m->mx_sync, UHARD_MUTEX, "umutex_lock");
	if (__builtin_expect(usync_hint(&m->mx_sync) == 0, 1) &&
	    __builtin_expect(usync_change(&m->mx_sync, &s, UMUTEX_TAKEN), 1)) {
		usync_own(&m->mx_owner, usync_self());
		UHARD(hold(m, UHARD_MUTEX));
		return 0;
	}
	return umutex_lock_slow(m, until);
}

/* Unlocks m, which the caller holds. */
UMUTEX_INLINE void umutex_unlock(struct umutex *m)
{
	const void *self;
	unsigned s = UMUTEX_TAKEN;

	USYNC_CALL(&m->mx_sync, UHARD_MUTEX, "umutex_unlock");
	UHARD(unhold(m));
	self = usync_self();
	if (__builtin_expect(usync_owner(&m->mx_owner) == self, 1) &&
	    __builtin_expect(usync_hint(&m->mx_sync) == 0, 1)) {
		usync_own(&m->mx_owner, NULL);
		if (__builtin_expect(usync_change(&m->mx_sync, &s, 0), 1))
			return;
		usync_own(&m->mx_owner, self);
	}
	umutex_unlock_slow(m);
}

/* Takes a unit, or waits for a unit. */
USCHED_MUST USEM_INLINE int usem_wait(struct usem *s, utime_ns until)
{
	unsigned now;

	USYNC_CALL(&s->sm_sync, UHARD_SEM, "usem_wait");
	now = usync_state(&s->sm_sync);
	if (__builtin_expect(now >= USEM_UNIT, 1) &&
	    usync_change(&s->sm_sync, &now, now - USEM_UNIT))
		return 0;
	return usem_wait_slow(s, until);
}

/* Gives a unit: to the first that waits, or to the count. 0, -EOVERFLOW. */
USEM_INLINE int usem_post(struct usem *s)
{
	unsigned now;

	USYNC_CALL(&s->sm_sync, UHARD_SEM, "usem_post");
	now = usync_state(&s->sm_sync);
	if (__builtin_expect(!(now & USYNC_QUEUED), 1) &&
	    now / USEM_UNIT < USYNC_MOST &&
	    usync_change(&s->sm_sync, &now, now + USEM_UNIT))
		return 0;
	return usem_post_slow(s);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* USYNC_H */
