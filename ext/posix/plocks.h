/* SPDX-License-Identifier: MIT */
/* plocks.h: the pthread face: what its locks share. Private. */

#ifndef PLOCKS_H
#define PLOCKS_H

/*
 * OVERVIEW
 *
 * The objects are those of usync.h, and lie where libc's would: in the memory
 * of a pthread_mutex_t, and so on. That is larger (PFACE_FITS), and a static
 * initializer of libc leaves it zeroed, which is ready. pmutex.c has the
 * exceptions.
 *
 *	pmutex.c	pthread_mutex_t		| struct umutex | type | count |
 *			pthread_cond_t		| struct ucond | clock |
 *	prwlock.c	pthread_rwlock_t	| struct urw |
 *	pbarrier.c	pthread_barrier_t	| struct ubarrier |
 *	psem.c		sem_t			| struct usem |
 *	pint.c		pthread_once_t		an int
 *			pthread_spinlock_t	an int
 *
 * POLLING. A thread that locks and unlocks in a loop until another has done
 * something, or tries to, would keep its processor, and the other would never
 * run. So a try that fails gives way, and so does each PFACE_LOOKS-th call that
 * may lock, whoever calls. A loop over a plain variable cannot be seen here.
 *
 * All waits are those of native threads, too: a mutex may be used by libraries'
 * own threads that run the program's code.
 */

#include "pface.h"
#include "uscope.h"
#include "usync.h"
#include "compiler.h"

#include <errno.h>
#include <time.h>

/* Ours lie in the memory of libc's. */
#define PFACE_FITS(ours, libc)						\
	_Static_assert(sizeof(struct ours) <= sizeof(libc) &&		\
		       _Alignof(struct ours) <= _Alignof(libc),		\
		       "an object of ours fits into libc's")

/*
 * Places by address, for threads that wait for an int (pint.c), for the types
 * of mutexes, and for named semaphores.
 */

enum { PFACE_PLACES = 64 };

struct pface_place {
	PFACE_OBJECT(struct umutex, i_lock);
	PFACE_OBJECT(struct ucond, i_cond);
} __attribute__((aligned(64)));

HIDDEN extern struct pface_place pface_places[PFACE_PLACES];

static inline struct pface_place *pface_place_of(const volatile void *at)
{
	return &pface_places[(uintptr_t)at / 4 * 0x9e3779b1u >> 16 &
			     (PFACE_PLACES - 1)];
}

HIDDEN void pface_place_lock(struct pface_place *p);

/* Waits for pface_place_wake(). Caller holds the lock of p. */
HIDDEN void pface_place_wait(struct pface_place *p);
HIDDEN void pface_place_wake(struct pface_place *p);

static inline void pface_place_unlock(struct pface_place *p)
{
	umutex_unlock(&p->i_lock);
}

/* Loops that poll. */

enum { PFACE_LOOKS = 1024 };

/* Calls of this native thread that may lock. A program knows where they are. */
#if !defined(__PIC__) || defined(__PIE__)
__attribute__((tls_model("local-exec")))
#endif
HIDDEN extern __thread unsigned pface_looks;

/* Counts a call that may lock. */
static inline void pface_look(void)
{
	if (unlikely(++pface_looks % PFACE_LOOKS == 0))
		pface_give_way();
}

/* Returns what a try says whose result is rc. */
static inline int pface_tried(int rc)
{
	if (rc != -EAGAIN && rc != -EDEADLK) {
		pface_look();
		return rc == -EOVERFLOW ? EAGAIN : -rc;
	}
	pface_give_way();
	return EBUSY;
}

/*
 * Tries, and then waits, with a deadline of a clock. t is NULL: there is none.
 * So a deadline is looked at only by a caller that has to wait, as POSIX wants
 * it. rc: 0, or a negative errno.
 */
#define PFACE_UNTIL(rc, clock, t, wait)					\
	do {								\
		utime_ns until = UNOW;					\
									\
		pface_look();						\
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

#endif /* PLOCKS_H */
