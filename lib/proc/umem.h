/* SPDX-License-Identifier: MIT */
/* umem.h: memory for threads, and for the slices of those that are blocked. */

#ifndef UMEM_H
#define UMEM_H

/*
 * Not API: processors (uproc.c) and schedulers that move threads use this.
 * umem.c tells how it works.
 *
 *	struct umem		what the processors of a set share
 *	  struct umem_pool	free blocks of an owner, by size class
 *	  struct umem_stock	blocks of one size that an owner has reserved
 *
 * A block belongs to the struct umem, not to a pool, so any pool of the same
 * struct umem takes it back. The caller that gives a block back says its size.
 *
 * WHO MAY CALL WHAT
 *
 *	umem_get, umem_put, _pool_trim	the owner of the pool
 *	umem_held			any thread
 *	umem_get_shared, _put_shared	any thread, for a pool that has no owner
 *	umem_reserve, umem_stock_*	the owner of the stock
 *	umem_init, umem_fini		its maker, while no other call runs
 */

#include <pthread.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMEM_HIDDEN	__attribute__((visibility("hidden")))

#define UMEM_CLASS_NR	96	/* size classes of blocks */
#define UMEM_POOL_NR	80	/* the smaller classes, which pools keep */
#define UMEM_BIN_NR	64	/* lists of free runs, by length */
#define UMEM_FINE	((size_t)16)	/* between classes up to UMEM_SMALL */
#define UMEM_SMALL	((size_t)1 << 10)
/*
 * Blocks go from pool to pool in batches of so many bytes. Batches of 4 KiB
 * were too small, because a cpu fetches ahead, beyond the end of a page. Of two
 * processors with a hundred threads each, one then took cache lines of the
 * other, which was slower by a half.
 */
#define UMEM_BATCH	((size_t)16 << 10)

/* A block on a free list. b_batch: the next batch, in the first of a batch. */
struct umem_block {
	struct umem_block *b_next;
	struct umem_block *b_batch;
};

/* A place in a list, or its head. */
struct umem_link {
	struct umem_link *l_next;
	struct umem_link *l_prev;
};

/* How a span of a class is cut: c_pages pages into c_nr blocks of c_size. */
struct umem_cut {
	unsigned short c_size;
	unsigned short c_nr;
	unsigned short c_pages;
};

struct umem {
	pthread_mutex_t    m_lock;	/* protects what follows */
	struct umem_block *m_depot[UMEM_POOL_NR];	/* linked batches */
	unsigned char      m_depot_nr[UMEM_POOL_NR];
	struct umem_link   m_part[UMEM_CLASS_NR];	/* by class: spans M2 */
	struct umem_link   m_run[UMEM_BIN_NR];		/* by length: runs M3 */
	unsigned long long m_bins;	/* a bit per m_run that is not empty */
	struct umem_link   m_chunk;
	struct umem_link   m_large;
	size_t             m_grow;	/* segments of the next chunk */
	size_t             m_segs;
	size_t             m_used;	/* pages of spans */
	size_t             m_dirty;	/* pages: runs M4 */
	size_t             m_large_nob;	/* bytes of large blocks */
	/* Constant. */
	size_t             m_page;	/* bytes, of the system */
	struct umem_cut    m_cut[UMEM_CLASS_NR];
};

struct umem_pool {
	void        *o_free[UMEM_POOL_NR];
	int          o_nr[UMEM_POOL_NR];
	struct umem *o_mem;
};

/* Reserved blocks of one small size. Taking one of these k_nr cannot fail. */
struct umem_stock {
	struct umem_block *k_free;
	long               k_nr;	/* blocks in k_free and in k_raw */
	void             **k_raw;	/* batches that were not touched yet */
	int                k_raw_nr;
	int                k_raw_room;
};

/* Returns nr pointers, on cache lines of their own, for free(); or NULL. */
UMEM_HIDDEN void *umem_array(size_t nr);

/* Makes *m ready for use. 0 or -errno. */
UMEM_HIDDEN int  umem_init(struct umem *m);

/* Frees all blocks, also those that are in use. */
UMEM_HIDDEN void umem_fini(struct umem *m);

/*
 * Returns how many bytes the system has given for blocks and has not got back,
 * in use or not. An upper bound: some may not have been touched. Any thread.
 */
UMEM_HIDDEN size_t umem_held(struct umem *m);

/* Keeps spans and blocks as they are, until the release: m_lock. Any thread. */
UMEM_HIDDEN void umem_hold(struct umem *m);
UMEM_HIDDEN void umem_release(struct umem *m);

