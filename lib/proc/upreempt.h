/* SPDX-License-Identifier: MIT */
/* upreempt.h: preempts threads that do not yield. */

#ifndef UPREEMPT_H
#define UPREEMPT_H

/*
 * Each native thread that runs a dispatcher with an s_preempt() gets a timer.
 * If the timer ticks while the running thread is in the program's own code,
 * s_preempt() decides whether the thread should yield. If so, the thread blocks
 * where it is.
 *
 * SHORTEST USE, with a scheduler that knows about it:
 *
 *	rr_init(2, 0);
 *	rr_preempt();
 *	upreempt_start(1000000);	1 ms
 *	rr_start();
 *
 * All files that include rr.h, ll.h or ws.h must then be compiled with
 * -DUSCHED_PREEMPT.
 *
 * WHERE A THREAD IS NEVER PREEMPTED
 *
 * - Inside libc, or any other shared object. The thread's own function, and all
 *   functions that it has called down to the current one, must lie in the text
 *   of the program, or in text that upreempt_text() has added.
 * - So neither in a function that those call back: the comparator of a qsort(),
 *   a signal handler, a static constructor, a call-back of the dispatcher.
 * - Inside this library, and in files that contain UPREEMPT_NEVER.
 * - Between upreempt_forbid() and upreempt_allow().
 * - In code without unwind information, or on a stack of the program's own.
 * - In the last 8 KiB of its lane.
 *
 * CAVEATS
 *
 * Other threads may now run between any two instructions of the program's own
 * code. That is so for native threads, too, and the remedies are the same, with
 * one exception: a lock does not help against a thread of the same processor.
 * Therefore the following must be done between upreempt_forbid() and
 * upreempt_allow():
 *
 * - Critical sections of any kind of lock, also of flockfile() with the
 *   _unlocked functions. Another thread of the same native thread would wait
 *   for the lock forever, or would be let in as its owner.
 * - In C++, all from a throw to the end of the handler, and the initialisation
 *   of static variables in functions.
 * - Changes of data that belong to the native thread (__thread, locale, signal
 *   mask), but not of errno, which is kept for each thread.
 *
 * An allocator or the like that is linked into the program is the program's own
 * text, so its files must contain UPREEMPT_NEVER. While a thread is preempted,
 * its slice is larger by the signal frame with all registers: 1 to 4 KiB on
 * x86-64, 11 with AMX. Lanes need room for getauxval(AT_MINSIGSTKSZ) and 8 KiB.
 *
 * The child of fork() has no timers. A dispatcher that goes on running there is
 * not preempted until its next usched_run().
 *
 * The signal is SIGURG, which is not blocked while a dispatcher runs. Calls
 * that a signal interrupts even with SA_RESTART (nanosleep(), poll(), ...) may
 * return with EINTR, up to twice for each sleep.
 *
 * RETURN VALUES: 0 or a negative errno. A failure has changed nothing.
 *
 * OBLIGATIONS OF A SCHEDULER
 *
 *	s_preempt(s, u)     is called on the stack of the thread u, which runs,
 *	                    in a signal handler that has interrupted neither libc
 *	                    nor the scheduler. So it may do what any call-back
 *	                    may. It returns 0, or it arranges that s_next() will
 *	                    return u in time, and returns 1.
 *	s_preempt(s, NULL)  is called if it has returned 1, but there was no
 *	                    memory for the block: it undoes what it did.
 *
 * Waits and wakes are other functions that threads call and that share data
 * with call-backs. All such functions must be in a file that contains
 * UPREEMPT_NEVER, and must not be inlined elsewhere; or they run between
 * upreempt_forbid() and upreempt_allow(), and block by upreempt_block(). A
 * thread that was preempted must go on on the same native thread.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Not API. */
struct upreempt_never {
	int v_from;		/* as a distance from this field */
	int v_to;
};

#if defined(__ELF__)
__attribute__((weak, visibility("hidden")))
extern const struct upreempt_never __start_upreempt_never[],
	__stop_upreempt_never[];
#else
#define __start_upreempt_never	((const struct upreempt_never *)NULL)
#define __stop_upreempt_never	((const struct upreempt_never *)NULL)
#endif

/* Not API. */
int upreempt_begin(long ns, const struct upreempt_never *from,
		   const struct upreempt_never *to);

/*
 * Starts preemption, for each usched_run() that begins later: a tick each ns
 * nanoseconds (100,000 or more) in which the native thread does not sleep. Any
 * native thread, before or between runs, one at a time.
 *
 * -EINVAL; -EBUSY: it has been started; -ENOSYS: not on this system, or not
 * with this libc, which has no unwinder; -ENOTSUP: the program is linked
 * statically, and upreempt_text() was not called; -ENOTSUP, too, if the library
 * was compiled with -flto or -ffunction-sections, or without unwind tables (by
 * default some compilers for RISC-V make none), or with a sanitizer of memory
 * or races; -EAGAIN: the kernel has refused a timer (see RLIMIT_SIGPENDING).
 */
static __inline__ int upreempt_start(long ns)
{
	return upreempt_begin(ns, __start_upreempt_never,
			      __stop_upreempt_never);
}

/*
 * Stops preemption. Threads that are being preempted at this moment still are.
 * It may be started again. Any thread. -EINVAL: it was not started.
 */
int upreempt_stop(void);

/*
 * Adds the code between these addresses to the program's own: the text of a
 * shared object, or a section of a program that is linked statically. It must
 * not contain libc. Before upreempt_start(). -EINVAL, -ENOMEM: more than 16.
 */
int upreempt_text(const void *from, const void *to);

/*
 * Keeps the running thread from preemption until upreempt_allow(). The two nest.
 * In between the thread must not run a dispatcher, and may block only by
 * upreempt_block(). If another thread runs there meanwhile, usched_fail() ends
 * the program. Any thread.
 */
void upreempt_forbid(void);

/* Ends an upreempt_forbid() of the running thread. */
void upreempt_allow(void);

/*
 * Blocks, as ustack_block(), a thread between upreempt_forbid() and
 * upreempt_allow(). Preemption is
 * allowed for the other threads, and still forbidden when this thread goes on.
 */
int upreempt_block(void);

/* Counts of all native threads since the program started. */
struct upreempt_stats {
	long pe_ticks;		/* ticks of timers */
	long pe_preempted;	/* s_preempt() returned 1 */
	long pe_refused;	/* s_preempt() returned 0 */
	long pe_nomem;		/* ... and there was no memory */
	long pe_forbidden;	/* ticks between forbid and allow */
	long pe_elsewhere;	/* ticks in libc, the library, and the like */
	long pe_asleep;		/* times that the timer was stopped for a sleep */
	int  pe_error;		/* -errno: the last native thread that could get
				 * no timer, and runs without; or 0 */
};

/* Stores the counts. Any thread. They are exact while no dispatcher runs. */
void upreempt_stats(struct upreempt_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* UPREEMPT_H */
