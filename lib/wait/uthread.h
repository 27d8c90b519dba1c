/* SPDX-License-Identifier: MIT */
/* uthread.h: threads with a result, a name, and data of their own. */

#ifndef UTHREAD_H
#define UTHREAD_H

/*
 * A thread of any dispatcher makes others, which run in the same dispatcher or
 * scheduler as rr_thread_init() and its like would make them.
 *
 *	static void *square(void *arg);
 *
 * SHORTEST USE
 *
 *	struct uthread *t;
 *	void *result;
 *	int rc;
 *
 *	rc = uthread_make(&t, square, arg, "square");
 *	if (rc == 0)
 *		rc = uthread_join(t, &result, UNEVER);
 *
 * The handle t is valid until uthread_join() or uthread_detach() has returned
 * 0. Any thread may have it, also threads of other schedulers and native
 * threads. Their own scheduler must not end meanwhile (rr_hold()).
 *
 * A name, a pointer of the user's, and keys belong to threads made by
 * uthread_make() or uscope_go() (uscope.h). All other threads are plain: for
 * them these functions return -EINVAL or NULL, since nothing could run the
 * destructors at their end.
 *
 * Such a thread ends by a return of its function. ustack_abort() would end it
 * without destructors, and its joiner would never return.
 *
 * Results are 0 or a negative errno. A failure has changed nothing.
 */

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uthread;

#define UTHREAD_NAME	15	/* bytes of a name, with its 0 */

/*
 * Makes a thread with a handle, which runs f(arg). *t becomes its handle before
 * it begins; with t = NULL the thread is detached. name may be NULL, and is cut
 * to UTHREAD_NAME. Threads only. 0, -ENOMEM, -EAGAIN, -EINVAL; -ENOSYS: the
 * dispatcher has no s_make (rr, ll and ws have it).
 */
USCHED_MUST int uthread_make(struct uthread **t, void *(*f)(void *), void *arg,
		 const char *name);

/*
 * Makes a thread as uthread_make(). With USCHED_PRIVATE as its lane it has a
 * private stack, whatever its scheduler gives others: see rr_private() in rr.h. 0:
 * the scheduler chooses. As uthread_make(); -EAGAIN: there are no more private
 * stacks.
 */
int uthread_make_by(struct uthread **t, void *(*f)(void *), void *arg,
		    const char *name, int lane);

/*
 * Waits until t has ended, frees it, and sets *result, if result is not NULL,
 * to what its function has returned. Once for each t. Threads and native
 * threads. 0; -ETIMEDOUT, -ECANCELED, -EAGAIN, -ENOMEM: t can still be joined;
 * -EDEADLK: t is the caller; -EINVAL: t is detached, another thread waits for
 * t, or until is negative.
 */
USCHED_MUST int uthread_join(struct uthread *t, void **result, utime_ns until);

/*
 * Lets t be freed when it ends; its result is lost. Instead of a join. Any
 * thread, also t, or native thread. 0; -EINVAL: t is detached, or a thread
 * waits for it.
 */
int uthread_detach(struct uthread *t);

/*
 * INTERRUPTING ONE WAIT
 *
 * A scope (uscope.h) cancels all waits of its threads, for good. This ends a
 * single wait of a single thread.
 */

/*
 * Interrupts t: its wait in progress returns -ECANCELED, or, if t does not wait
 * or its event has come, its next wait that cannot go on at once. Later waits
 * are as always. Several interrupts before that wait are one. Any thread or
 * native thread, while the handle is valid. 0, -EINVAL: t is NULL.
 */
int uthread_interrupt(struct uthread *t);

/*
 * Takes an interrupt of the running thread that no wait has returned yet. 1; 0:
 * there is none.
 */
int uthread_interrupted(void);

/*
 * Lets waits of the running thread be interrupted, as they are at first (on is
 * not 0), or keeps interrupts for later (on is 0). Returns what was before; 0: the thread
 * has no handle.
 */
int uthread_interruptible(int on);

/* Returns the running thread if uthread_make() has made it, else NULL. */
struct uthread *uthread_self(void);

/*
 * Copies the name of t, or with NULL of the running thread: an empty string if
 * it has none. Any thread or native thread. 0, -EINVAL: it is plain.
 */
int uthread_name(struct uthread *t, char name[UTHREAD_NAME]);

/* Names the running thread. NULL: no name. 0, -EINVAL: it is plain. */
int uthread_set_name(const char *name);

/*
 * Returns the pointer that the user has given to t, or with NULL to the
 * running thread; NULL at first. Any thread or native thread.
 */
void *uthread_data(const struct uthread *t);

/* Gives t, or with NULL the running thread, a pointer. 0, -EINVAL. */
int uthread_set_data(struct uthread *t, void *data);

/*
 * KEYS
 *
 * A key stands for a pointer in each thread, NULL at first. When a thread
 * ends, destroy(value) is called for each of its values that is not NULL,
 * after the value has become NULL. Destructors run in the thread that ends,
 * and may wait. Values that they set are destroyed in further rounds,
 * UKEY_ROUNDS in all. A number that is no key, such as 0, or that was freed, is
 * -EINVAL or NULL for all functions.
 */
#define UKEY_MOST	128	/* keys at a time */
#define UKEY_ROUNDS	4

/* Makes a key. destroy may be NULL. 0, -EAGAIN: there are UKEY_MOST. */
int ukey_make(unsigned *key, void (*destroy)(void *));

/* Frees a key. Values that are left are not destroyed. 0, -EINVAL. */
int ukey_free(unsigned key);

/* Sets the value of the running thread. 0, -ENOMEM, -EINVAL. */
int ukey_set(unsigned key, const void *value);

/* Returns the value of the running thread, or NULL. */
void *ukey_get(unsigned key);

#ifdef __cplusplus
}
#endif

#endif /* UTHREAD_H */
