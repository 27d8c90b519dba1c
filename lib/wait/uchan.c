/* SPDX-License-Identifier: MIT */
/* uchan.c: channels. */

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
 * waits. uselect.c does so for several channels at once. uchan_inside.h has what
 * both files inline.
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
 * THE END
 *
 * The claimer takes the link out of the line. All other links are taken out by
 * the waiter, in uchan_leave(). Another claimer may meet such a link before that: its
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
 *     claim, and whose waiter has not been in uchan_leave() yet.
 * C6. The channel is freed when uchan_free() was called and ch_late is 0.
 *     After a claim succeeded through a link of c, its waiter does not touch c
 *     for this link.
 *
 * HINTS
 *
 * uchan_possible() looks without the lock. With UNOW, and a single channel, its "no"
 * is the answer; else a wrong answer costs only time. Its first load has
 * acquire order, so ch_closed is not older. Of an open channel the answer was
 * then right at the time of the first load.
 *
 * MUTANTS. Each is found by a test; the name follows.
 *
 *	send copies after queueing, from v		chan (hard mode)
 *	claimer forgets the copy into the record	chan
 *	uchan_take() leaves a sender's value in the record	chan: order
 *	a failed claim ends the search			chan: late
 *	a failed claim does not count in ch_late	chan: freed
 *	uchan_leave() is not called after a time-out	chan: model
 *	close does not tell senders			chan: close
 *
 * REJECTED
 *
 * Links that stay in the line after a failed claim: each later operation
 * meets them again.
 */

#include "uchan_inside.h"
#include "ufork.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

