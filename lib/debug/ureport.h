/* SPDX-License-Identifier: MIT */
/* ureport.h: makes and writes a list. A part of ulist.c. */

#ifndef UREPORT_H
#define UREPORT_H

/*
 * The maker of a list stops all dispatchers (THE STOP in ulist.c), collects the entries
 * that are asked for, says what each thread does, and lets them go on.
 *
 * ALIKE
 *
 * Ten thousand threads that wait for the same object in the same place say no
 * more than one of them. So blocked threads of the same function, state and
 * backtrace are a group: the first is listed, and a line counts the others. Their
 * arguments, names and times may differ. Each is unwound while all processors
 * stand still, so no more than LOOKED threads are looked at.
 *
 * RUNNING THREADS
 *
 * What a running thread does is told by the kernel (ulook.c): no signal is
 * sent, so no system call ends. The look is believed if the dispatcher RUNS
 * behind it, too. It has run the same thread all the time, as d_lock is held.
 *
 * REJECTED
 *
 * A signal to the running thread, whose handler walks the stack: it ended the
 * call that the report was to be about.
 */

#include "ucycle.h"

#define LISTED		1000		/* groups, and running threads */
#define LOOKED		20000		/* threads */
#define PATIENCE	(100 * UTIME_MS)	/* until threads give way */

/* Running threads. */

/*
 * Looks at the thread of d. Returns whether it has run it all the time, and
 * still does. Holds d_lock; the native thread that calls does not run d.
 */
static bool look_at(struct listed *d)
{
	const struct usched_lane *l = &d->d_sched->s_lane[d->d_lane];

	ulook(&d->d_look, d->d_native, l->l_low, l->l_bottom);
	d->d_sure = d->d_look.l_sure;
	return __atomic_load_n(&d->d_state, __ATOMIC_ACQUIRE) == RUNS;
}

/* The list, and the stop. */

static struct {
	unsigned long l_nr, l_shown, l_wait, l_ready, l_run, l_blocked;
	struct usched *l_first;		/* the first dispatcher of those to list */
	size_t         l_size;		/* bytes from a dispatcher to the next */
	int            l_sched_nr;	/* how many dispatchers; 0: all */
	utime_ns       l_now;
} list;

/* Returns whether the threads of d are asked for. */
static bool is_asked(const struct listed *d)
{
	return list.l_sched_nr == 0 || (size_t)((char *)d->d_sched -
		(char *)list.l_first) < list.l_sched_nr * list.l_size;
}

/* Returns whether a dispatcher that is asked for runs a thread, elsewhere. */
static bool any_runs(long self)
{
	const struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next) {
		if (d->d_native != self && is_asked(d) &&
		    __atomic_load_n(&d->d_state, __ATOMIC_ACQUIRE) == RUNS)
			return true;
	}
	return false;
}

/* Looks at d, if that still runs a thread. */
static void freeze_one(struct listed *d, long self)
{
	d->d_runs = __atomic_load_n(&d->d_state, __ATOMIC_ACQUIRE) == RUNS;
	if (d->d_native == self) {
		memset(&d->d_look, 0, sizeof d->d_look);
		d->d_sure = true;
	} else if (d->d_runs && is_asked(d))
		d->d_runs = look_at(d);
}

/* Stops all dispatchers: ulist F1, F2. Caller holds a_lock. */
static void freeze(void)
{
	utime_ns until = now(CLOCK_MONOTONIC) + PATIENCE;
	struct listed *d;
	long self = native_id();

	for (d = all.a_first; d != NULL; d = d->d_next)
		ulock_get(&d->d_lock);
	while (any_runs(self) && now(CLOCK_MONOTONIC) < until)
		nap();
	for (d = all.a_first; d != NULL; d = d->d_next)
		freeze_one(d, self);
}

/* Lets them go on: ulist F4. */
static void thaw(void)
{
	struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next)
		ulock_put(&d->d_lock);
}

/* Blocked threads. */

/* Returns whether the slice of u may be moving: see THE STOP in ulist.c. */
static bool is_moving(const struct ustack *u)
{
	const struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next) {
		if (d->d_runs && !d->d_sure && d->d_victim == u)
			return true;
	}
	return false;
}

