/* SPDX-License-Identifier: MIT */
/* search.h: a worker without threads searches, naps, sleeps. A part of ws.c. */

#ifndef WS_SEARCH_H
#define WS_SEARCH_H

/*
 * A worker that finds nothing to run searches for a while, and then sleeps, as
 * in seek.h. In between it naps, while other workers have work that comes and
 * goes. No worker sleeps with a thread that can run. The end is found as in
 * idle.h.
 *
 * Under virtual time a worker searches only once, since no time passes meanwhile.
 * If all others sleep, there is nothing to find, and it lets the clock jump.
 *
 * A worker for whose sources threads wait searches only once, and then sleeps in
 * a source: that is a look, and costs no more than looks. It looks at the source
 * before the search only if there is something to steal.
 *
 * A search looks at some workers, as many as their number has bits and four, and at none
 * if all others sleep. Before a sleep each worker that is awake is looked at, once, and
 * by a watch that is due.
 *
 * A searching worker sees within some microseconds that another is stuck
 * (theft.h). If no worker searches, some worker has to look, each WS_WATCH
 * milliseconds (watch.h):
 *
 *   - a sleeping worker, if another runs;
 *   - if none sleeps, each worker asks once in WS_RUN + 1 switches whether a
 *     look is due (choose.h). It asks whatever its own threads do: they may
 *     yield, or wake each other, until a stuck worker has done something;
 *   - if all sleep, none has to look, and ws_unwatched is set. The next worker
 *     that puts a thread in a slot or an inbox wakes a sleeper.
 *
 * W6. A thread that could be taken away, and waits behind a running thread,
 *     does so for no longer than two looks of a watch and two naps
 *     (WS_POLICY_NAP_MOST), unless all other workers compute, too. A sleeping
 *     worker looks each WS_WATCH milliseconds, a napping worker after each nap; of
 *     more than six workers at some, by chance, so that all come after some naps.
 *     While no worker sleeps or naps, each looks within WS_RUN + 1 switches
 *     after that time. A look may take others first: half of a queue, or 256
 *     threads. While the worker switches, choose W5 holds. A searching thief
 *     takes from a surplus that has lasted for the patience of the thief,
 *     WS_POLICY_MOST at most.
 *
 * REJECTED
 *
 * Looks after a number of switches instead of a time: too soon for threads that
 * yield at once, too late for threads that compute in between.
 *
 * No search while all others sleep: some other may be awake again within these 30 us.
 * Two threads that sleep for 100 us each, and share a mutex, took 1.2 times as long.
 *
 * Taking whatever is seen: a tree of 31 threads, for which one worker takes 90
 * ms, took 2.4 s with two workers, and takes 100 ms now. Without naps, 1.8
 * times the cpu time of that; without the notes of steal_policy J1, 1.4 times.
 */

#include "theft.h"

#define SEARCH		30000u	/* ns, if there is a spare cpu */
#define SEARCH_RELAX	16	/* between looks */

/*
 * Do all workers but the caller sleep, or all? Then no other has work: a worker that
 * is awake again says so before it runs a thread (ws_seek_unpark()), and as a giver finds
 * the caller (seek N5).
 */
static bool others_sleep(void)
{
	return ws_seek_parked(&all.s_seek) >= set->set_nr - 1;
}

static bool all_parked(void)
{
	return ws_seek_parked(&all.s_seek) == set->set_nr;
}

/* Returns whether a worker other than w has what a thief could take. */
static bool others_have_work(const struct ws_worker *w)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && (ws_deque_size(&v->w_deque) > 0 || queue_has(v)))
			return true;
	}
	return false;
}

/* Notes how often each worker has switched, and since when (watch U2, U8). */
static void remember_switches(void)
{
	unsigned now = now_ns();
	int i;

	for (i = 0; i < set->set_nr; i++)
		(void)ws_policy_stands(&worker(i)->w_observed,
				       switches_of(worker(i)), now);
}

/* Returns whether w has no thread to run, and no message. */
static bool has_nothing(struct ws_worker *w)
{
	return __atomic_load_n(&w->w_gate.g_slot, __ATOMIC_RELAXED) == NULL &&
	       ws_deque_size(&w->w_deque) == 0 &&
	       uproc_queue_len(&w->w_proc.p_queue) == 0 &&
	       ws_pinned_len(&w->w_pinned) == 0 &&
	       uinbox_empty(&w->w_proc.p_inbox) &&
	       !uwait_posted(&w->w_proc.p_waits) && !uproc_is_due(&w->w_proc);
}

