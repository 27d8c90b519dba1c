/* SPDX-License-Identifier: MIT */
/* ulist.c: lists which threads wait, where, and for what; and long runs. */

/*
 * OVERVIEW
 *
 * A set of processors knows how many threads it has, but not which: a blocked
 * thread is only where its waker has put it. So this module keeps a table of
 * all threads that have begun. It puts its own s_next() in front of that of
 * each dispatcher, and so sees each thread that is about to run, and whether
 * the thread before it has ended.
 *
 *	s_next() of ulist.c			table
 *	  leave: the thread that ran has	+--------------------------+
 *	         blocked, or has ended  -----> | thread, function, number |
 *	  s_next() of the scheduler		| home: dispatcher that    |
 *	  enter: this thread will run   -----> |   has run it last        |
 *	                                        | kind, object, deadline   |
 *	uwait.c, at each wait by a record ----> |   of its wait            |
 *	                                        +--------------------------+
 *
 * PARTS
 *
 * This file sees what threads do: its own s_next(), and each wait. It starts, and
 * obeys USCHED_LIST. It includes its parts, whose names are static. Each includes the
 * part below:
 *
 *	ulisten.h	signals, long runs
 *	ureport.h	makes and writes a list
 *	ucycle.h	threads that wait for each other
 *	ustate.h	what a thread does, in words
 *	uentry.h	the table
 *	ulist_inside.h	entries, dispatchers, text
 *
 * THE STOP
 *
 * A dispatcher is INSIDE from leave to enter, and else it RUNS a thread. Enter
 * needs d_lock. So the maker of a list takes the d_lock of all dispatchers, and
 * waits until they are INSIDE:
 *
 *	F1 take d_lock of each		E1 state = INSIDE (release)
 *	F2 look at each state (acquire)	E2 s_next() of the scheduler, sleep
 *	F3 list what does not run	E3 take d_lock
 *	F4 put all d_lock		E4 state = RUNS, put d_lock
 *
 * A dispatcher that is INSIDE at F2 stays there until F4. All its threads are
 * blocked, on lanes or in buffers that nothing touches. A dispatcher that still
 * RUNS after PATIENCE is not waited for. Its thread may touch
 *
 *   - itself: the list does not look at it, only at d_entry, which E3 protects;
 *   - the thread whose place on the lane it takes (d_victim), as long as it is
 *     being copied. A running thread that is seen in its own code has taken its
 *     place already. If it is not seen there, the list does not look at the
 *     victim;
 *   - the wake count of others, so "waits" or "is ready" is a hint.
 *
 * If it gives way later, it stops at E1 or E3, and is still listed as running.
 *
 * Threads move in ws, and their lanes with them, while thieves are INSIDE. But
 * slices stay where they are, and all dispatchers of a set have the same lanes.
 *
 * A thread that has ended is freed before leave can know. Until then its
 * dispatcher RUNS it. So e_runs keeps the list and all other dispatchers away
 * from its entry, also if a new thread has the same address by now.
 *
 * The end is seen by l_bound of the lane, as in ustats.c, which says why.
 *
 * THE CHILD OF A FORK
 *
 * No dispatcher of the parent runs there, but for one: a plain dispatcher whose
 * thread has forked goes on with its next switch. Until then each is INSIDE, and
 * its threads are forgotten. So no list waits for them, and no report names them.
 * The memory of the parent's processors may be gone.
 *
 * INVARIANTS
 *
 * L4. Locks are taken in this order: all.a_lock, d_lock in the order of the
 *     list, a stripe.
 *
 * The others are where they are kept: uentry L1 to L3.
 *
 * REJECTED
 *
 * Words behind each thread, linked in a list, as UPROC_JOIN has them: each
 * place in uproc.c and ws.c that makes, starts or frees a thread would look
 * whether it is asked for; and plain dispatchers would have no list.
 *
 * A search through memory, as in usched-gdb.py: it needs nothing before, but a
 * buffer can hold words that look like a thread, and between two steps of a
 * processor that runs nothing is where it should be.
 *
 * Lanes and records alone: threads in buffers that wait by rr_wait() are in
 * neither.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() */
