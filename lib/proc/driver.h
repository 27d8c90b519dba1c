/* SPDX-License-Identifier: MIT */
/* driver.h: the native thread that drives a set. A part of uproc.c. */

#ifndef UPROC_DRIVER_H
#define UPROC_DRIVER_H

/*
 * The driver is the native thread that starts a driven set (driven.h). It alone may run
 * the set, and end it. It has what a native thread of a processor has
 * (native_threads.h): an alternate stack for the handler of faults, while it drives any
 * set, and in a run a mark by which its end is seen. It keeps its cpus, and its signal
 * mask: it is the program's.
 */

#include "arrive.h"
#include "driven.h"
#include "native_threads.h"

/* Returns the processor of s if s belongs to a set that can be driven, else NULL. */
static struct uproc *driven(const struct usched *s)
{
	return s != NULL && s->s_waits != NULL && s->s_waits->wb_ops == &wait_ops ?
		(struct uproc *)(uintptr_t)s : NULL;
}

int uproc_drive_may(const struct usched *s)
{
	const struct uproc *p = driven(s);

	if (p == NULL || p->p_set->set_nr != 1) {
		usched_message("uloop_start: needs the only processor of rr or ll, such "
			       "as rr_sched(0) after rr_init(1, 0)");
		return -EINVAL;
	}
	if (ustack_self() != NULL || mine != NULL) {
		usched_message("uloop_start: called by a thread");
		return -EBUSY;
	}
	return utime_is_virtual() ? -ENOTSUP : is_new(p->p_set);
}

/* How many sets the caller drives, and what it has for all of them. */
static __thread int driving;
static __thread void *driver_guard;

/* Makes the caller the driver of set, which has its lanes. 0 or -errno. */
static int driver_start(struct uproc_set *set)
{
	struct uproc_drive *d = set->set_drive;
	struct uproc *p = uproc_nth(set, 0);

	if (set->set_on_native)
		return -ENOTSUP;	/* no lanes: threads would need one depth */
	d->dr_native = usched_current_at();
	if (driving++ == 0)
		driver_guard = usched_guard_begin();
	__atomic_store_n(&p->p_runs, d->dr_native, __ATOMIC_RELAXED);
	set->set_running = 1;
	return 0;
}

int uproc_drive_start(struct usched *s, struct uwait_source *o)
{
	struct uproc_set *set = driven(s)->p_set;
	struct uproc_drive *d = calloc(1, sizeof *d);
	int rc;

	if (d == NULL)
		return -ENOMEM;
	d->dr_source = o;
	d->dr_until  = UNOW;
	d->dr_due    = UNEVER;
	__atomic_store_n(&set->set_drive, d, __ATOMIC_RELEASE);
	rc = uproc_start(set);
	if (rc != 0) {
		__atomic_store_n(&set->set_drive, NULL, __ATOMIC_RELEASE);
		free(d);
	}
	return rc;
}

/* Runs p once. The run begins with a look (rounds.h). */
static void driver_runs(struct uproc *p)
{
	struct uproc_drive *d = p->p_set->set_drive;

	mine = p;
	d->dr_runs  = true;
	d->dr_until = UNOW;
	d->dr_began = unow();
	p->p_prepared = p->p_sched.s_left = 0;
	p->p_round.r_began = p->p_switches - ROUND;
	p->p_round.r_ask   = p->p_switches;
	native_mark(p);
	usched_run(&p->p_sched);
	native_mark(NULL);
	d->dr_runs = false;
	mine = NULL;
}

/*
 * Returns 0 if the caller is the driver of set, outside of a run, else -errno. The call
 * has a prefix.
 */
static int is_driver(const struct uproc_set *set, const char *prefix,
		     const char *call)
{
	const struct uproc_drive *d = uproc_drive_of(set);

	if (d != NULL && d->dr_native == usched_current_at() && !d->dr_runs &&
	    mine == NULL && ustack_self() == NULL)
		return 0;
	usched_message("%s%s: only the native thread that has called uloop_start() "
		       "may call this, and none of its threads", prefix, call);
	return -EBUSY;
}

int uproc_drive_run(struct usched *s)
{
	struct uproc *p = driven(s);
	int rc;

	if (p == NULL)
		return -EINVAL;
	if (uproc_inherited(p->p_set))
		return -ECHILD;
	rc = is_driver(p->p_set, "", "uloop_run");
	if (rc != 0)
		return rc;
	driver_runs(p);
	return threads_left(p->p_set) != 0;
}

utime_ns uproc_drive_until(const struct usched *s, struct uwait_source **o)
{
	const struct uproc *p = driven(s);
	const struct uproc_drive *d = p != NULL ? uproc_drive_of(p->p_set) : NULL;

	*o = NULL;
	if (d == NULL || d->dr_runs || uproc_inherited(p->p_set))
		return UNEVER;
	if (d->dr_asleep)
		*o = d->dr_source;
	return d->dr_until;
}

int uproc_is_driven(const struct uproc *p)
{
	return p->p_set->set_drive != NULL;
}

/* Runs set, for which fini waits, until it has ended. */
static void driver_ends(struct uproc_set *set)
{
	struct uproc_drive *d = set->set_drive;
	unsigned tries = 0;

	driver_runs(uproc_nth(set, 0));
	if (--driving == 0)
		usched_guard_end(driver_guard);
	while (__atomic_load_n(&d->dr_releases, __ATOMIC_SEQ_CST) != 0)	/* driven M8 */
		uproc_pause(&tries);
}

#endif /* UPROC_DRIVER_H */
