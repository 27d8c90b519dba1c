/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/*
 * gen: threads are consumers of generators: they block between two values,
 * are copied and moved, leave generators half-way, and hand them to threads on
 * other processors. Generators use variables of their consumer, other
 * generators, and wake threads. Native threads make and end generators at the
 * same time. A generator that waits breaks a contract.
 */

#include "either.h"
#include "ugen.h"

#define THREADS	60
#define HANDS	12		/* threads that share a generator */
#define LAST	400		/* and how many values it has */

static int processors;

/* Yields from any depth, and counts that in a variable of the consumer. */

struct range {
	int  r_from, r_to;
	int *r_seen;
};

static NOINLINE void down(const struct range *r, int i, int depth)
{
	volatile char array[60];

	array[9] = (char)i;
	if (depth > 0)
		down(r, i, depth - 1);
	else {
		++*r->r_seen;
		(void)ugen_yield(&i);
	}
	CHECK_IS(array[9], (char)i);
}

static void range(void *arg)
{
	const struct range *r = (const struct range *)arg;
	int i;

	for (i = r->r_from; i < r->r_to; i++)
		down(r, i, i % 5);
}

/* Adds pairs of neighbours, by a generator of its own. */
static void pairs(void *arg)
{
	const struct range *r = (const struct range *)arg;
	int seen = 0, *value;
	struct range in = { r->r_from, r->r_to, &seen };
	struct ugen *g = ugen_make(range, &in, sizeof(int));

	while ((value = (int *)ugen_next(g)) != NULL) {
		int sum = *value;

		value = (int *)ugen_next(g);
		sum += value != NULL ? *value : 0;
		*r->r_seen += seen;
		seen = 0;
		if (ugen_yield(&sum) != 0)
			break;
	}
	CHECK_IS(ugen_free(g), 0);
}

static NOINLINE void consume(unsigned me, int depth)
{
	volatile unsigned here = me;
	int seen = 0, i, *value;
	struct range r = { (int)me, (int)me + 30, &seen };
	struct ugen *g = ugen_make(me % 2 ? range : pairs, &r, sizeof(int));

	CHECK(g != NULL);
	if (depth > 0)
		consume(me + 1, depth - 1);
	for (i = 0; (value = (int *)ugen_next(g)) != NULL; i++) {
		int want = (int)me + (me % 2 ? i : 2 * i);

		if (me % 2 == 0)
			want += want + 1;
		yield();
		CHECK(*value == want && here == me);
		CHECK_IS(seen, me % 2 ? i + 1 : 2 * i + 2);
		if (i == 13 && me % 7 == 0)
			break;
	}
	CHECK_IS(i, me % 7 == 0 ? 13 : me % 2 ? 30 : 15);
	CHECK_IS(ugen_free(g), 0);
}

static void consumer(void *arg)
{
	consume((unsigned)(uintptr_t)arg, 3);
}

/*
 * Each thread takes a value, and hands the generator to the next. It is made
 * by the first, and ended by whoever gets the last value.
 */
static struct {
	struct ugen *h_gen;
	struct range h_range;
	int          h_seen;		/* not on a stack */
	int          h_next;
	thread      *h_thread[HANDS];
	long         h_ended;
} hand;

static void takes(void *arg)
{
	int me = (int)(intptr_t)arg, *value;
	thread *next = hand.h_thread[(me + 1) % HANDS];

	if (me == 0) {
		hand.h_range = (struct range) { 0, LAST, &hand.h_seen };
		hand.h_gen   = ugen_make(range, &hand.h_range, sizeof(int));
	} else
		wait_one();
	while (hand.h_gen != NULL) {
		value = (int *)ugen_next(hand.h_gen);
		if (value != NULL) {
			CHECK_IS(*value, hand.h_next++);
		} else {
			CHECK_IS(ugen_free(hand.h_gen), 0);
			hand.h_gen = NULL;
			break;
		}
		SCHED(wake)(next);
		wait_one();
	}
	/* First counted: the last must not wake the next, which has ended. */
	if (add(&hand.h_ended, 1) != HANDS)
		SCHED(wake)(next);
}

/* Native threads. */

static void *natives(void *arg)
{
	unsigned i;

	for (i = 0; i < 300; i++) {
		int seen = 0, nr = 0;
		struct range r = { 0, (int)(i % 9), &seen };
		struct ugen *g[3];
		int j;

		for (j = 0; j < COUNT(g); j++)
			g[j] = ugen_make(range, &r, sizeof(int));
		for (j = 0; j < COUNT(g); j++) {
			while (nr < 20 && ugen_next(g[j]) != NULL)
				nr++;
			CHECK_IS(ugen_free(g[j]), 0);
		}
		CHECK(seen == nr || seen == nr + 1);	/* it was dropped */
	}
	return arg;
}

/* A generator that wakes its consumer, which waits afterwards. */
static void wakes(void *arg)
{
	int i;

	for (i = 0; i < 10; i++) {
		SCHED(wake)((thread *)arg);
		if (ugen_yield(&i) != 0)
			return;
	}
}

static void woken(void *arg)
{
	struct ugen *g = ugen_make(wakes, SCHED(self)(), sizeof(int));
	int i, *value;

	for (i = 0; (value = (int *)ugen_next(g)) != NULL; i++) {
		CHECK_IS(*value, i);
		wait_one();
	}
	CHECK(i == 10 && ugen_free(g) == 0);
}

static void waits(void *arg)
{
	(void)SCHED(wait)();
}

static void waits_inside(void *arg)
{
	(void)ugen_next(ugen_make(waits, arg, 0));
}

static void wait_inside(void)
{
	one_thread(1, waits_inside, NULL);
}

static int has_lanes(void)
{
	static struct usched s;
	int rc = usched_lanes(&s, 1, 4096);

	usched_fini(&s);
	return rc != -ENOSYS;
}

int main(int argc, char **argv)
{
	pthread_t id[2];
	int i;

	check_start(argc, argv);
	/* Without lanes a generator stays on its native stack. */
	processors = has_lanes() ? 2 : 1;
	begin(2, 0);
	for (i = 0; i < THREADS; i++)
		make(i, consumer, (void *)(intptr_t)i);
	make(0, woken, NULL);
	for (i = 0; i < COUNT(id); i++)
		id[i] = native(natives, NULL);
	start_and_finish();
	for (i = 0; i < COUNT(id); i++)
		native_join(id[i]);
	begin(processors, 0);
	for (i = HANDS; i-- > 0; )
		hand.h_thread[i] = make(i, takes, (void *)(intptr_t)i);
	start_and_finish();
	CHECK(hand.h_next == LAST && hand.h_seen == LAST);
	CHECK_IS(check_dies("wait", wait_inside, "blocked without ugen_yield"),
		 0);
	ugen_trim();
	return 0;
}
