/* SPDX-License-Identifier: MIT */
/* uscope.h: scopes: threads that end together, and can be cancelled. */

#ifndef USCOPE_H
#define USCOPE_H

/*
 * A scope is a stretch of a thread's work. The thread begins it, makes threads
 * in it, and ends it. The end waits for these threads. A cancellation ends all
 * waits in the scope, of the thread that began it, too.
 *
 * SHORTEST USE
 *
 *	struct uscope *s;
 *	int i, rc, e;
 *
 *	rc = uscope_begin(&s, uafter(50 * UTIME_MS));
 *	if (rc != 0)
 *		return rc;
 *	for (i = 0; rc == 0 && i < 10; i++)
 *		rc = uscope_go(s, fetch, &job[i]);	int fetch(void *);
 *	if (rc != 0)
 *		uscope_cancel(s);
 *	e = uscope_end(&s);
 *	return e == -ECANCELED && rc != 0 ? rc : e;
 *
 * This returns the first error of a fetch(); -ETIMEDOUT if they took longer than
 * 50 ms; -ENOMEM if not all were made; or 0. No fetch() runs any more. Between
 * begin and end there is no return.
 *
 * NESTING
 *
 * A scope that a thread begins lies in its innermost scope: the last that it
 * has begun and not ended, or else the scope in which uscope_go() has made it.
 * Each thread ends its scopes in reverse order, before it ends itself. The
 * cancellation of a scope cancels the scopes in it. Threads made otherwise, by
 * uthread_make(), rr_thread_init() and the like, are in no scope.
 *
 * CANCELLATION
 *
 * A scope is cancelled by uscope_cancel(), when its deadline passes, by the
 * first error of a thread that uscope_go() has made in it, or with the scope
 * around it. It stays so until its end: each wait of this library in it
 * returns -ECANCELED, the wait in progress and all later waits, unless what it
 * waits for is there already. Nothing that was received or granted is lost:
 * then the wait returns 0. uscope_end() itself always waits for the threads. A thread
 * that calls on and on lets others run after some such waits, but takes all the cpu.
 *
 * Nothing is killed. A thread that does not wait asks u_canceled(). rr_wait()
 * and its like are not cancelled, but u_wait_until(UNEVER) and rr_join() are.
 * ucall() always waits for its function. A thread made in a scope begins even
 * if the scope was cancelled meanwhile, so that it can give back its argument.
 *
 * Clean-up that waits, in a cancelled scope, needs a shield: uscope_shield().
 *
 * WHO MAY CALL WHAT
 *
 * uscope_begin(), uscope_shield(), uscope_end(): threads of any dispatcher
 * with the call-backs of uwait.h, each for itself. uscope_go(): any such
 * thread. uscope_cancel(), uscope_errors(): any thread or native thread. The
 * caller knows that the scope has not ended, as all threads in it do, and all
 * that hold it. Not a
 * signal handler, nor a call-back of a dispatcher.
 *
 * A thread that has begun a scope must not end in it: it would leave threads
 * behind for which no end waits. Threads of uscope_go() and uthread_make()
 * that do so end the program. A thread of uscope_go() must not call
 * ustack_abort().
 */

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uscope;

/*
 * Begins a scope, and enters it. It is cancelled when until passes; UNEVER: it
 * has no deadline. 0 and *s; -EINVAL: the caller is no thread, or until is
 * negative; -ENOMEM, -ENOSYS: *s is NULL, and there is no scope to end.
 */
USCHED_MUST int uscope_begin(struct uscope **s, utime_ns until);

/*
 * Begins a scope that is not cancelled with the scopes around it until the
 * deadline has passed, or the shield was ended. Then what was kept off comes
 * in. For clean-up: uscope_end() ends it. As uscope_begin().
 */
USCHED_MUST int uscope_shield(struct uscope **s, utime_ns until);

/*
 * Makes a thread in s, which runs f(arg). If f() returns anything but 0, that
 * is an error: the first error cancels s, and uscope_end() returns it. But
 * -ECANCELED is no error once s is cancelled. 0; -ECANCELED: s is cancelled,
 * and no thread was made; -ENOMEM, -EAGAIN, -EINVAL; -ENOSYS: the dispatcher has
 * no s_make (rr, ll and ws have it). After an error s is as it was, and still to
 * be ended.
 */
USCHED_MUST int uscope_go(struct uscope *s, int (*f)(void *), void *arg);

/*
 * A function of the program's that makes a thread which runs g(arg), of the
 * scheduler of d, the caller's dispatcher. 0, or a negative errno.
 */
typedef int uscope_make(struct usched *d, void (*g)(void *), void *arg);

/*
 * Makes a thread as uscope_go(), by make(): to choose a processor, for instance.
 * Returns what make() returns, if that is not 0. make is NULL: as uscope_go().
 */
USCHED_MUST int uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
			     uscope_make *make);

/*
 * Holds s: uscope_end() waits until the release, as for a thread. So others may
 * cancel s, or make threads in it. The owner of s, a thread in s, or within
 * another hold.
 */
void uscope_hold(struct uscope *s);

/* Ends a uscope_hold(). Any thread or native thread. */
void uscope_release(struct uscope *s);

/*
 * Waits until all threads that uscope_go() has made in *s have ended, ends the
 * scope, and sets *s to NULL. The caller has begun *s, and it is its innermost
 * scope; else the program ends in usched_fail(). Returns the first error of a
 * thread; else -ETIMEDOUT if it was cancelled by its deadline, or by a deadline
 * around it that is not earlier; else -ECANCELED if it was cancelled; else 0.
 * -ENOMEM with *s not NULL: no memory to wait,
 * and the scope has not ended; call again. -EINVAL: *s is NULL.
 */
int uscope_end(struct uscope **s);

/* Cancels s, and all scopes in it that are not shielded. */
void uscope_cancel(struct uscope *s);

/* Returns how many threads of s have ended with an error. */
long uscope_errors(struct uscope *s);

/* Ends *s as uscope_end(). Sets *errors to the number of errors. */
int uscope_end_errors(struct uscope **s, long *errors);

/* Returns the innermost scope of the running thread, or NULL. */
struct uscope *uscope_self(void);

/* Returns whether the innermost scope of the running thread is cancelled. */
int u_canceled(void);

#ifdef __cplusplus
}
#endif

#endif /* USCOPE_H */
