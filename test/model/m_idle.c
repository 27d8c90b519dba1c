/* SPDX-License-Identifier: MIT */
/* m_idle.c: scenarios of idle.h: processors, wakes, holds, and the end. */

/*
 * A processor here is uproc_look(), with the steps of uproc_post(), as in
 * uproc.c. To keep the state small, each processor has one thread.
 */
#include "model.h"
#include "wakes.h"
#include "idle.h"

#define PROCS	2

static struct {
	struct proc {
		struct uinbox p_inbox;
		int           p_asleep;
		struct uwakes p_wakes;	/* of its thread */
		int           p_runs;	/* the thread can run */
		int           p_got;	/* wakes so far */
		int           p_data;	/* plain, written before a wake */
	} proc[PROCS];
	int nr;
	int idle;
	int stop;
	int sends;			/* processor 0 sends the first wake */
	int expected;			/* sum of all p_got at the end */
} s;

static void init(int nr, int sends, int holds)
{
	int i;

	s.nr    = nr;
	s.sends = sends;
	s.idle  = -holds;
	for (i = 0; i < nr; i++) {
		uinbox_init(&s.proc[i].p_inbox);
		uwakes_init(&s.proc[i].p_wakes);
	}
	NAME(s.idle);
	NAME(s.stop);
	NAME(s.proc[0].p_asleep);
	NAME(s.proc[1].p_asleep);
	NAME(s.proc[0].p_inbox.i_tail);
	NAME(s.proc[1].p_inbox.i_tail);
	NAME(s.proc[0].p_inbox.i_head);
	NAME(s.proc[1].p_inbox.i_head);
	NAME(s.proc[0].p_inbox.i_stub);
	NAME(s.proc[1].p_inbox.i_stub);
	NAME(s.proc[0].p_wakes.w_posted);
	NAME(s.proc[1].p_wakes.w_posted);
	NAME(s.proc[0].p_wakes.w_node);
	NAME(s.proc[1].p_wakes.w_node);
}

static void init_pair(void)
{
	init(2, 1, 0);
	s.expected = 2;
}

static void init_nothing(void)
{
	init(2, 0, 0);
}

static void init_hold(void)
{
	init(1, 0, 1);
	s.expected = 1;
}

static void init_two_holds(void)
{
	init(1, 0, 2);
	s.expected = 2;
}

static void init_pair_hold(void)
{
	init(2, 0, 1);
	s.expected = 2;
}

static void post(struct proc *p)
{
	if (uwakes_post(&p->p_wakes, &p->p_inbox))
		uidle_wake(&s.idle, &p->p_asleep);
}

static void drain(struct proc *p)
{
	struct uwakes *w;
	int nr = 0;

	while ((w = uwakes_take(&p->p_inbox, &nr)) != NULL) {
		MUST(w == &p->p_wakes && nr > 0);
		if (uwakes_add(w, nr)) {
			MUST(!p->p_runs);
			p->p_runs = 1;
		}
	}
}

static bool stopped(void)
{
	return __atomic_load_n(&s.stop, __ATOMIC_SEQ_CST) != 0;
}

static bool look(struct proc *p)
{
	for (;;) {
		model_turn(1);
		drain(p);
		if (p->p_runs)
			return true;
		if (stopped())
			return false;
		upark_prepare(&p->p_asleep);			/* S1 S2 */
		if ((!uinbox_empty(&p->p_inbox) || stopped()) &&	/* S3 */
		    upark_cancel(&p->p_asleep)) {
			model_pause(1);
			continue;
		}
		uidle_sleep(&s.idle, s.nr, &p->p_asleep);	/* S4 */
	}
}

/* Runs the thread. The second thread answers each wake of the first. */
static void run(struct proc *p)
{
	p->p_runs = 0;
	do {
		p->p_got++;
		if (p == &s.proc[1]) {
			s.proc[0].p_data = 5;
			post(&s.proc[0]);
		}
	} while (!uwakes_wait(&p->p_wakes));
}

static void processor(int nr)
{
	struct proc *p = &s.proc[nr];

	if (nr == 0 && s.sends > 0)
		post(&s.proc[1]);
	while (look(p))
		run(p);
}

static void zero(void)	{ processor(0); }
static void one(void)	{ processor(1); }

/* Like uproc_fini(): nothing is under way, and all that was done is visible. */
static void watcher(void)
{
	int got = 0;
	int i;

	uidle_wait(&s.idle, s.nr);
	for (i = 0; i < s.nr; i++) {
		got += s.proc[i].p_got;
		MUST(!s.proc[i].p_runs);
	}
	MUST(got == s.expected);
	MUST(s.nr == 1 || s.expected == 0 || s.proc[0].p_data == 5);
	s.idle = 77;			/* no processor counts any more */
	__atomic_store_n(&s.stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < s.nr; i++)
		(void)upark_wake(&s.proc[i].p_asleep);
}

static void holder(void)
{
	post(&s.proc[s.nr - 1]);
	uidle_release(&s.idle);
}

const struct model_scenario scenarios[] = {
	{ "idle: nothing to do", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_nothing, { zero, one, watcher }, NULL },
	{ "idle: a hold, and a wake from outside", 2, MODEL_ANY, 0,
	  &s, sizeof s, init_hold, { zero, watcher, holder }, NULL },
	{ "idle: a wake to and fro", 1, 3, 0,
	  &s, sizeof s, init_pair, { zero, one, watcher }, NULL },
	{ "idle: two holds", MODEL_NOT, 2, 0,
	  &s, sizeof s, init_two_holds,
	  { zero, watcher, holder, holder }, NULL },
	{ "idle: to and fro, and a hold", MODEL_NOT, 2, 0,
	  &s, sizeof s, init_pair_hold, { zero, one, watcher, holder }, NULL },
	{ 0 }
};
