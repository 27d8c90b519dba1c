/* SPDX-License-Identifier: MIT */
/* ws.c: a work-stealing scheduler, whose threads go where there is time. */

/*
 * OVERVIEW
 *
 *	worker W				worker V, a thief
 *	+-----------------------------+		+--------------
 *	| slot    woken last          | <------ | 3 if W is stuck
 *	| deque   new, or displaced   | <------ | 1
 *	| queue   yielded, from inbox | <------ | 2
 *	| kept    pinned              |		|
 *	| inbox   wakes from others   | <------ | 3, and all workers post
 *	+-----------------------------+		+--------------
 *
 * A thread that can run is in exactly one of these places, or held by a worker
 * on the way from one to another. A worker takes from them in the order above.
 * But once in WS_RUN + 1 switches it takes a thread that has waited for long:
 * see ws.h. A thread is displaced from the slot when another is woken. It goes
 * to the queue instead if the deque is long (WOKEN_MOST), because an item takes
 * 8 bytes there, and 16 in the deque.
 *
 * HOME
 *
 * Each lane has a home, the worker that runs its threads: see homes.h.
 *
 * Threads that wake each other should have the same home. So when wakes come
 * from another worker, the home of the lane now and then hands the lane over to
 * the waker. Messages are dense if the worker has less than two microseconds of
 * work for each, which is what a message costs. Where they are dense, and
 * neither worker has plenty to run, the lane goes to the worker with the lower
 * number, at once and never back. Without this rule a group of threads that is
 * split stays split: for each lane that comes another goes.
 *
 * TASKS
 *
 * No caller holds a pointer to a thread made by ws_spawn(). So until the thread
 * begins it is only a function and an argument: a task, and the deque holds
 * these two words. The thread is made when the task begins. Or the thread that
 * has just ended becomes the new thread, if it has never blocked (s_again()). A
 * tree of a million threads needs only as many structs as live at a time, and
 * they are in the cache.
 *
 * ws_spawn() reserves the memory in w_stock (umem.h). So only ws_spawn() can
 * fail, and the start of a task never does. A thief reserves memory for all
 * tasks that it may take, before it takes them.
 *
 * STOPPING A WORKER
 *
 * A worker touches its slot, its queues and its lanes only while it is in
 * (stop.h). A thief stops the owner first; the thief itself is not in then. It
 * stops once, and takes half of the deque, or of the queue. An owner that
 * switches answers the thief, and waits until the thief is done. An owner whose
 * thread computes is not in, and does not answer. The thief waits for an answer
 * for as long as a forced stop takes by its own measurements, and then uses
 * force.
 *
 * A theft costs more than a thread is worth that runs for nanoseconds. worth.h
 * tells when a theft pays: the surplus of the owner must have lasted, or the
 * owner must not have switched for a while. Thieves learn from each theft.
 *
 * quick() chooses a thread from the slot while it runs on the stack of the
 * thread that blocks. The worker stays in until that stack has been left.
 * Otherwise a thief could take the lane, and another worker run in it.
 *
 * SLEEP AND END
 *
 * A worker that finds nothing to run searches for a while, and then sleeps, as
 * in seek.h. In between it naps, while other workers have work that comes and
 * goes. No worker sleeps with a thread that can run. The end is found as in
 * idle.h.
 *
 * A thread in the slot, or with a message in the inbox, runs as soon as the
 * running thread blocks. If that computes for long, the worker is stuck: it has
 * not switched for longer than a forced stop takes (J3). Then all that waits
 * there can be taken (3 above). A searching worker sees this within some
 * microseconds. Otherwise some worker has to look, each WS_WATCH milliseconds
 * (watch.h):
 *
 *   - a sleeping worker, if another runs;
 *   - if none sleeps, each worker asks once in WS_RUN + 1 switches whether a
 *     look is due. It asks whatever its own threads do: they may yield, or wake
 *     each other, until a stuck worker has done something;
 *   - if all sleep, none has to look, and ws_unwatched is set. The next worker
 *     that puts a thread in a slot or an inbox wakes a sleeper.
 *
 * A worker that has threads of its own takes from stuck workers only. But a
 * worker with nothing but one thread, which yields again and again, takes from
 * all workers, as an idle worker does.
 *
 * DEADLINES
 *
 * Each worker has a wheel (uwait.h), which it touches while it is in. A
 * deadline stays in the wheel of the worker where its wait began, also if the
 * thread goes elsewhere. A wait that has ended is told to the home of the
 * thread, by a list beside the inbox. If a worker is stuck, a thief takes what
 * is due there, as it takes messages.
 *
 * PINS
 *
 * While a lane is pinned, its threads that can run are in the kept queue. So a
 * thief need not step over them. When the last pin of the lane goes, all of
 * them move to the end of the queue, where thieves look. They are found without
 * a search (kept.h), since thousands of threads may unpin one after another.
 * The fixed lanes of each worker (FIXED) are always pinned.
 *
 * INVARIANTS (W2, W3, W4 and W9: homes.h)
 *
 * W1. A thread that can run is in one place, or held by one worker.
 * W5. Of the oldest threads in the deque, the queue and the kept queue, one
 *     runs at least each WS_RUN + 1 switches of its worker, in turn.
 * W6. A thread that could be taken away, and waits behind a running thread,
 *     does so for no longer than two looks of a watch and two naps
 *     (WS_WORTH_NAP_MOST), unless all other workers compute, too. A sleeping
 *     worker looks each WS_WATCH milliseconds, a napping worker after each nap.
 *     While no worker sleeps or naps, each looks within WS_RUN + 1 switches
 *     after that time. A look may take others first: half of a queue, or 256
 *     threads. While the worker switches, W5 holds. A searching thief takes
 *     from a surplus that has lasted for the patience of the thief,
 *     WS_WORTH_MOST at most.
 * W7. The deque of w holds no more tasks than w_stock holds blocks. Only the
 *     native thread of w changes w_stock.
 * W8. w_kept holds only threads that must run on w: those of pinned lanes, and,
 *     without lanes, those that have begun or are pinned. So thieves need not
 *     look there. The home changes pins while it is in. The running thread may
 *     also add a pin, since no thief touches its lane.
 *
 * REJECTED
 *
 * An atomic count for waits and wakes, and a lock for each lane: an atomic
 * instruction for each, 23 ns a message in a prototype, where this takes about
 * 5. Homes of threads instead of lanes: two workers would take turns in a lane.
 *
 * The slot as part of the deque: a ring of two would go to and fro between two
 * workers. A search of the kept queue whenever a pin goes: quadratic.
 *
 * Looks after a number of switches instead of a time: too soon for threads that
 * yield at once, too late for threads that compute in between. Taking from
 * workers that are not stuck while there are two threads to run: two workers
 * with two threads each that yield would take them to and fro.
 *
 * Taking whatever is seen: a tree of 31 threads, for which one worker takes 90
 * ms, took 2.4 s with two workers, and takes 100 ms now. Without naps, 1.8
 * times the cpu time of that; without the notes of J1, 1.4 times.
 *
 * A lane that goes to any waker at each fourth message, also where messages are
 * dense: a group that is split took up to 6 s instead of 0.1 s to come
 * together. Density by time instead of work: two workers of which each waits
 * for the other have few messages in a second.
 *
 * A struct for each spawned thread at once: 336 instructions to make and run an
 * empty thread, of which 176 are left, and 36 MB touched for half a million
 * threads, instead of 8.
 */

#define USCHED_PREEMPT	1
#define WS_INLINE	__attribute__((noinline))
#include "ws.h"
#include "homes.h"
#include "idle.h"
#include "seek.h"
#include "uproc_set.h"
#include "watch.h"
#include "worth.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

UPREEMPT_NEVER;

#define ALWAYS_INLINE	inline __attribute__((always_inline))

#if defined(USCHED_HARD)
#define HARD	1
#else
#define HARD	0
#endif
#define ROOM_MIN	64
#define BLOCK	sizeof(struct uproc_thread)
#define SPARE_MOST	512	/* blocks, beside those that tasks need */
#define THREAD_ITEM	((void *)2)	/* in a deque, not a task */
#define WOKEN_MOST	1024	/* in the deque; others go to the queue */
#define STEAL_MOST	256	/* items that are taken at once */
#define SEARCH		30000u	/* ns, if there is a spare cpu */
#define SEARCH_RELAX	16	/* between looks */
#define MOVE_EACH	4	/* wakes from elsewhere: then a lane moves */
#define DENSE_NR	16	/* messages, */
#define DENSE		2000u	/* and so many ns for each: they are dense */
#define PLENTY		4096u	/* switches without running dry */
#define NONE		(-1)	/* in w_running_lane: it runs no thread */

