/* SPDX-License-Identifier: MIT */
/*
 * model.c: a model checker: explores all executions of a small program with
 * threads.
 */

/*
 * OVERVIEW
 *
 * The threads of a scenario (model.h) are threads of our own dispatcher. Before
 * each atomic operation and each futex call a thread blocks, and the checker
 * decides in next() which thread goes on. It also decides which value a load
 * returns, of those that the memory model allows, and where in modification
 * order a store goes. Each decision is noted (choose()). The next execution
 * repeats the decisions up to the last that has an alternative left, and takes
 * that. The search ends when no alternative is left. A location that only one
 * thread uses needs no decision.
 *
 * Plain accesses need none either, since they are checked for data races. A
 * race is a failure: two accesses, not both reads and not both atomic, that no
 * release and acquire order.
 *
 * STATES
 *
 * Different orders often lead to the same state. So each state in which a
 * decision is due is hashed to 64 bits and looked up among the states seen
 * before. If it was there, the execution is given up. The state is that of the
 * data, of the memory model, and of the threads. The local state of a thread
 * follows from all that the thread has read. So not the local state is hashed,
 * but what was read since the last model_pause() or model_turn() (t_history). A
 * preemption is a decision against a thread that could go on. Preemptions are
 * not bounded, except in the largest scenarios, which name a bound.
 *
 * MEMORY MODEL
 *
 * The memory model is that of C11 as repaired by Lahav et al. ("Repairing
 * sequential consistency in C/C++11", PLDI 2017), in the form of views. The
 * stores to a location have an order, mo (modification order). For each
 * location, a thread's view has the place in mo of the newest store that the
 * thread knows. A load may return that store or any later store, and moves the
 * view there. A release attaches the view to the store, as a message; an
 * acquire adds the message to its own view. This is "happens before"; and since
 * views only grow, loads are coherent. A relaxed store has a message without a
 * view. A read-modify-write passes on the message of the store that it replaces
 * (release sequences).
 *
 * A store may go anywhere in mo after the thread's view, so also before stores
 * that other threads have done earlier in the execution. But nothing comes
 * between a read-modify-write and the store that it has read.
 *
 * Sequentially consistent operations take effect in the order of the execution:
 * loads and stores come after the last such store to the location. C11 allows
 * more. There such a load may precede such a store in their order, although its
 * thread has seen, by a relaxed load, a value that was written after the store.
 * To explore this, a scenario has a relaxed load in place of the sequentially
 * consistent load.
 *
 * Sequentially consistent fences take effect in the order of the execution,
 * too. Each fence learns what earlier fences knew (sc_view), and the last
 * sequentially consistent stores; such loads and stores later in the execution
 * come after that. The fence learns places in mo, not what happens before, so
 * this alone hides no data race. A fence also acquires from all that the thread
 * has read relaxed (t_acquire). And it releases: relaxed stores after it have a
 * message with the view of the thread at the fence (t_release). Other loads and
 * stores do not know of fences, so a mixture of sequentially consistent
 * operations and fences may be ordered more than in C11.
 *
 * membarrier(2) is a fence of the caller; then a fence for each other thread,
 * wherever that is, one after the other in any order; then another fence of the
 * caller. Plain code runs in the order in which it is written. So compilers
 * that change this order elsewhere than across a light fence (fence.h) are not
 * explored.
 *
 * A loop that waits (model_pause()) goes on when a location that it has read
 * may have changed, and then sees the new value: stores arrive in finite time.
 * That a thread sees an old value in one turn is explored; in many turns, it is
 * not.
 *
 * Load buffering is not explored: a load that returns a store that comes later
 * in the execution. Compilers and machines keep control and data dependencies,
 * so this cannot happen where a branch or an address depends on the load. That
 * is so for all loads in our headers but one: a steal loads the item. The
 * orders deque R3 and A3 keep this load before the compare-and-swap, and are
 * not tested here.
 *
 * futex(2): the wait may read an old value, but none older than any wake before
 * it knew. As many waits as the scenario says (m_spurious) may return for no
 * reason.
 *
 * ANSWER
 *
 * A scenario fails by MUST(), by a data race, or when all threads that are left
 * sleep, since a wake was lost. Then the execution is listed (-v).
 */

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "usched.h"
#include "model.h"
#undef syscall

#define THREADS		MODEL_THREADS
#define LOCS		32		/* atomic locations */
#define STORES		40		/* to each, in one execution */
#define OPS		4000		/* in one execution */
#define CHOICES		8000
#define DATA		2048		/* bytes */
#define GRANULE		4		/* bytes that are checked together */
#define LANE		(64 << 10)
#define MEMBARRIER	(1 << 3)	/* private, expedited */

#if !defined(SYS_membarrier)
#define SYS_membarrier	(-2L)		/* never called */
#endif

/* Knowledge: a place in mo for each location, an epoch for each thread. */
struct message {
	uint8_t g_view[LOCS];
	uint8_t g_clock[THREADS];
};

struct store {
	uint64_t       s_value;
	struct message s_message;
	bool           s_replaced;	/* by the read-modify-write after it */
};

struct loc {
	const char  *l_at;		/* never changes */
	int          l_size;
	int          l_nr;		/* stores; 0: still as in the data */
	int          l_sc;		/* place of the last seq_cst store */
	int          l_futex;		/* the newest store that wakes knew */
	int          l_owner;		/* its only user, or SHARED */
	struct store l_store[STORES];	/* in mo */
};

