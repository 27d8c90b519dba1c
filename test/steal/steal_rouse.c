/* SPDX-License-Identifier: MIT */
/* steal_rouse: work for all workers wakes all of them, without a watch. */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=syscall -Wl,--wrap=sched_getaffinity */

/*
 * A thread on worker 0 makes as many others as there are other workers. Some of
 * them are tasks. They are made at once, or one after another, while workers
 * seek, are about to sleep, or sleep. Each thread keeps its worker until all
 * have come. Here a watch ends only by a wake. So a worker that has put
 * something where it can be taken, or has taken only one of two things, must
 * wake another. Only a worker that naps counts as seeking; it ends its sleep by
 * itself, and that is short (steal_policy J5). The library believes that there
 * is a cpu for each worker. With fewer, no more workers are woken than there
 * are cpus.
 */
#include "steal.h"
#include "system_call.h"
#include "watch.h"

#define ROUNDS	500		/* fewer, if they take long */
#define LEAST	50		/* the fewest rounds */
#define MOST	5

static long come, gone;
static long made;
static int  others;

/* Removes the time limit of a watch. */
static long system_call(long nr, long a[6])
{
	if (is_futex(nr, a, SYSTEM_WAIT) && a[3] != 0 &&
	    ((long *)a[3])[1] == WS_WATCH * 1000000L)
		a[3] = 0;
	return really_call(nr, a);
}

static int cpus;		/* that the library believes in */

WRAP(int, sched_getaffinity, pid_t pid, size_t size, cpu_set_t *to)
{
	int i;

	memset(to, 0, size);
	for (i = 0; i < cpus; i++)
		CPU_SET_S(i, size, to);
	return 0;
}

static void some_time(unsigned *state)
{
	unsigned r = check_random(state);
	volatile unsigned spin;

	if (r % 8 == 0)
		usleep(r / 8 % 200);
	for (spin = r / 8 % 4 * (r / 32 % 2048); spin > 0; spin--)
		;
}

static void comes(void *arg)
{
	long nr = (long)(intptr_t)arg;

	add(&come, 1);
	until(&come, nr);
	add(&gone, 1);
}

static bool more(long rounds)
{
	return rounds < LEAST || (rounds < ROUNDS && check_time(2 * others));
}

static void makes(void *arg)
{
	unsigned state = check_seed;
	intptr_t i, nr;

	for (nr = others; more(nr / others - 1); nr += others) {
		unsigned r = check_random(&state);

		some_time(&state);
		for (i = 0; i < others; i++) {
			if (r / 8 % 2)
				CHECK_IS(ws_spawn(comes, (void *)nr), 0);
			else
				make(0, comes, (void *)nr);
			if (r % 2)
				some_time(&state);
		}
		hold_until(&come, nr);
		if (r / 2 % 4)
			until(&gone, nr);
		made = nr;
	}
}

/*
 * One thread at a time, for one other worker, just when that goes to sleep. The
 * store that publishes the thread comes after many others, so it may become
 * visible late (it is in the store buffer).
 */

#define LATE_ROUNDS	40000		/* fewer, but at least */
#define LATE_LEAST	2000
#define SPOILT		(1 << 20)	/* words: more than caches hold */
#define LINE		16		/* words */

static int *asleep;
static unsigned spoilt[SPOILT];

static void spoil(unsigned *state)
{
	unsigned at = check_random(state);
	volatile unsigned *s = spoilt;
	int i;

	for (i = 0; i < 40; i++)
		s[(at + i * 1237u * LINE) % SPOILT] = at;
}

static void last_moment(void *arg)
{
	unsigned state = check_seed;
	long nr, pause = 0, turns;

	for (nr = 1; nr <= LATE_LEAST || (nr <= LATE_ROUNDS && check_time(15));
	     nr++) {
		turns = check_random(&state) % (unsigned)(pause + 1);
		for (turns += pause / 2; turns > 0; turns--) {
			WS_STOP_RELAX();
			if (turns % 512 == 0)
				check_yield();
		}
		if (__atomic_load_n(asleep, __ATOMIC_RELAXED))
			pause -= pause / 4 + (pause > 0);
		else
			pause += pause / 32 + 1;
		spoil(&state);
		if (nr % 2)
			CHECK_IS(ws_spawn(comes, (void *)nr), 0);
		else
			make(0, comes, (void *)nr);
		hold_until(&come, nr);
	}
	made = nr;
	add(&gone, 1);
}

/* Begins with p workers, for which there are nr cpus. */
static void begin_on(int nr, int p)
{
	come = gone = 0;
	cpus = nr;
	begin(p, 0);
	CHECK_IS(ws_pinning(0), 0);
}

static void run_late(void)
{
	doing("in run_late");
	begin_on(2, 2);
	asleep = &((struct uproc *)ws_sched(1))->p_asleep;
	make_pinned(0, last_moment, NULL);
	start_and_finish();
	CHECK(gone == made && gone > LATE_LEAST);
}

/*
 * More workers than cpus. As many as there are cpus are kept by threads, and the others
 * sleep. A giver then wakes none of them.
 */

#define MANY	6
#define CPUS	2
#define TIMES	5

static long kept, others_ran;

static void keeps(void *arg)
{
	add(&come, 1);
	until(&kept, (long)(intptr_t)arg);
	add(&gone, 1);
}

static void elsewhere(void *arg)
{
	add(&others_ran, 1);
}

static void crowd(void *arg)
{
	long nr, i;

	for (nr = 1; nr <= TIMES; nr++) {
		doing("in crowd, time %ld", nr);
		CHECK_IS(ws_spawn(keeps, (void *)(intptr_t)nr), 0);
		hold_until(&come, nr);
		usleep(20000);				/* the others go to sleep */
		for (i = 0; i < MANY; i++)
			CHECK_IS(ws_spawn(elsewhere, NULL), 0);
		usleep(30000);
		CHECK_IS(get(&others_ran), (nr - 1) * MANY);
		set(&kept, nr);
		yield_until(&gone, nr);
		yield_until(&others_ran, nr * MANY);
	}
}

static void run_crowd(void)
{
	begin_on(CPUS, MANY);
	make_pinned(0, crowd, NULL);
	start_and_finish();
}

static void run(int p)
{
	others = p - 1;
	begin_on(p, p);
	make_pinned(0, makes, NULL);
	start_and_finish();
	CHECK(gone == made && gone >= (long)LEAST * others);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 2; p <= MOST; p++)
		run(p);
	run_late();
	run_crowd();
	return 0;
}
