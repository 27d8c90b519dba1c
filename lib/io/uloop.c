/* SPDX-License-Identifier: MIT */
/* uloop.c: threads in the loop of another library. */

/*
 * The descriptor is that of the processor's poller (events.h), which has an event
 * when a descriptor is ready for which a thread waits, and to which wakers write. How a
 * processor sleeps between two calls is told in driven.h. Here the poller is made before
 * any thread waits for a descriptor, and its second look (owned.h) becomes a part of the
 * deadline.
 *
 * U1. The poller is there from uloop_start() on, and stays the source of the sleeps.
 */

#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uloop.h"
#include "uproc_set.h"
#include "upoll.h"

UPREEMPT_NEVER;

int uloop_start(struct usched *s)
{
	struct uwait_source *o;
	int rc = uproc_drive_may(s);
	int fd;

	if (rc != 0)
		return rc;
	fd = upoll_source(s->s_waits, &o);			/* U1 */
	if (fd < 0)
		return fd;
	rc = uproc_drive_start(s, o);
	return rc != 0 ? rc : fd;
}

int uloop_run(struct usched *s)
{
	return uproc_drive_run(s);
}

utime_ns uloop_until(const struct usched *s)
{
	struct uwait_source *o;
	utime_ns until = uproc_drive_until(s, &o);
	utime_ns again = o != NULL ? upoll_again(o) : UNEVER;

	return again < until ? again : until;
}
