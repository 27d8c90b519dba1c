/* SPDX-License-Identifier: MIT */
/* stuck.h: finds threads, and at the end those that wait for ever. A part of uproc.c. */

#ifndef USTUCK_H
#define USTUCK_H

/*
 * A set does not know its threads: a blocked thread is only where its waker has
 * put it. (ulist.h keeps a table, if the program asks for it.) So at the end,
 * when no thread runs any more, threads and wait records are looked for in the
 * memory of the set. The first word of a thread is its dispatcher, that of a
 * record its thread, and that of a free block a link. So no free block is taken
 * for one of them; and of a block with other contents all fields would have to
 * fit by chance.
 *
 * A thread that was woken, and waits, has waited by the call of another
 * scheduler: rr_wait() in a thread of ws does not look for wakes that have come,
 * and gives the thread no home. All wakes under way have arrived by now.
 *
 * This walk (uproc_walk()) is also that of the census (vcensus.c) and of those who
 * look for pointers (uroots.c). They walk while processors run, so a field is as
 * its processor leaves it. A buffer may begin with saved registers that look like
 * the first words of a thread. So no address is believed that is not in a lane.
 *
 * An object that a thread waits for is the program's, which may have unmapped
 * it. So its owner is read by a system call, which returns an error then.
 */

#include "uproc_inside.h"
#include "usymbol.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define STUCK_MOST	8	/* threads that are named */
#define STUCK_OWNERS	256	/* waits for objects with an owner */
#define STUCK_ENDED	6	/* USLICE_ENDED */
#define WALK_AHEAD	16	/* blocks */

/* Names in the library; a program of a few of its files does without. */
#if defined(USCHED_NAMES)
#define STUCK_NAMES	1
#else
extern __typeof__(usymbol_name) usymbol_name __attribute__((weak));
extern __typeof__(usymbol_end) usymbol_end __attribute__((weak));
extern __typeof__(usymbol_function) usymbol_function __attribute__((weak));
#define STUCK_NAMES	(usymbol_name != NULL)
#endif

/* A thread, and for what it waits. */
struct stuck_wait {
	const struct ustack *k_stack;
	struct uwait_seen    k_seen;	/* vs_kind is NULL: no record was found */
	const void          *k_owner;	/* of the object, or NULL */
	bool                 k_in_vain;	/* its wake has come to nothing */
};

struct stuck {
	const struct uproc_set *st_set;
	int                     st_nr, st_owner_nr;
	struct stuck_wait       st_first[STUCK_MOST];
	struct stuck_wait       st_owner[STUCK_OWNERS];
};

UNCHECKED bool uproc_is_thread(const struct uproc_set *set, const void *block,
			       size_t size)
{
	const struct ustack *u = block;
	size_t at, least = set->set_ops.op_thread;

	if (size < least || size > least + sizeof(struct joint) + UMEM_FINE)
		return false;
	at = (size_t)((const char *)u->u_sched - set->set_proc);
	return at < set->set_nr * set->set_ops.op_size &&
	       at % set->set_ops.op_size == 0 && u->u_f != NULL &&
	       u->u_len >= 0 && u->u_lane >= USCHED_PRIVATE &&
	       u->u_top != (char *)STUCK_ENDED;
}

/* Returns whether the top of u, if u has one, lies in a lane of its dispatcher. */
static UNCHECKED bool walk_is_in_lane(const struct ustack *u)
{
	const struct usched *s = u->u_sched;
	uintptr_t top = (uintptr_t)u->u_top & ~(uintptr_t)USCHED_NOT_READY;
	const struct usched_lane *l;

	if (top == 0)
		return true;
	if (u->u_lane < 0 || s->s_lane == NULL ||
	    u->u_lane > s->s_lane_nr + usched_private_nr(s->s_private))
		return false;
	l = &s->s_lane[u->u_lane];
	return top < (uintptr_t)l->l_bottom && top >= (uintptr_t)l->l_low;
}

struct walk_at {
	const struct uproc_set  *wk_set;
	const struct uproc_walk *wk_walk;
};

static UNCHECKED void walk_see(void *arg, const void *block, size_t size)
{
	const struct walk_at *at = arg;
	const struct uproc_walk *w = at->wk_walk;
	const struct uwait *r = block;

	__builtin_prefetch((const char *)block + WALK_AHEAD * size);
	if (uproc_is_thread(at->wk_set, block, size)) {
		if (w->wa_thread != NULL && walk_is_in_lane(block))
			w->wa_thread(w->wa_arg, block);
	} else if (w->wa_record != NULL && size >= sizeof *r) {
		size_t thread = umem_size_at(&at->wk_set->set_mem, r->w_stack);

		if (thread != 0 &&
		    uproc_is_thread(at->wk_set, r->w_stack, thread))
			w->wa_record(w->wa_arg, r, size);
	}
}

void uproc_walk(const struct uproc_set *set, const struct uproc_walk *w)
{
	struct walk_at at = { set, w };

	umem_each((struct umem *)&set->set_mem, walk_see, &at);
}

