/* SPDX-License-Identifier: MIT */
/* usched.hpp: threads, waits, scopes, locks and channels in C++. */

#ifndef USCHED_HPP
#define USCHED_HPP

/*
 *	ucxx::channel<std::string> lines(16);
 *	ucxx::scope s(2s);			a deadline for all in it
 *
 *	s.go([lines] {
 *		for (const std::string &line : lines)
 *			print(line);
 *	});
 *	auto count = ucxx::spawn([lines] { return read_all(lines); });
 *	ucxx::sleep_for(10ms);
 *	std::cout << count.join();
 *	s.end();
 *
 * A lambda that becomes a thread must not capture variables of its maker by
 * reference, if these lie on the stack of a thread: while the maker waits, its
 * stack may be copied away. Nor may a mutex or the like lie there. Threads
 * share what is on the heap or static, and channels, which are handles. The
 * hard mode (uhard.h) detects wrong captures.
 *
 * These are classes around uwait.h, uthread.h, uscope.h, usync.h and uchan.h,
 * which say who may call what. ugen.hpp has generators.
 *
 * DEADLINES are a std::chrono::duration, from the call on, or a time_point of
 * std::chrono::steady_clock, or of ucxx::clock, which also knows virtual time
 * (uwait.h). The default is no deadline.
 *
 * ERRORS. A wait in a scope that is canceled throws ucxx::canceled. Lack of
 * memory throws std::bad_alloc, and wrong use std::system_error. A deadline
 * that has passed is a result.
 *
 * HANDLERS. All waits of this header are permitted in a catch handler and in
 * destructors that run because of an exception, also without ucxx.cc: they keep
 * the exceptions of the thread while it waits.
 */

#include "uchan.h"
#include "uscope.h"
#include "usync.h"
#include "uthread.h"
#include "uwait.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace ucxx {

/* Thrown by a wait in a scope that is canceled. */
struct canceled : std::exception {
	const char *what() const noexcept override { return "canceled"; }
};

/* The clock of all waits. */
struct clock {
	using rep        = utime_ns;
	using period     = std::nano;
	using duration   = std::chrono::nanoseconds;
	using time_point = std::chrono::time_point<clock>;
	static constexpr bool is_steady = true;

	static time_point now() noexcept
	{
		return time_point(duration(unow()));
	}
};

/* Until when a call waits. */
class deadline {
public:
	deadline() : ns(UNEVER) { }

	template <class R, class P>
	deadline(const std::chrono::duration<R, P> &from_now)
		: ns(uafter(count(from_now))) { }

	template <class D>
	deadline(const std::chrono::time_point<std::chrono::steady_clock, D> &t)
		: ns(at(t.time_since_epoch())) { }

	template <class D>
	deadline(const std::chrono::time_point<clock, D> &t)
		: ns(at(t.time_since_epoch())) { }

	utime_ns until() const { return ns; }

private:
	utime_ns ns;

	/* Rounds up, so that no wait is too short. */
	template <class R, class P>
	static utime_ns count(const std::chrono::duration<R, P> &d)
	{
		using nano = std::chrono::duration<long double, std::nano>;
		long double n = std::ceil(nano(d).count());

		if (n >= static_cast<long double>(UNEVER))
			return UNEVER;
		return n > 0 ? static_cast<utime_ns>(n) : 0;
	}

	/* UNOW would be another question. */
	template <class R, class P>
	static utime_ns at(const std::chrono::duration<R, P> &d)
	{
		utime_ns n = count(d);

		return n > UNOW ? n : UNOW + 1;
	}
};

