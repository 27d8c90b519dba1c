/* SPDX-License-Identifier: MIT */
/* plocks.c: the pthread face: mutexes, conditions, and what else threads share. */

/*
 * OVERVIEW
 *
 * The objects are those of usync.h, and lie where libc's would: in the memory
 * of a pthread_mutex_t, and so on. That is larger (the asserts below), and a
 * static initializer of libc leaves it zeroed, which is ready. But for those
 * initializers of glibc that make a recursive or error-checking mutex: a mutex
 * that has no type yet is asked for libc's kind at its first use, once, under a
 * lock.
 *
 *	pthread_mutex_t    | struct umutex | type | count |
 *	pthread_cond_t     | struct ucond | clock |
 *	pthread_rwlock_t   | struct urw |
 *	pthread_barrier_t  | struct ubarrier |
 *	sem_t              | struct usem |
 *	pthread_once_t, pthread_spinlock_t: an int
 *
 * A NORMAL mutex may be unlocked by any thread, and a second lock by its holder
 * waits. So it has no owner (umutex_disown()), and who unlocks it adopts it
 * first. The other types have the owners of usync.h.
 *
 * READERS. A thread that has a read lock may get another while a writer waits,
 * as with libc. Which locks a thread has is not known, but how many: a thread
 * that has any passes writers that wait (urw_read_again()).
 *
 * AN INT has no room for a queue. Waiters for it wait for a condition, of which
 * there is one for each place in a table by address. For a spin lock 1 is
 * taken, and 2 is taken and others wait; so a thread never spins here. For
 * once, 1 is running, and 2 is done.
 *
 * POLLING. A thread that locks and unlocks in a loop until another has done
 * something, or tries to, would keep its processor, and the other would never
 * run. So a try that fails gives way, and so does each LOOKS-th call that may
 * lock, whoever calls. A loop over a plain variable cannot be seen here.
 *
 * All waits are those of native threads, too: a mutex may be used by libraries'
 * own threads that run the program's code.
 *
 * INVARIANTS
 *
 * K1. The type of a mutex is set before anything else of it is used.
 * K2. Of an int that is 2, each change to 0 is followed by a broadcast, under
 *     the lock of its place. A waiter makes it 2 under the same lock.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
/* The clean-up handler of pthread_once() is the face's. */
#pragma redefine_extname __pthread_register_cancel __wrap___pthread_register_cancel
#pragma redefine_extname __pthread_unregister_cancel __wrap___pthread_unregister_cancel
#pragma redefine_extname __pthread_unwind_next __wrap___pthread_unwind_next
#pragma redefine_extname _pthread_cleanup_push __wrap__pthread_cleanup_push
#pragma redefine_extname _pthread_cleanup_pop __wrap__pthread_cleanup_pop
#include "pface.h"
#include "uscope.h"
#include "usync.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

UPREEMPT_NEVER;

/* Types. The first is that of a mutex that was not used yet. */
enum { UNSEEN, NORMAL, RECURSIVE, CHECKED, DESTROYED };

struct mutex {
	PFACE_OBJECT(struct umutex, m_mutex);
	unsigned m_type;		/* atomic: K1 */
	unsigned m_count;		/* recursive: further locks */
};

struct cond {
	PFACE_OBJECT(struct ucond, c_cond);
	int c_clock;
};

struct rwlock  { PFACE_OBJECT(struct urw, l_rw); };
struct barrier { PFACE_OBJECT(struct ubarrier, b_barrier); };
struct sem     { PFACE_OBJECT(struct usem, s_sem); };

/* Ours lie in the memory of libc's. */
#define FITS(ours, libc)						\
	_Static_assert(sizeof(struct ours) <= sizeof(libc) &&		\
		       _Alignof(struct ours) <= _Alignof(libc),		\
		       "an object of ours fits into libc's")
FITS(mutex, pthread_mutex_t);
FITS(cond, pthread_cond_t);
FITS(rwlock, pthread_rwlock_t);
FITS(barrier, pthread_barrier_t);
/* The sem_t of musl is an array of ints, in which ours begins at a word. */
_Static_assert(sizeof(struct sem) + _Alignof(struct sem) - _Alignof(sem_t) <=
	       sizeof(sem_t), "an object of ours fits into libc's");