/* Returns whether a block is a thread of the set that is blocked. */
static UNCHECKED bool stuck_is_blocked(const struct uproc_set *set,
				       const void *block, size_t size)
{
	const struct ustack *u = block;

	return uproc_is_thread(set, block, size) && u->u_lane >= 0 &&
	       (uintptr_t)u->u_top > USCHED_NOT_READY;
}

/* Returns whether a block is a thread of the set that waits. */
static UNCHECKED bool stuck_is_thread(const struct uproc_set *set,
				      const void *block, size_t size)
{
	const struct uwait_ops *ops;

	if (!stuck_is_blocked(set, block, size))
		return false;
	ops = uproc_of(block)->p_waits.wb_ops;
	return ops->o_waits == NULL || ops->o_waits(block);
}

/*
 * Returns whether u, a thread that moves and is blocked, was woken, and its node
 * not posted.
 */
static UNCHECKED bool stuck_in_vain(const struct ustack *u)
{
	const struct uwakes *k = &((const struct uproc_thread *)u)->t_wakes;

	return uproc_of((const struct uproc_thread *)u)->
		p_set->set_ops.op_move.mv_has != NULL && k->w_count < 0 &&
		k->w_posted >= UWAKES_ONE &&
		!(k->w_posted & (UWAKES_POSTED | UWAKES_GONE));
}

static void stuck_thread(void *arg, const void *block, size_t size)
{
	struct stuck *k = arg;
	bool in_vain;

	if (k->st_nr == STUCK_MOST ||
	    !stuck_is_blocked(k->st_set, block, size))
		return;
	in_vain = stuck_in_vain(block);
	if (!in_vain && !stuck_is_thread(k->st_set, block, size))
		return;
	k->st_first[k->st_nr].k_stack   = block;
	k->st_first[k->st_nr].k_in_vain = in_vain;
	k->st_nr++;
}

/* Returns whether w is in a wait, and notes for what in *v. */
static bool stuck_see(const struct uwait *w, struct uwait_seen *v)
{
	*v = (struct uwait_seen) { uwait_kind(w), w->w_at.object, NULL };
	if (v->vs_kind == NULL)
		return false;
	return v->vs_kind->wk_see != NULL ? v->vs_kind->wk_see(w, v) :
		w->w_state == UWAIT_WAITS;
}

UNCHECKED bool uproc_is_record(const struct uproc_set *set, const void *block,
			       size_t size, struct uwait_seen *v)
{
	const struct uwait *w = block;
	size_t thread;

	if (size < sizeof *w || w->w_size * UWAIT_UNIT > size ||
	    w->w_size * UWAIT_UNIT <= size / 2)
		return false;
	thread = umem_size_at(&set->set_mem, w->w_stack);
	return thread != 0 && stuck_is_thread(set, w->w_stack, thread) &&
	       stuck_see(w, v);
}

/* Notes what a block says if it is a record. */
static void stuck_record(void *arg, const void *block, size_t size)
{
	const struct uwait *w = block;
	struct stuck *k = arg;
	struct uwait_seen v;
	int i;

	if (!uproc_is_record(k->st_set, block, size, &v))
		return;
	for (i = 0; i < k->st_nr; i++) {
		if (k->st_first[i].k_stack == w->w_stack)
			k->st_first[i].k_seen = v;
	}
	if (v.vs_owner != NULL && k->st_owner_nr < STUCK_OWNERS)
		k->st_owner[k->st_owner_nr++] =
			(struct stuck_wait) { w->w_stack, v, NULL, false };
}

/* Sets the owners, as far as they can be read. */
static void stuck_owners(struct stuck_wait *w, int nr)
{
	const void *owner;
	int fd[2];

	if (pipe(fd) != 0)
		return;
	for (; nr > 0; nr--, w++) {
		if (w->k_seen.vs_owner != NULL &&
		    write(fd[1], w->k_seen.vs_owner, sizeof owner) ==
		    (ssize_t)sizeof owner &&
		    read(fd[0], &owner, sizeof owner) == (ssize_t)sizeof owner)
			w->k_owner = owner;
	}
	close(fd[0]);
	close(fd[1]);
}

/* Writes "name", or nothing, into text. */
static const char *stuck_name(char *text, size_t size, const void *at)
{
	*text = 0;
	return STUCK_NAMES ? usymbol_name(text, size, at, 0) : text;
}

struct stuck_text {
	char x_text[160];
};

/* Writes which thread u is: "thread 0x7f00 f(0x0)". */
static const char *stuck_who(struct stuck_text *x, const struct ustack *u)
{
	void (*f)(void *) = ustack_f(u->u_f, u->u_arg);
	char name[80];

	(void)stuck_name(name, sizeof name, (const void *)(uintptr_t)f);
	if (*name != 0)
		(void)snprintf(x->x_text, sizeof x->x_text, "thread %p, %s()",
			       (const void *)u, name);
	else
		(void)snprintf(x->x_text, sizeof x->x_text,
			       "thread %p, function %#lx", (const void *)u,
			       (unsigned long)(uintptr_t)f);
	return x->x_text;
}

