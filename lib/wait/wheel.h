/* SPDX-License-Identifier: MIT */
/* wheel.h: deadlines of a processor, in a hierarchical timing wheel. */

#ifndef UWHEEL_H
#define UWHEEL_H

/*
 * A deadline is a number of nanoseconds on any clock. The wheel counts in
 * ticks of 2^shift ns, and rounds deadlines up to ticks: a node is never taken
 * before its deadline. Start and stop are O(1), allocate nothing and cannot
 * fail, since the caller embeds the node. After G. Varghese and T. Lauck,
 * "Hashed and hierarchical timing wheels" (SOSP 1987).
 *
 *	operation      cost		remarks
 *	uwheel_start   O(1)		any deadline, also in the past
 *	uwheel_stop    O(1)		also of a node that is in no wheel
 *	uwheel_next    O(1)		may be too early, never too late
 *	uwheel_take    MOVES moves	each node moves at most 10 times
 *	uwheel_empty   O(1)
 *
 * All are for the owner of the wheel only: there are no atomics.
 *
 * PLACE
 *
 * h_base is the tick up to which the wheel has been emptied. The digits of a
 * tick are its groups of 6 bits. A node lies on the level of the highest digit
 * in which its tick differs from h_base, in the slot of that digit of its tick.
 *
 *	digit       10   9    8    7    6    5    4    3    2    1    0
 *	h_base       0   0    0   12   40    7   63    1    9   33   20
 *	a node       0   0    0   12   40    7   63    4   17    0   51
 *	                                              ^ level 3, slot 4
 *
 * All slots of a level after the digit of h_base are in the future, and all
 * others are empty. Each level lies in the first digit of the level above, so
 * the first slot of the lowest occupied level begins before all others. Two
 * searches for a bit find this slot. On level 0 its nodes have this tick. From
 * a slot above they move down when h_base reaches its beginning: a cascade. If
 * they are few, h_base goes to the first of them at once, if that is due, so a node
 * that is alone in its slot moves no further.
 *
 * LISTS
 *
 * Nodes of a slot are in the order of their starts. The list is circular, and
 * the slot refers to the last node:
 *
 *	            +------------------------------------------------+
 *	            v                                                |
 *	   +--------+        +--------+               +--------+     |
 *	   | n_next |------->| n_next |---> ... ----->| n_next |-----+
 *	   | n_prev |        | n_prev |               | n_prev |
 *	   +--------+        +--------+               +--------+
 *	  n_prev of the        n_prev of each          ^
 *	  first node           other node is           |
 *	  is &h_last[i]        &n_next before      h_last[i]
 *
 * Thus a slot is one word, an append does not touch the first node, and the
 * nodes of a slot change over to another list together. To stop the first or
 * the last node, n_prev of the first node tells which slot has to change.
 *
 * MOVES
 *
 * A cascade may have to move a million nodes. So it takes over the list of the
 * slot, and each uwheel_take() moves at most UWHEEL_MOVES of the nodes. While
 * some are left, uwheel_take() may return NULL although a node is due. Then
 * uwheel_next() is not after now: the caller may run threads, and looks again.
 * A node is thus late by at most M / UWHEEL_MOVES + 1 looks. M is the number of
 * moves that are due before it: nodes in slots that have begun, once for each
 * level. With a million nodes in its slot these are 1954 looks, so a caller
 * should then look at each switch.
 *
 * Meanwhile a new node that would belong below the slot goes to the end of this
 * list, behind nodes that may have the same tick. Each uwheel_start() during a
 * cascade moves two nodes, so no flood of starts keeps a cascade from its end.
 *
 * ORDER
 *
 * Nodes are taken in the order of their ticks. Nodes of the same tick are taken
 * in the order of their starts. If the tick of a node has passed when it
 * starts, h_base is its tick. So with shift 0 the order depends only on the
 * deadlines, and a program under virtual time repeats itself.
 *
 * If time goes back, nothing is taken until h_base is reached again. Deadlines
 * before h_base are late until then.
 *
 * INVARIANTS
 *
 * W1. No tick of a node is before h_base, where the tick is the deadline
 *     rounded up, or h_base if that is later. Nodes with h_base as their tick
 *     are taken before h_base grows, so this does not change the tick.
 * W2. A node that is not in the list of a cascade is in the slot that its tick
 *     and h_base name. h_base grows only to the first beginning of a slot, or
 *     to a tick before, or to the first tick of a node of this slot. That changes
 *     only the place of nodes of this slot.
 * W3. A bit of h_bits is set exactly if its slot has nodes, and a bit of
 *     h_levels exactly if its level has.
 * W4. A cascade out of level h_below ends before h_base grows. Its list has all
 *     nodes below that level that started after the first node left in it. So
 *     no slot has a node that started after a node of the list with its tick.
 * W5. n_prev is &h_last[i] in the first node of a list, &n_next of the node
 *     before in each other node, and NULL in a node that is in no wheel.
 *
 * 64 BITS
 *
 * 11 levels hold all ticks, the last with 16 slots. In real time (shift 16)
 * levels from 8 up stay unused, except for deadlines within the last tick
 * before 2^64. Rounded up they are 2^64 ns, which is never due.
 *
 * REJECTED
 *
 * - A 4-ary heap (bench/wheel.c). With a million outstanding timers, stop and
 *   start took 98 ns, here 90; with constant deadlines 82, here 60; with 1,000
 *   timers 21 and 16, here 11 and 7. If all of a million timers expire, the
 *   heap is faster: 270 ns each, here 320 to 510. But its array takes 16 bytes
 *   more for a timer and can fail to grow, and it loses the order of starts.
 * - Unbounded moves: with a million nodes in a slot, a single step took 170 ms.
 *   Steps of 2048 moves took 1.4 ms, of 512 0.2 ms, of 128 0.1 ms.
 * - The radix buckets of Seastar's timer_set: as fast, but they cannot bound
 *   the moves, since all of the next bucket is sorted in one step.
 * - 8 levels, and a list for all that is further away: 4.2 KB instead of 5.4.
 *   With ticks of 1 ns 8 levels span 78 hours. Then the list must be searched
 *   every 78 hours of virtual time. Its code had more special cases.
 * - Levels without cascades, as in Linux: up to 1/8 of the time late.
 * - Begin a cascade early, so that no node of it is due yet. The place of a
 *   node is ambiguous then, and the time between two slots may be too short.
 * - First and last node in each slot: 5 KB more, and no fewer cache misses.
 * - Lists that are last in, first out: each cascade reverses them.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Nodes that uwheel_take() moves at most. */
