/* SPDX-License-Identifier: MIT */
/* steal_pin: a pinned thread runs only on its worker, until unpinned. */
/* VARIANTS: once */

/*
 * First, one worker is kept busy, with threads that can run on it. All that are
 * not pinned run elsewhere, and no others do. Then many threads, pinned when
 * they were made, or by themselves wherever they were, yield, wait, and are
 * woken from everywhere, while others are taken to and fro. Last, a thread that
 * was unpinned goes elsewhere again. So does a task that begins where such a
 * thread has ended.
 */
#include "steal.h"

#define NR	40

static long ran, pinned_ran, held, here, others;
static thread *peer[2 * NR];

/*
 * Worker 0 is kept busy until the threads that can go have gone. They have
 * become able to run there in each way: woken, yielded, not begun. Pinned
 * threads pin themselves, or were made pinned.
 */

static void is_taken(void *arg)
{
	add(&here, 1);
	wait_one();
	CHECK(ws_proc() != 0);
	add(&ran, 1);
}

static void stays_waiting(void *arg)
{
	if (arg != NULL)
		ws_pin();
	CHECK_IS(ws_proc(), 0);
	add(&here, 1);
	wait_one();
	CHECK_IS(ws_proc(), 0);
	CHECK_IS(get(&held), 0);
	add(&pinned_ran, 1);
}

static void stays_yielding(void *arg)
{
	if (arg != NULL)
		ws_pin();
	CHECK_IS(ws_proc(), 0);
	add(&here, 1);
	do
		yield();
	while (get(&here) < 2 * NR);
	CHECK_IS(ws_proc(), 0);
	CHECK_IS(get(&held), 0);
	add(&pinned_ran, 1);
}

static void begins_here(void *arg)
{
	CHECK_IS(ws_proc(), 0);
	CHECK_IS(get(&held), 0);
	add(&pinned_ran, 1);
}

/*
 * Makers of threads keep all other workers busy until all threads are at worker
 * 0.
 */
static void holds(void *arg)
{
	int i, nr = (int)(intptr_t)arg;

	for (i = 0; i < NR; i++) {
		peer[i] = make(0, is_taken, NULL);
		peer[NR + i] = i % 4 == 0 ? make(0, stays_waiting, peer) :
			i % 4 == 1 ? make(0, stays_yielding, peer) :
			i % 4 == 2 ? make_pinned(0, stays_waiting, NULL) :
			make_pinned(0, stays_yielding, NULL);
	}
	yield_until(&here, 2 * NR);
	set(&held, 1);			/* from here on it does not block */
	set(&others, 1);
	for (i = 0; i < nr; i++)
		make_pinned(0, begins_here, NULL);
	for (i = 0; i < 2 * NR; i++)
		if (i < NR || i % 4 == 0 || i % 4 == 2)
			SCHED(wake)(peer[i]);
	hold_until(&ran, NR);
	usleep(20000);			/* thieves look for more, in vain */
	CHECK_IS(pinned_ran, 0);
	set(&held, 0);
}

static void busy(void *arg)
{
	until(&others, 1);
}

static void only_others(int p, intptr_t nr)
{
	int i;

	ran = pinned_ran = held = here = others = 0;
	begin(p, 0);
	make_pinned(0, holds, (void *)nr);
	for (i = 1; i < p; i++)
		make_pinned(i, busy, NULL);
	start_and_finish();
	CHECK(ran == NR && pinned_ran == NR + nr);
}

/* Many pinned and other threads, which wake each other at random. */

#define ALL	120
#define EACH	300

static struct one {
	thread   *o_thread;
	int       o_pinned;	/* to this worker, or -1 */
	long      o_woken;	/* how often, by any thread */
	unsigned  o_state;
} all[ALL];

static long moved, left;
static int  procs;

static void check_place(struct one *o, pthread_t *native, int *last)
{
	int p = ws_proc();

	CHECK(p >= 0 && p < procs);
	if (o->o_pinned >= 0) {
		CHECK_IS(p, o->o_pinned);
		CHECK(o->o_pinned != *last || *native == pthread_self());
	} else if (p != *last)
		add(&moved, 1);
	*native = pthread_self();
	*last = p;
}

static void wake_any(struct one *o)
{
	struct one *to = &all[check_random(&o->o_state) % ALL];

	add(&to->o_woken, 1);
	SCHED(wake)(to->o_thread);
}

/*
 * Pins and unpins. Pinning twice is pinning once. A thread may unpin itself
 * even if it was made pinned.
 */
