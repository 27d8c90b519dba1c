/* SPDX-License-Identifier: MIT */
/* s_waitmem: a wait without memory returns -ENOMEM, and nothing is lost. */

/*
 * The n-th call of s_alloc() fails, for each n: the record, the wheel, or the
 * buffer that a thread needs to block. The wait returns -ENOMEM, and its
 * deadline is in no wheel. The same wait succeeds when it is repeated. Wakes
 * that were sent, ends of threads that are joined, and all memory are still
 * there. A thread that cannot block, but whose wait was claimed elsewhere, gets
 * the result of the claim.
 */
#include "either.h"
#include "uwait.h"

#define SPAN	1000		/* ns of virtual time */

/* In the hard mode a failure may only have kept usched_point() from a yield. */
#if defined(USCHED_HARD)
#define HARD	1
#else
#define HARD	0
#endif

static void *(*real_alloc)(struct usched *s, int size);
static void (*real_free)(struct usched *s, void *block, int size);
static long calls, fails_at;	/* fails_at: 0 none, -1 all */
static long live, done;
static struct ustack *victim;		/* only its calls fail, and count */

static struct usched *here(void)
{
	return ustack_self()->u_sched;
}

static void *try_alloc(struct usched *s, int size)
{
	void *block;

	if (ustack_self() != victim)
		return real_alloc(s, size);
	calls++;
	if (fails_at == -1 || calls == fails_at)
		return NULL;
	block = real_alloc(s, size);
	live += block != NULL;
	return block;
}

static void count_free(struct usched *s, void *block, int size)
{
	live -= ustack_self() == victim;
	real_free(s, block, size);
}

static void hook(void)
{
	struct usched *s = here();

	victim     = ustack_self();
	real_alloc = s->s_alloc;
	real_free  = s->s_free;
	s->s_alloc = try_alloc;
	s->s_free  = count_free;
}

/* Waits with the n-th allocation failing. True: none has failed. */
static bool fails(long n, int (*wait)(void *arg), void *arg, int wanted)
{
	struct uwait_host *h = here()->s_waits;
	long timers = h->h_timers;
	int rc;

	calls = 0;
	fails_at = n;
	rc = wait(arg);
	fails_at = 0;
	if (calls < n || (HARD && rc == wanted)) {
		CHECK(rc == wanted);
		return true;
	}
	CHECK(rc == -ENOMEM && h->h_timers == timers);
	return false;
}

static int sleeps(void *arg)
{
	utime_ns until = uafter(SPAN);
	int rc = u_sleep(until);

	(void)arg;
	CHECK(rc != 0 || unow() == until);
	return rc;
}

static int waits(void *arg)
{
	return u_wait_until(arg != NULL ? UNEVER : uafter(SPAN));
}

static int joins(void *arg)
{
	return SCHED(join_until)(arg, uafter(SPAN));
}

static int joins_late(void *arg)
{
	return SCHED(join_until)(arg, UNEVER);
}

static void sleeps_and_ends(void *arg)
{
	(void)arg;
	CHECK(u_sleep(uafter(3 * SPAN)) == 0);
}

static void wakes(void *arg)
{
	SCHED(wake)(arg);
}

/* Each kind of wait, with each allocation failing. */
static void each(void *arg)
{
	thread *self = (thread *)ustack_self();
	thread *t;
	long n, was;

	(void)arg;
	hook();
	for (n = 1; !fails(n, sleeps, NULL, 0); n++)
		;
	CHECK(HARD || n >= 3);		/* a record, a wheel */
	for (n = 1; !fails(n, waits, NULL, -ETIMEDOUT); n++)
		;
	CHECK(HARD || n >= 2);
	was = live;
	for (n = 1; n < 5; n++) {
		CHECK(fails(calls + n, sleeps, NULL, 0));
		CHECK(live == was);
	}
	/* A wake that comes after a failure, or before it. */
	for (n = 1; n < 3; n++) {
		(void)fails(n, waits, NULL, -ETIMEDOUT);
		SCHED(wake)(self);
		CHECK(fails(n, waits, NULL, 0));
		make(0, wakes, self);
		if (!fails(n, waits, self, 0))
			CHECK(fails(100, waits, self, 0));
		CHECK(u_wait_until(UNOW) == -EAGAIN);
	}
	t = make_joinable(0, sleeps_and_ends, NULL);
	for (n = 1; !fails(n, joins, t, -ETIMEDOUT); n++)
		;
	CHECK(SCHED(join_until)(t, UNOW) == -EAGAIN);
	for (n = 1; !fails(n, joins_late, t, 0); n++)
		;
	fails_at = -1;
	CHECK(u_sleep(uafter(SPAN)) == -ENOMEM);
	fails_at = 0;
	CHECK(here()->s_waits->h_timers == 0);
	add(&done, 1);
}

/* Claimed elsewhere, and told later, while the thread cannot block. */

static struct uwait *claimed;
static long stage;

static void *tells(void *arg)
{
	until(&stage, 1);
	CHECK(uwait_claim(claimed));
	set(&stage, 2);
	usleep((unsigned)(uintptr_t)arg);
	uwait_tell(claimed, 5);
	SCHED(release)();
	return NULL;
}

static void cannot_block(void *arg)
{
	struct uwait *w;
	int rc;

	(void)arg;
	hook();
	claimed = w = uwait_new(sizeof *w, UWAIT_OTHER, NULL, &rc);
	CHECK(w != NULL);
	set(&stage, 1);
	until(&stage, 2);
	SCHED(wake)((thread *)ustack_self());
	fails_at = -1;
	CHECK(uwait_for(w, UNEVER) == 5);
	fails_at = 0;
	uwait_free(w);
	CHECK(u_wait_until(UNOW) == 0 && u_wait_until(UNOW) == -EAGAIN);
	add(&done, 1);
}

static void claimed_elsewhere(unsigned us)
{
	pthread_t id;

	doing("claimed");
	stage = done = 0;
	begin(1, 0);
	SCHED(hold)();
	make(0, cannot_block, NULL);
	id = native(tells, (void *)(uintptr_t)us);
	start_and_finish();
	native_join(id);
	CHECK(done == 1);
}

int main(int argc, char **argv)
{
	unsigned i;

	check_start(argc, argv);
	utime_virtual(0);
	begin(1, 0);
	make(0, each, NULL);
	start_and_finish();
	CHECK(done == 1);
	for (i = 0; i < 4; i++)
		claimed_elsewhere(i * 1000);
	return 0;
}
