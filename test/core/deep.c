/* SPDX-License-Identifier: MIT */
/* deep: a thread whose function blocks deep gets a private lane */
/* VARIANTS: core */
/* LIBS: -Wl,--wrap=mmap,--wrap=madvise,--wrap=mprotect */

/*
 * No other thread gets that lane; its slices are never copied, and it asks for
 * no buffer. If there is no such lane, the thread shares a lane, and its stack
 * is kept all the same. The memory of such lanes is given back when their
 * threads end, or become shallow. A function that is no longer deep is
 * forgotten, and learnt again. Threads of other functions share lanes. A guard
 * is below each lane, as a mapping or in the page tables; if the system refuses
 * both, no lane is used.
 */
#include "tiny.h"
#include "grind.h"
#include "uslice.h"
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#if defined(USCHED_HARD)
#define IN_HARD 1			/* there all threads have buffers */
#else
#define IN_HARD 0
#endif

#define LANES	2
#define MANY	100
#define NR	700
#define DEEP	20000
#define TRIPS	3
#define WARM	((long)4 << 20)
#define GUARD_INSTALL	102		/* MADV_GUARD_INSTALL of Linux */

static struct tiny t;
static struct tiny_thread tt[NR];
static size_t page;
static int depth = DEEP;		/* of threads of deep() */
static int lane_of[NR];
static int used[SHRT_MAX + 1];
static int no_mmap, no_guard, no_mapped_guard;
static long mmaps;

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	mmaps++;
	if (!no_mmap)
		return __real_mmap(at, nob, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

WRAP(int, madvise, void *at, size_t nob, int advice)
{
	if (!no_guard || advice != GUARD_INSTALL)
		return __real_madvise(at, nob, advice);
	errno = EINVAL;
	return -1;
}

WRAP(int, mprotect, void *at, size_t nob, int prot)
{
	if (!no_mapped_guard || nob != USCHED_GUARD)
		return __real_mprotect(at, nob, prot);
	errno = ENOMEM;
	return -1;
}

static int is_own(int lane)
{
	return lane > t.t_sched.s_lane_nr;
}

/* Blocks with nob bytes on the stack, which must not change. */
static NOINLINE void hold(int nob, unsigned tag)
{
	unsigned char *array = (unsigned char *)alloca(nob);

	memset(array, (int)tag, nob);
	tiny_yield();
	CHECK(array[0] == (unsigned char)tag &&
	      memcmp(array, array + 1, nob - 1) == 0);
	__asm__ volatile("" : : "r"(array) : "memory");
}

static void note(struct tiny_thread *me)
{
	lane_of[me - tt] = me->tt_stack.u_lane;
}

static void deep(void *arg)
{
	int i;

	note((struct tiny_thread *)arg);
	for (i = 0; i < TRIPS; i++)
		hold(depth + i, (unsigned)((struct tiny_thread *)arg - tt) + i);
}

static void small(void *arg)
{
	note((struct tiny_thread *)arg);
	hold(64, 1);
}

static void start(void (*f)(void *), int from, int to)
{
	for (; from < to; from++)
		tiny_start(&t, &tt[from], f, &tt[from]);
}

static int owners(int nr)
{
	int i, own = 0;

	for (i = 0; i < nr; i++)
		own += is_own(lane_of[i]);
	return own;
}

/*
 * All threads have private lanes, except the first: it teaches, and has a buffer.
 */
static void alone(void)
{
	int i;

	CHECK_IS(tiny_init(&t, LANES), 0);
	memset(used, 0, sizeof used);
	start(deep, 0, 100);
	start(small, 100, 150);
	tiny_run(&t);
	CHECK(owners(100) == 99 && !is_own(lane_of[0]));
	for (i = 1; i < 100; i++)
		CHECK_IS(used[lane_of[i]]++, 0);
	for (i = 100; i < 150; i++)
		CHECK(!is_own(lane_of[i]));
	CHECK(IN_HARD || t.t_allocs < 60);
	/* Free private lanes are used again, also by the first thread. */
	start(deep, 0, 100);
	i = usched_private_nr(t.t_sched.s_private);
	t.t_allocs = 0;
	tiny_run(&t);
	CHECK_IS(owners(100), 100);
	CHECK(IN_HARD || t.t_allocs == 0);
	CHECK_THAT(usched_private_nr(t.t_sched.s_private), <=, i + 16);
	tiny_fini(&t);
}

/* There are 64 private lanes for each other lane, and no more. */
static void too_many(void)
{
	CHECK_IS(tiny_init(&t, 1), 0);
	start(deep, 0, 200);
	tiny_run(&t);
	CHECK_IS(owners(200), 64);
	tiny_fini(&t);
}

/* The system refuses mappings, then does not. Not every thread asks. */
static void refused(void)
{
	CHECK_IS(tiny_init(&t, LANES), 0);
	no_mmap = 1;
	mmaps = 0;
	start(deep, 0, 100);
	tiny_run(&t);
	CHECK(owners(100) == 0 && mmaps > 0 && mmaps < 5);
	CHECK_THAT(t.t_allocs, >=, 100);
	no_mmap = 0;
	start(deep, 0, 100);
	tiny_run(&t);
	CHECK_THAT(owners(100), >, 20);
	tiny_fini(&t);
}

/* Returns how many bytes of private lanes are in memory. */
static long resident(void)
{
	static unsigned char map[1024];
	int i, last = t.t_sched.s_lane_nr + usched_private_nr(t.t_sched.s_private);
	long nr = 0;
	size_t j, pages;

	for (i = t.t_sched.s_lane_nr + 1; i <= last; i++) {
		const struct usched_lane *l = &t.t_sched.s_lane[i];

		pages = ((size_t)(l->l_bottom - l->l_low) + page - 1) / page;
		CHECK(pages <= sizeof map &&
		      mincore(l->l_low, pages * page, map) == 0);
		for (j = 0; j < pages; j++)
			nr += map[j] & 1;
	}
	return nr * (long)page;
}

/* Counts twice: while all threads are blocked, and when all have ended. */
static void given_back(void)
{
	long there;
	int i;

	CHECK_IS(tiny_init(&t, MANY), 0);
	for (i = 0; i < 2; i++) {
		start(deep, 0, NR);
		t.t_stop = t.t_rounds + NR + 10;
		tiny_run(&t);
		t.t_stop = 0;
		there = resident();
		CHECK_THAT(there, >, (NR - 10) * DEEP);
		tiny_run(&t);
		CHECK_THAT(owners(NR), >=, NR - 1);
		there = resident();
		CHECK(there <= WARM && there > WARM / 8);
	}
	tiny_fini(&t);
}

/*
 * Returns how many pages, to 100 KiB below the running thread, are in memory.
 */
static int below(void)
{
	unsigned char map[26];
	char *here = (char *)((uintptr_t)__builtin_frame_address(0) & -page);
	int i, nr = 0;

	CHECK_IS(mincore(here - 25 * page, 25 * page, map), 0);
	for (i = 0; i < 22; i++)
		nr += map[i] & 1;
	return nr;
}

/*
 * Is deep once, then shallow. Returns after how many blocks the memory is gone.
 */
static int gone_after(void)
{
	int i;

	hold(90000, 5);
	CHECK_THAT(below(), >, 15);
	for (i = 1; i < 3000; i++) {
		tiny_yield();
		if (below() == 0)
			return i;
	}
	return 0;
}

static void moody(void *arg)
{
	static const int patience[] = { 1, 4, 16, 64, 256, 1024, 1024 };
	unsigned char here[1000];
	int i;

	note((struct tiny_thread *)arg);
	memset(here, 0x42, sizeof here);
	if (!is_own(ustack_self()->u_lane))
		hold(DEEP, 1);
	else if (!IN_HARD)
		for (i = 0; i < COUNT(patience); i++)
			CHECK_IS(gone_after(), patience[i]);
	CHECK(here[0] == 0x42 && memcmp(here, here + 1, 999) == 0);
}

/* Becomes shallower by less than a page at a time. */
static void sinks(void *arg)
{
	int nob;

	note((struct tiny_thread *)arg);
	for (nob = 90000; nob > 3000; nob -= 3000)
		hold(nob, (unsigned)nob);
	CHECK(IN_HARD || !is_own(ustack_self()->u_lane) || below() < 4);
}

static void shallow(void (*f)(void *))
{
	CHECK_IS(tiny_init(&t, LANES), 0);
	start(f, 0, 1);
	tiny_run(&t);
	start(f, 0, 3);
	tiny_run(&t);
	CHECK_IS(owners(3), 3);
	tiny_fini(&t);
}

/* A function that is not deep any more is soon forgotten; then learnt again. */
static void forgotten(void)
{
	int i, nr;

	CHECK_IS(tiny_init(&t, MANY), 0);
	for (i = 0; i < 3; i++) {
		depth = DEEP;
		start(deep, 0, 50);
		tiny_run(&t);
		start(deep, 0, NR);
		tiny_run(&t);
		CHECK_IS(owners(NR), NR);
		depth = 16;
		for (nr = 0; nr < 3; nr++) {
			start(deep, 0, 100);
			tiny_run(&t);
		}
		CHECK_IS(owners(100), 0);
	}
	depth = DEEP;
	tiny_fini(&t);
}

/* Many functions are told apart, if not all are deep. */
#define KINDS	8

#define KIND(n)	static void kind_##n(void *arg) { (n) % 2 ? deep(arg) : small(arg); }
KIND(0) KIND(1) KIND(2) KIND(3) KIND(4) KIND(5) KIND(6) KIND(7)

static void (*const kinds[KINDS])(void *) = {
	kind_0, kind_1, kind_2, kind_3, kind_4, kind_5, kind_6, kind_7
};

static void apart(void)
{
	int i, round;

	CHECK_IS(tiny_init(&t, MANY), 0);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < KINDS * 10; i++)
			start(kinds[i % KINDS], i, i + 1);
		tiny_run(&t);
	}
	for (i = 0; i < KINDS * 10; i++)
		CHECK_IS(is_own(lane_of[i]), i % 2);
	tiny_fini(&t);
}

