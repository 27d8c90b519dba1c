/* SPDX-License-Identifier: MIT */
/* lock.c: mutexes, semaphores and read-write locks. */

#include "ours.h"

#if defined(LOCAL)
#define MUTEX	(struct umutex)UMUTEX_LOCAL
#define RW	(struct urw)URW_LOCAL
#define SEM(nr)	(struct usem)USEM_LOCAL(nr)
#else
#define MUTEX	(struct umutex){ 0 }
#define RW	(struct urw){ 0 }
#define SEM(nr)	(struct usem)USEM(nr)
#endif

static struct umutex lock;
static struct urw rw;
static struct usem units;

static void lock_and_unlock(struct umutex *m, long n)
{
	for (; n > 0; n--) {
		ok(umutex_lock(m, UNEVER));
		umutex_unlock(m);
	}
}

/* Memory of its own, and some bytes around it, so that lines are not shared. */
static void *own(size_t size)
{
	return (char *)waits_memory(size + 256) + 128;
}

static void lock_own(int id, long n)
{
	struct umutex *m = own(sizeof *m);

	(void)id;
	*m = MUTEX;
	lock_and_unlock(m, n);
}

void mutex_own(void)
{
	each(waits.w_p, lock_own);
}

static void lock_shared(int id, long n)
{
	(void)id;
	lock_and_unlock(&lock, n);
}

void mutex(void)
{
	lock = MUTEX;
	each(waits.w_p, lock_shared);
}

void mutex_slack(void)
{
	lock = MUTEX;
	each(WAITS_SLACK * waits.w_p, lock_shared);
}

static void lock_and_work(int id, long n)
{
	uint64_t x = id;

	for (; n > 0; n--) {
		ok(umutex_lock(&lock, UNEVER));
		umutex_unlock(&lock);
		x = waits_work(x);
	}
	waits_worked(x);
}

void mutex_work(void)
{
	lock = MUTEX;
	each(waits.w_p, lock_and_work);
}

static long *got;
static long left;			/* under the lock */

static void hold(int id, long n)
{
	bool more;

	(void)n;
	do {
		ok(umutex_lock(&lock, UNEVER));
		ok(SCHED(yield)());
		more = left > 0;
		left -= more;
		got[id] += more;
		umutex_unlock(&lock);
	} while (more);
}

void mutex_hold(void)
{
	int nr = WAITS_SLACK * waits.w_p;

	lock = MUTEX;
	got = waits_memory(nr * sizeof *got);
	left = waits.w_n;
	each(nr, hold);
	waits_shares(got, nr);
}

static long held;
static bool done;			/* atomic */

/* Holds the lock nearly always, or wants it now and then. */
static void often_or_seldom(int id, long n)
{
	n = waits.w_n;
	while (id == 0 && !__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		ok(umutex_lock(&lock, UNEVER));
		ok(u_sleep(uafter(WAITS_HOLD)));
		held++;
		umutex_unlock(&lock);
	}
	for (; id == 1 && n > 0; n--) {
		ok(u_sleep(uafter(WAITS_HOLD)));
		ok(umutex_lock(&lock, UNEVER));
		umutex_unlock(&lock);
	}
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
}

void skew(void)
{
	lock = MUTEX;
	each(2, often_or_seldom);
	waits_say(".most_to_least", (double)held / waits.w_n);
}

static void use_unit(int id, long n)
{
	(void)id;
	for (; n > 0; n--) {
		ok(usem_wait(&units, UNEVER));
		ok(usem_post(&units));
	}
}

void sem(void)
{
	units = SEM(waits.w_p);
	each(waits.w_p, use_unit);
}

static void read_and_write(int id, long n)
{
	struct urw *l = own(sizeof *l);

	(void)id;
	*l = RW;
	for (; n > 0; n--) {
		ok(urw_read(l, UNEVER));
		ok(urw_read(l, UNEVER));
		urw_unlock(l);
		urw_unlock(l);
		ok(urw_write(l, UNEVER));
		urw_unlock(l);
	}
}

void rw_own(void)
{
	each(waits.w_p, read_and_write);
}

static void read_or_write(int id, long n)
{
	(void)id;
	for (; n > 0; n--) {
		ok(n % waits.w_m == 0 ? urw_write(&rw, UNEVER) :
		   urw_read(&rw, UNEVER));
		urw_unlock(&rw);
	}
}

void rw_write(void)
{
	rw = RW;
	each(waits.w_p, read_or_write);
}
