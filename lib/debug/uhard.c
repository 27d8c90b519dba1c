/* SPDX-License-Identifier: MIT */
/* uhard.c: the hard mode: moves what can move, poisons what is dead. */

/*
 * OVERVIEW
 *
 * A pointer into the stack of a blocked thread leads to one of three places: a
 * slice that has stayed; stack that a slice has left; or the frames of the
 * thread that runs there now. An access to the last cannot be told from an
 * access by that thread itself. Therefore evict=always makes slices leave at
 * once, so that a bad access meets the second case. For each place there is
 * something that only a mistake changes:
 *
 *	place                           must not change
 *	a slice, in place or in its     its checksum
 *	buffer
 *	stack that a thread has left    poison; with `fault' no access
 *	the dead frames below a slice   poison, for DEAD bytes
 *	a buffer whose slice is on the  poison
 *	stack
 *
 * In the lane of a thread that has blocked in place, and after its eviction:
 *
 *	  DEAD     GAP    slice of U
 *	|#######|       |------------|        # poison
 *	^       ^                    ^        - summed up
 *	k_low   k_high               l_bottom
 *
 *	|############################|
 *	^                            ^
 *	k_low                        l_bottom == k_high
 *
 * GAP is left alone: usched.c has put a return address there, for debuggers.
 * The poison is checked when a thread, any thread, is run in the lane. From
 * then on it is the stack of that thread.
 *
 * RECORDS
 *
 * The record of a lane, struct uhard_lane, is a part of the lane. The record of
 * a thread is struct uhard_stack. It repeats the thread's function and
 * argument, because the thread may be gone when a message needs them.
 * usched_run() cannot report an error, so a new thread runs with a record of
 * the dispatcher that is always there (d_first). The thread gets its own record
 * when it blocks, where -ENOMEM can be returned. For the same reason the first
 * few dispatchers have static records.
 *
 * The record of a dispatcher is dropped as soon as neither lanes nor threads
 * nor usched_run() need it, because a dispatcher without lanes may never reach
 * usched_fini().
 *
 * OBJECTS
 *
 * Locks, channels, scopes and the like are checked by each call that uses them:
 * uobject.h.
 *
 * FAULTS
 *
 * A lane is shut by mprotect() when its occupant has left, and opened when the
 * next occupant is about to come. A thread that touches the lane meanwhile gets
 * a signal. The handler, on an alternate stack, looks for threads that are
 * bound to the lane, are away, and have slices that belong to that address. The
 * handler takes the lock that protects the lists of records, unless its native
 * thread holds the lock already.
 *
 * The culprit and the lane may belong to different native threads, so the lane
 * can be shut or opened at any moment of this:
 *
 *	dispatcher of the lane			handler
 *
 *	O1 mprotect(), accessible		F1 read k_opened
 *	O2 k_shut = 0				F2 read k_shut; if 0, repeat
 *	O3 k_opened + 1				F3 look for the victims
 *	O4 the thread is not away any more	F4 read k_opened; if it has
 *						   changed, repeat
 *	S1 the thread is away
 *	S2 k_shut = 1
 *	S3 mprotect(), inaccessible
 *
 * To repeat, the handler returns: the access is tried again, and fails again if
 * the lane is shut then. Since S2 comes before S3, a fault finds k_shut set,
 * unless the lane was opened in between. Since O3 comes before O4, and F3
 * before F4, F4 notices each victim that F3 has missed. A fault that is
 * repeated REPEATS times although the lane is open has another cause, and is
 * passed on.
 *
 * INVARIANTS
 *
 * H1. A thread that is blocked has a record of its own in d_list. If checksums
 *     are taken, the record has the checksum of its slice.
 * H2. [k_low, k_high) of a lane is poison, and no thread runs there.
 * H3. A lane that is shut has no owner.
 * H4. Code that touches slices, poison and shut lanes runs on another stack. On
 *     lane 0 it runs below the slice; or above it, when it poisons stack that a
 *     thread has left.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* MAP_ANONYMOUS, REG_ERR */
#endif
#include "uhard.h"
#include "compiler.h"
#if defined(USCHED_HARD)		/* else this file is empty */
#include "ufault.h"
#include "ufork.h"
#include "upreempt.h"
#include "usan.h"
#include "uslice.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

/* Sanitizers must not instrument functions that run between two stacks. */
#define UNCHECKED	USAN_UNCHECKED
#define NORETURN	__attribute__((noreturn))

#define POISON		((uintptr_t)0xdbdbdbdbdbdbdbdbu)
/* Bytes of dead frames that are poisoned below a slice. */
#define DEAD		1024
/*
 * Not poisoned below a slice: a free word, and what mark_return() in core/
 * writes.
 */
#define GAP		64
/* Stack below a frame that its function may still use, with a red zone. */
#define FRAME		512
/* How much of a stack that a longjmp() has left is cleaned up. */
#define LEFT		65536
/* Records of dispatchers that need no malloc(). */
#define FEW		16
/*
 * How often, each 100 us, a handler tries the lock before it goes on without.
 */
