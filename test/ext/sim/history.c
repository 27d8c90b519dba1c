/* SPDX-License-Identifier: MIT */
/*
 * history.c: uhistory_check() finds an order exactly where there is one. Random
 * histories of objects that are linearizable pass. Where a result is changed, the
 * answer is that of a search through all orders, which shares no code with it.
 * Classic errors are found, also at the end of long histories, and told by the
 * operations that matter, with their clients.
 *
 *	history [ROUNDS [SEED]]
 */

#include <usched/uhistory.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 3, MOST = 4000, FEW = 7, AGENTS = 8 };

#define CHECK(x) ((x) ? (void)0 : wrong(#x, __LINE__))

/* An operation as this test has it. Times are places in the history; 0: none. */
struct call {
	enum uhistory_kind kind;
	unsigned           key, a, b;
	unsigned           result;
	int                at, back;
};

static struct call calls[MOST];
static int nr, times;
static unsigned long long seed;
static uint64_t chance;

static void wrong(const char *what, int line)
{
	int i;

	printf("history.c:%d: %s, seed %llu\n", line, what, seed);
	for (i = 0; i < nr && i < 20; i++)
		printf("  %d: kind %d key %u a %u b %u = %u, %d to %d\n", i,
		       (int)calls[i].kind, calls[i].key, calls[i].a, calls[i].b,
		       calls[i].result, calls[i].at, calls[i].back);
	exit(1);
}

static unsigned below(unsigned most)
{
	chance = chance * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((chance >> 33) % most);
}

/* The objects: written for this test. */
static unsigned happens(const struct call *c, unsigned objects[KEYS])
{
	unsigned *o = &objects[c->key], old = *o;

	if (c->kind == UHISTORY_WRITE || (c->kind == UHISTORY_SWAP && old == c->b))
		*o = c->a;
	if (c->kind == UHISTORY_ADD)
		*o = 1;
	if (c->kind == UHISTORY_REMOVE)
		*o = 0;
	switch (c->kind) {
	case UHISTORY_WRITE:	return 0;
	case UHISTORY_SWAP:	return old == c->b;
	case UHISTORY_ADD:	return !old;
	default:		return old;
	}
}

/* Runs agents that call, let it happen, and return, in a random order. */
static void history_draw(int most, unsigned agents, unsigned keys, unsigned values,
			 unsigned lost)
{
	struct { int call, happened; } agent[AGENTS];
	unsigned objects[KEYS] = { 0 }, i;
	int sets = below(2) == 0;

	memset(agent, 0, sizeof agent);
	nr = times = 0;
	while (nr < most || below(20) != 0) {
		struct call *c;

		i = below(agents);
		c = agent[i].call > 0 ? &calls[agent[i].call - 1] : NULL;
		if (c == NULL && nr < most) {
			c = &calls[nr++];
			*c = (struct call) { .key = below(keys), .a = below(values),
				.b = below(values), .at = ++times };
			c->kind = (enum uhistory_kind)((sets ? 3u : 0u) + below(3));
			agent[i].call = nr;
			agent[i].happened = 0;
		} else if (c == NULL) {
			continue;
		} else if (below(lost) == 0) {
			agent[i].call = 0;		/* never returns */
		} else if (!agent[i].happened) {
			c->result = happens(c, objects);
			agent[i].happened = 1;
		} else {
			c->back = ++times;
			agent[i].call = 0;
		}
	}
}

static int checked(void)
{
	struct uhistory *h = uhistory_make();
	char why[200] = "";
	long op[MOST];
	int time, i, rc;

	CHECK(h != NULL);
	for (time = 1; time <= times; time++)
		for (i = 0; i < nr; i++) {
			const struct call *c = &calls[i];

			if (c->at == time)
				op[i] = uhistory_call(h, c->kind, c->key, c->a, c->b);
			else if (c->back == time)
				uhistory_return(h, op[i], c->result);
			else
				continue;
			break;
		}
	rc = uhistory_check(h, why, sizeof why);
	CHECK(rc == 0 || rc == 1);
	CHECK((rc == 1) == (strstr(why, "fits into no order") != NULL));
	uhistory_free(h);
	return rc == 0;
}

