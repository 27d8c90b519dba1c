/* SPDX-License-Identifier: MIT */
/* why_queue.c: queues whose values stay for long. A part of why.h. */

#include "why.h"

#define OLD	50e6		/* ns */
#define OLD_HELD 200e6		/* where senders wait for room: then it works as it shall */
#define OFTEN	0.5		/* of the time */

/* Looks at one queue. */
struct stay {
	double old_for, all, oldest, sum;	/* ns; sum: age by time */
	double at_most;		/* when it was oldest */
	double early, late;	/* length by time, of the first and the last third */
	unsigned long emptied;
	uint32_t longest, last;
	uint32_t shortest;	/* since it was longest */
};

/* Returns whether a number that only grows, of 32 bits, is less than before. */
static bool goes_back(uint32_t now, uint32_t before)
{
	return (int32_t)(now - before) < 0;
}

/* Returns how old the oldest value is at look j of a queue. */
static double age_at(const struct fact_look *l, size_t j, size_t *k)
{
	if (l[j].length == 0) {
		*k = j;			/* what it holds later has come later */
		return 0;
	}
	if (j > 0 && (goes_back(l[j].taken, l[j - 1].taken) ||
		      goes_back(l[j].taken + l[j].length,
				l[j - 1].taken + l[j - 1].length)))
		*k = j;			/* another queue at this address */
	/* *k: the first look by which the value that is the oldest now was there. */
	while (*k < j && (int32_t)(l[*k].taken + l[*k].length - l[j].taken) <= 0)
		(*k)++;
	return l[j].at - l[*k].at;
}

/* Returns the function that waits most for an object by a kind of wait; 0: none. */
static unsigned who_waits(const struct facts *f, uint64_t object, const char *kind,
			  double *time)
{
	unsigned best = 0;
	size_t i;

	*time = 0;
	for (i = 0; i < f->f_waits; i++)
		if (f->f_wait[i].object == object &&
		    facts_is(f, f->f_wait[i].kind, kind)) {
			*time += f->f_wait[i].to - f->f_wait[i].from;
			best = f->f_wait[i].f;
		}
	return best;
}

static struct stay see(const struct facts *f, const struct fact_look *l, size_t nr,
		       double old)
{
	struct stay s = { 0 };
	size_t j, k = 0;

	for (j = 0; j < nr; j++) {
		double age = age_at(l, j, &k);
		double until = j + 1 < nr ? l[j + 1].at : f->f_to;

		s.all += until - l[j].at;
		s.emptied += l[j].length == 0 && s.last != 0;
		if (l[j].at < f->f_from + (f->f_to - f->f_from) / 3)
			s.early += l[j].length * (until - l[j].at);
		else if (l[j].at > f->f_to - (f->f_to - f->f_from) / 3)
			s.late += l[j].length * (until - l[j].at);
		s.sum += age * (until - l[j].at);
		if (age > old)
			s.old_for += until - l[j].at;
		if (age > s.oldest) {
			s.oldest  = age;
			s.at_most = l[j].at;
		}
		if (l[j].length > s.longest)
			s.longest = s.shortest = l[j].length;
		else if (l[j].length < s.shortest)
			s.shortest = l[j].length;
		s.last = l[j].length;
	}
	return s;
}

/* Returns the kind of wait at which the threads of a function spend most time. */
static unsigned waits_most(const struct facts *f, unsigned name, uint64_t but,
			   double *time)
{
	unsigned best = 0;
	size_t i, end;

	*time = 0;
	for (i = 0; i < f->f_waits; i = end) {		/* they lie by kind */
		double sum = 0;

		for (end = i; end < f->f_waits &&
		     f->f_wait[end].kind == f->f_wait[i].kind; end++)
			if (f->f_wait[end].f == name && f->f_wait[end].object != but)
				sum += f->f_wait[end].to - f->f_wait[end].from;
		if (sum > *time) {
			*time = sum;
			best  = f->f_wait[i].kind;
		}
	}
	return best;
}

/* Says what is known of those that receive. */
static void receivers(const struct facts *f, uint64_t object, char *text, size_t size)
{
	double sends, receives;
	unsigned sender = who_waits(f, object, "send", &sends);
	unsigned receiver = who_waits(f, object, "recv", &receives);

	if (sender != 0)
		(void)snprintf(text, size, " Senders (%s) wait for room.",
			       facts_name(f, sender));
	else if (receiver != 0) {
		double most;
		unsigned kind = waits_most(f, receiver, object, &most);

		if (most > receives)
			(void)snprintf(text, size, " What takes them (%s) mostly waits for "
				       "something else: %s.", facts_name(f, receiver),
				       kind != 0 ? facts_name(f, kind) : "to be woken");
		else
			(void)snprintf(text, size, " They are taken by %s.",
				       facts_name(f, receiver));
	} else
		(void)snprintf(text, size, " No thread waits at it.");
}

static bool grows(const struct stay *s)
{
	return s->late > 1.5 * s->early;
}

/*
 * Returns whether a queue is rather a store, as of buffers that are free: it is never
 * near its end, and no thread waits for it.
 */
static bool is_store(const struct facts *f, uint64_t object, const struct stay *s)
{
	double sends, receives;

	(void)who_waits(f, object, "send", &sends);
	(void)who_waits(f, object, "recv", &receives);
	return s->shortest > s->longest / 4 * 3 && sends + receives <= 0 && !grows(s);
}

void why_queue(struct why *y)
{
	const struct facts *f = y->wh_facts;
	double most = 0, sends;
	size_t i, end;

	for (i = 0; i < f->f_looks; i = end) {
		uint64_t object = f->f_look[i].object;
		const char *name = facts_object(f, 0, object);
		struct why_line *line;
		char more[200];
		struct stay s;

		for (end = i; end < f->f_looks && f->f_look[end].object == object; )
			end++;
		(void)who_waits(f, object, "send", &sends);
		s = see(f, &f->f_look[i], end - i, sends > OFTEN *
			(f->f_to - f->f_from) ? OLD_HELD : OLD);
		if (s.all <= 0 || is_store(f, object, &s))
			continue;
		if (s.old_for < OFTEN * (f->f_to - f->f_from)) {
			if (s.oldest > most) {
				most = s.oldest;
				why_figure(y, WHY_QUEUE, "%s at most in the channel %s, "
					   "old in %s of the time",
					   why_time(s.oldest), name,
					   why_percent(s.old_for / (f->f_to - f->f_from)));
			}
			continue;
		}
		receivers(f, object, more, sizeof more);
		line = why_add(y, WHY_QUEUE, s.old_for / (f->f_to - f->f_from),
			"Values grow old in the channel %s: the oldest is %s old on average "
			"and %s at most, behind up to %s values (%s at the end). %s%s", name,
			why_time(s.sum / s.all), why_time(s.oldest), why_nr(s.longest),
			why_nr(s.last), grows(&s) ?
			"It grows: what takes them out is slower than what puts them in." :
			s.emptied > 1 ? "It fills and is emptied in turn: what takes them "
			"out comes too seldom." :
			"What takes them out is no faster than what puts them in.", more);
		line->wy_object = object;
		line->wy_from = f->f_look[i].at;
		line->wy_to   = s.at_most > line->wy_from ? s.at_most : f->f_to;
	}
}
