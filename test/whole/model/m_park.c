/* SPDX-License-Identifier: MIT */
/* m_park.c: scenarios of park.h, with an inbox for the work. */

/*
 * A sleeper by a descriptor sleeps until that can be read, or an event comes.
 * The descriptor is a counter, as eventfd(2): a write adds 1, a read makes it
 * 0. The event is a piece of work, too. The system orders nothing here.
 */
#include <unistd.h>

#include "model.h"
#include "inbox.h"
#define UPARK_WRITE(fd, at, nob)	fd_write((fd), (nob))
static long fd_write(int fd, unsigned long nob);
#include "park.h"

#define WAKERS	3
#define FD	5

static struct {
	struct uinbox      inbox;
	struct uinbox_node node[WAKERS * 2];
	int                asleep;
	int                taken;
	int                sleeps;	/* prepares that were not cancelled */
	int                wakes[WAKERS];	/* wakes that returned true */
	int                fd;		/* what can be read (atomic) */
	int                event;	/* has come (atomic) */
} s;

static void init(void)
{
	uinbox_init(&s.inbox);
	NAME(s.inbox.i_tail);
	NAME(s.inbox.i_head);
	NAME(s.inbox.i_stub);
	NAME(s.asleep);
	NAME(s.fd);
	NAME(s.event);
	NAME(s.node[0]);
	NAME(s.node[1]);
	NAME(s.node[2]);
	NAME(s.node[3]);
}

static void sleeper(int work)
{
	while (s.taken < work) {
		model_turn(1);
		if (uinbox_take(&s.inbox) != NULL) {
			s.taken++;
			continue;
		}
		s.sleeps++;
		upark_prepare(&s.asleep);		/* park S1, S2 */
		if (!uinbox_empty(&s.inbox) &&		/* park S3 */
		    upark_cancel(&s.asleep)) {
			s.sleeps--;
			model_pause(1);
			continue;
		}
		upark_sleep(&s.asleep);			/* park S4 */
	}
}

/* Sleeping by a descriptor. */

static long fd_write(int fd, unsigned long nob)
{
	MUST(fd == FD && nob == 8);
	__atomic_fetch_add(&s.fd, 1, __ATOMIC_RELAXED);
	return (long)nob;
}

static bool take_event(void)
{
	return __atomic_load_n(&s.event, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&s.event, 0, __ATOMIC_RELAXED);
}

/* Sleeps as poll(2) does, and reads the descriptor. */
static void fd_sleep(void)
{
	while (__atomic_load_n(&s.fd, __ATOMIC_RELAXED) == 0 &&
	       __atomic_load_n(&s.event, __ATOMIC_RELAXED) == 0)
		model_pause(2);
	(void)__atomic_exchange_n(&s.fd, 0, __ATOMIC_RELAXED);
}

static void sleeper_by(int work)
{
	while (s.taken < work) {
		model_turn(3);
		if (uinbox_take(&s.inbox) != NULL || take_event()) {
			s.taken++;
			continue;
		}
		s.sleeps++;
		upark_prepare(&s.asleep);		/* park S1, S2 */
		if (!uinbox_empty(&s.inbox) &&		/* park S3 */
		    upark_cancel(&s.asleep)) {
			s.sleeps--;
			model_pause(3);
			continue;
		}
		if (upark_by(&s.asleep, FD))
			fd_sleep();			/* park S4 */
		s.sleeps -= upark_cancel(&s.asleep);
	}
}

static void give(int who, int nr)
{
	uinbox_post(&s.inbox, &s.node[nr]);		/* park W1, W2 */
	if (upark_wake(&s.asleep))			/* park W3 */
		s.wakes[who]++;
}

static void sleep_for_two(void)		{ sleeper(2); }
static void sleep_for_three(void)	{ sleeper(3); }
static void sleep_for_four(void)	{ sleeper(4); }
static void sleep_by_two(void)		{ sleeper_by(2); }
static void sleep_by_three(void)	{ sleeper_by(3); }

static void comes(void)
{
	__atomic_store_n(&s.event, 1, __ATOMIC_RELAXED);
}

static void first(void)			{ give(0, 0); }
static void second(void)		{ give(1, 2); }
static void third(void)			{ give(2, 4); }
static void first_two(void)		{ give(0, 0); give(0, 1); }
static void second_two(void)		{ give(1, 2); give(1, 3); }

/* For each prepare, either the cancel or one wake returned true. */
static void done(void)
{
	MUST(s.sleeps == s.wakes[0] + s.wakes[1] + s.wakes[2]);
}

/* A write before the wake is visible after the sleep. */

static void pass(void)
{
	s.wakes[2] = 7;
	(void)upark_wake(&s.asleep);
}

static void wait_for_it(void)
{
	upark_sleep(&s.asleep);
	MUST(s.wakes[2] == 7);
}

static void init_asleep(void)
{
	init();
	upark_prepare(&s.asleep);
}

const struct model_scenario scenarios[] = {
	{ "park: a wake orders what was before", MODEL_ANY, MODEL_ANY, 1,
	  &s, sizeof s, init_asleep, { wait_for_it, pass }, NULL },
	{ "park: one waker, twice", MODEL_ANY, MODEL_ANY, 1,
	  &s, sizeof s, init, { sleep_for_two, first_two }, done },
	{ "park: two wakers", MODEL_ANY, MODEL_ANY, 1,
	  &s, sizeof s, init, { sleep_for_two, first, second }, done },
	{ "park: two wakers, one twice", MODEL_NOT, MODEL_ANY, 0,
	  &s, sizeof s, init, { sleep_for_three, first_two, second }, done },
	{ "park: three wakers", MODEL_NOT, 3, 0,
	  &s, sizeof s, init, { sleep_for_three, first, second, third }, done },
	{ "park: two wakers, twice", MODEL_NOT, 3, 0,
	  &s, sizeof s, init, { sleep_for_four, first_two, second_two }, done },
	{ "park: by a descriptor, one waker, twice", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { sleep_by_two, first_two }, done },
	{ "park: by a descriptor, two wakers", 3, MODEL_ANY, 0,
	  &s, sizeof s, init, { sleep_by_two, first, second }, done },
	{ "park: by a descriptor, and an event", 3, MODEL_ANY, 0,
	  &s, sizeof s, init, { sleep_by_two, first, comes }, done },
	{ "park: by a descriptor, twice, and an event", 2, 4, 0,
	  &s, sizeof s, init, { sleep_by_three, first_two, comes }, done },
	{ 0 }
};
