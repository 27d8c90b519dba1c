/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * stats: usched_stats() counts exactly what happens, and does not change it.
 * Before it is called and after its end, nothing is counted.
 */
#include "tiny.h"
#include "ll.h"
#include "rr.h"
#include "uslice.h"
#include "ustats.h"

#include <errno.h>
#include <stdbool.h>

#define NR	30
#if defined(USCHED_HARD)
#define IN_HARD	1			/* moves slices that would stay */
#else
#define IN_HARD	0
#endif

static struct tiny t;
static struct usched_stats st;

static bool off(const struct usched *s)
{
	return s->s_next == tiny_next && s->s_alloc == tiny_alloc &&
	       s->s_free == tiny_free && s->s_done == tiny_done &&
	       s->s_links == NULL;
}

/* Two threads take turns, A B A B A B; in its last turn each ends. */

static struct tiny_thread two[2];
static int len[2];

static void twice(void *arg)
{
	int *own = arg;

	tiny_yield();
	*own = ustack_self()->u_len;
	tiny_yield();
	CHECK_IS(*own, ustack_self()->u_len);
}

static void take_turns(int lanes, int hits, int copies)
{
	long bytes;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	CHECK(off(&t.t_sched));
	tiny_start(&t, &two[0], twice, &len[0]);
	tiny_start(&t, &two[1], twice, &len[1]);
	CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	tiny_run(&t);
	bytes = 2L * len[0] + 2L * len[1];
	CHECK(st.dispatches == 6 && st.starts == 2 && st.rests == 1);
	CHECK(st.allocs == 2 && st.alloc_bytes == len[0] + len[1]);
	CHECK(st.frees == 0 && st.free_bytes == 0 && st.alloc_fails == 0);
	CHECK(st.hits + st.copies_in == 4 && st.copies_out == st.copies_in);
	if (!IN_HARD) {
		CHECK(st.hits == hits && st.copies_in == copies);
		CHECK_IS(st.copies_in_bytes, copies ? bytes : 0);
		CHECK_IS(st.copies_out_bytes, copies ? bytes : 0);
	}
	usched_stats_end(&t.t_sched);
	CHECK(off(&t.t_sched));
	tiny_fini(&t);
	CHECK_IS(st.dispatches, 6);
}

/* Buffers: allocated, refused, and freed. */

static NOINLINE void deep(int nob)
{
	volatile char space[nob];

	space[0] = space[nob - 1] = 1;
	tiny_yield();
	CHECK(space[0] == 1 && space[nob - 1] == 1);
}

static void shrinks(void *arg)
{
	int *own = arg;

	CHECK_IS(tiny_try_yield(), -ENOMEM);
	CHECK(st.alloc_fails == 1 && st.allocs == 0);
	deep(20000);
	own[0] = ustack_self()->u_len;
	CHECK(own[0] > 20000 && st.allocs == 1 && st.alloc_bytes == own[0]);
	deep(100);
	own[1] = ustack_self()->u_len;
	CHECK(st.allocs == 2 && st.alloc_bytes == own[0] + own[1]);
	CHECK(st.frees == 1 && st.free_bytes == own[0]);
}

static void buffers(int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_fail = 1;
	tiny_start(&t, &two[0], shrinks, len);
	CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	tiny_run(&t);
	CHECK(st.allocs == 2 && st.frees == 1 && st.alloc_fails == 1);
	usched_stats_end(&t.t_sched);
	tiny_fini(&t);
}

/*
 * Random threads. Between two rounds, the test compares the counts with an
 * oracle of its own: which threads were in their buffers when s_next() was
 * called, and which are now.
 */

static struct tiny_thread *many[NR];	/* NULL: has ended, and was freed */
static bool away[NR];
static struct usched_stats want;
static unsigned state;
static int order[NR * 100], orders;

static int number(const struct tiny_thread *tt)
{
	int i;

	for (i = 0; i < NR && many[i] != tt; i++)
		;
	CHECK_THAT(i, <, NR);
	return i;
}

static long bytes_of(const struct ustack *u)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];
	long nob = l->l_bottom - (char *)((uintptr_t)u->u_top & -8);

	return nob < u->u_len ? nob : u->u_len & -(long)sizeof(long);
}

static void see(void)
{
	const struct ustack *u;
	int i;

	for (i = 0; i < NR; i++) {
		if (many[i] == NULL || many[i] == tiny_self())
			continue;
		u = &many[i]->tt_stack;
		if ((uintptr_t)u->u_top & USLICE_AWAY && !away[i]) {
			away[i] = true;
			want.copies_out++;
			want.copies_out_bytes += bytes_of(u);
		}
	}
}

static bool same(void)
{
	return st.dispatches == want.dispatches && st.starts == want.starts &&
		st.hits == want.hits && st.copies_in == want.copies_in &&
		st.copies_in_bytes == want.copies_in_bytes &&
		st.copies_out == want.copies_out &&
		st.copies_out_bytes == want.copies_out_bytes &&
		st.rests == want.rests;
}

static struct ustack *next(struct usched *s)
{
	struct ustack *u;
	int i;

