/* SPDX-License-Identifier: MIT */
/* walk.c: what the records of a copy mean, in the order of time. */

#include "walk.h"

#include <stdlib.h>
#include <string.h>

/* Threads. */

static size_t place_of(const struct walk *w, uint64_t at)
{
	size_t i = (size_t)(at * 0x9e3779b97f4a7c15u >> 20) & (w->w_room - 1);

	while (w->w_thread[i].wt_at != 0 && w->w_thread[i].wt_at != at)
		i = (i + 1) & (w->w_room - 1);
	return i;
}

struct walk_thread *walk_thread(const struct walk *w, uint64_t at)
{
	struct walk_thread *t = &w->w_thread[place_of(w, at)];

	return at != 0 && t->wt_at != 0 ? t : NULL;
}

static bool grow(struct walk *w)
{
	struct walk_thread *was = w->w_thread;
	size_t i, room = w->w_room;

	w->w_thread = calloc(room * 2, sizeof *was);
	if (w->w_thread == NULL) {
		w->w_thread = was;
		return false;
	}
	w->w_room = room * 2;
	for (i = 0; i < room; i++)
		if (was[i].wt_at != 0)
			w->w_thread[place_of(w, was[i].wt_at)] = was[i];
	free(was);
	return true;
}

static void fresh(struct walk *w, struct walk_thread *t, uint64_t at)
{
	memset(t, 0, sizeof *t);
	t->wt_at   = at;
	t->wt_nr   = ++w->w_last_nr;
	t->wt_ring = t->wt_by_ring = t->wt_early = -1;
	t->wt_off  = t->wt_woken = t->wt_until = WALK_NEVER;
}

/* Returns the thread at this address, which is new if it was not met. */
static struct walk_thread *thread_at(struct walk *w, uint64_t at)
{
	struct walk_thread *t;

	if (w->w_threads * 2 >= w->w_room && !grow(w))
		return NULL;
	t = &w->w_thread[place_of(w, at)];
	if (t->wt_at == 0) {
		fresh(w, t, at);
		w->w_threads++;
	}
	return t;
}

/* Records. */

static double time_of(const struct walk *w, const struct uview_record *e)
{
	return (double)(e->ve_word[0] >> 16) * w->w_copy->vf_rate;
}

static struct walk_run *running(struct walk_ring *l)
{
	return l->wl_depth > 0 ? &l->wl_run[l->wl_depth - 1] : NULL;
}

static bool is_wait(const struct walk_thread *t)
{
	return t->wt_off >= 0 && t->wt_reason != UVIEW_YIELDED &&
	       t->wt_reason != UVIEW_ENDED;
}

/* The wait of t is over. */
static void wait_over(struct walk *w, struct walk_thread *t, double to)
{
	if (is_wait(t) && !t->wt_given && w->w_wait != NULL)
		w->w_wait(w, t, to > t->wt_off ? to : t->wt_off, false);
	t->wt_given = true;
}

static void see_wake(struct walk *w, int ring, double time, uint64_t at,
		     bool by_thread)
{
	struct walk_thread *t = at != 0 ? thread_at(w, at) : NULL;
	const struct walk_run *r = running(&w->w_ring[ring]);
	double by_at = r != NULL && r->wr_moved && r->wr_to < time ?
		r->wr_to : time;

	if (by_thread && r != NULL)
		running(&w->w_ring[ring])->wr_wakes++;
	if (t == NULL || t->wt_woken >= 0)
		return;			/* it can run already */
	t->wt_due = false;
	if (t->wt_ring >= 0) {		/* it is about to stop, perhaps */
		t->wt_early    = by_thread ? ring : -1;
		t->wt_early_by = by_thread && r != NULL ? r->wr_at : 0;
		t->wt_early_at = by_at;
		return;
	}
	t->wt_by_at   = by_thread ? by_at : t->wt_early_at;
	if ((!by_thread || r == NULL) && t->wt_until >= 0 && t->wt_until < time) {
		time = t->wt_until > t->wt_off ? t->wt_until : t->wt_off;
		t->wt_due = true;
	}
	t->wt_woken   = time;
	t->wt_by_ring = by_thread ? ring : t->wt_early;
	t->wt_by      = !by_thread ? t->wt_early_by : r != NULL ? r->wr_at : 0;
	wait_over(w, t, time);
}

