/* SPDX-License-Identifier: MIT */
/* stackful.c: threads on stacks of their own, by a bare switch, a yardstick. */

/*
 * bench.h says what is asked, and what a ring is; native.h, where rings live.
 *
 * HOW. All that a library would add is left out: this shows what the machine
 * can do, not what people run.
 *
 *   - Each thread has a stack of its own, in whole pages: one page, or more if
 *     the D bytes need them; without a guard page, from one mapping. Its struct
 *     lies at the top of the stack, in the same page. The tops are staggered by
 *     cache lines, else all would fall into the same few cache sets.
 *   - The switch is symmetric: the thread that blocks picks the next thread and
 *     jumps to it. The switch is inline, and tells the compiler that no
 *     register survives, so only live values are saved; program counter, stack
 *     pointer and frame pointer go into the struct. The switch neither calls
 *     nor returns, so it does not upset the return-address predictor. Pointers
 *     to the resumed thread and to the executor go through the switch in
 *     registers, so no thread has to look for them. Rejected: six registers
 *     pushed and popped out of line (half as fast); the executor in
 *     thread-local storage (gcc keeps its offset in a register, and has to load
 *     it after each switch: half as fast). A switch out of line was as fast
 *     with ret as with pop and jmp: all threads switch in the same place, so
 *     even a ret that has changed stacks returns to where its call came from.
 *   - Not saved: mxcsr, the x87 control word, fpcr. A library must save them.
 *   - The run queue is an array of pointers, as large as the number of threads,
 *     rounded up to a power of two. It cannot overflow, since a thread is in it
 *     once. By default it is first in, first out, so all threads take turns
 *     (cold). With -DLIFO the thread woken last runs first (hot): that measures
 *     one ring after another.
 *   - The struct of the thread AHEAD places further in the queue is prefetched.
 *     To prefetch the line of its frames, too, was no gain with a million
 *     threads, nor were 16 to 64 places; with fewer threads both cost a few
 *     hundredths.
 *   - Since each page is used, huge pages cost no memory here, and spare the
 *     TLB. -DHUGE=0 does without.
 *   - Whether blocks are counted is a constant in each of two copies of the
 *     ring's function, so a timed ring does not even test for it.
 *
 * All threads of one native thread are made before the first runs. A thread
 * that must be blocked goes into a list, and waits. When no thread can run, all
 * in the list are counted and woken.
 *
 *   top of a stack, lower addresses to the right
 *
 *   | stagger | struct thread | 0 | start() | D bytes | ring_thread() | free
 *             64-byte line ---^   ^                                   ^
 *                                 t_sp, before the start              |
 *                                                    t_sp, blocked ---'
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>


#include "../native.h"

#ifndef HUGE
#define HUGE 1
#endif

enum {
	PAGE    = 4096,
	LINE    = 64,
	COLOURS = 32,		/* tops of stacks differ by 0 to 31 lines */
	FRAMES  = 1024,		/* bytes of a thread's frames, beside D */
	AHEAD   = 8		/* places of the queue from prefetch to use */
};

/*
 * A thread. While it does not run, the first three fields say where it goes on.
 */
struct thread {
	void          *t_pc;
	void          *t_sp;
	void          *t_fp;
	struct thread *t_right;		/* neighbour */
	int            t_count;		/* wakes less waits; < 0: blocked */
	unsigned       t_turn;		/* rounds until it starts a round */
} __attribute__((aligned(LINE)));

/* An executor: data of a native thread while it runs threads. */
struct exec {
	struct thread  **x_queue;
	unsigned         x_head;	/* not used by LIFO */
	unsigned         x_tail;
	unsigned         x_mask;	/* size of the queue less one */
	struct thread    x_main;	/* run(), if no thread is left */
	char            *x_arena;	/* stacks */
	long             x_nr;		/* threads to be made here */
	struct thread   *x_blocked;	/* list of these, by t_right */
	struct bench_end x_end;
};

