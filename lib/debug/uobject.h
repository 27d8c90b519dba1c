/* SPDX-License-Identifier: MIT */
/* uobject.h: objects in the hard mode. A part of uhard.c. */

#ifndef UOBJECT_H
#define UOBJECT_H

/*
 * MAGIC
 *
 * An object has a word that says what it is, and whether it was freed:
 *
 *	0 ---first use---> KNOWN | kind ---free---> FREED | kind
 *
 * Each public call looks at the word first. Objects that users embed need no
 * call to begin and none to end, so 0 is new, and memory that is used again
 * begins with 0 if it is zeroed, or gets the value of a macro. A copy of an
 * object is known, and so is memory that becomes an object of the same kind as
 * it is.
 *
 * QUARANTINE
 *
 * Memory that is used again at once turns a late use into a use of a stranger.
 * So objects that a call frees stay for a while: threads of processors in a
 * list of their processor, generators in a list of ugen.c, all others in a list
 * here. Each list has a limit, and gives back the object that was freed first.
 * Memory behind the struct uhard_object of a block is poison meanwhile, up to
 * UHARD_GRAVES_NOB: a block of gigabytes that was never touched stays so.
 *
 *	block    struct uhard_object                     block + nob
 *	  v            v                                     v
 *	  | left alone | magic, by whom freed, links |#######|    # poison
 *
 * PLACE
 *
 * An object may lie on the stack of the thread that calls, or of a thread that
 * runs meanwhile, such as the consumer of a generator. On the stack of a thread
 * that waits it is lost: there, other threads run, or nothing. Most objects are
 * in no lane, which must cost little. So near[] has a bit for each GRAIN bytes,
 * set for all lanes that ever were. Only where it is set are all lanes looked
 * at. The look at the place comes first, since the word may lie in a lane that
 * is shut.
 *
 * HOLDS
 *
 * A thread has a list of what it must give back before it ends: locks, and the
 * scopes that it has begun. It is short, and needs no memory: a hold without
 * a place is only counted. Only the thread itself changes it. A thread that
 * uthread.c or uscope.c has made holds itself until its function has returned:
 * so an end by ustack_abort() is noticed.
 *
 * INVARIANTS
 *
 * J1. A word changes from 0 to KNOWN by any call, and to FREED by the call that
 *     frees. It is FREED as long as the object is in a quarantine.
 * J2. A bit of near[] is set before a thread runs in the lane.
 * J3. hs_nr is the number of places taken; with those counted by hs_more it is
 *     the number of holds, unless an object was given back by a stranger.
 *
 * REJECTED. The address of an object in its word, so that a copy is noticed:
 * programs copy objects that are at rest. A list of all objects: those that are
 * embedded have no end.
 */

#include "upoison.h"

#define KNOWN		0x75736300u	/* "usc" */
#define FREED		0x66726500u	/* "fre" */
#define KIND		0xffu
#define GRAIN_LOG	16
#define NEAR_LOG	20		/* bits of near[] */

static unsigned char near[1 << (NEAR_LOG - 3)];	/* (atomic) */
static struct uhard_graves freed;

static const char *kind_name(unsigned kind)
{
	static const char *const name[] = {
		[UHARD_MUTEX] = "umutex", [UHARD_COND] = "ucond",
		[UHARD_SEM] = "usem", [UHARD_RW] = "urw",
		[UHARD_GROUP] = "ugroup", [UHARD_BARRIER] = "ubarrier",
		[UHARD_ONCE] = "uonce", [UHARD_CHAN] = "uchan",
		[UHARD_SCOPE] = "uscope", [UHARD_UTHREAD] = "uthread",
		[UHARD_GEN] = "ugen", [UHARD_WORK] = "uwork",
		[UHARD_THREAD] = "thread"
	};

	return kind > 0 && kind < UHARD_MADE ? name[kind] : "object";
}

static void put_object(struct text *x, const char *call, int kind,
		       const void *object)
{
	put(x, call);
	put(x, ": the ");
	put(x, kind_name((unsigned)kind));
	put(x, " ");
	put_number(x, (uintptr_t)object, 16);
}

/* Place. */

