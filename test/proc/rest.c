/* SPDX-License-Identifier: MIT */
/* rest: processors that sleep give memory back, and threads lose nothing. */
/* VARIANTS: RR LL WS PR */

/*
 * Threads of two processors go deep. Some block there, so that they have large
 * buffers; some only touch their lanes. Then all threads wait near the top, and
 * while nothing happens the process shrinks to a fraction. When the threads are
 * woken, all that they had on their stacks is still there. There are several
 * rounds.
 */
#include "either.h"

#if defined(USCHED_HARD) || defined(USCHED_PORTABLE)
#define SHRINKS	0		/* no lanes, or lanes keep their memory */
#else
#define SHRINKS	1
#endif
#define THREADS	200
#define ROUNDS	3
#define FRAMES	100

static thread *threads[THREADS];
static long waiting, ended, peak;

static long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all, now;

	if (f == NULL)
		check_skip("no /proc");
	CHECK_IS(fscanf(f, "%ld %ld", &all, &now), 2);
	fclose(f);
	return now;
}

static NOINLINE void deep(int frames, bool blocks)
{
	volatile char frame[1500];

	frame[0] = frame[1499] = (char)frames;
	__asm__ volatile("" : : "r"(frame) : "memory");	/* the frame is used */
	if (frames > 0)
		deep(frames - 1, blocks);
	else if (blocks)
		yield();
	CHECK(frame[0] == (char)frames && frame[1499] == (char)frames);
}

/*
 * Notes the most of a round, while the caller's processor is awake. The other may
 * have given back its memory before the last thread comes here.
 */
static void note_peak(void)
{
	long now = resident();
	long most = get(&peak);

	while (now > most &&
	       !__atomic_compare_exchange_n(&peak, &most, now, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void goes_deep(void *arg)
{
	int me = (int)((thread **)arg - threads);
	volatile int here[20];
	int i, round;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < 20; i++)
			here[i] = me + i + round;
		deep(FRAMES, me % 2);
		note_peak();
		add(&waiting, 1);
		wait_one();
		for (i = 0; i < 20; i++)
			CHECK_IS(here[i], me + i + round);
	}
	add(&ended, 1);
}

static void *wakes_all(void *arg)
{
	long least = THREADS / 8 * FRAMES * 1500L / sysconf(_SC_PAGESIZE);
	int i, round;

	for (round = 0; round < ROUNDS; round++) {
		until(&waiting, (round + 1) * (long)THREADS);
		while (SHRINKS && get(&peak) - resident() < least)
			check_yield();
		set(&peak, 0);
		for (i = 0; i < THREADS; i++)
			SCHED(wake)(threads[i]);
	}
	SCHED(release)();
	return NULL;
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	begin(2, THREADS);
	CHECK_IS(SCHED(stack_size)(512 << 10), 0);
	for (i = 0; i < THREADS; i++)
		threads[i] = make(i, goes_deep, &threads[i]);
	start_and_finish_with(wakes_all, NULL);
	CHECK_IS(ended, THREADS);
	return 0;
}