#define SHARED	(-1)

enum state { RUNS, PAUSED, ASLEEP, ENDED };

struct thread {
	struct ustack  t_stack;
	enum state     t_state;
	bool           t_over;		/* its function has returned */
	int            t_futex;		/* the location of its futex wait */
	struct message t_now;
	struct message t_acquire;	/* an acquire fence will learn this */
	struct message t_release;	/* known at the last release fence */
	uint64_t       t_history;
	uint32_t       t_read;		/* locations read since last pause, */
	uint8_t        t_place[LOCS];	/* and the store read last in each */
};

/* The epoch in which each thread last accessed a granule; 0: never. */
struct shade {
	uint8_t d_write[THREADS];
	uint8_t d_read[THREADS];
	uint8_t d_atomic_write[THREADS];
	uint8_t d_atomic_read[THREADS];
};

struct choice {
	uint8_t c_nr;
	uint8_t c_pick;
};

struct op {
	int         o_thread;
	const char *o_what;
	int         o_loc;
	int         o_place;		/* in mo */
	int         o_nr;
	uint64_t    o_value;
};

static const struct model_scenario *scene;
static struct usched  sched;
static struct thread  threads[THREADS];
static int            thread_nr;
static struct thread *self;		/* NULL in m_init() and m_done() */
static struct loc     locs[LOCS];
static int            loc_nr;
static struct shade   shades[DATA / GRANULE];
static uint64_t       shaded[DATA / GRANULE / 64];	/* bit: not all 0 */
static bool           fenced;		/* the scenario has fences */
static struct message sc_view;		/* what fences know: places only */
static struct choice  choices[CHOICES];
static int            choice_nr, choice_at;
static struct op      ops[OPS];
static int            op_nr;
static int            spurious;
static int            bound;		/* of preemptions, or MODEL_ANY */
static int            preempted;
static struct thread *last;		/* the thread that ran last */
static bool           given_up;
static bool           again;		/* start the search again */
static char           failure[200];
static bool           verbose;

static struct {
	const void *at;
	const char *name;
} names[LOCS * 2];
static int name_nr;

/* The states that were seen, by open addressing. */
static uint64_t *seen;
static size_t    seen_nr, seen_size;

static void stop(const char *why)
{
	fprintf(stderr, "model: %s\n", why);
	exit(2);
}

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t mix_all(uint64_t h, const void *at, size_t nob)
{
	const char *p = at;
	uint64_t word = 0;

	for (; nob >= sizeof word; p += sizeof word, nob -= sizeof word) {
		memcpy(&word, p, sizeof word);
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, p, nob);
	return mix(h, word);
}

static bool is_new(uint64_t h)
{
	size_t i;

	if (seen_nr * 2 >= seen_size) {
		uint64_t *old = seen;
		size_t was = seen_size;

		seen_size = was ? was * 2 : 1 << 16;
		seen = calloc(seen_size, sizeof *seen);
		if (seen == NULL)
			stop("no memory");
		for (seen_nr = 0, i = 0; i < was; i++)
			if (old[i] != 0)
				is_new(old[i]);
		free(old);
	}
	h += h == 0;
	for (i = h & (seen_size - 1); seen[i] != 0;
	     i = (i + 1) & (seen_size - 1))
		if (seen[i] == h)
			return false;
	seen[i] = h;
	seen_nr++;
	return true;
}

/* Decisions. */

static int choose(int nr)
{
	if (nr < 2)
		return 0;
	if (choice_at == choice_nr) {
		if (choice_nr == CHOICES)
			stop("CHOICES is too small");
		choices[choice_nr++] = (struct choice) { (uint8_t)nr, 0 };
	}
	if (choices[choice_at].c_nr != nr)
		stop("not the same when repeated");
	return choices[choice_at++].c_pick;
}

/* Turns to the next alternative. False: there is none. */
static bool backtrack(void)
{
	while (choice_nr > 0 &&
	       choices[choice_nr - 1].c_pick + 1 == choices[choice_nr - 1].c_nr)
		choice_nr--;
	if (choice_nr == 0)
		return false;
	choices[choice_nr - 1].c_pick++;
	return true;
}

/* Failures, and the listing. */

static const char *name_of(const void *at, char *text, size_t len)
{
	const char *data = scene->m_data;
	int i;

	for (i = 0; i < name_nr; i++)
		if (names[i].at == at)
			return names[i].name;
	if ((const char *)at >= data && (const char *)at < data + scene->m_size)
		snprintf(text, len, "data+%#lx",
			 (long)((const char *)at - data));
	else
		snprintf(text, len, "%ld", (long)(intptr_t)at);
	return text;
}

static void list(void)
{
	char place[40], value[40];
	int i;

	for (i = 0; i < op_nr; i++) {
		const struct op *o = &ops[i];

		printf("	thread %d  %-14s", o->o_thread, o->o_what);
		if (o->o_loc >= 0)
			printf(" %-22s %s",
			       name_of(locs[o->o_loc].l_at, place,
				       sizeof place),
			       name_of((void *)(uintptr_t)o->o_value, value,
				       sizeof value));
		if (o->o_place + 1 < o->o_nr)
			printf("  (%d before the last)",
			       o->o_nr - 1 - o->o_place);
		printf("\n");
	}
}

