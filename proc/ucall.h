/* SPDX-License-Identifier: MIT */
/* ucall.h: calls that block, made while the processor goes on with others. */

#ifndef UCALL_H
#define UCALL_H

/*
 * A system call that blocks stops the processor, with all its threads. Here it
 * is made by a native thread that is no processor, while the thread that wants
 * it waits. Native threads are made when they are needed, up to a limit; they
 * are kept for the next call, and end when there has been none for some
 * seconds. Calls beyond the limit wait their turn: first in, first out.
 *
 * SHORTEST USE
 *
 *	ucall(f, arg);		by a thread of rr, ll, ws or the like: f(arg)
 *
 * WHAT IS CALLED
 *
 * - It is not a thread: ustack_self() is NULL in it, it cannot wait, yield or
 *   call. It may block, wake threads and make some.
 * - It must not touch the stack of any thread, and so its argument is not
 *   there: that of the caller moves while it waits.
 * - errno, signal mask and what is local to native threads are not the
 *   caller's. All signals are blocked, so the program's handlers run elsewhere,
 *   but for those that report an error of the code itself (SIGSEGV, SIGBUS,
 *   SIGFPE, SIGILL, SIGTRAP, SIGSYS).
 * - It may run on all cpus of the scheduler, and so may what it makes: see
 *   uproc_pinning().
 * - It has to return: no pthread_exit(), no exception leaves it.
 * - It may fork(). The child must exec or exit before the function returns; it
 *   may start a scheduler of its own. Signals are blocked in it, too.
 * - If what it waits for is done by another call, then the limit has to be
 *   large enough for both, or they wait for ever.
 *
 * WHO MAY CALL WHAT
 *
 * ucall(): a thread of any scheduler over uproc.h, not in a signal handler.
 * Link ucall.c. What begins with ucalls_ is for other schedulers.
 */

#include "uproc.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs f(arg) on a native thread, while the caller, a thread, waits. Wakes that
 * come to it meanwhile are kept. Its scheduler does not end before. What f()
 * did is seen by the caller.
 *
 * 0: f() has returned. Otherwise it was not called: -EINVAL: the caller is no
 * thread of such a scheduler, or f is NULL; -ECHILD: the caller is the child
 * that a thread has forked (see FORK in rr.h); -ENOMEM; -EAGAIN: no native
 * thread could be made, and there was none.
 *
 * If there is no memory to wait, and f() has been begun, the processor stops
 * until it returns.
 */
int ucall(void (*f)(void *), void *arg);

/*
 * At most so many native threads for each scheduler, instead of UCALL_LIMIT;
 * for those whose threads have not called yet. Anyone. 0, -EINVAL: less than 1.
 */
int ucall_limit(int nr);

struct ucalls;

/* What differs between schedulers. */
struct ucall_ops {
	/* The running thread waits for a wake. 0, or -ENOMEM: it has not. */
	int  (*op_wait)(void);
	/* A wake from anywhere. */
	void (*op_post)(struct uproc_thread *t);
	/* Takes the wakes that have come to the processor of t, which runs. */
	void (*op_drain)(struct uproc_thread *t);
	/* As uproc_hold(), uproc_release(). */
	void (*op_hold)(struct uproc_set *set);
	void (*op_release)(struct uproc_set *set);
};

/*
 * For the threads of set; *ops is kept. NULL: ENOMEM or what else
 * pthread_mutex_init() said.
 */
struct ucalls *ucalls_init(struct uproc_set *set, const struct ucall_ops *ops);

/*
 * At most nr native threads; UCALL_LIMIT if not set. Before the threads of the
 * set run (the scheduler sees to that). 0, -EINVAL.
 */
int ucalls_limit(struct ucalls *c, int nr);

/*
 * A SATA disk takes 32 commands at a time: this keeps two of them busy. 64
 * native stacks of 8 MiB are 512 MiB of addresses, which 32-bit machines have.
 */
#define UCALL_LIMIT	64

/*
 * As ucall(), by self, the running thread of the set; -EINVAL: it is NULL;
 * -ECHILD: c was made by an ancestor of the process.
 */
int ucalls_call(struct ucalls *c, struct uproc_thread *self,
		void (*f)(void *), void *arg);

/*
 * All calls have ended. Joins the native threads, frees all. Does nothing if c
 * is NULL, or was made by an ancestor of the process.
 */
void ucalls_fini(struct ucalls *c);

#ifdef __cplusplus
}
#endif

#endif /* UCALL_H */