NOINLINE int uchan_closed(const struct uchan *c)
{
	if (c->ch_freed)
		usched_fail("uchan: the channel was freed before by "
			    "uchan_free()");
	return -EPIPE;
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

/* Tells modules that look on that c begins or ends. */
static NOINLINE void watched(const struct uchan *c, bool begins)
{
	const struct uwait_queue q = {
		c, &c->ch_count, &c->ch_head, &c->ch_laps, c->ch_room,
		c->ch_size, c->ch_ring
	};

	if (c->ch_room != 0)
		uwait_watch_queue(&q, begins);
}

/* Frees the memory of c. */
static void release(struct uchan *c)
{
	while (__atomic_fetch_add(&quitters, 0, __ATOMIC_ACQ_REL) != 0)
		sched_yield();					/* Q4 */
	if (UWAIT_WATCHED)
		watched(c, false);
#if defined(USCHED_HARD)
	uhard_free(&c->ch_object, c,
		   sizeof *c + (size_t)c->ch_size * c->ch_room);
#else
	uchan_count_set(c, 0);
	__atomic_store_n(&c->ch_closed, true, __ATOMIC_RELEASE);
	*(volatile bool *)&c->ch_freed = true;
	free(c);
#endif
}

/* The last that leaves a channel that was freed frees its memory: C6. */
void uchan_leave(struct uchan *c, struct link *l)
{
	bool last = false;

	uchan_lock(c);
	if (l->ln_prev != NULL)
		uchan_line_take(l);
	else
		last = --c->ch_late == 0 && c->ch_freed;
	uchan_unlock(c);
	if (last)
		release(c);
}

/* A single operation. */

/* Makes a record for a single operation. NULL and errno. */
static inline struct uwait *record_one(struct uchan *c, const void *v,
				       bool send, bool timed)
{
	struct uwait *w = uwait_make(send ? UWAIT_SEND : UWAIT_RECV, c,
				     uchan_values_at(1) * UCHAN_UNIT + c->ch_size);
	struct link *l;

	if (w == NULL)
		return NULL;
	l = uchan_links_of(w);
	l->ln_case  = 0;
	l->ln_size  = c->ch_size;
	l->ln_value = (unsigned short)uchan_values_at(1);
	l->ln_sole  = !timed && uwait_self(w->w_stack, uwait_run) == NULL;
	w->w_node.n_when = (uintptr_t)c;	/* if no timer needs it */
	if (send)
		uchan_copy(uchan_value_of(l), v, c->ch_size);	/* C2 */
	return w;
}

/* Tries once more, and else queues w. 0, -EPIPE; -EAGAIN: w is queued. */
static NOINLINE int queue_one(struct uchan *c, struct uwait *w, void *v,
			      bool send)
{
	struct uwait *claimed = NULL;
	int rc = -EAGAIN;

	uchan_lock(c);
	if (unlikely(uchan_possible(c, send)))
		rc = uchan_pass(c, v, send, &claimed);
	if (rc == -EAGAIN)
		uchan_line_put(&c->ch_line[send], uchan_links_of(w));
	uchan_unlock(c);
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
	struct link *l = uchan_links_of(w);
	bool waits = false;

	if (!l->ln_sole)
		return uwait_claim(w);
	__atomic_fetch_add(&quitters, 1, __ATOMIC_ACQ_REL);	/* Q1 */
	if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) ==	/* Q2 */
	    UWAIT_WAITS) {
		uchan_lock(c);
		waits = l->ln_prev != NULL;
		if (waits) {
			uchan_line_take(l);
			uchan_claim_sole(w);
		}
		uchan_unlock(c);
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

/* Waits for the claim of w, which is queued. Returns the result of the call. */
static inline int await_one(struct uchan *c, struct uwait *w, utime_ns until)
{
	struct link *l = uchan_links_of(w);
	bool sole = l->ln_sole;
	int rc;

	if (sole && w->w_stack != NULL) {
		uwait_block(w);
		rc = w->w_result;
	} else
		rc = uwait_for(w, until);
	if (rc < 0 && !sole)
		uchan_leave(c, l);
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
	l = uchan_links_of(w);
	rc = queue_one(c, w, v, send);
	if (rc == -EAGAIN) {
		rc = await_one(c, w, until);
		if (rc == 0 && !send && v != NULL)
			uchan_copy(v, uchan_value_of(l), l->ln_size);
	}
	uwait_free(w);
	return rc;
}

static ALWAYS_INLINE int do_one(struct uchan *c, void *v, bool send, utime_ns until)
{
	int rc;

	if (c == NULL || until < 0)
		return -EINVAL;
	UCHAN_CALL(c, send ? "uchan_send" : "uchan_recv");
	UHARD(yield());
	if (uchan_possible(c, send)) {
		rc = uchan_pass_locked(c, v, send);
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

static void line_init(struct link *line)
{
	line->ln_next = line->ln_prev = line;
}

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
	if (UWAIT_WATCHED)
		watched(c, true);
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

	while ((w = uchan_line_claim(c, side, &value)) != NULL) {
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
	UCHAN_CALL(c, "uchan_close");
	UHARD(yield());
	uchan_lock(c);
	if (!c->ch_closed) {
		rc = 0;
		__atomic_store_n(&c->ch_closed, true, __ATOMIC_RELEASE);
		end = claim_all(c, RECEIVERS, end);
		end = claim_all(c, SENDERS, end);
	}
	*end = NULL;
	uchan_unlock(c);
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
	UCHAN_CALL(c, "uchan_free");
	if (!c->ch_local)
		ulock_get(&c->ch_lock);
	if (c->ch_freed)
		usched_fail("uchan_free: the channel was freed before");
	if (uchan_line_claim(c, RECEIVERS, &value) != NULL ||
	    uchan_line_claim(c, SENDERS, &value) != NULL)
		usched_fail("uchan_free: a thread waits for the channel");
	c->ch_freed = true;
	UHARD(ends(&c->ch_object, UHARD_CHAN, "uchan_free"));
	last = c->ch_late == 0;
	uchan_unlock(c);
	if (last)
		release(c);					/* C6 */
}

unsigned uchan_count(const struct uchan *c)
{
	UCHAN_CALL(c, "uchan_count");
	return __atomic_load_n(&c->ch_count, __ATOMIC_RELAXED);
}