/*
 * Returns whether w has something to run, or shall end. A thief may have moved
 * messages from the inbox to the queue.
 */
static bool must_return(struct ws_worker *w)
{
	return !has_nothing(w) || uproc_stopped(set);
}

/* Sleeps as a watch: for WS_WATCH at most, and then looks. */
static void sleep_as_watch(struct ws_worker *w)
{
	bool woken;

	if (w->w_quiet)
		remember_switches();				/* watch U2 */
	woken = uproc_sleep(&w->w_proc, WS_WATCH * UTIME_MS);	/* watch U3 */
	w->w_due = ws_watch_due(&all.s_watch) || !woken; /* so others need not */
	ws_watch_end(&all.s_watch);				/* watch U4 */
	w->w_quiet = !woken && has_nothing(w);
	if (woken && ws_seek_parked(&all.s_seek) > 1 &&
	    !ws_is_watched(&all.s_watch))
		wake_sleeper();		/* to watch instead */
}

/* Returns whether all workers sleep, so that none can get stuck. */
static bool all_sleep(struct ws_worker *w)
{
	if (!all_parked())
		return false;
	if (ws_is_watched(&all.s_watch))
		return true;		/* the watch will see */
	__atomic_store_n(&ws_unwatched, 1, __ATOMIC_SEQ_CST);
	TALLY(w, fences, 1);
	ufence_heavy();
	return all_parked();
}

/*
 * Returns whether w sleeps as a watch. While events come to it, it does so beside
 * other watches: then no worker need be woken to watch, whichever has an event.
 */
static bool watches(struct ws_worker *w)
{
	if (set->set_nr == 1)
		return false;
	if (!w->w_quiet && uwait_outside(&w->w_proc.p_waits)) {
		ws_watch_join(&all.s_watch);			/* watch U1 */
		return true;
	}
	return !all_sleep(w) && ws_watch_begin(&all.s_watch);	/* watch U1 */
}

/* Gives back memory, if w has slept for long. */
static void rest(struct ws_worker *w, struct uproc_rests *rests)
{
	ws_enter(w);
	uproc_rest(&w->w_proc, rests);
	ws_leave(w);
}

/* Sleeps until woken, as in seek.h, or as a watch. */
static void park(struct ws_worker *w, unsigned *vain, struct uproc_rests *rests)
{
	utime_ns ns = uproc_rest_in(&w->w_proc, rests);
	int *asleep = &w->w_proc.p_asleep;

	upark_prepare(asleep);					/* park S1 */
	TALLY(w, fences, 1);
	ws_seek_park(&all.s_seek);				/* park S2 */
	if ((must_return(w) || (ws_seek_few(&all.s_seek) &&	/* park S3 */
	     !all_parked() && others_have_work(w))) &&
	    upark_cancel(asleep)) {
		ws_seek_unpark(&all.s_seek);
		uproc_pause(vain);
		return;
	}
	if (watches(w))
		sleep_as_watch(w);				/* park S4 */
	else {
		(void)uproc_sleep(&w->w_proc, ns);		/* park S4 */
		w->w_quiet = false;
	}
	ws_seek_unpark(&all.s_seek);
	*vain = 0;
	if (has_nothing(w))
		rest(w, rests);
}

/* Returns whether a worker has something, and has not switched since then. */
static bool others_stand(const struct ws_worker *w, unsigned since)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && ws_policy_stood(&v->w_observed, since) &&
		    is_behind(v))
			return true;
	}
	return false;
}

/* Do threads of w wait for events from outside, or of some other workers? */
static bool any_waits_outside(const struct ws_worker *w)
{
	int nr = few_workers();
	int i;

	if (uwait_outside(&w->w_proc.p_waits))
		return true;
	for (i = 0; i < nr; i++)
		if (uwait_outside(&random_worker(w, i)->w_proc.p_waits))
			return true;
	return false;
}

/* Looks for work elsewhere, once. */
static struct uproc_thread *search_once(struct ws_worker *w, enum stuck stuck)
{
	return others_sleep() ? NULL : steal_round(w, stuck, true);
}

/*
 * Looks for work elsewhere: once, or, if there is a spare cpu, for a while.
 * After a nap it goes on only while a worker has something, and does not
 * switch.
 */
