/* SPDX-License-Identifier: MIT */
/* uplain.c: the base of a plain dispatcher: a set of call-backs of the program. */

/*
 * A single native thread runs such a dispatcher, which counts no wakes. The base is
 * made for the first deadline or source. s_next() calls utime_run() and utime_idle().
 *
 * Native threads that make calls (ucall.h) post to the base. They wake its native
 * thread by park.h, if that sleeps. A claimer in the native thread of a plain
 * dispatcher needs no post.
 */

#include "uwait_inside.h"
#include "record.h"

/* The base of a plain dispatcher. */
struct plain {
	struct uwait_base pl_base;	/* first */
	int               pl_asleep;	/* park.h */
};

struct uwait_base *uwait_plain_base(struct usched *s)
{
	struct plain *p = s->s_alloc(s, sizeof *p);

	if (p == NULL)
		return NULL;
	uwait_base_init(&p->pl_base, s, &uwait_plain_ops);
	p->pl_asleep = 0;
	s->s_waits = &p->pl_base;
	return s->s_waits;
}

/* A thread that runs has not waited: it could not block, and drains. */
static void plain_complete(struct uwait_base *here, struct uwait *w)
{
	struct ustack *u = w->w_stack;

	uwait_arrived(w);
	if (here != NULL && u == ustack_self())
		w->w_taken++;		/* as if s_wait() had taken a wake */
	else
		u->u_sched->s_wake(u->u_sched, u);
}

/* Puts w on the list of b, and wakes the native thread that runs b. */
static void plain_post(struct uwait_base *b, struct uwait *w)
{
	uwait_post(b, w);					/* park W1, W2 */
	USCHED_RACE(plain_post);
	(void)upark_wake(&((struct plain *)b)->pl_asleep);	/* park W3 */
}

static void plain_back(struct ustack *u, int nr)
{
	(void)u, (void)nr;		/* wakes are not counted */
}

static int plain_try(struct ustack *u)
{
	(void)u;
	return false;
}

static void plain_drain(struct ustack *u)
{
	if (u->u_sched->s_waits != NULL)
		uwait_take_posted(u->u_sched->s_waits);
}

static void plain_enter(struct uwait_base *b)
{
	(void)b;			/* a single native thread has the wheel */
}

static void plain_source(struct uwait_base *b, struct uwait_source *o)
{
	o->o_next   = b->wb_source;
	b->wb_source = o;
}

static void plain_hold(struct uwait_base *b, int on)
{
	(void)b, (void)on;		/* utime_idle() asks the sources */
}

const struct uwait_ops uwait_plain_ops = {
	.o_complete = plain_complete,
	.o_post     = plain_post,
	.o_back     = plain_back,
	.o_try      = plain_try,
	.o_drain    = plain_drain,
	.o_enter    = plain_enter,
	.o_leave    = plain_enter,
	.o_source   = plain_source,
	.o_hold     = plain_hold
};

void utime_run(struct usched *s)
{
	struct uwait_base *b = s->s_waits;

	if (b == NULL)
		return;
	if (uwait_must_look(b))
		uwait_look(b);
	if (b->wb_source != NULL)
		uwait_look_outside(b);
}

/* Sleeps in a source of b, unless something was posted. */
static void sleep_for_event(struct uwait_base *b, utime_ns due)
{
	int *asleep = &((struct plain *)b)->pl_asleep;
	utime_ns ns = UNEVER;

	/* Virtual time stands still while threads wait for events. */
	if (due != UNEVER && !utime_clock.c_virtual)
		ns = due - unow();
	USCHED_RACE(plain_S1);
	upark_prepare(asleep);				/* park S1, S2 */
	USCHED_RACE(plain_S3);
	if (!uwait_posted(b))				/* park S3 */
		uwait_sleep_outside(b, asleep, ns > 0 ? ns : 0);	/* park S4 */
	(void)upark_cancel(asleep);
}

/* Sleeps until the deadline of b, or an event. */
static void sleep_plain(struct uwait_base *b, utime_ns due)
{
	if (uwait_outside(b))
		sleep_for_event(b, due);
	else if (utime_clock.c_virtual)
		utime_jump(due);
	else
		(void)utime_native_sleep(due);
}

int utime_idle(struct usched *s)
{
	struct uwait_base *b = s->s_waits;

	if (b == NULL)
		return false;
	if (uwait_posted(b)) {			/* by uwait_give_way() */
		utime_run(s);
		return true;
	}
	if (uwait_due(b) == UNEVER && !uwait_outside(b))
		return false;
	sleep_plain(b, uwait_due(b));
	uwait_look(b);
	return true;
}

void utime_fini(struct usched *s)
{
	struct uwait_base *b = s->s_waits;

	if (b == NULL || b->wb_ops != &uwait_plain_ops)
		return;
	if (b->wb_timers != 0)
		usched_fail("utime_fini: a thread waits with a deadline");
	if (uwait_outside(b))
		usched_fail("utime_fini: a thread waits for an event");
	uwait_sources_fini(b);
	if (b->wb_wheel != NULL)
		s->s_free(s, b->wb_wheel, sizeof *b->wb_wheel);
	s->s_waits = NULL;
	s->s_free(s, b, sizeof(struct plain));
}
