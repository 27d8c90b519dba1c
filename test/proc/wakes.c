/* SPDX-License-Identifier: MIT */
/* wakes: each wake is counted once, also where two processors race. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs */

/*
 * First wakes.h alone: two native threads send wakes, and a third runs what
 * they wake. Then uproc.c, compiled here with delays at its race windows,
 * replaces uproc.c of the library (muldefs), under rr on two processors.
 * Threads wake each other across processors, are woken by many, and join and
 * end while they are being woken. Native threads hold, wake and release, while
 * rr_fini() waits for the end.
 */
#include "window.h"
#include "uproc.c"
#include "rr.h"

/* wakes.h alone. */

#define POSTERS	2
#define POSTS	100000		/* posts of each */
#define TARGETS	5

static struct target {
	struct uwakes g_wakes;
	int           g_runs;	/* it can run: is in a queue */
	long          g_got;	/* waits that have returned */
} target[TARGETS];

static struct uinbox inbox;
static long sent[TARGETS];

static void *poster(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	long i;

	for (i = 0; i < POSTS; i++) {
		unsigned to = check_random(&state) % TARGETS;

		uwakes_post(&target[to].g_wakes, &inbox);
		__atomic_fetch_add(&sent[to], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Takes a message. Its thread runs until a wait blocks. */
static long take_one(void)
{
	int nr;
	struct uwakes *w = uwakes_take(&inbox, &nr);
	struct target *g = (struct target *)w;
	long got = 0;

	if (w == NULL)
		return 0;
	CHECK_THAT(nr, >, 0);
	CHECK(uwakes_add(w, nr) && !g->g_runs);
	g->g_runs = 1;
	do
		got++;
	while (!uwakes_wait(w));
	g->g_runs = 0;
	g->g_got += got;
	return got;
}

static void alone(void)
{
	pthread_t id[POSTERS];
	long got = 0;
	intptr_t i;

	uinbox_init(&inbox);
	for (i = 0; i < TARGETS; i++)
		uwakes_init(&target[i].g_wakes);
	for (i = 0; i < POSTERS; i++)
		CHECK_IS(pthread_create(&id[i], NULL, poster, (void *)i), 0);
	while (got < (long)POSTERS * POSTS)
		got += take_one();
	for (i = 0; i < POSTERS; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK(take_one() == 0 && uinbox_empty(&inbox));
	for (i = 0; i < TARGETS; i++)
		CHECK(target[i].g_got == sent[i] &&
		      target[i].g_wakes.w_count == -1 &&
		      target[i].g_wakes.w_posted == 0);
}

/* rr on two processors. */

static long ends;		/* of threads */

static void ended(void)
{
	__atomic_fetch_add(&ends, 1, __ATOMIC_RELAXED);
}

static void wait_for(long nr)
{
	while (nr-- > 0)
		CHECK_IS(rr_wait(), 0);
}

static struct rr_thread *thread_on(int p, void (*f)(void *), void *arg)
{
	struct rr_thread *t = rr_thread_on(p, f, arg);

	CHECK(t != NULL);
	return t;
}

/* Pairs, one half on each processor. Each ends with its last wake. */

#define PAIRS	6
#define TIMES	1000

static struct half {
	struct half      *h_other;
	struct rr_thread *h_thread;
	long              h_given[2];	/* plain: data passed with wakes */
} half[PAIRS][2];

/* The halves are in step, or one is ahead and uses the other place. */
static void answer(void *arg)
{
	struct half *h = arg;
	long i;

	for (i = 1; i <= TIMES; i++) {
		h->h_given[i % 2] = i;
		rr_wake(h->h_other->h_thread);
		wait_for(1);
		CHECK_IS(h->h_other->h_given[i % 2], i);
	}
	ended();
}

/* Many threads wake one thread. */

#define SENDERS	6

static struct rr_thread *sink;

static void sinks(void *arg)
{
	wait_for((long)SENDERS * TIMES);
	ended();
}

static void sends(void *arg)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		rr_wake(sink);
		if (i % 64 == 0)
			CHECK_IS(rr_yield(), 0);
	}
	ended();
}

/* Joins, while other wakes come than those of the ends. */

#define PARENTS	4
#define JOINS	200

static struct parent {
	struct rr_thread *p_thread;
	long              p_child;	/* plain: written by a child */
} parent[PARENTS];

static void child(void *arg)
{
	struct parent *p = arg;

	if (p->p_child % 3 == 0)
		CHECK_IS(rr_yield(), 0);
	p->p_child++;
}

static void joins(void *arg)
{
	struct parent *p = arg;
	long i;

	p->p_child = 0;
	for (i = 0; i < JOINS; i++) {
		struct rr_thread *t = rr_thread_joinable(child, p);

		CHECK(t != NULL && rr_join(t) == 0);
		CHECK_IS(p->p_child, i + 1);
	}
	wait_for(JOINS);
	ended();
}

static void disturbs(void *arg)
{
	struct parent *p = arg;
	int i;

	for (i = 0; i < JOINS; i++) {
		rr_wake(p->p_thread);
		if (i % 4 == 0)
			CHECK_IS(rr_yield(), 0);
	}
	ended();
}

/* Ends while a wake that it does not wait for is under way to it. */

#define SPARE	1000

static int spare[SPARE];

static void until(int *told, int what)
{
	while (__atomic_load_n(told, __ATOMIC_ACQUIRE) != what)
		CHECK_IS(rr_yield(), 0);
}

static void is_spared(void *arg)
{
	int *told = arg;

	wait_for(1);
	__atomic_store_n(told, 1, __ATOMIC_RELEASE);
	until(told, 2);
	*told = 3;
	ended();
}

static void wakes_twice(void *arg)
{
	int *told = arg;
	int i;

	for (i = 0; i < SPARE; i++) {
		struct rr_thread *t = thread_on(1, is_spared, &told[i]);

		rr_wake(t);
		until(&told[i], 1);
		rr_wake(t);
		__atomic_store_n(&told[i], 2, __ATOMIC_RELEASE);
	}
	ended();
}

/* Takes the memory of a thread that has ended, and gets none of its wakes. */

static void is_next(void *arg)
{
	int *told = arg;

	wait_for(1);
	CHECK_IS(*told, 1);
	*told = 2;
	ended();
}

#define NEXT	16

static void uses_again(void *arg)
{
	struct rr_thread *t[NEXT];
	int *told = arg;
	int i, j;

	for (i = 0; i < SPARE / NEXT; i++) {
		for (j = 0; j < NEXT; j++) {
			told[j] = 0;
			t[j] = thread_on(1, is_next, &told[j]);
			CHECK_IS(rr_yield(), 0);
		}
		for (j = 0; j < NEXT; j++) {
			told[j] = 1;
			rr_wake(t[j]);
			until(&told[j], 2);
		}
	}
	ended();
}

static void spared(void)
{
	int told[NEXT];
	int i;

	ends = 0;
	memset(spare, 0, sizeof spare);
	CHECK_IS(rr_init(2, 0), 0);
	thread_on(0, wakes_twice, spare);
	thread_on(1, uses_again, told);
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
	CHECK_IS(ends, 2 + SPARE + SPARE / NEXT * NEXT);
	for (i = 0; i < SPARE; i++)
		CHECK_IS(spare[i], 3);
}

static void together(void)
{
	int i;

	ends = 0;
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < PAIRS * 2; i++) {
		struct half *h = &half[i / 2][i % 2];

		h->h_other  = &half[i / 2][!(i % 2)];
		h->h_thread = thread_on(i % 2, answer, h);
	}
	sink = thread_on(0, sinks, NULL);
	for (i = 0; i < SENDERS; i++)
		thread_on(i, sends, NULL);
	for (i = 0; i < PARENTS; i++) {
		parent[i].p_thread = thread_on(i, joins, &parent[i]);
		thread_on(i + 1, disturbs, &parent[i]);
	}
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
	CHECK_IS(ends, PAIRS * 2 + 1 + SENDERS + PARENTS * 2);
}

/* Native threads wake from outside; the end comes after the last release. */

#define ROUNDS	60
#define SHORT	20

static struct rr_thread *woken[2];

static void is_woken(void *arg)
{
	struct half *h = arg;

	wait_for(2 * SHORT);
	rr_wake(woken[h == &half[0][0]]);
	wait_for(1);
	ended();
}

static void *wakes_both(void *arg)
{
	int i;

	for (i = 0; i < 2 * SHORT; i++)
		rr_wake(woken[i % 2]);
	rr_release();
	return arg;
}

static void outside(void)
{
	pthread_t id[2];
	int i;

	ends = 0;
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < 2; i++)
		woken[i] = thread_on(i, is_woken, &half[0][i]);
	for (i = 0; i < 2; i++) {
		rr_hold();
		CHECK_IS(pthread_create(&id[i], NULL, wakes_both, NULL), 0);
	}
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
	CHECK_IS(ends, 2);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
}

