/* SPDX-License-Identifier: MIT */
/* wrap.c: two threads that block at the same place, or below other calls. */

/*
 * The program is asked
 *
 *	WHERE ROUNDS		seconds, for two threads that take turns
 *
 * and answers as bench.h says. Each thread wakes the other and waits, ROUNDS
 * times, on one processor. So this is a ring of two, and a message is the same
 * as there. The time goes from when the first thread runs to when both have
 * ended. WHERE says from which calls the threads wait:
 *
 *	1  the same site	both run one function, and the wait is in it
 *	2  different sites	each runs a function of its own
 *	3  different callers	the same, and the wait is in one wrapper
 *	4  the same callers	both run one function, and the wait is in a
 *				wrapper in a wrapper
 *
 *	1:  ping -> wait	3:  ping -> wrap -> wait
 *	    ping -> wait	    pong -> wrap -> wait
 *
 *	2:  ping -> wait	4:  deep -> wrap_twice -> wrap -> wait
 *	    pong -> wait	    deep -> wrap_twice -> wrap -> wait
 *
 * WHY. A processor predicts a return from a stack of the calls that it has
 * seen. A switch changes the program's stack, but not the predictor's. The
 * thread that goes on returns to its caller, while the predicted address is in
 * the caller of the thread that has blocked. In 1 and 4 these are the same, if
 * the switch itself makes as many calls as returns. In 2 a ret of the switch is
 * always predicted wrong, and a jump is not. In 3 the ret of the wrapper is
 * always predicted wrong, and the switch cannot change that. If the switch
 * makes a call without its return, each ret of the wrappers in 4 is predicted
 * wrong. The ring programs are case 1, so they show none of this.
 *
 * Wrappers and functions must be compiled as written. So none is inlined, no
 * two are the same, and no call is the last action of a function, since a
 * compiler may make a jump of such a call.
 */

#if defined(RR)
#include "rr.h"
#define SCHED(name)		rr_##name
#define MAKE(f, arg)		rr_thread_on(0, f, arg)
#elif defined(WS)
#include "ws.h"
#define SCHED(name)		ws_##name
#define MAKE(f, arg)		ws_thread_on(0, f, arg)
#else
#include "ll.h"
#define SCHED(name)		ll_##name
#define MAKE(f, arg)		ll_thread_init(f, arg, 0)
#endif

#include "bench.h"

#define KEPT			__attribute__((noinline))
#define NOT_LAST(number)	__asm__ volatile("" : : "i" (number))

enum { WHERES = 4, THREADS = 2 };

static struct bench bench;
static struct SCHED(thread) *threads[THREADS];
static struct bench_end end;

static void began(void)
{
	if (end.e_start == 0)
		end.e_start = bench_now();
}

static void ended(void)
{
	end.e_received += bench.b_m;
	if (++end.e_ended == THREADS)
		end.e_end = bench_now();
}

static inline void wait_here(void)
{
	if (SCHED(wait)() != 0)
		bench_die(&bench, "blocking", ENOMEM);
}

KEPT static void wrap(void)
{
	wait_here();
	NOT_LAST(0);
}

KEPT static void wrap_twice(void)
{
	wrap();
	NOT_LAST(1);
}

/* Runs a thread; arg is its place in threads[]. */
#define TAKE_TURNS(arg, wait, number) do {				\
	struct SCHED(thread) **me = (arg);				\
	struct SCHED(thread) *other = threads[1 - (me - threads)];	\
	int left;							\
									\
	began();							\
	for (left = bench.b_m; left > 0; left--) {			\
		SCHED(wake)(other);					\
		wait();							\
		NOT_LAST(number);					\
	}								\
	ended();							\
} while (0)

KEPT static void ping(void *arg)
{
	TAKE_TURNS(arg, wait_here, 2);
}

KEPT static void pong(void *arg)
{
	TAKE_TURNS(arg, wait_here, 3);
	NOT_LAST(3);
}

KEPT static void ping_wrapped(void *arg)
{
	TAKE_TURNS(arg, wrap, 4);
}

KEPT static void pong_wrapped(void *arg)
{
	TAKE_TURNS(arg, wrap, 5);
	NOT_LAST(5);
}

KEPT static void deep(void *arg)
{
	TAKE_TURNS(arg, wrap_twice, 6);
}

/* Makes the threads. Returns 0 or -errno. */
static int make(int where)
{
	static void (*const f[WHERES][THREADS])(void *) = {
		{ ping, ping },
		{ ping, pong },
		{ ping_wrapped, pong_wrapped },
		{ deep, deep }
	};
	int i;

	for (i = 0; i < THREADS; i++) {
		threads[i] = MAKE(f[where - 1][i], &threads[i]);
		if (threads[i] == NULL)
			return -errno;
	}
	return 0;
}

static int run(int where)
{
	int rc = SCHED(init)(1, THREADS);

	if (rc == 0)
		rc = SCHED(pinning)(1);
	if (rc == 0)
		rc = make(where);
	if (rc == 0)
		rc = SCHED(start)();
	if (rc == 0)
		rc = SCHED(fini)();
	if (rc != 0)
		return bench_failed(&bench, "init, start, or fini", -rc);
	return bench_report(&bench, &end);
}

static int usage(const char *why)
{
	fprintf(stderr, "%s: %s\nusage: %s WHERE ROUNDS\nseconds, for two "
		"threads that take turns, and block at\n  1 the same site, "
		"2 different sites,\n  3 one wrapper, from different callers, "
		"4 two wrappers, from the same\n",
		bench.b_name, why, bench.b_name);
	return BENCH_USAGE;
}

int main(int argc, char **argv)
{
	int where;

	bench.b_name = argv[0];
	bench.b_n = THREADS;
	bench.b_r = bench.b_p = 1;
	if (argc != 3)
		return usage("too few or too many arguments");
	if (!bench_number(argv[1], 1, &where) || where > WHERES ||
	    !bench_number(argv[2], 1, &bench.b_m))
		return usage("not a number, or out of range");
#if defined(SHARE_FP)
	usched_share_fp(1);
#endif
	return run(where);
}
