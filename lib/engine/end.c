/* SPDX-License-Identifier: MIT */
/* end.c: the end of a task, in two parts: without the lock, and with it. */

#include "inside.h"

#include <stdlib.h>

void engine_finish_outside(struct task *t, int result)
{
	if (!t->t_more)
		return;
	if (t->t_end != NULL)
		t->t_end(engine_number(t), t->t_arg, result);
	USCHED_RACE(engine_end);
	free(t->t_copy);
	engine_bus_drop(t);
}

void engine_finish(struct task *t, int result, utime_ns now, struct claimed *l)
{
	if (t->t_weight != 0) {
		e->e_latency += (double)(now - t->t_time) * t->t_weight;
		e->e_timed   += t->t_weight;
	}
	e->e_alive--;
	e->e_bytes -= engine_bytes(t);
	t->t_time   = now;
	t->t_result = result;
	t->t_stage  = ENGINE_ENDED;
	if (t->t_waiters != NULL)
		engine_claim_all(&t->t_waiters, result, l);
	if (t->t_batch >= 0)
		engine_batch_add(t);
	else if (t->t_flags & ENGINE_DETACHED)
		engine_slot_free(t);
	if (e->e_alive == 0 && e->e_drain != NULL)
		engine_claim_all(&e->e_drain, 0, l);
}
