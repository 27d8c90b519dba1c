/* SPDX-License-Identifier: MIT */
/* ws.c: a work-stealing scheduler, whose threads go where there is time. */

/*
 * OVERVIEW
 *
 *	worker W				worker V, which steals
 *	+-----------------------------+		+--------------
 *	| slot    woken last          | <------ | 3 if W is stuck
 *	| deque   made, or displaced  | <------ | 1
 *	| queue   yielded, from inbox | <------ | 2
 *	| kept    cannot go away      |		|
 *	| inbox   wakes from others   | <------ | 3, and anyone posts
 *	+-----------------------------+		+--------------
 *
 * A thread that can run is in exactly one of these places, or in the hands of a
 * worker. A worker takes from them in the order in which they stand here, but
 * once in WS_RUN + 1 switches one that has waited for long: see ws.h.
 *
 * HOME
 *
 * The frames of a thread are bound to the addresses in its lane, but not to a
 * native thread. So each lane has a home: the worker that may run threads in
 * it, and nobody else does. All threads of a lane are at home there. Only the
 * home touches their wake counts, so a wait and a wake between threads of one
 * worker cost no atomic instruction, as in rr; others send a message (mail.h).
 *
 * A worker takes a thread with its lane, and so all others of that lane with
 * it. They may be in queues of the old home, which finds out when their turn
 * comes, and hands them over. A lane cannot go while a thread runs in it, nor
 * while one that is pinned is bound to it.
 *
 * Threads that wake each other should be at one place. So the home of a lane,
 * to which wakes come from elsewhere, hands it over to the waker now and then.
 * Where messages are dense, and neither worker has plenty to run, the lane goes
 * to the worker with the lower number, at once and never back. Otherwise a group
 * of threads that is split stays split: for each lane that comes another goes.
 * Messages are dense if the worker has less than two microseconds of work for
 * each. The messages themselves take as long.
 *
 * A thread that has not begun has no lane and no home: who takes it has it. If
 * the function is known to block deep, the lane is its own (usched_lane_own()),
 * in no list, and its home moves as that of any other.
 *
 * TASKS
 *
 * Nobody knows the threads that ws_spawn() makes until they begin. So a deque
 * holds only the function and the argument of such a one, a task. The thread is
 * made when it begins; or the one that has just ended, if that has never
 * blocked, goes on as the new one (s_again()). A tree of a million threads
 * needs as many as there are at a time, and they are in the cache.
 *
 * ws_spawn(), which can fail, reserves the memory for it in w_stock (umem.h),
 * which has no fewer blocks than there are tasks in the deque. A thief has room
 * for all that it may take.
 *
 * STOPPING A WORKER
 *
 * What belongs to a worker, slot, queues, the homes of its lanes, it touches
 * only while it is in, in the sense of stop.h. A thief stops it first, and is
 * not in itself then. One stop is for half of the deque, or of the queue. An
 * owner that switches answers, and goes on when the thief has done. An owner
 * that computes is not in; the thief waits for an answer for as long as a fence
 * takes, as it has measured, and then passes the fence.
 *
 * A theft costs more than threads are worth that run for nanoseconds. When it
 * pays is told in worth.h: the surplus of the owner must have lasted, or the
 * owner must not have switched for a while; and thieves learn.
 *
 * A worker that chooses from its slot on the stack of the thread that blocks
 * (quick()) stays in until that stack has been left: else a thief could take the
 * lane of that thread, and another worker run in it.
 *
 * SLEEP AND END
 *
 * A worker that finds nothing seeks for a while, and sleeps then, as in seek.h.
 * In between it naps, while others have work that comes and goes.
 *
 * A thread in the slot, or with a message in the inbox, will be run as soon as
 * the running thread blocks. If that computes for long, the worker is stuck: it
 * has not switched for longer than a forced stop takes (J3). All that waits
 * there can then be taken (3 above). A worker that seeks sees that within some
 * microseconds. Else the look is due each WATCH milliseconds (watch.h). A worker
 * that sleeps watches, while others run. If all sleep none has to, so
 * ws_unwatched is set, and the next thread that is put there wakes a watch. If
 * no worker sleeps, each asks once in WS_RUN + 1 switches if a look is due,
 * whatever its own threads do: they may yield, or wake each other, until
 * something has happened that is for a stuck worker to do. A worker that has
 * threads of its own takes from stuck workers only.
 *
 * A worker with nothing to run but one thread, which yields again and again,
 * takes from all workers, as an idle one does.
 *
 * The end is found as in idle.h. No worker sleeps with a thread that can run.
 *
 * PINS
 *
 * Threads of a lane that is pinned stand in the kept queue when they can run,
 * so thieves need not step over them. When the last pin of the lane goes, all
 * of them move to the end of the queue, where thieves look. They are found
 * without a search (kept.h): thousands of threads may unpin one after another.
 * Fixed lanes (FIXED) always stay pinned.
 *
 * INVARIANTS
 *
 * W1. A thread that can run is in one place, or in the hands of one worker.
 * W2. A thread that has begun runs only at the home of its lane, and its count
 *     is touched there only.
 * W3. The home of a lane changes only by its home, or while that is stopped;
 *     not while a thread runs in it (w_running_lane), nor while it is pinned.
 * W4. A lane is in the list of its home, or in none; in the free list of its
 *     home exactly if no thread is bound to it. Own lanes are in neither.
 * W5. Of the oldest in the deque, in the queue and in the kept ones, one runs
 *     at least each WS_RUN + 1 switches of its worker, in turn.
 * W6. A thread that could be taken away, and waits behind a running thread, does
 *     so for no longer than two looks of a watch and two naps (WORTH_NAP_MOST),
 *     unless all other workers compute, too. A worker that sleeps looks each
 *     WATCH milliseconds. A worker that naps looks after each nap. While no
 *     worker does either, each looks within WS_RUN + 1 switches after that time.
 *     A look may take others first: half of a queue, or 256. While the worker
 *     switches, W5 holds. A thief that seeks takes from it when the surplus has
 *     lasted for the patience of the thief, WORTH_MOST at most.
 * W7. Tasks in the deque of w <= blocks in w_stock, which only its own native
 *     thread changes.
 * W8. In w_kept are threads of w only: of pinned lanes, or, without a lane,
 *     bound to w themselves. So no thread that could be taken away is there,
 *     and thieves need not look. Pins change by the home: while it is in, or,
 *     as they are added, by the running thread, whose lane no thief touches.
 * W9. While STOP_LOOK of w is not set, a thread with u_sched w that has begun is
 *     at home at w; if it has not begun, it is at w, or in its inbox. So who
 *     takes a thread from w sets its u_sched, or, if others of its lane may
 *     have that, too, STOP_LOOK. That stays.
 *
 * REJECTED
 *
 * An atomic count for waits and wakes, and a lock for each lane: an atomic
 * instruction for each, 23 ns a message in a prototype, where this takes about
 * 5. Homes of threads instead of lanes: two workers would take turns in a lane.
 * The slot in the deque: a ring of two would go to and fro between two workers.
 * A search of the kept queue whenever a pin goes: quadratic. Looks after a
 * number of switches instead of a time: too soon for threads that yield at
 * once, too late for those that compute in between. Taking from workers that
 * are not stuck while there are two threads to run: two workers with two
 * threads each that yield would take them to and fro. Taking whatever is seen:
 * a tree of 31 threads, for which one worker takes 90 ms, took 2.4 s with two,
 * and takes 100 ms; without naps, 1.8 times the cpu time of that; without the
 * notes of J1, 1.4 times. A lane that
 * goes to any waker at each fourth message, also where messages are dense: a
 * group that is split took up to 6 s instead of 0.1 s to come together. Density
 * by time instead of work: two workers of which each waits for the other have
 * few messages in a second. A struct for each spawned
 * thread at once: 336 instructions to make and run an empty one, of which 176
 * are left, and 36 MB touched for half a million, instead of 8.
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
#define RAW_MIN		16
#define THREAD_ITEM	((void *)2)	/* in a deque, not a task */
#define WOKEN_MOST	1024	/* in the deque; then to the queue: 8 bytes less */
#define STEAL_MOST	256	/* items that are taken at once */
#define SEARCH		30000u	/* ns, if there is a spare cpu */
#define SEARCH_RELAX	16	/* between looks */
#define PULL		4	/* one in so many wakes takes the lane along */
#define DENSE_NR	16	/* messages, */
#define DENSE		2000u	/* and so many ns for each: they are dense */
#define PLENTY		4096u	/* switches without running dry */
#define NONE		(-1)	/* in w_running_lane: it runs no thread */

