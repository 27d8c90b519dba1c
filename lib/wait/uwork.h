/* SPDX-License-Identifier: MIT */
/* uwork.h: jobs for a number of workers: bounded, by priority, with an end. */

#ifndef UWORK_H
#define UWORK_H

/*
 *	struct uwork *k = uwork_make(100, 1, 1000);
 *
 *	uwork_put(k, f, arg, 0, UNEVER);	waits while 1000 jobs wait
 *	uwork_drain(k, UNEVER);			all f() have returned
 *	uwork_free(k, UNEVER);
 *
 * Results as in uchan.h. Threads and native threads call all but uwork_make().
 */

#include "uchan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define UWORK_LEVELS	8

struct uwork;

/*
 * Makes workers, which are threads of the caller's dispatcher (s_make), and up
 * to UWORK_LEVELS levels of jobs, with room for so many each. A worker takes a
 * job of level 0 first: a level runs only while all before it are empty. NULL
 * and errno: ENOMEM, or what s_make returns; EINVAL: a number, or no thread
 * calls; ENOSYS: no s_make.
 */
USCHED_MUST struct uwork *uwork_make(int workers, int levels, unsigned room);

/*
 * Lets a worker call f(arg). Waits while the level is full. f() may wait, and
 * may put jobs; if all workers wait to put jobs, they do so for ever. After an
 * error f() will not be called. -EPIPE: after uwork_free(), or no worker is left.
 * -EINVAL: f is NULL, or there is no such level.
 */
int uwork_put(struct uwork *k, void (*f)(void *), void *arg, int level,
	      utime_ns until);

/*
 * Waits until all jobs have been done. Others may put jobs meanwhile. -EPIPE: no
 * worker is left, since they got no memory for their waits.
 */
int uwork_drain(struct uwork *k, utime_ns until);

/*
 * Takes no more jobs, waits as uwork_drain(), and frees k. -EPIPE: k was freed,
 * but some jobs were not done. Other errors: k was not freed; call again. Only
 * jobs may use k meanwhile.
 */
int uwork_free(struct uwork *k, utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UWORK_H */
