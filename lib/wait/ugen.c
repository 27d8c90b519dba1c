/* SPDX-License-Identifier: MIT */
/* ugen.c: generators, which yield values from any depth of plain calls. */

/*
 * OVERVIEW
 *
 * A generator is one thread with a dispatcher of its own, which usched_enter()
 * runs from one yield to the next. The consumer calls usched_enter() on its own
 * stack and is not blocked meanwhile, so its stack stays where it is:
 *
 *	main() ---> ugen_next(A) ---> usched_enter(A)
 *	                                     |
 *	lane of A:   f() ---> ugen_next(B) ---> usched_enter(B)
 *	                                               |
 *	lane of B:                f() ---> walk() ---> ugen_yield()
 *
 * Each dispatcher has one thread and nothing that a native thread owns. So the
 * consumer may be any thread, and another thread at each step, as long as the
 * steps come one after another (G1). One dispatcher for several generators
 * could not run B while A, its consumer, is running.
 *
 * ugen_next() and ugen_yield() are inline, and both switch in place, by jumps.
 * So calls and returns of a generator stay paired for the processor. When both
 * were calls, a walk of a tree took three times as long.
 *
 * LANES
 *
 * Each generator has a lane to itself (G2), so its slice never moves, and a
 * yield allocates nothing and cannot fail. Lanes are mapped in batches of
 * BATCH, which are shared by usched_lanes_share() with the dispatchers of the
 * generators, one lane for each. A generator that ends goes back to its batch,
 * with its lane, and the next ugen_make() takes the generator that ended last:
 * its stack is in the cache. A batch without generators in use is unmapped if
 * there are SPARE such batches already.
 *
 *	batches --> batch --> batch --> NULL	those with free generators
 *	              |
 *	              +-- gb_free --> generator --> generator --> NULL
 *
 * Sharing a lane between generators would save the page that each takes, but
 * two native threads may run generators at the same time, and a generator may
 * run another: both in one lane would be wrong, and no choice of lanes when
 * they begin can rule that out.
 *
 * ENDS
 *
 * The thread of a generator ends in four ways: its function returns; it calls
 * ustack_abort(); it yields after a yield has returned an error, which aborts
 * it; or ugen_free() finds that it was never run. In each case no slice is left.
 *
 * WITHOUT LANES
 *
 * In portable builds and under Valgrind, usched_lanes() returns -ENOSYS. Then
 * the slice of a generator lies on the stack of its consumer, and is copied at
 * each yield. It must come back to the same place, while its consumers call
 * from different depths. So the first step goes LEDGE bytes down the stack
 * before it starts the dispatcher, and later steps go down to the same place.
 * The stack grows to the left:
 *
 *	| slice | <--- LEDGE bytes ---> | consumer, first call |
 *	| slice | <-> |                     consumer from deeper |
 *	| slice | <-------- ... --------> | from less deep |
 *	        ^
 *	        ge_ledge
 *
 * INVARIANTS
 *
 * G1. One native thread at a time uses a generator; its steps are ordered.
 * G2. A lane belongs to one generator for as long as its batch exists.
 * G3. Values lie in ge_value, never on a stack: a slice may be copied while the
 *     consumer looks at the value.
 * G4. When a generator is put back, its thread has ended, or was never run.
 *
 * REJECTED
 *
 *   - A lane mapped for each generator alone: 9 us to begin and 8 us to end,
 *     and a page for its descriptor; in batches of 16 it is 4 us, and then 0.
 *   - Private lanes of the dispatcher (usched_lane_deep()): each dispatcher keeps a
 *     list of those that its threads have left, so with a dispatcher for each
 *     generator no other would find them.
 *   - To abandon the frames at once in ugen_free(): C programs could not free
 *     what the generator holds, C++ programs could not run destructors.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "ugen.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

/* Generators of a batch. */
#define BATCH		16
/* Batches without a generator in use that are kept. */
#define SPARE		4
/* Generators that were ended are kept in the hard mode: so many. */
#if !defined(ENDED)		/* a test has none */
#define ENDED		32
#endif
/* The lanes of a batch are trimmed if a slice has had so many bytes. */
#define DEEP		8192
/* Bytes that a trimmed lane keeps. */
#define MARGIN		4096
/* How far the first step goes down, and how much more, for its own frame. */
#define LEDGE		(UGEN_DEEPER + 4096)
#define SLACK		256

