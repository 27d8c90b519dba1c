/* SPDX-License-Identifier: MIT */
/* uheap.c: heaps of threads that move. */

/*
 * The heap of the thread whose number has the place n (umove_place()) lies at
 * HEAPS + n * heap_size, in each process. Nothing else has these addresses,
 * wherever the thread is, so what it has allocated can go back to where it was.
 * Addresses are mapped in chunks, as they are needed, and cost memory only where
 * they were touched: with a heap in use a thread takes a page at least.
 *
 * When a thread has left or ended, the page of its heap is kept, because to give it
 * back and to touch it again takes longer than all else of a move. Mostly the place
 * of the number is used again soon. When KEPT places have been noted, the pages of
 * all that have no thread are given back, with a call for each run of places.
 * A heap that ever had more than a page is given back at once.
 *
 * A heap begins with a struct heap. Behind that lie blocks, each behind a struct
 * block, up to h_end. All links are offsets within the heap. So a heap is moved
 * by copying it up to h_end.
 *
 * Free blocks are in one list, by address. The first that fits is taken, and cut
 * if it is larger. Neighbours in the list are merged, and a free block at the end
 * lowers h_end. (Lists by size would be faster, but of a heap of some kilobytes
 * nothing may be lost to blocks of the wrong size.)
 */

#define _GNU_SOURCE
#include "umove_inside.h"

#include "usched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAPS		((char *)0x200000000000)
#define HEAPS_NOB	((size_t)1 << 44)
#define CHUNK		((size_t)1 << 28)
#define GRAIN		((size_t)16)
#define KEPT		1024	/* pages */
#define GAP		8	/* places between two of a run */

struct heap {
	uint64_t h_end;			/* from here on nothing is in use */
	uint64_t h_most;		/* highest h_end since pages were given back */
	uint64_t h_free;		/* offset of the first; 0: none */
};

struct block {
	uint64_t b_size;		/* with this struct */
	uint64_t b_next;		/* offset of the next free block */
};

_Static_assert(sizeof(struct block) == GRAIN, "blocks keep the alignment");

static size_t heap_size, page_size;
static long kept[KEPT];			/* places that had threads */
static int kept_nr;
static unsigned char mapped[HEAPS_NOB / CHUNK];

int umove_heap_init(size_t size)
{
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	if (size > CHUNK)
		return -EINVAL;
	heap_size = (size + page_size - 1) & -page_size;
	if (heap_size == 0)
		heap_size = page_size;
	umove_program.pr_heap = heap_size;
	return 0;
}

void umove_heap_fini(void)
{
	size_t i;

	for (i = 0; i < HEAPS_NOB / CHUNK; i++) {
		if (mapped[i])
			munmap(HEAPS + i * CHUNK, CHUNK);
		mapped[i] = 0;
	}
	kept_nr = 0;
}

long umove_heap_most(void)
{
	return (long)(HEAPS_NOB / heap_size);
}

static char *place_at(long place)
{
	return HEAPS + (size_t)place * heap_size;
}

static char *heap_at(const struct umove_thread *t)
{
	return place_at(umove_place(t->th_number));
}

static struct heap *heap_of(const struct umove_thread *t)
{
	return (struct heap *)heap_at(t);
}

