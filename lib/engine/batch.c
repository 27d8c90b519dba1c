/* SPDX-License-Identifier: MIT */
/* batch.c: many ends of tasks, and a single wake of a descriptor. */

/*
 * A task that ends is linked into the list of its batch, so the end needs no
 * memory. If the descriptor cannot be read yet, the ender makes it readable.
 * engine_take() reads it, and so the next end makes the next wake:
 *
 *	end: link; b_readable? done	take: take from the list
 *	     b_readable = true, write	      the list is empty, b_readable?
 *	                                      b_readable = false, read
 *
 * All steps are made under the lock of the engine. A batch cannot be closed
 * meanwhile, and no wake is lost. The descriptor never blocks. A caller that
 * takes many releases the lock now and then, so that runners need not sleep.
 *
 * EB1. b_readable is true exactly if the descriptor can be read, and if the
 *	list is not empty.
 */

#include "inside.h"
#include "park.h"

#include <unistd.h>
/* A number is place and generation, which is odd while the batch is in use. */
struct batch *engine_batch_find(int batch)
{
	struct batch *b;

	if (batch <= 0)
		return NULL;
	b = &e->e_batch[engine_batch_place(batch)];
	return b->b_generation == batch / ENGINE_BATCHES &&
		b->b_generation % 2 == 1 ? b : NULL;
}

static void close_batch(struct batch *b)
{
	upark_bell_close(b->b_bell);
	b->b_generation = (b->b_generation + 1) % (INT32_MAX / ENGINE_BATCHES - 1);
}

/* Makes the descriptor of b readable, if it is not. Caller holds the lock. */
static void make_readable(struct batch *b)
{
	if (b->b_readable)
		return;
	b->b_readable = true;
	upark_write(b->b_bell[1]);
}

void engine_batch_add(struct task *t)
{
	struct batch *b = &e->e_batch[t->t_batch];

	t->t_next = NULL;
	*b->b_end = t;
	b->b_end  = &t->t_next;
	make_readable(b);
}

/* Opens b, which is not in use. Returns its number, or -errno. */
static int begin(struct batch *b)
{
	int rc = upark_bell(b->b_bell);

	if (rc != 0)
		return rc;
	b->b_generation++;
	b->b_tasks = 0;
	b->b_readable  = false;
	b->b_first = NULL;
	b->b_end   = &b->b_first;
	return b->b_generation * ENGINE_BATCHES + (int)(b - e->e_batch);
}

int engine_batch_make(void)
{
	int i, rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = e->e_state == OPEN ? -EMFILE : -ESHUTDOWN;
	for (i = 0; rc == -EMFILE && i < ENGINE_BATCHES; i++) {
		if (e->e_batch[i].b_generation % 2 == 1)
			continue;
		rc = begin(&e->e_batch[i]);
		break;
	}
	engine_unlock();
	return rc;
}

int engine_batch_fd(int batch)
{
	const struct batch *b;
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	b  = engine_batch_find(batch);
	rc = b != NULL ? b->b_bell[0] : -EINVAL;
	engine_unlock();
	return rc;
}

/* Empties the descriptor of b. Caller holds the lock. */
static void make_unreadable(struct batch *b)
{
	uint64_t any;

	(void)!read(b->b_bell[0], &any, sizeof any);
	b->b_readable = false;
}

static void take_first(struct batch *b, struct engine_end *end)
{
	struct task *t = b->b_first;

	b->b_first = t->t_next;
	if (b->b_first == NULL)
		b->b_end = &b->b_first;
	b->b_tasks--;
	end->e_id     = engine_number(t);
	end->e_arg    = t->t_arg;
	end->e_result = t->t_result;
	engine_slot_free(t);
}

/* Takes up to nr under one lock. Returns how many, or an error. */
static int take(int batch, struct engine_end *ends, int nr)
{
	struct batch *b;
	int n = 0, rc = engine_enter();

	if (rc != 0)
		return rc;
	b = engine_batch_find(batch);
	if (b != NULL) {
		while (n < nr && b->b_first != NULL)
			take_first(b, &ends[n++]);
		if (b->b_first == NULL && b->b_readable)
			make_unreadable(b);
	}
	engine_unlock();
	return b != NULL ? n : -EINVAL;
}

int engine_take(int batch, struct engine_end *ends, int nr)
{
	int n, most, sum = 0;

	if (nr < 1 || ends == NULL)
		return -EINVAL;
	do {
		most = nr - sum < ENGINE_TOGETHER ? nr - sum : ENGINE_TOGETHER;
		n = take(batch, ends + sum, most);
		sum += n > 0 ? n : 0;
	} while (n == most && sum < nr);
	return sum > 0 ? sum : n;
}

int engine_batch_free(int batch)
{
	struct batch *b;
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	b = engine_batch_find(batch);
	if (b == NULL)
		rc = -EINVAL;
	else if (b->b_tasks != 0)
		rc = -EBUSY;
	else
		close_batch(b);
	engine_unlock();
	return rc;
}

void engine_batches_end(void)
{
	int i;

	for (i = 0; i < ENGINE_BATCHES; i++)
		if (e->e_batch[i].b_generation % 2 == 1)
			close_batch(&e->e_batch[i]);
}
