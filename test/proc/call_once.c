/* SPDX-License-Identifier: MIT */
/* call_once: a call that blocks stops only its caller, and is made once. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs @test/run/fail.wrap -Wl,--wrap=pthread_detach */

/*
 * ucall.c is compiled here, with delays at its race windows, and replaces that
 * of the library, over rr. ("Natives" are native threads that make calls.)
 * While natives are in system calls that do not return, threads go on. At most
 * as many calls as the limit are made at once, in the order in which they were
 * asked. Each call that returns 0 was made once; any other call was never made.
 * No wake of the caller is lost or added, also if the caller ends at once.
 * Natives end when they are idle, and with the set. No signal handler of the
 * program runs in them, and they run on all cpus of the process. The argument of
 * a look-up is its caller's, or is dropped once; a native that comes back after
 * the end of the set ends, too, and the last frees the pool. All this holds with
 * any failure of memory, natives, sleeps and wakes.
 */
#include "window.h"

static long idle_ms = 5000;

#define UCALL_IDLE_MS	idle_ms
#include "ucall.c"
#include "either.h"
#include "fail.h"

#define LIMIT	8		/* of natives, unless set otherwise */

static long ended;

/* These loops sleep, since Valgrind would let no other thread run. */

/* For natives. */
static void sleep_until(long *at, long nr)
{
	while (get(at) < nr)
		usleep(50);
}

/* For threads. */
static void nap_until(long *at, long nr)
{
	while (get(at) < nr) {
		yield();
		usleep(1);
	}
}

static struct ucall_pool *calls;

static int try_call(void (*f)(void *), void *arg)
{
	return ucall_pool_call(calls, (struct uproc_thread *)rr_self(), f, arg);
}

static void call(void (*f)(void *), void *arg)
{
	CHECK_IS(try_call(f, arg), 0);
}

static void calls_begin(int p, int limit)
{
	set(&ended, 0);
	calls = ucall_pool_make();
	CHECK(calls != NULL && ucall_pool_limit(calls, limit) == 0);
	begin(p, 0);
}

static void calls_end(void)
{
	ucall_pool_free(calls);
	CHECK_IS(get(&fail_natives), 0);
}

static void calls_run(void)
{
	start_and_finish();
	calls_end();
}

/*
 * Checks that the running thread has nr wakes left, and that none is under way.
 */
static void wakes_left(int nr)
{
	struct uwakes *w = &rr_self()->r_thread.t_wakes;

	while (nr-- > 0)
		wait_one();
	CHECK(w->w_count == 0 && w->w_posted == 0);
}

static void wake_self(int nr)
{
	while (nr-- > 0)
		rr_wake(rr_self());
}

/*
 * As many readers as possible are in read(2). Only then, and after all other
 * threads have taken turns, another thread of the same processors writes, in a
 * different order.
 */

#define READERS	20

static int pipes[READERS][2];
static long inside, go_on;
static long all_inside;

static void reads(void *arg)
{
	int *p = arg;
	char c = 0;

	CHECK_IS(ustack_self(), NULL);
	add(&inside, 1);
	CHECK(read(p[0], &c, 1) == 1 && c == 'x');
	add(&inside, -1);
}

static void reader(void *arg)
{
	call(reads, arg);
	add(&ended, 1);
}

/* With a native for each reader, each write ends one call: that reader's. */
static void writer(void *arg)
{
	bool exact = all_inside == READERS;
	int i;

	nap_until(&inside, all_inside);
	for (i = 0; i < 100; i++)
		yield();
	CHECK(get(&ended) == 0 && get(&inside) == all_inside);
	for (i = READERS; i-- > 0; ) {
		CHECK_IS(write(pipes[i][1], "x", 1), 1);
		if (exact) {
			nap_until(&ended, READERS - i);
			CHECK_IS(get(&ended), READERS - i);
		}
	}
}

