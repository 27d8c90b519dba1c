/* SPDX-License-Identifier: MIT */
/* wheel.c: timers, in the wheel of wheel.h and in a 4-ary heap. */

/*
 *	wheel [ROUNDS [MOST]]
 *
 * CHURN: of N timers that are outstanding, a random timer is stopped and
 * started again. Deadlines are random within 60 s, or a constant 60 s from now
 * (keep-alive). Time goes on by 100 ns with each, and after 64 there is a look,
 * in which timers that are due are taken and started again. The table has ns
 * for a stop and a start together.
 *
 * EXPIRY: N random timers within 10 s all expire. There is a look at each tick
 * of the wheel. The table has ns for a start and its expiry, the longest single
 * take in us, and how late a timer was taken, in looks. The row "none" takes
 * nothing: its longest take is that of the machine. This is the worst case of
 * the wheel: all timers are in one slot, and neighbours in its list are not
 * neighbours in memory.
 *
 * Each number is the minimum of ROUNDS rounds, and their median. The rounds of
 * the wheel and of the heap alternate. N goes from 1,000 to MOST, by tens.
 *
 * A timer is a record of 64 bytes, as a wait is. The heap holds deadlines
 * beside pointers, so that a comparison does not touch the records; a record
 * knows its index. The array of the heap has room for all from the beginning.
 */

#include "bench.h"
#include "wheel.h"
#include <stdbool.h>

#define SHIFT	16
#define SECOND	1000000000ull
#define OPS	400000
#define LOOK	64		/* operations between two looks */
#define ROUNDS	200		/* at most */
#define MIX	387420489	/* 3^18: has no factor of powers of ten */
/* Two ticks before a slot begins that is longer than 10 s. */
#define BORDER	((1ull << (SHIFT + 18)) - (2ull << SHIFT))

struct timer {
	struct uwheel_node t_node;
	uint64_t           t_index;	/* in the heap */
	uint64_t           t_more[4];	/* of a wait */
};

struct entry {
	uint64_t      e_when;
	struct timer *e_timer;
};

static struct uwheel wheel;
static struct entry *heap;
static uint64_t heap_nr;
static unsigned long long state;
static uint64_t now, late;

static uint64_t ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* xorshift64*. Returns a number below nr. */
static uint64_t any(uint64_t nr)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint64_t)(((unsigned __int128)(state * 0x2545f4914f6cdd1dull) *
			   nr) >> 64);
}

/* The heap. */

static void heap_put(uint64_t i, struct entry e)
{
	heap[i] = e;
	e.e_timer->t_index = i;
}

static void heap_up(uint64_t i, struct entry e)
{
	for (; i > 0 && heap[(i - 1) / 4].e_when > e.e_when; i = (i - 1) / 4)
		heap_put(i, heap[(i - 1) / 4]);
	heap_put(i, e);
}

static void heap_down(uint64_t i, struct entry e)
{
	uint64_t child, least, end;

	for (; (child = 4 * i + 1) < heap_nr; i = least) {
		end = child + 4 < heap_nr ? child + 4 : heap_nr;
		for (least = child++; child < end; child++)
			if (heap[child].e_when < heap[least].e_when)
				least = child;
		if (heap[least].e_when >= e.e_when)
			break;
		heap_put(i, heap[least]);
	}
	heap_put(i, e);
}

static void heap_start(struct timer *t, uint64_t when)
{
	t->t_node.n_when = when;
	heap_up(heap_nr++, (struct entry){ when, t });
}

static void heap_stop(struct timer *t)
{
	uint64_t i = t->t_index;
	struct entry last = heap[--heap_nr];

	if (i == heap_nr)
		return;
	if (i > 0 && heap[(i - 1) / 4].e_when > last.e_when)
		heap_up(i, last);
	else
		heap_down(i, last);
}

static struct timer *heap_take(void)
{
	struct timer *t;

	if (heap_nr == 0 || heap[0].e_when > now)
		return NULL;
	t = heap[0].e_timer;
	heap_stop(t);
	return t;
}

/* The wheel. */

static void wheel_start(struct timer *t, uint64_t when)
{
	uwheel_start(&wheel, &t->t_node, when);
}

static void wheel_stop(struct timer *t)
{
	uwheel_stop(&wheel, &t->t_node);
}

static struct timer *wheel_take(void)
{
	return (struct timer *)uwheel_take(&wheel, now);
}

/* Nothing, to see what the machine does. */

static void none_start(struct timer *t, uint64_t when)
{
	t->t_node.n_when = when;
}

static struct timer *none_take(void)
{
	return NULL;
}

/* The measurements, inlined for each of them. */

#define INLINE static inline __attribute__((always_inline))

struct way {
	void          (*w_start)(struct timer *t, uint64_t when);
	void          (*w_stop)(struct timer *t);
	struct timer *(*w_take)(void);
};

INLINE uint64_t deadline(bool constant)
{
	return now + (constant ? 60 * SECOND : any(60 * SECOND));
}

INLINE void look(struct way w, bool constant)
{
	struct timer *t;

	while ((t = w.w_take()) != NULL)
		w.w_start(t, deadline(constant));
}

/* Returns ns for each. */
INLINE double churn(struct way w, struct timer *timer, uint64_t nr,
		    bool constant)
{
	uint64_t begun = ns();
	int i;

	for (i = 0; i < OPS; i++) {
		struct timer *t = &timer[any(nr)];

		w.w_stop(t);
		w.w_start(t, deadline(constant));
		now += 100;
		if (i % LOOK == 0)
			look(w, constant);
	}
	return (double)(ns() - begun) / OPS;
}

/* Takes once. Returns ns until then, and moves *before on. */
INLINE uint64_t timed_take(struct way w, struct timer **t, uint64_t *before)
{
	uint64_t then = *before;

	*t = w.w_take();
	*before = ns();
	return *before - then;
}