static struct uproc_set *set;
static long stuck;

static void done(struct usched *s, struct ustack *u);

/* What all workers share. It is seldom written. */
static struct {
	struct ws_seek  s_seek;
	struct ws_watch s_watch;
} all __attribute__((aligned(64)));

int ws_unwatched __attribute__((aligned(64)));

static inline struct ws_worker *worker(int nr)
{
	return (struct ws_worker *)uproc_nth(set, nr);
}

static int load(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

/* Adds to the threads that are alive: the sum over all workers. Owner only. */
static inline void threads_add(struct ws_worker *w, unsigned more)
{
	unsigned *at = &w->w_proc.p_threads;

	__atomic_store_n(at, *at + more, __ATOMIC_RELAXED);
}

/* Returns the home of t if there are no lanes: where t has begun, or NULL. */
struct ws_worker *ws_home_native(const struct uproc_thread *t)
{
	/* Acquires the u_sched of thread_begin(). */
	return set != NULL && set->set_on_native &&
	       __atomic_load_n(&t->t_stack.u_mark, __ATOMIC_ACQUIRE) & BEGUN ?
		(struct ws_worker *)uproc_of(t) : NULL;
}

/* Adds nr to a number of usched_stats(), if the program asks for these. */
#define TALLY(w, field, nr)	do {					\
	struct usched_moves *to = (w)->w_proc.p_sched.s_moves;		\
									\
	if (__builtin_expect(to != NULL, 0))				\
		__atomic_store_n(&to->field, to->field + (nr),		\
				 __ATOMIC_RELAXED);			\
} while (0)

/* Returns the time, as worth.h counts it. */
static unsigned now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)now.tv_sec * 1000000000u + (unsigned)now.tv_nsec;
}

/* Waking of workers. */

/* Wakes a sleeping worker, if there is any, for work that it can take. */
static NOINLINE void wake_sleeper(void)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		int *asleep = &uproc_nth(set, i)->p_asleep;

		if (load(asleep)) {
			uidle_wake(&set->set_idle, asleep);
			return;
		}
	}
}

/* Called after work was put where a thief can take it. */
static inline void announce(void)
{
	if (ws_seek_must_wake(&all.s_seek))
		wake_sleeper();
}

/* Called when something waits for a running thread: ends ws_unwatched. */
static void end_unwatched(void)
{
	if (__builtin_expect(__atomic_load_n(&ws_unwatched, __ATOMIC_RELAXED),
			     0) &&
	    __atomic_exchange_n(&ws_unwatched, 0, __ATOMIC_SEQ_CST))
		wake_sleeper();
}

/* Messages. */

/* Posts the node of t to w. Any thread. */
static void post_node(struct ws_worker *w, struct uproc_thread *t)
{
	uinbox_post(&w->w_proc.p_inbox, &t->t_wakes.w_node);
	uidle_wake(&set->set_idle, &w->w_proc.p_asleep);
	end_unwatched();
}

/* Sends t, which can run and is held by the caller, to w. */
static void send_to(struct ws_worker *w, struct uproc_thread *t)
{
	if (ws_mail_hand(&t->t_wakes))
		post_node(w, t);
}

/* Returns whether an ancestor made t. Then ws_homes may be of another set. */
static inline bool inherited(const struct uproc_thread *t)
{
	return __builtin_expect(uproc_forks != 0, 0) &&
	       uproc_inherited(uproc_of(t)->p_set);
}

/* ws_mail_post() is true only for a thread that has a home. */
void ws_post(struct ws_thread *thread)
{
	struct uproc_thread *t = &thread->s_thread;
	const struct ustack *self = ustack_self();

	uproc_live(t, "post");
	if (inherited(t) || !ws_mail_post(&t->t_wakes))
		return;
	if (self != NULL && self->u_sched->s_done == done)
		__atomic_store_n(&lane_of(t)->e_from,
				 (struct ws_worker *)self->u_sched,
				 __ATOMIC_RELAXED);	/* a hint */
	post_node(ws_home(t), t);
}

/* Tasks, and memory for them. */

/* Reserves blocks for nr tasks. False: no memory. */
static bool stock_reserve(struct ws_worker *w, long nr)
{
	return umem_reserve(&w->w_stock, &set->set_mem, BLOCK, nr);
}

/* Frees t, which has ended: its memory goes where that of tasks comes from. */
static inline void thread_free(struct ws_worker *w, struct uproc_thread *t)
{
	if (HARD || (!LIKELY(w->w_stock.k_nr < SPARE_MOST) &&
		     w->w_stock.k_nr >=
		     ws_deque_look(&w->w_deque) + SPARE_MOST)) {
		uproc_free(&w->w_proc, t);
		if (w->w_stock.k_raw_nr > 0)
			umem_stock_trim(&w->w_stock, &set->set_mem, BLOCK,
				ws_deque_look(&w->w_deque) + SPARE_MOST);
	} else
		umem_stock_put(&w->w_stock, t);
}

/* Sets the count of a thread that is new, and can run. */
static inline void wakes_none(struct uwakes *w)
{
	uwakes_init(w);
	w->w_count = 0;
}

static inline struct ws_deque_item thread_item(struct uproc_thread *t)
{
	struct ws_deque_item x = { THREAD_ITEM, t };

	return x;
}

static inline bool is_thread(struct ws_deque_item x)
{
	return x.i_what == THREAD_ITEM;
}

static inline bool is_task(struct ws_deque_item x)
{
	return (uintptr_t)x.i_what > (uintptr_t)THREAD_ITEM;
}

static inline void (*task_f(struct ws_deque_item x))(void *)
{
	return (void (*)(void *))x.i_what;
}

/* Makes t, which can run and has not begun, the thread of task x. */
static inline void task_begin(struct uproc_thread *t, struct ws_deque_item x)
{
	t->t_stack.u_f   = task_f(x);
	t->t_stack.u_arg = x.i_arg;
	wakes_none(&t->t_wakes);
}

/* Returns the thread of item x, and makes it for a task. NULL: x is none. */
static struct uproc_thread *thread_for(struct ws_worker *w,
				       struct ws_deque_item x)
{
	struct uproc_thread *t;

	if (!is_task(x))
		return is_thread(x) ? x.i_arg : NULL;
	t = umem_stock_get(&w->w_stock, BLOCK);
	threads_add(w, 1);
	ustack_init(&t->t_stack, &w->w_proc.p_sched,
		    task_f(x), x.i_arg, NULL, 0);
	wakes_none(&t->t_wakes);
	return t;
}

/* Queues. */

/* Makes room for one more thread. Owner only. False: no memory. */
static bool queue_room(struct usched_queue *q)
{
	unsigned old = q->q_mask + 1;
	struct ustack **ring;

	if (uproc_queue_len(q) < old)
		return true;
	ring = old < 1u << 31 ? umem_array(old * 2) : NULL;
	if (ring == NULL)
		return false;
	free(uproc_queue_move(q, ring, old * 2 - 1));
	return true;
}

/* Puts t at the end of the queue, or of the kept queue. False: no memory. */
static bool enqueue(struct ws_worker *w, struct uproc_thread *t)
{
	struct usched_queue *q = &w->w_proc.p_queue;

	if (stays(w, t))
		return ws_kept_put(&w->w_kept, t->t_stack.u_lane != 0 ?
				   &lane_of(t)->e_kept : NULL, t);
	if (!queue_room(q))
		return false;
	uproc_queue_put(q, t);
	return true;
}

/* Takes t out. It is the last, unless a thief has added more since. */
static void queue_leave(struct usched_queue *q, const struct uproc_thread *t)
{
	unsigned i = q->q_tail - 1;

	while (q->q_ring[i & q->q_mask] != &t->t_stack)
		i--;
	for (; i + 1 != q->q_tail; i++)
		q->q_ring[i & q->q_mask] = q->q_ring[(i + 1) & q->q_mask];
	__atomic_store_n(&q->q_tail, q->q_tail - 1, __ATOMIC_RELAXED);
}

/*
 * Takes the running thread of w out again, which could not block. It is still
 * where enqueue() has put it. No thief takes a thread of the lane
 * w_running_lane, and only the home, or a thread that runs there, changes pins.
 */
