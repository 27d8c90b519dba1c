/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=pthread_atfork */
/* fork_library: children of fork() use the whole library, while others use it. */

/*
 * First the registry itself (ufork.h). It has the locks in the order of their
 * ranks. All are taken just before a fork, and free after it in both processes.
 * A fork waits for the holder of each. A signal handler may fork, also inside a
 * fork. If forks cannot be watched, that is an error.
 *
 * Then a thread of rr, a task of the engine, a function of ucall() and two
 * native threads fork. Meanwhile others take each lock again and again. Each
 * child uses everything under rr, ll, ws and the engine.
 */

#include "counts.h"

static int patience = 100000;

#define UFORK_PATIENCE	patience
#include "uchan.c"		/* quitters */
#undef ALWAYS_INLINE
#include "uengine.h"
#include "ll.h"
#include "rr.h"
#include "ucall.h"
#include "ufork.h"
#include "ugen.h"
#include "uio.h"
#include "uscope.h"
#include "usignal.h"
#include "usync.h"
#include "uthread.h"
#include "ws.h"

#include <pthread.h>

#define EACH	12		/* children of each forker */

static pthread_t native(void *(*f)(void *), void *arg)
{
	pthread_t id;

	CHECK_IS(pthread_create(&id, NULL, f, arg), 0);
	return id;
}

static void reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) != pid)
		CHECK_IS(errno, EINTR);
	check_watch(2);
	CHECK_IS(status, 0);
}

/* The registry. */

enum { INNER, OUTER, SITES };

static long seen[SITES][3];	/* before, in the parent, in the child */
static int  expect[SITES][3];	/* the state of all locks */
static bool looks, raises;
static int  lock_nr;

static void each_lock(void (*f)(struct ulock *l))
{
	const struct ufork *f_;
	int i;

	for (f_ = ufork_all.a_first; f_ != NULL; f_ = f_->f_next)
		for (i = 0; f_->f_lock != NULL && i < f_->f_nr; i++)
			f(ufork_lock(f_, i));
}

static int wanted;

static void is_as_wanted(struct ulock *l)
{
	CHECK_IS(__atomic_load_n(&l->l_state, __ATOMIC_RELAXED), wanted);
}

static void looks_at(int site, int when)
{
	if (!looks)
		return;
	seen[site][when]++;
	wanted = expect[site][when];
	each_lock(is_as_wanted);
}

static void forks_in_handler(int signo)
{
	pid_t pid;

	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		_exit(0);
	reap(pid);
}

static void inner_before(void)
{
	looks_at(INNER, 0);
	if (raises) {
		raises = false;
		looks  = false;
		CHECK_IS(raise(SIGUSR1), 0);
		looks  = true;
		looks_at(INNER, 0);
	}
}

static void inner_parent(void)
{
	looks_at(INNER, 1);
}

static void inner_child(void)
{
	looks_at(INNER, 2);
}

static void outer_before(void)
{
	looks_at(OUTER, 0);
}

static void outer_parent(void)
{
	looks_at(OUTER, 1);
}

static void outer_child(void)
{
	looks_at(OUTER, 2);
}

static bool refuses;		/* handlers */

WRAP(int, pthread_atfork, void (*before)(void), void (*parent)(void),
     void (*child)(void))
{
	return refuses ? ENOMEM : __real_pthread_atfork(before, parent, child);
}

/* Registers before the library, whose handlers then are those of this file. */
__attribute__((constructor(101))) static void first(void)
{
	CHECK_IS(ufork_all.a_first, NULL);
	CHECK_IS(pthread_atfork(inner_before, inner_parent, inner_child), 0);
	refuses = true;
}

/* No handlers so far: whatever begins something says so. */
static void not_watched(void)
{
	struct engine_config c = { .c_workers = 1 };

	CHECK(ufork_all.a_first != NULL && !ufork_all.a_watched);
	CHECK_IS(ufork_watch(), -ENOMEM);
	CHECK(rr_init(1, 0) == -ENOMEM && ll_init(1, 0) == -ENOMEM);
	CHECK(ws_init(1, 0) == -ENOMEM && engine_init(&c) == -ENOMEM);
	CHECK_IS(usignal_watch(SIGUSR2), -ENOMEM);
	refuses = false;
	CHECK(ufork_watch() == 0 && ufork_all.a_watched);
}

