/* SPDX-License-Identifier: MIT */
/* blocks.h: memory of threads and of their slices. A part of uproc.c. */

#ifndef UPROC_BLOCKS_H
#define UPROC_BLOCKS_H

/*
 * Both come from the pool of the processor that runs (umem.c), and go back there. A
 * native thread that is no processor gives back to p_outer, which has a lock.
 *
 * In the hard mode a thread that has ended is kept for a while, so that a wake or a
 * join that comes too late is noticed (uobject.h).
 */

#include "stuck.h"

static void *buf_alloc(struct usched *s, int size)
{
	struct uproc *p = (struct uproc *)s;

	return umem_get(&p->p_pool, (size_t)size);
}

static void buf_free(struct usched *s, void *buf, int size)
{
	struct uproc *p = (struct uproc *)s;

	umem_put(&p->p_pool, buf, (size_t)size);
}

/* Fails if the thread, which has ended, has not left its scopes. */
static NOINLINE void shell_left(const struct ustack *u)
{
	struct stuck_text who;

	if (uwait_self(u, uwait_run) == NULL)
		return;
	usched_last_message("uscope: %s has not ended its scope:",
			    stuck_who(&who, u));
	usched_fail("uscope: the thread has ended in a scope that it "
		    "has begun; or a thread of uscope_go() or "
		    "uthread_make() has called ustack_abort()");
}

static inline void slice_free(struct uproc *p, struct uproc_thread *t)
{
	if (unlikely(t->t_stack.u_f == ustack_shell))
		shell_left(&t->t_stack);
	if (t->t_stack.u_stack != NULL)
		buf_free(&p->p_sched, t->t_stack.u_stack, t->t_stack.u_len);
}

void uproc_slice_free(struct uproc *p, struct uproc_thread *t)
{
	slice_free(p, t);
}

static void block_free(struct uproc *p, struct uproc_thread *t)
{
	umem_put(&p->p_pool, t, thread_size(p, t->t_stack.u_mark));
}

/* Does what block_free() does, for a native thread that is no processor. */
static void block_free_shared(struct uproc *p, struct uproc_thread *t)
{
	umem_put_shared(&p->p_outer, t, thread_size(p, t->t_stack.u_mark));
}

#if defined(USCHED_HARD)
/*
 * Keeps t for a while, so that a late wake or join of t is noticed: uobject.h.
 * What was kept before is freed instead.
 */
static void keep(struct uproc *p, struct uproc_thread *t,
		 void (*instead)(struct uproc *p, struct uproc_thread *t))
{
	struct ustack *u = &t->t_stack;

	u->u_stack = NULL;
	u->u_len   = -1;		/* for usched-gdb.py: not a thread */
	uhard_ends(&t->t_object, UHARD_THREAD,
		   u->u_mark & UPROC_JOIN ? " by its join" : "");
	t->t_object.o_who = u;
	t->t_object.o_f   = u->u_f;
	t->t_object.o_arg = u->u_arg;
	uhard_grave_put(&p->p_graves, &t->t_object, t, thread_size(p, u->u_mark));
	while ((t = uhard_grave_get(&p->p_graves, 0)) != NULL)
		instead(p, t);
}

void uproc_free(struct uproc *p, struct uproc_thread *t)
{
	keep(p, t, block_free);
}

static void free_natively(struct uproc *p, struct uproc_thread *t)
{
	keep(p, t, block_free_shared);
}

/* Forgets the threads that are kept. Their memory goes back with set_mem. */
static void graves_drop(struct uproc *p)
{
	while (uhard_grave_get(&p->p_graves, 1) != NULL)
		;
}

void uproc_live(const struct uproc_thread *t, const char *call)
{
	uhard_live(&t->t_stack, &t->t_object, name_of(uproc_of(t)->p_set),
		   call);
}
#else
void uproc_free(struct uproc *p, struct uproc_thread *t)
{
	block_free(p, t);
}

static void free_natively(struct uproc *p, struct uproc_thread *t)
{
	block_free_shared(p, t);
}

static void graves_drop(struct uproc *p)
{
	(void)p;
}
#endif

#endif /* UPROC_BLOCKS_H */
