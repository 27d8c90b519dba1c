/* SPDX-License-Identifier: MIT */
/* vring.h: a ring of records with one writer, which readers copy meanwhile. */

#ifndef URING_H
#define URING_H

/*
 * The writer never waits for a reader. It overwrites the oldest record, so a
 * reader finds out afterwards which of its records are whole:
 *
 *	writer, record n			reader
 *
 *	W1 word 0, word 1 (release)	R1 head (acquire)
 *	W2 head = n + 1 (release)	R2 copy the words
 *					R3 fence (acquire)
 *					R4 head again: h
 *					R5 drop all below h + 1 - room
 *
 * Let R2 read a word of record n + room where it expects n. That word is
 * released after the head n + room (W1 is after the W2 of the record before). So
 * R4 reads n + room or more, and R5 drops n.
 */

#include "format.h"

struct uring {
	struct uview_record *g_at;
	uint64_t             g_mask;	/* records - 1 */
	uint64_t             g_head;	/* as vr_head */
	struct uview_ring   *g_ring;
};

/*
 * What the owner keeps in registers while it writes several records. In between
 * nothing else writes to the ring.
 */
struct uring_writer {
	struct uview_record *n_at;
	uint64_t             n_mask, n_head;
	uint64_t            *n_shown;	/* vr_head */
};

static inline struct uring_writer uring_open(const struct uring *g)
{
	struct uring_writer n = { g->g_at, g->g_mask, g->g_head,
		&g->g_ring->vr_head };

	return n;
}

static inline void uring_close(struct uring *g, const struct uring_writer *n)
{
	g->g_head = n->n_head;
}

/* Writes a record. */
static inline void uring_write(struct uring_writer *n, uint64_t time,
			       unsigned kind, unsigned arg, uint64_t word)
{
	struct uview_record *e = &n->n_at[n->n_head & n->n_mask];

	__atomic_store_n(&e->ve_word[0], time << 16 | kind << 12 | arg,
			 __ATOMIC_RELEASE);				/* W1 */
	__atomic_store_n(&e->ve_word[1], word, __ATOMIC_RELEASE);
	__atomic_store_n(n->n_shown, ++n->n_head, __ATOMIC_RELEASE);	/* W2 */
}

/* Writes a single record. Owner only. */
static inline void uring_put(struct uring *g, uint64_t time, unsigned kind,
			     unsigned arg, uint64_t word)
{
	struct uring_writer n = uring_open(g);

	uring_write(&n, time, kind, arg, word);
	uring_close(g, &n);
}

/* Returns an address and an id, as word 1. */
static inline uint64_t uring_word(const void *at, unsigned id)
{
	return ((uint64_t)(uintptr_t)at & 0xffffffffffffu) | (uint64_t)id << 48;
}

/* A reader takes these steps, by whatever means it reads the words. */

/* Returns the number of the oldest record that may be there at R1. */
static inline uint64_t uring_begin(uint64_t head, uint64_t room, uint64_t from)
{
	uint64_t begin = head > room ? head - room : 0;

	return begin > from ? begin : from < head ? from : head;
}

/* Returns the number of the oldest that is whole at R4: R5. */
static inline uint64_t uring_whole(uint64_t begin, uint64_t head, uint64_t room,
				   uint64_t now)
{
	uint64_t least = now >= room ? now + 1 - room : 0;

	return least <= begin ? begin : least < head ? least : head;
}

#endif /* URING_H */
