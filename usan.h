/* SPDX-License-Identifier: MIT */
/* usan.h: what sanitizers are told of our switches. For uhard.c only. */

#ifndef USAN_H
#define USAN_H

/* To be written. */

#include <stddef.h>

/* What a sanitizer keeps of one stack: of a thread, or of a dispatcher. */
struct usan {
	const void *n_low;	/* the stack: lane, or native */
	size_t      n_size;
	void       *n_fake;	/* ASan: its fake stack while it does not run */
	void       *n_fiber;	/* TSan */
	char       *n_shadow;	/* ASan: shadow of the slice while it is away */
	size_t      n_shadow_nr;
};

/* A dispatcher starts to run on the current stack, whatever that is. */
static inline void usan_home(struct usan *n)
{
	(void)n;
}

/* A thread will run for the first time, on [low, low + size). */
static inline void usan_thread(struct usan *n, const void *low, size_t size)
{
	n->n_low  = low;
	n->n_size = size;
}

/* It has ended, and does not run any more. */
static inline void usan_end(struct usan *n)
{
	(void)n;
}

/* The last thing before a switch; from will not come back if it has ended. */
static inline void usan_leave(struct usan *from, struct usan *to, int ended)
{
	(void)from, (void)to, (void)ended;
}

/* The first thing after a switch. */
static inline void usan_arrive(struct usan *n)
{
	(void)n;
}

/* Room for the shadow of a slice of nob bytes. 0 or -ENOMEM. */
static inline int usan_fit(struct usan *n, size_t nob)
{
	(void)n, (void)nob;
	return 0;
}

/* The slice has been copied out; is to be copied in; was copied in. */
static inline void usan_save(struct usan *n, const char *slice, size_t nob)
{
	(void)n, (void)slice, (void)nob;
}

static inline void usan_restore(struct usan *n, char *slice, size_t nob)
{
	(void)n, (void)slice, (void)nob;
}

/* Nobody's frames are there any more. */
static inline void usan_clear(const char *low, const char *high)
{
	(void)low, (void)high;
}

/* Lanes are (or not any more) where a leak checker looks for pointers. */
static inline void usan_lanes(const void *at, size_t nob, int begins)
{
	(void)at, (void)nob, (void)begins;
}

#endif /* USAN_H */
