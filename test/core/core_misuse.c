/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * core_misuse: each broken contract ends in usched_fail(), which names it on
 * standard error and aborts. An error that is returned has changed nothing.
 */
#include "tiny.h"

static struct tiny t, other;
static struct tiny_thread tt, tu;
static void (*deed)(void);

static void nothing(void *arg)
{
}

static void yield_once(void *arg)
{
	tiny_yield();
}

static void block_forever(void *arg)
{
	tiny_wait();
}

static void call_deed(void *arg)
{
	deed();
}

static void run_self(void)	{ tiny_run(&t); }
static void fini_sched(void)	{ usched_fini(&t.t_sched); }
static void block(void)		{ (void)ustack_block(); }
static void fini_self(void)	{ ustack_fini(ustack_self()); }

/* Runs a thread that calls f(), on lanes if there are any. */
static void in_thread(void (*f)(void), int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		CHECK_IS(tiny_init(&t, 0), 0);
	deed = f;
	tiny_start(&t, &tt, call_deed, NULL);
	tiny_run(&t);
}

static struct ustack *evil_next(struct usched *s)
{
	static int calls;

	if (calls++ > 0)
		deed();
	return tiny_next(s);
}

static void evil_done(struct usched *s, struct ustack *u)
{
	deed();
}

static void in_next(void (*f)(void), int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		CHECK_IS(tiny_init(&t, 0), 0);
	deed = f;
	t.t_sched.s_next = evil_next;
	tiny_start(&t, &tt, yield_once, NULL);
	tiny_run(&t);
}

static void in_done(void (*f)(void))
{
	CHECK_IS(tiny_init(&t, 0), 0);
	deed = f;
	t.t_sched.s_done = evil_done;
	tiny_start(&t, &tt, nothing, NULL);
	tiny_run(&t);
}

/* Misuses that must die. */

static void abort_outside(void)		{ ustack_abort(); }
static void block_in_next(void)		{ in_next(block, 0); }
static void block_in_next_lanes(void)	{ in_next(block, 1); }
static void abort_in_next(void)		{ in_next(ustack_abort, 0); }
static void block_in_done(void)		{ in_done(block); }
static void abort_in_done(void)		{ in_done(ustack_abort); }
static void run_in_next(void)		{ in_next(run_self, 0); }
static void run_in_done(void)		{ in_done(run_self); }
static void run_in_thread(void)		{ in_thread(run_self, 0); }
static void run_in_thread_lanes(void)	{ in_thread(run_self, 1); }
static void fini_running(void)		{ in_thread(fini_self, 0); }
static void fini_running_lanes(void)	{ in_thread(fini_self, 1); }
static void sched_fini_in_thread(void)	{ in_thread(fini_sched, 1); }
static void sched_fini_in_next(void)	{ in_next(fini_sched, 1); }

static void block_after_run(void)
{
	in_thread(ustack_abort, 1);
	(void)ustack_block();
}

static void next_ended(void)
{
	in_thread(ustack_abort, 1);
	tiny_wake(&tt);
	tiny_run(&t);
}

static void next_ended_native(void)
{
	in_thread(ustack_abort, 0);
	tiny_wake(&tt);
	tiny_run(&t);
}

static void next_finished(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt, block_forever, NULL);
	tiny_run(&t);
	ustack_fini(&tt.tt_stack);
	tiny_wake(&tt);
	tiny_run(&t);
}

static void next_finished_new(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt, block_forever, NULL);
	ustack_fini(&tt.tt_stack);
	tiny_run(&t);
}

static struct ustack *next_other_thread(struct usched *s)
{
	return &tu.tt_stack;
}

static void next_other(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	CHECK_IS(tiny_init(&other, 0), 0);
	tiny_start(&other, &tu, nothing, NULL);
	t.t_sched.s_next = next_other_thread;
	tiny_run(&t);
}

static void run_nested(void)
{
	tiny_start(&other, &tu, call_deed, NULL);
	deed = run_self;
	tiny_run(&other);
}

static void run_outer_from_inner(void)
{
	CHECK_IS(tiny_init(&other, 0), 0);
	in_thread(run_nested, 0);
}

static void no_next(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	t.t_sched.s_next = NULL;
	tiny_run(&t);
}

static void no_alloc(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	t.t_sched.s_alloc = NULL;
	tiny_run(&t);
}

static void no_free(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	t.t_sched.s_free = NULL;
	tiny_run(&t);
}

static void init_no_f(void)
{
	ustack_init(&tt.tt_stack, &t.t_sched, NULL, NULL, NULL, 0);
}

static void init_len(void)
{
	ustack_init(&tt.tt_stack, &t.t_sched, nothing, NULL, NULL, 100);
}

static void init_negative(void)
{
	ustack_init(&tt.tt_stack, &t.t_sched, nothing, NULL, &tt, -1);
}

static void lane(int nr, int lane)
{
	if (tiny_init(&t, nr) == -ENOSYS)
		CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt, nothing, NULL);
	tt.tt_stack.u_lane = (short)lane;
	tiny_run(&t);
}

static void lane_3_of_2(void)		{ lane(2, 3); }
static void lane_1_of_none(void)	{ lane(0, 1); }
static void lane_negative(void)		{ lane(2, -1); }
static void lane_negative_native(void)	{ lane(0, -1); }
static void lane_far(void)		{ lane(2, 32767); }
static void lane_far_native(void)	{ lane(0, 32767); }
static void lane_far_negative(void)	{ lane(2, -32768); }

