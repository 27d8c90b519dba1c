/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/* LIBS: -lm */
/*
 * left: a longjmp() may leave usched_run() from each call-back, from a
 * thread, and from a handler that has interrupted it. After usched_left() the
 * dispatcher and ustack_self() are right again. The thread that ran has ended;
 * the others go on with all their data (usched I8). Of nested dispatchers the
 * inner one or both may be left. Without usched_left() the next use of the
 * dispatcher ends the program with a message.
 */
#undef _FORTIFY_SOURCE		/* a jump to another lane may go down */
#include "tiny.h"
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>

#define NR	12
#define TRIPS	8

enum place { IN_NEXT, IN_ALLOC, IN_FREE, IN_DONE, IN_AGAIN, IN_THREAD,
	     IN_HANDLER, ON_ALTERNATE, PLACES };

static struct tiny t, in;
static struct tiny_thread tt[NR], tn[NR];
static sigjmp_buf out, middle;
static sigjmp_buf *to;			/* where the next jump goes */
static enum place place;
static int jumps;			/* jump after this many visits, or 0 */
static int left;			/* jumps so far */
static int runs;			/* runs that hooks saw begin, not end */
static int agains;
static struct ustack *jumper;		/* the thread that ran, or NULL */
static struct ustack *last;		/* the thread that the hook has found */

static void jump(void)
{
	left++;
	jumper = ustack_self();
	siglongjmp(*to, 1);
}

static void visit(enum place here)
{
	if (here == place && jumps > 0 && --jumps == 0)
		jump();
}

static struct ustack *next(struct usched *s)
{
	visit(IN_NEXT);
	return tiny_next(s);
}

static void *alloc(struct usched *s, int size)
{
	visit(IN_ALLOC);
	return tiny_alloc(s, size);
}

static void release(struct usched *s, void *buf, int size)
{
	tiny_free(s, buf, size);
	visit(IN_FREE);
}

static void done(struct usched *s, struct ustack *u)
{
	tiny_done(s, u);
	visit(IN_DONE);
}

static int again(struct usched *s, struct ustack *u)
{
	agains++;
	visit(IN_AGAIN);
	return 0;
}

static void handler(int signo)
{
	visit(signo == SIGUSR1 ? IN_HANDLER : ON_ALTERNATE);
}

static void begins(struct usched *s)
{
	runs++;
}

static void ends(struct usched *s)
{
	last = ustack_self();
	CHECK(jumper == NULL || last != jumper || last->u_sched == s);
	runs--;
}

/* Has a smaller frame each time, so that buffers are replaced. */
static NOINLINE void keep(int depth, unsigned p)
{
	unsigned char array[1500];
	size_t i;

	for (i = 0; i < sizeof array; i++)
		array[i] = (unsigned char)(p + depth + i);
	if (depth > 0)
		keep(depth - 1, p);
	else {
		visit(IN_THREAD);
		raise(SIGUSR1);
		raise(SIGUSR2);
		tiny_yield();
	}
	for (i = 0; i < sizeof array; i++)
		CHECK_IS(array[i], (unsigned char)(p + depth + i));
}

static void thread(void *arg)
{
	unsigned p = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	int i;

	for (i = 0; i < TRIPS; i++) {
		keep((int)((p >> i) % 8), p + i);
		CHECK_IS(ustack_self()->u_arg, arg);
	}
}

static void init(struct tiny *d, int lanes)
{
	CHECK_IS(tiny_init(d, lanes), 0);
	d->t_sched.s_next  = next;
	d->t_sched.s_alloc = alloc;
	d->t_sched.s_free  = release;
	d->t_sched.s_done  = done;
	d->t_sched.s_again = again;
}

static void start(struct tiny *d, struct tiny_thread *th)
{
	int i;

	for (i = 0; i < NR; i++)
		tiny_start(d, &th[i], thread, &th[i]);
}

/* Does what a scheduler has to do for a thread that was left. */
static void bury(struct ustack *u)
{
	struct tiny *d = (struct tiny *)u->u_sched;

	CHECK_IS(((struct tiny_thread *)u)->tt_done, 0);
	d->t_yields = NULL;
	ustack_fini(u);
	ustack_fini(u);
	tiny_drop(u);
	d->t_live--;
}

static int of(struct tiny *d)
{
	return jumper != NULL && jumper->u_sched == &d->t_sched;
}

/* Checks that no thread is in a lane, or bound to it. */
static void empty(const struct tiny *d)
{
	int i;

	for (i = 0; i <= d->t_sched.s_lane_nr; i++) {
		CHECK_IS(d->t_sched.s_lane[i].l_bound, 0);
		CHECK_IS(d->t_sched.s_lane[i].l_owner, NULL);
	}
}

