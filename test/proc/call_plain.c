/* SPDX-License-Identifier: MIT */
/* call_plain: ucall() in threads of plain dispatchers stops only its caller. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs @test/run/fail.wrap -Wl,--wrap=pthread_detach */

/*
 * uwait.c, uplain.c and ucall.c are compiled here, with delays at their races, and
 * replace those of the library. The dispatcher counts wakes, or it does not, and
 * then it fails if a thread is woken that does not wait. While calls block,
 * other threads run, sleep until deadlines and wait for descriptors. A call that
 * ends wakes its dispatcher from each of these sleeps, and only its caller. No
 * cancellation ends a call. Several dispatchers of a native thread, and of
 * several, have their calls for themselves. A look-up ends at its deadline, and
 * its native, which comes back after the end of the dispatcher, frees its answer.
 * All this holds with any failure of memory, natives, sleeps and wakes.
 */
#include "window.h"

static long idle_ms = 5000;

#define UCALL_IDLE_MS	idle_ms
#include "uwait.c"
#include "uplain.c"
#include "ucall.c"
#include "counts.h"
#include "plain.h"
#include "fail.h"
#include "ufile.h"
#include "uio.h"
#include "uscope.h"

#include <fcntl.h>
#include <sys/wait.h>

static bool counting;			/* wakes */
static int  lanes;
static long ended_nr, inside, gate;

/* A dispatcher that does not count wakes. */

static int bare_wait(struct usched *s)
{
	struct plain_thread *me = (struct plain_thread *)ustack_self();
	int rc;

	CHECK(me->pt_tiny.tt_stack.u_sched == s && me->pt_wakes == 0);
	me->pt_wakes = -1;
	rc = ustack_block();
	if (rc != 0)
		me->pt_wakes = 0;
	CHECK_IS(me->pt_wakes, 0);
	return rc;
}

static void bare_wake(struct usched *s, struct ustack *u)
{
	struct plain_thread *t = (struct plain_thread *)u;

	CHECK(u->u_sched == s && u != ustack_self() && t->pt_wakes == -1);
	t->pt_wakes = 0;
	tiny_wake(&t->pt_tiny);
}

static void begins(struct tiny *t)
{
	int rc;

	while ((rc = plain_init(t, lanes)) != 0 && rc != -ENOSYS)
		fail_repeat();
	if (counting)
		return;
	t->t_sched.s_wait = bare_wait;
	t->t_sched.s_wake = bare_wake;
}

static void make(struct tiny *t, void (*f)(void *), void *arg)
{
	CHECK_IS(plain_make(&t->t_sched, f, arg), 0);
}

static void runs(struct tiny *t)
{
	tiny_run(t);
	plain_fini(t);
	CHECK_IS(get(&fail_natives), 0);
}

static void alone(void (*f)(void *), void *arg)
{
	struct tiny t;

	set(&ended_nr, 0);
	begins(&t);
	make(&t, f, arg);
	runs(&t);
	CHECK_IS(get(&ended_nr), 1);
}

/* For threads. These loops sleep, since Valgrind would let no other run. */
static void yields_until(long *at, long nr)
{
	while (get(at) < nr) {
		tiny_yield();
		usleep(1);
	}
}

/* For natives. */
static void sleeps_until(long *at, long nr)
{
	while (get(at) < nr)
		usleep(50);
}

static void nothing(void *arg)
{
	CHECK_IS(ustack_self(), NULL);
	add(arg, 1);
}

static void naps(void *us)
{
	CHECK_IS(ustack_self(), NULL);
	if (us != NULL)
		usleep((unsigned)(uintptr_t)us);
}

static void stays(void *arg)
{
	add(&inside, 1);
	sleeps_until(&gate, (intptr_t)arg);
	add(&inside, -1);
}

/*
 * As many readers as the limit are in read(2). Only then, and after all other
 * threads have taken turns, another thread writes, in the opposite order.
 */

#define READERS	20

static int pipes[READERS][2];
static long all_inside;

static void reads(void *arg)
{
	int *p = arg;
	char c = 0;

	add(&inside, 1);
	CHECK(read(p[0], &c, 1) == 1 && c == 'x');
	add(&inside, -1);
}

