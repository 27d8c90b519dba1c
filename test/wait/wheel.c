/* SPDX-License-Identifier: MIT */
/* wheel: wheel.h gives nodes when due, in order, in bounded steps. */
/* VARIANTS: once */

/*
 * Random starts, stops, takes and steps of time are compared with an array that
 * is searched for the first node. A node is never taken before its deadline,
 * nor left once its tick has come, except while a cascade moves nodes. Nodes
 * come in the order of ticks, then of starts. uwheel_next() is never too late,
 * and is after now when nothing is due; uwheel_next_exact() lies between it and
 * the first node. After each operation the invariants wheel W1 to W5 hold.
 * Deadlines are past, equal, near, far, and the largest numbers; time goes
 * forward by small and large steps, and back. Ticks are 1 ns and longer. All
 * levels are used.
 *
 * Then single claims: the edges of 64 bits, each pair of levels, the bound on
 * moves of a take, with stops and starts during the cascade. A node that is due
 * comes before the moves.
 */
#define UWHEEL_MOVES	8	/* small, so that operations meet cascades */
#include "check.h"
#include "wheel.h"

#define TIMERS	300
#define OPS	3000

static struct uwheel wheel;

static struct timer {
	struct uwheel_node t_node;
	uint64_t           t_tick;	/* wheel W1 */
	uint64_t           t_seq;	/* number of its start */
	int                t_in;	/* is in the wheel */
} timer[TIMERS];

static uint64_t now, seq;
static unsigned state;
static long used[UWHEEL_LEVELS];	/* nodes seen on each level */
static long moving[UWHEEL_LEVELS];	/* cascades seen out of each level */
static long stopped_moving;		/* stops in the list of a cascade */

static unsigned any(unsigned nr)
{
	return check_random(&state) % nr;
}

static uint64_t any64(void)
{
	uint64_t high = check_random(&state);

	return high << 32 | check_random(&state);
}

/* Returns a number of a random size. */
static uint64_t any_size(void)
{
	return any64() >> any(64);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a < b ? 0 : a - b;
}

/* Rounds up to ticks, in other words than wheel.h. */
static uint64_t round_up(uint64_t when)
{
	uint64_t size = 1ull << wheel.h_shift;

	return when / size + (when % size != 0);
}

/* Returns the time of a tick, or UINT64_MAX if it is never. */
static uint64_t time_of(uint64_t tick)
{
	uint64_t size = 1ull << wheel.h_shift;

	return tick > UINT64_MAX / size ? UINT64_MAX : tick * size;
}

/* The invariants. */

/* Where a node has to be: wheel W2. Compares digits, not bits. */
static int place(uint64_t tick)
{
	int level;

	for (level = 10; level > 0; level--)
		if (tick >> 6 * level != wheel.h_base >> 6 * level)
			break;
	return 64 * level + (int)((tick >> 6 * level) % 64);
}

static void check_node(int i, struct uwheel_node *n)
{
	struct timer *t = (struct timer *)n;
	int at = place(t->t_tick);

	CHECK(t->t_in && t->t_tick >= wheel.h_base);
	CHECK(t->t_tick == round_up(n->n_when) ||	/* wheel W1 */
	      (t->t_tick == wheel.h_base && round_up(n->n_when) < t->t_tick));
	if (i < UWHEEL_SLOTS) {
		CHECK_IS(at, i);				/* wheel W2 */
		used[i / 64]++;
	} else {
		CHECK_THAT(at / 64, <, wheel.h_below);		/* wheel W4 */
	}
}

/* Walks list i. Returns its number of nodes. */
static int check_list(int i)
{
	struct uwheel_node *last = wheel.h_last[i];
	struct uwheel_node *n = last->n_next;
	struct uwheel_node **prev = &wheel.h_last[i];
	uint64_t before = 0;
	int nr = 0;

	for (;; n = n->n_next) {
		CHECK_IS(n->n_prev, prev);			/* wheel W5 */
		check_node(i, n);
		CHECK(i == UWHEEL_SLOTS || i >= 64 ||
		      before < ((struct timer *)n)->t_seq);
		before = ((struct timer *)n)->t_seq;
		prev = &n->n_next;
		nr++;
		if (n == last)
			return nr;
	}
}

