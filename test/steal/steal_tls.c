/* SPDX-License-Identifier: MIT */
/* steal_tls: the library knows thread and worker after each migration. */
/* VARIANTS: once */

/*
 * A thread goes from one worker to the other and back, in the middle of
 * functions whose values the compiler may keep anywhere. ustack_self(),
 * ws_self(), ws_proc() and the like are right each time. The address of a
 * thread-local variable that a function keeps meanwhile is not: it is that of
 * the old native thread (ws.h says so). This shows that the thread did migrate.
 * Wakes that it sends go to the queue of the new worker: all come, each once.
 *
 * test/steal/tls.sh compiles this together with the library, at all levels.
 */
#include "steal.h"

#define TRIPS	100		/* trips in each function */
#define NR	8		/* threads that the traveller wakes */

static __thread int local = -1;
static int  *local_at[2];
static thread *helper[2], *dummy[2], *woken[NR], *traveller;
static long  helped, arrived, over, wakes;

/* Hides the address, which compilers assume to be always the same. */
static NOINLINE int *local_now(void)
{
	int *at = &local;

	__asm__ volatile("" : "+r"(at) : : "memory");
	return at;
}

/* Counts the wakes at *arg. */
static void is_woken(void *arg)
{
	for (;;) {
		wait_one();
		if (get(&over))
			break;
		if (arg != NULL)
			add(arg, 1);
	}
}

/*
 * Pinned, and keeps its worker: the traveller must go to the other. The
 * traveller is out of the slot, so it is mostly taken at once; now and then,
 * only by a worker that watches.
 */
static void helps(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	local = me;
	local_at[me] = local_now();
	add(&helped, 1);
	for (i = 0; ; i++) {
		wait_one();
		if (get(&over))
			break;
		SCHED(wake)(traveller);
		if (i % 16 != 0)
			SCHED(wake)(dummy[me]);
		until(&arrived, 1);
		set(&arrived, 0);
	}
}

/* Goes to the other worker. Inline on purpose. */
static inline __attribute__((always_inline)) void go(void)
{
	SCHED(wake)(helper[ws_proc()]);
	SCHED(wait)();
	set(&arrived, 1);
	while (get(&arrived))
		check_yield();
}

/* Goes between two looks in the same function. */
static NOINLINE void plain(thread *me)
{
	int p = ws_proc();

	CHECK((thread *)ustack_self() == me && SCHED(self)() == me);
	go();
	CHECK((thread *)ustack_self() == me && SCHED(self)() == me);
	CHECK_IS(ws_proc(), !p);
}

/* Goes in a loop, out of which compilers move what does not change. */
static NOINLINE void loop(thread *me, int nr)
{
	int i, p = ws_proc();

	for (i = 0; i < nr; i++) {
		CHECK_IS((thread *)ustack_self(), me);
		CHECK_IS(ustack_self()->u_sched, ws_sched(p));
		go();
		CHECK_IS((thread *)ustack_self(), me);
		p = !p;
		CHECK_IS(ustack_self()->u_sched, ws_sched(p));
		CHECK(ws_proc() == p && *local_now() == p);
	}
}

/* Goes on one of two paths, and on the way back. */
static NOINLINE int branches(thread *me, int nr)
{
	struct ustack *before = ustack_self();
	int p = ws_proc();

	if (nr % 2) {
		go();
		CHECK_IS((thread *)ustack_self(), me);
	}
	if (nr % 3 == 0 || nr % 2 == 0)
		go();
	CHECK(ustack_self() == before && ustack_self()->u_arg == &traveller);
	return p;
}

/* Waits and wakes are counted where the thread is. */
static NOINLINE void counts(int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		SCHED(wake)(SCHED(self)());
	CHECK_IS(SCHED(wait)(), 0);
	for (i = 1; i < nr; i++) {
		CHECK_IS(SCHED(wait)(), 0);
		CHECK_IS(SCHED(yield)(), 0);
	}
	go();
	SCHED(wake)(SCHED(self)());
	CHECK_IS(SCHED(wait)(), 0);
}

/* errno that the library sets is that of the current native thread. */
static NOINLINE void is_einval(void)
{
	CHECK_IS(errno, EINVAL);
	errno = 0;
}

static NOINLINE void errors(void)
{
	CHECK_IS(ws_thread_init(NULL, NULL), NULL);
	is_einval();
	go();
	CHECK_IS(ws_thread_init(NULL, NULL), NULL);
	is_einval();
	CHECK_IS(ws_spawn(NULL, NULL), -EINVAL);
}

/* Keeps an address, as a program must not. */
static NOINLINE void kept_address(void)
{
	int *volatile at = local_now();
	int p = ws_proc();

	CHECK(at == local_at[p] && *at == p);
	go();
	CHECK(at == local_at[p] && *at == p);		/* the other worker's */
	CHECK(local_now() == local_at[!p] && *local_now() == !p);
}

/* Wakes others before each of three trips, and after it. */
static NOINLINE void wakes_on_the_way(int i)
{
	struct usched *before = usched_self();
	int k;

	CHECK_IS(before, ws_sched(ws_proc()));
	for (k = 0; k < 3; k++) {
		SCHED(wake)(woken[(i + k) % NR]);
		go();
		CHECK_THAT(usched_self(), !=, before);
		CHECK_IS(usched_self(), ws_sched(ws_proc()));
		CHECK_IS(usched_self(), ustack_self()->u_sched);
		SCHED(wake)(woken[(i + k) % NR]);
		before = usched_self();
	}
}

/* Each wake has come, and none is left that comes twice. */
static void all_came(void)
{
	int i;

	yield_until(&wakes, TRIPS * 6);
	for (i = 0; i < 100; i++)
		yield();
	CHECK_IS(get(&wakes), TRIPS * 6);
}

static void travels(void *arg)
{
	int i;

	traveller = SCHED(self)();
	yield_until(&helped, 2);
	for (i = 0; i < TRIPS; i++) {
		plain(traveller);
		loop(traveller, 1 + i % 3);
		(void)branches(traveller, i);
		counts(3);
		errors();
		kept_address();
		wakes_on_the_way(i);
	}
	all_came();
	set(&over, 1);
	for (i = 0; i < NR; i++)
		SCHED(wake)(woken[i]);
	for (i = 0; i < 2; i++) {
		SCHED(wake)(helper[i]);
		SCHED(wake)(dummy[i]);
	}
}

int main(int argc, char **argv)
{
	intptr_t i;

	check_start(argc, argv);
	need_moves();
	begin(2, 0);
	for (i = 0; i < 2; i++) {
		helper[i] = make_pinned((int)i, helps, (void *)i);
		dummy[i]  = make_pinned((int)i, is_woken, NULL);
	}
	for (i = 0; i < NR; i++)
		woken[i] = make((int)i, is_woken, &wakes);
	make(0, travels, &traveller);
	start_and_finish();
	return 0;
}