static unsigned N, M;	/* b_n, b_m */
static size_t stack_size;

/*
 * switch_to() saves self, and goes on with next. When self goes on later, the
 * result is self again: it is in the register that held the `next' of the
 * thread that has switched. The same holds for the executor: the compiler loses
 * its copies in other registers, but this register has it on both sides.
 *
 *             self  next  executor  scratch  by hand          clobbered
 *   x86-64    rdi   rsi   rdx       rax      pc, rsp, rbp     all others
 *   aarch64   x0    x1    x2        x9, x10  pc, sp, x29      all but x18
 *
 * These are also the first three arguments of a function, so a new thread
 * begins by a jump to start().
 */
#if defined(__x86_64__) && defined(__LP64__)
#define SWITCH 1
#ifdef __AVX512F__
#define AVX512 , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21",	\
		"xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",	\
		"xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3",	\
		"k4", "k5", "k6", "k7"
#else
#define AVX512
#endif
#define switch_to(self, next, x) do {					\
	struct thread *next_ = (next);	/* first: it may be a call */	\
	register struct thread *from_ __asm__("rdi") = (self);		\
	register struct thread *to_   __asm__("rsi") = next_;		\
	register struct exec   *x_    __asm__("rdx") = (x);		\
									\
	__asm__ volatile(						\
		"leaq	1f(%%rip), %%rax\n\t"				\
		"movq	%%rax, (%0)\n\t"				\
		"movq	%%rsp, 8(%0)\n\t"				\
		"movq	%%rbp, 16(%0)\n\t"				\
		"movq	8(%1), %%rsp\n\t"				\
		"movq	16(%1), %%rbp\n\t"				\
		"jmp	*(%1)\n"					\
		"1:"							\
		: "+r" (from_), "+r" (to_), "+r" (x_) :			\
		: "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12",	\
		  "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",	\
		  "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",	\
		  "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",	\
		  "cc", "memory" AVX512);				\
	(self) = to_;							\
	(x) = x_;							\
} while (0)
#elif defined(__aarch64__) && defined(__LP64__)
#define SWITCH 1
#define switch_to(self, next, x) do {					\
	struct thread *next_ = (next);	/* first: it may be a call */	\
	register struct thread *from_ __asm__("x0") = (self);		\
	register struct thread *to_   __asm__("x1") = next_;		\
	register struct exec   *x_    __asm__("x2") = (x);		\
									\
	__asm__ volatile(						\
		"adr	x9, 1f\n\t"					\
		"mov	x10, sp\n\t"					\
		"stp	x9, x10, [%0]\n\t"				\
		"str	x29, [%0, #16]\n\t"				\
		"ldp	x9, x10, [%1]\n\t"				\
		"ldr	x29, [%1, #16]\n\t"				\
		"mov	sp, x10\n\t"					\
		"br	x9\n"						\
		"1:"							\
		: "+r" (from_), "+r" (to_), "+r" (x_) :			\
		: "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10",	\
		  "x11", "x12", "x13", "x14", "x15", "x16", "x17",	\
		  "x18", "x19", "x20", "x21", "x22", "x23", "x24",	\
		  "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2",	\
		  "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",	\
		  "v11", "v12", "v13", "v14", "v15", "v16", "v17",	\
		  "v18", "v19", "v20", "v21", "v22", "v23", "v24",	\
		  "v25", "v26", "v27", "v28", "v29", "v30", "v31",	\
		  "cc", "memory");					\
	(self) = to_;							\
	(x) = x_;							\
} while (0)
#else
#define SWITCH 0
#define switch_to(self, next, x) ((void)((self) = (next)))
#endif

#if SWITCH
_Static_assert(offsetof(struct thread, t_pc) == 0, "known to switch_to()");
_Static_assert(offsetof(struct thread, t_sp) == 8, "known to switch_to()");
_Static_assert(offsetof(struct thread, t_fp) == 16, "known to switch_to()");
#endif