/* Tries all orders of the operations that are not in done. */
static int has_order(unsigned done, const unsigned objects[KEYS])
{
	unsigned after[KEYS], result;
	int i, k, left = 0, first = times + 1;

	for (k = 0; k < nr; k++)
		if (!(done >> k & 1) && calls[k].back != 0) {
			left++;
			first = calls[k].back < first ? calls[k].back : first;
		}
	if (left == 0)
		return 1;
	for (i = 0; i < nr; i++) {
		if (done >> i & 1 || calls[i].at > first)
			continue;
		memcpy(after, objects, sizeof after);
		result = happens(&calls[i], after);
		if ((calls[i].back == 0 || calls[i].kind == UHISTORY_WRITE ||
		     calls[i].result == result) && has_order(done | 1u << i, after))
			return 1;
	}
	return 0;
}

/* Small histories, right and with a change, against all orders. */
static void small(int rounds)
{
	static const unsigned objects[KEYS];
	int yes = 0, no = 0, round, other;
	unsigned change;

	for (round = 0; round < rounds; round++) {
		history_draw(1 + (int)below(FEW), 1 + below(4), 1 + below(KEYS), 3,
			     40);
		CHECK(checked());
		CHECK(has_order(0, objects));
		for (change = 1 + below(2); change > 0; change--) {
			other = (int)below((unsigned)nr);
			calls[other].result = calls[other].kind <= UHISTORY_WRITE ?
				below(4) : below(2);
		}
		if (has_order(0, objects)) {
			CHECK(checked());
			yes++;
		} else {
			CHECK(!checked());
			no++;
		}
	}
	printf("%d changed histories have an order, %d have none\n", yes, no);
	CHECK(yes > rounds / 10 && no > rounds / 10);
}

static void put(enum uhistory_kind kind, unsigned a, unsigned b, unsigned result,
		int at, int back)
{
	calls[nr++] = (struct call) { kind, 0, a, b, result, at, back };
	times = at > times ? at : times;
	times = back > times ? back : times;
}

/* Errors that stores have had. Each history is right but for its last result. */
static void classic(void)
{
	nr = times = 0;				/* a write that is lost */
	put(UHISTORY_WRITE, 7, 0, 0, 1, 2);
	put(UHISTORY_READ, 0, 0, 7, 3, 4);
	CHECK(checked());
	calls[1].result = 0;
	CHECK(!checked());

	nr = times = 0;				/* a read that goes back */
	put(UHISTORY_WRITE, 7, 0, 0, 1, 6);
	put(UHISTORY_READ, 0, 0, 7, 2, 3);
	put(UHISTORY_READ, 0, 0, 7, 4, 5);
	CHECK(checked());
	calls[2].result = 0;
	CHECK(!checked());

	nr = times = 0;				/* happens twice, late */
	put(UHISTORY_WRITE, 7, 0, 0, 1, 0);
	put(UHISTORY_READ, 0, 0, 7, 2, 3);
	put(UHISTORY_WRITE, 8, 0, 0, 4, 5);
	put(UHISTORY_READ, 0, 0, 8, 6, 7);
	CHECK(checked());
	calls[3].result = 7;
	CHECK(!checked());

	nr = times = 0;				/* out of nowhere */
	put(UHISTORY_READ, 0, 0, 0, 1, 2);
	CHECK(checked());
	calls[0].result = 9;
	CHECK(!checked());

	nr = times = 0;				/* both have won */
	put(UHISTORY_SWAP, 1, 0, 1, 1, 4);
	put(UHISTORY_SWAP, 2, 0, 0, 2, 3);
	CHECK(checked());
	calls[1].result = 1;
	CHECK(!checked());

	nr = times = 0;				/* added twice */
	put(UHISTORY_ADD, 0, 0, 1, 1, 3);
	put(UHISTORY_ADD, 0, 0, 0, 2, 4);
	CHECK(checked());
	calls[1].result = 1;
	CHECK(!checked());

	nr = times = 0;				/* removed, and there */
	put(UHISTORY_ADD, 0, 0, 1, 1, 2);
	put(UHISTORY_REMOVE, 0, 0, 1, 3, 4);
	put(UHISTORY_HAS, 0, 0, 0, 5, 6);
	CHECK(checked());
	calls[2].result = 1;
	CHECK(!checked());
}