/* t, which seems to run, runs elsewhere from this time on. */
static void move(struct walk *w, const struct walk_thread *t, double time)
{
	struct walk_ring *l = &w->w_ring[t->wt_ring];
	int i;

	for (i = 0; i < l->wl_depth; i++)
		if (l->wl_run[i].wr_at == t->wt_at && !l->wl_run[i].wr_moved) {
			l->wl_run[i].wr_moved = true;
			l->wl_run[i].wr_to = time;
		}
}

static void see_run(struct walk *w, int ring, double time,
		    const struct uview_record *e)
{
	struct walk_ring *l = &w->w_ring[ring];
	struct walk_thread *t = thread_at(w, walk_at(e));
	struct walk_run *r;

	if (t == NULL || walk_at(e) == 0)
		return;
	if (t->wt_ring >= 0)
		move(w, t, time);
	wait_over(w, t, t->wt_woken >= t->wt_off ? t->wt_woken : time);
	if (l->wl_depth == WALK_DEPTH)
		l->wl_depth--;
	r = &l->wl_run[l->wl_depth++];
	memset(r, 0, sizeof *r);
	r->wr_thread  = t;
	r->wr_at      = walk_at(e);
	r->wr_f       = t->wt_f = walk_id(e);
	r->wr_ring    = t->wt_ring = ring;
	r->wr_depth   = l->wl_depth - 1;
	r->wr_from    = time;
	r->wr_ready   = l->wl_ready = uview_ready(walk_arg(e));
	r->wr_off     = w->w_copy->vf_flags & UVIEW_KNOWS_CPU ? 0 : WALK_NEVER;
	r->wr_turns   = 1;
	r->wr_woken   = t->wt_woken;
	r->wr_by_ring = t->wt_woken >= 0 ? t->wt_by_ring : -1;
	r->wr_by      = t->wt_woken >= 0 ? t->wt_by : 0;
	r->wr_by_at   = t->wt_by_at;
	r->wr_latency = t->wt_woken >= 0 ? time - t->wt_woken : WALK_NEVER;
	r->wr_due     = t->wt_woken >= 0 && t->wt_due;
	r->wr_gave_way = t->wt_woken >= 0 && t->wt_reason == UVIEW_YIELDED;
	r->wr_until   = WALK_NEVER;
	t->wt_off = t->wt_woken = WALK_NEVER;
	t->wt_due = false;
	t->wt_early = -1;
	t->wt_early_by = 0;
}

/* Gives away a run. */
static void run_over(struct walk *w, struct walk_run *r, double time)
{
	r->wr_to = time;
	r->wr_thread = walk_thread(w, r->wr_at);
	if (w->w_run != NULL && r->wr_thread != NULL)
		w->w_run(w, r);
}

/* Notes why t has stopped, and whether a wait goes on. */
static void stop_note(struct walk_thread *t, struct walk_run *r, double time)
{
	if (r->wr_reason == UVIEW_AGAIN && t->wt_reason == UVIEW_WAITS) {
		r->wr_reason = UVIEW_WAITS;
		r->wr_kind   = t->wt_kind;
		r->wr_object = t->wt_object;
		r->wr_holder = t->wt_holder;
		r->wr_until  = t->wt_until;
	} else if (r->wr_reason == UVIEW_AGAIN)
		r->wr_reason = UVIEW_BLOCKED;
	t->wt_reason = r->wr_reason;
	t->wt_stack  = r->wr_stack;
	t->wt_kind   = r->wr_kind;
	t->wt_object = r->wr_object;
	t->wt_holder = r->wr_holder;
	t->wt_until  = r->wr_reason == UVIEW_WAITS ? r->wr_until : WALK_NEVER;
	t->wt_off  = time;
	t->wt_ring = -1;
	t->wt_given = false;
}

