/* SPDX-License-Identifier: MIT */
/* memory: blocks are distinct; memory serves other sizes, and goes back. */
/* VARIANTS: once */

/*
 * umem.c is compiled here, alone. Two pools with owners, a shared pool and a
 * stock take and give back blocks of all sizes, in waves: few, then many, then
 * few again. Any pool takes back any block. No block is written by the user of
 * another, and segments M1, spans M2, runs M3 and M4 hold (the test walks all
 * segments). In a second run mmap() and madvise() fail at random. A block is
 * refused only if mmap() has failed meanwhile, and nothing is lost (umem M5):
 * when all is free again, as much was given back as without failures. Then
 * memory of one size is used again for any other, without another mmap(). At
 * the end nothing is mapped.
 */
#include "check.h"
#include <sys/mman.h>

static long mapped, map_fails;
static unsigned refuses;	/* one call in this many fails; 0: none */
static unsigned state;

static void *try_mmap(void *at, size_t nob, int prot, int flags, int fd,
		      off_t off)
{
	void *map = MAP_FAILED;

	if (refuses == 0 || check_random(&state) % refuses != 0)
		map = mmap(at, nob, prot, flags, fd, off);
	else
		map_fails++;
	if (map != MAP_FAILED)
		mapped += (long)nob;
	return map;
}

static int try_munmap(void *at, size_t nob)
{
	mapped -= (long)nob;
	return munmap(at, nob);
}

static int try_madvise(void *at, size_t nob, int advice)
{
	if (refuses != 0 && check_random(&state) % refuses == 0)
		return -1;
	return madvise(at, nob, advice);
}

#undef NOINLINE
#define mmap	try_mmap
#define munmap	try_munmap
#define madvise	try_madvise
#include "umem.c"

#define SLOTS	3000
#define POOLS	3		/* the last is shared */
#define STOCKED	100
#define MB	((size_t)1 << 20)
/* The most that pools and the depot keep, and KEEP. */
#define CACHED	(POOLS * UMEM_POOL_NR * 2 * UMEM_BATCH + KEEP * PAGE + 2 * MB)

static struct umem mem;
static struct umem_pool pool[POOLS];
static struct umem_stock stock;

static struct slot {
	unsigned char *sl_block;
	size_t         sl_size;
	unsigned char  sl_tag;
} slot[SLOTS];

static void walk_span(const struct umem_span *p, const char *low)
{
	const struct umem_cut *c = &mem.m_cut[p->s_class];
	const struct umem_block *b;
	int nr = 0;

	for (b = p->s_free; b != NULL; b = b->b_next, nr++) {
		CHECK((const char *)b >= low &&
		      ((const char *)b - low) % c->c_size == 0);
		CHECK_THAT(((const char *)b - low) / c->c_size, <, p->s_cut);
	}
	CHECK(p->s_pages == c->c_pages && p->s_cut <= c->c_nr);
	CHECK(p->s_used > 0 && p->s_used + nr == p->s_cut);	/* spans M2 */
}

static void walk_segment(struct umem_segment *g, size_t *used, size_t *dirty)
{
	bool was_free = false;
	int i, j;

	for (i = 0; i < RUN_NR; i += g->g_span[i].s_pages) {
		struct umem_span *p = &g->g_span[i];

		CHECK(p->s_pages > 0 && i + p->s_pages <= RUN_NR); /* segments M1 */
		CHECK(p->s_class != FREE || !was_free);		/* runs M3 */
		was_free = p->s_class == FREE;
		if (was_free) {
			*dirty += p->s_used ? p->s_pages : 0;
			continue;
		}
		*used += p->s_pages;
		for (j = 0; j < p->s_pages; j++)
			CHECK_IS(span_of(address(p) + (size_t)j * PAGE), p);
		if (p->s_class < UMEM_CLASS_NR)
			walk_span(p, address(p));
	}
}

