/* SPDX-License-Identifier: MIT */
/* sguide.c: which run of a search comes next. */

/*
 * All chance of a run follows from its course: a seed, and up to six bends. A bend is
 * a time from which on the run is drawn from another seed. "33@7810869.2,5" runs seed 5
 * until 7.810869 s, and goes on by seed 33. So a run that a search has found is a short
 * text, which any machine runs again without the search.
 *
 *	33@T,5		a plan is crossed with another: the faults of seed 5 before T,
 *			and after it those that seed 33 draws for a run
 *	33@T.2,5	up to three faults come soon after T, most of them at host 2,
 *			as seed 33 draws. Beside them the faults of seed 5 after T
 *			stay, or those of seed 33 come
 *
 * The first number of a course is that of the run in its search. Of a search, the first
 * sixteen runs and then each second are plain seeds, so that errors which need no guide
 * are found as soon as without it. The others are bent:
 *
 *	a kind of marks (smark.c) is drawn
 *	a mark of this kind, the rarer the sooner. A run that is bent at a mark has
 *		this mark again, so each try makes it dearer
 *	a run that has had it, of up to four that are kept
 *	the time of the mark in that run, or sometimes a little before. The more of
 *		the run is left then, the sooner it is taken: a bend near the end tries little
 *
 * Where states lead to each other step by step, the top is reached that plain seeds do
 * not reach (test/ext/sim/guide.c). On three stores with thirty errors both find the
 * same: 1.0 of the runs (bench/yard). There the number of faults was what mattered.
 *
 * G1. A run is a function of its course. All that a search does is a function of its
 *     first seed: the choice for a run knows all runs but the last before it, whose number
 *     does not depend on how many processes there are (ssearch.c).
 * G2. The plan of a course is drawn before the run, as that of a seed: sfault F3.
 *     w_faults, w_only and w_core hold for all of it.
 *
 * REJECTED
 *
 * A plan as a file of faults: it is valid as long as a seed is, and larger.
 * Marks by code that was run: they differ by compiler, and so would searches.
 * Forks at the bend, which save the time before it: processes that stand in the middle
 * of a run were to be kept for each mark.
 */

#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT		4096	/* marks of a search */
#define WITNESSES	4	/* runs of a mark */
#define TRIES		16	/* until a run is left that is long */
#define LATEST		((long long)1 << 50)	/* us, a bend: some 35 years */
#define EARLIER		21	/* octaves of us, before a mark */

struct witness {
	struct sim_course i_course;
	int               i_host;
	utime_ns          i_at;
	unsigned          i_left;	/* of 256 parts of the run, after that */
};

struct kept {
	uint32_t           kp_id;	/* 0: none */
	enum sim_mark_kind kp_kind;
	unsigned           kp_runs;	/* that have had it */
	int                kp_nr;
	struct witness     kp_witnesses[WITNESSES];
};

static struct kept *kept;	/* a table by kp_id */
static int kept_nr;
static uint64_t stream;

static unsigned below(unsigned nr)
{
	stream += 0x9e3779b97f4a7c15u;
	return (unsigned)((sim_mix(stream) >> 32) * nr >> 32);
}

/* Learning. */

/* Returns the entry of a mark; NULL: there is no room. */
static struct kept *kept_of(uint32_t id)
{
	uint32_t i = id >> 1;

	while (kept[i % KEPT].kp_id != id && kept[i % KEPT].kp_id != 0)
		i++;
	if (kept[i % KEPT].kp_id == 0 && kept_nr == KEPT / 4 * 3)
		return NULL;
	kept_nr += kept[i % KEPT].kp_id == 0;
	return &kept[i % KEPT];
}

static void learn(const struct sim_course *c, const struct sim_mark *k, utime_ns end)
{
	struct kept *p = kept_of(k->mk_id);
	unsigned i;

	if (p == NULL)
		return;
	p->kp_id = k->mk_id;
	p->kp_kind = k->mk_kind;
	i = p->kp_runs++;
	if (i >= WITNESSES)
		i = below(p->kp_runs);
	if (i < WITNESSES)
		p->kp_witnesses[i] = (struct witness) { *c, k->mk_host, k->mk_at,
			k->mk_at < end ? (unsigned)(256 - k->mk_at * 256 / end) : 0 };
	p->kp_nr += p->kp_nr < WITNESSES;
}

void sim_guide_learn(const struct sim_course *c, const struct sim_report *r)
{
	utime_ns end = r->p_run < r->p_time ? r->p_run : r->p_time;
	int i;

	if (kept == NULL)
		kept = calloc(KEPT, sizeof *kept);
	if (kept == NULL)
		return;
	for (i = 0; i < SIM_MARKS; i++)
		if (r->p_marks[i].mk_id != 0)
			learn(c, &r->p_marks[i], end);
}

/* Choosing. */

