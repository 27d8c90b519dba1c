/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * law_orders: no order of blocks, ends, forgotten threads and trims makes the check
 * of the law accuse a thread, changes what a thread finds on its stack, or
 * leaves a word behind (law F1, F2, F4): all short orders for three threads on
 * one lane and on two, by runs and by steps, and long orders at random. A write
 * to the place of a thread that is away and alone is found in each of these
 * states, and any access to a lane that is shut: with the handler of faults the
 * first lanes are (law F5), or all with -DUSCHED_LAW_STORM=2. Whether there is
 * that handler is read from the environment with the first lanes, and never
 * again.
 */
#include "check.h"
#include "usched.h"

#define NR	3
#define SHORT	4		/* operations of each short order */
#define LONG	60
#define SIZE	((size_t)64 << 10)
#define NEAR	40		/* words that are looked at, of each lane */

enum { SHALLOW, DEEP, END, FORGET, KINDS };	/* what a thread does */
#define OPS	(NR * KINDS * 2 + 1)		/* by a run, by a step; a trim */

#if defined(USCHED_HARD)
#define CHECKED	0		/* it evicts by rules of its own */
#else
#define CHECKED	1
#endif

static struct usched s;
static struct ustack u[NR], *chosen;
static int state[NR];			/* 0: new, 1: blocked */
static int kind[NR];			/* of its next leg */
static long soles;			/* states with a lane that waits */
static long shuts;			/* and it is shut */

static struct ustack *next(struct usched *sched)
{
	struct ustack *t = chosen;

	chosen = NULL;
	return t;
}

static void *get(struct usched *sched, int size)
{
	return malloc((size_t)size);
}

static void put(struct usched *sched, void *buf, int size)
{
	free(buf);
}

static NOINLINE void block_deep(int i)
{
	volatile int frame[50];
	int j;

	for (j = 0; j < COUNT(frame); j++)
		frame[j] = i + j;
	CHECK_IS(ustack_block(), 0);
	for (j = 0; j < COUNT(frame); j++)
		CHECK_IS(frame[j], i + j);
}

static void body(void *arg)
{
	volatile int local = 1000;
	int i = (int)((int *)arg - kind);

	local += i;
	while (kind[i] != END) {
		if (kind[i] == DEEP)
			block_deep(i);
		else
			CHECK_IS(ustack_block(), 0);
		CHECK_IS(local, 1000 + i);
	}
}

static void fresh(int i)
{
	free(u[i].u_stack);
	ustack_init(&u[i], &s, body, &kind[i], NULL, 0);
	state[i] = 0;
}

/* Is there a word in the lane, near the bottom, that a check has left? */
__attribute__((no_sanitize("address")))
static int is_left(const struct usched_lane *l)
{
	const uintptr_t *at = (const uintptr_t *)l->l_bottom;
	int i, found = 0;

	for (i = 1; i <= NEAR; i++)
		found |= at[-i] == (uintptr_t)USCHED_LAW_FILL;
	return found;
}

static void look(void)
{
	int i;

	for (i = 1; i <= s.s_lane_nr; i++) {
		const struct usched_lane *l = &s.s_lane[i];

		CHECK(!l->l_sole || l->l_owner == NULL);	/* law F1 */
		CHECK(!l->l_shut || l->l_sole);			/* law F5 */
		CHECK(l->l_sole || !CHECKED || !is_left(l));	/* law F4 */
		soles += l->l_sole;
		shuts += l->l_shut;
	}
}

static void operate(int op)
{
	int i = op / (KINDS * 2), what = op / 2 % KINDS;

	if (op == OPS - 1) {
		usched_trim(&s, 0);
		look();
		return;
	}
	if (what == FORGET) {
		ustack_fini(&u[i]);
		fresh(i);
		return;
	}
	kind[i] = what;
	if (op % 2 == 0)
		usched_step(&u[i]);
	else {
		chosen = &u[i];
		usched_run(&s);
	}
	if (what == END)
		fresh(i);
	else
		state[i] = 1;
	look();
}

static void begin(int lanes)
{
	int i;

	memset(&s, 0, sizeof s);
	memset(u, 0, sizeof u);
	s.s_next  = next;
	s.s_alloc = get;
	s.s_free  = put;
	if (usched_lanes(&s, lanes, SIZE) == -ENOSYS)
		check_skip("no lanes in this build");
	for (i = 0; i < NR; i++)
		fresh(i);
}