static void goes_on(int p, int limit)
{
	int i;

	all_inside = limit < READERS ? limit : READERS;
	set(&inside, 0);
	calls_begin(p, limit);
	for (i = 0; i < READERS; i++) {
		CHECK_IS(pipe(pipes[i]), 0);
		make(i, reader, pipes[i]);
	}
	make(0, writer, NULL);
	calls_run();
	CHECK(ended == READERS && inside == 0);
	for (i = 0; i < READERS; i++)
		CHECK(close(pipes[i][0]) == 0 && close(pipes[i][1]) == 0);
}

/*
 * There are as many calls at once as the limit, and no more. In turn: when a
 * job begins, all jobs before it have begun, except those that other natives
 * have just taken.
 */

#define CALLERS	60

static long limit, begun, arrived;

static void counts(void *arg)
{
	long i = (long)(intptr_t)arg;
	long nr = add(&begun, 1) - 1;

	CHECK_THAT(add(&inside, 1), <=, limit);
	if (i >= 0)
		CHECK_THAT(nr, >=, i - (limit - 1));
	if (add(&arrived, 1) < limit)
		sleep_until(&arrived, limit);	/* the first calls meet here */
	add(&inside, -1);
}

static void counter(void *arg)
{
	call(counts, arg);
	add(&ended, 1);
}

static void limited(int p, long nr)
{
	intptr_t i;

	limit = nr;
	set(&inside, 0);
	set(&begun, 0);
	set(&arrived, 0);
	calls_begin(p, (int)nr);
	for (i = 0; i < CALLERS; i++)
		make((int)i, counter, (void *)(p == 1 ? i : -1));
	calls_run();
	CHECK(ended == CALLERS && begun == CALLERS && inside == 0);
}

/* A thread that makes call after call needs one native. */

static void nothing(void *arg)
{
	add(arg, 1);
}

static void again_and_again(void *arg)
{
	static long nr;
	int i;

	set(&nr, 0);
	for (i = 0; i < 500; i++) {
		call(nothing, &nr);
		CHECK_IS(nr, i + 1);
		yield();
	}
	CHECK_IS(get(&fail_natives), (intptr_t)arg + 1);
	add(&ended, 1);
}

static void used_again(int p)
{
	calls_begin(p, LIMIT);
	make(0, again_and_again, (void *)(intptr_t)p);
	calls_run();
	CHECK_IS(ended, 1);
}

/* Idle natives end, unless not joined yet, and are made again. */

static void meets(void *arg)
{
	add(&inside, 1);
	sleep_until(&inside, LIMIT);
}

static void meeter(void *arg)
{
	call(meets, NULL);
	add(&ended, 1);
}

/* If one native is enough for all calls, it is always the same. */
static void idler(void *arg)
{
	intptr_t p = (intptr_t)arg;
	static long nr;
	int i, j;

	for (i = 1; i <= 3; i++) {
		set(&inside, 0);
		for (j = 0; j < LIMIT; j++)
			make(j, meeter, NULL);
		nap_until(&ended, i * LIMIT);
		while (get(&fail_natives) > (i == 2 ? p + 2 : p + 1)) {
			if (i == 2)
				call(nothing, &nr);
			yield();
			usleep(200);
		}
	}
}

static void idle_end(int p)
{
	idle_ms = 80;
	calls_begin(p, LIMIT);
	make(0, idler, (void *)(intptr_t)p);
	calls_run();
	CHECK_IS(ended, 3 * LIMIT);
	idle_ms = 5000;
}

/* Calls come just when idle natives are about to end. */

#define CLOSE	150

static void sleeps(void *arg)
{
	usleep((unsigned)(uintptr_t)arg);
}

static void sleeper(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	static long nr;
	int i;

	for (i = 0; i < CLOSE; i++) {
		usleep(900 + check_random(&state) % 200);
		call(i % 2 ? sleeps : nothing, i % 2 ?
		     (void *)(uintptr_t)(check_random(&state) % 1200) :
		     (void *)&nr);
	}
	add(&ended, 1);
}

static void idle_race(int p)
{
	intptr_t i;

	idle_ms = 1;
	calls_begin(p, LIMIT);
	for (i = 0; i < 3; i++)
		make((int)i, sleeper, (void *)i);
	calls_run();
	CHECK_IS(ended, 3);
	idle_ms = 5000;
}