void model_fail(const char *what)
{
	if (failure[0] == 0)
		snprintf(failure, sizeof failure, "%s", what);
	given_up = true;
	if (self == NULL)
		return;
	self->t_state = ENDED;		/* next() ends the execution */
	for (;;)
		ustack_block();
}

static void race(const char *at, int other)
{
	char text[sizeof failure], place[40];

	snprintf(text, sizeof text, "data race with thread %d at %s", other,
		 name_of(at, place, sizeof place));
	model_fail(text);
}

void model_name(const void *at, const char *name)
{
	int i;

	for (i = 0; i < name_nr; i++)
		if (names[i].at == at)
			return;
	if (name_nr < LOCS * 2) {
		names[name_nr].at = at;
		names[name_nr++].name = name;
	}
}

static void note(const char *what, int loc, int place, uint64_t value)
{
	if (op_nr == OPS)
		stop("OPS is too small, or a loop has no model_pause()");
	ops[op_nr++] = (struct op) { (int)(self - threads), what, loc, place,
		loc < 0 ? 0 : locs[loc].l_nr, value };
	/* The operation is part of the state, even if it changes nothing. */
	self->t_history = mix(self->t_history, (uintptr_t)what);
}

/* Plain accesses, and data races. */

static bool is_data(const void *at)
{
	const char *data = scene->m_data;

	return (const char *)at >= data &&
	       (const char *)at < data + scene->m_size;
}

/* Fails if an access in by, to a granule, does not happen before self's. */
static void against(const uint8_t *by, const char *at)
{
	int i;

	for (i = 0; i < thread_nr; i++)
		if (by[i] > self->t_now.g_clock[i])
			race(at, i);
}

static void touch(const char *at, int size, bool write, bool atomic)
{
	int me = (int)(self - threads);
	uint8_t now = self->t_now.g_clock[me];
	const char *end = at + size;

	for (; at < end; at += GRANULE) {
		long nr = (at - (char *)scene->m_data) / GRANULE;
		struct shade *d = &shades[nr];

		shaded[nr / 64] |= 1ull << nr % 64;
		against(d->d_write, at);
		if (!atomic)
			against(d->d_atomic_write, at);
		if (write) {
			against(d->d_read, at);
			if (!atomic)
				against(d->d_atomic_read, at);
		}
		if (write)
			(atomic ? d->d_atomic_write : d->d_write)[me] = now;
		else
			(atomic ? d->d_atomic_read : d->d_read)[me] = now;
	}
}

/* Makes the location plain memory again: views of it mean nothing any more. */
static void loc_forget(int loc)
{
	int i, j;

	locs[loc].l_nr = locs[loc].l_sc = locs[loc].l_futex = 0;
	for (i = 0; i < thread_nr; i++) {
		threads[i].t_now.g_view[loc] = threads[i].t_place[loc] = 0;
		threads[i].t_acquire.g_view[loc] = 0;
		threads[i].t_release.g_view[loc] = 0;
	}
	sc_view.g_view[loc] = 0;
	for (i = 0; i < loc_nr; i++)
		for (j = 0; j < locs[i].l_nr; j++)
			locs[i].l_store[j].s_message.g_view[loc] = 0;
}

/* Called before the access. The old value counts as read. */
static void plain(const char *at, int size, bool write)
{
	int i;

	if (self == NULL || !is_data(at))
		return;
	touch(at, size, write, false);
	self->t_history = mix(self->t_history, (uintptr_t)at * 2 + write);
	self->t_history = mix_all(self->t_history, at, size);
	for (i = 0; write && i < loc_nr; i++)
		if (locs[i].l_at < at + size &&
		    locs[i].l_at + locs[i].l_size > at)
			loc_forget(i);
}

/* Atomic operations. */

static uint64_t memory_get(const void *at, int size)
{
	switch (size) {
	case 1:	return *(const uint8_t *)at;
	case 2:	return *(const uint16_t *)at;
	case 4:	return *(const uint32_t *)at;
	case 8:	return *(const uint64_t *)at;
	}
	stop("an atomic operation of this size is not known");
	return 0;
}

static void memory_set(void *at, int size, uint64_t value)
{
	switch (size) {
	case 1:	*(uint8_t *)at  = (uint8_t)value; break;
	case 2:	*(uint16_t *)at = (uint16_t)value; break;
	case 4:	*(uint32_t *)at = (uint32_t)value; break;
	case 8:	*(uint64_t *)at = value; break;
	}
}

static int loc_of(const void *at, int size)
{
	struct loc *l;
	int i;

	for (i = 0; i < loc_nr && locs[i].l_at != at; i++)
		;
	if (i == LOCS)
		stop("LOCS is too small");
	l = &locs[i];
	if (i == loc_nr) {
		loc_nr++;
		*l = (struct loc) { .l_at = at, .l_size = size,
			.l_owner = (int)(self - threads) };
	}
	if (l->l_nr == 0) {
		memset(&l->l_store[0], 0, sizeof l->l_store[0]);
		l->l_store[0].s_value = memory_get(at, size);
		l->l_nr = 1;
	}
	return i;
}

static bool acquires(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME ||
	       order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
	       order == __ATOMIC_SEQ_CST;
}

static void learn(struct message *to, const struct message *from)
{
	int i;

	for (i = 0; i < LOCS; i++)
		if (to->g_view[i] < from->g_view[i])
			to->g_view[i] = from->g_view[i];
	for (i = 0; i < THREADS; i++)
		if (to->g_clock[i] < from->g_clock[i])
			to->g_clock[i] = from->g_clock[i];
}