/* Not API. */
namespace part {

/* The beginning of struct __cxa_eh_globals: see ucxx.cc. */
struct handled {
	void        *caught;
	unsigned int thrown;
#if defined(__ARM_EABI_UNWINDER__)
	void        *propagating;
#endif
};

/* By another name: <cxxabi.h> declares it as if it never changed. */
extern "C" handled *ucxx_globals(void) __asm__("__cxa_get_globals");

/* Calls f(), which may block, and keeps the exceptions of the thread. */
template <class F> int apart(F f)
{
	handled was = *ucxx_globals();
	int rc;

	*ucxx_globals() = handled();
	rc = f();
	*ucxx_globals() = was;		/* perhaps of another native thread */
	return rc;
}

inline std::error_code code(int rc)
{
	return std::error_code(-rc, std::generic_category());
}

/* Throws what rc says, if it is an error. */
inline void check(int rc)
{
	if (__builtin_expect(rc >= 0, 1))
		return;
	if (rc == -ENOMEM)
		throw std::bad_alloc();
	if (rc == -ECANCELED)
		throw canceled();
	throw std::system_error(code(rc));
}

/* Returns whether the deadline has not passed. */
inline bool in_time(int rc)
{
	if (rc == -ETIMEDOUT || rc == -EAGAIN)
		return false;
	check(rc);
	return true;
}

/* Returns errors of the channel and the deadline, and throws all others. */
inline std::error_code of_channel(int rc)
{
	if (rc != -EPIPE && rc != -ETIMEDOUT && rc != -EAGAIN)
		check(rc);
	return rc < 0 ? code(rc) : std::error_code();
}

/* What a thread leaves to its joiner, if both let go of it. */
template <class T> struct result {
	using value_type = std::conditional_t<std::is_void<T>::value, char, T>;

	std::optional<value_type> value;
	std::exception_ptr        thrown;
	std::atomic<int>          refs { 2 };

	virtual ~result() { }

	void let_go()
	{
		if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
			delete this;
	}
};

template <class T, class F> struct job : result<T> {
	std::optional<F> f;

	template <class G> explicit job(G &&g) : f(std::forward<G>(g)) { }

	static void *run(void *arg)
	{
		job *j = static_cast<job *>(arg);

		try {
			if constexpr (std::is_void<T>::value) {
				(*j->f)();
				j->value.emplace();
			} else
				j->value.emplace((*j->f)());
		} catch (...) {
			j->thrown = std::current_exception();
		}
		j->f.reset();
		j->let_go();
		return nullptr;
	}
};

/* The first exception of the threads of a scope. */
struct first {
	std::atomic<bool>  taken { false };
	std::exception_ptr thrown;

	void take()
	{
		if (!taken.exchange(true, std::memory_order_relaxed))
			thrown = std::current_exception();
	}
};

template <class F> struct task {
	F      f;
	first *to;

	template <class G> task(G &&g, first *at)
		: f(std::forward<G>(g)), to(at) { }

	/* For uscope_go(). An exception is an error of any number. */
	static int run(void *arg)
	{
		std::unique_ptr<task> t(static_cast<task *>(arg));

		try {
			t->f();
			return 0;
		} catch (const canceled &) {
			return -ECANCELED;
		} catch (...) {
			t->to->take();
			return -EIO;
		}
	}
};

} /* namespace part */

/* Sleeps. Throws canceled, std::bad_alloc, std::system_error. */
inline void sleep_until(const deadline &until)
{
	part::check(part::apart([&] { return u_sleep(until.until()); }));
}

template <class R, class P>
void sleep_for(const std::chrono::duration<R, P> &time)
{
	sleep_until(time);
}

/*
 * A handle of a thread that spawn() has made. To drop it detaches the thread:
 * its result, and an exception that leaves it, are lost.
 */