static bool is_running(const struct walk_ring *l, uint64_t at)
{
	int i = l->wl_depth;

	while (i > 0 && l->wl_run[i - 1].wr_at != at)
		i--;
	return i > 0;
}

static void see_stop(struct walk *w, int ring, double time,
		     const struct uview_record *e)
{
	struct walk_ring *l = &w->w_ring[ring];
	struct walk_run *r = running(l);
	struct walk_thread *t;

	if (!is_running(l, walk_at(e)) ||
	    (t = walk_thread(w, walk_at(e))) == NULL)
		return;
	for (; r->wr_at != walk_at(e); r = running(l))	/* no STOP was noted */
		l->wl_depth--;
	l->wl_depth--;
	r->wr_reason = walk_arg(e);
	r->wr_stack  = walk_id(e);
	if (r->wr_reason != UVIEW_WAITS) {
		r->wr_kind   = 0;
		r->wr_object = r->wr_holder = 0;
	}
	if (r->wr_moved) {
		run_over(w, r, r->wr_to);
		return;
	}
	stop_note(t, r, time);
	run_over(w, r, time);
	if (r->wr_reason == UVIEW_YIELDED) {
		t->wt_woken   = time;
		t->wt_by_ring = -1;
		t->wt_by      = 0;
	} else if (r->wr_reason == UVIEW_ENDED)
		fresh(w, t, t->wt_at);
}

/* Turns. */

/* Returns whether e is about turns, which it adds to those of the ring. */
static bool see_turns(struct walk *w, struct walk_ring *l, double time,
		      const struct uview_record *e)
{
	unsigned arg = walk_kind(e) == UVIEW_NOTE ? walk_arg(e) : UVIEW_NAMED;
	struct walk_turns *u;

	if (arg == UVIEW_TURN && l->wl_takers < WALK_TAKERS) {
		u = &l->wl_turns[l->wl_takers++];
		memset(u, 0, sizeof *u);
		u->wu_at   = walk_at(e);
		u->wu_f    = walk_id(e);
		u->wu_from = u->wu_last = time;
		return true;
	}
	if (l->wl_takers == 0)
		return arg >= UVIEW_TURN && arg <= UVIEW_TURN_LAST;
	u = &l->wl_turns[l->wl_takers - 1];
	if (arg == UVIEW_TURNS) {
		u->wu_nr  = uview_turns_nr(e->ve_word[1]);
		u->wu_ran = (double)uview_turns_ticks(e->ve_word[1]) *
			w->w_copy->vf_rate;
	} else if (arg == UVIEW_TURN_LAST)
		u->wu_last = (double)e->ve_word[1] * w->w_copy->vf_rate;
	return arg >= UVIEW_TURN && arg <= UVIEW_TURN_LAST;
}

/* Gives the turns of u away as a run, which begins at a time. */
static void turns_give(struct walk *w, int ring, const struct walk_turns *u,
		       double from, double ran, double end)
{
	struct walk_thread *t = thread_at(w, u->wu_at);
	struct walk_run r = {
		.wr_at = u->wu_at, .wr_f = u->wu_f, .wr_ring = ring,
		.wr_depth = w->w_ring[ring].wl_depth, .wr_from = from,
		.wr_latency = WALK_NEVER, .wr_woken = WALK_NEVER,
		.wr_by_ring = -1, .wr_reason = UVIEW_YIELDED,
		.wr_ready = w->w_ring[ring].wl_ready, .wr_until = WALK_NEVER,
		.wr_off = w->w_copy->vf_flags & UVIEW_KNOWS_CPU ? 0 : WALK_NEVER,
		.wr_turns = u->wu_nr, .wr_turns_to = end,
		.wr_turns_from = w->w_ring[ring].wl_turns[0].wu_from
	};

	if (t == NULL || u->wu_at == 0)
		return;
	if (t->wt_ring < 0 && t->wt_off < u->wu_last) {	/* it is not elsewhere */
		wait_over(w, t, u->wu_from);
		t->wt_f      = u->wu_f;
		t->wt_reason = UVIEW_YIELDED;
		t->wt_off    = t->wt_woken = u->wu_last;
		t->wt_by_ring = t->wt_early = -1;
		t->wt_by     = 0;
		t->wt_given  = false;
	}
	run_over(w, &r, from + ran);
}

