/* SPDX-License-Identifier: MIT */
/* why_ready.c: threads that could run, and do not. A part of why.h. */

/*
 * What kept a thread from its run is what its processor ran from when it could run. If
 * that was one long run, why_cpu.c tells. If the processor ran little, the machine was
 * late. What is left is too much at once (timers), or others that come first again and
 * again (starvation).
 */

#include "why.h"

#include <stdlib.h>
#include <string.h>

#define LATE		5e6	/* ns behind a deadline */
#define LONG		1e6	/* a run */
#define SHARE		0.1	/* of the time, in which any starves */
#define LATE_SHARE	0.05	/* in which any is late */
#define STORM		100	/* threads that are due within STORM_WITHIN */
#define STORM_WITHIN	1e6
#define STARVED		20e6	/* ns */
#define OFTEN		10	/* runs of another */
#define PING		100	/* wakes of a pair */
#define PING_SHARE	0.2
#define IDLE		0.5
#define BURST		3	/* threads a look */
#define LOOKS		3
#define BURST_TIME	5e5	/* ns each */
#define BURST_SHARE	0.3	/* of all waits that threads end */
#define MANY		20000	/* runs, to look through for one */
#define ALIKE		0.1	/* of a time, in which two may differ */
#define RIVALS		256	/* threads that ran meanwhile; a power of two */

/* What a processor ran while a thread could run. */
struct meanwhile {
	double   busy, longest;
	double   often;			/* how often that which ran most often did */
	double   runs;			/* of all */
	double   taken;			/* the kernel gave the cpu to others */
	uint64_t often_at;
	unsigned often_f;
};

static void rival(struct meanwhile *m, uint64_t *at, double *nr,
		  const struct fact_run *x, double turns)
{
	unsigned i = (unsigned)(x->at >> 4) * 2654435761u >> 24 & (RIVALS - 1), tries;

	for (tries = 0; tries < 8; tries++, i = (i + 1) & (RIVALS - 1)) {
		if (at[i] == 0)
			at[i] = x->at;
		if (at[i] != x->at)
			continue;
		nr[i] += turns;
		if (nr[i] > m->often) {
			m->often = nr[i];
			m->often_at = x->at;
			m->often_f  = x->f;
		}
		return;
	}
}

/* Looks at what ran on the processor of r since its thread could run. */
static struct meanwhile see_meanwhile(const struct facts *f, const struct fact_run *r)
{
	const struct fact_run *first = &f->f_run[f->f_ring[r->ring]], *x = r;
	struct meanwhile m = { 0 };
	uint64_t at[RIVALS] = { 0 };
	double nr[RIVALS] = { 0 };

	while (x > first && x > r - MANY && (--x)->to > r->could) {
		double from = x->from > r->could ? x->from : r->could;
		double to = x->to < r->from ? x->to : r->from, turns;

		if (x->at == r->at || to <= from)
			continue;
		turns = x->turns_to > 0 && x->to > x->from ? (double)x->turns *
			(to - from) / (x->to - x->from) : 1;
		m.busy += to - from;
		m.runs += turns;
		m.taken += facts_taken(x);
		if (x->to - from > m.longest && x->turns_to <= 0)
			m.longest = x->to - from;
		rival(&m, at, nr, x, turns);
	}
	return m;
}

/*
 * What was found last on each processor: a thread that could run nearly as long, at
 * nearly the same time, has had the same meanwhile. So a storm of 100,000 is looked
 * through some times only.
 */
struct verdict {
	double could, from;		/* from 0: none */
	bool   is_so;
};

static bool is_known(const struct verdict *v, const struct fact_run *r)
{
	double near = ALIKE * (r->from - r->could);

	v += r->ring;
	return v->from > 0 && r->could - v->could < near &&
	       r->from - v->from < near && v->from - r->from < near;
}

/* An index of runs. */
struct picked {
	const struct fact_run **run;
	size_t nr, room;
};

static bool pick(struct picked *p, const struct fact_run *r)
{
	if (p->nr == p->room) {
		size_t room = p->room * 2 + 1024;
		const struct fact_run **more = realloc(p->run, room * sizeof *more);

		if (more == NULL)
			return false;
		p->run  = more;
		p->room = room;
	}
	p->run[p->nr++] = r;
	return true;
}