_Static_assert(sizeof(pthread_once_t) == sizeof(int) &&
	       sizeof(pthread_spinlock_t) == sizeof(int), "an int");
/* What static initializers set lies elsewhere than what must be zero. */
#if defined(__GLIBC__)
_Static_assert(offsetof(pthread_mutex_t, __data.__kind) + sizeof(int) <=
	       offsetof(struct mutex, m_type), "libc's kind is not our type");
_Static_assert(offsetof(pthread_rwlock_t, __data.__flags) >=
	       sizeof(struct rwlock), "libc's flags are behind");
_Static_assert(PTHREAD_ONCE_INIT == 0, "once begins as 0");
#endif

#define MUTEX(m)	((struct mutex *)(void *)(m))
#define COND(c)		((struct cond *)(void *)(c))
#define RW(l)		(&((struct rwlock *)(void *)(l))->l_rw)
#define BARRIER(b)	(&((struct barrier *)(void *)(b))->b_barrier)
#define SEM(s)		(&((struct sem *)(((uintptr_t)(s) +		\
				_Alignof(struct sem) - 1) &		\
				~(_Alignof(struct sem) - 1)))->s_sem)

/* Places for those that wait for an int, and for the types of mutexes. */

enum { PLACES = 64 };

static struct int_place {
	PFACE_OBJECT(struct umutex, i_lock);
	PFACE_OBJECT(struct ucond, i_cond);
} __attribute__((aligned(64))) places[PLACES];

static struct int_place *place_of(const volatile void *at)
{
	return &places[(uintptr_t)at / 4 * 0x9e3779b1u >> 16 & (PLACES - 1)];
}

static void place_lock(struct int_place *p)
{
	int rc;

	PFACE_INSIST(rc, umutex_lock(&p->i_lock, UNEVER));
}

static void place_wait(struct int_place *p)
{
	int rc;

	PFACE_INSIST(rc, ucond_wait(&p->i_cond, &p->i_lock, UNEVER));
}

static void place_wake(struct int_place *p)
{
	place_lock(p);
	ucond_broadcast(&p->i_cond);
	umutex_unlock(&p->i_lock);
}

/* Loops that poll. */

enum { LOOKS = 1024 };

/* Counts a call that may lock. */
static void look(void)
{
	static __thread unsigned looks;

	if (unlikely(++looks % LOOKS == 0))
		pface_give_way();
}

/* Returns what a try says whose result is rc. */
static int tried(int rc)
{
	if (rc != -EAGAIN && rc != -EDEADLK) {
		look();
		return rc == -EOVERFLOW ? EAGAIN : -rc;
	}
	pface_give_way();
	return EBUSY;
}

/* Waits with a deadline of a clock. t is NULL: there is none. */

/*
 * Tries, and then waits. So a deadline is looked at only by a caller that has to
 * wait, as POSIX wants it. rc: 0, or an errno.
 */
#define UNTIL(rc, clock, t, wait)					\
	do {								\
		utime_ns until = UNOW;					\
									\
		look();							\
		(rc) = (wait);						\
		if ((rc) != -EAGAIN)					\
			break;						\
		until = UNEVER;						\
		if ((t) != NULL)					\
			(rc) = -pface_deadline((clock), (t), &until);	\
		else							\
			(rc) = 0;					\
		if ((rc) == 0)						\
			PFACE_INSIST(rc, (wait));			\
	} while (0)

/* Mutexes. */

/* Gives m the type that its static initializer names. */
static unsigned type_see(struct mutex *m)
{
	struct int_place *p = place_of(m);
	unsigned type;

	place_lock(p);
	type = m->m_type;
	if (type == UNSEEN) {
#if defined(__GLIBC__)
		int *kind = &((pthread_mutex_t *)(void *)m)->__data.__kind;

		type = *kind == PTHREAD_MUTEX_RECURSIVE ? RECURSIVE :
			*kind == PTHREAD_MUTEX_ERRORCHECK ? CHECKED : NORMAL;
		*kind = 0;		/* now a part of ours */
#else
		type = NORMAL;
#endif
		__atomic_store_n(&m->m_type, type, __ATOMIC_RELEASE);
	}
	umutex_unlock(&p->i_lock);
	return type;
}

