/* SPDX-License-Identifier: MIT */
/* uguard.c: names a thread that overflows its lane, before the process ends. */

/*
 * The handler of the fault runs on an alternate stack, since the stack that
 * overflowed has no room left. Each native thread gets an alternate stack when
 * it enters usched_run(), by usched_hook(), and gives it back when it leaves.
 *
 * core/guard.h, whose own handler is installed only by schedulers, and only if
 * there is no other, tells what a thread has done. Here are besides: names of
 * functions; SIGBUS; and faults about where the native stack ends
 * (pthread_getattr_np()), which is lane 0 and has overflowed.
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
#include <unistd.h>

UPREEMPT_NEVER;

/* How far a fault may be from the end of the native stack. */
#define REACH		((uintptr_t)USCHED_GUARD)

/* What is known of this native thread. */
static __thread struct {
	int       n_depth;		/* nested usched_run() */
	void     *n_alt;		/* its alternate stack, if it is ours */
	uintptr_t n_low, n_size;	/* of the native stack */
} native;

static struct sigaction before[2];	/* SIGSEGV, SIGBUS */

static void put_user(struct text *x, const struct ustack *u)
{
	put_thread(x, u, ustack_f(u->u_f, u->u_arg),
		   ustack_arg(u->u_f, u->u_arg));
}

static bool on_lane(struct text *x, const struct ustack *u, uintptr_t at,
		    const void *context)
{
	char what[512];

	if (!usched_explain(u, at, context, what, sizeof what))
		return false;
	if (u != NULL)
		put_user(x, u);
	else
		put(x, "a native thread");
	put(x, what);
	return true;
}

static bool on_native(struct text *x, const struct ustack *u, uintptr_t at)
{
	if (native.n_size == 0 || at - (native.n_low - REACH) > 2 * REACH)
		return false;
	if (u != NULL)
		put_user(x, u);
	else
		put(x, "the dispatcher");
	put(x, " has run out of the native stack, lane 0, of ");
	put_number(x, native.n_size, 10);
	put(x, " bytes; a larger stack: ulimit -s, or pthread_attr_setstacksize(); "
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
	    (on_lane(&x, u, at, context) || on_native(&x, u, at)))
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
	native.n_alt = usched_alternate_begin();
}

static void end(struct usched *s)
{
	(void)s;
	if (--native.n_depth > 0)
		return;
	native.n_size = 0;
	usched_alternate_end(native.n_alt);
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
