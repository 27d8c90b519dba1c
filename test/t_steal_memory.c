/* SPDX-License-Identifier: MIT */
/* t_steal_memory: made on one worker and ended on another, for ever: no leak. */
/* LIBS: -Wl,--wrap=mmap,--wrap=munmap,--wrap=malloc,--wrap=calloc */
/* LIBS: -Wl,--wrap=posix_memalign */

/*
 * A worker makes some threads, and keeps busy until they have ended, so elsewhere; then
 * another worker does; tens of thousands of times. Some have slices, of
 * several sizes, some are joined, some woken, and some are made by a native
 * thread. What the library maps meanwhile, in bytes, and the blocks that
 * it asks malloc() for, are no more than a few threads need.
 */
#include "steal.h"
#include <limits.h>
#include <sys/mman.h>

#define BATCHES	999
#define BATCH	48
#define LATE	24
#define MOST_KB	2500
#if defined(USCHED_HARD)
#define MOST_BLOCKS	LONG_MAX	/* uhard.c has some for each thread */
#else
#define MOST_BLOCKS	200
#endif

/* What the library asks for. */

static long mapped, blocks;

void *__real_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off);
int   __real_munmap(void *at, size_t nob);
int   __wrap_munmap(void *at, size_t nob);
void *__real_malloc(size_t nob);
void *__wrap_malloc(size_t nob);
void *__real_calloc(size_t nr, size_t nob);
void *__wrap_calloc(size_t nr, size_t nob);
int   __real_posix_memalign(void **out, size_t align, size_t nob);
int   __wrap_posix_memalign(void **out, size_t align, size_t nob);

void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	add(&mapped, (long)nob);
	return __real_mmap(at, nob, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t nob)
{
	add(&mapped, -(long)nob);
	return __real_munmap(at, nob);
}

void *__wrap_malloc(size_t nob)
{
	add(&blocks, 1);
	return __real_malloc(nob);
}

void *__wrap_calloc(size_t nr, size_t nob)
{
	add(&blocks, 1);
	return __real_calloc(nr, nob);
}

int __wrap_posix_memalign(void **out, size_t align, size_t nob)
{
	add(&blocks, 1);
	return __real_posix_memalign(out, align, nob);
}

/* Two workers and a native thread take turns in making them. */

enum { WORKERS = 2, MAKERS = 3 };

static long turn, ended, mapped_first, blocks_first;
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

/* Nobody runs where the maker is. */
static void lives(void *arg)
{
	int i = (int)(intptr_t)arg;

	CHECK(ws_proc() != get(&turn) % MAKERS);
	if (i % 2 == 0)
		deep(i % 20);
	add(&ended, 1);
}

/* Ends while a wake that it has not waited for is on its way. */

static long late, told;

static void is_late(void *arg)
{
	(void)arg;
	set(&late, 1);
	wait_one();
	set(&late, 2);
	until(&told, 1);
	add(&ended, 1);
}

static void make_late(void)
{
	thread *t;

	set(&late, 0);
	set(&told, 0);
	t = ws_thread_init(is_late, NULL);
	CHECK(t != NULL);
	until(&late, 1);
	SCHED(wake)(t);
	until(&late, 2);
	SCHED(wake)(t);
	set(&told, 1);
}

static void make_one(int i, bool in_thread)
{
	void *arg = (void *)(intptr_t)i;

	joined[i] = NULL;
	if (in_thread && i % 4 == 0)
		joined[i] = make_joinable(0, lives, arg);
	else if (i % 4 == 1)
		CHECK(ws_spawn(lives, arg) == 0);
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
		make_late();
		until(&ended, nr - LATE + i + 1);
	}
	for (i = 0; i < BATCH; i++)
		if (joined[i] != NULL)
			CHECK(SCHED(join)(joined[i]) == 0);
}

static void next_turn(void)
{
	long nr = add(&turn, 1);

	if (nr < BATCHES && nr % MAKERS < WORKERS)
		SCHED(wake)(maker[nr % MAKERS]);
}

static void makes(void *arg)
{
	intptr_t nr;

	if (arg == NULL) {
		mapped_first = get(&mapped);
		blocks_first = get(&blocks);
	}
	for (nr = (intptr_t)arg; nr < BATCHES; nr += MAKERS) {
		wait_one();
		CHECK(get(&turn) == nr);
		make_batch(true);
		CHECK(get(&mapped) - mapped_first <= (long)MOST_KB << 10);
		CHECK(get(&blocks) - blocks_first <= MOST_BLOCKS);
		next_turn();
	}
}

static void *native_makes(void *arg)
{
	intptr_t nr;

	(void)arg;
	for (nr = WORKERS; nr < BATCHES; nr += MAKERS) {
		until(&turn, nr);
		make_batch(false);
		next_turn();
	}
	SCHED(release)();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t id;
	intptr_t i;

	check_start(argc, argv);
	begin(WORKERS, 0);
	for (i = 0; i < WORKERS; i++)
		maker[i] = make_pinned((int)i, makes, (void *)i);
	SCHED(wake)(maker[0]);
	SCHED(hold)();
	CHECK(SCHED(start)() == 0);
	id = native(native_makes, NULL);
	finish();
	native_join(id);
	CHECK(ended == (long)BATCHES * (BATCH + LATE));
	return 0;
}