#define PATIENCE	100000
/* How often one access is repeated although the lane is open. */
#define REPEATS		1000
/* Threads that a message names: the others, it counts. */
#define NAMES		3
/* One of so many points yields, and one of so many blocks is evicted. */
#define YIELD_ONE_IN	4
#define EVICT_ONE_IN	2

/* A thread that may be gone. */
struct name {
	const struct ustack *w_stack;	/* NULL: no thread */
	void               (*w_f)(void *);
	void                *w_arg;
};

/* Returns the name of u; of a shell that of the function inside. */
static struct name name_of_thread(const struct ustack *u)
{
	return (struct name) { u, ustack_f(u->u_f, u->u_arg),
			       ustack_arg(u->u_f, u->u_arg) };
}

/*
 * What the C++ library, if there is one, knows about exceptions on this native
 * thread: see ucxx.cc.
 */
struct handled {
	void    *z_caught;
	unsigned z_thrown;
};

extern __attribute__((weak)) struct handled *__cxa_get_globals_fast(void);

enum where { RUNS, STAYS, IS_AWAY };

/* The record of a thread. */
struct uhard_stack {
	struct usan          h_san;
	struct name          h_name;
	struct uhard_stack  *h_next;	/* in d_list */
	struct uhard_stack **h_at;	/* what points to us there */
	enum where           h_where;
	int                  h_lane;
	char                *h_slice;	/* while it is blocked */
	char                *h_deep;	/* lowest frame at a block, ever */
	uint64_t             h_sum;	/* while it is blocked */
	char                *h_buf;	/* buffer that is poisoned, or NULL */
	ptrdiff_t            h_buf_nob;
};

/* The record of a dispatcher. */
struct uhard_sched {
	struct usan         d_san;
	struct ustack      *d_left;	/* who left last; NULL after at_base */
	int                 d_ended;	/* d_left has ended */
	struct uhard_stack  d_first;	/* of a thread that has not blocked */
	struct uhard_stack *d_list;	/* threads that have blocked */
	struct name         d_ran;	/* the thread that was run last */
	unsigned            d_evict;	/* random states */
	unsigned            d_yield;
	struct handled      d_handled;	/* when usched_run() began */
	bool                d_busy;	/* in use */
	struct usched_lane *d_lane;	/* for the handler, as s may be gone */
	int                 d_lane_nr;
	struct usched_private *d_private;
	struct uhard_sched *d_next;
};

/* The words of USCHED_DEBUG. */
static struct {
	bool     m_known;		/* it was read */
	enum { NEVER, ALWAYS, RANDOM } m_evict;
	bool     m_poison;
	bool     m_fault;
	bool     m_check;
	bool     m_yield;
	unsigned m_evict_seed;
	unsigned m_yield_seed;
	unsigned m_nr;			/* dispatchers so far */
	size_t   m_page;
	struct sigaction m_before[2];	/* SIGSEGV, SIGBUS */
} mode;

static struct uhard_sched few[FEW];
static struct uhard_sched *all;		/* dispatchers */
/* Protects all, d_list, and mode until m_known. */
static struct ulock all_lock;
static const void  *holder;		/* its &depth, or NULL (atomic) */

/* A native thread's nested usched_run()s, and the alternate stack for them. */
static __thread int   depth;
static __thread void *alternate;
/* The last access that was repeated, and how often. */
static __thread const char *repeated;
static __thread int         repeats;

static void mode_read(void);
static struct uhard_sched *sched_make(struct usched *s);
static void sched_drop(struct usched *s);
static void vacate(struct usched *s, struct ustack *u);
static void bury(struct usched *s, struct ustack *u, struct usched_lane *l);
static int  own_record(struct uhard_sched *d, struct ustack *u);
static void lane_shut(struct usched_lane *first, struct usched_lane *last);
static void lane_open(struct usched_lane *l);
static bool one_in(unsigned *state, unsigned nr);
static UNCHECKED uint64_t sum(const char *from, const char *to);
static UNCHECKED void fill(char *from, char *to);
static UNCHECKED const char *spoilt(const char *from, const char *to);
static UNCHECKED void fill_below(char *from);
static void poison_see(struct usched *s, struct usched_lane *l);
static UNCHECKED struct handled handled(void);
static void handled_see(struct ustack *u);
static void sum_see(struct ustack *u, char *slice, const char *how);
static void buf_see(struct ustack *u);
static void handler_set(void);
static void near_set(const void *at, size_t nob);
static void holds_see(const struct ustack *u);

static bool lock_try(void)
{
	if (!ulock_try(&all_lock))
		return false;
	__atomic_store_n(&holder, &depth, __ATOMIC_RELAXED);
	return true;
}

