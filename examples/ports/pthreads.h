/* SPDX-License-Identifier: MIT */
/* pthreads.h: names of pthreads, for code that threads of usched shall run. */

#ifndef PTHREADS_H
#define PTHREADS_H

/*
 * Code for pthreads stays as it is, and is compiled with this header in front:
 *
 *	cc -include pthreads.h -c pool.c
 *
 * Link it with start.c, which runs its main() in a thread. pool.c, pack.c,
 * radix.c, fft.c and lu.c are compiled in both ways.
 *
 * WHERE OBJECTS MAY LIE. Natively a mutex, a condition, or the data of a job
 * may be a local variable of a function that waits for other threads. Here they
 * may not, because other threads run at the same addresses while it waits. All
 * that another thread touches must be static or on the heap. The hard mode
 * (extra/uhard.h) finds what is not, with USCHED_DEBUG=evict=always,fault.
 *
 * A wait that has no memory, or is in a cancelled scope, ends the program: most
 * code for pthreads does not look at the result of a lock. doc/guide.md tells
 * what else is different.
 */
#include <errno.h>
#include <pthread.h>		/* before the names change, as is uproc.h */
#include "uproc.h"
#include "usync.h"
#include "uthread.h"

/* Returns what pthreads return: 0, an errno, or -1 to the last at a barrier. */
static inline int port(int rc)
{
	return rc != -ENOMEM && rc != -ECANCELED ? -rc :
		(usched_fail("pthreads.h: a wait has failed"), 0);
}

#define PORT_SET(o, to)	port((*(o) = (__typeof__(*(o))) to, 0))
#undef PTHREAD_MUTEX_INITIALIZER
#undef PTHREAD_COND_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER	{ 0 }
#define PTHREAD_COND_INITIALIZER	{ 0 }
#define main				ported_main	/* see start.c */
#define pthread_t			__typeof__(struct uthread *)
#define pthread_mutex_t			struct umutex
#define pthread_cond_t			struct ucond
#define pthread_barrier_t		struct ubarrier
#define pthread_create(t, attr, f, arg)	\
	port(uthread_make(t, f, arg, NULL) != 0 ? -EAGAIN : 0)
#define pthread_join(t, result)		port(uthread_join(t, result, UNEVER))
#define pthread_mutex_init(m, attr)	PORT_SET(m, { 0 })
#define pthread_mutex_destroy(m)	port(umutex_busy(m))
#define pthread_mutex_lock(m)		port(umutex_lock(m, UNEVER))
#define pthread_mutex_unlock(m)		port((umutex_unlock(m), 0))
#define pthread_cond_init(c, attr)	PORT_SET(c, { 0 })
#define pthread_cond_destroy(c)		port(ucond_busy(c))
#define pthread_cond_wait(c, m)		port(ucond_wait(c, m, UNEVER))
#define pthread_cond_signal(c)		port((ucond_signal(c), 0))
#define pthread_cond_broadcast(c)	port((ucond_broadcast(c), 0))
#define pthread_barrier_init(b, a, nr)	PORT_SET(b, UBARRIER(nr))
#define pthread_barrier_destroy(b)	port(ubarrier_busy(b))
#define pthread_barrier_wait(b)		port(ubarrier_wait(b, UNEVER))

#endif /* PTHREADS_H */
