/* SPDX-License-Identifier: MIT */
/* uchan.c: channels, and a choice between several of them. */

/*
 * OVERVIEW
 *
 *	           +--------------------- struct uchan ---------------+
 *	senders -->| ch_line[1] ...... ring of ch_room values ...     |
 *	           |                             ch_line[0]           |--> receivers
 *	           +--------------------------------------------------+
 *
 * The party that runs does all the work. It finds the other party's record in a
 * line of the channel, claims the record (uwait.h), copies the value, and
 * completes the record after it has released the lock. If there is no other
 * party, and the ring cannot help, it makes a record itself, queues it, and
 * waits.
 *
 * RECORDS
 *
 *	0              64                                    size
 *	+--------------+--------+--------+-----+------+------+
 *	| struct uwait | link 0 | link 1 | ... | sent | received
 *	+--------------+--------+--------+-----+------+------+
 *
 * A link stands for a case in the line of its channel. A send or a receive is a
 * wait with one case. A value never goes to or from the stack of a thread that
 * waits, since that stack is elsewhere. A sender copies its value into the
 * record before it queues the link; a receiver copies the value out of the
 * record when it runs again. All links share the room for the value received,
 * because only one claim succeeds.
 *
 * CHOICE
 *
 * uselect() tries the cases in a random permutation, each with the lock of its
 * channel. If none is possible, it takes all locks in the order of addresses,
 * and tries again. So between this look and the queueing of the links no event
 * can come. A case that is possible then needs no claim, since the record is
 * not visible yet. Thus of two selects that meet, the second finds the first in
 * a line, and the claim decides.
 *
 * THE END
 *
 * The claimer takes the link out of the line. All other links are taken out by
 * the waiter, in leave(). Another claimer may meet such a link before that: its
 * claim fails, and it takes the link out, too. ch_late counts these. The waiter
 * of such a link will take the lock once more, so the memory of the channel
 * stays until then: uchan_free() only marks it, and the last to leave frees it.
 *
 * SOLE
 *
 * An atomic claim of a record costs 8 ns of 40. If the record is in a single
 * line, without a deadline or a scope, then all claimers have the lock of the
 * channel (ln_sole), and a plain store is a claim. The exception is a thread
 * that gets no memory to block, and withdraws. For that it takes the lock, too.
 * But if the record is being claimed, the channel may be freed at any time.
 *
 *	give_up()				claimer, then uchan_free()
 *
 *	Q1 quitters += 1			Q3 w_state = CLAIMED
 *	Q2 if w_state is not WAITS,		Q4 quitters += 0, until it was 0
 *	   do not touch c
 *
 * Both additions acquire and release. If Q4 finds 0, it comes before Q1, so Q2
 * sees Q3. Otherwise the channel exists until give_up() has ended.
 *
 * INVARIANTS
 *
 * C1. A value is in the ring, in the record of a sender, in the record of a
 *     receiver that was claimed by a send, or with a caller.	(each once)
 * C2. A record of a sender has the value as long as it is in a line. The value
 *     was sent exactly if a receiver, or the ring on behalf of one, claimed.
 * C3. Under the lock: if a record in ch_line[0] is not claimed, then the ring
 *     is empty and the channel is open. If a record in ch_line[1] is not
 *     claimed, then the ring is full and the channel is open.
 * C4. If a record is in both lines and not claimed, all that are not claimed
 *     in the one line or the other are this record: a select does not meet
 *     itself, and others would have met.
 * C5. ch_late is the number of links of c that were taken out by a failed
 *     claim, and whose waiter has not been in leave() yet.
 * C6. The channel is freed when uchan_free() was called and ch_late is 0.
 *     After a claim succeeded through a link of c, its waiter does not touch c
 *     for this link.
 * C7. Locks of several channels are taken in the order of their addresses, each
 *     once, and nothing else is called while they are held.
 *
 * HINTS
 *
 * possible() looks without the lock. With UNOW, and a single channel, its "no"
 * is the answer; else a wrong answer costs only time. Its first load has
 * acquire order, so ch_closed is not older. Of an open channel the answer was
 * then right at the time of the first load.
 *
 * MUTANTS. Each is found by a test; the name follows.
 *
 *	send copies after queueing, from v		chan (hard mode)
 *	claimer forgets the copy into the record	chan
 *	take() leaves a sender's value in the record	chan: order
 *	a failed claim ends the search			chan: late
 *	a failed claim does not count in ch_late	chan: freed
 *	leave() is not called after a time-out		chan: model
 *	close does not tell senders			chan: close
 *	locks in the order of cases			select: cross
 *	a channel in two cases is locked twice		select: twice
 *	no second look under all locks			select: lost
 *	links of cases not chosen stay			select: freed
 *	the choice begins at random, then goes round	select: chance
 *
 * REJECTED
 *
 * Locks taken singly, with a claim of the own record before that of the other:
 * a select that has claimed itself, and then fails to claim the other, was
 * passed over by its partners meanwhile. Links that stay in the line after a
 * failed claim: each later operation meets them again.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uchan.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define UNIT		8u	/* of ln_value, and of values in a record */

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
	unsigned       ch_head;		/* index of the first value */
	unsigned       ch_late;		/* C5 */