static void lock(void)
{
	while (!lock_try())
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&holder, NULL, __ATOMIC_RELAXED);
	ulock_put(&all_lock);
}

static void in_child(void)
{
	holder = NULL;
}

static struct ufork at_fork = {
	.f_rank = UFORK_HARD, .f_lock = &all_lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

static inline char *slice_of(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)USLICE_LOW);
}

/* Sets h_where, which the handler reads, too. */
static inline UNCHECKED void where_set(struct uhard_stack *h, enum where where)
{
	__atomic_store_n(&h->h_where, where, __ATOMIC_RELEASE);
}

static inline struct usched_lane *lane_of(const struct ustack *u)
{
	/* It may be moving; each of its dispatchers has the same lanes. */
	return &__atomic_load_n(&u->u_sched, __ATOMIC_RELAXED)->s_lane[u->u_lane];
}

/* Rounds. */

UNCHECKED void uhard_begin(struct usched *s)
{
	struct uhard_sched *d;

	mode_read();
	d = s->s_hard != NULL ? s->s_hard : sched_make(s);
	if (mode.m_fault && depth++ == 0)
		alternate = usched_alternate_begin();
	usan_home(&d->d_san);
	d->d_handled = handled();
}

UNCHECKED void uhard_end(struct usched *s)
{
	usan_home_end(&s->s_hard->d_san);
	if (mode.m_fault && --depth == 0)
		usched_alternate_end(alternate);
	if (s->s_hard->d_list == NULL && s->s_lane_nr == 0)
		sched_drop(s);
}

UNCHECKED void uhard_at_base(struct usched *s)
{
	struct ustack *u = s->s_hard->d_left;

	if (u == NULL)
		return;
	s->s_hard->d_left = NULL;
	usan_arrive(&s->s_hard->d_san);
	if (!s->s_hard->d_ended)
		vacate(s, u);
}

/* Evicts or poisons the slice of u, which has blocked, as the words say. */
static void vacate(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = lane_of(u);
	struct uhard_stack *h = u->u_hard;

	if (l->l_low == NULL) {
		if (mode.m_poison)
			fill_below(h->h_slice);
		return;
	}
	if (!ustack_is_private(u) && (mode.m_evict == ALWAYS ||
	    (mode.m_evict == RANDOM &&
	     one_in(&s->s_hard->d_evict, EVICT_ONE_IN)))) {
		usched_evict(l);
		lane_shut(l, l);
	} else if (mode.m_poison && h->h_slice - GAP - DEAD > l->l_low) {
		l->l_hard.k_high = h->h_slice - GAP;
		l->l_hard.k_low  = l->l_hard.k_high - DEAD;
		fill(l->l_hard.k_low, l->l_hard.k_high);
	}
}

/* A new thread has no record yet: see "Records". */
UNCHECKED void uhard_enter(struct ustack *u, struct usched_lane *l)
{
	struct usched *s = u->u_sched;
	struct uhard_stack *h = u->u_hard;

	lane_open(l);
	poison_see(s, l);
	if (h != NULL) {
		if (h->h_where == STAYS) {
			sum_see(u, h->h_slice, "");
			buf_see(u);
		}
		return;
	}
	h = u->u_hard = &s->s_hard->d_first;
	memset(h, 0, sizeof *h);
	h->h_name = name_of_thread(u);
	h->h_lane = u->u_lane;
	if (l->l_low != NULL)
		usan_thread(&h->h_san, l->l_low, l->l_bottom - l->l_low);
	else
		usan_thread(&h->h_san, s->s_hard->d_san.n_low,
			    s->s_hard->d_san.n_size);
}

UNCHECKED void uhard_restored(struct ustack *u, struct usched_lane *l,
			      char *slice)
{
	struct uhard_stack *h = u->u_hard;

	sum_see(u, slice, " in its buffer");
	if (mode.m_poison) {
		h->h_buf     = u->u_stack;
		h->h_buf_nob = l->l_bottom - slice;
		fill(h->h_buf, h->h_buf + h->h_buf_nob);
	}
	usan_restore(&h->h_san, slice, l->l_bottom - slice);
}

/* On lane 0 the thread itself calls this, before it leaves. */
UNCHECKED void uhard_evicted(struct ustack *u, struct usched_lane *l,
			     char *slice)
{
	struct uhard_stack *h = u->u_hard;
	struct uhard_lane *k = &l->l_hard;

	usan_save(&h->h_san, slice, l->l_bottom - slice);
	usan_clear(slice, l->l_bottom);
	if (h->h_where == STAYS)
		sum_see(u, slice, "");
	else if (mode.m_check)
		h->h_sum = sum(slice, l->l_bottom);
	h->h_slice = slice;
	where_set(h, IS_AWAY);						/* S1 */
	if (!mode.m_poison || l->l_low == NULL)
		return;
	poison_see(u->u_sched, l);
	k->k_low  = slice - l->l_low > GAP + DEAD ? slice - GAP - DEAD :
		l->l_low;
	k->k_high = l->l_bottom;
	fill(k->k_low, k->k_high);
}

