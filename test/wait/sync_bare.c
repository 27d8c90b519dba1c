/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * sync_bare: objects to wait for work with bare call-backs and among native
 * threads, whichever allocation fails, and misuse is found.
 */

/*
 * A bare set of call-backs with two lines for waits runs threads that use all
 * objects, shared and local. The n-th s_alloc() fails, once or from then on,
 * for each n: a wait returns -ENOMEM and has changed nothing, and all else
 * succeeds. A condition wait that has begun ends with the mutex, however it
 * ends, while no allocation succeeds any more. At the end all is freed.
 */
#include "plain.h"
#include "usync.h"
#include <pthread.h>

#define THREADS	6
#define TRIPS	3
#define TRIES	2		/* failures in a row, then all works again */

static struct tiny t;
static int failures;			/* in a row */

/* Checks a result. True: for lack of memory, so try again. */
static bool failed(int rc)
{
	CHECK(rc == 0 || (rc == -ENOMEM && t.t_failed > 0));
	if (rc == 0) {
		failures = 0;
		return false;
	}
	if (++failures >= TRIES)
		t.t_fail = 0;
	return true;
}

/* Lets others run, if there is memory for it. */
static void yields(void)
{
	while (failed(tiny_try_yield()))
		;
}

/* What the threads do. */

static struct umutex   mutex;
static struct ucond    cond;
static struct usem     sem;
static struct urw      rw;
static struct ugroup   group;
static struct ubarrier barrier;
static struct uonce    once;
static int inside, tokens, reading, writing, came, runs;

static void init(bool local)
{
	mutex   = local ? (struct umutex)UMUTEX_LOCAL : (struct umutex){ 0 };
	cond    = local ? (struct ucond)UCOND_LOCAL : (struct ucond){ 0 };
	sem     = local ? (struct usem)USEM_LOCAL(2) : (struct usem)USEM(2);
	rw      = local ? (struct urw)URW_LOCAL : (struct urw){ 0 };
	group   = local ? (struct ugroup)UGROUP_LOCAL : (struct ugroup){ 0 };
	once    = local ? (struct uonce)UONCE_LOCAL : (struct uonce){ 0 };
	barrier = local ? (struct ubarrier)UBARRIER_LOCAL(THREADS) :
		(struct ubarrier)UBARRIER(THREADS);
	inside = tokens = reading = writing = came = runs = failures = 0;
}

static void use_mutex(void)
{
	while (failed(umutex_lock(&mutex, UNEVER)))
		;
	CHECK_IS(inside++, 0);
	yields();
	CHECK_IS(--inside, 0);
	umutex_unlock(&mutex);
}

/* Half of the threads give tokens, the others take them, some with a time. */
static void use_cond(int me)
{
	int rc;

	while (failed(umutex_lock(&mutex, UNEVER)))
		;
	CHECK_IS(inside++, 0);
	if (me % 2 == 0) {
		tokens++;
		ucond_signal(&cond);
	} else {
		while (tokens == 0) {
			inside--;
			rc = ucond_wait(&cond, &mutex, me % 4 == 1 ? UNEVER :
					uafter(10));
			CHECK_IS(inside++, 0);
			CHECK_IS(umutex_lock(&mutex, UNOW), -EDEADLK);
			if (rc != -ETIMEDOUT)
				(void)failed(rc);
		}
		tokens--;
	}
	yields();
	CHECK_IS(--inside, 0);
	umutex_unlock(&mutex);
}

static void use_others(int me, int trip)
{
	while (failed(usem_wait(&sem, UNEVER)))
		;
	yields();
	CHECK_IS(usem_post(&sem), 0);
	while (failed((me + trip) % 3 == 0 ? urw_write(&rw, UNEVER) :
		      urw_read(&rw, UNEVER)))
		;
	if ((me + trip) % 3 == 0)
		CHECK(writing++ == 0 && reading == 0);
	else
		CHECK(++reading > 0 && writing == 0);
	yields();
	if ((me + trip) % 3 == 0)
		writing--;
	else
		reading--;
	urw_unlock(&rw);
}

static int fails_twice(void *arg)
{
	yields();
	return ++runs < 3 ? -77 : 0;
}

static void meet(int trip)
{
	int rc;

	CHECK_IS(ugroup_add(&group, 1), 0);
	came++;
	while ((rc = ubarrier_wait(&barrier, UNEVER)) != 0 && rc != 1)
		(void)failed(rc);
	CHECK_THAT(came, >=, THREADS * (trip + 1));
	ugroup_done(&group);
	while (failed(ugroup_wait(&group, UNEVER)))
		;
	while ((rc = uonce(&once, fails_twice, NULL, UNEVER)) != 0) {
		if (rc != -77)
			(void)failed(rc);
	}
	CHECK_IS(runs, 3);
}

