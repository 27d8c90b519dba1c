/* SPDX-License-Identifier: MIT */
/* life.c: the programs of the fuzzer, and the oracle. */

/*
 * A life is built with -fexceptions, as exceptions pass through its frames.
 * Where a longjmp or a throw lands (shapes.c, throws.cc), back_to() makes the
 * life forget the frames that are gone.
 *
 * A life that waits must be woken. So before a life waits, it enters itself in
 * the list of the pending, once for each wait. A life that comes across an
 * operation "wake" takes an entry, in any order; so does the driver, if no life
 * does. So all waits end, and there are wakes before the wait, too. Some lives
 * ask for more wakes than they wait for. But no life ends before all wakes that
 * it has asked for were given, since it must not be woken after its end.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fuzz.h"
#include "uhard.h"

#include <fenv.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define USED_MAX	(110 << 10)	/* of a lane of 256 KiB */

static uint64_t op(struct life *l);

/* The next byte of the program; after its end, zeroes, which do nothing. */
unsigned get(struct life *l)
{
	if (l->l_at >= l->l_len)
		return 0;
	return mix(l->l_seed, l->l_at++) >> 8 & 255;
}

static int allowed(const struct life *l, int kind)
{
	return l->l_world->w_trace->c_kinds >> kind & 1;
}

static const struct driver plain;

static void happened(const struct life *l, int kind)
{
	if (l->l_driver != &plain)
		fuzz_count(kind);
}

static void saw(struct life *l, uint64_t what)
{
	l->l_sofar = mix(l->l_sofar, what);
}

/* Frames. */

static uint64_t pattern(const struct life *l, int depth)
{
	return mix(l->l_seed, 1000000 + depth);
}

static int depth(const struct life *l)
{
	return l->l_link != NULL ? l->l_link->k_depth + 1 : 0;
}

void enter(struct life *l, struct link *k)
{
	k->k_up      = l->l_link;
	k->k_self    = k;
	k->k_depth   = depth(l);
	k->k_pattern = pattern(l, k->k_depth);
	l->l_link    = k;
}

uint64_t leave(struct life *l, struct link *k, uint64_t hash)
{
	MUST(l->l_link == k);
	MUST(k->k_self == k && k->k_pattern == pattern(l, k->k_depth));
	l->l_link = k->k_up;
	return mix(hash, k->k_depth);
}

void back_to(struct life *l, const struct mark *m)
{
	l->l_link  = m->m_link;
	l->l_leap  = m->m_leap;
	l->l_tries = m->m_tries;
	l->l_used  = m->m_used;
}

/* Checks that each frame has its place and its contents (usched I1, I3). */
static void walk(const struct life *l)
{
	const struct link *k = l->l_link;
	int n = depth(l) - 1;

	for (; k != NULL; k = k->k_up, n--) {
		MUST(k->k_self == k);
		MUST(k->k_depth == n);
		MUST(k->k_pattern == pattern(l, n));
	}
	MUST(n == -1);
}

/* Floating-point control. */

#if defined(__x86_64__)

unsigned fp_now(void)
{
	unsigned mxcsr;
	unsigned short x87;

	__asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(x87));
	return (mxcsr & 0xffc0u) << 16 | x87;
}

void fp_back(unsigned fp)
{
	unsigned mxcsr = fp >> 16;
	unsigned short x87 = (unsigned short)fp;

	__asm__ volatile("ldmxcsr %0\n fldcw %1" : : "m"(mxcsr), "m"(x87));
}

/*
 * Sets rounding of both units, the two flushes, and the precision of the x87.
 */
void fp_round(unsigned how)
{
	unsigned round = how & 3, fp = fp_now();

	fp &= ~(0xe040u << 16 | 0xf00u);
	fp |= round << 29 | round << 10;
	fp |= (how >> 2 & 1) << 31 | (how >> 3 & 1) << 22;
	fp |= (how >> 4 & 1 ? 2u : 3u) << 8;
	fp_back(fp);
}

#elif defined(__aarch64__) || defined(__riscv)

static const int rounds[4] = {
	FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO
};

unsigned fp_now(void)
{
	return (unsigned)fegetround();
}

void fp_back(unsigned fp)
{
	fesetround((int)fp);
}

void fp_round(unsigned how)
{
	fesetround(rounds[how & 3]);
}

#else	/* usched.c does not keep them here */

unsigned fp_now(void)
{
	return 0;
}

void fp_back(unsigned fp)
{
	(void)fp;
}

