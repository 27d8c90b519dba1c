/* SPDX-License-Identifier: MIT */
/* fork.cpp: forks and joins on hand-written C++20 coroutines, a yardstick. */

/*
 * fork.h says what is asked. All that a library would add is left out: this
 * shows what the language can do, not what people run.
 *
 *   - The promise is the thread. It has a count of children, and pointers to
 *     its parent and to the place of its result, in the parent's frame, which
 *     does not move.
 *   - A new thread goes to the newest end of the deque of its native thread,
 *     which runs the newest first. A native thread without work steals the
 *     oldest thread of another, chosen in turn. The deque is that of Chase and
 *     Lev (Dynamic circular work-stealing deque, SPAA 2005), with the orders of
 *     Lê, Pop, Cohen and Zappa Nardelli (PPoPP 2013, figure 1), but does not
 *     grow: it has the largest size needed, and an overflow ends the program.
 *   - A thread that ends, or waits, jumps to the thread that runs next
 *     (symmetric transfer): a parent whose last child has ended, else the
 *     newest thread.
 *   - The count of children includes one for the parent, which takes that off
 *     when it is suspended. The thread that makes the count 0 runs the parent.
 *   - With P = 1 there is no atomic operation, for the price of a branch that
 *     is predicted.
 *   - Frames come from a list for each size on each native thread, and go to
 *     the list of the native thread on which they end. They are never freed.
 *   - Native threads without work spin, and offer the processor now and then.
 *     They do not sleep: that is what a library would add first.
 */
#include <coroutine>
#include <atomic>

#include "../native.h"
#include "../../fork.h"

enum {
	ALIGN   = 16,		/* of a frame, as operator new promises */
	CLASSES = 64,		/* of sizes of frames, in steps of ALIGN */
	CHUNK   = 1 << 20,	/* bytes asked for at once */
	PLACES  = 1 << 16,	/* in a deque: levels times children, or more */
	SPINS   = 64		/* looks before the processor is offered */
};

struct thread;
using handle = std::coroutine_handle<thread>;

struct task {
	using promise_type = thread;
	thread *t;
};

static handle next();
static bool last(thread *parent);

/*
 * The parameters of each coroutine are self, out, and any others. When a
 * coroutine is called, self is the parent; in its body, self is the thread
 * itself.
 */
struct thread {
	std::atomic<int> t_left;	/* children, and 1 */
	thread          *t_parent;	/* nullptr: the root */
	long            *t_out;		/* in its parent's frame, or nullptr */

	template <class... Args> thread(thread *&self, long *out, Args &...)
		: t_parent(self), t_out(out) { self = this; }

	static void *operator new(size_t size);
	static void operator delete(void *p, size_t size);

	/* Suspends the thread forever. */
	struct end {
		bool await_ready() noexcept { return false; }
		handle await_suspend(handle h) noexcept;
		void await_resume() noexcept {}
	};

	task get_return_object() { return { this }; }
	std::suspend_always initial_suspend() noexcept { return {}; }
	end final_suspend() noexcept { return {}; }
	void return_value(long result) { if (t_out) *t_out = result; }
	void unhandled_exception() noexcept { abort(); }

	/* Announces nr children. */
	void expect(int nr)
	{
		t_left.store(nr + 1, std::memory_order_relaxed);
	}

	/* co_await *self waits for them. Pairs with the release in last(). */
	bool await_ready()
	{
		return t_left.load(std::memory_order_acquire) == 1;
	}
	handle await_suspend(handle h) { return last(this) ? h : next(); }
	void await_resume() {}
};

/* A free frame. */
struct spare {
	spare *next;
};

/* Data of a native thread. Fields of thieves have cache lines of their own. */
struct worker {
	alignas(64) std::atomic<long> k_oldest;
	alignas(64) std::atomic<long> k_newest;	/* the place after the newest */
	std::atomic<thread *>        *k_place;
	int                           k_victim;
	spare                        *k_spare[CLASSES];
	char                         *k_chunk;
	char                         *k_chunk_end;
};

static struct fork_ask ask;
static worker *workers;
static thread_local constinit worker *me = nullptr;
static bool alone;		/* P is 1 */
static long places;		/* places of a deque, a power of two */
static long result;
static double seconds;

/* The root has ended. */
alignas(64) static std::atomic<bool> over;

/*
 * Threads that can be taken are between the two ends. The owner takes the
 * newest. If that is also the oldest, the owner races for it with the thieves.
 */