template <class T> class thread {
public:
	thread() = default;
	thread(thread &&other) noexcept { swap(other); }
	thread &operator=(thread &&other) noexcept
	{
		thread(std::move(other)).swap(*this);
		return *this;
	}
	~thread() { detach(); }

	void swap(thread &other) noexcept
	{
		std::swap(t, other.t);
		std::swap(to, other.to);
	}

	/* Does it stand for a thread that was neither joined nor detached? */
	bool joinable() const { return to != nullptr; }

	/*
	 * Waits for the end of the thread. True: join() will not wait. False:
	 * the deadline has passed. Throws as a wait.
	 */
	bool wait(const deadline &until = deadline())
	{
		if (to == nullptr)
			part::check(-EINVAL);
		if (t == nullptr)
			return true;
		if (!part::in_time(part::apart([&] {
			return uthread_join(t, nullptr, until.until());
		})))
			return false;
		t = nullptr;
		return true;
	}

	/* Waits, and returns what the thread has returned, or throws that. */
	T join()
	{
		(void)wait();
		std::unique_ptr<part::result<T>, void (*)(part::result<T> *)>
			r(std::exchange(to, nullptr),
			  [](part::result<T> *p) { p->let_go(); });

		if (r->thrown)
			std::rethrow_exception(std::move(r->thrown));
		if constexpr (!std::is_void<T>::value)
			return std::move(*r->value);
	}

	void detach()
	{
		if (t != nullptr)
			(void)uthread_detach(t);
		if (to != nullptr)
			to->let_go();
		t  = nullptr;
		to = nullptr;
	}

private:
	struct uthread  *t  = nullptr;	/* nullptr: it was waited for */
	part::result<T> *to = nullptr;

	template <class F> friend auto spawn(F &&f, const char *name)
		-> thread<std::invoke_result_t<std::decay_t<F> &>>;
};

/*
 * Makes a thread that runs a copy of f. name may be nullptr. In threads only.
 * Throws std::bad_alloc, std::system_error.
 */
template <class F> auto spawn(F &&f, const char *name = nullptr)
	-> thread<std::invoke_result_t<std::decay_t<F> &>>
{
	using T = std::invoke_result_t<std::decay_t<F> &>;
	using job = part::job<T, std::decay_t<F>>;
	static_assert(!std::is_reference<T>::value,
		      "a thread that returns a reference: return a pointer");
	auto j = std::make_unique<job>(std::forward<F>(f));
	thread<T> made;

	part::check(uthread_make(&made.t, job::run, j.get(), name));
	made.to = j.release();
	return made;
}

/*
 * A scope: see uscope.h. Its end waits for its threads, also the end of the
 * block that it stands in. If an exception leaves the block, or a thread, all
 * waits in the scope are canceled.
 */
class scope {
public:
	/* Throws std::bad_alloc, std::system_error. */
	explicit scope(const deadline &until = deadline())
		: scope(uscope_begin, until) { }
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

	~scope()
	{
		if (s == nullptr)
			return;
		if (std::uncaught_exceptions() > exceptions)
			uscope_cancel(s);
		(void)part::apart([&] { return uscope_end(&s); });
		if (s != nullptr)
			usched_fail("~scope: no memory to wait for its threads");
	}

	/*
	 * Makes a thread in the scope that runs a copy of f. The first exception
	 * that leaves a thread cancels the scope. Throws canceled, and as spawn().
	 */
	template <class F> void go(F &&f)
	{
		using task = part::task<std::decay_t<F>>;
		auto t = std::make_unique<task>(std::forward<F>(f), first.get());

		part::check(uscope_go(s, task::run, t.get()));
		(void)t.release();
	}

	/*
	 * Waits for the threads, and ends the scope. Throws the first exception
	 * of a thread. Else returns std::errc::timed_out if the deadline has
	 * canceled the scope, operation_canceled if something else has.
	 */
	std::error_code end()
	{
		int rc = part::apart([&] { return uscope_end(&s); });

		if (s != nullptr)
			throw std::bad_alloc();
		if (first->thrown)
			std::rethrow_exception(std::exchange(first->thrown,
							     nullptr));
		return part::code(rc);
	}

	/* Cancels all waits in it. Any thread, until its end. */
	void cancel()
	{
		if (s != nullptr)
			uscope_cancel(s);
	}