static void counts_lock(struct ulock *l)
{
	lock_nr++;
	CHECK_IS(__atomic_load_n(&l->l_state, __ATOMIC_RELAXED), 0);
}

static void in_order(void)
{
	const unsigned wants = 1u << UFORK_ENGINE | 1u << UFORK_BUS |
		1u << UFORK_GENERATORS | 1u << UFORK_POLLERS |
		1u << UFORK_SIGNALS | 1u << UFORK_KEYS | 1u << UFORK_SYNC |
		1u << UFORK_LOADER;
	const struct ufork *f;
	unsigned has = 0;

	for (f = ufork_all.a_first; f != NULL; f = f->f_next)
		has |= (unsigned)(f->f_lock != NULL) << f->f_rank;
	CHECK_IS(has & wants, wants);
	each_lock(counts_lock);
	CHECK_THAT(lock_nr, >, 256);
	for (f = ufork_all.a_first; f->f_next != NULL; f = f->f_next)
		CHECK_THAT(f->f_rank, <=, f->f_next->f_rank);
	CHECK_IS(pthread_atfork(outer_before, outer_parent, outer_child), 0);
}

static void fork_once(void)
{
	pid_t pid = fork();

	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		CHECK(!looks || seen[OUTER][2] == 1);
		_exit(0);
	}
	reap(pid);
}

static void taken_and_free(void)
{
	int i;

	expect[INNER][0] = expect[INNER][1] = expect[INNER][2] = 1;
	looks = true;
	for (i = 0; i < 3; i++)
		fork_once();
	CHECK(seen[INNER][0] == 3 && seen[INNER][1] == 3);
	CHECK(seen[OUTER][0] == 3 && seen[OUTER][1] == 3);
	raises = true;		/* a handler forks inside of this fork */
	fork_once();
	CHECK(!raises);
	looks = false;
	CHECK_IS(raise(SIGUSR1), 0);
}

/* The locks one by one: each fork waits for a holder in another thread. */

static struct ulock *held;
static int half, phase;

static void *holds(void *arg)
{
	ulock_get(held);
	__atomic_store_n(&half, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&phase, 1, __ATOMIC_SEQ_CST);
	usleep(1000);
	__atomic_store_n(&half, 0, __ATOMIC_RELAXED);
	ulock_put(held);
	return arg;
}

static int skip;

static void waits_for_holder(struct ulock *l)
{
	pthread_t id;
	pid_t pid;

	if (skip++ % 32 != 0 && lock_nr - skip > 8)
		return;				/* of the rings some */
	held  = l;
	phase = 0;
	id = native(holds, NULL);
	while (__atomic_load_n(&phase, __ATOMIC_SEQ_CST) == 0)
		check_yield();
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		CHECK(half == 0 && l->l_state == 0);
		_exit(0);
	}
	CHECK_IS(pthread_join(id, NULL), 0);
	reap(pid);
}

/* A handler interrupts the holder and forks: the lock stays with the holder. */
static void handler_in_holder(struct ulock *l)
{
	if (skip++ % 64 != 0)
		return;
	ulock_get(l);
	CHECK_IS(raise(SIGUSR1), 0);
	CHECK_IS(l->l_state, 1);
	ulock_put(l);
	wanted = 0;
	each_lock(is_as_wanted);
}

/* A thread in give_up() does not exist in the child, which frees a channel. */
static void quits(void)
{
	pid_t pid;

	__atomic_fetch_add(&quitters, 1, __ATOMIC_ACQ_REL);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		uchan_free(uchan_make(4, 1));
		_exit(0);
	}
	__atomic_fetch_sub(&quitters, 1, __ATOMIC_ACQ_REL);
	reap(pid);
}

static void registry(void)
{
	CHECK_THAT(signal(SIGUSR1, forks_in_handler), !=, SIG_ERR);
	in_order();
	taken_and_free();
	each_lock(waits_for_holder);
	skip = 0;
	patience = 3;
	each_lock(handler_in_holder);
	patience = 100000;
	quits();
}

/* Everything, once. By threads of any scheduler. */

static void counts_to_3(void *arg)
{
	int i;

	for (i = 0; i < 3; i++)
		if (ugen_yield(&i) != 0)
			return;
}