static void reader(void *arg)
{
	CHECK_IS(ucall(reads, arg), 0);
	add(&ended_nr, 1);
}

static void writer(void *arg)
{
	int i;

	(void)arg;
	yields_until(&inside, all_inside);
	for (i = 0; i < 50; i++)
		tiny_yield();
	CHECK(get(&ended_nr) == 0 && get(&inside) == all_inside);
	for (i = READERS; i-- > 0; ) {
		CHECK_IS(write(pipes[i][1], "x", 1), 1);
		if (all_inside == READERS)
			yields_until(&ended_nr, READERS - i);
	}
}

static void goes_on(int limit)
{
	struct tiny t;
	int i;

	doing("in goes_on");
	CHECK_IS(ucall_limit(limit), 0);
	all_inside = limit < READERS ? limit : READERS;
	set(&ended_nr, 0);
	begins(&t);
	for (i = 0; i < READERS; i++) {
		CHECK_IS(pipe(pipes[i]), 0);
		make(&t, reader, pipes[i]);
	}
	make(&t, writer, NULL);
	runs(&t);
	CHECK(ended_nr == READERS && inside == 0);
	for (i = 0; i < READERS; i++)
		CHECK(close(pipes[i][0]) == 0 && close(pipes[i][1]) == 0);
	CHECK_IS(ucall_limit(UCALL_LIMIT), 0);
}

/* The dispatcher sleeps: for ever, or until a deadline that ends the call. */

static void opens(void *arg)
{
	(void)arg;
	do
		CHECK_IS(u_sleep(uafter(2 * UTIME_MS)), 0);
	while (get(&inside) == 0);
	CHECK(get(&inside) == 1 && get(&ended_nr) == 0);
	set(&gate, 1);
}

static void timed(void *s)
{
	int i;

	for (i = 0; i < 2000; i++)
		CHECK_IS(ucall(naps, (void *)(uintptr_t)(i % 20 / 19 * 50)), 0);
	set(&gate, 0);
	make(s, opens, NULL);
	CHECK_IS(ucall(stays, (void *)1), 0);
	CHECK_IS(get(&gate), 1);
	add(&ended_nr, 1);
}

static void deadlines(void)
{
	struct tiny t;

	doing("in deadlines");
	set(&ended_nr, 0);
	begins(&t);
	make(&t, timed, &t);
	runs(&t);
	CHECK_IS(ended_nr, 1);
}

/*
 * While one thread waits for a descriptor, another calls. The function writes
 * there just before it ends. So the dispatcher is woken twice: by the descriptor
 * in which it sleeps, and by the call. It ends at once after that.
 */

static int wire[2];
static long read_nr;

static void takes(void *nr)
{
	char c;

	for (; read_nr < (intptr_t)nr; read_nr++)
		CHECK(u_read(wire[0], &c, 1, UNEVER) == 1 && c == 'y');
	add(&ended_nr, 1);
}

static void puts_one(void *us)
{
	usleep((unsigned)(uintptr_t)us);
	CHECK_IS(write(wire[1], "y", 1), 1);
}

static void gives(void *nr)
{
	intptr_t i;

	for (i = 0; i < (intptr_t)nr; i++) {
		CHECK_IS(ucall(naps, (void *)(i % 4 * 10)), 0);
		CHECK_IS(ucall(puts_one, (void *)(i % 3 * 10)), 0);
	}
	add(&ended_nr, 1);
}

static void with_descriptors(intptr_t nr, bool call_first)
{
	struct tiny t;

	doing("in with_descriptors");
	set(&ended_nr, 0);
	read_nr = 0;
	begins(&t);
	make(&t, call_first ? gives : takes, (void *)nr);
	make(&t, call_first ? takes : gives, (void *)nr);
	runs(&t);
	CHECK_IS(ended_nr, 2);
}

/* A cancellation, and a wake by the program, end no call. */

static int is_canceled(void *arg)
{
	CHECK_IS(ucall(stays, arg), 0);
	CHECK(get(&gate) == 1 && u_canceled());
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	return -ECANCELED;
}

