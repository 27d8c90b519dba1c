/* SPDX-License-Identifier: MIT */
/* umem.c: memory for threads, and for the slices of blocked threads. */

/*
 * OVERVIEW
 *
 *	pool		pool		free blocks by size class, a pool
 *	  |		  |		for each owner
 *	  +-- batches ----+
 *		|			from here on under m_lock
 *	      depot			a few batches of each class
 *		|
 *	       blocks
 *		|
 *	      spans			pages that are cut into blocks of one
 *		|			class, some of which are free
 *	       pages
 *		|
 *	      free runs			of pages, of any size
 *		|
 *	      chunks			of segments, from the system
 *
 * A struct uproc_thread takes a cache line, and the buffer for a small slice
 * takes one or two. Such blocks come from the lists of the processor, without a
 * lock. A thread is often made by one processor and ends on another. So a list
 * that has grown long gives a batch of blocks to the depot, and an empty list
 * takes a batch from there. (These are the depots of Bonwick, "Magazines and
 * Vmem", USENIX 2001, section 3, without the magazines.)
 *
 * Slices have all sizes, and a thread that goes deeper leaves a block of each
 * size behind. So blocks must become other sizes. A block that the depot does
 * not take returns to the span that it was cut from. When all blocks of a span
 * are free, its pages become a free run, which merges with free neighbours.
 * Spans of any class are made from free runs.
 *
 *	size			from			granularity
 *	up to 1 KiB		pools, spans		16 bytes
 *	up to 4 KiB		pools, spans		8 to each doubling
 *	up to 16 KiB		spans			8 to each doubling
 *	up to 508 KiB		free runs		pages
 *	more			mmap()			pages
 *
 * New spans are cut in the order of need, so threads that run one after another
 * are neighbours in memory.
 *
 * SEGMENTS
 *
 * A segment is 2 MiB, and its address is a multiple of 2 MiB. So the address of
 * a block gives its segment. The first pages of a segment describe the others:
 *
 *	+--------------------+--------+--------------+-----+-----------
 *	| g_span[0 .. 507]   | span 0 | span 4 ..    |     | free run ..
 *	+--------------------+--------+--------------+-----+-----------
 *
 * There is a struct umem_span for each page. The struct of the first page of a
 * span counts the blocks. Those of the other pages say where the first page is.
 * For a free run the struct of its first page has all fields, and the
 * struct of its last page repeats the length.
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
 * KEEP_REST where there was KEEP (REST in uproc.c). The depot is also used up before
 * more memory is mapped.
 *
 * All chunks but the first ask for huge pages. A segment that gives back pages
 * no longer asks, or the kernel would fill the hole again. It also gives back what was
 * never used, which a huge page may have made resident.
 *
 * RESERVATION
 *
 * A scheduler may have to make a thread where it cannot fail. So it reserves
 * blocks earlier, in a stock. Most reserved blocks are in memory that is mapped
 * but not touched. These are whole spans, which are linked when the first block
 * of each is taken.
 *
 * INVARIANTS
 *
 * M1. Each page behind the head of a segment is in one span, or in one free
 *     run.
 * M2. s_used is the number of blocks of a span that were cut and are not in
 *     s_free. Users, pools, stocks and the depot have them. s_used is not 0.
 *     The span is in m_part exactly if it has another block to give.
 * M3. A free run is in m_run, by its length. No two free runs are neighbours.
 * M4. m_dirty is the number of pages in free runs that may be resident. After
 *     each release it is within keep(), unless the system refuses.
 * M5. A failure changes nothing: all that was free still is.
 *
 * REJECTED
 *
 * First buffers in one block with the thread: the length of the first slice is
 * not known, and guesses waste more than a second miss costs.
 *
 * Freeing a buffer when its thread is resumed, and allocating another at the
 * next block, as the article considers. Each block of a cold thread would cost
 * 39 instructions more (both lists are short then, so there is no slow path).
 * Only threads that own a lane have a buffer that they do not need. There are
 * at most 256 for each processor, so this would save 0.03 percent of a million
 * buffers, and an eighth of 2000. Threads that have a lane to themselves would
 * pay most: each block would allocate a buffer that is never used.
 *
 * Compaction, which moves the buffers of blocked threads: a block would have to
 * know its thread, for 8 bytes each. Without compaction memory is at most 1.2
 * times the slices in each test, so there is little left to gain.
 *
 * Classes 8 bytes apart: they take 4 percent less for a slice of 104 bytes. But
 * then a quarter of all accesses of 16 bytes crosses a cache line, and cold
 * rings took up to 7 percent more time.
 *
 * Smaller segments, or chunks that begin all their segments at once: a touch of
 * each head costs a huge page. MADV_FREE: cheaper if the memory is used again
 * soon, but the process does not become smaller until memory is short.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* MAP_ANONYMOUS */
