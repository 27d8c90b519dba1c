/* SPDX-License-Identifier: MIT */
/* fork: the child of fork() may exec, exit, or have its own scheduler. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=getaddrinfo,--wrap=freeaddrinfo */

/*
 * Two processors make threads, wake each other's threads, join and make calls.
 * Meanwhile there are forks: by threads of both processors, by a function of
 * ucall(), by the native thread that made the scheduler, and by another. Each
 * child exits in some way; or finds that calls for the parent's scheduler are
 * refused; or runs threads under a scheduler of its own, with two processors.
 * Threads of a child may fork, too. A child that hangs meets the watchdog. A
 * function that returns no error names the broken contract. A scheduler that
 * was not started works in the child.
 *
 * Functions of ucall() use malloc() and stdio all the time, as do their like in
 * the children. Names are looked up, by getaddrinfo() of libc, whose locks a child
 * may inherit taken. So if a look-up is under way at the fork, also an abandoned
 * one, those of the child and of its children return -ECHILD at once, and files
 * can be used. Else the child looks up names.
 */

#include "either.h"
#include "ucall.h"
#include "ufile.h"
#include "uproc_set.h"
#include "uscope.h"
#include <fcntl.h>
#include <spawn.h>

#define EACH	64		/* children of each forker */
#define LEAVES	50
#define TURNS	20

static long forking;		/* forkers that still fork */
static long ended;		/* busy threads that are about to end */
static thread *sleepers[2];
static pid_t first;		/* the first process */

static void nothing(void *arg)
{
}

static void leaf(void *arg)
{
	yield();
	add(arg, -1);
}

/* Names, and what else libc has locks for. */

static long deaf, asked, freed;

int __real_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list);
void __real_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list);

int __wrap_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **list)
{
	int rc;

	add(&asked, 1);
	while (get(&deaf))
		usleep(100);
	rc = __real_getaddrinfo(host, service, hints, list);
	CHECK_IS(rc, 0);
	return rc;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
	__real_freeaddrinfo(list);
	add(&freed, 1);
}

/* Looks up a name, which asks libc for its interfaces. */
static int look(utime_ns until)
{
	struct addrinfo *list = NULL;
	int rc = u_getaddrinfo("127.0.0.1", "80", NULL, &list, until);

	CHECK_IS(rc == 0, list != NULL);
	if (rc == 0)
		freeaddrinfo(list);
	return rc;
}

static void uses_libc(void *arg)
{
	FILE *f = fopen("/dev/null", "w");
	char *block = malloc(5000);

	CHECK(f != NULL && block != NULL);
	CHECK_THAT(fprintf(f, "%d\n", snprintf(block, 5000, "%p", (void *)f)),
		   >, 0);
	CHECK_IS(fclose(f), 0);
	free(block);
}

static thread *busy[2];

/* Makes threads, which end anywhere, and wakes the other busy thread. */
static void load(void *arg)
{
	static long alive[2];
	int me = (int)(intptr_t)arg;
	int i;

	while (get(&forking) > 0) {
		if (get(&alive[me]) < LEAVES) {
			add(&alive[me], LEAVES);
			for (i = 0; i < LEAVES; i++)
				make(i, leaf, &alive[me]);
		}
		SCHED(wake)(busy[!me]);
		SCHED(wake)(busy[me]);
		wait_one();
		CHECK_IS(SCHED(join)(make_joinable(me, nothing, NULL)), 0);
		CHECK_IS(ucall(uses_libc, NULL), 0);
		CHECK_IS(look(UNEVER), 0);
	}
	SCHED(wake)(busy[!me]);		/* the other may sleep */
	add(&ended, 1);
	while (get(&alive[me]) > 0 || get(&ended) < 2)
		yield();
}

static void sleeps(void *arg)
{
	wait_one();
}

/* What children do. */

/* A thread of the child's own scheduler. */
static thread *own[2];
static long turns;

static void child_thread(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i, rc;

	for (i = 0; i < TURNS; i++) {
		SCHED(wake)(own[!me]);
		wait_one();
		yield();
		add(&turns, 1);
	}
	CHECK_IS(SCHED(join)(make_joinable(!me, nothing, NULL)), 0);
	CHECK_IS(ucall(uses_libc, NULL), 0);
	rc = look(UNEVER);
	CHECK(rc == 0 || (rc == -ECHILD && getpid() != first));
}