static void enqueue_undo(struct ws_worker *w, const struct uproc_thread *t)
{
	if (stays(w, t))
		ws_kept_leave(&w->w_kept, t);
	else
		queue_leave(&w->w_proc.p_queue, t);
}

static struct uproc_thread *queue_get(struct usched_queue *q)
{
	return uproc_queue_empty(q) ? NULL : uproc_queue_get(q);
}

/* Puts t, which can run, where a thief can take it. Owner only, in. */
static void make_stealable(struct ws_worker *w, struct uproc_thread *t)
{
	bool goes = !stays(w, t);

	if ((!goes || !LIKELY(ws_deque_look(&w->w_deque) < WOKEN_MOST) ||
	     !LIKELY(ws_deque_push(&w->w_deque, thread_item(t)) == 0)) &&
	    !enqueue(w, t))
		send_to(w, t);
	else if (goes)
		announce();
}

/* Does the rest of a wake: before, if not NULL, was in the slot. */
void ws_displaced(struct ws_worker *w, struct uproc_thread *before)
{
	if (before != NULL)
		make_stealable(w, before);
	ws_stop_leave(&w->w_stop);
	end_unwatched();
}

/* Pins. */

/* Called when the last pin of e has gone: thieves can take its threads (W8). */
static NOINLINE void kept_to_queue(struct ws_worker *w, struct ws_lane *e)
{
	struct usched_queue *q = &w->w_proc.p_queue;
	struct uproc_thread *t;

	while ((t = ws_kept_get_of(&w->w_kept, &e->e_kept)) != NULL) {
		if (queue_room(q))
			uproc_queue_put(q, t);
		else
			send_to(w, t);
	}
	announce();
}

/* Takes a pin from the lane of t. Owner only, in; w is the home. */
static void unpin(struct ws_worker *w, struct uproc_thread *t)
{
	pins_add(t, -1);
	if (t->t_stack.u_lane != 0 && !lane_stays(t) &&
	    lane_of(t)->e_kept.kg_nr != 0)
		kept_to_queue(w, lane_of(t));
}

/* Pins t, which is preempted, until it runs again: it may hold anything. */
static bool preempt_begin(struct ws_worker *w, struct uproc_thread *t)
{
	mark_set(t, t->t_stack.u_mark | GAVE);
	pins_add(t, 1);
	return enqueue(w, t);
}

static void preempt_end(struct ws_worker *w, struct uproc_thread *t)
{
	mark_set(t, t->t_stack.u_mark & ~GAVE);
	unpin(w, t);
}

static void thread_begin(struct ws_worker *w, struct uproc_thread *t)
{
	if (!set->set_on_native) {
		lane_set(t, lane_get(w, t));
		if (t->t_stack.u_mark & PINNED)
			pins_add(t, 1);
		return;
	}
	/* First: a waker that sees the mark may ask for the home. */
	sched_set(w, t);
	mark_set(t, t->t_stack.u_mark | BEGUN);
}

/* Choosing. */

static struct ustack *quick(struct usched *s);

static void take_messages(struct ws_worker *w, struct ws_worker *me);
static struct uproc_thread *seek(struct ws_worker *w, unsigned *turns);
static struct uproc_thread *steal_round(struct ws_worker *w, bool patient,
					bool idle);
static void remember_turns(void);

/*
 * Looks for stuck workers, if a look is due, whatever else w has to run. A
 * worker with one thread, which yields again and again until something has
 * happened, counts as idle: the thread that makes it happen may need a worker.
 */
static struct uproc_thread *steal_while_running(struct ws_worker *w)
{
	bool idle = ws_deque_size(&w->w_deque) == 0 &&
		uproc_queue_len(&w->w_proc.p_queue) +
		ws_kept_len(&w->w_kept) <= 1;
	bool due = set->set_nr > 1 && !ws_watch_kept(&all.s_watch) &&	/* U5 */
		ws_watch_due(&all.s_watch);				/* U6 */
	struct uproc_thread *t;

	if (set->set_nr == 1 || (!idle && !due))
		return NULL;
	ws_stop_leave(&w->w_stop);
	t = steal_round(w, due, idle);					/* U7 */
	if (due)
		remember_turns();					/* U8 */
	ws_stop_enter(&w->w_stop);
	return t;
}

/* Notes the turn if the last item of the deque and the queue was taken (J1). */
static inline void note_if_dry(struct ws_worker *w)
{
	if (ws_deque_size(&w->w_deque) == 0 &&
	    uproc_queue_empty(&w->w_proc.p_queue))
		__atomic_store_n(&w->w_dry, w->w_turn, __ATOMIC_RELAXED);
}

/*
 * Takes the oldest thread of the deque, the queue or the kept queue, in turn
 * (W5). NULL: all are empty.
 */
static struct uproc_thread *oldest(struct ws_worker *w)
{
	struct uproc_thread *t;
	int i;

	for (i = 0; i < 3; i++) {
		switch (w->w_fair_turn++ % 3) {
		case 0:
			t = thread_for(w, ws_deque_steal_alone(&w->w_deque));
			break;
		case 1:
			t = queue_get(&w->w_proc.p_queue);
			break;
		default:
			t = ws_kept_get(&w->w_kept);
		}
		if (t != NULL) {
			note_if_dry(w);
			return t;
		}
	}
	return NULL;
}

static struct uproc_thread *newest(struct ws_worker *w)
{
	struct uproc_thread *t = w->w_slot;

	ws_slot_set(w, NULL);
	if (t != NULL)
		return t;
	t = thread_for(w, ws_deque_pop(&w->w_deque));
	if (t == NULL)
		t = queue_get(&w->w_proc.p_queue);
	if (t == NULL)
		return ws_kept_get(&w->w_kept);
	note_if_dry(w);
	return t;
}

/* Called by a worker that runs again: while others sleep, one has to watch. */
static void ensure_watch(void)
{
	if (ws_seek_parked(&all.s_seek) > 0 && !ws_watch_kept(&all.s_watch))
		wake_sleeper();
}

/* Chooses a thread to run; sleeps if need be. In. NULL: the set is stopped. */
static struct uproc_thread *choose(struct ws_worker *w, bool fair)
{
	struct uproc_thread *t = NULL;
	unsigned turns = 0;
	bool sought = false;

	w->w_running_lane = NONE;
	if (fair) {
		if (uwait_outside(&w->w_proc.p_waits))
			uwait_look_outside(&w->w_proc.p_waits);
		take_messages(w, w);
		t = w->w_slot;
		ws_slot_set(w, NULL);
		if (t != NULL)
			make_stealable(w, t);
		t = steal_while_running(w);
		if (t == NULL)
			t = oldest(w);
	}
	while (t == NULL && (t = newest(w)) == NULL) {
		take_messages(w, w);
		t = newest(w);
		if (t != NULL || uproc_stopped(set))
			break;
		ws_stop_leave(&w->w_stop);
		t = seek(w, &turns);
		sought = true;
		ws_stop_enter(&w->w_stop);
	}
	if (sought && t != NULL)
		ensure_watch();
	return t;
}

/* Leaves next() with t, which runs then. */
static inline struct ustack *go(struct ws_worker *w, struct uproc_thread *t)
{
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	ws_stop_leave(&w->w_stop);
	return &t->t_stack;
}

/* Runs t if w is its home, or else a thread that choose() gives. In. */
static NOINLINE struct ustack *next_choose(struct ws_worker *w,
					 struct uproc_thread *t, bool fair)
{
	struct ws_worker *home;

	for (;; t = NULL) {
		if (t == NULL && (t = choose(w, fair)) == NULL) {
			ws_stop_leave(&w->w_stop);
			return NULL;
		}
		home = ws_home(t);
		if (home == w)
			break;
		if (home == NULL) {
			thread_begin(w, t);
			break;
		}
		send_to(home, t);		/* its lane was taken */
	}
	if (t->t_stack.u_mark & GAVE)
		preempt_end(w, t);
	return go(w, t);
}