static struct uproc_set *set;
static long stuck;

static void done(struct usched *s, struct ustack *u);

/* Of all workers; seldom written. */
static struct {
	struct seek  s_seek;
	struct watch s_watch;
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

/* Threads that are alive, if all workers are summed up; tasks are not yet. */
static inline void threads_add(struct ws_worker *w, unsigned more)
{
	unsigned *at = &w->w_proc.p_threads;

	__atomic_store_n(at, *at + more, __ATOMIC_RELAXED);
}

/* Without lanes, threads stay where they have begun. */
struct ws_worker *ws_home_native(const struct uproc_thread *t)
{
	/* Acquires the u_sched of thread_begin(). */
	return set != NULL && set->set_on_native &&
	       __atomic_load_n(&t->t_stack.u_mark, __ATOMIC_ACQUIRE) & BEGUN ?
		(struct ws_worker *)uproc_of(t) : NULL;
}

/* Adds nr to a number of usched_stats(), if they are asked for. */
#define TALLY(w, field, nr)	do {					\
	struct usched_moves *to = (w)->w_proc.p_sched.s_moves;		\
									\
	if (__builtin_expect(to != NULL, 0))				\
		__atomic_store_n(&to->field, to->field + (nr),		\
				 __ATOMIC_RELAXED);			\
} while (0)

/* The time of worth.h. */
static unsigned now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)now.tv_sec * 1000000000u + (unsigned)now.tv_nsec;
}

/* Waking workers. */

/* One that sleeps, if there is one: there is work for it. */
static NOINLINE void wake_sleeper(void)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		int *asleep = &uproc_nth(set, i)->p_asleep;

		if (load(asleep)) {
			idle_wake(&set->set_idle, asleep);
			return;
		}
	}
}

/* After something was put where it can be taken. */
static inline void announce(void)
{
	if (seek_must_wake(&all.s_seek))
		wake_sleeper();
}

/* Something waits for the thread that runs somewhere. */
static void end_unwatched(void)
{
	if (__builtin_expect(__atomic_load_n(&ws_unwatched, __ATOMIC_RELAXED),
			     0) &&
	    __atomic_exchange_n(&ws_unwatched, 0, __ATOMIC_SEQ_CST))
		wake_sleeper();
}

/* Messages. */

static void post_node(struct ws_worker *w, struct uproc_thread *t)
{
	inbox_post(&w->w_proc.p_inbox, &t->t_wakes.w_node);
	idle_wake(&set->set_idle, &w->w_proc.p_asleep);
	end_unwatched();
}

/* Gives t, which can run and is in the hands of the caller, to w. */
static void send_to(struct ws_worker *w, struct uproc_thread *t)
{
	if (mail_hand(&t->t_wakes))
		post_node(w, t);
}

/* Returns if t is of an ancestor. Then ws_homes may be of another set. */
static inline bool inherited(const struct uproc_thread *t)
{
	return __builtin_expect(uproc_forks != 0, 0) &&
	       uproc_inherited(uproc_of(t)->p_set);
}

