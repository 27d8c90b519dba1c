/* SPDX-License-Identifier: MIT */
/* sleep.h: how a processor sleeps, until when, and the end of a set. A part of uproc.c. */

#ifndef UPROC_SLEEP_H
#define UPROC_SLEEP_H

/*
 * SLEEP AND END
 *
 * A processor with nothing to run parks. park.h says why no wake is lost.
 * set_idle counts the processors that sleep (idle.h). When it equals the number
 * of processors, no message is under way, and nothing will ever change.
 * uproc_fini() waits for this moment. The threads that are still alive then can
 * never be woken.
 *
 * DEADLINES
 *
 * Each processor has a timer base (uwait.h): a wheel for the deadlines of its
 * threads, and a list of records whose wait was ended elsewhere. It looks at
 * both where it takes remote wakes, and before it sleeps. A processor with a
 * deadline sleeps until then at most. Meanwhile it does not count as idle, so the
 * set does not end. A processor without deadlines pays two loads for each look.
 *
 * Under virtual time a processor with a deadline sleeps like any other. But
 * while there is a deadline, set_idle never becomes complete. The last processor
 * that is awake does not go to sleep then. It lets the clock jump to the next
 * deadline of the set, and wakes the processors that have it. While there is a
 * deadline, the last hold does not end either: its holder lets the clock jump
 * first. So set_idle is complete only at the end, as in real time.
 *
 * P7. The sum of additions to set_idle by and for a processor is 1 only while
 *     it sleeps and no waker has begun to wake it. Else it is 0 or less.
 * P8. A processor sleeps no longer than until its first deadline. While it
 *     sleeps with a deadline, in real time, its additions to set_idle sum up to
 *     0 or less.
 * P9. Virtual time changes only while all processors but the caller of jump()
 *     sleep. While the set has a deadline, set_idle does not become complete.
 */

#include "uproc_inside.h"
#include "idle.h"

#include <sched.h>

#define HOLDS_MOST	(1 << 30)	/* as many callers may exceed it at once */
#define YIELDS		10
#define NAP_MIN		20000L		/* ns; a wait may end so late */
#define NAP_MAX		1000000L

void uproc_give_way(unsigned nr)
{
	long ns = NAP_MIN;
	int never = 0;

	if (nr <= YIELDS) {
		(void)sched_yield();
		return;
	}
	while (--nr > YIELDS && ns < NAP_MAX)
		ns *= 2;
	upark_futex_wait_for(&never, 0, ns < NAP_MAX ? ns : NAP_MAX);
}

/* Must p, which is about to sleep, look once more? park S3 */
static bool has_come(struct uproc *p)
{
	return !uinbox_empty(&p->p_inbox) || uwait_posted(&p->p_waits) ||
	       uproc_is_due(p) || uproc_stopped(p->p_set);
}

/* Returns the next deadline of the set, whose processors sleep, or UNEVER. */
static utime_ns next_due(struct uproc_set *set)
{
	utime_ns due = UNEVER;
	int i;

	for (i = 0; i < set->set_nr; i++) {
		utime_ns next = uwait_due(&uproc_nth(set, i)->p_waits);

		if (next < due)
			due = next;
	}
	return due;
}

/*
 * Lets virtual time jump to the next deadline of the set, and wakes the
 * processors that have it. All processors sleep but the caller, and there is no
 * hold but that of the caller. False: there is no deadline.
 */
static bool jump(struct uproc_set *set)
{
	utime_ns due = next_due(set);
	int i;

	if (due == UNEVER)
		return false;
	USCHED_RACE(proc_jump);
	utime_jump(due);
	for (i = 0; i < set->set_nr; i++) {
		struct uproc *q = uproc_nth(set, i);

		if (uwait_due(&q->p_waits) <= due)
			uidle_wake(&set->set_idle, &q->p_asleep);
	}
	return true;
}