static void uses_generators(void)
{
	struct ugen *g[20];	/* more than a batch */
	int i, j, *v;

	for (i = 0; i < COUNT(g); i++)
		CHECK((g[i] = ugen_make(counts_to_3, NULL, sizeof(int))) != NULL);
	for (i = 0; i < COUNT(g); i++) {
		for (j = 0; j < i % 4 && (v = ugen_next(g[i])) != NULL; j++)
			CHECK_IS(*v, j);
		CHECK_IS(ugen_free(g[i]), 0);
	}
	ugen_trim();
}

static void set_to_1(void *value)
{
	__atomic_store_n((int *)value, 1, __ATOMIC_RELAXED);
}

static unsigned key;

static void *keeps(void *arg)
{
	CHECK(ukey_set(key, arg) == 0 && ukey_get(key) == arg);
	return arg;
}

static void uses_keys(int *room)
{
	struct uthread *t;
	unsigned mine;
	void *result;

	CHECK(ukey_make(&mine, set_to_1) == 0 && ukey_free(mine) == 0);
	*room = 0;
	CHECK_IS(uthread_make(&t, keeps, room, "keeps"), 0);
	CHECK_IS(uthread_join(t, &result, UNEVER), 0);
	CHECK(result == room && *room == 1);
}

/* What threads of a use share. Not on a stack. */
struct shared {
	struct uchan   *c[2];
	struct umutex   mutex;
	struct ucond    cond;
	struct usem     sem;
	struct urw      rw;
	struct uonce    once;
	struct ugroup   group;
	struct ubarrier barrier;
	int             fd[2];
	int             room;
	int             said;
};

static int partner(void *arg)
{
	struct shared *h = arg;
	char byte;
	int v;

	CHECK(uchan_recv(h->c[0], &v, UNEVER) == 0 && v == 1);
	CHECK_IS(uchan_send(h->c[1], &v, UNEVER), 0);
	CHECK_IS(umutex_lock(&h->mutex, UNEVER), 0);
	h->said = 1;
	ucond_signal(&h->cond);
	umutex_unlock(&h->mutex);
	CHECK_IS(usem_wait(&h->sem, UNEVER), 0);
	CHECK_IS(urw_read(&h->rw, UNEVER), 0);
	urw_unlock(&h->rw);
	CHECK_IS(u_read(h->fd[1], &byte, 1, UNEVER), 1);
	CHECK_IS(u_write(h->fd[1], &byte, 1, UNEVER), 1);
	CHECK_THAT(ubarrier_wait(&h->barrier, UNEVER), >=, 0);
	ugroup_done(&h->group);
	return 0;
}

static void answers(struct shared *h)
{
	struct pollfd p = { .fd = h->fd[0], .events = POLLIN };
	struct ucase a[] = { UCASE_RECV(h->c[1], NULL), UCASE_RECV(h->c[0], NULL) };
	char byte = 7;
	int v = 1;

	CHECK_IS(uchan_send(h->c[0], &v, UNEVER), 0);
	CHECK_IS(uselect(a, 2, UNEVER), 0);
	CHECK_IS(umutex_lock(&h->mutex, UNEVER), 0);
	while (!h->said)
		CHECK_IS(ucond_wait(&h->cond, &h->mutex, UNEVER), 0);
	umutex_unlock(&h->mutex);
	CHECK_IS(usem_post(&h->sem), 0);
	CHECK_IS(urw_write(&h->rw, UNEVER), 0);
	urw_unlock(&h->rw);
	CHECK_IS(u_write(h->fd[0], &byte, 1, UNEVER), 1);
	CHECK_IS(u_poll(&p, 1, UNEVER), 1);
	CHECK_IS(u_read(h->fd[0], &byte, 1, UNEVER), 1);
	CHECK_THAT(ubarrier_wait(&h->barrier, UNEVER), >=, 0);
	CHECK_IS(ugroup_wait(&h->group, UNEVER), 0);
	CHECK_IS(usem_wait(&h->sem, uafter(1000)), -ETIMEDOUT);
}