static unsigned weight(const struct kept *p, enum sim_mark_kind kind)
{
	return p->kp_id == 0 || p->kp_kind != kind ? 0 :
		1 + (unsigned)((1u << 20) / ((uint64_t)p->kp_runs * p->kp_runs));
}

/* Returns a mark of a kind; NULL: there is none. */
static struct kept *draw_mark(enum sim_mark_kind kind)
{
	uint64_t sum = 0, at;
	int i;

	for (i = 0; i < KEPT; i++)
		sum += weight(&kept[i], kind);
	if (sum == 0)
		return NULL;
	at = (uint64_t)below(1u << 31) * sum >> 31;
	for (i = 0; at >= weight(&kept[i], kind); i++)
		at -= weight(&kept[i], kind);
	return &kept[i];
}

static const struct kept *draw_any(void)
{
	static const unsigned char table[] = {
		MARK_STATE, MARK_STATE, MARK_ACROSS, MARK_ACROSS, MARK_FAULT, MARK_FAULT,
		MARK_MESSAGE, MARK_MESSAGE
	};
	struct kept *p = NULL;
	int i;

	for (i = 0; kept != NULL && p == NULL && i < 16; i++)
		p = draw_mark(table[below(sizeof table)]);
	return p;
}

/* Draws a run and a time, such that much of the run is left. NULL: there is none. */
static const struct witness *draw_witness(void)
{
	const struct witness *w = NULL;
	const struct kept *p;
	int i;

	for (i = 0; i < TRIES; i++) {
		p = draw_any();
		if (p == NULL)
			return NULL;
		w = &p->kp_witnesses[below((unsigned)p->kp_nr)];
		if (below(256) < w->i_left)
			break;
	}
	return w;
}

/* Bends a course at a time. */
static void bend(struct sim_course *c, struct sim_bend by)
{
	while (c->co_nr > 0 && c->co_bends[c->co_nr - 1].be_at >= by.be_at)
		c->co_nr--;
	if (c->co_nr == SIM_BENDS)
		c->co_nr--;
	c->co_bends[c->co_nr++] = by;
}

void sim_guide(uint64_t number, struct sim_course *c)
{
	const struct witness *w;
	utime_ns at;
	int host = 0;

	stream = sim_mix(number);
	*c = (struct sim_course) { .co_seed = number };
	w = draw_witness();
	if (w == NULL)
		return;
	at = w->i_at / UTIME_US + 1;
	if (below(4) == 0)
		at -= 1 + (utime_ns)below(1u << below(EARLIER));
	if (below(8) != 0)
		host = w->i_host;
	*c = w->i_course;
	bend(c, (struct sim_bend) { (at < 1 ? 1 : at) * UTIME_US, host, number });
}

/* Courses as text. */

const char *sim_course_text(const struct sim_course *c, char text[SIM_TEXT])
{
	size_t nr = 0;
	int i;

	for (i = c->co_nr - 1; i >= 0; i--) {
		const struct sim_bend *b = &c->co_bends[i];

		nr += (size_t)snprintf(text + nr, SIM_TEXT - nr, "%llu@%lld",
				       (unsigned long long)b->be_seed,
				       (long long)(b->be_at / UTIME_US));
		if (b->be_host != 0)
			nr += (size_t)snprintf(text + nr, SIM_TEXT - nr, ".%d",
					       b->be_host);
		text[nr++] = ',';
	}
	snprintf(text + nr, SIM_TEXT - nr, "%llu", (unsigned long long)c->co_seed);
	return text;
}

/* Reads "TIME" or "TIME.HOST". Returns where it ends; NULL: it is wrong. */
static char *bend_read(char *end, struct sim_bend *b)
{
	long long at = strtoll(end, &end, 10);
	long host = *end == '.' ? strtol(end + 1, &end, 10) : 0;

	b->be_at = at * UTIME_US;
	b->be_host = (int)host;
	return at > 0 && at < LATEST && host >= 0 && host <= USIM_HOSTS ? end : NULL;
}

bool sim_course_read(const char *text, struct sim_course *c)
{
	struct sim_bend bends[SIM_BENDS];
	int nr = 0;
	char *end;

	*c = (struct sim_course) { .co_seed = 0 };
	for (;; text = end + 1) {
		uint64_t seed;

		errno = 0;
		seed = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || errno != 0)
			return false;
		c->co_seed = seed;
		if (*end != '@')
			break;
		if (nr == SIM_BENDS)
			return false;
		bends[nr] = (struct sim_bend) { .be_seed = seed };
		end = bend_read(end + 1, &bends[nr++]);
		if (end == NULL || *end != ',' ||
		    (nr > 1 && bends[nr - 1].be_at >= bends[nr - 2].be_at))
			return false;
	}
	while (nr > 0)
		c->co_bends[c->co_nr++] = bends[--nr];
	return *end == 0;
}
