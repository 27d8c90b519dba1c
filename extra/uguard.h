/* SPDX-License-Identifier: MIT */
/* uguard.h: a thread that is too deep ends with a message. */

#ifndef UGUARD_H
#define UGUARD_H

/*
 * A thread that runs out of its lane touches the guard below, and the process
 * ends with SIGSEGV. Whoever calls uguard_start() gets a message first, which
 * names the thread, the lane and its size; then usched_fail() ends it:
 *
 *	usched: thread 0x5581e0 (function parse() at 0x5540a9, argument 0x0) has
 *	run out of lane 3, of 262144 bytes; larger lanes: usched_lanes(),
 *	rr_stack_size(), ll_stack_size(), ws_stack_size()
 *
 * The function has a name if the dynamic loader knows it: if it is exported, or
 * the program was linked with -rdynamic.
 *
 * The slices of other threads are whole then, for a debugger or a core. The
 * same is done for the native stack, when threads (or s_next()) run there.
 *
 * CAVEATS
 *
 * - A function whose frame is larger than USCHED_GUARD may skip the guard, and
 *   write into another lane: compile with -fstack-clash-protection. There is a
 *   message, too late, if it faults elsewhere or calls ustack_block().
 * - Native threads that run dispatchers have an alternate signal stack then,
 *   where handlers installed with SA_ONSTACK run.
 */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * From now on, for all dispatchers that begin to run after this. Faults that
 * are none of ours go to the handlers that were there before. Any native
 * thread, once: before usched_run(), rr_start() and the like. 0, -EBUSY: a
 * second time, or another -errno.
 */
int uguard_start(void);

#ifdef __cplusplus
}
#endif

#endif /* UGUARD_H */
