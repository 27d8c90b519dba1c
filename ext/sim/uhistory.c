/* SPDX-License-Identifier: MIT */
/* uhistory.c: a search for an order that explains the results of operations. */

/*
 * The search is that of Wing and Gong (1993), with the memory that Lowe (2017)
 * added. Calls and returns of a key stand in a list, in the order of time:
 *
 *	call A   call B   return A   call C   return B   return C
 *
 * An operation may come next in the order if its call stands before all returns
 * that are left. If its result is what the object says, its call and its return
 * are lifted out of the list, and the search begins again at the head. When it
 * comes to a return, then no operation before it fits, so the last that was
 * lifted is put back, and the search goes on behind its call.
 *
 *	lifted		a stack: the order so far
 *	known		pairs of the set of lifted operations and the value of the
 *			object. A pair that is met again leads to the same failure
 *
 * Keys are independent of each other: a history is linearizable if that of each
 * key is (Herlihy and Wing 1990). So each key has a search of its own, and an
 * object is one word: the value of a register, or whether an element is in a set.
 *
 * An operation that has not returned has a call and no return. So it may be
 * lifted at any time with any result, or stay. The order is complete when all
 * that have returned are lifted. Many that have not returned would make the search
 * long, so what explains no result is not tried:
 *
 *	a read; a write of a value that no read has returned	left out before
 *	a change that changes nothing at this point		not lifted there
 *	one of several that are equal				the first called first
 *
 * Invariants:
 * Y1. The list without the lifted pairs is in the order of time.
 * Y2. Pairs are put back in the reverse order of their lifting, so each finds its
 *     neighbours as they were.
 * Y3. A return is in the list exactly as long as its call is.
 *
 * WORDS. A violation is told by up to three operations, each with its client, its
 * call, its result and its times, as the story of a run has them:
 *
 *	z read -> 7 (3.104311 to 3.110200 s) fits into no order: before it
 *	x write 9 (2.981002 to 2.990000 s); 7 is of y write 7 (1.200000 to 1.300000 s)
 *
 *	the culprit	its return was the farthest that the search has met
 *	before it	the last that had returned when the culprit was called, and
 *			after which the value was another than the culprit says. If
 *			there is none: one beside it
 *	origin		the last call that can have made the value which it says. If
 *			there is none: the first later call
 *
 * Clients and times come from the simulator, if it is linked. It is asked by weak
 * names, so this file needs nothing else. Elsewhere times are of CLOCK_MONOTONIC.
 *
 * REJECTED: hashes of sets instead of the sets: two that are equal by chance
 * would hide an order, and the check would report what is no error.
 */

#include "uhistory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STATES_MOST	4000000
#define OP_ROOM		160	/* of the text of an operation */

/* usim.c has it, if that is linked. */
extern const char *sim_caller_name(int64_t *at) __attribute__((weak));

struct op {
	enum uhistory_kind o_kind;
	uint64_t           o_key, o_a, o_b, o_result;
	uint64_t           o_call;	/* events have numbers */
	uint64_t           o_return;	/* 0: it has not returned */
	int64_t            o_called, o_returned;	/* ns since the start */
	const char        *o_client;	/* or NULL */
};

struct uhistory {
	struct op *h_ops;
	size_t     h_nr, h_room;
	uint64_t   h_events;
	int64_t    h_start;	/* of its clock */
};

/* A call or a return in the list of a key. */
struct event {
	struct event    *e_next, *e_before;
	struct event    *e_return;	/* of a call; NULL: it has none */
	struct event    *e_twin;	/* comes before this in each order, or NULL */
	const struct op *e_op;		/* NULL: the head */
	size_t           e_number;	/* of the operation in its key */
	bool             e_is_return;
};

/* A call that is lifted, and the value of the object before it. */
struct lifted {
	struct event *l_call;
	uint64_t      l_value;
};

struct search {
	struct event   s_head;
	struct event  *s_events;	/* calls, then returns */
	struct lifted *s_lifted;
	size_t         s_lifted_nr;
	size_t         s_left;		/* have returned, and are not lifted */
	uint64_t       s_value;		/* of the object */
	uint64_t      *s_set;		/* bits of lifted operations, then the value */
	size_t         s_words;		/* of s_set */
	uint64_t      *s_known;		/* sets like s_set, one behind another */
	size_t         s_known_nr, s_known_room;
	size_t        *s_table;		/* numbers in s_known, + 1; open addresses */
	const struct op *s_culprit;	/* its return was the farthest barrier */
};