/* Returns the first store that self may read, or that its store may follow. */
static int lowest(int loc, int order)
{
	int low = self->t_now.g_view[loc];

	if (order == __ATOMIC_SEQ_CST && low < locs[loc].l_sc)
		low = locs[loc].l_sc;
	if (order == __ATOMIC_SEQ_CST && low < sc_view.g_view[loc])
		low = sc_view.g_view[loc];
	return low;
}

/* Gives self, which has read a store, the message of that store. */
static void receive(const struct message *from, int order)
{
	if (acquires(order))
		learn(&self->t_now, from);
	else if (fenced)
		learn(&self->t_acquire, from);
}

static void remember(int loc, int place)
{
	self->t_now.g_view[loc] = (uint8_t)place;
	self->t_read |= 1u << loc;
	self->t_place[loc] = (uint8_t)place;
	self->t_history = mix(self->t_history, (uint64_t)loc + 1);
	self->t_history = mix(self->t_history,
			      locs[loc].l_store[place].s_value);
}

/* Chooses a store from low on, the last first. whole: also replaced stores. */
static int choose_from(int loc, int low, bool whole)
{
	const struct loc *l = &locs[loc];
	int nr = 0;
	int i;

	for (i = low; i < l->l_nr; i++)
		nr += whole || !l->l_store[i].s_replaced;
	nr = choose(nr);
	for (i = l->l_nr - 1; ; i--)
		if ((whole || !l->l_store[i].s_replaced) && nr-- == 0)
			return i;
}

static void shift(uint8_t *view, int place)
{
	if (*view >= place)
		++*view;
}

/* Makes a place in mo, and moves all views that point behind it. */
static struct store *mo_insert(int loc, int place)
{
	struct loc *l = &locs[loc];
	int i, j;

	if (l->l_nr == STORES)
		stop("STORES is too small");
	for (i = 0; i < thread_nr; i++) {
		shift(&threads[i].t_now.g_view[loc], place);
		shift(&threads[i].t_acquire.g_view[loc], place);
		shift(&threads[i].t_release.g_view[loc], place);
		shift(&threads[i].t_place[loc], place);
	}
	shift(&sc_view.g_view[loc], place);
	for (i = 0; i < loc_nr; i++)
		for (j = 0; j < locs[i].l_nr; j++)
			shift(&locs[i].l_store[j].s_message.g_view[loc], place);
	l->l_sc    += l->l_sc >= place;
	l->l_futex += l->l_futex >= place;
	memmove(&l->l_store[place + 1], &l->l_store[place],
		(l->l_nr - place) * sizeof l->l_store[0]);
	l->l_nr++;
	memset(&l->l_store[place], 0, sizeof l->l_store[0]);
	return &l->l_store[place];
}

/* Begins an epoch: later accesses of t are not part of its last release. */
static void new_epoch(struct thread *t)
{
	if (++t->t_now.g_clock[t - threads] == 0)
		stop("too many epochs");
}

static void store_at(int loc, int place, uint64_t value, int order,
		     const struct message *passed)
{
	struct loc *l = &locs[loc];
	struct store *s = mo_insert(loc, place);

	s->s_value = value;
	self->t_now.g_view[loc] = self->t_place[loc] = (uint8_t)place;
	if (passed != NULL)
		s->s_message = *passed;
	learn(&s->s_message, &self->t_release);
	if (releases(order)) {
		learn(&s->s_message, &self->t_now);
		new_epoch(self);
	}
	s->s_message.g_view[loc] = (uint8_t)place;
	if (order == __ATOMIC_SEQ_CST)
		l->l_sc = place;
	memory_set((void *)l->l_at, l->l_size, l->l_store[l->l_nr - 1].s_value);
}

/*
 * Lets other threads run, unless only this thread uses the location. If a
 * second thread uses it for the first time, the search starts again.
 */
static int point(const void *at, int size)
{
	int loc = loc_of(at, size);

	if (locs[loc].l_owner != (int)(self - threads) &&
	    locs[loc].l_owner != SHARED) {
		locs[loc].l_owner = SHARED;
		again = given_up = true;
	}
	if (locs[loc].l_owner == SHARED)
		ustack_block();
	return loc_of(at, size);
}

static uint64_t atomic_load(const void *at, int size, int order)
{
	int loc, place;

	if (self == NULL || !is_data(at))
		return memory_get(at, size);
	loc = point(at, size);
	touch(at, size, false, true);
	place = choose_from(loc, lowest(loc, order), true);
	remember(loc, place);
	receive(&locs[loc].l_store[place].s_message, order);
	note("load", loc, place, locs[loc].l_store[place].s_value);
	return locs[loc].l_store[place].s_value;
}

static void atomic_store(void *at, int size, uint64_t value, int order)
{
	int loc, place;

	if (self == NULL || !is_data(at)) {
		memory_set(at, size, value);
		return;
	}
	loc = point(at, size);
	touch(at, size, true, true);
	place = choose_from(loc, lowest(loc, order), false) + 1;
	store_at(loc, place, value, order, NULL);
	note("store", loc, place, value);
}

enum rmw { EXCHANGE, ADD, SUB, AND, OR, XOR, COMPARE };

static uint64_t changed(uint64_t was, enum rmw how, uint64_t by)
{
	switch (how) {
	case ADD: return was + by;
	case SUB: return was - by;
	case AND: return was & by;
	case OR:  return was | by;
	case XOR: return was ^ by;
	default:  return by;
	}
}