void fp_round(unsigned how)
{
	(void)how;
}

#endif

/* Shows the effect of rounding, by a division. */
static NOINLINE uint64_t quotient(unsigned by)
{
	volatile double a = 1, b = 3 + by, c;
	uint64_t bits;

	c = -a / b;
	bits = 0;
	memcpy(&bits, (const void *)&c, sizeof bits);
	return bits;
}

/* The list of the pending. */

static void lock(struct world *w)
{
	while (__atomic_exchange_n(&w->w_lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void unlock(struct world *w)
{
	__atomic_store_n(&w->w_lock, 0, __ATOMIC_RELEASE);
}

/* Asks for a wake of l. */
static void pending_put(struct life *l)
{
	struct world *w = l->l_world;

	l->l_asked++;
	lock(w);
	MUST(w->w_pending_nr < w->w_pending_max);
	w->w_pending[w->w_pending_nr++] = l;
	unlock(w);
}

static struct life *pending_take(struct world *w, unsigned random)
{
	struct life *l = NULL;
	int i;

	lock(w);
	if (w->w_pending_nr > 0) {
		i = (int)(random % (unsigned)w->w_pending_nr);
		l = w->w_pending[i];
		w->w_pending[i] = w->w_pending[--w->w_pending_nr];
	}
	unlock(w);
	return l;
}

/* Wakes a pending life, if there is any. */
int pending_wake(struct world *w, unsigned random)
{
	struct life *l = pending_take(w, random);

	if (l == NULL)
		return 0;
	l->l_driver->d_wake(l);
	__atomic_add_fetch(&l->l_got, 1, __ATOMIC_SEQ_CST);
	return 1;
}

/* Returns how many wakes are still to come. */
static int due(const struct life *l)
{
	return l->l_asked - __atomic_load_n(&l->l_got, __ATOMIC_SEQ_CST);
}

void pending_drop(struct world *w, struct life *l)
{
	int i = 0;

	lock(w);
	while (i < w->w_pending_nr) {
		if (w->w_pending[i] == l)
			w->w_pending[i] = w->w_pending[--w->w_pending_nr];
		else
			i++;
	}
	unlock(w);
}

/* Operations. Each takes the same number of bytes, under any driver. */

/* Called after each block. */
void life_here(struct life *l)
{
	walk(l);
	MUST(fp_now() == l->l_fp);
}

static uint64_t op_yield(struct life *l)
{
	l->l_blocks++;
	l->l_driver->d_yield(l);
	life_here(l);
	return 1;
}

#define WAITS	3	/* in a row, at most */

static uint64_t op_wait(struct life *l)
{
	int nr = 1 + (int)(get(l) % WAITS);
	unsigned early = get(l) % 4;
	int i;

	if (l->l_driver != &plain) {
		for (i = 0; i < nr; i++)
			pending_put(l);
		if (early == 1 && due(l) <= WAITS)
			pending_put(l);
	}
	if (early == 0)
		op_yield(l);
	l->l_blocks += nr;
	for (i = 0; i < nr; i++) {
		l->l_driver->d_wait(l);
		life_here(l);
	}
	return nr;
}

static uint64_t op_wake(struct life *l)
{
	unsigned nr = 1 + get(l) % 3;

	while (nr-- > 0 && l->l_driver != &plain)
		(void)pending_wake(l->l_world, (unsigned)l->l_at);
	return 2;
}

static uint64_t op_spawn(struct life *l)
{
	int joinable = get(l) % 4 != 0;
	struct life *child;

	if (l->l_made == CHILDREN || l->l_generation == GENERATIONS ||
	    l->l_doomed)
		return 3;
	child = l->l_child[l->l_made];
	if (child == NULL) {
		child = life_new(l->l_world, mix(l->l_seed, 77 + l->l_made),
				 l->l_len / 2);
		child->l_generation = l->l_generation + 1;
		l->l_child[l->l_made] = child;
	}
	l->l_made++;
	child->l_joinable = joinable;
	l->l_driver->d_spawn(l, child);
	return child->l_seed;
}

/* Joins a child. Wakes that come meanwhile are kept. */
static void join(struct life *l, struct life *child, int kept)
{
	int i;

	for (i = 0; i < kept && l->l_driver != &plain; i++)
		pending_put(l);
	l->l_blocks += 1 + kept;
	l->l_driver->d_join(l, child);
	for (i = 0; i < kept; i++)
		l->l_driver->d_wait(l);
	life_here(l);
}

/* Joins the next child that is joinable, and takes over its result. */
static uint64_t op_join(struct life *l)
{
	struct life *child;

	while (l->l_joined < l->l_made) {
		child = l->l_child[l->l_joined++];
		if (!child->l_joinable)
			continue;
		join(l, child, (int)(get(l) % WAITS));
		return child->l_result;
	}
	return 4;
}

static uint64_t op_raise(struct life *l)
{
	fuzz_signal(get(l));
	walk(l);
	return 5;
}

static uint64_t op_round(struct life *l)
{
	fp_round(get(l));
	l->l_fp = fp_now();
	return mix(quotient(get(l)), l->l_fp);
}

/* Ends the life. Its result is the hash so far. */
static void end(struct life *l)
{
	int i;

	for (i = 1; due(l) > 0; i++) {
		if (i % 16 == 0)
			sched_yield();	/* to a native waker */
		l->l_driver->d_yield(l);
		life_here(l);
	}
	l->l_result = l->l_sofar;
	l->l_ended++;
	__atomic_sub_fetch(&l->l_world->w_alive, 1, __ATOMIC_SEQ_CST);
}

/* Seldom aborts, since that ends a program. */
static uint64_t op_abort(struct life *l)
{
	if (get(l) % 4 != 0)
		return 6;
	happened(l, K_abort);
	end(l);
	l->l_driver->d_abort(l);
	return 0;
}

static uint64_t op_leap(struct life *l)
{
	unsigned far = get(l) % 4;
	struct leap *p = l->l_leap;

	if (p == NULL)
		return 7;
	while (far-- > 0 && p->p_up != NULL)
		p = p->p_up;
	saw(l, 7);
	happened(l, K_leap);
	longjmp(p->p_env, 1);
}

static uint64_t op_throw(struct life *l)
{
	unsigned how = get(l);

	if (l->l_tries == 0 || !fuzz_cxx)
		return 8;
	saw(l, how);
	happened(l, K_throw);
	return (uint64_t)fuzz_throw(l, how);
}

static uint64_t op_shape(struct life *l)
{
	static const struct {
		shape_t *s_f;
		int      s_used;
	} shapes[] = {
#define K(name)	{ shape_##name, K_##name == K_array_50000 ? 50000 :	\
		  K_##name == K_array_9000 ? 9000 : 2500 },
		SHAPES(K)
#undef K
	};
	int i = (int)(get(l) % SHAPE_NR);
	int used = l->l_used;
	uint64_t hash;

	if (!allowed(l, SHAPE_FIRST + i) || depth(l) >= l->l_depth_max ||
	    l->l_used + shapes[i].s_used > USED_MAX)
		return 9;
	happened(l, SHAPE_FIRST + i);
	l->l_used += shapes[i].s_used;
	hash = shapes[i].s_f(l);
	l->l_used = used;
	return hash;
}

static uint64_t op_other(struct life *l)
{
	static uint64_t (*const ops[])(struct life *) = {
		op_raise, op_round, op_leap, op_throw, op_abort
	};
	static const int kinds[] = {
		K_raise, K_round, K_leap, K_throw, K_abort
	};
	static const char often[] = {
		0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4
	};
	int i = often[get(l) % sizeof often];

	if (!allowed(l, kinds[i]))
		return 10;
	if (i < 2)
		happened(l, kinds[i]);
	return ops[i](l);
}

static uint64_t op(struct life *l)
{
	static uint64_t (*const ops[])(struct life *) = {
		op_yield, op_wait, op_wake, op_spawn, op_join
	};
	static const signed char often[] = {
		0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 5, 5, 6, 6,
		6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6
	};
	int i = often[get(l) % sizeof often];

	if (l->l_driver != &plain)
		UHARD(yield());
	if (i == 6)
		return op_shape(l);
	if (i == 5)
		return op_other(l);
	if (!allowed(l, i))
		return 11;
	happened(l, i);
	return ops[i](l);
}

/* The part of a shape between the two looks at its frame. */
uint64_t under(struct life *l)
{
	unsigned nr = get(l) % 4;
	uint64_t hash = nr;

	while (nr-- > 0) {
		hash = mix(hash, op(l));
		saw(l, hash);
	}
	return hash;
}

/* First frames: see "The bottom of a slice" in core/buffer.h. */

static NOINLINE void body(struct life *l)
{
	l->l_fp = fp_now();
	while (l->l_at < l->l_len)
		saw(l, op(l));
	while (l->l_joined < l->l_made)
		saw(l, op_join(l));
	MUST(l->l_link == NULL);
	end(l);
}

/* Saves few registers. */
static NOINLINE void first_few(struct life *l)
{
	body(l);
	__asm__ volatile("" : : "r"(l) : "memory");
}

/* Saves all registers, and uses them. */
static NOINLINE void first_all(struct life *l)
{
	uint64_t a = mix(l->l_seed, 1), b = mix(a, 2), c = mix(b, 3);
	uint64_t d = mix(c, 4), e = mix(d, 5), f = mix(e, 6), g = mix(f, 7);

	saw(l, a + b + c + d + e + f + g);
	body(l);
	MUST(b == mix(a, 2) && c == mix(b, 3) && d == mix(c, 4));
	MUST(e == mix(d, 5) && f == mix(e, 6) && g == mix(f, 7));
}

/* Has a bottom that is zero at first, and changes now and then. */
static NOINLINE void first_changes(struct life *l)
{
	volatile uint64_t words[16] = { 0 };
	struct life *volatile self = l;
	uint64_t old;
	unsigned i;

	l->l_fp = fp_now();
	while (self->l_at < self->l_len) {
		i = get(self) % 32;
		if (i < 16)
			words[i] = mix(self->l_seed, self->l_at);
		else if (i == 31)
			for (i = 0; i < 16; i++)
				words[i] = 0;
		old = words[15] + words[14];
		saw(self, op(self));
		MUST(old == words[15] + words[14]);
		for (i = 0; i < 16; i++)
			saw(self, words[i]);
	}
	body(self);
}

/* Has nearly nothing below the return address. */
static NOINLINE void first_yields(struct life *l)
{
	l->l_fp = fp_now();
	op_yield(l);
	body(l);
}

static void first(struct life *l)
{
	switch (mix(l->l_seed, 99) % 4) {
	case 0:		first_few(l);		break;
	case 1:		first_all(l);		break;
	case 2:		first_changes(l);	break;
	default:	first_yields(l);	break;
	}
}

/*
 * The function of a thread. usched_launch() calls a first frame directly, if it
 * can.
 */
void life_main(void *life)
{
	first((struct life *)life);
}

/* Lives. */

struct life *life_new(struct world *w, uint64_t seed, int len)
{
	struct life *l = (struct life *)calloc(1, sizeof *l);

	MUST(l != NULL);
	l->l_world     = w;
	l->l_seed      = seed;
	l->l_len       = len;
	l->l_depth_max = 1 + (int)(mix(seed, 5) % 28);
	w->w_total++;
	return l;
}

void life_free(struct life *l)
{
	int i;

	for (i = 0; i < CHILDREN && l->l_child[i] != NULL; i++)
		life_free(l->l_child[i]);
	free(l);
}

/* Prepares a run, of children, too. */
void life_reset(struct life *l, const struct driver *d)
{
	int i;

	l->l_driver = d;
	l->l_at = l->l_used = l->l_tries = l->l_made = l->l_joined = 0;
	l->l_link   = NULL;
	l->l_leap   = NULL;
	l->l_sofar  = l->l_result = 0;
	l->l_blocks = 0;
	l->l_asked  = l->l_got = 0;
	l->l_ended  = 0;
	for (i = 0; i < CHILDREN && l->l_child[i] != NULL; i++)
		life_reset(l->l_child[i], d);
}

/* The oracle. */

static void plain_nothing(struct life *l)
{
	(void)l;
}

static void plain_spawn(struct life *l, struct life *child)
{
	(void)l;
	life_plain(child);
}

static void plain_join(struct life *l, struct life *child)
{
	(void)l;
	MUST(child->l_ended == 1);
}

static void plain_abort(struct life *l)
{
	longjmp(l->l_home, 1);
}

static const struct driver plain = {
	.d_yield = plain_nothing,
	.d_wait  = plain_nothing,
	.d_wake  = plain_nothing,
	.d_spawn = plain_spawn,
	.d_join  = plain_join,
	.d_abort = plain_abort
};

/*
 * Runs the plain life. All that an abort leaves, with its children, is
 * forgotten.
 */
void life_plain(struct life *l)
{
	unsigned fp = fp_now();

	fp_round(0);
	life_reset(l, &plain);
	if (setjmp(l->l_home) == 0)
		first(l);
	fp_back(fp);
	l->l_want        = l->l_result;
	l->l_want_blocks = l->l_blocks;
}
