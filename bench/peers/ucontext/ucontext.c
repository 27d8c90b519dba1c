/*
 * SPDX-License-Identifier: MIT
 *
 * ucontext.c: the benchmark of bench.h on swapcontext() of the C library.
 *
 * This is what the C library alone offers: getcontext(), makecontext() and
 * swapcontext(), with a stack for each thread, and the shortest scheduler that
 * works. Its counterpart with a switch of its own is bench/peers/stackful.
 *
 * SWITCH. A context has a signal mask, and swapcontext() must change it. In
 * glibc that is a system call, rt_sigprocmask, in each switch. It took more
 * than half of the switch when both were measured alone. The interface has no
 * way to avoid it. The switch is symmetric: a thread that blocks takes the next
 * thread from the queue and switches to it, so a block costs one swapcontext(),
 * not two. If the queue is empty, the thread switches to the native thread; so
 * does, by uc_link, a thread that ends.
 *
 * QUEUE. First in, first out: a ring buffer of pointers, as large as the number
 * of threads, rounded up to a power of two. It cannot overflow, since a thread
 * is in it once.
 *
 * STACKS. STACK bytes, and D more in whole pages, from one mapping per native
 * thread, without guard pages: with a guard for each, the limit of mappings
 * (vm.max_map_count) would allow some 32,000 threads. 16 KiB are enough to call
 * most of the C library, and untouched pages cost only address space. The
 * touched part is the top: the struct of the thread with its ucontext_t (968
 * bytes with glibc on x86-64), and its frames, a few hundred bytes. All this
 * fits into one page, even when staggered by up to 31 cache lines. Without the
 * stagger, the tops of all stacks fall into the same few sets of the first
 * cache. Then rings of two were as fast for R = 2 and 100000, and a tenth to a
 * quarter slower for R = 1000.
 *
 * All symbols are bound when the program starts (-z now). Otherwise the first
 * call of a function from a thread looks it up on the stack of the thread, and
 * saves all vector registers there, which can take more than 8 KiB.
 *
 *   top of a stack, lower addresses to the right
 *
 *   | stagger | struct thread, t_context | thread_main() | ring_run() | free |
 *
 * NATIVE THREADS: see native.h. All threads of a ring have the same executor,
 * so no wake crosses to another processor, and nothing is locked.
 *
 * BLOCKS are counted where a thread switches because it has no wake left. This
 * code is compiled only into the run that counts.
 *
 * BLOCKED. A thread is counted right before it blocks, and nothing can come in
 * between. So when the native thread runs again, all threads that it counts
 * have blocked. It waits for the other native threads, and wakes its threads.
 *
 * EMPTY threads are all made before the first runs. A stack is not used again
 * for another thread.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "../native.h"

enum {
	PAGE    = 4096,
	LINE    = 64,
	STACK   = 16 << 10,
	COLOURS = 32		/* tops of stacks differ by 0 to 31 lines */
};

struct exec;

/* A thread. The fields that it needs while it runs come first. */
struct thread {
	long           t_count;		/* wakes less waits; < 0: blocked */
	struct thread *t_right;
	struct exec   *t_exec;
	int            t_turn;		/* rounds until it starts a round */
	ucontext_t     t_context;
} __attribute__((aligned(LINE)));

/* Data of a native thread that runs threads. */
struct exec {
	struct thread **x_queue;
	size_t          x_head;
	size_t          x_tail;
	size_t          x_mask;		/* size of the queue less one */
	struct thread   x_main;		/* the native thread itself */
	char           *x_stacks;
	size_t          x_stack_size;
	long            x_nr;		/* threads here */
	long            x_blocked;	/* in BENCH_BLOCKED */
	void          (*x_f)(struct thread *);	/* function of its threads */
	struct bench_end *x_end;
};

static void run(struct native *w);

int main(int argc, char **argv)
{
	struct bench_end end;
	int  rc = bench_args(&bench, argc, argv);

	if (rc != 0)
		return rc;
	end = native_run(run);
	return bench_report(&bench, &end);
}

static void exec_init(struct exec *x, struct native *w);
static void exec_fini(struct exec *x);
static void make_all(struct exec *x);
static void dispatch(struct exec *x);
static void wake_all(struct exec *x);

/* Runs on each native thread. */
static void run(struct native *w)
{
	struct exec x;

	exec_init(&x, w);
	native_together();
	if (bench.b_what == BENCH_EMPTY)
		w->w_end.e_start = bench_now();
	make_all(&x);
	if (bench.b_what != BENCH_EMPTY) {
		native_together();
		w->w_end.e_start = bench_now();
	}
	dispatch(&x);
	if (bench.b_what == BENCH_BLOCKED) {
		native_together();
		wake_all(&x);
		dispatch(&x);
	}
	w->w_end.e_end = bench_now();
	exec_fini(&x);
}

static void ring_thread(struct thread *self);
static void ring_counted(struct thread *self);
static void empty_thread(struct thread *self);
static void blocked_thread(struct thread *self);

static void exec_init(struct exec *x, struct native *w)
{
	static void (*const f[])(struct thread *) = {
		[BENCH_RING]    = ring_thread,
		[BENCH_BLOCKS]  = ring_counted,
		[BENCH_EMPTY]   = empty_thread,
		[BENCH_BLOCKED] = blocked_thread
	};
	size_t cap = 1;

	memset(x, 0, sizeof *x);
	x->x_end = &w->w_end;
	x->x_f   = f[bench.b_what];
	x->x_nr  = (long)bench.b_n *
		bench_share(&bench, bench.b_r, w->w_id);
	while (cap < (size_t)x->x_nr)
		cap *= 2;
	x->x_mask       = cap - 1;
	x->x_stack_size = STACK + ((bench.b_d + (size_t)PAGE - 1) & -PAGE);
	x->x_queue      = native_map(cap * sizeof x->x_queue[0], false);
	x->x_stacks     = native_map((x->x_nr + 1) * x->x_stack_size,
				     false);
}

