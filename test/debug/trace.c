/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/* LIBS: -lm */
/*
 * trace: ustack_trace() returns exactly the return addresses of a blocked
 * thread, wherever its slice is and whoever calls, and changes nothing.
 */
/* LIBS: -lm */

/*
 * The oracle: each function of a thread notes its own return address before it
 * calls the next function. So a trace must be these addresses, backwards, after
 * one address in pause_here(), which calls ustack_block().
 */
#include "tiny.h"
#include "utrace.h"
#include "uslice.h"

#include <fenv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unwind.h>

#define NR	24			/* threads */
#define DEPTH	12			/* calls in each, at most */
#define MANY	256			/* return addresses */
#if defined(USCHED_HARD)
#define IN_HARD	1
#else
#define IN_HARD	0
#endif

struct plan {
	void *p_ret[DEPTH + 4];
	int   p_ret_nr;
	int   p_shape[DEPTH];
	int   p_depth, p_at;
	int   p_libc;			/* is in qsort() */
	int   p_round;			/* rounding mode */
	int   p_trips;
	int   p_ended;
};

static struct tiny t;
static struct tiny_thread tt[NR];
static struct plan plans[NR];
static int shorts, aways, lanes_used, traces;

static int step(struct plan *p);

#define NOTE(p)	((p)->p_ret[(p)->p_ret_nr++] = __builtin_return_address(0))
/* After each call, so that the call is not a jump. Drops the note. */
#define LEAVE(p)							\
	do {								\
		__asm__ volatile("" : : : "memory");			\
		(p)->p_ret_nr--;					\
	} while (0)

static NOINLINE int pause_here(struct plan *p)
{
	NOTE(p);
	while (p->p_trips-- > 0) {
		t.t_yields = tiny_self();
		CHECK_IS(ustack_block(), 0);
	}
	LEAVE(p);
	return 1;
}

/* Called only by this pointer, so that there is only one pause_here(). */
static int (*const volatile pauses)(struct plan *) = pause_here;

static NOINLINE int plain(struct plan *p)
{
	int rc;

	NOTE(p);
	rc = step(p);
	LEAVE(p);
	return rc + 1;
}

static NOINLINE int registers(struct plan *p)
{
	int a = p->p_at * 3, b = a + p->p_depth, c = b * a, d = c ^ b, rc;

	NOTE(p);
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	rc = step(p);
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	CHECK(b == a + p->p_depth && c == b * a && d == (c ^ b));
	LEAVE(p);
	return rc + 1;
}

/* Needs a frame pointer. */
static NOINLINE int variable(struct plan *p)
{
	int nob = 16 + p->p_at * 40, rc;
	volatile char *space = alloca(nob);

	NOTE(p);
	space[0] = space[nob - 1] = (char)nob;
	rc = step(p);
	CHECK(space[0] == (char)nob && space[nob - 1] == (char)nob);
	LEAVE(p);
	return rc + 1;
}

/* Realigns the stack, and must remember where its caller's stack was. */
static NOINLINE int aligned(struct plan *p)
{
	volatile char space[128] __attribute__((aligned(64)));
	volatile char *more = alloca(8 + p->p_at);
	int rc;

	NOTE(p);
	CHECK_IS((uintptr_t)space % 64, 0);
	space[0] = more[0] = 7;
	rc = step(p);
	CHECK(space[0] == 7 && more[0] == 7 && (uintptr_t)space % 64 == 0);
	LEAVE(p);
	return rc + 1;
}

static NOINLINE int large(struct plan *p)
{
	volatile char space[9000];
	int rc;

	NOTE(p);
	space[0] = space[8999] = 9;
	rc = step(p);
	CHECK(space[0] == 9 && space[8999] == 9);
	LEAVE(p);
	return rc + 1;
}

/* Words that look like addresses of frames do no harm. */
static NOINLINE int decoys(struct plan *p)
{
	volatile uintptr_t word[32];
	volatile char here = 1;
	int i, rc;

	NOTE(p);
	for (i = 0; i < 32; i++)
		word[i] = (uintptr_t)&here + i * 8;
	rc = step(p);
	for (i = 0; i < 32; i++)
		CHECK_IS(word[i], (uintptr_t)&here + i * 8);
	LEAVE(p);
	return rc + 1;
}

