/* SPDX-License-Identifier: MIT */
/* grow: buffers take at most 1.5 times the bytes of the slices in them. */
/* VARIANTS: RR LL WS PR */

/*
 * Each of these programs has up to 2000 threads that block at changing depths:
 *
 *	steps	all threads go down by 1 KiB at a time, block at each step, and
 *		come back in the same way
 *	jump	they go down at once
 *	parse	they recurse 2000 deep in small frames, and block now and then
 *	random	they block at a random depth, mostly small, again and again
 *
 * Whenever the others have blocked once, one more thread compares what umem.c
 * holds with the sum of all slices. It may hold 1.5 times that, and a constant:
 * a buffer that is too large by up to 4 KiB (USCHED_SLACK) is kept, and so are
 * some MiB of free memory. When all threads have come back from a great depth,
 * nearly all of the memory is given back to the system. Then the process must
 * be smaller by half of what was held. Pages of lanes that are first touched
 * after the peak would hide that, so each thread touches all that it will need
 * before its first block. Blocks that were slices become threads, and the other
 * way round.
 */
#include "either.h"
#include "uproc_set.h"
#include "uslice.h"

#if defined(USCHED_HARD)
#define THREADS	200		/* a switch may take tens of microseconds */
#define LEAST	0
#else
#define THREADS	2000
#define LEAST	(48 * MB)
#endif
#define KB	1024L
#define MB	(1024 * KB)
#define CACHED	(16 * MB)
#define DEEPEST	(256 * KB)	/* of all threads below */

static thread *threads[THREADS];
static int nr, ended, deepest;
static long most_slices, most_held, most_pages;

static struct umem *memory(void)
{
	return &uproc_of(STRUCT(SCHED(self)()))->p_set->set_mem;
}

/* Returns the resident memory of the process, in KiB. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all = 0, now = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld %ld", &all, &now) != 2)
		now = 0;
	fclose(f);
	return now * (sysconf(_SC_PAGESIZE) / KB);
}

static long slices(void)
{
	long sum = 0;
	int i;

	for (i = 0; i < nr; i++)
		if (threads[i] != NULL)
			sum += usched_slice(&STRUCT(threads[i])->t_stack, NULL);
	return sum;
}

static void measure(void)
{
	long sum = slices();
	long held = (long)umem_held(memory());

	CHECK_THAT(held, <=, sum + sum / 2 + CACHED);
	if (sum > most_slices) {
		most_slices = sum;
		most_held   = held;
		most_pages  = resident();
	}
}

/* Made last, so each of its turns comes after those of all others. */
static void measures(void *arg)
{
	long held;

	while (ended < nr) {
		measure();
		yield();
	}
	held = (long)umem_held(memory());
	CHECK_THAT(held, <=, CACHED);
	CHECK_THAT(most_held, >, LEAST);
	CHECK(LEAST == 0 ||
	      resident() <= most_pages - most_held / KB / 2);
}

/* Runs first. Otherwise deep threads would soon have private lanes. */
static void no_own_lanes(void *arg)
{
	uproc_of(STRUCT(SCHED(self)()))->p_sched.s_private = NULL;
}

static NOINLINE void touch_lane(void)
{
	volatile char frame[DEEPEST + 4 * KB];
	size_t i;

	for (i = 0; i < sizeof frame; i += 4 * KB)
		frame[sizeof frame - 1 - i] = 1;
}

static void is_done(void *arg)
{
	threads[(thread **)arg - threads] = NULL;
	ended++;
}

static NOINLINE void step(int depth, bool jumps)
{
	volatile char frame[1000];

	frame[0] = frame[999] = (char)depth;
	__asm__ volatile("" : : "r"(frame) : "memory");	/* the frame is used */
	if (!jumps)
		yield();
	if (depth > 0)
		step(depth - 1, jumps);
	else
		yield();
	yield();
	CHECK(frame[0] == (char)depth && frame[999] == (char)depth);
}

static void steps(void *arg)
{
	touch_lane();
	step(deepest, false);
	is_done(arg);
}

static void jumps(void *arg)
{
	touch_lane();
	step(deepest, true);
	is_done(arg);
}

/* Reads "((..))", with a nesting that it makes up as it goes. */
static NOINLINE long parse(int depth, long sum)
{
	volatile int here = depth;

	if (depth % 100 == 0)
		yield();
	if (depth < 2000)
		sum += parse(depth + 1, sum % 7) & 1;
	CHECK_IS(here, depth);
	return sum + 1;
}

static void parses(void *arg)
{
	touch_lane();
	CHECK(parse(1, (intptr_t)arg) != 0);
	is_done(arg);
}

static NOINLINE void descend(long bytes)
{
	volatile char frame[512];

	frame[0] = frame[511] = (char)bytes;
	__asm__ volatile("" : : "r"(frame) : "memory");	/* the frame is used */
	if (bytes > (long)sizeof frame)
		descend(bytes - (long)sizeof frame);
	else
		yield();
	CHECK(frame[0] == (char)bytes && frame[511] == (char)bytes);
}

static void random_depths(void *arg)
{
	unsigned state = check_hash(check_seed,
				    (unsigned)((thread **)arg - threads)) | 1;
	int i;

	touch_lane();
	for (i = 0; i < 40; i++) {
		unsigned most = 1u << (4 + check_random(&state) % 7);

		descend((long)(check_random(&state) % (most * 256)));
	}
	is_done(arg);
}

static void program(const char *name, void (*f)(void *), int threads_nr,
		    int depth)
{
	int i;

	doing("%s", name);
	nr = threads_nr;
	deepest = depth;
	ended = 0;
	most_slices = most_held = most_pages = 0;
	begin(1, nr);
	CHECK_IS(SCHED(stack_size)(1 << 20), 0);
	make(0, no_own_lanes, NULL);
	for (i = 0; i < nr; i++)
		threads[i] = make(0, f, &threads[i]);
	make(0, measures, NULL);
	start_and_finish();
	if (getenv("VERBOSE") != NULL)
		printf("%s: %ld KiB held, %ld of slices (%.2f)\n", name,
		       most_held / KB, most_slices / KB,
		       (double)most_held / (double)most_slices);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
#if defined(USCHED_PORTABLE)
	check_skip("each block is a copy on the native stack: too slow");
#endif
	program("steps", steps, THREADS, 40);
	program("jump", jumps, THREADS, 100);
	program("parse", parses, THREADS, 0);
	program("random", random_depths, THREADS, 0);
	return 0;
}
