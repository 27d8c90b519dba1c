/* SPDX-License-Identifier: MIT */
/* deque.h: a queue of which the owner uses one end, and thieves the other. */

#ifndef WS_DEQUE_H
#define WS_DEQUE_H

/*
 * The owner pushes and pops at the bottom, last in first out, mostly without an
 * atomic instruction. Others steal at the top, first in first out, one
 * compare-and-swap each. After D. Chase and Y. Lev, "Dynamic circular
 * work-stealing deque" (SPAA 2005), with the memory orders of N. M. Lê, A. Pop,
 * A. Cohen and F. Zappa Nardelli, "Correct and efficient work-stealing for weak
 * memory models" (PPoPP 2013).
 *
 *	      d_top                      d_bottom
 *	        |                            |
 *	        v                            v
 *	.......+----+----+----+----+----+----+.......
 *	       | t  |t+1 |    |    |    |b-1 |
 *	.......+----+----+----+----+----+----+.......
 *	steal <--                          <--> pop, push
 *
 * An item is two words, for instance a function and its argument. Item i is in
 * slot i modulo room of the array. When the array is full, the owner copies all
 * items to an array of twice the size. Thieves may still read the old array, in
 * which the items that they can get stay as they were. So old arrays are kept
 * until ws_deque_fini(). Together they have less slots than the last.
 *
 *	operation          who may call  x push   x pop      x steal
 *	ws_deque_push      the owner     -        -          1
 *	ws_deque_pop       the owner     -        -          2 3
 *	ws_deque_steal     anyone        1        2 3        4
 *	ws_deque_steal_alone see there   1        forbidden  4
 *	ws_deque_size      anyone        a hint   a hint     a hint
 *	ws_deque_most, _look the owner   -        -          a hint
 *	ws_deque_init, _fini one thread, while no other uses it
 *
 *	1 the item is seen now or later; if the push happens before, now
 *	2 two or more items: both get one, and meet no more than they would
 *	  alone
 *	3 the last item: either gets it, by a compare-and-swap
 *	4 one thief gets the item, the other WS_DEQUE_LOST or a later item
 *
 * The caller must call ufence_init() (fence.h) before, and the first word of
 * an item must not be NULL or WS_DEQUE_LOST. The thread that gets an item sees
 * all writes before its push. A struct ws_deque is aligned to WS_DEQUE_LINE,
 * and so must be the memory of a struct around it.
 *
 * A steal that finds nothing has passed no fence. So a thread about to sleep
 * first says that it sleeps, then passes ufence_heavy(), and then looks again
 * (ws_deque_size()). An owner that has pushed passes ufence_light(), and then
 * looks for sleepers.
 *
 * INVARIANTS
 *
 * Q1. d_top only grows, by 1, by a compare-and-swap. The thread whose swap it
 *     was got the item with the old number, alone. A thief writes nothing else.
 * Q2. The owner gets the last item, b, without a swap only if it has set
 *     d_bottom to b, passed a fence, and then found d_top less than b. A thief
 *     that wants item b has read b from d_top before its own fence. If the
 *     owner's fence came first, the thief reads from d_bottom that b is gone.
 *     If the thief's came first, the owner reads a d_top not less than b.
 * Q3. d_bottom is less than d_top by 1 at most, and only within a pop.
 * Q4. A slot is written again only after d_top has passed its item. So a thief
 *     that has read a later item there, or half of it, fails in the
 *     compare-and-swap. d_seen is a d_top that the owner has read before, so it
 *     is never more than d_top.
 * Q5. Only the last array is written.
 * Q6. Indices are counted modulo 2^n, and only their differences mean
 *     something, which are read as signed. room divides 2^n, so item i stays in
 *     its slot when they wrap around.
 *
 * ERRATA of the paper of 2013
 *
 * - The pointer to a new array was written and read relaxed. A thief could read
 *   the new pointer, with an old d_bottom, before what is in the array: found
 *   by B. Norris and B. Demsky, "CDSChecker" (OOPSLA 2013). Here R2 and A2.
 * - Indices were unsigned, so the pop from an empty deque that was never used
 *   compared 0 with 0 - 1, the largest number, and "found" an item. Here Q6.
 *
 * There a push has a release fence, so all later stores of d_bottom release the
 * item, too. Here a push has a release store, which is cheaper. So the first
 * store of d_bottom in a pop has to be a release store, too. Since C++20
 * (P0982) a relaxed store does not pass on what an earlier store of the same
 * thread has released, and a thief that reads d_bottom from there may get an
 * item that was pushed before. The last store in a pop is relaxed. By then
 * d_top is b + 1, and a thief that reads this b + 1 finds nothing, or fails in
 * its compare-and-swap.
 *
 * ORDERS
 *
 *	R1  the stores of d_bottom in a push, and the first in a pop: the
 *	    items, and what is in them
 *	A1  a thief's load of d_bottom after the fence
 *	R2  the store of d_array: the copied items, and a_room
 *	A2  a thief's load of d_array
 *	R3  both compare-and-swaps: that the slot was read; and for
 *	    ws_deque_size() and ws_deque_steal_alone(), the d_bottom of the pop
 *	A3  the loads of d_top in ws_deque_look() and of thieves
 *	F   ufence_light() in pop with ufence_heavy() in steal: Q2
 *
 * The compare-and-swaps are sequentially consistent, as in the paper. The slots
 * are relaxed: Q4, R1. R3 and A3 matter on machines that let a store pass an
 * earlier load, which our model checker (test/whole/model) does not try.
 */

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "usched.h"
#include "private/fence.h"
#include "compiler.h"

