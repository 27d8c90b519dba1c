/* SPDX-License-Identifier: MIT */
/* fuzz.h: a fuzzer of traces: the parts that its files share. */

#ifndef FUZZ_H
#define FUZZ_H

/*
 * OVERVIEW
 *
 * A case is a seed and some options, written as one line (fuzz.c). It makes a
 * few lives. A life is a program, a string of bytes derived from the seed, with
 * an interpreter (life.c). Each byte is an operation: block, wait, wake, make a
 * life, join a life, raise a signal, set the rounding mode, longjmp, throw,
 * abort, or call a shape. A shape is a function with a frame of a certain kind
 * (shapes.c, throws.cc). In it the interpretation goes on; then the shape
 * hashes the values of its frame. So a life is a walk through a tree of frames.
 *
 * Each life has one number as its result, a hash of all that it has seen. It
 * depends only on its own bytes and on the results of the lives that it has
 * joined. So it must be the same under each driver:
 *
 *	plain   the oracle: lives are plain calls on the native stack, nothing
 *	        blocks, a new life is run to its end at once (life.c)
 *	bare    over a dispatcher, in an order that the seed gives (bare.c)
 *	rr, ll  over one or two processors (procs.c)
 *
 * The frames of a life are also linked, with a pattern each, and the links are
 * walked after each block. So damage is mostly noticed at once, not only in the
 * result.
 *
 * The oracle is not vacuous: each kind of event is counted, under the drivers
 * that block, and it is a failure if a whole corpus lacks a kind.
 */

#include "usched.h"

#include <setjmp.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NOINLINE	__attribute__((noinline))
#define UNUSED		__attribute__((unused))

/* Kinds of operations that a case may exclude, in the order of the mask. */
#define KINDS(k)							\
	k(yield) k(wait) k(wake) k(spawn) k(join) k(raise) k(round)	\
	k(abort) k(leap) k(throw)					\
	SHAPES(k)

#define SHAPES(k)							\
	k(ints) k(doubles) k(vec16) k(vec32) k(avx) k(many) k(byval)	\
	k(varargs) k(alloca) k(vla) k(array_24) k(array_333)		\
	k(array_1025) k(array_9000) k(array_50000) k(aligned)		\
	k(recurse) k(pointer) k(setjmp) k(try) k(filter) k(guard)

/* Kinds of events. */
#define EVENTS(k)							\
	k(block) k(copy) k(prologue_words) k(post) k(cross_join)		\
	k(nested_signal) k(tick) k(nomem) k(reenter) k(moved)		\
	k(other_round) k(drop) k(first_buffer) k(few_lanes)		\
	k(outer_wake) k(rr) k(ll) k(private_lane)

enum {
#define K(name)	K_##name,
	KINDS(K) KIND_NR,
	KIND_LAST = KIND_NR - 1,
	EVENTS(K) COUNT_NR
#undef K
};

#define SHAPE_FIRST	K_ints
#define SHAPE_NR	(KIND_NR - SHAPE_FIRST)

/* Flags of a case. */
#define FLAGS(k)							\
	k(nomem) k(reenter) k(timer) k(noise) k(pin) k(drop) k(outer) k(private)

enum {
#define K(name)	F_##name##_bit,
	FLAGS(K) FLAG_NR,
#undef K
#define K(name)	F_##name = 1 << F_##name##_bit,
	FLAGS(K)
#undef K
};

enum { S_FIFO, S_LIFO, S_RANDOM, S_RR, S_LL, SCHED_NR };

struct trace {
	uint64_t c_seed;
	int      c_sched;
	int      c_lanes;	/* bare: 0 is native; rr, ll: 0 is all */
	int      c_procs;
	int      c_lives;
	int      c_len;		/* bytes of a program, at most */
	uint64_t c_kinds;	/* allowed kinds */
	uint64_t c_skip;	/* lives that are left out, by number */
	unsigned c_flags;
};

struct life;

/* How lives are run. */
struct driver {
	void (*d_yield)(struct life *l);
	void (*d_wait) (struct life *l);
	void (*d_wake) (struct life *l);	/* another life */
	void (*d_spawn)(struct life *l, struct life *child);
	void (*d_join) (struct life *l, struct life *child);
	void (*d_abort)(struct life *l);
};

/* A part of each frame of a life. */
struct link {
	struct link *k_up;
	struct link *k_self;
	uint64_t     k_pattern;
	int          k_depth;
};

/* A place to which a longjmp may go. */
struct leap {
	struct leap *p_up;
	jmp_buf      p_env;
};

