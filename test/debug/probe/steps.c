/* SPDX-License-Identifier: MIT */
/*
 * steps.c: writes the same as story.c, of threads of the dispatcher alone: a thread
 * that is stepped, a thread that begins again in the same struct, and a thread that was
 * filled by hand.
 */
#include "check.h"
#include "usched.h"

#include <stdlib.h>

static FILE *story;
static struct usched s, steps;
static struct ustack one, hand, coroutine;
static int made, again_nr = 2, hand_ended, one_ended;

#define NUMBER(p)	((unsigned long)(uintptr_t)(p))
#define TELL(what, t, f, arg)	fprintf(story, "%s 0x%lx 0x%lx 0x%lx\n", what, \
					NUMBER(t), NUMBER(f), NUMBER(arg))

static void run(void *arg)
{
	if (arg != NULL || made++ > 0)
		TELL("make", ustack_self(), run, arg);
	TELL("begin", ustack_self(), run, arg);
	TELL("block", ustack_self(), run, arg);
	CHECK(ustack_block() == 0);
	TELL("end", ustack_self(), run, arg);
}

static void pass(void *arg)
{
	int i;

	TELL("begin", ustack_self(), pass, arg);
	for (i = 0; i < 3; i++) {
		TELL("block", ustack_self(), pass, arg);
		CHECK(usched_pass() == 0);
	}
	TELL("end", ustack_self(), pass, arg);
}

static struct ustack *next(struct usched *d)
{
	return !one_ended ? &one : !hand_ended ? &hand : NULL;
}

static void *get(struct usched *d, int size)
{
	return malloc((size_t)size);
}

static void put(struct usched *d, void *block, int size)
{
	free(block);
}

static void done(struct usched *d, struct ustack *u)
{
	one_ended |= u == &one;
	hand_ended |= u == &hand;
}

static int again(struct usched *d, struct ustack *u)
{
	return u == &one && again_nr-- > 0;
}

int main(int argc, char **argv)
{
	s = (struct usched) { .s_next = next, .s_alloc = get, .s_free = put,
			      .s_done = done, .s_again = again };
	steps = (struct usched) { .s_next = next, .s_alloc = get, .s_free = put,
				  .s_coroutine = 1 };
	CHECK(argc == 2 && (story = fopen(argv[1], "w")) != NULL);
	ustack_init(&coroutine, &steps, pass, &s, NULL, 0);
	TELL("make", &coroutine, pass, &s);
	while (usched_enter(&coroutine) == 0)
		;
	ustack_init(&one, &s, run, NULL, NULL, 0);
	TELL("make", &one, run, NULL);
	hand.u_sched = &s;
	hand.u_f = run;
	hand.u_arg = &hand;
	usched_run(&s);
	free(one.u_stack);
	free(hand.u_stack);
	free(coroutine.u_stack);
	return fclose(story);
}
