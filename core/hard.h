/* SPDX-License-Identifier: MIT */
/* core/hard.h: the hard mode's part of structs, and where it is called. */

struct usched;
struct usched_lane;
struct ustack;

/* What a thread holds: see HOLDS in uobject.h. */
#define UHARD_HOLDS	8
struct uhard_holds {
	int         hs_nr;
	int         hs_more;	/* that found no place in hs_at */
	const void *hs_at[UHARD_HOLDS];
	int         hs_kind[UHARD_HOLDS];
};

/* What the hard mode (uhard.h) keeps of a lane. */
struct uhard_lane {
	char                *k_low;	/* where bytes that stay poisoned begin */
	char                *k_high;	/* where bytes that stay poisoned end, or NULL */
	const struct ustack *k_last;	/* ran here last; may be gone */
	void               (*k_f)(void *);	/* the function of k_last */
	void                *k_arg;	/* the argument of k_f */
	int                  k_shut;	/* the lane is inaccessible, or about
					 * to be (atomic) */
	unsigned             k_opened;	/* how often it was opened (atomic) */
};

/*
 * Not API: the points at which the dispatcher calls the mode (uhard.h). u is
 * never NULL; l may be lane 0.
 *
 *	begin     usched_run() begins, on the native thread; end: it returns
 *	at_base   the first call after a switch to the dispatcher, and at the
 *	          start of each round; if a thread has left since the last
 *	          at_base, it has blocked or ended
 *	enter     u is about to be run on l, which must become accessible; if
 *	          another thread owned l, it has been evicted
 *	restored  the buffer has been copied
 *	evicted   the slice has been copied to the buffer; nothing else has
 *	          changed
 *	resume    the last call before a switch to u
 *	first     runs a new thread: usched_launch() calls this
 *	arrived   the first call after a switch to a thread that had blocked,
 *	          or after its block has failed
 *	fit       in ustack_block(), for need bytes of slice; may set *rc to -ENOMEM
 *	leave     the last call before a switch to the dispatcher; l is NULL if
 *	          u has ended
 *	ended     u has ended, or ustack_fini() forgets it; called before any
 *	          change
 *	left      usched_left(): u was left by a longjmp(), and the caller of
 *	          usched_run() is on its own stack; ended comes next
 *	lanes     usched_lanes() has mapped lanes; fini: usched_fini() begins
 *	private   private lanes have been mapped there, or will be unmapped
 *	cooled    the poison in the lane will be replaced by zeros
 *	yield     the running thread may give way: core/sched.h
 */
void uhard_begin   (struct usched *s);
void uhard_end     (struct usched *s);
void uhard_at_base (struct usched *s);
void uhard_enter   (struct ustack *u, struct usched_lane *l);
void uhard_restored(struct ustack *u, struct usched_lane *l, char *slice);
void uhard_evicted (struct ustack *u, struct usched_lane *l, char *slice);
void uhard_resume  (struct ustack *u);
void uhard_first   (void *ustack);
void uhard_arrived (void);
void uhard_fit     (struct ustack *u, ptrdiff_t need, int *rc);
void uhard_leave   (struct ustack *u, struct usched_lane *l);
void uhard_ended   (struct ustack *u);
void uhard_left    (struct ustack *u);
void uhard_lanes   (struct usched *s);
void uhard_fini    (struct usched *s);
void uhard_private     (const void *at, size_t nob, int begins);
void uhard_cooled  (struct usched_lane *l);
void uhard_yield   (void);

/* Not API (core/ask.h). Copies the slice of the owner of l to its buffer. */
void usched_evict(struct usched_lane *l);
