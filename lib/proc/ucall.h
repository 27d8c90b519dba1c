/* SPDX-License-Identifier: MIT */
/* ucall.h: calls that block, made while other threads go on. */

#ifndef UCALL_H
#define UCALL_H

/*
 * A system call that blocks stops the processor, or the plain dispatcher, with
 * all its threads. ucall() has the system call made by a native thread beside
 * it. Meanwhile the thread that called waits, and others run. Native threads
 * are made when they are needed, up to a limit. Idle native threads are kept
 * for the next call, and end after some seconds without a call. Calls beyond
 * the limit wait their turn: first in, first out.
 *
 * SHORTEST USE
 *
 *	ucall(f, arg);		by a thread of rr, ll, ws or any other: f(arg)
 *
 * THE FUNCTION f
 *
 * - It is not a thread. In it ustack_self() is NULL, and it must not wait,
 *   yield, or call ucall(). It may block, wake threads and make threads.
 * - It must not touch the stack of any thread, so arg must not point there: the
 *   stack of the caller moves while the caller waits. An arg that does has a
 *   message, but pointers behind arg are not looked at.
 * - errno, signal mask and variables local to native threads are not those of
 *   the caller. All signals are blocked, so handlers of the program run in
 *   other native threads. The exceptions are signals that report an error of
 *   the code itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS).
 * - It may run on all cpus of the scheduler, and so may native threads and
 *   processes that it makes: see uproc_pinning().
 * - It has to return: it must not call pthread_exit(), and no exception may
 *   leave it.
 * - It may fork(). The child must exec or exit before the function returns, and
 *   may start a scheduler of its own. Signals are blocked in the child, too.
 * - If another thread forks while it runs, it does not exist in the child, but
 *   locks of libc that it held stay taken there. fork() gives the child malloc()
 *   and stdio, but for a FILE in use. The child must not call what else has a
 *   lock in libc and was in use: localtime(), getpwnam(), getaddrinfo(),
 *   syslog(), setenv() and their like. Let such functions end before a fork, or
 *   the child exec. Look-ups by ufile.h tell: -ECHILD.
 * - If it waits until another call has done something, the limit must be large
 *   enough for both, or they deadlock.
 *
 * PLAIN DISPATCHERS with s_wait and s_wake (uwait.h) have calls, too, if their
 * s_next() calls utime_run() and utime_idle(). Each has native threads of its
 * own, which utime_fini() joins. While a thread calls, utime_idle() sleeps, and
 * utime_fini() ends the program. In the child of fork() no call of the parent
 * ends.
 *
 * WHO MAY CALL WHAT
 *
 * ucall(): a thread of any dispatcher that has waits, not in a signal handler.
 * Link ucall.c, which needs uproc.c and umem.c. The functions ucall_pool_*() are
 * for other schedulers.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs f(arg) on a native thread, while the caller, a thread, waits. Neither a
 * deadline nor a cancellation ends the wait. Wakes of the caller that come
 * meanwhile are kept (plain dispatchers: uwait.h). Its scheduler does not end
 * before the call. Afterwards the caller sees what f() has written.
 *
 * 0: f() has returned. After an error f() was not called. -EINVAL: the caller
 * is no thread, or f is NULL. -ENOSYS: its dispatcher has no s_wait. -ECHILD:
 * the caller is in the child that a thread has forked (see FORK in rr.h), and
 * the pool is the parent's. -ENOMEM. -EAGAIN: the system refuses a native
 * thread, and there is none yet.
 */
int ucall(void (*f)(void *), void *arg);

/*
 * Sets the limit of native threads for each scheduler or plain dispatcher,
 * instead of UCALL_LIMIT. It applies to those whose threads have not called yet.
 * Any thread. 0; -EINVAL: nr is less than 1.
 */
int ucall_limit(int nr);

struct ucall_pool;

/* FOR ufile.h */

/*
 * Not API. Does what ucall() does, but until f() has begun, the deadline or a
 * cancellation ends the wait. After an error f() was not called. f is not NULL. As
 * ucall(); -ETIMEDOUT, -ECANCELED.
 */
int ucall_until(void (*f)(void *), void *arg, utime_ns until);

/*
 * Native threads of a scheduler or plain dispatcher for look-ups, beside those of
 * UCALL_LIMIT; and look-ups of the process that are abandoned. A server that is
 * deaf keeps a native thread for 5 to 30 s (resolv.conf: 5 s a try, 2 tries, up to
 * 3 servers), so 64 let some 2 to 12 look-ups a second be abandoned. A server
 * that answers in 20 ms gets 3,200 questions a second from them.
 */
#define UCALL_LOOKUPS	64

/*
 * Not API. Does what ucall_until() does, but the deadline or a cancellation also
 * ends the wait for an f() that has begun, which goes on, abandoned. 0: the caller
 * has arg, as f() has left it. After an error drop(arg) has been called; or, if
 * f() was abandoned, the native thread calls it after f(). f() and drop() use
 * only arg. arg points to no stack. Native threads call f(arg) themselves, without
 * a deadline.
 *
 * -EAGAIN: as ucall(), or UCALL_LOOKUPS are abandoned. -ECHILD: as ucall(), or an
 * ancestor of the process has forked while an f() ran.
 */
int ucall_lookup(void (*f)(void *), void (*drop)(void *), void *arg,
		 utime_ns until);

/* FOR SCHEDULERS over uproc.h */

/* Makes a pool of native threads. NULL and errno: ENOMEM or another error of pthreads. */
struct ucall_pool *ucall_pool_make(void);

/*
 * Sets the limit of native threads; UCALL_LIMIT if not called. The scheduler
 * calls it before threads of the set run. 0, -EINVAL.
 */
int ucall_pool_limit(struct ucall_pool *c, int nr);

/*
 * A SATA disk takes 32 commands at a time, so this keeps two disks busy. 64
 * native stacks of 8 MiB are 512 MiB of addresses, which 32-bit machines have.
 */
#define UCALL_LIMIT	64

/*
 * Does what ucall() does, for self, the running thread of a set over uproc.h.
 * -EINVAL: self is NULL, too. -ECHILD: an ancestor of the process has made c.
 */
int ucall_pool_call(struct ucall_pool *c, struct uproc_thread *self,
		    void (*f)(void *), void *arg);

/*
 * Joins the native threads, and frees everything. All calls must have ended.
 * Does nothing if c is NULL, or an ancestor of the process has made c.
 */
void ucall_pool_free(struct ucall_pool *c);

#ifdef __cplusplus
}
#endif

#endif /* UCALL_H */