static NOINLINE int many(struct plan *p, long a, long b, long c, long d, long e,
			 double f, long g, long h, double i)
{
	int rc;

	NOTE(p);
	rc = step(p);
	CHECK(a + b + c + d + e + g + h == 28 && f + i == 1);
	LEAVE(p);
	return rc + 1;
}

static NOINLINE int arguments(struct plan *p)
{
	int rc;

	NOTE(p);
	rc = many(p, 1, 2, 3, 4, 5, 0.5, 6, 7, 0.5);
	LEAVE(p);
	return rc + 1;
}

/* The comparator of qsort() blocks, once. */
static struct plan *sorting;

static int compare(const void *a, const void *b)
{
	struct plan *p = sorting;

	if (p != NULL) {
		sorting = NULL;
		NOTE(p);
		(void)step(p);
		LEAVE(p);
	}
	return *(const int *)a - *(const int *)b;
}

static NOINLINE int sorts(struct plan *p)
{
	int nr[9] = { 3, 1, 4, 1, 5, 9, 2, 6, 5 };

	NOTE(p);
	sorting = p;
	p->p_libc = 1;
	qsort(nr, 9, sizeof nr[0], compare);
	CHECK(nr[0] == 1 && nr[8] == 9);
	p->p_libc = 0;
	LEAVE(p);
	return 1;
}

static int (*const shapes[])(struct plan *) = {
	plain, registers, variable, aligned, large, decoys, arguments, sorts
};
#define SORTS	(COUNT(shapes) - 1)

static NOINLINE int step(struct plan *p)
{
	int rc;

	NOTE(p);
	if (p->p_at < p->p_depth)
		rc = shapes[p->p_shape[p->p_at++]](p);
	else
		rc = pauses(p);
	LEAVE(p);
	return rc;
}

static void thread(void *arg)
{
	struct plan *p = arg;

	NOTE(p);
	CHECK_IS(fesetround(p->p_round), 0);
	CHECK_THAT(step(p), >, 0);
	CHECK_IS(fegetround(), p->p_round);
	LEAVE(p);
	p->p_ended = 1;
}

/* A function whose last words are zero: BARE. */
static void bare(void *arg)
{
	volatile uintptr_t word[8] = { 0 };
	struct plan *p = arg;

	NOTE(p);
	CHECK_THAT(pauses(p), >, 0);
	CHECK(word[0] == 0 && word[7] == 0);
	LEAVE(p);
	p->p_ended = 1;
}

static void make_plan(struct plan *p, unsigned *state, int i)
{
	int j;

	memset(p, 0, sizeof *p);
	p->p_trips = 1 + i % 3;
	p->p_round = i % 5 == 4 ? FE_DOWNWARD : FE_TONEAREST;
	p->p_depth = (int)(check_random(state) % (DEPTH / 3));
	for (j = 0; j < p->p_depth; j++)
		p->p_shape[j] = (int)(check_random(state) % SORTS);
	if (i % 4 == 1)
		p->p_shape[p->p_depth++] = SORTS;
}

/*
 * Compares a trace with the notes, except the outermost, in usched_launch().
 * Frames of libc may be between; in the hard mode, uhard_first() may be there.
 */
static void compare_trace(const struct plan *p, void **pc, int nr)
{
	int want = p->p_ret_nr - 1;
	int i, at = 1;

	CHECK(nr >= 1 && nr <= MANY);
	CHECK_IS(_Unwind_FindEnclosingFunction(pc[0]), (void *)pauses);
	for (i = 0; i < want; i++, at++) {
		while (p->p_libc && at < nr &&
		       pc[at] != p->p_ret[p->p_ret_nr - 1 - i])
			at++;
		CHECK_THAT(at, <, nr);
		CHECK_IS(pc[at], p->p_ret[p->p_ret_nr - 1 - i]);
	}
	CHECK(at == nr || (IN_HARD && at + 1 == nr));
	CHECK(!p->p_libc || nr > want + 1);
}

/* A copy of a slice is complete, also where the buffer is short. */
static void whole(const struct ustack *u)
{
#if defined(__x86_64__) && !defined(USCHED_PORTABLE)
	extern const char usched_bottom[] HIDDEN;
	static uintptr_t words[8192];
	ptrdiff_t nob = usched_slice(u, NULL);

	CHECK(nob >= 64 && nob <= (ptrdiff_t)sizeof words);
	CHECK_IS(usched_slice(u, (char *)words), nob);
	CHECK_IS(words[nob / 8 - 1], (uintptr_t)usched_bottom);
#else
#endif
}