#endif
#include "umem.h"
#include "usched.h"
#include "compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

UPREEMPT_NEVER;

/* Cache lines are fetched in pairs. */
#define LINE		((size_t)128)
#define PAGE		((size_t)4 << 10)
#define SEGMENT		((size_t)2 << 20)	/* a huge page, too */
#define HEAD		4		/* pages that describe a segment */
#define RUN_NR		((int)(SEGMENT / PAGE) - HEAD)	/* other pages */
#define RUN_MAX		(RUN_NR / 4 * PAGE)	/* bytes of a block */
#define POOL_MAX	((size_t)4 << 10)
#define CUT_MAX		((size_t)16 << 10)
#define GROW_MAX	16		/* segments of a chunk */
#define KEEP		((size_t)1 << 10)	/* pages: 4 MiB */
#define KEEP_REST	(KEEP / 64)		/* while a processor sleeps */
#define DEPOT_MOST	4		/* batches of a class */
#define RAW_MIN		16		/* places of the first k_raw */

/* Values of s_class that are no class: a block of whole pages, a free run. */
enum { RUN = 254, FREE = 255 };

/*
 * A span, or a free run. Of a span, pages behind the first have only s_class
 * and s_first. Of a free run, the last page has only s_pages and s_class, and
 * the pages between have nothing.
 */
struct umem_span {
	struct umem_link   s_link;	/* in m_part, or in m_run */
	struct umem_block *s_free;	/* blocks that have come back */
	unsigned short     s_pages;
	unsigned short     s_used;	/* M2; for a free run: it is dirty */
	unsigned short     s_cut;	/* blocks that were cut off */
	unsigned char      s_class;
	unsigned char      s_first;	/* pages between the first and this */
};

/* Memory from the system: segments that are neighbours. */
struct umem_chunk {
	struct umem_link c_link;	/* in m_chunk */
	void            *c_map;
	size_t           c_mapped;
	size_t           c_left;	/* segments not begun: the last */
	size_t           c_segs;	/* segments begun: the first */
	size_t           c_free;	/* segments begun, and all free */
};

struct umem_segment {
	struct umem_chunk *g_chunk;
	struct umem_chunk  g_own;	/* the chunk, in its first segment */
	bool               g_small;	/* no longer asks for huge pages */
	struct umem_span   g_span[RUN_NR];
};

_Static_assert(sizeof(struct umem_segment) <= HEAD * PAGE, "HEAD");

/* Lies in front of a block that is too large for a segment. */
struct umem_large {
	struct umem_link g_link;	/* in m_large */
	size_t           g_mapped;
};

/* Lists. */

static void list_init(struct umem_link *head, int nr)
{
	for (; nr-- > 0; head++)
		head->l_next = head->l_prev = head;
}

static bool list_empty(const struct umem_link *head)
{
	return head->l_next == head;
}

/* Puts l behind at, which is a head or in a list. */
static void list_add(struct umem_link *at, struct umem_link *l)
{
	l->l_next = at->l_next;
	l->l_prev = at;
	at->l_next->l_prev = l;
	at->l_next = l;
}

static void list_del(struct umem_link *l)
{
	l->l_next->l_prev = l->l_prev;
	l->l_prev->l_next = l->l_next;
}

/* Sizes. */

/* Returns the class of *size, and rounds *size up to the size of its blocks. */
static int class_of(size_t *size)
{
	size_t step = UMEM_SMALL / 8;
	int class = UMEM_SMALL / UMEM_FINE;

	if (*size <= UMEM_SMALL) {
		*size = (*size + UMEM_FINE - 1) & -UMEM_FINE;
		return *size / UMEM_FINE - 1;
	}
	while (*size > step * 16) {
		step *= 2;
		class += 8;
	}
	*size = (*size + step - 1) & -step;
	return class + *size / step - 9;
}