static void walk(void)
{
	size_t used = 0, dirty = 0, segs = 0, i;
	struct umem_link *l;

	for (l = mem.m_chunk.l_next; l != &mem.m_chunk; l = l->l_next) {
		struct umem_segment *g = segment_of(l);

		CHECK_IS(g->g_chunk, (struct umem_chunk *)l);
		for (i = 0; i < g->g_chunk->c_segs; i++)
			walk_segment((struct umem_segment *)
				     ((char *)g + i * SEGMENT), &used, &dirty);
		segs += i;
	}
	CHECK(used == mem.m_used && dirty == mem.m_dirty && segs == mem.m_segs);
	CHECK_THAT(dirty, <=, keep(&mem, KEEP));		/* runs M4 */
}

/* Returns a size, mostly small, like that of a slice. */
static size_t random_size(void)
{
	static const unsigned most[] = {
		1024, 1024, 1024, 4096, 16384, 65536, 520192, 1500000
	};

	return 1 + check_random(&state) %
		most[check_random(&state) % COUNT(most)];
}

static void mark(const struct slot *sl)
{
	sl->sl_block[0] = sl->sl_block[sl->sl_size - 1] = sl->sl_tag;
	sl->sl_block[sl->sl_size / 2] = sl->sl_tag;
}

static void fill(struct slot *sl)
{
	struct umem_pool *o = &pool[check_random(&state) % POOLS];
	long fails = map_fails;

	sl->sl_size  = random_size();
	sl->sl_tag   = (unsigned char)check_random(&state);
	sl->sl_block = o == &pool[POOLS - 1] ? umem_get_shared(o, sl->sl_size) :
		umem_get(o, sl->sl_size);
	CHECK(sl->sl_block != NULL || map_fails > fails);	/* umem M5 */
	if (sl->sl_block == NULL)
		return;
	CHECK_IS((uintptr_t)sl->sl_block % 16, 0);
	mark(sl);
}

static void empty(struct slot *sl)
{
	struct umem_pool *o = &pool[check_random(&state) % POOLS];
	unsigned char *b = sl->sl_block;

	CHECK(b[0] == sl->sl_tag && b[sl->sl_size - 1] == sl->sl_tag);
	CHECK(sl->sl_size < 32 || b[sl->sl_size / 2] == sl->sl_tag);
	if (o == &pool[POOLS - 1])
		umem_put_shared(o, b, sl->sl_size);
	else
		umem_put(o, b, sl->sl_size);
	sl->sl_block = NULL;
}

static void use_stock(void)
{
	unsigned char *b[STOCKED];
	long fails = map_fails;
	int nr = 1 + (int)(check_random(&state) % STOCKED);
	int i;

	if (!umem_reserve(&stock, &mem, 64, nr * 9)) {
		CHECK_THAT(map_fails, >, fails);
		return;
	}
	CHECK_THAT(stock.k_nr, >=, nr * 9);
	for (i = 0; i < nr; i++) {
		b[i] = umem_stock_get(&stock, 64);
		memset(b[i], i, 64);
	}
	for (i = 0; i < nr; i++) {
		CHECK(b[i][0] == i && b[i][63] == i);
		umem_stock_put(&stock, b[i]);
	}
	umem_stock_trim(&stock, &mem, 64, nr);
	CHECK_THAT(stock.k_nr, >=, nr);
}

/* Fills, or empties, this part of all slots, in random order. */
static void wave(bool fills, int percent)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		struct slot *sl = &slot[check_random(&state) % SLOTS];
		bool now = (int)(check_random(&state) % 100) < percent;

		if (sl->sl_block == NULL && now == fills)
			fill(sl);
		else if (sl->sl_block != NULL && now != fills)
			empty(sl);
	}
	use_stock();
	walk();
}

static void empty_all(void)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (slot[i].sl_block != NULL)
			empty(&slot[i]);
	walk();
}

static void begin(void)
{
	int i;

	CHECK_IS(umem_init(&mem), 0);
	memset(pool, 0, sizeof pool);
	memset(&stock, 0, sizeof stock);
	for (i = 0; i < POOLS; i++)
		umem_pool_init(&pool[i], &mem);
}

