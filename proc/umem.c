/* SPDX-License-Identifier: MIT */
/* umem.c: memory for threads, and for the slices of those that are blocked. */

/*
 * OVERVIEW
 *
 * A struct uproc_thread is a cache line, and the buffer for a small slice one
 * or two. Blocks come from free lists by size class, 16 bytes apart up to 1
 * KiB, then four to each doubling, up to POOL_MAX; the rest from malloc(). A
 * thread is often made by one processor and ends on another, so a list that has
 * grown long gives a batch of blocks to the depot, and an empty one takes a
 * batch from there (Bonwick, "Magazines and Vmem", USENIX 2001, section 3,
 * without the magazines). New blocks are carved from chunks, in the order of
 * need, so threads that run one after another are neighbours in memory; chunks
 * of 2 MiB and more ask for huge pages. Memory goes back to the system in
 * umem_fini().
 *
 * RESERVATION
 *
 * A scheduler may have to make a thread where it cannot fail. It reserves the
 * blocks before, in a stock. Most of these are memory that was mapped, but not
 * touched: whole batches, which are linked when the first block of each is used.
 *
 * REJECTED
 *
 * First buffers in one block with the thread: the length of the first slice is
 * not known, and guesses waste more than a second miss costs.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* MAP_ANONYMOUS */
#endif
#include "umem.h"
#include "usched.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

UPREEMPT_NEVER;

#define NOINLINE	__attribute__((noinline))
/* Cache lines are fetched in pairs. */
#define LINE		((size_t)128)
#define PAGE		((size_t)4 << 10)
#define BATCH_NR	4
#define POOL_MAX	((size_t)64 << 10)
#define CHUNK_MIN	((size_t)64 << 10)
#define CHUNK_MAX	((size_t)32 << 20)
#define HUGE_PAGE	((size_t)2 << 20)
#define RAW_MIN		16

/* Memory from the system; blocks follow. */
struct umem_chunk {
	struct umem_chunk *c_next;
	void              *c_map;
	size_t             c_mapped;
};

/* In lines of its own: that of another processor may be its neighbour. */
void *umem_array(size_t nr)
{
	void *array;

	return posix_memalign(&array, LINE, nr * sizeof(void *)) == 0 ?
		array : NULL;
}

int umem_init(struct umem *m)
{
	int rc;

	memset(m, 0, sizeof *m);
	rc = pthread_mutex_init(&m->m_lock, NULL);
	m->m_grow = CHUNK_MIN;
	m->m_large.g_next = m->m_large.g_prev = &m->m_large;
	return -rc;
}

void umem_fini(struct umem *m)
{
	struct umem_chunk *c;
	struct umem_large *g;

	while ((c = m->m_chunk) != NULL) {
		m->m_chunk = c->c_next;
		munmap(c->c_map, c->c_mapped);
	}
	while ((g = m->m_large.g_next) != &m->m_large) {
		m->m_large.g_next = g->g_next;
		free(g);
	}
	pthread_mutex_destroy(&m->m_lock);
}

/* The class of a size, which becomes that of its blocks. */
static int class_of(size_t *size)
{
	size_t step = UMEM_SMALL / 4;
	int class = UMEM_SMALL / UMEM_FINE;

	if (*size <= UMEM_SMALL) {
		*size = (*size + UMEM_FINE - 1) & -UMEM_FINE;
		return *size / UMEM_FINE - 1;
	}
	while (*size > step * 8) {
		step *= 2;
		class += 4;
	}
	*size = (*size + step - 1) & -step;
	return class + *size / step - 5;
}

/* The rest of the last chunk is lost: it is less than a batch. */
static bool chunk_get(struct umem *m, size_t size)
{
	size_t nob = m->m_grow > size + PAGE ? m->m_grow : size + PAGE;
	size_t align = nob >= HUGE_PAGE ? HUGE_PAGE : 0;
	struct umem_chunk *c;
	char *map;

	map = mmap(NULL, nob + align, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED && m->m_grow > CHUNK_MIN) {
		m->m_grow = CHUNK_MIN;	/* there may be some left */
		return chunk_get(m, size);
	}
	if (map == MAP_FAILED)
		return false;
	c = (struct umem_chunk *)(align ?
		((uintptr_t)map + align - 1) & -align : (uintptr_t)map);
#if defined(MADV_HUGEPAGE)
	if (align != 0)
		(void)madvise(c, nob, MADV_HUGEPAGE);	/* a hint */
#endif
	c->c_map      = map;
	c->c_mapped   = nob + align;
	c->c_next     = m->m_chunk;
	m->m_chunk = c;
	m->m_free = (char *)c + PAGE;
	m->m_end  = (char *)c + nob;
	if (m->m_grow < CHUNK_MAX)
		m->m_grow *= 2;
	return true;
}

static size_t batch_bytes(size_t size)
{
	size_t nob = size * BATCH_NR;

	return nob < UMEM_BATCH ? UMEM_BATCH : (nob + PAGE - 1) & -PAGE;
}

static int batch_nr(size_t size)
{
	return batch_bytes(size) / size;
}