static void uses_waits(struct shared *h)
{
	struct uscope *s;
	int i;

	for (i = 0; i < 2; i++)
		CHECK((h->c[i] = uchan_make(sizeof(int), 0)) != NULL);
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, h->fd), 0);
	h->barrier = (struct ubarrier)UBARRIER(2);
	CHECK_IS(ugroup_add(&h->group, 1), 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(uscope_go(s, partner, h), 0);
	answers(h);
	CHECK_IS(uscope_end(&s), 0);
	for (i = 0; i < 2; i++) {
		uchan_free(h->c[i]);
		CHECK_IS(u_close(h->fd[i]), 0);
	}
}

static void uses_all(void *arg)
{
	struct shared *h = calloc(1, sizeof *h);

	CHECK(h != NULL);
	uses_generators();
	uses_keys(&h->room);
	uses_waits(h);
	if (arg == NULL) {
		CHECK_IS(usignal_watch(SIGUSR2), 0);
		CHECK_IS(kill(getpid(), SIGUSR2), 0);
		CHECK_IS(usignal_wait(UNEVER), SIGUSR2);
		CHECK_IS(usignal_unwatch(SIGUSR2), 0);
	}
	CHECK(ucall(set_to_1, &h->said) == 0 && h->said == 1);
	CHECK_IS(u_sleep(uafter(1000)), 0);
	free(h);
}

/* A task that waits until it is cancelled, and is looked at meanwhile. */
static int sleeps(void *arg)
{
	return u_sleep(UNEVER);
}

static int does_all(void *arg)
{
	uses_all(arg);
	return 7;
}

static void looks_at_task(engine_id id)
{
	static __thread struct engine_stack k;

	do
		CHECK_IS(engine_get_call_stack(id, &k, false, UNEVER), 0);
	while (k.k_stage != ENGINE_WAITS);
}

static engine_id spawn(int (*f)(void *), void *arg)
{
	struct engine_job j = { .j_f = f, .j_arg = arg };
	engine_id id;

	CHECK_IS(engine_spawn(&j, &id, UNEVER), 0);
	return id;
}

static void uses_engine(void)
{
	engine_id waits = spawn(sleeps, NULL), all = spawn(does_all, &key);
	void *data;
	int result;

	looks_at_task(waits);
	CHECK_IS(engine_bus_push("name", "text", 5, NULL, NULL), 0);
	CHECK_IS(engine_bus_pop("name", &data, NULL), 0);
	CHECK_IS(engine_bus_unpin(data), 0);
	CHECK(engine_wait(all, &result, UNEVER) == 0 && result == 7);
	CHECK_THAT(engine_cancel(waits), >=, 0);
	CHECK(engine_wait(waits, &result, UNEVER) == 0 && result == -ECANCELED);
	CHECK(engine_free(all) == 0 && engine_free(waits) == 0);
}

static void engine_begins(int workers)
{
	struct engine_config c = {
		.c_workers = workers, .c_flags = ENGINE_MORE_WORKERS,
		.c_shared_memory = 1 << 20
	};

	CHECK_IS(engine_init(&c), 0);
}

static void engine_ends(void)
{
	CHECK(engine_shutdown(UNEVER) == 0 && engine_fini() == 0);
}

/* The child. Its threads of rr and ll may wait for each other. */

static void schedulers(void)
{
	int i;

	CHECK(rr_init(2, 0) == 0 && ll_init(2, 0) == 0 && ws_init(2, 0) == 0);
	for (i = 0; i < 2; i++) {
		CHECK(rr_thread_init(uses_all, &key) != NULL);
		CHECK(ll_thread_init(uses_all, &key, i) != NULL);
		CHECK(ws_thread_init(uses_all, i == 0 ? NULL : &key) != NULL);
	}
	CHECK(rr_start() == 0 && ll_start() == 0 && ws_start() == 0);
	CHECK(ll_fini() == 0 && rr_fini() == 0 && ws_fini() == 0);
}

/* In a native thread, since a thread that has forked must not make an engine. */
static void *engine(void *arg)
{
	engine_begins(2);
	uses_engine();
	engine_ends();
	return arg;
}

static void refused(void)
{
	struct engine_stack k;

	CHECK_IS(engine_get_call_stack(1, &k, false, UNOW), -ECHILD);
	CHECK_IS(engine_bus_clear(), -ECHILD);
}

