/* SPDX-License-Identifier: MIT */
/* uchild.h: child processes, for threads that may wait. */

#ifndef UCHILD_H
#define UCHILD_H

/*
 * SHORTEST USE
 *
 *	posix_spawnp(&pid, "date", NULL, NULL, argv, environ);
 *	if (u_waitpid(pid, &status, uafter(UTIME_S)) == -ETIMEDOUT) {
 *		kill(pid, SIGKILL);
 *		u_waitpid(pid, &status, UNEVER);
 *	}
 *
 * To start a child, posix_spawn(3) needs no help of this library. The call
 * stops the processor until the child has executed its program. A child runs on
 * the cpus of the native thread that has made it: see uproc_pinning().
 *
 * WHAT A PROGRAM GETS that a thread starts by posix_spawn(), system(), popen(),
 * or fork() and exec(). No descriptor of this library: exec closes them all, and
 * those that u_listen_*(), u_dial_*(), userve() and u_recv_fd() make. u_open() and
 * u_accept() do as their flags say. No handler: a signal that is watched has
 * its default. The mask of the native thread: nothing is
 * blocked but what the program has blocked, and with USCHED_LIST=signal the signal of
 * the list. In ucall() all signals are, so there SIGTERM would never end the
 * child. Give it an empty mask:
 *
 *	posix_spawnattr_setsigmask(&a, &none);
 *	posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGMASK);
 *
 * or call pthread_sigmask(SIG_SETMASK, &none, &old) around fork() or system().
 *
 * Other children are left alone, so a library may start and await children of
 * its own. No signal is used.
 */

#include "uwait.h"

#include <sys/types.h>
#include <sys/wait.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Waits until a child has ended, and returns pid. *status, if status is not
 * NULL, is that of waitpid(2). The child is gone then: its number may be used
 * again, and the next call returns -ECHILD. After other errors the child can
 * still be waited for. Threads of any dispatcher with the call-backs of
 * uwait.h, and native threads.
 *
 * Results as in uio.h, and: -ECHILD: there is no such child of this process;
 * another has waited for it; or SIGCHLD is ignored, and it has ended. -EINVAL:
 * pid is not positive, or the deadline is negative.
 *
 * On Linux before 5.3, on other systems, and without a free descriptor, it
 * looks again and again, at most 16 ms late.
 */
pid_t u_waitpid(pid_t pid, int *status, utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UCHILD_H */
