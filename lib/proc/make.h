/* SPDX-License-Identifier: MIT */
/* make.h: making threads. A part of uproc.c. */

#ifndef UPROC_MAKE_H
#define UPROC_MAKE_H

/*
 * A thread and its memory belong to a processor, and may be made by any native thread. A
 * maker that runs on this processor takes memory from its pool, any other from p_outer.
 * The new thread waits; its first wake lets it begin.
 */

#include "arrive.h"
#include "lanes.h"

#include <stdio.h>

/* Frees the memory of a thread that is not made after all. */
static void thread_drop(struct uproc *here, struct uproc *p,
			struct uproc_thread *t, int flags)
{
	if (flags & UPROC_PRIVATE)
		(void)promise(p, -1);
	if (here == p)
		umem_put(&p->p_pool, t, thread_size(p, flags));
	else
		umem_put_shared(&p->p_outer, t, thread_size(p, flags));
}

/*
 * Reports the argument of a new thread, which lies where others must not look.
 * The stack of a thread that has forked us does not move: it never waits again.
 */
static NOINLINE void arg_moves(const struct uproc_set *set, const void *arg)
{
	char what[48];

	if (uproc_lost())
		return;
	(void)snprintf(what, sizeof what, "%sthread_init: the argument",
		       name_of(set));
	usched_law(what, arg);
}

struct uproc_thread *uproc_alloc(struct uproc *here, struct uproc *p,
				 void (*f)(void *), void *arg, int flags)
{
	struct uproc_thread *t;
	int rc;

	if (p == NULL || f == NULL || uproc_inherited(p->p_set)) {
		errno = p == NULL || f == NULL ? EINVAL : ECHILD;
		return NULL;
	}
	if (unlikely(ustack_moves(arg)))
		arg_moves(p->p_set, arg);
	flags |= __atomic_load_n(&p->p_private, __ATOMIC_RELAXED);
	t = here == p ? umem_get(&p->p_pool, thread_size(p, flags)) :
		umem_get_shared(&p->p_outer, thread_size(p, flags));
	if (t == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	ustack_init(&t->t_stack, &p->p_sched, f, arg, NULL, 0);
	if (unlikely(flags & UPROC_PRIVATE) && (rc = make_private(p, t)) != 0) {
		thread_drop(here, p, t, flags & ~UPROC_PRIVATE);
		errno = -rc;
		return NULL;
	}
	t->t_stack.u_mark = flags;
	UHARD(begins(&t->t_object));
	uwakes_init(&t->t_wakes);
	if (flags & UPROC_JOIN)
		memset(joint(t), 0, sizeof(struct joint));
	return t;
}

struct uproc_thread *uproc_make(struct uproc *p, void (*f)(void *), void *arg,
				int flags)
{
	struct uproc *here = p != NULL ? uproc_here(p->p_set) : NULL;
	struct uproc_thread *t = uproc_alloc(here, p, f, arg, flags);

	if (t == NULL)
		return NULL;
	if (!room_get(p)) {
		thread_drop(here, p, t, t->t_stack.u_mark);
		errno = ENOMEM;
		return NULL;
	}
	if (here == p) {
		ring_move(p);
		ready(p, t, 1);
	} else
		wake_send(t);
	return t;
}

#endif /* UPROC_MAKE_H */
