/* SPDX-License-Identifier: MIT */
/* timed: two call-backs more give a bare set of call-backs waits that end. */
/* VARIANTS: once */

/*
 * Threads of a bare dispatcher sleep, wait for events with a deadline, and set
 * events, with lanes and without. A record of doc/waits.md's kind is claimed by
 * its event or its deadline. No wait ends early, and under virtual time none
 * ends late. With wakes that are counted in u_mark, u_wait_until() loses none.
 * If s_alloc() fails, a wait has the result -ENOMEM, and nothing else happens.
 * Without the call-backs it is -ENOSYS. A wake between claim and tell is not
 * lost. Each kind has one number. A dispatcher may run in a thread of
 * another. All memory is given back.
 */
#include "check.h"
#include "uwait.h"
#include <pthread.h>

#define NR	200
#define ROUNDS	30
#define EVENTS	8
#define RING	256

struct bare {
	struct usched  b_sched;		/* first */
	struct ustack  b_thread[NR];
	struct ustack *b_queue[RING];
	unsigned       b_head, b_tail;
	long           b_allocs;	/* less frees */
	long           b_fail;		/* the allocation that fails; 0: none */
	long           b_done;
};

static struct bare bare, inner;

static struct bare *bare_of(struct usched *s)
{
	return (struct bare *)s;
}

static void put(struct bare *b, struct ustack *u)
{
	CHECK_THAT(b->b_tail - b->b_head, <, RING);
	b->b_queue[b->b_tail++ % RING] = u;
}

/* Waits and wakes are counted: u_mark is the number of wakes less waits. */
static int block(struct usched *s)
{
	struct ustack *u = ustack_self();
	int rc = 0;

	CHECK_IS(u->u_sched, s);
	if (--u->u_mark < 0 && (rc = ustack_block()) != 0)
		u->u_mark++;
	return rc;
}

static void ready(struct usched *s, struct ustack *u)
{
	if (u->u_mark++ < 0)
		put(bare_of(s), u);
}

static struct ustack *next(struct usched *s)
{
	struct bare *b = bare_of(s);

	utime_run(s);
	while (b->b_head == b->b_tail)
		if (!utime_idle(s))
			return NULL;
	return b->b_queue[b->b_head++ % RING];
}

static void *alloc(struct usched *s, int size)
{
	struct bare *b = bare_of(s);

	if (b->b_fail > 0 && --b->b_fail == 0)
		return NULL;
	b->b_allocs++;
	return malloc((size_t)size);
}

static void drop(struct usched *s, void *buf, int size)
{
	bare_of(s)->b_allocs--;
	free(buf);
}

static void open_(struct bare *b, bool lanes)
{
	memset(b, 0, sizeof *b);
	b->b_sched = (struct usched){
		.s_next = next, .s_alloc = alloc, .s_free = drop,
		.s_wait = block, .s_wake = ready
	};
	if (lanes)
		(void)usched_lanes(&b->b_sched, 4, 1 << 16);
}

static void make(struct bare *b, int i, void (*f)(void *))
{
	ustack_init(&b->b_thread[i], &b->b_sched, f, (void *)(intptr_t)i,
		    NULL, 0);
	put(b, &b->b_thread[i]);
}

/* Checks that all threads have ended, and all memory is back. */
static void run(struct bare *b, int nr)
{
	int i;

	usched_run(&b->b_sched);
	CHECK_IS(b->b_done, nr);
	utime_fini(&b->b_sched);
	for (i = 0; i < nr; i++)
		if (b->b_thread[i].u_stack != NULL)
			drop(&b->b_sched, b->b_thread[i].u_stack, 0);
	usched_fini(&b->b_sched);
	CHECK_IS(b->b_allocs, 0);
}

/* Events: the records of a module. */

struct waiter {
	struct uwait   w_wait;
	struct waiter *w_next;
};

static struct waiter *waiting[EVENTS];
static long came, late;

static int event_wait(int nr, utime_ns until)
{
	struct waiter **at;
	struct waiter *w;
	int rc;

	w = uwait_make(UWAIT_OTHER, &waiting[nr], sizeof *w);
	if (w == NULL)
		return -errno;
	w->w_next = waiting[nr];
	waiting[nr] = w;
	rc = uwait_for(&w->w_wait, until);
	for (at = &waiting[nr]; *at != NULL && *at != w; at = &(*at)->w_next)
		;
	CHECK_IS(*at == w, rc != 0);
	if (rc != 0)
		*at = w->w_next;
	uwait_free(w);
	return rc;
}

