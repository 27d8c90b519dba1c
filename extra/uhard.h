/* SPDX-License-Identifier: MIT */
/* uhard.h: the hard mode: moves what can move, poisons what is dead. */

#ifndef UHARD_H
#define UHARD_H

/*
 * The hard mode finds bugs in programs, schedulers and the library itself. It
 * looks above all for pointers into the stack of a thread that are used while
 * the thread is blocked. In a plain build such a pointer works as long as the
 * slice happens to stay in place; after that, a write destroys the stack of
 * another thread.
 *
 * Build all files of the program with -DUSCHED_HARD, and link uhard.c with
 * them. USCHED_DEBUG in the environment chooses what the mode does. It is a
 * list of words between commas, read at the first usched_lanes() or
 * usched_run():
 *
 *	evict=always  each thread that blocks is evicted at once
 *	evict=never   a thread is evicted only when another needs its lane, as
 *	              in a plain build: the default
 *	evict=SEED    at random; SEED is a number
 *	poison        dead memory is overwritten, and checked before it is
 *	              used again: stack that a thread has left, some of the
 *	              stack below a slice that stayed, and buffers while their
 *	              slice is on the stack
 *	fault         a lane in which no slice lies cannot be accessed. The
 *	              message names the thread that did, and the threads whose
 *	              stack that is
 *	check         each slice has a checksum, taken when its thread blocks
 *	              and compared when the thread goes on, or moves: the
 *	              default
 *	check=never   no checksums
 *	yield=SEED    see usched_point() in usched.h
 *
 * Whatever the words are, a thread of rr, ll, ws and the like must not be
 * woken, posted to or joined after its memory was freed. If it is, a message
 * names the thread, its function and its argument. Each processor keeps this
 * memory, poisoned, for as long as UHARD_KEPT says; AddressSanitizer reports
 * any access to it.
 *
 *	usched: wake: thread 0x7f21ab7fe040 (function 0x55a170, argument 0x0)
 *	has ended, and was freed
 *
 * A broken rule ends the program by usched_fail(), and so does an unknown word
 * in USCHED_DEBUG. Messages name threads by address, with their function and
 * argument:
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
 * With `fault', the thread that makes a bad access is stopped in the act,
 * whether it reads or writes. The other words find the damage only when the
 * victim is run. "Ran last" then names the thread that ran before that on the
 * same dispatcher. It is certainly the culprit only with evict=always, if the
 * victim is run next.
 *
 *	USCHED_DEBUG=evict=always,poison	moves every slice that can move
 *	USCHED_DEBUG=evict=always,fault		finds the culprit
 *
 * CAVEATS
 *
 * - On lane 0 there is no `fault', and stack that a thread has left is poisoned
 *   but not checked: the dispatcher uses it.
 * - `fault' takes SIGSEGV and SIGBUS, and passes on all other faults. A system
 *   call that is given a pointer into such a lane returns EFAULT instead.
 * - A write that changes nothing is not noticed, except with `fault'.
 * - The first block of a thread may return -ENOMEM even if the thread brought a
 *   buffer: some 150 bytes are kept for each thread.
 * - If a thread is forgotten without ustack_fini(), usched_fini() frees its
 *   record.
 */

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(USCHED_HARD)
/*
 * A processor keeps the memory of this many ended threads, or this many bytes.
 */
#define UHARD_KEPT	4096
#define UHARD_KEPT_NOB	((size_t)1 << 20)

/*
 * For schedulers: the memory of threads that have ended, in the order in which
 * they were freed. All zero is an empty list. One native thread at a time.
 */
struct uhard_kept {
	struct ustack *g_first;
	struct ustack *g_last;
	int            g_nr;
	size_t         g_nob;
};

/*
 * Takes the memory of u, which has ended, instead of a free(). u begins a block
 * of nob bytes. The block is the scheduler's again when uhard_kept_get()
 * returns it.
 */
void uhard_keep(struct uhard_kept *k, struct ustack *u, size_t nob);

/*
 * Returns the first block if there are too many, or if all are wanted; else
 * NULL.
 */
struct ustack *uhard_kept_get(struct uhard_kept *k, int all);

/* Fails if u, which is about to be woken or joined, is kept. Any thread. */
void uhard_live(const struct ustack *u, const char *call);
#endif

/*
 * Not API: the points at which usched.c calls the mode. "home" is on the stack
 * of the dispatcher. u is never NULL; l may be lane 0.
 *
 *	begin     usched_run() begins, on the native thread; end: it returns
 *	home      the first call after a switch to the dispatcher, and at the
 *	          start of each round; if a thread has left since the last
 *	          home, it has blocked or ended
 *	enter     u is about to be run on l, which must become accessible; if
 *	          another thread owned l, it has been evicted
 *	restored  the buffer has been copied
 *	evicted   the slice has been copied to the buffer; nothing else has
 *	          changed
 *	resume    the last call before a switch to u
 *	first     runs a new thread: usched_launch() calls this
 *	arrived   the first call after a switch to a thread that had blocked,
 *	          or after its block has failed
 *	fit       in ustack_block(), for need bytes of slice: 0 or -ENOMEM
 *	leave     the last call before a switch to the dispatcher; l is NULL if
 *	          u has ended
 *	ended     u has ended, or ustack_fini() forgets it; called before any
 *	          change
 *	left      usched_left(): u was left by a longjmp(), and the caller of
 *	          usched_run() is on its own stack; ended comes next
 *	lanes     usched_lanes() has mapped lanes; fini: usched_fini() begins
 *	own       own lanes have been mapped there, or are about to be unmapped
 *	cooled    the poison in the lane will be replaced by zeros
 */
#if defined(USCHED_HARD)
void uhard_begin   (struct usched *s);
void uhard_end     (struct usched *s);
void uhard_home    (struct usched *s);
void uhard_enter   (struct ustack *u, struct usched_lane *l);
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

/* Not API. In usched.c: copies the slice of the owner of l to its buffer. */
void usched_evict(struct usched_lane *l);
#endif

#ifdef __cplusplus
}
#endif

#endif /* UHARD_H */