static uint64_t cut(uint64_t value, int size)
{
	return size == 8 ? value : value & ((1ull << size * 8) - 1);
}

/* Returns the old value. COMPARE stores only if that is expected. */
static uint64_t atomic_rmw(void *at, int size, enum rmw how, uint64_t by,
			   int order, uint64_t expected, int failed)
{
	static const char *const what[] = { "exchange", "add", "sub", "and",
		"or", "xor", "compare+store" };
	struct message passed;
	uint64_t was;
	int loc, place;

	if (self == NULL || !is_data(at)) {
		was = memory_get(at, size);
		if (how != COMPARE || was == expected)
			memory_set(at, size, changed(was, how, by));
		return was;
	}
	loc = point(at, size);
	touch(at, size, true, true);
	place = choose_from(loc, lowest(loc, order), how == COMPARE);
	was = locs[loc].l_store[place].s_value;
	if (how == COMPARE && was == expected &&
	    locs[loc].l_store[place].s_replaced) {
		given_up = true;	/* this execution is impossible */
		for (;;)
			ustack_block();
	}
	remember(loc, place);
	if (how == COMPARE && was != expected)
		order = failed;
	passed = locs[loc].l_store[place].s_message;
	receive(&passed, order);
	if (how == COMPARE && was != expected) {
		note("compare", loc, place, was);
		return was;
	}
	locs[loc].l_store[place].s_replaced = true;
	by = cut(changed(was, how, by), size);
	store_at(loc, place + 1, by, order, &passed);
	note(what[how], loc, place + 1, by);
	return was;
}

/* Fences. */

/* A fence of t, which need not be self and does not notice. */
static void fence(struct thread *t, int order)
{
	uint8_t *view = t->t_now.g_view;
	int i;

	if (acquires(order))
		learn(&t->t_now, &t->t_acquire);
	for (i = 0; order == __ATOMIC_SEQ_CST && i < loc_nr; i++) {
		if (view[i] < locs[i].l_sc)
			view[i] = (uint8_t)locs[i].l_sc;
		if (view[i] < sc_view.g_view[i])
			view[i] = sc_view.g_view[i];
		sc_view.g_view[i] = view[i];
	}
	if (releases(order)) {
		t->t_release = t->t_now;
		new_epoch(t);
	}
}

/* Like point(). At the first fence the search starts again, with t_acquire. */
static void fence_point(void)
{
	again |= !fenced;
	given_up |= !fenced;
	fenced = true;
	ustack_block();
}

static void thread_fence(int order)
{
	if (self == NULL)
		return;
	fence_point();
	fence(self, order);
	note("fence", -1, 0, 0);
}

/*
 * Returns the thread of the set before which nr threads of the set are skipped.
 */
static int pick(unsigned set, int nr)
{
	int i;

	for (i = 0; !(set & 1u << i) || nr-- > 0; i++)
		;
	return i;
}

static const char *const interrupts[THREADS] = {
	"fence in 0", "fence in 1", "fence in 2", "fence in 3"
};

static void membarrier(void)
{
	unsigned left = ((1u << thread_nr) - 1) & ~(1u << (self - threads));
	int i;

	thread_fence(__ATOMIC_SEQ_CST);
	while (left != 0) {
		ustack_block();
		i = pick(left, choose(__builtin_popcount(left)));
		left &= ~(1u << i);
		fence(&threads[i], __ATOMIC_SEQ_CST);
		note(interrupts[i], -1, 0, 0);
	}
	thread_fence(__ATOMIC_SEQ_CST);
}

/* futex(2). */

static void futex_wait(const int *word, int value)
{
	int loc, low, place;

	loc = point(word, sizeof *word);
	touch((const char *)word, sizeof *word, false, true);
	low = lowest(loc, __ATOMIC_RELAXED);
	if (low < locs[loc].l_futex)
		low = locs[loc].l_futex;
	place = choose_from(loc, low, true);
	remember(loc, place);
	note("futex wait", loc, place, locs[loc].l_store[place].s_value);
	if ((int)locs[loc].l_store[place].s_value != value)
		return;
	self->t_state = ASLEEP;
	self->t_futex = loc;
	ustack_block();
	note("awake", loc, locs[loc].l_nr, 0);
}

static void futex_wake(const int *word)
{
	int loc, i;

	loc = point(word, sizeof *word);
	note("futex wake", loc, locs[loc].l_nr, 0);
	if (locs[loc].l_futex < self->t_now.g_view[loc])
		locs[loc].l_futex = self->t_now.g_view[loc];
	for (i = 0; i < thread_nr; i++)
		if (threads[i].t_state == ASLEEP && threads[i].t_futex == loc)
			threads[i].t_state = RUNS;
}

/*
 * Any futex(2) with an even op waits, with an odd op wakes: FUTEX_WAIT is 0,
 * FUTEX_WAKE is 1. membarrier(2) has the two commands that fence.h uses:
 * register, and private expedited.
 */
long model_syscall(long nr, ...)
{
	int *word, op, value;
	va_list args;

	va_start(args, nr);
	if (nr == SYS_membarrier) {
		op = va_arg(args, int);
		va_end(args);
		if (self != NULL && op == MEMBARRIER)
			membarrier();
		return 0;
	}
	word  = va_arg(args, int *);
	op    = va_arg(args, int);
	value = va_arg(args, int);
	va_end(args);
	if (self == NULL)
		return 0;
	if ((op & 1) == 0)
		futex_wait(word, value);
	else
		futex_wake(word);
	return 0;
}