/* Writes what a thread waits for: "mutex 0x5500 (m)". */
static const char *stuck_what(struct stuck_text *x, const struct uwait_seen *v)
{
	char name[80];

	if (v->vs_kind == NULL)
		return "a wake";
	if (v->vs_object == NULL)
		return v->vs_kind->wk_name;
	(void)stuck_name(name, sizeof name, v->vs_object);
	(void)snprintf(x->x_text, sizeof x->x_text, "%s %p%s%s%s",
		       v->vs_kind->wk_name, v->vs_object, *name != 0 ? " (" : "",
		       name, *name != 0 ? ")" : "");
	return x->x_text;
}

/* Writes who holds the object, or nothing. */
static const char *stuck_holder(struct stuck *k, struct stuck_text *x,
				const void *owner)
{
	struct stuck_text who;
	size_t size = owner != NULL ?
		umem_size_at(&k->st_set->set_mem, owner) : 0;

	if (owner == NULL)
		return "";
	if (stuck_is_thread(k->st_set, owner, size))
		(void)snprintf(x->x_text, sizeof x->x_text, ", held by %s",
			       stuck_who(&who, owner));
	else if (size != 0)
		(void)snprintf(x->x_text, sizeof x->x_text, ", held by thread "
			       "%p, which has ended", owner);
	else
		return ", held by a native thread, or another scheduler's";
	return x->x_text;
}

/* Returns the wait of thread u for an object with an owner, or NULL. */
static const struct stuck_wait *stuck_next(const struct stuck *k, const void *u)
{
	int i;

	for (i = 0; i < k->st_owner_nr; i++) {
		if (k->st_owner[i].k_stack == u)
			return &k->st_owner[i];
	}
	return NULL;
}

/*
 * Returns how many waits lead from w back to its thread, if w is the first in
 * memory of these; else 0.
 */
static int stuck_cycle(const struct stuck *k, const struct stuck_wait *w)
{
	const struct stuck_wait *at = w;
	int nr;

	for (nr = 1; at != NULL && nr <= k->st_owner_nr; nr++) {
		if (at->k_owner == w->k_stack)
			return nr;
		at = stuck_next(k, at->k_owner);
		if (at != NULL && at->k_stack < w->k_stack)
			return 0;
	}
	return 0;
}

static void stuck_say_cycle(const struct stuck *k, const char *set,
			    const struct stuck_wait *w, int nr)
{
	struct stuck_text who, what, holder;

	usched_message("%sfini: a cycle of %d threads:", set, nr);
	for (; nr > 0; nr--, w = stuck_next(k, w->k_owner))
		usched_message("%sfini: %s waits for %s, which is held by %s",
			       set, stuck_who(&who, w->k_stack),
			       stuck_what(&what, &w->k_seen),
			       stuck_who(&holder, w->k_owner));
}

static void stuck_say(struct stuck *k, const char *set, long left)
{
	struct stuck_text who, what, holder;
	int i, nr;

	if (left == 1)
		usched_message("%sfini: 1 thread waits, and nothing is left that "
			       "could wake it (%shold() says that a native "
			       "thread will):", set, set);
	else
		usched_message("%sfini: %ld threads wait, and nothing is left "
			       "that could wake them (%shold() says that a "
			       "native thread will):", set, left, set);
	for (i = 0; i < k->st_nr; i++) {
		struct stuck_wait *w = &k->st_first[i];

		if (w->k_in_vain)
			usched_message("%sfini: %s was woken in vain: it waits "
				       "by the call of another scheduler, not "
				       "by %swait()", set,
				       stuck_who(&who, w->k_stack), set);
		else
			usched_message("%sfini: %s waits for %s%s", set,
				       stuck_who(&who, w->k_stack),
				       stuck_what(&what, &w->k_seen),
				       stuck_holder(k, &holder, w->k_owner));
	}
	if (i < left && i > 0)
		usched_message("%sfini: and %ld more; ulist_start() (ulist.h) "
			       "lists all", set, left - i);
	for (i = 0; i < k->st_owner_nr; i++) {
		nr = stuck_cycle(k, &k->st_owner[i]);
		if (nr > 0)
			stuck_say_cycle(k, set, &k->st_owner[i], nr);
	}
}

/* Says which threads of the set, none of which runs any more, are left. */
static NOINLINE void stuck_report(struct uproc_set *set, const char *name,
				long left)
{
	struct stuck k = { .st_set = set };

	umem_hold(&set->set_mem);
	umem_each(&set->set_mem, stuck_thread, &k);
	umem_each(&set->set_mem, stuck_record, &k);
	umem_release(&set->set_mem);
	stuck_owners(k.st_first, k.st_nr);
	stuck_owners(k.st_owner, k.st_owner_nr);
	stuck_say(&k, name, left);
	if (STUCK_NAMES)
		usymbol_end();
}

#endif /* USTUCK_H */