UNCHECKED void uhard_resume(struct ustack *u)
{
	struct uhard_sched *d = u->u_sched->s_hard;
	struct uhard_stack *h = u->u_hard;
	struct uhard_lane *k = &lane_of(u)->l_hard;

	where_set(h, RUNS);						/* O4 */
	d->d_ran   = h->h_name;
	k->k_last  = u;
	k->k_f     = h->h_name.w_f;
	k->k_arg   = h->h_name.w_arg;
	usan_leave(&d->d_san, &h->h_san, 0);
}

UNCHECKED void uhard_first(void *arg)
{
	struct ustack *u = arg;

	usan_arrive(&u->u_hard->h_san);
	u->u_f(u->u_arg);
}

UNCHECKED void uhard_arrived(void)
{
	usan_arrive(&ustack_self()->u_hard->h_san);
}

UNCHECKED int uhard_fit(struct ustack *u, ptrdiff_t need)
{
	int rc;

	handled_see(u);
	rc = own_record(u->u_sched->s_hard, u);
	if (rc != 0)
		return rc;
	buf_see(u);
	return usan_fit(&u->u_hard->h_san, need);
}

UNCHECKED void uhard_leave(struct ustack *u, struct usched_lane *l)
{
	struct uhard_sched *d = u->u_sched->s_hard;
	struct uhard_stack *h = u->u_hard;
	char *frame = __builtin_frame_address(0);

	if (l == NULL)
		holds_see(u);
	d->d_left  = u;
	d->d_ended = l == NULL;
	if (h->h_deep == NULL || h->h_deep > frame)
		h->h_deep = frame;
	if (l != NULL && h->h_where == RUNS) {		/* not lane 0 */
		h->h_where = STAYS;
		h->h_slice = slice_of(u);
		if (mode.m_check)
			h->h_sum = sum(h->h_slice, l->l_bottom);
	}
	usan_leave(&h->h_san, &d->d_san, l == NULL);
}

UNCHECKED void uhard_ended(struct ustack *u)
{
	struct usched *s = u->u_sched;
	struct uhard_stack *h = u->u_hard;

	/* No dispatcher: a misuse, which usched.c will report. */
	if (h == NULL || s->s_hard == NULL)
		return;
	usan_end(&h->h_san);
	if (lane_of(u)->l_owner == u) {
		if (lane_of(u)->l_low != NULL)
			usan_clear(h->h_deep, lane_of(u)->l_bottom);
		bury(s, u, lane_of(u));
	}
	u->u_hard = NULL;
	if (h == &s->s_hard->d_first)
		return;
	lock();
	*h->h_at = h->h_next;
	if (h->h_next != NULL)
		h->h_next->h_at = h->h_at;
	unlock();
	free(h);
	if (s->s_base == NULL && s->s_hard->d_list == NULL && s->s_lane_nr == 0)
		sched_drop(s);
}

/* Returns the address LEFT bytes below at, but not less than low. */
static char *below(const char *at, const char *low)
{
	return (char *)(at - low > LEFT ? at - LEFT : low);
}

/*
 * Makes the stack of the caller of usched_run() the current stack for
 * sanitizers, after a longjmp() that they may have taken for a jump within the
 * stack of u. All frames that were left there, and in the lane of u, are dead.
 */
UNCHECKED void uhard_left(struct ustack *u)
{
	struct usan *home = &u->u_sched->s_hard->d_san;
	struct uhard_stack *h = u->u_hard;
	struct usched_lane *l = lane_of(u);

	h->h_deep = l->l_low != NULL ? below(l->l_bottom, l->l_low) :
		__builtin_frame_address(0);
	usan_leave(&h->h_san, home, 0);
	usan_arrive(home);
	if (home->n_frame != NULL)
		usan_clear(below(home->n_frame, home->n_low),
			   (const char *)home->n_low + home->n_size);
}

/* Poisons and shuts the lane of u: no thread has frames there any more. */
static void bury(struct usched *s, struct ustack *u, struct usched_lane *l)
{
	struct uhard_lane *k = &l->l_hard;
	char *deep = u->u_hard->h_deep;

	if (l->l_low == NULL) {
		if (mode.m_poison && s->s_base != NULL)
			fill_below(deep);
		return;
	}
	if (mode.m_poison) {
		poison_see(s, l);
		k->k_low  = deep - l->l_low > DEAD ?
			(char *)((uintptr_t)deep & -sizeof POISON) - DEAD :
			l->l_low;
		k->k_high = l->l_bottom;
		fill(k->k_low, k->k_high);
	}
	lane_shut(l, l);
}

static UNCHECKED void lanes_announce(struct usched *s, int begins)
{
	const char *low = s->s_lane[1].l_low;

	usan_lanes(low, s->s_lane[s->s_lane_nr].l_bottom - low, begins);
}

