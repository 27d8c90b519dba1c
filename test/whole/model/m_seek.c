/* SPDX-License-Identifier: MIT */
/* m_seek.c: scenarios of seek.h, with park.h and idle.h as in ws.c. */

/*
 * Things lie where all workers can take them. Workers seek a thing, and sleep;
 * other threads give things. Either a worker never looks again when it has
 * found a thing, as if the work never ended: then all things must have been
 * taken in the end. Or it looks again until all is over, as the idle count
 * says.
 *
 * A nap is a doze that always ends by itself, and the worker counts as seeking
 * meanwhile. A thing that is given meanwhile wakes no worker: the worker finds
 * it after the nap. The worker that naps counts as idle, although it has not
 * looked after a fence. So the giver keeps a thing, as the owner of a deque
 * does: the giver is not idle until all things are taken, if need be by the
 * giver itself.
 */
#include "model.h"
#define UFENCE_MODEL
#include "seek.h"
#include "idle.h"

#define WORKERS	2
#define THINGS	2

static struct {
	struct worker {
		int p_asleep;
		int p_got;
	} worker[WORKERS];
	struct ws_seek seek;
	int nr;				/* workers */
	int idle;			/* see idle.h */
	int dozes;			/* a worker may wake by itself */
	int stop;			/* atomic */
	int there[THINGS];		/* atomic: the thing can be taken */
	int data[THINGS];		/* plain, written before that */
	int given[THINGS];
	int own;			/* taken by the giver */
} s;

static bool stopped(void)
{
	return __atomic_load_n(&s.stop, __ATOMIC_SEQ_CST) != 0;
}

/* Looks as a worker looks at the deques of the others. */
static bool somebody_has_work(void)
{
	int i;

	for (i = 0; i < THINGS; i++)
		if (__atomic_load_n(&s.there[i], __ATOMIC_RELAXED))
			return true;
	return false;
}

static bool take(struct worker *w)
{
	int i;

	for (i = 0; i < THINGS; i++)
		if (__atomic_load_n(&s.there[i], __ATOMIC_RELAXED) &&
		    __atomic_exchange_n(&s.there[i], 0, __ATOMIC_ACQUIRE)) {
			MUST(s.data[i]++ == 5);
			w->p_got++;
			return true;
		}
	return false;
}

/* Waking. The look is sequentially consistent in ws.c: see model.c. */

static void rouse(void)
{
	int i;

	for (i = 0; i < s.nr; i++) {
		int *asleep = &s.worker[i].p_asleep;

		if (__atomic_load_n(asleep, __ATOMIC_RELAXED)) {
			uidle_wake(&s.idle, asleep);
			return;
		}
	}
}

static void give(int i)
{
	s.data[i] = 5;
	s.given[i] = 1;
	__atomic_store_n(&s.there[i], 1, __ATOMIC_RELEASE);	/* seek G1 */
	if (ws_seek_must_wake(&s.seek))				/* seek G2, G3 */
		rouse();					/* seek G4 */
}

/* Workers. */

static void park(struct worker *w, bool doze)
{
	upark_prepare(&w->p_asleep);				/* park S1 */
	ws_seek_park(&s.seek);					/* seek N4 */
	if ((stopped() || (ws_seek_few(&s.seek) && somebody_has_work())) && /* seek N5 */
	    upark_cancel(&w->p_asleep))
		;
	else if (doze)
		(void)uidle_doze(&s.idle, s.nr, &w->p_asleep, 1);
	else
		uidle_sleep(&s.idle, s.nr, &w->p_asleep);	/* seek N6 */
	ws_seek_unpark(&s.seek);
}

/* Sleeps for a while. No wake is needed to end it. */
static void nap(struct worker *w)
{
	upark_prepare(&w->p_asleep);				/* park S1 */
	if (stopped() && upark_cancel(&w->p_asleep))		/* park S3 */
		return;
	if (__atomic_add_fetch(&s.idle, 1, __ATOMIC_SEQ_CST) == s.nr)
		upark_futex_wake(&s.idle);			/* idle D1 */
	if (__atomic_load_n(&w->p_asleep, __ATOMIC_SEQ_CST) != 0)
		uidle_wake(&s.idle, &w->p_asleep);
}

/* Naps, and looks; but does not look again before it sleeps. */
static bool seek_and_nap(struct worker *w)
{
	bool got, more;

	ws_seek_begin(&s.seek);					/* seek N1 */
	got = take(w);						/* seek N2 */
	if (!got && !stopped()) {
		nap(w);
		got = take(w);
	}
	more = ws_seek_end(&s.seek) && somebody_has_work();	/* seek N3, N7 */
	if (!got && !stopped())
		park(w, false);
	else if (more)
		rouse();
	return got;
}

static bool seek(struct worker *w, bool doze)
{
	bool got, more;

	if (ws_seek_parked(&s.seek) < s.seek.m_spare) {
		park(w, doze);
		return false;
	}
	ws_seek_begin(&s.seek);					/* seek N1 */
	got = take(w);						/* seek N2 */
	more = ws_seek_end(&s.seek) && somebody_has_work();	/* seek N3, N7 */
	if (!got && !stopped())
		park(w, doze);
	else if (more)
		rouse();
	return got;
}

/* Runs what it has found forever: it does not look again. */
static void busy(int nr)
{
	do
		model_turn(1);
	while (!seek(&s.worker[nr], false));
}

static void quick(int nr, bool doze)
{
	do {
		model_turn(1);
		(void)seek(&s.worker[nr], doze);
	} while (!stopped());
}

/* Do the same as busy() and quick(), with naps. */
static void busy_naps(int nr)
{
	do
		model_turn(1);
	while (!seek_and_nap(&s.worker[nr]));
}