static inline void put(thread *t)
{
	long newest = me->k_newest.load(std::memory_order_relaxed);

	if (newest - me->k_oldest.load(std::memory_order_acquire) >= places)
		bench_die(&bench, "the deque", EOVERFLOW);
	me->k_place[newest & (places - 1)].store(t, std::memory_order_relaxed);
	me->k_newest.store(newest + 1, std::memory_order_release);
}

static inline thread *take()
{
	long newest = me->k_newest.load(std::memory_order_relaxed) - 1;
	long oldest;
	thread *t;

	me->k_newest.store(newest, std::memory_order_relaxed);
	if (!alone)
		std::atomic_thread_fence(std::memory_order_seq_cst);
	oldest = me->k_oldest.load(std::memory_order_relaxed);
	t = oldest > newest ? nullptr :
		me->k_place[newest & (places - 1)].load(
			std::memory_order_relaxed);
	if (oldest < newest || (alone && oldest == newest))
		return t;
	if (t && !me->k_oldest.compare_exchange_strong(
		    oldest, oldest + 1, std::memory_order_seq_cst,
		    std::memory_order_relaxed))
		t = nullptr;
	me->k_newest.store(newest + 1, std::memory_order_relaxed);
	return t;
}

static thread *steal(worker *victim)
{
	long oldest = victim->k_oldest.load(std::memory_order_acquire);
	long newest;
	thread *t;

	std::atomic_thread_fence(std::memory_order_seq_cst);
	/* Pairs with the release in put(). */
	newest = victim->k_newest.load(std::memory_order_acquire);
	if (oldest >= newest)
		return nullptr;
	t = victim->k_place[oldest & (places - 1)].load(
		std::memory_order_relaxed);
	if (!victim->k_oldest.compare_exchange_strong(
		    oldest, oldest + 1, std::memory_order_seq_cst,
		    std::memory_order_relaxed))
		return nullptr;
	return t;
}

static inline handle next()
{
	thread *t = take();

	/* noop: back to run(). */
	return t ? handle::from_promise(*t) :
		handle::from_address(std::noop_coroutine().address());
}

/*
 * Counts off a child that has ended, or the suspended parent. True: none is
 * left.
 */
static inline bool last(thread *parent)
{
	int left;

	if (!alone)
		return parent->t_left.fetch_sub(
			1, std::memory_order_acq_rel) == 1;
	left = parent->t_left.load(std::memory_order_relaxed) - 1;
	parent->t_left.store(left, std::memory_order_relaxed);
	return left == 0;
}

inline handle thread::end::await_suspend(handle h) noexcept
{
	thread *parent = h.promise().t_parent;

	h.destroy();
	if (parent == nullptr)
		over.store(true, std::memory_order_release);
	else if (last(parent))
		return handle::from_promise(*parent);
	return next();
}

static char *carve(size_t size)
{
	char *p;

	if ((size_t)(me->k_chunk_end - me->k_chunk) < size) {
		me->k_chunk     = (char *)native_map(CHUNK, false);
		me->k_chunk_end = me->k_chunk + CHUNK;
	}
	p = me->k_chunk;
	me->k_chunk += size;
	return p;
}

inline void *thread::operator new(size_t size)
{
	size_t n = (size + ALIGN - 1) / ALIGN;
	spare *p;

	if (n >= CLASSES)
		abort();	/* the compiler has chosen it */
	p = me->k_spare[n];
	if (p == nullptr)
		return carve(n * ALIGN);
	me->k_spare[n] = p->next;
	return p;
}

inline void thread::operator delete(void *p, size_t size)
{
	spare **head = &me->k_spare[(size + ALIGN - 1) / ALIGN];
	spare  *s    = static_cast<spare *>(p);

	s->next = *head;
	*head   = s;
}

static inline void spawn(task made)
{
	put(made.t);
}

static task empty(thread *, long *)
{
	co_return 0;
}

static task empties(thread *self, long *)
{
	long ended = 0;

	for (int left = ask.fk_n; left > 0; left -= ask.fk_batch) {
		int batch = left < ask.fk_batch ? left : ask.fk_batch;

		self->expect(batch);
		for (int i = 0; i < batch; i++)
			spawn(empty(self, nullptr));
		co_await *self;
		ended += batch;
	}
	co_return ended;
}

