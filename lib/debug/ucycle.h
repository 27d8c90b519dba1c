/* SPDX-License-Identifier: MIT */
/* ucycle.h: threads that wait for each other. A part of ulist.c. */

#ifndef UCYCLE_H
#define UCYCLE_H

/*
 * A thread that waits for what another holds is an edge. Edges are sorted by the
 * address of the thread, so that of the holder is found. A walk goes from holder to
 * holder, and ends where a walk has been before: if that was itself, it is a cycle.
 */

#include "ustate.h"

/* A thread that waits for what another holds. */
struct edge {
	const struct entry *g_entry;
	const void *g_holder;
	size_t      g_walk;	/* that has come here; 0: none */
};

static int by_stack(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;
	uintptr_t u = (uintptr_t)x->g_entry->e_stack;
	uintptr_t v = (uintptr_t)y->g_entry->e_stack;

	return (u > v) - (u < v);
}

/*
 * Stores the edges of the nr threads at e, in the order of their addresses. A wait
 * with a deadline ends, so it is none.
 */
static size_t edges_make(struct edge *g, struct entry *const *e, size_t nr)
{
	size_t i, edges = 0;

	for (i = 0; i < nr; i++) {
		if (__atomic_load_n(&e[i]->e_runs, __ATOMIC_ACQUIRE) ||
		    state_of(e[i]) != WAITS_FOR || e[i]->e_until != UNEVER)
			continue;
		g[edges].g_entry  = e[i];
		g[edges].g_holder = holder_of(e[i]);
		g[edges].g_walk   = 0;
		edges += g[edges].g_holder != NULL;
	}
	qsort(g, edges, sizeof *g, by_stack);
	return edges;
}

/* Returns the edge of the holder of g, or NULL. */
static struct edge *edge_after(struct edge *first, size_t nr,
			       const struct edge *g)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t i = low + (high - low) / 2;
		const void *u = first[i].g_entry->e_stack;

		if (u == g->g_holder)
			return &first[i];
		if ((uintptr_t)u < (uintptr_t)g->g_holder)
			low = i + 1;
		else
			high = i;
	}
	return NULL;
}

/* Says the cycle that begins and ends at g. */
static void say_cycle(struct edge *first, size_t nr, struct edge *g)
{
	const struct edge *end = g;
	unsigned long threads = 0;

	do {
		threads++;
		g = edge_after(first, nr, g);
	} while (g != end);
	say("usched: dead lock: %lu threads wait for each other\n", threads);
	do {
		const struct entry *e = g->g_entry;

		say("\t%#lx waits: %s %#lx, held by %#lx\n", at(e->e_stack),
		    e->e_kind->wk_name, at(e->e_object), at(g->g_holder));
		g = edge_after(first, nr, g);
	} while (g != end);
}

/* A walk goes from holder to holder, and ends where one has been before. */
static void say_dead(struct entry *const *e, size_t nr)
{
	struct edge *g = malloc((nr + 1) * sizeof *g), *at;
	size_t i, edges = g != NULL ? edges_make(g, e, nr) : 0;

	for (i = 0; i < edges; i++) {
		for (at = &g[i]; at != NULL && at->g_walk == 0;
		     at = edge_after(g, edges, at))
			at->g_walk = i + 1;
		if (at != NULL && at->g_walk == i + 1)
			say_cycle(g, edges, at);
	}
	free(g);
}

#endif /* UCYCLE_H */
