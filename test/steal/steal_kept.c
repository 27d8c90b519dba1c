/* SPDX-License-Identifier: MIT */
/* steal_kept: pinned_queue.h is first in, first out, as a whole and by group. */
/* VARIANTS: once */

/*
 * Random calls are compared with a plain list in the order in which the items
 * came. The numbers of the places begin shortly before they wrap. While the
 * same few items are added and taken out in the middle, the ring stays small,
 * although the oldest item never leaves. Each step looks at a bounded number of
 * places. If there is no memory, nothing changes. (pinned_queue Y1 to Y3.)
 */
#include "check.h"

static int no_memory;
static long callocs;

static void *test_calloc(size_t nr, size_t size)
{
	callocs++;
	return no_memory ? NULL : calloc(nr, size);
}
#define calloc test_calloc
#include "pinned_queue.h"
#undef calloc

#define ROOM	4
#define GROUPS	5		/* and no group */
#define MOST	700
#define STEPS	200000

static struct ws_pinned_queue k;
static struct ws_pinned_group groups[GROUPS];

/*
 * The items that are there, oldest first. An item is a number, which gives its
 * group.
 */
static long list[MOST];
static int nr;
static long next_item;

static struct ws_pinned_group *group_of(long item)
{
	return item % (GROUPS + 1) < GROUPS ? &groups[item % (GROUPS + 1)] : NULL;
}

static void forget(int at)
{
	memmove(&list[at], &list[at + 1], (--nr - at) * sizeof list[0]);
}

static int oldest_of(int group)
{
	int i;

	for (i = 0; i < nr && group_of(list[i]) != &groups[group]; i++)
		;
	return i;
}

static void puts_one(unsigned r)
{
	long item = 1 + next_item++ * (GROUPS + 1) + r % (GROUPS + 1);

	if (nr == MOST)
		return;
	if (ws_pinned_put(&k, group_of(item), (void *)item))
		list[nr++] = item;
	else
		CHECK(no_memory);
}

static void gets_one(void)
{
	CHECK_IS(ws_pinned_get(&k), nr > 0 ? (void *)list[0] : NULL);
	if (nr > 0)
		forget(0);
}

static void gets_of(int group)
{
	int at = oldest_of(group);

	CHECK_IS(ws_pinned_get_of(&k, &groups[group]), at < nr ?
		 (void *)list[at] : NULL);
	if (at < nr)
		forget(at);
}

/* Takes out one of the last items. */
static void leaves(unsigned r)
{
	int at = nr - 1 - (int)(r % 4);

	if (at < 0)
		return;
	ws_pinned_leave(&k, (void *)list[at]);
	forget(at);
}

static void same(void)
{
	unsigned sum[GROUPS] = { 0 };
	int i;

	CHECK_IS(ws_pinned_len(&k), (unsigned)nr);
	CHECK_THAT(k.kq_tail - k.kq_head, <=, k.kq_mask + 1);
	for (i = 0; i < nr; i++)
		if (group_of(list[i]) != NULL)
			sum[group_of(list[i]) - groups]++;
	for (i = 0; i < GROUPS; i++)
		CHECK_IS(groups[i].kg_nr, sum[i]);
}

/*
 * By turns, items are mostly added and mostly taken out, so the ring grows and
 * shrinks.
 */
static void any(void)
{
	unsigned state = check_seed;
	long i;

	for (i = 0; i < STEPS; i++) {
		unsigned r = check_random(&state);
		unsigned more = i / 3000 % 2 ? 12 : 6;

		no_memory = i / 500 % 7 == 0;
		if (r / 64 % 20 < more)
			puts_one(r);
		else if (r % 8 == 0)
			gets_one();
		else if (r % 8 < 3)
			leaves(r / 8);
		else
			gets_of((int)(r / 8 % GROUPS));
		if (i % 64 == 0)
			same();
	}
	no_memory = 0;
	while (nr > 0)
		gets_one();
	CHECK_IS(ws_pinned_get(&k), NULL);
	same();
}

/* The oldest item stays, and behind it a group is emptied again and again. */
static void holes(void)
{
	long oldest = 1 + GROUPS;
	unsigned mask;
	long i;

	CHECK(ws_pinned_put(&k, NULL, (void *)oldest));
	mask = k.kq_mask;
	callocs = 0;
	for (i = 1; i <= STEPS; i++) {
		CHECK(ws_pinned_put(&k, &groups[i % 3], (void *)(oldest + i)));
		CHECK_IS(ws_pinned_get_of(&k, &groups[i % 3]),
			 (void *)(oldest + i));
	}
	CHECK(callocs == 0 && k.kq_mask == mask);
	CHECK(ws_pinned_get(&k) == (void *)oldest && ws_pinned_len(&k) == 0);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	CHECK(ws_pinned_init(&k, ROOM));
	k.kq_head = k.kq_tail = -1000u;
	any();
	holes();
	ws_pinned_fini(&k);
	no_memory = 1;
	CHECK(!ws_pinned_init(&k, ROOM));
	return 0;
}