/* Takes from the slot, then from the deque. */
static NOINLINE struct ustack *next_slow(struct ws_worker *w)
{
	struct uproc_thread *t;

	ws_stop_enter(&w->w_stop);
	if (w->w_turn % (WS_RUN + 1) == 0)
		return next_choose(w, NULL, true);
	t = w->w_slot;
	ws_slot_set(w, NULL);
	if (t == NULL) {
		t = thread_for(w, ws_deque_pop(&w->w_deque));
		if (t == NULL)
			return next_choose(w, NULL, false);
		note_if_dry(w);
	}
	if (t->t_stack.u_lane == 0 && w->w_free != 0 &&
	    !(t->t_stack.u_mark & PINNED)) {
		int own = lane_own(w, ustack_f(t->t_stack.u_f,
						       t->t_stack.u_arg));

		lane_set(t, own != 0 ? own : lane_free(w));
	} else if (!LIKELY(ws_home(t) == w))
		return next_choose(w, t, false);
	return go(w, t);
}

static struct ustack *next(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned turn = w->w_turn + 1;
	bool sure = ws_stop_quick(&w->w_stop);			/* W9 */
	struct uproc_thread *t;

	s->s_quick = s->s_next == next ? quick : NULL;
	__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
	if (!LIKELY(sure || ws_stop_in(&w->w_stop)))
		return next_slow(w);		/* and wait there */
	t = w->w_slot;
	if (t == NULL || !LIKELY(turn % (WS_RUN + 1) != 0) ||
	    !LIKELY(sure ? t->t_stack.u_lane != 0 : ws_is_home(w, t)))
		return next_slow(w);
	ws_slot_set(w, NULL);
	return go(w, t);
}

/*
 * Takes the thread in the slot; NULL: next() has to choose. Called on the stack
 * of the thread that blocks. So w stays in, and no thief takes the lane of that
 * thread, until the dispatcher opens s_gate.
 */
static struct ustack *quick(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned turn = w->w_turn + 1;
	bool sure = ws_stop_quick(&w->w_stop);			/* W9 */
	struct uproc_thread *t;

	if (!LIKELY(sure || ws_stop_in(&w->w_stop))) {
		ws_stop_leave(&w->w_stop);
		return NULL;
	}
	t = w->w_slot;
	if (t == NULL || !LIKELY(turn % (WS_RUN + 1) != 0) ||
	    !LIKELY(sure || ws_is_home(w, t)) ||
	    (uintptr_t)t->t_stack.u_top & USCHED_AWAY ||
	    t->t_stack.u_mark & GAVE) {
		ws_stop_leave(&w->w_stop);
		return NULL;
	}
	ws_slot_set(w, NULL);
	__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	return &t->t_stack;
}

/* Moves all that can run at w to the queue, and draws a thread. NULL: none. */
static struct uproc_thread *drawn(struct ws_worker *w)
{
	struct usched_queue *q = &w->w_proc.p_queue;
	struct uproc_thread *t;

	while ((t = w->w_slot) != NULL && queue_room(q)) {
		ws_slot_set(w, NULL);
		uproc_queue_put(q, t);
	}
	while (queue_room(q) &&
	       (t = thread_for(w, ws_deque_pop(&w->w_deque))) != NULL)
		uproc_queue_put(q, t);
	while (ws_kept_len(&w->w_kept) > 0 && queue_room(q))
		uproc_queue_put(q, ws_kept_get(&w->w_kept));
	if (uproc_queue_empty(q))
		return NULL;
	uproc_shuffle(&w->w_proc);
	return uproc_queue_get(q);
}

/* Chooses at random: see utime_virtual(). Stands in the place of next(). */
static struct ustack *next_drawn(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;

	__atomic_store_n(&w->w_turn, w->w_turn + 1, __ATOMIC_RELAXED);
	ws_stop_enter(&w->w_stop);
	take_messages(w, w);
	return next_choose(w, drawn(w), false);
}

static NOINLINE void unpin_ended(struct ws_worker *w, struct uproc_thread *t)
{
	ws_stop_enter(&w->w_stop);
	unpin(w, t);
	ws_stop_leave(&w->w_stop);
}

/*
 * Frees the memory of a thread without a joiner, unless its node is in an
 * inbox: then the taker of the node frees it. A joiner is told now (mail.h).
 */
static void done(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;
	int lane = u->u_lane;

	if (u->u_mark & PINNED)
		unpin_ended(w, t);
	if (lane != 0 && s->s_lane[lane].l_bound == 0 && !is_fixed(w, lane) &&
	    lane <= s->s_lane_nr) {
		lane_list[lane].e_next = w->w_free;
		w->w_free = lane;
	}
	threads_add(w, -1);
	uproc_slice_free(&w->w_proc, t);
	if (u->u_mark & UPROC_JOIN) {
		(void)ws_mail_close(&t->t_wakes, 0);
		uproc_end(&w->w_proc, t);
	} else if (LIKELY(ws_mail_close(&t->t_wakes, UWAKES_LEFT)))
		thread_free(w, t);
}

/*
 * Lets a thread that has ended, and has never blocked, go on as the next task:
 * nothing is left of what it was. Not in a lane that must stay, where no thief
 * could take the new thread. Nor in a lane for one thread alone, where it may
 * have blocked without a buffer. A task that will have such a lane needs a
 * thread of its own, too.
 */
static int again(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;
	unsigned turn = w->w_turn + 1;
	struct ws_deque_item x = ws_deque_none(NULL);
	int lane;

	if (turn % (WS_RUN + 1) == 0 || s->s_next != next ||
	    u->u_stack != NULL || u->u_mark != 0 ||
	    ws_mail_settled(&t->t_wakes) || lane_stays(t) ||
	    u->u_lane > s->s_lane_nr)
		return 0;
	ws_stop_enter(&w->w_stop);
	if (w->w_slot == NULL)
		x = ws_deque_pop(&w->w_deque);
	if (is_task(x) && (lane = lane_own(w, ustack_f(task_f(x),
							 x.i_arg))) != 0) {
		x = thread_item(thread_for(w, x));
		lane_set(x.i_arg, lane);
	}
	if (LIKELY(is_task(x))) {
		__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
		note_if_dry(w);
		task_begin(t, x);
	} else if (is_thread(x))
		ws_slot_set(w, x.i_arg);
	ws_stop_leave(&w->w_stop);
	return is_task(x);
}

/* Taking messages. */

/* Returns whether w has had other threads to run for long. */
static bool has_plenty(const struct ws_worker *w)
{
	return __atomic_load_n(&w->w_turn, __ATOMIC_RELAXED) -
	       __atomic_load_n(&w->w_dry, __ATOMIC_RELAXED) > PLENTY &&
	       (ws_deque_size(&w->w_deque) != 0 ||
		uproc_queue_len(&w->w_proc.p_queue) != 0);
}

/*
 * Counts a message, and notes whether messages are dense. Time without work is
 * left out: two workers that wait for each other have few messages, and still
 * less work.
 */
static void message_came(struct ws_worker *w)
{
	unsigned now;

	if (++w->w_mail % DENSE_NR != 0)
		return;
	now = now_ns() - w->w_idle;
	w->w_dense   = now - w->w_mail_at < DENSE_NR * DENSE;
	w->w_mail_at = now;
}

/* Returns whether e should move from w to a worker that woke a thread in it. */
static bool should_move(struct ws_worker *w, struct ws_lane *e,
			struct ws_worker *from)
{
	bool plenty = has_plenty(w);
	bool there = has_plenty(from);

	if (!plenty && there)
		return false;
	if (!plenty && w->w_dense)
		return from->w_proc.p_nr < w->w_proc.p_nr;
	return ++e->e_wakes % MOVE_EACH == 0;
}

/*
 * Moves the lane of t to the worker that woke t, now and then, so that threads
 * that wake each other come together. Called by w, the home, in.
 */
static bool move_to_waker(struct ws_worker *w, struct uproc_thread *t)
{
	struct ws_lane *e = lane_of(t);
	struct ws_worker *from;

	from = __atomic_load_n(&e->e_from, __ATOMIC_RELAXED);
	if (!can_go(w, t) || t->t_stack.u_lane == 0 || from == NULL ||
	    from == w || !should_move(w, e, from))
		return false;
	lane_move_of(w, t, from);
	send_to(from, t);
	return true;
}

/*
 * Opens the node of t, whose home is w, and puts t where it belongs. Caller is
 * in w, or has stopped w. False: no memory, for now.
 */
static bool open_message(struct ws_worker *w, struct uproc_thread *t,
			 bool owner)
{
	unsigned bits = ws_mail_open(&t->t_wakes);
	bool can_run = bits & WS_MAIL_RUN;

	if (owner)
		message_came(w);
	if (ws_mail_wakes(bits) > 0 && uwakes_add(&t->t_wakes,
						  ws_mail_wakes(bits))) {
		can_run = true;
		if (owner && move_to_waker(w, t))
			return true;
	}
	lane_note(w, lane_of(t));
	if (!can_run || enqueue(w, t))
		return true;
	if (w->w_slot == NULL) {
		ws_slot_set(w, t);
		return true;
	}
	send_to(w, t);
	return false;
}

