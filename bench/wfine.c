/* SPDX-License-Identifier: MIT */
/* wfine.c: fine-grained, demand-driven work on ws. */

/*
 *	wfine tree N M P	M demands pass through a binary tree of N threads
 *	wfine powser N P	N coefficients of a power series
 *
 * The answer is one number on stdout: the seconds from before the scheduler
 * starts to when the result is there. If something goes wrong, the program says
 * so on stderr. There are P workers. A thread runs for some nanoseconds at a
 * time, so a second worker cannot help the first. The additional time with two
 * workers is the cost of the second.
 *
 * TREE. A thread that is asked asks both its children, and answers when both
 * have answered. Thread 1 asks itself.
 *
 * POWSER. After M. D. McIlroy, "Squinting at power series" (Software: Practice
 * and Experience, 1990). A series is a thread. Whenever it is asked, it
 * computes one coefficient, and for that asks the series that it is made of.
 * Coefficients are numbers modulo a prime. The series is the tangent, by T' = 1
 * + T * T, so it asks itself. The product makes four threads for each two
 * coefficients. The result is compared with the result of plain loops.
 *
 * A CHANNEL has one slot, since nothing is queued between a demand and its
 * answer. Wakes are counted, so a thread waits exactly once for each demand and
 * each answer, although it may find the answer before the wake comes.
 */

#include "ws.h"
#include "bench.h"
#include <stdbool.h>

#define PRIME	2147483647L

static const char *name;
static double end;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", name, what);
	_exit(BENCH_FAILED);
}

static void wait_once(void)
{
	if (ws_wait() != 0)
		die("out of memory");
}

static struct ws_thread *make(void (*f)(void *), void *arg)
{
	struct ws_thread *t = ws_thread_init(f, arg);

	if (t == NULL)
		die("out of memory");
	return t;
}

static void *memory(size_t size)
{
	void *block = calloc(1, size);

	if (block == NULL)
		die("out of memory");
	return block;
}

/* The tree. */

static struct ws_thread **node;
static int nodes, demands;
static long answers;

static void tree_node(void *arg)
{
	int nr = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < demands; i++) {
		if (nr > 1)
			wait_once();
		if (2 * nr + 1 <= nodes) {
			ws_wake(node[2 * nr]);
			ws_wake(node[2 * nr + 1]);
			wait_once();
			wait_once();
		}
		if (nr > 1)
			ws_wake(node[nr / 2]);
		else if (++answers == demands)
			end = bench_now();
	}
}

static void tree_make(void)
{
	int i;

	node = memory((nodes + 1) * sizeof node[0]);
	for (i = 1; i <= nodes; i++)
		node[i] = make(tree_node, (void *)(intptr_t)i);
}

/* Power series. */

enum { IDLE, WANTED, THERE };

/* A channel, and the thread that answers. */
struct series {
	int               s_state;	/* atomic */
	long              s_value;	/* if THERE */
	struct ws_thread *s_maker;	/* the thread that answers */
	struct ws_thread *s_taker;	/* the thread that asked last */
	struct series    *s_of[2];	/* series that s_maker asks in turn */
	long              s_factor;
	struct branch    *s_branch;
};

/* Two equal series, either of which may be ahead of the other. */
struct branch {
	struct series  b_out[2];
	struct series *b_of;
	int            b_at[2];		/* coefficients that each has given */
	int            b_nr;
	int            b_room;
	long          *b_value;		/* all coefficients so far */
};

static int terms;
static long *result;

static bool is(struct series *s, int state)
{
	return __atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) == state;
}

static void set(struct series *s, int state)
{
	__atomic_store_n(&s->s_state, state, __ATOMIC_RELEASE);
}

static void ask(struct series *s)
{
	s->s_taker = ws_self();
	set(s, WANTED);
	ws_wake(s->s_maker);
}

static long get(struct series *s)
{
	ask(s);
	do
		wait_once();
	while (!is(s, THERE));
	return s->s_value;
}

static void wanted(struct series *s)
{
	while (!is(s, WANTED))
		wait_once();
}

static void give(struct series *s, long value)
{
	struct ws_thread *taker = s->s_taker;

	s->s_value = value % PRIME;
	set(s, THERE);
	ws_wake(taker);
}

static struct series *series(void (*f)(void *), struct series *a,
			     struct series *b, long factor)
{
	struct series *s = memory(sizeof *s);

	s->s_of[0]  = a;
	s->s_of[1]  = b;
	s->s_factor = factor;
	s->s_maker  = make(f, s);
	return s;
}

static void scaled(void *arg)
{
	struct series *s = arg;

	for (;;) {
		wanted(s);
		give(s, get(s->s_of[0]) * s->s_factor);
	}
}

static void branch_add(struct branch *b, long value)
{
	if (b->b_nr == b->b_room) {
		b->b_room  = 2 * b->b_room + 8;
		b->b_value = realloc(b->b_value,
				     b->b_room * sizeof b->b_value[0]);
		if (b->b_value == NULL)
			die("out of memory");
	}
	b->b_value[b->b_nr++] = value;
}

