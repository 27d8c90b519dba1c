/* SPDX-License-Identifier: MIT */
/* pthread: code for pthreads, with no line changed, does what POSIX says. */
/* VARIANTS: RR LL WS */
/* LIBS: -Wl,--wrap=main -Wl,--wrap=uthread_detach */

/*
 * Names are those of usched/pthreads.h, so main() is a thread. What others touch
 * is static, since stacks may move. f_...() run in threads; try_...() each try
 * a kind of object. Native threads, which ucall() makes, use the same objects.
 * Nothing is written to stderr.
 */
#include "usched/pthreads.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <time.h>
#include "ucall.h"
#include "uthread.h"

#if defined(LL)
#define SCHEDULER "ll"
#elif defined(WS)
#define SCHEDULER "ws"
#else
#define SCHEDULER "rr"
#endif

/*
 * Before main() becomes a thread. Half of the runs have two processors. A
 * portable build has no private stacks, and says so in place of main().
 */
__attribute__((constructor)) static void choose(void)
{
#if defined(USCHED_PORTABLE)
	int status;
	pid_t pid = fork();

	if (pid == 0)
		return;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 125);
	exit(0);
#endif
	(void)setenv("USCHED", getpid() % 2 ? SCHEDULER ":2" : SCHEDULER ":1",
		     0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw  = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t  once = PTHREAD_ONCE_INIT;
#if defined(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
static pthread_mutex_t again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t check = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
#endif
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_key_t key;
static sem_t sem;
static struct timespec at;
static char said[64];			/* by clean-up and destructors */
static int stage, count;

static int  get(int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void set(int *p, int to) { __atomic_store_n(p, to, __ATOMIC_RELEASE); }

/* Compilers keep the address of errno, and threads of ws move. */
static NOINLINE int is_errno(int error)
{
	return errno == error;
}

static void until(int *p, int is)
{
	while (get(p) != is)
		CHECK_IS(usleep(100), 0);
}

static struct timespec *after(clockid_t clock, long ms)
{
	CHECK_IS(clock_gettime(clock, &at), 0);
	at.tv_nsec += ms * 1000000;
	while (at.tv_nsec >= 1000000000)
		at.tv_sec++, at.tv_nsec -= 1000000000;
	return &at;
}

static pthread_t start(void *(*f)(void *), void *arg)
{
	pthread_t t;

	CHECK_IS(pthread_create(&t, NULL, f, arg), 0);
	return t;
}

/* Joins t, and returns its result, which then lies in static memory. */
static void *end(pthread_t t)
{
	static void *result;

	result = &result;
	CHECK_IS(pthread_join(t, &result), 0);
	return result;
}

static void say(void *what)
{
	strcat(said, what);
}

/* Threads. */

static void *f_same(void *arg)
{
	return arg;
}

/* Messages name the caller as f(arg). */
static bool is_named(void *(*f)(void *), void *arg)
{
	const struct ustack *u = ustack_self();

	return ustack_f(u->u_f, u->u_arg) ==
		(void (*)(void *))(void (*)(void))f &&
		ustack_arg(u->u_f, u->u_arg) == arg;
}

static pthread_t me;

static void *f_self(void *arg)
{
	CHECK(is_named(f_self, arg));
	CHECK_IS(pthread_join(pthread_self(), NULL), EDEADLK);
	CHECK(pthread_equal(me, pthread_self()));
	return arg;
}

static void *f_until(void *arg)
{
	until(&stage, (int)(intptr_t)arg);
	return arg;
}

static void *f_detach(void *arg)
{
	CHECK_IS(pthread_detach(pthread_self()), 0);
	CHECK_IS(pthread_detach(pthread_self()), EINVAL);
	set(&stage, 1);
	return arg;
}

static void try_threads(void)
{
	static pthread_attr_t a;
	static char name[16];
	pthread_t t;

	CHECK_IS(end(start(f_same, &count)), &count);
	CHECK_IS(pthread_create(&me, NULL, f_self, NULL), 0);
	CHECK_IS(end(me), NULL);
	CHECK(pthread_join(me, NULL) == ESRCH && pthread_detach(me) == ESRCH);
	CHECK(pthread_cancel(me) == ESRCH && pthread_kill(me, 0) == ESRCH);

	set(&stage, 0);
	t = start(f_until, (void *)1);
	CHECK_IS(pthread_tryjoin_np(t, NULL), EBUSY);
	CHECK_IS(pthread_timedjoin_np(t, NULL, after(CLOCK_REALTIME, 5)),
		 ETIMEDOUT);
	CHECK_IS(pthread_setname_np(t, "sixteen-bytes-12"), ERANGE);
	CHECK_IS(pthread_setname_np(t, "waits"), 0);
	CHECK_IS(pthread_getname_np(t, name, sizeof name), 0);
	CHECK_STR(name, "waits");
	CHECK(pthread_kill(t, 0) == 0 && pthread_kill(t, -1) == EINVAL);
	set(&stage, 1);
	CHECK_IS(end(t), (void *)1);

	set(&stage, 0);
	(void)start(f_detach, NULL);
	until(&stage, 1);
	CHECK(pthread_attr_init(&a) == 0 && pthread_attr_setdetachstate(&a,
			PTHREAD_CREATE_DETACHED) == 0);
	set(&stage, 0);
	CHECK_IS(pthread_create(&t, &a, f_until, (void *)2), 0);
	CHECK(pthread_join(t, NULL) == EINVAL && pthread_detach(t) == EINVAL);
	set(&stage, 2);
	while (pthread_kill(t, 0) == 0)
		CHECK_IS(sched_yield(), 0);
}

/* Each thread that is detached detaches its handle once, whenever it ends. */

static int detached;

/* At this point, where pthread_detach() holds no lock, the thread may end. */
WRAP(int, uthread_detach, struct uthread *t)
{
	if (uthread_self() != t)
		CHECK_IS(usleep(2000), 0);
	CHECK_IS(__real_uthread_detach(t), 0);
	__atomic_add_fetch(&detached, 1, __ATOMIC_RELEASE);
	return 0;
}

static void *f_ends(void *arg)
{
	set(&stage, 1);
	return arg;
}

static void try_detach(void)
{
	pthread_attr_t a;
	pthread_t t;
	int i;

	until(&detached, 2);			/* of try_threads() */
	set(&detached, 0);
	for (i = 0; i < 32; i++)		/* it has not begun, mostly */
		CHECK_IS(pthread_detach(start(f_same, NULL)), 0);
	until(&detached, 32);
	set(&stage, 0);
	t = start(f_until, (void *)3);		/* it waits */
	CHECK(usleep(2000) == 0 && pthread_detach(t) == 0);
	CHECK(pthread_detach(t) == EINVAL && pthread_join(t, NULL) == EINVAL);
	set(&stage, 3);
	until(&detached, 33);
	set(&stage, 0);
	t = start(f_ends, NULL);		/* it has ended, mostly */
	until(&stage, 1);
	CHECK(usleep(2000) == 0 && pthread_detach(t) == 0);
	until(&detached, 34);
	(void)start(f_detach, NULL);
	until(&detached, 35);
	CHECK(pthread_attr_init(&a) == 0 && pthread_attr_setdetachstate(&a,
			PTHREAD_CREATE_DETACHED) == 0);
	CHECK_IS(pthread_create(&t, &a, f_same, NULL), 0);
	until(&detached, 36);
	CHECK(usleep(2000) == 0 && get(&detached) == 36);
}

/* The end by pthread_exit(), and by a cancellation. */

static void f_deep(int depth, void *result)
{
	if (result == NULL)
		return;
	if (depth == 0)
		pthread_exit(result);
	f_deep(depth - 1, result);
	count++;			/* no tail call */
}

static void *f_exit(void *arg)
{
	CHECK_IS(pthread_setspecific(key, "k"), 0);
	pthread_cleanup_push(say, "1");
	pthread_cleanup_push(say, "2");
	pthread_cleanup_push(say, "3");
	pthread_cleanup_pop(1);
	f_deep(20, arg);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Waits in the way that is told, which is a cancellation point. */
static void f_point(int which)
{
	static const struct timespec minute = { 60, 0 };

	switch (which) {
	case 0:
		pthread_mutex_lock(&lock);
		for (;;)
			pthread_cond_wait(&cond, &lock);
	case 1:
		(void)sem_wait(&sem);
		break;
	case 2:
		(void)sleep(60);
		break;
	case 3:
		(void)nanosleep(&minute, NULL);
		break;
	case 4:
		(void)pthread_join(start(f_until, (void *)77), NULL);
		break;
	case 5:
		for (;;) {
			pthread_testcancel();
			CHECK_IS(sched_yield(), 0);
		}
	case 6:
		(void)sem_timedwait(&sem, after(CLOCK_REALTIME, 60000));
		break;
	case 7:
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL);
	}
}

enum { POINTS = 8 };

static void release(void *arg)
{
	say("r");
	if (arg == NULL)		/* a condition: the mutex is locked again */
		CHECK_IS(pthread_mutex_unlock(&lock), 0);
}

static void *f_canceled(void *arg)
{
	int which = (int)(intptr_t)arg;

	CHECK_IS(pthread_setspecific(key, "k"), 0);
	pthread_cleanup_push(release, arg);
	set(&stage, 1);
	f_point(which);
	CHECK(!"the cancellation has come");
	pthread_cleanup_pop(0);
	return NULL;
}

/* No cancellation comes in here. */
static void *f_not_canceled(void *arg)
{
	int was = -1;

	CHECK_IS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was), 0);
	CHECK_IS(was, PTHREAD_CANCEL_ENABLE);
	CHECK_IS(pthread_setcancelstate(77, &was), EINVAL);
	set(&stage, 1);
	until(&stage, 2);
	pthread_testcancel();
	CHECK(usleep(1) == 0 && sem_wait(&sem) == 0);
	say("n");
	CHECK_IS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	CHECK_IS(pthread_mutex_lock(&lock), 0);	/* waits, and is no point */
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	say("m");
	CHECK_IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &was), 0);
	CHECK(!"the cancellation has come");
	return arg;
}

