/* SPDX-License-Identifier: MIT */
/* runnable.h: where threads that can run, and tasks, wait. A part of ws.c. */

#ifndef WS_RUNNABLE_H
#define WS_RUNNABLE_H

/*
 * SLOT, DEQUE, QUEUE
 *
 * The thread in the slot is displaced when another is woken, and goes to the
 * deque. It goes to the queue instead if the deque is long (WOKEN_MOST),
 * because an item takes 8 bytes there, and 16 in the deque.
 *
 * A worker touches its slot, its queues and its lanes only inside its section
 * (stop.h), or a thief does that has stopped the worker.
 *
 * TASKS
 *
 * No caller holds a pointer to a thread made by ws_spawn(). So until the thread
 * begins it is only a function and an argument: a task, and the deque holds
 * these two words. The thread is made when the task begins. Or the thread that
 * has just ended becomes the new thread, if it has never blocked (again() in
 * choose.h). A tree of a million threads needs only as many structs as live at
 * a time, and they are in the cache.
 *
 * ws_spawn() reserves the memory in w_stock (umem.h). So only ws_spawn() can
 * fail, and the start of a task never does. A thief reserves memory for all
 * tasks that it may take, before it takes them.
 *
 * PINS
 *
 * While a lane is pinned, its threads that can run are in the pinned queue. So
 * a thief need not step over them. When the last pin of the lane goes, all of
 * them move to the end of the queue, where thieves look. They are found without
 * a search (pinned_queue.h), since thousands of threads may unpin one after
 * another. The fixed lanes of each worker (FIXED) are always pinned.
 *
 * INVARIANTS
 *
 * W7. The deque of w holds no more tasks than w_stock holds blocks. Only the
 *     native thread of w changes w_stock.
 * W8. w_pinned holds only threads that must run on w: those of pinned lanes,
 *     and, without lanes, those that have begun or are pinned. So thieves need
 *     not look there. The home changes pins inside its section. The running
 *     thread may also add a pin, since no thief touches its lane.
 *
 * REJECTED
 *
 * The slot as part of the deque: a ring of two would go to and fro between two
 * workers. A search of the pinned queue whenever a pin goes: quadratic.
 *
 * A struct for each spawned thread at once: 336 instructions to make and run an
 * empty thread, of which 176 are left, and 36 MB touched for half a million
 * threads, instead of 8.
 */

#include "homes.h"

#include <stdlib.h>

#define BLOCK	sizeof(struct uproc_thread)
#define SPARE_MOST	512	/* blocks, beside those that tasks need */
#define THREAD_ITEM	((void *)2)	/* in a deque, not a task */
#define WOKEN_MOST	1024	/* in the deque; others go to the queue */

/* Tasks, and memory for them. */

/* Reserves blocks for nr tasks. False: no memory. */
static bool stock_reserve(struct ws_worker *w, long nr)
{
	return umem_reserve(&w->w_stock, &set->set_mem, BLOCK, nr);
}

/* Frees t, which has ended: its memory goes where that of tasks comes from. */
static inline void thread_free(struct ws_worker *w, struct uproc_thread *t)
{
	if (HARD || (unlikely(w->w_stock.k_nr >= SPARE_MOST) &&
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

/* Items of the deque are threads and tasks, by their first word. */
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
	UHARD(begins(&t->t_object));
	wakes_none(&t->t_wakes);
	return t;
}

/* Queues. */

/* Takes the thread in the slot. NULL: none. Owner, inside its section. */
static inline struct uproc_thread *slot_take(struct ws_worker *w)
{
	struct uproc_thread *t = w->w_gate.g_slot;

	ws_slot_set(&w->w_gate, NULL);
	return t;
}

/* Makes room for another thread. Owner only. False: no memory. */
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

/*
 * Puts t at the end of the queue, or of the pinned queue. Caller is inside the
 * section of w, or has stopped w. False: no memory.
 */
static bool enqueue(struct ws_worker *w, struct uproc_thread *t)
{
	struct usched_queue *q = &w->w_proc.p_queue;

	if (stays(w, t))
		return ws_pinned_put(&w->w_pinned, t->t_stack.u_lane != 0 ?
				     &lane_of(t)->e_pinned : NULL, t);
	if (!queue_room(q))
		return false;
	uproc_queue_put(q, t);
	return true;
}

/* Takes t out of q. It is the last, unless a thief has added more since. */
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
		ws_pinned_leave(&w->w_pinned, t);
	else
		queue_leave(&w->w_proc.p_queue, t);
}

/* Takes the first thread of q. NULL: q is empty. */
static struct uproc_thread *queue_get(struct usched_queue *q)
{
	return uproc_queue_empty(q) ? NULL : uproc_queue_get(q);
}

/* Notes the switch at which the deque and the queue become empty (steal_policy J1). */
static inline void note_if_drained(struct ws_worker *w)
{
	if (ws_deque_size(&w->w_deque) == 0 &&
	    uproc_queue_empty(&w->w_proc.p_queue))
		__atomic_store_n(&w->w_drained, w->w_switches,
				 __ATOMIC_RELAXED);
}

/*
 * Puts t, which can run, where a thief can take it. Owner, inside its section.
 */
static void make_stealable(struct ws_worker *w, struct uproc_thread *t)
{
	bool goes = !stays(w, t);

	if ((!goes || unlikely(ws_deque_look(&w->w_deque) >= WOKEN_MOST) ||
	     unlikely(ws_deque_push(&w->w_deque, thread_item(t)) != 0)) &&
	    !enqueue(w, t))
		send_to(w, t);
	else if (goes)
		announce();
}

/* Does the rest of a wake: see ws.h. */
void ws_displaced(struct ws_worker *w, struct uproc_thread *before)
{
	if (before != NULL)
		make_stealable(w, before);
	ws_leave(w);
	end_unwatched();
}

/*
 * Puts t, which was woken, into the slot. Owner, inside its section, which
 * ends.
 */
static inline void slot_put(struct ws_worker *w, struct uproc_thread *t)
{
	struct uproc_thread *before = w->w_gate.g_slot;

	ws_slot_set(&w->w_gate, t);
	ws_displaced(w, before);
}

/* Pins. */

/* Called when the last pin of e has gone: thieves can take its threads (W8). */
static NOINLINE void pinned_to_queue(struct ws_worker *w, struct ws_lane *e)
{
	struct usched_queue *q = &w->w_proc.p_queue;
	struct uproc_thread *t;

	while ((t = ws_pinned_get_of(&w->w_pinned, &e->e_pinned)) != NULL) {
		if (queue_room(q))
			uproc_queue_put(q, t);
		else
			send_to(w, t);
	}
	announce();
}

/* Takes a pin from the lane of t. Its home w, inside its section. */
static void unpin(struct ws_worker *w, struct uproc_thread *t)
{
	pins_add(t, -1);
	if (t->t_stack.u_lane != 0 && !lane_stays(t) &&
	    lane_of(t)->e_pinned.kg_nr != 0)
		pinned_to_queue(w, lane_of(t));
}

#endif /* WS_RUNNABLE_H */
