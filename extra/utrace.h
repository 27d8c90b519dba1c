/* SPDX-License-Identifier: MIT */
/* utrace.h: where a blocked thread is. */

#ifndef UTRACE_H
#define UTRACE_H

/*
 *	void *pc[64];
 *	int i, nr = ustack_trace(u, pc, 64);
 *
 *	for (i = 0; i < nr && i < 64; i++)
 *		printf("%p\n", pc[i]);
 *
 * Addresses are what `addr2line -fe program' takes, less the address at which
 * the program was loaded; dladdr() and backtrace_symbols() name them.
 *
 * HOW IT IS DONE: the slice is copied to scratch memory and the pointers in it
 * that point into it are moved along. Then the unwinder of the compiler
 * (_Unwind_Backtrace()) walks there as exceptions do. Nothing is guessed, and
 * nothing of the thread or of its lane is touched.
 *
 * CAVEATS
 *
 * - A function without unwind tables ends the trace early. Compilers make them
 *   on x86-64 and aarch64 unless told not to; on riscv64 gcc has to be told:
 *   -fasynchronous-unwind-tables.
 * - The unwinder takes a lock of the dynamic linker: not for signal handlers.
 * - While it runs, the stack pointer is in no lane: a signal handler must not
 *   switch threads then.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The return addresses of a thread that is blocked, innermost first: the first
 * is where ustack_block() will return to, the last is in the function that the
 * thread was made for. At most nr of them are stored in pc. Returns how many
 * there are, which may be more; 0 for a new thread.
 *
 * To be called by the native thread that runs the dispatcher of u, or while no
 * native thread does: by a thread, by s_next(), or outside.
 *
 * -EBUSY: u is running; -EINVAL: it has ended, or usched_fini() was called;
 * -ENOMEM; -ENOSYS: no unwinding in this build (USCHED_PORTABLE, or a machine
 * that usched.c does not know), or return addresses are signed (aarch64).
 */
int ustack_trace(const struct ustack *u, void **pc, int nr);

#ifdef __cplusplus
}
#endif

#endif /* UTRACE_H */
