/* SPDX-License-Identifier: MIT */
/* uslice.h: slices, for modules of the library. Not API. */

#ifndef USLICE_H
#define USLICE_H

#include "usched.h"

#define USLICE_HIDDEN	__attribute__((visibility("hidden")))

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

/* Tells whether u runs, or runs a dispatcher, on this native thread. */
USLICE_HIDDEN int usched_runs(const struct ustack *u);

/*
 * Returns the bytes of the slice of u, which must not be running; 0 if u is new
 * or has ended. Unless to is NULL, copies the whole slice there, as it would
 * lie in its lane.
 */
USLICE_HIDDEN ptrdiff_t usched_slice(const struct ustack *u, char *to);

/* Returns how many bytes are copied when u, which is blocked, moves. */
USLICE_HIDDEN ptrdiff_t usched_stored(const struct ustack *u);

/* Returns the lane of the next new thread, unless that gets an own lane. */
USLICE_HIDDEN int usched_lane(const struct usched *s);

/*
 * Returns how many own lanes are mapped; their numbers follow s_lane_nr. The
 * result never decreases. o is s_own, and may be NULL. Any thread; signal
 * handlers.
 */
USLICE_HIDDEN int usched_own_nr(const struct usched_own *o);

/* The machine: see usched.c. usched_back() is its usched_resume(). */
USLICE_HIDDEN int usched_save(void (*f)(char *sp, void *arg), void *arg);
USLICE_HIDDEN void usched_launch(char *bottom, void (*f)(void *), void *arg);
USLICE_HIDDEN __attribute__((noreturn)) void usched_back(char *sp, int rc);

/* The address that seems to call s_alloc() and s_free() in a block. */
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
extern const char usched_live[];
#define USLICE_SWITCH	((uintptr_t)usched_live)
#else
#define USLICE_SWITCH	((uintptr_t)usched_save)
#endif

#endif /* USLICE_H */
