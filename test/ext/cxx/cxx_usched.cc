/* SPDX-License-Identifier: MIT */
/* cxx_usched: threads, waits, scopes, locks and channels of usched.hpp. */

/*
 * Results and exceptions of a thread arrive where it is joined. Sleeps and
 * deadlines end when std::chrono says so, under virtual time. A scope ends with
 * its threads, also if an exception leaves it, and the first exception cancels
 * the others. Locks work with those of the standard library. Channels pass
 * values of any type, none is lost or freed twice. All this also in catch
 * handlers, and in destructors while an exception unwinds: each thread finds
 * its own exceptions again. cxx.sh builds it.
 */

#include "either.h"
#include "usched.hpp"
#include <memory>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using std::make_shared;

static long alive;		/* objects */

struct counted {
	int c_nr;

	explicit counted(int nr = 0) : c_nr(nr) { add(&alive, 1); }
	counted(const counted &c) : c_nr(c.c_nr) { add(&alive, 1); }
	counted(counted &&c) : c_nr(c.c_nr) { c.c_nr = -1; add(&alive, 1); }
	counted &operator=(const counted &) = default;
	~counted() { add(&alive, -1); }
};

static bool none()
{
	return std::current_exception() == nullptr &&
		std::uncaught_exceptions() == 0;
}

/* Runs f(), and returns what it throws: the text, or "". */
template <class F> std::string thrown(F f)
{
	std::string text;

	try {
		f();
	} catch (const std::exception &e) {
		text = e.what();
	}
	return text;
}

static void fails(const char *text)
{
	throw std::runtime_error(text);
}

/* Threads. */

static void joins()
{
	auto seven = ucxx::spawn([] { ucxx::sleep_for(1ms); return 7; }, "7");
	auto text = ucxx::spawn([c = counted(3)] {
		return std::string(50, char('a' + c.c_nr));
	});
	auto unique = std::make_unique<int>(5);
	auto moved = ucxx::spawn([u = std::move(unique)]() mutable {
		return std::move(u);
	});
	auto none_at_all = ucxx::spawn([] { });
	auto bad = ucxx::spawn([]() -> counted { fails("bad"); return counted(); });

	CHECK(seven.joinable() && seven.join() == 7 && !seven.joinable());
	CHECK(ucxx::spawn([] { return counted(4); }).join().c_nr == 4);
	CHECK(text.join() == std::string(50, 'd'));
	CHECK(*moved.join() == 5);
	none_at_all.join();
	CHECK(thrown([&] { (void)bad.join(); }) == "bad" && !bad.joinable());
	CHECK(thrown([&] { (void)bad.join(); }) != "");

	auto late = ucxx::spawn([] { ucxx::sleep_for(1s); return 1; });
	CHECK(!late.wait(10ms) && late.joinable());
	CHECK(late.wait(2s) && late.wait(1ms) && late.join() == 1);
	(void)ucxx::spawn([c = counted()] { ucxx::sleep_for(1ms); fails("x"); });
	std::vector<ucxx::thread<int>> all;
	for (int i = 0; i < 30; i++)
		all.push_back(ucxx::spawn([i] {
			ucxx::sleep_for(std::chrono::milliseconds(50 - i));
			return i * i;
		}));
	for (int i = 0; i < 30; i += 2)
		CHECK(all[i].join() == i * i);
	all.clear();
	ucxx::sleep_for(100ms);
	CHECK(none());
}

/* Time. */

static void times()
{
	auto begun = ucxx::clock::now();
	auto to = begun + 1h;

	ucxx::sleep_until(to);
	CHECK(ucxx::clock::now() == to);
	ucxx::sleep_for(std::chrono::duration<double, std::milli>(1.5));
	CHECK(ucxx::clock::now() == to + 1500us);
	ucxx::sleep_for(-1s);
	ucxx::sleep_until(begun);
	ucxx::sleep_until(ucxx::clock::time_point(-1s));
	CHECK(ucxx::clock::now() == to + 1500us);
	CHECK(ucxx::deadline(std::chrono::hours::max()).until() == UNEVER);
	CHECK(ucxx::deadline(std::chrono::nanoseconds::max()).until() == UNEVER);
	CHECK(ucxx::deadline().until() == UNEVER);
	CHECK(ucxx::deadline(std::chrono::duration<double, std::nano>(0.1))
	      .until() == unow() + 1);
	CHECK(ucxx::deadline(std::chrono::steady_clock::time_point(5ms)).until() ==
	      5 * UTIME_MS);
}

