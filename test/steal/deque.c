/* SPDX-License-Identifier: MIT */
/* deque: deque.h gives each item to one thread, from the right end. */
/* VARIANTS: once */
/* LIBS: @test/run/fail.wrap */

/*
 * An owner and one to three thieves are delayed at random between their steps.
 * The thread that gets an item sees what was written before the push. The owner
 * gets items last in, first out; a thief gets them first in, first out. The
 * owner and thieves compete for the last item, and for the last two. The deque
 * grows from one slot. If there is no memory for that, the push returns an
 * error and has changed nothing. Indices begin shortly before they wrap. All
 * this is tested with each kind of fences that fence.h has here.
 *
 * fence.h: after it is decided that light fences are free, a heavy fence makes
 * the system call, or the program ends; also in the child of a fork().
 */
#include "window.h"
#include "fail.h"
#include <pthread.h>
#include <sched.h>

/* The system calls of fence.h. */
static long barriers;
static bool refused;			/* calls fail, as if unknown */
static bool forgotten;			/* calls fail, as if not registered */

#define REGISTERS	(1 << 4)	/* UFENCE_REGISTER */

static UNUSED long count_syscall(long nr, int cmd, int flags, int cpu, int x,
				 int y, int z)
{
	__atomic_fetch_add(&barriers, 1, __ATOMIC_RELAXED);
	if (cmd == REGISTERS && forgotten && !refused)
		forgotten = false;
	if (refused || forgotten)
		return fail_errno(refused ? ENOSYS : EPERM);
	return syscall(nr, cmd, flags, cpu, x, y, z);
}

#define syscall	count_syscall
#include "deque.h"
#undef syscall

#define THIEVES	3
#define ITEMS	100000			/* of a run; fewer, if they take */
#define LEAST	4000			/* long, but at least this many */
#define RUNS	45
#define GROWTH	400			/* items of a deque that grows */
#define DEQUES	(ITEMS / GROWTH + 1)

struct item {
	int it_before;			/* plain */
	int it_taken;			/* plain: by one thread only */
};

static struct item items[ITEMS];
static int pushed;			/* items; owner only */
static int runs_nr;
static struct ws_deque deques[DEQUES];
static struct ws_deque *now;		/* the thieves steal here */
static long stolen[THIEVES], lost;
static int over;

static const unsigned long begins[] = { 0, 0ul - 3, ~0ul / 2 - 3 };

static void begin(struct ws_deque *d, long room, unsigned nr)
{
	CHECK_IS(ws_deque_init(d, room), 0);
	d->d_bottom = d->d_top = d->d_seen = begins[nr % COUNT(begins)];
}

/* Returns an item of two words that belong together. */
static struct ws_deque_item of(void *what)
{
	struct ws_deque_item x = { what, (char *)what + 1 };

	return x;
}

static bool is(struct ws_deque_item x, void *what)
{
	return x.i_what == what && (what == NULL || what == WS_DEQUE_LOST ||
				    x.i_arg == (char *)what + 1);
}

/* Counts the item as taken, and returns its number. */
static int take(struct ws_deque_item x)
{
	struct item *it = x.i_what;
	int nr = (int)(it - items);

	CHECK(nr >= 0 && nr < ITEMS && is(x, &items[nr]));
	CHECK_IS(it->it_before, nr ^ 12345);
	CHECK_IS(it->it_taken++, 0);
	return nr;
}

static bool is_item(struct ws_deque_item x)
{
	return x.i_what != NULL && x.i_what != WS_DEQUE_LOST;
}

/* Thieves. */

static void *thief(void *arg)
{
	long *nr = arg;
	struct ws_deque *d, *was = NULL;
	int last = -1, got;
	struct ws_deque_item x;
	unsigned i;

	for (i = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
		d = __atomic_load_n(&now, __ATOMIC_ACQUIRE);
		if (d != was)
			last = -1;
		was = d;
		x = ws_deque_steal(d);
		if (is_item(x)) {
			got = take(x);
			CHECK_THAT(got, >, last);
			last = got;
			++*nr;
		} else if (x.i_what == WS_DEQUE_LOST)
			__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
		else if (i % 8 == 0)
			check_yield();
		CHECK_THAT(ws_deque_size(d), >=, 0);
	}
	return NULL;
}

/* The owner. */

/* Pushes; memory may be lacking, a few times. */
static void push(struct ws_deque *d)
{
	struct ws_deque_array *array = d->d_array;
	unsigned long bottom = d->d_bottom;
	int rc;

	items[pushed].it_before = pushed ^ 12345;
	while ((rc = ws_deque_push(d, of(&items[pushed]))) != 0) {
		CHECK(rc == -ENOMEM && fail_failed() > 0);
		CHECK(d->d_array == array && d->d_bottom == bottom);
	}
	pushed++;
}

/* Tells whether the run goes on. Each run has its share of half of the time. */
static bool more(void)
{
	return pushed < LEAST || (pushed < ITEMS &&
		(pushed % 64 != 0 || check_time(10 + 50 * runs_nr / RUNS)));
}

