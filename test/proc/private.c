/* SPDX-License-Identifier: MIT */
/* private: private stacks are promised to makers, and stay where they are */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=pthread_create */

/*
 * Objects on the stack of a thread that waits, with a private stack, are used
 * by threads that share lanes, also after the thread has moved to another
 * processor (ws), among 1, 2, 140 or more. Makers choose by scheduler, by thread
 * and by USCHED_STACKS, where another word is an error. As many threads as
 * there are private lanes can be made, before the start or after it, again and
 * again, and the next is refused with EAGAIN; makers are native threads and
 * threads. With few addresses makers are refused with ENOMEM, and all that were
 * made run. In the child of fork() makers are refused as without private stacks.
 */
#include "either.h"
#include "usync.h"
#include "uthread.h"
#include <limits.h>
#include <sys/resource.h>

#if defined(USCHED_HARD) || defined(__SANITIZE_ADDRESS__) || \
	defined(__SANITIZE_THREAD__)
#define MANY	300
#else
#define MANY	3000
#endif
#define CHILDREN	2

static long right, moved, ended, waiting, private_nr, shared_nr;

static bool is_private(void)
{
	return ustack_is_private(ustack_self());
}

/* Returns the dispatcher of the caller, in ws also after a move. */
static NOINLINE struct usched *here(void)
{
	return usched_self();
}

/* Objects on a stack. */

struct task {
	int *t_sum;
	struct umutex *t_mutex;
	struct ugroup *t_group;
};

static void child(void *arg)
{
	struct task task = *(struct task *)arg;

	free(arg);
	CHECK(!is_private());
	yield();
	CHECK_IS(umutex_lock(task.t_mutex, UNEVER), 0);
	*task.t_sum += 21;
	umutex_unlock(task.t_mutex);
	ugroup_done(task.t_group);
}

static void parent(void *arg)
{
	struct ugroup group = { .gr_sync = { .y_state = 0 } };
	struct umutex mutex = { .mx_sync = { .y_state = 0 } };
	struct usched *was = here();
	int i, sum = 0;

	CHECK(is_private());
	ugroup_add(&group, CHILDREN);
	for (i = 0; i < CHILDREN; i++) {
		struct task *task = malloc(sizeof *task);

		CHECK(task != NULL);
		*task = (struct task) { &sum, &mutex, &group };
		(void)make((int)(intptr_t)arg, child, task);
		if (i == 0)
			yield();
	}
	CHECK_IS(ugroup_wait(&group, UNEVER), 0);
	CHECK_IS(sum, 21 * CHILDREN);
	add(&right, 1);
	add(&moved, here() != was);
}

static void objects(int nr)
{
	int i;

	right = 0;
	begin(2, 0);
	CHECK_IS(SCHED(private)(1), 0);
	for (i = 0; i < nr; i++)
		(void)make(i, parent, (void *)(intptr_t)i);
	CHECK_IS(SCHED(private)(0), 0);
	start_and_finish();
	CHECK_IS(right, nr);
}

/* Who chooses. */

static void counts(void *arg)
{
	add(is_private() ? &private_nr : &shared_nr, 1);
	yield();
}

static void *result(void *arg)
{
	counts(arg);
	return arg;
}

static void chooses(void *arg)
{
	static struct uthread *t[2];
	thread *joined;
	void *got;
	int i;

	CHECK_IS(uthread_make_by(&t[0], result, &t[0], "p", 2), -EINVAL);
	CHECK_IS(uthread_make_by(&t[0], result, &t[0], "private",
		 USCHED_PRIVATE), 0);
	CHECK_IS(uthread_make_by(&t[1], result, &t[1], "any", 0), 0);
	for (i = 0; i < 2; i++)
		CHECK(uthread_join(t[i], &got, UNEVER) == 0 && got == &t[i]);
	joined = make_joinable(0, counts, NULL);
	CHECK_IS(SCHED(join)(joined), 0);
	(void)make(0, counts, NULL);
}

/* how: by the scheduler; word: of USCHED_STACKS. nr: how many are private. */
static void chosen(int how, const char *word, int nr)
{
	struct usched *d;

	if (word != NULL)
		CHECK_IS(setenv("USCHED_STACKS", word, 1), 0);
	else
		CHECK_IS(unsetenv("USCHED_STACKS"), 0);
	private_nr = shared_nr = 0;
	begin(1, 0);
	if (how >= 0)
		CHECK_IS(SCHED(private)(how), 0);
	d = SCHED(sched)(0);
	(void)make(0, counts, NULL);
	CHECK_IS(d->s_make(d, counts, NULL, USCHED_PRIVATE), 0);
	CHECK_IS(d->s_make(d, counts, NULL, 0), 0);
	(void)make(0, chooses, NULL);
	start_and_finish();
	CHECK(private_nr == nr && private_nr + shared_nr == 7);
}

static int told;

static void message(const char *line)
{
	told += strstr(line, "USCHED_STACKS: \"privat\" is none of: private, shared") != NULL;
}

static void choosers(void)
{
	CHECK_IS(SCHED(private)(1), -EINVAL);
	chosen(-1, NULL, 2);
	chosen(0, NULL, 2);
	chosen(1, NULL, 7);
	chosen(-1, "", 2);
	chosen(-1, "private", 7);
	chosen(0, "private", 7);
	chosen(-1, "shared", 2);
	chosen(1, "shared", 2);
	CHECK_IS(setenv("USCHED_STACKS", "privat", 1), 0);
	usched_on_message(message);
	CHECK(SCHED(init)(1, 0) == -EINVAL && told == 1);
	usched_on_message(NULL);
	CHECK_IS(SCHED(private)(1), -EINVAL);
	CHECK_IS(unsetenv("USCHED_STACKS"), 0);
}

