/* SPDX-License-Identifier: MIT */
/* source.h: steps of sources of events that race. A part of usource.c. */

#ifndef USOURCE_H
#define USOURCE_H

/*
 * A processor looks at a source, or sleeps in it, while it has the role of the
 * source: o_role. A processor that finds the role taken leaves the source to
 * the holder.
 *
 *	A processor that runs threads:	A processor about to sleep:
 *
 *	F1 take the role, if a thread	Z1 uidle_enter()
 *	   waits, and the role is free	Z2 take each role, as in F1
 *	F2 o_look()			Z3 sleep in a source, or natively
 *	F3 leave the role		Z4 look at the other sources of Z2
 *					Z5 leave the roles; uidle_awake()
 *
 * No event is lost. Let all processors sleep, while a thread waits for events
 * of a source. Each Z1 changes the same word, so the last of them, by X, comes
 * after all that the others did before their Z1. Therefore X finds in Z2 that
 * the thread waits. If X finds the role taken by Y, then Y had not left it
 * before its own last Z1. So Y took the role in its last Z2, and sleeps with it.
 * If X finds the role free, X sleeps with it. While a processor is awake, it
 * may look (F1), and else comes to Z1.
 *
 * So Z2 must come after Z1. Both loads of F1 may be relaxed. The role itself is
 * a lock: F3 and Z5 release what F1 and Z2 acquire.
 *
 * LOCAL SOURCES
 *
 * A local source belongs to one worker of ws, its owner. Only the owner sleeps in
 * it, and thieves look (F1 to F3) while the owner computes. So an owner that
 * finds the role taken in Z2 knows that a thief has it, which does not sleep. The
 * owner naps, and looks again: after o_nap at most.
 *
 * A thread of another worker, a guest, may wait for its events, too. The owner may
 * sleep elsewhere while none waits. So the guest counts itself only where others
 * are counted:
 *
 *	Y1 add 1 to o_waits, unless it is 0
 *
 * As o_waits is not 0 then, and was not since the last owner's thread began,
 * the owner has taken the role in its last Z2, or comes to Z1.
 *
 * A source without o_sleep, and any source but the first of Z2, is looked at
 * after each o_nap. Its role is kept meanwhile, so a single processor naps.
 *
 * While o_waits is not 0, the idle count has a hold (idle.h). The thread that
 * changes o_waits from 0 makes this hold, and the thread that changes it to 0
 * ends the hold, both before they block or end. Meanwhile the processor of that
 * thread is awake, so the idle count cannot become complete. The holds made are
 * never fewer than those ended, since each thread ends its wait itself.
 *
 *	operation     who may call
 *	usource_add   a thread, before it waits, and after that
 *	usource_join  a guest, before it waits: Y1. False: it cannot
 *	usource_look_local a thief, for the sources of an owner
 *	usource_look  a processor, for all its sources: F1 to F3
 *	usource_sleep a processor, after uidle_enter(): Z2 to Z5. Where the sleep is in
 *		      two parts (driven.h), usource_take_all and usource_leave_all
 */

#include "uwait.h"
#include "park.h"

#include <limits.h>

#define USOURCE_NAP	UTIME_MS	/* if a source names none */

/*
 * Adds nr, 1 or -1, to the threads that wait for o. True: the first has come,
 * or the last has left, so the caller changes the hold.
 */
static inline bool usource_add(struct uwait_source *o, long nr)
{
	long before = __atomic_fetch_add(&o->o_waits, nr, __ATOMIC_SEQ_CST);

	return before == 0 || before + nr == 0;
}

/* Adds 1 if some thread waits for o already. False: none does. */
static inline bool usource_join(struct uwait_source *o)
{
	long nr = __atomic_load_n(&o->o_waits, __ATOMIC_RELAXED);

	while (nr > 0)
		if (__atomic_compare_exchange_n(&o->o_waits, &nr, nr + 1, false,
				__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))	/* Y1 */
			return true;
	return false;
}

