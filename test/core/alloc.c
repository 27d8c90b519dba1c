/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * alloc: buffers grow with the slice, and are freed when they are far too
 * large. s_free() gets the same size as s_alloc(), a multiple of 8. If any allocation fails,
 * once or from there on, ustack_block() returns -ENOMEM and has changed
 * nothing; the thread goes on and may try again (usched I5). The last buffer is
 * left to the scheduler. A thread's first buffer is used if the slice fits.
 * After usched_reserve() no block down to the depth that it was told changes
 * the buffer, whatever that was before; and if it fails, nothing has changed.
 */
#include "tiny.h"

#define NR	6
#define SLACK	4096			/* USCHED_SLACK of usched.c */

static struct tiny t;
static struct tiny_thread tt[NR];
static int errors, ended;

/* What must not change when a block fails. */
struct state { void *s_stack; char *s_top; int s_len, s_lane; };

static void look(struct state *st)
{
	int i;

	memset(st, 0, NR * sizeof *st);
	for (i = 0; i < NR; i++) {
		st[i].s_stack = tt[i].tt_stack.u_stack;
		st[i].s_len   = tt[i].tt_stack.u_len;
		st[i].s_lane  = tt[i].tt_stack.u_lane;
		st[i].s_top   = tt[i].tt_stack.u_top;
	}
}

/* Checks all buffers: sizes are right, nothing was written outside. */
static void intact(void)
{
	int i;

	for (i = 0; i < NR; i++) {
		if (tt[i].tt_stack.u_stack != NULL)
			tiny_intact(tt[i].tt_stack.u_stack,
				    tt[i].tt_stack.u_len);
	}
}

static int try_block(void)
{
	struct state before[NR], after[NR];
	long bytes = t.t_bytes, frees = t.t_frees;
	int rc;

	look(before);
	rc = tiny_try_yield();
	if (rc == 0)
		return 0;
	CHECK_IS(rc, -ENOMEM);
	CHECK_THAT(t.t_failed, >, 0);
	CHECK(tiny_self() >= tt && tiny_self() < tt + NR);
	look(after);
	CHECK(memcmp(before, after, sizeof before) == 0);
	CHECK(bytes == t.t_bytes && frees == t.t_frees);
	intact();
	errors++;
	return rc;
}

/* Blocks with nob more bytes of stack, and tries again if that fails. */
static NOINLINE void with(int nob, int tag)
{
	unsigned char *array = (unsigned char *)alloca(nob);

	memset(array, tag, nob);
	if (try_block() != 0)
		(void)try_block();
	CHECK(array[0] == tag && memcmp(array, array + 1, nob - 1) == 0);
}

static void worker(void *arg)
{
	static const int nob[] = { 8, 100, 90, 3000, 20000, 16, 9000, 10, 64 };
	int tag = (int)((struct tiny_thread *)arg - tt);
	int i;

	for (i = 0; i < COUNT(nob); i++)
		with(nob[i] + tag * 40, tag + i);
	ended++;
}

static void *eights_alloc(struct usched *s, int size)
{
	CHECK_IS(size % 8, 0);
	return tiny_alloc(s, size);
}

/*
 * Starts a thread with a first buffer, which is also in tt_data. Calls f(th).
 */
static void start_with_buffer(struct tiny_thread *th, void (*f)(void *), int len)
{
	void *buf = tiny_alloc(&t.t_sched, len);

	tiny_start(&t, th, f, th);
	ustack_init(&th->tt_stack, &t.t_sched, f, th, buf, len);
	th->tt_data = buf;
}

/* Returns whether an allocation failed. */
static int once(int lanes, long fail, int all, int first)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return 0;
	t.t_sched.s_alloc = eights_alloc;
	errors = ended = 0;
	for (i = 0; i < NR; i++) {
		if (first != 0)
			start_with_buffer(&tt[i], worker, first);
		else
			tiny_start(&t, &tt[i], worker, &tt[i]);
	}
	t.t_fail = fail != 0 ? t.t_allocs + fail : 0;
	t.t_fail_all = all;
	tiny_run(&t);
	CHECK_IS(ended, NR);
	CHECK(!all || fail != 1 || errors > 0);
	tiny_fini(&t);
	return t.t_failed != 0;
}

static void failures(int first)
{
	static const int lanes[] = { 0, 1, 3, NR };
	int i, all;
	long fail;

	for (i = 0; i < COUNT(lanes); i++) {
		for (all = 0; all < 2; all++) {
			for (fail = 1; once(lanes[i], fail, all, first); fail++)
				;
		}
		once(lanes[i], 0, 0, first);
	}
}

/* A deep slice, then a shallow one. */
static void grow_and_shrink(void *arg)
{
	struct ustack *u = ustack_self();
	int small;

	with(16, 0);
	small = u->u_len;
	CHECK(u->u_stack != NULL && small >= 16 && small < 16 + SLACK);
	with(1000, 1);
	CHECK(u->u_len >= 1000 && u->u_len < 1000 + SLACK);
	with(100000, 2);
	CHECK(u->u_len >= 100000 && u->u_len < 100000 + SLACK);
	with(64, 3);
	CHECK_THAT(u->u_len, <, 64 + 2 * SLACK);
	t.t_fail = t.t_allocs + 1;	/* with() tries twice */
	with(50000, 4);
	CHECK_THAT(u->u_len, >=, 50000);
	t.t_fail = t.t_allocs + 1;
	errors = 0;
	with(8, 5);
	CHECK_IS(errors, 0);		/* the large buffer was kept */
	CHECK_THAT(u->u_len, >=, 50000);
	with(200, 6);			/* until it blocks elsewhere */
	CHECK_THAT(u->u_len, <, 2 * SLACK);
}

