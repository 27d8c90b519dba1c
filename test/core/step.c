/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * step: like core_signal, for each single instruction of a start, a block, a
 * resume, a move to and from a lane, and an end. The processor traps after each
 * instruction, and the handler dirties the stack below (usched I4).
 */
#include "shapes.h"

#if defined(__x86_64__)

#define DIRTY	2048
#define TRAP	0x100			/* TF in the flags */

static volatile long seen;

static void handler(int signo)
{
	unsigned char array[DIRTY];

	memset(array, 0xee, sizeof array);
	__asm__ volatile("" : : "r"(array) : "memory");
	seen++;
}

static NOINLINE void trap(int on)
{
	/* lea: keep out of the red zone */
	if (on) {
		__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t"
				 "orq %0, (%%rsp)\n\tpopfq\n\t"
				 "lea 128(%%rsp), %%rsp"
				 : : "i"(TRAP) : "memory", "cc");
	} else {
		__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t"
				 "andq %0, (%%rsp)\n\tpopfq\n\t"
				 "lea 128(%%rsp), %%rsp"
				 : : "i"(~TRAP) : "memory", "cc");
	}
}

/* Traps are on from each block to its return, and at the end. */
static void thread(void *arg)
{
	struct job *j = (struct job *)arg;
	struct frame f;
	int i;

	enter(j, &f, NULL);
	for (i = 0; i < j->j_trips; i++) {
		unsigned a = pattern(j, i), b = a + 1, c = a + 2, d = a + 3;

		trap(1);
		CHECK_IS(tiny_try_yield(), 0);
		trap(0);
		CHECK(b == pattern(j, i) + 1 && c == b + 1 && d == c + 1);
		walk(j, &f);
	}
	trap(1);
	if (j->j_seed & 1)
		ustack_abort();
}

/*
 * Traps are off in the call-backs of tiny.h, which are slow and not tested
 * here.
 */
static struct ustack *next(struct usched *s)
{
	struct ustack *u;

	trap(0);
	u = tiny_next(s);
	trap(1);
	return u;
}

static void *alloc(struct usched *s, int size)
{
	void *buf;

	trap(0);
	buf = tiny_alloc(s, size);
	trap(1);
	return buf;
}

static void release(struct usched *s, void *buf, int size)
{
	trap(0);
	tiny_free(s, buf, size);
	trap(1);
}

static void done(struct usched *s, struct ustack *u)
{
	trap(0);
	tiny_done(s, u);
	trap(1);
}

static void with_lanes(int lanes)
{
	struct job job[5];
	struct tiny t;
	int i, rc;

	rc = tiny_init(&t, lanes);
	if (rc == -ENOSYS)
		return;
	CHECK_IS(rc, 0);
	t.t_sched.s_next  = next;
	t.t_sched.s_alloc = alloc;
	t.t_sched.s_free  = release;
	t.t_sched.s_done  = done;
	memset(job, 0, sizeof job);
	for (i = 0; i < COUNT(job); i++) {
		tiny_start(&t, &job[i].j_thread, thread, &job[i]);
		job[i].j_trips = 2;
		job[i].j_seed  = check_seed + i;
	}
	tiny_run(&t);
	trap(0);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	struct sigaction sa;

	check_start(argc, argv);
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = handler;
	CHECK_IS(sigaction(SIGTRAP, &sa, NULL), 0);
	trap(1);
	trap(0);
	if (seen == 0)
		check_skip("no single steps here (an emulator?)");
	with_lanes(0);
	with_lanes(1);
	with_lanes(4);
	with_lanes(16);
	CHECK_THAT(seen, >, 1000);
	return 0;
}

#else

int main(void)
{
	(void)shape_run;
	check_skip("single steps are of x86-64");
	return 0;
}

#endif
