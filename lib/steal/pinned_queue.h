/* SPDX-License-Identifier: MIT */
/* pinned_queue.h: a queue from which all items of a group can be taken. */

#ifndef WS_PINNED_QUEUE_H
#define WS_PINNED_QUEUE_H

/*
 * First in, first out, in a ring, as struct usched_queue. Each item may also
 * belong to a group. The places of a group are linked in the order in which
 * they were filled. So the items of a group are found without a search, however
 * many others are in between. An item that is taken from the middle leaves a
 * hole, which ws_pinned_get() skips.
 *
 *	kq_head				      kq_tail
 *	  |					|
 *	  v					v
 *	+----+----+----+----+----+----+----+----+
 *	| a1 | b1 |    | a2 | c1 |    | a3 |	|
 *	+----+----+----+----+----+----+----+----+
 *	  ^  `------------>  `----------->  ^
 *	  first of group a		    last of group a
 *
 * Y1. kq_nr is the number of items. The other places from kq_head to kq_tail
 *     are holes.
 * Y2. The items of a group are those of its list, kg_nr of them, oldest first.
 * Y3. Each call costs O(1) on average: a place becomes a hole once, and is
 *     skipped once. A full ring with as many holes as items is packed instead
 *     of enlarged: that costs a step for each of its places, and makes half of
 *     them free.
 *
 * Owner only, except ws_pinned_len(): any thread, as a hint.
 */

#include "compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Where the items of a group are. Zeroed, the group has none. */
struct ws_pinned_group {
	unsigned kg_first;	/* place of the oldest item, if kg_nr > 0 */
	unsigned kg_last;	/* place of the newest item, if kg_nr > 0 */
	unsigned kg_nr;
};

struct ws_pinned_place {
	void                 *kp_item;	/* NULL: a hole */
	struct ws_pinned_group *kp_group;	/* or NULL */
	unsigned              kp_next;	/* in its group */
	unsigned              kp_prev;
};

struct ws_pinned_queue {
	struct ws_pinned_place *kq_ring;
	unsigned              kq_head;
	unsigned              kq_tail;
	unsigned              kq_mask;	/* places - 1, a power of two less 1 */
	unsigned              kq_nr;	/* items (atomic) */
};

static inline
struct ws_pinned_place *ws_pinned_at(const struct ws_pinned_queue *k,
				     unsigned i)
{
	return &k->kq_ring[i & k->kq_mask];
}

static inline unsigned ws_pinned_len(const struct ws_pinned_queue *k)
{
	return __atomic_load_n(&k->kq_nr, __ATOMIC_RELAXED);
}

static inline void ws_pinned_count(struct ws_pinned_queue *k, unsigned more)
{
	__atomic_store_n(&k->kq_nr, k->kq_nr + more, __ATOMIC_RELAXED);
}

/* Makes room for so many items, a power of two. False: no memory. */
static inline bool ws_pinned_init(struct ws_pinned_queue *k, unsigned room)
{
	k->kq_ring = (struct ws_pinned_place *)
		calloc(room, sizeof k->kq_ring[0]);
	k->kq_head = k->kq_tail = k->kq_nr = 0;
	k->kq_mask = room - 1;
	return k->kq_ring != NULL;
}

static inline void ws_pinned_fini(struct ws_pinned_queue *k)
{
	free(k->kq_ring);
	k->kq_ring = NULL;
}

/* Adds item at the end. There is room. */
static inline void ws_pinned_append(struct ws_pinned_queue *k,
				    struct ws_pinned_group *g, void *item)
{
	unsigned i = k->kq_tail++;
	struct ws_pinned_place *c = ws_pinned_at(k, i);

	c->kp_item  = item;
	c->kp_group = g;
	ws_pinned_count(k, 1);
	if (g == NULL)
		return;
	if (g->kg_nr++ == 0)
		g->kg_first = i;
	else {
		c->kp_prev = g->kg_last;
		ws_pinned_at(k, g->kg_last)->kp_next = i;
	}
	g->kg_last = i;
}