	struct uscope *get() { return s; }

protected:
	scope(int (*begin)(struct uscope **, utime_ns), const deadline &until)
		: first(std::make_unique<part::first>())
	{
		part::check(begin(&s, until.until()));
	}

private:
	struct uscope *s = nullptr;
	int            exceptions = std::uncaught_exceptions();
	/* On the heap: threads write there while the maker waits. */
	std::unique_ptr<part::first> first;
};

/* A scope for clean-up: cancellations from around it wait until a deadline. */
class shield : public scope {
public:
	explicit shield(const deadline &until) : scope(uscope_shield, until) { }
};

/* For std::lock_guard, std::unique_lock, std::scoped_lock. */
class mutex {
public:
	mutex() = default;
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	void lock() { (void)try_lock_until(deadline()); }
	bool try_lock() { return part::in_time(umutex_lock(&m, UNOW)); }
	void unlock() { umutex_unlock(&m); }

	bool try_lock_until(const deadline &until)
	{
		return try_lock() || part::in_time(part::apart([&] {
			return umutex_lock(&m, until.until());
		}));
	}

	bool try_lock_for(const deadline &d) { return try_lock_until(d); }

	struct umutex *get() { return &m; }

private:
	struct umutex m = { };
};

/* For std::shared_lock, too. */
class shared_mutex {
public:
	shared_mutex() = default;
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	void lock() { (void)try_lock_until(deadline()); }
	bool try_lock() { return part::in_time(urw_write(&l, UNOW)); }
	void unlock() { urw_unlock(&l); }
	void lock_shared() { (void)try_lock_shared_until(deadline()); }
	bool try_lock_shared() { return part::in_time(urw_read(&l, UNOW)); }
	void unlock_shared() { urw_unlock(&l); }

	bool try_lock_until(const deadline &until)
	{
		return part::in_time(part::apart([&] {
			return urw_write(&l, until.until());
		}));
	}

	bool try_lock_shared_until(const deadline &until)
	{
		return part::in_time(part::apart([&] {
			return urw_read(&l, until.until());
		}));
	}

	bool try_lock_for(const deadline &d) { return try_lock_until(d); }

	bool try_lock_shared_for(const deadline &d)
	{
		return try_lock_shared_until(d);
	}

private:
	struct urw l = { };
};

/*
 * A condition, used as std::condition_variable. After a wait the lock is held,
 * also if the wait throws.
 */
class condition {
public:
	condition() = default;
	condition(const condition &) = delete;
	condition &operator=(const condition &) = delete;

	void notify_one() { ucond_signal(&c); }
	void notify_all() { ucond_broadcast(&c); }

	/* False: the deadline has passed. */
	bool wait(std::unique_lock<mutex> &lock,
		  const deadline &until = deadline())
	{
		return part::in_time(part::apart([&] {
			return ucond_wait(&c, lock.mutex()->get(),
					  until.until());
		}));
	}

	/* Waits until test(). Returns what that returns in the end. */
	template <class P, class = std::enable_if_t<
		std::is_invocable_r<bool, P &>::value>>
	bool wait(std::unique_lock<mutex> &lock, P test,
		  const deadline &until = deadline())
	{
		while (!test()) {
			if (!wait(lock, until))
				return test();
		}
		return true;
	}

private:
	struct ucond c = { };
};

/* Units, used as std::counting_semaphore. */
class semaphore {
public:
	/* units: 0 to USYNC_MOST. */
	explicit semaphore(unsigned units)
	{
		s.sm_sync.y_state = units * USEM_UNIT;
	}
	semaphore(const semaphore &) = delete;
	semaphore &operator=(const semaphore &) = delete;

	void release() { part::check(usem_post(&s)); }
	void acquire() { (void)try_acquire_until(deadline()); }
	bool try_acquire() { return part::in_time(usem_wait(&s, UNOW)); }

	bool try_acquire_until(const deadline &until)
	{
		return try_acquire() || part::in_time(part::apart([&] {
			return usem_wait(&s, until.until());
		}));
	}

	bool try_acquire_for(const deadline &d) { return try_acquire_until(d); }

private:
	struct usem s = { };
};

