/* SPDX-License-Identifier: MIT */
/* bare.c: runs lives over a dispatcher, in an order that the seed gives. */

/*
 * The scheduler does all that a scheduler may do. Now and then it returns NULL;
 * then usched_run() is called again, with lanes from another depth, and with
 * other control words. It gives first buffers of any length, and has no memory
 * now and then. It chooses lanes, and forgets threads. Signals come while it
 * runs, on whatever stack that is.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fuzz.h"

#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LANE		((size_t)256 << 10)
#define AWAY		4		/* usched.c: slice is in the buffer */
#define NO_SLICE	2
#define PAD		8192		/* of stack, above the first call */
#define PAD_LESS	4096		/* for later calls, at most */
#define FRESH		0xa5
#define STALE		0x5a
#define MAGIC		0x0ff5e7

struct bare {
	struct usched  b_sched;		/* must be first */
	struct world  *b_world;
	struct life  **b_ready;
	int            b_ready_nr;
	struct life   *b_yields;	/* will be ready when it has blocked */
	long           b_held;		/* buffers */
	unsigned       b_fp;		/* control words of the dispatcher */
	int            b_more;		/* there are still lives to run */
	int            b_pad;
	struct life   *b_runs;
};

static unsigned any(struct bare *b, unsigned nr)
{
	return pick(&b->b_world->w_random, nr);
}

static int with(const struct bare *b, unsigned flag)
{
	return (b->b_world->w_trace->c_flags & flag) != 0;
}

static struct bare *bare_of(const struct life *l)
{
	return (struct bare *)l->l_stack.u_sched;
}

static void noise(struct bare *b)
{
	if (with(b, F_noise) && any(b, 8) == 0)
		fuzz_signal(any(b, 256));
}

/* Buffers: with a head, and a tail of as many bytes as head. */

struct head {
	int   h_magic;
	int   h_size;
	void *h_block;
};

static void *buffer(struct bare *b, int size)
{
	char *block = (char *)malloc(size + 4 * sizeof(struct head));
	struct head *h;

	MUST(block != NULL);
	/* Aligned for a long, and for no more than that. */
	h = (struct head *)(block + 8 * any(b, 2));
	h->h_magic = MAGIC;
	h->h_size  = size;
	h->h_block = block;
	memset(h + 1, FRESH, size);
	memcpy((char *)(h + 1) + size, h, sizeof *h);
	b->b_held++;
	return h + 1;
}

static void *bare_alloc(struct usched *s, int size)
{
	struct bare *b = (struct bare *)s;

	MUST(size > 0 && size % 8 == 0);
	MUST(ustack_self() == &b->b_runs->l_stack);
	noise(b);
	if (with(b, F_nomem) && any(b, 3) == 0)
		return NULL;
	return buffer(b, size);
}

static void bare_free(struct usched *s, void *buf, int size)
{
	struct bare *b = (struct bare *)s;
	struct head *h = (struct head *)buf - 1;

	MUST(h->h_magic == MAGIC && (h->h_size & -8) == size);
	MUST(memcmp((char *)(h + 1) + h->h_size, h, sizeof *h) == 0);
	memset(buf, STALE, size);
	b->b_held--;
	free(h->h_block);
}

static void buffer_drop(struct ustack *u)
{
	if (u->u_stack != NULL)
		bare_free(u->u_sched, u->u_stack, u->u_len);
	u->u_stack = NULL;
	u->u_len = 0;
}

/* Lives that can run. */

static void ready(struct bare *b, struct life *l)
{
	MUST(b->b_ready_nr < b->b_world->w_total);
	b->b_ready[b->b_ready_nr++] = l;
}

static struct life *ready_take(struct bare *b, int i)
{
	struct life *l = b->b_ready[i];

	b->b_ready_nr--;
	memmove(b->b_ready + i, b->b_ready + i + 1,
		(b->b_ready_nr - i) * sizeof *b->b_ready);
	return l;
}

/* Counts wakes less waits, as uproc.h does. */
static void bare_wake(struct life *l)
{
	if (l->l_wakes++ < 0)
		ready(bare_of(l), l);
}

/* Blocks. False: there was no memory, and nothing has changed (usched I5). */
static int block(struct bare *b, struct life *l)
{
	int rc = ustack_block();

	MUST(ustack_self() == &l->l_stack);
	MUST(b->b_runs == l);
	if (rc != 0) {
		MUST(rc == -ENOMEM && with(b, F_nomem));
		life_here(l);
	}
	fuzz_count(rc == 0 ? K_block : K_nomem);
	return rc == 0;
}