/* Takes the item of c out: c becomes a hole. */
static inline void *ws_pinned_remove(struct ws_pinned_queue *k,
				     struct ws_pinned_place *c)
{
	struct ws_pinned_group *g = c->kp_group;
	void *item = c->kp_item;

	c->kp_item = NULL;
	ws_pinned_count(k, -1u);
	if (g == NULL || --g->kg_nr == 0)
		return item;
	if (c == ws_pinned_at(k, g->kg_first))
		g->kg_first = c->kp_next;
	else if (c == ws_pinned_at(k, g->kg_last))
		g->kg_last = c->kp_prev;
	else {
		ws_pinned_at(k, c->kp_prev)->kp_next = c->kp_next;
		ws_pinned_at(k, c->kp_next)->kp_prev = c->kp_prev;
	}
	return item;
}

static inline void ws_pinned_skip(struct ws_pinned_queue *k)
{
	while (k->kq_head != k->kq_tail &&
	       ws_pinned_at(k, k->kq_head)->kp_item == NULL)
		k->kq_head++;
}

/* Takes the oldest item; NULL: there is none. */
static inline void *ws_pinned_get(struct ws_pinned_queue *k)
{
	if (k->kq_nr == 0)
		return NULL;
	ws_pinned_skip(k);
	return ws_pinned_remove(k, ws_pinned_at(k, k->kq_head++));
}

/* Takes the oldest item of g; NULL: there is none. */
static inline void *ws_pinned_get_of(struct ws_pinned_queue *k,
				     struct ws_pinned_group *g)
{
	return g->kg_nr == 0 ? NULL :
		ws_pinned_remove(k, ws_pinned_at(k, g->kg_first));
}

/* Takes out item, which is there. Searches from the newest on. */
static inline void ws_pinned_leave(struct ws_pinned_queue *k, const void *item)
{
	unsigned i = k->kq_tail - 1;

	while (ws_pinned_at(k, i)->kp_item != item)
		i--;
	(void)ws_pinned_remove(k, ws_pinned_at(k, i));
}

/* Moves all items to the end, so that no holes are left. */
static inline void ws_pinned_pack(struct ws_pinned_queue *k)
{
	unsigned nr;

	for (nr = k->kq_nr; nr > 0; nr--) {
		struct ws_pinned_group *g;

		ws_pinned_skip(k);
		g = ws_pinned_at(k, k->kq_head)->kp_group;
		ws_pinned_append(k, g, ws_pinned_remove(k,
				ws_pinned_at(k, k->kq_head++)));
	}
	ws_pinned_skip(k);
}

/* Makes room in a full ring. False: no memory. */
static __attribute__((noinline, cold, unused))
bool ws_pinned_room(struct ws_pinned_queue *k)
{
	unsigned mask = k->kq_mask * 2 + 1;
	struct ws_pinned_place *ring;
	unsigned i;

	if (k->kq_nr <= k->kq_mask / 2) {
		ws_pinned_pack(k);
		return true;
	}
	ring = mask > k->kq_mask ? (struct ws_pinned_place *)
		calloc((size_t)mask + 1, sizeof ring[0]) : NULL;
	if (ring == NULL)
		return false;
	for (i = k->kq_head; i != k->kq_tail; i++)
		ring[i & mask] = *ws_pinned_at(k, i);
	free(k->kq_ring);
	k->kq_ring = ring;
	k->kq_mask = mask;
	return true;
}

/* Adds item, at the end. False: no memory, and nothing has changed. */
static inline bool ws_pinned_put(struct ws_pinned_queue *k,
				 struct ws_pinned_group *g, void *item)
{
	if (unlikely(k->kq_tail - k->kq_head > k->kq_mask) &&
	    !ws_pinned_room(k))
		return false;
	ws_pinned_append(k, g, item);
	return true;
}

#endif /* WS_PINNED_QUEUE_H */
