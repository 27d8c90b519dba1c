/* SPDX-License-Identifier: MIT */
/* m_wakes.c: scenarios of wakes.h: what a processor and wakers do with it. */

#include "model.h"
#include "wakes.h"

#define WAKERS	3

/* Two threads of one processor; each waits as often as it is woken, ends. */
static struct {
	struct inbox inbox;
	struct wakes wakes[2];
	int          left[2];		/* waits */
	int          runs[2];		/* it can: is in the queue */
	int          data[WAKERS];	/* written before the wakes, plain */
} s;

static void init(int first, int second)
{
	inbox_init(&s.inbox);
	wakes_init(&s.wakes[0]);
	wakes_init(&s.wakes[1]);
	s.left[0] = first;
	s.left[1] = second;
	NAME(s.inbox.i_tail);
	NAME(s.inbox.i_head);
	NAME(s.inbox.i_stub);
	NAME(s.wakes[0].w_posted);
	NAME(s.wakes[1].w_posted);
	NAME(s.wakes[0].w_node);
	NAME(s.wakes[1].w_node);
}

/* A new thread is a thread that waits: here, until the first of its wakes. */
static void init_two(void)	{ init(2, 0); }
static void init_three(void)	{ init(3, 0); }
static void init_four(void)	{ init(4, 0); }
static void init_both(void)	{ init(2, 2); }

static void ready(struct wakes *w, int nr)
{
	if (wakes_add(w, nr)) {
		MUST(!s.runs[w - s.wakes]);
		s.runs[w - s.wakes] = 1;
	}
}

static void drain(void)
{
	struct wakes *w;
	int nr = 0;

	while ((w = wakes_take(&s.inbox, &nr)) != NULL) {
		MUST(nr > 0);
		ready(w, nr);
	}
}

/* Its memory is given to somebody else. */
static void end(int which)
{
	struct wakes *w = &s.wakes[which];

	while (wakes_pending(w)) {
		drain();
		model_pause(10 + which);
	}
	MUST(w->w_count == 0);
	w->w_posted = 77;
	w->w_node.n_next = NULL;
}

/* From a wait to the next that blocks. */
static void run(int which)
{
	MUST(s.runs[which]);
	s.runs[which] = 0;
	while (--s.left[which] > 0)
		if (wakes_wait(&s.wakes[which]))
			return;
	end(which);
}

static void processor(void)
{
	while (s.left[0] + s.left[1] > 0) {
		model_turn(1);
		drain();
		if (s.runs[0])
			run(0);
		else if (s.runs[1])
			run(1);
		else
			model_pause(1);
	}
}

static void one_processor(void)
{
	processor();
	MUST(s.data[0] == 1 && s.data[1] == 2);
}

/* The second thread is woken by its own processor, too. */
static void processor_wakes(void)
{
	ready(&s.wakes[1], 1);
	processor();
	MUST(s.data[0] == 1 && s.data[1] == 2);
}

static void wake(int who, int which, int nr)
{
	s.data[who] = who + 1;
	while (nr-- > 0)
		(void)wakes_post(&s.wakes[which], &s.inbox);
}

static void zero_once(void)	{ wake(0, 0, 1); }
static void one_once(void)	{ wake(1, 0, 1); }
static void two_once(void)	{ wake(2, 0, 1); }
static void zero_twice(void)	{ wake(0, 0, 2); }
static void one_twice(void)	{ wake(1, 0, 2); }
static void both(void)		{ wake(1, 1, 1); wake(1, 0, 1); }

const struct model_scenario scenarios[] = {
	{ "wakes: one from each of two", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_two,
	  { one_processor, zero_once, one_once }, NULL },
	{ "wakes: two from one, one from another", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_three,
	  { one_processor, zero_twice, one_once }, NULL },
	{ "wakes: two threads, also woken from here", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_both, { processor_wakes, zero_once, both }, NULL },
	{ "wakes: one from each of three", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init_three,
	  { one_processor, zero_once, one_once, two_once }, NULL },
	{ "wakes: two from each of two", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init_four,
	  { one_processor, zero_twice, one_twice }, NULL },
	{ 0 }
};
