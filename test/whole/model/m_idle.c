/* SPDX-License-Identifier: MIT */
/* m_idle.c: scenarios of idle.h: processors, wakes, holds, and the end. */

/*
 * A processor here is uproc_look(), with the steps of uproc_post(), as in
 * uproc.c. To keep the state small, each processor has one thread.
 *
 * Deadlines in real time: processor 0 sleeps until its deadline, and then its
 * thread runs. Nothing but the deadline wakes that thread. A timed sleep ends at
 * once, since any delay is a delay of the next step, too.
 *
 * Virtual time: each thread sleeps until deadlines, as in uproc.c. Processor 1
 * may wake itself for a moment, as a watch of ws.c. Each thread runs exactly at
 * its deadlines. The clock jumps only while no thread can run: a plain look at
 * the others would be a race otherwise. (A processor that wakes itself may see
 * the new time before the jump has woken all others, or too late. Then the last
 * that goes to sleep wakes it again.)
 */
#include "model.h"
#include "wakes.h"
#include "park.h"
#define upark_futex_wait_for(word, value, ns) \
	((void)(word), (void)(value), (void)(ns))
#include "idle.h"

#define PROCS	2
#define NEVER	100
#define DEADLINES	2		/* of a thread, at most */

static struct {
	struct proc {
		struct uinbox p_inbox;
		int           p_asleep;
		struct uwakes p_wakes;	/* of its thread */
		int           p_runs;	/* the thread can run */
		int           p_got;	/* wakes so far */
		int           p_data;	/* plain, written before a wake */
		int           p_deadline;	/* sleeps until then */
		int           p_plan[DEADLINES + 1];	/* virtual deadlines */
		int           p_due;	/* the next (atomic) */
		int           p_dozes;	/* and looks again, so often */
	} proc[PROCS];
	int nr;
	int idle;
	int stop;
	int sends;			/* processor 0 sends the first wake */
	int expected;			/* sum of all p_got at the end */
	int now;			/* virtual time (atomic) */
	int jumps;			/* plain */
	int dozes;			/* a processor wakes itself */
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

static bool doze_busy(struct proc *p)
{
	bool woken;

	uidle_hold(&s.idle);
	woken = uidle_doze(&s.idle, s.nr, &p->p_asleep, 1);
	uidle_unhold(&s.idle);
	return woken;
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
		upark_prepare(&p->p_asleep);		/* park S1, S2 */
		if ((!uinbox_empty(&p->p_inbox) || stopped()) &&	/* idle S3 */
		    upark_cancel(&p->p_asleep)) {
			model_pause(1);
			continue;
		}
		if (!p->p_deadline)
			uidle_sleep(&s.idle, s.nr, &p->p_asleep);	/* idle S4 */
		else if (!doze_busy(p)) {
			p->p_deadline = 0;
			p->p_runs = 1;
			(void)uwakes_add(&p->p_wakes, 1);
		}
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

/* A deadline in real time: its thread wakes the other. */

static void init_deadline(void)
{
	init(2, 0, 0);
	s.proc[0].p_deadline = 1;
	s.expected = 2;
}

static void zero_wakes(void)
{
	struct proc *p = &s.proc[0];

	while (look(p)) {
		p->p_runs = 0;
		p->p_got++;
		s.proc[0].p_data = 5;
		post(&s.proc[1]);
		MUST(uwakes_wait(&p->p_wakes));
	}
}

static void one_takes(void)
{
	struct proc *p = &s.proc[1];

	while (look(p)) {
		p->p_runs = 0;
		p->p_got++;
		MUST(uwakes_wait(&p->p_wakes));
	}
}

/* Virtual time. */

static void plan(int nr, int first, int second)
{
	struct proc *p = &s.proc[nr];

	p->p_plan[0] = first;
	p->p_plan[1] = second;
	p->p_plan[2] = NEVER;
	p->p_due = first;
	s.expected += (first != NEVER) + (second != NEVER);
	NAME(s.now);
	NAME(s.proc[0].p_due);
	NAME(s.proc[1].p_due);
}

static void init_virtual(int holds, int dozes)
{
	init(2, 0, holds);
	plan(0, 1, 3);
	plan(1, 2, NEVER);
	s.dozes = s.proc[1].p_dozes = dozes;
}

static void init_clock(void)		{ init_virtual(0, 0); }
static void init_clock_hold(void)	{ init_virtual(1, 0); }
static void init_clock_doze(void)	{ init_virtual(0, 1); }

static void init_clock_both(void)
{
	init(2, 0, 0);
	plan(0, 1, NEVER);
	plan(1, 1, NEVER);
}

static void init_clock_alone(void)
{
	init(1, 0, 1);
	plan(0, 1, NEVER);
	s.proc[1].p_due = NEVER;
}

static int due_of(const struct proc *p)
{
	return __atomic_load_n(&p->p_due, __ATOMIC_RELAXED);
}

static bool is_due(const struct proc *p)
{
	return due_of(p) <= __atomic_load_n(&s.now, __ATOMIC_RELAXED);
}

static int next_due(void)
{
	int due = NEVER;
	int i;

	for (i = 0; i < s.nr; i++)
		if (due_of(&s.proc[i]) < due)
			due = due_of(&s.proc[i]);
	return due;
}

static bool jump(void)
{
	int due = next_due();
	int i;

	if (due == NEVER)
		return false;
	for (i = 0; i < s.nr && !s.dozes; i++)
		MUST(!s.proc[i].p_runs);
	if (due > __atomic_load_n(&s.now, __ATOMIC_RELAXED)) {
		s.jumps++;
		__atomic_store_n(&s.now, due, __ATOMIC_SEQ_CST);
	} else
		MUST(s.dozes);
	for (i = 0; i < s.nr; i++)
		if (due_of(&s.proc[i]) <= due)
			uidle_wake(&s.idle, &s.proc[i].p_asleep);
	return true;
}

static void sleep_virtual(struct proc *p)
{
	if (!uidle_enter_unless_last(&s.idle, s.nr)) {
		if (next_due() != NEVER) {
			uidle_stay(&s.idle, &p->p_asleep);
			(void)jump();
			return;
		}
		(void)uidle_enter(&s.idle, s.nr);
	}
	if (p->p_dozes > 0) {
		p->p_dozes--;
		(void)uidle_doze_entered(&s.idle, &p->p_asleep, 1);
	} else
		upark_sleep(&p->p_asleep);
}

/* Runs the thread, up to its next deadline. */
static void run_virtual(struct proc *p)
{
	p->p_runs = 1;
	MUST(due_of(p) == __atomic_load_n(&s.now, __ATOMIC_RELAXED));
	p->p_got++;
	p->p_plan[0] = p->p_plan[1];
	p->p_plan[1] = p->p_plan[2];
	__atomic_store_n(&p->p_due, p->p_plan[0], __ATOMIC_RELAXED);
	p->p_runs = 0;
}

static void virtual(int nr)
{
	struct proc *p = &s.proc[nr];

	while (!stopped()) {
		model_turn(2);
		if (is_due(p)) {
			run_virtual(p);
			continue;
		}
		upark_prepare(&p->p_asleep);		/* park S1, S2 */
		if ((is_due(p) || stopped()) &&		/* idle S3 */
		    upark_cancel(&p->p_asleep))
			continue;
		sleep_virtual(p);			/* idle S4 */
	}
}

static void zero_virtual(void)	{ virtual(0); }
static void one_virtual(void)	{ virtual(1); }

/* Like uproc_release(). */
static void releases(void)
{
	for (;;) {
		model_turn(3);
		if (uidle_enter_unless_last(&s.idle, s.nr))
			return;
		if (!jump())
			break;
	}
	uidle_release(&s.idle);
}

static void ends_virtual(void)
{
	int got = 0;
	int i;

	uidle_wait(&s.idle, s.nr);
	MUST(next_due() == NEVER);
	for (i = 0; i < s.nr; i++)
		got += s.proc[i].p_got;
	MUST(got == s.expected && s.jumps == s.now);
	__atomic_store_n(&s.stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < s.nr; i++)
		(void)upark_wake(&s.proc[i].p_asleep);
}

#define ANY	MODEL_ANY

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
	{ "idle: a deadline", 2, 4, 0,
	  &s, sizeof s, init_deadline, { zero_wakes, one_takes, watcher },
	  NULL },
	{ "clock: one, and a hold", ANY, ANY, 0, &s, sizeof s,
	  init_clock_alone, { zero_virtual, ends_virtual, releases }, NULL },
	{ "clock: two at the same time", 2, ANY, 0, &s, sizeof s,
	  init_clock_both, { zero_virtual, one_virtual, ends_virtual }, NULL },
	{ "clock: two, one after the other", 2, ANY, 0, &s, sizeof s,
	  init_clock, { zero_virtual, one_virtual, ends_virtual }, NULL },
	{ "clock: two, of which one wakes itself", 1, 3, 0, &s, sizeof s,
	  init_clock_doze, { zero_virtual, one_virtual, ends_virtual }, NULL },
	{ "clock: two, and a hold", 1, 2, 0, &s, sizeof s, init_clock_hold,
	  { zero_virtual, one_virtual, ends_virtual, releases }, NULL },
	{ 0 }
};
