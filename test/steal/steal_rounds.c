/* SPDX-License-Identifier: MIT */
/* steal_rounds: in millions of rounds a sleeping worker loses no wake. */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=syscall */

/*
 * There are two workers, and one thread that is woken again and again, after it
 * has waited: by a thread of the other worker, by a native thread, and by a
 * thread that may come to the same worker. The pause before some of the wakes
 * becomes longer while the worker is awake, and shorter when it has slept. So
 * these wakes come just when the worker goes to sleep, before and after. Sleeps
 * are counted at the system call. There they have no time limit, so a watch
 * cannot make up for a lost wake.
 *
 * ROUNDS in the environment is the number of rounds.
 */
#include "steal.h"
#include "system_call.h"
#include <time.h>

#define USUAL		200000
#define PAUSE_MOST	1000000
#define FAR		256

static long rounds, sent, got;
static long slept;		/* sleeps of worker 0 that a wake ended */
static int  *asleep;		/* its futex word */
static long inside;		/* worker 0 is in the system call, or almost */
static thread *one, *other;

/*
 * Tells whether a worker sleeps at this word. Other waits, as naps, keep their
 * time.
 */
static bool is_worker(long at)
{
	int i;

	for (i = 0; i < 2; i++) {
		if ((int *)at == &((struct uproc *)ws_sched(i))->p_asleep)
			return true;
	}
	return false;
}

/* Removes the time limit of a worker's futex wait. */
static long system_call(long nr, long a[6])
{
	bool waits = is_futex(nr, a, SYSTEM_WAIT) && is_worker(a[0]);
	bool ours = waits && (int *)a[0] == asleep;
	long rc;

	if (waits)
		a[3] = 0;
	add(&inside, ours);
	rc = really_call(nr, a);
	add(&inside, -ours);
	if (ours && rc == 0)
		add(&slept, 1);
	return rc;
}

static bool asleep_now(void)
{
	return __atomic_load_n(asleep, __ATOMIC_SEQ_CST) != 0;
}

/* Gives the cpu away only after a while, since another program may take it. */
static void patience(int *turns)
{
	WS_STOP_RELAX();
	if (++*turns % 512 == 0)
		check_yield();
}

/*
 * Pauses about as long as the worker needs to go to sleep, with some
 * randomness.
 */
static void pause_before(unsigned *state, int *pause)
{
	int nr = (int)(check_random(state) % (unsigned)(*pause + 1));
	int turns = 0;

	for (nr += *pause / 2; turns < nr; )
		patience(&turns);
	if (asleep_now())
		*pause -= 1 + *pause / 2;
	else if (*pause < PAUSE_MOST)
		*pause += 1 + *pause / 32;
	if (*pause < 0)
		*pause = 0;
}

/* Waits until the worker is asleep in the kernel, not only about to be. */
static void until_sound(int *turns)
{
	static const struct timespec doze = { 0, 20000 };

	while (!asleep_now() || get(&inside) == 0)
		patience(turns);
	nanosleep(&doze, NULL);
}

/* Wakes. At times this is long after the worker has gone to sleep. */
static void wakes_one(unsigned *state, int *pause)
{
	int turns = 0;

	if (check_random(state) % 4 == 0)
		pause_before(state, pause);
	if (sent % FAR == 0)
		until_sound(&turns);
	sent++;
	SCHED(wake)(one);
}

static void is_woken(void *arg)
{
	long i;

	for (i = 0; i < rounds; i++) {
		wait_one();
		add(&got, 1);
	}
}

/* Keeps its worker, so that stays awake. */
static void wakes(void *arg)
{
	unsigned state = check_seed;
	int pause = 0;

	while (sent < rounds) {
		int turns = 0;

		wakes_one(&state, &pause);
		while (get(&got) < sent)
			patience(&turns);
	}
}

static void *native_wakes(void *arg)
{
	wakes(arg);
	SCHED(release)();
	return NULL;
}

static void start(int p, long nr)
{
	rounds = nr;
	sent = got = slept = 0;
	begin(p, 0);
	asleep = &((struct uproc *)ws_sched(0))->p_asleep;
}

static void end(void)
{
	finish();
	CHECK(got == rounds && sent == rounds);
	CHECK_THAT(slept, >=, rounds / FAR / 2);
}

/* A thread of the other worker wakes. */
static void from_worker(long nr)
{
	start(2, nr);
	one = make_pinned(0, is_woken, NULL);
	make_pinned(1, wakes, NULL);
	CHECK_IS(SCHED(start)(), 0);
	end();
}

/*
 * A native thread wakes. With two workers, the other sleeps, too, or watches.
 */
static void from_outside(int p, long nr)
{
	pthread_t id;

	start(p, nr);
	one = p > 1 ? make_pinned(0, is_woken, NULL) : make(0, is_woken, NULL);
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	id = native(native_wakes, NULL);
	end();
	native_join(id);
}

/* Two threads wake each other, and both may move. */

static void answers(void *arg)
{
	long i;

	for (i = 0; i < rounds; i++) {
		wait_one();
		got++;			/* plain: passed on with the wake */
		SCHED(wake)(other);
	}
}

static void asks(void *arg)
{
	unsigned state = check_seed;
	volatile unsigned spin;

	while (sent < rounds) {
		for (spin = check_random(&state) % 512; spin > 256; spin--)
			;
		sent++;
		SCHED(wake)(one);
		if (sent % 4 == 0)
			yield();	/* so that it may be stolen */
		wait_one();
		CHECK_IS(got, sent);
	}
}

static void to_and_fro(long nr)
{
	start(2, nr);
	one   = make(0, answers, NULL);
	other = make(1, asks, NULL);
	start_and_finish();
	CHECK(got == rounds && sent == rounds);
}

int main(int argc, char **argv)
{
	long nr;

	check_start(argc, argv);
	nr = how_many("ROUNDS", USUAL);
	doing("in from_worker");
	from_worker(nr / 2);
	doing("in from_outside");
	from_outside(2, nr / 4);
	from_outside(1, nr / 16);
	doing("in to_and_fro");
	to_and_fro(nr / 4);
	return 0;
}
