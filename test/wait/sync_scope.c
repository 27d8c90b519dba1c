/* SPDX-License-Identifier: MIT */
/* sync_scope: a cancellation ends waits for objects, and loses nothing. */
/* VARIANTS: RR LL WS PR */

/*
 * Threads of a scope use all objects without a deadline, some for which nothing
 * would ever come. Then the scope is canceled: by its deadline, by a thread, by
 * an error, or before they begin. Each wait ends, with 0 or -ECANCELED. Threads
 * that waited for a condition hold the mutex again. Afterwards no thread waits,
 * nothing is held, and no unit was lost.
 */
#include "either.h"
#include "uscope.h"
#include "usync.h"

#define THREADS	20
#define UNITS	3

static struct umutex   mutex;
static struct ucond    cond;
static struct usem     sem = USEM(UNITS);
static struct urw      rw;
static struct ugroup   group;
static struct ubarrier barrier = UBARRIER(THREADS + 5);	/* too many */
static struct uonce    once;
static long inside, out, reading, writing, ended, canceled;

/* True: the wait was canceled. */
static bool over(int rc)
{
	CHECK(rc == 0 || rc == -ECANCELED);
	if (rc != 0)
		add(&canceled, 1);
	return rc != 0;
}

static void maybe(unsigned *r)
{
	if (check_random(r) % 3 == 0)
		yield();
	else if (check_random(r) % 3 == 0)
		(void)u_sleep(uafter(check_random(r) % 20));
}

static bool use_mutex(unsigned *r)
{
	bool last = false;

	if (over(umutex_lock(&mutex, UNEVER)))
		return true;
	CHECK_IS(add(&inside, 1), 1);
	maybe(r);
	if (check_random(r) % 4 == 0) {
		add(&inside, -1);
		last = over(ucond_wait(&cond, &mutex, UNEVER));
		CHECK_IS(add(&inside, 1), 1);
		CHECK_IS(umutex_lock(&mutex, UNEVER), -EDEADLK);
	} else if (check_random(r) % 8 == 0)
		ucond_broadcast(&cond);
	else
		ucond_signal(&cond);
	maybe(r);
	CHECK_IS(add(&inside, -1), 0);
	umutex_unlock(&mutex);
	return last;
}

static bool use_sem(unsigned *r)
{
	if (over(usem_wait(&sem, UNEVER)))
		return true;
	CHECK_THAT(add(&out, 1), <=, UNITS);
	maybe(r);
	add(&out, -1);
	CHECK_IS(usem_post(&sem), 0);
	return false;
}

static bool use_rw(unsigned *r)
{
	bool writes = check_random(r) % 2 == 0;

	if (over(writes ? urw_write(&rw, UNEVER) : urw_read(&rw, UNEVER)))
		return true;
	CHECK(add(writes ? &writing : &reading, 1) == 1 || !writes);
	CHECK_IS(get(writes ? &reading : &writing), 0);
	maybe(r);
	add(writes ? &writing : &reading, -1);
	urw_unlock(&rw);
	return false;
}

static int takes_long(void *arg)
{
	unsigned *r = arg;

	maybe(r);
	return check_random(r) % 50 == 0 ? 0 : -ECANCELED;
}

static bool use_once(unsigned *r)
{
	return uonce(&once, takes_long, r, UNEVER) != 0 && u_canceled();
}

static bool use_any(unsigned *r)
{
	switch (check_random(r) % 16) {
	case 0:
		return over(ubarrier_wait(&barrier, UNEVER));
	case 1:
		return over(ugroup_wait(&group, UNEVER));
	case 2: case 3:
		return use_once(r);
	case 4: case 5: case 6: case 7:
		return use_sem(r);
	case 8: case 9: case 10: case 11:
		return use_rw(r);
	default:
		return use_mutex(r);
	}
}

/* Every fifth thread ends with an error, soon or late. */
static int uses(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i, steps = (int)(check_random(&r) % 60);

	for (i = 0; !use_any(&r); i++) {
		maybe(&r);
		if (check_random(&r) % 5 == 0 && i > steps) {
			add(&ended, 1);
			return -7;
		}
	}
	add(&ended, 1);
	return -ECANCELED;
}

static void boss(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	unsigned how = check_random(&r) % 3;
	struct uscope *s;
	intptr_t i;
	int rc;

	/* If all threads wait for nothing, none makes an error. */
	CHECK_IS(uscope_begin(&s, how == 1 ? UNEVER :
		 uafter(how == 2 ? 100000 : check_random(&r) % 500 + 1)), 0);
	for (i = 0; i < THREADS; i++) {
		rc = uscope_go(s, uses, (void *)((intptr_t)arg * THREADS + i));
		if (over(rc))
			add(&ended, 1);
	}
	if (how == 1) {
		(void)u_sleep(uafter(check_random(&r) % 500));
		uscope_cancel(s);
	}
	rc = uscope_end(&s);
	CHECK(rc == -7 || rc == -ETIMEDOUT || rc == -ECANCELED);
}

static void idle_now(void)
{
	int i;

	CHECK(umutex_busy(&mutex) == 0 && ucond_busy(&cond) == 0 &&
	      usem_busy(&sem) == 0 && urw_busy(&rw) == 0 &&
	      ubarrier_busy(&barrier) == 0);
	CHECK(ugroup_add(&group, -1) == 0 && ugroup_busy(&group) == 0);
	for (i = 0; i < UNITS; i++)
		CHECK_IS(usem_wait(&sem, UNOW), 0);
	CHECK_IS(usem_wait(&sem, UNOW), -EAGAIN);
	for (i = 0; i < UNITS; i++)
		CHECK_IS(usem_post(&sem), 0);
}

static void round_of(int p, int nr)
{
	memset(&once, 0, sizeof once);
	ended = 0;
	CHECK_IS(ugroup_add(&group, 1), 0);	/* never done */
	one_thread(p, boss, (void *)(intptr_t)nr);
	CHECK_IS(ended, THREADS);
	idle_now();
}

int main(int argc, char **argv)
{
	int nr, p;

	check_start(argc, argv);
	utime_virtual(0);
	for (nr = 0; nr < 20 || (nr < 500 && check_time(3)); nr++) {
		for (p = 1; p <= 3; p++)
			round_of(p, nr);
	}
	CHECK_THAT(canceled, >, nr);
	return 0;
}
