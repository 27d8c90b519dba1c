/* SPDX-License-Identifier: MIT */
/* vwatch.c: records of waits and of processors. A part of the recorder. */

/*
 * What a thread waits for, wakes that go elsewhere, sleeps, and calls outside are
 * reported by struct uwait_watch, from where no fast path runs.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vwatch.h"
#include "vcensus.h"
#include "vclock.h"
#include "vnames.h"
#include "vqueue.h"
#include "vstack.h"
#include "vswitch.h"
#include "compiler.h"
#include "uchain.h"
#include "uself.h"
#include "uwait.h"

UPREEMPT_NEVER;

#define LOG_CALLS	12	/* of a native thread for ucall() */
#define DEADLINE_MOST	((uint64_t)1 << 46)	/* ns from now: 19 hours */
#define LONG_SLEEP	(250 * UTIME_MS)	/* at most: a census may wait */

/* Names an object, if it is a variable of the program. */
static void object_see(struct uview_tap *a, const void *object)
{
	const void **at = &a->a_object[(uintptr_t)object >> 4 &
				       (UVIEW_CACHE - 1)];

	if (*at == object)
		return;
	*at = object;
	if ((uintptr_t)object - uview_data.c_from < uview_data.c_size)
		(void)uview_name(UVIEW_OBJECT, object);
}

static uint16_t kind_nr[256];		/* by wk_id (atomic) */

static unsigned kind_of(const struct uwait *w)
{
	unsigned nr = __atomic_load_n(&kind_nr[w->w_kind], __ATOMIC_RELAXED);

	if (unlikely(nr == 0)) {
		nr = uview_text(uwait_kind(w)->wk_name);
		__atomic_store_n(&kind_nr[w->w_kind], (uint16_t)nr,
				 __ATOMIC_RELAXED);
	}
	return nr;
}

/* What threads wait for. */

/* Returns the view of the thread that calls. NULL: it is not recorded. */
static struct uview_view *view_here(const struct ustack *u)
{
	struct uview_view *v = uview_here != NULL ?
		uchain_of(u->u_sched, uview_next) : NULL;

	return v != NULL && v->w_thread == u ? v : NULL;
}

/* Notes who holds the object of w. It exists, since the caller waits for it. */
static void holder_put(struct uview_tap *a, uint64_t time, const struct uwait *w)
{
	const struct uwait_kind *kind = uwait_kind(w);
	struct uwait_seen seen = { kind, w->w_at.object, NULL };
	const void *holder;

	if (kind->wk_see == NULL || w->w_at.object == NULL ||
	    !kind->wk_see(w, &seen) || seen.vs_owner == NULL)
		return;
	holder = __atomic_load_n(seen.vs_owner, __ATOMIC_RELAXED);
	if (holder != NULL)
		uview_put(a, time, UVIEW_NOTE, UVIEW_HOLDER, holder, 0);
}

/*
 * Notes a deadline, if a reader can tell its 48 bits from a time in the past. That
 * is the last clock if it has passed long ago. Virtual time is not that of records.
 */
static void deadline_put(struct uview_tap *a, uint64_t time, utime_ns until)
{
	uint64_t now = a->a_ring.g_ring->vr_ns, at = (uint64_t)until;

	if (at < now)
		at = now;
	if (at - now < DEADLINE_MOST && !utime_is_virtual())
		uview_put(a, time, UVIEW_NOTE, UVIEW_DEADLINE,
		    (const void *)(uintptr_t)at, 0);
}

static void wait_begin(const struct uwait *w, utime_ns until)
{
	struct uview_view *v = view_here(w->w_stack);
	const void *object = w->w_at.object;
	uint64_t time;

	if (v == NULL || v->w_tap->a_busy)
		return;
	v->w_reason = UVIEW_WAITS;
	uview_busy(v->w_tap);
	time = uview_tick();
	if (object != NULL && !uwait_kind(w)->wk_number)
		object_see(v->w_tap, object);
	uview_put(v->w_tap, time, UVIEW_WAIT, until != UNEVER, object, kind_of(w));
	holder_put(v->w_tap, time, w);
	deadline_put(v->w_tap, time, until);
	uview_idle(v->w_tap);
}