/* Returns ns for each, and the longest take. */
INLINE double expiry(struct way w, struct timer *timer, uint64_t nr,
		     uint64_t *longest)
{
	uint64_t begun, before, took, i;
	struct timer *t;

	*longest = late = 0;
	now = BORDER;
	begun = ns();
	for (i = 0; i < nr; i++)
		w.w_start(&timer[i * MIX % nr],
			  now + (2 << SHIFT) + any(10 * SECOND));
	before = ns();
	for (; now < BORDER + 12 * SECOND; now += 1 << SHIFT)
		do {
			took = timed_take(w, &t, &before);
			if (took > *longest)
				*longest = took;
			if (t != NULL && now - t->t_node.n_when > late)
				late = now - t->t_node.n_when;
		} while (t != NULL);
	return (double)(ns() - begun) / (double)nr;
}

static const struct way in_wheel = { wheel_start, wheel_stop, wheel_take };
static const struct way in_heap = { heap_start, heap_stop, heap_take };
static const struct way in_none = { none_start, NULL, none_take };

/* The tables. */

enum { WHEEL, HEAP, NONE, WAYS };

struct row {
	double r_value[ROUNDS];
	int    r_nr;
};

static void row_add(struct row *r, double value)
{
	int i = r->r_nr++;

	for (; i > 0 && r->r_value[i - 1] > value; i--)
		r->r_value[i] = r->r_value[i - 1];
	r->r_value[i] = value;
}

static void row_print(const struct row *r)
{
	printf("%9.1f %9.1f", r->r_value[0], r->r_value[r->r_nr / 2]);
}

static void begin(uint64_t at)
{
	now = at;
	heap_nr = 0;
	state = 88172645463325252ull;
	uwheel_init(&wheel, now, SHIFT);
}

static void churn_table(struct timer *timer[2], uint64_t nr, bool constant,
			int rounds)
{
	struct row row[2] = { { { 0 }, 0 } };
	uint64_t i;

	begin(0);
	for (i = 0; i < nr; i++) {
		wheel_start(&timer[WHEEL][i], deadline(constant));
		heap_start(&timer[HEAP][i], deadline(constant));
		now += constant ? SECOND / nr : 0;
	}
	while (rounds-- > 0) {
		row_add(&row[WHEEL], churn(in_wheel, timer[WHEEL], nr,
					   constant));
		row_add(&row[HEAP], churn(in_heap, timer[HEAP], nr, constant));
	}
	printf("%-10s %9llu", constant ? "keep-alive" : "random",
	       (unsigned long long)nr);
	row_print(&row[WHEEL]);
	row_print(&row[HEAP]);
	putchar('\n');
}

static void expiry_table(struct timer *timer, uint64_t nr, int rounds)
{
	static const char *const name[] = { "wheel", "heap", "none" };
	struct row row[WAYS] = { { { 0 }, 0 } }, step[WAYS] = { { { 0 }, 0 } };
	uint64_t longest[WAYS], most[WAYS] = { 0 };
	int i;

	for (; rounds > 0; rounds--) {
		begin(BORDER);
		row_add(&row[WHEEL], expiry(in_wheel, timer, nr, longest));
		most[WHEEL] = late;
		row_add(&row[HEAP], expiry(in_heap, timer, nr, longest + HEAP));
		most[HEAP] = late;
		row_add(&row[NONE], expiry(in_none, timer, nr, longest + NONE));
		for (i = 0; i < WAYS; i++)
			row_add(&step[i], (double)longest[i] / 1e3);
	}
	for (i = 0; i < WAYS; i++) {
		printf("%-10s %9llu", name[i], (unsigned long long)nr);
		row_print(&row[i]);
		row_print(&step[i]);
		printf(" %6llu\n", (unsigned long long)(most[i] >> SHIFT));
	}
}

static void tables(struct timer *timer[2], int rounds, uint64_t most)
{
	uint64_t nr;

	printf("churn: ns\n%-10s %9s%9s %9s%9s %9s\n", "deadlines", "N",
	       "wheel min", "median", "heap min", "median");
	for (nr = 1000; nr <= most; nr *= 10) {
		churn_table(timer, nr, false, rounds);
		churn_table(timer, nr, true, rounds);
	}
	printf("\nexpiry: ns a timer, longest take in us, looks late\n"
	       "%-10s %9s%9s %9s%9s %9s %6s\n", "", "N", "ns min", "median",
	       "us min", "median", "late");
	for (nr = 1000; nr <= most; nr *= 10)
		expiry_table(timer[WHEEL], nr, rounds);
}

int main(int argc, char **argv)
{
	struct timer *timer[2];
	int rounds = 9, most = 1000000;

	if (argc > 3 || (argc > 1 && !bench_number(argv[1], 1, &rounds)) ||
	    (argc > 2 && !bench_number(argv[2], 1000, &most)) ||
	    rounds > ROUNDS) {
		fprintf(stderr, "usage: %s [ROUNDS [MOST]]\n"
			"ROUNDS 1 to %d, MOST timers, 1000 or more\n",
			argv[0], ROUNDS);
		return BENCH_USAGE;
	}
	timer[WHEEL] = calloc((size_t)most, sizeof *timer[0]);
	timer[HEAP]  = calloc((size_t)most, sizeof *timer[0]);
	heap = calloc((size_t)most, sizeof *heap);
	if (timer[WHEEL] == NULL || timer[HEAP] == NULL || heap == NULL) {
		fprintf(stderr, "%s: out of memory\n", argv[0]);
		return BENCH_FAILED;
	}
	tables(timer, rounds, (uint64_t)most);
	return 0;
}
