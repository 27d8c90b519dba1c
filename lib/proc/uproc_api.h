/* SPDX-License-Identifier: MIT */
/* uproc_api.h: functions of a scheduler that only call functions of uproc.h. */

/*
 * Not a header in the usual sense: a scheduler like rr.c or ll.c includes it
 * once, after its ops. The scheduler defines SCHED(name), which makes the names
 * of its functions. It also defines THREAD, its struct of a thread, whose first
 * member is a struct uproc_thread. And it has
 *
 *	static struct uproc_set *set;
 *	static long stuck;
 *	static const struct uproc_ops ops;
 *
 * A scheduler whose threads move defines SCHED_MOVES, and provides by itself
 * the functions that are left out then.
 */

int SCHED(stack_size)(size_t size)
{
	return set != NULL ? uproc_stack_size(set, size) :
		uproc_none(&ops, "stack_size");
}

struct usched *SCHED(sched)(int proc)
{
	struct uproc *p = uproc_at(set, proc);

	return p != NULL ? &p->p_sched : NULL;
}

int SCHED(preempt)(void)
{
	return set != NULL ? uproc_preempt(set) : uproc_none(&ops, "preempt");
}

int SCHED(private)(int on)
{
	return set != NULL ? uproc_private(set, on) :
		uproc_none(&ops, "private");
}

int SCHED(pinning)(int on)
{
	return set != NULL ? uproc_pinning(set, on) :
		uproc_none(&ops, "pinning");
}

int SCHED(start)(void)
{
	return set != NULL ? uproc_start(set) : uproc_none(&ops, "start");
}

int SCHED(fini)(void)
{
	return set != NULL ? uproc_fini(&set, &stuck) :
		uproc_none(&ops, "fini");
}

long SCHED(stuck)(void)
{
	return stuck;
}

void SCHED(hold)(void)
{
	if (set == NULL)
		(void)uproc_none(&ops, "hold");
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

int SCHED(join_until)(THREAD *t, utime_ns until)
{
	return uproc_join_until((struct uproc_thread *)t, until);
}

THREAD *SCHED(self)(void)
{
	/* A thread of another scheduler may call this during our fini(). */
	return (THREAD *)uproc_self(__atomic_load_n(&set, __ATOMIC_RELAXED));
}

/* Schedulers whose threads move have these in their own files. */
#if !defined(SCHED_MOVES)
void SCHED(done)(void)
{
}

int SCHED(init)(int proc_nr, int thread_nr)
{
	return uproc_init(&set, &ops, proc_nr, thread_nr);
}

static THREAD *make(unsigned proc, void (*f)(void *), void *arg, int flags)
{
	if (__builtin_expect(set == NULL, 0))
		(void)uproc_none(&ops, "thread_init");
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
