/* SPDX-License-Identifier: MIT */
/* driven.h: a processor that a loop of the program drives. A part of uproc.c. */

#ifndef UPROC_DRIVEN_H
#define UPROC_DRIVEN_H

/*
 * A driven set has a single processor and no native thread of its own. A native thread
 * of the program, the driver, calls uproc_drive_run(), which runs threads until none is
 * ready, and returns. In between the driver is in a loop of its own. That loop sleeps
 * until the descriptor of the poller can be read, or dr_until has passed:
 *
 *	uproc_look(), where another	N1 upark_prepare(); looks again	park S1 to S3
 *	processor would sleep		N2 dr_until, and a hold for a deadline
 *					N3 uidle_enter()		idle D1
 *					N4 takes the role of each source source Z2
 *					N5 upark_by() the poller; the run returns
 *	the loop			N6 sleeps			park S4
 *	uproc_look(), in the next run	N7 fetches the poller's events; looks at the
 *					   other sources, leaves roles	source Z4, Z5
 *					N8 uidle_awake(), the hold ends
 *
 * So a sleep spans two runs, and the loop of the program is its middle. Nothing else is
 * new: all others see a processor that sleeps in its poller.
 *
 * While threads are ready, a run lasts for TURN, so that threads that always give way
 * leave the loop its turn. Each run begins with a look.
 *
 * THE END
 *
 * fini runs the processor on the driver, until all threads have ended. There it sleeps in
 * its poller, between N5 and N7. A sleeper cannot wait for set_idle, too. So N3 tells
 * whether the set is idle, and the release of a hold, which may make it so later, writes
 * to the poller (drive_release()):
 *
 *	The releaser:				fini:
 *
 *	M1 add 1 to dr_releases			M5 set_fini = 1
 *	M2 uidle_release()			M6 N1 to N3: idle? Then the end
 *	M3 if set_fini, write to the poller	M7 sleep in the poller; again from M6
 *	M4 take 1 from dr_releases		M8 waits until dr_releases is 0
 *
 * If M3 finds no set_fini, M2 comes before M6, which sees the release. Otherwise M7 ends
 * after M3. Other wakers hold the set, so their step idle D3 comes before their M2. A
 * releaser that has looked for the driver before the start writes nothing. For this case
 * alone M7 lasts for LAST at most.
 *
 * INVARIANTS
 *
 * N9. Between two runs the processor is asleep (N5), or dr_until is UNOW.
 * N10. While it is asleep, each wake makes the descriptor readable, and so does each
 *     event for which a thread waits: wakers write to the poller, even if no thread waits
 *     for descriptors.
 * N11. A run that begins asleep fetches the events of the poller, in any case: else the
 *     descriptor would stay readable, and the loop would never sleep.
 * N12. Between two runs no native thread is the processor (mine). So what the driver does
 *     there is done from outside: its wakes are remote.
 *
 * REJECTED
 *
 * fini on a native thread of its own: threads that call the foreign library would run
 * where that is not permitted. Deadlines within the descriptor, by a timerfd: two system
 * calls for each sleep with another deadline; loops have timers.
 */

#include "lanes.h"
#include "sleep.h"

#define TURN		UWAIT_LATE	/* ns of a run while threads are ready */
#define LAST		UTIME_S

struct uproc_drive {
	struct uwait_source  *dr_source;	/* the poller */
	struct ustack *const *dr_native;	/* the driver: usched_current_at() */
	utime_ns              dr_until;		/* for the loop */
	utime_ns              dr_began;		/* the run */
	utime_ns              dr_due;		/* N2: the deadline held for, or UNEVER */
	struct uproc_rests    dr_rests;
	unsigned              dr_switches;	/* when dr_rests began */
	bool                  dr_runs;
	bool                  dr_asleep;	/* from N5 to N8 */
	int                   dr_releases;	/* under way (atomic) */
};

static bool drive_ends(const struct uproc_set *set)
{
	return __atomic_load_n(&set->set_fini, __ATOMIC_SEQ_CST) != 0;
}