/* Runs d to its end, although it is left again and again. */
static NOINLINE void run(struct tiny *d)
{
	struct ustack *self = ustack_self();
	volatile int round = fegetround();

	while (d->t_live > 0) {
		jumps = place == IN_DONE || place == IN_AGAIN ? 3 : 7;
		to = &out;
		jumper = NULL;
		if (sigsetjmp(out, 1) == 0) {
			usched_run(&d->t_sched);
			CHECK_IS(jumper, NULL);
		} else {
			usched_left(&d->t_sched);
			CHECK_IS(last, jumper);
			if (jumper != NULL)
				bury(jumper);
		}
		CHECK(ustack_self() == self && runs == 0);
		CHECK_IS(fegetround(), round);
		usched_left(&d->t_sched);	/* a second time: no effect */
	}
	empty(d);
	tiny_fini(d);
}

static void each_place(int lanes)
{
	for (place = 0; place < PLACES; place++) {
		left = agains = 0;
		tiny_shares = place == IN_ALLOC || place == IN_FREE;
		init(&t, lanes);
		tiny_shares = 0;
		start(&t, tt);
		run(&t);
		CHECK(left > 0 || (place == IN_AGAIN && agains == 0));
	}
}

/* Leaves where s_alloc() fails for the first time, as in the article. */
static void article(int lanes)
{
	int i;

	place = IN_ALLOC;
	tiny_shares = 1;		/* else only one thread needs one */
	init(&t, lanes);
	tiny_shares = 0;
	start(&t, tt);
	jumps = 2;
	to = &out;
	if (sigsetjmp(out, 1) != 0) {
		usched_left(&t.t_sched);
		CHECK(jumper == &tt[1].tt_stack && ustack_self() == NULL);
		bury(jumper);
	}
	usched_run(&t.t_sched);
	for (i = 0; i < NR; i++)
		CHECK_IS(tt[i].tt_done, i != 1);
	tiny_fini(&t);
}

static void rounds(void *arg)
{
	CHECK_IS(fegetround(), FE_TONEAREST);
	CHECK_IS(fesetround(FE_UPWARD), 0);
	if (arg != NULL)
		tiny_yield();
	jump();
}

/* Control words are those of the caller, not of the thread that jumped. */
static void control_words(int lanes, void *arg)
{
	place = IN_THREAD;
	init(&t, lanes);
	tiny_start(&t, &tt[0], rounds, arg);
	tiny_start(&t, &tt[1], thread, NULL);
	run(&t);
	CHECK_IS(fegetround(), FE_TONEAREST);
}

/* Nested. */

/* A thread of t: runs `in', and is the target of a jump out of that. */
static void pump(void *arg)
{
	struct ustack *self = ustack_self();
	unsigned char array[64];

	memset(array, (int)(uintptr_t)arg, sizeof array);
	jumps = 9;
	to = &middle;
	if (sigsetjmp(middle, 1) == 0)
		usched_run(&in.t_sched);
	else {
		usched_left(&in.t_sched);
		if (of(&in))
			bury(jumper);
	}
	CHECK_IS(ustack_self(), self);
	tiny_yield();
	CHECK(ustack_self() == self && array[63] == (unsigned char)(uintptr_t)arg);
	if (in.t_live == 0)
		return;
	/* Now leaves both. */
	jumps = 3;
	to = &out;
	usched_run(&in.t_sched);
	CHECK_IS(in.t_live, 0);
}

static NOINLINE void run_both(int pumps)
{
	int i;

	while (t.t_live > 0 || in.t_live > 0) {
		for (i = 0; i < pumps && t.t_live == 0; i++)
			tiny_start(&t, &tt[i], pump, (void *)(uintptr_t)i);
		jumper = NULL;
		if (sigsetjmp(out, 1) == 0)
			usched_run(&t.t_sched);
		else {
			usched_left(&t.t_sched);
			CHECK(of(&in) || place <= IN_DONE);
			if (of(&in))
				bury(jumper);
			bury(last);	/* the pump */
		}
		CHECK(ustack_self() == NULL && runs == 0);
	}
	empty(&in);
	empty(&t);
	tiny_fini(&in);
	tiny_fini(&t);
}

static void nested(int outer, int inner, int pumps)
{
	for (place = 0; place < PLACES; place++) {
		if (place == IN_AGAIN)
			continue;
		init(&t, outer);
		init(&in, inner);
		t.t_sched.s_next  = tiny_next;
		t.t_sched.s_alloc = tiny_alloc;
		t.t_sched.s_free  = tiny_free;
		t.t_sched.s_done  = tiny_done;
		start(&in, tn);
		run_both(pumps);
	}
}

