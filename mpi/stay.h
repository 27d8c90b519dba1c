/* SPDX-License-Identifier: MIT */
/* stay.h: buffers on the stack of a thread that waits. Private. */

#ifndef UMPI_STAY_H
#define UMPI_STAY_H

/*
 * While a thread waits, its slice may be moved away, and another thread may run
 * at the same addresses. MPI must neither read nor write there. So a buffer
 * that lies in the slice of the caller is replaced by a copy on the heap: made
 * before the operation starts, and copied back by the thread after its wait.
 *
 * What is copied is the span of the data, from its lowest byte to its highest.
 * A span of a derived type has gaps, which the copy brings back as they were:
 * the thread waits meanwhile, and nothing else may write to its stack.
 *
 * A thread with a private stack (ustack_is_private()) is never moved, so its
 * buffers stay where they are. Threads have one if their maker asks for it
 * (rr_private()), or if others of their function have blocked in 2 KiB of stack
 * or more; in the hard mode the latter are moved, too. So copies are small, but
 * for the first threads of a function.
 *
 * Nanoseconds of cpu for a message between two threads of a rank, and resident
 * bytes of a thread that waits for it (bench/mpi/buffers.c, minima of 3; AMD
 * EPYC, Zen 5):
 *
 *			 1,000 pairs, 8 bytes	1,024 bytes	one pair, 64 KiB
 *	Open MPI heap	  547 ns  2,813 bytes	1,165  3,825	1,171
 *		 copy	  655	  2,891		1,328  5,214	2,177
 *		 lane	1,074	  7,622		1,247  8,470	1,210
 *	MPICH	 heap	  469	  2,334		  630  3,342	1,066
 *		 copy	  558	  2,437		  747  4,825	2,212
 *		 lane	1,342	  7,098		1,057  8,073	1,026
 *
 * From 4 KiB on, threads with a buffer on the stack had lanes in all rows.
 *
 * REJECTED: keeping a shared lane for a thread that waits. All other threads of
 * the lane then stand still until the message has come. If the message depends
 * on one of them, perhaps by way of another rank, it never comes. And a lane
 * holds a single such thread.
 *
 * REJECTED: a private lane for each thread that receives. For small messages
 * it costs more than a copy, in time and in bytes: see the table.
 */

#include "usched.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { UMPI_IN = 1, UMPI_OUT = 2 };	/* MPI reads, writes */
enum { UMPI_SMALL = 1024 };

struct umpi_copy {
	struct umpi_copy *c_next;
	char             *c_from;
	size_t            c_nob;
	int               c_way;
	char              c_copy[] __attribute__((aligned(16)));
};

/* The copies of a call: in its frame, since its thread alone uses the list. */
struct umpi_stay {
	struct umpi_copy *s_first;
	bool              s_failed;	/* no memory */
};

/* Returns whether an address is above a frame, on the stack of the caller u. */
static inline bool umpi_is_above(const struct ustack *u, const char *frame,
				 const void *at)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];

	return (const char *)at >= frame && (const char *)at < l->l_bottom;
}

/* Returns whether an address is on the stack of the caller, which may move. */
static __attribute__((noinline)) bool umpi_moves(const void *at)
{
	const struct ustack *u = ustack_self();

	return u != NULL && umpi_is_above(u, __builtin_frame_address(0), at) &&
		!ustack_is_private(u);
}

/* Returns the bytes of a copy: a multiple of 16, see s_alloc in usched.h. */
static inline size_t umpi_copy_size(size_t nob)
{
	return (sizeof(struct umpi_copy) + nob + 15) & ~(size_t)15;
}

/* A small copy is a block of the pool that also has the slices of threads. */
static inline struct umpi_copy *umpi_copy_make(struct usched *s, size_t nob)
{
	size_t size = umpi_copy_size(nob);

	return size <= UMPI_SMALL ? s->s_alloc(s, (int)size) : malloc(size);
}

static inline void umpi_copy_free(struct usched *s, struct umpi_copy *c)
{
	size_t size = umpi_copy_size(c->c_nob);

	if (size <= UMPI_SMALL)
		s->s_free(s, c, (int)size);
	else
		free(c);
}

/* Returns a copy of nob bytes for a call of u, or NULL: no memory. */
static inline void *umpi_copy(struct umpi_stay *s, const struct ustack *u,
			      const char *at, size_t nob, int way)
{
	struct umpi_copy *c = umpi_copy_make(u->u_sched, nob);

	s->s_failed |= c == NULL;
	if (c == NULL)
		return NULL;
	c->c_next = s->s_first;
	c->c_from = (char *)(uintptr_t)at;
	c->c_nob  = nob;
	c->c_way  = way;
	memcpy(c->c_copy, at, nob);
	s->s_first = c;
	return c->c_copy;
}

