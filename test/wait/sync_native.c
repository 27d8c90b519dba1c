/* SPDX-License-Identifier: MIT */
/* sync_native: threads and native threads exclude and wake each other. */
/* VARIANTS: RR LL WS PR */

/*
 * In real time. Threads of 1 and 2 processors and native threads, or native
 * threads alone, share all objects, with deadlines that often have passed. Each
 * counts what must hold, as in sync. A native thread frees objects for which
 * threads have waited, and the other way round: the memory is poisoned, and
 * stays as it is.
 */
#include "either.h"
#include "usync.h"

#define THREADS	10
#define NATIVES	3
#define ALL	(THREADS + NATIVES)
#define ROUNDS	150
#define OBJECTS	300
#define POISON	0x5a

static struct umutex   mutex;
static struct ucond    cond;
static struct usem     sem = USEM(2);
static struct urw      rw;
static struct ugroup   group;
static struct ubarrier barrier = UBARRIER(ALL);
static struct uonce    once;
static long running, inside, tokens, out, reading, writing;
static long came, serial, late, runs;

static void gives_way(unsigned *r)
{
	if (check_random(r) % 4 != 0)
		return;
	if (ustack_self() != NULL)
		yield();
	else
		check_yield();
}

static utime_ns soon(unsigned *r)
{
	unsigned what = check_random(r) % 6;

	return what < 4 ? UNEVER : what == 4 ? UNOW :
		uafter((utime_ns)(check_random(r) % 100) * UTIME_US);
}

static bool ok(int rc)
{
	CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EAGAIN);
	if (rc != 0)
		add(&late, 1);
	return rc == 0;
}

static void use_mutex(unsigned *r)
{
	int rc;

	if (!ok(umutex_lock(&mutex, soon(r))))
		return;
	CHECK_IS(umutex_lock(&mutex, UNEVER), -EDEADLK);
	CHECK_IS(add(&inside, 1), 1);
	gives_way(r);
	if (check_random(r) % 2 == 0) {
		tokens++;
		ucond_signal(&cond);
	} else if (tokens == 0) {
		add(&inside, -1);
		rc = ucond_wait(&cond, &mutex, uafter(50 * UTIME_US));
		(void)ok(rc);
		CHECK_IS(add(&inside, 1), 1);
	} else
		tokens--;
	CHECK_IS(add(&inside, -1), 0);
	umutex_unlock(&mutex);
	if (check_random(r) % 16 == 0)
		ucond_broadcast(&cond);
}

static void use_sem(unsigned *r)
{
	if (!ok(usem_wait(&sem, soon(r))))
		return;
	CHECK_THAT(add(&out, 1), <=, 2);
	gives_way(r);
	add(&out, -1);
	CHECK_IS(usem_post(&sem), 0);
}

static void use_rw(unsigned *r)
{
	bool writes = check_random(r) % 3 == 0;
	utime_ns until = soon(r);

	if (!ok(writes ? urw_write(&rw, until) : urw_read(&rw, until)))
		return;
	CHECK(add(writes ? &writing : &reading, 1) == 1 || !writes);
	CHECK_IS(get(writes ? &reading : &writing), 0);
	gives_way(r);
	CHECK_IS(get(writes ? &reading : &writing), 0);
	add(writes ? &writing : &reading, -1);
	urw_unlock(&rw);
}

static int fails_often(void *arg)
{
	CHECK_IS(add(&running, 1), 1);
	add(&running, -1);
	return add(&runs, 1) < ALL ? -7 : 0;
}

static void meet(unsigned *r, long nr)
{
	utime_ns until = uafter((utime_ns)(check_random(r) % 300) * UTIME_US);
	int rc;

	add(&came, 1);
	while ((rc = ubarrier_wait(&barrier, until)) == -ETIMEDOUT) {
		add(&late, 1);
		until = UNEVER;
	}
	CHECK(rc == 0 || rc == 1);
	add(&serial, rc);
	CHECK_THAT(get(&came), >=, nr * ALL);
}

/* Memory: three meet at each object, and what ends its use frees it. */
static union object {
	struct usem   o_sem;
	struct ugroup o_group;
	struct umutex o_mutex;
} objects[OBJECTS];
static long users[OBJECTS], freed[OBJECTS];

