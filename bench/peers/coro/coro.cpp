/* SPDX-License-Identifier: MIT */
/* coro.cpp: threads as hand-written C++20 coroutines, a yardstick. */

/*
 * bench.h says what is asked, and what a ring is; native.h, where rings live.
 *
 * HOW. All that a library would add is left out: this shows what the language
 * can do, not what people run.
 *
 *   - The promise is the thread, and its own awaiter. A switch needs only data
 *     in the coroutine's frame, 64 bytes with gcc, 48 with clang, and 8 more in
 *     the run queue. Frames come from one mapping and are never freed.
 *   - The run queue is an array of pointers, as large as the number of threads,
 *     rounded up to a power of two. It cannot overflow, since a thread is in it
 *     once. By default it is first in, first out, so all threads take turns
 *     (cold). With -DLIFO the thread woken last runs first (hot): that measures
 *     one ring after another.
 *   - A thread that suspends picks the next thread and jumps to it (symmetric
 *     transfer). A resume loop was the same within a tenth, at times faster and
 *     at times slower. (Without optimisation, or with a sanitizer, gcc makes a
 *     call of the jump, and the stack is full after many rounds.)
 *   - The queue knows which thread runs next, so the frame AHEAD places further
 *     is prefetched. With a million threads that is 1.5 to 2 times as fast. 8
 *     places ahead do little; 32 to 128 are alike. Huge pages for queue and
 *     frames had no effect.
 *   - The role of a thread is found by counting down, not by a division. The
 *     loop has a single suspension point, so a resumed coroutine does not
 *     branch on where it stopped.
 *   - Whether blocks are counted is a template parameter, so a timed ring does
 *     not even test for it.
 *
 * D more bytes of frame are placed before the frame, in one block with it. Each
 * cache line of them is touched at the start and checked at the end.
 *
 * All threads of one native thread are made before the first runs. A thread
 * that must be blocked goes into a list, and waits. When no thread can run, all
 * in the list are counted and woken.
 */
#include <coroutine>


#include "../native.h"

enum {
	AHEAD = 64,	/* places of the queue from prefetch to use */
	ALIGN = 16,	/* of a frame, as operator new promises */
	LINE  = 64	/* step with which the D bytes are touched */
};

struct task;

/* A thread: the promise of its coroutine, found in the coroutine's frame. */
struct thread {
	using handle = std::coroutine_handle<thread>;

	thread  *t_right;	/* neighbour */
	int      t_count;	/* wakes less waits; < 0: it is suspended */
	unsigned t_turn;	/* rounds until it starts one; N: it has */

	/* Sets the coroutine's parameter, which so learns the address. */
	thread(thread *&self) : t_count(0) { self = this; }

	static void *operator new(size_t size);
	static void operator delete(void *) {}

	task get_return_object();
	std::suspend_always initial_suspend() noexcept { return {}; }
	std::suspend_never final_suspend() noexcept { return {}; }
	void return_void() {}
	void unhandled_exception() noexcept { abort(); }

	/* co_await *self is the wait. */
	bool await_ready();
	std::coroutine_handle<> await_suspend(handle);
	void await_resume() {}

	volatile char *pad();
};

/* co_await counted{self} is the same wait, and counts if it suspends. */
struct counted {
	using handle = thread::handle;

	thread *c_thread;

	bool await_ready() { return c_thread->await_ready(); }
	std::coroutine_handle<> await_suspend(handle);
	void await_resume() {}
};

struct task {
	using promise_type = thread;
	thread *t;
};

/* An executor: data of a native thread while it runs coroutines. */
struct exec {
	thread **x_queue;
	unsigned x_head;	/* not used by LIFO */
	unsigned x_tail;
	unsigned x_mask;	/* size of the queue less one */
	size_t   x_nr;		/* coroutines to be made here */
	char    *x_arena;	/* the next frame goes here */
	size_t   x_ended;	/* coroutines that ended properly */
	uint64_t x_got;		/* messages received */
	uint64_t x_blocks;
	thread  *x_list;	/* threads that must be blocked, by t_right */
};

static unsigned N, M;	/* b_n, b_m */
static size_t below;	/* b_d rounded up to ALIGN: lies below the frame */
static thread_local constinit exec x{};

static void work(struct native *w);

int main(int argc, char **argv)
{
	int rc = bench_args(&bench, argc, argv);

	if (rc != 0)
		return rc;
	N = bench.b_n;
	M = bench.b_m;
	below = ((size_t)bench.b_d + ALIGN - 1) & -ALIGN;
	struct bench_end end = native_run(work);
	return bench_report(&bench, &end);
}

static void make(int id);
static void run();
static void wake_blocked();

/* The work of native thread w. */
static void work(struct native *w)
{
	struct bench_end *e = &w->w_end;

	native_together();
	e->e_start = bench_now();
	make(w->w_id);
	if (bench.b_what != BENCH_EMPTY) {
		native_together();
		e->e_start = bench_now();
	}
	run();
	if (bench.b_what == BENCH_BLOCKED) {
		native_together();	/* all are blocked at once */
		wake_blocked();
		run();
	}
	e->e_end      = bench_now();
	e->e_received = x.x_got;
	e->e_ended    = x.x_ended;
	e->e_blocks   = x.x_blocks;
}

static inline thread *create(unsigned turn);