/* A thread that ends without a block teaches nothing. */
static void returns(void *arg)
{
	note((struct tiny_thread *)arg);
	if (depth > 0)
		hold(depth, 3);
}

static void silent(void)
{
	CHECK_IS(tiny_init(&t, LANES), 0);
	start(returns, 0, 1);
	tiny_run(&t);
	depth = 0;
	start(returns, 0, NR);
	tiny_run(&t);
	depth = DEEP;
	start(returns, 0, 20);
	tiny_run(&t);
	CHECK_IS(owners(20), 20);
	tiny_fini(&t);
}

/* If few threads of many are deep, there are at most two private lanes for each. */
static void mixed(void *arg)
{
	note((struct tiny_thread *)arg);
	hold(((struct tiny_thread *)arg - tt) % 100 == 0 ? DEEP : 16, 1);
}

static void seldom(void)
{
	int i;
	long own = 0;

	CHECK_IS(tiny_init(&t, MANY), 0);
	for (i = 0; i < 50; i++) {
		start(mixed, 0, NR);
		tiny_run(&t);
		own += owners(NR);
	}
	CHECK_THAT(own, <=, 32 + 2 * i * NR / 100);
	tiny_fini(&t);
}

/* A first buffer is freed, once, or kept. */
static void first_buffer(void)
{
	int i;

	CHECK_IS(tiny_init(&t, LANES), 0);
	start(deep, 0, 1);
	tiny_run(&t);
	start(deep, 0, 100);
	for (i = 0; i < 100; i++) {
		tt[i].tt_stack.u_len   = 16 + i * 500;
		tt[i].tt_stack.u_stack = tiny_alloc(&t.t_sched, 16 + i * 500);
	}
	tiny_run(&t);
	CHECK_IS(owners(100), 100);
	tiny_fini(&t);
}