/* Wakes during a call: stored before, by the native, and by another thread. */

#define STORED	5
#define NATIVE	4
#define OTHER	7
#define ALL	(STORED + NATIVE + OTHER)

static thread *target;
static long sync_nr;

static void wakes_target(void *arg)
{
	int i;

	add(&sync_nr, 1);
	for (i = 0; i < NATIVE; i++) {
		if (i % 2)
			rr_wake(target);
		else
			rr_post(target);
	}
	if (arg != NULL)
		sleep_until(&sync_nr, 2);
}

static void pesters(void *arg)
{
	int i;

	nap_until(&sync_nr, 1);
	for (i = 0; i < OTHER; i++) {
		rr_wake(target);
		if (i == OTHER / 2)
			add(&sync_nr, 1);
	}
	add(&ended, 1);
}

static void pestered(void *arg)
{
	intptr_t how = (intptr_t)arg;

	make((int)how, pesters, NULL);
	if (how & 1)
		wake_self(STORED);
	call(wakes_target, how & 2 ? &sync_nr : NULL);
	wakes_left(how & 1 ? ALL : ALL - STORED);
	add(&ended, 1);
}

static void keeps_wakes(int p, intptr_t how)
{
	set(&sync_nr, 0);
	calls_begin(p, LIMIT);
	target = make(0, pestered, (void *)how);
	calls_run();
	CHECK_IS(ended, 2);
}

/*
 * The caller ends at once, with wakes left, and another thread takes its
 * memory. The wake at the end of the call must not go to that thread.
 */

static long left_nr, allowed_nr;

static void leaver(void *arg)
{
	static long nr;

	wake_self(50);
	call(nothing, &nr);
	add(&left_nr, 1);
}

static void heir(void *arg)
{
	wait_one();
	CHECK_THAT(get(&allowed_nr), >, (long)(intptr_t)arg);
}

static void nurse(void *arg)
{
	long i, j;

	for (i = 0; i < (intptr_t)arg; i++) {
		thread *t;

		make(0, leaver, NULL);
		nap_until(&left_nr, i + 1);
		t = make(0, heir, (void *)i);
		for (j = 0; j < 20; j++)
			yield();
		set(&allowed_nr, i + 1);
		rr_wake(t);
		yield();
	}
	add(&ended, 1);
}

static void leaves(int p, intptr_t nr)
{
	set(&left_nr, 0);
	set(&allowed_nr, 0);
	calls_begin(p, LIMIT);
	make(0, nurse, (void *)nr);
	calls_run();
	CHECK_IS(ended, 1);
}

/* Without memory to wait, nothing is called. */

static void stays(void *arg)
{
	add(&inside, 1);
	sleep_until(&go_on, 1);
}

static void blocker(void *arg)
{
	call(stays, NULL);
	add(&ended, 1);
}

static long called;

static void in_turn(void *arg)
{
	nap_until(&inside, 1);
	call(nothing, &called);
	CHECK_IS(get(&go_on), 1);
	add(&ended, 1);
}

/* Memory is refused to one thread, after so many times. */
static thread *refused;
static int given, asked;
static void *(*real_alloc)(struct usched *s, int size);

static void *few(struct usched *s, int size)
{
	return rr_self() == refused && asked++ >= given ? NULL :
		real_alloc(s, size);
}

/* The call has begun: from here on the caller must not need memory. */
static void sure_call(void *arg)
{
	usleep((unsigned)check_hash(2, (unsigned)given) % 2000);
	add(arg, 1);
}

/*
 * A new thread, which has no buffer, asks for a record, and for a buffer.
 * Without them the call returns, and was not made, nor is it later. With them
 * it needs nothing more. (The hard mode asks malloc() for more, too.)
 */
static void is_refused(void *arg)
{
	int stored = (int)(intptr_t)arg;
	int rc;

	wake_self(stored);
	asked = 0;
	refused = rr_self();
	rc = try_call(sure_call, &called);
	refused = NULL;
	CHECK(rc == (given < 2 ? -ENOMEM : 0) && called == (rc == 0));
	CHECK_IS(asked, given < 2 ? given + 1 : 2);
	wakes_left(stored);
	add(&ended, 1);
}