/* Notes. */

/* Returns the host that calls, and its time. NULL: there is no simulator. */
static const char *caller(const struct uhistory *h, int64_t *at)
{
	const char *name = sim_caller_name != NULL ? sim_caller_name(at) : NULL;
	struct timespec t = { 0, 0 };

	if (name != NULL)
		return name;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	*at = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - h->h_start;
	return NULL;
}

struct uhistory *uhistory_make(void)
{
	struct uhistory *h = calloc(1, sizeof *h);

	if (h != NULL)
		(void)caller(h, &h->h_start);
	return h;
}

void uhistory_free(struct uhistory *h)
{
	free(h->h_ops);
	free(h);
}

long uhistory_call(struct uhistory *h, enum uhistory_kind kind, uint64_t key,
		   uint64_t a, uint64_t b)
{
	size_t room = h->h_room * 2 + 64;
	struct op *ops;

	if (h->h_nr == h->h_room) {
		ops = realloc(h->h_ops, room * sizeof *ops);
		if (ops == NULL)
			return -ENOMEM;
		h->h_ops = ops;
		h->h_room = room;
	}
	ops = &h->h_ops[h->h_nr];
	*ops = (struct op) { kind, key, a, b, 0, ++h->h_events, 0, 0, 0, NULL };
	ops->o_client = caller(h, &ops->o_called);
	return (long)h->h_nr++;
}

void uhistory_client(struct uhistory *h, long op, const char *client)
{
	if (op >= 0)
		h->h_ops[op].o_client = client;
}

void uhistory_return(struct uhistory *h, long op, uint64_t result)
{
	if (op < 0)
		return;
	(void)caller(h, &h->h_ops[op].o_returned);
	h->h_ops[op].o_return = ++h->h_events;
	h->h_ops[op].o_result = result;
}

/* The objects. */

/* Applies o. Returns whether its result, if it has any, is that of the object. */
static bool apply(const struct op *o, uint64_t *value)
{
	uint64_t before = *value, result = o->o_result;

	switch (o->o_kind) {
	case UHISTORY_READ:
	case UHISTORY_HAS:
		result = before;
		break;
	case UHISTORY_WRITE:
		*value = o->o_a;
		break;
	case UHISTORY_SWAP:
		result = before == o->o_b;
		*value = result ? o->o_a : before;
		break;
	case UHISTORY_ADD:
		result = before == 0;
		*value = 1;
		break;
	case UHISTORY_REMOVE:
		result = before != 0;
		*value = 0;
		break;
	}
	return o->o_return == 0 || result == o->o_result;
}

/* The known sets. */

