/* SPDX-License-Identifier: MIT */
/* steal_fair: threads that always run cannot keep others from running. */
/* VARIANTS: once */

/*
 * choose W5, with one worker. The threads of a pair wake each other, and so
 * one of them is always in the slot. Behind it are threads that were made or
 * displaced (in the deque), that have yielded (in the queue), and pinned
 * threads that have yielded (kept). The n-th thread of a kind runs after n *
 * (WS_RUN + 1) switches times the number of kinds present. A thread that was
 * posted to joins the queue at most WS_RUN + 1 switches later. The worker
 * counts the switches. The same holds if, instead of the pair, a task makes the
 * next task, forever.
 */
#include "steal.h"

#define IN_QUEUE	30
#define TURNS		15
#define BATCH		20
#define BATCHES		15

enum { DEQUE = 1, QUEUE = 2, KEPT = 4, POSTED = 8 };

static thread *pair[2], *posted;
static long live, checked;
static int kinds;		/* how many kinds are present */

/* There is one worker, so nothing here need be atomic. */
static unsigned now(void)
{
	return worker_at(0)->w_switches;
}

static void check_bound(unsigned from, long place)
{
	CHECK_THAT((int)(now() - from), <=, (int)place * kinds * (WS_RUN + 1));
	checked++;
}

static void for_ever(void *arg)
{
	thread **other = &pair[!(intptr_t)arg];

	while (live > 0) {
		SCHED(wake)(*other);
		wait_one();
	}
	if (live-- == 0)		/* the first; the other still waits */
		SCHED(wake)(*other);
}

/* Each is the newest in the deque when its predecessor ends. */
static void for_ever_next(void *arg)
{
	if (live > 0)
		CHECK_IS(ws_spawn(for_ever_next, arg), 0);
}

static void yields(bool kept)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		long place = 1 + (kept ? ws_pinned_len(&worker_at(0)->w_pinned) :
				  uproc_queue_len(&worker_at(0)->w_proc.p_queue));
		unsigned from = now();

		yield();
		check_bound(from, place);
	}
	live--;
}

/* Without lanes all threads that have begun are kept. */
static void queued(void *arg)
{
	yields(!moves());
}

static void is_kept(void *arg)
{
	yields(true);
}

/* Threads that are made: in the deque, behind those that are there. */

static struct made {
	unsigned m_from;
	long     m_place;
} made[BATCH];

static long batch_left;

static void in_deque(void *arg)
{
	struct made *m = arg;

	check_bound(m->m_from, m->m_place);
	batch_left--;
}

/*
 * Waits in the deque, like the threads it makes: it wakes a thread after
 * itself.
 */
static void makes(void *arg)
{
	int i, j;

	for (i = 0; i < BATCHES; i++) {
		batch_left = BATCH;
		for (j = 0; j < BATCH; j++) {
			made[j].m_place = ws_deque_size(&worker_at(0)->w_deque) + 1;
			made[j].m_from  = now();
			make(0, in_deque, &made[j]);
		}
		while (batch_left > 0)
			yield();
	}
	live--;
}

/* A thread that is posted to: in the inbox, then in the queue. */

static unsigned post_from;
static long post_place, arrived;

static void is_posted(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		wait_one();
		check_bound(post_from + WS_RUN + 1, post_place);
		arrived++;
	}
	live--;
}

static void posts(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		long nr = arrived;

		/* All threads that may be queued before it. */
		post_place = (moves() ? 1 : 2) * IN_QUEUE + 3;
		post_from = now();
		ws_post(posted);
		while (arrived == nr)
			yield();
	}
	live--;
}

static void bound(int which, bool with_pair)
{
	intptr_t i;

	doing("of kinds %d, pair %d", which, with_pair);
	begin(1, 0);
	live = 0;
	kinds = 2 + (which & KEPT ? 1 : 0);
	for (i = 0; i < IN_QUEUE && which & QUEUE; i++, live++)
		make(0, queued, NULL);
	for (i = 0; i < IN_QUEUE && which & KEPT; i++, live++)
		make_pinned(0, is_kept, NULL);
	if (which & DEQUE) {
		make(0, makes, NULL);
		live++;
	}
	if (which & POSTED) {
		posted = make(0, is_posted, NULL);
		make(0, posts, NULL);
		live += 2;
	}
	for (i = 0; i < 2 && with_pair; i++)
		pair[i] = make(0, for_ever, (void *)i);
	if (!with_pair)
		make(0, for_ever_next, NULL);
	start_and_finish();
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	for (i = 2; i < 32; i++)
		bound(i / 2, i % 2);
	CHECK_THAT(checked, >, 16 * (IN_QUEUE * TURNS + BATCH * BATCHES));
	return 0;
}