static void refuser(void *arg)
{
	int i;

	real_alloc = rr_sched(0)->s_alloc;
	rr_sched(0)->s_alloc = few;
	for (i = 0; i < 50; i++) {
		called = 0;
		given  = i % 10;
		make(0, is_refused, (void *)(intptr_t)(i / 10));
		nap_until(&ended, i + 1);
	}
	rr_sched(0)->s_alloc = real_alloc;
}

static void refusal(void)
{
	calls_begin(1, 1);
	make(0, refuser, NULL);
	calls_run();
	CHECK_IS(ended, 50);
}

/* A call makes threads, which make calls. A call cannot make a call itself. */

#define NEST	4

static void nest(void *arg);

static void nest_thread(void *arg)
{
	call(nest, arg);
	add(&ended, 1);
}

static void nest(void *arg)
{
	intptr_t level = (intptr_t)arg;
	int i;

	CHECK(ustack_self() == NULL && rr_self() == NULL);
	CHECK_IS(try_call(nest, arg), -EINVAL);
	for (i = 0; i < 3 && level > 0; i++)
		make(i, nest_thread, (void *)(level - 1));
}

static void nested(int p)
{
	calls_begin(p, 2);
	make(0, nest_thread, (void *)NEST);
	calls_run();
	CHECK_IS(ended, 1 + 3 + 9 + 27 + 81);
}

/* Misuse, and each failure of the library's own. */

static void no_function(void *arg)
{
	CHECK_IS(try_call(NULL, NULL), -EINVAL);
	add(&ended, 1);
}

static void misuse(void)
{
	CHECK_IS(ucall_pool_call(NULL, NULL, nothing, NULL), -EINVAL);
	CHECK_IS(ucall_pool_limit(NULL, 1), -EINVAL);
	ucall_pool_free(NULL);
	calls_begin(1, 1);
	CHECK_IS(ucall_pool_limit(calls, 0), -EINVAL);
	CHECK_IS(ucall_pool_limit(calls, -1), -EINVAL);
	CHECK_IS(try_call(nothing, NULL), -EINVAL);
	make(0, no_function, NULL);
	calls_run();
	CHECK_IS(ended, 1);
	fail_arm(FAIL_INIT, 1, false);
	CHECK(ucall_pool_make() == NULL && errno == ENOMEM);
#if !defined(USCHED_HARD)
	fail_arm(FAIL_MEMORY, 1, false);
	CHECK(ucall_pool_make() == NULL && errno == ENOMEM);
#endif
	fail_rest();
	fail_clean();
}

static void exits(void *arg)
{
	pthread_exit(NULL);
}

static void calls_exits(void *arg)
{
	call(exits, NULL);
}

static void exit_in_call(void)
{
	check_watch(1);
	calls_begin(1, 1);
	make(0, calls_exits, NULL);
	calls_run();
}

static void *no_memory(struct usched *s, int size)
{
	return NULL;
}

static void none_to_be_had(void *arg)
{
	struct usched *sched = rr_sched(0);
	void *(*alloc)(struct usched *, int);

	fail_arm(FAIL_THREAD, 1, true);
	CHECK_IS(try_call(nothing, &called), -EAGAIN);
	CHECK_IS(try_call(nothing, &called), -EAGAIN);
	fail_rest();
	make(0, blocker, NULL);
	nap_until(&inside, 1);
	alloc = sched->s_alloc;
	sched->s_alloc = no_memory;
	CHECK_IS(try_call(nothing, &called), -ENOMEM);
	sched->s_alloc = alloc;
	fail_arm(FAIL_THREAD, 1, true);
	make(0, in_turn, NULL);
	make(0, in_turn, NULL);
	yield();
	yield();
	CHECK_IS(get(&called), 0);
	set(&go_on, 1);
	nap_until(&ended, 3);
	CHECK(fail_told() == 2 && get(&called) == 2);
	fail_rest();
}