static void bury(int i)
{
	memset(&objects[i], POISON, sizeof objects[i]);
	set(&freed[i], 1);
}

static void use_object(int i, int who)
{
	union object *o = &objects[i];
	bool last;

	switch (i % 3) {
	case 0:
		if (who == i % 2) {
			CHECK_IS(usem_wait(&o->o_sem, UNEVER), 0);
			bury(i);
		} else if (who == 1 - i % 2)
			CHECK_IS(usem_post(&o->o_sem), 0);
		break;
	case 1:
		if (who == i % 2) {
			CHECK_IS(ugroup_wait(&o->o_group, UNEVER), 0);
			bury(i);
		} else
			ugroup_done(&o->o_group);
		break;
	case 2:
		CHECK_IS(umutex_lock(&o->o_mutex, UNEVER), 0);
		last = --users[i] == 0;
		umutex_unlock(&o->o_mutex);
		if (last)
			bury(i);
	}
}

static void uses(int who)
{
	unsigned r = check_hash(check_seed, (unsigned)who);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		use_mutex(&r);
		gives_way(&r);
		use_sem(&r);
		use_rw(&r);
		if (i % 50 == 0)
			meet(&r, i / 50 + 1);
	}
	while (uonce(&once, fails_often, NULL, UNEVER) != 0)
		;
	CHECK_IS(get(&runs), ALL);
	for (i = 0; i < OBJECTS; i++)
		use_object(i, who);
	ugroup_done(&group);
}

static bool all_native;			/* there is no scheduler */

static void thread_uses(void *arg)
{
	uses((int)(intptr_t)arg);
}

static void *native_uses(void *arg)
{
	uses((int)(intptr_t)arg);
	if (!all_native)
		SCHED(release)();
	return NULL;
}

static bool is_native(int i)
{
	return all_native || (i % 4 == 0 && i / 4 < NATIVES);
}

static void init(void)
{
	int i;

	memset(objects, 0, sizeof objects);
	memset(&once, 0, sizeof once);
	inside = tokens = out = reading = writing = came = serial = late = 0;
	runs = 0;
	for (i = 0; i < OBJECTS; i++) {
		users[i] = ALL;
		freed[i] = 0;
		if (i % 3 == 1)
			CHECK_IS(ugroup_add(&objects[i].o_group, ALL - 1), 0);
	}
	CHECK_IS(ugroup_add(&group, ALL), 0);
}

static void buried(void)
{
	size_t at;
	int i;

	for (i = 0; i < OBJECTS; i++) {
		const unsigned char *o = (unsigned char *)&objects[i];

		CHECK_IS(freed[i], 1);
		for (at = 0; at < sizeof objects[i]; at++)
			CHECK_IS(o[at], POISON);
	}
}

/* On p processors; 0: on none. */
static void run(int p)
{
	pthread_t id[ALL];
	intptr_t i;

	init();
	all_native = p == 0;
	if (p > 0)
		begin(p, 0);
	for (i = 0; i < ALL; i++) {
		if (is_native((int)i)) {
			if (p > 0)
				SCHED(hold)();
			id[i] = native(native_uses, (void *)i);
		} else
			make((int)i, thread_uses, (void *)i);
	}
	CHECK(p == 0 || SCHED(start)() == 0);
	CHECK_IS(ugroup_wait(&group, UNEVER), 0);
	for (i = 0; i < ALL; i++) {
		if (is_native((int)i))
			native_join(id[i]);
	}
	if (p > 0)
		finish();
	CHECK(serial == ROUNDS / 50 && late > 0);
	CHECK(umutex_busy(&mutex) == 0 && ucond_busy(&cond) == 0 &&
	      usem_busy(&sem) == 0 && urw_busy(&rw) == 0 &&
	      ubarrier_busy(&barrier) == 0);
	buried();
}

/*
 * A holder that gives way does not run, on one processor. So no thread spins,
 * which would be in vain, and be noted.
 */
static void gives_way_inside(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 20; i++) {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		yield();
		umutex_unlock(&mutex);
	}
}

static void no_spin(void)
{
	int i;

	mutex = (struct umutex){ 0 };
	begin(1, 0);
	for (i = 0; i < THREADS; i++)
		make(i, gives_way_inside, NULL);
	start_and_finish();
	CHECK_IS(mutex.mx_sync.y_penalty, 0);
}