static task fib(thread *self, long *, int n)
{
	int  cut = ask.fk_cut;
	int  nr  = n < 2 ? 0 : (n - 1 >= cut) + (n - 2 >= cut);
	long one;
	long two;

	if (nr == 0)
		co_return fork_fib(n);
	self->expect(nr);
	spawn(fib(self, &one, n - 1));
	if (nr == 2)
		spawn(fib(self, &two, n - 2));
	else
		two = fork_fib(n - 2);
	co_await *self;
	co_return one + two;
}

static long sum(const long *found, int nr)
{
	long sum = 0;

	for (int i = 0; i < nr; i++)
		sum += found[i];
	return sum;
}

static task queens(thread *self, long *, fork_board b, int row)
{
	long found[FORK_QUEENS_MAX];
	int  nr = __builtin_popcount(b.fb_free);
	int  i  = 0;

	if (row == ask.fk_cut || nr == 0)
		co_return fork_queens(b, ask.fk_n, row);
	self->expect(nr);
	for (unsigned left = b.fb_free; left != 0; left &= left - 1)
		spawn(queens(self, &found[i++],
			     fork_place(b, ask.fk_n, left & -left), row + 1));
	co_await *self;
	co_return sum(found, nr);
}

/* Passed by value, a hash is in the frame. */
struct hash {
	uint32_t word[FORK_HASH];
};

/* The hash of the parent is in its frame. */
static task uts(thread *self, long *, const hash *parent, int i, int depth)
{
	hash own = *parent;
	int  nr;
	long all;

	if (depth > 0)
		fork_uts_child(own.word, parent->word, i);
	if (depth == ask.fk_cut)
		co_return fork_uts(own.word, depth);
	nr = fork_uts_fan(own.word, depth);
	if (nr == 0)
		co_return 1;
	long *found = new long[nr];
	self->expect(nr);
	for (i = 0; i < nr; i++)
		spawn(uts(self, &found[i], &own, i, depth + 1));
	co_await *self;
	all = 1 + sum(found, nr);
	delete[] found;
	co_return all;
}

static task skynet(thread *self, long *, int first, int size)
{
	long found[FORK_SKY_FAN];

	if (size == 1)
		co_return first;
	size /= FORK_SKY_FAN;
	self->expect(FORK_SKY_FAN);
	for (int i = 0; i < FORK_SKY_FAN; i++)
		spawn(skynet(self, &found[i], first + i * size, size));
	co_await *self;
	co_return sum(found, FORK_SKY_FAN);
}

static hash uts_root;

static task root()
{
	switch (ask.fk_what) {
	case FORK_FIB:
		return fib(nullptr, &result, ask.fk_n);
	case FORK_QUEENS:
		return queens(nullptr, &result, fork_no_queens(ask.fk_n), 0);
	case FORK_UTS:
		fork_uts_root(ask.fk_tree, uts_root.word);
		return uts(nullptr, &result, &uts_root, 0, 0);
	case FORK_SKYNET:
		return skynet(nullptr, &result, 0, FORK_SKY_LEAVES);
	default:
		return empties(nullptr, &result);
	}
}

/* Returns the oldest thread of the next native thread, if that has any. */
static thread *look()
{
	int p = ask.fk_bench.b_p;

	me->k_victim = (me->k_victim + 1) % p;
	return workers + me->k_victim == me ? nullptr :
		steal(workers + me->k_victim);
}

/* Runs threads until the root has ended. */
static void run()
{
	int idle = 0;

	while (!over.load(std::memory_order_acquire)) {
		thread *t = take();

		if (t == nullptr && !alone)
			t = look();
		if (t != nullptr) {
			idle = 0;
			handle::from_promise(*t).resume();
		} else if (++idle % SPINS == 0) {
			sched_yield();
		}
	}
}

/* The work of native thread w. */
static void work(struct native *w)
{
	me = &workers[w->w_id];
	me->k_place = static_cast<std::atomic<thread *> *>(
		native_map(places * sizeof me->k_place[0], false));
	me->k_victim = w->w_id;
	native_together();
	if (w->w_id == 0) {
		double start = bench_now();

		spawn(root());
		run();
		seconds = bench_now() - start;
	} else {
		run();
	}
}

int main(int argc, char **argv)
{
	int rc = fork_args(&ask, argc, argv);

	if (rc != 0)
		return rc;
	if (fork_plain(&ask))
		return fork_run_plain(&ask);
	bench = ask.fk_bench;
	alone = bench.b_p == 1;
	for (places = PLACES; places < ask.fk_batch; places *= 2)
		;
	workers = new worker[bench.b_p]();
	native_run(work);
	return fork_report(&ask, result, seconds);
}