/*
 * Calls f for each block that was cut and not merged, in use or free. A free
 * block begins with a link. f must not call functions of this file, except
 * umem_size_at(). Between umem_hold() and umem_release().
 */
UMEM_HIDDEN void umem_each(struct umem *m, void (*f)(void *arg,
			   const void *block, size_t size), void *arg);

/* Returns the size of the block that begins there; 0: none does. As umem_each(). */
UMEM_HIDDEN size_t umem_size_at(const struct umem *m, const void *at);

/* Makes *o an empty pool of m. *o is zeroed. */
static inline void umem_pool_init(struct umem_pool *o, struct umem *m)
{
	o->o_mem = m;
}

/*
 * Returns all blocks of the pool and of the depot to their spans, so that they
 * can become other sizes. Owner only, when it has been idle for some time.
 */
UMEM_HIDDEN void umem_pool_trim(struct umem_pool *o);

/* Slow paths of umem_get() and umem_put(), for all sizes. Owner only. */
UMEM_HIDDEN void *umem_get_slow(struct umem_pool *o, size_t size);
UMEM_HIDDEN void  umem_put_slow(struct umem_pool *o, void *block, size_t size);

/* Do what umem_get() and umem_put() do, under m_lock. Any thread. */
UMEM_HIDDEN void *umem_get_shared(struct umem_pool *o, size_t size);
UMEM_HIDDEN void  umem_put_shared(struct umem_pool *o, void *block,
				  size_t size);

/* Returns the class of a size up to UMEM_SMALL. */
static inline int umem_class(size_t size)
{
	return (int)((size + UMEM_FINE - 1) / UMEM_FINE - 1);
}

/* Takes a block of this class from the pool. NULL: the pool has none. */
static inline void *umem_pop(struct umem_pool *o, int class_nr)
{
	struct umem_block *b = (struct umem_block *)o->o_free[class_nr];

	if (b != NULL) {
		o->o_free[class_nr] = b->b_next;
		o->o_nr[class_nr]--;
	}
	return b;
}

/* Puts a block into the pool. False: the pool is full, it must spill. */
static inline int umem_push(struct umem_pool *o, int class_nr, void *block)
{
	struct umem_block *b = (struct umem_block *)block;

	if ((unsigned)(o->o_nr[class_nr] + 1) * (unsigned)(class_nr + 1) *
	    (unsigned)UMEM_FINE >= 2 * (unsigned)UMEM_BATCH)
		return 0;
	b->b_next = (struct umem_block *)o->o_free[class_nr];
	o->o_free[class_nr] = b;
	o->o_nr[class_nr]++;
	return 1;
}

/* Returns at least size bytes, aligned for two words. NULL: no memory. */
static inline void *umem_get(struct umem_pool *o, size_t size)
{
	void *b = size <= UMEM_SMALL ? umem_pop(o, umem_class(size)) : NULL;

	return __builtin_expect(b != NULL, 1) ? b : umem_get_slow(o, size);
}

/* Takes back a block that was got with this size, from any pool of o_mem. */
static inline void umem_put(struct umem_pool *o, void *block, size_t size)
{
	if (size > UMEM_SMALL ||
	    __builtin_expect(!umem_push(o, umem_class(size), block), 0))
		umem_put_slow(o, block, size);
}

/*
 * Reserves blocks until k_nr is at least nr. size is at most UMEM_SMALL, and
 * the same in each call for k. False: no memory; k_nr may have grown.
 */
UMEM_HIDDEN int umem_reserve(struct umem_stock *k, struct umem *m, size_t size,
			      long nr);
/* Gives back batches that were not touched, while k_nr stays at least nr. */
UMEM_HIDDEN void umem_stock_trim(struct umem_stock *k, struct umem *m,
				 size_t size, long nr);
/* Links the blocks of a raw batch into k_free, which is empty. */
UMEM_HIDDEN void umem_stock_more(struct umem_stock *k, size_t size);
/* Frees the array of k. The blocks stay with their struct umem. */
UMEM_HIDDEN void umem_stock_fini(struct umem_stock *k);

/* Takes a reserved block. k_nr is not 0. */
static inline void *umem_stock_get(struct umem_stock *k, size_t size)
{
	struct umem_block *b;

	if (k->k_free == NULL)
		umem_stock_more(k, size);
	b = k->k_free;
	k->k_free = b->b_next;
	k->k_nr--;
	return b;
}

/* Puts a block of the same size into the stock. */
static inline void umem_stock_put(struct umem_stock *k, void *block)
{
	struct umem_block *b = (struct umem_block *)block;

	b->b_next = k->k_free;
	k->k_free = b;
	k->k_nr++;
}

#ifdef __cplusplus
}
#endif

#endif /* UMEM_H */
