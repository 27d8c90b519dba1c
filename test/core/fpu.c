/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * fpu: each thread has floating-point control words of its own (rounding,
 * flushing of denormals, traps). A thread starts with those of the caller of
 * usched_run(). s_next(), s_done() and the caller of usched_run() always have
 * those of the caller; s_alloc() and s_free() have those of the thread
 * (usched I6).
 *
 * After usched_share_fp(1) threads that do not change the words have those of
 * its caller, and on x86-64 blocks do not look at them. The hard mode names a
 * thread that changes them. usched_share_fp(0) gives each thread its own again.
 */
#include "tiny.h"

#if defined(__x86_64__) || defined(__i386__)

struct words { unsigned w_mxcsr; unsigned short w_x87; };

#define MXCSR_CONTROL	0xffc0u

static NOINLINE struct words get(void)
{
	struct words w = { 0, 0 };

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1"
			 : "=m"(w.w_mxcsr), "=m"(w.w_x87));
	w.w_mxcsr &= MXCSR_CONTROL;
	return w;
}

static NOINLINE void set(struct words w)
{
	__asm__ volatile("ldmxcsr %0\n\tfldcw %1"
			 : : "m"(w.w_mxcsr), "m"(w.w_x87));
}

static int same(struct words a, struct words b)
{
	return a.w_mxcsr == b.w_mxcsr && a.w_x87 == b.w_x87;
}

/*
 * Variants: FTZ, DAZ, rounding, masks, x87 precision. 0 is what the test began
 * with.
 */
static struct words variant(int i)
{
	static const struct words v[] = {
		{ 0x3f80, 0x037f }, { 0x7f80, 0x0f7f }, { 0xbfc0, 0x037f },
		{ 0x1f80, 0x077f }, { 0x1d80, 0x037b }, { 0x1f80, 0x027f },
		{ 0x9f80, 0x037f }, { 0x1fc0, 0x007f }, { 0x1f80, 0x037f }
	};

	return v[i % COUNT(v)];
}

#else

/* Rounding; and where the machine has them, flushing, default NaNs, traps. */
#if defined(__aarch64__)
#define GET		"mrs %0, fpcr"
#define SET		"msr fpcr, %0"
#define CONTROL		~0ul
#define VARIANTS	1ul << 22, 2ul << 22, 3ul << 22, 1ul << 24,	\
			1ul << 25, 0, 3ul << 22 | 1ul << 24
#elif defined(__riscv) && defined(__riscv_flen)
#define GET		"frrm %0"
#define SET		"fsrm %0"
#define CONTROL		~0ul
#define VARIANTS	0, 1, 2, 3, 4
#elif defined(__arm__) && defined(__ARM_FP)
#define GET		"vmrs %0, fpscr"
#define SET		"vmsr fpscr, %0"
#define CONTROL		0x07c09f00ul
#define VARIANTS	1ul << 22, 2ul << 22, 3ul << 22, 1ul << 24, 1ul << 25, 0
#elif defined(__s390x__)
#define GET		"efpc %0"
#define SET		"sfpc %0"
#define CONTROL		0xfc000077ul
#define VARIANTS	1, 2, 3, 7, 0x10, 0x80000000ul, 0, 0x70000003ul
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define GET		"mffs 0\n mfvsrd %0, 0"
#define SET		"mtvsrd 0, %0\n mtfsf 255, 0"
#define LOST		, "fr0"
#define CONTROL		0xfful
#define VARIANTS	1, 2, 3, 0x80, 0x10, 0, 0xc2
#else
#define UNKNOWN
#define GET		""
#define SET		""
#define CONTROL		0ul
#define VARIANTS	0
#endif
#if !defined(LOST)
#define LOST
#endif

struct words { unsigned long w_control; };

static NOINLINE struct words get(void)
{
	struct words w = { 0 };

	__asm__ volatile(GET : "+r"(w.w_control) : : "cc" LOST);
	w.w_control &= CONTROL;
	return w;
}

static NOINLINE void set(struct words w)
{
	__asm__ volatile(SET : : "r"(w.w_control) : "cc" LOST);
}

static int same(struct words a, struct words b)
{
	return a.w_control == b.w_control;
}

static struct words variant(int i)
{
	static const unsigned long v[] = { VARIANTS };
	struct words w = { v[i % COUNT(v)] };

	return w;
}

#endif

#define NR	30
#define TRIPS	12

static struct tiny t;
static struct tiny_thread tt[NR];
static struct words outside;		/* of usched_run()'s caller */
static struct words now;		/* of the thread that blocks */

static struct ustack *next(struct usched *s)
{
	CHECK(same(get(), outside));
	return tiny_next(s);
}

static void done(struct usched *s, struct ustack *u)
{
	CHECK(same(get(), outside));
	tiny_done(s, u);
}

static void *alloc(struct usched *s, int size)
{
	CHECK(same(get(), now));
	return tiny_alloc(s, size);
}

static void release(struct usched *s, void *buf, int size)
{
	CHECK(same(get(), now));
	tiny_free(s, buf, size);
}

