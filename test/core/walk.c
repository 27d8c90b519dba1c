/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * walk: the unwind information of the switch is right. From a call-back of a
 * thread that blocks, a walk passes usched_save(), the callers of
 * ustack_block() and the first function, and ends there.
 */
#include "tiny.h"

#if defined(__GLIBC__) && !defined(USCHED_PORTABLE) &&			\
	(defined(__x86_64__) || defined(__aarch64__))

#include <execinfo.h>

#define FRAMES	64

static struct tiny t;
static struct tiny_thread tt[3];
static void *in_first, *in_middle;	/* return addresses */
static int walks;

static void *alloc(struct usched *s, int size)
{
	void *at[FRAMES];
	int nr = backtrace(at, FRAMES), i, first = -1, middle = -1;

	for (i = 0; i < nr; i++) {
		if (at[i] == in_middle)
			middle = i;
		if (at[i] == in_first)
			first = i;
	}
	CHECK_THAT(middle, >, 0);
	CHECK_IS(first, middle + 1);
	CHECK_THAT(nr, <=, first + 3);	/* usched_launch(), and no more */
	walks++;
	return tiny_alloc(s, size);
}

static NOINLINE void inner(void)
{
	in_middle = __builtin_return_address(0);
	tiny_yield();
	__asm__ volatile("");		/* a call, not a jump */
}

static NOINLINE void middle(void)
{
	in_first = __builtin_return_address(0);
	inner();
	__asm__ volatile("");
}

static void first(void *arg)
{
	middle();
	__asm__ volatile("");
}

static void with_lanes(int lanes)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_sched.s_alloc = alloc;
	walks = 0;
	for (i = 0; i < COUNT(tt); i++)
		tiny_start(&t, &tt[i], first, NULL);
	tiny_run(&t);
	CHECK_IS(walks, COUNT(tt));
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	with_lanes(0);
	with_lanes(1);
	with_lanes(3);
	return 0;
}

#else

int main(void)
{
	(void)tiny_init;
	check_skip("no backtrace() here, or setjmp() in between");
	return 0;
}

#endif
