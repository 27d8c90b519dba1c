/* SPDX-License-Identifier: MIT */
/* steal_memory: memory of ended threads is used again, without any leak. */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=mmap,--wrap=munmap,--wrap=malloc,--wrap=calloc */
/* LIBS: -Wl,--wrap=posix_memalign */

/*
 * A worker makes some threads, and computes until they have ended, so they run
 * elsewhere; then another worker does so; tens of thousands of times. Some
 * threads have slices, of several sizes; some are joined, some are woken, and
 * some are made by a native thread. The bytes that the library maps meanwhile,
 * and the blocks that it gets from malloc(), are no more than a few threads
 * need. That is so, too, if one worker makes all threads, and the other runs
 * them all.
 *
 * Tasks (see TASKS in runnable.h) have memory when they begin, however many there
 * are and whichever worker takes them (runnable W7). No task begins with a wake
 * that was meant for another. Without memory: steal_task.
 */
#include "steal.h"
#include <limits.h>
#include <sys/mman.h>

#define BATCHES	999		/* fewer, if they take long */
#define LEAST	99		/* the fewest batches */
#define BATCH	48
#define LATE	24
#define MOST_KB	2500
#if defined(USCHED_HARD)
#define MOST_BLOCKS	LONG_MAX	/* uhard.c has blocks for each thread */
#else
#define MOST_BLOCKS	200
#endif

/* Memory that the library asks for. */

static long mapped, blocks;

/* Private lanes only take addresses, so they are not counted. */
#define RESERVED	64

static void *reserved[RESERVED];
static long reserved_nr;

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	void *map = __real_mmap(at, nob, prot, flags, fd, off);

	if (flags & MAP_NORESERVE && map != MAP_FAILED)
		reserved[(add(&reserved_nr, 1) - 1) % RESERVED] = map;
	else
		add(&mapped, (long)nob);
	return map;
}

WRAP(int, munmap, void *at, size_t nob)
{
	int i;

	for (i = 0; i < RESERVED && reserved[i] != at; i++)
		;
	if (i < RESERVED)
		reserved[i] = NULL;
	else
		add(&mapped, -(long)nob);
	return __real_munmap(at, nob);
}

WRAP(void *, malloc, size_t nob)
{
	add(&blocks, 1);
	return __real_malloc(nob);
}

WRAP(void *, calloc, size_t nr, size_t nob)
{
	add(&blocks, 1);
	return __real_calloc(nr, nob);
}

WRAP(int, posix_memalign, void **out, size_t align, size_t nob)
{
	add(&blocks, 1);
	return __real_posix_memalign(out, align, nob);
}

/* Two workers and a native thread take turns in making threads. */

enum { WORKERS = 2, MAKERS = 3 };

static long turn, batches, ended, mapped_first, blocks_first;
static thread *maker[WORKERS], *joined[BATCH];

static NOINLINE void deep(int depth)
{
	volatile char frame[500];

	frame[0] = frame[499] = (char)depth;
	if (depth > 0)
		deep(depth - 1);
	else
		yield();
	CHECK(frame[0] == (char)depth && frame[499] == (char)depth);
}

/* Must not run on the worker of the maker. */
static void lives(void *arg)
{
	int i = (int)(intptr_t)arg;

	CHECK_THAT(ws_proc(), !=, get(&turn) % MAKERS);
	if (i % 2 == 0)
		deep(i % 20);
	add(&ended, 1);
}

/*
 * Ends while a wake that it has not waited for is under way. If it has never
 * blocked, a task follows at once, which is woken, too.
 */

static long late, told;
static thread *follower;

static void follows(void *arg)
{
	follower = SCHED(self)();
	set(&late, 3);
	until(&told, 3);
	wait_one();			/* does not block */
	set(&late, 4);
	until(&told, 4);
	wait_one();
	set(&late, 5);
}

