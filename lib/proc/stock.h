/* SPDX-License-Identifier: MIT */
/* stock.h: blocks that are reserved. A part of umem.c. */

#ifndef UMEM_STOCK_H
#define UMEM_STOCK_H

/*
 * A scheduler may have to make a thread where it cannot fail. So it reserves
 * blocks earlier, in a stock. Most reserved blocks are in memory that is mapped
 * but not touched. These are whole spans, which are linked when the first block
 * of each is taken.
 */

#include "spans.h"

#include <stdlib.h>
#include <string.h>

#define RAW_MIN		16		/* places of the first k_raw */

/* Makes room for another batch in k_raw. False: no memory. */
static bool raw_room(struct umem_stock *k)
{
	int room = k->k_raw_room != 0 ? 2 * k->k_raw_room : RAW_MIN;
	void **raw;

	if (k->k_raw_nr < k->k_raw_room)
		return true;
	raw = room > 0 ? umem_array(room) : NULL;
	if (raw == NULL)
		return false;
	if (k->k_raw_nr > 0)
		memcpy(raw, k->k_raw, k->k_raw_nr * sizeof raw[0]);
	free(k->k_raw);
	k->k_raw = raw;
	k->k_raw_room = room;
	return true;
}

/* Adds the blocks of a linked batch. */
static void stock_add(struct umem_stock *k, struct umem_block *batch)
{
	struct umem_block *last = batch;

	while (last->b_next != NULL)
		last = last->b_next;
	last->b_next = k->k_free;
	k->k_free = batch;
}

int umem_reserve(struct umem_stock *k, struct umem *m, size_t size, long nr)
{
	int class = class_of(&size);
	struct umem_block *batch;
	bool linked;
	int more;

	while (k->k_nr < nr) {
		if (!raw_room(k))
			return false;
		pthread_mutex_lock(&m->m_lock);
		batch = batch_get(m, class, &more, &linked);
		pthread_mutex_unlock(&m->m_lock);
		if (batch == NULL)
			return false;
		if (linked)
			stock_add(k, batch);
		else
			k->k_raw[k->k_raw_nr++] = batch;
		k->k_nr += more;
	}
	return true;
}

void umem_stock_trim(struct umem_stock *k, struct umem *m, size_t size, long nr)
{
	int class = class_of(&size);
	int less = m->m_cut[class].c_nr;

	while (k->k_raw_nr > 0 && k->k_nr - less >= nr) {
		pthread_mutex_lock(&m->m_lock);
		run_put(m, span_of(k->k_raw[--k->k_raw_nr]));
		pthread_mutex_unlock(&m->m_lock);
		k->k_nr -= less;
	}
}

/* Called when k_free is NULL, and k_raw is not empty. */
void umem_stock_more(struct umem_stock *k, size_t size)
{
	(void)class_of(&size);
	k->k_free = link_all(k->k_raw[--k->k_raw_nr], size,
			     UMEM_BATCH / size);
}

void umem_stock_fini(struct umem_stock *k)
{
	free(k->k_raw);
}

#endif /* UMEM_STOCK_H */
