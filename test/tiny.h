/* SPDX-License-Identifier: MIT */
/* tiny.h: the least scheduler, first in, first out, for tests of the core. */

#ifndef TINY_H
#define TINY_H

/*
 * tiny_yield() puts the running thread at the end of the queue, tiny_wait()
 * does not, tiny_wake() puts another there. The thread that yields is queued
 * by s_next(), when the block has succeeded: nothing to undo if it fails.
 *
 * Buffers have a header and a tail that are checked when they are freed, and
 * at the end (tiny_fini()): the size, and that nothing was written outside.
 * Those that are new or freed are poisoned.
 */

#include "check.h"
#include "usched.h"
#include <errno.h>

#define TINY_FRESH	0xa5
#define TINY_STALE	0x5a
#define TINY_LANE	((size_t)256 << 10)
#define TINY_MAGIC	0x7119b0f5

struct tiny_head {
	int      h_magic;
	int      h_size;
	uint64_t h_pad;
};

struct tiny_thread {
	struct ustack       tt_stack;		/* must be first */
	struct tiny_thread *tt_next;
	void               *tt_data;		/* the test's */
	int                 tt_done;		/* calls of s_done() */
};

struct tiny {
	struct usched       t_sched;		/* must be first */
	struct tiny_thread *t_head;
	struct tiny_thread *t_tail;
	struct tiny_thread *t_yields;
	int                 t_live;		/* threads not ended */
	int                 t_keep;		/* s_done() frees no buffer */
	long                t_allocs;		/* calls of s_alloc() */
	long                t_frees;		/* calls of s_free() */
	long                t_held;		/* buffers not freed yet */
	long                t_bytes;		/* and their bytes */
	long                t_fail;		/* number of the call to fail */
	long                t_fail_all;		/* so do those after it */
	long                t_failed;		/* calls that did */
	long                t_rounds;		/* calls of s_next() */
	long                t_stop;		/* s_next(): NULL at this one */
};

static inline void tiny_wake(struct tiny_thread *tt)
{
	struct tiny *t = (struct tiny *)tt->tt_stack.u_sched;

	tt->tt_next = NULL;
	if (t->t_head == NULL)
		t->t_head = tt;
	else
		t->t_tail->tt_next = tt;
	t->t_tail = tt;
}

static UNUSED struct ustack *tiny_next(struct usched *s)
{
	struct tiny *t = (struct tiny *)s;
	struct tiny_thread *tt = t->t_yields;

	CHECK(ustack_self() == NULL);
	if (tt != NULL) {
		t->t_yields = NULL;
		tiny_wake(tt);
	}
	if (++t->t_rounds == t->t_stop)
		return NULL;
	tt = t->t_head;
	if (tt == NULL)
		return NULL;
	t->t_head = tt->tt_next;
	return &tt->tt_stack;
}

static UNUSED void *tiny_alloc(struct usched *s, int size)
{
	struct tiny *t = (struct tiny *)s;
	struct tiny_head *h;

	CHECK(size > 0);
	t->t_allocs++;
	if (t->t_fail != 0 && (t->t_allocs == t->t_fail ||
			       (t->t_fail_all && t->t_allocs > t->t_fail))) {
		t->t_failed++;
		return NULL;
	}
	h = (struct tiny_head *)malloc(sizeof *h + size + sizeof h->h_pad);
	CHECK(h != NULL);
	h->h_magic = TINY_MAGIC;
	h->h_size  = size;
	h->h_pad   = (uint64_t)-size;
	memset(h + 1, TINY_FRESH, size);
	memcpy((char *)(h + 1) + size, &h->h_pad, sizeof h->h_pad);
	t->t_held++;
	t->t_bytes += size;
	return h + 1;
}

