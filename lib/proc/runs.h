/* SPDX-License-Identifier: MIT */
/* runs.h: free runs of pages, from the system and back. A part of umem.c. */

#ifndef UMEM_RUNS_H
#define UMEM_RUNS_H

/*
 * A free run has pages of a segment that no span has. Runs come in chunks, which are
 * segments that are neighbours. Callers hold m_lock.
 *
 * BACK TO THE SYSTEM
 *
 * Pages of free runs are dirty if they may have been touched. There may be KEEP
 * dirty pages, or an eighth of the pages in use if that is more. If there are
 * more, umem gives back the largest runs by madvise(). These runs are clean
 * then, and stay mapped. A chunk that is free as a whole is unmapped instead.
 * So after a peak most memory goes back to the system, except
 *
 *	KEEP, or an eighth of the pages that are in use then;
 *	spans of which a block is still in use;
 *	blocks that pools and the depot hold: less than 2 batches of each class
 *	in a pool, DEPOT_MOST in the depot, and only of classes that were used.
 *
 * A processor that sleeps for some time empties its pool and the depot, and leaves
 * KEEP_REST where there was KEEP (rest.h). The depot is also used up before
 * more memory is mapped.
 *
 * All chunks but the first ask for huge pages. A segment that gives back pages
 * no longer asks, or the kernel would fill the hole again. It also gives back what was
 * never used, which a huge page may have made resident.
 *
 * M3. A free run is in m_run, by its length. No two free runs are neighbours.
 * M4. m_dirty is the number of pages in free runs that may be resident. After
 *     each release it is within keep(), unless the system refuses.
 *
 * REJECTED
 *
 * Chunks that begin all their segments at once: a touch of each head costs a huge page.
 * MADV_FREE: cheaper if the memory is used again soon, but the process does not become
 * smaller until memory is short.
 */

#include "segments.h"

#include <sys/mman.h>

#define GROW_MAX	16		/* segments of a chunk */
#define KEEP		((size_t)1 << 10)	/* pages: 4 MiB */
#define KEEP_REST	(KEEP / 64)		/* while a processor sleeps */

/*
 * Returns the number of the list for runs of so many pages. Each length up to
 * 32 has a list of its own. After that 8 lists cover each doubling.
 */
static int bin_of(unsigned pages)
{
	int log = 31 - __builtin_clz(pages);

	return pages <= 32 ? (int)pages - 1 :
		32 + (log - 5) * 8 + (int)(pages >> (log - 3) & 7);
}

/* Returns the first list in which each run has at least so many pages. */
static int bin_above(unsigned pages)
{
	int log = 31 - __builtin_clz(pages);

	return bin_of(pages <= 32 ? pages : pages + (1u << (log - 3)) - 1);
}

/* Puts a run in its list, in front if it is dirty (M3). */
static void run_in(struct umem *m, struct umem_span *p, int pages, bool dirty)
{
	int bin = bin_of(pages);
	struct umem_link *head = &m->m_run[bin];

	p->s_pages = p[pages - 1].s_pages = pages;
	p->s_class = p[pages - 1].s_class = FREE;
	p->s_used  = dirty;
	list_add(dirty ? head : head->l_prev, &p->s_link);
	m->m_bins |= 1ull << bin;
	if (dirty)
		m->m_dirty += pages;
	if (pages == RUN_NR)
		segment_of(p)->g_chunk->c_free++;
}

/* Takes a run out of its list. */
static void run_out(struct umem *m, struct umem_span *p)
{
	int bin = bin_of(p->s_pages);

	list_del(&p->s_link);
	if (list_empty(&m->m_run[bin]))
		m->m_bins &= ~(1ull << bin);
	if (p->s_used)
		m->m_dirty -= p->s_pages;
	if (p->s_pages == RUN_NR)
		segment_of(p)->g_chunk->c_free--;
}

/* Returns a free run of at least so many pages, still in its list, or NULL. */
static struct umem_span *run_find(struct umem *m, int pages)
{
	unsigned long long bins = m->m_bins & -1ull << bin_above(pages);
	struct umem_link *head = &m->m_run[bin_of(pages)];
	struct umem_link *l;

	if (bins != 0)
		return (struct umem_span *)m->m_run[__builtin_ctzll(bins)].l_next;
	for (l = head->l_next; l != head; l = l->l_next)
		if (((struct umem_span *)l)->s_pages >= pages)
			return (struct umem_span *)l;
	return NULL;
}

/* Chunks. */

static void advise(void *at, size_t nob, int advice)
{
	(void)madvise(at, nob, advice);		/* a hint */
}

