/* SPDX-License-Identifier: MIT */
/* state.c: the engine's one lock, and which task calls. */

#include "inside.h"
#include "ufork.h"

struct engine engine_all;

/* Entering. */

void engine_lock_slow(void)
{
	ulock_get(&e->e_lock);
	e->e_contended++;
}

static void in_child(void)
{
	if (e->e_state != NONE)
		__atomic_store_n(&e->e_forked, 1, __ATOMIC_RELAXED);
}

static struct ufork at_fork = {
	.f_rank = UFORK_ENGINE, .f_lock = &engine_all.e_lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

/* The calling task. */

static __thread struct runner *helper;	/* of a native thread, or NULL */

/* Not inline: a thread may go on in another native thread. */
static NOINLINE struct runner *helper_here(void)
{
	return helper;
}

void engine_helper_set(struct runner *r)
{
	helper = r;
}

struct runner *engine_here(void)
{
	const struct ustack *u = ustack_self();

	if (u == NULL)
		return helper_here();
	if (ustack_f(u->u_f, u->u_arg) !=
	    __atomic_load_n(&e->e_run, __ATOMIC_RELAXED))
		return NULL;
	return ustack_arg(u->u_f, u->u_arg);
}

int engine_stopping(void)
{
	const struct runner *r = engine_here();

	return r != NULL && __atomic_load_n(&r->r_stopped, __ATOMIC_RELAXED);
}

engine_id engine_self(void)
{
	const struct runner *r = engine_here();

	return r != NULL && r->r_task != NULL ? engine_number(r->r_task) : 0;
}
