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
 * something that only a mistake changes: upoison.h.
 *
 * PARTS
 *
 * This file has the points at which the dispatcher calls the mode, exceptions,
 * and the words of USCHED_DEBUG. It includes its parts, whose names are static:
 *
 *	uobject.h	locks, channels, scopes and the like, which each call
 *			that uses them checks
 *	ushut.h		lanes without access, and the message of a fault
 *	upoison.h	poison, checksums, and the message if they have changed
 *	uhard_inside.h	records of threads and dispatchers; names in messages
 *
 * INVARIANTS
 *
 * H4. Code that touches slices, poison and shut lanes runs on another stack. On
 *     lane 0 it runs below the slice; or above it, when it poisons stack that a
 *     thread has left.
 *
 * The others are where they are kept: uhard_inside H1, upoison H2, ushut H3.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* MAP_ANONYMOUS, REG_ERR */
#endif
#include "uhard.h"
#if defined(USCHED_HARD)		/* else this file is empty */
#include "uobject.h"
#include "upoison.h"
#include "upreempt.h"
#include "ushut.h"

UPREEMPT_NEVER;

/* How much of a stack that a longjmp() has left is cleaned up. */
#define LEFT		65536
/* One of so many points yields, and one of so many blocks is evicted. */
#define YIELD_ONE_IN	4
#define EVICT_ONE_IN	2

extern __attribute__((weak)) struct handled *__cxa_get_globals_fast(void);

/* The alternate stack of a native thread for its usched_run()s. */
static __thread void *alternate;

static void mode_read(void);
static void vacate(struct usched *s, struct ustack *u);
static void bury(struct usched *s, struct ustack *u, struct usched_lane *l);
static bool one_in(unsigned *state, unsigned nr);
static UNCHECKED struct handled handled(void);
static void handled_see(struct ustack *u);

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

/* A new thread has no record yet: see uhard_inside.h. */
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
	where_set(h, IS_AWAY);						/* ushut S1 */
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

	where_set(h, RUNS);						/* ushut O4 */
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

UNCHECKED void uhard_fit(struct ustack *u, ptrdiff_t need, int *rc)
{
	handled_see(u);
	*rc = own_record(u->u_sched->s_hard, u);
	if (*rc != 0)
		return;
	buf_see(u);
	*rc = usan_fit(&u->u_hard->h_san, need);
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
		near_set(at, nob);				/* uobject J2 */
	usan_lanes(at, nob, begins);
}

UNCHECKED void uhard_cooled(struct usched_lane *l)
{
	l->l_hard.k_low = l->l_hard.k_high = NULL;
}

void uhard_yield(void)
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

static bool one_in(unsigned *state, unsigned nr)
{
	unsigned x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return (x >> 8) % nr == 0;
}

#endif /* USCHED_HARD */