static void cancels(void *arg)
{
	struct uscope *s;
	int i;

	(void)arg;
	set(&gate, 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(uscope_go(s, is_canceled, (void *)1), 0);
	yields_until(&inside, 1);
	uscope_cancel(s);
	for (i = 0; i < 20; i++)
		tiny_yield();
	CHECK_IS(get(&inside), 1);
	set(&gate, 1);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	add(&ended_nr, 1);
}

static struct plain_thread *pestered_by;

static void pestered(void *arg)
{
	(void)arg;
	pestered_by = (struct plain_thread *)ustack_self();
	CHECK_IS(ucall(stays, (void *)1), 0);
	CHECK(get(&gate) == 1 && pestered_by->pt_wakes == 0);
	add(&ended_nr, 1);
}

static void pesters(void *s)
{
	int i;

	set(&gate, 0);
	make(s, pestered, NULL);
	yields_until(&inside, 1);
	for (i = 0; i < 5; i++) {
		((struct usched *)s)->s_wake(s, &pestered_by->pt_tiny.tt_stack);
		tiny_yield();
	}
	CHECK_IS(get(&ended_nr), 0);
	set(&gate, 1);
}

/* The wait for the end of a call takes other wakes, and goes on: uwait.h. */
static void takes_wakes(void)
{
	struct tiny t;

	doing("in takes_wakes");
	set(&ended_nr, 0);
	begins(&t);
	make(&t, pesters, &t);
	runs(&t);
	CHECK_IS(ended_nr, 1);
}

/* Without memory to wait, nothing is called. */

static void in_need(void *arg)
{
	struct tiny *t = (struct tiny *)ustack_self()->u_sched;
	long called = 0, *heap = malloc(sizeof *heap);
	int rc;

	*heap = 0;
	t->t_fail     = t->t_allocs + (intptr_t)arg / 2;
	t->t_fail_all = (intptr_t)arg % 2;
	rc = ucall(nothing, heap);
	t->t_fail = 0;
	called = get(heap);
	CHECK(rc == 0 || (rc == -ENOMEM && t->t_failed > 0));
	CHECK(rc != 0 || t->t_failed == 0 || !((intptr_t)arg % 2));
	CHECK_IS(called, rc == 0);
	CHECK(ucall(nothing, heap) == 0 && get(heap) == called + 1);
	free(heap);
	add(&ended_nr, 1);
}

/* how: the number of the s_alloc() that fails, twice; and one, if all do. */
static long refused(intptr_t how)
{
	struct tiny t;

	set(&ended_nr, 0);
	begins(&t);
	make(&t, in_need, (void *)how);
	tiny_run(&t);
	CHECK_IS(ended_nr, 1);
	plain_fini(&t);
	return t.t_failed;
}

static void refusal(void)
{
	intptr_t at = 1;

	doing("in refusal");
	while (refused(2 * at) > 0 && refused(2 * at + 1) > 0)
		at++;
	CHECK_THAT(at, >, 3);		/* base, record, buffer */
}

/*
 * A thread that cannot block takes what was posted: by itself, and by a native
 * thread. Its s_wait() fails from the post on.
 */

static int (*real_wait)(struct usched *s);

static int fails_once_posted(struct usched *s)
{
	while (!uwait_posted(s->s_waits))
		usleep(50);
	return -ENOMEM;
}

static void others_turn(void *arg)
{
	add(arg, 1);
}

static void cannot_block(void *arg)
{
	struct usched *s = ustack_self()->u_sched;
	static long called, turns;

	(void)arg;
	set(&called, 0);
	set(&turns, 0);
	make((struct tiny *)s, others_turn, &turns);
	real_wait = s->s_wait;
	CHECK(ucall(nothing, &called) == 0 && turns == 1);
	make((struct tiny *)s, others_turn, &turns);
	s->s_wait = fails_once_posted;
	CHECK(ucall(nothing, &called) == 0 && called == 2);
	CHECK_IS(uwait_give_way(), 0);
	s->s_wait = real_wait;
	CHECK_IS(turns, 1);
	CHECK(ucall(nothing, &called) == 0 && called == 3 && turns == 2);
	CHECK_IS(((struct plain_thread *)ustack_self())->pt_wakes, 0);
	add(&ended_nr, 1);
}

/* Several dispatchers: nested, and of several native threads. */

static long turn_nr;

static void outer(void *arg)
{
	(void)arg;
	CHECK_IS(ucall(stays, (void *)1), 0);
	add(&ended_nr, 1);
}

static void inner(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 50; i++)
		CHECK_IS(ucall(i == 25 ? others_turn : naps, i == 25 ? &gate :
			 (void *)20), 0);
	set(&turn_nr, get(&ended_nr));	/* the outer one stands still */
}

