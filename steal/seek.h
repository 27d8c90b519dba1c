/* SPDX-License-Identifier: MIT */
/* seek.h: how work finds a native thread that looks for some, or sleeps. */

#ifndef SEEK_H
#define SEEK_H

/*
 * One who has nothing to do seeks: he looks everywhere for something to take,
 * for a while; then he sleeps. One who has put something where it can be taken
 * need not wake anybody while somebody seeks; else he wakes one of those who
 * sleep.
 *
 *	Who has nothing:			Who gives:
 *
 *	N1 seek_begin(): one more seeks		G1 put it where it can be taken
 *	N2 look; found something: N7		G2 seek_must_wake(): fence_light()
 *	N3 seek_end(): one less seeks		G3    does nobody seek, and
 *	N4 park_prepare(), then seek_park():	      somebody sleep?
 *	   one more sleeps, fence_heavy()	G4    then wake one of them
 *	N5 look again; found something:
 *	   stay awake
 *	N6 sleep (idle.h); seek_unpark();
 *	   back to N1
 *
 *	N7 seek_end(); is it true, then
 *	   look if there is more, and if so
 *	   wake one who sleeps
 *
 * No wake is lost. If the light fence in G2 is before a heavy one, the look
 * after that, N5 or N7, sees what was put. If it is after that, G3 sees what
 * was counted before it, and G4 who is asleep.
 *
 * So if G3 sees that nobody sleeps, it is before the fence of each who sleeps,
 * and he sees in N5 what was put. If G3 sees that somebody seeks, one of these
 * has not passed N3 or N7, for G3. If he has found nothing, his fence in N4 is
 * later, and so is N5. If he has found something, and sees in N7 that somebody
 * sleeps, his fence in N7 is later, and so is his look. If he sees that nobody
 * sleeps, who sleeps now has come to N4 after that; so the fence there is
 * later, or G3 had seen N7, too.
 *
 * One wake may be for two things, or for a thing and a message. So who is woken
 * begins again at N1. If he does something else first, what was put waits for
 * the next one who seeks.
 *
 * A worker that seeks may nap: it sleeps for a bounded time, between looks. G3
 * finds that it seeks, so the giver makes no system call, and what was put is
 * found after the nap at the latest. Naps are for work that comes and goes
 * (worth.h). While there is none, one worker naps: the others go to sleep, and
 * N7 wakes them if there is more than the first can take. A nap counts as idle (idle.h),
 * though no look with a fence is before it. So a giver must not be idle before
 * what it gave is taken: it takes the rest itself.
 *
 * Orders: N7 and the load of m_parked that follows are sequentially consistent,
 * for the last case above. All the rest is due to the fences, and could be
 * relaxed.
 *
 *	operation     who may call
 *	seek_begin    who has nothing to do
 *	seek_end      the same, when he has found something, or gives up. True:
 *		      somebody sleeps, so see N7; it has passed a heavy fence
 *	seek_alone    who seeks: a hint that no other does, so it may nap
 *	seek_park     who is about to sleep, after park_prepare()
 *	seek_unpark   the same, when he does not any more
 *	seek_must_wake     anyone, after he has put something. True: wake one
 *	seek_parked   anyone: how many sleep, or are about to
 */

#include "fence.h"

#include <stdbool.h>

#if !defined(RACE_WINDOW)
#define RACE_WINDOW(n)	((void)0)	/* a test puts delays there */
#endif

struct seek {
	int m_parked;
	int m_seeking;
};

static __inline__ void seek_begin(struct seek *m)
{
	__atomic_fetch_add(&m->m_seeking, 1, __ATOMIC_SEQ_CST);	/* N1 */
}

static __inline__ int seek_parked(const struct seek *m)
{
	return __atomic_load_n(&m->m_parked, __ATOMIC_SEQ_CST);
}

static __inline__ bool seek_end(struct seek *m)
{
	__atomic_fetch_sub(&m->m_seeking, 1, __ATOMIC_SEQ_CST);	/* N3 N7 */
	RACE_WINDOW(32);
	if (seek_parked(m) == 0)
		return false;
	fence_heavy();
	return true;
}

static __inline__ bool seek_alone(const struct seek *m)
{
	return __atomic_load_n(&m->m_seeking, __ATOMIC_RELAXED) == 1;
}

static __inline__ void seek_park(struct seek *m)
{
	__atomic_fetch_add(&m->m_parked, 1, __ATOMIC_SEQ_CST);	/* N4 */
	RACE_WINDOW(33);
	fence_heavy();
}

static __inline__ void seek_unpark(struct seek *m)
{
	__atomic_fetch_sub(&m->m_parked, 1, __ATOMIC_SEQ_CST);
}

static __inline__ bool seek_must_wake(const struct seek *m)
{
	fence_light();						/* G2 */
	RACE_WINDOW(34);
	return __builtin_expect(__atomic_load_n(&m->m_parked,
				__ATOMIC_RELAXED), 0) &&	/* G3 */
	       !__atomic_load_n(&m->m_seeking, __ATOMIC_RELAXED);
}

#endif /* SEEK_H */
