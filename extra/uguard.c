/* SPDX-License-Identifier: MIT */
/* uguard.c: a thread that is too deep ends with a message. */

/*
 * A fault is looked at by a handler on a stack of its own, since there is no
 * room left on the one that ran out. Each native thread gets such a stack when
 * it enters usched_run(), by usched_hook(), and gives it back when it leaves.
 *
 * Whose fault is it? The running thread is known, and so is its lane:
 *
 *	        guard           lane of the thread
 *	  |<-- USCHED_GUARD -->|<------------- size ------------->|
 *	  ^                    ^                                  ^
 *	                       l_low                              l_bottom
 *
 * An address in that guard is that of a thread that is too deep. So is one
 * between the lane and a stack pointer below the lane: a large frame has
 * skipped the guard. An address in the guard of the next lane is that of a
 * thread that has written past the bottom of its own, and in any other guard
 * that of a wild pointer. The native stack (lane 0) ends where
 * pthread_getattr_np() says; about there is a stack that ran out. All else is
 * passed on, also the overflow of a dispatcher that runs on the native lane
 * within a thread of another dispatcher: that is the other's lane.
 *
 * G1. The handler calls what a handler may call, and takes no memory; but the
 *     name of a function is looked up as ufault.h says.
 * G2. What it does not name it leaves as it was: handlers that were there
 *     before are called, and without one the fault is repeated and ends the
 *     process.
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

/* How far beyond its end a native stack is missed, and a frame. */
#define REACH		((uintptr_t)USCHED_GUARD)
/* How far below its lane a stack pointer may be: a frame is not that large. */
#define FRAME_MAX	((uintptr_t)64 << 20)

/* Of a native thread. */
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

/* The stack pointer at the fault, or 0: not known on this machine. */
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

/* The lane whose guard it is, or 0. */
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

/* Is the thread below its lane, and has touched its frame there? */
static bool is_below(const struct usched_lane *l, uintptr_t at, uintptr_t sp)
{
	uintptr_t low = (uintptr_t)l->l_low;

	return low != 0 && low - sp - 1 < FRAME_MAX &&
	       at - (sp - REACH) < low - (sp - REACH);
}

/*
 * Has the thread touched a guard, or is its stack pointer below its lane? Then
 * what happened is in x.
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

	/* Not sent by kill(), in which case there is no address. */
	if (info->si_code > 0 &&
	    ((u != NULL && on_lane(&x, u, at, sp_of(context))) ||
	     on_native(&x, u, at)))
		usched_fail(x.x_text);
	pass_on(&before[signo == SIGBUS], signo, info, context);	/* G2 */
}

/*
 * Where they are not known there is just no message. The stack of main() grows
 * up to a limit; musl says how large it is now.
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
