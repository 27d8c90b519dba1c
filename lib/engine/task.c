/* SPDX-License-Identifier: MIT */
/* task.c: slots of tasks, and their numbers. */

/*
 * Tasks lie in slots, which are made in chunks, and stay until engine_fini().
 * The number of a task is its slot and the generation of the slot, which is odd
 * while the slot is in use. So engine_find() knows that a number is old, also
 * if it is from an earlier engine: generations of the next engine begin after
 * those of the last.
 */

#include "inside.h"

#include <stdlib.h>

struct task *engine_find(engine_id id)
{
	unsigned nr = (unsigned)id - 1, generation = (unsigned)(id >> 32);
	struct task *t;

	if (nr >= e->e_slots)
		return NULL;
	t = &e->e_chunk[nr / ENGINE_CHUNK][nr % ENGINE_CHUNK];
	return t->t_generation == generation && generation % 2 == 1 &&
		t->t_stage != ENGINE_OUTSIDE ? t : NULL;
}

int engine_slots_more(void)
{
	void *chunk;
	struct task *t;
	unsigned i;
	int rc;

	if (e->e_slots / ENGINE_CHUNK == ENGINE_CHUNKS)
		return -ENOMEM;
	engine_unlock();
	USCHED_RACE(engine_slots);
	rc = posix_memalign(&chunk, sizeof *t, ENGINE_CHUNK * sizeof *t);
	if (rc == 0)
		memset(chunk, 0, ENGINE_CHUNK * sizeof *t);
	engine_lock();
	if (rc != 0)
		return -ENOMEM;
	t = chunk;
	if (e->e_slots / ENGINE_CHUNK == ENGINE_CHUNKS || e->e_state != OPEN) {
		free(t);		/* the caller looks again */
		return 0;
	}
	e->e_chunk[e->e_slots / ENGINE_CHUNK] = t;
	for (i = ENGINE_CHUNK; i-- > 0; ) {
		t[i].t_nr   = e->e_slots + i;
		t[i].t_generation = e->e_generation;
		t[i].t_next = e->e_free;
		e->e_free = &t[i];
	}
	e->e_slots += ENGINE_CHUNK;
	return 0;
}

void engine_slot_free(struct task *t)
{
	t->t_generation++;
	if (t->t_more) {
		t->t_more  = false;
		t->t_copy  = NULL;
		t->t_end   = NULL;
		t->t_bytes = 0;
		t->t_name[0] = '\0';
	}
	t->t_next = e->e_free;
	e->e_free  = t;
}

void engine_slots_end(void)
{
	unsigned i, k, age, oldest = 0;

	for (i = 0; i < e->e_slots / ENGINE_CHUNK; i++) {
		for (k = 0; k < ENGINE_CHUNK; k++) {
			age = e->e_chunk[i][k].t_generation - e->e_generation;
			oldest = age > oldest ? age : oldest;
		}
		free(e->e_chunk[i]);
	}
	e->e_generation = (e->e_generation + oldest + 1) & ~1u;
	e->e_slots = 0;
	e->e_free  = NULL;
}

int engine_enter_task(engine_id id, struct task **t)
{
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	*t = engine_find(id);
	if (*t != NULL)
		return 0;
	engine_unlock();
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
	engine_unlock();
	return rc;
}

