/* SPDX-License-Identifier: MIT */
/* nested: a thread may run dispatchers, and their threads others */
/* VARIANTS: core */
/* LIBS: -lm */

/*
 * Each thread goes on with its stack, its control words and ustack_self()
 * unchanged, whichever threads block in between, with lanes or without, deep or
 * not. Threads of the inner dispatcher may use the stack of the thread that
 * runs it. While a thread runs a dispatcher, the thread must not be forgotten,
 * and its own dispatcher must not be run or freed. A dispatcher without lanes
 * may be run again on the same stack, also by a call-back, but on no other.
 */
#include "tiny.h"
#include <fenv.h>

#define OUTER	4
#define INNER	5
#define INMOST	3
#define TRIPS	6

/* A level: a dispatcher that only one thread runs, and its threads. */
struct level {
	struct tiny        e_tiny;
	struct tiny_thread e_thread[INNER];
	struct level      *e_next;	/* run by its first thread, or NULL */
	int               *e_count;	/* on the stack of its runner */
	int                e_nr;
	int                e_deep;	/* bytes of each thread, about */
};

static struct tiny t;
static struct tiny_thread tt[OUTER];
static struct level inner[OUTER], inmost[OUTER];
static int outer_deep;

/* Control words belong to each thread. */
static int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD };


static void rounds(struct level *e);

/*
 * Yields, with nob bytes and a rounding of its own, and runs the level below.
 */
static NOINLINE void live(int nob, unsigned tag, struct level *below)
{
	struct ustack *self = ustack_self();
	unsigned char *array = (unsigned char *)alloca(nob);
	int round = rounding[tag % COUNT(rounding)];

	memset(array, (int)tag, nob);
	CHECK_IS(fesetround(round), 0);
	if (below != NULL)
		rounds(below);
	tiny_yield();
	CHECK(ustack_self() == self && fegetround() == round);
	CHECK(array[0] == (unsigned char)tag &&
	      memcmp(array, array + 1, nob - 1) == 0);
	__asm__ volatile("" : : "r"(array) : "memory");
}

static void thread(void *arg)
{
	struct level *e = (struct level *)arg;
	int nr = (int)(tiny_self() - e->e_thread), i;

	for (i = 0; i < TRIPS; i++) {
		live(e->e_deep + 8 * nr, (unsigned)(nr + i),
		     nr == 0 ? e->e_next : NULL);
		++*e->e_count;
	}
}

/* Runs some rounds of e. The caller runs the rest later. */
static NOINLINE void rounds(struct level *e)
{
	struct ustack *self = ustack_self();
	int round = fegetround(), was, count = 0;

	e->e_count = &count;
	was = e->e_tiny.t_live;
	if (was == 0)
		return;
	e->e_tiny.t_stop = e->e_tiny.t_rounds + 9;
	tiny_run(&e->e_tiny);
	CHECK(ustack_self() == self && fegetround() == round);
	CHECK(count <= 9 && was >= e->e_tiny.t_live);
	e->e_count = NULL;
}

static void outer(void *arg)
{
	struct level *e = (struct level *)arg;
	unsigned tag = (unsigned)(e - inner);

	while (e->e_tiny.t_live > 0)
		live(outer_deep, tag++, e);
}

static void level_init(struct level *e, int nr, int lanes, int deep,
		       struct level *next)
{
	int i;

	CHECK_IS(tiny_init(&e->e_tiny, lanes), 0);
	e->e_next = next;
	e->e_nr   = nr;
	e->e_deep = deep;
	for (i = 0; i < nr; i++)
		tiny_start(&e->e_tiny, &e->e_thread[i], thread, e);
}

/* With lanes, any caller may run the threads that are left. */
static void level_fini(struct level *e)
{
	int i;

	for (i = 0; i < e->e_nr; i++) {
		if (e->e_thread[i].tt_done > 0)
			continue;
		ustack_fini(&e->e_thread[i].tt_stack);
		tiny_drop(&e->e_thread[i].tt_stack);
		e->e_tiny.t_live--;
	}
	e->e_tiny.t_head = NULL;
	tiny_fini(&e->e_tiny);
}