static void near_set(const void *at, size_t nob)
{
	uintptr_t grain = (uintptr_t)at >> GRAIN_LOG;
	uintptr_t last = ((uintptr_t)at + nob) >> GRAIN_LOG;
	unsigned bit, nr = 0;

	for (; grain <= last && nr < 1u << NEAR_LOG; grain++, nr++) {
		bit = (unsigned)grain & ((1u << NEAR_LOG) - 1);
		__atomic_fetch_or(&near[bit / 8],
				  (unsigned char)(1u << bit % 8),
				  __ATOMIC_RELAXED);
	}
}

static bool near_lanes(const void *at)
{
	unsigned bit = (unsigned)((uintptr_t)at >> GRAIN_LOG) &
		((1u << NEAR_LOG) - 1);

	return __atomic_load_n(&near[bit / 8], __ATOMIC_RELAXED) >>
		bit % 8 & 1;
}

/*
 * Returns whether the lane has an owner, and that has not blocked, or has a
 * private stack with this address in its slice. Caller holds the lock.
 */
static bool lane_runs(const struct uhard_sched *d, int lane, const char *at)
{
	const struct ustack *owner = __atomic_load_n(&d->d_lane[lane].l_owner,
						     __ATOMIC_RELAXED);
	const struct uhard_sched *e;
	const struct uhard_stack *h;

	for (e = all; e != NULL; e = e->d_next) {
		for (h = shares(e, d) ? e->d_list : NULL; h; h = h->h_next) {
			if (h->h_name.w_stack == owner && h->h_lane == lane &&
			    __atomic_load_n(&h->h_where, __ATOMIC_ACQUIRE) !=
			    RUNS)
				return usched_lane_promised(d->d_private,
					lane - d->d_lane_nr) &&
					at >= h->h_slice;
		}
	}
	return owner != NULL;
}

/*
 * Returns whether the address, in a lane of d, may be in a frame of a thread
 * that runs: of the caller, above frame, or of another. Caller holds the lock.
 */
static bool in_use(const struct uhard_sched *d, int lane, const char *at,
		   const char *frame)
{
	const struct ustack *u = ustack_self();

	if (u != NULL && lane_of(u) == &d->d_lane[lane])
		return at >= frame;
	return lane_runs(d, lane, at);
}

/* Writes to x whose stack it is. Caller holds the lock. */
static void put_stack(struct text *x, const struct uhard_sched *d, int lane,
		      const char *at)
{
	struct name victim = last_of(&d->d_lane[lane]);

	put(x, " lies on the stack of ");
	if (put_blocked(x, d, lane, at, &victim, STAYS) > 0) {
		put(x, ", which waits. What others use lies on the heap, or is "
		    "static: \"Data that threads share\" in doc/guide.md");
		return;
	}
	put_name(x, victim);
	put(x, ", where it is dead: the function that it was local to has "
	    "returned");
}

/* Fails if the object lies in a part of a lane that no thread uses now. */
static void place_see(const char *object, int kind, const char *call,
		      const char *frame)
{
	struct text x = { .x_nob = 0 };
	const struct uhard_sched *d;
	bool lost = false;
	int lane = 0;

	lock();
	for (d = all; d != NULL; d = d->d_next) {
		if ((lane = lane_at(d, object)) != 0)
			break;
	}
	if (d != NULL && !in_use(d, lane, object, frame)) {
		lost = true;
		put_object(&x, call, kind, object);
		put_stack(&x, d, lane, object);
	}
	unlock();
	if (lost)
		usched_fail(x.x_text);
}

/* Magic. */

static UNCHECKED void freed_fail(const struct uhard_object *o, int kind,
				 const void *object, const char *call)
{
	struct text x = { .x_nob = 0 };

	put_object(&x, call, kind, object);
	put(&x, " was freed by ");
	put(&x, o->o_call);
	put(&x, "() in ");
	if (o->o_who == NULL)
		put(&x, "a native thread");
	else
		put_thread(&x, o->o_who, o->o_f, o->o_arg);
	usched_fail(x.x_text);
}

