/* SPDX-License-Identifier: MIT */
/* vqueue.c: lengths of the queues of a program. A part of the recorder. */

/*
 * A channel that passes values without a wait calls nobody, so its length is looked
 * at now and then: by the first processor that switches after PERIOD, BATCH of them
 * in turn.
 *
 * A channel lies on the heap, and has no symbol. But mostly a variable of the program
 * points to it, and then it has the name of that: the program's data are searched once
 * for each queue, until SEARCHED words were read.
 *
 * INVARIANT
 *
 * L1. What a queue points to is read only under lock, and is in the list then:
 *     who frees it removes it before.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vqueue.h"
#include "vclock.h"
#include "vnames.h"
#include "vstack.h"
#include "lock.h"
#include "usymbol.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define PERIOD		25	/* times UVIEW_LONG_RUN: 5 ms */
#define BATCH		16	/* queues at a time */
#define AGAIN		64	/* looks at a queue after which it is noted anyway */
#define SEARCHED	((size_t)8 << 20)	/* words of the program's data, in all */
#define TEXT_MOST	160	/* bytes of a name */

struct queue {
	struct uwait_queue q_is;
	uint32_t           q_length, q_taken;	/* as noted last */
	unsigned           q_looks;	/* since it was noted */
	unsigned           q_next;	/* in the line of its hash, as heads */
	bool               q_new;
};

static struct ulock lock;		/* protects all that follows */
static struct queue *queues;
static unsigned *heads;			/* by hash: 1 + number of a queue; 0: none */
static unsigned nr, room_, next;	/* room_: of both; a power of two */
static uint64_t due;			/* ticks */

/* Another native thread may have been about to change them. */
void uview_queues_renew(void)
{
	memset(&lock, 0, sizeof lock);
	queues = NULL;
	heads  = NULL;
	nr = room_ = next = 0;
}

/* Returns where the number of the queue at stands, or 0, if there is none. */
static unsigned *place_of(const void *at)
{
	unsigned *p = &heads[(uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15u >> 32 &
			     (room_ - 1)];

	while (*p != 0 && queues[*p - 1].q_is.uq_at != at)
		p = &queues[*p - 1].q_next;
	return p;
}

static void place_put(unsigned i)
{
	unsigned *p;

	queues[i].q_next = 0;
	p = place_of(queues[i].q_is.uq_at);
	queues[i].q_next = *p;
	*p = i + 1;
}

/* False: there is no memory. */
static bool grow(void)
{
	unsigned room = room_ != 0 ? room_ * 2 : 16, i;
	struct queue *more = realloc(queues, room * sizeof *queues);
	unsigned *heads_ = more != NULL ? calloc(room, sizeof *heads) : NULL;

	if (more != NULL)
		queues = more;
	if (heads_ == NULL)
		return false;
	free(heads);
	heads = heads_;
	room_ = room;
	for (i = 0; i < nr; i++)
		place_put(i);
	return true;
}

void uview_queue_add(const struct uwait_queue *q)
{
	if (uview_all.v_file == NULL)
		return;
	ulock_get(&lock);
	if (nr < room_ || grow()) {
		queues[nr] = (struct queue){ *q, 0, 0, 0, 0, true };
		place_put(nr++);
	}
	ulock_put(&lock);
}

static void put(struct uview_tap *a, uint64_t time, const void *at, uint32_t length,
		uint32_t taken)
{
	uview_put(a, time, UVIEW_NOTE, UVIEW_QUEUE, at, uview_text("channel"));
	uring_put(&a->a_ring, time, UVIEW_NOTE, UVIEW_LENGTH,
		  (uint64_t)length << 32 | taken);
}

/* The last queue takes the place of the one that goes. */
void uview_queue_remove(const void *at, struct uview_tap *a)
{
	unsigned *p, i;

	ulock_get(&lock);
	p = room_ != 0 ? place_of(at) : NULL;
	if (p != NULL && *p != 0) {
		i = *p - 1;
		if (a != NULL && queues[i].q_length != 0)
			put(a, uview_tick(), at, 0, queues[i].q_taken);
		*p = queues[i].q_next;
		if (i != --nr) {
			*place_of(queues[nr].q_is.uq_at) = i + 1;
			queues[i] = queues[nr];
		}
	}
	ulock_put(&lock);
}

/* Names a queue by the variable that points to it. Caller holds lock. */
static UNCHECKED void name_see(const void *at)
{
	const void *const *p = (const void *const *)uview_data.c_from;
	size_t i, words = uview_data.c_size / sizeof *p;
	static size_t left = SEARCHED;
	char name[TEXT_MOST];

	if (words > left)
		return;
	left -= words;
	for (i = 0; i < words; i++)
		if (__atomic_load_n(&p[i], __ATOMIC_RELAXED) == at) {
			(void)usymbol_name(name, sizeof name, &p[i], false);
			if (name[0] != 0)
				uview_object_name(at, name);
			return;
		}
}

/* Returns how many values were taken out, at a moment. */
static uint32_t taken_of(const struct queue *q)
{
	unsigned laps, first;
	uint32_t taken;

	do {
		laps  = __atomic_load_n(q->q_is.uq_laps, __ATOMIC_ACQUIRE);
		first = __atomic_load_n(q->q_is.uq_first, __ATOMIC_ACQUIRE);
	} while (laps != __atomic_load_n(q->q_is.uq_laps, __ATOMIC_RELAXED));
	taken = laps * q->q_is.uq_room + first;
	/* The first has come to 0, and the lap is not counted so far. */
	return (int32_t)(taken - q->q_taken) < 0 ? taken + q->q_is.uq_room : taken;
}

/* Looks at q. Caller holds lock. */
static void look(struct uview_tap *a, uint64_t time, struct queue *q)
{
	uint32_t taken = taken_of(q), length;

	length = __atomic_load_n(q->q_is.uq_length, __ATOMIC_RELAXED);
	if (q->q_new) {
		name_see(q->q_is.uq_at);
		if (length != 0)	/* what its address held before has gone */
			put(a, time, q->q_is.uq_at, 0, 0);
	} else if (length == q->q_length && taken == q->q_taken && ++q->q_looks < AGAIN)
		return;
	q->q_new    = false;
	q->q_length = length;
	q->q_taken  = taken;
	q->q_looks  = 0;
	put(a, time, q->q_is.uq_at, length, taken);
}

void uview_queues_look(struct uview_tap *a, uint64_t time)
{
	unsigned i;

	if (!ulock_try(&lock))
		return;			/* another processor looks */
	for (i = 0; time >= due && i < BATCH && i < nr; i++) {
		next = next + 1 < nr ? next + 1 : 0;
		look(a, time, &queues[next]);
	}
	if (time >= due)
		due = time + PERIOD * __atomic_load_n(&uview_all.v_long_run,
						      __ATOMIC_RELAXED);
	ulock_put(&lock);
}

#endif
