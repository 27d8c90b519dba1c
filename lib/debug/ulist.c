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
 * ALIKE
 *
 * Ten thousand threads that wait for the same object in the same place say no
 * more than one of them. So blocked threads of the same function, state and
 * backtrace are a group: the first is listed, and a line counts the others. Their
 * arguments, names and times may differ. Each is unwound while all processors
 * stand still, so no more than LOOKED threads are looked at.
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
 * RUNNING THREADS
 *
 * What a running thread does is told by the kernel (ulook.c): no signal is
 * sent, so no system call ends. The look is believed if the dispatcher RUNS
 * behind it, too. It has run the same thread all the time, as d_lock is held.
 *
 * LONG RUNS
 *
 * A native thread looks at d_switches of each dispatcher, which enter() changes.
 *
 * THE CHILD OF A FORK
 *
 * No dispatcher of the parent runs there, but for one: a plain dispatcher whose
 * thread has forked goes on with its next switch. Until then each is INSIDE, and
 * its threads are forgotten. So no list waits for them, and no report names them.
 * The memory of the parent's processors may be gone.
 *
 * THE PROGRAM'S SIGNAL
 *
 * The kernel gives a signal to any native thread that does not block it, and
 * ends a system call there. So this module blocks the signal in the caller of
 * ulist_on_signal(), from which native threads made later inherit that, and in
 * each native thread while it runs a dispatcher. The native thread that listens
 * does not block it. The child of fork() unblocks it, for the program that it
 * may execute.
 *
 * INVARIANTS
 *
 * L1. An entry is in the table exactly as long as its thread can be listed. It
 *     is added and removed under d_lock of the dispatcher that runs the thread,
 *     and under the lock of its stripe.
 * L2. e_runs is set from enter to leave. Only then e_stack may be gone.
 * L3. A thread of an entry whose e_runs is not set is blocked, and exists.
 *     ustack_fini() takes its entry out first (gone()).
 * L4. Locks are taken in this order: all.a_lock, d_lock in the order of the
 *     list, a stripe.
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
 * A signal to the running thread, whose handler walks the stack: it ended the
 * call that the report was to be about.
 *
 * The program's signal by sigwait() alone, without a handler: where a native
 * thread of the program leaves it unblocked, SIGQUIT would end the process.
 *
 * Lanes and records alone: threads in buffers that wait by rr_wait() are in
 * neither.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* syscall() */
#endif
#include "ulist.h"
#include "lock.h"
#include "uchain.h"
#include "ufork.h"
#include "ulook.h"
#include "uself.h"
#include "uslice.h"
#include "usymbol.h"
#include "utrace.h"
#include "uwait.h"
#include "compiler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define STRIPES		64
#define BUCKETS		16		/* of a stripe, at first */
#define PCS		ULOOK_PCS	/* return addresses of a thread */
#define LISTED		1000		/* groups, and running threads */
#define LOOKED		20000		/* threads */
#define PATIENCE	(100 * UTIME_MS)	/* until threads give way */
#define RUN_MIN		1000000L	/* ns */
#define LOOKS		4		/* in a run that is reported */

struct entry {
	struct entry  *e_next;		/* in its bucket */
	struct ustack *e_stack;
	struct listed *e_home;		/* has run it last */
	int            e_runs;		/* (atomic) */
	const struct uwait_kind *e_kind; /* of the record */
	bool           e_waits;		/* by the record */
	const void    *e_object;
	const void *const *e_owner;	/* in it: its holder; or NULL */
	utime_ns       e_until;
	utime_ns       e_since;		/* it has blocked */
	unsigned long  e_nr;		/* in the order of beginning */
};

/* The entries of threads with certain addresses. */
struct stripe {
	struct ulock   t_lock;
	unsigned       t_nr, t_mask;
	struct entry **t_bucket;
};

enum { INSIDE, RUNS };