/* A scheduler may reserve a private lane, for a single thread. */
static void told(void)
{
	int lane;

	CHECK_IS(tiny_init(&t, LANES), 0);
	CHECK_IS(usched_lane_deep(&t.t_sched, deep), 0);
	start(deep, 0, 1);
	tiny_run(&t);
	CHECK_IS(usched_lane_deep(&t.t_sched, small), 0);
	lane = usched_lane_deep(&t.t_sched, deep);
	CHECK(is_own(lane) && usched_lane_deep(&t.t_sched, deep) != lane);
	start(deep, 0, 2);
	tt[0].tt_stack.u_lane = (short)lane;
	tiny_run(&t);
	CHECK(lane_of[0] == lane && is_own(lane_of[1]) && lane_of[1] != lane);
	tiny_fini(&t);
}

static void die_twice(void)
{
	CHECK_IS(tiny_init(&t, LANES), 0);
	start(deep, 0, 1);
	tiny_run(&t);
	start(deep, 0, 2);
	tt[0].tt_stack.u_lane = tt[1].tt_stack.u_lane =
		(short)usched_lane_deep(&t.t_sched, deep);
	tiny_run(&t);
}

static void die_unmapped(void)
{
	CHECK_IS(tiny_init(&t, LANES), 0);
	start(deep, 0, 1);
	tt[0].tt_stack.u_lane = LANES + 1;
	tiny_run(&t);
}

