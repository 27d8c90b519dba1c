/* SPDX-License-Identifier: MIT */
/* upreempt.h: threads that do not give way are made to. */

#ifndef UPREEMPT_H
#define UPREEMPT_H

/*
 * Each native thread that runs a dispatcher with an s_preempt() gets a timer.
 * When it ticks, and the running thread is in code of the program's own, then
 * s_preempt() is asked whether it should give way; if so, it blocks where it
 * is.
 *
 * SHORTEST USE, with a scheduler that knows about it:
 *
 *	rr_init(2, 0);
 *	rr_preempt();
 *	upreempt_start(1000000);	1 ms
 *	rr_start();
 *
 * All files that include rr.h, ll.h or ws.h are compiled with -DUSCHED_PREEMPT
 * then.
 *
 * WHERE A THREAD IS NEVER PREEMPTED
 *
 *	- inside libc, or any other shared object: the thread's own function and
 *	  all that it has called down to where it is now must lie in the text of
 *	  the program, or in what was added by upreempt_text();
 *	- so neither in what was called by those: the comparator of a qsort(), a
 *	  signal handler, a static constructor, a call-back of the dispatcher;
 *	- inside this library, and in files that say UPREEMPT_NEVER;
 *	- between upreempt_forbid() and upreempt_allow();
 *	- in code without unwind information, or on a stack of its own;
 *	- in the last 8 KiB of its lane.
 *
 * CAVEATS
 *
 * Between any two instructions of the program's own others may run now. That is
 * what native threads are used to, and so are the remedies, but for one: a
 * lock does not help against a thread of the same processor. To be done between
 * upreempt_forbid() and upreempt_allow() is, therefore,
 *
 *	- what is done under a lock of any kind, also flockfile() with the
 *	  _unlocked functions: others of the same native thread would wait for it
 *	  for ever, or, as the owner, get it, too;
 *	- in C++, from a throw to the end of the handler, and the initialisation
 *	  of what is static in a function;
 *	- what changes things local to the native thread (__thread, locale,
 *	  signal mask), but errno, which is kept.
 *
 * An allocator or the like that is linked into the program is the program's own
 * text: such files have to say UPREEMPT_NEVER. While a thread is preempted its
 * slice is larger by the signal frame with all registers, 1 to 4 KiB on x86-64
 * (11 with AMX). Lanes need room for it: getauxval(AT_MINSIGSTKSZ) and 8 KiB.
 *
 * The child of fork() has no timers: a dispatcher that goes on there is not
 * preempted until it runs again.
 *
 * The signal is SIGURG. While a dispatcher runs it is not blocked. Calls that
 * a signal interrupts although SA_RESTART is set (nanosleep(), poll(), ...) may
 * return with EINTR, up to twice for each sleep.
 *
 * RETURN VALUES: 0 or a negative errno. A failure has changed nothing.
 *
 * OBLIGATIONS OF A SCHEDULER
 *
 *	s_preempt(s, u)     is called on the stack of the thread u, which runs,
 *	                    in a signal handler that has interrupted neither libc
 *	                    nor the scheduler: so it may do what any call-back may.
 *	                    Either it returns 0; or it sees to it that s_next()
 *	                    will return u in time, and returns 1.
 *	s_preempt(s, NULL)  is called if it returned 1, and then there was no
 *	                    memory: it takes back what it did.
 *
 * Everything else that threads call and that shares data with any call-back, as
 * waits and wakes do, must be in a file that says UPREEMPT_NEVER and not be
 * inlined elsewhere; or be done between upreempt_forbid() and upreempt_allow(),
 * with upreempt_block(). A thread that was preempted must go on on the same
 * native thread.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Not API. */
struct upreempt_never {
	int v_from;		/* where to, from this field */
	int v_to;
};

#if defined(__ELF__)
__attribute__((weak, visibility("hidden")))
extern const struct upreempt_never __start_upreempt_never[],
	__stop_upreempt_never[];
#else
#define __start_upreempt_never	NULL
#define __stop_upreempt_never	NULL
#endif

/* Not API. */
int upreempt_begin(long ns, const struct upreempt_never *from,
		   const struct upreempt_never *to);

/*
 * From now on, for all usched_run() that begin after this, a tick each ns
 * nanoseconds (100,000 or more) in which the native thread does not sleep. Any
 * native thread, before or between runs, one at a time. -EINVAL; -EBUSY: it is
 * started; -ENOSYS: not on this system, or not with this libc (no unwinder);
 * -ENOTSUP: the program is linked statically, and upreempt_text() was not
 * called; or the library was compiled with -flto or -ffunction-sections,
 * without unwind tables (of which some compilers for RISC-V have none by
 * default), or with a sanitizer of memory or races; -EAGAIN: no timer was to be
 * had (see RLIMIT_SIGPENDING).
 */
static __inline__ int upreempt_start(long ns)
{
	return upreempt_begin(ns, __start_upreempt_never,
			      __stop_upreempt_never);
}

/*
 * Nobody is preempted any more, but for those that are just being. May be
 * followed by another start. Anyone. -EINVAL: it was not started.
 */
int upreempt_stop(void);

/*
 * The code between these addresses is the program's own, too: that of a shared
 * object, or a section of a program that is linked statically. Must not contain
 * libc. Before upreempt_start(). -EINVAL, -ENOMEM: more than 16.
 */
int upreempt_text(const void *from, const void *to);

/*
 * Between these the running thread is not preempted. They nest. The thread must
 * not block there, nor run a dispatcher, but by upreempt_block(): if another
 * thread is found to run in the stretch, usched_fail() ends the program.
 * Anyone.
 */
void upreempt_forbid(void);
void upreempt_allow(void);

/*
 * The same as ustack_block(), for a thread between the two: it goes on being
 * so afterwards, the others are not.
 */
int upreempt_block(void);

/* Of all native threads, since the program started. */
struct upreempt_stats {
	long pe_ticks;		/* of timers */
	long pe_preempted;	/* s_preempt() said 1 */
	long pe_kept;		/* s_preempt() said 0 */
	long pe_nomem;		/* said 1, but there was no memory */
	long pe_forbidden;	/* ticks between forbid and allow */
	long pe_elsewhere;	/* ticks in libc, the library, and the like */
	long pe_asleep;		/* times that the timer was stopped for a sleep */
	int  pe_error;		/* -errno: the last native thread that could get
				 * no timer, and runs without; or 0 */
};

/* Anyone. Exact when no dispatcher runs. */
void upreempt_stats(struct upreempt_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* UPREEMPT_H */
