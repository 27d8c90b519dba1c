/*
 * SPDX-License-Identifier: MIT
 *
 * stackful.c: the ring ping-pong on a hand-written stack switch, a yardstick.
 *
 * What is measured. R rings of N threads, M rounds. In round i the thread with
 * index i mod N is the starter: it wakes its right neighbour, then waits. Every
 * other thread waits, then wakes its right neighbour. N*R*M messages in all. A
 * wake before its wait is kept, and n wakes let n waits through, so a thread
 * switches only when its count is short. The time goes from the moment when all
 * threads exist to the moment when all have ended.
 *
 * How. Everything that a library would add is left out: this is what the
 * machine can do, not what people run.
 *
 *   - Each thread has a stack of its own, 4 KiB (and D bytes more, in whole
 *     pages), without a guard page, from one mapping. Its struct lies at the
 *     top of it, in the same page. The tops are staggered by cache lines, else
 *     all would fall into the same few cache sets.
 *   - The switch is symmetric: the thread that blocks picks the next one and
 *     jumps to it. It is inline, and tells the compiler that no register
 *     survives, so only what is alive is saved; program counter, stack pointer
 *     and frame pointer go into the struct. It neither calls nor returns, so
 *     nothing upsets the return-address predictor. The pointers to the resumed
 *     thread and to the executor go through the switch in registers, nobody has
 *     to look for them. Rejected: six registers pushed and popped out of line
 *     (half as fast), the executor in thread-local storage (gcc keeps its
 *     offset in a register, and has to load it after each switch: half as
 *     fast). Whether the switch out of line ended in ret or in pop and jmp made
 *     no difference: all threads switch in the same place, so even a ret that
 *     has changed stacks returns to where its call came from.
 *   - Not saved: mxcsr, the x87 control word, fpcr. A library must.
 *   - The run queue is an array of pointers, as large as the number of threads,
 *     rounded up to a power of two: it cannot overflow, a thread is in it once.
 *     By default first in, first out, so that all take turns (cold). With
 *     -DLIFO the thread woken last runs first (hot): that measures one ring
 *     after the other.
 *   - The struct of the thread AHEAD places further in the queue is prefetched.
 *   - Since each page is used, huge pages cost no memory here, and spare the
 *     TLB. -DHUGE=0 does without.
 *
 * With P > 1 there are P native threads, each with an executor of its own,
 * pinned to the processors that the process may use; ring r lives on native
 * thread r mod P. With P = 1 nothing is pinned.
 *
 *   top of a stack, lower addresses to the right
 *
 *   | stagger | struct thread | 0 | start() | ring_thread() |  free  |
 *             64-byte line ---^   ^                         ^
 *                                 t_sp, before the start    t_sp, blocked
 */
#define _GNU_SOURCE
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#ifndef HUGE
#define HUGE 1
#endif

enum {
	PAGE    = 4096,
	LINE    = 64,
	COLOURS = 32,		/* tops of stacks differ by 0 to 31 lines */
	AHEAD   = 8		/* places of the queue from prefetch to use */
};

/* A thread. While it does not run, the first three say where it goes on. */
struct thread {
	void          *t_pc;
	void          *t_sp;
	void          *t_fp;
	struct thread *t_right;		/* neighbour */
	int            t_count;		/* wakes less waits; < 0: blocked */
	unsigned       t_turn;		/* rounds until it starts one */
} __attribute__((aligned(LINE)));

/* An executor: all that a native thread needs while it runs threads. */
struct exec {
	struct thread **x_queue;
	unsigned        x_head;		/* not used by LIFO */
	unsigned        x_tail;
	unsigned        x_mask;		/* size of the queue less one */
	unsigned        x_id;
	struct thread   x_main;		/* proc_main(): when none is left */
	char           *x_arena;	/* the next stack goes here */
	size_t          x_nr;		/* threads to be made here */
	size_t          x_ended;	/* threads that ended in order */
	uint64_t        x_got;		/* messages received */
	pthread_t       x_tid;
	double          x_start;
	double          x_end;
};

static unsigned N, R, M, D, P;
static size_t stack_size;
static pthread_barrier_t gate;
static cpu_set_t allowed;

