/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/* LIBS: -rdynamic -ldl */
/*
 * guard: after uguard_start() a thread that overflows its lane, or the native
 * stack, ends the process with a message. The message names the thread, its
 * function, the lane, its size and the calls that set it. The slices of other
 * threads are untouched. A frame that skips the guard is reported, too. If the
 * loader hangs, only the function's name is missing. Other faults go where they
 * went before.
 */
#include "tiny.h"
#include "rr.h"
#include "uguard.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/mman.h>

#define LANES	3
#define SIZE	65536
#define LEAP	700000		/* over the guard */
#define LEAP_FAR (4 << 20)	/* over the descriptors of lanes, too */

static struct tiny tiny;
static struct tiny_thread threads[LANES];
static unsigned sums[LANES];
static int frame;		/* bytes */
static int leap = LEAP;

static unsigned never = ~0u;
static int loader_hangs;

/* Replaces the loader's function. */
int dladdr(const void *at, Dl_info *info)
{
	union { void *p; int (*f)(const void *, Dl_info *); } real;

	while (loader_hangs)
		pause();
	real.p = dlsym(RTLD_NEXT, "dladdr");
	return real.p != NULL ? real.f(at, info) : 0;
}

/*
 * Leaps over the guard with one large frame, and touches its far end. Exported.
 */
void t_guard_leaps(void *arg);
NOINLINE void t_guard_leaps(void *arg)
{
	volatile char local[leap];

	__asm__ volatile("" : : "r"(local) : "memory");	/* the frame is used */
	local[0] = arg != NULL;
	tiny_yield();
	check_hash(local[0], local[0]);
}

/* Recurses, with about nob bytes each time, until it hits the guard. */
static NOINLINE unsigned deep(int nob)
{
	volatile char local[nob];

	local[0] = 1;
	if (check_hash((unsigned)nob, 0) == never)
		return 0;
	return check_hash(local[0], deep(nob)) + local[0];
}

static void fall(void *arg)
{
	deep(frame);
}

/*
 * Returns a checksum of the slice of a blocked thread, in its lane or its
 * buffer.
 */
static unsigned sum(const struct ustack *u)
{
	const char *top = (const char *)((uintptr_t)u->u_top & ~(uintptr_t)7);
	ptrdiff_t nob = u->u_sched->s_lane[u->u_lane].l_bottom - top;
	const char *at = (uintptr_t)u->u_top & 4 ? u->u_stack : top;
	unsigned sum = 0;

	while (nob-- > 0)
		sum = check_hash(sum, (unsigned char)*at++);
	return sum;
}

/* Handler of SIGABRT: the slices of all other threads are unchanged. */
static void whole(int signo)
{
	int i;

	for (i = 0; i < LANES - 1; i++) {
		if (sums[i] != sum(&threads[i].tt_stack))
			_exit(1);
	}
	_exit(42);
}

static void fall_last(void *arg)
{
	int i;

	if (arg != &threads[LANES - 1])
		tiny_yield();
	for (i = 0; i < LANES - 1; i++)
		sums[i] = sum(&threads[i].tt_stack);
	deep(frame);
}

/* Writes from the bottom of its lane upwards. */
static void rise(void *arg)
{
	static volatile char *at;	/* static, else overwritten */

	at = (volatile char *)&arg;
	if (tiny_self() != &threads[0])
		tiny_yield();
	for (;;)
		*at++ = 1;
}

/* Waits for the others to begin: then the lane has its guard. */
static void stray(void *arg)
{
	tiny_yield();
	*(volatile char *)(tiny.t_sched.s_lane[3].l_low - 1) = 1;
}

static void null(void *arg)
{
	uintptr_t at = 16;

	__asm__ volatile("" : "+r"(at));
	*(volatile char *)at = 1;
}

static void run(int lanes, void (*f)(void *))
{
	int i;

	CHECK_IS(tiny_init(&tiny, 0), 0);
	CHECK(lanes == 0 || usched_lanes(&tiny.t_sched, lanes, SIZE) == 0);
	for (i = 0; i < LANES; i++)
		tiny_start(&tiny, &threads[i], f, &threads[i]);
	tiny_run(&tiny);
}

