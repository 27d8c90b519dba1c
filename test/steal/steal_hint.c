/* SPDX-License-Identifier: MIT */
/* steal_hint: u_sched tells the home of a thread, or WS_STOP_LOOK is set. */
/* VARIANTS: once */

/*
 * homes W9, by which a wake may trust u_sched. Threads of worker 0 block, and
 * are woken. A pinned thread then keeps worker 0, so worker 1 takes the others.
 * The first that run there look at all, also at those that were taken, and have
 * not run yet. While each thread has a lane to itself, u_sched is right for each
 * of them, and WS_STOP_LOOK is not set. If many share a lane, some that share
 * it with a thread that was taken are left behind, and WS_STOP_LOOK is set. The
 * same for threads that have not begun when they are taken.
 */
#include "steal.h"

#define FEW	40
#define MANY	2000		/* more than lanes */

static thread *threads[MANY];
static long nr, begun, go, seen, over, looking;

static bool may_look(void)
{
	return __atomic_load_n(&worker_at(0)->w_gate.g_stop.k_stop, __ATOMIC_ACQUIRE) &
		WS_STOP_LOOK;
}

static bool is_hint(const thread *t, int p)
{
	return __atomic_load_n(&STRUCT(t)->t_stack.u_sched,
			       __ATOMIC_ACQUIRE) == ws_sched(p);
}

/* By a thread of worker 1, while that of worker 0 does not change. */
static void look(void)
{
	struct ws_worker *w = worker_at(1);
	long wrong = 0;
	long i;

	for (i = 0; i < nr; i++)
		wrong += ws_is_home(w, STRUCT(threads[i])) !=
			is_hint(threads[i], 1);
	if (nr == FEW)
		CHECK(wrong == 0 && !may_look());
	else
		CHECK(wrong > 0 && may_look());
	if (ws_deque_size(&w->w_deque) > 0)
		add(&seen, 1);
}

/* Threads that have not begun have no home: those that were taken are here. */
static void look_new(void)
{
	struct ws_worker *w = worker_at(1);
	long came = add(&begun, 1);
	long hints = 0;
	long i;

	for (i = 0; i < nr; i++)
		hints += is_hint(threads[i], 1);
	CHECK(hints == came + ws_deque_size(&w->w_deque) && !may_look());
	if (ws_deque_size(&w->w_deque) > 0)
		add(&seen, 1);
}

static void looks(void (*f)(void))
{
	add(&looking, 1);
	if (!get(&over) && ws_proc() == 1 && !get(&seen))
		f();
	add(&looking, -1);
}

static void waits(void *arg)
{
	add(&begun, 1);
	wait_one();
	looks(look);
	wait_one();
}

static void begins(void *arg)
{
	looks(look_new);
	wait_one();
}

static void wake_all(void)
{
	long i;

	for (i = 0; i < nr; i++)
		ws_wake(threads[i]);
}

static void make_all(void (*f)(void *))
{
	long i;

	for (i = 0; i < nr; i++)
		threads[i] = make(0, f, NULL);
}

/* Keeps worker 0 until all was looked at. Then all threads may end. */
static void keep(void)
{
	set(&go, 1);
	hold_until(&seen, 1);
	set(&over, 1);
	while (get(&looking) > 0)
		check_yield();
	wake_all();
}

static void keeps(void *arg)
{
	make_all(waits);
	yield_until(&begun, nr);
	wake_all();
	keep();
}

static void keeps_new(void *arg)
{
	make_all(begins);
	keep();
}

/* Worker 1 takes nothing before. */
static void is_busy(void *arg)
{
	hold_until(&go, 1);
}

static void run(long threads_nr, void (*keeper)(void *))
{
	nr = threads_nr;
	begun = go = seen = over = looking = 0;
	begin(2, 0);
	make_pinned(1, is_busy, NULL);
	make_pinned(0, keeper, NULL);
	start_and_finish();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	need_moves();
	run(FEW, keeps);
	run(MANY, keeps);
	run(FEW, keeps_new);
	return 0;
}