static void push_some(struct ws_deque *d, int nr)
{
	while (nr-- > 0 && more())
		push(d);
}

/* Pops at most nr items, and returns how many it has popped. */
static int pop_some(struct ws_deque *d, int nr)
{
	int got, last = ITEMS;
	struct ws_deque_item x;
	int i;

	for (i = 0; i < nr && is_item(x = ws_deque_pop(d)); i++) {
		got = take(x);
		CHECK_THAT(got, <, last);
		last = got;
	}
	CHECK(i == nr || ws_deque_size(d) == 0);
	return i;
}

static void fight(struct ws_deque *d, int nr)
{
	while (more()) {
		push_some(d, nr);
		pop_some(d, nr);
	}
}

static void walk(struct ws_deque *d)
{
	unsigned state = check_seed + 1;

	while (more()) {
		push_some(d, (int)(check_random(&state) % 20));
		pop_some(d, (int)(check_random(&state) % 20));
	}
}

/* Pushes only; the thieves take all items. */
static void give(struct ws_deque *d)
{
	while (more()) {
		push_some(d, 50);
		while (ws_deque_size(d) > 0)
			check_yield();
	}
}

static void grow(void)
{
	int i;

	for (i = 1; more(); i++) {
		begin(&deques[i], 1, (unsigned)i);
		__atomic_store_n(&now, &deques[i], __ATOMIC_RELEASE);
		fail_arm(FAIL_MEMORY, 1 + i % 8, false);
		push_some(&deques[i], GROWTH);
		fail_rest();
		pop_some(&deques[i], i % 2 ? GROWTH : 0);
	}
	while (--i > 0)
		pop_some(&deques[i], GROWTH);
}

enum { FIGHT_ONE, FIGHT_TWO, WALK, GIVE, GROW, KINDS };

static void own(int kind)
{
	struct ws_deque *d = &deques[0];

	switch (kind) {
	case FIGHT_ONE: fight(d, 1); break;
	case FIGHT_TWO: fight(d, 2); break;
	case WALK:      walk(d); break;
	case GIVE:      give(d); break;
	case GROW:      grow(); break;
	}
	pop_some(d, ITEMS);
}