/* State to restore when a longjmp or a throw leaves frames. */
struct mark {
	struct link *m_link;
	struct leap *m_leap;
	int          m_tries;
	int          m_used;
};

#define CHILDREN	4
#define GENERATIONS	3

struct world;

struct life {
	struct ustack        l_stack;	/* for bare: first */
	struct world        *l_world;
	const struct driver *l_driver;
	uint64_t             l_seed;
	int                  l_len;	/* bytes in the program */
	int                  l_depth_max;
	int                  l_generation;
	int                  l_doomed;	/* may be dropped: makes no others */
	int                  l_joinable;
	struct life         *l_child[CHILDREN];

	/* For this run, set by life_reset(). */
	int                  l_at;	/* next byte */
	int                  l_used;	/* bytes in the frames, about */
	int                  l_tries;	/* frames that will catch anything */
	int                  l_made;	/* children that it has made */
	int                  l_joined;	/* children that it has tried to join */
	struct link         *l_link;
	struct leap         *l_leap;
	unsigned             l_fp;	/* control words, as they should be */
	uint64_t             l_sofar;	/* hash of what was seen */
	uint64_t             l_result;
	long                 l_blocks;	/* blocks that it has asked for */
	int                  l_asked;	/* wakes that it has asked for */
	int                  l_got;	/* wakes that were given (atomic) */
	int                  l_ended;

	/* Results of the oracle. */
	uint64_t             l_want;
	long                 l_want_blocks;
	jmp_buf              l_home;	/* where an abort goes there */

	/* For the driver. */
	void                *l_self;	/* its thread: set by itself */
	void                *l_thread;	/* its thread: set by its maker */
	struct life         *l_joiner;
	int                  l_wakes;
	int                  l_proc;
};

/* The lives of a case; and requests for wakes: see the top of life.c. */
struct world {
	const struct trace *w_trace;
	struct life       **w_life;	/* roots */
	int                 w_total;	/* lives, with the children */
	int                 w_alive;	/* atomic */
	unsigned            w_random;	/* of the scheduler; not atomic */
	int                 w_lock;
	struct life       **w_pending;	/* under w_lock */
	int                 w_pending_nr;
	int                 w_pending_max;
};

/* fuzz.c */
extern const char *const fuzz_name[];
void fuzz_count(int kind);
__attribute__((noreturn))
void fuzz_fail(const char *what);
void fuzz_doing(const char *what);
void fuzz_signal(unsigned how);		/* raises a signal */

#define MUST(cond)							\
	do {								\
		if (!(cond))						\
			fuzz_fail(#cond);				\
	} while (0)

/* life.c */
unsigned get(struct life *l);
uint64_t under(struct life *l);
void life_main(void *life);
void life_here(struct life *l);
void life_reset(struct life *l, const struct driver *d);
void life_plain(struct life *l);
void life_free(struct life *l);
struct life *life_new(struct world *w, uint64_t seed, int len);
int pending_wake(struct world *w, unsigned random);
void pending_drop(struct world *w, struct life *l);
void enter(struct life *l, struct link *k);
uint64_t leave(struct life *l, struct link *k, uint64_t hash);
unsigned fp_now(void);
void fp_round(unsigned how);
void fp_back(unsigned fp);

static UNUSED inline void mark(const struct life *l, struct mark *m)
{
	m->m_link  = l->l_link;
	m->m_leap  = l->l_leap;
	m->m_tries = l->l_tries;
	m->m_used  = l->l_used;
}

/* shapes.c, throws.cc */
typedef uint64_t shape_t(struct life *l);
#define K(name)	shape_t shape_##name;
SHAPES(K)
#undef K
int fuzz_throw(struct life *l, unsigned how);	/* 0: no C++ in this build */
extern const int fuzz_cxx;
void back_to(struct life *l, const struct mark *m);

/* bare.c, procs.c */
void bare_run(struct world *w);
void procs_run(struct world *w);

/* Are there private lanes, in this build and here? */
static UNUSED inline int private_lanes(const struct world *w)
{
	return w->w_trace->c_flags & F_private && usched_private_most(1) > 0;
}

/* Returns a value that the compiler cannot know. */
static UNUSED NOINLINE uint64_t mix(uint64_t a, uint64_t b)
{
	__asm__ volatile("" : "+r"(a));
	a = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	return a ^ a >> 29;
}

static UNUSED inline unsigned pick(unsigned *state, unsigned nr)
{
	unsigned x = *state != 0 ? *state : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return (x >> 4) % nr;
}

#ifdef __cplusplus
}
#endif

#endif /* FUZZ_H */
