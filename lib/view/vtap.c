/* SPDX-License-Identifier: MIT */
/* vtap.c: taps: rings and caches of native threads. A part of the recorder. */

/*
 * A native thread takes a tap while it runs dispatchers, or a call of ucall(). These
 * nest, so a_runs counts them. Once there are RINGS_MANY, a new native thread takes
 * the tap that has been free for longest, and vr_from tells readers at which record
 * its own begin.
 *
 * INVARIANT
 *
 * V1. Only the native thread that owns a tap (a_owner, a_runs > 0) writes to its
 *     ring, and a signal handler does not while a_busy is set.
 *
 * REJECTED
 *
 * One ring for each dispatcher: one native thread may run many, one after another
 * or one inside of another.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vtap.h"
#include "vclock.h"
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define LOG_LEAST	12	/* of a ring, where there is little space */
#define RINGS_MANY	16	/* then those of ended native threads serve */
/* Ticks from one CLOCK to the next: few at first, since the rate follows from
 * the newest. */
#define QUIET_LEAST	((uint64_t)1 << 20)
#define QUIET_MOST	((uint64_t)1 << 34)

struct uview_all uview_all = { .v_fd = -1, .v_long_run = UVIEW_LONG_RUN };
__thread struct uview_tap *uview_here;

static struct uview_tap *taps[UVIEW_RINGS];
static struct ulock taps_lock;		/* protects taps, a_runs and a_owner */
static __thread struct uview_tap *last;	/* of this native thread; under
					 * taps_lock */
static bool said_space;

void uview_clock_put(struct uview_tap *a)
{
	struct uview_ring *r = a->a_ring.g_ring;
	uint64_t t = uview_tick(), ns = uview_ns();

	if (a->a_turns.b_now >= 0)
		uview_turn_breaks(a);
	uring_put(&a->a_ring, t, UVIEW_CLOCK, 0, ns);
	__atomic_store_n(&r->vr_ns, ns, __ATOMIC_RELAXED);
	__atomic_store_n(&r->vr_tick, t, __ATOMIC_RELEASE);
	a->a_clock = t;
	if (a->a_quiet < QUIET_MOST)
		a->a_quiet *= 2;
	a->a_clock_due = t + a->a_quiet;
	if (ns - uview_all.v_ns > 1000000)
		__atomic_store_n(&uview_all.v_long_run,
			(uint64_t)((double)UVIEW_LONG_RUN *
				   (double)(t - uview_all.v_tick) /
				   (double)(ns - uview_all.v_ns)),
			__ATOMIC_RELAXED);
}

bool uview_cpu_ask(struct uview_cpu *c)
{
	struct timespec ran;
	struct rusage r;
	uint64_t now = uview_ns();

	/*
	 * Times of getrusage() go by ticks of the kernel. It gives the cpu to others at the
	 * end of a call: now is from before, so that this is off in the run that begins.
	 */
	if (getrusage(RUSAGE_THREAD, &r) != 0 ||
	    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran) != 0)
		return false;
	c->c_at     = now;
	c->c_ran    = (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
	c->c_sleeps = r.ru_nvcsw;
	c->c_taken  = r.ru_nivcsw;
	c->c_idle  = 0;
	c->c_parks = 0;
	return true;
}

static long native_id(void)
{
	return syscall(SYS_gettid);
}

/* Says, once, that there is no space. */
static void no_space(int error)
{
	if (said_space)
		return;
	said_space = true;
	usched_message("view: no space for records in " UVIEW_PATH ": %s",
		       (long)getpid(), strerror(error));
}

/* Makes the tap of ring nr, shorter if need be. NULL: no memory, or no space. */
static struct uview_tap *tap_make(unsigned nr, int log)
{
	struct uview_part *part = &uview_all.v_file->vf_part[UVIEW_PART_RECORDS];
	uint64_t size = sizeof(struct uview_record) << log;
	uint64_t at = part->vp_at +
		((uint64_t)nr << uview_all.v_log) * sizeof(struct uview_record);
	struct uview_ring *r = uview_ring_nth(nr);
	struct uview_tap *a = calloc(1, sizeof *a);
	int rc = ENOMEM;

