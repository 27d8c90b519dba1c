/* SPDX-License-Identifier: MIT */
/* uchan_inside.h: a channel, its lines and values. Shared with uselect.c. Private. */

#ifndef UCHAN_INSIDE_H
#define UCHAN_INSIDE_H

/* The essay of uchan.c explains all that is here. */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* first: park.h calls syscall() */
#endif
#define USCHED_PREEMPT	1	/* no file here leaves a mark: see uproc.h */
#include "uchan.h"
#include "lock.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

UPREEMPT_NEVER;

#define UCHAN_UNIT	8u	/* of ln_value, and of values in a record */

enum { RECEIVERS, SENDERS };

struct link {
	struct link   *ln_next;		/* circular; the line is one of them */
	struct link   *ln_prev;		/* NULL: in no line */
	unsigned short ln_case;
	unsigned short ln_size;		/* of the value */
	unsigned short ln_value;	/* from the record on, in units */
	bool           ln_sole;		/* claimed only under ch_lock: SOLE */
};

struct uchan {
#if defined(USCHED_HARD)
	struct uhard_object ch_object;	/* first: poison begins behind it */
#endif
	struct link    ch_line[2];	/* first: free() may write there */
	struct ulock   ch_lock;
	bool           ch_local;
	bool           ch_closed;	/* (atomic: HINTS) */
	bool           ch_freed;
	unsigned short ch_size;
	unsigned       ch_room;
	unsigned       ch_count;	/* values in the ring (atomic: HINTS) */
	/* Read by a recorder: see struct uwait_queue. */
	unsigned       ch_head;		/* index of the first value (atomic) */
	unsigned       ch_laps;		/* how often that came to 0 (atomic) */
	unsigned       ch_late;		/* uchan C5 */
#if defined(USCHED_HARD)
	struct usched *ch_home;		/* of a local channel */
#endif
	char           ch_ring[] __attribute__((aligned(8)));
};

/* Lines. Caller holds ch_lock. */

static struct uwait *uchan_wait_of(struct link *l)
{
	return (struct uwait *)(void *)(l - l->ln_case) - 1;
}

static struct link *uchan_links_of(struct uwait *w)
{
	return (struct link *)(void *)(w + 1);
}

/* Returns where the values begin in a record of nr cases, in units. */
static inline size_t uchan_values_at(int nr)
{
	return (sizeof(struct uwait) + (size_t)nr * sizeof(struct link) +
		UCHAN_UNIT - 1) / UCHAN_UNIT;
}

static char *uchan_value_of(struct link *l)
{
	return (char *)uchan_wait_of(l) + l->ln_value * UCHAN_UNIT;
}

static bool uchan_line_empty(const struct link *line)
{
	return __atomic_load_n(&line->ln_next, __ATOMIC_ACQUIRE) == line;
}

static void uchan_line_put(struct link *line, struct link *l)
{
	l->ln_next = line;
	l->ln_prev = line->ln_prev;
	line->ln_prev = l;
	__atomic_store_n(&l->ln_prev->ln_next, l, __ATOMIC_RELEASE);
}

static void uchan_line_take(struct link *l)
{
	__atomic_store_n(&l->ln_prev->ln_next, l->ln_next, __ATOMIC_RELEASE);
	l->ln_next->ln_prev = l->ln_prev;
	l->ln_prev = NULL;
}

/* Claims w, whose only link is l and sole. Caller holds ch_lock: SOLE. */
static inline void uchan_claim_sole(struct uwait *w)
{
	__atomic_store_n(&w->w_state, UWAIT_CLAIMED, __ATOMIC_RELAXED);
	w->w_result = 0;
}

/*
 * Claims the first record of a line for its case, or returns NULL. *value: the
 * value in the record. Caller holds ch_lock.
 */
static ALWAYS_INLINE struct uwait *uchan_line_claim(struct uchan *c, int side,
						    char **value)
{
	struct link *line = &c->ch_line[side];
	struct uwait *w;
	struct link *l;

	while ((l = line->ln_next) != line) {
		uchan_line_take(l);
		if (likely(l->ln_sole)) {
			w = (struct uwait *)(void *)l - 1;
			uchan_claim_sole(w);
			*value = (char *)w + uchan_values_at(1) * UCHAN_UNIT;
			return w;
		}
		w = uchan_wait_of(l);
		if (likely(uwait_claim(w))) {
			w->w_result = l->ln_case * 2;
			*value = uchan_value_of(l);
			return w;
		}
		c->ch_late++;					/* uchan C5 */
	}
	return NULL;
}

/* The lock. */

/* Checks c at the beginning of a call. In the hard mode only. */
#define UCHAN_CALL(c, call)						\
	UHARD(object((c), (unsigned *)(uintptr_t)			\
		     &(c)->ch_object.o_magic, UHARD_CHAN, (call)))

