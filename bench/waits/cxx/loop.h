/* SPDX-License-Identifier: MIT */
/* loop.h: an event loop, timers and channels for C++20 coroutines, by hand. */

#ifndef LOOP_H
#define LOOP_H

/*
 * What the language can do, not what people run: one native thread, so there
 * is no atomic operation and no lock; channels of 8 bytes; no error but the end
 * of the program.
 *
 *   - A coroutine's promise is its place in the queue of those that can run,
 *     first in, first out. A coroutine that waits jumps to the next
 *     (symmetric transfer), and one at its end returns to the loop.
 *   - A wait is a node in the frame of the coroutine, in a list of a channel.
 *     To select is to have a node in the list of each.
 *   - Timers are in a heap where each has four children, because these lie on
 *     one cache line, and know their place, so that they can be moved. The keys
 *     are in the heap.
 */
#include "../waits.h"

#include <coroutine>
#include <utility>
#include <vector>

struct promise;
using handle = std::coroutine_handle<promise>;

struct task {
	using promise_type = promise;
};

struct promise {
	promise *next;

	task get_return_object();
	std::suspend_always initial_suspend() noexcept { return {}; }
	std::suspend_never final_suspend() noexcept { return {}; }
	void return_void() {}
	void unhandled_exception() noexcept { abort(); }
};

/* Coroutines that can run. */
struct queue {
	promise  *first = nullptr;
	promise **last = &first;

	void put(promise *p)
	{
		p->next = nullptr;
		*last = p;
		last = &p->next;
	}
	promise *take()
	{
		promise *p = first;

		first = p->next;
		if (first == nullptr)
			last = &first;
		return p;
	}
};

inline queue ready;

inline task promise::get_return_object()
{
	ready.put(this);
	return {};
}

/* Switches from one look at the clock to the next, if coroutines can run. */
enum { TURNS = 64 };

inline unsigned turns = 0;

/* Returns what runs next, instead of a coroutine that waits: perhaps run(). */
inline std::coroutine_handle<> next()
{
	if (ready.first == nullptr || ++turns % TURNS == 0)
		return std::noop_coroutine();
	return handle::from_promise(*ready.take());
}

struct yielded {
	bool await_ready() { return false; }
	std::coroutine_handle<> await_suspend(handle h)
	{
		ready.put(&h.promise());
		return next();
	}
	void await_resume() {}
};

struct waiter;

/* Either a coroutine sleeps, or a wait is to end. */
struct timer {
	size_t   at;			/* in the heap */
	promise *who;
	waiter    *ends;
};

class heap {
	enum { CHILDREN = 4 };
	struct place { int64_t when; timer *t; };
	std::vector<place> places;

	void set(size_t i, place p)
	{
		places[i] = p;
		p.t->at = i;
	}
	bool up(size_t i)
	{
		place p = places[i];
		size_t from = i;

		while (i > 0 && p.when < places[(i - 1) / CHILDREN].when) {
			set(i, places[(i - 1) / CHILDREN]);
			i = (i - 1) / CHILDREN;
		}
		set(i, p);
		return i != from;
	}
	size_t least(size_t i) const
	{
		size_t end = std::min(i + CHILDREN, places.size());
		size_t l = i;

		while (++i < end)
			if (places[i].when < places[l].when)
				l = i;
		return l;
	}
	void down(size_t i)
	{
		place p = places[i];
		size_t c;

		while ((c = i * CHILDREN + 1) < places.size()) {
			c = least(c);
			if (p.when <= places[c].when)
				break;
			set(i, places[c]);
			i = c;
		}
		set(i, p);
	}
public:
	bool empty() const { return places.empty(); }
	int64_t first() const { return places[0].when; }
	timer *top() const { return places[0].t; }

	void add(timer *t, int64_t when)
	{
		places.push_back({ when, t });
		up(places.size() - 1);
	}
	/* Does the same as remove() and add(). */
	void move(timer *t, int64_t when)
	{
		places[t->at].when = when;
		if (!up(t->at))
			down(t->at);
	}
	void remove(timer *t)
	{
		place last = places.back();
		size_t i = t->at;

		places.pop_back();
		if (last.t == t)
			return;
		places[i] = last;
		if (!up(i))
			down(i);
	}
};

inline heap timers;

struct sleep_until {
	int64_t when;
	timer   t{};

	bool await_ready() { return false; }
	std::coroutine_handle<> await_suspend(handle h)
	{
		t.who = &h.promise();
		timers.add(&t, when);
		return next();
	}
	void await_resume() {}
};

/* Waits in a list. */
struct node {
	node *before = this, *after = this;

	void append(node *l)
	{
		l->before = before;
		l->after = this;
		before = before->after = l;
	}
	void remove()
	{
		before->after = after;
		after->before = before;
		before = after = this;
	}
};

/* A coroutine waits at a channel; or at nr of them, at all[0] and so on. */
struct waiter : node {
	promise  *who;
	uint64_t *value;		/* where it is, or is to be put */
	waiter     *all;
	int       nr;
	int      *chosen;
	timer    *limit = nullptr;

	void end()
	{
		if (chosen != nullptr)
			*chosen = this - all;
		for (int i = 0; i < nr; i++)
			all[i].remove();
		if (limit != nullptr)
			timers.remove(limit);
		ready.put(who);
	}
};

class chan {
	std::vector<uint64_t> ring;
	size_t room, head = 0, nr = 0;