/* Misuses that must die. */

static void leaves(void *arg)
{
	siglongjmp(out, 1);
}

/* Leaves t from the first thread; the second is blocked. */
static NOINLINE void leave(int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt[1], thread, NULL);
	tiny_start(&t, &tt[0], leaves, NULL);
	if (sigsetjmp(out, 1) == 0)
		usched_run(&t.t_sched);
}

static void run_other(int lanes)
{
	CHECK_IS(tiny_init(&in, 0), 0);
	if (tiny_init(&t, lanes) == -ENOSYS)
		CHECK_IS(tiny_init(&t, 0), 0);
	tiny_start(&t, &tt[0], leaves, NULL);
	if (sigsetjmp(out, 1) == 0)
		usched_run(&t.t_sched);
	usched_run(&in.t_sched);
}

static void die_run(void)		{ leave(0); usched_run(&t.t_sched); }
static void die_run_lanes(void)		{ leave(2); usched_run(&t.t_sched); }
static void die_fini(void)		{ leave(0); usched_fini(&t.t_sched); }
static void die_fini_lanes(void)	{ leave(2); usched_fini(&t.t_sched); }
static void die_forget(void)		{ leave(0); ustack_fini(&tt[0].tt_stack); }
static void die_other(void)		{ run_other(0); }
static void die_other_lanes(void)	{ run_other(2); }
static void die_block(void)		{ leave(0); (void)ustack_block(); }
static void die_block_lanes(void)	{ leave(2); (void)ustack_block(); }

static void die_again(void)
{
	leave(2);
	usched_left(&t.t_sched);
	tiny_wake(&tt[0]);
	usched_run(&t.t_sched);
}

static void lies(void *arg)
{
	usched_left(arg);
}

static void die_inside(void)
{
	if (tiny_init(&t, 1) == -ENOSYS)
		usched_fail("usched_left: called by a thread");
	tiny_start(&t, &tt[0], lies, &t.t_sched);
	usched_run(&t.t_sched);
}

static void *elsewhere(void *arg)
{
	usched_left(arg);
	return NULL;
}

static void die_elsewhere(void)
{
	pthread_t id;

	leave(0);
	CHECK_IS(pthread_create(&id, NULL, elsewhere, &t.t_sched), 0);
	(void)pthread_join(id, NULL);
}

static int deaths(void)
{
	static const struct {
		const char *d_name;
		void      (*d_f)(void);
		const char *d_words;
	} death[] = {
		{ "run", die_run, "usched_left() first" },
		{ "run, lanes", die_run_lanes, "usched_left() first" },
		{ "fini", die_fini, "usched_left() first" },
		{ "fini, lanes", die_fini_lanes, "usched_left() first" },
		{ "forget", die_forget, "usched_left() first" },
		{ "other", die_other, "usched_left() first" },
		{ "other, lanes", die_other_lanes, "usched_left() first" },
		{ "block", die_block, "without usched_left()" },
		{ "block, lanes", die_block_lanes, "without usched_left()" },
		{ "again", die_again, "returned a thread that has ended" },
		{ "inside", die_inside, "usched_left: called by a thread" },
		{ "elsewhere", die_elsewhere, "on another native thread" },
	};
	int i, failed = 0;

	for (i = 0; i < COUNT(death); i++)
		failed += check_dies(death[i].d_name, death[i].d_f,
				     death[i].d_words);
	return failed;
}

static void handlers(void)
{
	static char stack[65536];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction action = { .sa_handler = handler };

	CHECK_IS(sigaltstack(&alt, NULL), 0);
	CHECK_IS(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_flags = SA_ONSTACK;
	CHECK_IS(sigaction(SIGUSR2, &action, NULL), 0);
}

int main(int argc, char **argv)
{
	static struct usched_hook hook = { .h_begin = begins, .h_end = ends };
	static const int lanes[] = { 0, 1, 3, NR + 1 };
	int i, j, failed;

	check_start(argc, argv);
	handlers();
	failed = deaths();
	usched_hook(&hook);
	for (i = 0; i < (tiny_has_lanes() ? COUNT(lanes) : 1); i++) {
		article(lanes[i]);
		each_place(lanes[i]);
		control_words(lanes[i], NULL);
		control_words(lanes[i], &t);
		for (j = 0; j < (tiny_has_lanes() ? COUNT(lanes) : 1); j++) {
			nested(lanes[i], lanes[j], 1);
			if (lanes[j] > 0 || lanes[i] == 1)
				nested(lanes[i], lanes[j], 3);
		}
	}
	return failed != 0;
}