static unsigned type_of(struct mutex *m)
{
	unsigned type = __atomic_load_n(&m->m_type, __ATOMIC_ACQUIRE);

	return likely(type != UNSEEN) ? type : type_see(m);
}

static bool is_mine(const struct mutex *m)
{
	return umutex_owner(&m->m_mutex) == usync_caller();
}

int FACE(pthread_mutex_init)(pthread_mutex_t *mutex,
			     const pthread_mutexattr_t *a)
{
	int kind = PTHREAD_MUTEX_DEFAULT, shared = PTHREAD_PROCESS_PRIVATE;
	int robust = PTHREAD_MUTEX_STALLED, protocol = PTHREAD_PRIO_NONE;
	struct mutex *m = MUTEX(mutex);

	if (a != NULL && (pthread_mutexattr_gettype(a, &kind) != 0 ||
			  pthread_mutexattr_getpshared(a, &shared) != 0 ||
			  pthread_mutexattr_getrobust(a, &robust) != 0 ||
			  pthread_mutexattr_getprotocol(a, &protocol) != 0))
		return EINVAL;
	if (shared != PTHREAD_PROCESS_PRIVATE ||
	    robust != PTHREAD_MUTEX_STALLED || protocol == PTHREAD_PRIO_PROTECT)
		return ENOTSUP;
	memset(mutex, 0, sizeof *mutex);
	m->m_type = kind == PTHREAD_MUTEX_RECURSIVE ? RECURSIVE :
		kind == PTHREAD_MUTEX_ERRORCHECK ? CHECKED : NORMAL;
	return 0;
}

int FACE(pthread_mutex_destroy)(pthread_mutex_t *mutex)
{
	struct mutex *m = MUTEX(mutex);

	if (type_of(m) == DESTROYED)
		return EINVAL;
	if (umutex_busy(&m->m_mutex) != 0)
		return EBUSY;
	__atomic_store_n(&m->m_type, DESTROYED, __ATOMIC_RELAXED);
	return 0;
}

/* Counts a further lock of m, which is the caller's. 0, EAGAIN. */
static int mutex_again(struct mutex *m)
{
	if (m->m_count == UINT_MAX)
		return EAGAIN;
	m->m_count++;
	return 0;
}

static int mutex_lock(struct mutex *m, clockid_t clock,
		      const struct timespec *t)
{
	unsigned type = type_of(m);
	int rc;

	if (type == DESTROYED)
		return EINVAL;
	if (type == RECURSIVE && is_mine(m))
		return mutex_again(m);
	UNTIL(rc, clock, t, umutex_lock(&m->m_mutex, until));
	if (rc == 0 && type == NORMAL)
		umutex_disown(&m->m_mutex);
	return -rc;
}

int FACE(pthread_mutex_lock)(pthread_mutex_t *mutex)
{
	return mutex_lock(MUTEX(mutex), 0, NULL);
}

int FACE(pthread_mutex_timedlock)(pthread_mutex_t *mutex,
				  const struct timespec *t)
{
	return mutex_lock(MUTEX(mutex), CLOCK_REALTIME, t);
}

int FACE(pthread_mutex_clocklock)(pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *t)
{
	return mutex_lock(MUTEX(mutex), clock, t);
}

int FACE(pthread_mutex_trylock)(pthread_mutex_t *mutex)
{
	struct mutex *m = MUTEX(mutex);
	unsigned type = type_of(m);
	int rc;

	if (type == DESTROYED)
		return EINVAL;
	if (type == RECURSIVE && is_mine(m))
		return mutex_again(m);
	rc = umutex_lock(&m->m_mutex, UNOW);
	if (rc == 0 && type == NORMAL)
		umutex_disown(&m->m_mutex);
	return tried(rc);
}

