/*
 * SPDX-License-Identifier: MIT
 *
 * coro.cpp: the ring ping-pong on hand-written C++20 coroutines, a yardstick.
 *
 * What is measured. R rings of N threads, M rounds. In round i the thread with
 * index i mod N is the starter: it wakes its right neighbour, then waits. Every
 * other thread waits, then wakes its right neighbour. N*R*M messages in all. A
 * wake before its wait is kept, and n wakes let n waits through, so a thread
 * suspends only when its count is short. The time goes from the moment when all
 * coroutines exist to the moment when all have ended.
 *
 * How. Everything that a library would add is left out: this is what the
 * language can do, not what people run.
 *
 *   - The promise is the thread, and its own awaiter. What a switch needs lies
 *     in the coroutine's frame, 64 bytes with gcc, 48 with clang, 8 more in the
 *     run queue. Frames come from one mapping and are never freed.
 *   - The run queue is an array of pointers, as large as the number of threads,
 *     rounded up to a power of two: it cannot overflow, a thread is in it once.
 *     By default first in, first out, so that all take turns (cold). With
 *     -DLIFO the thread woken last runs first (hot): that measures one ring
 *     after the other.
 *   - A thread that suspends picks the next one and jumps to it (symmetric
 *     transfer). A resume loop comes out the same within a tenth, at times
 *     better and at times worse.
 *   - The queue knows who runs next: the frame AHEAD places further is
 *     prefetched. With a million threads that is half as much again to twice
 *     as fast. 8 places ahead do little, 32 to 128 are alike.
 *   - The role of a thread is kept by counting down, not by a division, and the
 *     loop has a single suspension point, so that a resumed coroutine does not
 *     have to find out where it was.
 *
 * D bytes more of frame are laid before the frame, in one block with it, and
 * each line of them is touched at the start and looked at in the end.
 *
 * With P > 1 there are P native threads, each with an executor of its own,
 * pinned to the processors that the process may use; ring r lives on native
 * thread r mod P. With P = 1 nothing is pinned.
 */
#include <cerrno>
#include <climits>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

enum {
	AHEAD = 64,	/* places of the queue between prefetch and use */
	ALIGN = 16,	/* of a frame, what operator new promises */
	LINE  = 64	/* step with which the D bytes are touched */
};

struct task;

/* A thread: the promise of its coroutine, found in the coroutine's frame. */
struct thread {
	using handle = std::coroutine_handle<thread>;

	thread  *t_right;	/* neighbour */
	int      t_count;	/* wakes less waits; < 0: it is suspended */
	unsigned t_turn;	/* rounds until it starts one, N: it has */