static struct uproc_thread *search(struct ws_worker *w, bool napped)
{
	unsigned most = napped ? WS_POLICY_FENCE_MOST : SEARCH;
	struct uproc_thread *t = search_once(w, w->w_due ? STUCK_ALL : STUCK_FEW);
	unsigned began = now_ns();
	int i;

	w->w_due = false;
	/* A sleep in a source is a look, and costs no more than looks. */
	if (!set->set_spare || set->set_nr == 1 || utime_is_virtual() ||
	    any_waits_outside(w))
		return t;
	while (t == NULL && !must_return(w) &&
	       ws_policy_age(now_ns(), began) < most &&
	       (!napped || others_stand(w, began))) {
		for (i = 0; i < SEARCH_RELAX; i++)
			uproc_relax();
		t = search_once(w, STUCK_NONE);
	}
	return t;
}

/*
 * Sums up the notes of other workers (steal_policy J1), to see whether any has
 * changed. 0 for a worker with events, which does not ask, and while there are
 * none.
 */
static unsigned drained_sum(const struct ws_worker *w)
{
	unsigned sum = 0;
	int i;

	if (uwait_outside(&w->w_proc.p_waits) || others_sleep())
		return 0;
	for (i = 0; i < set->set_nr; i++)
		if (worker(i) != w)
			sum += __atomic_load_n(&worker(i)->w_drained,
					       __ATOMIC_RELAXED);
	return sum;
}

/* Sleeps for a bounded time, and still counts as searching (steal_policy J5). */
static void nap(struct ws_worker *w)
{
	int *asleep = &w->w_proc.p_asleep;

	upark_prepare(asleep);						/* park S1 */
	if (must_return(w) && upark_cancel(asleep))			/* park S3 */
		return;
	(void)uproc_sleep(&w->w_proc, ws_policy_nap(&w->w_thief));	/* park S4 */
}

/*
 * Returns whether others have work, or have drained since, so that more work
 * may come. If there is none now, a single napping worker is enough.
 */
static bool should_nap(const struct ws_worker *w, unsigned since)
{
	if (others_have_work(w))
		return true;
	return !uwait_outside(&w->w_proc.p_waits) && ws_seek_alone(&all.s_seek) &&
	       (drained_sum(w) != since ||
		(w->w_thief.h_nap < WS_POLICY_NAP_MOST &&
		 others_stand(w, now_ns())));
}

/* Searches, and naps while work comes and goes. */
static struct uproc_thread *search_and_nap(struct ws_worker *w)
{
	unsigned since = drained_sum(w);
	struct uproc_thread *t = search(w, false);

	while (t == NULL && !must_return(w) && !others_sleep() &&
	       should_nap(w, since)) {
		since = drained_sum(w);
		nap(w);
		t = must_return(w) ? NULL : search(w, true);
	}
	return t;
}

/*
 * Finds a thread to run elsewhere, or sleeps. NULL: look at home again. Owner,
 * outside its section. *vain counts searches in vain since the last sleep. If
 * there are many, a post to this worker may be half-way, and its poster needs
 * the cpu.
 */
static struct uproc_thread *seek(struct ws_worker *w, unsigned *vain,
				 struct uproc_rests *rests)
{
	struct uproc_thread *t;
	unsigned began;
	bool more;

	if (uproc_may_jump(&w->w_proc) && !must_return(w)) {
		uproc_jump(&w->w_proc);
		return NULL;
	}
	began = now_ns();
	if (!w->w_due && ws_seek_parked(&all.s_seek) < all.s_seek.m_spare) {
		park(w, vain, rests);		/* each cpu has a worker */
		w->w_idle += now_ns() - began;
		return NULL;
	}
	if (uwait_outside(&w->w_proc.p_waits) && !others_sleep() &&
	    others_have_work(w)) {
		uwait_look_outside(&w->w_proc.p_waits);
		if (must_return(w))
			return NULL;
	}
	ws_policy_judge(&w->w_thief, began, w->w_mail);
	ws_seek_begin(&all.s_seek);
	t = search_and_nap(w);
	more = ws_seek_end(&all.s_seek);
	TALLY(w, fences, more);
	more = more && others_have_work(NULL);
	if (t == NULL && !must_return(w)) {
		ws_policy_calm(&w->w_thief);
		park(w, vain, rests);
	} else {
		if (more)
			wake_sleeper();
		if (t == NULL)
			uproc_pause(vain);
	}
	w->w_idle += now_ns() - began;
	return t;
}

#endif /* WS_SEARCH_H */