/* Makes a chunk, but begins no segment: a touch may cost a huge page. */
static void chunk_init(struct umem *m, void *map, size_t mapped, size_t segs)
{
	struct umem_segment *g = segment_of((char *)map + SEGMENT - 1);

#if defined(MADV_HUGEPAGE)
	advise(g, segs * SEGMENT,
	       m->m_segs > 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
	g->g_own = (struct umem_chunk) { .c_map = map, .c_mapped = mapped,
					 .c_left = segs };
	list_add(&m->m_chunk, &g->g_own.c_link);
}

/* Maps a chunk of m_grow segments, or of a single one. False: no memory. */
static bool chunk_get(struct umem *m)
{
	size_t segs = m->m_grow;
	size_t mapped = (segs + 1) * SEGMENT - PAGE;
	void *map;

	map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED) {
		m->m_grow = 1;
		return segs > 1 && chunk_get(m);
	}
	chunk_init(m, map, mapped, segs);
	if (m->m_segs > 0 && m->m_grow < GROW_MAX)
		m->m_grow *= 2;
	return true;
}

/* Begins another segment. False: no memory. */
static bool segment_get(struct umem *m)
{
	struct umem_chunk *c = (struct umem_chunk *)m->m_chunk.l_next;
	struct umem_segment *g;

	if (list_empty(&m->m_chunk) || c->c_left == 0) {
		if (!chunk_get(m))
			return false;
		c = (struct umem_chunk *)m->m_chunk.l_next;
	}
	g = (struct umem_segment *)((char *)segment_of(c) +
				    c->c_segs * SEGMENT);
	c->c_left--;
	c->c_segs++;
	m->m_segs++;
	g->g_chunk = c;
	run_in(m, g->g_span, RUN_NR, false);
	return true;
}

/* Unmaps a chunk. All segments that were begun are free as a whole. */
static void chunk_put(struct umem *m, struct umem_chunk *c)
{
	struct umem_segment *g = segment_of(c);
	size_t i;

	for (i = 0; i < c->c_segs; i++) {
		run_out(m, g->g_span);
		g = (struct umem_segment *)((char *)g + SEGMENT);
	}
	m->m_segs -= c->c_segs;
	list_del(&c->c_link);
	munmap(c->c_map, c->c_mapped);
}

/* Back to the system. */

/* Returns how many dirty pages there may be, at least `least`. */
static size_t keep(const struct umem *m, size_t least)
{
	return m->m_used / 8 > least ? m->m_used / 8 : least;
}

/* Lets the system have the pages of a run, which stay mapped. */
static void run_drop(const struct umem *m, const struct umem_span *p)
{
	uintptr_t low  = (uintptr_t)(address(p) + m->m_page - 1) & -m->m_page;
	uintptr_t high = (uintptr_t)(address(p) + p->s_pages * PAGE) & -m->m_page;

	if (low < high)
		advise((void *)low, high - low, MADV_DONTNEED);
}

/* Lets g have small pages from now on. A huge page makes also clean runs resident. */
static void segment_small(const struct umem *m, struct umem_segment *g)
{
	const struct umem_span *p;

#if defined(MADV_NOHUGEPAGE)
	advise(g, SEGMENT, MADV_NOHUGEPAGE);
#endif
	g->g_small = true;
	for (p = g->g_span; p < g->g_span + RUN_NR; p += p->s_pages)
		if (p->s_class == FREE && !p->s_used)
			run_drop(m, p);
}

/* Gives back the pages of a run. A system that refuses is not asked again. */
static void run_clean(struct umem *m, struct umem_span *p)
{
	struct umem_segment *g = segment_of(p);

	if (p->s_pages == RUN_NR && g->g_chunk->c_free == g->g_chunk->c_segs) {
		chunk_put(m, g->g_chunk);
		return;
	}
	if (!g->g_small)
		segment_small(m, g);
	run_drop(m, p);
	run_out(m, p);
	run_in(m, p, p->s_pages, false);
}

/* Gives back dirty runs, the largest first, until there are few enough (M4). */
static void trim(struct umem *m, size_t least)
{
	unsigned long long bins = m->m_bins;

	while (m->m_dirty > keep(m, least) && bins != 0) {
		int bin = 63 - __builtin_clzll(bins);
		struct umem_link *l = m->m_run[bin].l_next;

		if (l == &m->m_run[bin] || !((struct umem_span *)l)->s_used)
			bins &= ~(1ull << bin);
		else
			run_clean(m, (struct umem_span *)l);
	}
}

#endif /* UMEM_RUNS_H */
