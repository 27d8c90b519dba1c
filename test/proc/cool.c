/* SPDX-License-Identifier: MIT */
/* cool: threads that wait long in private lanes give back memory, and lose nothing. */
/* VARIANTS: RR LL WS PR */

/*
 * A thousand threads wait, some of them deep, while ten others keep their processor
 * awake. Of each that waits in a private lane which was not promised, the stack is
 * given back. Those that run, and those with a promise, keep theirs. The processor
 * sleeps in another round. Then all go on, and find their frames as they were, and
 * what points into them. There are several rounds.
 */
#include "either.h"
#include <sys/mman.h>

#if defined(USCHED_HARD) || defined(USCHED_PORTABLE)
#define GIVES_BACK	0	/* no lanes, or lanes keep their memory */
#else
#define GIVES_BACK	1
#endif
#define IDLE		1000
#define BUSY		10
#define PROMISED	20
#define ROUNDS		3

static thread *threads[IDLE];
static char *frames[IDLE];		/* in private lanes; else NULL */
static long waiting, ended, busy, over;

/* Returns whether the page at `at` is there. */
static bool is_there(const char *at)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char there;

	CHECK_IS(mincore((void *)((uintptr_t)at & -page), page, &there), 0);
	return there & 1;
}

static bool is_own(void)
{
	const struct ustack *u = ustack_self();

	return u->u_lane > u->u_sched->s_lane_nr;
}

static NOINLINE void yields_deep(void)
{
	volatile char *more = __builtin_alloca(5000);

	more[0] = 1;
	yield();
	CHECK_IS(more[0], 1);
}

/* Waits with nob bytes more, whose last point to the first. */
static NOINLINE void waits(int me, int nob)
{
	struct {
		volatile char *at;
		volatile char  text[100];
	} f;
	volatile char *more = __builtin_alloca((size_t)nob);

	f.at = &f.text[7];
	f.text[7] = more[0] = more[nob - 1] = (char)me;
	frames[me] = is_own() && GIVES_BACK ? (char *)f.text : NULL;
	add(&waiting, 1);
	wait_one();
	CHECK(f.at == &f.text[7] && *f.at == (char)me);
	CHECK(more[0] == (char)me && more[nob - 1] == (char)me);
}

/* The first of their function, which have no arg, only let it be known as deep. */
static void idle(void *arg)
{
	int me = (int)((thread **)arg - threads);
	int round;

	if (arg == NULL) {
		yields_deep();
		return;
	}

	for (round = 0; round < ROUNDS; round++)
		waits(me, me % 3 == round % 3 ? 5000 : 100);
	add(&ended, 1);
}

/* Runs, and looks at its own stack, until the end. */
static void runs(void *arg)
{
	volatile long frame[100];
	long i = 0;

	while (!get(&over)) {
		frame[i % 100] = i;
		if (get(&busy))
			yield();
		else
			wait_one();
		CHECK_IS(frame[i % 100], i);
		i++;
	}
	(void)arg;
}

/* Returns how many threads are in private lanes that were not promised. */
static int own(void)
{
	int i, nr = 0;

	for (i = PROMISED; i < IDLE; i++)
		nr += frames[i] != NULL;
	return nr;
}

/* Returns how many of the stacks are there that should not be. */
static int kept(void)
{
	int i, nr = 0;

	for (i = PROMISED; i < IDLE; i++)
		nr += frames[i] != NULL && is_there(frames[i]);
	return nr;
}

static void *watch(void *arg)
{
	thread **runners = arg;
	int i, round;

	for (round = 0; round < ROUNDS; round++) {
		until(&waiting, (round + 1) * (long)IDLE);
		CHECK(own() > 0 || !GIVES_BACK);
		if (round == ROUNDS - 1)
			set(&busy, 0);		/* all sleep */
		while (kept() > 0)
			check_yield();
		for (i = 0; i < PROMISED; i++)
			CHECK(frames[i] == NULL || is_there(frames[i]));
		set(&busy, 1);
		for (i = 0; i < BUSY; i++)
			SCHED(wake)(runners[i]);
		for (i = 0; i < IDLE; i++)
			SCHED(wake)(threads[i]);
	}
	until(&ended, IDLE);
	set(&over, 1);			/* they run, and end */
	SCHED(release)();
	return NULL;
}

/* Makes all others, when ws knows that they need private lanes. */
static void begins(void *arg)
{
	thread **runners = arg;
	int i;

	make(0, idle, NULL);
	yield();
	yield();
	for (i = 0; i < BUSY; i++)
		runners[i] = make(0, runs, NULL);
	for (i = 0; i < IDLE; i++) {
		if (i == 0 || i == PROMISED)
			(void)SCHED(private)(i == 0);
		threads[i] = make(0, idle, &threads[i]);
	}
}

int main(int argc, char **argv)
{
	static thread *runners[BUSY];

	check_start(argc, argv);
	begin(1, IDLE + BUSY + 2);
	set(&busy, 1);
	make(0, begins, runners);
	start_and_finish_with(watch, runners);
	CHECK_IS(ended, IDLE);
	return 0;
}
