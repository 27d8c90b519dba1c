/* SPDX-License-Identifier: MIT */
/* sync: locks exclude, nothing is lost, all are served, none fails late. */
/* VARIANTS: RR LL WS PR */

/*
 * Under virtual time, with 1 to 3 processors. Threads use each object, wait
 * with deadlines drawn at random, and give way at random while they hold it.
 * What must hold is counted by the threads themselves:
 *
 *	mutex		a single thread is inside; a waiter is passed over a
 *			bounded number of times
 *	condition	each signal lets a waiter through that has come before,
 *			and that then holds the mutex, also after a deadline
 *	semaphore	as many units are out as were posted, in order
 *	read-write	writers alone; readers and writers alternate
 *	group, barrier	nothing goes on too early; late waiters are not counted
 *	once		a single run succeeds
 *
 * Objects are poisoned as soon as the last call that needs them has returned.
 * Nothing may write there afterwards.
 */
#include "either.h"
#include "usync.h"

#define THREADS	24
#define ROUNDS	60
#define POISON	0xa5

static long done, inside, passed, late;
static int proc_nr;

static unsigned drawn(unsigned *r, unsigned nr)
{
	return check_random(r) % nr;
}

/* Lets others run, now and then. */
static void maybe(unsigned *r)
{
	unsigned what = drawn(r, 8);

	if (what < 2)
		yield();
	else if (what == 2)
		CHECK_IS(u_sleep(uafter(drawn(r, 50))), 0);
}

/* Returns a deadline: none, soon, or now. */
static utime_ns some_deadline(unsigned *r)
{
	switch (drawn(r, 4)) {
	case 0:
		return uafter(drawn(r, 200) + 1);
	case 1:
		return drawn(r, 4) == 0 ? UNOW : uafter(20);
	default:
		return UNEVER;
	}
}

/* Checks the result of a wait until then. True: 0. */
static bool came(int rc, utime_ns until)
{
	CHECK(rc == 0 || (rc == -ETIMEDOUT && until != UNEVER &&
			  unow() >= until) || (rc == -EAGAIN && until == UNOW));
	if (rc != 0)
		add(&late, 1);
	return rc == 0;
}

/* Runs nr threads of f on p processors. */
static void run(int p, int nr, void (*f)(void *), const char *what)
{
	int i;

	doing("%s", what);
	set(&done, 0);
	inside = passed = 0;
	proc_nr = p;
	begin(p, 0);
	for (i = 0; i < nr; i++)
		make(i, f, (void *)(intptr_t)i);
	start_and_finish();
	CHECK_IS(done, nr);
}

static unsigned seed_of(const void *arg)
{
	return check_hash(check_seed, (unsigned)(intptr_t)arg + 1);
}

/* Mutexes. */

static struct umutex mutex;
static int held[2];			/* changed inside only */

static void enters(void)
{
	CHECK_IS(add(&inside, 1), 1);
	held[0]++;
}

static void leaves(void)
{
	held[1]++;
	CHECK_IS(held[0], held[1]);
	CHECK_IS(add(&inside, -1), 0);
}

static void locks(void *arg)
{
	unsigned r = seed_of(arg);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = some_deadline(&r);

		maybe(&r);
		if (!came(umutex_lock(&mutex, until), until))
			continue;
		enters();
		CHECK_IS(umutex_lock(&mutex, UNEVER), -EDEADLK);
		maybe(&r);
		leaves();
		umutex_unlock(&mutex);
		add(&passed, 1);
	}
	add(&done, 1);
}

static void mutexes(int p)
{
	late = 0;
	run(p, THREADS, locks, "mutex");
	CHECK(passed + late == THREADS * ROUNDS && late > 0);
	CHECK(umutex_busy(&mutex) == 0 && mutex.mx_sync.y_first == NULL);
}

/*
 * A thread that locks again at once cannot keep others out: HOGS of them, and
 * threads that try once. No attempt sees more than a bound of other locks.
 */
#define HOGS	3

static long locked, turns;