static void uses_child(void)
{
	sigset_t none;

	sigemptyset(&none);
	CHECK_IS(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
	check_watch(1);
	refused();
	schedulers();
	CHECK_IS(pthread_join(native(engine, NULL), NULL), 0);
}

static void child(bool below)
{
	pid_t pid;

	uses_child();
	if (below) {
		pid = fork();
		CHECK_THAT(pid, >=, 0);
		if (pid == 0) {
			schedulers();
			_exit(0);
		}
		reap(pid);
	}
	_exit(0);
}

/* What others do meanwhile. */

static long forking;
static struct usem contended = USEM(1);

/* Takes a lock of a ring, and those of generators and keys. */
static void churn(void *arg)
{
	unsigned mine;

	while (get(&forking) > 0) {
		uses_generators();
		CHECK(ukey_make(&mine, NULL) == 0 && ukey_free(mine) == 0);
		CHECK_IS(usem_wait(&contended, UNEVER), 0);
		CHECK_IS(usem_post(&contended), 0);
		CHECK_IS(rr_yield(), 0);
	}
}

static void churn_all(void *arg)
{
	while (get(&forking) > 0)
		uses_all(arg);
}

static void *churn_natively(void *arg)
{
	while (get(&forking) > 0) {
		CHECK_IS(usignal_watch(SIGUSR2), 0);
		CHECK_IS(usignal_unwatch(SIGUSR2), 0);
		CHECK_IS(usem_wait(&contended, UNEVER), 0);
		CHECK_IS(usem_post(&contended), 0);
	}
	return arg;
}

static void *churn_engine(void *arg)
{
	while (get(&forking) > 0)
		uses_engine();
	return arg;
}

/* A scheduler that is not started belongs to the child, too: no fork there. */
static pthread_rwlock_t not_started = PTHREAD_RWLOCK_INITIALIZER;

/* Makes and frees pollers. */
static void *churn_pollers(void *arg)
{
	while (get(&forking) > 0) {
		CHECK_IS(pthread_rwlock_wrlock(&not_started), 0);
		CHECK_IS(ll_init(1, 0), 0);
		CHECK(ll_thread_init(uses_all, &key, 0) != NULL);
		CHECK_IS(ll_start(), 0);
		CHECK_IS(pthread_rwlock_unlock(&not_started), 0);
		CHECK_IS(ll_fini(), 0);
	}
	return arg;
}

/* Forkers. */

static void forks(void *arg)
{
	pid_t pid;
	int i;

	for (i = 0; i < EACH; i++) {
		CHECK_IS(pthread_rwlock_rdlock(&not_started), 0);
		pid = fork();
		CHECK_THAT(pid, >=, 0);
		if (pid == 0)
			child(i % 8 == 0);
		CHECK_IS(pthread_rwlock_unlock(&not_started), 0);
		reap(pid);
	}
	add(arg, -1);
}

static void forks_by_call(void *arg)
{
	CHECK_IS(ucall(forks, arg), 0);
}

static int forks_as_task(void *arg)
{
	forks(arg);
	return 0;
}

static void *forks_natively(void *arg)
{
	forks(arg);
	return NULL;
}

static void everything(void)
{
	pthread_t id[5];
	engine_id task;
	int i;

	set(&forking, 5);
	CHECK_IS(ukey_make(&key, set_to_1), 0);
	engine_begins(2);
	CHECK_IS(rr_init(3, 0), 0);
	CHECK(rr_thread_on(0, churn, NULL) && rr_thread_on(1, churn, NULL));
	CHECK(rr_thread_on(1, churn_all, &key) != NULL);
	CHECK(rr_thread_on(2, forks, &forking) != NULL);
	CHECK(rr_thread_on(0, forks_by_call, &forking) != NULL);
	rr_hold();
	CHECK_IS(rr_start(), 0);
	task  = spawn(forks_as_task, &forking);
	id[0] = native(churn_natively, NULL);
	id[1] = native(churn_natively, NULL);
	id[2] = native(churn_engine, NULL);
	id[3] = native(churn_pollers, NULL);
	id[4] = native(forks_natively, &forking);
	forks(&forking);
	for (i = 0; i < COUNT(id); i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK_IS(engine_wait(task, NULL, UNEVER), 0);
	CHECK_IS(engine_free(task), 0);
	rr_release();
	CHECK_IS(rr_fini(), 0);
	engine_ends();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	check_forks();
	not_watched();
	registry();
	everything();
	return 0;
}