/* Returns how many blocks of this size are a batch. */
static int batch_nr(size_t size)
{
	return UMEM_BATCH / size;
}

/* Returns the cut with the least waste, of a span of least to most pages. */
static struct umem_cut cut(size_t size, unsigned least, unsigned most)
{
	struct umem_cut best = { size, 0, 1 };
	size_t best_waste = PAGE;
	unsigned pages;

	for (pages = least; pages <= most; pages++) {
		size_t waste = pages * PAGE % size;

		if (pages * PAGE < size ||
		    waste * best.c_pages >= best_waste * pages)
			continue;
		best.c_nr    = pages * PAGE / size;
		best.c_pages = pages;
		best_waste   = waste;
	}
	return best;
}

static void cuts_init(struct umem *m)
{
	const unsigned batch = UMEM_BATCH / PAGE;
	size_t size;

	for (size = UMEM_FINE; size <= CUT_MAX; size++) {
		int class = class_of(&size);

		m->m_cut[class] = size <= UMEM_SMALL ? cut(size, batch, batch) :
			size <= POOL_MAX ? cut(size, batch, 2 * batch) :
			cut(size, 1, 4 * batch);
	}
}

/* Free runs: caller holds m_lock. */

static struct umem_segment *segment_of(const void *at)
{
	return (struct umem_segment *)((uintptr_t)at & -SEGMENT);
}

static char *address(const struct umem_span *p)
{
	struct umem_segment *g = segment_of(p);

	return (char *)g + (p - g->g_span + HEAD) * PAGE;
}

static struct umem_span *span_of(const void *block)
{
	struct umem_segment *g = segment_of(block);
	struct umem_span *p;

	p = &g->g_span[((uintptr_t)block - (uintptr_t)g) / PAGE - HEAD];
	return p - p->s_first;
}

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

/* Chunks: caller holds m_lock. */

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

/* Spans: caller holds m_lock. */

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

/* Frees the pages of p, and merges them with free neighbours (M3). */
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

/* Batches: caller holds m_lock. */

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

/*
 * Puts a batch into o, which has no block of this class. The first touch of new
 * memory may take long, so it happens without m_lock, unless m_lock protects o
 * (held). False: no memory.
 */
static bool refill(struct umem *m, struct umem_pool *o, int class, bool held)
{
	struct umem_block *batch;
	bool linked;
	int nr;

	if (!held)
		pthread_mutex_lock(&m->m_lock);
	batch = batch_get(m, class, &nr, &linked);
	if (!held)
		pthread_mutex_unlock(&m->m_lock);
	if (batch == NULL)
		return false;
	if (!linked)
		link_all(batch, m->m_cut[class].c_size, nr);
	o->o_free[class] = batch;
	o->o_nr[class]   = nr;
	return true;
}

/*
 * Moves the nr blocks of o that were freed last to the depot. If the depot has
 * enough, they return to their spans. Caller holds m_lock.
 */
static void spill(struct umem *m, struct umem_pool *o, int class, int nr)
{
	struct umem_block *batch = o->o_free[class];
	struct umem_block *last = batch;
	int i;

	o->o_nr[class] -= nr;
	if (m->m_depot_nr[class] == DEPOT_MOST) {
		o->o_free[class] = blocks_put(m, batch, nr);
		return;
	}
	for (i = 1; i < nr; i++)
		last = last->b_next;
	o->o_free[class] = last->b_next;
	last->b_next     = NULL;
	batch->b_batch   = m->m_depot[class];
	m->m_depot[class] = batch;
	m->m_depot_nr[class]++;
}

/* Large blocks. */

static void *large_get(struct umem *m, size_t size)
{
	size_t mapped = (size + LINE + PAGE - 1) & -PAGE;
	struct umem_large *g;

	g = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g == MAP_FAILED)
		return NULL;
	g->g_mapped = mapped;
	pthread_mutex_lock(&m->m_lock);
	m->m_large_nob += mapped;
	list_add(&m->m_large, &g->g_link);
	pthread_mutex_unlock(&m->m_lock);
	return (char *)g + LINE;
}