static void check_wheel(void)
{
	int nr = 0, in = 0;
	int i;

	for (i = 0; i < UWHEEL_SLOTS; i++)
		CHECK((wheel.h_last[i] != NULL) ==		/* wheel W3 */
		      (wheel.h_bits[i / 64] >> i % 64 & 1));
	for (i = 0; i < UWHEEL_LEVELS; i++)
		CHECK_IS(wheel.h_bits[i] != 0, wheel.h_levels >> i & 1);
	CHECK_IS(wheel.h_last[UWHEEL_SLOTS] != NULL, wheel.h_below != 0);
	for (i = 0; i <= UWHEEL_SLOTS; i++)
		nr += wheel.h_last[i] != NULL ? check_list(i) : 0;
	for (i = 0; i < TIMERS; i++) {
		in += timer[i].t_in;
		CHECK(timer[i].t_in || timer[i].t_node.n_prev == NULL);
	}
	CHECK(in == nr && uwheel_empty(&wheel) == (nr == 0));
	moving[wheel.h_below]++;
}

/* The model. */

static bool earlier(const struct timer *a, const struct timer *b)
{
	return a->t_tick < b->t_tick ||
	       (a->t_tick == b->t_tick && a->t_seq < b->t_seq);
}

static struct timer *earliest(void)
{
	struct timer *first = NULL;
	int i;

	for (i = 0; i < TIMERS; i++)
		if (timer[i].t_in && (!first || earlier(&timer[i], first)))
			first = &timer[i];
	return first;
}

static void check_next(void)
{
	struct timer *first = earliest();
	uint64_t next = uwheel_next(&wheel), exact = uwheel_next_exact(&wheel);

	CHECK_THAT(next, <=, exact);
	CHECK_THAT(exact, <=, first ? time_of(first->t_tick) : UINT64_MAX);
	CHECK(first || next == UINT64_MAX);
}

static void begin(uint64_t at, int shift)
{
	memset(timer, 0, sizeof timer);
	memset(&wheel, 0x5a, sizeof wheel);
	now = at;
	uwheel_init(&wheel, now, shift);
	CHECK(uwheel_empty(&wheel) && uwheel_next(&wheel) == UINT64_MAX);
	CHECK_IS(uwheel_take(&wheel, now), NULL);
}

static void start(struct timer *t, uint64_t when)
{
	uint64_t tick = round_up(when);

	t->t_tick = tick > wheel.h_base ? tick : wheel.h_base;
	t->t_seq  = ++seq;
	t->t_in   = 1;
	uwheel_start(&wheel, &t->t_node, when);
	CHECK(t->t_node.n_when == when && t->t_node.n_prev != NULL);
}

static void stop(struct timer *t)
{
	int was = wheel.h_below;

	uwheel_stop(&wheel, &t->t_node);
	stopped_moving += t->t_in && was != 0 &&
		(wheel.h_below == 0 || place(t->t_tick) / 64 < was);
	t->t_in = 0;
	CHECK_IS(t->t_node.n_prev, NULL);
}

/* Takes once, and compares. False: nothing, and nothing more is due. */
static bool take(void)
{
	struct uwheel_node *n = uwheel_take(&wheel, now);
	struct timer *t = (struct timer *)n;
	struct timer *first = earliest();

	if (t == NULL) {
		bool more = uwheel_next(&wheel) <= now;

		CHECK(more || !first || now == UINT64_MAX ||
		      time_of(first->t_tick) > now);
		return more && now != UINT64_MAX;
	}
	CHECK(n->n_when <= now && time_of(t->t_tick) <= now);
	CHECK(t == first && n->n_prev == NULL);
	t->t_in = 0;
	return true;
}

/* Takes all that is due; each node moves 10 times at most. */
static void take_all(void)
{
	int limit = 2 * TIMERS + 10 * TIMERS / UWHEEL_MOVES;

	while (take()) {
		CHECK_THAT(limit--, >, 0);
		check_wheel();
	}
	check_wheel();
}

/* Random operations. */

static uint64_t some_deadline(void)
{
	switch (any(8)) {
	case 0:
		return plus(now, any(100));
	case 1:
		return plus(now, (uint64_t)any(200) << wheel.h_shift);
	case 2:
		return minus(now, any_size());
	case 3:
	case 4:
		return timer[any(TIMERS)].t_node.n_when;
	case 5:
		return UINT64_MAX - any(3);
	case 6:
		return (1ull << any(64)) - any(2);
	default:
		return plus(now, any_size());
	}
}