static void bare_yield(struct life *l)
{
	struct bare *b = bare_of(l);

	do
		b->b_yields = l;
	while (!block(b, l));
}

static void bare_wait(struct life *l)
{
	while (--l->l_wakes < 0 && !block(bare_of(l), l))
		l->l_wakes++;
}

static const struct driver driver;

/*
 * Starts a life, with a first buffer: none, too small, as needed, far too
 * large.
 */
static void start(struct bare *b, struct life *l)
{
	static const int sizes[] = { 1, 16, 80, 300, 2000, 5000, 200000 };
	void *buf = NULL;
	int len = 0;

	if (any(b, 2) == 0) {
		len = 1 + (int)any(b, sizes[any(b, 7)]);
		buf = buffer(b, len);
		fuzz_count(K_first_buffer);
	}
	ustack_init(&l->l_stack, &b->b_sched, life_main, l, buf, len);
	if (with(b, F_pin) && b->b_sched.s_lane_nr > 0 && any(b, 3) == 0)
		l->l_stack.u_lane =
			(short)(1 + any(b, b->b_sched.s_lane_nr));
	else if (private_lanes(b->b_world) && any(b, 2) == 0 &&
		 usched_private(&b->b_sched, 1) == 0)
		l->l_stack.u_lane = USCHED_PRIVATE;
	l->l_wakes = 0;
	l->l_joiner = NULL;
	ready(b, l);
}

static void bare_spawn(struct life *l, struct life *child)
{
	start(bare_of(l), child);
}

/* Waits for a wake at the child's end, and gives back all other wakes. */
static void bare_join(struct life *l, struct life *child)
{
	int wakes = 0;

	if (child->l_stack.u_sched == NULL)
		return;
	child->l_joiner = l;
	while (child->l_stack.u_sched != NULL) {
		bare_wait(l);
		wakes++;
	}
	l->l_wakes += wakes - 1;
}

static void bare_abort(struct life *l)
{
	(void)l;
	ustack_abort();
}

static const struct driver driver = {
	.d_yield = bare_yield,
	.d_wait  = bare_wait,
	.d_wake  = bare_wake,
	.d_spawn = bare_spawn,
	.d_join  = bare_join,
	.d_abort = bare_abort
};

/*
 * Makes any use of a thread after its end fail. u_sched shows that it has
 * ended.
 */
static void poison(struct ustack *u)
{
	memset(u, STALE, sizeof *u);
	u->u_stack = NULL;
	u->u_sched = NULL;
}

/* s_done(): nothing of the thread may be used any more. */
static void bare_done(struct usched *s, struct ustack *u)
{
	struct bare *b = (struct bare *)s;
	struct life *l = (struct life *)u;

	MUST(u == &b->b_runs->l_stack);
	MUST(ustack_self() == NULL);
	MUST(fp_now() == b->b_fp);
	MUST(l->l_ended == 1);
	noise(b);
	buffer_drop(u);
	poison(u);
	if (l->l_joiner != NULL)
		bare_wake(l->l_joiner);
}

/* Forgets a life, in any place, if that is allowed: often the last that ran. */
static void drop_one(struct bare *b)
{
	struct world *w = b->b_world;
	struct life *l = b->b_runs;
	int i;

	if (l == NULL || any(b, 2) == 0)
		l = w->w_life[any(b, w->w_trace->c_lives)];
	if (l == NULL || !l->l_doomed || l->l_stack.u_sched == NULL)
		return;
	for (i = b->b_ready_nr - 1; i >= 0; i--) {
		if (b->b_ready[i] == l)
			ready_take(b, i);
	}
	pending_drop(w, l);
	ustack_fini(&l->l_stack);
	buffer_drop(&l->l_stack);
	poison(&l->l_stack);
	l->l_result = l->l_want;
	l->l_blocks = l->l_want_blocks;
	l->l_ended  = 1;
	w->w_alive--;
	fuzz_count(K_drop);
}

static struct life *choose(struct bare *b)
{
	switch (b->b_world->w_trace->c_sched) {
	case S_FIFO:	return ready_take(b, 0);
	case S_LIFO:	return ready_take(b, b->b_ready_nr - 1);
	default:	return ready_take(b, (int)any(b, b->b_ready_nr));
	}
}

static void note(struct bare *b, const struct ustack *u)
{
	uintptr_t low = (uintptr_t)u->u_top & 7;
	const struct usched_lane *l = &b->b_sched.s_lane[u->u_lane];

	if ((low & NO_SLICE) == 0 && (low & AWAY) != 0) {
		fuzz_count(K_copy);
		if (l->l_bottom - (char *)((uintptr_t)u->u_top - low) > u->u_len)
			fuzz_count(K_prologue_words);
	}
}

