/* SPDX-License-Identifier: MIT */
/* facts.c: what a copy says of runs, waits, sleeps and queues, in tables. */

#include "facts.h"
#include "out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables. */

/* Makes room for one more entry. False: there is no memory. */
static bool room(struct facts *f, void **table, size_t nr, size_t each)
{
	void *more;

	if ((nr & (nr - 1)) != 0 || (nr != 0 && nr < 1024))
		return true;			/* sizes are powers of two */
	more = realloc(*table, (nr == 0 ? 1024 : nr * 2) * each);
	if (more == NULL) {
		f->f_full = true;
		return false;
	}
	*table = more;
	return true;
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

static void see_run(struct walk *w, const struct walk_run *r)
{
	struct facts *f = w->w_arg;
	struct fact_run *to;

	if (r->wr_depth != 0 || r->wr_to < f->f_from || r->wr_to < r->wr_from ||
	    !room(f, (void **)&f->f_run, f->f_runs, sizeof *f->f_run))
		return;
	to = &f->f_run[f->f_runs++];
	*to = (struct fact_run){
		.from = later(r->wr_from, f->f_from), .to = r->wr_to,
		.could = r->wr_latency >= 0 ? r->wr_from - r->wr_latency : WALK_NEVER,
		.off = r->wr_off, .by_at = r->wr_by_at,
		.turns_from = r->wr_turns_from, .turns_to = r->wr_turns_to,
		.turns = r->wr_turns, .at = r->wr_at, .by = r->wr_by,
		.object = r->wr_object, .f = r->wr_f, .kind = r->wr_kind,
		.reason = r->wr_open ? (unsigned)UVIEW_RUNS : r->wr_reason,
		.stack = r->wr_stack, .ready = r->wr_ready, .lost = r->wr_lost,
		.sleeps = r->wr_sleeps, .wakes = r->wr_wakes, .ring = r->wr_ring,
		.by_ring = r->wr_by_ring, .due = r->wr_due,
		.gave_way = r->wr_gave_way, .open = r->wr_open
	};
}

static void see_wait(struct walk *w, const struct walk_thread *t, double to,
		     bool open)
{
	struct facts *f = w->w_arg;

	if (to < f->f_from || !room(f, (void **)&f->f_wait, f->f_waits,
				    sizeof *f->f_wait))
		return;
	f->f_wait[f->f_waits++] = (struct fact_wait){
		.from = later(t->wt_off, f->f_from), .to = to, .at = t->wt_at,
		.by = open ? 0 : t->wt_by, .object = t->wt_object,
		.holder = t->wt_holder, .f = t->wt_f,
		.kind = t->wt_reason == UVIEW_WAITS ? t->wt_kind : 0,
		.stack = t->wt_stack, .open = open, .due = t->wt_due,
		.timed = t->wt_until >= 0
	};
}

static void see_note(struct walk *w, int ring, double time,
		     const struct uview_record *e)
{
	struct facts *f = w->w_arg;
	const struct walk_ring *l = &w->w_ring[ring];

	if (walk_kind(e) == UVIEW_UNPARK && l->wl_parked && time > f->f_from &&
	    room(f, (void **)&f->f_sleep, f->f_sleeps, sizeof *f->f_sleep))
		f->f_sleep[f->f_sleeps++] = (struct fact_sleep){
			later(l->wl_park, f->f_from), time, l->wl_until, ring
		};
	if (walk_kind(e) == UVIEW_NOTE && walk_arg(e) == UVIEW_QUEUE &&
	    l->wl_next < l->wl_nr &&
	    room(f, (void **)&f->f_look, f->f_looks, sizeof *f->f_look)) {
		const struct uview_record *next = &l->wl_at[l->wl_next];

		if (walk_kind(next) == UVIEW_NOTE && walk_arg(next) == UVIEW_LENGTH)
			f->f_look[f->f_looks++] = (struct fact_look){
				time, walk_at(e),
				uview_queue_length(next->ve_word[1]),
				uview_queue_taken(next->ve_word[1])
			};
	}
}

/* Orders. */

#define COMPARE(a, b)	do {						\
	if ((a) != (b))							\
		return (a) < (b) ? -1 : 1;				\
} while (0)

static int by_ring(const void *a, const void *b)
{
	const struct fact_run *x = a, *y = b;

	COMPARE(x->ring, y->ring);
	COMPARE(x->from, y->from);
	COMPARE(x->to, y->to);
	return 0;
}

static int by_object(const void *a, const void *b)
{
	const struct fact_wait *x = a, *y = b;

	COMPARE(x->kind, y->kind);
	COMPARE(x->object, y->object);
	COMPARE(x->from, y->from);
	return 0;
}

static int by_queue(const void *a, const void *b)
{
	const struct fact_look *x = a, *y = b;

	COMPARE(x->object, y->object);
	COMPARE(x->at, y->at);
	COMPARE(x->length, y->length);		/* it begins empty */
	return 0;
}

