/* SPDX-License-Identifier: MIT */
/* steal_task: tasks run once, also if there is no memory (runnable W7). */
/* VARIANTS: once */
/* LIBS: @test/run/fail.wrap */

/*
 * ws_spawn() keeps its promises, and refuses what it cannot promise, with the
 * i-th allocation failing, or all from then on, for each i. A thief that has no
 * memory takes as many tasks as it has room for: in its stock, or its deque.
 * Threads that make many tasks, which others take, keep memory only for some. A
 * new pinned thread that is queued from the slot, for lack of memory, stays.
 */
#include "fail.h"
#include "steal.h"

#define TASKS	5000
#define LOOT	1000			/* more than a new deque holds */
#define CHUNK	100
#define CHUNKS	300
#define KEPT	2500			/* blocks: a few batches */
#define PLACES	64			/* of a new queue of kept threads */

static long ran, told, refused;
static long phase;

static void runs(void *arg)
{
	add(&ran, 1);
}

static void spawn(void)
{
	CHECK_IS(ws_spawn(runs, NULL), 0);
	told++;
}

static void count_spawn(void)
{
	int rc = ws_spawn(runs, NULL);

	CHECK(rc == 0 || rc == -ENOMEM);
	if (rc == 0)
		told++;
	else
		refused++;
}

/* Tasks that are refused. */

static long fail_at;
static bool fail_ever;

static void spawns(void *arg)
{
	int i;

	fail_arm(FAIL_MEMORY | FAIL_MMAP, fail_at, fail_ever);
	for (i = 0; i < TASKS; i++)
		count_spawn();
	fail_rest();
	spawn();
}

static void refuse(long at, bool ever)
{
	ran = told = refused = 0;
	fail_at   = at;
	fail_ever = ever;
	one_thread(1, spawns, NULL);
	CHECK(ran == told && told + refused == TASKS + 1 && told > 0);
	CHECK(!ever || (refused > 0) == (fail_failed() > 0));
	fail_clean();
}

static void refusals(void)
{
	long at = 0, most = 0;

	do {
		refuse(++at, false);
		CHECK(refused == 0 || refused == 1);
		most += refused;
		refuse(at, true);
		most += refused > 1;
	} while (refused > 0);
	CHECK(at > 8 && most > 8);	/* most calls did fail */
}

/* A thief without memory. */

static thread *sleeper;

/* A task that is stolen, and keeps a block of the thief's. */
static void sleeps(void *arg)
{
	sleeper = SCHED(self)();
	yield();			/* so it has a buffer */
	set(&phase, 1);
	wait_one();
}

/*
 * Uses up the memory of its own worker, until there is none for another task.
 */
static void exhausts(void *arg)
{
	CHECK_IS(ws_spawn(sleeps, NULL), 0);
	hold_until(&phase, 1);
	fail_arm(FAIL_MEMORY | FAIL_MMAP, 1, true);
	while (refused == 0 && told < TASKS)
		count_spawn();
	until(&ran, told);		/* we keep this worker */
	fail_rest();
	SCHED(wake)(sleeper);
}

static void exhausted(void)
{
	ran = told = refused = phase = 0;
	begin(2, 0);
	make_pinned(0, exhausts, NULL);
	start_and_finish();
	CHECK(ran == told && told > 0);
	fail_clean();
}

/* A thief takes more than its deque has room for, and gets no memory. */

static void is_busy(void *arg)
{
	set(&phase, 1);
	until(&phase, 2);
}

static void is_robbed(void *arg)
{
	int i;

	spawn();
	hold_until(&ran, 1);		/* the other has looked for work */
	make_pinned(1, is_busy, NULL);
	hold_until(&phase, 1);
	for (i = 0; i < LOOT; i++)
		spawn();
	fail_arm(FAIL_MEMORY | FAIL_MMAP, 1, true);
	set(&phase, 2);
	hold_until(&ran, LOOT / 10);
	CHECK_THAT(fail_failed(), >, 0);
	fail_rest();
}

static void no_room(void)
{
	ran = told = phase = 0;
	begin(2, 0);
	make_pinned(0, is_robbed, NULL);
	start_and_finish();
	CHECK(ran == told && told == 1 + LOOT);
	fail_clean();
}

/* Makes many tasks, all for the other worker; then looks for work itself. */

static void feeds(void *arg)
{
	long i, j;

	for (i = 1; i <= CHUNKS; i++) {
		for (j = 0; j < CHUNK; j++)
			spawn();
		hold_until(&ran, i * CHUNK);
	}
}

static void looks(void *arg)
{
	CHECK(worker_at(0)->w_stock.k_nr < KEPT && worker_at(1)->w_stock.k_nr < KEPT);
}

static void hoard(void)
{
	ran = told = 0;
	begin(2, CHUNK * CHUNKS);
	make_pinned(0, feeds, NULL);
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	until(&ran, CHUNK * CHUNKS);
	make_pinned(0, looks, NULL);
	SCHED(release)();
	finish();
	CHECK_IS(ran, told);
	fail_clean();
}

/* Pinned threads that come by the slot. */

#if !defined(USCHED_HARD)			/* there malloc() does not fail */

static void nothing(void *arg)
{
}

static void is_pinned(void *arg)
{
	const struct ws_worker *w = worker_at(0);
	int lane = ustack_self()->u_lane;

	CHECK_IS(ws_proc(), 0);
	CHECK(!moves() || (lane >= w->w_fixed &&
			   lane < w->w_fixed + w->w_fixed_nr));
	set(&phase, 2);
}

static struct uproc_thread *slot(void)
{
	return __atomic_load_n(&worker_at(0)->w_gate.g_slot, __ATOMIC_RELAXED);
}

/* A thief queues messages of this worker, which computes. */
static void computes(void *arg)
{
	int i;

	for (i = 0; i < PLACES; i++)
		make_pinned(0, nothing, NULL);
	fail_arm(FAIL_MEMORY | FAIL_MMAP, 1, true);
	set(&phase, 1);
	while (slot() == NULL)
		check_yield();
	fail_rest();
}

static void pinned(void)
{
	phase = 0;
	begin(2, 0);
	make_pinned(0, computes, NULL);
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	until(&phase, 1);
	fail_exempt++;
	make_pinned(0, is_pinned, NULL);
	fail_exempt--;
	SCHED(release)();
	finish();
	CHECK_IS(phase, 2);
	fail_clean();
}
#endif

int main(int argc, char **argv)
{
	check_start(argc, argv);
	doing("in refusals");
	refusals();
	doing("in exhausted");
	exhausted();
	doing("in no_room");
	no_room();
	doing("in hoard");
	hoard();
#if !defined(USCHED_HARD)
	doing("in pinned");
	pinned();
#endif
	return 0;
}