struct ugen_batch {
	struct usched       gb_lanes;	/* owns them; never runs */
	struct ugen_batch  *gb_next;	/* if it is in batches */
	struct ugen_batch **gb_at;	/* what points to us there */
	struct ugen        *gb_free;	/* first free generator */
	int                 gb_nr;	/* free generators */
	int                 gb_deep;	/* lanes have more than a page */
	struct ugen         gb_gen[BATCH];
};

/* All protected by lock. */
static struct ulock lock;
static struct ugen_batch *batches;	/* with free generators */
static int spare;			/* how many batches have all free */

static struct ufork at_fork = {
	.f_rank = UFORK_GENERATORS, .f_lock = &lock, .f_nr = 1
};
UFORK(at_fork)

/* The call-backs. */

struct ustack *ugen_none(struct usched *s)
{
	(void)s;
	return NULL;
}

/* Is the slice of a generator ever copied? */
static int moves(const struct usched *s)
{
#if defined(USCHED_HARD)
	(void)s;
	return 1;
#else
	return s->s_lane_nr == 0;
#endif
}

/* Returns any address if the buffer will not be used (G2). */
static void *buffer_get(struct usched *s, int size)
{
	struct ugen *g = (struct ugen *)((char *)s -
					 offsetof(struct ugen, ge_sched));

	if (size > DEEP)
		g->ge_deep = 1;
	return moves(s) ? malloc(size) : (void *)g;
}

static void buffer_put(struct usched *s, void *buf, int size)
{
	(void)size;
	if (moves(s))
		free(buf);
}

/* Batches. */

/* Caller holds lock. */
static void batch_link(struct ugen_batch *b)
{
	b->gb_next = batches;
	b->gb_at   = &batches;
	if (batches != NULL)
		batches->gb_at = &b->gb_next;
	batches = b;
}

/* Caller holds lock. */
static void batch_unlink(struct ugen_batch *b)
{
	*b->gb_at = b->gb_next;
	if (b->gb_next != NULL)
		b->gb_next->gb_at = b->gb_at;
}

static void gen_make(struct ugen_batch *b, struct ugen *g)
{
	g->ge_batch = b;
	g->ge_held  = b->gb_lanes.s_lane_nr != 0 ? UGEN_HELD : UGEN_LOW;
	g->ge_sched.s_next  = ugen_none;
	g->ge_sched.s_alloc = buffer_get;
	g->ge_sched.s_free  = buffer_put;
	g->ge_sched.s_coroutine = 1;
	if (g->ge_held == UGEN_HELD)
		(void)usched_lanes_share(&g->ge_sched, &b->gb_lanes);
	g->ge_next  = b->gb_free;
	b->gb_free = g;
}

static struct ugen_batch *batch_make(void)
{
	struct ugen_batch *b;
	void *space;
	int i, rc;

	if (posix_memalign(&space, UGEN_ALIGN, sizeof *b) != 0)
		return NULL;
	b = memset(space, 0, sizeof *b);
	b->gb_lanes.s_coroutine = 1;	/* no checks: core/law.h, core/env.h */
	rc = usched_lanes(&b->gb_lanes, BATCH, UGEN_STACK);
	if (rc != 0 && rc != -ENOSYS) {
		free(b);
		return NULL;
	}
	for (i = BATCH; i-- > 0; )
		gen_make(b, &b->gb_gen[i]);
	b->gb_nr = BATCH;
	return b;
}