	see();
	CHECK(s->s_links == NULL || IN_HARD || same());
	u = tiny_next(s);
	if (u == NULL) {
		want.rests++;
		return NULL;
	}
	i = number((struct tiny_thread *)u);
	want.dispatches++;
	order[orders++] = i;
	if (uslice_is_new(u))
		want.starts++;
	else if (away[i]) {
		want.copies_in++;
		want.copies_in_bytes += bytes_of(u);
		away[i] = false;
	} else
		want.hits++;
	return u;
}

static void forget(int i)
{
	struct tiny_thread *tt = many[i];

	see();		/* it may have been copied out since last time */
	ustack_fini(&tt->tt_stack);
	tiny_drop(&tt->tt_stack);
	memset(tt, 0xff, sizeof *tt);
	free(tt);
	many[i] = NULL;
	t.t_live--;
}

/* A thread that has ended is freed. Its memory would say AWAY. */
static void done(struct usched *s, struct ustack *u)
{
	int i = number((struct tiny_thread *)u);

	tiny_done(s, u);
	memset(many[i], 0xff, sizeof *many[i]);
	free(many[i]);
	many[i] = NULL;
}

/* Now and then a thread forgets another that is in no queue. */
static struct tiny_thread *idle;

static void random_walk(void *arg)
{
	int trips = (int)(check_random(&state) % 9), i;

	while (trips-- > 0) {
		deep((int)(check_random(&state) % 300) + 1);
		if (check_random(&state) % 8 == 0 && idle == NULL) {
			idle = tiny_self();
			tiny_wait();
		} else if (check_random(&state) % 4 == 0 && idle != NULL) {
			i = number(idle);
			idle = NULL;
			if (check_random(&state) % 2 == 0)
				forget(i);
			else
				tiny_wake(many[i]);
		}
		/* A thread is counted right after it has forgotten another. */
		if (check_random(&state) % 3 == 0)
			tiny_yield();
	}
}

static void start_many(int lanes)
{
	int i;

	memset(&want, 0, sizeof want);
	memset(away, 0, sizeof away);
	state  = check_seed;
	orders = 0;
	idle   = NULL;
	for (i = 0; i < NR; i++) {
		many[i] = malloc(sizeof *many[i]);
		CHECK(many[i] != NULL);
		tiny_start(&t, many[i], random_walk, NULL);
		if (i % 2)		/* like a struct filled by hand */
			many[i]->tt_stack.u_top = NULL;
		if (lanes > 1 && check_random(&state) % 3 == 0)
			many[i]->tt_stack.u_lane =
				(short)(1 + check_random(&state) % lanes);
	}
}

/* Returns the sum of the order in which threads ran. */
static unsigned long at_random(int lanes, bool counted)
{
	unsigned long sum = 0;
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return 0;
	t.t_sched.s_next = next;
	t.t_sched.s_done = done;
	start_many(lanes);
	if (counted)
		CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	for (i = 1; t.t_head != NULL || t.t_yields != NULL; i++) {
		t.t_stop = t.t_rounds + i;
		tiny_run(&t);
		CHECK(!counted || IN_HARD || same());
		CHECK(!counted || st.dispatches == st.starts + st.hits +
						   st.copies_in);
		CHECK(!counted || st.allocs - st.frees >= t.t_held);
	}
	CHECK(!counted || (st.dispatches == want.dispatches &&
			   st.allocs == t.t_allocs));
	if (idle != NULL)
		forget(number(idle));
	usched_stats_end(&t.t_sched);
	CHECK(t.t_sched.s_next == next && t.t_sched.s_done == done);
	tiny_fini(&t);
	for (i = 0; i < orders; i++)
		sum = sum * 31 + order[i];
	return sum * 31 + t.t_allocs;
}

/* Counting begins and ends in threads, also in a thread that blocks next. */

static void begins(void *arg)
{
	tiny_yield();
	CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	tiny_yield();
	CHECK(st.dispatches == 2 && st.starts == 0);
	CHECK(IN_HARD || st.copies_in == (t.t_sched.s_lane_nr == 2 ? 0 : 2));
	tiny_yield();
	usched_stats_end(&t.t_sched);
	CHECK(off(&t.t_sched));
	tiny_yield();
}

static void yields(void *arg)
{
	int i;

	for (i = 0; i < 4; i++)
		tiny_yield();
}

static void by_threads(int lanes)
{
	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	tiny_start(&t, &two[0], begins, NULL);
	tiny_start(&t, &two[1], yields, NULL);
	tiny_run(&t);
	/* Began in A's second round, ended in its fourth: B A B A. */
	CHECK(st.dispatches == 4 && st.rests == 0);
	if (!IN_HARD) {
		CHECK_IS(st.hits, lanes == 2 ? 4 : 0);
		/* On the native stack A's last block is after the end. */
		CHECK_IS(st.copies_out, lanes == 2 ? 0 : 4);
	}
	tiny_fini(&t);
}