static void *f_cancels_itself(void *arg)
{
	CHECK_IS(pthread_cancel(pthread_self()), 0);
	say("c");
	pthread_testcancel();
	return arg;
}

static void try_ends(void)
{
	pthread_t t;
	int i;

	CHECK_IS(pthread_key_create(&key, say), 0);
	said[0] = 0;
	CHECK_IS(end(start(f_exit, &count)), &count);
	CHECK_STR(said, "321k");
	for (i = 0; i < 2 * POINTS; i++) {
		said[0] = 0;
		set(&stage, 0);
		t = start(f_canceled, (void *)(intptr_t)(i % POINTS));
		if (i < POINTS)			/* it waits, mostly */
			until(&stage, 1);
		CHECK_IS(usleep(i < POINTS ? 2000 : 0), 0);
		CHECK_IS(pthread_cancel(t), 0);
		CHECK_IS(end(t), PTHREAD_CANCELED);
		CHECK(get(&stage) == 0 || strcmp(said, "rk") == 0);
	}
	CHECK_IS(pthread_mutex_trylock(&lock), 0);
	said[0] = 0;
	set(&stage, 0);
	t = start(f_not_canceled, NULL);
	until(&stage, 1);
	CHECK(pthread_cancel(t) == 0 && sem_post(&sem) == 0);
	set(&stage, 2);
	CHECK_IS(usleep(2000), 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	CHECK(end(t) == PTHREAD_CANCELED && strcmp(said, "nm") == 0);
	said[0] = 0;
	CHECK_IS(end(start(f_cancels_itself, NULL)), PTHREAD_CANCELED);
	CHECK_STR(said, "c");
	CHECK(pthread_key_delete(key) == 0 && pthread_key_delete(key) == EINVAL);
	CHECK_IS(pthread_setspecific(key, "k"), EINVAL);
	set(&stage, 77);			/* those of case 4 */
}

/* Mutexes. */

static void *f_unlock(void *mutex)
{
	return (void *)(intptr_t)pthread_mutex_unlock(mutex);
}

static void *f_try(void *mutex)
{
	int rc = pthread_mutex_trylock(mutex);

	return (void *)(intptr_t)(rc != 0 ? rc : pthread_mutex_unlock(mutex));
}

static int other(void *(*f)(void *), void *arg)
{
	return (int)(intptr_t)end(start(f, arg));
}

static void *f_count(void *arg)
{
	int i, was;

	for (i = 0; i < 300; i++) {
		CHECK_IS(pthread_mutex_lock(arg), 0);
		was = count;
		if (i % 16 == 0)
			CHECK_IS(sched_yield(), 0);
		count = was + 1;
		CHECK_IS(pthread_mutex_unlock(arg), 0);
	}
	return NULL;
}

static void try_recursive(pthread_mutex_t *m)
{
	int i;

	for (i = 0; i < 3; i++)
		CHECK_IS(pthread_mutex_lock(m), 0);
	CHECK_IS(pthread_mutex_trylock(m), 0);
	CHECK(other(f_try, m) == EBUSY && other(f_unlock, m) == EPERM);
	for (i = 0; i < 4; i++)
		CHECK_IS(pthread_mutex_unlock(m), 0);
	CHECK_IS(pthread_mutex_unlock(m), EPERM);
	CHECK_IS(other(f_try, m), 0);
}

static void try_check(pthread_mutex_t *m)
{
	CHECK_IS(pthread_mutex_lock(m), 0);
	CHECK_IS(pthread_mutex_lock(m), EDEADLK);
	CHECK_IS(pthread_mutex_trylock(m), EBUSY);
	CHECK_IS(other(f_unlock, m), EPERM);
	CHECK(pthread_mutex_unlock(m) == 0 && pthread_mutex_unlock(m) == EPERM);
}

static pthread_mutex_t *mutex(int type)
{
	static pthread_mutexattr_t a;
	pthread_mutex_t *m = malloc(sizeof *m);

	CHECK(m != NULL && pthread_mutexattr_init(&a) == 0);
	memset(m, 0x5a, sizeof *m);
	CHECK_IS(pthread_mutexattr_settype(&a, type), 0);
	CHECK_IS(pthread_mutex_init(m, &a), 0);
	return m;
}

static void mutex_free(pthread_mutex_t *m)
{
	CHECK(pthread_mutex_destroy(m) == 0 && pthread_mutex_lock(m) == EINVAL);
	CHECK_IS(pthread_mutex_destroy(m), EINVAL);
	free(m);
}

static void *f_relock(void *m)
{
	CHECK_IS(pthread_mutex_lock(m), 0);
	set(&stage, 1);
	CHECK_IS(pthread_mutex_lock(m), 0);	/* until another unlocks */
	set(&stage, 2);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	return NULL;
}

static void try_mutexes(void)
{
	static const struct timespec bad = { 0, 1000000000 };
	static pthread_t t[8];
	static pthread_mutexattr_t a;
	pthread_mutex_t *m;
	int i;

	CHECK_IS(pthread_mutex_lock(&lock), 0);
	CHECK_IS(pthread_mutex_trylock(&lock), EBUSY);
	CHECK_IS(pthread_mutex_destroy(&lock), EBUSY);
	CHECK_IS(pthread_mutex_timedlock(&lock, after(CLOCK_REALTIME, 3)),
		 ETIMEDOUT);
	CHECK_IS(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC,
		 after(CLOCK_MONOTONIC, 3)), ETIMEDOUT);
	CHECK_IS(pthread_mutex_timedlock(&lock, &bad), EINVAL);
	CHECK_IS(other(f_unlock, &lock), 0);	/* any thread */
	CHECK_IS(pthread_mutex_unlock(&lock), EPERM);
	CHECK_IS(pthread_mutex_timedlock(&lock, &bad), 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);

	m = mutex(PTHREAD_MUTEX_NORMAL);
	set(&stage, 0);
	t[0] = start(f_relock, m);
	until(&stage, 1);
	CHECK(usleep(2000) == 0 && get(&stage) == 1);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	CHECK_IS(end(t[0]), NULL);
	mutex_free(m);
	m = mutex(PTHREAD_MUTEX_RECURSIVE);
	try_recursive(m);
	mutex_free(m);
	m = mutex(PTHREAD_MUTEX_ERRORCHECK);
	try_check(m);
	mutex_free(m);
#if defined(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
	try_recursive(&again);
	try_check(&check);
#endif
	count = 0;
	for (i = 0; i < 8; i++)
		t[i] = start(f_count, &lock);
	for (i = 0; i < 8; i++)
		CHECK_IS(end(t[i]), NULL);
	CHECK_IS(count, 2400);

	m = malloc(sizeof *m);
	CHECK(m != NULL && pthread_mutexattr_init(&a) == 0);
	CHECK_IS(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED), 0);
	CHECK_IS(pthread_mutex_init(m, &a), ENOTSUP);
	CHECK_IS(pthread_mutexattr_init(&a), 0);
	CHECK_IS(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST), 0);
	CHECK_IS(pthread_mutex_init(m, &a), ENOTSUP);
	free(m);
}