static void end(void)
{
	int i;

	for (i = 0; i < NR; i++) {
		ustack_fini(&u[i]);
		free(u[i].u_stack);
		u[i].u_stack = NULL;
	}
	usched_fini(&s);
}

/* Forgets all, but keeps the lanes. */
static void again(void)
{
	int i;

	for (i = 0; i < NR; i++) {
		ustack_fini(&u[i]);
		fresh(i);
	}
	for (i = 1; i <= s.s_lane_nr && CHECKED && s.s_lane[i].l_law < 60; i++)
		s.s_lane[i].l_law = 60;		/* all blocks are checked */
}

static void short_orders(int lanes)
{
	long order, all = 1, rest;
	int i;

	for (i = 0; i < SHORT; i++)
		all *= OPS;
	begin(lanes);
	for (order = 0; order < all; order++) {
		again();
		for (i = 0, rest = order; i < SHORT; i++, rest /= OPS)
			operate((int)(rest % OPS));
	}
	end();
}

static void long_orders(int lanes)
{
	unsigned random = check_seed;
	int i, j;

	for (i = 0; i < 300 || (i < 3000 && check_time(10)); i++) {
		begin(lanes);
		for (j = 0; j < LONG; j++)
			operate((int)(check_random(&random) % OPS));
		end();
	}
}

/* A trim drops the place of a slice that is longer than a page. */
static void long_slice(void *arg)
{
	volatile char frame[9000];
	int i;

	for (i = 0; i < COUNT(frame); i++)
		frame[i] = (char)i;
	CHECK_IS(ustack_block(), 0);
	for (i = 0; i < COUNT(frame); i++)
		CHECK_IS(frame[i], (char)i);
	*(int *)arg = 1;
}

static void trimmed(void)
{
	int done = 0;

	begin(1);
	ustack_init(&u[0], &s, long_slice, &done, NULL, 0);
	usched_step(&u[0]);
	look();
	usched_trim(&s, 0);
	usched_step(&u[0]);
	CHECK_IS(done, 1);
	end();
}

/* The place of a thread that is away is written to, and then it goes on. */
static int by_step, by_kind, by_guard;

static void broken(void)
{
	struct usched_lane *l;
	char *at;

	if (by_guard)
		(void)usched_guard_begin();
	begin(1);
	operate(by_kind * 2 + by_step);
	l = &s.s_lane[u[0].u_lane];
	CHECK(l->l_sole && l->l_shut == by_guard);
	at = (char *)((uintptr_t)u[0].u_top & ~(uintptr_t)7);
	at[l->l_bottom - at - 1] ^= 1;
	operate(SHALLOW * 2 + by_step);
}

/* All ways of broken(). Returns how many were not found. */
static int broken_all(void)
{
	int bad = 0;

	for (by_step = 0; by_step < 2; by_step++) {
		for (by_kind = SHALLOW; by_kind <= DEEP; by_kind++)
			bad += check_dies("a write", broken, by_guard ?
				"a native thread has used the stack of thread" :
				"its stack was written to");
	}
	return bad;
}

/* USCHED_GUARD was read with the first lanes, whatever a thread sets since then. */
static void guard_kept(void)
{
	static const char *const set[] = { "0", "by a later release" };
	struct sigaction now;
	void *guard;
	int i;

	for (i = 0; i < COUNT(set); i++) {
		CHECK_IS(setenv("USCHED_GUARD", set[i], 1), 0);
		guard = usched_guard_begin();
		CHECK_IS(sigaction(SIGSEGV, NULL, &now), 0);
		CHECK(!CHECKED || now.sa_flags & SA_SIGINFO);
		usched_guard_end(guard);
	}
	CHECK_IS(unsetenv("USCHED_GUARD"), 0);
}

int main(int argc, char **argv)
{
	void *guard;
	int lanes;

	check_start(argc, argv);
	trimmed();			/* first: it skips builds without lanes */
	for (by_guard = 0; by_guard < 2 && CHECKED; by_guard++)
		CHECK_IS(broken_all(), 0);
	guard_kept();
	guard = usched_guard_begin();
	trimmed();
	for (lanes = 1; lanes <= 2; lanes++) {
		short_orders(lanes);
		long_orders(lanes);
	}
	usched_guard_end(guard);
	CHECK((soles > 0) == CHECKED && (shuts > 0) == CHECKED);
	return 0;
}