/* A place between two steps, where tests put a delay. */
#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)
#endif

/* Two lines of 64: some machines fetch the neighbour of a line, too. */
#define WS_DEQUE_LINE	128

/* Memory at WS_DEQUE_LINE, or NULL; a model checker has its own. */
#if !defined(WS_DEQUE_ALLOC)
#define WS_DEQUE_ALLOC(size)	ws_deque_alloc(size)
#define WS_DEQUE_FREE(block)	free(block)

#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
int posix_memalign(void **block, size_t align, size_t size);
#endif

static inline void *ws_deque_alloc(size_t size)
{
	void *block;

	return posix_memalign(&block, WS_DEQUE_LINE, size) == 0 ? block : NULL;
}
#endif

#define WS_DEQUE_LOST	((void *)1)

struct ws_deque_item {
	void *i_what;	/* NULL: there is none; WS_DEQUE_LOST */
	void *i_arg;
};

/* The slots follow. */
struct ws_deque_array {
	long                   a_room;	/* of them, a power of 2 */
	struct ws_deque_array *a_old;	/* the array before, or NULL */
};

/*
 * Each push and pop writes d_bottom, each steal d_top. In a single line, each
 * would take the line from the other. Thieves only read d_array, which lies
 * beside d_bottom, since they read that, too.
 */
struct ws_deque {
	/* Written by the owner. */
	unsigned long          d_bottom __attribute__((aligned(WS_DEQUE_LINE)));
	unsigned long          d_seen;	/* some d_top: Q4; not for others */
	struct ws_deque_array *d_array;
	/* Written by thieves, and by the owner for the last item. */
	unsigned long          d_top __attribute__((aligned(WS_DEQUE_LINE)));
};

/* Returns the number of items, if it is not negative: Q6. */
static inline long ws_deque_span(unsigned long bottom, unsigned long top)
{
	return (long)(bottom - top);
}

static inline struct ws_deque_item *ws_deque_slot(struct ws_deque_array *a,
						  unsigned long i)
{
	return (struct ws_deque_item *)(a + 1) +
	       (i & (unsigned long)(a->a_room - 1));
}

static inline struct ws_deque_item ws_deque_get(struct ws_deque_array *a,
						unsigned long i)
{
	struct ws_deque_item *at = ws_deque_slot(a, i);
	struct ws_deque_item x;

	x.i_what = __atomic_load_n(&at->i_what, __ATOMIC_RELAXED);
	x.i_arg  = __atomic_load_n(&at->i_arg, __ATOMIC_RELAXED);
	return x;
}