/* Returns where the copy of nob bytes is, or at if they need none. */
static __attribute__((noinline, unused))
void *umpi_stay(struct umpi_stay *s, const void *at, size_t nob, int way)
{
	const struct ustack *u = ustack_self();
	const char *frame = __builtin_frame_address(0);

	if (nob == 0 || u == NULL || !umpi_is_above(u, frame, at) ||
	    ustack_is_private(u))
		return (void *)(uintptr_t)at;
	if (!umpi_is_above(u, frame, (const char *)at + nob - 1))
		usched_fail("mpi: a buffer begins on the stack of a thread, "
			    "and ends elsewhere");
	return umpi_copy(s, u, at, nob, way);
}

/* Ends the copies of a call. */
static __attribute__((noinline, unused)) void umpi_stay_end(struct umpi_stay *s)
{
	const struct ustack *u = ustack_self();
	struct umpi_copy *c;

	while ((c = s->s_first) != NULL) {
		s->s_first = c->c_next;
		if (c->c_way & UMPI_OUT)
			memcpy(c->c_from, c->c_copy, c->c_nob);
		umpi_copy_free(u->u_sched, c);
	}
}

/*
 * Types that MPI names, and that have no gap: three questions to MPI cost more
 * than a small copy. MPI never frees such a type. A place is filled once, by
 * the thread that has claimed it: its size comes last.
 */
enum { UMPI_PLAIN = 16 };
static struct { MPI_Datatype p_type; int p_size; } umpi_plain[UMPI_PLAIN];
static int umpi_plain_nr;

/* Returns the size of a type that is in the table, or 0. */
static inline int umpi_plain_size(MPI_Datatype type)
{
	int i, size;

	for (i = 0; i < UMPI_PLAIN; i++) {
		size = __atomic_load_n(&umpi_plain[i].p_size, __ATOMIC_ACQUIRE);
		if (size == 0 || umpi_plain[i].p_type == type)
			return size;
	}
	return 0;
}

/* Puts a type without gaps in the table, if that has room. */
static inline void umpi_plain_add(MPI_Datatype type, int size)
{
	int nr, types, addresses, combiner, i;

	if (__atomic_load_n(&umpi_plain_nr, __ATOMIC_RELAXED) >= UMPI_PLAIN ||
	    PMPI_Type_get_envelope(type, &nr, &addresses, &types, &combiner) !=
	    MPI_SUCCESS || combiner != MPI_COMBINER_NAMED)
		return;
	i = __atomic_fetch_add(&umpi_plain_nr, 1, __ATOMIC_RELAXED);
	if (i >= UMPI_PLAIN)
		return;
	umpi_plain[i].p_type = type;
	__atomic_store_n(&umpi_plain[i].p_size, size, __ATOMIC_RELEASE);
}

/* Asks MPI: see umpi_span(). */
static __attribute__((noinline, unused))
bool umpi_span_asked(long n, MPI_Datatype type, MPI_Aint *first, size_t *nob)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Aint step;
	int size;

	if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size == 0 ||
	    PMPI_Type_get_extent(type, &lb, &extent) != MPI_SUCCESS ||
	    PMPI_Type_get_true_extent(type, &true_lb, &true_extent) !=
	    MPI_SUCCESS)
		return false;
	if (true_lb == 0 && true_extent == size && extent == size)
		umpi_plain_add(type, size);
	step   = (n - 1) * extent;
	*first = true_lb + (step < 0 ? step : 0);
	*nob   = (size_t)(true_extent + (step < 0 ? -step : step));
	return true;
}

/* Sets the span of n elements: its first byte, from the buffer, and length. */
static inline bool umpi_span(long n, MPI_Datatype type, MPI_Aint *first,
			     size_t *nob)
{
	int size = umpi_plain_size(type);

	if (n <= 0)
		return false;
	if (size == 0)
		return umpi_span_asked(n, type, first, nob);
	*first = 0;
	*nob   = (size_t)n * size;
	return true;
}

/*
 * Returns the buffer that MPI shall use instead of buf, for n elements. The
 * first of them is `from' elements behind buf.
 */
static __attribute__((noinline, unused))
void *umpi_stay_typed(struct umpi_stay *s, const void *buf, long from,
		      long n, MPI_Datatype type, int way)
{
	const struct ustack *u = ustack_self();
	MPI_Aint first, lb, extent;
	const char *at = buf;
	size_t nob;

	if (buf == MPI_IN_PLACE || u == NULL || (buf != MPI_BOTTOM &&
	    !umpi_is_above(u, __builtin_frame_address(0), buf)) ||
	    !umpi_span(n, type, &first, &nob))
		return (void *)(uintptr_t)buf;
	if (from != 0) {
		(void)PMPI_Type_get_extent(type, &lb, &extent);
		first += from * extent;
	}
	return (char *)umpi_stay(s, at + first, nob, way) - first;
}

#endif /* UMPI_STAY_H */