#if defined(USCHED_HARD)
	struct usched *ch_home;		/* of a local channel */
#endif
	char           ch_ring[] __attribute__((aligned(8)));
};

/* Lines. Caller holds ch_lock. */

static struct uwait *wait_of(struct link *l)
{
	return (struct uwait *)(void *)(l - l->ln_case) - 1;
}

/* Returns where the values begin in a record of nr cases, in units. */
static inline size_t values_at(int nr)
{
	return (sizeof(struct uwait) + (size_t)nr * sizeof(struct link) +
		UNIT - 1) / UNIT;
}

static char *value_of(struct link *l)
{
	return (char *)wait_of(l) + l->ln_value * UNIT;
}

static void line_init(struct link *line)
{
	line->ln_next = line->ln_prev = line;
}

static bool line_empty(const struct link *line)
{
	return __atomic_load_n(&line->ln_next, __ATOMIC_ACQUIRE) == line;
}

static void line_put(struct link *line, struct link *l)
{
	l->ln_next = line;
	l->ln_prev = line->ln_prev;
	line->ln_prev = l;
	__atomic_store_n(&l->ln_prev->ln_next, l, __ATOMIC_RELEASE);
}

static void line_take(struct link *l)
{
	__atomic_store_n(&l->ln_prev->ln_next, l->ln_next, __ATOMIC_RELEASE);
	l->ln_next->ln_prev = l->ln_prev;
	l->ln_prev = NULL;
}

/* Claims w, whose only link is l and sole. Caller holds ch_lock: SOLE. */
static inline void claim_sole(struct uwait *w)
{
	__atomic_store_n(&w->w_state, UWAIT_CLAIMED, __ATOMIC_RELAXED);
	w->w_result = 0;
}

/*
 * Claims the first record of a line for its case, or returns NULL. *value: the
 * value in the record. Caller holds ch_lock.
 */
static ALWAYS_INLINE struct uwait *line_claim(struct uchan *c, int side,
					      char **value)
{
	struct link *line = &c->ch_line[side];
	struct uwait *w;
	struct link *l;

	while ((l = line->ln_next) != line) {
		line_take(l);
		if (likely(l->ln_sole)) {
			w = (struct uwait *)(void *)l - 1;
			claim_sole(w);
			*value = (char *)w + values_at(1) * UNIT;
			return w;
		}
		w = wait_of(l);
		if (likely(uwait_claim(w))) {
			w->w_result = l->ln_case * 2;
			*value = value_of(l);
			return w;
		}
		c->ch_late++;					/* C5 */
	}
	return NULL;
}

/* The lock. */

/* Checks c at the beginning of a call. In the hard mode only. */
#define CALL(c, call)	UHARD(object((c), (unsigned *)(uintptr_t)	\
				&(c)->ch_object.o_magic, UHARD_CHAN, (call)))

#if defined(USCHED_HARD)
static void check_home(struct uchan *c)
{
	const struct ustack *u = ustack_self();

	if (c->ch_home == NULL && u != NULL)
		c->ch_home = u->u_sched;
	if (u == NULL || u->u_sched != c->ch_home)
		usched_fail("uchan: a local channel is used elsewhere than on "
			    "the processor that used it first");
}
#else
static void check_home(struct uchan *c)
{
	(void)c;
}
#endif

