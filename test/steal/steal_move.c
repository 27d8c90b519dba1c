/* SPDX-License-Identifier: MIT */
/* steal_move: a thread that has blocked goes on elsewhere, with its stack. */
/* VARIANTS: once */

/*
 * All threads begin on worker 0, and block there at any depth, while all other
 * workers are kept busy. Then worker 0 is kept busy, and all threads are woken,
 * so each goes on elsewhere. Then the others are kept busy again, and each
 * thread comes back; and so on. Frames are checked after each block, and at the
 * end on the way up. With few threads each has a lane to itself, however many
 * have ended before; with thousands, lanes are shared. There are more workers
 * than cpus, too.
 *
 * Threads that have not begun go elsewhere also in builds without lanes.
 */
#include "steal.h"

#define TRIPS	6
#define FRAME	64		/* words, at most */
#define BEFORE	1000		/* more threads than lanes */

/* A worker is kept busy by a thread that is pinned there. */

static long keep;		/* even: keepers spin; odd: they wait */
static long kept;		/* how often a keeper has begun to spin */
static long over;
static thread *keeper[16];
static int  procs;

static void keeps(void *arg)
{
	int me = (int)(intptr_t)arg;
	long turn;

	for (turn = 1; get(&over) == 0; turn += 2) {
		CHECK_IS(ws_proc(), me);
		add(&kept, 1);
		until(&keep, turn);
		wait_one();
	}
}

static void keepers_wait(void)
{
	add(&keep, 1);
}

/*
 * When a keeper runs, the thread that ran there has blocked, or has not begun.
 */
static void keepers_spin(void)
{
	long nr = get(&kept) + procs - 1;
	int i;

	add(&keep, 1);
	for (i = 1; i < procs; i++)
		SCHED(wake)(keeper[i]);
	hold_until(&kept, nr);
}

/* The threads. */

static struct traveller {
	thread *t_thread;
	int     t_depth;
	int     t_lane;
} *traveller;

static thread *director;
static int  travellers;
static long blocked, away, back, ended, before;

/* Woken by the director, which keeps worker 0. */
static void goes_away(void)
{
	wait_one();
	CHECK_THAT(ws_proc(), >, 0);
	add(&away, 1);
}

/* The last thread that comes back wakes the director. */
static void comes_back(void)
{
	wait_one();
	CHECK_IS(ws_proc(), 0);
	if (add(&back, 1) % travellers == 0)
		SCHED(wake)(director);
}

static void check_frame(const volatile unsigned *f, int nr, unsigned what)
{
	int i;

	for (i = 0; i < nr; i++)
		CHECK_IS(f[i], check_hash(what, (unsigned)i));
}

static NOINLINE double travels(struct traveller *me, int depth, double sum)
{
	int nr = 1 + depth * 7 % FRAME;
	volatile unsigned frame[nr];
	volatile unsigned *at = frame;
	unsigned what = (unsigned)(me - traveller) * 64u + (unsigned)depth;
	int i;

	for (i = 0; i < nr; i++)
		frame[i] = check_hash(what, (unsigned)i);
	if (depth < me->t_depth)
		sum = travels(me, depth + 1, sum + depth);
	else
		for (i = 0; i < TRIPS; i++) {
			i % 2 ? comes_back() : goes_away();
			check_frame(frame, nr, what);
			CHECK_IS(SCHED(self)(), me->t_thread);
		}
	CHECK_IS(at, frame);
	check_frame(frame, nr, what);
	return sum + 0.5;
}

static void begins(void *arg)
{
	struct traveller *me = arg;
	int d = me->t_depth;

	CHECK_IS(ws_proc(), 0);
	me->t_lane = ustack_self()->u_lane;
	add(&blocked, 1);
	CHECK_IS(travels(me, 0, 0), d * (d - 1) / 2 + 0.5 * (d + 1));
	add(&ended, 1);
}

static void ends_before(void *arg)
{
	add(&before, 1);
}

static void wake_all(void)
{
	int i;

	for (i = 0; i < travellers; i++)
		SCHED(wake)(traveller[i].t_thread);
}

static void make_all(void)
{
	unsigned state = check_seed;
	int i;

	for (i = 0; i < BEFORE; i++)
		make(0, ends_before, NULL);
	yield_until(&before, BEFORE);
	for (i = 0; i < travellers; i++) {
		struct traveller *t = &traveller[i];

		/* Deep threads would get private lanes. */
		t->t_depth = (int)(check_random(&state) %
				   (travellers > 1000 ? 3 : 40));
		t->t_thread = make(0, begins, t);
	}
	yield_until(&blocked, travellers);
}

/* The last to begin may be about to block, but only on this worker. */
static void directs(void *arg)
{
	int i;

	hold_until(&kept, procs - 1);
	make_all();
	for (i = 0; i < TRIPS; i++) {
		if (i % 2) {
			keepers_spin();
			wake_all();
			wait_one();
		} else {
			keepers_wait();
			wake_all();
			hold_until(&away, (i / 2 + 1) * travellers);
		}
	}
	CHECK_IS(ws_proc(), 0);
	set(&over, 1);
	keepers_wait();
	for (i = 1; i < procs; i++)
		SCHED(wake)(keeper[i]);
}

static int compare(const void *a, const void *b)
{
	return ((const struct traveller *)a)->t_lane -
	       ((const struct traveller *)b)->t_lane;
}

/* Returns how many threads share a lane with another. */
static int sharing(void)
{
	int i, nr = 0;

	qsort(traveller, (size_t)travellers, sizeof traveller[0], compare);
	for (i = 1; i < travellers; i++)
		nr += traveller[i].t_lane == traveller[i - 1].t_lane;
	return nr;
}

static void travel(int p, int nr)
{
	intptr_t i;

	doing("%d workers %d threads", p, nr);
	procs = p;
	travellers = nr;
	traveller = calloc((size_t)nr, sizeof traveller[0]);
	CHECK(traveller != NULL);
	keep = kept = over = blocked = away = back = ended = before = 0;
	begin(p, 0);
	director = make_pinned(0, directs, NULL);
	for (i = 1; i < p; i++)
		keeper[i] = make_pinned((int)i, keeps, (void *)i);
	start_and_finish();
	CHECK(ended == nr && away == nr * TRIPS / 2 && back == away);
	CHECK_IS(sharing() > 0, nr > 1000);
	free(traveller);
}

/* Threads that have not begun. */

static bool have_lanes;

static void begins_elsewhere(void *arg)
{
	CHECK_THAT(ws_proc(), >, 0);
	add(&away, 1);
}

static void bears(void *arg)
{
	int i;

	have_lanes = moves();
	for (i = 0; i < (intptr_t)arg; i++)
		make(0, begins_elsewhere, NULL);
	hold_until(&away, (intptr_t)arg);
}

static void bear(int p, intptr_t nr)
{
	away = 0;
	begin(p, 0);
	make_pinned(0, bears, (void *)nr);
	start_and_finish();
	CHECK_IS(away, nr);
}

int main(int argc, char **argv)
{
	static const int nr[] = { 1, 2, 7, 100, 5000 };
	int p, i;

	check_start(argc, argv);
	for (p = 2; p <= 7; p += p == 3 ? 4 : 1) {
		for (i = 0; i < COUNT(nr); i++)
			bear(p, nr[i]);
		for (i = 0; i < COUNT(nr) && have_lanes; i++)
			travel(p, nr[i]);
	}
	return 0;
}