/* The turns of a ring are over. */
static void turns_over(struct walk *w, int ring, double end)
{
	struct walk_ring *l = &w->w_ring[ring];
	double at = l->wl_turns[0].wu_from, sum = 0, scale;
	int i;

	for (i = 0; i < l->wl_takers; i++)
		sum += l->wl_turns[i].wu_ran;
	scale = sum > end - at ? (end - at) / sum : 1;
	for (i = 0; i < l->wl_takers; i++) {
		double ran = l->wl_turns[i].wu_ran * scale;

		if (l->wl_turns[i].wu_nr != 0 && ran >= 0)
			turns_give(w, ring, &l->wl_turns[i], at, ran, end);
		at += ran;
	}
	l->wl_takers = 0;
}

/* A ring ends with turns: the last of them goes on, if its thread does. */
static void turns_rest(struct walk *w, int ring)
{
	struct walk_ring *l = &w->w_ring[ring];
	struct walk_turns last = l->wl_turns[0];
	struct uview_record e;
	int i;

	for (i = 1; i < l->wl_takers; i++)
		if (l->wl_turns[i].wu_last > last.wu_last)
			last = l->wl_turns[i];
	if (l->wl_takers == 0)
		return;
	turns_over(w, ring, last.wu_last);
	if (w->w_rings[ring].vr_state != 1)
		return;
	e.ve_word[0] = uview_ready_code(l->wl_ready);
	e.ve_word[1] = last.wu_at | (uint64_t)last.wu_f << 48;
	see_run(w, ring, last.wu_last, &e);
}

/* Records about the thread that runs. */
static void see_running(struct walk *w, int ring, const struct uview_record *e)
{
	struct walk_run *r = running(&w->w_ring[ring]);
	struct walk_thread *t;

	switch (walk_kind(e)) {
	case UVIEW_WAIT:
		if (r != NULL) {
			r->wr_kind   = walk_id(e);
			r->wr_object = walk_at(e);
			r->wr_holder = 0;
			r->wr_until  = WALK_NEVER;
		}
		break;
	case UVIEW_LOST:
		if (r != NULL)
			r->wr_lost += walk_arg(e);
		break;
	case UVIEW_NOTE:
		if (walk_arg(e) == UVIEW_HOLDER && r != NULL)
			r->wr_holder = walk_at(e);
		else if (walk_arg(e) == UVIEW_DEADLINE && r != NULL)
			r->wr_until = (double)walk_at(e);
		else if (walk_arg(e) == UVIEW_OFF && r != NULL) {
			r->wr_off = uview_off_ns(e->ve_word[1]) ==
				UVIEW_OFF_UNKNOWN ? WALK_NEVER :
				(double)uview_off_ns(e->ve_word[1]);
			r->wr_sleeps = uview_off_sleeps(e->ve_word[1]);
		} else if (walk_arg(e) == UVIEW_NAMED &&
			 (t = walk_thread(w, walk_at(e))) != NULL)
			t->wt_name = walk_id(e);
		break;
	}
}