static void exec_fini(struct exec *x)
{
	if (munmap(x->x_queue, (x->x_mask + 1) * sizeof x->x_queue[0]) != 0 ||
	    munmap(x->x_stacks, (x->x_nr + 1) * x->x_stack_size) != 0)
		bench_die(&bench, "munmap", errno);
}

static void        thread_make(struct exec *x, long i);
static inline void put(struct exec *x, struct thread *t);

/* Returns the struct of thread i of this native thread. */
static struct thread *thread_at(const struct exec *x, long i)
{
	char *top = x->x_stacks + (i + 1) * x->x_stack_size;

	return (struct thread *)(top - i % COLOURS * LINE) - 1;
}

static void make_all(struct exec *x)
{
	long i;

	for (i = 0; i < x->x_nr; i++)
		thread_make(x, i);
}

static void thread_main(unsigned low, unsigned high);

/*
 * Makes thread i runnable. makecontext() passes ints, so self is two of them.
 */
static void thread_make(struct exec *x, long i)
{
	struct thread *self  = thread_at(x, i);
	char          *stack = x->x_stacks + i * x->x_stack_size;
	uintptr_t      arg   = (uintptr_t)self;
	int            turn  = i % bench.b_n;

	if (getcontext(&self->t_context) != 0)
		bench_die(&bench, "getcontext", errno);
	self->t_context.uc_stack.ss_sp   = stack;
	self->t_context.uc_stack.ss_size = (char *)self - stack;
	self->t_context.uc_link          = &x->x_main.t_context;
	makecontext(&self->t_context, (void (*)(void))thread_main, 2,
		    (unsigned)arg, (unsigned)((uint64_t)arg >> 32));
	self->t_count = 0;
	self->t_exec  = x;
	self->t_turn  = turn;
	self->t_right = thread_at(x, turn == bench.b_n - 1 ? i - turn : i + 1);
	put(x, self);
}

static inline void put(struct exec *x, struct thread *t)
{
	x->x_queue[x->x_tail++ & x->x_mask] = t;
}

/* Returns the next thread, or, if there is none, the native thread. */
static inline struct thread *get(struct exec *x)
{
	if (x->x_head == x->x_tail)
		return &x->x_main;
	return x->x_queue[x->x_head++ & x->x_mask];
}

static inline void switch_to(struct thread *from, struct thread *to)
{
	if (__builtin_expect(swapcontext(&from->t_context,
					 &to->t_context) != 0, false))
		bench_die(&bench, "swapcontext", errno);
}

/* Runs threads until all have ended or blocked. */
static void dispatch(struct exec *x)
{
	struct thread *next;

	while ((next = get(x)) != &x->x_main)
		switch_to(&x->x_main, next);
}

static inline void wake(struct thread *t)
{
	if (t->t_count++ < 0)
		put(t->t_exec, t);
}

static inline void wait(struct thread *self, bool counted)
{
	if (--self->t_count < 0) {
		if (counted)
			self->t_exec->x_end->e_blocks++;
		switch_to(self, get(self->t_exec));
	}
}

static void wake_all(struct exec *x)
{
	long i;

	if (x->x_blocked != x->x_nr)
		bench_die(&bench, "not all threads have blocked", EAGAIN);
	for (i = 0; i < x->x_nr; i++)
		wake(thread_at(x, i));
}

static bool deep(struct thread *self);

/*
 * The outermost function of a thread. When it returns, the native thread runs.
 */
static void thread_main(unsigned low, unsigned high)
{
	struct thread *self = (struct thread *)
		(uintptr_t)((uint64_t)high << 32 | low);
	bool in_order = true;

	if (bench.b_d > 0)
		in_order = deep(self);
	else
		self->t_exec->x_f(self);
	self->t_exec->x_end->e_ended += in_order && self->t_count == 0;
}

/*
 * Calls the ring with D more bytes on the stack. True: they kept their value.
 */
static bool deep(struct thread *self)
{
	volatile char space[bench.b_d];

	memset((char *)space, 'D', bench.b_d);
	self->t_exec->x_f(self);
	return space[0] == 'D' && space[bench.b_d - 1] == 'D';
}

/*
 * t_turn counts down to the round that the thread starts. There is one place
 * where it waits.
 */
static inline __attribute__((always_inline))
void ring_run(struct thread *self, bool counted)
{
	int turn = self->t_turn;
	int left;

	for (left = bench.b_m; left > 0; left--, turn--) {
		bool starts = turn == 0;

		if (starts) {
			wake(self->t_right);
			turn = bench.b_n;
		}
		wait(self, counted);
		if (!starts)
			wake(self->t_right);
	}
	self->t_exec->x_end->e_received += bench.b_m;
}

static void ring_thread(struct thread *self)
{
	ring_run(self, false);
}

static void ring_counted(struct thread *self)
{
	ring_run(self, true);
}

static void empty_thread(struct thread *self)
{
	(void)self;
}

static void blocked_thread(struct thread *self)
{
	self->t_exec->x_blocked++;
	wait(self, false);
}
