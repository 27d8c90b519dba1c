/* SPDX-License-Identifier: MIT */
/* uguard.c: names a thread that overflows its lane, before the process ends. */

/*
 * The handler of the fault runs on an alternate stack, since the stack that
 * overflowed has no room left. Each native thread gets an alternate stack when
 * it enters usched_run(), by usched_hook(), and gives it back when it leaves.
 *
 * The handler knows the running thread, and so its lane:
 *
 *	        guard           lane of the thread
 *	  |<-- USCHED_GUARD -->|<------------- size ------------->|
 *	  ^                    ^                                  ^
 *	                       l_low                              l_bottom
 *
 * From the address of the fault it tells what has happened:
 *
 *	in this guard			the thread is too deep
 *	between the lane and a stack	the same: a large frame has skipped the
 *	pointer below the lane		guard
 *	in the guard of the next lane	the thread has written past the bottom
 *					of its own
 *	in any other guard		the thread has used a wild pointer
 *	about where the native stack	the native stack, which is lane 0, has
 *	ends (pthread_getattr_np())	overflowed
 *
 * All other faults are passed on. Among them is the overflow of a dispatcher
 * that runs within a thread of another dispatcher, on the native lane: the lane
 * that overflows belongs to the other dispatcher.
 *
 * G1. The handler calls only what a signal handler may call, and allocates no
 *     memory, except to look up the name of a function (ufault.h).
 * G2. A fault that the handler cannot explain has the effect that it would have
 *     without uguard: the handler that was there before is called; without one
 *     the fault is repeated and ends the process.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* pthread_getattr_np(), MAP_ANONYMOUS */
#endif
#include "uguard.h"
#include "ufault.h"
#include "uslice.h"
#include "usched.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <ucontext.h>
#include <unistd.h>

UPREEMPT_NEVER;

/* How far a fault may be from the end of the native stack, or below a frame. */
#define REACH		((uintptr_t)USCHED_GUARD)
/* How far below its lane a stack pointer may be: no frame is that large. */
#define FRAME_MAX	((uintptr_t)64 << 20)

/* What is known of this native thread. */
static __thread struct {
	int       n_depth;		/* nested usched_run() */
	void     *n_alt;		/* its alternate stack, if it is ours */
	uintptr_t n_low, n_size;	/* of the native stack */
} native;

static struct sigaction before[2];	/* SIGSEGV, SIGBUS */

static void put_lane(struct text *x, int nr, uintptr_t size)
{
	put(x, "lane ");
	put_number(x, nr, 10);
	put(x, ", of ");
	put_number(x, size, 10);
	put(x, " bytes");
}

/* Returns the stack pointer at the fault, or 0 on machines not known here. */
static uintptr_t sp_of(const void *context)
{
	const ucontext_t *c = context;

#if defined(__x86_64__) && defined(REG_RSP)
	return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__) && defined(__linux__)
	return (uintptr_t)c->uc_mcontext.sp;
#elif defined(__riscv) && defined(REG_SP)
	return (uintptr_t)c->uc_mcontext.__gregs[REG_SP];
#else
	(void)c;
	return 0;
#endif
}

/* Returns the number of the lane in whose guard the address is, or 0. */
static int guard_of(const struct usched *s, uintptr_t at)
{
	int last = s->s_lane_nr + usched_own_nr(s->s_own);
	int i;

	for (i = 1; i <= last; i++) {
		if ((uintptr_t)s->s_lane[i].l_low - at - 1 < USCHED_GUARD)
			return i;
	}
	return 0;
}

static uintptr_t lane_size(const struct usched_lane *l)
{
	return l->l_bottom - l->l_low;
}

/* Tells whether the thread is below its lane and has touched its frame. */
static bool is_below(const struct usched_lane *l, uintptr_t at, uintptr_t sp)
{
	uintptr_t low = (uintptr_t)l->l_low;

	return low != 0 && low - sp - 1 < FRAME_MAX &&
	       at - (sp - REACH) < low - (sp - REACH);
}

