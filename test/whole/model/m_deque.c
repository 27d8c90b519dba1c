/* SPDX-License-Identifier: MIT */
/* m_deque.c: scenarios of deque.h, with both kinds of fences (fence.h). */

/*
 * Each scenario runs twice: with full fences, and as it is where membarrier(2)
 * works, with no instruction for a light fence and the system call, which the
 * checker knows, for a heavy fence. A number in a name is the number of
 * thieves, if there are several.
 *
 * There is no malloc() here: arrays are part of the data, and are not freed.
 */
#include "model.h"

static void *pool(size_t size);

#define WS_DEQUE_ALLOC(size)	pool(size)
#define WS_DEQUE_FREE(block)	((void)(block))
#define UFENCE_MODEL
#include "deque.h"

#define ITEMS	6

struct item {
	int it_data;			/* plain, written before the push */
	int it_pushed;
	int it_taken;			/* how often */
};

static struct {
	struct ws_deque deque;
	struct item     item[ITEMS];
	char            pool[448] __attribute__((aligned(16)));
	size_t          used;		/* bytes of pool in use; owner only */
	int             none;		/* the owner's last pop found nothing */
	int             flag;
	int             asleep;
	int             looks;		/* the size that the sleeper found */
	int             wakes;
} s;

static void *pool(size_t size)
{
	void *block = s.pool + s.used;

	s.used += (size + 15) & ~(size_t)15;
	MUST(s.used <= sizeof s.pool);
	return block;
}

static void init(long room, unsigned long from)
{
	MUST(ws_deque_init(&s.deque, room) == 0);
	s.deque.d_bottom = s.deque.d_top = s.deque.d_seen = from;
	NAME(s.deque.d_bottom);
	NAME(s.deque.d_top);
	NAME(s.deque.d_array);
	NAME(s.item[0]);
	NAME(s.item[1]);
	NAME(s.item[2]);
	NAME(s.item[3]);
	NAME(s.flag);
	NAME(s.asleep);
}

/* Returns an item whose two halves must stay together. */
static struct ws_deque_item item_of(int nr)
{
	struct ws_deque_item x = { &s.item[nr], &s.item[nr].it_taken };

	return x;
}

static void push(int nr)
{
	s.item[nr].it_data   = nr + 10;
	s.item[nr].it_pushed = 1;
	s.none = 0;
	MUST(ws_deque_push(&s.deque, item_of(nr)) == 0);
}

/*
 * Returns the number of the item, or less than 0. If two get the same item,
 * that is a data race.
 */
static int take(struct ws_deque_item x)
{
	struct item *it = x.i_what;
	int nr = (int)(it - s.item);

	if (x.i_what == NULL || x.i_what == WS_DEQUE_LOST)
		return -1;
	MUST(nr >= 0 && nr < ITEMS && it == &s.item[nr]);
	MUST(x.i_arg == &it->it_taken && it->it_data == nr + 10);
	it->it_data = 0;
	it->it_taken++;
	return nr;
}

static int pop(void)
{
	int nr = take(ws_deque_pop(&s.deque));

	s.none = nr < 0;
	return nr;
}

/* Each item was taken once, and a pop was right to find nothing. */
static void done(void)
{
	int left = 0;
	int i;

	for (; left < ITEMS && take(ws_deque_pop(&s.deque)) >= 0; left++)
		;
	for (i = 0; i < ITEMS; i++)
		MUST(s.item[i].it_taken == s.item[i].it_pushed);
	MUST(!s.none || left == 0);
	MUST(s.deque.d_top == s.deque.d_bottom);
}

static void one_slot(void)	{ init(1, 0); }
static void two_slots(void)	{ init(2, 0); }
static void four_slots(void)	{ init(4, 0); }
static void wrap(void)		{ init(2, 0ul - 1); }
static void wrap_sign(void)	{ init(2, ~0ul / 2); }

/* Owners. */

static void push_pop(void)	{ push(0); pop(); }
static void push_two(void)	{ push(0); push(1); }
static void push_three(void)	{ push(0); push(1); push(2); }
static void push_four(void)	{ push_three(); push(3); }
static void again_and_again(void)	{ push_pop(); push(1); pop(); pop(); }

static void pop_push_pop(void)
{
	MUST(pop() < 0);
	push_pop();
}

/* Last in, first out. */
static void pop_two(void)
{
	int first = pop();
	int second = pop();

	MUST(second < 0 || second < first);
}

static void push_two_pop_two(void)	{ push_two(); pop_two(); }
static void push_three_pop_two(void)	{ push_three(); pop_two(); }

/* A thief read old indices while the owner went up and down. */
static void up_and_down(void)
{
	push_two();
	pop();
	push(2);
	pop_two();
}

/* Thieves. */

static void steal(void)		{ take(ws_deque_steal(&s.deque)); }

/* First in, first out. */
static void steal_two(void)
{
	int first = take(ws_deque_steal(&s.deque));
	int second = take(ws_deque_steal(&s.deque));

	MUST(first < 0 || second < 0 || second > first);
}

/* Used while the owner only pushes. */
static void steal_alone_two(void)
{
	int first = take(ws_deque_steal_alone(&s.deque));
	int second = take(ws_deque_steal_alone(&s.deque));

	MUST(first < 0 || second == first + 1 || second < 0);
}

/* The owner does not pop any more, and announces that. */