/* Ends the sleep of p. */
static void drive_awake(struct uproc *p)
{
	struct uproc_drive *d = p->p_set->set_drive;

	uwait_sleep_end(&p->p_waits, &p->p_asleep, d->dr_source);	/* N7 */
	if (UWAIT_WATCHED)
		uwait_watch_awake(&p->p_sched);
	d->dr_asleep = false;
	if (!uidle_awake(&p->p_set->set_idle, &p->p_asleep))		/* N8 */
		uproc_rest(p, &d->dr_rests);
	if (d->dr_due != UNEVER)
		uidle_unhold(&p->p_set->set_idle);
}

/*
 * Called in each look of p. False: the run returns, as it has lasted for TURN, and
 * threads are ready. *looked becomes true if this was a look outside.
 */
static NOINLINE bool drive_look(struct uproc *p, bool *looked)
{
	struct uproc_drive *d = p->p_set->set_drive;

	if (d->dr_asleep) {
		drive_awake(p);
		*looked = true;
		return true;
	}
	if (uproc_queue_empty(&p->p_queue) || drive_ends(p->p_set) ||
	    unow() - d->dr_began < TURN)
		return true;
	p->p_sched.s_steps |= USCHED_PAUSES;
	return false;
}

/* Returns how long p may sleep, if neither a wake nor a deadline comes. */
static utime_ns drive_rest_in(struct uproc *p)
{
	struct uproc_drive *d = p->p_set->set_drive;

	if (d->dr_switches != p->p_switches)
		d->dr_rests = (struct uproc_rests){ 0, 0 };
	d->dr_switches = p->p_switches;
	return drive_ends(p->p_set) ? LAST : uproc_rest_in(p, &d->dr_rests);
}

/*
 * Begins a sleep of p, unless something has come. True: the run returns, as the loop
 * sleeps now, or the set has ended.
 */
static NOINLINE bool drive_sleep(struct uproc *p, unsigned *tries)
{
	struct uproc_drive *d = p->p_set->set_drive;
	bool ends = drive_ends(p->p_set), idle, asleep;
	utime_ns ns;

	USCHED_RACE(proc_S1);
	upark_prepare(&p->p_asleep);					/* N1 */
	USCHED_RACE(proc_S3);
	if (has_come(p) && upark_cancel(&p->p_asleep)) {
		uproc_pause(tries);	/* a post may be half-way */
		return false;
	}
	*tries = 0;
	ns = drive_rest_in(p);
	d->dr_due = sleep_enter(p, &ns, &idle);				/* N2 N3 */
	if (ends && idle)						/* M6 */
		return true;
	if (UWAIT_WATCHED)
		ns = uwait_watch_sleeps(ns);
	d->dr_asleep = true;
	asleep = uwait_sleep_begin(&p->p_waits, &p->p_asleep,
				   d->dr_source, &ns);			/* N4 N5 */
	d->dr_until = ns == UNEVER ? UNEVER : uafter(ns);
	if (asleep && !ends) {
		p->p_sched.s_steps |= USCHED_PAUSES;
		return true;
	}
	if (asleep)
		d->dr_source->o_sleep(d->dr_source, ns);		/* M7 */
	drive_awake(p);
	return false;
}

/* Ends a hold of a driven set. */
static NOINLINE void drive_release(struct uproc_set *set)
{
	struct uproc_drive *d = uproc_drive_of(set);

	__atomic_add_fetch(&d->dr_releases, 1, __ATOMIC_SEQ_CST);	/* M1 */
	uidle_release(&set->set_idle);					/* M2 */
	USCHED_RACE(proc_M2);
	if (drive_ends(set))
		upark_write(d->dr_source->o_wake);			/* M3 */
	__atomic_sub_fetch(&d->dr_releases, 1, __ATOMIC_SEQ_CST);	/* M4 */
}

#endif /* UPROC_DRIVEN_H */
