/* SPDX-License-Identifier: MIT */
/* why_locks.c: lines at locks, and dead locks. A part of why.h. */

/*
 * WHO HOLDS A LOCK. A waiter notes the holder, and a waiter that was woken has got it.
 * Between two such moments the holder of the later one had it, because a newcomer may
 * take it before the woken waiter. At the end it is the one that was told of last.
 */

#include "why.h"

#include <stdlib.h>
#include <string.h>

#define CROWD		1.0	/* threads that wait, on average */
#define COVERED		0.5	/* of the time, in which any waits */
#define FEW		3	/* waits tell nothing */
#define PLACES		8	/* where holders wait */
#define MANY		20000	/* runs, to look through for one */
#define NEARLY		0.6	/* of what holders do most */

/* What holders do meanwhile. */

enum { WAITS, OFF, READY, RUNS, DOINGS };

struct held {
	double   d_time[DOINGS], d_all;
	unsigned d_f[DOINGS];	/* function of a holder that did so for longest */
	double   d_longest[DOINGS];
	struct { unsigned kind, stack, f; uint64_t object; double time; }
		d_place[PLACES];
	unsigned d_in_way;	/* function that ran while a holder was ready */
	double   d_in_way_time;
};

static double part(double from, double to, double a, double z)
{
	a = a > from ? a : from;
	z = z < to ? z : to;
	return z > a ? z - a : 0;
}

static void add_time(struct held *d, int what, double time, unsigned f)
{
	d->d_time[what] += time;
	d->d_all += time;
	if (time > d->d_longest[what]) {
		d->d_longest[what] = time;
		d->d_f[what] = f;
	}
}

static void add_place(struct held *d, const struct fact_run *r, double time)
{
	int i;

	for (i = 0; i < PLACES; i++) {
		if (d->d_place[i].time == 0) {
			d->d_place[i].kind   = r->reason == UVIEW_WAITS ? r->kind : 0;
			d->d_place[i].stack  = r->stack;
			d->d_place[i].object = r->object;
			d->d_place[i].f      = r->f;
		}
		if (d->d_place[i].kind == (r->reason == UVIEW_WAITS ? r->kind : 0) &&
		    d->d_place[i].stack == r->stack && d->d_place[i].f == r->f) {
			d->d_place[i].time += time;
			return;
		}
	}
}

/* Notes who ran on the processor of r while its thread was ready before. */
static void see_in_way(const struct facts *f, struct held *d, const struct fact_run *r)
{
	const struct fact_run *x = r;

	while (x > &f->f_run[f->f_ring[r->ring]] && x > r - MANY && (--x)->to > r->could)
		if (x->at != r->at && x->to - x->from > d->d_in_way_time) {
			d->d_in_way_time = x->to - x->from;
			d->d_in_way = x->f;
		}
}

/* The thread at holds the lock from one time to another. */
static void hold(const struct facts *f, struct held *d, uint64_t at, double from,
		 double to)
{
	const struct fact_run *r = facts_run_at(f, at, from), *next;

	for (; r != NULL && r->from < to; r = next) {
		double ends = facts_waits(r) ? facts_wait_end(f, r) : r->to;
		double runs = part(from, to, r->from, r->to), ready, off, waits;

		next = facts_next(f, r);
		off  = r->off > 0 && r->sleeps != 0 && r->to > r->from ?
			runs * r->off / (r->to - r->from) : 0;
		ready = part(from, to, ends, next != NULL ? next->from : f->f_to);
		waits = facts_waits(r) ? part(from, to, r->to, ends) : 0;
		add_time(d, OFF, off, r->f);
		add_time(d, RUNS, runs - off, r->f);
		add_time(d, READY, ready, r->f);
		add_time(d, WAITS, waits, r->f);
		if (ready > 0 && next != NULL)
			see_in_way(f, d, next);
		if (waits > 0)
			add_place(d, r, waits);
	}
}

/*
 * A moment at which the holder is known, or how many wait changes. A thread that wakes
 * a waiter and waits again does both at once: the wake tells who held it before.
 */
struct moment {
	double   at;
	int      more;
	uint64_t holder;
};

static int by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : x->more - y->more;
}

/* Returns all moments of nr waits for one object, two each. NULL: no memory. */
static struct moment *moments(const struct fact_wait *w, size_t nr)
{
	struct moment *m = calloc(2 * nr, sizeof *m);
	size_t i;

	for (i = 0; m != NULL && i < nr; i++) {
		m[2 * i] = (struct moment){ w[i].from, 1, w[i].holder };
		m[2 * i + 1] = (struct moment){ w[i].to, -1, w[i].due ? 0 : w[i].by };
	}
	if (m != NULL)
		qsort(m, 2 * nr, sizeof *m, by_time);
	return m;
}