static void tell(void)
{
	__atomic_store_n(&s.flag, 1, __ATOMIC_RELEASE);
}

static void push_two_pop_tell(void)
{
	push_two();
	pop();
	push(2);
	tell();
}

static void steal_when_told(void)
{
	struct ws_deque_item x;

	if (!__atomic_load_n(&s.flag, __ATOMIC_ACQUIRE))
		return;
	while ((x = ws_deque_steal_alone(&s.deque)).i_what == WS_DEQUE_LOST)
		model_turn(1);
	take(x);
	if (x.i_what == NULL)		/* all was pushed before the flag */
		MUST(ws_deque_size(&s.deque) == 0);
}

static void own_steal(void)
{
	push_two();
	take(ws_deque_steal_alone(&s.deque));
	pop();
}

/* A worker is about to sleep while the owner pushes. */

static void push_and_look(void)
{
	push(0);
	ufence_light();
	if (__atomic_load_n(&s.asleep, __ATOMIC_RELAXED))
		s.wakes = 1;
}

static void sleep_or_see(void)
{
	__atomic_store_n(&s.asleep, 1, __ATOMIC_RELAXED);
	ufence_heavy();
	s.looks = (int)ws_deque_size(&s.deque);
}

static void seen(void)
{
	MUST(s.wakes == 1 || s.looks == 1);
	done();
}

/* Fences themselves. */

static void heavy_and_heavy(void)
{
	__atomic_store_n(&s.flag, 1, __ATOMIC_RELAXED);
	ufence_heavy();
	if (__atomic_load_n(&s.asleep, __ATOMIC_RELAXED))
		s.wakes = 1;
}

static void nothing(void)
{
}

static void seen_only(void)
{
	MUST(s.wakes == 1 || s.looks == 1);
}

static void sleep_or_see_flag(void)
{
	__atomic_store_n(&s.asleep, 1, __ATOMIC_RELAXED);
	ufence_heavy();
	s.looks = __atomic_load_n(&s.flag, __ATOMIC_RELAXED);
}

static void full(void)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = UFENCE_BOTH_FULL;
#endif
}

static void one_free(void)
{
#if defined(UFENCE_MEMBARRIER)
	ufence_mode = UFENCE_UNDECIDED;
	MUST(ufence_init() == 0);
#endif
}

#define BOTH(f)								\
static void f##_full(void) { full(); f(); }				\
static void f##_free(void) { one_free(); f(); }

BOTH(nothing)
BOTH(one_slot)
BOTH(two_slots)
BOTH(four_slots)
BOTH(wrap)
BOTH(wrap_sign)

/* Preemptions (quick, most): with full fences, and with membarrier(2). */
#define TWICE(name, quick, most, quick_m, most_m, init, done, ...)	\
	{ "deque: " name, quick, most, 0,				\
	  &s, sizeof s, init##_full, { __VA_ARGS__ }, done },		\
	{ "deque, membarrier: " name, quick_m, most_m, 0,		\
	  &s, sizeof s, init##_free, { __VA_ARGS__ }, done }

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	TWICE("two fences", ANY, ANY, ANY, ANY, nothing, seen_only,
	      heavy_and_heavy, sleep_or_see_flag),
	TWICE("asleep or seen", ANY, ANY, ANY, ANY, two_slots, seen,
	      push_and_look, sleep_or_see),
	TWICE("none, then the last", ANY, ANY, ANY, ANY, two_slots, done,
	      pop_push_pop, steal),
	TWICE("two items", ANY, ANY, ANY, ANY, two_slots, done,
	      push_two_pop_two, steal_two),
	TWICE("indices wrap", ANY, ANY, ANY, ANY, wrap, done,
	      push_two_pop_two, steal_two),
	TWICE("sign", NOT, ANY, NOT, ANY, wrap_sign, done,
	      push_two_pop_two, steal_two),
	TWICE("the last, again", ANY, ANY, ANY, ANY, two_slots, done,
	      again_and_again, steal_two),
	TWICE("up and down", ANY, ANY, ANY, ANY, four_slots, done,
	      up_and_down, steal_two),
	TWICE("growth", ANY, ANY, ANY, ANY, one_slot, done,
	      push_three, steal_two),
	TWICE("growth, no fence", ANY, ANY, ANY, ANY, one_slot, done,
	      push_three, steal_alone_two),
	TWICE("no pops now", ANY, ANY, ANY, ANY, four_slots, done,
	      push_two_pop_tell, steal_when_told, steal),
	TWICE("the owner steals", ANY, ANY, ANY, ANY, two_slots, done,
	      own_steal, steal),
	TWICE("the last, 2", ANY, ANY, 2, ANY, two_slots, done,
	      push_pop, steal, steal),
	TWICE("two items, 2", ANY, ANY, 2, 4, two_slots, done,
	      push_two_pop_two, steal, steal),
	TWICE("growth, 2", 2, ANY, 1, 3, one_slot, done,
	      push_three, steal, steal),
	TWICE("three items, 2", NOT, 3, NOT, 2, four_slots, done,
	      push_three_pop_two, steal_two, steal),
	TWICE("growth, 2 twice", NOT, 2, NOT, 1, one_slot, done,
	      push_four, steal_two, steal_two),
	TWICE("the last, 3", NOT, 3, NOT, 2, two_slots, done,
	      push_pop, steal, steal, steal),
	{ 0 }
};
