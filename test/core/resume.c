/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/* LIBS: -lm */
/*
 * resume: usched_step() and usched_enter() run one thread until it blocks or
 * ends, and say which. They work on lanes from any depth, from a thread of
 * another dispatcher, and between runs. They call neither s_next() nor
 * s_quick(), and leave prepared threads alone. Control words are kept on both
 * sides. If a longjmp() leaves the thread, it has ended.
 */
#include "tiny.h"
#include <fenv.h>
#include <setjmp.h>

#define NR	40
#define TRIPS	30

static int in_place;
static struct tiny t, in;
static struct tiny_thread tt[NR];
static long value, asked;

static NOINLINE int step(struct ustack *u)
{
	return in_place ? usched_enter(u) : usched_step(u);
}

static struct ustack *next(struct usched *s)
{
	asked++;
	return tiny_next(s);
}

/* Blocks below frames of some depth. */
static NOINLINE void give(int depth, long v)
{
	volatile unsigned char array[40];

	memset((void *)array, (int)v, sizeof array);
	if (depth > 0) {
		give(depth - 1, v);
	} else {
		value = v;
		tiny_wait();
	}
	CHECK_IS(array[3], (unsigned char)v);
}

static void generator(void *arg)
{
	struct tiny_thread *me = (struct tiny_thread *)arg;
	long i;

	CHECK_IS(ustack_self(), &me->tt_stack);
	CHECK_IS(usched_self(), me->tt_stack.u_sched);
	for (i = 0; i < TRIPS; i++)
		give((int)(i % 5), (me - tt) * TRIPS + i);
}

static void start(int lanes, void (*f)(void *))
{
	int i;

	CHECK_IS(tiny_init(&t, lanes), 0);
	t.t_sched.s_next = next;
	asked = 0;
	for (i = 0; i < NR; i++) {
		memset(&tt[i], 0, sizeof tt[i]);
		ustack_init(&tt[i].tt_stack, &t.t_sched, f, &tt[i], NULL, 0);
		t.t_live++;
	}
}

static void finish(void)
{
	CHECK(t.t_live == 0 && t.t_held == 0);
	usched_fini(&t.t_sched);
}

static NOINLINE int step_deep(struct tiny_thread *u, int depth)
{
	volatile char array[64];
	int rc;

	array[0] = (char)depth;
	rc = depth > 0 ? step_deep(u, depth - 1) : step(&u->tt_stack);
	CHECK_IS(array[0], (char)depth);
	return rc;
}

static struct ustack *quick(struct usched *s)
{
	CHECK(!"a step asks s_quick()");
	return NULL;
}

/* Steps all threads in turn: each goes on where it was. */
static void in_turn(int lanes)
{
	struct ustack *self = ustack_self();
	struct usched *sched = usched_self();
	int i, j;

	start(lanes, generator);
	t.t_sched.s_quick = quick;
	for (j = 0; j < TRIPS; j++) {
		for (i = 0; i < NR; i++) {
			int depth = lanes != 0 ? (i + j) % 7 : 0;

			CHECK_IS(step_deep(&tt[i], depth), 0);
			CHECK(value == i * TRIPS + j && tt[i].tt_done == 0);
			CHECK(ustack_self() == self && usched_self() == sched);
		}
	}
	for (i = 0; i < NR; i++) {
		CHECK_IS(step_deep(&tt[i], 0), 1);
		CHECK_IS(tt[i].tt_done, 1);
	}
	CHECK_IS(asked, 0);
	finish();
}

/*
 * The steps are made by a thread of another dispatcher, which blocks in
 * between.
 */
static void outer(void *arg)
{
	in_turn(9);
	tiny_yield();
	in_turn(1);
}

static void nested(void)
{
	struct tiny_thread two[2];

	CHECK_IS(tiny_init(&in, 3), 0);
	tiny_start(&in, &two[0], outer, NULL);
	tiny_run(&in);
	CHECK_IS(two[0].tt_done, 1);
	tiny_fini(&in);
}