static void program(void *arg)
{
	int me = (int)(intptr_t)arg, trip;

	for (trip = 0; trip < TRIPS; trip++) {
		use_mutex();
		use_cond(me);
		use_others(me, trip);
		meet(trip);
	}
}

static void start(void (*f)(void *), void *arg)
{
	CHECK_IS(plain_make(&t.t_sched, f, arg), 0);
}

static void dispatcher(int lanes)
{
	CHECK_IS(plain_init(&t, lanes), 0);
}

static void end(void)
{
	tiny_run(&t);
	plain_fini(&t);
	CHECK(umutex_busy(&mutex) == 0 && ucond_busy(&cond) == 0 &&
	      usem_busy(&sem) == 0 && urw_busy(&rw) == 0 &&
	      ugroup_busy(&group) == 0 && ubarrier_busy(&barrier) == 0);
}

static void bare(int lanes, bool local)
{
	long nr, all;
	int i;

	for (all = 0; all < 2; all++) {
		for (nr = 0; nr == 0 || t.t_failed > 0; nr++) {
			doing("lanes %d local %d call %ld all %ld", lanes,
			      local, nr, all);
			dispatcher(lanes);
			init(local);
			t.t_fail = nr;
			t.t_fail_all = all;
			for (i = 0; i < THREADS; i++)
				start(program, (void *)(intptr_t)i);
			end();
			CHECK(tokens == 0 && runs == 3);
			if (nr == 0)
				t.t_failed = 1;
		}
		CHECK_THAT(nr, >, 20);
	}
}

/* No memory from here on. */

static int stage;

/* The caller has a buffer for blocks of this depth, so it can still yield. */
static NOINLINE void no_memory(void)
{
	volatile char space[2000];

	space[0] = space[sizeof space - 1] = 0;
	yields();
	t.t_fail = 1;
	t.t_fail_all = 1;
}

/* Holds the mutex when the deadline passes or the signal comes. */
static void holds(void *arg)
{
	bool signals = arg != NULL;
	int i;

	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	CHECK_IS(u_sleep(uafter(1)), 0);
	umutex_unlock(&mutex);
	while (stage == 0)
		yields();
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	no_memory();
	if (signals)
		ucond_signal(&cond);
	for (i = 0; i < 5; i++) {
		utime_jump(unow() + 50);
		tiny_yield();
	}
	CHECK_IS(stage, 1);
	umutex_unlock(&mutex);
	/* The waiter is woken, but the mutex is taken again: it loses once. */
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	tiny_yield();
	tiny_yield();
	CHECK(stage == 1 && t.t_fail == 1);
	umutex_unlock(&mutex);
}

static void waits(void *arg)
{
	bool signals = arg != NULL;

	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	stage = 1;
	CHECK_IS(ucond_wait(&cond, &mutex, signals ? UNEVER : uafter(100)),
		 signals ? 0 : -ETIMEDOUT);
	CHECK_IS(umutex_lock(&mutex, UNOW), -EDEADLK);
	stage = 2;
	t.t_fail = 0;
	umutex_unlock(&mutex);
}

static void locks_again(int lanes, bool local, bool signals)
{
	doing("no memory, lanes %d local %d signals %d", lanes, local,
	      signals);
	dispatcher(lanes);
	init(local);
	stage = 0;
	start(holds, signals ? &t : NULL);
	start(waits, signals ? &t : NULL);
	end();
	CHECK_IS(stage, 2);
}

/* A thread that is cancelled while it waits for a signal, as by a scope. */

static struct shell {
	struct uself  s_self;		/* first */
	struct uwait *s_wait;		/* the wait of the thread */
	bool          s_cancelled;	/* s_wait, and all later waits */
	int           s_waits;
} shell;

static int enters(struct uself *e, struct uwait *w)
{
	CHECK_IS(&shell.s_self, e);
	shell.s_waits++;
	shell.s_wait = w;
	return shell.s_cancelled ? -ECANCELED : 0;
}

static void leaves(struct uself *e, struct uwait *w)
{
	CHECK(e == &shell.s_self && w == shell.s_wait);
	shell.s_wait = NULL;
}

static void ends_it(struct uself *e, void *result)
{
	CHECK(e == &shell.s_self && result == NULL);
}

static const struct uself_ops shell_ops = {
	.eo_end = ends_it, .eo_enter = enters, .eo_leave = leaves
};

