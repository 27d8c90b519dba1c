/* SPDX-License-Identifier: MIT */
/* table.h: the waits for each descriptor, by its number. A part of upoll.c. */

#ifndef UTABLE_H
#define UTABLE_H

/*
 * A number has an entry, with a ring for readers and a ring for writers. A wait has a
 * node in the ring of each descriptor, behind those that came before. An entry is made
 * with the page of its number, and is never freed.
 *
 * INVARIANTS
 *
 * L1. A node is in a ring exactly if n_prev is not NULL. Rings change under
 *     e_lock.
 * L2. After each change of the rings, under the same lock, the descriptor is
 *     armed at each poller for all directions for which nodes of the poller
 *     are in the rings. Or an event for it is on its way.
 * L3. While a record has a node in a ring, the lock of that ring keeps the
 *     record: its thread takes its nodes out before it frees it.
 * L4. A close, and all that queued before it, exclude each other by e_lock. So a
 *     node is for the file that has the number when it is armed.
 *
 * REJECTED. A table for each poller: a close would have to lock all of them.
 */

#include "upoll.h"
#include "compiler.h"
#include "events.h"
#include "lock.h"

#if !defined(PAGE)		/* a model has fewer */
#define PAGE		1024	/* entries */
#endif
#define PAGES		16384	/* so numbers up to 2^24 */

struct poller {
	struct uwait_source p_source;	/* first */
	struct uevents      p_events;
	int                 p_forks;
	unsigned            p_fetch;	/* fetches of events (atomic) */
	utime_ns            p_again;	/* the second look, or 0: owned L9 (atomic) */
	struct poller      *p_next;
	struct poller     **p_at;	/* points to this poller */
};

/* Stands in a ring of a descriptor. */
struct node {
	struct node *n_next;
	struct node *n_prev;		/* NULL: in no ring */
	int          n_fd;
	unsigned     n_fetch;		/* p_fetch when the wait began */
	uint16_t     n_index;		/* in r_node */
	uint8_t      n_ring : 1;
	uint8_t      n_urgent : 1;	/* waits for POLLPRI, too */
	uint8_t      n_again : 1;	/* p_again ends it */
	bool         n_is_last;		/* of r_node; the waiter's alone */
};

struct record {
	struct uwait   r_wait;		/* first */
	struct poller *r_poller;
	struct node    r_node[];
};

enum { READERS, WRITERS, RINGS };

struct entry {
	struct ulock   e_lock;
	unsigned       e_urgent;	/* nodes in e_first with n_urgent */
	unsigned       e_closes;	/* calls of u_close() (atomic) */
	unsigned       e_events;	/* so far (atomic) */
	struct node   *e_first[RINGS];
	struct poller *e_armed_at;	/* where it stays armed, or NULL */
	uint64_t       e_generation;	/* of the last arming: poller L6 */
	unsigned       e_empty;		/* before a read that left nothing (atomic) */
	bool           e_is_last;	/* no more bytes will come (atomic) */
	bool           e_owned;		/* see owned.h (atomic) */
	bool           e_unix;		/* of AF_UNIX (atomic) */
	bool           e_armed_to_read;	/* in the last arming */
	unsigned char  e_guests;	/* waits of guests: see stays() */
};

static struct entry *page[PAGES];	/* each made once (atomic) */

/* Returns the entry of fd; NULL: it has none so far, or fd is out of range. */
static struct entry *entry_look(int fd)
{
	struct entry *list;

	if (fd < 0 || fd >= PAGE * PAGES)
		return NULL;
	list = __atomic_load_n(&page[fd / PAGE], __ATOMIC_ACQUIRE);
	return list != NULL ? &list[fd % PAGE] : NULL;
}