/* Conditions. */

static void *f_wait(void *m)
{
	CHECK_IS(pthread_mutex_lock(m), 0);
	CHECK_IS(pthread_mutex_lock(m), 0);	/* m is recursive */
	set(&stage, get(&stage) + 1);
	while (count == 0)
		CHECK_IS(pthread_cond_wait(&cond, m), 0);
	count--;
	CHECK_IS(pthread_mutex_unlock(m), 0);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	CHECK_IS(pthread_mutex_unlock(m), EPERM);
	return NULL;
}

static void try_conditions(void)
{
	static pthread_condattr_t a;
	static pthread_cond_t mono;
	static pthread_t t[8];
	pthread_mutex_t *m = mutex(PTHREAD_MUTEX_RECURSIVE);
	int i;

	count = 0;
	set(&stage, 0);
	for (i = 0; i < 8; i++)
		t[i] = start(f_wait, m);
	until(&stage, 8);
	CHECK_IS(pthread_mutex_lock(m), 0);
	count = 1;
	CHECK_IS(pthread_cond_signal(&cond), 0);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	CHECK_IS(pthread_mutex_lock(m), 0);
	count += 7;
	CHECK_IS(pthread_cond_broadcast(&cond), 0);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	for (i = 0; i < 8; i++)
		CHECK_IS(end(t[i]), NULL);
	CHECK_IS(count, 0);

	CHECK_IS(pthread_cond_wait(&cond, m), EPERM);
	CHECK_IS(pthread_mutex_lock(m), 0);
	CHECK_IS(pthread_cond_timedwait(&cond, m, after(CLOCK_REALTIME, 3)),
		 ETIMEDOUT);
	CHECK_IS(pthread_cond_clockwait(&cond, m, CLOCK_MONOTONIC,
		 after(CLOCK_MONOTONIC, 3)), ETIMEDOUT);
	CHECK_IS(pthread_condattr_init(&a), 0);
	CHECK_IS(pthread_condattr_setclock(&a, CLOCK_MONOTONIC), 0);
	CHECK_IS(pthread_cond_init(&mono, &a), 0);
	/* By the other clock this would be past, or in decades. */
	CHECK_IS(pthread_cond_timedwait(&mono, m, after(CLOCK_MONOTONIC, 3)),
		 ETIMEDOUT);
	CHECK_IS(pthread_cond_destroy(&mono), 0);
	CHECK_IS(pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED), 0);
	CHECK_IS(pthread_cond_init(&mono, &a), ENOTSUP);
	CHECK_IS(pthread_mutex_unlock(m), 0);
	mutex_free(m);
}