UNCHECKED void uhard_lanes(struct usched *s)
{
	mode_read();
	near_set(s->s_lane[1].l_low, (size_t)(s->s_lane[s->s_lane_nr].l_bottom -
					      s->s_lane[1].l_low));
	lanes_announce(s, 1);
	lane_shut(&s->s_lane[1], &s->s_lane[s->s_lane_nr]);
}

/* Makes the handler ignore lanes that are unmapped now. */
static void lanes_forget(const struct usched *s)
{
	struct uhard_sched *d;

	lock();
	for (d = all; d != NULL; d = d->d_next) {
		if (d->d_lane == s->s_lane) {
			d->d_lane_nr = 0;
			d->d_private = NULL;
		}
	}
	unlock();
}

/* Shared lanes, and so s_lane, may be gone already. */
UNCHECKED void uhard_fini(struct usched *s)
{
	if (s->s_mapped != 0) {
		lanes_announce(s, 0);
		lanes_forget(s);
	}
	if (s->s_hard != NULL)
		sched_drop(s);
}

UNCHECKED void uhard_private(const void *at, size_t nob, int begins)
{
	if (begins)
		near_set(at, nob);				/* J2 */
	usan_lanes(at, nob, begins);
}

UNCHECKED void uhard_cooled(struct usched_lane *l)
{
	l->l_hard.k_low = l->l_hard.k_high = NULL;
}

void usched_point(void)
{
	struct ustack *u = ustack_self();
	struct usched *s;

	if (!mode.m_yield || u == NULL)
		return;
	s = u->u_sched;
	if (s->s_preempt == NULL || !one_in(&s->s_hard->d_yield, YIELD_ONE_IN))
		return;
	if (s->s_preempt(s, u) != 0 && ustack_block() != 0)
		(void)s->s_preempt(s, NULL);
}

/* Records. */

static unsigned seed(unsigned from, unsigned nr)
{
	return (from * 2654435761u ^ nr * 2246822519u) | 1;
}

/* usched_run() cannot report that memory has run out, so it must need none. */
static struct uhard_sched *sched_make(struct usched *s)
{
	struct uhard_sched *d = NULL;
	int i;

	lock();
	for (i = 0; i < FEW && d == NULL; i++) {
		if (!few[i].d_busy)
			d = &few[i];
	}
	if (d == NULL)
		d = malloc(sizeof *d);
	if (d == NULL)
		usched_fail("usched_run: no memory for the hard mode");
	memset(d, 0, sizeof *d);
	d->d_busy    = true;
	d->d_evict   = seed(mode.m_evict_seed, mode.m_nr);
	d->d_yield   = seed(mode.m_yield_seed, mode.m_nr);
	d->d_lane    = s->s_lane;
	d->d_lane_nr = s->s_lane_nr;
	d->d_private = s->s_private;
	d->d_next    = all;
	all = d;
	mode.m_nr++;
	unlock();
	s->s_hard = d;
	return d;
}

static UNCHECKED void sched_drop(struct usched *s)
{
	struct uhard_sched *d = s->s_hard;
	struct uhard_sched **at;
	struct uhard_stack *h;
	struct uhard_stack *list;

	lock();
	for (at = &all; *at != d; at = &(*at)->d_next)
		;
	*at  = d->d_next;
	list = d->d_list;
	d->d_busy = false;
	unlock();
	s->s_hard = NULL;
	while ((h = list) != NULL) {
		list = h->h_next;
		usan_end(&h->h_san);
		free(h);
	}
	if (d < few || d >= few + FEW)
		free(d);
}

/* Gives u a record of its own, with the contents of d_first. H1. */
static int own_record(struct uhard_sched *d, struct ustack *u)
{
	struct uhard_stack *h;

	if (u->u_hard != &d->d_first)
		return 0;
	h = malloc(sizeof *h);
	if (h == NULL)
		return -ENOMEM;
	*h = d->d_first;
	u->u_hard = h;
	lock();
	h->h_next = d->d_list;
	h->h_at   = &d->d_list;
	if (h->h_next != NULL)
		h->h_next->h_at = &h->h_next;
	d->d_list = h;
	unlock();
	return 0;
}

/* Lanes, and memory in general, in words: all addresses given are aligned. */

static void shut_set(struct usched_lane *first, struct usched_lane *last,
		     int shut)
{
	for (; first <= last; first++)
		__atomic_store_n(&first->l_hard.k_shut, shut,
				 __ATOMIC_SEQ_CST);
}

/* Shuts lanes, to the end of the last page. If that fails, they stay open. */
static void lane_shut(struct usched_lane *first, struct usched_lane *last)
{
	char *low = first->l_low;
	char *end = (char *)(((uintptr_t)last->l_bottom + mode.m_page - 1) &
			     -mode.m_page);

	if (!mode.m_fault)
		return;
	shut_set(first, last, 1);					/* S2 */
	if (mprotect(low, end - low, PROT_NONE) != 0)			/* S3 */
		shut_set(first, last, 0);
}