static void large_put(struct umem *m, void *block)
{
	struct umem_large *g = (struct umem_large *)((char *)block - LINE);

	pthread_mutex_lock(&m->m_lock);
	m->m_large_nob -= g->g_mapped;
	list_del(&g->g_link);
	pthread_mutex_unlock(&m->m_lock);
	munmap(g, g->g_mapped);
}

/* Blocks that pools do not keep. */

static void *direct_get(struct umem *m, size_t size)
{
	struct umem_span *p;
	void *b;

	if (size > RUN_MAX)
		return large_get(m, size);
	pthread_mutex_lock(&m->m_lock);
	if (size <= CUT_MAX)
		b = block_get(m, class_of(&size));
	else {
		p = run_get(m, (size + PAGE - 1) / PAGE, RUN);
		b = p != NULL ? address(p) : NULL;
	}
	pthread_mutex_unlock(&m->m_lock);
	return b;
}

static void direct_put(struct umem *m, void *block, size_t size)
{
	if (size > RUN_MAX) {
		large_put(m, block);
		return;
	}
	pthread_mutex_lock(&m->m_lock);
	if (size <= CUT_MAX)
		(void)blocks_put(m, block, 1);
	else
		run_put(m, span_of(block));
	pthread_mutex_unlock(&m->m_lock);
}

/* Pools. */

/* Takes a block of any size. If o is shared, m_lock protects it. */
static inline void *slow_get(struct umem_pool *o, size_t size, bool shared)
{
	struct umem *m = o->o_mem;
	void *b;
	int class;

	if (size > POOL_MAX)
		return direct_get(m, size);
	class = class_of(&size);
	if (shared)
		pthread_mutex_lock(&m->m_lock);
	b = umem_pop(o, class);
	if (b == NULL && refill(m, o, class, shared))
		b = umem_pop(o, class);
	if (shared)
		pthread_mutex_unlock(&m->m_lock);
	return b;
}

NOINLINE void *umem_get_slow(struct umem_pool *o, size_t size)
{
	return slow_get(o, size, false);
}

void *umem_get_shared(struct umem_pool *o, size_t size)
{
	return slow_get(o, size, true);
}

/* Takes back a block of any size. If o is shared, m_lock protects it: lock. */
static inline void slow_put(struct umem_pool *o, void *block, size_t size,
			    bool lock)
{
	struct umem *m = o->o_mem;
	int class;

	if (size > POOL_MAX) {
		direct_put(m, block, size);
		return;
	}
	class = class_of(&size);
	if (lock)
		pthread_mutex_lock(&m->m_lock);
	((struct umem_block *)block)->b_next = o->o_free[class];
	o->o_free[class] = block;
	o->o_nr[class]++;
	/* Counted in bytes: a count of blocks would need a division. */
	if (o->o_nr[class] * size >= 2 * UMEM_BATCH) {
		if (!lock)
			pthread_mutex_lock(&m->m_lock);
		lock = true;
		spill(m, o, class, batch_nr(size));
	}
	if (lock)
		pthread_mutex_unlock(&m->m_lock);
}

NOINLINE void umem_put_slow(struct umem_pool *o, void *block, size_t size)
{
	slow_put(o, block, size, false);
}

void umem_put_shared(struct umem_pool *o, void *block, size_t size)
{
	slow_put(o, block, size, true);
}

void umem_pool_trim(struct umem_pool *o)
{
	struct umem *m = o->o_mem;
	int class;

	for (class = 0; class < UMEM_POOL_NR; class++) {
		if (o->o_nr[class] == 0)
			continue;
		pthread_mutex_lock(&m->m_lock);
		(void)blocks_put(m, o->o_free[class], o->o_nr[class]);
		pthread_mutex_unlock(&m->m_lock);
		o->o_free[class] = NULL;
		o->o_nr[class]   = 0;
	}
	pthread_mutex_lock(&m->m_lock);
	(void)depot_flush(m);
	trim(m, KEEP_REST);
	pthread_mutex_unlock(&m->m_lock);
}

/* Reservation. */

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

/* From the beginning to the end. */

