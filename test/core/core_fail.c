/* SPDX-License-Identifier: MIT */
/* core_fail: if any call of the dispatcher to the system fails, nothing is lost */
/* VARIANTS: core */
/* LIBS: -Wl,--wrap=mmap,--wrap=munmap,--wrap=madvise,--wrap=mprotect -lm */

/*
 * The n-th mmap(), mprotect(), madvise() or s_alloc() (FAIL_MEMORY) fails, once
 * or from then on, for each n. usched_lanes() returns -ENOMEM exactly if mmap()
 * or mprotect() has failed in it. Then nothing has changed in the dispatcher:
 * with its old lanes, or without, it still works, also if it runs in a thread.
 * ustack_block() returns -ENOMEM only if s_alloc() has failed in it; the thread
 * goes on with its stack unchanged, and may block again (usched I5). All
 * threads end with the same results as without failures. All mappings and
 * buffers are given back. If a deep thread gets no lane of its own, because one
 * of these calls failed, it shares a lane, and all this holds then, too.
 */
#include "tiny.h"
#define FAIL_MAPS
#include "fail.h"
#include <fenv.h>

#define NR	7
#define WAITS	3			/* of these, threads that wait() */
#define FEW	2			/* threads of the inner dispatcher */
#define LANE	((size_t)128 << 10)
#define SHARE	3			/* lanes, and deep threads share them */

static const int sizes[] = { 8, 300, 5000, 20000, 16, 9000, 64 };

static struct tiny t, inner;
static struct tiny_thread tt[NR], inner_tt[FEW];
static unsigned sum, errors;
static int ended, waiting;

/* Buffers, and their failures. The test frees the last buffer of a thread. */

static void *alloc(struct usched *s, int size)
{
	void *buf;

	if (fail_now(FAIL_MEMORY))
		return NULL;
	fail_exempt++;
	buf = malloc(size);
	fail_exempt--;
	CHECK(buf != NULL);
	return fail_hold(buf, size);
}

static void release(struct usched *s, void *buf, int size)
{
	fail_drop(buf, size);
	fail_exempt++;
	free(buf);
	fail_exempt--;
}

static void done(struct usched *s, struct ustack *u)
{
	tiny_done(s, u);
	if (u->u_stack != NULL)
		release(s, u->u_stack, u->u_len);
	u->u_stack = NULL;
	ended++;
}

static void open_sched(struct tiny *it)
{
	CHECK_IS(tiny_init(it, 0), 0);
	it->t_keep = 1;			/* buffers are not tiny's */
	it->t_sched.s_alloc = alloc;
	it->t_sched.s_free  = release;
	it->t_sched.s_done  = done;
}

/*
 * Makes lanes, and tries again if that fails. A failure must change nothing. A
 * portable build has no lanes, so nothing is tried.
 */
static void lanes(struct tiny *it, int nr)
{
	struct usched was = it->t_sched;
	int held = fail_holds();
	int i, rc;

	for (i = 0; i < 2; i++) {
		long told = fail_told();

		rc = usched_lanes(&it->t_sched, nr, LANE);
		if (rc == -ENOSYS) {
			CHECK_IS(fail_told(), told);
			return;
		}
		CHECK_IS(rc == 0, fail_told() == told);
		if (rc == 0) {
			CHECK_IS(it->t_sched.s_lane_nr, nr);
			/* Mappings for private lanes may be gone. */
			CHECK_THAT(fail_holds(), <=, held +
				   (was.s_lane_nr == 0));
			return;
		}
		CHECK_IS(rc, -ENOMEM);
		CHECK(memcmp(&was, &it->t_sched, sizeof was) == 0);
		CHECK_IS(fail_holds(), held);
	}
}

/* Blocks, and tries again. False: both tries have failed. */
static bool block(int (*f)(void))
{
	struct ustack was = *ustack_self();
	int i, held = fail_holds();

	for (i = 0; i < 2; i++) {
		long told = fail_told();
		int rc = f();

		if (rc == 0)
			return true;
		CHECK(rc == -ENOMEM && fail_told() > told);
		CHECK(memcmp(&was, ustack_self(), sizeof was) == 0);
		CHECK_IS(fail_holds(), held);
		errors++;
	}
	return false;
}

