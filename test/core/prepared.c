/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * prepared: threads that s_next() leaves prepared (PREPARED THREADS in usched.h)
 * run exactly in the order that the header says, in any state: new, in their
 * lane or out of it, with control words of their own, on lane 0. s_next() is
 * called when no thread is prepared, or s_left is 0, and at no other time.
 *
 * The test foretells each switch from the fields that the header names, just
 * before the thread blocks or ends.
 */
#include "tiny.h"
#include <limits.h>
#include <setjmp.h>

#define NR	40
#define RING	64			/* a power of two, more than NR */

struct member {
	struct tiny_thread m_tiny;	/* must be first */
	int  m_ready;			/* is in the slot or the queue */
	int  m_ended;
	int  m_trips;
	long m_runs;			/* how often it was entered */
};

static struct tiny t;
static struct usched *const s = &t.t_sched;
static struct usched_queue q;
static struct ustack *ring[RING];
static struct member m[NR];
static unsigned seed;
static int left;			/* what s_next() sets; -1: any */
static int wrapped;			/* another s_next() is in front */
static struct ustack *want;		/* must be next; NULL: by s_next() */
static int want_left;
static int may_reuse, may_fail, may_jump;
static long by_hand, by_next, jumped, reused, refusals;
static jmp_buf back;

/*
 * Foretells the next thread, as the header says, from the fields that it names.
 */
static void foretell(void)
{
	want = NULL;
	want_left = 0;
	if (s->s_left <= 0)
		return;
	if (s->s_hot != NULL)
		want = s->s_hot;
	else if (q.q_head != q.q_tail)
		want = ring[q.q_head % RING];
	want_left = s->s_left - 1;
}

static void is_foretold(struct member *me)
{
	CHECK(want == &me->m_tiny.tt_stack && tiny_self() == &me->m_tiny);
	CHECK(s->s_left == want_left && usched_self() == s);
	CHECK_THAT(s->s_hot, !=, want);
	me->m_ready = 0;
	me->m_runs++;
}

static void to_queue(struct member *x)
{
	CHECK(!x->m_ready && !x->m_ended);
	x->m_ready = 1;
	ring[q.q_tail++ % RING] = &x->m_tiny.tt_stack;
}

/* Wakes as ll does: the thread in the slot goes to the queue. */
static void to_slot(struct member *x)
{
	struct member *before = (struct member *)s->s_hot;

	CHECK(!x->m_ready && !x->m_ended);
	s->s_hot = NULL;
	if (before != NULL) {
		before->m_ready = 0;
		to_queue(before);
	}
	x->m_ready = 1;
	s->s_hot = &x->m_tiny.tt_stack;
}

/* Returns a thread that waits or is new, or NULL. */
static struct member *some(const struct member *but)
{
	unsigned i, at = check_random(&seed);

	for (i = 0; i < NR; i++) {
		struct member *x = &m[(at + i) % NR];

		if (!x->m_ready && !x->m_ended && x != but)
			return x;
	}
	return NULL;
}

static void wake_some(const struct member *but)
{
	struct member *x;
	unsigned n = check_random(&seed) % 4;

	while (n-- > 0 && (x = some(but)) != NULL) {
		if (check_random(&seed) % 2)
			to_slot(x);
		else
			to_queue(x);
	}
}

/* Returns a prepared thread, or else any. */
static struct ustack *next(struct usched *sched)
{
	struct member *x;

	CHECK(sched == s && want == NULL && ustack_self() == NULL);
	s->s_queue = &q;
	s->s_left = s->s_next != next ? 0 : left >= 0 ? left :
		(int)(check_random(&seed) % 5);
	if (s->s_hot != NULL) {
		want = s->s_hot;
		s->s_hot = NULL;
	} else if (q.q_head != q.q_tail) {
		want = ring[q.q_head++ % RING];
	} else if ((x = some(NULL)) != NULL) {
		want = &x->m_tiny.tt_stack;
	}
	want_left = s->s_left;
	by_next += want != NULL;
	if (may_jump && check_random(&seed) % 16 == 0)
		wake_some((struct member *)want);
	return want;
}