static inline struct uwait_source *usource_next(const struct uwait_source *o)
{
	return __atomic_load_n(&o->o_next, __ATOMIC_ACQUIRE);
}

static inline bool usource_take(struct uwait_source *o, const void *who)
{
	const void *none = NULL;

	return __atomic_load_n(&o->o_waits, __ATOMIC_RELAXED) != 0 &&
	       __atomic_load_n(&o->o_role, __ATOMIC_RELAXED) == NULL &&
	       __atomic_compare_exchange_n(&o->o_role, &none, who, false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);	/* F1 Z2 */
}

static inline void usource_leave(struct uwait_source *o)
{
	__atomic_store_n(&o->o_role, NULL, __ATOMIC_RELEASE);	/* F3 Z5 */
}

/* Looks at the sources from o on, for a caller that the address who names. */
static inline void usource_look(struct uwait_source *o, const void *who)
{
	for (; o != NULL; o = usource_next(o)) {
		if (!usource_take(o, who))			/* F1 */
			continue;
		USCHED_RACE(source_F2);
		o->o_look(o);					/* F2 */
		usource_leave(o);				/* F3 */
	}
}

/* Looks at the first of them, if it is local: for a caller that has others. */
static inline void usource_look_local(struct uwait_source *o, const void *who)
{
	if (o == NULL || !o->o_local || !usource_take(o, who))	/* F1 */
		return;
	USCHED_RACE(source_F2);
	o->o_look(o);						/* F2 */
	usource_leave(o);					/* F3 */
}

static inline bool usource_waits(const struct uwait_source *o)
{
	return __atomic_load_n(&o->o_waits, __ATOMIC_RELAXED) != 0;
}

/*
 * Takes the roles of the sources from o on. Returns the source to sleep in, which is
 * only unless that is NULL, or NULL. *ns becomes the time until the others are looked
 * at, if that is less.
 */
static inline struct uwait_source *usource_take_all(struct uwait_source *o,
						    const void *who,
						    const struct uwait_source *only,
						    utime_ns *ns)
{
	struct uwait_source *in = NULL;
	utime_ns nap;

	for (; o != NULL; o = usource_next(o)) {
		bool taken = usource_take(o, who);		/* Z2 */

		/* A thief has the role of a local source, and does not sleep. */
		if (!taken && (!o->o_local || !usource_waits(o)))
			continue;
		nap = o->o_nap > 0 ? o->o_nap : USOURCE_NAP;
		if (taken && in == NULL && (only == NULL || o == only) &&
		    o->o_sleep != NULL)
			in = o;
		else if (nap < *ns)
			*ns = nap;
	}
	return in;
}

/* Leaves the roles of who, and looks at the sources but in. */
static inline void usource_leave_all(struct uwait_source *o, const void *who,
				     const struct uwait_source *in)
{
	for (; o != NULL; o = usource_next(o)) {
		if (__atomic_load_n(&o->o_role, __ATOMIC_RELAXED) != who)
			continue;
		if (o != in)
			o->o_look(o);				/* Z4 */
		usource_leave(o);				/* Z5 */
	}
}

static inline void usource_sleep_natively(int *asleep, utime_ns ns)
{
	if (ns == UNEVER)
		upark_sleep(asleep);
	else
		upark_futex_wait_for(asleep, 1, ns);
}

/*
 * Sleeps in one of the sources from o on, or natively, until *asleep is 0, an
 * event has come, or ns have passed.
 */
static inline void usource_sleep(struct uwait_source *o, int *asleep,
				 utime_ns ns)
{
	struct uwait_source *in = usource_take_all(o, asleep, NULL, &ns);

	USCHED_RACE(source_Z3);
	if (in == NULL)
		usource_sleep_natively(asleep, ns);
	else if (upark_by(asleep, in->o_wake))
		in->o_sleep(in, ns);				/* Z3 */
	usource_leave_all(o, asleep, in);
}

#endif /* USOURCE_H */
