/* SPDX-License-Identifier: MIT */
/* tiny.h: a minimal scheduler, first in, first out, for tests of the core. */

#ifndef TINY_H
#define TINY_H

/*
 * tiny_yield() puts the running thread at the end of the queue; tiny_wait()
 * does not; tiny_wake() puts another thread there. A thread that yields is
 * queued by s_next(), after its block has succeeded, so a failure has nothing
 * to undo.
 *
 * Each buffer has a header and a tail. They are checked when the buffer is
 * freed: the size must be the same, and nothing written outside. tiny_fini()
 * checks that all buffers were freed. New and freed buffers are poisoned.
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
	void               *tt_data;		/* for the test */
	int                 tt_done;		/* calls of s_done() */
};

struct tiny {
	struct usched       t_sched;		/* must be first */
	struct tiny_thread *t_head;
	struct tiny_thread *t_tail;
	struct tiny_thread *t_yields;
	int                 t_live;		/* threads not ended yet */
	int                 t_keep;		/* s_done() frees no buffer */
	long                t_allocs;		/* calls of s_alloc() */
	long                t_frees;		/* calls of s_free() */
	long                t_held;		/* buffers not freed yet */
	long                t_bytes;		/* bytes of these buffers */
	long                t_fail;		/* the s_alloc() that fails */
	long                t_fail_all;		/* all later calls fail, too */
	long                t_failed;		/* calls that failed */
	long                t_rounds;		/* calls of s_next() */
	long                t_stop;		/* this s_next() returns NULL */
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

	CHECK_IS(ustack_self(), NULL);
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

	CHECK_THAT(size, >, 0);
	t->t_allocs++;
	if (t->t_fail != 0 && (t->t_allocs == t->t_fail ||
			       (t->t_fail_all && t->t_allocs > t->t_fail))) {
		t->t_failed++;
		return NULL;
	}
	h = (struct tiny_head *)malloc(sizeof *h + size + sizeof h->h_pad);
	if (h == NULL) {		/* fail.h */
		t->t_failed++;
		return NULL;
	}
	h->h_magic = TINY_MAGIC;
	h->h_size  = size;
	h->h_pad   = (uint64_t)-size;
	memset(h + 1, TINY_FRESH, size);
	memcpy((char *)(h + 1) + size, &h->h_pad, sizeof h->h_pad);
	t->t_held++;
	t->t_bytes += size;
	return h + 1;
}

/* Checks that nothing was written outside of the buffer, whose u_len is len. */
static UNUSED struct tiny_head *tiny_intact(const void *buf, int len)
{
	struct tiny_head *h = (struct tiny_head *)buf - 1;
	int size = h->h_size;

	CHECK_IS(h->h_magic, TINY_MAGIC);
	CHECK_IS(len & -8, size & -8);
	CHECK_IS(h->h_pad, (uint64_t)-size);
	CHECK(memcmp((char *)(h + 1) + size, &h->h_pad, sizeof h->h_pad) == 0);
	return h;
}

static UNUSED void tiny_free(struct usched *s, void *buf, int size)
{
	struct tiny *t = (struct tiny *)s;
	struct tiny_head *h = tiny_intact(buf, size);

	CHECK_IS(size % 8, 0);
	size = h->h_size;		/* of a first buffer any number */
	memset(h, TINY_STALE, sizeof *h + size + sizeof h->h_pad);
	__asm__ volatile("" : : "r"(h) : "memory");	/* keeps memset() */
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

	CHECK_IS(ustack_self(), NULL);
	CHECK_IS(u->u_sched, s);
	CHECK_IS(tt->tt_done, 0);
	tt->tt_done++;
	t->t_live--;
	if (!t->t_keep)
		tiny_drop(u);
}

/* If set, deep threads share lanes, as they do when no more can be mapped. */
static int tiny_shares;

/*
 * lanes: 0 for the native stack only. Returns 0, or -ENOSYS in a portable
 * build.
 */
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
		t->t_sched.s_private = NULL;
	return rc;
}

/* Tells whether this build has lanes. */
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
	CHECK_IS(tiny_try_yield(), 0);
}

static UNUSED void tiny_wait(void)
{
	CHECK_IS(ustack_block(), 0);
}

static UNUSED void tiny_run(struct tiny *t)
{
	usched_run(&t->t_sched);
}

/* Checks that all threads have ended, and that all buffers were freed. */
static UNUSED void tiny_fini(struct tiny *t)
{
	CHECK_IS(t->t_live, 0);
	CHECK_IS(t->t_held, 0);
	CHECK_IS(t->t_bytes, 0);
	CHECK_IS(t->t_head, NULL);
	CHECK_IS(ustack_self(), NULL);
	usched_fini(&t->t_sched);
}

#endif /* TINY_H */