static void nests(void *arg)
{
	struct tiny t;
	int i;

	(void)arg;
	yields_until(&inside, 1);
	begins(&t);
	for (i = 0; i < 3; i++)
		make(&t, inner, NULL);
	tiny_run(&t);
	plain_fini(&t);
	CHECK_IS(turn_nr, 0);
	add(&ended_nr, 1);
}

static void nested(void)
{
	struct tiny t;

	doing("in nested");
	set(&ended_nr, 0);
	set(&gate, 0);
	begins(&t);
	make(&t, outer, NULL);
	make(&t, nests, NULL);
	runs(&t);
	CHECK_IS(ended_nr, 2);
}

static void meets(void *at)
{
	add(at, 1);
	sleeps_until(at, 2);
}

/* Calls, of which at times two of different dispatchers must be made at once. */
static void calls_often(void *met)
{
	long *called = malloc(sizeof *called);
	int i;

	*called = 0;
	for (i = 0; i < 40; i++)
		CHECK(ucall(nothing, called) == 0 && get(called) == i + 1);
	CHECK_IS(ucall(meets, met), 0);
	free(called);
	add(&ended_nr, 1);
}

#define SETS	2
#define EACH	4

static void *a_set(void *met)
{
	struct tiny t;
	int i;

	begins(&t);
	for (i = 0; i < EACH; i++)
		make(&t, calls_often, (long *)met + i);
	tiny_run(&t);
	plain_fini(&t);
	return NULL;
}

