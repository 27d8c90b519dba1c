/* SPDX-License-Identifier: MIT */
/* waitmem: a wait without memory returns -ENOMEM, and nothing is lost. */
/* VARIANTS: RR LL WS */

/*
 * The n-th call of s_alloc() fails, for each n: the record, the wheel, or the
 * buffer that a thread needs to block. The wait returns -ENOMEM, and its
 * deadline is in no wheel. The same wait succeeds when it is repeated. Wakes
 * that were sent, ends of threads that are joined, and all memory are still
 * there. A thread that cannot block, but whose wait was claimed elsewhere, gets
 * the result of the claim. A wait that cannot fail has its memory before it
 * gives anything up, however deep it is, and also if no wait has blocked before.
 */
#include "either.h"
#include "uscope.h"
#include "usync.h"
#include "uwait.h"

#define SPAN	1000		/* ns of virtual time */

/* In the hard mode a failure may only have kept UHARD(yield()) from a yield. */
#if defined(USCHED_HARD)
#define HARD	1
#else
#define HARD	0
#endif

static void *(*real_alloc)(struct usched *s, int size);
static void (*real_free)(struct usched *s, void *block, int size);
static long calls, fails_at;	/* fails_at: 0 none, -1 all, -n from n on */
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
	if ((fails_at < 0 && calls >= -fails_at) || calls == fails_at)
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
	struct uwait_base *b = here()->s_waits;
	long timers = b->wb_timers;
	int rc;

	calls = 0;
	fails_at = n;
	rc = wait(arg);
	fails_at = 0;
	if (calls < n || (HARD && rc == wanted)) {
		CHECK_IS(rc, wanted);
		return true;
	}
	CHECK(rc == -ENOMEM && b->wb_timers == timers);
	return false;
}

static int sleeps(void *arg)
{
	utime_ns until = uafter(SPAN);
	int rc = u_sleep(until);

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
	CHECK_IS(u_sleep(uafter(3 * SPAN)), 0);
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
		CHECK_IS(live, was);
	}
	/* A wake that comes after a failure, or before it. */
	for (n = 1; n < 3; n++) {
		(void)fails(n, waits, NULL, -ETIMEDOUT);
		SCHED(wake)(self);
		CHECK(fails(n, waits, NULL, 0));
		make(0, wakes, self);
		if (!fails(n, waits, self, 0))
			CHECK(fails(100, waits, self, 0));
		CHECK_IS(u_wait_until(UNOW), -EAGAIN);
	}
	t = make_joinable(0, sleeps_and_ends, NULL);
	for (n = 1; !fails(n, joins, t, -ETIMEDOUT); n++)
		;
	CHECK_IS(SCHED(join_until)(t, UNOW), -EAGAIN);
	for (n = 1; !fails(n, joins_late, t, 0); n++)
		;
	fails_at = -1;
	CHECK_IS(u_sleep(uafter(SPAN)), -ENOMEM);
	fails_at = 0;
	CHECK_IS(here()->s_waits->wb_timers, 0);
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
	uwait_complete(claimed, 5);
	SCHED(release)();
	return NULL;
}

static void cannot_block(void *arg)
{
	struct uwait *w;

	hook();
	claimed = w = uwait_make(UWAIT_OTHER, NULL, sizeof *w);
	CHECK(w != NULL);
	set(&stage, 1);
	until(&stage, 2);
	SCHED(wake)((thread *)ustack_self());
	fails_at = -1;
	CHECK_IS(uwait_for(w, UNEVER), 5);
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
	CHECK_IS(done, 1);
}

/*
 * Conditions: the thread that waits, the victim, gets no more memory from the
 * n-th call of s_alloc() on. Either the wait returns -ENOMEM, and has never
 * unlocked the lock. Or it unlocks, and then needs no more, though the lock was
 * given to a rival that holds it over some yields. The wait for the signal ends
 * by a signal or by its deadline, or it never blocks: the deadline has passed, or
 * it is cancelled.
 */
enum { SIGNAL, DEADLINE, PASSED, CANCELLED, WAYS };
enum { MUTEX, READ, WRITE, LOCKS };

static struct umutex mutex;
static struct urw rw;
static struct ucond cond;
static int way, with;
static long passed;

static void yields(int nr)
{
	while (nr-- > 0)
		CHECK_IS(SCHED(yield)(), 0);
}

