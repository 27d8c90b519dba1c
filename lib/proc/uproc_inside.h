/* SPDX-License-Identifier: MIT */
/* uproc_inside.h: the base of the parts of uproc.c. */

#ifndef UPROC_INSIDE_H
#define UPROC_INSIDE_H

/*
 * Sizes and names of a set, and which processor the caller is. A native thread has its
 * processor in a variable of its own (mine). A thread may block on one native thread and
 * go on upon another, which no compiler knows. So functions that are never inlined read
 * the variable for it.
 *
 * This is the lowest part of uproc.c: see PARTS there.
 */

#include "uproc_set.h"
#include "compiler.h"
#include "lock.h"

#include <errno.h>
#include <string.h>

/* Lies behind a thread made with UPROC_JOIN. */
struct joint {
	struct uwait *j_wait;	/* of the joiner, or NULL */
	struct ulock  j_lock;	/* protects both others */
	int           j_ended;
};

static size_t thread_size(const struct uproc *p, int flags)
{
	return p->p_set->set_ops.op_thread +
		(flags & UPROC_JOIN ? sizeof(struct joint) : 0);
}

static struct joint *joint(struct uproc_thread *t)
{
	return (struct joint *)((char *)t +
				uproc_of(t)->p_set->set_ops.op_thread);
}

static const char *ops_name(const struct uproc_ops *o)
{
	return o->op_name != NULL ? o->op_name : "uproc_";
}

static const char *name_of(const struct uproc_set *set)
{
	return ops_name(&set->set_ops);
}

/* Returns 0 if set can still be changed or started, else -errno. */
static int is_new(const struct uproc_set *set)
{
	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	return set->set_running > 0 ? -EBUSY : 0;
}

/* The processor that this native thread is, or NULL. Threads may migrate. */
static __thread struct uproc *mine;

__thread const struct uproc_set *uproc_serves;

/* Returns mine, even if the caller has just moved to this native thread. */
NOINLINE struct uproc *uproc_native(void)
{
	__asm__ volatile("" : : : "memory");	/* not pure: never merged */
	return mine;
}

/* Returns the processor of the running thread; NULL: it has none. */
static NOINLINE struct uproc *runs_on(void)
{
	struct ustack *u = ustack_self();

	__asm__ volatile("" : : : "memory");	/* not pure: never merged */
	return u != NULL && mine != NULL && u->u_sched == &mine->p_sched ?
		mine : NULL;
}

/* Does not dereference set: another scheduler may be freeing it. */
struct uproc *uproc_here(const struct uproc_set *set)
{
	struct uproc *p = runs_on();

	return p != NULL && p->p_set == set ? p : NULL;
}

struct uproc_set *uproc_running(void)
{
	struct uproc *p = runs_on();

	return p != NULL ? p->p_set : NULL;
}

struct uproc_thread *uproc_self(struct uproc_set *set)
{
	return uproc_here(set) ? (struct uproc_thread *)ustack_self() : NULL;
}

#endif /* UPROC_INSIDE_H */