struct line {
	double mean, any;
	int    most;
	struct held held;
};

/* Looks at the line of nr waits for one lock. */
static void see_line(const struct facts *f, const struct fact_wait *w, size_t nr,
		     struct line *l, bool whole)
{
	struct moment *m = moments(w, nr);
	double sum = 0;
	int waiting = 0;
	size_t i;

	memset(l, 0, sizeof *l);
	if (m == NULL)
		return;
	for (i = 0; i < 2 * nr; i++) {
		if (i > 0 && waiting > 0) {
			sum += waiting * (m[i].at - m[i - 1].at);
			l->any += m[i].at - m[i - 1].at;
			if (whole && m[i].holder != 0)
				hold(f, &l->held, m[i].holder, m[i - 1].at, m[i].at);
		}
		waiting += m[i].more;
		if (waiting > l->most)
			l->most = waiting;
	}
	l->mean = sum / (f->f_to - f->f_from);
	l->any /= f->f_to - f->f_from;
	free(m);
}

/* Says what a holder does in a part of the time; first: it is what it does most. */
static void doing(const struct facts *f, const struct held *d, int what, bool first,
		  char *text, size_t size)
{
	const char *who = facts_name(f, d->d_f[what]), *place;
	const char *share = why_percent(d->d_time[what] / d->d_all);
	int i, best = 0;

	for (i = 1; i < PLACES; i++)
		if (d->d_place[i].time > d->d_place[best].time)
			best = i;
	place = facts_place(f, d->d_place[best].stack);
	if (what == WAITS)
		(void)snprintf(text, size, "%s %s of that time its holder, %s, waits "
			"itself (%s%s%s).", first ? "It is held over a wait:" : "For",
			share,
			facts_name(f, d->d_place[best].f), d->d_place[best].kind != 0 ?
			facts_object(f, d->d_place[best].kind, d->d_place[best].object) :
			"to be woken", *place != 0 ? ", at " : "", place);
	else if (what == OFF)
		(void)snprintf(text, size, "%s %s of that time its holder, %s, sleeps in "
			"the kernel, and its processor with it.", first ?
			"It is held over a slow call:" : "For",
			share, who);
	else if (what == READY)
		(void)snprintf(text, size, "%s %s of that time its holder, %s, can run and "
			"does not%s%s.", first ? "It is held by a thread that does not run:"
			: "For", share, who,
			d->d_in_way != 0 ? ", while its processor runs " : "",
			d->d_in_way != 0 ? facts_name(f, d->d_in_way) : "");
	else
		(void)snprintf(text, size, "%s %s of that time its holder, %s, runs.",
			first ? "It is held for long:" : "For",
			share, who);
}

/* Says what holders do most, and next if that is nearly as much. */
static void holders(const struct facts *f, const struct held *d, char *text,
		    size_t size)
{
	const double *time = d->d_time;
	int i, most = 0, next = -1;
	size_t len;

	if (d->d_all <= 0) {
		(void)snprintf(text, size, "Its holder is not known.");
		return;
	}
	for (i = 1; i < DOINGS; i++)
		most = time[i] > time[most] ? i : most;
	for (i = 0; i < DOINGS; i++)
		if (i != most && (next < 0 || time[i] > time[next]))
			next = i;
	doing(f, d, most, true, text, size);
	len = strlen(text);
	if (time[next] > NEARLY * time[most] && len + 2 < size) {
		text[len++] = ' ';
		doing(f, d, next, false, text + len, size - len);
	}
}

static void lines(struct why *y)
{
	const struct facts *f = y->wh_facts;
	double most = 0;
	size_t i, end;

	for (i = 0; i < f->f_waits; i = end) {
		const struct fact_wait *w = &f->f_wait[i];
		struct why_line *line;
		struct line l;
		char text[400];

		end = facts_waits_end(f, i);
		if (end - i <= FEW || !facts_is_lock(f, w->kind, w->object))
			continue;
		see_line(f, w, end - i, &l, false);
		if (l.mean < CROWD || l.any < COVERED) {
			if (l.mean > most) {
				most = l.mean;
				why_figure(y, WHY_LOCK, "%.2f threads wait for the %s, "
					   "one in %s of the time", l.mean,
					   facts_object(f, w->kind, w->object),
					   why_percent(l.any));
			}
			continue;
		}
		see_line(f, w, end - i, &l, true);
		holders(f, &l.held, text, sizeof text);
		line = why_add(y, WHY_LOCK, l.any, "Threads stand in line for the %s: "
			"%.1f wait on average, %d at most. %s",
			facts_object(f, w->kind, w->object), l.mean, l.most, text);
		line->wy_object = w->object;
	}
}

/* Dead locks. */

/* A thread waits for an object, and for the thread that holds it. */
struct edge {
	uint64_t at, holder, object;
	unsigned f, kind;
	double   since;
	bool     seen;
};