/* Read-write locks. */

static void *f_write(void *arg)
{
	set(&stage, 1);
	CHECK_IS(pthread_rwlock_wrlock(&rw), 0);
	CHECK_IS(get(&stage), 3);
	CHECK_IS(pthread_rwlock_rdlock(&rw), EDEADLK);
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	return arg;
}

static void *f_read(void *arg)
{
	int rc = pthread_rwlock_timedrdlock(&rw, after(CLOCK_REALTIME, 3));

	return arg != NULL ? NULL : (void *)(intptr_t)rc;
}

static void *f_rw_unlock(void *arg)
{
	return (void *)(intptr_t)pthread_rwlock_unlock(&rw);
}

static void try_rwlocks(void)
{
	pthread_t t;

	CHECK_IS(pthread_rwlock_rdlock(&rw), 0);
	CHECK_IS(pthread_rwlock_tryrdlock(&rw), 0);
	CHECK_IS(pthread_rwlock_trywrlock(&rw), EBUSY);
	CHECK_IS(pthread_rwlock_timedwrlock(&rw, after(CLOCK_REALTIME, 3)),
		 ETIMEDOUT);
	set(&stage, 0);
	t = start(f_write, NULL);
	until(&stage, 1);
	CHECK_IS(usleep(2000), 0);
	CHECK_IS(pthread_rwlock_rdlock(&rw), 0);	/* a writer waits */
	CHECK_IS(other(f_read, NULL), ETIMEDOUT);
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	set(&stage, 3);
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	CHECK_IS(end(t), NULL);
	CHECK_IS(pthread_rwlock_unlock(&rw), EPERM);
	CHECK_IS(pthread_rwlock_trywrlock(&rw), 0);
	CHECK_IS(pthread_rwlock_wrlock(&rw), EDEADLK);
	CHECK_IS(other(f_rw_unlock, NULL), EPERM);
	CHECK_IS(pthread_rwlock_destroy(&rw), EBUSY);
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	CHECK_IS(pthread_rwlock_destroy(&rw), 0);
}

