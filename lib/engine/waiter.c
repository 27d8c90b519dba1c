/* SPDX-License-Identifier: MIT */
/* waiter.c: callers and runners that wait, in rings. */

/*
 * A ring has the waiters of an end, of room, or of work, the longest wait
 * first. A pointer to the last stands for the ring, so both ends are near.
 *
 * A waker takes waiters out of their ring under the lock of the engine, and
 * claims them (uwait_claim()). It completes their waits after it has released
 * the lock: struct claimed has them meanwhile. If a deadline was faster, the
 * claim fails, and the waker claims the next waiter of the ring. But the callers
 * that wait for room stay in their ring until they get it: see spawn.c.
 *
 * A waiter that is a thread of a scheduler holds the scheduler. Otherwise a
 * scheduler that ends (rr_fini()) would take the thread for stuck, and drop it.
 * If the waiter is claimed, its waker ends the hold after it has completed the
 * wait: the scheduler must not be freed before.
 */

#include "inside.h"
#include "uproc_set.h"

void engine_ring_add(struct waiter **last, struct waiter *a,
		     struct waiter *before)
{
	uproc_hold(a->a_set);
	if (*last == NULL)
		a->a_next = a->a_prev = a;
	else {
		a->a_prev = before;
		a->a_next = before->a_next;
		a->a_prev->a_next = a->a_next->a_prev = a;
	}
	if (*last == before)
		*last = a;
	a->a_in = true;
}

void engine_ring_out(struct waiter **last, struct waiter *a)
{
	if (*last == a)
		*last = a->a_prev != a ? a->a_prev : NULL;
	a->a_prev->a_next = a->a_next;
	a->a_next->a_prev = a->a_prev;
	a->a_in = false;
	engine_aside_end(a);
}

void engine_aside_end(struct waiter *a)
{
	e->e_aside -= a->a_aside;
	a->a_aside  = false;
}

/* Wakes. */

/* Claims a. False: its wait has ended. Caller holds the lock. */
static bool claim(struct waiter *a, struct claimed *l)
{
	if (!uwait_claim(&a->a_wait))
		return false;
	engine_aside_end(a);
	a->a_claimed = l->cl_first;
	l->cl_first  = a;
	return true;
}

bool engine_claim(struct waiter **last, struct waiter *a, int result,
		  struct claimed *l)
{
	engine_ring_out(last, a);
	a->a_result = result;
	return claim(a, l);
}

bool engine_claim_first(struct waiter **last, int result, struct claimed *l)
{
	while (*last != NULL)
		if (engine_claim(last, (*last)->a_next, result, l))
			return true;
	return false;
}

void engine_claim_all(struct waiter **last, int result, struct claimed *l)
{
	while (engine_claim_first(last, result, l))
		;
}

void engine_wake_first(struct waiter *last, struct claimed *l)
{
	if (last != NULL)
		(void)claim(last->a_next, l);
}

void engine_complete_claimed(struct claimed *l)
{
	struct waiter *a, *next;
	struct uproc_set *set;

	engine_unlock();
	USCHED_RACE(engine_complete_claimed);
	for (a = l->cl_first; a != NULL; a = next) {
		next = a->a_claimed;
		set  = a->a_set;
		uwait_complete(&a->a_wait, 0);
		USCHED_RACE(engine_release);
		uproc_release(set);
	}
	l->cl_first = NULL;
}

/* Waits. */

struct waiter *engine_waiter(utime_ns until, int *rc)
{
	struct waiter *a;

	*rc = until < 0 ? -EINVAL : until == UNOW ? -EAGAIN : 0;
	if (*rc != 0)
		return NULL;
	a = uwait_make(UWAIT_OTHER, e, sizeof *a);
	if (a == NULL) {
		*rc = -errno;
		return NULL;
	}
	a->a_runner = NULL;
	a->a_set    = uproc_running();
	a->a_result = 0;
	a->a_in     = a->a_aside = false;
	return a;
}

int engine_ring_wait(struct waiter *a, utime_ns until)
{
	int rc;

	USCHED_RACE(engine_wait);
	rc = uwait_for(&a->a_wait, until);
	USCHED_RACE(engine_waited);
	if (rc != 0)
		uproc_release(a->a_set);
	return rc;
}

int engine_wait_in(struct waiter **last, struct waiter *a, utime_ns until,
		   struct claimed *l, int *rc)
{
	int result;

	engine_ring_add(last, a, *last);
	engine_complete(l);
	*rc = engine_ring_wait(a, until);
	if (*rc != 0) {
		engine_lock();
		if (a->a_in)
			engine_ring_out(last, a);
		engine_unlock();
	}
	result = a->a_result;
	uwait_free(a);
	return result;
}