static void hogs(void *arg)
{
	unsigned r = seed_of(arg);
	bool hog = (intptr_t)arg < HOGS;
	int i;

	for (i = 0; i < (hog ? 300 : 20); i++) {
		long before = get(&locked);

		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		/* Each waiter before may be passed over, and may lose once. */
		CHECK_THAT(get(&locked) - before, <=, (THREADS + 1)
			   * (UMUTEX_BYPASS + 2));
		add(&locked, 1);
		enters();
		if (drawn(&r, 2))
			yield();
		leaves();
		umutex_unlock(&mutex);
		if (!hog)
			yield();
	}
	add(&done, 1);
}

/*
 * With a yield inside, threads take turns: each waiter loses at most once. If
 * the order of threads is first in, first out, no newcomer gets more turns.
 */
#if defined(LL) || defined(WS) || defined(PR) || defined(USCHED_HARD)
#define TURNS	UMUTEX_BYPASS
#else
#define TURNS	(2 * 3)
#endif

static void takes_turns(void *arg)
{
	long last = turns, most = 0;
	int i;

	for (i = 0; i < 200; i++) {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		if (turns - last > most)
			most = turns - last;
		last = ++turns;
		yield();
		umutex_unlock(&mutex);
	}
	CHECK_THAT(most, <=, TURNS);
	add(&done, 1);
}

/*
 * A thread that never gives way while it locks and unlocks keeps a waiter of
 * its own processor out for UMUTEX_BYPASS locks, and then waits itself.
 */
static long hog_locks;

static void hog_or_not(void *arg)
{
	if (arg != NULL) {
		while (umutex_busy(&mutex) == 0)
			yield();
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		CHECK(hog_locks > 0 && hog_locks <= UMUTEX_BYPASS + 2);
		hog_locks = -1;
	} else {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		yield();
		while (hog_locks >= 0) {
			hog_locks++;
			umutex_unlock(&mutex);
			CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		}
	}
	umutex_unlock(&mutex);
	add(&done, 1);
}

static void fair(int p)
{
	locked = turns = 0;
	run(p, THREADS, hogs, "hogs");
	if (p == 1)
		run(p, 3, takes_turns, "turns");
	hog_locks = 0;
	run(1, 2, hog_or_not, "hog");
	CHECK_IS(umutex_busy(&mutex), 0);
}

/* Conditions: a bounded queue. */

#define PLACES	3

static struct ucond not_empty, not_full;
static long queue[PLACES];
static int queued_nr, queue_at;
static long produced, consumed, sum_in, sum_out;

static void signals(struct ucond *c, unsigned *r)
{
	if (drawn(r, 4) == 0)
		ucond_broadcast(c);
	else
		ucond_signal(c);
}

/* Waits while the queue is full or empty. False: too late. */
static bool waits(struct ucond *c, int while_nr, unsigned *r)
{
	while (queued_nr == while_nr) {
		utime_ns until = some_deadline(r);
		int rc;

		leaves();
		rc = ucond_wait(c, &mutex, until);
		enters();
		if (!came(rc, until))
			return false;
	}
	return true;
}

static void produces(unsigned *r, long nr)
{
	long value = (long)drawn(r, 1000);

	while (nr > 0) {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		enters();
		if (waits(&not_full, PLACES, r)) {
			queue[(queue_at + queued_nr++) % PLACES] = value;
			sum_in += value;
			produced++;
			nr--;
		}
		leaves();
		if (drawn(r, 2)) {
			signals(&not_empty, r);
			umutex_unlock(&mutex);
		} else {
			umutex_unlock(&mutex);
			signals(&not_empty, r);
		}
		maybe(r);
	}
}

static void consumes(unsigned *r, long nr)
{
	while (nr > 0) {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		enters();
		if (waits(&not_empty, 0, r)) {
			sum_out += queue[queue_at];
			queue_at = (queue_at + 1) % PLACES;
			queued_nr--;
			consumed++;
			nr--;
		}
		maybe(r);
		leaves();
		umutex_unlock(&mutex);
		signals(&not_full, r);
	}
}

