/* SPDX-License-Identifier: MIT */
/* uwait_inside.h: shared by uwait.c, utime.c, uplain.c and usource.c. Private. */

#ifndef UWAIT_INSIDE_H
#define UWAIT_INSIDE_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* first: park.h calls syscall() */
#endif
#define USCHED_PREEMPT	1	/* no file here leaves a mark: see uproc.h */
#include "uwait.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>

UPREEMPT_NEVER;

/* The clock: utime.c. */
struct utime_clock {
	int      c_virtual;
	unsigned c_begun;		/* calls of utime_virtual() */
	utime_ns c_now;			/* virtual (atomic) */
	uint64_t c_seed;
};

extern struct utime_clock utime_clock HIDDEN;

/*
 * Earlier than any deadline of the program, or of its life before an exec: half
 * of the time since the start of the machine; or the start of virtual time.
 */
extern utime_ns utime_earliest HIDDEN;

/* Sleeps natively until a point in time. 0; -ENOSYS under virtual time. */
HIDDEN int utime_native_sleep(utime_ns until);

/* The operations of the bases of plain dispatchers: uplain.c. */
extern const struct uwait_ops uwait_plain_ops HIDDEN;

/* Makes the base of s, which is plain, and has none. NULL: no memory. */
HIDDEN struct uwait_base *uwait_plain_base(struct usched *s);

/* A plain dispatcher has a base from its first deadline or source on. */
static inline const struct uwait_ops *uwait_ops_of(const struct usched *s)
{
	return s->s_waits != NULL ? s->s_waits->wb_ops : &uwait_plain_ops;
}

/* Returns the base of s, made if s is plain. NULL: no memory. */
static inline struct uwait_base *uwait_base_of(struct usched *s)
{
	return s->s_waits != NULL ? s->s_waits : uwait_plain_base(s);
}

/* As in uslice.h, which is for libraries of one kind: uwait.c is in both. */
HIDDEN int usched_in_region(const struct usched *s);

/* Takes what was posted to b, and brings it home. Owner only. */
HIDDEN void uwait_take_posted(struct uwait_base *b);

#endif /* UWAIT_INSIDE_H */
