/* SPDX-License-Identifier: MIT */
/* nomem: if any allocation or system call fails, an error is returned. */
/* VARIANTS: RR LL WS PR */
/* LIBS: @test/run/fail.wrap */

/*
 * The n-th call fails, once, for each n until a run makes fewer calls; or the
 * n-th and all later calls fail; of each kind alone, and of all kinds (see
 * fail.h). The function that was called returns an error, has changed nothing,
 * and may be called again. Each thread that was made runs to its end, with the
 * same result as without failures. If a native thread is refused, start()
 * returns an error, and no thread has run. At the end all memory is given back,
 * also that of threads that never ran.
 *
 * Callers that get no error did not need the call:
 *	madvise, affinity	hints
 *	futex			a sleep that ends early (see fail.h)
 *	mmap, mprotect		in start(): half as many lanes, if any are left
 *	mmap			in a block: a smaller buffer for a buffer that
 *				is far too large; or many segments at once,
 *				while there are still some
 */
#include "either.h"
#include "fail.h"

#define THREADS	70		/* made by main, and again by mother */
#define JOBS	(2 * THREADS)
#define TRIES	3		/* failed tries; after that all works */

/*
 * Kinds of which a single failure may make start() fail. ws has lists of lanes.
 */
#if defined(WS)
#define START_KINDS	(FAIL_THREAD | FAIL_INIT | FAIL_MEMORY)
#else
#define START_KINDS	(FAIL_THREAD | FAIL_INIT)
#endif

static long ran, made, ended_sum, made_sum;

/* Functions that have returned an error. */
enum { BY_WAIT, BY_YIELD, BY_JOIN, BY_MAKE, BY_INIT, BY_START, BY_NR };
static long told[BY_NR];

/* A worker, and whether its wake has been given. */
static struct job {
	thread  *j_thread;
	long     j_woken;
	unsigned j_nr;
} jobs[JOBS];

/* True if the call has failed and must be repeated. */
static bool again(int by, int rc)
{
	CHECK(rc == 0 || (rc == -ENOMEM && fail_told() > 0));
	if (rc != 0)
		add(&told[by], 1);
	return rc != 0 && !fail.f_all;
}

static void yields(void)
{
	while (again(BY_YIELD, SCHED(yield)()))
		;
}

static NOINLINE void deep(int nob, unsigned tag)
{
	volatile char space[nob];
	int i;

	memset((char *)space, (int)tag, (size_t)nob);
	for (i = 0; i < 3; i++) {
		yields();
		CHECK(space[0] == (char)tag && space[nob / 2] == (char)tag &&
		      space[nob - 1] == (char)tag);
	}
}

/*
 * Waits for the wake by its maker. If the wait fails, it must not end before
 * that wake was given.
 */
static NOINLINE void wait_deep(int nob, struct job *j)
{
	volatile char space[nob];
	int rc;

	space[0] = space[nob - 1] = (char)j->j_nr;
	check_used(space);
	while (again(BY_WAIT, rc = SCHED(wait)()))
		;
	while (rc != 0 && get(&j->j_woken) == 0)
		check_yield();
	CHECK(space[0] == (char)j->j_nr && space[nob - 1] == (char)j->j_nr);
}

/*
 * Some slices are larger than RUN_MAX of sizes.h, so their buffers are mappings.
 */
static void worker(void *arg)
{
	struct job *j = arg;

	wait_deep(j->j_nr % 35 == 0 ? 530000 : 100, j);
	deep(10 + (int)j->j_nr % 10 * 300, j->j_nr);
	if (j->j_nr % 4 == 0)
		deep(j->j_nr % 70 == 0 ? 540000 : 40000, j->j_nr);
	add(&ended_sum, 1L << j->j_nr % 32);
	add(&ran, 1);
}

/* Wakes its joiner while that is in join: these wakes are kept. */
static void joined(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		yields();
		SCHED(wake)(arg);
	}
	add(&ran, 1);
}

/* Without memory t might never run, so after some tries there is memory. */
static NOINLINE void join_deep(int nob, thread *t)
{
	volatile char space[nob];
	int i, rc;

	space[0] = space[nob - 1] = 7;
	check_used(space);
	for (i = 0; (rc = SCHED(join)(t)) != 0; i++) {
		(void)again(BY_JOIN, rc);
		if (i == TRIES)
			fail_rest();
	}
	CHECK(space[0] == 7 && space[nob - 1] == 7);
}