static void queues(void *arg)
{
	unsigned r = seed_of(arg);

	if ((intptr_t)arg % 2 == 0)
		produces(&r, ROUNDS);
	else
		consumes(&r, ROUNDS);
	add(&done, 1);
}

static void conditions(int p)
{
	produced = consumed = sum_in = sum_out = late = 0;
	run(p, THREADS, queues, "queue");
	CHECK(produced == consumed && sum_in == sum_out && late > 0);
	CHECK(produced == THREADS / 2 * ROUNDS && queued_nr == 0);
	CHECK(umutex_busy(&mutex) == 0 && ucond_busy(&not_full) == 0 &&
	      ucond_busy(&not_empty) == 0);
}

/*
 * The same over a read-write lock. Consumers first wait as readers, at the same
 * time, and then take as writers. The hard mode knows who holds the lock.
 */
static struct urw shelf;

static bool waits_rw(struct ucond *c, int while_nr, bool writes, unsigned *r)
{
	while (queued_nr == while_nr) {
		utime_ns until = some_deadline(r);
		int rc;

		if (writes)
			leaves();
		rc = ucond_wait_rw(c, &shelf, until);
		CHECK_IS(urw_owner(&shelf) == usync_caller(), writes);
		if (writes)
			enters();
		if (!came(rc, until))
			return false;
	}
	CHECK(writes || get(&inside) == 0);
	return true;
}

/* Returns how many it has put: 0 or 1. */
static int puts_one(unsigned *r)
{
	int nr;

	CHECK_IS(urw_write(&shelf, UNEVER), 0);
	enters();
	nr = waits_rw(&not_full, PLACES, true, r);
	queued_nr += nr;
	produced  += nr;
	leaves();
	urw_unlock(&shelf);
	signals(&not_empty, r);
	return nr;
}

/* Returns how many it has taken. */
static int takes_one(unsigned *r)
{
	int nr;

	CHECK_IS(urw_read(&shelf, UNEVER), 0);
	nr = waits_rw(&not_empty, 0, false, r);
	maybe(r);
	urw_unlock(&shelf);
	if (nr == 0)
		return 0;
	CHECK_IS(urw_write(&shelf, UNEVER), 0);
	enters();
	nr = queued_nr > 0;
	queued_nr -= nr;
	consumed  += nr;
	leaves();
	urw_unlock(&shelf);
	signals(&not_full, r);
	return nr;
}

static void shelves(void *arg)
{
	unsigned r = seed_of(arg);
	int left = ROUNDS;

	while (left > 0)
		left -= (intptr_t)arg % 2 == 0 ? puts_one(&r) : takes_one(&r);
	add(&done, 1);
}

static void conditions_rw(int p)
{
	produced = consumed = late = 0;
	CHECK_IS(ucond_wait_rw(&not_full, &shelf, UNEVER), -EPERM);
	run(p, THREADS, shelves, "shelf ");
	CHECK(produced == consumed && produced == THREADS / 2 * ROUNDS &&
	      queued_nr == 0 && late > 0);
	CHECK(urw_busy(&shelf) == 0 && ucond_busy(&not_full) == 0 &&
	      ucond_busy(&not_empty) == 0);
}

/*
 * A signal lets exactly one through, a broadcast all that wait. They run only
 * when they can have the mutex, in order.
 */
static struct ucond cond;
static long waiting, through, order_in, order_out;

static void waits_once(void *arg)
{
	long mine;

	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	mine = order_in++;
	add(&waiting, 1);
	CHECK_IS(ucond_wait(&cond, &mutex, UNEVER), 0);
	CHECK_IS(order_out++, mine);
	CHECK_IS(add(&inside, 1), 1);
	through++;
	yield();
	CHECK_IS(add(&inside, -1), 0);
	umutex_unlock(&mutex);
	add(&done, 1);
}

static long through_now(void)
{
	long nr;

	CHECK_IS(u_sleep(uafter(1000)), 0);
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	nr = through;
	umutex_unlock(&mutex);
	return nr;
}