static void event_set(int nr)
{
	struct waiter *w;

	while ((w = waiting[nr]) != NULL) {
		if (!uwait_claim(&w->w_wait))
			break;		/* its thread will take it out */
		waiting[nr] = w->w_next;
		uwait_complete(&w->w_wait, 0);
	}
}

static void sleep_until(utime_ns until)
{
	CHECK_IS(u_sleep(until), 0);
	CHECK_IS(unow(), until);
}

static void act(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i, rc;

	for (i = 0; i < ROUNDS; i++) {
		int nr = (int)(check_random(&r) % EVENTS);
		utime_ns until = uafter(check_random(&r) % 1000 + 1);

		if (i % 3 == 0) {
			sleep_until(until);
			event_set(nr);
			continue;
		}
		rc = event_wait(nr, until);
		CHECK(rc == 0 ? unow() <= until :
		      rc == -ETIMEDOUT && unow() == until);
		came += rc == 0;
		late += rc != 0;
	}
	bare_of(usched_self())->b_done++;
}

static void events(bool lanes)
{
	int i;

	came = late = 0;
	open_(&bare, lanes);
	for (i = 0; i < NR; i++)
		make(&bare, i, act);
	run(&bare, NR);
	CHECK(came > 0 && late > 0);
}

/* Wakes. Thread 0 waits, thread 1 wakes it. */

static long sent, got;

static void take(void *arg)
{
	CHECK_IS(u_wait_until(-1), -EINVAL);
	while (bare.b_done == 0 || got < sent) {
		int rc = u_wait_until(uafter(7));

		CHECK(rc == 0 || rc == -ETIMEDOUT);
		got += rc == 0;
	}
	bare.b_done++;
}

static void give(void *arg)
{
	unsigned r = check_seed | 1;

	for (; sent < 500; sent++) {
		if (check_random(&r) % 4 != 0)
			sleep_until(uafter(check_random(&r) % 20));
		ready(&bare.b_sched, &bare.b_thread[0]);
	}
	bare.b_done++;
}

static void wakes(bool lanes)
{
	sent = got = 0;
	open_(&bare, lanes);
	make(&bare, 0, take);
	make(&bare, 1, give);
	run(&bare, 2);
	CHECK_IS(got, 500);
}

/* No memory: in each place in turn. */

static long fails;

static void poor(void *arg)
{
	utime_ns until = uafter(50 + (intptr_t)arg);
	int rc;

	while ((rc = u_sleep(until)) != 0) {
		CHECK(rc == -ENOMEM && unow() < until);
		fails++;
	}
	CHECK_IS(unow(), until);
	while ((rc = event_wait(0, until + 10)) != -ETIMEDOUT) {
		CHECK_IS(rc, -ENOMEM);
		fails++;
	}
	CHECK_IS(unow(), until + 10);
	while ((rc = u_wait_until(until + 20)) != -ETIMEDOUT) {
		CHECK_IS(rc, -ENOMEM);
		fails++;
	}
	CHECK_IS(unow(), until + 20);
	bare.b_done++;
}

static void no_memory(bool lanes)
{
	int i, k;

	for (i = 1;; i++) {
		fails = 0;
		open_(&bare, lanes);
		bare.b_fail = i;
		for (k = 0; k < 3; k++)
			make(&bare, k, poor);
		run(&bare, 3);
		if (fails == 0 && bare.b_fail > 0)
			break;
		CHECK(fails <= 1 && i < 1000);
	}
	CHECK_THAT(i, >, 3);
}

/*
 * A wake that comes after a claim, and before its tell, is the event. Thread 0
 * waits, thread 1 claims its record, as a cancellation by a native thread would.
 */

static struct uwait *record;
static int result;

static void nothing(const struct uwait *w)
{
}

static void keep(const struct uwait *w, utime_ns until)
{
	record = (struct uwait *)(uintptr_t)w;
}

static void waits(void *arg)
{
	result = u_wait_until(uafter(10));
	bare.b_done++;
}

static void let_run(void)
{
	put(&bare, ustack_self());
	(void)usched_block();
}

