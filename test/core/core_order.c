/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * core_order: s_next() and s_done() run on the dispatcher's stack, outside of
 * threads. s_alloc() and s_free() run on the stack of the thread that blocks,
 * as that thread (usched I6).
 */
#include "tiny.h"

#define NR	20
#define NEAR	(64 << 10)

static struct tiny t;
static struct tiny_thread tt[NR];
static char *base;			/* in the caller of usched_run() */
static struct ustack *blocks;		/* the thread that blocks */
static char *where;			/* an address in its frame */
static long calls[4];

/* Tells whether we are below x, and not far. */
static int below(const char *x)
{
	char here;
	ptrdiff_t nob = (intptr_t)x - (intptr_t)&here;

	return nob > 0 && nob < NEAR;
}

static struct ustack *next(struct usched *s)
{
	CHECK(below(base));
	CHECK_IS(ustack_self(), NULL);
	calls[0]++;
	blocks = NULL;
	return tiny_next(s);
}

static void done(struct usched *s, struct ustack *u)
{
	CHECK(below(base));
	CHECK_IS(ustack_self(), NULL);
	calls[1]++;
	tiny_done(s, u);
}

static void *alloc(struct usched *s, int size)
{
	CHECK(below(where));
	CHECK(ustack_self() == blocks && blocks != NULL);
	calls[2]++;
	return tiny_alloc(s, size);
}

static void release(struct usched *s, void *buf, int size)
{
	CHECK(below(where));
	CHECK(ustack_self() == blocks && blocks != NULL);
	calls[3]++;
	tiny_free(s, buf, size);
}

static NOINLINE void deep(int depth)
{
	char here[200];

	memset(here, depth, sizeof here);
	if (depth > 0) {
		deep(depth - 1);
	} else {
		blocks = ustack_self();
		where = here;
		tiny_yield();
	}
	CHECK(here[0] == depth && here[199] == depth);
}

static void thread(void *arg)
{
	int i;

	CHECK_IS(ustack_self(), (struct ustack *)arg);
	for (i = 0; i < 5; i++) {
		deep(i);
		CHECK_IS(ustack_self(), (struct ustack *)arg);
	}
}

static void in_lane(const struct ustack *u, const char *here)
{
	const struct usched_lane *l = &t.t_sched.s_lane[u->u_lane];

	if (t.t_sched.s_lane_nr > 0)
		CHECK(u->u_lane > 0 && here >= l->l_low && here < l->l_bottom);
	else
		CHECK(u->u_lane == 0 && below(base));
}

static void look(void *arg)
{
	char here = 0;

	in_lane((struct ustack *)arg, &here);
	thread(arg);
	in_lane((struct ustack *)arg, &here);
}

static void with_lanes(int lanes)
{
	char here = 0;
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_sched.s_next  = next;
	t.t_sched.s_done  = done;
	t.t_sched.s_alloc = alloc;
	t.t_sched.s_free  = release;
	base = &here;
	memset(calls, 0, sizeof calls);
	for (i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], look, &tt[i]);
	tiny_run(&t);
	CHECK(calls[0] == NR * 6 + 1 && calls[1] == NR);
	CHECK(calls[2] >= NR && calls[3] >= NR);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	with_lanes(0);
	with_lanes(1);
	with_lanes(5);
	with_lanes(NR);
	return 0;
}
