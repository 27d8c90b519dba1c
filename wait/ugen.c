/* SPDX-License-Identifier: MIT */
/* ugen.c: generators, which yield values from any depth of plain calls. */

/*
 * OVERVIEW
 *
 * A generator is one thread with a dispatcher of its own, which usched_step()
 * runs from one yield to the next. The consumer calls usched_step() on its own
 * stack and is not blocked meanwhile, so its stack stays where it is:
 *
 *	main() ---> ugen_next(A) ---> usched_step(A)
 *	                                     |
 *	lane of A:   f() ---> ugen_next(B) ---> usched_step(B)
 *	                                               |
 *	lane of B:                f() ---> walk() ---> ugen_yield()
 *
 * Each dispatcher has one thread and nothing that a native thread owns. So the
 * consumer may be any thread, and another thread at each step, as long as the
 * steps come one after another (G1). One dispatcher for several generators
 * could not run B while A, its consumer, is running.
 *
 * LANES
 *
 * Each generator has a lane to itself (G2), so its slice never moves, and a
 * yield allocates nothing and cannot fail. Lanes are mapped in batches of
 * BATCH, which are shared by usched_lanes_share() with the dispatchers of the
 * generators, one lane for each. A generator that ends goes back to its batch,
 * with its lane, and the next ugen_begin() takes the generator that ended last:
 * its stack is in the cache. A batch without generators in use is unmapped if
 * there are SPARE such batches already.
 *
 *	batches --> batch --> batch --> NULL	those with free generators
 *	              |
 *	              +-- yb_free --> generator --> generator --> NULL
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
 * it; or ugen_end() finds that it was never run. In each case no slice is left.
 *
 * WITHOUT LANES
 *
 * In portable builds and under Valgrind, usched_lanes() returns -ENOSYS. Then
 * the slice of a generator lies on the stack of its consumer, and is copied at
 * each yield. It must come back to the same place, while its consumers call
 * from different depths. So the first step goes LEDGE bytes down the stack
 * before it starts the dispatcher, and later steps go down to the same place:
 *
 *	 consumer              first step                     next step
 *	| frames | ... LEDGE bytes ... | slice      first call
 *	| frames | frames | .......... | slice      from deeper
 *	| fr | ....................... | slice      from less deep
 *	                               ^
 *	                               y_ledge
 *
 * INVARIANTS
 *
 * G1. One native thread at a time uses a generator; its steps are ordered.
 * G2. A lane belongs to one generator for as long as its batch exists.
 * G3. Values lie in y_value, never on a stack: a slice may be copied while the
 *     consumer looks at the value.
 * G4. When a generator is put back, its thread has ended, or was never run.
 *
 * REJECTED
 *
 *   - A lane mapped for each generator alone: 9 us to begin and 8 us to end,
 *     and a page for its descriptor; in batches of 16 it is 4 us, and then 0.
 *   - Own lanes of the dispatcher (usched_lane_own()): each dispatcher keeps a
 *     list of those that its threads have left, so with a dispatcher for each
 *     generator no other would find them.
 *   - To abandon the frames at once in ugen_end(): C programs could not free
 *     what the generator holds, C++ programs could not run destructors.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "ugen.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

/* Generators of a batch. */
#define BATCH		16
/* Batches without a generator in use that are kept. */
#define SPARE		4
/* The lanes of a batch are trimmed if a slice has had so many bytes. */
#define DEEP		8192
/* Bytes that a trimmed lane keeps. */
#define KEPT		4096
/* How far the first step goes down, and how much more, for its own frame. */
#define LEDGE		(UGEN_DEEPER + 4096)
#define SLACK		256

#define CONTRACT(cond, text)						\
	do {								\
		if (__builtin_expect(!(cond), 0))			\
			usched_fail(text);				\
	} while (0)

