/* SPDX-License-Identifier: MIT */
/* core/deep.h: learns whose threads block deep. */

/*
 * DEEP THREADS
 *
 * A buffer for a slice of some kilobytes costs as much as a lane, and copying
 * it takes longer than all else. So if threads of a function block deep (with
 * USCHED_DEEP bytes or more), its new threads are given private lanes.
 *
 * The dispatcher learns by function, u_f: pl_credit, a small table, keeps a
 * credit for each, at first DEEP_FIRST. These change the credit of the function
 * of a thread:
 *
 *	+ DEEP_EARNS	the thread blocks deep, and its buffer is shallow; in a
 *			private lane, it blocks deep for the first time
 *	- 1		it blocks in a private lane for the first time
 *	- DEEP_WRONG	it ends in a private lane, and has blocked there, but
 *			never deep
 *
 * So a function that becomes shallow soon has no credit, and a function that is
 * deep at times is given no more lanes than are of use. If other functions have
 * all places of the table where a function may stand, it takes credit from the
 * poorest of these, until that has none left.
 *
 * This is a policy. It is asked when a thread begins, if any function ever had
 * credit (pl_known), and told of blocks for which the buffer does not fit.
 *
 * REJECTED
 *
 *   - Private lanes for functions that the program names: the program would
 *     have to know the depth of its callees.
 *   - Private lanes for all threads: small threads take 4 to 12 KiB there,
 *     where a buffer takes 64 bytes.
 *   - A call-back for this policy: there is no other, and each program would
 *     have to set it.
 */

/* Functions that are known, and their credit. */
#define DEEP_NR		64
#define DEEP_WAYS	4		/* places that a function may have */
#define DEEP_FIRST	32
#define DEEP_EARNS	2
#define DEEP_WRONG	8
#define DEEP_MOST	4096
#define SURE		INT_MAX		/* credit of what was said, not learnt */

enum { NEVER_BLOCKED, WAS_SHALLOW, WAS_DEEP };

/* A function in a table. A hint: several native threads may change it (atomic). */
struct usched_credit {
	void (*ct_f)(void *);
	int    ct_credit;
};

/* Returns the place of f, or else the poorest of the places that f may have. */
static struct usched_credit *credit_of(struct usched_credit *table,
				       void (*f)(void *))
{
	size_t at = (uintptr_t)f * 0x9e3779b1u >> 16;
	struct usched_credit *poorest = NULL;
	int credit, least = 0;
	unsigned i;

	for (i = 0; i < DEEP_WAYS; i++) {
		struct usched_credit *d = &table[(at + i) % DEEP_NR];

		if (__atomic_load_n(&d->ct_f, __ATOMIC_RELAXED) == f)
			return d;
		credit = __atomic_load_n(&d->ct_credit, __ATOMIC_RELAXED);
		if (poorest == NULL || credit < least) {
			poorest = d;
			least   = credit;
		}
	}
	return poorest;
}

/*
 * Adds to the credit of f, unless that is SURE. If others do at the same time, part
 * is lost. Credit that does not change is not written: others share the line.
 */
static void credit_add(struct usched_credit *table, void (*f)(void *), int more)
{
	struct usched_credit *d = credit_of(table, f);
	int was = __atomic_load_n(&d->ct_credit, __ATOMIC_RELAXED);
	int now = was;

	if (was == SURE)
		return;
	if (__atomic_load_n(&d->ct_f, __ATOMIC_RELAXED) == f)
		now += more;
	else if (more <= 0)
		return;
	else if (now > 0)
		now -= more;		/* until the place is free */
	else {
		__atomic_store_n(&d->ct_f, f, __ATOMIC_RELAXED);
		now = DEEP_FIRST;
	}
	now = now > DEEP_MOST ? DEEP_MOST : now < 0 ? 0 : now;
	if (now != was)
		__atomic_store_n(&d->ct_credit, now, __ATOMIC_RELAXED);
}

static void learn(struct usched_private *p, void (*f)(void *), int more)
{
	credit_add(p->pl_credit, f, more);
	__atomic_store_n(&p->pl_known, 1, __ATOMIC_RELAXED);
}

/* Has f credit? */
static int wanted(struct usched_credit *table, void (*f)(void *))
{
	const struct usched_credit *d = credit_of(table, f);

	return __atomic_load_n(&d->ct_f, __ATOMIC_RELAXED) == f &&
	       __atomic_load_n(&d->ct_credit, __ATOMIC_RELAXED) > 0;
}

/* Learns from a block in a private lane. *was: how deep its thread ever was. */
static void learn_private(struct usched_private *p, void (*f)(void *),
			  char *was, int deep)
{
	if (*was == WAS_DEEP || (*was == WAS_SHALLOW && !deep))
		return;
	learn(p, f, (deep ? DEEP_EARNS : 0) - (*was == NEVER_BLOCKED));
	*was = deep ? WAS_DEEP : WAS_SHALLOW;
}

/* Learns from the end of a thread in a private lane. */
static void learn_end(struct usched_private *p, void (*f)(void *), char was)
{
	if (was == WAS_SHALLOW)
		learn(p, f, -DEEP_WRONG);
}