static void failures(void)
{
	set(&inside, 0);
	set(&go_on, 0);
	set(&called, 0);
	calls_begin(1, LIMIT);
	make(0, none_to_be_had, NULL);
	calls_run();
	CHECK_IS(called, 2);
	fail_clean();
}

/*
 * Signals of the process come all the time. main() blocks them meanwhile, so
 * the processors get them. Signals that report errors are left alone.
 */

static __thread int in_call;
static long handled;

static void handler(int signo)
{
	CHECK(!in_call);
	add(&handled, 1);
}

static bool blocks(int signo)
{
	sigset_t now;

	CHECK_IS(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, signo);
}

static void waits_for_signals(void *arg)
{
	long first;

	CHECK(blocks(SIGUSR1) && blocks(SIGINT) && blocks(SIGURG));
	CHECK(!blocks(SIGSEGV) && !blocks(SIGFPE));
	in_call = 1;
	for (first = get(&handled); get(&handled) < first + 20; )
		CHECK_IS(usleep(100), 0);	/* not EINTR */
}

static void signalled(void *arg)
{
	int i;

	for (i = 0; i < 5; i++) {
		call(waits_for_signals, NULL);
		CHECK(!blocks(SIGUSR1) && !blocks(SIGINT));
	}
	add(&ended, 1);
}

static void *sends(void *arg)
{
	sigset_t mine;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &mine, NULL), 0);
	while (get(arg) == 0) {
		CHECK_IS(kill(getpid(), SIGUSR1), 0);
		usleep(50);
	}
	return NULL;
}

static void signals_elsewhere(int p)
{
	struct sigaction sa = { .sa_handler = handler };
	static long stop;
	sigset_t usr1;
	pthread_t id;
	int i;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK_IS(sigaction(SIGUSR1, &sa, NULL), 0);
	set(&stop, 0);
	calls_begin(p, LIMIT);
	for (i = 0; i < 6; i++)
		make(i, signalled, NULL);
	CHECK_IS(rr_start(), 0);
	id = native(sends, &stop);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	finish();
	set(&stop, 1);
	native_join(id);
	CHECK_IS(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
	calls_end();
	CHECK_IS(ended, 6);
}

/* Calls run on the cpus of the process, not on the cpu of their processor. */

#if defined(__linux__)
static cpu_set_t may;

static void where(void *arg)
{
	cpu_set_t mask;

	CHECK_IS(sched_getaffinity(0, sizeof mask, &mask), 0);
	CHECK(CPU_EQUAL(&mask, &may));
	add(arg, 1);
}

static void pinned(void *arg)
{
	cpu_set_t mask;

	CHECK_IS(sched_getaffinity(0, sizeof mask, &mask), 0);
	CHECK_IS(CPU_COUNT(&mask), 1);
	call(where, &ended);
}

static void run_where(int p)
{
	int i;

	calls_begin(p, LIMIT);
	for (i = 0; i < 2 * LIMIT; i++)
		make(i, pinned, NULL);
	calls_run();
	CHECK_IS(ended, 2 * LIMIT);
}

static void affinity(void)
{
	cpu_set_t all, one;
	int cpu;

	CHECK_IS(sched_getaffinity(0, sizeof all, &all), 0);
	may = all;
	run_where(2);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		CHECK_IS(sched_setaffinity(0, sizeof one, &one), 0);
		may = one;
		run_where(2);
		goes_on(2, READERS);
		leaves(2, 100);
	}
	CHECK_IS(sched_setaffinity(0, sizeof all, &all), 0);
}
#else
static void affinity(void)
{
}
#endif

/* All at random. */

#define RANDOM	40
#define ROUNDS	25

struct any {
	thread  *y_thread;
	unsigned y_state;
	int      y_wakes;	/* wakes by the native */
	long     y_made;
};

static void any_call(void *arg)
{
	struct any *y = arg;
	int i;

	if (y->y_state % 7 == 0)
		usleep(y->y_state % 300);
	for (i = 0; i < y->y_wakes; i++)
		rr_wake(y->y_thread);
	y->y_made++;
}

