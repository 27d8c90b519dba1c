/* SPDX-License-Identifier: MIT */
/* umain.h: a program whose first function is a thread. */

#ifndef UMAIN_H
#define UMAIN_H

#include "usched.h"

/*
 * SHORTEST USE
 *
 *	static int run(void *arg);
 *
 *	int main(void)
 *	{
 *		return usched_main(run, NULL);
 *	}
 *
 * USCHED in the environment names the scheduler, and after a colon how many
 * processors it has: rr:2, ll:2, ws:4. Without a number, rr and ll have one
 * processor, and ws has as many as the caller may use cpus. Without USCHED it is
 * rr. In a program that is linked with the hooks of wrap/, threads have private
 * stacks (rr_private()), unless USCHED_STACKS says otherwise.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* What usched_main() returns if something went wrong. */
#define USCHED_FAILED	125

/*
 * Runs f(arg) as the first thread of a scheduler, and returns its result when
 * all threads have ended. Native threads, again and again; at most one at a
 * time for each kind of scheduler. USCHED_FAILED, after a message
 * (usched_message()): USCHED names no scheduler, there is no memory, the caller
 * is a thread, or threads were left that nothing can wake.
 */
int usched_main(int (*f)(void *arg), void *arg);

/*
 * Not API. Runs f(arg) as usched_main(); unless size is 0, threads have
 * private stacks of size bytes, and the scheduler is held: if all threads wait,
 * so does the caller.
 */
int usched_main_held(int (*f)(void *arg), void *arg, size_t size);

/*
 * Makes a thread of the caller's scheduler that runs f(arg). Threads of any
 * scheduler that can make threads. 0; -ENOMEM; -ENOSYS: the caller is no such
 * thread.
 */
int usched_go(void (*f)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif /* UMAIN_H */