static struct uproc_thread *thread_of(struct uinbox_node *n)
{
	struct uwakes *w;

	w = (struct uwakes *)((char *)n - offsetof(struct uwakes, w_node));
	return (struct uproc_thread *)((char *)w -
				       offsetof(struct uproc_thread, t_wakes));
}

/* Ends the wait of r, whose thread is at home at w. Caller as in take_waits(). */
static void arrive(struct ws_worker *w, struct uwait *r, bool owner)
{
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;

	uwait_arrived(r);
	if (owner)
		message_came(w);
	if (!uwakes_add(&t->t_wakes, 1) || (owner && move_to_waker(w, t)))
		return;
	lane_note(w, lane_of(t));
	if (enqueue(w, t))
		return;
	if (w->w_slot == NULL)
		ws_slot_set(w, t);
	else
		send_to(w, t);
}

/* Posts r to w, whose list is taken at the next look. Any thread. */
static void waits_post(struct uwait_host *h, struct uwait *r)
{
	struct uproc *p = (struct uproc *)h->h_sched;

	uwait_post(h, r);
	USCHED_RACE(58);
	uidle_wake(&p->p_set->set_idle, &p->p_asleep);
	end_unwatched();
}

/* Handles r, which was posted to w. False: it stays, for w itself. */
static bool take_wait(struct ws_worker *w, struct uwait *r, bool owner)
{
	const struct uproc_thread *t = (struct uproc_thread *)r->w_stack;
	struct ws_worker *home;

	if (__atomic_load_n(&r->w_state, __ATOMIC_RELAXED) == UWAIT_ARRIVED)
		return owner && uwait_orphan(&w->w_proc.p_waits, r);
	home = ws_home(t);
	USCHED_RACE(62);
	if (home != w)
		waits_post(&home->w_proc.p_waits, r);
	else if (!owner && t->t_stack.u_lane == w->w_running_lane)
		return false;
	else
		arrive(w, r, owner);
	return true;
}

/*
 * Ends the waits of w whose deadline has passed, or whose end was posted.
 * Caller is in w (owner), or has stopped w.
 */
static NOINLINE void take_waits(struct ws_worker *w, bool owner)
{
	struct uwait_host *h = &w->w_proc.p_waits;
	struct uwait *left = NULL;
	struct uwait **end = &left;
	struct uwait *r, *more;

	if (uproc_is_due(&w->w_proc))
		uwait_expired(uwait_expire(h));		/* posts them to homes */
	for (r = uwait_take(h); r != NULL; r = more) {
		more = r->w_at.link;
		if (take_wait(w, r, owner))
			continue;
		*end = r;
		end = &r->w_at.link;
	}
	for (*end = NULL; left != NULL; left = more) {
		more = left->w_at.link;
		uwait_post(h, left);
	}
}

/* Takes the messages of w. Caller is me: in w, or has stopped w. */
static void take_messages(struct ws_worker *w, struct ws_worker *me)
{
	bool owner = me == w;
	struct uinbox_node *last = NULL;
	struct uinbox_node *n;

	while ((n = uinbox_take(&w->w_proc.p_inbox)) != NULL) {
		struct uproc_thread *t = thread_of(n);
		struct ws_worker *home;

		if (ws_mail_gone(&t->t_wakes)) {
			if (ws_mail_open(&t->t_wakes) & UWAKES_LEFT)
				uproc_free(&me->w_proc, t);
			continue;
		}
		home = ws_home(t);
		if (home != w && home != NULL) {
			post_node(home, t);
			continue;
		}
		/* t runs, or its lane does: its count is in use. */
		if (!owner && home == w &&
		    t->t_stack.u_lane == w->w_running_lane) {
			n->n_next = last;
			last = n;
			continue;
		}
		if (!open_message(w, t, owner))
			break;
	}
	while ((n = last) != NULL) {
		last = n->n_next;
		uinbox_post(&w->w_proc.p_inbox, n);
	}
	if (uwait_must_look(&w->w_proc.p_waits))
		take_waits(w, owner);
}

/* Stealing. */

struct stolen {
	struct ws_deque_item o_item[STEAL_MOST];
	int                  o_nr;
	int                  o_tasks;	/* that there is memory for */
};

static void stolen_add(struct stolen *o, struct ws_deque_item x)
{
	o->o_item[o->o_nr++] = x;
}

/* Takes t, which can run, from v for w. False: t stays. v is stopped. */
static bool steal_thread(struct ws_worker *w, struct ws_worker *v,
		 struct uproc_thread *t, struct stolen *o)
{
	struct ws_worker *home = ws_home(t);

	if (home == v) {
		if (!can_go(v, t))
			return false;
		lane_move_of(v, t, w);
	} else if (home != NULL && home != w) {
		send_to(home, t);
		return true;
	} else if (home == NULL) {
		if (!can_go(v, t))
			return false;
		sched_set(w, t);
	}
	stolen_add(o, thread_item(t));
	return true;
}

/* Takes the older half of the queue of v, as far as its threads can go. */
static void steal_queue(struct ws_worker *w, struct ws_worker *v,
			struct stolen *o)
{
	struct usched_queue *q = &v->w_proc.p_queue;
	unsigned left = (uproc_queue_len(q) + 1) / 2;
	unsigned from, to;

	if (left > (unsigned)(STEAL_MOST - o->o_nr))
		left = STEAL_MOST - o->o_nr;
	for (from = q->q_head; from != q->q_tail && left > 0; from++) {
		struct ustack **at = &q->q_ring[from & q->q_mask];

		if (steal_thread(w, v, (struct uproc_thread *)*at, o)) {
			*at = NULL;
			left--;
		}
	}
	for (to = from; from-- != q->q_head; ) {
		struct ustack *t = q->q_ring[from & q->q_mask];

		if (t != NULL)
			q->q_ring[--to & q->q_mask] = t;
	}
	__atomic_store_n(&q->q_head, to, __ATOMIC_RELAXED);
	/* If no thread could go, the next look waits until one is added. */
	__atomic_store_n(&v->w_looked, q->q_tail - (o->o_nr > 0),
			 __ATOMIC_RELAXED);
}

/* Takes the older half of the deque of v, as far as its items can go. */
static void steal_deque(struct ws_worker *w, struct ws_worker *v,
			struct stolen *o)
{
	long most = (ws_deque_size(&v->w_deque) + 1) / 2;

	while (most-- > 0 && o->o_nr < o->o_tasks) {
		struct ws_deque_item x = ws_deque_steal_alone(&v->w_deque);

		if (x.i_what == NULL)
			return;
		if (is_task(x))
			stolen_add(o, x);
		else if (is_thread(x) && !steal_thread(w, v, x.i_arg, o) &&
			 !enqueue(v, x.i_arg))
			send_to(v, x.i_arg);
	}
}

static bool queue_has(const struct ws_worker *v)
{
	const struct usched_queue *q = &v->w_proc.p_queue;

	return uproc_queue_len(q) != 0 &&
	       __atomic_load_n(&q->q_tail, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&v->w_looked, __ATOMIC_RELAXED);
}

/* Returns whether something waits for the thread that v runs. */
static bool is_behind(const struct ws_worker *v)
{
	return !load(&v->w_proc.p_asleep) &&
	       (__atomic_load_n(&v->w_slot, __ATOMIC_RELAXED) != NULL ||
		ws_deque_size(&v->w_deque) != 0 ||
		uproc_queue_len(&v->w_proc.p_queue) != 0 ||
		!uinbox_empty((struct uinbox *)&v->w_proc.p_inbox) ||
		uwait_posted(&v->w_proc.p_waits) || uproc_is_due(&v->w_proc));
}

static unsigned turn_of(const struct ws_worker *v)
{
	return __atomic_load_n(&v->w_turn, __ATOMIC_RELAXED);
}

static bool is_stuck(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	return ws_worth_stuck(&w->w_thief, &v->w_sight, turn_of(v), now) &&
	       is_behind(v);
}

