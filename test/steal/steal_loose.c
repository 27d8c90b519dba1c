/* SPDX-License-Identifier: MIT */
/* steal_loose: threads of a lane that is no longer pinned can be taken. */
/* VARIANTS: once */

/*
 * There are so many threads that some share a lane. One of them pins the lane,
 * while others of the lane yield or are woken. Then the last pin goes: by
 * ws_unpin(), by the end of the thread, or when a thread that was preempted
 * goes on. After that a thread of another lane keeps their worker until all of
 * them have run, which must be elsewhere. In two more parts, threads that can
 * go are behind others that cannot; and a thread is displaced from the slot
 * while its lane is pinned on another worker. Each part would hang if no thief
 * found the threads. (search W6, runnable W8.)
 */
#define USCHED_PREEMPT	1
#include "steal.h"

#define CROWD	600
#define MATES	4	/* threads in the lane of x, at most */
#define ROUNDS	4

static long here, ran, held, queued, phase, pinned, displaced;
static thread *crowd[CROWD];
static void (*role[CROWD])(void);	/* NULL: none; the thread ends */
static int procs;

/* x and its mates share a lane; c is in another; two others in a third. */
static int x, mate[MATES], mates, c, other[2];
static void (*part_of_x)(void);

static int lane(int i)
{
	return ((struct ustack *)crowd[i])->u_lane;
}

static void wake(int i)
{
	SCHED(wake)(crowd[i]);
}

static void member(void *arg)
{
	intptr_t i = (intptr_t)arg;

	add(&here, 1);
	wait_one();
	if (role[i] != NULL)
		role[i]();
}

/* Finds threads after i in the same lane. */
static int mates_of(int i, int *at, int most)
{
	int j, nr = 0;

	for (j = i + 1; j < CROWD && nr < most; j++)
		if (lane(j) == lane(i))
			at[nr++] = j;
	return nr;
}

/* Gives roles to threads, in lanes that may go. */
static void cast(void)
{
	int i;

	for (x = 0; (mates = mates_of(x, mate, MATES)) == 0; x++)
		CHECK_THAT(x + 1, <, CROWD);
	for (c = 0; lane(c) == lane(x); c++)
		;
	for (i = 0; lane(i) == lane(x) || lane(i) == lane(c) ||
	     mates_of(i, &other[1], 1) == 0; i++)
		CHECK_THAT(i + 1, <, CROWD);
	other[0] = i;
}

/* Lets threads without a role end. */
static void dismiss(void)
{
	int i;

	for (i = 0; i < CROWD; i++)
		if (role[i] == NULL)
			wake(i);
}

/* Keeps the worker until all threads that wait there have run elsewhere. */
static void c_holds(void)
{
	set(&phase, 1);
	hold_until(&ran, mates);
	dismiss();
}

static void mate_yields(void)
{
	add(&queued, 1);
	yield();
	add(&ran, 1);
}

/* The mates yield while the lane is pinned. */
static void mates_yield(void)
{
	int i;

	for (i = 0; i < mates; i++)
		wake(mate[i]);
	yield_until(&queued, mates);
}

static void x_unpins(void)
{
	ws_pin();
	mates_yield();
	ws_unpin();
	wake(c);
}

static void x_ends_pinned(void)
{
	ws_pin();
	mates_yield();
	wake(c);
}

/* Preempts itself, as upreempt.c does at a tick. */
static void x_is_preempted(void)
{
	struct ustack *u = ustack_self();
	struct usched *s = u->u_sched;
	int i;

	for (i = 0; i < mates; i++)
		wake(mate[i]);
	while (get(&queued) < mates) {
		CHECK(s->s_preempt(s, u));
		CHECK_IS(ustack_block(), 0);
	}
	wake(c);
}

/*
 * All mates of x are in the queue, then comes c. A thief that looks at half of
 * the queue finds no thread that can go.
 */
static void c_is_last(void)
{
	add(&queued, 1);
	wake(x);
	yield_until(&held, 1);
	add(&ran, 1);
}

static void mate_stays(void)
{
	add(&queued, 1);
	yield_until(&ran, 1);
}

static void x_holds(void)
{
	int i;

	for (i = 0; i < mates; i++) {
		role[mate[i]] = mate_stays;
		wake(mate[i]);
	}
	yield_until(&queued, mates);
	role[c] = c_is_last;
	wake(c);
	wait_one();
	set(&phase, 1);
	set(&held, 1);
	hold_until(&ran, 1);
	dismiss();
}

/*
 * Two threads of a lane are woken. Another worker takes the first, and so
 * becomes the home of both. The first pins itself. Then the second is displaced
 * from the slot of its old home, and waits there while x keeps that worker.
 */
static void first_pins(void)
{
	ws_pin();
	set(&pinned, 1);
	hold_until(&displaced, 1);
	ws_unpin();
}

static void second_runs(void)
{
	add(&ran, 1);
}

static void x_displaces(void)
{
	int i;

	for (i = 0; i < mates; i++)
		role[mate[i]] = NULL;
	role[other[0]] = first_pins;
	role[other[1]] = second_runs;
	set(&phase, 1);
	wake(other[0]);
	wake(other[1]);
	hold_until(&pinned, 1);
	role[c] = dismiss;
	wake(c);
	set(&displaced, 1);
	hold_until(&ran, 1);
}

static void starts(void *arg)
{
	intptr_t i;

	for (i = 0; i < CROWD; i++)
		crowd[i] = make(0, member, (void *)i);
	yield_until(&here, CROWD);
	cast();
	role[x] = part_of_x;
	role[c] = c_holds;
	for (i = 0; i < mates; i++)
		role[mate[i]] = mate_yields;
	wake(x);
}

/* Keeps all other workers busy until the part begins. */
static void busy(void *arg)
{
	until(&phase, 1);
}

static void part(const char *name, void (*of_x)(void))
{
	int i;

	doing("in %s, %d workers", name, procs);
	here = ran = held = queued = phase = pinned = displaced = 0;
	memset(role, 0, sizeof role);
	part_of_x = of_x;
	begin(procs, 0);
	CHECK_IS(ws_preempt(), 0);	/* although nothing ticks */
	for (i = 1; i < procs; i++)
		make_pinned(i, busy, NULL);
	make_pinned(0, starts, NULL);
	start_and_finish();
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	need_moves();
	for (i = 0; i < ROUNDS; i++) {
		procs = 2 + i % 3;
		part("x_unpins", x_unpins);
		part("x_ends_pinned", x_ends_pinned);
		part("x_is_preempted", x_is_preempted);
		part("x_holds", x_holds);
		part("x_displaces", x_displaces);
	}
	return 0;
}