/* Blocks at some depth, where the frame must not change. */
static NOINLINE void with(int nob, unsigned tag, int (*f)(void))
{
	unsigned char *array = (unsigned char *)alloca(nob);
	unsigned x = check_hash(tag, (unsigned)nob);
	double d = tag * 0.5 + nob;
	int rounding = fegetround();

	memset(array, (int)tag, nob);
	(void)block(f);
	CHECK(array[0] == (unsigned char)tag &&
	      memcmp(array, array + 1, nob - 1) == 0);
	CHECK(x == check_hash(tag, (unsigned)nob) && d == tag * 0.5 + nob);
	CHECK_IS(rounding, fegetround());
	sum += x;
}

/*
 * Blocks with more and less stack, in a different order in each thread. Some
 * threads round upward.
 */
static void worker(void *arg)
{
	unsigned tag = (unsigned)(uintptr_t)arg;
	int i;

	if (tag % 2 != 0)
		(void)fesetround(FE_UPWARD);
	for (i = 0; i < COUNT(sizes); i++)
		with(sizes[(i + tag) % COUNT(sizes)], tag * 16 + (unsigned)i,
		     tiny_try_yield);
}

/* Waits until it is woken, or goes on if both blocks fail. */
static void waiter(void *arg)
{
	waiting++;
	with(sizes[(uintptr_t)arg], 1000 + (unsigned)(uintptr_t)arg,
	     ustack_block);
	waiting--;
}

/* Runs a dispatcher, twice, between two blocks of its own. */
static void outer(void *arg)
{
	int i, j;

	with(100, 77, tiny_try_yield);
	open_sched(&inner);
	for (i = 0; i < 2; i++) {
		lanes(&inner, i + 1);
		for (j = 0; j < FEW; j++)
			tiny_start(&inner, &inner_tt[j], worker,
				   (void *)((uintptr_t)arg + i + j));
		tiny_run(&inner);
	}
	CHECK_IS(inner.t_live, 0);
	usched_fini(&inner.t_sched);
	with(200, 78, tiny_try_yield);
}

/* Threads that could not wait have ended. */
static void wake_waiting(void)
{
	int i;

	for (i = 0; i < WAITS; i++) {
		if (tt[i].tt_done == 0)
			tiny_wake(&tt[i]);
	}
}

static void scenario(int nr)
{
	int i, round;

	sum = 0;
	errors = 0;
	ended = waiting = 0;
	open_sched(&t);
	if (nr > 0)
		lanes(&t, nr);
	if (nr == SHARE)
		t.t_sched.s_private = NULL;
	for (round = 0; round < 2; round++) {
		for (i = 0; i < NR; i++)
			tiny_start(&t, &tt[i], i < WAITS ? waiter :
				   i < NR - 1 ? worker : outer,
				   (void *)(uintptr_t)i);
		tiny_run(&t);
		CHECK(waiting <= WAITS && t.t_live == waiting);
		if (nr > 0 && waiting > 0) {
			int rc = usched_lanes(&t.t_sched, nr, LANE);

			CHECK(rc == -EBUSY || rc == -ENOSYS);
		}
		wake_waiting();
		tiny_run(&t);
		CHECK_IS(waiting, 0);
		CHECK_IS(ended, (round + 1) * (NR + 2 * FEW));
		if (nr > 0)
			lanes(&t, nr + 1);	/* new lanes for old */
	}
	tiny_fini(&t);
}

static unsigned expected, most;

static void checked(int nr)
{
	scenario(nr);
	CHECK_IS(sum, expected);
	if (errors > most)
		most = errors;
}

int main(int argc, char **argv)
{
	static const int lane_nr[] = { 0, 1, SHARE, 9 };
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(lane_nr); i++) {
		fail_rest();
		scenario(lane_nr[i]);
		fail_clean();
		CHECK(errors == 0 && fail_failed() == 0);
		expected = sum;
		most = 0;
		fail_all(checked, lane_nr[i]);
		CHECK_THAT(most, >, 10);
	}
	return 0;
}