/* Makes the page of fd. NULL: no memory. */
static NOINLINE struct entry *entry_make(int fd)
{
	struct entry *list = calloc(PAGE, sizeof *list);
	struct entry *none = NULL;

	if (list == NULL)
		return NULL;
	if (!__atomic_compare_exchange_n(&page[fd / PAGE], &none, list, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		free(list);
	return entry_look(fd);
}

/* Returns the entry of fd. NULL and *rc. */
static struct entry *entry_of(int fd, int *rc)
{
	struct entry *e = entry_look(fd);

	if (e != NULL)
		return e;
	*rc = fd < 0 || fd >= PAGE * PAGES ? -EBADF : -ENOMEM;
	return *rc == -EBADF ? NULL : entry_make(fd);
}

/* Calls f for the entries of all numbers. */
static void each_entry(void (*f)(struct entry *e, const struct poller *p),
		       const struct poller *p)
{
	int i, k;

	for (i = 0; i < PAGES; i++) {
		struct entry *list = __atomic_load_n(&page[i], __ATOMIC_ACQUIRE);

		for (k = 0; list != NULL && k < PAGE; k++)
			f(&list[k], p);
	}
}

/* Rings. */

static struct record *record_of(const struct node *n)
{
	return (struct record *)(uintptr_t)((const char *)(n - n->n_index) -
					    offsetof(struct record, r_node));
}

static bool is_owned(const struct entry *e)
{
	return __atomic_load_n(&e->e_owned, __ATOMIC_RELAXED);
}

static void set_owned(struct entry *e, bool owned)
{
	__atomic_store_n(&e->e_owned, owned, __ATOMIC_RELAXED);
}

static void set_last(struct entry *e, bool is_last)
{
	__atomic_store_n(&e->e_is_last, is_last, __ATOMIC_RELAXED);
}

static void armed_at(struct entry *e, struct poller *p)
{
	__atomic_store_n(&e->e_armed_at, p, __ATOMIC_RELAXED);
}

static void put_last(struct entry *e, struct node *n)
{
	struct node **first = &e->e_first[n->n_ring];
	struct node *next = *first;

	e->e_urgent += n->n_urgent;
	if (next == NULL) {
		n->n_next = n->n_prev = *first = n;
		return;
	}
	n->n_next = next;
	n->n_prev = next->n_prev;
	n->n_prev->n_next = next->n_prev = n;
}

static void take_out(struct entry *e, struct node *n)
{
	struct node **first = &e->e_first[n->n_ring];

	e->e_urgent -= n->n_urgent;
	if (n->n_next == n)
		*first = NULL;
	else if (*first == n)
		*first = n->n_next;
	n->n_next->n_prev = n->n_prev;
	n->n_prev->n_next = n->n_next;
	n->n_prev = NULL;
}

/*
 * Returns the first node of p in a ring of e, with again the first that looks again;
 * NULL: there is none.
 */
static struct node *first_of(const struct entry *e, int ring,
			     const struct poller *p, bool again)
{
	struct node *first = e->e_first[ring];
	struct node *n = first;

	if (n == NULL)
		return NULL;
	do {
		if ((p == NULL || record_of(n)->r_poller == p) &&
		    (!again || n->n_again))
			return n;
		n = n->n_next;
	} while (n != first);
	return NULL;
}

/* Takes n out of its ring, and if it still waits, puts it, claimed, in front. */
static bool take_claimed(struct entry *e, struct node *n, struct node **claimed)
{
	take_out(e, n);
	if (!uwait_claim(&record_of(n)->r_wait))
		return false;
	n->n_next = *claimed;
	*claimed = n;
	return true;
}

/*
 * Takes the first node of p that still waits out of a ring, its record claimed,
 * and puts it in front of *claimed. False: there is none. p is NULL: of any. Not
 * if its wait began in the fetch or later; NULL: in any.
 */
static bool take_first(struct entry *e, int ring, const struct poller *p,
		       const unsigned *fetch, struct node **claimed)
{
	struct node *n;

	while ((n = first_of(e, ring, p, false)) != NULL) {
		if (fetch != NULL && n->n_fetch == *fetch)
			return false;
		if (take_claimed(e, n, claimed))
			return true;
	}
	return false;
}

static void take_all(struct entry *e, const struct poller *p,
		     struct node **claimed)
{
	while (take_first(e, READERS, p, NULL, claimed) ||
	       take_first(e, WRITERS, p, NULL, claimed))
		;
}

/* Forgets the file of e, and takes all that wait for it. */
static void forget_file(struct entry *e, struct node **claimed)
{
	take_all(e, NULL, claimed);
	set_last(e, false);
	set_owned(e, false);
	armed_at(e, NULL);
}

static void complete(struct node *claimed, int result)
{
	struct node *next;

	for (; claimed != NULL; claimed = next) {
		next = claimed->n_next;
		uwait_complete(&record_of(claimed)->r_wait, result);
	}
}

/* Returns what nodes of p in the rings of e wait for: UREAD, UWRITE. */
static int mask_of(const struct entry *e, const struct poller *p)
{
	return (first_of(e, READERS, p, false) != NULL ? UREAD : 0) |
	       (first_of(e, WRITERS, p, false) != NULL ? UWRITE : 0);
}

#endif /* UTABLE_H */