static void herds(void *arg)
{
	if (arg != NULL) {
		waits_once(arg);
		return;
	}
	while (get(&waiting) < THREADS - 1)
		CHECK_IS(u_sleep(uafter(10)), 0);
	CHECK_IS(through_now(), 0);
	ucond_signal(&cond);
	CHECK_IS(through_now(), 1);
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	ucond_signal(&cond);
	CHECK(mutex.mx_sync.y_first != NULL);	/* moved, and not woken */
	ucond_signal(&cond);
	CHECK_IS(through, 1);
	umutex_unlock(&mutex);
	CHECK_IS(through_now(), 3);
	ucond_broadcast(&cond);
	CHECK_IS(through_now(), THREADS - 1);
	ucond_broadcast(&cond);
	ucond_signal(&cond);
	add(&done, 1);
}

static void herd(int p)
{
	waiting = through = order_in = order_out = 0;
	run(p, THREADS, herds, "herd");
	CHECK_IS(ucond_busy(&cond), 0);
}

/* Semaphores. */

#define UNITS	3

static struct usem sem = USEM(UNITS);
static long units_out;

static void uses_units(void *arg)
{
	unsigned r = seed_of(arg);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = some_deadline(&r);

		if (!came(usem_wait(&sem, until), until))
			continue;
		CHECK_THAT(add(&units_out, 1), <=, UNITS);
		maybe(&r);
		add(&units_out, -1);
		CHECK_IS(usem_post(&sem), 0);
	}
	add(&done, 1);
}

static void semaphores(int p)
{
	int i;

	late = 0;
	run(p, THREADS, uses_units, "units");
	CHECK(late > 0 && usem_busy(&sem) == 0);
	for (i = 0; i < UNITS; i++)
		CHECK_IS(usem_wait(&sem, UNOW), 0);
	CHECK_IS(usem_wait(&sem, UNOW), -EAGAIN);
	for (i = 0; i < UNITS; i++)
		CHECK_IS(usem_post(&sem), 0);
}

/* Read-write locks. */

static struct urw rw;
static long reading, writing;

static void reads_and_writes(void *arg)
{
	unsigned r = seed_of(arg);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = some_deadline(&r);
		bool writes = drawn(&r, 3) == 0;

		if (!came(writes ? urw_write(&rw, until) :
			  urw_read(&rw, until), until))
			continue;
		CHECK(add(writes ? &writing : &reading, 1) == 1 || !writes);
		CHECK_IS(get(writes ? &reading : &writing), 0);
		if (writes)
			CHECK(urw_read(&rw, UNEVER) == -EDEADLK &&
			      urw_write(&rw, UNEVER) == -EDEADLK);
		maybe(&r);
		CHECK_IS(get(writes ? &reading : &writing), 0);
		add(writes ? &writing : &reading, -1);
		urw_unlock(&rw);
		maybe(&r);
	}
	add(&done, 1);
}

/* Neither side starves: some read all the time, others write all the time. */
static long phases_read, phases_written;

static void starves(void *arg)
{
	bool writes = (intptr_t)arg % 3 == 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		long before = get(writes ? &phases_written : &phases_read);
		long others = get(writes ? &phases_read : &phases_written);

		CHECK_IS(writes ? urw_write(&rw, UNEVER) :
			 urw_read(&rw, UNEVER), 0);
		/*
		 * A reader waits for two writers; a writer for all others. With
		 * more processors some may pass before the call has begun.
		 */
		if (!writes)
			CHECK(get(&phases_written) - others <= 2 ||
			      proc_nr > 1);
		else
			CHECK(get(&phases_written) - before <= THREADS ||
			      proc_nr > 1);
		add(writes ? &phases_written : &phases_read, 1);
		yield();
		urw_unlock(&rw);
	}
	add(&done, 1);
}

