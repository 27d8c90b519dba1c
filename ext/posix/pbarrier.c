/* SPDX-License-Identifier: MIT */
/* pbarrier.c: the pthread face: barriers. */

#include "plocks.h"

#include <errno.h>
#include <string.h>

UPREEMPT_NEVER;

struct barrier { PFACE_OBJECT(struct ubarrier, b_barrier); };

PFACE_FITS(barrier, pthread_barrier_t);

#define BARRIER(b)	(&((struct barrier *)(void *)(b))->b_barrier)

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
