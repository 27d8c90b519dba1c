/* SPDX-License-Identifier: MIT */
/* rounds.h: when a processor that has threads to run looks outside. A part of uproc.c. */

#ifndef UPROC_ROUNDS_H
#define UPROC_ROUNDS_H

/*
 * A processor that has threads to run looks now and then for wakes by others, for
 * deadlines and for events. Between two looks is a round: of ROUND switches at most,
 * and of UWAIT_LATE of running, or of one thread that runs for longer. To read the
 * clock takes longer than a switch. So it is asked after as many runs as take ASK,
 * judged by the longest of late (r_run), and the processor looks if it would be late
 * after that many more. r_run is the longest mean between two questions, and each
 * round forgets a part of it. At the start it is UWAIT_LATE, so each run is
 * measured. A round in which running times have grown is late, by ROUND runs at most.
 *
 * If nothing is awaited, no wakes by others came with the last look, and ROUND runs
 * take no longer than ASK, the clock is not asked at all. A wake that comes all the
 * same is taken after ROUND switches, and the next one in time. Time without a
 * thread, such as a sleep, does not count, nor does virtual time. A round ends at a
 * multiple of ROUND, so what ws and ll do once in so many switches falls on a look.
 *
 * REJECTED
 *
 * A look at the inbox less often: remote wakes come late.
 */

#include "uproc_inside.h"

#define ROUND		64u		/* switches between two looks */
#define ASK		(UWAIT_LATE / 16)	/* between two questions */

/* Returns after how many switches the clock is asked again. */
static unsigned runs_each(const struct uproc *p)
{
	utime_ns run = p->p_round.r_run;

	return run <= ASK / ROUND ? ROUND : run < ASK ? ASK / run : 1;
}

/* Returns the switch that ends the round. */
static unsigned round_last(const struct uproc *p)
{
	return (p->p_round.r_began | (ROUND - 1)) + 1;
}

/* Asks again as soon as that is needed. */
static void ask_next(struct uproc *p, unsigned switches)
{
	unsigned left = round_last(p) - switches;
	unsigned nr = p->p_waits.wb_looked != 0 ? runs_each(p) : ROUND;

	p->p_round.r_ask = switches + (nr < left ? nr : left);
}

/* Asks the clock, and learns how long threads run. */
static utime_ns runs_learn(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;
	unsigned nr = switches - r->r_asked;
	utime_ns now = unow();

	if (nr > 0 && (now - r->r_at) / nr > r->r_run)
		r->r_run = (now - r->r_at) / nr;
	r->r_asked = switches;
	r->r_at = now;
	return now;
}

int uproc_ask(struct uproc *p, unsigned switches)
{
	utime_ns looked = p->p_waits.wb_looked;

	if ((int)(round_last(p) - switches) <= 0)
		return true;
	if (looked != 0 && runs_learn(p, switches) - looked +
	    runs_each(p) * p->p_round.r_run > UWAIT_LATE)
		return true;
	ask_next(p, switches);
	return false;
}

void uproc_round_end(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;

	if (p->p_waits.wb_looked != 0 && switches != r->r_asked)
		(void)runs_learn(p, switches);
	r->r_came = !uinbox_empty(&p->p_inbox) || uwait_posted(&p->p_waits);
}

void uproc_round_begin(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;
	bool timed = (r->r_came || runs_each(p) < ROUND ||
		      uwait_due(&p->p_waits) != UNEVER ||
		      uwait_outside(&p->p_waits)) && !utime_is_virtual();

	if (switches != r->r_began && p->p_waits.wb_looked != 0)
		r->r_run -= r->r_run / 8;
	p->p_waits.wb_looked = timed ? unow() : 0;
	r->r_began = r->r_asked = switches;
	r->r_at = p->p_waits.wb_looked;
	ask_next(p, switches);
}

#endif /* UPROC_ROUNDS_H */