static void lock(struct uchan *c)
{
	if (c->ch_local)
		check_home(c);
	else
		ulock_get(&c->ch_lock);
}

static void unlock(struct uchan *c)
{
	if (!c->ch_local)
		ulock_put(&c->ch_lock);
}

/* Values. */

static inline void copy(void *to, const void *from, size_t size)
{
	if (likely(size == 8))
		memcpy(to, from, 8);
	else if (size != 0)
		memcpy(to, from, size);
}

static char *ring_at(struct uchan *c, unsigned i)
{
	return c->ch_ring + (size_t)i * c->ch_size;
}

static void count_set(struct uchan *c, unsigned nr)
{
	__atomic_store_n(&c->ch_count, nr, __ATOMIC_RELEASE);
}

static void ring_put(struct uchan *c, const void *v)
{
	unsigned after = c->ch_room - c->ch_head;	/* up to the end */

	copy(ring_at(c, c->ch_count < after ? c->ch_head + c->ch_count :
		     c->ch_count - after), v, c->ch_size);
	count_set(c, c->ch_count + 1);
}

static void ring_get(struct uchan *c, void *v)
{
	if (v != NULL)
		copy(v, ring_at(c, c->ch_head), c->ch_size);
	if (++c->ch_head == c->ch_room)
		c->ch_head = 0;
	count_set(c, c->ch_count - 1);
}

/* Returns the result for a channel that is closed, or freed. */
static NOINLINE int closed(const struct uchan *c)
{
	if (c->ch_freed)
		usched_fail("uchan: the channel was freed before by "
			    "uchan_free()");
	return -EPIPE;
}

/*
 * Receives a value if there is one. *claimed: a record to be completed after the
 * lock was released. 0, -EPIPE, -EAGAIN. Caller holds ch_lock.
 */
static ALWAYS_INLINE int take(struct uchan *c, void *v, struct uwait **claimed)
{
	bool ring = c->ch_count != 0;
	struct uwait *w;
	char *value;

	if (ring)
		ring_get(c, v);
	w = line_claim(c, SENDERS, &value);
	if (w != NULL) {
		if (ring)
			ring_put(c, value);			/* C2 C3 */
		else if (v != NULL)
			copy(v, value, c->ch_size);
		*claimed = w;
	} else if (!ring)
		return c->ch_closed ? closed(c) : -EAGAIN;
	return 0;
}

/* Sends a value if there is room, or a receiver. As take(). */
static ALWAYS_INLINE int give(struct uchan *c, const void *v,
			      struct uwait **claimed)
{
	struct uwait *w;
	char *value;

	if (c->ch_closed)
		return closed(c);
	w = line_claim(c, RECEIVERS, &value);
	if (w != NULL) {
		copy(value, v, c->ch_size);
		*claimed = w;
	} else if (c->ch_count < c->ch_room)
		ring_put(c, v);
	else
		return -EAGAIN;
	return 0;
}

static ALWAYS_INLINE int pass(struct uchan *c, void *v, bool send,
			      struct uwait **claimed)
{
	return send ? give(c, v, claimed) : take(c, v, claimed);
}

/* Returns whether pass() may find something: HINTS. Any thread. */
static inline bool possible(const struct uchan *c, bool send)
{
	bool no;

	if (c->ch_room == 0)
		no = line_empty(&c->ch_line[!send]);
	else
		no = __atomic_load_n(&c->ch_count, __ATOMIC_ACQUIRE) ==
			(send ? c->ch_room : 0);
	return !no || __atomic_load_n(&c->ch_closed, __ATOMIC_RELAXED);
}

/* Does pass() with the lock. */
static ALWAYS_INLINE int pass_locked(struct uchan *c, void *v, bool send)
{
	struct uwait *claimed = NULL;
	int rc;

	lock(c);
	rc = pass(c, v, send, &claimed);
	unlock(c);
	if (claimed != NULL)
		uwait_complete(claimed, claimed->w_result);
	return rc;
}

/* Threads in give_up(): SOLE. */
static int quitters;

/* Those of the parent never leave give_up() in the child. */
static void in_child(void)
{
	quitters = 0;
}

static struct ufork at_fork = {
	.f_rank = UFORK_CHANNELS, .f_child = in_child
};
UFORK(at_fork)

