/* SPDX-License-Identifier: MIT */
/* ulist.h: lists which threads wait, where, and for what; and long runs. */

#ifndef ULIST_H
#define ULIST_H

/*
 *	ulist_start();			before any dispatcher runs
 *	ulist_on_signal(SIGQUIT);	also by `kill -QUIT'
 *	ulist_on_run(100000000);	and threads that do not give way for 0.1 s
 *	rr_init(2, 0);
 *
 * If then all threads wait, and none can ever be woken, rr_fini() writes a list
 * of them before it drops them and returns -EDEADLK. ll, ws and other
 * schedulers over uproc.h do so, too.
 *
 * Without a change of the program: the environment variable USCHED_LIST does
 * the same, if this module is in the program, as in each program that is linked
 * with the shared library (with libusched.a: -Wl,-u,ulist_start; a program
 * without it says so). It holds words, separated by commas:
 *
 *	stuck, 1	ulist_start(), as each other word does
 *	signal		ulist_on_signal(SIGQUIT); signal=10: that number
 *	run=100		ulist_on_run(), in milliseconds
 *	0		nothing
 *
 * With any other word no scheduler begins: core/env.h.
 *
 * A program that does not ask pays nothing. A program that asks pays for each
 * switch (some 50 ns), and some 100 bytes for each thread.
 *
 * THE LIST goes to standard error, with a line and a backtrace for each thread,
 * in the order in which the threads have begun, after those that run:
 *
 *	usched: list: 101 threads are left, and none can be woken
 *	thread 0x7f52a4404000 first(0x1): waits: mutex 0x55d0 (lock_b),
 *	held by 0x7f52a4404040, 12 ms
 *		#0 0x55d034 umutex_lock_slow+0x6e (program+0x2034)
 *		#1 0x55d012 first+0x23 (program+0x1012)
 *		and 99 more like it, 3 ms to 12 ms
 *	thread 0x7f52a4404040 second(0x2) "writer": waits: wake, 12 ms
 *		#0 ...
 *	usched: end of list: 101 threads, 101 wait
 *
 * Threads that wait for each other in a cycle are named behind the threads:
 *
 *	usched: dead lock: 2 threads wait for each other
 *		0x7f52a4404000 waits: mutex 0x55d0, held by 0x7f52a4404040
 *		0x7f52a4404040 waits: mutex 0x55f8, held by 0x7f52a4404000
 *
 * Blocked threads of one function that do the same, for the same object and with
 * the same backtrace, are listed together: the first, and how many are like it.
 *
 * After the function, its argument and the name of the thread (uthread.h)
 * follows what the thread does:
 *
 *	waits: KIND ADDRESS (SYMBOL)	for this object, as uwait.h names kinds;
 *					"held by": by the thread at this address
 *	waits: wake			in rr_wait() or its like
 *	ready				it can run, but others do
 *	blocked				a plain dispatcher does not tell why
 *	runs				on a processor that has not switched for
 *					0.1 s
 *	runs, in poll()			in this call, as the kernel names it; the
 *					processor stands still
 *
 * Then the time since it has blocked, and, with a deadline, the time that is
 * left. A list ends with the native threads that wait. It has 1000 entries at
 * most, of the first 20,000 threads. Symbols are read from the files of the
 * program; without them, addr2line takes what stands in brackets.
 *
 * WHAT IS CONSISTENT
 *
 * While a list is made, no processor begins another thread. Each processor
 * stops when its thread gives way. So the list shows a single moment for all
 * threads but those that run. So may a blocked thread be listed without its
 * backtrace, if a running thread has just taken its place on the stack.
 *
 * RUNNING THREADS
 *
 * Looking does not touch: no signal is sent to a thread that runs, and none of
 * its system calls ends. The kernel tells (Linux) which call it is in: "in
 * poll()", "in call 123" for calls that seldom block, "in the kernel" in a page
 * fault, "in a call" where /proc does not tell the number. On x86-64 a
 * backtrace follows. In a call it ends at the first function that has a frame
 * pointer. Of a thread that computes it needs a sample by perf_event_open(2),
 * and lacks where that is refused (kernel.perf_event_paranoid above 2,
 * containers).
 *
 * Not listed: threads that have not begun; threads run by usched_step(); of a
 * plain dispatcher, those that have not run since usched_run() was called.
 *
 * RETURN VALUES: 0 or a negative errno. A failure has changed nothing.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Follows all threads of dispatchers that run from now on, and lists those of a
 * scheduler that is stuck. Before any dispatcher runs. May be called again.
 * -ENOMEM.
 */
int ulist_start(void);

/*
 * Lists all threads, of all dispatchers, whenever this signal comes, beside
 * what ulist_start() does. The handler only wakes a native thread, which makes
 * the list, also while all processors compute.
 *
 * Blocks the signal in the caller, and in each native thread while it runs a
 * dispatcher, since the kernel ends a system call where it delivers a signal.
 * So call it in main(), before other native threads are made: they inherit the
 * mask. A native thread that was made before may be interrupted. Children of
 * fork() do not block the signal; programs that are started otherwise
 * (posix_spawn(), system()) inherit that it is blocked.
 *
 * -EINVAL: no such signal, or SIGKILL or SIGSTOP; -EAGAIN: no native thread can
 * be made; -ENOMEM.
 */
int ulist_on_signal(int signo);

/*
 * Reports, once for each such run, a thread that has run for ns nanoseconds
 * (1,000,000 or more) without giving way, with its function and where it is,
 * beside what ulist_start() does. A native thread looks four times in this
 * time, so a report comes up to two quarters late. Time in system calls counts,
 * and so does time in which the native thread had no cpu. -EINVAL, -EAGAIN,
 * -ENOMEM.
 */
int ulist_on_run(long ns);

/*
 * Makes a list now, with this reason in the first line. After ulist_start(),
 * else it does nothing. Any thread or native thread; also in s_next(), as by a
 * plain dispatcher that is about to return NULL. Not in a signal handler.
 */
void ulist_print(const char *why);

#ifdef __cplusplus
}
#endif

#endif /* ULIST_H */