static void claims(void *arg)
{
	let_run();
	CHECK(uwait_claim(record));
	ready(&bare.b_sched, &bare.b_thread[0]);
	let_run();
	uwait_complete(record, -ECANCELED);
	bare.b_done++;
}

static void wake_between(bool lanes)
{
	static struct uwait_watch watch = {
		.v_made = nothing, .v_begin = keep, .v_end = nothing
	};

	if (uwait_watch == NULL)
		uwait_watch_add(&watch);
	open_(&bare, lanes);
	make(&bare, 0, waits);
	make(&bare, 1, claims);
	run(&bare, 2);
	CHECK(result == 0 && bare.b_thread[0].u_mark == 0);
}

/* A thread that gives way for ever does not keep events outside from others. */

static int looks;

static void look(struct uwait_source *o)
{
	looks++;
}

static struct uwait_source source = { .o_look = look };

static struct ustack *next_idle(struct usched *s)
{
	struct bare *b = bare_of(s);

	while (b->b_head == b->b_tail)
		if (!utime_idle(s))
			return NULL;
	return b->b_queue[b->b_head++ % RING];
}

static void gives_way(void *arg)
{
	CHECK_IS(uwait_source_add(&source), 0);
	uwait_source_begin(&source);
	while (looks < 10)
		CHECK_IS(uwait_give_way(), 0);
	uwait_source_end(&source);
	bare.b_done++;
}

static void gives_way_idle(void)
{
	open_(&bare, true);
	bare.b_sched.s_next = next_idle;
	make(&bare, 0, gives_way);
	run(&bare, 1);
}

/* Native threads that ask for the number of a kind at once get the same. */

#define KINDS	200

static struct uwait_kind kinds[KINDS];
static int asking;

static void *ask(void *arg)
{
	int i;

	for (i = 0; i < KINDS; i++) {
		__atomic_add_fetch(&asking, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&asking, __ATOMIC_SEQ_CST) <= 2 * i + 1)
			;
		CHECK(uwait_id(&kinds[i]) != 0);
	}
	return arg;
}

static void kinds_at_once(void)
{
	static struct uwait_kind next;
	pthread_t thread;
	int i, before = uwait_id(UWAIT_TIMER);

	CHECK_IS(pthread_create(&thread, NULL, ask, NULL), 0);
	(void)ask(NULL);
	CHECK_IS(pthread_join(thread, NULL), 0);
	CHECK_THAT(kinds[0].wk_id, >, before);
	for (i = 1; i < KINDS; i++)
		CHECK_IS(kinds[i].wk_id, kinds[i - 1].wk_id + 1);
	CHECK_IS(uwait_id(&next), kinds[KINDS - 1].wk_id + 1);
}

/* Another dispatcher in a thread; none of the call-backs. */

static void sleeps(void *arg)
{
	sleep_until(uafter((intptr_t)arg * 10 + 1));
	bare_of(usched_self())->b_done++;
}

static void runs_inner(void *arg)
{
	int i;

	open_(&inner, false);
	for (i = 0; i < 5; i++)
		make(&inner, i, sleeps);
	run(&inner, 5);
	sleep_until(uafter(100));
	bare.b_done++;
}

static void nested(void)
{
	open_(&bare, true);
	make(&bare, 0, runs_inner);
	make(&bare, 1, sleeps);
	run(&bare, 2);
}

static void cannot(void *arg)
{
	CHECK(u_sleep(UNEVER) == -ENOSYS && u_wait_until(UNOW) == -ENOSYS);
	CHECK(uwait_make(UWAIT_OTHER, NULL, 1) == NULL && errno == ENOSYS);
	CHECK(uwait_give_way() == -ENOSYS && bare.b_sched.s_waits == NULL);
	bare.b_done++;
}

static void without(void)
{
	open_(&bare, true);
	bare.b_sched.s_wait = NULL;
	bare.b_sched.s_wake = NULL;
	make(&bare, 0, cannot);
	run(&bare, 1);
}

int main(int argc, char **argv)
{
	int lanes;

	check_start(argc, argv);
	utime_virtual(0);
	for (lanes = 0; lanes < 2; lanes++) {
		events(lanes);
		wakes(lanes);
		no_memory(lanes);
	}
	nested();
	without();
	gives_way_idle();
	kinds_at_once();
	for (lanes = 0; lanes < 2; lanes++)
		wake_between(lanes);
	return 0;
}
