/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * self: ustack_self() and usched_self() return the thread and the dispatcher
 * that run now, also twice in a function between which that has changed, so the
 * compiler must read again. In s_next() and s_done(), where no thread runs,
 * they are NULL; in the other call-backs they are those of the thread.
 */
#include "tiny.h"
#include <setjmp.h>

static struct tiny outer, inner;
static struct tiny_thread tt[4];
static long alloc_nr, next_nr, done_nr, again_nr;

/* Call-backs. */

static struct ustack *next(struct usched *s)
{
	CHECK(ustack_self() == NULL && usched_self() == NULL);
	next_nr++;
	return tiny_next(s);
}

static void done(struct usched *s, struct ustack *u)
{
	CHECK(ustack_self() == NULL && usched_self() == NULL);
	done_nr++;
	tiny_done(s, u);
}

static void *alloc(struct usched *s, int size)
{
	CHECK(ustack_self()->u_sched == s && usched_self() == s);
	alloc_nr++;
	return tiny_alloc(s, size);
}

static void release(struct usched *s, void *buf, int size)
{
	if (ustack_self() != NULL)
		CHECK(ustack_self()->u_sched == s && usched_self() == s);
	tiny_free(s, buf, size);
}

static int not_again(struct usched *s, struct ustack *u)
{
	CHECK(ustack_self() == u && usched_self() == s);
	again_nr++;
	return 0;
}

static int start(struct tiny *t, int lanes)
{
	int rc = tiny_init(t, lanes);

	t->t_sched.s_next  = next;
	t->t_sched.s_alloc = alloc;
	t->t_sched.s_free  = release;
	t->t_sched.s_done  = done;
	t->t_sched.s_again = not_again;
	return rc;
}

static void yields(void *arg)
{
	struct tiny_thread *me = (struct tiny_thread *)arg;
	struct usched *s = me->tt_stack.u_sched;
	int i;

	for (i = 0; i < 3; i++) {
		CHECK(tiny_self() == me && usched_self() == s);
		tiny_yield();
		CHECK(tiny_self() == me && usched_self() == s);
	}
}

/* The same function asks before, inside and after: outside, and in a thread. */
static NOINLINE void runs(struct tiny *t, int lanes)
{
	struct ustack *u = ustack_self();
	struct usched *s = usched_self();
	int i;

	start(t, lanes);
	for (i = 0; i < 2; i++)
		tiny_start(t, &tt[2 * (t == &inner) + i], yields,
			   &tt[2 * (t == &inner) + i]);
	tiny_run(t);
	CHECK(ustack_self() == u && usched_self() == s);
	t->t_stop = t->t_rounds + 1;
	tiny_run(t);				/* nothing runs */
	CHECK(ustack_self() == u && usched_self() == s);
	CHECK(t->t_live == 0 && t->t_held == 0);
	usched_fini(&t->t_sched);
}

static void nested(void *arg)
{
	struct ustack *me = ustack_self();

	runs(&inner, *(int *)arg);
	CHECK(ustack_self() == me && usched_self() == &outer.t_sched);
	tiny_yield();
	runs(&inner, *(int *)arg);
	CHECK(ustack_self() == me && usched_self() == &outer.t_sched);
}

static void in_threads(int lanes)
{
	static struct tiny_thread mine[2];
	int i;

	if (start(&outer, lanes) != 0)
		return;
	for (i = 0; i < 2; i++)
		tiny_start(&outer, &mine[i], nested, &lanes);
	tiny_run(&outer);
	CHECK(ustack_self() == NULL && usched_self() == NULL);
	tiny_fini(&outer);
}

/*
 * A thread moves from one dispatcher to the other, in the middle of a function.
 * Both dispatchers run on this native thread, one after the other.
 */
static int moved;

static void moves(void *arg)
{
	struct ustack *me = ustack_self();
	struct usched *s = usched_self();
	int i;

	CHECK_IS(s, &outer.t_sched);
	for (i = 0; i < 4; i++) {
		CHECK_IS(usched_block(), 0);
		CHECK_THAT(usched_self(), !=, s);
		CHECK(usched_self() == me->u_sched && ustack_self() == me);
		s = usched_self();
		moved++;
	}
}

static void moved_between(void)
{
	struct tiny *t[] = { &outer, &inner };
	struct ustack *u = &tt[0].tt_stack;
	int i;

	if (start(&outer, 2) != 0)
		return;
	start(&inner, 0);
	CHECK_IS(usched_lanes_share(&inner.t_sched, &outer.t_sched), 0);
	tiny_start(&outer, &tt[0], moves, NULL);
	u->u_lane = 1;
	for (i = 0; i < 5; i++) {
		if (i > 0) {
			u->u_sched = &t[i % 2]->t_sched;
			tiny_wake(&tt[0]);
		}
		t[i % 2]->t_head = &tt[0];
		tiny_run(t[i % 2]);
		t[i % 2]->t_head = NULL;
		CHECK_IS(moved, i < 4 ? i : 4);
	}
	usched_fini(&inner.t_sched);
	tiny_fini(&outer);
}

/* A jump leaves a thread: usched_left() says that no thread runs. */
static jmp_buf back;

static void jumps(void *arg)
{
	CHECK_IS(usched_self(), &outer.t_sched);
	longjmp(back, 1);
}

static NOINLINE void left(int lanes)
{
	if (start(&outer, lanes) != 0)
		return;
	tiny_start(&outer, &tt[0], jumps, NULL);
	CHECK_IS(usched_self(), NULL);
	if (setjmp(back) == 0)
		tiny_run(&outer);
	CHECK(usched_self() == &outer.t_sched && ustack_self() != NULL);
	usched_left(&outer.t_sched);
	CHECK(usched_self() == NULL && ustack_self() == NULL);
	outer.t_live = 0;
	tiny_drop(&tt[0].tt_stack);
	tiny_fini(&outer);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 4 };
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(lanes); i++) {
		if (lanes[i] != 0 && !tiny_has_lanes())
			break;
		runs(&outer, lanes[i]);
		in_threads(lanes[i]);
		left(lanes[i]);
	}
	moved_between();
	CHECK(alloc_nr > 0 && next_nr > 0 && done_nr > 0);
	return 0;
}
