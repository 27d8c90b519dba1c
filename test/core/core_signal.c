/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * core_signal: signals may arrive at any instruction, on the stack of the
 * interrupted code or on an alternate stack, and their handlers may use any
 * amount of it. Nothing that is needed is ever below the stack pointer
 * (usched I4).
 */
#include "shapes.h"
#include <sys/time.h>
#include <time.h>

#define PERIOD	200			/* microseconds */
#define PAUSE	1000			/* microseconds, if too fast */
#define TIMES	500			/* signals to come */
#define LEVELS	6
#define DIRTY	8192

static volatile sig_atomic_t seen;
static time_t deadline;

/* A handler that is LEVELS deep, each with DIRTY bytes of stack. */
static NOINLINE void dirty(int level)
{
	volatile unsigned char array[DIRTY];
	int i;

	for (i = 0; i < DIRTY; i += 8)
		array[i] = (unsigned char)(0xee + level);
	array[DIRTY - 1] = 0;
	if (level < LEVELS)
		dirty(level + 1);
	for (i = 0; i < DIRTY; i += 8)
		CHECK_IS(array[i], (unsigned char)(0xee + level));
}

static void timer_set(int first, int period)
{
	struct itimerval it;

	memset(&it, 0, sizeof it);
	it.it_value.tv_usec    = first;
	it.it_interval.tv_usec = period;
	CHECK_IS(setitimer(ITIMER_REAL, &it, NULL), 0);
}

/*
 * Handlers do not nest: on a slow machine they would nest until no stack is
 * left. A signal that is due already comes at the return. After that there is a
 * pause, so that the program makes progress.
 */
static void handler(int signo)
{
	int err = errno;
	sigset_t due;

	if (time(NULL) > deadline) {	/* SIGALRM is taken: our watchdog */
		check_look();
		deadline = time(NULL) + check_limit;
	}
	seen++;
	if (ustack_self() != NULL)
		CHECK(ustack_self()->u_sched != NULL);
	dirty(1);
	CHECK_IS(sigpending(&due), 0);
	if (sigismember(&due, SIGALRM))
		timer_set(PAUSE, PERIOD);
	errno = err;
}

static void ticks(int flags, int period)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof sa);
	sa.sa_handler = handler;
	sa.sa_flags   = flags | SA_RESTART;
	CHECK_IS(sigaction(SIGALRM, &sa, NULL), 0);
	timer_set(period, period);
}

static void with_lanes(int lanes, int flags, int period)
{
	struct tiny t;
	int i, rc;

	doing("with %d lanes, %s", lanes,
	      flags & SA_ONSTACK ? "alternate stack" : "same stack");
	rc = tiny_init(&t, lanes);
	if (rc == -ENOSYS)
		return;
	CHECK_IS(rc, 0);
	seen = 0;
	ticks(flags, period);
	for (i = 0; i < 200 && (i < 2 || seen < TIMES); i++) {
		shape_run(&t, 40, 4);
		check_seed++;
	}
	ticks(flags, 0);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static char alternate[256 << 10];
	static const int lanes[] = { 0, 1, 16, 64 };
	stack_t ss;
	int i;

	check_start(argc, argv);
	deadline = time(NULL) + check_limit;
	memset(&ss, 0, sizeof ss);
	ss.ss_sp   = alternate;
	ss.ss_size = sizeof alternate;
	for (i = 0; i < COUNT(lanes); i++)
		with_lanes(lanes[i], 0, PERIOD);
	CHECK_IS(sigaltstack(&ss, NULL), 0);
	for (i = 0; i < COUNT(lanes); i++)
		with_lanes(lanes[i], SA_ONSTACK, PERIOD);
	return 0;
}
