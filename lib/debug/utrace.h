/* SPDX-License-Identifier: MIT */
/* utrace.h: backtraces of blocked threads. */

#ifndef UTRACE_H
#define UTRACE_H

/*
 *	void *pc[64];
 *	int i, nr = ustack_trace(u, pc, 64);
 *
 *	for (i = 0; i < nr && i < 64; i++)
 *		printf("%p\n", pc[i]);
 *
 * The addresses, less the address at which the program was loaded, can be given
 * to `addr2line -fe program'; dladdr() and backtrace_symbols() name them.
 *
 * HOW IT WORKS: the slice is copied to scratch memory, and each pointer in it
 * that points into the slice is adjusted. Then the unwinder of the compiler
 * (_Unwind_Backtrace()) walks the copy as exceptions do. Nothing is guessed,
 * and neither the thread nor its lane is touched.
 *
 * CAVEATS
 *
 * - A function without unwind tables ends the trace early. On x86-64 and
 *   aarch64 compilers make the tables unless told otherwise; on riscv64 gcc
 *   needs -fasynchronous-unwind-tables.
 * - The unwinder takes a lock of the dynamic linker, so signal handlers must
 *   not call this.
 * - While the unwinder runs, the stack pointer is in no lane, so a signal
 *   handler must not switch threads.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Stores the return addresses of a thread that is blocked, innermost first. The
 * first is where ustack_block() will return to; the last is in the function
 * that the thread was made for. At most nr of them are stored in pc. Returns
 * how many there are, which may be more than nr; 0 for a new thread.
 *
 * Called by the native thread that runs the dispatcher of u (in a thread, in
 * s_next(), or outside); or by any native thread while no native thread runs
 * it.
 *
 * -EBUSY: u is running; -EINVAL: u has ended, or usched_fini() was called;
 * -ENOMEM; -ENOSYS: no unwinding in this build (USCHED_PORTABLE, or a machine
 * that usched.c does not know), or return addresses are signed (aarch64).
 */
int ustack_trace(const struct ustack *u, void **pc, int nr);

#ifdef __cplusplus
}
#endif

#endif /* UTRACE_H */
