/* SPDX-License-Identifier: MIT */
/* cxx: with ucxx, C++ threads block in catch handlers and while they unwind. */

/*
 * Threads rethrow what they have caught, in a handler and in a handler in a
 * handler, throw and catch in destructors that run because of an exception, and
 * block everywhere there. Each finds its own exceptions, and nothing is being
 * handled where a thread begins, or a dispatcher runs (ucxx Z1): also if a
 * thread moves to another native thread in a handler, aborts there, or runs a
 * dispatcher there.
 *
 *	cxx		all that; for cxx.sh
 *	cxx swaps	a thread blocks in a handler, and no more
 *	cxx unwinds	in a destructor, and no more
 *	cxx lawful	needs no ucxx: no thread blocks in a handler
 */

#include "either.h"
#include "tiny.h"
#include <exception>
#include <stdexcept>

#define NR	60
#define ROUNDS	20

struct mine {
	int m_id;
	int m_round;
};

static long ended;
static void (*pause_now)();		/* blocks, so that others run */

static bool none()
{
	return std::current_exception() == nullptr &&
		std::uncaught_exceptions() == 0;
}

/* The innermost that is handled is this. */
static void handles(int id, int round)
{
	try {
		throw;
	} catch (const mine &m) {
		pause_now();
		CHECK(m.m_id == id && m.m_round == round);
	}
}

/* Blocks, and has exceptions of its own, while another one unwinds. */
struct unwinder {
	int d_id;
	explicit unwinder(int id) : d_id(id) { }
	~unwinder()
	{
		int before = std::uncaught_exceptions();

		CHECK(before == 1);
		pause_now();
		CHECK(std::uncaught_exceptions() == before);
		try {
			throw mine { d_id, -1 };
		} catch (const mine &) {
			CHECK(std::uncaught_exceptions() == before);
			handles(d_id, -1);
		}
		pause_now();
		CHECK(std::uncaught_exceptions() == before);
	}
};

static NOINLINE void throws(int id, int round)
{
	unwinder d(id);

	throw mine { id, round };
}

static void one_round(int id, int round)
{
	try {
		throws(id, round);
	} catch (const mine &m) {
		pause_now();
		CHECK(m.m_id == id && m.m_round == round);
		handles(id, round);
		try {
			throw mine { id, round + 1000 };
		} catch (const mine &) {
			handles(id, round + 1000);
		}
		pause_now();
		handles(id, round);
	}
	CHECK(none());
}

static void thread_main(void *arg)
{
	int id = (int)(intptr_t)arg;

	CHECK(none());
	for (int i = 0; i < ROUNDS; i++)
		one_round(id, i);
	add(&ended, 1);
	if (id % 4 != 0)
		return;
	try {
		throw mine { id, 0 };
	} catch (const mine &) {
		pause_now();
		ustack_abort();		/* ucxx Z1 for those that come */
	}
}

static void pause_yield()
{
	yield();
}

static void pause_tiny()
{
	tiny_yield();
}

/* A dispatcher alone. */

static struct ustack *next_looks(struct usched *s)
{
	CHECK(none());
	return tiny_next(s);
}

static void bare(int lanes)
{
	static struct tiny t;
	static struct tiny_thread tt[NR];

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_sched.s_next = next_looks;
	pause_now = pause_tiny;
	ended = 0;
	for (int i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], thread_main, (void *)(intptr_t)i);
	usched_run(&t.t_sched);		/* also in a thread of another */
	CHECK(t.t_live == 0 && t.t_held == 0 && ended == NR);
	usched_fini(&t.t_sched);
}

/* The caller handles an exception of its own meanwhile. */
static void bare_in_handler(int lanes)
{
	try {
		throw mine { 4711, lanes };
	} catch (const mine &) {
		bare(lanes);
		try {
			throw;
		} catch (const mine &m) {
			CHECK(m.m_id == 4711 && m.m_round == lanes);
		}
	}
	CHECK(none());
}

static void runs_bare(void *arg)
{
	(void)arg;
	bare_in_handler(3);
}

static void together()
{
	begin(2, 0);
	pause_now = pause_yield;
	ended = 0;
	for (int i = 0; i < NR; i++)
		make(i, thread_main, (void *)(intptr_t)i);
	start_and_finish();
	CHECK(get(&ended) == NR);
	begin(1, 0);
	make(0, runs_bare, NULL);
	start_and_finish();
}

#if defined(WS)

/* Moves away from its worker in a handler: that one is kept busy. */

static long moved;

static void computes(void *arg)
{
	(void)arg;
	while (!get(&moved))
		check_yield();
}

static void moves(void *arg)
{
	int proc = ws_proc();

	(void)arg;
	try {
		throws(1, 2);
	} catch (const mine &) {
		CHECK(ws_thread_pinned(proc, computes, NULL) != NULL);
		while (ws_proc() == proc)
			yield();
		CHECK(ws_proc() != proc);
		handles(1, 2);
		set(&moved, 1);
		handles(1, 2);
	}
	CHECK(none());
}

static void moving()
{
	for (int i = 0; i < 5 && tiny_has_lanes(); i++) {
		moved = 0;
		begin(2, 0);
		pause_now = pause_yield;
		make(0, moves, NULL);
		start_and_finish();
	}
}

#else

static void moving()
{
}

#endif

/* What dies in the hard mode, unless ucxx is linked. */

static void in_handler(void *arg)
{
	(void)arg;
	try {
		throw mine { 1, 1 };
	} catch (const mine &) {
		tiny_yield();
	}
}

struct yields {
	~yields()
	{
		tiny_yield();
	}
};

static void in_destructor(void *arg)
{
	(void)arg;
	try {
		yields y;

		throw mine { 1, 1 };
	} catch (const mine &) {
	}
}

static void outside(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		try {
			tiny_yield();
			throw mine { 1, (int)(intptr_t)arg };
		} catch (const mine &m) {
			CHECK(m.m_round == (int)(intptr_t)arg);
		}
		tiny_yield();
	}
}

static void two(void (*f)(void *))
{
	static struct tiny t;
	static struct tiny_thread tt[2];

	tiny_init(&t, 0);
	tiny_start(&t, &tt[0], f, (void *)1);
	tiny_start(&t, &tt[1], outside, (void *)2);
	tiny_run(&t);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	check_start(1, argv);
	if (strcmp(what, "swaps") == 0)
		two(in_handler);
	else if (strcmp(what, "unwinds") == 0)
		two(in_destructor);
	else if (strcmp(what, "lawful") == 0) {
		try {
			throw mine { 1, 1 };
		} catch (const mine &) {
			two(outside);
		}
	} else {
		for (int lanes = 0; lanes <= NR; lanes += NR / 4) {
			bare(lanes);
			bare_in_handler(lanes);
		}
		together();
		moving();
	}
	return 0;
}