	/* Sees the coroutine's parameter: that is how it learns its address. */
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

struct task {
	using promise_type = thread;
	thread *t;
};

/* An executor: all that a native thread needs while it runs coroutines. */
struct exec {
	thread **x_queue;
	unsigned x_head;	/* not used by LIFO */
	unsigned x_tail;
	unsigned x_mask;	/* size of the queue less one */
	size_t   x_nr;		/* coroutines to be made here */
	char    *x_arena;	/* the next frame goes here */
	size_t   x_ended;	/* coroutines that ended in order */
	uint64_t x_got;		/* messages received */
};

/* A native thread, and what it leaves for the main one to collect. */
struct proc {
	pthread_t p_tid;
	unsigned  p_id;
	double    p_start;
	double    p_end;
	size_t    p_ended;
	uint64_t  p_got;
};

static unsigned N, R, M, D, P;
static size_t below;	/* D rounded up to ALIGN: lies below the frame */
static thread_local constinit exec x{};
static pthread_barrier_t gate;
static cpu_set_t allowed;

static bool args(int argc, char **argv);
static int check(proc *p);
static void *proc_main(void *arg);
static void die(const char *what);

int main(int argc, char **argv)
{
	if (!args(argc, argv)) {
		fprintf(stderr, "usage: %s N R M D P\n"
			"rings of N threads, R of them, M rounds, D bytes more "
			"in each frame, P native threads:\ndecimal integers, "
			"N, R, M, P >= 1, D >= 0, N*R <= %d\n",
			argv[0], INT_MAX);
		return 2;
	}
	below = ((size_t)D + ALIGN - 1) & -ALIGN;
	proc *p = static_cast<proc *>(calloc(P, sizeof *p));
	if (p == nullptr || pthread_barrier_init(&gate, nullptr, P) != 0 ||
	    sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		die("cannot set up");
	for (unsigned i = 0; i < P; i++)
		p[i].p_id = i;
	for (unsigned i = 1; i < P; i++)
		if (pthread_create(&p[i].p_tid, nullptr, proc_main, &p[i]) != 0)
			die("cannot start a native thread");
	proc_main(&p[0]);
	for (unsigned i = 1; i < P; i++)
		if (pthread_join(p[i].p_tid, nullptr) != 0)
			die("cannot join a native thread");
	int rc = check(p);
	free(p);
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
	fprintf(stderr, "coro: %s\n", what);
	exit(1);
}

/* All native threads are through: were all messages received, in what time? */
static int check(proc *p)
{
	size_t   ended = 0;
	uint64_t got   = 0;
	double   start = p[0].p_start;
	double   end   = p[0].p_end;

	for (unsigned i = 0; i < P; i++) {
		ended += p[i].p_ended;
		got   += p[i].p_got;
		start  = p[i].p_start < start ? p[i].p_start : start;
		end    = p[i].p_end > end ? p[i].p_end : end;
	}
	if (ended != (size_t)N * R || got != (uint64_t)N * R * M) {
		fprintf(stderr, "coro: %zu of %zu threads ended, %ju of %ju "
			"messages received\n", ended, (size_t)N * R,
			(uintmax_t)got, (uintmax_t)N * R * M);
		return 1;
	}
	printf("%f\n", end - start);
	return 0;
}

static void pin(unsigned id);
static void rings(unsigned id);
static double now();
static inline bool empty();
static inline thread *get();

static void *proc_main(void *arg)
{
	proc *p = static_cast<proc *>(arg);

	if (P > 1)
		pin(p->p_id);
	rings(p->p_id);
	pthread_barrier_wait(&gate);
	p->p_start = now();
	while (!empty())
		thread::handle::from_promise(*get()).resume();
	p->p_end   = now();
	p->p_ended = x.x_ended;
	p->p_got   = x.x_got;
	return nullptr;
}

static double now()
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
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("out of memory");
	return p;
}

static inline thread *create();
static inline void put(thread *t);

/* Makes the rings of native thread id, all coroutines runnable. */
static void rings(unsigned id)
{
	size_t cap = 1;

	x.x_nr = (size_t)(R / P + (id < R % P)) * N;
	while (cap < x.x_nr)
		cap *= 2;
	x.x_queue = static_cast<thread **>(map(cap * sizeof(thread *)));
	x.x_mask  = cap - 1;
	for (size_t i = 0; i < x.x_nr; i += N) {
		thread *first = create();
		thread *last  = first;

		first->t_turn = 0;
		put(first);
		for (unsigned n = 1; n < N; n++) {
			last = last->t_right = create();
			last->t_turn = n;
			put(last);
		}
		last->t_right = first;
	}
}

template <bool WIDE> static task ring_thread(thread *self);

static inline thread *create()
{
	return D > 0 ? ring_thread<true>(nullptr).t :
		ring_thread<false>(nullptr).t;
}

static inline void wake(thread *t);
static void touch(thread *self);
static bool touched(thread *self);

/*
 * The thread. self is given as nullptr, the promise sets it. A starter's wake
 * stands at the end of the turn before. Wakes that came in excess stay in
 * t_count, and are found there. WIDE: there are D bytes more.
 */
template <bool WIDE> static task ring_thread(thread *self)
{
	unsigned got = 0;

	if (WIDE)
		touch(self);
	if (self->t_turn == 0) {
		self->t_turn = N;
		wake(self->t_right);
	}
	while (got < M) {
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
		return std::noop_coroutine();	/* back to proc_main() */
	return handle::from_promise(*get());
}

inline task thread::get_return_object()
{
	return { this };
}

/* All frames of an executor are of one size: the first shows which. */
void *thread::operator new(size_t size)
{
	size_t all = below + ((size + ALIGN - 1) & -ALIGN);
	char  *p   = x.x_arena;

	if (p == nullptr)
		p = static_cast<char *>(map(x.x_nr * all));
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
	for (size_t i = 0; i < D; i += LINE)
		self->pad()[i] = 1;
}

static bool touched(thread *self)
{
	for (size_t i = 0; i < D; i += LINE)
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

/* What is prefetched may be stale or nullptr: that does no harm. */
static inline thread *get()
{
	__builtin_prefetch(x.x_queue[(x.x_head + AHEAD) & x.x_mask], 1);
	return x.x_queue[x.x_head++ & x.x_mask];
}
#endif