/* Tells whether the fault is in the guard below the thread's lane. */
static void overrun(int signo, siginfo_t *si, void *context)
{
	const struct usched_lane *l = &t.t_sched.s_lane[ustack_self()->u_lane];
	const char *at = (const char *)si->si_addr;

	_exit(is_own(ustack_self()->u_lane) && at < l->l_low &&
	      at >= l->l_low - USCHED_GUARD ? 42 : 1);
}

static NOINLINE int recurse(int nr)
{
	volatile char array[512];

	array[0] = array[511] = (char)nr;
	return nr < 0 ? 0 : recurse(nr + 1) + array[0] + array[511];
}

static void falls(void *arg)
{
	note((struct tiny_thread *)arg);
	hold(DEEP, 1);
	if (is_own(ustack_self()->u_lane))
		CHECK_THAT(recurse(0), !=, 1);
}

static int kind;	/* of the guard: mapping, in page tables, none */

static void fall(void)
{
	static char alternate[64 << 10];
	struct sigaction sa = {
		.sa_sigaction = overrun, .sa_flags = SA_SIGINFO | SA_ONSTACK
	};
	stack_t ss = { .ss_sp = alternate, .ss_size = sizeof alternate };

	CHECK_IS(sigaltstack(&ss, NULL), 0);
	CHECK_IS(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_IS(tiny_init(&t, LANES), 0);
	no_mapped_guard = kind > 0;
	no_guard = kind != 1;
	start(falls, 0, 2);
	tiny_run(&t);
	_exit(43);
}

/*
 * Returns whether the kernel has guards in page tables, which the hard mode
 * does not ask for. An emulator may accept the call and do nothing. So a system
 * call tries to read from the guard; the result is -1 if it can.
 */
static int has_guards(void)
{
	void *map = __real_mmap(NULL, page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd[2], rc;

	CHECK(map != MAP_FAILED && pipe(fd) == 0);
	rc = __real_madvise(map, page, GUARD_INSTALL);
	rc = rc != 0 || IN_HARD ? 0 : write(fd[1], map, 1) == 1 ? -1 : 1;
	munmap(map, page);
	close(fd[0]);
	close(fd[1]);
	return rc;
}

static void guarded(void)
{
	char text[1024];
	int status, guard;

	for (kind = 0; kind < 3; kind++) {
		guard = kind == 0 ? 1 : kind == 1 ? has_guards() : 0;
		if (guard < 0)
			continue;
		status = check_child(fall, text, sizeof text);
		CHECK(WIFEXITED(status) &&
		      WEXITSTATUS(status) == (guard ? 42 : 43));
	}
}

int main(int argc, char **argv)
{
	int failed = 0;

	check_start(argc, argv);
	if (!tiny_has_lanes())
		return 0;		/* portable */
	if (RUNNING_ON_VALGRIND)
		check_skip("Valgrind knows no lanes that come later");
	page = (size_t)sysconf(_SC_PAGESIZE);
	alone();
	too_many();
	refused();
	given_back();
	shallow(moody);
	shallow(sinks);
	forgotten();
	apart();
	silent();
	seldom();
	first_buffer();
	told();
	guarded();
	failed += check_dies("die_twice", die_twice, "private lane of another");
	failed += check_dies("die_unmapped", die_unmapped, "does not exist");
	return failed != 0;
}