#if !defined(UWHEEL_MOVES)
#define UWHEEL_MOVES	512
#endif

/* So few nodes of a slot are looked at before they move. */
#define UWHEEL_FEW	4

#define UWHEEL_DIGIT	6			/* bits */
#define UWHEEL_WIDTH	(1 << UWHEEL_DIGIT)	/* slots of a level */
#define UWHEEL_LEVELS	11			/* 10 * 6 bits, and 4 */
#define UWHEEL_SLOTS	(10 * UWHEEL_WIDTH + 16)

struct uwheel_node {
	uint64_t             n_when;	/* ns: deadline */
	struct uwheel_node  *n_next;
	struct uwheel_node **n_prev;	/* what points here; NULL: no wheel */
};

struct uwheel {
	uint64_t            h_base;	/* tick */
	uint64_t            h_bits[UWHEEL_LEVELS];	/* slots with nodes */
	unsigned            h_levels;	/* levels with nodes */
	int                 h_shift;	/* a tick is 2^h_shift ns */
	int                 h_below;	/* level of the cascade, or 0 */
	/* The last node of each slot; then of the cascade. */
	struct uwheel_node *h_last[UWHEEL_SLOTS + 1];
};

/* Makes an empty wheel with ticks of 2^shift ns; shift is 0 to 63. */
static __inline__ void uwheel_init(struct uwheel *h, uint64_t now, int shift)
{
	memset(h, 0, sizeof *h);
	h->h_shift = shift;
	h->h_base  = now >> shift;
}

/* Returns whether no node is in the wheel. */
static __inline__ int uwheel_empty(const struct uwheel *h)
{
	return h->h_levels == 0 && h->h_below == 0;
}

/* Not API: the rest up to uwheel_start(). */

/* Returns the tick of a node: W1. */
static __inline__ uint64_t uwheel_tick(const struct uwheel *h, uint64_t when)
{
	uint64_t tick = when >> h->h_shift;

	if (tick << h->h_shift != when)
		tick++;
	return tick > h->h_base ? tick : h->h_base;
}

static __inline__ int uwheel_level(const struct uwheel *h, uint64_t tick)
{
	return (63 - __builtin_clzll((tick ^ h->h_base) | 1)) / UWHEEL_DIGIT;
}

/* Returns the slot of a tick on its level: W2. */
static __inline__ int uwheel_slot(int level, uint64_t tick)
{
	return level * UWHEEL_WIDTH +
	       (int)(tick >> level * UWHEEL_DIGIT & (UWHEEL_WIDTH - 1));
}

