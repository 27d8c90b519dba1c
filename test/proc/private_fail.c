/* SPDX-License-Identifier: MIT */
/* private_fail: whatever call is refused, no promise of a stack is lost */
/* VARIANTS: RR LL WS PR */
/* LIBS: @test/run/fail.wrap */

/*
 * Native threads and threads make threads with private stacks, before the start
 * and after it, while the n-th call to the system fails, once or from then on.
 * A maker is refused, or its thread runs on a private stack. In the end all
 * private lanes are free, and none is promised (private PV1, PV2).
 */
#include "either.h"
#include "fail.h"

static long private_nr, refusals;

static void counts(void *arg)
{
	CHECK(ustack_is_private(ustack_self()));
	(void)SCHED(yield)();		/* perhaps there is no memory */
	add(&private_nr, 1);
}

/* Returns how many private lanes of d no thread has. */
static int lanes_free(struct usched *d)
{
	struct usched_private *p = d->s_private;
	int i, lane, nr = 0;

	while (__atomic_exchange_n(&p->pl_lock, 1, __ATOMIC_ACQUIRE) != 0)
		check_yield();
	for (lane = p->pl_free; lane != 0; lane = d->s_lane[lane].l_free)
		nr++;
	CHECK(nr == p->pl_free_nr && p->pl_promised <= nr);
	nr -= p->pl_promised;
	__atomic_store_n(&p->pl_lock, 0, __ATOMIC_RELEASE);
	for (i = 0; i < USCHED_WARM_NR; i++) {
		struct usched_warm *m = &p->pl_warm[i];

		while (__atomic_exchange_n(&m->wm_lock, 1, __ATOMIC_ACQUIRE))
			check_yield();
		lane = m->wm_first;
		for (; lane != 0; lane = d->s_lane[lane].l_free)
			nr++;
		__atomic_store_n(&m->wm_lock, 0, __ATOMIC_RELEASE);
	}
	return nr;
}

static thread *made(thread *t)
{
	CHECK(t != NULL || ((errno == ENOMEM || errno == EAGAIN) &&
			    fail_told() + fail_failed() > 0));
	if (t == NULL) {
		add(&refusals, 1);
		if (fail.f_all)
			fail_rest();
	}
	return t;
}

static void makes(int nr)
{
	while (nr > 0)
		nr -= made(try_make(nr, counts, NULL)) != NULL;
}

static void maker(void *arg)
{
	makes((int)(intptr_t)arg);
}

static int procs, more;

static int init(void)
{
	return SCHED(init)(procs, 0);
}

static void insist(int (*f)(void))
{
	int tries = 3, rc;

	while ((rc = f()) != 0) {
		CHECK(rc == -ENOMEM || rc == -EAGAIN || rc == -EINVAL);
		CHECK(private_nr == 0 && tries-- > 0);
		if (tries == 0)
			fail_rest();
		if (f != init)
			makes(1);		/* which are more, then */
		more += f != init;
	}
}

#define EACH	70

static void refused(int p)
{
	int i;

	private_nr = more = 0;
	procs = p;
	insist(init);
	CHECK_IS(SCHED(private)(1), 0);
	makes(EACH);
	while (made(try_make(0, maker, (void *)(intptr_t)EACH)) == NULL)
		;
	insist(SCHED(start));
	SCHED(hold)();
	makes(EACH);
	until(&private_nr, 3 * EACH + more);
	fail_rest();
	for (i = 0; i < p; i++) {
		struct usched *d = SCHED(sched)(i);

		while (lanes_free(d) != __atomic_load_n(&d->s_private->pl_used,
							__ATOMIC_ACQUIRE))
			check_yield();
	}
	SCHED(release)();
	finish();
	CHECK_IS(private_nr, 3 * EACH + more);
}

int main(int argc, char **argv)
{
	static const unsigned kinds[] = {
		FAIL_MEMORY, FAIL_MMAP, FAIL_MADVISE, FAIL_MPROTECT, FAIL_THREAD
	};
	int i, all_later;

	check_start(argc, argv);
	if (usched_private_most(1) == 0)
		return 0;		/* portable */
	fail_sample = 31;
	for (i = 0; i < 10; i++) {
		for (all_later = 0; all_later < 2; all_later++)
			(void)fail_each(kinds[i % 5], all_later, refused,
					i / 5 + 1);
	}
	CHECK_THAT(refusals, >, 10);
	return 0;
}