static uint64_t hash_of(const uint64_t *set, size_t words)
{
	uint64_t hash = words;

	while (words-- > 0) {
		hash = (hash ^ *set++) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash;
}

/* Returns the place of a set in the table: its own, or a free one. */
static size_t *place_of(const struct search *s, const uint64_t *set)
{
	size_t i = (size_t)hash_of(set, s->s_words), nr;

	for (;; i++) {
		nr = s->s_table[i & (2 * s->s_known_room - 1)];
		if (nr == 0 || memcmp(s->s_known + (nr - 1) * s->s_words, set,
				      s->s_words * sizeof *set) == 0)
			return &s->s_table[i & (2 * s->s_known_room - 1)];
	}
}

/* Doubles the room. The table is at most half full. */
static int known_grow(struct search *s)
{
	size_t room = s->s_known_room * 2, i;
	uint64_t *known = realloc(s->s_known, room * s->s_words * sizeof *known);
	size_t *table = calloc(2 * room, sizeof *table);

	if (known != NULL)
		s->s_known = known;
	if (known == NULL || table == NULL) {
		free(table);
		return -ENOMEM;
	}
	free(s->s_table);
	s->s_table = table;
	s->s_known_room = room;
	for (i = 0; i < s->s_known_nr; i++)
		*place_of(s, known + i * s->s_words) = i + 1;
	return 0;
}

/* Adds the set with its value. 1: it is new; 0: it was known; or an error. */
static int known_add(struct search *s, uint64_t value)
{
	size_t *place;

	s->s_set[s->s_words - 1] = value;
	place = place_of(s, s->s_set);
	if (*place != 0)
		return 0;
	if (s->s_known_nr == STATES_MOST)
		return -E2BIG;
	memcpy(s->s_known + s->s_known_nr * s->s_words, s->s_set,
	       s->s_words * sizeof *s->s_set);
	*place = ++s->s_known_nr;
	return s->s_known_nr == s->s_known_room && known_grow(s) != 0 ?
		-ENOMEM : 1;
}

/* The list. */

static void event_out(struct event *e)
{
	e->e_before->e_next = e->e_next;
	e->e_next->e_before = e->e_before;
}

static void event_back(struct event *e)
{
	e->e_before->e_next = e;
	e->e_next->e_before = e;
}

static void set_flip(struct search *s, size_t number)
{
	s->s_set[number / 64] ^= (uint64_t)1 << number % 64;
}

static bool is_lifted(const struct search *s, const struct event *call)
{
	return call == NULL ||
		s->s_set[call->e_number / 64] >> call->e_number % 64 & 1;
}

static void lift(struct search *s, struct event *call, uint64_t value)
{
	s->s_lifted[s->s_lifted_nr++] = (struct lifted) { call, s->s_value };
	s->s_value = value;
	event_out(call);
	if (call->e_return != NULL) {				/* Y3 */
		event_out(call->e_return);
		s->s_left--;
	}
}

/* Puts the last back. Returns its call. */
static struct event *put_back(struct search *s)
{
	struct lifted last = s->s_lifted[--s->s_lifted_nr];

	s->s_value = last.l_value;
	set_flip(s, last.l_call->e_number);
	if (last.l_call->e_return != NULL) {			/* Y2 */
		event_back(last.l_call->e_return);
		s->s_left++;
	}
	event_back(last.l_call);
	return last.l_call;
}

/* Tries to lift a call. 1: it is lifted; 0: it does not fit; or an error. */
static int try_call(struct search *s, struct event *call)
{
	uint64_t value = s->s_value;
	int rc;

	if (!apply(call->e_op, &value))
		return 0;
	if (call->e_return == NULL &&
	    (value == s->s_value || !is_lifted(s, call->e_twin)))
		return 0;
	set_flip(s, call->e_number);
	rc = known_add(s, value);
	if (rc == 1)
		lift(s, call, value);
	else
		set_flip(s, call->e_number);
	return rc;
}

/* 0: there is an order; 1: there is none; or an error. */
static int search(struct search *s)
{
	struct event *e = s->s_head.e_next;
	int rc;

	while (s->s_left > 0) {
		if (e->e_is_return) {
			if (s->s_culprit == NULL ||
			    s->s_culprit->o_return < e->e_op->o_return)
				s->s_culprit = e->e_op;
			if (s->s_lifted_nr == 0)
				return 1;
			e = put_back(s)->e_next;
			continue;
		}
		rc = try_call(s, e);
		if (rc < 0)
			return rc;
		e = rc == 1 ? s->s_head.e_next : e->e_next;
	}
	return 0;
}

/* A key. */

/* Returns whether o, which has not returned, can explain a result. */
static bool explains(const struct op *o, const struct op *ops, size_t nr)
{
	if (o->o_kind != UHISTORY_WRITE)
		return o->o_kind != UHISTORY_READ && o->o_kind != UHISTORY_HAS;
	for (; nr > 0; nr--, ops++)
		if (ops->o_kind == UHISTORY_SWAP ||
		    (ops->o_kind == UHISTORY_READ && ops->o_return != 0 &&
		     ops->o_result == o->o_a))
			return true;
	return false;
}

/* Returns the last call before, if any, that is equal and has not returned. */
static struct event *twin_of(struct event *call, const struct event *events)
{
	const struct op *o = call->e_op, *p;

	while (call-- > events) {
		p = call->e_op;
		if (p != NULL && p->o_return == 0 && p->o_kind == o->o_kind &&
		    (p->o_kind > UHISTORY_SWAP ||
		     (p->o_a == o->o_a && p->o_b == o->o_b)))
			return call;
	}
	return NULL;
}

static int earlier(const void *a, const void *b)
{
	uint64_t x = (*(struct event *const *)a)->e_op->o_return;
	uint64_t y = (*(struct event *const *)b)->e_op->o_return;

	return (x > y) - (x < y);
}

/* Adds an event to the end of the list. */
static void list_add(struct search *s, struct event *e)
{
	e->e_before = s->s_head.e_before;
	e->e_next = &s->s_head;
	e->e_before->e_next = e;
	s->s_head.e_before = e;
}

/* Makes the list, in the order of time, in which calls are: Y1. */
static int list_make(struct search *s, size_t nr)
{
	struct event **returns = malloc(nr * sizeof *returns), *e;
	size_t return_nr = 0, next = 0, i;

	if (returns == NULL)
		return -ENOMEM;
	for (i = nr; i < 2 * nr; i++)
		if (s->s_events[i].e_op != NULL)
			returns[return_nr++] = &s->s_events[i];
	qsort(returns, return_nr, sizeof *returns, earlier);
	s->s_head.e_next = s->s_head.e_before = &s->s_head;
	for (i = 0; i < nr; i++) {
		e = &s->s_events[i];
		if (e->e_op == NULL)
			continue;
		while (next < return_nr &&
		       returns[next]->e_op->o_return < e->e_op->o_call)
			list_add(s, returns[next++]);
		list_add(s, e);
	}
	while (next < return_nr)
		list_add(s, returns[next++]);
	free(returns);
	return 0;
}

static int search_begin(struct search *s, const struct op *ops, size_t nr)
{
	size_t i;

	s->s_words  = nr / 64 + 2;
	s->s_events = calloc(2 * nr, sizeof *s->s_events);
	s->s_lifted = calloc(nr, sizeof *s->s_lifted);
	s->s_set    = calloc(s->s_words, sizeof *s->s_set);
	s->s_known_room = 64;
	if (s->s_events == NULL || s->s_lifted == NULL || s->s_set == NULL ||
	    known_grow(s) != 0)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		struct event *call = &s->s_events[i];

		if (ops[i].o_return == 0 && !explains(&ops[i], ops, nr))
			continue;
		call->e_op = &ops[i];
		call->e_number = i;
		if (ops[i].o_return == 0) {
			call->e_twin = twin_of(call, s->s_events);
			continue;
		}
		call->e_return = call + nr;
		*call->e_return = (struct event) {
			.e_op = &ops[i], .e_is_return = true
		};
		s->s_left++;
	}
	return list_make(s, nr);
}