static void lane_open(struct usched_lane *l)
{
	char *end = (char *)(((uintptr_t)l->l_bottom + mode.m_page - 1) &
			     -mode.m_page);

	if (!l->l_hard.k_shut)
		return;
	if (mprotect(l->l_low, end - l->l_low, PROT_READ | PROT_WRITE) != 0)
		usched_fail("fault: a lane could not be opened: no memory");
	shut_set(l, l, 0);						/* O2 */
	__atomic_fetch_add(&l->l_hard.k_opened, 1, __ATOMIC_SEQ_CST);	/* O3 */
}

static bool one_in(unsigned *state, unsigned nr)
{
	unsigned x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return (x >> 8) % nr == 0;
}

/* Returns a checksum that depends on each word and on its place. */
static UNCHECKED uint64_t sum(const char *from, const char *to)
{
	const uintptr_t *at = (const uintptr_t *)from;
	uint64_t x = (uint64_t)(to - from);

	for (; at < (const uintptr_t *)to; at++)
		x = ((x << 29 | x >> 35) ^ *at) * 0x9e3779b97f4a7c15u;
	return x;
}

/* Volatile, else it would become memset(), which sanitizers check. */
static UNCHECKED void fill(char *from, char *to)
{
	volatile uintptr_t *at = (uintptr_t *)from;

	for (; at < (uintptr_t *)to; at++)
		*at = POISON;
}

/* Returns the first byte that is not poison any more, or NULL. */
static UNCHECKED const char *spoilt(const char *from, const char *to)
{
	const uintptr_t *at = (const uintptr_t *)from;
	const char *byte;

	while (at < (const uintptr_t *)to && *at == POISON)
		at++;
	if (at >= (const uintptr_t *)to)
		return NULL;
	for (byte = (const char *)at; *byte == (char)POISON; byte++)
		;
	return byte;
}

/* Poisons the native stack from there up to just below our own frame (H4). */
static NOINLINE UNCHECKED void fill_below(char *from)
{
	char *to = (char *)__builtin_frame_address(0) - FRAME;

	fill((char *)((uintptr_t)from & -sizeof POISON),
	     (char *)((uintptr_t)to & -sizeof POISON));
}

/* Messages: see ufault.h. */

static void put_name(struct text *x, struct name w)
{
	if (w.w_stack == NULL) {
		put(x, "no thread");
		return;
	}
	put_thread(x, w.w_stack, w.w_f, w.w_arg);
}

static void put_place(struct text *x, const char *at, int lane)
{
	put_number(x, (uintptr_t)at, 16);
	put(x, " in lane ");
	put_number(x, lane, 10);
}

static struct name last_of(const struct usched_lane *l)
{
	return (struct name) { l->l_hard.k_last, l->l_hard.k_f,
			       l->l_hard.k_arg };
}

/* Tells whether e runs on the lanes of d. */
static bool shares(const struct uhard_sched *e, const struct uhard_sched *d)
{
	return e == d || (e->d_lane_nr > 0 && e->d_lane == d->d_lane);
}

/*
 * Writes to x the names of the first threads that are blocked and have this
 * address in their slices: STAYS, or only if they are away: IS_AWAY. Copies one
 * to *victim, and returns how many there are. Caller holds the lock.
 */
static int put_blocked(struct text *x, const struct uhard_sched *d, int lane,
		       const char *at, struct name *victim, enum where least)
{
	const struct uhard_sched *e;
	const struct uhard_stack *h;
	int nr = 0;

	for (e = all; e != NULL; e = e->d_next) {
		for (h = shares(e, d) ? e->d_list : NULL; h; h = h->h_next) {
			if (h->h_lane != lane || __atomic_load_n(&h->h_where,
					__ATOMIC_ACQUIRE) < least ||
			    at < h->h_slice || at >= d->d_lane[lane].l_bottom)
				continue;
			*victim = h->h_name;
			if (nr++ >= NAMES)
				continue;
			if (nr > 1)
				put(x, " or of ");
			put_name(x, *victim);
		}
	}
	if (nr > NAMES) {
		put(x, " or of ");
		put_number(x, (uintptr_t)(nr - NAMES), 10);
		put(x, " others");
	}
	return nr;
}

/*
 * Fails. If the victim itself ran last, it is not the culprit: it was blocked.
 */
static NORETURN void ran_last(struct text *x, const struct usched *s,
			      struct name victim)
{
	put(x, "; ");
	if (s->s_hard->d_ran.w_stack == victim.w_stack)
		put(x, "another native thread, or the scheduler, has done it: "
		    "no other thread of this dispatcher has run since");
	else {
		put_name(x, s->s_hard->d_ran);
		put(x, " ran last");
	}
	usched_fail(x->x_text);
}