static void *is_cancelled(void *arg)
{
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	CHECK_IS(ucond_wait(&cond, &mutex, UNEVER), -ECANCELED);
	CHECK(umutex_lock(&mutex, UNOW) == -EDEADLK && inside == 0);
	umutex_unlock(&mutex);
	/* It must not wait any more. */
	CHECK(usem_wait(&sem, UNEVER) == 0 && usem_wait(&sem, UNEVER) == 0);
	CHECK_IS(usem_wait(&sem, UNEVER), -ECANCELED);
	CHECK(usem_post(&sem) == 0 && usem_post(&sem) == 0);
	return NULL;
}

static void cancels(void *arg)
{
	while (shell.s_wait == NULL)
		yields();
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	inside = 1;
	shell.s_cancelled = true;
	CHECK(uwait_claim(shell.s_wait));
	uwait_complete(shell.s_wait, -ECANCELED);
	yields();
	yields();
	inside = 0;
	umutex_unlock(&mutex);
}

static void cancellation(void)
{
	dispatcher(0);
	init(false);
	memset(&shell, 0, sizeof shell);
	shell.s_self.e_shell = (struct ushell){
		uwait_run, (void (*)(void *))(uintptr_t)is_cancelled, NULL
	};
	shell.s_self.e_ops = &shell_ops;
	start(ustack_shell, &shell);
	start(cancels, NULL);
	end();
	CHECK_IS(shell.s_waits, 2);
}

/* Native threads, in real time. */

#define NATIVES	4
#define ROUNDS	2000

static long got, late;

