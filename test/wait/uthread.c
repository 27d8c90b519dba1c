/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* uthread: threads with a result are joined once, by any thread in time or
 * not; names, pointers and keys are each thread's own. */

/*
 * An interrupt ends one wait, the present or the next, and takes nothing away.
 * A join returns the result after the end, and can be asked again if its
 * deadline passes or it is cancelled. Threads, threads of another set of
 * processors, and native threads join. A detached thread is freed at its end.
 * Destructors run in the thread that ends, once for each value, may wait, and
 * see what other destructors have set. Plain threads have no values.
 */
#include "either.h"
#include "uscope.h"
#include "usync.h"
#include "uthread.h"

#define THREADS	300

static long ended, destroyed;

static void alone(int p, void (*f)(void *))
{
	set(&ended, 0);
	set(&destroyed, 0);
	one_thread(p, f, NULL);
}

static struct uthread *start(void *(*f)(void *), intptr_t arg)
{
	struct uthread *t = NULL;

	CHECK(uthread_make(&t, f, (void *)arg, NULL) == 0 && t != NULL);
	return t;
}

static intptr_t join(struct uthread *t)
{
	void *result;

	CHECK_IS(uthread_join(t, &result, UNEVER), 0);
	return (intptr_t)result;
}

static void *sleeps(void *arg)
{
	CHECK_IS(u_sleep((utime_ns)(intptr_t)arg), 0);
	add(&ended, 1);
	return arg;
}

static void *sums(void *arg)
{
	intptr_t nr = (intptr_t)arg;
	struct uthread *t;

	if (nr == 0)
		return NULL;
	t = start(sums, nr - 1);
	if (nr % 3 == 0)
		yield();
	return (void *)(join(t) + nr);
}

/* Results, and deadlines of joins. */

static void results(void *arg)
{
	utime_ns from = unow();
	struct uthread *t[THREADS];
	int i;

	CHECK_IS(join(start(sums, 100)), 5050);
	for (i = 0; i < THREADS; i++)
		t[i] = start(sleeps, (intptr_t)from + i % 100);
	for (i = THREADS; i-- > 0; )
		CHECK_IS(join(t[i]), (intptr_t)from + i % 100);
	CHECK(unow() == from + 99 && ended == THREADS);
	t[0] = start(sleeps, (intptr_t)from + 1000);
	CHECK_IS(uthread_join(t[0], NULL, UNOW), -EAGAIN);
	CHECK_IS(uthread_join(t[0], NULL, -1), -EINVAL);
	CHECK_IS(uthread_join(t[0], NULL, from + 500), -ETIMEDOUT);
	CHECK_IS(unow(), from + 500);
	CHECK_IS(uthread_join(t[0], NULL, from + 2000), 0);
	CHECK_IS(unow(), from + 1000);
	t[0] = start(sleeps, (intptr_t)from + 1010);
	CHECK_IS(u_sleep(from + 1020), 0);
	CHECK_IS(uthread_join(t[0], NULL, UNOW), 0);
}

/* The deadline of a join, and the end of the thread, come at the same time. */
static void ties(void *arg)
{
	struct uthread *t;
	int i, rc;

	for (i = 0; i < 100; i++) {
		t = start(sleeps, (intptr_t)uafter(100));
		if (i % 2)
			yield();
		rc = uthread_join(t, NULL, uafter(100));
		CHECK(rc == 0 || rc == -ETIMEDOUT);
		CHECK_IS(u_wait_until(UNOW), -EAGAIN);
		CHECK(rc == 0 || uthread_join(t, NULL, UNEVER) == 0);
	}
}

static int joins(void *t)
{
	return uthread_join(t, NULL, UNEVER);
}