static void batch_free(struct ugen_batch *b)
{
	int i;

	for (i = 0; i < BATCH; i++)
		usched_fini(&b->gb_gen[i].ge_sched);
	usched_fini(&b->gb_lanes);
	free(b);
}

/* Returns a free generator, or NULL. */
static struct ugen *gen_get(void)
{
	struct ugen_batch *b;
	struct ugen *g = NULL;

	ulock_get(&lock);
	if (batches == NULL && (b = batch_make()) != NULL) {
		batch_link(b);
		spare++;
	}
	b = batches;
	if (b != NULL) {
		g = b->gb_free;
		b->gb_free = g->ge_next;
		if (b->gb_nr == BATCH)
			spare--;
		if (--b->gb_nr == 0)
			batch_unlink(b);
	}
	ulock_put(&lock);
	return g;
}

/* Takes back a generator (G4). */
static void gen_put(struct ugen *g)
{
	struct ugen_batch *b = g->ge_batch;

	ulock_get(&lock);
	b->gb_deep |= g->ge_deep;
	g->ge_next  = b->gb_free;
	b->gb_free = g;
	if (b->gb_nr++ == 0)
		batch_link(b);
	if (b->gb_nr < BATCH)
		b = NULL;
	else if (spare < SPARE) {
		spare++;
		if (b->gb_deep)
			usched_trim(&b->gb_lanes, MARGIN);
		b->gb_deep = 0;
		b = NULL;
	} else
		batch_unlink(b);
	ulock_put(&lock);
	if (b != NULL)
		batch_free(b);
}

#if defined(USCHED_HARD)
/* Generators that have been ended, for a while: uobject.h. */
static struct uhard_graves quarantine;

/* Takes back generators that were kept, so that most stay. */
static void quarantine_trim(int most)
{
	struct ugen *g;

	while (__atomic_load_n(&quarantine.g_nr, __ATOMIC_ACQUIRE) > most &&
	       (g = uhard_grave_get(&quarantine, 1)) != NULL)
		gen_put(g);
}

/* Keeps g, and its memory as it is. */
static void gen_free(struct ugen *g)
{
	uhard_ends(&g->ge_object, UHARD_GEN, "ugen_free");
	uhard_grave_put(&quarantine, &g->ge_object, g, 0);
	quarantine_trim(ENDED);
}
#else
static void quarantine_trim(int most)
{
	(void)most;
}

static void gen_free(struct ugen *g)
{
	gen_put(g);
}
#endif

void ugen_trim(void)
{
	struct ugen_batch *b, *next;

	quarantine_trim(0);
	ulock_get(&lock);
	for (b = batches; b != NULL; b = next) {
		next = b->gb_next;
		if (b->gb_nr == BATCH) {
			batch_unlink(b);
			batch_free(b);
			spare--;
		}
	}
	ulock_put(&lock);
}

/* Generators. */

void ugen_copy(struct ugen *g, const void *value)
{
	CONTRACT(g->ge_size != UGEN_CXX, "ugen_yield: a generator of ugen.hpp "
		 "has to use its ucxx::yield");
	if (g->ge_size != 0)
		memcpy(g->ge_value, value, g->ge_size);
}

/* Returns the lane of g in its batch; 0: there are no lanes. */
static int lane_of(const struct ugen *g)
{
	return g->ge_held == UGEN_HELD ? (int)(g - g->ge_batch->gb_gen) + 1 : 0;
}

struct ugen *ugen_make(void (*f)(void *), void *arg, size_t size)
{
	struct ugen *g = gen_get();
	struct usched *s;