/* Fails: object is none of this kind. word is what it has as its magic. */
static void kind_fail(const void *object, unsigned word, int kind,
		      const char *call)
{
	struct text x = { .x_nob = 0 };

	put(&x, call);
	put(&x, ": ");
	put_number(&x, (uintptr_t)object, 16);
	put(&x, " is no ");
	put(&x, kind_name((unsigned)kind));
	if ((word & ~KIND) == KNOWN || (word & ~KIND) == FREED) {
		put(&x, ", but was used as a ");
		put(&x, kind_name(word & KIND));
	} else if (word == (unsigned)POISON)
		put(&x, ": its memory is dead, and was poisoned");
	else
		put(&x, ": it was not zeroed at first, or was overwritten");
	usched_fail(x.x_text);
}

UNCHECKED void uhard_object(const void *object, unsigned *magic, int kind,
			    const char *call)
{
	unsigned word;

	if (near_lanes(object))
		place_see(object, kind, call, __builtin_frame_address(0));
	word = __atomic_load_n(magic, __ATOMIC_RELAXED);
	if (word == (KNOWN | (unsigned)kind))
		return;
	if (word == 0)
		__atomic_store_n(magic, KNOWN | (unsigned)kind,
				 __ATOMIC_RELAXED);		/* J1 */
	else if (word == (FREED | (unsigned)kind))	/* it is o_magic */
		freed_fail((struct uhard_object *)magic, kind, object, call);
	else
		kind_fail(object, word, kind, call);
}

/* Quarantine. */

void uhard_begins(struct uhard_object *o)
{
	memset(o, 0, sizeof *o);
}

UNCHECKED void uhard_ends(struct uhard_object *o, int kind, const char *call)
{
	const struct ustack *u = ustack_self();
	struct name w = { NULL, NULL, NULL };

	if (u != NULL)
		w = name_of_thread(u);
	o->o_call = call;
	o->o_who  = u;
	o->o_f    = w.w_f;
	o->o_arg  = w.w_arg;
	__atomic_store_n(&o->o_magic, FREED | (unsigned)kind,
			 __ATOMIC_RELAXED);			/* J1 */
}

/* The poison in the block of o is from here to its end. */
static char *grave_from(struct uhard_object *o)
{
	return (char *)(o + 1);
}

static UNCHECKED char *grave_to(struct uhard_object *o)
{
	size_t nob = o->o_nob < UHARD_GRAVES_NOB ? o->o_nob : UHARD_GRAVES_NOB;

	return (char *)((uintptr_t)((char *)o->o_block + nob) &
			-sizeof POISON);
}

static size_t grave_nob(struct uhard_object *o)
{
	char *from = grave_from(o), *to = grave_to(o);

	return to > from ? (size_t)(to - from) : 0;
}

UNCHECKED void uhard_grave_put(struct uhard_graves *k, struct uhard_object *o,
			       void *block, size_t nob)
{
	o->o_next  = NULL;
	o->o_block = block;
	o->o_nob   = nob;
	fill(grave_from(o), grave_to(o));
	usan_close(grave_from(o), grave_nob(o));
	lock();
	if (k->g_nr == 0)
		k->g_first = o;
	else
		k->g_last->o_next = o;
	k->g_last = o;
	k->g_nob += nob;
	__atomic_store_n(&k->g_nr, k->g_nr + 1, __ATOMIC_RELEASE);
	unlock();
}

/* Fails if the block was written to while it was kept. */
static UNCHECKED void grave_check(struct uhard_object *o)
{
	const char *at = spoilt(grave_from(o), grave_to(o));
	unsigned kind = o->o_magic & KIND;
	struct text x = { .x_nob = 0 };

	if (at == NULL)
		return;
	put(&x, "the memory of ");
	if (kind == UHARD_THREAD) {
		put_thread(&x, o->o_who, o->o_f, o->o_arg);
		put(&x, ", which has ended,");
	} else {
		put(&x, "the ");
		put(&x, kind_name(kind));
		put(&x, " ");
		put_number(&x, (uintptr_t)o->o_block, 16);
		put(&x, ", which ");
		put(&x, o->o_call);
		put(&x, "() has freed,");
	}
	put(&x, " was written to at ");
	put_number(&x, (uintptr_t)at, 16);
	usched_fail(x.x_text);
}