/* Scopes. */

static void scopes()
{
	auto sum = make_shared<long>(0);
	{
		ucxx::scope s;

		for (int i = 0; i < 20; i++)
			s.go([sum, i, c = counted()] {
				ucxx::sleep_for(1ms * i);
				add(sum.get(), i);
			});
	}
	CHECK(*sum == 190);

	ucxx::scope late(10ms);
	late.go([] { ucxx::sleep_for(1h); });
	CHECK(late.end() == std::errc::timed_out);

	ucxx::scope stopped;
	stopped.go([] { ucxx::sleep_for(1h); });
	stopped.cancel();
	CHECK(thrown([] { ucxx::sleep_for(1h); }) == "canceled");
	CHECK(thrown([&] { stopped.go([] { }); }) == "canceled");
	CHECK(stopped.end() == std::errc::operation_canceled);

	ucxx::scope done;
	done.go([sum] { *sum = 1; });
	CHECK(!done.end() && *sum == 1 && none());
	done.cancel();
}

static void first_of_many()
{
	auto canceled = make_shared<long>(0);
	auto begun = ucxx::clock::now();
	ucxx::scope s;

	for (int i = 0; i < 10; i++)
		s.go([canceled, i] {
			try {
				ucxx::sleep_for(10ms * (i + 1));
			} catch (const ucxx::canceled &) {
				add(canceled.get(), 1);
				if (i % 2 == 0)
					throw;
			}
			throw std::runtime_error(std::to_string(i));
		});
	CHECK(thrown([&] { (void)s.end(); }) == "0");
	CHECK(*canceled == 9 && ucxx::clock::now() == begun + 10ms);
}

/* An exception leaves the block of a scope: its threads are canceled. */
static void left(std::shared_ptr<long> canceled)
{
	ucxx::scope s;
	counted c;

	for (int i = 0; i < 5; i++)
		s.go([canceled, c] {
			try {
				ucxx::sleep_for(1h);
			} catch (const ucxx::canceled &) {
				ucxx::shield clean(1s);

				ucxx::sleep_for(1ms);
				add(canceled.get(), 1);
			}
		});
	ucxx::sleep_for(1ms);
	fails("left");
}

static void scope_is_left()
{
	auto canceled = make_shared<long>(0);

	CHECK(thrown([&] { left(canceled); }) == "left");
	CHECK(*canceled == 5 && none());
}

/* Handlers, and destructors while an exception unwinds. */

struct sleeper {
	int s_ms;
	~sleeper()
	{
		int before = std::uncaught_exceptions();

		CHECK(before == 1);
		ucxx::sleep_for(std::chrono::milliseconds(s_ms));
		CHECK(std::uncaught_exceptions() == before);
		CHECK(ucxx::spawn([i = s_ms] {
			CHECK(none());
			return i;
		}).join() == s_ms);
	}
};

static void handles(int me)
{
	for (int i = 0; i < 5; i++) {
		std::string text = std::to_string(100 * me + i);

		try {
			sleeper s { (me + i) % 7 };

			fails(text.c_str());
		} catch (const std::exception &e) {
			ucxx::sleep_for(std::chrono::milliseconds((me * i) % 5));
			CHECK(e.what() == text);
			CHECK(thrown([] { throw; }) == text);
			CHECK(thrown([] { fails("inner"); }) == "inner");
			ucxx::sleep_for(1ms);
			CHECK(thrown([] { throw; }) == text);
		}
		CHECK(none());
	}
}

static void in_handlers()
{
	ucxx::scope s;

	for (int i = 0; i < 20; i++)
		s.go([i] { handles(i); });
	CHECK(!s.end());
}

/* Locks. */

struct shared {
	ucxx::mutex        m, other;
	ucxx::shared_mutex rw;
	ucxx::condition    c, never;
	ucxx::semaphore    sem { 3 };
	long               nr = 0, readers = 0, most = 0, inside = 0;
};

