/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * bare: the bottom of a slice may or may not hold what usched_launch()
 * leaves, and may change between blocks. A buffer may be shorter than the
 * slice, and its length need not be a multiple of a word. Nothing is lost
 * (usched I7), also if s_alloc() fails.
 */
#include "tiny.h"

#define NR	24
#define WORDS	14			/* more than there are prologue words */

static struct tiny t;
static struct tiny_thread tt[NR];
static int ended;

/*
 * A first function whose frame has nr words that are zero at the first block,
 * not zero at the second, zero at the third, and so on. They are volatile, so
 * they lie on the stack next to the bottom, with or without saved registers.
 */
#define FIRST(name, nr)							\
static void name(void *arg)						\
{									\
	volatile uintptr_t word[nr];					\
	uintptr_t self = (uintptr_t)arg;				\
	int i, trip;							\
									\
	for (trip = 0; trip < 7; trip++) {				\
		for (i = 0; i < (nr); i++)				\
			word[i] = trip % 2 ? self + trip * 64 + i : 0;	\
		tiny_yield();						\
		for (i = 0; i < (nr); i++)				\
			CHECK(word[i] ==				\
			      (trip % 2 ? self + trip * 64 + i : 0));	\
	}								\
	ended++;							\
}

FIRST(first_1, 1)
FIRST(first_2, 2)
FIRST(first_3, 3)
FIRST(first_5, 5)
FIRST(first_6, 6)
FIRST(first_7, 7)
FIRST(first_8, 8)
FIRST(first_13, 13)
FIRST(first_14, 14)
FIRST(first_40, 40)

/* Only the words in the bits of the argument change, some in each trip. */
static void some(void *arg)
{
	volatile uintptr_t word[WORDS] = { 0 };
	unsigned bits, seed = check_seed + (unsigned)(uintptr_t)arg;
	int i, trip;

	for (trip = 0; trip < 40; trip++) {
		bits = check_random(&seed) & check_random(&seed);
		for (i = 0; i < WORDS; i++)
			word[i] = bits >> i & 1 ? bits + i : 0;
		tiny_yield();
		for (i = 0; i < WORDS; i++)
			CHECK_IS(word[i], bits >> i & 1 ? bits + i : 0);
	}
	ended++;
}

/* Has no more on the stack than a call needs. */
static void least(void *arg)
{
	tiny_yield();
	tiny_yield();
	ended++;
}

static void waits(void *arg)
{
	(void)ustack_block();
	ended++;
}

/* Has registers that are zero at the first block and not at the second. */
static void registers(void *arg)
{
	unsigned a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
	unsigned p = (unsigned)(uintptr_t)arg;
	int trip;

	for (trip = 0; trip < 8; trip++) {
		tiny_yield();
		if (trip % 2) {
			CHECK(a == check_hash(p, 1) && b == check_hash(p, 2));
			CHECK(c == check_hash(p, 3) && d == check_hash(p, 4));
			CHECK(e == check_hash(p, 5) && f == check_hash(p, 6));
			a = b = c = d = e = f = 0;
		} else {
			CHECK_IS(a | b | c | d | e | f, 0);
			a = check_hash(p, 1), b = check_hash(p, 2);
			c = check_hash(p, 3), d = check_hash(p, 4);
			e = check_hash(p, 5), f = check_hash(p, 6);
		}
	}
	ended++;
}

static void (*const first[])(void *) = {
	first_1, first_2, first_3, first_5, first_6, first_7, first_8,
	first_13, first_14, first_40, some, some, least, registers, waits
};

static struct ustack *next(struct usched *s)
{
	struct ustack *u = tiny_next(s);
	int i;

	if (u == NULL && t.t_live > 0) {	/* wakes the waiting */
		for (i = 0; i < NR; i++) {
			if (tt[i].tt_done == 0)
				tiny_wake(&tt[i]);
		}
		u = tiny_next(s);
	}
	return u;
}

/* Runs threads with first buffers of len bytes or more, or, if 0, without. */
static void with_lanes(int lanes, int len)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_sched.s_next = next;
	ended = 0;
	for (i = 0; i < NR; i++) {
		void (*f)(void *) = first[(i + len) % COUNT(first)];
		int nob = len != 0 ? len + i * 3 : 0;
		void *buf = nob != 0 ? tiny_alloc(&t.t_sched, nob) : NULL;

		tiny_start(&t, &tt[i], f, &tt[i]);
		ustack_init(&tt[i].tt_stack, &t.t_sched, f, &tt[i], buf, nob);
	}
	tiny_run(&t);
	CHECK_IS(ended, NR);
	tiny_fini(&t);
}

static int kept, refused;

/*
 * Has only a first buffer. The words are zero at each other block. A block may
 * be refused, but what it does not refuse it keeps.
 */
static NOINLINE void starve(uintptr_t self, volatile uintptr_t *word, int nr)
{
	int i, trip;

	for (trip = 0; trip < 6; trip++) {
		for (i = 0; i < nr; i++)
			word[i] = trip % 2 ? self + trip + i : 0;
		if (tiny_try_yield() == 0)
			kept++;
		else
			refused++;
		for (i = 0; i < nr; i++)
			CHECK_IS(word[i], trip % 2 ? self + trip + i : 0);
	}
	ended++;
}

/* Has nothing at the bottom but these words: it need not save a register. */
static void starves(void *arg)
{
	volatile uintptr_t word[5];

	starve((uintptr_t)arg, word, COUNT(word));
}

#define ENOUGH	1000

/*
 * Runs threads whose first buffers have len bytes, but for the first thread,
 * which can block, so that others share its lane. s_alloc() fails.
 */
static void without_memory(int lanes, int len)
{
	void *buf[NR];
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	ended = 0;
	for (i = 0; i < NR; i++)
		buf[i] = tiny_alloc(&t.t_sched, i != 0 ? len : ENOUGH);
	t.t_fail = t.t_allocs + 1;
	t.t_fail_all = 1;
	for (i = 0; i < NR; i++) {
		tiny_start(&t, &tt[i], starves, &tt[i]);
		ustack_init(&tt[i].tt_stack, &t.t_sched, starves, &tt[i],
			    buf[i], i != 0 ? len : ENOUGH);
	}
	tiny_run(&t);
	CHECK_IS(ended, NR);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, 5, NR - 1, NR };
	int i, len;

	check_start(argc, argv);
	for (i = 0; i < COUNT(lanes); i++) {
		for (len = 0; len < 420; len++) {
			doing("with %d lanes, %d bytes", lanes[i], len);
			with_lanes(lanes[i], len);
			if (len > 0)
				without_memory(lanes[i], len);
		}
	}
#if defined(__x86_64__) || !defined(USCHED_PORTABLE)	/* jmp_buf is small */
	CHECK_THAT(kept, >, 0);
#endif
	CHECK_THAT(refused, >, 0);
	return 0;
}
