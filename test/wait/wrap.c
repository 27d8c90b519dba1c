/* SPDX-License-Identifier: MIT */
/* wrap: where indices wrap, channels and run queues keep their order. */
/* VARIANTS: once */

#include "counts.h"
#include "uchan.c"
#include "rr.h"
#include "usync.h"
#include "uwork.h"

#define EACH	40
#define FIRST	60		/* threads before the ring of the queue grows */
#define THREADS	67		/* threads after it has grown */

/* Begins as if after many sends and receives, just before the end. */
static void wraps(unsigned room, unsigned before)
{
	struct uchan *c = uchan_make(1, room);
	unsigned char x;
	int i;

	if (c == NULL)
		return;			/* no such address space */
	c->ch_head = room - before;
	for (i = 0; i < EACH; i++) {
		x = (unsigned char)i;
		CHECK_IS(uchan_send(c, &x, UNOW), 0);
	}
	for (i = 0; i < EACH; i++)
		CHECK(uchan_recv(c, &x, UNOW) == 0 && x == i);
	CHECK_IS(uchan_recv(c, &x, UNOW), -EAGAIN);
	uchan_free(c);
}

/* Each thread runs after the thread that was made before it. */

static long next, over;

static void in_turn(void *arg)
{
	while (!over) {
		CHECK_IS(next++, (long)(intptr_t)arg);
		CHECK_IS(rr_yield(), 0);
	}
}

static void maker(void *arg)
{
	long k;

	for (k = 0; k < THREADS; k++) {
		CHECK(rr_thread_init(in_turn, (void *)(intptr_t)k) != NULL);
		if (k < FIRST)
			continue;
		next = 0;
		CHECK_IS(rr_yield(), 0);
		CHECK_IS(next, k + 1);
	}
	over = 1;
}

/* The queue begins as if after many waits. */
static void queue(unsigned before)
{
	struct usched_queue *q;

	next = over = 0;
	CHECK_IS(rr_init(1, 0), 0);
	q = &((struct uproc *)rr_sched(0))->p_queue;
	q->q_head = q->q_tail = UINT_MAX - before;
	CHECK(rr_thread_init(maker, NULL) != NULL);
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
	CHECK_IS(next, THREADS);
}

/* A pool of so many workers makes none of them. */

static int made;			/* threads */

static int makes_none(struct usched *s, void (*f)(void *), void *arg, int level)
{
	made++;
	return -ENOMEM;
}

static void pool(void *arg)
{
	ustack_self()->u_sched->s_make = makes_none;
	CHECK(uwork_make(INT_MAX, 1, 1) == NULL && made == 0);
	CHECK(uwork_make(INT_MAX - 1, 1, 1) == NULL && made == 1);
}

static void pools(void)
{
	CHECK_IS(rr_init(1, 0), 0);
	CHECK(rr_thread_init(pool, NULL) != NULL);
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
}

/* Counts that are no such, or too large, are refused. */
static void counts(void)
{
	struct ubarrier none = UBARRIER(0);
	struct ubarrier most = UBARRIER(USYNC_MOST + 1u);

	CHECK(uwait_make(UWAIT_OTHER, NULL, SIZE_MAX) == NULL &&
	      errno == EINVAL);
	CHECK_IS(ubarrier_wait(&none, UNOW), -EINVAL);
	CHECK_IS(ubarrier_wait(&most, UNOW), -EINVAL);
	most.br_nr = USYNC_MOST;
	CHECK_IS(ubarrier_wait(&most, UNOW), -EAGAIN);
}

int main(int argc, char **argv)
{
	unsigned before;

	check_start(argc, argv);
	for (before = 1; before <= EACH; before++) {
		wraps(EACH, before);
		wraps(1u << 31, before);
		wraps(3000000000u, before);
		wraps(UINT_MAX, before);
	}
	for (before = 190; before <= 250; before += 20)
		queue(before);
	pools();
	counts();
	return 0;
}
