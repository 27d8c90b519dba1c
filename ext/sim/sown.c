/* SPDX-License-Identifier: MIT */
/* sown.c: a host whose program starts a scheduler of its own: rr. */

/*
 * A program of usched calls rr_init(), makes threads, and starts. As a host it is
 * such a program, too, but all hosts share one scheduler, which runs already. So
 * here rr_start() is a wait until the threads have ended that the host has made by
 * rr_thread_init() and rr_thread_on(). It has as many processors as it likes, and
 * they are one.
 */

#include "snames.h"
#include "rr.h"
#include "usync.h"

#include <stdlib.h>

struct sim_own {
	struct ugroup o_threads;
};

struct thread {
	struct sim_own *t_own;
	void          (*t_f)(void *);
	void           *t_arg;
};

static void run(void *arg)
{
	struct thread t = *(struct thread *)arg;

	free(arg);
	t.t_f(t.t_arg);
	ugroup_done(&t.t_own->o_threads);
}

NAME(int, rr_init, (int proc_nr, int thread_nr))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return rr_init(proc_nr, thread_nr);
	if (proc_nr < 0 || thread_nr < 0 || b->b_own != NULL)
		return b->b_own != NULL ? -EBUSY : -EINVAL;
	b->b_own = sim_alloc(sizeof *b->b_own);
	return 0;
}

NAME(struct rr_thread *, rr_thread_init, (void (*f)(void *), void *arg))
{
	struct sim_boot *b = enter();
	struct rr_thread *made;
	struct thread *t;

	if (b == NULL)
		return rr_thread_init(f, arg);
	if (b->b_own == NULL)
		usim_fail("rr_thread_init() comes before rr_init()");
	t = sim_alloc(sizeof *t);
	*t = (struct thread) { b->b_own, f, arg };
	(void)ugroup_add(&b->b_own->o_threads, 1);
	made = sim_thread(b, run, t);
	if (made != NULL)
		return made;
	ugroup_done(&b->b_own->o_threads);
	free(t);
	return (void)answer(-ENOMEM), NULL;
}

NAME(struct rr_thread *, rr_thread_on, (int proc, void (*f)(void *), void *arg))
{
	return sim_self() == NULL ? rr_thread_on(proc, f, arg) :
		wrap_rr_thread_init(f, arg);
}

NAME(int, rr_pinning, (int on))
{
	return enter() == NULL ? rr_pinning(on) : 0;
}

NAME(int, rr_stack_size, (size_t size))
{
	return enter() == NULL ? rr_stack_size(size) : 0;
}

NAME(int, rr_start, (void))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return rr_start();
	return b->b_own == NULL ? -EINVAL : ugroup_wait(&b->b_own->o_threads, UNEVER);
}

NAME(int, rr_fini, (void))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return rr_fini();
	free(b->b_own);
	b->b_own = NULL;
	return 0;
}