static struct ustack *wrapper(struct usched *sched)
{
	return next(sched);
}

static void done(struct usched *sched, struct ustack *u)
{
	struct member *x = (struct member *)u;

	CHECK(sched == s && ustack_self() == NULL);
	CHECK(x->m_ended);
	tiny_done(sched, u);
}

static void begins(void *arg);

static int again(struct usched *sched, struct ustack *u)
{
	struct member *x = (struct member *)u;

	CHECK(sched == s && ustack_self() == u);
	if (!may_reuse || x->m_trips++ > 16)
		return 0;
	u->u_f   = begins;
	u->u_arg = x;
	x->m_ended = 0;
	x->m_ready = 1;			/* begins now, without s_next() */
	want = u;
	want_left = s->s_left;
	reused++;
	return 1;
}

/* Sets rounding, which the call-backs must not see. */
static unsigned words(const struct member *me)
{
#if defined(__x86_64__)
	return me - m > NR / 2 && me - m < NR / 2 + 4 ? 0x5f80 : 0x1f80;
#else
	return 0;
#endif
}

static void words_set(unsigned w)
{
#if defined(__x86_64__)
	__asm__ volatile("ldmxcsr %0" : : "m"(w));
#endif
}

static unsigned words_get(void)
{
	unsigned w = 0;

#if defined(__x86_64__)
	__asm__ volatile("stmxcsr %0" : "=m"(w));
	w &= 0xffc0;
#endif
	return w;
}

static void jump_now_and_then(struct member *me)
{
	if (!may_jump || check_random(&seed) % 64 != 0)
		return;
	me->m_ended = 1;
	longjmp(back, 1);
}

/* Blocks once, by a call or in place. */
static void blocks(struct member *me)
{
	int rc, yields = check_random(&seed) % 4, put = 0;

	wake_some(me);
	if (yields == 0) {
		to_queue(me);		/* wakes itself */
		put = 1;
	}
	jump_now_and_then(me);
	if (may_fail && check_random(&seed) % 8 == 0)
		t.t_fail = t.t_allocs + 1;
	foretell();
	rc = yields % 2 ? ustack_block() : usched_block();
	if (rc != 0) {
		refusals++;
		foretell();		/* nothing was taken */
		if (put) {
			q.q_tail--;
			me->m_ready = 0;
		}
		return;
	}
	is_foretold(me);
	CHECK_IS(words_get(), words(me));
}

static NOINLINE void goes_deep(struct member *me, int depth)
{
	unsigned own = check_hash((unsigned)me->m_runs, (unsigned)depth);
	unsigned v[6], i;

	for (i = 0; i < 6; i++)
		v[i] = own + i;
	__asm__ volatile("" : : "r"(v) : "memory");
	if (depth > 0)
		goes_deep(me, depth - 1);
	blocks(me);
	for (i = 0; i < 6; i++)
		CHECK_IS(v[i], own + i);
}

static void begins(void *arg)
{
	struct member *me = (struct member *)arg;
	int trips = 1 + me->m_trips;

	is_foretold(me);
	words_set(words(me));
	while (trips-- > 0) {
		if (check_random(&seed) % 2)
			goes_deep(me, (int)(check_random(&seed) % 4));
		/* In place, so this function saves all registers (prologue words). */
		wake_some(me);
		foretell();
		if (usched_block() == 0)
			is_foretold(me);
	}
	wake_some(me);
	me->m_ended = 1;
	foretell();
	if (check_random(&seed) % 4 == 0)
		ustack_abort();
}