/* Returns a checksum of all bytes that a trace must not touch. */
static unsigned long sum_of(const struct ustack *u)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];
	const unsigned char *at, *end;
	unsigned long sum = (unsigned long)(uintptr_t)u->u_top;

	at = (const unsigned char *)u->u_stack;
	for (end = at + (at != NULL ? u->u_len : 0); at < end; at++)
		sum = sum * 31 + *at;
	if (!IN_HARD && l->l_owner != NULL && l->l_owner != ustack_self()) {
		at = (const unsigned char *)((uintptr_t)l->l_owner->u_top & -8);
		end = (const unsigned char *)l->l_bottom;
		for (; at < end; at++)
			sum = sum * 31 + *at;
	}
	return sum;
}

static void trace_one(const struct ustack *u, const struct plan *p)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];
	unsigned long sum = sum_of(u);
	void *pc[MANY], *few[MANY] = { NULL };
	int nr = ustack_trace(u, pc, MANY), some = nr / 2;

	compare_trace(p, pc, nr);
	CHECK_IS(ustack_trace(u, few, some), nr);
	CHECK(memcmp(pc, few, some * sizeof *pc) == 0 && few[some] == NULL);
	CHECK_IS(ustack_trace(u, NULL, 0), nr);
	CHECK_IS(sum_of(u), sum);
	whole(u);
	aways += ((uintptr_t)u->u_top & USLICE_AWAY) != 0;
	lanes_used += ((uintptr_t)u->u_top & USLICE_AWAY) == 0;
	shorts += u->u_stack != NULL &&
		u->u_len < l->l_bottom - (char *)((uintptr_t)u->u_top & -8);
	traces++;
}

static void trace_all(void)
{
	const struct ustack *u;
	void *pc[1];
	int i;

	for (i = 0; i < NR; i++) {
		u = &tt[i].tt_stack;
		if (u == ustack_self())
			CHECK_IS(ustack_trace(u, pc, 1), -EBUSY);
		else if (tt[i].tt_done)
			CHECK_IS(ustack_trace(u, pc, 1), -EINVAL);
		else if (uslice_is_new(u))
			CHECK_IS(ustack_trace(u, pc, 1), 0);
		else
			trace_one(u, &plans[i]);
	}
}

/* Called by the dispatcher, between any two switches. */
static struct ustack *next(struct usched *s)
{
	if (t.t_rounds % 3 == 0)
		trace_all();
	return tiny_next(s);
}

/* Called by a thread that shares a lane. */
static void asks(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		trace_all();
		((struct plan *)arg)->p_ret_nr = 0;
		NOTE((struct plan *)arg);
		CHECK_IS(pauses(arg), 1);
		((struct plan *)arg)->p_trips = 1;
	}
	((struct plan *)arg)->p_ended = 1;
}

static void (*first(int i))(void *)
{
	return i % 6 == 5 ? asks : i % 3 == 2 ? bare : thread;
}

/* Returns 0 if this build cannot unwind. */
static int with_lanes(int lanes)
{
	unsigned state = check_seed;
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return 0;
	t.t_sched.s_next = next;
	for (i = 0; i < NR; i++) {
		make_plan(&plans[i], &state, i);
		tiny_start(&t, &tt[i], first(i), &plans[i]);
		if (i % 2)		/* like a struct filled by hand */
			tt[i].tt_stack.u_top = NULL;
	}
	/* Now and then the dispatcher does not run at all. */
	for (i = 1; t.t_live > 0; i++) {
		t.t_stop = t.t_rounds + i;
		tiny_run(&t);
		trace_all();
	}
	for (i = 0; i < NR; i++)
		CHECK(plans[i].p_ended);
	tiny_fini(&t);
	return 1;
}

/* A thread that runs a dispatcher is not blocked. */

static struct tiny in;
static struct tiny_thread inner_tt;

static void inner(void *outer)
{
	void *pc[1];

	CHECK_IS(ustack_trace(outer, pc, 1), -EBUSY);
	CHECK_IS(ustack_trace(ustack_self(), pc, 1), -EBUSY);
	tiny_yield();
	CHECK_IS(ustack_trace(outer, pc, 1), -EBUSY);
}