static uint64_t some_time(void)
{
	struct timer *first = earliest();
	uint64_t next = uwheel_next(&wheel);

	switch (any(16)) {
	case 0:
		return minus(now, any_size());
	case 1:
		return plus(now, any_size());
	case 2:
		return next != UINT64_MAX ? minus(next, 1) : now;
	case 3:
		return first ? time_of(first->t_tick) : now;
	case 4:
	case 5:
		return next != UINT64_MAX ? next : now;
	case 6:
		return plus(now, (uint64_t)any(64) << wheel.h_shift);
	default:
		return plus(now, any(1000));
	}
}

static void step(int busy)
{
	struct timer *t = &timer[any(TIMERS)];
	unsigned what = any(100);

	if (what < 10)
		now = some_time();
	else if (what < 25)
		(void)take();
	else if (what < 28)
		take_all();
	else if (what < 45 || (t->t_in && what < 60))
		stop(t);
	else if (!t->t_in && (int)(t - timer) < busy)
		start(t, some_deadline());
}

static void at_random(int shift)
{
	int busy = 1 + (int)any(TIMERS);
	int i;

	begin(any(3) ? any_size() : (1ull << any(64)) - any(2), shift);
	for (i = 0; i < OPS; i++) {
		step(busy);
		check_wheel();
		check_next();
	}
	now = UINT64_MAX;
	take_all();
}

/* All that is due at the end of time, which no clock reaches, or never. */
static void edges(int shift)
{
	static const uint64_t when[] = {
		0, 1, UINT64_MAX / 2, UINT64_MAX / 2 + 1,
		UINT64_MAX - 65536, UINT64_MAX - 65535, UINT64_MAX - 65534,
		UINT64_MAX - 1, UINT64_MAX
	};
	int i, got = 0;

	begin(0, shift);
	for (i = COUNT(when) - 1; i >= 0; i--)
		start(&timer[i], when[i]);
	for (i = 0; i < COUNT(when); i++) {
		now = minus(when[i], 1);
		take_all();
		CHECK(i == 0 || timer[i].t_in ||
		      round_up(when[i]) == round_up(when[i - 1]));
		now = time_of(round_up(when[i]));
		take_all();
		got += !timer[i].t_in;
		check_next();
	}
	/* Rounded up, the last are at 2^64 ns. */
	CHECK_IS(got, shift == 0 ? 9 : 6);
	CHECK_IS(uwheel_empty(&wheel), shift == 0);
	CHECK(shift == 0 || uwheel_next(&wheel) == UINT64_MAX);
	for (i = 0; i < COUNT(when); i++)
		stop(&timer[i]);
	check_wheel();
}

/* From each level a node comes at its tick, not one before. */
static void levels(void)
{
	int up, down;

	for (up = 0; up < UWHEEL_LEVELS; up++)
		for (down = 0; down <= up; down++) {
			uint64_t when = 5ull << 6 * up | 3ull << 6 * down;

			begin(0, 0);
			start(&timer[0], when);
			check_wheel();
			while ((now = uwheel_next(&wheel)) < when) {
				CHECK_IS(uwheel_take(&wheel, now - 1), NULL);
				take_all();
			}
			CHECK(timer[0].t_in && now == when);
			take_all();
			CHECK(!timer[0].t_in);
		}
}

/* Returns the number of nodes in the list of the cascade. */
static int left(void)
{
	return wheel.h_below != 0 ? check_list(UWHEEL_SLOTS) : 0;
}

/* A node that is behind all others of its slot comes after bounded steps. */
static void bounded(int level)
{
	uint64_t from = 1ull << 6 * level;
	int looks = 0;
	int i, was;

	begin(0, 0);
	for (i = 0; i < TIMERS; i++)
		start(&timer[i], from + 63ull * (i < TIMERS - 1));
	now = from;
	for (was = TIMERS; timer[TIMERS - 1].t_in; was = left()) {
		(void)take();
		CHECK_THAT(was - left(), <=, UWHEEL_MOVES);
		CHECK(uwheel_next(&wheel) <= now || left() == 0);
		check_wheel();
		looks++;
	}
	CHECK_THAT(looks, <=, TIMERS / UWHEEL_MOVES + 1);
	now = from + 63;
	for (i = 0; i < TIMERS - 1; i++) {
		CHECK(timer[i].t_in);		/* first in, first out */
		CHECK(take());
		CHECK(!timer[i].t_in);
	}
}