static int by_could(const void *a, const void *b)
{
	const struct fact_run *x = *(const struct fact_run *const *)a,
		*y = *(const struct fact_run *const *)b;

	return (x->could > y->could) - (x->could < y->could);
}

static void by_time(struct picked *p)
{
	if (p->nr > 1)
		qsort(p->run, p->nr, sizeof *p->run, by_could);
}

/* Timers. */

/* Finds when most threads were due within STORM_WITHIN. Returns how many. */
static size_t storm(const struct picked *due, size_t *at)
{
	size_t i, from = 0, most = 0;

	for (i = 0; i < due->nr; i++) {
		while (due->run[i]->could - due->run[from]->could > STORM_WITHIN)
			from++;
		if (i - from + 1 > most) {
			most = i - from + 1;
			*at  = from;
		}
	}
	return most;
}

/* Returns the function of most of these (Boyer and Moore, MJRTY, 1981). */
static unsigned most_of(const struct picked *due, size_t at, size_t nr)
{
	unsigned f = 0;
	size_t i, votes = 0;

	for (i = at; i < at + nr; i++) {
		if (votes == 0)
			f = due->run[i]->f;
		if (due->run[i]->f == f)
			votes++;
		else
			votes--;
	}
	return f;
}

static void storm_line(struct why *y, double share, const struct picked *due,
		       size_t at, size_t nr, double half)
{
	const struct facts *f = y->wh_facts;
	const struct fact_run *other = NULL;
	unsigned most = most_of(due, at, nr);
	double end = 0, latest = 0;
	char more[200] = "";
	size_t i;

	for (i = at; i < at + nr; i++)
		if (due->run[i]->from > end)
			end = due->run[i]->from;
	for (i = 0; i < due->nr; i++) {	/* of another function, that is late */
		if (due->run[i]->from - due->run[i]->could > latest)
			latest = due->run[i]->from - due->run[i]->could;
		if (due->run[i]->f != most &&
		    (other == NULL || due->run[i]->from - due->run[i]->could >
		     other->from - other->could))
			other = due->run[i];
	}
	if (other != NULL && other->from - other->could > LATE)
		(void)snprintf(more, sizeof more, " Others are late with them: %s by up "
			       "to %s.", facts_name(f, other->f),
			       why_time(other->from - other->could));
	(void)why_add(y, WHY_TIMERS, share,
		"A storm of timers: %s threads (%s) are due within %s, and it takes %s "
		"to run them. Half of all timers are more than %s late, and the latest "
		"%s.%s", why_nr((double)nr), facts_name(f, most),
		why_time(STORM_WITHIN), why_time(end - due->run[at]->could),
		why_time(half), why_time(latest), more);
}