/* A violation is told by its operations: client, call, result, and when. */
static void told(const char *what, const char *before, const char *origin)
{
	static const char *const clients[] = { "x", "y", "z" };
	struct uhistory *h = uhistory_make();
	char why[400] = "";
	long op[3];
	int time, i;

	CHECK(h != NULL && nr <= 3);
	for (time = 1; time <= times; time++)
		for (i = 0; i < nr; i++) {
			const struct call *c = &calls[i];

			if (c->at == time) {
				op[i] = uhistory_call(h, c->kind, 3, c->a, c->b);
				uhistory_client(h, op[i], clients[i]);
			} else if (c->back == time) {
				uhistory_return(h, op[i], c->result);
			}
		}
	CHECK(uhistory_check(h, why, sizeof why) == 1);
	CHECK(strstr(why, "key 3: ") == why && strstr(why, what) == why + 7);
	CHECK(strstr(why, " s) fits into no order") != NULL);
	CHECK(before == NULL ? strstr(why, "before it") == NULL :
	      strstr(why, before) != NULL);
	CHECK(origin == NULL ? strstr(why, " is of ") == NULL :
	      strstr(why, origin) != NULL);
	uhistory_free(h);
}

static void words(void)
{
	nr = times = 0;
	put(UHISTORY_WRITE, 7, 0, 0, 1, 2);
	put(UHISTORY_WRITE, 9, 0, 0, 3, 4);
	put(UHISTORY_READ, 0, 0, 7, 5, 6);
	told("z read -> 7 (0.", ": before it y write 9 (0.", "; 7 is of x write 7 (0.");
	calls[2].result = 8;
	told("z read -> 8 (0.", ": before it y write 9 (0.", "; 8 is of no operation");
	calls[2].result = 0;
	told("z read -> 0 (0.", ": before it y write 9 (0.", NULL);
	calls[1].back = 0;
	told("z read -> 0 (0.", ": before it x write 7 (0.", NULL);

	nr = times = 0;
	put(UHISTORY_READ, 0, 0, 7, 1, 2);
	put(UHISTORY_WRITE, 7, 0, 0, 3, 4);
	put(UHISTORY_WRITE, 7, 0, 0, 5, 6);
	told("x read -> 7 (0.", NULL, ": 7 is of a later call, y write 7 (0.");

	nr = times = 0;
	put(UHISTORY_SWAP, 1, 0, 1, 1, 3);
	put(UHISTORY_SWAP, 2, 0, 1, 2, 4);
	told("y swap 0 to 2 -> 1 (0.", ": beside it x swap 0 to 1 -> 1 (0.", NULL);

	nr = times = 0;
	put(UHISTORY_WRITE, 5, 0, 0, 1, 2);
	put(UHISTORY_SWAP, 6, 5, 0, 3, 4);
	told("y swap 5 to 6 -> 0 (0.", ": before it x write 5 (0.", NULL);

	nr = times = 0;
	put(UHISTORY_ADD, 0, 0, 1, 1, 0);
	put(UHISTORY_REMOVE, 0, 0, 1, 2, 3);
	put(UHISTORY_HAS, 0, 0, 1, 4, 5);
	told("z has -> 1 (0.", ": before it y remove -> 1 (0.", "; 1 is of x add (0.");
}

/* Long histories pass. With an old value read at the end they do not. */
static void large(void)
{
	history_draw(2000, AGENTS, KEYS, 100, 500);
	CHECK(checked());
	put(UHISTORY_WRITE, 1000, 0, 0, times + 1, times + 2);
	put(UHISTORY_READ, 0, 0, 1000, times + 1, times + 2);
	CHECK(checked());
	calls[nr - 1].result = 1001;
	CHECK(!checked());
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3000, i;

	chance = seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	classic();
	words();
	small(rounds);
	for (i = 0; i < 4; i++)
		large();
	return 0;
}
