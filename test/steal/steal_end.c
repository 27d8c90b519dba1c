/* SPDX-License-Identifier: MIT */
/* steal_end: the end is detected, and threads that are left are counted. */
/* VARIANTS: once */

/*
 * Threads begin on worker 0, which is kept busy until each of them has run
 * elsewhere. Then some end, some of these with wakes in store; and some are
 * left waiting, some of these pinned. fini() returns 0 or -EDEADLK, and stuck()
 * is exact. That is repeated 200 times in a process, with one to nine workers.
 * At the end no native thread is left, and there are no more mappings than
 * after the first few times. Waits begun on one worker and ended on another leave
 * no timer behind: the set ends at once, although their deadlines are far.
 */
#include "steal.h"
#include "uwait.h"

#define TIMES	200
#define MAPS	20		/* that malloc() may add */
#define WAITERS	64
#define WAITED	50		/* times, by each */
#define FAR	300		/* s: longer than the watchdog waits */

enum { ENDS, STORED, HELPS, HELPED, WAITS, PINNED, FATES };

#define NR	(FATES * 12)
#define STUCK	(NR / FATES * 2)

static long moved, ended, here;
static int  workers;
static bool deadlock;		/* else no thread is left waiting */
static thread *one[NR];

static void never(void)
{
	wait_one();
	CHECK(!"nobody wakes it");
}

static void fate(int i)
{
	switch (i % FATES) {
	case STORED:
		SCHED(wake)(SCHED(self)());
		SCHED(wake)(SCHED(self)());
		wait_one();
		break;
	case HELPS:
		SCHED(wake)(one[i + 1]);
		break;
	case HELPED:
		wait_one();
		break;
	case PINNED:
		ws_pin();
		yield();
		never();
		break;
	case WAITS:
		never();
		break;
	}
}

static void lives(void *arg)
{
	int i = (int)((thread **)arg - one);

	if (moves()) {
		add(&here, 1);
		wait_one();
	}
	CHECK(workers == 1 || ws_proc() != 0);
	add(&moved, 1);
	fate(i);
	add(&ended, 1);
}

/*
 * Makes threads, each of which begins here if threads that have begun can move.
 */
static void makes(void *arg)
{
	int i, nr = deadlock ? NR : NR - STUCK;
	int fates = deadlock ? FATES : WAITS;

	for (i = 0; i < nr; i++) {
		int at = i / fates * FATES + i % fates;

		one[at] = make(0, lives, &one[at]);
	}
	if (moves())
		yield_until(&here, nr);
	add(&here, NR);
	for (i = 0; i < NR && moves(); i++)
		if (deadlock || i % FATES < WAITS)
			SCHED(wake)(one[i]);
	if (workers > 1)
		hold_until(&moved, nr);
}

static void busy(void *arg)
{
	until(&here, NR);
}

static void run(int p, bool dead)
{
	int i, rc;

	doing("with %d workers", p);
	moved = ended = here = 0;
	workers = p;
	deadlock = dead;
	begin(p, 0);
	make_pinned(0, makes, NULL);
	for (i = 1; i < p; i++)
		make_pinned(i, busy, NULL);
	CHECK_IS(SCHED(start)(), 0);
	rc = SCHED(fini)();
	CHECK_IS(rc, dead ? -EDEADLK : 0);
	CHECK_IS(SCHED(stuck)(), dead ? STUCK : 0);
	CHECK(ended == NR - STUCK && moved == (dead ? NR : NR - STUCK));
}

/*
 * Returns the number of lines of a file in /proc; 0 if there is no such file.
 */
static int lines(const char *name)
{
	FILE *f = fopen(name, "r");
	int c, nr = 0;

	if (f == NULL)
		return 0;
	while ((c = getc(f)) != EOF)
		nr += c == '\n';
	fclose(f);
	return nr;
}

static int natives(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	int nr = 1;

	if (f == NULL)
		return 1;
	while (fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "Threads: %d", &nr) == 1)
			break;
	fclose(f);
	return nr;
}

static thread *far_of[WAITERS];

static void far(void *arg)
{
	int i;

	for (i = 0; i < WAITED; i++)
		CHECK_IS(u_wait_until(uafter(FAR * UTIME_S)), 0);
	add(&ended, 1);
}

static void wakes(void *arg)
{
	int i, j;

	for (i = 0; i < WAITED; i++) {
		for (j = 0; j < WAITERS; j++)
			SCHED(wake)(far_of[j]);
		yield();
	}
}

static void far_deadlines(void)
{
	int i;

	doing("in far_deadlines");
	ended = 0;
	begin(3, 0);
	for (i = 0; i < WAITERS; i++)
		far_of[i] = make(i, far, NULL);
	make(1, wakes, NULL);
	start_and_finish();
	CHECK_IS(ended, WAITERS);
}

int main(int argc, char **argv)
{
	int i, maps = 0;

	check_start(argc, argv);
	check_quiet();
	far_deadlines();
	for (i = 0; i < TIMES; i++) {
		run(1 + i * 5 % 9, i % 2);
		/* A joined native thread may be listed for a moment. */
		while (natives() != 1)
			check_yield();	/* until the watchdog ends it */
		if (i == TIMES / 10)
			maps = lines("/proc/self/maps");
	}
	CHECK_THAT(lines("/proc/self/maps"), <=, maps + MAPS);
	return 0;
}