static bool has_surplus(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	unsigned dry = __atomic_load_n(&v->w_dry, __ATOMIC_RELAXED);

	if (ws_deque_size(&v->w_deque) != 0 || queue_has(v))
		return ws_worth_surplus(&w->w_thief, &v->w_sight, dry,
					turn_of(v),
					now);
	ws_worth_none(&v->w_sight, dry);
	return false;
}

/* Moves threads in the slot and the inbox of v to its queue. v is stopped. */
static void enqueue_stuck(struct ws_worker *w, struct ws_worker *v)
{
	struct uproc_thread *t = v->w_slot;

	take_messages(v, w);
	if (t != NULL && enqueue(v, t))
		ws_slot_set(v, NULL);
}

/* Stops v: asks and waits, then uses force; at_once: force only. */
static bool stop_worker(struct ws_worker *w, struct ws_worker *v, bool at_once)
{
	unsigned long ticket = ws_stop_ask(&v->w_stop);
	unsigned from = now_ns();
	bool stopped;

	if (ticket == 0)
		return false;
	TALLY(w, stops, 1);
	while (!at_once && ws_worth_age(now_ns(), from) < w->w_thief.h_fence) {
		if (ws_stop_answered(&v->w_stop, ticket))
			return true;
		uproc_relax();
	}
	from = now_ns();
	TALLY(w, forced, 1);
	TALLY(w, fences, 1);
	stopped = ws_stop_force(&v->w_stop);
	ws_worth_fence(&w->w_thief, ws_worth_age(now_ns(), from));
	return stopped;
}

/* Takes threads and tasks from v, another worker. Not in. */
static void steal_from(struct ws_worker *w, struct ws_worker *v,
		       struct stolen *o, bool stuck_now)
{
	if (!stop_worker(w, v, stuck_now)) {
		ws_worth_vain(&w->w_thief, &v->w_sight, turn_of(v), now_ns());
		return;
	}
	steal_deque(w, v, o);
	if (stuck_now && v->w_running_lane != NONE)
		enqueue_stuck(w, v);		/* for the queue below */
	if (o->o_nr == 0)
		steal_queue(w, v, o);
	ws_stop_end(&v->w_stop);
	if (o->o_nr == 0)
		ws_worth_vain(&w->w_thief, &v->w_sight, turn_of(v), now_ns());
}

static void adopt(struct ws_worker *w, struct ws_deque_item x)
{
	struct uproc_thread *t;

	if (is_task(x) && LIKELY(ws_deque_push(&w->w_deque, x) == 0)) {
		announce();
		return;
	}
	t = thread_for(w, x);
	lane_note(w, lane_of(t));
	make_stealable(w, t);
}

/* Puts what was stolen into the deque of w, and returns the first thread. */
static struct uproc_thread *adopt_stolen(struct ws_worker *w, struct stolen *o)
{
	struct uproc_thread *t;
	int i;

	ws_stop_enter(&w->w_stop);
	for (i = o->o_nr; --i > 0; )
		adopt(w, o->o_item[i]);
	t = thread_for(w, o->o_item[0]);
	lane_note(w, lane_of(t));
	ws_stop_leave(&w->w_stop);
	return t;
}

/*
 * Tries all other workers once, from a random worker on (xorshift: G.
 * Marsaglia, 2003), until something is taken.
 */
static void steal_from_any(struct ws_worker *w, struct stolen *o,
			   bool stuck_only, unsigned now)
{
	int nr = set->set_nr;
	int i;

	w->w_random ^= w->w_random << 13;
	w->w_random ^= w->w_random >> 17;
	w->w_random ^= w->w_random << 5;
	for (i = 0; i < nr && o->o_nr == 0; i++) {
		struct ws_worker *v = worker((w->w_random % nr + i) % nr);
		bool stuck_now = v != w && is_stuck(w, v, now);

		if (stuck_now || (v != w && !stuck_only &&
				  has_surplus(w, v, now)))
			steal_from(w, v, o, stuck_now);
	}
}

/* Tries stuck workers first, if a look is due; then all, if w is idle. */
static struct uproc_thread *steal_round(struct ws_worker *w, bool due,
					bool idle)
{
	long tasks = ws_deque_look(&w->w_deque);
	unsigned now = now_ns();
	struct uproc_thread *t;
	struct stolen o;

	o.o_nr = 0;
	o.o_tasks = stock_reserve(w, tasks + STEAL_MOST) ?		/* W7 */
		STEAL_MOST : (int)(w->w_stock.k_nr - tasks);
	if (due)
		steal_from_any(w, &o, true, now);
	if (o.o_nr == 0 && idle)
		steal_from_any(w, &o, false, now);
	if (o.o_nr == 0)
		return NULL;
	t = adopt_stolen(w, &o);
	ws_worth_stole(&w->w_thief, now, now_ns(), w->w_mail);
	TALLY(w, thefts, 1);
	TALLY(w, stolen, o.o_nr);
	return t;
}

static bool others_have_work(const struct ws_worker *w)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && (ws_deque_size(&v->w_deque) > 0 || queue_has(v)))
			return true;
	}
	return false;
}

static void remember_turns(void)
{
	unsigned now = now_ns();
	int i;

	for (i = 0; i < set->set_nr; i++)
		(void)ws_worth_stands(&worker(i)->w_sight, turn_of(worker(i)),
				      now);
}

/* Returns whether w has no thread to run, and no message. */
static bool has_nothing(struct ws_worker *w)
{
	return __atomic_load_n(&w->w_slot, __ATOMIC_RELAXED) == NULL &&
	       ws_deque_size(&w->w_deque) == 0 &&
	       uproc_queue_len(&w->w_proc.p_queue) == 0 &&
	       ws_kept_len(&w->w_kept) == 0 &&
	       uinbox_empty(&w->w_proc.p_inbox) &&
	       !uwait_posted(&w->w_proc.p_waits) && !uproc_is_due(&w->w_proc);
}

/*
 * Returns whether w has something to run, or shall end. A thief may have moved
 * messages from the inbox to the queue.
 */
static bool must_return(struct ws_worker *w)
{
	return !has_nothing(w) || uproc_stopped(set);
}

/* Sleeps as the watch: for WS_WATCH at most, and then looks. */
static void sleep_as_watch(struct ws_worker *w)
{
	bool woken;

	remember_turns();						/* U2 */
	woken = uproc_sleep(&w->w_proc, WS_WATCH * UTIME_MS);		/* U3 */
	if (!woken)
		(void)ws_watch_due(&all.s_watch);	/* so others need not */
	ws_watch_end(&all.s_watch);					/* U4 */
	if (woken && ws_seek_parked(&all.s_seek) > 1)
		wake_sleeper();		/* to watch instead */
}

/* Returns whether all workers sleep, so that none can get stuck. */
static bool all_sleep(struct ws_worker *w)
{
	if (ws_seek_parked(&all.s_seek) != set->set_nr)
		return false;
	if (ws_watch_kept(&all.s_watch))
		return true;		/* the watch will see */
	__atomic_store_n(&ws_unwatched, 1, __ATOMIC_SEQ_CST);
	TALLY(w, fences, 1);
	ws_fence_heavy();
	return ws_seek_parked(&all.s_seek) == set->set_nr;
}

static void park(struct ws_worker *w, unsigned *turns)
{
	int *asleep = &w->w_proc.p_asleep;

	upark_prepare(asleep);						/* S1 */
	TALLY(w, fences, 1);
	ws_seek_park(&all.s_seek);					/* S2 */
	if ((must_return(w) || others_have_work(w)) &&			/* S3 */
	    upark_cancel(asleep)) {
		ws_seek_unpark(&all.s_seek);
		uproc_pause(turns);
		return;
	}
	if (set->set_nr > 1 && !all_sleep(w) &&
	    ws_watch_begin(&all.s_watch))				/* U1 */
		sleep_as_watch(w);					/* S4 */
	else
		(void)uproc_sleep(&w->w_proc, UNEVER);			/* S4 */
	ws_seek_unpark(&all.s_seek);
	*turns = 0;
}

/* Returns whether a worker has something, and has not switched since then. */
static bool others_stand(const struct ws_worker *w, unsigned since)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && ws_worth_stood(&v->w_sight,
					     since) && is_behind(v))
			return true;
	}
	return false;
}

/*
 * Looks for work elsewhere: once, or, if there is a spare cpu, for a while.
 * After a nap it goes on only while a worker has something, and does not
 * switch.
 */