	while (a != NULL && (rc = posix_fallocate(uview_all.v_fd, (off_t)at,
						  (off_t)size)) == ENOSPC &&
	       log > LOG_LEAST)
		size = sizeof(struct uview_record) << --log;
	if (rc != 0) {
		no_space(rc);
		free(a);
		return NULL;
	}
	r->vr_at   = at;
	r->vr_room = 1u << log;
	a->a_credit = UVIEW_CREDIT;
	a->a_quiet  = QUIET_LEAST;
	a->a_ring.g_at   = (struct uview_record *)((char *)uview_all.v_file + at);
	a->a_ring.g_mask = r->vr_room - 1;
	a->a_half = (unsigned char)(log - 1);
	a->a_ring.g_ring = r;
	a->a_turns.b_now = -1;
	return a;
}

/*
 * Returns a free tap: the caller's last, or a new tap, or the tap that has
 * been free for longest. NULL: there is none. Caller holds taps_lock.
 */
static struct uview_tap *tap_choose(int log)
{
	struct uview_tap *oldest = NULL;
	unsigned i;

	if (last != NULL && last->a_owner == &last && last->a_runs == 0)
		return last;
	for (i = 0; i < UVIEW_RINGS && taps[i] != NULL; i++) {
		if (taps[i]->a_runs == 0 && (oldest == NULL ||
				taps[i]->a_clock < oldest->a_clock))
			oldest = taps[i];
	}
	if (i < (oldest == NULL ? UVIEW_RINGS : RINGS_MANY) &&
	    (taps[i] = tap_make(i, log)) != NULL) {
		__atomic_store_n(&uview_all.v_file->vf_part[UVIEW_PART_RINGS].vp_nr,
				 i + 1, __ATOMIC_RELEASE);
		return taps[i];
	}
	return oldest;
}

/* Gives the ring of a to the caller, whose it was not before. */
static void tap_own(struct uview_tap *a)
{
	struct uview_ring *r = a->a_ring.g_ring;

	a->a_owner = &last;
	last = a;
	r->vr_from = a->a_ring.g_head;
	r->vr_cost = r->vr_costs = 0;
	r->vr_scheduler = 0;
	r->vr_tid  = (uint32_t)native_id();
	(void)prctl(PR_GET_NAME, r->vr_name);
}

struct uview_tap *uview_tap_begin(int log)
{
	struct uview_tap *a = uview_here;

	if (a != NULL) {
		a->a_runs++;
		return a;
	}
	ulock_get(&taps_lock);
	a = tap_choose(log);
	if (a != NULL)
		a->a_runs = 1;
	ulock_put(&taps_lock);
	if (a == NULL) {
		__atomic_fetch_add(&uview_all.v_file->vf_missed, 1,
				   __ATOMIC_RELAXED);
		return NULL;
	}
	if (a->a_owner != &last)
		tap_own(a);
	__atomic_store_n(&a->a_ring.g_ring->vr_state, 1, __ATOMIC_RELAXED);
	(void)uview_cpu_ask(&a->a_cpu);
	uview_busy(a);
	uview_clock_put(a);
	uview_idle(a);
	uview_here = a;
	return a;
}

void uview_tap_end(struct uview_tap *a)
{
	if (a->a_runs > 1) {
		a->a_runs--;
		return;
	}
	uview_busy(a);
	uview_clock_put(a);
	uview_idle(a);
	uview_here = NULL;
	__atomic_store_n(&a->a_ring.g_ring->vr_state, 2, __ATOMIC_RELAXED);
	ulock_get(&taps_lock);
	a->a_runs = 0;
	ulock_put(&taps_lock);
}

void uview_taps_renew(void)
{
	uview_here = last = NULL;
	memset(&taps_lock, 0, sizeof taps_lock);
}

#endif