/* Words. */

enum value { ANY, IS, IS_NOT };

/* Says what a result claims about the value before o: it is *v, or is not. */
static enum value claims(const struct op *o, uint64_t *v)
{
	*v = o->o_kind == UHISTORY_READ || o->o_kind == UHISTORY_HAS ? o->o_result :
		o->o_kind == UHISTORY_SWAP ? o->o_b :
		(o->o_kind == UHISTORY_REMOVE) == (o->o_result != 0);
	if (o->o_return == 0 || o->o_kind == UHISTORY_WRITE)
		return ANY;
	return o->o_kind == UHISTORY_SWAP && !o->o_result ? IS_NOT : IS;
}

/* Returns whether the value after o is known from its result. */
static bool leaves(const struct op *o, uint64_t *v)
{
	bool known = claims(o, v) == IS;

	if (o->o_kind == UHISTORY_WRITE || o->o_kind == UHISTORY_SWAP)
		*v = o->o_a;
	else if (o->o_kind == UHISTORY_ADD || o->o_kind == UHISTORY_REMOVE)
		*v = o->o_kind == UHISTORY_ADD;
	return known || o->o_kind == UHISTORY_WRITE;
}

/* Returns whether an operation can have changed the value to v. */
static bool makes(const struct op *p, uint64_t v)
{
	return p->o_kind == UHISTORY_WRITE || p->o_kind == UHISTORY_SWAP ?
		p->o_a == v && (p->o_return == 0 || p->o_result ||
				p->o_kind == UHISTORY_WRITE) :
		p->o_kind == (v ? UHISTORY_ADD : UHISTORY_REMOVE);
}

/*
 * Returns the last change to v that was called before o has returned; or the first that
 * was called later, since v is not the value of the start; or NULL.
 */
static const struct op *origin_of(const struct op *ops, size_t nr,
				  const struct op *o, uint64_t v)
{
	const struct op *p, *last = NULL;

	for (p = ops; p < ops + nr && p->o_call < o->o_return; p++)
		if (p != o && makes(p, v))
			last = p;
	for (; last == NULL && v != 0 && p < ops + nr; p++)
		if (makes(p, v))
			last = p;
	return last;
}

/*
 * Returns the last operation that left another value than o claims, of those that
 * were over when o was called, or, if there is none, of those beside it.
 */