/* A run, steps, a run. A thread that a step has woken waits for the run. */
static void waker(void *arg)
{
	tiny_wait();
	tiny_wake(&tt[1]);
	tiny_wait();
}

static void between_runs(void)
{
	int i;

	start(2, waker);
	for (i = 0; i < NR; i++)
		tiny_wake(&tt[i]);
	tiny_run(&t);
	CHECK(asked == NR + 1 && t.t_live == NR);
	CHECK_IS(step(&tt[0].tt_stack), 0);
	CHECK(t.t_head == &tt[1] && asked == NR + 1);
	tiny_run(&t);
	CHECK(asked == NR + 4 && t.t_head == NULL);	/* it wakes itself */
	CHECK_IS(tt[1].tt_done, 1);
	for (i = 0; i < NR; i++) {
		while (tt[i].tt_done == 0 && step(&tt[i].tt_stack) == 0)
			t.t_head = NULL;
	}
	finish();
}

/* s_hot and s_queue are used by runs only. */
static void at_hand(void)
{
	start(4, generator);
	t.t_sched.s_left = 5;
	t.t_sched.s_hot  = &tt[1].tt_stack;
	CHECK(step(&tt[0].tt_stack) == 0 && value == 0);
	CHECK(t.t_sched.s_hot == &tt[1].tt_stack && t.t_sched.s_left == 0);
	t.t_sched.s_hot = NULL;
	while (step(&tt[0].tt_stack) == 0)
		;
	t.t_live = 0;
	finish();
}

#if defined(FE_UPWARD) && defined(FE_DOWNWARD)

static void rounds(void *arg)
{
	CHECK_IS(fegetround(), FE_TONEAREST);
	tiny_wait();
	CHECK_IS(fesetround(FE_UPWARD), 0);
	tiny_wait();
	CHECK_IS(fegetround(), FE_UPWARD);
}

/* The caller has other control words than the threads, before and after. */
static void control_words(void)
{
	int i, j;

	start(2, rounds);
	CHECK_IS(step(&tt[0].tt_stack), 0);
	CHECK_IS(fesetround(FE_DOWNWARD), 0);
	for (j = 0; j < 3; j++) {
		for (i = 0; i < NR; i++) {
			if (tt[i].tt_done == 0)
				CHECK_IS(step(&tt[i].tt_stack), j == 2
					 - (i == 0));
			CHECK_IS(fegetround(), FE_DOWNWARD);
		}
	}
	CHECK_IS(fesetround(FE_TONEAREST), 0);
	finish();
}

#else

static void control_words(void)
{
}

#endif

static jmp_buf out;

static void jumps(void *arg)
{
	tiny_wait();
	longjmp(out, 1);
}

static void left(void)
{
	start(3, jumps);
	CHECK_IS(step(&tt[0].tt_stack), 0);
	CHECK_IS(step(&tt[1].tt_stack), 0);
	if (setjmp(out) == 0) {
		(void)step(&tt[0].tt_stack);
		CHECK(!"there is a jump");
	}
	usched_left(&t.t_sched);
	CHECK(ustack_self() == NULL && usched_self() == NULL);
	tiny_drop(&tt[0].tt_stack);
	if (setjmp(out) == 0) {
		tiny_wake(&tt[1]);
		tiny_run(&t);		/* by a run, not by a step */
		CHECK(!"there is a jump");
	}
	usched_left(&t.t_sched);
	tiny_drop(&tt[1].tt_stack);
	CHECK_IS(t.t_held, 0);
	usched_fini(&t.t_sched);
}

static void everything(void)
{
	in_turn(0);
	if (!tiny_has_lanes())
		return;
	in_turn(1);
	in_turn(7);
	in_turn(NR);
	nested();
	between_runs();
	at_hand();
	control_words();
	left();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	everything();
	in_place = 1;
	everything();
	return 0;
}
