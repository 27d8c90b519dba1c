/* SPDX-License-Identifier: MIT */
/* cxx_std: what the standard library of C++ does in threads, as the guide says. */

/*
 * Without the pthread face. Exceptions go through frames that have waited, also in
 * threads that run elsewhere since (WS), with what they hold, nested and rethrown.
 * An exception_ptr goes to another thread, which throws it again. std::mutex,
 * std::call_once and std::atomic work among threads of all processors, if their
 * holder does not wait. If it does, another thread of the processor stops it. A
 * thread_local variable is that of the native thread: threads of a processor share
 * it, and a thread that goes elsewhere finds another. cxx.sh builds it.
 */

#include "either.h"
#include "uchan.h"
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#define NR	40
#define ROUNDS	25

using namespace std::chrono_literals;

static long caught, passed, under;
static std::atomic<long> objects;

struct held {
	std::string h_text;

	explicit held(int nr) : h_text(std::to_string(nr) + std::string(40, '.'))
	{
		objects++;
	}
	~held() { objects--; }
};

/* Exceptions. */

/* Waits at each depth, and throws from the last. */
static NOINLINE void descends(int nr, int depth)
{
	held h(nr + depth);

	yield();
	if (depth == 0)
		throw std::out_of_range(std::to_string(nr));
	descends(nr, depth - 1);
	CHECK(!"it was thrown over this frame");
}

static NOINLINE void wraps(int nr)
{
	try {
		descends(nr, 6);
	} catch (...) {
		std::throw_with_nested(std::runtime_error("outer"));
	}
}

static void unwraps(int nr)
{
	std::exception_ptr kept;

	try {
		wraps(nr);
	} catch (const std::runtime_error &e) {
		CHECK_STR(e.what(), "outer");
		kept = std::current_exception();
	}
	yield();				/* out of the handler */
	try {
		std::rethrow_exception(kept);
	} catch (const std::runtime_error &e) {
		try {
			std::rethrow_if_nested(e);
			CHECK(!"nothing is nested");
		} catch (const std::out_of_range &inner) {
			CHECK(std::to_string(nr) == inner.what());
			add(&caught, 1);
		}
	}
}

static void throws(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		unwraps((int)(intptr_t)arg * 1000 + i);
}

/* An exception for another thread. */

static struct uchan *chan;

static void sends(void *)
{
	for (int i = 0; i < NR; i++) {
		auto *e = new std::exception_ptr;

		try {
			descends(i, 2);
		} catch (...) {
			*e = std::current_exception();
		}
		CHECK(uchan_send(chan, &e, UNEVER) == 0);
	}
	uchan_close(chan);
}

static void receives(void *)
{
	std::exception_ptr *e;

	for (int i = 0; uchan_recv(chan, &e, UNEVER) == 0; i++) {
		std::unique_ptr<std::exception_ptr> owner(e);

		try {
			yield();
			std::rethrow_exception(*e);
		} catch (const std::out_of_range &o) {
			CHECK(std::to_string(i) == o.what());
			add(&passed, 1);
		}
	}
}

/* Locks, whose holder does not wait. */

static std::mutex lock;
static std::once_flag once;
static long onces, sum;			/* sum: under lock */

static void counts(void *)
{
	std::call_once(once, [] { onces++; });
	CHECK(onces == 1);
	for (int i = 0; i < ROUNDS; i++) {
		{
			std::lock_guard<std::mutex> l(lock);
			sum++;
		}
		yield();
	}
}

/* A lock whose holder waits. Only a deadline ends the other's wait for it. */

static std::timed_mutex waited;

static void holds(void *)
{
	std::lock_guard<std::timed_mutex> l(waited);

	add(&under, 1);
	yield();
	add(&under, 1);
}

static void wants(void *)
{
	while (get(&under) == 0)
		yield();
	CHECK(get(&under) == 1 && !waited.try_lock_for(50ms));
}

/* thread_local. */

static thread_local int local;

static NOINLINE int *local_now()
{
	int *at = &local;

	__asm__ volatile("" : "+r"(at) : : "memory");
	return at;
}

static long written;

static void writes(void *)
{
	*local_now() = 2;
	add(&written, 1);
}

static void shares(void *)
{
	*local_now() = 1;
	make_pinned(0, writes, NULL);
	while (get(&written) == 0)
		yield();
	CHECK(*local_now() == 2);		/* the other's */
}

#if defined(WS)

static long moved;

static void computes(void *)
{
	while (!get(&moved))
		check_yield();
}

/* Its worker is kept busy until it runs elsewhere. */
static NOINLINE void goes()
{
	int proc = ws_proc(), *at = local_now();
	held h(proc);

	*at = 3;
	CHECK(ws_thread_pinned(proc, computes, NULL) != NULL);
	while (ws_proc() == proc)
		yield();
	CHECK(local_now() != at && *local_now() != 3);
	set(&moved, 1);
	throw std::out_of_range("elsewhere");
}

static void moves(void *)
{
	try {
		goes();
		CHECK(!"it throws");
	} catch (const std::out_of_range &e) {
		CHECK_STR(e.what(), "elsewhere");
	}
}

static void moving()
{
	begin(2, 0);
	make(0, moves, NULL);
	start_and_finish();
}

#else

static void moving()
{
}

#endif

int main(int argc, char **argv)
{
	check_start(argc, argv);
	chan = uchan_make(sizeof(std::exception_ptr *), 2);
	CHECK(chan != NULL);
	begin(2, 0);
	for (int i = 0; i < NR; i++)
		make(i, throws, (void *)(intptr_t)i);
	for (int i = 0; i < NR; i++)
		make(i, counts, NULL);
	make(0, sends, NULL);
	make(1, receives, NULL);
	start_and_finish();
	uchan_free(chan);
	CHECK(get(&caught) == NR * ROUNDS && get(&passed) == NR);
	CHECK(sum == NR * ROUNDS && objects == 0);
	begin(1, 0);
	make(0, holds, NULL);
	make(0, wants, NULL);
	start_and_finish();
	begin(1, 0);
	make_pinned(0, shares, NULL);
	start_and_finish();
	moving();
	return 0;
}