/* Makes the caller the owner of m, which it, or if NORMAL any, has locked. */
static int mutex_mine(struct mutex *m, unsigned type)
{
	if (type == DESTROYED)
		return EINVAL;
	return type == NORMAL ? -umutex_adopt(&m->m_mutex) :
		is_mine(m) ? 0 : EPERM;
}

int FACE(pthread_mutex_unlock)(pthread_mutex_t *mutex)
{
	struct mutex *m = MUTEX(mutex);
	int rc = mutex_mine(m, type_of(m));

	if (rc != 0)
		return rc;
	if (m->m_count > 0)
		m->m_count--;
	else
		umutex_unlock(&m->m_mutex);
	return 0;
}

/* There are neither robust mutexes nor ceilings. */

int FACE(pthread_mutex_consistent)(pthread_mutex_t *mutex)
{
	(void)mutex;
	return EINVAL;
}

int FACE(pthread_mutex_getprioceiling)(const pthread_mutex_t *mutex, int *at)
{
	(void)mutex, (void)at;
	return EINVAL;
}

int FACE(pthread_mutex_setprioceiling)(pthread_mutex_t *mutex, int to, int *was)
{
	(void)mutex, (void)to, (void)was;
	return EINVAL;
}

/* Conditions. */

int FACE(pthread_cond_init)(pthread_cond_t *cond, const pthread_condattr_t *a)
{
	int shared = PTHREAD_PROCESS_PRIVATE;
	clockid_t clock = CLOCK_REALTIME;

	if (a != NULL && (pthread_condattr_getpshared(a, &shared) != 0 ||
			  pthread_condattr_getclock(a, &clock) != 0))
		return EINVAL;
	if (shared != PTHREAD_PROCESS_PRIVATE)
		return ENOTSUP;
	memset(cond, 0, sizeof *cond);
	COND(cond)->c_clock = clock;		/* CLOCK_REALTIME is 0 */
	return 0;
}

int FACE(pthread_cond_destroy)(pthread_cond_t *cond)
{
	return -ucond_busy(&COND(cond)->c_cond);
}

/* Waits with m, which the caller holds as often as m_count says. */
static int cond_wait(struct cond *c, struct mutex *m, utime_ns until)
{
	unsigned type = type_of(m), count;
	int rc;

	pface_point();
	rc = mutex_mine(m, type);
	if (rc != 0) {
		pface_pointed(0);
		return rc;
	}
	count = m->m_count;
	m->m_count = 0;
	rc = ucond_wait(&c->c_cond, &m->m_mutex, until);
	m->m_count = count;
	if (type == NORMAL)
		umutex_disown(&m->m_mutex);
	if (rc == -ENOMEM)
		usched_fail("pthread: no memory for a wait");
	pface_pointed(rc);
	return rc == -ECANCELED ? 0 : -rc;
}

int FACE(pthread_cond_wait)(pthread_cond_t *c, pthread_mutex_t *m)
{
	return cond_wait(COND(c), MUTEX(m), UNEVER);
}

int FACE(pthread_cond_clockwait)(pthread_cond_t *c, pthread_mutex_t *m,
				 clockid_t clock, const struct timespec *t)
{
	utime_ns until;
	int rc = pface_deadline(clock, t, &until);

	return rc != 0 ? rc : cond_wait(COND(c), MUTEX(m), until);
}

int FACE(pthread_cond_timedwait)(pthread_cond_t *c, pthread_mutex_t *m,
				 const struct timespec *t)
{
	return FACE(pthread_cond_clockwait)(c, m, COND(c)->c_clock, t);
}

int FACE(pthread_cond_signal)(pthread_cond_t *c)
{
	ucond_signal(&COND(c)->c_cond);
	return 0;
}

int FACE(pthread_cond_broadcast)(pthread_cond_t *c)
{
	ucond_broadcast(&COND(c)->c_cond);
	return 0;
}

/* Read-write locks. */

int FACE(pthread_rwlock_init)(pthread_rwlock_t *l, const pthread_rwlockattr_t *a)
{
	int shared = PTHREAD_PROCESS_PRIVATE;

	if (a != NULL && pthread_rwlockattr_getpshared(a, &shared) != 0)
		return EINVAL;
	if (shared != PTHREAD_PROCESS_PRIVATE)
		return ENOTSUP;
	memset(l, 0, sizeof *l);
	return 0;
}

