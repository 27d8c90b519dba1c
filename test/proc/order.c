/* SPDX-License-Identifier: MIT */
/* order: rr is first in, first out; in ll the last woken runs first. */
/* VARIANTS: RR LL PR */

/*
 * Threads of one processor do random things: wake, make, yield, wait. A model
 * of the order, as rr.h and ll.h describe it, says each time which thread is
 * next. In ll, a pair that plays ping-pong forever does not hold up the n-th
 * thread of the queue for more than n * (LL_RUN + 1) switches.
 */
#include "either.h"

#define NR	40
#define ALL	400
#define STEPS	20000

static thread *threads[ALL];
static unsigned state;
static long steps;

/* The model. */

static int queue[1 << 16];
static unsigned head, tail;
static int count[ALL];		/* wakes less waits; -1: it waits */
static int made;
static int hot;
static unsigned nexts;

static void put(int i)
{
	queue[tail++ % COUNT(queue)] = i;
}

static int next(void)
{
#if defined(LL)
	int i = hot;

	hot = -1;
	if (nexts++ % (LL_RUN + 1) != 0 && i >= 0)
		return i;
	if (i >= 0)
		put(i);
#endif
	CHECK_THAT(head, !=, tail);
	return queue[head++ % COUNT(queue)];
}

static void model_wake(int i)
{
	if (count[i]++ >= 0)
		return;
#if defined(LL)
	if (hot >= 0)
		put(hot);
	hot = i;
#else
	put(i);
#endif
}

static void step(void *arg);

static void model_make(void)
{
	if (made == ALL)
		return;
	threads[made] = make(0, step, (void *)(intptr_t)made);
	put(made++);
}

static void one_yield(int me)
{
	put(me);
	yield();
	CHECK_IS(next(), me);
}

static void one_wait(int me)
{
	bool block = --count[me] < 0;

	if (block && head == tail && hot < 0) {
		count[me]++;		/* no thread would be left */
		return;
	}
	wait_one();
	if (block)
		CHECK_IS(next(), me);
}

static void step(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	CHECK_IS(next(), me);
	while (++steps < STEPS) {
		unsigned r = check_random(&state) % 16;

		i = (int)(check_random(&state) % (unsigned)made);
		if (r < 7) {
			SCHED(wake)(threads[i]);
			model_wake(i);
		} else if (r < 8 && check_random(&state) % 8 == 0)
			model_make();
		else if (r < 11)
			one_yield(me);
		else
			one_wait(me);
	}
	for (i = 0; i < made; i++) {
		if (count[i] < 0) {
			SCHED(wake)(threads[i]);
			model_wake(i);
		}
	}
}

static void random_order(void)
{
	int i;

	head = tail = 0;
	memset(count, 0, sizeof count);
	made = 0;
	hot = -1;
	nexts = 0;
	steps = 0;
	begin(1, 0);
	for (i = 0; i < NR; i++)
		model_make();
	start_and_finish();
	CHECK(head == tail && hot < 0);
}

/*
 * Wakes from elsewhere run threads in the order in which they were sent, if no
 * thread is awake.
 */

static int order[ALL];
static long done;

static void note(void *arg)
{
	wait_one();
	order[done++] = (int)(intptr_t)arg;
}

static void sent_order(void)
{
	long i;

	done = 0;
	begin(2, 0);
	for (i = 0; i < ALL; i++)
		threads[i] = make(0, note, (void *)i);
	for (i = 0; i < ALL; i++)
		SCHED(wake)(threads[i * 7 % ALL]);
	start_and_finish();
	CHECK_IS(done, ALL);
	for (i = 0; i < ALL; i++)	/* they were sent before the start */
		CHECK_IS(order[i], i);
}

#if defined(LL)

#define IN_QUEUE	50
#define TURNS		20

static long switches, live;
static thread *pair[2];

static void for_ever(void *arg)
{
	thread **other = &pair[!(intptr_t)arg];

	while (live > 0) {
		ll_wake(*other);
		wait_one();
		switches++;
	}
	if (live-- == 0)		/* the first; the other still waits */
		ll_wake(*other);
}

static void queued(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		struct uproc *p = uproc_of(STRUCT(ll_self()));
		long place = p->p_queue.q_tail - p->p_queue.q_head + 1;
		long from = switches;

		yield();
		switches++;
		CHECK_THAT(switches - from, <=, place * (LL_RUN + 1));
	}
	live--;
}

static void bound(void)
{
	long i;

	live = IN_QUEUE;
	begin(1, 0);
	for (i = 0; i < 2; i++)
		pair[i] = make(0, for_ever, (void *)i);
	for (i = 0; i < IN_QUEUE; i++)
		make(0, queued, NULL);
	start_and_finish();
	CHECK_THAT(switches, >, IN_QUEUE * TURNS);
}

#else

static void bound(void)
{
}

#endif

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	state = check_seed;
	for (i = 0; i < 50; i++)
		random_order();
	sent_order();
	bound();
	return 0;
}