static void several(void)
{
	pthread_t id[SETS];
	long met[EACH] = { 0 };
	int i;

	doing("in several");
	set(&ended_nr, 0);
	for (i = 0; i < SETS; i++)
		CHECK_IS(pthread_create(&id[i], NULL, a_set, met), 0);
	for (i = 0; i < SETS; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
	CHECK(ended_nr == SETS * EACH && get(&fail_natives) == 0);
}

/* In the child of a thread's fork the pool is the parent's, or its own. */
static void forks(void *called_before)
{
	static long called;
	pid_t pid;
	int status = 0;

	set(&called, 0);
	if (called_before != NULL)
		CHECK_IS(ucall(nothing, &called), 0);
	pid = fork();
	if (pid == 0) {
		int rc = ucall(nothing, &called);

		_exit(called_before != NULL ? rc == -ECHILD && called == 1 :
		      rc == 0 && called == 1);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK_IS(ucall(nothing, &called), 0);
	add(&ended_nr, 1);
}

/* A dispatcher that stops with a call under way goes on later. */

/* Runs each thread that is ready, and does not wait for others. */
static struct ustack *next_ready(struct usched *s)
{
	utime_run(s);
	return tiny_next(s);
}

/* Runs t, whose thread is in its call then. */
static void stops(struct tiny *t)
{
	set(&ended_nr, 0);
	set(&gate, 0);
	begins(t);
	make(t, outer, NULL);
	t->t_sched.s_next = next_ready;
	tiny_run(t);
	CHECK_IS(ended_nr, 0);
}

static void stopping(void)
{
	struct tiny t;

	doing("in stopping");
	stops(&t);
	set(&gate, 1);
	t.t_sched.s_next = plain_next;
	runs(&t);
	CHECK_IS(ended_nr, 1);
}

static void ends_too_early(void)
{
	struct tiny t;

	stops(&t);
	plain_fini(&t);
}

/* Misuse. */

static void wrong(void *arg)
{
	struct usched *s = ustack_self()->u_sched;
	int (*wait)(struct usched *) = s->s_wait;

	(void)arg;
	CHECK_IS(ucall(NULL, NULL), -EINVAL);
	s->s_wait = NULL;
	CHECK_IS(ucall(nothing, &ended_nr), -ENOSYS);
	s->s_wait = wait;
	add(&ended_nr, 1);
}

/* The breach: it writes to the stack of a thread that waits by now. */
static void writes_late(void *arg)
{
	sleeps_until(&gate, 1);
	add(arg, 1);
}

static void on_its_stack(void *arg)
{
	long here = 0;

	(void)arg;
	(void)ucall(writes_late, &here);
}

/* Runs once the other waits. */
static void lets_it(void *arg)
{
	(void)arg;
	set(&gate, 1);
}

static void argument_moves(void)
{
	struct tiny t;

	set(&gate, 0);
	begins(&t);
	make(&t, on_its_stack, NULL);
	make(&t, lets_it, NULL);
	runs(&t);
}

/* Files and names. */

static void names(void *arg)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *list = NULL;
	char c = 'z';
	int fd;

	(void)arg;
	CHECK_IS(u_getaddrinfo("127.0.0.1", "80", &hints, &list, UNEVER), 0);
	CHECK(list != NULL && list->ai_family == AF_INET);
	freeaddrinfo(list);
	fd = u_open("/dev/zero", O_RDONLY | O_CLOEXEC, 0, UNEVER);
	CHECK(fd >= 0 && u_pread(fd, &c, 1, 0, UNEVER) == 1 && c == 0);
	CHECK_IS(u_close(fd), 0);
	add(&ended_nr, 1);
}

/* Look-ups. */

static long answers_nr, dropped;

WRAP(int, pthread_detach, pthread_t id)
{
	int rc = __real_pthread_detach(id);

	CHECK_IS(rc, 0);
	fail_count(&fail_natives, -1);
	return rc;
}

static void answers(void *arg)
{
	long *answer = arg;

	sleeps_until(&gate, 1);
	*answer = add(&answers_nr, 1);
}

static void drops(void *arg)
{
	add(&dropped, 1);
	free(arg);
}

static int asks(utime_ns until)
{
	long *answer = calloc(1, sizeof *answer);
	int rc;

	CHECK(answer != NULL);
	rc = ucall_lookup(answers, drops, answer, until);
	if (rc == 0) {
		CHECK_THAT(*answer, >, 0);
		free(answer);
	}
	return rc;
}

static void looks_up(void *arg)
{
	(void)arg;
	CHECK_IS(asks(uafter(5 * UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(get(&answers_nr), 0);
	CHECK_IS(ucall(nothing, &ended_nr), 0);
}

static void looks_up_in_time(void *arg)
{
	(void)arg;
	CHECK(asks(UNEVER) == 0 && asks(uafter(20 * UTIME_S)) == 0);
	CHECK(get(&answers_nr) == 2 && get(&dropped) == 0);
	add(&ended_nr, 1);
}

static void look_ups(void)
{
	int held = fail_holds();
	struct tiny t;

	doing("in look_ups");
	set(&gate, 1);
	set(&answers_nr, 0);
	set(&dropped, 0);
	alone(looks_up_in_time, NULL);
	set(&gate, 0);
	set(&answers_nr, 0);
	set(&ended_nr, 0);
	begins(&t);
	make(&t, looks_up, NULL);
	tiny_run(&t);
	plain_fini(&t);
	CHECK(get(&ended_nr) == 1 && get(&answers_nr) == 0);
	set(&gate, 1);
	sleeps_until(&dropped, 1);
	while (get(&fail_natives) > 0 || get(&fail_mutexes) > 0)
		usleep(50);
	CHECK_IS(fail_holds(), held);
}

/* All at random. */

#define RANDOM	12
#define ROUNDS	30

static NOINLINE void deep(int nob, unsigned r)
{
	volatile char space[nob];

	space[0] = space[nob - 1] = 5;
	CHECK_IS(ucall(naps, (void *)(uintptr_t)(r % 5 == 0 ? r % 90 : 0)), 0);
	CHECK(space[0] == 5 && space[nob - 1] == 5);
}

static void any(void *arg)
{
	unsigned state = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	unsigned r;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		r = check_random(&state) % 8;
		if (r < 4)
			deep(r == 3 ? 30000 : 100, check_random(&state));
		else if (r == 4)
			CHECK_IS(u_sleep(uafter(check_random(&state) % 100000)),
				 0);
		else if (r == 5)
			CHECK_IS(u_wait_fd(wire[0], UREAD,
				 uafter(check_random(&state) % 100000)),
				 -ETIMEDOUT);
		else
			tiny_yield();
	}
	add(&ended_nr, 1);
}

static void at_random(void)
{
	struct tiny t;
	intptr_t i;

	doing("in at_random");
	set(&ended_nr, 0);
	begins(&t);
	for (i = 0; i < RANDOM; i++)
		make(&t, any, (void *)i);
	runs(&t);
	CHECK_IS(ended_nr, RANDOM);
}

/* Virtual time stands still while a thread calls. */

static void sleeps_long(void *arg)
{
	utime_ns before = unow();

	(void)arg;
	CHECK_IS(u_sleep(before + 1000 * UTIME_S), 0);
	CHECK_IS(get(&ended_nr), 1);
	add(&ended_nr, 1);
}

static void calls_at(void *arg)
{
	utime_ns before = unow();

	(void)arg;
	CHECK_IS(ucall(naps, (void *)3000), 0);
	CHECK_IS(unow(), before);
	add(&ended_nr, 1);
}

static void virtually(void)
{
	struct tiny t;

	doing("in virtually");
	utime_virtual(1);
	set(&ended_nr, 0);
	begins(&t);
	make(&t, sleeps_long, NULL);
	make(&t, calls_at, NULL);
	runs(&t);
	CHECK_IS(ended_nr, 2);
}

/* Each call to the system fails once, or from then on. */

#define TASKS	3

static long made, returned;

static void task(void *arg)
{
	int i, rc, nr = 0;

	(void)arg;
	for (i = 0; i < 4; i++) {
		rc = ucall(others_turn, &made);
		CHECK(rc == 0 || ((rc == -ENOMEM || rc == -EAGAIN) &&
				  fail_told() > 0));
		if (rc != 0 && fail.f_all && i == 2)
			fail_rest();
		nr += rc == 0;
	}
	add(&returned, nr);
	add(&ended_nr, 1);
}

static void scenario(int nr)
{
	struct tiny t;
	int i;

	ended_nr = made = returned = 0;
	begins(&t);
	for (i = 0; i < nr; i++)
		while (plain_make(&t.t_sched, task, NULL) != 0)
			fail_repeat();
	runs(&t);
	CHECK(ended_nr == nr && made == returned);
}

#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RUNTIME_LINKED	1	/* its calls would be counted */
#endif
#endif
#if !defined(RUNTIME_LINKED)
#define RUNTIME_LINKED	0
#endif

static void each_fails(void)
{
	idle_ms = 2;		/* a lost wake is missed for this long */
	fail_sample = 61;
	fail_all(scenario, TASKS);
	idle_ms = 5000;
}

static void all(void)
{
	int i;

	goes_on(READERS);
	goes_on(3);
	deadlines();
	for (i = 0; i < 400; i++) {
		fail_late = i % 3 * 100;
		with_descriptors(1, i % 2);
	}
	fail_late = 0;
	with_descriptors(200, false);
	with_descriptors(200, true);
	doing("in cancels");
	alone(cancels, NULL);
	if (counting)
		takes_wakes();
	refusal();
	doing("in cannot_block");
	alone(cannot_block, NULL);
	nested();
	several();
	doing("in forks");
	if (!check_sanitized()) {
		alone(forks, NULL);
		alone(forks, &ended_nr);
	}
	stopping();
	doing("in names");
	alone(wrong, NULL);
	alone(names, NULL);
	look_ups();
	at_random();
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	CHECK_IS(ucall(nothing, NULL), -EINVAL);
	CHECK_IS(pipe2(wire, O_NONBLOCK | O_CLOEXEC), 0);
	for (i = 0; i < 8; i++) {
		counting = i % 2;
		lanes    = i % 4 < 2 ? 3 : 0;
		if (i >= 4)
			all();
		else if (!RUNTIME_LINKED)
			each_fails();	/* first: descriptors keep memory */
	}
	CHECK_IS(check_dies("early", ends_too_early, "utime_fini: a thread"),
		 0);
	lanes = 3;
	if (tiny_has_lanes())
		CHECK_IS(check_dies("argument", argument_moves,
			 "ucall: the argument"), 0);
	counting = false;
	virtually();
	window_check("plain_post plain_S1 plain_S3 call_wake call_nap call_complete");
	return 0;
}