int FACE(pthread_rwlock_destroy)(pthread_rwlock_t *l)
{
	return -urw_busy(RW(l));
}

static int rw_read(struct urw *l, clockid_t clock, const struct timespec *t)
{
	unsigned *reads = pface_reads();
	int rc;

	if (*reads > 0)
		UNTIL(rc, clock, t, urw_read_again(l, until));
	else
		UNTIL(rc, clock, t, urw_read(l, until));
	if (rc == 0)
		++*reads;
	return rc == -EOVERFLOW ? EAGAIN : -rc;
}

static int rw_write(struct urw *l, clockid_t clock, const struct timespec *t)
{
	int rc;

	UNTIL(rc, clock, t, urw_write(l, until));
	return -rc;
}

int FACE(pthread_rwlock_rdlock)(pthread_rwlock_t *l)
{
	return rw_read(RW(l), 0, NULL);
}

int FACE(pthread_rwlock_timedrdlock)(pthread_rwlock_t *l,
				     const struct timespec *t)
{
	return rw_read(RW(l), CLOCK_REALTIME, t);
}

int FACE(pthread_rwlock_clockrdlock)(pthread_rwlock_t *l, clockid_t clock,
				     const struct timespec *t)
{
	return rw_read(RW(l), clock, t);
}

int FACE(pthread_rwlock_tryrdlock)(pthread_rwlock_t *l)
{
	int rc = urw_read(RW(l), UNOW);

	if (rc == 0)
		++*pface_reads();
	return tried(rc);
}

int FACE(pthread_rwlock_wrlock)(pthread_rwlock_t *l)
{
	return rw_write(RW(l), 0, NULL);
}

int FACE(pthread_rwlock_timedwrlock)(pthread_rwlock_t *l,
				     const struct timespec *t)
{
	return rw_write(RW(l), CLOCK_REALTIME, t);
}

int FACE(pthread_rwlock_clockwrlock)(pthread_rwlock_t *l, clockid_t clock,
				     const struct timespec *t)
{
	return rw_write(RW(l), clock, t);
}

int FACE(pthread_rwlock_trywrlock)(pthread_rwlock_t *l)
{
	return tried(urw_write(RW(l), UNOW));
}

int FACE(pthread_rwlock_unlock)(pthread_rwlock_t *lock)
{
	struct urw *l = RW(lock);
	unsigned *reads = pface_reads();
	const void *writer = urw_owner(l);

	if (urw_busy(l) == 0 || (writer != NULL && writer != usync_caller()))
		return EPERM;
	if (writer == NULL && *reads > 0)
		--*reads;
	urw_unlock(l);
	return 0;
}

/* Barriers. */

int FACE(pthread_barrier_init)(pthread_barrier_t *b,
			       const pthread_barrierattr_t *a, unsigned nr)
{
	int shared = PTHREAD_PROCESS_PRIVATE;

	if (nr == 0 || nr > USYNC_MOST ||
	    (a != NULL && pthread_barrierattr_getpshared(a, &shared) != 0))
		return EINVAL;
	if (shared != PTHREAD_PROCESS_PRIVATE)
		return ENOTSUP;
	memset(b, 0, sizeof *b);
	ubarrier_init(BARRIER(b), nr);
	return 0;
}

int FACE(pthread_barrier_destroy)(pthread_barrier_t *b)
{
	return -ubarrier_busy(BARRIER(b));
}

int FACE(pthread_barrier_wait)(pthread_barrier_t *b)
{
	int rc;

	PFACE_INSIST(rc, ubarrier_wait(BARRIER(b), UNEVER));
	return rc == 1 ? PTHREAD_BARRIER_SERIAL_THREAD : -rc;
}

/* Spin locks, which wait. */

int FACE(pthread_spin_init)(pthread_spinlock_t *s, int shared)
{
	if (shared != PTHREAD_PROCESS_PRIVATE)
		return ENOTSUP;
	*s = 0;
	return 0;
}