	if (g != NULL && lane_of(g) != 0 &&
	    usched_lane_guard(&g->ge_sched, lane_of(g)) != 0) {
		gen_put(g);
		g = NULL;
	}
	if (g == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	g->ge_value = g->ge_room;
	if (size > UGEN_ROOM &&
	    posix_memalign(&g->ge_value, UGEN_ALIGN, size) != 0) {
		gen_put(g);
		errno = ENOMEM;
		return NULL;
	}
	s = &g->ge_sched;
	if (moves(s))
		ustack_init(&g->ge_stack, s, f, arg, NULL, 0);
	else
		ustack_init(&g->ge_stack, s, f, arg, g, MARGIN);
	g->ge_stack.u_lane = (short)lane_of(g);
	UHARD(begins(&g->ge_object));
	g->ge_state = UGEN_NEW;
	g->ge_rc    = g->ge_deep = 0;
	g->ge_size  = size;
	g->ge_ledge = NULL;
	return g;
}

/*
 * Steps a generator without lanes. Each call begins its step at ge_ledge, or a
 * few bytes above, as alloca() rounds up.
 */
static NOINLINE int step_low(struct ugen *g)
{
	char *here = (char *)__builtin_frame_address(0);
	size_t down = SLACK;
	volatile char *space;
	int rc;

	if (g->ge_ledge == NULL)
		g->ge_ledge = here - LEDGE;
	else
		down = 0;
	CONTRACT((uintptr_t)here - (uintptr_t)g->ge_ledge < (size_t)1 << 30,
		 "ugen_next: without lanes, a generator goes on only on the "
		 "native stack where it began, and at most UGEN_DEEPER bytes "
		 "deeper");
	down += here - g->ge_ledge;
	space = __builtin_alloca(down);
	space[0] = 0;
	rc = usched_step(&g->ge_stack);
	space[0] = 1;		/* so that the call is no jump */
	return rc;
}

/* Runs g until it yields, 0, or ends. */
static int step(struct ugen *g)
{
	int low = g->ge_held == UGEN_LOW;

	g->ge_state = UGEN_RUNS;
	if (!(low ? step_low(g) : usched_enter(&g->ge_stack))) {
		CONTRACT(g->ge_state == g->ge_held,
			 "ugen_next: the generator has blocked without "
			 "ugen_yield()");
		return 0;
	}
	g->ge_state = UGEN_ENDED;
	return 1;
}

/* Fails unless g can be stepped, or has ended. */
static void check(const struct ugen *g)
{
	CONTRACT(g->ge_state != UGEN_FREE,
		 "ugen_next, ugen_free: ugen_free() was called before");
	CONTRACT(g->ge_state != UGEN_RUNS,
		 "ugen_next, ugen_free: the generator runs: it has called this, "
		 "or has blocked without ugen_yield()");
}

/* Checks g at the beginning of a call. In the hard mode only. */
#define CALL(g, call)	\
	UHARD(object((g), &(g)->ge_object.o_magic, UHARD_GEN, (call)))

void *ugen_next_slow(struct ugen *g)
{
	if (g == NULL)
		return NULL;
	CALL(g, "ugen_next");
	check(g);
	return g->ge_state != UGEN_ENDED && step(g) == 0 ? g->ge_value : NULL;
}

void ugen_stop(struct ugen *g)
{
	check(g);
	if (g->ge_state == UGEN_NEW) {
		ustack_fini(&g->ge_stack);
		g->ge_state = UGEN_ENDED;
	} else if (g->ge_state != UGEN_ENDED) {
		g->ge_rc = -ECANCELED;
		(void)step(g);		/* once: a second yield aborts */
	}
}

int ugen_free(struct ugen *g)
{
	int rc;

	if (g == NULL)
		return -ENOMEM;
	CALL(g, "ugen_free");
	ugen_stop(g);
	rc = g->ge_rc == -ENOMEM ? -ENOMEM : 0;
	if (g->ge_stack.u_stack != NULL)
		buffer_put(&g->ge_sched, g->ge_stack.u_stack, g->ge_stack.u_len);
	if (g->ge_value != g->ge_room)
		free(g->ge_value);
	g->ge_state = UGEN_FREE;
	gen_free(g);
	return rc;
}