void model_turn(int site)
{
	if (self == NULL)
		return;
	self->t_history = mix(0, (uint64_t)site);
	self->t_read    = 0;
}

/* All that self has read since the last pause, it now sees at its newest. */
static void catch_up(void)
{
	int i;

	for (i = 0; i < loc_nr; i++)
		if (self->t_read & 1u << i && locs[i].l_nr > 0)
			self->t_now.g_view[i] = (uint8_t)(locs[i].l_nr - 1);
	self->t_read = 0;
}

void model_pause(int site)
{
	if (self == NULL)
		return;
	note("pause", -1, 0, 0);
	self->t_state = PAUSED;
	self->t_history = mix(0, (uint64_t)site);
	ustack_block();
	catch_up();
}

/* The dispatcher's side. */

/*
 * Tells whether a location that t has read since the last pause has a newer
 * store.
 */
static bool has_news(const struct thread *t)
{
	int i;

	for (i = 0; i < loc_nr; i++)
		if (t->t_read & 1u << i && locs[i].l_nr - 1 > t->t_place[i])
			return true;
	return false;
}

static bool can_run(const struct thread *t)
{
	return t->t_state == RUNS || (t->t_state == PAUSED && has_news(t)) ||
	       (t->t_state == ASLEEP && spurious < scene->m_spurious);
}

/* Stores before this place cannot be read any more, so the state is without. */
static int oldest(int loc)
{
	int low = locs[loc].l_nr - 1;
	int i;

	for (i = 0; i < thread_nr; i++)
		if (threads[i].t_state != ENDED &&
		    low > threads[i].t_now.g_view[loc])
			low = threads[i].t_now.g_view[loc];
	return low;
}

static const struct shade *next_shade(const struct shade *d)
{
	size_t nr = d != NULL ? (size_t)(d - shades) + 1 : 0;
	uint64_t rest;

	for (; nr < DATA / GRANULE; nr = (nr | 63) + 1) {
		rest = shaded[nr / 64] >> nr % 64;
		if (rest != 0)
			return &shades[nr + (size_t)__builtin_ctzll(rest)];
	}
	return NULL;
}

/*
 * Only the order of a thread's epochs matters. So each counts by its rank among
 * the epochs that are noted anywhere.
 */
static uint8_t rank[THREADS][256];

static void rank_clock(const uint8_t *clock)
{
	int i;

	for (i = 0; i < thread_nr; i++)
		rank[i][clock[i]] = 1;
}

static void rank_all(const uint8_t *base)
{
	const struct shade *d;
	int i, j;

	memset(rank, 0, sizeof rank);
	for (d = NULL; (d = next_shade(d)) != NULL; ) {
		rank_clock(d->d_write);
		rank_clock(d->d_read);
		rank_clock(d->d_atomic_write);
		rank_clock(d->d_atomic_read);
	}
	for (i = 0; i < loc_nr; i++)
		for (j = base[i]; j < locs[i].l_nr; j++)
			rank_clock(locs[i].l_store[j].s_message.g_clock);
	for (i = 0; i < thread_nr; i++) {
		rank_clock(threads[i].t_now.g_clock);
		rank_clock(threads[i].t_acquire.g_clock);
		rank_clock(threads[i].t_release.g_clock);
	}
	for (i = 0; i < thread_nr; i++) {
		uint8_t next = 0;

		for (j = 0; j <= threads[i].t_now.g_clock[i]; j++)
			if (rank[i][j] != 0)
				rank[i][j] = next++;
	}
}

static uint64_t mix_clock(uint64_t h, const uint8_t *clock)
{
	uint8_t ranks[THREADS] = { 0 };
	int i;

	for (i = 0; i < thread_nr; i++)
		ranks[i] = rank[i][clock[i]];
	return mix_all(h, ranks, sizeof ranks);
}

static uint64_t mix_shades(uint64_t h)
{
	const struct shade *d;

	for (d = NULL; (d = next_shade(d)) != NULL; ) {
		h = mix(h, (uint64_t)(d - shades));
		h = mix_clock(h, d->d_write);
		h = mix_clock(h, d->d_read);
		h = mix_clock(h, d->d_atomic_write);
		h = mix_clock(h, d->d_atomic_read);
	}
	return h;
}

static uint64_t mix_message(uint64_t h, const struct message *g,
			    const uint8_t *base)
{
	int i;

	for (i = 0; i < loc_nr; i++)
		h = mix(h, g->g_view[i] > base[i] ? g->g_view[i] - base[i] : 0);
	return mix_clock(h, g->g_clock);
}

static uint64_t mix_loc(uint64_t h, const struct loc *l, const uint8_t *bases)
{
	int base = bases[l - locs];
	int i;

	h = mix(h, ((uint64_t)(l - locs) << 32) + (l->l_nr - base));
	h = mix(h, l->l_sc > base ? l->l_sc - base : 0);
	h = mix(h, l->l_futex > base ? l->l_futex - base : 0);
	for (i = base; i < l->l_nr; i++) {
		h = mix(h, l->l_store[i].s_value);
		h = mix(h, l->l_store[i].s_replaced);
		h = mix_message(h, &l->l_store[i].s_message, bases);
	}
	return h;
}