static void all(int lanes, int in, int most, int deep)
{
	int i;

	doing("lanes %d %d %d, deep %d", lanes, in, most, deep);
	outer_deep = deep;
	CHECK_IS(tiny_init(&t, lanes), 0);
	for (i = 0; i < OUTER; i++) {
		level_init(&inmost[i], INMOST, most, deep, NULL);
		level_init(&inner[i], INNER, in, deep, &inmost[i]);
		tiny_start(&t, &tt[i], outer, &inner[i]);
	}
	tiny_run(&t);
	CHECK_IS(t.t_live, 0);
	for (i = 0; i < OUTER; i++) {
		CHECK_IS(inner[i].e_tiny.t_live, 0);
		level_fini(&inmost[i]);
		level_fini(&inner[i]);
	}
	tiny_fini(&t);
}

/*
 * The stack of a call-back: a thread of t runs a dispatcher without threads,
 * whose s_next() runs inner[0].
 */
static struct tiny middle;
static int call_back_rounds;

static void yields(void *arg)
{
	tiny_yield();
	tiny_yield();
}

static struct ustack *middle_next(struct usched *s)
{
	struct tiny *e = &inner[0].e_tiny;

	e->t_stop = e->t_rounds + call_back_rounds;
	tiny_run(e);
	return NULL;
}

/* Runs inner[0] until its thread has blocked, from deep in the stack. */
static NOINLINE void from_deep(void)
{
	struct tiny *e = &inner[0].e_tiny;
	char *array = (char *)alloca(4096);

	__asm__ volatile("" : : "r"(array) : "memory");
	e->t_stop = e->t_rounds + 2;
	tiny_run(e);
	CHECK_IS(e->t_live, 1);
	__asm__ volatile("" : : "r"(array) : "memory");
}

static void runs_middle(void *deep)
{
	if (deep != NULL)
		from_deep();
	tiny_run(&middle);
}

static void call_back(int rounds, void *deep)
{
	CHECK_IS(tiny_init(&t, tiny_has_lanes()), 0);
	CHECK_IS(tiny_init(&middle, 0), 0);
	CHECK_IS(tiny_init(&inner[0].e_tiny, 0), 0);
	middle.t_sched.s_next = middle_next;
	call_back_rounds = rounds;
	tiny_start(&inner[0].e_tiny, &inner[0].e_thread[0], yields, NULL);
	tiny_start(&t, &tt[0], runs_middle, deep);
	tiny_run(&t);
	CHECK_IS(t.t_live, 0);
}

static void from_call_back(void)
{
	call_back(9, &middle);
	CHECK_IS(inner[0].e_tiny.t_live, 0);
	tiny_fini(&inner[0].e_tiny);
	tiny_fini(&middle);
	tiny_fini(&t);
}

static void elsewhere(void)
{
	call_back(2, NULL);
	CHECK_IS(inner[0].e_tiny.t_live, 1);
	inner[0].e_tiny.t_stop = 0;
	tiny_run(&inner[0].e_tiny);
}

/*
 * Misuses that must die, by a thread of the inner dispatcher, of the outer
 * threads.
 */

static void forgets(void *arg)
{
	ustack_fini(&tt[0].tt_stack);
}

static void reruns(void *arg)
{
	tiny_run(&t);
}

static void frees(void *arg)
{
	usched_fini(&t.t_sched);
}

static void (*deed)(void *);

static void hosts(void *arg)
{
	tiny_yield();
	CHECK_IS(tiny_init(&inner[0].e_tiny, 0), 0);
	tiny_start(&inner[0].e_tiny, &inner[0].e_thread[0], deed, NULL);
	tiny_run(&inner[0].e_tiny);
}

static void die(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt[0], hosts, NULL);
	tiny_run(&t);
}

static int deaths(void)
{
	int failed = 0;

	deed = forgets;
	failed += check_dies("forgets", die, "ustack_fini: the thread is running");
	deed = reruns;
	failed += check_dies("reruns", die, "usched_run: this dispatcher runs");
	deed = frees;
	failed += check_dies("frees", die, "usched_fini: the dispatcher is running");
	if (tiny_has_lanes())
		failed += check_dies("elsewhere", elsewhere,
				     "usched_run: threads are blocked");
	return failed;
}

int main(int argc, char **argv)
{
	static const int deep[] = { 16, 700, 6000 };
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(deep); i++) {
		all(0, 0, 0, deep[i]);
		if (!tiny_has_lanes())
			continue;
		all(1, 0, 0, deep[i]);
		all(2, 1, 0, deep[i]);
		all(8, 0, 2, deep[i]);
		all(3, 2, 1, deep[i]);
		all(8, 8, 8, deep[i]);
	}
	from_call_back();
	return deaths() != 0;
}
