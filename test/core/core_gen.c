/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/* LIBS: -lm */
/*
 * core_gen: a generator yields its values in order, from any depth, to a consumer
 * that asks from any depth: main, a generator, or a thread that blocks in
 * between. Values of any size arrive whole. A generator that is dropped may
 * clean up, and leaves no memory behind. If an allocation fails, the consumer
 * gets an error, and all goes on. Control words are shared, as with a function.
 * Wrong use ends with the name of the contract. All this with lanes and without.
 */
#include "tiny.h"
#include <fenv.h>

static long allocs, held, fail_at, told;
static int no_lanes;

static int fails(void)
{
	if (++allocs != fail_at)
		return 0;
	told++;
	return 1;
}

static void *my_malloc(size_t nob)
{
	void *p = fails() ? NULL : malloc(nob);

	held += p != NULL;
	return p;
}

static int my_memalign(void **p, size_t align, size_t nob)
{
	int rc = fails() ? ENOMEM : posix_memalign(p, align, nob);

	held += rc == 0;
	return rc;
}

static void my_free(void *p)
{
	held -= p != NULL;
	free(p);
}

static int my_lanes(struct usched *s, int nr, size_t size)
{
	if (no_lanes)
		return -ENOSYS;
	return fails() ? -ENOMEM : usched_lanes(s, nr, size);
}

#pragma push_macro("usched_lanes")	/* in the hard mode it is one */
#undef  usched_lanes
#define malloc		my_malloc
#define free		my_free
#define posix_memalign	my_memalign
#define usched_lanes	my_lanes
#if defined(USCHED_HARD)		/* it knows more: uobject.h */
#define TWICE		"was freed by ugen_free()"
#else
#define TWICE		"ugen_free() was called before"
#endif
#define ENDED		0	/* memory is given back at once */
#include "ugen.c"
#undef malloc
#undef free
#undef posix_memalign
#undef usched_lanes
#pragma pop_macro("usched_lanes")

#define NODES	1000
#define MANY	300
#define BIG	5000

/* Calls with some bytes of stack. */
static NOINLINE void *next_below(struct ugen *g, int depth)
{
	volatile char array[200];
	void *value;

	array[depth] = 1;
	value = depth > 0 ? next_below(g, depth - 1) : ugen_next(g);
	CHECK_IS(array[depth], 1);
	return value;
}

/* A tree of numbers, in order. */

static NOINLINE void walk(int from, int to)
{
	volatile int here = (from + to) / 2;
	int value = here, rc;

	if (from >= to)
		return;
	walk(from, value);
	rc = ugen_yield(&value);
	CHECK(rc == 0 || rc == -ECANCELED);
	CHECK_IS(here, value);
	walk(here + 1, to);
}

static void tree(void *nr)
{
	walk(0, *(int *)nr);
}

static void in_order(void)
{
	int nr = NODES, i, *value;
	struct ugen *g = ugen_make(tree, &nr, sizeof i);

	for (i = 0; (value = (int *)next_below(g, i * 7 % 50)) != NULL; i++)
		CHECK_IS(*value, i);
	CHECK_IS(i, NODES);
	CHECK(ugen_next(g) == NULL && ugen_next(g) == NULL);
	CHECK_IS(ugen_free(g), 0);
	nr = 0;
	g = ugen_make(tree, &nr, sizeof i);
	CHECK(ugen_next(g) == NULL && ugen_free(g) == 0);
}

/* Values of each size. */

struct sizes {
	size_t z_size;
	int    z_nr;
};

static void fill(unsigned char *at, size_t nob, unsigned tag)
{
	size_t i;

	for (i = 0; i < nob; i++)
		at[i] = (unsigned char)check_hash((unsigned)i, tag);
}

static void bytes(void *arg)
{
	struct sizes *z = (struct sizes *)arg;
	unsigned char value[BIG];
	int i;

	for (i = 0; i < z->z_nr; i++) {
		fill(value, z->z_size, (unsigned)i);
		CHECK_IS(ugen_yield(value), 0);
	}
}

static void of_size(size_t size)
{
	struct sizes z = { size, 5 };
	unsigned char want[BIG], *value;
	struct ugen *g = ugen_make(bytes, &z, size);
	int i;

	for (i = 0; (value = (unsigned char *)ugen_next(g)) != NULL; i++) {
		fill(want, size, (unsigned)i);
		CHECK(memcmp(value, want, size) == 0);
		CHECK_IS((uintptr_t)value % UGEN_ALIGN, 0);
		memset(value, 0, size);
	}
	CHECK(i == z.z_nr && ugen_free(g) == 0);
}