/* Frees the memory of c. */
static void release(struct uchan *c)
{
	while (__atomic_fetch_add(&quitters, 0, __ATOMIC_ACQ_REL) != 0)
		sched_yield();					/* Q4 */
#if defined(USCHED_HARD)
	uhard_free(&c->ch_object, c,
		   sizeof *c + (size_t)c->ch_size * c->ch_room);
#else
	count_set(c, 0);
	__atomic_store_n(&c->ch_closed, true, __ATOMIC_RELEASE);
	*(volatile bool *)&c->ch_freed = true;
	free(c);
#endif
}

/*
 * Ends the part of l in c, unless the record was claimed through l. The last
 * that leaves a channel that was freed frees its memory: C6.
 */
static void leave(struct uchan *c, struct link *l)
{
	bool last = false;

	lock(c);
	if (l->ln_prev != NULL)
		line_take(l);
	else
		last = --c->ch_late == 0 && c->ch_freed;
	unlock(c);
	if (last)
		release(c);
}

/* A single operation. */

static struct link *links_of(struct uwait *w)
{
	return (struct link *)(void *)(w + 1);
}

/* Makes a record for a single operation. NULL and errno. */
static inline struct uwait *record_one(struct uchan *c, const void *v,
				       bool send, bool timed)
{
	struct uwait *w = uwait_make(send ? UWAIT_SEND : UWAIT_RECV, c,
				     values_at(1) * UNIT + c->ch_size);
	struct link *l;

	if (w == NULL)
		return NULL;
	l = links_of(w);
	l->ln_case  = 0;
	l->ln_size  = c->ch_size;
	l->ln_value = (unsigned short)values_at(1);
	l->ln_sole  = !timed && uwait_self(w->w_stack, uwait_run) == NULL;
	w->w_node.n_when = (uintptr_t)c;	/* if no timer needs it */
	if (send)
		copy(value_of(l), v, c->ch_size);		/* C2 */
	return w;
}

/* Tries once more, and else queues w. 0, -EPIPE; -EAGAIN: w is queued. */
static NOINLINE int queue_one(struct uchan *c, struct uwait *w, void *v,
			      bool send)
{
	struct uwait *claimed = NULL;
	int rc = -EAGAIN;

	lock(c);
	if (unlikely(possible(c, send)))
		rc = pass(c, v, send, &claimed);
	if (rc == -EAGAIN)
		line_put(&c->ch_line[send], links_of(w));
	unlock(c);
	if (claimed != NULL)
		uwait_complete(claimed, claimed->w_result);
	return rc;
}

/*
 * Claims w, of a single operation, for its own thread, which got no memory to
 * block. False: w was claimed.						(SOLE)
 */
static int give_up(struct uwait *w)
{
	struct uchan *c = (struct uchan *)(uintptr_t)w->w_node.n_when;
	struct link *l = links_of(w);
	bool waits = false;

	if (!l->ln_sole)
		return uwait_claim(w);
	__atomic_fetch_add(&quitters, 1, __ATOMIC_ACQ_REL);	/* Q1 */
	if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) ==	/* Q2 */
	    UWAIT_WAITS) {
		lock(c);
		waits = l->ln_prev != NULL;
		if (waits) {
			line_take(l);
			claim_sole(w);
		}
		unlock(c);
	}
	__atomic_fetch_sub(&quitters, 1, __ATOMIC_RELEASE);
	return waits;
}

struct uwait_kind UWAIT_SEND[1] = { {
	.wk_name = "send", .wk_call = "uchan_send", .wk_give_up = give_up
} };
struct uwait_kind UWAIT_RECV[1] = { {
	.wk_name = "recv", .wk_call = "uchan_recv", .wk_give_up = give_up
} };
struct uwait_kind UWAIT_SELECT[1] = { {
	.wk_name = "select", .wk_call = "uselect"
} };

/* Waits for the claim of w, which is queued. Returns the result of the call. */
static inline int await_one(struct uchan *c, struct uwait *w, utime_ns until)
{
	struct link *l = links_of(w);
	bool sole = l->ln_sole;
	int rc;

	if (sole && w->w_stack != NULL) {
		uwait_block(w);
		rc = w->w_result;
	} else
		rc = uwait_for(w, until);
	if (rc < 0 && !sole)
		leave(c, l);
	return rc <= 0 ? rc : -EPIPE;
}