static void is_late(void *blocks_first)
{
	set(&late, 1);
	until(&told, blocks_first != NULL ? 0 : 1);
	wait_one();
	set(&late, 2);
	until(&told, 2);
	if (blocks_first == NULL)
		CHECK_IS(ws_spawn(follows, NULL), 0);
	add(&ended, 1);
}

static void make_late(bool blocks_first)
{
	thread *t;
	int i;

	set(&late, 0);
	set(&told, 0);
	t = ws_thread_init(is_late, blocks_first ? &late : NULL);
	CHECK(t != NULL);
	for (i = 1; i <= (blocks_first ? 2 : 4); i++) {
		until(&late, i);
		SCHED(wake)(i <= 2 ? t : follower);
		set(&told, i);
	}
	if (!blocks_first)
		until(&late, 5);
}

static void make_one(int i, bool in_thread)
{
	void *arg = (void *)(intptr_t)i;

	joined[i] = NULL;
	if (in_thread && i % 4 == 0)
		joined[i] = make_joinable(0, lives, arg);
	else if (i % 4 == 1)
		CHECK_IS(ws_spawn(lives, arg), 0);
	else
		CHECK(ws_thread_init(lives, arg) != NULL);
}

static void make_batch(bool in_thread)
{
	long nr = (get(&turn) + 1) * (BATCH + LATE);
	int i;

	for (i = 0; i < BATCH; i++)
		make_one(i, in_thread);
	until(&ended, nr - LATE);
	for (i = 0; i < LATE; i++) {
		make_late(i % 2);
		until(&ended, nr - LATE + i + 1);
	}
	for (i = 0; i < BATCH; i++)
		if (joined[i] != NULL)
			CHECK_IS(SCHED(join)(joined[i]), 0);
}

static void next_turn(void)
{
	long nr = get(&turn) + 1;
	bool over = nr >= BATCHES || (nr >= LEAST && !check_time(12));
	int i;

	if (over)
		set(&batches, nr);
	add(&turn, 1);
	for (i = 0; i < WORKERS; i++)
		if (over || nr % MAKERS == i)
			SCHED(wake)(maker[i]);
}

static void makes(void *arg)
{
	intptr_t nr;

	if (arg == NULL) {
		mapped_first = get(&mapped);
		blocks_first = get(&blocks);
	}
	for (nr = (intptr_t)arg; ; nr += MAKERS) {
		wait_one();
		if (nr >= get(&batches))
			return;
		CHECK_IS(get(&turn), nr);
		make_batch(true);
		CHECK_THAT(get(&mapped) - mapped_first, <=, (long)MOST_KB <<
			   10);
		CHECK_THAT(get(&blocks) - blocks_first, <=, MOST_BLOCKS);
		next_turn();
	}
}

static void *native_makes(void *arg)
{
	intptr_t nr;

	for (nr = WORKERS; ; nr += MAKERS) {
		while (get(&turn) < nr && nr < get(&batches))
			check_yield();
		if (nr >= get(&batches))
			break;
		make_batch(false);
		next_turn();
	}
	SCHED(release)();
	return NULL;
}

static void for_ever(void)
{
	intptr_t i;

	batches = LONG_MAX;
	begin(WORKERS, 0);
	for (i = 0; i < WORKERS; i++)
		maker[i] = make_pinned((int)i, makes, (void *)i);
	SCHED(wake)(maker[0]);
	start_and_finish_with(native_makes, NULL);
	CHECK(ended == batches * (BATCH + LATE) && batches >= LEAST);
}

/*
 * Many tasks, all of which block, so each needs memory of its own. Between them
 * are tasks that do not block, and leave wakes; and some that are joined. All
 * this is done twice: on the worker of their maker; and, while she keeps that
 * busy, on the other worker.
 */

#define TASKS	5000		/* more than k_raw of umem.h first holds */

static struct task {
	thread *k_self;
	long    k_woken;
} task[TASKS];

static long begun, left;
static int  tasks, workers;

static void spawn(void (*f)(void *), void *arg)
{
	CHECK_IS(ws_spawn(f, arg), 0);
}

