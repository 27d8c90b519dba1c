/* SPDX-License-Identifier: MIT */
/* loop: a loop of the program drives rr and ll, and loses neither a wake nor its turn. */
/* VARIANTS: RR LL */

/*
 * A poll() loop waits for the descriptor and until the deadline of uloop.h, and for no
 * more: so a wake that does not reach the descriptor, or a deadline that is not told,
 * is a hang. It counts its turns: so a descriptor that stays readable, or a deadline that
 * has passed and stays, is a number that is too large.
 */
#include "either.h"
#include "ucall.h"
#include "uchan.h"
#include "uio.h"
#include "uloop.h"
#include "uscope.h"
#include "usync.h"
#include "ws.h"

#include <poll.h>
#include <sys/wait.h>

#define FEW	8		/* turns in which nothing happens */
#define WAKERS	3
#define WAKES	400
#define ENDS	60

static struct usched *sched;
static int  bell;		/* the descriptor */
static long turns, count, told, left;

static void loop_begin(void)
{
	turns = count = told = 0;
	CHECK_IS(SCHED(init)(1, 0), 0);
	sched = SCHED(sched)(0);
}

static void loop_start(void)
{
	CHECK_THAT((bell = uloop_start(sched)), >=, 0);
}

static bool rings(void)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* A turn of the loop, which also waits for other. Returns what uloop_run() does. */
static int turn(int other)
{
	struct pollfd p[2] = { { .fd = bell, .events = POLLIN },
			       { .fd = other, .events = POLLIN } };

	turns++;
	CHECK_THAT(poll(p, 2, uloop_ms(uloop_until(sched))), >=, 0);
	if (p[1].revents != 0)
		told++;
	return uloop_run(sched);
}

static void loop_ends(void)
{
	CHECK_IS(uloop_run(sched), 0);
	CHECK_IS(SCHED(fini)(), 0);
}

/* Runs the loop until all threads have ended. */
static void loop(void)
{
	loop_start();
	while (turn(-1) > 0)
		;
	loop_ends();
}

/* What is refused. */

static void *elsewhere(void *unused)
{
	CHECK_IS(uloop_run(sched), -EBUSY);
	CHECK_IS(SCHED(fini)(), -EBUSY);
	return NULL;
}

static void nested(void *unused)
{
	CHECK_IS(uloop_run(sched), -EBUSY);
	CHECK_IS(uloop_start(sched), -EBUSY);
	CHECK_IS(uloop_until(sched), UNEVER);
	yield();
	CHECK_IS(uloop_run(sched), -EBUSY);
	count++;
}

static void refusals(void)
{
	struct usched plain = { .s_next = NULL };

	doing("refusals");
	CHECK_IS(uloop_start(NULL), -EINVAL);
	CHECK_IS(uloop_start(&plain), -EINVAL);
	CHECK_IS(uloop_run(&plain), -EINVAL);
	CHECK_IS(ws_init(1, 0), 0);
	CHECK_IS(uloop_start(ws_sched(0)), -EINVAL);
	CHECK_IS(ws_fini(), 0);
	CHECK_IS(SCHED(init)(2, 0), 0);
	CHECK_IS(uloop_start(SCHED(sched)(0)), -EINVAL);
	CHECK_IS(SCHED(fini)(), 0);
	loop_begin();
	CHECK_IS(uloop_run(sched), -EBUSY);
	make(0, nested, NULL);
	loop_start();
	CHECK_IS(uloop_start(sched), -EBUSY);
	CHECK_IS(SCHED(start)(), -EBUSY);
	native_join(native(elsewhere, NULL));
	while (turn(-1) > 0)
		;
	CHECK_IS(count, 1);
	native_join(native(elsewhere, NULL));
	loop_ends();
}

static void in_virtual_time(void)
{
	utime_virtual(1);
	CHECK_IS(SCHED(init)(1, 0), 0);
	_exit(uloop_start(SCHED(sched)(0)) != -ENOTSUP);
}

/* Work, deadlines, descriptors. */

static void nothing(void *unused)
{
	count++;
}

static void sleeper(void *unused)
{
	int i;

	for (i = 0; i < 5; i++)
		CHECK_IS(u_sleep(uafter(2 * UTIME_MS)), 0);
	count++;
}

