/* SPDX-License-Identifier: MIT */
/* uroots.h: gives a garbage collector all that it has to scan for our threads. */

#ifndef UROOTS_H
#define UROOTS_H

/*
 * A conservative collector scans the stack of each native thread, from its stack
 * pointer to its bottom. Here the stack pointer is in a lane as long as a thread
 * runs, and threads that wait lie in lanes, private stacks and buffers. So the
 * collector frees what only these hold, or it crashes. These functions give it all
 * stretches of memory with pointers of threads, and where a lane ends.
 *
 * It has to be a collector that stops each native thread, at whatever instruction,
 * by a signal whose handler runs on the stack that it interrupts, and saves all
 * registers there. libgc is one: examples/gc.c is a whole program.
 *
 *	the start	uroots_start(begin, end), before any scheduler
 *	begin()		tells the collector of a native thread
 *
 *	a collection	1 uroots_hold()
 *			2 stop all native threads, and note their stack pointers
 *			3 uroots_bottom(sp) of each, also of that which collects. NULL:
 *			  scan as usual. Else scan from sp to there instead
 *			4 uroots_each(): scan all that it gives, too
 *			5 let all native threads go on
 *			6 uroots_release()
 *
 * WHAT IS SCANNED
 *
 *   - Stacks of all threads of rr, ll, ws, and other schedulers over uproc.h,
 *     running or not. The slice of a thread that waits is given, and nothing below.
 *   - Generators that have begun, and their consumers.
 *   - Arguments of threads that have not begun, or run for the first time.
 *   - Values in channels, also on their way to a receiver; jobs of uwork.h.
 *   - Arguments of ucall() until the call ends.
 *   - uself data and values of keys (uthread.h), while their thread lives.
 *
 * WHAT IS NOT
 *
 *   - Threads of plain dispatchers that wait: their scheduler knows them, and the
 *     collector calls uroots_of() for each. (The dispatcher runs under
 *     uroots_bottom() and uroots_each().)
 *   - The result of a thread that has ended, until its join; the argument of a
 *     generator until its first step; a value on its way to a native thread that
 *     waits at a channel. Keep another pointer meanwhile.
 *   - Channels that were made before uroots_start().
 *   - In the child of fork(): threads of the parent, but for that which has forked.
 *
 * A function that is given to ucall() runs on a native thread of the library, which
 * blocks all signals. If it uses the collector, it tells the collector of its native
 * thread, lets the signals of the collector through, and undoes both at the end.
 *
 * Portable builds (USCHED_PORTABLE) keep registers as libc encrypts them, where no
 * collector finds them.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Is told of the memory from `from` up to `to`. */
typedef void uroots_f(void *arg, const void *from, const void *to);

/*
 * Before schedulers and channels are made. Each native thread that begins to run a
 * dispatcher calls begin(), which returns the bottom of its stack, and end() when it
 * has run it: so the first may register it with the collector, and the second undo
 * that, unless the program had done so. A loop (uloop.h), or a generator outside of
 * threads, begins and ends with each call. 0, -EBUSY: it was called before; -EINVAL,
 * -ENOMEM; -ENOSYS: a portable build.
 */
USCHED_MUST int uroots_start(const void *(*begin)(void), void (*end)(void));

/*
 * Waits until none of what uroots_each() will read is half-way, and keeps it so until
 * uroots_release(). Any thread, any native thread; one at a time. Between the two its
 * caller calls nothing of the library but what this header says, and as long as native
 * threads are stopped, these take no lock and no memory.
 */
void uroots_hold(void);

/* Ends an uroots_hold(). The same caller. */
void uroots_release(void);

/*
 * Returns the bottom of the lane in which sp lies, the stack pointer of a native thread
 * that is stopped; NULL: in none. Between uroots_hold() and uroots_release().
 */
const void *uroots_bottom(const void *sp);

/*
 * Gives f all that is to be scanned besides. While native threads are stopped, after
 * uroots_bottom() was called for each.
 */
void uroots_each(uroots_f *f, void *arg);

/*
 * Gives f the stretches of u, a thread of any dispatcher: its slice, in a buffer or a
 * lane, or the argument if it is new. As uroots_each(), or while u does not run.
 */
void uroots_of(const struct ustack *u, uroots_f *f, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* UROOTS_H */