static void misuse(void)
{
	struct usched_stats other;
	struct usched s;

	memset(&s, 0, sizeof s);
	CHECK_IS(usched_stats(&s, &st), -EINVAL);
	CHECK_IS(usched_stats(NULL, &st), -EINVAL);
	usched_stats_end(&s);
	CHECK_IS(tiny_init(&t, 0), 0);
	CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	CHECK_IS(usched_stats(&t.t_sched, &st), -EBUSY);
	CHECK_IS(usched_stats(&t.t_sched, &other), -EBUSY);
	usched_stats_end(&t.t_sched);
	usched_stats_end(&t.t_sched);
	CHECK(off(&t.t_sched));
	CHECK(usched_stats(&t.t_sched, &other) == 0 && other.dispatches == 0);
	usched_stats_end(&t.t_sched);
	tiny_fini(&t);
}

/* rr and ll: pairs wake each other, and are counted from outside. */

#define PAIRS	50
#define TRIPS	200
#define PROCS	2

static struct usched_stats each[PROCS];
static long ended;

static void look_on(void)
{
	struct usched_stats sum, before = { 0 };
	int i;

	do {
		memset(&sum, 0, sizeof sum);
		for (i = 0; i < PROCS; i++)
			usched_stats_sum(&sum, &each[i]);
		CHECK_THAT(sum.dispatches, >=, before.dispatches);
		CHECK(sum.hits >= before.hits && sum.allocs >= before.allocs);
		before = sum;
		usleep(1000);
	} while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < 2 * PAIRS);
}

#define SCHEDULER(x)							\
static struct x##_thread *x##_pair[PAIRS][2];				\
									\
static void x##_ping(void *arg)						\
{									\
	long nr = (long)(intptr_t)arg;					\
	int i;								\
									\
	for (i = 0; i < TRIPS; i++) {					\
		if (nr % 2)						\
			x##_wake(x##_pair[nr / 2][0]);			\
		CHECK_IS(x##_wait(), 0);				\
		if (nr % 2 == 0)					\
			x##_wake(x##_pair[nr / 2][1]);			\
	}								\
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);		\
	CHECK_IS(x##_wait(), 0);					\
}									\
									\
static void x##_stats(void)						\
{									\
	struct usched_stats sum = { 0 };				\
	long i, j;							\
									\
	ended = 0;							\
	CHECK_IS(x##_sched(0), NULL);					\
	CHECK_IS(x##_init(PROCS, 0), 0);				\
	for (i = 0; i < PROCS; i++)					\
		CHECK_IS(usched_stats(x##_sched((int)i), &each[i]), 0);	\
	for (i = 0; i < PAIRS; i++) {					\
		for (j = 0; j < 2; j++) {				\
			void *arg = (void *)(intptr_t)(i * 2 + j);	\
									\
			x##_pair[i][j] = x##_on((int)i, x##_ping, arg);	\
			CHECK(x##_pair[i][j] != NULL);			\
		}							\
	}								\
	x##_hold();							\
	CHECK_IS(x##_start(), 0);					\
	look_on();							\
	for (i = 0; i < PAIRS; i++) {					\
		x##_post(x##_pair[i][0]);				\
		x##_post(x##_pair[i][1]);				\
	}								\
	x##_release();							\
	CHECK_IS(x##_fini(), 0);					\
	for (i = 0; i < PROCS; i++) {					\
		CHECK_IS(each[i].starts, 2 * PAIRS / PROCS);		\
		CHECK_IS(each[i].rests, 1);				\
		usched_stats_sum(&sum, &each[i]);			\
	}								\
	CHECK_IS(sum.dispatches, sum.starts + sum.hits + sum.copies_in); \
	CHECK_IS(sum.copies_in, sum.copies_out);			\
	CHECK(sum.dispatches >= 2 * PAIRS &&				\
	      sum.dispatches <= sum.starts + 2L * PAIRS * (TRIPS + 1));	\
	CHECK_THAT(sum.allocs, >=, 2 * PAIRS);				\
	if (!IN_HARD && sum.copies_in == 0)	/* all have lanes */	\
		CHECK_IS(sum.hits, sum.dispatches - sum.starts);	\
}

static struct rr_thread *rr_on(int p, void (*f)(void *), void *arg)
{
	return rr_thread_on(p, f, arg);
}

static struct ll_thread *ll_on(int p, void (*f)(void *), void *arg)
{
	return ll_thread_init(f, arg, p);
}

SCHEDULER(rr)
SCHEDULER(ll)

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, 3, 16, NR };
	int i, j;

	check_start(argc, argv);
	(void)setenv("USCHED_LAW", "off", 1);	/* its checks copy slices */
	take_turns(0, 0, 4);
	take_turns(1, 0, 4);
	take_turns(2, 4, 0);
	take_turns(9, 4, 0);
	misuse();
	for (i = 0; i < COUNT(lanes); i++) {
		buffers(lanes[i]);
		by_threads(lanes[i] < 2 ? lanes[i] : 2);
		for (j = 0; j < 20; j++) {
			CHECK_IS(at_random(lanes[i], true),
				 at_random(lanes[i], false));
			check_seed++;
		}
	}
	rr_stats();
	ll_stats();
	return 0;
}