/* A dispatcher that runs. */
struct listed {
	struct usched_link d_link;	/* first */
	struct listed   *d_next;
	struct usched   *d_sched;
	sigset_t         d_mask;	/* of the native thread, before */
	long             d_native;	/* as gettid() names it */
	int              d_state;	/* (atomic) */
	struct ulock     d_lock;	/* protects what follows, for others */
	unsigned         d_switches;	/* (atomic) */
	struct entry    *d_entry;	/* that runs; NULL: it is not known */
	struct ustack   *d_stack;
	void           (*d_f)(void *);
	void            *d_arg;
	char             d_name[UTHREAD_NAME];
	struct ustack   *d_victim;
	int              d_lane, d_bound;	/* as in ustats.c */
	/* For the maker of a list. */
	bool             d_runs;
	bool             d_sure;	/* it runs its own code */
	struct ulook     d_look;
	/* For the native thread that looks for long runs. */
	unsigned         d_seen;
	utime_ns         d_seen_at;
	bool             d_reported;
};

/* A native thread that waits. It lies on the stack of that. */
struct native_wait {
	struct native_wait *n_next, **n_prev;
	long        n_native;
	const struct uwait_kind *n_kind;
	const void *n_object;
	utime_ns    n_since;
};

static struct stripe stripes[STRIPES];
static unsigned long begun;		/* threads (atomic) */
static long missed;			/* no memory for an entry (atomic) */

static struct {
	struct ulock         a_lock;
	struct listed       *a_first;	/* (atomic, for a child of fork()) */
	struct native_wait  *a_native;
	bool                 a_started;
	/* For the native thread that listens. */
	pid_t                a_listens;	/* in this process, or 0 */
	sigset_t             a_signals;	/* that it listens to */
	int                  a_asked;	/* by a signal (atomic) */
	long                 a_run;	/* ns, or 0 (atomic) */
} all;

static struct ustack *next(struct usched *s, struct usched_link *k);

/* Returns what lists s, or NULL. */
static struct listed *listed_of(const struct usched *s)
{
	return uchain_of(s, next);
}

/* Time and text. */

#if !defined(CLOCK_MONOTONIC_COARSE)
#define CLOCK_MONOTONIC_COARSE	CLOCK_MONOTONIC
#endif

/* Returns the time by this clock; not that of uwait.h, which may be virtual. */
static utime_ns now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

static void nap(void)
{
	const struct timespec t = { 0, 1000000 };

	(void)nanosleep(&t, NULL);
}

static long native_id(void)
{
#if defined(__linux__)
	return syscall(SYS_gettid);
#else
	return (long)(uintptr_t)pthread_self();
#endif
}

/* What is to be written, by one native thread at a time (a_lock). */
static struct {
	char   o_text[4096];
	size_t o_nob;
} out;

static void flush(void)
{
	size_t at = 0;
	ssize_t nob;

	while (at < out.o_nob) {
		nob = write(STDERR_FILENO, out.o_text + at, out.o_nob - at);
		if (nob <= 0 && errno != EINTR)
			break;
		at += nob > 0 ? nob : 0;
	}
	out.o_nob = 0;
}

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
	size_t left = sizeof out.o_text - out.o_nob;
	va_list args;
	int nob;

	if (left < 1024) {
		flush();
		left = sizeof out.o_text;
	}
	va_start(args, format);
	nob = vsnprintf(out.o_text + out.o_nob, left, format, args);
	va_end(args);
	out.o_nob += nob < 0 ? 0 : (size_t)nob < left ? (size_t)nob : left - 1;
}

/* The table. */

static unsigned hash(const struct ustack *u)
{
	return (unsigned)((uint64_t)(uintptr_t)u * 0x9e3779b97f4a7c15u >> 32);
}

static struct stripe *stripe_of(const struct ustack *u)
{
	return &stripes[hash(u) % STRIPES];
}

static struct entry **bucket(const struct stripe *t, const struct ustack *u)
{
	return &t->t_bucket[hash(u) / STRIPES & t->t_mask];
}

/* Doubles the buckets of t, if there is memory. Caller holds t_lock. */
static void stripe_grow(struct stripe *t)
{
	unsigned mask = t->t_bucket != NULL ? t->t_mask * 2 + 1 : BUCKETS - 1;
	struct entry **old = t->t_bucket, **at;
	unsigned i, nr = t->t_mask + 1;
	struct entry *e;

	at = calloc(mask + (size_t)1, sizeof *at);
	if (at == NULL)
		return;
	t->t_bucket = at;
	t->t_mask   = mask;
	for (i = 0; old != NULL && i < nr; i++) {
		while ((e = old[i]) != NULL) {
			old[i] = e->e_next;
			at = bucket(t, e->e_stack);
			e->e_next = *at;
			*at = e;
		}
	}
	free(old);
}