/* Sends or receives with a record, since that was not possible without. */
static NOINLINE int wait_one(struct uchan *c, void *v, bool send,
			     utime_ns until)
{
	struct uwait *w;
	struct link *l;
	int rc;

	if (until == UNOW)
		return -EAGAIN;
	w = record_one(c, v, send, until != UNEVER);
	if (w == NULL)
		return -errno;
	l = links_of(w);
	rc = queue_one(c, w, v, send);
	if (rc == -EAGAIN) {
		rc = await_one(c, w, until);
		if (rc == 0 && !send && v != NULL)
			copy(v, value_of(l), l->ln_size);
	}
	uwait_free(w);
	return rc;
}

static ALWAYS_INLINE int do_one(struct uchan *c, void *v, bool send, utime_ns until)
{
	int rc;

	if (c == NULL || until < 0)
		return -EINVAL;
	CALL(c, send ? "uchan_send" : "uchan_recv");
	usched_point();
	if (possible(c, send)) {
		rc = pass_locked(c, v, send);
		if (likely(rc != -EAGAIN))
			return rc;
	}
	return wait_one(c, v, send, until);
}

/* Looks at a value, which may be a pointer (core/law.h). In the hard mode only. */
static void value_see(const struct uchan *c, const void *v)
{
#if defined(USCHED_HARD)
	const void *p;

	if (c == NULL || c->ch_size != sizeof p)
		return;
	memcpy(&p, v, sizeof p);
	ustack_lawful("uchan_send: the value, if it is a pointer", p);
#else
	(void)c, (void)v;
#endif
}

int uchan_send(struct uchan *c, const void *v, utime_ns until)
{
	value_see(c, v);
	return do_one(c, (void *)(uintptr_t)v, true, until);
}

int uchan_recv(struct uchan *c, void *v, utime_ns until)
{
	return do_one(c, v, false, until);
}

/* The life of a channel. */

static struct uchan *make(int size, unsigned room, bool local)
{
	size_t ring;
	struct uchan *c;

	if (size < 0 || size > UCHAN_SIZE_MOST ||
	    __builtin_mul_overflow((size_t)size, room, &ring) ||
	    ring > SIZE_MAX / 2) {
		errno = EINVAL;
		return NULL;
	}
	c = malloc(sizeof *c + ring);
	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof *c);
	c->ch_local = local;
	c->ch_size  = (unsigned short)size;
	c->ch_room  = room;
	line_init(&c->ch_line[RECEIVERS]);
	line_init(&c->ch_line[SENDERS]);
	return c;
}

struct uchan *uchan_make(int size, unsigned room)
{
	return make(size, room, false);
}

struct uchan *uchan_make_local(int size, unsigned room)
{
	return make(size, room, true);
}

/*
 * Claims all that wait at a side, and appends them to a list, linked by w_link.
 * Returns its new end. Caller holds ch_lock.
 */
static struct uwait **claim_all(struct uchan *c, int side, struct uwait **end)
{
	struct uwait *w;
	char *value;

	while ((w = line_claim(c, side, &value)) != NULL) {
		w->w_result |= 1;
		*end = w;
		end = &w->w_at.link;
	}
	return end;
}

int uchan_close(struct uchan *c)
{
	struct uwait *w, *next, **end = &w;
	int rc = -EINVAL;

	if (c == NULL)
		return -EINVAL;
	CALL(c, "uchan_close");
	usched_point();
	lock(c);
	if (!c->ch_closed) {
		rc = 0;
		__atomic_store_n(&c->ch_closed, true, __ATOMIC_RELEASE);
		end = claim_all(c, RECEIVERS, end);
		end = claim_all(c, SENDERS, end);
	}
	*end = NULL;
	unlock(c);
	for (; w != NULL; w = next) {
		next = w->w_at.link;
		uwait_complete(w, w->w_result);
	}
	return rc;
}

void uchan_free(struct uchan *c)
{
	bool last;
	char *value;

	if (c == NULL)
		return;
	CALL(c, "uchan_free");
	if (!c->ch_local)
		ulock_get(&c->ch_lock);
	if (c->ch_freed)
		usched_fail("uchan_free: the channel was freed before");
	if (line_claim(c, RECEIVERS, &value) != NULL ||
	    line_claim(c, SENDERS, &value) != NULL)
		usched_fail("uchan_free: a thread waits for the channel");
	c->ch_freed = true;
	UHARD(ends(&c->ch_object, UHARD_CHAN, "uchan_free"));
	last = c->ch_late == 0;
	unlock(c);
	if (last)
		release(c);					/* C6 */
}