	void put(uint64_t v)
	{
		size_t i = head + nr++;

		ring[i < room ? i : i - room] = v;
	}
	uint64_t take()
	{
		uint64_t v = ring[head];

		head = head + 1 < room ? head + 1 : 0;
		nr--;
		return v;
	}
	static waiter *first(node &l) { return static_cast<waiter *>(l.after); }
public:
	node senders, receivers;
	bool closed = false;

	explicit chan(size_t room) : ring(room), room(room) {}

	bool try_send(uint64_t v)
	{
		if (receivers.after != &receivers) {
			waiter *w = first(receivers);

			*w->value = v;
			w->end();
			return true;
		}
		if (nr == room)
			return false;
		put(v);
		return true;
	}
	bool try_recv(uint64_t &v)
	{
		bool sender = senders.after != &senders;
		waiter *w = first(senders);

		if (nr > 0) {
			v = take();
			if (sender)
				put(*w->value);
		} else if (sender) {
			v = *w->value;
		} else {
			return false;
		}
		if (sender)
			w->end();
		return true;
	}
	void close()
	{
		closed = true;
		while (receivers.after != &receivers) {
			int *chosen = first(receivers)->chosen;

			first(receivers)->end();
			*chosen = -1;
		}
	}

	auto send(uint64_t v);
	auto recv(uint64_t &v);
	auto recv(uint64_t &v, int64_t until);
};

struct sending {
	chan    *c;
	uint64_t v;
	waiter w{};

	bool await_ready() { return c->try_send(v); }
	std::coroutine_handle<> await_suspend(handle h)
	{
		w.who = &h.promise();
		w.value = &v;
		w.all = &w;
		w.nr = 1;
		c->senders.append(&w);
		return next();
	}
	void await_resume() {}
};

/* Returns whether there was a value; if not, the channel is closed. */
struct receiving {
	chan     *c;
	uint64_t *v;
	int       chosen = -1;
	waiter w{};

	bool await_ready()
	{
		if (c->try_recv(*v))
			chosen = 0;
		return chosen == 0 || c->closed;
	}
	std::coroutine_handle<> await_suspend(handle h)
	{
		w.who = &h.promise();
		w.value = v;
		w.all = &w;
		w.nr = 1;
		w.chosen = &chosen;
		c->receivers.append(&w);
		return next();
	}
	bool await_resume() { return chosen == 0; }
};

/* Receives, but waits until a time at most. */
struct receiving_until : receiving {
	int64_t until;
	timer   t{};

	std::coroutine_handle<> await_suspend(handle h)
	{
		t.ends = &w;
		w.limit = &t;
		timers.add(&t, until);
		return receiving::await_suspend(h);
	}
};

inline auto chan::send(uint64_t v) { return sending{ this, v }; }
inline auto chan::recv(uint64_t &v) { return receiving{ this, &v }; }
inline auto chan::recv(uint64_t &v, int64_t until)
{
	return receiving_until{ { this, &v }, until };
}

struct choice {
	chan     *c;
	uint64_t *v;
	bool      send;

	bool attempt() { return send ? c->try_send(*v) : c->try_recv(*v); }
	node &list() { return send ? c->senders : c->receivers; }
};

inline uint64_t choose_random = 1;

inline choice to(chan &c, uint64_t &v) { return { &c, &v, true }; }
inline choice from(chan &c, uint64_t &v) { return { &c, &v, false }; }

/* Selects; returns which. They are tried in a random order. */
template <int nr> struct choose {
	choice cases[nr];
	int    chosen = -1;
	waiter w[nr];

	template <class... C> explicit choose(C... c) : cases{ c... } {}

	bool await_ready()
	{
		uint64_t r = waits_random(&choose_random);
		int order[nr];

		for (int i = 0; i < nr; i++) {
			int j = (r & 0xffff) * (i + 1) >> 16;

			order[i] = order[j];
			order[j] = i;
			r >>= 16;
		}
		for (int i : order) {
			if (cases[i].attempt()) {
				chosen = i;
				return true;
			}
		}
		return false;
	}
	std::coroutine_handle<> await_suspend(handle h)
	{
		for (int i = 0; i < nr; i++) {
			w[i].who = &h.promise();
			w[i].value = cases[i].v;
			w[i].all = w;
			w[i].nr = nr;
			w[i].chosen = &chosen;
			cases[i].list().append(&w[i]);
		}
		return next();
	}
	int await_resume() { return chosen; }
};

template <class... C> choose(C...) -> choose<sizeof...(C)>;

/* Ends what waits for timers until now. */
inline void expire(int64_t now)
{
	while (!timers.empty() && timers.first() <= now) {
		timer *t = timers.top();

		timers.remove(t);
		if (t->ends == nullptr) {
			ready.put(t->who);
			continue;
		}
		t->ends->remove();
		ready.put(t->ends->who);
	}
}

/* Runs coroutines until none can run, and none sleeps; or until stop. */
inline void run(const bool *stop = nullptr)
{
	struct timespec t;

	while (stop == nullptr || !*stop) {
		if (ready.first != nullptr) {
			handle::from_promise(*ready.take()).resume();
		} else if (timers.empty()) {
			return;
		} else if (timers.first() > waits_now()) {
			t.tv_sec = timers.first() / WAITS_S;
			t.tv_nsec = timers.first() % WAITS_S;
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t,
					nullptr);
		}
		if (!timers.empty())
			expire(waits_now());
	}
}

#endif /* LOOP_H */