/* Starts during a cascade keep the order, and let the cascade end. */
static void flood(void)
{
	int i, half = TIMERS / 2, looks = 0;

	begin(0, 0);
	for (i = 0; i < half; i++)
		start(&timer[i], 64 * 64 + 70);
	now = 64 * 64;
	(void)take();
	CHECK_IS(left(), half - UWHEEL_MOVES);
	for (i = half; wheel.h_below != 0; looks++) {
		int n;

		for (n = 0; n < UWHEEL_MOVES && i < TIMERS; n++, i++)
			start(&timer[i], 64 * 64 + 70);
		(void)take();
		check_wheel();
	}
	CHECK_THAT(looks, <=, half / UWHEEL_MOVES / 2 + 1);
	now = 64 * 64 + 70;
	take_all();
	CHECK(uwheel_empty(&wheel));
}

/* Starts during a cascade, of nodes that do not lie below its slot. */
static void above(void)
{
	int i;

	begin(0, 0);
	for (i = 0; i < 2 * UWHEEL_MOVES; i++)
		start(&timer[i], 64 * 64 + 64);
	now = 64 * 64;
	CHECK(take() && wheel.h_below == 2);
	start(&timer[i], 2 * 64 * 64 + 64);
	start(&timer[i + 1], 64 * 64 * 64);
	start(&timer[i + 2], 64 * 64 + 63);
	check_wheel();
	CHECK_IS(left(), UWHEEL_MOVES - 6 + 1);
	now = 64 * 64 * 64;
	take_all();
	CHECK(uwheel_empty(&wheel));
}

/* A node that is due does not wait for nodes that have to be moved. */
static void due_first(void)
{
	int i;

	begin(0, 0);
	for (i = 0; i < TIMERS; i++)
		start(&timer[i], 64 * 64 + 64 * (i >= 2));
	now = 64 * 64;
	CHECK(take() && !timer[0].t_in && left() == TIMERS - UWHEEL_MOVES);
	CHECK(take() && !timer[1].t_in && left() == TIMERS - UWHEEL_MOVES);
}

/* Few nodes of a slot: the first is known exactly, and is taken by one look. */
static void exactly(void)
{
	int i;

	begin(0, 0);
	for (i = 0; i < UWHEEL_FEW; i++)
		start(&timer[i], (5ull << 40) - (uint64_t)i * i);
	now = (5ull << 40) - (UWHEEL_FEW - 1) * (UWHEEL_FEW - 1);
	CHECK(uwheel_next(&wheel) < now && uwheel_next_exact(&wheel) == now);
	CHECK(take() && !timer[UWHEEL_FEW - 1].t_in && !take());
	check_wheel();
	now = 5ull << 40;
	take_all();
	CHECK(uwheel_empty(&wheel));
}

/* The first node of a wheel that was made late needs no cascade. */
static void made_late(void)
{
	memset(&timer[0], 0, sizeof timer[0]);
	uwheel_init(&wheel, 1ull << 60, 16);
	start(&timer[0], (1ull << 60) + 1);
	CHECK_IS(uwheel_next(&wheel), (1ull << 60) + (1 << 16));
}

/* Stops of the first, the last, an inner, and the only node of a cascade. */
static void stops(void)
{
	int i, nr;

	for (nr = 1; nr <= 4; nr++)
		for (i = 0; i < nr; i++) {
			int j;

			begin(0, 0);
			for (j = 0; j < UWHEEL_MOVES + nr; j++)
				start(&timer[j], 64 * 64 + 64);
			now = 64 * 64;
			CHECK(take() && left() == nr);
			stop(&timer[UWHEEL_MOVES + i]);
			stop(&timer[UWHEEL_MOVES + i]);
			CHECK_IS(left(), nr - 1);
			check_wheel();
			now += 64;
			take_all();
			CHECK(uwheel_empty(&wheel));
		}
}

int main(int argc, char **argv)
{
	static const int shift[] = { 0, 16, 0, 5, 16, 63 };
	int i;

	check_start(argc, argv);
	state = check_seed;
	for (i = 0; i < COUNT(shift); i++)
		at_random(shift[i]);
	while (check_time(5) && i < 60)
		at_random(shift[i++ % COUNT(shift)]);
	edges(0);
	edges(16);
	levels();
	for (i = 1; i < UWHEEL_LEVELS; i++)
		bounded(i);
	flood();
	above();
	due_first();
	exactly();
	stops();
	made_late();
	for (i = 0; i < UWHEEL_LEVELS; i++)
		CHECK(used[i] > 0 && moving[i] > 0);
	CHECK_THAT(stopped_moving, >, 0);
	return 0;
}