static const struct op *denial_of(const struct op *ops, size_t nr,
				  const struct op *o, uint64_t v, enum value claim)
{
	const struct op *p, *last[2] = { NULL, NULL };
	uint64_t left;
	bool beside;

	for (p = ops; p < ops + nr; p++)
		if (p != o && p->o_return != 0 && leaves(p, &left) &&
		    (left == v) == (claim == IS_NOT) && p->o_call < o->o_return) {
			beside = p->o_return > o->o_call;
			if (last[beside] == NULL || last[beside]->o_return < p->o_return)
				last[beside] = p;
		}
	return last[0] != NULL ? last[0] : last[1];
}

static long long us_of(int64_t ns)
{
	return (long long)(ns / 1000 % 1000000);
}

static long long s_of(int64_t ns)
{
	return (long long)(ns / 1000000000);
}

static const char *op_text(const struct op *o, char text[OP_ROOM])
{
	static const char *const names[] = {
		"read", "write", "swap", "add", "remove", "has"
	};
	int at = snprintf(text, OP_ROOM, "%.40s %s", o->o_client != NULL ?
			  o->o_client : "a client", names[o->o_kind]);

	if (o->o_kind == UHISTORY_SWAP)
		at += snprintf(text + at, OP_ROOM - (size_t)at, " %" PRIu64 " to",
			       o->o_b);
	if (o->o_kind == UHISTORY_WRITE || o->o_kind == UHISTORY_SWAP)
		at += snprintf(text + at, OP_ROOM - (size_t)at, " %" PRIu64, o->o_a);
	if (o->o_return != 0 && o->o_kind != UHISTORY_WRITE)
		at += snprintf(text + at, OP_ROOM - (size_t)at, " -> %" PRIu64,
			       o->o_result);
	at += snprintf(text + at, OP_ROOM - (size_t)at, " (%lld.%06lld ",
		       s_of(o->o_called), us_of(o->o_called));
	if (o->o_return != 0)
		snprintf(text + at, OP_ROOM - (size_t)at, "to %lld.%06lld s)",
			 s_of(o->o_returned), us_of(o->o_returned));
	else
		snprintf(text + at, OP_ROOM - (size_t)at, "s, no answer)");
	return text;
}

static void say(const struct op *ops, size_t nr, const struct op *o, char *why,
		size_t size)
{
	char text[3][OP_ROOM], before[OP_ROOM + 20] = "", origin[OP_ROOM + 60] = "";
	uint64_t v;
	enum value claim = claims(o, &v);
	const struct op *denial = claim == ANY ? NULL : denial_of(ops, nr, o, v, claim);
	const struct op *from = claim == IS ? origin_of(ops, nr, o, v) : NULL;

	if (denial != NULL)
		snprintf(before, sizeof before, ": %s it %s", denial->o_return <
			 o->o_call ? "before" : "beside", op_text(denial, text[0]));
	if (from != NULL)
		snprintf(origin, sizeof origin, "%c %" PRIu64 " is of %s%s",
			 denial != NULL ? ';' : ':', v, from->o_call > o->o_return ?
			 "a later call, " : "", op_text(from, text[1]));
	else if (claim == IS && v != 0)
		snprintf(origin, sizeof origin, "%c %" PRIu64 " is of no operation",
			 denial != NULL ? ';' : ':', v);
	snprintf(why, size, "key %" PRIu64 ": %s fits into no order%s%s", o->o_key,
		 op_text(o, text[2]), before, origin);
}

static int key_check(const struct op *ops, size_t nr, char *why, size_t size)
{
	struct search s = { .s_value = 0 };
	int rc = search_begin(&s, ops, nr);

	if (rc == 0)
		rc = search(&s);
	if (rc == 1)
		say(ops, nr, s.s_culprit, why, size);
	free(s.s_events);
	free(s.s_lifted);
	free(s.s_set);
	free(s.s_known);
	free(s.s_table);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->o_key != y->o_key ? (x->o_key > y->o_key) * 2 - 1 :
		(x->o_call > y->o_call) - (x->o_call < y->o_call);
}

int uhistory_check(const struct uhistory *h, char *why, size_t size)
{
	struct op *ops = malloc((h->h_nr + 1) * sizeof *ops);
	size_t from, to;
	int rc = 0;

	if (ops == NULL)
		return -ENOMEM;
	if (h->h_nr > 0)
		memcpy(ops, h->h_ops, h->h_nr * sizeof *ops);
	qsort(ops, h->h_nr, sizeof *ops, by_key);
	for (from = 0; rc == 0 && from < h->h_nr; from = to) {
		for (to = from; to < h->h_nr && ops[to].o_key == ops[from].o_key; )
			to++;
		rc = key_check(ops + from, to - from, why, size);
	}
	free(ops);
	return rc;
}