static void own_scheduler(void (*more)(void *))
{
	int i;

	set(&turns, 0);
	begin(2, 0);
	for (i = 0; i < 2; i++)
		own[i] = make(i, child_thread, (void *)(intptr_t)i);
	if (more != NULL)
		make(0, more, NULL);
	start_and_finish();
	CHECK_IS(turns, 2 * TURNS);
}

/*
 * Wakes threads that are not in this process, also as a thread of another set.
 */
static void wakes_of_parent(void *arg)
{
	int i;

	for (i = 0; i < 2; i++) {
		SCHED(wake)(sleepers[i]);
		SCHED(post)(sleepers[i]);
		SCHED(wake)(busy[i]);
	}
}

static void refused(void)
{
	int rc;

	CHECK_IS(SCHED(self)(), NULL);
	CHECK_IS(SCHED(start)(), -ECHILD);
	CHECK_IS(SCHED(fini)(), -ECHILD);
	CHECK_IS(SCHED(stack_size)(65536), -ECHILD);
	CHECK_IS(SCHED(preempt)(), -ECHILD);
	errno = 0;
	CHECK(try_make(1, nothing, NULL) == NULL && errno == ECHILD);
	errno = 0;
	CHECK(try_make_joinable(1, nothing, NULL) == NULL && errno == ECHILD);
	CHECK_IS(SCHED(join)(sleepers[0]), -ECHILD);
	rc = ucall(nothing, NULL);
	CHECK_IS(rc, ustack_self() != NULL ? -ECHILD : -EINVAL);
	SCHED(hold)();
	SCHED(release)();
	wakes_of_parent(NULL);
	CHECK_IS(SCHED(fini)(), -ECHILD);
}