/* Returns the entry of u, which is blocked or new (L2). NULL: none. */
static struct entry *entry_find(const struct stripe *t, const struct ustack *u)
{
	struct entry *e = t->t_bucket != NULL ? *bucket(t, u) : NULL;

	while (e != NULL && (e->e_stack != u ||
			     __atomic_load_n(&e->e_runs, __ATOMIC_ACQUIRE)))
		e = e->e_next;
	return e;
}

/* Adds an entry for u. NULL: no memory. Caller holds t_lock. */
static struct entry *entry_add(struct stripe *t, struct ustack *u)
{
	struct entry *e = calloc(1, sizeof *e);

	if (t->t_bucket == NULL || t->t_nr > t->t_mask)
		stripe_grow(t);
	if (e == NULL || t->t_bucket == NULL) {
		free(e);
		__atomic_fetch_add(&missed, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	e->e_stack = u;
	e->e_nr    = __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	e->e_next  = *bucket(t, u);
	*bucket(t, u) = e;
	t->t_nr++;
	return e;
}

static void entry_remove(struct entry *e)
{
	struct stripe *t = stripe_of(e->e_stack);
	struct entry **at;

	ulock_get(&t->t_lock);
	for (at = bucket(t, e->e_stack); *at != e; at = &(*at)->e_next)
		;
	*at = e->e_next;
	t->t_nr--;
	ulock_put(&t->t_lock);
	free(e);
}

/* Forgets the threads that d has run last. */
static void entries_drop(const struct listed *d)
{
	struct stripe *t;
	struct entry **at, *e;
	unsigned i;

	for (t = stripes; t < stripes + STRIPES; t++) {
		ulock_get(&t->t_lock);
		for (i = 0; t->t_bucket != NULL && i <= t->t_mask; i++) {
			for (at = &t->t_bucket[i]; (e = *at) != NULL; ) {
				if (e->e_home != d) {
					at = &e->e_next;
					continue;
				}
				*at = e->e_next;
				t->t_nr--;
				free(e);
			}
		}
		ulock_put(&t->t_lock);
	}
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

/* Copies the name of u, which is blocked or new. */
static void name_copy(char name[UTHREAD_NAME], const struct ustack *u)
{
	const struct uself_block *b = uself_of(u);

	if (b != NULL)
		memcpy(name, b->b_name, UTHREAD_NAME);
	else
		*name = 0;
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

static int listen(void);

/* Called as a dispatcher begins to run. */
static void begin(struct usched *s)
{
	struct listed *d;

	if (s->s_steps != 0)
		return;
	if (all.a_listens != 0 && all.a_listens != getpid())
		(void)listen();		/* in a child of fork() */
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

/* Unblocks the signals that are listened to, but those in before; has a_lock */
static void signals_restore(const sigset_t *before)
{
	sigset_t now;
	int i;

	(void)pthread_sigmask(SIG_BLOCK, NULL, &now);
	for (i = 1; i < NSIG; i++) {
		if (sigismember(&all.a_signals, i) == 1 &&
		    sigismember(before, i) == 0)
			(void)sigdelset(&now, i);
	}
	(void)pthread_sigmask(SIG_SETMASK, &now, NULL);
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

static int stuck(struct usched *first, size_t size, int nr, long left);

static struct uwait_watch watch = {
	.v_made = wait_made, .v_begin = wait_begin, .v_end = wait_end,
	.v_native = wait_native, .v_stuck = stuck
};

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

/* The list. */

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

/* Stops all dispatchers: F1, F2. Caller holds a_lock. */
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

/* Lets them go on: F4. */
static void thaw(void)
{
	struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next)
		ulock_put(&d->d_lock);
}

static void say_ns(utime_ns ns)
{
	if (ns < 10 * UTIME_S)
		say("%ld ms", (long)(ns / UTIME_MS));
	else
		say("%ld s", (long)(ns / UTIME_S));
}

/* Returns an address as a number: %p is written in more than one way. */
static unsigned long at(const void *p)
{
	return (unsigned long)(uintptr_t)p;
}

static void say_thread(const void *u, void (*f)(void *), const void *arg,
		       const char *name)
{
	char text[128];

	(void)usymbol_name(text, sizeof text, (const void *)f, 0);
	if (*text != 0)
		say("thread %#lx %s(0x%lx)", at(u), text, at(arg));
	else
		say("thread %#lx %#lx(0x%lx)", at(u), at((void *)f), at(arg));
	if (*name != 0)
		say(" \"%.*s\"", UTHREAD_NAME, name);
}

static void say_object(const struct uwait_kind *kind, const void *object)
{
	char text[128];

	say("waits: %s", kind->wk_name);
	if (kind->wk_number && (intptr_t)object >= 0)
		say(" %ld", (long)(intptr_t)object);
	if (kind->wk_number || object == NULL)
		return;
	say(" %#lx", at(object));
	if (*usymbol_name(text, sizeof text, object, 0) != 0)
		say(" (%s)", text);
}

/* called: the first address, too, is a return address. */
static void say_frames(void *const *pc, int nr, bool called)
{
	char text[192];
	int i;

	for (i = 0; i < nr && i < PCS; i++)
		say("\t#%d %#lx %s\n", i, at(pc[i]), usymbol_name(text,
				sizeof text, (char *)pc[i] - (called || i > 0), 1));
	if (nr > PCS)
		say("\t... and %d more\n", nr - PCS);
	else if (nr == 0)
		say("\t(no backtrace)\n");
	else if (nr < 0)
		say("\t(no backtrace: %s)\n", strerror(-nr));
}

/* What a blocked thread does. */
enum state { READY, WAITS, WAITS_FOR, BLOCKED };

static enum state state_of(const struct entry *e)
{
	const struct uwait_base *b = e->e_stack->u_sched->s_waits;
	bool known = b != NULL && b->wb_ops->o_waits != NULL;

	if (known && !b->wb_ops->o_waits(e->e_stack))
		return READY;
	return e->e_waits ? WAITS_FOR : known ? WAITS : BLOCKED;
}

/* Returns whether the slice of u may be moving: see THE STOP. */
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

/* Returns the thread that holds that for which e waits. NULL: it is not known. */
static const void *holder_of(const struct entry *e)
{
	const void *holder = NULL;

	return e->e_owner != NULL && ulook_copy(&holder, e->e_owner,
			sizeof holder) == sizeof holder ? holder : NULL;
}

static void say_holder(const struct entry *e)
{
	const void *holder = holder_of(e);

	if (holder != NULL)
		say(", held by %#lx", at(holder));
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

/* Ends the line of a running thread: where it is, and its frames. */
static void say_look(const struct listed *d)
{
	char text[ULOOK_TEXT];

	(void)ulook_says(&d->d_look, text);
	say("%s%s\n", *text != 0 ? ", " : "", text);
	say_frames(d->d_look.l_pc, d->d_look.l_pc_nr, false);
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

/* Dead locks. */

/* A thread that waits for what another holds. */
struct edge {
	const struct entry *g_entry;
	const void *g_holder;
	size_t      g_walk;	/* that has come here; 0: none */
};

static int by_stack(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;
	uintptr_t u = (uintptr_t)x->g_entry->e_stack;
	uintptr_t v = (uintptr_t)y->g_entry->e_stack;

	return (u > v) - (u < v);
}

/*
 * Stores the edges of the nr threads at e, in the order of their addresses. A wait
 * with a deadline ends, so it is none.
 */
static size_t edges_make(struct edge *g, struct entry *const *e, size_t nr)
{
	size_t i, edges = 0;

	for (i = 0; i < nr; i++) {
		if (__atomic_load_n(&e[i]->e_runs, __ATOMIC_ACQUIRE) ||
		    state_of(e[i]) != WAITS_FOR || e[i]->e_until != UNEVER)
			continue;
		g[edges].g_entry  = e[i];
		g[edges].g_holder = holder_of(e[i]);
		g[edges].g_walk   = 0;
		edges += g[edges].g_holder != NULL;
	}
	qsort(g, edges, sizeof *g, by_stack);
	return edges;
}

/* Returns the edge of the holder of g, or NULL. */
static struct edge *edge_after(struct edge *first, size_t nr,
			       const struct edge *g)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t i = low + (high - low) / 2;
		const void *u = first[i].g_entry->e_stack;

		if (u == g->g_holder)
			return &first[i];
		if ((uintptr_t)u < (uintptr_t)g->g_holder)
			low = i + 1;
		else
			high = i;
	}
	return NULL;
}

/* Says the cycle that begins and ends at g. */
static void say_cycle(struct edge *first, size_t nr, struct edge *g)
{
	const struct edge *end = g;
	unsigned long threads = 0;

	do {
		threads++;
		g = edge_after(first, nr, g);
	} while (g != end);
	say("usched: dead lock: %lu threads wait for each other\n", threads);
	do {
		const struct entry *e = g->g_entry;

		say("\t%#lx waits: %s %#lx, held by %#lx\n", at(e->e_stack),
		    e->e_kind->wk_name, at(e->e_object), at(g->g_holder));
		g = edge_after(first, nr, g);
	} while (g != end);
}

/* A walk goes from holder to holder, and ends where one has been before. */
static void say_dead(struct entry *const *e, size_t nr)
{
	struct edge *g = malloc((nr + 1) * sizeof *g), *at;
	size_t i, edges = g != NULL ? edges_make(g, e, nr) : 0;

	for (i = 0; i < edges; i++) {
		for (at = &g[i]; at != NULL && at->g_walk == 0;
		     at = edge_after(g, edges, at))
			at->g_walk = i + 1;
		if (at != NULL && at->g_walk == i + 1)
			say_cycle(g, edges, at);
	}
	free(g);
}

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

/* Long runs. */

/* Reports the thread of d, which has run since d_seen_at. Holds d_lock. */
static void report(struct listed *d, utime_ns time)
{
	if (!look_at(d))
		return;
	say("usched: run: ");
	say_thread(d->d_stack, d->d_f, d->d_arg, d->d_name);
	say(" has not given way for ");
	say_ns(time - d->d_seen_at);
	say_look(d);
	flush();
	usymbol_end();
	d->d_reported = true;
}

/* Looks at all dispatchers. Caller holds a_lock. */
static void look(long ns)
{
	utime_ns time = now(CLOCK_MONOTONIC);
	struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next) {
		ulock_get(&d->d_lock);
		if (__atomic_load_n(&d->d_state, __ATOMIC_ACQUIRE) != RUNS ||
		    d->d_switches != d->d_seen) {
			d->d_seen    = d->d_switches;
			d->d_seen_at = time;
			d->d_reported = false;
		} else if (!d->d_reported && time - d->d_seen_at >= ns)
			report(d, time);
		ulock_put(&d->d_lock);
	}
}

/* The native thread that listens to signals, and looks for long runs. */

enum { LIST = 1, CHANGED = 2 };			/* a_asked */

/* A signal handler may call this. */
static void ask(int what)
{
	__atomic_fetch_or(&all.a_asked, what, __ATOMIC_RELEASE);
	upark_futex_wake(&all.a_asked);
}

static void signals_unblock(void)
{
	ulock_get(&all.a_lock);
	(void)pthread_sigmask(SIG_UNBLOCK, &all.a_signals, NULL);
	ulock_put(&all.a_lock);
}

static void *listener(void *arg)
{
	long run;

	for (;;) {
		signals_unblock();
		run = __atomic_load_n(&all.a_run, __ATOMIC_RELAXED);
		if (run != 0)
			upark_futex_wait_for(&all.a_asked, 0, run / LOOKS);
		else
			upark_futex_wait(&all.a_asked, 0);
		if (__atomic_exchange_n(&all.a_asked, 0, __ATOMIC_ACQ_REL) & LIST)
			ulist_print("asked by a signal");
		if (run == 0)
			continue;
		ulock_get(&all.a_lock);
		look(run);
		ulock_put(&all.a_lock);
	}
	return arg;
}

/* Makes that native thread, if this process has none. 0 or -errno. */
static int listen(void)
{
	sigset_t full, old;
	pthread_t native;
	int rc;

	if (all.a_listens == getpid())
		return 0;
	(void)sigfillset(&full);
	(void)pthread_sigmask(SIG_SETMASK, &full, &old);
	rc = pthread_create(&native, NULL, listener, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return -rc;
	(void)pthread_detach(native);
	all.a_listens = getpid();
	return 0;
}

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
