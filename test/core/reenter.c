/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * reenter: usched_run() may be entered again when threads are left. With
 * lanes that works from any depth and any native thread. Without lanes it works
 * from the same depth or a shallower one, and elsewhere it dies with a message
 * (usched I1, I2). A thread may run another dispatcher, and is the running
 * thread again afterwards.
 */
#include "tiny.h"
#include <pthread.h>

#define NR	40
#define TRIPS	30

static struct tiny t, in;
static struct tiny_thread tt[NR], tn[NR];
static int lanes;			/* of the inner dispatcher */

static NOINLINE void keep(int depth, unsigned p)
{
	unsigned char array[50];

	memset(array, (int)(p + depth), sizeof array);
	if (depth > 0)
		keep(depth - 1, p);
	else
		tiny_yield();
	CHECK_IS(array[0], (unsigned char)(p + depth));
	CHECK(memcmp(array, array + 1, sizeof array - 1) == 0);
}

static void thread(void *arg)
{
	unsigned p = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	int i;

	for (i = 0; i < TRIPS; i++) {
		keep((int)((p + i) % 7), p + i);
		CHECK_IS(ustack_self()->u_arg, arg);
	}
}

static void start(struct tiny *s, struct tiny_thread *th)
{
	int i;

	for (i = 0; i < NR; i++)
		tiny_start(s, &th[i], thread, &th[i]);
}

/* Runs some rounds, with nob more bytes of stack in use. */
static NOINLINE void deeper(struct tiny *s, int nob, int rounds)
{
	char *array = (char *)alloca(nob + 1);

	memset(array, 0x77, nob);
	s->t_stop = s->t_rounds + rounds;
	tiny_run(s);
	CHECK(nob == 0 || (array[0] == 0x77 && array[nob - 1] == 0x77));
	__asm__ volatile("" : : "r"(array) : "memory");
}

static void *native(void *arg)
{
	deeper(&t, 100, 33);
	CHECK_IS(ustack_self(), NULL);
	return NULL;
}

static void elsewhere(void)
{
	pthread_t id;

	CHECK_IS(pthread_create(&id, NULL, native, NULL), 0);
	CHECK_IS(pthread_join(id, NULL), 0);
}

static void with_lanes(int nr)
{
	unsigned seed = check_seed;

	CHECK_IS(tiny_init(&t, nr), 0);
	start(&t, tt);
	while (t.t_live > 0) {
		if (check_random(&seed) % 4 == 0)
			elsewhere();
		else
			deeper(&t, (int)(check_random(&seed) % 9000), 29);
	}
	tiny_fini(&t);
}

/* Enters from a shallower depth each time, then always from the same place. */
static void without_lanes(void)
{
	int nob = 20000;

	CHECK_IS(tiny_init(&t, 0), 0);
	start(&t, tt);
	while (t.t_live > 0) {
		deeper(&t, nob, 29);
		nob = nob > 1000 ? nob - 1000 : 0;
	}
	tiny_fini(&t);
	/* With no thread left, from anywhere. */
	start(&t, tt);
	deeper(&t, 30000, 0);
	tiny_fini(&t);
	start(&t, tt);
	t.t_stop = 0;
	elsewhere();
	for (nob = 0; nob < NR; nob++) {
		ustack_fini(&tt[nob].tt_stack);
		tiny_drop(&tt[nob].tt_stack);
	}
	t.t_head = NULL;
	start(&t, tt);
	t.t_live = NR;
	deeper(&t, 30000, 0);
	tiny_fini(&t);
}

static void die_deeper(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	start(&t, tt);
	deeper(&t, 0, 50);
	deeper(&t, 20000, 50);
}

static void die_elsewhere(void)
{
	CHECK_IS(tiny_init(&t, 0), 0);
	start(&t, tt);
	deeper(&t, 0, 50);
	elsewhere();
}

/*
 * A thread of t that runs `in' for a few rounds, blocks, and so on to its end.
 */
static void pump(void *arg)
{
	struct ustack *self = ustack_self();
	unsigned char array[64];

	memset(array, (int)(uintptr_t)arg, sizeof array);
	while (in.t_live > 0) {
		in.t_stop = in.t_rounds + 17;
		tiny_run(&in);
		CHECK_IS(ustack_self(), self);
		tiny_yield();
		CHECK_IS(ustack_self(), self);
	}
	CHECK_IS(array[63], (unsigned char)(uintptr_t)arg);
}

static void nested(int outer, int inner, int pumps)
{
	int i;

	CHECK(tiny_init(&t, outer) == 0 && tiny_init(&in, inner) == 0);
	start(&in, tn);
	for (i = 0; i < pumps; i++)
		tiny_start(&t, &tt[i], pump, (void *)(uintptr_t)i);
	tiny_run(&t);
	tiny_fini(&in);
	tiny_fini(&t);
}

/*
 * Threads on different lanes run a dispatcher without lanes: its threads would
 * come back to a lane of another thread.
 */
static void die_other_lane(void)
{
	nested(lanes, 0, 2);
}

/* A thread on a lane leaves it; then it is entered from the native stack. */
static void pump_once(void *arg)
{
	in.t_stop = in.t_rounds + 17;
	tiny_run(&in);
	tiny_yield();
}

static void die_native_after_lane(void)
{
	CHECK(tiny_init(&t, 2) == 0 && tiny_init(&in, 0) == 0);
	start(&in, tn);
	tiny_start(&t, &tt[0], pump_once, NULL);
	tiny_run(&t);
	tiny_run(&in);
}

static void die_lane_after_native(void)
{
	CHECK(tiny_init(&t, 2) == 0 && tiny_init(&in, 0) == 0);
	start(&in, tn);
	deeper(&in, 0, 17);
	tiny_start(&t, &tt[0], pump_once, NULL);
	tiny_run(&t);
}

static int deaths_with_lanes(void)
{
	int failed = 0;

	lanes = 2;
	failed += check_dies("die_other_lane", die_other_lane, "usched_run: ");
	failed += check_dies("die_native_after_lane", die_native_after_lane,
			     "usched_run: ");
	failed += check_dies("die_lane_after_native", die_lane_after_native,
			     "usched_run: ");
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;

	check_start(argc, argv);
	without_lanes();
	nested(0, 0, 1);
	nested(0, 0, 3);
	failed += check_dies("die_deeper", die_deeper, "usched_run: ");
	failed += check_dies("die_elsewhere", die_elsewhere, "usched_run: ");
	if (tiny_init(&t, 1) != 0)
		return failed != 0;	/* portable: no lanes */
	tiny_fini(&t);
	with_lanes(1);
	with_lanes(7);
	with_lanes(NR + 1);
	nested(0, 3, 3);
	nested(1, 3, 3);
	nested(3, 1, 3);
	nested(4, 50, 6);
	nested(2, 0, 1);
	nested(1, 0, 3);		/* one lane: always the same stack */
	failed += deaths_with_lanes();
	return failed != 0;
}
