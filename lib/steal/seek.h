/* SPDX-License-Identifier: MIT */
/* seek.h: how work finds a native thread that searches for it, or sleeps. */

#ifndef WS_SEEK_H
#define WS_SEEK_H

/*
 * A worker with nothing to do seeks: it searches all others for work, for a
 * while, and then sleeps. A giver is a worker that has put work where a thief
 * can take it. It wakes a sleeper only if no worker seeks.
 *
 *	A worker with nothing to do:		A giver:
 *
 *	N1 ws_seek_begin(): one more seeks	G1 put the work where it can be
 *	N2 search; found work: N7		   taken
 *	N3 ws_seek_end(): one less seeks	G2 ws_seek_must_wake():
 *	N4 upark_prepare(), then ws_seek_park():      ufence_light()
 *	   one more sleeps, ufence_heavy()	G3    true if none seeks, and
 *	N5 look again; found work: stay		      some worker sleeps
 *	   awake				G4    then wake a sleeper
 *	N6 sleep (idle.h); ws_seek_unpark();
 *	   back to N1
 *
 *	N7 ws_seek_end(); if that is true, look
 *	   whether there is more work, and
 *	   if so wake a sleeper
 *
 * No work is lost. If the light fence in G2 is before a heavy fence, the look
 * after the heavy fence, N5 or N7, sees the work. If it is after the heavy
 * fence, G3 sees all that was counted before that fence, and G4 finds the
 * sleeper.
 *
 *   - If G3 sees that none sleeps, it is before the fence of each sleeper, and
 *     N5 sees the work.
 *   - If G3 sees that some worker seeks, that worker has not passed N3 or N7,
 *     as far as G3 can see. If it finds nothing, its fence in N4 is later, and
 *     so is N5. If it finds work, and sees in N7 that another sleeps, its fence
 *     in N7 is later, and so is its look. If it sees in N7 that none sleeps,
 *     each later sleeper comes to N4 after that. So the fence there is later,
 *     or G3 would have seen N7, too.
 *
 * A single wake may stand for two pieces of work, or for work and a message. So
 * a woken worker begins again at N1. If it does something else first, the work
 * waits for the next worker that seeks.
 *
 * A worker that seeks may nap: it sleeps for a bounded time, between looks. G3
 * finds that it seeks, so the giver makes no system call, and the worker finds
 * the work after its nap. Naps are for work that comes and goes: see
 * steal_policy.h. While there is no work, a single worker naps. The others
 * sleep, and N7 wakes them if there is more than the first can take. A napping
 * worker counts as idle (idle.h), though it has not looked after a fence. So a
 * giver must not become idle before its work is taken: it takes the rest
 * itself.
 *
 * MORE WORKERS THAN CPUS
 *
 * Of so many, m_spare may sleep whatever there is to do, so that each of those that
 * are awake has a cpu. Above, read "more than m_spare sleep" for "some worker sleeps",
 * and "no more do" for "none sleeps". A worker looks in N5 only if more sleep, and
 * comes to N4 without a search if fewer do. The proof stays: of workers that come to
 * N4, that which makes them more than m_spare looks. And work is not lost where none
 * looks: it lies at its giver, which is awake, and takes it itself.
 *
 * Without this, 64 workers on two cpus took 40 to 70 times the cpu time of four for a
 * pipeline. Each searched again and again, and those that had work seemed to be stuck,
 * since they had no cpu, and were stopped by force. The price: where threads block
 * natively, and keep all that are awake, the next worker comes when the watch looks
 * (watch.h), and not at once.
 *
 * FENCES
 *
 * The heavy fence is a system call that interrupts other cpus. Where events come
 * from outside, workers sleep for microseconds, and two such calls for each sleep
 * cost more than full fences for all givers. So with the first source of events
 * both become full fences, for good:
 *
 *	O1 m_full = HALF: from now on light fences are full
 *	O2 ufence_heavy()
 *	O3 m_full = FULL: from now on heavy fences are only full
 *
 * A light fence that was free, since it has not seen O1, is before O2, as far as
 * its own thread goes. So its work is visible to each look after a heavy fence
 * that has seen O3. All others are two full fences, or as before.
 *
 * Orders: N7 and the load of m_parked that follows are sequentially consistent,
 * for the last case above. All else rests on the fences, and could be relaxed.
 *
 *	operation       who may call
 *	ws_seek_begin   a worker with nothing to do
 *	ws_seek_end     the same, when it has found work, or gives up. True: it
 *		        has passed a heavy fence, and some worker sleeps: N7
 *	ws_seek_alone   a worker that seeks: a hint that no other does
 *	ws_seek_park    a worker about to sleep, after upark_prepare()
 *	ws_seek_unpark  the same, awake again
 *	ws_seek_must_wake any thread, as giver. True: it must wake a sleeper
 *	ws_seek_parked  any thread: how many sleep, or are about to
 *	ws_seek_few     any thread: whether more than m_spare do
 *	ws_seek_full   any thread, once sleeps are frequent. Returns before O3
 *		        only if another is there
 */

