/* SPDX-License-Identifier: MIT */
/* uentry.h: the table of threads that have begun. A part of ulist.c. */

#ifndef UENTRY_H
#define UENTRY_H

/*
 * INVARIANTS
 *
 * L1. An entry is in the table exactly as long as its thread can be listed. It
 *     is added and removed under d_lock of the dispatcher that runs the thread,
 *     and under the lock of its stripe.
 * L2. e_runs is set from enter to leave. Only then e_stack may be gone.
 * L3. A thread of an entry whose e_runs is not set is blocked, and exists.
 *     ustack_fini() takes its entry out first (gone()).
 */

#include "ulist_inside.h"

#define STRIPES		64
#define BUCKETS		16		/* of a stripe, at first */

/* The entries of threads with certain addresses. */
struct stripe {
	struct ulock   t_lock;
	unsigned       t_nr, t_mask;
	struct entry **t_bucket;
};

static struct stripe stripes[STRIPES];
static unsigned long begun;		/* threads (atomic) */

static unsigned hash(const struct ustack *u)
{
	return (unsigned)((uint64_t)(uintptr_t)u * 0x9e3779b97f4a7c15u >> 32);
}

static struct stripe *stripe_of(const struct ustack *u)
{
	return &stripes[hash(u) % STRIPES];
}

static struct entry **bucket(const struct stripe *t, const struct ustack *u)
{
	return &t->t_bucket[hash(u) / STRIPES & t->t_mask];
}

/* Doubles the buckets of t, if there is memory. Caller holds t_lock. */
static void stripe_grow(struct stripe *t)
{
	unsigned mask = t->t_bucket != NULL ? t->t_mask * 2 + 1 : BUCKETS - 1;
	struct entry **old = t->t_bucket, **at;
	unsigned i, nr = t->t_mask + 1;
	struct entry *e;

	at = calloc(mask + (size_t)1, sizeof *at);
	if (at == NULL)
		return;
	t->t_bucket = at;
	t->t_mask   = mask;
	for (i = 0; old != NULL && i < nr; i++) {
		while ((e = old[i]) != NULL) {
			old[i] = e->e_next;
			at = bucket(t, e->e_stack);
			e->e_next = *at;
			*at = e;
		}
	}
	free(old);
}

/* Returns the entry of u, which is blocked or new (L2). NULL: none. */
static struct entry *entry_find(const struct stripe *t, const struct ustack *u)
{
	struct entry *e = t->t_bucket != NULL ? *bucket(t, u) : NULL;

	while (e != NULL && (e->e_stack != u ||
			     __atomic_load_n(&e->e_runs, __ATOMIC_ACQUIRE)))
		e = e->e_next;
	return e;
}

/* Adds an entry for u. NULL: no memory. Caller holds t_lock. */
static struct entry *entry_add(struct stripe *t, struct ustack *u)
{
	struct entry *e = calloc(1, sizeof *e);

	if (t->t_bucket == NULL || t->t_nr > t->t_mask)
		stripe_grow(t);
	if (e == NULL || t->t_bucket == NULL) {
		free(e);
		__atomic_fetch_add(&missed, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	e->e_stack = u;
	e->e_nr    = __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	e->e_next  = *bucket(t, u);
	*bucket(t, u) = e;
	t->t_nr++;
	return e;
}

static void entry_remove(struct entry *e)
{
	struct stripe *t = stripe_of(e->e_stack);
	struct entry **at;

	ulock_get(&t->t_lock);
	for (at = bucket(t, e->e_stack); *at != e; at = &(*at)->e_next)
		;
	*at = e->e_next;
	t->t_nr--;
	ulock_put(&t->t_lock);
	free(e);
}

/* Forgets the threads that d has run last. */
static void entries_drop(const struct listed *d)
{
	struct stripe *t;
	struct entry **at, *e;
	unsigned i;

	for (t = stripes; t < stripes + STRIPES; t++) {
		ulock_get(&t->t_lock);
		for (i = 0; t->t_bucket != NULL && i <= t->t_mask; i++) {
			for (at = &t->t_bucket[i]; (e = *at) != NULL; ) {
				if (e->e_home != d) {
					at = &e->e_next;
					continue;
				}
				*at = e->e_next;
				t->t_nr--;
				free(e);
			}
		}
		ulock_put(&t->t_lock);
	}
}

#endif /* UENTRY_H */
