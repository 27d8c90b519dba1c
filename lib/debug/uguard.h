/* SPDX-License-Identifier: MIT */
/* uguard.h: names a thread that overflows its lane, before the process ends. */

#ifndef UGUARD_H
#define UGUARD_H

/*
 * A thread that overflows its lane touches the guard below the lane, and the
 * process ends with SIGSEGV. After uguard_start() there is a message first,
 * which names the thread, the lane and its size. Then usched_fail() ends the
 * process:
 *
 *	usched: thread 0x5581e0 (function parse() at 0x5540a9, argument 0x0) has
 *	run out of its stack (lane 3), of 262144 bytes; larger stacks:
 *	USCHED_STACK_SIZE=1M in the environment, rr_stack_size(), usched_lanes()
 *
 * The message has the name of the function, unless the program was stripped.
 * Without rr, ll or ws in the program, the dynamic loader has to know the name:
 * the function is exported, or the program was linked with -rdynamic.
 *
 * At that time the slices of other threads are intact, for a debugger or a
 * core. An overflow of the native stack is reported, too, if threads (or
 * s_next()) run there.
 *
 * CAVEATS
 *
 * - A function whose frame is larger than USCHED_GUARD may skip the guard, and
 *   write into another lane: compile with -fstack-clash-protection. Without
 *   that, the message comes too late: when the function faults elsewhere, or
 *   calls ustack_block().
 * - Native threads that run dispatchers then have an alternate signal stack.
 *   All handlers installed with SA_ONSTACK run there.
 */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs handlers of SIGSEGV and SIGBUS, for all dispatchers that begin to
 * run after this call. Faults that it cannot explain go to the handlers that
 * were there before. Any native thread, once, before usched_run(), rr_start()
 * and the like. Returns 0, -EBUSY if called a second time, or another -errno.
 */
int uguard_start(void);

#ifdef __cplusplus
}
#endif

#endif /* UGUARD_H */
