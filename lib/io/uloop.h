/* SPDX-License-Identifier: MIT */
/* uloop.h: threads in the loop of another library, such as GLib's or libuv's. */

#ifndef ULOOP_H
#define ULOOP_H

/*
 * A program whose main thread is in a loop that waits for descriptors and times runs our
 * threads there. They may call the loop's library, as they run on the same native thread.
 * There is one descriptor and one deadline for which the loop waits, and a call that runs
 * what is ready.
 *
 * SHORTEST USE
 *
 *	if (rr_init(1, 0) != 0 || rr_thread_init(f, arg) == NULL ||
 *	    (fd = uloop_start(rr_sched(0))) < 0)
 *		return 1;
 *	while (uloop_run(rr_sched(0)) > 0) {
 *		struct pollfd p = { .fd = fd, .events = POLLIN };
 *
 *		poll(&p, 1, uloop_ms(uloop_until(rr_sched(0))));
 *	}
 *	return rr_fini() != 0;
 *
 * examples/loops/ has this for poll(), GLib and libuv, and the other direction: these
 * loops in a thread of ours, where with the hooks of ext/wrap/ they block only that
 * thread.
 *
 * THE CONTRACT
 *
 * The scheduler is rr or ll with a single processor, and uloop_start() takes the place of
 * rr_start(). The caller's native thread, the driver, is the processor while it is in
 * uloop_run(), and no other native thread runs these threads. After each uloop_run(), the
 * loop asks for uloop_until(). It calls uloop_run() again when the descriptor can be
 * read (POLLIN), or this time has passed. It may call more often: such a call costs a
 * system call or two. The loop looks at the descriptor's state, not for edges. It
 * neither reads nor closes the descriptor.
 *
 * uloop_run() returns when no thread is ready, or when threads have been ready for 100
 * us. In the latter case uloop_until() is UNOW: the loop looks at its own events, without
 * a sleep, and calls again. A thread that computes for longer without giving way keeps
 * the loop waiting, as one of its own callbacks would.
 *
 * When uloop_run() returns 0, no thread is left; more may be made. rr_fini(), called by
 * the driver, runs what is left without the loop, and sleeps meanwhile as rr does, until
 * all threads have ended, or can never be woken (-EDEADLK). A hold that only a callback
 * of the loop would end, or a wake that only such a callback would do, never comes then.
 * So call it when uloop_run() has returned 0.
 *
 * While nothing happens, the processor sleeps, and no call is made at all, but for one or
 * two after a tenth of a second, which give back memory (rr_fini() is the same).
 *
 * WHO MAY CALL
 *
 * uloop_start(): a native thread that runs no scheduler. uloop_run() and rr_fini(): the
 * driver, outside of threads. Others get -EBUSY, after a line, and nothing is lost. That
 * includes a thread that runs the loop once more, by g_main_context_iteration() for
 * instance: its callbacks find uloop_until() UNEVER, and uloop_run() -EBUSY. With the
 * hooks of ext/wrap/ its poll() returns EINVAL, and epoll_wait() ELOOP. rr_fini() by a
 * thread ends the program, as ever.
 * uloop_until(): the driver.
 *
 * A callback of the loop is no thread, though it runs on the driver. It may make threads,
 * wake them, post, release, and make any call with UNOW. All that makes the descriptor
 * readable, so the threads run after the callback. If a callback makes a call that waits,
 * the whole native thread waits, and so do our threads. The wait never ends if only one of
 * them could end it.
 *
 * CAVEATS
 *
 * - A handler of a signal runs on the stack of whatever it interrupts. If the driver takes
 *   signals, this may be the lane of a thread, which is 256 KiB by default. Handlers are
 *   fine there, but want some KiB. With sigaltstack() and SA_ONSTACK they run elsewhere;
 *   the driver has an alternate stack of 64 KiB from uloop_start() to rr_fini(), if it had
 *   none. Or block signals around uloop_run().
 * - The driver is not pinned, whatever rr_pinning() and USCHED_PIN say.
 * - Under virtual time (utime_virtual()), with UIO_POLL, and without lanes (portable
 *   builds, Valgrind) there is no such loop: -ENOTSUP.
 * - In the child of fork() the descriptor is closed, and calls return -ECHILD: see FORK in
 *   rr.h. A child that goes on with the loop takes the descriptor out first.
 * - Modules see one long run: view.md, ulist.h, ustats.h. Preemption (upreempt.h) starts
 *   its timer for each uloop_run(), which costs system calls.
 */

#include "uwait.h"

#include <limits.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the scheduler of s, rr_sched(0) or ll_sched(0), on the caller. Returns the
 * descriptor, which is the scheduler's, until its fini. As rr_start(); -EINVAL, after a
 * line: s is not of rr or ll, or has more processors; -EBUSY: the caller is a thread or a
 * processor, after a line, or s was started; -ENOTSUP: see CAVEATS; -EMFILE, -ENFILE.
 * After an error s may be started, also by rr_start().
 */
USCHED_MUST int uloop_start(struct usched *s);

/*
 * Runs threads of s that are ready, and never sleeps. 1: threads are left; 0: none is;
 * -EBUSY, after a line; -EINVAL: s is not of rr or ll; -ECHILD.
 */
int uloop_run(struct usched *s);

/*
 * Returns until when the loop may sleep, if the descriptor cannot be read: UNOW, a time
 * as that of unow(), which may have passed, or UNEVER.
 */
utime_ns uloop_until(const struct usched *s);

/* Returns the milliseconds until then, rounded up, for poll(); -1: no end. */
static __inline__ int uloop_ms(utime_ns until)
{
	utime_ns left = until - (until != UNEVER && until != UNOW ? unow() : 0);

	if (until == UNEVER)
		return -1;
	if (left <= 0)
		return 0;
	return left < (utime_ns)INT_MAX * UTIME_MS - UTIME_MS ?
		(int)((left + UTIME_MS - 1) / UTIME_MS) : INT_MAX;
}

#ifdef __cplusplus
}
#endif

#endif /* ULOOP_H */