/* Fails if the poison of the lane has changed. Gives it up (H2). */
static void poison_see(struct usched *s, struct usched_lane *l)
{
	struct uhard_lane *k = &l->l_hard;
	const char *at = spoilt(k->k_low, k->k_high);
	struct name victim = last_of(l);
	int lane = (int)(l - s->s_lane);
	struct text x = { .x_nob = 0 };

	k->k_low = k->k_high = NULL;
	if (at == NULL)
		return;
	put(&x, "the stack of ");
	lock();
	if (put_blocked(&x, s->s_hard, lane, at, &victim, IS_AWAY) > 0) {
		put(&x, ", which is blocked, was written to at ");
		put_place(&x, at, lane);
		put(&x, " while it was away");
	} else {
		put_name(&x, victim);
		put(&x, ", where it is dead, was written to at ");
		put_place(&x, at, lane);
	}
	unlock();
	ran_last(&x, s, victim);
}

/*
 * Fails if the checksum differs. how: " in its buffer" if just copied, or "".
 */
static void sum_see(struct ustack *u, char *slice, const char *how)
{
	struct uhard_stack *h = u->u_hard;
	ptrdiff_t nob = lane_of(u)->l_bottom - slice;
	char *buf = u->u_stack;
	struct text x = { .x_nob = 0 };

	if (!mode.m_check || sum(slice, slice + nob) == h->h_sum ||
	    ustack_is_private(u))	/* others may write there */
		return;
	if (*how != 0 && sum(buf, buf + nob) == h->h_sum) {
		how = "";		/* but just now, on the stack, */
		u->u_sched->s_hard->d_ran = h->h_name;	/* not by a thread */
	}
	put(&x, "the slice of ");
	put_name(&x, h->h_name);
	put(&x, " in lane ");
	put_number(&x, u->u_lane, 10);
	put(&x, " has changed");
	put(&x, how);
	put(&x, " while it was blocked");
	ran_last(&x, u->u_sched, h->h_name);
}

/* Fails if the buffer, still the same that was poisoned, has changed. */
static void buf_see(struct ustack *u)
{
	struct uhard_stack *h = u->u_hard;
	struct text x = { .x_nob = 0 };
	const char *at;

	if (h->h_buf == NULL || h->h_buf != u->u_stack) {
		h->h_buf = NULL;
		return;
	}
	at = spoilt(h->h_buf, h->h_buf + h->h_buf_nob);
	if (at == NULL)
		return;
	put(&x, "the buffer of ");
	put_name(&x, h->h_name);
	put(&x, " was written to at ");
	put_number(&x, (uintptr_t)at, 16);
	put(&x, " while its slice was on the stack");
	ran_last(&x, u->u_sched, h->h_name);
}

/* Exceptions. */

static UNCHECKED struct handled handled(void)
{
	const struct handled *h = __cxa_get_globals_fast != NULL ?
		__cxa_get_globals_fast() : NULL;

	return h != NULL ? *h : (struct handled) { NULL, 0 };
}

/*
 * Fails if u handles exceptions, other than those of the caller of
 * usched_run().
 */
static void handled_see(struct ustack *u)
{
	const struct handled *ran = &u->u_sched->s_hard->d_handled;
	struct handled now = handled();
	struct text x = { .x_nob = 0 };

	if (now.z_caught == ran->z_caught && now.z_thrown == ran->z_thrown)
		return;
	put_name(&x, u->u_hard->h_name);
	put(&x, now.z_caught != ran->z_caught ? " blocks in a catch handler" :
	    " blocks while an exception unwinds its stack");
	put(&x, ", and others will find the exception: link with ucxx");
	usched_fail(x.x_text);
}

/* The words of USCHED_DEBUG. */

#define ANY	"0-4294967295"

static struct usched_env env_words = {
	.e_name  = "USCHED_DEBUG", .e_list = 1,
	.e_known = "evict=always, evict=never, evict=" ANY ", poison, fault, "
		   "check, check=never, yield=" ANY
};

static __attribute__((constructor)) void env_words_load(void)
{
	(void)usched_env_add(&env_words);
}

/* Obeys a word: its number in env_words. */
static void obey(int word, unsigned seed)
{
	enum { EVICT_ALWAYS, EVICT_NEVER, EVICT_SEED, POISONS, FAULTS, CHECKS,
	       CHECK_NEVER, YIELD_SEED };

	switch (word) {
	case EVICT_ALWAYS:	mode.m_evict = ALWAYS; break;
	case EVICT_NEVER:	mode.m_evict = NEVER; break;
	case EVICT_SEED:	mode.m_evict = RANDOM;
				mode.m_evict_seed = seed; break;
	case POISONS:		mode.m_poison = true; break;
	case FAULTS:		mode.m_fault = true; break;
	case CHECKS:		mode.m_check = true; break;
	case CHECK_NEVER:	mode.m_check = false; break;
	case YIELD_SEED:	mode.m_yield = true;
				mode.m_yield_seed = seed; break;
	}
}