static void leaves_wakes(void *arg)
{
	SCHED(wake)(SCHED(self)());
	SCHED(wake)(SCHED(self)());
	add(&left, 1);
}

static void is_task(void *arg)
{
	struct task *k = arg;

	k->k_self = SCHED(self)();
	add(&begun, 1);
	wait_one();
	CHECK_IS(get(&k->k_woken), 1);
	leaves_wakes(NULL);
	add(&ended, 1);
}

static void elsewhere_until(long *at, long nr)
{
	if (workers > 1)
		hold_until(at, nr);
	else
		yield_until(at, nr);
}

static void wake_tasks(void)
{
	int i;

	for (i = 0; i < tasks; i++) {
		set(&task[i].k_woken, 1);
		SCHED(wake)(task[i].k_self);
	}
}

static void make_tasks(void)
{
	int i;

	for (i = 0; i < tasks; i++) {
		task[i].k_woken = 0;
		spawn(is_task, &task[i]);
		spawn(leaves_wakes, NULL);
		if (i < BATCH)
			joined[i] = make_joinable(0, leaves_wakes, NULL);
	}
}

static void mother(void *arg)
{
	long twice;
	int i;

	for (twice = 1; twice <= 2; twice++) {
		make_tasks();
		elsewhere_until(&begun, tasks * twice);
		/* Joins do not wait for the tasks around the joined. */
		for (i = 0; i < tasks && i < BATCH; i++)
			CHECK_IS(SCHED(join)(joined[i]), 0);
		wake_tasks();
		elsewhere_until(&ended, tasks * twice);
	}
}

static void all_block(int p, int nr)
{
	doing("%d workers %d tasks", p, nr);
	workers = p;
	tasks = nr;
	begun = ended = left = 0;
	begin(p, 0);
	make_pinned(0, mother, NULL);
	start_and_finish();
	CHECK_IS(ended, 2 * nr);
	CHECK_IS(left, 2 * (2 * nr + (nr < BATCH ? nr : BATCH)));
}

/* Makes tasks until memory runs out, which must be noticed exactly. */
static void fills(void *arg)
{
	const struct ws_worker *w = worker_at(0);

	for (tasks = 0; tasks < TASKS; tasks++) {
		task[tasks].k_woken = 0;
		if (tasks >= (intptr_t)arg && tasks == w->w_stock.k_nr)
			break;
		spawn(is_task, &task[tasks]);
	}
	CHECK_THAT(tasks, <, TASKS);
	yield_until(&begun, tasks);
	wake_tasks();
}

static void filled(int least)
{
	doing("in filled");
	begun = ended = 0;
	one_thread(1, fills, (void *)(intptr_t)least);
	CHECK_IS(ended, tasks);
}

/* Far more threads pass through than are alive at a time. */

#define FLOWS	100
#define FLOW	1000		/* of each */

static void makes_all(void *arg)
{
	long nr, first = 0;
	int i;

	for (nr = 1; nr <= FLOWS; nr++) {
		for (i = 0; i < FLOW; i += 2) {
			spawn(leaves_wakes, NULL);
			CHECK(ws_thread_init(leaves_wakes, NULL) != NULL);
		}
		hold_until(&left, FLOW * nr);
		if (nr == 1)
			first = get(&mapped);
		CHECK_THAT(get(&mapped) - first, <=, (long)MOST_KB << 10);
	}
}

static void flow(void)
{
	doing("in flow");
	left = 0;
	begin(2, 2 * FLOWS * FLOW);
	make_pinned(0, makes_all, NULL);
	start_and_finish();
	CHECK_IS(left, FLOWS * FLOW);
}

int main(int argc, char **argv)
{
	static const int nr[] = { 1, 300, TASKS };
	int i;

	check_start(argc, argv);
	for (i = 0; i < 2 * COUNT(nr); i++)
		all_block(1 + i % 2, nr[i / 2]);
	filled(1);
	filled(TASKS / 2);
	flow();
	doing("in for_ever");
	ended = 0;
	for_ever();
	return 0;
}