static const struct fact_run *sorted;	/* for by_thread() */

static int by_thread(const void *a, const void *b)
{
	const struct fact_run *x = &sorted[*(const size_t *)a],
		*y = &sorted[*(const size_t *)b];

	COMPARE(x->at, y->at);
	COMPARE(x->from, y->from);
	COMPARE(x->to, y->to);
	return 0;
}

static void sort(void *table, size_t nr, size_t each,
		 int (*order)(const void *, const void *))
{
	if (nr > 1)
		qsort(table, nr, each, order);
}

static bool arrange(struct facts *f)
{
	size_t i, ring = 0;

	sort(f->f_run, f->f_runs, sizeof *f->f_run, by_ring);
	sort(f->f_wait, f->f_waits, sizeof *f->f_wait, by_object);
	sort(f->f_look, f->f_looks, sizeof *f->f_look, by_queue);
	f->f_of_thread = calloc(f->f_runs + 1, sizeof *f->f_of_thread);
	if (f->f_of_thread == NULL)
		return false;
	for (i = 0; i < f->f_runs; i++) {
		f->f_of_thread[i] = i;
		for (; ring <= (size_t)f->f_run[i].ring; ring++)
			f->f_ring[ring] = i;
	}
	for (; ring <= UVIEW_RINGS; ring++)
		f->f_ring[ring] = f->f_runs;
	sorted = f->f_run;
	sort(f->f_of_thread, f->f_runs, sizeof *f->f_of_thread, by_thread);
	for (i = 0; i < f->f_runs; i++)
		f->f_run[f->f_of_thread[i]].of_thread = i;
	return true;
}

/* Sums what processors have, and whether all of them tell who can run. */
static void add_processors(struct facts *f)
{
	const struct uview_ring *r = f->f_walk.w_rings;
	int i;

	f->f_knows_wakes = true;
	for (i = 0; i < f->f_walk.w_ring_nr; i++) {
		double oldest = (double)r[i].vr_oldest * f->f_copy->vf_rate;
		size_t k;

		if (f->f_ring[i] == f->f_ring[i + 1])
			continue;
		f->f_all += f->f_to - later(f->f_from, oldest);
		for (k = f->f_ring[i]; k < f->f_ring[i + 1]; k++) {
			f->f_busy  += f->f_run[k].to - f->f_run[k].from;
			f->f_taken += facts_taken(&f->f_run[k]);
		}
		if (facts_is(f, r[i].vr_scheduler, "plain"))
			f->f_knows_wakes = false;
	}
	if (f->f_all <= 0)
		f->f_all = 1;
	f->f_own = f->f_all > f->f_taken ? f->f_all - f->f_taken : 1;
}

bool facts_read(struct facts *f, const struct uview_file *copy, double from)
{
	const struct uview_ring *r = uview_part_at(copy, UVIEW_PART_RINGS);
	double oldest = -1;
	unsigned i;

	memset(f, 0, sizeof *f);
	f->f_copy = copy;
	f->f_to   = (double)(int64_t)(copy->vf_end - copy->vf_ns);
	f->f_knows_cpu = (copy->vf_flags & UVIEW_KNOWS_CPU) != 0;
	for (i = 0; i < copy->vf_part[UVIEW_PART_RINGS].vp_nr; i++)
		if (oldest < 0 || (double)r[i].vr_oldest * copy->vf_rate < oldest)
			oldest = (double)r[i].vr_oldest * copy->vf_rate;
	f->f_from = later(from, later(oldest, 0));
	if (f->f_to <= f->f_from)
		f->f_to = f->f_from + 1;
	f->f_walk.w_run  = see_run;
	f->f_walk.w_wait = see_wait;
	f->f_walk.w_note = see_note;
	f->f_walk.w_arg  = f;
	if (!walk(&f->f_walk, copy) || f->f_full || !arrange(f))
		return false;
	add_processors(f);
	return true;
}

void facts_end(struct facts *f)
{
	walk_end(&f->f_walk);
	free(f->f_run);
	free(f->f_wait);
	free(f->f_sleep);
	free(f->f_look);
	free(f->f_of_thread);
}

/* Questions. */

const struct fact_run *facts_run_at(const struct facts *f, uint64_t at, double time)
{
	size_t from = 0, to = f->f_runs;

	while (from < to) {			/* the first behind */
		size_t m = from + (to - from) / 2;
		const struct fact_run *r = &f->f_run[f->f_of_thread[m]];

		if (r->at < at || (r->at == at && r->from <= time))
			from = m + 1;
		else
			to = m;
	}
	return from > 0 && f->f_run[f->f_of_thread[from - 1]].at == at ?
		&f->f_run[f->f_of_thread[from - 1]] : NULL;
}

