/* SPDX-License-Identifier: MIT */
/* m_inbox.c: scenarios of inbox.h. */

#include "model.h"
#include "inbox.h"

struct item {
	long               it_data;	/* plain */
	struct uinbox_node it_node;
};

static struct {
	struct uinbox inbox;
	struct item   item[4];
	int           from[2];		/* nodes taken, of each producer */
	int           flag;
} s;

static void init(void)
{
	uinbox_init(&s.inbox);
	NAME(s.inbox.i_tail);
	NAME(s.inbox.i_head);
	NAME(s.inbox.i_stub);
	NAME(s.item[0].it_node);
	NAME(s.item[1].it_node);
	NAME(s.item[2].it_node);
	NAME(s.item[3].it_node);
}

static void post(int nr)
{
	s.item[nr].it_data = nr + 10;
	uinbox_post(&s.inbox, &s.item[nr].it_node);
}

/*
 * Each node is taken once, in its producer's order; then no other thread
 * touches it.
 */
static void take(int nr)
{
	struct uinbox_node *n;
	struct item *it;
	int which;

	while (s.from[0] + s.from[1] < nr) {
		n = uinbox_take(&s.inbox);
		if (n == NULL) {
			model_pause(1);
			continue;
		}
		it = (struct item *)((char *)n -
				     offsetof(struct item, it_node));
		which = (int)(it - s.item);
		MUST(which >= 0 && which < 4);
		MUST(which % 2 == s.from[which / 2]++);
		MUST(it->it_data == which + 10);
		it->it_data = 0;
		n->n_next = n;
		model_turn(1);
	}
	MUST(uinbox_take(&s.inbox) == NULL);
	MUST(uinbox_empty(&s.inbox));
}

static void zero(void)		{ post(0); }
static void two(void)		{ post(2); }
static void zero_one(void)	{ post(0); post(1); }
static void two_three(void)	{ post(2); post(3); }
static void take_two(void)	{ take(2); }
static void take_three(void)	{ take(3); }
static void take_four(void)	{ take(4); }

/* A node that was posted before a look is found by the look. */
static void post_and_tell(void)
{
	post(0);
	__atomic_store_n(&s.flag, 1, __ATOMIC_RELEASE);
}

static void look(void)
{
	if (__atomic_load_n(&s.flag, __ATOMIC_ACQUIRE))
		MUST(!uinbox_empty(&s.inbox));
}

/* Any thread may look: no data race. */
static void hint(void)
{
	(void)uinbox_empty(&s.inbox);
}

/* The owner looks while the inbox is empty, and while a node is half-way. */
static void look_and_take(void)
{
	look();
	take(2);
}

const struct model_scenario scenarios[] = {
	{ "inbox: a post of each", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { zero, two, take_two }, NULL },
	{ "inbox: two posts, and one", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { zero_one, two, take_three }, NULL },
	{ "inbox: is it empty?", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { post_and_tell, two, look_and_take }, NULL },
	{ "inbox: others look, too", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { zero, hint, two, take_two }, NULL },
	{ "inbox: two posts, and two", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init, { zero_one, two_three, take_four }, NULL },
	{ 0 }
};