static struct ustack *bare_next(struct usched *s)
{
	struct bare *b = (struct bare *)s;
	struct world *w = b->b_world;

	MUST(ustack_self() == NULL);
	MUST(fp_now() == b->b_fp);
	noise(b);
	if (b->b_yields != NULL)
		ready(b, b->b_yields);
	b->b_yields = NULL;
	if (with(b, F_drop) && any(b, 8) == 0)
		drop_one(b);
	b->b_more = 1;
	if (with(b, F_reenter) && any(b, 24) == 0)
		return NULL;
	if (any(b, 8) == 0)
		(void)pending_wake(w, any(b, 1 << 16));
	while (b->b_ready_nr == 0) {
		b->b_more = pending_wake(w, any(b, 1 << 16));
		if (!b->b_more)
			return NULL;
	}
	b->b_runs = choose(b);
	note(b, &b->b_runs->l_stack);
	return &b->b_runs->l_stack;
}

/* Called in the hard mode, with yield=SEED. */
static int bare_preempt(struct usched *s, struct ustack *u)
{
	struct bare *b = (struct bare *)s;

	if (with(b, F_nomem))
		return 0;	/* UHARD(yield()) cannot report a failure */
	MUST(u == &b->b_runs->l_stack);
	b->b_yields = b->b_runs;
	return 1;
}

/* Calls of usched_run(). */

/* Without lanes, never from deeper than the first time, but from less deep. */
static NOINLINE void run_deeper(struct bare *b)
{
	volatile char *pad = (volatile char *)alloca(b->b_pad + 16);

	pad[0] = 1;
	usched_run(&b->b_sched);
	MUST(pad[0] == 1);
}

/* Runs with other control words, which are the caller's own. */
static void run_with_others(struct bare *b)
{
	unsigned fp = fp_now(), mine;

	fp_round(any(b, 32));
	mine = fp_now();
	if (mine != fp)
		fuzz_count(K_other_round);
	run_deeper(b);
	MUST(fp_now() == mine);
	fp_back(fp);
}

static void *run_elsewhere(void *bare)
{
	run_deeper((struct bare *)bare);
	return NULL;
}

static void run_again(struct bare *b)
{
	pthread_t id;

	fuzz_count(K_reenter);
	b->b_pad = (int)any(b, b->b_sched.s_lane_nr > 0 ? PAD : b->b_pad + 1);
	if (b->b_sched.s_lane_nr > 0 && any(b, 4) == 0) {
		fuzz_count(K_moved);
		MUST(pthread_create(&id, NULL, run_elsewhere, b) == 0);
		MUST(pthread_join(id, NULL) == 0);
	} else
		run_with_others(b);
}

static void open_lanes(struct bare *b, int nr)
{
	int rc = nr > 0 ? usched_lanes(&b->b_sched, nr, LANE) : 0;

	MUST(rc == 0 || rc == -ENOSYS);
}

void bare_run(struct world *w)
{
	struct bare *b = (struct bare *)calloc(1, sizeof *b);
	int i;

	MUST(b != NULL);
	b->b_world = w;
	b->b_ready = (struct life **)calloc(w->w_total + 1, sizeof *b->b_ready);
	MUST(b->b_ready != NULL);
	b->b_sched.s_next  = bare_next;
	b->b_sched.s_alloc = bare_alloc;
	b->b_sched.s_free  = bare_free;
	b->b_sched.s_done  = bare_done;
	b->b_sched.s_preempt = bare_preempt;
	b->b_fp  = fp_now();
	b->b_pad = PAD;
	open_lanes(b, w->w_trace->c_lanes);
	if (w->w_trace->c_lives % 2 != 0)
		b->b_sched.s_private = NULL;	/* deep threads share, too */
	for (i = 0; i < w->w_trace->c_lives; i++) {
		if (w->w_life[i] == NULL)
			continue;
		life_reset(w->w_life[i], &driver);
		start(b, w->w_life[i]);
	}
	run_deeper(b);
	b->b_pad = PAD_LESS;
	while (b->b_more)
		run_again(b);
	MUST(w->w_alive == 0);
	MUST(b->b_held == 0);
	MUST(b->b_sched.s_private == NULL ||
	     b->b_sched.s_private->pl_promised == 0);
	usched_fini(&b->b_sched);
	free(b->b_ready);
	free(b);
}