/*
 * What a thread is told about another, of another processor: usync H1. ws
 * chooses where threads run.
 */
#if !defined(WS)
static struct ustack *other;		/* atomic */
static long over;

static int runs_elsewhere(const struct ustack *u)
{
	const struct uwait_base *b = usched_self()->s_waits;

	return b->wb_ops->o_runs(b, u);
}

static void is_seen(void *arg)
{
	(void)arg;
	__atomic_store_n(&other, ustack_self(), __ATOMIC_RELEASE);
	while (get(&over) == 0)
		check_yield();
}

static void sees(void *arg)
{
	struct ustack *u;

	(void)arg;
	while ((u = __atomic_load_n(&other, __ATOMIC_ACQUIRE)) == NULL)
		yield();
	CHECK(runs_elsewhere(u) && runs_elsewhere(NULL));
	CHECK(!runs_elsewhere(ustack_self()));
	add(&over, 1);
	while (runs_elsewhere(NULL))	/* until the other processor sleeps */
		check_yield();
}

static void holders(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 &&
	    CPU_COUNT(&cpus) < 2)
		return;
	other = NULL;
	set(&over, 0);
	begin(2, 0);
	make(0, sees, NULL);
	make(1, is_seen, NULL);
	start_and_finish();
}
#else
static void holders(void)
{
}
#endif

/*
 * On one processor a writer can run only after the thread that unlocks, which
 * passes it at most URW_BYPASS times.
 */
static struct urw passed;
static long served;

static void is_passed(void *arg)
{
	(void)arg;
	CHECK_IS(urw_write(&passed, UNEVER), 0);
	add(&served, 1);
	urw_unlock(&passed);
}

static void passes(void *arg)
{
	long nr;

	(void)arg;
	CHECK_IS(urw_write(&passed, UNEVER), 0);
	make(0, is_passed, NULL);
	yield();
	yield();
	urw_unlock(&passed);
	CHECK_IS(urw_busy(&passed), -EBUSY);
	for (nr = 0; get(&served) == 0; nr++) {
		CHECK_THAT(nr, <=, URW_BYPASS);
		CHECK_IS(nr % 2 == 0 ? urw_write(&passed, UNEVER) :
			 urw_read(&passed, UNEVER), 0);
		urw_unlock(&passed);
	}
	CHECK(nr > 2 && urw_busy(&passed) == 0);
}

static void pass_by(void)
{
	served = 0;
	begin(1, 0);
	make(0, passes, NULL);
	start_and_finish();
}

/*
 * Readers elsewhere do not wait for the processor of a reader that waits with
 * them: neither those that wait already, nor more newcomers than URW_BYPASS.
 */
static long reads_asked, reads_done;

static void reads_here(void *arg)
{
	(void)arg;
	CHECK_IS(urw_read(&passed, UNEVER), 0);
	urw_unlock(&passed);
}

static void *reads_elsewhere(void *arg)
{
	int nr;

	add(&reads_asked, 1);
	for (nr = 0; nr <= 2 * URW_BYPASS; nr++) {
		CHECK_IS(urw_read(&passed, UNEVER), 0);
		urw_unlock(&passed);
	}
	add(&reads_done, 1);
	return arg;
}

static void holds_its_processor(void *arg)
{
	pthread_t native;

	(void)arg;
	CHECK_IS(urw_write(&passed, UNEVER), 0);
	make(0, reads_here, NULL);
	yield();
	yield();
	CHECK_IS(pthread_create(&native, NULL, reads_elsewhere, NULL), 0);
	while (get(&reads_asked) == 0)
		(void)sched_yield();
	usleep(2000);
	urw_unlock(&passed);
	while (get(&reads_done) == 0)
		(void)sched_yield();
	CHECK_IS(pthread_join(native, NULL), 0);
}

static void pass_readers(void)
{
	reads_asked = reads_done = 0;
	begin(1, 0);
	make(0, holds_its_processor, NULL);
	start_and_finish();
	CHECK_IS(urw_busy(&passed), 0);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	no_spin();
	holders();
	pass_by();
	pass_readers();
	for (i = 0; i < 9 || (i < 200 && check_time(4)); i++)
		run(i % 3);
	return 0;
}
