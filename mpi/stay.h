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
 * A thread with an own lane (usched.h) is never moved, so its buffers stay
 * where they are. The hard mode moves these, too.
 *
 * REJECTED: keeping the lane for a thread that waits. All other threads of the
 * lane then stand still until the message has come. If the message depends on
 * one of them, perhaps by way of another rank, it never comes. And a lane holds
 * a single such thread: 10,000 threads that receive would need 10,000 lanes of
 * a page or more, where a copy needs as many bytes as the message has.
 */

#include "usched.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { UMPI_IN = 1, UMPI_OUT = 2 };	/* MPI reads, writes */

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

/* Returns whether an address is on the stack of the caller, which may move. */
static __attribute__((noinline)) bool umpi_moves(const void *at)
{
	const struct ustack *u = ustack_self();
	const struct usched_lane *l;
	const char *here = (const char *)__builtin_frame_address(0);

	if (u == NULL)
		return false;
	l = &u->u_sched->s_lane[u->u_lane];
	return (const char *)at >= here && (const char *)at < l->l_bottom;
}

/* Returns whether the caller has a lane to itself. */
static inline bool umpi_is_alone(void)
{
#if defined(USCHED_HARD)
	return false;
#else
	const struct ustack *u = ustack_self();

	return u->u_sched->s_lane_nr > 0 && u->u_lane > u->u_sched->s_lane_nr;
#endif
}

/* Returns where the copy of nob bytes is, or at if they need none. */
static __attribute__((noinline, unused))
void *umpi_stay(struct umpi_stay *s, const void *at, size_t nob, int way)
{
	struct umpi_copy *c;

	if (nob == 0 || !umpi_moves(at) || umpi_is_alone())
		return (void *)(uintptr_t)at;
	if (!umpi_moves((const char *)at + nob - 1))
		usched_fail("mpi: a buffer begins on the stack of a thread, "
			    "and ends elsewhere");
	c = malloc(sizeof *c + nob);
	s->s_failed |= c == NULL;
	if (c == NULL)
		return (void *)(uintptr_t)at;
	c->c_next = s->s_first;
	c->c_from = (char *)(uintptr_t)at;
	c->c_nob  = nob;
	c->c_way  = way;
	memcpy(c->c_copy, at, nob);
	s->s_first = c;
	return c->c_copy;
}

/* Ends the copies of a call. */
static __attribute__((noinline, unused)) void umpi_stay_end(struct umpi_stay *s)
{
	struct umpi_copy *c;

	while ((c = s->s_first) != NULL) {
		s->s_first = c->c_next;
		if (c->c_way & UMPI_OUT)
			memcpy(c->c_from, c->c_copy, c->c_nob);
		free(c);
	}
}

/* Sets the span of n elements: its first byte, from the buffer, and length. */
static inline bool umpi_span(long n, MPI_Datatype type, MPI_Aint *first,
			     size_t *nob)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Aint step;
	int size;

	if (n <= 0 || PMPI_Type_size(type, &size) != MPI_SUCCESS || size == 0 ||
	    PMPI_Type_get_extent(type, &lb, &extent) != MPI_SUCCESS ||
	    PMPI_Type_get_true_extent(type, &true_lb, &true_extent) !=
	    MPI_SUCCESS)
		return false;
	step   = (n - 1) * extent;
	*first = true_lb + (step < 0 ? step : 0);
	*nob   = (size_t)(true_extent + (step < 0 ? -step : step));
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
	MPI_Aint first, lb, extent;
	const char *at = buf;
	size_t nob;

	if (buf == MPI_IN_PLACE || (!umpi_moves(buf) && buf != MPI_BOTTOM) ||
	    !umpi_span(n, type, &first, &nob))
		return (void *)(uintptr_t)buf;
	if (from != 0) {
		(void)PMPI_Type_get_extent(type, &lb, &extent);
		first += from * extent;
	}
	return (char *)umpi_stay(s, at + first, nob, way) - first;
}

#endif /* UMPI_STAY_H */
