/* SPDX-License-Identifier: MIT */
/* order.c: the highest priority runs first; no wait exceeds the bound. */

/*
 * Threads of one processor do random things: wake, make, yield, wait, change
 * their priority. A model of the order, as pr.h describes it, says each time
 * which thread is next. While a thread of the highest priority always runs, the
 * n-th thread of any priority runs after at most n * PR_NR * PR_FAIR switches,
 * counted from outside. With USCHED_PREEMPT a thread that never yields does not
 * keep the lowest priority from running. Run by test/house/scheduler.sh.
 */
#include "check.h"
#include "pr.h"
#include <usched/upreempt.h>
#include <errno.h>

#define NR	40
#define ALL	400
#define STEPS	20000
#define RUNS	40

static unsigned state;

static unsigned chance(unsigned nr)
{
	return check_random(&state) % nr;
}

static struct pr_thread *make(void (*f)(void *), long arg, unsigned priority)
{
	struct pr_thread *t = pr_thread_init(f, (void *)arg, 0, priority);

	CHECK(t != NULL);
	return t;
}

static void start_and_finish(void)
{
	CHECK(pr_start() == 0);
	CHECK(pr_fini() == 0);
}

/* The model. */

static struct model {
	struct pr_thread *m_thread;
	unsigned          m_priority;
	int               m_count;	/* wakes less waits; -1: it waits */
} model[ALL];

static int made, steps;
static int line[PR_NR][1 << 16];
static unsigned head[PR_NR], tail[PR_NR];
static unsigned turn, fair;

static void put(int i)
{
	unsigned pr = model[i].m_priority;

	line[pr][tail[pr]++ % COUNT(line[0])] = i;
}

static bool empty(void)
{
	return memcmp(head, tail, sizeof head) == 0;
}

static int next(void)
{
	unsigned pr = PR_NR - 1;

	CHECK(!empty());
	if (++turn % PR_FAIR == 0) {
		while (head[fair % PR_NR] == tail[fair % PR_NR])
			fair++;
		pr = fair++ % PR_NR;
	} else {
		while (head[pr] == tail[pr])
			pr--;
	}
	return line[pr][head[pr]++ % COUNT(line[0])];
}

static void one_wake(int i)
{
	pr_wake(model[i].m_thread);
	if (model[i].m_count++ < 0)
		put(i);
}

static void step(void *arg);

static void one_make(void)
{
	if (made == ALL)
		return;
	model[made].m_count    = 0;
	model[made].m_priority = chance(PR_NR);
	model[made].m_thread   = make(step, made, model[made].m_priority);
	put(made++);
}

static void one_yield(int me)
{
	put(me);
	CHECK(pr_yield() == 0);
	CHECK(next() == me);
}

static void one_wait(int me)
{
	bool block = model[me].m_count == 0;

	if (block && empty())
		return;			/* no thread would be left */
	model[me].m_count--;
	CHECK(pr_wait() == 0);
	if (block)
		CHECK(next() == me);
}

static void one_set(int me)
{
	model[me].m_priority = chance(PR_NR);
	CHECK(pr_set(model[me].m_priority) == 0);
	CHECK(pr_set(PR_NR) == -EINVAL && pr_set(-1) == -EINVAL);
}

static void step(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	CHECK(next() == me);
	while (++steps < STEPS) {
		unsigned r = chance(16);

		if (r < 7)
			one_wake(chance(made));
		else if (r < 8)
			one_set(me);
		else if (r < 11)
			one_yield(me);
		else
			one_wait(me);
		if (chance(64) == 0)
			one_make();
	}
	for (i = 0; i < made; i++)
		if (model[i].m_count < 0)
			one_wake(i);
}

static void random_order(void)
{
	int i;

	made = steps = 0;
	turn = fair = 0;
	CHECK(pr_init(1, 0) == 0);
	errno = 0;
	CHECK(pr_thread_init(step, NULL, 0, PR_NR) == NULL && errno == EINVAL);
	CHECK(pr_thread_joinable(step, NULL, 0, -1) == NULL && errno == EINVAL);
	for (i = 0; i < NR; i++)
		one_make();
	start_and_finish();
	CHECK(empty());
}

/* The bound. Switches are counted from outside. */

#define WAITERS	50
#define TURNS	4

static struct ustack *(*next_real)(struct usched *s);
static long switches;
static long alive[PR_NR], all_alive;