static inline void ws_deque_put(struct ws_deque_array *a, unsigned long i,
				struct ws_deque_item x)
{
	struct ws_deque_item *at = ws_deque_slot(a, i);

	__atomic_store_n(&at->i_what, x.i_what, __ATOMIC_RELAXED);
	__atomic_store_n(&at->i_arg, x.i_arg, __ATOMIC_RELAXED);
}

static inline struct ws_deque_item ws_deque_none(void *what)
{
	struct ws_deque_item x;

	x.i_what = what;
	x.i_arg  = NULL;
	return x;
}

static inline struct ws_deque_array *ws_deque_make(long room)
{
	struct ws_deque_array *a;

	if (room > LONG_MAX / 2 / (long)sizeof(struct ws_deque_item))
		return NULL;
	a = (struct ws_deque_array *)WS_DEQUE_ALLOC(sizeof *a +
			(size_t)room * sizeof(struct ws_deque_item));
	if (a != NULL) {
		a->a_room = room;
		a->a_old  = NULL;
	}
	return a;
}

/* Makes an empty deque with room items of room, or more. 0, or -ENOMEM. */
static inline int ws_deque_init(struct ws_deque *d, long room)
{
	long most = 1;

	while (most < room && most <= LONG_MAX / 2)
		most *= 2;
	d->d_bottom = d->d_top = d->d_seen = 0;
	d->d_array  = most < room ? NULL : ws_deque_make(most);
	return d->d_array != NULL ? 0 : -ENOMEM;
}

/* Frees the arrays. Items that are left are the caller's. */
static inline void ws_deque_fini(struct ws_deque *d)
{
	struct ws_deque_array *a = d->d_array;
	struct ws_deque_array *old;

	for (d->d_array = NULL; a != NULL; a = old) {
		old = a->a_old;
		WS_DEQUE_FREE(a);
	}
}

/* Returns at least ws_deque_size(), and does not read d_top. Owner only. */
static inline long ws_deque_most(const struct ws_deque *d)
{
	return ws_deque_span(d->d_bottom, d->d_seen);
}

/* Returns how many items there are, after a look at the thieves. Owner only. */
static inline long ws_deque_look(struct ws_deque *d)
{
	d->d_seen = __atomic_load_n(&d->d_top, __ATOMIC_ACQUIRE);	/* A3 */
	return ws_deque_most(d);
}

/* Called when there seems to be no room: looks again, or makes room. */
static __attribute__((noinline, cold, unused))
int ws_deque_make_room(struct ws_deque *d)
{
	struct ws_deque_array *a = d->d_array;
	struct ws_deque_array *big;
	unsigned long i;

	if (ws_deque_look(d) < a->a_room)
		return 0;
	big = a->a_room <= LONG_MAX / 2 ? ws_deque_make(a->a_room * 2) : NULL;
	if (big == NULL)
		return -ENOMEM;
	for (i = d->d_seen; i != d->d_bottom; i++)
		ws_deque_put(big, i, ws_deque_get(a, i));
	big->a_old = a;
	USCHED_RACE(deque_R2);
	__atomic_store_n(&d->d_array, big, __ATOMIC_RELEASE);		/* R2 */
	USCHED_RACE(deque_grown);
	return 0;
}

/* Puts x at the bottom. Owner only. 0, or -ENOMEM, and nothing has changed. */
static inline int ws_deque_push(struct ws_deque *d, struct ws_deque_item x)
{
	unsigned long b = d->d_bottom;
	int rc;

	if (unlikely(ws_deque_span(b, d->d_seen) >= d->d_array->a_room) &&
	    (rc = ws_deque_make_room(d)) != 0)
		return rc;
	ws_deque_put(d->d_array, b, x);
	USCHED_RACE(deque_push);
	__atomic_store_n(&d->d_bottom, b + 1, __ATOMIC_RELEASE);	/* R1 */
	return 0;
}

