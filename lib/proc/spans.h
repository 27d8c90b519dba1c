/* SPDX-License-Identifier: MIT */
/* spans.h: spans, and batches of their blocks. A part of umem.c. */

#ifndef UMEM_SPANS_H
#define UMEM_SPANS_H

/*
 * A span has pages that are cut into blocks of one class. Its blocks go to pools in
 * batches, and come back to the depot, or else to their spans. Callers hold m_lock, but
 * for link_all().
 *
 * M2. s_used is the number of blocks of a span that were cut and are not in
 *     s_free. Users, pools, stocks and the depot have them. s_used is not 0.
 *     The span is in m_part exactly if it has another block to give.
 *
 * REJECTED
 *
 * Compaction, which moves the buffers of blocked threads: a block would have to
 * know its thread, for 8 bytes each. Without compaction memory is at most 1.2
 * times the slices in each test, so there is little left to gain.
 */

#include "runs.h"
#include "sizes.h"

static struct umem_block *blocks_put(struct umem *m, struct umem_block *b,
				     int nr);

/* Returns the blocks of the depot to their spans. True: there were some. */
static bool depot_flush(struct umem *m)
{
	struct umem_block *batch;
	bool any = false;
	int class;

	for (class = 0; class < UMEM_POOL_NR; class++) {
		while ((batch = m->m_depot[class]) != NULL) {
			m->m_depot[class] = batch->b_batch;
			(void)blocks_put(m, batch,
					 batch_nr(m->m_cut[class].c_size));
			any = true;
		}
		m->m_depot_nr[class] = 0;
	}
	return any;
}

/*
 * Allocates a run of pages for this class. Uses up the depot before it maps
 * more. NULL: no memory.
 */
static struct umem_span *run_get(struct umem *m, int pages, int class)
{
	struct umem_span *p = run_find(m, pages);
	int i;

	if (p == NULL && depot_flush(m))
		p = run_find(m, pages);
	if (p == NULL && segment_get(m))
		p = run_find(m, pages);
	if (p == NULL)
		return NULL;
	run_out(m, p);
	if (p->s_pages > pages)
		run_in(m, p + pages, p->s_pages - pages, p->s_used);
	for (i = 0; i < pages; i++) {
		p[i].s_class = class;
		p[i].s_first = i;
	}
	p->s_pages = pages;
	m->m_used += pages;
	return p;
}

/* Frees the pages of p, and merges them with free neighbours (runs M3). */
static void run_put(struct umem *m, struct umem_span *p)
{
	struct umem_span *first = segment_of(p)->g_span;
	struct umem_span *next = p + p->s_pages;
	int pages = p->s_pages;

	m->m_used -= pages;
	if (next < first + RUN_NR && next->s_class == FREE) {
		pages += next->s_pages;
		run_out(m, next);
	}
	if (p > first && p[-1].s_class == FREE) {
		p -= p[-1].s_pages;
		pages += p->s_pages;
		run_out(m, p);
	}
	run_in(m, p, pages, true);
	if (m->m_dirty > keep(m, KEEP))
		trim(m, KEEP);
}

static struct umem_span *span_get(struct umem *m, int class)
{
	struct umem_span *p = run_get(m, m->m_cut[class].c_pages, class);

	if (p != NULL) {
		p->s_free = NULL;
		p->s_used = p->s_cut = 0;
	}
	return p;
}

/* Returns whether p has another block to give. */
static bool span_has(const struct umem *m, const struct umem_span *p)
{
	return p->s_free != NULL || p->s_cut < m->m_cut[p->s_class].c_nr;
}

/* Takes a block from the first span in m_part, which is not empty. */
static struct umem_block *part_get(struct umem *m, int class)
{
	struct umem_span *p = (struct umem_span *)m->m_part[class].l_next;
	struct umem_block *b = p->s_free;

	if (b != NULL)
		p->s_free = b->b_next;
	else
		b = (struct umem_block *)(address(p) +
				(size_t)p->s_cut++ * m->m_cut[class].c_size);
	p->s_used++;
	if (!span_has(m, p))
		list_del(&p->s_link);
	return b;
}

static struct umem_block *block_get(struct umem *m, int class)
{
	struct umem_span *p;

	if (list_empty(&m->m_part[class])) {
		p = span_get(m, class);
		if (p == NULL)
			return NULL;
		list_add(&m->m_part[class], &p->s_link);
	}
	return part_get(m, class);
}

/* Takes back nr blocks of p, linked from first to last. */
static void chain_put(struct umem *m, struct umem_span *p,
		      struct umem_block *first, struct umem_block *last, int nr)
{
	bool had = span_has(m, p);

	last->b_next = p->s_free;
	p->s_free = first;
	p->s_used -= nr;
	if (p->s_used > 0) {
		if (!had)
			list_add(&m->m_part[p->s_class], &p->s_link);
		return;
	}
	if (had)
		list_del(&p->s_link);
	run_put(m, p);
}

/*
 * Takes back nr linked blocks of any spans, and returns the block behind them.
 * Neighbours in the list are mostly of the same span.
 */
static struct umem_block *blocks_put(struct umem *m, struct umem_block *b,
				     int nr)
{
	while (nr > 0) {
		struct umem_span *p = span_of(b);
		uintptr_t low = (uintptr_t)address(p);
		size_t nob = p->s_pages * PAGE;
		struct umem_block *first = b;
		struct umem_block *last;
		int all = nr;

		do {
			last = b;
			b = b->b_next;
		} while (--nr > 0 && (uintptr_t)b - low < nob);
		chain_put(m, p, first, last, all - nr);
	}
	return b;
}

/* Batches. */

/* Takes up to *nr blocks from spans in m_part, linked. Sets *nr to how many. */
static struct umem_block *gather(struct umem *m, int class, int *nr)
{
	struct umem_block *batch = NULL;
	int most = *nr;

	for (*nr = 0; *nr < most && !list_empty(&m->m_part[class]); ++*nr) {
		struct umem_block *b = part_get(m, class);

		b->b_next = batch;
		batch = b;
	}
	return batch;
}

/*
 * Takes some blocks, and sets *nr to how many. If *linked is false, they are
 * neighbours that were not touched yet, which the caller links without m_lock.
 */
static struct umem_block *batch_get(struct umem *m, int class, int *nr,
				    bool *linked)
{
	struct umem_block *batch = m->m_depot[class];
	struct umem_span *p;

	*nr = batch_nr(m->m_cut[class].c_size);
	*linked = true;
	if (batch != NULL) {
		m->m_depot[class] = batch->b_batch;
		m->m_depot_nr[class]--;
		return batch;
	}
	if (!list_empty(&m->m_part[class]))
		return gather(m, class, nr);
	p = span_get(m, class);
	if (p == NULL)
		return NULL;
	*nr = p->s_used = p->s_cut = m->m_cut[class].c_nr;
	*linked = false;
	return (struct umem_block *)address(p);
}

/* Links new blocks in the order of their addresses. */
static struct umem_block *link_all(void *batch, size_t size, int nr)
{
	char *at = batch;

	for (; --nr > 0; at += size)
		((struct umem_block *)at)->b_next =
			(struct umem_block *)(at + size);
	((struct umem_block *)at)->b_next = NULL;
	return batch;
}

#endif /* UMEM_SPANS_H */
