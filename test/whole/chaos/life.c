/* SPDX-License-Identifier: MIT */
/* life.c: the actors that are threads of schedulers; children. */

#include "chaos.h"
#include "ucall.h"
#include "uscope.h"
#include "uwait.h"
#include "ws.h"
#include <alloca.h>

#define MAIL		16
#define LEVELS		4
#define SMALL		60		/* words of most frames */
#define LARGE		3000		/* words of a few frames */

long progress, alive, children_ended, hostages, registered, failing;

/* Relaxed, so that only the library orders what actors do. */
static void count(long *at, long nr)
{
	__atomic_fetch_add(at, nr, __ATOMIC_RELAXED);
}

static long look(const long *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* Checks that a runs on one native thread at a time, and on the right one. */
static NOINLINE void goes_on(struct actor *a)
{
	CHECK(__atomic_exchange_n(&a->a_runs, 1, __ATOMIC_RELAXED) == 0);
	if (a->a_kind == BARE)
		return;
	CHECK(sched[a->a_set].c_self() == a->a_thread);
	if (a->a_set != WS)
		CHECK(ustack_self()->u_sched == a->a_here);
	else
		CHECK(a->a_pinned < 0 || a->a_pinned == ws_proc());
}

static NOINLINE void stops(struct actor *a)
{
	CHECK(__atomic_exchange_n(&a->a_runs, 0, __ATOMIC_RELAXED) == 1);
}

/* Lets other actors run, if there are any. */
static void give_way(struct actor *a)
{
	is_doing(a, "yield");
	switch (a->a_kind) {
	case NATIVE:
		check_yield();
		(void)errand();
		return;
	case BARE:
		stops(a);
		tiny_yield();
		break;
	default:
		stops(a);
		(void)refused(sched[a->a_set].c_yield());
	}
	goes_on(a);
}

static utime_ns soon(struct actor *a)
{
	return uafter(any(&a->a_random, 300) * UTIME_US);
}

/* A deadline that passes neither loses nor takes a wake. */
static int wait_once(struct actor *a)
{
	return program.p_may[T_time] && any(&a->a_random, 2) ?
		u_wait_until(soon(a)) : sched[a->a_set].c_wait();
}

static void waits(struct actor *a)
{
	int rc;

	is_doing(a, "wait");
	stops(a);
	do
		rc = wait_once(a);
	while (rc == -ETIMEDOUT || refused(rc));
	goes_on(a);
	CHECK(++a->a_done <= look(&a->a_sent));
	count(&progress, 1);
}

/* Blocks below frames of any size, whose contents must not change. */
static NOINLINE void deep(struct actor *a, void (*block)(struct actor *),
			  int levels)
{
	unsigned nr = 1 + any(&a->a_random, rarely(&a->a_random, 32) ?
			      LARGE : SMALL);
	volatile unsigned *frame = alloca(nr * sizeof *frame);
	unsigned mark = check_random(&a->a_random);
	unsigned i;

	for (i = 0; i < nr; i++)
		frame[i] = mark + i * 2654435761u;
	if (levels > 0)
		deep(a, block, levels - 1);
	else
		block(a);
	for (i = 0; i < nr; i++)
		CHECK(frame[i] == mark + i * 2654435761u);
}

static void blocks(struct actor *a, void (*block)(struct actor *))
{
	int levels = program.p_may[T_deep] ?
		(int)any(&a->a_random, LEVELS) : 0;

	deep(a, block, levels);
}

/*
 * Notes that a has paid a debt to a set that it is not in. a has held that set.
 */
static void paid(struct actor *a, int set)
{
	if (a->a_set != set && --a->a_owes[set] == 0)
		sched[set].c_release();
}

void send_one(struct actor *a, bool post)
{
	struct note *n = &a->a_note[--a->a_nr];
	struct actor *to = &actor[n->n_to];
	const struct sched *c = &sched[to->a_set];

	is_doing(a, "wake");
	n->n_word = check_hash(program.p_seed, (unsigned)(n - note));
	count(&to->a_sent, 1);
	(post ? c->c_post : c->c_wake)(to->a_thread);
	count(&progress, 1);
	paid(a, to->a_set);
}

/* Reads the words that were sent with the wakes of a. */
static void read_notes(const struct actor *a)
{
	int i;

	for (i = a->a_first; i >= 0; i = note[i].n_next)
		CHECK(note[i].n_word == check_hash(program.p_seed,
						   (unsigned)i));
}

/* Errands: wakes for children that are not sent by their mothers. */

static struct child *mail[MAIL];

static void wake_child(struct child *b)
{
	sched[b->b_set].c_wake(b->b_thread);
	add(&b->b_done, 1);
	count(&progress, 1);
}

bool errand(void)
{
	struct child *b;
	int i, set;

	for (i = 0; i < MAIL; i++) {
		if (__atomic_load_n(&mail[i], __ATOMIC_RELAXED) == NULL)
			continue;
		b = __atomic_exchange_n(&mail[i], NULL, __ATOMIC_SEQ_CST);
		if (b == NULL)
			continue;
		set = b->b_set;
		wake_child(b);
		sched[set].c_release();
		return true;
	}
	return false;
}

bool errands_left(void)
{
	int i;

	for (i = 0; i < MAIL; i++)
		if (__atomic_load_n(&mail[i], __ATOMIC_SEQ_CST) != NULL)
			return true;
	return false;
}

/*
 * Leaves an errand, and holds the set until it is done. False: there is no
 * room.
 */
static bool ask(struct child *b, unsigned at)
{
	struct child *none = NULL;

	sched[b->b_set].c_hold();
	if (__atomic_compare_exchange_n(&mail[at], &none, b, false,
				__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true;
	sched[b->b_set].c_release();
	return false;
}

static void give(struct child *b, unsigned *random)
{
	add(&b->b_given, 1);
	if (!program.p_may[T_errand] || any(random, 2) ||
	    !ask(b, any(random, MAIL)))
		wake_child(b);
}

/* Children. */

/* A child that is joined may be woken after its end. */
static bool may_be_late(const struct child *b)
{
	return b->b_join && program.p_may[T_late];
}

static NOINLINE void child_waits(struct child *b, long i)
{
	volatile unsigned frame[8];
	int j;

	for (j = 0; j < COUNT(frame); j++)
		frame[j] = b->b_random + (unsigned)j;
	while (refused(sched[b->b_set].c_wait()))
		;
	for (j = 0; j < COUNT(frame); j++)
		CHECK(frame[j] == b->b_random + (unsigned)j);
	CHECK(i < look(&b->b_given));
}

static void child_main(void *arg)
{
	struct child *b = arg;
	long i;

	CHECK(b->b_seen == 0 && b->b_made == check_hash(b->b_random, 1));
	for (i = 0; i < b->b_waits; i++)
		child_waits(b, i);
	if (b->b_random % 4 == 0)
		(void)refused(sched[b->b_set].c_yield());
	while (b->b_wakes > b->b_waits && !may_be_late(b) &&
	       get(&b->b_done) < b->b_wakes)
		(void)refused(sched[b->b_set].c_yield());
	b->b_seen = 1;
	count(&progress, 1);
	add(&children_ended, 1);
}

static void make_child(struct child *b)
{
	const struct sched *c = &sched[b->b_set];
	int p = (int)(b->b_random / 16 % 5);

	b->b_made = check_hash(b->b_random, 1);
	if (b->b_wakes == 0 && !b->b_join && b->b_random / 128 % 2) {
		while (refused(c->c_spawn(child_main, b)))
			;
		return;
	}
	do
		b->b_thread = b->b_join ? c->c_joinable(p, child_main, b) :
			b->b_random / 256 % 4 == 0 ?
			c->c_stays(p, child_main, b) :
			c->c_on(p, child_main, b);
	while (b->b_thread == NULL && refused(-ENOMEM));
}

static void join_one(struct actor *a)
{
	struct child *b = &a->a_child[a->a_children];

	is_doing(a, "join");
	stops(a);
	while (refused(sched[a->a_set].c_join(b->b_thread)))
		;
	goes_on(a);
	CHECK(b->b_seen == 1);
	count(&progress, 1);
}

/* Makes a child, wakes it, and joins it if it is to be joined. */
void bear(struct actor *a)
{
	struct child *b = &a->a_child[--a->a_children];
	long left = b->b_wakes;

	is_doing(a, "make");
	make_child(b);
	for (; left > 0; left--) {
		if (any(&a->a_random, 4) == 0)
			give_way(a);
		is_doing(a, "wake a child");
		give(b, &a->a_random);
	}
	while (b->b_join && b->b_wakes > b->b_waits &&
	       get(&b->b_done) < b->b_wakes)
		give_way(a);
	if (b->b_join)
		blocks(a, join_one);
	paid(a, b->b_set);
}

/* Hostages. */

static struct child hostage;
static long hostage_taken, hostage_joined;

static void joins_hostage(void *arg)
{
	struct child *b = arg;
	unsigned random = b->b_random;
	long left;

	make_child(b);
	for (left = b->b_wakes; left > 0; left--)
		give(b, &random);
	while (b->b_wakes > b->b_waits && get(&b->b_done) < b->b_wakes)
		(void)refused(ws_yield());
	while (refused(ws_join(b->b_thread)))
		;
	CHECK(b->b_seen == 1);
	/* An actor that ran an errand may still have to count it. */
	while (get(&b->b_done) < b->b_wakes)
		(void)refused(ws_yield());
	add(&hostage_joined, 1);
}

/*
 * A thread holds its worker only where no other thread can be in its lane. It
 * does not if the hard mode makes threads yield at any point: a thread that has
 * yielded there stays with its worker until it goes on. Nor does it where some
 * threads must stay, and may lock: a mutex may be kept for such a thread.
 */
static bool may_hold(const struct actor *a)
{
	const char *words = getenv("USCHED_DEBUG");
	bool stay = program.p_may[T_pin] || ustack_self()->u_lane == 0;

	return a->a_set == WS && program.p_procs[WS] > 1 &&
		program.p_may[T_hold] && !program.p_may[T_lanes] &&
		!program.p_may[T_many] && !(stay && program.p_may[T_lock]) &&
		(words == NULL || strstr(words, "yield") == NULL);
}

/* Only one thread at a time: while it computes, all others can go on. */
static void holds(struct actor *a)
{
	struct child *b = &hostage;
	int i;

	if (!may_hold(a) ||
	    __atomic_exchange_n(&hostage_taken, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	memset(b, 0, sizeof *b);
	b->b_set    = WS;
	b->b_join   = true;
	b->b_random = check_random(&a->a_random) | 1;
	b->b_waits  = (int)any(&a->a_random, 3);
	b->b_wakes  = b->b_waits +
		(program.p_may[T_late] ? any(&a->a_random, 3) : 0);
	hostage_joined = 0;
	hostages++;
	while (refused(ws_spawn(joins_hostage, b)))
		;
	/* Without lanes, a thread that has begun stays. */
	for (i = ustack_self()->u_lane != 0 ? (int)any(&a->a_random, 4) : 0;
	     i > 0; i--)
		give_way(a);
	is_doing(a, "hold");
	while (get(&hostage_joined) == 0)
		check_yield();
	__atomic_store_n(&hostage_taken, 0, __ATOMIC_RELEASE);
}

/* Steps. */

static void pins_itself(struct actor *a)
{
	if (a->a_set != WS || !program.p_may[T_pin])
		return;
	if (a->a_pinned >= 0) {
		a->a_pinned = -1;
		ws_unpin();
	} else {
		ws_pin();
		a->a_pinned = ws_proc();
	}
}

/* Called by a native thread, while a waits. */
static void called(void *arg)
{
	struct actor *a = arg;

	CHECK(ustack_self() == NULL);
	if (any(&a->a_random, 2))
		usleep(any(&a->a_random, 200));
	if (a->a_nr > 0)
		send_one(a, program.p_may[T_post] && any(&a->a_random, 2));
	is_doing(a, "call");
}

static void calls(struct actor *a)
{
	int rc;

	is_doing(a, "call");
	stops(a);
	rc = ucall(called, a);
	CHECK(rc == 0 || get(&failing) != 0);
	CHECK(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
	goes_on(a);
}

static void computes(struct actor *a)
{
	volatile unsigned spin;

	is_doing(a, "compute");
	for (spin = any(&a->a_random, rarely(&a->a_random, 64) ? 100000 : 500);
	     spin > 0; spin--)
		;
}

static void sleeps(struct actor *a)
{
	is_doing(a, "sleep");
	stops(a);
	while (refused(u_sleep(soon(a))))
		;
	goes_on(a);
}

/* Sleeps until the deadline of a scope. */
static void is_cancelled(struct actor *a)
{
	struct uscope *s;
	int rc;

	is_doing(a, "scope");
	stops(a);
	if (!refused(uscope_begin(&s, soon(a)))) {
		rc = u_sleep(UNEVER);
		CHECK(rc == -ECANCELED || refused(rc));
		do
			rc = uscope_end(&s);
		while (s != NULL && refused(rc));
		CHECK(rc == -ETIMEDOUT || rc == 0);
	}
	goes_on(a);
}

static void passes_time(struct actor *a)
{
	if (program.p_may[T_time])
		blocks(a, any(&a->a_random, 2) ? sleeps : is_cancelled);
}

/* Waits for a wake that is sure to come, if there is such a wake. */
void wait_if_sure(struct actor *a)
{
	if (a->a_kind != LIVES || a->a_done >= a->a_sure)
		return;
	goes_on(a);
	waits(a);
	stops(a);
}

static void uses(struct actor *a)
{
	is_doing(a, "share");
	stops(a);
	share(a);
	goes_on(a);
	count(&progress, 1);
}

/* See "No dead lock" in chaos.h. */
static bool may_wait(const struct actor *a)
{
	return a->a_done < (a->a_nr > 0 || a->a_children > 0 ? a->a_sure :
			    a->a_due);
}

static void seldom(struct actor *a)
{
	switch (any(&a->a_random, 8)) {
	case 0: case 1:
		pins_itself(a);
		break;
	case 2:
		if (program.p_may[T_call])
			blocks(a, calls);
		break;
	case 3:
		if (program.p_may[T_nest])
			nest(a);
		break;
	case 4:
		if (program.p_may[T_signal])
			raise_here(a);
		break;
	case 5:
		holds(a);
		break;
	case 6:
		passes_time(a);
		break;
	default:
		(void)errand();
	}
}

static void step(struct actor *a)
{
	switch (any(&a->a_random, shares() ? 12 : 10)) {
	case 0:
		blocks(a, give_way);
		break;
	case 1:
		computes(a);
		break;
	case 2:
		seldom(a);
		break;
	case 3:
		if (a->a_children > 0)
			bear(a);
		break;
	case 10: case 11:
		blocks(a, uses);
		break;
	case 4: case 5: case 6:
		if (may_wait(a))
			blocks(a, waits);
		break;
	default:
		if (a->a_nr > 0)
			send_one(a, program.p_may[T_post] &&
				 any(&a->a_random, 4) == 0);
	}
}

static void begins(struct actor *a)
{
	a->a_here = ustack_self()->u_sched;
	goes_on(a);
}

static void ends(struct actor *a)
{
	stops(a);
	is_doing(a, "end");
	a->a_ended++;
	count(&progress, 1);
	add(&alive, -1);
}

void life_main(void *arg)
{
	struct actor *a = arg;

	begins(a);
	while (a->a_nr > 0 || a->a_children > 0 || a->a_done < a->a_due)
		step(a);
	read_notes(a);
	if (a->a_pinned >= 0 && a->a_random % 2)
		pins_itself(a);
	ends(a);
}

/* Also the function of BARE. It never waits. */
void pure_main(void *arg)
{
	struct actor *a = arg;

	begins(a);
	while (a->a_nr > 0 || a->a_children > 0) {
		unsigned r = any(&a->a_random, 16);

		if (r < 10 && a->a_nr > 0)
			send_one(a, program.p_may[T_post] && r % 4 == 0);
		else if (r < 12 && a->a_children > 0)
			bear(a);
		else if (r == 12 && program.p_may[T_nest])
			nest(a);
		else
			blocks(a, give_way);
	}
	ends(a);
}
