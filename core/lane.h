/* SPDX-License-Identifier: MIT */
/* core/lane.h: what the dispatcher keeps of a lane and of a run. */

struct ustack;
struct usched;

#if defined(USCHED_HARD)
#include "hard.h"
#endif

/* A stretch of stack on which threads run, one at a time. */
struct usched_lane {
	char          *l_bottom;	/* slices end here; the stack grows down */
	struct ustack *l_owner;		/* its live slice lies here; or NULL */
	int            l_bound;		/* threads that have to come back to here */
	short          l_free;		/* next free lane */
	unsigned char  l_law : 6;	/* blocks to check: core/law.h */
	unsigned char  l_shut : 1;	/* it cannot be accessed */
	unsigned char  l_sole : 1;	/* its thread is away, none came since */
	unsigned char  l_sample;	/* threads that began here: see usched.c */
	char          *l_low;		/* lowest usable byte; NULL on lane 0 */
#if defined(USCHED_HARD)
	struct uhard_lane l_hard;
#endif
};

/* Describes a call of usched_run() that has not returned: usched I8. */
struct usched_frame {
	struct usched       *f_sched;
	struct ustack       *f_self;	/* the thread that called, or NULL */
	struct usched_frame *f_up;	/* the call around it, or NULL */
	struct usched *volatile *f_mark; /* in its stack frame: f_sched */
	unsigned             f_fp;	/* floating-point control before */
};
