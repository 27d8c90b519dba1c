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
 * PARTS
 *
 * This file has pools and large blocks, and the beginning and the end. It includes its
 * parts, each of which includes those below it:
 *
 *	stock.h		blocks that are reserved
 *	spans.h		spans and the depot
 *	runs.h		free runs, chunks, and what goes back to the system
 *	sizes.h		size classes
 *	segments.h	the layout of memory from the system; lists
 *
 * INVARIANTS
 *
 * M5. A failure changes nothing: all that was free still is.
 *
 * The others are where they are kept: segments M1, spans M2, runs M3 and M4.
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
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* MAP_ANONYMOUS */
#endif
#include "umem.h"
#include "usched.h"
#include "compiler.h"
#include "stock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define DEPOT_MOST	4		/* batches of a class */

/* Lies in front of a block that is too large for a segment. */
struct umem_large {
	struct umem_link g_link;	/* in m_large */
	size_t           g_mapped;
};

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

void umem_hold(struct umem *m)
{
	pthread_mutex_lock(&m->m_lock);
}

void umem_release(struct umem *m)
{
	pthread_mutex_unlock(&m->m_lock);
}

void umem_each(struct umem *m, void (*f)(void *arg, const void *block,
					 size_t size), void *arg)
{
	const struct umem_link *l;
	const struct umem_span *p;
	size_t i;

	for (l = m->m_chunk.l_next; l != &m->m_chunk; l = l->l_next) {
		const struct umem_chunk *c = (const struct umem_chunk *)l;

		for (i = 0; i < c->c_segs; i++) {
			p = segment_nth(c, i)->g_span;
			for (; p < segment_nth(c, i)->g_span + RUN_NR;
			     p += p->s_pages)
				span_each(m, p, f, arg);
		}
	}
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

/* Returns the size of the large block that begins there; 0: none does. */
static size_t large_size_at(const struct umem *m, const void *at)
{
	const struct umem_link *l;

	for (l = m->m_large.l_next; l != &m->m_large; l = l->l_next)
		if ((const char *)l + LINE == (const char *)at)
			return ((const struct umem_large *)l)->g_mapped - LINE;
	return 0;
}

size_t umem_size_at(const struct umem *m, const void *at)
{
	const struct umem_span *p;
	size_t size, from;

	if (!is_ours(m, at))
		return large_size_at(m, at);
	if (((uintptr_t)at & (SEGMENT - 1)) < HEAD * PAGE)
		return 0;
	p = &segment_of(at)->g_span[((uintptr_t)at & (SEGMENT - 1)) / PAGE -
				    HEAD];
	if (p->s_class == RUN && p->s_first == 0 && ((uintptr_t)at & (PAGE - 1)) == 0)
		return p->s_pages * PAGE;
	if (p->s_class >= UMEM_CLASS_NR)
		return 0;
	p -= p->s_first;
	if (p->s_class >= UMEM_CLASS_NR)	/* a page within a free run */
		return 0;
	size = m->m_cut[p->s_class].c_size;
	from = (size_t)((const char *)at - address(p));
	return from % size == 0 && from / size < p->s_cut ? size : 0;
}