/* Makes the rings of native thread id, all coroutines runnable. */
static void make(int id)
{
	int    share = bench_share(&bench, bench.b_r, id);
	size_t cap   = 1;

	x.x_nr = (size_t)share * N;
	while (cap < x.x_nr)
		cap *= 2;
	x.x_queue = static_cast<thread **>(
		native_map(cap * sizeof(thread *), false));
	x.x_mask  = cap - 1;
	for (int r = 0; r < share; r++) {
		thread *first = create(0);
		thread *last  = first;

		for (unsigned n = 1; n < N; n++)
			last = last->t_right = create(n);
		last->t_right = first;
	}
}

static inline bool empty();
static inline void put(thread *t);
static inline thread *get();

/* Runs coroutines until none can run. */
static void run()
{
	while (!empty())
		thread::handle::from_promise(*get()).resume();
}

static inline void wake(thread *t);

/* Coroutines learn from x_blocks that all were blocked before any went on. */
static void wake_blocked()
{
	for (thread *t = x.x_list; t != nullptr; t = t->t_right) {
		x.x_blocks += t->t_count < 0;
		wake(t);
	}
}

template <bool WIDE, bool COUNT> static task ring_thread(thread *self);
static task empty_thread(thread *self);
template <bool WIDE> static task blocked_thread(thread *self);

/*
 * The caller passes nullptr as self; the promise sets it. WIDE: D more bytes.
 */
static inline thread *create(unsigned turn)
{
	/* By enum bench_what, and WIDE. */
	static task (*const body[][2])(thread *) = {
		{ ring_thread<false, false>, ring_thread<true, false> },
		{ ring_thread<false, true>,  ring_thread<true, true> },
		{ empty_thread,              empty_thread },
		{ blocked_thread<false>,     blocked_thread<true> }
	};
	thread *t = body[bench.b_what][bench.b_d > 0](nullptr).t;

	t->t_turn = turn;
	put(t);
	return t;
}

static void touch(thread *self);
static bool touched(thread *self);

/*
 * A thread of a ring. A starter's wake comes at the end of the turn before.
 * Extra wakes stay in t_count until they are needed.
 */
template <bool WIDE, bool COUNT> static task ring_thread(thread *self)
{
	unsigned got = 0;

	if (WIDE)
		touch(self);
	if (self->t_turn == 0) {
		self->t_turn = N;
		wake(self->t_right);
	}
	while (got < M) {
		if constexpr (COUNT)
			co_await counted{self};
		else
			co_await *self;
		got++;
		if (self->t_turn != N)
			wake(self->t_right);
		if (--self->t_turn == 0) {
			self->t_turn = N;
			if (got < M)
				wake(self->t_right);
		}
	}
	x.x_got   += got;
	x.x_ended += self->t_count == 0 && (!WIDE || touched(self));
}

static task empty_thread(thread *)
{
	x.x_ended++;
	co_return;
}

template <bool WIDE> static task blocked_thread(thread *self)
{
	if (WIDE)
		touch(self);
	self->t_right = x.x_list;
	x.x_list      = self;
	co_await *self;
	x.x_ended += x.x_blocks == x.x_nr && (!WIDE || touched(self));
}

static inline void wake(thread *t)
{
	if (__builtin_expect(t->t_count++ < 0, true))
		put(t);
}

inline bool thread::await_ready()
{
	return __builtin_expect(--t_count >= 0, true);
}

inline std::coroutine_handle<> thread::await_suspend(handle)
{
	if (__builtin_expect(empty(), false))
		return std::noop_coroutine();	/* back to run() */
	return handle::from_promise(*get());
}

inline task thread::get_return_object()
{
	return { this };
}

inline std::coroutine_handle<> counted::await_suspend(handle h)
{
	x.x_blocks++;
	return c_thread->await_suspend(h);
}

/* All frames of an executor have the same size, found with the first frame. */
void *thread::operator new(size_t size)
{
	size_t all = below + ((size + ALIGN - 1) & -ALIGN);
	char  *p   = x.x_arena;

	if (p == nullptr)
		p = static_cast<char *>(native_map(x.x_nr * all, false));
	x.x_arena = p + all;
	return p + below;
}

volatile char *thread::pad()
{
	return static_cast<char *>(handle::from_promise(*this).address()) -
		below;
}

static void touch(thread *self)
{
	for (int i = 0; i < bench.b_d; i += LINE)
		self->pad()[i] = 1;
}

static bool touched(thread *self)
{
	for (int i = 0; i < bench.b_d; i += LINE)
		if (self->pad()[i] != 1)
			return false;
	return true;
}

#ifdef LIFO
static inline void put(thread *t)
{
	x.x_queue[x.x_tail++] = t;
}

static inline bool empty()
{
	return x.x_tail == 0;
}

static inline thread *get()
{
	return x.x_queue[--x.x_tail];
}
#else
static inline void put(thread *t)
{
	x.x_queue[x.x_tail++ & x.x_mask] = t;
}

static inline bool empty()
{
	return x.x_head == x.x_tail;
}

/* The pointer that is prefetched may be stale or nullptr: that does no harm. */
static inline thread *get()
{
	__builtin_prefetch(x.x_queue[(x.x_head + AHEAD) & x.x_mask], 1);
	return x.x_queue[x.x_head++ & x.x_mask];
}
#endif
