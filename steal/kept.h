/* SPDX-License-Identifier: MIT */
/* kept.h: a queue from which all items of a group can be taken at once. */

#ifndef KEPT_H
#define KEPT_H

/*
 * First in, first out, in a ring, as struct uproc_queue. Besides, each item may
 * belong to a group, and the places of a group are linked in the order in which
 * they were filled. So the items of a group are found without a search, however
 * many others are in between. An item that is taken out in the middle leaves a
 * hole, which kept_get() skips.
 *
 *	k_head				      k_tail
 *	  |					|
 *	  v					v
 *	+----+----+----+----+----+----+----+----+
 *	| a1 | b1 |    | a2 | c1 |    | a3 |	|
 *	+----+----+----+----+----+----+----+----+
 *	  ^  `------------>  `----------->  ^
 *	  first of group a		    last of group a
 *
 * Y1. k_nr is the number of items; the other places from k_head to k_tail are
 *     holes.
 * Y2. The items of a group are those of its list, y_nr of them, oldest first.
 * Y3. Each call costs O(1) on average: a place becomes a hole once, and is
 *     skipped once. A full ring with as many holes as items is packed instead
 *     of enlarged: that costs a step for each of its places, and makes half of
 *     them free.
 *
 * All calls are the owner's, but kept_len(): any thread, as a hint.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Where the items of a group are; zeroed: there is none. */
struct kept_group {
	unsigned y_first;	/* place of the oldest, */
	unsigned y_last;	/* and of the newest, if y_nr > 0 */
	unsigned y_nr;
};

struct kept_place {
	void              *c_item;	/* NULL: a hole */
	struct kept_group *c_group;	/* or NULL */
	unsigned           c_next;	/* in its group */
	unsigned           c_prev;
};

struct kept {
	struct kept_place *k_ring;
	unsigned           k_head;
	unsigned           k_tail;
	unsigned           k_mask;	/* places - 1, a power of two less 1 */
	unsigned           k_nr;	/* items (atomic) */
};

static __inline__ struct kept_place *kept_at(const struct kept *k, unsigned i)
{
	return &k->k_ring[i & k->k_mask];
}

static __inline__ unsigned kept_len(const struct kept *k)
{
	return __atomic_load_n(&k->k_nr, __ATOMIC_RELAXED);
}

static __inline__ void kept_count(struct kept *k, unsigned more)
{
	__atomic_store_n(&k->k_nr, k->k_nr + more, __ATOMIC_RELAXED);
}

/* Makes room for so many items, a power of two. False: no memory. */
static __inline__ bool kept_init(struct kept *k, unsigned room)
{
	k->k_ring = (struct kept_place *)calloc(room, sizeof k->k_ring[0]);
	k->k_head = k->k_tail = k->k_nr = 0;
	k->k_mask = room - 1;
	return k->k_ring != NULL;
}

static __inline__ void kept_fini(struct kept *k)
{
	free(k->k_ring);
	k->k_ring = NULL;
}

/* There is room. */
static __inline__ void kept_append(struct kept *k, struct kept_group *g,
				   void *item)
{
	unsigned i = k->k_tail++;
	struct kept_place *c = kept_at(k, i);

	c->c_item  = item;
	c->c_group = g;
	kept_count(k, 1);
	if (g == NULL)
		return;
	if (g->y_nr++ == 0)
		g->y_first = i;
	else {
		c->c_prev = g->y_last;
		kept_at(k, g->y_last)->c_next = i;
	}
	g->y_last = i;
}

/* Takes the item of c out, which becomes a hole. */
static __inline__ void *kept_remove(struct kept *k, struct kept_place *c)
{
	struct kept_group *g = c->c_group;
	void *item = c->c_item;

	c->c_item = NULL;
	kept_count(k, -1u);
	if (g == NULL || --g->y_nr == 0)
		return item;
	if (c == kept_at(k, g->y_first))
		g->y_first = c->c_next;
	else if (c == kept_at(k, g->y_last))
		g->y_last = c->c_prev;
	else {
		kept_at(k, c->c_prev)->c_next = c->c_next;
		kept_at(k, c->c_next)->c_prev = c->c_prev;
	}
	return item;
}

static __inline__ void kept_skip(struct kept *k)
{
	while (k->k_head != k->k_tail && kept_at(k, k->k_head)->c_item == NULL)
		k->k_head++;
}

/* Returns the oldest of all; NULL: there is none. */
static __inline__ void *kept_get(struct kept *k)
{
	if (k->k_nr == 0)
		return NULL;
	kept_skip(k);
	return kept_remove(k, kept_at(k, k->k_head++));
}

/* Returns the oldest of g; NULL: there is none. */
static __inline__ void *kept_get_of(struct kept *k, struct kept_group *g)
{
	return g->y_nr == 0 ? NULL : kept_remove(k, kept_at(k, g->y_first));
}

/* Takes item back, which is there: the search begins at the newest. */
static __inline__ void kept_leave(struct kept *k, const void *item)
{
	unsigned i = k->k_tail - 1;

	while (kept_at(k, i)->c_item != item)
		i--;
	(void)kept_remove(k, kept_at(k, i));
}

/* Moves all items to the end, so that no holes are left. */
static __inline__ void kept_pack(struct kept *k)
{
	unsigned nr;

	for (nr = k->k_nr; nr > 0; nr--) {
		struct kept_group *g;

		kept_skip(k);
		g = kept_at(k, k->k_head)->c_group;
		kept_append(k, g, kept_remove(k, kept_at(k, k->k_head++)));
	}
	kept_skip(k);
}

/* The ring is full. False: no memory. */
static __attribute__((noinline, cold, unused)) bool kept_room(struct kept *k)
{
	unsigned mask = k->k_mask * 2 + 1;
	struct kept_place *ring;
	unsigned i;

	if (k->k_nr <= k->k_mask / 2) {
		kept_pack(k);
		return true;
	}
	ring = mask > k->k_mask ? (struct kept_place *)
		calloc((size_t)mask + 1, sizeof ring[0]) : NULL;
	if (ring == NULL)
		return false;
	for (i = k->k_head; i != k->k_tail; i++)
		ring[i & mask] = *kept_at(k, i);
	free(k->k_ring);
	k->k_ring = ring;
	k->k_mask = mask;
	return true;
}

/* Adds item, at the end. False: no memory, and nothing has changed. */
static __inline__ bool kept_put(struct kept *k, struct kept_group *g,
				void *item)
{
	if (__builtin_expect(k->k_tail - k->k_head > k->k_mask, 0) &&
	    !kept_room(k))
		return false;
	kept_append(k, g, item);
	return true;
}

#endif /* KEPT_H */