/* A writer that gives up lets the readers behind it go on. */
static void gives_up(void *arg)
{
	utime_ns until = uafter(1000);

	switch ((intptr_t)arg) {
	case 0:
		CHECK_IS(urw_read(&rw, UNEVER), 0);
		CHECK_IS(u_sleep(until), 0);
		CHECK_IS(get(&reading), 2);
		urw_unlock(&rw);
		break;
	case 1:
		CHECK_IS(u_sleep(until - 900), 0);
		CHECK_IS(urw_write(&rw, until - 500), -ETIMEDOUT);
		break;
	default:
		CHECK_IS(u_sleep(until - 800), 0);
		CHECK_IS(urw_read(&rw, UNOW), -EAGAIN);
		CHECK_IS(urw_read(&rw, until - 100), 0);
		CHECK_IS(unow(), until - 500);
		add(&reading, 1);
		CHECK_IS(u_sleep(until + 100), 0);
		urw_unlock(&rw);
	}
	add(&done, 1);
}

static void read_write(int p)
{
	late = reading = writing = 0;
	run(p, THREADS, reads_and_writes, "rw");
	CHECK(late > 0 && urw_busy(&rw) == 0);
	phases_read = phases_written = 0;
	run(p, THREADS, starves, "starves");
	reading = 0;
	run(p, 4, gives_up, "gives up");
	CHECK_IS(urw_busy(&rw), 0);
}

/* Groups, barriers, once. */

static struct ugroup group;
static struct ubarrier barrier = UBARRIER(THREADS);
static long arrived, serial;

static void meets(void *arg)
{
	unsigned r = seed_of(arg);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = some_deadline(&r);
		int rc;

		maybe(&r);
		add(&arrived, 1);
		while ((rc = ubarrier_wait(&barrier, until)) < 0) {
			(void)came(rc, until);
			add(&arrived, -1);
			maybe(&r);
			add(&arrived, 1);
			until = some_deadline(&r);
		}
		CHECK_THAT(get(&arrived), >=, (long)(i + 1) * THREADS);
		add(&serial, rc);
	}
	add(&done, 1);
}

static void barriers(int p)
{
	late = arrived = serial = 0;
	run(p, THREADS, meets, "barrier");
	CHECK(serial == ROUNDS && late > 0 && arrived == ROUNDS * THREADS);
	CHECK_IS(ubarrier_busy(&barrier), 0);
}

static void ends_a_piece(void *arg)
{
	unsigned r = seed_of(arg);

	maybe(&r);
	add(&arrived, 1);
	ugroup_done(&group);
	add(&done, 1);
}

static void waits_for_group(void *arg)
{
	unsigned r = seed_of(arg);
	utime_ns until;

	do
		until = some_deadline(&r);
	while (!came(ugroup_wait(&group, until), until));
	CHECK_IS(get(&arrived), THREADS);
	add(&done, 1);
}

static void pieces(void *arg)
{
	((intptr_t)arg < THREADS ? ends_a_piece : waits_for_group)(arg);
}

static void groups(int p)
{
	int i;

	for (i = 0; i < 10; i++) {
		arrived = late = 0;
		CHECK_IS(ugroup_add(&group, THREADS), 0);
		run(p, THREADS + 10, pieces, "group");
		CHECK_IS(ugroup_busy(&group), 0);
	}
}

static struct uonce once;
static long runs;

static int succeeds_at_last(void *arg)
{
	unsigned r = seed_of(arg);

	CHECK_IS(add(&inside, 1), 1);
	CHECK_IS(uonce(&once, succeeds_at_last, arg, UNEVER), -EDEADLK);
	yield();
	maybe(&r);
	CHECK_IS(add(&inside, -1), 0);
	return add(&runs, 1) < 5 ? -7 : 0;
}

static void does_once(void *arg)
{
	unsigned r = seed_of(arg);
	utime_ns until = some_deadline(&r);
	int rc;

	while ((rc = uonce(&once, succeeds_at_last, arg, until)) != 0) {
		if (rc != -7)
			(void)came(rc, until);
		until = some_deadline(&r);
		maybe(&r);
	}
	CHECK_IS(get(&runs), 5);
	add(&done, 1);
}