/*
 * switch_to(): puts self aside, goes on with next. When self goes on in its
 * turn, returns self, as the register that held the `next' of the one who
 * switched. Likewise the executor: whatever the compiler keeps of it in other
 * registers is lost, but this register has it on both sides.
 *
 *             self  next  executor  scratch  by hand          clobbered
 *   x86-64    rdi   rsi   rdx       rax      pc, rsp, rbp     all others
 *   aarch64   x0    x1    x2        x9, x10  pc, sp, x29      all but x18
 *
 * These are also the first three arguments of a function, so that a new thread
 * begins with a jump to start().
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

static bool args(int argc, char **argv);
static int check(struct exec *x);
static void *proc_main(void *arg);
static void die(const char *what);

int main(int argc, char **argv)
{
	struct exec *x;
	unsigned     i;
	int          rc;

	if (!SWITCH) {
		fprintf(stderr, "stackful: no switch for this machine\n");
		return 77;
	}
	if (!args(argc, argv)) {
		fprintf(stderr, "usage: %s N R M D P\n"
			"rings of N threads, R of them, M rounds, D bytes more "
			"of stack in each, P native threads:\n"
			"decimal integers, N, R, M, P >= 1, D >= 0, "
			"N*R <= %d\n", argv[0], INT_MAX);
		return 2;
	}
	stack_size = PAGE + (((size_t)D + PAGE - 1) & -PAGE);
	x = aligned_alloc(LINE, P * sizeof *x);
	if (x == NULL || pthread_barrier_init(&gate, NULL, P) != 0 ||
	    sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		die("cannot set up");
	for (i = 0; i < P; i++)
		x[i] = (struct exec){ .x_id = i };
	for (i = 1; i < P; i++)
		if (pthread_create(&x[i].x_tid, NULL, proc_main, &x[i]) != 0)
			die("cannot start a native thread");
	proc_main(&x[0]);
	for (i = 1; i < P; i++)
		if (pthread_join(x[i].x_tid, NULL) != 0)
			die("cannot join a native thread");
	rc = check(x);
	free(x);
	return rc;
}

/* Decimal digits only, from min to INT_MAX. */
static bool number(const char *s, unsigned *out, unsigned min)
{
	unsigned long long v = 0;

	if (*s == 0)
		return false;
	for (; *s != 0; s++) {
		if (*s < '0' || *s > '9')
			return false;
		v = v * 10 + (*s - '0');
		if (v > INT_MAX)
			return false;
	}
	*out = v;
	return v >= min;
}

static bool args(int argc, char **argv)
{
	return argc == 6 &&
		number(argv[1], &N, 1) && number(argv[2], &R, 1) &&
		number(argv[3], &M, 1) && number(argv[4], &D, 0) &&
		number(argv[5], &P, 1) && (uint64_t)N * R <= INT_MAX;
}

static void die(const char *what)
{
	fprintf(stderr, "stackful: %s\n", what);
	exit(1);
}

/* All native threads are through: were all messages received, in what time? */
static int check(struct exec *x)
{
	size_t   ended = 0;
	uint64_t got   = 0;
	double   start = x[0].x_start;
	double   end   = x[0].x_end;
	unsigned i;

	for (i = 0; i < P; i++) {
		ended += x[i].x_ended;
		got   += x[i].x_got;
		start  = x[i].x_start < start ? x[i].x_start : start;
		end    = x[i].x_end > end ? x[i].x_end : end;
	}
	if (ended != (size_t)N * R || got != (uint64_t)N * R * M) {
		fprintf(stderr, "stackful: %zu of %zu threads ended, %ju of "
			"%ju messages received\n", ended, (size_t)N * R,
			(uintmax_t)got, (uintmax_t)N * R * M);
		return 1;
	}
	printf("%f\n", end - start);
	return 0;
}

static void pin(unsigned id);
static void rings(struct exec *x);
static double now(void);
static inline struct thread *get(struct exec *x);