static void any(void *arg)
{
	struct any *y = arg;
	int i, wakes = 0;

	for (i = 0; i < ROUNDS; i++) {
		int stored = (int)(check_random(&y->y_state) % 3);

		y->y_wakes = (int)(check_random(&y->y_state) % 3);
		wake_self(stored);
		call(any_call, y);
		CHECK_IS(y->y_made, i + 1);
		wakes += stored + y->y_wakes;
		if (check_random(&y->y_state) % 2 == 0)
			yield();
		for (; wakes > 2; wakes--)
			wait_one();
	}
	wakes_left(wakes);
	add(&ended, 1);
}

static void at_random(int p, unsigned *state)
{
	static struct any y[RANDOM];
	int i;

	calls_begin(p, 1 + (int)(check_random(state) % 6));
	for (i = 0; i < RANDOM; i++) {
		y[i].y_state = check_random(state);
		y[i].y_made  = 0;
		y[i].y_thread = make(i, any, &y[i]);
	}
	calls_run();
	CHECK_IS(ended, RANDOM);
}

/* Look-ups. Threads ask, and answers come before, with and after the deadline. */

#define ASKERS	10
#define ASKS	60

struct ask {
	unsigned k_us;
	bool     k_answered;
};

static long asks_nr, kept, dropped;

WRAP(int, pthread_detach, pthread_t id)
{
	int rc = __real_pthread_detach(id);

	CHECK_IS(rc, 0);
	fail_count(&fail_natives, -1);
	return rc;
}

static void answers(void *arg)
{
	struct ask *k = arg;

	CHECK(ustack_self() == NULL && !k->k_answered);
	if (k->k_us > 0)
		usleep(k->k_us);
	k->k_answered = true;
}

static void drops(void *arg)
{
	CHECK(ustack_self() == NULL || !((struct ask *)arg)->k_answered);
	free(arg);
	add(&dropped, 1);
}

/* Asks once. */
static int ask(unsigned us, utime_ns until)
{
	struct ask *k = malloc(sizeof *k);
	int rc;

	if (k == NULL)
		return -ENOMEM;
	*k = (struct ask) { us, false };
	add(&asks_nr, 1);
	rc = ucall_lookup(answers, drops, k, until);
	if (rc == 0) {
		CHECK(k->k_answered);
		free(k);
		add(&kept, 1);
	}
	return rc;
}

static void asker(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	utime_ns until;
	int i, rc;

	for (i = 0; i < ASKS; i++) {
		until = check_random(&state) % 4 == 0 ? UNEVER :
			uafter(1 + check_random(&state) % 400000);
		rc = ask(check_random(&state) % 3 * 100, until);
		CHECK(rc == 0 || (rc == -ETIMEDOUT && until != UNEVER));
	}
	(void)ask(20000, uafter(1000000));	/* goes on after the set */
	add(&ended, 1);
}

/* Waits until all that was asked has come back. */
static void all_back(void)
{
	while (get(&kept) + get(&dropped) < get(&asks_nr) ||
	       get(&fail_natives) > 0 || get(&fail_mutexes) > 0)
		usleep(50);
	CHECK_IS(get(&kept) + get(&dropped), get(&asks_nr));
}

static void look_ups(int p)
{
	intptr_t i;

	set(&ended, 0);
	begin(p, 0);
	for (i = 0; i < ASKERS; i++)
		make((int)i, asker, (void *)i);
	start_and_finish();
	CHECK_IS(ended, ASKERS);
	all_back();
	fail_clean();
}

/* Each call to the system fails once, or from then on. */

#define TASKS	4
#define TRIES	3

static long made, returned;

static void task_call(void *arg)
{
	rr_wake(arg);
	add(&made, 1);
}

/* Calls with a slice that may need a buffer from malloc(). */
static NOINLINE int call_deep(int nob)
{
	volatile char space[nob];
	int rc;

	space[0] = space[nob - 1] = 5;
	rc = try_call(task_call, rr_self());
	CHECK(space[0] == 5 && space[nob - 1] == 5);
	return rc;
}

