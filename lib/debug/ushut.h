/* SPDX-License-Identifier: MIT */
/* ushut.h: lanes that are shut in the hard mode, and faults. A part of uhard.c. */

#ifndef USHUT_H
#define USHUT_H

/*
 * A lane is shut by mprotect() when its occupant has left, and opened when the
 * next occupant is about to come. A thread that touches the lane meanwhile gets
 * a signal. The handler, on an alternate stack, looks for threads that are
 * bound to the lane, are away, and have slices that belong to that address. The
 * handler takes the lock that protects the lists of records, unless its native
 * thread holds the lock already.
 *
 * The culprit and the lane may belong to different native threads, so the lane
 * can be shut or opened at any moment of this:
 *
 *	dispatcher of the lane			handler
 *
 *	O1 mprotect(), accessible		F1 read k_opened
 *	O2 k_shut = 0				F2 read k_shut; if 0, repeat
 *	O3 k_opened + 1				F3 look for the victims
 *	O4 the thread is not away any more	F4 read k_opened; if it has
 *						   changed, repeat
 *	S1 the thread is away
 *	S2 k_shut = 1
 *	S3 mprotect(), inaccessible
 *
 * To repeat, the handler returns: the access is tried again, and fails again if
 * the lane is shut then. Since S2 comes before S3, a fault finds k_shut set,
 * unless the lane was opened in between. Since O3 comes before O4, and F3
 * before F4, F4 notices each victim that F3 has missed. A fault that is
 * repeated REPEATS times although the lane is open has another cause, and is
 * passed on.
 *
 * INVARIANTS
 *
 * H3. A lane that is shut has no owner.
 */

#include "uhard_inside.h"

#include <sys/mman.h>
#include <time.h>

/*
 * How often, each 100 us, a handler tries the lock before it goes on without.
 */
#define PATIENCE	100000
/* How often one access is repeated although the lane is open. */
#define REPEATS		1000

/* The last access that this native thread repeated, and how often. */
static __thread const char *repeated;
static __thread int         repeats;

/* Lanes. */

static void shut_set(struct usched_lane *first, struct usched_lane *last,
		     int shut)
{
	for (; first <= last; first++)
		__atomic_store_n(&first->l_hard.k_shut, shut,
				 __ATOMIC_SEQ_CST);
}

/* Shuts lanes, to the end of the last page. If that fails, they stay open. */
static void lane_shut(struct usched_lane *first, struct usched_lane *last)
{
	char *low = first->l_low;
	char *end = (char *)(((uintptr_t)last->l_bottom + mode.m_page - 1) &
			     -mode.m_page);

	if (!mode.m_fault)
		return;
	shut_set(first, last, 1);					/* S2 */
	if (mprotect(low, end - low, PROT_NONE) != 0)			/* S3 */
		shut_set(first, last, 0);
}

static void lane_open(struct usched_lane *l)
{
	char *end = (char *)(((uintptr_t)l->l_bottom + mode.m_page - 1) &
			     -mode.m_page);

	if (!l->l_hard.k_shut)
		return;
	if (mprotect(l->l_low, end - l->l_low, PROT_READ | PROT_WRITE) != 0)
		usched_fail("fault: a lane could not be opened: no memory");
	shut_set(l, l, 0);						/* O2 */
	__atomic_fetch_add(&l->l_hard.k_opened, 1, __ATOMIC_SEQ_CST);	/* O3 */
}

/* Faults. */

/* Returns whether the access was a read or a write, if the processor tells. */
static const char *access_of(void *context)
{
#if defined(__x86_64__) && defined(REG_ERR)
	const ucontext_t *c = context;

	return c->uc_mcontext.gregs[REG_ERR] & 2 ? " wrote to " : " read from ";
#else
	(void)context;
	return " read from or wrote to ";
#endif
}

static void put_culprit(struct text *x, void *context)
{
	const struct ustack *u = ustack_self();

	if (u != NULL)
		put_name(x, name_of_thread(u));
	else
		put(x, "a native thread, or a dispatcher,");
	put(x, access_of(context));
}

/*
 * Writes to x what happened. False: repeat the access. Caller holds the lock.
 */
static bool explain(struct text *x, const struct uhard_sched *d, int lane,
		    const char *at, void *context)
{
	const struct uhard_lane *k = &d->d_lane[lane].l_hard;
	unsigned opened = __atomic_load_n(&k->k_opened, __ATOMIC_SEQ_CST);
	struct name victim = last_of(&d->d_lane[lane]);

	if (!__atomic_load_n(&k->k_shut, __ATOMIC_SEQ_CST))		/* F2 */
		return false;
	put_culprit(x, context);
	put_place(x, at, lane);
	put(x, ", on the stack of ");
	if (put_blocked(x, d, lane, at, &victim, IS_AWAY) > 0)			/* F3 */
		put(x, ", which is blocked");
	else {
		put_name(x, victim);
		put(x, ", where it is dead: it ran there last");
	}
	return __atomic_load_n(&k->k_opened, __ATOMIC_SEQ_CST) ==	/* F4 */
		opened;
}

/* Tells whether this native thread has repeated the access too often. */
static bool is_stubborn(const char *at)
{
	if (at != repeated)
		repeats = 0;
	repeated = at;
	return ++repeats > REPEATS;
}

/* False: the fault interrupted its own native thread, which holds the lock. */
static bool lock_soon(void)
{
	const struct timespec nap = { 0, 100000 };
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (lock_try())
			return true;
		if (__atomic_load_n(&holder, __ATOMIC_RELAXED) == &depth)
			return false;
		nanosleep(&nap, NULL);
	}
	return false;
}

/*
 * If the address is in a lane: a message, or true, and the access is repeated.
 */
static bool is_ours(const char *at, void *context)
{
	struct text x = { .x_nob = 0 };
	const struct uhard_sched *d;
	bool known = false;
	bool held = lock_soon();
	int lane = 0;

	for (d = all; d != NULL; d = d->d_next) {
		if ((lane = lane_at(d, at)) != 0)
			break;
	}
	if (d != NULL)
		known = explain(&x, d, lane, at, context);
	if (held)
		unlock();
	if (known)
		usched_fail(x.x_text);
	return d != NULL && !is_stubborn(at);
}

static void fault(int signo, siginfo_t *info, void *context)
{
	/* A signal that kill() sends has no address. */
	if (info->si_code <= 0 || !is_ours(info->si_addr, context))
		pass_on(&mode.m_before[signo == SIGBUS], signo, info, context);
}

/* Installs the handler. If that fails, a bad access is still a fault. */
static void handler_set(void)
{
	struct sigaction action = {
		.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK
	};

	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGSEGV, &action, &mode.m_before[0]);
	(void)sigaction(SIGBUS, &action, &mode.m_before[1]);
}

#endif /* USHUT_H */