static void pins(struct one *o)
{
	unsigned r = check_random(&o->o_state) % 64;

	if (r < 2 && o->o_pinned < 0) {
		o->o_pinned = ws_proc();
		ws_pin();
		if (r == 1)
			ws_pin();
	} else if (r == 3 && o->o_pinned >= 0) {
		o->o_pinned = -1;
		ws_unpin();
		ws_unpin();
	}
}

static void lives(void *arg)
{
	struct one *o = arg;
	pthread_t native = pthread_self();
	int last = ws_proc();
	long got = 0;
	int i;

	for (i = 0; i < EACH; i++) {
		check_place(o, &native, &last);
		if (i % 3 == 0)
			wake_any(o);
		pins(o);
		if (check_random(&o->o_state) % 4 == 0)
			yield();
		else if (got < get(&o->o_woken)) {
			got++;
			wait_one();
		}
	}
	add(&left, -1);
	/* No thread may end while it may be woken. */
	while (get(&left) > 0) {
		check_place(o, &native, &last);
		yield();
	}
	for (; got < o->o_woken; got++)
		wait_one();
	check_place(o, &native, &last);
}

static void *wakes_from_outside(void *arg)
{
	struct one o = { .o_state = check_hash(check_seed, 1) };

	while (get(&left) > ALL / 2) {
		wake_any(&o);
		check_yield();
	}
	add(&left, -1);
	SCHED(release)();
	return NULL;
}

static void together(int p)
{
	pthread_t id;
	int i;

	moved = 0;
	left = ALL + 1;
	procs = p;
	begin(p, 0);
	for (i = 0; i < ALL; i++) {
		struct one *o = &all[i];

		*o = (struct one){ NULL, i % 3 == 0 ? i % p : -1, 0,
			check_hash(check_seed, (unsigned)i) };
		o->o_thread = i % 3 == 0 ? make_pinned(i, lives, o) :
			make(0, lives, o);
	}
	SCHED(hold)();
	id = native(wakes_from_outside, NULL);
	start_and_finish();
	native_join(id);
}

/*
 * An unpinned thread goes: its worker is kept busy until it has run elsewhere.
 * So does a thread that gets the lane of threads that were pinned to their end.
 * But the lane in which pinned threads begin stays, and a task must not go on
 * there.
 */

static void ends_pinned(void *arg)
{
	CHECK_IS(ws_proc(), 0);
	ws_pin();
	yield();
	add(&pinned_ran, 1);
}

static void goes(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		ws_pin();
	add(&here, 1);
	wait_one();
	CHECK_IS(ws_proc(), 0);
	ws_unpin();
	add(&here, 1);
	wait_one();
	CHECK(ws_proc() != 0);
	add(&ran, 1);
}

static void follows(void *arg)
{
	peer[0] = SCHED(self)();
	is_taken(arg);
}

static void is_followed(void *arg)
{
	ws_unpin();
	CHECK_IS(ws_spawn(follows, arg), 0);
}

static void lets_go(void *arg)
{
	thread *t;
	int i;

	for (i = 0; i < NR; i++)
		make(0, ends_pinned, NULL);
	yield_until(&pinned_ran, NR);
	t = make(0, goes, NULL);
	yield_until(&here, 1);
	make_pinned(0, is_followed, NULL);
	yield_until(&here, 2);
	SCHED(wake)(t);
	set(&others, 1);
	yield_until(&here, 3);
	SCHED(wake)(t);
	SCHED(wake)(peer[0]);
	hold_until(&ran, 2);
}

static void unpinned(int p)
{
	int i;

	ran = pinned_ran = here = others = 0;
	begin(p, 0);
	make_pinned(0, lets_go, NULL);
	for (i = 1; i < p; i++)
		make_pinned(i, busy, NULL);
	start_and_finish();
	CHECK_IS(ran, 2);
}

static bool have_lanes;

static void asks(void *arg)
{
	have_lanes = moves();
}

static void misuse(void)
{
	begin(1, 0);
	ws_pin();
}

static void misuse_too(void)
{
	ws_unpin();
}

int main(int argc, char **argv)
{
	long gone = 0;
	int i;

	check_start(argc, argv);
	CHECK_IS(ws_proc(), -1);
	begin(1, 0);
	CHECK_IS(ws_proc(), -1);
	make(0, asks, NULL);
	start_and_finish();
	for (i = 0; i < 20 && have_lanes; i++) {
		doing("in only_others");
		only_others(2 + i % 4, i * 10);
		doing("in unpinned");
		unpinned(2 + i % 4);
	}
	doing("in together");
	for (i = 0; i < 20; i++) {
		together(1 + i % 5);
		gone += moved;
	}
	CHECK(!have_lanes || gone > 0);
	return check_dies("pin", misuse, "pin: called outside of a thread") +
		check_dies("unpin", misuse_too,
			   "unpin: called outside of a thread") != 0;
}