static int start(int lanes, unsigned ahead)
{
	int i, rc = tiny_init(&t, lanes);

	memset(m, 0, sizeof m);
	memset(&q, 0, sizeof q);
	q.q_ring = ring;
	q.q_mask = RING - 1;
	q.q_head = q.q_tail = 0u - 3;	/* counts wrap around */
	s->s_next  = wrapped ? wrapper : next;
	s->s_done  = done;
	s->s_again = again;
	s->s_ahead = ahead;
	for (i = 0; i < NR && rc == 0; i++) {
		ustack_init(&m[i].m_tiny.tt_stack, s, begins, &m[i], NULL, 0);
		m[i].m_trips = i % 11;
		t.t_live++;
	}
	want = NULL;
	return rc;
}

/* After a jump out of a run, the next run goes on with what is left. */
static NOINLINE void runs(void)
{
	volatile int jumps = 0;
	struct member *x;

	if (setjmp(back) != 0) {
		x = (struct member *)ustack_self();
		CHECK(x != NULL && x->m_ended);
		usched_left(s);
		words_set(words(m));
		if (x->m_ready) {
			/* It had yielded. */
			CHECK_THAT(q.q_tail--, !=, q.q_head);
		}
		t.t_live--;
		tiny_drop(&x->m_tiny.tt_stack);
		jumps = jumps + 1;
		jumped++;
	}
	foretell();
	usched_run(s);
	CHECK(want == NULL && s->s_hot == NULL && q.q_head == q.q_tail);
	CHECK(t.t_live == 0 && t.t_held == 0);
}

static void with(int lanes, int budget, unsigned ahead)
{
	long before = by_hand;
	int i;

	left = budget;
	if (start(lanes, ahead) != 0)
		return;
	runs();
	for (i = 0; i < NR; i++)
		by_hand += m[i].m_runs;
	by_hand -= by_next;
	by_next = 0;
	/* A thread that begins again is not a prepared thread. */
	CHECK(budget != 0 && !wrapped ? by_hand > before + 20 :
	      by_hand - before <= reused);
	tiny_fini(&t);
}

/*
 * Another s_next() is put in front during a run, as usched_stats() does. From
 * then on it is called at each switch, until it is taken away.
 */
static long seen;
static int fronts;

static struct ustack *front(struct usched *sched)
{
	seen++;
	return next(sched);
}

static void comes_and_goes(void *arg)
{
	struct member *me = (struct member *)arg;
	long before;
	int i;

	is_foretold(me);
	for (i = 0; i < 20; i++) {
		fronts++;
		before = seen;
		if (i % 2) {
			s->s_next = next;
		} else {
			s->s_next = front;
			s->s_left = 0;
		}
		blocks(me);
		/* At least at the switches away from here and back. */
		CHECK(i % 2 || seen > before);
		CHECK(!(i % 2) || seen == before);
	}
	me->m_ended = 1;
	foretell();
}

static void with_front(int lanes)
{
	left = 3;
	if (start(lanes, 4) != 0)
		return;
	m[NR / 3].m_tiny.tt_stack.u_f = comes_and_goes;
	runs();
	tiny_fini(&t);
}

/* Runs with a lane for each thread, with few lanes, and with none. */
static void all_ways(int lanes)
{
	static const int budgets[] = { 0, 1, 3, -1, INT_MAX };
	int i;

	for (i = 0; i < COUNT(budgets); i++) {
		may_reuse = i % 2;
		may_fail = i / 2 % 2;
		may_jump = 0;
		with(lanes, budgets[i], 0);
		may_jump = 1;
		with(lanes, budgets[i], 1 + (unsigned)i * 4);
		may_jump = 0;
		wrapped = 1;
		with(lanes, budgets[i], 48);
		wrapped = 0;
	}
	may_reuse = may_fail = 0;
	with_front(lanes);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 3, NR };
	int i;

	check_start(argc, argv);
	seed = check_seed;
	for (i = 0; i < 4 * COUNT(lanes); i++)
		all_ways(lanes[i % COUNT(lanes)]);
	CHECK(by_hand > 0 && jumped > 0 && refusals > 0 && fronts > 0);
	return 0;
}