bool uproc_may_jump(struct uproc *p)
{
	struct uproc_set *set = p->p_set;

	return utime_is_virtual() &&
		__atomic_load_n(&set->set_idle, __ATOMIC_SEQ_CST) ==
		set->set_nr - 1 && next_due(set) != UNEVER;
}

void uproc_jump(struct uproc *p)
{
	(void)jump(p->p_set);
}

/* Sleeps after uidle_enter(), in a source (uwait.h) or in the system. */
static bool sleep_entered(struct uproc *p, utime_ns ns)
{
	if (UWAIT_WATCHED)
		ns = uwait_watch_sleeps(ns);
	uwait_sleep_outside(&p->p_waits, &p->p_asleep, ns);
	if (UWAIT_WATCHED)
		uwait_watch_awake(&p->p_sched);
	return uidle_awake(&p->p_set->set_idle, &p->p_asleep);
}

/* Sleeps under virtual time, or lets the clock jump instead (P9). */
static bool sleep_virtual(struct uproc *p, utime_ns ns)
{
	struct uproc_set *set = p->p_set;
	int *idle = &set->set_idle;

	if (!uidle_enter_unless_last(idle, set->set_nr)) {
		if (next_due(set) != UNEVER) {
			uidle_stay(idle, &p->p_asleep);
			return jump(set);
		}
		(void)uidle_enter(idle, set->set_nr);
	}
	return sleep_entered(p, ns);
}

/*
 * Counts p, which is about to sleep, as asleep, and lets *ns end at its deadline.
 * Returns this deadline, for which there is a hold (P8); UNEVER: there is none. *idle:
 * the whole set is idle now.
 */
static inline utime_ns sleep_enter(struct uproc *p, utime_ns *ns, bool *idle)
{
	struct uproc_set *set = p->p_set;
	utime_ns due = uwait_due(&p->p_waits);
	utime_ns left;

	if (due != UNEVER) {
		uidle_hold(&set->set_idle);			/* P8 */
		left = due - unow();
		if (left < *ns)
			*ns = left > 0 ? left : 0;
	}
	*idle = uidle_enter(&set->set_idle, set->set_nr);
	return due;
}

bool uproc_sleep(struct uproc *p, utime_ns ns)
{
	utime_ns due;
	bool woken, idle;

	if (utime_is_virtual())
		return sleep_virtual(p, ns);
	due = sleep_enter(p, &ns, &idle);
	woken = sleep_entered(p, ns);
	if (due != UNEVER)
		uidle_unhold(&p->p_set->set_idle);
	return woken;
}

#if defined(USCHED_HARD)
static void hold_count(struct uproc_set *set, int nr)
{
	if (__atomic_add_fetch(&set->set_holds, nr, __ATOMIC_RELAXED) < 0)
		uhard_fail(name_of(set), "release", "there is no hold");
}
#else
static void hold_count(struct uproc_set *set, int nr)
{
	(void)set, (void)nr;
}
#endif

void uproc_hold(struct uproc_set *set)
{
	if (set == NULL)
		return;
	if (__atomic_load_n(&set->set_idle, __ATOMIC_RELAXED) <= -HOLDS_MOST)
		usched_fail("hold: there are 2^30 holds without a release");
	hold_count(set, 1);
	uidle_hold(&set->set_idle);
}

/* Ends a hold of a driven set, and wakes its fini: driven.h. */
static void drive_release(struct uproc_set *set);

void uproc_release(struct uproc_set *set)
{
	if (set == NULL)
		return;
	hold_count(set, -1);
	if (unlikely(uproc_drive_of(set) != NULL)) {
		drive_release(set);
		return;
	}
	while (utime_is_virtual()) {					/* P9 */
		if (uidle_enter_unless_last(&set->set_idle, set->set_nr))
			return;
		if (!jump(set))
			break;
	}
	uidle_release(&set->set_idle);
}

#endif /* UPROC_SLEEP_H */
