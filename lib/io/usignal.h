/* SPDX-License-Identifier: MIT */
/* usignal.h: signals, for threads that may wait. */

#ifndef USIGNAL_H
#define USIGNAL_H

/*
 * A handler may do next to nothing. So the handler of this module only counts,
 * and a thread that waits for signals does the work.
 *
 * SHORTEST USE
 *
 *	usignal_watch(SIGTERM);
 *	usignal_watch(SIGHUP);
 *	while (usignal_wait(UNEVER) == SIGHUP)
 *		configure();
 *	shut_down();
 *
 * or, where a signal only ends something, such as a server (userve.h):
 *
 *	rc = usignal_until(SIGTERM, userve, &server);
 *
 * Each signal that the process gets while it is watched is returned once, by a
 * single usignal_wait(). Any number of threads may wait, of any schedulers. No
 * order is kept between different signals, but none starves another. The kernel
 * itself merges equal signals that it has not delivered, except for those from
 * SIGRTMIN on. Signals that come before a thread waits are kept.
 *
 * RESULTS are those of uio.h. -ETIMEDOUT and -ECANCELED take no signal. A
 * thread that waits for a signal keeps its scheduler from the end, and from
 * -EDEADLK.
 *
 * WHO MAY CALL WHAT
 *
 * Threads of any dispatcher with the call-backs of uwait.h, and native threads,
 * which block in the system.
 *
 * HANDLERS OF THE PROGRAM
 *
 * While a signal is watched, an earlier handler or disposition is not used. It
 * is restored by the last usignal_unwatch(), unless the program has set another
 * meanwhile. SIGURG is for upreempt.h, if that is used. Some native thread must
 * leave the signal unblocked: those of processors do, unless the program has
 * blocked it. The handler runs on the alternate stack, if the native thread has
 * one; system calls that it interrupts are restarted.
 *
 * The child of fork() goes on watching. It gets its own signals only, and drops
 * those that come before its first wait or watch. exec() ends all watches.
 */

#include "uwait.h"

#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Watches a signal, until usignal_unwatch() was called as many times. 0;
 * -EINVAL: there is no such signal, or it cannot be watched: SIGKILL, SIGSTOP,
 * and those that report an error of the code (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGTRAP, SIGSYS, SIGABRT); -EMFILE, -ENFILE, -ENOMEM.
 */
int usignal_watch(int signo);

/*
 * Ends a watch. After the last, signals that were not waited for are dropped.
 * If nothing is watched any more, those who wait get -EINVAL. 0; -EINVAL: it is
 * not watched.
 */
int usignal_unwatch(int signo);

/*
 * Waits until a watched signal has come, and returns it. -ETIMEDOUT, -EAGAIN,
 * -ECANCELED, -ENOMEM, -ENOSYS; -EINVAL: nothing is watched, or the deadline is
 * negative.
 */
int usignal_wait(utime_ns until);

/*
 * Runs f(arg), as a thread does it: the caller calls it, in a scope (uscope.h)
 * that the signal cancels. So waits in f return -ECANCELED then, and userve()
 * stops as its header says. Returns the result of f; 0, if that is -ECANCELED as
 * the signal has come. The next signal ends the process, if f has not returned
 * before. Several callers may name the same signal, which ends what each runs.
 *
 * Meanwhile a handler, or usignal_watch(), of the program gets no such signal.
 * What was before is restored when the last caller's f has returned, and in the
 * child of fork(). Threads only, whose dispatcher has s_make. f is not called:
 * -EINVAL: there is no such signal, or it cannot be caught; -ENOMEM, -EMFILE,
 * -ENFILE, -ENOSYS, -EAGAIN, -ECANCELED as uscope_go().
 */
int usignal_until(int signo, int (*f)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif /* USIGNAL_H */
