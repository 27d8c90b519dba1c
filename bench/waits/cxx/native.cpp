/* SPDX-License-Identifier: MIT */
/* native.cpp: locks, and channels with P > 1: native threads. */

#include "cxx.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Runs nr threads, each with its share of N, and prints the time. */
template <class F> static void each(int nr, F f)
{
	std::vector<std::thread> all;
	int64_t start = waits_now();

	for (int i = 0; i < nr; i++)
		all.emplace_back(f, i, waits_share(waits.w_n, nr, i));
	for (std::thread &t : all)
		t.join();
	waits_took(start);
}

/* A queue with room, as in every textbook. */
class channel {
	std::mutex m;
	std::condition_variable some, space;
	std::deque<uint64_t> queue;
	size_t room;
public:
	explicit channel(size_t room) : room(room) {}

	void send(uint64_t v)
	{
		std::unique_lock l(m);

		space.wait(l, [this] { return queue.size() < room; });
		queue.push_back(v);
		some.notify_one();
	}
	uint64_t recv()
	{
		std::unique_lock l(m);

		some.wait(l, [this] { return !queue.empty(); });
		uint64_t v = queue.front();
		queue.pop_front();
		space.notify_one();
		return v;
	}
};

void native_sync()
{
	channel there(1), back(1);

	each(2, [&](int id, long) {
		for (long n = waits.w_n / 2; n > 0; n--) {
			if (id == 0) {
				there.send(0);
				back.recv();
			} else {
				there.recv();
				back.send(0);
			}
		}
	});
}

/* A word for each way, alone on its lines, and each spins on the other's. */
void native_flag()
{
	struct alignas(128) {
		std::atomic<long> nr{0};
	} sent[2];

	each(2, [&](int id, long) {
		for (long i = 1; i <= waits.w_n / 2; i++) {
			if (id == 0)
				sent[0].nr.store(i, std::memory_order_release);
			while (sent[!id].nr.load(std::memory_order_acquire) != i)
				;
			if (id == 1)
				sent[1].nr.store(i, std::memory_order_release);
		}
	});
}

/*
 * Messages to and fro, each with the time at which it was sent. Who has received
 * computes before it sends.
 */
template <class Send, class Recv> static void asleep(Send send, Recv recv)
{
	int64_t late[2] = {};

	auto run = [&](int id) {
		for (long n = waits.w_n / 2; n > 0; n--) {
			if (id == 0) {
				waits_compute(waits.w_m);
				send(id, waits_now());
			}
			late[id] -= recv(id);
			late[id] += waits_now();
			if (id == 1) {
				waits_compute(waits.w_m);
				send(id, waits_now());
			}
		}
	};
	std::thread first(run, 0), second(run, 1);
	first.join();
	second.join();
	waits_say("", (double)(late[0] + late[1]) / (waits.w_n / 2 * 2));
}

void native_asleep()
{
	channel way[2] = { channel(1), channel(1) };

	asleep([&](int id, int64_t v) { way[id].send(v); },
	       [&](int id) { return (int64_t)way[!id].recv(); });
}

void native_futex()
{
	struct alignas(128) {
		std::atomic<int> full{0};
		int64_t sent;
	} word[2];

	auto call = [](std::atomic<int> &at, int op, int value) {
		syscall(SYS_futex, &at, op, value, NULL, NULL, 0);
	};
	asleep([&](int id, int64_t v) {
		word[id].sent = v;
		word[id].full.store(1);
		call(word[id].full, FUTEX_WAKE_PRIVATE, 1);
	}, [&](int id) {
		while (word[!id].full.load() == 0)
			call(word[!id].full, FUTEX_WAIT_PRIVATE, 0);
		word[!id].full.store(0);
		return word[!id].sent;
	});
}

void native_buffer()
{
	channel c(waits.w_m > 0 ? waits.w_m : 1);

	each(2 * waits.w_p, [&](int id, long) {
		long n = waits_share(waits.w_n, waits.w_p, id / 2);

		for (; n > 0; n--) {
			if (id % 2 == 0)
				c.send(n);
			else
				c.recv();
		}
	});
}

/* Lets the compiler not believe that nothing was done. */
static void locked()
{
	__asm__ volatile("" : : : "memory");
}

void mutex_own()
{
	each(waits.w_p, [](int, long n) {
		alignas(128) std::mutex m;

		for (; n > 0; n--) {
			m.lock();
			locked();
			m.unlock();
		}
	});
}

static void lock_and_unlock(int nr)
{
	std::mutex m;

	each(nr, [&](int, long n) {
		for (; n > 0; n--) {
			m.lock();
			locked();
			m.unlock();
		}
	});
}

void mutex()
{
	lock_and_unlock(waits.w_p);
}

void mutex_slack()
{
	lock_and_unlock(WAITS_SLACK * waits.w_p);
}

void mutex_work()
{
	std::mutex m;

	each(waits.w_p, [&](int id, long n) {
		uint64_t x = id;

		for (; n > 0; n--) {
			m.lock();
			locked();
			m.unlock();
			x = waits_work(x);
		}
		waits_worked(x);
	});
}

void mutex_hold()
{
	int nr = WAITS_SLACK * waits.w_p;
	std::vector<long> got(nr);
	long left = waits.w_n;
	std::mutex m;

	each(nr, [&](int id, long) {
		for (bool more = true; more;) {
			std::lock_guard l(m);

			std::this_thread::yield();
			more = left > 0;
			left -= more;
			got[id] += more;
		}
	});
	waits_shares(got.data(), nr);
}

void skew()
{
	std::mutex m;
	std::atomic<bool> done = false;
	long held = 0;
	auto hold = std::chrono::nanoseconds(WAITS_HOLD);
	std::thread first([&] {
		while (!done.load(std::memory_order_relaxed)) {
			std::lock_guard l(m);

			std::this_thread::sleep_for(hold);
			held++;
		}
	});
	int64_t start = waits_now();

	for (long n = waits.w_n; n > 0; n--) {
		std::this_thread::sleep_for(hold);
		std::lock_guard l(m);
	}
	waits_took(start);
	done.store(true, std::memory_order_relaxed);
	first.join();
	waits_say(".most_to_least", (double)held / waits.w_n);
}

void rw_own()
{
	each(waits.w_p, [](int, long n) {
		alignas(128) std::shared_mutex m;

		for (; n > 0; n--) {
			m.lock_shared();
			m.lock_shared();
			locked();
			m.unlock_shared();
			m.unlock_shared();
			m.lock();
			locked();
			m.unlock();
		}
	});
}

void rw_write()
{
	std::shared_mutex m;

	each(waits.w_p, [&](int, long n) {
		for (; n > 0; n--) {
			if (n % waits.w_m == 0) {
				m.lock();
				locked();
				m.unlock();
			} else {
				m.lock_shared();
				locked();
				m.unlock_shared();
			}
		}
	});
}