static uint64_t mix_thread(uint64_t h, const struct thread *t,
			   const uint8_t *bases)
{
	int i;

	h = mix(h, (uint64_t)t->t_state << 32 | t->t_read);
	if (t->t_state == ENDED)
		return h;
	for (i = 0; i < loc_nr; i++)
		if (t->t_read & 1u << i)
			h = mix(h, locs[i].l_nr - t->t_place[i]);
	h = mix(h, t->t_history);
	h = mix(h, t->t_state == ASLEEP ? t->t_futex : 0);
	if (fenced) {
		h = mix_message(h, &t->t_acquire, bases);
		h = mix_message(h, &t->t_release, bases);
	}
	return mix_message(h, &t->t_now, bases);
}

static uint64_t hash(void)
{
	uint64_t h = mix_all((uint64_t)spurious, scene->m_data, scene->m_size);
	uint8_t bases[LOCS] = { 0 };
	int i;

	for (i = 0; i < loc_nr; i++)
		if (locs[i].l_nr > 0)
			bases[i] = (uint8_t)oldest(i);
	rank_all(bases);
	if (bound != MODEL_ANY)
		h = mix(h, (uint64_t)preempted * THREADS + (uint64_t)
			(last != NULL ? last - threads + 1 : 0));
	for (i = 0; i < loc_nr; i++)
		if (locs[i].l_nr > 1)
			h = mix_loc(h, &locs[i], bases);
	for (i = 0; i < thread_nr; i++)
		h = mix_thread(h, &threads[i], bases);
	if (fenced)
		h = mix_message(h, &sc_view, bases);
	return mix_shades(h);
}

static bool may_preempt(const struct thread *t)
{
	return bound == MODEL_ANY || preempted < bound || last == NULL ||
	       t == last || last->t_state != RUNS;
}

static struct ustack *next(struct usched *s)
{
	struct thread *can[THREADS];
	int nr = 0, left = 0;
	int i;

	(void)s;
	self = NULL;
	if (given_up)
		return NULL;
	for (i = 0; i < thread_nr; i++) {
		left += threads[i].t_state != ENDED;
		if (can_run(&threads[i]) && may_preempt(&threads[i]))
			can[nr++] = &threads[i];
	}
	if (nr == 0) {
		if (left != 0)
			model_fail("all threads that are left sleep");
		return NULL;
	}
	/* Not while old decisions are repeated. */
	if (choice_at == choice_nr && !is_new(hash())) {
		given_up = true;
		return NULL;
	}
	self = can[choose(nr)];
	preempted += last != NULL && last != self && last->t_state == RUNS;
	last = self;
	spurious += self->t_state == ASLEEP;
	self->t_state = RUNS;
	return &self->t_stack;
}

static void *buf_alloc(struct usched *s, int size)
{
	(void)s;
	return malloc((size_t)size);
}

static void buf_free(struct usched *s, void *buf, int size)
{
	(void)s;
	(void)size;
	free(buf);
}

static void done(struct usched *s, struct ustack *u)
{
	(void)s;
	((struct thread *)u)->t_state = ENDED;
	((struct thread *)u)->t_over  = true;
}

static void body(void *arg)
{
	self->t_history = 1;
	((void (*)(void))(uintptr_t)arg)();
}

/* Runs one execution. True: to its end. */
static bool run(void)
{
	int i;

	self = NULL;
	given_up = false;
	choice_at = op_nr = spurious = preempted = 0;
	last = NULL;
	memset(scene->m_data, 0, scene->m_size);
	memset(shades, 0, sizeof shades);
	memset(shaded, 0, sizeof shaded);
	memset(threads, 0, sizeof threads);
	memset(&sc_view, 0, sizeof sc_view);
	for (i = 0; i < loc_nr; i++)
		locs[i].l_nr = locs[i].l_sc = locs[i].l_futex = 0;
	scene->m_init();
	for (i = 0; i < thread_nr; i++) {
		threads[i].t_now.g_clock[i] = 1;
		ustack_init(&threads[i].t_stack, &sched, body,
			    (void *)(uintptr_t)scene->m_thread[i], NULL, 0);
	}
	usched_run(&sched);
	self = NULL;
	for (i = 0; i < thread_nr; i++) {
		if (!threads[i].t_over)
			ustack_fini(&threads[i].t_stack);
		free(threads[i].t_stack.u_stack);
	}
	if (!given_up && scene->m_done != NULL)
		scene->m_done();
	return !given_up;
}

/* Forgets all decisions and states. */
static bool start(void)
{
	again = false;
	choice_nr = 0;
	free(seen);
	seen = NULL;
	seen_nr = seen_size = 0;
	return true;
}

/* Checks a scenario. True: no execution fails. */
static bool check(const struct model_scenario *m)
{
	long whole = 0, parts = 0;

	scene = m;
	loc_nr = name_nr = 0;
	fenced = false;
	failure[0] = 0;
	start();
	if (m->m_size > DATA)
		stop("DATA is too small");
	for (thread_nr = 0; thread_nr < THREADS && m->m_thread[thread_nr];
	     thread_nr++)
		;
	do {
		if (run())
			whole++;
		else
			parts++;
		if (again)
			whole = parts = 0;
	} while (failure[0] == 0 && (again ? start() : backtrack()));
	if (failure[0] == 0 && whole == 0)
		stop("no execution came to its end");
	printf("%-41s %8ld executions %8zu states", m->m_name, whole + parts,
	       seen_nr);
	if (bound != MODEL_ANY)
		printf(", %d preemptions", bound);
	printf(": %s\n", failure[0] ? failure : "holds");
	if (failure[0] != 0 && verbose)
		list();
	fflush(stdout);
	return failure[0] == 0;
}

