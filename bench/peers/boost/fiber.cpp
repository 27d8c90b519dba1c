/*
 * SPDX-License-Identifier: MIT
 *
 * fiber.cpp: the benchmark of bench.h on Boost.Fiber.
 *
 * A thread of the benchmark is a fiber, posted to the scheduler of the native
 * thread that makes it. The scheduler is the default, round_robin: first in,
 * first out. A wake is a push to the channel of the right neighbour, a wait is
 * a pop from the fiber's own channel.
 *
 * CHANNELS. The number of places of a buffered_channel is a power of two, and
 * one place stays free. Here it has room for N wakes, since never more are
 * under way to a thread in a ring. So no push blocks, and a wake before its
 * wait is kept, as required. (From N = WAKES on, some pushes block; otherwise a
 * long ring would need more memory than there is.) Alternatives that a user
 * would write, measured with Boost 1.74, in messages per second relative to
 * this:
 *
 *   N, R                                 2, 2   2, 100   8, 2   2, 100000
 *   buffered_channel with 2 places       0.43   0.43     0.42   0.61
 *   unbuffered_channel                   0.44   0.46     0.37   0.57
 *   mutex, condition_variable, a count   0.43   0.32     0.28   0.73
 *
 * In the first two the waker waits for the thread that it wakes. The third
 * keeps all wakes, and pays for two queues, and for locks in each.
 *
 * STACKS are of class fixedsize_stack, that is from malloc(), and have 16 KiB
 * and D. The default of 128 KiB is as fast for few fibers. With 200000 it had
 * 0.58 times the messages, and took a quarter more memory: malloc() maps each
 * stack separately, and writes a page of its own before it.
 * pooled_fixedsize_stack needs 1.5 times the memory, as it writes to each stack
 * when it gets it. With protected_fixedsize_stack there can be some 32,000
 * fibers, as guard pages are mappings. For malloc() the size is not a multiple
 * of the page, since its header is there, too; so the stacks are staggered
 * without our help.
 *
 * All symbols are bound when the program starts (-z now). Otherwise the first
 * call of a function from a fiber looks it up on the stack of the fiber, and
 * saves all vector registers there. With a stack of 8 KiB that alone was fatal
 * here.
 *
 * NATIVE THREADS: see native.h. A fiber stays on the native thread where it was
 * made. But Boost does not know that no other native thread wakes it, so its
 * locks and atomic operations remain; the Debian package is compiled that way.
 *
 * TIME. The last fiber to end takes the time. In EMPTY all fibers are made
 * before any runs, and they are detached: to join them took up to a fifth
 * longer. In the other forms they are joined, after the time was taken.
 *
 * BLOCKS are counted where try_push() or try_pop() fails, in a copy of the code
 * that the timed run does not use.
 *
 * BLOCKED. A fiber is counted right before it pops from its empty channel, and
 * nothing can come in between. So when the main fiber runs and finds all
 * counted, all have blocked.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <memory>
#include <new>
#include <vector>


#include <boost/fiber/all.hpp>

#include "../native.h"

namespace fibers = boost::fibers;

enum {
	STACK = 16 << 10,
	WAKES = 1024	/* places in the largest channel */
};

/* Returns the power of two above N: one place of a channel stays free. */
static size_t places()
{
	size_t nr = 2;

	while (nr <= (size_t)bench.b_n && nr < WAKES)
		nr *= 2;
	return nr;
}

struct thread {
	fibers::buffered_channel<int> t_channel{places()};
	thread                       *t_right;
	int                           t_turn;	/* rounds until it starts one */
};

/* Data of a native thread. */
struct share {
	using body = void (*)(share *, thread *);

	explicit share(native *w);
	fibers::fiber make(thread *me, body f);
	void make_all(body f);
	void join_all();

	bench_end                &s_end;
	long                      s_nr;		/* threads here */
	long                      s_blocked;	/* in BENCH_BLOCKED */
	std::unique_ptr<thread[]> s_threads;
	std::vector<fibers::fiber> s_fibers;
};

static void run(native *w);

int main(int argc, char **argv)
{
	int rc = bench_args(&bench, argc, argv);

	if (rc != 0)
		return rc;

	bench_end end = native_run(run);

	return bench_report(&bench, &end);
}

static void run_rings(share *s, share::body f);
static void run_empty(share *s);
static void run_blocked(share *s);

template <bool counted> static void ring_thread(share *s, thread *me);

/*
 * On each native thread. Without memory there may be fibers that have not run:
 * neither may they be destroyed, nor does exit() go past them, hence _exit().
 */