static void locks(bool reads)
{
	CHECK_IS(with == MUTEX ? umutex_lock(&mutex, UNEVER) : reads ?
		 urw_read(&rw, UNEVER) : urw_write(&rw, UNEVER), 0);
}

static void unlocks(void)
{
	if (with == MUTEX)
		umutex_unlock(&mutex);
	else
		urw_unlock(&rw);
}

static void rival(void *arg)
{
	locks(false);
	add(&passed, 1);
	yields(3);
	if (way == SIGNAL)
		ucond_signal(&cond);
	utime_jump(unow() + 2 * SPAN);
	yields(100);				/* the deadline is seen */
	unlocks();
	add(&passed, 1);
}

/* The next unlock gives the lock to the rival: a mutex, after a wake in vain. */
static void lock_before(void)
{
	passed = 0;
	locks(with == READ);
	make(0, rival, NULL);
	yields(2);
	if (with == MUTEX) {
		umutex_unlock(&mutex);
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		yields(2);
	}
	CHECK_IS(passed, 0);
}

static int waits_for_signal(utime_ns until)
{
	return with == MUTEX ? ucond_wait(&cond, &mutex, until) :
		ucond_wait_rw(&cond, &rw, until);
}

/* The caller holds the lock again: a reader keeps writers out. */
static void check_locked(void)
{
	CHECK_IS(with == MUTEX ? umutex_lock(&mutex, UNOW) :
		 urw_write(&rw, UNOW), with == READ ? -EAGAIN : -EDEADLK);
}

static int cond_waits(long n)
{
	struct uscope *s = NULL;
	int rc;

	if (way == CANCELLED) {
		CHECK_IS(uscope_begin(&s, UNEVER), 0);
		uscope_cancel(s);
	}
	calls = 0;
	fails_at = -n;
	rc = waits_for_signal(way == DEADLINE ? uafter(SPAN) :
			      way == PASSED ? 1 : UNEVER);
	fails_at = 0;
	if (s != NULL)
		CHECK_IS(uscope_end(&s), -ECANCELED);
	check_locked();
	CHECK(rc == -ENOMEM ? passed == 0 : passed == 2);
	return rc;
}

/* Below nob bytes of frames, where the thread may not have blocked before. */
static NOINLINE int deep(size_t nob, int (*f)(long n), long n)
{
	volatile char *space = alloca(nob);
	int rc;

	space[0] = space[nob - 1] = 3;
	rc = f(n);
	CHECK(space[0] == 3 && space[nob - 1] == 3);
	return rc;
}

static int blocks(long n)
{
	yields((int)n);
	return 0;
}

/* Returns the first n for which the wait succeeds. */
static long cond_needs(size_t before, size_t nob)
{
	static const int wanted[WAYS] = {
		0, -ETIMEDOUT, -ETIMEDOUT, -ECANCELED
	};
	int rc = -ENOMEM;
	long n;

	for (n = 1; rc == -ENOMEM; n++) {
		(void)deep(before, blocks, 1);
		lock_before();
		rc = deep(nob, cond_waits, n);
		unlocks();
		while (get(&passed) < 2)
			yields(1);
	}
	CHECK_IS(rc, wanted[way]);
	return n - 1;
}

static void conditions(void *arg)
{
	static const size_t size[] = { 16, 300, 3000, 9000, 40000 };
	unsigned i, j;

	hook();
	for (with = 0; with < LOCKS; with++)
		for (way = 0; way < WAYS; way++)
			for (i = 0; i < COUNT(size); i++)
				for (j = 0; j < COUNT(size); j++)
					CHECK_THAT(cond_needs(size[i], size[j]),
						   >=, 2);
	CHECK(umutex_busy(&mutex) == 0 && urw_busy(&rw) == 0);
	add(&done, 1);
}

static void cannot_fail(void)
{
	doing("conditions");
	done = 0;
	one_thread(1, conditions, NULL);
	CHECK_IS(done, 1);
}

int main(int argc, char **argv)
{
	unsigned i;

	check_start(argc, argv);
	utime_virtual(0);
	one_thread(1, each, NULL);
	CHECK_IS(done, 1);
	for (i = 0; i < 4; i++)
		claimed_elsewhere(i * 1000);
	cannot_fail();
	return 0;
}