/* Takes the first object out of k, or returns NULL: see uhard_grave_get(). */
static UNCHECKED
struct uhard_object *grave_first(struct uhard_graves *k, int all)
{
	struct uhard_object *o = NULL;

	lock();
	if (k->g_nr > UHARD_GRAVES || (k->g_nr > 1 && k->g_nob > UHARD_GRAVES_NOB) ||
	    (all && k->g_nr > 0)) {
		o = k->g_first;
		k->g_first = o->o_next;
		k->g_nob -= o->o_nob;
		__atomic_store_n(&k->g_nr, k->g_nr - 1, __ATOMIC_RELEASE);
	}
	unlock();
	return o;
}

UNCHECKED void *uhard_grave_get(struct uhard_graves *k, int all)
{
	struct uhard_object *o = grave_first(k, all);

	if (o == NULL)
		return NULL;
	grave_check(o);
	usan_open(grave_from(o), grave_nob(o));
	return o->o_block;
}

void uhard_free(struct uhard_object *o, void *block, size_t nob)
{
	void *first;

	uhard_grave_put(&freed, o, block, nob);
	while ((first = uhard_grave_get(&freed, 0)) != NULL)
		free(first);
}

UNCHECKED void uhard_live(const struct ustack *u, const struct uhard_object *o,
			  const char *set, const char *call)
{
	struct text x = { .x_nob = 0 };

	if (__atomic_load_n(&o->o_magic, __ATOMIC_RELAXED) !=
	    (FREED | UHARD_THREAD))
		return;
	put(&x, set);
	put(&x, call);
	put(&x, ": ");
	put_thread(&x, u, u->u_f, u->u_arg);
	put(&x, " has ended, and was freed");
	put(&x, o->o_call);
	usched_fail(x.x_text);
}

/* Holds. */

void uhard_hold(const void *object, int kind)
{
	struct ustack *u = ustack_self();
	struct uhard_holds *hs;

	if (u == NULL)
		return;
	hs = &u->u_holds;
	if (hs->hs_nr < UHARD_HOLDS) {
		hs->hs_at[hs->hs_nr]     = object;
		hs->hs_kind[hs->hs_nr++] = kind;
	} else
		hs->hs_more++;
}

int uhard_unhold(const void *object)
{
	struct ustack *u = ustack_self();
	struct uhard_holds *hs;
	int i;

	if (u == NULL)
		return 1;
	hs = &u->u_holds;
	for (i = hs->hs_nr - 1; i >= 0 && hs->hs_at[i] != object; i--)
		;
	if (i < 0)
		return hs->hs_more > 0 && hs->hs_more-- > 0;
	hs->hs_nr--;
	for (; i < hs->hs_nr; i++) {
		hs->hs_at[i]   = hs->hs_at[i + 1];
		hs->hs_kind[i] = hs->hs_kind[i + 1];
	}
	return 1;
}

/* Fails if u, which ends, holds anything. The last was taken last. */
static void holds_see(const struct ustack *u)
{
	const struct uhard_holds *hs = &u->u_holds;
	struct text x = { .x_nob = 0 };
	int kind;

	if (hs->hs_nr == 0)
		return;
	kind = hs->hs_kind[hs->hs_nr - 1];
	put_name(&x, name_of_thread(u));
	if (kind == UHARD_MADE) {
		put(&x, " has ended by ustack_abort(): uthread_make() and "
		    "uscope_go() need a function that returns");
		usched_fail(x.x_text);
	}
	put(&x, kind == UHARD_SCOPE ? " has ended in the " :
	    " has ended while it holds the ");
	put(&x, kind_name((unsigned)kind));
	put(&x, " ");
	put_number(&x, (uintptr_t)hs->hs_at[hs->hs_nr - 1], 16);
	put(&x, kind == UHARD_SCOPE ?
	    ", which it has begun: uscope_end() comes first" :
	    kind == UHARD_RW ? ": urw_unlock() comes first" :
	    ": umutex_unlock() comes first");
	usched_fail(x.x_text);
}

void uhard_fail(const char *set, const char *call, const char *text)
{
	struct text x = { .x_nob = 0 };

	put(&x, set);
	put(&x, call);
	put(&x, ": ");
	put(&x, text);
	usched_fail(x.x_text);
}

#endif /* UOBJECT_H */