/* Refuses all joiners but the first. */
static void joiners(void *arg)
{
	utime_ns from = unow();
	struct uthread *t = start(sleeps, (intptr_t)from + 100);
	struct uscope *s;
	long errors;
	int i;

	CHECK_IS(uscope_begin(&s, from + 50), 0);
	CHECK_IS(uscope_go(s, joins, t), 0);
	CHECK_IS(u_sleep(from + 10), 0);
	CHECK_IS(uthread_join(t, NULL, UNEVER), -EINVAL);
	CHECK_IS(uthread_detach(t), -EINVAL);
	CHECK(uscope_end(&s) == -ETIMEDOUT && unow() == from + 50);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (i = 0; i < 10; i++)
		CHECK(uscope_go(s, joins, t) == 0 || u_canceled());
	CHECK(uscope_end_errors(&s, &errors) == -EINVAL && errors > 0);
	CHECK_IS(uthread_detach(t), 0);
}

static void *joins_itself(void *arg)
{
	CHECK_IS(uthread_join(uthread_self(), NULL, UNEVER), -EDEADLK);
	return NULL;
}

static void *detaches_itself(void *arg)
{
	struct uthread *t = uthread_self();

	CHECK(uthread_detach(t) == 0 && uthread_detach(t) == -EINVAL);
	CHECK_IS(uthread_join(t, NULL, UNEVER), -EDEADLK);
	add(&ended, 1);
	return arg;
}

static void detached(void *arg)
{
	int i;

	for (i = 0; i < 100; i++) {
		CHECK_IS(uthread_detach(start(sleeps, (intptr_t)uafter(i))), 0);
		CHECK_IS(uthread_make(NULL, sleeps, (void *)(intptr_t)uafter(i),
			 "detached"), 0);
		start(detaches_itself, 0);
	}
	(void)join(start(joins_itself, 0));
}

/* Joins by native threads. */

static struct uthread *waited_for[THREADS];
static long made;

static void *native_joins(void *arg)
{
	void *result;
	int i;

	for (i = 0; i < THREADS; i++) {
		until(&made, i + 1);
		CHECK_IS(uthread_join(waited_for[i], &result, UNEVER), 0);
		CHECK_IS((intptr_t)result, i);
	}
	SCHED(release)();
	return arg;
}

static void *spins(void *arg)
{
	intptr_t i;

	for (i = 0; i < (intptr_t)arg % 5; i++)
		yield();
	return arg;
}

static void makes(void *arg)
{
	int i;

	for (i = 0; i < THREADS; i++) {
		waited_for[i] = start(spins, i);
		add(&made, 1);
		if (i % 7 == 0)
			yield();
	}
}

static void natives(int p)
{
	set(&made, 0);
	begin(p, 0);
	make(0, makes, NULL);
	start_and_finish_with(native_joins, NULL);
}

/* Names and pointers. */

static int has_names(void *arg)
{
	char name[UTHREAD_NAME];

	CHECK(uthread_name(NULL, name) == 0 && name[0] == 0);
	CHECK_IS(uthread_set_name("a member"), 0);
	CHECK(uthread_name(NULL, name) == 0 && !strcmp(name, "a member"));
	CHECK_IS(uthread_data(NULL), NULL);
	CHECK(uthread_set_data(NULL, arg) == 0 && uthread_data(NULL) == arg);
	CHECK_IS(uthread_self(), NULL);
	return 0;
}

static void *is_named(void *arg)
{
	char name[UTHREAD_NAME];

	CHECK(uthread_name(NULL, name) == 0 && !strcmp(name, "a name that is"));
	CHECK_IS(uthread_set_name("short"), 0);
	while (uthread_data(NULL) == NULL)
		yield();
	CHECK_IS(uthread_data(uthread_self()), arg);
	return NULL;
}

static void names(void *arg)
{
	char name[UTHREAD_NAME];
	struct uthread *t;
	struct uscope *s;

	CHECK_IS(uthread_name(NULL, name), -EINVAL);
	CHECK_IS(uthread_set_name("x"), -EINVAL);
	CHECK_IS(uthread_set_data(NULL, name), -EINVAL);
	CHECK(uthread_data(NULL) == NULL && uthread_self() == NULL);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK(uthread_set_name("x") == -EINVAL && uthread_self() == NULL);
	CHECK(uscope_go(s, has_names, &ended) == 0 && uscope_end(&s) == 0);
	CHECK_IS(uthread_make(&t, is_named, &ended, "a name that is too long"),
		 0);
	CHECK(uthread_data(t) == NULL && uthread_name(t, name) == 0);
	while (strcmp(name, "short") != 0) {
		yield();
		CHECK_IS(uthread_name(t, name), 0);
	}
	CHECK(uthread_set_data(t, &ended) == 0 && uthread_data(t) == &ended);
	CHECK(uthread_join(t, &arg, UNEVER) == 0 && arg == NULL);
}

