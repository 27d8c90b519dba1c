/* SPDX-License-Identifier: MIT */
/* spending.c: signals of a host that are pending. */

/*
 * A list, in the order in which they were sent. A signal of a number below QUEUED pends
 * once for each of the two that it may be for: a thread, by raise(), or the process. The
 * others are queued. They are taken as Linux does: those of the thread first, the lowest
 * number first, and then in order.
 */

#include "sim.h"

#include <stdlib.h>

#define QUEUED		32

struct sim_pending {
	struct sim_pending *p_next;
	bool                p_of_process;
	siginfo_t           p_info;
};

void sim_pending_add(struct sim_pending **list, const siginfo_t *info, bool of_process)
{
	struct sim_pending *p;

	for (; (p = *list) != NULL; list = &p->p_next)
		if (p->p_info.si_signo == info->si_signo && info->si_signo < QUEUED &&
		    p->p_of_process == of_process)
			return;
	p = sim_alloc(sizeof *p);
	p->p_info = *info;
	p->p_of_process = of_process;
	*list = p;
}

/* Returns whether p is taken before q. */
static bool is_before(const struct sim_pending *p, const struct sim_pending *q)
{
	return p->p_of_process != q->p_of_process ? q->p_of_process :
		p->p_info.si_signo < q->p_info.si_signo;
}

bool sim_pending_take(struct sim_pending **list, const sigset_t *set, bool within,
		      siginfo_t *to)
{
	struct sim_pending **at, **first = NULL, *p;

	for (at = list; (p = *at) != NULL; at = &p->p_next)
		if ((sigismember(set, p->p_info.si_signo) == 1) == within &&
		    (first == NULL || is_before(p, *first)))
			first = at;
	if (first == NULL)
		return false;
	p = *first;
	*to = p->p_info;
	*first = p->p_next;
	free(p);
	return true;
}

bool sim_pending_has(const struct sim_pending *p, const sigset_t *set)
{
	while (p != NULL && sigismember(set, p->p_info.si_signo) == 1)
		p = p->p_next;
	return p != NULL;
}

void sim_pending_drop(struct sim_pending **list, int signo)
{
	struct sim_pending *p;

	while ((p = *list) != NULL)
		if (p->p_info.si_signo == signo) {
			*list = p->p_next;
			free(p);
		} else {
			list = &p->p_next;
		}
}

void sim_pending_set(const struct sim_pending *p, sigset_t *to)
{
	sigemptyset(to);
	for (; p != NULL; p = p->p_next)
		sigaddset(to, p->p_info.si_signo);
}