/* Gets two of its five wakes before it joins: these are kept, too. */
static void joiner(void *arg)
{
	thread *t;
	int i;

	while ((t = try_make_joinable(1, joined, SCHED(self)())) == NULL) {
		CHECK(errno == ENOMEM && fail_told() > 0);
		if (fail.f_all)
			goto out;
	}
	add(&made, 1);
	for (i = 0; i < 2; i++)
		SCHED(wake)(SCHED(self)());
	join_deep(560000, t);
	for (i = 0; i < 5; i++) {
		while (again(BY_WAIT, SCHED(wait)()))
			;
	}
out:
	add(&ran, 1);
}

/* Returns NULL if it has failed and must not be repeated. */
static thread *make_some(int p, void (*f)(void *), void *arg)
{
	thread *t;

	do {
		long before = fail_told();

		errno = 0;
		t = try_make(p, f, arg);
		CHECK(t != NULL || (errno == ENOMEM && fail_told() > before));
		add(&told[BY_MAKE], t == NULL);
	} while (t == NULL && !fail.f_all);
	if (t != NULL)
		add(&made, 1);
	return t;
}

static void make_workers(int from)
{
	int i;

	for (i = from; i < from + THREADS; i++) {
		jobs[i].j_thread = make_some(i, worker, &jobs[i]);
		if (jobs[i].j_thread != NULL)
			add(&made_sum, 1L << i % 32);
	}
}

static void wake_workers(int from)
{
	int i;

	for (i = from; i < from + THREADS; i++) {
		if (jobs[i].j_thread != NULL)
			SCHED(wake)(jobs[i].j_thread);
		set(&jobs[i].j_woken, 1);
	}
}

/* Where possible, her threads begin to wait before they are woken. */
static void mother(void *arg)
{
	make_workers(THREADS);
	if (!fail.f_all)
		yields();
	wake_workers(THREADS);
	add(&ran, 1);
}

/*
 * Tells whether init() or start() has returned an error, which must be allowed.
 */
static bool refused(int by, int rc)
{
	CHECK(rc == 0 || (fail_told() > 0 && (rc == -ENOMEM || rc == -EAGAIN ||
					      rc == -EINVAL)));
	add(&told[by], rc != 0);
	return rc != 0;
}

/* True if it works. Where all calls fail, half of the runs give up. */
static bool init(int p)
{
	int tries = 0;

	for (;;) {
		long before = fail_told();
		int rc = SCHED(init)(p, 0);

		CHECK_IS(refused(BY_INIT, rc), fail_told() > before);
		if (rc == 0)
			return true;
		fail_clean();
		if (++tries == TRIES && fail.f_at % 2 == 0)
			return false;
		if (tries == TRIES)
			fail_rest();
	}
}

static bool start(void)
{
	int tries = 0;

	while (refused(BY_START, SCHED(start)())) {
		CHECK(get(&ran) == 0 && fail_natives == 0);
		CHECK(fail.f_all || fail.f_kinds & START_KINDS);
		CHECK(++tries == 1 || fail.f_all);
		if (tries == TRIES && fail.f_at % 2 == 0)
			return false;
		if (tries == TRIES)
			fail_rest();
	}
	return true;
}

/* fail_each() checks afterwards that all was given back. */
static void scenario(int p)
{
	unsigned i;
	long n;

	ran = made = ended_sum = made_sum = 0;
	for (i = 0; i < JOBS; i++)
		jobs[i] = (struct job) { NULL, 0, i };
	if (!init(p))
		return;
	CHECK_IS(SCHED(stack_size)(1 << 20), 0);
	make_some(0, mother, NULL);
	make_some(0, joiner, NULL);
	make_workers(0);
	n = made;
	SCHED(hold)();
	if (start()) {
		check_yield();
		wake_workers(0);
		SCHED(release)();
		finish();
		CHECK(ran == made && ended_sum == made_sum);
	} else {
		SCHED(release)();
		CHECK_IS(SCHED(fini)(), n > 0 ? -EDEADLK : 0);
		CHECK(SCHED(stuck)() == n && ran == 0);
	}
}

int main(int argc, char **argv)
{
	int p, by;

	check_start(argc, argv);
	check_quiet();
	fail_sample = 13;		/* each processor makes 256 calls */
	for (p = 1; p <= 2; p++) {
		fail_all(scenario, p);
		scenario(p);
		CHECK_IS(made, JOBS + 3);
	}
	for (by = 0; by < BY_NR; by++)
		CHECK_THAT(told[by], >, 0);
	return 0;
}
