/* SPDX-License-Identifier: MIT */
/* why_cpu.c: threads that keep a processor, block it, or give way in a loop. */

/*
 * A part of why.h. A long run is of one of three kinds. If the native thread slept in
 * the kernel, a call has blocked its processor. If the kernel gave the cpu to others, that
 * is the machine's. What is left is the thread's own. Where the kernel does not tell, a
 * run in which the cpu was taken counts only if those of its function are long on average.
 */

#include "why.h"

#include <stdlib.h>
#include <string.h>

#define LONG		1e6	/* ns: a run */
#define VERY_LONG	1e8	/* so long that one counts */
#define SEVERAL		3	/* of the others */
#define SHARE		0.1	/* of the processors' time */
#define TURN		5e3	/* ns: a turn that does nothing */
#define TURNS_SHARE	0.2
#define LATE		1e6	/* ns: a sleep of a native thread */
#define MACHINE_SHARE	0.01
#define LOOK_BEHIND	4000	/* runs */

/* Sums by function. */
struct of_f {
	double   hog, hog_longest, late, off, off_longest, turns_time;
	double   all;			/* of its runs */
	double   hog_from, hog_to, off_from, off_to;	/* where to look */
	uint64_t hog_at, off_at, turns_at;
	double   turns_from, turns_to;
	unsigned long hogs, behind, calls, sleeps, runs, open;
	double   turns;
	unsigned turns_stack;
};

/* How much of a run was the thread's own. */
static double own(const struct facts *f, const struct fact_run *r,
		  const struct of_f *sum)
{
	double length = r->to - r->from;

	if (r->off >= 0)
		return length - r->off;
	if (!f->f_knows_cpu && r->lost == 0)
		return length;
	return sum->runs != 0 && sum->all / (double)sum->runs > LONG ? length : 0;
}

/*
 * Returns how many threads of the processor of r could run meanwhile, or were due, as
 * its next look found. *late: the longest that one of them had to wait.
 */
static unsigned behind(const struct facts *f, const struct fact_run *r, double *late)
{
	const struct fact_run *end = &f->f_run[f->f_ring[r->ring + 1]], *h;
	unsigned nr = 0;

	*late = 0;
	for (h = r + 1; h < end && h < r + LOOK_BEHIND; h++) {
		if (h->from - r->to > r->to - r->from)
			break;
		if (h->could < 0 || h->at == r->at || h->gave_way)
			continue;
		if (h->could >= r->to)
			continue;
		nr++;
		if (h->from - h->could > *late)
			*late = h->from - h->could;
	}
	return nr > r->ready ? nr : r->ready;
}

static void add_hog(const struct facts *f, const struct fact_run *r, struct of_f *x)
{
	double length = own(f, r, x), late;
	unsigned nr;

	if (length <= LONG || r->turns_to > 0 || (nr = behind(f, r, &late)) == 0)
		return;
	x->hogs++;
	x->hog += length;
	x->open += r->open;
	if (nr > x->behind)
		x->behind = nr;
	if (late > x->late)
		x->late = late;
	if (length > x->hog_longest) {
		x->hog_longest = length;
		x->hog_at   = r->at;
		x->hog_from = r->from;
		x->hog_to   = r->to;
	}
}

static void add_off(const struct fact_run *r, struct of_f *x)
{
	if (r->off <= 0 || r->sleeps == 0)
		return;
	x->calls++;
	x->sleeps += r->sleeps;
	x->off += r->off;
	if (r->off > x->off_longest) {
		x->off_longest = r->off;
		x->off_at   = r->at;
		x->off_from = r->from;
		x->off_to   = r->to;
	}
}

/* Returns how long the turns that begin at r take, with their switches. */
static double add_turns(const struct facts *f, size_t i, struct of_f *sum)
{
	const struct fact_run *r = &f->f_run[i];
	double ran = 0, nr = 0, span;
	size_t k;

	for (k = i; k < f->f_runs && f->f_run[k].ring == r->ring &&
	     f->f_run[k].turns_to == r->turns_to; k++) {
		ran += f->f_run[k].to - f->f_run[k].from;
		nr  += (double)f->f_run[k].turns;
	}
	if (nr <= 0 || ran / nr >= TURN)
		return 0;
	span = r->turns_to - (r->turns_from > f->f_from ? r->turns_from : f->f_from);
	for (; i < k; i++) {
		struct of_f *x = &sum[f->f_run[i].f];

		x->turns_time += span * (double)f->f_run[i].turns / nr;
		x->turns += (double)f->f_run[i].turns;
		if (f->f_run[i].to - f->f_run[i].from > x->turns_to - x->turns_from) {
			x->turns_from = f->f_run[i].from;
			x->turns_to   = f->f_run[i].to;
			x->turns_at   = f->f_run[i].at;
		}
	}
	return span;
}

