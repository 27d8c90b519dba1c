/* SPDX-License-Identifier: MIT */
/* join.h: waiting for the end of a thread. A part of uproc.c. */

#ifndef UPROC_JOIN_H
#define UPROC_JOIN_H

/*
 * A thread that is made with UPROC_JOIN has a struct joint behind it. Its end and its
 * joiner meet there, under a lock: whoever comes second finds the other. The joiner
 * frees the thread, once its end has left it, too (uwakes_close(), uwakes_leave()).
 * A thread without a joiner is freed by the processor on which it ends.
 *
 * P5. A thread is freed once. By then it has ended, its node is in no inbox,
 *     and its joiner, if it has one, has left. Each of its wait records has
 *     arrived (uwait A3).
 */

#include "blocks.h"

/* Ends the wait of the joiner: a native thread, or one of the set of p, the caller. */
static void complete_join(struct uproc *p, struct uwait *w)
{
	if (w->w_stack == NULL) {
		uwait_complete(w, 0);
		return;
	}
	w->w_result = 0;
	p->p_waits.wb_ops->o_complete(&p->p_waits, w);
}

void uproc_end(struct uproc *p, struct uproc_thread *t)
{
	struct joint *j = joint(t);
	struct uwait *w;

	USCHED_RACE(proc_end);
	ulock_get(&j->j_lock);
	w = j->j_wait;
	j->j_wait  = NULL;
	j->j_ended = 1;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	ulock_put(&j->j_lock);
	USCHED_RACE(proc_complete);
	if (w != NULL)
		complete_join(p, w);
}

/* Says that a call was refused. Returns -EINVAL. */
static NOINLINE int refused(const struct uproc_thread *t, const char *why)
{
	const struct uproc_set *set = uproc_running();

	usched_message("%sjoin: the thread %p %s",
		       set != NULL ? name_of(set) : "", (const void *)t, why);
	return -EINVAL;
}

/*
 * Returns whether t was freed. Then only its first words are those of a free
 * block, if no other thread has its memory yet.
 */
static bool was_freed(const struct uproc_thread *t)
{
	return (__atomic_load_n(&t->t_wakes.w_posted, __ATOMIC_RELAXED) &
		UWAKES_LEFT) != 0;
}

/*
 * Puts a record where the end of t finds it. Caller holds j_lock. 0: the caller
 * waits. 1: t has ended. -EAGAIN, -EINVAL, -ENOMEM.
 */
static int join_begin(struct joint *j, struct uproc_thread *t, utime_ns until)
{
	if (j->j_ended)
		return 1;
	if (j->j_wait != NULL)
		return refused(t, "has another joiner");
	if (until == UNOW)
		return -EAGAIN;
	j->j_wait = uwait_make(UWAIT_JOIN, t, sizeof *j->j_wait);
	return j->j_wait != NULL ? 0 : -errno;
}

/* Waits for the end of t. 0, or the reason why it has not come. */
static int join_wait(struct uproc_thread *t, utime_ns until)
{
	struct joint *j = joint(t);
	struct uwait *w;
	int rc;

	ulock_get(&j->j_lock);
	rc = join_begin(j, t, until);
	w = j->j_wait;
	ulock_put(&j->j_lock);
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	USCHED_RACE(proc_join);
	rc = uwait_for(w, until);
	if (rc != 0) {
		ulock_get(&j->j_lock);
		if (j->j_wait == w)
			j->j_wait = NULL;
		ulock_put(&j->j_lock);
	}
	uwait_free(w);
	return rc;
}

/* Frees t, which has ended, and which self has joined; NULL: natively. */
static void join_free(struct uproc_thread *t, struct uproc_thread *self)
{
	struct uproc *p = uproc_of(t);

	if (!uwakes_leave(&t->t_wakes))
		return;
	if (self != NULL)
		uproc_free(uproc_of(self), t);
	else
		free_natively(p, t);
}

static int join(struct uproc_thread *t, struct uproc_thread *self, utime_ns until)
{
	int rc;

	/* Atomic: the processor of t may be changing the scheduler's bits. */
	if (!(__atomic_load_n(&t->t_stack.u_mark, __ATOMIC_RELAXED) &
	      UPROC_JOIN))
		return refused(t, "is not joinable");
	if (until < 0)
		return -EINVAL;
	if (self == t) {
		(void)refused(t, "joins itself");
		return -EDEADLK;
	}
	UHARD(yield());
	rc = join_wait(t, until);
	if (rc == 0)
		join_free(t, self);
	return rc;
}

int uproc_join(struct uproc_thread *t)
{
	struct uproc_thread *self;

	uproc_live(t, "join");
	if (unlikely(was_freed(t)))
		return refused(t, "was joined before, or freed at its end");
	if (uproc_inherited(uproc_of(t)->p_set))
		return -ECHILD;
	self = uproc_self(uproc_of(t)->p_set);
	return self != NULL ? join(t, self, UNEVER) : -EINVAL;
}

int uproc_join_until(struct uproc_thread *t, utime_ns until)
{
	struct uproc_set *set;

	uproc_live(t, "join");
	if (unlikely(was_freed(t)))
		return refused(t, "was joined before, or freed at its end");
	set = uproc_of(t)->p_set;
	if (uproc_inherited(set))
		return -ECHILD;
	if (uproc_self(set) == NULL &&
	    (ustack_self() != NULL || uproc_native() != NULL))
		return -EINVAL;
	return join(t, uproc_self(set), until);
}

#endif /* UPROC_JOIN_H */