/* Keys. */

static unsigned key[3], many[UKEY_MOST];

static void destroy_waits(void *value)
{
	CHECK_IS(ukey_get(key[0]), NULL);
	CHECK_IS(u_sleep(uafter(5)), u_canceled() ? -ECANCELED : 0);
	add(&destroyed, (intptr_t)value);
}

/* Sets the value of another key, and its own again, until the last round. */
static void destroy_sets(void *value)
{
	add(&destroyed, 1000);
	CHECK_IS(ukey_set(key[0], (void *)1), 0);
	CHECK_IS(ukey_set(key[1], value), 0);
}

static intptr_t sets(intptr_t nr)
{
	CHECK(ukey_get(key[0]) == NULL && ukey_get(key[2]) == NULL);
	CHECK(ukey_set(key[0], &nr) == 0 && ukey_set(key[0], NULL) == 0);
	CHECK_IS(ukey_set(key[0], (void *)nr), 0);
	CHECK_IS(ukey_set(key[2], (void *)(nr + 1)), 0);
	CHECK_IS(u_sleep(uafter(nr)), 0);
	CHECK_IS(ukey_get(key[0]), (void *)nr);
	CHECK_IS(ukey_get(key[2]), (void *)(nr + 1));
	return nr;
}

static void *thread_sets(void *arg)
{
	return (void *)sets((intptr_t)arg);
}

static int member_sets(void *arg)
{
	return (int)sets((intptr_t)arg) * 0;
}

static void *thread_sets_again(void *arg)
{
	CHECK_IS(ukey_set(key[1], arg), 0);
	return NULL;
}

static int canceled_sets(void *arg)
{
	CHECK_IS(ukey_set(key[0], arg), 0);
	return u_sleep(UNEVER);
}

static void *sets_many(void *arg)
{
	intptr_t i;

	CHECK(ukey_set(many[100], NULL) == 0 && ukey_set(many[0], &i) == 0);
	CHECK(ukey_set(many[100], NULL) == 0 && ukey_get(many[100]) == NULL);
	for (i = 0; i < UKEY_MOST; i += 3)
		CHECK(many[i] == 0 || ukey_set(many[i], (void *)(i + 1)) == 0);
	for (i = 0; i < UKEY_MOST; i++)
		CHECK(many[i] == 0 || ukey_get(many[i]) ==
		      (i % 3 == 0 ? (void *)(i + 1) : NULL));
	return arg;
}

/* A new key that takes the place of a freed key has no values. */
static void *outlives_key(void *arg)
{
	unsigned old = key[2];

	CHECK(ukey_set(old, arg) == 0 && ukey_free(old) == 0);
	CHECK(ukey_get(old) == NULL && ukey_set(old, arg) == -EINVAL);
	CHECK(ukey_make(&key[2], destroy_waits) == 0 && key[2] != old);
	CHECK_IS(ukey_get(key[2]), NULL);
	return NULL;
}

static void keys_wrong(void)
{
	unsigned old = key[2];
	int i, nr = 0;

	CHECK(ukey_set(key[0], &old) == -EINVAL && ukey_get(key[0]) == NULL);
	CHECK(ukey_free(old) == 0 && ukey_free(old) == -EINVAL);
	CHECK_IS(ukey_free(0), -EINVAL);
	CHECK(ukey_make(&key[2], NULL) == 0 && key[2] != old);
	while (ukey_make(&many[nr], NULL) == 0)
		nr++;
	CHECK(nr == UKEY_MOST - 3 && ukey_make(&old, NULL) == -EAGAIN);
	(void)join(start(sets_many, 0));
	for (i = 0; i < nr; i++)
		CHECK_IS(ukey_free(many[i]), 0);
	memset(many, 0, sizeof many);
}