/* Memory for a batch, not touched yet. Caller holds m_lock. */
static char *carve(struct umem *m, size_t nob)
{
	if ((size_t)(m->m_end - m->m_free) < nob &&
	    !chunk_get(m, nob))
		return NULL;
	m->m_free += nob;
	return m->m_free - nob;
}

/* New blocks, linked in the order of their addresses. */
static struct umem_block *link_all(void *batch, size_t size)
{
	char *at = batch;
	int nr;

	for (nr = batch_nr(size); --nr > 0; at += size)
		((struct umem_block *)at)->b_next = (struct umem_block *)(at + size);
	((struct umem_block *)at)->b_next = NULL;
	return batch;
}

/* Caller holds m_lock. */
static struct umem_block *batch_get(struct umem *m, int class, size_t size,
			       bool *linked)
{
	struct umem_block *batch = m->m_depot[class];

	*linked = batch != NULL;
	if (batch == NULL)
		return (struct umem_block *)carve(m, batch_bytes(size));
	m->m_depot[class] = batch->b_batch;
	return batch;
}

/*
 * A batch for o, which is empty. The first touch of new memory may take long,
 * so m_lock is not held then, unless it protects o: held.
 */
static bool refill(struct umem *m, struct umem_pool *o, int class,
		   size_t size, bool held)
{
	struct umem_block *batch;
	bool linked;

	if (!held)
		pthread_mutex_lock(&m->m_lock);
	batch = batch_get(m, class, size, &linked);
	if (!held)
		pthread_mutex_unlock(&m->m_lock);
	if (batch != NULL && !linked)
		link_all(batch, size);
	o->o_free[class] = batch;
	o->o_nr[class]   = batch != NULL ? batch_nr(size) : 0;
	return batch != NULL;
}

static void *large_get(struct umem *m, size_t size)
{
	struct umem_large *g = NULL;

	if (posix_memalign((void **)&g, LINE, size + LINE) != 0)
		return NULL;
	pthread_mutex_lock(&m->m_lock);
	g->g_next = m->m_large.g_next;
	g->g_prev = &m->m_large;
	g->g_next->g_prev = g->g_prev->g_next = g;
	pthread_mutex_unlock(&m->m_lock);
	return (char *)g + LINE;
}

static void large_put(struct umem *m, void *block)
{
	struct umem_large *g = (struct umem_large *)((char *)block - LINE);

	pthread_mutex_lock(&m->m_lock);
	g->g_next->g_prev = g->g_prev;
	g->g_prev->g_next = g->g_next;
	pthread_mutex_unlock(&m->m_lock);
	free(g);
}

/* With shared, the pool is protected by m_lock. */
static inline void *slow_get(struct umem_pool *o, size_t size, bool shared)
{
	struct umem *m = o->o_mem;
	void *b;
	int class;

	if (size > POOL_MAX)
		return large_get(m, size);
	class = class_of(&size);
	if (shared)
		pthread_mutex_lock(&m->m_lock);
	b = umem_pop(o, class);
	if (b == NULL && refill(m, o, class, size, shared))
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

/* Gives the batch of blocks that were freed last to the depot. */
static void spill(struct umem *m, struct umem_pool *o, int class,
		  int nr)
{
	struct umem_block *batch = o->o_free[class];
	struct umem_block *last = batch;
	int i;

	for (i = 1; i < nr; i++)
		last = last->b_next;
	o->o_free[class] = last->b_next;
	o->o_nr[class]  -= nr;
	last->b_next     = NULL;
	batch->b_batch   = m->m_depot[class];
	m->m_depot[class] = batch;
}

static inline void slow_put(struct umem_pool *o, void *block, size_t size,
			    bool lock)
{
	struct umem *m = o->o_mem;
	int class;

	if (size > POOL_MAX) {
		large_put(m, block);
		return;
	}
	class = class_of(&size);
	if (lock)
		pthread_mutex_lock(&m->m_lock);
	((struct umem_block *)block)->b_next = o->o_free[class];
	o->o_free[class] = block;
	o->o_nr[class]++;
	/* By bytes, since blocks would need a division for each. */
	if (o->o_nr[class] * size >= 2 * batch_bytes(size)) {
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

/* Reservation. */

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

bool umem_reserve(struct umem *m, struct umem_stock *k, size_t size, long nr)
{
	int class = class_of(&size);
	struct umem_block *batch;
	bool linked;

	while (k->k_nr < nr) {
		if (!raw_room(k))
			return false;
		pthread_mutex_lock(&m->m_lock);
		batch = batch_get(m, class, size, &linked);
		pthread_mutex_unlock(&m->m_lock);
		if (batch == NULL)
			return false;
		if (linked)
			stock_add(k, batch);
		else
			k->k_raw[k->k_raw_nr++] = batch;
		k->k_nr += batch_nr(size);
	}
	return true;
}

/* k_free is NULL, k_raw is not empty. */
void umem_stock_more(struct umem_stock *k, size_t size)
{
	(void)class_of(&size);
	k->k_free = link_all(k->k_raw[--k->k_raw_nr], size);
}

void umem_stock_fini(struct umem_stock *k)
{
	free(k->k_raw);
}
