/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * zeroed: a struct ustack that is all zero, except for a dispatcher and a
 * function, is a new thread, as after ustack_init(). It runs, blocks, takes a
 * first buffer or a lane, may be forgotten or aborted. Without a function, or
 * with a length but no buffer, it ends the program with a message.
 */
#include "tiny.h"

#define NR	20

static struct tiny t;
static struct tiny_thread tt[NR];
static int ran;

static void thread(void *arg)
{
	volatile char local[300];
	int i;

	for (i = 0; i < COUNT(local); i++)
		local[i] = (char)(i + (int)(uintptr_t)arg);
	for (i = 0; i < 5; i++)
		tiny_yield();
	for (i = 0; i < COUNT(local); i++)
		CHECK_IS(local[i], (char)(i + (int)(uintptr_t)arg));
	ran++;
}

static void at_once(void *arg)
{
	ran++;
	if (arg != NULL)
		ustack_abort();
}

static void fill(struct tiny_thread *th, void (*f)(void *), void *arg)
{
	*th = (struct tiny_thread) {
		.tt_stack = { .u_sched = &t.t_sched, .u_f = f, .u_arg = arg }
	};
	t.t_live++;
	tiny_wake(th);
}

static void fill_all(void (*f)(void *))
{
	int i;

	for (i = 0; i < NR; i++)
		fill(&tt[i], f, (void *)(uintptr_t)i);
}

static void run(int lanes)
{
	int i;

	ran = 0;
	CHECK_IS(tiny_init(&t, lanes), 0);
	fill_all(at_once);
	tiny_run(&t);
	fill_all(thread);
	for (i = 0; i < NR; i += 3) {
		tt[i].tt_stack.u_len   = 64 + 100 * i;
		tt[i].tt_stack.u_stack = tiny_alloc(&t.t_sched, 64 + 100 * i);
	}
	for (i = 0; i < NR && lanes > 0; i += 2)
		tt[i].tt_stack.u_lane = (short)(i % lanes + 1);
	tiny_run(&t);
	CHECK_IS(ran, 2 * NR);
	tiny_fini(&t);
}

/* Forgets threads before they have run, with lanes mapped or not yet. */
static void forget(int lanes)
{
	int i;

	CHECK_IS(tiny_init(&t, lanes), 0);
	for (i = 0; i < 2; i++) {
		ran = 0;
		fill_all(thread);
		ustack_fini(&tt[0].tt_stack);
		t.t_head = tt[0].tt_next;
		t.t_live--;
		tiny_run(&t);
		CHECK_IS(ran, NR - 1);
	}
	tiny_fini(&t);
}

/* Misuses that must die. */

static void die_function(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	fill(&tt[0], NULL, NULL);
	tiny_run(&t);
}

static void die_length(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	fill(&tt[0], thread, NULL);
	tt[0].tt_stack.u_len = 1000;
	tiny_run(&t);
}

static struct ustack *next_nothing(struct usched *s)
{
	memset(&tt[0], 0, sizeof tt[0]);
	return &tt[0].tt_stack;
}

static void die_dispatcher(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	t.t_sched.s_next = next_nothing;
	tiny_run(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 3, NR + 1 };
	int i, failed = 0;

	check_start(argc, argv);
	for (i = 0; i < (tiny_has_lanes() ? COUNT(lanes) : 1); i++) {
		run(lanes[i]);
		forget(lanes[i]);
	}
	failed += check_dies("function", die_function, "no function (u_f)");
	failed += check_dies("length", die_length, "length without a buffer");
	failed += check_dies("dispatcher", die_dispatcher, "another dispatcher");
	return failed != 0;
}