static void keys(void *arg)
{
	struct uthread *t[10];
	struct uscope *s;
	intptr_t i;

	CHECK_IS(ukey_make(&key[0], destroy_waits), 0);
	CHECK_IS(ukey_make(&key[1], destroy_sets), 0);
	CHECK_IS(ukey_make(&key[2], NULL), 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(ukey_set(key[0], &i), -EINVAL);
	for (i = 0; i < 10; i++) {
		t[i] = start(thread_sets, i);
		CHECK_IS(uscope_go(s, member_sets, (void *)i), 0);
	}
	for (i = 0; i < 10; i++)
		CHECK_IS(join(t[i]), i);
	CHECK(uscope_end(&s) == 0 && destroyed == 2 * 45);
	set(&destroyed, 0);
	(void)join(start(thread_sets_again, 1));
	CHECK_IS(destroyed, 1000 * UKEY_ROUNDS + UKEY_ROUNDS - 1);
	set(&destroyed, 0);
	CHECK_IS(uscope_begin(&s, uafter(10)), 0);
	CHECK_IS(uscope_go(s, canceled_sets, (void *)7), 0);
	CHECK(uscope_end(&s) == -ETIMEDOUT && destroyed == 7);
	(void)join(start(outlives_key, 7));
	CHECK_IS(destroyed, 7);
	keys_wrong();
	for (i = 0; i < 3; i++)
		CHECK_IS(ukey_free(key[i]), 0);
}

/* Misuse. */

static void *leaves_scope(void *arg)
{
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	return arg;
}

static void left(void *arg)
{
	(void)join(start(leaves_scope, 0));
}

static void dies_left(void)	{ alone(1, left); }

static void *ends_scopes(void *arg)
{
	struct uscope *s;

	CHECK(uscope_begin(&s, UNEVER) == 0 && uscope_self() == s);
	CHECK(uscope_end(&s) == 0 && uscope_self() == NULL);
	CHECK(u_sleep(uafter(1)) == 0 && uthread_self() != NULL);
	return arg;
}

static void plain(void *arg)
{
	struct uthread *t = start(ends_scopes, 0);

	CHECK_IS(join(t), 0);
	t = start(sleeps, (intptr_t)uafter(10));
	CHECK(uthread_detach(t) == 0 && uthread_detach(t) == -EINVAL);
	CHECK_IS(uthread_join(t, NULL, UNEVER), -EINVAL);
	CHECK_IS(uthread_make(&t, NULL, NULL, NULL), -EINVAL);
	CHECK_IS(uthread_join(NULL, NULL, UNEVER), -EINVAL);
	CHECK_IS(uthread_detach(NULL), -EINVAL);
}

static void misuse(void)
{
	struct uthread *t;

	CHECK_IS(uthread_make(&t, sums, NULL, NULL), -EINVAL);
	CHECK(uthread_self() == NULL && uthread_set_name("x") == -EINVAL);
	CHECK(ukey_set(0, NULL) == -EINVAL && ukey_get(0) == NULL);
	CHECK_IS(check_dies("left", dies_left, "has ended in a scope"), 0);
}

/* Interrupts. */

static struct usem units, go_on;
static long interrupted, taken;

static void *is_interrupted(void *arg)
{
	struct uscope *s;

	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	CHECK(u_sleep(uafter(10)) == 0 && !uthread_interrupted());
	add(&ended, 1);				/* 1: interrupted, and runs */
	CHECK_IS(uthread_interruptible(0), 1);
	CHECK_IS(usem_wait(&go_on, UNEVER), 0);
	CHECK_IS(uthread_interruptible(1), 0);
	CHECK_IS(usem_wait(&units, UNEVER), 0);	/* does not have to wait */
	CHECK_IS(usem_wait(&units, uafter(10)), -ECANCELED);
	CHECK_IS(usem_wait(&units, uafter(10)), -ETIMEDOUT);
	CHECK(uthread_interruptible(0) == 1 && uthread_interruptible(0) == 0);
	add(&ended, 1);				/* 3: not interruptible */
	CHECK(u_sleep(uafter(100)) == 0 && ended == 4);
	CHECK(uthread_interrupted() && !uthread_interrupted());
	CHECK_IS(uthread_interruptible(1), 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	add(&ended, 1);				/* 5: in a scope */
	CHECK(u_sleep(UNEVER) == -ECANCELED && !u_canceled());
	CHECK_IS(u_sleep(uafter(10)), 0);
	uscope_cancel(s);
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	return NULL;
}

static void interrupts(void *arg)
{
	struct uthread *t = start(is_interrupted, 0);

	units = (struct usem)USEM(1);
	go_on = (struct usem)USEM(0);
	CHECK(uthread_interrupt(NULL) == -EINVAL && !uthread_interrupted());
	CHECK_IS(uthread_interruptible(1), 0);		/* no handle */
	CHECK_IS(u_sleep(uafter(10)), 0);
	CHECK_IS(uthread_interrupt(t), 0);
	while (ended < 1)
		CHECK_IS(u_sleep(uafter(1)), 0);
	CHECK(uthread_interrupt(t) == 0 && uthread_interrupt(t) == 0);
	add(&ended, 1);					/* 2 */
	CHECK_IS(usem_post(&go_on), 0);
	while (ended < 3)
		CHECK_IS(u_sleep(uafter(1)), 0);
	CHECK_IS(uthread_interrupt(t), 0);
	add(&ended, 1);					/* 4 */
	while (ended < 5)
		CHECK_IS(u_sleep(uafter(1)), 0);
	CHECK(u_sleep(uafter(5)) == 0 && uthread_interrupt(t) == 0);
	CHECK_IS(join(t), 0);
}

/* Waits in a scope or not, up to its deadlines; then says what it has got. */
static void *waits(void *arg)
{
	struct uscope *s = NULL;
	int i, rc;

	for (i = 0; i < 50; i++) {
		if ((intptr_t)arg % 2)
			CHECK_IS(uscope_begin(&s, UNEVER), 0);
		rc = usem_wait(&units, i % 3 ? UNEVER : uafter(i % 7 + 1));
		if (s != NULL)
			CHECK_IS(uscope_end(&s), 0);
		CHECK(rc == 0 || rc == -ECANCELED || rc == -ETIMEDOUT);
		add(&interrupted, rc == -ECANCELED);
		add(&taken, rc == 0);
	}
	add(&interrupted, uthread_interrupted());
	add(&ended, 1);
	return NULL;
}

/* No interrupt counts twice, and no unit is lost. */
static void storm(void *arg)
{
	struct uthread *t[20];
	long sent = 0, posted = 0;
	int i;

	interrupted = taken = 0;
	units = (struct usem)USEM(0);
	for (i = 0; i < 20; i++)
		t[i] = start(waits, i);
	while (ended < 20) {
		CHECK_IS(uthread_interrupt(t[sent++ % 20]), 0);
		if (sent % 3 == 0)
			CHECK(usem_post(&units) == 0 && ++posted);
		if (sent % 5 == 0)
			CHECK_IS(u_sleep(uafter(1)), 0);
	}
	for (i = 0; i < 20; i++)
		CHECK_IS(join(t[i]), 0);
	CHECK(interrupted > 0 && interrupted <= sent);
	CHECK_IS(taken + usem_value(&units), posted);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	check_quiet();
	utime_virtual(check_seed % 4 != 0 ? check_seed : 0);
	misuse();
	for (p = 1; p <= 2; p++) {
		doing("plain");
		alone(p, plain);
		doing("results");
		alone(p, results);
		CHECK_IS(ended, THREADS + 2);
		doing("ties");
		alone(p, ties);
		doing("joiners");
		alone(p, joiners);
		doing("detached");
		alone(p, detached);
		CHECK_IS(ended, 300);
		doing("natives");
		natives(p);
		doing("names");
		alone(p, names);
		doing("keys");
		alone(p, keys);
		doing("interrupts");
		alone(p, interrupts);
		doing("storm");
		alone(p, storm);
	}
	return 0;
}
