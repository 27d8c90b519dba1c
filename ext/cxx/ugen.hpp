/* SPDX-License-Identifier: MIT */
/* ugen.hpp: generators in C++, over ugen.h. */

#ifndef UGEN_HPP
#define UGEN_HPP

/*
 *	static void walk(const node *n, ucxx::yield<int> &yield)
 *	{
 *		if (n == nullptr)
 *			return;
 *		walk(n->left, yield);
 *		yield(n->key);
 *		walk(n->right, yield);
 *	}
 *
 *	static ucxx::generator<int> keys(const node *root)
 *	{
 *		return [root](auto &yield) { walk(root, yield); };
 *	}
 *
 *	for (int key : keys(root))
 *		std::cout << key << '\n';
 *
 * The rules of ugen.h hold here, too. Beyond them:
 *
 * - Values are moved into the generator object, and a loop may move them out
 *   again: *it is a T &&. So T may be a type that cannot be copied. For values
 *   that live elsewhere T is a pointer.
 * - A loop goes on where the last loop stopped, because begin() asks for the
 *   next value. All iterators of a generator are the same position.
 * - An exception that leaves the body arrives in begin(), ++ or next(). The
 *   generator has ended then.
 * - If a generator is destroyed before its end, the destructors of its frames
 *   run. For this the yield at which it stands throws an exception of a private
 *   type, and so does each later yield. A catch (...) has to rethrow it, or the
 *   body has to return: UGEN_STOPS such yields end the program. A noexcept
 *   function between body and yield ends in std::terminate(). If the body
 *   throws an exception of its own meanwhile, the destructor drops it, and
 *   close() throws it.
 * - The body, with its captures, is destroyed with the generator object.
 * - Lack of memory is std::bad_alloc: in the constructor; or in a yield, and so
 *   in the consumer, unless the body catches it.
 * - A generator must not yield in a catch handler, nor in a destructor that
 *   runs because of an exception: see the caveats of usched.h. The consumer may
 *   be in either.
 */

#include "ugen.h"

#include <cerrno>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#define UGEN_STOPS	1000

