/* SPDX-License-Identifier: MIT */
/* looks.h: looks for threads to run, and sleeps. A part of uproc.c. */

#ifndef UPROC_LOOKS_H
#define UPROC_LOOKS_H

/*
 * A processor that has threads to run looks now and then (rounds.h): uproc_drain()
 * takes what has come, and never sleeps. A processor that has none looks, spins if there
 * is a cpu to spare, and sleeps, in the steps park S1 to S4. The processor of a
 * driven set leaves the sleep to the loop of the program (driven.h).
 *
 * P10. A processor that is alone in its set ends by itself, counted as asleep, if
 *     fini waits, and no thread, hold or deadline is left. Before fini it sleeps
 *     instead, as the program may still make threads.
 */

#include "arrive.h"
#include "driven.h"
#include "lanes.h"
#include "rest.h"
#include "rounds.h"
#include "sleep.h"

void uproc_drain(struct uproc *p)
{
	uproc_round_end(p, p->p_switches);
	if (ustack_self() == NULL)	/* in s_next() */
		uproc_cool_in_time(p);
	if (uwait_outside(&p->p_waits))
		uwait_look_outside(&p->p_waits);
	drain(p);
	uproc_round_begin(p, p->p_switches);
}

void uproc_shuffle(struct uproc *p)
{
	const struct usched_queue *q = &p->p_queue;
	struct ustack **first = &q->q_ring[q->q_head & q->q_mask];
	struct ustack *was = *first;
	struct ustack **drawn;

	p->p_random = p->p_random * 1664525u + 1013904223u;
	drawn = &q->q_ring[(q->q_head + (unsigned)((uint64_t)p->p_random *
			    uproc_queue_len(q) >> 32)) & q->q_mask];
	*first = *drawn;
	*drawn = was;
}

/*
 * Looks outside if it is time, and p has not just looked. The queue of p may be
 * empty whenever p comes here, and yet p never sleep: others wake its threads as
 * fast as they run.
 */
static void look_in_time(struct uproc *p, bool looked)
{
	if (!looked && uwait_outside(&p->p_waits)) {
		if (!uproc_ask(p, p->p_switches))
			return;
		uwait_look_outside(&p->p_waits);
	}
	uproc_round_begin(p, p->p_switches);
}

/* Returns how many threads set has, once no thread runs. */
static long threads_left(const struct uproc_set *set)
{
	unsigned nr = 0;	/* only the sum counts: threads end elsewhere */
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct uproc *p = uproc_nth(set, i);

		nr += __atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) +
		      __atomic_load_n(&p->p_made, __ATOMIC_RELAXED);
	}
	return nr;
}

/*
 * Returns whether p, alone in its set, may end by itself: fini waits for the end,
 * and no thread, no hold and no deadline is left. Nothing can come then. So fini
 * need not wake p to tell it: P10. Holds are looked at first, since the holder may
 * make a thread before it releases.
 */
static bool may_end(struct uproc *p)
{
	const struct uproc_set *set = p->p_set;

	if (set->set_nr != 1 || utime_is_virtual() ||
	    !__atomic_load_n(&set->set_fini, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&set->set_idle, __ATOMIC_SEQ_CST) != 0)
		return false;
	USCHED_RACE(proc_alone);
	return threads_left(set) == 0 && uwait_due(&p->p_waits) == UNEVER &&
		uinbox_empty(&p->p_inbox) && !uwait_posted(&p->p_waits);
}

/* Sleeps, unless something has come. Returns whether p has slept: that is a look. */
static bool sleep_once(struct uproc *p, unsigned *tries, struct uproc_rests *rests)
{
	USCHED_RACE(proc_S1);
	upark_prepare(&p->p_asleep);				/* park S1, S2 */
	USCHED_RACE(proc_S3);
	/* If a waker was faster, the sleep ends at once: idle D1 makes up for its idle D2. */
	if (has_come(p) && upark_cancel(&p->p_asleep)) {	/* park S3 */
		uproc_pause(tries);	/* a post may be half-way */
		return false;
	}
	if (!uproc_sleep(p, uproc_rest_in(p, rests)))		/* park S4 */
		uproc_rest(p, rests);
	*tries = 0;
	return true;
}

int uproc_look(struct uproc *p)
{
	struct uproc_set *set = p->p_set;
	int spin = set->set_spare && !utime_is_virtual() ? UPROC_SPIN : 0;
	unsigned tries = 0;
	struct uproc_rests rests = { 0, 0 };
	bool looked = false;

	note_few(p);
	uproc_round_end(p, p->p_switches);
	uproc_cool_in_time(p);
	if (uwait_outside(&p->p_waits)) {
		spin   = 0;		/* a sleep is a look, and costs no more */
		looked = !uproc_queue_empty(&p->p_queue);
		if (looked)
			uwait_look_outside(&p->p_waits);
	}
	if (unlikely(set->set_drive != NULL) && !drive_look(p, &looked))
		return false;
	for (;;) {
		drain(p);
		if (!uproc_queue_empty(&p->p_queue)) {
			look_in_time(p, looked);
			if (p->p_random != 0)
				uproc_shuffle(p);
			return true;
		}
		if (uproc_stopped(set))
			return false;
		if (may_end(p)) {
			(void)uidle_enter(&set->set_idle, set->set_nr);
			return false;
		}
		if (spin-- > 0) {
			uproc_relax();
			continue;
		}
		spin = 0;
		if (unlikely(set->set_drive != NULL)) {
			if (drive_sleep(p, &tries))
				return false;
		} else if (sleep_once(p, &tries, &rests))
			looked = true;
	}
}

#endif /* UPROC_LOOKS_H */