/* Once. */

static void slowly(void)
{
	if (get(&stage) == 0) {
		set(&stage, 1);
		(void)sleep(60);
	}
	CHECK_IS(usleep(2000), 0);
	count++;
}

static void *f_once(void *arg)
{
	CHECK_IS(pthread_once(&once, slowly), 0);
	CHECK_IS(count, 1);
	return arg;
}

static void try_once(void)
{
	static pthread_t t[8];
	int i;

	count = 0;
	set(&stage, 0);
	t[0] = start(f_once, NULL);
	until(&stage, 1);
	CHECK_IS(pthread_cancel(t[0]), 0);	/* so the next does it */
	CHECK(end(t[0]) == PTHREAD_CANCELED && count == 0);
	for (i = 0; i < 8; i++)
		t[i] = start(f_once, NULL);
	for (i = 0; i < 8; i++)
		CHECK_IS(end(t[i]), NULL);
	CHECK_IS(count, 1);
}

/* Semaphores. */

static void *f_post(void *s)
{
	CHECK_IS(usleep(2000), 0);
	return (void *)(intptr_t)sem_post(s);
}

static void try_semaphore(sem_t *s)
{
	static int value;
	pthread_t t;

	CHECK(sem_getvalue(s, &value) == 0 && value == 1);
	CHECK_IS(sem_wait(s), 0);
	CHECK(sem_trywait(s) == -1 && is_errno(EAGAIN));
	CHECK(sem_timedwait(s, after(CLOCK_REALTIME, 3)) == -1 &&
	      is_errno(ETIMEDOUT));
	t = start(f_post, s);
	CHECK_IS(sem_wait(s), 0);
	CHECK_IS(end(t), NULL);
}

