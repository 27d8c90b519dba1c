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
 *	yield=SEED    see UHARD() in core/sched.h
 *
 * Whatever the words are, a thread of rr, ll, ws and the like must not be
 * woken, posted to or joined after its memory was freed. If it is, a message
 * names the thread, its function and its argument. Each processor keeps this
 * memory, poisoned, for as long as UHARD_GRAVES says; AddressSanitizer reports
 * any access to it.
 *
 *	usched: wake: thread 0x7f21ab7fe040 (function 0x55a170, argument 0x0)
 *	has ended, and was freed
 *
 * The same holds for channels, scopes, threads of uthread.h, generators and
 * jobs: each call that uses one after its end is named, with the call that has
 * ended it. A lock or another object of usync.h is named if it lies on the stack
 * of a thread that waits, or is none. A thread must not end while it holds a
 * lock, or in a scope that it has begun. A lock is unlocked before its memory
 * is freed.
 *
 *	usched: uchan_send: the uchan 0x55d5c0 was freed by uchan_free() in
 *	thread 0x7f21ab7fe040 (function 0x55a170, argument 0x0)
 *
 * A broken rule ends the program by usched_fail(). With an unknown word in
 * USCHED_DEBUG nothing begins: core/env.h. Messages name threads by address,
 * with their function and argument:
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
 * FOR MODULES. An object begins to be checked with its first use. o_magic, or a
 * word of the object that stands for it, is 0 before.
 */
enum uhard_kind {
	UHARD_MUTEX = 1, UHARD_COND, UHARD_SEM, UHARD_RW, UHARD_GROUP,
	UHARD_BARRIER, UHARD_ONCE, UHARD_CHAN, UHARD_SCOPE, UHARD_UTHREAD,
	UHARD_GEN, UHARD_WORK, UHARD_THREAD,
	UHARD_MADE		/* only for uhard_hold(): by uthread.c, uscope.c */
};

/* A part of each object that is freed by a call. Zeroed, the object is new. */
struct uhard_object {
	unsigned             o_magic;	/* (atomic) */
	const char          *o_call;	/* the call that has ended it */
	const struct ustack *o_who;	/* caller of o_call, or gone; NULL: native */
	void               (*o_f)(void *);
	void                *o_arg;
	struct uhard_object *o_next;	/* from here on: in a quarantine */
	void                *o_block;
	size_t               o_nob;
};

/* Makes o new, in memory that may have been used before. */
void uhard_begins(struct uhard_object *o);

/*
 * Fails if the object, which is about to be used by this call, is none of this
 * kind, or was freed, or lies on the stack of a thread that waits. Any thread.
 */
void uhard_object(const void *object, unsigned *magic, int kind,
		  const char *call);

/*
 * A quarantine: the memory of objects that were freed, in this order. It keeps
 * so many, or so many bytes, and poisons no more of a block. All zero is empty.
 * Any thread.
 */
#define UHARD_GRAVES	4096
#define UHARD_GRAVES_NOB	((size_t)1 << 20)

struct uhard_graves {
	struct uhard_object *g_first;
	struct uhard_object *g_last;
	int                  g_nr;	/* (atomic) */
	size_t               g_nob;
};

/* Notes that this call ends o, whose memory is still used by others. */
void uhard_ends(struct uhard_object *o, int kind, const char *call);

/*
 * Takes a block of nob bytes with o in it, instead of a free(). Nothing behind
 * o may be used until uhard_grave_get() returns the block.
 */
void uhard_grave_put(struct uhard_graves *k, struct uhard_object *o,
		     void *block, size_t nob);

/*
 * Returns the first block if there are too many, or if all are wanted; else
 * NULL.
 */
void *uhard_grave_get(struct uhard_graves *k, int all);

/*
 * Frees the block of o, from malloc(), after a quarantine; uhard_ends() has been
 * called.
 */
void uhard_free(struct uhard_object *o, void *block, size_t nob);

/*
 * Fails if the thread u, which is about to be used by the call that set and
 * call name, was freed. Any thread.
 */
void uhard_live(const struct ustack *u, const struct uhard_object *o,
		const char *set, const char *call);

/* Notes what the running thread holds: it must not end before. */
void uhard_hold(const void *object, int kind);

/*
 * Notes a release. Returns whether the thread may have held that. Native
 * threads always may.
 */
int  uhard_unhold(const void *object);

/* Ends the program. The message begins with set and call: "rr_" and "join", say. */
void uhard_fail(const char *set, const char *call, const char *text);
#endif

#ifdef __cplusplus
}
#endif

#endif /* UHARD_H */
