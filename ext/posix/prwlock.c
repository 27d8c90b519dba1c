/* SPDX-License-Identifier: MIT */
/* prwlock.c: the pthread face: read-write locks. */

/*
 * A thread that has a read lock may get another while a writer waits, as with
 * libc. Which locks a thread has is not known, but how many: a thread that has
 * any passes writers that wait (urw_read_again()).
 */

#include "plocks.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

UPREEMPT_NEVER;

struct rwlock  { PFACE_OBJECT(struct urw, l_rw); };

PFACE_FITS(rwlock, pthread_rwlock_t);
#if defined(__GLIBC__)
_Static_assert(offsetof(pthread_rwlock_t, __data.__flags) >=
	       sizeof(struct rwlock), "libc's flags are behind");
#endif

#define RW(l)		(&((struct rwlock *)(void *)(l))->l_rw)

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
		PFACE_UNTIL(rc, clock, t, urw_read_again(l, until));
	else
		PFACE_UNTIL(rc, clock, t, urw_read(l, until));
	if (rc == 0)
		++*reads;
	return rc == -EOVERFLOW ? EAGAIN : -rc;
}

static int rw_write(struct urw *l, clockid_t clock, const struct timespec *t)
{
	int rc;

	PFACE_UNTIL(rc, clock, t, urw_write(l, until));
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
	return pface_tried(rc);
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
	return pface_tried(urw_write(RW(l), UNOW));
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