static void work(struct native *w);

int main(int argc, char **argv)
{
	struct bench_end end;
	int              rc;

	if (!SWITCH) {
		fprintf(stderr, "%s: no switch for this machine\n", argv[0]);
		return 77;
	}
	rc = bench_args(&bench, argc, argv);
	if (rc != 0)
		return rc;
	N = bench.b_n;
	M = bench.b_m;
	stack_size = (COLOURS * LINE + FRAMES + (size_t)bench.b_d + PAGE - 1) &
		-PAGE;
	end = native_run(work);
	return bench_report(&bench, &end);
}

static void make(struct exec *x, int id);
static void run(struct exec *x);
static void wake_blocked(struct exec *x);

/* The work of native thread w. */
static void work(struct native *w)
{
	struct exec x = { .x_nr = 0 };

	native_together();
	x.x_end.e_start = bench_now();
	make(&x, w->w_id);
	if (bench.b_what != BENCH_EMPTY) {
		native_together();
		x.x_end.e_start = bench_now();
	}
	run(&x);
	if (bench.b_what == BENCH_BLOCKED) {
		native_together();	/* all are blocked at once */
		wake_blocked(&x);
		run(&x);
	}
	x.x_end.e_end = bench_now();
	w->w_end = x.x_end;
}

static struct thread *create(struct exec *x, size_t i, unsigned turn);

/* Makes the rings of native thread id, all threads runnable. */
static void make(struct exec *x, int id)
{
	int            share = bench_share(&bench, bench.b_r, id);
	size_t         cap   = 1;
	size_t         i     = 0;
	unsigned       n;
	struct thread *first;
	struct thread *last;

	x->x_nr = (long)share * N;
	if (x->x_nr == 0)
		return;
	while (cap < (size_t)x->x_nr)
		cap *= 2;
	x->x_queue = native_map(cap * sizeof *x->x_queue, true);
	x->x_mask  = cap - 1;
	x->x_arena = native_map(x->x_nr * stack_size, HUGE);
	while (share-- > 0) {
		first = last = create(x, i++, 0);
		for (n = 1; n < N; n++)
			last = last->t_right = create(x, i++, n);
		last->t_right = first;
	}
}

static inline struct thread *get(struct exec *x);

/* Runs threads until none can run. */
__attribute__((noinline))
static void run(struct exec *x)
{
	struct thread *self = &x->x_main;

	switch_to(self, get(x), x);
}

static inline void wake(struct exec *x, struct thread *t);

/* Threads learn from e_blocks that all were blocked before any went on. */
static void wake_blocked(struct exec *x)
{
	struct thread *t;

	for (t = x->x_blocked; t != NULL; t = t->t_right) {
		x->x_end.e_blocks += t->t_count < 0;
		wake(x, t);
	}
}

static inline void put(struct exec *x, struct thread *t);
static void start(struct thread *old, struct thread *self, struct exec *x);

/* Makes thread i, which will enter start() as if called from nowhere. */
static struct thread *create(struct exec *x, size_t i, unsigned turn)
{
	char          *end = x->x_arena + (i + 1) * stack_size;
	struct thread *t   = (void *)(end - i % COLOURS * LINE);

	t--;
	t->t_pc = (void *)start;
	t->t_sp = t;
#ifdef __x86_64__
	t->t_sp = (void **)t->t_sp - 1;		/* return address: 0 */
#endif
	t->t_turn = turn;
	put(x, t);
	return t;
}

static struct exec *body(struct thread *self, struct exec *x);
static struct exec *wide_body(struct thread *self, struct exec *x);

/* The outermost function of a thread. */
static void start(struct thread *old, struct thread *self, struct exec *x)
{
	(void)old;
	x = bench.b_d > 0 ? wide_body(self, x) : body(self, x);
	switch_to(self, get(x), x);
	abort();
}

