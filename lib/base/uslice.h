/* SPDX-License-Identifier: MIT */
/* uslice.h: slices, for modules of the library. Not API. */

#ifndef USLICE_H
#define USLICE_H

#include "usched.h"
#include "compiler.h"

#include <stddef.h>
#include <stdint.h>

/* What a slice holds depends on the switch: as usched_kind in usched.h. */
USCHED_STAYS static const char *const uslice_kind = USCHED_KIND_PORTABLE;

/* Bits of u_top: the same as in usched.c, where they are explained. */
#define USLICE_FP	1
#define USLICE_NONE	2
#define USLICE_AWAY	4
#define USLICE_LOW	7
#define USLICE_NEW	((char *)USLICE_NONE)	/* NULL if filled by hand */
#define USLICE_ENDED	((char *)(USLICE_NONE | USLICE_AWAY))

static inline int uslice_is_new(const struct ustack *u)
{
	return u->u_top == USLICE_NEW || u->u_top == NULL;
}

/* In s_steps: the thread of a usched_step() has ended. */
#define USLICE_STEP_ENDED	2

/* Returns where the slice of u lies, or belongs. */
static inline const char *uslice_place(const struct ustack *u)
{
	return (const char *)((uintptr_t)u->u_top & ~(uintptr_t)USLICE_LOW);
}

/*
 * Returns where the bytes of the slice of u are, which has begun and not ended, and
 * sets *nob to how many: in the lane, or in the buffer, without prologue words that it
 * may lack (core/buffer.h). The lanes are those of s.
 */
static inline const char *uslice_bytes(const struct usched *s, const struct ustack *u,
				       size_t *nob)
{
	const char *at = uslice_place(u);
	size_t len = (size_t)u->u_len & ~(size_t)USLICE_LOW;

	*nob = (size_t)(s->s_lane[u->u_lane].l_bottom - at);
	if (!((uintptr_t)u->u_top & USLICE_AWAY))
		return at;
	*nob = len < *nob ? len : *nob;
	return (const char *)u->u_stack;
}

/* Tells whether u runs, or runs a dispatcher, on this native thread. */
HIDDEN int usched_runs(const struct ustack *u);

/*
 * Returns the bytes of the slice of u, which must not be running; 0 if u is new
 * or has ended. Unless to is NULL, copies the whole slice there, as it would
 * lie in its lane.
 */
HIDDEN ptrdiff_t usched_slice(const struct ustack *u, char *to);

/* Returns how many bytes are copied when u, which is blocked, moves. */
HIDDEN ptrdiff_t usched_stored(const struct ustack *u);

/* Returns the lane of the next new thread, unless what it runs decides that. */
HIDDEN int usched_lane_next(const struct usched *s);

/*
 * Writes the name of the function at an address to text; "": it has none, or
 * there are no names (usched_name_by()). Signal handlers.
 */
HIDDEN void usched_name(char *text, size_t size, const void *at);

/*
 * Writes to text what u has done, which runs and has faulted at this address,
 * with this context of a handler. NULL: no thread runs there. 0: unknown. Signal
 * handlers.
 */
HIDDEN int usched_explain(const struct ustack *u, uintptr_t at,
			  const void *context, char *text, size_t size);

/*
 * Gives this native thread an alternate stack for handlers of faults, and
 * returns that. NULL: it has an alternate stack already, which then serves, too;
 * or there is no memory, and a fault has no message.
 */
HIDDEN void *usched_alternate_begin(void);

/* Takes away what usched_alternate_begin() has returned. */
HIDDEN void usched_alternate_end(void *alternate);

/*
 * Returns whether the running thread, of s, is in a parallel region of OpenMP. Signal
 * handlers that have interrupted neither libc nor a runtime of OpenMP.
 */
HIDDEN int usched_in_region(const struct usched *s);

/* Returns whether the nr-th private lane, from 1, was promised to its thread. */
HIDDEN int usched_lane_promised(const struct usched_private *p, int nr);

/* Takes the lane of u, which begins, if what it runs decides that, or returns 0. */
HIDDEN int usched_lane_for(struct usched *s, const struct ustack *u);

/* The same for u, which is new, and about to begin. */
static inline void uslice_lane(struct usched *s, struct ustack *u)
{
	if (u->u_lane <= 0)
		u->u_lane = (short)usched_lane_for(s, u);
}

/* The machine: see usched.c. usched_resume_at() is its usched_resume(). */
HIDDEN int usched_save(void (*f)(char *sp, void *arg), void *arg);
HIDDEN void usched_launch(char *bottom, void (*f)(void *), void *arg);
HIDDEN NORETURN void usched_resume_at(char *sp, int rc);

/*
 * A running thread at one moment: its registers by their numbers in DWARF (on
 * x86-64: 7 is sp, 16 is pc), zero where they are unknown, and what lay then in
 * the m_nob bytes from sp upwards. m_bottom is the end of its stack.
 */
struct utrace_moment {
	uintptr_t   m_reg[17];
	const char *m_bottom;
	const char *m_copy;
	size_t      m_nob;
	int         m_sure;	/* set: the thread ran code of its own */
};

/*
 * Stores the addresses at which that thread was, innermost first; all but the
 * first are return addresses. Ends where the copy does, and where a register is
 * needed that is unknown. Returns how many there are, as ustack_trace(); 0 in
 * the middle of a switch; -ENOMEM, -ENOSYS. Any native thread.
 */
HIDDEN int utrace_moment(struct utrace_moment *m, void **pc, int nr);

/* The address that seems to call s_alloc() and s_free() in a block. */
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
extern const char usched_live[];
#define USLICE_SWITCH	((uintptr_t)usched_live)
#else
#define USLICE_SWITCH	((uintptr_t)usched_save)
#endif

#endif /* USLICE_H */