/* Notes that slot i has nodes now: W3. */
static __inline__ void uwheel_mark(struct uwheel *h, int i)
{
	if (i < UWHEEL_SLOTS) {
		h->h_bits[i / UWHEEL_WIDTH] |= 1ull << i % UWHEEL_WIDTH;
		h->h_levels |= 1u << i / UWHEEL_WIDTH;
	}
}

/* Notes that slot i is empty now, or that the cascade has ended: W3. */
static __inline__ void uwheel_clear(struct uwheel *h, int i)
{
	int level = i / UWHEEL_WIDTH;

	h->h_last[i] = NULL;
	if (i == UWHEEL_SLOTS)
		h->h_below = 0;
	else if ((h->h_bits[level] &= ~(1ull << i % UWHEEL_WIDTH)) == 0)
		h->h_levels &= ~(1u << level);
}

/* Puts n at the end of list i. */
static __inline__ void uwheel_append(struct uwheel *h, int i,
				     struct uwheel_node *n)
{
	struct uwheel_node *last = h->h_last[i];

	if (last == NULL) {
		n->n_next = n;
		n->n_prev = &h->h_last[i];
		uwheel_mark(h, i);
	} else {
		n->n_next = last->n_next;
		n->n_prev = &last->n_next;
		last->n_next = n;
	}
	h->h_last[i] = n;
}

/* Returns whether at is a word of h_last, so that its node is the first: W5. */
static __inline__ int uwheel_first(const struct uwheel *h,
				   struct uwheel_node *const *at)
{
	return (uintptr_t)at - (uintptr_t)h->h_last < sizeof h->h_last;
}

/* Takes n out of its list: W5. */
static __inline__ void uwheel_unlink(struct uwheel *h, struct uwheel_node *n)
{
	struct uwheel_node *next = n->n_next;
	struct uwheel_node **prev = n->n_prev;

	n->n_prev = NULL;
	if (next == n) {
		uwheel_clear(h, (int)(prev - h->h_last));
		return;
	}
	if (uwheel_first(h, prev))
		(*prev)->n_next = next;
	else
		*prev = next;
	if (uwheel_first(h, next->n_prev))	/* n was the last node */
		*next->n_prev = (struct uwheel_node *)(void *)((char *)prev -
				offsetof(struct uwheel_node, n_next));
	else
		next->n_prev = prev;
}

/* Moves at most nr nodes of the cascade down. Returns nr less those moved. */
static __inline__ int uwheel_move(struct uwheel *h, int nr)
{
	for (; h->h_below != 0 && nr > 0; nr--) {
		struct uwheel_node *n = h->h_last[UWHEEL_SLOTS]->n_next;
		uint64_t tick = uwheel_tick(h, n->n_when);

		uwheel_unlink(h, n);
		uwheel_append(h, uwheel_slot(uwheel_level(h, tick), tick), n);
	}
	return nr;
}

/* Returns the slot that begins first. Caller knows that there is a slot. */
static __inline__ int uwheel_soonest(const struct uwheel *h)
{
	int level = __builtin_ctz(h->h_levels);

	return level * UWHEEL_WIDTH + __builtin_ctzll(h->h_bits[level]);
}

/* Returns the tick at which slot i begins. */
static __inline__ uint64_t uwheel_begin(const struct uwheel *h, int i)
{
	int low = i / UWHEEL_WIDTH * UWHEEL_DIGIT;

	return (h->h_base >> low >> UWHEEL_DIGIT << UWHEEL_DIGIT |
		(uint64_t)(i % UWHEEL_WIDTH)) << low;
}

/*
 * Returns the first tick of the nodes of slot i, or, if there are many, the tick at
 * which it begins.
 */
static __inline__ uint64_t uwheel_first_tick(const struct uwheel *h, int i)
{
	const struct uwheel_node *last = h->h_last[i], *n = last->n_next;
	uint64_t first = uwheel_tick(h, last->n_when), tick;
	int nr;

	if (i < UWHEEL_WIDTH)
		return uwheel_begin(h, i);
	for (nr = 1; n != last; n = n->n_next) {
		if (++nr > UWHEEL_FEW)
			return uwheel_begin(h, i);
		tick = uwheel_tick(h, n->n_when);
		first = tick < first ? tick : first;
	}
	return first;
}

/* Returns when a tick begins, in ns. UINT64_MAX: after all that can be. */
static __inline__ uint64_t uwheel_ns(const struct uwheel *h, uint64_t tick)
{
	return tick > UINT64_MAX >> h->h_shift ? UINT64_MAX :
		tick << h->h_shift;
}