static void run(native *w)
{
	share s(w);

	try {
		if (bench.b_what == BENCH_EMPTY)
			run_empty(&s);
		else if (bench.b_what == BENCH_BLOCKED)
			run_blocked(&s);
		else if (bench.b_what == BENCH_BLOCKS)
			run_rings(&s, ring_thread<true>);
		else
			run_rings(&s, ring_thread<false>);
	} catch (const std::bad_alloc &) {
		bench_die(&bench, "making the threads", ENOMEM);
	}
}

share::share(native *w) : s_end(w->w_end), s_blocked(0)
{
	s_nr = (long)bench.b_n * bench_share(&bench, bench.b_r, w->w_id);
}

static void thread_run(share *s, thread *me, share::body f);

fibers::fiber share::make(thread *me, body f)
{
	fibers::fixedsize_stack stack(STACK + (size_t)bench.b_d);

	return fibers::fiber(fibers::launch::post, std::allocator_arg, stack,
			     thread_run, this, me, f);
}

void share::make_all(body f)
{
	s_threads.reset(new thread[s_nr]);
	s_fibers.reserve(s_nr);
	for (long i = 0; i < s_nr; i++) {
		thread *me = &s_threads[i];

		me->t_turn  = i % bench.b_n;
		me->t_right = me->t_turn == bench.b_n - 1 ?
			me - me->t_turn : me + 1;
		s_fibers.push_back(make(me, f));
	}
}

void share::join_all()
{
	for (fibers::fiber &f : s_fibers)
		f.join();
}

static void run_rings(share *s, share::body f)
{
	s->make_all(f);
	native_together();
	s->s_end.e_start = bench_now();
	s->join_all();
}

static void empty_thread(share *, thread *)
{
}

static void run_empty(share *s)
{
	native_together();
	s->s_end.e_start = bench_now();
	for (long i = 0; i < s->s_nr; i++)
		s->make(nullptr, empty_thread).detach();
	while (s->s_end.e_ended < s->s_nr)
		boost::this_fiber::yield();
}

template <bool counted> static void wake(share *s, thread *t);
template <bool counted> static void wait(share *s, thread *me);

static void blocked_thread(share *s, thread *me)
{
	s->s_blocked++;
	wait<false>(s, me);
}

static void run_blocked(share *s)
{
	s->make_all(blocked_thread);
	while (s->s_blocked < s->s_nr)
		boost::this_fiber::yield();
	native_together();
	for (long i = 0; i < s->s_nr; i++)
		wake<false>(s, &s->s_threads[i]);
	s->join_all();
}

/* Calls f with D more bytes on the stack. True: they have kept their value. */
__attribute__((noinline))
static bool deep(share *s, thread *me, share::body f)
{
	volatile char *space = (volatile char *)__builtin_alloca(bench.b_d);

	memset((char *)space, 'D', bench.b_d);
	f(s, me);
	return space[0] == 'D' && space[bench.b_d - 1] == 'D';
}

/* The outermost function of a thread. The last thread to end takes the time. */
static void thread_run(share *s, thread *me, share::body f)
{
	bool in_order = true;

	if (bench.b_d > 0)
		in_order = deep(s, me, f);
	else
		f(s, me);
	s->s_end.e_ended += in_order;
	if (s->s_end.e_ended == s->s_nr)
		s->s_end.e_end = bench_now();
}

template <bool counted> static void wake(share *s, thread *t)
{
	using fibers::channel_op_status;

	if (counted) {
		if (t->t_channel.try_push(1) == channel_op_status::success)
			return;
		s->s_end.e_blocks++;
	}
	t->t_channel.push(1);
}

template <bool counted> static void wait(share *s, thread *me)
{
	using fibers::channel_op_status;
	int message;

	if (counted) {
		if (me->t_channel.try_pop(message) ==
		    channel_op_status::success)
			return;
		s->s_end.e_blocks++;
	}
	me->t_channel.pop(message);
}

/*
 * t_turn counts down to the round that the thread starts. There is one wait.
 */
template <bool counted> static void ring_thread(share *s, thread *me)
{
	int turn = me->t_turn;

	for (int left = bench.b_m; left > 0; left--, turn--) {
		bool starts = turn == 0;

		if (starts) {
			wake<counted>(s, me->t_right);
			turn = bench.b_n;
		}
		wait<counted>(s, me);
		if (!starts)
			wake<counted>(s, me->t_right);
	}
	s->s_end.e_received += bench.b_m;
}