static void *proc_main(void *arg)
{
	struct exec   *x    = arg;
	struct thread *self = &x->x_main;

	if (P > 1)
		pin(x->x_id);
	rings(x);
	pthread_barrier_wait(&gate);
	x->x_start = now();
	switch_to(self, get(x), x);
	x->x_end = now();
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* To the processor number id, modulo their number, of those allowed. */
static void pin(unsigned id)
{
	int       skip = id % CPU_COUNT(&allowed);
	int       cpu  = 0;
	cpu_set_t one;

	while (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		die("cannot pin a native thread");
}

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("out of memory");
	return p;
}

static struct thread *create(struct exec *x, size_t i);

/* Makes the rings of an executor, all threads runnable. */
static void rings(struct exec *x)
{
	size_t         cap = 1;
	size_t         i;
	unsigned       n;
	struct thread *first;
	struct thread *last;

	x->x_nr = (size_t)(R / P + (x->x_id < R % P)) * N;
	if (x->x_nr == 0)
		return;
	while (cap < x->x_nr)
		cap *= 2;
	x->x_queue = map(cap * sizeof *x->x_queue);
	x->x_mask  = cap - 1;
	x->x_arena = map(x->x_nr * stack_size);
	if (HUGE)	/* advice: may fail */
		madvise(x->x_arena, x->x_nr * stack_size, MADV_HUGEPAGE);
	for (i = 0; i < x->x_nr; i += N) {
		first = last = create(x, i);
		for (n = 1; n < N; n++) {
			last = last->t_right = create(x, i + n);
			last->t_turn = n;
		}
		last->t_right = first;
	}
}

static inline void put(struct exec *x, struct thread *t);
static void start(struct thread *old, struct thread *self, struct exec *x);

/* Thread i, ready to enter start() as if called from nowhere. */
static struct thread *create(struct exec *x, size_t i)
{
	char          *end = x->x_arena + (i + 1) * stack_size;
	struct thread *t   = (void *)(end - i % COLOURS * LINE);

	t--;
	t->t_pc = (void *)start;
	t->t_sp = t;
#ifdef __x86_64__
	t->t_sp = (void **)t->t_sp - 1;		/* return address: 0 */
#endif
	put(x, t);
	return t;
}

static struct exec *ring_thread(struct thread *self, struct exec *x);
static struct exec *wide_thread(struct thread *self, struct exec *x);

/* The bottom of a thread. */
static void start(struct thread *old, struct thread *self, struct exec *x)
{
	(void)old;
	x = D > 0 ? wide_thread(self, x) : ring_thread(self, x);
	switch_to(self, get(x), x);
	abort();
}

/* D bytes more, each line touched at the start and looked at in the end. */
__attribute__((noinline))
static struct exec *wide_thread(struct thread *self, struct exec *x)
{
	volatile char pad[D];
	size_t        i;

	for (i = 0; i < D; i += LINE)
		pad[i] = 1;
	x = ring_thread(self, x);
	for (i = 0; i < D; i += LINE)
		x->x_ended -= pad[i] != 1;
	return x;
}

static inline void wake(struct exec *x, struct thread *t)
{
	if (t->t_count++ < 0)
		put(x, t);
}

/* A macro, as switch_to() gives new values to self and x. */
#define wait(self, x) do {						\
	if (--(self)->t_count < 0)					\
		switch_to(self, get(x), x);				\
} while (0)

/*
 * What a thread does. t_turn counts down to the round that it starts. Wakes
 * that came in excess stay in t_count, and are found there.
 */
__attribute__((noinline))
static struct exec *ring_thread(struct thread *self, struct exec *x)
{
	unsigned got = 0;

	for (;;) {
		for (; self->t_turn > 0 && got < M; self->t_turn--) {
			wait(self, x);
			got++;
			wake(x, self->t_right);
		}
		if (got == M)
			break;
		wake(x, self->t_right);
		wait(self, x);
		got++;
		self->t_turn = N - 1;
	}
	x->x_got   += got;
	x->x_ended += self->t_count == 0;
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

/* What is prefetched may be stale or NULL: that does no harm. */
static inline struct thread *get(struct exec *x)
{
	if (__builtin_expect(x->x_head == x->x_tail, false))
		return &x->x_main;
	__builtin_prefetch(x->x_queue[(x->x_head + AHEAD) & x->x_mask], 1);
	return x->x_queue[x->x_head++ & x->x_mask];
}
#endif
