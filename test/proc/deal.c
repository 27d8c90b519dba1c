/* SPDX-License-Identifier: MIT */
/* deal: rr deals neighbours to one processor, and equal parts to all. */
/* VARIANTS: once */

/*
 * With a hint, threads that are made one after another before the start share a
 * processor. Without a hint, and after the start, each processor gets a thread
 * in turn. However wrong the hint is, no processor has more than twice the
 * threads of another, plus DEAL_MIN of deal.h. In a program like the article's
 * rmain.c, where neighbours in rings wake each other, few messages go from one
 * processor to another.
 */
#include "check.h"
#include "rr.h"
#include <errno.h>

#define DEAL_MIN	32
#define MOST		20000
#define PROCS		9

static struct rr_thread *threads[MOST];
static int counts[PROCS];

static void nothing(void *arg)
{
}

static int proc_of(int i)
{
	return uproc_of(&threads[i]->r_thread)->p_nr;
}

/* Makes nr threads, before the start. */
static void make(int nr, void (*f)(void *))
{
	int i;

	memset(counts, 0, sizeof counts);
	for (i = 0; i < nr; i++) {
		threads[i] = rr_thread_init(f, (void *)(intptr_t)i);
		CHECK(threads[i] != NULL);
		counts[proc_of(i)]++;
	}
}

static void begin(int procs, int hint)
{
	doing("procs %d hint %d", procs, hint);
	CHECK_IS(rr_init(procs, hint), 0);
}

/* Returns how many threads are not on the processor of their neighbour. */
static int parted(int nr)
{
	int i, some = 0;

	for (i = 1; i < nr; i++)
		some += proc_of(i) != proc_of(i - 1);
	return some;
}

static int least(int procs)
{
	int i, nr = counts[0];

	for (i = 1; i < procs; i++)
		nr = counts[i] < nr ? counts[i] : nr;
	return nr;
}

static int largest(int procs)
{
	int i, nr = counts[0];

	for (i = 1; i < procs; i++)
		nr = counts[i] > nr ? counts[i] : nr;
	return nr;
}

static void end(void)
{
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
}

/*
 * Makes as many threads as the hint says: parts are equal, and chunks are few.
 */
static void exact(int procs, int nr)
{
	int rounds = 1, share = (nr + procs - 1) / procs;

	for (; share > DEAL_MIN; share /= 2)
		rounds++;
	begin(procs, nr);
	make(nr, nothing);
	CHECK_THAT(parted(nr), <, procs * rounds);
	CHECK(nr % procs != 0 || largest(procs) == least(procs));
	CHECK_THAT(largest(procs), <=, (nr + procs - 1) / procs);
	end();
}

/* Rings that fit in the first chunks are never parted. */
static void rings(int procs, int n, int r)
{
	int i;

	begin(procs, n * r);
	make(n * r, nothing);
	for (i = 1; i < n * r; i++)
		CHECK(i % n == 0 || proc_of(i) == proc_of(i - 1));
	CHECK_IS(largest(procs), least(procs));
	end();
}

static void wrong(int procs, int hint, int nr)
{
	begin(procs, hint);
	make(nr, nothing);
	CHECK_THAT(largest(procs), <=, 2 * least(procs) + DEAL_MIN);
	/* Chunks are not longer than a part. */
	CHECK_THAT(largest(procs) - least(procs) - 1, <=, hint / procs);
	end();
}

/* Each gets a thread in turn: without a hint, or with parts of one thread. */
static void in_turn(int procs, int hint)
{
	int i;

	begin(procs, hint);
	make(10 * procs, nothing);
	for (i = 0; i < 10 * procs; i++)
		CHECK_IS(proc_of(i), i % procs);
	end();
}

/* Makes joinable threads, so that their processors can be read. */
static void maker(void *arg)
{
	int procs = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < 50 * procs; i++) {
		threads[i] = rr_thread_joinable(nothing, NULL);
		CHECK(threads[i] != NULL);
	}
	for (i = 1; i < 50 * procs; i++)
		CHECK_IS(proc_of(i), (proc_of(0) + i) % procs);
	for (i = 0; i < 50 * procs; i++)
		CHECK_IS(rr_join(threads[i]), 0);
}

/* After the start, a hint only sizes memory. */
static void while_it_runs(int procs)
{
	begin(procs, 10000);
	CHECK(rr_thread_on(0, maker, (void *)(intptr_t)procs) != NULL);
	end();
}

/* Rings. */

static int  ring_n, ring_m;
static long sent, crossed, received;

static void wake(struct rr_thread *t)
{
	struct uproc *p;

	__atomic_add_fetch(&sent, 1, __ATOMIC_RELAXED);
	if (!uproc_is_here(&t->r_thread, &p))
		__atomic_add_fetch(&crossed, 1, __ATOMIC_RELAXED);
	rr_wake(t);
}

static void member(void *arg)
{
	int me = (int)(intptr_t)arg, n = ring_n;
	struct rr_thread *right = threads[me / n * n + (me + 1) % n];
	int i;

	for (i = 0; i < ring_m; i++) {
		if (i % n == me % n)
			wake(right);
		CHECK_IS(rr_wait(), 0);
		__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
		if (i % n != me % n)
			wake(right);
	}
}

/* Parted rings send 2 of n messages to another processor, if n > 2. */
static void article(int procs, int n, int r, int m)
{
	ring_n = n;
	ring_m = m;
	sent = crossed = received = 0;
	begin(procs, n * r);
	make(n * r, member);
	end();
	CHECK(sent == (long)n * r * m && received == sent);
	CHECK_THAT(crossed, <=, sent / 10);
}

int main(int argc, char **argv)
{
	unsigned state;
	int p, i;

	check_start(argc, argv);
	state = check_seed;
	for (p = 1; p <= 4; p++) {
		in_turn(p, 0);
		in_turn(p, p);
		while_it_runs(p);
		for (i = 2; i <= DEAL_MIN; i *= 2) {
			rings(p, i, p);
			rings(p, i, 7 * p);
			rings(p, i, 100 * p);
		}
		exact(p, MOST);
		wrong(p, 2000000, 40 * p);
		wrong(p, 2000000, 100 * p);
		wrong(p, 2000000, 1000 * p);
		wrong(p, 5 * p, 1000 * p);
		wrong(p, INT32_MAX, 1000);
	}
	for (i = 0; i < 30; i++) {
		p = 1 + (int)(check_random(&state) % PROCS);
		exact(p, 1 + (int)(check_random(&state) % MOST));
		wrong(p, 1 + (int)(check_random(&state) % MOST),
		      1 + (int)(check_random(&state) % MOST));
	}
	article(2, 2, 2, 100);
	article(2, 2, 1000, 10);
	article(2, 8, 100, 10);
	article(2, 7, 300, 10);
	article(2, 100, 20, 10);
	return 0;
}
