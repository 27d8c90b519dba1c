/* SPDX-License-Identifier: MIT */
/* rest.h: memory that a processor gives back when it sleeps for long. A part of uproc.c. */

#ifndef UPROC_REST_H
#define UPROC_REST_H

/*
 * A processor that has slept for REST gives back memory that it keeps for work
 * to come. That is the free blocks of its pool (umem.c), and stack that threads
 * have touched on its lanes, below the slices (usched_trim_lane()). This costs a few
 * system calls for each sleep longer than REST. Then the processor sleeps until
 * it is woken.
 *
 * A thread that was promised no private lane, and has waited there for COOL_EACH, is
 * copied out, and its memory goes back (usched_cool()). A processor that runs passes
 * over its private lanes, COOL_NR at a time, so that no event waits for long. A pass
 * copies out, and a later one, COOL_EACH after its end, gives back where nothing ran
 * since. A processor that sleeps makes whole passes, until nothing is left to do. Not
 * under virtual time. Where threads move, a processor does all that for lanes that it
 * has at that moment (mv_has).
 */

#include "lanes.h"

#if !defined(REST)		/* tests rest sooner */
#define REST		(100 * UTIME_MS)
#define COOL_EACH	UTIME_S		/* between passes over private lanes */
#define COOL_STEP	(5 * UTIME_MS)	/* between looks at COOL_NR of them */
#endif
#define REST_STACK	((size_t)32 << 10)	/* bytes of each lane stay */
#define COOL_NR		16
#define COOL_LOOKS	1024		/* without the clock */

/* Returns whether no other processor runs the threads of a lane: mv_has() */
static bool has(const struct uproc *p, int lane)
{
	const struct uproc_move_ops *m = &p->p_set->set_ops.op_move;

	return m->mv_has != NULL ? m->mv_has(p, lane) : m->mv_lanes == lanes_each;
}

/* Looks at some private lanes at the time now, and ends the pass at the last. */
static void cool(struct uproc *p, int nr, utime_ns now)
{
	struct uproc_cool *c = &p->p_cool;
	int last = usched_private_nr(p->p_sched.s_private);

	if (c->c_at == 0)
		c->c_more = false;
	for (; nr > 0 && c->c_at < last; nr--) {
		c->c_at++;
		c->c_more |= usched_cool(&p->p_sched, c->c_at,
					 has(p, p->p_sched.s_lane_nr + c->c_at));
	}
	if (c->c_at >= last)
		c->c_at = 0;
	c->c_due = now + (c->c_at != 0 ? COOL_STEP : COOL_EACH);
}

void uproc_cool_in_time(struct uproc *p)
{
	utime_ns now = p->p_waits.wb_looked != 0 ? p->p_round.r_at :
		++p->p_cool.c_looks % COOL_LOOKS == 0 ? unow() : 0;

	if (now > p->p_cool.c_due && !utime_is_virtual())
		cool(p, COOL_NR, now);
}

/*
 * Gives back memory that p may not need soon, after its nth sleep in a row without a
 * wake. First what it keeps for work to come, then lanes.
 */
static void rest(struct uproc *p, int nth)
{
	const struct usched *s = &p->p_sched;
	int i, nr = s->s_lane_nr + usched_private_nr(s->s_private);

	if (nth > 1) {
		p->p_cool.c_at = 0;	/* all of them */
		cool(p, INT_MAX, unow());
		return;
	}
	umem_pool_trim(&p->p_pool);
	for (i = 1; i <= nr; i++) {
		if (has(p, i))
			usched_trim_lane(&p->p_sched, i, REST_STACK);
	}
}

utime_ns uproc_rest_in(const struct uproc *p, struct uproc_rests *r)
{
	const struct uproc_cool *c = &p->p_cool;
	utime_ns now = unow();

	if (r->r_due == 0 && (utime_is_virtual() || (r->r_nr > 1 && !c->c_more) ||
	    (r->r_nr > 0 && usched_private_nr(p->p_sched.s_private) == 0)))
		r->r_due = UNEVER;
	else if (r->r_due == 0)
		r->r_due = r->r_nr == 0 || now >= c->c_due ? now + REST : c->c_due;
	return r->r_due == UNEVER ? UNEVER : now < r->r_due ? r->r_due - now : 1;
}

void uproc_rest(struct uproc *p, struct uproc_rests *r)
{
	if (r->r_due == UNEVER || unow() < r->r_due)
		return;
	rest(p, ++r->r_nr);
	r->r_due = 0;
}

#endif /* UPROC_REST_H */