/* Takes item i. False: another thread has taken it. */
static inline int ws_deque_win(struct ws_deque *d, unsigned long i)
{
	return __atomic_compare_exchange_n(&d->d_top, &i, i + 1, 0,
			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED);		/* R3 */
}

/* Takes the item that was pushed last, if there is any. Owner only. */
static ALWAYS_INLINE struct ws_deque_item ws_deque_pop(struct ws_deque *d)
{
	unsigned long b = d->d_bottom - 1;
	struct ws_deque_item x = ws_deque_none(NULL);
	long left;

	/* d_top only grows. So a look at an empty deque costs little. */
	if (ws_deque_span(b, __atomic_load_n(&d->d_top, __ATOMIC_RELAXED)) < 0)
		return x;
	USCHED_RACE(deque_pop);
	__atomic_store_n(&d->d_bottom, b, __ATOMIC_RELEASE);		/* R1 */
	USCHED_RACE(deque_F);
	ufence_light();							/* F */
	left = ws_deque_span(b, __atomic_load_n(&d->d_top, __ATOMIC_RELAXED));
	if (left > 0)							/* Q2 */
		return ws_deque_get(d->d_array, b);
	USCHED_RACE(deque_last);
	if (left == 0 && ws_deque_win(d, b))
		x = ws_deque_get(d->d_array, b);
	USCHED_RACE(deque_Q1);
	__atomic_store_n(&d->d_bottom, b + 1, __ATOMIC_RELAXED);	/* Q1 */
	return x;
}

/*
 * Takes the item that was pushed first, if there is any; WS_DEQUE_LOST if
 * another thread took it. Called by the owner, or by a thread that knows that
 * the owner is not in a pop, and begins none meanwhile.
 */
static inline struct ws_deque_item ws_deque_steal_alone(struct ws_deque *d)
{
	unsigned long t = __atomic_load_n(&d->d_top, __ATOMIC_ACQUIRE);	/* A3 */
	unsigned long b = __atomic_load_n(&d->d_bottom,
					  __ATOMIC_ACQUIRE);		/* A1 */
	struct ws_deque_item x;

	if (ws_deque_span(b, t) <= 0)
		return ws_deque_none(NULL);
	x = ws_deque_get(__atomic_load_n(&d->d_array, __ATOMIC_ACQUIRE), t);
	USCHED_RACE(deque_A2);						/* A2 */
	return ws_deque_win(d, t) ? x : ws_deque_none(WS_DEQUE_LOST);
}

/* Returns how many items there are, 0 or more: a hint. Any thread. */
static inline long ws_deque_size(const struct ws_deque *d)
{
	unsigned long t = __atomic_load_n(&d->d_top, __ATOMIC_ACQUIRE);	/* A3 */
	long nr = ws_deque_span(__atomic_load_n(&d->d_bottom, __ATOMIC_RELAXED),
				t);

	return nr > 0 ? nr : 0;
}

/* As ws_deque_steal_alone(), but the owner may pop meanwhile. Any thread. */
static inline struct ws_deque_item ws_deque_steal(struct ws_deque *d)
{
	unsigned long t = __atomic_load_n(&d->d_top, __ATOMIC_ACQUIRE);	/* A3 */
	unsigned long b;
	struct ws_deque_item x;

	if (ws_deque_span(__atomic_load_n(&d->d_bottom, __ATOMIC_RELAXED),
			  t) <= 0)
		return ws_deque_none(NULL);
	ufence_heavy();							/* F */
	b = __atomic_load_n(&d->d_bottom, __ATOMIC_ACQUIRE);		/* A1 */
	if (ws_deque_span(b, t) <= 0)
		return ws_deque_none(NULL);
	x = ws_deque_get(__atomic_load_n(&d->d_array, __ATOMIC_ACQUIRE), t);
	USCHED_RACE(deque_A2);						/* A2 */
	return ws_deque_win(d, t) ? x : ws_deque_none(WS_DEQUE_LOST);
}

#endif /* WS_DEQUE_H */