/* Nothing was written outside of the buffer. */
static UNUSED struct tiny_head *tiny_intact(const void *buf, int size)
{
	struct tiny_head *h = (struct tiny_head *)buf - 1;

	CHECK(h->h_magic == TINY_MAGIC);
	CHECK(h->h_size == size);
	CHECK(h->h_pad == (uint64_t)-size);
	CHECK(memcmp((char *)(h + 1) + size, &h->h_pad, sizeof h->h_pad) == 0);
	return h;
}

static UNUSED void tiny_free(struct usched *s, void *buf, int size)
{
	struct tiny *t = (struct tiny *)s;
	struct tiny_head *h = tiny_intact(buf, size);

	memset(h, TINY_STALE, sizeof *h + size + sizeof h->h_pad);
	__asm__ volatile("" : : "r"(h) : "memory");	/* or it is left out */
	free(h);
	t->t_frees++;
	t->t_held--;
	t->t_bytes -= size;
}

static UNUSED void tiny_drop(struct ustack *u)
{
	if (u->u_stack != NULL)
		tiny_free(u->u_sched, u->u_stack, u->u_len);
	u->u_stack = NULL;
	u->u_len = 0;
}

static UNUSED void tiny_done(struct usched *s, struct ustack *u)
{
	struct tiny_thread *tt = (struct tiny_thread *)u;
	struct tiny *t = (struct tiny *)s;

	CHECK(ustack_self() == NULL);
	CHECK(u->u_sched == s);
	CHECK(tt->tt_done == 0);
	tt->tt_done++;
	t->t_live--;
	if (!t->t_keep)
		tiny_drop(u);
}

/* Set: deep threads share lanes, too, as they do if no more can be mapped. */
static int tiny_shares;

/* lanes: 0 for the native stack only. 0, or -ENOSYS in a portable build. */
static UNUSED int tiny_init(struct tiny *t, int lanes)
{
	int rc;

	memset(t, 0, sizeof *t);
	t->t_sched.s_next  = tiny_next;
	t->t_sched.s_alloc = tiny_alloc;
	t->t_sched.s_free  = tiny_free;
	t->t_sched.s_done  = tiny_done;
	rc = lanes != 0 ? usched_lanes(&t->t_sched, lanes, TINY_LANE) : 0;
	if (tiny_shares)
		t->t_sched.s_own = NULL;
	return rc;
}

/* Are there any in this build? */
static UNUSED int tiny_has_lanes(void)
{
	struct tiny t;
	int rc = tiny_init(&t, 1);

	usched_fini(&t.t_sched);
	return rc != -ENOSYS;
}

static UNUSED void tiny_start(struct tiny *t, struct tiny_thread *tt,
			      void (*f)(void *), void *arg)
{
	memset(tt, 0, sizeof *tt);
	ustack_init(&tt->tt_stack, &t->t_sched, f, arg, NULL, 0);
	t->t_live++;
	tiny_wake(tt);
}

static inline struct tiny_thread *tiny_self(void)
{
	return (struct tiny_thread *)ustack_self();
}

static inline int tiny_try_yield(void)
{
	struct tiny *t = (struct tiny *)ustack_self()->u_sched;
	int rc;

	t->t_yields = tiny_self();
	rc = ustack_block();
	if (rc != 0)
		t->t_yields = NULL;
	return rc;
}

static UNUSED void tiny_yield(void)
{
	CHECK(tiny_try_yield() == 0);
}

static UNUSED void tiny_wait(void)
{
	CHECK(ustack_block() == 0);
}

static UNUSED void tiny_run(struct tiny *t)
{
	usched_run(&t->t_sched);
}

/* Everything that was to end has ended, everything had is given back. */
static UNUSED void tiny_fini(struct tiny *t)
{
	CHECK(t->t_live == 0);
	CHECK(t->t_held == 0);
	CHECK(t->t_bytes == 0);
	CHECK(t->t_head == NULL);
	CHECK(ustack_self() == NULL);
	usched_fini(&t->t_sched);
}

#endif /* TINY_H */