/* What is posted is a thread that has a home. */
void ws_post(struct ws_thread *thread)
{
	struct uproc_thread *t = &thread->s_thread;
	const struct ustack *self = ustack_self();

	uproc_live(t, "post");
	if (inherited(t) || !mail_post(&t->t_wakes))
		return;
	if (self != NULL && self->u_sched->s_done == done)
		__atomic_store_n(&lane_of(t)->e_from,
				 (struct ws_worker *)self->u_sched,
				 __ATOMIC_RELAXED);	/* a hint: see move_to_waker() */
	post_node(ws_home(t), t);
}

/* Tasks, and memory for them. */

/* Blocks for so many tasks. False: no memory. */
static bool stock_reserve(struct ws_worker *w, long nr)
{
	return umem_reserve(&w->w_stock, &set->set_mem, BLOCK, nr);
}

/* The memory of t, which has ended. Back to where that of tasks comes from. */
static inline void thread_free(struct ws_worker *w, struct uproc_thread *t)
{
	if (HARD || (!LIKELY(w->w_stock.k_nr < SPARE_MOST) &&
		     w->w_stock.k_nr >= deque_look(&w->w_deque) + SPARE_MOST)) {
		uproc_free(&w->w_proc, t);
		if (w->w_stock.k_raw_nr > 0)
			umem_stock_trim(&w->w_stock, &set->set_mem, BLOCK,
				deque_look(&w->w_deque) + SPARE_MOST);
	} else
		umem_stock_put(&w->w_stock, t);
}

/* Of a thread that is new, and can run. */
static inline void wakes_none(struct wakes *w)
{
	wakes_init(w);
	w->w_count = 0;
}

static inline struct deque_item thread_item(struct uproc_thread *t)
{
	struct deque_item x = { THREAD_ITEM, t };

	return x;
}

static inline bool is_thread(struct deque_item x)
{
	return x.i_what == THREAD_ITEM;
}

static inline bool is_task(struct deque_item x)
{
	return (uintptr_t)x.i_what > (uintptr_t)THREAD_ITEM;
}

static inline void (*task_f(struct deque_item x))(void *)
{
	return (void (*)(void *))x.i_what;
}

/* t, which waits for nothing, begins, or begins again. */
static inline void task_begin(struct uproc_thread *t, struct deque_item x)
{
	t->t_stack.u_f   = task_f(x);
	t->t_stack.u_arg = x.i_arg;
	wakes_none(&t->t_wakes);
}

/* What w has got from a deque: a thread, or a task; NULL: nothing. */
static struct uproc_thread *thread_for(struct ws_worker *w, struct deque_item x)
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

static bool queue_room(struct usched_queue *q)
{
	unsigned old = q->q_mask + 1;
	struct ustack **ring;
	unsigned i;

	if (uproc_queue_len(q) < old)
		return true;
	ring = old < 1u << 31 ? umem_array(old * 2) : NULL;
	if (ring == NULL)
		return false;
	for (i = q->q_head; i != q->q_tail; i++)
		ring[i & (old * 2 - 1)] = q->q_ring[i & q->q_mask];
	free(q->q_ring);
	q->q_ring = ring;
	q->q_mask = old * 2 - 1;
	return true;
}

/* At the end of the queue where it belongs. False: no memory. */
static bool enqueue(struct ws_worker *w, struct uproc_thread *t)
{
	struct usched_queue *q = &w->w_proc.p_queue;

	if (stays(w, t))
		return kept_put(&w->w_kept, t->t_stack.u_lane != 0 ?
				&lane_of(t)->e_kept : NULL, t);
	if (!queue_room(q))
		return false;
	uproc_queue_put(q, t);
	return true;
}

/* Takes t out: it is the last but for what others have put there since. */
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
 * Takes the running thread of w back, which could not block. It is still where
 * enqueue() has put it: no thief takes a thread of the lane w_running_lane, and the pins
 * of a lane change only by threads that run at its home, and by that.
 */
static void enqueue_undo(struct ws_worker *w, const struct uproc_thread *t)
{
	if (stays(w, t))
		kept_leave(&w->w_kept, t);
	else
		queue_leave(&w->w_proc.p_queue, t);
}

static struct uproc_thread *queue_get(struct usched_queue *q)
{
	return uproc_queue_empty(q) ? NULL : uproc_queue_get(q);
}

/* Puts t, which can run, where others can take it. By the owner. */
static void make_stealable(struct ws_worker *w, struct uproc_thread *t)
{
	bool goes = !stays(w, t);

	if ((!goes || !LIKELY(deque_look(&w->w_deque) < WOKEN_MOST) ||
	     !LIKELY(deque_push(&w->w_deque, thread_item(t)) == 0)) &&
	    !enqueue(w, t))
		send_to(w, t);
	else if (goes)
		announce();
}

/* The rest of a wake: another thread, perhaps, was in the slot before. */
void ws_displaced(struct ws_worker *w, struct uproc_thread *before)
{
	if (before != NULL)
		make_stealable(w, before);
	stop_leave(&w->w_stop);
	end_unwatched();
}

/* Lanes. */

/* The last pin of the lane is gone: its threads can be taken (W8). */
static NOINLINE void kept_to_queue(struct ws_worker *w, struct lane *e)
{
	struct usched_queue *q = &w->w_proc.p_queue;
	struct uproc_thread *t;

	while ((t = kept_get_of(&w->w_kept, &e->e_kept)) != NULL) {
		if (queue_room(q))
			uproc_queue_put(q, t);
		else
			send_to(w, t);
	}
	announce();
}

/* By w, the home of t, which is in. */
static void unpin(struct ws_worker *w, struct uproc_thread *t)
{
	pins_add(t, -1);
	if (t->t_stack.u_lane != 0 && !lane_stays(t) &&
	    lane_of(t)->e_kept.kg_nr != 0)
		kept_to_queue(w, lane_of(t));
}

