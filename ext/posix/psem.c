/* SPDX-License-Identifier: MIT */
/* psem.c: the pthread face: semaphores. */

/*
 * NAMED SEMAPHORES are libc's, since other processes use them. They are known
 * by their addresses. A thread of ours that waits for one looks again and
 * again, with naps in between.
 */

#include "plocks.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>

UPREEMPT_NEVER;

struct sem     { PFACE_OBJECT(struct usem, s_sem); };

/* The sem_t of musl is an array of ints, in which ours begins at a word. */
_Static_assert(sizeof(struct sem) + _Alignof(struct sem) - _Alignof(sem_t) <=
	       sizeof(sem_t), "an object of ours fits into libc's");

#define SEM(s)		(&((struct sem *)(((uintptr_t)(s) +		\
				_Alignof(struct sem) - 1) &		\
				~(_Alignof(struct sem) - 1)))->s_sem)

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
	struct pface_place *p = pface_place_of(named);
	int i;

	pface_place_lock(p);
	i = named_at(s, NAMED);
	if (i < 0)
		i = named_at(NULL, NAMED);
	if (i >= 0) {
		named_opens[i]++;
		__atomic_store_n(&named[i], s, __ATOMIC_RELAXED);
		if (i >= named_most)
			__atomic_store_n(&named_most, i + 1, __ATOMIC_RELEASE);
	}
	pface_place_unlock(p);
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
	(void)pface_errno(EMFILE);
	return SEM_FAILED;
}

int FACE(sem_close)(sem_t *s)
{
	struct pface_place *p = pface_place_of(named);
	int i;

	pface_place_lock(p);
	i = named_at(s, NAMED);
	if (i >= 0 && --named_opens[i] == 0)
		__atomic_store_n(&named[i], NULL, __ATOMIC_RELAXED);
	pface_place_unlock(p);
	return i >= 0 ? REAL(sem_close)(s) : pface_errno(EINVAL);
}

/* Never inline: as pface_errno(). */
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
		return pface_errno(EINVAL);
	if (shared)
		return pface_errno(ENOTSUP);
	memset(s, 0, sizeof *s);
	*SEM(s) = (struct usem)USEM(value);
	return 0;
}

int FACE(sem_destroy)(sem_t *s)
{
	return pface_errno(-usem_busy(SEM(s)));
}

int FACE(sem_trywait)(sem_t *s)
{
	int rc = wait_for(s, UNOW);

	if (rc == -EAGAIN)
		pface_give_way();
	return pface_errno(-rc);
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
	return pface_errno(rc == -ECANCELED ? EINTR : -rc);
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
		pface_errno(-usem_post(SEM(s)));
}

int FACE(sem_getvalue)(sem_t *s, int *value)
{
	if (is_named(s))
		return REAL(sem_getvalue)(s, value);
	*value = (int)usem_value(SEM(s));
	return 0;
}