/* A run that only gives way, but stands alone. */
static double add_turn(const struct facts *f, size_t i, struct of_f *sum)
{
	const struct fact_run *r = &f->f_run[i];
	double time = r->to - r->from;

	if (r->reason != UVIEW_YIELDED || r->wakes != 0 || time >= TURN)
		return 0;
	if (i + 1 < f->f_runs && r[1].ring == r->ring && r[1].from - r->to < TURN)
		time += r[1].from - r->to;
	sum[r->f].turns_time += time;
	sum[r->f].turns += 1;
	if (r->stack != 0)
		sum[r->f].turns_stack = r->stack;
	return time;
}

static double sum_all(const struct facts *f, struct of_f *sum)
{
	double turns = 0;
	size_t i;

	for (i = 0; i < f->f_runs; i++) {
		struct of_f *x = &sum[f->f_run[i].f];

		x->runs += (unsigned long)f->f_run[i].turns;
		x->all  += f->f_run[i].to - f->f_run[i].from;
	}
	for (i = 0; i < f->f_runs; i++) {
		const struct fact_run *r = &f->f_run[i];

		add_hog(f, r, &sum[r->f]);
		add_off(r, &sum[r->f]);
		if (r->turns_to <= 0)
			turns += add_turn(f, i, sum);
		else if (i == 0 || r[-1].ring != r->ring ||
			 r[-1].turns_to != r->turns_to)
			turns += add_turns(f, i, sum);
	}
	return turns;
}

static void hog(struct why *y, unsigned name, const struct of_f *x, double *most)
{
	const struct facts *f = y->wh_facts;
	bool is_seldom = x->hogs < SEVERAL && x->hog_longest < VERY_LONG;
	struct why_line *line;
	char late[100] = "", open[160] = "";

	if (x->hogs == 0)
		return;
	if (is_seldom || x->hog < SHARE * f->f_own) {
		if (x->hog > *most) {
			*most = x->hog;
			why_figure(y, WHY_HOG, "%lu run%s of %s, up to %s, in %s of the "
				   "processors' time", x->hogs, x->hogs == 1 ? "" : "s",
				   facts_name(f, name),
				   why_time(x->hog_longest),
				   why_percent(x->hog / f->f_own));
		}
		return;
	}
	if (x->late > LONG)
		(void)snprintf(late, sizeof late, ", for up to %s", why_time(x->late));
	if (x->open != 0)
		(void)snprintf(open, sizeof open, " One goes on: whether it computes or "
			       "sleeps in the kernel is known when it ends.");
	line = why_add(y, WHY_HOG, x->hog / f->f_own,
		"%s keeps a processor for up to %s without giving way: %lu run%s above "
		"%s. Behind %s up to %lu thread%s could run or %s due%s.%s",
		facts_name(f, name), why_time(x->hog_longest), x->hogs,
		x->hogs == 1 ? "" : "s", why_time(LONG), x->hogs == 1 ? "it" : "each",
		x->behind, x->behind == 1 ? "" : "s", x->behind == 1 ? "was" : "were",
		late, open);
	line->wy_thread = x->hog_at;
	line->wy_from = x->hog_from;
	line->wy_to   = x->hog_to;
}

static void kernel(struct why *y, unsigned name, const struct of_f *x, double *most)
{
	const struct facts *f = y->wh_facts;
	struct why_line *line;

	if (x->off <= 0)
		return;
	if (x->off < SHARE * f->f_own) {
		if (x->off > *most) {
			*most = x->off;
			why_figure(y, WHY_KERNEL, "%s sleeps there for %s of the "
				   "processors' time", facts_name(f, name),
				   why_percent(x->off / f->f_own));
		}
		return;
	}
	line = why_add(y, WHY_KERNEL, x->off / f->f_own,
		"%s calls what blocks in the kernel, and its native thread with it: %lu "
		"runs sleep there %lu times, up to %s, and their processor runs nothing "
		"else meanwhile.", facts_name(f, name), x->calls, x->sleeps,
		why_time(x->off_longest));
	line->wy_thread = x->off_at;
	line->wy_from = x->off_from;
	line->wy_to   = x->off_to;
}