static int by_number(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the lateness that half of all exceed. */
static double half_of(const struct picked *due)
{
	double *late = malloc((due->nr + 1) * sizeof *late), half = 0;
	size_t i;

	for (i = 0; late != NULL && i < due->nr; i++)
		late[i] = due->run[i]->from - due->run[i]->could;
	if (late != NULL && due->nr > 0) {
		qsort(late, due->nr, sizeof *late, by_number);
		half = late[due->nr / 2];
	}
	free(late);
	return half;
}

/* Returns the function that ran for most of the time before late runs. */
static unsigned before_late(const struct facts *f, const struct fact_run *worst,
			   double *mean)
{
	const struct fact_run *first = &f->f_run[f->f_ring[worst->ring]], *x = worst;
	struct { unsigned f; double time, nr; } sum[16] = { { 0, 0, 0 } };
	int i, best = 0;

	while (x > first && x > worst - MANY && (--x)->to > worst->could)
		for (i = 0; i < 16; i++)
			if (sum[i].nr <= 0 || sum[i].f == x->f) {
				sum[i].f     = x->f;
				sum[i].time += x->to - x->from;
				sum[i].nr   += (double)x->turns;
				break;
			}
	for (i = 1; i < 16; i++)
		if (sum[i].time > sum[best].time)
			best = i;
	*mean = sum[best].nr > 0 ? sum[best].time / sum[best].nr : 0;
	return sum[best].f;
}

/* Returns whether r is late since its processor ran much, and not for long at once. */
static bool is_too_much(const struct facts *f, const struct fact_run *r)
{
	struct meanwhile m = see_meanwhile(f, r);
	double half = (r->from - r->could) / 2;

	return m.busy >= half && (m.longest <= LONG || m.longest <= half) &&
	       r->from - r->could - m.taken > LATE;
}

static void timers(struct why *y)
{
	const struct facts *f = y->wh_facts;
	struct picked due = { NULL, 0, 0 };
	struct fact_union late = { f->f_from, 0 };
	struct verdict last[UVIEW_RINGS] = { { 0, 0, false } };
	const struct fact_run *worst = NULL;
	size_t i, at = 0, nr, elsewhere = 0;
	double share, mean;
	struct why_line *line;

	for (i = 0; i < f->f_runs; i++)
		if (f->f_run[i].due && f->f_run[i].could >= f->f_from)
			(void)pick(&due, &f->f_run[i]);
	by_time(&due);
	for (i = 0; i < due.nr; i++) {
		const struct fact_run *r = due.run[i];

		if (r->from - r->could <= LATE || r->from <= late.u_to)
			continue;
		if (!is_known(last, r))
			last[r->ring] = (struct verdict){ r->could, r->from,
				is_too_much(f, r) };
		if (!last[r->ring].is_so) {
			elsewhere++;	/* told there: see above */
			continue;
		}
		facts_add(&late, r->could + LATE, r->from);
		if (worst == NULL || r->from - r->could > worst->from - worst->could)
			worst = r;
	}
	share = late.u_sum / (f->f_to - f->f_from);
	if (share < LATE_SHARE || worst == NULL) {
		if (due.nr != 0)
			why_figure(y, WHY_TIMERS, "5 ms late in %s of the time, of %s "
				   "timers%s", why_percent(share), why_nr((double)due.nr),
				   elsewhere != 0 ? "; others behind a long run, or by the "
				   "machine" : "");
		free(due.run);
		return;
	}
	nr = storm(&due, &at);
	if (nr >= STORM) {
		storm_line(y, share, &due, at, nr, half_of(&due));
	} else {
		unsigned other = before_late(f, worst, &mean);

		(void)why_add(y, WHY_TIMERS, share,
			"Timers are late: half of all by more than %s, the latest (%s) by "
			"%s. There is too much to run before them: mostly %s, %s at a "
			"time, with up to %s threads ready. The processors are busy %s of "
			"the time.", why_time(half_of(&due)),
			facts_name(f, worst->f), why_time(worst->from - worst->could),
			facts_name(f, other), why_time(mean),
			why_nr((double)worst->ready + 1), why_percent(f->f_busy / f->f_all));
	}
	line = &y->wh_line[y->wh_nr - 1];
	line->wy_thread = worst->at;
	line->wy_from = worst->could;
	line->wy_to   = worst->to;
	free(due.run);
}

/* Starvation. */

/*
 * Returns whether another ran again and again while r could, with a cpu. Of a single
 * long run why_cpu.c tells.
 */
static bool is_starved(const struct facts *f, const struct fact_run *r)
{
	struct meanwhile m = see_meanwhile(f, r);

	return m.often >= OFTEN && r->from - r->could - m.taken > STARVED &&
	       m.busy >= (r->from - r->could) / 4 &&	/* else the machine is late */
	       (m.longest <= LONG || m.longest <= (r->from - r->could) / 2);
}

static void starved(struct why *y)
{
	const struct facts *f = y->wh_facts;
	struct picked p = { NULL, 0, 0 };
	struct fact_union time = { f->f_from, 0 };
	const struct fact_run *worst = NULL;
	struct verdict last[UVIEW_RINGS] = { { 0, 0, false } };
	struct meanwhile m;
	double share, longest = 0;
	struct why_line *line;
	size_t i;

	for (i = 0; i < f->f_runs; i++) {
		const struct fact_run *r = &f->f_run[i];

		if (r->could < 0 || r->turns_to > 0)
			continue;
		if (r->from - r->could > longest)
			longest = r->from - r->could;
		if (r->from - r->could > STARVED && r->could >= f->f_from)
			(void)pick(&p, r);
	}
	by_time(&p);
	for (i = 0; i < p.nr; i++) {
		const struct fact_run *r = p.run[i];

		if (r->from <= time.u_to)
			continue;		/* it adds nothing */
		if (!is_known(last, r))
			last[r->ring] = (struct verdict){ r->could, r->from,
				is_starved(f, r) };
		if (!last[r->ring].is_so)
			continue;
		facts_add(&time, r->could, r->from);
		if (worst == NULL || r->from - r->could > worst->from - worst->could)
			worst = r;
	}
	free(p.run);
	share = time.u_sum / (f->f_to - f->f_from);
	if (share < SHARE || worst == NULL) {
		if (longest > 0)
			why_figure(y, WHY_STARVED, "%s of the time; the longest delay was "
				   "%s%s", why_percent(share), why_time(longest),
				   longest > STARVED ? ", while others ran in turn" : "");
		return;
	}
	m = see_meanwhile(f, worst);
	line = why_add(y, WHY_STARVED, share,
		"%s starves: it could run, and did not for up to %s, while others ran %s "
		"times on the same processor, a thread of %s alone %s times.",
		facts_name(f, worst->f), why_time(worst->from - worst->could),
		why_nr(m.runs), facts_name(f, m.often_f),
		why_nr(m.often));
	line->wy_thread = worst->at;
	line->wy_from = worst->could;
	line->wy_to   = worst->to;
}

/* Ping-pong. */

#define PAIRS	4096			/* a table; a power of two */

struct pair {
	uint64_t at, by;		/* at < by */
	unsigned f, other;
	bool     last;			/* who was woken */
	double   nr, price;
	double   from, to;		/* of one */
	uint64_t thread;
};

static struct pair *pair_of(struct pair *p, const struct fact_run *r)
{
	uint64_t at = r->at < r->by ? r->at : r->by, by = r->at < r->by ? r->by : r->at;
	size_t i = (size_t)((at ^ by * 31) * 0x9e3779b97f4a7c15u >> 40) & (PAIRS - 1);
	int tries;

	for (tries = 0; tries < 32; tries++, i = (i + 1) & (PAIRS - 1)) {
		if (p[i].at == 0) {
			p[i].at = at;
			p[i].by = by;
			p[i].last = r->at < r->by;
		}
		if (p[i].at == at && p[i].by == by)
			return &p[i];
	}
	return NULL;
}

static int by_from(const void *a, const void *b)
{
	const struct fact_run *x = *(const struct fact_run *const *)a,
		*y = *(const struct fact_run *const *)b;

	return (x->from > y->from) - (x->from < y->from);
}

static void ping_pong(struct why *y)
{
	const struct facts *f = y->wh_facts;
	struct pair *pairs = calloc(PAIRS, sizeof *pairs), *x, *best = NULL;
	struct picked p = { NULL, 0, 0 };
	struct why_line *line;
	double all = f->f_to - f->f_from;
	size_t i;

	for (i = 0; i < f->f_runs; i++)
		if (f->f_run[i].by != 0 && f->f_run[i].by_ring >= 0 &&
		    f->f_run[i].by_ring != f->f_run[i].ring && f->f_run[i].could >= 0)
			(void)pick(&p, &f->f_run[i]);
	if (p.nr > 1)
		qsort(p.run, p.nr, sizeof *p.run, by_from);
	for (i = 0; pairs != NULL && i < p.nr; i++) {
		const struct fact_run *r = p.run[i];
		bool side = r->at < r->by;
		const struct fact_run *by = facts_run_at(f, r->by, r->by_at);

		if ((x = pair_of(pairs, r)) == NULL)
			continue;
		if (x->last != side) {		/* in turn */
			x->nr++;
			x->price += r->from - r->could;
		}
		x->last  = side;
		x->f     = r->f;
		x->other = by != NULL ? by->f : 0;
		x->thread = r->at;
		x->from  = r->could;
		x->to    = r->to;
		if (best == NULL || x->price > best->price)
			best = x;
	}
	free(p.run);
	if (best != NULL && best->nr >= PING && best->price >= PING_SHARE * all) {
		line = why_add(y, WHY_PINGPONG, best->price / all,
			"Ping-pong across processors: %s and %s wake each other in turn, "
			"%s times, and each wake takes %s until the other runs. On one "
			"processor each would be a switch.", facts_name(f, best->f),
			facts_name(f, best->other), why_nr(best->nr),
			why_time(best->price / best->nr));
		line->wy_thread = best->thread;
		line->wy_from = best->from;
		line->wy_to   = best->to;
	} else if (best != NULL && best->nr > 0)
		why_figure(y, WHY_PINGPONG, "%s and %s, %s times, %s each: %s of the time",
			   facts_name(f, best->f), facts_name(f, best->other),
			   why_nr(best->nr), why_time(best->price / best->nr),
			   why_percent(best->price / all));
	free(pairs);
}

/* A late look. */

struct look {
	double   time, longest, slept, nr, looks;
	const struct fact_run *example;
};

/* Adds that the run by, after a sleep, ended the wait before r. */
static void add_look(struct look *l, double slept, const struct fact_run *r, double time)
{
	l->looks += slept > 0;
	l->slept += slept;
	l->nr++;
	l->time += time;
	if (time > l->longest) {
		l->longest = time;
		l->example = r;
	}
}

static void burst_line(struct why *y, unsigned name, const struct look *l, double idle,
		       double waited)
{
	const struct facts *f = y->wh_facts;
	struct why_line *line;

	if (l->looks < LOOKS || l->nr < BURST * l->looks || l->time / l->nr < BURST_TIME ||
	    l->time < BURST_SHARE * waited)
		return;
	line = why_add(y, WHY_BURST, l->slept / (f->f_to - f->f_from),
		"%s sleeps %s at a time, and then wakes %.1f threads at once. They wait "
		"%s on average for its next look, %s at most, and the processors are idle "
		"%s of the time.", facts_name(f, name), why_time(l->slept / l->looks),
		l->nr / l->looks, why_time(l->time / l->nr), why_time(l->longest),
		why_percent(idle));
	line->wy_thread = l->example->at;
	line->wy_from = l->example->from - l->longest;
	line->wy_to   = l->example->to;
}

static void bursts(struct why *y)
{
	const struct facts *f = y->wh_facts;
	double idle = 1 - f->f_busy / f->f_all, waited = 0;
	struct look *looks = calloc(1u << 16, sizeof *looks);
	bool *counted = calloc(f->f_runs + 1, sizeof *counted);	/* wakers' runs */
	size_t i;

	for (i = 0; looks != NULL && counted != NULL && i < f->f_runs; i++) {
		const struct fact_run *r = &f->f_run[i], *before, *by, *slept;
		double time;

		if (r->by == 0 || r->could < 0 || (before = facts_before(f, r)) == NULL ||
		    !facts_waits(before) || (before->reason == UVIEW_WAITS &&
		     facts_is_lock(f, before->kind, before->object)) ||
		    (by = facts_run_at(f, r->by, r->by_at)) == NULL)
			continue;
		time = facts_wait_end(f, before) - before->to;
		waited += time;
		slept = facts_before(f, by);
		if (slept != NULL && slept->reason == UVIEW_WAITS &&
		    facts_is(f, slept->kind, "sleep")) {
			add_look(&looks[by->f], counted[by - f->f_run] ? 0 :
				 facts_wait_end(f, slept) - slept->to, r, time);
			counted[by - f->f_run] = true;
		}
	}
	for (i = 0; looks != NULL && idle >= IDLE && i < 1u << 16; i++)
		if (looks[i].nr > 0)
			burst_line(y, (unsigned)i, &looks[i], idle, waited);
	free(counted);
	free(looks);
}

void why_ready(struct why *y)
{
	timers(y);
	starved(y);
	ping_pong(y);
	bursts(y);
}