/* Begins a cascade with the list of slot i: W4. */
static __inline__ void uwheel_cascade(struct uwheel *h, int i)
{
	struct uwheel_node *last = h->h_last[i];

	uwheel_clear(h, i);
	h->h_below = i / UWHEEL_WIDTH;
	h->h_last[UWHEEL_SLOTS] = last;
	last->n_next->n_prev = &h->h_last[UWHEEL_SLOTS];
}

/*
 * Moves h_base to the tick of the node that is alone in slot i, and the node to its
 * place.
 */
static __inline__ void uwheel_move_alone(struct uwheel *h, int i, uint64_t tick)
{
	struct uwheel_node *n = h->h_last[i];

	uwheel_clear(h, i);
	h->h_base = tick;
	uwheel_append(h, uwheel_slot(0, tick), n);
}

/*
 * Moves h_base, from where no node is left, to the next slot that has begun
 * (W2). If there is none, moves it to tick and returns false.
 */
static __inline__ int uwheel_advance(struct uwheel *h, uint64_t tick)
{
	uint64_t first;
	int i;

	if (h->h_levels == 0 ||
	    uwheel_begin(h, i = uwheel_soonest(h)) > tick) {
		h->h_base = tick;
		return 0;
	}
	first = uwheel_first_tick(h, i);
	if (first <= tick && h->h_last[i]->n_next == h->h_last[i]) {
		uwheel_move_alone(h, i, first);
		return 1;
	}
	h->h_base = first < tick ? first : tick;
	if (i >= UWHEEL_WIDTH)
		uwheel_cascade(h, i);
	return 1;
}

/*
 * Starts n, which is in no wheel. Its deadline is when: any number of ns. Owner
 * only.
 */
static __inline__ void uwheel_start(struct uwheel *h, struct uwheel_node *n,
				    uint64_t when)
{
	uint64_t tick = uwheel_tick(h, when);
	int level = uwheel_level(h, tick);

	n->n_when = when;
	if (__builtin_expect(h->h_below != 0, 0))
		(void)uwheel_move(h, 2);
	if (__builtin_expect(level < h->h_below, 0))		/* W4 */
		uwheel_append(h, UWHEEL_SLOTS, n);
	else
		uwheel_append(h, uwheel_slot(level, tick), n);
}

/* Stops n, if it is in the wheel. Then it is in no wheel. Owner only. */
static __inline__ void uwheel_stop(struct uwheel *h, struct uwheel_node *n)
{
	if (n->n_prev != NULL)
		uwheel_unlink(h, n);
}

/*
 * Returns when to look next, in ns. That is not after the earliest deadline
 * rounded up to a tick, and may be before, for a cascade. UINT64_MAX: the wheel
 * is empty, or its deadlines are never due. Owner only.
 */
static __inline__ uint64_t uwheel_next(const struct uwheel *h)
{
	uint64_t tick = h->h_base;

	if (h->h_below == 0) {
		if (h->h_levels == 0)
			return UINT64_MAX;
		tick = uwheel_begin(h, uwheel_soonest(h));
	}
	return uwheel_ns(h, tick);
}

/*
 * Returns the same, but later: exactly when the first node is due, unless there are
 * many of about its time. It looks at nodes, which may not be in the cache.
 */
static __inline__ uint64_t uwheel_next_exact(const struct uwheel *h)
{
	if (h->h_below != 0 || h->h_levels == 0)
		return uwheel_next(h);
	return uwheel_ns(h, uwheel_first_tick(h, uwheel_soonest(h)));
}

/*
 * Returns a node that is due at now, and in no wheel any more, or NULL. Callers
 * call it again until it returns NULL. If uwheel_next() is not after now then,
 * a cascade is left: the caller looks again soon. Owner only.
 */
static __inline__ struct uwheel_node *uwheel_take(struct uwheel *h,
						  uint64_t now)
{
	uint64_t tick = now >> h->h_shift;
	int moves = UWHEEL_MOVES;
	struct uwheel_node *last;

	if (tick < h->h_base)
		return NULL;
	for (;;) {
		last = h->h_last[uwheel_slot(0, h->h_base)];
		if (last != NULL) {
			struct uwheel_node *n = last->n_next;

			uwheel_unlink(h, n);
			return n;
		}
		if (h->h_below == 0 && !uwheel_advance(h, tick))
			return NULL;
		if (moves == 0)
			return NULL;
		moves = uwheel_move(h, moves);
	}
}

#endif /* UWHEEL_H */