static void quick_naps(int nr)
{
	do {
		model_turn(1);
		(void)seek_and_nap(&s.worker[nr]);
	} while (!stopped());
}

static void zero_naps(void)	{ busy_naps(0); }
static void zero_quick_naps(void)	{ quick_naps(0); }
static void zero_busy(void)	{ busy(0); }
static void one_busy(void)	{ busy(1); }
static void zero_quick(void)	{ quick(0, false); }
static void one_quick(void)	{ quick(1, false); }
static void zero_dozes(void)	{ quick(0, true); }

/* From now on both fences are full. */
static void fences_fill(void)		{ ws_seek_full(&s.seek); }

static void give_one(void)	{ give(0); }
static void give_other(void)	{ give(1); }
static void give_two(void)	{ give(0); give(1); }

/* After the last gift: waits for the end, like uproc_fini(). */
static void finish(void)
{
	int got = s.own;
	int i;

	uidle_release(&s.idle);
	uidle_wait(&s.idle, s.nr);
	for (i = 0; i < s.nr; i++)
		got += s.worker[i].p_got;
	MUST(got == s.given[0] + s.given[1]);
	if (!s.dozes)
		s.idle = 77;		/* no worker counts any more */
	__atomic_store_n(&s.stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < s.nr; i++)
		(void)upark_wake(&s.worker[i].p_asleep);
}

/* Takes all things that are left, as an owner runs them. */
static void take_rest(void)
{
	int i;

	for (i = 0; i < THINGS; i++)
		if (__atomic_exchange_n(&s.there[i], 0, __ATOMIC_ACQUIRE))
			s.own++;
}

static void own_one_finish(void)	{ give_one(); take_rest(); finish(); }
static void own_two_finish(void)	{ give_two(); take_rest(); finish(); }
static void give_one_finish(void)	{ give_one(); finish(); }
static void give_two_finish(void)	{ give_two(); finish(); }

static void init(int nr, bool free)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = free ? UFENCE_UNDECIDED : UFENCE_BOTH_FULL;
	MUST(!free || ufence_init() == 0);
#else
	(void)free;
#endif
	s.nr   = nr;
	s.idle = -1;			/* the giver has a hold */
	NAME(s.worker[0].p_asleep);
	NAME(s.worker[1].p_asleep);
	NAME(s.seek.m_parked);
	NAME(s.seek.m_seeking);
	NAME(s.there[0]);
	NAME(s.there[1]);
	NAME(s.idle);
	NAME(s.stop);
}

static void doze_full(void)	{ init(1, false); s.dozes = 1; }
static void doze_free(void)	{ init(1, true); s.dozes = 1; }
static void doze_two_full(void)	{ init(2, false); s.dozes = 1; }
static void doze_two_free(void)	{ init(2, true); s.dozes = 1; }
static void one_full(void)	{ init(1, false); }
static void two_full(void)	{ init(2, false); }
static void one_free(void)	{ init(1, true); }
static void spare_full(void)	{ init(2, false); s.seek.m_spare = 1; }
static void spare_free(void)	{ init(2, true); s.seek.m_spare = 1; }
static void two_free(void)	{ init(2, true); }

/* Each thing was taken once, and the counts are right. */
static void done(void)
{
	MUST(!somebody_has_work());
	MUST(s.worker[0].p_got + s.worker[1].p_got + s.own ==
	     s.given[0] + s.given[1]);
	MUST(s.seek.m_parked == 0 && s.seek.m_seeking == 0);
}

#define TWICE(name, quick, most, membarrier, all, spurious, init, ...)	\
	{ "seek: " name, quick, most, spurious,				\
	  &s, sizeof s, init##_full, { __VA_ARGS__ }, done },		\
	{ "seek, membarrier: " name, membarrier, all, spurious,		\
	  &s, sizeof s, init##_free, { __VA_ARGS__ }, done }

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	TWICE("one thing, one worker", ANY, ANY, ANY, ANY, 0, one,
	      zero_busy, give_one),
	TWICE("two things, two workers", 1, 3, 1, 2, 0, two,
	      zero_busy, one_busy, give_two),
	TWICE("two who give", 1, 2, NOT, 0, 0, two,
	      zero_busy, one_busy, give_one, give_other),
	TWICE("one thing, one worker, and fences become full", 2, ANY, 2, 3,
	      0, one, zero_busy, give_one, fences_fill),
	TWICE("one worker, and the end", 2, ANY, 2, 3, 0, one,
	      zero_quick, give_one_finish),
	TWICE("one who dozes, and the end", 2, ANY, 2, 3, 1, doze,
	      zero_dozes, give_one_finish),
	TWICE("two workers, and the end", NOT, 2, NOT, 1, 0, two,
	      zero_quick, one_quick, give_two_finish),
	TWICE("two workers on one cpu, and the end", 1, 2, NOT, 1, 0, spare,
	      zero_quick, one_quick, give_one_finish),
	TWICE("one who naps", ANY, ANY, ANY, ANY, 0, one, zero_naps, give_one),
	TWICE("one naps, one sleeps", 1, 2, 1, 2, 0, two,
	      zero_naps, one_busy, give_two),
	TWICE("one who naps, and the end", 2, 3, 2, 3, 1, doze,
	      zero_quick_naps, own_one_finish),
	TWICE("one naps, one sleeps, and the end", NOT, 2, NOT, 1, 1, doze_two,
	      zero_quick_naps, one_quick, own_two_finish),
	TWICE("one dozes, one sleeps, and the end", NOT, 1, NOT, 1, 1, doze_two,
	      zero_dozes, one_quick, give_one_finish),
	{ 0 }
};