#include "usched.h"
#include "private/fence.h"
#include "compiler.h"

#include <stdbool.h>

#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)	/* a test puts delays there */
#endif

struct ws_seek {
	int m_spare;		/* workers beyond the number of cpus */
	int m_parked;
	int m_seeking;
	int m_full;		/* below; grows */
};

/* Which fences are full: none, light fences, both. */
enum { WS_SEEK_FREE, WS_SEEK_HALF, WS_SEEK_FULL };

static inline void ws_seek_full(struct ws_seek *m)
{
	int none = WS_SEEK_FREE;

	if (!__atomic_compare_exchange_n(&m->m_full, &none, WS_SEEK_HALF,
			false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))	/* O1 */
		return;
	USCHED_RACE(seek_O2);
	ufence_heavy();							/* O2 */
	__atomic_store_n(&m->m_full, WS_SEEK_FULL, __ATOMIC_RELEASE);	/* O3 */
}

/* The fence of a giver. */
static inline void ws_seek_light(const struct ws_seek *m)
{
	if (unlikely(__atomic_load_n(&m->m_full, __ATOMIC_RELAXED)))
		ufence_full();
	else
		ufence_light();
}

/* The fence of a worker about to sleep, or that has found work. */
static inline void ws_seek_heavy(const struct ws_seek *m)
{
	if (__atomic_load_n(&m->m_full, __ATOMIC_ACQUIRE) == WS_SEEK_FULL)
		ufence_full();					/* pairs with O3 */
	else
		ufence_heavy();
}

static inline void ws_seek_begin(struct ws_seek *m)
{
	__atomic_fetch_add(&m->m_seeking, 1, __ATOMIC_SEQ_CST);	/* N1 */
}

static inline int ws_seek_parked(const struct ws_seek *m)
{
	return __atomic_load_n(&m->m_parked, __ATOMIC_SEQ_CST);
}

/* Returns whether a worker more should be awake, as far as cpus go. */
static inline bool ws_seek_few(const struct ws_seek *m)
{
	return ws_seek_parked(m) > m->m_spare;
}

static inline bool ws_seek_end(struct ws_seek *m)
{
	__atomic_fetch_sub(&m->m_seeking, 1, __ATOMIC_SEQ_CST);	/* N3 N7 */
	USCHED_RACE(seek_N7);
	if (!ws_seek_few(m))
		return false;
	ws_seek_heavy(m);
	return true;
}

static inline bool ws_seek_alone(const struct ws_seek *m)
{
	return __atomic_load_n(&m->m_seeking, __ATOMIC_RELAXED) == 1;
}

static inline void ws_seek_park(struct ws_seek *m)
{
	__atomic_fetch_add(&m->m_parked, 1, __ATOMIC_SEQ_CST);	/* N4 */
	USCHED_RACE(seek_N4);
	ws_seek_heavy(m);
}

static inline void ws_seek_unpark(struct ws_seek *m)
{
	__atomic_fetch_sub(&m->m_parked, 1, __ATOMIC_SEQ_CST);
}

static inline bool ws_seek_must_wake(const struct ws_seek *m)
{
	ws_seek_light(m);					/* G2 */
	USCHED_RACE(seek_G3);
	return unlikely(__atomic_load_n(&m->m_parked,
				__ATOMIC_RELAXED) > m->m_spare) &&	/* G3 */
	       !__atomic_load_n(&m->m_seeking, __ATOMIC_RELAXED);
}

#endif /* WS_SEEK_H */