static struct uproc_thread *search(struct ws_worker *w, bool napped)
{
	unsigned most = napped ? WS_WORTH_FENCE_MOST : SEARCH;
	struct uproc_thread *t = steal_round(w, true, true);
	unsigned began = now_ns();
	int i;

	if (!set->set_spare || set->set_nr == 1)
		return t;
	while (t == NULL && !must_return(w) &&
	       ws_worth_age(now_ns(), began) < most &&
	       (!napped || others_stand(w, began))) {
		for (i = 0; i < SEARCH_RELAX; i++)
			uproc_relax();
		t = steal_round(w, false, true);
	}
	return t;
}

/* Sums up the notes of other workers (J1), to see whether any has changed. */
static unsigned dries(const struct ws_worker *w)
{
	unsigned sum = 0;
	int i;

	for (i = 0; i < set->set_nr; i++)
		if (worker(i) != w)
			sum += __atomic_load_n(&worker(i)->w_dry,
					       __ATOMIC_RELAXED);
	return sum;
}

/* Sleeps for a bounded time, and still counts as searching (J5). */
static void nap(struct ws_worker *w)
{
	int *asleep = &w->w_proc.p_asleep;

	upark_prepare(asleep);						/* S1 */
	if (must_return(w) && upark_cancel(asleep))			/* S3 */
		return;
	(void)uproc_sleep(&w->w_proc, ws_worth_nap(&w->w_thief));	/* S4 */
}

/*
 * Returns whether the others have work, or have run dry since, so that more may
 * come. If there is none now, one napping worker is enough.
 */
static bool should_nap(const struct ws_worker *w, unsigned since)
{
	if (others_have_work(w))
		return true;
	return ws_seek_alone(&all.s_seek) &&
	       (dries(w) != since ||
		(w->w_thief.h_nap < WS_WORTH_NAP_MOST &&
		 others_stand(w, now_ns())));
}

/* Searches, and naps while work comes and goes. */
static struct uproc_thread *search_and_nap(struct ws_worker *w)
{
	unsigned since = dries(w);
	struct uproc_thread *t = search(w, false);

	while (t == NULL && !must_return(w) && should_nap(w, since)) {
		since = dries(w);
		nap(w);
		t = must_return(w) ? NULL : search(w, true);
	}
	return t;
}

/*
 * Finds a thread to run elsewhere, or sleeps. NULL: look at home again. Not in.
 * *turns counts searches in vain since the last sleep. If there are many, a
 * post to this worker may be half-way, and its poster needs the cpu.
 */
static struct uproc_thread *seek(struct ws_worker *w, unsigned *turns)
{
	unsigned began = now_ns();
	struct uproc_thread *t;
	bool more;

	if (uwait_outside(&w->w_proc.p_waits)) {
		uwait_look_outside(&w->w_proc.p_waits);
		if (must_return(w))
			return NULL;
	}
	ws_worth_judge(&w->w_thief, began, w->w_mail);
	ws_seek_begin(&all.s_seek);
	t = search_and_nap(w);
	more = ws_seek_end(&all.s_seek);
	TALLY(w, fences, more);
	more = more && others_have_work(NULL);
	if (t == NULL && !must_return(w)) {
		ws_worth_calm(&w->w_thief);
		park(w, turns);
	} else {
		if (more)
			wake_sleeper();
		if (t == NULL)
			uproc_pause(turns);
	}
	w->w_idle += now_ns() - began;
	return t;
}

/* Making threads. */

/* Puts t, which is new, into the deque. Its maker runs on w. */
static ALWAYS_INLINE void enqueue_new(struct ws_worker *w,
				      struct uproc_thread *t)
{
	threads_add(w, 1);
	if (LIKELY(!(t->t_stack.u_mark & PINNED)) &&
	    LIKELY(ws_deque_push(&w->w_deque, thread_item(t)) == 0)) {
		announce();
		return;
	}
	ws_stop_enter(&w->w_stop);
	if (!enqueue(w, t))
		send_to(w, t);
	ws_stop_leave(&w->w_stop);
}

/* Makes a thread on worker nr, modulo all; -1: on the caller's, or in turn. */
static NOINLINE struct uproc_thread *create_slow(int nr, void (*f)(void *),
						 void *arg, int flags)
{
	struct uproc *here = uproc_here(set);
	struct uproc *p = here;
	struct uproc_thread *t;

	if (nr >= 0 || here == NULL)
		p = uproc_at(set, nr >= 0 ? (unsigned)nr : uproc_turn(set));
	t = uproc_new(here, p, f, arg, flags);
	if (t == NULL)
		return NULL;
	wakes_none(&t->t_wakes);
	if (p == here) {
		enqueue_new((struct ws_worker *)p, t);
		return t;
	}
	__atomic_fetch_add(&p->p_made, 1, __ATOMIC_RELAXED);
	send_to((struct ws_worker *)p, t);
	return t;
}

/* Makes a thread on the caller's worker, if that has memory in its pool. */
static inline struct uproc_thread *create(void (*f)(void *), void *arg)
{
	const struct ustack *self = ustack_self();
	struct uproc_thread *t;
	struct ws_worker *w;

	if (self == NULL || self->u_sched->s_done != done || f == NULL)
		return create_slow(-1, f, arg, 0);
	w = (struct ws_worker *)self->u_sched;
	t = umem_pop(&w->w_proc.p_pool, umem_class(BLOCK));
	if (t == NULL)
		return create_slow(-1, f, arg, 0);
	ustack_init(&t->t_stack, &w->w_proc.p_sched, f, arg, NULL, 0);
	wakes_none(&t->t_wakes);
	enqueue_new(w, t);
	return t;
}

static struct ws_thread *created(int nr, void (*f)(void *), void *arg,
				 int flags)
{
	return (struct ws_thread *)create_slow(nr, f, arg, flags);
}

struct ws_thread *ws_thread_init(void (*f)(void *), void *arg)
{
	return (struct ws_thread *)create(f, arg);
}

/* Called if the caller is no thread of ws, or w_stock may be too small. */
static NOINLINE int spawn_slow(void (*f)(void *), void *arg)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w == NULL || f == NULL)
		return create_slow(-1, f, arg, 0) != NULL ? 0 : -errno;
	return stock_reserve(w, ws_deque_look(&w->w_deque) + 1) ?
		ws_spawn(f, arg) : -ENOMEM;
}

int ws_spawn(void (*f)(void *), void *arg)
{
	const struct ustack *self = ustack_self();
	struct ws_deque_item task = { (void *)f, arg };
	struct ws_worker *w;

	if (self == NULL || self->u_sched->s_done != done || f == NULL)
		return spawn_slow(f, arg);
	w = (struct ws_worker *)self->u_sched;
	if (!LIKELY(ws_deque_most(&w->w_deque) < w->w_stock.k_nr))
		return spawn_slow(f, arg);
	if (!LIKELY(ws_deque_push(&w->w_deque, task) == 0))
		return -ENOMEM;
	announce();
	return 0;
}

struct ws_thread *ws_thread_on(int proc, void (*f)(void *), void *arg)
{
	return created(proc & INT_MAX, f, arg, 0);
}

struct ws_thread *ws_thread_pinned(int proc, void (*f)(void *), void *arg)
{
	return created(proc & INT_MAX, f, arg, PINNED);
}

struct ws_thread *ws_thread_joinable(void (*f)(void *), void *arg)
{
	return created(-1, f, arg, UPROC_JOIN);
}

/* Calls of running threads. */

static struct ws_worker *here(const char *misuse)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w == NULL)
		uproc_fail(misuse);
	return w;
}

int ws_yield(void)
{
	struct ws_worker *w = here("yield: called outside of a thread");
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	int rc;

	usched_point();
	ws_stop_enter(&w->w_stop);
	rc = enqueue(w, t) ? 0 : -ENOMEM;
	ws_stop_leave(&w->w_stop);
	if (rc != 0)
		return rc;
	announce();
	rc = ustack_block();
	if (rc != 0) {
		ws_stop_enter(&w->w_stop);
		enqueue_undo(w, t);
		ws_stop_leave(&w->w_stop);
	}
	return rc;
}

/* It need not be in: no thief moves the lane in which a thread runs. */
void ws_pin(void)
{
	struct uproc_thread *t;

	(void)here("pin: called outside of a thread");
	t = (struct uproc_thread *)ustack_self();
	if (t->t_stack.u_mark & PINNED)
		return;
	mark_set(t, t->t_stack.u_mark | PINNED);
	pins_add(t, 1);
}