/* A maker that comes while the scheduler starts. */

static long early;

WRAP(int, pthread_create, pthread_t *id, const pthread_attr_t *attr,
     void *(*f)(void *), void *arg)
{
	for (; early > 0; early--)
		(void)make(0, counts, NULL);
	return __real_pthread_create(id, attr, f, arg);
}

static void starting(void)
{
	private_nr = 0;
	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	early = 20;
	start_and_finish();
	CHECK(early == 0 && private_nr == 20);
}

/* How many there are. */

static thread *all[SHRT_MAX + 1];

static void waits(void *arg)
{
	volatile long mine = (long)(intptr_t)arg;

	CHECK(is_private());
	add(&waiting, 1);
	wait_one();
	CHECK_IS(mine, (long)(intptr_t)arg);
	add(&ended, 1);
}

/* Makes threads until one is refused; patient: until there are most. */
static long fill(long most)
{
	long nr = 0;

	while (nr < SHRT_MAX) {
		all[nr] = try_make(0, waits, (void *)(intptr_t)nr);
		if (all[nr] != NULL)
			nr++;
		else if (errno != EAGAIN || nr >= most)
			break;
		else
			check_yield();
	}
	CHECK_IS(errno, EAGAIN);
	return nr;
}

static void wake_all(long nr)
{
	long i;

	for (i = 0; i < nr; i++)
		SCHED(wake)(all[i]);
}

static void limits(void)
{
	long nr, round;

	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	nr = fill(0);
	CHECK_THAT(nr, >=, 16384);
	SCHED(hold)();
	waiting = ended = 0;
	CHECK_IS(SCHED(start)(), 0);
	for (round = 1; round <= 3; round++) {
		until(&waiting, nr * round);
		CHECK(try_make(0, waits, NULL) == NULL && errno == EAGAIN);
		wake_all(nr);
		if (round < 3)
			CHECK_IS(fill(nr), nr);
	}
	SCHED(release)();
	finish();
	CHECK_IS(ended, 3 * nr);
}

/* Few addresses: makers hear of it. */
static void few_addresses(void)
{
	struct rlimit most;
	long nr, pages = 0;
	FILE *in = fopen("/proc/self/statm", "r");

	CHECK(in != NULL && fscanf(in, "%ld", &pages) == 1);
	fclose(in);
	waiting = ended = 0;
	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	SCHED(hold)();
	CHECK_IS(SCHED(start)(), 0);
	most.rlim_cur = most.rlim_max = (rlim_t)pages * 4096 + (300 << 20);
	CHECK_IS(setrlimit(RLIMIT_AS, &most), 0);
	for (nr = 0; nr < 16384; nr++) {
		all[nr] = try_make(0, waits, (void *)(intptr_t)nr);
		if (all[nr] == NULL)
			break;
	}
	CHECK(errno == ENOMEM && nr > 100 && nr < 16000);
	until(&waiting, nr);
	wake_all(nr);
	SCHED(release)();
	finish();
	CHECK_IS(ended, nr);
	_exit(42);
}

/* So few, that those made before the start cannot all have a stack. */
static void few_before(void)
{
	struct rlimit most;
	int i;

	private_nr = 0;
	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	for (i = 0; i < 16000; i++)
		CHECK(try_make(0, counts, NULL) != NULL);
	CHECK_IS(getrlimit(RLIMIT_AS, &most), 0);
	most.rlim_cur = (rlim_t)1 << 30;
	CHECK_IS(setrlimit(RLIMIT_AS, &most), 0);
	CHECK(SCHED(start)() == -ENOMEM && private_nr == 0);
	most.rlim_cur = most.rlim_max;
	CHECK_IS(setrlimit(RLIMIT_AS, &most), 0);
	private_nr = 0;
	start_and_finish();
	CHECK_IS(private_nr, 16000);
	_exit(42);
}

static void exits(void (*f)(void))
{
	char text[1024];
	int status = check_child(f, text, sizeof text);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
		fprintf(stderr, "%s", text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

/* Others. */

static void forked(void)
{
	CHECK(try_make(0, counts, NULL) == NULL && errno == ECHILD);
	CHECK_IS(SCHED(private)(1), -ECHILD);
	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	(void)make(0, counts, NULL);
	start_and_finish();
	_exit(private_nr == 1 ? 42 : 1);
}

static void forks(void)
{
	begin(1, 0);
	SCHED(hold)();
	CHECK_IS(SCHED(private)(1), 0);
	CHECK_IS(SCHED(start)(), 0);
	private_nr = 0;
	exits(forked);
	SCHED(release)();
	finish();
}

/* Without lanes all are refused, and all others run. */
static void none(void)
{
	begin(1, 0);
	CHECK_IS(SCHED(private)(1), 0);
	CHECK(try_make(0, counts, NULL) == NULL && errno == EAGAIN);
	CHECK_IS(SCHED(private)(0), 0);
	(void)make(0, counts, NULL);
	start_and_finish();
	CHECK_IS(shared_nr, 1);
}

int main(int argc, char **argv)
{
	static const int nr[] = { 1, 2, 140, MANY };
	bool plain = MANY > 1000;
	int i;

	check_start(argc, argv);
	unsetenv("USCHED_STACKS");
	if (usched_private_most(1) == 0) {
		none();
		return 0;
	}
	for (i = 0; i < 4; i++)
		objects(nr[i]);
#if defined(WS)
	while (moved == 0)
		objects(MANY);
#endif
	choosers();
	starting();
	if (plain) {
		limits();
		exits(few_addresses);
		exits(few_before);
	}
	check_forks();
	forks();
	return 0;
}