/* Threads that do the same in the same place. */
struct group {
	const struct entry *k_first;
	enum state    k_state;
	unsigned long k_nr;
	utime_ns      k_oldest, k_newest;	/* when they have blocked */
	int           k_pcs;
	void         *k_pc[PCS];
};

static int pcs_of(const struct group *k)
{
	return k->k_pcs < PCS ? k->k_pcs : PCS;
}

static void group_make(struct group *k, const struct entry *e)
{
	const struct ustack *u = e->e_stack;

	k->k_first  = e;
	k->k_state  = state_of(e);
	k->k_nr     = 1;
	k->k_oldest = k->k_newest = e->e_since;
	k->k_pcs = is_moving(u) ? 0 : ustack_trace(u, k->k_pc, PCS);
}

static bool is_same(const struct group *k, const struct group *l)
{
	const struct entry *e = k->k_first, *f = l->k_first;

	if (k->k_state != l->k_state || k->k_pcs != l->k_pcs ||
	    ustack_f(e->e_stack->u_f, e->e_stack->u_arg) !=
	    ustack_f(f->e_stack->u_f, f->e_stack->u_arg))
		return false;
	if (k->k_state == WAITS_FOR && (e->e_kind != f->e_kind ||
			e->e_object != f->e_object ||
			(e->e_until == UNEVER) != (f->e_until == UNEVER)))
		return false;
	return pcs_of(k) <= 0 || memcmp(k->k_pc, l->k_pc,
			(size_t)pcs_of(k) * sizeof k->k_pc[0]) == 0;
}

/* Counts the thread of l, which is alike, to k. */
static void group_count(struct group *k, const struct group *l)
{
	k->k_nr++;
	if (l->k_oldest < k->k_oldest)
		k->k_oldest = l->k_oldest;
	if (l->k_newest > k->k_newest)
		k->k_newest = l->k_newest;
}

static void state_count(enum state state)
{
	list.l_nr++;
	list.l_ready   += state == READY;
	list.l_wait    += state == WAITS || state == WAITS_FOR;
	list.l_blocked += state == BLOCKED;
}

/* Says what a thread does. */
static void say_state(const struct group *k)
{
	const struct entry *e = k->k_first;

	if (k->k_state == WAITS_FOR) {
		say_object(e->e_kind, e->e_object);
		say_holder(e);
	} else
		say("%s", k->k_state == READY ? "ready" : k->k_state == WAITS ?
		    "waits: wake" : "blocked");
	say(", ");
	say_ns(list.l_now - e->e_since);
	if (k->k_state == WAITS_FOR && e->e_until != UNEVER) {
		utime_ns left = e->e_until - unow();

		say(", ");
		say_ns(left > 0 ? left : 0);
		say(" left");
	}
	say("\n");
}

static void say_group(const struct group *k)
{
	const struct ustack *u = k->k_first->e_stack;
	char name[UTHREAD_NAME];

	name_copy(name, u);
	say_thread(u, ustack_f(u->u_f, u->u_arg), ustack_arg(u->u_f, u->u_arg),
		   name);
	say(": ");
	say_state(k);
	say_frames(k->k_pc, k->k_pcs, true);
	if (k->k_nr > 1) {
		say("\tand %lu more like it, ", k->k_nr - 1);
		say_ns(list.l_now - k->k_newest);
		say(" to ");
		say_ns(list.l_now - k->k_oldest);
		say("\n");
	}
	flush();
}

static void say_running(const struct listed *d)
{
	say_thread(d->d_stack, d->d_f, d->d_arg, d->d_name);
	say(": runs");
	say_look(d);
	flush();
}

static int by_nr(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;

	return ((*x)->e_nr > (*y)->e_nr) - ((*x)->e_nr < (*y)->e_nr);
}

/* Stores the entries that are asked for, if at is not NULL; counts them. */
static size_t collect(struct entry **at)
{
	const struct stripe *t;
	struct entry *e;
	size_t nr = 0;
	unsigned i;

	for (t = stripes; t < stripes + STRIPES; t++) {
		for (i = 0; t->t_bucket != NULL && i <= t->t_mask; i++) {
			for (e = t->t_bucket[i]; e != NULL; e = e->e_next) {
				if (!is_asked(e->e_home))
					continue;
				if (at != NULL)
					at[nr] = e;
				nr++;
			}
		}
	}
	return nr;
}