static void mode_read(void)
{
	unsigned long long seed = 0;
	const char *words;
	int word;

	if (usan_refused())
		usched_fail("the hard mode: ThreadSanitizer is in the program, and "
			    "would report races that are none, as the library "
			    "was compiled without it: make SAN=-fsanitize=thread");
	lock();
	if (!mode.m_known) {
		mode.m_known = mode.m_check = true;
		mode.m_page  = (size_t)sysconf(_SC_PAGESIZE);
		words = usched_env(&env_words);
		while ((word = usched_env_word(&env_words, &words, &seed)) >= 0)
			obey(word, (unsigned)seed);
		if (mode.m_fault)
			handler_set();
	}
	unlock();
}

/* Faults. */

/* Returns whether the access was a read or a write, if the processor tells. */
static const char *access_of(void *context)
{
#if defined(__x86_64__) && defined(REG_ERR)
	const ucontext_t *c = context;

	return c->uc_mcontext.gregs[REG_ERR] & 2 ? " wrote to " : " read from ";
#else
	(void)context;
	return " read from or wrote to ";
#endif
}

static void put_culprit(struct text *x, void *context)
{
	const struct ustack *u = ustack_self();

	if (u != NULL)
		put_name(x, name_of_thread(u));
	else
		put(x, "a native thread, or a dispatcher,");
	put(x, access_of(context));
}

/* Returns the number of the lane that contains the address, or 0. */
static int lane_at(const struct uhard_sched *d, const char *at)
{
	const struct usched_lane *l;
	int i;

	for (i = 1; i <= d->d_lane_nr + usched_private_nr(d->d_private); i++) {
		l = &d->d_lane[i];
		if (at >= l->l_low &&
		    at < (char *)(((uintptr_t)l->l_bottom + mode.m_page - 1) &
				  -mode.m_page))
			return i;
	}
	return 0;
}

/*
 * Writes to x what happened. False: repeat the access. Caller holds the lock.
 */
static bool explain(struct text *x, const struct uhard_sched *d, int lane,
		    const char *at, void *context)
{
	const struct uhard_lane *k = &d->d_lane[lane].l_hard;
	unsigned opened = __atomic_load_n(&k->k_opened, __ATOMIC_SEQ_CST);
	struct name victim = last_of(&d->d_lane[lane]);

	if (!__atomic_load_n(&k->k_shut, __ATOMIC_SEQ_CST))		/* F2 */
		return false;
	put_culprit(x, context);
	put_place(x, at, lane);
	put(x, ", on the stack of ");
	if (put_blocked(x, d, lane, at, &victim, IS_AWAY) > 0)			/* F3 */
		put(x, ", which is blocked");
	else {
		put_name(x, victim);
		put(x, ", where it is dead: it ran there last");
	}
	return __atomic_load_n(&k->k_opened, __ATOMIC_SEQ_CST) ==	/* F4 */
		opened;
}

/* Tells whether this native thread has repeated the access too often. */
static bool is_stubborn(const char *at)
{
	if (at != repeated)
		repeats = 0;
	repeated = at;
	return ++repeats > REPEATS;
}

/* False: the fault interrupted its own native thread, which holds the lock. */
static bool lock_soon(void)
{
	const struct timespec nap = { 0, 100000 };
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (lock_try())
			return true;
		if (__atomic_load_n(&holder, __ATOMIC_RELAXED) == &depth)
			return false;
		nanosleep(&nap, NULL);
	}
	return false;
}

/*
 * If the address is in a lane: a message, or true, and the access is repeated.
 */
static bool is_ours(const char *at, void *context)
{
	struct text x = { .x_nob = 0 };
	const struct uhard_sched *d;
	bool known = false;
	bool held = lock_soon();
	int lane = 0;

	for (d = all; d != NULL; d = d->d_next) {
		if ((lane = lane_at(d, at)) != 0)
			break;
	}
	if (d != NULL)
		known = explain(&x, d, lane, at, context);
	if (held)
		unlock();
	if (known)
		usched_fail(x.x_text);
	return d != NULL && !is_stubborn(at);
}

static void fault(int signo, siginfo_t *info, void *context)
{
	/* A signal that kill() sends has no address. */
	if (info->si_code <= 0 || !is_ours(info->si_addr, context))
		pass_on(&mode.m_before[signo == SIGBUS], signo, info, context);
}

/* Installs the handler. If that fails, a bad access is still a fault. */
static void handler_set(void)
{
	struct sigaction action = {
		.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK
	};

	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGSEGV, &action, &mode.m_before[0]);
	(void)sigaction(SIGBUS, &action, &mode.m_before[1]);
}

#include "uobject.h"

#endif /* USCHED_HARD */