unsigned uchan_count(const struct uchan *c)
{
	CALL(c, "uchan_count");
	return __atomic_load_n(&c->ch_count, __ATOMIC_RELAXED);
}

/* A choice. */

/*
 * Tries the cases in the order that is drawn meanwhile (R. Durstenfeld, CACM 7,
 * 1964), or in their own, each with its lock. Returns the number, or -EAGAIN.
 */
static NOINLINE int try_each(struct ucase *a, int nr, bool ordered)
{
	int i;

	for (i = 0; i < nr; i++)
		a[i].cs_order = (unsigned)i;
	for (i = 0; i < nr; i++) {
		unsigned left = (unsigned)(nr - i);
		unsigned drawn = (unsigned)i;
		unsigned which;

		if (!ordered && left > 1)
			drawn += uwait_random(left);
		which = a[drawn].cs_order;
		a[drawn].cs_order = a[i].cs_order;
		a[i].cs_order = which;
		if (a[which].cs_chan == NULL ||
		    !possible(a[which].cs_chan, a[which].cs_send))
			continue;
		a[which].cs_result = pass_locked(a[which].cs_chan,
				a[which].cs_value, a[which].cs_send);
		if (a[which].cs_result != -EAGAIN)
			return (int)which;
	}
	return -EAGAIN;
}

/*
 * Sorts the numbers of the cases by the addresses of their channels into
 * cs_lock. D. L. Shell, CACM 2, 1959: in place; for few cases an insertion.
 */
static void sort(struct ucase *a, int nr)
{
	int gap, i, j;

	for (i = 0; i < nr; i++)
		a[i].cs_lock = (unsigned)i;
	for (gap = nr < 8 ? 1 : nr / 2; gap > 0; gap /= 2)
		for (i = gap; i < nr; i++) {
			unsigned v = a[i].cs_lock;
			uintptr_t key = (uintptr_t)a[v].cs_chan;

			for (j = i; j >= gap && key <
			     (uintptr_t)a[a[j - gap].cs_lock].cs_chan; j -= gap)
				a[j].cs_lock = a[j - gap].cs_lock;
			a[j].cs_lock = v;
		}
}

/* Calls f for each channel once, in the order of cs_lock: C7. */
static inline void each_once(struct ucase *a, int nr, void (*f)(struct uchan *))
{
	struct uchan *last = NULL;
	int i;

	for (i = 0; i < nr; i++) {
		struct uchan *c = a[a[i].cs_lock].cs_chan;

		if (c != last)
			f(c);
		last = c;
	}
}

/* Tries the cases in the order drawn. As try_each(). Caller holds all locks. */
static int try_locked(struct ucase *a, int nr, struct uwait **claimed)
{
	int i;

	for (i = 0; i < nr; i++) {
		unsigned which = a[i].cs_order;

		if (a[which].cs_chan == NULL)
			continue;
		a[which].cs_result = pass(a[which].cs_chan, a[which].cs_value,
					 a[which].cs_send, claimed);
		if (a[which].cs_result != -EAGAIN)
			return (int)which;
	}
	return -EAGAIN;
}

/*
 * Tries all cases at the same time, and else queues the links of w, unless w is
 * NULL. Returns the number, or -EAGAIN.
 */
static NOINLINE int queue_all(struct ucase *a, int nr, struct uwait *w)
{
	struct uwait *claimed = NULL;
	int rc, i;

	sort(a, nr);
	each_once(a, nr, lock);
	rc = try_locked(a, nr, &claimed);
	if (rc == -EAGAIN && w != NULL) {
		for (i = 0; i < nr; i++)
			if (a[i].cs_chan != NULL)
				line_put(&a[i].cs_chan->ch_line[a[i].cs_send],
					 links_of(w) + i);
	}
	each_once(a, nr, unlock);
	if (claimed != NULL)
		uwait_complete(claimed, claimed->w_result);
	return rc;
}

static size_t units(const struct ucase *k)
{
	return (k->cs_chan->ch_size + UNIT - 1) / UNIT;
}