int FACE(pthread_spin_destroy)(pthread_spinlock_t *s)
{
	return __atomic_load_n(s, __ATOMIC_RELAXED) != 0 ? EBUSY : 0;
}

static bool spin_take(pthread_spinlock_t *s)
{
	int is_free = 0;

	return __atomic_compare_exchange_n(s, &is_free, 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

int FACE(pthread_spin_trylock)(pthread_spinlock_t *s)
{
	return tried(spin_take(s) ? 0 : -EAGAIN);
}

int FACE(pthread_spin_lock)(pthread_spinlock_t *s)
{
	struct int_place *p = place_of(s);

	look();
	if (likely(spin_take(s)))
		return 0;
	place_lock(p);
	while (__atomic_exchange_n(s, 2, __ATOMIC_ACQUIRE) != 0)
		place_wait(p);					/* K2 */
	umutex_unlock(&p->i_lock);
	return 0;
}

int FACE(pthread_spin_unlock)(pthread_spinlock_t *s)
{
	struct int_place *p = place_of(s);

	if (__atomic_exchange_n(s, 0, __ATOMIC_RELEASE) == 2)
		place_wake(p);
	return 0;
}

/* Once. */

enum { FRESH, RUNS, DONE };

static void once_set(pthread_once_t *once, int state)
{
	__atomic_store_n((int *)once, state, __ATOMIC_RELEASE);
	place_wake(place_of(once));
}

/* If f() is cancelled, once is as before. */
static void once_undo(void *once)
{
	once_set(once, FRESH);
}

int FACE(pthread_once)(pthread_once_t *once, void (*f)(void))
{
	struct int_place *p = place_of(once);
	int *at = (int *)once;
	int was;

	if (likely(__atomic_load_n(at, __ATOMIC_ACQUIRE) == DONE))
		return 0;
	place_lock(p);
	while ((was = __atomic_load_n(at, __ATOMIC_ACQUIRE)) == RUNS)
		place_wait(p);
	if (was == FRESH)
		__atomic_store_n(at, RUNS, __ATOMIC_RELAXED);
	umutex_unlock(&p->i_lock);
	if (was != FRESH)
		return 0;
	pthread_cleanup_push(once_undo, once);
	f();
	pthread_cleanup_pop(0);
	once_set(once, DONE);
	return 0;
}

/* Semaphores. */

/* Never inline: compilers keep the address of errno, and threads move. */
static NOINLINE int with_errno(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

/*
 * NAMED SEMAPHORES are libc's, since other processes use them. They are known
 * by their addresses. A thread of ours that waits for one looks again and
 * again, with naps in between.
 */

enum { NAMED = 64, NAP_MOST = 10 };	/* ms */

NATIVE(sem_open);
NATIVE(sem_close);
NATIVE(sem_trywait);
NATIVE(sem_post);
NATIVE(sem_getvalue);

static sem_t *named[NAMED];		/* atomic */
static int named_opens[NAMED];		/* libc gives the same for a name */
static int named_most;			/* places that were used (atomic) */

/* Returns the place of s, or -1. s is NULL: a place that is free. */
static int named_at(const sem_t *s, int most)
{
	int i;

	for (i = 0; i < most; i++) {
		if (__atomic_load_n(&named[i], __ATOMIC_RELAXED) == s)
			return i;
	}
	return -1;
}

static bool is_named(const sem_t *s)
{
	int most = __atomic_load_n(&named_most, __ATOMIC_ACQUIRE);

	return unlikely(most != 0) && named_at(s, most) >= 0;
}

/* Notes s, which was opened. False: there are NAMED. */
static bool named_add(sem_t *s)
{
	struct int_place *p = place_of(named);
	int i;

	place_lock(p);
	i = named_at(s, NAMED);
	if (i < 0)
		i = named_at(NULL, NAMED);
	if (i >= 0) {
		named_opens[i]++;
		__atomic_store_n(&named[i], s, __ATOMIC_RELAXED);
		if (i >= named_most)
			__atomic_store_n(&named_most, i + 1, __ATOMIC_RELEASE);
	}
	umutex_unlock(&p->i_lock);
	return i >= 0;
}

/* The mode and value are passed on, as libc reads them if it needs them. */
sem_t *FACE(sem_open)(const char *name, int flags, ...)
{
	unsigned mode = 0, value = 0;
	va_list more;
	sem_t *s;

	va_start(more, flags);
	if (flags & O_CREAT) {
		mode  = va_arg(more, unsigned);
		value = va_arg(more, unsigned);
	}
	va_end(more);
	s = REAL(sem_open)(name, flags, mode, value);
	if (s == SEM_FAILED || named_add(s))
		return s;
	(void)REAL(sem_close)(s);
	(void)with_errno(EMFILE);
	return SEM_FAILED;
}

int FACE(sem_close)(sem_t *s)
{
	struct int_place *p = place_of(named);
	int i;

	place_lock(p);
	i = named_at(s, NAMED);
	if (i >= 0 && --named_opens[i] == 0)
		__atomic_store_n(&named[i], NULL, __ATOMIC_RELAXED);
	umutex_unlock(&p->i_lock);
	return i >= 0 ? REAL(sem_close)(s) : with_errno(EINVAL);
}

/* Never inline: as with_errno(). */
static NOINLINE int named_try(sem_t *s)
{
	return REAL(sem_trywait)(s) == 0 ? 0 : -errno;
}

/* Waits for a named semaphore. 0, or a negative errno. */
static int named_wait(sem_t *s, utime_ns until)
{
	utime_ns nap = UTIME_MS / 8, now;
	int rc;

	while ((rc = named_try(s)) == -EAGAIN) {
		now = unow();
		if (until <= now)
			return until == UNOW ? -EAGAIN : -ETIMEDOUT;
		nap = nap < NAP_MOST * UTIME_MS ? 2 * nap : nap;
		rc = u_sleep(until - now > nap ? now + nap : until);
		if (rc != 0)
			return rc;
	}
	return rc;
}

static int wait_for(sem_t *s, utime_ns until)
{
	return is_named(s) ? named_wait(s, until) : usem_wait(SEM(s), until);
}

int FACE(sem_init)(sem_t *s, int shared, unsigned value)
{
	if (value > USYNC_MOST)
		return with_errno(EINVAL);
	if (shared)
		return with_errno(ENOTSUP);
	memset(s, 0, sizeof *s);
	*SEM(s) = (struct usem)USEM(value);
	return 0;
}

int FACE(sem_destroy)(sem_t *s)
{
	return with_errno(-usem_busy(SEM(s)));
}

int FACE(sem_trywait)(sem_t *s)
{
	int rc = wait_for(s, UNOW);

	if (rc == -EAGAIN)
		pface_give_way();
	return with_errno(-rc);
}

static int sem_wait_until(sem_t *s, clockid_t clock,
			  const struct timespec *t)
{
	utime_ns until = UNEVER;
	int rc;

	pface_point();
	rc = wait_for(s, UNOW);
	if (rc == -EAGAIN) {
		rc = t != NULL ? -pface_deadline(clock, t, &until) : 0;
		if (rc == 0)
			rc = wait_for(s, until);
	}
	pface_pointed(rc);
	return with_errno(rc == -ECANCELED ? EINTR : -rc);
}

int FACE(sem_wait)(sem_t *s)
{
	return sem_wait_until(s, 0, NULL);
}

int FACE(sem_timedwait)(sem_t *s, const struct timespec *t)
{
	return sem_wait_until(s, CLOCK_REALTIME, t);
}

int FACE(sem_clockwait)(sem_t *s, clockid_t clock, const struct timespec *t)
{
	return sem_wait_until(s, clock, t);
}

int FACE(sem_post)(sem_t *s)
{
	return is_named(s) ? REAL(sem_post)(s) :
		with_errno(-usem_post(SEM(s)));
}

int FACE(sem_getvalue)(sem_t *s, int *value)
{
	if (is_named(s))
		return REAL(sem_getvalue)(s, value);
	*value = (int)usem_value(SEM(s));
	return 0;
}
