/* SPDX-License-Identifier: MIT */
/* waiter.c: callers and runners that wait, in rings. */

/*
 * A ring has the waiters of an end, of room, or of work, the longest wait
 * first. A pointer to the last stands for the ring, so both ends are near.
 *
 * Whoever ends waits takes them out of their ring under the lock of the engine,
 * and claims them (uwait_claim()). It tells them after it has put the lock:
 * struct tell has them meanwhile. If a deadline was faster, the claim fails, and
 * the next in the ring is claimed.
 *
 * A waiter that is a thread of a scheduler holds the scheduler. Otherwise a
 * scheduler that ends (rr_fini()) would take the thread for stuck, and drop it.
 * If the waiter is claimed, the teller ends the hold once it has told: the
 * scheduler must not be freed while it is told.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"
#include "uproc_set.h"

UPREEMPT_NEVER;

#define e engine_all		/* in this file */

static void ring_add(struct waiter **last, struct waiter *a)
{
	if (*last == NULL)
		a->a_next = a->a_prev = a;
	else {
		a->a_prev = *last;
		a->a_next = (*last)->a_next;
		a->a_prev->a_next = a->a_next->a_prev = a;
	}
	*last = a;
	a->a_in = true;
	e.e_aside += a->a_aside;
}

static void ring_out(struct waiter **last, struct waiter *a)
{
	if (*last == a)
		*last = a->a_prev != a ? a->a_prev : NULL;
	a->a_prev->a_next = a->a_next;
	a->a_next->a_prev = a->a_prev;
	a->a_in = false;
	e.e_aside -= a->a_aside;
}

bool engine_claim(struct waiter **last, struct waiter *a, int result,
		  struct tell *l)
{
	ring_out(last, a);
	if (!uwait_claim(&a->a_wait))
		return false;
	a->a_result = result;
	a->a_next   = l->l_first;
	l->l_first  = a;
	return true;
}

bool engine_claim_first(struct waiter **last, int result, struct tell *l)
{
	while (*last != NULL)
		if (engine_claim(last, (*last)->a_next, result, l))
			return true;
	return false;
}

void engine_claim_all(struct waiter **last, int result, struct tell *l)
{
	while (engine_claim_first(last, result, l))
		;
}

/* Tells the claimed. Caller holds no lock. */
static void told(struct tell *l)
{
	struct waiter *a, *next;
	struct uproc_set *set;

	for (a = l->l_first; a != NULL; a = next) {
		next = a->a_next;
		set  = a->a_set;
		uwait_tell(&a->a_wait, 0);
		USCHED_RACE(79);
		uproc_release(set);
	}
	l->l_first = NULL;
}

void engine_tell(struct tell *l)
{
	engine_leave();
	USCHED_RACE(65);
	told(l);
}

int engine_wait_in(struct waiter **last, struct waiter *a, bool front,
		   utime_ns until, int *rc)
{
	struct tell l = { NULL };
	int result;

	uproc_hold(a->a_set);
	ring_add(last, a);
	if (front)
		*last = a->a_prev;
	if (a->a_aside)
		(void)engine_send_for(&l);		/* E1, E6 */
	engine_tell(&l);
	USCHED_RACE(66);
	*rc = uwait_for(&a->a_wait, until);
	if (*rc != 0) {
		USCHED_RACE(67);
		engine_relock();
		if (a->a_in)
			ring_out(last, a);
		engine_leave();
		uproc_release(a->a_set);
	}
	result = a->a_result;
	uwait_free(a);
	return result;
}

struct waiter *engine_waiter(bool aside, utime_ns until, int *rc)
{
	const struct runner *r = aside ? engine_here() : NULL;
	struct waiter *a;

	*rc = until < 0 ? -EINVAL : until == UNOW ? -EAGAIN : 0;
	if (*rc != 0)
		return NULL;
	a = uwait_new(sizeof *a, UWAIT_OTHER, &e, rc);
	if (a != NULL) {
		a->a_runner = NULL;
		a->a_set    = uproc_running();
		a->a_result = 0;
		a->a_in     = false;
		a->a_aside  = r != NULL && r->r_stack != NULL;
	}
	return a;
}

int engine_await(struct waiter **ring, const bool *done, utime_ns until)
{
	struct waiter *a;
	int rc;

	a = engine_waiter(false, until, &rc);
	if (a == NULL)
		return rc;
	engine_relock();
	if (!*done) {
		(void)engine_wait_in(ring, a, false, until, &rc);
		return rc;
	}
	engine_leave();
	uwait_free(a);
	return 0;
}
