/* SPDX-License-Identifier: MIT */
/* m_wakes.c: scenarios of wakes.h: a processor, and wakers. */

#include "model.h"
#include "usched.h"
#include "wakes.h"

#define WAKERS	3

/*
 * One processor with two threads. Each thread waits as often as it is woken,
 * and ends. Or the first thread ends earlier: at once, or when it knows of a
 * wake, taken or not; then it is woken until it is joined. After its end its
 * processor may compute until the joiner has left, so the joiner must not
 * depend on a look at the inbox.
 */
static struct {
	struct uinbox inbox;
	struct uwakes wakes[2];
	int           left[2];		/* waits that are left */
	int           runs[2];		/* it can run: is in the queue */
	int           data[WAKERS];	/* plain, written before the wakes */
	int           joined;		/* the first is joinable */
	int           sent;		/* wakers that are done (atomic) */
	int           know;		/* it ends when s.sent is this */
	int           told;		/* its joiner knows the end (atomic) */
	int           left_by;		/* its joiner has left (atomic) */
	int           computes;		/* the processor, until then */
	int           freed[2];		/* [0] also by the joiner (atomic) */
} s;

static void init(int first, int second)
{
	uinbox_init(&s.inbox);
	uwakes_init(&s.wakes[0]);
	uwakes_init(&s.wakes[1]);
	s.left[0] = first;
	s.left[1] = second;
	s.freed[1] = second == 0;
	NAME(s.inbox.i_tail);
	NAME(s.inbox.i_head);
	NAME(s.inbox.i_stub);
	NAME(s.wakes[0].w_posted);
	NAME(s.wakes[1].w_posted);
	NAME(s.wakes[0].w_node);
	NAME(s.wakes[1].w_node);
	NAME(s.sent);
	NAME(s.told);
	NAME(s.left_by);
	NAME(s.freed);
}

/* A new thread is a thread that waits; here, for the first of its wakes. */
static void init_two(void)	{ init(2, 0); }
static void init_three(void)	{ init(3, 0); }
static void init_four(void)	{ init(4, 0); }
static void init_both(void)	{ init(2, 2); }

/* The first thread runs, and has not waited. There is no second thread. */
static void init_ends(int know, int joined)
{
	init(1, 0);
	s.wakes[0].w_count = 0;
	s.runs[0] = 1;
	s.know = know;
	s.joined = s.computes = joined;
}

static void init_knows(void)	{ init_ends(1, 0); }
static void init_joined(void)	{ init_ends(0, 1); }
static void init_joined_knows(void)	{ init_ends(1, 1); }
static void init_joined_looks(void)	{ init_ends(0, 1); s.computes = 0; }

/* Gives the memory of the thread to another use. */
static void release(int which)
{
	s.wakes[which].w_count  = 77;
	s.wakes[which].w_posted = 77;
	s.wakes[which].w_node.n_next = NULL;
	__atomic_fetch_add(&s.freed[which], 1, __ATOMIC_RELEASE);
}

static void ready(struct uwakes *w, int nr)
{
	if (uwakes_add(w, nr)) {
		MUST(!s.runs[w - s.wakes]);
		s.runs[w - s.wakes] = 1;
	}
}

static void drain(void)
{
	struct uwakes *w;
	int nr = 0;

	while ((w = uwakes_take(&s.inbox, &nr)) != NULL) {
		MUST(nr != 0);
		if (nr > 0)
			ready(w, nr);
		else if (nr == UWAKES_FREE)
			release((int)(w - s.wakes));
	}
}

static void end(int which)
{
	struct uwakes *w = &s.wakes[which];

	while (__atomic_load_n(&s.sent, __ATOMIC_ACQUIRE) < s.know)
		model_pause(10);
	MUST(w->w_count == 0 || s.know || s.joined);
	if (!s.joined) {
		if (uwakes_close(w, UWAKES_LEFT))
			release(which);
		return;
	}
	(void)uwakes_close(w, 0);
	__atomic_store_n(&s.told, 1, __ATOMIC_RELEASE);
	while (s.computes && !__atomic_load_n(&s.left_by, __ATOMIC_RELAXED))
		model_pause(11);
}

/* Runs the thread up to its next wait that blocks. */
static void run(int which)
{
	MUST(s.runs[which]);
	s.runs[which] = 0;
	while (--s.left[which] > 0)
		if (uwakes_wait(&s.wakes[which]))
			return;
	end(which);
}

static void processor(void)
{
	for (;;) {
		model_turn(1);
		drain();
		if (s.runs[0])
			run(0);
		else if (s.runs[1])
			run(1);
		else if (__atomic_load_n(&s.freed[0], __ATOMIC_ACQUIRE) &&
			 s.freed[1])
			return;
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
		(void)uwakes_post(&s.wakes[which], &s.inbox);
}

/* Wakes, and lets the thread know that there is a wake. */
static void wake_and_tell(void)
{
	wake(0, 0, 1);
	__atomic_fetch_add(&s.sent, 1, __ATOMIC_RELEASE);
}

/*
 * Joins the thread, which this and another waker wake before or after its end.
 */
static void join_after(int sent)
{
	while (!__atomic_load_n(&s.told, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&s.sent, __ATOMIC_ACQUIRE) < sent)
		model_pause(12);
	if (uwakes_leave(&s.wakes[0]))
		release(0);
	__atomic_store_n(&s.left_by, 1, __ATOMIC_RELAXED);
}

static void wake_and_join(void)		{ wake(1, 0, 1); join_after(0); }
static void wake_and_join_both(void)	{ wake(1, 0, 1); join_after(1); }

static void done(void)
{
	MUST(s.freed[0] == 1);
	MUST(uinbox_take(&s.inbox) == NULL && uinbox_empty(&s.inbox));
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
	{ "wakes: it ends, and a wake is under way", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_knows, { processor, wake_and_tell }, done },
	{ "wakes: joinable, woken until it is joined", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_joined, { processor, wake_and_join }, done },
	{ "wakes: joinable, and the inbox is looked at", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_joined_looks, { processor, wake_and_join }, done },
	{ "wakes: joinable, woken by two", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init_joined,
	  { processor, wake_and_tell, wake_and_join_both }, done },
	{ "wakes: joinable, a wake under way, another after", MODEL_ANY,
	  MODEL_ANY, 0, &s, sizeof s, init_joined_knows,
	  { processor, wake_and_tell, wake_and_join_both }, done },
	{ "wakes: one from each of three", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init_three,
	  { one_processor, zero_once, one_once, two_once }, NULL },
	{ "wakes: two from each of two", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init_four,
	  { one_processor, zero_twice, one_twice }, NULL },
	{ 0 }
};