/* Many at once, each at another depth of its own. */

static NOINLINE void down(long depth, long *value)
{
	volatile char array[40];

	array[3] = (char)depth;
	if (depth > 0)
		down(depth - 1, value);
	else
		CHECK_IS(ugen_yield(value), 0);
	CHECK_IS(array[3], (char)depth);
}

static void deeper(void *arg)
{
	long nr = (long)(intptr_t)arg;
	long i, value;

	for (i = 0; i < nr % 17; i++) {
		value = nr * 100 + i;
		down((nr + i) % 13, &value);
	}
}

static void many(void)
{
	static struct ugen *g[MANY];
	int i, j, left = MANY;

	for (i = 0; i < MANY; i++)
		g[i] = ugen_make(deeper, (void *)(intptr_t)i, sizeof(long));
	for (j = 0; left > 0; j++) {
		for (i = 0; i < MANY; i++) {
			long *value = (long *)ugen_next(g[i]);

			CHECK_IS(value != NULL, j < i % 17);
			CHECK(value == NULL || *value == i * 100 + j);
			left -= j == i % 17;
		}
	}
	for (i = 0; i < MANY; i++)
		CHECK_IS(ugen_free(g[i]), 0);
}

/*
 * What is kept when all have ended, and taken again. Meanwhile the environment is
 * that of a child that the program will start.
 */
static void kept(void)
{
	struct ugen *g[2 * BATCH];
	int i, j;

	CHECK_IS(setenv("USCHED_QUIET", "by a later release", 1), 0);
	CHECK_IS(setenv("USCHED_DEBUG", "by a later release", 1), 0);
	for (j = 0; j < 3; j++) {
		many();
		CHECK(held == SPARE && spare == SPARE);
		for (i = 0; i < COUNT(g); i++)
			g[i] = ugen_make(tree, NULL, 0);
		CHECK(held == SPARE && spare == SPARE - 2);
		ugen_trim();
		CHECK(held == 2 && spare == 0);
		for (i = 0; i < COUNT(g); i++)
			CHECK_IS(ugen_free(g[i]), 0);
		CHECK(held == 2 && spare == 2);
	}
	CHECK(unsetenv("USCHED_QUIET") == 0 && unsetenv("USCHED_DEBUG") == 0);
}

/* Generators that ask generators, which use variables of their consumers. */

struct level {
	int *v_steps;		/* on the stack of the consumer */
	int  v_depth;
};

static void nested(void *arg)
{
	struct level *up = (struct level *)arg;
	int steps = 0, *value;
	struct level mine = { &steps, up->v_depth - 1 };
	struct ugen *g;

	if (up->v_depth == 0) {
		int nr = 20;

		tree(&nr);
		return;
	}
	g = ugen_make(nested, &mine, sizeof(int));
	while ((value = (int *)ugen_next(g)) != NULL) {
		++*up->v_steps;
		CHECK(mine.v_depth == 0 || steps == *value + 1);
		CHECK_IS(ugen_yield(value), 0);
	}
	CHECK_IS(ugen_free(g), 0);
}

static void in_generators(int depth)
{
	int steps = 0, *value, i;
	struct level top = { &steps, depth };
	struct ugen *g = ugen_make(nested, &top, sizeof(int));

	for (i = 0; (value = (int *)ugen_next(g)) != NULL; i++)
		CHECK(*value == i && (depth == 0 || steps == i + 1));
	CHECK(i == 20 && ugen_free(g) == 0);
}

/* A generator that has begun is handed to another, which goes on with it. */
static void doubles(void *arg)
{
	struct ugen *g = (struct ugen *)arg;
	int *value;

	while ((value = (int *)ugen_next(g)) != NULL) {
		int twice = 2 * *value;

		if (ugen_yield(&twice) != 0)
			break;
	}
}

static void handed_on(void)
{
	int nr = 10, i, *value;
	struct ugen *in = ugen_make(tree, &nr, sizeof nr), *out;

	CHECK_IS(*(int *)ugen_next(in), 0);
	out = ugen_make(doubles, in, sizeof nr);
	for (i = 1; i < 5; i++) {
		value = (int *)ugen_next(out);
		CHECK(value != NULL && *value == 2 * i);
	}
	CHECK_IS(*(int *)ugen_next(in), i);
	CHECK_IS(ugen_free(out), 0);
	CHECK_IS(*(int *)ugen_next(in), i + 1);
	CHECK_IS(ugen_free(in), 0);
}

/* Dropped before the end. */

static int cleaned, ran;
static int large[BIG];		/* more than its first bytes is yielded */