/* Until it goes on it stays: it may be in the middle of anything. */
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
	/* Before it is marked: who sees that may ask for the home. */
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
 * Asks whether a look for what is stuck is due, whatever else w has to run. And
 * a worker with one thread, which yields again and again until something has
 * happened, is as good as idle: the thread that makes it happen may be in need
 * of a worker.
 */
static struct uproc_thread *steal_while_running(struct ws_worker *w)
{
	bool idle = deque_size(&w->w_deque) == 0 &&
		uproc_queue_len(&w->w_proc.p_queue) + kept_len(&w->w_kept) <= 1;
	bool due = set->set_nr > 1 && !watch_kept(&all.s_watch) &&	/* U5 */
		watch_due(&all.s_watch);				/* U6 */
	struct uproc_thread *t;

	if (set->set_nr == 1 || (!idle && !due))
		return NULL;
	stop_leave(&w->w_stop);
	t = steal_round(w, due, idle);					/* U7 */
	if (due)
		remember_turns();					/* U8 */
	stop_enter(&w->w_stop);
	return t;
}

/* Something was taken from the deque or the queue: was it the last (J1)? */
static inline void note_if_dry(struct ws_worker *w)
{
	if (deque_size(&w->w_deque) == 0 &&
	    uproc_queue_empty(&w->w_proc.p_queue))
		__atomic_store_n(&w->w_dry, w->w_turn, __ATOMIC_RELAXED);
}

/*
 * Of the threads that have waited for long one, in turn (W5). NULL: there is
 * none.
 */
static struct uproc_thread *oldest(struct ws_worker *w)
{
	struct uproc_thread *t;
	int i;