/*
 * Tells whether the thread has touched a guard, or has its stack pointer below
 * its lane. If so, writes to x what has happened.
 */
static bool on_lane(struct text *x, const struct ustack *u, uintptr_t at,
		    uintptr_t sp)
{
	const struct usched *s = u->u_sched;
	int nr = guard_of(s, at);

	if (is_below(&s->s_lane[u->u_lane], at, sp))
		nr = u->u_lane;
	if (nr == 0)
		return false;
	put_thread(x, u, u->u_f, u->u_arg);
	if (nr == u->u_lane)
		put(x, " has run out of ");
	else if (nr == u->u_lane + 1)
		put(x, " has gone past the bottom of ");
	else
		put(x, ", by a wild pointer, has touched the guard of ");
	if (nr == u->u_lane + 1)
		nr--;
	put_lane(x, nr, lane_size(&s->s_lane[nr]));
	if (nr == u->u_lane)
		put(x, "; larger lanes: usched_lanes(), rr_stack_size(), "
		    "ll_stack_size(), ws_stack_size()");
	return true;
}

static bool on_native(struct text *x, const struct ustack *u, uintptr_t at)
{
	if (native.n_size == 0 || at - (native.n_low - REACH) > 2 * REACH)
		return false;
	if (u != NULL)
		put_thread(x, u, u->u_f, u->u_arg);
	else
		put(x, "the dispatcher");
	put(x, " has run out of the native stack, ");
	put_lane(x, 0, native.n_size);
	put(x, "; a larger stack: ulimit -s, or pthread_attr_setstacksize(); "
	    "or lanes: usched_lanes()");
	return true;
}

static void fault(int signo, siginfo_t *info, void *context)
{
	const struct ustack *u = ustack_self();
	uintptr_t at = (uintptr_t)info->si_addr;
	struct text x = { .x_nob = 0 };

	/* A signal that kill() sends has no address. */
	if (info->si_code > 0 &&
	    ((u != NULL && on_lane(&x, u, at, sp_of(context))) ||
	     on_native(&x, u, at)))
		usched_fail(x.x_text);
	pass_on(&before[signo == SIGBUS], signo, info, context);	/* G2 */
}

/*
 * Finds the bounds of the native stack. If they are unknown, an overflow has no
 * message. The stack of main() grows up to a limit, but musl returns only its
 * present size.
 */
static void native_bounds(void)
{
#if defined(__linux__)
	struct rlimit limit;
	pthread_attr_t attr;
	void *low;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return;
	if (pthread_attr_getstack(&attr, &low, &size) == 0) {
		native.n_size = size;
		if (getpid() == syscall(SYS_gettid) &&
		    getrlimit(RLIMIT_STACK, &limit) == 0 &&
		    limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > size)
			native.n_size = limit.rlim_cur;
		native.n_low = (uintptr_t)low + size - native.n_size;
	}
	pthread_attr_destroy(&attr);
#endif
}

static void begin(struct usched *s)
{
	(void)s;
	if (native.n_depth++ > 0)
		return;
	native_bounds();
	native.n_alt = alternate_begin();
}

static void end(struct usched *s)
{
	(void)s;
	if (--native.n_depth > 0)
		return;
	native.n_size = 0;
	alternate_end(native.n_alt);
}

int uguard_start(void)
{
	static struct usched_hook hook = { .h_begin = begin, .h_end = end };
	static bool started;
	struct sigaction action = {
		.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK
	};

	if (started)
		return -EBUSY;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGSEGV, &action, &before[0]) != 0)
		return -errno;
	if (sigaction(SIGBUS, &action, &before[1]) != 0) {
		int rc = -errno;

		(void)sigaction(SIGSEGV, &before[0], NULL);
		return rc;
	}
	usched_hook(&hook);
	started = true;
	return 0;
}