static void *native(void *arg)
{
	int me = (int)(intptr_t)arg, i, rc;

	for (i = 0; i < ROUNDS; i++) {
		utime_ns until = i % 3 == 0 || i % 100 == 99 ? UNEVER :
			uafter(i % 50 * UTIME_US);

		rc = umutex_lock(&mutex, until);
		CHECK(rc == 0 || rc == -ETIMEDOUT);
		if (rc != 0) {
			__atomic_fetch_add(&late, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		CHECK_IS(umutex_lock(&mutex, UNEVER), -EDEADLK);
		CHECK_IS(inside++, 0);
		got++;
		tokens++;
		ucond_signal(&cond);
		while (tokens <= 0 || (i % 7 == 0 && rc == 0)) {
			inside--;
			rc = ucond_wait(&cond, &mutex, uafter(20 * UTIME_US));
			CHECK(rc == 0 || rc == -ETIMEDOUT);
			CHECK_IS(inside++, 0);
			rc = 1;
		}
		tokens--;
		CHECK_IS(--inside, 0);
		umutex_unlock(&mutex);
		CHECK_IS(usem_wait(&sem, UNEVER), 0);
		CHECK_IS(usem_post(&sem), 0);
		CHECK_IS(i % 5 == 0 ? urw_write(&rw, UNEVER) :
			 urw_read(&rw, UNEVER), 0);
		urw_unlock(&rw);
		if (i % 100 == 99) {
			while ((rc = ubarrier_wait(&barrier, uafter(UTIME_US *
					(me + 1) * 100))) == -ETIMEDOUT)
				;
			CHECK(rc == 0 || rc == 1);
		}
	}
	ugroup_done(&group);
	return NULL;
}

static void natives(void)
{
	pthread_t id[NATIVES];
	intptr_t i;

	init(false);
	barrier = (struct ubarrier)UBARRIER(NATIVES);
	CHECK_IS(ugroup_add(&group, NATIVES), 0);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_create(&id[i], NULL, native, (void *)i), 0);
	CHECK_IS(ugroup_wait(&group, UNEVER), 0);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK(got + late == NATIVES * ROUNDS && tokens == 0);
	CHECK(umutex_busy(&mutex) == 0 && ucond_busy(&cond) == 0 &&
	      usem_busy(&sem) == 0 && urw_busy(&rw) == 0 &&
	      ubarrier_busy(&barrier) == 0);
}

/*
 * A fork while native threads use the locks of rings: the child's objects have
 * the same locks.
 */
#define FORKS	500
#define OBJECTS	600

static long stop;

static void *contends(void *arg)
{
	while (__atomic_load_n(&stop, __ATOMIC_SEQ_CST) == 0) {
		CHECK_IS(usem_wait(&sem, UNEVER), 0);
		CHECK_IS(usem_post(&sem), 0);
	}
	return arg;
}

static void forks(void)
{
	static struct ugroup groups[OBJECTS];
	pthread_t id[NATIVES];
	int i, j, status;

	init(false);
	sem = (struct usem)USEM(1);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_create(&id[i], NULL, contends, NULL), 0);
	for (i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		CHECK_THAT(pid, >=, 0);
		if (pid == 0) {
			alarm(10);
			for (j = 0; j < OBJECTS; j++)
				CHECK(ugroup_add(&groups[j], 1) == 0 &&
				      ugroup_wait(&groups[j], 1) ==
				      -ETIMEDOUT);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < NATIVES; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
}

/* Misuse. */

static void unlock_free(void)
{
	umutex_unlock(&mutex);
}

static void *holds_for_ever(void *arg)
{
	CHECK(umutex_lock(&mutex, UNEVER) == 0 && urw_write(&rw, UNEVER) == 0);
	return NULL;
}

static void by_another(void)
{
	pthread_t id;

	CHECK_IS(pthread_create(&id, NULL, holds_for_ever, NULL), 0);
	CHECK_IS(pthread_join(id, NULL), 0);
}

static void unlock_stranger(void)
{
	by_another();
	umutex_unlock(&mutex);
}

static void rw_unlock_stranger(void)
{
	by_another();
	urw_unlock(&rw);
}

static void rw_unlock_free(void)
{
	CHECK_IS(urw_read(&rw, UNEVER), 0);
	urw_unlock(&rw);
	urw_unlock(&rw);
}

static void done_too_often(void)
{
	ugroup_done(&group);
}

#if defined(USCHED_HARD)
static void lock_local(void)
{
	struct umutex m = UMUTEX_LOCAL;

	(void)!umutex_lock(&m, UNEVER);	/* a native thread is no processor */
}
#endif

static int misuse(void)
{
	init(false);
	return
#if defined(USCHED_HARD)
		check_dies("local", lock_local, "local to a processor") +
#endif
		check_dies("unlock", unlock_free, "umutex_unlock: ") +
		check_dies("stranger", unlock_stranger, "umutex_unlock: ") +
		check_dies("rw stranger", rw_unlock_stranger,
			   "urw_unlock: the caller") +
		check_dies("rw", rw_unlock_free, "urw_unlock: the lock") +
		check_dies("done", done_too_often, "ugroup_done: ");
}

static int never(void *arg)
{
	return -1;
}

static void errors(void)
{
	struct ubarrier none = { .br_nr = 0 };
	struct usem full = USEM(USYNC_MOST);

	init(false);
	CHECK_IS(ubarrier_wait(&none, UNEVER), -EINVAL);
	CHECK_IS(ubarrier_wait(&barrier, UNOW), -EAGAIN);
	CHECK_IS(ubarrier_wait(&barrier, -1), -EINVAL);
	CHECK_IS(ugroup_add(&group, -1), -EINVAL);
	CHECK_IS(ugroup_add(&group, USYNC_MOST), 0);
	CHECK_IS(ugroup_add(&group, 1), -EOVERFLOW);
	CHECK_IS(ugroup_wait(&group, UNOW), -EAGAIN);
	CHECK_IS(ugroup_busy(&group), -EBUSY);
	CHECK_IS(usem_post(&full), -EOVERFLOW);
	CHECK(usem_wait(&full, UNOW) == 0 && usem_post(&full) == 0);
	CHECK_IS(ucond_wait(&cond, &mutex, UNEVER), -EPERM);
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	CHECK_IS(ucond_wait(&cond, &mutex, UNOW), -EAGAIN);
	CHECK_IS(ucond_wait(&cond, &mutex, -1), -EINVAL);
	CHECK_IS(umutex_lock(&mutex, UNOW), -EDEADLK);
	CHECK_IS(umutex_busy(&mutex), -EBUSY);
	umutex_unlock(&mutex);
	CHECK(urw_write(&rw, UNOW) == 0 && urw_read(&rw, UNOW) == -EDEADLK);
	CHECK(urw_write(&rw, UNOW) == -EDEADLK && urw_busy(&rw) == -EBUSY);
	urw_unlock(&rw);
	CHECK(urw_read(&rw, UNOW) == 0 && urw_read(&rw, UNOW) == 0);
	CHECK(urw_write(&rw, UNOW) == -EAGAIN && urw_write(&rw, -1) == -EINVAL);
	urw_unlock(&rw);
	urw_unlock(&rw);
	CHECK_IS(uonce(&once, never, NULL, UNEVER), -1);
}

int main(int argc, char **argv)
{
	int lanes, local;

	check_start(argc, argv);
	errors();
	if (misuse() != 0)
		return 1;
	natives();
	forks();
	utime_virtual(0);
	cancellation();
	for (lanes = 0; lanes < 5; lanes += 2) {
		if (lanes > 0 && !tiny_has_lanes())
			break;
		for (local = 0; local < 2; local++) {
			bare(lanes, local);
			locks_again(lanes, local, false);
			locks_again(lanes, local, true);
		}
	}
	return 0;
}
