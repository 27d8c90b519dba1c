/* SPDX-License-Identifier: MIT */
/* scope_plain: scopes and threads with results over a bare set of call-backs. */
/* VARIANTS: once */
/* LIBS: @test/run/fail.wrap */

/*
 * Three call-backs for waits are enough. Whichever allocation fails, once or
 * from there on: an error is returned, nothing has changed, and nothing is
 * lost. A second try works. Without the call-backs the result is
 * -ENOSYS. Another set of call-backs, and native threads, join and cancel.
 */
#include "plain.h"
#include "fail.h"
#include "uscope.h"
#include "uthread.h"

#define CHILDREN	8

static long told, ended, canceled, cleaned;

static void done(struct usched *s, struct ustack *u)
{
	CHECK_THAT(u->u_f, !=, ustack_shell);	/* its block may be freed */
	plain_done(s, u);
}

static int set_init(struct tiny *t, int lanes)
{
	int rc = plain_init(t, lanes);

	t->t_sched.s_done = done;
	return rc;
}

static void set_run(struct tiny *t)
{
	tiny_run(t);
	plain_fini(t);
}

/* Whichever allocation fails. */

/* Returns whether rc says that there was no memory, so to try again. */
static bool again(int rc)
{
	if (rc != -ENOMEM)
		return false;
	CHECK_THAT(fail_told(), >, 0);
	told++;
	if (fail.f_all)
		fail_rest();
	return true;
}

static int sleeps(utime_ns until)
{
	int rc;

	while (again(rc = u_sleep(until)))
		;
	return rc;
}

static struct uscope *begins(utime_ns until, bool shield)
{
	struct uscope *s = NULL;

	while (again((shield ? uscope_shield : uscope_begin)(&s, until)))
		CHECK_IS(s, NULL);
	CHECK(s != NULL && uscope_self() == s);
	return s;
}

/* Ends s, where no thread returns -ENOMEM. */
static int ends(struct uscope *s)
{
	int rc;

	while (again(rc = uscope_end(&s)))
		CHECK(s != NULL && uscope_self() == s);
	CHECK_IS(s, NULL);
	return rc;
}

static unsigned key;

static void destroy(void *value)
{
	ended += (intptr_t)value;
}

static int child(void *arg)
{
	struct uscope *s;
	int rc;

	while (again(ukey_set(key, (void *)1)))
		CHECK_IS(ukey_get(key), NULL);
	rc = sleeps((intptr_t)arg % 2 ? UNEVER : uafter(10));
	CHECK_IS(rc, (intptr_t)arg % 2 ? -ECANCELED : 0);
	canceled += rc != 0;
	s = begins(uafter(10), true);
	cleaned += sleeps(uafter(5)) == 0;
	CHECK_IS(ends(s), 0);
	return rc;
}

static void *computes(void *arg)
{
	(void)sleeps(uafter(3));
	return arg;
}

static void joins(intptr_t i)
{
	struct uthread *t;
	void *result;

	while (again(uthread_make(&t, computes, (void *)i, "computes")))
		;
	while (again(uthread_join(t, &result, UNEVER)))
		;
	CHECK_IS(result, (void *)i);
	while (again(uthread_make(NULL, computes, NULL, NULL)))
		;
	while (again(uthread_make(&t, computes, NULL, NULL)))
		;
	if (i % 2)
		(void)sleeps(uafter(10));
	CHECK_IS(uthread_detach(t), 0);
}

/* The owner cannot wait for the end. Meanwhile the last thread ends. */

static int sleeps_5(void *arg)
{
	CHECK_IS(sleeps(uafter(5)), 0);
	return (int)(intptr_t)arg;
}

/* Needs a larger buffer than all waits before. */
static NOINLINE int ends_deep(struct uscope **s)
{
	volatile char space[5000];
	int rc;

	space[0] = 7;
	rc = uscope_end(s);
	CHECK_IS(space[0], 7);
	return rc;
}

static void late(void)
{
	struct uscope *s = begins(UNEVER, false);
	int rc;

	while (again(rc = uscope_go(s, sleeps_5, NULL)))
		;
	CHECK_IS(rc, 0);
	while (again(rc = ends_deep(&s)))
		CHECK_IS(sleeps(uafter(10)), 0);
	CHECK_IS(rc, 0);
}

static void scenario(void *arg)
{
	void (*f)(void *) = ustack_self()->u_f;
	utime_ns from = unow();
	struct uscope *s;
	intptr_t i;
	int rc;

	s = begins(from + 100, false);
	for (i = 0; i < CHILDREN; i++) {
		while (again(rc = uscope_go(s, child, (void *)i)))
			;
		CHECK_IS(rc, 0);
	}
	CHECK(sleeps(UNEVER) == -ECANCELED && unow() == from + 100);
	CHECK(ends(s) == -ETIMEDOUT && unow() == from + 105);
	CHECK(ended == CHILDREN && cleaned == CHILDREN);
	CHECK_IS(canceled, CHILDREN / 2);
	late();
	joins(7);
	joins(8);
	CHECK(ustack_self()->u_f == f && ustack_self()->u_arg == arg);
}