static void cleans(void *arg)
{
	char *block = (char *)malloc(100);
	int rc = 0;

	ran++;
	while (rc == 0)
		rc = ugen_yield(large);
	CHECK_IS(rc, -ECANCELED);
	free(block);
	cleaned++;
}

/* Does not look at what the yield returns. */
static void ignores(void *arg)
{
	ran++;
	for (;;)
		(void)ugen_yield(large);
}

static void aborts(void *arg)
{
	int i = 7;

	(void)ugen_yield(&i);
	ustack_abort();
}

static void dropped(void)
{
	struct ugen *g;
	int i;

	ran = cleaned = 0;
	CHECK_IS(ugen_free(ugen_make(cleans, NULL, 4)), 0);
	CHECK_IS(ran, 0);
	for (i = 0; i < 50; i++) {
		g = ugen_make(i % 3 ? cleans : ignores, NULL, i % 2 ? 4 : BIG);
		CHECK(ugen_next(g) != NULL);
		CHECK(ugen_next(g) != NULL);
		CHECK_IS(ugen_free(g), 0);
	}
	CHECK(ran == 50 && cleaned == 33);
	g = ugen_make(aborts, NULL, 4);
	CHECK_IS(*(int *)ugen_next(g), 7);
	CHECK(ugen_next(g) == NULL && ugen_next(g) == NULL);
	CHECK_IS(ugen_free(g), 0);
	CHECK(ugen_next(NULL) == NULL && ugen_free(NULL) == -ENOMEM);
}

/* The consumer is a thread, which blocks between two steps, and is moved. */

static struct tiny t;

static NOINLINE void consume(int me, int depth)
{
	volatile int local = me;
	int nr = 30 + me, i, *value;
	struct ugen *g = ugen_make(tree, &nr, sizeof nr);

	if (depth > 0)
		consume(me, depth - 1);
	for (i = 0; (value = (int *)next_below(g, i % 20)) != NULL; i++) {
		CHECK(*value == i && ustack_self() != &g->ge_stack);
		tiny_yield();
		CHECK(*value == i && local == me);
		if (i == 40)
			break;
	}
	CHECK_IS(i, nr > 40 ? 40 : nr);
	CHECK_IS(ugen_free(g), 0);
}

static void consumer(void *arg)
{
	struct tiny_thread *me = (struct tiny_thread *)ustack_self();

	consume((int)(intptr_t)me->tt_data, 3);
}

static void by_threads(int lanes)
{
	static struct tiny_thread tt[30];
	int i;

	CHECK_IS(tiny_init(&t, lanes), 0);
	for (i = 0; i < COUNT(tt); i++) {
		tiny_start(&t, &tt[i], consumer, NULL);
		tt[i].tt_data = (void *)(intptr_t)i;
	}
	tiny_run(&t);
	tiny_fini(&t);
}

/* Each allocation fails once. */

static void some(void *arg)
{
	int array[BIG] = { 0 };
	int i, rc;

	for (i = 0; i < 3; i++) {
		array[0] = i;
		rc = ugen_yield(array);
		CHECK_IS(array[0], i);
		if (rc == 0)
			continue;
		CHECK_IS(rc, -ENOMEM);
		if (arg != NULL)
			return;
	}
}

static void without_memory(size_t size, void *stops)
{
	struct ugen *g;
	int i, *value, rc;

	ugen_trim();
	CHECK_IS(held, 0);
	for (told = 1, fail_at = 1; told != 0; fail_at++) {
		allocs = told = 0;
		g = ugen_make(some, stops, size);
		for (i = 0; (value = (int *)ugen_next(g)) != NULL; i++)
			CHECK_IS(*value, i);
		rc = ugen_free(g);
		CHECK(rc == (told ? -ENOMEM : 0) && (told || i == 3));
		ugen_trim();
		CHECK_IS(held, 0);
	}
	CHECK_THAT(fail_at, >, 2);
	fail_at = 0;
}

/* Control words: the generator finds the consumer's, and leaves its own. */

#if defined(FE_UPWARD) && defined(FE_DOWNWARD)

static void rounds(void *arg)
{
	int now;

	now = fegetround();
	CHECK_IS(ugen_yield(&now), 0);
	now = fegetround();
	CHECK(fesetround(FE_UPWARD) == 0 && ugen_yield(&now) == 0);
	now = fegetround();
	CHECK_IS(ugen_yield(&now), 0);
	now = fegetround();
	CHECK(fesetround(FE_DOWNWARD) == 0 && ugen_yield(&now) == 0);
	CHECK_IS(fesetround(FE_UPWARD), 0);
}

