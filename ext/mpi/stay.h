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
 * An operation that goes on after its call, such as MPI_Irecv(), cannot use a
 * copy, since nothing of the caller ends it. Its buffer ends the program with a
 * message. The same functions do both: s_refuse of struct umpi_stay chooses.
 *
 * What is copied is the span of the data, from its lowest byte to its highest.
 * A span of a derived type has gaps, which the copy brings back as they were:
 * the thread waits meanwhile, and nothing else may write to its stack.
 *
 * Where the data is, the type says, not the address alone: MPI_BOTTOM with a
 * type that has addresses, or a lower bound, may lead to the stack. So the span
 * is compared with the stack. A type with pieces on both sides of the stack has
 * a span that contains it. Then umpi_touches() looks at the pieces.
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

#include "errors.h"
#include "usched.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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
	const char       *s_refuse;	/* the call, if nothing may be copied */
	bool              s_failed;	/* no memory */
};

/* Returns whether an address is above a frame, on the stack of the caller u. */
static inline bool umpi_is_above(const struct ustack *u, const char *frame,
				 const void *at)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];

	return (const char *)at >= frame && (const char *)at < l->l_bottom;
}

/* Returns whether the stack of the caller may move. */
static inline bool umpi_moves(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL && !ustack_is_private(u);
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

static __attribute__((noinline, unused)) void umpi_refuse(const char *call)
{
	char text[200];

	snprintf(text, sizeof text, "%s: the buffer is on the stack of a "
		 "thread, which moves while the thread waits: take it from "
		 "the heap, or give the thread a private stack (rr_private())",
		 call);
	usched_fail(text);
}

/* Returns where nob bytes on the stack of u shall be: at, or their copy. */
static inline void *umpi_place(struct umpi_stay *s, const struct ustack *u,
			       const char *at, size_t nob, int way)
{
	if (s->s_refuse != NULL)
		umpi_refuse(s->s_refuse);
	return umpi_copy(s, u, at, nob, way);
}

/* How bytes lie to the stack above a frame of the caller. */
enum umpi_where { UMPI_OUTSIDE, UMPI_PARTLY, UMPI_INSIDE };

static inline enum umpi_where umpi_where(const struct ustack *u,
					 const char *frame, const char *at,
					 size_t nob)
{
	bool first = umpi_is_above(u, frame, at);
	bool last  = umpi_is_above(u, frame, at + nob - 1);

	if (first && last)
		return UMPI_INSIDE;
	return first || last || (at < frame && at + nob > frame) ?
		UMPI_PARTLY : UMPI_OUTSIDE;
}

static __attribute__((noinline, unused)) void umpi_fail_partly(void)
{
	usched_fail("mpi: a buffer lies partly on the stack of a thread, and "
		    "partly elsewhere");
}

/* Returns where the copy of nob bytes is, or at if they need none. */
static __attribute__((noinline, unused))
void *umpi_stay(struct umpi_stay *s, const void *at, size_t nob, int way)
{
	const struct ustack *u = ustack_self();
	enum umpi_where where;

	if (nob == 0 || u == NULL || ustack_is_private(u))
		return (void *)(uintptr_t)at;
	where = umpi_where(u, __builtin_frame_address(0), at, nob);
	if (where == UMPI_OUTSIDE)
		return (void *)(uintptr_t)at;
	if (where == UMPI_PARTLY)
		umpi_fail_partly();
	return umpi_place(s, u, at, nob, way);
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

/*
 * Asks MPI: see umpi_span(). False for a type that is none, too: the call that
 * gets it then has the error.
 */
static __attribute__((noinline, unused))
bool umpi_span_asked(long n, MPI_Datatype type, MPI_Aint *first, size_t *nob)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Aint step;
	bool good;
	int size;

	umpi_silence(true);
	good = PMPI_Type_size(type, &size) == MPI_SUCCESS && size != 0 &&
		PMPI_Type_get_extent(type, &lb, &extent) == MPI_SUCCESS &&
		PMPI_Type_get_true_extent(type, &true_lb, &true_extent) ==
		MPI_SUCCESS;
	umpi_silence(false);
	if (!good)
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

/* The parts of a type, as it was made. */
struct umpi_parts {
	int           p_ints, p_addresses, p_types, p_combiner;
	int          *p_int;
	MPI_Aint     *p_address;
	MPI_Datatype *p_type;
};

/* False: no memory, or MPI does not tell. */
static inline bool umpi_parts_get(struct umpi_parts *p, MPI_Datatype type)
{
#if MPI_VERSION >= 4
	MPI_Count ints, addresses, types, large;

	if (PMPI_Type_get_envelope_c(type, &ints, &addresses, &large, &types,
				     &p->p_combiner) != MPI_SUCCESS ||
	    large != 0)
		return false;
	p->p_ints = (int)ints;
	p->p_addresses = (int)addresses;
	p->p_types = (int)types;
#else
	if (PMPI_Type_get_envelope(type, &p->p_ints, &p->p_addresses,
				   &p->p_types, &p->p_combiner) != MPI_SUCCESS)
		return false;
#endif
	if (p->p_types == 0)
		return false;
	p->p_int     = malloc((p->p_ints + 1) * sizeof *p->p_int);
	p->p_address = malloc((p->p_addresses + 1) * sizeof *p->p_address);
	p->p_type    = malloc(p->p_types * sizeof *p->p_type);
	if (p->p_int != NULL && p->p_address != NULL && p->p_type != NULL &&
	    PMPI_Type_get_contents(type, p->p_ints, p->p_addresses, p->p_types,
				   p->p_int, p->p_address, p->p_type) ==
	    MPI_SUCCESS)
		return true;
	p->p_types = 0;
	return false;
}

static inline void umpi_parts_free(struct umpi_parts *p)
{
	int i, ints, addresses, types, combiner;

	for (i = 0; i < p->p_types; i++)
		if (PMPI_Type_get_envelope(p->p_type[i], &ints, &addresses,
					   &types, &combiner) == MPI_SUCCESS &&
		    combiner != MPI_COMBINER_NAMED)
			(void)PMPI_Type_free(&p->p_type[i]);
	free(p->p_int);
	free(p->p_address);
	free(p->p_type);
}

static bool umpi_touches(const struct ustack *u, const char *frame,
			 const char *at, long n, MPI_Datatype type);

/* Does so for the parts of an element of a type that may have addresses. */
static inline bool umpi_touches_part(const struct ustack *u, const char *frame,
				     const char *at,
				     const struct umpi_parts *p)
{
	int i;

	switch (p->p_combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		return umpi_touches(u, frame, at, 1, p->p_type[0]);
	case MPI_COMBINER_CONTIGUOUS:
		return umpi_touches(u, frame, at, p->p_int[0], p->p_type[0]);
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_HINDEXED_BLOCK:
	case MPI_COMBINER_STRUCT:
		for (i = 0; i < p->p_addresses; i++) {
			int block = p->p_combiner == MPI_COMBINER_HINDEXED_BLOCK;
			int of = p->p_combiner == MPI_COMBINER_STRUCT ? i : 0;

			if (umpi_touches(u, frame, at + p->p_address[i],
					 p->p_int[block ? 1 : 1 + i],
					 p->p_type[of]))
				return true;
		}
		return false;
	default:
		return true;
	}
}

/*
 * Returns whether n elements at an address have a byte on the stack of u above
 * frame. Types without addresses of their own do if their span does.
 */
static __attribute__((noinline, unused))
bool umpi_touches(const struct ustack *u, const char *frame, const char *at,
		  long n, MPI_Datatype type)
{
	struct umpi_parts p = { .p_types = 0 };
	MPI_Aint first, lb, extent;
	enum umpi_where where;
	bool touches = true;
	size_t nob;
	long i;

	if (!umpi_span(n, type, &first, &nob))
		return false;
	where = umpi_where(u, frame, at + first, nob);
	if (where != UMPI_PARTLY)
		return where == UMPI_INSIDE;
	if (umpi_parts_get(&p, type) &&
	    PMPI_Type_get_extent(type, &lb, &extent) == MPI_SUCCESS)
		for (i = 0, touches = false; i < n && !touches; i++)
			touches = umpi_touches_part(u, frame, at + i * extent,
						    &p);
	umpi_parts_free(&p);
	return touches;
}

/* Returns the buffer that MPI shall use instead of buf, for n elements. */
static __attribute__((noinline, unused))
void *umpi_stay_typed(struct umpi_stay *s, const void *buf, long n,
		      MPI_Datatype type, int way)
{
	const struct ustack *u = ustack_self();
	const char *frame = __builtin_frame_address(0);
	enum umpi_where where;
	MPI_Aint first;
	size_t nob;

	if (buf == MPI_IN_PLACE || u == NULL || ustack_is_private(u) ||
	    type == MPI_DATATYPE_NULL || !umpi_span(n, type, &first, &nob))
		return (void *)(uintptr_t)buf;
	where = umpi_where(u, frame, (const char *)buf + first, nob);
	if (where == UMPI_INSIDE)
		return (char *)umpi_place(s, u, (const char *)buf + first, nob,
					  way) - first;
	if (where == UMPI_PARTLY && umpi_touches(u, frame, buf, n, type))
		umpi_fail_partly();
	return (void *)(uintptr_t)buf;
}

/*
 * Parts of a buffer: count i of them at a place, of a type each (p_types) or of
 * one type. Numbers are int, or, in large calls, MPI_Count and MPI_Aint.
 */
struct umpi_pieces {
	const void         *p_counts;
	size_t              p_count_size;
	const void         *p_places;	/* in extents; bytes, if p_types */
	size_t              p_place_size;
	const MPI_Datatype *p_types;	/* or NULL */
	MPI_Datatype        p_type;
	int                 p_nr;
};

static inline long umpi_number(const void *list, size_t size, int i)
{
	return size == sizeof(int32_t) ? ((const int32_t *)list)[i] :
		(long)((const int64_t *)list)[i];
}

/*
 * Returns the buffer that MPI shall use instead of buf, for parts of it. Their
 * common span is copied. If that is not on the stack as a whole, no part may be.
 */
static __attribute__((noinline, unused))
void *umpi_stay_pieces(struct umpi_stay *s, const void *buf,
		       const struct umpi_pieces *p, int way)
{
	const struct ustack *u = ustack_self();
	const char *frame = __builtin_frame_address(0);
	MPI_Aint low = 0, high = 0, first, lb, extent;
	bool touches = false, any = false;
	size_t nob;
	int i;

	if (buf == MPI_IN_PLACE || u == NULL || ustack_is_private(u))
		return (void *)(uintptr_t)buf;
	for (i = 0; i < p->p_nr; i++) {
		MPI_Datatype type = p->p_types != NULL ? p->p_types[i] :
			p->p_type;
		long n = umpi_number(p->p_counts, p->p_count_size, i);
		MPI_Aint at = umpi_number(p->p_places, p->p_place_size, i);

		if (n <= 0 || !umpi_span(n, type, &first, &nob))
			continue;
		if (p->p_types == NULL && PMPI_Type_get_extent(type, &lb,
						&extent) == MPI_SUCCESS)
			at *= extent;
		touches |= umpi_touches(u, frame, (const char *)buf + at, n,
					type);
		if (!any || at + first < low)
			low = at + first;
		if (!any || at + first + (MPI_Aint)nob > high)
			high = at + first + (MPI_Aint)nob;
		any = true;
	}
	if (!touches)
		return (void *)(uintptr_t)buf;
	if (umpi_where(u, frame, (const char *)buf + low, high - low) !=
	    UMPI_INSIDE)
		umpi_fail_partly();
	return (char *)umpi_place(s, u, (const char *)buf + low, high - low,
				  way) - low;
}

#endif /* UMPI_STAY_H */