static void start(void)
{
	CHECK_IS(uguard_start(), 0);
}

static void on_rr(void)
{
	start();
	CHECK(rr_init(2, 0) == 0 && rr_stack_size(SIZE) == 0);
	CHECK(rr_thread_init(fall, NULL) != NULL);
	CHECK_IS(rr_start(), 0);
	rr_fini();
}

static void on_lanes(void)
{
	start();
	signal(SIGABRT, whole);
	run(LANES, fall_last);
}

static void on_lanes_told(void)
{
	start();
	run(LANES, fall);
}

static void on_native(void)
{
	start();
	run(0, fall);
}

static struct ustack *deep_next(struct usched *s)
{
	deep(frame);
	return NULL;
}

static void in_next(void)
{
	start();
	CHECK_IS(tiny_init(&tiny, 0), 0);
	tiny.t_sched.s_next = deep_next;
	tiny_run(&tiny);
}

static void past_bottom(void)
{
	start();
	run(LANES, rise);
}

static void wild(void)
{
	start();
	run(LANES, stray);
}

/* Leaps from lane 1, which has nothing below it. */
static void leap_to_nothing(void)
{
	char *low;

	leap = LEAP_FAR;
	start();
	CHECK_IS(tiny_init(&tiny, 0), 0);
	CHECK_IS(usched_lanes(&tiny.t_sched, 1, SIZE), 0);
	low = (char *)tiny.t_sched.s_lane - 2 * LEAP_FAR;
	low = (char *)((uintptr_t)low & -(uintptr_t)65536);
	(void)munmap(low, 2 * LEAP_FAR);
	CHECK_IS(mmap(low, 2 * LEAP_FAR - 65536, PROT_NONE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_FIXED, -1, 0), low);
	tiny_start(&tiny, &threads[0], t_guard_leaps, NULL);
	tiny_run(&tiny);
}

static void hang(void)
{
	loader_hangs = 1;
	leap_to_nothing();
}

static void ends_at_once(void *arg)
{
}

/* Runs f(NULL) on the uppermost of nine lanes, when one has run on the next. */
static void on_last_lane(void (*f)(void *))
{
	start();
	CHECK_IS(tiny_init(&tiny, 0), 0);
	CHECK_IS(usched_lanes(&tiny.t_sched, 9, SIZE), 0);
	tiny_start(&tiny, &threads[1], ends_at_once, NULL);
	threads[1].tt_stack.u_lane = 8;
	tiny_start(&tiny, &threads[0], f, NULL);
	threads[0].tt_stack.u_lane = 9;
	tiny_run(&tiny);
}

/* Leaps two lanes down, which does not fault: the block reports it. */
static void leap_to_lane(void)
{
	on_last_lane(t_guard_leaps);
}

/* Leaps to the guard of the lane below: this is not a wild pointer. */
static void leap_far(void *arg)
{
	volatile char *to = tiny.t_sched.s_lane[8].l_low - USCHED_GUARD / 2;
	volatile char local[(volatile char *)&arg - to];

	local[0] = 1;
	check_hash(local[0], local[0]);
}

static void leap_to_guard(void)
{
	on_last_lane(leap_far);
}

static void not_started(void)
{
	run(1, fall);
}

static void not_ours(void)
{
	start();
	run(1, null);
}

static void mine(int signo, siginfo_t *info, void *context)
{
	_exit(signo == SIGSEGV && info->si_addr == (void *)16 ? 43 : 1);
}

static void mine_first(void)
{
	struct sigaction action = {
		.sa_sigaction = mine, .sa_flags = SA_SIGINFO
	};

	CHECK_IS(sigaction(SIGSEGV, &action, NULL), 0);
	not_ours();
}

/* Checks that f() ends with this signal (or exit status), and these words. */
static int ends(const char *name, void (*f)(void), int signo, int exits,
		const char *words)
{
	char text[4096];
	int status;

	status = check_child(f, text, sizeof text);
	if ((signo != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == signo :
	     WIFEXITED(status) && WEXITSTATUS(status) == exits) &&
	    (words != NULL ? strstr(text, words) != NULL : text[0] == 0))
		return 0;
	fprintf(stderr, "%s: status %#x, \"%s\"\n", name, (unsigned)status, text);
	return 1;
}