static void wait_end(const struct uwait *w)
{
	struct uview_view *v = view_here(w->w_stack);

	if (v != NULL)
		v->w_reason = UVIEW_BLOCKED;
}

static void renamed(void)
{
	const struct ustack *u = ustack_self();
	struct uview_view *v = view_here(u);

	if (v == NULL || v->w_tap->a_busy)
		return;
	uview_busy(v->w_tap);
	uview_named(v->w_tap, uview_tick(), u, uself_of(u));
	uview_idle(v->w_tap);
}

/* Takes a census, since all threads of a set wait for ever. */
static int stuck(struct usched *first, size_t size, int nr, long left)
{
	(void)first, (void)size, (void)nr, (void)left;
	if (uview_all.v_file != NULL)
		uview_census_take(NULL, 0);
	return 0;
}

/* What processors do, but for switches. */

/* Records, unless a signal handler has interrupted a record. */
static inline void note(unsigned kind, unsigned arg, const void *at, unsigned id)
{
	struct uview_tap *a = uview_here;

	if (a == NULL || a->a_busy)
		return;
	uview_busy(a);
	uview_put(a, uview_tick(), kind, arg, at, id);
	a->a_noted = true;
	uview_idle(a);
}

void uview_note(unsigned kind, unsigned arg, const void *at, unsigned id)
{
	note(kind, arg, at, id);
}

static void posted(const struct ustack *u, int record)
{
	note(UVIEW_POST, record ? UVIEW_COMPLETED : UVIEW_POSTED, u, 0);
}

/* A processor that sleeps looks now and then whether a census is wanted. */
static utime_ns sleeps(utime_ns ns)
{
	struct uview_tap *a = uview_here;

	if (a == NULL)
		return ns;
	uview_busy(a);
	uring_put(&a->a_ring, uview_tick(), UVIEW_PARK, 0, ns == UNEVER ?
		  ~(uint64_t)0 : uview_ns() + (uint64_t)(ns > 0 ? ns : 0));
	a->a_noted = true;
	uview_idle(a);
	return ns < LONG_SLEEP ? ns : LONG_SLEEP;
}

static void awake(struct usched *s)
{
	struct uview_view *v = uchain_of(s, uview_next);
	struct uview_tap *a = uview_here;
	uint64_t time = uview_tick();

	if (a == NULL)
		return;
	uview_busy(a);
	a->a_cpu.c_parks++;
	if (time > a->a_clock_due)
		uview_clock_put(a);
	uview_put(a, uview_tick(), UVIEW_UNPARK, 0, NULL, 0);
	if (v != NULL)
		uview_census_ask(v);
	uview_idle(a);
}

static void calls(const struct ustack *t, void (*f)(void *), int begins)
{
	struct uview_tap *a;

	if (uview_all.v_file == NULL)
		return;
	a = !begins ? uview_here : uview_tap_begin(
		uview_all.v_log < LOG_CALLS ? uview_all.v_log : LOG_CALLS);
	if (a == NULL)
		return;
	note(UVIEW_CALL, begins ? UVIEW_CALL_BEGINS : UVIEW_CALL_ENDS, t,
	     uview_name(UVIEW_FUNCTION, (const void *)(uintptr_t)f));
	if (!begins)
		uview_tap_end(a);
}

static void queue(const struct uwait_queue *q, int begins)
{
	struct uview_tap *a = uview_here;

	if (begins) {
		uview_queue_add(q);
	} else if (a == NULL || a->a_busy) {
		uview_queue_remove(q->uq_at, NULL);
	} else {
		uview_busy(a);
		uview_queue_remove(q->uq_at, a);
		a->a_noted = true;
		uview_idle(a);
	}
}

static struct uwait_watch watch = {
	.v_begin = wait_begin, .v_end = wait_end, .v_named = renamed,
	.v_stuck = stuck, .v_posted = posted, .v_sleeps = sleeps, .v_awake = awake,
	.v_calls = calls, .v_queue = queue
};

void uview_watch_start(void)
{
	uwait_watch_add(&watch);
}

#endif