/* Returns the units of a record's values. */
static size_t values_of(const struct ucase *a, int nr)
{
	size_t sent = 0, received = 0;
	int i;

	for (i = 0; i < nr; i++) {
		if (a[i].cs_chan == NULL)
			continue;
		if (a[i].cs_send)
			sent += units(&a[i]);
		else if (units(&a[i]) > received)
			received = units(&a[i]);
	}
	return sent + received;
}

/* Describes the cases in w, with the values to be sent from here on. */
static void record_fill(const struct ucase *a, int nr, struct uwait *w,
			size_t value)
{
	struct link *l = links_of(w);
	size_t last = value + values_of(a, nr);
	int i;

	for (i = 0; i < nr; i++, l++) {
		l->ln_prev = NULL;
		if (a[i].cs_chan == NULL)
			continue;
		l->ln_case  = (unsigned short)i;
		l->ln_sole  = false;
		l->ln_size  = a[i].cs_chan->ch_size;
		l->ln_value = (unsigned short)(a[i].cs_send ? value :
						last - units(&a[i]));
		if (!a[i].cs_send)
			continue;
		copy(value_of(l), a[i].cs_value, l->ln_size);	/* C2 */
		value += units(&a[i]);
	}
}

/* Makes a record for the cases. NULL and errno. */
static NOINLINE struct uwait *record_all(const struct ucase *a, int nr)
{
	size_t value = values_at(nr);
	size_t end = value + values_of(a, nr);
	struct uwait *w;

	if (end > USHRT_MAX) {
		errno = EINVAL;
		return NULL;
	}
	w = uwait_make(UWAIT_SELECT, NULL, end * UNIT);
	if (w != NULL)
		record_fill(a, nr, w, value);
	return w;
}

/* Ends the wait for all cases but the one chosen, if that is not negative. */
static NOINLINE void leave_all(struct ucase *a, int nr, struct uwait *w,
			       int chosen)
{
	int i;

	for (i = 0; i < nr; i++)
		if (i != chosen && a[i].cs_chan != NULL)
			leave(a[i].cs_chan, links_of(w) + i);
}

/* Takes the value of the case that was chosen. Returns the number. */
static int chosen(struct ucase *a, struct uwait *w, int result)
{
	int i = result / 2;
	struct link *l = links_of(w) + i;

	a[i].cs_result = result & 1 ? -EPIPE : 0;
	if (a[i].cs_result == 0 && !a[i].cs_send && a[i].cs_value != NULL)
		copy(a[i].cs_value, value_of(l), l->ln_size);
	return i;
}

static NOINLINE int wait_all(struct ucase *a, int nr, utime_ns until)
{
	struct uwait *w = NULL;
	int rc;

	if (until != UNOW) {
		w = record_all(a, nr);
		if (w == NULL)
			return -errno;
	}
	rc = queue_all(a, nr, w);
	if (w == NULL)
		return rc;
	if (rc == -EAGAIN) {
		rc = uwait_for(w, until);
		if (rc >= 0)
			rc = chosen(a, w, rc);
		leave_all(a, nr, w, rc);
	}
	uwait_free(w);
	return rc;
}

/* Checks the channels of all cases. In the hard mode only. */
static void see_all(const struct ucase *a, int nr, bool ordered)
{
#if defined(USCHED_HARD)
	int i;

	for (i = 0; i < nr; i++)
		if (a[i].cs_chan != NULL)
			CALL(a[i].cs_chan, ordered ? "uselect_ordered" :
			     "uselect");
#else
	(void)a, (void)nr, (void)ordered;
#endif
}

static inline int choose(struct ucase *a, int nr, utime_ns until, bool ordered)
{
	int rc;

	if (until < 0 || nr < 0 || (a == NULL && nr != 0))
		return -EINVAL;
	see_all(a, nr, ordered);
	usched_point();
	rc = try_each(a, nr, ordered);
	if (likely(rc != -EAGAIN))
		return rc;
	return wait_all(a, nr, until);
}

int uselect(struct ucase *cases, int nr, utime_ns until)
{
	return choose(cases, nr, until, false);
}

int uselect_ordered(struct ucase *cases, int nr, utime_ns until)
{
	return choose(cases, nr, until, true);
}