static struct ustack *next_counted(struct usched *s)
{
	switches++;
	return next_real(s);
}

static void for_ever(void *arg)
{
	(void)arg;
	while (all_alive > 0)
		CHECK(pr_yield() == 0);
}

static void waits_its_turn(void *arg)
{
	long pr = (long)(intptr_t)arg;
	int i;

	for (i = 0; i < TURNS; i++) {
		long place = alive[pr];		/* at most */
		long from = switches;

		CHECK(pr_yield() == 0);
		CHECK(switches - from <= place * PR_NR * PR_FAIR);
	}
	alive[pr]--;
	all_alive--;
}

static void bound(void)
{
	long pr, i;

	memset(alive, 0, sizeof alive);
	switches  = 0;
	all_alive = WAITERS;
	CHECK(pr_init(1, 0) == 0);
	next_real = pr_sched(0)->s_next;
	pr_sched(0)->s_next = next_counted;
	make(for_ever, 0, PR_NR - 1);
	pr = chance(PR_NR - 1);
	alive[pr]++;
	make(for_ever, 1, pr);
	for (i = 0; i < WAITERS; i++) {
		pr = chance(PR_NR - 1);
		alive[pr]++;
		make(waits_its_turn, pr, pr);
	}
	start_and_finish();
	/* Nor is a priority served more often. */
	CHECK(switches >= (long)WAITERS * (TURNS + 1) * PR_FAIR);
}

/* Threads that were woken from elsewhere are sorted, too. */

static long ran;

static void in_order(void *arg)
{
	CHECK(pr_wait() == 0);
	CHECK((long)(intptr_t)arg == ran++);
}

static void from_elsewhere(void)
{
	struct pr_thread *t[PR_NR];
	long i;

	ran = 0;
	CHECK(pr_init(2, 0) == 0);
	for (i = 0; i < PR_NR; i++)
		t[i] = make(in_order, PR_NR - 1 - i, i);
	for (i = 0; i < PR_NR; i++)
		pr_wake(t[i]);
	start_and_finish();
	CHECK(ran == PR_NR);
}

/*
 * Two processors: ThreadSanitizer checks the join of a thread that calls
 * pr_set().
 */

#define CHILDREN	20

static struct pr_thread *parent[2];

static void changes(void *arg)
{
	unsigned pr;

	for (pr = 0; pr < PR_NR; pr++) {
		CHECK(pr_set(pr) == 0);
		pr_wake(parent[(intptr_t)arg % 2]);
		CHECK(pr_yield() == 0);
	}
}

static void joins(void *arg)
{
	struct pr_thread *t[CHILDREN];
	intptr_t i;

	CHECK(pr_wait() == 0);		/* both threads are there */
	for (i = 0; i < CHILDREN; i++) {
		t[i] = pr_thread_joinable(changes, (void *)i, i / 2, i % PR_NR);
		CHECK(t[i] != NULL);
	}
	for (i = 0; i < CHILDREN; i++)
		CHECK(pr_join(t[i]) == 0);
	for (i = 0; i < CHILDREN * PR_NR; i++)	/* wakes, of both */
		CHECK(pr_wait() == 0);
	(void)arg;
}

static void everywhere(void)
{
	int i;

	CHECK(pr_init(2, 0) == 0);
	for (i = 0; i < 2; i++) {
		parent[i] = pr_thread_init(joins, NULL, i, i);
		CHECK(parent[i] != NULL);
	}
	for (i = 0; i < 2; i++)
		pr_wake(parent[i]);
	start_and_finish();
}

#if defined(USCHED_PREEMPT)

static volatile int stop;

static void spins(void *arg)
{
	(void)arg;
	while (!stop)
		;
}

static void stops(void *arg)
{
	(void)arg;
	stop = 1;
}

static void preempted(void)
{
	int rc = upreempt_start(1000000);

	if (rc == -ENOSYS || rc == -ENOTSUP)
		check_skip("no preemption here");
	CHECK(rc == 0 && pr_init(1, 0) == 0 && pr_preempt() == 0);
	make(stops, 0, 0);
	make(spins, 0, PR_NR - 1);
	start_and_finish();
}

#else

static void preempted(void)
{
}

#endif

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	state = check_seed;
	for (i = 0; i < RUNS; i++) {
		random_order();
		bound();
		from_elsewhere();
		everywhere();
	}
	preempted();
	return 0;
}