/*
 * A handle of a channel: see uchan.h. Copies stand for the same channel, which
 * is freed with the last. Values that cannot be copied as bytes are sent in
 * boxes on the heap.
 */
template <class T> class channel {
	static constexpr bool is_plain =
		std::is_trivially_copyable<T>::value && sizeof(T) <= 64;
	using cell = std::conditional_t<is_plain, T, T *>;

public:
	class iterator;

	/* Throws std::bad_alloc. */
	explicit channel(unsigned room = 0)
	{
		struct uchan *made = uchan_make(sizeof(cell), room);

		if (made == nullptr)
			throw std::bad_alloc();
		c = std::shared_ptr<struct uchan>(made, drop);
	}

	/*
	 * Sends v. std::errc::broken_pipe: the channel is closed; timed_out.
	 * After an error, or a throw, v is as it was.
	 */
	std::error_code send(T &&v, const deadline &until = deadline()) const
	{
		if constexpr (is_plain) {
			return part::of_channel(send_cell(v, until));
		} else {
			auto box = std::make_unique<T>(std::move(v));
			int rc = send_cell(box.get(), until);

			if (rc == 0)
				(void)box.release();
			else
				v = std::move(*box);
			return part::of_channel(rc);
		}
	}

	std::error_code send(const T &v, const deadline &until = deadline()) const
	{
		return send(T(v), until);
	}

	/*
	 * Receives into v. broken_pipe: the channel is closed, and empty;
	 * timed_out. After an error, or a throw, v is as it was.
	 */
	std::error_code recv(T &v, const deadline &until = deadline()) const
	{
		cell got;
		int rc = recv_cell(&got, until);

		if (rc == 0) {
			if constexpr (is_plain)
				v = got;
			else
				v = std::move(*std::unique_ptr<T>(got));
		}
		return part::of_channel(rc);
	}

	/* Receives. Nothing: the channel is closed, and empty. */
	std::optional<T> recv() const
	{
		cell got;

		if (part::of_channel(recv_cell(&got, deadline())))
			return std::nullopt;
		if constexpr (is_plain)
			return got;
		else
			return std::move(*std::unique_ptr<T>(got));
	}

	/* Lets senders fail, and receivers when it is empty. Once is enough. */
	void close() const { (void)uchan_close(c.get()); }

	/* A loop receives until the channel is closed, and empty. */
	iterator begin() const { return iterator(this); }
	iterator end() const { return iterator(); }

	struct uchan *get() const { return c.get(); }

private:
	std::shared_ptr<struct uchan> c;

	int send_cell(cell v, const deadline &until) const
	{
		return part::apart([&] {
			return uchan_send(c.get(), &v, until.until());
		});
	}

	int recv_cell(cell *v, const deadline &until) const
	{
		return part::apart([&] {
			return uchan_recv(c.get(), v, until.until());
		});
	}

	static void drop(struct uchan *c)
	{
		cell left;

		while (!is_plain && uchan_recv(c, &left, UNOW) == 0) {
			if constexpr (!is_plain)
				delete left;
		}
		uchan_free(c);
	}
};

template <class T> class channel<T>::iterator {
	const channel   *from = nullptr;
	std::optional<T> got;

public:
	using iterator_category = std::input_iterator_tag;
	using value_type        = T;
	using difference_type   = std::ptrdiff_t;
	using pointer           = T *;
	using reference         = T &&;

	iterator() = default;
	explicit iterator(const channel *c) : from(c) { ++*this; }

	T &&operator*() { return std::move(*got); }
	T *operator->() { return &*got; }

	iterator &operator++()
	{
		got.reset();
		got = from->recv();
		if (!got)
			from = nullptr;
		return *this;
	}

	void operator++(int) { ++*this; }
	bool operator==(const iterator &i) const { return from == i.from; }
	bool operator!=(const iterator &i) const { return from != i.from; }
};

} /* namespace ucxx */

#endif /* USCHED_HPP */