static void sizes(int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	memset(tt, 0, sizeof tt);
	errors = 0;
	tiny_start(&t, &tt[0], grow_and_shrink, NULL);
	tiny_run(&t);
	CHECK_IS(t.t_frees, t.t_allocs - t.t_failed);
	tiny_fini(&t);
}

/* Threads with first buffers of any length. */
static void first_buffer(int lanes, int len)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_keep = 1;
	ended = 0;
	for (i = 0; i < NR; i++)
		start_with_buffer(&tt[i], worker, len);
	tiny_run(&t);
	CHECK_IS(ended, NR);
	CHECK_IS(t.t_held, NR);		/* the last buffers are ours */
	for (i = 0; i < NR; i++)
		tiny_drop(&tt[i].tt_stack);
	tiny_fini(&t);
}

static void block_twice(void *arg)
{
	tiny_yield();
	tiny_yield();
	ended++;
}

static void first_buffer_fits(int lanes)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_keep = 1;
	ended = 0;
	for (i = 0; i < NR; i++)
		start_with_buffer(&tt[i], block_twice, SLACK);
	tiny_run(&t);
	CHECK_IS(ended, NR);
	CHECK(t.t_allocs == NR && t.t_frees == 0);
	for (i = 0; i < NR; i++) {
		CHECK_IS(tt[i].tt_stack.u_stack, tt[i].tt_data);
		CHECK_IS(tt[i].tt_stack.u_len, SLACK);
		tiny_drop(&tt[i].tt_stack);
	}
	tiny_fini(&t);
}

/* Reservations. */

static long asked;		/* of s_alloc() and s_free(), together */

static long asks(void)
{
	return t.t_allocs + t.t_frees;
}

/*
 * Blocks with nob bytes more, if it is to, by ustack_block() itself. Returns
 * how far that is below high.
 */
static NOINLINE int block_below(const char *high, int nob, int blocks)
{
	volatile char *low = alloca(nob);

	low[0] = low[nob - 1] = 7;
	if (blocks) {
		t.t_yields = tiny_self();
		CHECK_IS(ustack_block(), 0);
	}
	CHECK(low[0] == 7 && low[nob - 1] == 7);
	return (int)(high - (const char *)low);
}

/* Blocks here and below, in any order; without memory, or with. */
static NOINLINE void reserves(int nob, int none)
{
	volatile char *high = alloca(16);
	int more = block_below((char *)high, nob, 0);
	long fail = t.t_fail;
	int rc;

	asked = asks();
	rc = usched_reserve(more);
	CHECK(rc == 0 || (rc == -ENOMEM && asked + 1 == asks()));
	if (rc != 0) {
		t.t_fail = 0;
		CHECK_IS(usched_reserve(more), 0);
	}
	asked = asks();
	t.t_fail = none ? 1 : 0;
	t.t_fail_all = 1;
	(void)block_below((char *)high, 16, 1);
	CHECK(usched_reserve(more) == 0 && usched_reserve(more / 2) == 0);
	(void)block_below((char *)high, nob, 1);
	(void)block_below((char *)high, 16, 1);
	(void)block_below((char *)high, nob / 2 + 1, 1);
	(void)block_below((char *)high, nob, 1);
	CHECK_IS(asked, asks());
	t.t_fail = fail;
	high[0] = 0;
}

static NOINLINE void reserves_below(int above, int nob, int none)
{
	volatile char *space = alloca(above);

	space[0] = 0;
	reserves(nob, none);
}

static void reserver(void *arg)
{
	static const int above[] = { 16, 100, 3000, 5000, 70000, 8 };
	static const int nob[] = { 16, 40, 500, 1500 };
	int i, j, k;

	for (i = 0; i < COUNT(above); i++)
		for (j = 0; j < COUNT(above); j++)
			for (k = 0; k < COUNT(nob); k++) {
				with(above[i], 9);
				reserves_below(above[j], nob[k], k & 1);
			}
	ended++;
}

/* Shares lanes. It has its buffer when reserver() has blocked once. */
static void neighbour(void *arg)
{
	while (ended == 0)
		tiny_yield();
}

static void reservations(int lanes, int nr)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	ended = 0;
	memset(tt, 0, sizeof tt);
	for (i = 0; i < nr; i++)
		tiny_start(&t, &tt[i], i == 0 ? reserver : neighbour, NULL);
	tiny_run(&t);
	CHECK_IS(ended, 1);
	tiny_fini(&t);
}

/* Without memory, nothing changes. */
static void refused(void *arg)
{
	struct state before[NR], after[NR];
	int i;

	for (i = 0; i < 2; i++) {
		look(before);
		t.t_fail = 1;
		t.t_fail_all = 1;
		CHECK_IS(usched_reserve(1000), -ENOMEM);
		t.t_fail = 0;
		look(after);
		CHECK(memcmp(before, after, sizeof before) == 0);
		intact();
		with(i == 0 ? 100 : 20000, 1);	/* too short, then too long */
	}
	ended++;
}

static void refusals(int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	ended = 0;
	memset(tt, 0, sizeof tt);
	tiny_start(&t, &tt[0], refused, NULL);
	tiny_run(&t);
	CHECK_IS(ended, 1);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, NR };
	int i, len;

	check_start(argc, argv);
	failures(0);
	failures(200);			/* fits some of the slices */
	failures(3 * SLACK);		/* is freed for a smaller buffer */
	for (i = 0; i < COUNT(lanes); i++) {
		sizes(lanes[i]);
		first_buffer_fits(lanes[i]);
		reservations(lanes[i], 1);
		reservations(lanes[i], NR);
		refusals(lanes[i]);
		for (len = 1; len < 700; len += 1 + len / 100)
			first_buffer(lanes[i], len);
		first_buffer(lanes[i], 60000);
	}
	return 0;
}