#endif
#include "ulist.h"
#include "ulisten.h"

UPREEMPT_NEVER;

#define RUN_MIN		1000000L	/* ns */

static struct ustack *next(struct usched *s, struct usched_link *k);

/* Returns what lists s, or NULL. */
static struct listed *listed_of(const struct usched *s)
{
	return uchain_of(s, next);
}

/* Dispatchers. */

/* Returns whether the thread that d has run last has ended. */
static bool has_ended(const struct listed *d)
{
	return d->d_sched->s_lane[d->d_lane].l_bound != d->d_bound;
}

/* Notes that the thread of d has blocked, or has ended. Owner only. */
static void leave(struct listed *d)
{
	struct entry *e = d->d_entry;
	bool ended = e != NULL && has_ended(d);

	if (e != NULL && !ended) {
		e->e_since = now(CLOCK_MONOTONIC_COARSE);
		__atomic_store_n(&e->e_runs, 0, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&d->d_state, INSIDE, __ATOMIC_RELEASE);	/* E1 */
	if (!ended)
		return;
	ulock_get(&d->d_lock);
	d->d_entry = NULL;
	entry_remove(e);
	ulock_put(&d->d_lock);
}

/* Returns the lane in which u will run, and whose l_bound counts it then. */
static int lane_of(struct usched *s, struct ustack *u, bool is_new)
{
	if (is_new)
		uslice_lane(s, u);
	return is_new && u->u_lane == 0 ? usched_lane_next(s) : u->u_lane;
}

static struct entry *entry_run(struct listed *d, struct ustack *u)
{
	struct stripe *t = stripe_of(u);
	struct entry *e;

	ulock_get(&t->t_lock);
	e = entry_find(t, u);
	if (e == NULL)
		e = entry_add(t, u);
	if (e != NULL) {
		e->e_home = d;
		__atomic_store_n(&e->e_runs, 1, __ATOMIC_RELAXED);
	}
	ulock_put(&t->t_lock);
	return e;
}

/* Notes that d will run u. Owner only. */
static void enter(struct listed *d, struct ustack *u)
{
	struct usched *s = d->d_sched;
	bool is_new = uslice_is_new(u);

	ulock_get(&d->d_lock);						/* E3 */
	d->d_entry = entry_run(d, u);
	d->d_stack = u;
	d->d_f     = ustack_f(u->u_f, u->u_arg);
	d->d_arg   = ustack_arg(u->u_f, u->u_arg);
	name_copy(d->d_name, u);
	d->d_lane   = lane_of(s, u, is_new);
	d->d_bound  = s->s_lane[d->d_lane].l_bound + is_new;
	d->d_victim = s->s_lane[d->d_lane].l_owner;
	__atomic_store_n(&d->d_switches, d->d_switches + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&d->d_state, RUNS, __ATOMIC_RELEASE);		/* E4 */
	ulock_put(&d->d_lock);
}

/* Returns whether usched.c will run u, and not end in usched_fail(). */
static bool is_valid(const struct usched *s, const struct ustack *u)
{
	return u->u_sched == s && u->u_top != USLICE_ENDED &&
	       u->u_lane >= (uslice_is_new(u) ? USCHED_PRIVATE : 0) &&
	       u->u_lane <= s->s_lane_nr + usched_private_nr(s->s_private);
}

static struct ustack *next(struct usched *s, struct usched_link *k)
{
	struct listed *d = (struct listed *)k;
	struct ustack *u;

	leave(d);
	u = uchain_next(s, k);						/* E2 */
	if (u != NULL && is_valid(s, u))
		enter(d, u);
	else
		d->d_entry = NULL;
	return u;
}

/* Called as a dispatcher begins to run. */
static void begin(struct usched *s)
{
	struct listed *d;

	if (s->s_steps != 0)
		return;
	if (all.a_listens != 0 && all.a_listens != getpid())
		(void)listen();		/* in a child of fork() */
	if (listed_of(s) != NULL)
		return;			/* USCHED_PAUSES */
	d = calloc(1, sizeof *d);
	if (d == NULL) {
		__atomic_fetch_add(&missed, 1, __ATOMIC_RELAXED);
		return;
	}
	d->d_sched  = s;
	d->d_native = native_id();
	d->d_state  = INSIDE;
	uchain_add(s, &d->d_link, next);
	ulock_get(&all.a_lock);
	(void)pthread_sigmask(SIG_BLOCK, &all.a_signals, &d->d_mask);
	d->d_next = all.a_first;
	__atomic_store_n(&all.a_first, d, __ATOMIC_RELEASE);
	ulock_put(&all.a_lock);
}

/* Called before it stops, or after a longjmp() has left it. */
static void end(struct usched *s)
{
	struct listed *d = listed_of(s);
	struct listed **at;

	if (d == NULL || s->s_steps != 0)
		return;
	ulock_get(&all.a_lock);
	for (at = &all.a_first; *at != d; at = &(*at)->d_next)
		;
	__atomic_store_n(at, d->d_next, __ATOMIC_RELEASE);
	uchain_remove(s, &d->d_link);
	entries_drop(d);
	signals_restore(&d->d_mask);
	ulock_put(&all.a_lock);
	free(d);
}

/* Called before ustack_fini() takes u, which is blocked, from its lane. */
static void gone(struct ustack *u)
{
	struct listed *d = listed_of(u->u_sched);
	struct stripe *t = stripe_of(u);
	struct entry *e;

	if (d == NULL)
		return;
	ulock_get(&all.a_lock);
	ulock_get(&t->t_lock);
	e = entry_find(t, u);
	ulock_put(&t->t_lock);
	if (e != NULL)
		entry_remove(e);
	if (u->u_lane == d->d_lane)
		d->d_bound--;
	ulock_put(&all.a_lock);
}

static struct usched_hook hook = {
	.h_begin = begin, .h_end = end, .h_gone = gone
};

/* Waits by a record. Called by uwait.c. */

/* Kind and object of the record that this native thread has made last. */
static __thread struct {
	const struct uwait_kind *m_kind;
	const void *m_object;
} made;

/* Returns the entry of the thread that calls; NULL: it is not known. */
static NOINLINE struct entry *entry_here(const struct ustack *u)
{
	struct listed *d = listed_of(u->u_sched);

	return d != NULL && d->d_stack == u ? d->d_entry : NULL;
}

static NOINLINE void wait_made(const struct uwait *w)
{
	struct entry *e;

	if (w->w_stack == NULL) {
		made.m_kind   = uwait_kind(w);
		made.m_object = w->w_at.object;
	} else if ((e = entry_here(w->w_stack)) != NULL) {
		e->e_kind   = uwait_kind(w);
		e->e_object = w->w_at.object;
	}
}

/* Returns where the object of w says who holds it, or NULL. */
static const void *const *owner_of(const struct uwait *w)
{
	const struct uwait_kind *kind = uwait_kind(w);
	struct uwait_seen seen = { kind, w->w_at.object, NULL };

	return kind->wk_see != NULL && w->w_at.object != NULL &&
		kind->wk_see(w, &seen) ? seen.vs_owner : NULL;
}

static void wait_begin(const struct uwait *w, utime_ns until)
{
	struct entry *e = entry_here(w->w_stack);

	if (e != NULL) {
		e->e_owner = owner_of(w);
		e->e_until = until;
		e->e_waits = true;
	}
}

static void wait_end(const struct uwait *w)
{
	struct entry *e = entry_here(w->w_stack);

	if (e != NULL)
		e->e_waits = false;
}

/*
 * Waits for a native thread: an entry of the list is on its stack meanwhile.
 * Native stacks are never copied.
 */
static NOINLINE int wait_native(struct uwait *w, utime_ns until,
				int (*wait)(struct uwait *w, utime_ns until))
{
	struct native_wait n = {
		.n_native = native_id(), .n_kind = made.m_kind,
		.n_object = made.m_object, .n_since = now(CLOCK_MONOTONIC_COARSE)
	};
	int rc;

	ulock_get(&all.a_lock);
	n.n_next = all.a_native;
	n.n_prev = &all.a_native;
	if (n.n_next != NULL)
		n.n_next->n_prev = &n.n_next;
	all.a_native = &n;
	ulock_put(&all.a_lock);
	rc = wait(w, until);
	ulock_get(&all.a_lock);
	*n.n_prev = n.n_next;
	if (n.n_next != NULL)
		n.n_next->n_prev = n.n_prev;
	ulock_put(&all.a_lock);
	return rc;
}

static struct uwait_watch watch = {
	.v_made = wait_made, .v_begin = wait_begin, .v_end = wait_end,
	.v_native = wait_native, .v_stuck = stuck
};

/* The child of fork(). */

/*
 * Called in the child of fork(): other native threads held locks, perhaps. A
 * list is written under a_lock, so no fork waits for that.
 */
static void in_child(void)
{
	struct listed *d;

	if (!all.a_started)
		return;
	memset(stripes, 0, sizeof stripes);	/* what they held is lost */
	memset(&all.a_lock, 0, sizeof all.a_lock);
	all.a_native = NULL;
	out.o_nob    = 0;
	for (d = all.a_first; d != NULL; d = d->d_next) {
		memset(&d->d_lock, 0, sizeof d->d_lock);
		d->d_entry  = NULL;
		d->d_state  = INSIDE;
		d->d_native = native_id();
	}
	(void)pthread_sigmask(SIG_UNBLOCK, &all.a_signals, NULL);
}

static struct ufork at_fork = { .f_rank = UFORK_WAITS, .f_child = in_child };
UFORK(at_fork)

/* Starting. */

int ulist_start(void)
{
	int rc;

	if (all.a_started)
		return 0;
	rc = ufork_watch();
	if (rc != 0)
		return rc;
	usched_hook(&hook);
	uwait_watch_add(&watch);
	all.a_started = true;
	return 0;
}

static void handler(int signo)
{
	int saved = errno;

	(void)signo;
	ask(LIST);
	errno = saved;
}

/* Blocks a signal here, and lets the native thread that listens unblock it. */
static void signal_take(int signo)
{
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, signo);
	(void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
	ulock_get(&all.a_lock);
	(void)sigaddset(&all.a_signals, signo);
	ulock_put(&all.a_lock);
	ask(CHANGED);
}

int ulist_on_signal(int signo)
{
	struct sigaction action = {
		.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK
	};
	struct sigaction before;
	int rc;

	(void)sigemptyset(&action.sa_mask);
	if (sigaction(signo, &action, &before) != 0)
		return -errno;
	rc = ulist_start();
	if (rc == 0)
		rc = listen();
	if (rc != 0) {
		(void)sigaction(signo, &before, NULL);
		return rc;
	}
	signal_take(signo);
	return 0;
}

int ulist_on_run(long ns)
{
	int rc = ns >= RUN_MIN ? ulist_start() : -EINVAL;

	if (rc == 0)
		rc = listen();
	if (rc != 0)
		return rc;
	__atomic_store_n(&all.a_run, ns, __ATOMIC_RELAXED);
	ask(CHANGED);
	return 0;
}

static struct usched_env env_list = {
	.e_name  = "USCHED_LIST", .e_list = 1,
	.e_known = "0, 1, stuck, signal, signal=1-64, run=1-86400000"
};

/* Obeys a word: its number in env_list. 0 or -errno. */
static int obey(int word, long nr)
{
	enum { NO, YES, STUCK, SIGNAL, SIGNAL_NR, RUN };

	switch (word) {
	case NO:	return 0;
	case SIGNAL:	return ulist_on_signal(SIGQUIT);
	case SIGNAL_NR:	return ulist_on_signal((int)nr);
	case RUN:	return ulist_on_run(nr * UTIME_MS);
	default:	return ulist_start();
	}
}

/* Obeys USCHED_LIST. */
static __attribute__((constructor)) void from_environment(void)
{
	const char *words = usched_env_add(&env_list), *at = words;
	unsigned long long nr = 0;
	int word, rc;

	while ((word = usched_env_word(&env_list, &at, &nr)) >= 0) {
		rc = obey(word, (long)nr);
		if (rc != 0)
			usched_message("list: USCHED_LIST=%s: %s", words,
				       strerror(-rc));
	}
}