static void yields(struct why *y, const struct of_f *sum, size_t nr, double time)
{
	const struct facts *f = y->wh_facts;
	const struct of_f *x = NULL;
	struct why_line *line;
	const char *place;
	double turns = 0, ran;
	size_t i;

	for (i = 0; i < nr; i++) {
		turns += sum[i].turns;
		if (x == NULL || sum[i].turns_time > x->turns_time)
			x = &sum[i];
	}
	if (time <= 0)
		return;
	ran = time / turns;
	if (time < TURNS_SHARE * f->f_own) {
		why_figure(y, WHY_YIELDS, "%s turns, most of %s, in %s of the processors' "
			   "time", why_nr(turns), facts_name(f, (unsigned)(x - sum)),
			   why_percent(time / f->f_own));
		return;
	}
	place = facts_place(f, x->turns_stack);
	line = why_add(y, WHY_YIELDS, time / f->f_own,
		"Threads give way again and again instead of waiting: %s turns of %s each, "
		"with the switch, which wake no other; %s of them of %s%s%s. Their processors "
		"do not sleep meanwhile.", why_nr(turns),
		why_time(ran), why_percent(x->turns_time / time),
		facts_name(f, (unsigned)(x - sum)), *place != 0 ? ", at " : "", place);
	line->wy_thread = x->turns_at;
	line->wy_from = x->turns_from;
	line->wy_to   = x->turns_to;
}

/* The machine. */

static double lateness(const struct fact_sleep *s)
{
	double due = s->until > s->from ? s->until : s->from;

	return s->until < 0 || s->to < due ? 0 : s->to - due;
}

static void machine(struct why *y)
{
	const struct facts *f = y->wh_facts;
	double late = 0, most = 0, taken = 0;
	unsigned long nr = 0, times = 0;
	const struct fact_sleep *worst = NULL;
	size_t i;

	for (i = 0; i < f->f_sleeps; i++) {
		double ns = lateness(&f->f_sleep[i]);

		if (ns <= LATE)
			continue;
		nr++;
		late += ns;
		if (ns > most) {
			most  = ns;
			worst = &f->f_sleep[i];
		}
	}
	for (i = 0; i < f->f_runs; i++) {
		times += f->f_run[i].lost;
		if (f->f_run[i].lost != 0 && f->f_run[i].off > 0 &&
		    f->f_run[i].sleeps == 0)
			taken += f->f_run[i].off;
	}
	if (late >= MACHINE_SHARE * f->f_all) {
		struct why_line *line = why_add(y, WHY_MACHINE, late / f->f_all,
			"The machine slept late: %lu times the kernel woke a native thread "
			"more than %s after its deadline, %s at most. That is the load of "
			"the machine, and not this program's threads.", nr, why_time(LATE),
			why_time(most));

		line->wy_from = worst->from;
		line->wy_to   = worst->to;
	}
	if (taken >= MACHINE_SHARE * f->f_all)
		(void)why_add(y, WHY_MACHINE, taken / f->f_all,
			"The kernel gave cpus to others, %lu times. That is the load of the "
			"machine.", times);
	why_figure(y, WHY_MACHINE, "late sleeps %s, cpus taken %s of the processors' time",
		   why_percent(late / f->f_all), why_percent(taken / f->f_all));
}

void why_cpu(struct why *y)
{
	const struct facts *f = y->wh_facts;
	size_t nr = 1u << 16, i;		/* names have 16 bits */
	struct of_f *sum = calloc(nr, sizeof *sum);
	double time, most_hog = 0, most_off = 0;

	if (sum == NULL) {
		for (i = 0; i < WHY_KINDS; i++)
			y->wh_unknown[i] = "there was no memory";
		return;
	}
	time = sum_all(f, sum);
	for (i = 0; i < nr; i++) {
		hog(y, (unsigned)i, &sum[i], &most_hog);
		kernel(y, (unsigned)i, &sum[i], &most_off);
	}
	yields(y, sum, nr, time);
	machine(y);
	free(sum);
}