namespace ucxx {

template <class T> class generator;

/* Not API. */
namespace ugen_part {

/* What a yield throws in a generator that is being destroyed. */
struct stop { };

template <class T, class F> struct body;

} /* namespace ugen_part */

/*
 * Handed to the body of a generator, and by this to functions that it calls. It
 * lies in the value of the struct ugen, with the body behind it.
 */
template <class T> class yield {
public:
	/*
	 * Yields T(u). Throws what that throws, std::bad_alloc, and a type
	 * that must not be caught for good.
	 */
	template <class U = T>
	__attribute__((always_inline)) void operator()(U &&u)
	{
		if (__builtin_expect(ustack_self() != &gen->ge_stack, 0))
			usched_fail("ugen_yield: called outside of its "
				    "generator");
		if (__builtin_expect(gen->ge_rc != 0, 0))
			error();
		::new (static_cast<void *>(room)) T(std::forward<U>(u));
		full = true;
		int rc = ugen_pass(gen);
		drop();
		if (__builtin_expect(rc != 0, 0))
			error();
	}

	yield(const yield &) = delete;
	yield &operator=(const yield &) = delete;

private:
	friend class generator<T>;
	template <class, class> friend struct ugen_part::body;

	struct ugen         *gen;
	void               (*destroy)(yield *);
	std::exception_ptr   thrown;	/* by the body */
	int                  stops = 0;	/* yields since it is destroyed */
	bool                 full = false;
	alignas(T) unsigned char room[sizeof(T)];

	yield(struct ugen *g, void (*f)(yield *)) : gen(g), destroy(f) { }
	~yield() { drop(); }

	T *value() { return std::launder(reinterpret_cast<T *>(room)); }

	void drop()
	{
		if (full) {
			full = false;
			value()->~T();
		}
	}

	/* After a lack of memory the body may go on, after a stop it may not. */
	[[noreturn]] __attribute__((noinline, cold)) void error()
	{
		if (gen->ge_rc == -ENOMEM) {
			gen->ge_rc = 0;
			throw std::bad_alloc();
		}
		if (stops++ == UGEN_STOPS)
			usched_fail("ugen_yield: the generator is being "
				    "destroyed, but catches all and goes on");
		throw ugen_part::stop();
	}
};

template <class T, class F> struct ugen_part::body : yield<T> {
	F f;

	template <class G> body(struct ugen *g, G &&from)
		: yield<T>(g, destroy_body), f(std::forward<G>(from)) { }

	static void destroy_body(yield<T> *y)
	{
		static_cast<body *>(y)->~body();
	}

	static void run(void *arg)
	{
		body *b = static_cast<body *>(static_cast<yield<T> *>(arg));

		try {
			b->f(static_cast<yield<T> &>(*b));
		} catch (const stop &) {
		} catch (...) {
			b->thrown = std::current_exception();
		}
	}
};

/* A range of values of type T, each made when it is asked for. */
template <class T> class generator {
	static_assert(std::is_object<T>::value && !std::is_const<T>::value,
		      "a generator of references: yield pointers instead");

public:
	class iterator;
	using value_type = T;

	/* Makes a generator that will call f(yield<T> &). */
	template <class F, class = std::enable_if_t<
		std::is_invocable<std::decay_t<F> &, yield<T> &>::value>>
	generator(F &&f)
	{
		using body = ugen_part::body<T, std::decay_t<F>>;
		static_assert(alignof(body) <= UGEN_ALIGN,
			      "a type with too large an alignment");

		gen = ugen_make(body::run, nullptr, sizeof(body));
		if (gen == nullptr)
			throw std::bad_alloc();
		try {
			at = ::new (gen->ge_value) body(gen,
						      std::forward<F>(f));
		} catch (...) {
			(void)ugen_free(gen);
			throw;
		}
		gen->ge_stack.u_arg = at;
		gen->ge_size = UGEN_CXX;
	}

	generator(generator &&g) noexcept : gen(g.gen), at(g.at)
	{
		g.gen = nullptr;
	}

	generator &operator=(generator &&g) noexcept
	{
		if (this != &g) {
			(void)stop();
			gen = std::exchange(g.gen, nullptr);
			at  = g.at;
		}
		return *this;
	}

	~generator() { (void)stop(); }

	/* Ends the generator, as its destructor does. Throws what that drops. */
	void close()
	{
		std::exception_ptr thrown = stop();

		if (thrown)
			std::rethrow_exception(std::move(thrown));
	}

	/*
	 * Returns a pointer to the next value, which the next call destroys.
	 * nullptr: there is none, or *this was moved from, or closed.
	 */
	T *next()
	{
		if (__builtin_expect(ugen_next(gen) != nullptr, 1))
			return at->value();
		if (gen != nullptr && at->thrown)
			std::rethrow_exception(std::exchange(at->thrown,
							     nullptr));
		return nullptr;
	}

	iterator begin() { return iterator(next() != nullptr ? this : nullptr); }
	iterator end() { return iterator(nullptr); }

private:
	struct ugen *gen = nullptr;
	yield<T>    *at  = nullptr;

	/* Returns what the body has thrown instead of ending. */
	std::exception_ptr stop() noexcept
	{
		std::exception_ptr thrown;

		if (gen == nullptr)
			return thrown;
		ugen_stop(gen);
		thrown = std::move(at->thrown);
		at->destroy(at);
		(void)ugen_free(std::exchange(gen, nullptr));
		return thrown;
	}
};

/* An input iterator. */
template <class T> class generator<T>::iterator {
	generator *range;

	struct was {
		T value;
		T &&operator*() { return std::move(value); }
	};

public:
	using iterator_category = std::input_iterator_tag;
	using value_type        = T;
	using difference_type   = std::ptrdiff_t;
	using pointer           = T *;
	using reference         = T &&;

	iterator() : range(nullptr) { }
	explicit iterator(generator *g) : range(g) { }

	T &&operator*() const { return std::move(*range->at->value()); }
	T *operator->() const { return range->at->value(); }

	iterator &operator++()
	{
		if (range->next() == nullptr)
			range = nullptr;
		return *this;
	}

	was operator++(int)
	{
		was w { **this };

		++*this;
		return w;
	}

	bool operator==(const iterator &i) const { return range == i.range; }
	bool operator!=(const iterator &i) const { return range != i.range; }
};

} /* namespace ucxx */

#endif /* UGEN_HPP */