	for (i = 0; i < 3; i++) {
		switch (w->w_fair_turn++ % 3) {
		case 0:
			t = thread_for(w, deque_steal_alone(&w->w_deque));
			break;
		case 1:
			t = queue_get(&w->w_proc.p_queue);
			break;
		default:
			t = kept_get(&w->w_kept);
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
	t = thread_for(w, deque_pop(&w->w_deque));
	if (t == NULL)
		t = queue_get(&w->w_proc.p_queue);
	if (t == NULL)
		return kept_get(&w->w_kept);
	note_if_dry(w);
	return t;
}

/* The caller runs again: while others sleep, one of them has to watch. */
static void ensure_watch(void)
{
	if (seek_parked(&all.s_seek) > 0 && !watch_kept(&all.s_watch))
		wake_sleeper();
}

/* The worker is in. NULL: the set is being stopped. */
static struct uproc_thread *choose(struct ws_worker *w, bool fair)
{
	struct uproc_thread *t = NULL;
	unsigned turns = 0;
	bool sought = false;

	w->w_running_lane = NONE;
	if (fair) {
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
		stop_leave(&w->w_stop);
		t = seek(w, &turns);
		sought = true;
		stop_enter(&w->w_stop);
	}
	if (sought && t != NULL)
		ensure_watch();
	return t;
}

/* The end of each next(). */
static inline struct ustack *go(struct ws_worker *w, struct uproc_thread *t)
{
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	stop_leave(&w->w_stop);
	return &t->t_stack;
}

/* Runs t, or another one. */
static NOINLINE struct ustack *next_choose(struct ws_worker *w,
					 struct uproc_thread *t, bool fair)
{
	struct ws_worker *home;

	for (;; t = NULL) {
		if (t == NULL && (t = choose(w, fair)) == NULL) {
			stop_leave(&w->w_stop);
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

/* The slot, then the deque. */
static NOINLINE struct ustack *next_slow(struct ws_worker *w)
{
	struct uproc_thread *t;

	stop_enter(&w->w_stop);
	if (w->w_turn % (WS_RUN + 1) == 0)
		return next_choose(w, NULL, true);
	t = w->w_slot;
	ws_slot_set(w, NULL);
	if (t == NULL) {
		t = thread_for(w, deque_pop(&w->w_deque));
		if (t == NULL)
			return next_choose(w, NULL, false);
		note_if_dry(w);
	}
	if (t->t_stack.u_lane == 0 && w->w_free != 0 &&
	    !(t->t_stack.u_mark & PINNED)) {
		int own = lane_own(w, t->t_stack.u_f);

		lane_set(t, own != 0 ? own : lane_free(w));
	} else if (!LIKELY(ws_home(t) == w))
		return next_choose(w, t, false);
	return go(w, t);
}

static struct ustack *next(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned turn = w->w_turn + 1;
	bool sure = stop_quick(&w->w_stop);			/* W9 */
	struct uproc_thread *t;

	s->s_quick = s->s_next == next ? quick : NULL;
	__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
	if (!LIKELY(sure || stop_in(&w->w_stop)))
		return next_slow(w);		/* it waits */
	t = w->w_slot;
	if (t == NULL || !LIKELY(turn % (WS_RUN + 1) != 0) ||
	    !LIKELY(sure ? t->t_stack.u_lane != 0 : ws_is_home(w, t)))
		return next_slow(w);
	ws_slot_set(w, NULL);
	return go(w, t);
}

/*
 * The slot, or nothing. On the stack of the thread that blocks: so w stays in,
 * and no thief takes the lane of that, until the dispatcher opens s_gate.
 */
static struct ustack *quick(struct usched *s)
{
	struct ws_worker *w = (struct ws_worker *)s;
	unsigned turn = w->w_turn + 1;
	bool sure = stop_quick(&w->w_stop);			/* W9 */
	struct uproc_thread *t;

	if (!LIKELY(sure || stop_in(&w->w_stop))) {
		stop_leave(&w->w_stop);
		return NULL;
	}
	t = w->w_slot;
	if (t == NULL || !LIKELY(turn % (WS_RUN + 1) != 0) ||
	    !LIKELY(sure || ws_is_home(w, t)) ||
	    (uintptr_t)t->t_stack.u_top & USCHED_AWAY ||
	    t->t_stack.u_mark & GAVE) {
		stop_leave(&w->w_stop);
		return NULL;
	}
	ws_slot_set(w, NULL);
	__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
	sched_set(w, t);
	w->w_running_lane = t->t_stack.u_lane;
	return &t->t_stack;
}

static NOINLINE void unpin_ended(struct ws_worker *w, struct uproc_thread *t)
{
	stop_enter(&w->w_stop);
	unpin(w, t);
	stop_leave(&w->w_stop);
}

/*
 * Frees the memory of a thread without a joiner, if its node is in no inbox;
 * else the taker of the node does. The joiner of any other is told now: mail.h.
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
		(void)mail_close(&t->t_wakes, 0);
		uproc_end(&w->w_proc, t);
	} else if (LIKELY(mail_close(&t->t_wakes, WAKES_LEFT)))
		thread_free(w, t);
}

/*
 * A thread that has ended and has never blocked goes on as the next task:
 * nothing is left of what it was. Not in a lane that must stay: it could not be
 * stolen any more. Nor in one of its own, where it may have blocked without a
 * buffer; and a task that will have one is a thread of its own.
 */
static int again(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;
	unsigned turn = w->w_turn + 1;
	struct deque_item x = deque_none(NULL);
	int lane;

	if (turn % (WS_RUN + 1) == 0 || u->u_stack != NULL || u->u_mark != 0 ||
	    mail_settled(&t->t_wakes) || lane_stays(t) ||
	    u->u_lane > s->s_lane_nr)
		return 0;
	stop_enter(&w->w_stop);
	if (w->w_slot == NULL)
		x = deque_pop(&w->w_deque);
	if (is_task(x) && (lane = lane_own(w, task_f(x))) != 0) {
		x = thread_item(thread_for(w, x));
		lane_set(x.i_arg, lane);
	}
	if (LIKELY(is_task(x))) {
		__atomic_store_n(&w->w_turn, turn, __ATOMIC_RELAXED);
		note_if_dry(w);
		task_begin(t, x);
	} else if (is_thread(x))
		ws_slot_set(w, x.i_arg);
	stop_leave(&w->w_stop);
	return is_task(x);
}

/* Taking messages. */

/* Has it had others to run for long? Then it is not poor. */
static bool has_plenty(const struct ws_worker *w)
{
	return __atomic_load_n(&w->w_turn, __ATOMIC_RELAXED) -
	       __atomic_load_n(&w->w_dry, __ATOMIC_RELAXED) > PLENTY &&
	       (deque_size(&w->w_deque) != 0 ||
		uproc_queue_len(&w->w_proc.p_queue) != 0);
}

/*
 * A message has come: are they dense? Time without work is not counted. Two
 * workers of which each waits for the other have few messages, and less work.
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

/* Should the lane e of w go to another worker, which has woken a thread in it? */
static bool should_move(struct ws_worker *w, struct lane *e, struct ws_worker *from)
{
	bool plenty = has_plenty(w);
	bool there = has_plenty(from);

	if (!plenty && there)
		return false;
	if (!plenty && w->w_dense)
		return from->w_proc.p_nr < w->w_proc.p_nr;
	return ++e->e_wakes % PULL == 0;
}

/*
 * A lane whose threads are woken from elsewhere goes to who wakes them, now and
 * then: threads that wake each other come together. By the home.
 */
static bool move_to_waker(struct ws_worker *w, struct uproc_thread *t)
{
	struct lane *e = lane_of(t);
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
 * Opens the node of t, whose home is w. The caller is w, or has stopped it.
 * False: no memory, for now.
 */
static bool open_message(struct ws_worker *w, struct uproc_thread *t, bool owner)
{
	unsigned bits = mail_open(&t->t_wakes);
	bool can_run = bits & MAIL_RUN;

	if (owner)
		message_came(w);
	if (mail_wakes(bits) > 0 && wakes_add(&t->t_wakes, mail_wakes(bits))) {
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

static struct uproc_thread *thread_of(struct inbox_node *n)
{
	struct wakes *w;

	w = (struct wakes *)((char *)n - offsetof(struct wakes, w_node));
	return (struct uproc_thread *)((char *)w -
				       offsetof(struct uproc_thread, t_wakes));
}

/* Takes the messages of w. The caller is me: w, or a worker that stopped w. */
static void take_messages(struct ws_worker *w, struct ws_worker *me)
{
	bool owner = me == w;
	struct inbox_node *last = NULL;
	struct inbox_node *n;

	while ((n = inbox_take(&w->w_proc.p_inbox)) != NULL) {
		struct uproc_thread *t = thread_of(n);
		struct ws_worker *home;

		if (mail_gone(&t->t_wakes)) {
			if (mail_open(&t->t_wakes) & WAKES_LEFT)
				uproc_free(&me->w_proc, t);
			continue;
		}
		home = ws_home(t);
		if (home != w && home != NULL) {
			post_node(home, t);
			continue;
		}
		/* It runs: its count is in use. */
		if (!owner && home == w && t->t_stack.u_lane == w->w_running_lane) {
			n->n_next = last;
			last = n;
			continue;
		}
		if (!open_message(w, t, owner))
			break;
	}
	while ((n = last) != NULL) {
		last = n->n_next;
		inbox_post(&w->w_proc.p_inbox, n);
	}
}

/* Stealing. */

struct stolen {
	struct deque_item o_item[STEAL_MOST];
	int               o_nr;
	int               o_tasks;	/* for so many there is memory */
};

static void stolen_add(struct stolen *o, struct deque_item x)
{
	o->o_item[o->o_nr++] = x;
}

/* Takes t, which can run at v, for w. v is stopped. */
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

/* The older half of the queue of v, or as many as can go, if these are less. */
static void steal_queue(struct ws_worker *w, struct ws_worker *v, struct stolen *o)
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
	/* If there is nothing to be had, not again until something is added. */
	__atomic_store_n(&v->w_looked, q->q_tail - (o->o_nr > 0),
			 __ATOMIC_RELAXED);
}

/* The same, of the deque. */
static void steal_deque(struct ws_worker *w, struct ws_worker *v, struct stolen *o)
{
	long most = (deque_size(&v->w_deque) + 1) / 2;

	while (most-- > 0 && o->o_nr < o->o_tasks) {
		struct deque_item x = deque_steal_alone(&v->w_deque);

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

/* Something waits for the thread that it runs. */
static bool is_behind(const struct ws_worker *v)
{
	return !load(&v->w_proc.p_asleep) &&
	       (__atomic_load_n(&v->w_slot, __ATOMIC_RELAXED) != NULL ||
		deque_size(&v->w_deque) != 0 ||
		uproc_queue_len(&v->w_proc.p_queue) != 0 ||
		!inbox_empty((struct inbox *)&v->w_proc.p_inbox));
}

static unsigned turn_of(const struct ws_worker *v)
{
	return __atomic_load_n(&v->w_turn, __ATOMIC_RELAXED);
}

static bool is_stuck(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	return worth_stuck(&w->w_thief, &v->w_sight, turn_of(v), now) &&
	       is_behind(v);
}

static bool has_surplus(struct ws_worker *w, struct ws_worker *v, unsigned now)
{
	unsigned dry = __atomic_load_n(&v->w_dry, __ATOMIC_RELAXED);

	if (deque_size(&v->w_deque) != 0 || queue_has(v))
		return worth_surplus(&w->w_thief, &v->w_sight, dry, turn_of(v),
				     now);
	worth_none(&v->w_sight, dry);
	return false;
}

/* Lines up what waits for the running thread of v, to be taken by w. */
static void enqueue_stuck(struct ws_worker *w, struct ws_worker *v)
{
	struct uproc_thread *t = v->w_slot;

	take_messages(v, w);
	if (t != NULL && enqueue(v, t))
		ws_slot_set(v, NULL);
}

/* Stops v, if need be by force; at once if it runs the same thread for long. */
static bool stop_worker(struct ws_worker *w, struct ws_worker *v, bool at_once)
{
	unsigned long ticket = stop_ask(&v->w_stop);
	unsigned from = now_ns();
	bool stopped;

	if (ticket == 0)
		return false;
	TALLY(w, stops, 1);
	while (!at_once && worth_age(now_ns(), from) < w->w_thief.h_fence) {
		if (stop_answered(&v->w_stop, ticket))
			return true;
		uproc_relax();
	}
	from = now_ns();
	TALLY(w, forced, 1);
	TALLY(w, fences, 1);
	stopped = stop_force(&v->w_stop);
	worth_fence(&w->w_thief, worth_age(now_ns(), from));
	return stopped;
}

/* Takes threads and tasks from v, another worker, which may be stuck. */
static void steal_from(struct ws_worker *w, struct ws_worker *v, struct stolen *o,
		  bool stuck_now)
{
	if (!stop_worker(w, v, stuck_now)) {
		worth_vain(&w->w_thief, &v->w_sight, turn_of(v), now_ns());
		return;
	}
	steal_deque(w, v, o);
	if (stuck_now && v->w_running_lane != NONE)
		enqueue_stuck(w, v);		/* it will look again */
	if (o->o_nr == 0)
		steal_queue(w, v, o);
	stop_end(&v->w_stop);
	if (o->o_nr == 0)
		worth_vain(&w->w_thief, &v->w_sight, turn_of(v), now_ns());
}

static void adopt(struct ws_worker *w, struct deque_item x)
{
	struct uproc_thread *t;

	if (is_task(x) && LIKELY(deque_push(&w->w_deque, x) == 0)) {
		announce();
		return;
	}
	t = thread_for(w, x);
	lane_note(w, lane_of(t));
	make_stealable(w, t);
}

/* The first of them; the others are lined up. */
static struct uproc_thread *adopt_stolen(struct ws_worker *w, struct stolen *o)
{
	struct uproc_thread *t;
	int i;

	stop_enter(&w->w_stop);
	for (i = o->o_nr; --i > 0; )
		adopt(w, o->o_item[i]);
	t = thread_for(w, o->o_item[0]);
	lane_note(w, lane_of(t));
	stop_leave(&w->w_stop);
	return t;
}

/* All others once, from a random one on (xorshift: G. Marsaglia, 2003). */
static void steal_from_any(struct ws_worker *w, struct stolen *o, bool stuck_only,
		       unsigned now)
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

/* What is stuck comes first, if the look is due; then all, if w is idle. */
static struct uproc_thread *steal_round(struct ws_worker *w, bool due,
					bool idle)
{
	long tasks = deque_look(&w->w_deque);
	unsigned now = now_ns();
	struct uproc_thread *t;
	struct stolen o;

	o.o_nr = 0;
	o.o_tasks = stock_reserve(w, tasks + STEAL_MOST) ? STEAL_MOST :		/* W7 */
		(int)(w->w_stock.k_nr - tasks);
	if (due)
		steal_from_any(w, &o, true, now);
	if (o.o_nr == 0 && idle)
		steal_from_any(w, &o, false, now);
	if (o.o_nr == 0)
		return NULL;
	t = adopt_stolen(w, &o);
	worth_stole(&w->w_thief, now, now_ns(), w->w_mail);
	TALLY(w, thefts, 1);
	TALLY(w, stolen, o.o_nr);
	return t;
}

static bool others_have_work(const struct ws_worker *w)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && (deque_size(&v->w_deque) > 0 || queue_has(v)))
			return true;
	}
	return false;
}

static void remember_turns(void)
{
	unsigned now = now_ns();
	int i;

	for (i = 0; i < set->set_nr; i++)
		(void)worth_stands(&worker(i)->w_sight, turn_of(worker(i)),
				   now);
}

/* No thread can run, and no message has come. */
static bool has_nothing(struct ws_worker *w)
{
	return __atomic_load_n(&w->w_slot, __ATOMIC_RELAXED) == NULL &&
	       deque_size(&w->w_deque) == 0 &&
	       uproc_queue_len(&w->w_proc.p_queue) == 0 &&
	       kept_len(&w->w_kept) == 0 &&
	       inbox_empty(&w->w_proc.p_inbox);
}

/*
 * There is something for it, or it shall end. A thief may have lined up what
 * was in the inbox.
 */
static bool must_return(struct ws_worker *w)
{
	return !has_nothing(w) || uproc_stopped(set);
}

/* Sleeps, and watches. */
static void sleep_as_watch(struct ws_worker *w)
{
	int *asleep = &w->w_proc.p_asleep;
	bool woken;

	remember_turns();						/* U2 */
	woken = idle_doze(&set->set_idle, set->set_nr, asleep,
			  WATCH * 1000000L);				/* U3 */
	if (!woken)
		(void)watch_due(&all.s_watch);	/* others need not */
	watch_end(&all.s_watch);					/* U4 */
	if (woken && seek_parked(&all.s_seek) > 1)
		wake_sleeper();		/* another one has to watch */
}

/* Nobody else runs: nothing can get stuck. False: somebody does. */
static bool all_sleep(struct ws_worker *w)
{
	if (seek_parked(&all.s_seek) != set->set_nr)
		return false;
	if (watch_kept(&all.s_watch))
		return true;		/* it will see */
	__atomic_store_n(&ws_unwatched, 1, __ATOMIC_SEQ_CST);
	TALLY(w, fences, 1);
	fence_heavy();
	return seek_parked(&all.s_seek) == set->set_nr;
}

static void park(struct ws_worker *w, unsigned *turns)
{
	int *asleep = &w->w_proc.p_asleep;

	park_prepare(asleep);						/* S1 */
	TALLY(w, fences, 1);
	seek_park(&all.s_seek);						/* S2 */
	if ((must_return(w) || others_have_work(w)) &&			/* S3 */
	    park_cancel(asleep)) {
		seek_unpark(&all.s_seek);
		uproc_pause(turns);
		return;
	}
	if (set->set_nr > 1 && !all_sleep(w) &&
	    watch_begin(&all.s_watch))					/* U1 */
		sleep_as_watch(w);						/* S4 */
	else
		idle_sleep(&set->set_idle, set->set_nr, asleep);	/* S4 */
	seek_unpark(&all.s_seek);
	*turns = 0;
}

/* Something waits for a thread that has run since then, or for any. */
static bool others_stand(const struct ws_worker *w, unsigned since)
{
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct ws_worker *v = worker(i);

		if (v != w && worth_stood(&v->w_sight, since) && is_behind(v))
			return true;
	}
	return false;
}

/*
 * Looks for work elsewhere: for a while, if there is a cpu to spare. But after a
 * nap only as long as a worker has something, and does not switch.
 */
static struct uproc_thread *search(struct ws_worker *w, bool napped)
{
	unsigned most = napped ? WORTH_FENCE_MOST : SEARCH;
	struct uproc_thread *t = steal_round(w, true, true);
	unsigned began = now_ns();
	int i;

	if (!set->set_spare || set->set_nr == 1)
		return t;
	while (t == NULL && !must_return(w) &&
	       worth_age(now_ns(), began) < most &&
	       (!napped || others_stand(w, began))) {
		for (i = 0; i < SEARCH_RELAX; i++)
			uproc_relax();
		t = steal_round(w, false, true);
	}
	return t;
}

/* How often all others have run dry. */
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

/* Sleeps, though it counts as seeking (J5). */
static void nap(struct ws_worker *w)
{
	int *asleep = &w->w_proc.p_asleep;

	park_prepare(asleep);						/* S1 */
	if (must_return(w) && park_cancel(asleep))				/* S3 */
		return;
	(void)idle_doze(&set->set_idle, set->set_nr, asleep,		/* S4 */
			(long)worth_nap(&w->w_thief));
}

/*
 * The others have work, or have had: they have run dry since. If there is none
 * now, one worker that naps is enough.
 */
static bool should_nap(const struct ws_worker *w, unsigned since)
{
	if (others_have_work(w))
		return true;
	return seek_alone(&all.s_seek) &&
	       (dries(w) != since ||
		(w->w_thief.h_nap < WORTH_NAP_MOST &&
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
 * For a thread to run, elsewhere; NULL: look at home again. Not in. *turns
 * counts searches in vain since the last sleep: the thread that can run may be
 * in a post that is half-way.
 */
static struct uproc_thread *seek(struct ws_worker *w, unsigned *turns)
{
	unsigned began = now_ns();
	struct uproc_thread *t;
	bool more;

	worth_judge(&w->w_thief, began, w->w_mail);
	seek_begin(&all.s_seek);
	t = search_and_nap(w);
	more = seek_end(&all.s_seek);
	TALLY(w, fences, more);
	more = more && others_have_work(NULL);
	if (t == NULL && !must_return(w)) {
		worth_calm(&w->w_thief);
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

/* t is new, and its maker runs on w. */
static ALWAYS_INLINE void enqueue_new(struct ws_worker *w, struct uproc_thread *t)
{
	threads_add(w, 1);
	if (LIKELY(!(t->t_stack.u_mark & PINNED)) &&
	    LIKELY(deque_push(&w->w_deque, thread_item(t)) == 0)) {
		announce();
		return;
	}
	stop_enter(&w->w_stop);
	if (!enqueue(w, t))
		send_to(w, t);
	stop_leave(&w->w_stop);
}

/* On worker nr, modulo all; -1: on that of the caller, or one in turn. */
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

/* The same, nearly always on that of the caller, which has memory at hand. */
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

/* By no thread of ours; or there may be no memory for one more task. */
static NOINLINE int spawn_slow(void (*f)(void *), void *arg)
{
	struct ws_worker *w = (struct ws_worker *)uproc_here(set);

	if (w == NULL || f == NULL)
		return create_slow(-1, f, arg, 0) != NULL ? 0 : -errno;
	return stock_reserve(w, deque_look(&w->w_deque) + 1) ? ws_spawn(f, arg) :
		-ENOMEM;
}

int ws_spawn(void (*f)(void *), void *arg)
{
	const struct ustack *self = ustack_self();
	struct deque_item task = { (void *)f, arg };
	struct ws_worker *w;

	if (self == NULL || self->u_sched->s_done != done || f == NULL)
		return spawn_slow(f, arg);
	w = (struct ws_worker *)self->u_sched;
	if (!LIKELY(deque_most(&w->w_deque) < w->w_stock.k_nr))
		return spawn_slow(f, arg);
	if (!LIKELY(deque_push(&w->w_deque, task) == 0))
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

/* Of running threads. */

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
	stop_enter(&w->w_stop);
	rc = enqueue(w, t) ? 0 : -ENOMEM;
	stop_leave(&w->w_stop);
	if (rc != 0)
		return rc;
	announce();
	rc = ustack_block();
	if (rc != 0) {
		stop_enter(&w->w_stop);
		enqueue_undo(w, t);
		stop_leave(&w->w_stop);
	}
	return rc;
}

/* Not in: no thief moves the lane in which it runs. */
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
	stop_enter(&w->w_stop);
	mark_set(t, t->t_stack.u_mark & ~PINNED);
	unpin(w, t);
	stop_leave(&w->w_stop);
}

int ws_proc(void)
{
	struct uproc *p = uproc_here(__atomic_load_n(&set, __ATOMIC_RELAXED));

	return p != NULL ? p->p_nr : -1;
}

/* If there are others. See upreempt.h. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct ws_worker *w = (struct ws_worker *)s;
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	int rc = 0;

	stop_enter(&w->w_stop);
	if (u == NULL) {
		enqueue_undo(w, t);
		preempt_end(w, t);
	} else if (!has_nothing(w)) {
		rc = preempt_begin(w, t);
		if (rc == 0)
			preempt_end(w, t);
	}
	stop_leave(&w->w_stop);
	return rc;
}

/* Also by the dispatcher, when a thread has ended: there is no running one. */
static void wake(struct uproc *here, struct uproc_thread *t)
{
	struct ws_worker *w = (struct ws_worker *)here;

	if (w == NULL || ws_home(t) != w) {
		ws_post((struct ws_thread *)t);
		return;
	}
	stop_enter(&w->w_stop);
	if (ws_home(t) != w) {
		stop_leave(&w->w_stop);
		ws_post((struct ws_thread *)t);
		return;
	}
	if (wakes_add(&t->t_wakes, 1)) {
		struct uproc_thread *before = w->w_slot;

		ws_slot_set(w, t);
		ws_displaced(w, before);
	} else
		stop_leave(&w->w_stop);
}

/* It may have been in. */
void ws_wake_slow(struct ws_thread *t)
{
	struct uproc *p = uproc_here(set);

	if (p != NULL)
		stop_leave(&((struct ws_worker *)p)->w_stop);
	if (!inherited(&t->s_thread))
		wake(p, &t->s_thread);
}

/* Also wakes whose node lies in the inbox of a former home, which computes. */
static void take_wakes(struct uproc *p)
{
	(void)p;
	mail_collect(&((struct uproc_thread *)ustack_self())->t_wakes);
}

/* From the beginning to the end. */

static int worker_init(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	w->w_running_lane = NONE;
	stop_init(&w->w_stop);
	p->p_sched.s_gate = &w->w_stop.k_in;
	worth_init(&w->w_thief);
	w->w_random = p->p_nr * 2654435769u + 1;
	return kept_init(&w->w_kept, ROOM_MIN) ?
		deque_init(&w->w_deque, p->p_room) : -ENOMEM;
}

static void worker_fini(struct uproc *p)
{
	struct ws_worker *w = (struct ws_worker *)p;

	deque_fini(&w->w_deque);
	umem_stock_fini(&w->w_stock);
	kept_fini(&w->w_kept);
	free(w->w_lane);
	if (p->p_nr == 0)
		lanes_fini();
}

/* In the child of a thread of p no wake goes by the short way any more. */
static void in_child(struct uproc *p)
{
	((struct ws_worker *)p)->w_stop.k_stop |= STOP_ASKED;
}

/* What may be left of the parent's workers, in the child of fork(). */
static void forget_parent(void)
{
	memset(&all, 0, sizeof all);
	ws_unwatched = 0;
	lane_list    = NULL;
	ws_homes     = NULL;
}

static const struct uproc_kind kind = {
	.k_size    = sizeof(struct ws_worker),
	.k_next    = next,
	.k_init    = worker_init,
	.k_fini    = worker_fini,
	.k_lanes   = lanes_init,
	.k_done    = done,
	.k_preempt = preempt,
	.k_again   = again,
	.k_wait    = ws_wait,
	.k_wake    = wake,
	.k_drain   = take_wakes,
	.k_forked  = in_child
};

int ws_init(int proc_nr, int thread_nr)
{
	(void)fence_init();		/* if it fails, it is only slower */
	if (set == NULL || uproc_inherited(set))
		forget_parent();
	if (proc_nr == 0)
		proc_nr = uproc_cpus();
	return proc_nr == -ENOMEM ? proc_nr :
		uproc_init(&set, proc_nr, thread_nr, &kind);
}

#define SCHED(name)	ws_##name
#define THREAD		struct ws_thread
#define SCHED_MOVES
#include "uproc_api.h"
