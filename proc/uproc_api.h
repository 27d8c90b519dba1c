/* SPDX-License-Identifier: MIT */
/* uproc_api.h: functions of a scheduler that only call those of uproc.h. */

/*
 * Not a header in the usual sense: rr.c, ll.c and the like include it once,
 * after their ops. They define SCHED(name), which gives the names of the
 * scheduler's functions, and THREAD, its struct, whose first member is a struct
 * uproc_thread; and they have
 *
 *	static struct uproc_set *set;
 *	static long stuck;
 *	static const struct uproc_ops ops;
 *
 * With SCHED_MOVES threads move, and the scheduler itself has the functions that
 * differ then.
 */

int SCHED(stack_size)(size_t size)
{
	return uproc_stack_size(set, size);
}

struct usched *SCHED(sched)(int proc)
{
	struct uproc *p = uproc_at(set, proc);

	return p != NULL ? &p->p_sched : NULL;
}

int SCHED(preempt)(void)
{
	return uproc_preempt(set);
}

int SCHED(pinning)(int on)
{
	return uproc_pinning(set, on);
}

int SCHED(start)(void)
{
	return uproc_start(set);
}

int SCHED(fini)(void)
{
	return uproc_fini(&set, &stuck);
}

long SCHED(stuck)(void)
{
	return stuck;
}

void SCHED(hold)(void)
{
	uproc_hold(set);
}

void SCHED(release)(void)
{
	uproc_release(set);
}

int SCHED(join)(THREAD *t)
{
	return uproc_join((struct uproc_thread *)t);
}

THREAD *SCHED(self)(void)
{
	/* By a thread of another scheduler, perhaps, while ours is at its end. */
	return (THREAD *)uproc_self(__atomic_load_n(&set, __ATOMIC_RELAXED));
}

void SCHED(done)(void)
{
}

/* Not those whose threads move. */
#if !defined(SCHED_MOVES)
int SCHED(init)(int proc_nr, int thread_nr)
{
	return uproc_init(&set, proc_nr, thread_nr, &ops);
}

static THREAD *make(unsigned proc, void (*f)(void *), void *arg, int flags)
{
	return (THREAD *)uproc_make(uproc_at(set, proc), f, arg, flags);
}

int SCHED(yield)(void)
{
	return uproc_yield();
}

void SCHED(post)(THREAD *t)
{
	uproc_post((struct uproc_thread *)t);
}
#endif
