/* SPDX-License-Identifier: MIT */
/* pface.h: what the parts of the pthread face share. Private. */

#ifndef PFACE_H
#define PFACE_H

/*
 * A function f of the face is called __wrap_f, as the linker's --wrap would
 * have it. The function of libc is f, or, in a program that is linked with
 * --wrap=f, __real_f. So these files are compiled once for both ways of use.
 * Each includes this header first.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* these files leave no mark: see uproc.h */
#include "uself.h"
#include "compiler.h"

#include <pthread.h>
#include <stdbool.h>

#define FACE(name)	__wrap_##name

/*
 * ONE ARCHIVE serves the plain library and that of the hard mode (usched.h has
 * the two names). Nothing here looks into a struct that is larger there, and
 * where an object lies there is room for the larger. Machines of 32 bits have
 * no such room in a pthread_mutex_t: their archive serves the plain library.
 */
#if __SIZEOF_POINTER__ < 8
#define PFACE_ROOM	0
#elif defined(USCHED_HARD)
#pragma weak usched_with_USCHED_HARD__or_compile_this_file_without_it
#define PFACE_ROOM	0
#else
#pragma weak usched_without_USCHED_HARD__or_compile_this_file_with_it
#define PFACE_ROOM	8	/* bytes: y_home, y_magic (usync.h) */
#endif

/* An object in memory that fits each library. */
#define PFACE_OBJECT(type, name)					\
	union {								\
		type name;						\
		char name##_room[sizeof(type) + PFACE_ROOM];		\
	}

/* Before a function that ext/sim/ has, too: a program that links both gets that. */
#define SIM_FIRST	__attribute__((weak))

/* Names the function of libc; REAL(f) calls it. */
#define NATIVE(name)	\
	extern __typeof__(name) __real_##name __attribute__((weak))
#define REAL(name)	(__real_##name != NULL ? __real_##name : name)

/*
 * The main() that is a thread, which names that thread, and what calls it. Set
 * by pstart.c before it makes any thread. Then the last thread that ends ends
 * the process. A host of ext/sim/ has no such main(): NULL.
 */
extern struct pface_main {
	void  (*m_f)(void *);
	void *(*m_run)(void *);
} pface_main;

/*
 * Begins a wait that is a cancellation point. Does not return if the caller was
 * cancelled.
 */
void pface_point(void);

/* Ends it. rc: of the wait. Does not return if the wait was cancelled. */
void pface_pointed(int rc);

/* Returns the count of read locks that the caller, or native thread, has. */
unsigned *pface_reads(void);

/*
 * Does a wait again, in a shield, if a scope around the caller is cancelled:
 * POSIX knows no lock that fails for that. A wait without memory ends the
 * program, since most code for pthreads looks at no result.
 */
#define PFACE_INSIST(rc, wait)						\
	do {								\
		struct uscope *shield_ = NULL;				\
									\
		(rc) = (wait);						\
		if ((rc) == -ECANCELED &&				\
		    uscope_shield(&shield_, UNEVER) == 0) {		\
			(rc) = (wait);					\
			(void)uscope_end(&shield_);			\
		}							\
		if ((rc) == -ENOMEM || (rc) == -ECANCELED)		\
			usched_fail("pthread: no memory for a wait");	\
	} while (0)

/* Lets others run before the caller, if that is a thread of ours. */
void pface_give_way(void);

/* Sets *until to a point in time of a clock. 0, EINVAL. */
int pface_deadline(clockid_t clock, const struct timespec *t, utime_ns *until);

/*
 * Returns 0, or sets errno and returns -1. Never inline: compilers keep the
 * address of errno, and threads move.
 */
HIDDEN int pface_errno(int error);

#endif /* PFACE_H */