struct ugen_batch {
	struct usched       yb_lanes;	/* owns them; never runs */
	struct ugen_batch  *yb_next;	/* if it is in batches */
	struct ugen_batch **yb_at;	/* what points to us there */
	struct ugen        *yb_free;	/* first free generator */
	int                 yb_nr;	/* free generators */
	int                 yb_deep;	/* lanes have more than a page */
	struct ugen         yb_gen[BATCH];
};

/* All protected by lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ugen_batch *batches;	/* with free generators */
static int spare;			/* of these, with all free */

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
					 offsetof(struct ugen, y_sched));

	if (size > DEEP)
		g->y_deep = 1;
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
	b->yb_next = batches;
	b->yb_at   = &batches;
	if (batches != NULL)
		batches->yb_at = &b->yb_next;
	batches = b;
}

/* Caller holds lock. */
static void batch_unlink(struct ugen_batch *b)
{
	*b->yb_at = b->yb_next;
	if (b->yb_next != NULL)
		b->yb_next->yb_at = b->yb_at;
}

static void gen_make(struct ugen_batch *b, struct ugen *g)
{
	g->y_batch = b;
	g->y_held  = b->yb_lanes.s_lane_nr != 0 ? UGEN_HELD : UGEN_LOW;
	g->y_sched.s_next  = ugen_none;
	g->y_sched.s_alloc = buffer_get;
	g->y_sched.s_free  = buffer_put;
	g->y_next  = b->yb_free;
	b->yb_free = g;
}

static struct ugen_batch *batch_make(void)
{
	struct ugen_batch *b;
	void *space;
	int i, rc;

	if (posix_memalign(&space, UGEN_ALIGN, sizeof *b) != 0)
		return NULL;
	b = memset(space, 0, sizeof *b);
	rc = usched_lanes(&b->yb_lanes, BATCH, UGEN_STACK);
	if (rc != 0 && rc != -ENOSYS) {
		free(b);
		return NULL;
	}
	for (i = BATCH; i-- > 0; )
		gen_make(b, &b->yb_gen[i]);
	b->yb_nr = BATCH;
	return b;
}

static void batch_free(struct ugen_batch *b)
{
	usched_fini(&b->yb_lanes);
	free(b);
}

/* Returns a free generator, or NULL. */
static struct ugen *gen_get(void)
{
	struct ugen_batch *b;
	struct ugen *g = NULL;

	pthread_mutex_lock(&lock);
	if (batches == NULL && (b = batch_make()) != NULL) {
		batch_link(b);
		spare++;
	}
	b = batches;
	if (b != NULL) {
		g = b->yb_free;
		b->yb_free = g->y_next;
		if (b->yb_nr == BATCH)
			spare--;
		if (--b->yb_nr == 0)
			batch_unlink(b);
	}
	pthread_mutex_unlock(&lock);
	return g;
}

/* Takes back a generator (G4). */
static void gen_put(struct ugen *g)
{
	struct ugen_batch *b = g->y_batch;

	pthread_mutex_lock(&lock);
	b->yb_deep |= g->y_deep;
	g->y_next  = b->yb_free;
	b->yb_free = g;
	if (b->yb_nr++ == 0)
		batch_link(b);
	if (b->yb_nr < BATCH)
		b = NULL;
	else if (spare < SPARE) {
		spare++;
		if (b->yb_deep)
			usched_trim(&b->yb_lanes, KEPT);
		b->yb_deep = 0;
		b = NULL;
	} else
		batch_unlink(b);
	pthread_mutex_unlock(&lock);
	if (b != NULL)
		batch_free(b);
}