static void outer(void *arg)
{
	void *pc[1];

	tiny_yield();
	CHECK_IS(tiny_init(&in, 0), 0);
	tiny_start(&in, &inner_tt, inner, ustack_self());
	tiny_run(&in);
	CHECK_IS(ustack_trace(&inner_tt.tt_stack, pc, 1), -EINVAL);
	usched_fini(&in.t_sched);
	CHECK_IS(ustack_trace(ustack_self(), pc, 1), -EBUSY);
}

static void nested(int lanes)
{
	CHECK_IS(tiny_init(&t, lanes), 0);
	tiny_start(&t, &tt[0], outer, NULL);
	tiny_run(&t);
	tiny_fini(&t);
}

/* Threads whose lanes are gone; lack of memory; signals during a trace. */

static volatile sig_atomic_t ticks;

static NOINLINE void on_tick(int signo)
{
	volatile char space[4096];

	space[0] = space[4095] = 1;
	ticks++;
}

static void under_fire(const struct ustack *u, const struct plan *p)
{
	const struct itimerval fast = { { 0, 1000 }, { 0, 1000 } };
	const struct itimerval off = { { 0, 0 }, { 0, 0 } };

	signal(SIGVTALRM, on_tick);
	CHECK_IS(setitimer(ITIMER_VIRTUAL, &fast, NULL), 0);
	while (ticks < 30)
		trace_one(u, p);
	CHECK_IS(setitimer(ITIMER_VIRTUAL, &off, NULL), 0);
}

/* Returns how many pages are mapped, if the system tells. */
static long mapped(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long nr = 0;

	if (f != NULL) {
		if (fscanf(f, "%ld", &nr) != 1)
			nr = 0;
		fclose(f);
	}
	return nr;
}

static void no_leak(const struct ustack *u, const struct plan *p)
{
	long before = mapped();
	int i;

	for (i = 0; i < 100; i++)
		trace_one(u, p);
	CHECK_THAT(mapped(), <=, before + 100);
}

static void out_of_memory(const struct ustack *u)
{
	struct rlimit old, none;
	void *pc[1], *map;
	int rc;

	CHECK_IS(getrlimit(RLIMIT_AS, &old), 0);
	none = old;
	none.rlim_cur = 0;
	CHECK_IS(setrlimit(RLIMIT_AS, &none), 0);
	map = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rc = ustack_trace(u, pc, 1);
	CHECK_IS(setrlimit(RLIMIT_AS, &old), 0);
	CHECK(map != MAP_FAILED || rc == -ENOMEM);	/* or in an emulator */
}

static void left(int lanes)
{
	void *pc[1];

	CHECK_IS(tiny_init(&t, lanes), 0);
	memset(&plans[0], 0, sizeof plans[0]);
	plans[0].p_trips = 1;
	plans[0].p_depth = 3;
	tiny_start(&t, &tt[0], thread, &plans[0]);
	t.t_stop = 2;
	tiny_run(&t);
	trace_one(&tt[0].tt_stack, &plans[0]);
	under_fire(&tt[0].tt_stack, &plans[0]);
	no_leak(&tt[0].tt_stack, &plans[0]);
	out_of_memory(&tt[0].tt_stack);
	usched_fini(&t.t_sched);
	CHECK_IS(ustack_trace(&tt[0].tt_stack, pc, 1), -EINVAL);
	tiny_drop(&tt[0].tt_stack);
}

static void unwinding(void)
{
	void *pc[1];
	int rc;

	CHECK_IS(tiny_init(&t, 0), 0);
	make_plan(&plans[0], &(unsigned) { 1 }, 0);
	tiny_start(&t, &tt[0], thread, &plans[0]);
	t.t_stop = 2;
	tiny_run(&t);
	rc = ustack_trace(&tt[0].tt_stack, pc, 1);
	if (rc == -ENOSYS)
		check_skip("no unwinding in this build");
#if defined(__riscv)
	if (rc == 0)
		check_skip("no unwind tables (-fasynchronous-unwind-tables)");
#endif
	CHECK_THAT(rc, >, 0);
	tiny_run(&t);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	unwinding();
	for (i = 0; i < 8; i++) {
		check_seed += i;
		with_lanes(0);
		with_lanes(1);
		with_lanes(2);
		with_lanes(NR);
	}
	CHECK(aways > 100 && (IN_HARD || lanes_used > 100));
#if defined(__OPTIMIZE__) && defined(__x86_64__) && !IN_HARD &&		\
	!defined(__clang__)
	CHECK_THAT(shorts, >, 10);
#endif
	nested(0);
	nested(2);
	left(0);
	left(1);
	return 0;
}
