/* SPDX-License-Identifier: MIT */
/* snames.h: how names of libc are taken. Private. */

#ifndef SNAMES_H
#define SNAMES_H

#include "sim.h"

#include <errno.h>

/*
 * Defines the function to which sim.flags leads calls of a name. In it, the name
 * itself is libc's.
 */
#define NAME(type, name, args)						\
	type wrap_##name args __asm__("__wrap_" #name);			\
	type wrap_##name args

/* What else libc's headers make of a name. */
#define ALIAS(type, name, args, real)					\
	type alias_##name args __asm__("__wrap_" #name)			\
		__attribute__((alias("__wrap_" #real)));

/* Defines a name that hosts must not call, nor others. */
#define REFUSE(name)							\
	void refused_##name(void) __asm__("__wrap_" #name);		\
	void refused_##name(void)					\
	{								\
		usim_fail("%s() is not simulated", #name);		\
	}

/* Returns the boot of the caller; NULL: the caller gets libc. */
static inline struct sim_boot *enter(void)
{
	struct sim_boot *b = sim_self();

	if (b != NULL)
		sim_busy();
	return b;
}

/* Turns a deadline into a time of the run; 0: it is UNOW. */
static inline utime_ns time_of(utime_ns until)
{
	if (until == UNEVER || until == UNOW)
		return until;
	return until > UTIME_VIRTUAL ? until - UTIME_VIRTUAL : 1;
}

/* Turns -errno to what libc returns. */
static inline ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* open(), as a host calls it. */
int sim_open_name(const char *path, int flags, ...) __asm__("__wrap_open");

#endif /* SNAMES_H */