void ugen_trim(void)
{
	struct ugen_batch *b, *next;

	pthread_mutex_lock(&lock);
	for (b = batches; b != NULL; b = next) {
		next = b->yb_next;
		if (b->yb_nr == BATCH) {
			batch_unlink(b);
			batch_free(b);
			spare--;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* Generators. */

void ugen_copy(struct ugen *g, const void *value)
{
	CONTRACT(g->y_size != UGEN_CXX, "ugen_yield: a generator of ugen.hpp "
		 "has to use its ucxx::yield");
	if (g->y_size != 0)
		memcpy(g->y_value, value, g->y_size);
}

struct ugen *ugen_begin(size_t size, void (*f)(void *), void *arg)
{
	struct ugen *g = gen_get();
	struct usched *s;

	if (g == NULL)
		return NULL;
	g->y_value = g->y_room;
	if (size > UGEN_ROOM &&
	    posix_memalign(&g->y_value, UGEN_ALIGN, size) != 0) {
		gen_put(g);
		return NULL;
	}
	s = &g->y_sched;
	/* Forgets the control words of an earlier consumer, too. */
	if (usched_lanes_share(s, &g->y_batch->yb_lanes) != 0)
		usched_fini(s);
	ustack_init(&g->y_stack, s, f, arg, NULL, 0);
	if (g->y_held == UGEN_HELD)
		g->y_stack.u_lane = (short)(g - g->y_batch->yb_gen + 1);
	g->y_state = UGEN_NEW;
	g->y_rc    = g->y_deep = 0;
	g->y_size  = size;
	g->y_ledge = NULL;
	return g;
}

/*
 * Steps a generator without lanes. Each call begins its step at y_ledge, or a
 * few bytes above, as alloca() rounds up.
 */
static __attribute__((noinline)) int step_low(struct ugen *g)
{
	char *here = (char *)__builtin_frame_address(0);
	size_t down = SLACK;
	volatile char *space;
	int rc;

	if (g->y_ledge == NULL)
		g->y_ledge = here - LEDGE;
	else
		down = 0;
	CONTRACT((uintptr_t)here - (uintptr_t)g->y_ledge < (size_t)1 << 30,
		 "ugen_next: without lanes, a generator goes on only on the "
		 "native stack where it began, and at most UGEN_DEEPER bytes "
		 "deeper");
	down += here - g->y_ledge;
	space = __builtin_alloca(down);
	space[0] = 0;
	rc = usched_step(&g->y_stack);
	space[0] = 1;		/* so that the call is no jump */
	return rc;
}

/* Runs g until it yields, 0, or ends. */
static int step(struct ugen *g)
{
	int low = g->y_held == UGEN_LOW;

	g->y_state = UGEN_RUNS;
	if (!(low ? step_low(g) : usched_step(&g->y_stack))) {
		CONTRACT(g->y_state == g->y_held,
			 "ugen_next: the generator has blocked without "
			 "ugen_yield()");
		return 0;
	}
	g->y_state = UGEN_ENDED;
	return 1;
}

/* Fails unless g can be stepped, or has ended. */
static void check(const struct ugen *g)
{
	CONTRACT(g->y_state != UGEN_FREE,
		 "ugen_next, ugen_end: ugen_end() was called before");
	CONTRACT(g->y_state != UGEN_RUNS,
		 "ugen_next, ugen_end: the generator runs: it has called this, "
		 "or has blocked without ugen_yield()");
}

void *ugen_next_slow(struct ugen *g)
{
	if (g == NULL)
		return NULL;
	check(g);
	return g->y_state != UGEN_ENDED && step(g) == 0 ? g->y_value : NULL;
}

void ugen_stop(struct ugen *g)
{
	check(g);
	if (g->y_state == UGEN_NEW) {
		ustack_fini(&g->y_stack);
		g->y_state = UGEN_ENDED;
	} else if (g->y_state != UGEN_ENDED) {
		g->y_rc = -ECANCELED;
		(void)step(g);		/* once: a second yield aborts */
	}
}

int ugen_end(struct ugen *g)
{
	int rc;

	if (g == NULL)
		return -ENOMEM;
	ugen_stop(g);
	rc = g->y_rc == -ENOMEM ? -ENOMEM : 0;
	if (g->y_stack.u_stack != NULL)
		buffer_put(&g->y_sched, g->y_stack.u_stack, g->y_stack.u_len);
	if (g->y_value != g->y_room)
		free(g->y_value);
	g->y_state = UGEN_FREE;
	gen_put(g);
	return rc;
}
