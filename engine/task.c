/* SPDX-License-Identifier: MIT */
/* task.c: tasks by number, from their slot to their end. */

/*
 * Tasks lie in slots, which are made in chunks, and stay until engine_fini().
 * The number of a task is its slot and the turn of the slot, which is odd while
 * the slot is in use. So an old number is found out.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() in park.h */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"

#include <stdlib.h>

UPREEMPT_NEVER;

#define e engine_all		/* in this file */

/* Slots. */

struct task *engine_find(engine_id id)
{
	unsigned nr = (unsigned)id - 1, turn = (unsigned)(id >> 32);
	struct task *t;

	if (nr >= e.e_slots)
		return NULL;
	t = &e.e_chunk[nr / CHUNK][nr % CHUNK];
	return t->t_turn == turn && turn % 2 == 1 ? t : NULL;
}

int engine_slots_more(void)
{
	struct task *t;
	unsigned i;

	if (e.e_slots / CHUNK == CHUNKS)
		return -ENOMEM;
	engine_leave();
	t = calloc(CHUNK, sizeof *t);
	engine_relock();
	if (t == NULL)
		return -ENOMEM;
	if (e.e_free != NULL || e.e_slots / CHUNK == CHUNKS ||
	    e.e_state != OPEN) {
		free(t);		/* another caller was faster */
		return 0;
	}
	e.e_chunk[e.e_slots / CHUNK] = t;
	for (i = CHUNK; i-- > 0; ) {
		t[i].t_nr   = e.e_slots + i;
		t[i].t_next = e.e_free;
		e.e_free = &t[i];
	}
	e.e_slots += CHUNK;
	return 0;
}

void engine_slot_free(struct task *t)
{
	t->t_turn++;
	t->t_next = e.e_free;
	e.e_free  = t;
}

/* Ends. */

void engine_finish_outside(struct task *t, int result)
{
	if (t->t_end != NULL)
		t->t_end(engine_number(t), t->t_arg, result);
	free(t->t_copy);
	engine_bus_drop(t);
}

void engine_finish(struct task *t, int result, struct tell *l)
{
	utime_ns now = unow();

	e.e_latency += (double)(now - t->t_time);
	e.e_alive--;
	e.e_bytes -= t->t_bytes;
	t->t_time   = now;
	t->t_result = result;
	t->t_stage  = ENGINE_ENDED;
	t->t_runner = NULL;
	engine_claim_all(&t->t_waiters, result, l);
	if (t->t_batch >= 0)
		engine_batch_add(t);
	else if (t->t_flags & ENGINE_DETACHED)
		engine_slot_free(t);
	if (e.e_room != NULL && e.e_amount != 0)
		(void)engine_claim_first(&e.e_room, 0, l);
	if (e.e_alive == 0)
		engine_claim_all(&e.e_drain, 0, l);
}

/* Numbers. */

/* Sets *result if the task has ended: 1. 0: not yet; or an error. */
static int look(engine_id id, int *result)
{
	const struct runner *r = engine_here();
	const struct task *t = engine_find(id);

	if (t == NULL)
		return -ESRCH;
	if (t->t_stage == ENGINE_ENDED) {
		*result = t->t_result;
		return 1;
	}
	return r != NULL && r->r_task == t ? -EDEADLK : 0;
}

int engine_wait(engine_id id, int *result, utime_ns until)
{
	struct waiter *a;
	int none, rc = engine_enter();

	if (result == NULL)
		result = &none;
	if (rc != 0)
		return rc;
	rc = look(id, result);
	engine_leave();
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	a = engine_waiter(until, &rc);
	if (a == NULL)
		return rc;
	rc = engine_enter();
	if (rc == 0 && (rc = look(id, result)) == 0) {
		int told = engine_wait_in(&engine_find(id)->t_waiters, a, false,
					  until, &rc);

		if (rc == 0)
			*result = told;
		return rc;
	}
	if (rc != -ECHILD && rc != -ENODEV)
		engine_leave();
	uwait_free(a);
	return rc > 0 ? 0 : rc;
}

int engine_enter_task(engine_id id, struct task **t)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	*t = engine_find(id);
	if (*t != NULL)
		return 0;
	engine_leave();
	return -ESRCH;
}

int engine_free(engine_id id)
{
	struct task *t;
	int rc = engine_enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (t->t_batch >= 0)
		rc = -EINVAL;
	else if (t->t_stage == ENGINE_ENDED)
		engine_slot_free(t);
	else
		t->t_flags |= ENGINE_DETACHED;
	engine_leave();
	return rc;
}

int engine_cancel(engine_id id)
{
	struct tell l = { NULL };
	struct task *t;
	int rc = engine_enter_task(id, &t);

	if (rc != 0)
		return rc;
	if (t->t_ending || t->t_stage == ENGINE_ENDED)
		rc = -EALREADY;
	else if (t->t_stage == ENGINE_QUEUED)
		engine_cancel_queued(t, &l);
	else {
		rc = 1;
		if (!t->t_runner->r_stopped)
			engine_stop(t->t_runner);
	}
	engine_tell(&l);
	return rc;
}

bool engine_stopping(void)
{
	const struct runner *r = engine_here();

	return r != NULL && __atomic_load_n(&r->r_stopped, __ATOMIC_RELAXED);
}

engine_id engine_self(void)
{
	const struct runner *r = engine_here();

	return r != NULL && r->r_task != NULL ? engine_number(r->r_task) : 0;
}