static void locks()
{
	auto x = make_shared<shared>();
	ucxx::scope s;

	for (int i = 0; i < 20; i++)
		s.go([x, i] {
			for (int j = 0; j < 10; j++) {
				std::lock_guard<ucxx::mutex> lock(x->m);
				long was = x->nr;

				ucxx::sleep_for(1us * i);
				x->nr = was + 1;
			}
			std::scoped_lock both(x->m, x->other);
			x->c.notify_all();
		});
	s.go([x] {
		std::unique_lock<ucxx::mutex> lock(x->m);

		CHECK(x->c.wait(lock, [&] { return x->nr == 200; }));
		CHECK(lock.owns_lock());
		CHECK(!x->never.wait(lock, 1ms));
		CHECK(!x->never.wait(lock, [] { return false; }, 1ms));
	});
	CHECK(!s.end() && x->nr == 200);

	std::unique_lock<ucxx::mutex> lock(x->m);
	CHECK(ucxx::spawn([x] {
		std::unique_lock<ucxx::mutex> mine(x->m, std::try_to_lock);

		return !mine && !mine.try_lock_for(10ms) &&
			!mine.try_lock_until(ucxx::clock::now() + 10ms);
	}).join());
	CHECK(thrown([&] { x->m.lock(); }) != "");	/* -EDEADLK */
}

static void more_locks()
{
	auto x = make_shared<shared>();
	ucxx::scope s;

	for (int i = 0; i < 10; i++) {
		s.go([x] {
			std::shared_lock<ucxx::shared_mutex> lock(x->rw);
			long now = add(&x->readers, 1);

			ucxx::sleep_for(1ms);
			set(&x->most, std::max(now, get(&x->most)));
			add(&x->readers, -1);
		});
		s.go([x] {
			x->sem.acquire();
			CHECK(add(&x->inside, 1) <= 3);
			ucxx::sleep_for(1ms);
			add(&x->inside, -1);
			x->sem.release();
		});
	}
	s.go([x] {
		std::unique_lock<ucxx::shared_mutex> lock(x->rw);

		CHECK(get(&x->readers) == 0);
		ucxx::sleep_for(1ms);
		CHECK(get(&x->readers) == 0);
	});
	CHECK(!s.end() && x->most > 1);
	for (int i = 0; i < 3; i++)
		CHECK(x->sem.try_acquire());
	CHECK(!x->sem.try_acquire() && !x->sem.try_acquire_for(1ms));
}

/* Channels. */

template <class T, class F> void passes(unsigned room, F value)
{
	ucxx::channel<T> c(room);
	ucxx::scope s;

	s.go([c, value] {
		for (int i = 0; i < 50; i++)
			CHECK(!c.send(value(i)));
		c.close();
		CHECK(c.send(value(50)) == std::errc::broken_pipe);
	});
	s.go([c, value] {
		int i = 0;

		for (T v : c)
			CHECK(v == value(i++));
		CHECK(i == 50 && !c.recv());
	});
	CHECK(!s.end());
}

static void channels()
{
	auto text = [](int i) { return std::string(30 + i, 'x'); };

	passes<int>(0, [](int i) { return i; });
	passes<std::string>(0, text);
	passes<std::string>(7, text);

	ucxx::channel<std::unique_ptr<counted>> c(1);
	auto mine = std::make_unique<counted>(9);
	CHECK(!c.send(std::move(mine)) && mine == nullptr);
	mine = std::make_unique<counted>(8);
	CHECK(c.send(std::move(mine), 1ms) == std::errc::timed_out);
	CHECK(mine != nullptr && mine->c_nr == 8);
	std::unique_ptr<counted> got;
	CHECK(!c.recv(got) && got->c_nr == 9);
	CHECK(c.recv(got, 1ms) == std::errc::timed_out && got->c_nr == 9);
	CHECK(!c.send(std::move(mine)));	/* freed with the channel */

	ucxx::scope s;
	s.cancel();
	CHECK(thrown([&] {
		ucxx::channel<int>(0).send(1);
	}) == "canceled");
	CHECK(s.end() == std::errc::operation_canceled);
}

static void outside()
{
	CHECK(thrown([] { ucxx::scope s; }) != "");
	CHECK(thrown([] { (void)ucxx::spawn([] { }); }) != "");
}

/* alone: no other thread moves the clock. */
static void everything(void *alone)
{
	joins();
	if (alone != NULL) {
		times();
		first_of_many();
	}
	scopes();
	scope_is_left();
	in_handlers();
	locks();
	more_locks();
	channels();
	CHECK(none());
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	utime_virtual(0);
	outside();
	begin(1, 0);
	make(0, everything, &alive);
	start_and_finish();
	CHECK(get(&alive) == 0);
	begin(2, 0);
	for (int i = 0; i < 6; i++)
		make(i, everything, NULL);
	start_and_finish();
	CHECK(get(&alive) == 0);
	return 0;
}