static void try_semaphores(void)
{
	static char name[32];
	sem_t *s;

	CHECK_IS(sem_init(&sem, 0, 1), 0);
	try_semaphore(&sem);
	CHECK_IS(sem_destroy(&sem), 0);
	CHECK(sem_init(&sem, 1, 1) == -1 && is_errno(ENOTSUP));
	CHECK(sem_init(&sem, 0, 0xffffffffu) == -1 && is_errno(EINVAL));
	(void)snprintf(name, sizeof name, "/s_pthread-%d", (int)getpid());
	s = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
	if (s == SEM_FAILED)
		return;				/* no /dev/shm */
	CHECK_IS(sem_unlink(name), 0);
	try_semaphore(s);
	CHECK_IS(sem_close(s), 0);
	CHECK(sem_close(&sem) == -1 && is_errno(EINVAL));
}

/* Barriers, spin locks. */

static void *f_meet(void *arg)
{
	int rc = pthread_barrier_wait(&barrier);

	CHECK(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
	__atomic_add_fetch(&count, rc != 0, __ATOMIC_RELAXED);
	return arg;
}

static void *f_spin(void *arg)
{
	int i, was;

	for (i = 0; i < 100; i++) {
		CHECK_IS(pthread_spin_lock(&spin), 0);
		was = count;
		CHECK_IS(sched_yield(), 0);
		count = was + 1;
		CHECK_IS(pthread_spin_unlock(&spin), 0);
	}
	return arg;
}

static void try_others(void)
{
	static pthread_t t[8];
	int i;

	CHECK_IS(pthread_barrier_init(&barrier, NULL, 0), EINVAL);
	CHECK_IS(pthread_barrier_init(&barrier, NULL, 4), 0);
	count = 0;
	for (i = 0; i < 8; i++)
		t[i] = start(f_meet, NULL);
	for (i = 0; i < 8; i++)
		CHECK_IS(end(t[i]), NULL);
	CHECK(count == 2 && pthread_barrier_destroy(&barrier) == 0);
	CHECK_IS(pthread_spin_init(&spin, PTHREAD_PROCESS_SHARED), ENOTSUP);
	CHECK_IS(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	count = 0;
	for (i = 0; i < 8; i++)
		t[i] = start(f_spin, NULL);
	for (i = 0; i < 8; i++)
		CHECK_IS(end(t[i]), NULL);
	CHECK(count == 800 && pthread_spin_trylock(&spin) == 0);
	CHECK_IS(pthread_spin_trylock(&spin), EBUSY);
	CHECK(pthread_spin_unlock(&spin) == 0 && pthread_spin_destroy(&spin) == 0);
}

/* Loops that poll, each for what another thread does later. */

static bool polls_lock(void)
{
	bool done;

	CHECK_IS(pthread_mutex_lock(&lock), 0);
	done = count != 0;
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	return done;
}

static bool polls_read(void)
{
	bool done;

	CHECK_IS(pthread_rwlock_rdlock(&rw), 0);
	done = count != 0;
	CHECK_IS(pthread_rwlock_unlock(&rw), 0);
	return done;
}

static bool polls_spin(void)
{
	bool done;

	CHECK_IS(pthread_spin_lock(&spin), 0);
	done = count != 0;
	CHECK_IS(pthread_spin_unlock(&spin), 0);
	return done;
}

/* A mutex, read-write lock or spin lock that main() has locked. */
static bool polls_try(void)
{
	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	CHECK(count != 0 && pthread_mutex_unlock(&lock) == 0);
	return true;
}

static bool polls_tryread(void)
{
	if (pthread_rwlock_tryrdlock(&rw) != 0)
		return false;
	CHECK(count != 0 && pthread_rwlock_unlock(&rw) == 0);
	return true;
}

static bool polls_tryspin(void)
{
	if (pthread_spin_trylock(&spin) != 0)
		return false;
	CHECK(count != 0 && pthread_spin_unlock(&spin) == 0);
	return true;
}

static bool polls_sem(void)
{
	return sem_trywait(&sem) == 0;
}

static void *f_poll(void *arg)
{
	bool (**polls)(void) = arg;

	set(&stage, 1);
	while (!(*polls)())
		;
	return arg;
}

static void try_polling(void)
{
	static bool (*polls[])(void) = {
		polls_lock, polls_read, polls_spin, polls_try, polls_tryread,
		polls_tryspin, polls_sem
	};
	pthread_t t;
	size_t i;

	for (i = 0; i < sizeof polls / sizeof *polls; i++) {
		bool locks = i >= 3 && i < 6;

		count = 0;
		set(&stage, 0);
		if (locks) {
			CHECK_IS(pthread_mutex_lock(&lock), 0);
			CHECK_IS(pthread_rwlock_wrlock(&rw), 0);
			CHECK_IS(pthread_spin_lock(&spin), 0);
		}
		t = start(f_poll, &polls[i]);
		until(&stage, 1);
		if (!locks) {
			CHECK_IS(pthread_mutex_lock(&lock), 0);
			CHECK_IS(pthread_rwlock_wrlock(&rw), 0);
			CHECK_IS(pthread_spin_lock(&spin), 0);
		}
		count = 1;
		CHECK_IS(pthread_spin_unlock(&spin), 0);
		CHECK_IS(pthread_rwlock_unlock(&rw), 0);
		CHECK_IS(pthread_mutex_unlock(&lock), 0);
		CHECK(sem_post(&sem) == 0 && end(t) == &polls[i]);
		while (sem_trywait(&sem) == 0)
			;
	}
	set(&stage, 0);
	t = start(f_poll, &polls[6]);
	until(&stage, 1);
	CHECK(pthread_tryjoin_np(t, NULL) == EBUSY && sem_post(&sem) == 0);
	while (pthread_tryjoin_np(t, NULL) == EBUSY)
		;
}

/* Native threads and ours, with the same objects. */

static void natively(void *arg)
{
	CHECK_IS(ustack_self(), NULL);
	CHECK_IS(pthread_mutex_lock(&lock), 0);
	CHECK_IS(pthread_getspecific(key), NULL);
	CHECK_IS(pthread_setspecific(key, arg), 0);
	CHECK_IS(pthread_getspecific(key), arg);
	set(&stage, 1);
	while (count == 0)
		CHECK_IS(pthread_cond_wait(&cond, &lock), 0);
	CHECK_IS(pthread_setspecific(key, NULL), 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	pthread_testcancel();
	CHECK(sem_post(&sem) == 0 && usleep(1) == 0);
}

static void *f_native(void *arg)
{
	CHECK_IS(ucall(natively, arg), 0);
	return arg;
}

static void try_native(void)
{
	pthread_t t;

	count = 0;
	set(&stage, 0);
	CHECK(pthread_key_create(&key, NULL) == 0 && sem_init(&sem, 0, 0) == 0);
	t = start(f_native, &count);
	until(&stage, 1);
	CHECK_IS(pthread_mutex_lock(&lock), 0);
	count = 1;
	CHECK_IS(pthread_cond_signal(&cond), 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	CHECK_IS(sem_wait(&sem), 0);
	CHECK_IS(end(t), &count);
	CHECK_IS(pthread_getspecific(key), NULL);
	CHECK_IS(pthread_setspecific(key, &count), 0);	/* in main(), too */
	CHECK_IS(pthread_getspecific(key), &count);
}

/*
 * The child of fork(): the thread that has forked is the only thread, and its
 * end is that of the process, with status 0, also if it has made native threads.
 */

enum { RETURNS, EXITS, CANCELED, HAS_NATIVE, CHILDREN };

static int said_by[2];			/* a pipe */

static void tell(void *what)
{
	CHECK_IS(write(said_by[1], what, 1), 1);
}

static void *f_late(void *arg)
{
	CHECK(ustack_self() == NULL && usleep(2000) == 0);
	tell("n");
	return arg;
}

static void ends_in_child(int how)
{
	check_watch(1);
	CHECK(pthread_equal(me, pthread_self()));
	pthread_cleanup_push(tell, "2");
	CHECK(usleep(1) == 0 && pthread_mutex_lock(&lock) == 0);
	CHECK_IS(pthread_mutex_unlock(&lock), 0);
	if (how == EXITS)
		pthread_exit("result");
	if (how == CANCELED) {
		CHECK_IS(pthread_cancel(pthread_self()), 0);
		pthread_testcancel();
	}
	if (how == HAS_NATIVE)
		(void)start(f_late, NULL);
	pthread_cleanup_pop(0);
}

static void *f_fork(void *arg)
{
	pid_t pid;
	int status;

	CHECK_IS(pthread_setspecific(key, "k"), 0);
	pthread_cleanup_push(tell, "1");
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		ends_in_child((int)(intptr_t)arg);
	else {
		CHECK_IS(pthread_setspecific(key, NULL), 0);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	pthread_cleanup_pop(0);
	return arg;
}

static void tell_exit(void)
{
	tell("x");
}

static void try_fork(void)
{
	static const char *const wants[] = { "kx", "21kx", "21kx", "knx" };
	static char text[8];
	int how;

	if (check_sanitized())
		return;
	CHECK(pthread_key_create(&key, tell) == 0 && pipe(said_by) == 0);
	CHECK_IS(atexit(tell_exit), 0);
	for (how = 0; how < CHILDREN; how++) {
		doing("child %d", how);
		CHECK_IS(pthread_create(&me, NULL, f_fork,
			 (void *)(intptr_t)how), 0);
		CHECK_IS(end(me), (void *)(intptr_t)how);
		memset(text, 0, sizeof text);
		CHECK_IS(read(said_by[0], text, sizeof text - 1),
			 (ssize_t)strlen(wants[how]));
		CHECK_STR(text, wants[how]);
	}
	CHECK_IS(pthread_key_delete(key), 0);
}

static void says(const char *line)
{
	(void)fprintf(stderr, "%s\n", line);
	CHECK(!"a message");
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	usched_on_message(says);
	CHECK(ustack_self() != NULL && uthread_self() != NULL);
	CHECK(is_named((void *(*)(void *))(void (*)(void))main, argv));
	CHECK_IS(sem_init(&sem, 0, 0), 0);
	try_threads();
	try_detach();
	try_ends();
	try_mutexes();
	try_conditions();
	try_rwlocks();
	try_once();
	try_semaphores();
	try_others();
	try_polling();
	try_native();
	try_fork();
	return 0;
}