static bool chunk_map(size_t i)
{
	char *at = HEAPS + i * CHUNK;

	if (mapped[i])
		return true;
	if (mmap(at, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at) {
		usched_message("umove_alloc: no memory at the addresses of heaps, "
			       "from %p: a limit of addresses, or they are taken",
			       (void *)at);
		return false;
	}
	(void)madvise(at, CHUNK, MADV_NOHUGEPAGE);
	mapped[i] = 1;
	return true;
}

/* Lets t have a heap, which may be in two chunks. */
static bool heap_begin(struct umove_thread *t)
{
	size_t from = (size_t)umove_place(t->th_number) * heap_size;

	if (!chunk_map(from / CHUNK) ||
	    !chunk_map((from + heap_size - 1) / CHUNK))
		return false;
	t->th_has_heap = true;
	return true;
}

size_t umove_heap(const struct umove_thread *t, const void **at)
{
	*at = t->th_has_heap ? heap_of(t) : NULL;
	return t->th_has_heap ? (size_t)heap_of(t)->h_end : 0;
}

bool umove_heap_fill(struct umove_thread *t, const void *bytes, size_t nob)
{
	if (nob == 0)
		return true;
	if (!heap_begin(t))
		return false;
	memcpy(heap_at(t), bytes, nob);
	return true;
}

static void give_back(long from, long to)
{
	(void)madvise(place_at(from), (size_t)(to - from + 1) * heap_size,
		      MADV_DONTNEED);
}

static int lower(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns whether a run of places can go on to the next. */
static bool is_run(long last, long next)
{
	if (next - last > GAP)
		return false;
	while (++last < next) {
		if (umove_is_taken(last))
			return false;
	}
	return true;
}

/* Gives back the pages of all places that have no thread. */
static void kept_give_back(void)
{
	long from = -1, to = -1;
	int i;

	qsort(kept, (size_t)kept_nr, sizeof kept[0], lower);
	for (i = 0; i < kept_nr; i++) {
		if (umove_is_taken(kept[i]))
			continue;
		if (from >= 0 && !is_run(to, kept[i])) {
			give_back(from, to);
			from = -1;
		}
		if (from < 0)
			from = kept[i];
		to = kept[i];
	}
	if (from >= 0)
		give_back(from, to);
	kept_nr = 0;
}

void umove_heap_drop(struct umove_thread *t)
{
	long place = umove_place(t->th_number);

	if (!t->th_has_heap)
		return;
	t->th_has_heap = false;
	if (heap_of(t)->h_most > page_size) {
		give_back(place, place);
		return;
	}
	if (kept_nr == KEPT)
		kept_give_back();
	kept[kept_nr++] = place;
}

static struct block *block_at(struct heap *h, uint64_t at)
{
	return (struct block *)((char *)h + at);
}

/* Takes size bytes of the first block that has them, or returns NULL. */
static struct block *block_take(struct heap *h, size_t size)
{
	uint64_t *at = &h->h_free;
	struct block *b;

	while (*at != 0 && block_at(h, *at)->b_size < size)
		at = &block_at(h, *at)->b_next;
	if (*at == 0)
		return NULL;
	b = block_at(h, *at);
	if (b->b_size - size >= 2 * sizeof *b) {
		block_at(h, *at + size)->b_size = b->b_size - size;
		block_at(h, *at + size)->b_next = b->b_next;
		*at += size;
		b->b_size = size;
	} else
		*at = b->b_next;
	return b;
}

/* Puts b into the list, behind the free block before. */
static void block_put(struct heap *h, struct block *b)
{
	uint64_t own = (uint64_t)((char *)b - (char *)h), *at = &h->h_free;
	struct block *before = NULL;

	while (*at != 0 && *at < own) {
		before = block_at(h, *at);
		at = &before->b_next;
	}
	b->b_next = *at;
	*at = own;
	if (own + b->b_size == b->b_next) {
		b->b_size += block_at(h, b->b_next)->b_size;
		b->b_next = block_at(h, b->b_next)->b_next;
	}
	if (before != NULL && (char *)before + before->b_size == (char *)b) {
		before->b_size += b->b_size;
		before->b_next = b->b_next;
	}
}

/* Lowers h_end if the last block is free. */
static void end_lower(struct heap *h)
{
	uint64_t *at = &h->h_free;

	while (*at != 0 && block_at(h, *at)->b_next != 0)
		at = &block_at(h, *at)->b_next;
	if (*at != 0 && *at + block_at(h, *at)->b_size == h->h_end) {
		h->h_end = *at;
		*at = 0;
	}
}

void *umove_alloc(size_t size)
{
	struct umove_thread *t = umove_caller("umove_alloc");
	struct block *b;
	struct heap *h;

	if (t == NULL || size > heap_size)
		return NULL;
	size = (size + sizeof *b + GRAIN - 1) & -GRAIN;
	if (!t->th_has_heap) {
		if (!heap_begin(t))
			return NULL;
		h = heap_of(t);
		h->h_end  = (sizeof *h + GRAIN - 1) & -GRAIN;
		h->h_most = h->h_end;
		h->h_free = 0;
	}
	h = heap_of(t);
	b = block_take(h, size);
	if (b != NULL)
		return b + 1;
	if (size > heap_size - h->h_end)
		return NULL;
	b = block_at(h, h->h_end);
	b->b_size = size;
	h->h_end += size;
	if (h->h_end > h->h_most)
		h->h_most = h->h_end;
	return b + 1;
}

void umove_free(void *p)
{
	struct umove_thread *t = p != NULL ? umove_caller("umove_free") : NULL;
	struct block *b = p;
	struct heap *h;

	if (t == NULL)
		return;
	h = heap_of(t);
	b--;
	if (!t->th_has_heap || (char *)b < (char *)(h + 1) ||
	    (char *)p > (char *)h + h->h_end)
		usched_fail("umove_free: not of the heap of the calling thread");
	block_put(h, b);
	end_lower(h);
}
