/* SPDX-License-Identifier: MIT */
/* segments.h: the layout of memory from the system, and lists. A part of umem.c. */

#ifndef UMEM_SEGMENTS_H
#define UMEM_SEGMENTS_H

/*
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
 * M1. Each page behind the head of a segment is in one span, or in one free
 *     run.
 *
 * REJECTED
 *
 * Smaller segments: a touch of each head costs a huge page.
 */

#include "umem.h"

#include <stdbool.h>
#include <stdint.h>

/* Cache lines are fetched in pairs. */
#define LINE		((size_t)128)
#define PAGE		((size_t)4 << 10)
#define SEGMENT		((size_t)2 << 20)	/* a huge page, too */
#define HEAD		4		/* pages that describe a segment */
#define RUN_NR		((int)(SEGMENT / PAGE) - HEAD)	/* pages for blocks */

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
	unsigned short     s_used;	/* spans M2; for a free run: it is dirty */
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

/* Addresses. */

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

/* The i-th segment of a chunk. */
static struct umem_segment *segment_nth(const struct umem_chunk *c, size_t i)
{
	return (struct umem_segment *)((char *)segment_of(c) + i * SEGMENT);
}

#endif /* UMEM_SEGMENTS_H */
