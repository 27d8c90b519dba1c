/* SPDX-License-Identifier: MIT */
/* uslice.h: what modules of the library may know of slices. Not API. */

#ifndef USLICE_H
#define USLICE_H

#include "usched.h"

#define USLICE_HIDDEN	__attribute__((visibility("hidden")))

/* In u_top: as in usched.c, which says what they mean. */
#define USLICE_FP	1
#define USLICE_NONE	2
#define USLICE_AWAY	4
#define USLICE_LOW	7
#define USLICE_NEW	((char *)USLICE_NONE)	/* or NULL: filled by hand */
#define USLICE_ENDED	((char *)(USLICE_NONE | USLICE_AWAY))

static inline int uslice_is_new(const struct ustack *u)
{
	return u->u_top == USLICE_NEW || u->u_top == NULL;
}

/* Is u running on this native thread, or does it run a dispatcher here? */
USLICE_HIDDEN int usched_runs(const struct ustack *u);

/*
 * Bytes of the slice of u, which does not run: 0 if it is new or has ended. If
 * to is not NULL the slice is copied there, whole, as it would be in its lane.
 */
USLICE_HIDDEN ptrdiff_t usched_slice(const struct ustack *u, char *to);

/* Bytes that are copied when u, which is blocked, moves out or in. */
USLICE_HIDDEN ptrdiff_t usched_stored(const struct ustack *u);

/* The lane that the next new thread will be given, if none of its own. */
USLICE_HIDDEN int usched_lane(const struct usched *s);

/*
 * How many own lanes are mapped, with the numbers after s_lane_nr. They do not
 * become fewer. o is s_own, and may be NULL. Also for signal handlers.
 */
USLICE_HIDDEN int usched_own_nr(const struct usched_own *o);

/* The machine: see usched.c. usched_back() is its usched_resume(). */
USLICE_HIDDEN int usched_save(void (*f)(char *sp, void *arg), void *arg);
USLICE_HIDDEN void usched_launch(char *bottom, void (*f)(void *), void *arg);
USLICE_HIDDEN __attribute__((noreturn)) void usched_back(char *sp, int rc);

/* What seems to have called s_alloc() and s_free() when a thread blocks. */
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
extern const char usched_live[];
#define USLICE_SWITCH	((uintptr_t)usched_live)
#else
#define USLICE_SWITCH	((uintptr_t)usched_save)
#endif

#endif /* USLICE_H */
