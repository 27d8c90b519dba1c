/* SPDX-License-Identifier: MIT */
/* deal.h: which processor is given a new thread. A part of uproc.c. */

#ifndef UPROC_DEAL_H
#define UPROC_DEAL_H

/*
 * Threads that are made one after another often wake each other. So before the
 * start uproc_deal() gives such neighbours to the same processor, in chunks.
 * Chunks are DEAL_MIN threads in the first round, and double in each round
 * after that, until each processor has its share of the hint. Then it begins
 * again. However wrong the hint is, no processor gets more than about twice as
 * many threads as another, or DEAL_MIN. Few neighbours are parted: with rings
 * of seven, chunks of 240 took half as much time again. Each processor gets one
 * thread in turn if there is no hint, and after the start, when threads may end
 * at any time.
 */

#include "uproc_inside.h"

#define DEAL_MIN	32u

struct uproc *uproc_at(struct uproc_set *set, unsigned nr)
{
	return set != NULL ? uproc_nth(set, nr % set->set_nr) : NULL;
}

unsigned uproc_next_nr(struct uproc_set *set)
{
	return set != NULL ?
		__atomic_fetch_add(&set->set_next_nr, 1, __ATOMIC_RELAXED) : 0;
}

/* Returns the processor of the nr-th thread: see above. */
static unsigned dealt(unsigned nr, unsigned share, unsigned procs)
{
	unsigned before = 0;		/* threads of each in earlier rounds */
	unsigned chunk = DEAL_MIN;

	nr %= share * procs;
	while (share - before > chunk && nr >= chunk * procs) {
		nr     -= chunk * procs;
		before += chunk;
		chunk  *= 2;
	}
	return nr / (share - before > chunk ? chunk : share - before);
}

unsigned uproc_deal(struct uproc_set *set)
{
	unsigned share = set != NULL ?
		__atomic_load_n(&set->set_share, __ATOMIC_RELAXED) : 0;
	unsigned nr = uproc_next_nr(set);

	return share == 0 ? nr : dealt(nr, share, set->set_nr);
}

#endif /* UPROC_DEAL_H */
