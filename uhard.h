/* SPDX-License-Identifier: MIT */
/* uhard.h: the hard mode: moves what can move, poisons what is dead. */

#ifndef UHARD_H
#define UHARD_H

/*
 * Build all files of the program with -DUSCHED_HARD, and link uhard.c. What it
 * then does is chosen by USCHED_DEBUG in the environment: words between commas.
 *
 * To be written.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * In a hard build, with yield=SEED: here the running thread gives way now and
 * then, if its dispatcher has an s_preempt(). Else nothing.
 */
#if defined(USCHED_HARD)
void usched_point(void);
#else
static __inline__ void usched_point(void)
{
}
#endif

/*
 * Not API: the points at which usched.c calls. "home" is on the stack of the
 * dispatcher. u may be NULL nowhere; l may be lane 0.
 *
 *	begin     usched_run() begins, on the native thread; end: it returns
 *	home      the first thing after a switch to the dispatcher (and at the
 *	          start of each round); the thread that left last, if any, has
 *	          blocked or ended
 *	enter     u is about to be run on l, which must become accessible; the
 *	          owner of l has been evicted, if it was another one
 *	restore   the buffer of u is about to be copied to slice; restored: it was
 *	evicted   the slice has been copied to the buffer, nothing else has changed
 *	resume    the last thing before a switch to u
 *	first     runs a new thread: what usched_launch() calls
 *	arrived   the first thing after a switch to a thread that had blocked; or
 *	          its block has failed
 *	fit       in ustack_block(), for need bytes of slice: 0 or -ENOMEM
 *	leave     the last thing before a switch to the dispatcher; l is NULL if
 *	          u has ended
 *	ended     u has ended, or is forgotten by ustack_fini(); called before
 *	          anything of that is done
 *	lanes     usched_lanes() has mapped them; fini: usched_fini() begins
 */
#if defined(USCHED_HARD)
void uhard_begin   (struct usched *s);
void uhard_end     (struct usched *s);
void uhard_home    (struct usched *s);
void uhard_enter   (struct ustack *u, struct usched_lane *l);
void uhard_restore (struct ustack *u, struct usched_lane *l, char *slice);
void uhard_restored(struct ustack *u, struct usched_lane *l, char *slice);
void uhard_evicted (struct ustack *u, struct usched_lane *l, char *slice);
void uhard_resume  (struct ustack *u);
void uhard_first   (void *ustack);
void uhard_arrived (void);
int  uhard_fit     (struct ustack *u, ptrdiff_t need);
void uhard_leave   (struct ustack *u, struct usched_lane *l);
void uhard_ended   (struct ustack *u);
void uhard_lanes   (struct usched *s);
void uhard_fini    (struct usched *s);

/* In usched.c: copies the slice of the owner to its buffer. */
void usched_evict(struct usched_lane *l);
#endif

#ifdef __cplusplus
}
#endif

#endif /* UHARD_H */
