/* SPDX-License-Identifier: MIT */
/* uhard.h: the hard mode: moves what can move, poisons what is dead. */

#ifndef UHARD_H
#define UHARD_H

/*
 * For the search of bugs in programs, schedulers and the library itself: above
 * all of pointers into the stack of a thread that are used while it is blocked.
 * In a plain build they work for as long as its slice happens to stay in place,
 * and then destroy whatever came there.
 *
 * Build all files of the program with -DUSCHED_HARD, and link uhard.c with
 * them. What it then does is chosen by USCHED_DEBUG in the environment, words
 * between commas, which is read at the first usched_lanes() or usched_run():
 *
 *	evict=always  each thread that blocks loses its place at once
 *	evict=never   only when another one needs it, as in a plain build: this
 *	              is so if nothing is said
 *	evict=SEED    at random; SEED is a number
 *	poison        memory that is dead is overwritten, and looked at before
 *	              it is used again: stack that a thread has left, some of
 *	              that below one that stayed, and buffers while their slice
 *	              is on the stack
 *	fault         a lane in which no slice lies cannot be accessed. The
 *	              message names the thread that did, and those whose stack
 *	              it is
 *	check         a checksum of each slice, taken when its thread blocks, is
 *	              right when it goes on, or moves. So always, but for
 *	check=never
 *	yield=SEED    see usched_point() in usched.h
 *
 * Whatever the words, a thread of rr, ll, ws and the like that is woken, posted
 * to or joined after its memory was freed is named, with its function and its
 * argument. Each processor keeps this memory, poisoned, for as long as
 * UHARD_KEPT says; AddressSanitizer reports any access to it.
 *
 *	usched: wake: thread 0x7f21ab7fe040 (function 0x55a170, argument 0x0)
 *	has ended, and was freed
 *
 * What breaks a rule ends in usched_fail(), as does a word that is none of
 * these. Messages name threads by address, with their function and argument:
 *
 *	usched: thread 0x55d0c8 (function 0x55a1b0, argument 0x1) wrote to
 *	0x7f21ab7fee0c in lane 1, on the stack of thread 0x55d060 (function
 *	0x55a170, argument 0x0), which is blocked
 *
 *	usched: the stack of thread 0x55d060 (...), which is blocked, was
 *	written to at 0x7f21ab7fee0c in lane 1 while it was away; thread
 *	0x55d0c8 (...) ran last
 *
 *	usched: thread 0x55d0c8 (...) blocks in a catch handler, and others
 *	will find the exception: link with ucxx
 *
 * `fault' stops the culprit in the act, reader or writer. The others find out
 * when the victim is run: "ran last" is who ran before that on the same
 * dispatcher; it is the culprit for sure only with evict=always, when the
 * victim is run next.
 *
 *	USCHED_DEBUG=evict=always,poison	moves whatever can move
 *	USCHED_DEBUG=evict=always,fault		finds who did it
 *
 * CAVEATS
 *
 * - On lane 0 there is no `fault', and stack that was left is poisoned but not
 *   looked at: the dispatcher uses it.
 * - `fault' takes SIGSEGV and SIGBUS, and passes on what is not its own. A
 *   system call that is given such a pointer returns EFAULT instead.
 * - A write that changes nothing is not seen, except with `fault'.
 * - A block can return -ENOMEM for the first time that a thread blocks, also if
 *   it brought a buffer: some 150 bytes are kept of each.
 * - Of a thread that is forgotten without ustack_fini(), what is kept is freed
 *   by usched_fini().
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(USCHED_HARD)
/* Threads of a processor whose memory is kept: the last so many, or bytes. */
#define UHARD_KEPT	4096
#define UHARD_KEPT_NOB	((size_t)1 << 20)

/*
 * For schedulers: memory of threads that have ended, in the order in which they
 * were freed. Zeroed, it is empty. One native thread at a time.
 */
struct uhard_kept {
	struct ustack *g_first;
	struct ustack *g_last;
	int            g_nr;
	size_t         g_nob;
};

/*
 * Instead of a free(): u, which has ended, begins a block of nob bytes. It is
 * the scheduler's again when uhard_kept_get() returns it.
 */
void uhard_keep(struct uhard_kept *k, struct ustack *u, size_t nob);

/* The first, if there are too many, or all are wanted; else NULL. */
struct ustack *uhard_kept_get(struct uhard_kept *k, int all);

/* u is about to be woken or joined: fails if it is kept. Anyone. */
void uhard_live(const struct ustack *u, const char *call);
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
 *	restore   the buffer of u is about to be copied to slice; restored: it
 *	          was
 *	evicted   the slice has been copied to the buffer, nothing else has
 *	          changed
 *	resume    the last thing before a switch to u
 *	first     runs a new thread: what usched_launch() calls
 *	arrived   the first thing after a switch to a thread that had blocked;
 *	          or its block has failed
 *	fit       in ustack_block(), for need bytes of slice: 0 or -ENOMEM
 *	leave     the last thing before a switch to the dispatcher; l is NULL if
 *	          u has ended
 *	ended     u has ended, or is forgotten by ustack_fini(); called before
 *	          anything of that is done
 *	left      usched_left(): u was left by a longjmp(), and we are on the
 *	          stack of the caller of usched_run(); ended comes next
 *	lanes     usched_lanes() has mapped them; fini: usched_fini() begins
 *	own       own lanes have been mapped there, or are about to be unmapped
 *	cooled    what is poison in the lane will be zero
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
void uhard_left    (struct ustack *u);
void uhard_lanes   (struct usched *s);
void uhard_fini    (struct usched *s);
void uhard_own     (const void *at, size_t nob, int begins);
void uhard_cooled  (struct usched_lane *l);

/* Not API. In usched.c: copies the slice of the owner to its buffer. */
void usched_evict(struct usched_lane *l);
#endif

#ifdef __cplusplus
}
#endif

#endif /* UHARD_H */