static void end(void)
{
	umem_stock_fini(&stock);
	umem_fini(&mem);
	CHECK_IS(mapped, 0);
}

static void waves(unsigned refused)
{
	size_t most = 0;
	int i;

	doing("refuses %u", refused);
	begin();
	refuses = refused;
	for (i = 0; i < 40; i++) {
		wave(i % 8 < 4, 90);
		if (umem_held(&mem) > most)
			most = umem_held(&mem);
	}
	empty_all();
	CHECK(most > 2 * CACHED && umem_held(&mem) < CACHED);
	for (i = 0; i < POOLS; i++)
		umem_pool_trim(&pool[i]);
	umem_stock_trim(&stock, &mem, 64, 0);
	walk();
	CHECK_THAT(umem_held(&mem), <, KEEP * PAGE + MB);
	CHECK(refused == 0 || map_fails > 0);
	end();
}

/* Takes nob bytes in blocks of one size; returns how much is held then. */
static size_t one_size(size_t nob, size_t size)
{
	size_t nr = nob / size, i, held;
	void **block = malloc(nr * sizeof block[0]);

	CHECK(block != NULL);
	for (i = 0; i < nr; i++) {
		block[i] = umem_get(&pool[0], size);
		CHECK(block[i] != NULL);
		memset(block[i], 1, size);
	}
	held = umem_held(&mem);
	for (i = 0; i < nr; i++)
		umem_put(&pool[0], block[i], size);
	free(block);
	walk();
	return held;
}

/* Takes blocks of one size after another. */
static void sizes(void)
{
	static const size_t size[] = {
		64, 200, 1000, 1500, 3000, 5000, 9000, 16384, 20000, 70000,
		160000, 400000, 100000, 10000, 2000, 128
	};
	long first = 0;
	int i;

	begin();
	for (i = 0; i < COUNT(size); i++) {
		size_t held = one_size(40 * MB, size[i]);

		CHECK_THAT(held, <, 40 * MB * 6 / 5 + CACHED);
		if (i == 0)
			first = mapped;
		CHECK_THAT(mapped, <=, first * 2);
		CHECK_THAT(umem_held(&mem), <, CACHED);
	}
	end();
}

/* Returns how many pages of a run are resident; 0 if the system does not say. */
static int there(const struct umem_span *p)
{
	static unsigned char pages[RUN_NR];
	int i, nr = 0;

	if (mem.m_page != PAGE ||
	    mincore(address(p), (size_t)p->s_pages * PAGE, (void *)pages) != 0)
		return 0;
	for (i = 0; i < p->s_pages; i++)
		nr += pages[i] & 1;
	return nr;
}

/*
 * A part of the last segment goes back. A huge page may have made all of it resident,
 * also behind the block that stays, where nothing was ever used.
 */
static void part(void)
{
	struct umem_segment *g;
	void *block[8];
	int i, nr = 0;

	begin();
	for (i = 0; i < COUNT(block); i++) {
		block[i] = umem_get(&pool[0], 400000);
		CHECK(block[i] != NULL);
		memset(block[i], 1, 400000);
	}
	g = segment_of(block[COUNT(block) - 1]);
	for (i = 0; i < COUNT(block) - 1; i++)
		umem_put(&pool[0], block[i], 400000);
	umem_pool_trim(&pool[0]);
	walk();
	for (i = 0; g->g_small && i < RUN_NR; i += g->g_span[i].s_pages) {
		if (g->g_span[i].s_class == FREE && !g->g_span[i].s_used)
			nr += there(&g->g_span[i]);
	}
	CHECK_IS(nr, 0);
	umem_put(&pool[0], block[COUNT(block) - 1], 400000);
	end();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	state = check_seed | 1;
	waves(0);
	waves(3);
	refuses = 0;
	sizes();
	part();
	return 0;
}