static void work(void)
{
	doing("work");
	loop_begin();
	make(0, nothing, NULL);
	loop_start();
	CHECK_IS(uloop_until(sched), UNOW);
	CHECK_IS(count, 0);
	CHECK_IS(uloop_run(sched), 0);
	CHECK_IS(count, 1);
	make(0, nothing, NULL);		/* by a callback */
	CHECK(rings());
	CHECK_IS(uloop_run(sched), 0);
	CHECK(!rings());
	loop_ends();
	doing("deadlines");
	loop_begin();
	make(0, sleeper, NULL);
	loop();
	CHECK_THAT(turns, <=, 5 * 2 + FEW);
}

static int ends[2];

static void reads(void *unused)
{
	char c;
	int i;

	for (i = 0; i < 20; i++)
		CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
	count++;
}

static void *writes(void *unused)
{
	int i;

	for (i = 0; i < 20; i++) {
		usleep(500);
		CHECK_IS(write(ends[1], "x", 1), 1);
	}
	return NULL;
}

static void descriptors(void)
{
	pthread_t id;

	doing("descriptors");
	CHECK_IS(pipe(ends), 0);
	loop_begin();
	make(0, reads, NULL);
	id = native(writes, NULL);
	loop();
	native_join(id);
	CHECK_IS(count, 1);
	CHECK_THAT(turns, <=, 20 * 2 + FEW);
}

/* The turn of the loop. */

static bool enough;
static thread *pair[2];

static void forever(void *unused)
{
	while (!enough)
		yield();
	left--;
}

/* In ll a pair that wakes each other is never in the queue. */
static void ping(void *arg)
{
	int i = (int)(intptr_t)arg;

	while (!enough) {
		SCHED(wake)(pair[!i]);
		wait_one();
	}
	if (pair[!i] != NULL)
		SCHED(wake)(pair[!i]);
	pair[i] = NULL;
	left--;
}

static void turns_taken(void)
{
	doing("turns");
	loop_begin();
	enough = false;
	left = 4;
	make(0, forever, NULL);
	make(0, forever, NULL);
	pair[0] = make(0, ping, (void *)0);
	pair[1] = make(0, ping, (void *)1);
	loop_start();
	CHECK_IS(write(ends[1], "x", 1), 1);
	while (told < 5) {
		CHECK_IS(turn(ends[0]), 1);
		CHECK_IS(uloop_until(sched), UNOW);
	}
	enough = true;
	while (turn(-1) > 0)
		;
	CHECK_IS(left, 0);
	loop_ends();
}

/* Wakes by callbacks, by other native threads, by calls. */

static thread *woken;
static struct uchan *chan;
static struct usem sem = USEM(0);

static void wanted(void *unused)
{
	long i, value;

	for (i = 0; i < WAKES; i++)
		wait_one();
	for (i = 0; i < WAKES; i++) {
		CHECK_IS(uchan_recv(chan, &value, UNEVER), 0);
		CHECK_IS(value, i);
	}
	for (i = 0; i < WAKES; i++)
		CHECK_IS(usem_wait(&sem, UNEVER), 0);
	count++;
}

static void wake_one(long i)
{
	static long value;

	if (i < WAKES)
		SCHED(wake)(woken);
	else if (i < 2 * WAKES) {
		value = i - WAKES;
		CHECK_IS(uchan_send(chan, &value, UNEVER), 0);
	} else
		CHECK_IS(usem_post(&sem), 0);
}

/* Each wake by a callback makes the descriptor readable. */
static void by_callbacks(void)
{
	long i;

	doing("callbacks");
	loop_begin();
	CHECK((chan = uchan_make(sizeof(long), 1)) != NULL);
	woken = make(0, wanted, NULL);
	loop_start();
	CHECK_IS(uloop_run(sched), 1);
	for (i = 0; i < 3 * WAKES; i++) {
		CHECK(!rings());
		wake_one(i);
		CHECK(rings());
		CHECK_IS(uloop_run(sched), i + 1 < 3 * WAKES);
	}
	CHECK_IS(count, 1);
	loop_ends();
	uchan_free(chan);
}

static void *wakes(void *arg)
{
	unsigned state = check_seed + 77;
	long i;

	for (i = 0; i < 3 * WAKES; i++) {
		if (check_random(&state) % 4 != 0)
			usleep(check_random(&state) % 100);
		wake_one(i);
	}
	SCHED(release)();
	return NULL;
}

static void pauses(void *unused)
{
	usleep(300);
}

static void calls(void *unused)
{
	int i;

	for (i = 0; i < 20; i++)
		CHECK_IS(ucall(pauses, NULL), 0);
}

/* Threads that sleep for times at random, beside the wakes. */
static void dozes(void *arg)
{
	unsigned state = check_seed + (unsigned)(intptr_t)arg;
	int i;

	for (i = 0; i < 50; i++)
		CHECK_IS(u_sleep(uafter(check_random(&state) % (2 * UTIME_MS))), 0);
}