/* Answers, if the coefficient is known. False: the original must be asked. */
static bool branch_give(struct branch *b, int which)
{
	if (b->b_at[which] == b->b_nr)
		return false;
	give(&b->b_out[which], b->b_value[b->b_at[which]++]);
	return true;
}

/* Answers both also while it waits for the original, which may ask either. */
static void branch(void *arg)
{
	struct branch *b = arg;
	bool asked = false;
	bool new;
	int i;

	for (;; wait_once()) {
		if (asked && is(b->b_of, THERE)) {
			branch_add(b, b->b_of->s_value);
			asked = false;
		}
		new = false;
		for (i = 0; i < 2; i++)
			new |= is(&b->b_out[i], WANTED) && !branch_give(b, i);
		if (new && !asked) {
			ask(b->b_of);
			asked = true;
		}
	}
}

/* Makes two copies of s, which may be set later. */
static struct branch *branch_of(struct series *s)
{
	struct branch *b = memory(sizeof *b);

	b->b_of = s;
	b->b_out[0].s_maker = b->b_out[1].s_maker = make(branch, b);
	return b;
}

/* (f + xF)(g + xG) = fg + x(fG + gF) + x * x * FG. */
static void product(void *arg)
{
	struct series *s = arg;
	struct series *left, *right, *rest;
	struct branch *a, *b;
	long f, g;

	wanted(s);
	f = get(s->s_of[0]);
	g = get(s->s_of[1]);
	give(s, f * g);
	wanted(s);
	a = branch_of(s->s_of[0]);
	b = branch_of(s->s_of[1]);
	left  = series(scaled, &b->b_out[0], NULL, f);
	right = series(scaled, &a->b_out[0], NULL, g);
	give(s, get(left) + get(right));
	wanted(s);
	rest = series(product, &a->b_out[1], &b->b_out[1], 0);
	for (;;) {
		give(s, get(left) + get(right) + get(rest));
		wanted(s);
	}
}

static long inverse(long x)
{
	long r = 1;
	long n;

	for (n = PRIME - 2; n > 0; n /= 2) {
		if (n % 2)
			r = r * x % PRIME;
		x = x * x % PRIME;
	}
	return r;
}

/* Integrates 1 plus a series, from 0. */
static void integral(void *arg)
{
	struct series *s = arg;
	long i;

	wanted(s);
	give(s, 0);
	for (i = 1;; i++) {
		wanted(s);
		give(s, (get(s->s_of[0]) + (i == 1)) % PRIME * inverse(i));
	}
}

static void powser_root(void *arg)
{
	struct branch *factors = branch_of(NULL);
	struct branch *all = branch_of(NULL);
	struct series *square = series(product, &factors->b_out[0],
				       &factors->b_out[1], 0);

	(void)arg;
	all->b_of     = series(integral, square, NULL, 0);
	factors->b_of = &all->b_out[0];
	for (answers = 0; answers < terms; answers++)
		result[answers] = get(&all->b_out[1]);
	end = bench_now();
	wait_once();			/* the last wake may be under way */
	die("woken without a reason");
}

static void powser_make(void)
{
	result = memory(terms * sizeof result[0]);
	(void)make(powser_root, NULL);
}

static bool powser_right(void)
{
	int i, j;

	for (i = 0; i + 1 < terms; i++) {
		long sum = i == 0;

		for (j = 0; j <= i; j++)
			sum = (sum + result[j] * result[i - j]) % PRIME;
		if (result[0] != 0 || result[i + 1] * (i + 1) % PRIME != sum)
			return false;
	}
	return true;
}

static int usage(void)
{
	fprintf(stderr, "usage:\n"
		"  %s tree N M P    seconds, for M demands to N threads\n"
		"  %s powser N P    seconds, for N coefficients\n"
		"P workers\n", name, name);
	return BENCH_USAGE;
}

int main(int argc, char **argv)
{
	bool tree = argc == 5 && strcmp(argv[1], "tree") == 0;
	bool powser = argc == 4 && strcmp(argv[1], "powser") == 0;
	double start;
	int p, rc;

	name = argv[0];
	if ((!tree && !powser) || !bench_number(argv[argc - 1], 1, &p) ||
	    !bench_number(argv[2], 1, tree ? &nodes : &terms) ||
	    (tree && !bench_number(argv[3], 1, &demands)))
		return usage();
	rc = ws_init(p, tree ? nodes : 0);
	if (rc == 0)
		rc = ws_pinning(1);		/* also if P is 1 */
	if (rc != 0)
		die("init");
	if (tree)
		tree_make();
	else
		powser_make();
	start = bench_now();
	if (ws_start() != 0)
		die("start");
	rc = ws_fini();			/* -EDEADLK: the series still wait */
	if ((rc != 0 && tree) || answers != (tree ? demands : terms) ||
	    (powser && !powser_right()))
		die("a wrong result");
	printf("%f\n", end - start);
	return 0;
}