#define DEATH(f, contract)	{ #f, f, contract }

static const struct death {
	const char *d_name;
	void      (*d_f)(void);
	const char *d_contract;
} death[] = {
	DEATH(block, "ustack_block: called outside"),
	DEATH(abort_outside, "ustack_abort: called outside"),
	DEATH(block_after_run, "ustack_block: called outside"),
	DEATH(block_in_next, "ustack_block: called outside"),
	DEATH(block_in_next_lanes, "ustack_block: called outside"),
	DEATH(abort_in_next, "ustack_abort: called outside"),
	DEATH(block_in_done, "ustack_block: called outside"),
	DEATH(abort_in_done, "ustack_abort: called outside"),
	DEATH(run_in_next, "usched_run: "),
	DEATH(run_in_done, "usched_run: "),
	DEATH(run_in_thread, "usched_run: "),
	DEATH(run_in_thread_lanes, "usched_run: "),
	DEATH(run_outer_from_inner, "usched_run: "),
	DEATH(fini_running, "ustack_fini: "),
	DEATH(fini_running_lanes, "ustack_fini: "),
	DEATH(sched_fini_in_thread, "usched_fini: "),
	DEATH(sched_fini_in_next, "usched_fini: "),
	DEATH(next_ended, "s_next: "),
	DEATH(next_ended_native, "s_next: "),
	DEATH(next_finished, "s_next: "),
	DEATH(next_finished_new, "s_next: "),
	DEATH(next_other, "s_next: "),
	DEATH(no_next, "usched_run: "),
	DEATH(no_alloc, "usched_run: "),
	DEATH(no_free, "usched_run: "),
	DEATH(init_no_f, "ustack_init: "),
	DEATH(init_len, "ustack_init: "),
	DEATH(init_negative, "ustack_init: "),
	DEATH(lane_3_of_2, "s_next: "),
	DEATH(lane_1_of_none, "s_next: "),
	DEATH(lane_negative, "s_next: "),
	DEATH(lane_negative_native, "s_next: "),
	DEATH(lane_far, "s_next: "),
	DEATH(lane_far_native, "s_next: "),
	DEATH(lane_far_negative, "s_next: ")
};

/* Errors that are returned. */

static void lanes_busy(void)
{
	CHECK_IS(usched_lanes(&t.t_sched, 2, TINY_LANE), -EBUSY);
}

/* With lanes or without, as before, a thread still blocks and ends. */
static void still_works(void)
{
	tiny_start(&t, &tu, yield_once, NULL);
	tiny_run(&t);
	CHECK_IS(tu.tt_done, 1);
}

static void lanes_invalid(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	CHECK_IS(usched_lanes(&t.t_sched, 0, TINY_LANE), -EINVAL);
	CHECK_IS(usched_lanes(&t.t_sched, -1, TINY_LANE), -EINVAL);
	CHECK_IS(usched_lanes(&t.t_sched, USCHED_LANE_MAX + 1, TINY_LANE),
		 -EINVAL);
	CHECK_IS(usched_lanes(&t.t_sched, 1, 0), -EINVAL);
	CHECK_IS(usched_lanes(&t.t_sched, 1, (size_t)-1), -EINVAL);
	CHECK_IS(usched_lanes(&t.t_sched, 1, (size_t)-4096), -EINVAL);
	still_works();
	tiny_fini(&t);
}

static void lanes_errors(void)
{
	struct rlimit rl, old;
	int i;

	CHECK_IS(tiny_init(&t, 1), 0);
	CHECK_IS(getrlimit(RLIMIT_AS, &old), 0);
	rl = old;
	rl.rlim_cur = 1 << 30;
	CHECK_IS(setrlimit(RLIMIT_AS, &rl), 0);
	i = usched_lanes(&t.t_sched, 16, 256 << 20);
	CHECK(i == -ENOMEM || i == 0);		/* 0: emulators have no limit */
	CHECK_IS(t.t_sched.s_lane_nr, i == 0 ? 16 : 1);
	CHECK_IS(setrlimit(RLIMIT_AS, &old), 0);
	still_works();
	in_thread(lanes_busy, 0);
	in_thread(lanes_busy, 2);
	tiny_fini(&t);
	in_next(lanes_busy, 1);
	tiny_fini(&t);
}

/*
 * usched_lanes() fails while threads are blocked, and works when they are gone.
 */
static void lanes_threads(int lanes)
{
	CHECK_IS(tiny_init(&t, lanes), 0);
	tiny_start(&t, &tt, block_forever, NULL);
	tiny_run(&t);
	CHECK_IS(usched_lanes(&t.t_sched, 2, TINY_LANE), -EBUSY);
	CHECK_IS(t.t_sched.s_lane_nr, lanes);
	if (lanes > 0)
		still_works();
	ustack_fini(&tt.tt_stack);
	tiny_drop(&tt.tt_stack);
	t.t_live--;
	CHECK_IS(usched_lanes(&t.t_sched, 2, TINY_LANE), 0);
	still_works();
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	int i, failed = 0;

	check_start(argc, argv);
	for (i = 0; i < COUNT(death); i++)
		failed += check_dies(death[i].d_name, death[i].d_f,
				     death[i].d_contract);
	lanes_invalid();
	if (tiny_init(&t, 1) == 0) {
		tiny_fini(&t);
		lanes_errors();
		lanes_threads(0);
		lanes_threads(1);
	}
	return failed != 0;
}