static NOINLINE int next_rounds(struct ugen *g, int want)
{
	int was = fegetround(), *value = (int *)ugen_next(g);

	CHECK(value == NULL || *value == was);
	CHECK_IS(fegetround(), want);
	return value != NULL;
}

static void control_words(void)
{
	struct ugen *g[3];
	int i;

	for (i = 0; i < COUNT(g); i++)
		g[i] = ugen_make(rounds, NULL, sizeof i);
	for (i = 0; i < COUNT(g); i++) {
		CHECK_IS(fesetround(FE_TOWARDZERO), 0);
		CHECK(next_rounds(g[i], FE_TOWARDZERO));
		CHECK_IS(fesetround(FE_DOWNWARD), 0);
		CHECK(next_rounds(g[i], FE_UPWARD));
		CHECK_IS(fesetround(FE_TONEAREST), 0);
		CHECK(next_rounds(g[i], FE_TONEAREST));
		CHECK(next_rounds(g[i], FE_DOWNWARD));
		CHECK_IS(fesetround(FE_TOWARDZERO), 0);
		CHECK(!next_rounds(g[i], FE_UPWARD));
		CHECK_IS(fesetround(FE_TONEAREST), 0);
		CHECK_IS(ugen_free(g[i]), 0);
	}
}

#else

static void control_words(void)
{
}

#endif

/* Wrong use. */

static void yield_outside(void)
{
	(void)ugen_yield("");
}

static void yields_in_thread(void *arg)
{
	(void)ugen_yield(arg);
}

static void yield_in_thread(void)
{
	static struct tiny_thread tt;

	tiny_init(&t, 0);
	tiny_start(&t, &tt, yields_in_thread, &tt);
	tiny_run(&t);
}

static struct ugen *self;

static void asks_itself(void *arg)
{
	(void)ugen_next(self);
}

static void next_inside(void)
{
	self = ugen_make(asks_itself, NULL, 0);
	(void)ugen_next(self);
}

static void ends_itself(void *arg)
{
	(void)ugen_free(self);
}

static void end_inside(void)
{
	self = ugen_make(ends_itself, NULL, 0);
	(void)ugen_next(self);
}

static void asks_first(void *arg)
{
	struct ugen *g = (struct ugen *)arg;

	if (g == NULL)
		g = ugen_make(asks_first, self, 0);
	(void)ugen_next(g);
}

static void circle(void)
{
	self = ugen_make(asks_first, NULL, 0);
	(void)ugen_next(self);
}

static void blocks(void *arg)
{
	(void)ustack_block();
}

static void block_inside(void)
{
	(void)ugen_next(ugen_make(blocks, NULL, 0));
}

static void end_twice(void)
{
	struct ugen *g = ugen_make(blocks, NULL, 0);

	(void)ugen_free(g);
	(void)ugen_free(g);
}

static int deaths(void)
{
	return check_dies("outside", yield_outside, "ugen_yield: called outs") +
		check_dies("thread", yield_in_thread, "ugen_yield: called ou") +
		check_dies("itself", next_inside, "the generator runs: it") +
		check_dies("end", end_inside, "the generator runs: it") +
		check_dies("circle", circle, "the generator runs: it") +
		check_dies("block", block_inside, "blocked without ugen_yield") +
		check_dies("twice", end_twice, TWICE);
}

static struct ugen *begun;

static NOINLINE void begin_high(void)
{
	int nr = 100;

	begun = ugen_make(tree, &nr, sizeof nr);
	(void)ugen_next(begun);
}

static void deeper_than_ledge(void)
{
	volatile char array[2 * UGEN_DEEPER];

	begin_high();
	array[0] = 0;
	(void)next_below(begun, 190);
	CHECK_IS(array[0], 0);
}

static void everything(void)
{
	static const size_t sizes[] = { 0, 1, 4, 7, 8, 100, 128, 129, BIG };
	int i;

	in_order();
	for (i = 0; i < COUNT(sizes); i++)
		of_size(sizes[i]);
	kept();
	for (i = 0; i < 8; i++)
		in_generators(i);
	if (!no_lanes)
		handed_on();
	dropped();
	by_threads(0);
	control_words();
	without_memory(4, "");
	without_memory(BIG, "");
	without_memory(4, NULL);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	if (tiny_has_lanes()) {
		everything();
		by_threads(1);
		by_threads(7);
		by_threads(50);
		CHECK_IS(deaths(), 0);
	}
	ugen_trim();
	no_lanes = 1;
	everything();
	CHECK_IS(deaths(), 0);
	CHECK_IS(check_dies("deep", deeper_than_ledge, "UGEN_DEEPER"), 0);
	ugen_trim();
	CHECK_IS(held, 0);
	return 0;
}