static void say_natives(void)
{
	const struct native_wait *n;

	if (list.l_sched_nr != 0)
		return;
	for (n = all.a_native; n != NULL; n = n->n_next) {
		say("native thread %ld: ", n->n_native);
		say_object(n->n_kind, n->n_object);
		say(", ");
		say_ns(list.l_now - n->n_since);
		say("\n");
	}
}

static void say_end(void)
{
	long lost = __atomic_load_n(&missed, __ATOMIC_RELAXED);

	say("usched: end of list: %lu threads", list.l_nr);
#define SAY(nr, text)	do { if (nr) say(", %lu " text, nr); } while (0)
	SAY(list.l_wait, "wait");
	SAY(list.l_ready, "ready");
	SAY(list.l_blocked, "blocked");
	SAY(list.l_run, "run");
	if (list.l_nr > list.l_shown)
		say(", %lu not shown", list.l_nr - list.l_shown);
	if (lost != 0)
		say("; no memory for %ld", lost);
	say("\n");
	flush();
}

/* Says what e does, if it runs. False: it is blocked. */
static bool is_running(const struct entry *e)
{
	const struct listed *d = e->e_home;

	if (__atomic_load_n(&e->e_runs, __ATOMIC_ACQUIRE) == 0)
		return false;
	if (!d->d_runs || d->d_entry != e)
		return true;		/* it has just ended */
	list.l_nr++;
	list.l_run++;
	list.l_shown++;
	say_running(d);
	return true;
}

/* Adds e, which is blocked, to a group that is there, or new. Returns how many. */
static size_t group_add(struct group *group, size_t nr, const struct entry *e)
{
	size_t i = 0;

	group_make(&group[nr], e);
	state_count(group[nr].k_state);
	while (i < nr && !is_same(&group[i], &group[nr]))
		i++;
	if (i < nr)
		group_count(&group[i], &group[nr]);
	else if (nr < LISTED)
		nr++;
	else
		return nr;
	list.l_shown++;
	return nr;
}

/* Says what the nr threads at e do; group has room. */
static void say_entries(struct entry **e, size_t nr, struct group *group)
{
	size_t i, groups = 0;

	for (i = 0; i < nr && i < LOOKED; i++)
		if (!is_running(e[i]))
			groups = group_add(group, groups, e[i]);
	list.l_nr += nr - i;
	for (i = 0; i < groups; i++)
		say_group(&group[i]);
}

/* Lists. */

/* Writes the list. Caller holds a_lock. */
static void list_make(const char *why)
{
	struct entry **e;
	struct group *group;
	size_t nr;

	freeze();
	list.l_nr = list.l_wait = list.l_ready = list.l_run = 0;
	list.l_blocked = list.l_shown = 0;
	list.l_now = now(CLOCK_MONOTONIC);
	say("usched: list: %s\n", why);
	nr = collect(NULL);
	e  = malloc((nr + 1) * sizeof *e);
	group = malloc(((nr < LISTED ? nr : LISTED) + 1) * sizeof *group);
	if (e != NULL && group != NULL) {
		(void)collect(e);
		qsort(e, nr, sizeof *e, by_nr);
		say_entries(e, nr, group);
		say_dead(e, nr < LOOKED ? nr : LOOKED);
	} else
		say("usched: no memory for a list of %zu\n", nr);
	say_natives();
	say_end();
	free(e);
	free(group);
	thaw();
	usymbol_end();
}

void ulist_print(const char *why)
{
	if (!all.a_started)
		return;
	ulock_get(&all.a_lock);
	list.l_sched_nr = 0;
	list_make(why);
	ulock_put(&all.a_lock);
}

/*
 * Called by uproc.c when all threads of nr dispatchers wait, and none can be
 * woken. There is a dispatcher each size bytes. left counts the threads.
 */
static int stuck(struct usched *first, size_t size, int nr, long left)
{
	char why[80];

	(void)snprintf(why, sizeof why, "%ld thread%s left, and none can be "
		       "woken", left, left == 1 ? " is" : "s are");
	ulock_get(&all.a_lock);
	list.l_first    = first;
	list.l_size     = size;
	list.l_sched_nr = nr;
	list_make(why);
	ulock_put(&all.a_lock);
	return 1;
}

#endif /* UREPORT_H */