#if defined(USCHED_HARD)
static void uchan_check_home(struct uchan *c)
{
	const struct ustack *u = ustack_self();

	if (c->ch_home == NULL && u != NULL)
		c->ch_home = u->u_sched;
	if (u == NULL || u->u_sched != c->ch_home)
		usched_fail("uchan: a local channel is used elsewhere than on "
			    "the processor that used it first");
}
#else
static void uchan_check_home(struct uchan *c)
{
	(void)c;
}
#endif

static inline void uchan_lock(struct uchan *c)
{
	if (c->ch_local)
		uchan_check_home(c);
	else
		ulock_get(&c->ch_lock);
}

static inline void uchan_unlock(struct uchan *c)
{
	if (!c->ch_local)
		ulock_put(&c->ch_lock);
}

/* Values. */

static inline void uchan_copy(void *to, const void *from, size_t size)
{
	if (likely(size == 8))
		memcpy(to, from, 8);
	else if (size != 0)
		memcpy(to, from, size);
}

static char *uchan_ring_at(struct uchan *c, unsigned i)
{
	return c->ch_ring + (size_t)i * c->ch_size;
}

static void uchan_count_set(struct uchan *c, unsigned nr)
{
	__atomic_store_n(&c->ch_count, nr, __ATOMIC_RELEASE);
}

static void uchan_ring_put(struct uchan *c, const void *v)
{
	unsigned after = c->ch_room - c->ch_head;	/* up to the end */

	uchan_copy(uchan_ring_at(c, c->ch_count < after ?
				 c->ch_head + c->ch_count : c->ch_count - after), v, c->ch_size);
	uchan_count_set(c, c->ch_count + 1);
}

static void uchan_ring_get(struct uchan *c, void *v)
{
	if (v != NULL)
		uchan_copy(v, uchan_ring_at(c, c->ch_head), c->ch_size);
	if (c->ch_head + 1 != c->ch_room) {
		__atomic_store_n(&c->ch_head, c->ch_head + 1, __ATOMIC_RELAXED);
	} else {
		__atomic_store_n(&c->ch_head, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&c->ch_laps, c->ch_laps + 1, __ATOMIC_RELEASE);
	}
	uchan_count_set(c, c->ch_count - 1);
}

/* Returns the result for a channel that is closed, or freed. */
HIDDEN int uchan_closed(const struct uchan *c);

/*
 * Receives a value if there is one. *claimed: a record to be completed after the
 * lock was released. 0, -EPIPE, -EAGAIN. Caller holds ch_lock.
 */
static ALWAYS_INLINE int uchan_take(struct uchan *c, void *v,
				    struct uwait **claimed)
{
	bool ring = c->ch_count != 0;
	struct uwait *w;
	char *value;

	if (ring)
		uchan_ring_get(c, v);
	w = uchan_line_claim(c, SENDERS, &value);
	if (w != NULL) {
		if (ring)
			uchan_ring_put(c, value);		/* uchan C2 C3 */
		else if (v != NULL)
			uchan_copy(v, value, c->ch_size);
		*claimed = w;
	} else if (!ring)
		return c->ch_closed ? uchan_closed(c) : -EAGAIN;
	return 0;
}

/* Sends a value if there is room, or a receiver. As uchan_take(). */
static ALWAYS_INLINE int uchan_give(struct uchan *c, const void *v,
				    struct uwait **claimed)
{
	struct uwait *w;
	char *value;

	if (c->ch_closed)
		return uchan_closed(c);
	w = uchan_line_claim(c, RECEIVERS, &value);
	if (w != NULL) {
		uchan_copy(value, v, c->ch_size);
		*claimed = w;
	} else if (c->ch_count < c->ch_room)
		uchan_ring_put(c, v);
	else
		return -EAGAIN;
	return 0;
}

static ALWAYS_INLINE int uchan_pass(struct uchan *c, void *v, bool send,
				    struct uwait **claimed)
{
	return send ? uchan_give(c, v, claimed) : uchan_take(c, v, claimed);
}

/* Returns whether uchan_pass() may find something: HINTS. Any thread. */
static inline bool uchan_possible(const struct uchan *c, bool send)
{
	bool no;

	if (c->ch_room == 0)
		no = uchan_line_empty(&c->ch_line[!send]);
	else
		no = __atomic_load_n(&c->ch_count, __ATOMIC_ACQUIRE) ==
			(send ? c->ch_room : 0);
	return !no || __atomic_load_n(&c->ch_closed, __ATOMIC_RELAXED);
}

/* Does uchan_pass() with the lock. */
static ALWAYS_INLINE int uchan_pass_locked(struct uchan *c, void *v, bool send)
{
	struct uwait *claimed = NULL;
	int rc;

	uchan_lock(c);
	rc = uchan_pass(c, v, send, &claimed);
	uchan_unlock(c);
	if (claimed != NULL)
		uwait_complete(claimed, claimed->w_result);
	return rc;
}

/*
 * Ends the part of l in c, unless the record was claimed through l. The last
 * that leaves a channel that was freed frees its memory: uchan C6.
 */
HIDDEN void uchan_leave(struct uchan *c, struct link *l);

#endif /* UCHAN_INSIDE_H */