/* Threads that wait forever are counted, and all others have ended. */
static void stuck(void)
{
	int i;

	ends = 0;
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < 2; i++) {
		thread_on(i, sinks, NULL);
		woken[i] = thread_on(i, is_woken, &half[0][i]);
	}
	for (i = 0; i < 2; i++) {
		rr_hold();
		wakes_both(NULL);
	}
	CHECK_IS(rr_start(), 0);
	CHECK(rr_fini() == -EDEADLK && rr_stuck() == 2 && ends == 2);
}

/* A native thread makes threads, the last just before its release, during fini. */

static void is_made(void *arg)
{
	(void)arg;
	ended();
}

static void *makes(void *arg)
{
	volatile long spin;

	CHECK(rr_thread_init(is_made, NULL) != NULL);
	for (spin = (intptr_t)arg; spin > 0; spin--)
		;
	CHECK(rr_thread_init(is_made, NULL) != NULL);
	rr_release();
	return arg;
}

static void made_late(intptr_t spin)
{
	pthread_t id;

	ends = 0;
	CHECK_IS(rr_init(1, 0), 0);
	rr_hold();
	CHECK_IS(rr_start(), 0);
	CHECK_IS(pthread_create(&id, NULL, makes, (void *)spin), 0);
	CHECK(rr_fini() == 0 && ends == 2);
	CHECK_IS(pthread_join(id, NULL), 0);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	check_quiet();
	alone();
	window_check("inbox_R2 inbox_R1 inbox_last inbox_stub inbox_A1");
	window_check("wakes_C2 wakes_T2");
	for (i = 0; i < 2; i++)
		together();
	for (i = 0; i < 3; i++)
		spared();
	for (i = 0; i < ROUNDS; i++)
		outside();
	for (i = 0; i < ROUNDS; i++)
		stuck();
	for (i = 0; i < 1000; i++)
		made_late(i * 53 % 20000);
	window_check("idle_D1 idle_S4 idle_D2 idle_W4");
	window_check("proc_S3 proc_end proc_complete proc_join "
		     "proc_stop proc_S1 proc_alone");
	return 0;
}