static void nothing(void *arg)
{
	stack_t alt;

	CHECK(sigaltstack(NULL, &alt) == 0 && !(alt.ss_flags & SS_DISABLE));
}

/* The alternate stack is there only while dispatchers run. */
static void clean(void)
{
	stack_t alt;

	start();
	CHECK_IS(uguard_start(), -EBUSY);
	run(0, nothing);
	CHECK(sigaltstack(NULL, &alt) == 0 && (alt.ss_flags & SS_DISABLE));
}

static sigjmp_buf out;

static void jumps(void *arg)
{
	nothing(arg);
	siglongjmp(out, 1);
}

/* Nor is it left behind by a longjmp() out of usched_run(). */
static void clean_left(void)
{
	stack_t alt;

	start();
	if (sigsetjmp(out, 1) == 0)
		run(0, jumps);
	usched_left(&tiny.t_sched);
	CHECK(sigaltstack(NULL, &alt) == 0 && (alt.ss_flags & SS_DISABLE));
	CHECK_IS(ustack_self(), NULL);
}

/* An alternate stack of the program is used, and stays. */
static void other_alt(void)
{
	static char mine_too[65536];
	stack_t alt = { .ss_sp = mine_too, .ss_size = sizeof mine_too };

	CHECK_IS(sigaltstack(&alt, NULL), 0);
	start();
	run(0, nothing);
	CHECK(sigaltstack(NULL, &alt) == 0 && alt.ss_sp == mine_too);
}

int main(int argc, char **argv)
{
	static const int frames[] = { 16, 4000, USCHED_GUARD / 2 };
	int bad = 0;
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(frames); i++) {
		frame = frames[i];
		bad += ends("native", on_native, SIGABRT, 0,
			    "has run out of the native stack, lane 0, of ");
		bad += ends("in next", in_next, SIGABRT, 0,
			    "the dispatcher has run out of the native stack");
		if (!tiny_has_lanes())
			continue;
		bad += ends("rr", on_rr, SIGABRT, 0,
			    " has run out of its stack (lane 1), of 6");
		bad += ends("lanes", on_lanes, 0, 42,
			    " has run out of its stack (lane 3), of 6");
	}
	if (tiny_has_lanes()) {
		bad += ends("past", past_bottom, SIGABRT, 0,
			    " has gone past the bottom of its stack (lane 1), of 6");
		bad += ends("wild", wild, SIGABRT, 0,
			    " by a wild pointer, has touched the guard of another "
			    "stack (lane 3)");
		bad += ends("to nothing", leap_to_nothing, SIGABRT, 0,
			    " has run out of its stack (lane 1), of 6");
		bad += ends("to a lane", leap_to_lane, SIGABRT, 0,
			    "has run out of its stack, and over the guard: "
			    "USCHED_STACK_SIZE");
		bad += ends("to a guard", leap_to_guard, SIGABRT, 0,
			    " has run out of its stack (lane 9), of 6");
		bad += ends("named", leap_to_nothing, SIGABRT, 0,
			    " (function t_guard_leaps() at 0x");
		bad += ends("loader hangs", hang, SIGABRT, 0,
			    " has run out of its stack (lane 1), of 6");
		bad += ends("remedy", on_lanes_told, SIGABRT, 0,
			    "; larger stacks: USCHED_STACK_SIZE=1M in the "
			    "environment, rr_stack_size(), usched_lanes()");
		bad += ends("not started", not_started, SIGSEGV, 0, NULL);
		bad += ends("not ours", not_ours, SIGSEGV, 0, NULL);
		bad += ends("mine first", mine_first, 0, 43, NULL);
	}
	bad += ends("clean", clean, 0, 0, NULL);
	bad += ends("clean left", clean_left, 0, 0, NULL);
	bad += ends("other alt", other_alt, 0, 0, NULL);
	return bad != 0;
}
