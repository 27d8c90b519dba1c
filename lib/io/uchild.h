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
