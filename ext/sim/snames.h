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

/*
 * CANCELLATION POINTS. These functions are of the pthread face (pface.h), and NULL if
 * that is not linked. A call that POSIX has as such a point begins with enter_point(),
 * which does not return if the caller was cancelled before. A cancellation during a wait
 * ends the wait with -ECANCELED. Then pointed(), the end of the call, does not return.
 */
void pface_point(void) __attribute__((weak));
void pface_pointed(int rc) __attribute__((weak));

static inline void point_begin(void)
{
	if (pface_point != NULL)
		pface_point();
}

static inline struct sim_boot *enter_point(void)
{
	struct sim_boot *b = enter();

	if (b != NULL)
		point_begin();
	return b;
}

static inline void point_end(ssize_t rc)
{
	if (pface_pointed != NULL)
		pface_pointed(rc < 0 ? (int)rc : 0);
}

static inline ssize_t pointed(ssize_t rc)
{
	point_end(rc);
	return answer(rc);
}

/* open(), as a host calls it. */
int sim_open_name(const char *path, int flags, ...) __asm__("__wrap_open");

#endif /* SNAMES_H */