static void task(void *arg)
{
	int i, rc, nr = 0;

	for (i = 0; i < 4; i++) {
		rc = call_deep(i % 2 ? 70000 : 100);
		CHECK(rc == 0 || ((rc == -ENOMEM || rc == -EAGAIN) &&
				  fail_told() > 0));
		if (rc != 0 && fail.f_all && i == 3)
			fail_rest();
		nr += rc == 0;
	}
	rc = ask(0, UNEVER);
	CHECK(rc == 0 || ((rc == -ENOMEM || rc == -EAGAIN) && fail_told() > 0));
	rc = ask(50, uafter(20000));
	CHECK(rc == 0 || rc == -ETIMEDOUT ||
	      ((rc == -ENOMEM || rc == -EAGAIN) && fail_told() > 0));
	add(&returned, nr);
	while (nr > 0) {
		rc = rr_wait();
		CHECK(rc == 0 || (rc == -ENOMEM && fail_told() > 0));
		if (rc == 0)
			nr--;
		else if (fail.f_all)
			fail_rest();
	}
	CHECK_IS(rr_self()->r_thread.t_wakes.w_count, 0);
	add(&ended, 1);
}

/* Calls f() until it works. */
static void insist(int (*f)(void))
{
	int tries, rc;

	for (tries = TRIES; (rc = f()) != 0; tries--) {
		CHECK(fail_told() > 0 && fail_natives == 0 && tries > 0);
		if (tries == 1)
			fail_rest();
	}
}

static int proc_nr;

static int init(void)
{
	return rr_init(proc_nr, 0);
}

static int calls_init(void)
{
	calls = ucall_pool_make();
	return calls != NULL ? 0 : -errno;
}

static void scenario(int p)
{
	int i;

	ended = made = returned = 0;
	proc_nr = p;
	insist(calls_init);
	CHECK_IS(ucall_pool_limit(calls, 2), 0);
	insist(init);
	for (i = 0; i < TASKS; i++) {
		while (try_make(i, task, NULL) == NULL) {
			CHECK_THAT(fail_told(), >, 0);
			if (fail.f_all)
				fail_rest();
		}
	}
	insist(rr_start);
	finish();
	ucall_pool_free(calls);
	all_back();
	CHECK(ended == TASKS && made == returned);
}

/*
 * clang links in the runtime of its sanitizers, whose calls would be counted.
 */
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RUNTIME_LINKED	1
#endif
#endif
#if !defined(RUNTIME_LINKED)
#define RUNTIME_LINKED	0
#endif

static void each_fails(void)
{
	int p;

	idle_ms = 2;		/* a lost wake is missed for this long */
	fail_sample = 61;
	for (p = 1; p <= 2; p++)
		fail_all(scenario, p);
	idle_ms = 5000;
}

int main(int argc, char **argv)
{
	unsigned state;
	int i;

	check_start(argc, argv);
	state = check_seed;
	doing("in misuse");
	misuse();
	CHECK_IS(check_dies("pthread_exit", exit_in_call, "call: "), 0);
	failures();
	for (i = 1; i <= 3; i++) {
		doing("in goes_on");
		goes_on(i, READERS);
		goes_on(i, 3);
		doing("in limited");
		limited(i, 1);
		limited(i, 3);
		limited(i, 8);
		doing("in used_again");
		used_again(i);
		doing("in nested");
		nested(i);
		doing("in idle_end");
		idle_end(i);
		doing("in idle_race");
		idle_race(i);
		doing("in leaves");
		leaves(i, 500);
		doing("in refusal");
		refusal();
		doing("in signals");
		signals_elsewhere(i);
	}
	doing("in keeps_wakes");
	for (i = 0; i < 200; i++)
		keeps_wakes(1 + i % 3, i / 3 % 4);
	doing("in at_random");
	for (i = 0; i < 20; i++)
		at_random(1 + i % 3, &state);
	for (i = 0; i < 9; i++) {
		doing("in look_ups");
		look_ups(1 + i % 3);
	}
	doing("in affinity");
	affinity();
	if (!RUNTIME_LINKED)
		each_fails();
	window_check("call_wake call_nap call_woken");
	window_check("call_claim call_complete call_release call_leave");
	return 0;
}
