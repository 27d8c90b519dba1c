/* SPDX-License-Identifier: MIT */
/* core_private: a thread that was promised a private lane has one, and stays there */
/* VARIANTS: core */
/* LIBS: -Wl,--wrap=mmap,--wrap=madvise,--wrap=mprotect */

/*
 * Its stack is never moved, nor given a buffer, in no mode: others write there
 * while it waits, at any depth. All private lanes can be promised, and no more.
 * A promise is used once: by a thread that begins, or that ustack_fini()
 * forgets; afterwards as many as before can be promised again, also lanes that
 * other dispatchers have left. Deep threads leave the lanes that were promised.
 * What the system refuses is refused with the promise; a thread that was
 * promised a lane begins, whatever is refused then. A thread without a promise
 * ends the program. (private PV1, PV2.)
 */
#include "tiny.h"
#include "grind.h"
#include "uslice.h"
#include <limits.h>
#include <sys/mman.h>

#define EACH	64			/* private lanes for each other one */
#define NR	(2 * EACH + 2)
#define DEEP	20000
#define GUARD_INSTALL	102		/* MADV_GUARD_INSTALL of Linux */

static struct tiny t, other;
static struct tiny_thread tt[NR];
static volatile int *local[NR];		/* on the stack of the thread */
static int no_mmap, no_guard;
static int lane_of[NR], begun, writers;

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	if (!no_mmap)
		return __real_mmap(at, nob, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

WRAP(int, madvise, void *at, size_t nob, int advice)
{
	if (!no_guard || advice != GUARD_INSTALL)
		return __real_madvise(at, nob, advice);
	errno = EINVAL;
	return -1;
}

WRAP(int, mprotect, void *at, size_t nob, int prot)
{
	if (!no_guard || nob != USCHED_GUARD)
		return __real_mprotect(at, nob, prot);
	errno = ENOMEM;
	return -1;
}

/* The address of the running thread's local is in local[] while it waits. */
static void waits(int i, volatile int *at)
{
	int round;

	local[i] = at;
	for (round = 1; round <= 4; round++) {
		tiny_yield();
		CHECK_IS(*at, writers > 0 ? round : 0);
	}
	local[i] = NULL;
}

static NOINLINE void waits_at(int i, int nob)
{
	volatile char *array = (volatile char *)alloca(nob);
	volatile int at = 0;

	array[0] = array[nob - 1] = (char)i;
	waits(i, &at);
	CHECK(array[0] == (char)i && array[nob - 1] == (char)i);
}

static void begin(int i)
{
	const struct ustack *u = ustack_self();

	CHECK(ustack_is_private(u) && u->u_lane > u->u_sched->s_lane_nr);
	lane_of[i] = u->u_lane;
	begun++;
}

static void waiter(void *arg)
{
	int i = (int)((struct tiny_thread *)arg - tt);

	begin(i);
	waits_at(i, 32);
	waits_at(i, i % 3 == 0 ? DEEP : 500);
	waits_at(i, 32);
	CHECK_IS(((struct tiny_thread *)arg)->tt_stack.u_stack, NULL);
}

/* Adds 1 to each local, while its thread waits. */
static void writer(void *arg)
{
	int i, round;

	CHECK(!ustack_is_private(ustack_self()));
	for (round = 0; round < 12; round++) {
		for (i = 0; i < NR; i++) {
			if (local[i] != NULL)
				++*local[i];
		}
		tiny_yield();
	}
	writers--;
}

/* Makes a writer in d, whose lane may be said. */
static void write_in(struct tiny *d, int lane)
{
	tiny_start(d, &tt[NR - 1], writer, NULL);
	tt[NR - 1].tt_stack.u_lane = (short)lane;
	writers++;
}

static void brief(void *arg)
{
	begin((int)((struct tiny_thread *)arg - tt));
}

/* Not promised: it shares a lane. */
static void shares(void *arg)
{
	CHECK(!ustack_is_private(ustack_self()));
	tiny_yield();
}

static void shares_the_first(void *arg)
{
	shares(arg);
	CHECK_IS(ustack_self()->u_lane, 1);
}

/* clang makes an array as small as what is used of it, if it can. */
static volatile int deep_nob = DEEP;

static NOINLINE void hold_deep(void)
{
	volatile char *array = (volatile char *)alloca(deep_nob);

	array[0] = array[DEEP - 1] = 1;
	tiny_yield();
	CHECK(array[0] == 1 && array[DEEP - 1] == 1);
}

static void deep(void *arg)
{
	lane_of[(struct tiny_thread *)arg - tt] = ustack_self()->u_lane;
	hold_deep();
}

static void made(struct tiny *d, int i, void (*f)(void *))
{
	tiny_start(d, &tt[i], f, &tt[i]);
	tt[i].tt_stack.u_lane = USCHED_PRIVATE;
}

/* Promises nr lanes one by one, and makes their threads. */
static void make(struct tiny *d, int from, int nr, void (*f)(void *))
{
	int i;

	for (i = from; i < from + nr; i++) {
		CHECK_IS(usched_private(&d->t_sched, 1), 0);
		made(d, i, f);
	}
}

/* Returns how many lanes can still be promised. */
static int left(struct tiny *d)
{
	int nr = 0;

	while (usched_private(&d->t_sched, 1) == 0)
		nr++;
	CHECK_IS(usched_private(&d->t_sched, 1), -EAGAIN);
	CHECK_IS(usched_private(&d->t_sched, -nr), 0);
	return nr;
}

static void all_different(int nr)
{
	static int seen[SHRT_MAX + 1];
	int i;

	memset(seen, 0, sizeof seen);
	for (i = 0; i < nr; i++)
		CHECK_IS(seen[lane_of[i]]++, 0);
}

static void stays(void)
{
	int lanes;

	for (lanes = 1; lanes <= 2; lanes++) {
		CHECK_IS(tiny_init(&t, lanes), 0);
		make(&t, 0, lanes * EACH, waiter);
		write_in(&t, 0);
		tiny_run(&t);
		all_different(lanes * EACH);
		tiny_fini(&t);
	}
}

/* Again and again: promised by one, by all, given back, ended, forgotten. */
static void limits(void)
{
	int i, round;

	CHECK(usched_private_most(1) == EACH && usched_private_most(2) == 2 * EACH);
	CHECK_IS(tiny_init(&t, 1), 0);
	CHECK_IS(usched_private(&t.t_sched, EACH + 1), -EAGAIN);
	CHECK_IS(usched_private(&t.t_sched, INT_MAX), -EAGAIN);
	for (round = 0; round < 5; round++) {
		CHECK_IS(left(&t), EACH);
		CHECK_IS(usched_private(&t.t_sched, EACH), 0);
		CHECK_IS(usched_private(&t.t_sched, 1), -EAGAIN);
		for (i = 0; i < EACH; i++)
			made(&t, i, round % 2 != 0 ? brief : waiter);
		if (round % 2 != 0)
			tiny_start(&t, &tt[NR - 1], shares, NULL);
		else
			write_in(&t, 0);
		/* Some are forgotten before they begin, some when they wait. */
		for (i = 0; i < EACH; i += 7) {
			struct tiny_thread *head = t.t_head;

			CHECK_IS(head, &tt[i / 7]);
			t.t_head = head->tt_next;
			t.t_live--;
			ustack_fini(&head->tt_stack);
			ustack_fini(&head->tt_stack);
			CHECK_IS(left(&t), i / 7 + 1);
		}
		tiny_run(&t);
		CHECK_IS(left(&t), EACH);
	}
	tiny_fini(&t);
}

/* Is forgotten while it waits. */
static void forgotten(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	make(&t, 0, 2, waiter);
	t.t_stop = t.t_rounds + 4;
	tiny_run(&t);
	CHECK_IS(left(&t), EACH - 2);
	ustack_fini(&tt[0].tt_stack);
	ustack_fini(&tt[1].tt_stack);
	CHECK_IS(left(&t), EACH);
	t.t_live -= 2;
	t.t_head = t.t_yields = NULL;
	tiny_fini(&t);
}

/* A lane that was taken for a thread, which never begins. */
static void taken(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	CHECK_IS(usched_private(&t.t_sched, 1), 0);
	tiny_start(&t, &tt[0], brief, &tt[0]);
	tt[0].tt_stack.u_lane = (short)usched_lane_private(&t.t_sched);
	CHECK_IS(left(&t), EACH - 1);
	t.t_head = NULL;
	t.t_live--;
	ustack_fini(&tt[0].tt_stack);
	CHECK_IS(left(&t), EACH);
	CHECK_IS(usched_private(&t.t_sched, 1), 0);
	tiny_start(&t, &tt[0], brief, &tt[0]);
	tt[0].tt_stack.u_lane = (short)usched_lane_private(&t.t_sched);
	tiny_run(&t);
	CHECK_IS(left(&t), EACH);
	tiny_fini(&t);
}

/* Two dispatchers share lanes: what one has left, the other can promise. */
static void many(void)
{
	int i;

	CHECK(tiny_init(&t, 1) == 0 && tiny_init(&other, 0) == 0);
	CHECK_IS(usched_lanes_share(&other.t_sched, &t.t_sched), 0);
	for (i = 0; i < 3; i++) {
		make(&t, 0, EACH, brief);
		CHECK_IS(usched_private(&other.t_sched, 1), -EAGAIN);
		tiny_run(&t);
		make(&other, 0, EACH, brief);
		CHECK_IS(usched_private(&t.t_sched, 1), -EAGAIN);
		tiny_run(&other);
		make(&t, 0, EACH / 2, waiter);
		make(&other, EACH / 2, EACH / 2, waiter);
		CHECK_IS(usched_private(&t.t_sched, 1), -EAGAIN);
		write_in(&t, 1);
		tiny_run(&t);
		write_in(&other, 1);
		tiny_run(&other);
		all_different(EACH);
		CHECK(left(&t) == EACH && left(&other) == EACH);
	}
	tiny_fini(&other);
	tiny_fini(&t);
}

/* Deep threads take what is left, and give it back. */
static void beside_deep(void)
{
	int i, owners = 0;

	CHECK_IS(tiny_init(&t, 1), 0);
	tiny_start(&t, &tt[0], deep, &tt[0]);
	tiny_run(&t);
	CHECK_IS(usched_private(&t.t_sched, EACH - 10), 0);
	for (i = 0; i < EACH; i++)
		tiny_start(&t, &tt[i], deep, &tt[i]);
	t.t_stop = t.t_rounds + EACH + 1;
	tiny_run(&t);
	for (i = 0; i < EACH; i++)
		owners += lane_of[i] > 1;
	CHECK_IS(owners, 10);
	for (i = EACH; i < 2 * EACH - 10; i++)
		made(&t, i, brief);
	begun = 0;
	t.t_stop = 0;
	tiny_run(&t);
	CHECK(begun == EACH - 10 && left(&t) == EACH);
	tiny_fini(&t);
}

/* A thread that begins again as another is where it was. */
static int agains;

static int again(struct usched *s, struct ustack *u)
{
	CHECK(ustack_is_private(u));
	u->u_f = waiter;
	return agains-- > 0;
}

static void begins_again(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	t.t_sched.s_again = again;
	agains = 3;
	begun = 0;
	make(&t, 0, 1, brief);
	tiny_run(&t);
	CHECK_IS(left(&t), EACH);
	tiny_fini(&t);
}

/* What is refused is refused to the maker. */
static void refused(void)
{
	int i;

	CHECK_IS(tiny_init(&t, 2), 0);
	no_mmap = 1;
	CHECK_IS(usched_private(&t.t_sched, 1), -ENOMEM);
	no_mmap = 0;
	no_guard = 1;
	CHECK_IS(usched_private(&t.t_sched, 1), -EAGAIN);
	no_guard = 0;
	CHECK_IS(usched_private(&t.t_sched, 20), 0);
	no_mmap = no_guard = 1;
	for (i = 0; i < 20; i++)
		made(&t, i, waiter);
	for (i = 0; usched_private(&t.t_sched, 1) == 0; i++)
		CHECK_THAT(i, <, EACH);
	CHECK_IS(usched_private(&t.t_sched, 1), -ENOMEM);
	CHECK_IS(usched_private(&t.t_sched, -i), 0);
	write_in(&t, 0);
	tiny_run(&t);
	no_mmap = no_guard = 0;
	CHECK_IS(left(&t), 2 * EACH);
	tiny_fini(&t);
}

/* Where no lane can get a guard any more, threads share those that have one. */
static void shared_guards(void)
{
	int i;

	CHECK_IS(tiny_init(&t, 8), 0);
	no_guard = 1;
	for (i = 0; i < 20; i++)
		tiny_start(&t, &tt[i], shares_the_first, &tt[i]);
	tiny_run(&t);
	no_guard = 0;
	CHECK_IS(usched_lane_guard(&t.t_sched, 1), 0);
	CHECK_IS(usched_lane_guard(&t.t_sched, 8), 0);
	tiny_fini(&t);
}

/* A thread whose lane was chosen must have a guard. */
static void die_bare(void)
{
	CHECK_IS(tiny_init(&t, 8), 0);
	no_guard = 1;
	CHECK_IS(usched_lane_guard(&t.t_sched, 8), -ENOMEM);
	tiny_start(&t, &tt[0], shares, NULL);
	tt[0].tt_stack.u_lane = 8;
	tiny_run(&t);
}

/* Private threads ask for no memory; shared ones do. */
static void no_buffers(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	t.t_fail = 1;
	t.t_fail_all = 1;
	make(&t, 0, EACH, waiter);
	tiny_run(&t);
	CHECK_IS(t.t_allocs, 0);
	tiny_fini(&t);
}

static void die_not_promised(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	made(&t, 0, brief);
	tiny_run(&t);
}

static void die_twice(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	make(&t, 0, 1, brief);
	made(&t, 1, brief);
	tiny_run(&t);
}

static void die_no_lanes(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	made(&t, 0, brief);
	tiny_run(&t);
}

static void none(void)
{
	CHECK_IS(usched_private_most(1), 0);
	CHECK_IS(tiny_init(&t, 0), 0);
	CHECK_IS(usched_private(&t.t_sched, 1), -EAGAIN);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	int failed = 0;

	check_start(argc, argv);
	if (!tiny_has_lanes()) {
		none();
		return 0;		/* portable */
	}
	stays();
	limits();
	forgotten();
	taken();
	many();
	beside_deep();
	begins_again();
	refused();
	shared_guards();
	no_buffers();
	failed += check_dies("die_bare", die_bare,
			     "a lane can get no guard");
	failed += check_dies("die_not_promised", die_not_promised,
			     "has not promised");
	failed += check_dies("die_twice", die_twice, "has not promised");
	failed += check_dies("die_no_lanes", die_no_lanes, "has no lanes");
	return failed != 0;
}