static void onces(int p)
{
	memset(&once, 0, sizeof once);
	runs = 0;
	run(p, THREADS, does_once, "once");
	CHECK_IS(runs, 5);
}

/* Memory. */

#define OBJECTS	120

union object {
	struct umutex   o_mutex;
	struct usem     o_sem;
	struct ugroup   o_group;
	struct ubarrier o_barrier;
	struct uonce    o_once;
	struct urw      o_rw;
	struct ucond    o_cond;
};

/* What goes with an object lies beside it. */
static struct {
	union object  s_object;
	struct umutex s_mutex;
	long          s_users;
	bool          s_set;
	bool          s_freed;
} shared[OBJECTS];

static void bury(int i)
{
	CHECK(!shared[i].s_freed);
	memset(&shared[i].s_object, POISON, sizeof shared[i].s_object);
	shared[i].s_freed = true;
}

/* Uses object i. The caller after whose call it can be freed frees it. */
static void use(int i, int who)
{
	union object *o = &shared[i].s_object;

	switch (i % 6) {
	case 0:			/* a lock around a count of users */
		CHECK_IS(umutex_lock(&o->o_mutex, UNEVER), 0);
		if (who == 1)
			yield();
		if (--shared[i].s_users > 0) {
			umutex_unlock(&o->o_mutex);
			break;
		}
		umutex_unlock(&o->o_mutex);
		bury(i);
		break;
	case 1:			/* the waiter frees */
		if (who == 2)
			CHECK_IS(usem_post(&o->o_sem), 0);
		else if (who == 0 && usem_wait(&o->o_sem, UNEVER) == 0)
			bury(i);
		break;
	case 2:
		if (who != 0)
			ugroup_done(&o->o_group);
		else if (ugroup_wait(&o->o_group, UNEVER) == 0)
			bury(i);
		break;
	case 3:			/* the last is the first to return */
		if (ubarrier_wait(&o->o_barrier, UNEVER) == 1)
			bury(i);
		break;
	case 4:
		CHECK_IS(urw_write(&o->o_rw, UNEVER), 0);
		yield();
		if (--shared[i].s_users > 0) {
			urw_unlock(&o->o_rw);
			break;
		}
		urw_unlock(&o->o_rw);
		bury(i);
		break;
	case 5:			/* freed by the broadcaster, as in POSIX */
		CHECK_IS(umutex_lock(&shared[i].s_mutex, UNEVER), 0);
		if (who == 2) {
			shared[i].s_set = true;
			ucond_broadcast(&o->o_cond);
			bury(i);
		} else if (!shared[i].s_set) {
			int rc = ucond_wait(&o->o_cond, &shared[i].s_mutex,
					    who == 1 ? uafter(i) : UNEVER);

			CHECK(rc == 0 || rc == -ETIMEDOUT);
			CHECK(rc != 0 || shared[i].s_set);
		}
		umutex_unlock(&shared[i].s_mutex);
		break;
	}
}

static void uses(void *arg)
{
	int who = (int)(intptr_t)arg;
	unsigned r = seed_of(arg);
	int i;

	for (i = 0; i < OBJECTS; i++) {
		if (who == 2)
			maybe(&r);
		use(i, who);
	}
	add(&done, 1);
}

/*
 * The deadline comes first, but the broadcaster runs before the waiter: when
 * the waiter runs, the condition is gone.
 */
static struct ucond gone;
static utime_ns gone_at;

static void late_or_frees(void *arg)
{
	if (arg == NULL) {
		gone_at = uafter(100);
		CHECK_IS(u_sleep(gone_at), 0);
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		ucond_broadcast(&gone);
		memset(&gone, POISON, sizeof gone);
	} else {
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		while (gone_at == 0)
			yield();
		CHECK_IS(ucond_wait(&gone, &mutex, gone_at), -ETIMEDOUT);
	}
	umutex_unlock(&mutex);
	add(&done, 1);
}

