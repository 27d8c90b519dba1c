/* SPDX-License-Identifier: MIT */
/* pmutex.c: the pthread face: mutexes, and conditions. */

/*
 * A static initializer of libc leaves a mutex zeroed, which is ready, but for
 * those initializers of glibc that make a recursive or error-checking mutex. So a
 * mutex that has no type yet is asked for libc's kind at its first use, once,
 * under a lock.
 *
 * A NORMAL mutex may be unlocked by any thread, and a second lock by its holder
 * waits. So it has no owner (umutex_disown()), and the thread that unlocks it
 * adopts it first. The other types have the owners of usync.h.
 *
 * INVARIANT
 *
 * K1. The type of a mutex is set before anything else of it is used.
 */

#include "plocks.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

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

PFACE_FITS(mutex, pthread_mutex_t);
PFACE_FITS(cond, pthread_cond_t);
/* What static initializers set lies elsewhere than what must be zero. */
#if defined(__GLIBC__)
_Static_assert(offsetof(pthread_mutex_t, __data.__kind) + sizeof(int) <=
	       offsetof(struct mutex, m_type), "libc's kind is not our type");
#endif

#define MUTEX(m)	((struct mutex *)(void *)(m))
#define COND(c)		((struct cond *)(void *)(c))

/* Mutexes. */

/* Gives m the type that its static initializer names. */
static unsigned type_see(struct mutex *m)
{
	struct pface_place *p = pface_place_of(m);
	unsigned type;

	pface_place_lock(p);
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
	pface_place_unlock(p);
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
	PFACE_UNTIL(rc, clock, t, umutex_lock(&m->m_mutex, until));
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
	return pface_tried(rc);
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