void ws_unpin(void)
{
	struct ws_worker *w = here("unpin: called outside of a thread");
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();

	if (!(t->t_stack.u_mark & PINNED))
		return;
	ws_stop_enter(&w->w_stop);
	mark_set(t, t->t_stack.u_mark & ~PINNED);
	unpin(w, t);
	ws_stop_leave(&w->w_stop);
}

int ws_proc(void)
{
	struct uproc *p = uproc_here(__atomic_load_n(&set, __ATOMIC_RELAXED));

	return p != NULL ? p->p_nr : -1;
}

/* Preempts u if w has others to run; NULL: undoes that. See upreempt.h. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	int rc = 0;

	ws_stop_enter(&w->w_stop);
	if (u == NULL) {
		enqueue_undo(w, t);
		preempt_end(w, t);
		ws_stop_leave(&w->w_stop);
		return 0;
	}
	if (uwait_outside(&w->w_proc.p_waits))
		uwait_look_outside(&w->w_proc.p_waits);
	if (uwait_must_look(&w->w_proc.p_waits))
		take_waits(w, true);
	if (!has_nothing(w)) {
		rc = preempt_begin(w, t);
		if (rc == 0)
			preempt_end(w, t);
	}
	ws_stop_leave(&w->w_stop);
	return rc;
}

/* Wakes t. The dispatcher calls this, too, when a thread has ended. */
static void wake(struct uproc *here, struct uproc_thread *t)
{
	struct ws_worker *w = (struct ws_worker *)here;

	if (w == NULL || ws_home(t) != w) {
		ws_post((struct ws_thread *)t);
		return;
	}
	ws_stop_enter(&w->w_stop);
	if (ws_home(t) != w) {
		ws_stop_leave(&w->w_stop);
		ws_post((struct ws_thread *)t);
		return;
	}
	if (uwakes_add(&t->t_wakes, 1)) {
		struct uproc_thread *before = w->w_slot;

		ws_slot_set(w, t);
		ws_displaced(w, before);
	} else
		ws_stop_leave(&w->w_stop);
}

/* Wakes t where ws_wake() could not. The worker may still be in. */
void ws_wake_slow(struct ws_thread *t)
{
	struct uproc *p = uproc_here(set);

	if (p != NULL)
		ws_stop_leave(&((struct ws_worker *)p)->w_stop);
	if (!inherited(&t->s_thread))
		wake(p, &t->s_thread);
}

/* For uwait.h. */

/* Ends the wait of r here, if its thread is at home at w, the caller's. */
static bool tell_here(struct uproc *p, struct uwait *r)
{
	struct ws_worker *w = (struct ws_worker *)p;
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;
	struct uproc_thread *before = w->w_slot;

	ws_stop_enter(&w->w_stop);
	if (ws_home(t) != w) {
		ws_stop_leave(&w->w_stop);
		return false;
	}
	uwait_arrived(r);
	if (uwakes_add(&t->t_wakes, 1)) {
		before = w->w_slot;
		ws_slot_set(w, t);
		ws_displaced(w, before);
	} else
		ws_stop_leave(&w->w_stop);
	return true;
}

static void waits_tell(struct uwait *r)
{
	struct uproc_thread *t = (struct uproc_thread *)r->w_stack;
	struct ws_worker *w, *home;

	if (inherited(t))
		return;
	w = (struct ws_worker *)uproc_here(set);
	if (w != NULL && !w->w_stop.k_in && tell_here(&w->w_proc, r))
		return;
	if (w != NULL)
		__atomic_store_n(&lane_of(t)->e_from, w, __ATOMIC_RELAXED);
	home = ws_home(t);
	USCHED_RACE(61);
	/* In a source the caller sleeps, and must not wake itself. */
	if (&home->w_proc == uproc_native()) {
		uwait_post(&home->w_proc.p_waits, r);
		end_unwatched();
	} else
		waits_post(&home->w_proc.p_waits, r);
}

static void waits_back(struct ustack *u, int nr)
{
	uwakes_back(&((struct uproc_thread *)u)->t_wakes, nr);
}

/* Also if the node of the wake lies in the inbox of a former home. */
static bool waits_try(struct ustack *u)
{
	struct uwakes *k = &((struct uproc_thread *)u)->t_wakes;

	ws_mail_collect(k);
	if (k->w_count <= 0)
		return false;
	k->w_count--;
	return true;
}

/* In the child of fork() there is no thief, and none that could be waited for. */
static void waits_enter(struct uwait_host *h)
{
	struct ws_worker *w = (struct ws_worker *)h->h_sched;

	if (!uproc_inherited(w->w_proc.p_set))
		ws_stop_enter(&w->w_stop);
}

static void waits_leave(struct uwait_host *h)
{
	ws_stop_leave(&((struct ws_worker *)h->h_sched)->w_stop);
}

static void waits_drain(struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)u->u_sched;

	ws_mail_collect(&((struct uproc_thread *)u)->t_wakes);
	ws_stop_enter(&w->w_stop);
	take_messages(w, w);
	ws_stop_leave(&w->w_stop);
}

/* A single list for all: a thread may go on at another worker. */
static void waits_source(struct uwait_host *h, struct uwait_source *o)
{
	int i;

	pthread_mutex_lock(&set->set_lock);
	o->o_next = h->h_source;
	for (i = 0; i < set->set_nr; i++)
		__atomic_store_n(&worker(i)->w_proc.p_waits.h_source, o,
				 __ATOMIC_RELEASE);
	pthread_mutex_unlock(&set->set_lock);
}

static const struct uwait_ops wait_ops = {
	.o_tell   = waits_tell,
	.o_post   = waits_post,
	.o_back   = waits_back,
	.o_try    = waits_try,
	.o_waits  = uproc_waits,
	.o_drain  = waits_drain,
	.o_enter  = waits_enter,
	.o_leave  = waits_leave,
	.o_source = waits_source,
	.o_hold   = uproc_waits_hold
};

static int wait_here(struct usched *s)
{
	(void)s;
	return ws_wait();
}

static int make_here(struct uproc *p, void (*f)(void *), void *arg)
{
	(void)p;
	return ws_spawn(f, arg);
}

/* From the beginning to the end. */

static int worker_init(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	w->w_running_lane = NONE;
	ws_stop_init(&w->w_stop);
	p->p_sched.s_gate = &w->w_stop.k_in;
	if (p->p_random != 0)
		p->p_sched.s_next = next_drawn;
	ws_worth_init(&w->w_thief);
	w->w_random = p->p_nr * 2654435769u + 1;
	return ws_kept_init(&w->w_kept, ROOM_MIN) ?
		ws_deque_init(&w->w_deque, p->p_room) : -ENOMEM;
}

static void worker_fini(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	ws_deque_fini(&w->w_deque);
	umem_stock_fini(&w->w_stock);
	ws_kept_fini(&w->w_kept);
	free(w->w_lane);
	if (p->p_nr == 0)
		lanes_fini();
}

/* Called in the child of a thread of p: makes each wake take the slow path. */
static void in_child(struct uproc *p)
{
	((struct ws_worker *)p)->w_stop.k_stop |= WS_STOP_ASKED;
}

/* Forgets, in the child of fork(), all that is left of the parent's workers. */
static void forget_parent(void)
{
	memset(&all, 0, sizeof all);
	ws_unwatched = 0;
	lane_list    = NULL;
	ws_homes     = NULL;
}

static const struct uproc_ops ops = {
	.op_next    = next,
	.op_preempt = preempt,
	.op_size    = sizeof(struct ws_worker),
	.op_init    = worker_init,
	.op_fini    = worker_fini,
	.op_move = {
		.mv_lanes  = lanes_init,
		.mv_done   = done,
		.mv_again  = again,
		.mv_wait   = wait_here,
		.mv_wake   = wake,
		.mv_waits  = &wait_ops,
		.mv_tell   = tell_here,
		.mv_make   = make_here,
		.mv_forked = in_child
	}
};

int ws_init(int proc_nr, int thread_nr)
{
	if (set == NULL || uproc_inherited(set))
		forget_parent();
	if (proc_nr == 0)
		proc_nr = uproc_cpus();
	return proc_nr == -ENOMEM ? proc_nr :
		uproc_init(&set, proc_nr, thread_nr, &ops);
}

#define SCHED(name)	ws_##name
#define THREAD		struct ws_thread
#define SCHED_MOVES
#include "uproc_api.h"
