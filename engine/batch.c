/* SPDX-License-Identifier: MIT */
/* batch.c: many ends of tasks, told by a single wake of a descriptor. */

/*
 * A task that ends is linked into the list of its batch, so the end needs no
 * memory. If the descriptor cannot be read yet, the ender makes it readable.
 * engine_take() reads it, and so the next end makes the next wake:
 *
 *	end: link; b_told? done		take: take from the list
 *	     b_told = true, write	      the list is empty, b_told?
 *	                                      b_told = false, read
 *
 * All steps are made under the lock of the engine. A batch cannot be closed
 * meanwhile, and no wake is lost. The descriptor never blocks. A caller that
 * takes many puts the lock now and then, so that runners need not sleep.
 *
 * B1. b_told is true exactly if the descriptor can be read, and if the list is
 *     not empty.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* eventfd(), pipe2() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "inside.h"

#include <fcntl.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/eventfd.h>
#endif

UPREEMPT_NEVER;

#define e engine_all		/* in this file */

/* Opens the descriptors of b. 0 or -errno. */
static int opens(struct batch *b)
{
#if defined(__linux__)
	b->b_fd = b->b_write = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return b->b_fd >= 0 ? 0 : -errno;
#else
	int fd[2];

	if (pipe(fd) != 0)
		return -errno;
	b->b_fd = fd[0];
	b->b_write = fd[1];
	(void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(fd[1], F_SETFL, O_NONBLOCK);
	(void)fcntl(fd[0], F_SETFD, FD_CLOEXEC);
	(void)fcntl(fd[1], F_SETFD, FD_CLOEXEC);
	return 0;
#endif
}

/* A number is the place and the turn, which is odd while the batch is in use. */
struct batch *engine_batch_find(int batch)
{
	struct batch *b;

	if (batch <= 0)
		return NULL;
	b = &e.e_batch[batch % ENGINE_BATCHES];
	return b->b_turn == batch / ENGINE_BATCHES && b->b_turn % 2 == 1 ? b :
		NULL;
}

void engine_batch_close(struct batch *b)
{
	if (b->b_write != b->b_fd)
		(void)close(b->b_write);
	(void)close(b->b_fd);
	b->b_turn = (b->b_turn + 1) % (INT32_MAX / ENGINE_BATCHES - 1);
}

/* Makes the descriptor of b readable, if it is not. Caller has entered. */
static void tell(struct batch *b)
{
	static const uint64_t one = 1;

	if (b->b_told)
		return;
	b->b_told = true;
	(void)!write(b->b_write, &one, sizeof one);
}

void engine_batch_add(struct task *t)
{
	struct batch *b = &e.e_batch[t->t_batch];

	t->t_next = NULL;
	*b->b_end = t;
	b->b_end  = &t->t_next;
	tell(b);
}

/* Opens b, which is not in use. Returns its number, or -errno. */
static int begin(struct batch *b)
{
	int rc = opens(b);

	if (rc != 0)
		return rc;
	b->b_turn++;
	b->b_tasks = 0;
	b->b_told  = false;
	b->b_first = NULL;
	b->b_end   = &b->b_first;
	return b->b_turn * ENGINE_BATCHES + (int)(b - e.e_batch);
}

int engine_batch(void)
{
	int i, rc = engine_enter();

	if (rc != 0)
		return rc;
	rc = e.e_state == OPEN ? -EMFILE : -ESHUTDOWN;
	for (i = 0; rc == -EMFILE && i < ENGINE_BATCHES; i++) {
		if (e.e_batch[i].b_turn % 2 == 1)
			continue;
		rc = begin(&e.e_batch[i]);
		break;
	}
	engine_leave();
	return rc;
}

int engine_batch_fd(int batch)
{
	const struct batch *b;
	int rc = engine_enter();

	if (rc != 0)
		return rc;
	b  = engine_batch_find(batch);
	rc = b != NULL ? b->b_fd : -EINVAL;
	engine_leave();
	return rc;
}

/* Empties the descriptor of b. Caller has entered. */
static void quiet(struct batch *b)
{
	uint64_t any;

	(void)!read(b->b_fd, &any, sizeof any);
	b->b_told = false;
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
		if (b->b_first == NULL && b->b_told)
			quiet(b);
	}
	engine_leave();
	return b != NULL ? n : -EINVAL;
}

int engine_take(int batch, struct engine_end *ends, int nr)
{
	int n, most, sum = 0;

	if (nr < 1 || ends == NULL)
		return -EINVAL;
	do {
		most = nr - sum < TOGETHER ? nr - sum : TOGETHER;
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
		engine_batch_close(b);
	engine_leave();
	return rc;
}