/*
 * Returns 0 if all hold; 1 if a scenario fails, and the others were not tried.
 */
int main(int argc, char **argv)
{
	const struct model_scenario *m;
	const char *only = NULL;
	bool full = false;
	int most = MODEL_NOT;	/* none given */
	int rc;

	while (--argc > 0) {
		if (strcmp(*++argv, "-v") == 0)
			verbose = true;
		else if (strcmp(*argv, "--full") == 0)
			full = true;
		else if (strcmp(*argv, "--bound") == 0 && argc-- > 1)
			most = atoi(*++argv);
		else
			only = *argv;
	}
	sched = (struct usched) { .s_next = next, .s_alloc = buf_alloc,
		.s_free = buf_free, .s_done = done };
	rc = usched_lanes(&sched, THREADS, LANE);
	if (rc != 0 && rc != -ENOSYS)
		stop("no lanes");
	for (m = scenarios; m->m_name != NULL; m++) {
		bound = !full ? m->m_quick : most != MODEL_NOT ? most :
			m->m_most;
		if (bound != MODEL_NOT &&
		    (only == NULL || strstr(m->m_name, only) != NULL) &&
		    !check(m))
			return 1;
	}
	usched_fini(&sched);
	return 0;
}

/* The calls that -fsanitize=thread makes for the accesses of a scenario. */

#define TSAN_PLAIN(size)						\
void __tsan_read##size(void *at);					\
void __tsan_read##size(void *at) { plain(at, size, false); }		\
void __tsan_write##size(void *at);					\
void __tsan_write##size(void *at) { plain(at, size, true); }		\
void __tsan_unaligned_read##size(void *at);				\
void __tsan_unaligned_read##size(void *at) { plain(at, size, false); }	\
void __tsan_unaligned_write##size(void *at);				\
void __tsan_unaligned_write##size(void *at) { plain(at, size, true); }

TSAN_PLAIN(1)
TSAN_PLAIN(2)
TSAN_PLAIN(4)
TSAN_PLAIN(8)
TSAN_PLAIN(16)

void __tsan_read_range(void *at, unsigned long size);
void __tsan_read_range(void *at, unsigned long size)
{
	plain(at, (int)size, false);
}

void __tsan_write_range(void *at, unsigned long size);
void __tsan_write_range(void *at, unsigned long size)
{
	plain(at, (int)size, true);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from)
{
	(void)from;
}

void __tsan_func_exit(void *from);
void __tsan_func_exit(void *from)
{
	(void)from;
}

#define TSAN_RMW(bits, type, name, how)					\
type __tsan_atomic##bits##_##name(volatile type *at, type by, int order); \
type __tsan_atomic##bits##_##name(volatile type *at, type by, int order) \
{									\
	return (type)atomic_rmw((void *)at, bits / 8, how, (uint64_t)by, \
				order, 0, 0);				\
}

#define TSAN_CAS(bits, type, name)					\
int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at,	\
	type *was, type by, int order, int failed);			\
int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at,	\
	type *was, type by, int order, int failed)			\
{									\
	type expected = *was;						\
									\
	*was = (type)atomic_rmw((void *)at, bits / 8, COMPARE,		\
		(uint64_t)by, order, cut((uint64_t)expected, bits / 8),	\
		failed);						\
	return *was == expected;					\
}

/* Clang calls this instead. */
#define TSAN_CAS_VAL(bits, type)					\
type __tsan_atomic##bits##_compare_exchange_val(volatile type *at,	\
	type was, type by, int order, int failed);			\
type __tsan_atomic##bits##_compare_exchange_val(volatile type *at,	\
	type was, type by, int order, int failed)			\
{									\
	return (type)atomic_rmw((void *)at, bits / 8, COMPARE,		\
		(uint64_t)by, order, cut((uint64_t)was, bits / 8),	\
		failed);						\
}

#define TSAN_ATOMIC(bits, type)						\
type __tsan_atomic##bits##_load(const volatile type *at, int order);	\
type __tsan_atomic##bits##_load(const volatile type *at, int order)	\
{									\
	return (type)atomic_load((const void *)at, bits / 8, order);	\
}									\
void __tsan_atomic##bits##_store(volatile type *at, type by, int order); \
void __tsan_atomic##bits##_store(volatile type *at, type by, int order) \
{									\
	atomic_store((void *)at, bits / 8, cut((uint64_t)by, bits / 8),	\
		     order);						\
}									\
TSAN_RMW(bits, type, exchange, EXCHANGE)				\
TSAN_RMW(bits, type, fetch_add, ADD)					\
TSAN_RMW(bits, type, fetch_sub, SUB)					\
TSAN_RMW(bits, type, fetch_and, AND)					\
TSAN_RMW(bits, type, fetch_or, OR)					\
TSAN_RMW(bits, type, fetch_xor, XOR)					\
TSAN_CAS(bits, type, strong)						\
TSAN_CAS(bits, type, weak)						\
TSAN_CAS_VAL(bits, type)

TSAN_ATOMIC(8, signed char)
TSAN_ATOMIC(16, short)
TSAN_ATOMIC(32, int)
TSAN_ATOMIC(64, long long)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	thread_fence(order);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