static void run(int kind, int thieves)
{
	pthread_t id[THIEVES];
	long sum = 0;
	int i;

	memset(items, 0, sizeof items);
	memset(deques, 0, sizeof deques);
	pushed = over = 0;
	runs_nr++;
	begin(&deques[0], 4, (unsigned)(kind + thieves));
	now = &deques[0];
	for (i = 0; i < thieves; i++)
		CHECK_IS(pthread_create(&id[i], NULL, thief, &stolen[i]), 0);
	own(kind);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	for (i = 0; i < thieves; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	for (i = 0; i < ITEMS; i++)
		sum += items[i].it_taken;
	CHECK(sum == pushed && sum >= LEAST);
	for (i = 0; i < DEQUES; i++)
		ws_deque_fini(&deques[i]);
	fail_clean();
}

static void runs(const char *what)
{
	int kind, thieves;

	memset(stolen, 0, sizeof stolen);
	lost = 0;
	for (thieves = 1; thieves <= THIEVES; thieves++)
		for (kind = 0; kind < KINDS; kind++) {
			doing("%s, %d thieves, kind %d", what, thieves, kind);
			run(kind, thieves);
		}
	CHECK(stolen[0] > 0 && stolen[1] > 0 && stolen[2] > 0 && lost > 0);
}

/*
 * A native thread alone, compared with a plain array. Slots are used many
 * times.
 */

#define MODEL	64

static void alone(unsigned nr)
{
	static long things[MODEL];
	unsigned state = check_seed + nr;
	long top = 0, bottom = 0;	/* of things, modulo MODEL */
	struct ws_deque d;
	struct ws_deque_item x;
	long i;

	begin(&d, 2, nr);
	for (i = 0; i < 100000; i++) {
		unsigned dice = check_random(&state) % 16;

		CHECK_IS(ws_deque_size(&d), bottom - top);
		if (dice < 7 && bottom - top < MODEL) {
			CHECK(!ws_deque_push(&d,
					     of(&things[bottom++ % MODEL])));
		} else if (dice < 12) {
			x = ws_deque_pop(&d);
			CHECK(is(x, bottom == top ? NULL :
				 &things[--bottom % MODEL]));
		} else {
			x = dice == 12 ? ws_deque_steal(&d) :
				ws_deque_steal_alone(&d);
			CHECK(is(x, bottom == top ? NULL :
				 &things[top++ % MODEL]));
		}
	}
	CHECK_THAT(d.d_array->a_room, <=, MODEL);
	ws_deque_fini(&d);
	fail_clean();
}

/* Failures of memory in ws_deque_init() and in growth. */
static void memory(void)
{
	static int things[100];
	struct ws_deque d;
	int i;

	CHECK_IS(ws_deque_init(&d, LONG_MAX), -ENOMEM);
	CHECK_IS(ws_deque_init(&d, LONG_MAX / 16), -ENOMEM);
	fail_arm(FAIL_MEMORY, 1, false);
	CHECK_IS(ws_deque_init(&d, 1), -ENOMEM);
	fail_rest();
	fail_clean();
	begin(&d, 5, 1);
	CHECK_IS((uintptr_t)d.d_array % WS_DEQUE_LINE, 0);
	CHECK_IS((uintptr_t)&d.d_top % WS_DEQUE_LINE, 0);
	for (i = 0; i < 8; i++)
		CHECK_IS(ws_deque_push(&d, of(&things[i])), 0);
	CHECK_IS(fail_holds(), 1);	/* room for 5 is room for 8 */
	fail_arm(FAIL_MEMORY, 1, true);
	CHECK_IS(ws_deque_push(&d, of(&things[8])), -ENOMEM);
	CHECK_IS(ws_deque_push(&d, of(&things[8])), -ENOMEM);
	CHECK(ws_deque_size(&d) == 8 && fail_holds() == 1);
	CHECK(is(ws_deque_steal(&d), &things[0]));
	CHECK_IS(ws_deque_push(&d, of(&things[8])), 0);	/* there was room */
	CHECK_IS(ws_deque_push(&d, of(&things[9])), -ENOMEM);
	fail_rest();
	for (i = 9; i < 100; i++)
		CHECK_IS(ws_deque_push(&d, of(&things[i])), 0);
	CHECK_IS(fail_holds(), 5);	/* 8, 16, 32, 64, 128 */
	for (i = 99; i > 0; i--)
		CHECK(is(ws_deque_pop(&d), &things[i]));
	CHECK(is(ws_deque_pop(&d), NULL) && is(ws_deque_steal(&d), NULL));
	ws_deque_fini(&d);
	fail_clean();
}

/* A deque that stays empty costs no system call. */
static void costs_nothing(void)
{
	struct ws_deque d;
	long before;
	int thing;

	begin(&d, 2, 1);
	before = barriers;
	CHECK(is(ws_deque_steal(&d), NULL) && is(ws_deque_pop(&d), NULL));
	CHECK(ws_deque_push(&d, of(&thing)) == 0 && is(ws_deque_pop(&d),
						       &thing));
	CHECK_IS(ws_deque_push(&d, of(&thing)), 0);
	CHECK(is(ws_deque_steal_alone(&d), &thing));
	CHECK(is(ws_deque_steal(&d), NULL));
	CHECK_IS(barriers, before);
	ws_deque_fini(&d);
}

#if defined(UFENCE_MEMBARRIER)

static void no_more(void)
{
	refused = true;
	ufence_heavy();
}

/* On Linux a child stays registered; elsewhere that is unknown. */
static void after_fork(void)
{
	long before = barriers;

	ufence_heavy();
	CHECK_IS(barriers, before + 1);
	forgotten = true;
	ufence_heavy();
	CHECK_IS(barriers, before + 4);
	ufence_heavy();
	CHECK_IS(barriers, before + 5);
}

static long heavy_costs(void)
{
	long before = barriers;

	ufence_light();
	CHECK_IS(barriers, before);
	ufence_heavy();
	return barriers - before;
}

/* The decision is final, and a heavy fence is a real fence. */
static void fences(void)
{
	char text[200];
	int rc;

	CHECK(ufence_mode == UFENCE_UNDECIDED && heavy_costs() == 1);
	refused = true;
	CHECK(heavy_costs() == 1 && ufence_mode == UFENCE_UNDECIDED);
	CHECK(ufence_init() == -ENOSYS && heavy_costs() == 0);
	refused = false;
	CHECK(ufence_init() == -ENOSYS && heavy_costs() == 0);
	ufence_mode = UFENCE_UNDECIDED;
	rc = ufence_init();
	if (rc != 0) {
		CHECK(rc == -ENOSYS && ufence_mode == UFENCE_BOTH_FULL);
		return;
	}
	CHECK_IS(heavy_costs(), 1);
	refused = true;
	CHECK_IS(ufence_init(), 0);
	refused = false;
	CHECK_IS(check_child(after_fork, text, sizeof text), 0);
	CHECK_IS(check_dies("no more", no_more, "fence: membarrier()"), 0);
}

static void each_kind(void)
{
	static const char *const what[] = { "undecided", "full", "one free" };
	int mode;

	fences();
	if (ufence_mode != UFENCE_ONE_FREE)
		printf("no membarrier(2) here\n");
	for (mode = ufence_mode; mode >= UFENCE_UNDECIDED; mode--) {
		ufence_mode = mode;
		costs_nothing();
		runs(what[mode]);
	}
}
#else
static void each_kind(void)
{
	CHECK_IS(ufence_init(), -ENOSYS);
	costs_nothing();
	runs("full");
}
#endif

int main(int argc, char **argv)
{
	unsigned i;

	check_start(argc, argv);
	memory();
	for (i = 0; i < COUNT(begins); i++)
		alone(i);
	each_kind();
	window_check("deque_R2 deque_grown deque_push deque_pop");
	window_check("deque_F deque_last deque_Q1 deque_A2");
	return 0;
}