static void by_others(void)
{
	pthread_t id;
	long i;

	doing("others");
	loop_begin();
	CHECK((chan = uchan_make(sizeof(long), 1)) != NULL);
	woken = make(0, wanted, NULL);
	make(0, calls, NULL);
	for (i = 0; i < 3; i++)
		make(0, dozes, (void *)i);
	SCHED(hold)();
	loop_start();
	id = native(wakes, NULL);
	while (turn(-1) > 0)
		;
	loop_ends();
	native_join(id);
	CHECK_IS(count, 1);
	uchan_free(chan);
}

/* The end. */

static void stays(void *unused)
{
	while (u_wait_until(UNEVER) == 0)
		;
}

static void *releases(void *arg)
{
	usleep((unsigned)(intptr_t)arg);
	SCHED(release)();
	return NULL;
}

static void *wakes_and_releases(void *arg)
{
	usleep((unsigned)(intptr_t)arg);
	SCHED(wake)(woken);
	SCHED(release)();
	return NULL;
}

/* fini sleeps without the loop: for deadlines, descriptors, wakes, and the last hold. */
static void at_the_end(void)
{
	unsigned state = check_seed;
	pthread_t id[2];
	int i;

	doing("the end");
	loop_begin();
	loop_start();
	CHECK_IS(SCHED(fini)(), 0);
	loop_begin();
	make(0, sleeper, NULL);
	make(0, reads, NULL);
	loop_start();
	id[0] = native(writes, NULL);
	CHECK_IS(SCHED(fini)(), 0);
	CHECK_IS(count, 2);
	native_join(id[0]);
	for (i = 0; i < ENDS; i++) {
		loop_begin();
		woken = make(0, stays, NULL);
		SCHED(hold)();
		SCHED(hold)();
		loop_start();
		if (i % 3 != 0)
			CHECK_IS(uloop_run(sched), 1);
		id[0] = native(wakes_and_releases,
			       (void *)(intptr_t)(check_random(&state) % 300));
		id[1] = native(releases,
			       (void *)(intptr_t)(check_random(&state) % 300));
		CHECK_IS(SCHED(fini)(), -EDEADLK);
		CHECK_IS(SCHED(stuck)(), 1);
		native_join(id[0]);
		native_join(id[1]);
	}
}

/* Silence. */

static void *after_a_while(void *unused)
{
	usleep(600000);
	CHECK_IS(write(ends[1], "x", 1), 1);
	return NULL;
}

static void waits_far(void *unused)
{
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, uafter(3600 * UTIME_S)), 0);
	CHECK_IS(u_wait_until(uafter(1800 * UTIME_S)), 0);
	CHECK_IS(uscope_end(&s), 0);
}

static void reads_one(void *unused)
{
	char c;

	CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
	SCHED(wake)(woken);
}

static void silence(void)
{
	pthread_t id;
	char c;

	doing("silence");
	CHECK_IS(read(ends[0], &c, 1), 1);	/* of turns_taken() */
	loop_begin();
	make(0, reads_one, NULL);
	woken = make(0, waits_far, NULL);
	id = native(after_a_while, NULL);
	loop();
	native_join(id);
	CHECK_THAT(turns, <=, FEW);
}

/* A child of fork(). */

static void forks(void)
{
	int status;
	pid_t pid;

	doing("fork");
	loop_begin();
	make(0, sleeper, NULL);
	loop_start();
	CHECK_IS(uloop_run(sched), 1);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		check_watch(1);
		CHECK_IS(uloop_run(sched), -ECHILD);
		CHECK_IS(uloop_until(sched), UNEVER);
		CHECK_IS(SCHED(fini)(), -ECHILD);
		loop_begin();
		make(0, sleeper, NULL);
		loop();
		CHECK_IS(count, 1);
		_exit(0);
	}
	while (turn(-1) > 0)
		;
	loop_ends();
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
}

int main(int argc, char **argv)
{
	char text[256];

	check_start(argc, argv);
	check_quiet();
	CHECK_IS(check_child(in_virtual_time, text, sizeof text), 0);
	loop_begin();
	bell = uloop_start(sched);
	if (bell == -ENOTSUP)
		check_skip("no lanes, or no descriptor of a poller");
	loop_ends();
	refusals();
	work();
	descriptors();
	turns_taken();
	by_callbacks();
	by_others();
	at_the_end();
	silence();
	if (!check_sanitized())
		forks();
	return 0;
}
