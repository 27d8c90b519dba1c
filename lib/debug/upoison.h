/* SPDX-License-Identifier: MIT */
/* upoison.h: poison and checksums in the hard mode. A part of uhard.c. */

#ifndef UPOISON_H
#define UPOISON_H

/*
 * For each place where a pointer into the stack of a blocked thread may lead
 * there is something that only a mistake changes:
 *
 *	place                           must not change
 *	a slice, in place or in its     its checksum
 *	buffer
 *	stack that a thread has left    poison; with `fault' no access
 *	the dead frames below a slice   poison, for DEAD bytes
 *	a buffer whose slice is on the  poison
 *	stack
 *
 * In the lane of a thread that has blocked in place, and after its eviction:
 *
 *	  DEAD     GAP    slice of U
 *	|#######|       |------------|        # poison
 *	^       ^                    ^        - summed up
 *	k_low   k_high               l_bottom
 *
 *	|############################|
 *	^                            ^
 *	k_low                        l_bottom == k_high
 *
 * GAP is left alone: usched.c has put a return address there, for debuggers.
 * The poison is checked when a thread, any thread, is run in the lane. From
 * then on it is the stack of that thread.
 *
 * INVARIANTS
 *
 * H2. [k_low, k_high) of a lane is poison, and no thread runs there.
 */

#include "uhard_inside.h"

#define POISON		((uintptr_t)0xdbdbdbdbdbdbdbdbu)
/* Bytes of dead frames that are poisoned below a slice. */
#define DEAD		1024
/*
 * Not poisoned below a slice: a free word, and what mark_return() in core/
 * writes.
 */
#define GAP		64
/* Stack below a frame that its function may still use, with a red zone. */
#define FRAME		512

/* Memory, in words: all addresses given are aligned. */

/* Returns a checksum that depends on each word and on its place. */
static UNCHECKED uint64_t sum(const char *from, const char *to)
{
	const uintptr_t *at = (const uintptr_t *)from;
	uint64_t x = (uint64_t)(to - from);

	for (; at < (const uintptr_t *)to; at++)
		x = ((x << 29 | x >> 35) ^ *at) * 0x9e3779b97f4a7c15u;
	return x;
}

/* Volatile, else it would become memset(), which sanitizers check. */
static UNCHECKED void fill(char *from, char *to)
{
	volatile uintptr_t *at = (uintptr_t *)from;

	for (; at < (uintptr_t *)to; at++)
		*at = POISON;
}

/* Returns the first byte that is not poison any more, or NULL. */
static UNCHECKED const char *spoilt(const char *from, const char *to)
{
	const uintptr_t *at = (const uintptr_t *)from;
	const char *byte;

	while (at < (const uintptr_t *)to && *at == POISON)
		at++;
	if (at >= (const uintptr_t *)to)
		return NULL;
	for (byte = (const char *)at; *byte == (char)POISON; byte++)
		;
	return byte;
}

/* Poisons the native stack from there to just below our own frame: uhard H4. */
static NOINLINE UNCHECKED void fill_below(char *from)
{
	char *to = (char *)__builtin_frame_address(0) - FRAME;

	fill((char *)((uintptr_t)from & -sizeof POISON),
	     (char *)((uintptr_t)to & -sizeof POISON));
}

/* What has changed. */

/*
 * Fails. If the victim itself ran last, it is not the culprit: it was blocked.
 */
static NORETURN void ran_last(struct text *x, const struct usched *s,
			      struct name victim)
{
	put(x, "; ");
	if (s->s_hard->d_ran.w_stack == victim.w_stack)
		put(x, "another native thread, or the scheduler, has done it: "
		    "no other thread of this dispatcher has run since");
	else {
		put_name(x, s->s_hard->d_ran);
		put(x, " ran last");
	}
	usched_fail(x->x_text);
}

/* Fails if the poison of the lane has changed. Gives it up (H2). */
static void poison_see(struct usched *s, struct usched_lane *l)
{
	struct uhard_lane *k = &l->l_hard;
	const char *at = spoilt(k->k_low, k->k_high);
	struct name victim = last_of(l);
	int lane = (int)(l - s->s_lane);
	struct text x = { .x_nob = 0 };

	k->k_low = k->k_high = NULL;
	if (at == NULL)
		return;
	put(&x, "the stack of ");
	lock();
	if (put_blocked(&x, s->s_hard, lane, at, &victim, IS_AWAY) > 0) {
		put(&x, ", which is blocked, was written to at ");
		put_place(&x, at, lane);
		put(&x, " while it was away");
	} else {
		put_name(&x, victim);
		put(&x, ", where it is dead, was written to at ");
		put_place(&x, at, lane);
	}
	unlock();
	ran_last(&x, s, victim);
}

/*
 * Fails if the checksum differs. how: " in its buffer" if just copied, or "".
 */
static void sum_see(struct ustack *u, char *slice, const char *how)
{
	struct uhard_stack *h = u->u_hard;
	ptrdiff_t nob = lane_of(u)->l_bottom - slice;
	char *buf = u->u_stack;
	struct text x = { .x_nob = 0 };

	if (!mode.m_check || sum(slice, slice + nob) == h->h_sum ||
	    ustack_is_private(u))	/* others may write there */
		return;
	/* But just now, on the stack, and not by a thread. */
	if (*how != 0 && sum(buf, buf + nob) == h->h_sum) {
		how = "";
		u->u_sched->s_hard->d_ran = h->h_name;
	}
	put(&x, "the slice of ");
	put_name(&x, h->h_name);
	put(&x, " in lane ");
	put_number(&x, u->u_lane, 10);
	put(&x, " has changed");
	put(&x, how);
	put(&x, " while it was blocked");
	ran_last(&x, u->u_sched, h->h_name);
}

/* Fails if the buffer, still the same that was poisoned, has changed. */
static void buf_see(struct ustack *u)
{
	struct uhard_stack *h = u->u_hard;
	struct text x = { .x_nob = 0 };
	const char *at;

	if (h->h_buf == NULL || h->h_buf != u->u_stack) {
		h->h_buf = NULL;
		return;
	}
	at = spoilt(h->h_buf, h->h_buf + h->h_buf_nob);
	if (at == NULL)
		return;
	put(&x, "the buffer of ");
	put_name(&x, h->h_name);
	put(&x, " was written to at ");
	put_number(&x, (uintptr_t)at, 16);
	put(&x, " while its slice was on the stack");
	ran_last(&x, u->u_sched, h->h_name);
}

#endif /* UPOISON_H */