/* Takes lines of its own, as another processor's array may be the neighbour. */
void *umem_array(size_t nr)
{
	void *array;

	return posix_memalign(&array, LINE, nr * sizeof(void *)) == 0 ?
		array : NULL;
}

int umem_init(struct umem *m)
{
	memset(m, 0, sizeof *m);
	list_init(m->m_part, UMEM_CLASS_NR);
	list_init(m->m_run, UMEM_BIN_NR);
	list_init(&m->m_chunk, 1);
	list_init(&m->m_large, 1);
	m->m_grow = 1;
	m->m_page = sysconf(_SC_PAGESIZE);
	cuts_init(m);
	return -pthread_mutex_init(&m->m_lock, NULL);
}

void umem_fini(struct umem *m)
{
	struct umem_link *l, *next;

	for (l = m->m_chunk.l_next; l != &m->m_chunk; l = next) {
		struct umem_chunk *c = (struct umem_chunk *)l;

		next = l->l_next;
		munmap(c->c_map, c->c_mapped);
	}
	for (l = m->m_large.l_next; l != &m->m_large; l = next) {
		next = l->l_next;
		munmap(l, ((struct umem_large *)l)->g_mapped);
	}
	pthread_mutex_destroy(&m->m_lock);
}

size_t umem_held(struct umem *m)
{
	size_t pages;

	pthread_mutex_lock(&m->m_lock);
	pages = m->m_used + m->m_dirty + m->m_segs * HEAD;
	pages += m->m_large_nob / PAGE;
	pthread_mutex_unlock(&m->m_lock);
	return pages * PAGE;
}

/* Calls f for the blocks of a span. */
static void span_each(const struct umem *m, const struct umem_span *p,
		      void (*f)(void *arg, const void *block, size_t size),
		      void *arg)
{
	size_t size;
	int i;

	if (p->s_class >= UMEM_CLASS_NR)	/* RUN, FREE */
		return;
	size = m->m_cut[p->s_class].c_size;
	for (i = 0; i < p->s_cut; i++)
		f(arg, address(p) + i * size, size);
}

/* The i-th segment of a chunk. */
static struct umem_segment *segment_nth(const struct umem_chunk *c, size_t i)
{
	return (struct umem_segment *)((char *)segment_of(c) + i * SEGMENT);
}

void umem_each(struct umem *m, void (*f)(void *arg, const void *block,
					 size_t size), void *arg)
{
	const struct umem_link *l;
	const struct umem_span *p;
	size_t i;

	pthread_mutex_lock(&m->m_lock);
	for (l = m->m_chunk.l_next; l != &m->m_chunk; l = l->l_next) {
		const struct umem_chunk *c = (const struct umem_chunk *)l;

		for (i = 0; i < c->c_segs; i++) {
			p = segment_nth(c, i)->g_span;
			for (; p < segment_nth(c, i)->g_span + RUN_NR;
			     p += p->s_pages)
				span_each(m, p, f, arg);
		}
	}
	pthread_mutex_unlock(&m->m_lock);
}

/* Returns whether m has begun the segment in which this lies. */
static bool is_ours(const struct umem *m, const void *at)
{
	const struct umem_segment *g = segment_of(at);
	const struct umem_link *l;

	for (l = m->m_chunk.l_next; l != &m->m_chunk; l = l->l_next) {
		const struct umem_chunk *c = (const struct umem_chunk *)l;

		if ((size_t)((const char *)g - (const char *)segment_of(c)) <
		    c->c_segs * SEGMENT)
			return true;
	}
	return false;
}

size_t umem_size_at(const struct umem *m, const void *at)
{
	const struct umem_span *p;
	size_t size, from;

	if (!is_ours(m, at) || ((uintptr_t)at & (SEGMENT - 1)) < HEAD * PAGE)
		return 0;
	p = &segment_of(at)->g_span[((uintptr_t)at & (SEGMENT - 1)) / PAGE -
				    HEAD];
	if (p->s_class >= UMEM_CLASS_NR)
		return 0;
	p -= p->s_first;
	size = m->m_cut[p->s_class].c_size;
	from = (size_t)((const char *)at - address(p));
	return from % size == 0 && from / size < p->s_cut ? size : 0;
}
