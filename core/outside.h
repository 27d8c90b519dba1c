/* SPDX-License-Identifier: MIT */
/* core/outside.h: learns whose threads wait for events from outside. */

/*
 * THREADS THAT WAIT OUTSIDE
 *
 * A thread that is woken by its neighbour is hot: it should stay in a lane of its
 * own. A thread that waits for a descriptor is cold by the time it goes on, since the
 * kernel and many other threads have run. Its copy is then a small part of a
 * message. But a lane of its own costs pages that are in no level of the TLB: 0.3 to
 * 0.8 us a message at 1,000 connections. An idle thread keeps them, 5 KB and more.
 *
 * So new threads of a function whose threads wait outside share the first
 * USCHED_SHARED lanes, in rotation, at any number. Such a function is learnt as
 * deep functions are (core/deep.h), by a table of credit, of all dispatchers:
 *
 *	+ 1	a thread of it waits for a source of events (uwait_source_begin())
 *	- 2	a thread of it begins in a shared lane for that
 *
 * So it loses its credit if its threads wait outside less than twice. Servers say it
 * before their first connection (usched_outside()). A function whose threads also
 * wake each other is still outside. If it is deep, it gets private lanes.
 *
 * REJECTED
 *
 *   - Counts of waits for other threads, to compare: they would cost rings a part of
 *     each switch.
 *   - A fact of the thread, said by its maker: makers know no lanes.
 */

#define OUTSIDE_BEGINS	2

static struct usched_credit outside[DEEP_NR];
static int outside_known;		/* there is one (atomic) */

void usched_outside(void (*f)(void *))
{
	struct usched_credit *d = credit_of(outside, f);

	if (__atomic_load_n(&d->ct_credit, __ATOMIC_RELAXED) == SURE)
		return;			/* or the table is full of them */
	__atomic_store_n(&d->ct_f, f, __ATOMIC_RELAXED);
	__atomic_store_n(&d->ct_credit, SURE, __ATOMIC_RELAXED);
	__atomic_store_n(&outside_known, 1, __ATOMIC_RELAXED);
}

void usched_waits_outside(const struct ustack *u)
{
	credit_add(outside, ustack_f(u->u_f, u->u_arg), 1);
	if (__atomic_load_n(&outside_known, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&outside_known, 1, __ATOMIC_RELAXED);
}

int usched_lane_outside(void (*f)(void *))
{
	if (__atomic_load_n(&outside_known, __ATOMIC_RELAXED) == 0 ||
	    !wanted(outside, f))
		return 0;
	credit_add(outside, f, -OUTSIDE_BEGINS);
	return 1;
}