static void grandchild(void *arg)
{
	pid_t pid = fork();
	int status;

	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		CHECK_IS(SCHED(fini)(), -ECHILD);
		own_scheduler(NULL);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void child(int nr)
{
	sigset_t none;

	sigemptyset(&none);
	CHECK_IS(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
	check_watch(1);
	switch (nr % 8) {
	case 0:
		_exit(0);
	case 1:
		exit(0);
	case 2:
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	case 3:
		refused();
		break;
	case 4:
		own_scheduler(NULL);
		wakes_of_parent(NULL);
		own_scheduler(wakes_of_parent);
		break;
	case 5:
		own_scheduler(grandchild);
		break;
	default:
		own_scheduler(NULL);
	}
	_exit(0);
}

/*
 * Stands for a program's exit handler. It must not wait for absent processors.
 */
static void at_exit(void)
{
	if (getpid() != first)
		CHECK_IS(SCHED(fini)(), -ECHILD);
}

/* Forkers. */

struct forker {
	pid_t f_pid;
	int   f_nr;
};

static void forks(struct forker *f)
{
	f->f_pid = fork();
	CHECK_THAT(f->f_pid, >=, 0);
	if (f->f_pid == 0)
		child(f->f_nr);
	f->f_nr++;
}

/* Sets the watchdog for the next child and all that follows: there are many. */
static void reaps(void *arg)
{
	struct forker *f = arg;
	int status;

	CHECK_IS(waitpid(f->f_pid, &status, 0), f->f_pid);
	check_watch(2);
	if (status != 0)
		fprintf(stderr, "child %d: status %#x\n", f->f_nr - 1,
			(unsigned)status);
	CHECK_IS(status, 0);
}

static void forks_and_reaps(void *arg)
{
	struct forker *f = arg;

	while (f->f_nr < EACH) {
		forks(f);
		reaps(f);
	}
}

/* Forks as a thread. Its processor goes on meanwhile. */
static void forks_as_thread(void *arg)
{
	struct forker *f = arg;

	while (f->f_nr < EACH) {
		forks(f);
		CHECK_IS(ucall(reaps, f), 0);
		yield();
	}
	add(&forking, -1);
}

static void forks_by_call(void *arg)
{
	CHECK_IS(ucall(forks_and_reaps, arg), 0);
	add(&forking, -1);
}

static void *forks_outside(void *arg)
{
	forks_and_reaps(arg);
	add(&forking, -1);
	SCHED(release)();
	return arg;
}

static void all_end(void *arg)
{
	int i;

	yield_until(&ended, 2);
	for (i = 0; i < 2; i++) {
		SCHED(wake)(sleepers[i]);
		CHECK_IS(SCHED(join)(sleepers[i]), 0);
	}
}

static void under_load(void)
{
	static struct forker forker[5];
	pthread_t id;
	int i;

	set(&forking, COUNT(forker));
	begin(2, 0);
	for (i = 0; i < 2; i++) {
		busy[i] = make(i, load, (void *)(intptr_t)i);
		sleepers[i] = make_joinable(i, sleeps, NULL);
		make(i, forks_as_thread, &forker[i]);
	}
	make(0, forks_by_call, &forker[2]);
	make(0, all_end, NULL);
	SCHED(hold)();
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	id = native(forks_outside, &forker[3]);
	forks_outside(&forker[4]);
	finish();
	native_join(id);
	for (i = 0; i < COUNT(forker); i++)
		CHECK_IS(forker[i].f_nr, EACH);
}

/* Children during a look-up, and after it. */

static int wanted;		/* of look-ups */

static void looks(void *arg)
{
	int fd;

	CHECK_IS(look(uafter(20 * UTIME_S)), wanted);
	fd = u_open("/dev/null", O_RDWR | O_CLOEXEC, 0, UNEVER);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK_IS(ucall(uses_libc, NULL), 0);
	set(&turns, 1);
}

static void forks_to_look(int rc, int nested)
{
	int status;
	pid_t pid = fork();

	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		check_watch(1);
		wanted = rc;
		if (SCHED(self)() == NULL && ustack_self() != NULL)
			CHECK_IS(look(UNEVER), -ECHILD); /* it is no thread */
		else
			CHECK_IS(look(UNEVER), wanted);
		set(&turns, 0);
		one_thread(1, looks, NULL);
		CHECK_IS(get(&turns), 1);
		if (nested > 0)
			forks_to_look(rc, nested - 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *looks_natively(void *arg)
{
	CHECK_IS(look(UNEVER), 0);
	return arg;
}

static void cancels(void *scope)
{
	yield_until(&asked, 1);
	uscope_cancel(scope);
}

static void forks_in_look(void *arg)
{
	struct uscope *s;

	set(&asked, 0);
	set(&freed, 0);
	set(&deaf, 1);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	make(0, cancels, s);
	CHECK_IS(look(UNEVER), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	forks_to_look(-ECHILD, 1);
	set(&deaf, 0);
	yield_until(&freed, 1);
	forks_to_look(0, 1);
}

static void looked_up(void)
{
	pthread_t id;
	int i;

	for (i = 1; i <= 2; i++)
		one_thread(i, forks_in_look, NULL);
	set(&asked, 0);
	set(&deaf, 1);
	id = native(looks_natively, NULL);
	until(&asked, 1);
	forks_to_look(-ECHILD, 0);
	set(&deaf, 0);
	native_join(id);
	forks_to_look(0, 0);
}

/* Children that share memory until they exec. */
static void spawns(void *arg)
{
	char *argv[] = { (char *)"true", NULL };
	int status;
	pid_t pid;

	CHECK_IS(system("true"), 0);
	CHECK_IS(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	pid = vfork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	yield();
	CHECK_IS(SCHED(self)(), (thread *)ustack_self());
}

static void spawned(void)
{
	int i;

	begin(2, 0);
	for (i = 0; i < 10; i++)
		make(i, spawns, NULL);
	start_and_finish();
}

/* A scheduler that was not started belongs to the parent and to the child. */
static void not_started(void)
{
	int status, rc;
	pid_t pid;

	set(&turns, 0);
	begin(2, 0);
	own[0] = make(0, child_thread, (void *)0);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	CHECK_IS(SCHED(init)(2, 0), -EBUSY);
	own[1] = make(1, child_thread, (void *)1);
	rc = SCHED(start)();
	CHECK_IS(rc, 0);
	finish();
	CHECK_IS(turns, 2 * TURNS);
	if (pid == 0)
		_exit(0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/*
 * The parent forks while one of its workers sleeps and keeps watch. The workers
 * of the child must not rely on that watch.
 */
#if defined(WS)
static thread *hostage;
static long rescued;

static void is_rescued(void *arg)
{
	wait_one();
	set(&rescued, 1);
}

/* Wakes a thread of its own worker, and computes until that thread has run. */
static void captor(void *arg)
{
	int i;

	do {
		hostage = make(ws_proc(), is_rescued, NULL);
		for (i = 0; i < 5; i++)
			yield();
		set(&rescued, 0);
		usleep(50000);		/* the other worker goes to sleep */
		SCHED(wake)(hostage);
		if (ustack_self()->u_lane != 0)
			until(&rescued, 1);
	} while (--turns > 0);
}

static void forks_watched(void *arg)
{
	int status;
	pid_t pid;

	usleep(50000);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		check_watch(1);
		turns = 3;
		one_thread(2, captor, NULL);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void watched(void)
{
	one_thread(2, forks_watched, NULL);
}
#else
static void watched(void)
{
}
#endif

/* The child of a thread goes on as that thread. */

#define DEEP	80000		/* bytes: such a slice is no block of a pool */

static void (*goes_on)(void);
static bool has_blocked;	/* before it forks */

static NOINLINE void deeply(int (*f)(void))
{
	char room[DEEP];

	memset(room, 1, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
	CHECK_IS(f(), 0);
	CHECK_IS(room[check_hash(1, 2) % DEEP], 1);
}

/*
 * Forks while the locks of the set are taken, as if by another native thread,
 * which does not exist in the child.
 */
static pid_t fork_locked(void)
{
	thread *me = SCHED(self)();
	struct uproc_set *its;
	pid_t pid;

	if (me == NULL)
		return fork();
	if (has_blocked)
		deeply(SCHED(yield));	/* else its end would free a buffer */
	its = uproc_of(STRUCT(me))->p_set;
	CHECK_IS(pthread_mutex_lock(&its->set_lock), 0);
	CHECK_IS(pthread_mutex_lock(&its->set_mem.m_lock), 0);
	pid = fork();
	if (pid != 0) {
		CHECK_IS(pthread_mutex_unlock(&its->set_mem.m_lock), 0);
		CHECK_IS(pthread_mutex_unlock(&its->set_lock), 0);
	}
	return pid;
}

/* Ends in the same way as its child. */
static void dies_in_child(void *arg)
{
	pid_t pid = fork_locked();
	int status;

	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		check_watch(1);
		goes_on();
		return;
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	abort();
}

static void dies_in_call(void *arg)
{
	(void)ucall(dies_in_child, NULL);
}

static void run(void (*f)(void *), void (*then)(void))
{
	goes_on = then;
	begin(2, 0);
	make(0, f, NULL);
	make(1, f, NULL);
	start_and_finish();
}

static int waits_deeply(void)
{
	deeply(SCHED(wait));
	return 0;
}

/* Waits, with more stack, so that it needs a larger buffer. */
static void waits(void)
{
	deeply(waits_deeply);
}

static void yields(void)
{
	SCHED(yield)();
}

static void ends(void)
{
}

static void waits_in_child(void)
{
	run(dies_in_child, waits);
}

static void yields_in_child(void)
{
	run(dies_in_child, yields);
}

static void ends_in_child(void)
{
	run(dies_in_child, ends);
}

static void ends_at_once(void)
{
	has_blocked = false;
	run(dies_in_child, ends);
}

static void ends_after_own(void)
{
	errno = 0;
	CHECK(try_make(1, nothing, NULL) == NULL && errno == ECHILD);
	own_scheduler(NULL);
}

static void goes_back(void)
{
	run(dies_in_child, ends_after_own);
}

static void returns_in_call(void)
{
	run(dies_in_call, ends);
}

static int deaths(void)
{
	const char *contract = "fork: the child of a thread";

	has_blocked = true;
	return check_dies("wait", waits_in_child, contract) +
		check_dies("yield", yields_in_child, contract) +
		check_dies("end", ends_in_child, contract) +
		check_dies("end at once", ends_at_once, contract) +
		check_dies("end, later", goes_back, contract) +
		check_dies("call", returns_in_call,
			   "call: the function has returned in the child");
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	check_quiet();
	check_forks();
	first = getpid();
	CHECK_IS(atexit(at_exit), 0);
	not_started();
	spawned();
	watched();
	looked_up();
	under_load();
	return deaths() != 0;
}