static int by_at(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Returns who holds an object at the end, by its waits: see above. */
static uint64_t holder_at_end(const struct fact_wait *w, size_t nr)
{
	uint64_t holder = 0;
	double last = -1;
	size_t i;

	for (i = 0; i < nr; i++) {
		bool has_got = !w[i].open && !w[i].due;

		if ((has_got || w[i].holder != 0) &&
		    (has_got ? w[i].to : w[i].from) >= last) {
			last   = has_got ? w[i].to : w[i].from;
			holder = has_got ? w[i].at : w[i].holder;
		}
	}
	return holder;
}

/* Fills in who waits for whom, as the rings tell, and then as the census does. */
static size_t edges(const struct facts *f, struct edge *e)
{
	const struct uview_census *c = uview_part_at(f->f_copy, UVIEW_PART_CENSUS);
	unsigned rows = f->f_copy->vf_census != 0 ? c->vc_nr : 0, k;
	size_t i, j, end, nr = 0;

	for (i = 0; i < f->f_waits; i = end) {
		const struct fact_wait *w = &f->f_wait[i];
		uint64_t holder;

		end = facts_waits_end(f, i);
		holder = w->object != 0 ? holder_at_end(w, end - i) : 0;
		for (j = i; j < end && holder != 0; j++)
			if (f->f_wait[j].open && f->f_wait[j].holder != 0 &&
			    !f->f_wait[j].timed)
				e[nr++] = (struct edge){ f->f_wait[j].at, holder,
					f->f_wait[j].object, f->f_wait[j].f,
					f->f_wait[j].kind, f->f_wait[j].from, false };
	}
	for (k = 0; k < rows && k < UVIEW_ROWS; k++) {
		const struct uview_row *r = &c->vc_row[k];

		if (r->vw_holder == 0 || walk_thread(&f->f_walk, r->vw_example) != NULL)
			continue;
		e[nr++] = (struct edge){ r->vw_example, r->vw_holder, r->vw_object,
			r->vw_f, r->vw_kind, 0, false };
	}
	qsort(e, nr, sizeof *e, by_at);
	return nr;
}

static struct edge *edge_of(struct edge *e, size_t nr, uint64_t at)
{
	struct edge key = { .at = at };

	return nr > 0 ? bsearch(&key, e, nr, sizeof *e, by_at) : NULL;
}

int why_cycles(const struct facts *f, struct why_cycle *c)
{
	struct edge *e = calloc(f->f_waits + UVIEW_ROWS, sizeof *e), *x, *start;
	size_t nr = e != NULL ? edges(f, e) : 0, i, steps;
	int found = 0;

	for (i = 0; i < nr && found < WHY_CYCLES; i++) {
		start = x = &e[i];
		for (steps = 0; x != NULL && !x->seen && steps <= nr; steps++) {
			x = edge_of(e, nr, x->holder);
			if (x == start)
				break;
		}
		if (x != start || x->seen || steps > nr)
			continue;
		memset(&c[found], 0, sizeof c[found]);
		do {
			unsigned at = c[found].nr++;

			x->seen = true;
			if (at < WHY_MEMBERS) {
				c[found].member[at].at     = x->at;
				c[found].member[at].object = x->object;
				c[found].member[at].f      = x->f;
				c[found].member[at].kind   = x->kind;
				c[found].member[at].since  = x->since;
			}
			x = edge_of(e, nr, x->holder);
		} while (x != start);
		found++;
	}
	free(e);
	return found;
}

static void dead_locks(struct why *y)
{
	struct why_cycle c[WHY_CYCLES];
	const struct facts *f = y->wh_facts;
	int nr = why_cycles(f, c), i;
	unsigned k;

	for (i = 0; i < nr; i++) {
		struct why_line *line = why_add(y, WHY_DEADLOCK, 1,
			"A dead lock of %u threads, for ever: ", c[i].nr);
		size_t at = strlen(line->wy_text);

		for (k = 0; k < c[i].nr && k < WHY_MEMBERS && at < sizeof line->wy_text;
		     k++)
			at += (size_t)snprintf(line->wy_text + at,
				sizeof line->wy_text - at, "%s%s waits for the %s, which "
				"%s holds", k == 0 ? "" : "; ",
				facts_name(f, c[i].member[k].f),
				facts_object(f, c[i].member[k].kind, c[i].member[k].object),
				k + 1 == WHY_MEMBERS && c[i].nr > WHY_MEMBERS ? "another" :
				facts_name(f, c[i].member[(k + 1) % c[i].nr].f));
		line->wy_thread = c[i].member[0].at;
		line->wy_from = c[i].member[0].since;
		line->wy_to   = f->f_to;
	}
}

void why_locks(struct why *y)
{
	dead_locks(y);
	lines(y);
}