/* A third of the threads change nothing, a third once, a third each time. */
static void thread(void *arg)
{
	struct words w = outside;
	int me = (int)((struct tiny_thread *)arg - tt), i;

	CHECK(same(get(), outside));
	for (i = 0; i < TRIPS; i++) {
		if (me % 3 == 2 || (me % 3 == 1 && i == me % TRIPS)) {
			w = variant(me + i);
			set(w);
		}
		now = w;
		tiny_yield();
		CHECK(same(get(), w));
	}
	if (me % 2 == 0)
		ustack_abort();
}

static void start(int lanes, struct words w)
{
	int i;

	CHECK_IS(tiny_init(&t, lanes), 0);
	t.t_sched.s_next  = next;
	t.t_sched.s_done  = done;
	t.t_sched.s_alloc = alloc;
	t.t_sched.s_free  = release;
	set(outside = w);
	for (i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], thread, &tt[i]);
}

static void with_lanes(int lanes, struct words w)
{
	struct words before = get();

	start(lanes, w);
	tiny_run(&t);
	CHECK(same(get(), w));
	set(before);
	tiny_fini(&t);
}

/* Shows the effect of rounding, not only what the registers say. */
static NOINLINE double third(volatile double one)
{
	return one / 3;
}

static void rounding(void *arg)
{
	double third_was = third(1);
	int i;

	for (i = 0; i < TRIPS; i++) {
		now = get();
		tiny_yield();
		CHECK_IS(third(1), third_was);
	}
}

static void round_up(void *arg)
{
	set(variant(1));		/* not to nearest, on any machine */
	rounding(arg);
}

static void by_value(int lanes)
{
	int i;

	start(lanes, get());
	for (i = 0; i < NR; i++)
		tt[i].tt_stack.u_f = i % 2 ? round_up : rounding;
	tiny_run(&t);
	tiny_fini(&t);
}

/*
 * usched_run() is called again with other words. Blocked threads keep their own
 * words, even if these are the words of the first caller.
 */
static struct words first;

static void keeper(void *arg)
{
	now = first;
	CHECK(same(get(), first));
	tiny_yield();
	CHECK(same(get(), first));
	tiny_yield();
	CHECK(same(get(), first));
}

static NOINLINE void run_some(int rounds)
{
	t.t_stop = t.t_rounds + rounds;
	tiny_run(&t);
}

static void again(int lanes)
{
	struct words before = get();
	int i;

	first = before;
	start(lanes, before);
	t.t_sched.s_next = tiny_next;
	t.t_sched.s_done = tiny_done;
	for (i = 0; i < NR; i++)
		tt[i].tt_stack.u_f = keeper;
	for (i = 0; i < 2; i++) {
		set(i == 0 ? before : variant(1));
		run_some(i == 0 ? NR + NR / 2 : 0);
		CHECK(same(get(), i == 0 ? before : variant(1)));
	}
	set(before);
	tiny_fini(&t);
}

/*
 * Its words stay for the next thread, if no block looks at them. (The first
 * block, which wants a buffer, does.)
 */
static void changes(void *arg)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (i == 1)
			set(variant(1));
		tiny_yield();
	}
	set(outside);
}

static void sees(void *arg)
{
	tiny_yield();
	*(struct words *)arg = get();
}

static struct words seen;

/* A thread changes the words, and another looks. */
static void change_shared(void (*f)(void *))
{
	CHECK_IS(tiny_init(&t, 1), 0);
	outside = get();
	tiny_start(&t, &tt[0], f, NULL);
	tiny_start(&t, &tt[1], sees, &seen);
	tiny_run(&t);
	tiny_fini(&t);
}

#if defined(USCHED_HARD)

static void changes_at_end(void *arg)
{
	set(variant(1));
}

static void at_block(void)
{
	change_shared(changes);
}

static void at_end(void)
{
	change_shared(changes_at_end);
}

#endif

#define SHARED	"usched_share_fp: a thread has changed floating-point control words"

static void shared_changes(void)
{
#if defined(USCHED_HARD)
	int bad = 0;

	bad += check_dies("at a block", at_block, SHARED);
	bad += check_dies("at the end", at_end, SHARED);
	CHECK_IS(bad, 0);
#elif defined(__x86_64__) && defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
	struct words before = get();

	change_shared(changes);
	CHECK(same(seen, variant(1)));
	CHECK(same(get(), before));
#endif
}

static void shared(int lanes, struct words w)
{
	struct words before = get();
	int i;

	usched_share_fp(1);
	start(lanes, w);
	for (i = 0; i < NR; i++)
		tt[i].tt_stack.u_f = rounding;
	tiny_run(&t);
	CHECK(same(get(), w));
	set(before);
	tiny_fini(&t);
	usched_share_fp(0);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 7, NR };
	int i, v;

	check_start(argc, argv);
#if defined(UNKNOWN)
	check_skip("no control words known on this machine");
#endif
	for (i = 0; i < COUNT(lanes); i++) {
		if (tiny_init(&t, lanes[i]) == -ENOSYS)
			continue;
		tiny_fini(&t);
		with_lanes(lanes[i], get());
		for (v = 0; v < 9; v++)
			with_lanes(lanes[i], variant(v));
		by_value(lanes[i]);
		again(lanes[i]);
		for (v = 0; v < 9; v++)
			shared(lanes[i], variant(v));	/* others than shared, too */
		usched_share_fp(1);
		if (lanes[i] > 0)
			shared_changes();
		usched_share_fp(0);
		by_value(lanes[i]);
	}
	return 0;
}