static void is_gone(void)
{
	const unsigned char *at = (unsigned char *)&gone;
	size_t i;

	memset(&gone, 0, sizeof gone);
	gone_at = 0;
	run(1, 2, late_or_frees, "gone");
	for (i = 0; i < sizeof gone; i++)
		CHECK_IS(at[i], POISON);
}

static void object_init(int i)
{
	union object *o = &shared[i].s_object;

	memset(&shared[i], 0, sizeof shared[i]);
	shared[i].s_users = 3;
	if (i % 6 == 2)
		CHECK_IS(ugroup_add(&o->o_group, 2), 0);
	if (i % 6 == 3)
		o->o_barrier = (struct ubarrier)UBARRIER(3);
}

static void memory(int p)
{
	size_t at;
	int i;

	for (i = 0; i < OBJECTS; i++)
		object_init(i);
	run(p, 3, uses, "memory");
	for (i = 0; i < OBJECTS; i++) {
		const unsigned char *o = (unsigned char *)&shared[i].s_object;

		CHECK(shared[i].s_freed);
		for (at = 0; at < sizeof(union object); at++)
			CHECK_IS(o[at], POISON);
	}
}

/* A mutex without an owner, owners, values, and a reader that reads again. */

static struct umutex any;
static struct urw again;
static struct usem some = USEM(3);
static long steps;

static void adopter(void *arg)
{
	CHECK(umutex_owner(&any) == NULL && umutex_lock(&any, UNOW) == -EAGAIN);
	CHECK(umutex_adopt(&any) == 0 && umutex_owner(&any) == usync_caller());
	CHECK_IS(umutex_adopt(&any), -EPERM);
	umutex_unlock(&any);
	CHECK_IS(umutex_adopt(&any), -EPERM);		/* it is free */
	CHECK_IS(urw_owner(&again), NULL);
	add(&steps, 1);
	CHECK_IS(urw_write(&again, UNEVER), 0);
	CHECK(urw_owner(&again) == usync_caller() && steps == 2);
	CHECK_IS(urw_read_again(&again, UNEVER), -EDEADLK);
	urw_unlock(&again);
}

static void adopted(void *arg)
{
	CHECK_IS(umutex_lock(&any, UNEVER), 0);
	CHECK_IS(umutex_owner(&any), usync_caller());
	umutex_disown(&any);
	CHECK_IS(urw_read(&again, UNEVER), 0);
	make(0, adopter, NULL);
	CHECK_IS(umutex_lock(&any, UNEVER), 0); /* waits for adopter() */
	umutex_unlock(&any);
	CHECK_IS(u_sleep(uafter(10)), 0);		/* the writer waits */
	CHECK(steps == 1 && urw_read(&again, UNOW) == -EAGAIN);
	CHECK_IS(urw_read_again(&again, uafter(10)), 0);
	urw_unlock(&again);
	CHECK_IS(urw_read_again(&again, UNOW), 0);	/* need not wait */
	urw_unlock(&again);
	CHECK_IS(u_sleep(uafter(10)), 0);
	add(&steps, 1);
	urw_unlock(&again);
	CHECK(usem_value(&some) == 3 && usem_wait(&some, UNOW) == 0);
	CHECK(usem_value(&some) == 2 && usem_post(&some) == 0);
}

static void owners(int p)
{
	doing("owners");
	steps = 0;
	one_thread(p, adopted, NULL);
	CHECK(steps == 2 && umutex_busy(&any) == 0 && urw_busy(&again) == 0);
}

int main(int argc, char **argv)
{
	int p, i;

	check_start(argc, argv);
	utime_virtual(0);
	for (i = 0; i < 2 || (i < 20 && check_time(3)); i++) {
		for (p = 1; p <= 3; p++) {
			mutexes(p);
			fair(p);
			conditions(p);
			conditions_rw(p);
			herd(p);
			semaphores(p);
			read_write(p);
			barriers(p);
			groups(p);
			onces(p);
			memory(p);
			owners(p);
		}
		is_gone();
	}
	return 0;
}
