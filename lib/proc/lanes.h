/* SPDX-License-Identifier: MIT */
/* lanes.h: the lanes of processors, and private lanes. A part of uproc.c. */

#ifndef UPROC_LANES_H
#define UPROC_LANES_H

/*
 * Each processor has lanes, by default. In a scheduler whose threads move, the first
 * processor has all of them (mv_lanes).
 *
 * PRIVATE
 *
 * A private stack is a private lane, which usched_private() promises to the
 * maker of a thread. Makers before the start are given promises, too, but
 * there are no lanes yet: p_promised counts them, up to the number of lanes that
 * there will be, and uproc_start() asks for all of them at once. It fails if
 * memory, or guards, do not suffice.
 *
 * FEW THREADS
 *
 * If threads take turns, those without a lane of their own cost two copies a
 * block. So while a processor has at most FEW threads, those that find no free
 * lane get private lanes (s_few). With 1,000 threads a ring of rr is 1.4 times
 * as fast, and a thread takes a page where it took a buffer, until it has waited for
 * long (rest.h). More threads than that share lanes, since the memory of 100,000
 * threads must stay small; and threads that are alone in their lanes miss the TLB
 * once a block: with 1,024 lanes for any number of threads, a ring of 20,000 took a
 * seventh longer. If there were no mappings for all lanes at the start, private
 * lanes would take those that native threads need. And where addresses are limited
 * (RLIMIT_AS), the 250 MB of these lanes may leave none for the program. Threads that
 * wait for descriptors share lanes at any number (core/outside.h), here and in ll and
 * ws.
 */

#include "uproc_inside.h"

#include <sys/resource.h>

#define FEW		1024		/* threads with lanes of their own */

/* Returns how many lanes each processor has, unless memory or mappings lack. */
static int lane_nr(const struct uproc_set *set)
{
	int nr = UPROC_LANE_NR;

	while (nr > UPROC_LANE_FEW && nr > UPROC_LANE_ALL / set->set_nr)
		nr /= 2;
	while (nr > 1 && nr > UPROC_LANE_MOST / set->set_nr)
		nr /= 2;
	return nr;
}

/* Maps lanes for each processor. 0 or -errno. */
static int lanes_each(struct uproc_set *set)
{
	int rc = 0;
	int i;

	for (i = 0; i < set->set_nr && rc == 0; i++)
		rc = usched_lanes(&uproc_nth(set, i)->p_sched, set->set_lane_nr,
				  set->set_stack);
	return rc;
}

/* Returns the processor whose dispatcher owns the lanes of p. */
static struct uproc *lanes_owner(struct uproc *p)
{
	return p->p_set->set_ops.op_move.mv_lanes == lanes_each ? p :
		uproc_nth(p->p_set, 0);
}

/*
 * Returns how many private lanes p has if each processor has nr lanes, unless
 * memory lacks.
 */
static int private_most(const struct uproc *p, int nr)
{
	const struct uproc_set *set = p->p_set;
	bool each = set->set_ops.op_move.mv_lanes == lanes_each;

	return usched_private_most(each ? nr : nr * set->set_nr);
}

/* Promises nr private stacks on p, or fewer. 0, -EAGAIN, -ENOMEM. */
static int promise(struct uproc *p, int nr)
{
	struct uproc_set *set = p->p_set;
	int rc = 0;

	p = lanes_owner(p);
	if (__atomic_load_n(&set->set_go, __ATOMIC_ACQUIRE) > 0)
		return usched_private(&p->p_sched, nr);
	pthread_mutex_lock(&set->set_lock);
	if (p->p_promised + nr > private_most(p, lane_nr(set)))
		rc = -EAGAIN;
	else if (set->set_promising)
		rc = usched_private(&p->p_sched, nr);
	if (rc == 0)
		p->p_promised += nr;
	pthread_mutex_unlock(&set->set_lock);
	return rc;
}

/*
 * Promises to the dispatchers, which have lanes now, all that was promised before
 * (on), or lets makers only count. 0, -EAGAIN, -ENOMEM.
 */
static int promises(struct uproc_set *set, bool on)
{
	int rc = 0;
	int i;

	pthread_mutex_lock(&set->set_lock);
	for (i = 0; i < set->set_nr && rc == 0 && on; i++) {
		struct uproc *p = uproc_nth(set, i);

		if (p->p_promised != 0)
			rc = usched_private(&p->p_sched, p->p_promised);
	}
	set->set_promising = on && rc == 0;
	pthread_mutex_unlock(&set->set_lock);
	return rc;
}

int uproc_private(struct uproc_set *set, int on)
{
	int i;

	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	for (i = 0; i < set->set_nr && set->set_private < 0; i++)
		__atomic_store_n(&uproc_nth(set, i)->p_private, on ? UPROC_PRIVATE : 0,
				 __ATOMIC_RELAXED);
	return 0;
}

/* Promises a private stack on p to t, which is new. 0, -EAGAIN, -ENOMEM. */
static NOINLINE int make_private(struct uproc *p, struct uproc_thread *t)
{
	int rc = promise(p, 1);

	if (rc == 0 && p->p_set->set_ops.op_move.mv_lanes == lanes_each)
		t->t_stack.u_lane = USCHED_PRIVATE;
	return rc;
}

/*
 * While few threads are alive, each may have a lane for itself, unless those that
 * wake each other run in turn anyway (op_soon), addresses are limited, or mappings
 * lacked at the start.
 */
static void note_few(struct uproc *p)
{
	const struct uproc_set *set = p->p_set;

	p->p_sched.s_few = set->set_few &&
		set->set_lane_nr == UPROC_LANE_NR &&
		__atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) <= FEW;
}

/* Is there a limit of addresses? */
static bool has_limit(void)
{
#if defined(RLIMIT_AS)
	struct rlimit most;

	return getrlimit(RLIMIT_AS, &most) == 0 &&
		most.rlim_cur != RLIM_INFINITY;
#else
	return false;
#endif
}

#endif /* UPROC_LANES_H */