const struct fact_run *facts_next(const struct facts *f, const struct fact_run *r)
{
	size_t i = r->of_thread + 1;

	return i < f->f_runs && f->f_run[f->f_of_thread[i]].at == r->at ?
		&f->f_run[f->f_of_thread[i]] : NULL;
}

const struct fact_run *facts_before(const struct facts *f, const struct fact_run *r)
{
	size_t i = r->of_thread;

	return i > 0 && f->f_run[f->f_of_thread[i - 1]].at == r->at ?
		&f->f_run[f->f_of_thread[i - 1]] : NULL;
}

double facts_wait_end(const struct facts *f, const struct fact_run *r)
{
	const struct fact_run *next = facts_next(f, r);

	if (next == NULL)
		return f->f_to;
	return next->could < 0 ? next->from : later(next->could, r->to);
}

size_t facts_waits_end(const struct facts *f, size_t i)
{
	size_t end = i;

	while (end < f->f_waits && f->f_wait[end].kind == f->f_wait[i].kind &&
	       f->f_wait[end].object == f->f_wait[i].object)
		end++;
	return end;
}

/* Returns the first of all waits for an object, and in *nr how many there are. */
static const struct fact_wait *waits_for(const struct facts *f, unsigned kind,
					 uint64_t object, size_t *nr)
{
	struct fact_wait key = { .kind = kind, .object = object, .from = -1 };
	size_t from = 0, to = f->f_waits;

	while (from < to) {
		size_t m = from + (to - from) / 2;

		if (by_object(&f->f_wait[m], &key) < 0)
			from = m + 1;
		else
			to = m;
	}
	*nr = from < f->f_waits && f->f_wait[from].kind == kind &&
		f->f_wait[from].object == object ? facts_waits_end(f, from) - from : 0;
	return &f->f_wait[from];
}

static int by_address(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns whether most of those who end these waits are among those who wait. */
static bool wakers_wait(const struct fact_wait *w, size_t nr)
{
	uint64_t *at = malloc((nr + 1) * sizeof *at);
	size_t i, wakes = 0, own = 0;

	for (i = 0; at != NULL && i < nr; i++)
		at[i] = w[i].at;
	if (at != NULL)
		sort(at, nr, sizeof *at, by_address);
	for (i = 0; at != NULL && i < nr; i++)
		if (w[i].by != 0) {
			wakes++;
			own += bsearch(&w[i].by, at, nr, sizeof *at, by_address) != NULL;
		}
	free(at);
	return own * 2 > wakes;
}

bool facts_is_lock(const struct facts *f, unsigned kind, uint64_t object)
{
	static const struct facts *of;		/* the last answer */
	static uint64_t last;
	static bool was;
	const struct fact_wait *w;
	size_t nr;

	if (kind == 0 || object == 0)
		return false;
	if (facts_is(f, kind, "mutex") || facts_is(f, kind, "read") ||
	    facts_is(f, kind, "write") || facts_is(f, kind, "once"))
		return true;
	if (!facts_is(f, kind, "sem"))
		return false;
	if (of != f || last != object) {
		w = waits_for(f, kind, object, &nr);
		of   = f;
		last = object;
		was  = wakers_wait(w, nr);
	}
	return was;
}

/* Texts, of which eight last. */
static char *text_next(void)
{
	static char text[8][160];
	static int at;

	return text[at++ % 8];
}

const char *facts_name(const struct facts *f, unsigned nr)
{
	char *to = text_next();

	out_name(to, 100, f->f_copy, nr);
	return to;
}

bool facts_is(const struct facts *f, unsigned nr, const char *text)
{
	unsigned len;
	const char *name = uview_name_text(f->f_copy, nr, &len);

	return len == strlen(text) && memcmp(name, text, len) == 0;
}

const char *facts_object(const struct facts *f, unsigned kind, uint64_t object)
{
	char *to = text_next();

	out_object(to, 160, f->f_copy, kind, object);
	return kind == 0 && to[0] == '?' ? to + 2 : to;
}

const char *facts_place(const struct facts *f, unsigned stack)
{
	const struct uview_stack *s = uview_part_at(f->f_copy, UVIEW_PART_STACKS);
	const struct uview_name *n = uview_part_at(f->f_copy, UVIEW_PART_NAMES);
	uint32_t names = f->f_copy->vf_part[UVIEW_PART_NAMES].vp_nr;
	char *to = text_next();
	unsigned i;

	*to = 0;
	if (stack == 0 || stack >= f->f_copy->vf_part[UVIEW_PART_STACKS].vp_nr)
		return to;
	for (i = 0; i < s[stack].vk_nr; i++) {
		unsigned nr = s[stack].vk_frame[i];

		if (nr == 0 || nr >= names || n[nr].vn_kind == UVIEW_LIBRARY)
			continue;
		out_name(to, 100, f->f_copy, nr);
		to[strcspn(to, " ")] = 0;
		break;
	}
	return to;
}
