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
 * rr. In a program that is linked with the hooks of ext/wrap/, threads have private
 * stacks (rr_private()), unless USCHED_STACKS says otherwise.
 *
 * WHICHEVER SCHEDULER IT IS, these take the place of functions of rr.h:
 *
 *	give way		u_sleep(UNOW)
 *	wait for a wake		usync.h, uchan.h, uthread_join()
 *	stack size		USCHED_STACK_SIZE (in bytes, or 1M, 64k)
 *	private stacks		USCHED_STACKS=private, or uthread_make_by()
 *	hold			ucall() of a function that joins the native
 *				thread which will wake threads: the scheduler
 *				does not end while a call runs
 */

#ifdef __cplusplus
extern "C" {
#endif

/* What usched_main() returns if something went wrong. */
#define USCHED_FAILED	125

/*
 * Runs f(arg) as the first thread of a scheduler, and returns its result when
 * all threads have ended. Writes a message if that is an error below -1, since
 * an exit status shows only its last byte: -98 is 158 there. Native threads,
 * again and again; at most one at a time for each kind of scheduler.
 * USCHED_FAILED, after a message (usched_message()): a variable of the environment
 * has an unknown word (core/env.h), there is no memory, the caller is a thread, or
 * threads were left that nothing can wake.
 *
 * THE CHILD OF fork() may call it in the only native thread that it has, be
 * that a plain native thread, a thread of rr, ll or ws, such as those of
 * usched_main(), or the function of a ucall(). Threads of the parent do not run
 * in the child. Their scheduler, stacks and buffers stay as they were at the
 * fork, and are not freed. A caller that was such a thread, or the function of
 * a call, ends by exit() or _exit() afterwards. A thread of a plain dispatcher
 * is a thread in the child, too: USCHED_FAILED.
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
 * scheduler that can make threads (rr, ll and ws can). 0; -ENOMEM, -EAGAIN;
 * -ENOSYS: the caller is no such thread, after a message if it is none at all.
 */
USCHED_MUST int usched_go(void (*f)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif /* UMAIN_H */
