/* SPDX-License-Identifier: MIT */
/* misuse: misuse returns an error, or ends with the name of the contract. */
/* VARIANTS: RR LL WS PR */

#include "either.h"
#include "cpus.h"
#include "rr.h"
#include "ucall.h"
#include "ws.h"
#include <limits.h>

static void nothing(void *arg)
{
}

static void wait_outside(void)
{
	begin(1, 0);
	SCHED(wait)();
}

static void yield_outside(void)
{
	begin(1, 0);
	SCHED(yield)();
}

static void ends_all(void *arg)
{
	SCHED(fini)();
}

static void fini_inside(void)
{
	begin(2, 0);
	make(1, ends_all, NULL);
	start_and_finish();
}

/* The scheduler waits for the end of the call. */
static void calls_ends_all(void *arg)
{
	(void)ucall(ends_all, arg);
}

static void fini_in_call(void)
{
	begin(2, 0);
	make(1, calls_ends_all, NULL);
	start_and_finish();
}

static void block_outside(void)
{
	ustack_block();
}

/* In plain builds a thread of ws misses wakes in rr_wait(): stuck. */
#if defined(WS) && defined(USCHED_HARD)
#define WRONG_WAIT	rr_wait
#elif !defined(WS)
#define WRONG_WAIT	ws_wait
#endif

#if defined(WRONG_WAIT)
static void waits_wrongly(void *arg)
{
	(void)WRONG_WAIT();
}

static void wait_elsewhere(void)
{
	one_thread(1, waits_wrongly, NULL);
}
#endif

static int deaths(void)
{
	int failed = 0;

#if defined(WRONG_WAIT)
	failed += check_dies("wait elsewhere", wait_elsewhere,
			     "wait: called in a thread of another");
#endif
	return failed + check_dies("wait", wait_outside,
			  "wait: called outside of a thread") +
		check_dies("yield", yield_outside,
			   "yield: called outside of a thread") +
		check_dies("fini", fini_inside, "fini: called by a thread") +
		check_dies("fini in a call", fini_in_call,
			   "fini: called by a function that a thread") +
		check_dies("block", block_outside,
			   "ustack_block: called outside of a thread");
}

static void without(void)
{
	CHECK_IS(SCHED(start)(), -EINVAL);
	CHECK_IS(SCHED(fini)(), -EINVAL);
	CHECK_IS(SCHED(self)(), NULL);
	errno = 0;
	CHECK(try_make(0, nothing, NULL) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(try_make_joinable(0, nothing, NULL) == NULL && errno == EINVAL);
	CHECK_IS(SCHED(init)(-1, 0), -EINVAL);
	CHECK_IS(SCHED(init)(INT_MIN, 0), -EINVAL);
	CHECK_IS(SCHED(init)(1, -1), -EINVAL);
	CHECK_IS(SCHED(init)(1, INT_MIN), -EINVAL);
	CHECK_IS(SCHED(start)(), -EINVAL);
}

static void is_self(void *arg)
{
	CHECK_IS(SCHED(self)(), *(thread **)arg);
	CHECK_IS((struct ustack *)SCHED(self)(), ustack_self());
	yield();
	CHECK_IS(SCHED(self)(), *(thread **)arg);
}

static void twice(void)
{
	static thread *t;

	begin(2, 10);
	CHECK_IS(SCHED(init)(2, 10), -EBUSY);
	CHECK(SCHED(init)(0, 10) != 0);
	errno = 0;
	CHECK(try_make(0, NULL, NULL) == NULL && errno == EINVAL);
	t = make(INT_MAX, is_self, &t);
	make(-1, nothing, NULL);	/* modulo, as an unsigned number */
	make(INT_MIN, nothing, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(start)(), -EBUSY);
	CHECK_IS(SCHED(init)(2, 10), -EBUSY);
	CHECK_IS(SCHED(self)(), NULL);
	finish();
	CHECK_IS(SCHED(fini)(), -EINVAL);
#if !defined(WS)
	SCHED(done)();
#endif
}

/* Room for that many may be refused; otherwise the number is only a hint. */
static void large_hint(void)
{
	int rc = SCHED(init)(1, INT_MAX);

	CHECK(rc == 0 || rc == -ENOMEM);
	if (rc != 0)
		return;
	make(0, nothing, NULL);
	start_and_finish();
}

static void all_cpus(void)
{
	int nr = 1, i;
#if defined(__linux__)
	cpu_set_t may;

	CHECK_IS(sched_getaffinity(0, sizeof may, &may), 0);
	nr = CPU_COUNT(&may) < ucpus_most() ? CPU_COUNT(&may) : ucpus_most();
#endif
	begin(0, 0);
	CHECK_IS(SCHED(init)(0, 0), -EBUSY);
	CHECK_IS(SCHED(sched)(nr), SCHED(sched)(0));	/* modulo all */
	for (i = 1; i < nr; i++)
		CHECK_THAT(SCHED(sched)(i), !=, SCHED(sched)(0));
	make(0, nothing, NULL);
	start_and_finish();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	check_quiet();
	without();
	all_cpus();
	twice();
	without();
	large_hint();
	return deaths() != 0;
}