static void run(int p)
{
	static struct tiny t;

	ended = canceled = cleaned = 0;
	CHECK_IS(set_init(&t, 0), 0);
	while (again(plain_make(&t.t_sched, scenario, &t)))
		;
	set_run(&t);
	CHECK_IS(ended, CHILDREN);
}

/* A dispatcher in a thread of another, whose scope is around nothing there. */

static struct tiny outer, inner;
static struct uthread *joined;

static void *outlives(void *arg)
{
	CHECK(uscope_self() == NULL && u_sleep(uafter(100)) == 0);
	return arg;
}

static void inside(void *arg)
{
	struct uscope *s;

	CHECK(uscope_self() == NULL && !u_canceled());
	s = begins(uafter(5), false);
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	uscope_cancel(arg);
	CHECK_IS(ends(s), -ETIMEDOUT);
	CHECK_IS(uthread_make(&joined, outlives, arg, NULL), 0);
}

static void outside(void *arg)
{
	struct uscope *s = begins(UNEVER, false);
	void *result;

	CHECK_IS(set_init(&inner, 0), 0);
	CHECK_IS(plain_make(&inner.t_sched, inside, s), 0);
	usched_run(&inner.t_sched);
	CHECK(u_canceled() && u_sleep(UNEVER) == -ECANCELED);
	CHECK(uthread_join(joined, &result, UNEVER) == 0 && result == s);
	CHECK_IS(ends(s), -ECANCELED);
	plain_fini(&inner);
}

static void nested(void)
{
	CHECK_IS(set_init(&outer, 0), 0);
	CHECK_IS(plain_make(&outer.t_sched, outside, NULL), 0);
	set_run(&outer);
}

/*
 * The deadline of a scope is claimed together with another timer. That lets the
 * last thread of the scope, of another set, end first.
 */

static struct uscope *late_scope;
static struct ustack *last;

static int ends_first(void *arg)
{
	last = ustack_self();
	CHECK_IS(plain_wait(&inner.t_sched), 0);
	return (int)(intptr_t)arg;
}

static void goes(void *arg)
{
	CHECK_IS(uscope_go(late_scope, ends_first, arg), 0);
}

static void runs_inner(struct uwait_timer *t)
{
	plain_wake(&inner.t_sched, last);
	usched_run(&inner.t_sched);
}

static void races(void *arg)
{
	utime_ns until = uafter(100);
	struct uwait_timer *t;

	t = uwait_make(UWAIT_TIMER, NULL, sizeof *t);
	CHECK(t != NULL);
	t->t_f = runs_inner;
	CHECK_IS(uwait_timer_start(t, until), 0);
	late_scope = begins(until, false);
	CHECK_IS(plain_make(&inner.t_sched, goes, NULL), 0);
	usched_run(&inner.t_sched);
	CHECK(uscope_end(&late_scope) == -ETIMEDOUT && unow() == until);
	CHECK(!uwait_claim(&t->t_wait));
	uwait_free(t);
}

static void race(void)
{
	CHECK_IS(set_init(&outer, 0), 0);
	if (set_init(&inner, 1) != 0)
		return;			/* a portable build */
	CHECK_IS(plain_make(&outer.t_sched, races, NULL), 0);
	set_run(&outer);
	plain_fini(&inner);
}

/* Without the call-backs. */

static int never(void *arg)
{
	CHECK(!"this thread begins");
	return 0;
}

static void lacks(void *arg)
{
	struct usched *s = arg;
	struct uscope *scope = NULL;
	struct uthread *t = NULL;

	s->s_wait = NULL;
	CHECK(uscope_begin(&scope, UNEVER) == -ENOSYS && scope == NULL);
	s->s_wait = plain_wait;
	s->s_make = NULL;
	CHECK_IS(uscope_begin(&scope, UNEVER), 0);
	CHECK_IS(uscope_go(scope, never, NULL), -ENOSYS);
	CHECK(uthread_make(&t, computes, NULL, NULL) == -ENOSYS && t == NULL);
	CHECK_IS(uscope_end(&scope), 0);
}

static void lacking(void)
{
	CHECK_IS(set_init(&outer, 0), 0);
	CHECK_IS(plain_make(&outer.t_sched, lacks, &outer), 0);
	set_run(&outer);
}

int main(int argc, char **argv)
{
	long runs;

	check_start(argc, argv);
	utime_virtual(0);
	CHECK_IS(ukey_make(&key, destroy), 0);
	run(0);
	CHECK_IS(told, 0);
	nested();
	race();
	lacking();
	runs = fail_each(FAIL_MEMORY, false, run, 0) +
		fail_each(FAIL_MEMORY, true, run, 0);
#if !defined(USCHED_HARD)
	CHECK(runs > 100 && told > 100);
#endif
	(void)runs;
	return 0;
}