/* Calls the body with D more bytes, in lines touched first and checked last. */
__attribute__((noinline))
static struct exec *wide_body(struct thread *self, struct exec *x)
{
	volatile char pad[bench.b_d];
	int           i;

	for (i = 0; i < bench.b_d; i += LINE)
		pad[i] = 1;
	x = body(self, x);
	for (i = 0; i < bench.b_d; i += LINE)
		x->x_end.e_ended -= pad[i] != 1;
	return x;
}

static struct exec *ring_thread(struct thread *self, struct exec *x);
static struct exec *ring_counted(struct thread *self, struct exec *x);
static struct exec *empty_thread(struct thread *self, struct exec *x);
static struct exec *blocked_thread(struct thread *self, struct exec *x);

static struct exec *body(struct thread *self, struct exec *x)
{
	static struct exec *(*const f[])(struct thread *, struct exec *) = {
		[BENCH_RING]    = ring_thread,
		[BENCH_BLOCKS]  = ring_counted,
		[BENCH_EMPTY]   = empty_thread,
		[BENCH_BLOCKED] = blocked_thread
	};

	return f[bench.b_what](self, x);
}

static inline void wake(struct exec *x, struct thread *t)
{
	if (t->t_count++ < 0)
		put(x, t);
}

/* A macro, as switch_to() gives new values to self and x. */
#define wait(self, x, count) do {					\
	if (--(self)->t_count < 0) {					\
		if (count)						\
			(x)->x_end.e_blocks++;				\
		switch_to(self, get(x), x);				\
	}								\
} while (0)

/*
 * The body of a ring's thread. t_turn counts down to the round that it starts.
 * Extra wakes stay in t_count until they are needed.
 */
__attribute__((always_inline))
static inline struct exec *ring(struct thread *self, struct exec *x, bool count)
{
	unsigned got = 0;

	for (;;) {
		for (; self->t_turn > 0 && got < M; self->t_turn--) {
			wait(self, x, count);
			got++;
			wake(x, self->t_right);
		}
		if (got == M)
			break;
		wake(x, self->t_right);
		wait(self, x, count);
		got++;
		self->t_turn = N - 1;
	}
	x->x_end.e_received += got;
	x->x_end.e_ended    += self->t_count == 0;
	return x;
}

__attribute__((noinline))
static struct exec *ring_thread(struct thread *self, struct exec *x)
{
	return ring(self, x, false);
}

__attribute__((noinline))
static struct exec *ring_counted(struct thread *self, struct exec *x)
{
	return ring(self, x, true);
}

static struct exec *empty_thread(struct thread *self, struct exec *x)
{
	(void)self;
	x->x_end.e_ended++;
	return x;
}

__attribute__((noinline))
static struct exec *blocked_thread(struct thread *self, struct exec *x)
{
	self->t_right = x->x_blocked;
	x->x_blocked  = self;
	wait(self, x, false);
	x->x_end.e_ended += x->x_end.e_blocks == x->x_nr;
	return x;
}

#ifdef LIFO
static inline void put(struct exec *x, struct thread *t)
{
	x->x_queue[x->x_tail++] = t;
}

static inline struct thread *get(struct exec *x)
{
	if (__builtin_expect(x->x_tail == 0, false))
		return &x->x_main;
	return x->x_queue[--x->x_tail];
}
#else
static inline void put(struct exec *x, struct thread *t)
{
	x->x_queue[x->x_tail++ & x->x_mask] = t;
}

/* The pointer that is prefetched may be stale or NULL: that does no harm. */
static inline struct thread *get(struct exec *x)
{
	if (__builtin_expect(x->x_head == x->x_tail, false))
		return &x->x_main;
	__builtin_prefetch(x->x_queue[(x->x_head + AHEAD) & x->x_mask], 1);
	return x->x_queue[x->x_head++ & x->x_mask];
}
#endif
