/* SPDX-License-Identifier: MIT */
/* sthread.c: native threads, where the pthread face is not linked. */

/*
 * A host has no native threads. ext/posix/ has these names, too: a program that
 * takes libusched_pthread.a into the step of sim.flags has threads of usched,
 * and this file is not linked. Otherwise the run fails, and says so. Locks of libc are
 * those of the native thread, so they do while they are free: a wait for one would stop
 * all hosts for good.
 */

#include "snames.h"

#include <pthread.h>

#define NO_THREADS(X)							\
	X(pthread_create) X(pthread_exit) X(pthread_cond_wait) X(pthread_cond_timedwait)	\
	X(pthread_barrier_wait) X(sem_wait) X(sem_timedwait)

static NORETURN void refuse(const char *name)
{
	usim_fail("%s() needs the pthread face: see ext/sim/README.md", name);
}

#define REFUSE_THREAD(name)						\
	void refused_##name(void) __asm__("__wrap_" #name);		\
	void refused_##name(void)					\
	{								\
		refuse(#name);						\
	}
NO_THREADS(REFUSE_THREAD)

/* Takes a lock that is free. */
#define TAKE(name, try, type)						\
NAME(int, name, (type *lock))						\
{									\
	int rc;								\
									\
	if (enter() == NULL)						\
		return name(lock);					\
	rc = try(lock);							\
	if (rc == EBUSY)						\
		refuse(#name);						\
	return rc;							\
}
TAKE(pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_t)
TAKE(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_t)
TAKE(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_t)