static void see(struct walk *w, int ring, const struct uview_record *e)
{
	double time = time_of(w, e);
	unsigned kind = walk_kind(e);

	if (see_turns(w, &w->w_ring[ring], time, e))
		return;
	if (w->w_ring[ring].wl_takers != 0)
		turns_over(w, ring, time);
	switch (kind) {
	case UVIEW_RUN:
		see_run(w, ring, time, e);
		return;
	case UVIEW_STOP:
		see_stop(w, ring, time, e);
		return;
	case UVIEW_WAKE:
		if (walk_arg(e) != UVIEW_TASKS)
			see_wake(w, ring, time, walk_at(e),
				 walk_arg(e) == UVIEW_BY_THREAD);
		return;
	case UVIEW_POST:
		see_wake(w, ring, time, walk_at(e), true);
		return;
	case UVIEW_WAIT: case UVIEW_LOST:
		see_running(w, ring, e);
		return;
	case UVIEW_NOTE:
		see_running(w, ring, e);
		break;
	case UVIEW_PARK:
		w->w_ring[ring].wl_parked = true;
		w->w_ring[ring].wl_park   = time;
		w->w_ring[ring].wl_until  = e->ve_word[1] + 1 != 0 ?
			(double)e->ve_word[1] : WALK_NEVER;
		break;
	}
	if (w->w_note != NULL)
		w->w_note(w, ring, time, e);
	if (kind == UVIEW_UNPARK)
		w->w_ring[ring].wl_parked = false;
}

/* Returns the ring whose next record is the oldest, or -1; *until: of others. */
static int oldest(const struct walk *w, uint64_t *until)
{
	uint64_t first = UINT64_MAX;
	int i, ring = -1;

	*until = UINT64_MAX;
	for (i = 0; i < w->w_ring_nr; i++) {
		const struct walk_ring *l = &w->w_ring[i];
		uint64_t time;

		if (l->wl_next == l->wl_nr)
			continue;
		time = l->wl_at[l->wl_next].ve_word[0] >> 16;
		if (time < first) {
			*until = first;
			first = time;
			ring  = i;
		} else if (time < *until)
			*until = time;
	}
	return ring;
}

/* Gives away the runs and waits that have not ended. */
static void rest(struct walk *w)
{
	size_t i;
	int k;

	for (k = 0; k < w->w_ring_nr; k++) {
		struct walk_ring *l = &w->w_ring[k];
		struct walk_run *r;

		turns_rest(w, k);
		for (; (r = running(l)) != NULL; l->wl_depth--) {
			r->wr_open = !r->wr_moved;
			run_over(w, r, r->wr_moved ? r->wr_to : w->w_end);
		}
	}
	for (i = 0; i < w->w_room; i++) {
		struct walk_thread *t = &w->w_thread[i];

		if (t->wt_at != 0 && t->wt_ring < 0 && is_wait(t) &&
		    !t->wt_given && w->w_wait != NULL)
			w->w_wait(w, t, w->w_end, true);
	}
}

bool walk(struct walk *w, const struct uview_file *copy)
{
	uint64_t until;
	int i;

	w->w_copy    = copy;
	w->w_rings   = uview_part_at(copy, UVIEW_PART_RINGS);
	w->w_ring_nr = (int)copy->vf_part[UVIEW_PART_RINGS].vp_nr;
	w->w_end     = (double)(int64_t)(copy->vf_end - copy->vf_ns);
	w->w_room    = 1024;
	w->w_thread  = calloc(w->w_room, sizeof *w->w_thread);
	if (w->w_thread == NULL)
		return false;
	for (i = 0; i < w->w_ring_nr; i++) {
		w->w_ring[i].wl_at = uview_records(copy, &w->w_rings[i]);
		w->w_ring[i].wl_nr = w->w_rings[i].vr_head;
	}
	while ((i = oldest(w, &until)) >= 0) {
		struct walk_ring *l = &w->w_ring[i];

		do
			see(w, i, &l->wl_at[l->wl_next++]);
		while (l->wl_next < l->wl_nr &&
		       l->wl_at[l->wl_next].ve_word[0] >> 16 <= until);
	}
	rest(w);
	return true;
}

void walk_end(struct walk *w)
{
	free(w->w_thread);
}
